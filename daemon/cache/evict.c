/* evict.c -- who leaves when room is needed: first in, first out, with a second chance.
 *
 * A hit writes only the small use counter, and not even that once it is full; the queue is
 * touched when an entry settles, leaves, or room is made. */
#include "daemon/cache/cache_priv.h"

enum {
    EVICT_BATCH = 64,   /* victims unlinked in one go, off the queue's lock */
    EVICT_LOOKS = 4096, /* entries looked at for a batch: used ones go round again */
};

void
evict_init(struct evict_queue *q)
{
    pthread_mutex_init(&q->lock, NULL);
    list_init(&q->fifo);
}

void
evict_fini(struct evict_queue *q)
{
    tassert(list_empty(&q->fifo));
    pthread_mutex_destroy(&q->lock);
}

void
evict_add(struct evict_queue *q, struct entry *e)
{
    pthread_mutex_lock(&q->lock);
    list_add_tail(&q->fifo, &e->evict_link);
    pthread_mutex_unlock(&q->lock);
}

void
evict_remove(struct evict_queue *q, struct entry *e)
{
    pthread_mutex_lock(&q->lock);
    list_del(&e->evict_link);
    pthread_mutex_unlock(&q->lock);
}

/* Takes victims off the queue, worth `bytes` or as many as the batch holds. */
static unsigned
evict_pick(struct evict_queue *q, uint64_t bytes, struct entry *victims[EVICT_BATCH])
{
    uint64_t sum = 0;
    unsigned n = 0;

    pthread_mutex_lock(&q->lock);
    for (unsigned looks = 0; looks < EVICT_LOOKS && n < EVICT_BATCH && sum < bytes; looks++) {
        struct entry *e;
        uint8_t uses;

        if (list_empty(&q->fifo))
            break;
        e = container_of(q->fifo.next, struct entry, evict_link);
        list_del(&e->evict_link);
        uses = atomic_load_explicit(&e->uses, memory_order_relaxed);
        if (uses > 0) {
            atomic_store_explicit(&e->uses, (uint8_t)(uses - 1), memory_order_relaxed);
            list_add_tail(&q->fifo, &e->evict_link);
            continue;
        }
        victims[n++] = e;
        sum += (uint64_t)e->charge_kb << 10;
    }
    pthread_mutex_unlock(&q->lock);
    return n;
}

uint64_t
evict_make_room(void *ctx, uint64_t bytes)
{
    struct cache *c = ctx;
    struct entry *victims[EVICT_BATCH];
    uint64_t soon = 0;
    unsigned n;

    OBJ_CHECK(c, CACHE_MAGIC);
    do {
        n = evict_pick(&c->evict, bytes - soon, victims);
        for (unsigned i = 0; i < n; i++) {
            struct entry *e = victims[i]; /* stays readable: we are online */
            uint64_t worth = (uint64_t)e->charge_kb << 10;
            struct cuckoo_guard g;
            bool was_linked, held;

            held = atomic_load_explicit(&e->refs, memory_order_relaxed) > 1;
            cuckoo_lock(c->index, &e->node.key, &g);
            was_linked = e->linked;
            if (was_linked)
                cache_unlink_locked(c, &g, e);
            cuckoo_unlock(c->index, &g);
            if (!was_linked)
                continue;
            counter_add_shared(c->counters, COUNTER_cache_evicted, 1);
            counter_add_shared(c->counters, COUNTER_cache_evicted_bytes, worth);
            if (!held)
                soon += worth; /* what somebody reads comes back when they are done */
        }
    } while (n == EVICT_BATCH && soon < bytes);
    return soon;
}
