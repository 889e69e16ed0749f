/* proxy_header.c -- the PROXY protocol's header, read and written. */
#include "daemon/net/proxy_header.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "daemon/base/address.h"
#include "daemon/base/span.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    LINE_MAX_V1 = 107, /* 2.1: the longest line, CR LF included */
    V2_HEAD = 16,      /* signature, version and command, family, length */
    V2_TLV = 3,        /* type, length */
    V2_TLV_CRC32C = 3, /* PP2_TYPE_CRC32C */
};

static const char v2_signature[12] = "\r\n\r\n\0\r\nQUIT\n";
static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* ---- version 1 ---- */

/* Takes the word up to the next space, or the rest. */
static struct slice
v1_word(struct slice *line)
{
    const char *space = memchr(line->ptr, ' ', line->len);
    size_t len = space != NULL ? (size_t)(space - line->ptr) : line->len;
    struct slice word = slice_of(line->ptr, len);
    size_t skip = space != NULL ? len + 1 : len;

    *line = slice_of(line->ptr + skip, line->len - skip);
    return word;
}

/* 2.1: decimal, 0 to 65535, without leading zeros. */
static bool
v1_port(struct slice word, uint16_t *out)
{
    unsigned value = 0;

    if (word.len == 0 || word.len > 5 || (word.len > 1 && word.ptr[0] == '0'))
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] < '0' || word.ptr[i] > '9')
            return false;
        value = value * 10 + (unsigned)(word.ptr[i] - '0');
    }
    *out = (uint16_t)value;
    return value <= UINT16_MAX;
}

/* Of the family that the line names. */
static bool
v1_address(struct slice word, bool v6, uint8_t addr[16])
{
    return (word.len > 0 && memchr(word.ptr, ':', word.len) != NULL) == v6 &&
           address_read(word.ptr, word.len, addr);
}

/* Behind "PROXY ", without CR LF.  0 or TERR_SYNTAX. */
static int
v1_line(struct slice line, struct proxy_header *out)
{
    struct slice family = v1_word(&line), src, dst, src_port;
    bool v6 = slice_eq(family, SLICE_LIT("TCP6"));

    if (slice_eq(family, SLICE_LIT("UNKNOWN")))
        return 0; /* 2.1: whatever stands behind it is ignored */
    if (!v6 && !slice_eq(family, SLICE_LIT("TCP4")))
        return TERR_SYNTAX;
    src = v1_word(&line);
    dst = v1_word(&line);
    src_port = v1_word(&line);
    if (!v1_address(src, v6, out->src) || !v1_address(dst, v6, out->dst) ||
        !v1_port(src_port, &out->src_port) || !v1_port(line, &out->dst_port))
        return TERR_SYNTAX;
    out->has_addresses = true;
    return 0;
}

/* From the first byte on: as soon as the bytes cannot be a header any more it fails, and a line
 * that has no end within 107 bytes is none (2.1). */
static int
v1_parse(const char *bytes, size_t len, struct proxy_header *out)
{
    static const char begin[6] = "PROXY ";
    size_t n = len < sizeof(begin) ? len : sizeof(begin);
    const char *end;

    if (memcmp(bytes, begin, n) != 0)
        return TERR_SYNTAX;
    end = memchr(bytes, '\n', len < LINE_MAX_V1 ? len : LINE_MAX_V1);
    if (end == NULL)
        return len < LINE_MAX_V1 ? 0 : TERR_SYNTAX;
    if (end[-1] != '\r' || memchr(bytes, '\r', (size_t)(end - bytes)) != end - 1)
        return TERR_SYNTAX;
    n = (size_t)(end - 1 - bytes) - sizeof(begin);
    if (v1_line(slice_of(bytes + sizeof(begin), n), out) != 0)
        return TERR_SYNTAX;
    return (int)(end + 1 - bytes);
}

/* ---- version 2 ---- */

static uint16_t
v2_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

/* Castagnoli's polynomial, reflected (RFC 3720 B.4); bit by bit, for it is once in a connection.
 * The four bytes at `hole` count as zeros.
 * 2.2.3: the sender computes it over the whole header with these four bytes zero. */
static uint32_t
v2_crc32c(const uint8_t *p, size_t len, size_t hole)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= i >= hole && i < hole + 4 ? 0 : p[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* 2.2: TLVs fill what is left of the header. */
static bool
v2_tlvs_ok(const uint8_t *head, size_t at, size_t len)
{
    while (at < len) {
        size_t value;

        if (len - at < V2_TLV)
            return false;
        value = v2_u16(head + at + 1);
        if (value > len - at - V2_TLV)
            return false;
        if (head[at] == V2_TLV_CRC32C) {
            const uint8_t *p = head + at + V2_TLV;

            if (value != 4 || ((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
                                  p[3]) != v2_crc32c(head, len, at + V2_TLV))
                return false;
        }
        at += V2_TLV + value;
    }
    return true;
}

static void
v2_v4(uint8_t addr[16], const uint8_t *from)
{
    memcpy(addr, v4_prefix, sizeof(v4_prefix));
    memcpy(addr + sizeof(v4_prefix), from, 4);
}

/* Of a proxied connection: the addresses (the family says their size), then TLVs. */
static int
v2_block(const uint8_t *head, size_t len, struct proxy_header *out)
{
    const uint8_t *p = head + V2_HEAD;
    size_t size;

    switch (head[13]) {
    case 0x00: /* UNSPEC: nothing of it means anything */
        return 0;
    case 0x11:
    case 0x12: /* TCP and UDP over IPv4 */
        size = 12;
        break;
    case 0x21:
    case 0x22: /* over IPv6 */
        size = 36;
        break;
    case 0x31:
    case 0x32: /* Unix sockets */
        size = 216;
        break;
    default:
        return TERR_SYNTAX; /* 2.2: to be rejected by receivers */
    }
    if (len - V2_HEAD < size || !v2_tlvs_ok(head, V2_HEAD + size, len))
        return TERR_SYNTAX;
    if (head[13] == 0x11) {
        v2_v4(out->src, p);
        v2_v4(out->dst, p + 4);
        out->src_port = v2_u16(p + 8);
        out->dst_port = v2_u16(p + 10);
        out->has_addresses = true;
    } else if (head[13] == 0x21) {
        memcpy(out->src, p, 16);
        memcpy(out->dst, p + 16, 16);
        out->src_port = v2_u16(p + 32);
        out->dst_port = v2_u16(p + 34);
        out->has_addresses = true;
    }
    return 0;
}

/* 2.2: the signature was chosen so that no known
 * protocol begins with it.  A byte that differs decides at once. */
static int
v2_parse(const char *bytes, size_t len, struct proxy_header *out)
{
    const uint8_t *head = (const uint8_t *)bytes;
    size_t n = len < sizeof(v2_signature) ? len : sizeof(v2_signature), whole;

    if (memcmp(bytes, v2_signature, n) != 0)
        return TERR_SYNTAX;
    if (len > 12 && head[12] != 0x20 && head[12] != 0x21)
        return TERR_SYNTAX; /* version 2, LOCAL or PROXY */
    if (len < V2_HEAD)
        return 0;
    whole = V2_HEAD + (size_t)v2_u16(head + 14);
    if (whole > PROXY_HEADER_MAX)
        return TERR_SYNTAX;
    if (len < whole)
        return 0;
    /* LOCAL (0x20), a proxy's health check: the block is skipped, and the connection's own
     * addresses count (2.2). */
    if (head[12] == 0x21 && v2_block(head, whole, out) != 0)
        return TERR_SYNTAX;
    return (int)whole;
}

int
proxy_header_parse(const char *bytes, size_t len, struct proxy_header *out)
{
    *out = (struct proxy_header){.has_addresses = false};
    if (len == 0)
        return 0;
    return bytes[0] == 'P' ? v1_parse(bytes, len, out) : v2_parse(bytes, len, out);
}

/* ---- writing ---- */

static bool
address_is_v4(const uint8_t addr[16])
{
    return memcmp(addr, v4_prefix, sizeof(v4_prefix)) == 0;
}

/* Of version 1: TCP6 has both addresses in IPv6's form. */
static void
v1_text(const uint8_t addr[16], bool v4, char text[INET6_ADDRSTRLEN])
{
    if (v4)
        inet_ntop(AF_INET, addr + 12, text, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, addr, text, INET6_ADDRSTRLEN);
}

static size_t
v1_write(char out[PROXY_HEADER_WRITE_MAX], const struct proxy_header *who)
{
    char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
    bool v4 = who != NULL && address_is_v4(who->src) && address_is_v4(who->dst);
    int n;

    if (who == NULL) {
        n = snprintf(out, PROXY_HEADER_WRITE_MAX, "PROXY UNKNOWN\r\n");
    } else {
        v1_text(who->src, v4, src);
        v1_text(who->dst, v4, dst);
        n = snprintf(out, PROXY_HEADER_WRITE_MAX, "PROXY TCP%c %s %s %u %u\r\n", v4 ? '4' : '6',
            src, dst, who->src_port, who->dst_port);
    }
    tassert(n > 0 && n <= LINE_MAX_V1);
    return (size_t)n;
}

static void
v2_put_u16(char *p, uint16_t value)
{
    p[0] = (char)(value >> 8);
    p[1] = (char)value;
}

/* UNSPEC without addresses.  With `local` the receiver uses the connection's own. */
static size_t
v2_write(char out[PROXY_HEADER_WRITE_MAX], const struct proxy_header *who, bool local)
{
    bool v4 = who != NULL && address_is_v4(who->src) && address_is_v4(who->dst);
    size_t from = v4 ? 12 : 0, size = v4 ? 4 : 16;
    size_t block = who != NULL ? 2 * size + 4 : 0;
    char *p = out + V2_HEAD;

    memcpy(out, v2_signature, sizeof(v2_signature));
    out[12] = local ? 0x20 : 0x21;
    out[13] = who == NULL ? 0x00 : v4 ? 0x11 : 0x21;
    v2_put_u16(out + 14, (uint16_t)block);
    if (who != NULL) {
        memcpy(p, who->src + from, size);
        memcpy(p + size, who->dst + from, size);
        v2_put_u16(p + 2 * size, who->src_port);
        v2_put_u16(p + 2 * size + 2, who->dst_port);
    }
    return V2_HEAD + block;
}

size_t
proxy_header_write(
    char out[PROXY_HEADER_WRITE_MAX], unsigned version, const struct proxy_header *who)
{
    bool local = who == NULL;

    tassert(version == 1 || version == 2);
    if (who != NULL && (address_is_unix(who->src) || address_is_unix(who->dst)))
        who = NULL; /* nothing to tell */
    return version == 1 ? v1_write(out, who) : v2_write(out, who, local);
}
