/* h1_write.c -- a client connection's output: heads, framing, bodies, in order.
 *
 * Body bytes are never copied: buffers go to the kernel as they were given.  What the kernel
 * does not take at once goes into the stream's one queued write, at most LIMIT_UNSENT_BYTES;
 * body bytes beyond that are not accepted.  Heads, and the rest of a chunk that has begun,
 * are always accepted; what of them does not fit waits in the backlog. */
#include "daemon/h1/h1_conn.h"

#include <stdio.h>

#include "daemon/base/iov.h"
#include "daemon/base/terr.h"

enum {
    CHUNK_BYTES_MAX = 32768, /* small enough that a chunk that has begun can be queued whole */
};

/* Bytes leave in order: while some are left over, no answer may be accepted behind them. */
bool
h1_out_ready(const struct h1_conn *c)
{
    return !c->dead && c->busy->nbacklog == 0 && !stream_sending(c->stream);
}

static void
h1_iov_add(struct iovec *iov, unsigned *n, const void *p, size_t len)
{
    if (len == 0)
        return;
    tassert(*n < LIMIT_WRITE_IOV);
    memcpy(&iov[*n].iov_base, &p, sizeof(p));
    iov[(*n)++].iov_len = len;
}

ssize_t
h1_out_keep(struct h1_conn *c, struct iovec *iov, unsigned n, size_t must)
{
    ssize_t queued = stream_queue(c->stream, iov, n);
    unsigned i;

    if (queued < 0)
        return queued;
    c->busy->queued_to = c->busy->left + (uint64_t)queued;
    if ((size_t)queued >= must)
        return queued;
    must -= (size_t)queued;
    i = iov_skip(iov, n, (size_t)queued);
    c->busy->backlog = usage_alloc(&c->server->env.loop->usage, USAGE_CONN, (n - i) * sizeof(*iov));
    /* The caller ends the connection: bytes that were accepted would be missing from the stream. */
    if (c->busy->backlog == NULL)
        return TERR_NOMEM;
    c->busy->backlog_at = 0;
    for (; i < n && must > 0; i++) {
        struct iovec *b = &c->busy->backlog[c->busy->nbacklog++];

        *b = iov[i];
        if (b->iov_len > must)
            b->iov_len = must;
        must -= b->iov_len;
    }
    return queued;
}

/* The kernel gets what it takes; everything is kept otherwise. */
int
h1_out_flush(struct h1_conn *c)
{
    struct h1_server *s = c->server;
    struct iovec *iov = s->gather;
    unsigned n = s->ngather, gone;
    size_t total;
    ssize_t sent;

    if (n == 0)
        return 0;
    s->ngather = 0;
    total = (size_t)(c->busy->given - c->busy->left);
    tassert_slow(total == iov_bytes(iov, n));
    sent = stream_try(c->stream, iov, n, false);
    if (sent < 0)
        return (int)sent;
    c->busy->left += (uint64_t)sent;
    tassert(c->busy->left <= c->busy->given);
    if ((size_t)sent == total)
        return 0;
    gone = iov_skip(iov, n, (size_t)sent);
    sent = h1_out_keep(c, iov + gone, n - gone, total - (size_t)sent);
    return sent < 0 ? (int)sent : 0;
}

int
h1_out_progress(struct h1_conn *c)
{
    if (stream_write_error(c->stream) != 0)
        return TERR_CLOSED;
    while (!stream_sending(c->stream)) {
        struct h1_busy *b = c->busy;
        struct iovec *iov;
        unsigned n;
        ssize_t sent;

        if (b->queued_to > b->left)
            b->left = b->queued_to;
        if (b->nbacklog == 0)
            return 0;
        if (b->backlog_at == b->nbacklog) {
            usage_free(&c->server->env.loop->usage, USAGE_CONN, b->backlog);
            b->backlog = NULL;
            b->nbacklog = b->backlog_at = 0;
            return 0;
        }
        iov = b->backlog + b->backlog_at;
        n = b->nbacklog - b->backlog_at;
        sent = stream_queue(c->stream, iov, n);
        if (sent < 0)
            return (int)sent;
        b->queued_to = b->left + (uint64_t)sent;
        b->backlog_at += iov_skip(iov, n, (size_t)sent);
    }
    return 0;
}

/* Body bytes of `hx` that will never be read again. */
static uint64_t
h1_xchg_sent(const struct h1_conn *c, const struct h1_xchg *hx)
{
    if (c->busy->left >= c->busy->given || (hx->end_given && c->busy->left >= hx->end_pos))
        return hx->body_given;
    /* With chunks a position in the output is none in the body: nothing is given back until all
     * that was accepted has left. */
    if (hx->chunked || c->busy->left <= hx->body_pos)
        return hx->x.sent;
    return c->busy->left - hx->body_pos < hx->body_given ? c->busy->left - hx->body_pos
                                                         : hx->body_given;
}

void
h1_out_tell(struct h1_conn *c)
{
    struct list *l, *next;

    LIST_FOREACH_SAFE(l, next, &c->busy->answered)
    {
        struct h1_xchg *hx = container_of(l, struct h1_xchg, link);

        hx->x.sent = h1_xchg_sent(c, hx);
        hx->x.writable = hx->x.gathered = false;
        hx->x.done = c->busy->left >= hx->end_pos;
        if (__builtin_expect(hx->x.done, 1))
            hx->x.over(&hx->x); /* may release it */
        else
            task_wake_now(hx->x.task); /* it borrows memory of this turn */
    }
    if (c->cur != NULL && c->cur->started) {
        struct h1_xchg *hx = c->cur;
        bool ready = h1_out_ready(c);
        bool gathered = hx->x.gathered;
        uint64_t sent = hx->x.sent;

        hx->x.sent = h1_xchg_sent(c, hx);
        if (!ready)
            hx->x.writable = false; /* an answer before it filled the output */
        if (hx->tunnel && h1_tunnel_settle(c, hx))
            hx->x.done = true;
        hx->x.gathered = false;
        if (hx->end_given ? hx->x.done || gathered || hx->x.sent != sent
                          : ready && !hx->x.writable) {
            hx->x.writable = !hx->end_given;
            task_wake_now(hx->x.task);
        }
    }
}

/* Decimal, without snprintf(): once in each response. */
static size_t
h1_put_number(char *out, uint64_t n)
{
    char digits[20];
    unsigned k = 0;

    if (n < 10000) { /* mostly: four digits at once, of which the first may be left out */
        const unsigned v = (unsigned)n, skip = (v < 1000) + (v < 100) + (v < 10);

        digits[0] = (char)('0' + v / 1000);
        digits[1] = (char)('0' + v / 100 % 10);
        digits[2] = (char)('0' + v / 10 % 10);
        digits[3] = (char)('0' + v % 10);
        for (unsigned i = skip; i < 4; i++)
            out[i - skip] = digits[i];
        return 4 - skip;
    }
    do
        digits[k++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    for (unsigned i = 0; i < k; i++)
        out[i] = digits[k - 1 - i];
    return k;
}

#define H1_PUT(p, literal) (memcpy((p), literal, sizeof(literal) - 1), (p) += sizeof(literal) - 1)

/* The fields that are the protocol's own, behind the answerer's.
 * The caller has made sure that the head is this exchange's first.  What is decided here is
 * final: the client acts on it. */
static void
h1_head_finish(struct h1_conn *c, struct h1_xchg *hx, const struct exchange_response *r)
{
    struct exchange *x = &hx->x;
    char *p = x->extra + x->extra_len;

    /* 160: more than all the lines below need together. */
    tassert(x->extra_len + 160 <= EXCHANGE_EXTRA);
    /* RFC 9112 9.6: the last response says close, so that the client sends no request behind it. */
    if (r->close || c->server->draining)
        c->closing = true;
    hx->bodyless = r->bodyless;
    if (hx->tunnel) {
        tassert(r->status == 101 && r->length == EXCHANGE_LENGTH_UNKNOWN && !r->bodyless);
        H1_PUT(p, "Connection: upgrade\r\n\r\n"); /* and no framing: RFC 9110 15.2.2 */
        x->extra_len = (uint16_t)(p - x->extra);
        hx->until_close = true;
        return;
    }
    tassert(r->status >= 200);
    if (r->length != EXCHANGE_LENGTH_UNKNOWN) {
        if (!r->length_in_fields && r->status != 204) { /* RFC 9110 8.6 */
            H1_PUT(p, "Content-Length: ");
            p += h1_put_number(p, r->length);
            H1_PUT(p, "\r\n");
        }
    } else if (!r->bodyless) {
        hx->chunked = !http_is_1_0(&x->head);
        if (hx->chunked)
            H1_PUT(p, "Transfer-Encoding: chunked\r\n");
        else
            c->closing = hx->until_close = true; /* the connection's end is the body's */
    }
    if (x->has_body && !hx->parser.body_done) { /* what is left of it is not the next request */
        hx->stays = h1_drain_may(c, hx);
        c->unread = !hx->stays;
        c->closing = c->closing || !hx->stays;
    }
    if (c->closing)
        H1_PUT(p, "Connection: close\r\n");
    else if (http_is_1_0(&x->head))
        H1_PUT(p, "Connection: keep-alive\r\n");
    H1_PUT(p, "\r\n");
    x->extra_len = (uint16_t)(p - x->extra);
}

/* Hexadecimal, and the end of the line; without snprintf(): once in each chunk. */
static size_t
h1_put_chunk_size(char out[16], size_t len)
{
    unsigned digits = 1;

    tassert(len <= CHUNK_BYTES_MAX);
    while (len >> (4 * digits) != 0)
        digits++;
    for (unsigned i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[len >> (4 * (digits - 1 - i)) & 15];
    memcpy(out + digits, "\r\n", 2);
    return digits + 2;
}

/* How much of the output must be accepted, given that the kernel took `sent`. */
struct h1_layout {
    size_t head_end;                    /* gathered answers and this head */
    size_t chunk_end[LIMIT_WRITE_IOV];  /* with chunked: where each chunk ends */
    size_t chunk_body[LIMIT_WRITE_IOV]; /* body bytes up to there */
    unsigned nchunks;
    size_t total, body;
};

/* Data and framing of chunks for as many of the buffers as there is room; returns whether
 * all were taken. */
static bool
h1_lay_chunks(
    struct h1_server *s, struct h1_layout *lay, char *heads, const struct iovec *body, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        size_t off = 0;

        while (off < body[i].iov_len) {
            size_t len = body[i].iov_len - off;
            char *h = heads + lay->nchunks * 16;
            size_t hl;

            /* Three buffers of this chunk, and one for the last chunk. */
            if (s->ngather + 4 > LIMIT_WRITE_IOV)
                return false;
            if (len > CHUNK_BYTES_MAX)
                len = CHUNK_BYTES_MAX;
            hl = h1_put_chunk_size(h, len);
            h1_iov_add(s->gather, &s->ngather, h, hl);
            h1_iov_add(s->gather, &s->ngather, (char *)body[i].iov_base + off, len);
            h1_iov_add(s->gather, &s->ngather, "\r\n", 2);
            lay->total += hl + len + 2;
            lay->body += len;
            lay->chunk_end[lay->nchunks] = lay->total;
            lay->chunk_body[lay->nchunks++] = lay->body;
            off += len;
        }
    }
    return true;
}

static bool
h1_lay_plain(struct h1_server *s, struct h1_layout *lay, const struct iovec *body, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (s->ngather >= LIMIT_WRITE_IOV)
            return false;
        h1_iov_add(s->gather, &s->ngather, body[i].iov_base, body[i].iov_len);
        lay->total += body[i].iov_len;
        lay->body += body[i].iov_len;
    }
    return true;
}

/* The text of the chunk head that lies in what is kept must outlive this call. */
static void
h1_keep_chunk_head(
    struct h1_xchg *hx, struct iovec *iov, unsigned n, const char *heads, size_t heads_len)
{
    for (unsigned i = 0; i < n; i++) {
        const char *p = iov[i].iov_base;

        if (p >= heads && p < heads + heads_len) {
            tassert(iov[i].iov_len <= sizeof(hx->chunk_head));
            memcpy(hx->chunk_head, p, iov[i].iov_len);
            iov[i].iov_base = hx->chunk_head;
            return; /* at most one chunk is begun and not whole */
        }
    }
}

/* Bytes, and *body of them, that must be accepted when the kernel has taken `sent`: the head, and
 * of chunks one more than that, so that its leaving wakes us; the terminal one goes with the last. */
static size_t
h1_out_must(const struct h1_layout *lay, size_t sent, size_t *body)
{
    size_t must = lay->head_end;

    *body = 0;
    for (unsigned i = 0; i < lay->nchunks && must <= sent; i++) {
        must = lay->chunk_end[i];
        *body = lay->chunk_body[i];
    }
    if (lay->nchunks > 0 && must < lay->total && must > lay->head_end && *body == lay->body)
        must = lay->total;
    return must;
}

/* Of `n` buffers, those that make `bytes`: the last one is cut. */
static unsigned
h1_iov_cut(struct iovec *iov, unsigned n, size_t bytes)
{
    unsigned k = 0;

    for (; k < n && bytes > 0; k++) {
        if (iov[k].iov_len > bytes)
            iov[k].iov_len = bytes;
        bytes -= iov[k].iov_len;
    }
    return k;
}

/* Offers what is laid out; returns the body bytes accepted.  *all: everything was. */
static ssize_t
h1_out_send(struct h1_conn *c, struct h1_xchg *hx, const struct h1_layout *lay, bool more,
    const char *heads, bool *all)
{
    struct h1_server *s = c->server;
    unsigned n = s->ngather, gone;
    size_t must, body, kept;
    ssize_t sent, queued;

    s->ngather = 0;
    sent = stream_try(c->stream, s->gather, n, more);
    if (sent < 0)
        return sent;
    c->busy->left += (uint64_t)sent;
    *all = (size_t)sent == lay->total;
    if (*all) {
        c->busy->given = c->busy->left;
        return (ssize_t)lay->body;
    }
    must = h1_out_must(lay, (size_t)sent, &body);
    kept = must > (size_t)sent ? must - (size_t)sent : 0;
    gone = iov_skip(s->gather, n, (size_t)sent);
    if (hx->chunked) { /* what is behind that chunk is offered again, framed anew */
        h1_keep_chunk_head(hx, s->gather + gone, n - gone, heads, LIMIT_WRITE_IOV * 16);
        n = gone + h1_iov_cut(s->gather + gone, n - gone, kept);
    }
    if (n == gone) { /* nothing has to be kept: chunk borders and socket's border agree */
        c->busy->given = c->busy->left;
        return (ssize_t)body;
    }
    queued = h1_out_keep(c, s->gather + gone, n - gone, kept);
    if (queued < 0)
        return queued;
    if (kept < (size_t)queued)
        kept = (size_t)queued;
    c->busy->given = c->busy->left + kept;
    if (!hx->chunked)
        body = (size_t)sent + kept > lay->head_end ? (size_t)sent + kept - lay->head_end : 0;
    *all = (size_t)sent + kept == lay->total;
    return (ssize_t)body;
}

/* All of the answer was accepted.  The exchange joins those that are answered, unless it stays
 * the connection's current one: a tunnel, or a body to drain. */
static void
h1_end(struct h1_conn *c, struct h1_xchg *hx)
{
    hx->end_given = true;
    hx->end_pos = c->busy->given;
    tassert(c->cur == hx);
    if (hx->stays && !h1_drain_over(c, hx)) {
        if (!c->running)
            task_wake(&c->task); /* another deadline, and what is here already */
        return;                  /* the client's direction goes on */
    }
    c->cur = NULL;
    list_add_tail(&c->busy->answered, &hx->link);
    if (!c->running)
        task_wake(&c->task); /* the next request, or the end of the connection */
}

/* Keeps it for the flush that follows, or sends it now. */
static ssize_t
h1_send_laid(struct h1_conn *c, struct h1_xchg *hx, const struct h1_layout *lay, const char *heads,
    bool end, bool more)
{
    ssize_t accepted;
    bool all = true;

    /* Chunks are never gathered: their heads lie on the caller's stack and are gone by the
     * flush. A body above LIMIT_UNSENT_BYTES could not be kept whole if the socket is full. */
    if (end && c->gathering && !hx->chunked && !hx->tunnel && lay->body <= LIMIT_UNSENT_BYTES) {
        c->busy->given = c->busy->left + lay->total;
        accepted = (ssize_t)lay->body;
        hx->x.gathered = true;
    } else if (lay->total == 0) {
        if (!end)
            return 0;
        accepted = 0; /* the end of the connection says it all */
    } else {
        accepted = h1_out_send(c, hx, lay, more, heads, &all);
        if (accepted < 0) {
            h1_conn_die(c);
            return TERR_CLOSED;
        }
        if (!c->running && !h1_out_ready(c))
            task_wake(&c->task); /* to set the deadline for a slow client */
    }
    hx->body_given += (uint64_t)accepted;
    counter_add(c->server->env.counters, COUNTER_resp_body_bytes, (uint64_t)accepted);
    if (end && all)
        h1_end(c, hx);
    if (hx->tunnel)
        h1_tunnel_touch(c);
    hx->x.sent = h1_xchg_sent(c, hx);
    hx->x.done = hx->tunnel ? h1_tunnel_settle(c, hx)
                            : hx->end_given && c->cur != hx && c->busy->left >= hx->end_pos;
    hx->x.writable = !hx->end_given && h1_out_ready(c);
    return accepted;
}

/* The usual answer: whole, of known length, kept for the flush that follows.  Whether it is one. */
static bool
h1_send_whole(struct h1_conn *c, struct h1_xchg *hx, const struct exchange_response *r,
    const struct iovec *body, unsigned n)
{
    struct h1_server *s = c->server;
    struct iovec *iov = s->gather + s->ngather;
    unsigned at = r->rendered.len > 0 ? 2 : 1;
    size_t head, bytes = 0;

    if (r->bodyless)
        n = 0;
    if (r->length == EXCHANGE_LENGTH_UNKNOWN || s->ngather + at + n > LIMIT_WRITE_IOV)
        return false;
    for (unsigned i = 0; i < n; i++) {
        iov[at + i] = body[i];
        bytes += body[i].iov_len;
    }
    if (bytes > LIMIT_UNSENT_BYTES)
        return false;
    h1_head_finish(c, hx, r);
    memcpy(&iov[0].iov_base, &r->rendered.ptr, sizeof(r->rendered.ptr));
    iov[0].iov_len = r->rendered.len;
    iov[at - 1] = (struct iovec){hx->x.extra, hx->x.extra_len};
    s->ngather += at + n;
    head = r->rendered.len + hx->x.extra_len;
    hx->x.head_bytes = (uint32_t)head;
    counter_add(s->env.counters, COUNTER_resp_head_bytes, head);
    counter_add(s->env.counters, COUNTER_resp_body_bytes, bytes);
    hx->head_given = true;
    hx->body_pos = c->busy->given + head;
    hx->body_given = bytes;
    c->busy->given = hx->body_pos + bytes;
    hx->x.gathered = true;
    hx->x.writable = false;
    h1_end(c, hx);
    return true;
}

/* Any other: a head and what of the body is at hand. */
static __attribute__((noinline)) ssize_t
h1_send_some(struct h1_conn *c, struct h1_xchg *hx, const struct exchange_response *r,
    const struct iovec *body, unsigned n, unsigned flags)
{
    struct h1_server *s = c->server;
    struct h1_layout lay; /* large: only what is read is set */
    char heads[LIMIT_WRITE_IOV * 16];
    bool whole, end;

    lay.total = iov_bytes(s->gather, s->ngather);
    lay.body = 0;
    lay.nchunks = 0;
    if (r != NULL) {
        h1_head_finish(c, hx, r);
        hx->head_given = true;
        h1_iov_add(s->gather, &s->ngather, r->rendered.ptr, r->rendered.len);
        h1_iov_add(s->gather, &s->ngather, hx->x.extra, hx->x.extra_len);
        hx->x.head_bytes = (uint32_t)(r->rendered.len + hx->x.extra_len);
        lay.total += hx->x.head_bytes;
        counter_add(s->env.counters, COUNTER_resp_head_bytes, hx->x.head_bytes);
    }
    lay.head_end = lay.total;
    if (hx->bodyless)
        n = 0;
    if (r != NULL)
        hx->body_pos = c->busy->left + lay.head_end;
    whole = hx->chunked ? h1_lay_chunks(s, &lay, heads, body, n) : h1_lay_plain(s, &lay, body, n);
    end = whole && (flags & EXCHANGE_END) != 0;
    if (end && hx->chunked) {
        h1_iov_add(s->gather, &s->ngather, "0\r\n\r\n", 5);
        lay.total += 5;
        if (lay.nchunks == 0)
            lay.head_end = lay.total;
    }
    /* What there were no buffers for is offered again at once. */
    return h1_send_laid(c, hx, &lay, heads, end, !whole || (!end && (flags & EXCHANGE_MORE) != 0));
}

static ssize_t h1_send(struct exchange *x, const struct exchange_response *r,
    const struct iovec *body, unsigned n, unsigned flags);

/* A head that comes as a message is rendered first. */
static __attribute__((noinline)) ssize_t
h1_send_message(struct exchange *x, const struct exchange_response *r, const struct iovec *body,
    unsigned n, unsigned flags)
{
    struct exchange_response rendered = *r;

    rendered.message = NULL;
    if (!h1_render(&x->arena, r->message, &rendered.rendered)) {
        h1_conn_die(h1_xchg_of(x)->conn);
        return TERR_CLOSED;
    }
    return h1_send(x, &rendered, body, n, flags);
}

/* exchange_ops.send.  In the answerer's task, which runs within the connection's run
 * (`gathering`) or by itself. */
static ssize_t
h1_send(struct exchange *x, const struct exchange_response *r, const struct iovec *body, unsigned n,
    unsigned flags)
{
    struct h1_xchg *hx = h1_xchg_of(x);
    struct h1_conn *c = hx->conn;

    if (c->dead || x->gone)
        return TERR_CLOSED;
    tassert(c->cur == hx && !hx->end_given);
    tassert_slow(h1_out_ready(c));
    tassert((r != NULL) == !hx->head_given);
    tassert(c->server->ngather + H1_IOV_PER_ANSWER <= LIMIT_WRITE_IOV);
    if (r != NULL && r->message != NULL)
        return h1_send_message(x, r, body, n, flags);
    if (r != NULL && c->gathering && (flags & EXCHANGE_END) != 0 && !hx->tunnel &&
        h1_send_whole(c, hx, r, body, n))
        return (ssize_t)hx->body_given;
    return h1_send_some(c, hx, r, body, n, flags);
}

/* Only the connection's end tells a client that a response is not whole (RFC 9112 8). */
static void
h1_reset(struct exchange *x, int why)
{
    (void)why;
    h1_conn_die(h1_xchg_of(x)->conn);
}

static void
h1_local(struct exchange *x, uint8_t addr[16], uint16_t *port)
{
    const struct h1_conn *c = h1_xchg_of(x)->conn;
    struct stream_peer local = {.port = 0};

    if (c->stream != NULL)
        stream_get_local(c->stream, &local);
    memcpy(addr, local.addr, sizeof(local.addr));
    *port = local.port;
}

/* exchange_ops.release: the answerer gives the exchange up, and with it all slices of the
 * request. */
static void
h1_release(struct exchange *x)
{
    struct h1_xchg *hx = h1_xchg_of(x);
    struct h1_conn *c = hx->conn;

    if (c->cur == hx) {
        /* Nothing whole was sent: what follows on this connection would be misread. */
        c->cur = NULL;
        if (!c->dead)
            h1_conn_die(c);
    } else {
        list_del(&hx->link);
    }
    h1_xchg_free(c, hx);
    if (!c->running)
        task_wake(&c->task);
}

const struct exchange_ops h1_exchange_ops = {
    .rendering = &h1_rendering,
    .body_read = h1_body_read,
    .send = h1_send,
    .interim = h1_interim,
    .tunnel = h1_tunnel,
    .reset = h1_reset,
    .local = h1_local,
    .release = h1_release,
};
