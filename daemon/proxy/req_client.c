/* req_client.c -- the client, as the connection or a trusted proxy names it, and forwarding it. */
#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/http/hops.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/req_priv.h"

/* In the exchange's arena, in place of the connection's facts. */
struct req_client {
    struct conn_facts facts;
    struct conn_listener listener;
    struct conn_forwarded forwarded;
    uint8_t hops[][16];
};

/* 0 or TERR_NOMEM. */
static int
req_take_hops(struct exchange *x, const struct hops *hops)
{
    const struct conn_facts *conn = x->conn;
    const struct conn_forwarded *before = conn->listener->forwarded;
    struct req_client *c = arena_alloc(&x->arena, sizeof(*c) + hops->n * sizeof(hops->addr[0]));

    tassert(hops->n > 1); /* one is the connection's own end */
    if (c == NULL)
        return TERR_NOMEM;
    memcpy(c->hops, hops->addr, hops->n * sizeof(hops->addr[0]));
    /* A copy: the connection's own facts stay for its next request, which may name another
     * client. */
    c->facts = *conn;
    c->listener = *conn->listener;
    c->forwarded = (struct conn_forwarded){.remote_port = (uint16_t)conn->client_port};
    if (before != NULL)
        c->forwarded = *before;
    else
        memcpy(c->forwarded.remote_addr, conn->client_addr, sizeof(c->forwarded.remote_addr));
    c->forwarded.nhops = hops->n;
    c->forwarded.hops = (const uint8_t(*)[16])c->hops;
    c->listener.forwarded = &c->forwarded;
    c->facts.listener = &c->listener;
    memcpy(c->facts.client_addr, c->hops[0], sizeof(c->facts.client_addr));
    c->facts.client_port = 0; /* unknown */
    x->conn = &c->facts;
    return 0;
}

void
req_find_client(struct proxy *p, struct exchange *x)
{
    const struct address_nets *trusted =
        &snapshot_conf(registry_snapshot(p->registry))->trusted_proxies.set;
    struct hops hops;

    OBJ_CHECK(p, PROXY_MAGIC);
    /* Of a peer that is not trusted the fields are a claim, and of a malformed request they are
     * nothing. */
    if (x->err != 0 || !address_in(trusted, x->conn->client_addr))
        return;
    hops_of_request(&x->head,
        /* Read is what is written: with both, X-Forwarded-For decides. */
        p->forwards == FORWARDS_FORWARDED ? HTTP_F_FORWARDED : HTTP_F_X_FORWARDED_FOR, trusted,
        x->conn->client_addr, &hops);
    if (hops.n > 1)
        x->err = req_take_hops(x, &hops); /* the client's address decides its rights: no guess */
    if (hops.https)
        x->scheme = HTTP_SCHEME_HTTPS;
}

/* One address as a member: of X-Forwarded-For, or RFC 7239 6, where IPv6 is quoted. */
static size_t
req_put_hop(char *out, const uint8_t addr[16], bool forwarded)
{
    char text[ADDRESS_TEXT_MAX];
    bool v6;
    char *p = out;
    size_t len;

    address_text(addr, text);
    v6 = strchr(text, ':') != NULL;
    len = strlen(text);
    if (forwarded) {
        memcpy(p, "for=\"[", 6);
        p += v6 ? 6 : 4;
    }
    memcpy(p, text, len);
    p += len;
    if (forwarded && v6) {
        memcpy(p, "]\"", 2);
        p += 2;
    }
    tassert((size_t)(p - out) <= ADDRESS_TEXT_MAX + sizeof("for=\"[]\"") - 1);
    return (size_t)(p - out);
}

struct slice
req_forwarded(const struct exchange *x, struct arena *a, bool forwarded)
{
    const struct conn_forwarded *fwd = x->conn->listener->forwarded;
    unsigned n = fwd != NULL && fwd->nhops > 0 ? fwd->nhops : 1;
    size_t len = 0;
    char *out;

    out = arena_alloc(a, n * (ADDRESS_TEXT_MAX + sizeof("for=\"[]\", ")));
    if (out == NULL)
        return slice_of(NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *addr = fwd != NULL && fwd->nhops > 0 ? fwd->hops[i] : x->conn->client_addr;

        if (address_is_unix(addr))
            continue; /* a client on a Unix socket has no address to forward */
        if (len > 0) {
            memcpy(out + len, ", ", 2);
            len += 2;
        }
        /* The client first, as each proxy appends its peer. */
        len += req_put_hop(out + len, addr, forwarded);
    }
    tassert(len <= n * (ADDRESS_TEXT_MAX + sizeof("for=\"[]\", ")));
    return slice_of(out, len);
}

/* parameters.forwarded */
enum proxy_forwards
proxy_forwards_of(const char *word)
{
    return strcmp(word, "none") == 0        ? FORWARDS_NONE
           : strcmp(word, "forwarded") == 0 ? FORWARDS_FORWARDED
           : strcmp(word, "both") == 0      ? FORWARDS_BOTH
                                            : FORWARDS_X_FORWARDED_FOR;
}
