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

static void
manage_fleet_watch(void *ctx, struct invalidation_watch *w)
{
    fleet_watch(ctx, w);
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
    err = m->env.peers != NULL ? manage_peers_open(m, &env) : 0;
    if (err == 0)
        err = manage_fleet_secure(m);
    if (err == 0)
        err = fleet_open(&m->fleet, &env);
    if (err != 0)
        return err;
    m->log = (struct invalidation_log){.append = manage_fleet_append,
        .begin = manage_fleet_begin,
        .end = manage_fleet_end,
        .watch = manage_fleet_watch,
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
    uint64_t bytes = m->fleet != NULL ? fleet_bytes(m->fleet) + manage_shared_bytes(m) : 0;

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
    manage_peers_close(m);
    for (unsigned i = 0; i < CONF_ENGINES_MAX; i++)
        if (m->fleet_secure[i] != NULL)
            tls_client_close(&m->fleet_secure[i]);
}
