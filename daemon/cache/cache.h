/* cache.h -- find, share and retire cached responses.
 *
 * One `struct cache` per process.  It maps a key to the responses stored under it, and
 * decides which request fetches and which ones wait for that fetch.  It knows nothing of
 * sockets, and no call here blocks.
 *
 *   leader   the request that made the entry in its lookup: it must have it filled, or failed
 *   waiting  the requests that found it BUSY; woken once, when the outcome is known
 *
 * Threads: any worker may call anything here, from a task, online for RCU.
 */
#ifndef TARN_CACHE_H
#define TARN_CACHE_H

#include "daemon/base/hash.h"
#include "daemon/cache/entry.h"
#include "daemon/cache/negative.h"
#include "daemon/cache/removal.h"
#include "daemon/http/rendering.h"

struct bans;
struct cache;
struct conf_index;
struct conf_negative;
struct conf_storage;
struct counters;
struct fresh_ask;
struct fresh_verdict;
struct http_message;
struct validators;
struct range_spec;
struct storage;
struct tags;
struct waiter;

enum cache_verdict {
    CACHE_HIT,    /* entry: borrowed, READY; fresh, or stale by the client's leave */
    CACHE_STALE,  /* entry: borrowed, READY, stale but in its grace; refresh: NULL, or BUSY, held
                    once, to be filled by this request */
    CACHE_MISS,   /* entry: held twice, for the request and for its fetch, BUSY; NULL when there is
                    no room: go on uncached.  old: held, or NULL: to validate or to complete */
    CACHE_QUEUED, /* entry: held, BUSY; the waiter is notified when it is not any more */
    CACHE_ABSENT, /* absent: there is nothing, the origin said not long ago */
    CACHE_PASS,   /* nothing: fetch for yourself, as asked */
};

/* What stands in the way of a stored response; the name is what Cache-Status says (RFC 9211). */
enum cache_reason {
    CACHE_NOTHING_STORED, /* uri-miss */
    CACHE_OTHER_VARIANT,  /* vary-miss */
    CACHE_IS_STALE,       /* stale */
    CACHE_IS_PARTIAL,     /* partial: bytes are missing */
    CACHE_ASKED,          /* request: its directives want more */
    CACHE_MARKED,         /* uri-miss: known not to be for the cache (hit-for-miss) */
    CACHE_MARKED_PASS,    /* uri-miss: policy said to pass it (hit-for-pass); with CACHE_PASS */
};

struct cache_query {
    struct hash128 key;
    const struct http_message *req;  /* for Vary, If-Range */
    const struct fresh_ask *ask;     /* directives of the request; NULL: none */
    const struct range_spec *ranges; /* NULL: the whole */
    unsigned nranges;
    bool only_stored; /* start nothing: the client wants what is there, or an error */
    bool no_join;     /* completing what is stored was tried, and did not work out */
    bool no_window;   /* so was joining a body on its way */
    /* What a policy asks for; all false without one. */
    bool for_policy;   /* Varnish's rules where they differ: see README */
    bool always_miss;  /* req.hash_always_miss: as if nothing were stored or on its way */
    bool ignore_busy;  /* req.hash_ignore_busy: do not wait, fetch too */
    bool ignore_vary;  /* req.hash_ignore_vary: any variant will do */
    bool grace_said;   /* req.grace: at most so long past its ttl, grace_ms */
    bool max_age_said; /* req.max_age: younger than max_age_ms, or it counts as expired */
    bool count_hits;   /* obj.hits */
    int64_t grace_ms, max_age_ms;
    int64_t now_ms;  /* monotonic, as everything about entries: clocks are set, time is not */
    int64_t wall_ms; /* for dates with two digits of a year */
};

struct cache_answer {
    struct entry *entry, *old, *refresh;
    enum cache_reason reason;
    struct negative_answer absent; /* with CACHE_ABSENT */
};

/* What the fetch knows once a response head has come. */
struct cache_response {
    struct http_message head; /* built, of LIMIT_FIELDS fields at most; its bytes are copied */
    unsigned nsent; /* with hides_fields: of its fields, how many clients see; the first */
    bool hides_fields;
    const struct http_rendering *rendering; /* that its head is kept in; NULL: none */
    const struct tags *tags;                /* copied; NULL: none */
    struct slice vary;                      /* specification, copied */
    struct slice key_text;                  /* copied */
    uint16_t status, origin_status; /* 304 when it was validated, 206 when it was completed */
    uint8_t status_prefix;          /* of 1404 the 1 */
    bool length_in_head, partial;
    bool windowed; /* to be found while it streams, not kept */
    bool copy;     /* another node of the fleet owns it: kept only while it is used here */
    bool esi;      /* its body is a stream of records (daemon/esi/esi_record.h) */
    /* With a policy, as Varnish: what never was fresh leaves what is fresh in its place, and has grace
     * only if it said itself for how long it would be fresh, and came when that was over. */
    bool for_policy, was_fresh;
    uint64_t body_len;              /* of the whole */
    const struct entry_part *parts; /* copied; the objects are taken over */
    unsigned nparts;
    int64_t received_ms;
    uint64_t xid; /* of the request that it was fetched for, to be remembered; 0: not to be */
    const struct fresh_verdict *fresh;
};

/* Build the index over `storage`.  Borrows all until cache_close(), but `conf` and `store`: what
 * the storage's size and eviction are.  0 and a cache in *out; TERR_NOMEM; TERR_CONFIG. */
int cache_open(struct cache **out, const struct conf_index *conf, struct storage *storage,
    const struct conf_storage *store, struct counters *counters);
/* Before other threads use it: room for names that do not exist, charged to the storage.  With
 * conf->entries 0 there is none.  0 or TERR_NOMEM. */
int cache_open_negative(struct cache *c, const struct conf_negative *conf);
/* Takes *cp.  Every entry leaves; no caller may hold one.  Waits for RCU. */
void cache_close(struct cache **cp);

enum cache_verdict cache_lookup(
    struct cache *c, const struct cache_query *q, struct waiter *w, struct cache_answer *out);
/* After QUEUED or a fetch of one's own: may this request use what came?  Counts even if it is
 * stale by now: the wait was a validation.  `leader`: it was fetched for this very request. */
bool cache_usable(struct entry *e, const struct cache_query *q, bool leader);
/* One more use of it, that no lookup counted: by a request that waited for it. */
void entry_count_hit(struct entry *e);
/* The origin failed: a stored response that may be used all the same (RFC 9111 4.2.4, RFC 5861
 * 4), borrowed; NULL: none. */
struct entry *cache_lookup_stale(struct cache *c, const struct cache_query *q);
/* The same question about one that is held, when the origin answered with an error. */
bool cache_stale_if_error(const struct entry *e, const struct fresh_ask *ask, int64_t now_ms);
/* The leader waits like the others.  True: registered; false: not BUSY (any more). */
bool cache_wait(struct entry *e, struct waiter *w);
/* What of bytes first to last it does not have, as one range; false: nothing. */
bool entry_missing(const struct entry *e, uint64_t *first, uint64_t *last);
/* Are these bytes, both ends included, in its parts, or on their way? */
bool entry_has_bytes(const struct entry *e, uint64_t first, uint64_t last);
/* May Range be heeded, by If-Range and the validators of what is stored?  A body that has several codings has one
 * Last-Modified for all of them, so there a date proves nothing (RFC 9110 8.8.1). */
bool entry_range_holds(
    const struct entry *e, const struct http_message *req, const struct validators *stored);
/* Leave the queue.  A waiter already POSTED stays pending until it lands. */
void cache_cancel(struct entry *e, struct waiter *w);

/* An entry of one request's own, held twice, for the request and its fetch; NULL: no memory. */
struct entry *cache_private(struct cache *c);

/* The outcome, from the fetch; each wakes all waiting requests.  An entry that a ban matches by now
 * leaves: only the waiting requests get it.
 *
 * publish   READY: takes the parts' objects.  TERR_NOMEM: nothing happened
 * hitmiss   a marker for ttl_ms (0: it only wakes the waiting requests); `handoff`,
 *           READY and private, is for the leader, and takes over the hold that a private entry
 *           has for its request; NULL: the leader left
 * fail      FAILED, and out of the index */
int cache_publish(struct entry *e, const struct cache_response *r);
enum cache_mark {
    CACHE_MARK,            /* the response was not for the cache; what was stored leaves */
    CACHE_MARK_PASS,       /* the same, and requests are passed while it lasts: return(pass(d)) */
    CACHE_MARK_BY_REQUEST, /* Authorization of this request kept it out: requests without such do
                              not heed the marker, and what is stored for them stays */
    CACHE_MARK_ERROR,      /* the origin failed: what is stored stays, for it may be of use */
};
void cache_hitmiss(
    struct entry *e, struct entry *handoff, int64_t now_ms, int64_t ttl_ms, enum cache_mark mark);
void cache_fail(struct entry *e, int err);
/* Another coding of what `base` (borrowed or held, stored) shows, for the requests that its specification names
 * (vary_recode()): of the response head, tags, vary, key, body and xid count.  It is as old and as fresh as
 * `base`, and lies in front of it; an older one of the same coding leaves.  0: takes the part's object;
 * TERR_NOMEM; TERR_CANCELLED: `base` is not there any more, or is not to be used. */
int cache_publish_recoded(struct entry *base, const struct cache_response *r);
/* As hitmiss, and no marker stays, but the word that nothing is there; what was stored leaves.
 * Unless the key was purged or changed while it was fetched, or everything was dropped since
 * `generation`: then only the waiting requests look again. */
void cache_publish_absent(
    struct entry *e, struct entry *handoff, const struct negative_fact *fact, uint32_t generation);
/* The leader's own response after hitmiss, once; a hold, or NULL. */
struct entry *cache_take_handoff(struct entry *e);

/* Before cache_hitmiss(): why the response is not for the cache. */
void entry_refused(struct entry *e, enum fresh_refusal why);
/* What became of one that is for others, before it is unlinked: for a later question. */
void cache_note(const struct entry *e, unsigned what); /* enum removal */

/* What a lookup would come to, for an explanation: nothing is counted, started or waited for.  The
 * entry is borrowed.  *fetches: this request would ask the backend. */
enum cache_verdict cache_peek(
    struct cache *c, const struct cache_query *q, struct cache_answer *out, bool *fetches);
/* What is stored under a key, or being fetched, the newest first; borrowed. */
struct entry *cache_stored(struct cache *c, const struct hash128 *key);
/* The marker that a lookup for this would heed; NULL: none. */
struct entry *cache_marker(struct cache *c, const struct cache_query *q);
/* Is it for this request, by Vary? */
bool cache_is_variant_for(const struct entry *e, const struct cache_query *q);
/* What last became of a key; false: nothing is known. */
bool cache_recall(struct cache *c, const struct hash128 *key, struct removal_seen *out);

/* The body is whole: from now on it may be evicted. */
void cache_settle(struct entry *e);
/* The body of one with a window is whole: no other request finds it, nor what it stands for. */
void cache_settle_window(struct entry *e);
/* A stored READY one, borrowed or held, keeps this form of its head; entry_form() has it from now on.
 * .ptr NULL: it is not kept, for want of room, or since the entry has left the index or has another
 * protocol's. */
struct slice cache_keep_form(struct entry *e, const struct http_rendering *of, struct slice form);
/* Out of the index: the body failed, or it was invalidated.  Its readers go on. */
void cache_unlink(struct entry *e);

/* Everything stored under the key leaves, and what is being fetched for it is not kept: an unsafe
 * request has changed it (RFC 9111 4.4).  Returns whether there was anything. */
bool cache_invalidate(struct cache *c, const struct hash128 *key);
/* The same, on an explicit request.  How many responses and markers left. */
unsigned cache_purge(struct cache *c, const struct hash128 *key);
/* They stay, for ttl_ms from now at most, then for `grace_ms` stale, and for keep_ms more for
 * validation (as policies mean it: after the grace); below 0: that stays as it is.  What is being
 * fetched is not kept.  All 0 is cache_purge(). */
unsigned cache_purge_soft(struct cache *c, const struct hash128 *key, int64_t now_ms,
    int64_t ttl_ms, int64_t grace_ms, int64_t keep_ms);

/* Of a node of a fleet: what is stored is fresh until that time at most (CLOCK_MONOTONIC, ms), and stale from then on, which
 * is looked at anew for each lookup.  The first call before other threads use the cache, and any thread's then. */
void cache_trust_until(struct cache *c, int64_t until_ms);
/* Is it still that time, by the clock itself?  Also where there is no such time.  Any thread. */
bool cache_is_trusted(const struct cache *c);
/* For how long nothing has been trusted; -1: it is. */
int64_t cache_blind_for_ms(const struct cache *c);

/* The negative cache; NULL: there is none.  Borrowed until cache_close(). */
struct negative *cache_negative(struct cache *c);
/* For every lookup that begins from now on, and for what is being fetched: what was absent may be
 * there.  A ban says so by itself. */
void cache_forget_absent(struct cache *c);
/* The same for one key: an answer came that says so, though it is not stored. */
void cache_is_there(struct cache *c, const struct hash128 *key);

/* Borrowed until cache_close(). */
struct bans *cache_bans(struct cache *c);

/* The first part is whole and ends here; the body goes on in `next`, a window, which is taken
 * over.  The entry has been unlinked.  0, or TERR_NOMEM, and nothing happened. */
int entry_add_part(struct entry *e, struct stobj *next);

/* A reader other than the leader joins it while it is filled; and leaves it.  The last one to
 * leave has the fetch look whether it is still needed.  false: that has been given up, or it is
 * sealed, and does not go on in a window that lets this one in.  `came`: it had begun to read that
 * window, if there is one; else it is expected there no more. */
bool entry_join(struct entry *e);
void entry_leave(struct entry *e, bool came);
/* For its fetch.  True: no reader has joined, and none can from now on. */
bool entry_close(struct entry *e);
/* No reader joins any more, but those that the window in which it goes on lets in.  How many have. */
uint32_t entry_seal(struct entry *e);

/* The request that would have read it goes; its fetch, on the same loop, is notified.  A private
 * entry has no other reader; a shared one goes on for waiting and later requests. */
void entry_abandon(struct entry *e);
/* The same request has something for that fetch, if it still runs. */
void entry_wake_fetch(struct entry *e);

/* Housekeeping, for one loop that carries no traffic: an index that doubles gets on with it.  When
 * to call again, in ms: `otherwise_ms`, or sooner. */
int64_t cache_tend_index(struct cache *c, int64_t otherwise_ms);
void cache_index_stats(const struct cache *c, struct cuckoo_stats *out);
/* These three for threads that are online: cuckoo_occupancy(), cuckoo_each_next(), and the newest
 * entry of a node that it showed, borrowed until this turn ends. */
size_t cache_index_occupancy(const struct cache *c, size_t most, uint64_t *buckets);
void cache_index_next(const struct cache *c, uint64_t *cursor, cuckoo_each_f *each, void *ctx);
const struct entry *cache_index_entry(const struct cuckoo_node *node);

#endif
