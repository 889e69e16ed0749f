/* observer.h -- which clients ask for what, by the workers' logs: watched on demand only.
 *
 *   watch   from the first question on, until a minute after the last one
 *   window  what counts: each second that lies back counts a thirtieth less than the one after it
 *   share   of the requests of the window that were looked at: where more come than the observer has
 *           time for, it skips to the newest, and says so
 *
 * It asks the workers for nothing: it reads the Req records that they always write (shm/log_read.h).
 * Its cost is bounded, in time for each tick and in memory (topk.h); without a watch, it has none.
 *
 * Threads: the management loop's.
 */
#ifndef TARN_OBSERVER_H
#define TARN_OBSERVER_H

#include "daemon/admin/topk.h"
#include "daemon/shm/log.h"

struct loop;
struct observer; /* private to observer.c */

enum observer_of {
    OBSERVER_URL,
    OBSERVER_CLIENT,  /* its text is the 16 bytes of an address */
    OBSERVER_BACKEND, /* its text is 1 + the number in the registry, as uint16_t */
    OBSERVER_OF
};

/* Sums of a name; the first three are what one can ask for the most of. */
enum observer_by {
    OBSERVER_REQUESTS,
    OBSERVER_BYTES,  /* to clients */
    OBSERVER_MISSES, /* requests that could not be answered from the cache alone */
    OBSERVER_TIME,   /* microseconds of all requests */
    OBSERVER_BY = OBSERVER_TIME
};

enum {
    OBSERVER_ERRORS = 50, /* that are kept */
    OBSERVER_LINE_MAX = 256,
    OBSERVER_HOST_MAX = 64,
};

struct observer_seen {
    double watched_s; /* since the watch began */
    double window_s;  /* a sum divided by it is a rate per second */
    double share;     /* 0 to 1; and a rate divided by it that of all requests */
    double sums[TOPK_SUMS];
};

/* An answer that was none: a status of 500 and more, a request that could not be parsed, a response
 * that the client got only in part. */
struct observer_error {
    int64_t at_ms; /* wall clock, when it ended */
    struct shmlog_req_fixed fixed;
    unsigned line_len, host_len;
    char line[OBSERVER_LINE_MAX], host[OBSERVER_HOST_MAX];
};

/* Borrows all until observer_close().  TERR_NOMEM. */
int observer_open(
    struct observer **out, struct loop *loop, struct shmlog *const *logs, unsigned nlogs);
void observer_close(struct observer **op);

/* On demand: watches for a minute from now on, and looks at what has come.  TERR_NOMEM. */
int observer_ask(struct observer *o);
/* After that: the window's most; returns how many names are in `out`. */
unsigned observer_top(struct observer *o, enum observer_of of, enum observer_by by,
    struct topk_name *out, unsigned n, struct observer_seen *seen);
/* The i-th of the last errors, 0 the newest; borrowed for the turn.  NULL: there are no more. */
const struct observer_error *observer_nth_error(const struct observer *o, unsigned i);

#endif
