/* tls_layer.c -- one connection's TLS: OpenSSL's state between bytes in memory.
 *
 * OpenSSL reads and writes through a BIO of our own, which has no buffer: what is to be read is the
 * caller's, what is written goes behind the caller's output.  So OpenSSL never waits for room, a
 * call that encrypts makes all of its record, and a call that finds nothing to read says so. */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/hex.h"
#include "daemon/base/terr.h"
#include "daemon/base/usage.h"
#include "daemon/base/waiter.h"
#include "daemon/http/conn_facts.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

#define ACME_ALPN "acme-tls/1"

/* A new key costs us fifteen microseconds and the peer 27 bytes (RFC 8446 4.6.3).  Who has a reason for one
 * has moved many more bytes before it than these. */
enum {
    KEY_UPDATES_MAX = 32,
    KEY_UPDATE_BYTES = 16384, /* of data, either way, pay for one more */
};

/* Waiting for a certificate.  Its memory stays until the notification has landed, which may be after the
 * connection has gone. */
struct tls_wait {
    struct tls *tls; /* NULL: gone */
    struct waiter waiter;
    struct task task;
    struct usage *usage;
};

/* The layer that this thread's call of OpenSSL is for: its callbacks are told of an SSL alone, and of a BIO that all
 * connections of the thread share.  NULL: none runs. */
static _Thread_local struct tls *tls_now;
static _Thread_local struct secure_io *tls_io; /* of that call */
static _Thread_local BIO *tls_bio;

static struct tls *
tls_of(const struct secure *t)
{
    struct tls *tls = container_of((struct secure *)(uintptr_t)t, struct tls, secure);

    OBJ_CHECK(tls, TLS_MAGIC);
    return tls;
}

struct tls *
tls_current(const SSL *ssl)
{
    tassert(tls_now != NULL && tls_now->ssl == ssl);
    return tls_now;
}

/* ---- the BIO ---- */

static int
tls_bio_write(BIO *bio, const char *data, int len)
{
    struct tls *t = tls_now;

    tassert(t != NULL && len >= 0);
    BIO_clear_retry_flags(bio);
    /* No call makes more than the room is for, unless a peer makes us answer without end. */
    if (!secure_io_put(tls_io, data, (size_t)len)) {
        t->why = "too much to be sent at once";
        return -1;
    }
    return len;
}

static int
tls_bio_read(BIO *bio, char *data, int room)
{
    struct tls *t = tls_now;
    struct secure_io *io = tls_io;
    size_t n;

    BIO_clear_retry_flags(bio);
    if (t->key_updates > KEY_UPDATES_MAX)
        return -1; /* one call of OpenSSL's would take all that lie here */
    if (io->in.len == 0) {
        BIO_set_retry_read(bio); /* else it would be the connection's end */
        return -1;
    }
    n = io->in.len < (size_t)room ? io->in.len : (size_t)room;
    memcpy(data, io->in.ptr, n);
    io->in = slice_of(io->in.ptr + n, io->in.len - n);
    return (int)n;
}

static long
tls_bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio, (void)num, (void)ptr;
    return cmd == BIO_CTRL_FLUSH; /* all has been written; of nothing else is there any */
}

/* One for all connections: the first thread that asks makes it. */
static BIO_METHOD *
tls_bio_method(void)
{
    static BIO_METHOD *_Atomic method;
    BIO_METHOD *m = method, *none = NULL;

    if (m != NULL)
        return m;
    m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tarn stream");
    if (m == NULL)
        return NULL;
    BIO_meth_set_write(m, tls_bio_write);
    BIO_meth_set_read(m, tls_bio_read);
    BIO_meth_set_ctrl(m, tls_bio_ctrl);
    if (!atomic_compare_exchange_strong(&method, &none, m)) {
        BIO_meth_free(m);
        m = none;
    }
    return m;
}

/* It has no state but what the last call has left to SSL_get_error(), so connections share it.  Borrowed; NULL: no
 * memory. */
static BIO *
tls_bio_here(void)
{
    BIO_METHOD *method = tls_bio == NULL ? tls_bio_method() : NULL;

    if (method != NULL)
        tls_bio = BIO_new(method);
    if (method != NULL && tls_bio != NULL)
        BIO_set_init(tls_bio, 1); /* BIO_read() and BIO_write() refuse one of ours before */
    return tls_bio;
}

void
tls_thread_enter(void)
{
    tls_memory_enter();
}

void
tls_thread_leave(void)
{
    tassert(tls_now == NULL);
    BIO_free(tls_bio);
    tls_bio = NULL;
    tls_memory_leave();
}

/* ---- calls ---- */

static void
tls_begin(struct tls *t, struct secure_io *io)
{
    tassert(tls_now == NULL);
    /* What another call left would pass for this one's: so each that fails clears it. */
    tassert_slow(ERR_peek_error() == 0);
    tls_io = io;
    tls_now = t;
}

/* What OpenSSL's answer means.  0: nothing more to read. */
static int
tls_end(struct tls *t, int rc)
{
    int err = rc > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, rc);

    tassert(tls_now == t);
    tls_now = NULL;
    tls_io = NULL;
    if (tls_memory_refused() && err != SSL_ERROR_SSL && err != SSL_ERROR_SYSCALL)
        ERR_clear_error();
    switch (err) {
    case SSL_ERROR_NONE:
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_X509_LOOKUP: /* tls_on_cert() waits */
        return TERR_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return TERR_CLOSED;
    default:
        /* The first of a connection, and of the queue: what comes behind it is its consequence. */
        if (t->err == 0)
            t->err = ERR_peek_error();
        ERR_clear_error();
        return TERR_IO;
    }
}

/* A library takes that much before it judges, so what it takes first is what was noted first. */
static void
tls_note_first(struct tls *t, struct slice in)
{
    for (size_t i = 0; i < in.len && t->nfirst < sizeof(t->first); i++)
        t->first[t->nfirst++] = in.ptr[i];
}

/* A record begins with its type, 20 to 24 (RFC 8446 5.1): no letter. */
static bool
tls_began_as_http(const struct tls *t)
{
    static const char *const methods[] = {
        "GET ", "HEAD ", "POST ", "PUT ", "DELET", "OPTIO", "PATCH", "TRACE", "CONNE", "PRI *"};

    /* Only methods that we would answer by plain HTTP: anything else gets the alert. */
    for (size_t i = 0; i < ARRAY_LEN(methods) && t->nfirst == sizeof(t->first); i++)
        if (memcmp(t->first, methods[i], strlen(methods[i])) == 0)
            return true;
    return false;
}

/* In place of an alert, which a client of HTTP cannot read.  No redirect: it would hide that the request, with its
 * cookies, went over the wire for all to read. */
static void
tls_answer_http(struct tls *t, struct secure_io *io, size_t out_len)
{
#define ANSWER \
    "The plain HTTP request was sent to an HTTPS port: write https:// in front of its URL\n"
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                 "Content-Length: 85\r\nConnection: close\r\n\r\n" ANSWER;

    _Static_assert(sizeof(ANSWER) - 1 == 85, "Content-Length");
#undef ANSWER
    /* The alert that OpenSSL has written is taken back; what the client sent is done with. */
    io->out_len = out_len;
    io->in = slice_of(io->in.ptr + io->in.len, 0);
    secure_io_put(io, answer, sizeof(answer) - 1);
    t->why = "http request";
}

static int
tls_handshake(struct secure *s, struct secure_io *io)
{
    struct tls *t = tls_of(s);
    size_t out_len = io->out_len;
    int done, rc;

    /* Bytes of the peer may wake the task before the certificate is there: OpenSSL would ask for it once more. */
    if (t->wait != NULL && waiter_pending(&t->wait->waiter))
        return TERR_AGAIN;
    if (t->server != NULL)
        tls_note_first(t, io->in);
    tls_begin(t, io);
    done = t->early == TLS_EARLY_AWAITED ? tls_early_handshake(t) : SSL_do_handshake(t->ssl);
    if (done == 1 && t->server != NULL && t->early == TLS_EARLY_NONE)
        done = tls_lib_send_tickets(t->ssl);
    rc = tls_end(t, done);
    if (rc == TERR_IO && t->server != NULL && tls_began_as_http(t))
        tls_answer_http(t, io, out_len);
    /* Now, while the verification's result is that of this handshake. */
    if (rc == TERR_IO && t->client != NULL && t->said == NULL)
        t->said = tls_client_why(t->client, t->ssl);
    if (rc != 0)
        return rc == TERR_IO ? TERR_TLS : rc;
    if (t->acme) { /* RFC 8737 3: it is over now */
        t->why = "a challenge of ACME was answered";
        return TERR_CLOSED;
    }
    if (t->server != NULL)
        tls_suspend_watch(t);
    return 0;
}

/* Data pays off what new keys have cost: a connection of a year may have any number of them. */
static void
tls_pay_key_updates(struct tls *t, size_t bytes)
{
    for (bytes += t->unpaid; bytes >= KEY_UPDATE_BYTES; bytes -= KEY_UPDATE_BYTES)
        t->key_updates -= t->key_updates > 0;
    t->unpaid = (uint16_t)bytes;
}

/* A record is decrypted into the room as far as it goes; its rest stays with OpenSSL. */
static ssize_t
tls_decrypt(struct secure *s, struct secure_io *io, struct span room)
{
    struct tls *t = tls_of(s);
    /* As it is at first: the read of the held byte clears it. */
    const bool early = t->early_held;
    size_t got = 0;
    int rc = 0;

    /* OpenSSL is not asked again after an end: it would report another error. */
    if (t->ended != 0)
        return t->ended;
    if (io->in.len == 0 && (t->ssl == NULL || SSL_pending(t->ssl) == 0) && !t->early_held)
        return 0; /* OpenSSL would take a buffer to find that out */
    if (!tls_ready(t))
        return TERR_NOMEM;
    /* One record a call.  Behind the first, only if more lies here: a call that finds nothing costs as much as a small
     * record.  Behind the byte that was held may be the rest of its record. */
    while (rc == 0 && got < room.len && (got == 0 || io->in.len > 0 || (early && got == 1))) {
        size_t most = room.len - got < INT32_MAX ? room.len - got : INT32_MAX;
        int n;

        tls_begin(t, io);
        n = __builtin_expect(t->early == TLS_EARLY_NONE, 1)
                ? SSL_read(t->ssl, room.ptr + got, (int)most)
                : tls_early_read(t, room.ptr + got, (int)most);
        rc = tls_end(t, n);
        if (rc == 0) {
            got += (size_t)n;
            tls_pay_key_updates(t, (size_t)n);
        }
        if (t->key_updates > KEY_UPDATES_MAX) {
            t->why = "new keys again and again, and hardly any data";
            rc = TERR_LIMIT;
        }
    }
    if (rc != TERR_AGAIN)
        t->ended = (int16_t)rc; /* told behind what came before it */
    if (got > 0)
        return (ssize_t)got;
    return rc == TERR_AGAIN ? 0 : rc;
}

static int
tls_encrypt(struct secure *s, struct secure_io *io, struct slice plain)
{
    struct tls *t = tls_of(s);
    int rc;

    tassert(plain.len > 0 && plain.len <= SECURE_RECORD);
    if (!tls_ready(t))
        return TERR_NOMEM;
    tls_pay_key_updates(t, plain.len);
    tls_begin(t, io);
    rc = tls_end(t, __builtin_expect(t->early == TLS_EARLY_NONE, 1)
                        ? SSL_write(t->ssl, plain.ptr, (int)plain.len)
                        : tls_early_write(t, plain));
    return rc == TERR_AGAIN ? TERR_IO : rc; /* it wants a handshake, and there is none any more */
}

static void
tls_shut(struct secure *s, struct secure_io *io)
{
    struct tls *t = tls_of(s);

    if (!tls_ready(t))
        return;
    tls_begin(t, io);
    /* 0: ours is sent, and the peer's has not come, for which nothing waits. */
    tls_end(t, SSL_shutdown(t->ssl) < 0 ? -1 : 1);
}

static bool
tls_is_server(const struct secure *s)
{
    return tls_of(s)->server != NULL;
}

static const char *
tls_why(const struct secure *s)
{
    const struct tls *t = tls_of(s);
    const char *text;

    if (t->why != NULL || t->said != NULL)
        return t->why != NULL ? t->why : t->said;
    if (t->err == 0)
        return "";
    text = tls_lib_reason(t->err);
    return text != NULL ? text : "an error without a name";
}

/* Without its state a session is not used again: SSL_free() would take an end that was not said for a
 * failure, and the peer's ticket would be refused. */
static void
tls_free(struct secure **sp)
{
    struct tls *t = tls_of(*sp);

    *sp = NULL;
    if (t->wait != NULL) {
        struct tls_wait *w = t->wait;

        /* A notification that has landed has made it due, and then it would run in memory that is gone. */
        task_cancel(&w->task);
        if (!waiter_pending(&w->waiter) || cert_pick_cancel(t->server->certs, &w->waiter))
            usage_free(w->usage, USAGE_CONN, w);
        else
            w->tls = NULL;
    }
    tls_suspend_forget(t);
    if (t->ssl != NULL)
        SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(t->ssl);
    ERR_clear_error();
    if (t->client != NULL)
        tls_client_drop(t->client);
    free(t->said);
    OBJ_BURY(t);
    usage_free(&t->loop->usage, USAGE_CONN, t);
}

/* ---- what the handshake asks ---- */

static void
tls_wait_run(struct task *task)
{
    struct tls_wait *w = container_of(task, struct tls_wait, task);

    if (w->tls != NULL)
        task_wake(w->tls->secure.task);
    else
        usage_free(w->usage, USAGE_CONN, w);
}

static struct tls_wait *
tls_wait_new(struct tls *t)
{
    struct tls_wait *w = usage_calloc(&t->loop->usage, USAGE_CONN, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->tls = t;
    w->usage = &t->loop->usage;
    task_init(&w->task, &t->loop->tasks, tls_wait_run);
    waiter_init(&w->waiter, &w->task, &t->loop->inbox);
    return w;
}

/* Its waiter has landed; its task may be due still, and memory of a task that is due must not go. */
static void
tls_wait_end(struct tls *t)
{
    task_cancel(&t->wait->task);
    usage_free(t->wait->usage, USAGE_CONN, t->wait);
    t->wait = NULL;
}

/* The certificates for the name that the client asks for.  1: they are there; -1: they are read, and the
 * handshake goes on then; 0: there are none. */
static int
tls_on_cert(SSL *ssl, void *arg)
{
    struct tls *t = tls_current(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct cert_pick pick;
    int rc;

    (void)arg;
    if (t->wait == NULL)
        t->wait = tls_wait_new(t);
    if (t->wait == NULL)
        return 0;
    rc = cert_store_pick(
        t->server->certs, slice_str(name != NULL ? name : ""), t->acme, &t->wait->waiter, &pick);
    if (rc == TERR_AGAIN)
        return -1;
    tls_wait_end(t);
    if (rc == 0) {
        rc = cert_pick_use(&pick, ssl);
        cert_pick_drop(&pick);
        ERR_clear_error();
    }
    if (rc != 0)
        t->why = rc == TERR_NOTFOUND ? "no certificate for the name" : "its certificate is bad";
    return rc == 0;
}

/* RFC 8737 3: a CA offers acme-tls/1 and nothing else.  The certificates are chosen before the protocol is, so
 * the hello itself is looked at. */
static int
tls_on_hello(SSL *ssl, int *alert, void *arg)
{
    static const unsigned char only[] = "\0\x0b\x0a" ACME_ALPN;
    struct tls *t = tls_current(ssl);
    const unsigned char *list;
    size_t len;

    (void)alert;
    (void)arg;
    t->acme = SSL_client_hello_get0_ext(
                  ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &list, &len) == 1 &&
              len == sizeof(only) - 1 && memcmp(list, only, len) == 0;
    return SSL_CLIENT_HELLO_SUCCESS;
}

/* In our order (RFC 7301 3.2): a client that has HTTP/2 and HTTP/1.1 gets HTTP/2.  One that offers only what we do
 * not speak is told so. */
static int
tls_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
    unsigned in_len, void *arg)
{
    static const unsigned char known[] = "\x2h2\x8http/1.1\x8http/1.0";
    const struct tls *t = tls_current(ssl);
    unsigned skip = t->server->http2 ? 0 : 1 + 2; /* h2 */
    unsigned char *agreed;

    (void)arg;
    if (t->acme) {
        *out = (const unsigned char *)ACME_ALPN;
        *out_len = sizeof(ACME_ALPN) - 1;
        return SSL_TLSEXT_ERR_OK;
    }
    if (SSL_select_next_proto(&agreed, out_len, known + skip, sizeof(known) - 1 - skip, in,
            in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = agreed;
    return SSL_TLSEXT_ERR_OK;
}

/* Its only reason: OpenSSL keeps the name in the session then, so that it is known of a connection of TLS 1.2
 * that is resumed, too. */
static int
tls_on_name(SSL *ssl, int *alert, void *arg)
{
    (void)alert;
    (void)arg;
    return SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) != NULL ? SSL_TLSEXT_ERR_OK
                                                                      : SSL_TLSEXT_ERR_NOACK;
}

/* Handshake messages behind the handshake: of a client only KeyUpdate may come (RFC 8446 4.6.3). */
static void
tls_on_message(int sent, int version, int type, const void *buf, size_t len, SSL *ssl, void *arg)
{
    struct tls *t = tls_current(ssl);

    (void)version;
    (void)arg;
    if (!sent && type == SSL3_RT_HANDSHAKE && len > 0 &&
        *(const unsigned char *)buf == SSL3_MT_KEY_UPDATE && t->key_updates < UINT8_MAX)
        t->key_updates++;
}

void
tls_layer_prepare(SSL_CTX *ctx)
{
    SSL_CTX_set_cert_cb(ctx, tls_on_cert, NULL);
    SSL_CTX_set_alpn_select_cb(ctx, tls_on_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(ctx, tls_on_name);
    SSL_CTX_set_msg_callback(ctx, tls_on_message);
}

void
tls_layer_prepare_acme(SSL_CTX *ctx)
{
    SSL_CTX_set_client_hello_cb(ctx, tls_on_hello, NULL);
}

/* ---- what is known afterwards ---- */

/* Texts that do not fit are cut, and later ones are empty: a policy compares them, and a cut name matches nothing. */
static const char *
facts_text(char **at, char *end, const char *text)
{
    char *to = *at;
    size_t len = strlen(text);

    if (to >= end)
        return "";
    if (len > (size_t)(end - to) - 1)
        len = (size_t)(end - to) - 1;
    memcpy(to, text, len);
    to[len] = '\0';
    *at = to + len + 1;
    return to;
}

static const char *
facts_name(char **at, char *end, const X509_NAME *name)
{
    BIO *mem = BIO_new(BIO_s_mem());
    char text[512] = "";
    int n = 0;

    /* RFC 2253: escapes what is no printable ASCII, so that no name breaks a line of a log. */
    if (mem != NULL && X509_NAME_print_ex(mem, name, 0, XN_FLAG_RFC2253) >= 0)
        n = BIO_read(mem, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    BIO_free(mem);
    return facts_text(at, end, text);
}

static const char *
facts_hex(char **at, char *end, const unsigned char *bytes, size_t n)
{
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";

    hex_put(text, bytes, n < EVP_MAX_MD_SIZE ? n : EVP_MAX_MD_SIZE);
    return facts_text(at, end, text);
}

static void
facts_of_client(X509 *cert, struct conn_secure *out, char **at, char *end)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get_serialNumber(cert), NULL);

    if (X509_digest(cert, EVP_sha256(), bytes, &len) == 1)
        out->client_fingerprint = facts_hex(at, end, bytes, len);
    /* RFC 5280 4.1.2.2 allows 20 bytes; the certificate was verified, yet a CA of an operator's own may sign longer ones. */
    if (serial != NULL && (size_t)BN_num_bytes(serial) <= sizeof(bytes))
        out->client_serial = facts_hex(at, end, bytes, (size_t)BN_bn2bin(serial, bytes));
    BN_free(serial);
    out->client_subject = facts_name(at, end, X509_get_subject_name(cert));
    out->client_issuer = facts_name(at, end, X509_get_issuer_name(cert));
}

static void
tls_facts(const struct secure *s, struct conn_secure *out, char *text, size_t size)
{
    const struct tls *t = tls_of(s);
    /* Not suspended: it is asked when the handshake is complete. */
    const char *name = SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name);
    /* Counted.  Of a resumed session it is the one that was verified then. */
    X509 *cert = SSL_get_peer_certificate(t->ssl);
    char *at = text, *end = text + size;
    const unsigned char *alpn;
    unsigned alpn_len;
    char protocol[32];

    *out = (struct conn_secure){.version = SSL_get_version(t->ssl),
        .cipher = SSL_CIPHER_standard_name(SSL_get_current_cipher(t->ssl)),
        .client_subject = "",
        .client_issuer = "",
        .client_serial = "",
        .client_fingerprint = "",
        .resumed = SSL_session_reused(t->ssl),
        .early = t->early != TLS_EARLY_NONE};
    SSL_get0_alpn_selected(t->ssl, &alpn, &alpn_len);
    snprintf(
        protocol, sizeof(protocol), "%.*s", (int)alpn_len, alpn_len > 0 ? (const char *)alpn : "");
    out->protocol = facts_text(&at, end, protocol);
    out->server_name = facts_text(&at, end, name != NULL ? name : "");
    /* As hosts are compared everywhere else: RFC 6066 3 leaves the case to the client. */
    for (char *c = (char *)(uintptr_t)out->server_name; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    if (cert != NULL)
        facts_of_client(cert, out, &at, end);
    X509_free(cert);
    ERR_clear_error();
}

static const struct secure_ops tls_ops = {
    .handshake = tls_handshake,
    .decrypt = tls_decrypt,
    .encrypt = tls_encrypt,
    .shut = tls_shut,
    .is_server = tls_is_server,
    .facts = tls_facts,
    .why = tls_why,
    .free = tls_free,
};

void
tls_layer_set_bio(struct tls *t)
{
    tassert(tls_bio != NULL);
    BIO_up_ref(tls_bio); /* SSL_set_bio() takes one reference where both are the same */
    SSL_set_bio(t->ssl, tls_bio, tls_bio);
}

/* NULL: no memory. */
static struct tls *
tls_new(SSL_CTX *ctx, struct loop *l)
{
    struct tls *t = usage_calloc(&l->usage, USAGE_CONN, sizeof(*t));

    if (t != NULL && tls_bio_here() != NULL)
        t->ssl = SSL_new(ctx);
    if (t == NULL || t->ssl == NULL) {
        usage_free(&l->usage, USAGE_CONN, t);
        ERR_clear_error();
        return NULL;
    }
    t->magic = TLS_MAGIC;
    t->secure.ops = &tls_ops;
    t->loop = l;
    list_init(&t->link);
    tls_layer_set_bio(t);
    tls_lib_set_shed(t->ssl);
    return t;
}

int
tls_layer_accept(struct secure_server *secure, struct loop *l, struct secure **out)
{
    struct tls_server *s = container_of(secure, struct tls_server, secure);
    struct tls *t;

    OBJ_CHECK(s, TLS_SERVER_MAGIC);
    tassert(l->id < s->loops);
    t = tls_new(s->ctx[l->id], l);
    if (t == NULL)
        return TERR_NOMEM;
    t->server = s;
    /* Decided now: a reload makes another listener, and this connection stays this one's. */
    t->early = s->early_data ? TLS_EARLY_AWAITED : TLS_EARLY_NONE;
    SSL_set_accept_state(t->ssl);
    ERR_clear_error(); /* of what OpenSSL could do without */
    *out = &t->secure;
    return 0;
}

/* An address is compared as one, and is no server name. */
static bool
tls_expect(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    /* RFC 9525 6.3: a wildcard is a whole label.  6.1: the common name is no name of a server, and OpenSSL takes it where
     * there is no other. */
    X509_VERIFY_PARAM_set_hostflags(
        param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 || SSL_set1_host(ssl, name) == 1;
}

int
tls_layer_connect(struct secure_client *secure, struct loop *l, struct secure **out)
{
    struct tls_client *c = container_of(secure, struct tls_client, secure);
    struct tls *t;

    OBJ_CHECK(c, TLS_CLIENT_MAGIC);
    t = tls_new(c->ctx, l);
    if (t == NULL)
        return TERR_NOMEM;
    t->client = c;
    /* Before anything can fail: tls_free() gives it back. */
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    *out = &t->secure;
    SSL_set_connect_state(t->ssl);
    /* An address is no server name (RFC 6066 3): then sni is empty. */
    if ((c->sni[0] == '\0' || SSL_set_tlsext_host_name(t->ssl, c->sni) == 1) &&
        (!c->verify || tls_expect(t->ssl, c->name))) {
        if (l->id < c->loops && c->sessions[l->id] != NULL)
            SSL_set_session(t->ssl, c->sessions[l->id]);
        ERR_clear_error();
        return 0;
    }
    tls_free(out);
    return TERR_NOMEM;
}
