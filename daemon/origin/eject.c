/* eject.c -- backends with failing fetches are left out by directors for a while.
 *
 * It is for what no probe sees, or not yet.  (Envoy's outlier detection, nginx's max_fails.)  A
 * backend that comes back is on trial: the next failure is enough, and then it is left out for
 * twice as long.
 */
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/shm/counters.h"

enum {
    EJECT_MOST_MS = 300000 /* unless the first time is longer */
};

bool
backend_ejected(const struct backend *b)
{
    return atomic_load_explicit(&b->ejected, memory_order_relaxed);
}

void
backend_note_good(struct backend *b)
{
    if (atomic_load_explicit(&b->fails, memory_order_relaxed) != 0)
        atomic_store_explicit(&b->fails, 0, memory_order_relaxed);
}

static int64_t
eject_time(const struct backend *b)
{
    int64_t ms = b->conf->eject_for, most = ms > EJECT_MOST_MS ? ms : EJECT_MOST_MS;

    for (unsigned i = 0; i < b->eject.times && ms < most; i++)
        ms *= 2;
    return ms < most ? ms : most;
}

/* Under the lock.  A backend that was well for as long as it was out starts afresh. */
static void
eject_begin(struct backend *b, uint64_t now_ms)
{
    tassert(!backend_ejected(b));
    if (now_ms - b->eject.back_ms > (uint64_t)b->eject.took_ms)
        b->eject.times = 0;
    b->eject.took_ms = eject_time(b);
    tassert(b->eject.took_ms > 0); /* eject_for has a least */
    b->eject.until_ms = now_ms + (uint64_t)b->eject.took_ms;
    b->eject.times++;
    atomic_store_explicit(&b->ejected, true, memory_order_relaxed);
}

void
backend_note_bad(struct backend *b, uint64_t now_ms, int err)
{
    unsigned after = (unsigned)b->conf->eject_after, fails;
    bool begins = false;
    int64_t took_ms;

    outcome_failed(b->outcome);
    if (after == 0 || !atomic_load_explicit(&b->member, memory_order_relaxed))
        return;
    fails = atomic_fetch_add_explicit(&b->fails, 1, memory_order_relaxed) + 1;
    if (fails < after || backend_ejected(b))
        return;
    /* Several workers may count the last failure at a time: one of them begins, and says so. */
    pthread_mutex_lock(&b->lock);
    begins = !backend_ejected(b);
    if (begins)
        eject_begin(b, now_ms);
    took_ms = b->eject.took_ms;
    pthread_mutex_unlock(&b->lock);
    if (!begins)
        return;
    if (b->registry->counters != NULL)
        counter_add_shared(b->registry->counters, COUNTER_backend_ejected, 1);
    elog(ELOG_WARN,
        "backend %s: left out for %lld ms, while there are others: %u failures, last: %s", b->full,
        (long long)took_ms, fails, terr_text(err));
}

void
backend_eject_tick(struct backend *b, uint64_t now_ms)
{
    bool ends;

    if (!backend_ejected(b))
        return;
    pthread_mutex_lock(&b->lock);
    ends = backend_ejected(b) && now_ms >= b->eject.until_ms;
    if (ends) {
        b->eject.back_ms = now_ms;
        /* On trial: one failure more, and it is left out again. */
        atomic_store_explicit(&b->fails, (unsigned)b->conf->eject_after - 1, memory_order_relaxed);
        atomic_store_explicit(&b->well_ms, backend_wall_ms(), memory_order_relaxed);
        atomic_store_explicit(&b->ejected, false, memory_order_relaxed);
    }
    pthread_mutex_unlock(&b->lock);
    if (ends)
        elog(ELOG_INFO, "backend %s: back, on trial", b->full);
}

void
backend_forgive(struct backend *b)
{
    b->eject.times = 0;
    outcome_forget_fails(b->outcome);
    atomic_store_explicit(&b->fails, 0, memory_order_relaxed);
    atomic_store_explicit(&b->ejected, false, memory_order_relaxed);
}
