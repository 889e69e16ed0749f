/* http_freshness_test.c -- what is stored, and for how long. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/obj.h"
#include "daemon/http/freshness.h"

#define NOW_S      INT64_C(784111777) /* Sun, 06 Nov 1994 08:49:37 GMT */
#define NOW        "Sun, 06 Nov 1994 08:49:37 GMT"
#define DATE       "Date: Sun, 06 Nov 1994 08:49:37 GMT\n"
#define HOUR_AGO   "Sun, 06 Nov 1994 07:49:37 GMT"
#define IN_AN_HOUR "Sun, 06 Nov 1994 09:49:37 GMT"

/* Nothing may be used stale, and nothing is kept: fresh or refused. */
static const struct fresh_params none = {.heuristic_fraction = 10, .heuristic_max_ms = 3600000};
static const struct fresh_params bare = {
    .default_grace_ms = 10000, .heuristic_fraction = 10, .heuristic_max_ms = 3600000};
static const struct fresh_request get = {
    .method = HTTP_M_GET, .sent_ms = NOW_S * 1000, .received_ms = NOW_S * 1000};

static struct fresh_verdict
judge_as(const struct fresh_request *req, const struct fresh_params *params, const char *text)
{
    struct head_build b;
    struct fresh_verdict v;

    fresh_judge(head_build(&b, text), req, params, &v);
    CHECK_EQ(v.refusal == FRESH_REFUSE_NONE, v.storable);
    CHECK(!v.storable || v.ttl_ms + v.keep_ms > 0);
    CHECK_EQ(v.no_cache ? 0 : v.lifetime_ms - v.age_ms, v.ttl_ms);
    CHECK(v.grace_ms >= 0 && v.error_ms >= v.grace_ms && v.keep_ms >= v.error_ms);
    CHECK(!v.must_revalidate || (v.error_ms == 0 && v.stale_if_error_ms == 0));
    return v;
}

static struct fresh_verdict
judge(const char *text)
{
    return judge_as(&get, &none, text);
}

static struct fresh_verdict
ok_with(const struct fresh_params *params, const char *fields)
{
    char text[1024];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\n" DATE "%s\n", fields);
    return judge_as(&get, params, text);
}

static struct fresh_verdict
ok(const char *fields)
{
    return ok_with(&none, fields);
}

#define CHECK_FRESH(fields, from, seconds)              \
    do {                                                \
        struct fresh_verdict v_ = ok(fields);           \
        CHECK_EQ(FRESH_REFUSE_NONE, v_.refusal);        \
        CHECK_EQ(FRESH_FROM_##from, v_.origin);         \
        CHECK_EQ(INT64_C(1000) * (seconds), v_.ttl_ms); \
    } while (0)

TEST(freshness, the_first_source_that_applies_gives_the_lifetime)
{
    CHECK_FRESH("Cache-Control: max-age=60", MAX_AGE, 60);
    CHECK_FRESH("Cache-Control: max-age=60, s-maxage=90\nExpires: 0", S_MAXAGE, 90);
    CHECK_FRESH("Cache-Control: max-age=60\nExpires: " HOUR_AGO, MAX_AGE, 60);
    CHECK_FRESH("Cache-Control: max-age=60\nCDN-Cache-Control: max-age=9", TARGETED, 9);
    CHECK_FRESH("Cache-Control: no-store\nCDN-Cache-Control: max-age=9", TARGETED, 9);
    CHECK_FRESH("Cache-Control: max-age=60\nCDN-Cache-Control: max-age=\"9\"", MAX_AGE, 60);
    CHECK_FRESH("Expires: " IN_AN_HOUR, EXPIRES, 3600);
    CHECK_FRESH("Expires: Sunday, 06-Nov-94 09:49:37 GMT", EXPIRES, 3600);
    CHECK_FRESH("Last-Modified: " HOUR_AGO, HEURISTIC, 360);
    CHECK_FRESH("Last-Modified: Mon, 06 Nov 1950 07:49:37 GMT", HEURISTIC, 3600); /* at most */
    CHECK_FRESH("Expires: Fri, 31 Dec 9999 23:59:59 GMT", EXPIRES, INT64_C(2147483648));
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok("ETag: \"x\"").refusal);
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok("Last-Modified: yesterday").refusal);
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok("Last-Modified: " IN_AN_HOUR).refusal);
}

TEST(freshness, expires_in_doubt_is_in_the_past)
{
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: 0").refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: " HOUR_AGO).refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: " IN_AN_HOUR "\nExpires: " IN_AN_HOUR).refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: Sun, 06 Nov 2050 09:49:37 UTC").refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: 0\nLast-Modified: " HOUR_AGO).refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Cache-Control: max-age=0\nExpires: " IN_AN_HOUR).refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Expires: " NOW).refusal);
    CHECK_EQ(FRESH_REFUSE_STALE, /* older than its Date, though both are ahead */
        judge("HTTP/1.1 200 OK\nDate: " IN_AN_HOUR "\nExpires: Sun, 06 Nov 1994 09:49:36 GMT\n")
            .refusal);
    /* The origin's clock, which may be slow or fast, is that of both. */
    CHECK_EQ(1000, judge("HTTP/1.1 200 OK\nDate: Sun, 06 Nov 1994 08:49:27 GMT\n"
                         "Expires: Sun, 06 Nov 1994 08:49:52 GMT\nAge: 24\n")
                       .ttl_ms);
    CHECK_EQ(FRESH_REFUSE_STALE, judge("HTTP/1.1 200 OK\nDate: Sun, 06 Nov 1994 08:49:47 GMT\n"
                                       "Expires: Sun, 06 Nov 1994 08:49:57 GMT\nAge: 15\n")
                                     .refusal);
    CHECK_EQ(3600000,
        judge("HTTP/1.1 200 OK\nDate: Thu, 01 Jan 1970 00:00:00 GMT\nExpires: " IN_AN_HOUR "\n")
            .ttl_ms);
    CHECK_EQ(
        5000, judge("HTTP/1.1 200 OK\nDate: " HOUR_AGO "\nExpires: Sun, 06 Nov 1994 07:49:42 GMT\n")
                  .ttl_ms);
    CHECK_EQ(3600000, judge("HTTP/1.1 200 OK\nDate: foo\nExpires: " IN_AN_HOUR "\n").ttl_ms);
    CHECK_FRESH("Cache-Control: max-age=60\nExpires: 0", MAX_AGE, 60);
    CHECK_FRESH("Cache-Control: max-age=0, s-maxage=60\nExpires: 0", S_MAXAGE, 60);
    /* Without Date, its arrival is when it was made. */
    CHECK_EQ(3600000, judge("HTTP/1.1 200 OK\nExpires: " IN_AN_HOUR "\n").ttl_ms);
}

TEST(freshness, age_is_what_is_said_and_what_the_request_took)
{
    struct fresh_request slow = get;

    CHECK_EQ(15000, ok("Cache-Control: max-age=10\nAge: 15").age_ms);
    CHECK_EQ(FRESH_REFUSE_STALE, ok("Cache-Control: max-age=10\nAge: 15").refusal);
    CHECK_EQ(15000, ok("Age: 15, 0").age_ms);
    CHECK_EQ(0, ok("Age: 0, 15").age_ms);
    CHECK_EQ(15000, ok("Age: 15\nAge: 0").age_ms);
    CHECK_EQ(0, ok("Age: -7200").age_ms);
    CHECK_EQ(0, ok("Age: 7200.0").age_ms);
    CHECK_EQ(0, ok("Age: abc").age_ms);
    CHECK_EQ(0, ok("Age:").age_ms);
    CHECK_EQ(0, ok("Age: , ,").age_ms);
    CHECK_EQ(15000, ok("Age: ,15").age_ms);
    CHECK_EQ(0, ok("Age: 7200;foo=bar").age_ms);
    CHECK_EQ(0, ok("Age: abc, 15").age_ms);
    CHECK_EQ(15000, ok("Age: 0015").age_ms);
    CHECK_EQ(INT64_C(2147483647000), ok("Age: 2147483647").age_ms);
    CHECK_EQ(INT64_C(2147483648000), ok("Age: 2147483649").age_ms);
    CHECK_EQ(INT64_C(2147483648000), ok("Age: 99999999999999999999").age_ms);
    CHECK_EQ(5000, judge("HTTP/1.1 200 OK\nDate: " HOUR_AGO "\nAge: 5\n").age_ms);
    CHECK_EQ(0, judge("HTTP/1.1 200 OK\nDate: " HOUR_AGO "\n").age_ms);
    CHECK_EQ(0, judge("HTTP/1.1 200 OK\nDate: " IN_AN_HOUR "\n").age_ms);
    CHECK_EQ(0, judge("HTTP/1.1 200 OK\nDate: x\n").age_ms);
    slow.sent_ms -= 1500; /* the response may have been made when the request was sent */
    CHECK_EQ(2500, judge_as(&slow, &bare, "HTTP/1.1 200 OK\nAge: 1\n").age_ms);
    slow.sent_ms += 9000; /* the clock was set back meanwhile */
    CHECK_EQ(1000, judge_as(&slow, &bare, "HTTP/1.1 200 OK\nAge: 1\n").age_ms);
}

TEST(freshness, what_must_not_be_stored_is_not)
{
    struct fresh_request req = get;

    CHECK_EQ(FRESH_REFUSE_NO_STORE, ok("Cache-Control: max-age=9, no-store").refusal);
    CHECK_EQ(FRESH_REFUSE_PRIVATE, ok("Cache-Control: max-age=9, private").refusal);
    CHECK_EQ(FRESH_REFUSE_PRIVATE, ok("Cache-Control: max-age=9, private=\"x\"").refusal);
    CHECK_EQ(FRESH_REFUSE_NO_CACHE, ok("Cache-Control: max-age=9, no-cache").refusal);
    CHECK(ok("Cache-Control: max-age=9, no-cache=\"x\"").no_cache);
    CHECK_EQ(
        FRESH_REFUSE_NO_STORE, ok("Cache-Control: max-age=9\nCDN-Cache-Control: no-store").refusal);
    CHECK_EQ(
        FRESH_REFUSE_PRIVATE, ok("Cache-Control: max-age=9\nCDN-Cache-Control: private").refusal);
    CHECK_EQ(FRESH_REFUSE_VARY_STAR, ok("Cache-Control: max-age=9\nVary: a, *").refusal);
    CHECK(ok("Cache-Control: max-age=9\nContent-Range: bytes 0-1/2").storable); /* means nothing */
    CHECK(ok("Cache-Control: max-age=9\nPragma: no-cache").storable);           /* RFC 9111 5.4 */
    req.method = HTTP_M_HEAD;
    CHECK_EQ(FRESH_REFUSE_METHOD,
        judge_as(&req, &bare, "HTTP/1.1 200 OK\nCache-Control: max-age=9\n").refusal);
    req = get;
    req.no_store = true;
    CHECK_EQ(FRESH_REFUSE_REQ_NO_STORE,
        judge_as(&req, &bare, "HTTP/1.1 200 OK\nCache-Control: max-age=9\n").refusal);
}

TEST(freshness, authorization_needs_leave)
{
    static const char *const leave[] = {"public", "s-maxage=9", "must-revalidate"};
    struct fresh_request req = get;
    char text[128];
    size_t i;

    req.has_authorization = true;
    CHECK_EQ(FRESH_REFUSE_AUTHORIZATION,
        judge_as(&req, &bare, "HTTP/1.1 200 OK\nCache-Control: max-age=9\n").refusal);
    CHECK_EQ(FRESH_REFUSE_AUTHORIZATION,
        judge_as(&req, &bare, "HTTP/1.1 200 OK\nCache-Control: max-age=9, proxy-revalidate\n")
            .refusal);
    for (i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "HTTP/1.1 200 OK\nCache-Control: max-age=9, %s\n", leave[i]);
        CHECK(judge_as(&req, &bare, text).storable);
    }
}

static struct fresh_verdict
status(unsigned code, const char *fields)
{
    char text[256];

    snprintf(text, sizeof(text), "HTTP/1.1 %u X\n" DATE "%s\n", code, fields);
    return judge(text);
}

TEST(freshness, any_final_status_is_stored_when_its_freshness_is_explicit)
{
    static const unsigned fine[] = {200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 416,
        499, 500, 502, 503, 504, 599};
    size_t i;

    for (i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        CHECK(status(fine[i], "Cache-Control: max-age=9").storable);
    CHECK_EQ(FRESH_REFUSE_INTERIM, status(103, "Cache-Control: max-age=9").refusal);
    CHECK_EQ(FRESH_REFUSE_PARTIAL, status(206, "Cache-Control: max-age=9").refusal);
    CHECK_EQ(FRESH_REFUSE_NOT_MODIFIED, status(304, "Cache-Control: max-age=9").refusal);
}

TEST(freshness, heuristics_are_for_listed_statuses)
{
    static const unsigned listed[] = {200, 203, 204, 300, 301, 308, 404, 410};
    static const struct fresh_params params = {
        .default_ttl_ms = 120000, .default_grace_ms = 10000, .default_keep_ms = 5000};
    struct fresh_verdict v;
    unsigned s, i;

    for (s = 200; s < 600; s++) {
        bool is_listed = false;
        char text[256];

        for (i = 0; i < 8; i++)
            is_listed = is_listed || listed[i] == s;
        CHECK_EQ(is_listed, status(s, "Last-Modified: " HOUR_AGO).storable);
        snprintf(text, sizeof(text), "HTTP/1.1 %u X\n" DATE, s);
        CHECK(!judge(text).storable);
        v = judge_as(&get, &params, text);
        CHECK_EQ(is_listed, v.storable);
        if (is_listed) {
            CHECK_EQ(FRESH_FROM_DEFAULT, v.origin);
            CHECK_EQ(120000, v.ttl_ms);
            CHECK_EQ(15000, v.keep_ms);
        }
    }
    CHECK(status(302, "Cache-Control: public\nLast-Modified: " HOUR_AGO).storable);
    CHECK(!status(503, "Cache-Control: public\nLast-Modified: " HOUR_AGO).storable);
}

TEST(freshness, heuristic_fraction_and_heuristic_max_bound_what_last_modified_gives)
{
    struct fresh_params p = {.heuristic_fraction = 50, .heuristic_max_ms = 86400000};
    struct fresh_request part = get;

    CHECK_EQ(1800000, ok_with(&p, "Last-Modified: " HOUR_AGO).ttl_ms);
    p.heuristic_max_ms = 1500;
    CHECK_EQ(1500, ok_with(&p, "Last-Modified: " HOUR_AGO).ttl_ms);
    p.heuristic_max_ms = 0;
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok_with(&p, "Last-Modified: " HOUR_AGO).refusal);
    p.default_ttl_ms = 7000; /* then that counts */
    CHECK_EQ(7000, ok_with(&p, "Last-Modified: " HOUR_AGO).ttl_ms);
    p = (struct fresh_params){.heuristic_max_ms = 86400000};
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok_with(&p, "Last-Modified: " HOUR_AGO).refusal);
    /* A 206 obeys the same rule as a 200. */
    part.range = true;
    CHECK_EQ(360000, judge_as(&part, &none,
                         "HTTP/1.1 206 P\n" DATE "Content-Range: bytes 0-1/4\n"
                         "Last-Modified: " HOUR_AGO "\n")
                         .ttl_ms);
    p = (struct fresh_params){.default_ttl_ms = 7000};
    CHECK_EQ(
        7000, judge_as(&part, &p, "HTTP/1.1 206 P\n" DATE "Content-Range: bytes 0-1/4\n").ttl_ms);
}

TEST(freshness, store_set_cookie_says_which_responses_with_set_cookie_are_storable)
{
    static const struct {
        const char *fields;
        bool public; /* storable with FRESH_COOKIES_PUBLIC */
    } cases[] = {
        {"Cache-Control: max-age=9", false},
        {"Expires: " IN_AN_HOUR, false},
        {"Last-Modified: " HOUR_AGO, false},
        {"Cache-Control: max-age=9, public", true},
        {"Cache-Control: max-age=9, public=1", false}, /* what permits must be right */
        {"Cache-Control: s-maxage=9", true},
        {"Cache-Control: no-store\nCDN-Cache-Control: max-age=9", true},
        {"Cache-Control: no-store\nSurrogate-Control: max-age=9", true},
        {"Cache-Control: public\nCDN-Cache-Control: max-age=\"9\"\nExpires: " IN_AN_HOUR, true},
        {"Cache-Control: max-age=9\nCDN-Cache-Control: max-age=\"9\"", false},
    };
    struct fresh_params p = none;

    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        char fields[256];

        snprintf(fields, sizeof(fields), "%s\nSet-Cookie: a=b", cases[i].fields);
        p.cookies = FRESH_COOKIES_NEVER;
        CHECK_EQ(FRESH_REFUSE_SET_COOKIE, ok_with(&p, fields).refusal);
        p.cookies = FRESH_COOKIES_PUBLIC;
        CHECK_EQ(cases[i].public ? FRESH_REFUSE_NONE : FRESH_REFUSE_SET_COOKIE,
            ok_with(&p, fields).refusal);
        p.cookies = FRESH_COOKIES_ALWAYS;
        CHECK_EQ(FRESH_REFUSE_NONE, ok_with(&p, fields).refusal);
    }
    CHECK_EQ(FRESH_REFUSE_PRIVATE, ok("Cache-Control: private\nSet-Cookie: a=b").refusal);
}

TEST(freshness, must_understand_overrules_no_store_for_what_we_understand)
{
    CHECK(status(200, "Cache-Control: max-age=9, no-store, must-understand").storable);
    CHECK_EQ(FRESH_REFUSE_NOT_UNDERSTOOD,
        status(599, "Cache-Control: max-age=9, no-store, must-understand").refusal);
    CHECK_EQ(FRESH_REFUSE_NOT_UNDERSTOOD,
        status(226, "Cache-Control: max-age=9, must-understand").refusal);
    CHECK_EQ(FRESH_REFUSE_NO_STORE,
        status(200, "Cache-Control: max-age=9, no-store, must-understand=1").refusal);
}

/* Fields, then grace, error, keep and stale-if-error windows in seconds; grace_said or not. */
struct windows {
    const char *fields;
    bool said;
    int64_t grace, error, keep, stale_if_error;
};

TEST(freshness, staleness_is_what_origin_and_operator_allow)
{
    static const struct windows rows[] = {
        {"max-age=9", false, 0, 10, 15, -1},
        {"max-age=9", true, 10, 10, 15, -1},
        {"max-age=9, stale-while-revalidate=60", false, 60, 60, 65, -1},
        {"max-age=9, stale-while-revalidate=60", true, 60, 60, 65, -1},
        {"max-age=9, stale-while-revalidate=0", true, 0, 10, 15, -1},
        {"max-age=9, stale-if-error=70", false, 0, 70, 75, 70},
        {"max-age=9, stale-if-error=70", true, 10, 70, 75, 70},
        {"max-age=9, stale-if-error=0", true, 10, 10, 15, 0},
        {"max-age=9, stale-while-revalidate=60, stale-if-error=70", false, 60, 70, 75, 70},
        {"max-age=9, stale-while-revalidate=70, stale-if-error=60", false, 70, 70, 75, 60},
        {"max-age=9, must-revalidate", true, 0, 0, 15, 0},
        {"max-age=9, must-revalidate, stale-while-revalidate=60", true, 0, 0, 15, 0},
        {"max-age=9, proxy-revalidate, stale-if-error=60", true, 0, 0, 15, 0},
        {"max-age=9, no-cache, stale-if-error=60", true, 0, 0, 15, 0},
        {"s-maxage=9", true, 0, 0, 15, 0},
        {"s-maxage=9, stale-while-revalidate=60", true, 0, 0, 15, 0},
        {"s-maxage=9, stale-while-revalidate=5", true, 0, 0, 15, 0},
        {"s-maxage=9, stale-if-error=60", true, 0, 0, 15, 0},
    };
    struct fresh_params params = {.default_grace_ms = 10000, .default_keep_ms = 5000};
    struct fresh_verdict v;
    char text[128];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        params.grace_said = rows[i].said;
        snprintf(text, sizeof(text), "Cache-Control: %s", rows[i].fields);
        v = ok_with(&params, text);
        CHECK_EQ(rows[i].grace * 1000, v.grace_ms);
        CHECK_EQ(rows[i].error * 1000, v.error_ms);
        CHECK_EQ(rows[i].keep * 1000, v.keep_ms);
        CHECK_EQ(
            rows[i].stale_if_error < 0 ? -1 : rows[i].stale_if_error * 1000, v.stale_if_error_ms);
    }
}

TEST(freshness, what_can_be_validated_is_stored_though_it_is_stale)
{
    static const char *const validators[] = {
        "ETag: \"x\"", "ETag: W/\"\"", ("Last-Modified: " HOUR_AGO), "ETag: x"};
    static const char *const no_validators[] = {
        "ETag:", "ETag: \"x\"\nETag: \"y\"", "Last-Modified: yesterday", "X: y"};
    struct fresh_verdict v;
    char text[256];
    size_t i;

    for (i = 0; i < 4; i++) {
        snprintf(text, sizeof(text), "Cache-Control: no-cache\n%s", validators[i]);
        v = ok_with(&bare, text);
        CHECK(v.storable && v.validatable && v.no_cache && v.must_revalidate);
        CHECK_EQ(0, v.ttl_ms);
        CHECK_EQ(0, v.error_ms);
        CHECK_EQ(10000, v.keep_ms);
        CHECK_EQ(FRESH_REFUSE_NO_CACHE, ok(text).refusal); /* nothing keeps it */
        snprintf(text, sizeof(text), "Cache-Control: no-cache\n%s", no_validators[i]);
        v = ok_with(&bare, text);
        CHECK(!v.validatable);
        CHECK_EQ(FRESH_REFUSE_NO_CACHE, v.refusal);
        snprintf(
            text, sizeof(text), "Cache-Control: max-age=0, must-revalidate\n%s", validators[i]);
        v = ok_with(&bare, text);
        CHECK(v.storable && v.ttl_ms == 0);
        snprintf(
            text, sizeof(text), "Cache-Control: max-age=0, must-revalidate\n%s", no_validators[i]);
        CHECK_EQ(FRESH_REFUSE_STALE, ok_with(&bare, text).refusal);
    }
    v = ok_with(&bare, "Cache-Control: no-cache=\"x\", max-age=60\nETag: \"x\"\nAge: 20");
    CHECK(v.storable && v.ttl_ms == 0 && v.lifetime_ms == 60000 && v.age_ms == 20000);
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS,
        judge_as(&get, &bare, "HTTP/1.1 503 X\nCache-Control: no-cache\nETag: \"x\"\n").refusal);
    CHECK_EQ(FRESH_REFUSE_NO_FRESHNESS, ok_with(&bare, "ETag: \"x\"").refusal);
}

TEST(freshness, what_is_stale_on_arrival_is_stored_while_a_window_is_open)
{
    struct fresh_verdict v = ok_with(&bare, "Cache-Control: max-age=10\nAge: 15");

    CHECK(v.storable && v.ttl_ms == -5000 && v.error_ms == 10000 && v.grace_ms == 0);
    v = ok_with(&bare, "Cache-Control: max-age=10\nAge: 20");
    CHECK_EQ(FRESH_REFUSE_STALE, v.refusal);
    CHECK_EQ(-10000, v.ttl_ms);
    v = ok_with(&bare, "Cache-Control: max-age=10, must-revalidate\nAge: 15\nETag: \"x\"");
    CHECK(v.storable && v.ttl_ms == -5000);
    v = ok_with(&bare, "Cache-Control: max-age=10, must-revalidate\nAge: 20\nETag: \"x\"");
    CHECK_EQ(FRESH_REFUSE_STALE, v.refusal); /* kept until now, no longer */
    CHECK(ok_with(&bare, "Expires: 0").storable);
}

TEST(freshness, a_part_is_stored_when_it_was_asked_for)
{
    static const char part[] = "HTTP/1.1 206 X\nCache-Control: max-age=9\nContent-Range: %s\n";
    static const struct {
        const char *content_range;
        bool valid;
    } rows[] = {{"bytes 0-4/10", true}, {"bytes 0-4/*", true}, {"bytes 5-9/10", true},
        {"bytes */10", false}, {"bytes 5-10/10", false}, {"lines 0-4/10", false}, {"", false},
        {"bytes 0-4/10\nContent-Range: bytes 0-4/10", false}};
    struct fresh_request req = get;
    struct fresh_verdict v;
    char text[160];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), part, rows[i].content_range);
        req.range = true;
        v = judge_as(&req, &none, text);
        CHECK_EQ(rows[i].valid ? FRESH_REFUSE_NONE : FRESH_REFUSE_PARTIAL, v.refusal);
        req.range = false;
        CHECK_EQ(FRESH_REFUSE_PARTIAL, judge_as(&req, &none, text).refusal);
    }
    req.range = true;
    CHECK_EQ(FRESH_REFUSE_PARTIAL,
        judge_as(&req, &none, "HTTP/1.1 206 X\nCache-Control: max-age=9\n").refusal);
    CHECK_EQ(FRESH_REFUSE_PARTIAL,
        judge_as(&req, &none, "HTTP/1.1 416 X\nCache-Control: max-age=9\n").refusal);
    v = judge_as(
        &req, &none, "HTTP/1.1 200 X\nCache-Control: max-age=9\nContent-Range: bytes 0-1/2\n");
    CHECK(v.storable);
    CHECK_EQ(FRESH_REFUSE_NOT_MODIFIED,
        judge_as(&req, &none, "HTTP/1.1 304 X\nCache-Control: max-age=9\n").refusal);
    CHECK(judge_as(&req, &none, "HTTP/1.1 200 X\nCache-Control: max-age=9\n").storable);
    v = judge_as(&req, &none,
        "HTTP/1.1 206 X\nContent-Range: bytes 0-1/2\n"
        "Cache-Control: max-age=9, no-store, must-understand\n");
    CHECK(v.storable);
}

static struct fresh_ask
ask(const char *fields)
{
    struct head_build b;
    struct fresh_ask a;
    char text[256];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\nHost: h\n%s\n", fields);
    fresh_ask_of(head_build(&b, text), &a);
    return a;
}

TEST(freshness, a_request_asks_in_cache_control_or_else_in_pragma)
{
    struct fresh_ask a = ask("X: y");

    CHECK(!a.any && !a.no_cache && !a.no_store && !a.only_if_cached);
    CHECK(a.max_age_s == -1 && a.min_fresh_s == -1 && a.max_stale_s == -1);
    CHECK_EQ(-1, a.stale_if_error_s);
    a = ask("Cache-Control: max-age=1, min-fresh=2, max-stale=3, stale-if-error=4");
    CHECK(a.any && a.max_age_s == 1 && a.min_fresh_s == 2 && a.max_stale_s == 3);
    CHECK_EQ(4, a.stale_if_error_s);
    a = ask("Cache-Control: no-cache\nCache-Control: no-store, only-if-cached");
    CHECK(a.any && a.no_cache && a.no_store && a.only_if_cached && a.max_age_s == -1);
    CHECK_EQ(INT64_C(2147483648), ask("Cache-Control: max-stale").max_stale_s);
    CHECK(ask("Pragma: no-cache").no_cache);
    CHECK(!ask("Pragma: no-cache\nCache-Control: max-age=1").no_cache);
    CHECK(!ask("Pragma: x").any);
    CHECK(!ask("Cache-Control: x").any);
    CHECK(ask("Cache-Control: max-age=0").any);
}

TEST(freshness, every_verdict_has_a_name_and_a_text)
{
    unsigned i;

    for (i = 0; i < FRESH_REFUSE_COUNT; i++) {
        CHECK(*fresh_refusal_name((enum fresh_refusal)i) != '\0');
        CHECK(*fresh_refusal_text((enum fresh_refusal)i) != '\0');
    }
    for (i = 0; i < FRESH_FROM_COUNT; i++) {
        CHECK(*fresh_origin_name((enum fresh_origin)i) != '\0');
        CHECK(*fresh_origin_text((enum fresh_origin)i) != '\0');
    }
}

TEST_MAIN(TEST_ENTRY(freshness, the_first_source_that_applies_gives_the_lifetime),
    TEST_ENTRY(freshness, expires_in_doubt_is_in_the_past),
    TEST_ENTRY(freshness, age_is_what_is_said_and_what_the_request_took),
    TEST_ENTRY(freshness, what_must_not_be_stored_is_not),
    TEST_ENTRY(freshness, authorization_needs_leave),
    TEST_ENTRY(freshness, any_final_status_is_stored_when_its_freshness_is_explicit),
    TEST_ENTRY(freshness, heuristics_are_for_listed_statuses),
    TEST_ENTRY(freshness, heuristic_fraction_and_heuristic_max_bound_what_last_modified_gives),
    TEST_ENTRY(freshness, store_set_cookie_says_which_responses_with_set_cookie_are_storable),
    TEST_ENTRY(freshness, must_understand_overrules_no_store_for_what_we_understand),
    TEST_ENTRY(freshness, staleness_is_what_origin_and_operator_allow),
    TEST_ENTRY(freshness, what_can_be_validated_is_stored_though_it_is_stale),
    TEST_ENTRY(freshness, what_is_stale_on_arrival_is_stored_while_a_window_is_open),
    TEST_ENTRY(freshness, a_part_is_stored_when_it_was_asked_for),
    TEST_ENTRY(freshness, a_request_asks_in_cache_control_or_else_in_pragma),
    TEST_ENTRY(freshness, every_verdict_has_a_name_and_a_text))
