/* window_read.c -- reading objects with bytes that go again.
 *
 * A reader is counted where it stands: in one segment of the ring, or in the list of those ahead
 * of them all.  So one number says whether a reader needs a segment. */
#include "storage/window.h"

#include <errno.h>

_Static_assert(
    sizeof(struct lease_place) <= 5 * sizeof(uint64_t), "the last word is the fault engine's");

static struct window *
lease_window(const struct lease_iter *it)
{
    return window_of(it->obj);
}

/* What has been read stays for others that are there, or may come. */
static bool
window_keeps(const struct window *w)
{
    return w->base.kind == STOBJ_SHARED && (w->open || window_is_shared(w) > 1);
}

/* ---- Where a reader stands ---- */

/* Under lock, for a reader that stands nowhere.  NULL: ahead of all segments. */
static void
window_stand(struct window *w, struct lease_place *p, struct window_seg *seg)
{
    p->seg = seg;
    if (seg != NULL) {
        p->where = LEASE_IN;
        seg->readers++;
    } else {
        p->where = LEASE_AHEAD;
        list_add_tail(&w->ahead, &p->link);
    }
    w->standing++;
}

/* It needs nothing any more, or stands elsewhere in a moment. */
static void
window_leave(struct window *w, struct lease_place *p)
{
    if (p->where == LEASE_OUT)
        return;
    if (p->where == LEASE_IN) {
        tassert(p->seg->readers > 0);
        p->seg->readers--;
    } else {
        list_del(&p->link);
        w->hungry -= p->hungry;
        p->hungry = false;
    }
    tassert(w->standing > 0);
    w->standing--;
    p->where = LEASE_OUT;
    p->seg = NULL;
}

/* Readers farther ahead stay in the list: their bytes come in a later segment.  Those that sit down
 * are not hungry any more, since window_leave() takes that back. */
void
window_seat(struct window *w, struct window_seg *seg)
{
    struct list *l, *tmp;

    LIST_FOREACH_SAFE(l, tmp, &w->ahead)
    {
        struct lease_iter *it = container_of(l, struct lease_iter, place.link);

        if (it->off >= window_seg_full_end(seg))
            continue;
        window_leave(w, &it->place);
        window_stand(w, &it->place, seg);
    }
}

/* The segment that holds byte `off` or will; NULL: none yet.  From the end that is nearer, and once
 * for each iterator: later steps follow the ring. */
static struct window_seg *
window_locate(struct window *w, uint64_t off)
{
    uint64_t start = atomic_load(&w->start), len = atomic_load(&w->base.len);
    struct list *l;

    if (list_empty(&w->ring) || off >= window_seg_full_end(window_seg_of(w->ring.prev)))
        return NULL;
    if (off < start + (len - start) / 2) {
        for (l = w->ring.next; off >= window_seg_full_end(window_seg_of(l)); l = l->next)
            continue;
    } else {
        for (l = w->ring.prev; off < window_seg_of(l)->start; l = l->prev)
            continue;
    }
    return window_seg_of(l);
}

/* The segment it stood in has left the ring, and counts it no more. */
static bool
window_is_stale(const struct window *w, const struct lease_iter *it)
{
    return it->place.where == LEASE_IN && it->off < atomic_load(&w->start);
}

/* Not window_leave(): window_advance() has taken the reader out of `standing` already, and the
 * segment that place.seg names may be freed. */
static void
window_check_stale(struct window *w, struct lease_iter *it)
{
    if (!window_is_stale(w, it))
        return;
    it->place.where = LEASE_OUT;
    it->place.seg = NULL;
}

/* ---- Taking ---- */

/* One segment always, for it was claimed when the reader came.  Of what is left over no reader gets
 * more than leaves half of the claims to readers that come later, and none of what is past the store's
 * limit, unless it is alone: no other waits for its returns then. */
static bool
window_may_lease(const struct window *w, const struct window_seg *seg, uint32_t leases)
{
    return leases == 0 || (window_claims(w) < w->claims_max / 2 && (!seg->forced || w->iters == 1));
}

/* What is published of its segment, and where to stand then.  `leases` is what it has already: the
 * first one uses the claim of its seat.  The reader leaves a segment that it has read before
 * window_take() moves `start`: else window_advance() would count it as stale, and it would not
 * know. */
static void
window_lease_one(struct window *w, struct lease_iter *it, struct lease_extent *out, uint32_t leases)
{
    bool whole = atomic_load(&it->obj->state) == STOBJ_SETTLED;
    struct window_seg *seg = it->place.seg;
    uint64_t stop = window_seg_end(seg) < it->end ? window_seg_end(seg) : it->end;

    *out = (struct lease_extent){
        .ptr = seg->bytes + (it->off - seg->start),
        .id = (uintptr_t)seg,
        .len = (uint32_t)(stop - it->off),
        .flags = stop == it->end || (whole && stop == atomic_load(&it->obj->len)) ? LEASE_LAST : 0,
    };
    seg->leases++;
    w->claims += leases > 0;
    it->off = stop;
    if (stop == it->end) {
        window_leave(w, &it->place);
    } else if (stop == window_seg_full_end(seg)) {
        window_leave(w, &it->place);
        window_stand(
            w, &it->place, seg->link.next == &w->ring ? NULL : window_seg_of(seg->link.next));
    }
}

static bool
window_has_bytes(const struct lease_iter *it)
{
    return it->place.where == LEASE_IN && it->off < window_seg_end(it->place.seg);
}

/* lease_take() adds to `outstanding` only afterwards, so what was leased in this call is added
 * here. */
static unsigned
window_append_extents(struct window *w, struct lease_iter *it, struct lease_batch *b)
{
    unsigned n = 0;

    while (b->n < b->max && window_has_bytes(it) &&
           window_may_lease(w, it->place.seg, it->outstanding + n)) {
        window_lease_one(w, it, &b->extents[b->n++], it->outstanding + n);
        n++;
    }
    return n;
}

static void
window_wait(struct lease_iter *it, struct list *waiting)
{
    storage_disarm(it->waiter); /* it may be on the other list */
    storage_arm(it->waiter, waiting);
}

/* Why nothing was leased. Under lock, as is everything that could change the answer. The end of the
 * range comes before -ESTALE: a reader that has all it asked for stands nowhere, too. */
static int
window_nothing(struct window *w, struct lease_iter *it)
{
    enum stobj_state state = stobj_state(it->obj);

    if (window_has_bytes(it)) {
        window_wait(it, &w->refused);
        it->place.refused = true;
        return -ENOBUFS;
    }
    if (it->off >= it->end || it->place.where == LEASE_OUT || state != STOBJ_FILLING) {
        storage_disarm(it->waiter);
        if (it->off >= it->end)
            return 0;
        if (it->place.where == LEASE_OUT)
            return -ESTALE;
        return state == STOBJ_FAILED ? -EPIPE : 0;
    }
    /* Only the next segment's reader is hungry.  One that waits for an offset far ahead is not
     * helped by a segment less at the old end. */
    if (it->place.where == LEASE_AHEAD && it->off == atomic_load(&it->obj->len) &&
        !it->place.hungry) {
        it->place.hungry = true;
        w->hungry++;
        window_unblock(w);
    }
    window_wait(it, &w->readers);
    /* While the writer is refused, returns may be what it waits for. */
    return w->blocked && it->outstanding > 0 ? -ENOBUFS : -EAGAIN;
}

/* Does it stand where the writer waits for the first to move on?  That is the beginning, if one is
 * expected there. */
static bool
window_is_in_the_way(const struct window *w, const struct lease_iter *it)
{
    if (!w->refused_room || it->place.where != LEASE_IN)
        return false;
    for (struct list *l = w->ring.next; l != &w->ring; l = l->next)
        if (window_seg_of(l)->readers > 0 || w->expected > 0)
            return window_seg_of(l) == it->place.seg;
    return false;
}

/* On the reader's loop.  In the way is asked before leasing, which moves the reader on. */
static int
window_take(struct lease_iter *it, struct lease_batch *b)
{
    struct window *w = lease_window(it);
    bool in_the_way;
    int n;

    pthread_mutex_lock(&w->lock);
    it->place.refused = false;
    window_check_stale(w, it);
    in_the_way = window_is_in_the_way(w, it);
    n = (int)window_append_extents(w, it, b);
    w->moved = w->moved || (n > 0 && in_the_way);
    /* A reader without a seat was refused, and takes nothing away from the others. */
    if (!window_keeps(w) && it->place.seated)
        window_advance(w, it->off); /* what a reader skips is gone, as what it leases */
    if (n == 0)
        n = window_nothing(w, it);
    else
        window_unblock(w);
    pthread_mutex_unlock(&w->lock);
    return n;
}

static bool
window_has_seg(struct window *w, const struct window_seg *seg)
{
    for (struct list *l = w->ring.next; l != &w->ring; l = l->next)
        if (window_seg_of(l) == seg)
            return true;
    for (struct list *l = w->behind.next; l != &w->behind; l = l->next)
        if (window_seg_of(l) == seg)
            return true;
    return false;
}

/* The id is the segment. lease_return() has counted this lease down already, so `outstanding` is
 * what the reader has left.  A return counts as progress: a client that is sent old bytes is slow,
 * and does not stand still. */
static void
window_give(struct lease_iter *it, uint64_t id)
{
    struct window *w = lease_window(it);
    struct window_seg *seg = (struct window_seg *)(uintptr_t)id;

    pthread_mutex_lock(&w->lock);
    tassert_slow(window_has_seg(w, seg));
    OBJ_CHECK(seg, WINDOW_SEG_MAGIC);
    tassert(seg->leases > 0);
    seg->leases--;
    w->moved = w->moved || window_is_in_the_way(w, it);
    if (it->outstanding > 0) { /* the last one's claim stays with the reader */
        tassert(w->claims > 0);
        w->claims--;
    }
    if (seg->leases == 0) {
        if (seg->used == seg->room && window_seg_end(seg) <= atomic_load(&w->start))
            window_drop(w, seg);
        else
            window_unblock(w);
    }
    if (it->place.refused && it->waiter != NULL && waiter_state(it->waiter) == WAITER_ARMED)
        waiter_notify(it->waiter); /* this is what it waits for */
    it->place.refused = false;
    pthread_mutex_unlock(&w->lock);
}

/* ---- Coming and going ---- */

/* A reader that does not ask is not hungry: it would go on pushing the slow ones out of the
 * window. */
static void
window_cancel(struct lease_iter *it)
{
    struct window *w = lease_window(it);

    pthread_mutex_lock(&w->lock);
    storage_disarm(it->waiter);
    w->hungry -= it->place.hungry;
    it->place.hungry = false;
    pthread_mutex_unlock(&w->lock);
}

/* Every lease is returned (lease_fini).  The seat's claim goes back with the reader, or later
 * readers would be refused for ever. */
static void
window_close(struct lease_iter *it)
{
    struct window *w = lease_window(it);

    pthread_mutex_lock(&w->lock);
    window_check_stale(w, it);
    window_leave(w, &it->place);
    tassert(w->iters > 0 && w->claims >= it->place.seated);
    w->iters--;
    w->claims -= it->place.seated;
    window_unblock(w); /* perhaps no other reader needed the oldest */
    tassert_slow(window_check(w));
    pthread_mutex_unlock(&w->lock);
}

static const struct lease_fns window_fns = {
    .take = window_take,
    .give = window_give,
    .cancel = window_cancel,
    .close = window_close,
};

/* Too late, or one too many: it stands nowhere, and its first take says -ESTALE.  For an expected one
 * there is a place. */
static void
window_sit(struct window *w, struct lease_iter *it, bool expected)
{
    if (it->off < atomic_load(&w->start) || it->off >= it->end ||
        (!expected && window_claims(w) >= w->claims_max))
        return;
    it->place.seated = true;
    w->claims++;
    window_stand(w, &it->place, window_locate(w, it->off));
    w->moved = w->moved || window_is_in_the_way(w, it); /* it has had no time yet */
    window_unblock(w); /* the first one: the writer waited for it */
}

/* The claim of an expected reader moves from `expected` to `claims` under one lock, so the bound on
 * claims is never passed in between. */
void
window_lease_open(struct lease_iter *it)
{
    struct window *w = lease_window(it);
    bool expected;

    it->fns = &window_fns;
    it->place = (struct lease_place){.where = LEASE_OUT};
    pthread_mutex_lock(&w->lock);
    tassert(w->iters == 0 || it->obj->kind == STOBJ_SHARED); /* a private object has one */
    expected = it->off == 0 && w->expected > 0;
    w->expected -= expected;
    if (++w->iters == 2)
        window_wake_writer(w); /* the whole bound counts from now on */
    window_sit(w, it, expected);
    pthread_mutex_unlock(&w->lock);
}

/* ---- For tests ---- */

static bool
window_seg_contains(const struct window_seg *seg, const char *ptr, size_t len)
{
    uintptr_t p = (uintptr_t)ptr, bytes = (uintptr_t)seg->bytes;

    return p >= bytes && p - bytes <= seg->used && len <= seg->used - (p - bytes);
}

bool
window_contains(struct stobj *o, const char *ptr, size_t len)
{
    struct window *w = window_of(o);
    bool found = false;

    pthread_mutex_lock(&w->lock);
    for (struct list *l = w->ring.next; l != &w->ring && !found; l = l->next)
        found = window_seg_contains(window_seg_of(l), ptr, len);
    for (struct list *l = w->behind.next; l != &w->behind && !found; l = l->next)
        found = window_seg_contains(window_seg_of(l), ptr, len);
    pthread_mutex_unlock(&w->lock);
    return found;
}
