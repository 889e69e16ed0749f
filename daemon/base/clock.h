/* clock.h -- what time it is, as the loop read it at the start of this turn.
 *
 * Monotonic time is for deadlines, wall time for Date, Age and freshness.  Nothing above
 * net/ reads a clock: it is handed one, except for clock_read_us(), which durations need.
 */
#ifndef TARN_CLOCK_H
#define TARN_CLOCK_H

#include <stdint.h>
#include <time.h>

struct clock {
    uint64_t mono_us; /* the latest reading in this turn */
    uint64_t mono_ms;
    int64_t wall_ms;    /* since the epoch */
    char http_date[32]; /* IMF-fixdate of wall_ms, 29 characters, RFC 9110 5.6.7 */
};

/* Reads it anew: when a request is over.  The next one of the turn began, for us, then. */
static inline uint64_t
clock_read_us(struct clock *c)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    c->mono_us = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
    return c->mono_us;
}

#endif
