/* why.h -- what a request for a URL would come to now, and why; what is stored, and why not.
 *
 * A synthetic request is asked through the policy's own code, the cache's own choice and the
 * words that were noted when a response was judged: nothing is judged here a second time.
 *
 * Threads: the management thread, online for RCU.  Errors: TERR_*.
 */
#ifndef TARN_WHY_H
#define TARN_WHY_H

#include "daemon/base/json.h"
#include "daemon/base/span.h"

struct policies;

enum {
    WHY_FIELDS_MAX = 32,   /* of a request that is asked about */
    WHY_INCLUDES_MAX = 64, /* of a page, at all depths */
    WHY_LEVELS_MAX = 5,
};

struct why_field {
    struct slice name, value;
};

/* GET `url`, with these fields.  0 and an object in *out, owned by the caller; TERR_SYNTAX: *why;
 * TERR_NOMEM. */
int policies_why(struct policies *ps, struct slice url, const struct why_field *fields,
    unsigned nfields, json_t **out, const char **why);

#endif
