/* hash.c -- the only home of xxHash. */
#include "daemon/base/hash.h"

#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/tassert.h"

static unsigned char hash_secret[XXH3_SECRET_SIZE_MIN * 2];

void
hash_secret_draw(void)
{
    /* Drawn at each start: else a client could compute keys that fall into one bucket. */
    ssize_t n = getrandom(hash_secret, sizeof(hash_secret), 0);

    tassert(n == (ssize_t)sizeof(hash_secret));
}

/* For tests and measurements, which want the same places in each run. */
void
hash_secret_fix(uint64_t seed)
{
    for (size_t i = 0; i < sizeof(hash_secret); i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        hash_secret[i] = (unsigned char)(seed >> 56);
    }
}

const char *
hash_version(void)
{
#define HASH_STR2(x) #x
#define HASH_STR(x)  HASH_STR2(x)
    return HASH_STR(XXH_VERSION_MAJOR) "." HASH_STR(XXH_VERSION_MINOR) "." HASH_STR(
        XXH_VERSION_RELEASE);
}

struct hash128
hash_bytes(const void *bytes, size_t len)
{
    XXH128_hash_t h = XXH3_128bits_withSecret(bytes, len, hash_secret, sizeof(hash_secret));

    return (struct hash128){h.low64, h.high64};
}

uint64_t
hash_plain(const void *bytes, size_t len)
{
    /* Without the secret: for what several processes must agree on, as a table file's keys or the
     * member of a director. */
    return XXH3_64bits(bytes, len);
}
