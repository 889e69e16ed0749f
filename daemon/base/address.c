/* address.c -- network addresses as text. */
#include "daemon/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

void
address_text(const uint8_t addr[16], char text[ADDRESS_TEXT_MAX])
{
    struct in6_addr in6;

    memcpy(&in6, addr, sizeof(in6));
    if (IN6_IS_ADDR_V4MAPPED(&in6))
        inet_ntop(AF_INET, addr + 12, text, ADDRESS_TEXT_MAX);
    else if (address_is_unix(addr))
        memcpy(text, "unix", sizeof("unix"));
    else
        inet_ntop(AF_INET6, addr, text, ADDRESS_TEXT_MAX);
}
