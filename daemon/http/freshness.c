/* freshness.c -- the judgement over a response: store it or not, and for how long. */
#include "daemon/http/freshness.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/conditional.h"
#include "daemon/http/date.h"
#include "daemon/http/range.h"
#include "daemon/http/token.h"
#include "daemon/http/vary.h"

static const struct {
    const char *name, *text;
} fresh_refusals[FRESH_REFUSE_COUNT] =
    {
#define X(id, name, text) [FRESH_REFUSE_##id] = {name, text},
        FRESH_REFUSAL_TABLE(X)
#undef X
},
  fresh_origins[FRESH_FROM_COUNT] = {
#define X(id, name, text) [FRESH_FROM_##id] = {name, text},
      FRESH_ORIGIN_TABLE(X)
#undef X
};

const char *
fresh_refusal_name(enum fresh_refusal r)
{
    tassert((unsigned)r < FRESH_REFUSE_COUNT);
    return fresh_refusals[r].name;
}

const char *
fresh_refusal_text(enum fresh_refusal r)
{
    tassert((unsigned)r < FRESH_REFUSE_COUNT);
    return fresh_refusals[r].text;
}

const char *
fresh_origin_name(enum fresh_origin o)
{
    tassert((unsigned)o < FRESH_FROM_COUNT);
    return fresh_origins[o].name;
}

const char *
fresh_origin_text(enum fresh_origin o)
{
    tassert((unsigned)o < FRESH_FROM_COUNT);
    return fresh_origins[o].text;
}

/* The only field `id` as a date; false when there is none, several, or not a date. */
static bool
fresh_date(const struct http_message *h, enum http_field_id id, int64_t now_s, int64_t *out_s)
{
    struct slice value = http_get_one(h, id);

    return value.ptr != NULL && http_date_parse(value, now_s, out_s) == 0;
}

/* The first member of the first Age, in seconds; what is no number is ignored (RFC 9111 5.1). */
static int64_t
fresh_age_field(const struct http_message *resp)
{
    const struct http_field *f = http_find(resp, HTTP_F_AGE, NULL);
    struct http_list_iter it;
    struct slice first;
    uint64_t n;
    int err;

    if (f == NULL)
        return 0;
    http_list_init(&it, http_value(resp, f));
    if (!http_list_next(&it, &first))
        return 0;
    err = http_parse_decimal(first, &n);
    if (err == TERR_SYNTAX)
        return 0;
    return err < 0 || n > (uint64_t)CC_SECONDS_MAX ? CC_SECONDS_MAX : (int64_t)n;
}

/* RFC 9111 4.2.3's corrected_age_value: Age, and the whole time that the request took.  Date is not compared with our
 * clock: one that is an hour ahead, ours or that of a cache without Age, would make all that is fresh for less stale. */
int64_t
fresh_age_ms(const struct http_message *resp, int64_t sent_ms, int64_t received_ms)
{
    int64_t delay_ms = received_ms > sent_ms ? received_ms - sent_ms : 0; /* clocks jump back */

    return fresh_age_field(resp) * 1000 + delay_ms;
}

/* Statuses with cache rules that we know (RFC 9111 5.2.2.3): registered, and without rules
 * that we do not implement (226 is a delta, 304 is never stored, 206 only when asked for). */
static bool
fresh_understands(unsigned status, const struct fresh_request *req)
{
    if (status == 226 || status == 304 || (status == 206 && !req->range))
        return false;
    return strcmp(http_reason(status), "Unknown") != 0;
}

/* DESIGN.md 6.1: not 405, 414 and 501, which RFC 9110 15.1 lists too: no error is kept longer
 * than its origin asked for (cache-poisoned denial of service). */
static bool
fresh_is_heuristic(unsigned status)
{
    switch (status) {
    case 200:
    case 203:
    case 204:
    case 206: /* as the 200 that it is a part of */
    case 300:
    case 301:
    case 308:
    case 404:
    case 410:
        return true;
    default:
        return false;
    }
}

/* One part that says which (RFC 9111 3.3); multipart/byteranges has no Content-Range. */
static bool
fresh_is_part(const struct http_message *resp)
{
    struct slice value = http_get_one(resp, HTTP_F_CONTENT_RANGE);
    struct content_range cr;

    return resp->status == 206 && value.ptr != NULL && content_range_parse(value, &cr) == 0;
}

enum fresh_refusal
fresh_refuse_status(const struct http_message *resp, const struct fresh_request *req)
{
    if (resp->status < 200)
        return FRESH_REFUSE_INTERIM;
    if (resp->status == 304)
        return FRESH_REFUSE_NOT_MODIFIED;
    if (resp->status >= 600) /* no HTTP: an error for the client (RFC 9110 15) */
        return FRESH_REFUSE_NOT_UNDERSTOOD;
    if (resp->status == 416 && req->range) /* about our range, not about the resource */
        return FRESH_REFUSE_PARTIAL;
    if (resp->status == 206) /* with another status Content-Range means nothing: RFC 9110 14.4 */
        return req->range && fresh_is_part(resp) ? FRESH_REFUSE_NONE : FRESH_REFUSE_PARTIAL;
    return FRESH_REFUSE_NONE;
}

/* A cookie is mostly one client's.  What a targeted field says is said to shared caches. */
static bool
fresh_cookie_forbids(const struct http_message *resp, const struct cache_control *cc, bool targeted,
    enum fresh_cookies cookies)
{
    if (cookies == FRESH_COOKIES_ALWAYS || !http_has(resp, HTTP_F_SET_COOKIE))
        return false;
    return cookies == FRESH_COOKIES_NEVER || !(cc_has(cc, CC_PUBLIC) || cc_has(cc, CC_S_MAXAGE) ||
                                                 (targeted && cc_has(cc, CC_MAX_AGE)));
}

/* RFC 9111 3, top to bottom, without the question of freshness.  The order is that of what an
 * operator can act on: the first reason is the one that is logged. */
static enum fresh_refusal
fresh_refuse(const struct http_message *resp, const struct fresh_request *req,
    const struct cache_control *cc)
{
    enum fresh_refusal r;

    if (req->method != HTTP_M_GET)
        return FRESH_REFUSE_METHOD;
    r = fresh_refuse_status(resp, req);
    if (r != FRESH_REFUSE_NONE)
        return r;
    if (cc_has(cc, CC_MUST_UNDERSTAND) && !fresh_understands(resp->status, req))
        return FRESH_REFUSE_NOT_UNDERSTOOD;
    if (cc_has(cc, CC_NO_STORE) && !cc_has(cc, CC_MUST_UNDERSTAND)) /* RFC 9111 5.2.2.3 */
        return FRESH_REFUSE_NO_STORE;
    if (cc_has(cc, CC_PRIVATE)) /* with field names too: RFC 9111 5.2.2.7 lets us */
        return FRESH_REFUSE_PRIVATE;
    if (req->no_store)
        return FRESH_REFUSE_REQ_NO_STORE;
    if (req->has_authorization && !cc_has(cc, CC_PUBLIC) && !cc_has(cc, CC_S_MAXAGE) &&
        !cc_has(cc, CC_MUST_REVALIDATE)) /* RFC 9111 3.5 */
        return FRESH_REFUSE_AUTHORIZATION;
    return vary_is_star(resp) ? FRESH_REFUSE_VARY_STAR : FRESH_REFUSE_NONE;
}

/* What freshness says about storing, when nothing else forbids it.  What is not fresh is of
 * use only where it may be served stale, or where there is something to validate it with. */
static enum fresh_refusal
fresh_refuse_stale(unsigned status, const struct fresh_verdict *v)
{
    if (v->origin == FRESH_FROM_NONE && !(v->no_cache && fresh_is_heuristic(status)))
        return FRESH_REFUSE_NO_FRESHNESS;
    if (v->ttl_ms > 0 || v->ttl_ms + v->error_ms > 0)
        return FRESH_REFUSE_NONE;
    if (v->validatable && v->ttl_ms + v->keep_ms > 0)
        return FRESH_REFUSE_NONE;
    return v->no_cache ? FRESH_REFUSE_NO_CACHE : FRESH_REFUSE_STALE;
}

/* Expires minus Date; one that is no date, or there twice, is in the past (RFC 9111 5.3).  What Expires says is ahead by our
 * clock, too, is fresh no longer than until then: a Date of long ago is of a wrong clock, or of an old response. */
static int64_t
fresh_expires_ms(const struct http_message *resp, int64_t received_s, int64_t age_ms)
{
    int64_t expires_s, date_s, ms;

    if (!fresh_date(resp, HTTP_F_EXPIRES, received_s, &expires_s))
        return 0;
    if (!fresh_date(resp, HTTP_F_DATE, received_s, &date_s))
        date_s = received_s;
    if (expires_s <= date_s)
        return 0;
    ms = (expires_s - date_s > CC_SECONDS_MAX ? CC_SECONDS_MAX : expires_s - date_s) * 1000;
    if (expires_s > received_s && (expires_s - received_s) * 1000 + age_ms < ms)
        ms = (expires_s - received_s) * 1000 + age_ms;
    return ms;
}

/* A fraction of the age by Last-Modified, or -1 (RFC 9111 4.2.2).  `public` widens the list of
 * statuses, but never to errors. */
static int64_t
fresh_heuristic_ms(const struct http_message *resp, const struct cache_control *cc,
    const struct fresh_params *params, int64_t received_s)
{
    int64_t modified_s, date_s, ms;

    if (params->heuristic_max_ms == 0 || params->heuristic_fraction == 0)
        return -1;
    if (!fresh_is_heuristic(resp->status) && !(cc_has(cc, CC_PUBLIC) && resp->status < 400))
        return -1;
    if (!fresh_date(resp, HTTP_F_LAST_MODIFIED, received_s, &modified_s))
        return -1;
    if (!fresh_date(resp, HTTP_F_DATE, received_s, &date_s))
        date_s = received_s;
    if (modified_s >= date_s)
        return -1;
    ms = (date_s - modified_s) * 10 * params->heuristic_fraction; /* in seconds, 100 percent */
    return ms > params->heuristic_max_ms ? params->heuristic_max_ms : ms;
}

static void
fresh_found(struct fresh_verdict *v, enum fresh_origin origin, int64_t lifetime_ms)
{
    tassert(lifetime_ms >= 0);
    v->origin = origin;
    v->lifetime_ms = lifetime_ms;
}

/* The first that applies; `targeted` came from CDN-Cache-Control, then Expires means nothing
 * (RFC 9213 2.1). */
static void
fresh_lifetime(const struct http_message *resp, const struct cache_control *cc, bool targeted,
    const struct fresh_params *params, int64_t received_s, struct fresh_verdict *v)
{
    int64_t heuristic_ms;

    if (cc_has(cc, CC_S_MAXAGE)) {
        fresh_found(v, targeted ? FRESH_FROM_TARGETED : FRESH_FROM_S_MAXAGE,
            cc_seconds(cc, CC_S_MAXAGE) * 1000);
    } else if (cc_has(cc, CC_MAX_AGE)) {
        fresh_found(v, targeted ? FRESH_FROM_TARGETED : FRESH_FROM_MAX_AGE,
            cc_seconds(cc, CC_MAX_AGE) * 1000);
    } else if (!targeted && http_has(resp, HTTP_F_EXPIRES)) {
        fresh_found(v, FRESH_FROM_EXPIRES, fresh_expires_ms(resp, received_s, v->age_ms));
    } else {
        heuristic_ms = fresh_heuristic_ms(resp, cc, params, received_s);
        if (heuristic_ms >= 0)
            fresh_found(v, FRESH_FROM_HEURISTIC, heuristic_ms);
    }
}

static int64_t
fresh_longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The windows.  must-revalidate, no-cache and s-maxage forbid serving stale (RFC 9111 4.2.4,
 * 5.2.2.10), also where stale-while-revalidate stands beside them.  A lost origin gives leave of
 * its own. */
static void
fresh_staleness(const struct cache_control *cc, const struct fresh_params *params, bool said,
    struct fresh_verdict *v)
{
    int64_t while_s = cc_seconds(cc, CC_STALE_WHILE_REVALIDATE);
    int64_t error_s = cc_seconds(cc, CC_STALE_IF_ERROR);

    /* As proxy-revalidate (RFC 9111 5.2.2.10).  A policy follows Varnish, which serves stale beside
     * it if the origin said for how long. */
    bool bound = cc_has(cc, CC_S_MAXAGE) && !(params->stale_by_s_maxage && while_s >= 0);

    v->must_revalidate = !said && (v->no_cache || cc_has(cc, CC_MUST_REVALIDATE) ||
                                      cc_has(cc, CC_PROXY_REVALIDATE) || bound);
    if (!v->must_revalidate) {
        v->stale_if_error_ms = error_s < 0 ? -1 : error_s * 1000;
        if (while_s >= 0)
            v->grace_ms = while_s * 1000;
        else if (params->grace_said)
            v->grace_ms = params->default_grace_ms;
        v->error_ms = fresh_longer(v->grace_ms, v->stale_if_error_ms);
        v->error_ms = fresh_longer(v->error_ms, params->default_grace_ms);
    }
    /* What must not be served stale is still worth a validation. */
    v->keep_ms = fresh_longer(v->error_ms, params->default_grace_ms) + params->default_keep_ms;
}

static bool
fresh_is_validatable(const struct http_message *resp, int64_t received_s)
{
    struct validators val;

    validators_of(resp, received_s, &val);
    return val.etag.len > 0 ||
           val.last_modified_s >= 0; /* one without quotes is the origin's own */
}

/* Of three fields the first that came counts alone: CDN-Cache-Control (RFC 9213 2.1),
 * Surrogate-Control, which that one replaces, Cache-Control. */
void
fresh_judge(const struct http_message *resp, const struct fresh_request *req,
    const struct fresh_params *params, struct fresh_verdict *v)
{
    int64_t received_s = req->received_ms / 1000;
    struct cache_control cc;
    bool said = params->ttl_said && resp->status >= 200 && resp->status < 400; /* else an error's */
    bool targeted;

    memset(v, 0, sizeof(*v));
    cc_parse_targeted(resp, &cc);
    if (!cc.present)
        cc_parse_surrogate(resp, params->surrogate, &cc);
    targeted = cc.present;
    if (!targeted)
        cc_parse_response(resp, &cc);
    v->no_cache = !said && cc_has(&cc, CC_NO_CACHE);
    v->validatable = fresh_is_validatable(resp, received_s);
    v->age_ms = fresh_age_ms(resp, req->sent_ms, req->received_ms);
    fresh_staleness(&cc, params, said, v);
    fresh_lifetime(resp, &cc, targeted, params, received_s, v);
    if (v->origin == FRESH_FROM_NONE && params->default_ttl_ms > 0 &&
        fresh_is_heuristic(resp->status))
        fresh_found(v, FRESH_FROM_DEFAULT, params->default_ttl_ms);
    /* The route's time counts from its arrival, so the age is not taken off it below. */
    if (said)
        fresh_found(v, FRESH_FROM_ROUTE, params->ttl_ms + v->age_ms);
    v->ttl_ms = v->no_cache ? 0 : v->lifetime_ms - v->age_ms;

    /* What forbids storing comes before the question of freshness: its name is what the operator
     * has to read. */
    v->refusal = fresh_refuse(resp, req, &cc);
    if (v->refusal == FRESH_REFUSE_NONE &&
        fresh_cookie_forbids(resp, &cc, targeted, params->cookies))
        v->refusal = FRESH_REFUSE_SET_COOKIE;
    if (v->refusal == FRESH_REFUSE_NONE)
        v->refusal = fresh_refuse_stale(resp->status, v);
    v->storable = v->refusal == FRESH_REFUSE_NONE;
    tassert(v->age_ms >= 0 && v->grace_ms >= 0);
    tassert(v->error_ms >= v->grace_ms && v->keep_ms >= v->error_ms);
    tassert(!v->must_revalidate || v->error_ms == 0);
}

void
fresh_ask_of(const struct http_message *req, struct fresh_ask *out)
{
    struct cache_control cc;

    *out = (struct fresh_ask){
        .max_age_s = -1, .min_fresh_s = -1, .max_stale_s = -1, .stale_if_error_s = -1};
    /* Most requests: nothing is parsed. */
    if (!http_has(req, HTTP_F_CACHE_CONTROL) && !http_has(req, HTTP_F_PRAGMA))
        return;
    cc_parse_request(req, &cc);
    out->no_cache = cc_has(&cc, CC_NO_CACHE);
    out->no_store = cc_has(&cc, CC_NO_STORE);
    out->only_if_cached = cc_has(&cc, CC_ONLY_IF_CACHED);
    out->max_age_s = cc_seconds(&cc, CC_MAX_AGE);
    out->min_fresh_s = cc_seconds(&cc, CC_MIN_FRESH);
    out->max_stale_s = cc_seconds(&cc, CC_MAX_STALE);
    out->stale_if_error_s = cc_seconds(&cc, CC_STALE_IF_ERROR);
    out->any = out->no_cache || out->no_store || out->only_if_cached || out->max_age_s >= 0 ||
               out->min_fresh_s >= 0 || out->max_stale_s >= 0 || out->stale_if_error_s >= 0;
}
