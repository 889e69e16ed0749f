/* h1_quota.c -- too many connections: of one client, or of all. */
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conn.h"

enum {
    SHED_LOOKS = 256, /* connections that one call looks at */
};

int
h1_conn_count(struct h1_conn *c)
{
    const struct h1_server_env *env = &c->server->env;
    int answer;

    if (env->client_begins == NULL)
        return 0;
    answer = env->client_begins(env->start_ctx, c->facts.client_addr);
    if (answer < 0)
        return TERR_LIMIT;
    c->counted = answer > 0;
    return 0;
}

void
h1_conn_uncount(struct h1_conn *c)
{
    if (c->counted)
        c->server->env.client_ends(c->server->env.start_ctx, c->facts.client_addr);
    c->counted = false;
}

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
h1_server_shed_idle(struct h1_server *s, unsigned most, int64_t idle_ms)
{
    unsigned looks = s->nconns < SHED_LOOKS ? s->nconns : SHED_LOOKS, n = 0;

    OBJ_CHECK(s, H1_SERVER_MAGIC);
    for (; looks > 0 && n < most; looks--) {
        struct h1_conn *c = container_of(s->conns.next, struct h1_conn, link);

        list_del(&c->link);
        list_add_tail(&s->conns, &c->link);
        if (!h1_conn_idles(c, idle_ms))
            continue;
        h1_conn_die(c);
        n++;
    }
    counter_add(s->env.counters, COUNTER_sess_shed, n);
    return n;
}
