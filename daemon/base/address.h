/* address.h -- network addresses as text.
 *
 * An address is 16 bytes: IPv6, IPv4 as ::ffff:a.b.c.d (RFC 4291 2.5.5.2), or zeros for
 * a client on a Unix socket.
 *
 * Threads: any.
 */
#ifndef TARN_ADDRESS_H
#define TARN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/span.h"

enum {
    ADDRESS_TEXT_MAX = 40
};

static inline bool
address_is_unix(const uint8_t addr[16])
{
    static const uint8_t none[16];

    return memcmp(addr, none, sizeof(none)) == 0;
}

/* "192.0.2.1", "2001:db8::1", or "unix". */
void address_text(const uint8_t addr[16], char text[ADDRESS_TEXT_MAX]);

/* Addresses that begin with these bits: of the 16 bytes, so those of IPv4 have 96 more. */
struct address_net {
    uint8_t addr[16];
    uint8_t bits; /* 0 to 128 */
};

struct address_nets {
    const struct address_net *nets; /* borrowed */
    unsigned n;
};

/* "192.0.2.1", "2001:db8::1".  False: it is none. */
bool address_read(const char *text, size_t len, uint8_t addr[16]);
/* The same, "10.0.0.0/8", "2001:db8::/32" or "unix".  False: it is none, or bits behind the
 * prefix are set. */
bool address_read_net(const char *text, size_t len, struct address_net *net);
/* "10.0.0.1:8089", "[::1]:8089", "a.test:8089": in two, the host borrowed and without brackets (RFC 3986 3.2.2).
 * False: a part is missing, or the port is none. */
bool address_host_port(struct slice text, struct slice *host, uint16_t *port);
bool address_in(const struct address_nets *nets, const uint8_t addr[16]);

#endif
