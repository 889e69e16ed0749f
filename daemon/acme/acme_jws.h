/* acme_jws.h -- signed requests: JWS in flattened JSON (RFC 7515 7.2.2, RFC 8555 6.2).
 *
 * Threads: any.
 */
#ifndef TARN_ACME_JWS_H
#define TARN_ACME_JWS_H

#include "daemon/acme/acme_key.h"

/* What stands in the protected header. */
struct acme_jws {
    EVP_PKEY *key;
    const char *kid;   /* the account's URL; NULL: the key itself (jwk), as newAccount wants it */
    const char *nonce; /* NULL: none */
    const char *url;
};

/* The signed body; `payload` is JSON, or empty for POST-as-GET.  The caller frees the text; NULL: the
 * key cannot sign so, or no memory. */
char *acme_jws(const struct acme_jws *j, struct slice payload);
/* External account binding: the account's key, signed with HS256 by the key that the CA gave (RFC 8555
 * 7.3.4).  NULL as above. */
json_t *acme_jws_binding(EVP_PKEY *account, const char *kid, struct slice mac_key, const char *url);
/* TOKEN.THUMBPRINT (RFC 8555 8.1), which the caller frees; NULL: as above. */
char *acme_jws_authorization(EVP_PKEY *account, const char *token);

#endif
