/* http_block_test.c -- stored heads read back, merged and rewritten. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/block.h"
#include "daemon/http/forward.h"
#include "daemon/http/range.h"

#define NOW_S INT64_C(784111777)
#define NOW   "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define VIA   "Via: 1.1 tarn\r\n"
#define OK    "HTTP/1.1 200 OK\r\n"

static const struct slice tarn = {"tarn", 4};

static const struct http_message *
parsed(struct head_build *b, const char *block)
{
    CHECK_EQ(0, block_parse(slice_str(block), b->fields, LIMIT_FIELDS, &b->h));
    return &b->h;
}

TEST(block, what_forward_writes_is_read_back)
{
    static const struct forward_response how = {FORWARD_STORED, {"tarn", 4}, NOW_S};
    struct http_field fields[8];
    struct head_build b;
    struct http_message h;
    char out[512];
    int len;

    len = forward_response(head_build(&b, "HTTP/1.1 299 So so\nETag: \"x\"\nX-Empty:\nAge: 1\n"),
        &how, (struct span){out, sizeof(out)});
    CHECK(len > 0);
    CHECK_EQ(0, block_parse(slice_of(out, (size_t)len), fields, 8, &h));
    CHECK_EQ(299, h.status);
    CHECK_EQ(len, h.len);
    CHECK(slice_eq(SLICE_LIT("So so"), http_slice(&h, h.reason_off, h.reason_len)));
    CHECK_EQ(4, h.nfields);
    CHECK(slice_eq(SLICE_LIT("\"x\""), http_get_one(&h, HTTP_F_ETAG)));
    CHECK(slice_eq(SLICE_LIT("X-Empty"), http_name(&h, &h.fields[1])));
    CHECK_EQ(0, h.fields[1].value_len);
    CHECK(http_has(&h, HTTP_F_DATE) && http_has(&h, HTTP_F_VIA) && !http_has(&h, HTTP_F_AGE));
    CHECK_EQ(0, block_parse(slice_of(out, (size_t)len), fields, 4, &h));
    CHECK_EQ(TERR_LIMIT, block_parse(slice_of(out, (size_t)len), fields, 3, &h));
    while (--len > 0) { /* cut anywhere it is whole lines, or wrong */
        bool whole = out[len - 1] == '\n';

        CHECK_EQ(whole ? 0 : TERR_SYNTAX, block_parse(slice_of(out, (size_t)len), fields, 8, &h));
    }
}

TEST(block, what_we_never_wrote_is_refused)
{
    static const char *const bad[] = {"", "\r\n", "HTTP/1.1 200\r\n", "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 20x OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/1.1 2000 OK\r\n", OK "\r\n",
        OK "nocolon\r\n", OK ": v\r\n", OK "a b: v\r\n", OK "a : v\r\n", OK "a: v\n",
        OK "a: v\r\n\r\n", OK "a: \001\r\n", OK " a: v\r\n", "HTTP/1.1 200 O\001K\r\n"};
    static char large[LIMIT_HEAD_BYTES + 2];
    struct http_message h = {.status = 7};
    struct http_field fields[8];
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_SYNTAX, block_parse(slice_str(bad[i]), fields, 8, &h));
    memset(large, 'v', sizeof(large));
    memcpy(large, OK "a: ", 20);
    memcpy(large + LIMIT_HEAD_BYTES - 1, "\r\n", 2);
    CHECK_EQ(TERR_LIMIT, block_parse(slice_of(large, LIMIT_HEAD_BYTES + 1), fields, 8, &h));
    CHECK_EQ(7, h.status);
    memcpy(large + LIMIT_HEAD_BYTES - 2, "\r\n", 2);
    CHECK_EQ(0, block_parse(slice_of(large, LIMIT_HEAD_BYTES), fields, 8, &h));
    CHECK_EQ(0, block_parse(SLICE_LIT("HTTP/1.1 200 \r\n"), fields, 0, &h));
    CHECK_EQ(0, h.reason_len);
}

/* What `update` makes of `stored`; tried with every length of buffer. */
static void
check_merged(const char *want, const char *stored_text, const struct http_message *update)
{
    struct head_build s;
    const struct http_message *stored = parsed(&s, stored_text);
    static char out[4096];
    size_t max = block_merge_max(stored, update, tarn), room;
    size_t len = strlen(want);

    CHECK(len <= max && max < sizeof(out));
    for (room = 0; room < len; room++)
        CHECK_EQ(TERR_LIMIT, block_merge(stored, update, tarn, NOW_S, (struct span){out, room}));
    for (; room <= max; room++) {
        out[len] = '!';
        CHECK_EQ(len, block_merge(stored, update, tarn, NOW_S, (struct span){out, room}));
        CHECK_EQ('!', out[len]);
        out[len] = '\0';
        CHECK_STR(want, out);
    }
}

static void
merged(const char *want, const char *stored, const char *update_text)
{
    struct head_build u;

    check_merged(want, stored, head_build(&u, update_text));
}

TEST(block, an_update_replaces_fields_by_name)
{
    merged(OK "A: 1\r\nB: 3\r\nC: 4\r\n" NOW VIA, OK "A: 1\r\nB: 2\r\n" NOW,
        "HTTP/1.1 304 Not Modified\nB: 3\nC: 4\n");
    merged(OK NOW VIA, OK NOW, "HTTP/1.1 304 X\n");
    merged(OK "b: 3\r\n" NOW VIA, OK "B: 1\r\nB: 2\r\n" NOW, "HTTP/1.1 304 X\nb: 3\n");
    merged(OK "B: 3\r\nB: 4\r\n" NOW VIA, OK "B: 1\r\n" NOW, "HTTP/1.1 304 X\nB: 3\nB: 4\n");
    merged(OK "A: 1\r\nSet-Cookie: c=3\r\n" NOW VIA,
        OK "Set-Cookie: a=1\r\nA: 1\r\nSet-Cookie: b=2\r\n" NOW,
        "HTTP/1.1 304 X\nSet-Cookie: c=3\n");
    merged("HTTP/1.1 206 Part\r\n" NOW VIA, "HTTP/1.1 206 Part\r\n" NOW, "HTTP/1.1 206 X\n");
    merged("HTTP/1.1 200 \r\n" NOW VIA, "HTTP/1.1 200 \r\n" NOW, "HTTP/1.1 304 Why\n");
}

/* Each of these in turn: stored "1", then "2" from the 304. */
TEST(block, what_the_body_depends_on_is_not_replaced_and_all_else_is)
{
    static const char *const kept[] = {"Content-Length", "Content-Encoding", "Content-Range",
        "Content-MD5", "content-digest", "ETag"};
    static const char *const replaced[] = {"Test-Header", "Content-Foo", "X-Content-Foo",
        "Cache-Control", "Content-Location", "Content-Security-Policy", "Content-Type",
        "Clear-Site-Data", "Expires", "Public-Key-Pins", "Set-Cookie", "Set-Cookie2",
        "X-Frame-Options", "X-XSS-Protection", "Last-Modified", "Vary", "Content-Language",
        "CDN-Cache-Control"};
    char stored[128], update[128], want[128];
    size_t i;

    for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        snprintf(stored, sizeof(stored), OK "%s: 1\r\n" NOW, kept[i]);
        snprintf(update, sizeof(update), "HTTP/1.1 304 X\n%s: 2\n", kept[i]);
        snprintf(want, sizeof(want), OK "%s: 1\r\n" NOW VIA, kept[i]);
        merged(want, stored, update);
    }
    for (i = 0; i < 5; i++) { /* nor does a body get what it did not have */
        snprintf(update, sizeof(update), "HTTP/1.1 304 X\n%s: 2\n", kept[i]);
        merged(OK NOW VIA, OK NOW, update);
    }
    merged(OK "ETag: \"2\"\r\n" NOW VIA, OK NOW, "HTTP/1.1 304 X\nETag: \"2\"\n");
    for (i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++) {
        snprintf(stored, sizeof(stored), OK "%s: 1\r\n" NOW, replaced[i]);
        snprintf(update, sizeof(update), "HTTP/1.1 304 X\n%s: 2\n", replaced[i]);
        snprintf(want, sizeof(want), OK "%s: 2\r\n" NOW VIA, replaced[i]);
        merged(want, stored, update);
        merged(want, OK NOW, update);
    }
}

TEST(block, fields_for_one_hop_and_ours_come_from_no_update)
{
    static const char *const hop[] = {"Connection", "Keep-Alive", "Proxy-Authenticate",
        "Transfer-Encoding", "Upgrade", "TE", "Trailer", "Age", "Cache-Status"};
    struct head_build u;
    struct http_message *update;
    char text[128];
    size_t i;

    for (i = 0; i < sizeof(hop) / sizeof(hop[0]); i++) {
        snprintf(text, sizeof(text), "HTTP/1.1 304 X\n%s: 2\n", hop[i]);
        merged(OK "A: 1\r\n" NOW VIA, OK "A: 1\r\n" NOW, text);
    }
    update = head_build(&u, "HTTP/1.1 304 X\nA: 2\nCache-Control: no-store\n");
    update->fields[0].drop = update->fields[1].drop = true; /* nominated */
    check_merged(
        OK "A: 1\r\nCache-Control: b\r\n" NOW VIA, OK "A: 1\r\nCache-Control: b\r\n" NOW, update);
    update = head_build(&u, "HTTP/1.1 304 X\nA: 2\nA: 3\n");
    update->fields[0].drop = true;
    check_merged(OK "A: 3\r\n" NOW VIA, OK "A: 1\r\n" NOW, update);
}

TEST(block, date_and_via_are_those_of_the_update)
{
    static const char later[] = "Date: Sun, 06 Nov 1994 09:49:37 GMT";
    char update[128], want[256];
    struct head_build s, u;
    char out[256];
    int len;

    snprintf(update, sizeof(update), "HTTP/1.0 304 X\nVia: 1.1 a\nVia:\nVia: 1.0 b\n%s\n", later);
    snprintf(want, sizeof(want), OK "%s\r\nVia: 1.1 a, 1.0 b, 1.0 tarn\r\n", later);
    merged(want, OK NOW "Via: 1.1 old, 1.1 tarn\r\n", update);
    merged(OK NOW VIA, OK "Date: Sun, 06 Nov 1994 09:49:37 GMT\r\nVia: 1.1 old\r\n",
        "HTTP/1.1 304 X\n");
    len = block_merge(parsed(&s, OK NOW VIA), head_build(&u, "HTTP/1.1 304 X\n"), SLICE_LIT(""),
        NOW_S, (struct span){out, sizeof(out)});
    CHECK(slice_eq(SLICE_LIT(OK NOW), slice_of(out, (size_t)len)));
}

enum rewrite {
    NOT_MODIFIED,
    PARTIAL,
    SEVERAL,
    UNSATISFIABLE,
    WHOLE
};

static int
rewrite(enum rewrite which, const struct http_message *stored, struct span out)
{
    static const struct block_partial one = {{"bytes 0-4/10", 12}, {NULL, 0}};
    static const struct block_partial several = {{NULL, 0}, {"bound", 5}};

    switch (which) {
    case NOT_MODIFIED:
        return block_not_modified(stored, out);
    case PARTIAL:
        return block_partial(stored, &one, out);
    case SEVERAL:
        return block_partial(stored, &several, out);
    case UNSATISFIABLE:
        return block_unsatisfiable(stored, 10, out);
    case WHOLE:
        break;
    }
    return block_whole(stored, out);
}

static void
rewritten(enum rewrite which, const char *want, const char *stored_text)
{
    struct head_build s;
    const struct http_message *stored = parsed(&s, stored_text);
    static char out[4096];
    size_t max = block_rewrite_max(stored), len = strlen(want), room;

    CHECK(len <= max && max < sizeof(out));
    for (room = 0; room < len; room++)
        CHECK_EQ(TERR_LIMIT, rewrite(which, stored, (struct span){out, room}));
    for (; room <= max; room++) {
        out[len] = '!';
        CHECK_EQ(len, rewrite(which, stored, (struct span){out, room}));
        CHECK_EQ('!', out[len]);
        out[len] = '\0';
        CHECK_STR(want, out);
    }
}

#define KEPT                                                                           \
    "ETag: \"x\"\r\nContent-Location: /x\r\nContent-Security-Policy: p\r\nVary: a\r\n" \
    "Last-Modified: m\r\n" NOW VIA
#define FRESH "Cache-Control: max-age=9\r\nExpires: 0\r\nCDN-Cache-Control: max-age=9\r\n"
#define SHAPE "Content-Type: t\r\nContent-Encoding: gzip\r\nContent-Language: en\r\n"
#define SUMS  "Content-MD5: m\r\nContent-Digest: d\r\n"

TEST(block, a_304_has_nothing_that_describes_the_body)
{
    rewritten(NOT_MODIFIED, "HTTP/1.1 304 Not Modified\r\n" KEPT FRESH,
        OK SHAPE KEPT "Content-Length: 5\r\nContent-Disposition: x\r\n" SUMS FRESH);
    rewritten(NOT_MODIFIED, "HTTP/1.1 304 Not Modified\r\n", OK);
}

TEST(block, a_206_says_which_part_it_is)
{
    rewritten(PARTIAL,
        "HTTP/1.1 206 Partial Content\r\n" SHAPE KEPT FRESH "Content-Range: bytes 0-4/10\r\n",
        OK SHAPE KEPT "Content-Length: 10\r\n" SUMS FRESH);
    rewritten(PARTIAL, "HTTP/1.1 206 Partial Content\r\n" KEPT "Content-Range: bytes 0-4/10\r\n",
        "HTTP/1.1 206 X\r\n" KEPT "Content-Length: 9\r\nContent-Range: bytes 0-8/10\r\n");
    rewritten(PARTIAL, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\n",
        "HTTP/1.1 200 \r\n");
    rewritten(SEVERAL,
        "HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\n"
        "Content-Language: en\r\n" KEPT "Content-Type: multipart/byteranges; boundary=bound\r\n",
        OK SHAPE KEPT "Content-Length: 10\r\n" SUMS);
}

TEST(block, a_416_tells_the_length_and_is_not_fresh)
{
    rewritten(UNSATISFIABLE,
        "HTTP/1.1 416 Range Not Satisfiable\r\n" KEPT "Content-Range: bytes */10\r\n",
        OK SHAPE KEPT "Content-Length: 10\r\nSurrogate-Control: max-age=9\r\n" SUMS FRESH);
    rewritten(
        UNSATISFIABLE, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */10\r\n", OK);
}

TEST(block, a_stored_206_becomes_the_head_of_the_whole)
{
    rewritten(WHOLE, OK SHAPE KEPT FRESH,
        "HTTP/1.1 206 Partial Content\r\n" SHAPE KEPT "Content-Length: 5\r\n"
        "Content-Range: bytes 0-4/10\r\n" SUMS FRESH);
}

TEST(block, the_longest_additions_fit)
{
    char boundary[70], range[RANGE_TEXT_MAX], out[256];
    struct content_range cr = {UINT64_MAX - 2, UINT64_MAX - 2, UINT64_MAX - 1};
    struct head_build s;
    const struct http_message *stored = parsed(&s, "HTTP/1.1 200 \r\n");
    struct block_partial how = {.boundary = {boundary, sizeof(boundary)}};
    size_t max = block_rewrite_max(stored);

    memset(boundary, 'b', sizeof(boundary));
    CHECK(max < sizeof(out));
    CHECK(block_partial(stored, &how, (struct span){out, max}) > 0);
    how.content_range = slice_of(range, content_range_write(&cr, range));
    CHECK(block_partial(stored, &how, (struct span){out, max}) > 0);
    CHECK(block_unsatisfiable(stored, UINT64_MAX - 1, (struct span){out, max}) > 0);
    CHECK(block_not_modified(stored, (struct span){out, max}) > 0);
}

TEST_MAIN(TEST_ENTRY(block, what_forward_writes_is_read_back),
    TEST_ENTRY(block, what_we_never_wrote_is_refused),
    TEST_ENTRY(block, an_update_replaces_fields_by_name),
    TEST_ENTRY(block, what_the_body_depends_on_is_not_replaced_and_all_else_is),
    TEST_ENTRY(block, fields_for_one_hop_and_ours_come_from_no_update),
    TEST_ENTRY(block, date_and_via_are_those_of_the_update),
    TEST_ENTRY(block, a_304_has_nothing_that_describes_the_body),
    TEST_ENTRY(block, a_206_says_which_part_it_is),
    TEST_ENTRY(block, a_416_tells_the_length_and_is_not_fresh),
    TEST_ENTRY(block, a_stored_206_becomes_the_head_of_the_whole),
    TEST_ENTRY(block, the_longest_additions_fit))
