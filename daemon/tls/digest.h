/* digest.h -- SHA-256 of a run of bytes, and codes by it.
 *
 * Threads: any; 1.5 to 2 GB/s with SHA extensions, 400 MB/s without. */
#ifndef TARN_DIGEST_H
#define TARN_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    DIGEST_LEN = 32,
};

/* False: no memory. */
bool digest_sha256(struct slice bytes, uint8_t out[DIGEST_LEN]);
/* HMAC-SHA-256 (RFC 2104).  False: no memory. */
bool digest_hmac(struct slice key, struct slice bytes, uint8_t out[DIGEST_LEN]);

#endif
