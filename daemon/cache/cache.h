/* cache.h -- find, share and retire cached responses.
 *
 * One `struct cache` per process.  It maps a key to the responses stored under it, and
 * decides which request fetches and which ones wait for that fetch.  It knows nothing of
 * sockets, and no call here blocks.
 *
 *   leader   the request whose lookup made the entry: it must have it filled, or failed
 *   waiting  the requests that found it BUSY; told once, when the outcome is known
 *
 * Threads: any worker may call anything here, from a task, online for RCU.
 */
#ifndef TARN_CACHE_H
#define TARN_CACHE_H

#include "daemon/base/hash.h"
#include "daemon/cache/entry.h"

struct cache;
struct conf_index;
struct counters;
struct http_head;
struct storage;
struct waiter;

enum cache_verdict {
    CACHE_HIT,     /* *out: borrowed, READY and fresh */
    CACHE_MISS,    /* *out: held twice, for the request and for its fetch, BUSY; NULL when there is
                      no room: go on uncached */
    CACHE_QUEUED,  /* *out: held, BUSY; the waiter is notified when it is not any more */
    CACHE_HITMISS, /* *out: NULL; fetch for yourself */
};

struct cache_query {
    struct hash128 key;
    const struct http_head *req; /* for Vary */
    int64_t now_ms;              /* wall clock */
};

/* What the fetch knows once a response head has come. */
struct cache_response {
    struct slice head;     /* status line and fields, copied */
    struct slice vary;     /* specification, copied */
    struct slice key_text; /* copied */
    uint16_t status;
    bool length_in_head;
    uint64_t body_len;
    struct stobj *body; /* taken over: the entry's reference */
    int64_t received_ms, age_ms, ttl_ms, grace_ms, keep_ms;
};

/* Build the index over `storage`.  Borrows all until cache_close().  0 and a cache in *out;
 * TERR_NOMEM; TERR_CONFIG. */
int cache_open(struct cache **out, const struct conf_index *conf, struct storage *storage,
    uint64_t storage_bytes, struct counters *counters);
/* Takes *cp.  Every entry leaves; nobody may hold one.  Waits for RCU. */
void cache_close(struct cache **cp);

enum cache_verdict cache_lookup(
    struct cache *c, const struct cache_query *q, struct waiter *w, struct entry **out);
/* After QUEUED: may this request use what came?  Counts even if it is stale by now: the wait
 * was a validation. */
bool cache_usable(const struct entry *e, const struct cache_query *q);
/* The leader waits like the others.  True: registered; false: not BUSY (any more). */
bool cache_wait(struct entry *e, struct waiter *w);
/* Leave the queue.  A waiter already POSTED stays pending until it lands. */
void cache_cancel(struct entry *e, struct waiter *w);

/* An entry of one request's own, held twice, for the request and its fetch; NULL: no memory. */
struct entry *cache_private(struct cache *c);

/* The outcome, from the fetch; each wakes all who wait.
 *
 * publish   READY: takes r->body.  TERR_NOMEM: nothing happened
 * hitmiss   a marker for ttl_ms; `handoff`, which is READY and private, is for the leader, and
 *           takes over the hold that a private entry has for its request; NULL: the leader left
 *           by_request: it was Authorization or no-store of this request that kept the
 *           response out, so requests without such do not heed the marker
 * fail      FAILED, and out of the index */
int cache_publish(struct entry *e, const struct cache_response *r);
void cache_hitmiss(
    struct entry *e, struct entry *handoff, int64_t now_ms, int64_t ttl_ms, bool by_request);
void cache_fail(struct entry *e, int err);
/* The leader's own response after hitmiss, once; a hold, or NULL. */
struct entry *cache_take_handoff(struct entry *e);

/* The body is whole: from now on it may be evicted. */
void cache_settle(struct entry *e);
/* Out of the index: the body failed, or it was invalidated.  Whoever reads it goes on. */
void cache_unlink(struct entry *e);

/* The first part is whole and ends here; the body goes on in `next`, which is taken over and
 * private to the leader.  The entry has been unlinked. */
void entry_add_part(struct entry *e, struct stobj *next);

/* The request that would have read it goes; its fetch, on the same loop, is told.  A private
 * entry has no other reader; a shared one goes on for those who wait or come. */
void entry_abandon(struct entry *e);

void cache_index_stats(const struct cache *c, struct cuckoo_stats *out);

#endif
