/* proxy_header.h -- the client's address as a proxy in front of us says it: the PROXY protocol.
 *
 * Versions 1 (a line of text) and 2 (binary) of HAProxy's "The PROXY protocol", 2.2.  The header is
 * the first bytes of a connection, before any HTTP.
 *
 * A header that is UNKNOWN or LOCAL, or is about neither TCP over IPv4 nor over IPv6, has no
 * addresses: what is known of the connection itself counts.
 *
 * Reading is strict: what is not exactly a header is an error, at the first byte that shows it.
 * Of the TLVs of version 2 those count that say how the client came by TLS, the name that it asked for and the
 * protocol; the checksum must be right when it is there; others are skipped.
 *
 * Threads: any; pure functions.
 */
#ifndef TARN_PROXY_HEADER_H
#define TARN_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    PROXY_HEADER_MAX = 8192,       /* bytes that are read: a certificate or two among the TLVs */
    PROXY_HEADER_WRITE_MAX = 1024, /* that are written: addresses, and texts of 255 bytes at most */
};

struct conn_secure;

struct proxy_header {
    bool has_addresses;
    uint8_t src[16], dst[16]; /* base/address.h */
    uint16_t src_port, dst_port;
    struct slice tlvs;                /* read: checked; borrowed from the bytes */
    const struct conn_secure *secure; /* to write: borrowed; NULL: the client did not come by TLS */
};

/* How many bytes the header has, > 0, and *out; 0: more are needed; TERR_SYNTAX: it is none. */
int proxy_header_parse(const char *bytes, size_t len, struct proxy_header *out);

/* What the header that was read says of the client's TLS; its texts lie in `text`, of CONN_SECURE_TEXT bytes.
 * The subject of a certificate is there only if the proxy says that it was verified, and of it only the common
 * name is known: CN=joe.  A text that is too long, or has control characters, is left out.  False: it does
 * not say TLS. */
bool proxy_header_secure(const struct proxy_header *ph, struct conn_secure *out, char *text);

/* A header of this version, 1 or 2.  Returns its length.  Where one of the addresses is that of
 * a Unix socket it has none.  `who` NULL: the connection is our own (LOCAL; UNKNOWN in version
 * 1). */
size_t proxy_header_write(
    char out[PROXY_HEADER_WRITE_MAX], unsigned version, const struct proxy_header *who);

#endif
