/* address.c -- network addresses and networks, to text and from it. */
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
    /* As people write them: ::ffff: is how addresses are kept, not how they are known. */
    if (IN6_IS_ADDR_V4MAPPED(&in6))
        address_put_v4(addr + 12, text);
    else if (address_is_unix(addr))
        memcpy(text, "unix", sizeof("unix"));
    else
        inet_ntop(AF_INET6, addr, text, ADDRESS_TEXT_MAX);
}

static const uint8_t address_v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool
address_read(const char *text, size_t len, uint8_t addr[16])
{
    char copy[INET6_ADDRSTRLEN];

    if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    /* ::ffff:192.0.2.1 becomes the same 16 bytes as 192.0.2.1. */
    if (inet_pton(AF_INET6, copy, addr) == 1)
        return true;
    memcpy(addr, address_v4_prefix, sizeof(address_v4_prefix));
    return inet_pton(AF_INET, copy, addr + sizeof(address_v4_prefix)) == 1;
}

/* Is the bit, from the front, set? */
static bool
address_bit(const uint8_t addr[16], unsigned n)
{
    return (addr[n / 8] >> (7 - n % 8) & 1) != 0;
}

bool
address_read_net(const char *text, size_t len, struct address_net *net)
{
    const char *slash = memchr(text, '/', len);
    size_t host = slash != NULL ? (size_t)(slash - text) : len, digits = len - host;
    bool v4 = memchr(text, ':', host) == NULL;
    unsigned most = v4 ? 32 : 128, bits = 0;

    /* All zeros, as a client on a Unix socket has them. */
    if (len == 4 && memcmp(text, "unix", 4) == 0) {
        *net = (struct address_net){.bits = 128};
        return true;
    }
    if (!address_read(text, host, net->addr))
        return false;
    if (slash == NULL)
        bits = most;
    /* The slash counts: one to three digits. */
    else if (digits < 2 || digits > 4)
        return false;
    for (size_t i = 1; i < digits; i++) {
        if (slash[i] < '0' || slash[i] > '9')
            return false;
        bits = bits * 10 + (unsigned)(slash[i] - '0');
    }
    if (bits > most)
        return false;
    net->bits = (uint8_t)(v4 ? bits + 96 : bits);
    for (unsigned n = net->bits; n < 128; n++)
        /* Bits behind the prefix: 10.0.0.1/8 may mean the host or the network, and neither is
         * guessed. */
        if (address_bit(net->addr, n))
            return false;
    return true;
}

bool
address_host_port(struct slice text, struct slice *host, uint16_t *port)
{
    const char *colon = text.len > 0 ? memrchr(text.ptr, ':', text.len) : NULL;
    size_t len = colon != NULL ? (size_t)(colon - text.ptr) : 0;
    unsigned n = 0;

    for (size_t i = len + 1; colon != NULL && i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || n > UINT16_MAX)
            return false;
        n = n * 10 + (unsigned)(text.ptr[i] - '0');
    }
    if (len == 0 || n == 0 || n > UINT16_MAX)
        return false;
    *host = slice_of(text.ptr, len);
    if (len > 2 && text.ptr[0] == '[' && text.ptr[len - 1] == ']')
        *host = slice_of(text.ptr + 1, len - 2);
    *port = (uint16_t)n;
    return true;
}

bool
address_in(const struct address_nets *nets, const uint8_t addr[16])
{
    for (unsigned i = 0; i < nets->n; i++) {
        const struct address_net *net = &nets->nets[i];
        unsigned whole = net->bits / 8, rest = net->bits % 8;

        /* One after the other: such lists are short, and are written by hand. */
        if (memcmp(net->addr, addr, whole) == 0 &&
            (rest == 0 || (net->addr[whole] ^ addr[whole]) >> (8 - rest) == 0))
            return true;
    }
    return false;
}
