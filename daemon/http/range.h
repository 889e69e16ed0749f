/* range.h -- Range, Content-Range and multipart/byteranges (RFC 9110 14).
 *
 *   spec    one member of Range as it came: first-last, first-, or -suffix
 *   range   the bytes it means once the length is known: both ends included
 *   complete  the length of the whole representation
 *
 * Threads: none of its own.
 */
#ifndef TARN_RANGE_H
#define TARN_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

enum {
    RANGES_MAX = 16, /* members of one Range; with more it is ignored (RFC 9110 14.2) */
    RANGE_BOUNDARY_LEN = 24,
    RANGE_TEXT_MAX = 72,  /* "bytes 0-4/10" at its longest */
    RANGE_PART_MAX = 384, /* what range_part_head() writes at most, with a Content-Type cut off
                             at 200 bytes: then it is left out */
};
#define RANGE_UNKNOWN UINT64_MAX

struct range_spec {
    uint64_t first; /* RANGE_UNKNOWN: a suffix of `last` bytes */
    uint64_t last;  /* RANGE_UNKNOWN: to the end */
};

struct range {
    uint64_t first, last;
};

/* The specs of a Range value: how many; 0: ignore it (another unit, bad syntax, first > last,
 * too many, numbers above INT64_MAX). */
unsigned range_parse(struct slice value, struct range_spec specs[static RANGES_MAX]);
/* Those of a request: the only Range field of a GET, not nominated by Connection.  0: none, or
 * to be ignored. */
unsigned range_of_request(
    const struct http_message *req, struct range_spec specs[static RANGES_MAX]);

enum range_verdict {
    RANGE_OK,            /* out has 1 or more, as the client listed them */
    RANGE_WHOLE,         /* send all of it: abusive (many small overlapping ones) or all of it
                            would be sent anyway in more bytes */
    RANGE_UNSATISFIABLE, /* 416 */
};
/* Resolves specs for a representation of `complete` bytes.  Overlapping and adjacent ones are
 * merged where they stand next to each other in the list; when more than two overlap, or their
 * sum exceeds `complete`, the answer is RANGE_WHOLE (RFC 9110 14.2, CVE-2011-3192).  So it is
 * for the last bytes of nothing, which are satisfiable.  *nout is 0 except for RANGE_OK. */
enum range_verdict range_resolve(const struct range_spec *specs, unsigned nspecs, uint64_t complete,
    struct range out[static RANGES_MAX], unsigned *nout);

struct content_range {
    uint64_t first, last;
    uint64_t complete; /* RANGE_UNKNOWN: "*" */
};
/* "bytes 0-4/10": 0, or TERR_SYNTAX (also for "bytes * / 10", which no 206 has, and for a last
 * that is not below complete). */
int content_range_parse(struct slice value, struct content_range *out);
/* Writes "bytes 0-4/10"; complete RANGE_UNKNOWN writes "*".  The length. */
size_t content_range_write(const struct content_range *cr, char out[static RANGE_TEXT_MAX]);

/* What stands before one part's bytes: CRLF (except for the first part), boundary, Content-Type if
 * not empty, Content-Range, blank line.  The length. */
size_t range_part_head(struct slice boundary, bool first, struct slice content_type,
    const struct content_range *cr, char out[static RANGE_PART_MAX]);
/* What ends the body.  The length. */
size_t range_end(struct slice boundary, char out[static RANGE_PART_MAX]);
/* A boundary that no honest body has, from 128 random bits. */
void range_boundary(uint64_t a, uint64_t b, char out[static RANGE_BOUNDARY_LEN]);

#endif
