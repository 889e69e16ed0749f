/* h1_client_fixture.h -- one client of the HTTP/1 server on a fake stream, and an answerer. */
#ifndef TARN_H1_CLIENT_FIXTURE_H
#define TARN_H1_CLIENT_FIXTURE_H

#include "t/unit/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/net/incoming.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_stream.h"
#include "t/unit/head_build.h"

enum {
    ANSWERS_MAX = 12,
    GOT_MAX = 1 << 17,
    PIPE_MS = 1000,
    LARGE_BYTES = 300000, /* more than a full socket and the queue behind it take at once */
};

/* Who answers: /hit and /hint at once, anything else when the test says so. */
struct answer {
    struct task task;
    struct exchange *x; /* NULL: released */
    bool upgrade;       /* facts of the request */
    int err;
    bool tunnel, holds; /* holds: reads nothing */
    bool in_ended, done, gone;
    const char *out; /* to be sent through the tunnel */
    size_t out_len;
    bool end;
    uint64_t seen; /* x->sent when it last ran: what it may free */
    size_t got_len;
    char got[GOT_MAX];
};

static struct {
    struct loop loop;
    struct client_conf conf;
    struct counters *counters;
    struct incoming *incoming;
    struct stream *s;
    _Atomic int64_t conns;
    unsigned nanswers;
    struct answer answers[ANSWERS_MAX];
    bool grants; /* upgrades at once */
} world;

static const char hint_block[] = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n";
#define HINT    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
#define HIT     "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhit"
#define WAITED  "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited"
#define SWITCH  "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
#define UPGRADE "GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

/* The message is gone when the call returns. */
static int
answer_hint(struct answer *a)
{
    struct head_build b;
    char *text = strdup(hint_block);
    int rc;

    CHECK(text != NULL);
    rc = a->x->ops->interim(a->x, head_build_stored(&b, text));
    free(text);
    return rc;
}

static void
answer_send(struct answer *a, const char *body)
{
    const struct exchange_response r = {
        .status = 200, .rendered = SLICE_LIT("HTTP/1.1 200 OK\r\n"), .length = strlen(body)};
    struct iovec iov = {.iov_len = strlen(body)};

    memcpy(&iov.iov_base, &body, sizeof(body));
    CHECK_EQ(strlen(body), a->x->ops->send(a->x, &r, &iov, 1, EXCHANGE_END));
}

/* What is not taken now is sent on when there is room: answer_write(). */
static void
answer_send_large(struct answer *a)
{
    static const char large[LARGE_BYTES];
    const struct exchange_response r = {
        .status = 200, .rendered = SLICE_LIT("HTTP/1.1 200 OK\r\n"), .length = sizeof(large)};
    struct iovec iov = {.iov_len = sizeof(large)};
    const char *p = large;
    ssize_t n;

    memcpy(&iov.iov_base, &p, sizeof(p));
    n = a->x->ops->send(a->x, &r, &iov, 1, EXCHANGE_END);
    CHECK(n > 0 && (size_t)n < sizeof(large));
    a->out = large + n;
    a->out_len = sizeof(large) - (size_t)n;
    a->end = true;
}

static void
answer_grant(struct answer *a)
{
    const struct exchange_response r = {.status = 101,
        .rendered = SLICE_LIT("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"),
        .length = EXCHANGE_LENGTH_UNKNOWN};

    CHECK(a->x->upgrade);
    a->x->ops->tunnel(a->x);
    CHECK_EQ(0, a->x->ops->send(a->x, &r, NULL, 0, 0));
    a->tunnel = true;
    task_wake(&a->task);
}

static void
answer_read(struct answer *a)
{
    ssize_t n = 1;

    while (n > 0 && !a->holds && !a->in_ended) {
        CHECK(a->got_len + 5 < GOT_MAX);
        n = a->x->ops->body_read(a->x, a->got + a->got_len, 5);
        if (n == 0)
            a->in_ended = true;
        if (n > 0)
            a->got_len += (size_t)n;
    }
    a->got[a->got_len] = '\0';
}

static void
answer_write(struct answer *a)
{
    struct iovec iov = {.iov_len = a->out_len};
    ssize_t n;

    if (!a->x->writable || (a->out_len == 0 && !a->end))
        return;
    memcpy(&iov.iov_base, &a->out, sizeof(a->out));
    n = a->x->ops->send(a->x, NULL, &iov, a->out_len > 0, a->end ? EXCHANGE_END : 0);
    if (n == TERR_CLOSED)
        return;
    CHECK(n >= 0);
    a->out += n;
    a->out_len -= (size_t)n;
    if (a->out_len == 0)
        a->end = false;
}

static void
answer_run(struct task *t)
{
    struct answer *a = container_of(t, struct answer, task);

    if (a->x == NULL)
        return;
    if (a->tunnel && !a->x->gone) {
        answer_read(a);
        answer_write(a);
    } else if (a->end && !a->x->gone) {
        answer_write(a);
    }
    a->seen = a->x->sent;
    a->done = a->x->done;
    a->gone = a->x->gone;
    if (a->done || a->gone) {
        a->x->ops->release(a->x);
        a->x = NULL;
    }
}

static void
answer_start(void *ctx, struct exchange *x)
{
    struct answer *a = &world.answers[world.nanswers++];
    struct slice target;

    CHECK(ctx == &world && world.nanswers <= ANSWERS_MAX);
    memset(a, 0, offsetof(struct answer, got));
    task_init(&a->task, &world.loop.tasks, answer_run);
    x->task = &a->task;
    x->over = exchange_over_to_task;
    a->x = x;
    a->err = x->err;
    a->upgrade = x->upgrade;
    if (x->err != 0)
        return;
    target = http_slice(&x->head, x->head.target_off, x->head.target_len);
    if (slice_eq(target, SLICE_LIT("/hit")))
        answer_send(a, "hit");
    else if (slice_eq(target, SLICE_LIT("/large")))
        answer_send_large(a);
    else if (slice_eq(target, SLICE_LIT("/hint")))
        CHECK_EQ(0, answer_hint(a));
    else if (x->upgrade && world.grants)
        answer_grant(a);
    answer_run(&a->task);
}

static void
world_on_empty(void *ctx)
{
    (void)ctx;
}

static void
world_connect(void)
{
    static const struct incoming_listener plain = {.facts = {.name = "", .endpoint = ""}};

    CHECK_EQ(0, incoming_accept(world.incoming, -1, false, &plain));
    world.s = fake_newest;
}

static void
world_open_counting(int (*client_begins)(void *ctx, const uint8_t addr[16]),
    void (*client_ends)(void *ctx, const uint8_t addr[16]))
{
    struct incoming_env in = {.loop = &world.loop,
        .header_ms = &world.conf.head_ms,
        .conns = &world.conns,
        .on_empty = world_on_empty,
        .client_begins = client_begins,
        .client_ends = client_ends};
    struct h1_server_env h1 = {
        .loop = &world.loop, .conf = &world.conf, .start = answer_start, .start_ctx = &world};
    struct conn_server *server;

    memset(&world, 0, sizeof(world));
    fake_loop_open(&world.loop);
    world.conf = (struct client_conf){.fields_max = 20,
        .req_line_max = 200,
        .req_field_max = 200,
        .req_head_max = 2000,
        .head_memo = true,
        .idle_ms = 5000,
        .head_ms = 5000,
        .body_ms = 5000,
        .body_idle_ms = 5000,
        .send_idle_ms = 5000,
        .pipe_ms = PIPE_MS};
    CHECK_EQ(0, counters_open(&world.counters, NULL, 1));
    in.counters = h1.counters = counters_worker(world.counters, 0);
    CHECK_EQ(0, incoming_open(&world.incoming, &in));
    CHECK_EQ(0, h1_server_open(&server, &h1));
    incoming_serve(world.incoming, &server);
    world_connect();
}

static inline void
world_open(void)
{
    world_open_counting(NULL, NULL);
}

static void
world_close(void)
{
    incoming_cut(world.incoming);
    fake_run(&world.loop);
    for (unsigned i = 0; i < world.nanswers; i++)
        CHECK(world.answers[i].x == NULL);
    CHECK_EQ(0, atomic_load(&world.conns));
    incoming_close(&world.incoming);
    counters_close(&world.counters);
    fake_loop_close(&world.loop);
}

static void
says(const char *text, size_t len)
{
    fake_arrive(world.s, text, len);
    fake_run(&world.loop);
}

static void
says_split(const char *text, size_t at)
{
    says(text, at);
    says(text + at, strlen(text) - at);
}

static inline void
wake(struct answer *a)
{
    task_wake(&a->task);
    fake_run(&world.loop);
}

#endif
