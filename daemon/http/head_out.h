/* head_out.h -- lines of a head into a buffer, never over its end.
 *
 * Once something does not fit nothing more is written, and head_out_end() tells.
 */
#ifndef TARN_HEAD_OUT_H
#define TARN_HEAD_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

struct head_out {
    char *start, *next, *end;
    bool full;
};

static inline struct head_out
head_out_begin(struct span out)
{
    return (struct head_out){out.ptr, out.ptr, out.ptr + out.len, false};
}

static inline void
head_out_put(struct head_out *o, struct slice s)
{
    if (o->full || s.len > (size_t)(o->end - o->next)) {
        o->full = true;
        return;
    }
    if (s.len > 0)
        memcpy(o->next, s.ptr, s.len);
    o->next += s.len;
}

#define HEAD_OUT_LIT(o, literal) head_out_put((o), SLICE_LIT(literal))

static inline void
head_out_field(struct head_out *o, struct slice name, struct slice value)
{
    tassert_slow(http_token_ok(name) && http_value_ok(value)); /* no CR, LF or NUL of ours */
    head_out_put(o, name);
    HEAD_OUT_LIT(o, ": ");
    head_out_put(o, value);
    HEAD_OUT_LIT(o, "\r\n");
}

static inline void
head_out_number(struct head_out *o, uint64_t n)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    head_out_put(o, slice_of(digits + i, sizeof(digits) - i));
}

/* How many bytes were written, or TERR_LIMIT. */
static inline int
head_out_end(const struct head_out *o)
{
    tassert(o->next >= o->start && o->next <= o->end);
    if (o->full || o->next - o->start > INT32_MAX)
        return TERR_LIMIT;
    return (int)(o->next - o->start);
}

#endif
