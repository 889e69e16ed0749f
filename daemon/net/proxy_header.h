/* proxy_header.h -- the client's address as a proxy in front of us says it: the PROXY protocol.
 *
 * Versions 1 (a line of text) and 2 (binary) of HAProxy's "The PROXY protocol", 2.2.  The header is
 * the first bytes of a connection, before any HTTP.
 *
 * A header that is UNKNOWN or LOCAL, or is about neither TCP over IPv4 nor over IPv6, has no
 * addresses: what is known of the connection itself counts.
 *
 * Reading is strict: what is not exactly a header is an error, at the first byte that shows it.
 * TLVs of version 2 are skipped, except the checksum, which must be right when it is there.
 *
 * Threads: any; pure functions.
 */
#ifndef TARN_PROXY_HEADER_H
#define TARN_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROXY_HEADER_MAX = 8192,      /* bytes that are read: a certificate or two among the TLVs */
    PROXY_HEADER_WRITE_MAX = 112, /* that are written; a line of version 1 has 107 at most */
};

struct proxy_header {
    bool has_addresses;
    uint8_t src[16], dst[16]; /* base/address.h */
    uint16_t src_port, dst_port;
};

/* How many bytes the header has, > 0, and *out; 0: more are needed; TERR_SYNTAX: it is none. */
int proxy_header_parse(const char *bytes, size_t len, struct proxy_header *out);

/* A header of this version, 1 or 2.  Returns its length.  Where one of the addresses is that of
 * a Unix socket it has none.  `who` NULL: the connection is our own (LOCAL; UNKNOWN in version
 * 1). */
size_t proxy_header_write(
    char out[PROXY_HEADER_WRITE_MAX], unsigned version, const struct proxy_header *who);

#endif
