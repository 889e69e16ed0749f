/* conf_compress.c -- compression on the way: the section, its lists, and what they mean for a response.
 *
 *    compress: on
 *    compress: { types: [text/html, image/svg+xml], min_size: 4KiB }
 *
 * A route can be on without the section, by its defaults.  So these are there in every snapshot.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

/* RFC 6838 4.2, restricted-name-chars: fewer than a token has, and no `*`. */
#define MEDIA_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+"

static const struct {
    const char *name;
    int64_t bit;
} compress_formats[] = {
    {"gzip", CONF_COMPRESS_GZIP},
    {"br", CONF_COMPRESS_BR},
    {"zstd", CONF_COMPRESS_ZSTD},
};

/* --- formats --- */

const char *
conf_codings_format(int64_t bits, char *buf, size_t len)
{
    size_t used = (size_t)snprintf(buf, len, "[");

    for (unsigned i = 0; i < ARRAY_LEN(compress_formats); i++)
        if ((bits & compress_formats[i].bit) != 0)
            used += (size_t)snprintf(
                buf + used, len - used, "%s%s", used > 1 ? ", " : "", compress_formats[i].name);
    used += (size_t)snprintf(buf + used, len - used, "]");
    tassert(used < len);
    return buf;
}

/* Each of them, or the one that stands without a list.  NULL: there is no further one. */
static const struct ynode *
compress_first(const struct ynode *n)
{
    return n->kind == YNODE_LIST ? n->children : n;
}

static const struct ynode *
compress_next(const struct ynode *n, const struct ynode *c)
{
    return n->kind == YNODE_LIST ? c->next : NULL;
}

/* True: it has at least one, and no more than `most`. */
static bool
compress_count_check(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, unsigned most)
{
    if (n->kind == YNODE_LIST && n->nchildren == 0)
        conf_fail(cx, n,
            "%s: an empty list compresses nothing: give it %s, or write `compress: off`", key->name,
            key->type == CONF_TYPE_CODINGS ? "a format" : "a media type");
    else if (n->kind == YNODE_LIST && n->nchildren > most)
        conf_fail(cx, n, "%s has %u entries: %u are possible", key->name, n->nchildren, most);
    else
        return true;
    return false;
}

static bool
compress_is_text(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n)
{
    if (n->kind == YNODE_TEXT && !ynode_is_null(n))
        return true;
    if (n->kind != YNODE_BAD)
        conf_fail(cx, n, "%s: each of the list must be a text, as in %s", key->name,
            key->type == CONF_TYPE_CODINGS ? "gzip" : "text/html");
    return false;
}

/* 0: it has been reported. */
static int64_t
compress_read_format(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n)
{
    struct conf_guess guess = {.meant = n->text};

    if (!compress_is_text(cx, key, n))
        return 0;
    for (unsigned i = 0; i < ARRAY_LEN(compress_formats); i++) {
        if (slice_eq_nocase(n->text, slice_str(compress_formats[i].name)))
            return compress_formats[i].bit;
        conf_guess_try(&guess, compress_formats[i].name);
    }
    if (guess.best != NULL)
        conf_fail_value(cx, key, n, "is unknown; did you mean '%s'?", guess.best);
    else
        conf_fail_value(cx, key, n, "is unknown: there are gzip, br and zstd");
    return 0;
}

bool
conf_codings_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to)
{
    unsigned errors = cx->nerrors;
    int64_t bits = 0;

    if (!compress_count_check(cx, key, n, CONF_TYPES_MAX))
        return false;
    for (const struct ynode *c = compress_first(n); c != NULL; c = compress_next(n, c))
        bits |= compress_read_format(cx, key, c);
    if (cx->nerrors > errors || bits == 0)
        return false;
    if ((bits & CONF_COMPRESS_GZIP) == 0) {
        conf_fail(cx, n,
            "%s: gzip is missing: a response is compressed with it while it arrives, and br and "
            "zstd "
            "are made of that",
            key->name);
        return false;
    }
    *to = bits;
    return true;
}

/* --- media types --- */

static size_t
compress_span(struct slice s)
{
    size_t i = 0;

    while (i < s.len && s.ptr[i] != '\0' && strchr(MEDIA_CHARS, s.ptr[i]) != NULL)
        i++;
    return i;
}

/* NULL, or what is wrong with it.  A pattern would be looked for byte by byte in each response: all of
 * one type is what is needed. */
static const char *
compress_wrong_type(struct slice s)
{
    size_t type = compress_span(s);
    struct slice sub;

    if (memchr(s.ptr, ';', s.len) != NULL)
        return "has parameters: a media type is given without them, as in text/html";
    if (memchr(s.ptr, '/', s.len) == NULL)
        return "has no slash: a media type is type/subtype, as in text/html, or type/*, as in "
               "text/*";
    if (type > 0 && type < s.len && s.ptr[type] == '/') {
        sub = slice_of(s.ptr + type + 1, s.len - type - 1);
        if (slice_eq(sub, SLICE_LIT("*")) || (sub.len > 0 && compress_span(sub) == sub.len))
            return NULL;
    }
    if (memchr(s.ptr, '*', s.len) != NULL)
        return "is a pattern that is not supported: a * stands for a whole subtype, as in text/*, "
               "and "
               "types with a suffix are named each, as in application/ld+json";
    return "is not a media type: type/subtype, as in text/html, or type/*, as in text/*";
}

/* A copy in lower case, with a space behind it. */
static bool
compress_add_type(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, char **at,
    const char *end)
{
    const char *wrong;

    if (!compress_is_text(cx, key, n))
        return false;
    wrong = compress_wrong_type(n->text);
    tassert(*at <= end);
    if (wrong != NULL) {
        conf_fail_value(cx, key, n, "%s", wrong);
        return false;
    }
    if (n->text.len + 1 > (size_t)(end - *at)) {
        conf_fail(cx, n, "%s has more than %lld bytes", key->name, (long long)key->most);
        return false;
    }
    for (size_t i = 0; i < n->text.len; i++)
        *(*at)++ = (char)tolower((unsigned char)n->text.ptr[i]);
    *(*at)++ = ' ';
    return true;
}

/*    types: [text/html, Image/SVG+XML]   ->   "text/html image/svg+xml" */
bool
conf_media_types_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    char *text = conf_alloc(cx, cx->keep, (size_t)key->most + 1, 1), *at = text;
    bool good = true;

    if (text == NULL || !compress_count_check(cx, key, n, CONF_TYPES_MAX))
        return false;
    for (const struct ynode *c = compress_first(n); c != NULL; c = compress_next(n, c))
        good = compress_add_type(cx, key, c, &at, text + key->most) && good;
    tassert(at <= text + key->most); /* a NUL is behind, whatever was copied */
    /* Else the defaults stay: half of what is meant is not what was written. */
    if (!good)
        return false;
    tassert(at > text);
    at[-1] = '\0'; /* the last space */
    *to = text;
    return true;
}

static bool
compress_type_matches(struct slice pattern, struct slice type)
{
    if (pattern.ptr[pattern.len - 1] != '*')
        return slice_eq_nocase(pattern, type);
    pattern.len--; /* type/ */
    return type.len > pattern.len && slice_eq_nocase(pattern, slice_of(type.ptr, pattern.len));
}

/* Once a fetch, and the list is short (CONF_TYPES_MAX).  What stands in front of parameters ends at a
 * `;` or white space (RFC 9110 8.3.1). */
bool
conf_compress_has_type(const struct conf_compress *compress, struct slice content_type)
{
    size_t len = 0;

    while (len < content_type.len && strchr("; \t", content_type.ptr[len]) == NULL)
        len++;
    content_type.len = len;
    for (const char *at = compress->types; *at != '\0';) {
        size_t word = strcspn(at, " ");

        tassert(word > 0); /* one space between two */
        if (compress_type_matches(slice_of(at, word), content_type))
            return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

/* --- the section, and a route --- */

enum conf_compress_extent
conf_compress_extent(const struct conf *conf, const struct conf_route *route)
{
    if (route == NULL || !route->compress.said)
        return conf->compress.on ? CONF_COMPRESS_ON : CONF_COMPRESS_OFF;
    return route->compress.all  ? CONF_COMPRESS_ALL
           : route->compress.on ? CONF_COMPRESS_ON
                                : CONF_COMPRESS_OFF;
}

/* `compress: {}` is on.  Of a section with a mistake it does not matter: there is no snapshot. */
void
conf_compress_read(struct conf_cx *cx, const struct ynode *n)
{
    struct conf_compress *to = &cx->conf->compress;
    struct conf_key word = {.name = "compress", .type = CONF_TYPE_BOOL, .most = 1};
    int64_t on = 1;

    if (n->kind == YNODE_MAP)
        conf_keys_read(cx, conf_section_find("compress"), n, "section 'compress'", to);
    else
        conf_value_read(cx, &word, n, &on);
    to->on = on != 0;
}

/* When routes and section have been read. */
void
conf_compress_finish(struct conf *conf)
{
    conf->compresses = conf->compress.on;
    for (unsigned i = 0; i < conf->nroutes; i++)
        conf->compresses = conf->compresses || conf->routes[i].compress.on;
}
