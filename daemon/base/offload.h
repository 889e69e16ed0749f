/* offload.h -- a few threads that run what must not block a loop.
 *
 *   job      one piece of such work: a call of run(), on one of the threads
 *   offload  a fixed set of threads and the jobs that wait for them, oldest first
 *
 * A job that was taken runs exactly once, unless offload_cancel() says that it never will.  The job is the
 * caller's memory.  With `done` it stays until that waiter is IDLE again; without, run() may free it.
 *
 * An offload without threads is for unit tests: offload_run_one() runs its jobs by hand.
 *
 * Threads: offload_submit() and offload_cancel() are for any thread, from run() too.  The threads have all
 * signals blocked, and are not registered with RCU: run() reads nothing that RCU protects.
 * Errors: TERR_*.  What a job found out, it leaves in its own memory.
 */
#ifndef TARN_OFFLOAD_H
#define TARN_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/waiter.h"

struct offload;

enum {
    OFFLOAD_THREADS_MAX = 64,
    /* Work that waits longer than its client does is of no use: at 1 ms each, what is behind a
     * thousand others comes a second late. */
    OFFLOAD_QUEUE_MAX = 1024,
};

struct job {
    void (*run)(struct job *j);
    struct waiter
        *done; /* borrowed: IDLE when it is submitted, notified when it has run; NULL: none */
    /* the offload's */
    struct list link;    /* while it waits; next is NULL: it does not */
    struct list waiting; /* of the one waiter */
};

struct offload_stats {
    uint64_t run;     /* jobs so far */
    uint64_t refused; /* with TERR_LIMIT */
    unsigned queued, running;
};

/* `niceness` is added to the process's (nice(2)); 0 to 19.  Start-up, and not from a loop: returns when all
 * threads run and have made their first allocation (heap.h).  TERR_NOMEM: no memory, or no thread. */
int offload_open(struct offload **out, unsigned nthreads, int niceness);
/* Runs what still waits, and ends the threads.  Blocks; nothing may be submitted any more, except by jobs. */
void offload_close(struct offload **op);

static inline void
job_init(struct job *j, void (*run)(struct job *j), struct waiter *done)
{
    j->run = run;
    j->done = done;
    j->link.next = NULL;
}

/* 0: it will run, and `done` is ARMED.  TERR_LIMIT: too many wait, nothing has changed. */
int offload_submit(struct offload *o, struct job *j);
/* True: it has not run and never will, and `done` is IDLE.  False: it runs or has run, and `done` is
 * notified, or was.  Only for jobs with a `done`: others may be gone already. */
bool offload_cancel(struct offload *o, struct job *j);

/* Runs the oldest job on this thread.  False: none waits.  For offloads without threads. */
bool offload_run_one(struct offload *o);

void offload_stats(struct offload *o, struct offload_stats *out);

#endif
