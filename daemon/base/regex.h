/* regex.h -- regular expressions: PCRE2, compiled by its JIT, with limits.  The only home of
 * pcre2.h.
 *
 * Threads: a regex never changes, any number of threads may match with it at once; each thread has
 * match data and a JIT stack of its own, made on first use.
 */
#ifndef TARN_REGEX_H
#define TARN_REGEX_H

#include <stddef.h>

#include "daemon/base/span.h"

struct regex;

enum {
    REGEX_GROUPS_MAX = 10,     /* \0 to \9 */
    REGEX_MATCH_LIMIT = 10000, /* as Varnish's pcre2_match_limit */
    REGEX_DEPTH_LIMIT = 20     /* as pcre2_depth_limit */
};

/* 0 and a regex in *out; TERR_SYNTAX, `why` filled and *at the byte of the pattern; TERR_NOMEM. */
int regex_compile(struct regex **out, struct slice pattern, char *why, size_t why_size, size_t *at);
void regex_free(struct regex **rp);
/* 1, 0, or TERR_LIMIT: it took too long; TERR_NOMEM: a thread's first match. */
int regex_match(const struct regex *re, struct slice subject);
/* As above from byte `from` on, filling groups[0 .. *n - 1]; unset groups have .ptr NULL. */
int regex_groups(const struct regex *re, struct slice subject, size_t from,
    struct slice groups[REGEX_GROUPS_MAX], unsigned *n);
/* As regex_groups(), but an empty match is none: another way to match is sought there, or behind. */
int regex_groups_nonempty(const struct regex *re, struct slice subject, size_t from,
    struct slice groups[REGEX_GROUPS_MAX], unsigned *n);
/* "10.42", for --version */
const char *regex_version(void);

#endif
