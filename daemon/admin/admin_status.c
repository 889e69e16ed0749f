/* admin_status.c -- how this tarnd is, and its end. */
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"

static const char *
status_state(const struct admin *a)
{
    return a->env.host->state(a->env.host_ctx);
}

static void
status_each_listener(void *to, const char *name, const char *address)
{
    json_t *list = to, *o = json_object();

    json_put_text(o, "name", name);
    json_put_text(o, "address", address);
    json_array_append_new(list, o);
}

static json_t *
status_listen(const struct admin *a)
{
    json_t *list = json_array();

    a->env.host->listeners(a->env.host_ctx, status_each_listener, list);
    return list;
}

/* All of it is this thread's own, or an atomic: the answer says how tarnd is even while every
 * worker hangs. */
void
admin_do_status(struct admin_call *c)
{
    const struct admin *a = c->admin;
    const struct clock *clock = &a->env.loop->clock;
    int64_t up_ms = (int64_t)clock->mono_ms - a->started_ms;
    json_t *o = json_object();

    json_put_text(o, "state", status_state(a));
    json_put_text(o, "version", TARN_VERSION);
    json_put(o, "pid", json_integer(getpid()));
    json_put(o, "uptime_s", json_real((double)up_ms / 1000));
    /* From the monotonic clock: it moves along when the wall clock is set. */
    json_put(o, "started", json_integer((clock->wall_ms - up_ms) / 1000));
    json_put(o, "workers", json_integer(a->env.nworkers));
    json_put(o, "connections", json_integer(a->env.host->connections(a->env.host_ctx)));
    json_put_text(o, "config", a->env.conf->path);
    admin_put_policy(c, o);
    json_put(o, "listen", status_listen(a));
    json_put_text(o, "admin", a->env.address);
    json_put_text(o, "shm_dir", a->env.shm_dir);
    admin_answer(c, 200, o);
}

/* Also while it drains: it lives, and is to be left alone. */
void
admin_do_healthz(struct admin_call *c)
{
    json_t *o = json_object();

    json_put_text(o, "state", status_state(c->admin));
    admin_answer(c, 200, o);
}

void
admin_do_readyz(struct admin_call *c)
{
    const char *state = status_state(c->admin);
    json_t *o = json_object();

    json_put_text(o, "state", state);
    /* A load balancer takes a draining tarnd out by this. */
    admin_answer(c, strcmp(state, "running") == 0 ? 200 : 503, o);
}

/* The host says all of it: which status, what has changed, or each mistake.
 * On this thread, as a whole and before the answer: operators wait while files are read and
 * names resolved, clients are served meanwhile. */
void
admin_do_reload(struct admin_call *c)
{
    const struct admin *a = c->admin;
    json_t *answer = NULL;
    unsigned status = a->env.host->reload(a->env.host_ctx, &answer);

    admin_answer(c, status, answer);
}

/* The answer leaves first: the process goes when this request is over.
 * admin_req_free() tells the host when the answer has left, or its client has gone (invariant
 * 8). */
static void
status_ends(struct admin_call *c)
{
    json_t *o = json_object();

    json_put_text(o, "state", "draining");
    admin_answer(c, 200, o);
}

void
admin_do_stop(struct admin_call *c)
{
    /* Acted upon when the request is freed (admin_req_free). */
    c->stops = true;
    status_ends(c);
}

void
admin_do_drain(struct admin_call *c)
{
    c->drains = true;
    status_ends(c);
}
