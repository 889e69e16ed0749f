/* http_cache_control_test.c -- directives, and the targeted field. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/http/cache_control.h"

static struct cache_control
response(const char *fields)
{
    struct head_build b;
    struct cache_control cc;
    char text[1024];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\n%s\n", fields);
    cc_parse_response(head_build(&b, text), &cc);
    return cc;
}

static struct cache_control
cc_of(const char *value)
{
    char line[512];

    snprintf(line, sizeof(line), "Cache-Control: %s", value);
    return response(line);
}

static int64_t
max_age(const char *value)
{
    struct cache_control cc = cc_of(value);

    return cc_seconds(&cc, CC_MAX_AGE);
}

TEST(cache_control, directives_have_no_case_and_unknown_ones_no_meaning)
{
    struct cache_control cc = cc_of("foobar, MaX-aGe=3600 , x=\"y, no-store\",,PUBLIC,s-MAXAGE=7");

    CHECK_EQ(3600, cc_seconds(&cc, CC_MAX_AGE));
    CHECK_EQ(7, cc_seconds(&cc, CC_S_MAXAGE));
    CHECK_EQ(-1, cc_seconds(&cc, CC_STALE_IF_ERROR));
    CHECK_EQ(CC_BIT(CC_MAX_AGE) | CC_BIT(CC_S_MAXAGE) | CC_BIT(CC_PUBLIC), cc.set);
    cc = response("Age: 1");
    CHECK(!cc.present && cc.set == 0);
    cc = response("Cache-Control:");
    CHECK(cc.present && cc.set == 0);
}

TEST(cache_control, numbers_are_bounded_and_invalid_ones_mean_stale)
{
    CHECK_EQ(3600, max_age("max-age=\"3600\""));
    CHECK_EQ(3600, max_age("max-age=003600"));
    CHECK_EQ(2147483647, max_age("max-age=2147483647"));
    CHECK_EQ(CC_SECONDS_MAX, max_age("max-age=2147483648"));
    CHECK_EQ(CC_SECONDS_MAX, max_age("max-age=99999999999999999999999"));
    CHECK_EQ(0, max_age("max-age='3600'"));
    CHECK_EQ(0, max_age("max-age=-100"));
    CHECK_EQ(0, max_age("max-age=a100"));
    CHECK_EQ(0, max_age("max-age=100a"));
    CHECK_EQ(0, max_age("max-age=3600.0"));
    CHECK_EQ(0, max_age("max-age=3600.5"));
    CHECK_EQ(1, max_age("max-age=\"1\", extension=\"max-age=3600\""));
    CHECK_EQ(1, max_age("extension=\"max-age=3600\", max-age=\"1\""));
    CHECK_EQ(CC_SECONDS_MAX, max_age("max-age=2147483649"));
    CHECK_EQ(100, max_age("max-age= 100"));
    CHECK_EQ(0, max_age("max-age="));
    CHECK_EQ(-1, max_age("max-age"));
    CHECK_EQ(7, max_age("max-age, max-age=7"));
    CHECK_EQ(0, max_age("max-age= "));
    CHECK_EQ(0, max_age("max-age = 1 0"));
    CHECK_EQ(5, max_age("public, max-age\t=\t\"5\""));
    CHECK_EQ(0, max_age("max-age=\"100"));
    CHECK_EQ(100, max_age("max-age =100"));
    CHECK_EQ(-1, max_age("extension=\"max-age=100\""));
    CHECK_EQ(1, max_age("extension=\"max-age=100\", max-age=1"));
    CHECK_EQ(1, max_age("max-age=1, extension=\"max-age=100, \\\" no-store\""));
}

TEST(cache_control, of_two_values_the_stricter_counts)
{
    struct cache_control cc;

    CHECK_EQ(1, max_age("max-age=1800, max-age=1"));
    CHECK_EQ(1, max_age("max-age=1, max-age=1800"));
    CHECK_EQ(0, max_age("max-age=x, max-age=1800"));
    cc = response("Cache-Control: max-age=1800\nCache-Control: max-age=1, private");
    CHECK_EQ(1, cc_seconds(&cc, CC_MAX_AGE));
    CHECK(cc_has(&cc, CC_PRIVATE));
    cc = cc_of("min-fresh=1, min-fresh=9");
    CHECK_EQ(9, cc_seconds(&cc, CC_MIN_FRESH));
    cc = cc_of("max-stale, stale-if-error=5, stale-while-revalidate=6");
    CHECK_EQ(CC_SECONDS_MAX, cc_seconds(&cc, CC_MAX_STALE));
    CHECK_EQ(5, cc_seconds(&cc, CC_STALE_IF_ERROR));
    CHECK_EQ(6, cc_seconds(&cc, CC_STALE_WHILE_REVALIDATE));
}

TEST(cache_control, field_lists_are_told_from_the_plain_directive)
{
    struct cache_control cc = cc_of("no-cache=\"a, b\", private=\"c\"");

    CHECK(cc_has(&cc, CC_NO_CACHE) && cc_has(&cc, CC_PRIVATE));
    CHECK_EQ(CC_BIT(CC_NO_CACHE) | CC_BIT(CC_PRIVATE), cc.fields);
    CHECK_EQ(0, cc_of("no-cache").fields);
    CHECK_EQ(0, cc_of("no-cache=\"a\", no-cache").fields);
    CHECK_EQ(0, cc_of("no-cache, no-cache=\"a\"").fields);
    CHECK_EQ(0, cc_of("private=").fields);
}

TEST(cache_control, bad_syntax_forbids_and_never_permits)
{
    struct cache_control cc = cc_of("no-store=1, public=1, must-understand=x");

    CHECK_EQ(CC_BIT(CC_NO_STORE), cc.set);
    cc = cc_of("max-age=3600; private");
    CHECK(cc_has(&cc, CC_PRIVATE));
    CHECK_EQ(0, cc_seconds(&cc, CC_MAX_AGE));
    cc = cc_of("no-store;max-age=3600");
    CHECK_EQ(CC_BIT(CC_NO_STORE), cc.set);
    cc = cc_of("public;max-age=3600");
    CHECK_EQ(0, cc.set);
}

TEST(cache_control, pragma_counts_in_requests_without_cache_control)
{
    struct head_build b;
    struct cache_control cc;

    cc_parse_request(head_build(&b, "GET / HTTP/1.1\nPragma: foo, No-Cache\n"), &cc);
    CHECK_EQ(CC_BIT(CC_NO_CACHE), cc.set);
    CHECK(!cc.present);
    cc_parse_request(head_build(&b, "GET / HTTP/1.1\nPragma: no-cache\nCache-Control: x\n"), &cc);
    CHECK_EQ(0, cc.set);
    cc_parse_response(head_build(&b, "HTTP/1.1 200 OK\nPragma: no-cache\n"), &cc);
    CHECK_EQ(0, cc.set);
}

static struct cache_control
targeted(const char *value)
{
    struct head_build b;
    struct cache_control cc;
    char text[512];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\nCDN-Cache-Control: %s\n", value);
    cc_parse_targeted(head_build(&b, text), &cc);
    return cc;
}

TEST(cache_control, the_targeted_field_is_a_structured_dictionary)
{
    struct cache_control cc =
        targeted("foo=(1 \"a\";b);c=?0, max-age=3600;x , bar=1.5, b=:aGk=:, t=*a/b:c");

    CHECK(cc.present);
    CHECK_EQ(CC_BIT(CC_MAX_AGE), cc.set);
    CHECK_EQ(3600, cc_seconds(&cc, CC_MAX_AGE));
    cc = targeted("no-store, private=\"a\\\"\", public=?0, max-age=1, max-age=999999999999999");
    CHECK_EQ(CC_BIT(CC_NO_STORE) | CC_BIT(CC_PRIVATE) | CC_BIT(CC_MAX_AGE), cc.set);
    CHECK_EQ(CC_BIT(CC_PRIVATE), cc.fields);
    CHECK_EQ(CC_SECONDS_MAX, cc_seconds(&cc, CC_MAX_AGE)); /* the last counts */
    cc = targeted("max-age=-5");
    CHECK_EQ(0, cc_seconds(&cc, CC_MAX_AGE));
    cc = targeted("no-store, no-store=?0");
    CHECK(cc.present && cc.set == 0);
}

TEST(cache_control, of_two_targeted_members_the_last_counts_whatever_the_first_was)
{
    struct cache_control cc = targeted("max-age=\"x\", max-age=5");

    CHECK(cc.present);
    CHECK_EQ(5, cc_seconds(&cc, CC_MAX_AGE));
    CHECK(!targeted("max-age=5, max-age=\"x\"").present);
    CHECK(!targeted("max-age=5, max-age").present);
    CHECK(!targeted("max-age=5\nCDN-Cache-Control: max-age=x").present);
    cc = targeted("max-age=x\nCDN-Cache-Control:\nCDN-Cache-Control: max-age=7");
    CHECK(cc.present && cc_seconds(&cc, CC_MAX_AGE) == 7);
    cc = targeted("private=\"a\", private");
    CHECK(cc_has(&cc, CC_PRIVATE) && cc.fields == 0);
    cc = targeted("private, private=(\"a\" \"b\")");
    CHECK_EQ(CC_BIT(CC_PRIVATE), cc.fields);
    CHECK(!targeted("max-age=?1").present);
    CHECK(!targeted("no-store=\"a\"").present);
    CHECK(targeted("no-store=?1;a=1.5;b=\"x\";c").present);
    cc = targeted("max-age=0012");
    CHECK_EQ(12, cc_seconds(&cc, CC_MAX_AGE));
    CHECK(!targeted("max-age=-").present && !targeted("max-age=+1").present);
    CHECK_EQ(CC_SECONDS_MAX, targeted("max-age=2147483649").seconds[0]);
}

TEST(cache_control, one_error_and_the_targeted_field_is_ignored)
{
    static const char *const bad[] = {"", "max-age=10000, &&&&&", "max-age=\"10000\"", "max-age",
        "max-age =100", "max-age= 100", "MaX-aGe=3600", "max-age=1,", "max-age=1,,no-store",
        "max-age=1.0", "max-age=1.", "max-age=1.2345", "max-age=1234567890123456", "max-age=-",
        "x=\"a", "x=\"\\a\"", "x=:a", "x=:-:", "x=?2", "x=?", "x=(1", "x=(1,2)", "x=(1\t2)", "x;",
        "x;=1", "x;a=", "no-store=1", "private=a", "x=", "x y", "x=@1"};
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!targeted(bad[i]).present && targeted(bad[i]).set == 0);
}

static struct cache_control
surrogate(const char *value)
{
    struct head_build b;
    struct cache_control cc;
    char text[512];

    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\nSurrogate-Control: %s\n", value);
    cc_parse_surrogate(head_build(&b, text), SLICE_LIT("tarn"), &cc);
    return cc;
}

TEST(cache_control, surrogate_control_counts_when_it_is_meant_for_us)
{
    struct cache_control cc = surrogate("max-age=60, content=\"ESI/1.0\"");

    CHECK(cc.present && cc_seconds(&cc, CC_MAX_AGE) == 60);
    cc = surrogate("max-age=60;Tarn");
    CHECK(cc.present && cc_seconds(&cc, CC_MAX_AGE) == 60);
    CHECK(!surrogate("max-age=60;other").present);
    cc = surrogate("max-age=60;other, max-age=7 ; tarn");
    CHECK_EQ(7, cc_seconds(&cc, CC_MAX_AGE));
    cc = surrogate("no-store\nSurrogate-Control: max-age=9");
    CHECK(cc_has(&cc, CC_NO_STORE) && cc_seconds(&cc, CC_MAX_AGE) == 9);
    CHECK(!surrogate("content=\"ESI/1.0\"").present);
    CHECK(!surrogate("").present);
}

TEST_MAIN(TEST_ENTRY(cache_control, surrogate_control_counts_when_it_is_meant_for_us),
    TEST_ENTRY(cache_control, directives_have_no_case_and_unknown_ones_no_meaning),
    TEST_ENTRY(cache_control, numbers_are_bounded_and_invalid_ones_mean_stale),
    TEST_ENTRY(cache_control, of_two_values_the_stricter_counts),
    TEST_ENTRY(cache_control, field_lists_are_told_from_the_plain_directive),
    TEST_ENTRY(cache_control, bad_syntax_forbids_and_never_permits),
    TEST_ENTRY(cache_control, pragma_counts_in_requests_without_cache_control),
    TEST_ENTRY(cache_control, the_targeted_field_is_a_structured_dictionary),
    TEST_ENTRY(cache_control, of_two_targeted_members_the_last_counts_whatever_the_first_was),
    TEST_ENTRY(cache_control, one_error_and_the_targeted_field_is_ignored))
