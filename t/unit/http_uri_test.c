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
    CHECK_STR("a!$&'()*+,;=b", normal("A!$&'()*+,;=b:80", HTTP_SCHEME_HTTP)); /* sub-delims */
    CHECK_STR("caf%c3%a9.%41", normal("Caf%C3%A9.%41", HTTP_SCHEME_HTTP));    /* escapes stay */
}

TEST(uri, authorities_are_judged_strictly)
{
    static const char *const bad[] = {"", ":80", ".", "..", "a..b", "a..", ".a", "u@h", "u:p@h",
        "h:80:80", "h:65536", "h:99999999999999999999", "h:-1", "h:+80", "h: 80", "h:8o", "h h",
        "h/p", "h?q", "h#f", "h\\p", "a, b", "h%", "h%4", "h%4g", "h%2f", "h%00", "h%3a80", "h%40",
        "h%20", "h%25", "h\x80", "[", "[]", "[::1", "::1", "[::1]x", "[::1]80", "[::g]",
        "[1.2.3.4]", "[::1%eth0]", "[v1.a]", "[::1]:", "h\t"};
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
        "http:/h/p", "http:h", "ftp://h/p", "httpss://h/p", "https:/h", "http://h%/p", "/a#b",
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

static void
resolves(const char *want, const char *base, const char *reference)
{
    struct slice path = slice_str(base), ref = slice_str(reference);
    char out[256];
    size_t len = strlen(want), room = path.len + ref.len + 1;
    int got;

    CHECK(room < sizeof(out));
    got = http_uri_resolve(SLICE_LIT("a"), path, ref, (struct span){out, room});
    CHECK_EQ(len, got);
    CHECK(slice_eq(slice_of(out, len), slice_str(want)));
    for (room = 0; room < len; room++)
        CHECK_EQ(TERR_LIMIT, http_uri_resolve(SLICE_LIT("a"), path, ref, (struct span){out, room}));
}

TEST(uri, references_resolve_as_rfc_3986_has_them)
{
    static const char *const rows[][2] = {/* sections 5.4.1 and 5.4.2, against /b/c/d;p?q */
        {"g", "/b/c/g"}, {"./g", "/b/c/g"}, {"g/", "/b/c/g/"}, {"/g", "/g"}, {"?y", "/b/c/d;p?y"},
        {"g?y", "/b/c/g?y"}, {"#s", "/b/c/d;p?q"}, {"g#s", "/b/c/g"}, {"g?y#s", "/b/c/g?y"},
        {";x", "/b/c/;x"}, {"g;x", "/b/c/g;x"}, {"g;x?y#s", "/b/c/g;x?y"}, {"", "/b/c/d;p?q"},
        {".", "/b/c/"}, {"./", "/b/c/"}, {"..", "/b/"}, {"../", "/b/"}, {"../g", "/b/g"},
        {"../..", "/"}, {"../../", "/"}, {"../../g", "/g"}, {"../../../g", "/g"},
        {"../../../../g", "/g"}, {"/./g", "/g"}, {"/../g", "/g"}, {"g.", "/b/c/g."},
        {".g", "/b/c/.g"}, {"g..", "/b/c/g.."}, {"..g", "/b/c/..g"}, {"./../g", "/b/g"},
        {"./g/.", "/b/c/g/"}, {"g/./h", "/b/c/g/h"}, {"g/../h", "/b/c/h"},
        {"g;x=1/./y", "/b/c/g;x=1/y"}, {"g;x=1/../y", "/b/c/y"}, {"g?y/./x", "/b/c/g?y/./x"},
        {"g?y/../x", "/b/c/g?y/../x"}, {"g#s/../x", "/b/c/g"},
        /* our own */
        {"?", "/b/c/d;p?"}, {"//a", "/"}, {"//a?x", "/?x"}, {"//A./x", "/x"}, {"//a:80/x", "/x"},
        {"http://a", "/"}, {"http://a/", "/"}, {"HTTP://A:80/x?y#z", "/x?y"}, {"http://a?", "/?"},
        {"https://a:443/x", "/x"}, {"http://a:/x", "/x"}, {"http://a/./b/../c", "/c"},
        {"http://a#f", "/"}, {"/x//y/../z", "/x//z"}, {"//a//x", "//x"}, {"/%2e%2E/x", "/%2e%2E/x"},
        {"/x?a=http://b/", "/x?a=http://b/"}, {"./a:b", "/b/c/a:b"}, {"/a:b", "/a:b"},
        {"..//x", "/b//x"}};
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        resolves(rows[i][1], "/b/c/d;p?q", rows[i][0]);
    resolves("/g", "/", "g");
    resolves("/g", "/x", "g");
    resolves("/", "/x", ".");
    resolves("/x?y", "/x?y", "");
    resolves("/g", "/x?y/z", "g");
    resolves("/../x", "/../x", "#f"); /* what was keyed stays as it was */
    resolves("//g", "//", "g");
}

TEST(uri, a_reference_elsewhere_resolves_to_nothing)
{
    static const char *const elsewhere[] = {"http://b/x", "//b/x", "http://a:81/x",
        "https://a:80/x", "http://a:443/x", "ftp://a/x", "mailto:a", "g:h", "data:,x", "//aa/",
        "http://a.b/x"};
    static const char *const bad[] = {"http:x", "http:/x", "http:", "https:", "http://",
        "http:///x", "//", "///x", "http://u@a/x", "//a:x/", "//a:99999/", "/x y", "/\\x",
        "/\xc3\xbc", "a\tb", "http://[::1/x", "/x\001"};
    struct slice a = SLICE_LIT("a");
    char out[64];
    struct span room = {out, sizeof(out)};
    size_t i;

    for (i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        CHECK_EQ(0, http_uri_resolve(a, SLICE_LIT("/p"), slice_str(elsewhere[i]), room));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_SYNTAX, http_uri_resolve(a, SLICE_LIT("/p"), slice_str(bad[i]), room));
    CHECK_EQ(TERR_SYNTAX, http_uri_resolve(a, SLICE_LIT("*"), SLICE_LIT("x"), room));
    CHECK_EQ(TERR_SYNTAX, http_uri_resolve(a, SLICE_LIT(""), SLICE_LIT("x"), room));
    CHECK_EQ(2, http_uri_resolve(SLICE_LIT("[::1]:8080"), SLICE_LIT("/p"),
                    SLICE_LIT("http://[::1]:8080/x"), room));
}

/* Host as `text` has it, with the last good one remembered in *memo. */
static int
remembers(const char *text, struct http_host_memo *memo)
{
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct head_build b;

    return http_target_parse_memo(head_build(&b, text), &scheme, memo);
}

static bool
memo_is(const struct http_host_memo *memo, const char *host)
{
    return memo->len == strlen(host) && memcmp(memo->text, host, memo->len) == 0;
}

TEST(uri, a_host_that_is_refused_is_never_remembered)
{
    static const char *const bad[] = {
        "a..b", "u@h", "h:99999", "a b", "h/p", "[::1", "b.exampl\x80", "", "%"};
    struct http_host_memo memo = {.len = 0};
    char text[512];

    for (unsigned turn = 0; turn < 2; turn++) { /* with nothing remembered, and with a good one */
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            snprintf(text, sizeof(text), "GET / HTTP/1.1\nHost: %s\n", bad[i]);
            CHECK_EQ(TERR_SYNTAX, remembers(text, &memo));
            CHECK_EQ(TERR_SYNTAX, remembers(text, &memo)); /* once more: it would be found now */
            CHECK(memo_is(&memo, turn == 0 ? "" : "b.example"));
        }
        CHECK_EQ(TERR_SYNTAX, remembers("GET / HTTP/1.1\nHost: a\nHost: a\n", &memo));
        CHECK_EQ(0, remembers("GET / HTTP/1.1\nHost: b.example\n", &memo));
        CHECK(memo_is(&memo, "b.example"));
    }
    CHECK_EQ(TERR_SYNTAX, /* two that are both the one that is remembered */
        remembers("GET / HTTP/1.1\nHost: b.example\nHost: b.example\n", &memo));
    CHECK_EQ(TERR_SYNTAX, remembers("GET / HTTP/1.1\nHost: b.exampl\n"
                                    "Host: e\n",
                              &memo));
    CHECK_EQ(TERR_SYNTAX, remembers("GET / HTTP/1.1\nX: b.example\n", &memo)); /* none at all */
    CHECK_EQ(0, remembers("GET / HTTP/1.1\nHost: c\n", &memo));
    CHECK(memo_is(&memo, "c"));
}

TEST(uri, only_what_fits_is_remembered)
{
    struct http_host_memo memo = {.len = 0};
    char text[1024] = "GET / HTTP/1.1\nHost: c:";
    size_t n = strlen(text);

    CHECK_EQ(0, remembers("GET / HTTP/1.1\nHost: b\n", &memo));
    memset(text + n, '0', 400); /* a port of any length is one port */
    memcpy(text + n + 400, "80\n", 4);
    CHECK_EQ(0, remembers(text, &memo));
    CHECK(memo.len <= sizeof(memo.text));
}

TEST_MAIN(TEST_ENTRY(uri, a_host_that_is_refused_is_never_remembered),
    TEST_ENTRY(uri, only_what_fits_is_remembered),
    TEST_ENTRY(uri, references_resolve_as_rfc_3986_has_them),
    TEST_ENTRY(uri, a_reference_elsewhere_resolves_to_nothing),
    TEST_ENTRY(uri, authorities_have_one_normal_form),
    TEST_ENTRY(uri, authorities_are_judged_strictly),
    TEST_ENTRY(uri, targets_are_split_and_their_bytes_kept),
    TEST_ENTRY(uri, an_absolute_target_replaces_host),
    TEST_ENTRY(uri, doubtful_targets_are_refused),
    TEST_ENTRY(uri, host_is_required_single_and_valid))
