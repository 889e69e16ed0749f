/* heartbeat.h -- tells the service manager's watchdog that this process lives: while its loops turn.
 *
 * That the management loop turns says little: clients are served by the workers.  Each of them counts
 * its turns and reports them once a second (worker.c), idle or not.  A worker that has reported
 * none since the last message to the watchdog is stuck, and the watchdog gets no further message.
 * The service manager waits for as long as WatchdogSec= says, ends the process with a core, and
 * starts it anew.
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
    struct notify *notify;     /* borrowed; NULL: there is no watchdog */
    struct counters *counters; /* borrowed */
    unsigned nworkers;
    bool said; /* that a worker is stuck */
    int64_t every_ms;
    uint64_t due_ms;
    uint64_t turns[LIMIT_WORKERS]; /* of each, at the last message to the watchdog */
};

/* Says so if the watchdog waits for less than a worker takes to tell. */
void heartbeat_open(
    struct heartbeat *p, struct notify *notify, struct counters *counters, unsigned nworkers);
/* From time to time, some times a second.  Workers that have ended are NULL. */
void heartbeat_look(struct heartbeat *p, struct worker *const *workers, uint64_t now_ms);

#endif
