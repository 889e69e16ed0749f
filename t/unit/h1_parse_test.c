/* h1_parse_test.c -- heads: whole, byte by byte and cut anywhere, the answer is the same; and
 * what must be refused is.  Bodies: h1_body_test.c. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/http/token.h"
#include "t/unit/h1_parse_try.h"

#define GET   "GET / HTTP/1.1\r\nHost: a\r\n"
#define OK200 "HTTP/1.1 200 OK\r\n"

static void
show(const char *what, struct slice text)
{
    size_t i;

    fprintf(stderr, "%s: ", what);
    for (i = 0; i < text.len && i < 200; i++)
        fprintf(stderr, text.ptr[i] > ' ' && text.ptr[i] < 127 ? "%c" : "\\x%02x",
            (unsigned char)text.ptr[i]);
    fprintf(stderr, "\n");
}

/* The answer, which must be the same however the bytes arrive. */
static int
judge(bool is_response, struct slice text)
{
    static struct h1_try whole, other;
    size_t cut;
    int rc;

    h1_try_init(&whole);
    h1_try_init(&other);
    rc = h1_try_whole(&whole, is_response, text);
    for (cut = 0; cut <= text.len; cut++) {
        int got = cut == 0 ? h1_try_steps(&other, is_response, text, 1)
                           : h1_try_split(&other, is_response, text, cut);

        if (got != rc || (rc == 1 && !h1_try_same_heads(&whole, &other))) {
            show(cut == 0 ? "judged otherwise byte by byte" : "judged otherwise when cut", text);
            fail_msg("cut at %zu: %d, whole: %d", cut, got, rc);
        }
    }
    h1_try_fini(&whole);
    h1_try_fini(&other);
    return rc;
}

static void
check_all(bool is_response, int want, const struct slice *texts, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        int rc = judge(is_response, texts[i]);

        if (rc != want) {
            show("judged wrongly", texts[i]);
            fail_msg("row %zu: %d, want %d", i, rc, want);
        }
    }
}

static bool
field_is(const struct h1_try *t, unsigned i, const char *name, const char *value)
{
    const struct http_field *f = &t->head.fields[i];

    return slice_eq(http_name(&t->head, f), slice_str(name)) &&
           slice_eq(http_value(&t->head, f), slice_str(value));
}

/* ---- requests that are good ---- */

TEST(h1_parse, a_request_head_is_taken_apart)
{
    static const char text[] = "PURGE /a?b=%20;c HTTP/1.0\r\nHost: example.com:80\r\n"
                               "X-Strange:  two  words \t\r\nEmpty:\r\nBlank: \t \r\n"
                               "accept:*/*\r\nContent-Length: 3\r\n\r\nabc";
    struct slice s = slice_of(text, sizeof(text) - 1);
    struct h1_try t;

    CHECK_EQ(1, judge(false, s));
    h1_try_init(&t);
    for (size_t step = 1; step <= s.len; step++) {
        CHECK_EQ(1, h1_try_steps(&t, false, s, step));
        CHECK_EQ(s.len - 3, t.head.len);
        CHECK_EQ(0, t.head.version_minor);
        CHECK(slice_eq(http_slice(&t.head, 0, t.head.method_len), SLICE_LIT("PURGE")));
        CHECK(slice_eq(
            http_slice(&t.head, t.head.target_off, t.head.target_len), SLICE_LIT("/a?b=%20;c")));
        CHECK_EQ(6, t.head.nfields);
        CHECK(field_is(&t, 0, "Host", "example.com:80"));
        CHECK(field_is(&t, 1, "X-Strange", "two  words"));
        CHECK(field_is(&t, 2, "Empty", ""));
        CHECK(field_is(&t, 3, "Blank", ""));
        CHECK(field_is(&t, 4, "accept", "*/*"));
        CHECK_EQ(HTTP_F_HOST, t.head.fields[0].id);
        CHECK_EQ(HTTP_F_OTHER, t.head.fields[1].id);
        CHECK_EQ(HTTP_F_CONTENT_LENGTH, t.head.fields[5].id);
        CHECK(http_has(&t.head, HTTP_F_HOST) && !http_has(&t.head, HTTP_F_DATE));
    }
    h1_try_fini(&t);
}

TEST(h1_parse, good_requests_are_accepted)
{
    static const struct slice good[] = {
        SLICE_LIT("GET / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.0\r\n\r\n"),
        SLICE_LIT("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        SLICE_LIT("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
        SLICE_LIT("GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n"),
        SLICE_LIT("gET / HTTP/1.1\r\nHost: a\r\n\r\n"), /* a method of its own */
        SLICE_LIT("!#$%&'*+-.^_`|~09 / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("PRI * HTTP/1.1\r\nHost: a\r\n\r\n"),
        SLICE_LIT(GET "X:\xc3\xa9\r\n\r\n"), /* obs-text */
        SLICE_LIT(GET "!#$%&'*+-.^_`|~09az: x\r\n\r\n"),
        SLICE_LIT(GET "Connection: upgrade\r\nUpgrade: websocket\r\n\r\nbehind"),
        SLICE_LIT(GET "Connection: keep-alive, close , x\r\nConnection:\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding: chunked\r\n\r\n5\r\nhello"),
        SLICE_LIT(GET "Transfer-Encoding: chunked \t \r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 0\r\n\r\n" GET "\r\n"),
        SLICE_LIT(GET "Content-Length:\t 12 \t\r\n\r\n"),
        SLICE_LIT(GET "A: 1\r\nA: 2\r\na: 3\r\n\r\n"),
    };

    check_all(false, 1, good, ARRAY_LEN(good));
}

TEST(h1_parse, an_unfinished_head_wants_more)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    struct h1_try t;

    h1_try_init(&t);
    for (size_t len = 1; len < sizeof(text) - 1; len++)
        CHECK_EQ(0, judge(false, slice_of(text, len)));
    h1_try_start(&t, false);
    CHECK_EQ(0, h1_try_feed(&t, text, 20));
    CHECK_EQ(0, h1_try_feed(&t, text, 20)); /* nothing new: nothing changes */
    CHECK_EQ(1, h1_try_feed(&t, text, sizeof(text) - 1));
    CHECK_EQ(2, t.head.nfields);
    h1_try_fini(&t);
}

/* ---- requests that are refused: RFC 9112 2 to 5 ---- */

TEST(h1_parse, malformed_request_lines_are_refused)
{
    static const struct slice bad[] = {
        SLICE_LIT("GET /\r\n\r\n"), /* HTTP/0.9 */
        SLICE_LIT("GET\r\n\r\n"), SLICE_LIT("GET \r\n\r\n"), SLICE_LIT("GET  / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET /  HTTP/1.1\r\n\r\n"), SLICE_LIT("GET / HTTP/1.1 \r\n\r\n"),
        SLICE_LIT("GET / a HTTP/1.1\r\n\r\n"), SLICE_LIT(" GET / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET\t/ HTTP/1.1\r\n\r\n"), SLICE_LIT("GET /\tHTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.1\t\r\n\r\n"), SLICE_LIT("GET HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET  HTTP/1.1\r\n\r\n"), SLICE_LIT("/ HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET / http/1.1\r\n\r\n"), SLICE_LIT("GET / Http/1.1\r\n\r\n"),
        SLICE_LIT("GET / RTSP/1.0\r\n\r\n"), SLICE_LIT("SOURCE / ICE/1.0\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1\r\n\r\n"), SLICE_LIT("GET / HTTP/1.\r\n\r\n"),
        SLICE_LIT("GET / HTTP/.1\r\n\r\n"), SLICE_LIT("GET / HTTP/1.10\r\n\r\n"),
        SLICE_LIT("GET / HTTP/01.1\r\n\r\n"), SLICE_LIT("GET / HTTP/1,1\r\n\r\n"),
        SLICE_LIT("GET / HTTP/a.1\r\n\r\n"), SLICE_LIT("GET / HTTP 1.1\r\n\r\n"),
        SLICE_LIT("GET / HTTPS/1.1\r\n\r\n"), SLICE_LIT("GET(x) / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("G\xc3\x89T / HTTP/1.1\r\n\r\n"), SLICE_LIT("GET /#x HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET /\\x HTTP/1.1\r\n\r\n"), SLICE_LIT("GET /\xc3\xa9 HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET /\x7f HTTP/1.1\r\n\r\n"), SLICE_LIT("GET /\0 HTTP/1.1\r\n\r\n"),
        SLICE_LIT("GET\0/ HTTP/1.1\r\n\r\n"), SLICE_LIT("GET / HTTP/1.1\0\r\n\r\n"),
        SLICE_LIT("GET /\rx HTTP/1.1\r\n\r\n"), SLICE_LIT("GET / HTTP/1.1\r\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.1\n\r\n\r\n"), /* a bare LF ends no line */
        SLICE_LIT("GET / HTTP/1.1\nHost: a\r\n\r\n"), SLICE_LIT("\nGET / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("\rGET / HTTP/1.1\r\n\r\n"),
        SLICE_LIT("\r\nGET / HTTP/1.1\r\n\r\n"), /* the caller skips those it tolerates */
        SLICE_LIT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), /* TLS */
    };

    check_all(false, TERR_SYNTAX, bad, ARRAY_LEN(bad));
}

TEST(h1_parse, other_versions_are_told_from_garbage)
{
    static const struct slice bad[] = {
        SLICE_LIT("GET / HTTP/0.9\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.2\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.9\r\n\r\n"),
        SLICE_LIT("GET / HTTP/2.0\r\n\r\n"),
        SLICE_LIT("GET / HTTP/3.1\r\n\r\n"),
        SLICE_LIT("GET / HTTP/9.9\r\n\r\n"),
        SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    };

    check_all(false, TERR_VERSION, bad, ARRAY_LEN(bad));
}

TEST(h1_parse, malformed_fields_are_refused)
{
    static const struct slice bad[] = {
        SLICE_LIT(GET "X : y\r\n\r\n"), /* white space before the colon, RFC 9112 5.1 */
        SLICE_LIT(GET "X\t: y\r\n\r\n"),
        SLICE_LIT(GET "Content-Length : 5\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding : chunked\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding\t:chunked\r\n\r\n"),
        SLICE_LIT(GET "X y: z\r\n\r\n"),
        SLICE_LIT(GET ": y\r\n\r\n"), /* no name */
        SLICE_LIT(GET "X\r\n\r\n"),   /* no colon */
        SLICE_LIT(GET "X y\r\n\r\n"),
        SLICE_LIT(GET "X: y\r\n z\r\n\r\n"), /* obs-fold, RFC 9112 5.2 */
        SLICE_LIT(GET "X: y\r\n\tz\r\n\r\n"),
        SLICE_LIT(GET "X:\r\n y\r\n\r\n"),
        SLICE_LIT(GET "X: y\r\n \r\n\r\n"),
        SLICE_LIT(GET "Content-Length:\r\n 5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5\r\n 5\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding:\r\n chunked\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding: chunked\r\n , x\r\n\r\n"),
        SLICE_LIT(GET "Connection: close\r\n , x\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), /* before the first field too */
        SLICE_LIT("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.1\r\n \r\n\r\n"),
        SLICE_LIT(GET "X: y\n\r\n"), /* bare LF */
        SLICE_LIT(GET "X: y\nZ: w\r\n\r\n"),
        SLICE_LIT(GET "X: y\r\n\n"),
        SLICE_LIT(GET "X: y\r\n\nZ: w\r\n\r\n"),
        SLICE_LIT(GET "X:\n\r\n"),
        SLICE_LIT(GET "X\n\r\n"),
        SLICE_LIT(GET "\n"),
        SLICE_LIT("GET / HTTP/1.1\r\n\n"),
        SLICE_LIT(GET "Connection: close\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding: chunked\n\r\n"),
        SLICE_LIT(GET "X: y\rZ: w\r\n\r\n"), /* bare CR */
        SLICE_LIT(GET "X: y\r\r\n\r\n"),
        SLICE_LIT(GET "X: \ry\r\n\r\n"),
        SLICE_LIT(GET "X:\r\r\n\r\n"),
        SLICE_LIT(GET "X\r: y\r\n\r\n"),
        SLICE_LIT(GET "\rX: y\r\n\r\n"),
        SLICE_LIT(GET "\r\r\n\r\n"),
        SLICE_LIT(GET "\r \n\r\n"),
        SLICE_LIT(GET "Connection: close\rx\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5\r5\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding: chunked\rx\r\n\r\n"),
        SLICE_LIT(GET "\xef\xbb\xbfX: y\r\n\r\n"),
    };

    check_all(false, TERR_SYNTAX, bad, ARRAY_LEN(bad));
}

/* What llhttp knows of framing it refuses by itself; http/framing.h refuses the rest. */
TEST(h1_parse, contradictory_lengths_are_refused_early)
{
    static const struct slice bad[] = {
        SLICE_LIT(GET "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT(GET "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: +5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: -5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 0x5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5 5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 5, 5\r\n\r\n"),
        SLICE_LIT(GET "Content-Length: 18446744073709551616\r\n\r\n"),
    };

    check_all(false, TERR_SYNTAX, bad, ARRAY_LEN(bad));
}

/* Every byte, before each place of each name that llhttp has states of its own for, and of
 * values short and long (it reads 16 bytes at a time where it can). */
static void
insert_everywhere(struct slice line, bool in_value)
{
    char text[256];
    size_t colon = (size_t)((const char *)memchr(line.ptr, ':', line.len) - line.ptr);
    size_t from = in_value ? colon + 1 : 0, to = in_value ? line.len : colon;
    struct h1_try t;

    h1_try_init(&t);
    for (size_t at = from; at <= to; at++) {
        for (int c = 0; c < 256; c++) {
            char byte = (char)c;
            bool ok =
                in_value ? http_value_ok(slice_of(&byte, 1)) : http_token_ok(slice_of(&byte, 1));
            int n = snprintf(text, sizeof(text), "%s%.*s", GET, (int)at, line.ptr);
            struct slice s;

            if (!in_value && c == ':' && at > 0)
                continue; /* the name ends here, and that is another good line */
            text[n] = byte;
            n += 1 +
                 snprintf(text + n + 1, sizeof(text) - (size_t)n - 1, "%s\r\n\r\n", line.ptr + at);
            s = slice_of(text, (size_t)n);
            for (size_t step = 1; step <= s.len; step += s.len - 1) {
                int rc = h1_try_steps(&t, false, s, step);

                if ((rc != 1 && ok && in_value && byte != '\t' && byte != ' ') ||
                    (rc == 1 && !ok)) {
                    show("judged wrongly", s);
                    fail_msg("byte 0x%02x: %d", c, rc);
                }
            }
        }
    }
    h1_try_fini(&t);
}

TEST(h1_parse, no_byte_that_is_not_in_the_grammar_gets_into_a_name_or_a_value)
{
    insert_everywhere(SLICE_LIT("X: y"), true);
    insert_everywhere(SLICE_LIT("X-Long: abcdefghijklmnopqrstuvwxyz0123456789abcdefghijk"), true);
    insert_everywhere(SLICE_LIT("Connection: close"), true);
    insert_everywhere(SLICE_LIT("Connection: keep-alive, upgrade"), true);
    insert_everywhere(SLICE_LIT("Upgrade: websocket"), true);
    insert_everywhere(SLICE_LIT("X: y"), false);
    insert_everywhere(SLICE_LIT("Connection: close"), false);
    insert_everywhere(SLICE_LIT("Proxy-Connection: close"), false);
    insert_everywhere(SLICE_LIT("Content-Length: 5"), false);
    insert_everywhere(SLICE_LIT("Transfer-Encoding: chunked"), false);
    insert_everywhere(SLICE_LIT("Upgrade: websocket"), false);
}

/* ---- responses ---- */

TEST(h1_parse, a_response_head_is_taken_apart)
{
    static const char text[] =
        "HTTP/1.1 404 Not  Found\r\nServer: x\r\nContent-Length: 2\r\n\r\nab";
    struct slice s = slice_of(text, sizeof(text) - 1);
    struct h1_try t;

    CHECK_EQ(1, judge(true, s));
    h1_try_init(&t);
    CHECK_EQ(1, h1_try_steps(&t, true, s, 1));
    CHECK_EQ(404, t.head.status);
    CHECK_EQ(1, t.head.version_minor);
    CHECK(slice_eq(
        http_slice(&t.head, t.head.reason_off, t.head.reason_len), SLICE_LIT("Not  Found")));
    CHECK_EQ(2, t.head.nfields);
    CHECK(field_is(&t, 0, "Server", "x"));
    CHECK_EQ(s.len - 2, t.head.len);
    h1_try_fini(&t);
}

TEST(h1_parse, good_responses_are_accepted)
{
    static const struct slice good[] = {
        SLICE_LIT("HTTP/1.1 200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.0 200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 \r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200\r\n\r\n"), /* RFC 9112 4: clients tolerate it */
        SLICE_LIT("HTTP/1.1 599 \xc3\xa9\t!\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 100 Continue\r\n\r\n" OK200 "\r\n"),
        SLICE_LIT("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 204 No Content\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
        SLICE_LIT(OK200 "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"),
        SLICE_LIT(OK200 "X:\r\nY:\r\n\r\n"),
    };

    check_all(true, 1, good, ARRAY_LEN(good));
}

TEST(h1_parse, malformed_responses_are_refused)
{
    static const struct slice bad[] = {
        SLICE_LIT("HTTP/1.1\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 \r\n\r\n"),
        SLICE_LIT("HTTP/1.1 20\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 20 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 2000 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 099 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 000 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 -20 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 2x0 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1  200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1\t200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200\tOK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200OK\r\n\r\n"),
        SLICE_LIT("http/1.1 200 OK\r\n\r\n"),
        SLICE_LIT("ICY 200 OK and more\r\n\r\n"),
        SLICE_LIT("RTSP/1.1 200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 O\rK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 O\0K\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 O\x01K\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 O\x7fK\r\n\r\n"),
        SLICE_LIT("\r\nHTTP/1.1 200 OK\r\n\r\n"),
        SLICE_LIT("<html>a page of HTTP/0.9</html>\r\n"),
        SLICE_LIT(OK200 "X : y\r\n\r\n"),
        SLICE_LIT(OK200 "X: y\r\n z\r\n\r\n"),
        SLICE_LIT(OK200 " X: y\r\n\r\n"),
        SLICE_LIT(OK200 "X: y\rz\r\n\r\n"),
        SLICE_LIT(OK200 "X: y\0z\r\n\r\n"),
        SLICE_LIT(OK200 "X: y\x08z\r\n\r\n"),
        SLICE_LIT(OK200 "X\r\n\r\n"),
        SLICE_LIT(OK200 ": y\r\n\r\n"),
        SLICE_LIT(OK200 "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        SLICE_LIT(OK200 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    static const struct slice versions[] = {
        SLICE_LIT("HTTP/2.0 200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.2 200 OK\r\n\r\n"),
        SLICE_LIT("HTTP/0.9 200 OK\r\n\r\n"),
    };

    static const struct slice bare_lf[] = {
        /* see the parameter origin_bare_lf */
        SLICE_LIT("HTTP/1.1 200 OK\n\r\n"),
        SLICE_LIT(OK200 "X: y\n\r\n"),
        SLICE_LIT(OK200 "X: y\r\nZ:\n\r\n"),
        SLICE_LIT(OK200 "\n"),
        SLICE_LIT(OK200 "X: y\r\n\n"),
    };
    static const struct slice statuses[] = {
        /* and origin_status */
        SLICE_LIT("HTTP/1.1 600 OK\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 999 OK\r\n\r\n"),
    };

    check_all(true, TERR_SYNTAX, bad, ARRAY_LEN(bad));
    check_all(true, TERR_BARELF, bare_lf, ARRAY_LEN(bare_lf));
    check_all(true, TERR_STATUS, statuses, ARRAY_LEN(statuses));
    check_all(true, TERR_VERSION, versions, ARRAY_LEN(versions));
}

/* ---- bounds: exactly at, and one over ---- */

enum {
    MAX_LINE = 40,
    MAX_FIELD = 30,
    MAX_HEAD = 120
};

static char bound_text[4096];

/* `fmt` has one %.*s, which is stretched until the text, the start line or whatever the test
 * measures has the wanted size. */
static struct slice
stretch(const char *before, size_t n, const char *after)
{
    size_t b = strlen(before), a = strlen(after);

    tassert(b + n + a < sizeof(bound_text));
    memcpy(bound_text, before, b);
    memset(bound_text + b, 'x', n);
    memcpy(bound_text + b + n, after, a);
    return slice_of(bound_text, b + n + a);
}

/* The answer with the bounds above, the same however the bytes arrive. */
static int
judge_bounds(bool is_response, struct slice text, unsigned max_fields)
{
    struct h1_try t;
    int rc;

    h1_try_init(&t);
    t.limits = (struct h1_limits){MAX_LINE, MAX_FIELD, MAX_HEAD, false, false};
    t.max_fields = max_fields;
    rc = h1_try_whole(&t, is_response, text);
    for (size_t step = 1; step < text.len; step++) {
        int got = h1_try_steps(&t, is_response, text, step);

        if (got != rc) {
            show("judged otherwise", text);
            fail_msg("in steps of %zu: %d, whole: %d", step, got, rc);
        }
    }
    for (size_t cut = 1; cut < text.len; cut++) {
        int got = h1_try_split(&t, is_response, text, cut);

        if (got != rc) {
            show("judged otherwise", text);
            fail_msg("cut at %zu: %d, whole: %d", cut, got, rc);
        }
    }
    h1_try_fini(&t);
    return rc;
}

TEST(h1_parse, a_start_line_of_the_limit_passes_and_one_byte_more_does_not)
{
    static const size_t fixed = sizeof("GET / HTTP/1.1") - 1, rfixed = sizeof("HTTP/1.1 200 ") - 1;

    CHECK_EQ(
        1, judge_bounds(false, stretch("GET /", MAX_LINE - fixed, " HTTP/1.1\r\nA: b\r\n\r\n"), 8));
    CHECK_EQ(TERR_URITOOLONG,
        judge_bounds(
            false, stretch("GET /", MAX_LINE - fixed + 1, " HTTP/1.1\r\nA: b\r\n\r\n"), 8));
    CHECK_EQ(
        1, judge_bounds(true, stretch("HTTP/1.1 200 ", MAX_LINE - rfixed, "\r\nA: b\r\n\r\n"), 8));
    CHECK_EQ(TERR_HEADTOOBIG,
        judge_bounds(true, stretch("HTTP/1.1 200 ", MAX_LINE - rfixed + 1, "\r\nA: b\r\n\r\n"), 8));
    CHECK_EQ(TERR_URITOOLONG, judge_bounds(false, stretch("GET /", 400, ""), 8)); /* no end */
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(true, stretch("HTTP/1.1 200 ", 400, ""), 8));
}

TEST(h1_parse, a_field_line_of_the_limit_passes_and_one_byte_more_does_not)
{
    static const struct {
        const char *before, *after;
    } rows[] = {
        {GET "X: ", "\r\n\r\n"},         /* the last */
        {GET "X: ", "\r\nY: z\r\n\r\n"}, /* and not the last */
        {GET "X", ": yz\r\n\r\n"},       /* long in its name */
        {GET "X: a", "  \t\r\n\r\n"},    /* with white space at its end */
        {GET "Connection: a", " \r\n\r\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t tail = (size_t)(strstr(rows[i].after, "\r\n") - rows[i].after);
        size_t n = MAX_FIELD - (strlen(rows[i].before) - strlen(GET)) - tail;

        CHECK_EQ(1, judge_bounds(false, stretch(rows[i].before, n - 1, rows[i].after), 8));
        CHECK_EQ(1, judge_bounds(false, stretch(rows[i].before, n, rows[i].after), 8));
        CHECK_EQ(
            TERR_HEADTOOBIG, judge_bounds(false, stretch(rows[i].before, n + 1, rows[i].after), 8));
    }
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, stretch(GET "X: ", 60, ""), 8)); /* no end */
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, stretch(GET, 60, ""), 8));
}

/* llhttp finds an empty value behind the CRLF of its line, which therefore counts. */
TEST(h1_parse, white_space_counts_in_a_field_line)
{
    static const struct {
        const char *before, *after;
        int max;
    } rows[] = {
        {"X:", "y", MAX_FIELD},
        {"X:y", "", MAX_FIELD},
        {"X:", "", MAX_FIELD - 2},
        {"Content-Length:1", "", MAX_FIELD},
        {"Content-Length:", "1", MAX_FIELD},
        {"Connection:x", "", MAX_FIELD},
        {"Connection:close", "", MAX_FIELD},
        {"Connection:", "close", MAX_FIELD},
        {"Upgrade:x", "", MAX_FIELD},
    };
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int n = 1; n < 45; n++) {
            int len = snprintf(
                text, sizeof(text), "%s%s%*s%s\r\n\r\n", GET, rows[i].before, n, "", rows[i].after);
            int line = len - 4 - (int)strlen(GET);

            CHECK_EQ(line <= rows[i].max ? 1 : TERR_HEADTOOBIG,
                judge_bounds(false, slice_of(text, (size_t)len), 8));
        }
    }
}

TEST(h1_parse, a_head_of_the_limit_passes_and_one_byte_more_does_not)
{
    static const char fill[] = GET "A: 345678901234567890123456789\r\n"
                                   "B: 345678901234567890123456789\r\nC";
    size_t n = MAX_HEAD - (sizeof(fill) - 1) - strlen(": z\r\n\r\n");

    CHECK_EQ(1, judge_bounds(false, stretch(fill, n, ": z\r\n\r\n"), 8));
    CHECK_EQ(1, judge_bounds(false, stretch(fill, n, ": z\r\n\r\nbody, which does not count"), 8));
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, stretch(fill, n + 1, ": z\r\n\r\n"), 8));
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, stretch(fill, n + 2, ": z\r\n\r\n"), 8));
}

TEST(h1_parse, as_many_fields_as_there_is_room_for_pass_and_one_more_does_not)
{
    static const struct slice five = SLICE_LIT(GET "A: 1\r\nB: 2\r\nC:\r\nD: 4\r\n\r\n");

    CHECK_EQ(1, judge_bounds(false, five, 6));
    CHECK_EQ(1, judge_bounds(false, five, 5));
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, five, 4));
    CHECK_EQ(1, judge_bounds(false, SLICE_LIT("GET / HTTP/1.1\r\n\r\n"), 0));
    CHECK_EQ(TERR_HEADTOOBIG, judge_bounds(false, SLICE_LIT("GET / HTTP/1.1\r\nA: b\r\n\r\n"), 0));
}

TEST(h1_parse, the_largest_head_has_offsets_that_fit)
{
    static char text[LIMIT_HEAD_BYTES + 8];
    struct h1_try t;
    size_t len = (size_t)snprintf(text, sizeof(text), GET "X: ");

    memset(text + len, 'v', LIMIT_HEAD_BYTES - 4 - len);
    memcpy(text + LIMIT_HEAD_BYTES - 4, "\r\n\r\n", 4);
    h1_try_init(&t);
    t.limits =
        (struct h1_limits){LIMIT_HEAD_BYTES, LIMIT_HEAD_BYTES, LIMIT_HEAD_BYTES, false, false};
    CHECK_EQ(1, h1_try_steps(&t, false, slice_of(text, LIMIT_HEAD_BYTES), 4099));
    CHECK_EQ(LIMIT_HEAD_BYTES, t.head.len);
    CHECK_EQ(LIMIT_HEAD_BYTES - 4 - len, t.head.fields[1].value_len);
    text[LIMIT_HEAD_BYTES - 4] = 'v';
    memcpy(text + LIMIT_HEAD_BYTES - 3, "\r\n\r\n", 4);
    CHECK_EQ(TERR_HEADTOOBIG, h1_try_steps(&t, false, slice_of(text, LIMIT_HEAD_BYTES + 1), 4099));
    h1_try_fini(&t);
}

TEST(h1_parse, an_error_stays)
{
    static const struct slice bad = SLICE_LIT(GET "X : y\r\n\r\n");
    struct h1_try t;

    h1_try_init(&t);
    CHECK_EQ(TERR_SYNTAX, h1_try_whole(&t, false, bad));
    t.rc = 0;
    CHECK_EQ(TERR_SYNTAX, h1_try_feed(&t, GET "\r\n", strlen(GET "\r\n")));
    h1_try_fini(&t);
}

/* ---- empty lines before a request, RFC 9112 2.2 ---- */

/* How many bytes are skipped when they arrive `step` at a time; or the error. */
static int
skip_leading(struct slice text, size_t step)
{
    struct h1_try t;
    size_t skipped = 0, end = 0;
    int n = 0;

    h1_try_init(&t);
    h1_try_start(&t, false);
    while (end < text.len) {
        char *block;

        end = text.len - end < step ? text.len : end + step;
        block = malloc(end - skipped);
        CHECK(block != NULL || end == skipped);
        memcpy(block, text.ptr + skipped, end - skipped);
        n = h1_parse_leading(&t.parser, block, end - skipped);
        free(block);
        if (n < 0)
            break;
        skipped += (size_t)n;
    }
    h1_try_fini(&t);
    return n < 0 ? n : (int)skipped;
}

TEST(h1_parse, a_few_empty_lines_before_a_request_are_skipped)
{
    char text[64];
    size_t len;

    for (int lines = 0; lines <= LIMIT_LEADING_CRLF + 2; lines++) {
        int want = lines <= LIMIT_LEADING_CRLF ? 2 * lines : TERR_SYNTAX;

        for (int i = 0; i < lines; i++)
            memcpy(text + 2 * i, "\r\n", 2);
        len = (size_t)(2 * lines + snprintf(text + 2 * lines, 20, "GET / HTTP/1.1"));
        for (size_t step = 1; step <= len; step++)
            CHECK_EQ(want, skip_leading(slice_of(text, len), step));
    }
    CHECK_EQ(0, skip_leading(SLICE_LIT("\nGET"), 1)); /* no such thing: left for the refusal */
    CHECK_EQ(0, skip_leading(SLICE_LIT("\r"), 1));    /* perhaps */
    CHECK_EQ(2, skip_leading(SLICE_LIT("\r\n\r"), 3));
    CHECK_EQ(2, skip_leading(SLICE_LIT("\r\n\n"), 3));
}

TEST(h1_parse, is_built_with_an_llhttp_that_is_new_enough)
{
    int major, minor, patch;

    CHECK_EQ(3, sscanf(h1_llhttp_version(), "%d.%d.%d", &major, &minor, &patch));
    CHECK(major * 10000 + minor * 100 + patch >= 90403);
}

TEST_MAIN(TEST_ENTRY(h1_parse, a_request_head_is_taken_apart),
    TEST_ENTRY(h1_parse, good_requests_are_accepted),
    TEST_ENTRY(h1_parse, an_unfinished_head_wants_more),
    TEST_ENTRY(h1_parse, malformed_request_lines_are_refused),
    TEST_ENTRY(h1_parse, other_versions_are_told_from_garbage),
    TEST_ENTRY(h1_parse, malformed_fields_are_refused),
    TEST_ENTRY(h1_parse, contradictory_lengths_are_refused_early),
    TEST_ENTRY(h1_parse, no_byte_that_is_not_in_the_grammar_gets_into_a_name_or_a_value),
    TEST_ENTRY(h1_parse, a_response_head_is_taken_apart),
    TEST_ENTRY(h1_parse, good_responses_are_accepted),
    TEST_ENTRY(h1_parse, malformed_responses_are_refused),
    TEST_ENTRY(h1_parse, a_start_line_of_the_limit_passes_and_one_byte_more_does_not),
    TEST_ENTRY(h1_parse, a_field_line_of_the_limit_passes_and_one_byte_more_does_not),
    TEST_ENTRY(h1_parse, white_space_counts_in_a_field_line),
    TEST_ENTRY(h1_parse, a_head_of_the_limit_passes_and_one_byte_more_does_not),
    TEST_ENTRY(h1_parse, as_many_fields_as_there_is_room_for_pass_and_one_more_does_not),
    TEST_ENTRY(h1_parse, the_largest_head_has_offsets_that_fit),
    TEST_ENTRY(h1_parse, an_error_stays),
    TEST_ENTRY(h1_parse, a_few_empty_lines_before_a_request_are_skipped),
    TEST_ENTRY(h1_parse, is_built_with_an_llhttp_that_is_new_enough))
