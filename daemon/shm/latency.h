/* latency.h -- how long things took, in memory that other processes can read.
 *
 *   row     the histogram of one kind of thing: buckets, and the sum of all that was added
 *   bucket  four to each doubling: what lies in one differs by less than a quarter of it
 *   set     the rows of one worker
 *
 * A worker adds to its set: two additions in memory of its own.  A reader sums over the sets; a
 * sum is no snapshot, its parts are read one after the other.  HdrHistogram's idea (Gil Tene), with
 * two bits behind the leading one.
 *
 * Units: microseconds, 64 bits of them: nothing is too long for a bucket.
 * Threads: latency_add and latency_tell by the set's worker only; the rest by any.
 */
#ifndef TARN_LATENCY_H
#define TARN_LATENCY_H

#include <stdint.h>

#include "daemon/shm/result_table.h"

/* clang-format off */
/* X(name, word, documentation).  Those before `lag` are requests by their result: enum request_result
 * is their number. */
#define LATENCY_OF_RESULT(X, name, word, doc) X(name, word, doc)
#define LATENCY_TABLE(X)                                                                           \
    RESULT_TABLE(LATENCY_OF_RESULT, X)                                                             \
    X(lag, "lag", "How late a worker's loop was for its tick of each second")
/* clang-format on */

enum latency_kind {
#define X(name, word, doc) LATENCY_##name,
    LATENCY_TABLE(X)
#undef X
    LATENCY_KINDS
};

enum {
    LATENCY_REQUESTS = LATENCY_lag, /* kinds of requests: the first ones */
    LATENCY_BUCKETS = 252,          /* the last one begins at 7 << 61 us */
};
#define LATENCY_ALL UINT32_MAX /* workers */

struct latency_row {
    uint64_t bucket[LATENCY_BUCKETS];
    uint64_t sum_us;
    uint64_t last_us, max_us; /* latency_tell's */
    uint64_t unused;
};
_Static_assert(sizeof(struct latency_row) == 2048, "as README.md says");

struct latency_set {
    struct latency_row row[LATENCY_KINDS];
};

struct latency; /* private to latency.c */
struct shm_dir;

/* Makes DIR/latency with a set for each worker.  `dir` NULL: memory of this process only, for
 * tests.  TERR_NOMEM, TERR_IO. */
int latency_open(struct latency **out, struct shm_dir *dir, unsigned nworkers);
/* Takes *lp; no set of it may be used any more. */
void latency_close(struct latency **lp);
/* Borrowed until latency_close(). */
struct latency_set *latency_worker(struct latency *l, unsigned worker);
unsigned latency_workers(const struct latency *l);

/* Where a duration is counted. */
static inline unsigned
latency_bucket(uint64_t us)
{
    /* Of the leading bit, less the two behind it; what is below 4 us stands for itself. */
    unsigned shift = ((unsigned)__builtin_clzll(us | 4) ^ 63u) - 2;

    return 4 * shift + (unsigned)(us >> shift);
}

/* Readers in other threads and processes may see it at any time.  An aligned word is stored whole on
 * every machine we run on; a C compiler may not assume so, and makes three instructions of one if
 * it is an atomic.  The race detector gets the atomic. */
static inline void
latency_plus(uint64_t *word, uint64_t n)
{
#if defined(__SANITIZE_THREAD__)
    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
#else
    *word += n;
#endif
}

static inline void
latency_add(struct latency_row *row, uint64_t us)
{
    latency_plus(&row->bucket[latency_bucket(us)], 1);
    latency_plus(&row->sum_us, us);
}

/* And keeps the last, and the longest ever. */
void latency_tell(struct latency_row *row, uint64_t us);

/* ---- reading ---- */

struct latency_seen {
    uint64_t bucket[LATENCY_BUCKETS];
    uint64_t count, sum_us;
    uint64_t last_us, max_us; /* of all workers: the most */
};

/* Of one worker, or LATENCY_ALL. */
void latency_see(
    const struct latency *l, unsigned worker, enum latency_kind kind, struct latency_seen *out);
/* The least that is counted in it; of LATENCY_BUCKETS: UINT64_MAX. */
uint64_t latency_floor(unsigned bucket);
/* So long, in microseconds, took the quickest `share` (0 to 1) of them at most: within its bucket as
 * if they were spread evenly.  0: there are none. */
uint64_t latency_quantile(const struct latency_seen *seen, double share);
/* Of how many it is known that they took less: `us` should be a bucket's floor. */
uint64_t latency_below(const struct latency_seen *seen, uint64_t us);

const char *latency_name(enum latency_kind kind); /* "hit-for-miss" */
const char *latency_doc(enum latency_kind kind);

#endif
