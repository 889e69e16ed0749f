/* acme_cert.h -- certificates: requested, read, judged, and the one of tls-alpn-01.
 *
 * Only calls of OpenSSL 3.0 that AWS-LC has, too.  Threads: a chain is one thread's.
 */
#ifndef TARN_ACME_CERT_H
#define TARN_ACME_CERT_H

#include <openssl/x509.h>

#include "daemon/acme/acme_key.h"

enum {
    ACME_CHAIN_MAX = 10, /* certificates; a CA sends two or three */
    ACME_CERTID_SIZE = 256,
};

/* A chain as it came or lies in a file, leaf first. */
struct acme_chain {
    X509 *certs[ACME_CHAIN_MAX]; /* owned */
    unsigned n;
};

/* What is known of a leaf. */
struct acme_leaf {
    int64_t not_before_s, not_after_s;
    char certid[ACME_CERTID_SIZE]; /* RFC 9773 4.1; "" where the certificate has none */
};

/* The CSR in DER for the names, signed by the key, which the caller frees.  0, TERR_IO. */
int acme_csr(EVP_PKEY *key, const struct acme_wanted *w, struct span *out, struct acme_fail *f);

/* The certificates of `pem`, 1 to ACME_CHAIN_MAX; what is no certificate is skipped in a file of ours
 * (`keys_too`) and an error in a CA's answer.  The caller gives them to acme_chain_fini(). */
int acme_chain_read(struct slice pem, bool keys_too, struct acme_chain *out, struct acme_fail *f);
void acme_chain_fini(struct acme_chain *c);
/* As PEM, which the caller frees.  0, TERR_NOMEM. */
int acme_chain_pem(const struct acme_chain *c, struct span *out);

/* Are times and certID readable?  0, TERR_CORRUPT. */
int acme_leaf_read(const struct acme_chain *c, struct acme_leaf *out, struct acme_fail *f);
/* Has the leaf exactly these names?  Else *why is what differs, in a static text. */
bool acme_leaf_has_names(const struct acme_chain *c, const struct acme_wanted *w, const char **why);

/* May this chain replace what is served?  It belongs to the key and to the names, each certificate is
 * signed by the next one, and the leaf is good now. */
int acme_chain_judge(const struct acme_chain *c, EVP_PKEY *key, const struct acme_wanted *w,
    int64_t now_s, struct acme_fail *f);

/* The chain, then the key, as one PEM, which the caller gives to acme_key_forget().  0, TERR_NOMEM. */
int acme_pem_join(const struct acme_chain *c, EVP_PKEY *key, struct span *out);

/* The self-signed certificate that proves `authorization` for `name` (RFC 8737 3), and its key, in PEM,
 * which the caller gives to acme_key_forget(). */
int acme_cert_of_challenge(
    const char *name, const char *authorization, struct span *out, struct acme_fail *f);

#endif
