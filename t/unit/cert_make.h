/* cert_make.h -- keys and certificates for tests, made when they are needed: none lies in the repository.
 *
 * What is made belongs to the test, and is freed by OpenSSL's functions.  Errors: the test aborts.
 */
#ifndef TARN_CERT_MAKE_H
#define TARN_CERT_MAKE_H

#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "daemon/base/span.h"

struct cert_wish {
    const char *cn;            /* NULL: no subject */
    const char *san;           /* "DNS:a.example,IP:192.0.2.1"; NULL: none */
    const struct slice *names; /* dNSNames as they are, in place of `san`; the last is empty */
    EVP_PKEY *key;
    X509 *issuer; /* NULL: it signs itself */
    EVP_PKEY *issuer_key;
    const EVP_MD *digest;       /* NULL: SHA-256 */
    int64_t from_s, until_s;    /* since the epoch; 0 and 0: from yesterday, for 90 days */
    unsigned is_ca, is_acme;    /* 1: yes */
    const char *issuer_cn_only; /* a name of the issuer that is not the issuer's */
};

EVP_PKEY *make_ec(const char *curve); /* "P-256" */
EVP_PKEY *make_rsa(unsigned bits);
EVP_PKEY *make_ed25519(void);
X509 *make_cert(const struct cert_wish *wish);

/* In DER; the bytes are free()d. */
struct span make_der(X509 *cert);

/* A file of PEM: certificates up to NULL, then the key unless it is NULL. */
void make_file(const char *path, X509 *const *certs, EVP_PKEY *key, unsigned mode);
/* The key as openssl would write it with a password. */
void make_encrypted_key(const char *path, EVP_PKEY *key);
/* An OCSP response that says of `cert` that it is good, from now until then.  In DER. */
void make_ocsp(const char *path, X509 *cert, X509 *issuer, EVP_PKEY *issuer_key, int64_t until_s);

#endif
