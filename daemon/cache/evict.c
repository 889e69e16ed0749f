/* evict.c -- makes room: asks the policy for victims, and unlinks them.
 *
 * A hit writes only the small use counter and the tick of the last use, and not even these once
 * they say so already; queues are touched when an entry settles, leaves, or room is made.
 * What is unlinked leaves the queues at once, even while it is read. */
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"

enum {
    EVICT_BATCH = 64,         /* victims unlinked in one go, off the queue's lock */
    EVICT_BARREN_MAX = 8,     /* picks of which everything is being read: then it is enough */
    EVICT_GHOST_BYTES = 4096, /* of the storage for each ghost: 0.2 % of it for all */
    EVICT_GHOSTS_MIN = EVICT_GHOST_BUCKET,
};

int
evict_init(struct evict *ev, struct storage *st, uint64_t storage_bytes, const char *policy)
{
    enum evict_policy p = EVICT_S3_FIFO;
    size_t n = storage_bytes / EVICT_GHOST_BYTES;

    *ev = (struct evict){.nghosts = 0};
    if (policy != NULL && !evict_policy_of(policy, &p))
        return TERR_CONFIG;
    if (p == EVICT_S3_FIFO) {
        ev->nghosts = n < EVICT_GHOSTS_MIN ? EVICT_GHOSTS_MIN : n;
        ev->ghosts = storage_alloc(st, ev->nghosts * sizeof(*ev->ghosts), CHARGE_GHOST);
        if (ev->ghosts == NULL)
            return TERR_NOMEM;
        memset(ev->ghosts, 0, ev->nghosts * sizeof(*ev->ghosts));
    }
    evict_queue_init(&ev->queue, p, storage_bytes >> 10, ev->ghosts, ev->nghosts);
    pthread_mutex_init(&ev->lock, NULL);
    return 0;
}

void
evict_fini(struct evict *ev, struct storage *st)
{
    tassert(ev->queue.small_size + ev->queue.main_size == 0);
    if (ev->ghosts != NULL)
        storage_free(st, ev->ghosts, ev->nghosts * sizeof(*ev->ghosts), CHARGE_GHOST);
    pthread_mutex_destroy(&ev->lock);
}

static void
evict_show_one(struct cache *c, enum counter id, uint64_t *shown, uint64_t now)
{
    if (now == *shown)
        return;
    counter_add_shared(
        c->counters, id, now - *shown); /* of a gauge: perhaps below 0, modulo 2^64 */
    *shown = now;
}

/* Counters follow the queues; under the lock. */
static void
evict_unlock(struct cache *c)
{
    struct evict *ev = &c->evict;

    evict_show_one(c, COUNTER_cache_ghost_hits, &ev->shown_ghost_hits, ev->queue.ghost_hits);
    evict_show_one(c, COUNTER_cache_small_bytes, &ev->shown_small, ev->queue.small_size << 10);
    evict_show_one(c, COUNTER_cache_main_bytes, &ev->shown_main, ev->queue.main_size << 10);
    pthread_mutex_unlock(&ev->lock);
}

void
evict_add(struct cache *c, struct entry *e, uint32_t size_kb)
{
    e->fetched = false; /* what follows takes the place of `fetch` */
    e->evict.hash = (uint32_t)(e->node.key.hi >> 32);
    e->evict.size = size_kb;
    pthread_mutex_lock(&c->evict.lock);
    evict_queue_add(&c->evict.queue, &e->evict, (uint32_t)(e->received_ms >> ENTRY_TICK_LOG2));
    evict_unlock(c);
}

void
evict_remove(struct cache *c, struct entry *e)
{
    pthread_mutex_lock(&c->evict.lock);
    evict_queue_remove(&c->evict.queue, &e->evict);
    evict_unlock(c);
}

void
evict_inherit(struct cache *c, struct entry *e, const struct entry *old)
{
    pthread_mutex_lock(&c->evict.lock);
    evict_queue_inherit(&c->evict.queue, &e->evict, &old->evict);
    /* No sum has changed, so no counter has to follow. */
    pthread_mutex_unlock(&c->evict.lock);
}

/* Unlinks a victim, unless another thread was faster.  What will come back soon. */
static uint64_t
evict_unlink(struct cache *c, struct entry *e)
{
    uint64_t worth = (uint64_t)e->evict.size << 10;
    bool held = atomic_load_explicit(&e->refs, memory_order_relaxed) > 1;
    bool was_small = e->evict.where == EVICT_LEFT_SMALL, was_linked;
    struct cuckoo_guard g;

    cuckoo_lock(c->index, &e->node.key, &g);
    was_linked = e->linked;
    e->promised = was_linked && !held; /* what is read comes back after its readers */
    /* Before it is unlinked: entry_on_grace() may keep the promise right after that. */
    if (e->promised)
        storage_promise(c->storage, worth);
    if (was_linked)
        cache_unlink_locked(c, &g, e);
    if (was_linked && entry_state(e) == ENTRY_READY)
        removals_note(&c->removals, &e->node.key, REMOVAL_EVICTED);
    cuckoo_unlock(c->index, &g);
    if (!was_linked)
        return 0;
    counter_add_shared(c->counters, COUNTER_cache_evicted, 1);
    counter_add_shared(
        c->counters, was_small ? COUNTER_cache_evicted_small : COUNTER_cache_evicted_main, 1);
    counter_add_shared(c->counters, COUNTER_cache_evicted_bytes, worth);
    return held ? 0 : worth;
}

/* On the thread that needs room, which holds no guard.  Victims are picked under the queue's lock
 * and unlinked without it: a key's guard comes first in the lock order (E4).  Bytes that readers
 * hold are no room that comes soon, so it goes on, but not for ever (V4). */
uint64_t
evict_make_room(void *ctx, uint64_t bytes)
{
    struct cache *c = ctx;
    struct evict_node *victims[EVICT_BATCH];
    uint64_t soon = 0, had;
    unsigned n, barren = 0;

    OBJ_CHECK(c, CACHE_MAGIC);
    do {
        had = soon;
        pthread_mutex_lock(&c->evict.lock);
        n = evict_queue_pick(&c->evict.queue, (bytes - soon + 1023) >> 10, victims, EVICT_BATCH);
        evict_unlock(c);
        for (unsigned i = 0; i < n; i++) /* they stay readable: we are online */
            soon += evict_unlink(c, container_of(victims[i], struct entry, evict));
        barren += soon == had;
    } while (n > 0 && soon < bytes && barren < EVICT_BARREN_MAX);
    return soon;
}
