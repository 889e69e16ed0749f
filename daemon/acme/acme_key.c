/* acme_key.c -- private keys. */
#include "daemon/acme/acme_key.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    RSA_BITS = 2048, /* each doubling costs a handshake six times as much */
    COORDINATE = 32,
    /* A SubjectPublicKeyInfo of P-256 is 26 bytes that never differ, then 04, x and y (RFC 5480 2). */
    SPKI_BYTES = 91,
    SPKI_POINT = 26,
};

/* Compared as bytes: another curve, parameters that are written out, a compressed point, all differ here. */
static const unsigned char key_spki_p256[SPKI_POINT] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    0x03, 0x42, 0x00};

/* One text for all: this program has one thread, and asks once behind each failure. */
const char *
acme_key_why(void)
{
    static char text[256];
    unsigned long code = ERR_peek_last_error();

    snprintf(text, sizeof(text), "no reason");
    if (code != 0)
        ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return text;
}

int
acme_key_new(enum acme_key_kind kind, EVP_PKEY **out, struct acme_fail *f)
{
    /* The calls of OpenSSL 1.1: those that are one line are OpenSSL 3's alone. */
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(kind == ACME_RSA ? EVP_PKEY_RSA : EVP_PKEY_EC, NULL);
    EVP_PKEY *key = NULL;
    bool ok = ctx != NULL && EVP_PKEY_keygen_init(ctx) == 1;

    if (ok && kind == ACME_RSA)
        ok = EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, RSA_BITS) == 1;
    else if (ok)
        ok = EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, NID_X9_62_prime256v1) == 1;
    ok = ok && EVP_PKEY_keygen(ctx, &key) == 1;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return acme_fail(f, TERR_IO, "no key could be made: %s", acme_key_why());
    *out = key;
    return 0;
}

int
acme_key_pem(EVP_PKEY *key, struct span *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *copy = NULL;
    long len = 0;

    /* PKCS#8, one form for both kinds of key; the older ones name the algorithm in the label. */
    if (bio != NULL && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_get_mem_data(bio, &bytes);
        copy = len > 0 ? malloc((size_t)len) : NULL;
        if (copy != NULL)
            memcpy(copy, bytes, (size_t)len);
        /* The BIO's memory goes back to the heap, and with it the key. */
        if (len > 0)
            OPENSSL_cleanse(bytes, (size_t)len);
    }
    BIO_free(bio);
    if (copy == NULL)
        return TERR_NOMEM;
    *out = (struct span){copy, (size_t)len};
    return 0;
}

/* Each text of a key ends here: what free() alone gives back lies in the heap until it is written over. */
void
acme_key_forget(struct span *pem)
{
    if (pem->ptr != NULL)
        OPENSSL_cleanse(pem->ptr, pem->len);
    free(pem->ptr);
    *pem = (struct span){NULL, 0};
}

/* A key with a password is none: a terminal is not asked. */
static int
key_on_password(char *buf, int size, int writes, void *unused)
{
    (void)buf, (void)size, (void)writes, (void)unused;
    return 0;
}

/* The first key of the text; certificates before it are skipped, as our own files have them. */
EVP_PKEY *
acme_key_read(struct slice pem)
{
    BIO *bio = pem.len < INT32_MAX ? BIO_new_mem_buf(pem.ptr, (int)pem.len) : NULL;
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, key_on_password, NULL) : NULL;

    BIO_free(bio);
    ERR_clear_error();
    return key;
}

/* x and y behind each other; 0, TERR_INVALID: it is no key of P-256. */
static int
key_point(EVP_PKEY *key, unsigned char out[static 2 * COORDINATE])
{
    /* By the public key's DER: calls that give coordinates are deprecated in OpenSSL 3, and their successors
     * not in AWS-LC. */
    unsigned char *der = NULL;
    int len = EVP_PKEY_id(key) == EVP_PKEY_EC ? i2d_PUBKEY(key, &der) : 0;
    int err =
        len == SPKI_BYTES && memcmp(der, key_spki_p256, SPKI_POINT) == 0 && der[SPKI_POINT] == 0x04
            ? 0
            : TERR_INVALID;

    if (err == 0)
        memcpy(out, der + SPKI_POINT + 1, 2 * COORDINATE);
    OPENSSL_free(der);
    return err;
}

/* False: a kind that this program does not make, as P-384; an operator has put it there. */
bool
acme_key_kind(EVP_PKEY *key, enum acme_key_kind *out)
{
    unsigned char point[2 * COORDINATE];

    *out = EVP_PKEY_id(key) == EVP_PKEY_RSA ? ACME_RSA : ACME_ECDSA;
    return *out == ACME_RSA || key_point(key, point) == 0;
}

json_t *
acme_key_jwk(EVP_PKEY *key)
{
    unsigned char point[2 * COORDINATE];
    char x[ACME_B64_SIZE(COORDINATE)], y[ACME_B64_SIZE(COORDINATE)];

    if (key_point(key, point) != 0)
        return NULL;
    acme_b64_put(x, point, COORDINATE);
    acme_b64_put(y, point + COORDINATE, COORDINATE);
    return json_pack("{ssssssss}", "crv", "P-256", "kty", "EC", "x", x, "y", y);
}

int
acme_key_thumb(EVP_PKEY *key, char out[static ACME_THUMB_SIZE])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    json_t *jwk = acme_key_jwk(key);
    /* RFC 7638 3.2 has exactly these members, ordered by name, without white space (3.3): one byte more is another
     * account to a CA. */
    char *text = jwk != NULL ? json_dumps(jwk, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    bool ok = text != NULL && EVP_Digest(text, strlen(text), hash, &len, EVP_sha256(), NULL) == 1;

    free(text);
    json_decref(jwk);
    if (!ok)
        return TERR_INVALID;
    tassert(ACME_B64_SIZE(len) == ACME_THUMB_SIZE);
    acme_b64_put(out, hash, len);
    return 0;
}

/* DER's r or s, with zeros in front: one signature of 128 has a number that is shorter than its field. */
static bool
key_put_number(const BIGNUM *n, unsigned char out[static COORDINATE])
{
    int len = n != NULL ? BN_num_bytes(n) : COORDINATE + 1;

    if (len > COORDINATE)
        return false;
    memset(out, 0, COORDINATE);
    BN_bn2bin(n, out + COORDINATE - len);
    return true;
}

int
acme_key_es256(EVP_PKEY *key, struct slice text, unsigned char out[static ACME_ES256_BYTES])
{
    unsigned char der[128];
    const unsigned char *at = der;
    size_t len = sizeof(der);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ECDSA_SIG *sig = NULL;
    bool ok = ctx != NULL && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
              EVP_DigestSign(ctx, der, &len, (const unsigned char *)text.ptr, text.len) == 1;

    /* JWS has r and s behind each other, of fixed length (RFC 7518 3.4), and libcrypto gives DER. */
    if (ok)
        sig = d2i_ECDSA_SIG(NULL, &at, (long)len);
    ok = sig != NULL && key_put_number(ECDSA_SIG_get0_r(sig), out) &&
         key_put_number(ECDSA_SIG_get0_s(sig), out + COORDINATE);
    ECDSA_SIG_free(sig);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return ok ? 0 : TERR_INVALID;
}
