/* cert_staple.h -- an OCSP response that goes with a certificate (RFC 6066 8).
 *
 * It is kept with OpenSSL's certificate, so that the status callback finds it by the certificate that the handshake
 * chose, and it stays as long as that does.  cert_on_status() of cert_store.h is that callback.
 *
 * Threads: any.
 */
#ifndef TARN_CERT_STAPLE_H
#define TARN_CERT_STAPLE_H

#include <stdint.h>

#include <openssl/x509.h>

#include "daemon/tls/cert_report.h"

/* Reads the response for `leaf` and gives it to it.  Returns its nextUpdate; 0: there is none that is good, and a
 * remark says why.  `issuer` may be NULL.  Blocks. */
int64_t cert_staple_read(
    X509 *leaf, X509 *issuer, const char *path, int64_t now_s, struct cert_report *report);

#endif
