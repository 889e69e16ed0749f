/* challenges.h -- what an ACME CA is answered at any node of a fleet, whichever of them asked for a certificate
 * (RFC 8555 8.3, http-01).
 *
 * Few, for seconds, and asked for by few: a lock is taken for a request below CHALLENGE_PATH, and by no other.
 *
 * Threads: any. */
#ifndef TARN_CHALLENGES_H
#define TARN_CHALLENGES_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/span.h"

#define CHALLENGE_PATH "/.well-known/acme-challenge/"

enum {
    CHALLENGE_TOKEN_MAX = 128, /* base64url of at least 128 bits: RFC 8555 8.1 */
    CHALLENGE_TEXT_MAX = 512,  /* the token, a point, and a thumbprint of 43 bytes */
    CHALLENGES_MAX = 256,
};

struct challenges;

struct challenges *challenges_new(void); /* NULL: no memory */
void challenges_free(struct challenges **cp);

/* As base64url has it, and no longer than that. */
bool challenge_is_token(struct slice token);
/* Both are copied; an empty text: it is forgotten.  False: too many, too long, or no token. */
bool challenges_set(struct challenges *c, struct slice token, struct slice text);
/* A copy; its length, 0: there is none. */
size_t challenges_find(struct challenges *c, struct slice token, char out[CHALLENGE_TEXT_MAX]);

#endif
