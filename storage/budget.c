/* budget.c -- how many bytes a store may use, who makes room, and who waits for it. */
#include "storage/budget.h"

#include <errno.h>

#include "daemon/base/tassert.h"
#include "daemon/base/waiter.h"
#include "storage/storage_priv.h"

#define BUDGET_HEADROOM_MAX (UINT64_C(2) * 1024 * 1024)
enum {
    BUDGET_HEADROOM_PART = 64, /* of the limit */
    BUDGET_RESERVE_PART = 4,   /* of the headroom */
};

/* An evictor that allocates (a ghost entry, say) must not be asked to evict again. */
static _Thread_local bool budget_evicting;

void
budget_init(struct budget *b, uint64_t limit)
{
    *b = (struct budget){.limit = limit, .headroom = limit / BUDGET_HEADROOM_PART};
    if (b->headroom > BUDGET_HEADROOM_MAX)
        b->headroom = BUDGET_HEADROOM_MAX;
    b->reserve = b->headroom / BUDGET_RESERVE_PART;
    pthread_mutex_init(&b->lock, NULL);
    list_init(&b->waiting);
}

void
budget_fini(struct budget *b)
{
    tassert(list_empty(&b->waiting));
    pthread_mutex_destroy(&b->lock);
}

static uint64_t
budget_bound(const struct budget *b, enum budget_how how)
{
    switch (how) {
    case BUDGET_CAN_WAIT:
        return b->limit - b->reserve;
    case BUDGET_NO_WAIT:
    case BUDGET_QUIET:
        return b->limit;
    case BUDGET_FORCE:
        return UINT64_MAX;
    }
    TUNREACHABLE("budget_how");
}

/* Exact: a charge that fails was never counted, so it makes nobody else fail. */
static bool
budget_try(struct budget *b, uint64_t bytes, uint64_t bound)
{
    uint64_t now = atomic_load_explicit(&b->charged, memory_order_relaxed);

    do
        if (bytes > bound || now > bound - bytes)
            return false;
    while (!atomic_compare_exchange_weak(&b->charged, &now, now + bytes));
    return true;
}

/* How far a further `bytes` would reach into the headroom. */
static uint64_t
budget_over(struct budget *b, uint64_t bytes)
{
    uint64_t want = atomic_load_explicit(&b->charged, memory_order_relaxed) + bytes;

    return want > b->limit - b->headroom ? want - (b->limit - b->headroom) : 0;
}

static uint64_t
budget_evict(struct budget *b, uint64_t bytes)
{
    uint64_t soon;

    if (b->evict == NULL || budget_evicting)
        return 0;
    budget_evicting = true;
    soon = b->evict(b->ctx, bytes);
    budget_evicting = false;
    return soon;
}

/* Room is made before it is needed.  What was promised and has not come back yet is not asked
 * for again, else every charge of one grace period would evict for the same lack. */
static void
budget_make_headroom(struct budget *b)
{
    uint64_t over = budget_over(b, 0);
    uint64_t promised = atomic_load_explicit(&b->promised, memory_order_relaxed);

    if (over > promised)
        atomic_fetch_add_explicit(
            &b->promised, budget_evict(b, over - promised), memory_order_relaxed);
}

int
budget_charge(struct budget *b, uint64_t bytes, enum budget_how how)
{
    uint64_t bound = budget_bound(b, how), over, soon;

    tassert(bytes > 0);
    if (budget_try(b, bytes, bound)) {
        if (how != BUDGET_QUIET)
            budget_make_headroom(b);
        return 0;
    }
    if (how == BUDGET_QUIET || bytes > bound)
        return -ENOSPC; /* emptying the store would not help */

    /* Promises were not kept in time: what is asked for now replaces them. */
    over = budget_over(b, bytes);
    soon = budget_evict(b, over > 0 ? over : bytes); /* 0: somebody just made room */
    atomic_store_explicit(&b->promised, soon, memory_order_relaxed);
    if (budget_try(b, bytes, bound))
        return 0;
    return soon > 0 && how == BUDGET_CAN_WAIT ? -EAGAIN : -ENOSPC;
}

/* Lost wake-ups: the waiter stores `waited`, then loads `charged`; the releaser subtracts
 * from `charged`, then loads `waited`.  All four are seq_cst, so in their one total order
 * either the waiter's load comes after the subtraction, and it sees the room, or the
 * releaser's load comes after the store, and it notifies. */
void
budget_release(struct budget *b, uint64_t bytes)
{
    uint64_t had = atomic_fetch_sub(&b->charged, bytes);
    uint64_t promised = atomic_load_explicit(&b->promised, memory_order_relaxed);

    tassert(had >= bytes);
    while (promised > 0 &&
           !atomic_compare_exchange_weak_explicit(&b->promised, &promised,
               promised > bytes ? promised - bytes : 0, memory_order_relaxed, memory_order_relaxed))
        continue;
    if (atomic_load(&b->waited))
        budget_notify(b);
}

bool
budget_wait(struct budget *b, uint64_t bytes, struct waiter *w)
{
    uint64_t bound = budget_bound(b, BUDGET_CAN_WAIT);
    bool wait;

    if (w == NULL)
        return true;
    pthread_mutex_lock(&b->lock);
    storage_arm(w, &b->waiting);
    atomic_store(&b->waited, true);
    wait = atomic_load(&b->charged) > bound - bytes;
    if (!wait)
        storage_disarm(w);
    pthread_mutex_unlock(&b->lock);
    return wait;
}

void
budget_cancel(struct budget *b, struct waiter *w)
{
    pthread_mutex_lock(&b->lock);
    storage_disarm(w);
    pthread_mutex_unlock(&b->lock);
}

void
budget_notify(struct budget *b)
{
    if (!atomic_load(&b->waited))
        return;
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->waited, false);
    waiter_notify_all(&b->waiting);
    pthread_mutex_unlock(&b->lock);
}
