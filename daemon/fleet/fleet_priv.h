/* fleet_priv.h -- what the files of fleet/ share. */
#ifndef TARN_FLEET_PRIV_H
#define TARN_FLEET_PRIV_H

#include <stdatomic.h>

#include "conf/conf.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/fleet/engine_conn.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/fleet_state.h"
#include "daemon/fleet/link.h"
#include "daemon/shm/counters.h"

enum {
    FLEET_NODES_MAX = 1024,
    FLEET_NAME_MAX = 64,
    FLEET_KEY_MAX = 256,               /* of the engine's, with its NUL */
    FLEET_QUEUED_MAX = 100000,         /* invalidations that are not in the log yet */
    FLEET_ENTRY_BYTES_MAX = 128 << 20, /* they and those that are kept for another engine */
    FLEET_STRIDES = 64,                /* by which the log's bytes are counted */
    FLEET_READ_BATCH = 512,            /* entries of the log in one reply */
    FLEET_READ_BLOCK_MS = 1000,        /* how long the engine waits for one, at most */
    FLEET_POLL_MS = 1000,   /* between looks at the nodes, while no proof is waited for; and */
    FLEET_POLL_NODE_MS = 8, /* for each of them, as each looks at all */
    FLEET_LAG_MS = 900, /* what was in the log then is applied, or the node lags; below POLL_MS */
    FLEET_TRIM_MS = 10000,
    FLEET_GONE_GUARDS = 10, /* guard times after which a name without a node is removed */
    FLEET_ENGINE_AGE_S = 365 * 24 * 60 * 60, /* and an incarnation that was met so long ago */
    FLEET_STATE_MS = 1000,                   /* between two writings of the state file */
    FLEET_CLAIM_AGAIN_MS = 250,
    FLEET_COMPLAIN_MS = 1500, /* of a name that another one has */
    FLEET_SECRET_BYTES = 32,
    FLEET_GUARD_MAX_MS = 2 * 60 * 60 * 1000, /* of another node; max_blind is an hour at most */
    FLEET_VALUE_MAX = 280 + FLEET_ADDRESS_MAX,
};

/* Where the node stands. */
enum fleet_state {
    FLEET_APART,    /* the engine does not know it, or not as this process */
    FLEET_CLAIMING, /* it asks for its name */
    FLEET_ENTERING, /* it writes its first entry, from which on it reads */
    FLEET_IN,       /* it has a position */
    FLEET_RETIRED,  /* it goes, for good: its name is free for the one that follows */
};

/* Commands, by what becomes of their reply. */
enum fleet_tag {
    TAG_TIME,    /* the engine's clock */
    TAG_SEE,     /* since when this engine is known: written, unless it is */
    TAG_SEEN,    /* and read */
    TAG_ANCHOR,  /* is our place in the log still there? */
    TAG_QUEUED,  /* of a transaction: what counts comes with its EXEC */
    TAG_CLAIM,   /* our key, if it is free */
    TAG_OWNER,   /* which process has it */
    TAG_MEMBER,  /* our name among all */
    TAG_ENTER,   /* our key, which is ours */
    TAG_HELLO,   /* our first entry, or one that keeps the log from being older than our place */
    TAG_REPORT,  /* our position */
    TAG_ADD,     /* an invalidation */
    TAG_TRIM,    /* what is too old, or lost */
    TAG_NODES,   /* all names, and since when this engine is known */
    TAG_VALUES,  /* what the nodes have reported */
    TAG_NEWEST,  /* the log's last entry */
    TAG_READ,    /* entries behind our place */
    TAG_PLACE,   /* was our place there when they were read? */
    TAG_MISSED,  /* entries of while we were apart */
    TAG_LEAVING, /* is our key still ours? */
    TAG_TIDY,    /* is a name that is to be removed still free? */
    TAG_SECRET,  /* one of ours, if it has none */
    TAG_SHARED_VERSIONS, /* from here on: fleet_shared_take()'s, errors too */
    TAG_SHARED_TEXT,
    TAG_SHARED_REPORTS,
    TAG_SHARED_SENT, /* there is nothing to do with its reply */
};

/* One invalidation of this node on its way into the log: the command, as it is sent. */
struct fleet_entry {
    struct list link;
    struct post post;
    struct fleet *fleet;
    uint64_t ticket;
    bool sent;          /* on this connection */
    size_t bytes;       /* of the heap */
    struct fleet_id id; /* once it is in the log */
    unsigned nwords;
    struct slice words[]; /* behind them the text */
};

/* Another node, or this one, as the engine has it. */
struct fleet_node {
    char name[FLEET_NAME_MAX + 1];
    char epoch[FLEET_STATE_EPOCH_MAX]; /* "": it is not known */
    char address[FLEET_ADDRESS_MAX + 1];
    uint64_t policy;
    bool lives, in_step;
    struct fleet_id position;
    uint64_t gone_ms;    /* since when it does not live; 0: it does */
    uint64_t changed_ms; /* when its position was last seen to be another */
    uint64_t number;     /* of its last report */
    uint64_t seen_ms;    /* when that was seen first; without any: its name */
    uint64_t guard_ms;   /* its own; 0: not known */
};

/* Where the log was, and when. */
struct fleet_mark {
    struct fleet_id newest;
    uint64_t at_ms;
};

#define FLEET_MAGIC OBJ_TAG('f', 'l', 'e', 't')
struct fleet {
    uint32_t magic;
    enum fleet_state state;
    struct fleet_env env;
    char epoch
        [FLEET_STATE_EPOCH_MAX]; /* of this process: another one with our name is another node */
    struct task task;
    struct timer timer;
    struct link commands, reading;
    int state_fd;                         /* -1: none */
    struct fleet_state_line before, kept; /* as the file had it at the start, and has it */
    uint64_t state_ms;
    struct resolver *resolver;
    bool commands_were_up, reading_was_up;
    bool joined;       /* once at least: something may be stored */
    uint64_t taken_ms; /* since when another one has our name; 0: none has */
    bool complained;   /* of another node with our name, or of its being unknown */
    char log_key[FLEET_KEY_MAX], nodes_key[FLEET_KEY_MAX], node_key[FLEET_KEY_MAX];
    char engine_mark[1 + LINK_INCARNATION_MAX]; /* among the names: "=INCARNATION" */
    char count_text[24];                        /* log_entries */
    const char *trouble; /* why it is not IN although the engine is there; a static text or NULL */

    /* The lease. */
    uint64_t entered_ms;     /* when our key was set that the position before ENTERING is not in */
    uint64_t report_sent_ms; /* of the report under way */
    uint64_t report_number;
    uint64_t reported_ms; /* when the last one was sent that the engine has taken */
    uint64_t read_ms;     /* when the last reading was sent that left nothing unread */
    uint64_t read_sent_ms;
    bool reports, report_due, trusts, distrust_due;
    bool shown;        /* that it trusts, as the counter has it */
    int64_t apart_ms;  /* since when it does not */
    uint64_t claim_ms; /* not before */
    int64_t guard_ms;  /* how long the engine knows this node when it is silent */
    int64_t
        guard_max_ms; /* the longest of all nodes that were ever seen: for what may still be trusted elsewhere */

    /* Peers. */
    bool says; /* and so it needs the secret */
    uint64_t
        alone_ms; /* it asks none before: places of a log that was lost may be ahead of those of this one */
    char address[FLEET_ADDRESS_MAX + 1];
    uint64_t policy;
    char secret[2 * FLEET_SECRET_BYTES + 1]; /* "": not known */
    char secret_key[FLEET_KEY_MAX];
    bool secret_refused;                  /* ours was not taken: the key is there */
    char secret_why[FLEET_KEY_MAX + 160]; /* what is wrong with that; "": nothing */

    struct fleet_shared *shared; /* NULL: nothing is */

    /* Reading. */
    struct fleet_id position; /* everything up to there has been applied */
    struct fleet_id read_to;  /* of the reading under way */
    bool reads, read_all;
    struct fleet_id
        missed; /* none; or behind it are entries that were not read while it was apart */
    struct fleet_id strides[FLEET_STRIDES]; /* a ring: where each log_bytes / FLEET_STRIDES ended */
    unsigned nstrides;
    uint64_t stride_bytes;    /* since the last one */
    struct fleet_id measured; /* up to there the log's bytes are counted */
    bool catches_up;          /* they are read now: it reports, and trusts anything, behind them */
    unsigned nmissed;         /* that were applied */
    bool anchored;            /* its place is known to be in the log of this engine */
    char followed[LINK_INCARNATION_MAX]; /* the engine that entries were confirmed by */

    /* The engine's time. */
    int64_t engine_ahead_ms; /* of our monotonic clock, at least */
    int64_t engine_ahead_max_ms;
    uint64_t time_sent_ms;
    bool engine_timed;
    int64_t since_ms;         /* when it was met first, as the set of names has it */
    uint64_t mature_ms;       /* from when on proofs are given */
    uint64_t mature_least_ms; /* not before */
    bool seen_asked;

    /* Writing. */
    _Atomic uint64_t tickets;
    _Atomic unsigned nqueued;
    _Atomic uint64_t entry_bytes;
    _Atomic unsigned making;  /* invalidations of this node that are being applied and appended */
    _Atomic bool own_behind;  /* the last one that is in the log has not been read back */
    struct fleet_id last_own; /* its place */
    struct list unlogged;     /* of fleet_entry, in their order */
    struct list recent;       /* in the log, for as long as another engine may lack them */
    unsigned nrecent;
    size_t recent_bytes;
    uint64_t trimmed_ms, hello_ms;

    /* Proofs. */
    struct list waits;
    struct list watches;      /* fleet_watch.c: those of them that workers wait for */
    struct fleet_node *nodes; /* FLEET_NODES_MAX */
    unsigned nnodes;
    bool polls, polled_alive;
    uint64_t looks;                  /* begun */
    bool too_many;                   /* names, for `nodes` */
    bool refused, refused_before;    /* names or addresses, by this look and the one before */
    char tidied[FLEET_NAME_MAX + 1]; /* the name that is being removed; "": none */
    unsigned quick;
    uint64_t polled_ms;
    struct fleet_id last;               /* the log's newest entry at the last look */
    struct fleet_mark marks[2];         /* [0]: a node that is not there lags; [1] follows it */
    unsigned shown_nodes, shown_behind; /* as the counters have them */
};

static inline uint64_t
fleet_now(const struct fleet *f)
{
    return f->env.loop->clock.mono_ms;
}

/* fleet.c */
/* A command of a transaction.  False: it was not sent. */
bool fleet_queue(struct fleet *f, const struct slice *words, unsigned n);
/* Milliseconds since the epoch by the engine's clock; 0: it is not known. */
uint64_t fleet_engine_ms(const struct fleet *f);
void fleet_send_hello(struct fleet *f);
/* What is stored may be what others have purged.  Soon, if it cannot be done now. */
void fleet_distrust(struct fleet *f, const char *why);

/* When what is stored is not trusted any more, unless more is heard.  Both have to go on: a node that reports and does not
 * read would never hear of a purge. */
uint64_t fleet_lease_end(const struct fleet *f);
/* What it had is lost: no proofs before every lease of before has run out. */
void fleet_engine_is_new(struct fleet *f);
/* A node has this guard time. */
void fleet_heed_guard(struct fleet *f, int64_t guard_ms);
/* By the clock itself, as this turn may have begun long ago. */
uint64_t fleet_real_now(struct fleet *f);
/* Its place is lost: it begins anew. */
void fleet_rejoin(struct fleet *f);
void fleet_show_lease(struct fleet *f);

/* fleet_read.c: the next of what was missed. */
void fleet_read_missed(struct fleet *f);
/* It has joined anew: nothing of the log is counted yet. */
void fleet_read_began(struct fleet *f);
/* What is older than log_age. */
void fleet_trim(struct fleet *f);

/* fleet_status.c: how many nodes live, and are behind: by the look that ends, or 0 of what is not known any more. */
void fleet_show_nodes(struct fleet *f);

/* fleet_peers.c: what nodes know of each other, to ask each other. */
void fleet_show_wants(struct fleet *f, struct fleet_id id); /* what follows is applied */
void fleet_show_place(struct fleet *f);                     /* as it is now */
void fleet_be_alone(struct fleet *f); /* until every node that trusts anything is in this log */
void fleet_take_given(struct fleet *f, const struct engine_reply *r);
void fleet_take_secret(struct fleet *f, const struct engine_reply *r);

/* fleet_watch.c: those that are not wanted any more end. */
void fleet_watches_tick(struct fleet *f);

/* fleet_shared.c: texts that all nodes have alike. */
void fleet_shared_look(
    struct fleet *f); /* within a look at the nodes, behind what they have reported */
bool fleet_shared_take(
    struct fleet *f, unsigned tag, const struct engine_reply *r); /* false: not its own */
void fleet_shared_began(struct fleet *f);  /* the connection is another one */
void fleet_shared_is_new(struct fleet *f); /* the log says so */
bool fleet_shared_is_due(const struct fleet *f);
bool fleet_shared_waits(const struct fleet *f);
void fleet_shared_tick(struct fleet *f); /* those that have waited long enough */
void fleet_shared_forget(struct fleet *f, const char *node);
void fleet_shared_close(struct fleet *f);
size_t fleet_shared_bytes(const struct fleet *f);

/* fleet_read.c: the log, as it is read and applied. */
void fleet_read(struct fleet *f);
void fleet_read_past(struct fleet *f, struct link *k); /* what no connection takes */
void fleet_take_read(struct fleet *f, const struct engine_reply *r);
void fleet_take_place(struct fleet *f, const struct engine_reply *r);
void fleet_take_missed(struct fleet *f, const struct engine_reply *r);

/* fleet_write.c: invalidations of this node. */
void fleet_write(struct fleet *f);
/* Of XADD.  False: it is none, and the connection has ended. */
bool fleet_take_id(struct fleet *f, const struct engine_reply *r, struct fleet_id *id);
void fleet_take_added(struct fleet *f, const struct engine_reply *r);
void fleet_write_again(struct fleet *f);  /* the connection is another one */
void fleet_write_recent(struct fleet *f); /* the log may have lost them */
void fleet_write_tidy(struct fleet *f);   /* now and then */
void fleet_write_forget(struct fleet *f); /* at the end */

/* fleet_proof.c */
void fleet_poll(struct fleet *f);
void fleet_take_nodes(struct fleet *f, const struct engine_reply *r);
void fleet_take_values(struct fleet *f, const struct engine_reply *r);
void fleet_tidy(struct fleet *f);
void fleet_take_tidy(struct fleet *f, const struct engine_reply *r);
void fleet_take_newest(struct fleet *f, const struct engine_reply *r);
/* The node leaves: those of what is in the log end. */
void fleet_proofs_leave(struct fleet *f);
/* Entries that were in the log are written once more: what waits for them waits for their new places. */
void fleet_proofs_again(struct fleet *f);
void fleet_note_logged(struct fleet *f, const struct fleet_entry *e);
/* Those that have waited long enough. */
void fleet_proofs_tick(struct fleet *f);
bool fleet_proofs_wait(const struct fleet *f);
/* What a node reports: "EPOCH INCARNATION ID NUMBER GUARD", with the number of this report, which shows that it is new; with
 * peers behind that "ADDRESS POLICY".  What a newer version says behind it is not looked at. */
struct fleet_value {
    struct slice epoch, incarnation;
    struct slice address; /* .len 0: none */
    uint64_t policy;
    struct fleet_id position;
    uint64_t number;
    uint64_t guard_ms;
};
bool fleet_value_parse(struct slice text, struct fleet_value *out);

#endif
