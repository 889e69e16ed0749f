/* req_select.c -- what of a stored 200 the client wants: nothing, if it has it already; parts of
 * it; or all (RFC 9110 13.2.2: conditions first, then ranges). */
#include "daemon/base/terr.h"
#include "daemon/http/conditional.h"
#include "daemon/http/derive.h"
#include "daemon/proxy/req_priv.h"

/* The response becomes `m`, which was built; or why not. */
static int
req_take_message(struct req *r, struct http_message *m, int err)
{
    if (err != 0)
        return err;
    tassert(m->status == 206 || m->status == 304 || m->status == 416);
    tassert(!r->head_sent);
    r->resp.message = m;
    /* The stored form has the status and the length of the 200. */
    r->resp.rendered = slice_of(NULL, 0);
    r->resp.status = m->status;
    r->resp.length_in_fields = false;
    return 0;
}

static int
req_not_modified(struct req *r, const struct http_message *stored)
{
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));

    if (m == NULL)
        return TERR_NOMEM;
    r->resp.bodyless = true;
    /* A 304 has no body, and Content-Length would be that of the 200 (RFC 9110 8.6). */
    r->resp.length = EXCHANGE_LENGTH_UNKNOWN;
    counter_add(r->proxy->counters, COUNTER_req_not_modified, 1);
    return req_take_message(r, m, derive_not_modified(stored, &r->x->arena, m));
}

static int
req_unsatisfiable(struct req *r, const struct http_message *stored, uint64_t complete)
{
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));

    if (m == NULL)
        return TERR_NOMEM;
    /* No page: a client that asks for ranges is no reader of one (RFC 9110 15.5.17). */
    r->resp.length = 0;
    return req_take_message(r, m, derive_unsatisfiable(stored, complete, &r->x->arena, m));
}

static int
req_one_range(
    struct req *r, const struct http_message *stored, struct range range, uint64_t complete)
{
    struct content_range cr = {range.first, range.last, complete};
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    char text[RANGE_TEXT_MAX];
    struct derive_partial how = {.content_range = slice_of(text, content_range_write(&cr, text))};

    tassert(range.first <= range.last);
    tassert(complete == STOBJ_SIZE_UNKNOWN || range.last < complete);
    if (m == NULL)
        return TERR_NOMEM;
    /* Both ends are in a range, `end` is behind the last byte. */
    r->all.first = range.first;
    r->all.end = range.last + 1;
    r->resp.length = range.last + 1 - range.first;
    return req_take_message(r, m, derive_partial(stored, &how, &r->x->arena, m));
}

/* The text in front of each part, and what ends the body, in one piece of the arena. */
static struct req_segment *
req_lay_out(struct req *r, const struct http_message *stored, const struct range *ranges,
    unsigned n, uint64_t complete, struct slice boundary)
{
    struct slice type = http_get_one(stored, HTTP_F_CONTENT_TYPE);
    struct req_segment *s = arena_alloc(&r->x->arena, (n + 1) * sizeof(*s));
    char *text = arena_alloc(&r->x->arena, (n + 1) * (size_t)RANGE_PART_MAX);

    if (s == NULL || text == NULL)
        return NULL;
    r->resp.length = 0;
    for (unsigned i = 0; i <= n; i++, text += RANGE_PART_MAX) {
        struct content_range cr = {.complete = complete};
        size_t len;

        if (i == n) {
            len = range_end(boundary, text);
            /* Behind the last part: a text without bytes. */
            s[i] = (struct req_segment){slice_of(text, len), 0, 0};
        } else {
            cr.first = ranges[i].first;
            cr.last = ranges[i].last;
            tassert(cr.first <= cr.last);
            tassert(cr.last < complete);
            len = range_part_head(boundary, i == 0, type, &cr, text);
            s[i] = (struct req_segment){slice_of(text, len), cr.first, cr.last + 1};
        }
        tassert(len <= RANGE_PART_MAX);
        r->resp.length += len + s[i].end - s[i].first;
    }
    return s;
}

static int
req_many_ranges(struct req *r, const struct http_message *stored, const struct range *ranges,
    unsigned n, uint64_t complete)
{
    struct hash128 random = hash_bytes(&r->x->xid, sizeof(r->x->xid)); /* with a secret */
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    char boundary[RANGE_BOUNDARY_LEN];
    struct derive_partial how = {.boundary = slice_of(boundary, sizeof(boundary))};

    if (m == NULL)
        return TERR_NOMEM;
    /* Not guessable: a body that has the boundary in it would end its part early. */
    range_boundary(random.lo, random.hi, boundary);
    r->segments = req_lay_out(r, stored, ranges, n, complete, how.boundary);
    if (r->segments == NULL)
        return TERR_NOMEM;
    /* The last one ends the multipart body. */
    r->nsegments = n + 1;
    return req_take_message(r, m, derive_partial(stored, &how, &r->x->arena, m));
}

/* While its length is not known, what has come is known: RFC 9110 14.4 has "*" for
 * that. */
static bool
req_range_has_come(const struct req *r)
{
    const struct range_spec *s = &r->ranges[0];

    if (r->nranges != 1 || s->first == RANGE_UNKNOWN || s->last == RANGE_UNKNOWN)
        return false;
    return r->entry->partial ? entry_has_bytes(r->entry, s->first, s->last)
                             : s->last < stobj_len(entry_part(r->entry, 0).body);
}

static int
req_select_ranges(struct req *r, const struct http_message *stored)
{
    uint64_t complete = r->resp.length;
    struct range ranges[RANGES_MAX];
    unsigned n = 1;

    /* The one part that came, whatever was asked: the origin chose it. */
    if (r->attempt.choice == REQ_AS_CAME) {
        const struct entry_part p = entry_part(r->entry, 0);

        tassert(p.len > 0);
        ranges[0] = (struct range){p.off, p.off + p.len - 1};
    } else if (complete == STOBJ_SIZE_UNKNOWN) {
        if (!req_range_has_come(r))
            return 0;
        ranges[0] = (struct range){r->ranges[0].first, r->ranges[0].last};
    } else {
        switch (range_resolve(r->ranges, r->nranges, complete, ranges, &n)) {
        case RANGE_WHOLE:
            return 0;
        case RANGE_UNSATISFIABLE:
            return req_unsatisfiable(r, stored, complete);
        case RANGE_OK:
            break;
        }
    }
    /* Its length became known when it was whole: a window does not go back (RFC 9110 14.2: Range may
     * be ignored). */
    if (n > 1 && r->entry->windowed)
        return 0;
    tassert(n > 0);
    tassert(n <= RANGES_MAX);
    counter_add(r->proxy->counters, COUNTER_req_partial, 1);
    return n == 1 ? req_one_range(r, stored, ranges[0], complete)
                  : req_many_ranges(r, stored, ranges, n, complete);
}

int
req_select(struct req *r)
{
    const struct http_message *req = r->head;
    const struct http_message *stored = req_response(r);
    struct validators v;

    if (stored == NULL)
        return TERR_NOMEM;
    if (entry_is_esi(r->entry)) /* of one page many may be made: it has no version, and no parts */
        return 0;
    validators_of(stored, r->proxy->loop->clock.wall_ms / 1000, &v);
    /* First: a client that has this version needs no range of it. */
    if (cond_not_modified(req, &v))
        return req_not_modified(r, stored);
    /* A private response is the origin's answer to the client's own range already. */
    if (r->nranges == 0 || r->unpacks || r->policy.range_off || entry_is_private(r->entry) ||
        (r->attempt.choice != REQ_AS_CAME && !entry_range_holds(r->entry, req, &v)))
        return 0;
    return req_select_ranges(r, stored);
}
