/* http_derive_test.c -- responses derived from a stored one, and how it is stored. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/base/terr.h"
#include "daemon/http/derive.h"
#include "daemon/http/field_line.h"
#include "daemon/http/packed_fields.h"
#include "daemon/http/range.h"

#define NOW_S INT64_C(784111777)
#define NOW   "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define VIA   "Via: 1.1 tarn\r\n"
#define OK    "HTTP/1.1 200 OK\r\n"

static const struct slice tarn = {"tarn", 4};

static const struct http_message *
parsed(struct head_build *b, const char *block)
{
    return head_build_stored(b, block);
}

static struct arena_pool pool;
static struct arena arena;

/* What `update` makes of `stored`. */
static void
check_merged(const char *want, const char *stored_text, const struct http_message *update)
{
    struct head_build s;
    struct http_message out;

    arena_init(&arena, &pool);
    CHECK_EQ(0, derive_merged(parsed(&s, stored_text), update, tarn, NOW_S, &arena, &out));
    CHECK_STR(want, head_text(&out));
    arena_fini(&arena);
}

static void
merged(const char *want, const char *stored, const char *update_text)
{
    struct head_build u;

    check_merged(want, stored, head_build(&u, update_text));
}

TEST(derive, an_update_replaces_fields_by_name)
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
TEST(derive, what_the_body_depends_on_is_not_replaced_and_all_else_is)
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

TEST(derive, fields_for_one_hop_and_ours_come_from_no_update)
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

TEST(derive, date_and_via_are_those_of_the_update)
{
    static const char later[] = "Date: Sun, 06 Nov 1994 09:49:37 GMT";
    char update[128], want[256];
    struct head_build s, u;
    struct http_message out;

    snprintf(update, sizeof(update), "HTTP/1.0 304 X\nVia: 1.1 a\nVia:\nVia: 1.0 b\n%s\n", later);
    snprintf(want, sizeof(want), OK "%s\r\nVia: 1.1 a, 1.0 b, 1.0 tarn\r\n", later);
    merged(want, OK NOW "Via: 1.1 old, 1.1 tarn\r\n", update);
    merged(OK NOW VIA, OK "Date: Sun, 06 Nov 1994 09:49:37 GMT\r\nVia: 1.1 old\r\n",
        "HTTP/1.1 304 X\n");
    arena_init(&arena, &pool);
    CHECK_EQ(0, derive_merged(parsed(&s, OK NOW VIA), head_build(&u, "HTTP/1.1 304 X\n"),
                    SLICE_LIT(""), NOW_S, &arena, &out));
    CHECK_STR(OK NOW, head_text(&out));
    arena_fini(&arena);
}

enum rewrite {
    NOT_MODIFIED,
    PARTIAL,
    SEVERAL,
    UNSATISFIABLE,
    WHOLE
};

static int
rewrite(enum rewrite which, const struct http_message *stored, struct http_message *out)
{
    static const struct derive_partial one = {{"bytes 0-4/10", 12}, {NULL, 0}};
    static const struct derive_partial several = {{NULL, 0}, {"bound", 5}};

    switch (which) {
    case NOT_MODIFIED:
        return derive_not_modified(stored, &arena, out);
    case PARTIAL:
        return derive_partial(stored, &one, &arena, out);
    case SEVERAL:
        return derive_partial(stored, &several, &arena, out);
    case UNSATISFIABLE:
        return derive_unsatisfiable(stored, 10, &arena, out);
    case WHOLE:
        break;
    }
    return derive_whole(stored, &arena, out);
}

static void
rewritten(enum rewrite which, const char *want, const char *stored_text)
{
    struct head_build s;
    struct http_message out;

    arena_init(&arena, &pool);
    CHECK_EQ(0, rewrite(which, parsed(&s, stored_text), &out));
    CHECK_STR(want, head_text(&out));
    arena_fini(&arena);
}

#define KEPT                                                                           \
    "ETag: \"x\"\r\nContent-Location: /x\r\nContent-Security-Policy: p\r\nVary: a\r\n" \
    "Last-Modified: m\r\n" NOW VIA
#define FRESH "Cache-Control: max-age=9\r\nExpires: 0\r\nCDN-Cache-Control: max-age=9\r\n"
#define SHAPE "Content-Type: t\r\nContent-Encoding: gzip\r\nContent-Language: en\r\n"
#define SUMS  "Content-MD5: m\r\nContent-Digest: d\r\n"

TEST(derive, a_304_has_nothing_that_describes_the_body)
{
    rewritten(NOT_MODIFIED, "HTTP/1.1 304 Not Modified\r\n" KEPT FRESH,
        OK SHAPE KEPT "Content-Length: 5\r\nContent-Disposition: x\r\n" SUMS FRESH);
    rewritten(NOT_MODIFIED, "HTTP/1.1 304 Not Modified\r\n", OK);
}

TEST(derive, a_206_says_which_part_it_is)
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

TEST(derive, a_416_tells_the_length_and_is_not_fresh)
{
    rewritten(UNSATISFIABLE,
        "HTTP/1.1 416 Range Not Satisfiable\r\n" KEPT "Content-Range: bytes */10\r\n",
        OK SHAPE KEPT "Content-Length: 10\r\nSurrogate-Control: max-age=9\r\n" SUMS FRESH);
    rewritten(
        UNSATISFIABLE, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */10\r\n", OK);
}

TEST(derive, a_stored_206_becomes_the_head_of_the_whole)
{
    rewritten(WHOLE, OK SHAPE KEPT FRESH,
        "HTTP/1.1 206 Partial Content\r\n" SHAPE KEPT "Content-Length: 5\r\n"
        "Content-Range: bytes 0-4/10\r\n" SUMS FRESH);
}

/* `coding`: NULL: the body stays. */
static void
coded(const char *coding, const char *want, const char *stored_text)
{
    struct slice to = slice_str(coding != NULL ? coding : "");
    struct http_message out;
    struct head_build s;

    arena_init(&arena, &pool);
    CHECK_EQ(0, derive_coding(parsed(&s, stored_text), coding != NULL ? &to : NULL, &arena, &out));
    CHECK_STR(want, head_text(&out));
    arena_fini(&arena);
}

TEST(derive, a_packed_body_has_its_coding_a_weak_etag_and_no_sums)
{
    coded("gzip",
        OK "Content-Type: t\r\nETag: W/\"x\"\r\nVary: a\r\nContent-Encoding: gzip\r\n"
           "Vary: Accept-Encoding\r\n",
        OK "Content-Type: t\r\nETag: \"x\"\r\nVary: a\r\nContent-Length: 5\r\n" SUMS
           "Repr-Digest: r\r\nDigest: d\r\n");
    coded("gzip", OK "ETag: W/\"x\"\r\nVary: a, ACCEPT-encoding\r\nContent-Encoding: gzip\r\n",
        OK "ETag: W/\"x\"\r\nVary: a, ACCEPT-encoding\r\n");
    coded("gzip", OK "Vary: *\r\nContent-Encoding: gzip\r\n", OK "Vary: *\r\n");
}

TEST(derive, an_unpacked_body_has_no_coding_and_a_weak_etag)
{
    coded("", OK "ETag: W/\"x\"\r\nVary: Accept-Encoding\r\n",
        OK "Content-Encoding: gzip\r\nETag: \"x\"\r\nContent-Length: 9\r\n" SUMS);
    /* Only what it depends on is said of one that stays. */
    coded(NULL, OK "Content-Encoding: gzip\r\nETag: \"x\"\r\n" SUMS "Vary: Accept-Encoding\r\n",
        OK "Content-Encoding: gzip\r\nETag: \"x\"\r\n" SUMS);
}

TEST(derive, the_longest_additions_fit)
{
    char boundary[70], range[RANGE_TEXT_MAX];
    struct content_range cr = {UINT64_MAX - 2, UINT64_MAX - 2, UINT64_MAX - 1};
    struct head_build s;
    const struct http_message *stored = parsed(&s, "HTTP/1.1 200 \r\n");
    struct derive_partial how = {.boundary = {boundary, sizeof(boundary)}};
    struct http_message out;

    arena_init(&arena, &pool);
    memset(boundary, 'b', sizeof(boundary));
    CHECK_EQ(0, derive_partial(stored, &how, &arena, &out));
    how.content_range = slice_of(range, content_range_write(&cr, range));
    CHECK_EQ(0, derive_partial(stored, &how, &arena, &out));
    CHECK_EQ(0, derive_unsatisfiable(stored, UINT64_MAX - 1, &arena, &out));
    CHECK_EQ(0, derive_not_modified(stored, &arena, &out));
    arena_fini(&arena);
}

/* 200 fields stored, and 100 others that came: a message has 256 at most. */
TEST(derive, too_many_fields_are_refused)
{
    static char stored_text[8192], update_text[8192];
    struct head_build s, u;
    struct http_message out;
    size_t n = (size_t)sprintf(stored_text, OK),
           k = (size_t)sprintf(update_text, "HTTP/1.1 304 X\n");

    for (unsigned i = 0; i < 200; i++)
        n += (size_t)sprintf(stored_text + n, "A%u: 1\r\n", i);
    for (unsigned i = 0; i < 100; i++)
        k += (size_t)sprintf(update_text + k, "B%u: 1\n", i);
    arena_init(&arena, &pool);
    CHECK_EQ(TERR_LIMIT, derive_merged(parsed(&s, stored_text), head_build(&u, update_text), tarn,
                             NOW_S, &arena, &out));
    arena_fini(&arena);
}

/* What is packed comes back, long names and values too. */
TEST(derive, packed_fields_are_read_back)
{
    static char text[2048], packed[128];
    static const char *const names[] = {"ETag", "X-Other", "content-type"};
    struct http_field fields[8];
    struct http_message out;
    struct head_build s;
    const struct http_message *m;
    size_t n = (size_t)sprintf(text, OK);

    for (unsigned i = 0; i < 3; i++)
        n += (size_t)sprintf(text + n, "%s: %0*d\r\n", names[i], i == 1 ? 300 : 3, 7);
    n += (size_t)sprintf(text + n, "Empty: \r\n");
    memset(text + n, 'n', 400);
    strcpy(text + n + 400, ": v\r\n");
    m = parsed(&s, text);
    CHECK_EQ(2 + 4 + 2 + 3 + 4, packed_fields_bytes(m));
    packed_fields_write(m, packed);
    out = *m;
    out.fields = fields;
    out.max_fields = 8;
    packed_fields_read(slice_of(packed, packed_fields_bytes(m)), &out);
    CHECK_EQ(m->nfields, out.nfields);
    CHECK(m->present == out.present);
    for (unsigned i = 0; i < out.nfields; i++) {
        CHECK_EQ(m->fields[i].id, out.fields[i].id);
        CHECK(slice_eq(http_name(m, &m->fields[i]), http_name(&out, &out.fields[i])));
        CHECK(slice_eq(http_value(m, &m->fields[i]), http_value(&out, &out.fields[i])));
    }
}

static char *
put_once(char *p, unsigned *calls)
{
    (*calls)++;
    return p;
}

/* A hit paid for its key twice: a macro that evaluated its argument twice was given the call that writes it. */
TEST(field_line, a_call_that_writes_is_made_once)
{
    unsigned calls = 0;
    char line[16];

    CHECK(FIELD_END(put_once(line, &calls)) == line + 2);
    CHECK_EQ(1, calls);
    CHECK(FIELD_BEGIN(put_once(line, &calls), "Age") == line + 5);
    CHECK_EQ(2, calls);
}

TEST_MAIN(TEST_ENTRY(field_line, a_call_that_writes_is_made_once),
    TEST_ENTRY(derive, an_update_replaces_fields_by_name),
    TEST_ENTRY(derive, what_the_body_depends_on_is_not_replaced_and_all_else_is),
    TEST_ENTRY(derive, fields_for_one_hop_and_ours_come_from_no_update),
    TEST_ENTRY(derive, date_and_via_are_those_of_the_update),
    TEST_ENTRY(derive, a_304_has_nothing_that_describes_the_body),
    TEST_ENTRY(derive, a_206_says_which_part_it_is),
    TEST_ENTRY(derive, a_416_tells_the_length_and_is_not_fresh),
    TEST_ENTRY(derive, a_stored_206_becomes_the_head_of_the_whole),
    TEST_ENTRY(derive, a_packed_body_has_its_coding_a_weak_etag_and_no_sums),
    TEST_ENTRY(derive, an_unpacked_body_has_no_coding_and_a_weak_etag),
    TEST_ENTRY(derive, the_longest_additions_fit), TEST_ENTRY(derive, too_many_fields_are_refused),
    TEST_ENTRY(derive, packed_fields_are_read_back))
