/* outcome.c -- what came of the attempts to ask a backend: classes of status, failures, how long the
 * heads took.
 *
 * They are kept by the backend's full name, so a reload that replaces a backend goes on counting.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

enum {
    OUTCOME_DOWN_AFTER = 3, /* failures in a row */
};

struct outcome {
    _Atomic unsigned refs;
    _Atomic unsigned fails; /* in a row */
    _Atomic uint64_t responses[BACKEND_CLASSES];
    _Atomic uint64_t failures;
    _Atomic uint64_t sum_us;
    _Atomic uint64_t bucket[BACKEND_BUCKETS];
};

/* Relaxed, as all of these: counts for people, read one by one. */
static void
outcome_add(_Atomic uint64_t *n, uint64_t more)
{
    atomic_fetch_add_explicit(n, more, memory_order_relaxed);
}

struct outcome *
outcome_new(void)
{
    struct outcome *o = calloc(1, sizeof(*o));

    if (o != NULL)
        atomic_init(&o->refs, 1);
    return o;
}

struct outcome *
outcome_hold(struct outcome *o)
{
    unsigned had = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);

    tassert(had > 0); /* the registry's, or a backend's of the same name */
    return o;
}

void
outcome_drop(struct outcome **op)
{
    struct outcome *o = *op;

    *op = NULL;
    /* NULL: a backend that was not made to the end. */
    if (o != NULL && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
        free(o);
}

void
outcome_forget_fails(struct outcome *o)
{
    atomic_store_explicit(&o->fails, 0, memory_order_relaxed);
}

void
outcome_failed(struct outcome *o)
{
    outcome_add(&o->failures, 1);
    atomic_fetch_add_explicit(&o->fails, 1, memory_order_relaxed);
}

/* Bucket i counts what took less than 2^i microseconds and no less than the half of that. */
static unsigned
outcome_bucket(uint64_t us)
{
    unsigned i = us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(us);

    tassert(us == 0 || i == 64 || us < UINT64_C(1) << i);
    return i < BACKEND_BUCKETS ? i : BACKEND_BUCKETS - 1;
}

void
backend_note_response(struct backend *b, unsigned status, uint64_t took_us)
{
    unsigned hundreds = status / 100;

    outcome_add(
        &b->outcome->responses[hundreds >= 1 && hundreds <= 5 ? hundreds - 1 : BACKEND_CLASS_OTHER],
        1);
    outcome_add(&b->outcome->sum_us, took_us);
    outcome_add(&b->outcome->bucket[outcome_bucket(took_us)], 1);
    /* Looked at first: a store for each response would move the line from worker to worker. */
    if (atomic_load_explicit(&b->outcome->fails, memory_order_relaxed) != 0)
        outcome_forget_fails(b->outcome);
    backend_note_good(b);
}

void
backend_note_cut(struct backend *b)
{
    /* Not one of those in a row: it answered, so it is up. */
    outcome_add(&b->outcome->failures, 1);
}

bool
backend_up(const struct backend *b)
{
    return backend_healthy(b) &&
           /* With a probe its word counts, and fetches do not contradict it. */
           (b->probe != NULL ||
               atomic_load_explicit(&b->outcome->fails, memory_order_relaxed) < OUTCOME_DOWN_AFTER);
}

void
backend_see(const struct backend *b, struct backend_seen *out)
{
    const struct outcome *o = b->outcome;

    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < BACKEND_CLASSES; i++)
        out->responses[i] = atomic_load_explicit(&o->responses[i], memory_order_relaxed);
    for (unsigned i = 0; i < BACKEND_BUCKETS; i++) {
        out->bucket[i] = atomic_load_explicit(&o->bucket[i], memory_order_relaxed);
        /* The sum of what is shown: a count of its own could disagree with the buckets. */
        out->count += out->bucket[i];
    }
    out->failures = atomic_load_explicit(&o->failures, memory_order_relaxed);
    out->sum_us = atomic_load_explicit(&o->sum_us, memory_order_relaxed);
}
