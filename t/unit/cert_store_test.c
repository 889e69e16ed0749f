/* cert_store_test.c -- which certificates a handshake gets: parsed when the test says so, forgotten, swapped in
 * use, kept when a file turns bad; and handshakes that show what a client sees. */
#include "t/unit/cert_fixture.h"

#include <sys/wait.h>

#include <openssl/ocsp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/waiter.h"
#include "daemon/log/elog.h"
#include "daemon/tls/cert_store.h"

/* A loop and an offload without threads, and a store over the directory. */
struct bench {
    struct task_queue queue;
    struct inbox inbox;
    struct offload *offload;
    struct cert_store *store;
    int64_t now_s;
};

struct handshake {
    struct waiter waiter;
    struct task task;
    unsigned woken;
    struct cert_pick pick;
};

static struct bench b;

static void
bench_on_wake(struct inbox *inbox)
{
    (void)inbox;
}

static int64_t
bench_now(void *ctx)
{
    return ((struct bench *)ctx)->now_s;
}

static void
bench_open_all(unsigned parsed_max, struct cert_store_env env)
{
    struct cert_spec spec = {
        .directory = certs.path, .challenge_directory = in("challenges"), .parsed_max = parsed_max};
    struct cert_table *t = NULL;

    b = (struct bench){.now_s = time(NULL)};
    task_queue_init(&b.queue);
    inbox_init(&b.inbox, bench_on_wake);
    inbox_here = &b.inbox;
    CHECK_EQ(0, offload_open(&b.offload, 0, 0));
    CHECK_EQ(0, cert_table_load(&t, &spec, NULL, &certs.report));
    env.offload = b.offload;
    CHECK_EQ(0, cert_store_open(&b.store, &t, &env));
    CHECK(t == NULL);
}

static void
bench_open(unsigned parsed_max)
{
    bench_open_all(parsed_max, (struct cert_store_env){.now_s = bench_now, .now_ctx = &b});
}

static void
bench_close(void)
{
    while (offload_run_one(b.offload))
        ;
    cert_store_close(&b.store);
    offload_close(&b.offload);
    inbox_here = NULL;
    certs_close();
}

/* How many parses there were. */
static unsigned
parse(void)
{
    unsigned n = 0;

    while (offload_run_one(b.offload))
        n++;
    task_queue_run(&b.queue, 100);
    return n;
}

static void
reload(unsigned parsed_max)
{
    struct cert_spec spec = {
        .directory = certs.path, .challenge_directory = in("challenges"), .parsed_max = parsed_max};
    struct cert_table *before = cert_store_table(b.store), *t = NULL;

    cert_report_free(&certs.report);
    CHECK_EQ(0, cert_table_load(&t, &spec, before, &certs.report));
    cert_store_swap(b.store, &t);
    cert_table_unref(&before);
}

static void
on_woken(struct task *t)
{
    container_of(t, struct handshake, task)->woken++;
}

static void
shake_init(struct handshake *h)
{
    *h = (struct handshake){.woken = 0};
    task_init(&h->task, &b.queue, on_woken);
    waiter_init(&h->waiter, &h->task, &b.inbox);
}

static int
ask(struct handshake *h, const char *sni)
{
    return cert_store_pick(b.store, slice_str(sni), false, &h->waiter, &h->pick);
}

static bool
is_leaf_of(struct cert_keys *keys, const char *file)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl = SSL_new(ctx);
    struct cert_pick one = {.ecdsa = keys};
    FILE *f = fopen(in(file), "r");
    X509 *want = PEM_read_X509(f, NULL, NULL, NULL);
    bool same;

    CHECK(f != NULL && want != NULL);
    fclose(f);
    CHECK_EQ(0, cert_pick_use(&one, ssl));
    same = X509_cmp(want, SSL_get_certificate(ssl)) == 0;
    X509_free(want);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return same;
}

/* Picks with whatever parse it takes: the return, and the pick dropped. */
static int
pick_now(const char *sni)
{
    struct handshake h;
    int rc;

    shake_init(&h);
    rc = ask(&h, sni);
    if (rc == TERR_AGAIN) {
        CHECK_EQ(WAITER_ARMED, waiter_state(&h.waiter));
        CHECK(parse() > 0);
        CHECK_EQ(1, h.woken);
        CHECK_EQ(WAITER_IDLE, waiter_state(&h.waiter));
        rc = ask(&h, sni);
    }
    CHECK_EQ(WAITER_IDLE, waiter_state(&h.waiter));
    if (rc == 0)
        cert_pick_drop(&h.pick);
    CHECK(h.pick.ecdsa == NULL && h.pick.rsa == NULL);
    return rc;
}

static struct cert_store_stats
stats(void)
{
    struct cert_store_stats s;

    cert_store_stats(b.store, &s);
    return s;
}

static struct cert_info found;
static const char *wanted_file;

static void
on_info(void *ctx, const struct cert_info *info)
{
    (void)ctx;
    if (strcmp(info->file, in(wanted_file)) == 0)
        found = *info;
}

static const struct cert_info *
info(const char *file)
{
    found = (struct cert_info){.file = NULL};
    wanted_file = file;
    cert_store_each(b.store, on_info, NULL);
    CHECK(found.file != NULL);
    return &found;
}

TEST(cert_store, a_certificate_is_parsed_once_when_handshakes_need_it)
{
    struct handshake h[3];

    certs_open();
    put_pem("a.pem", "DNS:a.example,DNS:b.example");
    put_pem("c.pem", "DNS:c.example");
    bench_open(0);
    CHECK_EQ(0, stats().parsed);
    for (unsigned i = 0; i < 3; i++) {
        shake_init(&h[i]);
        CHECK_EQ(TERR_AGAIN, ask(&h[i], i == 1 ? "B.Example." : "a.example"));
        CHECK(h[i].pick.ecdsa == NULL && h[i].pick.rsa == NULL);
    }
    CHECK_EQ(1, parse());
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(1, h[i].woken);
        CHECK_EQ(0, ask(&h[i], "a.example"));
        CHECK(h[i].pick.ecdsa != NULL && h[i].pick.rsa == NULL);
        CHECK(h[i].pick.ecdsa == h[0].pick.ecdsa);
    }
    CHECK(is_leaf_of(h[0].pick.ecdsa, "a.pem"));
    for (unsigned i = 0; i < 3; i++)
        cert_pick_drop(&h[i].pick);
    CHECK_EQ(1, stats().parsed);
    CHECK_EQ(1, stats().parses);
    CHECK_EQ(3, stats().waits);
    CHECK_EQ(2, stats().certificates);
    CHECK_EQ(3, stats().names);
    CHECK(info("a.pem")->is_parsed && !info("c.pem")->is_parsed);
    CHECK(info("a.pem")->is_default && !info("c.pem")->is_default);
    CHECK_STR("An authority", info("a.pem")->issuer);
    bench_close();
}

TEST(cert_store, without_a_name_or_with_an_unknown_one_the_default_answers)
{
    struct handshake h;
    static const char *const names[] = {"", "x.example", "a..b", "-", "1.2.3.4"};

    certs_open();
    put_pem("default.pem", "DNS:d.example");
    put_pem("a.pem", "DNS:a.example");
    bench_open(0);
    CHECK_EQ(0, pick_now("d.example"));
    shake_init(&h);
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_EQ(0, ask(&h, names[i]));
        CHECK(is_leaf_of(h.pick.ecdsa, "default.pem"));
        cert_pick_drop(&h.pick);
    }
    CHECK_EQ(1, stats().parses);
    bench_close();
}

TEST(cert_store, those_that_were_used_last_stay_parsed)
{
    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    put_pem("c.pem", "DNS:c.example");
    bench_open(2);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(0, pick_now("b.example"));
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(0, pick_now("c.example")); /* in b's place */
    CHECK_EQ(2, stats().parsed);
    CHECK_EQ(1, stats().evictions);
    CHECK(info("a.pem")->is_parsed && !info("b.pem")->is_parsed && info("c.pem")->is_parsed);
    CHECK_EQ(3, stats().parses);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(3, stats().parses);
    CHECK_EQ(0, pick_now("b.example"));
    CHECK_EQ(4, stats().parses);
    reload(1); /* fewer from now on */
    CHECK_EQ(1, stats().parsed);
    CHECK(info("b.pem")->is_parsed);
    bench_close();
}

TEST(cert_store, what_is_in_use_stays_whatever_is_forgotten_or_reloaded)
{
    struct handshake h, other;
    X509 *cert;

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    bench_open(1);
    CHECK_EQ(0, pick_now("a.example"));
    shake_init(&h);
    CHECK_EQ(0, ask(&h, "a.example"));
    cert = leaf("DNS:a.example", certs.ec2, 90);
    make_file(in("old-a"), (X509 *[]){NULL}, certs.ec, 0600); /* not a certificate: left alone */
    CHECK_EQ(0, rename(in("a.pem"), in("old-a")));
    make_file(in("a.pem"), (X509 *[]){cert, certs.ca, NULL}, certs.ec2, 0600);
    X509_free(cert);
    reload(1);
    CHECK_EQ(0, pick_now("b.example"));
    CHECK(is_leaf_of(h.pick.ecdsa, "old-a")); /* forgotten and reloaded, and still of use */
    shake_init(&other);
    CHECK_EQ(TERR_AGAIN, ask(&other, "a.example"));
    parse();
    CHECK_EQ(0, ask(&other, "a.example"));
    CHECK(is_leaf_of(other.pick.ecdsa, "a.pem"));
    cert_pick_drop(&other.pick);
    cert_pick_drop(&h.pick);
    bench_close();
}

TEST(cert_store, a_reload_keeps_what_is_parsed_of_unchanged_files)
{
    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    bench_open(0);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(0, pick_now("b.example"));
    put_pem("b.pem", "DNS:b.example");
    reload(0);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(2, stats().parses);
    CHECK_EQ(0, pick_now("b.example")); /* its handshakes wait for the new one */
    CHECK_EQ(3, stats().parses);
    CHECK_EQ(0, unlink(in("b.pem")));
    reload(0);
    CHECK_EQ(1, stats().parsed);
    CHECK_EQ(0, pick_now("b.example")); /* by the default */
    CHECK_EQ(3, stats().parses);
    bench_close();
}

/* The key was not written yet, say. */
TEST(cert_store, a_file_that_turns_bad_when_it_is_parsed_leaves_the_one_before_in_service)
{
    struct handshake h;

    certs_open();
    put_pair("a.crt", "a.key", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    put_pem("c.pem", "DNS:c.example");
    bench_open(1);
    CHECK_EQ(0, pick_now("a.example"));
    make_file(in("a.key"), (X509 *[]){NULL}, certs.ec2, 0640);
    reload(1);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(1, stats().failures);
    CHECK(info("a.crt")->is_kept && info("a.crt")->is_parsed);
    CHECK(strstr(info("a.crt")->error, "a.key:1: is the key of another certificate") != NULL);
    CHECK_EQ(0, pick_now("b.example"));
    CHECK_EQ(0, pick_now("c.example"));
    shake_init(&h);
    CHECK_EQ(0, ask(&h, "a.example")); /* not forgotten: it could not be had again */
    CHECK(is_leaf_of(h.pick.ecdsa, "a.crt"));
    cert_pick_drop(&h.pick);
    make_file(in("a.key"), (X509 *[]){NULL}, certs.ec, 0640);
    reload(1);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK(!info("a.crt")->is_kept);
    CHECK_STR("", info("a.crt")->error);
    CHECK_EQ(1, stats().parsed);
    bench_close();
}

TEST(cert_store, a_file_that_is_bad_when_it_is_loaded_leaves_the_one_before_in_service)
{
    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    put_pem("c.pem", "DNS:c.example");
    bench_open(1);
    CHECK_EQ(0, pick_now("a.example"));
    put_text("a.pem", "-----BEGIN CERTIFICATE-----\n");
    for (unsigned i = 0; i < 2; i++) { /* again and again */
        reload(1);
        CHECK_EQ(1, certs.report.nerrors);
        CHECK_EQ(0, pick_now("b.example"));
        CHECK_EQ(0, pick_now("c.example"));
        CHECK_EQ(0, pick_now("a.example"));
        CHECK(info("a.pem")->is_kept);
    }
    put_pem("a.pem", "DNS:a.example");
    reload(1);
    CHECK(!info("a.pem")->is_kept);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(1, stats().parsed);
    bench_close();
}

TEST(cert_store, a_bad_file_is_an_error_and_is_read_again_after_a_while)
{
    struct handshake h;

    certs_open();
    put_pair("a.crt", "a.key", "DNS:a.example");
    make_file(in("a.key"), (X509 *[]){NULL}, certs.ec2, 0640);
    put_pem("b.pem", "DNS:b.example");
    bench_open(0);
    CHECK_EQ(TERR_CONFIG, pick_now("a.example"));
    CHECK_EQ(TERR_CONFIG, pick_now("a.example")); /* at once, and without reading it */
    CHECK_EQ(1, stats().parses);
    CHECK_EQ(1, stats().failures);
    CHECK_EQ(0, pick_now("b.example")); /* others are no worse for it */
    b.now_s += 10;
    CHECK_EQ(TERR_CONFIG, pick_now("a.example"));
    CHECK_EQ(3, stats().parses);
    make_file(in("a.key"), (X509 *[]){NULL}, certs.ec, 0640);
    b.now_s += 10;
    shake_init(&h);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_STR("", info("a.crt")->error);
    bench_close();
}

TEST(cert_store, a_file_that_has_other_names_than_it_was_loaded_with_is_not_served)
{
    certs_open();
    put_pem("a.pem", "DNS:a.example");
    bench_open(0);
    put_pem("a.pem", "DNS:evil.example");
    CHECK_EQ(TERR_CONFIG, pick_now("a.example"));
    CHECK(strstr(info("a.pem")->error, "tarnctl tls reload") != NULL);
    put_pem("a.pem", "DNS:a.example"); /* renewed, and not reloaded yet */
    b.now_s += 10;
    CHECK_EQ(0, pick_now("a.example"));
    bench_close();
}

TEST(cert_store, a_handshake_that_ends_while_it_waits_is_forgotten)
{
    struct handshake h, late;

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    bench_open(0);
    shake_init(&h);
    shake_init(&late);
    CHECK(cert_pick_cancel(b.store, &h.waiter)); /* nothing to cancel */
    CHECK_EQ(TERR_AGAIN, ask(&h, "a.example"));
    CHECK_EQ(TERR_AGAIN, ask(&late, "a.example"));
    CHECK(cert_pick_cancel(b.store, &h.waiter));
    CHECK_EQ(WAITER_IDLE, waiter_state(&h.waiter));
    inbox_here = NULL; /* the notification travels, as from another thread */
    CHECK(offload_run_one(b.offload));
    CHECK(!cert_pick_cancel(b.store, &late.waiter));
    inbox_here = &b.inbox;
    CHECK_EQ(1, inbox_drain(&b.inbox));
    task_queue_run(&b.queue, 10);
    CHECK_EQ(0, h.woken);
    CHECK_EQ(1, late.woken);
    CHECK_EQ(1, stats().parsed);
    bench_close();
}

static void
idle_run(struct job *j)
{
    (void)j;
}

TEST(cert_store, an_offload_that_is_full_is_a_limit_and_what_is_parsed_is_served)
{
    static struct job jobs[OFFLOAD_QUEUE_MAX];

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("b.pem", "DNS:b.example");
    put_pem("c.pem", "DNS:c.example");
    bench_open(0);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(0, pick_now("c.example"));
    put_pem("c.pem", "DNS:c.example");
    reload(0);
    for (unsigned i = 0; i < OFFLOAD_QUEUE_MAX; i++) {
        job_init(&jobs[i], idle_run, NULL);
        CHECK_EQ(0, offload_submit(b.offload, &jobs[i]));
    }
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(TERR_LIMIT, pick_now("b.example"));
    CHECK_EQ(0, pick_now("c.example")); /* as its file was before */
    CHECK_EQ(OFFLOAD_QUEUE_MAX, parse());
    CHECK_EQ(0, pick_now("b.example"));
    bench_close();
}

static void
put_challenge(const char *file, const char *san, unsigned is_acme)
{
    X509 *cert = make_cert(&(struct cert_wish){.san = san, .key = certs.ec, .is_acme = is_acme});

    make_file(in(file), (X509 *[]){cert, NULL}, certs.ec, 0600);
    X509_free(cert);
}

static int
ask_challenge(struct handshake *h, const char *sni)
{
    int rc;

    shake_init(h);
    rc = cert_store_pick(b.store, slice_str(sni), true, &h->waiter, &h->pick);
    if (rc == TERR_AGAIN) {
        CHECK_EQ(1, parse());
        CHECK_EQ(1, h->woken);
        rc = cert_store_pick(b.store, slice_str(sni), true, &h->waiter, &h->pick);
    }
    return rc;
}

TEST(cert_store, a_challenge_of_tls_alpn_01_is_read_when_it_is_asked_for)
{
    struct handshake h;

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    CHECK_EQ(0, mkdir(in("challenges"), 0700));
    put_pem("secret.pem", "DNS:secret.example");
    bench_open(0);
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "a.example"));
    put_challenge("challenges/a.example.pem", "DNS:a.example", 1);
    CHECK_EQ(0, ask_challenge(&h, "a.example")); /* though it was looked for a moment ago */
    CHECK(is_leaf_of(h.pick.ecdsa, "challenges/a.example.pem"));
    cert_pick_drop(&h.pick);
    b.now_s += 10;
    CHECK_EQ(0, ask_challenge(&h, "A.example"));
    CHECK(is_leaf_of(h.pick.ecdsa, "challenges/a.example.pem"));
    cert_pick_drop(&h.pick);
    put_challenge("challenges/a.example.pem", "DNS:a.example", 1); /* of the next order */
    b.now_s += 10;
    CHECK_EQ(0, ask_challenge(&h, "a.example"));
    CHECK(is_leaf_of(h.pick.ecdsa, "challenges/a.example.pem"));
    cert_pick_drop(&h.pick);
    put_challenge("challenges/no.example.pem", "DNS:no.example", 0);
    CHECK_EQ(TERR_CONFIG, ask_challenge(&h, "no.example"));
    put_challenge("challenges/x.example.pem", "DNS:y.example", 1);
    CHECK_EQ(TERR_CONFIG, ask_challenge(&h, "x.example"));
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, ""));
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "*.example"));
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "../secret"));
    CHECK_EQ(0, stats().parsed);         /* none of them is one of the table's */
    for (unsigned i = 0; i < 200; i++) { /* a stranger asks for anything */
        char name[32];

        snprintf(name, sizeof(name), "n%u.example", i);
        CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, name));
    }
    reload(0);
    CHECK_EQ(0, ask_challenge(&h, "a.example"));
    cert_pick_drop(&h.pick);
    bench_close();
}

/* What another node has given us: the file elsewhere. */
static size_t
given_challenge(void *ctx, struct slice name, char out[CERT_CHALLENGE_TEXT])
{
    FILE *f = slice_eq(name, SLICE_LIT("b.example")) ? fopen(ctx, "r") : NULL;
    size_t n = f != NULL ? fread(out, 1, CERT_CHALLENGE_TEXT, f) : 0;

    if (f != NULL)
        fclose(f);
    return n;
}

TEST(cert_store, a_challenge_that_another_node_has_given_is_shown_where_no_file_is)
{
    struct handshake h;
    char given[4200];

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    CHECK_EQ(0, mkdir(in("challenges"), 0700));
    CHECK_EQ(0, mkdir(in("given"), 0700));
    snprintf(given, sizeof(given), "%s", in("given/b.example.pem"));
    bench_open_all(0, (struct cert_store_env){.now_s = bench_now,
                          .now_ctx = &b,
                          .challenge = given_challenge,
                          .challenge_ctx = given});
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "b.example"));
    put_challenge("given/b.example.pem", "DNS:b.example", 1);
    CHECK_EQ(0, ask_challenge(&h, "b.example")); /* though it was looked for a moment ago */
    CHECK(is_leaf_of(h.pick.ecdsa, "given/b.example.pem"));
    cert_pick_drop(&h.pick);
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "c.example"));
    put_challenge("challenges/b.example.pem", "DNS:b.example", 1);
    b.now_s += 10;
    CHECK_EQ(0, ask_challenge(&h, "b.example")); /* this node's own goes before */
    CHECK(is_leaf_of(h.pick.ecdsa, "challenges/b.example.pem"));
    cert_pick_drop(&h.pick);
    CHECK_EQ(0, unlink(in("challenges/b.example.pem")));
    put_pem("given/b.example.pem", "DNS:b.example"); /* of no challenge */
    b.now_s += 10;
    CHECK_EQ(TERR_CONFIG, ask_challenge(&h, "b.example"));
    CHECK_EQ(0, unlink(given));
    b.now_s += 10;
    CHECK_EQ(TERR_NOTFOUND, ask_challenge(&h, "b.example"));
    bench_close();
}

/* ---- memory ---- */

/* How often the heap has the bytes, which are given with each bit turned: else the needle itself is found. */
static unsigned
heap_has(const unsigned char *turned, size_t len)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from = 0, to = 0;
    char line[256];
    unsigned n = 0;

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "[heap]") != NULL)
            CHECK_EQ(2, sscanf(line, "%lx-%lx", &from, &to));
    }
    fclose(maps);
    for (const unsigned char *at = (const unsigned char *)from; (unsigned long)at + len <= to;
         at++) {
        size_t i = 0;

        while (i < len && at[i] + turned[i] == 0xff)
            i++;
        n += i == len;
    }
    return n;
}

TEST(cert_store, the_text_of_a_key_does_not_stay_in_memory)
{
    unsigned char turned[40], file[4096];
    char *control;
    FILE *f;
    size_t at;
    pid_t child;
    int status;

    certs_open();
    child = fork();
    if (child == 0) { /* its memory is not ours: the key was never here */
        EVP_PKEY_free(certs.ec);
        certs.ec = make_ec("P-256");
        put_pair("a.crt", "a.key", "DNS:a.example");
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    f = fopen(in("a.key"), "r");
    CHECK(f != NULL);
    setvbuf(f, NULL, _IONBF, 0); /* its buffer would be on the heap */
    CHECK(fread(file, 1, sizeof(file), f) > 100);
    fclose(f);
    at = strlen("-----BEGIN PRIVATE KEY-----\n") + 50; /* behind what all keys have */
    for (unsigned i = 0; i < sizeof(turned); i++)
        turned[i] = file[at + i] ^ 0xff;
    explicit_bzero(file, sizeof(file));
    control = malloc(sizeof(turned));
    CHECK(control != NULL);
    for (unsigned i = 0; i < sizeof(turned); i++)
        control[i] = (char)(turned[i] ^ 0xff);
    at = heap_has(turned, sizeof(turned));
    explicit_bzero(control, sizeof(turned));
    free(control);
    if (at == 0) {
        certs_close();
        skip(); /* a sanitizer's heap lies elsewhere */
    }
    CHECK_EQ(0, heap_has(turned, sizeof(turned)));
    bench_open(0);
    CHECK_EQ(0, pick_now("a.example"));
    CHECK_EQ(0, heap_has(turned, sizeof(turned)));
    bench_close();
}

/* ---- handshakes ---- */

struct seen {
    X509 *leaf;
    int chain, kind; /* certificates in all; EVP_PKEY_EC or EVP_PKEY_RSA */
    bool chain_is_right, has_staple;
};

static SSL *
client_new(SSL_CTX *ctx, const char *sigalgs, int version)
{
    char list[128];
    SSL *client = SSL_new(ctx);

    CHECK(client != NULL);
    SSL_set_tlsext_status_type(client, TLSEXT_STATUSTYPE_ocsp);
    CHECK_EQ(1, SSL_set_min_proto_version(client, version));
    CHECK_EQ(1, SSL_set_max_proto_version(client, version));
    snprintf(list, sizeof(list), "%s", sigalgs); /* the macro casts const away */
    CHECK_EQ(1, SSL_set1_sigalgs_list(client, list));
    return client;
}

static int
shake_on_cert(SSL *server, void *pick)
{
    return cert_pick_use(pick, server) == 0;
}

/* A client that takes these signatures, against a server that uses the pick. */
static struct seen
shake(const struct cert_pick *pick, const char *sigalgs, int version)
{
    SSL_CTX *server_ctx = SSL_CTX_new(TLS_server_method()),
            *client_ctx = SSL_CTX_new(TLS_client_method());
    SSL *server = SSL_new(server_ctx), *client = client_new(client_ctx, sigalgs, version);
    BIO *bio_server, *bio_client;
    struct seen seen = {.leaf = NULL, .chain_is_right = true};
    const unsigned char *staple;
    STACK_OF(X509) * chain;

    SSL_CTX_set_tlsext_status_cb(server_ctx, cert_on_status);
    CHECK_EQ(1, BIO_new_bio_pair(&bio_server, 32768, &bio_client, 32768));
    SSL_set_bio(server, bio_server, bio_server);
    SSL_set_bio(client, bio_client, bio_client);
    SSL_set_cert_cb(server, shake_on_cert, (struct cert_pick *)(uintptr_t)pick);
    for (unsigned i = 0; i < 10; i++) {
        (void)SSL_connect(client);
        (void)SSL_accept(server);
    }
    CHECK(SSL_is_init_finished(client) && SSL_is_init_finished(server));
    seen.leaf = SSL_get1_peer_certificate(client);
    chain = SSL_get_peer_cert_chain(client);
    seen.chain = sk_X509_num(chain);
    seen.kind = EVP_PKEY_base_id(X509_get0_pubkey(seen.leaf));
    for (int i = 0; i + 1 < seen.chain; i++)
        seen.chain_is_right &=
            X509_check_issued(sk_X509_value(chain, i + 1), sk_X509_value(chain, i)) == X509_V_OK;
    seen.has_staple = SSL_get_tlsext_status_ocsp_resp(client, &staple) > 0;
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(server_ctx);
    SSL_CTX_free(client_ctx);
    return seen;
}

static void
shake_expect(const char *sni, const char *sigalgs, int kind, int chain, bool staple)
{
    struct handshake h;
    int rc;

    shake_init(&h);
    rc = ask(&h, sni);
    if (rc == TERR_AGAIN) {
        parse();
        rc = ask(&h, sni);
    }
    CHECK_EQ(0, rc);
    for (unsigned i = 0; i < 2; i++) {
        struct seen seen = shake(&h.pick, sigalgs, i == 0 ? TLS1_3_VERSION : TLS1_2_VERSION);

        CHECK_EQ(kind, seen.kind);
        CHECK_EQ(chain, seen.chain);
        CHECK(seen.chain_is_right);
        CHECK_EQ(staple, seen.has_staple);
        X509_free(seen.leaf);
    }
    cert_pick_drop(&h.pick);
}

#define ECDSA_ONLY "ecdsa_secp256r1_sha256"
#define RSA_ONLY   "rsa_pss_rsae_sha256:rsa_pkcs1_sha256"

TEST(cert_store, a_client_gets_the_kind_of_key_that_it_takes_with_its_chain)
{
    certs_open();
    put_pem_of("ec.pem", "DNS:a.example", certs.ec, 90);
    put_pem_of("rsa.pem", "DNS:a.example", certs.rsa, 90);
    bench_open(0);
    shake_expect("a.example", ECDSA_ONLY, EVP_PKEY_EC, 2, false);
    CHECK_EQ(2, stats().parses);
    shake_expect("a.example", RSA_ONLY, EVP_PKEY_RSA, 2, false);
    shake_expect("a.example", ECDSA_ONLY ":" RSA_ONLY, EVP_PKEY_EC, 2, false);
    shake_expect("", RSA_ONLY, EVP_PKEY_RSA, 2, false); /* the default's neighbour, too */
    bench_close();
}

TEST(cert_store, of_two_kinds_the_one_that_can_be_parsed_is_served)
{
    certs_open();
    put_pem_of("ec.pem", "DNS:a.example", certs.ec, 90);
    put_pair("z.crt", "z.key", "DNS:none.example");
    {
        X509 *cert = leaf("DNS:a.example", certs.rsa, 90);

        make_file(in("rsa.crt"), (X509 *[]){cert, NULL}, NULL, 0644);
        make_file(in("rsa.key"), (X509 *[]){NULL}, certs.ec, 0640); /* another's */
        X509_free(cert);
    }
    bench_open(0);
    shake_expect("a.example", ECDSA_ONLY ":" RSA_ONLY, EVP_PKEY_EC, 2, false);
    CHECK_EQ(1, stats().failures);
    bench_close();
}

TEST(cert_store, a_chain_in_another_order_is_sent_in_the_right_one_without_foreigners)
{
    EVP_PKEY *middle_key = make_ec("P-256"), *other_key = make_ec("P-256");
    X509 *middle = make_cert(&(struct cert_wish){.cn = "Middle",
             .key = middle_key,
             .issuer = certs.ca,
             .issuer_key = certs.ca_key,
             .is_ca = 1}),
         *other = make_cert(&(struct cert_wish){.cn = "Other", .key = other_key, .is_ca = 1}),
         *cert = make_cert(&(struct cert_wish){
             .san = "DNS:a.example", .key = certs.ec, .issuer = middle, .issuer_key = middle_key}),
         *mine = leaf("DNS:b.example", certs.ec2, 90);
    struct cert_table *t;

    certs_open();
    make_file(in("a.pem"), (X509 *[]){cert, other, certs.ca, middle, NULL}, certs.ec, 0600);
    make_file(
        in("b.pem"), (X509 *[]){certs.ca, mine, NULL}, certs.ec2, 0600); /* the leaf is not first */
    bench_open(0);
    shake_expect("a.example", ECDSA_ONLY, EVP_PKEY_EC, 3, false);
    t = cert_store_table(b.store);
    CHECK_EQ(1, cert_table_check(t, b.now_s, &certs.report));
    cert_table_unref(&t);
    CHECK(said(false, "a.pem", "belongs right behind it"));
    CHECK(said(false, "a.pem", "\"Other\" issued none of those before it"));
    CHECK(said(true, "b.pem", "must stand first"));
    X509_free(middle);
    X509_free(other);
    X509_free(cert);
    X509_free(mine);
    EVP_PKEY_free(middle_key);
    EVP_PKEY_free(other_key);
    bench_close();
}

TEST(cert_store, an_ocsp_response_is_stapled_while_it_is_fresh_and_its_own)
{
    X509 *a, *c;
    struct cert_table *t;

    certs_open();
    a = leaf("DNS:a.example", certs.ec, 90);
    c = leaf("DNS:c.example", certs.ec, 90);
    make_file(in("a.pem"), (X509 *[]){a, certs.ca, NULL}, certs.ec, 0600);
    make_ocsp(in("a.ocsp"), a, certs.ca, certs.ca_key, time(NULL) + 3600);
    make_file(in("b.pem"), (X509 *[]){c, certs.ca, NULL}, certs.ec, 0600);
    make_ocsp(in("b.ocsp"), a, certs.ca, certs.ca_key, time(NULL) + 3600); /* another's */
    put_pem("d.pem", "DNS:d.example");
    put_text("d.ocsp", "not DER");
    bench_open(0);
    shake_expect("a.example", ECDSA_ONLY, EVP_PKEY_EC, 2, true);
    CHECK(info("a.pem")->staple_until_s > b.now_s);
    shake_expect("c.example", ECDSA_ONLY, EVP_PKEY_EC, 2, false);
    shake_expect("d.example", ECDSA_ONLY, EVP_PKEY_EC, 2, false);
    CHECK_EQ(0, info("d.pem")->staple_until_s);
    make_ocsp(
        in("a.ocsp"), a, certs.ca, certs.ca_key, time(NULL) - 60); /* old: and a reload sees it */
    reload(0);
    shake_expect("a.example", ECDSA_ONLY, EVP_PKEY_EC, 2, false);
    t = cert_store_table(b.store);
    CHECK_EQ(0, cert_table_check(t, b.now_s, &certs.report));
    cert_table_unref(&t);
    CHECK(said(false, "a.ocsp", "not good now"));
    CHECK(said(false, "b.ocsp", "another certificate"));
    CHECK(said(false, "d.ocsp", "not an OCSP response"));
    X509_free(a);
    X509_free(c);
    bench_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(cert_store, a_certificate_is_parsed_once_when_handshakes_need_it),
        TEST_ENTRY(cert_store, without_a_name_or_with_an_unknown_one_the_default_answers),
        TEST_ENTRY(cert_store, those_that_were_used_last_stay_parsed),
        TEST_ENTRY(cert_store, what_is_in_use_stays_whatever_is_forgotten_or_reloaded),
        TEST_ENTRY(cert_store, a_reload_keeps_what_is_parsed_of_unchanged_files),
        TEST_ENTRY(
            cert_store, a_file_that_turns_bad_when_it_is_parsed_leaves_the_one_before_in_service),
        TEST_ENTRY(
            cert_store, a_file_that_is_bad_when_it_is_loaded_leaves_the_one_before_in_service),
        TEST_ENTRY(cert_store, a_bad_file_is_an_error_and_is_read_again_after_a_while),
        TEST_ENTRY(cert_store, a_file_that_has_other_names_than_it_was_loaded_with_is_not_served),
        TEST_ENTRY(cert_store, a_handshake_that_ends_while_it_waits_is_forgotten),
        TEST_ENTRY(cert_store, an_offload_that_is_full_is_a_limit_and_what_is_parsed_is_served),
        TEST_ENTRY(cert_store, a_challenge_of_tls_alpn_01_is_read_when_it_is_asked_for),
        TEST_ENTRY(cert_store, a_challenge_that_another_node_has_given_is_shown_where_no_file_is),
        TEST_ENTRY(cert_store, the_text_of_a_key_does_not_stay_in_memory),
        TEST_ENTRY(cert_store, a_client_gets_the_kind_of_key_that_it_takes_with_its_chain),
        TEST_ENTRY(cert_store, of_two_kinds_the_one_that_can_be_parsed_is_served),
        TEST_ENTRY(
            cert_store, a_chain_in_another_order_is_sent_in_the_right_one_without_foreigners),
        TEST_ENTRY(cert_store, an_ocsp_response_is_stapled_while_it_is_fresh_and_its_own),
    };

    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
