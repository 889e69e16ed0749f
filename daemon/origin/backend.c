/* backend.c -- one origin server: its settings, and whether it is well. */
#include <stdlib.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

int
backend_make(struct backend **out, struct registry *rg, const char *name, const char *full)
{
    struct backend *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return TERR_NOMEM;
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->queue_lock, NULL);
    list_init(&b->queue);
    b->registry = rg;
    b->full = strdup(full);
    b->outcome = registry_outcome(rg, full);
    /* Without a probe nothing speaks against it. */
    b->probe_says = true;
    atomic_init(&b->healthy, true);
    /* After all of them: backend_free() copes with each that is missing. */
    if (director_init(&b->director, DIRECTOR_BACKEND, name) != 0 || b->full == NULL ||
        b->outcome == NULL) {
        backend_free(&b);
        return TERR_NOMEM;
    }
    *out = b;
    return 0;
}

void
backend_free(struct backend **bp)
{
    struct backend *b = *bp;

    *bp = NULL;
    tassert(atomic_load(&b->conns) == 0);
    tassert(atomic_load(&b->queued) == 0);
    tassert(list_empty(&b->queue));
    /* The probe and the lookup first: both refer to the backend. */
    if (b->probe != NULL)
        probe_free(&b->probe);
    backend_forget_lookup(b);
    free(b->addrs);
    outcome_drop(&b->outcome);
    director_fini(&b->director);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->queue_lock);
    if (b->secure != NULL)
        b->registry->secure->close(&b->secure);
    free(b->conf);
    free(b->full);
    free(b);
}

/* Read anew: it is called from operators and probes, seldom, and on no loop in particular. */
int64_t
backend_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Under its lock.  True when its health is another than before. */
static bool
backend_judge(struct backend *b)
{
    enum backend_admin admin = backend_admin(b);
    /* A backend without an address is sick, whatever the operator says: there is no place to
     * connect to. */
    bool healthy =
        !b->none && b->placed && (admin == BACKEND_AUTO ? b->probe_says : admin == BACKEND_HEALTHY);

    if (healthy == backend_healthy(b))
        return false;
    if (healthy)
        atomic_store_explicit(&b->well_ms, backend_wall_ms(), memory_order_relaxed);
    /* The time first: a reader that sees the new health must not see the old time. */
    atomic_store_explicit(&b->changed_ms, backend_wall_ms(), memory_order_relaxed);
    atomic_store_explicit(&b->healthy, healthy, memory_order_release);
    return true;
}

void
backend_settle(struct backend *b)
{
    pthread_mutex_lock(&b->lock);
    /* `changed_ms` goes back to 0 behind it: a ramp-up is for a backend that changed its health
     * (shard_ramped). */
    backend_judge(b);
    atomic_store_explicit(&b->changed_ms, 0, memory_order_relaxed); /* so it began */
    pthread_mutex_unlock(&b->lock);
}

void
backend_set_placed(struct backend *b)
{
    /* Health has three writers on two sides (lookup, probe, operator): each changes its own part,
     * and one function judges. */
    pthread_mutex_lock(&b->lock);
    b->placed = true;
    backend_judge(b);
    pthread_mutex_unlock(&b->lock);
}

bool
backend_set_probed(struct backend *b, bool healthy)
{
    bool changed;

    pthread_mutex_lock(&b->lock);
    b->probe_says = healthy;
    changed = backend_judge(b);
    pthread_mutex_unlock(&b->lock);
    return changed;
}

void
backend_set_admin(struct backend *b, enum backend_admin a)
{
    pthread_mutex_lock(&b->lock);
    atomic_store_explicit(&b->admin, (int)a, memory_order_relaxed);
    /* The operator knows better than past failures: an ejection ends. */
    backend_forgive(b);
    backend_judge(b);
    pthread_mutex_unlock(&b->lock);
}

enum backend_admin
backend_admin(const struct backend *b)
{
    return (enum backend_admin)atomic_load_explicit(&b->admin, memory_order_relaxed);
}

int64_t
backend_load(const struct backend *b)
{
    /* A guess is enough for a choice: others change it meanwhile. */
    return atomic_load_explicit(&b->load, memory_order_relaxed);
}

void
backend_expect(struct backend *b)
{
    /* Relaxed: the number stands for itself, nothing is published with it. */
    atomic_fetch_add_explicit(&b->load, 1, memory_order_relaxed);
}

void
backend_unexpect(struct backend *b)
{
    int64_t had = atomic_fetch_sub_explicit(&b->load, 1, memory_order_relaxed);

    tassert(had > 0);
}

bool
backend_healthy(const struct backend *b)
{
    /* Relaxed: a fetch that comes a moment too late asks a backend that is sick, and fails as it
     * would have before. */
    return atomic_load_explicit(&b->healthy, memory_order_relaxed);
}

int64_t
backend_connections(const struct backend *b)
{
    return atomic_load_explicit(&b->conns, memory_order_relaxed);
}

const struct conf_backend *
backend_conf(const struct backend *b)
{
    return b->conf;
}

struct director *
backend_director(struct backend *b)
{
    return &b->director;
}

const char *
backend_full_name(const struct backend *b)
{
    return b->full;
}

unsigned
backend_number(const struct backend *b)
{
    return b->number;
}
