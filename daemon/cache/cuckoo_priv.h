/* cuckoo_priv.h -- the cuckoo table's insides, for cuckoo*.c.
 *
 * Lock order: a stripe of side A, then a stripe of side B, and never two of one side.  A key
 * has one bucket on each side and a node moves from one side to the other, so nothing ever
 * wants two of a kind, and that is the whole order.
 */
#ifndef TARN_CUCKOO_PRIV_H
#define TARN_CUCKOO_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/cache/cuckoo.h"

enum {
    CUCKOO_LINE = 64,          /* bytes of a cache line */
    CUCKOO_HUGE = 2 << 20,     /* bytes of a huge page: a lookup costs two TLB misses without */
    CUCKOO_STRIPES_MAX = 512,  /* locks of one side: 256 workers seldom meet */
    CUCKOO_MOVE_STRIPES = 256, /* counters: 2 KiB that stay in every worker's first cache */
    CUCKOO_SEARCH_MAX = 256,   /* buckets one search reads: load passes 0.98 before it fails */
    CUCKOO_SEARCH_TRIES = 4,   /* other writers took the room we made so often: then a victim */
};

/* Of a slot, from the top: the tag, four marks, the address as x86-64 and arm64 have it for users,
 * and seven marks where a node's alignment leaves zeroes. */
#define CUCKOO_ADDRESS_BITS 48
#define CUCKOO_TAG_SHIFT    52
#define CUCKOO_UNTAGGED     ((UINT64_C(1) << CUCKOO_TAG_SHIFT) - 1)
#define CUCKOO_ADDRESS_MASK (((UINT64_C(1) << CUCKOO_ADDRESS_BITS) - 1) & -(uint64_t)CUCKOO_ALIGN)
#define CUCKOO_MARKS_MASK   (CUCKOO_UNTAGGED & ~CUCKOO_ADDRESS_MASK)

/* Stored to with release, under the lock of its bucket; loaded with acquire, by any thread. */
struct cuckoo_slot {
    _Atomic uint64_t word;
};
_Static_assert(sizeof(struct cuckoo_slot) == 8, "eight slots are one cache line");
_Static_assert(CUCKOO_SLOTS_MAX * sizeof(struct cuckoo_slot) == CUCKOO_LINE, "a bucket, a line");
_Static_assert(CUCKOO_BITS_MAX <= CUCKOO_TAG_SHIFT, "side B's number leaves the tag alone");
_Static_assert(1 << (CUCKOO_MARKS - (CUCKOO_TAG_SHIFT - CUCKOO_ADDRESS_BITS)) == CUCKOO_ALIGN,
    "as many marks as there are bits");

/* Every slot of a bucket that was split: no tag is 0.  Below every word of a node. */
#define CUCKOO_SPLIT ((uint64_t)CUCKOO_ALIGN)

/* A lock, and what is counted under it: stored with it held, loaded by any thread. */
struct cuckoo_stripe {
    _Alignas(CUCKOO_LINE) pthread_mutex_t lock;
    _Atomic uint64_t moved;
    _Atomic uint64_t evicted;
};

/* What lookups may write when they are unlucky; apart from everything else they read. */
struct cuckoo_retries {
    _Alignas(CUCKOO_LINE) _Atomic uint64_t retried;
    _Atomic uint64_t locked;
};

/* How often a node with this stripe of keys was moved; bumped between its copy and its clear. */
struct cuckoo_moves {
    _Alignas(CUCKOO_LINE) _Atomic uint64_t count[CUCKOO_MOVE_STRIPES];
};

/* Written by every change of the table's contents, read to learn whether it should grow. */
struct cuckoo_tally {
    _Alignas(CUCKOO_LINE) _Atomic int64_t entries;
    _Atomic int64_t grow_at; /* with more it should double, or is about to; INT64_MAX: never */
    _Atomic uint64_t paths, path_max;
};

enum cuckoo_side {
    CUCKOO_A,
    CUCKOO_B
};

/* One generation of the slots.  Its memory stays for a grace period after it was succeeded. */
struct cuckoo_shape {
    unsigned bits;
    size_t bucket_mask; /* buckets of one side, less 1 */
    struct cuckoo_slot *side[2];
    struct cuckoo_shape *next; /* set before the first bucket says that it was split */
    struct cuckoo *table;
    struct rcu_later later;
};

/* Doubling. */
struct cuckoo_growth {
    pthread_mutex_t lock; /* tried, never waited for; stripes are taken inside */
    /* loaded by any thread, stored under the lock */
    _Atomic bool growing;
    _Atomic unsigned bits;  /* of the present shape */
    _Atomic uint64_t split; /* buckets of the present shape, side A's first */
    _Atomic uint64_t doubled, refused;
    /* by any thread */
    _Atomic uint64_t bytes;    /* of the table, all its shapes */
    _Atomic unsigned retiring; /* shapes that wait for their grace period */
};

#define CUCKOO_MAGIC OBJ_TAG('c', 'k', 'o', 'o')
struct cuckoo {
    /* set once at open, except the shape, which changes once in a doubling */
    uint32_t magic;
    unsigned slots_log2;
    size_t stripe_mask; /* stripes of one side, less 1; at most the first shape's bucket_mask */
    _Atomic(struct cuckoo_shape *) shape;
    struct cuckoo_stripe *stripes[2];
    struct cuckoo_conf conf;
    /* each on lines of its own */
    struct cuckoo_moves moves;
    struct cuckoo_retries retries;
    struct cuckoo_tally tally;
    _Alignas(CUCKOO_LINE) struct cuckoo_growth growth;
};

/* A bucket's name that outlasts doubling: where a key with this half would be. */
struct cuckoo_place {
    enum cuckoo_side side;
    uint64_t half;
};

/* The tag as it stands in a slot.  Never 0, so that a free slot has no key's tag. */
static inline uint64_t
cuckoo_tag_word(const struct hash128 *key)
{
    uint64_t tag = key->hi & ~CUCKOO_UNTAGGED;

    return tag != 0 ? tag : UINT64_C(1) << CUCKOO_TAG_SHIFT;
}

/* Marks where a slot has them. */
static inline uint64_t
cuckoo_marks_word(unsigned marks)
{
    uint64_t m = marks;

    return (m & (CUCKOO_ALIGN - 1)) |
           (m & -(uint64_t)CUCKOO_ALIGN) * ((UINT64_C(1) << CUCKOO_ADDRESS_BITS) / CUCKOO_ALIGN);
}

static inline struct cuckoo_node *
cuckoo_word_node(uint64_t word)
{
    return (struct cuckoo_node *)(uintptr_t)(word & CUCKOO_ADDRESS_MASK);
}

/* Where a key lives on this side: the sides see different halves of the hash. */
static inline struct cuckoo_place
cuckoo_place(enum cuckoo_side side, const struct hash128 *key)
{
    return (struct cuckoo_place){side, side == CUCKOO_A ? key->lo : key->hi};
}

static inline struct cuckoo_shape *
cuckoo_shape(const struct cuckoo *t)
{
    return atomic_load_explicit(&t->shape, memory_order_acquire);
}

static inline struct cuckoo_slot *
cuckoo_bucket(const struct cuckoo *t, const struct cuckoo_shape *s, struct cuckoo_place at)
{
    return s->side[at.side] + ((at.half & s->bucket_mask) << t->slots_log2);
}

static inline struct cuckoo_stripe *
cuckoo_stripe(const struct cuckoo *t, struct cuckoo_place at)
{
    return t->stripes[at.side] + (at.half & t->stripe_mask);
}

/* Every move of a key is between its own two buckets, so one counter chosen by the key is all
 * that its readers must watch. */
static inline _Atomic uint64_t *
cuckoo_move_count(struct cuckoo *t, const struct hash128 *key)
{
    return &t->moves.count[key->lo & (CUCKOO_MOVE_STRIPES - 1)];
}

static inline unsigned
cuckoo_slots(const struct cuckoo *t)
{
    return 1u << t->slots_log2;
}

static inline uint64_t
cuckoo_load(const struct cuckoo_slot *slot)
{
    return atomic_load_explicit(&slot->word, memory_order_acquire);
}

static inline void
cuckoo_store(struct cuckoo_slot *slot, uint64_t word)
{
    atomic_store_explicit(&slot->word, word, memory_order_release);
}

/* Counts under the stripe's lock, so without a locked instruction. */
#define CUCKOO_COUNT(counter, delta)  \
    atomic_store_explicit(&(counter), \
        atomic_load_explicit(&(counter), memory_order_relaxed) + (delta), memory_order_relaxed)

/* The bucket that nodes of this place are in now.  Under its stripe the answer lasts; without, it
 * is a hint, for threads that are online.  *in, unless NULL: its shape. */
static inline struct cuckoo_slot *
cuckoo_leaf(const struct cuckoo *t, struct cuckoo_place at, const struct cuckoo_shape **in)
{
    const struct cuckoo_shape *s = cuckoo_shape(t);
    struct cuckoo_slot *bucket = cuckoo_bucket(t, s, at);

    while (cuckoo_load(&bucket[cuckoo_slots(t) - 1]) == CUCKOO_SPLIT) {
        s = s->next;
        bucket = cuckoo_bucket(t, s, at);
    }
    if (in != NULL)
        *in = s;
    return bucket;
}

/* A slot of this bucket that holds `word` (0: a free one), whatever its marks, or NULL.  Under its lock
 * the answer lasts; without, it is a hint. */
struct cuckoo_slot *cuckoo_slot_with(
    const struct cuckoo *t, struct cuckoo_slot *bucket, uint64_t word);

void cuckoo_stripe_lock(struct cuckoo_stripe *stripe);
void cuckoo_stripe_unlock(struct cuckoo_stripe *stripe);

/* A guard of one bucket, for walks.  Its shape. */
const struct cuckoo_shape *cuckoo_lock_place(
    const struct cuckoo *t, struct cuckoo_place at, struct cuckoo_guard *g);
/* This thread holds no guard. */
bool cuckoo_is_free(void);

/* A shape with undefined slots; NULL: no memory. */
struct cuckoo_shape *cuckoo_shape_new(struct cuckoo *t, unsigned bits);
void cuckoo_shape_free(struct cuckoo *t, struct cuckoo_shape *s);
size_t cuckoo_shape_bytes(unsigned bits);
/* Sets when a table of this shape is to double. */
void cuckoo_plan_growth(struct cuckoo *t, unsigned bits);

#endif
