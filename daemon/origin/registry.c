/* registry.c -- the backends of the process, by number. */
#include <stdlib.h>

#include "conf/conf_copy.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/shm/backend_names.h"

_Static_assert((int)BACKENDS_MAX <= (int)BACKEND_NAMES_MAX, "each has a place for its name");

static void
registry_tell_name(void *ctx, struct backend *b)
{
    struct registry *rg = ctx;

    if (rg->names != NULL)
        backend_names_set(rg->names, b->number, b->full);
}

/* A number for it: the lowest that is free. */
static int
registry_admit(struct registry *rg, struct backend *b)
{
    unsigned n = 0;

    /* The lowest, since each worker has an array of pools by number (origins_pool). */
    while (n < rg->nslots && rg->slots[n] != NULL)
        n++;
    if (n == BACKENDS_MAX)
        return TERR_LIMIT;
    if (n == rg->nslots)
        rg->nslots++;
    b->number = n;
    rg->slots[n] = b;
    registry_tell_name(rg, b);
    return 0;
}

int
registry_open(struct registry **out, const struct conf *conf)
{
    return registry_open_secure(out, conf, NULL);
}

int
registry_open_secure(
    struct registry **out, const struct conf *conf, const struct backend_secure *secure)
{
    struct registry *rg = calloc(1, sizeof(*rg));
    struct backend_snapshot *u;
    int err;

    if (rg == NULL)
        return TERR_NOMEM;
    rg->magic = REGISTRY_MAGIC;
    rg->secure = secure;
    pthread_mutex_init(&rg->peers_lock, NULL);
    list_init(&rg->peers);
    err = snapshot_open(&u, rg, conf, NULL);
    /* rg->snapshot is NULL still: calloc() made it so, and registry_close() looks. */
    if (err != 0) {
        registry_close(&rg);
        return err;
    }
    atomic_init(&rg->snapshot, u);
    *out = rg;
    return 0;
}

void
registry_close(struct registry **rp)
{
    struct registry *rg;
    struct backend_snapshot *u;

    OBJ_TAKE(rg, rp, REGISTRY_MAGIC);
    tassert(rg->probes == NULL && rg->resolver == NULL);
    /* Relaxed: no other thread is left. */
    u = atomic_load_explicit(&rg->snapshot, memory_order_relaxed);
    if (u != NULL)
        snapshot_drop(&u);
    for (unsigned i = 0; i < rg->nslots; i++) {
        struct backend *b = rg->slots[i];

        if (b == NULL)
            continue;
        /* The workers closed their pools before, and the last snapshot was the last holder. */
        tassert(atomic_load(&b->conns) == 0);
        tassert(backend_is_retired(b));
        backend_free(&b);
    }
    tassert(list_empty(&rg->peers));
    pthread_mutex_destroy(&rg->peers_lock);
    OBJ_FREE(rg);
}

void
registry_set_counters(struct registry *rg, struct counters *counters)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    rg->counters = counters;
}

void
registry_set_names(struct registry *rg, struct backend_names *names)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    rg->names = names;
    /* Backends that were admitted before there was a place for names. */
    registry_each(rg, registry_tell_name, rg);
}

void
registry_each(struct registry *rg, void (*f)(void *ctx, struct backend *b), void *ctx)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    for (unsigned i = 0; i < rg->nslots; i++)
        /* A retired one has no name any more for people: another may have it. */
        if (rg->slots[i] != NULL && !backend_is_retired(rg->slots[i]))
            f(ctx, rg->slots[i]);
}

void
registry_tick(struct registry *rg, uint64_t now_ms)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    for (unsigned i = 0; i < rg->nslots; i++)
        if (rg->slots[i] != NULL) {
            backend_eject_tick(rg->slots[i], now_ms);
            backend_name_tick(rg->slots[i], now_ms);
        }
}

void
registry_sweep(struct registry *rg)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    for (unsigned i = 0; i < rg->nslots; i++) {
        struct backend *b = rg->slots[i];

        /* In this order: a connecting fetch has a hold, so none connects after the last hold. */
        if (b == NULL || !backend_is_retired(b) ||
            atomic_load_explicit(&b->conns, memory_order_acquire) != 0)
            continue;
        rg->slots[i] = NULL;
        backend_free(&b);
    }
    /* Numbers at the end are given back too, so that all walks stay short. */
    while (rg->nslots > 0 && rg->slots[rg->nslots - 1] == NULL)
        rg->nslots--;
}

/* Held for the caller.  A retired backend's is found too: one that replaces it goes on counting. */
struct outcome *
registry_outcome(struct registry *rg, const char *full)
{
    for (unsigned i = 0; i < rg->nslots; i++)
        /* On the management thread, as all that reads slots. */
        if (rg->slots[i] != NULL && strcmp(rg->slots[i]->full, full) == 0)
            return outcome_hold(rg->slots[i]->outcome);
    return outcome_new();
}

/* Files of certificates are read, once for all connections. */
static int
backend_open_secure(struct backend *b)
{
    const struct backend_secure *secure = b->registry->secure;
    char why[512] = "";
    int err;

    if (secure == NULL)
        return 0; /* it is only looked at */
    err = secure->open(&b->secure, b->conf, why, sizeof(why));
    if (err != 0)
        elog(ELOG_ERROR, "backend %s: tls: %s", b->full, why[0] != '\0' ? why : terr_text(err));
    return err;
}

bool
backend_is_current(struct director *d, const struct conf_backend *conf)
{
    const struct backend *b = director_backend(d);

    return b->secure == NULL || b->registry->secure->is_current(b->secure, conf);
}

int
backend_admit(struct director **out, struct registry *rg, const struct conf_backend *conf,
    const struct probe_conf *probe, const char *name, const char *full)
{
    static const struct conf_backend none = {
        .name = "none", .address = {.text = "none", .path = "", .host = ""}, .host_header = ""};
    struct backend *b;
    int err;

    OBJ_CHECK(rg, REGISTRY_MAGIC);
    /* First: a retired backend without connections gives its number back. */
    registry_sweep(rg);
    err = backend_make(&b, rg, name, full);
    if (err != 0)
        return err;
    b->conf = conf_backend_copy(conf != NULL ? conf : &none);
    b->none = conf == NULL;
    /* A Unix socket has a path, and needs no lookup. */
    b->placed = conf != NULL && (conf->address.is_unix || conf->address.naddrs > 0);
    if (b->conf == NULL)
        err = TERR_NOMEM;
    if (err == 0 && !b->none && conf->tls.said)
        err = backend_open_secure(b);
    if (err == 0 && probe != NULL && !b->none)
        err = probe_new(&b->probe, b, probe);
    /* Last: what has a number is freed by the sweep alone. */
    if (err == 0)
        err = registry_admit(rg, b);
    if (err != 0) {
        backend_free(&b);
        return err;
    }
    /* Before a probe can speak: the health that it begins with is no change. */
    backend_settle(b);
    if (rg->probes != NULL)
        probes_admit(rg->probes, b);
    if (!b->none && !b->placed)
        elog(ELOG_WARN, "backend %s: '%s' cannot be resolved: %s; it has no address until it can",
            b->full, conf->address.host,
            conf->address.unresolved != NULL ? conf->address.unresolved : "not looked up yet");
    *out = &b->director;
    return 0;
}

/* From a policy: one without any address and without the word that it may come later is a
 * mistake. */
int
backend_new(struct director **out, struct registry *rg, const struct conf_backend *conf,
    const struct probe_conf *probe, const char *name, const char *full)
{
    if (conf != NULL && !conf->address.is_unix && conf->address.naddrs == 0 &&
        conf->address.unresolved == NULL)
        return TERR_INVALID;
    return backend_admit(out, rg, conf, probe, name, full);
}
