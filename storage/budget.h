/* budget.h -- how many bytes a store may use, the evictor, and the waiters for room.
 *
 *   charge    bytes counted as in use, as the allocator really takes them
 *   leaf      the part of them that is for one thing: charge_table.h
 *   limit     the configured size; the promise
 *   headroom  the last 1/64 of it, at most 8 MiB, and of 64 MiB and more at least 4: passing
 *             into it calls the evictor, so that room is being made before a caller has to wait
 *   reserve   the last half of the headroom: for callers that cannot wait
 *   promised  bytes the evictor said will come back, and of which it has not said that they
 *             did, or that they still have readers
 *   wanted    bytes that the waiters have asked for, at least
 *
 * Private to storage/.  Knows numbers only: the memory itself is storage.c's.
 *
 * Threads: any.  `lock` is a leaf except for inbox_send(); no lock of storage's is held while
 * the evictor runs, nor may one be held by the caller of budget_charge().
 */
#ifndef TARN_STORAGE_BUDGET_H
#define TARN_STORAGE_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "storage/charge_table.h"

struct waiter;

enum budget_how {
    BUDGET_SPARE,    /* optional: leaves as much again as the headroom; never evicts */
    BUDGET_CAN_WAIT, /* stays out of the reserve; evicts */
    BUDGET_NO_WAIT,  /* may use the reserve; evicts */
    BUDGET_QUIET,    /* may use the reserve, for a moment; never evicts */
    BUDGET_FORCE,    /* is charged, come what may */
};

struct budget {
    _Atomic uint64_t limit, headroom, reserve; /* changed by budget_resize() only */
    /* set once */
    uint64_t (*evict)(void *ctx, uint64_t bytes);
    void *ctx;
    /* any thread */
    _Alignas(64) _Atomic uint64_t charged;
    _Atomic uint64_t promised, wanted;
    _Atomic uint64_t leaf[CHARGE_COUNT]; /* their sum is `charged`, while no thread changes them */
    _Atomic bool waited;                 /* `waiting` may have members */
    pthread_mutex_t lock;
    struct list waiting; /* under lock: of waiter.link */
};

void budget_init(struct budget *b, uint64_t limit);
/* No caller waits. */
void budget_fini(struct budget *b);

/* Another limit, of which nothing is charged yet, or no longer; one thread at a time.  What is
 * beyond it is evicted: of a limit that is much lower the caller makes steps. */
void budget_resize(struct budget *b, uint64_t limit);

/* 0; -ENOSPC: no room; -EAGAIN, to a caller that can wait: some was promised. */
int budget_charge(struct budget *b, enum charge what, uint64_t bytes, enum budget_how how);
/* `what` it was charged as. */
void budget_release(struct budget *b, enum charge what, uint64_t bytes);
/* For tests, and for the end: the leaves are the whole. */
bool budget_adds_up(const struct budget *b);

void budget_promise(struct budget *b, uint64_t bytes);
/* Of them so many have come, or will not come soon: the waiters look again. */
void budget_promise_kept(struct budget *b, uint64_t bytes);

/* Arms `w` (may be NULL) until something is released, or a promise is kept.  False: there is
 * room for `bytes` of a BUDGET_CAN_WAIT by now, or nothing is promised any more, and w was not
 * armed: try again. */
bool budget_wait(struct budget *b, uint64_t bytes, struct waiter *w);
void budget_cancel(struct budget *b, struct waiter *w);

#endif
