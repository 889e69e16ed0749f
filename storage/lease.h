/* lease.h -- reading a stored body: bytes are leased, never copied.
 *
 *   extent   one run of bytes: pointer, length, lease id, flags
 *   lease    the right to read an extent until it is returned
 *   iterator one reader's position in one object; memory of the reader
 *
 * Leased bytes stay readable and unchanged until returned, whatever happens to the object:
 * purge, eviction, failed fetch.  They stay charged to the budget until then.
 *
 * lease_init borrows the object: another owner's reference, or the RCU turn in which it was
 * found, must keep it.  lease_hold turns that into a reference of the iterator's own; from
 * then on returns are legal after all others have dropped the object.  An iterator on an
 * object that is still being filled holds it from the start.
 *
 * On a settled object init, take, return and fini allocate nothing, lock nothing and write
 * nothing that another thread reads.
 *
 * Threads: an iterator belongs to one loop (the one its waiter names); the object to none.
 * Errors: negative errno, as the source of the idea has it (Varnish's VAI).
 */
#ifndef TARN_LEASE_H
#define TARN_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/span.h"

struct lease_fns;
struct stobj;
struct waiter;
struct window_seg;

#define LEASE_NO_RETURN UINT64_C(0) /* the id of a literal: returning it is not needed */
#define LEASE_ID_CALLER UINT64_C(7) /* low bits of an id that are the caller's to use */

enum lease_flag {
    LEASE_LAST = 1, /* the final extent of the asked range; may be absent, 0 decides */
};

struct lease_extent {
    const char *ptr;
    uint64_t id;  /* the engine's; a multiple of 8 */
    uint32_t len; /* > 0 */
    uint32_t flags;
};

struct lease_batch {
    struct lease_extent *extents; /* the caller's array */
    unsigned n, max;              /* lease_take appends at n */
};

struct lease_returns {
    const uint64_t *ids; /* low three bits are ignored, LEASE_NO_RETURN skipped */
    unsigned n;
};

/* Where a reader of a private or shared object stands; under that object's lock. */
enum lease_where {
    LEASE_OUT,   /* stale, at its end, or never let in: it needs nothing */
    LEASE_IN,    /* in the segment that holds its next byte */
    LEASE_AHEAD, /* that segment does not exist yet */
};
struct lease_place {
    struct list link;       /* AHEAD: in the object's list */
    struct window_seg *seg; /* IN */
    enum lease_where where;
    bool hungry;  /* AHEAD: counted as such */
    bool seated;  /* set at the start: it has a claim */
    bool refused; /* this loop's: waits for a return of its own */
};

/* Fixed size, in the caller's memory.  Private to storage/. */
#define LEASE_ITER_MAGIC 0x7265746cu /* "lter" */
struct lease_iter {
    uint32_t magic;
    uint32_t outstanding; /* leases not yet returned */
    const struct lease_fns *fns;
    struct stobj *obj;
    struct waiter *waiter; /* borrowed; NULL: the caller never waits */
    uint64_t off, end;     /* next byte to lease; first byte past the asked range */
    bool ended, holds;
    union {
        uint64_t priv[6]; /* the engine's */
        struct lease_place place;
    };
};

#define LEASE_TO_END UINT64_MAX

/* Starts at byte `off`, for `len` bytes or LEASE_TO_END.  Does not walk what lies before.
 * 0, or -EINVAL when `off` lies past the end of a settled object. */
int lease_init(
    struct lease_iter *it, struct stobj *o, uint64_t off, uint64_t len, struct waiter *w);

/* A settled body, or a part of it, that lies in one run of bytes needs no lease: a caller that
 * borrows the object, or has a reference, borrows the bytes with it.  True: *out is
 * [off, off + len).  False: it has to be leased. */
bool lease_borrow(const struct stobj *o, uint64_t off, uint64_t len, struct slice *out);

/* Never blocks.  Appends as many extents as the batch has room for (at least one slot is
 * required) and returns how many (> 0); 0 at the end of the asked range; or
 *   -EAGAIN   nothing more yet; the waiter is notified, once, when that changes
 *   -ENOBUFS  as -EAGAIN, and leases must be returned before more can be had
 *   -EPIPE    the fetch failed: what was delivered is truncated
 *   -ESTALE   the position is no longer held, or a shared object has readers enough: ask for it
 *             another way
 *   other     the engine's own failure
 * After -EAGAIN or -ENOBUFS the waiter is not IDLE, or has been notified already. */
int lease_take(struct lease_iter *it, struct lease_batch *b);

/* In any order, in any grouping, of leases of this iterator. */
void lease_return(struct lease_iter *it, const struct lease_returns *r);

/* Borrow becomes hold. */
void lease_hold(struct lease_iter *it);

/* Stop waiting.  A waiter already POSTED stays pending until it lands. */
void lease_cancel(struct lease_iter *it);

/* Every lease has been returned, and the waiter is IDLE or was cancelled. */
void lease_fini(struct lease_iter *it);

/* For code that may block (tests, tools), built on the calls above: hands every extent of
 * the object to `each` in order, waiting with `wait` (which must return only when the
 * waiter may have been notified).  0, what `each` returned when not 0, or an errno. */
int lease_each(struct stobj *o, uint64_t off, uint64_t len, struct waiter *w,
    void (*wait)(void *ctx), int (*each)(void *ctx, const char *ptr, size_t len), void *ctx);

#endif
