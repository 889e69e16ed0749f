/* h2_encode.c -- field blocks of responses (RFC 7541): references to the static table, and literals
 * that are not indexed.
 *
 * So there is no encoder's table, and no state but one octet: the first block of a connection says that
 * the table's size is 0 (RFC 7541 6.3), whatever the client allows, and a client that lowers its setting
 * later need not be told anew (RFC 7541 4.2).  Strings are not Huffman coded: it would cost more than
 * the rest of a hit's head, for a fourth of some hundred bytes. */
#include "daemon/h2/h2_conn.h"
#include "daemon/h2/h2_hpack.h"
#include "daemon/http/field_line.h"
#include "daemon/http/token.h"

enum {
    TABLE_SIZE_0 = 0x20, /* RFC 7541 6.3 */
    INDEXED = 0x80,      /* RFC 7541 6.1 */
    LITERAL_PREFIX = 15, /* RFC 7541 6.2.2: four bits */
    STATUS_NAME = 8,
    NAME_MAX = 4,       /* bytes of an index, or of a length in front of a string */
    PRIORITY_MOST = 64, /* bytes of an origin's Priority that count */
};

/* Where the static table has a name (RFC 7541 A); 0: it has not. */
static const uint8_t h2_static_name[HTTP_F_COUNT] = {
    [HTTP_F_ACCEPT_ENCODING] = 16,
    [HTTP_F_ACCEPT_LANGUAGE] = 17,
    [HTTP_F_ACCEPT] = 19,
    [HTTP_F_AGE] = 21,
    [HTTP_F_AUTHORIZATION] = 23,
    [HTTP_F_CACHE_CONTROL] = 24,
    [HTTP_F_CONTENT_ENCODING] = 26,
    [HTTP_F_CONTENT_LENGTH] = 28,
    [HTTP_F_CONTENT_RANGE] = 30,
    [HTTP_F_CONTENT_TYPE] = 31,
    [HTTP_F_COOKIE] = 32,
    [HTTP_F_DATE] = 33,
    [HTTP_F_ETAG] = 34,
    [HTTP_F_EXPECT] = 35,
    [HTTP_F_EXPIRES] = 36,
    [HTTP_F_HOST] = 38,
    [HTTP_F_IF_MATCH] = 39,
    [HTTP_F_IF_MODIFIED_SINCE] = 40,
    [HTTP_F_IF_NONE_MATCH] = 41,
    [HTTP_F_IF_RANGE] = 42,
    [HTTP_F_IF_UNMODIFIED_SINCE] = 43,
    [HTTP_F_LAST_MODIFIED] = 44,
    [HTTP_F_LOCATION] = 46,
    [HTTP_F_MAX_FORWARDS] = 47,
    [HTTP_F_RANGE] = 50,
    [HTTP_F_REFERER] = 51,
    [HTTP_F_SERVER] = 54,
    [HTTP_F_SET_COOKIE] = 55,
    [HTTP_F_USER_AGENT] = 58,
    [HTTP_F_VARY] = 59,
    [HTTP_F_VIA] = 60,
};

/* Where a block is being written. */
struct h2_block {
    char *p, *end;
};

/* Field names are lower case (RFC 9113 8.2.1). */
static char *
h2_put_name(char *p, struct slice name)
{
    p = h2_put_int(p, 0, H2_STRING_PREFIX, name.len);
    for (size_t i = 0; i < name.len; i++) {
        char ch = name.ptr[i];

        *p++ = ch >= 'A' && ch <= 'Z' ? (char)(ch | 0x20) : ch;
    }
    return p;
}

/* False: it does not fit. */
static inline bool
h2_put_field(struct h2_block *b, enum http_field_id id, struct slice name, struct slice value)
{
    uint8_t index = h2_static_name[id];

    if ((size_t)(b->end - b->p) < name.len + value.len + 3 * NAME_MAX)
        return false;
    b->p = h2_put_int(b->p, 0, LITERAL_PREFIX, index);
    if (index == 0)
        b->p = h2_put_name(b->p, name);
    b->p = h2_put_string(b->p, value);
    return true;
}

static void
h2_put_status(struct h2_block *b, unsigned status)
{
    static const uint16_t known[] = {200, 204, 206, 304, 400, 404, 500};

    for (unsigned i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i] == status) {
            *b->p++ = (char)(INDEXED | (STATUS_NAME + i));
            return;
        }
    }
    *b->p++ = STATUS_NAME;
    *b->p++ = 3;
    *b->p++ = (char)('0' + status / 100);
    *b->p++ = (char)('0' + status / 10 % 10);
    *b->p++ = (char)('0' + status % 10);
}

/* What the connection begins its first block with. */
static void
h2_put_begin(const struct h2_conn *c, struct h2_block *b)
{
    if (!c->sized)
        *b->p++ = TABLE_SIZE_0;
}

/* A policy may have said Connection and the like: they have no meaning here (RFC 9113 8.2.2). */
static bool
h2_put_message(struct h2_block *b, const struct http_message *m)
{
    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];

        if (f->drop || (f->id != HTTP_F_OTHER && (http_field_flags(f->id) & HTTP_HOP) != 0))
            continue;
        if (!h2_put_field(b, f->id, http_name(m, f), http_value(m, f)))
            return false;
    }
    return true;
}

static bool
h2_put_head(struct h2_block *b, unsigned status, const struct http_message *m)
{
    h2_put_status(b, status);
    return h2_put_message(b, m);
}

/* The origin's Priority (RFC 9218 5); empty: it said none. */
static struct slice
h2_priority_of(const struct http_message *m)
{
    const struct http_field *f =
        http_has(m, HTTP_F_PRIORITY) ? http_find(m, HTTP_F_PRIORITY, NULL) : NULL;

    return f != NULL && !f->drop ? http_value(m, f) : slice_of(NULL, 0);
}

/* In front of the block, what the origin's Priority says, behind its length: a hit need not look for it. */
static size_t
h2_form(const struct http_message *m, char *out, size_t room)
{
    struct slice priority = h2_priority_of(m);
    struct h2_block b;

    if (priority.len > PRIORITY_MOST)
        priority.len = 0;
    tassert(room > PRIORITY_MOST + 1 + NAME_MAX);
    *out = (char)priority.len;
    if (priority.len > 0)
        memcpy(out + 1, priority.ptr, priority.len);
    b = (struct h2_block){out + 1 + priority.len, out + room};
    return h2_put_head(&b, m->status, m) ? (size_t)(b.p - out) : 0;
}

/* RFC 9218 8: what the origin says of it counts, and where it says nothing the client's word. */
static __attribute__((noinline, cold)) void
h2_origin_priority(struct h2_stream *s, struct slice value)
{
    h2_priority_read(s, value);
    h2_stream_place(s);
}

const struct http_rendering h2_rendering = {.form = h2_form};

static bool
h2_put_length(struct h2_block *b, uint64_t length)
{
    char digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char)('0' + length % 10);
    while ((length /= 10) != 0);
    return h2_put_field(
        b, HTTP_F_CONTENT_LENGTH, slice_of(NULL, 0), slice_of(digits + at, sizeof(digits) - at));
}

/* The stored form of a hit. */
static inline void
h2_put_form(struct h2_block *b, struct h2_stream *s, struct slice form)
{
    size_t n = (size_t)*form.ptr;

    if (__builtin_expect(n > 0, 0))
        h2_origin_priority(s, slice_of(form.ptr + 1, n));
    b->p = mempcpy(b->p, form.ptr + 1 + n, form.len - 1 - n);
}

size_t
h2_encode(struct h2_stream *s, const struct exchange_response *r, struct slice extra, char *out,
    size_t room)
{
    struct h2_block b = {out, out + room};
    struct slice name, value;

    tassert(room > HTTP_FORM_MAX && r->status >= 200);
    h2_put_begin(s->conn, &b);
    if (r->rendered.ptr != NULL)
        h2_put_form(&b, s, r->rendered);
    else if (!h2_put_head(&b, r->status, r->message))
        return 0;
    else if (http_has(r->message, HTTP_F_PRIORITY))
        h2_origin_priority(s, h2_priority_of(r->message));
    while (field_line_next(&extra, &name, &value))
        if (!h2_put_field(&b, http_field_id(name.ptr, name.len), name, value))
            return 0;
    if (r->length != EXCHANGE_LENGTH_UNKNOWN && !r->length_in_fields && r->status != 204 &&
        !h2_put_length(&b, r->length)) /* RFC 9110 8.6 */
        return 0;
    return (size_t)(b.p - out);
}

size_t
h2_encode_interim(
    struct h2_conn *c, const struct http_message *m, unsigned status, char *out, size_t room)
{
    struct h2_block b = {out, out + room};

    tassert(room > 64 && status >= 100 && status < 200);
    h2_put_begin(c, &b);
    h2_put_status(&b, status);
    if (m != NULL && !h2_put_message(&b, m))
        return 0;
    return (size_t)(b.p - out);
}
