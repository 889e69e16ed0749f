/* fleet.h -- several tarnd that share invalidations by a stream of an engine (Redis or Valkey).
 *
 *   node      one tarnd of the fleet; its name is its own in it
 *   log       the engine's stream: every invalidation of every node, in one order
 *   position  the place in the log up to which a node has applied it
 *   token     the position of an invalidation, and in which engine's log that is: what its proof is asked for by
 *   proof     of an invalidation: every living node's position is behind it
 *   lease     for how long a node may trust what it has stored: `max_blind` from when it last told the engine its position.
 *             The engine forgets the node somewhat later, so one that it does not know trusts nothing (Gray and
 *             Cheriton, Leases, 1989)
 *
 * A node applies its own invalidations at once, and again where they stand in the log: what it took from another node
 * between may be older.
 *
 * Threads: the management loop's, but fleet_append() and fleet_watch(), which any thread may call.
 */
#ifndef TARN_FLEET_H
#define TARN_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/span.h"
#include "daemon/fleet/fleet_id.h"

struct cache;
struct conf_fleet;
struct counters;
struct fleet;
struct invalidation;
struct loop;
struct secure_client;
struct task;

/* Borrowed until fleet_close(). */
struct fleet_env {
    struct loop *loop;
    const struct conf_fleet *conf;
    struct cache *cache;
    struct counters *counters;
    struct secure_client *const
        *secure;              /* of each of conf->engines; NULL: it is spoken to plainly */
    const char *name_servers; /* as of resolver_open() */
    /* Where the node is in the log; NULL: it is not asked for.  `wants` is said before an entry is applied, `has` when
     * all up to it have been.  engine: a hash of which engine it is; 0: the node is in no place, or trusts nothing. */
    void (*place)(void *ctx, bool has, uint64_t engine, struct fleet_id id);
    void *place_ctx;
    /* May a node be asked for objects at this address?  NULL: each. */
    bool (*may_ask)(void *ctx, const char *address);
    void *may_ask_ctx;
};

/* Before there are workers: nothing stored is trusted until the engine is there.  0, TERR_NOMEM, or
 * TERR_IO and a word in the error log: the state file. */
int fleet_open(struct fleet **out, const struct fleet_env *env);
/* The process drains: it trusts nothing any more, and its name is given up, as soon as the engine knows. */
void fleet_retire(struct fleet *f);
/* The workers have been joined. */
void fleet_close(struct fleet **fp);

/* Of a record that this node has applied: copied, and into the log as soon as the engine takes it.  Its ticket, or 0:
 * it counts at this node alone, for want of room or by its characters, which is counted and in the error log. */
uint64_t fleet_append(struct fleet *f, const struct invalidation *inv);

/* Around an invalidation of this node: before it is applied, and behind fleet_append().  Any thread. */
void fleet_append_begin(struct fleet *f);
void fleet_append_end(struct fleet *f);
/* Is every invalidation of this node in its place, as far as it could be appended: has the node read it back?  Then
 * another node that is as far has applied it, too.  Any thread. */
bool fleet_is_settled(const struct fleet *f);

/* Can the log take an invalidation now?  If not, *why. */
bool fleet_is_up(const struct fleet *f, const char **why);

enum fleet_outcome {
    FLEET_WAITS,
    FLEET_LOGGED,   /* it has its place in the log; more was not asked for */
    FLEET_PROVEN,   /* every living node has applied it */
    FLEET_UNPROVEN, /* not in that time: who has not, and `why` */
    FLEET_LOST,     /* it did not get into the log in that time */
};

/* What became of one node, for one ticket. */
struct fleet_seen {
    char name[65];
    bool lives; /* the engine knows it */
    bool applied;
    uint64_t after_us; /* since the ticket was made; with `applied` */
};

/* Memory of the caller's. */
struct fleet_wait {
    struct list link;
    struct task *task;        /* woken when the outcome is known */
    uint64_t ticket;          /* 0: `token` says what is asked for, with `all` */
    struct fleet_token token; /* LOGGED and behind that */
    bool logged;              /* `token` is set */
    bool all;                 /* a proof is asked for */
    uint64_t began_us, deadline_ms;
    enum fleet_outcome outcome;
    uint64_t from_look;      /* the first look at the nodes that began when it was in the log */
    const char *why;         /* UNPROVEN, LOST: a static text */
    struct fleet_seen *seen; /* owned by the fleet until fleet_wait_end() */
    unsigned nseen;
};

/* ticket or token, all, task and deadline_ms are set.  fleet_wait_end() must follow. */
void fleet_wait_start(struct fleet *f, struct fleet_wait *w);
void fleet_wait_end(struct fleet *f, struct fleet_wait *w);

/* What its peers are to know of this node: where it can be asked, and by which policy and
 * configuration it answers, as a number; with the next report. */
enum {
    FLEET_ADDRESS_MAX = 300,
};
void fleet_say(struct fleet *f, const char *address, uint64_t policy);
/* The fleet's secret, in hexadecimal; "": it is not known yet.  Only of one that has said something. */
const char *fleet_secret(const struct fleet *f);

/* Of the heap, now. */
uint64_t fleet_bytes(const struct fleet *f);

/* For a worker: as invalidation_watch() says. */
struct invalidation_watch;
void fleet_watch(struct fleet *f, struct invalidation_watch *asked);

/* How it is, for operators.  Texts are borrowed until the loop's turn ends. */
enum fleet_health {
    FLEET_IN_STEP,
    FLEET_LAGS,      /* it has not applied what was in the log a second ago */
    FLEET_ELSEWHERE, /* the engine has its key, from before it lost something or was replaced */
    FLEET_UNKNOWN,   /* the engine has its name alone: it does not live */
    FLEET_UNSEEN,    /* this node does not see the others now */
};
struct fleet_node_status {
    const char *name;
    const char *address;          /* "": it has none */
    bool lives, is_self, in_step; /* in_step: it follows the engine that we do */
    bool can_be_asked;            /* for objects: it has an address, and answers by what we do */
    struct fleet_id position;
    int64_t seen_ago_ms;
    enum fleet_health health;
};
const char *fleet_health_word(enum fleet_health h);
struct fleet_status {
    const char *state;        /* "in step", "blind", "apart" */
    const char *engine, *why; /* where it is; what is wrong, or "" */
    int64_t trusts_ms;        /* what is stored is trusted for so long; 0: not now */
    struct fleet_id position, last;
    unsigned queued;      /* invalidations that are not in the log yet */
    int64_t proofs_in_ms; /* above 0: the engine is too young for proofs for so long */
};
void fleet_status(struct fleet *f, struct fleet_status *out);
bool fleet_node_status(struct fleet *f, unsigned n, struct fleet_node_status *out);

#endif
