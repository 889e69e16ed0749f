/* acme_b64.h -- base64url without padding (RFC 4648 5), as JOSE writes bytes.
 *
 * Threads: any.
 */
#ifndef TARN_ACME_B64_H
#define TARN_ACME_B64_H

#include <stddef.h>

#include "daemon/base/span.h"

/* Bytes of the text, its NUL too. */
#define ACME_B64_SIZE(n) (((n)*4 + 2) / 3 + 1)

/* As text that the caller frees; NULL: no memory. */
char *acme_b64(const void *bytes, size_t len);
/* The same into `out`, of ACME_B64_SIZE(len) bytes at least. */
void acme_b64_put(char *out, const void *bytes, size_t len);
/* How many bytes the text means, into `out` of `room` bytes.  TERR_SYNTAX: a byte that is not of the
 * alphabet, padding, bits that are not zero; TERR_LIMIT: no room. */
int acme_b64_read(struct slice text, void *out, size_t room);

#endif
