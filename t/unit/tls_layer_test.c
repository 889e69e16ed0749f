/* tls_layer_test.c -- handshakes of which the test decides when the certificate is read, without sockets and
 * threads; errors in the certificate that a backend is shown. */
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
        TEST_ENTRY(client, a_certificate_that_is_whole),
        TEST_ENTRY(client, one_that_was_cut_short_is_no_shorter_chain),
        TEST_ENTRY(client, one_that_is_damaged_is_not_called_no_memory),
        TEST_ENTRY(client, what_is_no_file_of_a_certificate),
    };

    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
