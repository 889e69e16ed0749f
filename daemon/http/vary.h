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
 * its coding, the specification says so (`forms`) in place of a value.  Beside it there may be the same body
 * in other codings (recoded), each only for the clients that take that one.
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

/* Does Vary have a "*" (or more names than we can hold, or what is no name)?  Then the
 * response answers no other request, and is not to be stored. */
bool vary_is_star(const struct http_message *resp);

/* Writes the specification into `out`: its length, 0 when the response does not vary,
 * or TERR_LIMIT.  With a "*" it becomes one that matches nothing.  `forms`: Accept-Encoding is of no matter. */
int vary_build(
    const struct http_message *resp, const struct http_message *req, bool forms, struct span out);

enum {
    VARY_FORMS_LEN = 4,   /* what `forms` takes, in front of all else */
    VARY_RECODED_LEN = 8, /* and what takes its place */
};

/* Was it built with `forms`, or made of one that was? */
bool vary_has_forms(struct slice spec);
/* What is known of a recoded one.  `form`: one of enum http_forms; 0: it is none. */
struct vary_recoding {
    unsigned form;
    bool best;      /* as short as we can make it */
    uint32_t saved; /* bytes that it is shorter than what it was made of */
    const char *
        hash; /* HTTP_FORM_DCZ: its dictionary, DICTIONARY_HASH_LEN bytes; borrowed from the specification */
};
/* `spec`, which has `forms`, for the same body in that form alone: its length, or TERR_LIMIT. */
int vary_recode(struct slice spec, const struct vary_recoding *to, struct span out);
struct vary_recoding vary_recoded(struct slice spec);
/* Is a response with the second one of no use beside a newer one with the first? */
bool vary_supersedes(struct slice newer, struct slice older);
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
