/* ban_priv.h -- the list of bans, for ban*.c and the lookups of entries.
 *
 *   newest -> ... -> oldest, which is never NULL
 *
 * Every entry that may come into the index holds one reference of the newest ban it has been
 * tested against, and goes only to newer ones.  So a ban that an entry holds is in the list, and
 * so is every newer one: only the oldest leaves, when no entry holds it.
 */
#ifndef TARN_BAN_PRIV_H
#define TARN_BAN_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/cache/ban.h"
#include "daemon/cache/removal.h"
#include "daemon/http/message.h"

struct cache;
struct cuckoo_guard;
struct entry;
struct regex;

enum ban_field {
    BAN_REQ_URL,
    BAN_REQ_HTTP,
    BAN_OBJ_HTTP,
    BAN_OBJ_STATUS,
    BAN_OBJ_TTL, /* from here on durations */
    BAN_OBJ_AGE,
    BAN_OBJ_GRACE,
    BAN_OBJ_KEEP,
    BAN_OBJ_LAST_HIT,
};

enum ban_op {
    BAN_EQ,
    BAN_NE,
    BAN_MATCH, /* ~ */
    BAN_NO_MATCH,
    BAN_GT,
    BAN_GE,
    BAN_LT,
    BAN_LE,
};

struct ban_test {
    uint8_t field;     /* enum ban_field */
    uint8_t op;        /* enum ban_op */
    struct slice name; /* of a header; in the ban's text */
    struct slice arg;  /* in the ban's memory */
    int64_t ms;        /* a duration's argument */
    struct regex *re;  /* ~ and !~; owned */
};

#define BAN_MAGIC OBJ_TAG('b', 'a', 'n', '!')
struct ban {
    /* set before it is published */
    uint32_t magic;
    uint16_t ntests;
    bool needs_request;
    bool by_time; /* what it means depends on when it was added: equal to no other */
    uint64_t seq; /* 1 for the list's first, which tests nothing; no number is left out */
    int64_t mono_ms, wall_ms;
    uint64_t hash; /* of its text */
    size_t bytes;  /* what it is charged as */
    char *text;
    uint32_t text_len;
    /* A purge, by tag or of everything: it has no tests.  Hashes, in the ban's memory; `soft`: what
     * has one of them becomes stale and stays. */
    bool soft, all;
    uint16_t ntags;
    const uint64_t *tags;
    struct list due;         /* waits for its walk, under the list's lock; or none */
    _Atomic uint64_t purged; /* responses that left, or became stale, because of it */
    _Atomic bool walked;     /* everything was looked at */
    /* by any thread */
    _Atomic bool completed;      /* every READY entry was tested; stored by the lurker */
    _Atomic uint64_t equal_from; /* from this ban on a newer one says the same; 0: none does */
    _Atomic(struct ban *) older;
    _Atomic uint64_t refs;
    struct ban *newer; /* under the list's lock */
    struct rcu_later later;
    struct ban_test tests[]; /* `ntests`, then texts */
};

/* What the lurker is doing; its thread only. */
struct ban_pass {
    bool running;
    struct ban *upto;    /* a reference: entries are tested up to this one; NULL: cutoff alone */
    uint64_t cutoff_seq; /* an entry last tested against this one or an older one leaves */
    uint64_t cursor;     /* of its walk along the index; 0 again: it is through */
    uint64_t moves;      /* of the index when it began */
    bool whole;          /* nothing was missed so far */
    bool again;          /* the last one missed something */
    uint64_t done_seq;   /* up to which ban passes went */
    int64_t again_at_ms; /* when to look for what the last one missed */
};

enum {
    TAG_WALK_BANS = 256, /* in one walk; more wait for the next */
    TAG_FILTER_WORDS = 64,
};

/* One walk along the index, for all purges by tag or of everything that are due when it begins; the
 * lurker's thread only. */
struct tag_walk {
    unsigned nbans;                    /* 0: there is none */
    struct ban *bans[TAG_WALK_BANS];   /* references; the oldest first */
    uint64_t filter[TAG_FILTER_WORDS]; /* a bit for what the hashes of their tags end in */
    uint8_t bits;                      /* of them, tag_bit() */
    bool all;                          /* one is of everything: every entry is looked at */
    unsigned marks;                    /* of them, in the index: tag_mark() */
    uint64_t cursor;                   /* of the index */
    int64_t ended_ms;                  /* the last one */
    struct list asked;                 /* of tag_purge.link: the callers that wait for the number */
};

struct bans {
    /* Read by every lookup, stored under the lock: on a line without other writes. */
    _Atomic(struct ban *) newest;
    char apart[64];
    pthread_mutex_t lock;
    /* under the lock */
    struct ban *oldest;
    size_t bytes, bytes_max;
    struct bans_conf conf;
    struct list tags_due; /* of ban.due; a reference each */
    /* the lurker's thread */
    struct ban_pass pass;
    struct tag_walk walk;
};

/* 0 or TERR_NOMEM. */
int bans_init(struct bans *b, uint64_t storage_bytes);
/* No entry is left, or it holds nothing. */
void bans_fini(struct bans *b);

static inline struct ban *
bans_newest(const struct bans *b)
{
    return atomic_load_explicit(&b->newest, memory_order_acquire);
}

/* By tag, or of everything: found by a walk, and counted. */
static inline bool
ban_is_purge(const struct ban *b)
{
    return b->ntags > 0 || b->all;
}

void ban_ref(struct ban *b);
void ban_unref(struct ban *b);
/* Takes it, and makes it the newest.  0; or TERR_LIMIT, and it was freed. */
int bans_put(struct cache *c, struct ban *ban, const struct clock *now);

/* A new entry has been tested against what is there when its fetch begins. */
void bans_attach(struct bans *b, struct entry *e);
/* The same, for one that shows what `of` shows; false: that is banned. */
bool bans_attach_as(struct entry *e, const struct entry *of);
/* Its end. */
void bans_detach(struct entry *e);

/* Tests the entry against every newer ban, and notes that.  True: it is banned; it has been
 * taken out of the index, under `g` or a guard of its own. */
bool bans_hit(
    struct cache *c, struct entry *e, const struct http_message *req, struct cuckoo_guard *g);
/* The same for an entry that no other thread could see until now, without what needs a request;
 * also against what is completed.  Marks it only.  True: it is banned. */
bool bans_fresh(struct cache *c, struct entry *e);

/* One walk along the list. */
struct ban_walk {
    struct ban *from;               /* down to the entry's, which is not tested any more */
    const struct http_message *req; /* NULL: what needs one is not tested, and not passed */
    bool unseen;                    /* completed ones count too; and soft is as hard */
    struct ban *hit;                /* out, with true: which */
    unsigned tested;                /* out: bans */
    unsigned tests;                 /* out: comparisons */
};
/* True: one matches.  Else *upto is how far the entry may go; `seen`: it cannot.  Soft purges make
 * it stale on the way. */
bool ban_walk(struct ban_walk *w, struct entry *e, const struct ban *seen, struct ban **upto);
/* True: it went from `seen` to `upto`. */
bool ban_move(struct entry *e, struct ban *seen, struct ban *upto);
/* Marks it; true: by this call. */
bool ban_kill(struct entry *e);
/* One more left, or became stale, because of this ban, if it is a purge. */
void ban_count(struct cache *c, struct ban *b);
/* The removal reason of the entries it killed; NULL: the lurker's cutoff did. */
enum removal ban_removal(const struct ban *b);
/* Drops bans from the old end that no entry holds, under the lock. */
void bans_trim(struct cache *c);
/* tag_purge.c: gives back what waits for a walk; at the end. */
void tag_walk_forget(struct bans *b);
/* Is it superfluous for a walk from a ban with this number? */
bool ban_is_done(const struct ban *b, uint64_t from_seq, bool unseen);

/* An expression as a ban, not in any list; owned by the caller. */
int ban_parse(struct ban **out, struct slice expression, char *why, size_t why_size);
void ban_free(struct ban *b);

/* What is tested; `fields` are those of `stored`, once it was needed. */
struct ban_subject {
    const struct entry *e;
    const struct http_message *req; /* NULL: none at hand */
    bool parsed;
    struct http_message stored;
    struct http_field fields[LIMIT_FIELDS];
};
/* Is this purge about it: has it one of the tags, or is it of everything? */
bool ban_purges(const struct ban *b, const struct entry *e);
/* Do all its tests hold?  Adds how many were made. */
bool ban_matches(const struct ban *b, struct ban_subject *s, unsigned *tests);

#endif
