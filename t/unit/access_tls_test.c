/* access_tls_test.c -- lines of requests that came by TLS, in all formats. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/log/access_line.h"

static struct shmlog_req
some_req(void)
{
    return (struct shmlog_req){
        .fixed = {.start_ms = INT64_C(971211336) * 1000,
            .status = 200,
            .version = 1,
            .body_bytes = 2326,
            .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7}},
        .line = SLICE_LIT("GET /apache_pb.gif"),
    };
}

/* The line as JSON; given back by the caller.  It is one line, and it ends. */
static json_t *
json_line(const struct shmlog_req *r)
{
    static char line[ACCESS_LINE_MAX];
    size_t n = access_format_line(line, ACCESS_FORMAT_JSON, r);
    char why[128] = "";
    json_t *o;

    CHECK(memchr(line, '\n', n) == line + n - 1);
    o = json_parse(slice_of(line, n), why, sizeof(why));
    CHECK_STR("", why);
    CHECK(o != NULL);
    return o;
}

static const char *
json_text(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));

    return text != NULL ? text : "(none)";
}

/* What a handshake said, packed; `from` and on are empty. */
static struct slice
some_tls(char to[SHMLOG_TLS_MAX], unsigned from)
{
    const char *texts[SHMLOG_TLS_COUNT] = {"TLSv1.3", "TLS_AES_128_GCM_SHA256", "r", "a.example",
        "0a1b", "c0ffee", "CN=joe,O=\"x\"", "CN=ca"};

    while (from < SHMLOG_TLS_COUNT)
        texts[from++] = "";
    return slice_of(to, shmlog_tls_pack(to, texts));
}

TEST(access_log, a_line_of_json_has_what_tls_said)
{
    char packed[SHMLOG_TLS_MAX];
    struct shmlog_req r = some_req();
    json_t *o, *tls;

    r.fixed.flags = SHMLOG_REQ_HTTPS | SHMLOG_REQ_HIT;
    r.tls = some_tls(packed, SHMLOG_TLS_COUNT);
    o = json_line(&r);
    CHECK_STR("https", json_text(o, "scheme"));
    CHECK_STR("hit", json_text(o, "cache"));
    tls = json_object_get(o, "tls");
    CHECK_EQ(SHMLOG_TLS_COUNT + 1, json_object_size(tls));
    CHECK(json_is_true(json_object_get(tls, "resumed")));
    CHECK(json_is_false(json_object_get(tls, "early_data")));
    CHECK_STR("TLSv1.3", json_text(tls, "version"));
    CHECK_STR("TLS_AES_128_GCM_SHA256", json_text(tls, "cipher"));
    CHECK_STR("a.example", json_text(tls, "server_name"));
    CHECK_STR("0a1b", json_text(tls, "client_serial"));
    CHECK_STR("c0ffee", json_text(tls, "client_fingerprint"));
    CHECK_STR("CN=joe,O=\"x\"", json_text(tls, "client_subject"));
    CHECK_STR("CN=ca", json_text(tls, "client_issuer"));
    json_decref(o);
    /* Without a certificate of the client, and not resumed; early. */
    r.fixed.flags |= SHMLOG_REQ_EARLY;
    r.tls = some_tls(packed, SHMLOG_TLS_reused);
    o = json_line(&r);
    tls = json_object_get(o, "tls");
    CHECK(json_is_false(json_object_get(tls, "resumed")));
    CHECK(json_is_true(json_object_get(tls, "early_data")));
    CHECK(json_is_null(json_object_get(tls, "server_name")));
    CHECK(json_is_null(json_object_get(tls, "client_subject")));
    json_decref(o);
}

static struct slice
longest_tls(char to[SHMLOG_TLS_MAX])
{
    static char text[SHMLOG_TEXT_MAX + 1];
    const char *texts[SHMLOG_TLS_COUNT];
    size_t n;

    memset(text, 1, sizeof(text) - 1);
    for (unsigned i = 0; i < SHMLOG_TLS_COUNT; i++)
        texts[i] = text;
    n = shmlog_tls_pack(to, texts);
    CHECK_EQ(SHMLOG_TLS_MAX, n);
    return slice_of(to, n);
}

TEST(access_log, the_longest_line_with_tls_fits)
{
    static char buf[ACCESS_LINE_MAX], text[SHMLOG_TEXT_MAX];
    char packed[SHMLOG_TLS_MAX];
    struct shmlog_req r = some_req();

    memset(text, 1, sizeof(text));
    r.line = r.host = r.referer = r.agent = slice_of(text, sizeof(text));
    r.tls = longest_tls(packed);
    memset(&r.fixed, 0xff, sizeof(r.fixed));
    CHECK(access_format_line(buf, ACCESS_FORMAT_JSON, &r) >
          4 * 6 * SHMLOG_TEXT_MAX + 6 * (SHMLOG_TLS_MAX - 2 * SHMLOG_TLS_COUNT));
}

static void
check_pattern(const char *want, const char *format, const struct shmlog_req *r)
{
    static char line[ACCESS_LINE_MAX + 1];
    struct access_pattern pattern;
    char why[1024] = "";

    CHECK(access_pattern_is(format));
    CHECK_EQ(0, access_pattern_parse(&pattern, slice_str(format), why, sizeof(why)));
    line[access_line(line, &pattern, r, NULL)] = '\0';
    CHECK_STR(want, line);
}

#define TLS_FORMAT                                                                   \
    "$scheme $https $ssl_protocol $ssl_cipher $ssl_session_reused $ssl_server_name " \
    "$ssl_client_s_dn $ssl_client_i_dn $ssl_client_serial $ssl_client_fingerprint"

TEST(access_log, a_format_of_its_own_has_what_tls_said_and_dashes_on_plain_connections)
{
    char packed[SHMLOG_TLS_MAX];
    struct shmlog_req r = some_req();

    check_pattern("http - - - - - - - - -\n", TLS_FORMAT, &r);
    r.fixed.flags = SHMLOG_REQ_HTTPS; /* a trusted proxy's word */
    check_pattern("https on - - - - - - - -\n", TLS_FORMAT, &r);
    r.tls = some_tls(packed, SHMLOG_TLS_COUNT);
    check_pattern("https on TLSv1.3 TLS_AES_128_GCM_SHA256 r a.example CN=joe,O=\\x22x\\x22 CN=ca "
                  "0a1b c0ffee\n",
        TLS_FORMAT, &r);
    check_pattern("-\n", "$ssl_early_data", &r);
    r.fixed.flags |= SHMLOG_REQ_EARLY;
    check_pattern("1\n", "$ssl_early_data", &r);
    r.tls = some_tls(packed, SHMLOG_TLS_server_name);
    check_pattern("https on TLSv1.3 TLS_AES_128_GCM_SHA256 r - - - - -\n", TLS_FORMAT, &r);
    /* A record of a damaged ring. */
    r.tls = SLICE_LIT("TLSv1.3");
    check_pattern("https on - - - - - - - -\n", TLS_FORMAT, &r);
    r.tls = SLICE_LIT("TLSv1.3-and-so-much-more-that-it-is-none\0\n\0");
    check_pattern("https on TLSv1.3-and-so-m \\x0A - - - - - -\n", TLS_FORMAT, &r);
}

/* Each row's bound holds: the fields may stand in one format, all of them. */
TEST(access_log, no_field_of_tls_is_longer_than_its_row_says)
{
    static const struct {
        const char *name;
        size_t most;
    } rows[] = {
#define X(name, most, doc) {"$" #name, most},
        ACCESS_FIELD_TABLE(X)
#undef X
    };
    static char buf[ACCESS_LINE_MAX];
    struct access_pattern pattern;
    struct shmlog_req r = some_req();
    char why[1024], packed[SHMLOG_TLS_MAX];
    size_t all = 0;

    r.tls = longest_tls(packed);
    r.fixed.flags = SHMLOG_REQ_HTTPS;
    for (unsigned i = ACCESS_FIELD_scheme; i < ACCESS_FIELD_COUNT; i++) {
        size_t n;

        CHECK_EQ(0, access_pattern_parse(&pattern, slice_str(rows[i].name), why, sizeof(why)));
        n = access_line(buf, &pattern, &r, NULL);
        CHECK(n > 1 && n <= rows[i].most + 1);
        all += rows[i].most;
    }
    CHECK(all < ACCESS_PATTERN_LINE_MAX / 3);
}

TEST_MAIN(TEST_ENTRY(access_log, a_line_of_json_has_what_tls_said),
    TEST_ENTRY(access_log, the_longest_line_with_tls_fits),
    TEST_ENTRY(access_log, a_format_of_its_own_has_what_tls_said_and_dashes_on_plain_connections),
    TEST_ENTRY(access_log, no_field_of_tls_is_longer_than_its_row_says))
