/* manage_fleet.c -- the node's part in its fleet, on the management loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/cache/invalidation.h"
#include "daemon/fleet/fleet.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/origin/peers.h"
#include "daemon/policy/policies.h"
#include "daemon/shm/counters.h"
#include "daemon/tls/tls.h"
#include "storage/storage.h"

static uint64_t
manage_fleet_append(void *ctx, const struct invalidation *inv)
{
    return fleet_append(ctx, inv);
}

static void
manage_fleet_begin(void *ctx)
{
    fleet_append_begin(ctx);
}

static void
manage_fleet_end(void *ctx)
{
    fleet_append_end(ctx);
}

static bool
manage_fleet_is_settled(const void *ctx)
{
    return fleet_is_settled(ctx);
}

/* Of each address: the names that its certificate is for differ. */
static int
manage_fleet_secure(struct manage *m)
{
    const struct conf_fleet *conf = &m->env.conf->fleet;
    char why[256];

    for (unsigned i = 0; i < conf->nengines && conf->tls.said; i++) {
        const struct conf_engine *e = &conf->engines[i];
        const struct tls_client_conf how = {.verify = conf->tls.verify != 0,
            .ca = conf->tls.ca,
            .sni = e->sni,
            .name = e->verify_name,
            .certificate = conf->tls.certificate,
            .key = conf->tls.key,
            .loops = m->env.nworkers + 1};
        int err = tls_client_open(&m->fleet_secure[i], &how, why, sizeof(why));

        if (err != 0) {
            elog(ELOG_ERROR, "fleet: TLS to engine %s: %s", e->text, why);
            return err;
        }
    }
    return 0;
}

/* ---- the other nodes, as those that can be asked ---- */

/* What the workers have. */
struct manage_peers {
    struct peers_member members[PEERS_MAX];
    unsigned n;
    char secret[2 * PEERS_SECRET + 1];
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
    unsigned byte;

    if (hex[0] == '\0' || strcmp(hex, m->peers->secret) == 0)
        return;
    for (unsigned i = 0; i < PEERS_SECRET; i++) {
        if (sscanf(hex + 2 * (size_t)i, "%2x", &byte) != 1)
            return;
        secret[i] = (uint8_t)byte;
    }
    if (peers_set_secret(m->env.peers, secret) == 0)
        snprintf(m->peers->secret, sizeof(m->peers->secret), "%s", hex);
}

void
manage_peers_tick(struct manage *m)
{
    if (m->peers == NULL || m->fleet == NULL)
        return;
    fleet_say(m->fleet, m->env.conf->fleet.address, policies_digest(m->env.policies));
    manage_peers_secret(m);
    manage_peers_members(m);
}

int
manage_fleet_open(struct manage *m)
{
    const struct conf_fleet *conf = &m->env.conf->fleet;
    struct fleet_env env = {.loop = m->loop,
        .conf = conf,
        .cache = m->env.cache,
        .counters = m->env.counters,
        .secure = conf->tls.said ? m->fleet_secure : NULL,
        .name_servers = m->params.resolver};
    int err;

    tassert(m->fleet == NULL);
    if (!conf->said)
        return 0;
    if (m->env.peers != NULL) {
        env.place = manage_peers_place;
        env.place_ctx = m->env.peers;
        m->peers = calloc(1, sizeof(*m->peers));
        if (m->peers == NULL)
            return TERR_NOMEM;
    }
    err = manage_fleet_secure(m);
    if (err == 0)
        err = fleet_open(&m->fleet, &env);
    if (err != 0)
        return err;
    m->log = (struct invalidation_log){.append = manage_fleet_append,
        .begin = manage_fleet_begin,
        .end = manage_fleet_end,
        .ctx = m->fleet,
        .wants_text = true};
    err = manage_shared_open(m);
    if (err != 0)
        return err;
    if (m->env.peers != NULL)
        peers_set_settled(m->env.peers, manage_fleet_is_settled, m->fleet);
    cache_set_invalidation_log(m->env.cache, &m->log);
    return 0;
}

/* What is still answered is validated; the one that follows has the name. */
void
manage_fleet_retire(struct manage *m)
{
    if (m->fleet != NULL)
        fleet_retire(m->fleet);
}

void
manage_fleet_charge(struct manage *m)
{
    uint64_t bytes = m->fleet != NULL ? fleet_bytes(m->fleet) : 0;

    storage_charge(m->env.storage, CHARGE_FLEET, m->fleet_charged, bytes);
    m->fleet_charged = bytes;
}

/* The workers have ended: nothing is appended any more. */
void
manage_fleet_close(struct manage *m)
{
    if (m->fleet != NULL)
        fleet_close(&m->fleet);
    manage_shared_close(m);
    free(m->peers);
    m->peers = NULL;
    for (unsigned i = 0; i < CONF_ENGINES_MAX; i++)
        if (m->fleet_secure[i] != NULL)
            tls_client_close(&m->fleet_secure[i]);
}
