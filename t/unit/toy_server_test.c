/* toy_server_test.c -- a protocol toward clients is conn_server_ops and exchange_ops, and nothing
 * else.  In this one a line is a request, and its answer is a line. */
#include "t/unit/test.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/net/incoming.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_stream.h"

static struct loop loop;

/* ---- an answerer: what was asked for is the body ---- */
static struct task answer_task;
static struct exchange *answering;

static void
answer_run(struct task *t)
{
    (void)t;
    if (answering->done)
        answering->ops->release(answering);
}

static void
answer_start(struct exchange *x)
{
    const struct exchange_response r = {.status = 200, .length = EXCHANGE_LENGTH_UNKNOWN};
    struct slice path = http_path(&x->head);
    struct iovec body = {(char *)(uintptr_t)path.ptr, path.len};

    CHECK_EQ(77, x->conn->client_port);
    answering = x;
    x->task = &answer_task;
    task_init(&answer_task, &loop.tasks, answer_run);
    CHECK_EQ(path.len, x->ops->send(x, &r, &body, 1, EXCHANGE_END));
}

/* ---- the protocol ---- */
struct toy_conn {
    struct exchange x;
    struct conn_server *server;
    struct stream *stream;
    struct conn_facts facts;
    struct task task;
    char line[80];
    bool busy; /* an answer is under way */
};

static ssize_t
toy_send(struct exchange *x, const struct exchange_response *r, const struct iovec *body,
    unsigned n, unsigned flags)
{
    struct stream *out = container_of(x, struct toy_conn, x)->stream;
    struct iovec newline = {(char[]){'\n'}, 1};
    ssize_t sent = stream_try(out, body, n, STREAM_MORE);

    (void)r; /* this protocol has no heads */
    CHECK((flags & EXCHANGE_END) != 0 && stream_try(out, &newline, 1, false) == 1);
    x->sent = (uint64_t)sent;
    x->done = true;
    task_wake(x->task);
    return sent;
}

static void
toy_release(struct exchange *x)
{
    struct toy_conn *c = container_of(x, struct toy_conn, x);

    arena_fini(&x->arena);
    c->busy = false;
    task_wake(&c->task);
}

static const struct exchange_ops toy_exchange_ops = {.send = toy_send, .release = toy_release};

static void
toy_run(struct task *t)
{
    struct toy_conn *c = container_of(t, struct toy_conn, task);
    struct span rx = stream_received(c->stream);
    const char *end = rx.len > 0 ? memchr(rx.ptr, '\n', rx.len) : NULL;

    if (!c->busy && end != NULL) {
        size_t len = (size_t)(end - rx.ptr);

        CHECK(len < sizeof(c->line));
        memcpy(c->line, rx.ptr, len);
        stream_skip(c->stream, len + 1);
        c->busy = true;
        c->x = (struct exchange){.ops = &toy_exchange_ops, .conn = &c->facts};
        c->x.head = (struct http_message){
            .base = c->line, .path_len = (uint16_t)len, .version_major = 1, .version_minor = 1};
        arena_init(&c->x.arena, &loop.arenas);
        answer_start(&c->x);
    } else if (!c->busy && stream_ended(c->stream) != 0) {
        stream_close(&c->stream);
        c->server->ended(c->server->ended_ctx, &c->facts);
        free(c);
    }
}

static int
toy_adopt(struct conn_server *s, struct stream **stream, const struct conn_facts *facts)
{
    struct toy_conn *c = calloc(1, sizeof(*c));

    *c = (struct toy_conn){.server = s, .stream = *stream, .facts = *facts};
    *stream = NULL;
    task_init(&c->task, &loop.tasks, toy_run);
    stream_set_owner(c->stream, &c->task);
    return 0;
}

static void
toy_close(struct conn_server **s)
{
    *s = NULL;
}

TEST(toy_server, another_protocol_serves_what_incoming_hands_it)
{
    static const char said[] = "PROXY TCP4 192.0.2.7 192.0.2.1 77 80\r\nhello\nagain\n";
    static const struct conn_server_ops ops = {.adopt = toy_adopt, .close = toy_close};
    static const struct incoming_listener front = {.is_proxied = true};
    const int64_t header_ms = 1000;
    _Atomic int64_t conns = 0;
    struct incoming_env env = {.loop = &loop, .header_ms = &header_ms, .conns = &conns};
    struct conn_server toy = {.ops = &ops}, *server = &toy;
    struct counters *counters;
    struct incoming *in;

    fake_loop_open(&loop);
    CHECK_EQ(0, counters_open(&counters, NULL, 1));
    env.counters = counters_worker(counters, 0);
    CHECK_EQ(0, incoming_open(&in, &env));
    incoming_serve(in, &server);
    CHECK_EQ(0, incoming_accept(in, -1, false, &front));
    fake_arrive(fake_newest, said, sizeof(said) - 1);
    fake_end(fake_newest, TERR_CLOSED);
    fake_run(&loop);
    CHECK_STR("hello\nagain\n", fake_got(fake_newest));
    CHECK(fake_is_closed(fake_newest) && incoming_connections(in) == 0);
    incoming_close(&in);
    counters_close(&counters);
    fake_loop_close(&loop);
}

TEST_MAIN(TEST_ENTRY(toy_server, another_protocol_serves_what_incoming_hands_it))
