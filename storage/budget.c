/* budget.c -- how many bytes a store may use, the evictor, and the waiters for room. */
#include "storage/budget.h"

#include <errno.h>

#include "daemon/base/tassert.h"
#include "daemon/base/waiter.h"
#include "storage/storage_priv.h"

#define BUDGET_MIB          (UINT64_C(1) << 20)
#define BUDGET_HEADROOM_MAX (8 * BUDGET_MIB)
/* Heads and small bodies of a thousand fetches that begin within one grace period; of a store that
 * is large enough to spare it. */
#define BUDGET_HEADROOM_MIN (4 * BUDGET_MIB)
#define BUDGET_SPARES       (64 * BUDGET_MIB)
enum {
    BUDGET_HEADROOM_PART = 64, /* of the limit */
    BUDGET_RESERVE_PART = 2,   /* of the headroom */
    BUDGET_WANTED_PART = 16,   /* of the limit: the most that is evicted for the waiters */
};

/* An evictor that allocates (a ghost entry, say) must not be asked to evict again. */
static _Thread_local bool budget_evicting;

/* Three stores, each by itself: a charge on another thread may see some of them only.  No mixture
 * admits more than the larger of the two limits. */
static void
budget_set_limit(struct budget *b, uint64_t limit)
{
    uint64_t headroom = limit / BUDGET_HEADROOM_PART;

    if (headroom > BUDGET_HEADROOM_MAX)
        headroom = BUDGET_HEADROOM_MAX;
    if (headroom < BUDGET_HEADROOM_MIN && limit >= BUDGET_SPARES)
        headroom = BUDGET_HEADROOM_MIN;
    atomic_store_explicit(&b->limit, limit, memory_order_relaxed);
    atomic_store_explicit(&b->headroom, headroom, memory_order_relaxed);
    atomic_store_explicit(&b->reserve, headroom / BUDGET_RESERVE_PART, memory_order_relaxed);
}

void
budget_init(struct budget *b, uint64_t limit)
{
    *b = (struct budget){.limit = 0};
    budget_set_limit(b, limit);
    pthread_mutex_init(&b->lock, NULL);
    list_init(&b->waiting);
}

void
budget_fini(struct budget *b)
{
    tassert(list_empty(&b->waiting));
    tassert_slow(budget_adds_up(b));
    pthread_mutex_destroy(&b->lock);
}

static uint64_t
budget_limit(const struct budget *b)
{
    return atomic_load_explicit(&b->limit, memory_order_relaxed);
}

/* A limit and a headroom of different moments are both below the limit. */
static uint64_t
budget_less(const struct budget *b, const _Atomic uint64_t *part, unsigned times)
{
    uint64_t limit = budget_limit(b), less;

    less = times * atomic_load_explicit(part, memory_order_relaxed);
    return less < limit ? limit - less : 0;
}

/* How many charged bytes a charge of this kind may lead to. */
static uint64_t
budget_bound(const struct budget *b, enum budget_how how)
{
    switch (how) {
    case BUDGET_SPARE:
        return budget_less(b, &b->headroom, 2);
    case BUDGET_CAN_WAIT:
        return budget_less(b, &b->reserve, 1);
    case BUDGET_NO_WAIT:
    case BUDGET_QUIET:
        return budget_limit(b);
    case BUDGET_FORCE:
        return UINT64_MAX;
    }
    TUNREACHABLE("budget_how");
}

/* Exact: a charge that fails was never counted, so it makes no other charge fail. */
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
    uint64_t free_of = budget_less(b, &b->headroom, 1);

    return want > free_of ? want - free_of : 0;
}

/* Makes room for what is `over`, unless that much is on its way already: all callers that find the
 * store full during one grace period mean the same lack. On the thread that needs the room, with no
 * lock of storage's. */
static void
budget_evict(struct budget *b, uint64_t over)
{
    uint64_t promised = atomic_load_explicit(&b->promised, memory_order_relaxed);

    if (over <= promised || b->evict == NULL || budget_evicting)
        return;
    budget_evicting = true;
    b->evict(b->ctx, over - promised);
    budget_evicting = false;
}

/* What others wait for counts too, or each grace period would bring room for one of them; but
 * not so much of it that the store is emptied for a moment's crowd. */
static uint64_t
budget_wanted(struct budget *b)
{
    uint64_t wanted = atomic_load_explicit(&b->wanted, memory_order_relaxed);
    uint64_t most = budget_limit(b) / BUDGET_WANTED_PART;

    return wanted < most ? wanted : most;
}

/* The evictor frees at once or promises, so the charge is tried again behind it.  -EAGAIN only if
 * something is promised: each promise ends with a wake-up, and without one the wait might never
 * end. */
static int
budget_charge_whole(struct budget *b, uint64_t bytes, enum budget_how how)
{
    uint64_t bound = budget_bound(b, how), over;

    tassert(bytes > 0);
    if (budget_try(b, bytes, bound)) {
        if (how != BUDGET_QUIET && how != BUDGET_SPARE)
            budget_evict(b, budget_over(b, 0)); /* room is made before it is needed */
        return 0;
    }
    if (how == BUDGET_QUIET || how == BUDGET_SPARE || bytes > bound)
        return -ENOSPC; /* emptying the store would not help */

    over = budget_over(b, bytes);
    if (over > 0) /* else another thread just made room */
        budget_evict(b, over + budget_wanted(b));
    if (budget_try(b, bytes, bound))
        return 0;
    return how == BUDGET_CAN_WAIT && atomic_load(&b->promised) > 0 ? -EAGAIN : -ENOSPC;
}

/* The leaf follows the whole, which alone can refuse.  A snapshot in between does not add up. */
int
budget_charge(struct budget *b, enum charge what, uint64_t bytes, enum budget_how how)
{
    int err = budget_charge_whole(b, bytes, how);

    if (err == 0)
        atomic_fetch_add_explicit(&b->leaf[what], bytes, memory_order_relaxed);
    return err;
}

bool
budget_adds_up(const struct budget *b)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CHARGE_COUNT; i++)
        sum += atomic_load_explicit(&b->leaf[i], memory_order_relaxed);
    return sum == atomic_load_explicit(&b->charged, memory_order_relaxed);
}

/* Each release comes here: without waiters it costs one load. */
static void
budget_notify(struct budget *b)
{
    if (!atomic_load(&b->waited))
        return;
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->waited, false);
    atomic_store_explicit(&b->wanted, 0, memory_order_relaxed); /* they say it again */
    waiter_notify_all(&b->waiting);
    pthread_mutex_unlock(&b->lock);
}

/* Lost wake-ups: the waiter stores `waited`, then loads `charged` and `promised`; the releaser
 * subtracts from `charged`, the evictor from `promised`, and then they load `waited`.  All are
 * seq_cst, so in their one total order either the waiter's loads come after the subtraction,
 * and it sees that there is room or nothing to wait for, or the other's load comes after the
 * store, and it notifies. */
void
budget_release(struct budget *b, enum charge what, uint64_t bytes)
{
    uint64_t leaf = atomic_fetch_sub_explicit(&b->leaf[what], bytes, memory_order_relaxed);
    uint64_t had = atomic_fetch_sub(&b->charged, bytes);

    tassert(leaf >= bytes); /* else it was charged as something else */
    tassert(had >= bytes);
    budget_notify(b);
}

/* On the manager's thread.  A larger limit is room for those that wait; a smaller one stands at
 * once, and what is charged beyond it goes as the evictor finds it. */
void
budget_resize(struct budget *b, uint64_t limit)
{
    bool more = limit > budget_limit(b);

    budget_set_limit(b, limit);
    if (more)
        budget_notify(b);
    else
        budget_evict(b, budget_over(b, 0));
}

/* By the evictor, before the entry is unlinked: its bytes come back after a grace period. */
void
budget_promise(struct budget *b, uint64_t bytes)
{
    atomic_fetch_add(&b->promised, bytes);
}

/* RCU's thread among others, after the entry was dropped: what it freed is released by now, so the
 * waiters find it. */
void
budget_promise_kept(struct budget *b, uint64_t bytes)
{
    uint64_t had = atomic_fetch_sub(&b->promised, bytes);

    tassert(had >= bytes);
    budget_notify(b);
}

bool
budget_wait(struct budget *b, uint64_t bytes, struct waiter *w)
{
    uint64_t bound = budget_bound(b, BUDGET_CAN_WAIT);
    bool wait, fresh;

    if (w == NULL)
        return true;
    pthread_mutex_lock(&b->lock);
    /* One that is armed already has been counted in `wanted`. */
    fresh = waiter_state(w) == WAITER_IDLE;
    storage_arm(w, &b->waiting);
    atomic_store(&b->waited, true);
    /* A limit that was lowered meanwhile below `bytes` makes the difference wrap: then there is no
     * wait, and the next charge answers -ENOSPC. */
    wait = atomic_load(&b->charged) > bound - bytes && atomic_load(&b->promised) > 0;
    if (!wait)
        storage_disarm(w);
    else if (fresh)
        atomic_fetch_add_explicit(&b->wanted, bytes, memory_order_relaxed);
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
