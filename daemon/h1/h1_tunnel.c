/* h1_tunnel.c -- a client connection after 101: bytes, in two directions that end each by itself.
 *
 * The exchange stays the connection's current one until its answerer releases it, so nothing is
 * ever parsed behind a tunnel.  Back-pressure is as with bodies: what is not read stays in the
 * socket, and what the client does not take is not accepted. */
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conn.h"

/* exchange_ops.tunnel, before the head of status 101 is sent. */
void
h1_tunnel(struct exchange *x)
{
    struct h1_xchg *hx = h1_xchg_of(x);
    struct h1_conn *c = hx->conn;

    tassert(x->upgrade && !hx->head_given);
    hx->tunnel = hx->stays = true;
    c->closing = true; /* there is no next request */
    if (!c->dead && !c->running)
        task_wake(&c->task); /* for the deadline, and for what the client sent ahead */
}

void
h1_tunnel_touch(struct h1_conn *c)
{
    struct loop *l = c->server->env.loop;

    c->busy->send_mark = h1_conn_taken(c);
    timer_set(&l->wheel, &c->timer, loop_deadline(l, c->server->env.conf->pipe_ms));
}

/* 0 once both are true: the client has ended its direction, and all that came before was read. */
ssize_t
h1_tunnel_read(struct h1_xchg *hx, char *dst, size_t room)
{
    struct h1_conn *c = hx->conn;
    size_t n = c->busy->in.len < room ? c->busy->in.len : room;

    if (c->dead)
        return TERR_CLOSED;
    if (hx->in_ended)
        return 0;
    if (n > 0) {
        memcpy(dst, c->busy->in.p, n);
        h1_in_skip(c, n);
        h1_tunnel_touch(c);
        return (ssize_t)n;
    }
    if (stream_ended(c->stream) == 0 || (!c->running && stream_received(c->stream).len > 0))
        return TERR_AGAIN;
    if (stream_ended(c->stream) != TERR_CLOSED)
        return TERR_CLOSED;
    hx->in_ended = true;
    if (h1_tunnel_settle(c, hx)) {
        hx->x.done = true;
        task_wake(hx->x.task); /* it need not look at `done` after a read */
    }
    return 0;
}

bool
h1_tunnel_settle(struct h1_conn *c, struct h1_xchg *hx)
{
    tassert(hx->tunnel);
    if (c->dead || !hx->end_given || c->busy->left < hx->end_pos)
        return false;
    if (!hx->shut)
        stream_shut(c->stream);
    hx->shut = true;
    return hx->in_ended;
}
