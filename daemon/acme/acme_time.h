/* acme_time.h -- when a certificate is renewed, and when a failure is tried again: arithmetic only.
 *
 * Times are seconds since 1970, randomness is passed in.  Threads: any.
 */
#ifndef TARN_ACME_TIME_H
#define TARN_ACME_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    ACME_STAMP_SIZE = sizeof("2026-11-23T11:00:00Z"),
    ACME_BACKOFF_LEAST_S = 10 * 60,
    ACME_BACKOFF_MOST_S = 24 * 3600,
    ACME_ARI_LEAST_S = 60, /* RFC 9773 4.3.2: bounds for what the server wants */
    ACME_ARI_MOST_S = 24 * 3600,
    ACME_ARI_ELSE_S = 6 * 3600,                /* where it names no Retry-After */
    ACME_RETRY_MOST_S = 31 * 86400,            /* a server that wants more is not believed */
    ACME_WAIT_MOST_S = ACME_RETRY_MOST_S + 60, /* what acme_backoff() returns is no more */
};

/* RFC 3339, in UTC: "2026-11-23T11:00:00Z". */
void acme_stamp(char out[static ACME_STAMP_SIZE], int64_t s);
/* Reads RFC 3339 with any offset; fractions are cut.  0, or TERR_SYNTAX. */
int acme_stamp_read(struct slice text, int64_t *out_s);

/* The value of a Retry-After field (RFC 9110 10.2.3) as seconds from now, 0 to ACME_RETRY_MOST_S.
 * -1: it is neither a number nor a date. */
int64_t acme_retry_after(struct slice value, int64_t now_s);

/* A certificate's life, and what the CA suggests (RFC 9773). */
struct acme_life {
    int64_t not_before_s, not_after_s;
    bool suggested;             /* start and end are the CA's window */
    int64_t start_s, end_s;     /* start < end */
    int64_t chosen_s;           /* of the window, chosen earlier; 0: not yet */
    unsigned renew_before_days; /* the operator's; 0: none */
};

/* A moment of the window, uniformly by `random` (RFC 9773 4.2). */
int64_t acme_choose(int64_t start_s, int64_t end_s, uint32_t random);
/* When it is renewed: the chosen moment of the window, else when a third of its life is left, earlier
 * where the operator wants it, and never later than a tenth of its life before the end. */
int64_t acme_renew_at(const struct acme_life *life);

/* How long after failure number `failures` (from 1) the next attempt waits: 10 minutes doubled each
 * time, a day at most, by a quarter more or less by `random`; and never less than the server's
 * Retry-After (-1: none). */
int64_t acme_backoff(unsigned failures, int64_t retry_after_s, uint32_t random);
/* Is `until_s`, a moment that was written down `most_s` before it at most, still to come?  One that is further off was
 * written by a clock that was ahead, and counts for nothing. */
bool acme_is_ahead(int64_t until_s, int64_t now_s, int64_t most_s);
/* When renewal information is requested again: the server's Retry-After (-1: none) within bounds. */
int64_t acme_ari_pause(int64_t retry_after_s);

/* "3d 4h", "2m 10s"; of what lies behind, without a sign. */
void acme_span_text(char out[static 32], int64_t s);

#endif
