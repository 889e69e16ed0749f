/* removal.h -- what last became of a key, to explain why it is not stored.
 *
 * A table of fixed memory, charged to the store; a key's place is overwritten by what became of
 * another that has the same one.  So an answer may be missing, but (except one in 16 million) is
 * never another key's.  Written where something leaves or is not kept, never by a hit.
 *
 * Threads: any; a place is one atomic word.
 */
#ifndef TARN_REMOVAL_H
#define TARN_REMOVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/http/freshness.h"

/* clang-format off */
/*    id, name in JSON, what an operator reads */
#define REMOVAL_TABLE(X)                                                                              \
    X(EVICTED, "evicted", "it was evicted to make room for other responses")                       \
    X(PURGED, "purged", "it was purged")                                                           \
    X(TAGGED, "purged-by-tag", "it was purged, by one of its tags")                                \
    X(CHANGED, "invalidated", "it was invalidated by an unsafe request (POST, PUT, DELETE)")       \
    X(BANNED, "banned", "a ban matched it")                                                        \
    X(CUT, "cut", "the backend cut its body short")                                                \
    X(OUTGREW, "outgrew", "its body grew larger than max_object_size, or larger than the room in the store") \
    X(CROWDED, "crowded", "there were too many variants under its key, and it was the oldest")     \
    X(NO_SLOT, "no-slot", "the index was full")                                                    \
    X(FAILED, "failed", "the fetch failed: no connection, or no usable response")                  \
    X(ABSENT, "absent", "the backend answered 404 or 410 (negative cache)")
/* clang-format on */

enum removal {
    REMOVAL_NONE,
#define X(id, name, text) REMOVAL_##id,
    REMOVAL_TABLE(X)
#undef X
    REMOVAL_COUNT,
    REMOVAL_REFUSED = 64, /* and enum fresh_refusal: it was not stored */
};

struct removals {
    _Atomic(uint64_t) *places; /* NULL: none are remembered */
    size_t mask;
};

struct removal_seen {
    unsigned what; /* enum removal */
    int64_t ago_s;
};

/* `places`: a power of two of them, all zero; borrowed. */
void removals_init(struct removals *f, void *places, size_t n);
void removals_note(struct removals *f, const struct hash128 *key, unsigned what);
/* False: nothing is known. */
bool removals_recall(const struct removals *f, const struct hash128 *key, struct removal_seen *out);
const char *removal_name(unsigned what);
const char *removal_text(unsigned what);

#endif
