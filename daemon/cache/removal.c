/* fate.c -- what last became of a key. */
#include "daemon/cache/removal.h"

#include <stdatomic.h>
#include <time.h>

#include "daemon/base/tassert.h"

/* A word: 24 bits of the key, 8 of what, 32 of when, in seconds. */
enum {
    FATE_WHAT_SHIFT = 32,
    FATE_KEY_SHIFT = 40,
};

static const struct {
    const char *name, *text;
} fates_known[FATE_COUNT] = {[FATE_NONE] = {"none", "nothing is known of it"},
#define X(id, name, text) [FATE_##id] = {name, text},
    FATE_TABLE(X)
#undef X
};

static uint32_t
fate_now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint32_t)ts.tv_sec;
}

void
fates_init(struct fates *f, void *places, size_t n)
{
    tassert(places == NULL || (n > 0 && (n & (n - 1)) == 0));
    *f = (struct fates){.places = places, .mask = n - 1};
}

/* The place is of other bits than those that are compared. */
static _Atomic(uint64_t) *
fate_place(const struct fates *f, const struct hash128 *key)
{
    return &f->places[key->hi & f->mask];
}

void
fates_note(struct fates *f, const struct hash128 *key, unsigned what)
{
    tassert(what < 256);
    if (f->places == NULL)
        return;
    atomic_store_explicit(fate_place(f, key),
        key->lo >> FATE_KEY_SHIFT << FATE_KEY_SHIFT | (uint64_t)what << FATE_WHAT_SHIFT |
            fate_now_s(),
        memory_order_relaxed);
}

bool
fates_recall(const struct fates *f, const struct hash128 *key, struct fate_seen *out)
{
    uint64_t word;

    if (f->places == NULL)
        return false;
    word = atomic_load_explicit(fate_place(f, key), memory_order_relaxed);
    if (word >> FATE_KEY_SHIFT != key->lo >> FATE_KEY_SHIFT)
        return false;
    out->what = word >> FATE_WHAT_SHIFT & 0xff;
    out->ago_s = (int64_t)(uint32_t)(fate_now_s() - (uint32_t)word);
    return out->what != FATE_NONE;
}

const char *
fate_name(unsigned what)
{
    if (what >= FATE_REFUSED)
        return fresh_refusal_name((enum fresh_refusal)(what - FATE_REFUSED));
    tassert(what < FATE_COUNT);
    return fates_known[what].name;
}

const char *
fate_text(unsigned what)
{
    if (what >= FATE_REFUSED)
        return fresh_refusal_text((enum fresh_refusal)(what - FATE_REFUSED));
    tassert(what < FATE_COUNT);
    return fates_known[what].text;
}
