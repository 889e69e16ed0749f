/* kept_read.c -- reading objects of engine malloc that stay.
 *
 * Two ways: `settled` is a walk that shares nothing; `stream` follows a writer, and becomes
 * `settled` when the writer is through. */
#include "storage/kept.h"

#include <errno.h>

static inline struct kept *
lease_kept(const struct lease_iter *it)
{
    return container_of(it->obj, struct kept, base);
}

/* An id is the segment's number: nothing hangs on it but the check in kept_give(). */
static uint64_t
kept_id(uint32_t index)
{
    return ((uint64_t)index + 1) * (LEASE_ID_CALLER + 1);
}

/* Appends extents of [it->off, end), which is published.  Reaching `last` is marked. */
static int
kept_append(struct lease_iter *it, struct lease_batch *b, uint64_t end, uint64_t last)
{
    const struct kept *k = lease_kept(it);
    unsigned had = b->n;

    while (b->n < b->max && it->off < end) {
        struct kept_place at = kept_locate(k, it->off);
        uint64_t stop = at.start + at.room < end ? at.start + at.room : end;

        b->extents[b->n++] = (struct lease_extent){
            .ptr = kept_seg(k, at.index) + (it->off - at.start),
            .id = kept_id(at.index),
            .len = (uint32_t)(stop - it->off),
            .flags = stop == last ? LEASE_LAST : 0,
        };
        it->off = stop;
    }
    return (int)(b->n - had);
}

/* Nothing to undo: the object is held or borrowed until the iterator is through, and with it
 * all of its bytes. */
static void
kept_give(struct lease_iter *it, uint64_t id)
{
    const struct kept *k = lease_kept(it);

    if (__builtin_expect(kept_dir(k) == NULL, 1))
        tassert(id == kept_id(0)); /* one segment */
    else
        tassert(it->off > 0 && id <= kept_id(kept_locate(k, it->off - 1).index));
}

/* ---- Settled or failed ---- */

/* A hit's way: takes no lock and writes nothing that another thread reads.  A failed object has its
 * end only where the range has it: behind the published bytes comes -EPIPE. */
static int
settled_take(struct lease_iter *it, struct lease_batch *b)
{
    uint64_t len = stobj_len(it->obj);
    bool whole = stobj_state(it->obj) == STOBJ_SETTLED;
    uint64_t end = it->end < len ? it->end : len;

    if (it->off < end)
        return kept_append(it, b, end, whole ? end : it->end);
    return whole || it->off >= it->end ? 0 : -EPIPE;
}

static void
settled_cancel(struct lease_iter *it)
{
    (void)it;
    TUNREACHABLE("a settled object arms no waiter");
}

/* The object counts its streams only, so there is nothing to take back. */
static void
settled_close(struct lease_iter *it)
{
    (void)it;
}

static const struct lease_fns kept_settled = {
    .take = settled_take,
    .give = kept_give,
    .cancel = settled_cancel,
    .close = settled_close,
};

/* One segment, which stays where it is as long as the object does.  Relaxed is enough: the caller
 * saw SETTLED with acquire, and `segs` was written before that. */
bool
kept_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out)
{
    const struct kept *k = container_of((struct stobj *)(uintptr_t)o, struct kept, base);
    uintptr_t segs = atomic_load_explicit(&k->segs, memory_order_relaxed);
    uint64_t all = stobj_len(o);

    if (kept_dir_of(segs) != NULL || off >= all || len > all - off)
        return false;
    *out = slice_of((const char *)segs + off, len);
    return true;
}

/* ---- Streaming ---- */

static struct kept_fill *
stream_fill(const struct lease_iter *it)
{
    return (struct kept_fill *)(uintptr_t)it->priv[0];
}

/* Under the stripe, as the writer may be posting this waiter at the moment. */
static void
stream_cancel(struct lease_iter *it)
{
    pthread_mutex_lock(stobj_lock(it->obj));
    storage_disarm(it->waiter);
    pthread_mutex_unlock(stobj_lock(it->obj));
}

/* The last to leave a fill that the writer has left frees it; outside the stripe, as all memory.
 * From then on the iterator reads as of a settled object. */
static void
stream_leave(struct lease_iter *it)
{
    struct stobj *o = it->obj;
    struct kept_fill *f = stream_fill(it);
    bool gone;

    pthread_mutex_lock(stobj_lock(o));
    storage_disarm(it->waiter); /* settled, but the writer has not come to notify yet */
    tassert(f->streams > 0);
    f->streams--;
    gone = f->streams == 0 && o->fill == NULL;
    pthread_mutex_unlock(stobj_lock(o));
    it->priv[0] = 0;
    it->fns = &kept_settled;
    if (gone)
        kept_fill_free(lease_kept(it), f);
}

/* False: there is something new, look again.  The proof that no wake-up is lost is at
 * kept_space_extend(). */
static bool
stream_wait(struct lease_iter *it)
{
    struct kept_fill *f = stream_fill(it);
    struct stobj *o = it->obj;
    bool wait;

    /* Such a caller asks again by itself: -EAGAIN, with nothing armed. */
    if (it->waiter == NULL)
        return true;
    pthread_mutex_lock(stobj_lock(o));
    storage_arm(it->waiter, &f->streams_waiting);
    atomic_store(&f->waited, true);
    wait = atomic_load(&o->len) <= it->off && atomic_load(&o->state) == STOBJ_FILLING;
    if (!wait)
        storage_disarm(it->waiter);
    pthread_mutex_unlock(stobj_lock(o));
    return wait;
}

static int
stream_take(struct lease_iter *it, struct lease_batch *b)
{
    uint64_t len;

    do {
        /* The state first: the length that is read after it is then the final one. */
        if (stobj_state(it->obj) != STOBJ_FILLING) {
            stream_leave(it);
            return settled_take(it, b);
        }
        if (it->off >= it->end) {
            /* 0 leaves no waiter armed (engine.h): lease_fini() asserts it. */
            stream_cancel(it);
            return 0;
        }
        len = stobj_len(it->obj);
        if (it->off < len)
            return kept_append(it, b, len < it->end ? len : it->end, it->end);
    } while (!stream_wait(it));
    return -EAGAIN;
}

static const struct lease_fns kept_stream = {
    .take = stream_take,
    .give = kept_give,
    .cancel = stream_cancel,
    .close = stream_leave,
};

void
kept_lease_open(struct lease_iter *it)
{
    struct stobj *o = it->obj;
    struct kept_fill *f = NULL;

    it->fns = &kept_settled;
    if (stobj_state(o) != STOBJ_FILLING)
        return;
    /* Under the stripe the writer cannot settle, so the fill cannot go. */
    pthread_mutex_lock(stobj_lock(o));
    if (o->fill != NULL) {
        f = container_of(o->fill, struct kept_fill, base);
        f->streams++;
    }
    pthread_mutex_unlock(stobj_lock(o));
    if (f == NULL)
        return;
    it->priv[0] = (uintptr_t)f;
    it->fns = &kept_stream;
}
