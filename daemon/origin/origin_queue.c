/* origin_queue.c -- fetches that wait for one of max_connections.
 *
 * The queue is the backend's, of all workers, so that they come in order.  While a fetch is in it,
 * or was called and has not taken its connection yet, no new fetch takes one.  A connection
 * cannot go from worker to worker: one that is idle here is closed when the first in the queue is
 * another worker's.
 *
 * A fetch that begins to wait says so (`queued`) and then looks at `open`; one that closes a
 * connection changes `open` and then looks at `queued`: so one of them sees the other.
 */
#include "daemon/base/terr.h"
#include "daemon/origin/origins_priv.h"
#include "daemon/shm/counters.h"

unsigned
backend_queued(const struct backend *b)
{
    return atomic_load_explicit(&b->queued, memory_order_relaxed);
}

void
origin_turn_init(struct origin_turn *t, struct loop *l, struct task *user)
{
    t->waits = false;
    waiter_init(&t->waiter, user, &l->inbox);
}

/* Not at a sick backend: origin_take refuses at once there, and a wait would only delay that. */
bool
origin_must_queue(const struct backend *b, const struct origin_turn *t)
{
    return !t->waits && backend_queued(b) > 0 && backend_healthy(b);
}

/* What origin_pass does for the first in the queue; under the lock.  True: it needs a connection
 * that is idle here to be closed. */
static bool
queue_call_first(struct origins *os, struct origin_pool *pool)
{
    struct backend *b = pool->backend;
    struct waiter *first;

    if (list_empty(&b->queue))
        return false;
    first = container_of(b->queue.next, struct waiter, link);
    if (atomic_load(&b->open) < b->conf->max_connections ||
        (pool->nidle > 0 && first->inbox == &os->loop->inbox)) {
        waiter_notify(first);
        return false;
    }
    return pool->nidle > 0;
}

void
origin_pass(struct origins *os, struct origin_pool *pool)
{
    struct backend *b = pool->backend;
    bool shed;

    if (atomic_load(&b->queued) == 0)
        return;
    pthread_mutex_lock(&b->queue_lock);
    shed = queue_call_first(os, pool);
    pthread_mutex_unlock(&b->queue_lock);
    if (shed) /* the one that was idle for longest; this comes back here, with room */
        origin_conn_free(container_of(pool->idle.prev, struct origin_conn, link));
}

/* On the loop of `os`: another worker's fetch waits, and idle connections here count against its
 * limit. */
static void
origins_on_poke(struct post *p)
{
    struct origins *os = container_of(p, struct origins, poke);

    atomic_store(&os->poked, false);
    for (unsigned i = 0; i < os->npools; i++) {
        struct origin_pool *pool = os->pools[i];
        unsigned most = pool != NULL ? pool->nidle : 0;

        /* Each call closes one at most, and a closed one calls on for itself: so no more than were
         * idle. */
        for (unsigned n = 0; n < most && pool->nidle > 0; n++)
            origin_pass(os, pool);
    }
}

void
origins_join(struct origins *os, struct registry *rg)
{
    /* origins_leave has been called, and is not called again: a peer that stays would be freed
     * memory. */
    if (os->draining)
        return;
    os->registry = rg;
    os->poke.land = origins_on_poke;
    pthread_mutex_lock(&rg->peers_lock);
    list_add_tail(&rg->peers, &os->peer);
    pthread_mutex_unlock(&rg->peers_lock);
}

/* A poke that is on its way lands while the loop lives, and finds nothing idle. */
void
origins_leave(struct origins *os)
{
    if (os->registry == NULL)
        return;
    pthread_mutex_lock(&os->registry->peers_lock);
    list_del(&os->peer);
    pthread_mutex_unlock(&os->registry->peers_lock);
    os->registry = NULL;
}

/* The other workers may have idle ones, which count. */
static void
queue_ask_others(struct origins *os, struct registry *rg)
{
    pthread_mutex_lock(&rg->peers_lock);
    for (struct list *l = rg->peers.next; l != &rg->peers; l = l->next) {
        struct origins *other = container_of(l, struct origins, peer);

        if (other != os && !atomic_exchange(&other->poked, true))
            inbox_send(&other->loop->inbox, &other->poke);
    }
    pthread_mutex_unlock(&rg->peers_lock);
}

int
origin_queue(struct origins *os, struct backend *b, struct origin_turn *t, bool patient)
{
    struct origin_pool *pool = origins_pool(os, b);
    bool begins = !t->waits;

    OBJ_CHECK(os, ORIGINS_MAGIC);
    if (pool == NULL || (begins && ((b->conf->queue_timeout == 0 && !patient) ||
                                       (int64_t)pool->nqueued >= b->conf->queue_max))) {
        counter_add(os->counters, COUNTER_backend_busy, 1);
        return TERR_BUSY;
    }
    if (begins) {
        t->waits = true;
        pool->nqueued++;
        /* Before origin_pass below reads `open`: a connection that closes in between then sees
         * us. */
        atomic_fetch_add(&b->queued, 1);
        counter_add(os->counters, COUNTER_backend_queued, 1);
    }
    pthread_mutex_lock(&b->queue_lock);
    waiter_arm(&t->waiter, &b->queue);
    if (!begins) { /* called too early, or for nothing: he keeps his place */
        list_del(&t->waiter.link);
        list_add_head(&b->queue, &t->waiter.link);
    }
    pthread_mutex_unlock(&b->queue_lock);
    if (begins)
        queue_ask_others(os, b->registry);
    origin_pass(os, pool);
    return 0;
}

void
origin_leave_queue(struct origins *os, struct backend *b, struct origin_turn *t)
{
    struct origin_pool *pool;

    OBJ_CHECK(os, ORIGINS_MAGIC);
    if (!t->waits)
        return;
    pool = os->pools[b->number];
    tassert(pool->backend == b && pool->nqueued > 0);
    pthread_mutex_lock(&b->queue_lock);
    if (waiter_state(&t->waiter) == WAITER_ARMED)
        waiter_disarm(&t->waiter);
    pthread_mutex_unlock(&b->queue_lock);
    t->waits = false;
    pool->nqueued--;
    atomic_fetch_sub(&b->queued, 1);
    /* The call may have been ours and is not used: the next one gets it. */
    origin_pass(os, pool);
}
