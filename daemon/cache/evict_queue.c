/* evict_queue.c -- the policies that choose the nodes to evict. */
#include "daemon/cache/evict_queue.h"

#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"

enum {
    EVICT_SMALL_PART = 10, /* small has a tenth of all, main and its ghosts have the rest */
    EVICT_SMALL_USES = 2,  /* that earn a place in main */
    EVICT_GENERATION_PART = 32,
    EVICT_GHOST_STAMP_BITS = 24, /* of the capacity: stamps come round after 256 of them */
};
/* The lists of s3-fifo; sieve's is main as well. */
enum {
    LIST_SMALL,
    LIST_MAIN
};

bool
evict_policy_of(const char *name, enum evict_policy *out)
{
    static const char *const names[] = {
        [EVICT_S3_FIFO] = "s3-fifo", [EVICT_LRU] = "lru", [EVICT_SIEVE] = "sieve"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (enum evict_policy)i;
        return true;
    }
    return false;
}

void
evict_queue_init(struct evict_queue *q, enum evict_policy policy, uint64_t capacity,
    struct evict_ghost *ghosts, size_t nghosts)
{
    *q = (struct evict_queue){.policy = policy, .ghosts = ghosts};
    if (policy == EVICT_S3_FIFO)
        q->nbuckets = nghosts / EVICT_GHOST_BUCKET;
    tassert(q->nbuckets <= UINT32_MAX);
    while (capacity >> q->ghost_shift >> EVICT_GHOST_STAMP_BITS != 0)
        q->ghost_shift++;
    q->ghosted = UINT64_C(1) << q->ghost_shift; /* no stamp is 0 */
    for (unsigned i = 0; i < EVICT_GENERATIONS; i++)
        list_init(&q->lists[i]);
    q->hand = &q->lists[LIST_MAIN];
    q->ngenerations = 1;
}

void
evict_node_init(struct evict_node *n)
{
    memset(n, 0, sizeof(*n));
    list_init(&n->link);
}

static struct evict_node *
evict_node_of(struct list *link)
{
    return container_of(link, struct evict_node, link);
}

static void
evict_node_set_uses(struct evict_node *n, unsigned uses)
{
    atomic_store_explicit(&n->uses, (uint8_t)uses, memory_order_relaxed);
}

static void
evict_put(struct evict_queue *q, struct evict_node *n, enum evict_where where, struct list *to)
{
    n->where = (uint8_t)where;
    list_add_tail(to, &n->link);
    if (where == EVICT_IN_SMALL)
        q->small_size += n->size;
    else
        q->main_size += n->size;
}

/* The only way out of the queue: sums and the hand of sieve are right after it. */
static void
evict_take(struct evict_queue *q, struct evict_node *n)
{
    uint64_t *sum = n->where == EVICT_IN_SMALL ? &q->small_size : &q->main_size;

    tassert(n->where == EVICT_IN_SMALL || n->where == EVICT_IN_MAIN);
    tassert(*sum >= n->size);
    *sum -= n->size;
    /* Else the hand would stay on memory that is freed. */
    if (q->hand == &n->link)
        q->hand = n->link.next;
    n->where = n->where == EVICT_IN_SMALL ? EVICT_LEFT_SMALL : EVICT_LEFT_MAIN;
    list_del(&n->link);
}

/* ---- ghosts: a table of hashes, in buckets.  How old one is, is told by what has become a ghost
 * since; so the oldest go by themselves, and nothing has to be linked. ---- */

static struct evict_ghost *
ghost_bucket(struct evict_queue *q, uint32_t hash)
{
    return &q->ghosts[((uint64_t)hash * q->nbuckets >> 32) * EVICT_GHOST_BUCKET];
}

/* 0 is a free place, so a clock that comes round leaves it out. */
static uint32_t
ghost_now(const struct evict_queue *q)
{
    uint32_t stamp = (uint32_t)(q->ghosted >> q->ghost_shift);

    return stamp != 0 ? stamp : 1;
}

/* Over itself, else into a free place, else over the oldest of its bucket: one line of memory is
 * touched, and nothing has to be linked or freed. */
static void
ghost_add(struct evict_queue *q, const struct evict_node *n)
{
    struct evict_ghost *to = NULL, *b;
    uint32_t now = ghost_now(q), age = 0;

    q->ghosted += n->size;
    if (q->nbuckets == 0)
        return;
    b = ghost_bucket(q, n->hash);
    for (unsigned i = 0; i < EVICT_GHOST_BUCKET; i++) {
        uint32_t its = b[i].stamp == 0 ? UINT32_MAX : now - b[i].stamp;

        if (b[i].stamp != 0 && b[i].hash == n->hash) {
            to = &b[i];
            break;
        }
        if (to == NULL || its > age) {
            to = &b[i];
            age = its;
        }
    }
    *to = (struct evict_ghost){n->hash, now};
}

/* Is it one?  Then it is none any more. */
static bool
ghost_take(struct evict_queue *q, uint32_t hash)
{
    uint64_t all = q->small_size + q->main_size, span = all - all / EVICT_SMALL_PART;
    struct evict_ghost *b;

    if (q->nbuckets == 0)
        return false;
    b = ghost_bucket(q, hash);
    for (unsigned i = 0; i < EVICT_GHOST_BUCKET; i++) {
        if (b[i].stamp == 0 || b[i].hash != hash)
            continue;
        /* Too many bytes have become ghosts since (V5). */
        if ((uint32_t)(ghost_now(q) - b[i].stamp) > span >> q->ghost_shift)
            return false;
        b[i].stamp = 0;
        q->ghost_hits++;
        return true;
    }
    return false;
}

/* ---- lru: generations, from the oldest to the newest. ---- */

static unsigned
lru_nth(const struct evict_queue *q, unsigned i)
{
    return (q->oldest + i) % EVICT_GENERATIONS;
}

/* The oldest one has no members any more, or shares those of the next. */
static void
lru_drop_oldest(struct evict_queue *q)
{
    unsigned old = q->oldest, next = lru_nth(q, 1);

    tassert(q->ngenerations > 1);
    list_splice(&q->lists[old], &q->lists[next]); /* its members come behind */
    list_splice(&q->lists[next], &q->lists[old]);
    q->from[next] = q->from[old];
    q->oldest = next;
    q->ngenerations--;
}

/* The generation of a node that comes now. */
static struct list *
lru_newest(struct evict_queue *q, uint32_t now, uint32_t size)
{
    uint64_t share = (q->small_size + q->main_size) / EVICT_GENERATION_PART;
    unsigned newest = lru_nth(q, q->ngenerations - 1);

    /* Only once the clock has moved on: of two that begin with the same stamp no use could say
     * which it means. */
    if (q->newest_size >= share && now > q->from[newest]) {
        if (q->ngenerations == EVICT_GENERATIONS)
            lru_drop_oldest(q);
        newest = lru_nth(q, q->ngenerations++);
        q->from[newest] = now;
        q->newest_size = 0;
    }
    q->newest_size += size;
    return &q->lists[newest];
}

/* A look: a node used since it came here moves to the generation of its last use. */
static struct evict_node *
lru_look(struct evict_queue *q, bool must)
{
    struct evict_node *n;
    uint32_t stamp;
    unsigned i;

    while (q->ngenerations > 1 && list_empty(&q->lists[q->oldest]))
        lru_drop_oldest(q);
    i = q->ngenerations - 1;
    n = evict_node_of(q->lists[q->oldest].next);
    stamp = atomic_load_explicit(&n->stamp, memory_order_relaxed);
    while (i > 0 && q->from[lru_nth(q, i)] > stamp)
        i--;
    if (i == 0 || must)
        return n;
    list_del(&n->link);
    list_add_tail(&q->lists[lru_nth(q, i)], &n->link);
    return NULL;
}

/* ---- sieve ---- */

/* A node that was used stays where it is and loses its mark; the hand goes on (SIEVE, NSDI 2024).
 * The head of the list stands for "begin with the oldest". */
static struct evict_node *
sieve_look(struct evict_queue *q, bool must)
{
    struct evict_node *n;

    if (q->hand == &q->lists[LIST_MAIN])
        q->hand = q->hand->next;
    n = evict_node_of(q->hand);
    if (evict_node_uses(n) == 0 || must)
        return n;
    evict_node_set_uses(n, 0);
    q->hand = q->hand->next;
    return NULL;
}

/* ---- s3-fifo ---- */

/* Small gives while it has more than its tenth, else main.  What small evicts is remembered as a
 * ghost; in main each use is worth another round (S3-FIFO, SOSP 2023), so looks have to be bounded
 * by the caller. */
static struct evict_node *
s3_look(struct evict_queue *q, bool must)
{
    bool small = q->small_size > (q->small_size + q->main_size) / EVICT_SMALL_PART;
    struct evict_node *n;
    unsigned uses;

    if (list_empty(&q->lists[LIST_MAIN]))
        small = true;
    n = evict_node_of(q->lists[small ? LIST_SMALL : LIST_MAIN].next);
    uses = evict_node_uses(n);
    if (must || uses < (small ? EVICT_SMALL_USES : 1u)) {
        if (small && n->comes != EVICT_COMES_AS_COPY)
            ghost_add(q, n);
        return n;
    }
    evict_take(q, n);
    evict_node_set_uses(n, small ? 0 : uses - 1);
    evict_put(q, n, EVICT_IN_MAIN, &q->lists[LIST_MAIN]);
    return NULL;
}

/* Nothing has been evicted yet: then main takes what small has no room for, else all that came
 * first would have to prove itself when the first one comes for which there is no room. */
static bool
s3_is_filling(const struct evict_queue *q)
{
    return !q->has_picked && q->small_size > (q->small_size + q->main_size) / EVICT_SMALL_PART;
}

static bool
s3_is_known(struct evict_queue *q, const struct evict_node *n)
{
    return n->comes != EVICT_COMES_AS_COPY && (ghost_take(q, n->hash) || s3_is_filling(q));
}

/* ---- all of them ---- */

void
evict_queue_add(struct evict_queue *q, struct evict_node *n, uint32_t now)
{
    tassert(n->where == EVICT_OUT && n->size > 0);
    if (q->policy == EVICT_LRU)
        evict_put(q, n, EVICT_IN_MAIN, lru_newest(q, now, n->size));
    else if (q->policy == EVICT_SIEVE || s3_is_known(q, n) || n->comes == EVICT_COMES_IN_PLACE)
        evict_put(q, n, EVICT_IN_MAIN, &q->lists[LIST_MAIN]);
    else
        evict_put(q, n, EVICT_IN_SMALL, &q->lists[LIST_SMALL]);
}

void
evict_queue_remove(struct evict_queue *q, struct evict_node *n)
{
    /* What was picked keeps its LEFT_*, which the picker reads afterwards. */
    if (n->where != EVICT_IN_SMALL && n->where != EVICT_IN_MAIN)
        return;
    evict_take(q, n);
    n->where = EVICT_OUT;
}

void
evict_queue_inherit(struct evict_queue *q, struct evict_node *n, const struct evict_node *old)
{
    tassert(n->where == EVICT_OUT);
    if (old->where == EVICT_IN_MAIN && q->policy == EVICT_S3_FIFO)
        n->comes = EVICT_COMES_IN_PLACE;
    if (evict_node_uses(old) > evict_node_uses(n))
        evict_node_set_uses(n, evict_node_uses(old));
}

/* The next to leave, or NULL if all nodes looked at stay.  The queue is not empty. */
static struct evict_node *
evict_look(struct evict_queue *q, bool must)
{
    q->looks++;
    switch (q->policy) {
    case EVICT_S3_FIFO:
        return s3_look(q, must);
    case EVICT_LRU:
        return lru_look(q, must);
    case EVICT_SIEVE:
        return sieve_look(q, must);
    }
    TUNREACHABLE("eviction policy");
}

unsigned
evict_queue_pick(struct evict_queue *q, uint64_t size, struct evict_node **victims, unsigned most)
{
    uint64_t sum = 0;
    unsigned n = 0;

    tassert(most > 0);
    q->has_picked = true;
    for (unsigned looks = 1; n < most && sum < size && q->small_size + q->main_size > 0; looks++) {
        struct evict_node *v;

        /* The caller holds a lock that each settling entry wants.  But one has to leave, used or
         * not: else a cache of nothing but used entries would never make room (V3). */
        if (looks > EVICT_LOOKS - 1 && n > 0)
            break;
        v = evict_look(q, looks >= EVICT_LOOKS);
        if (v == NULL)
            continue;
        evict_take(q, v);
        victims[n++] = v;
        sum += v->size;
    }
    return n;
}
