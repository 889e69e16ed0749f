/* date.h -- the three forms of an HTTP date (RFC 9110 5.6.7), strictly. */
#ifndef TARN_DATE_H
#define TARN_DATE_H

#include <stdint.h>

#include "daemon/base/span.h"

enum {
    HTTP_DATE_LEN = 29
}; /* "Sun, 06 Nov 1994 08:49:37 GMT", no NUL */

/* Seconds since 1970 into *out_s.  `now_s` decides the century of a two-digit year: one that
 * would lie more than 50 years ahead is the past's.  A week day that does not fit its date is
 * tolerated, as other implementations do; nothing else is.  0 or TERR_SYNTAX. */
int http_date_parse(struct slice text, int64_t now_s, int64_t *out_s);

/* `s` must lie in the years 0 to 9999. */
void http_date_format(int64_t s, char out[static HTTP_DATE_LEN]);

#endif
