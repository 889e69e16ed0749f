/* engine_synth.c -- bodies by reference: a list of bytes that live elsewhere.
 *
 * String literals of the policy, request headers in the arena, a file mapped at start, the
 * admin page.  Settled at once; leases need no return.  Parts are appended by the maker, before
 * it shows the object to a reader. */
#include <string.h>

#include "storage/storage_priv.h"

#define SYNTH_DEFAULT_SIZE (UINT64_C(16) << 20)
enum {
    SYNTH_PARTS_INLINE = 4,      /* most pages are a head, a value and a tail */
    SYNTH_EXTENT_MAX = 1u << 30, /* an extent's length has 32 bits */
};

struct synth_part {
    const char *ptr;
    uint64_t end; /* offset in the body where this part ends */
};

struct synth {
    struct stobj base;
    uint32_t nparts, room;
    struct synth_part *parts;     /* `few`, or charged memory */
    void (*release)(void *owner); /* NULL: the bytes need no owner */
    void *owner;
    struct synth_part few[SYNTH_PARTS_INLINE];
};

/* Each is reached through storage.c or lease.c, which have looked at the object. */
static struct synth *
synth_of(struct stobj *o)
{
    tassert(stobj_store(o)->ops == &engine_synth);
    return container_of(o, struct synth, base);
}

static void *
synth_alloc(struct storage *s, size_t size)
{
    return mem_alloc(&s->mem, size);
}

static void
synth_free(struct storage *s, void *p, size_t size)
{
    mem_free(&s->mem, p, size);
}

/* NO_WAIT: a page is made in the midst of a request, without a waiter. */
int
engine_synth_new(struct stobj **out, struct storage *s)
{
    struct synth *y;
    void *p;
    int err;

    err = store_get(s, sizeof *y, CHARGE_SYNTH, BUDGET_NO_WAIT, &p);
    if (err < 0)
        return err;
    y = p;
    *y = (struct synth){.room = SYNTH_PARTS_INLINE, .parts = y->few};
    /* It has no writer that could fail or wait. */
    stobj_init(&y->base, s, STOBJ_KEPT, STOBJ_SETTLED);
    *out = &y->base;
    return 0;
}

static void
synth_free_parts(struct synth *y)
{
    if (y->parts != y->few)
        store_put(stobj_store(&y->base), y->parts, y->room * sizeof y->parts[0], CHARGE_SYNTH);
}

/* Before the object is shown to a reader: `release` is read without a lock at the end. */
void
engine_synth_own(struct stobj *o, void (*release)(void *owner), void *owner)
{
    struct synth *y = synth_of(o);

    y->release = release;
    y->owner = owner;
}

/* A list that has grown stays, and stays charged: the next page is likely to need it, too. */
void
engine_synth_reset(struct stobj *o)
{
    struct synth *y = synth_of(o);

    tassert(y->release == NULL);
    y->nparts = 0;
    atomic_store_explicit(&o->len, 0, memory_order_relaxed);
}

/* Only the maker has the object, so the old list goes at once.  On an error it is as before. */
static int
synth_grow(struct synth *y)
{
    uint32_t room = 2 * y->room;
    void *p;
    int err;

    err = store_get(
        stobj_store(&y->base), room * sizeof y->parts[0], CHARGE_SYNTH, BUDGET_NO_WAIT, &p);
    if (err < 0)
        return err;
    memcpy(p, y->parts, y->nparts * sizeof y->parts[0]);
    synth_free_parts(y);
    y->parts = p;
    y->room = room;
    return 0;
}

static int
synth_add(struct stobj *o, struct slice bytes)
{
    struct synth *y = synth_of(o);
    uint64_t len = atomic_load_explicit(&o->len, memory_order_relaxed);
    int err;

    /* An extent of no bytes would break the contract of lease_take(). */
    if (bytes.len == 0)
        return 0;
    err = y->nparts == y->room ? synth_grow(y) : 0;
    if (err < 0)
        return err;
    y->parts[y->nparts++] = (struct synth_part){.ptr = bytes.ptr, .end = len + bytes.len};
    atomic_store_explicit(&o->len, len + bytes.len, memory_order_release);
    return 0;
}

/* On the thread that gave back the last reference.  The parts are only pointers, so release() may
 * come before or after their list; no reader is left in either case. */
static void
synth_obj_free(struct stobj *o)
{
    struct synth *y = synth_of(o);
    struct storage *s = stobj_store(o);

    synth_free_parts(y);
    if (y->release != NULL)
        y->release(y->owner);
    OBJ_BURY(o);
    store_put(s, y, sizeof *y, CHARGE_SYNTH);
}

static uint64_t
synth_start(const struct synth *y, uint32_t i)
{
    return i > 0 ? y->parts[i - 1].end : 0;
}

/* The first part that ends behind `off`. */
static uint32_t
synth_locate(const struct synth *y, uint64_t off)
{
    uint32_t lo = 0, hi = y->nparts;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (y->parts[mid].end <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* One search for each call, none for a reader at the beginning: the parts after it follow in
 * order. */
static int
synth_take(struct lease_iter *it, struct lease_batch *b)
{
    struct synth *y = synth_of(it->obj);
    uint64_t len = stobj_len(it->obj), end = it->end < len ? it->end : len;
    const struct synth_part *p = y->parts + (it->off > 0 ? synth_locate(y, it->off) : 0);
    uint64_t off = it->off, start = p > y->parts ? p[-1].end : 0;
    unsigned had = b->n, n = had;

    while (n < b->max && off < end) {
        uint64_t stop = p->end < end ? p->end : end;

        /* The rest of the part is the next extent. */
        if (stop - off > SYNTH_EXTENT_MAX)
            stop = off + SYNTH_EXTENT_MAX;
        b->extents[n++] = (struct lease_extent){
            .ptr = p->ptr + (off - start),
            .id = LEASE_NO_RETURN,
            .len = (uint32_t)(stop - off),
            .flags = stop == end ? LEASE_LAST : 0,
        };
        off = stop;
        if (stop == p->end) {
            start = stop;
            p++;
        }
    }
    it->off = off;
    b->n = n;
    return (int)(n - had);
}

static void
synth_give(struct lease_iter *it, uint64_t id)
{
    (void)it;
    (void)id;
    TUNREACHABLE("nothing of a synth is to be returned");
}

static void
synth_cancel(struct lease_iter *it)
{
    (void)it;
    TUNREACHABLE("a synth arms no waiter");
}

static void
synth_close(struct lease_iter *it)
{
    (void)it;
}

static const struct lease_fns synth_fns = {
    .take = synth_take,
    .give = synth_give,
    .cancel = synth_cancel,
    .close = synth_close,
};

static void
synth_lease_open(struct lease_iter *it)
{
    it->fns = &synth_fns;
}

/* One reference, to bytes that are there as long as the object is. */
static bool
synth_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out)
{
    const struct synth *y = synth_of((struct stobj *)(uintptr_t)o);

    if (y->nparts != 1 || off >= y->parts[0].end || len > y->parts[0].end - off)
        return false;
    *out = slice_of(y->parts[0].ptr + off, len);
    return true;
}

static bool
synth_contains(struct stobj *o, const char *ptr, size_t len)
{
    const struct synth *y = synth_of(o);

    for (uint32_t i = 0; i < y->nparts; i++) {
        uintptr_t p = (uintptr_t)ptr, part = (uintptr_t)y->parts[i].ptr;
        uint64_t room = y->parts[i].end - synth_start(y, i);

        /* Subtracted: sums of addresses may wrap. */
        if (p >= part && p - part <= room && len <= room - (p - part))
            return true;
    }
    return false;
}

const struct engine_ops engine_synth = {
    .magic = ENGINE_MAGIC,
    .name = "synth",
    .default_size = SYNTH_DEFAULT_SIZE,
    .alloc = synth_alloc,
    .free = synth_free,
    .obj_free = synth_obj_free,
    .lease_open = synth_lease_open,
    .borrow = synth_borrow,
    .contains = synth_contains,
    .add = synth_add,
};
