/* tags.c -- surrogate keys: which fields name them, and what stands in these. */
#include "daemon/http/tags.h"

#include "daemon/base/hash.h"
#include "daemon/base/tassert.h"
#include "daemon/http/token.h"

enum {
    TAGS_NAME_MAX = sizeof("Surrogate-Key") - 1, /* the longest of the fields' names */
};

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
        if (tag->len > 0)
            return true;
    }
    return false;
}

static void
tags_put(struct tags *t, struct slice tag)
{
    uint64_t hash = tag_hash(tag);

    for (unsigned i = 0; i < t->n; i++)
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

    while (!t->any && tag_next(&text, between, &tag))
        tags_put(t, tag);
}

/* ---- Fields ---- */

/* What stands between the tags of a field of this name; 0: it names none. */
static unsigned
tags_between(struct slice name)
{
    if (slice_eq_nocase(name, SLICE_LIT("Surrogate-Key")))
        return TAG_SPACES;
    if (slice_eq_nocase(name, SLICE_LIT("xkey")))
        return TAG_SPACES | TAG_COMMAS;
    return slice_eq_nocase(name, SLICE_LIT("Cache-Tag")) ? TAG_COMMAS : 0;
}

/* The next line, with its end; values have no line feeds.  False: there are no more. */
static bool
tags_next_line(struct slice *rest, struct slice *line)
{
    const char *end = rest->len > 0 ? (const char *)memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - rest->ptr) + 1 : rest->len;

    if (len == 0)
        return false;
    *line = slice_of(rest->ptr, len);
    *rest = slice_of(rest->ptr + len, rest->len - len);
    return true;
}

/* As tags_between(), of a line; its value in *value. */
static unsigned
tags_of_line(struct slice line, struct slice *value)
{
    size_t most = line.len <= TAGS_NAME_MAX ? line.len : TAGS_NAME_MAX + 1;
    const char *colon = (const char *)memchr(line.ptr, ':', most);
    size_t at;

    if (colon == NULL)
        return 0;
    at = (size_t)(colon - line.ptr);
    *value = slice_of(colon + 1, line.len - at - 1);
    while (value->len > 0 &&
           (value->ptr[value->len - 1] == '\n' || value->ptr[value->len - 1] == '\r'))
        value->len--;
    return tags_between(slice_of(line.ptr, at));
}

unsigned
tags_lines(struct slice block)
{
    struct slice line, value;
    unsigned n = 0;

    while (tags_next_line(&block, &line))
        n += tags_of_line(line, &value) != 0;
    return n;
}

void
tags_add_block(struct tags *t, struct slice block)
{
    struct slice line, value;

    while (tags_next_line(&block, &line)) {
        unsigned between = tags_of_line(line, &value);

        if (between != 0)
            tags_add(t, value, between);
    }
}

/* Lines that name tags, or those that do not.  How many bytes. */
static size_t
tags_copy(struct slice block, bool naming, char *out)
{
    struct slice line, value;
    size_t n = 0;

    while (tags_next_line(&block, &line)) {
        if ((tags_of_line(line, &value) != 0) != naming)
            continue;
        memcpy(out + n, line.ptr, line.len);
        n += line.len;
    }
    return n;
}

size_t
tags_put_last(struct slice block, char *out)
{
    size_t others = tags_copy(block, false, out);
    size_t naming = tags_copy(block, true, out + others);

    tassert(others + naming == block.len);
    return others;
}
