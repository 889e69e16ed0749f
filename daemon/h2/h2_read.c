/* h2_read.c -- a client connection's input: frames, request bodies.
 *
 * Frames are read where the kernel wrote them; of DATA the payload is copied to its stream, as much as is
 * there.  Any other frame lies in one piece first.  What a frame may be, and when, is RFC 9113 6. */
#include "daemon/h2/h2_conn.h"

#include "daemon/base/terr.h"
#include "daemon/http/token.h"

enum {
    PRIORITY_BYTES = 5,  /* RFC 9113 6.2 */
    WINDOW_LEAST = 1024, /* a WINDOW_UPDATE below it brings little */
    BODY_CAP_MIN = 4096,
    RESET_TROUBLE = 2, /* a stream that came to nothing */
    GOAWAY_BYTES = 8,
};

/* ---- request bodies ---- */

static void
h2_window_update(struct h2_conn *c, uint32_t id, int64_t n)
{
    char frame[H2_FRAME_HEAD + 4];

    h2_put_frame(frame, 4, H2_WINDOW_UPDATE, 0, id);
    h2_put32(frame + H2_FRAME_HEAD, (uint32_t)n);
    h2_out_control(c, frame, sizeof(frame));
}

/* `n` bytes that came are not kept any more: the client may send as many again (RFC 9113 5.2.2).  Told
 * by halves of a window, so that small reads cost no frame each. */
static void
h2_credit(struct h2_conn *c, struct h2_stream *s, size_t n)
{
    c->recv_back += (int64_t)n;
    if (c->recv_back >= H2_CONN_WINDOW / 2) {
        h2_window_update(c, 0, c->recv_back);
        c->recv_window += c->recv_back;
        c->recv_back = 0;
    }
    if (s == NULL || s->in_ended || s->reset)
        return;
    s->recv_back += (int64_t)n;
    if (s->recv_back >= c->said.initial_window / 2) {
        h2_window_update(c, s->id, s->recv_back);
        s->recv_window += s->recv_back;
        s->recv_back = 0;
    }
}

/* Its answerer waits for bytes: for how long, for the whole body, and at which average rate, which counts from the
 * end of one pause's time on.  Time in which we did not read counts for none of them. */
static void
h2_body_wait(struct h2_stream *s)
{
    const struct client_conf *conf = s->conn->server->env.conf;
    uint64_t now = loop_deadline(s->conn->server->env.loop, 0), from = now - s->body_waited;

    s->body_wait_ms = now;
    s->deadline_ms = h2_least(now + (uint64_t)conf->body_idle_ms, from + (uint64_t)conf->body_ms);
    if (conf->body_rate_min > 0)
        s->deadline_ms = h2_least(s->deadline_ms,
            from + (uint64_t)conf->body_idle_ms + s->in_bytes * 1000 / conf->body_rate_min);
}

static void
h2_body_came(struct h2_stream *s)
{
    s->body_waited += loop_deadline(s->conn->server->env.loop, 0) - s->body_wait_ms;
    s->body_wait_ms = 0;
    s->deadline_ms = TIMER_NEVER;
}

/* A client that waits for 100 (Continue) gets it when its body is first wanted. */
static void
h2_continue(struct h2_stream *s)
{
    static const struct http_message none = {.status = 100};

    if (!s->expects_100 || s->in_bytes > 0 || s->head_given)
        return;
    s->expects_100 = false;
    s->x.ops->interim(&s->x, &none);
}

ssize_t
h2_body_read(struct exchange *x, char *dst, size_t room)
{
    struct h2_stream *s = h2_stream_of(x);
    struct h2_conn *c = s->conn;
    size_t n = s->in_len - s->in_at;

    tassert(s->started && room > 0);
    if (s->in_err != 0)
        return s->in_err;
    if (n == 0) {
        if (s->in_ended && !s->reset)
            return h2_tunnel_read_end(s);
        if (c->dead || s->reset || (s->end_given && !s->tunnel))
            return TERR_CLOSED;
        if (s->tunnel)
            return TERR_AGAIN;
        h2_continue(s);
        if (s->timed_out)
            return TERR_TIMEDOUT;
        if (s->deadline_ms == TIMER_NEVER) {
            h2_body_wait(s);
            if (!c->running)
                task_wake(&c->task); /* to set it */
        }
        return TERR_AGAIN;
    }
    if (n > room)
        n = room;
    memcpy(dst, s->in + s->in_at, n);
    s->in_at += (uint32_t)n;
    if (s->in_at == s->in_len) {
        usage_free(&c->server->env.loop->usage, USAGE_READ, s->in);
        s->in = NULL;
        s->in_at = s->in_len = s->in_cap = 0;
    }
    if (!c->dead)
        h2_credit(c, s, n);
    if (s->tunnel)
        h2_stream_touch(s);
    return (ssize_t)n;
}

/* The connection's window has it back: what streams leave behind would close it for good. */
void
h2_body_drop(struct h2_stream *s)
{
    struct h2_conn *c = s->conn;
    uint32_t n = s->in_len - s->in_at;

    if (s->in == NULL)
        return;
    usage_free(&c->server->env.loop->usage, USAGE_READ, s->in);
    s->in = NULL;
    s->in_at = s->in_len = s->in_cap = 0;
    if (!c->dead)
        h2_credit(c, NULL, n);
}

/* Behind what has not been read.  TERR_NOMEM. */
static int
h2_body_keep(struct h2_stream *s, const char *p, size_t n)
{
    size_t need = s->in_len + n, cap = s->in_cap < BODY_CAP_MIN ? BODY_CAP_MIN : s->in_cap;

    if (s->in_at > 0) {
        memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
        s->in_len -= s->in_at;
        s->in_at = 0;
        need = s->in_len + n;
    }
    if (need > s->in_cap) {
        char *in;

        while (cap < need)
            cap *= 2;
        in = usage_realloc(&s->conn->server->env.loop->usage, USAGE_READ, s->in, cap);
        if (in == NULL)
            return TERR_NOMEM;
        s->in = in;
        s->in_cap = (uint32_t)cap;
    }
    memcpy(s->in + s->in_len, p, n);
    s->in_len += (uint32_t)n;
    return 0;
}

static void
h2_body_add(struct h2_stream *s, const char *p, size_t n)
{
    uint64_t most = client_body_max(s->conn->server->env.conf, &s->conn->facts);

    s->in_bytes += n;
    if (s->in_bytes > s->x.body_length) { /* unknown is the largest number */
        h2_stream_reset(s, H2_PROTOCOL_ERROR);
        h2_trouble(s->conn, RESET_TROUBLE);
        return;
    }
    if (most > 0 && s->in_bytes > most && !s->x.connect)
        s->in_err = TERR_BODYTOOBIG;
    else if (s->in_err == 0)
        s->in_err = h2_body_keep(s, p, n);
    if (s->body_wait_ms != 0 && !s->head_given)
        h2_body_came(s);
    if (s->x.task != NULL)
        task_wake_now(s->x.task);
}

/* The client has sent its END_STREAM. */
static void
h2_body_end(struct h2_stream *s)
{
    s->in_ended = true;
    if (!s->head_given)
        s->deadline_ms = TIMER_NEVER;
    if (s->x.body_length != EXCHANGE_LENGTH_UNKNOWN && s->in_bytes != s->x.body_length) {
        h2_stream_reset(s, H2_PROTOCOL_ERROR); /* RFC 9113 8.1.1 */
        h2_trouble(s->conn, RESET_TROUBLE);
    } else if (s->x.task != NULL) {
        task_wake_now(s->x.task);
    }
}

/* ---- errors ---- */

/* Of one stream, open or not (RFC 9113 5.4.2).  It counts as a reset by the client does (CVE-2025-8671). */
static void
h2_stream_error(struct h2_conn *c, uint32_t id, enum h2_error why)
{
    struct h2_stream *s = h2_stream_find(c, id);

    if (s != NULL && !s->cut)
        h2_stream_reset(s, why);
    else
        h2_refuse(c, id, why);
    h2_trouble(c, RESET_TROUBLE);
}

static bool
h2_is_idle(const struct h2_conn *c, uint32_t id)
{
    return (id > c->last_id && id > c->ignored_id) || id % 2 != H2_CLIENT_STREAMS;
}

/* ---- DATA ---- */

/* Its payload is being read. */
static size_t
h2_in_data(struct h2_conn *c)
{
    struct h2_stream *s = h2_stream_find(c, c->data_stream);
    size_t n = c->data_left < c->in.len ? c->data_left : c->in.len, pad = 0;

    if (n > 0 && s != NULL && !s->reset)
        h2_body_add(s, c->in.p, n);
    if (n > 0 && (s == NULL || s->reset || s->in_err != 0))
        h2_credit(c, NULL, n); /* it is dropped */
    c->data_left -= (uint32_t)n;
    if (c->data_left == 0) {
        pad = c->pad_left < c->in.len - n ? c->pad_left : c->in.len - n;
        c->pad_left -= (uint32_t)pad;
    }
    if (c->data_left == 0 && c->pad_left == 0) {
        c->in_payload = false;
        if (c->data_end && s != NULL && !s->reset)
            h2_body_end(s);
    }
    return n + pad;
}

/* Which stream's it is; the frame is refused where it may not be.  0: it is dropped. */
static uint32_t
h2_data_stream(struct h2_conn *c, const struct h2_frame *f)
{
    struct h2_stream *s = h2_stream_find(c, f->stream);

    if (s == NULL) {
        /* It was on its way when we reset it, or said GOAWAY (RFC 9113 6.8); or it is one of too many. */
        if (h2_was_reset(c, f->stream) || f->stream > c->last_id)
            h2_trouble(c, 1);
        else
            h2_stream_error(c, f->stream, H2_STREAM_CLOSED);
        return 0;
    }
    if (s->cut || (s->in_ended && !s->reset)) {
        h2_stream_error(c, f->stream, H2_STREAM_CLOSED);
        return 0;
    }
    s->recv_window -= f->len;
    if (s->recv_window < 0) {
        h2_stream_error(c, f->stream, H2_FLOW_CONTROL_ERROR);
        return 0;
    }
    return f->stream;
}

/* RFC 9113 6.1.  Returns the bytes of its head, or STEP_MORE. */
static size_t
h2_begin_data(struct h2_conn *c, const struct h2_frame *f)
{
    size_t head = H2_FRAME_HEAD, pad = 0;

    if (h2_is_idle(c, f->stream)) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return H2_FRAME_HEAD;
    }
    if ((f->flags & H2_PADDED) != 0 && f->len > 0) {
        if (c->in.len < H2_FRAME_HEAD + 1)
            return 0;
        head++;
        pad = (uint8_t)c->in.p[H2_FRAME_HEAD];
    }
    if ((f->flags & H2_PADDED) != 0 && pad + 1 > f->len) {
        h2_conn_error(c, f->len == 0 ? H2_FRAME_SIZE_ERROR : H2_PROTOCOL_ERROR);
        return head;
    }
    c->recv_window -= f->len; /* padding too (RFC 9113 6.9.1) */
    if (c->recv_window < 0) {
        h2_conn_error(c, H2_FLOW_CONTROL_ERROR);
        return head;
    }
    c->data_left = (uint32_t)(f->len - pad - (head - H2_FRAME_HEAD));
    c->pad_left = (uint32_t)pad;
    c->data_end = (f->flags & H2_END_STREAM) != 0;
    c->data_stream = h2_data_stream(c, f);
    if (c->data_left == 0 && !c->data_end)
        h2_trouble(c, 1); /* CVE-2019-9518 */
    h2_credit(c, h2_stream_find(c, c->data_stream), f->len - c->data_left);
    c->in_payload = true;
    if (c->data_left == 0 && c->pad_left == 0)
        h2_in_data(c);
    return head;
}

/* ---- field blocks ---- */

/* Behind the request's body (RFC 9113 8.1). */
static void
h2_trailers(struct h2_conn *c, struct h2_stream *s, const char *block, size_t len)
{
    bool ends = (c->block_flags & H2_END_STREAM) != 0;
    int rc = h2_head_read(c, s, block, len, true);

    if (rc > 0)
        h2_conn_error(c, (enum h2_error)rc);
    else if (s->in_ended)
        h2_stream_error(c, s->id, H2_STREAM_CLOSED);
    else if (rc < 0 || !ends || c->block_bad || s->x.connect) /* RFC 9113 8.5 */
        h2_stream_error(c, s->id, H2_PROTOCOL_ERROR);
    else
        h2_body_end(s);
}

/* For the table's sake: what it says is not acted on. */
static void
h2_skip_block(struct h2_conn *c, const char *block, size_t len)
{
    int rc = h2_head_read(c, NULL, block, len, false);

    if (rc > 0)
        h2_conn_error(c, (enum h2_error)rc);
}

/* A request.  Refused where it is one too many: at creation, so that what is under way is bounded
 * whatever the client resets (CVE-2023-44487): a stream counts until its answerer has let go of it. */
static void
h2_request(struct h2_conn *c, uint32_t id, const char *block, size_t len)
{
    struct h2_stream *s;
    int rc;

    c->last_id = id;
    if (c->streams_said != c->said.streams_max || c->server->nstreams >= H2_STREAMS_BUSY)
        h2_streams_adjust(c);
    s = c->nstreams < c->streams_max ? h2_stream_new(c, id) : NULL;
    if (s == NULL) {
        h2_skip_block(c, block, len);
        h2_stream_error(c, id, H2_REFUSED_STREAM);
        return;
    }
    s->in_ended = (c->block_flags & H2_END_STREAM) != 0;
    rc = h2_head_read(c, s, block, len, false);
    if (rc > 0) {
        h2_stream_free(s);
        h2_conn_error(c, (enum h2_error)rc);
    } else if (rc == TERR_SYNTAX || c->block_bad) {
        h2_stream_free(s);
        counter_add(c->server->env.counters, COUNTER_req_bad, 1);
        h2_stream_error(c, id, H2_PROTOCOL_ERROR);
    } else if (c->heads_open + s->x.head.len > H2_HEADS_OPEN) {
        h2_stream_free(s);
        h2_stream_error(c, id, H2_REFUSED_STREAM);
    } else {
        s->x.err = rc;
        s->head_text = s->x.head.len;
        c->heads_open += s->head_text;
        h2_stream_start(s);
    }
}

static void
h2_block_done(struct h2_conn *c, uint32_t id, const char *block, size_t len)
{
    struct h2_stream *s = h2_stream_find(c, id);

    if (s != NULL) {
        h2_trailers(c, s, block, len);
    } else if (c->closing) {
        if (id > c->last_id && id > c->ignored_id)
            c->ignored_id = id;
        h2_skip_block(c, block, len); /* RFC 9113 6.8 */
    } else if (id > c->last_id) {
        h2_request(c, id, block, len);
    } else if (h2_was_reset(c, id)) {
        h2_skip_block(c, block, len);
    } else {
        /* RFC 9113 5.1.1: numbers rise.  The last one at least is known to have been used. */
        h2_conn_error(c, id == c->last_id ? H2_STREAM_CLOSED : H2_PROTOCOL_ERROR);
    }
}

/* Waits for CONTINUATION. */
static void
h2_block_keep(struct h2_conn *c, const char *p, size_t len)
{
    size_t need = c->block_len + len;

    if (need > H2_BLOCK_MAX || ++c->block_frames > H2_CONTINUATIONS_MAX + 1) {
        h2_conn_error(c, H2_ENHANCE_YOUR_CALM); /* CVE-2024-28182 and its like */
        return;
    }
    if (need > c->block_cap) {
        char *block = usage_realloc(&c->server->env.loop->usage, USAGE_READ, c->block, need + 1);

        if (block == NULL) {
            h2_conn_error(c, H2_INTERNAL_ERROR);
            return;
        }
        c->block = block;
        c->block_cap = (uint32_t)need;
    }
    if (len > 0) /* else there may be no memory yet */
        memcpy(c->block + c->block_len, p, len);
    c->block_len = (uint32_t)need;
}

static void
h2_block_drop(struct h2_conn *c)
{
    usage_free(&c->server->env.loop->usage, USAGE_READ, c->block);
    c->block = NULL;
    c->block_len = c->block_cap = c->block_stream = 0;
    c->block_frames = 0;
}

/* RFC 9113 6.2. */
static void
h2_on_headers(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    size_t len = f->len, pad = 0;

    if (f->stream % 2 != H2_CLIENT_STREAMS) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    if ((f->flags & H2_PADDED) != 0 && len > 0) {
        pad = (uint8_t)*p++;
        len--;
    } else if ((f->flags & H2_PADDED) != 0) {
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
        return;
    }
    c->block_bad = false;
    if ((f->flags & H2_HAS_PRIORITY) != 0 && len >= PRIORITY_BYTES) {
        c->block_bad = (h2_get32(p) & H2_STREAM_MAX) == f->stream;
        p += PRIORITY_BYTES;
        len -= PRIORITY_BYTES;
    } else if ((f->flags & H2_HAS_PRIORITY) != 0) {
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
        return;
    }
    if (pad > len) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    c->block_flags = f->flags;
    if ((f->flags & H2_END_HEADERS) != 0) {
        h2_block_done(c, f->stream, p, len - pad);
        return;
    }
    c->block_stream = f->stream;
    h2_block_keep(c, p, len - pad);
}

/* RFC 9113 6.10. */
static void
h2_on_continuation(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    if (c->block_stream == 0) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    h2_block_keep(c, p, f->len);
    if (c->failed || (f->flags & H2_END_HEADERS) == 0)
        return;
    c->block_stream = 0;
    h2_block_done(c, f->stream, c->block, c->block_len);
    h2_block_drop(c);
}

/* ---- the other frames ---- */

/* Windows of streams follow it, below 0 too (RFC 9113 6.9.2). */
static void
h2_set_initial_window(struct h2_conn *c, uint32_t value)
{
    int64_t delta = (int64_t)value - (int64_t)c->peer_window;

    if (value > H2_WINDOW_MAX) {
        h2_conn_error(c, H2_FLOW_CONTROL_ERROR);
        return;
    }
    c->peer_window = value;
    for (struct list *l = c->streams.next; l != &c->streams; l = l->next) {
        struct h2_stream *s = container_of(l, struct h2_stream, link);

        s->send_window += delta;
        if (s->send_window > H2_WINDOW_MAX)
            h2_conn_error(c, H2_FLOW_CONTROL_ERROR);
        if (s->head_given && s->send_window <= 0)
            s->x.writable = false;
    }
}

static void
h2_set(struct h2_conn *c, unsigned id, uint32_t value)
{
    bool ok = true;

    switch (id) {
    case H2_SETTINGS_ENABLE_PUSH:
    case H2_SETTINGS_ENABLE_CONNECT_PROTOCOL:
    case H2_SETTINGS_NO_RFC7540_PRIORITIES:
        ok = value <= 1;
        break;
    case H2_SETTINGS_MAX_FRAME_SIZE: /* ours are of the least size that it may be */
        ok = value >= H2_FRAME_MIN_MAX && value <= 0xffffff;
        break;
    case H2_SETTINGS_INITIAL_WINDOW_SIZE:
        h2_set_initial_window(c, value);
        break;
    default: /* RFC 9113 6.5.2: ignored */
        break;
    }
    if (!ok)
        h2_conn_error(c, H2_PROTOCOL_ERROR);
}

/* RFC 9113 6.5. */
static void
h2_on_settings(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    char ack[H2_FRAME_HEAD];

    if (f->stream != 0) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    if ((f->flags & H2_ACK) != 0 ? f->len != 0 : f->len % H2_SETTING_BYTES != 0) {
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
        return;
    }
    if ((f->flags & H2_ACK) != 0) {
        h2_settings_acked(c);
        return;
    }
    if (c->has_settings)
        h2_trouble(c, 1 + (int)(f->len / 256));
    c->has_settings = true;
    for (uint32_t at = 0; at < f->len && !c->failed; at += H2_SETTING_BYTES)
        h2_set(c, h2_get16(p + at), h2_get32(p + at + 2));
    h2_put_frame(ack, 0, H2_SETTINGS, H2_ACK, 0);
    if (!c->failed)
        h2_out_control(c, ack, sizeof(ack));
}

/* RFC 9113 6.7. */
static void
h2_on_ping(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    char pong[H2_FRAME_HEAD + H2_PING_BYTES];

    if (f->stream != 0 || f->len != H2_PING_BYTES) {
        h2_conn_error(c, f->stream != 0 ? H2_PROTOCOL_ERROR : H2_FRAME_SIZE_ERROR);
        return;
    }
    h2_trouble(c, 1); /* CVE-2019-9512; and we ask nothing that an ACK could answer */
    if ((f->flags & H2_ACK) != 0)
        return;
    h2_put_frame(pong, H2_PING_BYTES, H2_PING, H2_ACK, 0);
    memcpy(pong + H2_FRAME_HEAD, p, H2_PING_BYTES);
    h2_out_control(c, pong, sizeof(pong));
}

/* It may come before its stream, which cannot be reset then (RFC 9113 6.4). */
static void
h2_priority_error(struct h2_conn *c, uint32_t id, enum h2_error why)
{
    if (h2_is_idle(c, id))
        h2_conn_error(c, why);
    else
        h2_stream_error(c, id, why);
}

/* RFC 9113 6.3: trees are ignored (RFC 9218 2.1). */
static void
h2_on_priority(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    h2_trouble(c, 1);
    if (f->stream == 0)
        h2_conn_error(c, H2_PROTOCOL_ERROR);
    else if (f->len != PRIORITY_BYTES)
        h2_priority_error(c, f->stream, H2_FRAME_SIZE_ERROR);
    else if ((h2_get32(p) & H2_STREAM_MAX) == f->stream)
        h2_priority_error(c, f->stream, H2_PROTOCOL_ERROR);
}

/* RFC 9218 7.1.  Of a stream that is not open yet it is not kept: bounded memory for what may never come. */
static void
h2_on_priority_update(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    struct h2_stream *s;
    uint32_t id;

    h2_trouble(c, 1);
    if (f->len < 4) {
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
        return;
    }
    id = h2_get32(p) & H2_STREAM_MAX;
    if (f->stream != 0 || id % 2 != H2_CLIENT_STREAMS) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    s = h2_stream_find(c, id);
    if (s == NULL || s->reset)
        return;
    s->priority.urgency = H2_URGENCY_DEFAULT;
    s->priority.incremental = false;
    h2_priority_read(s, slice_of(p + 4, f->len - 4));
    h2_stream_place(s);
}

/* RFC 9113 6.4. */
static void
h2_on_rst_stream(struct h2_conn *c, const struct h2_frame *f)
{
    struct h2_stream *s;

    if (f->len != 4 || f->stream == 0 || h2_is_idle(c, f->stream)) {
        h2_conn_error(c, f->len != 4 ? H2_FRAME_SIZE_ERROR : H2_PROTOCOL_ERROR);
        return;
    }
    s = h2_stream_find(c, f->stream);
    if (s != NULL && !s->reset) {
        s->cut = s->reset = s->in_ended = true;
        h2_stream_gone(s);
    }
    h2_trouble(c, RESET_TROUBLE);
}

/* The client begins no more streams; what it asked for is answered, then the connection ends. */
static void
h2_on_goaway(struct h2_conn *c, const struct h2_frame *f)
{
    if (f->stream != 0 || f->len < GOAWAY_BYTES)
        h2_conn_error(c, f->stream != 0 ? H2_PROTOCOL_ERROR : H2_FRAME_SIZE_ERROR);
    else
        h2_conn_end(c);
    h2_trouble(c, 1);
}

/* RFC 9113 6.9. */
static void
h2_on_window_update(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    uint32_t n = f->len == 4 ? h2_get32(p) & H2_WINDOW_MAX : 0;
    struct h2_stream *s;

    if (f->len != 4) {
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
        return;
    }
    if (n < WINDOW_LEAST)
        h2_trouble(c, 1);
    if (f->stream == 0) {
        c->send_window += n;
        if (n == 0 || c->send_window > H2_WINDOW_MAX)
            h2_conn_error(c, n == 0 ? H2_PROTOCOL_ERROR : H2_FLOW_CONTROL_ERROR);
        return;
    }
    if (h2_is_idle(c, f->stream)) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return;
    }
    s = h2_stream_find(c, f->stream);
    if (s == NULL || s->reset)
        return; /* it has ended, and this was on its way (RFC 9113 5.1) */
    s->send_window += n;
    if (n == 0 || s->send_window > H2_WINDOW_MAX)
        h2_stream_error(c, f->stream, n == 0 ? H2_PROTOCOL_ERROR : H2_FLOW_CONTROL_ERROR);
}

static void
h2_in_frame(struct h2_conn *c, const struct h2_frame *f, const char *p)
{
    switch (f->type) {
    case H2_HEADERS:
        h2_on_headers(c, f, p);
        break;
    case H2_CONTINUATION:
        h2_on_continuation(c, f, p);
        break;
    case H2_SETTINGS:
        h2_on_settings(c, f, p);
        break;
    case H2_PING:
        h2_on_ping(c, f, p);
        break;
    case H2_PRIORITY:
        h2_on_priority(c, f, p);
        break;
    case H2_RST_STREAM:
        h2_on_rst_stream(c, f);
        break;
    case H2_GOAWAY:
        h2_on_goaway(c, f);
        break;
    case H2_WINDOW_UPDATE:
        h2_on_window_update(c, f, p);
        break;
    case H2_PRIORITY_UPDATE:
        h2_on_priority_update(c, f, p);
        break;
    case H2_PUSH_PROMISE: /* RFC 9113 8.4: no client pushes */
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        break;
    default: /* RFC 9113 5.5: what is not known is ignored */
        h2_trouble(c, 1);
        break;
    }
}

/* RFC 9113 3.4. */
static size_t
h2_in_preface(struct h2_conn *c)
{
    size_t n = c->in.len < H2_PREFACE_BYTES ? c->in.len : H2_PREFACE_BYTES;

    if (memcmp(c->in.p, H2_PREFACE, n) != 0) {
        h2_conn_error(c, H2_PROTOCOL_ERROR);
        return n;
    }
    if (n < H2_PREFACE_BYTES)
        return 0;
    c->has_preface = true;
    return n;
}

/* May this frame come now?  Else the connection has failed. */
static bool
h2_frame_may_come(struct h2_conn *c, const struct h2_frame *f)
{
    if (f->len > c->said.max_frame)
        h2_conn_error(c, H2_FRAME_SIZE_ERROR);
    else if (!c->has_settings && (f->type != H2_SETTINGS || (f->flags & H2_ACK) != 0))
        h2_conn_error(c, H2_PROTOCOL_ERROR);
    else if (c->block_stream != 0 && (f->type != H2_CONTINUATION || f->stream != c->block_stream))
        h2_conn_error(c, H2_PROTOCOL_ERROR);
    return !c->failed && !c->dead;
}

/* Bytes that were read; 0: more are needed. */
static size_t
h2_in_step(struct h2_conn *c)
{
    struct h2_frame f;

    if (!c->has_preface)
        return h2_in_preface(c);
    if (c->in_payload)
        return h2_in_data(c);
    if (c->in.len < H2_FRAME_HEAD)
        return 0;
    f = h2_get_frame(c->in.p);
    c->frame_type = f.type;
    if (!h2_frame_may_come(c, &f))
        return H2_FRAME_HEAD;
    if (f.type == H2_DATA)
        return h2_begin_data(c, &f);
    if (c->in.len < H2_FRAME_HEAD + f.len)
        return 0;
    h2_in_frame(c, &f, c->in.p + H2_FRAME_HEAD);
    return H2_FRAME_HEAD + f.len;
}

bool
h2_in_frames(struct h2_conn *c)
{
    uint32_t first = c->last_id;

    for (unsigned n = 0; c->in.len > 0 && !c->dead && !c->failed && !c->lingering; n++) {
        size_t used;

        if (n == H2_FRAMES_TURN || c->last_id - first >= 2 * H2_REQUESTS_TURN)
            return false;
        used = h2_in_step(c);
        if (used == 0)
            break;
        if (used > c->in.len)
            used = c->in.len;
        stream_input_skip(&c->in, used);
    }
    if (c->failed || c->lingering)
        c->in.len = 0;
    return true;
}

/* ---- bytes ---- */

void
h2_in_begin(struct h2_conn *c)
{
    struct span rx = stream_received(c->stream);

    counter_add(c->server->env.counters, COUNTER_req_bytes_in, rx.len);
    if (stream_input_begin(&c->in, c->stream, &c->server->env.loop->usage, rx) != 0)
        h2_conn_die(c);
}

int
h2_in_end(struct h2_conn *c)
{
    int err = stream_input_keep(&c->in, &c->server->env.loop->usage);

    if (!c->dead && stream_received(c->stream).len > 0)
        stream_consume(c->stream);
    return err;
}
