/* removal.c -- what last became of a key. */
#include "daemon/cache/removal.h"

#include <stdatomic.h>
#include <time.h>

#include "daemon/base/tassert.h"

/* A word: 24 bits of the key, 8 of what, 32 of when, in seconds. */
enum {
    REMOVAL_WHAT_SHIFT = 32,
    REMOVAL_KEY_SHIFT = 40,
};

static const struct {
    const char *name, *text;
} removals_known[REMOVAL_COUNT] = {[REMOVAL_NONE] = {"none", "nothing is known of it"},
#define X(id, name, text) [REMOVAL_##id] = {name, text},
    REMOVAL_TABLE(X)
#undef X
};

static uint32_t
removal_now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint32_t)ts.tv_sec;
}

void
removals_init(struct removals *f, void *places, size_t n)
{
    tassert(places == NULL || (n > 0 && (n & (n - 1)) == 0));
    *f = (struct removals){.places = places, .mask = n - 1};
}

/* The place is of other bits than those that are compared. */
static _Atomic(uint64_t) *
removal_place(const struct removals *f, const struct hash128 *key)
{
    return &f->places[key->hi & f->mask];
}

/* One word, so it is of one removal, old or new; another key may take its place at any time. */
void
removals_note(struct removals *f, const struct hash128 *key, unsigned what)
{
    tassert(what < 256);
    if (f->places == NULL)
        return;
    atomic_store_explicit(removal_place(f, key),
        /* Relaxed: nothing hangs on the word but what an operator is told. */
        key->lo >> REMOVAL_KEY_SHIFT << REMOVAL_KEY_SHIFT | (uint64_t)what << REMOVAL_WHAT_SHIFT |
            removal_now_s(),
        memory_order_relaxed);
}

bool
removals_recall(const struct removals *f, const struct hash128 *key, struct removal_seen *out)
{
    uint64_t word;

    if (f->places == NULL)
        return false;
    word = atomic_load_explicit(removal_place(f, key), memory_order_relaxed);
    if (word >> REMOVAL_KEY_SHIFT != key->lo >> REMOVAL_KEY_SHIFT)
        return false;
    out->what = word >> REMOVAL_WHAT_SHIFT & 0xff;
    /* In 32 bits: right also where the seconds wrap. */
    out->ago_s = (int64_t)(uint32_t)(removal_now_s() - (uint32_t)word);
    return out->what != REMOVAL_NONE;
}

const char *
removal_name(unsigned what)
{
    if (what >= REMOVAL_REFUSED)
        return fresh_refusal_name((enum fresh_refusal)(what - REMOVAL_REFUSED));
    tassert(what < REMOVAL_COUNT);
    return removals_known[what].name;
}

const char *
removal_text(unsigned what)
{
    if (what >= REMOVAL_REFUSED)
        return fresh_refusal_text((enum fresh_refusal)(what - REMOVAL_REFUSED));
    tassert(what < REMOVAL_COUNT);
    return removals_known[what].text;
}
