/* recoder.c -- one thread for all workers, and what was seen of bodies that it may be for. */
#include "daemon/proxy/recoder.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/terr.h"
#include "daemon/proxy/dictionaries.h"

enum {
    RECODER_SEEN = 256,    /* candidates; a power of two, as the next one */
    RECODER_BARREN = 4096, /* 16 KiB */
    RECODER_NICE = 19,
    RECODER_DICTIONARIES = 32, /* of the store, a part of it */
};

#define RECODER_MAGIC OBJ_TAG('r', 'e', 'c', 'd')
struct recoder {
    uint32_t magic;
    struct offload *offload;
    struct dictionaries *dictionaries;
    _Atomic bool taken;
    _Atomic uint64_t rests_until_us; /* its holder's to write */
    /* Numbers, folded; in the place that they choose.  A place is overwritten by what comes next: what is
     * forgotten is tried once more, or a hit later. */
    _Atomic uint32_t seen[RECODER_SEEN], barren[RECODER_BARREN];
};

int
recoder_open(struct recoder **out, struct storage *storage, uint64_t bytes)
{
    struct recoder *r = calloc(1, sizeof(*r));
    int err;

    if (r == NULL)
        return TERR_NOMEM;
    r->magic = RECODER_MAGIC;
    err = dictionaries_open(&r->dictionaries, storage, bytes / RECODER_DICTIONARIES);
    if (err != 0) {
        OBJ_FREE(r);
        return err;
    }
    err = offload_open(&r->offload, 1, RECODER_NICE);
    if (err != 0) {
        dictionaries_close(&r->dictionaries);
        OBJ_FREE(r);
        return err;
    }
    *out = r;
    return 0;
}

void
recoder_close(struct recoder **rp)
{
    struct recoder *r;

    OBJ_TAKE(r, rp, RECODER_MAGIC);
    tassert(!atomic_load(&r->taken));
    offload_close(&r->offload);
    dictionaries_close(&r->dictionaries);
    OBJ_FREE(r);
}

struct dictionaries *
recoder_dictionaries(struct recoder *r)
{
    OBJ_CHECK(r, RECODER_MAGIC);
    return r->dictionaries;
}

/* Never 0, which is an empty place. */
static uint32_t
recoder_fold(uint64_t number)
{
    return (uint32_t)(number >> 32) | 1;
}

bool
recoder_is_barren(struct recoder *r, uint64_t number)
{
    OBJ_CHECK(r, RECODER_MAGIC);
    return atomic_load_explicit(&r->barren[number % RECODER_BARREN], memory_order_relaxed) ==
           recoder_fold(number);
}

bool
recoder_is_hot(struct recoder *r, uint64_t number)
{
    uint32_t mark = recoder_fold(number);
    _Atomic uint32_t *seen = &r->seen[number % RECODER_SEEN];

    if (recoder_is_barren(r, number))
        return false;
    if (atomic_load_explicit(seen, memory_order_relaxed) == mark)
        return true;
    atomic_store_explicit(seen, mark, memory_order_relaxed);
    return false;
}

void
recoder_set_barren(struct recoder *r, uint64_t number)
{
    OBJ_CHECK(r, RECODER_MAGIC);
    atomic_store_explicit(
        &r->barren[number % RECODER_BARREN], recoder_fold(number), memory_order_relaxed);
}

bool
recoder_take(struct recoder *r, uint64_t now_us)
{
    bool free = false;

    OBJ_CHECK(r, RECODER_MAGIC);
    return now_us >= atomic_load_explicit(&r->rests_until_us, memory_order_relaxed) &&
           atomic_compare_exchange_strong(&r->taken, &free, true);
}

void
recoder_submit(struct recoder *r, struct job *j)
{
    int err;

    tassert(atomic_load(&r->taken));
    err = offload_submit(r->offload, j);
    tassert(err == 0); /* it is the only one */
    (void)err;
}

void
recoder_give(struct recoder *r, uint64_t now_us, uint64_t cpu_us, unsigned percent)
{
    uint64_t rest_us = percent > 0 && percent < 100 ? cpu_us * (100 - percent) / percent : 0;
    uint64_t rests = atomic_load_explicit(&r->rests_until_us, memory_order_relaxed);

    tassert(atomic_load(&r->taken) && percent <= 100);
    /* A hash is made within a rest, too, and does not end it. */
    atomic_store_explicit(
        &r->rests_until_us, (rests > now_us ? rests : now_us) + rest_us, memory_order_relaxed);
    atomic_store(&r->taken, false);
}
