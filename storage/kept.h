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
    KEPT_SPLIT_WASTE = 4096,   /* less is not worth a second extent and a directory */
};

/* Pointers of the segments but the first.  Grows by copying; the old ones stay for the
 * streams until the fill goes. */
struct kept_dir {
    struct kept_dir *older; /* the writer's */
    uint32_t room;          /* of seg[]; set once */
    char *seg[];            /* [i] is segment i + 1; read no further than len says */
};

struct kept {
    struct stobj base;
    /* the writer's; then immutable.  Readers look once len says that there is something. */
    char *first;
    _Atomic(struct kept_dir *) dir; /* NULL: one segment */
    uint32_t plan_whole;            /* set once: planned segments of KEPT_SEG_MAX */
    uint32_t plan_tail[2];          /* set once: then these; 0: none */
    uint32_t last_room;             /* set when settled: the trimmed size of the last segment */
    char body[];                    /* embedded */
};
/* Part of what an object costs the cache: 180 bytes with its entry and its place in the index. */
_Static_assert(sizeof(struct kept) <= 80, "struct kept grew");

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

/* The last stream, or the writer, whoever goes last. */
void kept_fill_free(struct kept *k, struct kept_fill *f);

#endif
