/* proxy_header.c -- the PROXY protocol's header, read and written. */
#include "daemon/net/proxy_header.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "daemon/base/address.h"
#include "daemon/base/span.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/conn_server.h"

enum {
    LINE_MAX_V1 = 107, /* 2.1: the longest line, CR LF included */
    V2_HEAD = 16,      /* signature, version and command, family, length */
    V2_TLV = 3,        /* type, length */
    V2_TLV_ALPN = 1,   /* PP2_TYPE_ALPN, and so on */
    V2_TLV_AUTHORITY = 2,
    V2_TLV_CRC32C = 3,
    V2_TLV_SSL = 0x20,
    V2_SSL_VERSION = 0x21,
    V2_SSL_CN = 0x22,
    V2_SSL_CIPHER = 0x23,
    V2_SSL_HEAD = 5, /* flags, verify */
    V2_CLIENT_SSL = 1,
    V2_CLIENT_CERT_CONN = 2, /* a certificate came on this connection; in its TLS session */
    V2_CLIENT_CERT_SESS = 4,
    V2_TEXT_MAX = 255,   /* of a text that is read or written */
    V2_SECURE_MAX = 896, /* bytes of all TLVs that are written */
};
_Static_assert(V2_HEAD + 36 + V2_SECURE_MAX <= PROXY_HEADER_WRITE_MAX, "a header fits");

#define HEX_DIGITS "0123456789abcdefABCDEF"

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

/* The protocol's numbers are big-endian, and need not be aligned. */
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

/* Takes the first TLV off `left`.  1; 0: there is none; -1: it is longer than what is left. */
static int
v2_tlv_next(struct slice *left, unsigned *type, struct slice *value)
{
    const uint8_t *p = (const uint8_t *)left->ptr;
    size_t len;

    if (left->len == 0)
        return 0;
    if (left->len < V2_TLV)
        return -1;
    len = v2_u16(p + 1);
    if (len > left->len - V2_TLV)
        return -1;
    *type = p[0];
    *value = slice_of(left->ptr + V2_TLV, len);
    *left = slice_of(left->ptr + V2_TLV + len, left->len - V2_TLV - len);
    return 1;
}

/* 2.2.6: TLVs again, behind flags and the result of verifying. */
static bool
v2_ssl_ok(struct slice ssl)
{
    struct slice value;
    unsigned type;
    int rc;

    if (ssl.len < V2_SSL_HEAD)
        return false;
    ssl = slice_of(ssl.ptr + V2_SSL_HEAD, ssl.len - V2_SSL_HEAD);
    while ((rc = v2_tlv_next(&ssl, &type, &value)) > 0)
        continue;
    return rc == 0;
}

/* 2.2: TLVs fill what is left of the header. */
static bool
v2_tlvs_ok(const uint8_t *head, size_t at, size_t len)
{
    struct slice left = slice_of((const char *)head + at, len - at), value;
    unsigned type;
    int rc;

    while ((rc = v2_tlv_next(&left, &type, &value)) > 0) {
        const uint8_t *p = (const uint8_t *)value.ptr;

        if (type == V2_TLV_SSL && !v2_ssl_ok(value))
            return false;
        if (type == V2_TLV_CRC32C &&
            (value.len != 4 || ((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
                                   p[3]) != v2_crc32c(head, len, (size_t)(p - head))))
            return false;
    }
    return rc == 0;
}

static void
v2_v4(uint8_t addr[16], const uint8_t *from)
{
    memcpy(addr, v4_prefix, sizeof(v4_prefix));
    memcpy(addr + sizeof(v4_prefix), from, 4);
}

/* Of a proxied connection: the addresses (the family says their size), then TLVs.
 * A datagram's (0x12, 0x22) and a Unix socket's addresses are skipped over, not refused: the
 * connection's own count then, as with UNSPEC. */
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
    out->tlvs = slice_of((const char *)p + size, len - V2_HEAD - size);
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

/* Called with all bytes from the first on, each time more come; nothing is kept between calls.
 * `out` is good only when the answer is above 0. */
int
proxy_header_parse(const char *bytes, size_t len, struct proxy_header *out)
{
    *out = (struct proxy_header){.has_addresses = false};
    if (len == 0)
        return 0;
    return bytes[0] == 'P' ? v1_parse(bytes, len, out) : v2_parse(bytes, len, out);
}

/* ---- what it says of TLS ---- */

/* The first of this type; empty: there is none. */
static struct slice
v2_tlv_find(struct slice tlvs, unsigned wanted)
{
    struct slice value;
    unsigned type;

    while (v2_tlv_next(&tlvs, &type, &value) > 0)
        if (type == wanted)
            return value;
    return slice_of(NULL, 0);
}

/* Copied with a NUL; moves *at behind it.  "": it cannot be shown, or does not fit. */
static const char *
v2_text(char **at, const char *end, struct slice value, bool lower)
{
    char *to = *at;

    if (value.len == 0 || value.len > V2_TEXT_MAX || value.len >= (size_t)(end - to))
        return "";
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];

        if (c < 0x20 || c == 0x7f)
            return "";
        to[i] = (char)(lower && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    to[value.len] = '\0';
    *at = to + value.len + 1;
    return to;
}

/* "CN=joe", with what RFC 4514 2.4 escapes: a policy compares it with subjects that we read. */
static const char *
v2_subject(char **at, const char *end, struct slice cn)
{
    char text[3 + 2 * V2_TEXT_MAX], *to = stpcpy(text, "CN=");

    if (cn.len == 0 || cn.len > V2_TEXT_MAX)
        return "";
    for (size_t i = 0; i < cn.len; i++) {
        char c = cn.ptr[i];
        bool at_end = i == 0 || i + 1 == cn.len;

        if ((c != '\0' && strchr("\"+,;<>\\", c) != NULL) || (i == 0 && c == '#') ||
            (at_end && c == ' '))
            *to++ = '\\';
        *to++ = c;
    }
    return v2_text(at, end, slice_of(text, (size_t)(to - text)), false);
}

/* Only after the TLVs were checked as a whole (v2_tlvs_ok): lengths are believed here.  `text`
 * has CONN_SECURE_TEXT bytes and must live as long as *out. */
bool
proxy_header_secure(const struct proxy_header *ph, struct conn_secure *out, char *text)
{
    struct slice ssl = v2_tlv_find(ph->tlvs, V2_TLV_SSL), more;
    char *at = text;
    const char *end = text + CONN_SECURE_TEXT;
    const uint8_t *p = (const uint8_t *)ssl.ptr;
    bool verified;

    if (ssl.len == 0 || (p[0] & V2_CLIENT_SSL) == 0)
        return false;
    more = slice_of(ssl.ptr + V2_SSL_HEAD, ssl.len - V2_SSL_HEAD);
    verified = (p[1] | p[2] | p[3] | p[4]) == 0 &&
               (p[0] & (V2_CLIENT_CERT_CONN | V2_CLIENT_CERT_SESS)) != 0;
    *out = (struct conn_secure){
        .version = v2_text(&at, end, v2_tlv_find(more, V2_SSL_VERSION), false),
        .cipher = v2_text(&at, end, v2_tlv_find(more, V2_SSL_CIPHER), false),
        .server_name = v2_text(&at, end, v2_tlv_find(ph->tlvs, V2_TLV_AUTHORITY), true),
        .protocol = v2_text(&at, end, v2_tlv_find(ph->tlvs, V2_TLV_ALPN), false),
        .client_subject = "",
        .client_issuer = "",
        .client_serial = "",
        .client_fingerprint = "",
        /* The certificate is the session's: that one goes on. */
        .resumed = (p[0] & (V2_CLIENT_CERT_CONN | V2_CLIENT_CERT_SESS)) == V2_CLIENT_CERT_SESS,
    };
    if (verified)
        out->client_subject = v2_subject(&at, end, v2_tlv_find(more, V2_SSL_CN));
    return true;
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

/* RFC 4291 2.2: an IPv4 address beside an IPv6 one is written as ::ffff:a.b.c.d; a line of
 * version 1 has one family. */
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

static char *
v2_put_tlv(char *p, unsigned type, struct slice value)
{
    if (value.len == 0 || value.len > V2_TEXT_MAX)
        return p;
    p[0] = (char)type;
    v2_put_u16(p + 1, (uint16_t)value.len);
    return mempcpy(p + V2_TLV, value.ptr, value.len);
}

/* The common name of a subject by RFC 2253, without its escapes.  Its length; 0: it has none. */
static size_t
secure_common_name(const char *subject, char out[V2_TEXT_MAX])
{
    const char *p = subject;
    size_t n = 0;

    /* Parts of a name stand between commas; a comma in one has a backslash. */
    while (strncmp(p, "CN=", 3) != 0) {
        for (; *p != ',' && *p != '+' && *p != '\0'; p++)
            if (*p == '\\' && p[1] != '\0')
                p++;
        if (*p++ == '\0')
            return 0;
    }
    for (p += 3; *p != ',' && *p != '+' && *p != '\0' && n < V2_TEXT_MAX; p++) {
        unsigned byte;

        if (*p == '\\' && sscanf(p + 1, "%2x", &byte) == 1 && strspn(p + 1, HEX_DIGITS) >= 2) {
            out[n++] = (char)byte;
            p += 2;
            continue;
        }
        if (*p == '\\' && p[1] != '\0')
            p++;
        out[n++] = *p;
    }
    return n;
}

/* Without the common name, which has its bound: five TLVs, flags, and texts that are short in what we
 * read ourselves. */
static bool
secure_fits(const struct conn_secure *s)
{
    return 6 * V2_TLV + V2_SSL_HEAD + V2_TEXT_MAX + strlen(s->protocol) + strlen(s->server_name) +
               strlen(s->version) + strlen(s->cipher) <=
           V2_SECURE_MAX;
}

/* The length of the SSL TLV is known at its end, so it is written last, in front. */
static char *
v2_put_secure(char *p, const struct conn_secure *s)
{
    bool has_cert = s->client_subject[0] != '\0' || s->client_fingerprint[0] != '\0';
    char cn[V2_TEXT_MAX], *ssl;

    p = v2_put_tlv(p, V2_TLV_ALPN, slice_str(s->protocol));
    p = v2_put_tlv(p, V2_TLV_AUTHORITY, slice_str(s->server_name));
    ssl = p;
    p += V2_TLV;
    memset(p, 0, V2_SSL_HEAD);
    p[0] = (char)(V2_CLIENT_SSL | (has_cert ? V2_CLIENT_CERT_SESS : 0) |
                  (has_cert && !s->resumed ? V2_CLIENT_CERT_CONN : 0));
    p[4] = has_cert ? 0 : 1; /* 2.2.6: 0 if it was verified, which every certificate here was */
    p += V2_SSL_HEAD;
    p = v2_put_tlv(p, V2_SSL_VERSION, slice_str(s->version));
    p = v2_put_tlv(p, V2_SSL_CIPHER, slice_str(s->cipher));
    if (has_cert)
        p = v2_put_tlv(p, V2_SSL_CN, slice_of(cn, secure_common_name(s->client_subject, cn)));
    ssl[0] = V2_TLV_SSL;
    v2_put_u16(ssl + 1, (uint16_t)(p - ssl - V2_TLV));
    return p;
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
    if (who != NULL) {
        memcpy(p, who->src + from, size);
        memcpy(p + size, who->dst + from, size);
        v2_put_u16(p + 2 * size, who->src_port);
        v2_put_u16(p + 2 * size + 2, who->dst_port);
    }
    p += block;
    if (who != NULL && who->secure != NULL && secure_fits(who->secure))
        p = v2_put_secure(p, who->secure);
    v2_put_u16(out + 14, (uint16_t)(p - out - V2_HEAD));
    return (size_t)(p - out);
}

/* NULL says that the connection is our own (a probe): LOCAL in version 2, UNKNOWN in version 1,
 * which has no other word for it. */
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
