/* span.h -- a piece of bytes that another object owns.
 *
 * A slice is read-only, a span may be written.  Neither owns anything; how long the
 * bytes stay is documented where one is handed out.
 */
#ifndef TARN_SPAN_H
#define TARN_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct slice {
    const char *ptr;
    size_t len;
};

struct span {
    char *ptr;
    size_t len;
};

#define SLICE_LIT(literal) ((struct slice){"" literal, sizeof(literal) - 1})

static inline struct slice
slice_of(const char *ptr, size_t len)
{
    return (struct slice){ptr, len};
}

static inline struct slice
slice_str(const char *cstr)
{
    return (struct slice){cstr, strlen(cstr)};
}

static inline bool
slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ASCII case folded, as HTTP's tokens and field names want it. */
static inline bool
slice_eq_nocase(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.ptr, b.ptr, a.len) == 0);
}

#endif
