/* http_range_test.c -- which bytes are asked for, and how parts are announced. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/range.h"

#define END    RANGE_UNKNOWN /* to the end */
#define SUFFIX RANGE_UNKNOWN /* the last bytes */
#define MAX    9223372036854775807

static const char max_text[] = "9223372036854775807", above_text[] = "9223372036854775808";

TEST(range, specs_are_taken_as_they_come)
{
    static const struct {
        const char *value;
        unsigned n;
        struct range_spec specs[3];
    } rows[] = {
        {"bytes=0-0", 1, {{0, 0}}},
        {"bytes=0-499", 1, {{0, 499}}},
        {"BYTES=1-2", 1, {{1, 2}}},
        {"bytes=500-", 1, {{500, END}}},
        {"bytes=-500", 1, {{SUFFIX, 500}}},
        {"bytes=-0", 1, {{SUFFIX, 0}}},
        {"bytes=007-8", 1, {{7, 8}}},
        {"bytes=0-0,-1", 2, {{0, 0}, {SUFFIX, 1}}},
        {"bytes=5-6 , 0-1\t,3-", 3, {{5, 6}, {0, 1}, {3, END}}},
        {"bytes=,0-1,,", 1, {{0, 1}}},
        {"bytes=0-9223372036854775807", 1, {{0, MAX}}},
    };
    struct range_spec specs[RANGES_MAX];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_EQ(rows[i].n, range_parse(slice_str(rows[i].value), specs));
        CHECK_MEM(rows[i].specs, specs, rows[i].n * sizeof(specs[0]));
    }
}

TEST(range, what_is_no_range_is_ignored_whole)
{
    static const char *const bad[] = {"", "bytes", "bytes=", "bytes=,", "bytes=-", "bytes=1",
        "bytes=2-1", "bytes=a-b", "bytes=0-a", "bytes=a-0", "bytes=--1", "bytes=1--2", "bytes=+1-2",
        "bytes=0x1-2", "bytes=1 -2", "bytes=1- 2", "bytes=0-1,x", "bytes=0-1,2-1", "bytes 0-1",
        "bytes =0-1", "byte=0-1", "lines=0-1", "bytess=0-1", "0-1", "=0-1", "bytes=\"0-1\"",
        "bytes=0-1;2-3", "bytes=9223372036854775808-", "bytes=0-9223372036854775808",
        "bytes=-9223372036854775808", "bytes=0-18446744073709551615", "bytes=0-1/2"};
    struct range_spec specs[RANGES_MAX];
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(0, range_parse(slice_str(bad[i]), specs));
}

TEST(range, more_members_than_the_limit_are_ignored)
{
    struct range_spec specs[RANGES_MAX];
    char text[256] = "bytes=";
    unsigned i;

    for (i = 1; i <= RANGES_MAX + 2; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u-%u", i == 1 ? "" : ",",
            10 * i, 10 * i);
        CHECK_EQ(i <= RANGES_MAX ? i : 0, range_parse(slice_str(text), specs));
    }
}

TEST(range, only_one_range_of_a_get_counts)
{
    struct range_spec specs[RANGES_MAX];
    struct head_build b;
    struct http_message *h;

    CHECK_EQ(1, range_of_request(head_build(&b, "GET / HTTP/1.1\nRange: bytes=0-1\n"), specs));
    CHECK_EQ(0, range_of_request(head_build(&b, "GET / HTTP/1.1\nX: bytes=0-1\n"), specs));
    CHECK_EQ(0, range_of_request(head_build(&b, "HEAD / HTTP/1.1\nRange: bytes=0-1\n"), specs));
    CHECK_EQ(0, range_of_request(head_build(&b, "POST / HTTP/1.1\nRange: bytes=0-1\n"), specs));
    h = head_build(&b, "GET / HTTP/1.1\nRange: bytes=0-1\nRange: bytes=0-1\n");
    CHECK_EQ(0, range_of_request(h, specs));
    h = head_build(&b, "GET / HTTP/1.1\nRange: bytes=0-1\n");
    h->fields[0].drop = true;
    CHECK_EQ(0, range_of_request(h, specs));
}

/* "0-4 7-9", "whole" or "416". */
static void
resolved(const char *value, uint64_t complete, char *out, size_t room)
{
    struct range_spec specs[RANGES_MAX];
    struct range r[RANGES_MAX];
    unsigned n, nout = 99, i;
    enum range_verdict v;

    n = range_parse(slice_str(value), specs);
    CHECK(n > 0);
    v = range_resolve(specs, n, complete, r, &nout);
    CHECK_EQ(v == RANGE_OK, nout > 0);
    snprintf(out, room, "%s", v == RANGE_OK ? "" : v == RANGE_WHOLE ? "whole" : "416");
    for (i = 0; i < nout; i++)
        snprintf(out + strlen(out), room - strlen(out), "%s%llu-%llu", i == 0 ? "" : " ",
            (unsigned long long)r[i].first, (unsigned long long)r[i].last);
}

TEST(range, specs_are_resolved_against_the_length)
{
    static const struct {
        const char *value;
        uint64_t complete;
        const char *want;
    } rows[] = {
        {"bytes=0-0", 10, "0-0"},
        {"bytes=0-9", 10, "0-9"},
        {"bytes=0-10", 10, "0-9"},
        {"bytes=0-9223372036854775807", 10, "0-9"},
        {"bytes=9-", 10, "9-9"},
        {"bytes=10-", 10, "416"},
        {"bytes=10-20", 10, "416"},
        {"bytes=-1", 10, "9-9"},
        {"bytes=-10", 10, "0-9"},
        {"bytes=-11", 10, "0-9"},
        {"bytes=-0", 10, "416"},
        {"bytes=0-0", 1, "0-0"},
        {"bytes=1-", 1, "416"},
        {"bytes=0-", 0, "416"},
        {"bytes=-0", 0, "416"},
        {"bytes=-5", 0, "whole"},
        {"bytes=0-,-5", 0, "whole"},
        /* several: order kept, those that cannot be satisfied left out */
        {"bytes=0-1,5-6", 10, "0-1 5-6"},
        {"bytes=5-6,0-1", 10, "5-6 0-1"},
        {"bytes=0-1,20-30", 10, "0-1"},
        {"bytes=20-30,-0,7-", 10, "7-9"},
        {"bytes=20-30,-0", 10, "416"},
        /* neighbours are joined */
        {"bytes=0-1,2-3", 10, "0-3"},
        {"bytes=2-3,0-1", 10, "0-3"},
        {"bytes=0-1,3-4", 10, "0-1 3-4"},
        {"bytes=0-4,3-6", 10, "0-6"},
        {"bytes=0-6,2-3", 10, "0-6"},
        {"bytes=2-3,0-6", 10, "0-6"},
        {"bytes=0-0,0-0", 10, "0-0"},
        {"bytes=0-1,4-5,2-3", 10, "0-5"},
        {"bytes=0-1,5-6,2-3", 10, "0-1 5-6 2-3"},
        /* more than two that overlap, or more bytes than the whole */
        {"bytes=0-0,0-0,0-0", 10, "whole"},
        {"bytes=0-4,3-6,6-7", 10, "whole"},
        {"bytes=0-1,1-2,5-6,6-7", 10, "whole"},
        {"bytes=0-5,8-9,2-3", 10, "0-5 8-9 2-3"},
        {"bytes=0-6,8-9,0-1", 10, "whole"},
        {"bytes=0-4,6-9,0-0", 10, "0-4 6-9 0-0"},
        {"bytes=0-4,6-9,0-1", 10, "whole"},
        {"bytes=0-,-1", 10, "0-9"},
    };
    char got[256];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        resolved(rows[i].value, rows[i].complete, got, sizeof(got));
        CHECK_STR(rows[i].want, got);
    }
    resolved("bytes=0-", INT64_MAX, got, sizeof(got));
    CHECK_STR("0-9223372036854775806", got);
    resolved("bytes=0-9223372036854775807", UINT64_MAX - 1, got, sizeof(got));
    CHECK_STR("0-9223372036854775807", got);
}

TEST(range, content_range_is_read_strictly)
{
    static const struct {
        const char *value;
        struct content_range want;
    } good[] = {
        {"bytes 0-4/10", {0, 4, 10}},
        {"bytes 0-0/1", {0, 0, 1}},
        {"bytes 9-9/10", {9, 9, 10}},
        {"Bytes 0-4/*", {0, 4, RANGE_UNKNOWN}},
        {"bytes 0-9223372036854775806/9223372036854775807", {0, MAX - 1, MAX}},
    };
    static const char *const bad[] = {"", "bytes", "bytes ", "bytes */10", "bytes */*", "bytes 0-4",
        "bytes 0-4/", "bytes /10", "bytes -4/10", "bytes 0-/10", "bytes 4-0/10", "bytes 0-10/10",
        "bytes 10-10/10", "bytes 0-0/0", "bytes=0-4/10", "bytes  0-4/10", "bytes 0-4/10 ",
        "bytes 0 -4/10", "bytes 0-4 /10", "bytes 0-4/1x", "bytes a-4/10", "bytes 0-4/**",
        "bytes 0-4/10/10", "bytes 0-4-5/10", "lines 0-4/10", "0-4/10", "bytes 0-4/-1",
        "bytes 0-9223372036854775807/9223372036854775808"};
    struct content_range cr;
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_EQ(0, content_range_parse(slice_str(good[i].value), &cr));
        CHECK_MEM(&good[i].want, &cr, sizeof(cr));
    }
    cr = good[0].want;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_SYNTAX, content_range_parse(slice_str(bad[i]), &cr));
    CHECK_MEM(&good[0].want, &cr, sizeof(cr)); /* and left alone */
}

TEST(range, content_range_is_written_as_it_is_read)
{
    static const struct {
        struct content_range cr;
        const char *want;
    } rows[] = {
        {{0, 4, 10}, "bytes 0-4/10"},
        {{0, 4, RANGE_UNKNOWN}, "bytes 0-4/*"},
        {{UINT64_MAX - 2, UINT64_MAX - 2, UINT64_MAX - 1},
            "bytes 18446744073709551613-18446744073709551613/18446744073709551614"},
    };
    char out[RANGE_TEXT_MAX];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = content_range_write(&rows[i].cr, out);

        CHECK_EQ(strlen(rows[i].want), len);
        CHECK_MEM(rows[i].want, out, len);
    }
}

TEST(range, parts_are_framed_by_their_boundary)
{
    static const struct content_range cr = {0, 4, 10};
    static const struct content_range large = {UINT64_MAX - 2, UINT64_MAX - 2, UINT64_MAX - 1};
    char out[RANGE_PART_MAX + 1], type[201], boundary[70];
    static const char first[] =
        "--b\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-4/10\r\n\r\n";
    static const char next[] = "\r\n--b\r\nContent-Range: bytes 0-4/10\r\n\r\n";
    struct slice b = SLICE_LIT("b");
    size_t len;

    len = range_part_head(b, true, SLICE_LIT("text/plain"), &cr, out);
    CHECK_EQ(sizeof(first) - 1, len);
    CHECK_MEM(first, out, len);
    len = range_part_head(b, false, SLICE_LIT(""), &cr, out);
    CHECK_EQ(sizeof(next) - 1, len);
    CHECK_MEM(next, out, len);
    memset(type, 't', sizeof(type));
    memset(boundary, 'b', sizeof(boundary));
    out[RANGE_PART_MAX] = '!';
    len = range_part_head(slice_of(boundary, 70), false, slice_of(type, 200), &large, out);
    CHECK(len > 300 && len <= RANGE_PART_MAX && out[RANGE_PART_MAX] == '!');
    CHECK_EQ(sizeof(next) - 1, range_part_head(b, false, slice_of(type, 201), &cr, out));
    len = range_end(b, out);
    CHECK_EQ(9, len);
    CHECK_MEM("\r\n--b--\r\n", out, len);
}

TEST(range, a_boundary_shows_every_random_bit_and_needs_no_quotes)
{
    char zero[RANGE_BOUNDARY_LEN], one[RANGE_BOUNDARY_LEN];
    unsigned i;

    range_boundary(0, 0, zero);
    CHECK(http_token_ok(slice_of(zero, sizeof(zero))));
    for (i = 0; i < 64; i++) {
        range_boundary(UINT64_C(1) << i, 0, one);
        CHECK(memcmp(zero, one, sizeof(one)) != 0);
        CHECK(http_token_ok(slice_of(one, sizeof(one))));
        range_boundary(0, UINT64_C(1) << i, one);
        CHECK(memcmp(zero, one, sizeof(one)) != 0);
    }
    range_boundary(UINT64_MAX, UINT64_MAX, one);
    CHECK(http_token_ok(slice_of(one, sizeof(one))));
}

TEST(range, numbers_end_where_a_signed_one_does)
{
    struct range_spec specs[RANGES_MAX];
    char text[64];

    snprintf(text, sizeof(text), "bytes=%s-", max_text);
    CHECK_EQ(1, range_parse(slice_str(text), specs));
    snprintf(text, sizeof(text), "bytes=%s-", above_text);
    CHECK_EQ(0, range_parse(slice_str(text), specs));
}

TEST_MAIN(TEST_ENTRY(range, specs_are_taken_as_they_come),
    TEST_ENTRY(range, what_is_no_range_is_ignored_whole),
    TEST_ENTRY(range, more_members_than_the_limit_are_ignored),
    TEST_ENTRY(range, only_one_range_of_a_get_counts),
    TEST_ENTRY(range, specs_are_resolved_against_the_length),
    TEST_ENTRY(range, content_range_is_read_strictly),
    TEST_ENTRY(range, content_range_is_written_as_it_is_read),
    TEST_ENTRY(range, parts_are_framed_by_their_boundary),
    TEST_ENTRY(range, a_boundary_shows_every_random_bit_and_needs_no_quotes),
    TEST_ENTRY(range, numbers_end_where_a_signed_one_does))
