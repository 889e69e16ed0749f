/* h2_server.c -- client connections and their streams: their life, deadlines and end. */
#include "daemon/h2/h2_server.h"

#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/h2/h2_conn.h"
#include "daemon/shm/log.h"

enum {
    LINGER_MS = 2000,       /* for the client to read what we said last */
    DRAIN_MS = 1000,        /* between the two GOAWAY of a drain: longer than a round trip */
    IDLE_STREAMS_MAX = 256, /* kept for the next requests */
    RUN_ROUNDS = 16,        /* of reading and writing, in one turn */
    CALMER = 4, /* by this the number of streams is divided for a client that brings trouble */
};

/* ---- streams ---- */

/* Only what lies before `extra` is cleared: fields are written before `nfields` counts them. */
struct h2_stream *
h2_stream_new(struct h2_conn *c, uint32_t id)
{
    struct h2_server *server = c->server;
    struct h2_stream *s = server->idle_streams;

    if (s != NULL) {
        server->idle_streams = s->x.answerer;
        server->nidle_streams--;
    } else {
        s = usage_alloc(&server->env.loop->usage, USAGE_CONN,
            sizeof(*s) + server->fields_max * sizeof(struct http_field));
        if (s == NULL)
            return NULL;
    }
    memset(s, 0, offsetof(struct h2_stream, extra));
    s->magic = H2_STREAM_MAGIC;
    s->id = id;
    s->conn = c;
    list_init(&s->link);
    list_init(&s->flying);
    s->send_window = c->peer_window;
    s->recv_window = c->said.initial_window;
    s->deadline_ms = TIMER_NEVER;
    s->priority.urgency = H2_URGENCY_DEFAULT;
    s->x.ops = &h2_exchange_ops;
    s->x.conn = &c->facts;
    s->x.scheme = (enum http_scheme)c->facts.scheme;
    s->x.xid = ++server->next_xid;
    s->x.start_us = server->env.loop->clock.mono_us;
    arena_init(&s->x.arena, &server->env.loop->arenas);
    s->x.extra = s->extra;
    s->x.head.fields = s->fields;
    s->x.head.max_fields = server->fields_max;
    s->x.head.version_major = 2;
    c->nstreams++;
    server->nstreams++;
    return s;
}

void
h2_stream_free(struct h2_stream *s)
{
    struct h2_conn *c = s->conn;
    struct h2_server *server = c->server;
    struct usage *u = &server->env.loop->usage;

    tassert(list_empty(&s->link) && list_empty(&s->flying));
    c->nstreams--;
    c->heads_open -= s->head_text;
    server->nstreams--;
    if (c->nstreams == 0) {
        c->idle_since_ms = server->env.loop->clock.mono_ms;
        c->table_idle = false;
    }
    h2_body_drop(s);
    arena_fini(&s->x.arena);
    OBJ_BURY(s);
    if (server->nidle_streams >= IDLE_STREAMS_MAX) {
        usage_free(u, USAGE_CONN, s);
        return;
    }
    s->x.answerer = server->idle_streams;
    server->idle_streams = s;
    server->nidle_streams++;
}

struct h2_stream *
h2_stream_find(const struct h2_conn *c, uint32_t id)
{
    for (struct list *l = c->streams.next; l != &c->streams; l = l->next) {
        struct h2_stream *s = container_of(l, struct h2_stream, link);

        if (s->id == id)
            return s;
    }
    return NULL;
}

void
h2_stream_place(struct h2_stream *s)
{
    struct list *l;

    list_del(&s->link); /* first: it may be what the search would end at */
    l = s->conn->streams.prev;
    while (l != &s->conn->streams &&
           container_of(l, struct h2_stream, link)->priority.urgency > s->priority.urgency)
        l = l->prev;
    list_add_head(l, &s->link);
}

/* The answerer runs at once: for a hit the answer is gathered when this returns. */
void
h2_stream_start(struct h2_stream *s)
{
    struct h2_conn *c = s->conn;
    struct h2_server *server = c->server;

    h2_stream_place(s);
    s->started = true;
    s->x.writable = h2_out_ready(c);
    if (s->x.err != 0) {
        counter_add(server->env.counters, COUNTER_req_bad, 1);
        s->x.has_body = false;
    }
    counter_add(server->env.counters, COUNTER_req_total, 1);
    counter_add(server->env.counters, COUNTER_req_http2, 1);
    server->env.start(server->env.start_ctx, &s->x);
}

/* Bytes of it that lie in the output are read until they have left, and its answerer keeps them until
 * then: so it hears of it later (h2_stream_landed). */
void
h2_stream_gone(struct h2_stream *s)
{
    struct h2_conn *c = s->conn;

    s->x.writable = false;
    if (s->x.gone)
        return;
    if (!c->dead && !list_empty(&s->flying) && c->left != c->given)
        return;
    s->x.gone = true;
    s->x.gathered = false;
    if (s->x.task != NULL)
        task_wake_now(s->x.task);
}

static void
h2_put_reset(struct h2_conn *c, uint32_t id, enum h2_error why)
{
    char frame[H2_FRAME_HEAD + 4];

    h2_put_frame(frame, 4, H2_RST_STREAM, 0, id);
    h2_put32(frame + H2_FRAME_HEAD, why);
    h2_out_control(c, frame, sizeof(frame));
    c->resets[c->resets_at++ % H2_RESETS_KEPT] = id;
}

void
h2_stream_reset(struct h2_stream *s, enum h2_error why)
{
    if (s->reset)
        return;
    s->reset = true;
    if (s->conn->dead)
        return;
    h2_put_reset(s->conn, s->id, why);
    if (s->started)
        h2_stream_gone(s);
}

void
h2_refuse(struct h2_conn *c, uint32_t id, enum h2_error why)
{
    h2_put_reset(c, id, why);
}

bool
h2_was_reset(const struct h2_conn *c, uint32_t id)
{
    for (unsigned i = 0; i < H2_RESETS_KEPT; i++)
        if (c->resets[i] == id)
            return true;
    return false;
}

/* Request heads that are still read lie in the room of this run. */
static int
h2_head_keep(struct h2_stream *s)
{
    if (s->head_kept)
        return 0;
    s->head_kept = true;
    return http_message_keep(&s->x.head, &s->x.arena);
}

void
h2_keep_heads(struct h2_conn *c)
{
    for (struct list *l = c->streams.next; l != &c->streams; l = l->next)
        if (h2_head_keep(container_of(l, struct h2_stream, link)) != 0)
            h2_conn_die(c);
    c->server->heads_len = 0;
}

/* ---- the end of a connection ---- */

void
h2_conn_die(struct h2_conn *c)
{
    if (c->dead)
        return;
    c->dead = true;
    /* Now, for answerers take back what is queued in it.  A run closes it at its end: until then it reads what was
     * received, and the loop does not write. */
    if (!c->running)
        stream_close(&c->stream);
    for (struct list *l = c->streams.next; l != &c->streams; l = l->next)
        h2_stream_gone(container_of(l, struct h2_stream, link));
    if (!c->running)
        task_wake(&c->task);
}

/* RFC 9113 6.8. */
static void
h2_goaway(struct h2_conn *c, uint32_t last, enum h2_error why)
{
    char frame[H2_FRAME_HEAD + 8];

    h2_put_frame(frame, 8, H2_GOAWAY, 0, 0);
    h2_put32(frame + H2_FRAME_HEAD, last);
    h2_put32(frame + H2_FRAME_HEAD + 4, why);
    h2_out_control(c, frame, sizeof(frame));
}

void
h2_conn_end(struct h2_conn *c)
{
    if (c->closing || c->dead)
        return;
    h2_goaway(c, c->last_id, H2_NO_ERROR);
    c->closing = true;
}

/* Streams that it began are not answered any more: their answers could be misread. */
void
h2_conn_error(struct h2_conn *c, enum h2_error why)
{
    struct list *l, *next;

    if (c->failed || c->dead)
        return;
    counter_add(c->server->env.counters,
        why == H2_ENHANCE_YOUR_CALM ? COUNTER_sess_http2_calmed : COUNTER_sess_http2_failed, 1);
    h2_goaway(c, c->last_id, why);
    c->error = (uint8_t)why;
    c->failed = c->closing = true;
    LIST_FOREACH_SAFE(l, next, &c->streams)
    {
        struct h2_stream *s = container_of(l, struct h2_stream, link);

        s->reset = true;
        h2_stream_gone(s);
    }
}

/* A lower number counts when the client has said that it knows it, a higher one at once. */
static void
h2_say_streams(struct h2_conn *c, uint16_t most)
{
    char frame[H2_FRAME_HEAD + H2_SETTING_BYTES], *p;

    if (c->streams_said == most || c->acks_owed > 0 || c->closing)
        return;
    p = h2_put_frame(frame, H2_SETTING_BYTES, H2_SETTINGS, 0, 0);
    p = h2_put16(p, H2_SETTINGS_MAX_CONCURRENT_STREAMS);
    h2_put32(p, most);
    c->streams_said = most;
    if (most > c->streams_max)
        c->streams_max = most;
    c->acks_owed++;
    h2_out_control(c, frame, sizeof(frame));
}

void
h2_settings_acked(struct h2_conn *c)
{
    if (c->acks_owed == 0) { /* one is owed, and no more */
        h2_trouble(c, 1);
        return;
    }
    c->acks_owed--;
    c->streams_max = c->streams_said;
}

static void
h2_forget_trouble(struct h2_conn *c)
{
    uint64_t now = c->server->env.loop->clock.mono_ms;
    int64_t less = (int64_t)(now - c->trouble_ms) * H2_TROUBLE_PER_S / 1000;

    if (less > 0) {
        if (c->trouble > 0)
            c->trouble = less >= c->trouble ? 0 : c->trouble - (int32_t)less;
        c->trouble_ms = now;
    }
}

static void
h2_fewer_streams(struct h2_conn *c)
{
    uint16_t fewer = c->said.streams_max / CALMER;

    h2_say_streams(c, fewer > 0 ? fewer : 1);
}

void
h2_streams_adjust(struct h2_conn *c)
{
    if (c->server->nstreams >= H2_STREAMS_BUSY) {
        h2_fewer_streams(c);
        return;
    }
    h2_forget_trouble(c);
    if (c->trouble <= 0 && c->server->nstreams < H2_STREAMS_BUSY / 2)
        h2_say_streams(c, c->said.streams_max);
}

void
h2_trouble(struct h2_conn *c, int n)
{
    h2_forget_trouble(c);
    c->trouble += n;
    if (c->trouble > H2_TROUBLE_HALF)
        h2_fewer_streams(c);
    if (c->trouble > H2_TROUBLE_MAX)
        h2_conn_error(c, H2_ENHANCE_YOUR_CALM);
}

/* Why it ended, for a reader of the log. */
static __attribute__((noinline, cold)) void
h2_conn_log(const struct h2_conn *c)
{
    struct shmlog *log = c->server->env.log;

    shmlog_begin(log, c->facts.session, SHMLOG_KIND_SESS, 0);
    if (c->error != H2_NO_ERROR)
        shmlog_printf(log, SHMLOG_SessClose, "HTTP/2 %s at %s, %u requests",
            h2_error_name(c->error), h2_frame_name(c->frame_type), (c->last_id + 1) / 2);
    else
        shmlog_printf(log, SHMLOG_SessClose, "HTTP/2 %s, %u requests",
            c->idled     ? "idle for too long"
            : c->closing ? "after GOAWAY"
                         : "closed",
            (c->last_id + 1) / 2);
    shmlog_end(log);
}

/* From its own run and nowhere else.  `ended` comes last: it frees what the facts point to. */
static void
h2_conn_free(struct h2_conn *c)
{
    struct h2_server *server = c->server;
    struct usage *u = &server->env.loop->usage;
    struct conn_facts facts = c->facts;

    tassert(list_empty(&c->streams) && list_empty(&c->flying) && c->nstreams == 0);
    if (c->stream != NULL)
        stream_close(&c->stream);
    if (server->env.log != NULL && shmlog_readers(server->env.log))
        h2_conn_log(c);
    task_cancel(&c->task);
    timer_unlink(&c->timer);
    list_del(&c->link);
    h2_table_drop(c);
    stream_input_drop(&c->in, u);
    usage_free(u, USAGE_READ, c->block);
    usage_free(u, USAGE_CONN, c->backlog);
    usage_free(u, USAGE_CONN, c->held);
    usage_free(u, USAGE_CONN, c->pending);
    server->nconns--;
    OBJ_BURY(c);
    usage_free(u, USAGE_CONN, c);
    server->conn_server.ended(server->conn_server.ended_ctx, &facts);
}

/* ---- deadlines ---- */

/* Streams that waited too long: for the client's body, or for a window. */
static void
h2_streams_on_deadline(struct h2_conn *c)
{
    uint64_t now = c->server->env.loop->clock.mono_ms;

    for (struct list *l = c->streams.next; l != &c->streams; l = l->next) {
        struct h2_stream *s = container_of(l, struct h2_stream, link);

        if (s->deadline_ms > now)
            continue;
        s->deadline_ms = TIMER_NEVER;
        if (s->reset)
            continue;
        if (!s->head_given && c->recv_window <= 0) {
            /* It may not send: others of its streams have it all, and theirs is not read by us. */
            s->deadline_ms = loop_deadline(c->server->env.loop, c->server->env.conf->body_idle_ms);
        } else if (!s->head_given) {
            s->timed_out = true;
            task_wake_now(s->x.task);
        } else if (!s->tunnel && (!s->wants_window || (s->send_window > 0 && c->send_window > 0))) {
            /* It has nothing to send. */
            s->deadline_ms = loop_deadline(c->server->env.loop, c->server->env.conf->send_idle_ms);
        } else {
            counter_add(c->server->env.counters, COUNTER_sess_timeout, 1);
            h2_stream_reset(s, H2_CANCEL);
        }
    }
}

static bool
h2_conn_has_part(const struct h2_conn *c)
{
    return !c->failed &&
           (!c->has_settings || c->block_stream != 0 || (c->in.len > 0 && !c->in_payload));
}

/* No field block is under way, and none has been for as long as it is idle. */
static bool
h2_table_may_pack(const struct h2_conn *c)
{
    return c->nstreams == 0 && !c->is_packed && c->inflater != NULL && !c->table_idle &&
           c->block_stream == 0;
}

static void
h2_conn_on_deadline(struct h2_conn *c)
{
    const struct client_conf *conf = c->server->env.conf;
    uint64_t now = c->server->env.loop->clock.mono_ms;

    if (c->dead || !timer_expired(&c->timer))
        return;
    timer_clear(&c->timer);
    if (c->lingering) {
        h2_conn_die(c);
    } else if (!h2_out_ready(c) && c->send_mark == h2_conn_taken(c) &&
               now >= c->send_mark_ms + (uint64_t)conf->send_idle_ms) {
        counter_add(c->server->env.counters, COUNTER_sess_timeout, 1);
        h2_conn_die(c);
    } else if (c->part_since_ms != 0 && now >= c->part_since_ms + (uint64_t)conf->head_ms) {
        counter_add(c->server->env.counters, COUNTER_sess_timeout, 1);
        h2_conn_error(c, H2_ENHANCE_YOUR_CALM);
    } else if (c->nstreams == 0 && now >= c->idle_since_ms + (uint64_t)conf->idle_ms) {
        counter_add(c->server->env.counters, COUNTER_sess_timeout, 1);
        c->idled = true;
        h2_conn_end(c);
    } else if (h2_table_may_pack(c) && now >= c->idle_since_ms + H2_TABLE_IDLE_MS) {
        h2_table_pack(c);
    } else {
        h2_streams_on_deadline(c);
    }
}

/* The first of all deadlines. */
static void
h2_conn_set_deadline(struct h2_conn *c)
{
    const struct client_conf *conf = c->server->env.conf;
    struct loop *l = c->server->env.loop;
    uint64_t now = l->clock.mono_ms, at = TIMER_NEVER;

    if (!h2_conn_has_part(c))
        c->part_since_ms = 0;
    else if (c->part_since_ms == 0)
        c->part_since_ms = now;
    if (c->part_since_ms != 0)
        at = c->part_since_ms + (uint64_t)conf->head_ms;
    if (!h2_out_ready(c)) {
        if (c->send_mark != h2_conn_taken(c) || c->send_mark_ms == 0)
            c->send_mark_ms = now;
        c->send_mark = h2_conn_taken(c);
        at = h2_least(at, c->send_mark_ms + (uint64_t)conf->send_idle_ms);
    } else {
        c->send_mark_ms = 0;
    }
    if (c->nstreams == 0 && !c->closing)
        at = h2_least(at, c->idle_since_ms + (uint64_t)conf->idle_ms);
    if (h2_table_may_pack(c))
        at = h2_least(at, c->idle_since_ms + H2_TABLE_IDLE_MS);
    if (c->drain_ms != 0 && !c->closing)
        at = h2_least(at, c->drain_ms + DRAIN_MS);
    for (struct list *i = c->streams.next; i != &c->streams; i = i->next)
        at = h2_least(at, container_of(i, struct h2_stream, link)->deadline_ms);
    if (c->lingering) {
        if (c->timer.deadline_ms == TIMER_NEVER || c->timer.deadline_ms > now + LINGER_MS)
            timer_set(&l->wheel, &c->timer, now + LINGER_MS);
        return;
    }
    if (at == TIMER_NEVER)
        timer_clear(&c->timer);
    else
        timer_set(
            &l->wheel, &c->timer, at); /* one that has passed too: moved on, it would never come */
}

/* ---- the connection's run ---- */

void
h2_conn_run_woken(struct h2_conn *c)
{
    if (!list_empty(&c->task.queue->now))
        task_queue_run_now(c->task.queue);
}

/* Body bytes of all streams that a client may send ahead of what is read. */
static int64_t
h2_conn_window(const struct h2_conf *conf)
{
    return conf->initial_window > H2_CONN_WINDOW ? conf->initial_window : H2_CONN_WINDOW;
}

/* What we say first (RFC 9113 3.4): no frame of it waits for the client's. */
static void
h2_conn_greet(struct h2_conn *c)
{
    const struct h2_conf *conf = &c->said;
    const struct {
        uint16_t id;
        uint32_t value, known; /* known: what counts unless it is said (RFC 9113 6.5.2) */
    } settings[] = {
        {H2_SETTINGS_MAX_CONCURRENT_STREAMS, conf->streams_max, UINT32_MAX},
        {H2_SETTINGS_INITIAL_WINDOW_SIZE, conf->initial_window, H2_WINDOW_DEFAULT},
        {H2_SETTINGS_MAX_FRAME_SIZE, conf->max_frame, H2_FRAME_MIN_MAX},
        {H2_SETTINGS_MAX_HEADER_LIST_SIZE, c->server->env.conf->req_head_max, UINT32_MAX},
        {H2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1,
            0}, /* cannot be withdrawn, and routes come by reload */
        {H2_SETTINGS_NO_RFC7540_PRIORITIES, 1, 0},
    };
    char frame[H2_FRAME_HEAD + ARRAY_LEN(settings) * H2_SETTING_BYTES + H2_FRAME_HEAD + 4];
    char *p = frame + H2_FRAME_HEAD;

    for (unsigned i = 0; i < ARRAY_LEN(settings); i++) {
        if (settings[i].value == settings[i].known)
            continue;
        p = h2_put16(p, settings[i].id);
        p = h2_put32(p, settings[i].value);
    }
    h2_put_frame(frame, (uint32_t)(p - frame) - H2_FRAME_HEAD, H2_SETTINGS, 0, 0);
    c->streams_max = c->streams_said = conf->streams_max;
    c->acks_owed = 1;
    c->recv_window = h2_conn_window(conf);
    p = h2_put_frame(p, 4, H2_WINDOW_UPDATE, 0, 0);
    p = h2_put32(p, (uint32_t)(c->recv_window - H2_WINDOW_DEFAULT));
    h2_out_control(c, frame, (size_t)(p - frame));
}

/* One round: what came is read, what is answered is sent.  True: there may be more. */
static bool
h2_conn_round(struct h2_conn *c, bool *yielded)
{
    uint64_t given = c->given;

    h2_out_begin(c);
    h2_out_wake(c);
    h2_conn_run_woken(c); /* streams that were waiting are older than what is read now */
    if (!h2_in_frames(c))
        *yielded = true;
    h2_out_wake(c); /* windows may have been opened */
    h2_conn_run_woken(c);
    if (h2_out_flush(c) < 0)
        h2_conn_die(c);
    c->gathering = false;
    h2_out_tell(c);
    h2_conn_run_woken(c);
    return !c->dead && !*yielded && h2_out_ready(c) && c->given != given;
}

/* The client's end of stream, or an error.  As with HTTP/1 a client that ends its side counts as gone;
 * what was ready has been offered to the kernel. */
static void
h2_conn_on_ended(struct h2_conn *c)
{
    if (!c->dead && stream_ended(c->stream) != 0)
        h2_conn_die(c);
}

/* A drain was begun.  The client is told twice: first that there will be an end, and once what it sent before it
 * knew is here, with the last stream that is answered (RFC 9113 6.8). */
static void
h2_conn_drain(struct h2_conn *c)
{
    uint64_t now = c->server->env.loop->clock.mono_ms;

    if (c->dead || c->closing || !c->server->draining)
        return;
    if (c->drain_ms == 0) {
        h2_goaway(c, H2_STREAM_MAX, H2_NO_ERROR);
        c->drain_ms = now;
    }
    if (c->server->hurried || now >= c->drain_ms + DRAIN_MS)
        h2_conn_end(c);
}

static void
h2_conn_finish(struct h2_conn *c)
{
    if (c->dead || !c->closing || c->nstreams > 0 || c->lingering || !h2_out_ready(c) ||
        c->pending_len > 0 || stream_is_early(c->stream))
        return;
    if (stream_ended(c->stream) != 0) {
        h2_conn_die(c);
        return;
    }
    c->lingering = true;
    c->in.len = 0;
    timer_clear(&c->timer);
    stream_shut(c->stream);
}

static void
h2_conn_run_dead(struct h2_conn *c)
{
    struct list *l, *next;

    if (c->stream != NULL)
        stream_close(&c->stream);
    LIST_FOREACH_SAFE(l, next, &c->flying)
    {
        list_del(l);
        h2_stream_gone(container_of(l, struct h2_stream, flying));
    }
    h2_conn_run_woken(c);
    c->running = false;
    c->server->running = NULL;
    if (c->nstreams == 0)
        h2_conn_free(c);
}

/* The connection's task: woken by its stream, its timer and its streams, in any mixture. */
static void
h2_conn_run(struct task *t)
{
    struct h2_conn *c = container_of(t, struct h2_conn, task);
    bool yielded = false;

    OBJ_CHECK(c, H2_CONN_MAGIC);
    if (c->server->running != NULL) { /* heads of its run lie in the server's room */
        task_wake(&c->task);
        return;
    }
    c->running = true;
    c->server->running = c;
    if (!c->dead && h2_out_progress(c) < 0)
        h2_conn_die(c);
    if (!c->dead) {
        h2_out_tell(c);
        h2_in_begin(c);
    }
    if (c->lingering)
        c->in.len = 0;
    h2_conn_on_deadline(c);
    h2_conn_drain(c);
    for (unsigned i = 0; !c->dead && h2_conn_round(c, &yielded) && i < RUN_ROUNDS; i++)
        ;
    h2_conn_on_ended(c);
    h2_conn_finish(c);
    h2_keep_heads(c); /* of a dead connection too: its answerers may let go of them later */
    if (!c->dead && h2_in_end(c) != 0)
        h2_conn_die(c);
    if (c->dead) {
        h2_conn_run_dead(c);
        return;
    }
    h2_conn_run_woken(c);
    c->running = false;
    c->server->running = NULL;
    h2_conn_set_deadline(c);
    /* What was sent last has left already, or it broke: none but the next run says so. */
    if (yielded || c->dead || (c->left == c->given && !list_empty(&c->flying)))
        task_wake(&c->task);
}

/* ---- the server ---- */

static int
h2_server_adopt(struct conn_server *cs, struct stream **stream, const struct conn_facts *facts)
{
    struct h2_server *s = h2_server_of(cs);
    struct h2_conn *c = usage_calloc(&s->env.loop->usage, USAGE_CONN, sizeof(*c));

    if (c == NULL)
        return TERR_NOMEM;
    c->magic = H2_CONN_MAGIC;
    c->server = s;
    c->stream = *stream;
    *stream = NULL;
    c->facts = *facts;
    c->said = *s->env.h2;
    c->peer_window = c->send_window = H2_WINDOW_DEFAULT;
    c->idle_since_ms = c->trouble_ms = s->env.loop->clock.mono_ms;
    list_init(&c->streams);
    list_init(&c->flying);
    task_init(&c->task, &s->env.loop->tasks, h2_conn_run);
    timer_init(&c->timer, &c->task);
    list_add_tail(&s->conns, &c->link);
    s->nconns++;
    h2_conn_greet(c);
    h2_conn_set_deadline(c);
    stream_set_owner(c->stream, &c->task);
    task_wake(&c->task);
    return 0;
}

static void
h2_server_set_start(struct conn_server *cs, exchange_start_f *start)
{
    h2_server_of(cs)->env.start = start;
}

static void
h2_server_wake_all(struct h2_server *s)
{
    for (struct list *l = s->conns.next; l != &s->conns; l = l->next)
        task_wake(&container_of(l, struct h2_conn, link)->task);
}

/* Unlike HTTP/1 each connection is told at once, and no request is lost (RFC 9113 6.8). */
static void
h2_server_drain_gently(struct conn_server *cs)
{
    struct h2_server *s = h2_server_of(cs);

    s->draining = true;
    h2_server_wake_all(s);
}

static void
h2_server_drain(struct conn_server *cs)
{
    struct h2_server *s = h2_server_of(cs);

    s->draining = s->hurried = true;
    h2_server_wake_all(s);
}

static void
h2_server_cut(struct conn_server *cs)
{
    struct h2_server *s = h2_server_of(cs);

    for (struct list *l = s->conns.next; l != &s->conns; l = l->next) {
        struct h2_conn *c = container_of(l, struct h2_conn, link);

        h2_conn_die(c);
        task_wake(&c->task);
    }
}

static bool
h2_server_cut_one(struct conn_server *cs, uint64_t session)
{
    struct h2_server *s = h2_server_of(cs);

    for (struct list *l = s->conns.next; l != &s->conns; l = l->next) {
        struct h2_conn *c = container_of(l, struct h2_conn, link);

        if (c->facts.session != session)
            continue;
        if (c->dead)
            return false;
        h2_conn_die(c);
        return true;
    }
    return false;
}

/* The oldest first: the list has them in the order in which they came. */
static unsigned
h2_server_shed_idle(struct conn_server *cs, unsigned most, int64_t idle_ms)
{
    struct h2_server *s = h2_server_of(cs);
    uint64_t now = s->env.loop->clock.mono_ms;
    unsigned n = 0, looked = 0;

    for (struct list *l = s->conns.next; l != &s->conns && n < most && looked < 256; l = l->next) {
        struct h2_conn *c = container_of(l, struct h2_conn, link);

        looked++;
        if (c->dead || c->closing || c->nstreams > 0 || c->idle_since_ms + (uint64_t)idle_ms > now)
            continue;
        h2_conn_end(c);
        task_wake(&c->task);
        n++;
    }
    return n;
}

static void
h2_server_trim_to(struct h2_server *s, unsigned streams)
{
    for (; s->nidle_streams > streams; s->nidle_streams--) {
        struct h2_stream *idle = s->idle_streams;

        s->idle_streams = idle->x.answerer;
        usage_free(&s->env.loop->usage, USAGE_CONN, idle);
    }
}

/* The memo comes and goes as the configuration says.  States go on: connections outlive it. */
static void
h2_server_set_memo(struct h2_server *s)
{
    if (s->env.conf->head_memo && s->memo == NULL)
        s->memo = h2_memo_new();
    else if (!s->env.conf->head_memo && s->memo != NULL)
        h2_memo_free(&s->memo);
}

static void
h2_server_trim(struct conn_server *cs)
{
    struct h2_server *s = h2_server_of(cs);

    h2_server_set_memo(s);
    h2_server_trim_to(s, s->nidle_streams / 2);
}

static void
h2_server_close(struct conn_server **csp)
{
    struct h2_server *s = h2_server_of(*csp);

    *csp = NULL;
    tassert(s->nconns == 0);
    h2_server_trim_to(s, 0);
    if (s->memo != NULL)
        h2_memo_free(&s->memo);
    OBJ_FREE(s);
}

static const struct conn_server_ops h2_server_ops = {
    .adopt = h2_server_adopt,
    .set_start = h2_server_set_start,
    .drain = h2_server_drain,
    .drain_gently = h2_server_drain_gently,
    .cut = h2_server_cut,
    .cut_one = h2_server_cut_one,
    .shed_idle = h2_server_shed_idle,
    .trim = h2_server_trim,
    .close = h2_server_close,
};

int
h2_server_open(struct conn_server **out, const struct h2_server_env *env)
{
    struct h2_server *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return TERR_NOMEM;
    s->conn_server.ops = &h2_server_ops;
    s->conn_server.protocol = CONN_HTTP2;
    s->magic = H2_SERVER_MAGIC;
    s->env = *env;
    s->fields_max =
        (uint16_t)(env->conf->fields_max < H2_FIELDS_MAX ? env->conf->fields_max : H2_FIELDS_MAX) +
        1; /* and Host */
    s->next_xid = conn_server_first_xid(CONN_HTTP2, env->loop->id, env->loop->clock.wall_ms);
    h2_head_memory(s);
    h2_server_set_memo(s);
    list_init(&s->conns);
    *out = &s->conn_server;
    return 0;
}
