/* h2_client_fixture.h -- clients of the HTTP/2 server on fake streams, and an answerer.
 *
 * The client writes frames byte by byte, and reads what the server says into a text: one word for each
 * frame, `client.text`.  Each body byte that comes is compared with body_byte().  The answerer overwrites what
 * was sent as soon as it may, so that bytes which are read too late are seen.
 */
#ifndef TARN_H2_CLIENT_FIXTURE_H
#define TARN_H2_CLIENT_FIXTURE_H

#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/h2/h2_conn.h"
#include "t/unit/fake_stream.h"
#include "t/unit/head_build.h"

enum {
    ANSWERS_MAX = 64,
    GOT_MAX = 1 << 18,    /* of a request's body */
    SAYS_MAX = 1 << 17,   /* what a client says at once */
    TEXT_MAX = 1 << 16,   /* what was said to it, as a text */
    CLIENT_STREAMS = 128, /* by number */
    STREAMS_MAX = 4,
    LARGE_BYTES = 200000,
    IDLE_MS = 5000,
    HEAD_MS = 3000,
    SEND_IDLE_MS = 6000,
    BODY_IDLE_MS = 4000,
    POISON = 0xEE,
};

/* Who answers.  /hit at once with 3 bytes, /large with LARGE_BYTES, /steady with as many, 9,000 whenever the last have
 * left; /cut ends the connection, /first has the first request answered, /kept is not released; anything else is answered
 * when the test says so. */
struct answer {
    struct task task;
    struct exchange *x; /* NULL: released */
    uint32_t id;        /* of its stream */
    int err;            /* facts of the request */
    char target[64];
    bool answers, head_given, bodyless, keeps; /* keeps: does not release it */
    bool done, gone, in_ended;
    unsigned status;
    uint64_t length;
    char *body; /* malloc(3) */
    size_t len, at;
    size_t most;     /* of it in one call; 0: all */
    size_t wipes_to; /* overwritten so far */
    size_t reads;    /* bytes of the request's body in one call; 0: it is not read */
    int in_err;
    size_t got_len;
    char *got;
};

/* What a client knows of one of its streams. */
struct client_stream {
    unsigned heads; /* final ones */
    uint64_t data;
    bool ended, reset;
    uint32_t why; /* it was reset */
};

struct client {
    struct stream *s;
    nghttp2_hd_inflater *inflater;
    size_t at; /* of fake_got(): read so far */
    size_t len;
    char text[TEXT_MAX];
    struct client_stream streams[CLIENT_STREAMS];
    uint64_t data; /* of all streams */
    uint64_t window_updates[CLIENT_STREAMS];
};

struct bytes {
    size_t len;
    char at[SAYS_MAX];
};

static struct {
    struct loop loop;
    struct client_conf conf;
    struct h2_conf h2;
    struct counters *counters;
    struct conn_server *server;
    unsigned ended;
    unsigned nanswers;
    struct answer answers[ANSWERS_MAX];
    struct client *client; /* of the connection that was made last */
    struct client clients[2];
    unsigned nclients;
    bool greets; /* each client sends its preface by itself */
} world;

/* ---- what a client says ---- */

static inline void
put(struct bytes *b, const void *p, size_t len)
{
    CHECK(b->len + len <= sizeof(b->at));
    if (len > 0)
        memcpy(b->at + b->len, p, len);
    b->len += len;
}

static inline void
put_frame(
    struct bytes *b, unsigned type, unsigned flags, uint32_t id, const void *payload, size_t len)
{
    char head[H2_FRAME_HEAD];

    h2_put_frame(head, (uint32_t)len, (enum h2_frame_type)type, (uint8_t)flags, id);
    put(b, head, sizeof(head));
    put(b, payload, len);
}

/* A literal that is not indexed (RFC 7541 6.2.2). */
static inline void
put_field(struct bytes *b, const char *name, const char *value)
{
    char lens[3] = {0, (char)strlen(name), (char)strlen(value)};

    CHECK(strlen(name) < 127 && strlen(value) < 127);
    put(b, lens, 2);
    put(b, name, strlen(name));
    put(b, lens + 2, 1);
    put(b, value, strlen(value));
}

static inline void
put_fields(struct bytes *b, const char *method, const char *path)
{
    put_field(b, ":method", method);
    put_field(b, ":scheme", "http");
    put_field(b, ":authority", "a");
    put_field(b, ":path", path);
}

static inline void
put_request(struct bytes *b, uint32_t id, const char *method, const char *path, bool ends)
{
    struct bytes *block = calloc(1, sizeof(*block));

    CHECK(block != NULL);
    put_fields(block, method, path);
    put_frame(
        b, H2_HEADERS, H2_END_HEADERS | (ends ? H2_END_STREAM : 0u), id, block->at, block->len);
    free(block);
}

/* With one more field. */
static inline void
put_request_with(struct bytes *b, uint32_t id, const char *method, const char *path,
    const char *name, const char *value)
{
    struct bytes *block = calloc(1, sizeof(*block));

    CHECK(block != NULL);
    put_fields(block, method, path);
    put_field(block, name, value);
    put_frame(b, H2_HEADERS, H2_END_HEADERS, id, block->at, block->len);
    free(block);
}

static inline void
put_number(struct bytes *b, unsigned type, uint32_t id, uint32_t n)
{
    char payload[4];

    h2_put32(payload, n);
    put_frame(b, type, 0, id, payload, sizeof(payload));
}

static inline void
put_setting(struct bytes *b, unsigned id, uint32_t value)
{
    char payload[H2_SETTING_BYTES];

    h2_put32(h2_put16(payload, id), value);
    put_frame(b, H2_SETTINGS, 0, 0, payload, sizeof(payload));
}

static inline void
put_preface(struct bytes *b)
{
    put(b, H2_PREFACE, H2_PREFACE_BYTES);
    put_frame(b, H2_SETTINGS, 0, 0, NULL, 0);
}

/* ---- what it hears ---- */

static inline char
body_byte(uint32_t id, uint64_t at)
{
    return (char)(id * 31 + at * 7 + (at >> 8) * 13);
}

static inline void __attribute__((format(printf, 2, 3)))
client_note(struct client *k, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(k->text + k->len, sizeof(k->text) - k->len, format, args);
    va_end(args);
    CHECK(n >= 0 && k->len + (size_t)n < sizeof(k->text));
    k->len += (size_t)n;
}

static inline struct client_stream *
client_stream(struct client *k, uint32_t id)
{
    CHECK(id > 0 && id < CLIENT_STREAMS);
    return &k->streams[id];
}

static inline void
client_on_block(struct client *k, const struct h2_frame *f, const char *p)
{
    struct client_stream *s = client_stream(k, f->stream);
    const uint8_t *at = (const uint8_t *)p;
    size_t len = f->len;
    bool interim = false;

    CHECK_EQ(H2_END_HEADERS, f->flags & ~H2_END_STREAM);
    CHECK(!s->ended && !s->reset);
    client_note(k, "headers(%u", f->stream);
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(k->inflater, &nv, &flags, at, len, 1);

        CHECK(n >= 0);
        at += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            if (strcmp((const char *)nv.name, ":status") == 0) {
                interim = nv.value[0] == '1';
                client_note(k, " %s", (const char *)nv.value);
            } else {
                client_note(k, " %s:%s", (const char *)nv.name, (const char *)nv.value);
            }
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
        CHECK((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 || len > 0);
    }
    nghttp2_hd_inflate_end_headers(k->inflater);
    s->heads += !interim;
    CHECK_EQ(!interim, s->heads);
    s->ended = (f->flags & H2_END_STREAM) != 0;
    client_note(k, "%s) ", s->ended ? " end" : "");
}

static inline void
client_on_data(struct client *k, const struct h2_frame *f, const char *p)
{
    struct client_stream *s = client_stream(k, f->stream);

    CHECK(s->heads == 1 && !s->ended && !s->reset);
    CHECK_EQ(0, f->flags & ~H2_END_STREAM);
    for (uint32_t i = 0; i < f->len; i++)
        CHECK_EQ(body_byte(f->stream, s->data + i), p[i]);
    s->data += f->len;
    k->data += f->len;
    s->ended = (f->flags & H2_END_STREAM) != 0;
    client_note(k, "data(%u %u%s) ", f->stream, f->len, s->ended ? " end" : "");
}

static inline void
client_on_settings(struct client *k, const struct h2_frame *f, const char *p)
{
    if ((f->flags & H2_ACK) != 0) {
        client_note(k, "ack ");
        return;
    }
    client_note(k, "settings(");
    for (uint32_t at = 0; at < f->len; at += H2_SETTING_BYTES)
        client_note(
            k, "%s%u=%u", at > 0 ? " " : "", h2_get16(p + at), (unsigned)h2_get32(p + at + 2));
    client_note(k, ") ");
}

static inline void
client_on_frame(struct client *k, const struct h2_frame *f, const char *p)
{
    switch (f->type) {
    case H2_HEADERS:
        client_on_block(k, f, p);
        break;
    case H2_DATA:
        client_on_data(k, f, p);
        break;
    case H2_SETTINGS:
        client_on_settings(k, f, p);
        break;
    case H2_WINDOW_UPDATE:
        if (f->stream > 0)
            CHECK(!client_stream(k, f->stream)->reset);
        k->window_updates[f->stream] += h2_get32(p);
        client_note(k, "window(%u %u) ", f->stream, h2_get32(p));
        break;
    case H2_RST_STREAM:
        client_stream(k, f->stream)->reset = true;
        client_stream(k, f->stream)->why = h2_get32(p);
        client_note(k, "rst(%u %u) ", f->stream, h2_get32(p));
        break;
    case H2_GOAWAY:
        client_note(k, "goaway(%u %u) ", h2_get32(p), h2_get32(p + 4));
        break;
    case H2_PING:
        CHECK_EQ(H2_ACK, f->flags);
        client_note(k, "pong ");
        break;
    default:
        CHECK(!"a frame that no server sends");
    }
}

/* Everything that came and is whole. */
static inline void
client_read(struct client *k)
{
    const char *got = fake_got(k->s);
    size_t len = fake_got_len(k->s);

    while (len - k->at >= H2_FRAME_HEAD) {
        struct h2_frame f = h2_get_frame(got + k->at);

        CHECK(f.len <= H2_FRAME_MIN_MAX);
        if (len - k->at < H2_FRAME_HEAD + f.len)
            break;
        client_on_frame(k, &f, got + k->at + H2_FRAME_HEAD);
        k->at += H2_FRAME_HEAD + f.len;
    }
}

/* What came since the last call, as a text. */
static inline const char *
hears(void)
{
    static char text[TEXT_MAX];
    struct client *k = world.client;

    client_read(k);
    memcpy(text, k->text, k->len + 1);
    k->len = 0;
    k->text[0] = '\0';
    return text;
}

/* ---- who answers ---- */

static inline struct client *
answer_client(const struct answer *a)
{
    struct stream *s = container_of(a->x, struct h2_stream, x)->conn->stream;

    for (unsigned i = 0; i < world.nclients; i++)
        if (world.clients[i].s == s)
            return &world.clients[i];
    return NULL; /* it was closed */
}

/* Bytes that will never be read again are others' from now on; they must have reached the client. */
static inline void
answer_wipe(struct answer *a)
{
    struct client *k = answer_client(a);
    size_t upto = a->x->gone || a->x->done ? a->len : (size_t)a->x->sent;

    CHECK(a->x->sent <= a->at);
    if (k != NULL && !a->x->gone) {
        client_read(k);
        CHECK(a->x->sent <= k->streams[a->id].data);
    }
    if (upto > a->wipes_to) {
        memset(a->body + a->wipes_to, POISON, upto - a->wipes_to);
        a->wipes_to = upto;
    }
}

static inline void
answer_read(struct answer *a)
{
    while (a->reads > 0 && !a->in_ended && a->in_err == 0) {
        char piece[4096];
        ssize_t n =
            a->x->ops->body_read(a->x, piece, a->reads < sizeof(piece) ? a->reads : sizeof(piece));

        if (n == TERR_AGAIN)
            return;
        if (n < 0)
            a->in_err = (int)n;
        a->in_ended = n == 0;
        if (n <= 0)
            return;
        CHECK(a->got_len + (size_t)n <= GOT_MAX);
        if (a->got == NULL)
            a->got = malloc(GOT_MAX);
        CHECK(a->got != NULL);
        memcpy(a->got + a->got_len, piece, (size_t)n);
        a->got_len += (size_t)n;
    }
}

static inline ssize_t
answer_send(struct answer *a, size_t n, bool end)
{
    struct head_build b;
    struct exchange_response r = {
        .status = a->status, .length = a->length, .bodyless = a->bodyless};
    struct iovec iov[2] = {{a->body + a->at, n / 3}, {a->body + a->at + n / 3, n - n / 3}};

    r.message = head_build(&b, "HTTP/1.1 200 OK\r\n");
    return a->x->ops->send(a->x, a->head_given ? NULL : &r, iov, 2, end ? EXCHANGE_END : 0);
}

static inline void
answer_write(struct answer *a)
{
    while (a->answers && a->x->writable && !a->x->gone && !a->x->done) {
        size_t n = a->len - a->at;
        ssize_t sent;

        if (a->most > 0 && n > a->most)
            n = a->most;
        sent = answer_send(a, n, a->at + n == a->len);
        if (sent < 0) {
            CHECK_EQ(TERR_CLOSED, sent);
            return;
        }
        a->head_given = true;
        a->at += (size_t)sent;
        if (a->at == a->len && (size_t)sent == n)
            a->answers = false;
        if (a->most > 0)
            return; /* and more when this has left */
    }
}

static inline void
answer_run(struct task *t)
{
    struct answer *a = container_of(t, struct answer, task);

    if (a->x == NULL)
        return;
    if (!a->x->gone && !a->x->done) {
        answer_read(a);
        answer_write(a);
    }
    answer_wipe(a);
    a->done = a->x->done;
    a->gone = a->x->gone;
    if ((a->done || a->gone) && !a->keeps) {
        a->x->ops->release(a->x);
        a->x = NULL;
        task_cancel(&a->task);
    }
}

/* It is answered so, as soon as it may. */
static inline void
answers(struct answer *a, size_t len)
{
    a->body = malloc(len + 1);
    CHECK(a->body != NULL);
    for (size_t i = 0; i < len; i++)
        a->body[i] = body_byte(a->id, i);
    a->len = len;
    a->length = len;
    a->answers = true;
}

static inline void
wake(struct answer *a)
{
    task_wake(&a->task);
    fake_run(&world.loop);
}

static inline void
answer_start(void *ctx, struct exchange *x)
{
    struct answer *a = &world.answers[world.nanswers++];
    struct slice target = http_slice(&x->head, x->head.target_off, x->head.target_len);

    CHECK(ctx == &world && world.nanswers <= ANSWERS_MAX);
    task_init(&a->task, &world.loop.tasks, answer_run);
    x->task = &a->task;
    x->over = exchange_over_to_task;
    a->x = x;
    a->id = container_of(x, struct h2_stream, x)->id;
    a->status = 200;
    a->err = x->err;
    if (x->head.len > 0 && target.len < sizeof(a->target))
        memcpy(a->target, target.ptr, target.len);
    if (strcmp(a->target, "/hit") == 0)
        answers(a, 3);
    else if (strcmp(a->target, "/large") == 0)
        answers(a, LARGE_BYTES);
    else if (strcmp(a->target, "/steady") == 0) {
        answers(a, LARGE_BYTES);
        a->most = 9000;
    } else if (strcmp(a->target, "/cut") == 0)
        CHECK(world.server->ops->cut_one(world.server, x->conn->session));
    else if (strcmp(a->target, "/first") == 0) {
        answers(&world.answers[0], 3);
        answer_run(&world.answers[0].task);
    }
    a->keeps = strncmp(a->target, "/kept", 5) == 0;
    answer_run(&a->task);
}

/* ---- the world ---- */

static inline void
world_on_ended(void *ctx, const struct conn_facts *facts)
{
    (void)ctx;
    (void)facts;
    world.ended++;
}

static inline int
world_adopt(void)
{
    static const struct conn_listener listener = {.name = "", .endpoint = ""};
    const struct conn_facts facts = {.listener = &listener, .session = world.nclients + 1};
    struct client *k = &world.clients[world.nclients];
    struct stream *s;
    int err;

    CHECK(world.nclients < ARRAY_LEN(world.clients));
    CHECK_EQ(0, stream_accept(&s, &world.loop, -1, false, NULL));
    k->s = s;
    err = world.server->ops->adopt(world.server, &s, &facts);
    if (err != 0) {
        stream_close(&s);
        return err;
    }
    CHECK(s == NULL);
    CHECK_EQ(0, nghttp2_hd_inflate_new(&k->inflater));
    world.client = k;
    world.nclients++;
    return 0;
}

static inline void
world_open_silent(void)
{
    struct h2_server_env env = {.loop = &world.loop,
        .conf = &world.conf,
        .h2 = &world.h2,
        .start = answer_start,
        .start_ctx = &world};

    memset(&world, 0, sizeof(world));
    fake_loop_open(&world.loop);
    arena_pool_init(&world.loop.arenas, 4, &world.loop.usage);
    world.conf = (struct client_conf){.fields_max = 20,
        .req_line_max = 200,
        .req_field_max = 200,
        .req_head_max = 2000,
        .idle_ms = IDLE_MS,
        .head_ms = HEAD_MS,
        .body_ms = 20000,
        .body_idle_ms = BODY_IDLE_MS,
        .send_idle_ms = SEND_IDLE_MS};
    world.h2 =
        (struct h2_conf){.streams_max = STREAMS_MAX, .initial_window = 65535, .max_frame = 16384};
    CHECK_EQ(0, counters_open(&world.counters, NULL, 1));
    env.counters = counters_worker(world.counters, 0);
    CHECK_EQ(0, h2_server_open(&world.server, &env));
    world.server->ended = world_on_ended;
    CHECK_EQ(0, world_adopt());
}

static inline void
says_bytes(const void *bytes, size_t len)
{
    fake_arrive(world.client->s, bytes, len);
    fake_run(&world.loop);
}

/* And it is empty again. */
static inline void
says(struct bytes *b)
{
    says_bytes(b->at, b->len);
    b->len = 0;
}

/* With a client that has said its preface, and read ours. */
static inline void
world_open(void)
{
    static struct bytes b;

    b.len = 0;
    world_open_silent();
    put_preface(&b);
    says(&b);
    hears();
}

static inline void
world_close(void)
{
    world.server->ops->cut(world.server);
    fake_run(&world.loop);
    for (unsigned i = 0; i < world.nanswers; i++) {
        struct answer *a = &world.answers[i];

        CHECK(a->x == NULL);
        free(a->body);
        free(a->got);
    }
    for (unsigned i = 0; i < world.nclients; i++)
        nghttp2_hd_inflate_del(world.clients[i].inflater);
    CHECK_EQ(world.nclients, world.ended);
    CHECK_EQ(0, h2_server_of(world.server)->nconns);
    world.server->ops->close(&world.server);
    arena_pool_trim(&world.loop.arenas, 0);
    for (unsigned kind = 0; kind < USAGE_KINDS; kind++)
        CHECK_EQ(0, world.loop.usage.bytes[kind]);
    counters_close(&world.counters);
    fake_loop_close(&world.loop);
}

#endif
