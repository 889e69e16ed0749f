/* cache_control.h -- the directives of Cache-Control (RFC 9111 5.2), Pragma, and targeted
 * fields (RFC 9213), as flags and seconds.
 *
 * Directives are matched without case, unknown ones are ignored.  White space around "=" is dropped
 * ("max-age = 1" is 1), and max-age, s-maxage and the stale-* of responses without "=" are ignored, both
 * as Varnish does.  What else is in doubt becomes the more careful reading: an argument that is no number counts as 0 (RFC 9111 4.2.1: treat as
 * stale), of two that disagree the smaller counts, what overflows is CC_SECONDS_MAX.
 */
#ifndef TARN_CACHE_CONTROL_H
#define TARN_CACHE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/message.h"

#define CC_SECONDS_MAX INT64_C(2147483648) /* 2^31, RFC 9111 1.2.2 */

/* clang-format off */
/*    id, name, argument: none, seconds, or a list of fields */
#define CC_TABLE(X)                                                                                \
    X(NO_STORE, "no-store", NONE)                                                                  \
    X(NO_CACHE, "no-cache", FIELDS)                                                                \
    X(PRIVATE, "private", FIELDS)                                                                  \
    X(PUBLIC, "public", NONE)                                                                      \
    X(MUST_REVALIDATE, "must-revalidate", NONE)                                                    \
    X(PROXY_REVALIDATE, "proxy-revalidate", NONE)                                                  \
    X(MUST_UNDERSTAND, "must-understand", NONE)                                                    \
    X(NO_TRANSFORM, "no-transform", NONE)                                                          \
    X(ONLY_IF_CACHED, "only-if-cached", NONE)                                                      \
    X(IMMUTABLE, "immutable", NONE)                                                                \
    X(MAX_AGE, "max-age", SECONDS)                                                                 \
    X(S_MAXAGE, "s-maxage", SECONDS)                                                               \
    X(MIN_FRESH, "min-fresh", SECONDS)                                                             \
    X(MAX_STALE, "max-stale", SECONDS)                                                             \
    X(STALE_WHILE_REVALIDATE, "stale-while-revalidate", SECONDS)                                   \
    X(STALE_IF_ERROR, "stale-if-error", SECONDS)
/* clang-format on */

enum cc_directive {
#define X(id, name, argument) CC_##id,
    CC_TABLE(X)
#undef X
    CC_COUNT
};
enum {
    CC_FIRST_SECONDS = CC_MAX_AGE
};

struct cache_control {
    uint32_t set;    /* CC_BIT of every directive that came */
    uint32_t fields; /* CC_BIT of no-cache or private, when every one came with field names */
    int64_t seconds[CC_COUNT - CC_FIRST_SECONDS]; /* see cc_seconds() */
    bool present; /* the field came (the targeted one: and was valid) */
};

#define CC_BIT(directive) (UINT32_C(1) << (directive))

static inline bool
cc_has(const struct cache_control *cc, enum cc_directive d)
{
    return (cc->set & CC_BIT(d)) != 0;
}

/* 0..CC_SECONDS_MAX, or -1 when the directive did not come.  A max-stale without a number is
 * CC_SECONDS_MAX: any staleness will do (RFC 9111 5.2.1.2). */
static inline int64_t
cc_seconds(const struct cache_control *cc, enum cc_directive d)
{
    return cc_has(cc, d) ? cc->seconds[d - CC_FIRST_SECONDS] : -1;
}

struct slice cc_name(enum cc_directive d); /* "max-age" */

/* All Cache-Control fields of `h`. */
void cc_parse_response(const struct http_message *h, struct cache_control *cc);
/* The same, and "Pragma: no-cache" when there is no Cache-Control (RFC 9111 5.4). */
void cc_parse_request(const struct http_message *h, struct cache_control *cc);
/* CDN-Cache-Control, a structured dictionary.  cc->present stays false when it is absent,
 * empty or not valid: then it must be ignored (RFC 9213 2.1). */
void cc_parse_targeted(const struct http_message *h, struct cache_control *cc);
/* Surrogate-Control (Edge Architecture Specification 1.0, 2.2), which RFC 9213 replaces: the same
 * directives, except those that name another surrogate than `us`.  cc->present: there were
 * some. */
void cc_parse_surrogate(const struct http_message *h, struct slice us, struct cache_control *cc);

#endif
