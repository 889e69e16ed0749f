/* address.c -- network addresses as text. */
#include "daemon/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* libc's goes through printf, at 1,700 instructions an address, and hits may need one. */
static char *
address_put_byte(char *p, unsigned byte)
{
    if (byte >= 100)
        *p++ = (char)('0' + byte / 100);
    if (byte >= 10)
        *p++ = (char)('0' + byte / 10 % 10);
    *p++ = (char)('0' + byte % 10);
    return p;
}

static void
address_put_v4(const uint8_t addr[4], char *p)
{
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0)
            *p++ = '.';
        p = address_put_byte(p, addr[i]);
    }
    *p = '\0';
}

void
address_text(const uint8_t addr[16], char text[ADDRESS_TEXT_MAX])
{
    struct in6_addr in6;

    memcpy(&in6, addr, sizeof(in6));
    if (IN6_IS_ADDR_V4MAPPED(&in6))
        address_put_v4(addr + 12, text);
    else if (address_is_unix(addr))
        memcpy(text, "unix", sizeof("unix"));
    else
        inet_ntop(AF_INET6, addr, text, ADDRESS_TEXT_MAX);
}
