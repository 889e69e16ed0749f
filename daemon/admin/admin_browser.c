/* admin_browser.c -- a browser asks for any page that it shows: which requests may be another site's?
 *
 * An operator's browser reaches a socket through a forwarded port, and there is no token then.  A page of
 * another site can make the browser ask that port, too, in two ways:
 *
 *   across origins    the browser says so: Sec-Fetch-Site, Origin
 *   DNS rebinding     the page's own name is made to point here; then it is one origin for the browser,
 *                     and only Host shows the name
 */
#include <stdio.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/address.h"
#include "daemon/http/uri.h"
#include "daemon/origin/backend_snapshot.h"

/* Fetch Metadata. */
static bool
browser_is_cross_site(const struct http_message *h)
{
    const struct http_field *f = http_find_name(h, SLICE_LIT("Sec-Fetch-Site"), NULL);

    /* No field: no browser, or an old one; Origin and Host are looked at in any case.  "none" is a
     * URL that was typed. */
    return f != NULL && !slice_eq(http_value(h, f), SLICE_LIT("same-origin")) &&
           !slice_eq(http_value(h, f), SLICE_LIT("none"));
}

/* RFC 6454 7: scheme "://" host [ ":" port ], or null.  Without an Origin there is nothing to compare. */
static bool
browser_origin_matches(const struct http_message *h)
{
    const struct http_field *f = http_find_name(h, SLICE_LIT("Origin"), NULL);
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    char origin[HTTP_AUTHORITY_MAX], host[HTTP_AUTHORITY_MAX];
    struct slice value;
    int n[2];

    if (f == NULL)
        return true;
    value = http_value(h, f);
    if (value.len > 8 && slice_eq_nocase(slice_of(value.ptr, 8), SLICE_LIT("https://"))) {
        scheme = HTTP_SCHEME_HTTPS;
        value = slice_of(value.ptr + 8, value.len - 8);
    } else if (value.len > 7 && slice_eq_nocase(slice_of(value.ptr, 7), SLICE_LIT("http://"))) {
        value = slice_of(value.ptr + 7, value.len - 7);
    } else {
        return false;
    }
    /* Both with the scheme of the Origin: the port that is left out is then the same one. */
    n[0] = http_authority_normal(value, scheme, (struct span){origin, sizeof(origin)});
    n[1] = http_authority_normal(http_host(h), scheme, (struct span){host, sizeof(host)});
    /* A second Origin: whichever was compared, the other one may be the true one. */
    return n[0] > 0 && n[1] > 0 &&
           slice_eq(slice_of(origin, (size_t)n[0]), slice_of(host, (size_t)n[1])) &&
           http_find_name(h, SLICE_LIT("Origin"), f) == NULL;
}

static bool
browser_has_word(const char *words, struct slice word)
{
    while (*words != '\0') {
        size_t len = strcspn(words, " ");

        if (slice_eq_nocase(slice_of(words, len), word))
            return true;
        words += len + (words[len] == ' ');
    }
    return false;
}

/* A name that no other site can have, or none: HTTP/1.0 without Host comes from no browser. */
static bool
browser_host_is_own(const struct http_message *h, const char *names)
{
    struct http_authority a;
    struct slice host = http_host(h);
    struct address_net net;

    if (host.len == 0)
        return true;
    if (http_authority_parse(host, &a) != 0)
        return false;
    host = a.host;
    if (host.len > 2 && host.ptr[0] == '[')
        /* [::1]: the brackets are of the URL. */
        host = slice_of(host.ptr + 1, host.len - 2);
    else if (host.ptr[host.len - 1] == '.')
        /* The root's dot: "localhost." is localhost. */
        host.len--;
    /* address_read_net() takes "10.0.0.0/8" and "unix", too, and neither is an address. */
    return slice_eq_nocase(host, SLICE_LIT("localhost")) ||
           slice_eq_nocase(host, SLICE_LIT("tarn")) ||
           (host.len > 0 && memchr(host.ptr, '/', host.len) == NULL &&
               !slice_eq(host, SLICE_LIT("unix")) && address_read_net(host.ptr, host.len, &net)) ||
           browser_has_word(names, host);
}

bool
admin_is_own(struct admin_call *c, const struct exchange *x, bool has_token)
{
    /* Of the configuration that counts now: names may be added by a reload. */
    const struct conf_admin *conf = snapshot_conf(registry_snapshot(c->admin->env.registry))->admin;
    struct slice host = http_host(&x->head);

    if (admin_is_health(c->path))
        return true; /* load balancers ask as they are used to; it tells one word */
    /* The page itself may be opened by a link from anywhere. */
    if (browser_is_cross_site(&x->head) && !admin_is_public(c->path)) {
        admin_fail(c, 403, NULL, "another site's page may not ask this");
        return false;
    }
    if (!browser_origin_matches(&x->head)) {
        admin_fail(c, 403, "the page that asks must come from this address itself",
            "Origin is another than Host");
        return false;
    }
    /* With a token a rebound page gets 401: a browser has the token for its own origin alone. */
    if (!has_token && !browser_host_is_own(&x->head, conf->names)) {
        admin_fail(c, 403,
            "ask by an address, as localhost, or add the name to names of the section admin, in "
            "tarn.yaml",
            "Host '%.*s' is none of localhost, tarn, an address and admin.names",
            host.len > 100 ? 100 : (int)host.len, host.ptr);
        return false;
    }
    return true;
}
