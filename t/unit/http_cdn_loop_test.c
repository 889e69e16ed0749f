/* http_cdn_loop_test.c -- CDN-Loop (RFC 8586): whose names it has, and what is appended. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/http/cdn_loop.h"
#include "daemon/http/forward.h"
#include "t/unit/head_build.h"
#include "t/unit/request_text.h"

#define HEAD "GET / HTTP/1.1\nHost: h\n"

TEST(cdn_loop, a_member_counts_by_its_cdn_id)
{
    static const struct {
        const char *fields;
        unsigned want;
    } rows[] = {
        /* clang-format off */
        {"", 0},
        {"CDN-Loop:\n", 0},
        {"CDN-Loop: ,, ,\n", 0},
        {"CDN-Loop: us\n", 1},
        {"cdn-loop: US\n", 1},
        {"CDN-Loop: us,us , \tus\n", 3},
        {"CDN-Loop: us\nCDN-Loop: other, us\n", 2},
        {"CDN-Loop: us;a=b, us ; a=\"c\"\n", 2},
        {"CDN-Loop: use, u, xus, -us, us.example\n", 0},
        {"CDN-Loop: us:80, [::1]:80\n", 0}, /* a host with a port is another cdn-id */
        {"CDN-Loop: x; us, y; id=us; us\n", 0},
        {"CDN-Loop: x; a=\"us\"\n", 0},
        {"CDN-Loop: \"open, us\n", 1}, /* a client's quote hides nothing behind it */
        {"CDN-Loop: x; a=\"\\\nCDN-Loop: us\n", 1},
        /* clang-format on */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct head_build b;
        char text[256];

        snprintf(text, sizeof(text), HEAD "%s", rows[i].fields);
        if (cdn_loop_count(head_build(&b, text), SLICE_LIT("us")) != rows[i].want)
            fail_msg("%s", rows[i].fields);
    }
}

TEST(cdn_loop, via_counts_by_the_pseudonym_that_received)
{
    struct head_build b;

    CHECK(cdn_loop_is_last(head_build(&b, HEAD "CDN-Loop: a, us;x=1\n"), SLICE_LIT("us")));
    CHECK(
        cdn_loop_is_last(head_build(&b, HEAD "CDN-Loop: us\nCDN-Loop: a, us\n"), SLICE_LIT("us")));
    CHECK(!cdn_loop_is_last(head_build(&b, HEAD "CDN-Loop: us\nCDN-Loop: a\n"), SLICE_LIT("us")));
    CHECK(cdn_loop_is_last(head_build(&b, HEAD "CDN-Loop: us,\n"), SLICE_LIT("us")));
    CHECK(!cdn_loop_is_last(head_build(&b, HEAD), SLICE_LIT("us")));
    CHECK_EQ(0, cdn_loop_count_via(head_build(&b, HEAD), SLICE_LIT("us")));
    CHECK_EQ(4, cdn_loop_count_via(
                    head_build(&b, HEAD "Via: 1.1 us, HTTP/1.0  us (a, b)\nVia: 1.1 other,2 US\n"
                                        "Via: us, 1.1, 1.1 use, 1.1 us:80, 1.1 x (us), 1.1 us\n"),
                    SLICE_LIT("us")));
}

TEST(cdn_loop, what_came_stays_as_it_is_and_our_name_is_appended)
{
    struct arena_pool pool;
    struct arena arena;
    struct head_build b;
    struct slice id = SLICE_LIT("us"), got;

    arena_pool_init(&pool, 4, NULL);
    arena_init(&arena, &pool);
    got = cdn_loop_extend(head_build(&b, HEAD), id, &arena);
    CHECK(got.ptr == id.ptr && got.len == id.len);
    got = cdn_loop_extend(head_build(&b, HEAD "CDN-Loop:\n"), id, &arena);
    CHECK(slice_eq(got, id));
    got = cdn_loop_extend(
        head_build(&b, HEAD "CDN-Loop: A;b=\"c, d\"\ncdn-loop: us\nCDN-Loop:\n"), id, &arena);
    CHECK(slice_eq(got, SLICE_LIT("A;b=\"c, d\", us, us")));
    got = cdn_loop_extend(head_build(&b, HEAD "CDN-Loop: a\n"), slice_of(NULL, 0), &arena);
    CHECK(got.len == 0 && got.ptr != NULL);
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

TEST(cdn_loop, whatever_a_policy_set_goes_no_further)
{
    struct forward_request how = {
        .mode = FORWARD_PASS, .host = SLICE_LIT("h"), .cdn_loop = SLICE_LIT("a, us")};
    struct arena_pool pool;
    struct arena arena;
    struct http_message out;
    struct head_build b;

    arena_pool_init(&pool, 4, NULL);
    arena_init(&arena, &pool);
    head_build(&b, HEAD "CDN-Loop: made-up\nCDN_Loop: made-up\nA: 1\n");
    for (unsigned i = 0; i < b.h.nfields; i++)
        b.fields[i].said = true;
    CHECK_EQ(0, forward_request(&b.h, &how, &arena, &out));
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nX-Forwarded-Proto: http\r\nCDN-Loop: a, us\r\n"
              "\r\n",
        request_text(&out));
    head_build(&b, HEAD "CDN-Loop: made-up\nA: 1\n");
    CHECK_EQ(0, forward_bereq(&b.h, how.host, how.cdn_loop, &arena, &out));
    CHECK_STR("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nCDN-Loop: a, us\r\n\r\n", request_text(&out));
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

TEST_MAIN(TEST_ENTRY(cdn_loop, a_member_counts_by_its_cdn_id),
    TEST_ENTRY(cdn_loop, via_counts_by_the_pseudonym_that_received),
    TEST_ENTRY(cdn_loop, what_came_stays_as_it_is_and_our_name_is_appended),
    TEST_ENTRY(cdn_loop, whatever_a_policy_set_goes_no_further))
