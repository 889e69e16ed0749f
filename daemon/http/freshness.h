/* freshness.h -- may this response be stored, for how long, and how do we know?
 *
 * The default meaning of RFC 9111 3 and 4.2 for a shared cache, without policy.  Times are
 * passed in; nothing here looks at a clock.
 *
 *   lifetime  how long after its creation the response is fresh
 *   age       how old it was when it arrived (RFC 9111 4.2.3)
 *   ttl       lifetime - age: how long from its arrival on it is fresh
 *   grace     how long after the ttl it may be served stale while one fetch refreshes it
 *   keep      how long after ttl and grace it is good for revalidation only
 */
#ifndef TARN_FRESHNESS_H
#define TARN_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/head.h"

/* clang-format off */
/*    id, name for logs, what an operator reads */
#define FRESH_REFUSAL_TABLE(X)                                                                     \
    X(NONE, "stored", "it may be stored")                                                          \
    X(METHOD, "method", "only answers to GET are stored")                                          \
    X(INTERIM, "interim", "the status is not final")                                               \
    X(PARTIAL, "partial", "a part of a representation (206 or Content-Range)")                     \
    X(NOT_MODIFIED, "not-modified", "a 304 updates what is stored, and is not stored itself")      \
    X(NO_STORE, "no-store", "Cache-Control says no-store")                                         \
    X(PRIVATE, "private", "Cache-Control says private")                                            \
    X(NO_CACHE, "no-cache", "Cache-Control says no-cache: each use would need validation")         \
    X(REQ_NO_STORE, "request-no-store", "the request says Cache-Control: no-store")                \
    X(AUTHORIZATION, "authorization", "the request has Authorization, and nothing allows storing") \
    X(VARY_STAR, "vary-star", "Vary: * matches no other request")                                  \
    X(NOT_UNDERSTOOD, "not-understood", "must-understand, and the status is not known")            \
    X(NO_FRESHNESS, "no-freshness", "nothing says how long it stays fresh")                        \
    X(STALE, "stale", "it was stale when it arrived")

/*    id, name for logs, what the lifetime came from */
#define FRESH_ORIGIN_TABLE(X)                                                                      \
    X(NONE, "none", "nothing")                                                                     \
    X(TARGETED, "cdn-cache-control", "max-age or s-maxage of CDN-Cache-Control")                   \
    X(S_MAXAGE, "s-maxage", "s-maxage of Cache-Control")                                           \
    X(MAX_AGE, "max-age", "max-age of Cache-Control")                                              \
    X(EXPIRES, "expires", "Expires minus Date")                                                    \
    X(HEURISTIC, "heuristic", "a tenth of the time since Last-Modified")                           \
    X(DEFAULT, "default", "the parameter default_ttl")
/* clang-format on */

enum fresh_refusal {
#define X(id, name, text) FRESH_REFUSE_##id,
    FRESH_REFUSAL_TABLE(X)
#undef X
    FRESH_REFUSE_COUNT
};

enum fresh_origin {
#define X(id, name, text) FRESH_FROM_##id,
    FRESH_ORIGIN_TABLE(X)
#undef X
    FRESH_FROM_COUNT
};

struct fresh_params {
    int64_t default_ttl_ms;
    int64_t default_grace_ms;
    int64_t default_keep_ms;
};

/* What of the request counts. */
struct fresh_request {
    enum http_method method; /* the one sent to the origin: GET when a HEAD fetches */
    bool has_authorization;
    bool no_store;       /* the request's Cache-Control: no-store (RFC 9111 3) */
    int64_t sent_ms;     /* wall clock, milliseconds since 1970 */
    int64_t received_ms; /* when the response head was complete */
};

struct fresh_verdict {
    bool storable;
    enum fresh_refusal refusal; /* FRESH_REFUSE_NONE exactly when storable */
    enum fresh_origin origin;
    int64_t lifetime_ms;
    int64_t age_ms;            /* >= 0, also when not storable */
    int64_t ttl_ms;            /* lifetime_ms - age_ms; > 0 when storable */
    int64_t grace_ms, keep_ms; /* >= 0 */
    int64_t stale_if_error_ms; /* after the ttl (RFC 5861 4); -1: not said; 0: forbidden */
    bool must_revalidate;      /* never served stale, not even when the origin is down */
    bool no_cache;             /* said so, for all or some fields */
};

/* Always fills *v whole. */
void fresh_judge(const struct http_head *resp, const struct fresh_request *req,
    const struct fresh_params *params, struct fresh_verdict *v);

/* The age of a response at its arrival, RFC 9111 4.2.3; >= 0. */
int64_t fresh_age_ms(const struct http_head *resp, int64_t sent_ms, int64_t received_ms);

const char *fresh_refusal_name(enum fresh_refusal r);
const char *fresh_refusal_text(enum fresh_refusal r);
const char *fresh_origin_name(enum fresh_origin o);
const char *fresh_origin_text(enum fresh_origin o);

#endif
