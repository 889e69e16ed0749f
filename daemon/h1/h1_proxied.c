/* h1_proxied.c -- connections that begin with a PROXY header: who is really at the other end. */
#include "daemon/h1/h1_conn.h"

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/proxy_header.h"

/* The address is the socket's own. */
static int
h1_proxied_refuse(const struct h1_conn *c, const char *why)
{
    struct stream_peer peer;

    stream_get_peer(c->stream, &peer);
    counter_add(c->server->env.counters, COUNTER_sess_proxied_bad, 1);
    elog(ELOG_WARN, "listener %s: %s: %s: the connection is closed", c->facts.listener->name,
        peer.text, why);
    return TERR_SYNTAX;
}

bool
h1_proxied_may(const struct h1_conn *c, const struct address_nets *trusted)
{
    if (trusted->n == 0 || address_in(trusted, c->facts.client_addr))
        return true;
    h1_proxied_refuse(c, "not among those trusted to send a PROXY header");
    return false;
}

/* What the header says is the connection's from now on. */
static int
h1_proxied_take(struct h1_conn *c, const struct proxy_header *ph)
{
    struct h1_told *t = usage_calloc(&c->server->env.loop->usage, USAGE_CONN, sizeof(*t));

    if (t == NULL)
        return TERR_NOMEM;
    list_init(&t->link);
    t->listener = *c->facts.listener;
    t->listener.forwarded = &t->forwarded;
    memcpy(t->forwarded.remote_addr, c->facts.client_addr, sizeof(t->forwarded.remote_addr));
    t->forwarded.remote_port = (uint16_t)c->facts.client_port;
    memcpy(t->forwarded.server_addr, ph->dst, sizeof(t->forwarded.server_addr));
    t->forwarded.server_port = ph->dst_port;
    t->forwarded.has_server = true;
    memcpy(c->facts.client_addr, ph->src, sizeof(c->facts.client_addr));
    c->facts.client_port = ph->src_port;
    c->facts.listener = &t->listener;
    return 0;
}

int
h1_proxied_read(struct h1_conn *c)
{
    struct proxy_header ph;
    int n = proxy_header_parse(c->busy->in, c->busy->in_len, &ph);

    tassert(c->facts.listener->forwarded == NULL);
    if (n < 0)
        return h1_proxied_refuse(c, "does not begin with a PROXY header");
    if (n == 0)
        return 0;
    if (ph.has_addresses && h1_proxied_take(c, &ph) != 0)
        return TERR_NOMEM;
    if (ph.has_addresses && h1_conn_count(c) != 0)
        return TERR_LIMIT;
    counter_add(c->server->env.counters, COUNTER_sess_proxied, 1);
    h1_in_skip(c, (size_t)n);
    return 1;
}

void
h1_proxied_free(struct h1_conn *c)
{
    struct h1_told *t = (struct h1_told *)(uintptr_t)c->facts.listener; /* its first, our own */

    c->facts.listener = NULL;
    list_del(&t->link);
    usage_free(&c->server->env.loop->usage, USAGE_CONN, t);
}
