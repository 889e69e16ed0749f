/* cert_keys.h -- a certificate with its chain and key, parsed by OpenSSL.
 *
 * Never changed once it is made, and counted; SSL objects that use it have OpenSSL's own counts.  OpenSSL
 * overwrites a key when the last one lets go of it; what held the key's text is overwritten here.
 *
 * Threads: any.  Parsing blocks.
 */
#ifndef TARN_CERT_KEYS_H
#define TARN_CERT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/tls/cert_report.h"

struct cert_keys;

/* Borrowed for the call. */
struct cert_source {
    const char *certificate, *key, *ocsp; /* as in struct cert_files */
    struct slice text;  /* .ptr not NULL: that of the certificate's file, which is not read */
    struct slice names; /* packed, that it must have; .ptr NULL: any */
    int64_t now_s;
};

enum {
    CERT_CHAIN_MAX = 16, /* certificates of a file; real chains have two to four */
};

/* *out is counted once.  TERR_CONFIG: the report says why; TERR_NOTFOUND: there is no such file; TERR_NOMEM.
 * Remarks of the report are about what is served all the same. */
int cert_keys_parse(
    struct cert_keys **out, const struct cert_source *source, struct cert_report *report);

void cert_keys_ref(struct cert_keys *k);
void cert_keys_unref(struct cert_keys **kp);

bool cert_keys_is_acme(const struct cert_keys *k); /* of tls-alpn-01 */
bool cert_keys_is_rsa(const struct cert_keys *k);
/* nextUpdate of its OCSP response; 0: it has none. */
int64_t cert_keys_staple_until(const struct cert_keys *k);

#endif
