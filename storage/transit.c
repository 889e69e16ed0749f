/* transit.c -- private objects of engine malloc: bytes on their way through, not kept.
 *
 * One writer, one reader, often on one thread, and a system call beside each of their steps:
 * everything is under one lock, and nothing here is clever. */
#include "storage/transit.h"

#include <errno.h>

enum {
    TRANSIT_SEG_MAX = 64 << 10,    /* as much as one read takes */
    TRANSIT_SEG_MIN = 4 << 10,     /* a page; smaller reads cost more than they save */
    TRANSIT_SEG_FORCED = 14 << 10, /* past the store's limit: enough to get on with */
    TRANSIT_PARTS = 4,             /* segments in the bound: one filled while others are sent */
};

#define TRANSIT_SEG_MAGIC OBJ_TAG('t', 's', 'e', 'g')
struct transit_seg {
    uint32_t magic;
    uint32_t leases;  /* not yet returned */
    struct list link; /* in transit.segs, in order */
    uint64_t start;   /* offset in the object */
    uint32_t room, used;
    char bytes[];
};

struct transit {
    struct stobj base;
    struct stobj_fill fill;
    /* set once */
    uint64_t bound, length;
    uint32_t seg_size; /* with its head */
    pthread_mutex_t lock;
    /* under lock */
    bool has_reader, blocked;
    uint64_t held;
    uint64_t pos;                 /* the reader's; what lies before cannot be had again */
    struct list segs;             /* oldest first */
    struct transit_seg *next;     /* where the reader goes on; NULL: in the segment to come */
    struct list readers, writers; /* waiting; at most one each */
};

static inline struct transit *
transit_of(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    tassert(o->kind == STOBJ_PRIVATE);
    return container_of(o, struct transit, base);
}

static struct transit_seg *
transit_seg_of(struct list *link)
{
    struct transit_seg *seg = container_of(link, struct transit_seg, link);

    OBJ_CHECK(seg, TRANSIT_SEG_MAGIC);
    return seg;
}

/* ---- Birth and death ---- */

/* The largest border whose cost is a part of the bound. */
static uint32_t
transit_seg_size(const struct mem *m, uint64_t bound)
{
    uint64_t part = bound / TRANSIT_PARTS;

    if (part > TRANSIT_SEG_MAX)
        part = TRANSIT_SEG_MAX;
    if (part >= MEM_LARGE_MIN)
        part -= m->pad;
    return (uint32_t)mem_border_below(part > TRANSIT_SEG_MIN ? part : TRANSIT_SEG_MIN);
}

int
transit_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    struct transit *t;
    void *p;
    int err;

    /* A pass must get on in a full store: this much it always gets. */
    err = store_get(s, sizeof *t, BUDGET_FORCE, &p);
    if (err < 0)
        return err;
    t = p;
    *t = (struct transit){.bound = spec->transit_bytes,
        .length = spec->size_hint,
        .seg_size = transit_seg_size(&s->mem, spec->transit_bytes)};
    stobj_init(&t->base, s, STOBJ_PRIVATE, STOBJ_FILLING);
    t->base.fill = &t->fill;
    pthread_mutex_init(&t->lock, NULL);
    list_init(&t->segs);
    list_init(&t->readers);
    list_init(&t->writers);
    *out = &t->base;
    return 0;
}

static size_t
transit_seg_bytes(const struct transit_seg *seg)
{
    return sizeof *seg + seg->room;
}

/* What a segment counts for in `held`. */
static size_t
transit_seg_cost(const struct transit *t, const struct transit_seg *seg)
{
    return mem_cost(&t->base.store->mem, transit_seg_bytes(seg));
}

static uint64_t
transit_seg_end(const struct transit_seg *seg)
{
    return seg->start + seg->used;
}

static struct transit_seg *
transit_after(struct transit *t, struct transit_seg *seg)
{
    return seg->link.next == &t->segs ? NULL : transit_seg_of(seg->link.next);
}

/* Gives a segment back and tells the writer that there is room.  Under lock. */
static void
transit_drop(struct transit *t, struct transit_seg *seg)
{
    tassert(seg->leases == 0);
    tassert(t->held >= transit_seg_cost(t, seg));
    if (t->next == seg)
        t->next = transit_after(t, seg);
    list_del(&seg->link);
    t->held -= transit_seg_cost(t, seg);
    OBJ_BURY(seg);
    store_put(t->base.store, seg, transit_seg_bytes(seg));
    t->blocked = false;
    waiter_notify_all(&t->writers);
}

void
transit_free(struct stobj *o)
{
    struct transit *t = transit_of(o);
    struct storage *s = o->store;

    tassert(!t->has_reader);
    tassert(list_empty(&t->readers) && list_empty(&t->writers)); /* cancelled before the drop */
    while (!list_empty(&t->segs))
        transit_drop(t, transit_seg_of(t->segs.next));
    tassert(t->held == 0);
    pthread_mutex_destroy(&t->lock);
    OBJ_BURY(o);
    store_put(s, t, sizeof *t);
}

/* ---- Filling ---- */

/* The writer waits for returns.  A reader that waits for bytes must learn that returning is
 * now up to it.  Under lock. */
static int
transit_block(struct transit *t, struct waiter *w)
{
    tassert(t->held > 0); /* else no return would ever come */
    storage_arm(w, &t->writers);
    if (!t->blocked) {
        t->blocked = true;
        waiter_notify_all(&t->readers);
    }
    return -EAGAIN;
}

static void
transit_append(struct transit *t, struct transit_seg *seg, size_t size)
{
    *seg = (struct transit_seg){.magic = TRANSIT_SEG_MAGIC,
        .start = atomic_load(&t->base.len),
        .room = (uint32_t)(size - sizeof *seg)};
    pthread_mutex_lock(&t->lock);
    list_add_tail(&t->segs, &seg->link);
    if (t->next == NULL)
        t->next = seg;
    t->held += transit_seg_cost(t, seg);
    t->blocked = false;
    pthread_mutex_unlock(&t->lock);
}

/* A segment no larger than what is still to come, if that was announced. */
static size_t
transit_next_size(const struct transit *t)
{
    uint64_t len = atomic_load(&t->base.len), head = sizeof(struct transit_seg);

    if (t->length <= len || t->length - len > t->seg_size - head)
        return t->seg_size;
    return mem_class(head + (t->length - len));
}

/* Only the writer adds to what is held, so what was found under the lock can meanwhile have
 * become better, not worse. */
static bool
transit_holds(struct transit *t, size_t more, struct waiter *w)
{
    bool too_much;

    pthread_mutex_lock(&t->lock);
    too_much = t->held > 0 && t->held + more > t->bound;
    if (too_much)
        transit_block(t, w);
    pthread_mutex_unlock(&t->lock);
    return too_much;
}

static int
transit_grow(struct transit *t, struct waiter *w)
{
    size_t size = transit_next_size(t);
    void *p;
    int err;

    if (transit_holds(t, mem_cost(&t->base.store->mem, size), w))
        return -EAGAIN;
    err = store_get(t->base.store, size, BUDGET_CAN_WAIT, &p); /* may evict: not under lock */
    if (err == -EAGAIN || err == -ENOSPC) {
        /* The store is full.  The returns of our own reader are sure to come; and who holds
         * nothing gets one segment all the same, or a pass could stand still for ever. */
        if (transit_holds(t, t->bound, w))
            return -EAGAIN;
        if (size > TRANSIT_SEG_FORCED)
            size = TRANSIT_SEG_FORCED;
        err = store_get(t->base.store, size, BUDGET_FORCE, &p);
    }
    if (err == 0)
        transit_append(t, p, size);
    return err;
}

/* The last segment, if it has room.  Under lock: the reader frees full ones, never this. */
static struct transit_seg *
transit_open_seg(struct transit *t)
{
    struct transit_seg *seg = NULL;

    pthread_mutex_lock(&t->lock);
    if (!list_empty(&t->segs))
        seg = transit_seg_of(t->segs.prev);
    if (seg != NULL && seg->used == seg->room)
        seg = NULL;
    pthread_mutex_unlock(&t->lock);
    return seg;
}

int
transit_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w)
{
    struct transit *t = transit_of(o);
    struct transit_seg *seg = transit_open_seg(t);
    int err;

    if (seg == NULL) {
        err = transit_grow(t, w);
        if (err < 0)
            return err;
        seg = transit_open_seg(t);
    }
    tassert(seg != NULL);
    out->ptr = seg->bytes + seg->used;
    out->len = seg->room - seg->used;
    if (out->len > want)
        out->len = want;
    return 0;
}

void
transit_space_extend(struct stobj *o, size_t used)
{
    struct transit *t = transit_of(o);
    struct transit_seg *seg = transit_open_seg(t);

    tassert(seg != NULL && used <= seg->room - seg->used);
    pthread_mutex_lock(&t->lock);
    seg->used += (uint32_t)used;
    atomic_store(&o->len, transit_seg_end(seg));
    waiter_notify_all(&t->readers);
    pthread_mutex_unlock(&t->lock);
}

void
transit_space_cancel(struct stobj *o, struct waiter *w)
{
    struct transit *t = transit_of(o);

    pthread_mutex_lock(&t->lock);
    storage_disarm(w);
    pthread_mutex_unlock(&t->lock);
}

void
transit_settle(struct stobj *o, enum stobj_state to)
{
    struct transit *t = transit_of(o);

    pthread_mutex_lock(&t->lock);
    stobj_set_state(o, to);
    waiter_notify_all(&t->readers);
    pthread_mutex_unlock(&t->lock);
}

/* ---- Reading ---- */

static struct transit *
lease_transit(const struct lease_iter *it)
{
    return transit_of(it->obj);
}

/* Moves to the segment that holds byte `off`, if it is published, and frees what is passed.
 * The segment still being filled is never passed: the writer may stand in it.  Under lock. */
static struct transit_seg *
transit_seek(struct transit *t, uint64_t off)
{
    struct transit_seg *seg;

    while ((seg = t->next) != NULL && off >= transit_seg_end(seg)) {
        if (seg->used < seg->room)
            return NULL;
        t->next = transit_after(t, seg);
        if (seg->leases == 0)
            transit_drop(t, seg);
    }
    return seg;
}

static unsigned
transit_append_extents(struct transit *t, struct lease_iter *it, struct lease_batch *b)
{
    bool whole = atomic_load(&it->obj->state) == STOBJ_SETTLED;
    uint64_t len = atomic_load(&it->obj->len);
    struct transit_seg *seg;
    unsigned n = 0;

    while (b->n < b->max && it->off < it->end && (seg = transit_seek(t, it->off)) != NULL) {
        uint64_t stop = transit_seg_end(seg) < it->end ? transit_seg_end(seg) : it->end;

        b->extents[b->n++] = (struct lease_extent){
            .ptr = seg->bytes + (it->off - seg->start),
            .id = (uintptr_t)seg,
            .len = (uint32_t)(stop - it->off),
            .flags = stop == it->end || (whole && stop == len) ? LEASE_LAST : 0,
        };
        seg->leases++;
        it->off = t->pos = stop;
        n++;
    }
    return n;
}

/* Nothing was published for the reader.  Under lock, as is everything that could change it. */
static int
transit_nothing(struct transit *t, struct lease_iter *it)
{
    enum stobj_state state = stobj_state(it->obj);

    if (it->off < it->end && state == STOBJ_FILLING) {
        storage_arm(it->waiter, &t->readers);
        return t->blocked && it->outstanding > 0 ? -ENOBUFS : -EAGAIN;
    }
    storage_disarm(it->waiter);
    return it->off < it->end && state == STOBJ_FAILED ? -EPIPE : 0;
}

static int
transit_take(struct lease_iter *it, struct lease_batch *b)
{
    struct transit *t = lease_transit(it);
    int n;

    pthread_mutex_lock(&t->lock);
    if (it->off < t->pos) {
        n = -ESTALE; /* an earlier reader had it, and it is gone */
    } else {
        t->pos = it->off; /* what a reader skips is gone, as what it leases */
        n = (int)transit_append_extents(t, it, b);
        if (n == 0)
            n = transit_nothing(t, it);
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}

static bool
transit_has_seg(struct transit *t, const struct transit_seg *seg)
{
    for (struct list *l = t->segs.next; l != &t->segs; l = l->next)
        if (transit_seg_of(l) == seg)
            return true;
    return false;
}

/* The id is the segment. */
static void
transit_give(struct lease_iter *it, uint64_t id)
{
    struct transit *t = lease_transit(it);
    struct transit_seg *seg = (struct transit_seg *)(uintptr_t)id;

    pthread_mutex_lock(&t->lock);
    tassert_slow(transit_has_seg(t, seg));
    OBJ_CHECK(seg, TRANSIT_SEG_MAGIC);
    tassert(seg->leases > 0);
    seg->leases--;
    if (seg->leases == 0 && seg->used == seg->room && t->pos >= transit_seg_end(seg))
        transit_drop(t, seg);
    pthread_mutex_unlock(&t->lock);
}

static void
transit_cancel(struct lease_iter *it)
{
    struct transit *t = lease_transit(it);

    pthread_mutex_lock(&t->lock);
    storage_disarm(it->waiter);
    pthread_mutex_unlock(&t->lock);
}

static void
transit_close(struct lease_iter *it)
{
    struct transit *t = lease_transit(it);

    pthread_mutex_lock(&t->lock);
    tassert(t->has_reader);
    t->has_reader = false;
    pthread_mutex_unlock(&t->lock);
}

static const struct lease_fns transit_fns = {
    .take = transit_take,
    .give = transit_give,
    .cancel = transit_cancel,
    .close = transit_close,
};

void
transit_lease_open(struct lease_iter *it)
{
    struct transit *t = lease_transit(it);

    pthread_mutex_lock(&t->lock);
    tassert(!t->has_reader); /* a private object has one */
    t->has_reader = true;
    pthread_mutex_unlock(&t->lock);
    it->fns = &transit_fns;
}

bool
transit_contains(struct stobj *o, const char *ptr, size_t len)
{
    struct transit *t = transit_of(o);
    bool found = false;

    pthread_mutex_lock(&t->lock);
    for (struct list *l = t->segs.next; l != &t->segs && !found; l = l->next) {
        const struct transit_seg *seg = transit_seg_of(l);
        uintptr_t p = (uintptr_t)ptr, bytes = (uintptr_t)seg->bytes;

        found = p >= bytes && p - bytes <= seg->used && len <= seg->used - (p - bytes);
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}
