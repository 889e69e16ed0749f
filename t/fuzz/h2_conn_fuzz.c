/* h2_conn_fuzz.c -- a whole connection of HTTP/2: what tarn says to any client is what RFC 9113 allows.
 *
 * The first SCRIPT bytes are how: bytes of it are ops, taken in turn (fuzz_op), and what each request is answered with
 * (fuzz_start).  The rest is what the client says behind its preface and SETTINGS.
 *
 * Two readers judge.  One follows the client's bytes and knows what they allow: streams, windows.  The other reads every
 * frame that tarn sends, decodes field blocks, and compares each body byte with what was to be sent.  Bodies are
 * overwritten as soon as `sent` allows, so that what is read too late is seen. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/h2/h2_conn.h"
#include "t/unit/fake_stream.h"
#include "t/unit/head_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SCRIPT = 16,
    INPUT_MAX = 8192,
    STEPS_MAX = 400,
    STREAMS_OPEN = 5,
    ANSWERS = 1024,
    BODIES_MAX = 200000, /* bytes of all answers: what the fake stream has room for */
    USAGE_BOUND = 2 << 20,
    PENDING_SETTINGS = 1024,
    IDS = 1 << 12, /* streams with a number below it are followed singly */
    WIRE_MAX = 1 << 20,
    POISON = 0xEE,
};

/* A stream as the two readers know it. */
struct fuzz_stream {
    int64_t given; /* by the client's WINDOW_UPDATE */
    int64_t data;
    bool asked, head, ended, reset, reset_by_client;
};

struct fuzz_answer {
    struct task task;
    struct exchange *x; /* NULL: released */
    uint32_t id;
    uint8_t how;
    bool answers, head_given, resets;
    char *body;
    size_t len, at, wiped;
};

static struct {
    struct loop loop;
    struct client_conf conf;
    struct h2_conf h2;
    struct counters *counters;
    struct conn_server *server;
    struct stream *s;
    unsigned ended;
    /* the script */
    const uint8_t *script;
    unsigned script_at;
    size_t bodies;
    struct fuzz_answer answers[ANSWERS];
    unsigned nanswers, nlive;
    /* what the client said */
    char in[INPUT_MAX + 256];
    size_t in_len, in_at, said;
    bool in_odd; /* not frames any more */
    struct fuzz_stream streams[IDS];
    uint32_t last_asked;
    int64_t conn_given;
    uint32_t windows[PENDING_SETTINGS]; /* said and not yet acknowledged */
    unsigned nwindows, window_at;
    uint32_t window; /* acknowledged */
    /* what tarn said */
    char wire[WIRE_MAX];
    size_t wire_len;
    nghttp2_hd_inflater *inflater;
    int64_t conn_data;
    bool greeted, failed;
    uint32_t block_id;
    bool block_ends;
    size_t block_len;
    uint8_t block[1 << 17];
} fuzz;

static uint8_t
fuzz_byte(void)
{
    return fuzz.script[fuzz.script_at++ % SCRIPT];
}

/* ---- what the client said ---- */

static struct fuzz_stream *
fuzz_stream(uint32_t id)
{
    return id < IDS ? &fuzz.streams[id] : NULL;
}

static void
fuzz_client_settings(const char *p, uint32_t len)
{
    uint32_t window = fuzz.nwindows > 0 ? fuzz.windows[fuzz.nwindows - 1] : H2_WINDOW_DEFAULT;

    for (uint32_t at = 0; at + H2_SETTING_BYTES <= len; at += H2_SETTING_BYTES)
        if (h2_get16(p + at) == H2_SETTINGS_INITIAL_WINDOW_SIZE)
            window = h2_get32(p + at + 2);
    if (fuzz.nwindows == PENDING_SETTINGS)
        fuzz.in_odd = true;
    else
        fuzz.windows[fuzz.nwindows++] = window;
}

static void
fuzz_client_frame(const struct h2_frame *f, const char *p)
{
    struct fuzz_stream *s = fuzz_stream(f->stream);

    if (f->type == H2_HEADERS) {
        if (f->stream > fuzz.last_asked)
            fuzz.last_asked = f->stream;
        if (s != NULL)
            s->asked = true;
    } else if (f->type == H2_SETTINGS && (f->flags & H2_ACK) == 0) {
        fuzz_client_settings(p, f->len);
    } else if (f->type == H2_WINDOW_UPDATE && f->len == 4 && f->stream == 0) {
        fuzz.conn_given += h2_get32(p) & H2_WINDOW_MAX;
    } else if (f->type == H2_WINDOW_UPDATE && f->len == 4 && s != NULL) {
        s->given += h2_get32(p) & H2_WINDOW_MAX;
    } else if (f->type == H2_RST_STREAM && s != NULL) {
        s->reset_by_client = true;
    }
}

/* Whole frames of what has been delivered. */
static void
fuzz_follow_client(void)
{
    while (!fuzz.in_odd && fuzz.said - fuzz.in_at >= H2_FRAME_HEAD) {
        struct h2_frame f = h2_get_frame(fuzz.in + fuzz.in_at);

        if (f.len > H2_FRAME_MIN_MAX) {
            fuzz.in_odd = true;
            return;
        }
        if (fuzz.said - fuzz.in_at < H2_FRAME_HEAD + f.len)
            return;
        fuzz_client_frame(&f, fuzz.in + fuzz.in_at + H2_FRAME_HEAD);
        fuzz.in_at += H2_FRAME_HEAD + f.len;
    }
}

/* The largest that the client may be held to: what it has said and not heard to be in force counts too. */
static int64_t
fuzz_window(void)
{
    uint32_t most = fuzz.window;

    for (unsigned i = fuzz.window_at; i < fuzz.nwindows; i++)
        if (fuzz.windows[i] > most)
            most = fuzz.windows[i];
    return most;
}

/* ---- what tarn said ---- */

static char
fuzz_body_byte(uint32_t id, uint64_t at)
{
    return (char)(id * 31 + at * 7 + (at >> 8) * 13);
}

static bool
fuzz_name_ok(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] <= ' ' || p[i] >= 127 || (p[i] >= 'A' && p[i] <= 'Z') || (p[i] == ':' && i > 0))
            return false;
    return len > 0;
}

static void
fuzz_block_done(void)
{
    struct fuzz_stream *s = fuzz_stream(fuzz.block_id);
    const uint8_t *at = fuzz.block;
    size_t len = fuzz.block_len;
    unsigned n = 0;
    bool interim = false;

    for (int flags = 0; (flags & NGHTTP2_HD_INFLATE_FINAL) == 0;) {
        nghttp2_nv nv;
        ssize_t used = nghttp2_hd_inflate_hd2(fuzz.inflater, &nv, &flags, at, len, 1);

        tassert(used >= 0);
        at += used;
        len -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0) {
            tassert((flags & NGHTTP2_HD_INFLATE_FINAL) != 0);
            continue;
        }
        tassert(fuzz_name_ok(nv.name, nv.namelen));
        tassert((n++ == 0) == (nv.name[0] == ':'));
        if (nv.name[0] == ':') {
            tassert(nv.valuelen == 3 && memcmp(nv.name, ":status", 7) == 0);
            interim = nv.value[0] == '1';
        }
    }
    nghttp2_hd_inflate_end_headers(fuzz.inflater);
    tassert(n > 0 && !(interim && fuzz.block_ends));
    if (s != NULL) {
        tassert(!s->head && !s->ended && !s->reset);
        s->head = !interim;
        s->ended = fuzz.block_ends;
    }
    fuzz.block_id = 0;
}

static void
fuzz_on_block(const struct h2_frame *f, const char *p)
{
    if (f->type == H2_HEADERS) {
        tassert(fuzz.block_id == 0 && f->stream % 2 == 1 && f->stream <= fuzz.last_asked);
        tassert((f->flags & ~(H2_END_STREAM | H2_END_HEADERS)) == 0 && !fuzz.failed);
        fuzz.block_id = f->stream;
        fuzz.block_ends = (f->flags & H2_END_STREAM) != 0;
        fuzz.block_len = 0;
    }
    tassert(fuzz.block_id == f->stream && fuzz.block_len + f->len <= sizeof(fuzz.block));
    memcpy(fuzz.block + fuzz.block_len, p, f->len);
    fuzz.block_len += f->len;
    if ((f->flags & H2_END_HEADERS) != 0)
        fuzz_block_done();
}

static void
fuzz_on_data(const struct h2_frame *f, const char *p)
{
    struct fuzz_stream *s = fuzz_stream(f->stream);

    tassert((f->flags & ~H2_END_STREAM) == 0 && !fuzz.failed);
    fuzz.conn_data += f->len;
    tassert(f->len == 0 || fuzz.conn_data <= H2_WINDOW_DEFAULT + fuzz.conn_given);
    if (s == NULL)
        return;
    tassert(s->asked && s->head && !s->ended && !s->reset);
    for (uint32_t i = 0; i < f->len; i++)
        tassert(p[i] == fuzz_body_byte(f->stream, (uint64_t)s->data + i));
    s->data += f->len;
    tassert(f->len == 0 || s->data <= fuzz_window() + s->given);
    s->ended = (f->flags & H2_END_STREAM) != 0;
}

static void
fuzz_on_other(const struct h2_frame *f, const char *p)
{
    struct fuzz_stream *s = fuzz_stream(f->stream);

    switch (f->type) {
    case H2_SETTINGS:
        tassert(f->stream == 0 && ((f->flags & H2_ACK) != 0) == (f->len == 0));
        tassert(f->len % H2_SETTING_BYTES == 0 && (fuzz.greeted || f->len > 0));
        if (f->len > 0)
            break;
        tassert(fuzz.window_at < fuzz.nwindows);
        fuzz.window = fuzz.windows[fuzz.window_at++];
        break;
    case H2_WINDOW_UPDATE:
        tassert(f->len == 4 && h2_get32(p) > 0 && h2_get32(p) <= H2_WINDOW_MAX);
        tassert(f->stream == 0 || s == NULL || (s->asked && !s->reset));
        break;
    case H2_RST_STREAM: /* again where the client goes on with a stream that has ended */
        tassert(f->len == 4 && f->stream % 2 == 1 && f->stream <= fuzz.last_asked);
        if (s != NULL)
            s->reset = true;
        break;
    case H2_PING:
        tassert(f->len == H2_PING_BYTES && f->stream == 0 && f->flags == H2_ACK);
        break;
    case H2_GOAWAY:
        tassert(f->len == 8 && f->stream == 0);
        fuzz.failed = fuzz.failed || h2_get32(p + 4) != H2_NO_ERROR;
        break;
    default:
        tassert(!"a frame that no server sends");
    }
}

static void
fuzz_read_wire(void)
{
    size_t at = 0;

    tassert(fuzz.wire_len + fake_got_len(fuzz.s) <= sizeof(fuzz.wire));
    memcpy(fuzz.wire + fuzz.wire_len, fake_got(fuzz.s), fake_got_len(fuzz.s));
    fuzz.wire_len += fake_got_len(fuzz.s);
    fake_got_clear(fuzz.s);
    while (fuzz.wire_len - at >= H2_FRAME_HEAD) {
        struct h2_frame f = h2_get_frame(fuzz.wire + at);
        const char *p = fuzz.wire + at + H2_FRAME_HEAD;

        tassert(f.len <= H2_FRAME_MIN_MAX && (fuzz.greeted || f.type == H2_SETTINGS));
        if (fuzz.wire_len - at < H2_FRAME_HEAD + f.len)
            break;
        tassert(fuzz.block_id == 0 || f.type == H2_CONTINUATION);
        if (f.type == H2_HEADERS || f.type == H2_CONTINUATION)
            fuzz_on_block(&f, p);
        else if (f.type == H2_DATA)
            fuzz_on_data(&f, p);
        else
            fuzz_on_other(&f, p);
        fuzz.greeted = true;
        at += H2_FRAME_HEAD + f.len;
    }
    memmove(fuzz.wire, fuzz.wire + at, fuzz.wire_len - at);
    fuzz.wire_len -= at;
}

/* ---- who answers ---- */

static void
fuzz_release(struct fuzz_answer *a)
{
    a->x->ops->release(a->x);
    task_cancel(&a->task);
    a->x = NULL;
    free(a->body);
    a->body = NULL;
    fuzz.nlive--;
}

static void
fuzz_send(struct fuzz_answer *a)
{
    struct head_build b;
    bool bodyless = a->x->head.method == HTTP_M_HEAD;
    struct exchange_response r = {.status = 200,
        .length = a->how & 64 ? a->len : EXCHANGE_LENGTH_UNKNOWN,
        .bodyless = bodyless};
    size_t n = bodyless ? 0 : a->len - a->at, piece;
    struct iovec iov[40];
    unsigned k = 0;
    ssize_t sent;

    if ((a->how & 32) != 0 && n > 3000)
        n = 3000;
    piece = (a->how & 128) != 0 ? n / ARRAY_LEN(iov) + 1 : n;
    for (size_t at = 0; at < n; at += iov[k++].iov_len)
        iov[k] = (struct iovec){a->body + a->at + at, piece < n - at ? piece : n - at};
    r.message = head_build(&b, "HTTP/1.1 200 OK\r\nServer: some\r\nX-Other: thing\r\n");
    sent = a->x->ops->send(a->x, a->head_given ? NULL : &r, iov, k,
        bodyless || a->at + n == a->len ? EXCHANGE_END : 0);
    if (sent < 0) {
        tassert(sent == TERR_CLOSED);
        a->answers = false;
        return;
    }
    tassert((size_t)sent <= n);
    a->head_given = true;
    a->at += (size_t)sent;
    if ((size_t)sent == n && (bodyless || a->at == a->len))
        a->answers = false;
}

static void
fuzz_read_body(struct fuzz_answer *a, size_t room)
{
    char piece[512];

    for (unsigned i = 0; i < 4; i++)
        if (a->x->ops->body_read(a->x, piece, room) <= 0)
            return;
}

static void
fuzz_wipe(struct fuzz_answer *a)
{
    tassert(a->x->sent <= a->at || a->x->gone);
    if (a->x->sent > a->wiped)
        memset(a->body + a->wiped, POISON, (size_t)a->x->sent - a->wiped);
    a->wiped = (size_t)a->x->sent;
}

static void
fuzz_answer_run(struct task *t)
{
    struct fuzz_answer *a = container_of(t, struct fuzz_answer, task);

    if (a->x == NULL)
        return;
    if ((a->how & 3) == 3 && !a->x->gone && !a->x->done)
        fuzz_read_body(a, 1 + a->how);
    for (unsigned i = 0; a->answers && a->x->writable && !a->x->gone && !a->x->done; i++) {
        fuzz_send(a);
        if ((a->how & 32) != 0)
            break; /* the next piece when this has left */
    }
    fuzz_wipe(a);
    if (a->x->gone || a->x->done)
        fuzz_release(a);
}

/* `how`: its lowest bits say when, the others what. */
static void
fuzz_answer(struct fuzz_answer *a)
{
    size_t len = (size_t)(a->how >> 2 & 7) * (a->how >> 2 & 7) * 700;

    if (a->answers || a->body != NULL)
        return;
    if (len > BODIES_MAX - fuzz.bodies)
        len = 0;
    fuzz.bodies += len;
    a->body = malloc(len + 1);
    tassert(a->body != NULL);
    for (size_t i = 0; i < len; i++)
        a->body[i] = fuzz_body_byte(a->id, i);
    a->len = len;
    a->answers = true;
}

static void
fuzz_start(void *ctx, struct exchange *x)
{
    struct fuzz_answer *a = &fuzz.answers[fuzz.nanswers++];

    (void)ctx;
    tassert(fuzz.nanswers <= ANSWERS && ++fuzz.nlive <= STREAMS_OPEN);
    task_init(&a->task, &fuzz.loop.tasks, fuzz_answer_run);
    x->task = &a->task;
    x->over = exchange_over_to_task;
    a->x = x;
    a->id = container_of(x, struct h2_stream, x)->id;
    a->how = fuzz_byte();
    if ((a->how & 3) == 0 || (a->how & 3) == 3 || x->err != 0)
        fuzz_answer(a);
    fuzz_answer_run(&a->task);
}

/* The first that waits is answered, or reset. */
static void
fuzz_answer_first(bool reset)
{
    for (unsigned i = 0; i < fuzz.nanswers; i++) {
        struct fuzz_answer *a = &fuzz.answers[i];

        if (a->x == NULL || (a->answers && !reset) || a->body != NULL)
            continue;
        if (reset && !a->x->gone && !a->x->done) {
            a->x->ops->reset(a->x, TERR_CLOSED);
            fuzz_release(a);
            return;
        }
        fuzz_answer(a);
        task_wake(&a->task);
        return;
    }
}

/* ---- the script ---- */

static void
fuzz_turn(void)
{
    uint64_t bytes = 0;

    fake_run(&fuzz.loop);
    fuzz_read_wire();
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        bytes += fuzz.loop.usage.bytes[i];
    tassert(bytes <= USAGE_BOUND);
}

static void
fuzz_deliver(size_t n)
{
    if (n > fuzz.in_len - fuzz.said)
        n = fuzz.in_len - fuzz.said;
    fake_arrive(fuzz.s, fuzz.in + fuzz.said, n);
    fuzz.said += n;
    fuzz_follow_client();
}

static void
fuzz_op(uint8_t op)
{
    unsigned n = op >> 3;

    switch (op & 7) {
    case 0:
    case 1:
        fuzz_deliver(1 + n * n);
        break;
    case 2:
        fuzz_deliver(INPUT_MAX);
        break;
    case 3:
        fake_take(fuzz.s, n * n * n);
        break;
    case 4:
        fake_take(fuzz.s, SIZE_MAX);
        break;
    case 5:
        fake_pass(&fuzz.loop, n * 100);
        break;
    case 6:
        fuzz_answer_first(false);
        break;
    default:
        if (n < 4)
            fuzz_answer_first(true);
        else if (n < 5)
            fuzz.server->ops->drain_gently(fuzz.server);
        else
            fake_take(fuzz.s, 0);
        break;
    }
    fuzz_turn();
}

/* All that is accepted has left, and who may send knows. */
static void
fuzz_check_settled(void)
{
    for (unsigned i = 0; i < fuzz.nanswers; i++) {
        struct fuzz_answer *a = &fuzz.answers[i];

        if (a->x == NULL || a->x->gone)
            continue;
        tassert(a->x->sent == a->at && !a->x->gathered && !a->x->done);
        tassert(!a->answers || !h2_stream_may_send(container_of(a->x, struct h2_stream, x)));
    }
}

static void
fuzz_open(const uint8_t *data, size_t size)
{
    static const struct conn_listener listener = {.name = "", .endpoint = ""};
    const struct conn_facts facts = {.listener = &listener, .session = 1};
    static const char settings[H2_FRAME_HEAD] = {0, 0, 0, H2_SETTINGS};
    struct counters *counters = fuzz.counters;
    struct h2_server_env env = {
        .loop = &fuzz.loop, .conf = &fuzz.conf, .h2 = &fuzz.h2, .start = fuzz_start};
    struct stream *s;

    memset(&fuzz, 0, offsetof(__typeof__(fuzz), wire));
    fuzz.wire_len = fuzz.block_len = 0;
    fuzz.block_id = 0;
    fuzz.conn_data = 0;
    fuzz.greeted = fuzz.failed = false;
    fuzz.counters = counters;
    if (counters == NULL)
        tassert(counters_open(&fuzz.counters, NULL, 1) == 0);
    fake_loop_open(&fuzz.loop);
    arena_pool_init(&fuzz.loop.arenas, 4, &fuzz.loop.usage);
    fuzz.conf = (struct client_conf){.fields_max = 64,
        .head_memo = true,
        .req_line_max = 1000,
        .req_field_max = 4000,
        .req_head_max = 8000,
        .req_body_max = 5000,
        .idle_ms = 5000,
        .head_ms = 3000,
        .body_ms = 20000,
        .body_idle_ms = 4000,
        .send_idle_ms = 6000};
    fuzz.h2 = (struct h2_conf){.streams_max = STREAMS_OPEN,
        .initial_window = H2_WINDOW_DEFAULT,
        .max_frame = H2_FRAME_MIN_MAX};
    env.counters = counters_worker(fuzz.counters, 0);
    tassert(h2_server_open(&fuzz.server, &env) == 0);
    tassert(nghttp2_hd_inflate_new(&fuzz.inflater) == 0);
    fuzz.window = H2_WINDOW_DEFAULT;
    fuzz.script = data;
    memcpy(fuzz.in, settings, sizeof(settings));
    memcpy(fuzz.in + sizeof(settings), data + SCRIPT, size - SCRIPT);
    fuzz.in_len = sizeof(settings) + size - SCRIPT;
    tassert(stream_accept(&s, &fuzz.loop, -1, false, NULL) == 0);
    fuzz.s = s;
    tassert(fuzz.server->ops->adopt(fuzz.server, &s, &facts) == 0);
    fake_arrive(fuzz.s, H2_PREFACE, H2_PREFACE_BYTES);
}

static void
fuzz_on_ended(void *ctx, const struct conn_facts *facts)
{
    (void)ctx;
    (void)facts;
    fuzz.ended++;
}

static void
fuzz_close(void)
{
    if (fuzz.script[0] & 1)
        fuzz.server->ops->cut(fuzz.server);
    else if (!fake_is_closed(fuzz.s))
        fake_end(fuzz.s, TERR_CLOSED);
    fake_run(&fuzz.loop);
    tassert(fuzz.ended == 1 && fuzz.nlive == 0 && fake_is_closed(fuzz.s));
    fuzz.server->ops->close(&fuzz.server);
    arena_pool_trim(&fuzz.loop.arenas, 0);
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        tassert(fuzz.loop.usage.bytes[i] == 0);
    nghttp2_hd_inflate_del(fuzz.inflater);
    fake_loop_close(&fuzz.loop);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= SCRIPT || size > INPUT_MAX)
        return 0;
    fuzz_open(data, size);
    fuzz.server->ended = fuzz_on_ended;
    for (unsigned i = 0; i < STEPS_MAX && fuzz.said < fuzz.in_len; i++)
        fuzz_op(fuzz_byte());
    fuzz_deliver(INPUT_MAX);
    fake_take(fuzz.s, SIZE_MAX);
    fuzz_turn();
    if (!fake_is_closed(fuzz.s))
        fuzz_check_settled();
    fuzz_close();
    return 0;
}
