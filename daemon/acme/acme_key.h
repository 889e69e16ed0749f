/* acme_key.h -- private keys: made, written and read as PEM, as a JWK, and signing ES256.
 *
 * Only calls of OpenSSL 3.0 that AWS-LC has, too.  Threads: a key is one thread's.
 */
#ifndef TARN_ACME_KEY_H
#define TARN_ACME_KEY_H

#include <openssl/evp.h>

#include "daemon/acme/acme.h"
#include "daemon/base/json.h"
#include "daemon/base/span.h"

enum {
    ACME_THUMB_SIZE = 43 + 1, /* 32 bytes as base64url */
    ACME_ES256_BYTES = 64,
};

/* A new key, which the caller gives to EVP_PKEY_free().  0, TERR_IO. */
int acme_key_new(enum acme_key_kind kind, EVP_PKEY **out, struct acme_fail *f);
/* PEM (PKCS #8) that the caller gives to acme_key_forget().  0, TERR_NOMEM. */
int acme_key_pem(EVP_PKEY *key, struct span *out);
/* Overwrites and frees. */
void acme_key_forget(struct span *pem);
/* The first private key of `pem`.  NULL: there is none, or it has a password. */
EVP_PKEY *acme_key_read(struct slice pem);
/* Is it a key of P-256, a key of RSA?  False: neither. */
bool acme_key_kind(EVP_PKEY *key, enum acme_key_kind *out);

/* Its public half (RFC 7517), of P-256 only; NULL: another curve or kind, or no memory. */
json_t *acme_key_jwk(EVP_PKEY *key);
/* SHA-256 of it as RFC 7638 3 orders its members. */
int acme_key_thumb(EVP_PKEY *key, char out[static ACME_THUMB_SIZE]);
/* r and s, 32 bytes each (RFC 7518 3.4). */
int acme_key_es256(EVP_PKEY *key, struct slice text, unsigned char out[static ACME_ES256_BYTES]);

/* What OpenSSL says went wrong last; its queue is empty then. */
const char *acme_key_why(void);

#endif
