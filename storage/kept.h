/* kept.h -- objects of engine malloc that stay: segments, a directory, readers without locks.
 *
 *   segment    one allocation of body bytes, at most KEPT_SEG_MAX
 *   plan       the sizes of the segments, computed from the length that was announced:
 *              whole MiBs, then what is left in one or two pieces at class borders
 *   growth     segments behind the plan: 16 KiB, doubling to 1 MiB
 *   embedded   the planned bytes lie in the object's own allocation
 *   stream     an iterator on an object that is still FILLING
 *
 * Where a segment begins follows from plan and growth by arithmetic, so the directory holds
 * pointers only and a range starts anywhere in O(1).  Private to storage/.
 */
#ifndef TARN_STORAGE_KEPT_H
#define TARN_STORAGE_KEPT_H

#include "storage/storage_priv.h"

#define KEPT_SEG_MAX  (UINT32_C(1) << 20)
#define KEPT_GROW_MIN (UINT32_C(16) << 10)
enum {
    KEPT_GROW_DOUBLINGS = 6,   /* 16 KiB << 6 is 1 MiB */
    KEPT_EMBED_MAX = 14 << 10, /* jemalloc's largest class below a page run */
    KEPT_EMBED_WASTE = 16,     /* less is not worth a second allocation */
    KEPT_SPLIT_WASTE = 4096,   /* less is not worth a second extent and a directory */
};

/* Pointers of the segments, where there is more than one.  Grows by copying; the old ones stay for
 * the streams until the fill goes. */
struct kept_dir {
    struct kept_dir *older; /* the writer's */
    uint32_t room;          /* of seg[]; set once */
    char *seg[];            /* read no further than len says */
};

/* In one word.  Tails are multiples of KEPT_TAIL_UNIT, as all classes of the allocator are. */
enum {
    KEPT_TAIL_UNIT = 8
};
struct kept_plan {
    uint64_t whole : 27; /* segments of KEPT_SEG_MAX */
    uint64_t tail0 : 18; /* then these; 0: none */
    uint64_t tail1 : 18;
    uint64_t embedded : 1;
};
_Static_assert(MEM_SIZE_MAX / KEPT_SEG_MAX < 1 << 27, "a plan has room for any length");

/* How the last segment was trimmed when the object settled: stobj.own. */
enum kept_trim {
    KEPT_AS_PLANNED,
    KEPT_TRIMMED_LARGE, /* where it stands: to the class of what is used, or MEM_LARGE_MIN */
    KEPT_MOVED,         /* to a home of the class of what is used */
};

struct kept {
    struct stobj base;
    /* 0: none; the address of the only segment; or that of the directory plus 1.  The writer's, then
     * immutable.  Readers look once len says that there is something. */
    _Atomic uintptr_t segs;
    struct kept_plan plan; /* set once */
    char body[];           /* embedded */
};
/* A class of the allocator's, and part of what each object costs. */
_Static_assert(sizeof(struct kept) == 48, "struct kept grew");

/* Of `segs`; NULL: there is no directory. */
static inline struct kept_dir *
kept_dir_of(uintptr_t segs)
{
    return (segs & 1) != 0 ? (struct kept_dir *)(segs - 1) : NULL;
}

/* For the writer, and behind it. */
static inline struct kept_dir *
kept_dir(const struct kept *k)
{
    return kept_dir_of(atomic_load_explicit(&k->segs, memory_order_relaxed));
}

/* Only while the object is FILLING, and as long as a stream is left. */
struct kept_fill {
    struct stobj_fill base;
    /* the writer's */
    uint32_t nsegs;
    uint64_t room; /* of all of them: where the next one will begin */
    /* any thread */
    _Atomic bool waited; /* `streams_waiting` may have members */
    /* under the object's stripe */
    unsigned streams;
    struct list streams_waiting;
};

/* Which segment holds byte `off`, and where that segment lies in the object. */
struct kept_place {
    uint64_t start;
    uint32_t index, room;
};

struct kept_place kept_locate(const struct kept *k, uint64_t off);
/* Of a segment in which something is published. */
char *kept_seg(const struct kept *k, uint32_t index);

int kept_new(struct stobj **out, struct storage *s, const struct stobj_spec *spec);
void kept_free(struct stobj *o);
int kept_space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w);
int kept_space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w);
void kept_space_extend(struct stobj *o, size_t used);
void kept_space_cancel(struct stobj *o, struct waiter *w);
void kept_settle(struct stobj *o, enum stobj_state to);
bool kept_contains(struct stobj *o, const char *ptr, size_t len);
void kept_lease_open(struct lease_iter *it);
bool kept_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out);

/* The last stream, or the writer, whichever goes last. */
void kept_fill_free(struct kept *k, struct kept_fill *f);

#endif
