/* invalidation.h -- "this is not good any more" as one record, from all that say so.
 *
 *   kind      what is meant: a URL, a key, tags, an expression, everything
 *   producer  who makes a record: the admin API, a policy, an unsafe request (RFC 9111 4.4)
 *   log       what is handed each record that was made here, so that it counts elsewhere too
 *   watch     of a record in the log by the request that made it: where it stands, and is it everywhere?
 *   resolver  finds the key of a URL, as a request for it would
 *
 * invalidation_make() is for producers; invalidation_apply() does the same without the log: for
 * records that were made elsewhere.  Texts and arrays of a record are borrowed for the call.
 *
 * Threads: any that is online for RCU; INVALIDATION_URL, and a caller that waits for a walk, the
 * management thread.
 */
#ifndef TARN_INVALIDATION_H
#define TARN_INVALIDATION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/span.h"
#include "daemon/base/waiter.h"

struct cache;
struct clock;
struct tag_purge;

enum {
    INVALIDATION_FIELDS_MAX = 32, /* of the request for a URL */
};

enum invalidation_kind {
    INVALIDATION_URL, /* what a GET for `text` with `fields` is stored under: each node has a policy
                          of its own, which may key it in another way */
    INVALIDATION_KEY, /* what is stored under the key of this `text` */
    INVALIDATION_TAGS, /* what has one of `tags` */
    INVALIDATION_BAN,  /* what the expression `text` matches; never soft */
    INVALIDATION_ALL,  /* everything, and what is known not to exist */
};

struct invalidation_field {
    struct slice name, value;
};

struct invalidation {
    enum invalidation_kind kind;
    bool soft;    /* it stays, and is stale from now on */
    bool changed; /* KEY: an unsafe request changed it (RFC 9111 4.4); never soft */
    /* KEY, soft: as of cache_purge_soft(); below 0 leaves it as it is.  A soft URL is 0, -1, -1. */
    int64_t ttl_ms, grace_ms, keep_ms;
    struct slice text;         /* KEY: may be missing if invalidation_wants_text() is false */
    const struct hash128 *key; /* KEY: of `text`, if it is known already; else NULL */
    const struct slice *tags;
    unsigned ntags;
    const struct invalidation_field *fields;
    unsigned nfields;
};

struct invalidation_result {
    struct tag_purge
        *wait;         /* in: TAGS, ALL: started, to be ended by the caller when 0 was returned;
                               NULL: the number is not waited for */
    unsigned how_many; /* URL, KEY: responses and markers that left, or became stale */
    char why[256];     /* what is wrong, and what would be right; "": the error says it all */
    uint64_t ticket;   /* of invalidation_make(): the log's, or 0 */
    bool unlogged;     /* of invalidation_make(): there is a log, and it could not take it */
};

/* 0: every lookup that begins from now on heeds it.  TERR_SYNTAX: the URL or the expression; TERR_INVALID:
 * the tags (tag_purge.h), or there is no resolver; TERR_LIMIT: too many bans; TERR_NOMEM.  `out` NULL: it
 * is not asked for. */
int invalidation_apply(struct cache *c, const struct invalidation *inv, const struct clock *now,
    struct invalidation_result *out);
/* The same; and if it returns 0 the log, if there is one, has been handed the record. */
int invalidation_make(struct cache *c, const struct invalidation *inv, const struct clock *now,
    struct invalidation_result *out);

enum {
    INVALIDATION_TOKEN_MAX = 64, /* with its NUL */
    INVALIDATION_MISSING_MAX = 256,
    INVALIDATION_WHY_MAX = 160,
};

/* Memory of the caller's, until `waiter` is IDLE again. */
struct invalidation_watch {
    uint64_t ticket;
    bool all;           /* until every node has applied it, else until it is in its place */
    int64_t timeout_ms; /* 0: the log's own */
    struct waiter
        *waiter; /* borrowed, IDLE: notified when the outcome is known, or the time over */
    _Atomic bool unwanted; /* set by the caller, who still waits for the waiter: it ends soon */
    /* The outcome. */
    bool logged, proven;
    char token[INVALIDATION_TOKEN_MAX]; /* of what is logged; else "" */
    char missing
        [INVALIDATION_MISSING_MAX]; /* names of nodes that have not, ", " between; may be cut */
    char why[INVALIDATION_WHY_MAX]; /* why it is not logged or, with `all`, not proven; else "" */
    /* The log's own. */
    void *log;
    struct post post;
    struct list waiting;
};
/* On the worker that made the record.  With a ticket, and so with a log. */
void invalidation_watch(struct cache *c, struct invalidation_watch *w);

struct invalidation_log {
    /* By the thread that made the record, while that waits: it copies, and does not block.  A number that the log
     * knows it by; 0: it could not take it. */
    uint64_t (*append)(void *ctx, const struct invalidation *inv);
    /* Around each that is made here: before it is applied, and when it has been appended, or was refused. */
    void (*begin)(void *ctx);
    void (*end)(void *ctx);
    void (*watch)(void *ctx, struct invalidation_watch *w);
    void *ctx;
    bool wants_text; /* of keys: a hash is of one process alone, by its secret */
};
/* Before other threads use the cache; borrowed until cache_close(). */
void cache_set_invalidation_log(struct cache *c, const struct invalidation_log *log);
/* Must a KEY have its text?  False without a log: then nothing is copied for one. */
bool invalidation_wants_text(const struct cache *c);

struct invalidation_resolver {
    /* 0 and *key; TERR_SYNTAX, and *why or NULL; TERR_NOMEM. */
    int (*resolve)(
        void *ctx, const struct invalidation *inv, struct hash128 *key, const char **why);
    void *ctx;
};
/* Before other threads use the cache. */
void cache_set_resolver(struct cache *c, struct invalidation_resolver resolver);

/* A node that may have missed records: everything fetched before `now` is stale, that is served within
 * its grace while it is fetched anew.  As invalidation_apply() of ALL, soft. */
int cache_distrust_before(struct cache *c, const struct clock *now);

#endif
