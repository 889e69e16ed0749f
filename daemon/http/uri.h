/* uri.h -- request targets and authorities (RFC 9112 3.2, RFC 3986 3.2).
 *
 * The bytes of path and query are never decoded, collapsed or cut: what is keyed is what is
 * forwarded.  Only the authority has a normal form, and that is forwarded too.
 */
#ifndef TARN_URI_H
#define TARN_URI_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

enum http_scheme {
    HTTP_SCHEME_HTTP,
    HTTP_SCHEME_HTTPS,
};

enum {
    HTTP_HOST_MAX = 255,                    /* bytes of a host name: what DNS can carry */
    HTTP_AUTHORITY_MAX = HTTP_HOST_MAX + 6, /* and ":65535" */
};

struct http_authority {
    struct slice host; /* with the brackets of an IPv6 address; borrows the text */
    uint16_t port;     /* the scheme's is not filled in */
    bool has_port;     /* "h:" has none (RFC 3986 6.2.3) */
};

const char *http_scheme_name(enum http_scheme s);    /* "http" */
struct slice http_scheme_prefix(enum http_scheme s); /* "http://" */

/* uri-host [":" port], strictly: reg-name, IPv4 or [IPv6]; no userinfo, no empty host.
 * 0 or TERR_SYNTAX. */
int http_authority_parse(struct slice text, struct http_authority *out);

/* The normal form, for key and forwarding: lower case, without the scheme's default port,
 * leading zeros in the port or one trailing dot.  Its length (at most HTTP_AUTHORITY_MAX),
 * TERR_SYNTAX, or TERR_LIMIT when `out` is too small. */
int http_authority_normal(struct slice text, enum http_scheme scheme, struct span out);

/* Resolves `reference` (a Location or Content-Location) against the URI that was asked for,
 * http://authority path, both as they were keyed (RFC 3986 5.2).  Writes path and query as a
 * request for the target would be keyed, without dot segments and fragment: its length; 0 when
 * it lies under another authority or a scheme other than http and https; TERR_SYNTAX for what
 * no request could ask for; TERR_LIMIT.  path.len + reference.len + 1 is room for any. */
int http_uri_resolve(
    struct slice authority, struct slice path, struct slice reference, struct span out);

/* Splits h->target into path and host, and judges Host, once all fields are in place.
 *
 *   /path?query           path; host from the Host field
 *   http://host/path      path; host from the target, which replaces Host (VSV00018)
 *   *                     OPTIONS only
 *   host:port             refused, and CONNECT with it (TERR_METHOD)
 *
 * HTTP/1.1 needs exactly one Host; HTTP/1.0 may have none, then authority_len is 0 (a duplicate or
 * invalid Host is refused in any version, and even when the target replaces it).
 * "http://host" leaves path_len 0: use http_path().  *scheme changes only when the target
 * names one.  It is the client's word: whether the connection was secure it does not say.
 * 0, TERR_SYNTAX or TERR_METHOD. */
int http_target_parse(struct http_message *h, enum http_scheme *scheme);
/* The last Host that was found good: most requests on a worker name the same few. */
struct http_host_memo {
    size_t len; /* 0: none yet */
    char text[HTTP_AUTHORITY_MAX];
};
int http_target_parse_memo(
    struct http_message *h, enum http_scheme *scheme, struct http_host_memo *memo);

/* Path and query to key and to forward: path_len 0 stands for "/" (or "*" with OPTIONS,
 * RFC 9112 3.2.4), which the head's bytes do not have. */
static inline struct slice
http_path(const struct http_message *h)
{
    if (h->path_len == 0)
        return h->method == HTTP_M_OPTIONS ? SLICE_LIT("*") : SLICE_LIT("/");
    return http_slice(h, h->path_off, h->path_len);
}

static inline struct slice
http_host(const struct http_message *h)
{
    return http_slice(h, h->authority_off, h->authority_len);
}

#endif
