/* hash.h -- XXH3-128 under a secret drawn when the process starts.
 *
 * The secret keeps strangers from choosing keys that collide.  The only home of xxhash.h.
 */
#ifndef TARN_HASH_H
#define TARN_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint64_t lo, hi;
};

/* Before any hash; aborts when the system has no randomness (start-up only). */
void hash_secret_draw(void);
/* A fixed secret, for tests and simulations that must repeat. */
void hash_secret_fix(uint64_t seed);

const char *hash_version(void); /* "0.8.1" */
struct hash128 hash_bytes(const void *bytes, size_t len);
/* For non-secret uses: checksums, spreading. */
uint64_t hash_plain(const void *bytes, size_t len);

static inline bool
hash128_eq(struct hash128 a, struct hash128 b)
{
    return ((a.lo ^ b.lo) | (a.hi ^ b.hi)) == 0;
}

#endif
