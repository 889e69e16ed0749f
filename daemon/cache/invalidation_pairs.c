/* invalidation_pairs.c -- records to names and values, and back. */
#include "daemon/cache/invalidation_pairs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/tags.h"

/* What a record of each kind has besides. */
static const struct {
    struct slice name;
    bool text, tags, fields, soft, changed;
} pairs_kinds[] = {
    [INVALIDATION_URL] = {SLICE_LIT("url"), .text = true, .fields = true, .soft = true},
    [INVALIDATION_KEY] = {SLICE_LIT("key"), .text = true, .soft = true, .changed = true},
    [INVALIDATION_TAGS] = {SLICE_LIT("tags"), .tags = true, .soft = true},
    [INVALIDATION_BAN] = {SLICE_LIT("ban"), .text = true},
    [INVALIDATION_ALL] = {SLICE_LIT("all"), .soft = true},
};

enum pairs_name {
    PAIRS_V,
    PAIRS_KIND,
    PAIRS_SOFT,
    PAIRS_CHANGED,
    PAIRS_TTL,
    PAIRS_GRACE,
    PAIRS_KEEP,
    PAIRS_TEXT,
    PAIRS_TAG, /* from here on several times */
    PAIRS_FIELD,
    PAIRS_NAMES,
};

static const struct slice pairs_names[PAIRS_NAMES] = {
    [PAIRS_V] = SLICE_LIT("v"),
    [PAIRS_KIND] = SLICE_LIT("kind"),
    [PAIRS_SOFT] = SLICE_LIT("soft"),
    [PAIRS_CHANGED] = SLICE_LIT("changed"),
    [PAIRS_TTL] = SLICE_LIT("ttl"),
    [PAIRS_GRACE] = SLICE_LIT("grace"),
    [PAIRS_KEEP] = SLICE_LIT("keep"),
    [PAIRS_TEXT] = SLICE_LIT("text"),
    [PAIRS_TAG] = SLICE_LIT("tag"),
    [PAIRS_FIELD] = SLICE_LIT("field"),
};

#define PAIRS_VERSION_TEXT "1"
#define PAIRS_MS_MAX       INT64_C(1000000000000000) /* 30,000 years; nothing that is added overflows */
_Static_assert(INVALIDATION_VERSION == 1, "what is written is what is read");

/* ---- What may stand in a record ---- */

__attribute__((format(printf, 2, 3))) static int
pairs_refuse(struct span why, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why.ptr, why.len, fmt, args);
    va_end(args);
    return TERR_SYNTAX;
}

static bool
pairs_is_text(struct slice s, const char *also)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c == 127 || (c < ' ' && (c == '\0' || strchr(also, c) == NULL)))
            return false;
    }
    return true;
}

static int
pairs_check_text(const struct invalidation *inv, struct span why)
{
    int kind_len = (int)pairs_kinds[inv->kind].name.len;
    const char *kind = pairs_kinds[inv->kind].name.ptr;

    if (!pairs_kinds[inv->kind].text)
        return inv->text.ptr == NULL ? 0
                                     : pairs_refuse(why, "kind=%.*s has no 'text'", kind_len, kind);
    if (inv->text.ptr == NULL || inv->text.len == 0)
        return pairs_refuse(why, "kind=%.*s needs a 'text', which is not empty", kind_len, kind);
    if (inv->text.len > INVALIDATION_TEXT_MAX)
        return pairs_refuse(why, "the 'text' has more than %d bytes", INVALIDATION_TEXT_MAX);
    if (inv->kind != INVALIDATION_KEY &&
        !pairs_is_text(inv->text, inv->kind == INVALIDATION_BAN ? "\t\r\n" : ""))
        return pairs_refuse(why, "the 'text' has a control character");
    return 0;
}

static int
pairs_check_tags(const struct invalidation *inv, struct span why)
{
    size_t bytes = 0;

    if (inv->ntags > TAG_PURGE_MAX)
        return pairs_refuse(why, "there are more than %d tags", TAG_PURGE_MAX);
    if (pairs_kinds[inv->kind].tags != (inv->ntags > 0))
        return pairs_refuse(
            why, inv->ntags > 0 ? "a 'tag' goes with kind=tags alone" : "kind=tags needs a 'tag'");
    for (unsigned i = 0; i < inv->ntags; i++) {
        bytes += inv->tags[i].len + 1;
        if (inv->tags[i].len == 0 || inv->tags[i].len > TAGS_BYTES_MAX)
            return pairs_refuse(why, "a 'tag' has 1 to %d bytes", TAGS_BYTES_MAX);
        if (!pairs_is_text(inv->tags[i], "\t"))
            return pairs_refuse(why, "a 'tag' has a control character");
    }
    if (bytes > TAG_PURGE_TEXT_MAX)
        return pairs_refuse(why, "the tags have more than %d bytes together", TAG_PURGE_TEXT_MAX);
    return 0;
}

static int
pairs_check_fields(const struct invalidation *inv, struct span why)
{
    if (inv->nfields > INVALIDATION_FIELDS_MAX)
        return pairs_refuse(why, "there are more than %d fields", INVALIDATION_FIELDS_MAX);
    if (inv->nfields > 0 && !pairs_kinds[inv->kind].fields)
        return pairs_refuse(why, "a 'field' goes with kind=url alone");
    for (unsigned i = 0; i < inv->nfields; i++) {
        const struct invalidation_field *f = &inv->fields[i];

        if (f->name.len == 0 || memchr(f->name.ptr, ':', f->name.len) != NULL)
            return pairs_refuse(why, "a 'field' is a name, a colon, a value");
        if (!pairs_is_text(f->name, "") || !pairs_is_text(f->value, "\t"))
            return pairs_refuse(why, "a 'field' has a control character");
    }
    return 0;
}

/* The same for both ways: what is written can be read. */
static int
pairs_check(const struct invalidation *inv, struct span why)
{
    int kind_len = (int)pairs_kinds[inv->kind].name.len, err;
    const char *kind = pairs_kinds[inv->kind].name.ptr;

    if (inv->soft && !pairs_kinds[inv->kind].soft)
        return pairs_refuse(why, "kind=%.*s is never soft", kind_len, kind);
    if (inv->changed && (!pairs_kinds[inv->kind].changed || inv->soft))
        return pairs_refuse(why, "'changed' goes with kind=key alone, and not with soft=1");
    err = pairs_check_text(inv, why);
    if (err == 0)
        err = pairs_check_tags(inv, why);
    return err == 0 ? pairs_check_fields(inv, why) : err;
}

/* ---- To pairs ---- */

static int
pairs_put(struct pairs *out, enum pairs_name name, struct slice value)
{
    if (out->n == out->max)
        return TERR_LIMIT;
    out->list[out->n++] = (struct pair){pairs_names[name], value};
    return 0;
}

static int
pairs_put_ms(struct pairs *out, enum pairs_name name, int64_t ms)
{
    char *at = out->room.ptr + out->used;
    size_t left = out->room.len - out->used;
    int n;

    if (ms < 0) /* as it is: not said */
        return 0;
    n = snprintf(at, left, "%" PRId64, ms < PAIRS_MS_MAX ? ms : PAIRS_MS_MAX - 1);
    if (n < 0 || (size_t)n >= left)
        return TERR_LIMIT;
    out->used += (size_t)n;
    return pairs_put(out, name, slice_of(at, (size_t)n));
}

static int
pairs_put_field(struct pairs *out, const struct invalidation_field *f)
{
    char *at = out->room.ptr + out->used;
    size_t len = f->name.len + 2 + f->value.len;

    if (len > out->room.len - out->used)
        return TERR_LIMIT;
    memcpy(at, f->name.ptr, f->name.len);
    memcpy(at + f->name.len, ": ", 2);
    if (f->value.len > 0)
        memcpy(at + f->name.len + 2, f->value.ptr, f->value.len);
    out->used += len;
    return pairs_put(out, PAIRS_FIELD, slice_of(at, len));
}

/* What a kind has only some of. */
static int
pairs_put_rest(const struct invalidation *inv, struct pairs *out)
{
    int err = 0;

    if (inv->kind == INVALIDATION_KEY && inv->soft) {
        err = pairs_put_ms(out, PAIRS_TTL, inv->ttl_ms);
        if (err == 0)
            err = pairs_put_ms(out, PAIRS_GRACE, inv->grace_ms);
        if (err == 0)
            err = pairs_put_ms(out, PAIRS_KEEP, inv->keep_ms);
    }
    if (err == 0 && inv->text.ptr != NULL)
        err = pairs_put(out, PAIRS_TEXT, inv->text);
    for (unsigned i = 0; i < inv->ntags && err == 0; i++)
        err = pairs_put(out, PAIRS_TAG, inv->tags[i]);
    for (unsigned i = 0; i < inv->nfields && err == 0; i++)
        err = pairs_put_field(out, &inv->fields[i]);
    return err;
}

int
invalidation_to_pairs(const struct invalidation *inv, struct pairs *out)
{
    char why[8]; /* not asked for */
    int err;

    tassert((unsigned)inv->kind < ARRAY_LEN(pairs_kinds));
    out->n = 0;
    out->used = 0;
    if (pairs_check(inv, (struct span){why, sizeof(why)}) != 0)
        return TERR_INVALID;
    err = pairs_put(out, PAIRS_V, SLICE_LIT(PAIRS_VERSION_TEXT));
    if (err == 0)
        err = pairs_put(out, PAIRS_KIND, pairs_kinds[inv->kind].name);
    if (err == 0 && inv->soft)
        err = pairs_put(out, PAIRS_SOFT, SLICE_LIT("1"));
    if (err == 0 && inv->changed)
        err = pairs_put(out, PAIRS_CHANGED, SLICE_LIT("1"));
    return err == 0 ? pairs_put_rest(inv, out) : err;
}

/* ---- From pairs ---- */

struct pairs_reader {
    struct invalidation_room *room;
    struct invalidation inv;
    unsigned seen; /* bit of enum pairs_name */
    struct span why;
};

/* A value as it may be shown in an error: its beginning, without what a terminal obeys. */
struct pairs_shown {
    char text[36];
};

static struct pairs_shown
pairs_show(struct slice value)
{
    struct pairs_shown shown;
    size_t n = 0;

    for (; n < value.len && n < 32; n++) {
        char c = value.ptr[n];

        shown.text[n] = c < ' ' || c > '~' ? '?' : c;
    }
    memcpy(shown.text + n, n < value.len ? "..." : "", n < value.len ? 4 : 1);
    return shown;
}

static int
pairs_read_kind(struct pairs_reader *r, struct slice value)
{
    for (unsigned i = 0; i < ARRAY_LEN(pairs_kinds); i++)
        if (slice_eq(value, pairs_kinds[i].name)) {
            r->inv.kind = (enum invalidation_kind)i;
            return 0;
        }
    return pairs_refuse(
        r->why, "kind '%s' is none of url, key, tags, ban, all", pairs_show(value).text);
}

static int
pairs_read_flag(struct pairs_reader *r, enum pairs_name name, struct slice value, bool *to)
{
    *to = slice_eq(value, SLICE_LIT("1"));
    if (*to || slice_eq(value, SLICE_LIT("0")))
        return 0;
    return pairs_refuse(
        r->why, "%s '%s' is neither 1 nor 0", pairs_names[name].ptr, pairs_show(value).text);
}

static int
pairs_read_ms(struct pairs_reader *r, enum pairs_name name, struct slice value, int64_t *to)
{
    int64_t ms = 0;
    size_t i = 0;

    for (; i < value.len && value.ptr[i] >= '0' && value.ptr[i] <= '9' && ms < PAIRS_MS_MAX / 10;
         i++)
        ms = ms * 10 + (value.ptr[i] - '0');
    if (i == 0 || i < value.len)
        return pairs_refuse(r->why, "%s '%s' is no number of milliseconds", pairs_names[name].ptr,
            pairs_show(value).text);
    *to = ms;
    return 0;
}

static int
pairs_read_tag(struct pairs_reader *r, struct slice value)
{
    if (r->inv.ntags == TAG_PURGE_MAX)
        return pairs_refuse(r->why, "there are more than %d tags", TAG_PURGE_MAX);
    r->room->tags[r->inv.ntags++] = value;
    return 0;
}

static int
pairs_read_field(struct pairs_reader *r, struct slice value)
{
    const char *colon = value.len > 0 ? memchr(value.ptr, ':', value.len) : NULL;
    struct slice name;

    if (colon == NULL || colon == value.ptr)
        return pairs_refuse(
            r->why, "field '%s' is no name, a colon, a value", pairs_show(value).text);
    if (r->inv.nfields == INVALIDATION_FIELDS_MAX)
        return pairs_refuse(r->why, "there are more than %d fields", INVALIDATION_FIELDS_MAX);
    name = slice_of(value.ptr, (size_t)(colon - value.ptr));
    value = slice_of(colon + 1, value.len - name.len - 1);
    while (value.len > 0 && value.ptr[0] == ' ')
        value = slice_of(value.ptr + 1, value.len - 1);
    r->room->fields[r->inv.nfields++] = (struct invalidation_field){name, value};
    return 0;
}

static int
pairs_read(struct pairs_reader *r, enum pairs_name name, struct slice value)
{
    if (name < PAIRS_TAG && (r->seen >> name & 1) != 0)
        return pairs_refuse(r->why, "'%s' is there twice", pairs_names[name].ptr);
    r->seen |= 1u << name;
    switch (name) {
    case PAIRS_V: /* pairs_check_version() */
        return 0;
    case PAIRS_KIND:
        return pairs_read_kind(r, value);
    case PAIRS_SOFT:
        return pairs_read_flag(r, name, value, &r->inv.soft);
    case PAIRS_CHANGED:
        return pairs_read_flag(r, name, value, &r->inv.changed);
    case PAIRS_TTL:
        return pairs_read_ms(r, name, value, &r->inv.ttl_ms);
    case PAIRS_GRACE:
        return pairs_read_ms(r, name, value, &r->inv.grace_ms);
    case PAIRS_KEEP:
        return pairs_read_ms(r, name, value, &r->inv.keep_ms);
    case PAIRS_TEXT:
        r->inv.text = value;
        return 0;
    case PAIRS_TAG:
        return pairs_read_tag(r, value);
    case PAIRS_FIELD:
        return pairs_read_field(r, value);
    case PAIRS_NAMES:
        break;
    }
    TUNREACHABLE("a name of a pair");
}

/* Before all else: of another version nothing else is known. */
static int
pairs_check_version(const struct pair *pairs, unsigned n, struct span why)
{
    for (unsigned i = 0; i < n; i++) {
        if (!slice_eq(pairs[i].name, pairs_names[PAIRS_V]))
            continue;
        if (slice_eq(pairs[i].value, SLICE_LIT(PAIRS_VERSION_TEXT)))
            return 0;
        pairs_refuse(why, "the record's version is '%s'; this tarnd knows version %d",
            pairs_show(pairs[i].value).text, INVALIDATION_VERSION);
        return TERR_INVALID;
    }
    return pairs_refuse(why, "there is no 'v', the version of the record");
}

static int
pairs_check_whole(struct pairs_reader *r)
{
    const unsigned times = 1u << PAIRS_TTL | 1u << PAIRS_GRACE | 1u << PAIRS_KEEP;

    if ((r->seen >> PAIRS_KIND & 1) == 0)
        return pairs_refuse(r->why, "there is no 'kind'");
    if ((r->seen & times) != 0 && !(r->inv.kind == INVALIDATION_KEY && r->inv.soft))
        return pairs_refuse(r->why, "'ttl', 'grace' and 'keep' go with kind=key and soft=1 alone");
    return pairs_check(&r->inv, r->why);
}

int
invalidation_from_pairs(const struct pair *pairs, unsigned n, struct invalidation_room *room,
    struct invalidation *out, struct span why)
{
    struct pairs_reader r = {.room = room,
        .inv = {.ttl_ms = -1,
            .grace_ms = -1,
            .keep_ms = -1,
            .tags = room->tags,
            .fields = room->fields},
        .why = why};
    int err = pairs_check_version(pairs, n, why);

    for (unsigned i = 0; i < n && err == 0; i++)
        for (unsigned name = 0; name < PAIRS_NAMES; name++)
            if (slice_eq(pairs[i].name, pairs_names[name])) {
                err = pairs_read(&r, (enum pairs_name)name, pairs[i].value);
                break;
            }
    if (err == 0)
        err = pairs_check_whole(&r);
    if (err == 0)
        *out = r.inv;
    return err;
}
