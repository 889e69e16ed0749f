/* fetch_plan.c -- what a fetch for the cache asks the origin: for all of it, whether it has
 * changed (RFC 9111 4.3.1), or for a part (RFC 9110 14.2, 13.1.5). */
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_priv.h"

enum {
    RANGE_FIELD_MAX = 64
};

/* "bytes=0-4", "bytes=5-", "bytes=-5" */
int
fetch_write_range(struct fetch *f, uint64_t first, uint64_t last)
{
    char text[RANGE_FIELD_MAX];
    int n;

    tassert(first == RANGE_UNKNOWN || last == RANGE_UNKNOWN || first <= last);
    /* The last `last` bytes (RFC 9110 14.1.2). */
    if (first == RANGE_UNKNOWN)
        n = snprintf(text, sizeof(text), "bytes=-%llu", (unsigned long long)last);
    else if (last == RANGE_UNKNOWN)
        n = snprintf(text, sizeof(text), "bytes=%llu-", (unsigned long long)first);
    else
        n = snprintf(text, sizeof(text), "bytes=%llu-%llu", (unsigned long long)first,
            (unsigned long long)last);
    f->range = arena_copy(&f->arena, slice_of(text, (size_t)n));
    f->ranged = true;
    return f->range.ptr == NULL ? TERR_NOMEM : 0;
}

/* Nothing of use is stored: the range that the client asks for, if it is one and not all of
 * it.  Several would come as multipart, so then the whole is better. */
static int
fetch_plan_range(struct fetch *f)
{
    const struct range_spec *s = &f->want;
    struct slice if_range = http_get_one(&f->req, HTTP_F_IF_RANGE);
    int err;

    if (f->nwant != 1 || (s->first == 0 && s->last == RANGE_UNKNOWN))
        return 0;
    if (http_has(&f->req, HTTP_F_IF_RANGE) && if_range.ptr == NULL)
        return 0; /* several: the meaning is not defined */
    /* What the client has may have been packed here, under the same date: no part of the origin's goes with it. */
    if (f->forms && cond_range_is_by_date(&f->req))
        return 0;
    err = fetch_write_range(f, s->first, s->last);
    if (err == 0 && if_range.ptr != NULL)
        f->if_range = if_range; /* of the copy of the request, which lives as long as we do */
    return err;
}

int
fetch_plan_without_old(struct fetch *f)
{
    if (f->old != NULL)
        entry_drop(&f->old);
    memset(&f->have, 0, sizeof(f->have));
    /* The answer that was no use must leave nothing behind, neither a time nor a verdict (README
     * 42). */
    fetch_new_attempt(f);
    f->conditional = f->joining = f->ranged = false;
    f->range = f->if_range = slice_of(NULL, 0);
    return fetch_plan_range(f);
}

/* The bytes that are wanted, as far as what is stored tells.  False: it does not. */
static bool
fetch_wanted(const struct fetch *f, const struct fetch_spec *spec, struct range *out)
{
    const struct range_spec *s = spec->ranges;
    uint64_t complete = entry_body_len(f->old);
    struct range ranges[RANGES_MAX];
    unsigned n;

    tassert(f->old != NULL && spec->nranges <= RANGES_MAX);
    if (complete == STOBJ_SIZE_UNKNOWN) {
        /* Without a length neither the last n bytes nor "from here on" say which bytes those
         * are. */
        if (spec->nranges != 1 || s->first == RANGE_UNKNOWN || s->last == RANGE_UNKNOWN)
            return false;
        *out = (struct range){s->first, s->last};
        return true;
    }
    *out = (struct range){0, complete - 1};
    /* If-Range does not hold: the client gets the whole (RFC 9110 13.1.5). */
    if (spec->nranges == 0 || !entry_range_holds(f->old, &f->req, &f->have))
        return true;
    if (range_resolve(spec->ranges, spec->nranges, complete, ranges, &n) != RANGE_OK)
        return true;
    *out = ranges[0];
    for (unsigned i = 1; i < n; i++) {
        /* One range around all of them: several would come as multipart, which is not stored. */
        out->first = ranges[i].first < out->first ? ranges[i].first : out->first;
        out->last = ranges[i].last > out->last ? ranges[i].last : out->last;
    }
    return true;
}

/* What is stored lacks bytes: from the first to the last of them, if it is still the same.
 * The last part is asked for without an end, which says that the length is no guess. */
static int
fetch_plan_join(struct fetch *f, const struct fetch_spec *spec)
{
    struct slice validator = validators_if_range(&f->have);
    struct range want;
    int err;

    tassert(f->old != NULL);
    if (validator.len == 0 || !fetch_wanted(f, spec, &want) ||
        !entry_missing(f->old, &want.first, &want.last) ||
        entry_nparts(f->old) >= ENTRY_PARTS_MAX) {
        return fetch_plan_without_old(f);
    }
    f->if_range = validator;
    f->joining = true;
    err = fetch_write_range(
        f, want.first, want.last + 1 == entry_body_len(f->old) ? RANGE_UNKNOWN : want.last);
    return err;
}

static int
fetch_read_old(struct fetch *f)
{
    struct http_field *fields = arena_alloc(&f->arena, LIMIT_FIELDS * sizeof(*fields));

    tassert(f->old != NULL);
    if (fields == NULL)
        return TERR_NOMEM;
    entry_message(f->old, ENTRY_FIELDS_ALL, fields, &f->stored);
    validators_of(&f->stored, f->sent_ms / 1000, &f->have);
    return 0;
}

int
fetch_plan(struct fetch *f, const struct fetch_spec *spec)
{
    int err;

    tassert(fetch_is_shared(f) && spec->ask != NULL);
    f->ask = *spec->ask;
    f->nwant = spec->nranges;
    if (f->nwant > 0)
        /* The others are never asked for: see fetch_plan_range(). */
        f->want = spec->ranges[0];
    err = f->old != NULL ? fetch_read_old(f) : 0;
    if (err != 0)
        return err;
    if (f->old == NULL)
        return fetch_plan_range(f);
    if (spec->complete)
        return fetch_plan_join(f, spec);
    f->conditional = f->old->validatable;
    /* If it did change, the part that is wanted is enough, if a part is all that is stored. */
    return f->old->partial ? fetch_plan_range(f) : 0;
}
