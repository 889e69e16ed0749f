/* conf_loops.c -- a backend that is one of our own listeners: requests would come back for ever.
 *
 * A loop is found by address and port, with any-addresses and the machine's interfaces taken
 * into account.  One that leads over another machine or a translated port is not seen here;
 * requests that come back are stopped by CDN-Loop and Via (daemon/http/cdn_loop.c).
 */
#include "conf/conf_priv.h"

#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"

/* An address of the internet: IPv4 as ::ffff:a.b.c.d. */
struct loops_at {
    struct in6_addr addr;
    uint16_t port;
};

/* The addresses of this machine, asked for once, and only where a listener has any of them. */
struct loops_local {
    struct ifaddrs *list; /* NULL: none, or not known */
    bool asked;
};

static void
loops_map(struct in6_addr *out, struct in_addr v4)
{
    *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&out->s6_addr[12], &v4, sizeof(v4));
}

/* False: another family. */
static bool
loops_read(const struct sockaddr *sa, struct loops_at *out)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return false;
    if (sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        loops_map(&out->addr, v4.sin_addr);
        out->port = ntohs(v4.sin_port);
    } else {
        memcpy(&v6, sa, sizeof(v6));
        out->addr = v6.sin6_addr;
        out->port = ntohs(v6.sin6_port);
    }
    return true;
}

static bool
loops_is_v4(const struct in6_addr *a)
{
    return IN6_IS_ADDR_V4MAPPED(a);
}

static bool
loops_is_any(const struct in6_addr *a)
{
    static const uint8_t none[4];

    return IN6_IS_ADDR_UNSPECIFIED(a) ||
           (loops_is_v4(a) && memcmp(&a->s6_addr[12], none, sizeof(none)) == 0);
}

static bool
loops_is_loopback(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (loops_is_v4(a) && a->s6_addr[12] == 127);
}

/* Is it one of this machine? */
static bool
loops_is_local(const struct in6_addr *a, struct loops_local *local)
{
    struct loops_at at;

    if (loops_is_loopback(a))
        return true;
    /* Without the list nothing is local except the loopback: a loop that is not found is stopped by
     * CDN-Loop (508). */
    if (!local->asked && getifaddrs(&local->list) != 0)
        local->list = NULL;
    local->asked = true;
    for (const struct ifaddrs *i = local->list; i != NULL; i = i->ifa_next)
        if (loops_read(i->ifa_addr, &at) && IN6_ARE_ADDR_EQUAL(&at.addr, a))
            return true;
    return false;
}

/* The any address of IPv6 accepts IPv4, too; to connect to an any address reaches the loopback. */
static bool
loops_reaches(
    const struct loops_at *listener, const struct loops_at *backend, struct loops_local *local)
{
    static const struct in_addr loopback = {.s_addr = 0};
    struct in6_addr to = backend->addr;

    /* First: it spares the question for interfaces. */
    if (listener->port != backend->port)
        return false;
    if (loops_is_any(&to) && loops_is_v4(&to)) {
        loops_map(&to, loopback);
        to.s6_addr[12] = 127;
        to.s6_addr[15] = 1;
    } else if (loops_is_any(&to)) {
        to = in6addr_loopback;
    }
    tassert(!loops_is_any(&to)); /* a connection reaches one address */
    if (!loops_is_any(&listener->addr))
        return IN6_ARE_ADDR_EQUAL(&listener->addr, &to);
    return (!loops_is_v4(&listener->addr) || loops_is_v4(&to)) && loops_is_local(&to, local);
}

/* Without symbolic links; the socket itself need not be there yet. */
static bool
loops_real_path(const char *path, char out[static PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    size_t len, name;

    if (realpath(path, out) != NULL)
        return true;
    if (slash == NULL || (size_t)(slash - path) + 2 > sizeof(dir))
        return false;
    /* The directory alone: a socket that another process is about to make has no real path yet. */
    memcpy(dir, path, (size_t)(slash - path) + 1);
    dir[slash - path + 1] = '\0';
    if (realpath(dir, out) == NULL)
        return false;
    len = strlen(out);
    tassert(len < PATH_MAX);
    name = strlen(slash);
    if (len + name + 1 > PATH_MAX)
        return false;
    memcpy(out + len, slash, name + 1);
    return true;
}

static bool
loops_same_path(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];

    /* Equal texts need no file system. */
    return strcmp(a, b) == 0 || (loops_real_path(a, real_a) && loops_real_path(b, real_b) &&
                                    strcmp(real_a, real_b) == 0);
}

/* Each address of the one against each of the other: names have several. */
static bool
loops_meet(const struct conf_address *l, const struct conf_address *b, struct loops_local *local)
{
    struct loops_at listener, backend;

    /* A file and a port never meet. */
    if (l->is_unix || b->is_unix)
        return l->is_unix && b->is_unix && loops_same_path(l->path, b->path);
    for (unsigned i = 0; i < l->naddrs; i++)
        for (unsigned j = 0; j < b->naddrs; j++)
            if (loops_read((const struct sockaddr *)&l->addrs[i], &listener) &&
                loops_read((const struct sockaddr *)&b->addrs[j], &backend) &&
                loops_reaches(&listener, &backend, local))
                return true;
    return false;
}

static const struct conf_listen *
loops_find(const struct conf *conf, const struct conf_address *to, struct loops_local *local)
{
    for (unsigned i = 0; i < conf->nlistens; i++)
        if (loops_meet(&conf->listens[i].address, to, local))
            return &conf->listens[i];
    return NULL;
}

const struct conf_listen *
conf_listener_at(const struct conf *conf, const struct conf_address *to)
{
    struct loops_local local = {.list = NULL}; /* asked anew: interfaces come and go */
    const struct conf_listen *l = loops_find(conf, to, &local);

    if (local.list != NULL)
        freeifaddrs(local.list);
    return l;
}

void
conf_loops_check(struct conf_cx *cx, const struct ynode *root)
{
    const struct conf *conf = cx->conf;
    struct loops_local local = {.list = NULL};
    char quote[CONF_QUOTE_BYTES];

    for (unsigned i = 0; i < conf->nbackends; i++) {
        const struct conf_backend *b = &conf->backends[i];
        const struct conf_listen *l = loops_find(conf, &b->address, &local);
        /* The place of what can be changed: the backend's, not the listener's. */
        const struct ynode *at = ynode_get(ynode_get(root, "backends"), b->name);

        if (l != NULL)
            conf_fail(cx, ynode_get(at, "address"),
                "address: '%s' is the listener '%s' (%s) of this tarnd, so its requests would "
                "loop: write the address of the site itself",
                conf_quote(quote, slice_str(b->address.text)), l->name, l->address.text);
    }
    if (local.list != NULL)
        freeifaddrs(local.list);
}
