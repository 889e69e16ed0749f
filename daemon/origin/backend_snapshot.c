/* backend_snapshot.c -- the backends and directors that one configuration names. */
#include "daemon/origin/backend_snapshot.h"

#include <stdlib.h>

#include "conf/conf_compare.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/origin/yaml_directors.h"

#define SNAPSHOT_MAGIC OBJ_TAG('u', 'p', 's', 't')
struct backend_snapshot {
    uint32_t magic;
    _Atomic unsigned refs;
    const struct conf *conf;
    bool owns_conf;
    struct rcu_later later;      /* of the registry's hold */
    struct director **directors; /* held; as conf->directors */
    unsigned n;
    struct director *backends[]; /* held; as conf->backends */
};

/* The configuration goes last: the number of directors is read from it. */
static void
snapshot_free(struct backend_snapshot *u)
{
    directors_free(&u->directors, u->conf->ndirectors);
    for (unsigned i = 0; i < u->n; i++)
        director_drop(&u->backends[i]);
    if (u->owns_conf)
        conf_free(&u->conf);
    OBJ_FREE(u);
}

/* One that is described in the same way; NULL: there is none. */
static struct director *
snapshot_same(const struct backend_snapshot *old, const struct conf_backend *conf)
{
    for (unsigned i = 0; old != NULL && i < old->n; i++)
        if (conf_backend_same(&old->conf->backends[i], conf) &&
            backend_is_current(old->backends[i], conf))
            return old->backends[i];
    return NULL;
}

static int
snapshot_add(struct backend_snapshot *u, struct registry *rg, const struct conf_backend *conf)
{
    struct director **to = &u->backends[u->n];
    struct probe_conf probe;
    int err;

    if (conf->probe != NULL)
        probe = probe_conf_of(conf->probe);
    err = backend_admit(to, rg, conf, conf->probe != NULL ? &probe : NULL, conf->name, conf->name);
    /* Counted only when made: snapshot_free drops the first u->n. */
    u->n += err == 0;
    return err;
}

int
snapshot_open(struct backend_snapshot **out, struct registry *rg, const struct conf *conf,
    const struct backend_snapshot *old)
{
    struct backend_snapshot *u = calloc(1, sizeof(*u) + conf->nbackends * sizeof(u->backends[0]));
    int err = 0;

    if (u == NULL)
        return TERR_NOMEM;
    u->magic = SNAPSHOT_MAGIC;
    atomic_init(&u->refs, 1);
    u->conf = conf;
    while (u->n < conf->nbackends && err == 0) {
        /* The same backend, not one like it: connections, health and outcomes go on (README 6). */
        struct director *same = snapshot_same(old, &conf->backends[u->n]);

        if (same != NULL)
            u->backends[u->n++] = director_hold(same);
        else
            err = snapshot_add(u, rg, &conf->backends[u->n]);
    }
    if (err == 0)
        err = directors_make(&u->directors, u->backends, conf);
    /* `conf` is still the caller's: owns_conf is set later (snapshot_own_conf). */
    if (err != 0) {
        snapshot_free(u);
        return err;
    }
    *out = u;
    return 0;
}

void
snapshot_own_conf(struct backend_snapshot *u)
{
    OBJ_CHECK(u, SNAPSHOT_MAGIC);
    /* The first one's belongs to main(), which frees it when the process ends. */
    u->owns_conf = true;
}

struct backend_snapshot *
snapshot_hold(struct backend_snapshot *u)
{
    OBJ_CHECK(u, SNAPSHOT_MAGIC);
    /* Relaxed: the caller sees it by RCU, or holds it. */
    atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
    return u;
}

void
snapshot_drop(struct backend_snapshot **up)
{
    struct backend_snapshot *u;

    OBJ_TAKE(u, up, SNAPSHOT_MAGIC);
    /* Release and acquire: the last drop sees all that the others did with it. */
    if (atomic_fetch_sub_explicit(&u->refs, 1, memory_order_acq_rel) == 1)
        snapshot_free(u);
}

const struct conf *
snapshot_conf(const struct backend_snapshot *u)
{
    OBJ_CHECK(u, SNAPSHOT_MAGIC);
    return u->conf;
}

/* Backends first, then directors: the numbering of routes and of the default backend. */
struct director *
snapshot_nth(const struct backend_snapshot *u, unsigned n)
{
    OBJ_CHECK(u, SNAPSHOT_MAGIC);
    if (n < u->n)
        return u->backends[n];
    return n - u->n < u->conf->ndirectors ? u->directors[n - u->n] : NULL;
}

struct director *
snapshot_find(const struct backend_snapshot *u, struct slice name)
{
    OBJ_CHECK(u, SNAPSHOT_MAGIC);
    for (unsigned i = 0; i < u->n + u->conf->ndirectors; i++)
        /* Names are one space: the loader refuses a director that is called as a backend. */
        if (slice_eq(slice_str(director_name(snapshot_nth(u, i))), name))
            return snapshot_nth(u, i);
    return NULL;
}

struct backend_snapshot *
registry_snapshot(struct registry *rg)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    /* Acquire: what the snapshot points to is seen as it was published. */
    return atomic_load_explicit(&rg->snapshot, memory_order_acquire);
}

static void
snapshot_on_grace(struct rcu_later *later)
{
    struct backend_snapshot *u = container_of(later, struct backend_snapshot, later);

    snapshot_drop(&u);
}

void
registry_adopt(struct registry *rg, struct backend_snapshot **up)
{
    struct backend_snapshot *old = registry_snapshot(rg);
    const char *servers = (*up)->conf->params.resolver;

    /* Not fatal: everything else has been decided, and a reload counts as a whole. */
    if (rg->resolver != NULL && resolver_set_servers(rg->resolver, servers) != 0)
        elog(ELOG_ERROR, "resolver: %s; the name servers stay as they were", terr_text(TERR_NOMEM));
    atomic_store_explicit(&rg->snapshot, *up, memory_order_release);
    *up = NULL;
    /* A worker may have read the old one in this turn and not hold it yet. */
    rcu_free_later(&old->later, snapshot_on_grace);
}
