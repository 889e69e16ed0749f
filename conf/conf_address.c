/* conf_address.c -- addresses: from text to what bind and connect take.
 *
 *    127.0.0.1:8080   "[::1]:8080"   "*:80"   www.example.com:80   unix:/run/x.sock   https://www.example.com
 *
 * A listener may have "*" and port 0, a backend may have https:// and a name.  The text goes
 * through in this order: scheme, unix:, host and port apart, the host's form, the port, then the
 * lookup.  Each step names the mistake that people make there, with a text that can be copied.
 *
 * A lookup blocks, and so happens on the management thread at a load only; backends are looked
 * up anew while they serve by daemon/origin/names.c.
 */
#include "conf/conf_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/base/tassert.h"

enum {
    ADDRESS_HOST_MAX = 253, /* RFC 1035 2.3.4, in text without the last dot */
    ADDRESS_PATH_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1,
};

struct address_parts {
    char host[ADDRESS_HOST_MAX + 1]; /* without brackets */
    char port[8];
    bool bracketed;
};

#define ADDRESS_FORMS "host:port, \"[v6]:port\" or unix:/path"

static bool
address_fail(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char *what)
{
    conf_fail_value(cx, key, n, "%s", what);
    return false;
}

static bool
address_unix(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_address *to)
{
    struct slice path = slice_of(n->text.ptr + 5, n->text.len - 5);

    if (path.len == 0 || path.ptr[0] != '/')
        return address_fail(cx, key, n, "needs an absolute path, as in unix:/run/tarn.sock");
    /* connect(2) and bind(2) would cut it, and reach another file. */
    if (path.len > ADDRESS_PATH_MAX) {
        conf_fail_value(cx, key, n, "has a path of %zu bytes: a socket's has at most %d", path.len,
            ADDRESS_PATH_MAX);
        return false;
    }
    to->is_unix = true;
    to->path = conf_copy(cx, path);
    to->host = "";
    return to->path != NULL;
}

/* Digits in the bounds of a port; 0 only where a free one can be taken. */
static bool
address_port(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    struct slice digits, struct address_parts *p)
{
    unsigned value = 0;
    bool listens = key->type == CONF_TYPE_LISTEN;

    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return address_fail(cx, key, n, "has a port that is not a number, as in host:8080");
        /* Beyond that it only has to stay too large: more digits must not wrap it. */
        if (value <= UINT16_MAX)
            value = value * 10 + (unsigned)(digits.ptr[i] - '0');
    }
    if (digits.len == 0)
        return address_fail(cx, key, n, "has no port behind the colon, as in host:8080");
    if (value > UINT16_MAX)
        return address_fail(cx, key, n, "has a port above 65535");
    if (value == 0 && !listens)
        return address_fail(cx, key, n, "has port 0: only a listener can take a free port");
    snprintf(p->port, sizeof(p->port), "%u", value);
    return true;
}

/* What of the text is the host, and where the port begins. */
static const char *
address_split(struct slice s, struct slice *host, struct slice *port)
{
    const char *end = s.ptr + s.len, *colon, *close;

    if (s.len > 0 && s.ptr[0] == '[') {
        close = memchr(s.ptr, ']', s.len);
        /* Brackets first: the colons in them are the address's own. */
        if (close == NULL)
            return "has no closing bracket, as in \"[::1]:8080\"";
        if (close + 1 == end || close[1] != ':')
            return "has no port, as in \"[::1]:8080\"";
        *host = slice_of(s.ptr + 1, (size_t)(close - s.ptr) - 1);
        *port = slice_of(close + 2, (size_t)(end - close) - 2);
        tassert(port->ptr + port->len == end);
        return NULL;
    }
    colon = memchr(s.ptr, ':', s.len);
    /* A number alone is a port to most that write it. */
    if (colon == NULL && strspn(s.ptr, "0123456789") == s.len)
        return "has no host, as in 127.0.0.1:8080";
    if (colon == NULL)
        return "has no port, as in host:8080";
    /* Which colon would end the host cannot be told. */
    if (memchr(colon + 1, ':', (size_t)(end - colon) - 1) != NULL)
        return "is an IPv6 address without brackets: write it as in \"[::1]:8080\"";
    *host = slice_of(s.ptr, (size_t)(colon - s.ptr));
    *port = slice_of(colon + 1, (size_t)(end - colon) - 1);
    tassert(port->ptr + port->len == end); /* nothing of the text is left out */
    return NULL;
}

/* NULL, or what is wrong with a host that no brackets enclose. */
static const char *
address_wrong_host(const char *host)
{
    struct in_addr v4;

    if (host[0] == '\0')
        return "has no host before the colon, as in 127.0.0.1:8080";
    if (strcmp(host, "*") == 0)
        return "means any address, which only a listener can have";
    /* Never a name: a resolver would take 10.1 for 10.0.0.1. */
    if (strspn(host, "0123456789.") == strlen(host))
        return inet_pton(AF_INET, host, &v4) == 1 ? NULL : "is not a valid IPv4 address";
    if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") !=
        strlen(host))
        return "has a host that is neither a name nor an address: write " ADDRESS_FORMS;
    return NULL;
}

/* A URL where an address belongs; NULL: it is none, else what is wrong, perhaps in `hint`. */
static const char *
address_wrong_scheme(struct slice s, bool listens, char *hint, size_t size)
{
    struct slice host;
    size_t len = 0;

    /* A URL is what people copy; what of it does not count must not go unnoticed. */
    if (s.len >= 8 && strncasecmp(s.ptr, "https://", 8) == 0)
        return listens ? "begins with https://: write the address alone, as in \"*:443\", and "
                         "`tls: DIRECTORY` with its certificates"
                       : "is https:// with a path, or with unix: write https://host or "
                         "https://host:8443";
    if (s.len < 7 || strncasecmp(s.ptr, "http://", 7) != 0)
        return NULL;
    host = slice_of(s.ptr + 7, s.len - 7);
    while (len < host.len && host.ptr[len] != '/')
        len++;
    snprintf(hint, size, "begins with http://: leave out http://%s, as in %.*s%s",
        len < host.len ? " and the path" : "", (int)(len < 64 ? len : 64), host.ptr,
        memchr(host.ptr, ':', len) == NULL ? ":80" : "");
    return hint;
}

static bool
address_parts(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct address_parts *p)
{
    struct slice host, port;
    const char *wrong = address_split(n->text, &host, &port);

    if (wrong != NULL)
        return address_fail(cx, key, n, wrong);
    if (host.len > ADDRESS_HOST_MAX)
        return address_fail(cx, key, n, "has a host name longer than 253 characters");
    memcpy(p->host, host.ptr, host.len);
    p->host[host.len] = '\0';
    p->bracketed = n->text.ptr[0] == '[';
    /* What brackets enclose inet_pton(3) judges, in address_lookup(). */
    if (!p->bracketed && !(key->type == CONF_TYPE_LISTEN && strcmp(p->host, "*") == 0)) {
        wrong = address_wrong_host(p->host);
        if (wrong != NULL)
            return address_fail(cx, key, n, wrong);
    }
    return address_port(cx, key, n, port, p);
}

/* More than CONF_ADDRS_MAX addresses of a name are left out: no round over so many would end in
 * time. */
static bool
address_store(struct conf_cx *cx, struct conf_address *to, const struct addrinfo *list)
{
    unsigned n = 0;

    tassert(to->naddrs == 0);
    for (const struct addrinfo *a = list; a != NULL && n < CONF_ADDRS_MAX; a = a->ai_next)
        n++;
    tassert(n > 0); /* success means an address: getaddrinfo(3) */
    /* Counted before: the arena takes nothing back. */
    to->addrs = conf_alloc(cx, cx->keep, n, sizeof(*to->addrs));
    to->addr_lens = conf_alloc(cx, cx->keep, n, sizeof(*to->addr_lens));
    if (to->addrs == NULL || to->addr_lens == NULL)
        return false;
    for (const struct addrinfo *a = list; to->naddrs < n; a = a->ai_next) {
        tassert(a->ai_addrlen <= sizeof(to->addrs[0]));
        memcpy(&to->addrs[to->naddrs], a->ai_addr, a->ai_addrlen);
        to->addr_lens[to->naddrs++] = a->ai_addrlen;
    }
    return true;
}

/* A backend can wait for its addresses: see daemon/origin/names.c. */
static bool
address_wait(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct address_parts *p, int err, struct conf_address *to)
{
    struct conf_unresolved *u = conf_alloc(cx, cx->scratch, 1, sizeof(*u));

    tassert(key->type == CONF_TYPE_ADDRESS); /* a listener is bound at once, or never */
    tassert(to->naddrs == 0);
    tassert(err != 0 || cx->resolver_silent);
    to->unresolved = conf_copy(
        cx, slice_str(cx->resolver_silent && err == 0 ? "no lookup: a name server is silent"
                      : err == EAI_SYSTEM             ? strerror(errno)
                                                      : gai_strerror(err)));
    /* Each name that a silent server does not answer costs its whole timeout, many times over with
     * many backends: after the first one no other is asked for, and tarnd starts without them. */
    cx->resolver_silent |= err == EAI_AGAIN;
    if (u == NULL || to->unresolved == NULL)
        return false;
    *u = (struct conf_unresolved){.key = key,
        .node = n,
        .host = conf_copy(cx, slice_str(p->host)),
        .why = to->unresolved,
        .next = cx->unresolved};
    /* Whether that is a mistake is known only with `dns_required`, a parameter that may stand
     * below. */
    cx->unresolved = u;
    return u->host != NULL;
}

void
conf_names_check(struct conf_cx *cx)
{
    for (const struct conf_unresolved *u = cx->unresolved; u != NULL; u = u->next)
        conf_fail_value(cx, u->key, u->node,
            "cannot be resolved: host '%s': %s; with `dns_required: off` tarnd starts without it",
            u->host, u->why);
}

/* Numeric addresses need no resolver, so that a text without one is still useful. */
static bool
address_lookup(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct address_parts *p, struct conf_address *to)
{
    bool any = !p->bracketed && strcmp(p->host, "*") == 0;
    bool numeric = any || p->bracketed || strspn(p->host, "0123456789.") == strlen(p->host);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    int err;

    hints.ai_family = p->bracketed ? AF_INET6 : AF_UNSPEC;
    /* AI_ADDRCONFIG: no IPv6 address for a machine without IPv6; of a numeric one it would hide
     * ::1. */
    hints.ai_flags |= numeric ? AI_NUMERICHOST : AI_ADDRCONFIG;
    /* A text that is loaded without touching the world: no name is asked for. */
    if (!numeric && cx->resolve == NULL)
        return true;
    if (!numeric && cx->resolver_silent && key->type == CONF_TYPE_ADDRESS)
        return address_wait(cx, key, n, p, 0, to);
    /* "*" is IPv6's any address, which a listener opens for IPv4, too. */
    tassert(numeric || cx->resolve != NULL);
    err = numeric ? getaddrinfo(any ? "::" : p->host, p->port, &hints, &list)
                  : cx->resolve(p->host, p->port, &hints, &list);
    if (err == 0) {
        bool stored = address_store(cx, to, list);

        freeaddrinfo(list);
        return stored;
    }
    if (err == EAI_MEMORY)
        cx->nomem = true;
    else if (!numeric && key->type == CONF_TYPE_ADDRESS)
        return address_wait(cx, key, n, p, err, to);
    else if (numeric)
        conf_fail_value(cx, key, n, "is not a valid IPv6 address, as in \"[::1]:8080\"");
    else
        conf_fail_value(cx, key, n, "cannot be resolved: host '%s': %s", p->host,
            err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
    return false;
}

/* "192.0.2.1", "192.0.2.1:5353", "[::1]", "[::1]:5353".  NULL, or what is wrong.  Cuts `text` at
 * the port.  A name server has no name: it would need one to be found. */
static const char *
address_wrong_server(char *text)
{
    bool v6 = text[0] == '[';
    char *host = text + v6, *port;
    uint8_t addr[16];

    port = strchr(host, v6 ? ']' : ':');
    if (v6 && port == NULL)
        return "has no closing bracket, as in \"[::1]:53\"";
    if (port != NULL)
        *port++ = '\0';
    if (port != NULL && v6 && *port == '\0')
        port = NULL;
    else if (port != NULL && v6 && *port++ != ':')
        return "is not an address: write it as in \"[::1]:53\"";
    if (inet_pton(v6 ? AF_INET6 : AF_INET, host, addr) != 1)
        return "is not an address: write it as in 192.0.2.1, 192.0.2.1:53 or \"[::1]:53\"";
    if (port != NULL && (strlen(port) > 5 || strspn(port, "0123456789") != strlen(port) ||
                            atoi(port) < 1 || atoi(port) > UINT16_MAX))
        return "has a port that is not a number from 1 to 65535";
    return NULL;
}

/* 64 bytes hold any address with brackets and a port; what is longer is none. */
void
conf_resolver_check(struct conf_cx *cx, const struct ynode *params)
{
    const struct ynode *n = ynode_get(params, "resolver");
    const char *at = cx->conf->params.resolver;
    char text[64];

    while (n != NULL && at != NULL && *at != '\0') {
        int len = (int)strcspn(at, " ");
        const char *wrong;

        /* The words are one text by then, with a space between them. */
        snprintf(text, sizeof(text), "%.*s", len, at);
        wrong = len < (int)sizeof(text) ? address_wrong_server(text) : "is too long for an address";
        if (wrong != NULL)
            conf_fail(cx, n, "resolver: '%.*s' %s", len < 64 ? len : 64, at, wrong);
        at += len + (at[len] == ' ');
    }
}

/* What https:// stands in front of, with the port that it has by itself (RFC 9110 4.2.2); NULL: it is not
 * a host alone. */
static const struct ynode *
address_of_https(struct conf_cx *cx, const struct ynode *n)
{
    struct slice host = slice_of(n->text.ptr + 8, n->text.len - 8);
    struct ynode *bare = conf_alloc(cx, cx->scratch, 1, sizeof(*bare));
    const char *close;
    char *text;

    if (host.len > 0 && host.ptr[host.len - 1] == '/')
        host.len--;
    if (bare == NULL || host.len == 0 || memchr(host.ptr, '/', host.len) != NULL)
        return NULL;
    close = host.ptr[0] == '[' ? memchr(host.ptr, ']', host.len) : host.ptr;
    text = conf_alloc(cx, cx->scratch, host.len + sizeof(":443"), 1);
    if (close == NULL || text == NULL)
        return NULL;
    memcpy(text, host.ptr, host.len);
    *bare = *n;
    if (memchr(close, ':', (size_t)(host.ptr + host.len - close)) == NULL) {
        memcpy(text + host.len, ":443", sizeof(":443"));
        host.len += sizeof(":443") - 1;
    }
    bare->text = slice_of(text, host.len);
    return bare;
}

/* *to changes only on success.  `text` keeps what the file has, also https://: reports and
 * comparisons show it.  What follows works on `bare`, without the scheme and with its port. */
bool
conf_address_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_address *to)
{
    struct address_parts parts;
    struct conf_address got = {.naddrs = 0};
    const char *wrong;
    char hint[2 * CONF_QUOTE_BYTES];

    for (size_t i = 0; i < n->text.len; i++)
        /* Before all else: what follows puts the text into messages. */
        if ((unsigned char)n->text.ptr[i] <= ' ')
            return address_fail(cx, key, n, "has a space or control character");
    got.text = conf_copy(cx, n->text);
    if (key->type == CONF_TYPE_ADDRESS && n->text.len > 8 &&
        strncasecmp(n->text.ptr, "https://", 8) == 0) {
        const struct ynode *bare = address_of_https(cx, n);

        got.is_https = bare != NULL;
        n = bare != NULL ? bare : n;
    }
    wrong = address_wrong_scheme(n->text, key->type == CONF_TYPE_LISTEN, hint, sizeof(hint));
    if (wrong != NULL)
        return address_fail(cx, key, n, wrong);
    if (got.text == NULL)
        return false;
    if (n->text.len >= 5 && memcmp(n->text.ptr, "unix:", 5) == 0) {
        if (!address_unix(cx, key, n, &got))
            return false;
    } else {
        if (!address_parts(cx, key, n, &parts) || !address_lookup(cx, key, n, &parts, &got))
            return false;
        got.host = conf_copy(cx, slice_str(parts.host));
        got.port = (uint16_t)strtoul(parts.port, NULL, 10);
    }
    tassert(cx->nomem || got.is_unix == (got.path != NULL));
    tassert(got.naddrs == 0 || got.unresolved == NULL);
    *to = got; /* only when whole */
    return !cx->nomem;
}
