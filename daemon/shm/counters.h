/* counters.h -- what happened how often, in memory that other processes can read.
 *
 *   set  the counters of one worker, on cache lines of their own; a last set is shared by
 *        the threads that are no workers
 *
 * A worker adds to its set with a plain load and store; a reader sums over the sets.  A
 * sum is not a snapshot: its parts are read one after the other.
 *
 * Threads: counter_add and counter_sub by the set's worker only; the rest by any.
 */
#ifndef TARN_COUNTERS_H
#define TARN_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/shm/counter_table.h"
#include "daemon/shm/counters_view.h"

enum counter {
#define X(group, name, kind, doc) COUNTER_##group##_##name,
    COUNTER_TABLE(X)
#undef X
    COUNTER_COUNT
};

/* Classes of status: 1xx to 5xx, and what is in none. */
enum {
    COUNTER_CLASSES = 6,
    COUNTER_CLASS_OTHER = 5,
};
#define Y(X, name, word, doc)                                                       \
    _Static_assert(COUNTER_responses_##name##_1xx ==                                \
                       COUNTER_responses_hit_1xx + RESULT_##name * COUNTER_CLASSES, \
        "rows of responses are an array");
RESULT_TABLE(Y, )
#undef Y

/* The row of a response. */
static inline enum counter
counter_of_response(enum request_result result, unsigned status)
{
    unsigned hundreds = status / 100;

    return (enum counter)(COUNTER_responses_hit_1xx + (unsigned)result * COUNTER_CLASSES +
                          (hundreds >= 1 && hundreds <= 5 ? hundreds - 1 : COUNTER_CLASS_OTHER));
}

struct shm_dir;
struct counters; /* private to counters.c */

struct counter_set {
    _Atomic uint64_t value[COUNTER_COUNT];
};

/* Makes DIR/counters with a set for each worker and the shared one.  `dir` NULL: memory of
 * this process only, for tests.  TERR_NOMEM, TERR_IO. */
int counters_open(struct counters **out, struct shm_dir *dir, unsigned nworkers);
/* Takes *cp; no set of it may be used any more. */
void counters_close(struct counters **cp);

/* Borrowed until counters_close(). */
struct counter_set *counters_worker(struct counters *c, unsigned worker);

static inline void
counter_add(struct counter_set *s, enum counter id, uint64_t n)
{
    /* One writer a set: no other store can come between. */
    uint64_t v = atomic_load_explicit(&s->value[id], memory_order_relaxed);
    atomic_store_explicit(&s->value[id], v + n, memory_order_relaxed);
}

/* Gauges.  What one worker adds another may subtract: the sum comes out right modulo 2^64. */
static inline void
counter_sub(struct counter_set *s, enum counter id, uint64_t n)
{
    counter_add(s, id, (uint64_t)0 - n);
}

/* Threads that are no workers; with lock prefix. */
void counter_add_shared(struct counters *c, enum counter id, uint64_t n);
void counter_sub_shared(struct counters *c, enum counter id, uint64_t n);

uint64_t counters_sum(const struct counters *c, enum counter id);
const char *counter_name(enum counter id); /* "req.hit" */
const char *counter_doc(enum counter id);
enum counter_kind counter_kind(enum counter id);

#endif
