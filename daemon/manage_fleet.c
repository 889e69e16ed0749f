/* manage_fleet.c -- the node's part in its fleet, on the management loop. */
#include "daemon/cache/invalidation.h"
#include "daemon/fleet/fleet.h"
#include "daemon/manage_priv.h"

static uint64_t
manage_fleet_append(void *ctx, const struct invalidation *inv)
{
    return fleet_append(ctx, inv);
}

int
manage_fleet_open(struct manage *m)
{
    const struct conf_fleet *conf = &m->env.conf->fleet;
    struct fleet_env env = {
        .loop = m->loop, .conf = conf, .cache = m->env.cache, .counters = m->env.counters};
    int err;

    tassert(m->fleet == NULL);
    if (!conf->said)
        return 0;
    err = fleet_open(&m->fleet, &env);
    if (err != 0)
        return err;
    m->log = (struct invalidation_log){
        .append = manage_fleet_append, .ctx = m->fleet, .wants_text = true};
    cache_set_invalidation_log(m->env.cache, &m->log);
    return 0;
}

/* The workers have ended: nothing is appended any more. */
void
manage_fleet_close(struct manage *m)
{
    if (m->fleet != NULL)
        fleet_close(&m->fleet);
}
