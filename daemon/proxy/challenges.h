/* challenges.h -- what an ACME CA is answered at any node of a fleet, whichever of them asked for a certificate: the
 * text for a token (RFC 8555 8.3, http-01), or for CHALLENGE_TLS and a host's name the certificate to be shown, with
 * its key, as PEM (RFC 8737 3, tls-alpn-01).
 *
 * Few, for seconds, and asked for by few: a lock is taken for a request below CHALLENGE_PATH and for a handshake that
 * offers acme-tls/1, and by no other.
 *
 * Threads: any. */
#ifndef TARN_CHALLENGES_H
#define TARN_CHALLENGES_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/span.h"

#define CHALLENGE_PATH "/.well-known/acme-challenge/"
#define CHALLENGE_TLS  "tls-alpn-01/"

enum {
    CHALLENGE_TOKEN_MAX = 128, /* base64url of at least 128 bits: RFC 8555 8.1 */
    CHALLENGE_NAME_MAX = 12 + 253,
    CHALLENGE_TEXT_MAX = 4096, /* a certificate of one name and a key of P-256 take 1,000 */
    CHALLENGES_MAX = 256,
};

struct challenges;

struct challenges *challenges_new(void); /* NULL: no memory */
void challenges_free(struct challenges **cp);

/* As base64url has it, and no longer than that. */
bool challenge_is_token(struct slice token);
/* A token, or CHALLENGE_TLS and a host's name in lower case. */
bool challenge_is_name(struct slice name);
/* Both are copied; an empty text: it is forgotten.  False: too many, too long, no name, or no memory. */
bool challenges_set(struct challenges *c, struct slice name, struct slice text);
/* A copy; its length, 0: there is none. */
size_t challenges_find(struct challenges *c, struct slice name, char out[CHALLENGE_TEXT_MAX]);

#endif
