/* http_freshness_test.c -- what is stored, and for how long. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/http/freshness.h"

#define NOW_S      INT64_C(784111777) /* Sun, 06 Nov 1994 08:49:37 GMT */
#define DATE       "Date: Sun, 06 Nov 1994 08:49:37 GMT\n"
#define HOUR_AGO   "Sun, 06 Nov 1994 07:49:37 GMT"
#define IN_AN_HOUR "Sun, 06 Nov 1994 09:49:37 GMT"

static const struct fresh_params bare = {0, 10000, 0};
static const struct fresh_request get = {
    .method = HTTP_M_GET, .sent_ms = NOW_S * 1000, .received_ms = NOW_S * 1000};

static struct fresh_verdict
judge_as(const struct fresh_request *req, const struct fresh_params *params, const char *text)
{
    struct head_build b;
    struct fresh_verdict v;

    fresh_judge(head_build(&b, text), req, params, &v);
    CHECK_EQ(v.refusal == FRESH_REFUSE_NONE, v.storable);
    CHECK(!v.storable || v.ttl_ms > 0);
    CHECK_EQ(v.lifetime_ms - v.age_ms, v.ttl_ms);
    return v;
}

static struct fresh_verdict
judge(const char *text)
{
    return judge_as(&get, &bare, text);
}

static struct fresh_verdict
ok(const char *fields)
{
    char text[1024];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\n" DATE "%s\n", fields);
    return judge(text);
}

#define CHECK_FRESH(fields, from, seconds)            \
    do {                                              \
        struct fresh_verdict v_ = ok(fields);         \
        CHECK_EQ(FRESH_REFUSE_NONE, v_.refusal);      \
        CHECK_EQ(FRESH_FROM_##from, v_.origin);       \
        CHECK_EQ((seconds)*INT64_C(1000), v_.ttl_ms); \
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
    CHECK_FRESH("Last-Modified: Mon, 06 Nov 1950 07:49:37 GMT", HEURISTIC, 7 * 86400);
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
    /* Without Date, its arrival is when it was made. */
    CHECK_EQ(3600000, judge("HTTP/1.1 200 OK\nExpires: " IN_AN_HOUR "\n").ttl_ms);
}

TEST(freshness, age_is_the_larger_of_what_is_said_and_what_is_seen)
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
    CHECK_EQ(INT64_C(2147483648000), ok("Age: 99999999999999999999").age_ms);
    CHECK_EQ(3600000, judge("HTTP/1.1 200 OK\nDate: " HOUR_AGO "\nAge: 5\n").age_ms);
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
    CHECK_EQ(
        FRESH_REFUSE_PARTIAL, ok("Cache-Control: max-age=9\nContent-Range: bytes 0-1/2").refusal);
    CHECK(ok("Cache-Control: max-age=9\nSet-Cookie: a=b").storable);
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
    static const struct fresh_params params = {120000, 10000, 5000};
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
            CHECK_EQ(5000, v.keep_ms);
        }
    }
    CHECK(status(302, "Cache-Control: public\nLast-Modified: " HOUR_AGO).storable);
    CHECK(!status(503, "Cache-Control: public\nLast-Modified: " HOUR_AGO).storable);
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

TEST(freshness, staleness_is_what_the_origin_allows)
{
    struct fresh_verdict v = ok("Cache-Control: max-age=9");

    CHECK(!v.must_revalidate && v.grace_ms == 10000 && v.stale_if_error_ms == -1);
    v = ok("Cache-Control: max-age=9, stale-while-revalidate=60, stale-if-error=70");
    CHECK(!v.must_revalidate && v.grace_ms == 60000 && v.stale_if_error_ms == 70000);
    v = ok("Cache-Control: max-age=9, stale-while-revalidate=0");
    CHECK_EQ(0, v.grace_ms);
    v = ok("Cache-Control: max-age=9, must-revalidate, stale-while-revalidate=60");
    CHECK(v.must_revalidate && v.grace_ms == 0 && v.stale_if_error_ms == 0);
    v = ok("Cache-Control: max-age=9, proxy-revalidate");
    CHECK(v.must_revalidate && v.grace_ms == 0);
    v = ok("Cache-Control: s-maxage=9");
    CHECK(v.must_revalidate && v.grace_ms == 0);
    v = ok("Cache-Control: s-maxage=9, stale-while-revalidate=60");
    CHECK(!v.must_revalidate && v.grace_ms == 60000);
    v = ok("Cache-Control: s-maxage=9, stale-if-error=60");
    CHECK(!v.must_revalidate && v.grace_ms == 0 && v.stale_if_error_ms == 60000);
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
    TEST_ENTRY(freshness, age_is_the_larger_of_what_is_said_and_what_is_seen),
    TEST_ENTRY(freshness, what_must_not_be_stored_is_not),
    TEST_ENTRY(freshness, authorization_needs_leave),
    TEST_ENTRY(freshness, any_final_status_is_stored_when_its_freshness_is_explicit),
    TEST_ENTRY(freshness, heuristics_are_for_listed_statuses),
    TEST_ENTRY(freshness, must_understand_overrules_no_store_for_what_we_understand),
    TEST_ENTRY(freshness, staleness_is_what_the_origin_allows),
    TEST_ENTRY(freshness, every_verdict_has_a_name_and_a_text))
