/* freshness.h -- may this response be stored, for how long, and how do we know?
 *
 * The default meaning of RFC 9111 3 and 4.2 for a shared cache, without policy.  Times are
 * passed in; nothing here looks at a clock.
 *
 *   lifetime  how long after its creation the response is fresh
 *   age       how old it was when it arrived (RFC 9111 4.2.3)
 *   ttl       lifetime - age: how long from its arrival on it is fresh
 *   window    how long after the END of the ttl something is still allowed; windows are totals,
 *             each at least as long as the one before: grace <= error <= keep
 *   grace     may be served stale while one fetch refreshes it
 *   error     may be served stale when the origin cannot be reached
 *   keep      good for validation: asking the origin whether it still holds (RFC 9111 4.3)
 */
#ifndef TARN_FRESHNESS_H
#define TARN_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/message.h"

/* clang-format off */
/*    id, name for logs, what an operator reads */
#define FRESH_REFUSAL_TABLE(X)                                                                     \
    X(NONE, "stored", "it may be stored")                                                          \
    X(METHOD, "method", "only answers to GET are stored")                                          \
    X(INTERIM, "interim", "the status is not final")                                               \
    X(PARTIAL, "partial", "a partial response that does not match the request, or is not valid")   \
    X(NOT_MODIFIED, "not-modified", "a 304 updates a stored response, and is not stored itself")   \
    X(NO_STORE, "no-store", "Cache-Control says no-store")                                         \
    X(PRIVATE, "private", "Cache-Control says private")                                            \
    X(NO_CACHE, "no-cache", "Cache-Control says no-cache, and the response has no validator")      \
    X(REQ_NO_STORE, "request-no-store", "the request says Cache-Control: no-store")                \
    X(AUTHORIZATION, "authorization", "the request has Authorization, and the response does not allow storing") \
    X(VARY_STAR, "vary-star", "Vary: * matches no other request")                                  \
    X(NOT_UNDERSTOOD, "not-understood", "the status is not known")                                 \
    X(NO_FRESHNESS, "no-freshness", "it has no freshness information")                             \
    X(STALE, "stale", "it was stale when it arrived, and may not be served stale")                 \
    X(SET_COOKIE, "set-cookie", "it has Set-Cookie (store_set_cookie; with a policy builtin.vcl)") \
    /* not fresh_judge()'s: what else keeps a response out */                                      \
    X(POLICY, "policy", "the policy decided so: beresp.uncacheable, or return(pass(...))")         \
    X(TOO_LARGE, "too-large", "its body is larger than max_object_size")                           \
    X(NO_ROOM, "no-room", "there was no room for it, and eviction made none")                      \
    X(PEER, "peer", "the node of the fleet that owns its key does not keep it")

/*    id, name for logs, what the lifetime came from */
#define FRESH_ORIGIN_TABLE(X)                                                                      \
    X(NONE, "none", "nothing")                                                                     \
    X(TARGETED, "cdn-cache-control", "max-age or s-maxage of CDN-Cache-Control")                   \
    X(S_MAXAGE, "s-maxage", "s-maxage of Cache-Control")                                           \
    X(MAX_AGE, "max-age", "max-age of Cache-Control")                                              \
    X(EXPIRES, "expires", "Expires minus Date")                                                    \
    X(HEURISTIC, "heuristic", "heuristic_fraction of the time since Last-Modified")                \
    X(DEFAULT, "default", "the parameter default_ttl")                                             \
    X(POLICY, "policy", "the policy: it set beresp.ttl") /* not fresh_judge()'s */                 \
    X(ROUTE, "route", "the ttl of its route in the configuration")
/* clang-format on */

enum fresh_refusal {
#define X(id, name, text) FRESH_REFUSE_##id,
    FRESH_REFUSAL_TABLE(X)
#undef X
    FRESH_REFUSE_COUNT
};

enum fresh_origin { /* entries keep it in 4 bits */
#define X(id, name, text) FRESH_FROM_##id,
    FRESH_ORIGIN_TABLE(X)
#undef X
    FRESH_FROM_COUNT
};

enum fresh_cookies { /* may a response with Set-Cookie be stored? */
    FRESH_COOKIES_NEVER,
    FRESH_COOKIES_PUBLIC, /* if public, s-maxage or a targeted field says so */
    FRESH_COOKIES_ALWAYS,
};

struct fresh_params {
    int64_t default_ttl_ms;
    int64_t default_grace_ms;
    int64_t default_keep_ms;
    int64_t heuristic_max_ms;    /* 0: no freshness by Last-Modified */
    unsigned heuristic_fraction; /* percent of the time since Last-Modified */
    enum fresh_cookies cookies;
    bool ttl_said;   /* of a 2xx or a redirect ttl_ms stands for what it says of its freshness */
    int64_t ttl_ms;  /* from its arrival on */
    bool grace_said; /* the operator wrote default_grace: leave to serve stale (RFC 9111 4.2.4) */
    bool stale_by_s_maxage; /* stale-while-revalidate counts beside s-maxage: with a policy */
    struct slice surrogate; /* our name in Surrogate-Capability; may be empty */
};

/* What of the request counts. */
struct fresh_request {
    enum http_method method; /* the one sent to the origin: GET when a HEAD fetches */
    bool has_authorization;
    bool no_store;       /* the request's Cache-Control: no-store (RFC 9111 3) */
    bool range;          /* a single Range was sent, so that a 206 may be stored */
    int64_t sent_ms;     /* wall clock, milliseconds since 1970 */
    int64_t received_ms; /* when the response head was complete */
};

struct fresh_verdict {
    bool storable;
    enum fresh_refusal refusal; /* FRESH_REFUSE_NONE exactly when storable */
    enum fresh_origin origin;
    int64_t lifetime_ms;
    int64_t age_ms; /* >= 0, also when not storable */
    int64_t ttl_ms; /* lifetime_ms - age_ms, below 0 when it was stale on arrival; 0: no_cache */
    /* Windows, all from the end of the ttl; >= 0, also when not storable.  When storable,
     * ttl_ms + keep_ms > 0. */
    int64_t grace_ms;
    int64_t error_ms;          /* >= grace_ms */
    int64_t keep_ms;           /* >= error_ms, also when stale use is forbidden */
    int64_t stale_if_error_ms; /* for answers 500, 502, 503, 504 too (RFC 5861 4); -1: not said */
    bool must_revalidate;      /* never served stale, not even when the origin is down */
    bool no_cache;             /* said so, for all or some fields: each use needs validation */
    bool validatable;          /* has an ETag, quoted or not, or a Last-Modified that is a date */
};

/* FRESH_REFUSE_NONE, or why no response with this status to this request is one for the cache. */
enum fresh_refusal fresh_refuse_status(
    const struct http_message *resp, const struct fresh_request *req);
/* Always fills *v whole. */
void fresh_judge(const struct http_message *resp, const struct fresh_request *req,
    const struct fresh_params *params, struct fresh_verdict *v);

/* What a request asks of a cache (RFC 9111 5.2.1, RFC 5861 4).  Seconds: -1 when not said; a
 * max-stale without a number is CC_SECONDS_MAX. */
struct fresh_ask {
    bool any; /* something of what follows was said */
    bool no_cache, no_store, only_if_cached;
    int64_t max_age_s, min_fresh_s, max_stale_s, stale_if_error_s;
};

void fresh_ask_of(const struct http_message *req, struct fresh_ask *out);

/* The age of a response at its arrival, RFC 9111 4.2.3; >= 0. */
int64_t fresh_age_ms(const struct http_message *resp, int64_t sent_ms, int64_t received_ms);

const char *fresh_refusal_name(enum fresh_refusal r);
const char *fresh_refusal_text(enum fresh_refusal r);
const char *fresh_origin_name(enum fresh_origin o);
const char *fresh_origin_text(enum fresh_origin o);

#endif
