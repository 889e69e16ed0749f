/* uri.c -- request targets and authorities. */
#include "daemon/http/uri.h"

#include <arpa/inet.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"

static const struct {
    const char *name;
    struct slice prefix;
    uint16_t port;
} http_schemes[] = {
    [HTTP_SCHEME_HTTP] = {"http", {"http://", 7}, 80},
    [HTTP_SCHEME_HTTPS] = {"https", {"https://", 8}, 443},
};

const char *
http_scheme_name(enum http_scheme s)
{
    tassert(s == HTTP_SCHEME_HTTP || s == HTTP_SCHEME_HTTPS);
    return http_schemes[s].name;
}

uint16_t
http_scheme_port(enum http_scheme s)
{
    tassert(s == HTTP_SCHEME_HTTP || s == HTTP_SCHEME_HTTPS);
    return http_schemes[s].port;
}

/* The length of "[IPv6]" at the start, or TERR_SYNTAX.  IPvFuture and zones are refused. */
static int
http_ip_literal(struct slice text)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *end = memchr(text.ptr, ']', text.len);
    size_t len;

    if (end == NULL)
        return TERR_SYNTAX;
    len = (size_t)(end - text.ptr) - 1;
    if (len >= sizeof(address))
        return TERR_SYNTAX;
    memcpy(address, text.ptr + 1, len);
    address[len] = '\0';
    if (memchr(address, '\0', len) != NULL || inet_pton(AF_INET6, address, &parsed) != 1)
        return TERR_SYNTAX;
    return (int)len + 2;
}

/* The length of the host name at the start, or TERR_SYNTAX.  Narrower than RFC 3986's
 * reg-name: no escapes (two spellings of one name), no sub-delims (a "," would be a list of
 * hosts), no empty labels (dropping a trailing dot must leave a name without one). */
static int
http_host_name(struct slice text)
{
    size_t i;

    for (i = 0; i < text.len && text.ptr[i] != ':'; i++) {
        if (!http_char_is(text.ptr[i], HTTP_C_NAME) || i == HTTP_HOST_MAX)
            return TERR_SYNTAX;
        if (text.ptr[i] == '.' && (i == 0 || text.ptr[i - 1] == '.'))
            return TERR_SYNTAX;
    }
    return i == 0 ? TERR_SYNTAX : (int)i;
}

int
http_authority_parse(struct slice text, struct http_authority *out)
{
    struct slice port;
    uint64_t number = 0;
    int len;

    if (text.len == 0)
        return TERR_SYNTAX;
    len = text.ptr[0] == '[' ? http_ip_literal(text) : http_host_name(text);
    if (len < 0)
        return len;
    port = slice_of(text.ptr + len, text.len - (size_t)len);
    if (port.len > 0 && port.ptr[0] != ':')
        return TERR_SYNTAX;
    if (port.len > 1) { /* "h:" means the scheme's port, RFC 3986 3.2.3 */
        if (http_parse_decimal(slice_of(port.ptr + 1, port.len - 1), &number) < 0)
            return TERR_SYNTAX;
        if (number > UINT16_MAX)
            return TERR_SYNTAX;
    }
    out->host = slice_of(text.ptr, (size_t)len);
    out->port = (uint16_t)number;
    out->has_port = port.len > 1;
    return 0;
}

static size_t
http_write_port(uint16_t port, char *out)
{
    char digits[5];
    size_t n = 0, i;

    do {
        digits[n++] = (char)('0' + port % 10);
        port /= 10;
    } while (port > 0);
    out[0] = ':';
    for (i = 0; i < n; i++)
        out[1 + i] = digits[n - 1 - i];
    return n + 1;
}

int
http_authority_normal(struct slice text, enum http_scheme scheme, struct span out)
{
    struct http_authority a;
    size_t i, len;
    int err = http_authority_parse(text, &a);

    if (err < 0)
        return err;
    if (a.host.ptr[a.host.len - 1] == '.')
        a.host.len--;
    if (out.len < a.host.len + 6)
        return TERR_LIMIT;
    for (i = 0; i < a.host.len; i++) {
        char c = a.host.ptr[i];

        out.ptr[i] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
    }
    len = a.host.len;
    if (a.has_port && a.port != http_scheme_port(scheme))
        len += http_write_port(a.port, out.ptr + len);
    tassert(len > 0 && len <= HTTP_AUTHORITY_MAX);
    return (int)len;
}

/* http://host/path: sets path and host, or TERR_SYNTAX. */
static int
http_target_absolute(struct http_head *h, enum http_scheme *scheme)
{
    struct slice target = http_slice(h, h->target_off, h->target_len);
    enum http_scheme s = HTTP_SCHEME_HTTP;
    struct http_authority a;
    size_t start, end;

    if (target.len > 4 && (target.ptr[4] == 's' || target.ptr[4] == 'S'))
        s = HTTP_SCHEME_HTTPS;
    start = http_schemes[s].prefix.len;
    if (target.len < start || !slice_eq_nocase(slice_of(target.ptr, start), http_schemes[s].prefix))
        return TERR_SYNTAX;
    for (end = start; end < target.len && target.ptr[end] != '/'; end++) {
        /* "http://h?x": some read a query here, some a host. */
        if (target.ptr[end] == '?')
            return TERR_SYNTAX;
    }
    if (http_authority_parse(slice_of(target.ptr + start, end - start), &a) < 0)
        return TERR_SYNTAX;
    h->host_off = (uint16_t)(h->target_off + start);
    h->host_len = (uint16_t)(end - start);
    h->path_off = (uint16_t)(h->target_off + end);
    h->path_len = (uint16_t)(target.len - end);
    *scheme = s;
    return 0;
}

/* The Host field into host_off and host_len, or TERR_SYNTAX (RFC 9112 3.2). */
static int
http_target_host(struct http_head *h)
{
    const struct http_field *f = http_find(h, HTTP_F_HOST, NULL);
    struct http_authority a;

    h->host_off = h->host_len = 0;
    if (f == NULL)
        return h->minor == 0 ? 0 : TERR_SYNTAX;
    if (http_find(h, HTTP_F_HOST, f) != NULL || http_authority_parse(http_value(h, f), &a) < 0)
        return TERR_SYNTAX;
    h->host_off = f->value_off;
    h->host_len = f->value_len;
    return 0;
}

int
http_target_parse(struct http_head *h, enum http_scheme *scheme)
{
    struct slice target = http_slice(h, h->target_off, h->target_len);

    if (!http_target_bytes_ok(target))
        return TERR_SYNTAX;
    if (h->method == HTTP_M_CONNECT) /* no tunnels: RFC 9110 9.3.6 */
        return TERR_METHOD;
    if (http_target_host(h) < 0)
        return TERR_SYNTAX;
    if (target.ptr[0] == '/' || (target.len == 1 && target.ptr[0] == '*')) {
        if (target.ptr[0] == '*' && h->method != HTTP_M_OPTIONS)
            return TERR_SYNTAX;
        h->path_off = h->target_off;
        h->path_len = h->target_len;
        return 0;
    }
    return http_target_absolute(h, scheme);
}
