/* h1_read.c -- a client connection's input: request heads and bodies. */
#include "daemon/h1/h1_conn.h"

#include "daemon/base/terr.h"
#include "daemon/http/token.h"
#include "daemon/http/uri.h"

enum {
    IN_PAUSE_BYTES = 16384, /* unread input of a busy connection: then it is paused */
};

/* A head that came in one piece is parsed where the kernel wrote it. */
void
h1_in_begin(struct h1_conn *c)
{
    struct span rx = stream_received(c->stream);

    if (rx.len == 0)
        return;
    counter_add(c->server->env.counters, COUNTER_req_bytes_in, rx.len);
    /* Behind what was kept: a head must lie in one piece. */
    if (stream_input_begin(&c->busy->in, c->stream, &c->server->env.loop->usage, rx) != 0)
        h1_conn_die(c);
}

/* A client that sends on while it waits, or does not take its answers, is made to stop.
 * A paused stream leaves the bytes to the kernel, and TCP's window then stops the client. */
static void
h1_in_pace(struct h1_conn *c)
{
    bool pause = c->busy->in.len >= IN_PAUSE_BYTES &&
                 ((c->cur != NULL && c->cur->started) || !h1_out_ready(c));

    if (pause == c->paused)
        return;
    c->paused = pause;
    if (pause)
        stream_pause(c->stream);
    else
        stream_resume(c->stream);
    if (!c->running)
        task_wake(&c->task); /* another deadline */
}

void
h1_in_skip(struct h1_conn *c, size_t n)
{
    stream_input_skip(&c->busy->in, n);
    if (c->paused && !c->dead)
        h1_in_pace(c);
}

/* The head's slices point into input that is about to go. */
static int
h1_head_keep(struct h1_xchg *hx)
{
    if (!hx->started || hx->head_kept)
        return 0;
    hx->head_kept = true;
    return http_message_keep(&hx->x.head, &hx->x.arena);
}

int
h1_in_keep_heads(struct h1_conn *c)
{
    int err = c->cur != NULL ? h1_head_keep(c->cur) : 0;

    for (struct list *l = c->busy->answered.next; l != &c->busy->answered; l = l->next) {
        int rc = h1_head_keep(container_of(l, struct h1_xchg, link));

        err = err != 0 ? err : rc;
    }
    return err;
}

/* The end of a run: what is still needed is copied, then the stream's slab goes back. */
int
h1_in_end(struct h1_conn *c)
{
    int err = c->cur == NULL && list_empty(&c->busy->answered) ? 0 : h1_in_keep_heads(c);
    int rc = stream_input_keep(&c->busy->in, &c->server->env.loop->usage);

    err = err != 0 ? err : rc;
    if (c->dead || err != 0)
        return err;
    if (stream_received(c->stream).len > 0)
        stream_consume(c->stream);
    if (c->paused || c->busy->in.len > 0)
        h1_in_pace(c);
    return 0;
}

/* Refused requests, too: the answerer writes the error and logs the request.
 * `start` runs the answerer at once: for a hit the answer is gathered when this returns, and the
 * exchange may be among those that were answered. */
static void
h1_start(struct h1_conn *c, struct h1_xchg *hx)
{
    hx->started = true;
    hx->x.writable = c->gathering || h1_out_ready(c); /* gathering: it has been looked at */
    counter_add(c->server->env.counters, COUNTER_req_total, 1);
    c->server->env.start(c->server->env.start_ctx, &hx->x);
}

void
h1_in_refuse(struct h1_conn *c, int err)
{
    struct h1_xchg *hx = c->cur;

    tassert(hx != NULL && !hx->started);
    counter_add(c->server->env.counters, COUNTER_req_bad, 1);
    c->closing = c->unread = true; /* and no byte that follows is interpreted */
    hx->x.err = err;
    if (!hx->parser.head_done) { /* what was read of it is only good for the log's first line */
        hx->x.head.len = (uint16_t)(hx->parser.line_done ? hx->parser.fed : 0);
        hx->x.head.nfields = 0;
        hx->x.head.present = 0;
        if (hx->x.head.len > c->busy->in.len)
            hx->x.head.len = 0;
    }
    hx->x.head.base = c->busy->in.p; /* where its bytes are by now */
    hx->x.has_body = false;
    h1_start(c, hx);
}

/* Everything that must be true of a head before it is acted on.  *persists: the connection may go
 * on behind it. */
static int
h1_head_check(struct h1_conn *c, struct h1_xchg *hx, bool *persists)
{
    struct http_message *h = &hx->x.head;
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    uint64_t body_max = client_body_max(c->server->env.conf, &c->facts);
    struct framing_connection fc;
    int err;

    /* Framing comes first: no other fault may hide that it is unknown where the request ends.
     * Of several faults the first one decides the status. */
    err = framing_connection_of_request(h, &fc);
    if (err == 0)
        err = framing_of_request(h, &hx->parser.framing);
    if (err == 0)
        err = http_target_parse_memo(h, &scheme, &c->server->host);
    if (err == 0 && h->method == HTTP_M_OTHER && !c->server->env.conf->any_method)
        err = TERR_METHOD;
    if (err == 0)
        err = framing_expect(h);
    if (err != 0)
        return err;
    /* An HTTP/1.0 client is never sent 100 (Continue), for it would not understand it. */
    hx->expects_100 = http_has(h, HTTP_F_EXPECT) && !http_is_1_0(h);
    *persists = fc.persists;
    hx->x.has_body = hx->parser.framing.kind == FRAMING_CHUNKED ||
                     (hx->parser.framing.kind == FRAMING_LENGTH && hx->parser.framing.length > 0);
    hx->x.body_length = hx->parser.framing.kind == FRAMING_CHUNKED ? EXCHANGE_LENGTH_UNKNOWN
                                                                   : hx->parser.framing.length;
    /* Not with a body: it would have to be read whole before the protocol changes (RFC 9110
     * 7.8). */
    hx->x.upgrade = http_has(h, HTTP_F_UPGRADE) && fc.persists && !hx->x.has_body &&
                    h->method != HTTP_M_HEAD && framing_upgrade(h, &fc).ptr != NULL;
    if (hx->parser.framing.kind == FRAMING_LENGTH && body_max > 0 &&
        hx->parser.framing.length > body_max)
        return TERR_BODYTOOBIG;
    return 0;
}

/* Blank lines before the first (RFC 9112 2.2).  As h1_parse_line.
 * Lines in front are dropped as they come, so a client that sends nothing else keeps an idle
 * connection and no request (README, empty lines). */
static int
h1_in_leading(struct h1_conn *c, struct h1_xchg *hx)
{
    struct h1_busy *b = c->busy;
    int n = h1_parse_leading(&hx->parser, b->in.p, b->in.len);

    if (n < 0)
        return n;
    h1_in_skip(c, (size_t)n);
    hx->x.start_us = c->server->env.loop->clock.mono_us;
    return b->in.len > 1 || (b->in.len == 1 && b->in.p[0] != '\r');
}

/* The first line, and all of a head with fields that came before (h1_memo.h).  As h1_parse_line. */
static int
h1_in_line(struct h1_conn *c, struct h1_xchg *hx, bool *persists)
{
    struct h1_busy *b = c->busy;
    int rc = b->in.p[0] != '\r' ? 1 : h1_in_leading(c, hx);

    if (rc <= 0)
        return rc;
    rc = h1_parse_line(&hx->parser, b->in.p, b->in.len);
    if (rc <= 0)
        return rc;
    if (h1_memo_find(c->server->memo, &c->memo_hint, &hx->parser, b->in.p, b->in.len, persists) &&
        hx->x.head.method == HTTP_M_OTHER && !c->server->env.conf->any_method)
        return TERR_METHOD;
    return 1;
}

/* The fields, and whether the head may be acted on.  As h1_parse_head. */
static int
h1_in_fields(struct h1_conn *c, struct h1_xchg *hx, bool *persists)
{
    int rc = h1_parse_head(&hx->parser, c->busy->in.p, c->busy->in.len);

    if (rc <= 0)
        return rc;
    rc = h1_head_check(c, hx, persists);
    if (rc < 0)
        return rc;
    if (!hx->x.has_body) {
        hx->parser.body_done = true;
        h1_memo_note(c->server->memo, &hx->parser, *persists);
    }
    return 1;
}

/* True: an exchange was started, for a whole head or for one that is refused.  False: more bytes
 * are needed; fields that were parsed are not parsed again when they come. */
static bool
h1_in_head(struct h1_conn *c)
{
    struct h1_xchg *hx = c->cur;
    bool persists = true;
    int rc = hx->parser.line_done ? 1 : h1_in_line(c, hx, &persists);

    if (rc == 1 && !hx->parser.head_done)
        rc = h1_in_fields(c, hx, &persists);
    if (rc == 0)
        return false;
    if (rc < 0) {
        h1_in_refuse(c, rc);
        return true;
    }
    if (!persists)
        c->closing = true;
    h1_in_skip(c, hx->x.head.len); /* the head's slices stay where they are until h1_in_end */
    h1_start(c, hx);
    return true;
}

/* Asked before the head of the answer is written, because what it says of the connection (close
 * or not) is final. */
bool
h1_drain_may(const struct h1_conn *c, const struct h1_xchg *hx)
{
    const struct framing *f = &hx->parser.framing;

    if (c->closing || hx->timed_out || hx->parser.err != 0)
        return false;
    if (hx->expects_100 && c->busy->in.len == 0 && hx->parser.taken == 0)
        return false; /* it may never come: the client waits for leave, and gets an answer */
    return f->kind == FRAMING_CHUNKED || f->length - hx->parser.taken <= LIMIT_DRAIN_BODY;
}

bool
h1_drain_over(const struct h1_conn *c, const struct h1_xchg *hx)
{
    return !hx->tunnel && (hx->parser.body_done || c->closing);
}

/* It is one of those that were answered, and the connection has no current one. */
static void
h1_drain_end(struct h1_conn *c, struct h1_xchg *hx)
{
    tassert(c->cur == hx && hx->end_given && !hx->tunnel);
    c->cur = NULL;
    list_add_tail(&c->busy->answered, &hx->link);
}

void
h1_drain_stop(struct h1_conn *c)
{
    c->closing = c->unread = true;
    h1_drain_end(c, c->cur);
}

/* The body is decoded as ever, for only so it is known where the next request begins. */
static bool
h1_in_drain(struct h1_conn *c, struct h1_xchg *hx)
{
    char none[2048];
    size_t used = 1;
    ssize_t n = 0;

    while (c->busy->in.len > 0 && used > 0 && n >= 0 && !h1_drain_over(c, hx) &&
           hx->drained <= LIMIT_DRAIN_BODY + LIMIT_CHUNK_EXT_BODY) {
        n = h1_parse_body(&hx->parser, c->busy->in.p, c->busy->in.len, none, sizeof(none), &used);
        hx->drained += (uint32_t)used;
        h1_in_skip(c, used);
    }
    if (hx->parser.body_done)
        h1_drain_end(c, hx);
    else if (n < 0 || c->closing || hx->drained > LIMIT_DRAIN_BODY + LIMIT_CHUNK_EXT_BODY)
        h1_drain_stop(c);
    else
        return false;
    return true;
}

bool
h1_in_step(struct h1_conn *c)
{
    struct h1_xchg *hx = c->cur;

    if (c->busy->in.len == 0)
        return false;
    if (hx == NULL) {
        if (c->closing) {
            c->unread = true;
            h1_in_skip(c, c->busy->in.len); /* discarded, never parsed */
            return false;
        }
        hx = h1_xchg_new(c);
        if (hx == NULL) {
            h1_conn_die(c);
            return false;
        }
        c->cur = hx;
        hx->x.start_us = c->server->env.loop->clock.mono_us;
    }
    if (!hx->started)
        return h1_in_head(c);
    if (h1_conn_drains(c))
        return h1_in_drain(c, hx);
    if ((!hx->parser.body_done || hx->tunnel) && hx->x.task != NULL)
        task_wake_now(hx->x.task); /* more of the body, or through the tunnel */
    return false;
}

ssize_t
h1_body_read(struct exchange *x, char *dst, size_t room)
{
    struct h1_xchg *hx = h1_xchg_of(x);
    struct h1_conn *c = hx->conn;
    uint64_t most = client_body_max(c->server->env.conf, &c->facts);
    size_t used;
    ssize_t n;

    tassert(hx->started && room > 0);
    if (hx->tunnel)
        return h1_tunnel_read(hx, dst, room);
    if (hx->parser.body_done)
        return 0;
    if (c->dead || hx->end_given) /* answered: what is left of it is dropped */
        return TERR_CLOSED;
    h1_continue(c, hx);
    if (c->dead)
        return TERR_CLOSED;
    do { /* framing alone fills nothing, but what follows it may be here already */
        n = h1_parse_body(&hx->parser, c->busy->in.p, c->busy->in.len, dst, room, &used);
        if (n < 0) {
            c->closing = c->unread = true;
            return n;
        }
        h1_in_skip(c, used);
    } while (n == 0 && used > 0 && !hx->parser.body_done && c->busy->in.len > 0 && !c->dead);
    /* Decoded bytes: with chunks h1_parse_body() does not count them. */
    if (hx->parser.framing.kind == FRAMING_CHUNKED)
        hx->parser.taken += (uint64_t)n;
    if (most > 0 && hx->parser.taken > most) {
        c->closing = c->unread = true;
        return TERR_BODYTOOBIG;
    }
    if (n > 0 || hx->parser.body_done)
        return n;
    if (hx->timed_out)
        return TERR_TIMEDOUT;
    return stream_ended(c->stream) != 0 ? TERR_CLOSED : TERR_AGAIN;
}
