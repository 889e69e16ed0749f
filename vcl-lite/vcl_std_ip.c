/* vcl_std_ip.c -- std.ip and std.port.
 *
 *    "192.0.2.1"  "192.0.2.1:80"  "192.0.2.1 80"  "2001:db8::1"  "[2001:db8::1]:http"
 */
#include "vcl-lite/vcl_machine.h"

#include <arpa/inet.h>

static bool
vcl_port_parse(struct slice s, uint16_t *out)
{
    unsigned port = 0;

    if (slice_eq(s, SLICE_LIT("http")) || slice_eq(s, SLICE_LIT("https"))) {
        *out = s.len == 4 ? 80 : 443;
        return true;
    }
    /* Five digits do not overflow. */
    if (s.len == 0 || s.len > 5)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = s.ptr[i] - (unsigned)'0';

        if (digit > 9)
            return false;
        port = port * 10 + digit;
    }
    *out = (uint16_t)port;
    return port <= UINT16_MAX;
}

/* inet_pton() wants a NUL. */
static bool
vcl_address_parse(struct slice s, struct vcl_ip *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char text[INET6_ADDRSTRLEN];

    /* Longer than any address: it need not be copied to know. */
    if (s.len >= sizeof(text) || memchr(s.ptr, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    memcpy(out->addr, mapped, sizeof(mapped));
    if (inet_pton(AF_INET, text, out->addr + 12) == 1)
        out->is_v4 = true;
    else if (inet_pton(AF_INET6, text, out->addr) != 1)
        return false;
    else /* ::ffff:192.0.2.1 is an IPv6 address to an acl, as in Varnish */
        out->is_v4 = false;
    return true;
}

/* An IPv6 address that a port follows stands in brackets. */
bool
vcl_endpoint_parse(struct slice s, struct vcl_ip *out)
{
    const char *at;
    struct slice host = s, port;

    if (s.len == 0)
        return false;
    if (s.ptr[0] == '[') {
        at = memchr(s.ptr, ']', s.len);
        if (at == NULL)
            return false;
        host = slice_of(s.ptr + 1, (size_t)(at - s.ptr) - 1);
        at++;
    } else {
        at = memchr(s.ptr, ' ', s.len);
        if (at == NULL)
            at = memchr(s.ptr, ':', s.len);
        /* A second colon: then the first is no port's. */
        if (at == NULL || memchr(at + 1, ':', (size_t)(s.ptr + s.len - at) - 1) != NULL)
            at = s.ptr + s.len; /* no port, or an IPv6 address */
        host.len = (size_t)(at - s.ptr);
    }
    port = slice_of(at, (size_t)(s.ptr + s.len - at));
    if (port.len > 0 && ((at[0] != ':' && at[0] != ' ') ||
                            !vcl_port_parse(slice_of(at + 1, port.len - 1), &out->port)))
        return false;
    return vcl_address_parse(host, out);
}

/* s, fallback, resolve, p.  Names are never looked up: that would wait. */
int
vcl_std_ip(struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    /* Varnish's default. */
    struct vcl_ip ip = {.port = 80}, *kept;

    if ((present & 0x08) != 0 && !vcl_port_parse(vcl_value_slice(&args[3]), &ip.port))
        return vcl_std_fallback(r, "ip", args, present, out);
    if (!vcl_endpoint_parse(vcl_trim(vcl_value_slice(&args[0])), &ip))
        return vcl_std_fallback(r, "ip", args, present, out);
    /* In the run's memory: the value is a pointer. */
    kept = (struct vcl_ip *)(void *)vcl_run_alloc(r, sizeof(ip));
    if (kept == NULL)
        return TERR_POLICY;
    *kept = ip;
    out->ip = kept;
    return 0;
}

int
vcl_std_port(
    struct vcl_run *r, const struct vcl_value *args, unsigned present, struct vcl_value *out)
{
    (void)r;
    (void)present;
    out->i = args[0].ip != NULL ? args[0].ip->port : 0;
    return 0;
}
