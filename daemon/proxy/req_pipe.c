/* req_pipe.c -- a tunnel: what the client sends goes to the origin, and the other way round.
 *
 * One buffer a direction.  It is filled again when what was in it has left, so what is slow on
 * one side is felt on the other, and no more than two buffers ever wait.  Each direction ends by
 * itself; an error of either ends both.  The deadline is the protocol's (pipe_timeout). */
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/req_priv.h"

enum {
    PIPE_BYTES = 16384,
    PIPE_ROUNDS = 16 /* full buffers in a turn, then the others get theirs */
};

struct req_pipe {
    size_t up_len, up_at;     /* of `up`: read from the client, accepted by the origin */
    size_t down_len, down_at; /* of `down`: read from the origin, accepted by the client */
    uint64_t down_given;      /* bytes accepted by the client, all */
    bool up_ended, down_ended, end_given, broken;
    char up[PIPE_BYTES], down[PIPE_BYTES];
};

/* After release: until then the client's connection may read the buffers. */
void
req_end_pipe(struct req *r)
{
    if (r->tunnel == NULL)
        return;
    origin_discard(&r->tunnel);
    tassert(r->tunnel == NULL); /* owned, and no connection of a tunnel is used again */
    usage_free(&r->proxy->loop->usage, USAGE_REQUEST, r->pipe);
    r->pipe = NULL;
}

/* 1: something moved; 0; or TERR_*. */
static int
pipe_up(struct req *r, struct req_pipe *p)
{
    struct origin_exchange *o = origin_exchange(r->tunnel);
    struct iovec iov;
    ssize_t n;

    tassert(p->up_at <= p->up_len);
    if (o->ops->sending(o))
        return 0; /* it still reads the buffer */
    if (p->up_at == p->up_len) {
        if (p->up_ended)
            return 0;
        n = r->x->ops->body_read(r->x, p->up, PIPE_BYTES);
        if (n < 0)
            return n == TERR_AGAIN ? 0 : (int)n;
        if (n == 0) {
            p->up_ended = true;
            o->ops->shut(o);
            return 1;
        }
        tassert(n <= PIPE_BYTES);
        p->up_len = (size_t)n;
        p->up_at = 0;
    }
    iov = (struct iovec){.iov_base = p->up + p->up_at, .iov_len = p->up_len - p->up_at};
    n = o->ops->send(o, &iov, 1, 0);
    if (n != 0)
        return n == TERR_AGAIN ? 0 : (int)n;
    p->up_at = p->up_len;
    return 1;
}

static int
pipe_down(struct req *r, struct req_pipe *p)
{
    struct origin_exchange *o = origin_exchange(r->tunnel);
    struct iovec iov;
    ssize_t n;

    tassert(p->down_at <= p->down_len);
    tassert(!p->end_given || p->down_ended);
    /* The client's connection sends from the buffer itself: it is filled when all of it has left. */
    if (p->down_at == p->down_len && !p->down_ended && r->x->sent == p->down_given) {
        n = o->ops->body(o, (struct span){p->down, PIPE_BYTES});
        if (n < 0)
            return n == TERR_AGAIN ? 0 : (int)n;
        tassert(n <= PIPE_BYTES);
        p->down_ended = n == 0;
        p->down_len = (size_t)n;
        p->down_at = 0;
    }
    if (!r->x->writable || p->end_given || (p->down_at == p->down_len && !p->down_ended))
        return 0;
    iov = (struct iovec){.iov_base = p->down + p->down_at, .iov_len = p->down_len - p->down_at};
    n = r->x->ops->send(r->x, NULL, &iov, iov.iov_len > 0, p->down_ended ? EXCHANGE_END : 0);
    if (n < 0)
        return (int)n;
    tassert((size_t)n <= iov.iov_len);
    p->end_given = p->down_ended;
    p->down_at += (size_t)n;
    p->down_given += (uint64_t)n;
    return 1;
}

static bool
pipe_begin(struct req *r)
{
    tassert(!r->head_sent);
    r->resp = (struct exchange_response){.status = 101, .length = EXCHANGE_LENGTH_UNKNOWN};
    r->resp.message = req_response(r);
    r->pipe = usage_calloc(&r->proxy->loop->usage, USAGE_REQUEST, sizeof(*r->pipe));
    if (r->pipe == NULL || r->resp.message == NULL)
        return false;
    r->x->ops->tunnel(r->x);
    r->head_sent = true;
    r->log_flags |= SHMLOG_REQ_PIPE;
    req_note_first_byte(r);
    return r->x->ops->send(r->x, &r->resp, NULL, 0, 0) == 0;
}

/* PIPE -- until both directions have ended. */
enum req_next
req_do_pipe(struct req *r)
{
    int up = 1, down = 1;

    tassert(r->tunnel != NULL); /* the origin has agreed */
    if (r->pipe == NULL) {
        if (!r->x->writable)
            return REQ_WAIT;
        if (!pipe_begin(r)) {
            r->x->ops->reset(r->x, TERR_NOMEM);
            return req_goto(r, REQ_CLOSE);
        }
    }
    if (r->pipe->broken)
        return REQ_WAIT; /* for `gone`: what was accepted is still being sent */
    for (unsigned i = 0; i < PIPE_ROUNDS && (up > 0 || down > 0); i++) {
        up = pipe_up(r, r->pipe);
        down = up < 0 ? up : pipe_down(r, r->pipe);
        if (down < 0) {
            r->pipe->broken = true;
            r->x->ops->reset(r->x, down);
            return r->x->gone ? req_goto(r, REQ_CLOSE) : REQ_WAIT;
        }
    }
    if (r->x->done)
        return req_goto(r, REQ_CLOSE);
    if (up > 0 || down > 0)
        task_wake(&r->task);
    return REQ_WAIT;
}
