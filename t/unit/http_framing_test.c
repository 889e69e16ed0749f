/* http_framing_test.c -- where messages end, and what is refused instead of guessed. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/framing.h"

static int
request(const char *fields, struct framing *f)
{
    struct head_build b;
    char text[1024];

    snprintf(text, sizeof(text), "POST / HTTP/1.1\nHost: h\n%s\n", fields);
    return framing_of_request(head_build(&b, text), f);
}

static int
response(const char *start, const char *fields, enum http_method asked, struct framing *f)
{
    struct head_build b;
    char text[1024];

    snprintf(text, sizeof(text), "%s\n%s\n", start, fields);
    return framing_of_response(head_build(&b, text), asked, f);
}

TEST(framing, ordinary_requests)
{
    struct framing f;

    CHECK_EQ(0, request("X: y", &f));
    CHECK(f.kind == FRAMING_NONE && !f.has_length);
    CHECK_EQ(0, request("Content-Length: 0", &f));
    CHECK(f.kind == FRAMING_LENGTH && f.has_length && f.length == 0);
    CHECK_EQ(0, request("content-length: 0042", &f));
    CHECK(f.kind == FRAMING_LENGTH && f.length == 42);
    CHECK_EQ(0, request("Transfer-Encoding: ChunkeD", &f));
    CHECK(f.kind == FRAMING_CHUNKED && !f.has_length);
}

TEST(framing, requests_in_doubt_are_refused)
{
    static const char *const bad[] = {
        "Content-Length: 5\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\nContent-Length: 5",
        "Content-Length: 5\nContent-Length: 6",
        "Content-Length: 5\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length: 5;x",
        "Content-Length: \"5\"",
        "Transfer-Encoding:",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;x",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip,,chunked",
        "Transfer-Encoding: chunked chunked",
        "Transfer-Encoding: \x0b"
        "chunked",
        "Transfer-Encoding: chunked\x0c",
        "Transfer-Encoding: \xa0"
        "chunked",
        "Transfer_Encoding: chunked",
        "Transfer-Encoding: chunked\ntransfer_encoding: x",
        "CONTENT_LENGTH: 5",
        "Content_Length: 5\nContent-Length: 5",
    };
    struct framing f;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_FRAMING, request(bad[i], &f));
    CHECK_EQ(TERR_CODING, request("Transfer-Encoding: gzip, chunked", &f));
    CHECK_EQ(TERR_CODING, request("Transfer-Encoding: deflate, x-gzip ,Chunked", &f));
}

TEST(framing, transfer_encoding_has_no_place_in_http_1_0)
{
    struct head_build b;
    struct framing f;

    CHECK_EQ(TERR_FRAMING,
        framing_of_request(head_build(&b, "POST / HTTP/1.0\nTransfer-Encoding: chunked\n"), &f));
    CHECK_EQ(
        TERR_FRAMING, response("HTTP/1.0 200 OK", "Transfer-Encoding: chunked", HTTP_M_GET, &f));
}

TEST(framing, ordinary_responses)
{
    struct framing f;

    CHECK_EQ(0, response("HTTP/1.1 200 OK", "Content-Length: 7", HTTP_M_GET, &f));
    CHECK(f.kind == FRAMING_LENGTH && f.length == 7);
    CHECK_EQ(0, response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", HTTP_M_GET, &f));
    CHECK_EQ(FRAMING_CHUNKED, f.kind);
    CHECK_EQ(0, response("HTTP/1.1 200 OK", "X: y", HTTP_M_GET, &f));
    CHECK_EQ(FRAMING_CLOSE, f.kind);
    CHECK_EQ(0, response("HTTP/1.1 200 OK", "Content-Length: 7", HTTP_M_HEAD, &f));
    CHECK(f.kind == FRAMING_NONE && f.has_length && f.length == 7);
    CHECK_EQ(0, response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", HTTP_M_HEAD, &f));
    CHECK_EQ(FRAMING_NONE, f.kind);
    CHECK_EQ(0, response("HTTP/1.1 304 Not Modified", "Content-Length: 7", HTTP_M_GET, &f));
    CHECK_EQ(FRAMING_NONE, f.kind);
    CHECK_EQ(0, response("HTTP/1.1 204 No Content", "Content-Length: 0", HTTP_M_GET, &f));
    CHECK_EQ(FRAMING_NONE, f.kind);
    CHECK(!f.doubtful);
    CHECK_EQ(0, response("HTTP/1.1 204 No Content", "Content-Length: 7", HTTP_M_GET, &f));
    CHECK(f.kind == FRAMING_NONE && f.doubtful && !f.has_length && f.length == 0);
    CHECK_EQ(0, response("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked", HTTP_M_GET, &f));
    CHECK(f.kind == FRAMING_NONE && f.doubtful);
    CHECK_EQ(0, response("HTTP/1.1 100 Continue", "X: y", HTTP_M_POST, &f));
    CHECK_EQ(FRAMING_NONE, f.kind);
}

TEST(framing, responses_in_doubt_are_refused)
{
    static const char *const bad[] = {"Content-Length: 5\nTransfer-Encoding: chunked",
        "Content-Length: 5, 5", "Content-Length: 5\nContent-Length: 5",
        "Content-Length: ", "Content-Length: 5x", "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: gzip",
        "Transfer-Encoding: ", "Transfer-Encoding: chunked, chunked"};
    struct framing f;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(TERR_FRAMING, response("HTTP/1.1 200 OK", bad[i], HTTP_M_GET, &f));
        CHECK_EQ(TERR_FRAMING, response("HTTP/1.1 200 OK", bad[i], HTTP_M_HEAD, &f));
    }
    CHECK_EQ(TERR_FRAMING, response("HTTP/1.1 204 X", "Content-Length: x", HTTP_M_GET, &f));
    CHECK_EQ(
        TERR_FRAMING, response("HTTP/1.1 103 X", "Transfer-Encoding: chunked", HTTP_M_GET, &f));
    CHECK_EQ(TERR_FRAMING, response("HTTP/1.1 103 X", "Content-Length: 1", HTTP_M_GET, &f));
    CHECK_EQ(TERR_FRAMING, response("HTTP/1.1 200 OK", "X: y", HTTP_M_CONNECT, &f));
}

static int
connection(struct head_build *b, const char *text, struct framing_connection *c)
{
    head_build(b, text);
    return b->h.status == 0 ? framing_connection_of_request(&b->h, c)
                            : framing_connection_of_response(&b->h, c);
}

TEST(framing, persistence_follows_version_and_options)
{
    struct framing_connection c;
    struct head_build b;

    CHECK_EQ(0, connection(&b, "GET / HTTP/1.1\nX: y\n", &c));
    CHECK(c.persists);
    CHECK_EQ(0, connection(&b, "GET / HTTP/1.1\nConnection: foo, CLOSE\n", &c));
    CHECK(!c.persists && c.close);
    CHECK_EQ(0, connection(&b, "GET / HTTP/1.1\nConnection: keep-alive\nConnection: close\n", &c));
    CHECK(!c.persists && c.close && c.keep_alive);
    CHECK_EQ(0, connection(&b, "GET / HTTP/1.0\nX: y\n", &c));
    CHECK(!c.persists);
    CHECK_EQ(0, connection(&b, "GET / HTTP/1.0\nConnection: Keep-Alive\n", &c));
    CHECK(c.persists);
    CHECK_EQ(0, connection(&b, "HTTP/1.0 200 OK\nConnection: keep-alive\n", &c));
    CHECK(c.persists);
    CHECK_EQ(0, connection(&b, "HTTP/1.1 200 OK\nProxy-Connection: close\n", &c));
    CHECK(c.persists);
}

TEST(framing, nominated_fields_are_marked)
{
    struct framing_connection c;
    struct head_build b;

    CHECK_EQ(0, connection(&b,
                    "GET / HTTP/1.1\nfoo: 1\nReferer: x\nBar: 2\nConnection: FOO, , referer, "
                    "nope\nFoo: 3\n",
                    &c));
    CHECK(b.fields[0].drop && b.fields[1].drop && !b.fields[2].drop);
    CHECK(!b.fields[3].drop && b.fields[4].drop);
    CHECK_EQ(0,
        connection(&b,
            "HTTP/1.1 200 OK\nConnection: content-length, transfer-encoding, cache-control, vary, "
            "set-cookie, a b, x\nContent-Length: 1\nCache-Control: a\nVary: a\nSet-Cookie: "
            "a\nX: y\n",
            &c));
    CHECK(!b.fields[1].drop && !b.fields[2].drop && !b.fields[3].drop);
    CHECK(b.fields[4].drop && b.fields[5].drop);
}

TEST(framing, requests_must_not_nominate_what_we_act_on)
{
    static const char *const bad[] = {"Host", "content-length", "Transfer-Encoding",
        "Cache-Control", "Authorization", "Cookie", "Expect", "Connection", "Vary", "close, Host",
        "a b", "a=b", "\"x\"", "a;b"};
    struct framing_connection c;
    struct head_build b;
    char text[512];
    size_t i, len;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\nConnection: %s\n", bad[i]);
        CHECK_EQ(TERR_SYNTAX, connection(&b, text, &c));
    }
    len = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\nConnection: ");
    for (i = 0; i < 65; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "x,");
    CHECK_EQ(TERR_SYNTAX, connection(&b, text, &c));
}

static const char *
upgrade(const char *text)
{
    static char out[64];
    struct framing_connection c;
    struct head_build b;
    struct slice protocols;

    CHECK_EQ(0, connection(&b, text, &c));
    protocols = framing_upgrade(&b.h, &c);
    if (protocols.ptr == NULL)
        return "none";
    CHECK(protocols.len < sizeof(out));
    memcpy(out, protocols.ptr, protocols.len);
    out[protocols.len] = '\0';
    return out;
}

#define GET_UPGRADE "GET / HTTP/1.1\nConnection: Upgrade\n"

TEST(framing, an_upgrade_is_an_option_and_protocols)
{
    CHECK_STR("websocket", upgrade(GET_UPGRADE "Upgrade: websocket\n"));
    CHECK_STR("a/1.0, b", upgrade(GET_UPGRADE "Upgrade: a/1.0, b\n"));
    CHECK_STR("x", upgrade("HTTP/1.1 101 X\nConnection: a, UPGRADE\nUpgrade: x\n"));
    CHECK_STR("none", upgrade("GET / HTTP/1.1\nUpgrade: websocket\n"));
    CHECK_STR("none", upgrade("GET / HTTP/1.0\nConnection: upgrade\nUpgrade: websocket\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade:\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: a\nUpgrade: b\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: a, , b\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: a/\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: \"a\"\n"));
}

TEST(framing, an_upgrade_hides_no_requests)
{
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: h2c\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: websocket, H2C\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: h2\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: http/2.0\n"));
    CHECK_STR("none", upgrade(GET_UPGRADE "Upgrade: TLS/1.2\n"));
}

TEST(framing, an_upgrade_is_granted_to_what_was_asked_for)
{
    struct slice asked = SLICE_LIT("a/1.0, websocket"), none = {NULL, 0};

    CHECK(framing_upgrade_granted(asked, SLICE_LIT("WebSocket")));
    CHECK(framing_upgrade_granted(asked, SLICE_LIT("websocket, A/1.0")));
    CHECK(!framing_upgrade_granted(asked, SLICE_LIT("a")));
    CHECK(!framing_upgrade_granted(asked, SLICE_LIT("websocket, b")));
    CHECK(!framing_upgrade_granted(asked, none));
    CHECK(!framing_upgrade_granted(none, SLICE_LIT("websocket")));
}

TEST(framing, an_underscore_does_not_hide_a_name)
{
    CHECK_EQ(HTTP_F_TRANSFER_ENCODING, framing_disguised(SLICE_LIT("transfer_encoding")));
    CHECK_EQ(HTTP_F_X_FORWARDED_FOR, framing_disguised(SLICE_LIT("X_FORWARDED-FOR")));
    CHECK_EQ(HTTP_F_OTHER, framing_disguised(SLICE_LIT("Transfer-Encoding")));
    CHECK_EQ(HTTP_F_OTHER, framing_disguised(SLICE_LIT("x_y")));
    CHECK_EQ(HTTP_F_OTHER, framing_disguised(SLICE_LIT("x_2345678901234567890123456789012345")));
}

TEST_MAIN(TEST_ENTRY(framing, ordinary_requests),
    TEST_ENTRY(framing, an_upgrade_is_an_option_and_protocols),
    TEST_ENTRY(framing, an_upgrade_hides_no_requests),
    TEST_ENTRY(framing, an_upgrade_is_granted_to_what_was_asked_for),
    TEST_ENTRY(framing, requests_in_doubt_are_refused),
    TEST_ENTRY(framing, transfer_encoding_has_no_place_in_http_1_0),
    TEST_ENTRY(framing, ordinary_responses), TEST_ENTRY(framing, responses_in_doubt_are_refused),
    TEST_ENTRY(framing, persistence_follows_version_and_options),
    TEST_ENTRY(framing, nominated_fields_are_marked),
    TEST_ENTRY(framing, requests_must_not_nominate_what_we_act_on),
    TEST_ENTRY(framing, an_underscore_does_not_hide_a_name))
