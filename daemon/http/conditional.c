/* conditional.c -- validators compared, preconditions judged. */
#include "daemon/http/conditional.h"

#include "daemon/base/tassert.h"
#include "daemon/http/date.h"
#include "daemon/http/token.h"

/* The only field `id` that is stored; .ptr NULL when there is none, or several. */
static struct slice
cond_only(const struct http_message *h, enum http_field_id id)
{
    const struct http_field *f = NULL;
    struct slice value = {NULL, 0};

    while ((f = http_find(h, id, f)) != NULL) {
        if (f->drop) /* nominated by Connection: it does not reach the store */
            continue;
        if (value.ptr != NULL)
            return slice_of(NULL, 0);
        value = http_value(h, f);
    }
    return value;
}

/* Seconds since 1970, or -1 for what is no date (or one before 1970: no file is that old). */
static int64_t
cond_date(struct slice value, int64_t now_s)
{
    int64_t s;

    if (value.ptr == NULL || http_date_parse(value, now_s, &s) < 0 || s < 0)
        return -1;
    return s;
}

void
validators_of(const struct http_message *resp, int64_t now_s, struct validators *out)
{
    struct slice modified = cond_only(resp, HTTP_F_LAST_MODIFIED);

    out->etag = cond_only(resp, HTTP_F_ETAG);
    out->last_modified_s = cond_date(modified, now_s);
    out->last_modified = out->last_modified_s >= 0 ? modified : slice_of(NULL, 0);
    out->date_s = cond_date(cond_only(resp, HTTP_F_DATE), now_s);
}

bool
etag_is_weak(struct slice etag)
{
    return etag.len >= 2 && etag.ptr[0] == 'W' && etag.ptr[1] == '/';
}

static struct slice
etag_opaque(struct slice etag)
{
    return etag_is_weak(etag) ? slice_of(etag.ptr + 2, etag.len - 2) : etag;
}

/* RFC 9110 8.8.3: any visible byte but the quote; a backslash escapes nothing. */
static bool
etag_byte_ok(char c)
{
    unsigned char b = (unsigned char)c;

    return b == 0x21 || (b >= 0x23 && b != 0x7f);
}

bool
etag_ok(struct slice etag)
{
    struct slice tag = etag_opaque(etag);
    size_t i;

    if (tag.len < 2 || tag.ptr[0] != '"' || tag.ptr[tag.len - 1] != '"')
        return false;
    for (i = 1; i < tag.len - 1; i++) {
        if (!etag_byte_ok(tag.ptr[i]))
            return false;
    }
    return true;
}

bool
etag_strong_equal(struct slice a, struct slice b)
{
    return slice_eq(a, b) && !etag_is_weak(a) && etag_ok(a);
}

bool
etag_weak_equal(struct slice a, struct slice b)
{
    if (etag_ok(a) && etag_ok(b))
        return slice_eq(etag_opaque(a), etag_opaque(b));
    return a.len > 0 && slice_eq(a, b); /* what is malformed has its bytes only */
}

/* RFC 9110 8.8.2.2: it cannot have changed twice within the second it was modified in. */
static bool
cond_modified_is_strong(const struct validators *v)
{
    return v->last_modified_s >= 0 && v->date_s > v->last_modified_s;
}

/* RFC 9110 15.3.7.3, RFC 9111 3.4: only strong ones, of the same kind.  A body made of two versions
 * no client would notice. */
bool
validators_join(const struct validators *a, const struct validators *b)
{
    if (a->etag.len > 0 || b->etag.len > 0)
        return etag_strong_equal(a->etag, b->etag);
    return a->last_modified_s == b->last_modified_s && cond_modified_is_strong(a) &&
           cond_modified_is_strong(b);
}

struct slice
validators_if_range(const struct validators *v)
{
    if (v->etag.len > 0)
        return etag_ok(v->etag) && !etag_is_weak(v->etag) ? v->etag : slice_of(NULL, 0);
    return cond_modified_is_strong(v) ? v->last_modified : slice_of(NULL, 0);
}

static struct slice
cond_rest(struct slice s, size_t skip)
{
    tassert(skip <= s.len);
    return slice_of(s.ptr + skip, s.len - skip);
}

/* The next member of a list of entity tags; false: no more.  Unlike other lists a quoted
 * string here has no escapes: "a\" is a whole tag. */
static bool
cond_tag_next(struct slice *rest, struct slice *tag)
{
    size_t len = 0;
    const char *quote;

    while (rest->len > 0 && strchr(" \t,", rest->ptr[0]) != NULL && rest->ptr[0] != '\0')
        *rest = cond_rest(*rest, 1);
    if (rest->len == 0)
        return false;
    if (etag_is_weak(*rest))
        len = 2;
    if (len < rest->len && rest->ptr[len] == '"') {
        quote = memchr(rest->ptr + len + 1, '"', rest->len - len - 1);
        if (quote != NULL)
            len = (size_t)(quote + 1 - rest->ptr);
    }
    while (len < rest->len && rest->ptr[len] != ',') /* white space, or what makes it malformed */
        len++;
    *tag = http_trim(slice_of(rest->ptr, len));
    *rest = cond_rest(*rest, len);
    return true;
}

/* Is `etag` (.len 0: the response has none) in If-None-Match?  All lines are one list. */
static bool
cond_none_match_has(const struct http_message *req, struct slice etag)
{
    const struct http_field *f = NULL;
    bool star = false, found = false;
    struct slice rest, tag;
    unsigned tags = 0;

    while ((f = http_find(req, HTTP_F_IF_NONE_MATCH, f)) != NULL) {
        rest = http_value(req, f);
        while (cond_tag_next(&rest, &tag)) {
            tags++;
            star = star || slice_eq(tag, SLICE_LIT("*"));
            found = found || etag_weak_equal(tag, etag);
        }
    }
    return found || (star && tags == 1); /* "*" stands alone, or means nothing */
}

/* What a two-digit year is read against: the day the stored response was made. */
static int64_t
cond_epoch(const struct validators *stored)
{
    int64_t s = stored->date_s > stored->last_modified_s ? stored->date_s : stored->last_modified_s;

    return s < 0 ? 0 : s;
}

/* RFC 9110 13.2.2: If-None-Match hides If-Modified-Since, for a date is the weaker word. */
bool
cond_not_modified(const struct http_message *req, const struct validators *stored)
{
    int64_t since_s, made_s;

    if (req->method != HTTP_M_GET && req->method != HTTP_M_HEAD)
        return false;
    if (http_has(req, HTTP_F_IF_NONE_MATCH))
        return cond_none_match_has(req, stored->etag);
    if (!http_has(req, HTTP_F_IF_MODIFIED_SINCE))
        return false;
    since_s = cond_date(http_get_one(req, HTTP_F_IF_MODIFIED_SINCE), cond_epoch(stored));
    /* RFC 9111 4.3.2: without Last-Modified its Date stands for it. */
    made_s = stored->last_modified_s >= 0 ? stored->last_modified_s : stored->date_s;
    return since_s >= 0 && made_s >= 0 && made_s <= since_s;
}

bool
cond_range_is_by_date(const struct http_message *req)
{
    struct slice value = http_get_one(req, HTTP_F_IF_RANGE);

    return http_has(req, HTTP_F_IF_RANGE) && (!etag_ok(value) || etag_is_weak(value));
}

/* RFC 9110 13.1.5: a strong match, of a tag or of a date to the second.  Else the client gets the
 * whole, and not a part of another version. */
bool
cond_range_holds(const struct http_message *req, const struct validators *stored)
{
    struct slice value;

    if (!http_has(req, HTTP_F_IF_RANGE))
        return true;
    value = http_get_one(req, HTTP_F_IF_RANGE);
    if (value.ptr == NULL)
        return false;
    if (etag_ok(value))
        return etag_strong_equal(value, stored->etag);
    return cond_modified_is_strong(stored) &&
           cond_date(value, cond_epoch(stored)) == stored->last_modified_s;
}
