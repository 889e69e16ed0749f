/* admin_allow.c -- which clients may look, and which may change something: admin.allow. */
#include <stdio.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/address.h"
#include "daemon/http/exchange.h"
#include "daemon/origin/backend_snapshot.h"

static bool
peer_in_group(const struct conn_operator *cred, uint32_t gid)
{
    for (unsigned i = 0; i < cred->ngids; i++)
        if (cred->gids[i] == gid)
            return true;
    return false;
}

/* On a Unix socket the client's address is all zeros: the net `unix` is for that, and 0.0.0.0/0
 * does not have it (IPv4 is ::ffff:0:0/96 here). */
static bool
peer_is(const struct conf_peer *p, const struct exchange *x, const struct conn_operator *cred)
{
    const struct address_nets net = {&p->net, 1};

    switch (p->kind) {
    case CONF_PEER_NET:
        return address_in(&net, x->conn->client_addr);
    case CONF_PEER_USER:
        /* A name that the system does not know has no number to compare. */
        return p->known && cred != NULL && cred->uid == p->id;
    case CONF_PEER_GROUP:
        return p->known && cred != NULL && peer_in_group(cred, p->id);
    }
    TUNREACHABLE("kind of a peer");
}

static bool
peers_have(
    const struct conf_peers *peers, const struct exchange *x, const struct conn_operator *cred)
{
    for (unsigned i = 0; i < peers->n; i++)
        if (peer_is(&peers->list[i], x, cred))
            return true;
    return false;
}

/* NULL on TCP, and where the kernel could not name the peer of a socket: then only a network can
 * match, and user: and group: refuse. */
const struct conn_operator *
admin_cred(const struct exchange *x)
{
    const struct conn_operator *peer = x->conn->listener->peer;

    return peer->has_cred ? peer : NULL;
}

/* Behind the token (admin_may), and before a byte of the body is read: what may not be changed
 * is not even received. */
bool
admin_is_allowed(struct admin_call *c, const struct exchange *x)
{
    /* Of the configuration that counts now; that there is an admin listener does not change. */
    const struct conf_allow *allow =
        &snapshot_conf(registry_snapshot(c->admin->env.registry))->admin->allow;
    const struct conn_operator *cred = admin_cred(x);
    bool looks = c->method == HTTP_M_GET || c->method == HTTP_M_HEAD;
    char who[96];

    /* Without allow the mode of the socket and the token decide, as ever. */
    if (!allow->said || admin_is_public(c->path) || peers_have(&allow->write, x, cred) ||
        /* The right to change something has the right to look in it. */
        (looks && peers_have(&allow->read, x, cred)))
        return true;
    if (cred != NULL)
        snprintf(who, sizeof(who), "uid %u, gid %u", cred->uid, cred->gids[0]);
    else
        address_text(x->conn->client_addr, who);
    admin_fail(c, 403,
        looks
            ? "it needs user:NAME, group:NAME or a network in allow.read or allow.write of admin, "
              "in tarn.yaml"
            : "it needs user:NAME, group:NAME or a network in allow.write of admin, in tarn.yaml",
        "allow.%s does not have %s", looks ? "read" : "write", who);
    return false;
}
