/* address.h -- network addresses as text.
 *
 * An address is 16 bytes: IPv6, IPv4 as ::ffff:a.b.c.d (RFC 4291 2.5.5.2), or zeros for who comes by
 * a Unix socket.
 *
 * Threads: any.
 */
#ifndef TARN_ADDRESS_H
#define TARN_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

#endif
