/* language.h -- Accept-Language, for Vary (RFC 9110 12.5.4, RFC 4647 2.1).
 *
 *   range   a language range: "en", "de-AT", "*"
 *   weight  its q-value in thousandths
 *
 * Threads: none of its own.  Slices are borrowed from the head they came from.
 */
#ifndef TARN_LANGUAGE_H
#define TARN_LANGUAGE_H

#include "daemon/base/span.h"
#include "daemon/http/message.h"

enum {
    LANGUAGE_MAX = 32,         /* members of one request; browsers send up to a dozen */
    LANGUAGE_WEIGHT_ONE = 1000 /* q=1, and no q */
};

struct language {
    struct slice range;
    unsigned weight;
};

/* The ranges of all Accept-Language lines that go on, by falling weight, then by range without
 * case; what comes twice with the same weight counts once.  How many, TERR_SYNTAX for a
 * malformed member, or TERR_LIMIT for too many. */
int language_ranges(const struct http_message *req, struct language out[static LANGUAGE_MAX]);

#endif
