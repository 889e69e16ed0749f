/* derive.c -- responses derived from a stored one. */
#include "daemon/http/derive.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/conditional.h"
#include "daemon/http/date.h"
#include "daemon/http/message_out.h"
#include "daemon/http/range.h"

#define DERIVE_BOUNDARY_TYPE "multipart/byteranges; boundary="

enum {
    DERIVE_BOUNDARY_MAX = 70, /* RFC 2046 5.1.1 */
    DERIVE_SPARE = 256,       /* the longest reason of ours, and the longest field that is added */
};

static bool
derive_name_is(const struct http_message *h, const struct http_field *f, struct slice name)
{
    return f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name);
}

/* Sums over the bytes of this very message: no other status and no other part has them. */
static bool
derive_is_content_sum(const struct http_message *h, const struct http_field *f)
{
    return derive_name_is(h, f, SLICE_LIT("Content-MD5")) ||
           derive_name_is(h, f, SLICE_LIT("Content-Digest"));
}

/* What the stored body depends on, so that no update may change it (RFC 9111 3.2).  Not
 * Content-Type: an origin may correct it, and the body's bytes are the same. */
static bool
derive_is_bound_to_body(const struct http_message *h, const struct http_field *f)
{
    return f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_ENCODING ||
           f->id == HTTP_F_CONTENT_RANGE || derive_is_content_sum(h, f);
}

/* Does field `f` of a 304 or 206 replace what is stored? */
static bool
derive_updates(const struct http_message *stored, const struct http_message *update,
    const struct http_field *f)
{
    unsigned flags = http_field_flags((enum http_field_id)f->id);

    if (f->drop || (flags & (HTTP_HOP | HTTP_OURS)) != 0 || f->id == HTTP_F_VIA)
        return false;
    if (f->id == HTTP_F_ETAG) /* equal, or it would not be about this response */
        return !http_has(stored, HTTP_F_ETAG);
    return !derive_is_bound_to_body(update, f);
}

/* Does a stored field go because `update` has one of that name? */
static bool
derive_is_replaced(const struct http_message *stored, const struct http_message *update,
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
    } while (u != NULL && !derive_updates(stored, update, u));
    return u != NULL;
}

static void
derive_put_date(struct message_out *o, int64_t now_s)
{
    char date[HTTP_DATE_LEN];

    http_date_format(now_s, date);
    MESSAGE_OUT_FIELD(o, DATE, "Date", slice_of(date, sizeof(date)));
}

/* RFC 9111 3.2, 4.3.4.  Via and Date are the update's: the age is counted from it on, and it has
 * come another way.  Fields that the update does not have stay as they were stored. */
int
derive_merged(const struct http_message *stored, const struct http_message *update,
    struct slice pseudonym, int64_t now_s, struct arena *a, struct http_message *out)
{
    size_t bytes = DERIVE_SPARE + HTTP_DATE_LEN + stored->reason_len + pseudonym.len +
                   message_lines_bytes(stored) + message_lines_bytes(update);
    struct message_out o;
    const struct http_field *f;
    bool dated = false;
    unsigned i;

    if (message_out_begin(&o, out, a, bytes, LIMIT_FIELDS) != 0)
        return TERR_NOMEM;
    message_out_status(&o, stored->status, http_reason_of(stored));
    for (i = 0; i < stored->nfields; i++) {
        f = &stored->fields[i];
        if (f->id == HTTP_F_VIA || f->id == HTTP_F_DATE || derive_is_replaced(stored, update, f))
            continue;
        message_out_copy(&o, stored, f);
    }
    for (i = 0; i < update->nfields; i++) {
        f = &update->fields[i];
        if (!derive_updates(stored, update, f))
            continue;
        dated = dated || f->id == HTTP_F_DATE;
        message_out_copy(&o, update, f);
    }
    if (!dated)
        derive_put_date(&o, now_s);
    message_out_via(&o, update, pseudonym);
    return message_out_end(&o);
}

/* Does it describe the body, which a 304 and a 416 do not have (RFC 9110 15.4.5)?  Not every
 * name that begins with Content- does: Content-Security-Policy, Content-Location. */
static bool
derive_describes_body(const struct http_message *h, const struct http_field *f)
{
    return f->id == HTTP_F_CONTENT_TYPE || derive_is_bound_to_body(h, f) ||
           derive_name_is(h, f, SLICE_LIT("Content-Language")) ||
           derive_name_is(h, f, SLICE_LIT("Content-Disposition"));
}

/* Room for what a stored response becomes: its own fields and at most one more. */
static int
derive_begin(struct message_out *o, struct http_message *out, struct arena *a,
    const struct http_message *stored, unsigned status)
{
    size_t bytes = DERIVE_SPARE + message_lines_bytes(stored);
    int err = message_out_begin(o, out, a, bytes, stored->nfields + 1u);

    if (err == 0)
        message_out_status(o, status, slice_str(http_reason(status)));
    return err;
}

/* RFC 9110 15.4.5: what a client needs to renew its copy, and nothing about a body that does not
 * come. */
int
derive_not_modified(const struct http_message *stored, struct arena *a, struct http_message *out)
{
    struct message_out o;
    int err = derive_begin(&o, out, a, stored, 304);

    if (err != 0)
        return err;
    for (unsigned i = 0; i < stored->nfields; i++) {
        if (!derive_describes_body(stored, &stored->fields[i]))
            message_out_copy(&o, stored, &stored->fields[i]);
    }
    return message_out_end(&o);
}

/* RFC 9110 15.3.7.  With several ranges each part says its own Content-Range and Content-Type, and
 * sums of the whole are those of no part. */
int
derive_partial(const struct http_message *stored, const struct derive_partial *how, struct arena *a,
    struct http_message *out)
{
    bool several = how->content_range.len == 0;
    struct message_out o;
    int err = derive_begin(&o, out, a, stored, 206);

    tassert(how->content_range.len <= RANGE_TEXT_MAX);
    tassert(!several || (how->boundary.len > 0 && how->boundary.len <= DERIVE_BOUNDARY_MAX));
    if (err != 0)
        return err;
    for (unsigned i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_RANGE ||
            (several && f->id == HTTP_F_CONTENT_TYPE) || derive_is_content_sum(stored, f))
            continue;
        message_out_copy(&o, stored, f);
    }
    if (several) {
        message_out_open(&o, HTTP_F_CONTENT_TYPE, SLICE_LIT("Content-Type"));
        MESSAGE_OUT_LIT(&o, DERIVE_BOUNDARY_TYPE);
        message_out_put(&o, how->boundary);
        message_out_close(&o);
    } else {
        MESSAGE_OUT_FIELD(&o, CONTENT_RANGE, "Content-Range", how->content_range);
    }
    return message_out_end(&o);
}

/* RFC 9530 2, 3: a digest of the content, or of the representation with its coding.  RFC 3230: the older one. */
static bool
derive_is_sum(const struct http_message *h, const struct http_field *f)
{
    return derive_is_content_sum(h, f) || derive_name_is(h, f, SLICE_LIT("Repr-Digest")) ||
           derive_name_is(h, f, SLICE_LIT("Digest"));
}

bool
derive_has_sum(const struct http_message *h)
{
    for (unsigned i = 0; i < h->nfields; i++)
        if (derive_is_sum(h, &h->fields[i]))
            return true;
    return false;
}

static void
derive_put_weak(struct message_out *o, const struct http_message *h, const struct http_field *f)
{
    message_out_open(o, HTTP_F_ETAG, http_name(h, f));
    if (!etag_is_weak(http_value(h, f)))
        MESSAGE_OUT_LIT(o, "W/");
    message_out_put(o, http_value(h, f));
    message_out_close(o);
}

/* Does Vary have it, or everything? */
static bool
derive_varies_by_coding(const struct http_message *h)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice name;

    while ((f = http_find(h, HTTP_F_VARY, f)) != NULL) {
        http_list_init(&it, http_value(h, f));
        while (http_list_next(&it, &name))
            if (slice_eq_nocase(name, SLICE_LIT("Accept-Encoding")) ||
                slice_eq(name, SLICE_LIT("*")))
                return true;
    }
    return false;
}

/* How a body lies there. */
struct derive_code {
    const struct slice *coding; /* NULL: it stays as it is */
    struct slice varies;        /* one more name for Vary; empty: none */
    uint64_t length;            /* UINT64_MAX: it is not known, or stands there already */
    bool is_form;               /* Vary names Accept-Encoding */
};

static int
derive_coded(const struct http_message *stored, const struct derive_code *how, struct arena *a,
    struct http_message *out)
{
    struct message_out o;
    const struct slice *coding = how->coding;
    char digits[24];
    int err = message_out_begin(
        &o, out, a, DERIVE_SPARE + message_lines_bytes(stored), stored->nfields + 4u);

    if (err != 0)
        return err;
    if (stored->nfields + 4u > LIMIT_FIELDS)
        return TERR_LIMIT;
    message_out_status(&o, stored->status, http_reason_of(stored));
    for (unsigned i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (coding != NULL && (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_ENCODING ||
                                  derive_is_sum(stored, f)))
            continue;
        if (coding != NULL && f->id == HTTP_F_ETAG)
            derive_put_weak(&o, stored, f);
        else
            message_out_copy(&o, stored, f);
    }
    if (coding != NULL && coding->len > 0)
        MESSAGE_OUT_FIELD(&o, CONTENT_ENCODING, "Content-Encoding", *coding);
    if (how->is_form && !derive_varies_by_coding(stored))
        MESSAGE_OUT_FIELD(&o, VARY, "Vary", SLICE_LIT("Accept-Encoding"));
    if (how->varies.len > 0)
        MESSAGE_OUT_FIELD(&o, VARY, "Vary", how->varies);
    if (how->length != UINT64_MAX) {
        int n = snprintf(digits, sizeof(digits), "%" PRIu64, how->length);

        MESSAGE_OUT_FIELD(&o, CONTENT_LENGTH, "Content-Length", slice_of(digits, (size_t)n));
    }
    return message_out_end(&o);
}

int
derive_coding(const struct http_message *stored, const struct slice *coding, struct arena *a,
    struct http_message *out)
{
    const struct derive_code how = {coding, slice_of("", 0), UINT64_MAX, true};

    return derive_coded(stored, &how, a, out);
}

int
derive_recoded(const struct http_message *stored, struct slice coding, struct slice varies,
    uint64_t length, struct arena *a, struct http_message *out)
{
    const struct derive_code how = {&coding, varies, length, true};

    return derive_coded(stored, &how, a, out);
}

int
derive_sized(
    const struct http_message *stored, uint64_t length, struct arena *a, struct http_message *out)
{
    const struct derive_code how = {NULL, slice_of("", 0), length, false};

    tassert(!http_has(stored, HTTP_F_CONTENT_LENGTH));
    return derive_coded(stored, &how, a, out);
}

int
derive_assembled(const struct http_message *page, bool keep_validators, struct arena *a,
    struct http_message *out)
{
    struct message_out o;
    int err = message_out_begin(
        &o, out, a, page->reason_len + message_lines_bytes(page), page->nfields + 1u);

    if (err != 0)
        return err;
    message_out_status(&o, page->status, http_reason_of(page));
    for (unsigned i = 0; i < page->nfields; i++) {
        const struct http_field *f = &page->fields[i];

        if (!keep_validators && (f->id == HTTP_F_ETAG || f->id == HTTP_F_LAST_MODIFIED))
            continue;
        if (f->id != HTTP_F_CONTENT_LENGTH && f->id != HTTP_F_CONTENT_ENCODING &&
            !derive_is_sum(page, f) && !derive_name_is(page, f, SLICE_LIT("Accept-Ranges")))
            message_out_copy(&o, page, f);
    }
    return message_out_end(&o);
}

/* Freshness is the resource's, not this refusal's: a cache behind us would keep a 416 for as
 * long as the page (RFC 9111 3 stores any final status that is explicitly fresh). */
static bool
derive_is_freshness(const struct http_field *f)
{
    return f->id == HTTP_F_CACHE_CONTROL || f->id == HTTP_F_EXPIRES ||
           f->id == HTTP_F_CDN_CACHE_CONTROL || f->id == HTTP_F_SURROGATE_CONTROL;
}

int
derive_unsatisfiable(
    const struct http_message *stored, uint64_t complete, struct arena *a, struct http_message *out)
{
    struct message_out o;
    int err = derive_begin(&o, out, a, stored, 416);

    if (err != 0)
        return err;
    for (unsigned i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (!derive_describes_body(stored, f) && !derive_is_freshness(f))
            message_out_copy(&o, stored, f);
    }
    message_out_open(&o, HTTP_F_CONTENT_RANGE, SLICE_LIT("Content-Range"));
    MESSAGE_OUT_LIT(&o, "bytes */"); /* RFC 9110 14.4 */
    message_out_number(&o, complete);
    message_out_close(&o);
    return message_out_end(&o);
}

/* The head that the whole would have, of a 206's: without what was said of the part alone (RFC 9111
 * 3.4). */
int
derive_whole(const struct http_message *stored, struct arena *a, struct http_message *out)
{
    struct message_out o;
    int err = derive_begin(&o, out, a, stored, 200);

    tassert(stored->status == 206);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < stored->nfields; i++) {
        const struct http_field *f = &stored->fields[i];

        if (f->id == HTTP_F_CONTENT_LENGTH || f->id == HTTP_F_CONTENT_RANGE ||
            derive_is_content_sum(stored, f))
            continue;
        message_out_copy(&o, stored, f);
    }
    return message_out_end(&o);
}
_Static_assert(DERIVE_SPARE >= sizeof("Range Not Satisfiable"
                                      "Content-Type: " DERIVE_BOUNDARY_TYPE "\r\n") +
                                   DERIVE_BOUNDARY_MAX,
    "what is added fits");
_Static_assert(DERIVE_SPARE >= sizeof("Range Not Satisfiable"
                                      "Content-Range: \r\n") +
                                   RANGE_TEXT_MAX,
    "so does a range");
