/* tls_layer_test.c -- a layer whose certificate is read when the test says so, without sockets and threads. */
#include "t/unit/cert_fixture.h"

#include <openssl/ssl.h>

#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/waiter.h"
#include "daemon/net/secure.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls.h"

/* A loop without a loop, a listener, and a client that has sent its hello. */
struct bench {
    struct loop loop;
    struct offload *offload;
    struct cert_store *store;
    struct tls_server *server;
    struct secure *layer;
    char hello[4096], out[SECURE_FLIGHT_MAX];
    size_t hello_len;
};

static struct bench b;

static void
bench_on_wake(struct inbox *inbox)
{
    (void)inbox;
}

static void
bench_say_hello(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in_bio = BIO_new(BIO_s_mem()), *out_bio = BIO_new(BIO_s_mem());

    SSL_set_bio(ssl, in_bio, out_bio);
    SSL_set_tlsext_host_name(ssl, "a.example");
    SSL_connect(ssl);
    b.hello_len = (size_t)BIO_read(out_bio, b.hello, sizeof(b.hello));
    CHECK(b.hello_len > 0 && b.hello_len < sizeof(b.hello));
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void
bench_open(void)
{
    struct cert_spec spec = {.directory = certs.path};
    struct cert_store_env env = {.now_s = NULL};
    struct tls_server_conf conf = {.loops = 1};
    struct cert_table *t = NULL;
    char why[256] = "";

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    memset(&b, 0, sizeof(b));
    task_queue_init(&b.loop.tasks);
    inbox_init(&b.loop.inbox, bench_on_wake);
    inbox_here = &b.loop.inbox;
    CHECK_EQ(0, offload_open(&b.offload, 0, 0));
    CHECK_EQ(0, cert_table_load(&t, &spec, NULL, &certs.report));
    env.offload = b.offload;
    CHECK_EQ(0, cert_store_open(&b.store, &t, &env));
    conf.certs = b.store;
    CHECK_EQ(0, tls_server_open(&b.server, &conf, why, sizeof(why)));
    CHECK_EQ(
        0, tls_server_secure(b.server)->accept(tls_server_secure(b.server), &b.loop, &b.layer));
    bench_say_hello();
}

static void
bench_close(void)
{
    tls_server_close(&b.server);
    cert_store_close(&b.store);
    offload_close(&b.offload);
    inbox_here = NULL;
    certs_close();
}

static int
bench_handshake(void)
{
    struct secure_io io = {
        .in = slice_of(b.hello, b.hello_len), .out = b.out, .out_max = sizeof(b.out)};

    return b.layer->ops->handshake(b.layer, &io);
}

TEST(wait, a_connection_that_ends_while_its_certificate_is_read)
{
    bench_open();
    CHECK_EQ(TERR_AGAIN, bench_handshake());
    b.layer->ops->free(&b.layer);
    CHECK(offload_run_one(b.offload));
    CHECK(task_queue_is_empty(&b.loop.tasks));
    bench_close();
}

/* The notification has landed, and the task that it wakes has not run: what is due must not be freed. */
TEST(wait, a_connection_that_ends_when_its_certificate_is_just_there)
{
    bench_open();
    CHECK_EQ(TERR_AGAIN, bench_handshake());
    CHECK(offload_run_one(b.offload));
    CHECK(!task_queue_is_empty(&b.loop.tasks));
    b.layer->ops->free(&b.layer);
    CHECK(task_queue_is_empty(&b.loop.tasks));
    bench_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(wait, a_connection_that_ends_while_its_certificate_is_read),
        TEST_ENTRY(wait, a_connection_that_ends_when_its_certificate_is_just_there),
    };

    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
