/* tls_server.c -- contexts of a listener: versions, ciphers, clients' certificates.
 *
 * No context has a certificate: each handshake is given its own (tls_on_cert), so a reload of certificates changes no
 * context, and connections that are open keep theirs. */
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/slurp.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_store.h"
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

/* Mozilla's Server Side TLS, intermediate (5.7): forward secrecy and authenticated encryption alone.  None of RFC
 * 9113's appendix A may be among them: HTTP/2 is agreed on whichever is chosen. */
static const char tls_ciphers[] = TLS_LIB_CIPHERS;
/* The first the library knows: OpenSSL 3.0 has no ML-KEM.  Not const, for SSL_CTX_set1_groups_list() is a
 * macro that casts. */
static char tls_groups[][40] = {"X25519MLKEM768:X25519:P-256:P-384", "X25519:P-256:P-384"};

static int
server_ask_clients(SSL_CTX *ctx, const struct tls_server_conf *conf, char *why, size_t why_len)
{
    int mode = SSL_VERIFY_PEER;
    STACK_OF(X509_NAME) * names;

    if (conf->client_auth == TLS_CLIENT_OFF)
        return 0;
    /* Without it a client may send none, and policies decide by what facts() says; one that is bad ends the handshake
     * either way. */
    if (conf->client_auth == TLS_CLIENT_REQUIRED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    names = SSL_load_client_CA_file(conf->client_ca);
    /* The names are for the client to choose a certificate by; what is believed is the second list. */
    if (names == NULL || SSL_CTX_load_verify_locations(ctx, conf->client_ca, NULL) != 1) {
        if (names != NULL)
            sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tls_fail_file(why, why_len, conf->client_ca);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, mode, NULL);
    return 0;
}

int
tls_client_ca_check(const char *file, char *why, size_t why_len)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);

    if (names == NULL) {
        snprintf(why, why_len, "%s: it has to hold certificates in PEM", tls_fail_reason(file));
        return TERR_CONFIG;
    }
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    ERR_clear_error();
    return 0;
}

static bool
server_set_groups(SSL_CTX *ctx)
{
    for (unsigned i = 0; i < ARRAY_LEN(tls_groups); i++)
        if (SSL_CTX_set1_groups_list(ctx, tls_groups[i]) == 1)
            return true;
    return false;
}

/* A ticket that one listener gave is good at no other: what it says of a client's certificate was verified
 * there (RFC 8446 4.6.1; SSL_CTX_set_session_id_context(3)), and is not again.  So the authorities themselves are
 * part of it, and not their file's name: one that is taken out of the file takes its clients' tickets along. */
static int
server_name_sessions(SSL_CTX *ctx, const struct tls_server_conf *conf, char *why, size_t why_len)
{
    /* SHA-256 has 32 bytes, which is all that an id may have (SSL_MAX_SID_CTX_LENGTH). */
    unsigned char id[EVP_MAX_MD_SIZE], auth = (unsigned char)conf->client_auth;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    struct span ca = {NULL, 0};
    unsigned len = 0;
    bool good;

    good = conf->client_auth == TLS_CLIENT_OFF || slurp_file(conf->client_ca, &ca) == 0;
    good = good && md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
           EVP_DigestUpdate(md, &auth, 1) == 1 && EVP_DigestUpdate(md, ca.ptr, ca.len) == 1 &&
           EVP_DigestFinal_ex(md, id, &len) == 1 && SSL_CTX_set_session_id_context(ctx, id, len);
    EVP_MD_CTX_free(md);
    free(ca.ptr);
    return good ? 0 : tls_fail(why, why_len, "sessions");
}

static int
server_context(SSL_CTX *ctx, const struct tls_server_conf *conf, char *why, size_t why_len)
{
    int err;

    /* RFC 8996: 1.0 and 1.1 are over.  No newest version is set: what the library learns is taken. */
    SSL_CTX_set_min_proto_version(ctx, conf->modern ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(
        ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
    /* Idle connections have no buffers.  A write that is repeated comes from another place: leased bytes may have moved
     * to what the stream keeps. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Tickets are the clients' to keep: a cache would be memory that the storage cannot take back, behind a lock. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1); /* two make the handshake's last packet longer */
    tls_lib_set_server(ctx);
    if (conf->early_data && !tls_early_prepare(ctx)) {
        snprintf(why, why_len,
            "early_data: this tarnd has AWS-LC, which does not take any here: set it off, or build "
            "tarnd with OpenSSL");
        return TERR_CONFIG;
    }
    if (SSL_CTX_set_cipher_list(ctx, tls_ciphers) != 1 || !server_set_groups(ctx))
        return tls_fail(why, why_len, "ciphers");
    if (conf->tickets != NULL)
        tls_tickets_use(conf->tickets, ctx);
    else
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_tlsext_status_cb(ctx, cert_on_status);
    tls_layer_prepare(ctx);
    if (conf->acme)
        tls_layer_prepare_acme(ctx);
    err = server_ask_clients(ctx, conf, why, why_len);
    return err != 0 ? err : server_name_sessions(ctx, conf, why, why_len);
}

int
tls_server_open(
    struct tls_server **out, const struct tls_server_conf *conf, char *why, size_t why_len)
{
    struct tls_server *s = calloc(1, sizeof(*s) + conf->loops * sizeof(s->ctx[0]));
    int err = 0;

    tassert(conf->loops > 0 && conf->certs != NULL);
    if (s == NULL)
        return TERR_NOMEM;
    s->magic = TLS_SERVER_MAGIC;
    s->secure.accept = tls_layer_accept;
    s->certs = conf->certs;
    s->tickets = conf->tickets;
    s->http2 = conf->http2;
    s->early_data = conf->early_data;
    s->loops = conf->loops;
    /* Each loop's own (README 4): OpenSSL counts references of a context with each connection. */
    for (unsigned i = 0; i < s->loops && err == 0; i++) {
        s->ctx[i] = SSL_CTX_new(TLS_server_method());
        err = s->ctx[i] != NULL ? server_context(s->ctx[i], conf, why, why_len)
                                : tls_fail(why, why_len, "OpenSSL");
    }
    if (err != 0)
        tls_server_close(&s);
    else
        *out = s;
    return err;
}

void
tls_server_close(struct tls_server **sp)
{
    struct tls_server *s;

    OBJ_TAKE(s, sp, TLS_SERVER_MAGIC);
    for (unsigned i = 0; i < s->loops; i++)
        SSL_CTX_free(s->ctx[i]);
    OBJ_FREE(s);
}

struct secure_server *
tls_server_secure(struct tls_server *s)
{
    OBJ_CHECK(s, TLS_SERVER_MAGIC);
    return &s->secure;
}

const char *
tls_library_version(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
