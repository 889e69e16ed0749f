/* entry.h -- one response: cached, private to one request, or still to come.
 *
 *   BUSY     its fetch has no response head yet; requests for it wait
 *   READY    head known; the body may still be coming (its parts say so)
 *   HITMISS  a marker: what came was not for the cache; fetch for yourself, do not wait
 *   FAILED   its fetch got no response
 *
 *   borrow   use it until this loop turn ends (RCU); costs nothing
 *   hold     keep it longer: a counted reference, given back with entry_drop()
 *
 * From READY on everything but the atomics is immutable; of those the times change with a soft
 * purge alone.
 *
 * Threads: any, from a task; entry_drop also from RCU's own thread.
 */
#ifndef TARN_ENTRY_H
#define TARN_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/span.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/cache/evict_queue.h"

struct ban;
struct cache;
struct stobj;
struct task;

enum entry_state {
    ENTRY_BUSY,
    ENTRY_READY,
    ENTRY_HITMISS,
    ENTRY_FAILED
};

/* An entry is a list of parts, in order; an ordinary response has one.  A body that outgrows
 * what is kept goes on in a second one, a window, for those who read it already.  A response
 * known only in ranges has one for each, which may overlap (RFC 9111 3.4). */
struct entry_part {
    uint64_t off; /* of its first byte in the whole */
    uint64_t len; /* that it has or will have; STOBJ_SIZE_UNKNOWN */
    struct stobj *body;
};
enum {
    ENTRY_KEY_SHOWN_MAX = 200, /* a longer key is not shown in Cache-Status */
    ENTRY_PARTS_INLINE = 2,
    ENTRY_PARTS_MAX = 64, /* with more, the whole is fetched anew */
    ENTRY_TICK_LOG2 = 10, /* of the last hit: 1,024 ms, nearly a second, without a division */
};

#define ENTRY_MAGIC OBJ_TAG('e', 'n', 't', 'r')
struct entry {
    struct cuckoo_node node; /* the key */
    uint32_t magic;
    _Atomic uint32_t refs;
    _Atomic(struct entry *) variant; /* the next under this key */
    _Atomic uint8_t state;
    bool is_private; /* never in the index */
    bool late;       /* goes into the index when its outcome is known, if it is for others */
    bool length_in_head;
    bool key_shows;        /* its text is short, and may stand between quotes */
    bool partial;          /* parts do not cover the whole, or did not when they came */
    _Atomic bool softened; /* by a soft purge: a ttl of 0 does not mean "each time" then */
    bool validatable;      /* has an ETag or a Last-Modified */
    bool must_revalidate;  /* never served stale */
    bool by_request;  /* HITMISS: because of what the request said, so only for such requests */
    bool pass;        /* HITMISS: such requests are passed, not fetched as if for the cache */
    bool abandoned;   /* its reader has gone; that loop only */
    uint32_t changes; /* late: of its key, when it was made */
    _Atomic uint32_t hits; /* counted when asked for */
    union {
        int32_t err;              /* FAILED: why, TERR_* */
        _Atomic uint32_t readers; /* READY: who joined as it was filled, the leader not counted */
    };
    uint64_t expected;           /* BUSY: what it is expected to be selected by; 0: not known */
    bool on_heap, block_on_heap; /* private ones, when the store was full */
    /* set before READY or HITMISS is published */
    uint16_t status, origin_status;
    uint16_t vary_len, key_len;
    _Atomic uint16_t nparts; /* grows before the part in front settles */
    uint16_t parts_room;     /* of `parts` when it is not `few` */
    bool windowed;           /* too large to keep: its body is a window that readers share */
    bool linked;             /* in the index, under the key's guard */
    bool promised;           /* evicted: storage waits for what it holds; before it is unlinked */
    uint32_t head_len;
    char *block;              /* head, vary specification, key text: one allocation */
    struct entry_part *parts; /* `few`, or memory of the store's */
    struct entry_part few[ENTRY_PARTS_INLINE];
    uint64_t body_len;      /* of the whole; STOBJ_SIZE_UNKNOWN when the origin did not say */
    int64_t received_ms;    /* monotonic */
    int64_t age_ms;         /* at that time */
    _Atomic int64_t ttl_ms; /* from then on; 0 or less: each use needs validation */
    /* Windows, all from the end of the ttl: served stale while it is refreshed; served when the
     * origin fails, and when it answers with an error; good for validation. */
    _Atomic int64_t grace_ms, error_ms, stale_if_error_ms, keep_ms;
    _Atomic(struct ban *) ban; /* the newest it has been tested against; NULL: a private one */
    struct entry *handoff;     /* HITMISS: the response itself, for the request that fetched */
    struct cache *cache;       /* borrowed */
    struct task *fetch;        /* private: whoever fills it, on the reader's loop; NULL: nobody */
    struct list waiting;       /* BUSY: waiters, under the key's guard */
    /* For eviction.  Its stamp is the last hit: monotonic, in ticks; 0: never.  Its size is what
     * evicting it gives back, KiB rounded up. */
    struct evict_node evict;
    struct rcu_later later;
};
/* A class of the allocator's: the next one costs each object 64 bytes more. */
_Static_assert(sizeof(struct entry) <= 320, "struct entry grew");

static inline enum entry_state
entry_state(const struct entry *e)
{
    return (enum entry_state)atomic_load_explicit(&e->state, memory_order_acquire);
}

/* The next under its key, older; NULL: none. */
static inline struct entry *
entry_next(const struct entry *e)
{
    return atomic_load_explicit(&e->variant, memory_order_acquire);
}

static inline struct slice
entry_head(const struct entry *e)
{
    return slice_of(e->block, e->head_len);
}

static inline struct slice
entry_vary(const struct entry *e)
{
    return slice_of(e->block + e->head_len, e->vary_len);
}

static inline struct slice
entry_key_text(const struct entry *e)
{
    return slice_of(e->block + e->head_len + e->vary_len, e->key_len);
}

/* Seconds, for Age (RFC 9111 5.1). */
static inline int64_t
entry_age_s(const struct entry *e, int64_t now_ms)
{
    int64_t resident = now_ms - e->received_ms;

    return (e->age_ms + (resident > 0 ? resident : 0)) / 1000;
}

static inline int64_t
entry_ttl_ms(const struct entry *e)
{
    return atomic_load_explicit(&e->ttl_ms, memory_order_relaxed);
}

/* What of it is left; below 0: for how long it has been stale. */
static inline int64_t
entry_ttl_left_ms(const struct entry *e, int64_t now_ms)
{
    return entry_ttl_ms(e) - (now_ms - e->received_ms);
}

static inline int64_t
entry_grace_ms(const struct entry *e)
{
    return atomic_load_explicit(&e->grace_ms, memory_order_relaxed);
}

/* As policies mean it: what comes after the grace. */
static inline int64_t
entry_keep_ms(const struct entry *e)
{
    int64_t beyond = atomic_load_explicit(&e->keep_ms, memory_order_relaxed) - entry_grace_ms(e);

    return beyond > 0 ? beyond : 0;
}

/* What every use of it has to ask the origin about first. */
static inline bool
entry_is_checked_each_time(const struct entry *e)
{
    return entry_ttl_ms(e) <= 0;
}

static inline bool
entry_is_fresh(const struct entry *e, int64_t now_ms)
{
    return entry_ttl_left_ms(e, now_ms) > 0;
}

/* Not, or not any more, for others: a private response, or a marker. */
static inline bool
entry_is_uncacheable(const struct entry *e)
{
    return e->is_private || entry_state(e) == ENTRY_HITMISS;
}

/* How often it was the answer to a query with count_hits. */
static inline uint32_t
entry_hits(const struct entry *e)
{
    return atomic_load_explicit(&e->hits, memory_order_relaxed);
}

/* Monotonic, at the grain of a tick and never in the future; when it came, if never. */
static inline int64_t
entry_last_hit_ms(const struct entry *e)
{
    uint32_t ticks = atomic_load_explicit(&e->evict.stamp, memory_order_relaxed);
    int64_t at = (int64_t)ticks << ENTRY_TICK_LOG2;

    return at > e->received_ms ? at : e->received_ms;
}

static inline struct ban *
entry_ban(const struct entry *e)
{
    return atomic_load_explicit(&e->ban, memory_order_acquire);
}

/* Of READY ones: head, key and what there is of the body. */
uint64_t entry_bytes(const struct entry *e);
/* Borrow becomes hold.  Always possible within the turn of the lookup. */
struct entry *entry_hold(struct entry *e);
/* Takes *ep and sets it to NULL.  The last hold on an unlinked entry frees it. */
void entry_drop(struct entry **ep);

#endif
