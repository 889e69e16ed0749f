/* heartbeat.h -- tells the service manager's watchdog that this process lives: while its loops turn.
 *
 * That the management loop turns says little: clients are served by the workers.  Each of them counts
 * its turns and tells once a second (worker.c), idle or not, so one that has told of none since the
 * watchdog was last told is stuck, and then it is not told again.  The service manager waits for
 * as long as WatchdogSec= says, ends the process with a core, and starts it anew.
 *
 * Threads: the main one.
 */
#ifndef TARN_HEARTBEAT_H
#define TARN_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"

struct counters;
struct notify;
struct worker;

struct heartbeat {
    struct notify *notify;     /* borrowed; NULL: nobody waits */
    struct counters *counters; /* borrowed */
    unsigned nworkers;
    bool said; /* that a worker is stuck */
    int64_t every_ms;
    uint64_t due_ms;
    uint64_t turns[LIMIT_WORKERS]; /* of each, when the watchdog was last told */
};

/* Says so if the watchdog waits for less than a worker takes to tell. */
void heartbeat_open(
    struct heartbeat *p, struct notify *notify, struct counters *counters, unsigned nworkers);
/* From time to time, some times a second.  Workers that have ended are NULL. */
void heartbeat_look(struct heartbeat *p, struct worker *const *workers, uint64_t now_ms);

#endif
