/* hex.h -- bytes as hexadecimal digits, and back.
 *
 * Threads: any. */
#ifndef TARN_HEX_H
#define TARN_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

/* Its value; -1: it is none.  Capital letters are digits as well. */
static inline int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 2 * len small digits, without a NUL. */
static inline void
hex_put(char *out, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = bytes;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
}

/* hex.len / 2 bytes.  False: it is something else. */
static inline bool
hex_take(void *out, struct slice hex)
{
    uint8_t *to = out;

    if (hex.len % 2 != 0)
        return false;
    for (size_t i = 0; i < hex.len / 2; i++) {
        int high = hex_digit(hex.ptr[2 * i]), low = hex_digit(hex.ptr[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        to[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

#endif
