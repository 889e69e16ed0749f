/* h1_memo_test.c -- what the memo knows is what parsing and judging the same bytes gives; and what
 * it must not know it says nothing of.
 *
 * Heads are made up by a generator that always makes the same ones.  Each call sees a block of
 * exactly its bytes, which is gone afterwards, so that the address sanitizer catches whoever keeps
 * a pointer or looks too far.
 */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/h1/h1_memo.h"
#include "daemon/http/uri.h"
#include "t/unit/h1_parse_try.h"

enum {
    HEADS = 3000,
    LINE_MAX_BYTES = 400,
    BLOCK_MAX_BYTES = 3072,
    TEXT_MAX_BYTES = LINE_MAX_BYTES + BLOCK_MAX_BYTES + 64,
    /* what a browser sends, and must be found once it was noted twice */
    USUAL_FIELDS = 20,
    USUAL_BYTES = 1024,
};

/* Fields alone that say something of one message. */
#define MESSAGE_ALONE                                                       \
    (HTTP_BIT(HTTP_F_CONTENT_LENGTH) | HTTP_BIT(HTTP_F_TRANSFER_ENCODING) | \
        HTTP_BIT(HTTP_F_EXPECT) | HTTP_BIT(HTTP_F_UPGRADE))

/* ---- the ordinary way, and the memo's ---- */

/* As h1_head_check() of daemon/h1/h1_read.c: may anybody act on it? */
static bool
judge(struct h1_try *t, bool *persists)
{
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct framing_connection fc;

    if (framing_connection_of_request(&t->head, &fc) < 0 ||
        framing_of_request(&t->head, &t->parser.framing) < 0 ||
        http_target_parse(&t->head, &scheme) < 0)
        return false;
    *persists = fc.persists;
    return true;
}

static bool
has_body(const struct h1_try *t)
{
    return t->parser.framing.kind == FRAMING_CHUNKED || t->parser.framing.length > 0;
}

/* Is this the beginning of a good head?  Then it may be noted. */
static bool
ordinary(struct h1_try *t, struct slice text, bool *persists)
{
    return h1_try_whole(t, false, text) == 1 && judge(t, persists);
}

static void
note(struct h1_memo *m, struct slice text)
{
    struct h1_try t;
    bool persists;

    h1_try_init(&t);
    if (ordinary(&t, text, &persists) && !has_body(&t))
        h1_memo_note(m, &t.parser, persists);
    h1_try_fini(&t);
}

static struct h1_memo *
note_twice(struct slice text)
{
    struct h1_memo *m = h1_memo_new();

    CHECK(m != NULL);
    note(m, text);
    note(m, text);
    return m;
}

/* The line is read and the memo asked; t->limits and t->max_fields are the caller's. */
static bool
ask(struct h1_memo *m, uint8_t *hint, struct h1_try *t, struct slice text, bool *persists)
{
    h1_try_start(t, false);
    t->block = (char *)malloc(text.len == 0 ? 1 : text.len);
    CHECK(t->block != NULL);
    memcpy(t->block, text.ptr, text.len);
    CHECK_EQ(1, h1_parse_line(&t->parser, t->block, text.len));
    return h1_memo_find(m, hint, &t->parser, t->block, text.len, persists);
}

static void
check_same(const struct h1_try *want, const struct h1_try *got)
{
    const struct http_message *w = &want->head, *g = &got->head;

    CHECK(h1_try_same_heads(want, got));
    CHECK(g->base == got->block);
    CHECK_EQ(w->method_off, g->method_off);
    CHECK_EQ(w->path_off, g->path_off);
    CHECK_EQ(w->path_len, g->path_len);
    CHECK_EQ(w->authority_off, g->authority_off);
    CHECK_EQ(w->authority_len, g->authority_len);
    CHECK_EQ(want->parser.framing.kind, got->parser.framing.kind);
    CHECK_EQ(want->parser.framing.has_length, got->parser.framing.has_length);
    CHECK_EQ(want->parser.framing.length, got->parser.framing.length);
    CHECK_EQ(want->parser.head_done, got->parser.head_done);
    CHECK_EQ(want->parser.err, got->parser.err);
}

/* Both ways over the same bytes.  Whether the memo knew; what it did not is then parsed in the same
 * parser, and comes out as if it had not been asked. */
static bool
compare_within(
    struct h1_memo *m, uint8_t hint, struct slice text, size_t head_max, unsigned max_fields)
{
    bool found, good, persists[2] = {false, false};
    struct h1_try want, got;

    h1_try_init(&want);
    h1_try_init(&got);
    want.limits.head_max = got.limits.head_max = head_max;
    want.max_fields = got.max_fields = max_fields;
    good = ordinary(&want, text, &persists[0]);
    persists[1] = !persists[0]; /* so that it must be set */
    found = ask(m, &hint, &got, text, &persists[1]);
    if (found) {
        CHECK(good && !has_body(&want));
        CHECK(got.parser.body_done);
    } else {
        CHECK(!got.parser.head_done && !got.parser.body_done);
        CHECK_EQ(want.rc, h1_parse_head(&got.parser, got.block, text.len));
        CHECK_EQ(good, want.rc == 1 && judge(&got, &persists[1]));
    }
    if (good)
        CHECK_EQ(persists[0], persists[1]);
    check_same(&want, &got);
    h1_try_fini(&want);
    h1_try_fini(&got);
    return found;
}

static bool
compare(struct h1_memo *m, uint8_t hint, struct slice text)
{
    return compare_within(m, hint, text, 32768, LIMIT_FIELDS);
}

/* Where the memo has the block of `text`, of which it knows. */
static uint8_t
hint_of(struct h1_memo *m, struct slice text)
{
    struct h1_try t;
    uint8_t hint = 0;
    bool persists;

    h1_try_init(&t);
    CHECK(ask(m, &hint, &t, text, &persists));
    h1_try_fini(&t);
    return hint;
}

/* ---- heads ---- */

static uint64_t
next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned
below(uint64_t *seed, unsigned n)
{
    return (unsigned)(next(seed) % n);
}

/* Text of a head under way; what does not fit is left out. */
struct text {
    char bytes[TEXT_MAX_BYTES];
    size_t len;
};

static struct slice
all(const struct text *t)
{
    return slice_of(t->bytes, t->len);
}

static void
put(struct text *t, const char *s)
{
    size_t len = strlen(s);

    CHECK(t->len + len <= sizeof(t->bytes));
    memcpy(t->bytes + t->len, s, len);
    t->len += len;
}

static void
put_slice(struct text *t, struct slice s)
{
    CHECK(t->len + s.len <= sizeof(t->bytes));
    memcpy(t->bytes + t->len, s.ptr, s.len);
    t->len += s.len;
}

static void
put_random(struct text *t, uint64_t *seed, const char *set, size_t len)
{
    unsigned n = (unsigned)strlen(set);

    CHECK(t->len + len <= sizeof(t->bytes));
    for (size_t i = 0; i < len; i++)
        t->bytes[t->len++] = set[below(seed, n)];
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789-";
static const char in_target[] = "abcdefghijklmnopqrstuvwxyz0123456789/?&=%._~-";
static const char in_value[] = "abcdefghijklmnopqrstuvwxyz 0123456789\t,;=\"/()*:\x80\xff";

/* A first line under which a block may be known. */
static void
put_line(struct text *t, uint64_t *seed)
{
    static const char *const methods[] = {
        "GET", "HEAD", "POST", "OPTIONS", "DELETE", "BREW", "PURGE", "M-SEARCH"};

    put(t, methods[below(seed, 2) == 0 ? 0 : below(seed, 8)]);
    put(t, " /");
    put_random(t, seed, in_target, below(seed, 4) == 0 ? 0 : below(seed, 300));
    put(t, " HTTP/1.1\r\n");
}

static const char *const odd_lines[] = {
    "GET / HTTP/1.0\r\n",
    "GET http://other.example/path HTTP/1.1\r\n",
    "GET http://other.example HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT other.example:443 HTTP/1.1\r\n",
    "CONNECT / HTTP/1.1\r\n",
};

/* A field that says nothing of framing: a known name or not, and any value. */
static void
put_field(struct text *t, uint64_t *seed, unsigned value_max)
{
    static const char *const space[] = {" ", "", "\t", "  "};
    enum http_field_id id = HTTP_F_OTHER;

    if (below(seed, 3) > 0)
        id = (enum http_field_id)(1 + below(seed, HTTP_F_COUNT - 1));
    if (id == HTTP_F_OTHER || id == HTTP_F_HOST || id == HTTP_F_CONNECTION ||
        (MESSAGE_ALONE & HTTP_BIT(id)) != 0) {
        put(t, "X-"); /* no name that Connection gives a meaning to */
        put_random(t, seed, letters, 1 + below(seed, 24));
    } else {
        put(t, http_field_name(id));
        if (below(seed, 4) == 0) /* names have no case */
            t->bytes[t->len - 1] = (char)(t->bytes[t->len - 1] ^ 0x20);
    }
    put(t, ":");
    put(t, space[below(seed, 4)]);
    put_random(t, seed, in_value, below(seed, 6) == 0 ? 0 : below(seed, value_max));
    put(t, space[below(seed, 4)]);
    put(t, "\r\n");
}

/* One of these, now and then: most heads have none. */
static void
put_special(struct text *t, uint64_t *seed)
{
    static const char *const special[] = {
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Connection: keep-alive, X-Hop, x-later\r\nX-hop: 1\r\n",
        "Connection: TE,,Cookie2\r\nTE: trailers\r\nCookie2: a\r\n",
        "Connection: close\r\nConnection: X-Hop\r\nX-Hop: \r\nX-HOP: 2\r\n",
        "Connection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n",
        "Connection: Host\r\n",
        "Content-Length: 0\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer_Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Upgrade: websocket\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    };

    put(t, special[below(seed, sizeof(special) / sizeof(special[0]))]);
}

/* Fields and the blank line; Host is there once, or twice, or not. */
static void
put_block(struct text *t, uint64_t *seed)
{
    unsigned fields = 1 + below(seed, below(seed, 3) == 0 ? 40 : 15), at = below(seed, fields);
    unsigned value_max = below(seed, 8) == 0 ? 600 : 60, hosts = 1;
    size_t start = t->len;

    if (below(seed, 16) == 0)
        hosts = below(seed, 2) * 2;
    for (unsigned i = 0; i < fields; i++) {
        for (unsigned n = 0; i == at && n < hosts; n++) {
            put(t, "Host: h");
            put_random(t, seed, "0123456789", 1 + below(seed, 12));
            put(t, ".example\r\n");
        }
        if (i == at && below(seed, 3) == 0)
            put_special(t, seed);
        if (i != at && t->len - start + value_max + 80 < BLOCK_MAX_BYTES - 200)
            put_field(t, seed, value_max);
    }
    put(t, "\r\n");
}

/* A block under a line that always is the same, and under one that is its own. */
static void
make(struct text *first, struct text *other, uint64_t *seed)
{
    struct text block = {.len = 0};

    put_block(&block, seed);
    first->len = other->len = 0;
    put(first, "GET /first HTTP/1.1\r\n");
    put_slice(first, all(&block));
    put_line(other, seed);
    put_slice(other, all(&block));
}

/* What the contract says of a block, asked of the ordinary way. */
enum keeping {
    KEPT,    /* it must be known when it was noted twice */
    UNKNOWN, /* it must never be */
    EITHER   /* it is larger than is usual */
};

static enum keeping
keeping_of(struct slice text)
{
    size_t line = (size_t)((const char *)memchr(text.ptr, '\n', text.len) + 1 - text.ptr);
    enum keeping k = UNKNOWN;
    struct h1_try t;
    bool persists;

    h1_try_init(&t);
    if (ordinary(&t, text, &persists) && !has_body(&t) && (t.head.present & MESSAGE_ALONE) == 0)
        k = t.head.nfields <= USUAL_FIELDS && text.len - line <= USUAL_BYTES ? KEPT : EITHER;
    h1_try_fini(&t);
    return k;
}

/* Any usual block. */
static void
make_kept(struct text *first, struct text *other, uint64_t *seed)
{
    do
        make(first, other, seed);
    while (keeping_of(all(first)) != KEPT);
}

/* ---- tests ---- */

TEST(h1_memo, gives_what_parsing_and_judging_gives)
{
    static struct text first, other;
    unsigned count[3] = {0, 0, 0};
    uint64_t seed = 1;

    for (unsigned i = 0; i < HEADS; i++) {
        struct h1_memo *m;
        enum keeping k;
        bool found;

        make(&first, &other, &seed);
        k = keeping_of(all(&first));
        count[k]++;
        m = note_twice(all(&first));
        found = compare(m, 0, all(&other));
        CHECK(k == EITHER || found == (k == KEPT));
        if (found) { /* with what follows, it is where the hint says or not seen at all */
            uint8_t hint = hint_of(m, all(&other));

            put(&other, "GET /next HTTP/1.1\r\nHost: next.example\r\n\r\n");
            for (unsigned n = 0; n < 4; n++, other.len -= below(&seed, 13))
                CHECK(compare(m, hint, all(&other)));
            compare(m, (uint8_t)(hint ^ 1), all(&other));
        }
        h1_memo_free(&m);
        CHECK(m == NULL);
    }
    for (unsigned k = 0; k < 3; k++)
        CHECK(count[k] >= HEADS / 20);
}

/* One memo for all, as a worker has it: every hint is somebody else's, and slots are fought for. */
TEST(h1_memo, gives_no_head_of_another_block)
{
    enum {
        CROWD = 400
    };
    static struct text first[CROWD], other[CROWD];
    struct h1_memo *m = h1_memo_new();
    unsigned found = 0, by_hint = 0;
    uint64_t seed = 2;
    uint8_t hint = 0;

    CHECK(m != NULL);
    for (unsigned i = 0; i < CROWD; i++)
        make(&first[i], &other[i], &seed);
    for (unsigned turn = 0; turn < 4 * CROWD; turn++) {
        unsigned i = turn % CROWD, before = below(&seed, CROWD);

        note(m, all(&first[i]));
        note(m, all(&first[i]));
        if (compare(m, hint, all(&other[i]))) {
            hint = hint_of(m, all(&other[i]));
            found++;
        }
        by_hint += compare(m, hint, all(&other[before]));
    }
    CHECK(found > CROWD && by_hint > CROWD / 10 && by_hint < 4 * CROWD);
    h1_memo_free(&m);
}

TEST(h1_memo, keeps_what_was_seen_twice)
{
    static struct text first, other;
    uint64_t seed = 3;

    for (unsigned i = 0; i < 200; i++) {
        struct h1_memo *m = h1_memo_new();

        CHECK(m != NULL);
        make_kept(&first, &other, &seed);
        CHECK(!compare(m, 0, all(&other)));
        note(m, all(&first));
        CHECK(!compare(m, 0, all(&other)));
        note(m, all(&other)); /* whatever its line is */
        CHECK(compare(m, 0, all(&first)));
        h1_memo_free(&m);
    }
}

/* Each byte of the block, its last four too, and nothing behind it that would make up for one. */
TEST(h1_memo, knows_no_block_with_one_byte_different)
{
    static struct text first, other;
    uint64_t seed = 4;

    for (unsigned i = 0; i < 12; i++) {
        struct h1_memo *m;
        uint8_t hint;
        size_t line;

        make_kept(&first, &other, &seed);
        m = note_twice(all(&first));
        hint = hint_of(m, all(&other));
        line = (size_t)(strchr(other.bytes, '\n') + 1 - other.bytes);
        for (size_t at = line; at < other.len; at++) {
            char was = other.bytes[at];

            for (unsigned bit = 0; bit < 8; bit += 1 + below(&seed, 4)) {
                other.bytes[at] = (char)(was ^ 1 << bit);
                CHECK(!compare(m, hint, all(&other)));
                CHECK(!compare(m, 0, all(&other)));
            }
            other.bytes[at] = was;
        }
        CHECK(compare(m, hint, all(&other)));
        h1_memo_free(&m);
    }
}

TEST(h1_memo, knows_no_block_that_is_cut_short)
{
    static struct text first, other;
    uint64_t seed = 5;

    for (unsigned i = 0; i < 40; i++) {
        struct h1_memo *m;
        uint8_t hint;
        size_t line;

        make_kept(&first, &other, &seed);
        m = note_twice(all(&first));
        hint = hint_of(m, all(&other));
        line = (size_t)(strchr(other.bytes, '\n') + 1 - other.bytes);
        for (size_t len = line; len < other.len; len++)
            CHECK(!compare(m, hint, slice_of(other.bytes, len)));
        h1_memo_free(&m);
    }
}

TEST(h1_memo, knows_blocks_under_usual_lines_alone)
{
    static struct text first, other, odd;
    uint64_t seed = 6;

    for (unsigned i = 0; i < 20; i++) {
        make_kept(&first, &other, &seed);
        for (size_t k = 0; k < sizeof(odd_lines) / sizeof(odd_lines[0]); k++) {
            const char *block = strchr(first.bytes, '\n') + 1;
            struct h1_memo *m;

            odd.len = 0;
            put(&odd, odd_lines[k]);
            put_slice(&odd, slice_of(block, (size_t)(first.bytes + first.len - block)));
            m = note_twice(all(&first));
            CHECK(!compare(m, hint_of(m, all(&other)), all(&odd)));
            h1_memo_free(&m);
            m = note_twice(all(&odd)); /* nor are they kept */
            CHECK(!compare(m, 0, all(&first)));
            h1_memo_free(&m);
        }
    }
}

TEST(h1_memo, keeps_nothing_that_one_message_says_of_itself)
{
    static const char *const own[] = {"Content-Length: 0\r\n", "Content-Length: 7\r\n",
        "content-length: 00\r\n", "Transfer-Encoding: chunked\r\n", "Expect: 100-continue\r\n",
        "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: websocket\r\n"};
    static struct text t;

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        struct h1_memo *m;
        struct h1_try try;
        bool persists;

        t.len = 0;
        put(&t, "POST /upload HTTP/1.1\r\nHost: example.com\r\n");
        put(&t, own[i]);
        put(&t, "\r\n");
        m = note_twice(all(&t));
        CHECK(!compare(m, 0, all(&t)));
        h1_try_init(&try); /* the caller may forget what it is for: it is not kept then either */
        CHECK(ordinary(&try, all(&t), &persists));
        h1_memo_note(m, &try.parser, persists);
        h1_memo_note(m, &try.parser, persists);
        h1_try_fini(&try);
        CHECK(!compare(m, 0, all(&t)));
        h1_memo_free(&m);
    }
}

TEST(h1_memo, knows_no_head_over_the_limits)
{
    static struct text first, other;
    uint64_t seed = 7;

    for (unsigned i = 0; i < 200; i++) {
        struct h1_memo *m;
        struct h1_try t;
        bool persists;
        uint8_t hint;
        unsigned n;

        make_kept(&first, &other, &seed);
        m = note_twice(all(&first));
        hint = hint_of(m, all(&other));
        h1_try_init(&t);
        CHECK(ordinary(&t, all(&other), &persists));
        n = t.head.nfields;
        h1_try_fini(&t);
        CHECK(compare_within(m, hint, all(&other), other.len, n));
        CHECK(!compare_within(m, hint, all(&other), other.len - 1, n));
        CHECK(!compare_within(m, hint, all(&other), other.len, n - 1));
        h1_memo_free(&m);
    }
}

/* The hint says which slot a block has, so two that share one can be had. */
TEST(h1_memo, one_of_two_blocks_in_a_slot_replaces_the_other)
{
    static struct text first[2], other[2];
    unsigned shared = 0;
    uint64_t seed = 8;

    for (unsigned i = 0; i < 4000 && shared < 10; i++) {
        struct h1_memo *m;
        uint8_t hint[2];

        make_kept(&first[0], &other[0], &seed);
        make_kept(&first[1], &other[1], &seed);
        m = note_twice(all(&first[0]));
        hint[0] = hint_of(m, all(&first[0]));
        note(m, all(&first[1]));
        CHECK(!compare(m, hint[0], all(&other[1])));
        CHECK(compare(m, hint[0], all(&other[0]))); /* until the other was seen twice, too */
        note(m, all(&first[1]));
        hint[1] = hint_of(m, all(&first[1]));
        CHECK(compare(m, hint[0], all(&other[1])));
        CHECK_EQ(hint[0] != hint[1], compare(m, hint[0], all(&other[0])));
        shared += hint[0] == hint[1];
        h1_memo_free(&m);
    }
    CHECK_EQ(10, shared);
}

/* Whether it is kept or not: nobody else's slot is written to. */
TEST(h1_memo, a_large_block_leaves_others_alone)
{
    static struct text usual, large, other;
    struct h1_memo *m;
    uint64_t seed = 9;
    uint8_t hint;

    make_kept(&usual, &other, &seed);
    m = note_twice(all(&usual));
    hint = hint_of(m, all(&other));
    for (unsigned i = 0; i < 1000; i++) {
        large.len = 0;
        put(&large, "GET / HTTP/1.1\r\nHost: example.com\r\nCookie: ");
        put_random(&large, &seed, letters, 1200 + below(&seed, 1800));
        put(&large, "\r\n\r\n");
        note(m, all(&large));
        note(m, all(&large));
        if (compare(m, 0, all(&large)) && hint_of(m, all(&large)) == hint) {
            note(m, all(&usual)); /* it was replaced, as it should be */
            note(m, all(&usual));
        }
        CHECK(compare(m, hint, all(&usual)));
    }
    h1_memo_free(&m);
}

TEST(h1_memo, short_blocks_are_read_within_their_bytes)
{
    static struct text t;
    uint64_t seed = 10;

    for (size_t len = 1; len < 40; len++) {
        struct h1_memo *m;

        t.len = 0;
        put(&t, "GET / HTTP/1.1\r\nHost:");
        put_random(&t, &seed, "0123456789", len);
        put(&t, "\r\n\r\n");
        m = note_twice(all(&t));
        CHECK(compare(m, 0, all(&t)) || len < 8); /* the shortest are soon parsed */
        for (size_t cut = sizeof("GET / HTTP/1.1\r\n") - 1; cut < t.len; cut++)
            CHECK(!compare(m, 0, slice_of(t.bytes, cut)));
        h1_memo_free(&m);
    }
}

TEST(h1_memo, without_memory_nothing_is_known)
{
    static struct text first, other;
    uint64_t seed = 11;

    make_kept(&first, &other, &seed);
    note(NULL, all(&first));
    note(NULL, all(&first));
    CHECK(!compare(NULL, 0, all(&other)));
}

TEST_MAIN(TEST_ENTRY(h1_memo, gives_what_parsing_and_judging_gives),
    TEST_ENTRY(h1_memo, gives_no_head_of_another_block),
    TEST_ENTRY(h1_memo, keeps_what_was_seen_twice),
    TEST_ENTRY(h1_memo, knows_no_block_with_one_byte_different),
    TEST_ENTRY(h1_memo, knows_no_block_that_is_cut_short),
    TEST_ENTRY(h1_memo, knows_blocks_under_usual_lines_alone),
    TEST_ENTRY(h1_memo, keeps_nothing_that_one_message_says_of_itself),
    TEST_ENTRY(h1_memo, knows_no_head_over_the_limits),
    TEST_ENTRY(h1_memo, one_of_two_blocks_in_a_slot_replaces_the_other),
    TEST_ENTRY(h1_memo, a_large_block_leaves_others_alone),
    TEST_ENTRY(h1_memo, short_blocks_are_read_within_their_bytes),
    TEST_ENTRY(h1_memo, without_memory_nothing_is_known))
