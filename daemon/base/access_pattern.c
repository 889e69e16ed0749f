/* access_pattern.c -- from the text of a format to its pieces. */
#include "daemon/base/access_pattern.h"

#include <stdio.h>

#include "daemon/base/terr.h"

#define PATTERN_NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static const struct {
    const char *name;
    size_t most;
} pattern_fields[] = {
#define X(name, most, doc) {#name, most},
    ACCESS_FIELD_TABLE(X)
#undef X
};

#define X(name, most, doc) " $" #name
static const char pattern_names[] = ACCESS_FIELD_TABLE(X);
#undef X

/* A name of a built-in format has no dollar sign, so a format of one's own needs no mark in
 * front. */
bool
access_pattern_is(const char *text)
{
    return strchr(text, '$') != NULL;
}

/* ACCESS_FIELD_COUNT: there is none of this name. */
static enum access_field
pattern_find(struct slice name)
{
    unsigned i = 0;

    while (i < ACCESS_FIELD_COUNT && !slice_eq(name, slice_str(pattern_fields[i].name)))
        i++;
    return (enum access_field)i;
}

/* The bytes of the next piece, `at` the first of them; a field's length is with its '$'. */
static size_t
pattern_piece(const char *at, const char *end, struct access_piece *out)
{
    const char *dollar = memchr(at, '$', (size_t)(end - at));
    size_t len = 0;

    *out = (struct access_piece){.field = ACCESS_FIELD_COUNT};
    /* Text up to the next $, or to the end. */
    if (dollar != at) {
        out->text = slice_of(at, (size_t)((dollar != NULL ? dollar : end) - at));
        return out->text.len;
    }
    if (end - at > 1 && at[1] == '$') {
        /* $$ is one dollar sign, and takes two bytes of the format. */
        out->text = slice_of(at, 1);
        return 2;
    }
    while (at + 1 + len < end && at[1 + len] != '\0' &&
           strchr(PATTERN_NAME_CHARS, at[1 + len]) != NULL)
        len++;
    out->field = pattern_find(slice_of(at + 1, len));
    return out->field == ACCESS_FIELD_COUNT ? 0 : 1 + len;
}

/* `at` is a '$' without a field's name. */
static int
pattern_refuse(const char *at, const char *end, char *why, size_t why_size)
{
    size_t len = 1;

    while (at + len < end && at[len] != '\0' && strchr(PATTERN_NAME_CHARS, at[len]) != NULL)
        len++;
    if (len == 1)
        snprintf(why, why_size, "has a $ that begins no name: $$ is a dollar sign; there are%s",
            pattern_names);
    else
        snprintf(why, why_size, "names %.*s, which is no field: there are%s",
            /* Cut: the list of all fields has to fit behind it. */
            (int)(len < 40 ? len : 40), at, pattern_names);
    return TERR_CONFIG;
}

int
access_pattern_parse(struct access_pattern *out, struct slice text, char *why, size_t why_size)
{
    const char *at = out->text, *end = out->text + text.len;
    size_t line = 1, len;

    out->n = 0;
    if (text.len > sizeof(out->text)) {
        snprintf(why, why_size, "has more than %d bytes", ACCESS_PATTERN_MAX);
        return TERR_CONFIG;
    }
    for (size_t i = 0; i < text.len; i++)
        /* A line's end in the format would make two lines of a request. */
        if (((unsigned char)text.ptr[i] < 0x20 && text.ptr[i] != '\t') || text.ptr[i] == 0x7f) {
            snprintf(why, why_size, "has a control character");
            return TERR_CONFIG;
        }
    /* The pieces point into the copy: the caller's text may go. */
    memcpy(out->text, text.ptr, text.len);
    for (; at < end; at += len) {
        struct access_piece *p = &out->pieces[out->n++];

        len = pattern_piece(at, end, p);
        if (len == 0)
            return pattern_refuse(at, end, why, why_size);
        /* At its longest, so that no line needs a bound while it is written. */
        line += p->field == ACCESS_FIELD_COUNT ? p->text.len : pattern_fields[p->field].most;
        if (line > ACCESS_PATTERN_LINE_MAX || out->n == ACCESS_PATTERN_PIECES_MAX) {
            snprintf(why, why_size, "makes lines that are too long: leave out a field");
            return TERR_CONFIG;
        }
    }
    return 0;
}
