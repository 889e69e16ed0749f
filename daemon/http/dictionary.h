/* dictionary.h -- the fields of Compression Dictionary Transport (RFC 9842).
 *
 *   dictionary   a response that the client has, by which a later one is packed
 *   hash         SHA-256 of its content, by which both sides name it
 *
 * Threads: none of its own.
 */
#ifndef TARN_DICTIONARY_H
#define TARN_DICTIONARY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/message.h"

enum {
    DICTIONARY_HASH_LEN = 32,
};

/* Does the client have one for what it requests, and take dcz (RFC 9842 2.2, 5)?  Then `hash` is that of the one. */
bool dictionary_available(const struct http_message *req, uint8_t hash[DICTIONARY_HASH_LEN]);

/* Does the response say that it may be one: raw, and for paths that it names (RFC 9842 2.1)? */
bool dictionary_is_offered(const struct http_message *resp);

#endif
