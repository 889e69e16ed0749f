/* base64.c -- base64 (RFC 4648 4). */
#include "daemon/http/base64.h"

#include <stdint.h>
#include <string.h>

#include "daemon/base/terr.h"

static int
base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    /* strchr() would find the NUL at the end, too. */
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

int
base64_decode(struct slice text, struct span out)
{
    uint32_t bits = 0;
    unsigned n = 0;
    size_t len = 0;

    while (text.len > 0 && text.ptr[text.len - 1] == '=')
        text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int d = base64_digit(text.ptr[i]);

        if (d < 0) /* padding in the middle, too: = is no digit */
            return TERR_SYNTAX;
        bits = bits << 6 | (uint32_t)d;
        n += 6;
        if (n < 8)
            continue;
        if (len == out.len)
            return TERR_LIMIT;
        n -= 8;
        out.ptr[len++] = (char)(bits >> n & 0xff);
    }
    return (int)len;
}
