/* h1_parse_fuzz.c -- a message whole and in pieces: the same head, the same body, and what a slow
 * and strict reference says of both.
 *
 * The first four bytes are how: 'r' for a response, else a request; two sizes of pieces, which
 * take turns; the room for body bytes (a multiple of 64: in place).  The rest is the message.
 */
#include "daemon/http/framing.h"
#include "daemon/http/token.h"
#include "t/unit/h1_parse_try.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_HOW = 4,
    FUZZ_TEXT_MAX = 4096
};

struct fuzz_how {
    bool is_response;
    size_t pieces[2];
    size_t room; /* 0: in place */
};

struct fuzz_body {
    char bytes[FUZZ_TEXT_MAX];
    size_t len, used;
    int rc; /* 1: done, 0: unfinished, TERR_* */
};

/* ---- heads ---- */

static int
fuzz_head_in_pieces(struct h1_try *t, const struct fuzz_how *how, struct slice text)
{
    size_t len = 0;

    h1_try_start(t, how->is_response);
    for (unsigned turn = 0; len < text.len && t->rc == 0; turn++) {
        size_t piece = how->pieces[turn % 2];

        len = text.len - len < piece ? text.len : len + piece;
        h1_try_feed(t, text.ptr, len);
    }
    return t->rc;
}

/* The end of the line that starts at `from`: of its CR, when a LF follows; else NULL. */
static const char *
fuzz_line_end(const char *from, const char *end)
{
    const char *nl = memchr(from, '\n', (size_t)(end - from));

    return nl != NULL && nl > from && nl[-1] == '\r' ? nl - 1 : NULL;
}

/* RFC 9112 5: a token, a colon, a value; white space only around the value. */
static bool
fuzz_field_ok(struct slice line, struct slice *name, struct slice *value)
{
    const char *colon = memchr(line.ptr, ':', line.len);

    if (colon == NULL)
        return false;
    *name = slice_of(line.ptr, (size_t)(colon - line.ptr));
    *value = http_trim(slice_of(colon + 1, line.len - name->len - 1));
    return http_token_ok(*name) && http_value_ok(*value);
}

/* Are the lines behind the start line those of a good head, and those that `h` has (unless it
 * is NULL)?  *framed: there are fields of which a parser may think more. */
static bool
fuzz_fields_ok(struct slice text, const struct http_message *h, bool *framed)
{
    const char *end = text.ptr + text.len, *eol = fuzz_line_end(text.ptr, end), *at;
    struct slice name, value;
    unsigned n = 0;

    for (at = eol == NULL ? end : eol + 2; at < end; at = eol + 2, n++) {
        eol = fuzz_line_end(at, end);
        if (eol == NULL)
            return false;
        if (eol == at) {
            tassert(h == NULL || (h->nfields == n && h->base + h->len == eol + 2));
            return true;
        }
        if (!fuzz_field_ok(slice_of(at, (size_t)(eol - at)), &name, &value))
            return false;
        switch ((unsigned)http_field_id(name.ptr, name.len)) {
        case HTTP_F_CONTENT_LENGTH:
        case HTTP_F_TRANSFER_ENCODING:
            *framed = true;
        }
        if (h != NULL) {
            tassert(n < h->nfields);
            tassert(slice_eq(name, http_name(h, &h->fields[n])));
            tassert(slice_eq(value, http_value(h, &h->fields[n])));
        }
    }
    return false;
}

/* What was accepted keeps to the grammar, and every offset lies within. */
static void
fuzz_check_head(struct h1_try *t, size_t arrived)
{
    const struct http_message *h = &t->head;
    bool framed = false;
    unsigned i;

    tassert(h->len >= 4 && h->len <= arrived);
    tassert(memcmp(h->base + h->len - 4, "\r\n\r\n", 4) == 0);
    tassert(memchr(h->base, '\0', h->len) == NULL);
    tassert(h->version_major == 1 && h->version_minor <= 1);
    tassert(h->target_off + h->target_len < h->len && h->reason_off + h->reason_len < h->len);
    for (i = 0; i < h->nfields; i++) {
        const struct http_field *f = &h->fields[i];

        tassert(f->name_off + f->name_len < h->len && f->value_off + f->value_len < h->len);
        tassert(http_token_ok(http_name(h, f)) && http_value_ok(http_value(h, f)));
        tassert(f->id == http_field_id(http_name(h, f).ptr, f->name_len));
        tassert(f->id == HTTP_F_OTHER || http_has(h, (enum http_field_id)f->id));
    }
    tassert(fuzz_fields_ok(slice_of(h->base, h->len), h, &framed));
}

/* A good head of a good start line must not be refused: that would be a lost customer. */
static void
fuzz_check_refused(const struct h1_try *t, struct slice text)
{
    bool framed = false;

    if (t->parser.line_done && fuzz_fields_ok(text, NULL, &framed) && !framed)
        tassert(t->rc == TERR_HEADTOOBIG && t->head.nfields == t->head.max_fields);
}

/* ---- bodies ---- */

/* One call with exactly `len` bytes to read and exactly room to write.  False when it ended. */
static bool
fuzz_body_call(struct h1_parser *p, struct slice in, size_t room, struct fuzz_body *b)
{
    char *bytes = malloc(in.len + 1), *from = bytes + 1, *out = from;
    size_t used = 0, fits = room == 0 ? in.len : room;
    ssize_t n;

    tassert(bytes != NULL);
    if (in.len > 0)
        memcpy(from, in.ptr, in.len);
    if (room != 0)
        out = malloc(room);
    tassert(out != NULL);
    n = h1_parse_body(p, from, in.len, out, fits, &used);
    if (n >= 0) {
        tassert(used <= in.len && (size_t)n <= used && (size_t)n <= fits);
        tassert(in.len == 0 || used > 0 || p->body_done); /* else nobody would get any further */
        memcpy(b->bytes + b->len, out, (size_t)n);
        b->len += (size_t)n;
        b->used += used;
    }
    b->rc = n < 0 ? (int)n : p->body_done;
    if (room != 0)
        free(out);
    free(bytes);
    return b->rc == 0;
}

static void
fuzz_body(struct h1_parser *p, const struct fuzz_how *how, struct slice text, struct fuzz_body *b)
{
    size_t arrived = 0;
    unsigned turn = 0;

    b->len = b->used = 0;
    b->rc = 0;
    while (fuzz_body_call(p, slice_of(text.ptr + b->used, arrived - b->used), how->room, b)) {
        size_t piece = how->pieces[turn++ % 2];

        if (b->used < arrived)
            continue;
        if (arrived == text.len)
            return; /* unfinished */
        arrived = text.len - arrived < piece ? text.len : arrived + piece;
    }
}

/* 1*HEXDIG.  How many digits; 0 when there are none, or too many for an int64_t. */
static size_t
fuzz_size(const char *at, const char *end, uint64_t *size)
{
    const char *p;

    *size = 0;
    for (p = at; p < end; p++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *digit = *p == '\0' ? NULL : strchr(digits, *p);

        if (digit == NULL)
            break;
        if (*size > INT64_MAX / 16)
            return 0;
        *size = *size * 16 + (size_t)(digit - digits) % 16;
    }
    return (size_t)(p - at);
}

/* RFC 9112 7.1, with extensions and trailers of anything that is allowed in a field.  1: ended,
 * 0: did not, or is wrong.  *plain: nothing in it that a bound could be about. */
static int
fuzz_chunked(struct slice text, struct fuzz_body *want, bool *plain)
{
    const char *at = text.ptr, *end = at + text.len, *eol;
    struct slice name, value;
    uint64_t size = 1;

    want->len = 0;
    *plain = true;
    while (size > 0) {
        size_t digits = fuzz_size(at, end, &size), behind = digits;

        eol = fuzz_line_end(at, end);
        if (digits == 0 || eol == NULL)
            return 0;
        while (at[behind] == ' ' || at[behind] == '\t') /* the CR ends it */
            behind++;
        if (behind != digits && at + behind == eol)
            return 0;
        if (at + behind != eol && at[behind] != ';')
            return 0;
        *plain = *plain && eol == at + digits && digits <= 16;
        if (!http_value_ok(slice_of(at + digits, (size_t)(eol - at) - digits)))
            return 0;
        at = eol + 2;
        if (size == 0)
            break;
        if ((uint64_t)(end - at) < size + 2 || memcmp(at + size, "\r\n", 2) != 0)
            return 0;
        memcpy(want->bytes + want->len, at, size);
        want->len += size;
        at += size + 2;
    }
    while ((eol = fuzz_line_end(at, end)) != at) {
        *plain = false;
        if (eol == NULL || !fuzz_field_ok(slice_of(at, (size_t)(eol - at)), &name, &value))
            return 0;
        at = eol + 2;
    }
    want->used = (size_t)(eol + 2 - text.ptr);
    return 1;
}

static void
fuzz_check_chunked(struct slice text, const struct fuzz_body *got)
{
    static struct fuzz_body want;
    bool plain;
    int good = fuzz_chunked(text, &want, &plain);

    if (got->rc == 1) {
        tassert(good && got->used == want.used && got->len == want.len);
        tassert(memcmp(got->bytes, want.bytes, want.len) == 0);
    } else {
        tassert(!good || !plain);
    }
}

static void
fuzz_bodies(
    struct h1_try *whole, struct h1_try *pieces, const struct fuzz_how *how, struct slice text)
{
    static struct fuzz_body a, b;
    const struct fuzz_how at_once = {.pieces = {text.len, text.len}};
    struct framing *f = &whole->parser.framing;
    int err = how->is_response ? framing_of_response(&whole->head, HTTP_M_GET, f)
                               : framing_of_request(&whole->head, f);

    if (err != 0)
        return;
    pieces->parser.framing = *f;
    fuzz_body(&whole->parser, &at_once, text, &a);
    fuzz_body(&pieces->parser, how, text, &b);
    tassert(a.rc == b.rc);
    tassert(a.len <= text.len && a.used <= text.len);
    if (a.rc >= 0) {
        tassert(a.used == b.used && a.len == b.len);
        tassert(memcmp(a.bytes, b.bytes, a.len) == 0);
    }
    if (f->kind == FRAMING_CHUNKED)
        fuzz_check_chunked(text, &a);
    else
        tassert(a.rc >= 0 && memcmp(a.bytes, text.ptr, a.len) == 0);
}

static void
fuzz_message(const struct fuzz_how *how, struct slice text)
{
    static struct h1_try whole, pieces;
    int rc, got;

    h1_try_init(&whole);
    h1_try_init(&pieces);
    rc = h1_try_whole(&whole, how->is_response, text);
    got = fuzz_head_in_pieces(&pieces, how, text);
    /* A line that is both wrong and too long is either, as its bytes come. */
    tassert(rc == got || (rc < 0 && got < 0 && (rc == TERR_HEADTOOBIG || got == TERR_HEADTOOBIG)));
    if (rc == 1) {
        tassert(h1_try_same_heads(&whole, &pieces));
        fuzz_check_head(&whole, text.len);
        fuzz_bodies(
            &whole, &pieces, how, slice_of(text.ptr + whole.head.len, text.len - whole.head.len));
    } else if (rc < 0) {
        fuzz_check_refused(&whole, text);
    }
    h1_try_fini(&whole);
    h1_try_fini(&pieces);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_how how;

    if (size <= FUZZ_HOW || size > FUZZ_TEXT_MAX)
        return 0;
    how.is_response = data[0] == 'r';
    how.pieces[0] = 1 + data[1] % 64u;
    how.pieces[1] = 1 + data[2] % 64u;
    how.room = data[3] % 64u;
    h1_parse_plainly(false);
    fuzz_message(&how, slice_of((const char *)data + FUZZ_HOW, size - FUZZ_HOW));
    h1_parse_plainly(true);
    fuzz_message(&how, slice_of((const char *)data + FUZZ_HOW, size - FUZZ_HOW));
    return 0;
}
