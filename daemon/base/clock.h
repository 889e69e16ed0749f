/* clock.h -- what time it is, as the loop read it at the start of this turn.
 *
 * Monotonic time is for deadlines, wall time for Date, Age and freshness.  Nothing above
 * net/ reads a clock: it is handed one.
 */
#ifndef TARN_CLOCK_H
#define TARN_CLOCK_H

#include <stdint.h>

struct clock {
    uint64_t mono_ms;
    int64_t wall_ms;    /* since the epoch */
    char http_date[32]; /* IMF-fixdate of wall_ms, 29 characters, RFC 9110 5.6.7 */
};

#endif
