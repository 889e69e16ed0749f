/* storage.h -- where bytes live: stores with a budget, objects, and filling them.
 *
 *   store   one configured engine with its size: `storage: main: {...}` in tarn.yaml
 *   object  one body or part of it: bytes in order, filled once by one writer
 *   settled finished: immutable, readers only
 *   private an object that is not kept: what its reader has returned is freed at once
 *   shared  one that is kept in part: the last bytes written, as many as its bound allows
 *   charge  bytes counted against the store's size, as the allocator really takes them
 *
 * storage/ knows bytes, not HTTP.  Reading is lease.h.
 *
 * Threads: everything here may be called by any loop, from a task.  One writer an object.
 * Errors: negative errno.
 */
#ifndef TARN_STORAGE_H
#define TARN_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "storage/charge_table.h"

struct conf_storage;
struct storage;
struct stobj;
struct waiter;

#define STOBJ_SIZE_UNKNOWN UINT64_MAX

enum stobj_kind {
    STOBJ_KEPT,    /* for the cache: bytes stay until the object goes */
    STOBJ_PRIVATE, /* one reader; at most transit_bytes unreturned */
    STOBJ_SHARED,  /* a window: many readers; what all of them have returned, or what is older
                    * than the bound allows, goes */
};

/* What a store counts.  A snapshot; taken without stopping any thread. */
struct storage_stats {
    uint64_t size;    /* the promise, bytes */
    uint64_t charged; /* in use now, bytes: the sum of the leaves */
    uint64_t leaf[CHARGE_COUNT];
    uint64_t objects;       /* alive now */
    uint64_t allocs, frees; /* ever */
    uint64_t failures;      /* -ENOSPC and -ENOMEM answered, ever */
    uint64_t waits;         /* -EAGAIN for space answered, ever */
};

/* 0 and a store owned by the caller in *out; -ENOMEM; -EINVAL: no such engine.  Borrows conf
 * until storage_close. */
int storage_open(struct storage **out, const struct conf_storage *conf);
/* No object is left. */
void storage_close(struct storage **sp);
void storage_get_stats(const struct storage *s, struct storage_stats *out);

/* The evictor makes room.  `evict` unlinks enough to give back `bytes`, if it can; it frees at
 * once, or promises what will come back soon (after a grace period, held by no reader).  Called
 * without locks of storage's, on the thread that needs room.  Set once. */
void storage_set_evictor(
    struct storage *s, uint64_t (*evict)(void *ctx, uint64_t bytes), void *ctx);
/* While some bytes are promised, a caller that needs no more than them waits, and nothing is
 * evicted for it.  So every promise is kept: by saying later that the bytes have come back, or that
 * they have not because they still have readers.  The waiters then look again.  Any thread,
 * RCU's too. */
void storage_promise(struct storage *s, uint64_t bytes);
void storage_promise_kept(struct storage *s, uint64_t bytes);

/* "jemalloc 5.3.0-...", for --version. */
const char *storage_allocator(void);

/* Raw charged memory, for heads, keys and tables.  NULL: no room even after evicting, or
 * no memory.  `size` and `what` are given back at free. */
void *storage_alloc(struct storage *s, size_t size, enum charge what);
void storage_free(struct storage *s, void *p, size_t size, enum charge what);
/* Memory that is not the store's, but that its size shall bound all the same: it was `from`
 * bytes, and is `to` bytes now.  Never refused; what is kept makes room. */
void storage_charge(struct storage *s, enum charge what, uint64_t from, uint64_t to);
/* Another size, in bytes, one step towards it: what is kept and is beyond it leaves.  False: not
 * there yet, call again in a moment.  One thread at a time, which the evictor may run on. */
bool storage_resize(struct storage *s, uint64_t size);
/* Pages that are not used, and have not been for a moment, go back to the kernel, the whole
 * process's; `all`: however short.  Some times a second, on whichever thread; without it only
 * further frees would do it. */
void storage_tidy(bool all);
/* What `size` bytes are charged as: the allocator's size class, and what it adds to that. */
size_t storage_good_size(const struct storage *s, size_t size);

/* An empty object, with one reference, owned by the caller.  size_hint: the body's length if
 * known, else STOBJ_SIZE_UNKNOWN.  transit_bytes: the bound of a private or a shared one (> 0),
 * else ignored.  0, -ENOMEM, -ENOSPC. */
int stobj_new(struct stobj **out, struct storage *s, enum stobj_kind kind, uint64_t size_hint,
    uint64_t transit_bytes);
/* A private one that holds little while its reader takes nothing: its writer is first_bytes ahead
 * at first, and further by twice of what has been taken, up to transit_bytes. */
int stobj_new_private(struct stobj **out, struct storage *s, uint64_t size_hint,
    uint64_t transit_bytes, uint64_t first_bytes);
/* A shared one.  Its writer runs alone_bytes ahead of a reader that is alone, as with a private
 * one; the whole window is for company, and, until it is shut, for readers that may come.  The slow
 * are not left behind at once, but when its writer has lost patience: in the stobj_expire_window()
 * that is the first (patience 0), or the last of so many in a row between which no reader that is
 * in the way has moved on. */
int stobj_new_shared(struct stobj **out, struct storage *s, uint64_t size_hint,
    uint64_t window_bytes, uint64_t alone_bytes, unsigned patience);
struct stobj *stobj_ref(struct stobj *o); /* returns o */
/* Takes *op.  Always legal; leased bytes stay.  An unfinished object that its writer drops
 * counts as failed: the writer's reference is the last but those of iterators, so an owner that
 * shares the object with a writer lets the writer call space_fail.  A waiter for space is
 * cancelled first. */
void stobj_unref(struct stobj **op);

enum stobj_state {
    STOBJ_FILLING,
    STOBJ_SETTLED,
    STOBJ_FAILED
};
enum stobj_state stobj_state(const struct stobj *o);
/* Published bytes so far; the whole length once settled. */
uint64_t stobj_len(const struct stobj *o);
/* The first byte that a new reader could have; past 0 once a private or shared object has let
 * go of some.  A snapshot: a reader that comes too late gets -ESTALE. */
uint64_t stobj_window_start(const struct stobj *o);
/* Do these bytes lie inside one segment of the object?  For tests that watch what goes to
 * the kernel; while no thread fills or trims it. */
bool stobj_contains(struct stobj *o, const char *ptr, size_t len);

/* The writer's calls.  One span outstanding at a time.
 *
 * space_get: room for at most `want` bytes (> 0) in *out, out->len > 0; it stays the writer's
 * until extend, and asking again without extending gives the same span.
 *   -EAGAIN   the waiter is woken when there may be room: readers are behind (private and shared
 *             objects; also: there is none), or evicted memory is on its way back.  w NULL: the
 *             caller asks again by itself
 *   -ENOSPC   nothing could be evicted: the caller goes on uncached
 *   -ENOMEM
 * space_reserve: room for the object's first `bytes`, so that space_get does not fail before
 * them; what is not used goes back at the end.  0, or as space_get; asked again it goes on.
 * space_extend: the first `used` bytes of the span (0 is legal) are published, with one
 * release store; readers that wait are notified.  The rest is the next span's beginning.
 * space_finish: no more bytes; trims what was not used.  space_fail: readers get what was
 * published, then -EPIPE.  err is kept for the log. */
int space_get(struct stobj *o, size_t want, struct span *out, struct waiter *w);
int space_reserve(struct stobj *o, uint64_t bytes, struct waiter *w);
void space_extend(struct stobj *o, size_t used);
void space_finish(struct stobj *o);
void space_fail(struct stobj *o, int err);
/* A writer that waits for space looks again, of whatever kind but a kept one.  Any thread. */
void stobj_wake_writer(struct stobj *o);
/* The writer was refused room, and has waited for a while.  True: it has lost patience, and the next
 * time that some hungry reader waits for it, the slow are left behind. */
bool stobj_expire_window(struct stobj *o);
/* So many more readers (below 0: fewer) will come for the first byte of a window, where none has
 * begun yet: each counts as one that stands there, until it comes.  Told before anything is written,
 * it makes room for them all. */
void stobj_expect(struct stobj *o, int32_t n);
/* One more, if its first byte is there, or to come, and it has a place; false: it has to go another
 * way.  So it is, too, while the writer waits for a slow reader. */
bool stobj_let_in(struct stobj *o);
/* One of those moves on, elsewhere. */
void stobj_touch_window(struct stobj *o);
/* No further reader is expected: a reader alone is treated as one of a private object. */
void stobj_shut_window(struct stobj *o);
/* Stop waiting for space: before the object is finished, failed or dropped.  A waiter
 * already POSTED stays pending until it lands. */
void space_cancel(struct stobj *o, struct waiter *w);

/* A synthetic body (engine synth): settled at once, a list of references to bytes that the
 * caller keeps until the object is gone.  Copies nothing but the list.  Appends. */
int stobj_synth_new(struct stobj **out, struct storage *synth);
/* As above; when the object goes, release(owner) is called, on any thread: what the bytes lie in. */
int stobj_synth_new_owned(
    struct stobj **out, struct storage *synth, void (*release)(void *owner), void *owner);
/* Empties it, to be filled anew; false: it still has other references, and nothing happened. */
bool stobj_synth_reset(struct stobj *o);
int stobj_synth_add(struct stobj *o, struct slice bytes);

#endif
