/* acme_csr.c -- certificate requests, and the certificate of tls-alpn-01.
 *
 * Extensions are built from values, never from OpenSSL's configuration syntax: a name there is a text in which commas
 * and colons mean something. */
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "daemon/acme/acme_cert.h"
#include "daemon/base/terr.h"

#define OID_ACME_IDENTIFIER "1.3.6.1.5.5.7.1.31" /* RFC 8737 6.1 */

enum {
    HASH_BYTES = 32,
    CHALLENGE_LIFE_S = 7 * 86400, /* it is removed within minutes */
};

/* What was given away is freed with its new owner: GENERAL_NAME_set0_value() takes the text, a push that succeeds
 * the name. */
static bool
names_add(GENERAL_NAMES *names, const char *name)
{
    GENERAL_NAME *n = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();

    if (n == NULL || text == NULL || ASN1_STRING_set(text, name, (int)strlen(name)) != 1) {
        GENERAL_NAME_free(n);
        ASN1_IA5STRING_free(text);
        return false;
    }
    GENERAL_NAME_set0_value(n, GEN_DNS, text);
    if (sk_GENERAL_NAME_push(names, n) > 0)
        return true;
    GENERAL_NAME_free(n);
    return false;
}

/* subjectAltName; NULL: no memory. */
static X509_EXTENSION *
names_extension(const char *const *list, unsigned n)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    X509_EXTENSION *ext = NULL;
    bool ok = names != NULL;

    for (unsigned i = 0; ok && i < n; i++)
        ok = names_add(names, list[i]);
    if (ok)
        ext = X509V3_EXT_i2d(NID_subject_alt_name, 0, names);
    GENERAL_NAMES_free(names);
    return ext;
}

int
acme_csr(EVP_PKEY *key, const struct acme_wanted *w, struct span *out, struct acme_fail *f)
{
    X509_REQ *req = X509_REQ_new();
    X509_EXTENSIONS *list = sk_X509_EXTENSION_new_null();
    /* All names of the order, and no others: a CA refuses a request that differs from it (RFC 8555 7.4). */
    X509_EXTENSION *names = names_extension(w->names, w->nnames);
    unsigned char *der = NULL;
    int len = 0;
    /* SHA-256 whatever the key: only the CA looks at it, and all take it.  Version 0 is v1 (RFC 2986 4.1). */
    bool ok = req != NULL && list != NULL && names != NULL &&
              sk_X509_EXTENSION_push(list, names) > 0 && X509_REQ_set_version(req, 0) == 1 &&
              X509_REQ_set_pubkey(req, key) == 1 && X509_REQ_add_extensions(req, list) == 1 &&
              X509_REQ_sign(req, key, EVP_sha256()) > 0;
    char *copy = NULL;

    /* The subject stays empty: names are in subjectAltName (RFC 8555 7.4), the longest have no room in a
     * common name. */
    if (ok)
        len = i2d_X509_REQ(req, &der);
    copy = len > 0 ? malloc((size_t)len) : NULL;
    if (copy != NULL)
        memcpy(copy, der, (size_t)len);
    OPENSSL_free(der);
    X509_REQ_free(req);
    sk_X509_EXTENSION_free(list);
    X509_EXTENSION_free(names);
    if (copy == NULL)
        return acme_fail(f, TERR_IO, "no request could be made: %s", acme_key_why());
    *out = (struct span){copy, (size_t)len};
    return 0;
}

/* ---- tls-alpn-01 ---- */

/* Critical, and its value an octet string with the hash (RFC 8737 3). */
static X509_EXTENSION *
challenge_extension(const char *authorization)
{
    /* OpenSSL has no type for it; an octet string of 32 bytes is written by hand sooner than by ASN.1 templates. */
    unsigned char value[2 + HASH_BYTES] = {0x04, HASH_BYTES};
    ASN1_OBJECT *oid = OBJ_txt2obj(OID_ACME_IDENTIFIER, 1);
    ASN1_OCTET_STRING *text = ASN1_OCTET_STRING_new();
    X509_EXTENSION *ext = NULL;
    unsigned len = 0;

    if (oid != NULL && text != NULL &&
        EVP_Digest(authorization, strlen(authorization), value + 2, &len, EVP_sha256(), NULL) ==
            1 &&
        len == HASH_BYTES && ASN1_OCTET_STRING_set(text, value, sizeof(value)) == 1)
        ext = X509_EXTENSION_create_by_OBJ(NULL, oid, 1, text);
    ASN1_OCTET_STRING_free(text);
    ASN1_OBJECT_free(oid);
    return ext;
}

static bool
challenge_fill(X509 *x, EVP_PKEY *key, const char *name, const char *authorization)
{
    X509_EXTENSION *names = names_extension(&name, 1), *proof = challenge_extension(authorization);
    /* An issuer may not be empty (RFC 5280 4.1.2.4); what it says is for people who look at a handshake. */
    X509_NAME *subject = X509_NAME_new();
    /* With the 1 in front positive, and new each time (RFC 5280 4.1.2.2). */
    unsigned char random[7];
    uint64_t serial = 1;
    bool ok = names != NULL && proof != NULL && subject != NULL &&
              RAND_bytes(random, sizeof(random)) == 1;

    for (unsigned i = 0; ok && i < sizeof(random); i++)
        serial = serial << 8 | random[i];
    ok = ok && X509_set_version(x, 2) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial) == 1 &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
             (const unsigned char *)"tarn-acme tls-alpn-01", -1, -1, 0) == 1 &&
         X509_set_subject_name(x, subject) == 1 && X509_set_issuer_name(x, subject) == 1 &&
         /* The CA's clock may be behind ours. */
         X509_gmtime_adj(X509_getm_notBefore(x), -3600) != NULL &&
         X509_gmtime_adj(X509_getm_notAfter(x), CHALLENGE_LIFE_S) != NULL &&
         X509_set_pubkey(x, key) == 1 && X509_add_ext(x, names, -1) == 1 &&
         X509_add_ext(x, proof, -1) == 1 && X509_sign(x, key, EVP_sha256()) > 0;
    X509_NAME_free(subject);
    X509_EXTENSION_free(names);
    X509_EXTENSION_free(proof);
    return ok;
}

/* One file for both: between two renames tarnd could read a certificate and the key of another. */
int
acme_pem_join(const struct acme_chain *c, EVP_PKEY *key, struct span *out)
{
    struct span certs = {NULL, 0}, pem = {NULL, 0};
    char *whole = NULL;

    if (acme_chain_pem(c, &certs) == 0 && acme_key_pem(key, &pem) == 0)
        whole = malloc(certs.len + pem.len);
    if (whole != NULL) {
        memcpy(whole, certs.ptr, certs.len);
        memcpy(whole + certs.len, pem.ptr, pem.len);
        *out = (struct span){whole, certs.len + pem.len};
    }
    acme_key_forget(&pem);
    free(certs.ptr);
    return whole != NULL ? 0 : TERR_NOMEM;
}

int
acme_cert_of_challenge(
    const char *name, const char *authorization, struct span *out, struct acme_fail *f)
{
    struct acme_chain c = {.n = 0};
    EVP_PKEY *key = NULL;
    /* Of a kind that every CA's client takes, whatever the certificates are to be. */
    int err = acme_key_new(ACME_ECDSA, &key, f);

    if (err != 0)
        return err;
    c.certs[0] = X509_new();
    if (c.certs[0] != NULL)
        c.n = 1;
    if (c.n == 0 || !challenge_fill(c.certs[0], key, name, authorization) ||
        acme_pem_join(&c, key, out) != 0)
        err = acme_fail(
            f, TERR_IO, "no certificate for tls-alpn-01 could be made: %s", acme_key_why());
    acme_chain_fini(&c);
    EVP_PKEY_free(key);
    return err;
}
