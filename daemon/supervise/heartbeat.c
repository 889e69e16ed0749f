/* heartbeat.c -- do the workers' loops turn?
 *
 * Each worker counts the turns of its loop in a counter that is shared.  A sign of life goes to
 * the service manager only when every one of them has changed since the last sign, so one loop
 * that hangs is enough to have the process replaced.  Signs are sent a third of the watchdog's
 * time apart.
 */
#include "daemon/supervise/heartbeat.h"

#include <stddef.h>

#include "daemon/base/notify.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"

enum {
    TELL_MS = 1000,          /* a worker tells of its turns so often */
    WATCHDOG_MIN_MS = 3000,  /* a shorter one may end a process that is only busy */
    PULSES_PER_WATCHDOG = 3, /* sd_watchdog_enabled(3) wants two */
};

void
heartbeat_open(
    struct heartbeat *p, struct notify *notify, struct counters *counters, unsigned nworkers)
{
    int64_t watchdog_ms = notify_watchdog_ms(notify);

    *p = (struct heartbeat){.notify = watchdog_ms > 0 ? notify : NULL,
        .counters = counters,
        .nworkers = nworkers,
        .every_ms = watchdog_ms / PULSES_PER_WATCHDOG};
    if (p->notify != NULL && watchdog_ms < WATCHDOG_MIN_MS)
        elog(ELOG_WARN,
            "the watchdog waits %lld ms, and loops report each %d ms: give it WatchdogSec=%d or "
            "more",
            (long long)watchdog_ms, TELL_MS, WATCHDOG_MIN_MS / 1000);
}

static uint64_t
heartbeat_turns(const struct heartbeat *p, unsigned worker)
{
    return atomic_load_explicit(
        &counters_worker(p->counters, worker)->value[COUNTER_loop_turns], memory_order_relaxed);
}

/* The first worker with a loop that has not turned; nworkers: there is none. */
static unsigned
heartbeat_stuck(const struct heartbeat *p, struct worker *const *workers)
{
    unsigned i = 0;

    while (i < p->nworkers && (workers[i] == NULL || heartbeat_turns(p, i) != p->turns[i]))
        i++;
    return i;
}

/* Runs on the management loop, each second.  With a stuck worker `due_ms` stays in the past: the
 * look is repeated each time until that worker turns, or the service manager kills us. */
void
heartbeat_look(struct heartbeat *p, struct worker *const *workers, uint64_t now_ms)
{
    unsigned stuck;

    if (p->notify == NULL || now_ms < p->due_ms)
        return;
    stuck = heartbeat_stuck(p, workers);
    if (stuck < p->nworkers) { /* its report may only be late */
        if (p->due_ms > 0 && !p->said && now_ms > p->due_ms + TELL_MS) {
            elog(ELOG_ERROR,
                "worker %u: its loop does not turn: no sign of life is sent to the watchdog",
                stuck);
            p->said = true;
        }
        return;
    }
    for (unsigned i = 0; i < p->nworkers; i++)
        p->turns[i] = heartbeat_turns(p, i);
    p->said = false;
    p->due_ms = now_ms + (uint64_t)p->every_ms;
    notify_alive(p->notify);
}
