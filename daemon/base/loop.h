/* loop.h -- what a loop is to code that never sees libuv.
 *
 * Everything above net/ is handed one of these: where to queue tasks, where posts arrive,
 * what time it is, where deadlines hang.  net/loop.c makes real ones; a unit test fills one
 * in by hand.
 *
 * Threads: one thread's, except `inbox`, which any thread may send to.
 */
#ifndef TARN_LOOP_H
#define TARN_LOOP_H

#include "daemon/base/arena.h"
#include "daemon/base/clock.h"
#include "daemon/base/timer.h"
#include "daemon/base/usage.h"
#include "daemon/base/waiter.h"

/* Something to be done before the thread next polls: when the turn's last task has run. */
struct turn_end {
    void (*run)(struct turn_end *end);
};

struct loop {
    struct task_queue tasks;
    struct inbox inbox;
    struct timer_wheel wheel;
    struct clock clock;
    struct usage usage; /* what its traffic has of the heap */
    struct arena_pool arenas;
    struct turn_end *turn_end; /* borrowed; NULL: nothing.  Run once, and set to NULL before */
    struct task *next_turn;    /* borrowed; NULL: none.  Woken once others have had their turn */
    unsigned id;               /* 0 .. workers - 1 */
};

static inline uint64_t
loop_deadline(const struct loop *l, int64_t after_ms)
{
    return l->clock.mono_ms + (uint64_t)after_ms;
}

#endif
