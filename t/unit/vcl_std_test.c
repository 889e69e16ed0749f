/* vcl_std_test.c -- the functions of std that the machine has itself, against Varnish's answers. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "t/unit/fake_vcl_host.h"
#include "t/unit/test.h"
#include "vcl-lite/vcl_machine.h"

/* What Varnish 7.1 gives, asked by varnishtest, but where its manual says otherwise. */
struct std_case {
    const char *expr; /* of type STRING */
    const char *want; /* NULL: the run fails, and its reason begins with `why` */
    const char *why;
};

/* Runs `set client.identity = EXPR;`. */
static void
std_check(const struct std_case *c)
{
    static struct fake_vcl f;
    char text[2000];
    struct slice got;
    struct vcl *v;
    enum vcl_action a;

    snprintf(text, sizeof(text),
        "vcl 4.1; import std; sub vcl_recv { set client.identity = %s; return (pass); }", c->expr);
    v = fake_vcl_compile(text, true);
    if (v == NULL)
        fail_msg("%s does not compile", c->expr);
    fake_vcl_init(&f, v);
    a = fake_vcl_run(&f, VCL_SUB_RECV);
    got = slice_of(f.vars[VCL_VAR_CLIENT_IDENTITY].s, f.vars[VCL_VAR_CLIENT_IDENTITY].len);
    if (c->want == NULL) {
        if (a != VCL_ACT_FAIL || strncmp(f.run.why, c->why, strlen(c->why)) != 0)
            fail_msg("%s: should fail with '%s', did with '%s'", c->expr, c->why,
                f.run.why != NULL ? f.run.why : "nothing");
    } else {
        if (a != VCL_ACT_PASS)
            fail_msg("%s failed: %s", c->expr, f.run.why);
        if (!slice_eq(got, slice_str(c->want)))
            fail_msg("%s is '%.*s', not '%s'", c->expr, (int)got.len, got.ptr, c->want);
    }
    fake_vcl_fini(&f);
    vcl_free(&v);
}

static void
std_check_all(const struct std_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        std_check(&cases[i]);
}

/* A function of a text and a fallback: what comes of each text. */
struct std_text {
    const char *text, *want;
};

static void
std_check_texts(const char *call, const char *fallback, const struct std_text *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char expr[500];

        snprintf(expr, sizeof(expr), "\"\" + std.%s(\"%s\", %s)", call, t[i].text, fallback);
        std_check(&(struct std_case){expr, t[i].want, NULL});
    }
}

/* A field that names 16,000 cookies: the workspace bounds what they take. */
TEST(vcl_std, cookie_parse_of_more_cookies_than_the_workspace_holds_fails_the_run)
{
    static struct fake_vcl f;
    static char text[120 * 1024];
    struct vcl *v = fake_vcl_compile(
        "vcl 4.1; import cookie; sub vcl_recv { cookie.parse(req.http.cookie); return (pass); }",
        true);
    size_t n = 0;

    for (unsigned i = 0; i < 20000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%x=;", i);
    for (unsigned i = 0; i < 1000; i++) /* names of which a quarter differ */
        n += (size_t)snprintf(text + n, sizeof(text) - n, "n%u=1;", i % 250);
    fake_vcl_init(&f, v);
    fake_vcl_field(&f, VCL_HTTP_REQ, "cookie", text);
    CHECK_EQ(VCL_ACT_PASS, fake_vcl_run(&f, VCL_SUB_RECV)); /* without a value they are none */
    fake_vcl_fini(&f);
    n = 0;
    for (unsigned i = 0; i < 16000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%x=1;", i);
    fake_vcl_init(&f, v);
    fake_vcl_field(&f, VCL_HTTP_REQ, "cookie", text);
    CHECK_EQ(VCL_ACT_FAIL, fake_vcl_run(&f, VCL_SUB_RECV));
    CHECK(strncmp(f.run.why, "workspace overflow", 18) == 0);
    fake_vcl_fini(&f);
    vcl_free(&v);
}

TEST(vcl_std, integer_of_a_text)
{
    static const struct std_text t[] = {{"12abc", "7"}, {" 12", "12"}, {"12 ", "12"},
        {"-12", "-12"}, {"+12", "7"}, {"12.7", "7"}, {"1.0", "1"}, {"1.", "1"}, {"-2.000", "-2"},
        {"1.0009", "1"}, {" 1.0 ", "1"}, {"1.0x", "7"}, {"-0.9", "7"}, {".", "7"},
        {"12345678901234.0", "7"}, {"1.2.3", "7"}, {"", "7"}, {" ", "7"}, {"1234567890123456", "7"},
        {"123456789012345", "123456789012345"}, {"0x12", "7"}, {"--1", "7"}, {"007", "7"},
        {"0012", "12"}, {"-0", "0"}, {"-", "7"}, {"1,000", "7"}, {"- 1", "7"}};

    std_check_texts("integer", "7", t, ARRAY_LEN(t));
}

TEST(vcl_std, integer_of_other_types)
{
    static const struct std_case cases[] = {
        {"\"\" + std.integer(real=12.7)", "12", NULL},
        {"\"\" + std.real2integer(12.7, 1)", "13", NULL},
        {"\"\" + std.real2integer(-12.5, 1)", "-13", NULL},
        {"\"\" + std.real2integer(999999999999.9 * 100000.0, 1)", "1", NULL},
        {"std.real2time(1140618699.9, now)", "Wed, 22 Feb 2006 14:31:39 GMT", NULL},
        {"std.real2time(-1.0, now)", "Wed, 31 Dec 1969 23:59:59 GMT", NULL},
        {"\"\" + std.time2integer(std.real2time(1140618699.6, now), 0)", "1140618700", NULL},
        {"\"\" + std.time2real(std.real2time(1140618699.625, now), 0.0)", "1140618699.625", NULL},
        {"\"\" + std.port(std.ip(\"x\", \"192.0.2.1:80\"))", "80", NULL},
        {"\"\" + std.port(std.ip(\"x\", \"[::1]:8080\"))", "8080", NULL},
        {"\"\" + std.integer(real=-12.7)", "-12", NULL},
        {"\"\" + std.integer(duration=3.9s)", "3", NULL},
        {"\"\" + std.integer(duration=-1.5s, fallback=5)", "-1", NULL},
        {"\"\" + std.integer(bool=true)", "1", NULL},
        {"\"\" + std.integer(bytes=2KB)", "2048", NULL},
        {"\"\" + std.integer(time=std.time(integer=5))", "5", NULL},
        {"\"\" + std.integer(real=999999999999.0 * 99999999999.0, fallback=5)", "5", NULL},
        {"\"\" + std.integer(req.http.none, 9)", "9", NULL},
        {"\"\" + std.integer(s=\"x\", fallback=3)", "3", NULL},
        {"\"\" + std.integer(\"x\")", NULL, "std.integer: conversion failed"},
        {"\"\" + std.integer(\"1\", real=2.5)", NULL, "std.integer: too many arguments"},
        {"\"\" + std.integer()", NULL, "std.integer: not enough arguments"},
        {"\"\" + std.integer(fallback=3)", NULL, "std.integer: not enough arguments"},
    };

    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, real_of_a_text_and_of_other_types)
{
    static const struct std_text t[] = {{"12.5abc", "7.000"}, {" 12.5", "12.500"},
        {"12.5 ", "12.500"}, {"-12.5", "-12.500"}, {"1e3", "7.000"}, {".5", "0.500"},
        {"5.", "5.000"}, {"12", "12.000"}, {"1.2345", "1.234"}, {"1.1234567890123", "1.123"},
        {"123456789012.5", "123456789012.500"}, {"1234567890123.5", "7.000"},
        {"123456789012345", "7.000"}, {"nan", "7.000"}, {"0x10", "7.000"}, {"", "7.000"},
        {"-.5", "-0.500"}, {"+5", "7.000"}, {".", "7.000"}, {"-", "7.000"}, {"0001.5", "1.500"},
        {"- 5", "7.000"}, {"1 2", "7.000"}};
    static const struct std_case cases[] = {
        {"\"\" + std.real(integer=3)", "3.000", NULL},
        {"\"\" + std.real(bool=true)", "1.000", NULL},
        {"\"\" + std.real(duration=1m)", "60.000", NULL},
        {"\"\" + std.real(bytes=1KB)", "1024.000", NULL},
        {"\"\" + std.real(time=std.time(real=5.7))", "5.700", NULL},
        {"\"\" + std.real(s=\"x\", fallback=2.5)", "2.500", NULL},
        {"\"\" + std.real(\"x\")", NULL, "std.real: conversion failed"},
        {"\"\" + std.real(integer=1, bool=true)", NULL, "std.real: too many"},
    };

    std_check_texts("real", "7.0", t, ARRAY_LEN(t));
    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, duration_of_a_text_has_a_unit)
{
    static const struct std_text t[] = {{"10s", "10.000"}, {"1.5h", "5400.000"}, {"10", "9.000"},
        {" 10s", "10.000"}, {"10s ", "10.000"}, {"10 s", "10.000"}, {"-10s", "-10.000"},
        {"10ms", "0.010"}, {"1y", "31536000.000"}, {"1w", "604800.000"}, {"1d", "86400.000"},
        {"1mm", "9.000"}, {"s", "9.000"}, {"10S", "9.000"}, {"1e1s", "9.000"}, {".5s", "0.500"},
        {"5.s", "5.000"}, {"1.2345s", "1.234"}, {"0s", "0.000"}, {"+1s", "9.000"}, {"1M", "9.000"},
        {"1min", "9.000"}, {"1h30m", "9.000"}, {"", "9.000"}, {"-.5s", "-0.500"},
        {"1 h ", "3600.000"}, {"1.2345y", "38915424.000"}, {"123456789012s", "123456789012.000"}};
    static const struct std_case cases[] = {
        {"\"\" + std.duration(real=2.5)", "2.500", NULL},
        {"\"\" + std.duration(integer=-3)", "-3.000", NULL},
        {"\"\" + std.duration(\"x\")", NULL, "std.duration: conversion failed"},
        {"\"\" + std.duration(req.http.none, 1s)", "1.000", NULL},
    };

    std_check_texts("duration", "9s", t, ARRAY_LEN(t));
    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, bytes_of_a_text)
{
    static const struct std_text t[] = {{"10", "10"}, {"10k", "10240"}, {"10KB", "10240"},
        {"1.5k", "1536"}, {"10 k", "10240"}, {"-1", "9"}, {"10kb", "10240"}, {"1M", "1048576"},
        {"1B", "1"}, {"1T", "1099511627776"}, {"", "9"}, {"10x", "9"}, {" 10", "10"}, {"1Kx", "9"},
        {"1.5", "9"}, {"10%", "9"}, {"1.2k", "1228"}, {"10b", "10"}, {"1.0005k", "9"},
        {"10G", "10737418240"}, {"10 ", "10"}, {"10k ", "10240"}, {"10 kB", "10240"}, {"0", "0"},
        {"-0", "0"}, {"1e3", "9"}, {"10BB", "9"}, {".5k", "9"}, {"5.k", "9"}, {"1.0", "1"},
        {"1.000k", "1024"}, {"123456789012345", "123456789012345"}, {"1234567890123456", "9"},
        {"1.5B", "9"}, {"+1k", "9"}, {"-1k", "9"}, {"999999999999999T", "9"}};
    static const struct std_case cases[] = {
        {"\"\" + std.bytes(real=2.5)", "2", NULL},
        {"\"\" + std.bytes(integer=3)", "3", NULL},
        {"\"\" + std.bytes(real=-1.0, fallback=9B)", "9", NULL},
        {"\"\" + std.bytes(integer=-1, fallback=9B)", "9", NULL},
        {"\"\" + std.bytes(integer=-1)", NULL, "std.bytes: conversion failed"},
        {"\"\" + std.bytes(\"1p\", 1B)", NULL, "1125899906842624 is too large"},
    };

    std_check_texts("bytes", "9B", t, ARRAY_LEN(t));
    std_check_all(cases, ARRAY_LEN(cases));
}

#define STD_FAILED "Thu, 01 Jan 1970 00:00:07 GMT"
#define STD_2006   "Mon, 02 Jan 2006 15:04:05 GMT"

TEST(vcl_std, time_of_a_text)
{
    static const struct std_text t[] = {{STD_2006, STD_2006}, {"1136214245.5", STD_2006},
        {"1136214245", STD_2006}, {"2006-01-02T15:04:05", STD_2006},
        {"Monday, 02-Jan-06 15:04:05 GMT", STD_2006}, {"Mon Jan  2 15:04:05 2006", STD_2006},
        {"Mon Jan 02 15:04:05 2006", STD_2006}, {"foo", STD_FAILED}, {"1136214245x", STD_FAILED},
        {"2006-01-02T15:04:05Z", STD_FAILED}, {"-5", STD_FAILED}, {" 1136214245", STD_2006},
        {"2006-01-02 15:04:05", STD_FAILED}, {"1136214245.", STD_2006},
        {"1136214245.5.5", STD_FAILED}, {STD_2006 " ", STD_2006}, {" " STD_2006, STD_2006},
        {"Mon, 02 Jan 2006 15:04:05", STD_FAILED}, {"Tue, 02 Jan 2006 15:04:05 GMT", STD_FAILED},
        {"Mon, 31 Feb 2006 15:04:05 GMT", STD_FAILED},
        {"mon, 02 jan 2006 15:04:05 GMT", STD_FAILED}, {"2006-01-02T15:04:05.5", STD_FAILED},
        {"2006-1-2T15:04:05", STD_FAILED}, {"", STD_FAILED}, {"0", STD_FAILED},
        {"1136214245 ", STD_2006}, {"1e9", STD_FAILED}, {"99999999999999999", STD_FAILED},
        {"Mon, 02 Jan 2006 24:04:05 GMT", STD_FAILED},
        {"Mon, 02 Jan 2006 15:04:60 GMT", "Mon, 02 Jan 2006 15:05:00 GMT"},
        {"Thursday, 02-Jan-69 15:04:05 GMT", "Thu, 02 Jan 1969 15:04:05 GMT"},
        {"Wednesday, 02-Jan-69 15:04:05 GMT", STD_FAILED},
        {"Monday, 02-Jan-68 15:04:05 GMT", "Mon, 02 Jan 2068 15:04:05 GMT"},
        {"Tue, 02 Jan 1900 15:04:05 GMT", "Tue, 02 Jan 1900 15:04:05 GMT"},
        {"Mon, 02 Jan 1900 15:04:05 GMT", STD_FAILED},
        {"Thu, 01 Jan 1970 00:00:00 GMT", STD_FAILED},
        {"Sun, 06 Nov 1994  08:49:37 GMT", STD_FAILED},
        {"Tue, 29 Feb 2000 00:00:00 GMT", "Tue, 29 Feb 2000 00:00:00 GMT"},
        {"Thu, 29 Feb 1900 00:00:00 GMT", STD_FAILED}};
    static const struct std_case cases[] = {
        {"\"\" + std.time(real=1136214245.5)", STD_2006, NULL},
        {"\"\" + std.time(integer=1136214245)", STD_2006, NULL},
        {"\"\" + std.time(integer=-1, fallback=now)", "Sun, 06 Nov 1994 08:49:37 GMT", NULL},
        {"\"\" + std.time(integer=-1)", NULL, "std.time: conversion failed"},
        {"\"\" + now", "Sun, 06 Nov 1994 08:49:37 GMT", NULL},
    };

    std_check_texts("time", "std.time(integer=7)", t, ARRAY_LEN(t));
    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, strftime_is_in_utc)
{
    static const struct std_case cases[] = {
        {"std.strftime(now, \"\")", "", NULL},
        {"std.strftime(std.time(integer=1136214245), \"%Y%m%dT%H%M%SZ %a %b %j %e %%\")",
            "20060102T150405Z Mon Jan 002  2 %", NULL},
        {"std.strftime(now, req.http.none)", NULL, "std.strftime: the format is unset"},
        {"std.strftime(now + 999999999999s, \"%Y\")", "", NULL},
    };

    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, ip_is_numeric_and_may_have_a_port)
{
    static const struct std_text t[] = {{"1.2.3.4", "1.2.3.4"}, {"1.2.3.4:81", "1.2.3.4"},
        {"[::1]:82", "::1"}, {"::1", "::1"}, {"1.2.3.4 85", "1.2.3.4"}, {"", "9.9.9.9"},
        {" 1.2.3.4", "1.2.3.4"}, {"1.2.3.4 ", "1.2.3.4"}, {"[1.2.3.4]", "1.2.3.4"},
        {"[::1", "9.9.9.9"}, {"[::1] 80", "::1"}, {"::ffff:1.2.3.4", "::ffff:1.2.3.4"},
        {"/tmp/x", "9.9.9.9"}, {"localhost", "9.9.9.9"}, {"1.2.3.4:x", "9.9.9.9"},
        {"1.2.3.4:70000", "9.9.9.9"}, {"2001:DB8:0:0::1", "2001:db8::1"}, {"[::1]x", "9.9.9.9"},
        {"::1 80", "::1"}, {"1.2.3.4.5", "9.9.9.9"}};
    static const struct std_case cases[] = {
        {"\"\" + std.port(std.ip(\"1.2.3.4:81\"))", "81", NULL},
        {"\"\" + std.port(std.ip(\"[::1] 82\"))", "82", NULL},
        {"\"\" + std.port(std.ip(\"::1\"))", "80", NULL},
        {"\"\" + std.port(std.ip(\"1.2.3.4\", p=\"99\"))", "99", NULL},
        {"\"\" + std.port(std.ip(\"1.2.3.4\", p=\"http\"))", "80", NULL},
        {"\"\" + std.port(std.ip(\"1.2.3.4:81\", p=\"99\"))", "81", NULL},
        {"\"\" + std.ip(req.http.none, \"9.9.9.9\")", "9.9.9.9", NULL},
        {"\"\" + std.ip(\"x\")", NULL, "std.ip: conversion failed"},
    };

    std_check_texts("ip", "\"9.9.9.9\"", t, ARRAY_LEN(t));
    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, querysort)
{
    static const struct std_text t[] = {{"/a?b=1&a=2&c&a=1&&B=1&a", "/a?B=1&a=1&a=2&a&b=1&c"},
        {"/a?", "/a?"}, {"/a", "/a"}, {"?b&a", "?a&b"}, {"/foo?&", "/foo?"}, {"/foo?&&", "/foo?"},
        {"foo?&#x", "foo?#x"}, {"?", "?"}, {"/x?b&a#frag", "/x?a#frag&b"},
        {"/x?a=1&a=10&a=&a&a%3d", "/x?a=1&a=10&a=&a&a%3d"}, {"/x?b?c&a?d&", "/x?a?d&b?c"},
        {"/x?a&b", "/x?a&b"}, {"/x?&a", "/x?a"}, {"/x?a&", "/x?a"}, {"/x?a&&b", "/x?a&b"},
        {"/a?c&b&a&c1&b1&a1&ab&abc&a", "/a?a&a1&ab&abc&a&b&b1&c&c1"}, {"", ""},
        {"/a?b#x?a&c", "/a?b#x?a&c"}};

    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        char expr[300];

        snprintf(expr, sizeof(expr), "std.querysort(\"%s\")", t[i].text);
        std_check(&(struct std_case){expr, t[i].want, NULL});
    }
}

/* Texts of each length, of which some need each byte that the function took, and some a chunk of
 * their own.  What is written behind that AddressSanitizer finds: the arena poisons it. */
TEST(vcl_std, texts_of_every_length_fit_what_is_taken_for_them)
{
    static const char *const bodies[] = {
        "set client.identity = std.querysort(req.http.x);",
        "set client.identity = std.toupper(req.http.x) + std.tolower(req.http.x);",
        "set client.identity = tarn.html(req.http.x);",
        "set client.identity = regsuball(req.http.x, \"a\", \"<\\0>\");",
        "set client.identity = regsub(req.http.x, \"(b+)(.*)\", \"\\2\\1\\9\\\");",
        "set client.identity = req.http.x + \",\" + req.http.x + now + 1.5 + req.http.none;",
        "set client.identity = std.strftime(now, regsub(req.http.x, \"^(.{0,60}).*\", \"\\1\"))"
        " + std.ip(req.http.x, \"::1\");",
        "std.collect(req.http.x, \"; \");",
        "cookie.parse(req.http.x); cookie.set(req.http.x, req.http.x); cookie.keep(\"a,b\");"
        "set client.identity = cookie.get_string() + cookie.format_date(now, 1s);",
        "cookie.parse(req.http.x); cookie.filter_re(\"a\");"
        "set client.identity = cookie.get_string();",
    };
    static const char some[] = "ab&&=;<?bA %";
    static struct fake_vcl f;
    static char value[5000];

    srandom(4);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        char text[600];
        struct vcl *v;

        snprintf(text, sizeof(text),
            "vcl 4.1; import std; import cookie; import tarn;"
            "sub vcl_recv { %s return (pass); }",
            bodies[i]);
        v = fake_vcl_compile(text, true);
        CHECK(v != NULL);
        for (size_t len = 1; len < 4300; len += len == 100 ? 3950 : 1) {
            for (unsigned n = 0; n < 10; n++) {
                for (size_t k = 0; k < len; k++)
                    value[k] = k == 0 ? '?' : some[(size_t)random() % (sizeof(some) - 1)];
                value[len] = '\0';
                fake_vcl_init(&f, v);
                fake_vcl_field(&f, VCL_HTTP_REQ, "x", value);
                fake_vcl_field(&f, VCL_HTTP_REQ, "x", value + len / 2);
                if (fake_vcl_run(&f, VCL_SUB_RECV) != VCL_ACT_PASS)
                    fail_msg("'%s' of %zu bytes fails: %s", bodies[i], len, f.run.why);
                fake_vcl_fini(&f);
            }
        }
        vcl_free(&v);
    }
}

TEST(vcl_std, a_query_of_too_many_parameters_stays)
{
    char expr[800], url[700], *p = stpcpy(url, "/?");

    for (unsigned i = 0; i < 300; i++)
        p = stpcpy(p, i == 299 ? "a" : "b&");
    snprintf(expr, sizeof(expr), "std.querysort(\"%s\")", url);
    std_check(&(struct std_case){expr, url, NULL});
}

TEST(vcl_std, strings)
{
    static const struct std_case cases[] = {
        {"std.toupper(\"aBc-\xe9\")", "ABC-\xe9", NULL},
        {"std.tolower(\"aBc\")", "abc", NULL},
        {"std.tolower(req.http.none)", "", NULL},
        {"std.strstr(\"abc\", \"b\")", "bc", NULL},
        {"std.strstr(\"abc\", \"\")", "abc", NULL},
        {"\"\" + std.strstr(\"abc\", \"x\")", "", NULL},
        {"\"\" + (std.fnmatch(\"/foo/*\", \"/foo/bar\"))", "true", NULL},
        {"\"\" + (std.fnmatch(\"/foo/*\", \"/foo/bar/baz\"))", "false", NULL},
        {"\"\" + (std.fnmatch(\"/foo/*\", \"/foo/bar/baz\", pathname=false))", "true", NULL},
        {"\"\" + (std.fnmatch(\"*\", \".x\", period=true))", "false", NULL},
        {"\"\" + (std.fnmatch(\"\\*\", \"*\"))", "true", NULL},
        {"\"\" + (std.fnmatch(\"\\*\", \"\\x\", noescape=true))", "true", NULL},
        {"\"\" + std.fnmatch(req.http.none, \"a\")", NULL, "std.fnmatch: the pattern is unset"},
        {"\"\" + std.fnmatch(\"a\", req.http.none)", NULL, "std.fnmatch: the subject is unset"},
        {"\"\" + std.round(2.5)", "3.000", NULL},
        {"\"\" + std.round(-2.5)", "-3.000", NULL},
        {"\"\" + std.round(0.49)", "0.000", NULL},
        {"\"\" + std.random(1, 1)", "1.000", NULL},
    };

    std_check_all(cases, ARRAY_LEN(cases));
}

TEST(vcl_std, what_is_not_found_is_unset)
{
    struct vcl *v = fake_vcl_compile("vcl 4.1; import std; sub vcl_recv {"
                                     "if (std.strstr(\"abc\", \"x\")) { return (pipe); }"
                                     "if (std.querysort(req.http.none)) { return (purge); }"
                                     "return (pass); }",
        true);
    static struct fake_vcl f;

    fake_vcl_init(&f, v);
    CHECK_EQ(VCL_ACT_PASS, fake_vcl_run(&f, VCL_SUB_RECV));
    fake_vcl_fini(&f);
    vcl_free(&v);
}

TEST(vcl_std, collect_makes_one_field_of_several)
{
    static const char *const fields[] = {"x", "1", "X", "2", "y", "a=b", "Y", "c", "z", "1", "z",
        "2", "e", "", "e", "v", "e", "", "one", "1", NULL};
    struct vcl *v = fake_vcl_compile(
        "vcl 4.1; import std; sub vcl_recv { std.collect(req.http.x);"
        "std.collect(req.http.y, \"; \"); std.collect(req.http.z, \"\");"
        "std.collect(req.http.none); std.collect(req.http.e); std.collect(req.http.one); }"
        "sub vcl_hit { std.collect(obj.http.x); }",
        true);
    static struct fake_vcl f;

    fake_vcl_init(&f, v);
    for (const char *const *p = fields; *p != NULL; p += 2)
        fake_vcl_field(&f, VCL_HTTP_REQ, p[0], p[1]);
    CHECK_EQ(VCL_ACT_NONE, fake_vcl_run(&f, VCL_SUB_RECV));
    CHECK_STR("x: 1, 2\ny: a=b; c\nz: 1, 2\ne: , v, \n", f.log);
    CHECK_EQ(VCL_ACT_FAIL, fake_vcl_run(&f, VCL_SUB_HIT));
    fake_vcl_fini(&f);
    vcl_free(&v);
}

TEST(vcl_std, random_stays_between_its_bounds)
{
    static struct fake_vcl f;
    struct vcl_value args[2] = {{.r = -2}, {.r = 3}}, out;
    double least = 9, most = -9;

    fake_vcl_init(&f, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQ(0, vcl_std_call(&f.run, VCL_FN_STD_RANDOM, args, 3, &out));
        least = out.r < least ? out.r : least;
        most = out.r > most ? out.r : most;
    }
    CHECK(least >= -2 && least < -1.9);
    CHECK(most < 3 && most > 2.9);
    fake_vcl_fini(&f);
}

/* libc's fnmatch() is what Varnish calls. */
TEST(vcl_std, shell_patterns_match_as_in_libc)
{
    static const char some[] = "ab/.*?[]!-\\c";

    srandom(4);
    for (unsigned i = 0; i < 300000; i++) {
        char pattern[9], subject[9];
        size_t np = (size_t)random() % 8, ns = (size_t)random() % 8;
        unsigned flags = (unsigned)random() % 8;
        int libc = (flags & VCL_GLOB_PATHNAME ? FNM_PATHNAME : 0) |
                   (flags & VCL_GLOB_NOESCAPE ? FNM_NOESCAPE : 0) |
                   (flags & VCL_GLOB_PERIOD ? FNM_PERIOD : 0);

        for (size_t j = 0; j < np; j++)
            pattern[j] = some[(size_t)random() % (sizeof(some) - 1)];
        for (size_t j = 0; j < ns; j++)
            subject[j] = some[(size_t)random() % 5];
        pattern[np] = subject[ns] = '\0';
        if ((strchr(pattern, '[') != NULL && strchr(pattern, '/') != NULL) ||
            strstr(pattern, "[.") != NULL)
            continue; /* a '/' in brackets, and collating symbols: nobody agrees, nobody has them */
        if (vcl_glob(slice_of(pattern, np), slice_of(subject, ns), flags) !=
            (fnmatch(pattern, subject, libc) == 0))
            fail_msg("'%s' on '%s' with %u differs", pattern, subject, flags);
    }
}

TEST_MAIN(TEST_ENTRY(vcl_std, integer_of_a_text),
    TEST_ENTRY(vcl_std, cookie_parse_of_more_cookies_than_the_workspace_holds_fails_the_run),
    TEST_ENTRY(vcl_std, integer_of_other_types),
    TEST_ENTRY(vcl_std, real_of_a_text_and_of_other_types),
    TEST_ENTRY(vcl_std, duration_of_a_text_has_a_unit), TEST_ENTRY(vcl_std, bytes_of_a_text),
    TEST_ENTRY(vcl_std, time_of_a_text), TEST_ENTRY(vcl_std, strftime_is_in_utc),
    TEST_ENTRY(vcl_std, ip_is_numeric_and_may_have_a_port), TEST_ENTRY(vcl_std, querysort),
    TEST_ENTRY(vcl_std, texts_of_every_length_fit_what_is_taken_for_them),
    TEST_ENTRY(vcl_std, a_query_of_too_many_parameters_stays), TEST_ENTRY(vcl_std, strings),
    TEST_ENTRY(vcl_std, what_is_not_found_is_unset),
    TEST_ENTRY(vcl_std, collect_makes_one_field_of_several),
    TEST_ENTRY(vcl_std, random_stays_between_its_bounds),
    TEST_ENTRY(vcl_std, shell_patterns_match_as_in_libc))
