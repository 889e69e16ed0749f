/* h1_proxied.c -- connections that begin with a PROXY header: who is really at the other end. */
#include "daemon/h1/h1_conn.h"

#include <sys/socket.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/http/proxy_header.h"
#include "daemon/shm/elog.h"

/* In place of the listener's facts, for as long as the connection lasts. */
struct h1_told {
    struct exchange_conn facts;
    struct exchange_told told;
};

/* The socket's own: what was told is in `door`. */
static int
h1_proxied_refuse(const struct h1_conn *c, const char *why)
{
    struct stream_peer peer;

    stream_get_peer(c->stream, &peer);
    counter_add(c->server->env.counters, COUNTER_sess_proxied_bad, 1);
    elog(ELOG_WARN, "listener %s: %s: %s: the connection is closed", c->door->socket, peer.text,
        why);
    return TERR_SYNTAX;
}

bool
h1_proxied_may(const struct h1_conn *c, const struct address_nets *trusted)
{
    if (trusted->n == 0 || address_in(trusted, c->peer_addr))
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
    t->facts = *c->door;
    t->facts.told = &t->told;
    memcpy(t->told.remote_addr, c->peer_addr, sizeof(t->told.remote_addr));
    t->told.remote_port = c->peer_port;
    memcpy(t->told.server_addr, ph->dst, sizeof(t->told.server_addr));
    t->told.server_port = ph->dst_port;
    t->told.has_server = true;
    memcpy(c->peer_addr, ph->src, sizeof(c->peer_addr));
    c->peer_port = ph->src_port;
    c->door = &t->facts;
    return 0;
}

/* The other half of it for operators: their processes' users. */
struct h1_known {
    struct h1_told told; /* first: freed as such */
    struct exchange_cred cred;
};

/* Its groups: the one it has, and the others. */
static void
h1_cred_groups(struct exchange_cred *cred, int fd, gid_t gid)
{
    gid_t more[EXCHANGE_GIDS_MAX];
    socklen_t len = sizeof(more);

    cred->gids[0] = gid;
    cred->ngids = 1;
#ifdef SO_PEERGROUPS
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more, &len) == 0)
        for (unsigned i = 0; i < len / sizeof(gid_t) && cred->ngids < EXCHANGE_GIDS_MAX; i++)
            cred->gids[cred->ngids++] = more[i];
#else
    (void)fd;
    (void)more;
    (void)len;
#endif
}

int
h1_proxied_note_cred(struct h1_conn *c, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    struct h1_known *k;

    tassert(c->door->told == NULL);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.uid == (uid_t)-1)
        return 0;
    k = usage_calloc(&c->server->env.loop->usage, USAGE_CONN, sizeof(*k));
    if (k == NULL)
        return TERR_NOMEM;
    k->cred.uid = peer.uid;
    h1_cred_groups(&k->cred, fd, peer.gid);
    k->told.facts = *c->door;
    k->told.facts.told = &k->told.told;
    k->told.told.cred = &k->cred;
    c->door = &k->told.facts;
    return 0;
}

int
h1_proxied_read(struct h1_conn *c)
{
    struct proxy_header ph;
    int n = proxy_header_parse(c->busy->in, c->busy->in_len, &ph);

    tassert(c->door->told == NULL);
    if (n < 0)
        return h1_proxied_refuse(c, "does not begin with a PROXY header");
    if (n == 0)
        return 0;
    if (ph.told && h1_proxied_take(c, &ph) != 0)
        return TERR_NOMEM;
    counter_add(c->server->env.counters, COUNTER_sess_proxied, 1);
    h1_in_skip(c, (size_t)n);
    return 1;
}

void
h1_proxied_free(struct h1_conn *c)
{
    struct exchange_conn *facts = (struct exchange_conn *)(uintptr_t)c->door; /* our own */
    struct h1_told *t = container_of(facts, struct h1_told, facts);

    c->door = NULL;
    usage_free(&c->server->env.loop->usage, USAGE_CONN, t);
}
