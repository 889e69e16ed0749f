/* tls_client.c -- TLS to a backend: which certificates are believed, which is ours, and how to go on
 * from the last time. */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/tls/cert_pem.h"
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

/* The last one is the best: TLS 1.3 gives a new one to each connection (RFC 8446 C.4). */
static int
client_on_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls *t = tls_current(ssl);
    struct tls_client *c = t->client;

    /* The management loop's, which probes: it has no place here, and needs none. */
    if (t->loop->id >= c->loops)
        return 0;
    SSL_SESSION_free(c->sessions[t->loop->id]);
    c->sessions[t->loop->id] = session;
    return 1; /* the reference is ours now; 0 would leave it to the library */
}

static int
client_trust(SSL_CTX *ctx, const struct tls_client_conf *conf, char *why, size_t why_len)
{
    if (!conf->verify)
        return 0; /* a client's context verifies nothing unless it is told to */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (conf->ca[0] == '\0')
        return SSL_CTX_set_default_verify_paths(ctx) == 1 ? 0
                                                          : tls_fail(why, why_len, "system CAs");
    /* In place of the system's CAs: an operator who names one trusts no other to speak for the backend. */
    return SSL_CTX_load_verify_locations(ctx, conf->ca, NULL) == 1
               ? 0
               : tls_fail_file(why, why_len, conf->ca);
}

/* One block of a file of ours: a certificate of the chain, or its key.  False: it cannot be used, and `fault` says why
 * where the library does not. */
static bool
client_use_block(SSL_CTX *ctx, const struct pem_block *block, bool key, unsigned *ncerts,
    struct pem_fault *fault)
{
    uint8_t *der = malloc(pem_room(block));
    long n = der != NULL ? pem_decode(block, der, fault) : TERR_NOMEM;
    const unsigned char *at = der;
    EVP_PKEY *pkey = n > 0 && key ? d2i_AutoPrivateKey(NULL, &at, n) : NULL;
    X509 *cert = n > 0 && !key ? d2i_X509(NULL, &at, n) : NULL;
    bool good = false;

    if (pkey != NULL)
        good = SSL_CTX_use_PrivateKey(ctx, pkey) == 1;
    else if (cert != NULL && (*ncerts)++ == 0)
        good = SSL_CTX_use_certificate(ctx, cert) == 1;
    else if (cert != NULL)
        good = SSL_CTX_add1_chain_cert(ctx, cert) == 1;
    EVP_PKEY_free(pkey);
    X509_free(cert);
    if (der != NULL)
        OPENSSL_cleanse(der, pem_room(block));
    free(der);
    return good;
}

static int
client_fail_line(char *why, size_t why_len, const char *file, const struct pem_fault *fault)
{
    snprintf(why, why_len, "%s:%u: %s", file, fault->line, fault->why);
    return TERR_CONFIG;
}

/* The text of a file of ours.  What the system has no word for, cert_file_read() has. */
static int
client_read(
    const char *file, struct cert_buffer *buf, struct slice *text, char *why, size_t why_len)
{
    struct cert_report report = {0};
    struct cert_file_id id;
    int rc = cert_file_read(file, buf, text, &id, &report);

    if (rc != 0 && rc != TERR_NOTFOUND && report.nrows > 0)
        snprintf(why, why_len, "%s: %s", file, report.rows[0].why);
    else if (rc != 0)
        tls_fail_file(why, why_len, file);
    cert_report_free(&report);
    return rc;
}

/* Its certificates, or its first key.  OpenSSL's own calls read through a FILE and lines of their own, where a key's
 * text stays behind. */
static int
client_use(SSL_CTX *ctx, const char *file, bool key, char *why, size_t why_len)
{
    struct cert_buffer buf = {0};
    struct slice text;
    struct pem_scan scan;
    struct pem_block block;
    struct pem_fault fault = {0, NULL};
    unsigned used = 0, ncerts = 0;
    int rc = client_read(file, &buf, &text, why, why_len), got = 0;

    if (rc == 0)
        pem_scan_init(&scan, text);
    while (rc == 0 && (used == 0 || !key) && (got = pem_next(&scan, &block, &fault)) == 1) {
        if (key ? !pem_is_key(&block) : !pem_is_certificate(&block))
            continue;
        used++;
        if (key && block.is_encrypted) {
            snprintf(
                why, why_len, "%s: the key is encrypted, and tarnd asks for no password", file);
            rc = TERR_CONFIG;
        } else if (!client_use_block(ctx, &block, key, &ncerts, &fault)) {
            rc = fault.why != NULL ? client_fail_line(why, why_len, file, &fault)
                                   : tls_fail_file(why, why_len, file);
        }
    }
    /* A chain that was cut short is no shorter chain. */
    if (rc == 0 && got < 0)
        rc = client_fail_line(why, why_len, file, &fault);
    if (rc == 0 && used == 0) {
        snprintf(why, why_len, "%s: no %s in PEM", file, key ? "private key" : "certificate");
        rc = TERR_CONFIG;
    }
    cert_buffer_fini(&buf);
    return rc != 0 ? TERR_CONFIG : 0;
}

static int
client_introduce(SSL_CTX *ctx, const struct tls_client_conf *conf, char *why, size_t why_len)
{
    const char *key = conf->key[0] != '\0' ? conf->key : conf->certificate;
    int err;

    if (conf->certificate[0] == '\0')
        return 0;
    err = client_use(ctx, conf->certificate, false, why, why_len);
    if (err == 0)
        err = client_use(ctx, key, true, why, why_len);
    /* When the file is loaded: a backend would refuse it without a reason, at each connection. */
    if (err == 0 && SSL_CTX_check_private_key(ctx) != 1)
        err = tls_fail_file(why, why_len, key);
    return err;
}

static int
client_context(SSL_CTX *ctx, const struct tls_client_conf *conf, char *why, size_t why_len)
{
    /* Said although there is one protocol only: a backend that has HTTP/2 first must not choose it. */
    static const unsigned char alpn[] = "\x8http/1.1";
    int err;

    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* As a listener's (tls_server.c): pools are full of idle connections. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* The callback is called with a client's cache alone; the context's own table would be a second copy, below a
     * lock that all loops take. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(ctx, client_on_session);
    if (SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) != 0) /* 0 is success, here alone */
        return tls_fail(why, why_len, "ALPN");
    err = client_trust(ctx, conf, why, why_len);
    return err != 0 ? err : client_introduce(ctx, conf, why, why_len);
}

static void
client_note_files(
    struct cert_file_id ids[TLS_CLIENT_FILES], const char *const files[TLS_CLIENT_FILES])
{
    for (unsigned i = 0; i < TLS_CLIENT_FILES; i++) {
        ids[i] = (struct cert_file_id){.inode = 0};
        if (files[i][0] != '\0')
            cert_file_stat(files[i], &ids[i]); /* who opens it says what is wrong */
    }
}

bool
tls_client_is_current(const struct secure_client *secure, const char *const files[TLS_CLIENT_FILES])
{
    const struct tls_client *c =
        container_of((struct secure_client *)(uintptr_t)secure, struct tls_client, secure);
    struct cert_file_id now[TLS_CLIENT_FILES];
    /* By stat(), as a listener's: a reload makes no new context, and so loses no session, where no file has changed. */
    bool same = true;

    OBJ_CHECK(c, TLS_CLIENT_MAGIC);
    client_note_files(now, files);
    for (unsigned i = 0; i < TLS_CLIENT_FILES; i++)
        same = same && cert_file_same(&now[i], &c->files[i]);
    return same;
}

int
tls_client_open(
    struct secure_client **out, const struct tls_client_conf *conf, char *why, size_t why_len)
{
    struct tls_client *c = calloc(1, sizeof(*c) + conf->loops * sizeof(c->sessions[0]));
    struct secure_client *secure;
    int err;

    tassert(!conf->verify || conf->name[0] != '\0');
    if (c == NULL)
        return TERR_NOMEM;
    c->magic = TLS_CLIENT_MAGIC;
    c->secure.connect = tls_layer_connect;
    c->verify = conf->verify;
    c->loops = conf->loops;
    client_note_files(c->files,
        (const char *const[]){conf->ca, conf->certificate,
            conf->key}); /* before they are read: a change meanwhile is seen by the next reload */
    atomic_init(&c->refs, 1);
    c->sni = strdup(conf->sni);
    c->name = strdup(conf->name);
    /* One context for all loops, for connections to a backend are few and kept; sessions are each loop's own. */
    c->ctx = SSL_CTX_new(TLS_client_method());
    err = c->sni == NULL || c->name == NULL ? TERR_NOMEM
          : c->ctx == NULL                  ? tls_fail(why, why_len, "OpenSSL")
                                            : client_context(c->ctx, conf, why, why_len);
    secure = &c->secure;
    if (err != 0)
        tls_client_close(&secure);
    else
        *out = secure;
    return err;
}

/* One count for the snapshot that made it, one for each connection: a reload leaves those that are open alone. */
void
tls_client_drop(struct tls_client *c)
{
    OBJ_CHECK(c, TLS_CLIENT_MAGIC);
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (unsigned i = 0; i < c->loops; i++)
        SSL_SESSION_free(c->sessions[i]);
    SSL_CTX_free(c->ctx);
    free(c->sni);
    free(c->name);
    OBJ_FREE(c);
}

void
tls_client_close(struct secure_client **cp)
{
    struct tls_client *c = container_of(*cp, struct tls_client, secure);

    *cp = NULL;
    tls_client_drop(c);
}

/* Which check it was, and what would have been right. */
char *
tls_client_why(const struct tls_client *c, const SSL *ssl)
{
    long result = SSL_get_verify_result(ssl);
    const char *text = X509_verify_cert_error_string(result);
    char *said = NULL;
    int n;

    /* A handshake that ended before the certificate came: OK to OpenSSL, to AWS-LC an invalid call. */
    if (!c->verify || result == X509_V_OK || result == X509_V_ERR_INVALID_CALL)
        return NULL;
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        n = asprintf(&said, "its certificate is not for '%s' (tls.name)", c->name);
    else if (result == X509_V_ERR_CERT_HAS_EXPIRED || result == X509_V_ERR_CERT_NOT_YET_VALID)
        n = asprintf(&said, "its certificate's dates: %s", text);
    else
        n = asprintf(&said, "its certificate's chain: %s (tls.ca)", text);
    return n > 0 ? said : NULL;
}
