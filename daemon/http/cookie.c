/* cookie.c -- the pairs of a Cookie field. */
#include "daemon/http/cookie.h"

#include "daemon/http/token.h"

bool
cookie_next(struct slice *rest, struct slice *pair)
{
    while (rest->len > 0) {
        /* Without regard to quotes: no value has a ; in it, not even a quoted one (RFC 6265
         * 4.1.1). */
        const char *end = memchr(rest->ptr, ';', rest->len);
        size_t len = end != NULL ? (size_t)(end - rest->ptr) : rest->len;

        *pair = http_trim(slice_of(rest->ptr, len));
        *rest = end != NULL ? slice_of(end + 1, rest->len - len - 1) : slice_of(NULL, 0);
        if (pair->len > 0)
            return true;
    }
    return false;
}

struct slice
cookie_name(struct slice pair)
{
    const char *semicolon = memchr(pair.ptr, ';', pair.len);
    size_t len = semicolon != NULL ? (size_t)(semicolon - pair.ptr) : pair.len;
    const char *equal = len > 0 ? memchr(pair.ptr, '=', len) : NULL;

    /* Without = it is a value without a name, as browsers have it. */
    return equal == NULL ? slice_of(pair.ptr, 0)
                         : http_trim(slice_of(pair.ptr, (size_t)(equal - pair.ptr)));
}
