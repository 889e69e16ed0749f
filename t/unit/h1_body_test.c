/* h1_body_test.c -- bodies: whole, cut anywhere, one byte at a time, in place and into little
 * room, the same bytes come out; and of what lies behind the end none is read. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/http/framing.h"
#include "t/unit/h1_parse_try.h"

#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

enum {
    OUT_MAX = 70000,
    NOT_DONE = -1000 /* the bytes ran out before the body ended */
};

/* How the bytes come, and where they go. */
struct manner {
    size_t piece; /* arrive so many at a time */
    size_t room;  /* so many may be written at a time; 0: in place */
};

struct decoded {
    char bytes[OUT_MAX];
    size_t len;
    size_t used; /* of the input */
    int rc;      /* 0, NOT_DONE or TERR_* */
};

/* One call: exactly `len` bytes to read, exactly room to write, nothing beside them. */
static ssize_t
decode_call(struct h1_parser *p, const char *bytes, size_t len, size_t room, struct decoded *d)
{
    char *in = malloc(len == 0 ? 1 : len), *out = room == 0 ? in : malloc(room);
    size_t used = 0;
    ssize_t n;

    CHECK(in != NULL && out != NULL);
    memcpy(in, bytes, len);
    n = h1_parse_body(p, in, len, out, room == 0 ? len : room, &used);
    if (n >= 0) {
        CHECK(used <= len && (size_t)n <= used);
        CHECK(room == 0 || (size_t)n <= room);
        CHECK(d->len + (size_t)n <= OUT_MAX);
        memcpy(d->bytes + d->len, out, (size_t)n);
        d->len += (size_t)n;
        d->used += used;
    }
    if (out != in)
        free(out);
    free(in);
    return n;
}

/* Decodes until the end, an error, or until all was read. */
static void
decode(struct h1_parser *p, struct slice text, struct manner how, struct decoded *d)
{
    size_t arrived = 0;

    d->len = d->used = 0;
    d->rc = NOT_DONE;
    while (d->rc == NOT_DONE && (d->used < arrived || arrived < text.len || text.len == 0)) {
        size_t before = d->used;
        ssize_t n;

        if (d->used == arrived)
            arrived = text.len - arrived < how.piece ? text.len : arrived + how.piece;
        n = decode_call(p, text.ptr + d->used, arrived - d->used, how.room, d);
        if (n < 0)
            d->rc = (int)n;
        else if (p->body_done)
            d->rc = 0;
        else if (d->used == before)
            break; /* stuck, or nothing came */
    }
}

static void
decode_as(const struct framing *f, struct slice text, struct manner how, struct decoded *d)
{
    static const struct slice chunked = SLICE_LIT(CHUNKED),
                              plain = SLICE_LIT("GET / HTTP/1.1\r\n\r\n");
    struct h1_try t;

    h1_try_init(&t);
    CHECK_EQ(1, h1_try_whole(&t, false, f == NULL ? chunked : plain));
    if (f == NULL)
        CHECK_EQ(0, framing_of_request(&t.head, &t.parser.framing));
    else
        t.parser.framing = *f;
    decode(&t.parser, text, how, d);
    h1_try_fini(&t);
}

/* Every manner gives the same; f NULL: chunked. */
static void
decode_every_way(const struct framing *f, struct slice text, struct decoded *first)
{
    static const size_t rooms[] = {0, 1, 2, 3, 7, 100000};
    static struct decoded other;

    decode_as(f, text, (struct manner){text.len, 0}, first);
    for (size_t piece = 1; piece <= text.len; piece += piece < 64 ? 1 : 61) {
        for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
            decode_as(f, text, (struct manner){piece, rooms[i]}, &other);
            if (other.rc != first->rc)
                fail_msg("pieces of %zu, room of %zu: %d, whole: %d: %.*s", piece, rooms[i],
                    other.rc, first->rc, (int)text.len, text.ptr);
            if (first->rc < 0 && first->rc != NOT_DONE)
                continue; /* how much came before the error is nobody's business */
            CHECK_EQ(first->used, other.used);
            CHECK_EQ(first->len, other.len);
            CHECK_MEM(first->bytes, other.bytes, first->len);
        }
    }
}

static void
check_body(const struct framing *f, struct slice text, struct slice want, size_t behind)
{
    static struct decoded d;

    decode_every_way(f, text, &d);
    if (d.rc != 0)
        fail_msg("%d: %.*s", d.rc, (int)text.len, text.ptr);
    CHECK_EQ(text.len - behind, d.used);
    CHECK_EQ(want.len, d.len);
    CHECK_MEM(want.ptr, d.bytes, want.len);
}

static void
check_refused(struct slice text)
{
    static struct decoded d;

    decode_every_way(NULL, text, &d);
    if (d.rc != TERR_FRAMING)
        fail_msg("%d: %.*s", d.rc, (int)text.len, text.ptr);
}

/* ---- chunked: RFC 9112 7.1 ---- */

TEST(h1_body, chunks_are_joined)
{
    check_body(NULL, SLICE_LIT("5\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\n\r\n"),
        SLICE_LIT("hello, world"), 0);
    check_body(NULL, SLICE_LIT("0\r\n\r\n"), SLICE_LIT(""), 0);
    check_body(NULL, SLICE_LIT("00\r\n\r\n"), SLICE_LIT(""), 0);
    check_body(NULL, SLICE_LIT("00a\r\n0123456789\r\n0\r\n\r\n"), SLICE_LIT("0123456789"), 0);
    check_body(NULL, SLICE_LIT("A\r\n\r\n\0\r\n0\r\n\r\n\r\n0\r\n\r\n"),
        SLICE_LIT("\r\n\0\r\n0\r\n\r\n"), 0); /* what is in a chunk means nothing */
    check_body(NULL,
        SLICE_LIT("aB\r\n"
                  "0123456789012345678901234567890123456789012345678901234567890123456"
                  "7890123456789012345678901234567890123456789012345678901234567890123"
                  "4567890123456789012345678901234567890\r\n0\r\n\r\n"),
        SLICE_LIT("0123456789012345678901234567890123456789012345678901234567890123456"
                  "7890123456789012345678901234567890123456789012345678901234567890123"
                  "4567890123456789012345678901234567890"),
        0);
}

TEST(h1_body, what_lies_behind_the_last_chunk_is_not_read)
{
    check_body(NULL, SLICE_LIT("2\r\nab\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), SLICE_LIT("ab"), 16);
    check_body(NULL, SLICE_LIT("0\r\n\r\n\r\n"), SLICE_LIT(""), 2);
    check_body(NULL, SLICE_LIT("0\r\n\r\n\n"), SLICE_LIT(""), 1);
    check_body(NULL, SLICE_LIT("0\r\nA: b\r\n\r\n5\r\nhello"), SLICE_LIT(""), 8);
}

TEST(h1_body, extensions_and_trailers_are_discarded)
{
    check_body(NULL, SLICE_LIT("2;a\r\nab\r\n0;b=c;d\r\n\r\n"), SLICE_LIT("ab"), 0);
    check_body(NULL, SLICE_LIT("2;a=\"q;\\\" \"\r\nab\r\n0\r\n\r\n"), SLICE_LIT("ab"), 0);
    /* RFC 9110 6.5.1: framing fields mean nothing in a trailer, whatever they say. */
    check_body(NULL, SLICE_LIT("2\r\nab\r\n0\r\nContent-Length: 99\r\n\r\nz"), SLICE_LIT("ab"), 1);
    check_body(NULL, SLICE_LIT("2\r\nab\r\n0\r\ncontent-length: x\r\n\r\n"), SLICE_LIT("ab"), 0);
    check_body(NULL,
        SLICE_LIT("0\r\nContent-Length: 1\r\nContent-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\n"),
        SLICE_LIT(""), 0);
    check_body(NULL, SLICE_LIT("2;a=\"\\\xe9\xe9\t\"\r\nab\r\n0\r\n\r\n"), SLICE_LIT("ab"), 0);
    /* RFC 9112 7.1.1: bad white space is read by recipients, and means nothing. */
    check_body(NULL, SLICE_LIT("2 ;a\r\nab\r\n0\t; b\r\n\r\n"), SLICE_LIT("ab"), 0);
    check_body(NULL, SLICE_LIT("2 \t; \ta \t= \tb \t;c\r\nab\r\n0\r\n\r\n"), SLICE_LIT("ab"), 0);
    check_body(NULL, SLICE_LIT("2;a ;b = \"c\" ;d\r\nab\r\n0 ; e=f\r\n\r\n"), SLICE_LIT("ab"), 0);
    check_body(NULL, SLICE_LIT("2\r\nab\r\n0\r\nX: y\r\nHost: evil\r\nEmpty:\r\n\r\nz"),
        SLICE_LIT("ab"), 1);
}

TEST(h1_body, trailers_do_not_enter_the_head)
{
    static const struct slice body = SLICE_LIT("0\r\nHost: evil\r\nCookie: c\r\n\r\n");
    static struct decoded d;
    struct h1_try t;

    h1_try_init(&t);
    CHECK_EQ(1, h1_try_whole(&t, false, SLICE_LIT(CHUNKED)));
    CHECK_EQ(0, framing_of_request(&t.head, &t.parser.framing));
    decode(&t.parser, body, (struct manner){5, 0}, &d);
    CHECK_EQ(0, d.rc);
    CHECK_EQ(2, t.head.nfields);
    CHECK_EQ(1, t.head.fields[0].value_len);
    CHECK(!http_has(&t.head, HTTP_F_COOKIE));
    h1_try_fini(&t);
}

TEST(h1_body, an_unfinished_chunked_body_is_not_done)
{
    static const char text[] = "5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n";
    static struct decoded d;

    for (size_t len = 1; len < sizeof(text) - 1; len++) {
        decode_every_way(NULL, slice_of(text, len), &d);
        CHECK_EQ(NOT_DONE, d.rc);
        CHECK_EQ(len, d.used);
    }
}

TEST(h1_body, malformed_chunks_are_refused)
{
    static const struct slice bad[] = {
        SLICE_LIT("\r\n"),
        SLICE_LIT("g\r\n"),
        SLICE_LIT("-1\r\nx"),
        SLICE_LIT("+1\r\nx"),
        SLICE_LIT("0x1\r\nx"),
        SLICE_LIT("1_0\r\nx"),
        SLICE_LIT("1h\r\nx"),
        SLICE_LIT(" 1\r\nx"),
        SLICE_LIT("\t1\r\nx"),
        SLICE_LIT("1 \r\nx"),
        SLICE_LIT("1\t\r\nx"),
        SLICE_LIT("1 a\r\nx"),
        SLICE_LIT("1;\r\nx"), /* a name, and behind '=' a value, are not empty */
        SLICE_LIT("1; \r\nx"),
        SLICE_LIT("1;a=\r\nx"),
        SLICE_LIT("1;a= ;b\r\nx"),
        SLICE_LIT("1;=b\r\nx"),
        SLICE_LIT("1;;a\r\nx"),
        SLICE_LIT("1;a \r\nx"), /* white space is only before ';' and around '=' */
        SLICE_LIT("1;a=b \r\nx"),
        SLICE_LIT("1;a b\r\nx"),
        SLICE_LIT("1;a=b c\r\nx"),
        SLICE_LIT("1;a=b=c\r\nx"),
        SLICE_LIT("1;a=\"b\"c\r\nx"),
        SLICE_LIT("1;a=\"b\" \r\nx"),
        SLICE_LIT("1;a=b\"c\"\r\nx"),
        SLICE_LIT("1;a\v=b\r\nx"),
        SLICE_LIT("1\v;a\r\nx"),
        SLICE_LIT("1;(a)\r\nx"),
        SLICE_LIT(";a\r\nx"),
        SLICE_LIT("1\nx"), /* bare LF ends no line */
        SLICE_LIT("1\rx\r\n"),
        SLICE_LIT("1\r\rx\r\n"),
        SLICE_LIT("1\0\r\nx"),
        SLICE_LIT("1,\r\nx"),
        SLICE_LIT("\xef\xbc\x91\r\nx"),
        SLICE_LIT("1\r\nxy"), /* RFC 9112 7.1: CRLF behind the data (VSV00016) */
        SLICE_LIT("1\r\nx\n"),
        SLICE_LIT("1\r\nx\rZ"),
        SLICE_LIT("1\r\nx\r\r\n"),
        SLICE_LIT("1\r\nx1\r\ny\r\n"),
        SLICE_LIT("1\r\nx0\r\n\r\n"),
        SLICE_LIT("1\r\nx\r\n\r\n"),
        SLICE_LIT("0\n\r\n"),
        SLICE_LIT("0\r\n\n"),
        SLICE_LIT("0\r\n\rx"),
        SLICE_LIT("1;a\nx\r\n"), /* CR, LF, NUL in extensions */
        SLICE_LIT("1;a\rb\r\nx\r\n"),
        SLICE_LIT("1;a=\"\n\"\r\nx\r\n"),
        SLICE_LIT("1;a=\"\r\n\"\r\nx\r\n"),
        SLICE_LIT("1;a=\"\r\"\r\nx\r\n"),
        SLICE_LIT("1;a=\"\\\n\"\r\nx\r\n"),
        SLICE_LIT("1;a=\"\\\r\n\"\r\nx\r\n"),
        SLICE_LIT("1;a=b\n\r\nx\r\n"),
        SLICE_LIT("1;\0\r\nx\r\n"),
        SLICE_LIT("1;a\0b\r\nx\r\n"),
        SLICE_LIT("1;a=\"\0\"\r\nx\r\n"),
        SLICE_LIT("0\r\nX : y\r\n\r\n"), /* trailers are judged as fields are */
        SLICE_LIT("0\r\nX: y\x7f\r\n\r\n"),
        SLICE_LIT("0\r\nX: y\r\r\n\r\n"),
        SLICE_LIT("0\r\nX: y\n\r\n"),
        SLICE_LIT("0\r\nX: y\rz\r\n\r\n"),
        SLICE_LIT("0\r\nX: y\r\n z\r\n\r\n"),
        SLICE_LIT("0\r\nX: \0\r\n\r\n"),
        SLICE_LIT("0\r\n: y\r\n\r\n"),
        SLICE_LIT("0\r\nX\r\n\r\n"),
        SLICE_LIT("0\r\n X: y\r\n\r\n"),
        SLICE_LIT("0\r\nGET / HTTP/1.1\r\n\r\n"),
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_refused(bad[i]);
}

TEST(h1_body, an_error_stays_and_nothing_more_is_read)
{
    static struct decoded d;
    struct h1_try t;
    size_t used;
    char out[8];

    h1_try_init(&t);
    CHECK_EQ(1, h1_try_whole(&t, false, SLICE_LIT(CHUNKED)));
    CHECK_EQ(0, framing_of_request(&t.head, &t.parser.framing));
    decode(&t.parser, SLICE_LIT("1\r\nxy"), (struct manner){6, 0}, &d);
    CHECK_EQ(TERR_FRAMING, d.rc);
    CHECK_EQ(TERR_FRAMING, h1_parse_body(&t.parser, "0\r\n\r\n", 5, out, sizeof(out), &used));
    CHECK_EQ(0, used);
    h1_try_fini(&t);
}

/* ---- chunk sizes and other bounds ---- */

TEST(h1_body, sizes_up_to_the_bound_are_read_and_greater_ones_refused)
{
    static const struct slice huge[] = {
        SLICE_LIT("8000000000000000\r\n"), /* over INT64_MAX */
        SLICE_LIT("ffffffffffffffff\r\n"),
        SLICE_LIT("10000000000000000\r\n"), /* over UINT64_MAX */
        SLICE_LIT("10000000000000005\r\nhello\r\n"),
        SLICE_LIT("fffffffffffffffffffffffffffffffff\r\n"),
    };
    static struct decoded d;

    decode_every_way(NULL, SLICE_LIT("7fffffffffffffff\r\nhello"), &d);
    CHECK_EQ(NOT_DONE, d.rc);
    CHECK_EQ(5, d.len);
    for (size_t i = 0; i < ARRAY_LEN(huge); i++)
        check_refused(huge[i]);
}

static char long_text[3 * LIMIT_CHUNK_EXT_BODY];

/* before, n times `c`, after */
static struct slice
stretch(const char *before, char c, size_t n, const char *after)
{
    size_t b = strlen(before), a = strlen(after);

    tassert(b + n + a <= sizeof(long_text));
    memcpy(long_text, before, b);
    memset(long_text + b, c, n);
    memcpy(long_text + b + n, after, a);
    return slice_of(long_text, b + n + a);
}

static int
judge_steps(struct slice text)
{
    static struct decoded d;
    int rc;

    decode_as(NULL, text, (struct manner){text.len, 0}, &d);
    rc = d.rc;
    for (size_t piece = 1; piece < text.len; piece += 1 + piece * 3) {
        decode_as(NULL, text, (struct manner){piece, 100}, &d);
        CHECK_EQ(rc, d.rc);
    }
    return rc;
}

TEST(h1_body, a_size_has_at_most_sixteen_digits)
{
    CHECK_EQ(0, judge_steps(stretch("", '0', 15, "1\r\nx\r\n0\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("", '0', 16, "1\r\nx\r\n0\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("1\r\nx\r\n", '0', 17, "\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("", '0', 20000, "")));
}

/* All of it counts, separators too: ";;;" or ";a;a;a" must not be a way around. */
TEST(h1_body, an_extension_of_the_limit_passes_and_one_byte_more_does_not)
{
    const size_t line = LIMIT_CHUNK_EXT_LINE;
    static char text[8 * LIMIT_CHUNK_EXT_LINE];
    size_t len = 1;

    CHECK_EQ(0, judge_steps(stretch("1;", 'a', line - 1, "\r\nx\r\n0\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("1;", 'a', line, "\r\nx\r\n0\r\n\r\n")));
    CHECK_EQ(0, judge_steps(stretch("1;a=\"", 'a', line - 5, "\"\r\nx\r\n0\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("1;a=\"", 'a', line - 4, "\"\r\nx\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("0;", 'a', 2 * line, ""))); /* no end */
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("1", ';', 2 * line, "a\r\nx\r\n")));
    text[0] = '1';
    while (len < line + 2) {
        text[len++] = ';';
        text[len++] = 'a';
    }
    CHECK_EQ(TERR_FRAMING, judge_steps(slice_of(text, len)));
}

TEST(h1_body, small_extensions_count_together_up_to_the_limit_of_a_body)
{
    static char text[LIMIT_CHUNK_EXT_BODY * 12];
    size_t len = 0;

    for (size_t i = 0; i < LIMIT_CHUNK_EXT_BODY / 4; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "1;abc\r\nx\r\n");
    memcpy(text + len, "0\r\n\r\n", 5);
    CHECK_EQ(0, judge_steps(slice_of(text, len + 5)));
    memcpy(text + len, "0;a\r\n\r\n", 7);
    CHECK_EQ(TERR_FRAMING, judge_steps(slice_of(text, len + 7)));
}

/* As long as a head may be: blank line and all. */
TEST(h1_body, a_trailer_section_of_the_limit_passes_and_one_byte_more_does_not)
{
    const size_t max = 32768, beside = strlen("X: \r\n\r\n");

    CHECK_EQ(0, judge_steps(stretch("0\r\nX: ", 'v', max - beside, "\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("0\r\nX: ", 'v', max - beside + 1, "\r\n\r\n")));
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("0\r\nX: ", 'v', max, ""))); /* no end */
    CHECK_EQ(TERR_FRAMING, judge_steps(stretch("0\r\nX:", ' ', max, "")));
}

/* ---- the other kinds ---- */

TEST(h1_body, a_length_is_kept_exactly)
{
    static const struct framing three = {.kind = FRAMING_LENGTH, .has_length = true, .length = 3};
    static const struct framing large = {.kind = FRAMING_LENGTH, .has_length = true, .length = 300};
    static struct decoded d;

    check_body(&three, SLICE_LIT("abc"), SLICE_LIT("abc"), 0);
    check_body(&three, SLICE_LIT("abcd"), SLICE_LIT("abc"), 1);
    check_body(&three, SLICE_LIT("\r\n\0GET"), SLICE_LIT("\r\n\0"), 3);
    check_body(&large, stretch("", 'a', 300, "b"), slice_of(long_text, 300), 1);
    decode_every_way(&three, SLICE_LIT("ab"), &d);
    CHECK_EQ(NOT_DONE, d.rc);
    CHECK_EQ(2, d.used);
}

TEST(h1_body, a_length_of_nothing_is_done_without_a_byte)
{
    static const struct framing zero = {.kind = FRAMING_LENGTH, .has_length = true};
    static const struct framing none = {.kind = FRAMING_NONE};

    check_body(&zero, SLICE_LIT(""), SLICE_LIT(""), 0);
    check_body(&zero, SLICE_LIT("GET"), SLICE_LIT(""), 3);
    check_body(&none, SLICE_LIT(""), SLICE_LIT(""), 0);
    check_body(&none, SLICE_LIT("GET"), SLICE_LIT(""), 3);
}

TEST(h1_body, the_largest_length_does_not_wrap)
{
    static const struct framing most = {.kind = FRAMING_LENGTH, .length = INT64_MAX};
    static struct decoded d;

    decode_every_way(&most, SLICE_LIT("abc"), &d);
    CHECK_EQ(NOT_DONE, d.rc);
    CHECK_EQ(3, d.len);
}

TEST(h1_body, until_close_takes_all_and_is_never_done)
{
    static const struct framing until = {.kind = FRAMING_CLOSE};
    static const struct slice text = SLICE_LIT("5\r\nhello\r\n0\r\n\r\n");
    static struct decoded d;

    decode_every_way(&until, text, &d);
    CHECK_EQ(NOT_DONE, d.rc);
    CHECK_EQ(text.len, d.used);
    CHECK_EQ(text.len, d.len);
    CHECK_MEM(text.ptr, d.bytes, text.len);
}

/* What llhttp remembers of the head must not change how a chunked body is read. */
TEST(h1_body, chunks_are_read_alike_whatever_else_the_head_said)
{
    static const struct slice requests[] = {
        SLICE_LIT("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT("GET / HTTP/1.1\r\nTransfer-Encoding:CHUNKED \t\r\n\r\n"),
        SLICE_LIT("CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT("X / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: upgrade\r\n"
                  "Upgrade: x\r\n\r\n"),
        SLICE_LIT("X / HTTP/1.1\r\nConnection: close, x\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT("X / HTTP/1.1\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\nTE: x\r\n\r\n"),
    };
    static const struct slice responses[] = {
        SLICE_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 404\r\nTransfer-Encoding: \tchunkeD  \r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"),
        SLICE_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: upgrade\r\n"
                  "Upgrade: x\r\n\r\n"),
    };
    static const struct slice body = SLICE_LIT("3\r\nabc\r\n0\r\n\r\nGET");
    static struct decoded d;
    struct h1_try t;

    h1_try_init(&t);
    for (size_t i = 0; i < ARRAY_LEN(requests) + ARRAY_LEN(responses); i++) {
        bool is_response = i >= ARRAY_LEN(requests);
        struct slice head = is_response ? responses[i - ARRAY_LEN(requests)] : requests[i];

        for (size_t step = 1; step <= head.len; step++) {
            CHECK_EQ(1, h1_try_steps(&t, is_response, head, step));
            CHECK_EQ(0, is_response ? framing_of_response(&t.head, HTTP_M_GET, &t.parser.framing)
                                    : framing_of_request(&t.head, &t.parser.framing));
            CHECK_EQ(FRAMING_CHUNKED, t.parser.framing.kind);
            decode(&t.parser, body, (struct manner){step, 2}, &d);
            CHECK_EQ(0, d.rc);
            CHECK_EQ(3, d.len);
            CHECK_EQ(body.len - 3, d.used);
        }
    }
    h1_try_fini(&t);
}

TEST_MAIN(TEST_ENTRY(h1_body, chunks_are_joined),
    TEST_ENTRY(h1_body, what_lies_behind_the_last_chunk_is_not_read),
    TEST_ENTRY(h1_body, extensions_and_trailers_are_discarded),
    TEST_ENTRY(h1_body, trailers_do_not_enter_the_head),
    TEST_ENTRY(h1_body, an_unfinished_chunked_body_is_not_done),
    TEST_ENTRY(h1_body, malformed_chunks_are_refused),
    TEST_ENTRY(h1_body, an_error_stays_and_nothing_more_is_read),
    TEST_ENTRY(h1_body, sizes_up_to_the_bound_are_read_and_greater_ones_refused),
    TEST_ENTRY(h1_body, a_size_has_at_most_sixteen_digits),
    TEST_ENTRY(h1_body, an_extension_of_the_limit_passes_and_one_byte_more_does_not),
    TEST_ENTRY(h1_body, small_extensions_count_together_up_to_the_limit_of_a_body),
    TEST_ENTRY(h1_body, a_trailer_section_of_the_limit_passes_and_one_byte_more_does_not),
    TEST_ENTRY(h1_body, a_length_is_kept_exactly),
    TEST_ENTRY(h1_body, a_length_of_nothing_is_done_without_a_byte),
    TEST_ENTRY(h1_body, the_largest_length_does_not_wrap),
    TEST_ENTRY(h1_body, until_close_takes_all_and_is_never_done),
    TEST_ENTRY(h1_body, chunks_are_read_alike_whatever_else_the_head_said))
