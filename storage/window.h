/* window.h -- objects of engine malloc with bytes that go again: private ones and shared windows.
 *
 * The segments of such an object are a ring: new ones come at the front, and those at the old end
 * go.  Two kinds differ in when they go and in nothing else:
 *
 *   PRIVATE  one reader; a segment goes as soon as it has been read and returned
 *   SHARED   many readers; a segment goes when a new one needs its room
 *
 *   held     cost of all segments that have not been given back; the bound counts these,
 *            whole, so it is a bound on memory whatever order leases come back in
 *   start    the first byte that can be had; a full segment that ends before it has left the
 *            ring, and is given back at its last return
 *   behind   segments that have left the ring and are leased still
 *   standing a reader stands in the segment that holds its next byte, or ahead of them all
 *   stale    its next byte lies before start
 *   hungry   a reader that has read all that was published, into the last full segment's last
 *            byte, and asked for more: only a new segment can feed it
 *   claim    what a reader of a shared window may lease: one segment always, more while few
 *            are claimed
 *   blocked  the writer was refused: nothing more comes until something changes
 *   expected a reader that has not come yet, and will come for the first byte: it counts as one
 *            that stands there
 *   stuck    all that is held is leased, and a reader waits beside those that lease it
 *   in the way  the first segment that a reader stands in: no room comes before it is left
 *
 * What the writer may take away when there is no room is window_victim()'s to say.  Private to
 * storage/.
 */
#ifndef TARN_STORAGE_WINDOW_H
#define TARN_STORAGE_WINDOW_H

#include "storage/storage_priv.h"

#define WINDOW_SEG_MAGIC OBJ_TAG('w', 's', 'e', 'g')
struct window_seg {
    uint32_t magic;
    uint32_t leases;     /* not yet returned */
    uint32_t readers;    /* that stand in it */
    uint32_t room, used; /* bytes */
    bool forced;         /* past the store's limit */
    struct list link;    /* in window.ring, in order, or window.behind */
    uint64_t start;      /* offset in the object */
    char bytes[];
};

struct window {
    struct stobj base;
    struct stobj_fill fill;
    /* set once, except what stobj_expect() adds before anything is written */
    uint64_t bound, alone; /* cost of what may be held: in all; with one reader, or none */
    uint64_t first;        /* of alone, while a private object's reader has taken nothing */
    uint32_t claims_max;
    uint64_t length;
    uint32_t seg_size; /* with its head */
    unsigned patience; /* looks without progress until the slow may be left behind */
    bool grace;        /* they may not before stobj_expire_window() */
    pthread_mutex_t lock;
    /* the writer's */
    struct window_seg *filling; /* the last one while it has room; else NULL */
    /* under lock; start is also read without */
    _Atomic uint64_t start;
    uint64_t held;
    bool blocked;
    bool open;                             /* others are expected */
    bool expired;                          /* the slow may be left behind; until there was room */
    bool refused_room;                     /* the writer; until there was room */
    bool moved;                            /* a reader in the way, since the last look */
    unsigned looks;                        /* in a row, when it had not */
    uint32_t iters;                        /* iterators that are open */
    int32_t expected;                      /* below 0: so many have left untold */
    uint32_t standing, hungry, claims;     /* readers; readers; segments */
    struct list ring, behind;              /* of window_seg.link; the ring's oldest first */
    struct list ahead;                     /* of lease_place.link */
    struct list readers, refused, writers; /* waiters: for bytes, to return, for room */
};

static inline struct window *
window_of(const struct stobj *o)
{
    OBJ_CHECK(o, STOBJ_MAGIC);
    tassert(o->kind == STOBJ_PRIVATE || o->kind == STOBJ_SHARED);
    return (struct window *)((uintptr_t)o - offsetof(struct window, base));
}

static inline struct window_seg *
window_seg_of(struct list *link)
{
    struct window_seg *seg = container_of(link, struct window_seg, link);

    OBJ_CHECK(seg, WINDOW_SEG_MAGIC);
    return seg;
}

/* Past the last published byte, and past the last one it can hold. */
static inline uint64_t
window_seg_end(const struct window_seg *seg)
{
    return seg->start + seg->used;
}

static inline uint64_t
window_seg_full_end(const struct window_seg *seg)
{
    return seg->start + seg->room;
}

int window_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec);
void window_free(struct stobj *o);
int window_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w);
void window_space_extend(struct stobj *o, size_t used);
void window_space_cancel(struct stobj *o, struct waiter *w);
void window_settle(struct stobj *o, enum stobj_state to);
bool window_contains(struct stobj *o, const char *ptr, size_t len);
uint64_t window_start(const struct stobj *o);
void window_wake(struct stobj *o);
void window_shut(struct stobj *o);
bool window_expire(struct stobj *o);
bool window_expect(struct stobj *o, int32_t n, bool must);
void window_touch(struct stobj *o);
void window_lease_open(struct lease_iter *it);

/* ---- Between filling and reading, under lock ---- */

/* Moves start on to `to`, if it lies before it; what ends before start leaves the ring, is given
 * back, and a reader that stood there is stale. */
void window_advance(struct window *w, uint64_t to);
/* The last lease of a segment that has left the ring has been returned. */
void window_drop(struct window *w, struct window_seg *seg);
/* A segment may go now that could not before: a blocked writer looks again, if that is so. */
void window_unblock(struct window *w);
/* The bound has changed, or a caller asks for it: it looks again in any case. */
void window_wake_writer(struct window *w);
/* Readers, with those that are expected. */
static inline uint32_t
window_is_shared(const struct window *w)
{
    return w->iters + (w->expected > 0 ? (uint32_t)w->expected : 0);
}

/* Claims, with those of expected readers. */
static inline uint32_t
window_claims(const struct window *w)
{
    return w->claims + (w->expected > 0 ? (uint32_t)w->expected : 0);
}

/* Counts everything anew. */
bool window_check(struct window *w);
/* A new last segment: readers ahead with their next byte in it stand in it. */
void window_seat(struct window *w, struct window_seg *seg);

#endif
