/* h1_shed.c -- idle connections make way for new ones. */
#include "daemon/h1/h1_conn.h"

enum {
    SHED_LOOKS = 256, /* connections that one call looks at */
};

/* Has it waited for a request for so long?  Its one deadline tells since when. */
static bool
h1_conn_idles(const struct h1_conn *c, int64_t idle_ms)
{
    const struct h1_server_env *env = &c->server->env;

    return !c->dead && !c->running && c->phase == H1_IDLE &&
           c->timer.deadline_ms + (uint64_t)idle_ms <= loop_deadline(env->loop, env->conf->idle_ms);
}

/* Those that were looked at go behind the others, so that the next call goes on from there. */
unsigned
h1_server_shed_idle(struct conn_server *cs, unsigned most, int64_t idle_ms)
{
    struct h1_server *s = h1_server_of(cs);
    unsigned looks = s->nconns < SHED_LOOKS ? s->nconns : SHED_LOOKS, n = 0;

    for (; looks > 0 && n < most; looks--) {
        struct h1_conn *c = container_of(s->conns.next, struct h1_conn, link);

        list_del(&c->link);
        list_add_tail(&s->conns, &c->link);
        if (!h1_conn_idles(c, idle_ms))
            continue;
        h1_conn_die(c);
        n++;
    }
    return n;
}
