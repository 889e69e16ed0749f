/* timer.c -- the wheel of deadlines. */
#include "daemon/base/timer.h"

#include "daemon/base/obj.h"
#include "daemon/base/waiter.h"

void
timer_wheel_init(
    struct timer_wheel *w, uint64_t now_ms, void (*rearm)(struct timer_wheel *w, uint64_t at_ms))
{
    *w = (struct timer_wheel){
        .tick = now_ms / TIMER_TICK_MS, .wake_tick = UINT64_MAX, .rearm = rearm};
    for (unsigned i = 0; i < TIMER_SLOTS; i++)
        list_init(&w->slots[i]);
}

void
timer_init(struct timer *t, struct task *task)
{
    *t = (struct timer){.deadline_ms = TIMER_NEVER, .slot_ms = TIMER_NEVER, .task = task};
    list_init(&t->link);
}

/* Before the memory goes: otherwise the wheel would come by a dead timer. */
void
timer_unlink(struct timer *t)
{
    list_del(&t->link);
    t->slot_ms = TIMER_NEVER;
    timer_clear(t);
}

/* The loop has one timer of its own, due at the first occupied tick: it moves only to earlier. */
static void
timer_wheel_wake_at(struct timer_wheel *w, uint64_t tick)
{
    if (tick >= w->wake_tick)
        return;
    w->wake_tick = tick;
    w->rearm(w, tick * TIMER_TICK_MS);
}

void
timer_place(struct timer_wheel *w, struct timer *t)
{
    /* Rounded up: a deadline is never early. */
    uint64_t tick = t->deadline_ms / TIMER_TICK_MS + 1;

    if (t->slot_ms != TIMER_NEVER)
        list_del(&t->link);
    t->slot_ms = TIMER_NEVER;
    if (t->deadline_ms == TIMER_NEVER)
        return;
    if (tick <= w->tick)
        tick = w->tick + 1;
    /* Beyond the horizon: it lies in the last slot, and is placed anew when the wheel comes
     * there. */
    if (tick >= w->tick + TIMER_SLOTS)
        tick = w->tick + TIMER_SLOTS - 1;
    t->slot_ms = tick * TIMER_TICK_MS;
    list_add_tail(&w->slots[tick % TIMER_SLOTS], &t->link);
    w->occupied[tick % TIMER_SLOTS / 64] |= UINT64_C(1) << (tick % 64);
    timer_wheel_wake_at(w, tick);
}

/* The first tick after `w->tick` with a slot that may contain a timer.
 * 64 slots at a look, so that an idle loop with a far deadline costs a few loads.
 * The bits may say "perhaps" for a timer that was moved or taken off: then a wake-up finds
 * nothing, and the bit is cleared. */
static uint64_t
timer_wheel_next(const struct timer_wheel *w)
{
    uint64_t tick = w->tick + 1, end = w->tick + TIMER_SLOTS;

    while (tick < end) {
        uint64_t bits = w->occupied[tick % TIMER_SLOTS / 64] >> (tick % 64);

        if (bits != 0)
            return tick + (uint64_t)__builtin_ctzll(bits);
        tick += 64 - tick % 64;
    }
    return UINT64_MAX;
}

/* The slot is emptied first, because timer_place() may put one of them into the same slot again. */
static void
timer_wheel_run_slot(struct timer_wheel *w, uint64_t tick, uint64_t now_ms)
{
    struct list due;

    list_init(&due);
    list_splice(&due, &w->slots[tick % TIMER_SLOTS]);
    w->occupied[tick % TIMER_SLOTS / 64] &= ~(UINT64_C(1) << (tick % 64));
    while (!list_empty(&due)) {
        struct timer *t = container_of(due.next, struct timer, link);

        list_del(&t->link);
        t->slot_ms = TIMER_NEVER;
        if (t->deadline_ms <= now_ms) {
            t->deadline_ms = TIMER_PASSED;
            task_wake(t->task);
        } else {
            timer_place(w, t); /* moved later since, or cleared */
        }
    }
}

/* In a task of the loop.  Tasks are only woken here, so none of them changes the wheel
 * meanwhile. */
void
timer_wheel_run(struct timer_wheel *w, uint64_t now_ms)
{
    uint64_t now_tick = now_ms / TIMER_TICK_MS;
    uint64_t first = w->tick + 1, next;

    w->wake_tick = 0; /* timers placed meanwhile do not rearm: done once, below */
    while ((next = timer_wheel_next(w)) <= now_tick) {
        w->tick = next;
        timer_wheel_run_slot(w, next, now_ms);
    }
    tassert(w->tick + 1 >= first);
    if (now_tick > w->tick)
        w->tick = now_tick;
    w->wake_tick = UINT64_MAX;
    next = timer_wheel_next(w);
    if (next != UINT64_MAX)
        timer_wheel_wake_at(w, next);
}
