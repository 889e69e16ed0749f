/* manage_admin.c -- the listener for operators: which clients get in, and what they may ask. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/admin/admin.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_server.h"
#include "daemon/listeners.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/net/incoming.h"
#include "daemon/net/listener.h"
#include "daemon/shm/counters.h"
#include "daemon/supervise/channel.h"
#include "daemon/worker.h"

enum {
    ADMIN_DEPTH = 128, /* the kernel's queue of operators */
};

/* Operators see one state for all phases of the end. */
static const char *
manage_host_state(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    return m->phase == MANAGE_RUNNING ? "running" : "draining";
}

static void
manage_host_stop(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* A flag: the answer to this very request has to leave first. */
    m->stop_asked = true;
    task_wake(&m->task);
}

static void
manage_host_drain(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* As with stop. */
    m->drain_asked = true;
    task_wake(&m->task);
}

/* Those of now, and not the file's: an operator may have changed them. */
static const struct conf_params *
manage_host_params(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    return &m->params;
}

static void
manage_host_set_params(void *ctx, const struct conf_params *next)
{
    manage_set_params(ctx, next);
}

static int64_t
manage_host_connections(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* A figure for people: workers change it meanwhile. */
    return atomic_load_explicit(&m->env.shared->conns, memory_order_relaxed);
}

static void
manage_host_listeners(
    void *ctx, void (*each)(void *to, const char *name, const char *address), void *to)
{
    const struct manage *m = ctx;
    const struct endpoints *all = m->env.shared->endpoints;

    OBJ_CHECK(m, MANAGE_MAGIC);
    for (const struct endpoint *d = all->first; d != NULL; d = d->next)
        /* One that is dropped may be open for a moment still, and is no longer the
         * configuration's. */
        if (!d->dropped)
            each(to, listener_conf(d)->in.facts.name, d->address);
}

static unsigned
manage_host_reload(void *ctx, json_t **answer)
{
    return manage_reload(ctx, answer);
}

static void
manage_host_walk_tags(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* The task is off the loop by then. */
    if (m->phase != MANAGE_ENDED)
        task_wake(&m->lurk_task);
}

static const struct admin_host manage_host = {
    .state = manage_host_state,
    .stop = manage_host_stop,
    .drain = manage_host_drain,
    .params = manage_host_params,
    .set_params = manage_host_set_params,
    .connections = manage_host_connections,
    .listeners = manage_host_listeners,
    .reload = manage_host_reload,
    .tls = manage_tls_each,
    .tls_list = manage_tls_list,
    .tls_reload = manage_tls_reload,
    .shared_text = manage_shared_text,
    .walk_tags = manage_host_walk_tags,
};

static void
manage_on_request(void *ctx, struct exchange *x)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    admin_start(m->admin, x);
}

static void
manage_on_empty(void *ctx)
{
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* ENDING waits for the last operator. */
    task_wake(&m->task);
}

/* Room for one more.  Connections that have not proven anything make way for those that may: an
 * operator gets in, however many others are silent. */
static bool
manage_has_room(struct manage *m)
{
    bool has_token = m->env.conf->admin->token[0] != '\0';

    /* First those without a token, then idle ones: an operator in the middle of a request is never
     * dropped. */
    if (incoming_connections(m->incoming) >= MANAGE_CONNS_MAX)
        return incoming_drop_unproven(m->incoming, 0, false) > 0 ||
               incoming_shed_idle(m->incoming, 1, 0) > 0;
    /* Without a token there is nothing to prove: access to the socket's file is the proof. */
    if (has_token && incoming_unproven(m->incoming) >= MANAGE_UNPROVEN_MAX)
        incoming_drop_unproven(m->incoming, MANAGE_PROOF_MS, false);
    return true;
}

/* 5 s from the accept (MANAGE_UNPROVEN_MS), whatever the connection has sent: bytes prove
 * nothing. */
void
manage_admin_tend(struct manage *m)
{
    if (m->incoming != NULL)
        incoming_drop_unproven(m->incoming, MANAGE_UNPROVEN_MS, true);
}

/* `listener` is static: facts of operators' connections are the same for all, and each gets a
 * copy with its peer (incoming_note_operator). */
static int
manage_on_accept(void *ctx, int fd, bool is_unix)
{
    static const struct incoming_listener listener = {
        .facts = {.name = "admin", .endpoint = ""}, .is_admin = true};
    struct manage *m = ctx;

    OBJ_CHECK(m, MANAGE_MAGIC);
    /* The listener pauses after an error, so this is no line for each turn. */
    if (fd < 0) {
        elog(ELOG_ERROR, "admin: out of file descriptors: accepting no connection for a moment");
        return TERR_LIMIT;
    }
    if (!manage_has_room(m)) {
        close(fd);
        elog(ELOG_WARN, "admin: %d connections are open, one was dropped", MANAGE_CONNS_MAX);
        return TERR_LIMIT;
    }
    return incoming_accept(m->incoming, fd, is_unix, &listener);
}

static int
manage_bind(struct manage *m)
{
    const struct conf_admin *a = m->env.conf->admin;
    const struct listen_how how = {
        .depth = ADMIN_DEPTH, .mode = a->mode, .user = a->user, .group = a->group};
    char why[256] = "";
    int err;

    tassert(m->bound == NULL);
    err = listen_bind(&m->bound, &a->address, &how, why, sizeof(why));

    if (err != 0)
        elog(ELOG_ERROR, "admin: %s", why[0] != '\0' ? why : terr_text(err));
    /* As a listener for clients: the next process finds operators waiting in its queue. */
    if (err == 0 && (m->env.channel != NULL || listen_is_inherited(m->bound)))
        err = listen_share(m->bound, 1);
    if (err == 0)
        err = channel_hold(m->env.channel, m->env.conf->admin->address.text, m->bound);
    return err;
}

/* 0 or TERR_NOMEM. */
static int
manage_open_incoming(struct manage *m)
{
    /* A set of its own, shown nowhere: an operator that polls must not move the figures of the
     * site. */
    struct counter_set *counters = counters_worker(m->counters, 0);
    const struct incoming_env env = {.loop = m->loop,
        .counters = counters,
        .header_ms = &m->client_conf.head_ms,
        .conns = &m->conns,
        .ctx = m,
        .on_empty = manage_on_empty};
    const struct h1_server_env h1 = {.loop = m->loop,
        .conf = &m->client_conf,
        .counters = counters,
        .start = manage_on_request,
        .start_ctx = m};
    struct conn_server *server;
    int err;

    tassert(m->incoming == NULL);
    err = incoming_open(&m->incoming, &env);
    if (err == 0)
        err = h1_server_open(&server, &h1);
    if (err == 0)
        incoming_serve(m->incoming, &server);
    tassert(err != 0 || server == NULL); /* it has been taken */
    return err;
}

int
manage_admin_open(struct manage *m)
{
    const struct manage_env *env = &m->env;
    struct admin_env admin = {.loop = m->loop,
        .conf = env->conf,
        .counters = env->counters,
        .latency = env->latency,
        .cache = env->cache,
        .storage = env->storage,
        .registry = env->registry,
        .policies = env->policies,
        .tables = env->tables,
        .fleet = m->fleet,
        .nworkers = env->nworkers,
        .shm_dir = env->shm_dir,
        .logs = env->logs,
        .names = env->names,
        .host = &manage_host,
        .host_ctx = m};
    int err;

    tassert(env->conf->admin != NULL);
    tassert(m->phase == MANAGE_RUNNING);
    /* First: the one step that fails for reasons outside of this process. */
    err = manage_bind(m);
    if (err != 0)
        return err;
    /* As bound: with port 0 the configuration does not know it. */
    admin.address = listen_address(m->bound);
    err = counters_open(&m->counters, NULL, 1);
    /* The listener last: a connection finds everything else in place. */
    if (err == 0)
        err = manage_open_incoming(m);
    if (err == 0)
        err = admin_open(&m->admin, &admin);
    if (err == 0)
        err = listener_open(&m->listener, m->loop, m->bound, manage_on_accept, m);
    if (err != 0)
        elog(ELOG_ERROR, "admin: %s", terr_text(err));
    else
        elog(ELOG_INFO, "admin: listening on %s", admin.address);
    return err;
}

/* Before the management loop stops: connections end in their own steps, and manage_admin_ended()
 * waits for them. */
void
manage_admin_drain(struct manage *m)
{
    /* Called again at the end of a process that was retired before. */
    if (m->listener != NULL)
        listener_close(&m->listener);
    if (m->incoming != NULL)
        incoming_drain(m->incoming);
}

bool
manage_admin_ended(struct manage *m, bool cut)
{
    if (m->incoming == NULL || incoming_connections(m->incoming) == 0)
        return true;
    /* They end in their own steps: the next look finds none. */
    if (cut)
        incoming_cut(m->incoming);
    return false;
}

void
manage_admin_close(struct manage *m)
{
    tassert(m->listener == NULL); /* manage_admin_drain() closed it: nothing comes in any more */
    /* Behind the loop's last turn, in which connections ended: their requests referred to it. */
    if (m->admin != NULL)
        admin_close(&m->admin);
    if (m->incoming != NULL)
        incoming_close(&m->incoming);
    if (m->counters != NULL)
        counters_close(&m->counters);
    /* The socket's file goes with it. */
    if (m->bound != NULL)
        listen_release(&m->bound);
}
