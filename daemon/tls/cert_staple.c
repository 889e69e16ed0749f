/* cert_staple.c -- OCSP responses: read, judged, and given to clients that ask.
 *
 * Files are an operator's (a cron job with `openssl ocsp`): tarnd asks no responder.  A response that is not good is a
 * remark and never an error: a handshake without one succeeds, unless the certificate says must-staple. */
#include "daemon/tls/cert_staple.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/ssl.h>

#include "daemon/base/terr.h"
#include "daemon/tls/cert_file.h"
#include "daemon/tls/cert_store.h"

/* Hangs on the leaf as its extra data, so it lives as long as any SSL object that uses the certificate, also behind
 * a reload. */
struct cert_staple {
    int64_t until_s;
    size_t len;
    unsigned char der[];
};

/* Of the process: an index cannot be given back. */
static int staple_index = -1;
static pthread_once_t staple_once = PTHREAD_ONCE_INIT;

/* By malloc() and free(), not the library's: it is charged with the store's memory, not with TLS's. */
static void
staple_on_free(void *parent, void *ptr, CRYPTO_EX_DATA *data, int index, long argl, void *argp)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)argl;
    (void)argp;
    free(ptr);
}

static void
staple_start(void)
{
    staple_index = X509_get_ex_new_index(0, NULL, NULL, NULL, staple_on_free);
}

/* RFC 5019 names certificates by SHA-1; others by SHA-256. */
static bool
staple_find(OCSP_BASICRESP *basic, X509 *leaf, X509 *issuer, int *status,
    ASN1_GENERALIZEDTIME **from, ASN1_GENERALIZEDTIME **until)
{
    const EVP_MD *const digests[] = {EVP_sha1(), EVP_sha256()};

    for (unsigned i = 0; i < 2; i++) {
        OCSP_CERTID *id = OCSP_cert_to_id(digests[i], leaf, issuer);
        int found =
            id != NULL && OCSP_resp_find_status(basic, id, status, NULL, NULL, from, until) == 1;

        OCSP_CERTID_free(id);
        if (found)
            return true;
    }
    return false;
}

/* 0: it has none.  nextUpdate is optional (RFC 6960 4.2.2.1); what has no end would be sent for ever. */
static int64_t
staple_time(const ASN1_GENERALIZEDTIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* By the issuer itself, or by a responder with its mandate (RFC 6960 4.2.2.2).  Clients that find another end the
 * handshake, so a forged one is worse than none. */
static bool
staple_is_signed(OCSP_BASICRESP *basic, X509 *issuer)
{
    STACK_OF(X509) *certs = sk_X509_new_null();
    X509_STORE *store = X509_STORE_new();
    /* The issuer alone is trusted, and needs no root behind it (PARTIAL_CHAIN): the system's CAs have no say in this. */
    bool good = certs != NULL && store != NULL && X509_STORE_add_cert(store, issuer) == 1 &&
                X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) == 1 &&
                sk_X509_push(certs, issuer) > 0 && OCSP_basic_verify(basic, certs, store, 0) == 1;

    sk_X509_free(certs);
    X509_STORE_free(store);
    return good;
}

/* Until when it is good; 0, and *why: it is not. */
static int64_t
staple_judge(OCSP_RESPONSE *response, X509 *leaf, X509 *issuer, int64_t now_s, const char **why)
{
    OCSP_BASICRESP *basic = OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL
                                ? OCSP_response_get1_basic(response)
                                : NULL;
    ASN1_GENERALIZEDTIME *from = NULL, *until = NULL;
    int64_t until_s = 0;
    int status = V_OCSP_CERTSTATUS_UNKNOWN;

    *why = NULL;
    /* The signature last: it costs a hundred times what the others do. */
    if (basic == NULL)
        *why = "is an error of the responder";
    else if (issuer == NULL)
        *why = "cannot be checked, because the certificate's file does not have its issuer";
    else if (!staple_find(basic, leaf, issuer, &status, &from, &until))
        *why = "is about another certificate";
    else if (status != V_OCSP_CERTSTATUS_GOOD)
        *why = "does not say `good`: the certificate is revoked, or not known to the responder";
    else if (staple_time(from) > now_s || staple_time(until) <= now_s)
        *why = "is not good now: it is from another time, or does not say until when it is good";
    else if (!staple_is_signed(basic, issuer))
        *why = "is not signed by the certificate's issuer";
    else
        until_s = staple_time(until);
    OCSP_BASICRESP_free(basic);
    return until_s;
}

static bool
staple_keep(X509 *leaf, struct slice der, int64_t until_s)
{
    struct cert_staple *staple = malloc(sizeof(*staple) + der.len);

    /* Parses run at once on several threads. */
    pthread_once(&staple_once, staple_start);
    if (staple == NULL)
        return false;
    staple->until_s = until_s;
    staple->len = der.len;
    memcpy(staple->der, der.ptr, der.len);
    if (staple_index >= 0 && X509_set_ex_data(leaf, staple_index, staple) == 1)
        return true;
    free(staple);
    return false;
}

int64_t
cert_staple_read(
    X509 *leaf, X509 *issuer, const char *path, int64_t now_s, struct cert_report *report)
{
    struct cert_report none = {.nrows = 0}; /* that there is no such file is no news */
    struct cert_buffer buffer = {NULL, 0};
    struct cert_file_id id;
    struct slice der;
    const char *why = "is not an OCSP response in DER";
    int64_t until_s = 0;
    int rc = cert_file_read(path, &buffer, &der, &id, &none);

    cert_report_free(&none);
    if (rc == 0) {
        const unsigned char *at = (const unsigned char *)der.ptr;
        OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)der.len);

        if (response != NULL)
            until_s = staple_judge(response, leaf, issuer, now_s, &why);
        OCSP_RESPONSE_free(response);
        if (until_s != 0 && !staple_keep(leaf, der, until_s))
            until_s = 0;
        else if (until_s == 0)
            cert_report_add(report, false, path, 0, "%s; it is not sent", why);
    } else if (rc != TERR_NOTFOUND)
        cert_report_add(report, false, path, 0, "the OCSP response cannot be read; it is not sent");
    ERR_clear_error();
    cert_buffer_fini(&buffer);
    return until_s;
}

int
cert_on_status(SSL *ssl, void *ctx)
{
    X509 *leaf = SSL_get_certificate(ssl); /* that was chosen for this handshake */
    const struct cert_staple *staple;
    unsigned char *copy;

    (void)ctx;
    pthread_once(&staple_once, staple_start);
    staple = leaf != NULL && staple_index >= 0 ? X509_get_ex_data(leaf, staple_index) : NULL;
    /* Asked for at each handshake: it was good when it was read, perhaps days ago. */
    if (staple == NULL || staple->until_s <= (int64_t)time(NULL))
        return SSL_TLSEXT_ERR_NOACK;
    /* The library frees it, with its own free(). */
    copy = OPENSSL_memdup(staple->der, staple->len);
    if (copy == NULL || SSL_set_tlsext_status_ocsp_resp(ssl, copy, staple->len) != 1) {
        OPENSSL_free(copy);
        return SSL_TLSEXT_ERR_NOACK;
    }
    return SSL_TLSEXT_ERR_OK;
}
