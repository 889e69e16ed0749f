/* h2_hpack.h -- integers and strings of field blocks as bytes (RFC 7541 5).
 *
 * Each writes to `p`, which has room, and returns what is behind.
 */
#ifndef TARN_H2_HPACK_H
#define TARN_H2_HPACK_H

#include <stdint.h>

#include "daemon/base/span.h"

enum {
    H2_STRING_PREFIX = 127, /* RFC 7541 5.2: seven bits */
};

/* RFC 7541 5.1; `first` has what stands in front of the prefix. */
static inline char *
h2_put_int(char *p, uint8_t first, unsigned prefix, size_t n)
{
    if (n < prefix) {
        *p = (char)(first | n);
        return p + 1;
    }
    *p++ = (char)(first | prefix);
    for (n -= prefix; n >= 128; n >>= 7)
        *p++ = (char)(n | 128);
    *p++ = (char)n;
    return p;
}

static inline char *
h2_put_string(char *p, struct slice s)
{
    p = h2_put_int(p, 0, H2_STRING_PREFIX, s.len);
    memcpy(p, s.ptr, s.len);
    return p + s.len;
}

#endif
