/* h2_tunnel.c -- a stream that has become a tunnel (RFC 8441, RFC 9113 8.5): DATA in two directions, each until its
 * own END_STREAM.
 *
 * Reading and sending are those of bodies: what is not read keeps its window closed, and the client's windows bound
 * what is accepted.  Other streams of the connection go on beside it. */
#include "daemon/h2/h2_conn.h"

/* exchange_ops.tunnel, before the head of status 101 is sent, which the client sees as 200. */
void
h2_tunnel(struct exchange *x)
{
    struct h2_stream *s = h2_stream_of(x);

    tassert(x->upgrade && x->connect && !s->head_given);
    s->tunnel = true;
}

bool
h2_tunnel_is_over(const struct h2_stream *s)
{
    return s->end_given && s->in_read && list_empty(&s->flying);
}

ssize_t
h2_tunnel_read_end(struct h2_stream *s)
{
    if (!s->tunnel)
        return 0;
    s->in_read = true;
    if (h2_tunnel_is_over(s)) {
        s->x.done = true;
        task_wake(s->x.task); /* it need not look at `done` after a read */
    }
    return 0;
}

void
h2_stream_touch(struct h2_stream *s)
{
    const struct client_conf *conf = s->conn->server->env.conf;

    s->deadline_ms =
        loop_deadline(s->conn->server->env.loop, s->tunnel ? conf->pipe_ms : conf->send_idle_ms);
}
