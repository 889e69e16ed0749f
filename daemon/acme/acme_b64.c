/* acme_b64.c -- base64url without padding. */
#include "daemon/acme/acme_b64.h"

#include <stdlib.h>

#include "daemon/base/terr.h"

static const char b64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* RFC 4648 5, without "=": as JOSE has it (RFC 7515 2). OpenSSL's own base64 has the other alphabet, pads, and
 * breaks lines. */
void
acme_b64_put(char *out, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    /* Older bits leave `bits` at its upper end, and are not looked at again. */
    unsigned bits = 0, n = 0; /* those of `bits` that are not written yet */

    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | p[i];
        for (n += 8; n >= 6; n -= 6)
            *out++ = b64_alphabet[bits >> (n - 6) & 63];
    }
    if (n > 0)
        *out++ = b64_alphabet[bits << (6 - n) & 63];
    *out = '\0';
}

char *
acme_b64(const void *bytes, size_t len)
{
    char *text = malloc(ACME_B64_SIZE(len));

    if (text != NULL)
        acme_b64_put(text, bytes, len);
    return text;
}

int
acme_b64_read(struct slice text, void *out, size_t room)
{
    unsigned char *p = out;
    unsigned bits = 0, n = 0;
    size_t used = 0;

    for (size_t i = 0; i < text.len; i++) {
        /* No "=", no white space, no "+" or "/": a reader of two spellings could be given one that was not checked. */
        const char *at = text.ptr[i] != '\0' ? strchr(b64_alphabet, text.ptr[i]) : NULL;

        if (at == NULL)
            return TERR_SYNTAX;
        bits = bits << 6 | (unsigned)(at - b64_alphabet);
        n += 6;
        if (n < 8)
            continue;
        n -= 8;
        if (used == room)
            return TERR_LIMIT;
        p[used++] = (unsigned char)(bits >> n);
    }
    /* A text has one meaning: what no byte uses is zero, and less than a letter's worth (RFC 4648 3.5). */
    if (n >= 6 || (bits & ((1u << n) - 1)) != 0)
        return TERR_SYNTAX;
    return (int)used;
}
