/* table_text.c -- a table written as text, an entry a line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/table/table_build.h"

enum {
    TEXT_FLOATS_MAX =
        TABLE_VALUE_MAX / sizeof(float) / 64, /* 4096: of a line; it lies on the stack */
    TEXT_NUMBER_MAX = 64                      /* bytes of one as text */
};

static bool
text_is_space(char c)
{
    /* \r: files of Windows have it at the end of a line. */
    return c == ' ' || c == '\t' || c == '\r';
}

static struct slice
text_trim(struct slice s)
{
    while (s.len > 0 && text_is_space(s.ptr[0]))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len > 0 && text_is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* Takes a word from the front of *rest. */
static struct slice
text_word(struct slice *rest)
{
    struct slice word = {rest->ptr, 0};

    while (word.len < rest->len && !text_is_space(word.ptr[word.len]))
        word.len++;
    *rest = text_trim(slice_of(rest->ptr + word.len, rest->len - word.len));
    return word;
}

/* "0.5 1 2e3"; *n of them.
 * `n` counts what was read, also on an error. */
static const char *
text_floats(struct slice value, float *out, size_t *n)
{
    for (*n = 0; value.len > 0; (*n)++) {
        struct slice word = text_word(&value);
        char text[TEXT_NUMBER_MAX], *end;

        if (*n == TEXT_FLOATS_MAX)
            return "more than 4096 numbers";
        /* strtof(3) wants a NUL, so it is copied. */
        if (word.len >= sizeof(text))
            return "a number is longer than 63 characters";
        memcpy(text, word.ptr, word.len);
        text[word.len] = '\0';
        out[*n] = strtof(text, &end);
        /* "nan" and "inf" are numbers to strtof(3), and of no use here. */
        if (*end != '\0' || end == text || !isfinite(out[*n]))
            return "a vector's value is numbers with spaces between, as 0.5 1 2e3";
    }
    return NULL;
}

static int
text_add_line(struct table_builder *b, bool vectors, struct slice line, const char **why)
{
    struct slice rest = line, key = text_word(&rest);
    float floats[TEXT_FLOATS_MAX];
    size_t n;

    if (vectors) {
        *why = text_floats(rest, floats, &n);
        if (*why != NULL)
            return TERR_INVALID;
        /* As they are kept: in the writer's byte order, which the file tells. */
        rest = slice_of((const char *)floats, n * sizeof(float));
    }
    return table_builder_add(b, key, rest, why);
}

/* On an error *line is the line's number, from 1, and `why` is never empty: without memory it
 * says so. */
int
table_builder_add_text(
    struct table_builder *b, struct slice text, unsigned long *line, char *why, size_t why_size)
{
    bool vectors = table_builder_kind(b) == TABLE_VECTOR;

    for (*line = 1; text.len > 0; (*line)++) {
        const char *end = memchr(text.ptr, '\n', text.len), *said = "";
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        struct slice one = text_trim(slice_of(text.ptr, len));
        int err;

        text = slice_of(text.ptr + len + (end != NULL), text.len - len - (end != NULL));
        /* Lines are counted all the same: the error names the one in the editor. */
        if (one.len == 0 || one.ptr[0] == '#')
            continue;
        err = text_add_line(b, vectors, one, &said);
        if (err != 0) {
            snprintf(why, why_size, "%s", said[0] != '\0' ? said : terr_text(err));
            return err;
        }
    }
    return 0;
}
