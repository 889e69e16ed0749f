/* tls_layer_test.c -- handshakes of which the test decides when the certificate is read, without sockets and
 * threads; connections without traffic, on a clock that the test moves; errors in the certificate that a backend is
 * shown. */
#include "t/unit/cert_fixture.h"

#include <openssl/ssl.h>

#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/waiter.h"
#include "daemon/net/secure.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls_priv.h"

/* A loop without a loop, a listener, and a client that has sent its hello. */
struct bench {
    struct loop loop;
    struct offload *offload;
    struct cert_store *store;
    struct tls_server *server;
    struct secure *layer;
    char hello[4096], out[SECURE_FLIGHT_MAX];
    size_t hello_len;
    struct task stream; /* stands for the layer's */
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
    char name[] = "a.example"; /* OpenSSL's macro would cast a const away */

    SSL_set_bio(ssl, in_bio, out_bio);
    SSL_set_tlsext_host_name(ssl, name);
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

/* ---- connections without traffic ---- */

static struct {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
} peer;

static void
bench_on_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    (void)w, (void)at_ms;
}

static void
bench_on_stream(struct task *t)
{
    (void)t;
}

/* What the peer has said goes to the layer, and the layer's answer to the peer. */
static struct secure_io
peer_hear(void)
{
    static char said[65536];
    int n = BIO_read(peer.out, said, sizeof(said));

    return (struct secure_io){
        .in = slice_of(said, n > 0 ? (size_t)n : 0), .out = b.out, .out_max = sizeof(b.out)};
}

static void
peer_tell(const struct secure_io *io)
{
    if (io->out_len > 0)
        CHECK_EQ(io->out_len, BIO_write(peer.in, io->out, (int)io->out_len));
}

static void
peer_open(int version, const char *cipher)
{
    struct secure_io io;
    int rc = TERR_AGAIN;

    bench_open();
    b.loop.clock.mono_ms = 1000;
    timer_wheel_init(&b.loop.wheel, 1000, bench_on_rearm);
    task_init(&b.stream, &b.loop.tasks, bench_on_stream);
    b.layer->task = &b.stream;
    peer.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(peer.ctx, version);
    SSL_CTX_set_max_proto_version(peer.ctx, version);
    CHECK_EQ(1, version == TLS1_3_VERSION ? SSL_CTX_set_ciphersuites(peer.ctx, cipher)
                                          : SSL_CTX_set_cipher_list(peer.ctx, cipher));
    peer.ssl = SSL_new(peer.ctx);
    peer.in = BIO_new(BIO_s_mem());
    peer.out = BIO_new(BIO_s_mem());
    SSL_set_bio(peer.ssl, peer.in, peer.out);
    SSL_set_connect_state(peer.ssl);
    while (rc == TERR_AGAIN) {
        SSL_do_handshake(peer.ssl);
        io = peer_hear();
        rc = b.layer->ops->handshake(b.layer, &io);
        if (offload_run_one(b.offload)) {
            task_queue_run(&b.loop.tasks, 10);
            rc = b.layer->ops->handshake(b.layer, &io);
        }
        peer_tell(&io);
    }
    CHECK_EQ(0, rc);
    CHECK_EQ(1, SSL_do_handshake(peer.ssl));
}

static void
peer_close(void)
{
    if (b.layer != NULL)
        b.layer->ops->free(&b.layer);
    SSL_free(peer.ssl);
    SSL_CTX_free(peer.ctx);
    CHECK(task_queue_is_empty(&b.loop.tasks));
    for (unsigned i = 0; i < TIMER_SLOTS; i++)
        CHECK(list_empty(&b.loop.wheel.slots[i]));
    bench_close();
}

static void
pass(unsigned seconds)
{
    for (unsigned i = 0; i < seconds * 1000 / TIMER_TICK_MS; i++) {
        b.loop.clock.mono_ms += TIMER_TICK_MS;
        timer_wheel_run(&b.loop.wheel, b.loop.clock.mono_ms);
        task_queue_run(&b.loop.tasks, 10);
    }
}

static bool
is_suspended(void)
{
    return container_of(b.layer, struct tls, secure)->ssl == NULL;
}

#ifdef OPENSSL_IS_AWSLC
static const bool suspends = true;
#else
static const bool suspends = false;
#endif

/* The peer says something, and the layer repeats it. */
static void
echo(const char *text)
{
    struct secure_io io;
    char got[256];
    ssize_t n;

    CHECK_EQ(strlen(text), SSL_write(peer.ssl, text, (int)strlen(text)));
    io = peer_hear();
    n = b.layer->ops->decrypt(b.layer, &io, (struct span){got, sizeof(got)});
    CHECK_EQ(strlen(text), n);
    CHECK_MEM(text, got, (size_t)n);
    CHECK_EQ(0, io.in.len);
    CHECK_EQ(0, b.layer->ops->encrypt(b.layer, &io, slice_of(got, (size_t)n)));
    CHECK(!is_suspended());
    peer_tell(&io);
    CHECK_EQ(n, SSL_read(peer.ssl, got, sizeof(got)));
    CHECK_MEM(text, got, (size_t)n);
}

static void
suspend_and_go_on(int version, const char *cipher)
{
    struct secure_io io;

    peer_open(version, cipher);
    echo("first");
    pass(3);
    CHECK_EQ(suspends, is_suspended());
    /* Nothing has come: it is not restored for that. */
    io = peer_hear();
    CHECK_EQ(0, b.layer->ops->decrypt(b.layer, &io, (struct span){b.out, sizeof(b.out)}));
    CHECK_EQ(suspends, is_suspended());
    echo("second");
    echo("third");
    pass(4);
    CHECK_EQ(suspends, is_suspended());
    if (version == TLS1_3_VERSION)
        CHECK_EQ(1, SSL_key_update(peer.ssl, SSL_KEY_UPDATE_REQUESTED));
    echo("behind new keys of both sides");
    pass(6);
    CHECK_EQ(suspends, is_suspended());
    io = peer_hear();
    b.layer->ops->shut(b.layer, &io);
    peer_tell(&io);
    CHECK_EQ(0, SSL_read(peer.ssl, b.out, 1));
    CHECK_EQ(SSL_ERROR_ZERO_RETURN, SSL_get_error(peer.ssl, 0));
    peer_close();
}

TEST(suspend, a_connection_goes_on_with_each_cipher_and_version)
{
    suspend_and_go_on(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    suspend_and_go_on(TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384");
    suspend_and_go_on(TLS1_3_VERSION, "TLS_CHACHA20_POLY1305_SHA256");
    suspend_and_go_on(TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256");
    suspend_and_go_on(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384");
    suspend_and_go_on(TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305");
}

TEST(suspend, one_that_ends_while_it_is_suspended_leaves_nothing)
{
    peer_open(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    pass(3);
    CHECK_EQ(suspends, is_suspended());
    peer_close();
}

TEST(suspend, a_record_that_has_come_in_part_is_waited_for)
{
    struct secure_io io;
    struct slice rest;
    char got[16];

    peer_open(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    CHECK_EQ(4, SSL_write(peer.ssl, "half", 4));
    io = peer_hear();
    rest = slice_of(io.in.ptr + 7, io.in.len - 7);
    io.in.len = 7;
    CHECK_EQ(0, b.layer->ops->decrypt(b.layer, &io, (struct span){got, sizeof(got)}));
    pass(60);
    CHECK(!is_suspended());
    io.in = rest;
    CHECK_EQ(4, b.layer->ops->decrypt(b.layer, &io, (struct span){got, sizeof(got)}));
    CHECK_MEM("half", got, 4);
    peer_close();
}

/* Each restoring doubles the silence that comes before the next: 1, 2, 4, 8 and 16 s, and a round at most. */
TEST(suspend, one_that_asks_again_and_again_is_soon_left_alone)
{
    unsigned restored = 0;

    peer_open(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    for (unsigned i = 0; i < 20; i++) {
        pass(12);
        restored += is_suspended();
        echo("every twelve seconds");
    }
    CHECK(restored <= 4);
    CHECK_EQ(suspends, restored > 0);
    peer_close();
}

/* The library's heap: the allocation that is counted down to fails. */
static unsigned fail_in; /* 0: none does */
static bool failed;

static void *
heap_realloc(void *p, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    if (fail_in > 0 && --fail_in == 0) {
        failed = true;
        return NULL;
    }
    return realloc(p, n);
}

static void *
heap_malloc(size_t n, const char *file, int line)
{
    return heap_realloc(NULL, n, file, line);
}

static void
heap_free(void *p, const char *file, int line)
{
    (void)file, (void)line;
    free(p);
}

/* It is suspended without the memory or goes on as it is; it is restored or ends. */
static bool
suspend_with_failure(unsigned nth)
{
    struct secure_io io;
    char got[16];
    ssize_t n;
    bool any;

    peer_open(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    echo("first");
    failed = false;
    fail_in = nth;
    pass(3);
    fail_in = 0;
    any = failed;
    pass(3);
    CHECK_EQ(suspends, is_suspended());
    CHECK_EQ(6, SSL_write(peer.ssl, "second", 6));
    io = peer_hear();
    failed = false;
    fail_in = nth;
    n = b.layer->ops->decrypt(b.layer, &io, (struct span){got, sizeof(got)});
    fail_in = 0;
    CHECK(n == 6 || (failed && n < 0));
    if (n == 6)
        echo("third");
    peer_close();
    return any || failed;
}

TEST(suspend, an_allocation_that_fails_ends_that_connection_at_most)
{
    unsigned nth = 1;

    while (suspend_with_failure(nth))
        nth++;
    CHECK(!suspends || nth > 10);
}

/* ---- a certificate of ours, for a backend ---- */

static char why_shown[512];

/* What tls_client_open() says of the file, without its path; "": it took it. */
static const char *
open_of(const char *name, const char *key)
{
    struct tls_client_conf conf = {.ca = "",
        .sni = "",
        .name = "",
        .certificate = in(name),
        .key = key != NULL ? in(key) : "",
        .loops = 1};
    struct secure_client *c = NULL;
    char why[512] = "";
    int err = tls_client_open(&c, &conf, why, sizeof(why));

    CHECK_EQ(err == 0 ? 0 : TERR_CONFIG, err);
    if (err == 0)
        tls_client_close(&c);
    snprintf(why_shown, sizeof(why_shown), "%s",
        strncmp(why, certs.path, strlen(certs.path)) == 0 ? why + strlen(certs.path) + 1 : why);
    return why_shown;
}

static struct span
read_text(const char *name)
{
    static char text[32768];
    FILE *f = fopen(in(name), "r");
    size_t n;

    CHECK(f != NULL);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    return (struct span){text, n};
}

TEST(client, a_certificate_that_is_whole)
{
    certs_open();
    put_pem("a.pem", "DNS:a.example");
    CHECK_STR("", open_of("a.pem", NULL));
    put_pair("b.crt", "b.key", "DNS:b.example");
    CHECK_STR("", open_of("b.crt", "b.key"));
    CHECK_STR("b.crt: no private key in PEM", open_of("b.crt", NULL));
    certs_close();
}

TEST(client, one_that_was_cut_short_is_no_shorter_chain)
{
    struct span text;

    certs_open();
    put_pair("b.crt", "b.key", "DNS:b.example");
    text = read_text("b.crt");
    text.ptr[text.len - 40] = '\0'; /* within the issuer, the second block */
    put_text("b.crt", text.ptr);
    CHECK(strstr(open_of("b.crt", "b.key"), "the block has no END line: the file was cut short") !=
          NULL);
    CHECK(strncmp(why_shown, "b.crt:1", 7) == 0);
    text.ptr[200] = '\0'; /* within the first */
    put_text("b.crt", text.ptr);
    CHECK_STR(
        "b.crt:1: the block has no END line: the file was cut short", open_of("b.crt", "b.key"));
    certs_close();
}

TEST(client, one_that_is_damaged_is_not_called_no_memory)
{
    certs_open();
    put_pair("b.crt", "b.key", "DNS:b.example");
    put_text("c.crt", "-----BEGIN CERTIFICATE-----\nMIIB!\n-----END CERTIFICATE-----\n");
    CHECK_STR("c.crt:2: a character here is none of base64", open_of("c.crt", "b.key"));
    put_text("c.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    CHECK(strstr(open_of("c.crt", "b.key"), "no memory") == NULL);
    CHECK(why_shown[0] != '\0');
    certs_close();
}

TEST(client, what_is_no_file_of_a_certificate)
{
    char *large = malloc((1u << 20) + 2);

    CHECK(large != NULL);
    memset(large, '\n', (1u << 20) + 1);
    large[(1u << 20) + 1] = '\0';
    certs_open();
    put_pair("b.crt", "b.key", "DNS:b.example");
    put_text("large.crt", large);
    free(large);
    CHECK(strstr(open_of("large.crt", "b.key"), "large.crt: is larger than 1 MiB") == why_shown);
    CHECK_EQ(0, mkfifo(in("fifo.crt"), 0600));
    CHECK_STR("fifo.crt: is not a regular file", open_of("fifo.crt", "b.key"));
    CHECK_STR("none.crt: No such file or directory", open_of("none.crt", "b.key"));
    certs_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(wait, a_connection_that_ends_while_its_certificate_is_read),
        TEST_ENTRY(wait, a_connection_that_ends_when_its_certificate_is_just_there),
        TEST_ENTRY(suspend, a_connection_goes_on_with_each_cipher_and_version),
        TEST_ENTRY(suspend, one_that_ends_while_it_is_suspended_leaves_nothing),
        TEST_ENTRY(suspend, a_record_that_has_come_in_part_is_waited_for),
        TEST_ENTRY(suspend, one_that_asks_again_and_again_is_soon_left_alone),
        TEST_ENTRY(suspend, an_allocation_that_fails_ends_that_connection_at_most),
        TEST_ENTRY(client, a_certificate_that_is_whole),
        TEST_ENTRY(client, one_that_was_cut_short_is_no_shorter_chain),
        TEST_ENTRY(client, one_that_is_damaged_is_not_called_no_memory),
        TEST_ENTRY(client, what_is_no_file_of_a_certificate),
    };

    CHECK_EQ(1, CRYPTO_set_mem_functions(heap_malloc, heap_realloc, heap_free));
    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
