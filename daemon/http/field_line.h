/* field_line.h -- fields as lines in bytes: name, ": ", value, CRLF.
 *
 * For what is written on every hit, straight into its place, which is long enough.  Everything else
 * is built as a message (message_out.h).
 */
#ifndef TARN_FIELD_LINE_H
#define TARN_FIELD_LINE_H

#include <stdbool.h>
#include <string.h>

#include "daemon/base/span.h"

/* Where it ends.  `p` is evaluated once: it may be a call that writes. */
#define FIELD_PUT(p, literal) ((char *)mempcpy((p), (literal), sizeof(literal) - 1))
/* The beginning of a line, and what may stand ready made: name, and ": ". */
#define FIELD_NAME(literal)     literal ": "
#define FIELD_BEGIN(p, literal) FIELD_PUT((p), FIELD_NAME(literal))
#define FIELD_END(p)            FIELD_PUT((p), "\r\n")

/* The next line of *rest; false: there are no more. */
static inline bool
field_line_next(struct slice *rest, struct slice *name, struct slice *value)
{
    const char *end, *colon;

    if (rest->len == 0)
        return false;
    end = memchr(rest->ptr, '\r', rest->len);
    colon = memchr(rest->ptr, ':', rest->len);
    if (end == NULL || colon == NULL ||
        colon + 2 > end) /* not a field: what a protocol put there */
        return false;
    *name = slice_of(rest->ptr, (size_t)(colon - rest->ptr));
    *value = slice_of(colon + 2, (size_t)(end - colon - 2));
    *rest = slice_of(end + 2, rest->len - (size_t)(end + 2 - rest->ptr));
    return true;
}

#endif
