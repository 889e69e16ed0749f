/* cert_make.c -- keys and certificates, by OpenSSL. */
#include "t/unit/cert_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "daemon/base/tassert.h"

/* By calls that AWS-LC has, too. */
static EVP_PKEY *
make_key(int kind, int curve, unsigned bits)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(kind, NULL);
    EVP_PKEY *key = NULL;

    tassert(ctx != NULL && EVP_PKEY_keygen_init(ctx) == 1);
    if (kind == EVP_PKEY_EC)
        tassert(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, curve) == 1);
    else if (kind == EVP_PKEY_RSA)
        tassert(EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, (int)bits) == 1);
    tassert(EVP_PKEY_keygen(ctx, &key) == 1);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

EVP_PKEY *
make_ec(const char *curve)
{
    int nid = EC_curve_nist2nid(curve);

    return make_key(EVP_PKEY_EC, nid != NID_undef ? nid : OBJ_sn2nid(curve), 0);
}

EVP_PKEY *
make_rsa(unsigned bits)
{
    return make_key(EVP_PKEY_RSA, 0, bits);
}

EVP_PKEY *
make_ed25519(void)
{
    return make_key(EVP_PKEY_ED25519, 0, 0);
}

static void
make_cn(X509_NAME *name, const char *cn)
{
    if (cn != NULL)
        tassert(X509_NAME_add_entry_by_txt(
                    name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0) == 1);
}

static void
make_ext(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;

    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    tassert(ext != NULL && X509_add_ext(cert, ext, -1) == 1);
    X509_EXTENSION_free(ext);
}

static void
make_names(X509 *cert, const struct slice *names)
{
    GENERAL_NAMES *all = GENERAL_NAMES_new();

    for (; names->len > 0; names++) {
        GENERAL_NAME *one = GENERAL_NAME_new();
        ASN1_IA5STRING *text = ASN1_IA5STRING_new();

        tassert(ASN1_STRING_set(text, names->ptr, (int)names->len) == 1);
        GENERAL_NAME_set0_value(one, GEN_DNS, text);
        tassert(sk_GENERAL_NAME_push(all, one) > 0);
    }
    tassert(X509_add1_ext_i2d(cert, NID_subject_alt_name, all, 0, 0) == 1);
    GENERAL_NAMES_free(all);
}

static void
make_acme(X509 *cert)
{
    static const unsigned char digest[34] = {0x04, 0x20};
    ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
    ASN1_OBJECT *oid = OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1);
    X509_EXTENSION *ext;

    tassert(ASN1_OCTET_STRING_set(value, digest, sizeof(digest)) == 1);
    ext = X509_EXTENSION_create_by_OBJ(NULL, oid, 1, value);
    tassert(ext != NULL && X509_add_ext(cert, ext, -1) == 1);
    X509_EXTENSION_free(ext);
    ASN1_OBJECT_free(oid);
    ASN1_OCTET_STRING_free(value);
}

X509 *
make_cert(const struct cert_wish *wish)
{
    static long serial;
    X509 *cert = X509_new();
    time_t now = time(NULL);
    X509_NAME *foreign = X509_NAME_new();

    tassert(cert != NULL && foreign != NULL);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial + now % 100000 * 1000);
    ASN1_TIME_set(X509_getm_notBefore(cert), wish->until_s == 0 ? now - 86400 : wish->from_s);
    ASN1_TIME_set(X509_getm_notAfter(cert), wish->until_s == 0 ? now + 90 * 86400 : wish->until_s);
    X509_set_pubkey(cert, wish->key);
    make_cn(X509_get_subject_name(cert), wish->cn);
    make_cn(foreign, wish->issuer_cn_only);
    X509_set_issuer_name(cert, wish->issuer_cn_only != NULL ? foreign
                               : wish->issuer != NULL       ? X509_get_subject_name(wish->issuer)
                                                            : X509_get_subject_name(cert));
    X509_NAME_free(foreign);
    make_ext(cert, NID_basic_constraints, wish->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (wish->names != NULL)
        make_names(cert, wish->names);
    else if (wish->san != NULL)
        make_ext(cert, NID_subject_alt_name, wish->san);
    if (wish->is_acme)
        make_acme(cert);
    tassert(X509_sign(cert, wish->issuer_key != NULL ? wish->issuer_key : wish->key,
                wish->digest != NULL ? wish->digest : EVP_sha256()) > 0);
    return cert;
}

struct span
make_der(X509 *cert)
{
    unsigned char *p;
    int len = i2d_X509(cert, NULL);
    struct span out = {len > 0 ? malloc((size_t)len) : NULL, (size_t)len};

    tassert(out.ptr != NULL);
    p = (unsigned char *)out.ptr;
    i2d_X509(cert, &p);
    return out;
}

/* By another name first, as careful programs do: the old one's inode is not written again. */
static FILE *
make_open(const char *path, char part[512])
{
    FILE *f;

    snprintf(part, 512, "%s.part", path);
    f = fopen(part, "w");
    tassert(f != NULL);
    return f;
}

static void
make_done(FILE *f, const char *part, const char *path, unsigned mode)
{
    tassert(fclose(f) == 0 && chmod(part, mode) == 0 && rename(part, path) == 0);
}

void
make_file(const char *path, X509 *const *certs, EVP_PKEY *key, unsigned mode)
{
    char part[512];
    FILE *f = make_open(path, part);

    for (; *certs != NULL; certs++)
        tassert(PEM_write_X509(f, *certs) == 1);
    if (key != NULL)
        tassert(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
    make_done(f, part, path, mode);
}

void
make_encrypted_key(const char *path, EVP_PKEY *key)
{
    char part[512];
    FILE *f = make_open(path, part);
    char password[] = "secret";

    tassert(PEM_write_PKCS8PrivateKey(f, key, EVP_aes_128_cbc(), password, 6, NULL, NULL) == 1);
    make_done(f, part, path, 0600);
}

void
make_ocsp(const char *path, X509 *cert, X509 *issuer, EVP_PKEY *issuer_key, int64_t until_s)
{
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), cert, issuer);
    ASN1_TIME *from = ASN1_TIME_set(NULL, time(NULL) - 3600), *until = ASN1_TIME_set(NULL, until_s);
    OCSP_RESPONSE *response;
    char part[512];
    FILE *f = make_open(path, part);
    unsigned char *der = NULL;
    int len;

    tassert(
        OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, from, until) != NULL);
    tassert(OCSP_basic_sign(basic, issuer, issuer_key, EVP_sha256(), NULL, 0) == 1);
    response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    len = i2d_OCSP_RESPONSE(response, &der);
    tassert(len > 0 && fwrite(der, 1, (size_t)len, f) == (size_t)len);
    make_done(f, part, path, 0644);
    OPENSSL_free(der);
    OCSP_RESPONSE_free(response);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    OCSP_CERTID_free(id);
    OCSP_BASICRESP_free(basic);
}
