/* origin.c -- pools of connections to backends. */
#include "daemon/origin/origin.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "conf/conf.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/shm/counters.h"

struct origins_shared {
    unsigned n;
    _Atomic int64_t conns[]; /* of each backend, all workers */
};

struct origin_pool {
    const struct conf_backend *conf;
    struct list idle; /* of origin_conn.link; the most recently used first */
    unsigned nidle;
};

#define ORIGINS_MAGIC OBJ_TAG('o', 'r', 'i', 'g')
struct origins {
    uint32_t magic;
    bool draining;
    struct loop *loop;
    const struct conf *conf;
    const struct h1_conf *h1;
    struct origins_shared *shared;
    struct counter_set *counters;
    unsigned nused;
    struct origin_pool pools[];
};

#define ORIGIN_CONN_MAGIC OBJ_TAG('o', 'c', 'o', 'n')
struct origin_conn {
    uint32_t magic;
    unsigned backend;
    bool reused, idle;
    struct origins *origins;
    struct h1_origin *h1;
    struct list link;
    struct task idle_task; /* the connection's user while it is idle */
    struct timer idle_timer;
};

struct origins_shared *
origins_shared_new(const struct conf *conf)
{
    struct origins_shared *s = calloc(1, sizeof(*s) + conf->nbackends * sizeof(s->conns[0]));

    if (s != NULL)
        s->n = conf->nbackends;
    return s;
}

void
origins_shared_free(struct origins_shared **sp)
{
    free(*sp);
    *sp = NULL;
}

int
origins_open(struct origins **out, struct loop *l, const struct conf *conf,
    const struct h1_conf *h1, struct origins_shared *shared, struct counter_set *counters)
{
    struct origins *os = calloc(1, sizeof(*os) + conf->nbackends * sizeof(os->pools[0]));

    if (os == NULL)
        return TERR_NOMEM;
    os->magic = ORIGINS_MAGIC;
    os->loop = l;
    os->conf = conf;
    os->h1 = h1;
    os->shared = shared;
    os->counters = counters;
    for (unsigned i = 0; i < conf->nbackends; i++) {
        os->pools[i].conf = &conf->backends[i];
        list_init(&os->pools[i].idle);
    }
    *out = os;
    return 0;
}

static void
origin_conn_free(struct origin_conn *oc)
{
    struct origins *os = oc->origins;

    if (oc->idle) {
        list_del(&oc->link);
        os->pools[oc->backend].nidle--;
    } else {
        os->nused--;
    }
    task_cancel(&oc->idle_task);
    timer_unlink(&oc->idle_timer);
    if (oc->h1 != NULL)
        h1_origin_close(&oc->h1);
    atomic_fetch_sub_explicit(&os->shared->conns[oc->backend], 1, memory_order_relaxed);
    counter_add(os->counters, COUNTER_backend_conn_closed, 1);
    OBJ_FREE(oc);
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
        oc->origins->nused++;
        task_cancel(&oc->idle_task);
        timer_clear(&oc->idle_timer);
        h1_origin_set_user(oc->h1, user);
        return oc;
    }
    return NULL;
}

int
origin_take(struct origin_conn **out, struct origins *os, unsigned backend, bool fresh,
    unsigned attempt, struct task *user)
{
    struct origin_pool *pool = &os->pools[backend];
    const struct conf_backend *conf = pool->conf;
    struct origin_conn *oc;
    int64_t conns;
    unsigned nth;
    int err;

    OBJ_CHECK(os, ORIGINS_MAGIC);
    if (!fresh && (oc = origin_pool_take(pool, user)) != NULL) {
        counter_add(os->counters, COUNTER_backend_conn_reused, 1);
        *out = oc;
        return 0;
    }
    conns = atomic_fetch_add_explicit(&os->shared->conns[backend], 1, memory_order_relaxed);
    oc =
        conf->max_connections > 0 && conns >= conf->max_connections ? NULL : calloc(1, sizeof(*oc));
    if (oc == NULL) {
        bool busy = conf->max_connections > 0 && conns >= conf->max_connections;

        atomic_fetch_sub_explicit(&os->shared->conns[backend], 1, memory_order_relaxed);
        counter_add(os->counters, COUNTER_backend_busy, busy);
        return busy ? TERR_BUSY : TERR_NOMEM;
    }
    *oc = (struct origin_conn){.magic = ORIGIN_CONN_MAGIC, .backend = backend, .origins = os};
    list_init(&oc->link);
    task_init(&oc->idle_task, &os->loop->tasks, origin_on_idle);
    timer_init(&oc->idle_timer, &oc->idle_task);
    os->nused++;
    nth = conf->address.is_unix ? 0 : attempt % conf->address.naddrs;
    err = h1_origin_open(&oc->h1, os->loop, os->h1, &conf->address, nth, user);
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
    struct origin_conn *oc;
    struct origins *os;
    struct origin_pool *pool;

    OBJ_TAKE(oc, ocp, ORIGIN_CONN_MAGIC);
    os = oc->origins;
    pool = &os->pools[oc->backend];
    if (os->draining || !h1_origin_reusable(oc->h1) || pool->nidle >= pool->conf->max_idle) {
        origin_conn_free(oc);
        return;
    }
    h1_origin_rest(oc->h1);
    h1_origin_set_user(oc->h1, &oc->idle_task);
    os->nused--;
    oc->idle = true;
    pool->nidle++;
    list_add_head(&pool->idle, &oc->link);
    timer_set(&os->loop->wheel, &oc->idle_timer, loop_deadline(os->loop, pool->conf->idle_timeout));
}

void
origin_discard(struct origin_conn **ocp)
{
    struct origin_conn *oc;

    OBJ_TAKE(oc, ocp, ORIGIN_CONN_MAGIC);
    origin_conn_free(oc);
}

void
origins_drain(struct origins *os)
{
    OBJ_CHECK(os, ORIGINS_MAGIC);
    os->draining = true;
    for (unsigned i = 0; i < os->conf->nbackends; i++) {
        struct list *idle = &os->pools[i].idle;

        while (!list_empty(idle))
            origin_conn_free(container_of(idle->next, struct origin_conn, link));
    }
}

void
origins_close(struct origins **op)
{
    struct origins *os;

    OBJ_TAKE(os, op, ORIGINS_MAGIC);
    origins_drain(os);
    tassert(os->nused == 0);
    OBJ_FREE(os);
}
