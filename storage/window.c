/* window.c -- objects with bytes that go again: their segments, and their writer.
 *
 * Everything is under one lock: a system call stands beside each step of each party, and a reader
 * takes a batch of segments at a time.
 *
 * A shared window's writer never waits for ever, and never for a slow reader while a fast one
 * is hungry, within the bound.  Let C be the cost of a whole segment and N = bound / C.
 *
 *  a. A segment that is leased has a reader that claims it, so the leased ones cost at most
 *     claims * C, and claims are at most N - 1 (window_may_lease, window_sit).
 *  b. So when held + C > bound, held is more than the leased ones cost: some segment is not
 *     leased.  It is in the ring, for what has left that without a lease was given back.
 *  c. With a hungry reader, window_victim() finds it: room is made, one segment at a time,
 *     until held + C is within the bound.
 *  d. With readers, none of them hungry: each either has bytes to take or leases to return, or
 *     stands ahead and is about to ask.  All three come back here, and window_unblock() looks.
 *  e. With none, the writer waits for one.
 *  f. In a full store (c) makes no room when all that is held is leased.  A window of several readers
 *     is stuck then, and gets a segment past the limit: slow clients may keep theirs for minutes.  A
 *     reader that has a lease gets none of it, so what is leased past the limit is one segment a
 *     reader. */
#include "storage/window.h"

#include <errno.h>

enum {
    WINDOW_SEG_MAX = 64 << 10,    /* as much as one read takes */
    WINDOW_SEG_MIN = 4 << 10,     /* a page; smaller reads cost more than they save */
    WINDOW_SEG_FORCED = 14 << 10, /* past the store's limit: enough to get on with */
    WINDOW_PRIVATE_PARTS = 4,     /* segments in the bound: one filled while others are sent */
    WINDOW_SHARED_PARTS = 256,    /* nearly as many readers, at least, can be fed at once */
};

/* ---- Birth and death ---- */

/* Each kind has a leaf of its own in /v1/memory.  The kind never changes, so what is charged as one
 * leaf is released as the same. */
static enum charge
window_charge(enum stobj_kind kind)
{
    return kind == STOBJ_PRIVATE ? CHARGE_TRANSIT : CHARGE_WINDOW;
}

/* The largest border that costs a part of the bound. A border, so that the allocator rounds nothing
 * up.  The pad is subtracted because `held` counts it: with it a part would be more than its share
 * of the bound. */
static uint32_t
window_seg_size(const struct mem *m, const struct stobj_spec *spec)
{
    unsigned parts = spec->kind == STOBJ_PRIVATE ? WINDOW_PRIVATE_PARTS : WINDOW_SHARED_PARTS;
    uint64_t part = spec->transit_bytes / parts;

    if (part > WINDOW_SEG_MAX)
        part = WINDOW_SEG_MAX;
    if (part >= MEM_LARGE_MIN)
        part -= m->pad;
    return (uint32_t)mem_border_below(part > WINDOW_SEG_MIN ? part : WINDOW_SEG_MIN);
}

/* The reader of a private object may lease all of it: it is the only reader.  Readers of a shared
 * window leave one segment of the N to the writer: the proof above needs N - 1. */
static uint32_t
window_claims_max(const struct mem *m, const struct stobj_spec *spec)
{
    uint64_t n = spec->transit_bytes / mem_cost(m, window_seg_size(m, spec));

    if (spec->kind == STOBJ_PRIVATE || n > UINT32_MAX)
        return UINT32_MAX;
    return n > 2 ? (uint32_t)n - 1 : 1;
}

/* Called by stobj_new() and stobj_new_shared().  The caller owns the one reference.  On failure
 * nothing stays charged. */
int
window_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    struct window *w;
    void *p;
    int err;

    /* A pass must get on in a full store: this much it always gets. */
    err = store_get(s, sizeof *w, window_charge(spec->kind), BUDGET_FORCE, &p);
    if (err < 0)
        return err;
    w = p;
    *w = (struct window){.bound = spec->transit_bytes,
        .alone = spec->alone_bytes,
        .first = spec->first_bytes,
        .open = spec->kind == STOBJ_SHARED,
        .grace = spec->grace,
        .patience = spec->patience,
        .length = spec->size_hint,
        .seg_size = window_seg_size(&s->mem, spec),
        .claims_max = window_claims_max(&s->mem, spec)};
    stobj_init(&w->base, s, spec->kind, STOBJ_FILLING);
    w->base.fill = &w->fill;
    pthread_mutex_init(&w->lock, NULL);
    list_init(&w->ring);
    list_init(&w->behind);
    list_init(&w->ahead);
    list_init(&w->readers);
    list_init(&w->refused);
    list_init(&w->writers);
    *out = &w->base;
    return 0;
}

/* The last reference has gone, on any thread: no other thread knows the object, and no lock is
 * needed. */
void
window_free(struct stobj *o)
{
    struct window *w = window_of(o);
    enum charge what = window_charge(o->kind);
    struct storage *s = stobj_store(o);

    tassert(w->iters == 0 && w->standing == 0 && w->claims == 0);
    tassert(list_empty(&w->readers) && list_empty(&w->refused));
    tassert(list_empty(&w->writers)); /* cancelled before the drop */
    tassert(list_empty(&w->behind));  /* nothing is leased */
    while (!list_empty(&w->ring))
        window_drop(w, window_seg_of(w->ring.next));
    tassert(w->held == 0);
    pthread_mutex_destroy(&w->lock);
    OBJ_BURY(o);
    store_put(s, w, sizeof *w, what);
}

/* ---- The ring ---- */

/* What was allocated. store_put() must name the size that store_get() was given, or the budget and
 * the allocator's class are wrong. */
static size_t
window_seg_bytes(const struct window_seg *seg)
{
    return sizeof *seg + seg->room;
}

/* What a segment counts for in `held`. */
static size_t
window_seg_cost(const struct window *w, const struct window_seg *seg)
{
    return mem_cost(&stobj_store(&w->base)->mem, window_seg_bytes(seg));
}

/* Under lock.  The writer runs on its own loop: this posts to it, and costs nothing when no waiter
 * is armed. */
void
window_wake_writer(struct window *w)
{
    w->blocked = false;
    waiter_notify_all(&w->writers);
}

/* Under lock, except at the object's end. store_put() may take the budget's lock: that is the order
 * of the two.  `held` counted the segment until now, also while it was only leased, so the writer
 * looks again. */
void
window_drop(struct window *w, struct window_seg *seg)
{
    tassert(seg->leases == 0 && seg->readers == 0);
    tassert(w->held >= window_seg_cost(w, seg));
    list_del(&seg->link);
    w->held -= window_seg_cost(w, seg);
    OBJ_BURY(seg);
    store_put(stobj_store(&w->base), seg, window_seg_bytes(seg), window_charge(w->base.kind));
    window_wake_writer(w);
}

/* Under lock.  A reader that becomes stale is not searched for: it compares its offset with `start`
 * in its next call, so that a segment needs a count of its readers and no list. */
void
window_advance(struct window *w, uint64_t to)
{
    /* A reader alone may stand far ahead of the writer; what is filled until then goes too. */
    if (to < atomic_load(&w->start))
        to = atomic_load(&w->start);
    atomic_store(&w->start, to);
    if (to > 0 && w->expected > 0)
        w->expected = 0; /* they come too late */
    while (!list_empty(&w->ring)) {
        struct window_seg *seg = window_seg_of(w->ring.next);

        /* The writer may stand in one that is not full. */
        if (seg->used < seg->room || window_seg_end(seg) > to)
            return;
        if (seg->readers > 0) {
            w->standing -= seg->readers; /* each of them finds that it is stale */
            seg->readers = 0;
            waiter_notify_all(&w->refused);
        }
        list_del(&seg->link);
        list_add_tail(&w->behind, &seg->link);
        if (seg->leases == 0)
            window_drop(w, seg);
    }
}

/* May readers in the oldest segment lose their place?  Without grace as soon as a reader is hungry;
 * with grace only after the writer has lost patience in window_expire(). */
static bool
window_leaves_behind(const struct window *w)
{
    if (w->expired && !list_empty(&w->ahead))
        return true; /* waiters far ahead do not wait for the slow for ever */
    return w->hungry > 0 && (!w->grace || w->expired);
}

/* Does a reader stand in it, or is one to come for it? */
static bool
window_needs(const struct window *w, const struct window_seg *seg)
{
    return seg->readers > 0 || w->expected > 0;
}

/* The segment to free for room, with all before it; NULL: none may go.
 *
 * It is the oldest that is not leased, since a leased one gives no room.  No reader may stand in it
 * or before it, unless a reader is hungry: then the slow ones have had the whole window as their
 * lead, and must not hold up the others.  An expected reader stands at the beginning.  Without
 * readers nothing goes: one will come. */
static struct window_seg *
window_victim(struct window *w)
{
    if (w->standing == 0)
        return NULL;
    for (struct list *l = w->ring.next; l != &w->ring; l = l->next) {
        struct window_seg *seg = window_seg_of(l);

        /* One with room left is the last, and the writer writes into it. */
        if ((window_needs(w, seg) && !window_leaves_behind(w)) || seg->used < seg->room)
            return NULL;
        if (seg->leases == 0)
            return seg;
    }
    return NULL;
}

/* Does a reader wait for a new segment, while all that is held is leased?  One that is alone has
 * leased it itself, and returns it.  From the front: what is there was leased last. */
static bool
window_is_stuck(struct window *w)
{
    if (w->iters < 2 || list_empty(&w->ahead))
        return false;
    for (struct list *l = w->ring.prev; l != &w->ring; l = l->prev)
        if (window_seg_of(l)->leases == 0)
            return false;
    return true;
}

/* Under lock.  A writer that is woken otherwise would be refused again, once for each return. */
void
window_unblock(struct window *w)
{
    if (w->blocked && (window_victim(w) != NULL || window_is_stuck(w)))
        window_wake_writer(w);
}

/* Under lock.  Walks all segments, so only tassert_slow() calls it.  Every reader that stands has a
 * claim, therefore `standing` is at most `claims`. */
bool
window_check(struct window *w)
{
    uint64_t held = 0, at = 0;
    uint32_t standing = 0, hungry = 0;

    for (struct list *l = w->behind.next; l != &w->behind; l = l->next) {
        const struct window_seg *seg = window_seg_of(l);

        if (seg->leases == 0 || seg->readers > 0)
            return false;
        held += window_seg_cost(w, seg);
    }
    for (struct list *l = w->ring.next; l != &w->ring; l = l->next) {
        const struct window_seg *seg = window_seg_of(l);

        if (at != 0 && seg->start != at) /* no gaps */
            return false;
        at = window_seg_full_end(seg);
        standing += seg->readers;
        held += window_seg_cost(w, seg);
    }
    for (struct list *l = w->ahead.next; l != &w->ahead; l = l->next) {
        standing++;
        hungry += container_of(l, struct lease_iter, place.link)->place.hungry;
    }
    return standing == w->standing && hungry == w->hungry && held == w->held &&
           standing <= w->claims && w->claims <= w->claims_max;
}

/* ---- Filling ---- */

/* While others may come what has been read stays for them; a reader alone does without. */
static uint64_t
window_bound(const struct window *w)
{
    return window_is_shared(w) > 1 || w->open ? w->bound : w->alone;
}

/* How far ahead of its one reader the writer may be: see stobj_new_private(). */
static uint64_t
window_lead(const struct window *w)
{
    uint64_t lead;

    if (w->base.kind != STOBJ_PRIVATE)
        return w->alone;
    lead = w->first + 2 * atomic_load_explicit(&w->start, memory_order_relaxed);
    return lead < w->alone ? lead : w->alone;
}

/* Is the writer as far ahead of the one reader, or of none, as it may be?  Counted from the writer
 * back to the segment that the reader stands in; without a reader all of the ring counts. */
static bool
window_is_ahead(struct window *w, uint64_t more)
{
    uint64_t unread = 0, lead = window_lead(w);

    if (window_is_shared(w) > 1)
        return false;
    for (struct list *l = w->ring.prev; l != &w->ring; l = l->prev) {
        const struct window_seg *seg = window_seg_of(l);

        unread += window_seg_cost(w, seg);
        if (unread + more > lead)
            return true;
        if (seg->readers > 0)
            break;
    }
    return false;
}

/* Under lock: the writer waits.  A reader that waits for bytes must learn that returning is now up
 * to it. */
static void
window_refuse(struct window *w, struct waiter *waiter)
{
    tassert_slow(window_check(w));
    /* Under the lock that returns take: one that comes between the refusal and the arming would
     * not wake the writer. */
    storage_arm(waiter, &w->writers);
    w->refused_room = true;
    if (w->blocked)
        return;
    w->blocked = true;
    waiter_notify_all(&w->readers);
}

/* Makes room for `more` bytes, one segment at least; false: the writer waits. */
static bool
window_make_room(struct window *w, uint64_t more, struct waiter *waiter)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    /* A reader past the last segment needs the next one: the writer has no lead that could be
     * limited. */
    room = list_empty(&w->ahead) ? !window_is_ahead(w, more) : true;
    /* Not when nothing is held: a bound below one segment would stop the writer for ever. */
    while (room && w->held > 0 && w->held + more > window_bound(w)) {
        struct window_seg *seg = window_victim(w);

        room = seg != NULL;
        if (room)
            window_advance(w, window_seg_end(seg));
    }
    if (!room)
        window_refuse(w, waiter);
    pthread_mutex_unlock(&w->lock);
    return room;
}

/* The store is full: must there be a segment past its limit?  False: the writer waits.  A window
 * without segments gets one, or a pass could stand still for ever. */
static bool
window_must_grow(struct window *w, struct waiter *waiter)
{
    struct window_seg *seg;
    bool must;

    pthread_mutex_lock(&w->lock);
    while ((seg = window_victim(w)) != NULL) /* returned since window_give_way() */
        window_advance(w, window_seg_end(seg));
    must = w->held == 0 || window_is_stuck(w);
    if (!must)
        window_refuse(w, waiter);
    pthread_mutex_unlock(&w->lock);
    return must;
}

/* Gives back one segment to a store that is full; false: none may go.  Called between two tries of
 * store_get(), so the room comes from this window before the writer waits. */
static bool
window_give_way(struct window *w)
{
    struct window_seg *seg;

    pthread_mutex_lock(&w->lock);
    seg = window_victim(w);
    if (seg != NULL)
        window_advance(w, window_seg_end(seg));
    pthread_mutex_unlock(&w->lock);
    return seg != NULL;
}

/* The window owns `seg` from here on.  There was room, so grace, patience and the search for a
 * reader in the way begin anew. */
static void
window_append(struct window *w, struct window_seg *seg, size_t size, bool forced)
{
    *seg = (struct window_seg){.magic = WINDOW_SEG_MAGIC,
        .start = atomic_load(&w->base.len),
        .room = (uint32_t)(size - sizeof *seg),
        .forced = forced};
    pthread_mutex_lock(&w->lock);
    list_add_tail(&w->ring, &seg->link);
    w->held += window_seg_cost(w, seg);
    w->filling = seg;
    w->blocked = w->expired = w->refused_room = w->moved = false;
    w->looks = 0;
    window_seat(w, seg);
    tassert_slow(window_check(w));
    pthread_mutex_unlock(&w->lock);
}

/* A segment no larger than what is still to come, if that was announced.  An unknown length is
 * UINT64_MAX and never the smaller one.  The length is a hint: a body that passes it gets whole
 * segments. */
static size_t
window_next_size(const struct window *w)
{
    uint64_t len = atomic_load(&w->base.len), head = sizeof(struct window_seg);

    if (w->length <= len || w->length - len > w->seg_size - head)
        return w->seg_size;
    return mem_class(head + (w->length - len));
}

/* What stays for readers that may come is no reason to evict anything.  Asked anew before each try
 * of store_get(): a reader may have come or left since the last one. */
static enum budget_how
window_how(struct window *w, size_t more)
{
    enum budget_how how;

    pthread_mutex_lock(&w->lock);
    how = window_is_shared(w) <= 1 && w->held > 0 && w->held + more > w->alone ? BUDGET_SPARE
                                                                               : BUDGET_CAN_WAIT;
    pthread_mutex_unlock(&w->lock);
    return how;
}

/* Only the writer adds to what is held, so what was found under the lock can meanwhile have become
 * better, not worse.  The waiter is armed with the window and never with the budget: other users'
 * frees are not certain to come, and a waiter is in one list. */
static int
window_grow(struct window *w, struct waiter *waiter)
{
    enum charge what = window_charge(w->base.kind);
    size_t size = window_next_size(w);
    bool forced;
    void *p;
    int err;

    if (!window_make_room(w, mem_cost(&stobj_store(&w->base)->mem, size), waiter))
        return -EAGAIN;
    do /* may evict: not under lock */
        err = store_get(stobj_store(&w->base), size, what, window_how(w, size), &p);
    while ((err == -EAGAIN || err == -ENOSPC) && window_give_way(w));
    forced = err == -EAGAIN || err == -ENOSPC;
    if (forced) {
        /* The store is full.  The returns of our own readers are sure to come, but perhaps late. */
        if (!window_must_grow(w, waiter))
            return -EAGAIN;
        if (size > WINDOW_SEG_FORCED)
            size = WINDOW_SEG_FORCED;
        err = store_get(stobj_store(&w->base), size, what, BUDGET_FORCE, &p);
    }
    if (err == 0)
        window_append(w, p, size, forced);
    return err;
}

/* The writer's thread.  No lock while there is room: `filling` and its counts are changed
 * by the writer only, and no reader frees a segment that has room left. */
int
window_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *waiter)
{
    struct window *w = window_of(o);
    struct window_seg *seg;
    int err;

    if (w->filling == NULL) {
        err = window_grow(w, waiter);
        if (err < 0)
            return err;
    }
    seg = w->filling;
    OBJ_CHECK(seg, WINDOW_SEG_MAGIC);
    out->ptr = seg->bytes + seg->used;
    out->len = seg->room - seg->used;
    if (out->len > want)
        out->len = want;
    return 0;
}

/* The writer's thread. Published under the lock, so a reader either sees the bytes or has armed its
 * waiter before and is notified. */
void
window_space_extend(struct stobj *o, size_t used)
{
    struct window *w = window_of(o);
    struct window_seg *seg = w->filling;

    OBJ_CHECK(seg, WINDOW_SEG_MAGIC);
    tassert(used <= seg->room - seg->used);
    pthread_mutex_lock(&w->lock);
    seg->used += (uint32_t)used;
    atomic_store(&o->len, window_seg_end(seg));
    if (seg->used == seg->room)
        w->filling = NULL; /* a reader may give it back from now on */
    waiter_notify_all(&w->readers);
    pthread_mutex_unlock(&w->lock);
}

/* On the writer's loop.  A return on another loop may have posted the waiter before the lock was
 * taken: then storage_disarm() leaves it, and it lands later. */
void
window_space_cancel(struct stobj *o, struct waiter *waiter)
{
    struct window *w = window_of(o);

    pthread_mutex_lock(&w->lock);
    storage_disarm(waiter);
    pthread_mutex_unlock(&w->lock);
}

/* Unlike kept_settle() it trims nothing: the last segment lives only as long as the transfer.
 * Waiting readers look again, and find the end or the failure. */
void
window_settle(struct stobj *o, enum stobj_state to)
{
    struct window *w = window_of(o);

    pthread_mutex_lock(&w->lock);
    stobj_set_state(o, to);
    waiter_notify_all(&w->readers);
    pthread_mutex_unlock(&w->lock);
}

/* The end of the last full segment that no reader stands in or before. */
static uint64_t
window_read_by_all(struct window *w)
{
    uint64_t to = atomic_load(&w->start);

    if (w->expected > 0)
        return to;
    for (struct list *l = w->ring.next; l != &w->ring; l = l->next) {
        const struct window_seg *seg = window_seg_of(l);

        if (seg->readers > 0 || seg->used < seg->room)
            break;
        to = window_seg_end(seg);
    }
    return to;
}

/* What was kept for others goes, if there are none left.  Of an object that is being filled without
 * a reader nothing goes: a reader that comes starts at the first byte that is left. */
static void
window_forget(struct window *w)
{
    if (!w->open && (w->iters == 1 || (w->iters == 0 && stobj_state(&w->base) == STOBJ_SETTLED)))
        window_advance(w, window_read_by_all(w));
}

/* By the fetch: some time after its beginning, and again when it has ended.  From now on a reader
 * alone gets what a private object's reader gets, so the memory of the whole window is not spent on
 * one client. */
void
window_shut(struct stobj *o)
{
    struct window *w = window_of(o);

    pthread_mutex_lock(&w->lock);
    w->open = false;
    window_forget(w);
    pthread_mutex_unlock(&w->lock);
}

/* By the fetch, on its own loop, about once a second while the writer waits. A reader that moves on
 * is slow, but does not stand still: it is waited for, however long it takes.  Only window_append()
 * takes `expired` back. */
bool
window_expire(struct stobj *o)
{
    struct window *w = window_of(o);
    bool expired;

    pthread_mutex_lock(&w->lock);
    w->looks = w->moved ? 0 : w->looks + 1;
    w->moved = false;
    expired = w->looks >= w->patience;
    w->expired = w->expired || expired;
    pthread_mutex_unlock(&w->lock);
    return expired;
}

/* Under lock.  A reader that comes now must get every byte: nothing has gone yet, it has a claim,
 * and no look has found a reader standing still in the writer's way. */
static bool
window_lets_in(const struct window *w)
{
    return atomic_load(&w->start) == 0 && stobj_state(&w->base) != STOBJ_FAILED &&
           window_claims(w) < w->claims_max && w->looks == 0;
}

/* `must`: they have nowhere else to go, so there is a claim for each, and room for what it leases.
 * The bound follows claims_max: N - 1 claims need N segments, as the proof above has it. */
bool
window_expect(struct stobj *o, int32_t n, bool must)
{
    struct window *w = window_of(o);
    uint64_t cost = mem_cost(&stobj_store(o)->mem, w->seg_size);
    bool in;

    pthread_mutex_lock(&w->lock);
    in = must || window_lets_in(w);
    if (in)
        w->expected += n;
    if (must && n > 0 && w->claims_max <= window_claims(w)) {
        w->claims_max = window_claims(w) + 1;
        if (w->bound < (w->claims_max + UINT64_C(1)) * cost)
            w->bound = (w->claims_max + UINT64_C(1)) * cost;
    }
    if (n < 0)
        window_forget(w);
    if (n < 0)
        window_unblock(w);
    else if (in && window_is_shared(w) > 1)
        window_wake_writer(w); /* the whole bound counts from now on */
    pthread_mutex_unlock(&w->lock);
    return in;
}

/* By a reader that is expected here and still reads what comes before, in another object.  Its
 * progress counts as progress at byte 0, or the writer would lose patience with a reader that
 * moves. */
void
window_touch(struct stobj *o)
{
    struct window *w = window_of(o);

    pthread_mutex_lock(&w->lock);
    w->moved = w->moved || (w->refused_room && w->expected > 0);
    pthread_mutex_unlock(&w->lock);
}

/* The cache calls it when the last request has left an entry: the fetch then decides whether it
 * goes on.  No space has come, so the writer may be refused again. */
void
window_wake(struct stobj *o)
{
    struct window *w = window_of(o);

    pthread_mutex_lock(&w->lock);
    window_wake_writer(w);
    pthread_mutex_unlock(&w->lock);
}

/* Without the lock: a snapshot.  A reader that relies on it and comes too late gets -ESTALE. */
uint64_t
window_start(const struct stobj *o)
{
    return atomic_load(&window_of(o)->start);
}
