/* fate.h -- what last became of a key, for who asks why it is not stored.
 *
 * A table of fixed memory, charged to the store; a key's place is overwritten by what became of
 * another that has the same one.  So an answer may be missing, but, but for one in 16 million, is
 * never another key's.  Written where something leaves or is not kept, never by a hit.
 *
 * Threads: any; a place is one atomic word.
 */
#ifndef TARN_FATE_H
#define TARN_FATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/http/freshness.h"

/* clang-format off */
/*    id, name in JSON, what an operator reads */
#define FATE_TABLE(X)                                                                              \
    X(EVICTED, "evicted", "it was evicted: room was needed for others, which were of more use")    \
    X(PURGED, "purged", "it was purged")                                                           \
    X(TAGGED, "purged-by-tag", "it was purged, by one of its tags")                                \
    X(CHANGED, "invalidated", "a request that changes things (POST, PUT, DELETE) was answered for it") \
    X(BANNED, "banned", "a ban matched it")                                                        \
    X(CUT, "cut", "the backend cut its body short")                                                \
    X(OUTGREW, "outgrew", "its body grew larger than max_object_size, or than there was room for") \
    X(CROWDED, "crowded", "there were too many variants under its key, and it was the oldest")     \
    X(NO_SLOT, "no-slot", "the index was full")                                                    \
    X(FAILED, "failed", "the backend could not be asked, or answered nothing usable")              \
    X(ABSENT, "absent", "the backend said that nothing is there")
/* clang-format on */

enum fate {
    FATE_NONE,
#define X(id, name, text) FATE_##id,
    FATE_TABLE(X)
#undef X
    FATE_COUNT,
    FATE_REFUSED = 64, /* and enum fresh_refusal: it was not stored */
};

struct fates {
    _Atomic(uint64_t) *places; /* NULL: none are remembered */
    size_t mask;
};

struct fate_seen {
    unsigned what; /* enum fate */
    int64_t ago_s;
};

/* `places`: a power of two of them, all zero; borrowed. */
void fates_init(struct fates *f, void *places, size_t n);
void fates_note(struct fates *f, const struct hash128 *key, unsigned what);
/* False: nothing is known. */
bool fates_recall(const struct fates *f, const struct hash128 *key, struct fate_seen *out);
const char *fate_name(unsigned what);
const char *fate_text(unsigned what);

#endif
