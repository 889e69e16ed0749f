/* manage_peers.c -- the other nodes of the fleet, as those that can be asked for objects.
 *
 * The engine says which there are, and what they run.  With a list of addresses, or a name, nodes are asked there alone. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/hex.h"
#include "daemon/base/loop.h"
#include "daemon/base/terr.h"
#include "daemon/fleet/fleet.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/net/resolve.h"
#include "daemon/origin/peers.h"
#include "daemon/policy/policies.h"
#include "daemon/shm/counters.h"

enum {
    PEERS_DNS_MS = 5000, /* between two lookups, at least; longer by the answer's time to live */
    PEERS_DNS_MAX_MS = 60000,
};

/* What the workers have. */
struct manage_peers {
    struct peers_member members[PEERS_MAX];
    unsigned n;
    char secret[2 * PEERS_SECRET + 1];
    /* dns:NAME */
    const char *name; /* NULL: it is something else */
    struct resolver *resolver;
    struct resolve *lookup; /* under way */
    uint64_t look_ms;       /* when the next one is due */
    bool said;              /* that the name is not known */
    struct resolve_addrs addrs;
};

static void
manage_peers_place(void *ctx, bool has, uint64_t engine, struct fleet_id id)
{
    const struct peers_place place = {engine, id.ms, id.seq};

    if (has)
        peers_set_has(ctx, place);
    else
        peers_set_wants(ctx, place);
}

static unsigned
manage_peers_list(struct manage *m, struct peers_member *out)
{
    struct fleet_node_status s;
    unsigned n = 0;

    for (unsigned i = 0; n < PEERS_MAX && fleet_node_status(m->fleet, i, &s); i++) {
        if (!s.can_be_asked)
            continue;
        memset(&out[n], 0, sizeof(out[n]));
        snprintf(out[n].name, sizeof(out[n].name), "%s", s.name);
        snprintf(out[n].address, sizeof(out[n].address), "%s", s.address);
        n++;
    }
    return n;
}

static void
manage_peers_members(struct manage *m)
{
    struct manage_peers *had = m->peers;
    struct peers_member *now = calloc(PEERS_MAX, sizeof(*now));
    unsigned n;

    if (now == NULL)
        return;
    n = manage_peers_list(m, now);
    if (n != had->n || memcmp(now, had->members, n * sizeof(*now)) != 0) {
        if (peers_set_members(m->env.peers, now, n) == 0) {
            memcpy(had->members, now, n * sizeof(*now));
            counter_add_shared(m->env.counters, COUNTER_fleet_peers, (uint64_t)n - had->n);
            had->n = n;
            elog(ELOG_INFO, "fleet: %u other nodes can be asked", n);
        }
    }
    free(now);
}

static void
manage_peers_secret(struct manage *m)
{
    const char *hex = fleet_secret(m->fleet);
    uint8_t secret[PEERS_SECRET];

    if (hex[0] == '\0' || strcmp(hex, m->peers->secret) == 0)
        return;
    if (strlen(hex) == 2 * sizeof(secret) && hex_take(secret, slice_str(hex)) &&
        peers_set_secret(m->env.peers, secret) == 0)
        snprintf(m->peers->secret, sizeof(m->peers->secret), "%s", hex);
}

/* ---- where they may be asked ---- */

/* NAME itself, or a name below it, as a headless service of Kubernetes has them. */
static bool
peers_is_below(struct slice host, struct slice name)
{
    if (host.len < name.len ||
        !slice_eq_nocase(slice_of(host.ptr + host.len - name.len, name.len), name))
        return false;
    return host.len == name.len || host.ptr[host.len - name.len - 1] == '.';
}

static bool
peers_in_dns(const struct manage_peers *p, const char *address)
{
    char text[INET6_ADDRSTRLEN + 1], known[INET6_ADDRSTRLEN + 1];
    struct in6_addr six;
    struct in_addr four;
    struct slice host;
    uint16_t port;
    int family;

    if (!address_host_port(slice_str(address), &host, &port))
        return false;
    if (peers_is_below(host, slice_str(p->name)))
        return true;
    snprintf(text, sizeof(text), "%.*s", (int)(host.len < sizeof(text) ? host.len : 0), host.ptr);
    family = inet_pton(AF_INET, text, &four) == 1 ? AF_INET : AF_INET6;
    if (family == AF_INET6 && inet_pton(AF_INET6, text, &six) != 1)
        return false;
    for (unsigned i = 0; i < p->addrs.n; i++) {
        const struct sockaddr_storage *at = &p->addrs.addr[i];
        const void *bytes = at->ss_family == AF_INET
                                ? (const void *)&((const struct sockaddr_in *)at)->sin_addr
                                : (const void *)&((const struct sockaddr_in6 *)at)->sin6_addr;

        if (at->ss_family == family && inet_ntop(family, bytes, known, sizeof(known)) != NULL &&
            memcmp(bytes, family == AF_INET ? (const void *)&four : (const void *)&six,
                family == AF_INET ? sizeof(four) : sizeof(six)) == 0)
            return true;
    }
    return false;
}

/* What the engine says leads no request elsewhere. */
static bool
manage_peers_may_ask(void *ctx, const char *address)
{
    const struct manage *m = ctx;
    const char *at = m->env.conf->fleet.peers;
    size_t len = strlen(address);

    if (strcmp(at, "engine") == 0)
        return true;
    if (m->peers->name != NULL)
        return peers_in_dns(m->peers, address);
    for (; at != NULL && *at != '\0'; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, address, len) == 0 && (at[len] == ' ' || at[len] == '\0'))
            return true;
    }
    return false;
}

static void
manage_peers_look_up(struct manage *m)
{
    struct manage_peers *p = m->peers;
    const struct resolve_addrs *addrs;
    uint64_t now = m->loop->clock.mono_ms, again = PEERS_DNS_MS;
    const char *why;
    int err;

    if (p->name == NULL)
        return;
    if (p->lookup == NULL) {
        if (now >= p->look_ms && resolve_start(&p->lookup, p->resolver, p->name) != 0)
            p->look_ms = now + PEERS_DNS_MS;
        return;
    }
    err = resolve_result(p->lookup, &addrs, &why);
    if (err == TERR_AGAIN)
        return;
    if (err == 0) {
        p->addrs = *addrs;
        if (addrs->ttl_ms > PEERS_DNS_MS)
            again = addrs->ttl_ms < PEERS_DNS_MAX_MS ? (uint64_t)addrs->ttl_ms : PEERS_DNS_MAX_MS;
    } else if (!p->said) { /* those of before are good still */
        elog(ELOG_WARN, "fleet: peers: %s: %s", p->name, why);
    }
    p->said = err != 0;
    resolve_close(&p->lookup);
    p->look_ms = now + again;
}

int
manage_peers_open(struct manage *m, struct fleet_env *env)
{
    const char *peers = m->env.conf->fleet.peers;

    m->peers = calloc(1, sizeof(*m->peers));
    if (m->peers == NULL)
        return TERR_NOMEM;
    env->place = manage_peers_place;
    env->place_ctx = m->env.peers;
    env->may_ask = manage_peers_may_ask;
    env->may_ask_ctx = m;
    if (strncmp(peers, "dns:", 4) != 0)
        return 0;
    m->peers->name = peers + 4;
    return resolver_open(&m->peers->resolver, m->loop, &m->task, m->params.resolver);
}

/* The loop has ended. */
void
manage_peers_close(struct manage *m)
{
    if (m->peers == NULL)
        return;
    if (m->peers->lookup != NULL)
        resolve_close(&m->peers->lookup);
    if (m->peers->resolver != NULL)
        resolver_close(&m->peers->resolver);
    free(m->peers);
    m->peers = NULL;
}

void
manage_peers_tick(struct manage *m)
{
    if (m->peers == NULL || m->fleet == NULL)
        return;
    manage_peers_look_up(m);
    fleet_say(m->fleet, m->env.conf->fleet.address, policies_rules(m->env.policies));
    manage_peers_secret(m);
    manage_peers_members(m);
}
