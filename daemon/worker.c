/* worker.c -- a thread and its loop: listeners, client connections, requests, fetches. */
#include "daemon/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/address.h"
#include "daemon/base/conn_quota.h"
#include "daemon/base/heap.h"
#include "daemon/base/limits.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/h1/h1_render.h"
#include "daemon/h1/h1_server.h"
#include "daemon/h2/h2_conf.h"
#include "daemon/h2/h2_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/listeners.h"
#include "daemon/log/elog.h"
#include "daemon/net/incoming.h"
#include "daemon/net/listener.h"
#include "daemon/net/netloop.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/policy/policies.h"
#include "daemon/proxy/proxy.h"
#include "daemon/shm/latency.h"
#include "daemon/table/tables.h"
#include "daemon/tls/tls.h"
#include "daemon/traffic.h"

#define WORKER_MAGIC OBJ_TAG('w', 'o', 'r', 'k')
/* A listener of this worker's. */
#define WORKER_ENDPOINT_MAGIC OBJ_TAG('w', 'e', 'p', 't')
struct worker_endpoint {
    uint32_t magic;
    struct worker *worker;
    struct listener *listener; /* NULL: closed */
    struct endpoint *endpoint;
    struct worker_endpoint *next;
};

/* What the main thread wants done with an endpoint. */
#define WORKER_ORDER_MAGIC OBJ_TAG('w', 'o', 'r', 'd')
struct worker_order {
    uint32_t magic;
    struct post post;
    struct worker *worker;
    struct endpoint *endpoint;
    bool open;
};

struct worker {
    uint32_t magic;
    unsigned id;
    int err; /* of starting, once `started` was posted */
    sem_t started;
    pthread_t thread;
    struct worker_env *env;
    struct shmlog *log;
    struct net_loop *net;
    struct loop *loop;
    struct incoming *incoming;
    struct client_conf client_conf;
    struct h1_conf h1_conf;
    struct h2_conf h2_conf;
    struct counter_set *counters;
    struct worker_endpoint *endpoints;
    struct task ending; /* draining: stop when nothing is left */
    struct post leave, drain, cut;
    pthread_mutex_t mailbox;        /* held to post from the main thread, and to end */
    bool ended;                     /* under mailbox: the loop takes no more posts */
    bool params_posted;             /* under mailbox: the post below is on its way */
    struct conf_params params_next; /* under mailbox, as the size of the store */
    uint64_t storage_bytes_next;
    struct post params_post;
    struct post beat;
    _Atomic bool beat_pending; /* the post above is on its way */
    bool early;                /* a connection with early data has come */
    bool draining, stopped;
    struct timer tick; /* counters that the loop keeps itself */
    struct task tick_task;
    uint64_t tick_ms; /* when it is due */
    uint64_t posts_told, wakeups_told, turns_told;
    struct usage charged; /* what the store knows of loop->usage */
    struct task charge_task;
    uint64_t tls_charged; /* OpenSSL's memory, of all workers: the first one's */
    struct proxy proxy;
};

enum {
    TICK_MS = 1000,
    SHED_MOST = 16,      /* idle connections that make way when descriptors have run out */
    SHED_IDLE_MS = 1000, /* those that have waited for a request for so long */
};

static void
worker_on_empty(void *ctx)
{
    struct worker *w = container_of((struct proxy *)ctx, struct worker, proxy);

    tassert_slow(w->magic == WORKER_MAGIC); /* on the way of each request */
    if (w->draining)
        task_wake(&w->ending);
}

/* Posts and wake-ups are counted in the inbox by the senders, and added here once a second. */
static void
worker_tell_loop(struct worker *w)
{
    uint64_t posts = atomic_load_explicit(&w->loop->inbox.posts, memory_order_relaxed);
    uint64_t wakeups = atomic_load_explicit(&w->loop->inbox.wakeups, memory_order_relaxed);
    uint64_t turns = net_loop_turns(w->net);

    /* The senders only ever add: a difference is what came since the last tick. */
    tassert(posts >= w->posts_told);
    tassert(wakeups >= w->wakeups_told);
    tassert(turns >= w->turns_told);
    counter_add(w->counters, COUNTER_waiter_posts_cross_loop, posts - w->posts_told);
    counter_add(w->counters, COUNTER_waiter_wakeups, wakeups - w->wakeups_told);
    counter_add(w->counters, COUNTER_loop_turns, turns - w->turns_told);
    w->posts_told = posts;
    w->wakeups_told = wakeups;
    w->turns_told = turns;
}

/* Memory of OpenSSL is of all threads together, so one worker tells it. */
static void
worker_on_charge(struct task *t)
{
    struct worker *w = container_of(t, struct worker, charge_task);

    OBJ_CHECK(w, WORKER_MAGIC);
    /* Between ticks the loop's usage wakes it, when much has been allocated since. */
    traffic_charge(w->env->storage, &w->charged, &w->loop->usage);
    if (w->id == 0)
        traffic_charge_tls(w->env->storage, &w->tls_charged, (uint64_t)tls_memory());
}

/* The tick was due when the wheel's tick that it lies under began (timer.h).  The delay since then
 * is time that the loop was busy with one turn, or that the processor ran other threads. */
static void
worker_tell_lag(struct worker *w)
{
    uint64_t due_us = (w->tick_ms / TIMER_TICK_MS + 1) * TIMER_TICK_MS * 1000;
    uint64_t now_us = w->loop->clock.mono_us;

    latency_tell(&w->proxy.latency->row[LATENCY_lag], now_us > due_us ? now_us - due_us : 0);
}

/* A second from now, and not from the last one: after a turn that took long there are no ticks
 * to catch up with. */
static void
worker_set_tick(struct worker *w)
{
    tassert(!w->stopped); /* its timer would be left on the wheel of a loop that ends */
    w->tick_ms = loop_deadline(w->loop, TICK_MS);
    timer_set(&w->loop->wheel, &w->tick, w->tick_ms);
}

static void
worker_on_tick(struct task *t)
{
    struct worker *w = container_of(t, struct worker, tick_task);

    OBJ_CHECK(w, WORKER_MAGIC);
    worker_tell_lag(w);
    worker_tell_loop(w);
    incoming_trim(w->incoming);
    proxy_trim(&w->proxy);
    net_loop_trim(w->net);
    tls_trim();
    worker_on_charge(&w->charge_task);
    origins_tick(w->proxy.origins);
    /* A worker without requests lets go of old policies here. */
    policy_look(&w->proxy);
    if (w->proxy.tables != NULL)
        tables_tick(w->proxy.tables);
    if (!w->stopped)
        worker_set_tick(w);
}

/* The order: no more posts, then pools, timer and tasks, then the loop.  A post that was sent
 * before still lands (net_loop_run drains the inbox), so each handler looks at `stopped`. */
static void
worker_on_ending(struct task *t)
{
    struct worker *w = container_of(t, struct worker, ending);

    OBJ_CHECK(w, WORKER_MAGIC);
    /* Woken by each connection and request that ends: mostly it is not the last. */
    if (w->stopped || incoming_connections(w->incoming) > 0 || !proxy_is_idle(&w->proxy))
        return;
    tassert(w->draining); /* idle is no reason to end */
    w->stopped = true;
    /* From here on the main thread's posts are not sent: no turn would come in which they land. */
    pthread_mutex_lock(&w->mailbox);
    tassert(!w->ended);
    w->ended = true;
    pthread_mutex_unlock(&w->mailbox);
    origins_drain(w->proxy.origins);
    task_cancel(&w->tick_task);
    /* Nothing wakes the task behind its end. */
    w->loop->usage.teller = NULL;
    task_cancel(&w->charge_task);
    timer_unlink(&w->tick);
    net_loop_stop(w->net);
}

/* A thread that sees `leaving` sees the connections that were accepted before, too. */
static void
worker_leave(struct worker *w)
{
    for (struct worker_endpoint *d = w->endpoints; d != NULL; d = d->next)
        if (d->listener != NULL)
            listener_close(&d->listener);
    if (!w->draining) /* leave may be followed by drain: each worker is counted once */
        atomic_fetch_add_explicit(&w->env->leaving, 1, memory_order_release);
    w->draining = true;
    recode_stop(&w->proxy);
    task_wake(&w->ending);
}

static void
worker_on_leave(struct post *p)
{
    struct worker *w = container_of(p, struct worker, leave);

    OBJ_CHECK(w, WORKER_MAGIC);
    worker_leave(w);
    incoming_drain_gently(w->incoming);
}

static void
worker_on_drain(struct post *p)
{
    struct worker *w = container_of(p, struct worker, drain);

    OBJ_CHECK(w, WORKER_MAGIC);
    /* It was on its way when the worker ended. */
    if (w->stopped)
        return;
    worker_leave(w);
    incoming_drain(w->incoming);
}

static void
worker_on_cut(struct post *p)
{
    struct worker *w = container_of(p, struct worker, cut);

    OBJ_CHECK(w, WORKER_MAGIC);
    if (w->stopped)
        return;
    incoming_cut(w->incoming);
    /* Fetches without a client, too: refreshes go on for up to their timeouts else. */
    proxy_cut(&w->proxy);
    task_wake(&w->ending);
}

/* A client's connections are counted while there is a limit, but not those of a trusted proxy, which
 * are of many clients. */
static int
worker_on_client_begins(void *ctx, const uint8_t addr[16])
{
    struct worker *w = container_of((struct proxy *)ctx, struct worker, proxy);
    /* Of now: trusted proxies may change with a reload. */
    const struct conf *conf = snapshot_conf(registry_snapshot(w->env->registry));
    int64_t most = w->proxy.params.max_connections_per_client; /* 0: no limit */
    char text[ADDRESS_TEXT_MAX];

    OBJ_CHECK(w, WORKER_MAGIC);
    if (most == 0 || address_in(&conf->trusted_proxies.set, addr))
        return 0;
    tassert(most > 0); /* conf_param's range */
    switch (conn_quota_take(w->env->quota, addr, most)) {
    case CONN_QUOTA_COUNTED:
        return 1;
    case CONN_QUOTA_UNCOUNTED:
        return 0;
    case CONN_QUOTA_REFUSED:
        break;
    }
    counter_add(w->counters, COUNTER_sess_refused, 1);
    address_text(addr, text);
    elog(ELOG_WARN, "connection refused: client=%s max_connections_per_client=%lld", text,
        (long long)most);
    return TERR_LIMIT;
}

static void
worker_on_client_ends(void *ctx, const uint8_t addr[16])
{
    struct worker *w = container_of((struct proxy *)ctx, struct worker, proxy);

    OBJ_CHECK(w, WORKER_MAGIC);
    conn_quota_give(w->env->quota, addr);
}

/* Idle connections make way for new ones: those of this worker. */
static bool
worker_sheds(struct worker *w, unsigned most)
{
    return incoming_shed_idle(w->incoming, most, SHED_IDLE_MS) > 0;
}

/* May there be one more?  TERR_LIMIT: `fd` is closed, if it was one; TERR_AGAIN: there is none, and
 * will be at once. */
static int
worker_admit(struct worker *w, int fd)
{
    struct worker_env *env = w->env;

    tassert(env->conns_max > 0); /* server_limit_conns() */
    if (fd < 0) {
        counter_add(w->counters, COUNTER_sess_emfile, 1);
        /* Several at a time: the next clients wait already. */
        if (worker_sheds(w, SHED_MOST))
            return TERR_AGAIN;
        elog(ELOG_ERROR, "out of file descriptors: accepting no connection for a moment");
        return TERR_LIMIT;
    }
    /* Relaxed: a few too many, from workers that accept at the same moment, do no harm. */
    if (atomic_load_explicit(&env->conns, memory_order_relaxed) >= env->conns_max &&
        !worker_sheds(w, 1)) {
        close(fd);
        counter_add(w->counters, COUNTER_sess_dropped, 1);
        elog(ELOG_WARN,
            "max_connections reached: %lld client connections are open, one was dropped",
            (long long)env->conns_max);
        return TERR_LIMIT;
    }
    return 0;
}

static int
worker_on_accept(void *ctx, int fd, bool is_unix)
{
    struct worker_endpoint *wd = ctx;
    struct worker *w = wd->worker;
    int err;

    OBJ_CHECK(wd, WORKER_ENDPOINT_MAGIC);
    OBJ_CHECK(w, WORKER_MAGIC);
    tassert(wd->listener != NULL); /* a closed one accepts nothing */
    err = worker_admit(w, fd);
    if (err != 0)
        return err;
    if (incoming_accept(w->incoming, fd, is_unix, &listener_conf(wd->endpoint)->in) == 0)
        return 0;
    counter_add(w->counters, COUNTER_sess_dropped, 1);
    return TERR_LIMIT;
}

static void
worker_set_conf(struct worker *w, const struct conf_params *params)
{
    struct client_conf *c = &w->client_conf;

    c->head_memo = params->http_head_memo;
    c->req_body_max = (uint64_t)params->max_req_body;
    c->idle_ms = params->timeout_idle;
    c->head_ms = params->timeout_req;
    c->body_ms = params->timeout_body;
    c->body_idle_ms = params->timeout_body_idle;
    c->body_rate_min = (uint64_t)params->req_body_rate_min;
    c->send_idle_ms = params->idle_send_timeout;
    c->pipe_ms = params->pipe_timeout;
    w->h2_conf = (struct h2_conf){
        .streams_max = (uint16_t)params->h2_max_concurrent_streams,
        .initial_window = (uint32_t)params->h2_initial_window_size,
        .max_frame = (uint32_t)params->h2_max_frame_size,
    };
}

/* What a reload does not change, because memory is laid out by it, and then the rest. */
static void
worker_open_conf(struct worker *w, const struct conf_params *params)
{
    w->client_conf = (struct client_conf){
        .fields_max = (uint16_t)params->http_max_hdr,
        .req_line_max = (uint32_t)params->http_req_line_len,
        .req_field_max = (uint32_t)params->http_req_hdr_len,
        .req_head_max = (uint32_t)params->http_req_size,
        .any_method = true, /* a policy may know it; without one it is a 501 */
    };
    w->h1_conf = (struct h1_conf){
        .fields_max = (uint16_t)params->http_max_hdr,
        .resp_field_max = (uint32_t)params->http_resp_hdr_len,
        .resp_head_max = (uint32_t)params->http_resp_size,
        .resp_bare_lf = strcmp(params->origin_bare_lf, "accept") == 0,
        .resp_any_status = strcmp(params->origin_status, "accept") == 0,
    };
    worker_set_conf(w, params);
}

/* The limits of heads are those of the start: memory was laid out by them. */
static void
worker_apply_params(struct worker *w, const struct conf_params *params)
{
    worker_set_conf(w, params);
    w->proxy.params = *params;
}

static exchange_start_f *
worker_start_of(struct worker *w, const struct conf *conf)
{
    w->proxy.start = req_start_of(conf, w->early);
    return conf->has_peers ? req_start_peered : w->proxy.start;
}

static void
worker_set_start(struct worker *w)
{
    incoming_set_start(
        w->incoming, worker_start_of(w, snapshot_conf(registry_snapshot(w->env->registry))));
}

static void
worker_on_params(struct post *p)
{
    struct worker *w = container_of(p, struct worker, params_post);
    struct conf_params params;
    uint64_t storage_bytes;

    OBJ_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->mailbox); /* held by the main thread to copy, and no longer */
    tassert(w->params_posted);
    params = w->params_next;
    storage_bytes = w->storage_bytes_next;
    w->params_posted = false;
    pthread_mutex_unlock(&w->mailbox);
    worker_apply_params(w, &params);
    /* A reload may have brought the first route that acts, limit or trusted proxy: requests begin
     * otherwise then. */
    worker_set_start(w);
    w->proxy.storage_bytes = storage_bytes;
}

/* They outlive a reload that allows no more of them, so there is no way back. */
static void
worker_on_early(void *ctx)
{
    struct worker *w = container_of((struct proxy *)ctx, struct worker, proxy);

    OBJ_CHECK(w, WORKER_MAGIC);
    if (w->early)
        return;
    w->early = true;
    worker_set_start(w);
}

/* 0 or TERR_*; then it is not there. */
static int
worker_do_open_endpoint(struct worker *w, struct endpoint *endpoint)
{
    struct worker_endpoint *d = calloc(1, sizeof(*d));
    int err;

    tassert(endpoint->bound != NULL); /* `nopening` keeps it: endpoints_tend() */
    tassert(!w->draining);
    if (d == NULL)
        return TERR_NOMEM;
    d->magic = WORKER_ENDPOINT_MAGIC;
    d->worker = w;
    d->endpoint = endpoint;
    err = listener_open(&d->listener, w->loop, endpoint->bound, worker_on_accept, d);
    if (err != 0) {
        free(d);
        return err;
    }
    /* Only when it listens: worker_leave() closes what is in the list. */
    d->next = w->endpoints;
    w->endpoints = d;
    return 0;
}

/* Its memory stays: the listener may be closing, and endpoints are few. */
static void
worker_do_close_endpoint(struct worker *w, const struct endpoint *endpoint)
{
    for (struct worker_endpoint *d = w->endpoints; d != NULL; d = d->next)
        if (d->endpoint == endpoint && d->listener != NULL)
            listener_close(&d->listener);
}

static void
worker_on_order(struct post *p)
{
    struct worker_order *o = container_of(p, struct worker_order, post);
    struct worker *w = o->worker;
    unsigned opening;
    int err = 0;

    OBJ_CHECK(o, WORKER_ORDER_MAGIC);
    OBJ_CHECK(w, WORKER_MAGIC);
    if (!o->open)
        worker_do_close_endpoint(w, o->endpoint);
    /* A worker that ends opens nothing more. */
    else if (!w->draining)
        err = worker_do_open_endpoint(w, o->endpoint);
    if (err != 0)
        elog(ELOG_ERROR, "worker %u: cannot listen on %s: %s", w->id, o->endpoint->address,
            terr_text(err));
    /* Whatever came of it: the main thread may release the address from here on. */
    if (o->open) {
        opening = atomic_fetch_sub_explicit(&o->endpoint->nopening, 1, memory_order_release);
        tassert(opening > 0);
    }
    OBJ_FREE(o);
}

static void
worker_on_beat(struct post *p)
{
    struct worker *w = container_of(p, struct worker, beat);

    OBJ_CHECK(w, WORKER_MAGIC);
    /* One is on its way at a time, as it is a member of the worker. */
    tassert(atomic_load_explicit(&w->beat_pending, memory_order_relaxed));
    atomic_store_explicit(&w->beat_pending, false, memory_order_release);
}

/* The way in, and the protocols that are spoken on it.  0 or TERR_NOMEM.
 * The server is the incoming's from incoming_serve() on, and closed by it. */
static int
worker_open_incoming(struct worker *w)
{
    const struct incoming_env env = {.loop = w->loop,
        .counters = w->counters,
        .header_ms = &w->client_conf.head_ms,
        .conns = &w->env->conns,
        .ctx = &w->proxy,
        .on_empty = worker_on_empty,
        .on_early = worker_on_early,
        .client_begins = worker_on_client_begins,
        .client_ends = worker_on_client_ends};
    const struct h1_server_env h1 = {.loop = w->loop,
        .conf = &w->client_conf,
        .counters = w->counters,
        .start = worker_start_of(w, w->env->conf),
        .start_ctx = &w->proxy};
    const struct h2_server_env h2 = {.loop = w->loop,
        .conf = &w->client_conf,
        .h2 = &w->h2_conf,
        .counters = w->counters,
        .log = w->log,
        .start = h1.start,
        .start_ctx = h1.start_ctx};
    struct conn_server *server;
    int err = incoming_open(&w->incoming, &env);

    if (err == 0)
        err = h1_server_open(&server, &h1);
    if (err == 0)
        incoming_serve(w->incoming, &server);
    if (err == 0)
        err = h2_server_open(&server, &h2);
    if (err == 0)
        incoming_serve(w->incoming, &server);
    tassert(err != 0 || server == NULL); /* it has been taken */
    return err;
}

/* What the requests of this loop work with: the process's parts, borrowed, and the loop's own. */
static void
worker_init_proxy(struct worker *w)
{
    const struct worker_env *env = w->env;
    struct proxy *p = &w->proxy;

    proxy_init(p, env->conf);
    p->rendering = &h1_rendering;
    p->loop = w->loop;
    p->loop_id = slice_str(env->loop_id);
    p->cache = env->cache;
    p->storage = env->storage;
    p->synth = env->synth;
    p->storage_bytes = env->storage_bytes;
    p->registry = env->registry;
    p->peers = env->peers;
    p->challenges = env->challenges;
    p->policies = policies_set(env->policies);
    p->auth = env->auth;
    p->rates = env->rates;
    p->recoder = env->recoder;
    recode_init(&p->recode, p);
    /* Behind the members that runs of a policy use. */
    policy_prepare(p);
    /* The address differs from worker to worker, and the hash is keyed. */
    p->random = hash_bytes(&w, sizeof(w)).lo; /* with a secret */
    p->counters = w->counters;
    p->latency = latency_worker(env->latency, w->id);
    p->log = w->log;
    p->on_idle = worker_on_empty;
    p->on_idle_ctx = p;
}

/* The tasks of the loop itself, and what the main thread may post to it (worker_post() and others,
 * which start when worker_start() has returned). */
static void
worker_init_tasks(struct worker *w)
{
    task_init(&w->ending, &w->loop->tasks, worker_on_ending);
    task_init(&w->tick_task, &w->loop->tasks, worker_on_tick);
    task_init(&w->charge_task, &w->loop->tasks, worker_on_charge);
    w->loop->usage.teller = &w->charge_task;
    timer_init(&w->tick, &w->tick_task);
    worker_set_tick(w);
    w->leave.land = worker_on_leave;
    w->drain.land = worker_on_drain;
    w->cut.land = worker_on_cut;
    w->params_post.land = worker_on_params;
    w->beat.land = worker_on_beat;
}

/* All that are bound by now; others come by worker_open_endpoint(). */
static int
worker_open_endpoints(struct worker *w)
{
    int err = 0;

    for (struct endpoint *d = w->env->endpoints->first; d != NULL && err == 0; d = d->next)
        if (d->bound != NULL)
            err = worker_do_open_endpoint(w, d);
    return err;
}

/* On the worker's thread.  The listeners come last: a connection finds everything else in place.
 * After an error nothing is closed again, for the process ends. */
static int
worker_open(struct worker *w)
{
    struct worker_env *env = w->env;
    int err = net_loop_open(&w->net, w->id);

    if (err != 0)
        return err;
    w->loop = net_loop_base(w->net);
    w->counters = counters_worker(env->counters, w->id);
    worker_init_proxy(w);
    worker_init_tasks(w);
    worker_open_conf(w, &env->conf->params);
    if (env->tables != NULL)
        err = tables_join(&w->proxy.tables, env->tables, w->id, w->loop, w->counters);
    if (err == 0)
        err =
            origins_open(&w->proxy.origins, w->loop, h1_origin_protocol(&w->h1_conf), w->counters);
    if (err == 0)
        err = worker_open_incoming(w);
    if (err == 0)
        err = worker_open_endpoints(w);
    return err;
}

static void *
worker_main(void *arg)
{
    struct worker *w = arg;
    char name[16];
    int err;

    snprintf(name, sizeof(name), "tarn-worker-%u", w->id % 1000);
    pthread_setname_np(pthread_self(), name);
    /* Before it allocates: each thread has an arena of the allocator. */
    heap_join();
    tls_thread_enter();
    err = worker_open(w);
    w->err = err;
    if (err != 0) { /* start-up fails as a whole: the process ends */
        sem_post(&w->started);
        return NULL;
    }
    sem_post(&w->started);
    shmlog_describe_here(w->proxy.log);
    net_loop_run(w->net);
    tassert(w->stopped);
    tassert(incoming_connections(w->incoming) == 0);
    tassert(proxy_is_idle(&w->proxy));
    shmlog_describe_here(NULL);
    /* What has come since the last tick. */
    worker_tell_loop(w);
    /* While there is a store: it is closed when all workers have been joined. */
    traffic_uncharge(w->env->storage, &w->charged);
    traffic_charge_tls(w->env->storage, &w->tls_charged, 0);
    /* Before tables and origins, which its requests used. */
    proxy_fini(&w->proxy);
    if (w->proxy.tables != NULL)
        tables_leave(&w->proxy.tables);
    incoming_close(&w->incoming);
    origins_close(&w->proxy.origins);
    net_loop_close(&w->net);
    tls_thread_leave();
    return NULL;
}

int
worker_start(struct worker **out, struct worker_env *env, unsigned id, struct shmlog *log)
{
    struct worker *w = calloc(1, sizeof(*w));
    int err;

    if (w == NULL)
        return TERR_NOMEM;
    tassert(id < LIMIT_WORKERS); /* counters, latency and log have a place for each */
    w->magic = WORKER_MAGIC;
    w->id = id;
    w->env = env;
    w->log = log;
    sem_init(&w->started, 0, 0);
    pthread_mutex_init(&w->mailbox, NULL);
    err = pthread_create(&w->thread, NULL, worker_main, w);
    if (err != 0) {
        elog(ELOG_ERROR, "cannot start a worker's thread: %s", strerror(err));
        OBJ_FREE(w);
        return TERR_NOMEM;
    }
    /* EINTR: a debugger, or a signal that is not blocked. */
    while (sem_wait(&w->started) != 0)
        ;
    *out = w;
    return w->err;
}

/* Under the mailbox: between the look at `ended` and the send the loop must not end. */
static void
worker_post(struct worker *w, struct post *p)
{
    OBJ_CHECK(w, WORKER_MAGIC);
    tassert(p->land != NULL); /* worker_init_tasks() */
    pthread_mutex_lock(&w->mailbox);
    if (!w->ended)
        inbox_send(&w->loop->inbox, p);
    pthread_mutex_unlock(&w->mailbox);
}

void
worker_drain(struct worker *w)
{
    worker_post(w, &w->drain);
}

void
worker_drain_gently(struct worker *w)
{
    worker_post(w, &w->leave);
}

void
worker_cut(struct worker *w)
{
    worker_post(w, &w->cut);
}

static int
worker_send_order(struct worker *w, struct endpoint *endpoint, bool open)
{
    struct worker_order *o = calloc(1, sizeof(*o));
    bool ended;

    OBJ_CHECK(w, WORKER_MAGIC);
    if (o == NULL)
        return TERR_NOMEM;
    *o = (struct worker_order){.magic = WORKER_ORDER_MAGIC,
        .post = {.land = worker_on_order},
        .worker = w,
        .endpoint = endpoint,
        .open = open};
    pthread_mutex_lock(&w->mailbox);
    ended = w->ended;
    /* Counted before it is sent: the worker may be done with it before this returns. */
    if (!ended && open)
        atomic_fetch_add_explicit(&endpoint->nopening, 1, memory_order_relaxed);
    if (!ended)
        inbox_send(&w->loop->inbox, &o->post);
    pthread_mutex_unlock(&w->mailbox);
    if (ended)
        OBJ_FREE(o);
    return 0;
}

int
worker_open_endpoint(struct worker *w, struct endpoint *d)
{
    return worker_send_order(w, d, true);
}

int
worker_close_endpoint(struct worker *w, struct endpoint *d)
{
    return worker_send_order(w, d, false);
}

void
worker_set_params(struct worker *w, const struct conf_params *params, uint64_t storage_bytes)
{
    OBJ_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->mailbox);
    w->params_next = *params;
    w->storage_bytes_next = storage_bytes;
    /* One post is enough: when it lands the newest parameters are there. */
    if (!w->params_posted && !w->ended) {
        w->params_posted = true;
        inbox_send(&w->loop->inbox, &w->params_post);
    }
    pthread_mutex_unlock(&w->mailbox);
}

/* An idle loop is woken to prove it. */
bool
worker_beats(struct worker *w)
{
    bool beats;

    OBJ_CHECK(w, WORKER_MAGIC);
    pthread_mutex_lock(&w->mailbox);
    /* Acquire: the answer is of a turn behind the last question. */
    beats = w->ended || !atomic_load_explicit(&w->beat_pending, memory_order_acquire);
    if (beats && !w->ended) {
        atomic_store_explicit(&w->beat_pending, true, memory_order_relaxed);
        inbox_send(&w->loop->inbox, &w->beat);
    }
    pthread_mutex_unlock(&w->mailbox);
    return beats;
}

int
worker_join(struct worker **wp, int64_t wait_ms)
{
    struct worker *w = *wp;
    struct timespec until;

    OBJ_CHECK(w, WORKER_MAGIC);
    clock_gettime(CLOCK_REALTIME, &until); /* the clock of pthread_timedjoin_np(3) */
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    /* TERR_AGAIN may come again and again: the management loop looks on each tick. */
    if (pthread_timedjoin_np(w->thread, NULL, &until) != 0)
        return TERR_AGAIN;
    *wp = NULL;
    tassert(w->ended); /* its thread wrote it, and the join orders that before this */
    sem_destroy(&w->started);
    pthread_mutex_destroy(&w->mailbox);
    while (w->endpoints != NULL) {
        struct worker_endpoint *d = w->endpoints;

        OBJ_CHECK(d, WORKER_ENDPOINT_MAGIC);
        /* Closed on its own thread, where its handle was. */
        tassert(d->listener == NULL);
        w->endpoints = d->next;
        OBJ_FREE(d);
    }
    OBJ_FREE(w);
    return 0;
}
