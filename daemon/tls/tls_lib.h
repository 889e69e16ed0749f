/* tls_lib.h -- where AWS-LC differs from OpenSSL 3 (-DTARN_TLS).  All else of tls/ is calls that both have, with
 * one meaning; a header that only one of them has is included here alone, or the other's would be found.
 *
 * Threads and errors: as those of the calls that stand behind. */
#ifndef TARN_TLS_LIB_H
#define TARN_TLS_LIB_H

#include <ctype.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef OPENSSL_IS_AWSLC
#include <openssl/hmac.h>

/* AWS-LC has no EVP_MAC; OpenSSL 3 has HMAC_CTX, and calls it deprecated. */
typedef HMAC_CTX tls_lib_mac;
#define tls_lib_set_ticket_cb SSL_CTX_set_tlsext_ticket_key_cb

static inline bool
tls_lib_mac_init(tls_lib_mac *mac, unsigned char *key, size_t len)
{
    return HMAC_Init_ex(mac, key, len, EVP_sha256(), NULL) == 1;
}

/* AWS-LC has no SSL_OP_PRIORITIZE_CHACHA, but groups of ciphers between which the client's order decides.  Of TLS 1.3
 * it takes ChaCha20 first if that is the client's first, or if this processor has no AES. */
#define TLS_LIB_CIPHERS                                                                        \
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]:"                           \
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]:ECDHE-ECDSA-AES256-GCM-SHA384:" \
    "ECDHE-RSA-AES256-GCM-SHA384"

/* Early data is off in AWS-LC unless it is asked for. */
static inline void
tls_lib_set_server(SSL_CTX *ctx)
{
    (void)ctx;
}

/* What only a handshake needs is given back behind it, 1.7 kB.  OpenSSL has no call for that. */
static inline void
tls_lib_set_shed(SSL *ssl)
{
    SSL_set_shed_handshake_config(ssl, 1);
}

/* Does the client take signatures by keys of this kind (EVP_PKEY_EC or EVP_PKEY_RSA)?  For SSL_CTX_set_cert_cb():
 * of two kinds AWS-LC chooses that of its first cipher, and ends a handshake of TLS 1.2 that cannot use it; OpenSSL
 * leaves such ciphers out. */
static inline bool
tls_lib_peer_takes(const SSL *ssl, int kind)
{
    const uint16_t *algorithms;
    size_t n = SSL_get0_peer_verify_algorithms(ssl, &algorithms);

    for (size_t i = 0; i < n; i++)
        if (SSL_get_signature_algorithm_key_type(algorithms[i]) == kind)
            return true;
    return n == 0; /* RFC 5246 7.4.1.4.1: not said, by a client of TLS 1.2 */
}

/* AWS-LC has the names of its codes, NO_SHARED_CIPHER, for OpenSSL's words.  NULL: it has none. */
static inline const char *
tls_lib_reason(unsigned long err)
{
    static _Thread_local char text[96]; /* until the thread's next call */
    const char *name = ERR_reason_error_string((uint32_t)err);
    size_t n = 0;

    if (name == NULL)
        return NULL;
    for (; name[n] != '\0' && n + 1 < sizeof(text); n++)
        text[n] = (char)(name[n] == '_' ? ' ' : tolower((unsigned char)name[n]));
    text[n] = '\0';
    return text;
}

/* AWS-LC sends tickets with the first data, and holds them until then.  A client that waits for an acknowledgement
 * before it asks (RFC 896) would wait for that of a delayed one, 40 ms.  To be called when a server's handshake has
 * ended; for its result, SSL_get_error(). */
static inline int
tls_lib_send_tickets(SSL *ssl)
{
    return SSL_write(ssl, "", 0) >= 0 ? 1 : -1;
}

/* AWS-LC overwrites what it frees in its own free() alone: one of ours has to do it.  OpenSSL does it where a secret
 * was, before it frees. */
#define TLS_LIB_FREE_CLEANSES true

/* libssl's malloc() and free() (library.cmake): of records alone, which it does not overwrite. */
void *tls_lib_malloc(size_t n);
void tls_lib_free(void *p);

#else
#include <openssl/core_names.h>
#include <openssl/params.h>

typedef EVP_MAC_CTX tls_lib_mac;
#define tls_lib_set_ticket_cb SSL_CTX_set_tlsext_ticket_key_evp_cb

static inline bool
tls_lib_mac_init(tls_lib_mac *mac, unsigned char *key, size_t len)
{
    OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key, len),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_end()};

    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

#define TLS_LIB_CIPHERS                                                                        \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" \
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

static inline void
tls_lib_set_server(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_PRIORITIZE_CHACHA); /* for a client without AES of its own */
    SSL_CTX_set_max_early_data(ctx, 0);
}

static inline void
tls_lib_set_shed(SSL *ssl)
{
    (void)ssl;
}

static inline bool
tls_lib_peer_takes(const SSL *ssl, int kind)
{
    (void)ssl, (void)kind;
    return true;
}

static inline const char *
tls_lib_reason(unsigned long err)
{
    return ERR_reason_error_string(err);
}

/* OpenSSL sends them as the handshake's last step. */
static inline int
tls_lib_send_tickets(SSL *ssl)
{
    (void)ssl;
    return 1;
}

#define TLS_LIB_FREE_CLEANSES false
#endif

#endif
