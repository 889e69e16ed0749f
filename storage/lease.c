/* lease.c -- readers: the checked way to an engine.
 *
 * The contracts of lease.h are asserted here, once, for every engine. */
#include "storage/lease.h"

#include <errno.h>

#include "storage/storage_priv.h"

/* The iterator lives in other people's structures: its size is part of their budgets. */
_Static_assert(sizeof(struct lease_iter) <= 112, "struct lease_iter grew");

/* Saturates: a range from a client may have any length. */
static uint64_t
lease_end(uint64_t off, uint64_t len)
{
    return len > LEASE_TO_END - off ? LEASE_TO_END : off + len;
}

int
lease_init(struct lease_iter *it, struct stobj *o, uint64_t off, uint64_t len, struct waiter *w)
{
    enum stobj_state state = stobj_state(o);

    it->magic = LEASE_ITER_MAGIC;
    it->outstanding = 0;
    it->fns = NULL;
    it->obj = o;
    it->waiter = w;
    it->off = off;
    it->end = lease_end(off, len);
    it->ended = it->holds = false;
    /* A hit takes no reference: the count is a cache line that all readers would write.  All
     * other objects may lose their last owner while they are read, so the iterator has its own
     * reference. */
    if (state == STOBJ_SETTLED && o->kind == STOBJ_KEPT) {
        if (off > stobj_len(o))
            goto past_end;
    } else {
        lease_hold(it);
        if (state == STOBJ_SETTLED && off > stobj_len(o)) {
            stobj_unhold(o);
            goto past_end;
        }
    }
    stobj_store(o)->ops->lease_open(it);
    tassert(it->fns != NULL);
    return 0;

past_end:
    it->magic = 0;
    return -EINVAL;
}

bool
lease_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out)
{
    const struct engine_ops *ops = stobj_store(o)->ops;

    return stobj_state(o) == STOBJ_SETTLED && ops->borrow != NULL && ops->borrow(o, off, len, out);
}

/* What an engine may answer besides a count: what lease.h lists, and its own failures,
 * which must look like errnos. */
static bool
lease_errno_is_sane(int err)
{
    return err < 0 && err > -4096 && err != -EINVAL && err != -ENOSPC;
}

/* Ids are multiples of 8, lengths positive, LAST only last; nothing outside the range. */
static unsigned
lease_batch_check(const struct lease_batch *b, unsigned from, uint64_t bytes)
{
    unsigned leases = 0;

    for (unsigned i = from; i < b->n; i++) {
        const struct lease_extent *e = &b->extents[i];

        tassert(e->ptr != NULL);
        tassert(e->len > 0);
        tassert((e->id & LEASE_ID_CALLER) == 0);
        tassert((e->flags & ~(uint32_t)LEASE_LAST) == 0);
        tassert((e->flags & LEASE_LAST) == 0 || i + 1 == b->n);
        tassert(bytes >= e->len);
        bytes -= e->len;
        leases += e->id != LEASE_NO_RETURN;
    }
    tassert(bytes == 0); /* the iterator moved by what was handed out */
    return leases;
}

int
lease_take(struct lease_iter *it, struct lease_batch *b)
{
    unsigned had = b->n;
    uint64_t off;
    int n;

    OBJ_CHECK(it, LEASE_ITER_MAGIC);
    tassert(b->n < b->max);
    tassert(!it->ended); /* 0 was the last answer: nothing may follow it */

    off = it->off;
    n = it->fns->take(it, b);
    if (n <= 0) {
        tassert(b->n == had && it->off == off);
        tassert(n == 0 || lease_errno_is_sane(n));
        if ((n == -EAGAIN || n == -ENOBUFS) && it->waiter != NULL) /* armed, or posted already */
            tassert(waiter_pending(it->waiter) || task_is_queued(it->waiter->task));
        tassert(n != -ENOBUFS || it->outstanding > 0); /* else there is nothing to return */
        it->ended = n == 0;
        return n;
    }
    tassert(b->n <= b->max);
    tassert((unsigned)n == b->n - had);
    tassert(it->off <= it->end);
    it->outstanding += lease_batch_check(b, had, it->off - off);
    return n;
}

void
lease_return(struct lease_iter *it, const struct lease_returns *r)
{
    OBJ_CHECK(it, LEASE_ITER_MAGIC);
    for (unsigned i = 0; i < r->n; i++) {
        uint64_t id = r->ids[i] & ~LEASE_ID_CALLER;

        if (id == LEASE_NO_RETURN)
            continue;
        tassert(it->outstanding > 0);
        /* Before the engine's part: window_give() counts what the reader has left. */
        it->outstanding--;
        it->fns->give(it, id);
    }
}

void
lease_hold(struct lease_iter *it)
{
    OBJ_CHECK(it, LEASE_ITER_MAGIC);
    if (it->holds)
        return;
    stobj_hold(it->obj);
    it->holds = true;
}

void
lease_cancel(struct lease_iter *it)
{
    OBJ_CHECK(it, LEASE_ITER_MAGIC);
    /* Only the home loop arms, and it is here: what is not ARMED now needs no lock. */
    if (it->waiter != NULL && waiter_state(it->waiter) == WAITER_ARMED)
        it->fns->cancel(it);
}

/* The engine first, as it looks at the object: the reference may be the last, and frees it. */
void
lease_fini(struct lease_iter *it)
{
    OBJ_CHECK(it, LEASE_ITER_MAGIC);
    tassert(it->outstanding == 0);
    tassert(it->waiter == NULL || waiter_state(it->waiter) != WAITER_ARMED);
    it->fns->close(it);
    if (it->holds)
        stobj_unhold(it->obj);
    *(volatile uint32_t *)&it->magic = OBJ_DEAD;
}
