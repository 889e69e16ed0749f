/* timer.h -- deadlines that cost one store to move.
 *
 * A wheel of slots, each TIMER_TICK_MS wide (Varghese and Lauck 1987, scheme 6 with one
 * level).  A timer lies in the slot of its deadline, or in an earlier one: moving a
 * deadline later, or clearing it, only writes the field, and the wheel finds out when it
 * comes by.  So a connection that re-arms its idle deadline with every request pays no
 * list operation for it.  Deadlines are kept to one tick, late rather than early.
 *
 * Threads: one loop's.  Time is passed in; net/loop drives the wheel.
 */
#ifndef TARN_TIMER_H
#define TARN_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"

#define TIMER_TICK_MS 16u
#define TIMER_SLOTS   4096u /* a horizon of 65 s; what lies beyond is looked at again then */
#define TIMER_NEVER   UINT64_MAX
#define TIMER_PASSED  (UINT64_MAX - 1)

struct task;

/* Each idle connection has one: every byte counts. */
struct timer {
    struct list link;
    uint64_t deadline_ms; /* monotonic; TIMER_NEVER: not set; TIMER_PASSED: until it is set again */
    uint64_t slot_ms;     /* of the tick it lies under; TIMER_NEVER: under none */
    struct task *task;    /* borrowed: woken when the deadline passes */
};

struct timer_wheel {
    struct list slots[TIMER_SLOTS];
    uint64_t occupied[TIMER_SLOTS / 64]; /* a bit per slot that may hold timers */
    uint64_t tick;                       /* everything before it has been looked at */
    uint64_t wake_tick;                  /* when the loop's one timer is due; UINT64_MAX: never */
    void (*rearm)(struct timer_wheel *w, uint64_t at_ms); /* makes the loop look at that time */
};

void timer_wheel_init(
    struct timer_wheel *w, uint64_t now_ms, void (*rearm)(struct timer_wheel *w, uint64_t at_ms));
/* Wakes the tasks of every timer with a deadline at or before now_ms, and rearms. */
void timer_wheel_run(struct timer_wheel *w, uint64_t now_ms);

void timer_init(struct timer *t, struct task *task);
void timer_place(struct timer_wheel *w, struct timer *t); /* the slow half of timer_set */
/* Before its memory goes. */
void timer_unlink(struct timer *t);

/* Absolute, on the loop's monotonic clock. */
static inline void
timer_set(struct timer_wheel *w, struct timer *t, uint64_t deadline_ms)
{
    t->deadline_ms = deadline_ms;
    if (deadline_ms < t->slot_ms)
        timer_place(w, t);
}

static inline void
timer_clear(struct timer *t)
{
    t->deadline_ms = TIMER_NEVER;
}

static inline bool
timer_expired(const struct timer *t)
{
    return t->deadline_ms == TIMER_PASSED;
}

#endif
