/* digest.c -- SHA-256 by the library. */
#include "daemon/tls/digest.h"

#include "daemon/tls/tls_lib.h"

bool
digest_sha256(struct slice bytes, uint8_t out[DIGEST_LEN])
{
    unsigned len = 0;

    return EVP_Digest(bytes.ptr, bytes.len, out, &len, EVP_sha256(), NULL) == 1 &&
           len == DIGEST_LEN;
}

bool
digest_hmac(struct slice key, struct slice bytes, uint8_t out[DIGEST_LEN])
{
    unsigned len = 0;

    return HMAC(EVP_sha256(), key.ptr, (int)key.len, (const unsigned char *)bytes.ptr, bytes.len,
               out, &len) != NULL &&
           len == DIGEST_LEN;
}
