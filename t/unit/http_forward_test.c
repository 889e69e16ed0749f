/* http_forward_test.c -- every byte that goes on, compared with what should. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"
#include "t/unit/request_text.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/http/derive.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"

static struct arena_pool pool;
static struct arena arena;

static const struct forward_request pass = {.mode = FORWARD_PASS,
    .scheme = HTTP_SCHEME_HTTP,
    .host = {"h", 1},
    .client_address = {"192.0.2.1", 9},
    .pseudonym = {"tarn", 4}};

static const char *
sent(const char *text, const struct forward_request *how)
{
    struct framing_connection c;
    struct http_message out;
    struct head_build b;

    arena_fini(&arena);
    arena_init(&arena, &pool);
    CHECK_EQ(0, framing_connection_of_request(head_build(&b, text), &c));
    CHECK_EQ(0, forward_request(&b.h, how, &arena, &out));
    return request_text(&out);
}

static const char *
answered(const char *text, enum forward_keep keep)
{
    struct forward_response how = {.keep = keep,
        .pseudonym = SLICE_LIT("tarn"),
        .now_s = 784111777,
        .length = FORWARD_NO_LENGTH};
    struct framing_connection c;
    struct head_build b;
    struct http_message out;

    arena_fini(&arena);
    arena_init(&arena, &pool);
    CHECK_EQ(0, framing_connection_of_response(head_build(&b, text), &c));
    CHECK_EQ(0, forward_response(&b.h, &how, &arena, &out));
    return head_text(&out);
}

#define CAPABLE "Surrogate-Capability: tarn=\"Surrogate/1.0\"\r\n"
#define OURS    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nVia: 1.1 tarn\r\n"

TEST(forward, a_passed_request_keeps_what_is_end_to_end)
{
    CHECK_STR("BAN /a?b HTTP/1.1\r\nHost: h\r\nAccept: x\r\nrange: bytes=0-1\r\n"
              "If-None-Match: \"x\"\r\nAccept-Encoding: zstd\r\n" OURS "\r\n",
        sent("BAN /a?b HTTP/1.1\nAccept: x\nHost: other\nrange: bytes=0-1\nIf-None-Match: \"x\"\n"
             "Accept-Encoding: zstd\n",
            &pass));
}

TEST(forward, nothing_hop_by_hop_or_spoofed_goes_on)
{
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n" OURS "\r\n",
        sent("GET / HTTP/1.1\nConnection: x-y, Keep-Alive, te\nX-Y: 1\nKeep-Alive: 5\nTE: gzip\n"
             "Trailer: a\nUpgrade: h2c\nHTTP2-Settings: a\nProxy-Connection: a\n"
             "Proxy-Authorization: a\nExpect: 100-continue\nContent-Length: 5\n"
             "Transfer-Encoding: chunked\nX-Forwarded-For: 6.6.6.6\nX-Forwarded-Proto: https\n"
             "X-Forwarded-Host: evil\nForwarded: for=a\nX-Original-URL: /admin\n"
             "X-HTTP-Method-Override: DELETE\nX_Forwarded_For: 6\nTransfer_Encoding: a\n"
             "X-Original_URL: /\nHost: a\nA: 1\n",
            &pass));
}

TEST(forward, client_address_fields_and_httpoxy_are_dropped_unless_they_are_kept)
{
    static const char *const names[] = {"Proxy", "PROXY", "X-Real-IP", "X_Real_IP",
        "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "X-Client-IP",
        "X-Cluster-Client-IP", "Fastly-Client-IP", "Client-IP", "X-Original-Host", "X-Rewrite-URL",
        "Forwarded-For", "X-Scheme", "X-URL-Scheme", "Front-End-Https", "X-Host",
        "X-Forwarded-Anything", "X-Azure-ClientIP", "X-Foo-Method-Override", "X-Original-URL"};
    static const char *const others[] = {"Proxies", "X-Real-IPs", "X-Real", "Client", "CF-Ray",
        "Fastly-FF", "X-Requested-With", "Content-Type", "Priority", "True"};
    struct forward_request how = pass;
    char text[256], want[256];

    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s: 6.6.6.6\n", names[i]);
        CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\n" OURS "\r\n", sent(text, &pass));
        snprintf(want, sizeof(want), "GET / HTTP/1.1\r\nHost: h\r\n%s: 6.6.6.6\r\n" OURS "\r\n",
            names[i]);
        how.keep = names[i];
        if (strchr(names[i], '_') == NULL) /* it would pass for another one behind a CGI */
            CHECK_STR(want, sent(text, &how));
    }
    for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s: 1\n", others[i]);
        snprintf(
            want, sizeof(want), "GET / HTTP/1.1\r\nHost: h\r\n%s: 1\r\n" OURS "\r\n", others[i]);
        CHECK_STR(want, sent(text, &pass));
    }
    how.keep = "x-real-ip forwarded x-forwarded-for x-forwarded-proto true-client-ip";
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nTrue-Client-IP: 2\r\nX-Real-IP: 1\r\n" OURS "\r\n",
        sent("GET / HTTP/1.1\nTrue-Client-IP: 2\nX-Real-IP: 1\nX-Client-IP: 3\nForwarded: for=a\n"
             "X-Forwarded-For: 6.6.6.6\nX-Forwarded-Proto: https\n",
            &how));
}

TEST(forward, a_trusted_peer_is_believed)
{
    struct forward_request how = pass;

    how.trusted = true;
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\nForwarded: for=a\r\n"
              "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 192.0.2.1\r\nVia: 1.1 tarn\r\n\r\n",
        sent("GET / HTTP/1.1\nX-Forwarded-Proto: https\nX-Forwarded-For: 1.1.1.1, 2.2.2.2\n"
             "Forwarded: for=a\nX-Forwarded-For: 3.3.3.3\n",
            &how));
    how.client_address.len = 0; /* a Unix socket has none */
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\n"
              "X-Forwarded-Proto: http\r\nVia: 1.1 tarn\r\n\r\n",
        sent("GET / HTTP/1.1\nX-Forwarded-For: 1.1.1.1\n", &how));
}

TEST(forward, a_fetch_asks_for_the_whole_in_our_name)
{
    struct forward_request how = pass;

    how.mode = FORWARD_FETCH;
    how.path = SLICE_LIT("/");
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nCookie: a\r\nAccept-Encoding: br, gzip\r\n" CAPABLE OURS
              "\r\n",
        sent("HEAD http://h/x HTTP/1.1\nRange: bytes=0-1\nIf-Range: \"x\"\nIf-Match: *\n"
             "If-None-Match: \"x\"\nIf-Modified-Since: x\nIf-Unmodified-Since: x\n"
             "Cookie: a\nAccept-Encoding: gzip, zstd\nAccept-Encoding: br;q=0.1\n",
            &how));
    how.path.len = 0;
    how.if_none_match = SLICE_LIT("\"e\"");
    how.if_modified_since = SLICE_LIT("Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_STR("GET /p HTTP/1.1\r\nHost: h\r\n" CAPABLE "If-None-Match: \"e\"\r\n"
              "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n" OURS "\r\n",
        sent("GET /p HTTP/1.1\nIf-None-Match: \"x\"\n", &how));
}

TEST(forward, a_fetch_asks_for_a_part_only_in_our_name)
{
    struct forward_request how = pass;

    how.mode = FORWARD_FETCH;
    how.range = SLICE_LIT("bytes=5-");
    CHECK_STR("GET /p HTTP/1.1\r\nHost: h\r\n" CAPABLE "Range: bytes=5-\r\n" OURS "\r\n",
        sent("GET /p HTTP/1.1\nRange: bytes=0-9\nIf-Range: \"x\"\n", &how));
    how.if_range = SLICE_LIT("\"e\"");
    CHECK_STR("GET /p HTTP/1.1\r\nHost: h\r\n" CAPABLE "Range: bytes=5-\r\nIf-Range: \"e\"\r\n" OURS
              "\r\n",
        sent("GET /p HTTP/1.1\nRange: bytes=0-9\nIf-Range: \"x\"\n", &how));
    how = pass;
    CHECK_STR("GET /p HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\nIf-Range: \"x\"\r\n" OURS "\r\n",
        sent("GET /p HTTP/1.1\nRange: bytes=0-9\nIf-Range: \"x\"\n", &how));
}

TEST(forward, a_stored_part_keeps_its_content_range_until_it_is_whole)
{
    static const char part[] = "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-4/10\n"
                               "Content-Length: 5\nDate: x\n";
    struct http_message stored, whole;
    struct head_build b;

    CHECK_STR("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\nDate: x\r\n"
              "Via: 1.1 tarn\r\n",
        answered(part, FORWARD_STORED));
    CHECK_EQ(0, forward_response(head_build(&b, part),
                    &(struct forward_response){.keep = FORWARD_STORED,
                        .pseudonym = SLICE_LIT("tarn"),
                        .length = FORWARD_NO_LENGTH},
                    &arena, &stored));
    CHECK_EQ(0, derive_whole(&stored, &arena, &whole));
    CHECK_STR("HTTP/1.1 200 OK\r\nDate: x\r\nVia: 1.1 tarn\r\n", head_text(&whole));
}

TEST(forward, via_has_the_version_that_came)
{
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n"
              "X-Forwarded-Proto: http\r\nVia: 1.1 a, 2.0 tarn\r\n\r\n",
        sent("GET / HTTP/2.0\nVia: 1.1 a\n", &pass));
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n"
              "X-Forwarded-Proto: http\r\nVia: 1.0 tarn\r\n\r\n",
        sent("GET / HTTP/1.0\n", &pass));
}

TEST(forward, via_and_the_request_id_are_written_anew)
{
    struct forward_request how = pass;

    how.id_name = SLICE_LIT("X-Request-Id");
    how.id_value = SLICE_LIT("42");
    CHECK_STR("POST / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n"
              "X-Forwarded-Proto: http\r\nVia: 1.1 a, 1.0 b, 1.0 c, 1.0 tarn\r\n"
              "X-Request-Id: 42\r\n\r\n",
        sent("POST / HTTP/1.0\nVia: 1.1 a, 1.0 b\nvia: 1.0 c\nx-request-id: spoof\n", &how));
    how = pass;
    how.scheme = HTTP_SCHEME_HTTPS;
    how.pseudonym.len = 0;
    CHECK_STR("POST / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n"
              "X-Forwarded-Proto: https\r\n\r\n",
        sent("POST / HTTP/1.1\nHost: h\nContent-Length: 5\n", &how));
}

TEST(forward, a_request_has_its_line_and_fields_apart)
{
    static const struct forward_request how = {
        .mode = FORWARD_PASS, .host = {"h:81", 4}, .pseudonym = {"tarn", 4}};
    struct http_message out;
    struct head_build b;

    arena_fini(&arena);
    arena_init(&arena, &pool);
    head_build(&b, "BREW /a?b HTTP/1.0\nCookie: c\nX-Empty:\n");
    CHECK_EQ(0, forward_request(&b.h, &how, &arena, &out));
    CHECK_EQ(4, out.nfields); /* two, X-Forwarded-Proto, Via */
    CHECK_EQ(HTTP_M_OTHER, out.method);
    CHECK(slice_eq(SLICE_LIT("BREW"), http_slice(&out, out.method_off, out.method_len)));
    CHECK(slice_eq(SLICE_LIT("/a?b"), http_path(&out)));
    CHECK(slice_eq(SLICE_LIT("h:81"), http_host(&out)));
    CHECK(slice_eq(SLICE_LIT("c"), http_get_one(&out, HTTP_F_COOKIE)));
    CHECK_EQ(1, out.version_minor);
    arena_fini(&arena);
}

TEST(forward, a_101_says_to_which_protocol)
{
    CHECK_STR("HTTP/1.1 101 Switching Protocols\r\nA: b\r\n"
              "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nUpgrade: x\r\nVia: 1.1 tarn\r\n",
        answered("HTTP/1.1 101\nConnection: upgrade\nUpgrade: x\nA: b\n", FORWARD_PASSED));
}

TEST(forward, a_response_keeps_what_is_end_to_end)
{
    static const char *const text =
        "HTTP/1.0 200 Fine\nDate: Sun, 06 Nov 1994 08:00:00 GMT\nConnection: x-y, close\nX-Y: 1\n"
        "Keep-Alive: 5\nContent-Length: 5\nTrailer: a\nUpgrade: h2c\nProxy-Authenticate: a\n"
        "Age: 5\nCache-Status: up; hit\nVia: 1.1 up\nSet-Cookie: a=b\nSet-Cookie: c=d\nETag: "
        "\"x\"\n";

    CHECK_STR("HTTP/1.1 200 Fine\r\nDate: Sun, 06 Nov 1994 08:00:00 GMT\r\nSet-Cookie: a=b\r\n"
              "Set-Cookie: c=d\r\nETag: \"x\"\r\nVia: 1.1 up, 1.0 tarn\r\n",
        answered(text, FORWARD_STORED));
    CHECK_STR("HTTP/1.1 200 Fine\r\nDate: Sun, 06 Nov 1994 08:00:00 GMT\r\nAge: 5\r\n"
              "Cache-Status: up; hit\r\nSet-Cookie: a=b\r\n"
              "Set-Cookie: c=d\r\nETag: \"x\"\r\nVia: 1.1 up, 1.0 tarn\r\n",
        answered(text, FORWARD_PASSED));
}

TEST(forward, what_a_response_lacks_is_added)
{
    CHECK_STR("HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 tarn\r\n",
        answered("HTTP/1.1 404\nTransfer-Encoding: chunked\n", FORWARD_STORED));
    CHECK_STR("HTTP/1.1 599 Unknown\r\nA: \r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
              "Via: 1.1 tarn\r\n",
        answered("HTTP/1.1 599 \nA:\n", FORWARD_PASSED));
    CHECK_STR("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 tarn\r\n",
        answered("HTTP/1.1 200 a\x01z\nConnection: date\nDate: x\n", FORWARD_PASSED));
}

/* A request as a policy left it. */
static const char *
left(const char *text, struct slice host)
{
    struct http_message out;
    struct head_build b;

    arena_fini(&arena);
    arena_init(&arena, &pool);
    CHECK_EQ(0, forward_bereq(head_build(&b, text), host, slice_of(NULL, 0), &arena, &out));
    return request_text(&out);
}

#define HOPS                                                                                  \
    "Connection: x-a\nTE: gzip\nTrailer: a\nUpgrade: h2c\nHTTP2-Settings: a\nKeep-Alive: 5\n" \
    "Proxy-Connection: a\nProxy-Authenticate: a\nProxy-Authorization: a\nTransfer-Encoding: x\n"

TEST(forward, a_policys_request_goes_as_it_left_it)
{
    CHECK_STR("BREW /p?q HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\nRange: bytes=0-1\r\n"
              "Via: mine\r\nX_Forwarded_For: said\r\n\r\n",
        left("BREW /p?q HTTP/1.0\nX-Forwarded-For: 6.6.6.6\nHost: other\nRange: bytes=0-1\n"
             "Via: mine\nX_Forwarded_For: said\n",
            SLICE_LIT("h")));
    /* The head's own authority; here there is none. */
    CHECK_STR("GET / HTTP/1.1\r\nHost: \r\nA: 1\r\n\r\n",
        left("GET / HTTP/1.1\nA: 1\n", slice_of(NULL, 0)));
}

TEST(forward, no_policy_writes_framing_or_what_is_hop_by_hop)
{
    CHECK_STR("PUT / HTTP/1.1\r\nHost: h\r\nA: 1\r\n\r\n",
        left("PUT / HTTP/1.1\nA: 1\n" HOPS "Expect: 100-continue\n"
             "Content-Length: 99\nHost: x\nConnection: close\n",
            SLICE_LIT("h")));
}

TEST(forward, what_a_policy_said_goes_on_although_nobody_trusts_the_peer)
{
    struct http_message out;
    struct head_build b;

    head_build(&b, "GET / HTTP/1.1\nX-Forwarded-For: 1.1.1.1\nX-Forwarded-Proto: https\n"
                   "X-Original-URL: /a\nX-Forwarded-Host: evil\n");
    for (unsigned i = 0; i < 3; i++)
        b.fields[i].said = true;
    arena_fini(&arena);
    arena_init(&arena, &pool);
    CHECK_EQ(0, forward_request(&b.h, &pass, &arena, &out));
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\n"
              "X-Forwarded-Proto: https\r\nX-Original-URL: /a\r\nVia: 1.1 tarn\r\n\r\n",
        request_text(&out));
    arena_fini(&arena);
}

TEST(forward, a_policys_response_is_its_line_and_fields_and_nothing_hop_by_hop)
{
    struct head_build b;
    struct http_message out;

    head_build(&b, "HTTP/1.1 404 Gone fishing\nA: 1\nX-Dropped: 1\nAge: 5\nContent-Length: 7\n" HOPS
                   "Set-Cookie: a\nSet-Cookie: b\n");
    b.fields[1].drop = true;
    b.h.status = 1404; /* Varnish: only the last three digits are sent */
    arena_fini(&arena);
    arena_init(&arena, &pool);
    CHECK_EQ(0, forward_edited(&b.h, &arena, &out));
    CHECK_STR("HTTP/1.1 404 Gone fishing\r\nA: 1\r\nAge: 5\r\nContent-Length: 7\r\n"
              "Set-Cookie: a\r\nSet-Cookie: b\r\n",
        head_text(&out));
    head_build(&b, "HTTP/1.1 200\n");
    CHECK_EQ(0, forward_edited(&b.h, &arena, &out));
    CHECK_STR("HTTP/1.1 200 \r\n", head_text(&out));
    arena_fini(&arena);
}

TEST_MAIN(TEST_ENTRY(forward, via_has_the_version_that_came),
    TEST_ENTRY(forward, a_policys_request_goes_as_it_left_it),
    TEST_ENTRY(forward, no_policy_writes_framing_or_what_is_hop_by_hop),
    TEST_ENTRY(forward, what_a_policy_said_goes_on_although_nobody_trusts_the_peer),
    TEST_ENTRY(forward, a_policys_response_is_its_line_and_fields_and_nothing_hop_by_hop),
    TEST_ENTRY(forward, a_passed_request_keeps_what_is_end_to_end),
    TEST_ENTRY(forward, a_request_has_its_line_and_fields_apart),
    TEST_ENTRY(forward, a_101_says_to_which_protocol),
    TEST_ENTRY(forward, nothing_hop_by_hop_or_spoofed_goes_on),
    TEST_ENTRY(forward, client_address_fields_and_httpoxy_are_dropped_unless_they_are_kept),
    TEST_ENTRY(forward, a_trusted_peer_is_believed),
    TEST_ENTRY(forward, a_fetch_asks_for_the_whole_in_our_name),
    TEST_ENTRY(forward, a_fetch_asks_for_a_part_only_in_our_name),
    TEST_ENTRY(forward, a_stored_part_keeps_its_content_range_until_it_is_whole),
    TEST_ENTRY(forward, via_and_the_request_id_are_written_anew),
    TEST_ENTRY(forward, a_response_keeps_what_is_end_to_end),
    TEST_ENTRY(forward, what_a_response_lacks_is_added))
