/* h2_write.c -- a client connection's output: HEADERS and DATA of all streams, and frames of our own.
 *
 * Frame heads and field blocks are written into the server's scratch, body bytes go to the kernel as
 * they were given.  A gather is bounded by H2_GATHER_BYTES.  What the kernel does not take of it waits in
 * the backlog, and until that has left no stream is accepted a byte: so what a client does not take is
 * bounded by one gather, however many streams it has. */
#include "daemon/h2/h2_conn.h"

#include "daemon/base/iov.h"
#include "daemon/base/terr.h"

enum {
    SEND_IOV = 3, /* buffers that must be free for one more frame: head, body, end */
    DATA_UPDATES =
        2, /* a stream's window and the connection's, that a client may open for a DATA frame */
    DATA_LEAST = 64, /* of a frame that is short because of its window (CVE-2019-9511) */
    INCREMENTAL_BYTES =
        16384, /* of an incremental stream, before others have their turn (RFC 9218 10) */
};

bool
h2_out_ready(const struct h2_conn *c)
{
    return !c->dead && c->nbacklog == 0 && !stream_sending(c->stream);
}

bool
h2_stream_may_send(const struct h2_stream *s)
{
    const struct h2_conn *c = s->conn;

    return h2_out_ready(c) && !s->reset && !s->end_given &&
           (!s->head_given || !s->wants_window || (s->send_window > 0 && c->send_window > 0));
}

/* `left` stands still while a write is queued. */
uint64_t
h2_conn_taken(const struct h2_conn *c)
{
    return stream_sending(c->stream) ? c->queued_to - stream_unsent(c->stream) : c->left;
}

static bool
h2_in_scratch(const struct h2_server *s, const void *p)
{
    return (const char *)p >= s->scratch && (const char *)p < s->scratch + sizeof(s->scratch);
}

static bool h2_out_more(struct h2_conn *c);

void
h2_out_begin(struct h2_conn *c)
{
    struct h2_server *s = c->server;
    struct h2_conn *other = s->running;

    /* An answerer that another connection runs may have something for this one. */
    if (other != NULL && other != c && other->gathering)
        h2_out_more(other);
    tassert(!c->gathering && s->ngather == 0 && s->scratch_len == 0);
    c->gathering = true;
    if (c->pending_len == 0 || !h2_out_ready(c))
        return;
    memcpy(s->scratch, c->pending, c->pending_len);
    s->gather[0] = (struct iovec){s->scratch, c->pending_len};
    s->ngather = 1;
    s->scratch_len = s->gather_bytes = c->pending_len;
    c->given += c->pending_len;
    usage_free(&s->env.loop->usage, USAGE_CONN, c->pending);
    c->pending = NULL;
    c->pending_len = c->pending_cap = 0;
}

/* Room for `len` bytes in front of what follows; the caller has made sure of it. */
static char *
h2_out_room(struct h2_conn *c, size_t len)
{
    struct h2_server *s = c->server;
    char *p = s->scratch + s->scratch_len;

    tassert(c->gathering && s->scratch_len + len <= sizeof(s->scratch));
    return p;
}

/* Bytes that were written at h2_out_room(). */
static void
h2_out_add(struct h2_conn *c, size_t len)
{
    struct h2_server *s = c->server;
    char *p = s->scratch + s->scratch_len;
    struct iovec *last = s->ngather > 0 ? &s->gather[s->ngather - 1] : NULL;

    s->scratch_len += len;
    s->gather_bytes += len;
    c->given += len;
    if (last != NULL && (char *)last->iov_base + last->iov_len == p &&
        h2_in_scratch(s, last->iov_base)) {
        last->iov_len += len;
        return;
    }
    tassert(s->ngather < LIMIT_WRITE_IOV);
    s->gather[s->ngather++] = (struct iovec){p, len};
}

static void
h2_out_ref(struct h2_conn *c, const void *p, size_t len)
{
    struct h2_server *s = c->server;

    tassert(s->ngather < LIMIT_WRITE_IOV);
    memcpy(&s->gather[s->ngather].iov_base, &p, sizeof(p));
    s->gather[s->ngather++].iov_len = len;
    s->gather_bytes += len;
    c->given += len;
}

/* Behind what the kernel took: buffers in the scratch are copied, for it is another connection's
 * next. */
static int
h2_out_keep(struct h2_conn *c, struct iovec *iov, unsigned n)
{
    struct h2_server *s = c->server;
    struct usage *u = &s->env.loop->usage;
    size_t bytes = 0;
    char *to;

    tassert(c->nbacklog == 0 && c->held == NULL);
    for (unsigned i = 0; i < n; i++)
        bytes += h2_in_scratch(s, iov[i].iov_base) ? iov[i].iov_len : 0;
    c->backlog = usage_alloc(u, USAGE_CONN, n * sizeof(*iov));
    c->held = bytes > 0 ? usage_alloc(u, USAGE_CONN, bytes) : NULL;
    if (c->backlog == NULL || (bytes > 0 && c->held == NULL))
        return TERR_NOMEM; /* the caller ends the connection, and it frees them */
    to = c->held;
    for (unsigned i = 0; i < n; i++) {
        c->backlog[i] = iov[i];
        if (!h2_in_scratch(s, iov[i].iov_base))
            continue;
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        c->backlog[i].iov_base = to;
        to += iov[i].iov_len;
    }
    c->nbacklog = (uint16_t)n;
    c->backlog_at = 0;
    return h2_out_progress(c);
}

/* The output is full: no stream may send, and those that thought their answer gone hold what it lies
 * in. */
static void
h2_out_block(struct h2_conn *c)
{
    struct list *l;

    for (l = c->streams.next; l != &c->streams; l = l->next)
        container_of(l, struct h2_stream, link)->x.writable = false;
    for (l = c->flying.next; l != &c->flying; l = l->next) {
        struct h2_stream *s = container_of(l, struct h2_stream, flying);

        if (!s->x.gathered)
            continue;
        s->x.gathered = false;
        task_wake_now(s->x.task);
    }
}

int
h2_out_flush(struct h2_conn *c)
{
    struct h2_server *s = c->server;
    unsigned n = s->ngather, gone;
    size_t total = s->gather_bytes;
    ssize_t sent;

    s->ngather = 0;
    s->gather_bytes = s->scratch_len = 0;
    if (n == 0)
        return 0;
    if (c->dead)
        return TERR_CLOSED;
    tassert(h2_out_ready(c) && c->given - c->left == total);
    tassert_slow(total == iov_bytes(s->gather, n));
    sent = stream_try(c->stream, s->gather, n, false);
    if (sent < 0)
        return (int)sent;
    c->left += (uint64_t)sent;
    gone = iov_skip(s->gather, n, (size_t)sent);
    if ((size_t)sent < total && h2_out_keep(c, s->gather + gone, n - gone) != 0)
        return TERR_CLOSED;
    if (!h2_out_ready(c)) /* also where all was encrypted, and not all of that has left */
        h2_out_block(c);
    return 0;
}

int
h2_out_progress(struct h2_conn *c)
{
    struct usage *u = &c->server->env.loop->usage;

    if (stream_write_error(c->stream) != 0)
        return TERR_CLOSED;
    while (c->nbacklog > 0 && !stream_sending(c->stream)) {
        unsigned n = (unsigned)(c->nbacklog - c->backlog_at);
        ssize_t queued;

        if (c->queued_to > c->left)
            c->left = c->queued_to;
        if (n == 0) {
            usage_free(u, USAGE_CONN, c->backlog);
            usage_free(u, USAGE_CONN, c->held);
            c->backlog = NULL;
            c->held = NULL;
            c->nbacklog = c->backlog_at = 0;
            tassert(c->left == c->given);
            break;
        }
        queued = stream_queue(c->stream, c->backlog + c->backlog_at, n);
        if (queued < 0)
            return (int)queued;
        c->queued_to = c->left + (uint64_t)queued;
        c->backlog_at =
            (uint16_t)(c->backlog_at + iov_skip(c->backlog + c->backlog_at, n, (size_t)queued));
    }
    return 0;
}

/* All that was accepted of it has left. */
static void
h2_stream_landed(struct h2_stream *s)
{
    bool changed = s->x.gathered || s->x.sent != s->body_given;

    s->x.sent = s->body_given;
    s->x.gathered = false;
    list_del(&s->flying);
    if (s->x.gone)
        return;
    if (s->end_given && (!s->tunnel || s->in_read)) {
        s->x.done = true;
        s->x.over(&s->x); /* may release it */
    } else if (s->reset) {
        h2_stream_gone(s); /* it waited for this */
    } else if (changed) {
        s->x.writable = h2_stream_may_send(s);
        task_wake_now(s->x.task);
    }
}

void
h2_out_tell(struct h2_conn *c)
{
    if (c->dead)
        return;
    if (c->left != c->given)
        return;
    while (!list_empty(&c->flying))
        h2_stream_landed(container_of(c->flying.next, struct h2_stream, flying));
}

void
h2_out_wake(struct h2_conn *c)
{
    if (!h2_out_ready(c))
        return;
    for (struct list *l = c->streams.next; l != &c->streams; l = l->next) {
        struct h2_stream *s = container_of(l, struct h2_stream, link);

        if (!s->started || s->x.writable || s->x.gone || !h2_stream_may_send(s))
            continue;
        s->x.writable = true;
        task_wake_now(s->x.task);
    }
}

/* Makes room in the gather by offering it.  False: the output is full. */
static bool
h2_out_more(struct h2_conn *c)
{
    if (h2_out_flush(c) < 0) {
        h2_conn_die(c);
        return false;
    }
    return h2_out_ready(c);
}

void
h2_out_control(struct h2_conn *c, const char *frame, size_t len)
{
    struct usage *u = &c->server->env.loop->usage;
    uint32_t need = c->pending_len + (uint32_t)len;

    if (c->dead)
        return;
    if (c->gathering && h2_out_ready(c)) {
        struct h2_server *s = c->server;

        if ((s->scratch_len + len <= sizeof(s->scratch) && s->ngather < LIMIT_WRITE_IOV) ||
            h2_out_more(c)) {
            memcpy(h2_out_room(c, len), frame, len);
            h2_out_add(c, len);
            return;
        }
    }
    if (need > H2_PENDING_MAX) { /* it sends what is to be answered, and takes no answer */
        h2_conn_die(c);
        return;
    }
    if (need > c->pending_cap) {
        uint32_t cap = need < 64 ? 64 : need * 2;
        char *p = usage_realloc(u, USAGE_CONN, c->pending, cap);

        if (p == NULL) {
            h2_conn_die(c);
            return;
        }
        c->pending = p;
        c->pending_cap = cap;
    }
    memcpy(c->pending + c->pending_len, frame, len);
    c->pending_len = need;
    if (!c->running)
        task_wake(&c->task);
}

/* ---- answers ---- */

/* HEADERS, and CONTINUATION where the block is longer than a frame may be. */
static void
h2_put_block(struct h2_conn *c, uint32_t id, char *at, size_t len, uint8_t flags)
{
    size_t first = len < H2_FRAME_MIN_MAX ? len : H2_FRAME_MIN_MAX, more = len - first;

    c->sized = true;
    h2_put_frame(
        at, (uint32_t)first, H2_HEADERS, (uint8_t)(flags | (more == 0 ? H2_END_HEADERS : 0)), id);
    h2_out_add(c, H2_FRAME_HEAD + first);
    for (char *p = at + H2_FRAME_HEAD + first; more > 0; more -= first) {
        first = more < H2_FRAME_MIN_MAX ? more : H2_FRAME_MIN_MAX;
        memmove(p + H2_FRAME_HEAD, p, more);
        h2_put_frame(p, (uint32_t)first, H2_CONTINUATION, more == first ? H2_END_HEADERS : 0, id);
        h2_out_add(c, H2_FRAME_HEAD + first);
        p += H2_FRAME_HEAD + first;
    }
}

enum {
    BLOCK_ROOM = H2_HEAD_OUT_MAX + 8 * H2_FRAME_HEAD
};
_Static_assert((int)BLOCK_ROOM < (int)H2_SCRATCH, "a gather has room for any field block");

/* False: it does not fit, or there is no output any more. */
static bool
h2_send_head(struct h2_stream *s, const struct exchange_response *r, bool end)
{
    struct h2_conn *c = s->conn;
    struct h2_server *server = c->server;
    struct slice extra = slice_of(s->extra, s->x.extra_len);
    struct exchange_response granted;
    size_t len;
    char *at;

    if ((server->scratch_len + BLOCK_ROOM > sizeof(server->scratch) ||
            server->ngather + SEND_IOV > LIMIT_WRITE_IOV) &&
        !h2_out_more(c))
        return false;
    if (s->tunnel) { /* RFC 8441 5: what HTTP/1.1 says with 101 */
        granted = *r;
        granted.status = 200;
        r = &granted;
    }
    at = h2_out_room(c, BLOCK_ROOM);
    len = h2_encode(s, r, extra, at + H2_FRAME_HEAD, H2_HEAD_OUT_MAX);
    if (len == 0)
        return false;
    h2_put_block(c, s->id, at, len, end ? H2_END_STREAM : 0);
    s->head_given = true;
    s->bodyless = r->bodyless;
    s->x.head_bytes = (uint32_t)len + H2_FRAME_HEAD;
    counter_add(server->env.counters, COUNTER_resp_head_bytes, s->x.head_bytes);
    return true;
}

/* How many body bytes the next DATA frame may have. */
static size_t
h2_frame_room(const struct h2_stream *s, size_t want)
{
    const struct h2_conn *c = s->conn;
    int64_t window = s->send_window < c->send_window ? s->send_window : c->send_window;

    if (window <= 0)
        return 0;
    if (want > H2_FRAME_MIN_MAX)
        want = H2_FRAME_MIN_MAX;
    return want < (uint64_t)window ? want : (size_t)window;
}

/* A part of the body that is offered: which buffer, and how much of it has been given. */
struct h2_body {
    const struct iovec *iov;
    unsigned n;
    size_t at, left;
};

/* For what a client may send on account of work that it has had: now, or all at once when it comes to that. */
static inline void
h2_trouble_less(struct h2_conn *c, int n)
{
    if (c->trouble > -H2_TROUBLE_MAX)
        c->trouble -= n;
}

/* One DATA frame.  Returns how many body bytes it has; fewer than `len` where buffers run out. */
static size_t
h2_put_data(struct h2_stream *s, struct h2_body *b, size_t len, bool end)
{
    struct h2_conn *c = s->conn;
    struct h2_server *server = c->server;
    char *head = h2_out_room(c, H2_FRAME_HEAD);
    size_t put = 0;

    h2_out_add(c, H2_FRAME_HEAD);
    while (put < len && server->ngather < LIMIT_WRITE_IOV) {
        size_t piece = b->iov->iov_len - b->at;

        if (piece > len - put)
            piece = len - put;
        if (piece > 0)
            h2_out_ref(c, (const char *)b->iov->iov_base + b->at, piece);
        put += piece;
        b->at += piece;
        if (b->at == b->iov->iov_len && b->n > 1) {
            b->iov++;
            b->n--;
            b->at = 0;
        }
    }
    b->left -= put;
    h2_put_frame(head, (uint32_t)put, H2_DATA, end && b->left == 0 ? H2_END_STREAM : 0, s->id);
    s->send_window -= (int64_t)put;
    c->send_window -= (int64_t)put;
    /* A client that opens its windows for each frame does no wrong, and it is not the client who made it short. */
    if (put >= DATA_LEAST || (put > 0 && b->left == 0))
        h2_trouble_less(c, DATA_UPDATES);
    return put;
}

/* As much of the body as windows and output take.  Returns the bytes; *ended: END_STREAM was said. */
static size_t
h2_send_body(struct h2_stream *s, const struct iovec *iov, unsigned n, bool end, bool *ended)
{
    struct h2_conn *c = s->conn;
    struct h2_server *server = c->server;
    struct h2_body b = {.iov = iov, .n = n, .left = iov_bytes(iov, n)};
    size_t total = 0;

    *ended = false;
    while (b.left > 0 || (end && !*ended)) {
        size_t room;

        if ((server->gather_bytes >= H2_GATHER_BYTES ||
                server->scratch_len + H2_FRAME_HEAD > sizeof(server->scratch) ||
                server->ngather + SEND_IOV > LIMIT_WRITE_IOV) &&
            !h2_out_more(c))
            break;
        room = h2_frame_room(s, b.left);
        if (room == 0 && b.left > 0)
            break;
        total += h2_put_data(s, &b, room, end);
        *ended = end && b.left == 0; /* it needs no window (RFC 9113 6.9.1) */
        if (s->priority.incremental && total >= INCREMENTAL_BYTES)
            break;
    }
    s->wants_window = b.left > 0 && h2_frame_room(s, b.left) == 0;
    return total;
}

/* The last frame of a stream is in the gather. */
static void
h2_stream_end(struct h2_stream *s)
{
    char frame[H2_FRAME_HEAD + 4];
    struct h2_conn *c = s->conn;

    s->end_given = true;
    h2_trouble_less(c, 1);
    if (s->in_ended || s->reset || s->tunnel)
        return;
    /* RFC 9113 8.1: the client need not send the rest of its request. */
    h2_put_frame(frame, 4, H2_RST_STREAM, 0, s->id);
    h2_put32(frame + H2_FRAME_HEAD, H2_NO_ERROR);
    h2_out_control(c, frame, sizeof(frame));
    c->resets[c->resets_at++ % H2_RESETS_KEPT] = s->id;
    s->reset = s->in_ended = true;
}

/* It has been accepted bytes: told when they have left. */
static void
h2_stream_fly(struct h2_stream *s, bool whole)
{
    s->x.gathered =
        whole && h2_out_ready(s->conn); /* what was said behind it may have filled the output */
    if (list_empty(&s->flying))
        list_add_tail(&s->conn->flying, &s->flying);
}

/* An incremental stream goes behind others of its urgency when it has had its slice. */
static void
h2_stream_yield(struct h2_stream *s)
{
    struct list *l = s->link.next;

    while (l != &s->conn->streams &&
           container_of(l, struct h2_stream, link)->priority.urgency == s->priority.urgency)
        l = l->next;
    list_del(&s->link);
    list_add_tail(l, &s->link);
}

static ssize_t
h2_send_gathered(struct h2_stream *s, const struct exchange_response *r, const struct iovec *body,
    unsigned n, bool end)
{
    struct h2_conn *c = s->conn;
    bool ended = false;
    size_t total = 0;

    if (r != NULL) {
        bool empty = r->bodyless || (end && iov_bytes(body, n) == 0);

        if (!h2_send_head(s, r, empty)) {
            if (!c->dead)
                h2_stream_reset(s, H2_INTERNAL_ERROR);
            s->x.writable = false;
            return TERR_CLOSED;
        }
        ended = empty;
    }
    if (!ended) {
        total = h2_send_body(s, body, n, end, &ended);
        if (c->dead)
            return TERR_CLOSED;
        s->body_given += total;
        counter_add(c->server->env.counters, COUNTER_resp_body_bytes, total);
        if (s->priority.incremental && total > 0 && !ended)
            h2_stream_yield(s);
    }
    if (ended)
        h2_stream_end(s);
    if (!s->tunnel || r != NULL || total > 0 || ended)
        h2_stream_touch(s);
    h2_stream_fly(s, ended);
    s->x.writable = false;
    return (ssize_t)total;
}

/* exchange_ops.send.  In the answerer's task, which runs within the connection's run or by
 * itself: then what it gave leaves at once. */
static ssize_t
h2_send(struct exchange *x, const struct exchange_response *r, const struct iovec *body, unsigned n,
    unsigned flags)
{
    struct h2_stream *s = h2_stream_of(x);
    struct h2_conn *c = s->conn;
    bool own = !c->gathering;
    ssize_t given;

    if (c->dead || x->gone || s->reset)
        return TERR_CLOSED;
    tassert((r != NULL) == !s->head_given && !s->end_given);
    if (__builtin_expect(x->connect && !s->tunnel, 0) && r != NULL && r->status < 300) {
        h2_stream_reset(s, H2_CANCEL); /* a policy's own: the client would take it for a tunnel */
        return TERR_CLOSED;
    }
    if (s->bodyless)
        n = 0;
    if (own)
        h2_out_begin(c);
    tassert(h2_out_ready(c));
    given = h2_send_gathered(s, r, body, n, (flags & EXCHANGE_END) != 0);
    if (own) {
        if (h2_out_flush(c) < 0)
            h2_conn_die(c);
        c->gathering = false;
        if (c->dead)
            return TERR_CLOSED;
        if (!c->running) /* else it is woken at its end, and must not run within itself */
            task_wake_now(&c->task); /* it says what has left, and sets the deadlines */
    }
    if (given >= 0 && !s->end_given)
        x->writable = h2_stream_may_send(s) && !s->priority.incremental;
    return given;
}

static int
h2_interim(struct exchange *x, const struct http_message *m)
{
    struct h2_stream *s = h2_stream_of(x);
    struct h2_conn *c = s->conn;
    bool own = !c->gathering;
    size_t len;
    char *at;

    if (c->dead || x->gone || s->reset)
        return TERR_CLOSED;
    if (s->head_given || !h2_out_ready(c))
        return 0;
    if (own)
        h2_out_begin(c);
    if ((c->server->scratch_len + BLOCK_ROOM <= sizeof(c->server->scratch) &&
            c->server->ngather + SEND_IOV <= LIMIT_WRITE_IOV) ||
        h2_out_more(c)) {
        at = h2_out_room(c, BLOCK_ROOM);
        len = h2_encode_interim(c, m, m->status, at + H2_FRAME_HEAD, H2_HEAD_OUT_MAX);
        if (len > 0)
            h2_put_block(c, s->id, at, len, 0);
    }
    if (own) {
        if (h2_out_flush(c) < 0)
            h2_conn_die(c);
        c->gathering = false;
        if (!c->dead && !c->running)
            task_wake_now(&c->task);
    }
    return c->dead ? TERR_CLOSED : 0;
}

/* The stream ends with an error; those beside it go on.  Bytes that were accepted and have not left go first: `gone`
 * comes after them. */
static void
h2_reset(struct exchange *x, int why)
{
    struct h2_stream *s = h2_stream_of(x);

    (void)why;
    if (s->conn->gathering)
        h2_out_more(s->conn);
    h2_stream_reset(s, s->tunnel ? H2_CANCEL : H2_INTERNAL_ERROR); /* RFC 8441 5 */
}

static void
h2_local(struct exchange *x, uint8_t addr[16], uint16_t *port)
{
    const struct h2_conn *c = h2_stream_of(x)->conn;
    struct stream_peer local = {.port = 0};

    if (c->stream != NULL)
        stream_get_local(c->stream, &local);
    memcpy(addr, local.addr, sizeof(local.addr));
    *port = local.port;
}

static void
h2_release(struct exchange *x)
{
    struct h2_stream *s = h2_stream_of(x);
    struct h2_conn *c = s->conn;

    if (!s->end_given && !s->reset && !c->dead)
        h2_stream_reset(s, H2_INTERNAL_ERROR);
    if (!list_empty(&s->flying) && !c->dead) {
        if (c->gathering)
            h2_out_more(c);
        if (c->left != c->given) /* its answerer takes back what would be read */
            h2_conn_die(c);
    }
    list_del(&s->flying);
    list_del(&s->link);
    h2_stream_free(s);
    if (!c->running)
        task_wake(&c->task);
}

const struct exchange_ops h2_exchange_ops = {
    .rendering = &h2_rendering,
    .body_read = h2_body_read,
    .send = h2_send,
    .interim = h2_interim,
    .tunnel = h2_tunnel,
    .reset = h2_reset,
    .local = h2_local,
    .release = h2_release,
};
