/* negative.h -- keys of which the origin says that nothing is there: the negative cache.
 *
 * A 404 or 410 that leaves a key, a status and a time here, and nothing else: no head, no body, no
 * object.  A flood of names that do not exist so costs memory of a fixed size, and nothing of what
 * is stored leaves for it.
 *
 *   side        one of two arrays of buckets; each key has one bucket in each
 *   bucket      five slots behind one sequence number, two cache lines
 *   generation  a number: entries of an older one are as good as gone
 *
 * The idea of a table of its own for what does not exist is that of OpenAFS's vlserver.
 *
 * A thread that inserts or removes a key holds that key's guard in the index (cuckoo_lock), so of
 * one key only one thing happens at a time.  What is inserted for another key may take its place.
 *
 * Threads: any.  Times are monotonic milliseconds.
 */
#ifndef TARN_NEGATIVE_H
#define TARN_NEGATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"

struct counters;
struct cuckoo_memory;
struct negative;

#define NEGATIVE_ENTRY_BYTES 32                  /* of memory, for each entry asked for */
#define NEGATIVE_TTL_MAX_MS  (INT64_C(86400000)) /* a name may be there tomorrow */

enum negative_found {
    NEGATIVE_ABSENT,
    NEGATIVE_PRESENT,
    NEGATIVE_UNSURE, /* its bucket was being written all the time */
};

struct negative_answer {
    uint16_t status; /* 404 or 410 */
    int64_t age_ms;  /* since the origin said so, within an eighth of a second; never below 0 */
    int64_t left_ms; /* > 0 */
};

/* What the origin said just now. */
struct negative_fact {
    uint16_t status; /* 404 or 410 */
    int64_t now_ms;
    int64_t age_ms; /* by then, >= 0 */
    int64_t ttl_ms; /* from now on, > 0; NEGATIVE_TTL_MAX_MS counts at most */
};

struct negative_stats {
    uint64_t entries_max; /* as configured */
    uint64_t bytes;       /* of all */
    uint64_t entries;     /* there now; those that expired count until another takes their place */
    uint64_t inserts;     /* those that renewed one included */
    uint64_t evicted;     /* not expired, when another took its place */
    uint64_t removed;     /* because the key exists, was purged or changed */
    uint64_t dropped;     /* left with their generation */
    uint32_t generation;
};

/* What negative_open() will take from its memory, to the byte. */
uint64_t negative_bytes(uint64_t entries);
/* Room for `entries` keys, > 0.  Borrows counters until negative_close().  0 or TERR_NOMEM. */
int negative_open(struct negative **out, uint64_t entries, const struct cuckoo_memory *memory,
    struct counters *counters);
/* Takes *np; it is no longer used. */
void negative_close(struct negative **np);

/* Takes no lock, never waits and writes nothing.  *out after PRESENT alone.  ABSENT is sure
 * for the holder of the key's guard; for others it may have been true a moment ago. */
enum negative_found negative_find(const struct negative *n, const struct hash128 *key,
    int64_t now_ms, struct negative_answer *out);

/* To be noted before the origin is asked. */
uint32_t negative_generation(const struct negative *n);
/* Under the key's guard.  False: everything was dropped since `generation`, so what the origin said
 * is not to be remembered. */
bool negative_insert(struct negative *n, const struct hash128 *key,
    const struct negative_fact *fact, uint32_t generation);
/* Under the key's guard.  Whether it was there, expired or not. */
bool negative_remove(struct negative *n, const struct hash128 *key);
/* Every entry is gone for every lookup that begins from now on, also what is being asked now. */
void negative_drop(struct negative *n);

void negative_get_stats(struct negative *n, struct negative_stats *out);

#endif
