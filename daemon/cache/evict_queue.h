/* evict_queue.h -- the policies that choose the nodes to evict.  Knows numbers only.
 *
 *   s3-fifo  two queues, first in, first out ("FIFO queues are all you need for cache eviction",
 *            SOSP 2023).  What comes goes into `small`; at its end it moves to `main` if it was
 *            used twice, else it leaves and its hash is remembered: a ghost.  What comes back as a
 *            ghost goes into main, and so does what small has no room for before anything had to
 *            leave.  In main each use is worth another round
 *   sieve    one queue, and a hand that goes from the oldest to the newest: a node used since
 *            the hand came by stays where it is ("SIEVE is simpler than LRU", NSDI 2024)
 *   lru      by the last use.  A use leaves a stamp, which is looked at when room is made
 *            (lazy promotion); the order is as fine as the generations: about 1/32 of the bytes
 *
 *   node     a member, embedded in what may be evicted
 *   size     in a unit of the owner's choice, everywhere the same one
 *   look     one node examined: it is picked, or goes on in its queue or in another one
 *
 * Threads: the owner has a lock, and holds it in each call but evict_node_use() and
 * evict_node_uses(), which any thread may call at any time, without a lock.
 */
#ifndef TARN_EVICT_QUEUE_H
#define TARN_EVICT_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"

enum evict_policy {
    EVICT_S3_FIFO,
    EVICT_LRU,
    EVICT_SIEVE
};

enum {
    EVICT_USES_MAX = 3,     /* counted: two bits */
    EVICT_LOOKS = 4096,     /* at most in a pick: used ones go round again */
    EVICT_GENERATIONS = 64, /* of lru */
    EVICT_GHOST_BUCKET = 8, /* ghosts in a cache line */
};

/* Where a node is.  A pick says which queue it came from. */
enum evict_where {
    EVICT_OUT,
    EVICT_LEFT_SMALL, /* picked */
    EVICT_LEFT_MAIN,
    EVICT_IN_SMALL,
    EVICT_IN_MAIN /* the only queue of sieve and lru */
};

/* How a node comes into a queue.  With s3-fifo a copy goes into small, leaves no ghost, and finds none: it is the owner's to
 * keep, and here only while it is used. */
enum evict_comes {
    EVICT_COMES_NEW,
    EVICT_COMES_IN_PLACE, /* of one in main: goes there at once */
    EVICT_COMES_AS_COPY   /* of what another cache owns */
};

struct evict_node {
    struct list link; /* under the owner's lock */
    /* set by the owner before it is added */
    uint32_t hash; /* of the key; equal when an entry comes back */
    uint32_t size; /* not 0 */
    /* any thread, no lock */
    _Atomic uint32_t stamp; /* of the last use, by the owner's clock; 0: never */
    _Atomic uint8_t uses;   /* 0 to EVICT_USES_MAX */
    /* under the owner's lock; the picker may read `where` afterwards */
    uint8_t where;
    uint8_t comes;      /* enum evict_comes; as a copy also while it is there */
    _Atomic bool owner; /* the owner's own: nothing here looks at it */
};

/* All bits 0: free. */
struct evict_ghost {
    uint32_t hash, stamp;
};

struct evict_queue {
    /* set once */
    enum evict_policy policy;
    struct evict_ghost *ghosts; /* borrowed */
    size_t nbuckets;
    unsigned ghost_shift; /* from sizes to ghosts' stamps */
    /* under the owner's lock */
    struct list lists[EVICT_GENERATIONS]; /* oldest first; s3-fifo: small, main; sieve: one */
    uint64_t small_size, main_size;       /* sums of what is in there */
    bool has_picked;                      /* once at least */
    uint64_t ghosted;                     /* sum of what ever became a ghost, and a bit more */
    uint64_t ghost_hits, looks;           /* ever */
    struct list *hand;                    /* sieve: the next to look at; the head: the oldest */
    /* lru: generations, a ring in lists; and what the newest one was given since it was opened */
    uint32_t from[EVICT_GENERATIONS]; /* the least stamp that belongs there */
    unsigned oldest, ngenerations;
    uint64_t newest_size;
};

/* False: there is no policy of this name. */
bool evict_policy_of(const char *name, enum evict_policy *out);

/* capacity: about what all nodes together will have; a bound of nothing.  Borrows `ghosts`,
 * zeroed, until the queue is no longer used; s3-fifo alone remembers there.  The others,
 * and a caller that gives none (nghosts < EVICT_GHOST_BUCKET), do without. */
void evict_queue_init(struct evict_queue *q, enum evict_policy policy, uint64_t capacity,
    struct evict_ghost *ghosts, size_t nghosts);

void evict_node_init(struct evict_node *n);

/* `now` by the clock of the stamps; when it is behind an earlier one, that one counts. */
void evict_queue_add(struct evict_queue *q, struct evict_node *n, uint32_t now);
/* Does nothing when it is not there any more. */
void evict_queue_remove(struct evict_queue *q, struct evict_node *n);
/* `n`, which is to be added, replaces `old`, and is as much used. */
void evict_queue_inherit(struct evict_queue *q, struct evict_node *n, const struct evict_node *old);
/* Takes out the nodes to evict: until they have `size` together or are `most` (> 0), or EVICT_LOOKS
 * were not enough; but one at least unless all are gone, used or not.  How many. */
unsigned evict_queue_pick(
    struct evict_queue *q, uint64_t size, struct evict_node **victims, unsigned most);

static inline unsigned
evict_node_uses(const struct evict_node *n)
{
    return atomic_load_explicit(&n->uses, memory_order_relaxed);
}

/* All that a hit does.  Counts may get lost between threads: it is a hint. */
static inline void
evict_node_use(struct evict_node *n, uint32_t now)
{
    uint8_t uses = atomic_load_explicit(&n->uses, memory_order_relaxed);

    if (uses < EVICT_USES_MAX)
        atomic_store_explicit(&n->uses, (uint8_t)(uses + 1), memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&n->stamp, memory_order_relaxed) != now, 0))
        atomic_store_explicit(&n->stamp, now, memory_order_relaxed);
}

#endif
