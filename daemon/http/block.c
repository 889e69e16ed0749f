/* block.c -- stored heads: read back, merged, and rewritten. */
#include "daemon/http/block.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/date.h"
#include "daemon/http/head_out.h"
#include "daemon/http/range.h"
#include "daemon/http/token.h"

#define BLOCK_BOUNDARY_TYPE "multipart/byteranges; boundary="

enum {
    BLOCK_BOUNDARY_MAX = 70, /* RFC 2046 5.1.1 */
    BLOCK_STATUS_LEN = sizeof("HTTP/1.1 200 ") - 1,
};

/* The next line of *rest without its CRLF; false when there is no CRLF. */
static bool
block_line(struct slice *rest, struct slice *line)
{
    const char *end = memmem(rest->ptr, rest->len, "\r\n", 2);

    if (end == NULL)
        return false;
    *line = slice_of(rest->ptr, (size_t)(end - rest->ptr));
    *rest = slice_of(end + 2, rest->len - line->len - 2);
    return true;
}

static bool
block_parse_status(struct slice line, struct http_message *out)
{
    uint64_t status;

    if (line.len < BLOCK_STATUS_LEN || memcmp(line.ptr, "HTTP/1.1 ", 9) != 0 || line.ptr[12] != ' ')
        return false;
    if (http_parse_decimal(slice_of(line.ptr + 9, 3), &status) < 0 || status < 100)
        return false;
    out->status = (uint16_t)status;
    out->reason_off = (uint16_t)BLOCK_STATUS_LEN;
    out->reason_len = (uint16_t)(line.len - BLOCK_STATUS_LEN);
    return http_value_ok(line);
}

/* "Name: value", as head_out_field() writes it. */
static bool
block_parse_field(const struct http_message *h, struct slice line, struct http_field *f)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    struct slice name, value;

    if (colon == NULL)
        return false;
    name = slice_of(line.ptr, (size_t)(colon - line.ptr));
    value = http_trim(slice_of(colon + 1, line.len - name.len - 1));
    if (!http_token_ok(name) || !http_value_ok(value))
        return false;
    *f = (struct http_field){.name_off = (uint16_t)(name.ptr - h->base),
        .name_len = (uint16_t)name.len,
        .value_off = (uint16_t)(value.ptr - h->base),
        .value_len = (uint16_t)value.len,
        .id = (uint8_t)http_field_id(name.ptr, name.len)};
    return true;
}

static int
block_parse_fields(struct slice rest, unsigned max, struct http_message *h)
{
    struct slice line;

    h->max_fields = (uint16_t)(max < UINT16_MAX ? max : UINT16_MAX);
    while (rest.len > 0) { /* each turn takes a line, and there are at most max_fields */
        if (h->nfields == h->max_fields)
            return TERR_LIMIT;
        if (!block_line(&rest, &line) || !block_parse_field(h, line, &h->fields[h->nfields]))
            return TERR_SYNTAX;
        h->present |= HTTP_BIT(h->fields[h->nfields].id);
        h->nfields++;
    }
    return 0;
}

int
block_parse(struct slice block, struct http_field *fields, unsigned max, struct http_message *out)
{
    struct slice rest = block, line;
    struct http_message h = {.base = block.ptr, .fields = fields, .version_minor = 1};
    int err;

    if (block.len > LIMIT_HEAD_BYTES)
        return TERR_LIMIT;
    if (block.len == 0 || !block_line(&rest, &line) || !block_parse_status(line, &h))
        return TERR_SYNTAX;
    h.len = (uint16_t)block.len;
    err = block_parse_fields(rest, max, &h);
    if (err == 0)
        *out = h;
    return err;
}

static void
block_put_status(struct head_out *o, unsigned status, struct slice reason)
{
    tassert(status >= 100 && status <= 999);
    HEAD_OUT_LIT(o, "HTTP/1.1 ");
    head_out_number(o, status);
    HEAD_OUT_LIT(o, " ");
    head_out_put(o, reason);
    HEAD_OUT_LIT(o, "\r\n");
}

static void
block_put_field(struct head_out *o, const struct http_message *h, const struct http_field *f)
{
    head_out_field(o, http_name(h, f), http_value(h, f));
}

static bool
block_name_is(const struct http_message *h, const struct http_field *f, struct slice name)
{
    return f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name);
}

/* Sums over the bytes of this very message: no other status and no other part has them. */
static bool
block_is_content_sum(const struct http_message *h, const struct http_field *f)
{
    return block_name_is(h, f, SLICE_LIT("Content-MD5")) ||
           block_name_is(h, f, SLICE_LIT("Content-Digest"));
}

/* What the stored body depends on, so that no update may change it (RFC 9111 3.2).  Not
 * Content-Type: an origin may correct it, and the body's bytes are the same. */
static bool
block_is_bound_to_body(const struct http_message *h, const struct http_field *f)
{
    return f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_ENCODING ||
           f->id == HTTP_F_CONTENT_RANGE || block_is_content_sum(h, f);
}

/* Does field `f` of a 304 or 206 replace what is stored? */
static bool
block_updates(const struct http_message *stored, const struct http_message *update,
    const struct http_field *f)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    if (f->drop || (flags & (HTTP_HOP | HTTP_OURS)) != 0 || f->id == HTTP_F_VIA)
        return false;
    if (f->id == HTTP_F_ETAG) /* equal, or it would not be about this response */
        return !http_has(stored, HTTP_F_ETAG);
    return !block_is_bound_to_body(update, f);
}

/* Does a stored field go because `update` has one of that name? */
static bool
block_is_replaced(const struct http_message *stored, const struct http_message *update,
    const struct http_field *f)
{
    const struct http_field *u = NULL;

    if (f->id != HTTP_F_OTHER && !http_has(update, (enum http_field_id)f->id))
        return false;
    do {
        if (f->id != HTTP_F_OTHER)
            u = http_find(update, (enum http_field_id)f->id, u);
        else
            u = http_find_name(update, http_name(stored, f), u);
    } while (u != NULL && !block_updates(stored, update, u));
    return u != NULL;
}

static void
block_put_date(struct head_out *o, int64_t now_s)
{
    char date[HTTP_DATE_LEN];

    http_date_format(now_s, date);
    head_out_field(o, SLICE_LIT("Date"), slice_of(date, sizeof(date)));
}

/* As forward_response() has it: the way of the last message, and ours (RFC 9110 7.6.3). */
static void
block_put_via(struct head_out *o, const struct http_message *update, struct slice pseudonym)
{
    const struct http_field *f = NULL;

    if (pseudonym.len == 0)
        return;
    HEAD_OUT_LIT(o, "Via: ");
    while ((f = http_find(update, HTTP_F_VIA, f)) != NULL) {
        if (f->drop || f->value_len == 0)
            continue;
        head_out_put(o, http_value(update, f));
        HEAD_OUT_LIT(o, ", ");
    }
    head_out_put(o, update->version_minor == 0 ? SLICE_LIT("1.0 ") : SLICE_LIT("1.1 "));
    head_out_put(o, pseudonym);
    HEAD_OUT_LIT(o, "\r\n");
}

int
block_merge(const struct http_message *stored, const struct http_message *update,
    struct slice pseudonym, int64_t now_s, struct span out)
{
    struct head_out o = head_out_begin(out);
    const struct http_field *f;
    bool dated = false;
    unsigned i;

    block_put_status(
        &o, stored->status, http_slice(stored, stored->reason_off, stored->reason_len));
    for (i = 0; i < stored->nfields; i++) {
        f = &stored->fields[i];
        if (f->id == HTTP_F_VIA || f->id == HTTP_F_DATE || block_is_replaced(stored, update, f))
            continue;
        block_put_field(&o, stored, f);
    }
    for (i = 0; i < update->nfields; i++) {
        f = &update->fields[i];
        if (!block_updates(stored, update, f))
            continue;
        dated = dated || f->id == HTTP_F_DATE;
        block_put_field(&o, update, f);
    }
    if (!dated)
        block_put_date(&o, now_s);
    block_put_via(&o, update, pseudonym);
    return head_out_end(&o);
}

/* Bytes of all field lines. */
static size_t
block_lines_len(const struct http_message *h)
{
    size_t len = 0;
    unsigned i;

    for (i = 0; i < h->nfields; i++)
        len += h->fields[i].name_len + h->fields[i].value_len + 4u; /* ": " and CRLF */
    return len;
}

size_t
block_merge_max(
    const struct http_message *stored, const struct http_message *update, struct slice pseudonym)
{
    return sizeof("HTTP/1.1 000 \r\nVia: 1.1 \r\nDate: \r\n") + HTTP_DATE_LEN + stored->reason_len +
           pseudonym.len + block_lines_len(stored) + block_lines_len(update);
}

/* Does it describe the body, which a 304 and a 416 do not have (RFC 9110 15.4.5)?  Not every
 * name that begins with Content- does: Content-Security-Policy, Content-Location. */
static bool
block_describes_body(const struct http_message *h, const struct http_field *f)
{
    return f->id == HTTP_F_CONTENT_TYPE || block_is_bound_to_body(h, f) ||
           block_name_is(h, f, SLICE_LIT("Content-Language")) ||
           block_name_is(h, f, SLICE_LIT("Content-Disposition"));
}

int
block_not_modified(const struct http_message *stored, struct span out)
{
    struct head_out o = head_out_begin(out);
    unsigned i;

    block_put_status(&o, 304, slice_str(http_reason(304)));
    for (i = 0; i < stored->nfields; i++) {
        if (!block_describes_body(stored, &stored->fields[i]))
            block_put_field(&o, stored, &stored->fields[i]);
    }
    return head_out_end(&o);
}

int
block_partial(const struct http_message *stored, const struct block_partial *how, struct span out)
{
    struct head_out o = head_out_begin(out);
    bool several = how->content_range.len == 0;
    unsigned i;

    tassert(how->content_range.len <= RANGE_TEXT_MAX);
    tassert(!several || (how->boundary.len > 0 && how->boundary.len <= BLOCK_BOUNDARY_MAX));
    block_put_status(&o, 206, slice_str(http_reason(206)));
    for (i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_RANGE ||
            (several && f->id == HTTP_F_CONTENT_TYPE) || block_is_content_sum(stored, f))
            continue;
        block_put_field(&o, stored, f);
    }
    if (several) {
        HEAD_OUT_LIT(&o, "Content-Type: " BLOCK_BOUNDARY_TYPE);
        head_out_put(&o, how->boundary);
        HEAD_OUT_LIT(&o, "\r\n");
    } else {
        head_out_field(&o, SLICE_LIT("Content-Range"), how->content_range);
    }
    return head_out_end(&o);
}

/* Freshness is the resource's, not this refusal's: a cache behind us would keep a 416 for as
 * long as the page (RFC 9111 3 stores any final status that is explicitly fresh). */
static bool
block_is_freshness(const struct http_field *f)
{
    return f->id == HTTP_F_CACHE_CONTROL || f->id == HTTP_F_EXPIRES ||
           f->id == HTTP_F_CDN_CACHE_CONTROL || f->id == HTTP_F_SURROGATE_CONTROL;
}

int
block_unsatisfiable(const struct http_message *stored, uint64_t complete, struct span out)
{
    struct head_out o = head_out_begin(out);
    unsigned i;

    block_put_status(&o, 416, slice_str(http_reason(416)));
    for (i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (!block_describes_body(stored, f) && !block_is_freshness(f))
            block_put_field(&o, stored, f);
    }
    HEAD_OUT_LIT(&o, "Content-Range: bytes */"); /* RFC 9110 14.4 */
    head_out_number(&o, complete);
    HEAD_OUT_LIT(&o, "\r\n");
    return head_out_end(&o);
}

size_t
block_rewrite_max(const struct http_message *stored)
{
    _Static_assert(sizeof("Content-Type: " BLOCK_BOUNDARY_TYPE) + BLOCK_BOUNDARY_MAX >=
                       sizeof("Content-Range: ") + RANGE_TEXT_MAX,
        "the longest line that is added");
    return sizeof("HTTP/1.1 416 Range Not Satisfiable\r\n") + block_lines_len(stored) +
           sizeof("Content-Type: " BLOCK_BOUNDARY_TYPE "\r\n") + BLOCK_BOUNDARY_MAX;
}

int
block_whole(const struct http_message *stored, struct span out)
{
    struct head_out o = head_out_begin(out);
    unsigned i;

    tassert(stored->status == 206);
    block_put_status(&o, 200, slice_str(http_reason(200)));
    for (i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_RANGE ||
            block_is_content_sum(stored, f))
            continue;
        block_put_field(&o, stored, f);
    }
    return head_out_end(&o);
}
