/* websocket.c -- the two fields of WebSocket's handshake that prove it. */
#include "daemon/http/websocket.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/limits.h"

#define WEBSOCKET_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum {
    RANDOM_BYTES = 16,
    SHA1_BYTES = 20,
    SHA1_BLOCK = 64,
    ANSWERED = WEBSOCKET_KEY_LEN + sizeof(WEBSOCKET_GUID) - 1, /* bytes that are hashed */
    ANSWERED_BLOCKS = (ANSWERED + 9 + SHA1_BLOCK - 1) / SHA1_BLOCK,
};

static uint32_t
rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

/* RFC 3174 6.1: one block. */
static void
sha1_block(uint32_t h[5], const uint8_t *p)
{
    static const uint32_t k[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (unsigned t = 0; t < 16; t++)
        w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 |
               (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
    for (unsigned t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (unsigned t = 0; t < 80; t++) {
        uint32_t f = t < 20              ? (b & c) | (~b & d)
                     : t >= 40 && t < 60 ? (b & c) | (b & d) | (c & d)
                                         : b ^ c ^ d;
        uint32_t next = rotate(a, 5) + f + e + w[t] + k[t / 20];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

/* RFC 4648 4; 4 characters of each 3 bytes begun. */
static void
base64(const uint8_t *p, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t at = 0; at < len; at += 3) {
        uint32_t three = (uint32_t)p[at] << 16 | (at + 1 < len ? (uint32_t)p[at + 1] << 8 : 0) |
                         (at + 2 < len ? p[at + 2] : 0);

        for (unsigned i = 0; i < 4; i++)
            *out++ = at + i > len ? '=' : digits[three >> (18 - 6 * i) & 63];
    }
}

bool
websocket_key(char out[WEBSOCKET_KEY_LEN])
{
    uint8_t drawn[RANDOM_BYTES];

    if (getrandom(drawn, sizeof(drawn), GRND_NONBLOCK) != (ssize_t)sizeof(drawn))
        return false;
    base64(drawn, sizeof(drawn), out);
    return true;
}

bool
websocket_accept(struct slice key, char out[WEBSOCKET_ACCEPT_LEN])
{
    uint32_t h[] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t text[ANSWERED_BLOCKS * SHA1_BLOCK] = {0}, digest[SHA1_BYTES];

    if (key.len != WEBSOCKET_KEY_LEN)
        return false;
    memcpy(text, key.ptr, key.len);
    memcpy(text + key.len, WEBSOCKET_GUID, sizeof(WEBSOCKET_GUID) - 1);
    text[ANSWERED] = 0x80;
    text[sizeof(text) - 2] = (uint8_t)(ANSWERED * 8 >> 8);
    text[sizeof(text) - 1] = (uint8_t)(ANSWERED * 8 & 255);
    for (unsigned i = 0; i < ANSWERED_BLOCKS; i++)
        sha1_block(h, text + i * SHA1_BLOCK);
    for (unsigned i = 0; i < SHA1_BYTES; i++)
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
    base64(digest, sizeof(digest), out);
    return true;
}
