/* kept.c -- objects of engine malloc that stay: where bytes lie, and how they come there. */
#include "storage/kept.h"

#include <errno.h>
#include <string.h>

static inline struct kept *
kept_of(struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    tassert(o->kind == STOBJ_KEPT);
    return container_of(o, struct kept, base);
}

static inline struct kept_fill *
kept_fill_of(struct kept *k)
{
    return container_of(k->base.fill, struct kept_fill, base);
}

/* ---- Where bytes lie ---- */

/* How many segments the plan has; those behind it are growth. */
static uint32_t
kept_planned(const struct kept *k)
{
    return (uint32_t)k->plan.whole + (k->plan.tail0 > 0) + (k->plan.tail1 > 0);
}

static uint32_t
kept_tail(const struct kept *k, uint32_t i)
{
    return (uint32_t)(i == 0 ? k->plan.tail0 : k->plan.tail1) * KEPT_TAIL_UNIT;
}

static void
kept_set_tails(struct kept *k, size_t tail0, size_t tail1)
{
    tassert(tail0 % KEPT_TAIL_UNIT == 0 && tail1 % KEPT_TAIL_UNIT == 0);
    tassert(tail0 <= KEPT_SEG_MAX && tail1 <= KEPT_SEG_MAX);
    k->plan.tail0 = tail0 / KEPT_TAIL_UNIT;
    k->plan.tail1 = tail1 / KEPT_TAIL_UNIT;
}

static uint32_t
kept_grow_room(uint32_t n)
{
    return KEPT_GROW_MIN << (n < KEPT_GROW_DOUBLINGS ? n : KEPT_GROW_DOUBLINGS);
}

/* Bytes that segment `index` was allocated with, by arithmetic.  Not of the last one of a settled
 * object, which may have been trimmed: kept_last_room(). */
static uint32_t
kept_room(const struct kept *k, uint32_t index)
{
    uint32_t planned = kept_planned(k), whole = (uint32_t)k->plan.whole;

    if (index < whole)
        return KEPT_SEG_MAX;
    return index < planned ? kept_tail(k, index - whole) : kept_grow_room(index - planned);
}

/* Segment n of the growth begins at 16 KiB * (2^n - 1) as long as they double, so n is the
 * logarithm of off / 16 KiB + 1.  `off` counts from the end of the plan. */
static struct kept_place
kept_locate_grown(uint64_t off)
{
    const uint64_t doubled = (uint64_t)KEPT_SEG_MAX - KEPT_GROW_MIN;
    uint64_t n;

    if (off >= doubled) {
        n = (off - doubled) / KEPT_SEG_MAX;
        return (struct kept_place){.start = doubled + n * KEPT_SEG_MAX,
            .index = KEPT_GROW_DOUBLINGS + (uint32_t)n,
            .room = KEPT_SEG_MAX};
    }
    n = 63 - (unsigned)__builtin_clzll(off / KEPT_GROW_MIN + 1);
    return (struct kept_place){.start = KEPT_GROW_MIN * ((UINT64_C(1) << n) - 1),
        .index = (uint32_t)n,
        .room = KEPT_GROW_MIN << n};
}

/* Each take calls it, so a range starts anywhere at the same cost.  Any offset has a place, whether
 * or not that segment exists yet. */
struct kept_place
kept_locate(const struct kept *k, uint64_t off)
{
    uint64_t start = k->plan.whole * (uint64_t)KEPT_SEG_MAX;
    struct kept_place at;

    if (off < start)
        return (struct kept_place){.start = off & ~(uint64_t)(KEPT_SEG_MAX - 1),
            .index = (uint32_t)(off / KEPT_SEG_MAX),
            .room = KEPT_SEG_MAX};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t tail = kept_tail(k, i);

        if (off - start < tail)
            return (struct kept_place){start, (uint32_t)k->plan.whole + i, tail};
        start += tail;
    }
    at = kept_locate_grown(off - start);
    at.start += start;
    at.index += kept_planned(k);
    return at;
}

/* The acquire pairs with the release in kept_dir_grow(): a stream that finds a new directory finds
 * the pointers that were copied into it. */
char *
kept_seg(const struct kept *k, uint32_t index)
{
    uintptr_t segs = atomic_load_explicit(&k->segs, memory_order_acquire);
    const struct kept_dir *dir = kept_dir_of(segs);

    tassert(index < (dir != NULL ? dir->room : 1));
    return dir != NULL ? dir->seg[index] : (char *)segs;
}

/* The writer's. A slot of a directory is a plain store: readers look at it only after `len`, stored
 * later with release or stronger, says that its segment has bytes. */
static void
kept_set_seg(struct kept *k, uint32_t index, char *p)
{
    struct kept_dir *dir = kept_dir(k);

    tassert(index < (dir != NULL ? dir->room : 1));
    if (dir != NULL)
        dir->seg[index] = p;
    else
        atomic_store_explicit(&k->segs, (uintptr_t)p, memory_order_release);
}

static bool
kept_embedded(const struct kept *k)
{
    return k->plan.embedded; /* a segment may lie right behind the object, too */
}

/* ---- Birth ---- */

/* What is left behind the whole MiBs goes into one allocation; or, if that would waste a page
 * or more, into a border and the rest. */
static void
kept_plan(struct kept *k, uint64_t length)
{
    const struct mem *m = &stobj_store(&k->base)->mem;
    size_t rest = length % KEPT_SEG_MAX, border, saved;

    k->plan.whole = length / KEPT_SEG_MAX;
    if (rest == 0)
        return;
    kept_set_tails(k, mem_class(rest), 0);
    border = mem_border_below(rest);
    if (border == rest)
        return;
    /* What one piece costs more than two, pads counted.  A sixteenth at least: the second piece
     * costs a directory, and an extent in each read of it. */
    saved = mem_cost(m, rest) - mem_cost(m, border);
    saved -= saved < mem_cost(m, rest - border) ? saved : mem_cost(m, rest - border);
    if (saved < KEPT_SPLIT_WASTE || saved < rest / 16)
        return;
    kept_set_tails(k, border, mem_class(rest - border));
}

/* Bytes for the body inside the object's allocation; 0: it gets one of its own. */
static size_t
kept_embed_room(const struct mem *m, uint64_t length)
{
    size_t head = sizeof(struct kept), together;

    if (length == 0 || length > KEPT_EMBED_MAX - head)
        return 0;
    together = mem_class(head + length);
    return together <= mem_cost(m, head) + mem_cost(m, length) + KEPT_EMBED_WASTE ? together - head
                                                                                  : 0;
}

static size_t
kept_alloc_size(const struct kept *k)
{
    return sizeof *k + (kept_embedded(k) ? kept_tail(k, 0) : 0);
}

int
kept_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec)
{
    /* A length that no memory holds is no plan, but it may still be a lie. */
    uint64_t length = spec->size_hint > MEM_SIZE_MAX ? 0 : spec->size_hint;
    size_t embed = kept_embed_room(&s->mem, length);
    struct kept_fill *f;
    struct kept *k;
    void *p;
    int err;

    /* Nothing here can wait: stobj_new() takes no waiter, so both may use the reserve. */
    err = store_get(s, sizeof *f, CHARGE_BODY, BUDGET_NO_WAIT, &p);
    if (err < 0)
        return err;
    f = p;
    err = store_get(s, sizeof *k + embed, CHARGE_BODY, BUDGET_NO_WAIT, &p);
    if (err < 0) {
        store_put(s, f, sizeof *f, CHARGE_BODY);
        return err;
    }
    k = p;
    /* Not the body: its bytes are written before `len` says that they are there. */
    memset(k, 0, sizeof *k);
    stobj_init(&k->base, s, STOBJ_KEPT, STOBJ_FILLING);
    *f = (struct kept_fill){.nsegs = embed > 0, .room = embed};
    list_init(&f->streams_waiting);
    k->base.fill = &f->base;
    if (embed > 0) {
        kept_set_seg(k, 0, k->body);
        k->plan.embedded = true;
        kept_set_tails(k, embed, 0);
    } else {
        kept_plan(k, length);
    }
    *out = &k->base;
    return 0;
}

/* ---- Filling ---- */

static size_t
kept_dir_size(uint32_t room)
{
    return sizeof(struct kept_dir) + room * sizeof(char *);
}

/* Room for segment `index`.  Readers of the old directory keep it: its slots below their `len` do
 * not change, and it goes with the fill.  On an error nothing has changed. */
static int
kept_dir_grow(struct kept *k, uint32_t index, struct waiter *w)
{
    uintptr_t segs = atomic_load_explicit(&k->segs, memory_order_relaxed);
    struct kept_dir *old = kept_dir_of(segs), *dir;
    uint32_t had = old != NULL ? old->room : 1, room;
    void *p;
    int err;

    if (index < had)
        return 0;
    /* Six pointers and the head are 64 bytes, a class of the allocator. */
    room = had > 1 ? 2 * had : kept_planned(k) == 2 ? 2 : 6; /* two segments are the usual case */
    err = store_get_or_wait(stobj_store(&k->base), kept_dir_size(room), CHARGE_BODY, w, &p);
    if (err < 0)
        return err;
    dir = p;
    dir->older = old;
    dir->room = room;
    if (old != NULL)
        memcpy(dir->seg, old->seg, had * sizeof dir->seg[0]);
    else
        dir->seg[0] = (char *)segs;
    atomic_store_explicit(&k->segs, (uintptr_t)dir + 1, memory_order_release);
    return 0;
}

/* Adds one segment behind the last. After -EAGAIN a directory that has grown already stays, and the
 * next call finds it large enough. */
static int
kept_grow(struct kept *k, struct kept_fill *f, struct waiter *w)
{
    uint32_t index = f->nsegs, room = kept_room(k, index);
    void *p;
    int err;

    err = kept_dir_grow(k, index, w);
    if (err < 0)
        return err;
    err = store_get_or_wait(stobj_store(&k->base), room, CHARGE_BODY, w, &p);
    if (err < 0)
        return err;
    /* No reader comes here before the extend that follows: its store of len publishes. */
    kept_set_seg(k, index, p);
    f->nsegs++;
    f->room += room;
    return 0;
}

/* The writer's thread.  Readers do not see the span: it lies behind `len` until the extend. */
int
kept_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w)
{
    struct kept *k = kept_of(o);
    struct kept_fill *f = kept_fill_of(k);
    uint64_t len = atomic_load_explicit(&o->len, memory_order_relaxed);
    struct kept_place at;
    int err;

    tassert(len <= f->room);
    if (len == f->room) {
        err = kept_grow(k, f, w);
        if (err < 0)
            return err;
    }
    at = kept_locate(k, len);
    tassert(at.index < f->nsegs);
    out->ptr = kept_seg(k, at.index) + (len - at.start);
    out->len = at.start + at.room - len;
    if (out->len > want)
        out->len = want;
    return 0;
}

/* The fetch asks before it shows the object to any request, so that a body of known length does not
 * fail for want of room halfway.  Segments that were got before -EAGAIN stay: the next call goes on
 * from there, and kept_trim() gives back what is not used. */
int
kept_space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w)
{
    struct kept *k = kept_of(o);
    struct kept_fill *f = kept_fill_of(k);
    int err = 0;

    while (f->room < bytes && err == 0)
        err = kept_grow(k, f, w);
    return err;
}

/* Every stream that waits looks again.  Under the stripe. */
static void
kept_notify(struct kept_fill *f)
{
    atomic_store(&f->waited, false);
    waiter_notify_all(&f->streams_waiting);
}

/* Lost wake-ups: the writer stores len, then loads `waited`; a stream (stream_wait) stores
 * `waited`, then loads len.  All four are seq_cst, so in their one total order either the
 * stream's load comes after the writer's store, and it sees the bytes, or the writer's load
 * comes after the stream's store, and it takes the stripe and notifies.  The stream holds the
 * stripe from arming to its second look, so the notification cannot fall in between.  With
 * no waiter the writer pays one store and one load. */
void
kept_space_extend(struct stobj *o, size_t used)
{
    struct kept *k = kept_of(o);
    struct kept_fill *f = kept_fill_of(k);
    uint64_t len = atomic_load_explicit(&o->len, memory_order_relaxed) + used;

    tassert(len <= f->room);
    atomic_store(&o->len, len);
    if (atomic_load(&f->waited)) {
        pthread_mutex_lock(stobj_lock(o));
        kept_notify(f);
        pthread_mutex_unlock(stobj_lock(o));
    }
}

void
kept_space_cancel(struct stobj *o, struct waiter *w)
{
    budget_cancel(&stobj_store(o)->budget, w);
}

/* ---- Settling ---- */

/* Segments in which nothing was published go back: reserved ones, and the span under way. No reader
 * has come to them, so this needs no lock.  Slot 0 is cleared, as it is in use without a directory:
 * no pointer to freed memory stays. */
static void
kept_put_from(struct kept *k, struct kept_fill *f, uint32_t index)
{
    for (uint32_t i = index; i < f->nsegs; i++)
        store_put(stobj_store(&k->base), kept_seg(k, i), kept_room(k, i), CHARGE_BODY);
    if (index == 0)
        kept_set_seg(k, 0, NULL);
}

/* What can be cut to where it stands. */
static size_t
kept_trimmed_large(size_t used)
{
    size_t to = mem_class(used);

    return to < MEM_LARGE_MIN ? MEM_LARGE_MIN : to;
}

/* The size of the last segment, once it was trimmed; something is published. */
static size_t
kept_last_room(const struct kept *k)
{
    struct kept_place at = kept_locate(k, atomic_load(&k->base.len) - 1);
    size_t used = atomic_load(&k->base.len) - at.start;

    switch ((enum kept_trim)k->base.own) {
    case KEPT_AS_PLANNED:
        return at.room;
    case KEPT_TRIMMED_LARGE:
        return kept_trimmed_large(used);
    case KEPT_MOVED:
        return mem_class(used);
    }
    TUNREACHABLE("kept_trim");
}

/* Cuts the last segment to what is used without moving a byte, or frees it if nothing is:
 * no reader has come to it then.  Notes how it was trimmed, and returns how many bytes of that
 * segment are used; 0: there is none. */
static size_t
kept_trim(struct kept *k, struct kept_fill *f)
{
    struct storage *s = stobj_store(&k->base);
    uint64_t len = atomic_load_explicit(&k->base.len, memory_order_relaxed);
    struct kept_place at;
    size_t used, to;

    if (len == 0) {
        kept_put_from(k, f, kept_embedded(k) ? 1 : 0);
        return 0;
    }
    at = kept_locate(k, len - 1);
    kept_put_from(k, f, at.index + 1);
    used = len - at.start;
    /* It is part of the object's allocation and goes with it. */
    if (at.index == 0 && kept_embedded(k))
        return 0;
    to = kept_trimmed_large(used);
    if (to < at.room && mem_shrink(&s->mem, kept_seg(k, at.index), at.room, to)) {
        /* Both are large classes with one pad each: the difference has none. */
        budget_release(&s->budget, CHARGE_BODY, at.room - to);
        k->base.own = KEPT_TRIMMED_LARGE;
    }
    return used;
}

/* A smaller home for the last segment, which mem_shrink() could not make small enough: those below
 * 16 KiB do not shrink where they stand. It is charged beside the old one until that goes, at once;
 * quietly, since no other object is worth evicting for it.  NULL: not worth it, or no room. */
static char *
kept_spare(struct kept *k, size_t used)
{
    void *p;
    size_t room = used > 0 ? kept_last_room(k) : 0;

    if (used == 0 || room > MEM_LARGE_MIN || mem_class(used) >= room)
        return NULL;
    return store_get(stobj_store(&k->base), used, CHARGE_BODY, BUDGET_QUIET, &p) < 0 ? NULL : p;
}

/* Moves the last segment to `spare`; returns the memory that is left over.  Under the stripe,
 * with no stream: then no reader has leased anything, and none can begin to. */
static char *
kept_move_last(struct kept *k, char *spare, size_t used)
{
    uint32_t index = kept_locate(k, atomic_load(&k->base.len) - 1).index;
    char *old = kept_seg(k, index);

    memcpy(spare, old, used);
    kept_set_seg(k, index, spare);
    return old;
}

/* On the writer's thread, or on that of the last owner, which fails the object.  Trimming comes
 * first, while the writer alone knows the segments; the state, the wake-up and the end of the fill
 * come under one stripe, so a new stream finds either a fill that stays or a settled object. */
void
kept_settle(struct stobj *o, enum stobj_state to)
{
    struct kept *k = kept_of(o);
    struct kept_fill *f = kept_fill_of(k);
    size_t used = kept_trim(k, f), left_room;
    char *left = kept_spare(k, used); /* allocated outside the lock */
    bool gone;

    left_room = used; /* of an unused spare */
    pthread_mutex_lock(stobj_lock(o));
    /* A stream that came meanwhile may have leased the old bytes: then the spare goes back. */
    if (left != NULL && f->streams == 0) {
        left = kept_move_last(k, left, used);
        left_room = kept_last_room(k);
        k->base.own = KEPT_MOVED;
    }
    stobj_set_state(o, to);
    kept_notify(f);
    o->fill = NULL;
    /* Else the last stream frees the fill, in stream_leave(). */
    gone = f->streams == 0;
    pthread_mutex_unlock(stobj_lock(o));
    if (left != NULL)
        store_put(stobj_store(o), left, left_room, CHARGE_BODY);
    if (gone)
        kept_fill_free(k, f);
}

/* ---- Death ---- */

/* On the thread of the writer or of the last stream, which still has a reference of the object. The
 * newest directory is the object's own; only streams could know the older ones. */
void
kept_fill_free(struct kept *k, struct kept_fill *f)
{
    struct kept_dir *dir = kept_dir(k), *older = dir != NULL ? dir->older : NULL;

    tassert(f->streams == 0 && k->base.fill == NULL);
    tassert(list_empty(&f->streams_waiting));
    if (dir != NULL)
        dir->older = NULL;
    while (older != NULL) {
        dir = older;
        older = dir->older;
        store_put(stobj_store(&k->base), dir, kept_dir_size(dir->room), CHARGE_BODY);
    }
    store_put(stobj_store(&k->base), f, sizeof *f, CHARGE_BODY);
}

/* Any thread, RCU's too.  Sizes are computed as they were when charged: the last segment's as
 * trimmed, an embedded one's with the object. */
void
kept_free(struct stobj *o)
{
    struct kept *k = kept_of(o);
    struct storage *s = stobj_store(o);
    uint64_t len = atomic_load_explicit(&o->len, memory_order_relaxed);
    struct kept_dir *dir = kept_dir(k);
    uint32_t last = len > 0 ? kept_locate(k, len - 1).index : 0;

    tassert(o->fill == NULL);
    for (uint32_t i = 0; len > 0 && i <= last; i++)
        if (i > 0 || !kept_embedded(k))
            store_put(
                s, kept_seg(k, i), i == last ? kept_last_room(k) : kept_room(k, i), CHARGE_BODY);
    if (dir != NULL)
        store_put(s, dir, kept_dir_size(dir->room), CHARGE_BODY);
    OBJ_BURY(o);
    store_put(s, k, kept_alloc_size(k), CHARGE_BODY);
}

bool
kept_contains(struct stobj *o, const char *ptr, size_t len)
{
    const struct kept *k = kept_of(o);
    uint64_t end = stobj_len(o);

    for (uint64_t off = 0; off < end;) {
        struct kept_place at = kept_locate(k, off);
        uintptr_t seg = (uintptr_t)kept_seg(k, at.index), p = (uintptr_t)ptr;
        size_t used = end - at.start < at.room ? end - at.start : at.room;

        if (p >= seg && p - seg <= used && len <= used - (p - seg))
            return true;
        off = at.start + at.room;
    }
    return false;
}
