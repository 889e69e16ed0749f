/* acme_problem.h -- problem documents (RFC 7807) as ACME servers answer them (RFC 8555 6.7).
 *
 * Their texts are a stranger's: bounded, and printable ASCII.  Threads: any.
 */
#ifndef TARN_ACME_PROBLEM_H
#define TARN_ACME_PROBLEM_H

#include "daemon/acme/acme.h"
#include "daemon/base/json.h"

struct acme_problem {
    char type[64]; /* without urn:ietf:params:acme:error: ; "" where there is none */
    char detail[512];
};

/* What `v` says; NULL and what is no problem document make an empty one. */
void acme_problem_read(const json_t *v, struct acme_problem *out);
/* What would be right; NULL: the type is none of ACME's. */
const char *acme_problem_advice(const char *type);
/* "TYPE: DETAIL; ADVICE" as the reason of a failure, and its type.  `status` is HTTP's; 0: it came in an
 * answer that was no error itself.  Returns TERR_UPSTREAM. */
int acme_problem_fail(struct acme_fail *f, const struct acme_problem *p, long status);

#endif
