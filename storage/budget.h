/* budget.h -- how many bytes a store may use, who makes room, and who waits for it.
 *
 *   charge    bytes counted as in use, as the allocator really takes them
 *   limit     the configured size; the promise
 *   headroom  the last 1/64 of it, at most 2 MiB: passing into it calls the evictor, so
 *             that room is being made before anybody has to wait
 *   reserve   the last quarter of the headroom: for those who cannot wait
 *   promised  bytes the evictor said will come back, and which have not yet
 *
 * Private to storage/.  Knows numbers only: the memory itself is storage.c's.
 *
 * Threads: any.  `lock` is a leaf but for inbox_send(); no lock of storage's is held while
 * the evictor runs, nor may one be held by who calls budget_charge().
 */
#ifndef TARN_STORAGE_BUDGET_H
#define TARN_STORAGE_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"

struct waiter;

enum budget_how {
    BUDGET_CAN_WAIT, /* stays out of the reserve; evicts */
    BUDGET_NO_WAIT,  /* may use the reserve; evicts */
    BUDGET_QUIET,    /* may use the reserve, for a moment; never evicts */
    BUDGET_FORCE,    /* is charged, come what may */
};

struct budget {
    /* set once */
    uint64_t limit, headroom, reserve;
    uint64_t (*evict)(void *ctx, uint64_t bytes);
    void *ctx;
    /* any thread */
    _Alignas(64) _Atomic uint64_t charged;
    _Atomic uint64_t promised;
    _Atomic bool waited; /* `waiting` may have members */
    pthread_mutex_t lock;
    struct list waiting; /* under lock: of waiter.link */
};

void budget_init(struct budget *b, uint64_t limit);
/* Nobody waits. */
void budget_fini(struct budget *b);

/* 0; -ENOSPC: no room; -EAGAIN, to who can wait: the evictor promised some. */
int budget_charge(struct budget *b, uint64_t bytes, enum budget_how how);
void budget_release(struct budget *b, uint64_t bytes);

/* Arms `w` (may be NULL) until something is released.  False: there is room for `bytes` of
 * a BUDGET_CAN_WAIT by now, w was not armed: try again. */
bool budget_wait(struct budget *b, uint64_t bytes, struct waiter *w);
void budget_cancel(struct budget *b, struct waiter *w);
/* All who wait look again. */
void budget_notify(struct budget *b);

#endif
