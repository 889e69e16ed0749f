/* origin.c -- pools of connections to backends. */
#include "daemon/origin/origin.h"

#include <limits.h>
#include <stdlib.h>

#include "conf/conf_compare.h"
#include "daemon/base/terr.h"
#include "daemon/net/proxy_header.h"
#include "daemon/origin/origins_priv.h"
#include "daemon/shm/counters.h"

int
origins_open(
    struct origins **out, struct loop *l, struct origin_protocol p, struct counter_set *counters)
{
    struct origins *os = calloc(1, sizeof(*os));

    if (os == NULL)
        return TERR_NOMEM;
    os->magic = ORIGINS_MAGIC;
    os->loop = l;
    os->protocol = p;
    os->counters = counters;
    list_init(&os->peer);
    *out = os;
    return 0;
}

/* The pools of a worker by the backend's number.  The array has pointers, because connections
 * point to their pool and realloc moves the array.  NULL: no memory. */
struct origin_pool *
origins_pool(struct origins *os, struct backend *b)
{
    unsigned n = b->number;
    struct origin_pool *pool;

    tassert(n < BACKENDS_MAX);
    if (n >= os->npools) {
        unsigned npools = n < 8 ? 8 : 2 * n;
        struct origin_pool **more = realloc(os->pools, npools * sizeof(struct origin_pool *));

        if (more == NULL)
            return NULL;
        memset(more + os->npools, 0, (npools - os->npools) * sizeof(struct origin_pool *));
        os->pools = more;
        os->npools = npools;
    }
    pool = os->pools[n];
    if (pool == NULL) {
        pool = calloc(1, sizeof(*pool));
        if (pool == NULL)
            return NULL;
        list_init(&pool->idle);
        os->pools[n] = pool;
    }
    if (pool->backend != b) {
        /* The number was another backend's.  That one was freed only when it had no connection
         * left, so the pool is empty. */
        tassert(pool->nidle == 0 && pool->nused == 0 && pool->nqueued == 0);
        pool->backend = b;
        pool->nticks = 0;
    }
    return pool;
}

/* The last thing done with it: its memory may go. */
static void
backend_leave(struct backend *b)
{
    int64_t had = atomic_fetch_sub_explicit(&b->conns, 1, memory_order_release);

    /* Release, for the acquire in registry_sweep, which frees the backend on the management
     * thread. */
    tassert(had > 0);
}

/* Counted before there is a connection: the limit is of all workers.  0 or TERR_BUSY.  (`open` is
 * read by a fetch that begins to wait, after it said so: both orders are the strictest.) */
static int
backend_enter(struct backend *b)
{
    int64_t max = b->conf->max_connections;

    if (max > 0 && atomic_fetch_add(&b->open, 1) >= max) {
        atomic_fetch_sub(&b->open, 1);
        return TERR_BUSY;
    }
    atomic_fetch_add_explicit(&b->conns, 1, memory_order_relaxed);
    return 0;
}

static void
origin_use(struct origin_conn *oc)
{
    oc->pool->nused++;
    oc->origins->nused++;
    backend_expect(oc->backend);
}

static void
origin_unuse(struct origin_conn *oc)
{
    oc->pool->nused--;
    oc->origins->nused--;
    backend_unexpect(oc->backend);
}

/* Closes it, idle or in use, and gives back each count that it is in.  May close another idle one
 * of the pool for a waiting fetch (origin_pass), so a caller that walks the pool starts again. */
void
origin_conn_free(struct origin_conn *oc)
{
    struct origins *os = oc->origins;
    struct backend *b = oc->backend;

    /* First out of the list: origin_pass below may close an idle one, and must not find this one
     * again. */
    if (oc->idle) {
        list_del(&oc->link);
        oc->pool->nidle--;
    } else {
        origin_unuse(oc);
    }
    task_cancel(&oc->idle_task);
    timer_unlink(&oc->idle_timer);
    if (oc->x != NULL)
        oc->x->ops->close(&oc->x);
    counter_add(os->counters, COUNTER_backend_conn_closed, 1);
    if (b->conf->max_connections > 0) {
        atomic_fetch_sub(&b->open, 1);
        origin_pass(os, oc->pool);
    }
    /* Behind origin_pass: the queue is in the backend, and its memory may go from here on. */
    backend_leave(b);
    OBJ_BURY(oc);
    usage_free(&os->loop->usage, USAGE_CONN, oc);
}

/* While idle: it hears something, its end, or its time is up.  All mean the same. */
static void
origin_on_idle(struct task *t)
{
    struct origin_conn *oc = container_of(t, struct origin_conn, idle_task);

    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    tassert(oc->idle);
    if (timer_expired(&oc->idle_timer) || !oc->x->ops->reusable(oc->x))
        origin_conn_free(oc);
}

/* The one used last, which is the least likely to be closed by the backend now.  What came on it
 * since (a late answer, the end) makes it useless: it would be taken for the answer to the next
 * request. */
static struct origin_conn *
origin_pool_take(struct origin_pool *pool, struct task *user)
{
    while (!list_empty(&pool->idle)) {
        struct origin_conn *oc = container_of(pool->idle.next, struct origin_conn, link);

        if (!oc->x->ops->reusable(oc->x) || !oc->x->ops->quiet(oc->x)) {
            origin_conn_free(oc);
            continue;
        }
        list_del(&oc->link);
        pool->nidle--;
        oc->idle = false;
        origin_use(oc);
        task_cancel(&oc->idle_task);
        timer_clear(&oc->idle_timer);
        oc->x->task = user;
        return oc;
    }
    return NULL;
}

/* Does this idle connection lead to where the backend is? */
static bool
origin_leads_to(const struct origin_conn *oc, struct backend *b)
{
    const struct conf_address *here = &b->conf->address, *there = &oc->backend->conf->address;
    unsigned generation = UINT_MAX; /* of another backend: look */

    if (oc->backend->conf->proxy_header != 0 || here->is_unix != there->is_unix ||
        !conf_backend_tls_same(&b->conf->tls, &oc->backend->conf->tls))
        return false;
    if (here->is_unix)
        return strcmp(here->path, there->path) == 0;
    return backend_port(b) == backend_port(oc->backend) && backend_is_at(b, oc->place, &generation);
}

/* Only idle ones of this worker: a connection never changes its loop. */
static struct origin_conn *
origin_find_for(const struct origins *os, const struct origin_pool *pool)
{
    for (unsigned i = 0; i < os->npools; i++) {
        struct origin_pool *other = os->pools[i];

        if (other == NULL || other == pool || other->nidle == 0)
            continue;
        for (struct list *l = other->idle.next; l != &other->idle; l = l->next) {
            struct origin_conn *oc = container_of(l, struct origin_conn, link);

            if (origin_leads_to(oc, pool->backend))
                return oc;
        }
    }
    return NULL;
}

/* The backend has no idle connection, but another one at its address has: most often the same
 * backend before a reload or under another policy.  That one becomes its own.  False: there is
 * none, or max_connections forbids it. */
static bool
origin_adopt(struct origins *os, struct origin_pool *pool)
{
    struct origin_conn *oc = origin_find_for(os, pool);
    struct backend *old;

    if (oc == NULL || backend_enter(pool->backend) != 0)
        return false;
    old = oc->backend;
    /* Out of the old pool before origin_pass, which may close an idle connection there. */
    list_del(&oc->link);
    oc->pool->nidle--;
    if (old->conf->max_connections > 0) {
        atomic_fetch_sub(&old->open, 1);
        origin_pass(os, oc->pool);
    }
    oc->backend = pool->backend;
    oc->pool = pool;
    /* origin_give looks whether it is still there; at a Unix socket it always is. */
    oc->generation = pool->backend->conf->address.is_unix ? 0 : UINT_MAX;
    list_add_head(&pool->idle, &oc->link);
    pool->nidle++;
    /* Last: a retired backend may be freed from here on. */
    backend_leave(old);
    return true;
}

/* A new one.  The backend has counted it. */
static int
origin_connect(struct origin_conn **out, struct origins *os, struct origin_pool *pool,
    const struct origin_want *want, struct task *user)
{
    unsigned version = (unsigned)pool->backend->conf->proxy_header;
    char header[PROXY_HEADER_WRITE_MAX];
    struct origin_target target = {.preface = {header, 0}};
    struct origin_conn *oc = usage_calloc(&os->loop->usage, USAGE_CONN, sizeof(*oc));
    struct backend_place place;
    int err;

    /* There is nothing yet that origin_conn_free could take: the counts of backend_enter go back
     * here. */
    if (oc == NULL) {
        if (pool->backend->conf->max_connections > 0)
            atomic_fetch_sub(&pool->backend->open, 1);
        backend_leave(pool->backend);
        return TERR_NOMEM;
    }
    *oc = (struct origin_conn){
        .magic = ORIGIN_CONN_MAGIC, .backend = pool->backend, .pool = pool, .origins = os};
    list_init(&oc->link);
    task_init(&oc->idle_task, &os->loop->tasks, origin_on_idle);
    timer_init(&oc->idle_timer, &oc->idle_task);
    origin_use(oc);
    backend_place_of(pool->backend, want->attempt, &place);
    oc->place = place.key;
    oc->generation = place.generation;
    target.to = &place.target;
    if (version > 0)
        target.preface.len = proxy_header_write(header, version, want->ends);
    err = os->protocol.open(&oc->x, os->loop, &os->protocol, &target);
    if (err != 0) {
        counter_add(os->counters, COUNTER_backend_conn_failed, 1);
        origin_conn_free(oc);
        return err;
    }
    oc->x->task = user;
    counter_add(os->counters, COUNTER_backend_conn_new, 1);
    *out = oc;
    return 0;
}

int
origin_take(struct origin_conn **out, struct origins *os, struct backend *b,
    const struct origin_want *want, struct task *user)
{
    /* The PROXY header names the client once, for the whole connection. */
    bool fresh = want->fresh || b->conf->proxy_header != 0;
    struct origin_pool *pool;
    struct origin_conn *oc;
    int err;

    OBJ_CHECK(os, ORIGINS_MAGIC);
    tassert(!backend_is_retired(b)); /* the caller holds it */
    /* Before the idle connections: a sick backend is not asked over those either, as in Varnish. */
    if (!backend_healthy(b)) {
        counter_add(os->counters, COUNTER_backend_unhealthy, 1);
        return TERR_NOBACKEND;
    }
    pool = origins_pool(os, b);
    if (pool == NULL)
        return TERR_NOMEM;
    oc = fresh ? NULL : origin_pool_take(pool, user);
    /* An adopted one may have ended meanwhile.  Each pass takes one out of another pool, so this
     * ends. */
    while (oc == NULL && !fresh && origin_adopt(os, pool))
        oc = origin_pool_take(pool, user);
    if (oc != NULL) {
        counter_add(os->counters, COUNTER_backend_conn_reused, 1);
        *out = oc;
        return 0;
    }
    if (fresh && b->conf->max_connections > 0 && pool->nidle > 0 &&
        atomic_load(&b->open) >= b->conf->max_connections) /* it cannot have that one */
        origin_conn_free(container_of(pool->idle.prev, struct origin_conn, link));
    err = backend_enter(b);
    if (err != 0)
        return err; /* origin_queue counts refused fetches */
    if (b->conf->max_connections > 0 && os->registry == NULL)
        origins_join(os, b->registry);
    return origin_connect(out, os, pool, want, user);
}

struct origin_exchange *
origin_exchange(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return oc->x;
}

void
origin_give(struct origin_conn **ocp)
{
    const struct conf_backend *conf;
    struct origin_conn *oc;
    struct origins *os;

    OBJ_TAKE(oc, ocp, ORIGIN_CONN_MAGIC);
    os = oc->origins;
    conf = oc->backend->conf;
    if (os->draining || !oc->x->ops->reusable(oc->x) || oc->pool->nidle >= conf->max_idle ||
        conf->proxy_header != 0 || backend_is_retired(oc->backend) ||
        !backend_is_at(oc->backend, oc->place, &oc->generation)) {
        origin_conn_free(oc);
        return;
    }
    oc->x->ops->rest(oc->x);
    oc->x->task = &oc->idle_task;
    origin_unuse(oc);
    oc->idle = true;
    oc->pool->nidle++;
    list_add_head(&oc->pool->idle, &oc->link);
    timer_set(&os->loop->wheel, &oc->idle_timer, loop_deadline(os->loop, conf->idle_timeout));
    /* `open` did not fall, but a waiting fetch of this worker can use the connection as it is. */
    if (conf->max_connections > 0)
        origin_pass(os, oc->pool);
}

void
origin_discard(struct origin_conn **ocp)
{
    struct origin_conn *oc;

    OBJ_TAKE(oc, ocp, ORIGIN_CONN_MAGIC);
    origin_conn_free(oc);
}

static void
origin_pool_drain(struct origin_pool *pool)
{
    while (!list_empty(&pool->idle))
        origin_conn_free(container_of(pool->idle.next, struct origin_conn, link));
}

/* An idle one to an address that the backend's name has no more; NULL: there is none. */
static struct origin_conn *
origin_pool_stray(const struct origin_pool *pool)
{
    for (struct list *l = pool->idle.next; l != &pool->idle; l = l->next) {
        struct origin_conn *oc = container_of(l, struct origin_conn, link);

        if (!backend_is_at(pool->backend, oc->place, &oc->generation))
            return oc;
    }
    return NULL;
}

static void
origin_pool_move(struct origin_pool *pool)
{
    struct origin_conn *oc;

    while ((oc = origin_pool_stray(pool)) != NULL)
        origin_conn_free(oc); /* and perhaps others with it, for a waiting fetch */
}

/* Called once a second on the worker.  Closes what leads to an address that a name has no more,
 * and, after some ticks for others to adopt them, what belongs to a retired backend. */
void
origins_tick(struct origins *os)
{
    OBJ_CHECK(os, ORIGINS_MAGIC);
    for (unsigned i = 0; i < os->npools; i++) {
        struct origin_pool *pool = os->pools[i];

        /* While it has a connection the backend is there to be asked. */
        if (pool == NULL || pool->nidle == 0)
            continue;
        if (!backend_is_retired(pool->backend))
            origin_pool_move(pool);
        else if (pool->nticks++ >= ORIGIN_RETIRED_TICKS)
            origin_pool_drain(pool);
    }
}

/* The worker is about to end: nothing stays idle, and what is in use now is closed when it is
 * given back. */
void
origins_drain(struct origins *os)
{
    OBJ_CHECK(os, ORIGINS_MAGIC);
    os->draining = true;
    origins_leave(os);
    for (unsigned i = 0; i < os->npools; i++)
        if (os->pools[i] != NULL)
            origin_pool_drain(os->pools[i]);
}

void
origins_close(struct origins **op)
{
    struct origins *os;

    OBJ_TAKE(os, op, ORIGINS_MAGIC);
    origins_drain(os);
    tassert(os->nused == 0);
    for (unsigned i = 0; i < os->npools; i++)
        free(os->pools[i]);
    free(os->pools);
    OBJ_FREE(os);
}
