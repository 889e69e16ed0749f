/* range.c -- which bytes are asked for, and how they are announced. */
#include "daemon/http/range.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/head_out.h"
#include "daemon/http/token.h"

enum {
    RANGE_TYPE_MAX = 200,    /* a longer Content-Type is left out of the parts */
    RANGE_BOUNDARY_MAX = 70, /* RFC 2046 5.1.1 */
};

/* "bytes", in any case (RFC 9110 14.1), and `sep` behind it: what follows, or .ptr NULL. */
static struct slice
range_unit(struct slice value, char sep)
{
    const struct slice unit = SLICE_LIT("bytes");

    if (value.len <= unit.len || value.ptr[unit.len] != sep)
        return slice_of(NULL, 0);
    if (!slice_eq_nocase(slice_of(value.ptr, unit.len), unit))
        return slice_of(NULL, 0);
    return slice_of(value.ptr + unit.len + 1, value.len - unit.len - 1);
}

/* Cuts at the only `sep`; false when there is none (numbers have no other to offer). */
static bool
range_split(struct slice s, char sep, struct slice *before, struct slice *after)
{
    const char *at = s.len == 0 ? NULL : memchr(s.ptr, sep, s.len);

    if (at == NULL)
        return false;
    *before = slice_of(s.ptr, (size_t)(at - s.ptr));
    *after = slice_of(at + 1, s.len - before->len - 1);
    return true;
}

static bool
range_spec_parse(struct slice member, struct range_spec *out)
{
    struct slice first, last;

    /* "-" alone asks for nothing. */
    if (!range_split(member, '-', &first, &last) || (first.len == 0 && last.len == 0))
        return false;
    *out = (struct range_spec){RANGE_UNKNOWN, RANGE_UNKNOWN};
    if (first.len > 0 && http_parse_decimal(first, &out->first) < 0)
        return false;
    if (last.len > 0 && http_parse_decimal(last, &out->last) < 0)
        return false;
    /* RFC 9110 14.1.1: else the spec is invalid; without a last, `last` is the largest number. */
    return first.len == 0 || out->first <= out->last;
}

/* One bad member, or one too many, and the whole field is ignored: the client gets everything,
 * which is always a right answer (RFC 9110 14.2). */
unsigned
range_parse(struct slice value, struct range_spec specs[static RANGES_MAX])
{
    struct slice set = range_unit(value, '='), member;
    struct http_list_iter it;
    unsigned n = 0;

    http_list_init(&it, set);
    while (http_list_next(&it, &member)) {
        if (n == RANGES_MAX || !range_spec_parse(member, &specs[n]))
            return 0;
        n++;
    }
    return n;
}

unsigned
range_of_request(const struct http_message *req, struct range_spec specs[static RANGES_MAX])
{
    const struct http_field *f = http_find(req, HTTP_F_RANGE, NULL);

    if (req->method != HTTP_M_GET || f == NULL || f->drop) /* RFC 9110 14.2: GET alone */
        return 0;
    /* Two fields: which one another hop takes is not known, so neither. */
    if (http_find(req, HTTP_F_RANGE, f) != NULL)
        return 0;
    return range_parse(http_value(req, f), specs);
}

/* RFC 9110 14.1.2.  False: nothing of it is there. */
static bool
range_resolve_one(const struct range_spec *spec, uint64_t complete, struct range *out)
{
    if (spec->first == RANGE_UNKNOWN) {
        /* "-0", or the end of nothing. */
        if (spec->last == 0 || complete == 0)
            return false;
        out->first = spec->last < complete ? complete - spec->last : 0;
        out->last = complete - 1;
        return true;
    }
    /* Also where a suffix of another spec is there: this one alone is left out. */
    if (spec->first >= complete)
        return false;
    out->first = spec->first;
    out->last = spec->last < complete ? spec->last : complete - 1;
    return true;
}

static bool
range_overlap(const struct range *a, const struct range *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* How many share bytes with another one. */
static unsigned
range_overlapping(const struct range *r, unsigned n)
{
    unsigned i, j, count = 0;

    for (i = 0; i < n; i++) {
        /* Every pair: there are RANGES_MAX of them at most. */
        for (j = 0; j < n && (j == i || !range_overlap(&r[i], &r[j])); j++)
            ;
        count += j < n;
    }
    return count;
}

/* Joins what stands next to each other in the list and in the representation; how many are
 * left. */
static unsigned
range_merge(struct range *r, unsigned n)
{
    unsigned i, kept = 0;

    for (i = 0; i < n; i++) {
        struct range next = r[i];

        /* No overflow: ends are below a complete length, which is at most RANGE_UNKNOWN. */
        while (
            kept > 0 && next.first <= r[kept - 1].last + 1 && r[kept - 1].first <= next.last + 1) {
            kept--;
            if (r[kept].first < next.first)
                next.first = r[kept].first;
            if (r[kept].last > next.last)
                next.last = r[kept].last;
        }
        r[kept++] = next;
    }
    return kept;
}

/* RFC 9110 14.2 lets a server ignore what is abusive: many small ranges of a few bytes would cost
 * us far more than the client (CVE-2011-3192).  The parts together are never more than the
 * whole. */
enum range_verdict
range_resolve(const struct range_spec *specs, unsigned nspecs, uint64_t complete,
    struct range out[static RANGES_MAX], unsigned *nout)
{
    uint64_t left = complete;
    bool suffix = false;
    unsigned i, n = 0;

    tassert(nspecs > 0 && nspecs <= RANGES_MAX);
    tassert(complete != RANGE_UNKNOWN);
    *nout = 0;
    for (i = 0; i < nspecs; i++) {
        n += range_resolve_one(&specs[i], complete, &out[n]);
        suffix = suffix || (specs[i].first == RANGE_UNKNOWN && specs[i].last > 0);
    }
    if (n == 0) /* the last bytes of nothing are satisfiable, but no 206 can say so */
        return suffix ? RANGE_WHOLE : RANGE_UNSATISFIABLE;
    /* RFC 9110 14.2: more than two that overlap may be ignored. */
    if (range_overlapping(out, n) > 2)
        return RANGE_WHOLE;
    n = range_merge(out, n);
    for (i = 0; i < n; i++) {
        uint64_t len = out[i].last - out[i].first + 1;

        tassert(out[i].first <= out[i].last && out[i].last < complete);
        if (len > left)
            return RANGE_WHOLE;
        left -= len;
    }
    *nout = n;
    return RANGE_OK;
}

/* RFC 9110 14.4.  "last" at or above the complete length is refused: bytes would be stored where
 * there are none. */
int
content_range_parse(struct slice value, struct content_range *out)
{
    struct slice range, complete, first, last;
    struct content_range cr = {.complete = RANGE_UNKNOWN};

    if (!range_split(range_unit(value, ' '), '/', &range, &complete) ||
        !range_split(range, '-', &first, &last))
        return TERR_SYNTAX;
    if (http_parse_decimal(first, &cr.first) < 0 || http_parse_decimal(last, &cr.last) < 0)
        return TERR_SYNTAX;
    if (!slice_eq(complete, SLICE_LIT("*")) && http_parse_decimal(complete, &cr.complete) < 0)
        return TERR_SYNTAX;
    /* An unknown length is the largest number: every `last` is below it. */
    if (cr.first > cr.last || cr.last >= cr.complete)
        return TERR_SYNTAX;
    *out = cr;
    return 0;
}

static void
range_put_value(struct head_out *o, const struct content_range *cr)
{
    tassert(cr->first <= cr->last && cr->last < cr->complete);
    HEAD_OUT_LIT(o, "bytes ");
    head_out_number(o, cr->first);
    HEAD_OUT_LIT(o, "-");
    head_out_number(o, cr->last);
    HEAD_OUT_LIT(o, "/");
    if (cr->complete == RANGE_UNKNOWN)
        HEAD_OUT_LIT(o, "*");
    else
        head_out_number(o, cr->complete);
}

/* What was written into a buffer that is always large enough. */
static size_t
range_end_of(const struct head_out *o)
{
    int len = head_out_end(o);

    tassert(len >= 0);
    return (size_t)len;
}

size_t
content_range_write(const struct content_range *cr, char out[static RANGE_TEXT_MAX])
{
    struct head_out o = head_out_begin((struct span){out, RANGE_TEXT_MAX});

    range_put_value(&o, cr);
    return range_end_of(&o);
}

size_t
range_part_head(struct slice boundary, bool first, struct slice content_type,
    const struct content_range *cr, char out[static RANGE_PART_MAX])
{
    struct head_out o = head_out_begin((struct span){out, RANGE_PART_MAX});

    tassert(boundary.len > 0 && boundary.len <= RANGE_BOUNDARY_MAX);
    if (!first)
        HEAD_OUT_LIT(&o, "\r\n");
    HEAD_OUT_LIT(&o, "--");
    head_out_put(&o, boundary);
    HEAD_OUT_LIT(&o, "\r\n");
    /* A part may do without (RFC 2046 5.1); the buffer could not do with more. */
    if (content_type.len > 0 && content_type.len <= RANGE_TYPE_MAX)
        head_out_field(&o, SLICE_LIT("Content-Type"), content_type);
    HEAD_OUT_LIT(&o, "Content-Range: ");
    range_put_value(&o, cr);
    HEAD_OUT_LIT(&o, "\r\n\r\n");
    return range_end_of(&o);
}

size_t
range_end(struct slice boundary, char out[static RANGE_PART_MAX])
{
    struct head_out o = head_out_begin((struct span){out, RANGE_PART_MAX});

    tassert(boundary.len > 0 && boundary.len <= RANGE_BOUNDARY_MAX);
    HEAD_OUT_LIT(&o, "\r\n--");
    head_out_put(&o, boundary);
    HEAD_OUT_LIT(&o, "--\r\n");
    return range_end_of(&o);
}

void
range_boundary(uint64_t a, uint64_t b, char out[static RANGE_BOUNDARY_LEN])
{
    /* All tchar, so that the parameter needs no quotes. */
    static const char symbols[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned i;

    _Static_assert(RANGE_BOUNDARY_LEN / 2 * 6 >= 64, "every bit is written");
    /* From two random words: no body can be made to have it. */
    for (i = 0; i < RANGE_BOUNDARY_LEN / 2; i++) {
        out[i] = symbols[a & 63];
        out[RANGE_BOUNDARY_LEN / 2 + i] = symbols[b & 63];
        a >>= 6;
        b >>= 6;
    }
}
