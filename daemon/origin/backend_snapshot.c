/* upstreams.c -- the backends and directors that one configuration names. */
#include "daemon/origin/backend_snapshot.h"

#include <stdlib.h>

#include "conf/conf_compare.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/origin/yaml_directors.h"

#define UPSTREAMS_MAGIC OBJ_TAG('u', 'p', 's', 't')
struct upstreams {
    uint32_t magic;
    _Atomic unsigned refs;
    const struct conf *conf;
    bool owns_conf;
    struct rcu_later later;      /* of the registry's hold */
    struct director **directors; /* held; as conf->directors */
    unsigned n;
    struct director *backends[]; /* held; as conf->backends */
};

static void
upstreams_free(struct upstreams *u)
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
upstreams_same(const struct upstreams *old, const struct conf_backend *conf)
{
    for (unsigned i = 0; old != NULL && i < old->n; i++)
        if (conf_backend_same(&old->conf->backends[i], conf))
            return old->backends[i];
    return NULL;
}

static int
upstreams_add(struct upstreams *u, struct registry *rg, const struct conf_backend *conf)
{
    struct director **to = &u->backends[u->n];
    struct probe_conf probe;
    int err;

    if (conf->probe != NULL)
        probe = probe_conf_of(conf->probe);
    err = backend_admit(to, rg, conf, conf->probe != NULL ? &probe : NULL, conf->name, conf->name);
    u->n += err == 0;
    return err;
}

int
upstreams_open(struct upstreams **out, struct registry *rg, const struct conf *conf,
    const struct upstreams *old)
{
    struct upstreams *u = calloc(1, sizeof(*u) + conf->nbackends * sizeof(u->backends[0]));
    int err = 0;

    if (u == NULL)
        return TERR_NOMEM;
    u->magic = UPSTREAMS_MAGIC;
    atomic_init(&u->refs, 1);
    u->conf = conf;
    while (u->n < conf->nbackends && err == 0) {
        struct director *same = upstreams_same(old, &conf->backends[u->n]);

        if (same != NULL)
            u->backends[u->n++] = director_hold(same);
        else
            err = upstreams_add(u, rg, &conf->backends[u->n]);
    }
    if (err == 0)
        err = directors_make(&u->directors, u->backends, conf);
    if (err != 0) {
        upstreams_free(u);
        return err;
    }
    *out = u;
    return 0;
}

void
upstreams_own_conf(struct upstreams *u)
{
    OBJ_CHECK(u, UPSTREAMS_MAGIC);
    u->owns_conf = true;
}

struct upstreams *
upstreams_hold(struct upstreams *u)
{
    OBJ_CHECK(u, UPSTREAMS_MAGIC);
    atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
    return u;
}

void
upstreams_drop(struct upstreams **up)
{
    struct upstreams *u;

    OBJ_TAKE(u, up, UPSTREAMS_MAGIC);
    if (atomic_fetch_sub_explicit(&u->refs, 1, memory_order_acq_rel) == 1)
        upstreams_free(u);
}

const struct conf *
upstreams_conf(const struct upstreams *u)
{
    OBJ_CHECK(u, UPSTREAMS_MAGIC);
    return u->conf;
}

struct director *
upstreams_nth(const struct upstreams *u, unsigned n)
{
    OBJ_CHECK(u, UPSTREAMS_MAGIC);
    if (n < u->n)
        return u->backends[n];
    return n - u->n < u->conf->ndirectors ? u->directors[n - u->n] : NULL;
}

struct director *
upstreams_find(const struct upstreams *u, struct slice name)
{
    OBJ_CHECK(u, UPSTREAMS_MAGIC);
    for (unsigned i = 0; i < u->n + u->conf->ndirectors; i++)
        if (slice_eq(slice_str(director_name(upstreams_nth(u, i))), name))
            return upstreams_nth(u, i);
    return NULL;
}

struct upstreams *
registry_upstreams(struct registry *rg)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    return atomic_load_explicit(&rg->upstreams, memory_order_acquire);
}

static void
upstreams_on_grace(struct rcu_later *later)
{
    struct upstreams *u = container_of(later, struct upstreams, later);

    upstreams_drop(&u);
}

void
registry_adopt(struct registry *rg, struct upstreams **up)
{
    struct upstreams *old = registry_upstreams(rg);

    atomic_store_explicit(&rg->upstreams, *up, memory_order_release);
    *up = NULL;
    rcu_free_later(&old->later, upstreams_on_grace);
}
