/* origin.c -- pools of connections to backends. */
#include "daemon/origin/origin.h"

#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/origin/origin_priv.h"
#include "daemon/shm/counters.h"

/* One for each backend number.  A number is given to another backend only when no connection to
 * the one before is left, so then its pool is empty. */
struct origin_pool {
    struct list idle; /* of origin_conn.link; the most recently used first */
    struct backend *backend;
    unsigned nidle, nused;
};

#define ORIGINS_MAGIC OBJ_TAG('o', 'r', 'i', 'g')
struct origins {
    uint32_t magic;
    bool draining;
    struct loop *loop;
    const struct h1_conf *h1;
    struct counter_set *counters;
    unsigned nused, npools;
    struct origin_pool **pools; /* NULL: never asked for; they do not move */
};

#define ORIGIN_CONN_MAGIC OBJ_TAG('o', 'c', 'o', 'n')
struct origin_conn {
    uint32_t magic;
    bool reused, idle;
    struct backend *backend; /* kept by being counted in its `conns` */
    struct origin_pool *pool;
    struct origins *origins;
    struct h1_origin *h1;
    struct list link;
    struct task idle_task; /* the connection's user while it is idle */
    struct timer idle_timer;
};

int
origins_open(
    struct origins **out, struct loop *l, const struct h1_conf *h1, struct counter_set *counters)
{
    struct origins *os = calloc(1, sizeof(*os));

    if (os == NULL)
        return TERR_NOMEM;
    os->magic = ORIGINS_MAGIC;
    os->loop = l;
    os->h1 = h1;
    os->counters = counters;
    *out = os;
    return 0;
}

/* The backend's own; NULL: no memory. */
static struct origin_pool *
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
        tassert(pool->nidle == 0 && pool->nused == 0);
        pool->backend = b;
    }
    return pool;
}

/* The last thing done with it: its memory may go. */
static void
backend_leave(struct backend *b)
{
    int64_t had = atomic_fetch_sub_explicit(&b->conns, 1, memory_order_release);

    tassert(had > 0);
}

/* Counted before there is a connection: the limit is of all workers.  0 or TERR_BUSY. */
static int
backend_enter(struct backend *b)
{
    int64_t max = b->conf->max_connections;
    int64_t had = atomic_fetch_add_explicit(&b->conns, 1, memory_order_relaxed);

    if (max == 0 || had < max)
        return 0;
    backend_leave(b);
    return TERR_BUSY;
}

static void
origin_conn_free(struct origin_conn *oc)
{
    struct origins *os = oc->origins;

    if (oc->idle) {
        list_del(&oc->link);
        oc->pool->nidle--;
    } else {
        oc->pool->nused--;
        os->nused--;
    }
    task_cancel(&oc->idle_task);
    timer_unlink(&oc->idle_timer);
    if (oc->h1 != NULL)
        h1_origin_close(&oc->h1);
    counter_add(os->counters, COUNTER_backend_conn_closed, 1);
    backend_leave(oc->backend);
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
    if (timer_expired(&oc->idle_timer) || !h1_origin_reusable(oc->h1))
        origin_conn_free(oc);
}

static struct origin_conn *
origin_pool_take(struct origin_pool *pool, struct task *user)
{
    while (!list_empty(&pool->idle)) {
        struct origin_conn *oc = container_of(pool->idle.next, struct origin_conn, link);

        if (!h1_origin_reusable(oc->h1) || !h1_origin_quiet(oc->h1)) {
            origin_conn_free(oc);
            continue;
        }
        list_del(&oc->link);
        pool->nidle--;
        oc->idle = false;
        oc->reused = true;
        pool->nused++;
        oc->origins->nused++;
        task_cancel(&oc->idle_task);
        timer_clear(&oc->idle_timer);
        h1_origin_set_user(oc->h1, user);
        return oc;
    }
    return NULL;
}

/* A new one.  The backend has counted it. */
static int
origin_connect(struct origin_conn **out, struct origins *os, struct origin_pool *pool,
    unsigned attempt, struct task *user)
{
    const struct conf_address *address = &pool->backend->conf->address;
    struct origin_conn *oc = usage_calloc(&os->loop->usage, USAGE_CONN, sizeof(*oc));
    unsigned nth;
    int err;

    if (oc == NULL) {
        backend_leave(pool->backend);
        return TERR_NOMEM;
    }
    *oc = (struct origin_conn){
        .magic = ORIGIN_CONN_MAGIC, .backend = pool->backend, .pool = pool, .origins = os};
    list_init(&oc->link);
    task_init(&oc->idle_task, &os->loop->tasks, origin_on_idle);
    timer_init(&oc->idle_timer, &oc->idle_task);
    pool->nused++;
    os->nused++;
    nth = address->is_unix ? 0 : attempt % address->naddrs;
    err = h1_origin_open(&oc->h1, os->loop, os->h1, address, nth, user);
    if (err != 0) {
        counter_add(os->counters, COUNTER_backend_conn_failed, 1);
        origin_conn_free(oc);
        return err;
    }
    counter_add(os->counters, COUNTER_backend_conn_new, 1);
    *out = oc;
    return 0;
}

int
origin_take(struct origin_conn **out, struct origins *os, struct backend *b, bool fresh,
    unsigned attempt, struct task *user)
{
    struct origin_pool *pool;
    struct origin_conn *oc;
    int err;

    OBJ_CHECK(os, ORIGINS_MAGIC);
    tassert(!backend_is_retired(b)); /* the caller holds it */
    if (!backend_healthy(b)) {
        counter_add(os->counters, COUNTER_backend_unhealthy, 1);
        return TERR_NOBACKEND;
    }
    pool = origins_pool(os, b);
    if (pool == NULL)
        return TERR_NOMEM;
    if (!fresh && (oc = origin_pool_take(pool, user)) != NULL) {
        counter_add(os->counters, COUNTER_backend_conn_reused, 1);
        *out = oc;
        return 0;
    }
    err = backend_enter(b);
    if (err != 0) {
        counter_add(os->counters, COUNTER_backend_busy, 1);
        return err;
    }
    return origin_connect(out, os, pool, attempt, user);
}

int
origin_connected(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_connected(oc->h1);
}

void
origin_begin(struct origin_conn *oc, enum http_method asked)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    h1_origin_begin(oc->h1, asked);
}

ssize_t
origin_send(struct origin_conn *oc, const struct iovec *iov, unsigned n, bool more)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_send(oc->h1, iov, n, more);
}

bool
origin_sending(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_sending(oc->h1);
}

void
origin_sent(struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    h1_origin_sent(oc->h1);
}

void
origin_want_interim(struct origin_conn *oc, bool want)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    h1_origin_want_interim(oc->h1, want);
}

int
origin_interim(struct origin_conn *oc, const struct http_head **out)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_interim(oc->h1, out);
}

void
origin_want_upgrade(struct origin_conn *oc, struct slice protocols)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    h1_origin_want_upgrade(oc->h1, protocols);
}

void
origin_shut(struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    h1_origin_shut(oc->h1);
}

int
origin_head(struct origin_conn *oc, const struct http_head **out)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_head(oc->h1, out);
}

const struct framing *
origin_framing(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_framing(oc->h1);
}

ssize_t
origin_body(struct origin_conn *oc, struct span room)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_body(oc->h1, room);
}

bool
origin_body_done(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_body_done(oc->h1);
}

bool
origin_heard(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_heard(oc->h1);
}

bool
origin_ended(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return h1_origin_ended(oc->h1);
}

void
origin_set_user(struct origin_conn *oc, struct task *user)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    tassert(!oc->idle);
    h1_origin_set_user(oc->h1, user);
}

bool
origin_reused(const struct origin_conn *oc)
{
    OBJ_CHECK(oc, ORIGIN_CONN_MAGIC);
    return oc->reused;
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
    if (os->draining || !h1_origin_reusable(oc->h1) || oc->pool->nidle >= conf->max_idle ||
        backend_is_retired(oc->backend)) {
        origin_conn_free(oc);
        return;
    }
    h1_origin_rest(oc->h1);
    h1_origin_set_user(oc->h1, &oc->idle_task);
    oc->pool->nused--;
    os->nused--;
    oc->idle = true;
    oc->pool->nidle++;
    list_add_head(&oc->pool->idle, &oc->link);
    timer_set(&os->loop->wheel, &oc->idle_timer, loop_deadline(os->loop, conf->idle_timeout));
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

void
origins_tick(struct origins *os)
{
    OBJ_CHECK(os, ORIGINS_MAGIC);
    for (unsigned i = 0; i < os->npools; i++) {
        struct origin_pool *pool = os->pools[i];

        /* While it has a connection the backend is there to be asked. */
        if (pool != NULL && pool->nidle > 0 && backend_is_retired(pool->backend))
            origin_pool_drain(pool);
    }
}

void
origins_drain(struct origins *os)
{
    OBJ_CHECK(os, ORIGINS_MAGIC);
    os->draining = true;
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
