/* json.c -- a thin layer over jansson. */
#include "daemon/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"

enum {
    JSON_FLAGS_READ = JSON_REJECT_DUPLICATES, /* two readers must not see two values */
    JSON_FLAGS_WRITE = JSON_INDENT(2) | JSON_REAL_PRECISION(15), /* 0.1, not 0.10000000000000001 */
};

/* The text needs no NUL, and nothing of it is kept. */
json_t *
json_parse(struct slice text, char *why, size_t why_size)
{
    json_error_t error = {.text = ""};
    json_t *v = json_loadb(text.len > 0 ? text.ptr : "", text.len, JSON_FLAGS_READ, &error);

    if (v == NULL)
        snprintf(why, why_size, "line %d, column %d: %s", error.line, error.column, error.text);
    return v;
}

char *
json_print(const json_t *v)
{
    size_t len;
    char *text, *grown;

    if (v == NULL)
        return NULL;
    text = json_dumps(v, JSON_FLAGS_WRITE);
    if (text == NULL)
        return NULL;
    len = strlen(text);
    /* A line's end: the answer is read in terminals. */
    grown = realloc(text, len + 2);
    if (grown == NULL) {
        free(text);
        return NULL;
    }
    memcpy(grown + len, "\n", 2);
    return grown;
}

void
json_put(json_t *object, const char *key, json_t *value)
{
    tassert(json_is_object(object) || object == NULL);
    /* Takes `value` in any case, and copes with NULL: an answer that lacks memory is found in
     * json_print(). */
    json_object_set_new(object, key, value);
}

/* Whatever bytes come from a client or an origin: jansson makes no text of what is not UTF-8,
 * and one bad byte would cost the member. */
json_t *
json_any_text(struct slice text)
{
    size_t n = 0;
    char *safe;
    json_t *v = json_stringn(text.len > 0 ? text.ptr : "", text.len);

    if (v != NULL)
        return v;
    safe = malloc(text.len + 1);
    if (safe == NULL)
        return NULL;
    for (size_t i = 0; i < text.len; i++)
        /* Not UTF-8, as a URL or a field may be: shown in part, rather than not at all. */
        safe[n++] = (unsigned char)text.ptr[i] < 0x80 ? text.ptr[i] : '?';
    v = json_stringn(safe, n);
    free(safe);
    return v;
}

void
json_put_text(json_t *object, const char *key, const char *text)
{
    json_put(object, key, text != NULL ? json_any_text(slice_str(text)) : json_null());
}
