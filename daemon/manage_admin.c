/* manage_admin.c -- the listener for operators: who gets in, and what they may ask of the loop. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/admin/admin.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_server.h"
#include "daemon/listeners.h"
#include "daemon/log/elog.h"
#include "daemon/manage_priv.h"
#include "daemon/net/listener.h"
#include "daemon/shm/counters.h"
#include "daemon/supervise/channel.h"
#include "daemon/worker.h"

enum {
    ADMIN_DEPTH = 128, /* the kernel's queue of operators */
};

static const char *
manage_host_state(void *ctx)
{
    struct manage *m = ctx;

    return m->phase == MANAGE_RUNNING ? "running" : "draining";
}

static void
manage_host_stop(void *ctx)
{
    struct manage *m = ctx;

    m->stop_asked = true;
    task_wake(&m->task);
}

static void
manage_host_drain(void *ctx)
{
    struct manage *m = ctx;

    m->drain_asked = true;
    task_wake(&m->task);
}

static const struct conf_params *
manage_host_params(void *ctx)
{
    return &((struct manage *)ctx)->params;
}

static void
manage_host_set_params(void *ctx, const struct conf_params *next)
{
    manage_set_params(ctx, next);
}

static int64_t
manage_host_connections(void *ctx)
{
    return atomic_load_explicit(&((struct manage *)ctx)->env.shared->conns, memory_order_relaxed);
}

static void
manage_host_listeners(
    void *ctx, void (*each)(void *to, const char *name, const char *address), void *to)
{
    const struct endpoints *all = ((struct manage *)ctx)->env.shared->endpoints;

    for (const struct endpoint *d = all->first; d != NULL; d = d->next)
        if (!d->dropped)
            each(to, listener_conf(d)->facts.name, d->address);
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
    .walk_tags = manage_host_walk_tags,
};

static void
manage_on_request(void *ctx, struct exchange *x)
{
    struct manage *m = ctx;

    admin_start(m->admin, x);
}

static void
manage_on_empty(void *ctx)
{
    struct manage *m = ctx;

    task_wake(&m->task);
}

/* Room for one more.  Connections that have not proven anything make way for those that may: an
 * operator gets in, however many others are silent. */
static bool
manage_has_room(struct manage *m)
{
    bool has_token = m->env.conf->admin->token[0] != '\0';

    if (h1_server_connections(m->h1) >= MANAGE_CONNS_MAX)
        return h1_server_drop_unproven(m->h1, 0, false) > 0 || h1_server_shed_idle(m->h1, 1, 0) > 0;
    if (has_token && h1_server_unproven(m->h1) >= MANAGE_UNPROVEN_MAX)
        h1_server_drop_unproven(m->h1, MANAGE_PROOF_MS, false);
    return true;
}

void
manage_admin_tend(struct manage *m)
{
    if (m->h1 != NULL)
        h1_server_drop_unproven(m->h1, MANAGE_UNPROVEN_MS, true);
}

static int
manage_on_accept(void *ctx, int fd, bool is_unix)
{
    static const struct conn_listener endpoint = {.name = "admin", .endpoint = ""};
    struct manage *m = ctx;

    if (fd < 0) {
        elog(ELOG_ERROR, "admin: out of file descriptors: accepting no connection for a moment");
        return TERR_LIMIT;
    }
    if (!manage_has_room(m)) {
        close(fd);
        elog(ELOG_WARN, "admin: %d connections are open, one was dropped", MANAGE_CONNS_MAX);
        return TERR_LIMIT;
    }
    return h1_server_accept_known(m->h1, fd, is_unix, &endpoint);
}

static int
manage_bind(struct manage *m)
{
    const struct conf_admin *a = m->env.conf->admin;
    const struct listen_how how = {
        .depth = ADMIN_DEPTH, .mode = a->mode, .user = a->user, .group = a->group};
    char why[256] = "";
    int err = listen_bind(&m->bound, &a->address, &how, why, sizeof(why));

    if (err != 0)
        elog(ELOG_ERROR, "admin: %s", why[0] != '\0' ? why : terr_text(err));
    if (err == 0 && (m->env.channel != NULL || listen_is_inherited(m->bound)))
        err = listen_share(m->bound, 1);
    if (err == 0)
        err = channel_hold(m->env.channel, m->env.conf->admin->address.text, m->bound);
    return err;
}

int
manage_admin_open(struct manage *m)
{
    const struct manage_env *env = &m->env;
    struct h1_server_env h1 = {.loop = m->loop,
        .conf = &m->h1_conf,
        .start = manage_on_request,
        .start_ctx = m,
        .on_empty = manage_on_empty,
        .conns = &m->conns};
    struct admin_env admin = {.loop = m->loop,
        .conf = env->conf,
        .counters = env->counters,
        .latency = env->latency,
        .cache = env->cache,
        .storage = env->storage,
        .registry = env->registry,
        .policies = env->policies,
        .tables = env->tables,
        .nworkers = env->nworkers,
        .shm_dir = env->shm_dir,
        .logs = env->logs,
        .names = env->names,
        .host = &manage_host,
        .host_ctx = m};
    int err = manage_bind(m);

    if (err != 0)
        return err;
    admin.address = listen_address(m->bound);
    err = counters_open(&m->counters, NULL, 1);
    if (err == 0) {
        h1.counters = counters_worker(m->counters, 0);
        err = h1_server_open(&m->h1, &h1);
    }
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

void
manage_admin_drain(struct manage *m)
{
    if (m->listener != NULL)
        listener_close(&m->listener);
    if (m->h1 != NULL)
        h1_server_drain(m->h1);
}

bool
manage_admin_ended(struct manage *m, bool cut)
{
    if (m->h1 == NULL || h1_server_connections(m->h1) == 0)
        return true;
    if (cut)
        h1_server_cut(m->h1);
    return false;
}

void
manage_admin_close(struct manage *m)
{
    if (m->admin != NULL)
        admin_close(&m->admin);
    if (m->h1 != NULL)
        h1_server_close(&m->h1);
    if (m->counters != NULL)
        counters_close(&m->counters);
    if (m->bound != NULL)
        listen_release(&m->bound);
}
