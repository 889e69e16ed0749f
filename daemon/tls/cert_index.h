/* cert_index.h -- what a table must know of a certificate, read from its DER without OpenSSL.
 *
 *   facts   names, dates, kind and size of key, and by which signature: slices into the DER
 *   packed  names one behind the other, each behind a byte with its length
 *
 * OpenSSL builds a tree of some 6 kB in 50 microseconds from what is looked at here in 1, and copies nothing
 * that can be skipped.  Signatures are not verified: a server presents its certificate and does not judge it.
 *
 * Threads: any.  Errors: TERR_SYNTAX.  Source: RFC 5280; a file that may be cut, changed or foreign, so each length
 * is checked against what is left.
 */
#ifndef TARN_CERT_INDEX_H
#define TARN_CERT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/tls/cert_table.h"

enum {
    CERT_NAME_MAX = 254,     /* bytes of a host name in text form and NUL; a name is at most 253 */
    CERT_NAMES_MAX = 2000,   /* of a certificate; authorities stop at 100 to 1,000 */
    CERT_ISSUER_MAX = 64,    /* bytes shown, with NUL */
    CERT_RSA_BITS_MIN = 2048 /* OpenSSL's security level 2 refuses less */
};

enum cert_digest {
    CERT_DIGEST_OTHER, /* nothing is known against it */
    CERT_DIGEST_MD5,   /* or MD2 */
    CERT_DIGEST_SHA1,
};

struct cert_facts {
    struct slice subject, issuer; /* Name in DER, to be compared */
    struct slice san;             /* what subjectAltName has; empty: there is none */
    struct slice cn;              /* the subject's last common name */
    int64_t not_before_s, not_after_s;
    enum cert_kind kind; /* CERT_KINDS: neither */
    unsigned key_bits;   /* 0: a curve that is not P-256, P-384 or P-521 */
    enum cert_digest signed_by;
    bool is_acme; /* of tls-alpn-01 (RFC 8737 3) */
};

/* 0, or TERR_SYNTAX and *why.  Slices borrow `der`. */
int cert_facts_read(struct cert_facts *out, struct slice der, const char **why);

/* Why no client would take it from a server, and what would be right; NULL: it can be served. */
const char *cert_facts_misfit(const struct cert_facts *f);

/* The names in normal form (lower case, no final dot, an address as inet_ntop(3) writes it), packed into `out`,
 * which has `room`.  Returns the bytes, and counts those in *nnames and those left out in *nbad: no host name
 * (a NUL, UTF-8, a wildcard inside a label), or no room. */
size_t cert_facts_names(
    const struct cert_facts *f, char *out, size_t room, unsigned *nnames, unsigned *nbad);

/* Common name of the issuer or else its organisation, as printable ASCII; "" when it has neither. */
void cert_name_show(struct slice name, char out[CERT_ISSUER_MAX]);

/* `in` as a host name in normal form; its length, or 0: it is none. */
size_t cert_name_fold(struct slice in, char out[CERT_NAME_MAX]);

#endif
