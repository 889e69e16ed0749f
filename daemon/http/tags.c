/* tags.c -- surrogate keys: which fields name them, and what stands in these. */
#include "daemon/http/tags.h"

#include "daemon/base/hash.h"
#include "daemon/base/tassert.h"
#include "daemon/http/message_out.h"
#include "daemon/http/token.h"

void
tags_init(struct tags *t)
{
    t->bytes = 0;
    t->n = 0;
    t->any = false;
}

uint64_t
tag_hash(struct slice tag)
{
    /* Two tags with one hash are purged together: a response too many is fetched again, none stays
     * wrong. */
    return hash_bytes(tag.ptr, tag.len).lo;
}

static bool
tag_ends(char c, unsigned between)
{
    return ((between & TAG_COMMAS) != 0 && c == ',') ||
           ((between & TAG_SPACES) != 0 && (c == ' ' || c == '\t'));
}

bool
tag_next(struct slice *rest, unsigned between, struct slice *tag)
{
    tassert(between != 0);
    while (rest->len > 0) {
        size_t n = 0;

        while (n < rest->len && !tag_ends(rest->ptr[n], between))
            n++;
        *tag = http_trim(slice_of(rest->ptr, n));
        if (n < rest->len)
            n++;
        *rest = slice_of(rest->ptr + n, rest->len - n);
        /* Between two spaces, or behind a last comma, stands no tag. */
        if (tag->len > 0)
            return true;
    }
    return false;
}

/* Too many are as every tag, not as the first ones: a response that could not be purged by one of
 * its tags would stay wrong (T3). */
static void
tags_put(struct tags *t, struct slice tag)
{
    uint64_t hash = tag_hash(tag);

    for (unsigned i = 0; i < t->n; i++)
        /* Twice is once: it takes no place. */
        if (t->hash[i] == hash)
            return;
    if (t->n == TAGS_MAX || tag.len > TAGS_BYTES_MAX - t->bytes) {
        t->any = true;
        return;
    }
    t->bytes += (uint32_t)tag.len;
    t->hash[t->n++] = hash;
}

void
tags_add(struct tags *t, struct slice text, unsigned between)
{
    struct slice tag;

    /* With `any` the others change nothing. */
    while (!t->any && tag_next(&text, between, &tag))
        tags_put(t, tag);
}

/* ---- Fields ---- */

/* What stands between the tags of a field of this name; 0: it names none. */
static unsigned
tags_between(struct slice name)
{
    /* As Fastly has it; xkey is Varnish's, Cache-Tag that of Cloudflare and Akamai. */
    if (slice_eq_nocase(name, SLICE_LIT("Surrogate-Key")))
        return TAG_SPACES;
    if (slice_eq_nocase(name, SLICE_LIT("xkey")) || slice_eq_nocase(name, TAGS_OURS))
        return TAG_SPACES | TAG_COMMAS;
    return slice_eq_nocase(name, SLICE_LIT("Cache-Tag")) ? TAG_COMMAS : 0;
}

bool
tags_named(const struct http_message *m)
{
    for (unsigned i = 0; i < m->nfields; i++) {
        /* None of them has a number: names are compared for strange fields alone. */
        if (m->fields[i].id == HTTP_F_OTHER && tags_between(http_name(m, &m->fields[i])) != 0)
            return true;
    }
    return false;
}

void
tags_add_fields(struct tags *t, const struct http_message *m)
{
    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];
        unsigned between = f->id == HTTP_F_OTHER ? tags_between(http_name(m, f)) : 0;

        if (between != 0)
            tags_add(t, http_value(m, f), between);
    }
}

/* Fields that name tags, or those that do not. */
static void
tags_copy(struct message_out *o, const struct http_message *m, bool naming)
{
    for (unsigned i = 0; i < m->nfields; i++) {
        const struct http_field *f = &m->fields[i];

        if ((f->id == HTTP_F_OTHER && tags_between(http_name(m, f)) != 0) == naming)
            message_out_copy(o, m, f);
    }
}

int
tags_put_last(
    const struct http_message *m, struct arena *a, struct http_message *out, unsigned *nothers)
{
    struct message_out o;

    if (message_out_begin(&o, out, a, m->reason_len + message_lines_bytes(m), m->nfields) != 0)
        return TERR_NOMEM;
    message_out_status(&o, m->status, http_reason_of(m));
    /* Those for us last: a response to a client that must not see them is a head that ends
     * earlier. */
    tags_copy(&o, m, false);
    *nothers = out->nfields;
    tags_copy(&o, m, true);
    return message_out_end(&o);
}
