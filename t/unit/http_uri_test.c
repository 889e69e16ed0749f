/* http_uri_test.c -- request targets and authorities. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/uri.h"

/* The normal form, or the error's name. */
static const char *
normal(const char *text, enum http_scheme scheme)
{
    static char out[HTTP_AUTHORITY_MAX + 1];
    int len = http_authority_normal(slice_str(text), scheme, (struct span){out, sizeof(out) - 1});

    if (len < 0)
        return terr_name(len);
    out[len] = '\0';
    return out;
}

TEST(uri, authorities_have_one_normal_form)
{
    CHECK_STR("example.com", normal("Example.COM", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com", normal("example.com.", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com", normal("example.com:", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com", normal("example.com:80", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com", normal("example.com.:0080", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com:80", normal("example.com:80", HTTP_SCHEME_HTTPS));
    CHECK_STR("example.com", normal("example.com:443", HTTP_SCHEME_HTTPS));
    CHECK_STR("example.com:65535", normal("example.com:65535", HTTP_SCHEME_HTTP));
    CHECK_STR("example.com:0", normal("example.com:0", HTTP_SCHEME_HTTP));
    CHECK_STR("127.0.0.1:8080", normal("127.0.0.1:8080", HTTP_SCHEME_HTTP));
    CHECK_STR("[::1]:8080", normal("[::1]:8080", HTTP_SCHEME_HTTP));
    CHECK_STR("[fe80::ab]", normal("[FE80::AB]:80", HTTP_SCHEME_HTTP));
    CHECK_STR("[::ffff:1.2.3.4]", normal("[::ffff:1.2.3.4]", HTTP_SCHEME_HTTP));
    CHECK_STR("a_b-c.d~e", normal("a_b-c.d~e", HTTP_SCHEME_HTTP));
}

TEST(uri, authorities_are_judged_strictly)
{
    static const char *const bad[] = {"", ":80", ".", "..", "a..b", "a..", ".a", "u@h", "u:p@h",
        "h:80:80", "h:65536", "h:99999999999999999999", "h:-1", "h:+80", "h: 80", "h:8o", "h h",
        "h/p", "h?q", "h#f", "h\\p", "a,b", "a, b", "h%41", "h\x80", "[", "[]", "[::1", "::1",
        "[::1]x", "[::1]80", "[::g]", "[1.2.3.4]", "[::1%eth0]", "[v1.a]", "[::1]:", "h;x", "h\t"};
    char out[HTTP_AUTHORITY_MAX], name[HTTP_HOST_MAX + 2];
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (strcmp(bad[i], "[::1]:") == 0)
            CHECK_STR("[::1]", normal(bad[i], HTTP_SCHEME_HTTP)); /* an empty port is none */
        else
            CHECK_STR("SYNTAX", normal(bad[i], HTTP_SCHEME_HTTP));
    }
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    CHECK_STR("SYNTAX", normal(name, HTTP_SCHEME_HTTP));
    name[HTTP_HOST_MAX] = '\0';
    CHECK_STR(name, normal(name, HTTP_SCHEME_HTTP));
    CHECK_EQ(TERR_SYNTAX,
        http_authority_normal(SLICE_LIT("a\0b"), HTTP_SCHEME_HTTP, (struct span){out, 99}));
    CHECK_EQ(TERR_SYNTAX,
        http_authority_normal(SLICE_LIT("[::1\0]"), HTTP_SCHEME_HTTP, (struct span){out, 99}));
    CHECK_EQ(TERR_LIMIT,
        http_authority_normal(SLICE_LIT("abcdef"), HTTP_SCHEME_HTTP, (struct span){out, 6}));
}

static int
parse(struct head_build *b, const char *text, enum http_scheme *scheme)
{
    *scheme = HTTP_SCHEME_HTTP;
    return http_target_parse(head_build(b, text), scheme);
}

static int
error_of(const char *text)
{
    struct head_build b;
    enum http_scheme scheme;

    return parse(&b, text, &scheme);
}

static bool
reads_as(const char *text, const char *host, const char *path)
{
    struct head_build b;
    enum http_scheme scheme;

    return parse(&b, text, &scheme) == 0 && slice_eq(http_host(&b.h), slice_str(host)) &&
           slice_eq(http_path(&b.h), slice_str(path));
}

TEST(uri, targets_are_split_and_their_bytes_kept)
{
    CHECK(reads_as("GET / HTTP/1.1\nHost: h\n", "h", "/"));
    CHECK(reads_as(
        "GET /a/../%2e%00//;x?a=b&c?d HTTP/1.1\nHost: H:80\n", "H:80", "/a/../%2e%00//;x?a=b&c?d"));
    CHECK(reads_as("GET //evil/x HTTP/1.1\nHost: h\n", "h", "//evil/x"));
    CHECK(reads_as("GET /http://x/ HTTP/1.1\nHost: h\n", "h", "/http://x/"));
    CHECK(reads_as("OPTIONS * HTTP/1.1\nHost: h\n", "h", "*"));
    CHECK(reads_as("GET / HTTP/1.0\n", "", "/"));
}

TEST(uri, an_absolute_target_replaces_host)
{
    struct head_build b;
    enum http_scheme scheme;

    CHECK_EQ(0, parse(&b, "GET HTTPS://b:8443/p HTTP/1.1\nHost: a\n", &scheme));
    CHECK_EQ(HTTP_SCHEME_HTTPS, scheme);
    CHECK(reads_as("GET http://b/p?q HTTP/1.1\nHost: a\n", "b", "/p?q"));
    CHECK(reads_as("GET http://b HTTP/1.1\nHost: a\n", "b", "/"));
    CHECK(reads_as("OPTIONS http://b HTTP/1.1\nHost: a\n", "b", "*"));
    CHECK(reads_as("OPTIONS http://b/ HTTP/1.1\nHost: a\n", "b", "/"));
    CHECK(reads_as("GET http://[::1]:81/p HTTP/1.1\nHost: a\n", "[::1]:81", "/p"));
    CHECK(reads_as("GET http://b/p HTTP/1.0\n", "b", "/p"));
}

TEST(uri, doubtful_targets_are_refused)
{
    static const char *const bad[] = {"h:80", "h", "?q", "http://", "http:///p", "http://?q",
        "http://h?q", "http://h?q/p", "http://u@h/p", "http://h:99999/p", "http://h\\p",
        "http:/h/p", "http:h", "ftp://h/p", "httpss://h/p", "https:/h", "http://h;x/p", "/a#b",
        "/a\\b", "/a\x7f", "/\xc3\xa4", "/a\tb", "*", "/\x01", "**", "http://h%2fp/"};
    char text[128];
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\nHost: h\n", bad[i]);
        CHECK_EQ(TERR_SYNTAX, error_of(text));
    }
    CHECK_EQ(TERR_SYNTAX, error_of("OPTIONS ** HTTP/1.1\nHost: h\n"));
    CHECK_EQ(TERR_METHOD, error_of("CONNECT h:443 HTTP/1.1\nHost: h\n"));
    CHECK_EQ(TERR_METHOD, error_of("CONNECT / HTTP/1.1\nHost: h\n"));
}

TEST(uri, host_is_required_single_and_valid)
{
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nX: y\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET http://h/ HTTP/1.1\nX: y\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nHost: h\nHost: h\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.0\nHost: h\nHost: g\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET http://h/ HTTP/1.1\nHost: a\nHost: b\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nHost:\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nHost: a, b\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nHost: http://h\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET / HTTP/1.1\nHost: h/p\n"));
    CHECK_EQ(TERR_SYNTAX, error_of("GET http://h/ HTTP/1.1\nHost: u@h\n"));
}

TEST_MAIN(TEST_ENTRY(uri, authorities_have_one_normal_form),
    TEST_ENTRY(uri, authorities_are_judged_strictly),
    TEST_ENTRY(uri, targets_are_split_and_their_bytes_kept),
    TEST_ENTRY(uri, an_absolute_target_replaces_host),
    TEST_ENTRY(uri, doubtful_targets_are_refused),
    TEST_ENTRY(uri, host_is_required_single_and_valid))
