/* vary.h -- which requests a stored response answers (RFC 9111 4.1).
 *
 * A specification is built when a response is stored: for each name in its Vary, the value the
 * request had, in a normal form.  Matching compares another request with it.
 *
 * Normal forms: several lines of a field are one, with "," between; OWS at commas outside
 * quoted strings goes.  Accept-Language becomes its ranges in lower case, by falling weight and
 * then by name, unless it is malformed: then its bytes count.  Accept-Encoding becomes the subset of {br, gzip} the client takes, and
 * that is what the fetch must ask for (forward.h does).  A field that Connection nominates
 * was not forwarded, so it counts as absent.
 *
 * Where a stored body answers every Accept-Encoding, because it is unpacked for the clients that do not take
 * its coding, the specification says so (`forms`) in place of a value.
 *
 * The bytes of a specification are private; they need no alignment and may be stored anywhere.
 */
#ifndef TARN_VARY_H
#define TARN_VARY_H

#include <stdbool.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

enum {
    VARY_NAMES_MAX = 32,   /* names in one Vary; more is treated as "*" */
    VARY_SPEC_MAX = 16384, /* bytes of a specification; room for any ordinary one is 512 */
};

/* Subsets a client may take: bits. */
enum http_codings {
    HTTP_TAKES_GZIP = 1,
    HTTP_TAKES_BR = 2,
};

unsigned http_codings(const struct http_message *req);
/* What to send as Accept-Encoding: "br, gzip", "br", "gzip", or empty for nothing. */
struct slice http_codings_text(unsigned takes);

/* Does Vary have a "*" (or more names than we can hold, or what is no name)?  Then the
 * response answers no other request, and is not to be stored. */
bool vary_is_star(const struct http_message *resp);

/* Writes the specification into `out`: its length, 0 when the response does not vary,
 * or TERR_LIMIT.  With a "*" it becomes one that matches nothing.  `forms`: Accept-Encoding is of no matter. */
int vary_build(
    const struct http_message *resp, const struct http_message *req, bool forms, struct span out);

enum {
    VARY_FORMS_LEN = 4, /* what `forms` takes, in front of all else */
};

/* Was it built with `forms`? */
bool vary_has_forms(struct slice spec);
/* `forms` alone: of a response that varies by nothing else, or is compared with no other request. */
extern const char vary_forms_bytes[VARY_FORMS_LEN];

static inline struct slice
vary_forms(void)
{
    return slice_of(vary_forms_bytes, VARY_FORMS_LEN);
}

/* It is: it matches every request.  For a hit, which need not call vary_match() then. */
static inline bool
vary_is_forms(struct slice spec)
{
    uint32_t is, want;

    if (spec.len != VARY_FORMS_LEN)
        return false;
    memcpy(&is, spec.ptr, sizeof(is));
    memcpy(&want, vary_forms_bytes, sizeof(want));
    return is == want;
}

/* Does `req` select the response `spec` was built for?  An empty spec matches always, a
 * malformed one never. */
bool vary_match(struct slice spec, const struct http_message *req);

#endif
