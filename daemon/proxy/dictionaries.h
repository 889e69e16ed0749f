/* dictionaries.h -- earlier versions of responses, kept so that later ones can be packed by them (RFC 9842).
 *
 *   dictionary   the content of one, as it was before any coding; named by its SHA-256
 *   site         scheme and authority: a dictionary is for responses of its own site alone
 *
 * A client that has one says so with each request for what it was offered for; which paths these are is the
 * client's to know.  So a dictionary is found by its hash and site, and by nothing else.  The one used longest ago
 * leaves when there are too many, or too large ones.
 *
 * Threads: any.
 */
#ifndef TARN_DICTIONARIES_H
#define TARN_DICTIONARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/span.h"

struct dictionaries;
struct dictionary;
struct storage;

enum {
    DICTIONARIES_MAX = 64,
};

/* Charged to `storage`, which is borrowed: `most` bytes in all, a quarter of these each.  0 or TERR_NOMEM. */
int dictionaries_open(struct dictionaries **out, struct storage *storage, uint64_t most);
/* None is held. */
void dictionaries_close(struct dictionaries **dp);

/* The largest that is kept. */
uint64_t dictionaries_largest(const struct dictionaries *d);
/* A copy of the bytes, if it is new.  Returns whether it is kept. */
bool dictionaries_add(
    struct dictionaries *d, const uint8_t hash[32], const struct hash128 *site, struct slice bytes);
/* Might there be one?  Without a lock. */
bool dictionaries_may_have(const struct dictionaries *d, const uint8_t hash[32]);
/* Held by the caller; NULL: there is none. */
struct dictionary *dictionaries_find(
    struct dictionaries *d, const uint8_t hash[32], const struct hash128 *site);
void dictionaries_drop(struct dictionaries *d, struct dictionary **dict);

/* Borrowed, while it is held. */
struct slice dictionary_bytes(const struct dictionary *dict);
const uint8_t *dictionary_hash_of(const struct dictionary *dict);

#endif
