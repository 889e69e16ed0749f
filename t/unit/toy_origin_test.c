/* toy_origin_test.c -- a protocol toward origins is an origin_protocol and origin_exchange_ops, and
 * nothing else.  This one needs no socket: it answers a request with what it was sent. */
#include "daemon/proxy/req_priv.h"
#include "daemon/shm/log_read.h"
#include "t/unit/worker_fixture.h"

static struct {
    struct origin_exchange x;
    char said[256]; /* "POST/pathbody": the response's body */
    char via[64];   /* of the last request */
    size_t len, at;
    bool answered;
} toy;

static void
toy_note(struct slice bytes)
{
    CHECK(toy.len + bytes.len <= sizeof(toy.said));
    memcpy(toy.said + toy.len, bytes.ptr, bytes.len);
    toy.len += bytes.len;
}

static void
toy_begin(struct origin_exchange *x, const struct origin_request *r)
{
    toy.len = toy.at = 0;
    toy.answered = x->heard = x->body_done = false;
    toy_note(http_slice(r->head, r->head->method_off, r->head->method_len + r->head->path_len));
    snprintf(toy.via, sizeof(toy.via), "%.*s", (int)http_get_one(r->head, HTTP_F_VIA).len,
        http_get_one(r->head, HTTP_F_VIA).ptr);
}

static int
toy_send(struct origin_exchange *x, const struct iovec *body, unsigned n, unsigned flags)
{
    for (unsigned i = 0; i < n; i++)
        toy_note(slice_of(body[i].iov_base, body[i].iov_len));
    toy.answered = x->heard = (flags & ORIGIN_END) != 0;
    task_wake(x->task);
    return 0;
}

static bool
toy_sending(struct origin_exchange *x)
{
    return x != &toy.x;
}

static int
toy_interim(struct origin_exchange *x, const struct http_message **out)
{
    (void)x, (void)out;
    return TERR_AGAIN;
}

static int
toy_head(struct origin_exchange *x, const struct http_message **out)
{
    static const struct http_message head = {.base = "Fine",
        .len = 4,
        .version_major = 1,
        .version_minor = 1,
        .status = 200,
        .reason_len = 4};

    x->body_length = x->content_length = toy.len;
    *out = &head;
    return toy.answered ? 0 : TERR_AGAIN;
}

static ssize_t
toy_body(struct origin_exchange *x, struct span room)
{
    size_t n = room.len < toy.len - toy.at ? room.len : toy.len - toy.at;

    memcpy(room.ptr, toy.said + toy.at, n);
    toy.at += n;
    x->body_done = toy.at == toy.len;
    return (ssize_t)n;
}

static bool
toy_is_ready(struct origin_exchange *x)
{
    return x->body_done;
}

static void
toy_rest(struct origin_exchange *x)
{
    x->reused = true;
}

static void
toy_close(struct origin_exchange **xp)
{
    *xp = NULL;
}

static int
toy_open(struct origin_exchange **out, struct loop *l, const struct origin_protocol *p,
    const struct origin_target *target)
{
    static const struct origin_exchange_ops ops = {toy_begin, toy_send, toy_sending, toy_interim,
        toy_head, toy_body, NULL, NULL, toy_is_ready, toy_is_ready, toy_rest, toy_close};

    (void)l, (void)p, (void)target;
    toy.x = (struct origin_exchange){.ops = &ops}; /* connected is 0: it is up */
    *out = &toy.x;
    return 0;
}

static struct world w;
static int fds[2];

static void
client_asks(const char *request, const char *want)
{
    char got[4096] = "";

    CHECK(origin_write(fds[1], request, strlen(request)));
    for (size_t len = 0; strstr(got, want) == NULL && len + 1 < sizeof(got); len++)
        CHECK_EQ(1, recv(fds[1], got + len, 1, 0));
    CHECK(strncmp(got, "HTTP/1.1 200 Fine\r\n", 19) == 0);
}

static void *
client_main(void *arg)
{
    client_asks("GET /one HTTP/1.1\r\nHost: h\r\n\r\n", "\r\n\r\nGET/one");
    client_asks("POST /two HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        "\r\n\r\nPOST/twohello world");
    world_stop(&w);
    return arg;
}

TEST(toy_origin, a_fetch_asks_an_origin_by_any_protocol)
{
    static const struct origin_protocol protocol = {.open = toy_open};
    pthread_t client;

    alarm(WORLD_WAIT_S);
    world_open(&w, req_start, "");
    origins_close(&w.proxy.origins);
    CHECK_EQ(0, origins_open(&w.proxy.origins, w.proxy.loop, protocol, w.proxy.counters));
    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    CHECK_EQ(0, world_accept(&w, fds[0]));
    CHECK_EQ(0, pthread_create(&client, NULL, client_main, NULL));
    world_run(&w);
    pthread_join(client, NULL);
    CHECK_EQ(1, counters_sum(w.counters, COUNTER_backend_conn_new));
    CHECK_EQ(1, counters_sum(w.counters, COUNTER_backend_conn_reused));
    close(fds[1]);
    world_close(&w);
}

/* ---- a request that came by HTTP/2, as far as what answers can see ---- */

static void
start_as_http2(void *ctx, struct exchange *x)
{
    x->head.version_major = 2;
    x->head.version_minor = 0;
    req_start(ctx, x);
}

static void *
one_request(void *arg)
{
    client_asks("GET /one HTTP/1.1\r\nHost: h\r\n\r\n", "\r\n\r\nGET/one");
    world_stop(&w);
    return arg;
}

static void
check_logged(struct shmlog_reader *reader, const char *protocol, uint8_t version)
{
    unsigned nreqs = 0, nprotocols = 0;
    struct shmlog_view view;
    struct shmlog_rec rec;
    struct shmlog_req req;

    while (shmlog_next(reader, &view) == 1)
        while (shmlog_record_next(&view, &rec)) {
            if (rec.tag == SHMLOG_ReqProtocol) {
                CHECK_EQ(strlen(protocol), rec.payload.len);
                CHECK_MEM(protocol, rec.payload.ptr, rec.payload.len);
                nprotocols++;
            } else if (view.kind == SHMLOG_KIND_REQ && shmlog_rec_req(&rec, &view, &req)) {
                CHECK_EQ(version, req.fixed.version);
                CHECK_STR(protocol, shmlog_version_text(req.fixed.version));
                nreqs++;
            }
        }
    CHECK_EQ(1, nreqs);
    CHECK_EQ(1, nprotocols);
}

TEST(toy_origin, the_version_of_a_request_is_in_via_and_in_the_log)
{
    static const struct origin_protocol protocol = {.open = toy_open};
    static const struct {
        exchange_start_f *start;
        const char *via, *protocol;
        uint8_t version;
    } all[] = {
        {req_start, "1.1 ", "HTTP/1.1", SHMLOG_HTTP_1_1},
        {start_as_http2, "2.0 ", "HTTP/2.0", SHMLOG_HTTP_2_0},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct shmlog_reader *reader;
        pthread_t client;

        alarm(WORLD_WAIT_S);
        world_open(&w, all[i].start, "http_via: t");
        origins_close(&w.proxy.origins);
        CHECK_EQ(0, origins_open(&w.proxy.origins, w.proxy.loop, protocol, w.proxy.counters));
        CHECK_EQ(0, shmlog_reader_open_here(&reader, w.log, SHMLOG_FROM_OLDEST));
        CHECK_EQ(0, shmlog_attach(reader));
        CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
        CHECK_EQ(0, world_accept(&w, fds[0]));
        CHECK_EQ(0, pthread_create(&client, NULL, one_request, NULL));
        world_run(&w);
        pthread_join(client, NULL);
        CHECK(strncmp(toy.via, all[i].via, 4) == 0);
        check_logged(reader, all[i].protocol, all[i].version);
        shmlog_reader_close(&reader);
        close(fds[1]);
        world_close(&w);
    }
}

TEST_MAIN(TEST_ENTRY(toy_origin, a_fetch_asks_an_origin_by_any_protocol),
    TEST_ENTRY(toy_origin, the_version_of_a_request_is_in_via_and_in_the_log))
