/* rates.c -- token buckets by key, in a table of fixed size. */
#include "daemon/proxy/rates.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"
#include "storage/storage.h"

enum {
    RATES_WAYS = 8, /* a cache line */
    RATES_LINE = 64,
    RATES_TRIES = 32, /* another thread was faster each time: then this one may */
    RATES_TIME_BITS = 44,
};

/* Times are microseconds modulo 2^44, 203 days, and only those within a rule's window mean
 * anything: what lies further ahead is so old that it has wrapped. */
#define RATES_TIME_MASK ((UINT64_C(1) << RATES_TIME_BITS) - 1)
_Static_assert(RATES_WINDOW_MAX_US < (RATES_TIME_MASK >> 2), "ahead and behind are distinct");

struct rates_set {
    _Atomic uint64_t bucket[RATES_WAYS]; /* tag above, time below; 0: free */
};
_Static_assert(sizeof(struct rates_set) == RATES_LINE, "a set is a line");

#define RATES_MAGIC OBJ_TAG('r', 'a', 't', 's')
struct rates {
    uint32_t magic;
    struct storage *storage;
    uint64_t nsets; /* a power of two */
    size_t bytes;
    _Atomic(char *) raw; /* as storage gave it; the sets begin at the next line */
};

bool
rate_rule_make(struct rate_rule *out, uint64_t rate, uint64_t per_us, uint64_t burst)
{
    uint64_t interval = rate > 0 ? per_us / rate : 0;

    if (burst == 0)
        burst = rate;
    if (interval == 0 || burst > RATES_WINDOW_MAX_US / interval)
        return false;
    tassert(interval * burst <= RATES_WINDOW_MAX_US); /* what bucket times can tell apart */
    *out = (struct rate_rule){interval, interval * burst};
    return true;
}

int
rates_open(struct rates **out, struct storage *storage, uint64_t keys)
{
    struct rates *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return TERR_NOMEM;
    r->magic = RATES_MAGIC;
    r->storage = storage;
    r->nsets = 1;
    /* A power of two: the key's low bits are the set's number. */
    while (r->nsets * RATES_WAYS < keys)
        r->nsets *= 2;
    tassert((r->nsets & (r->nsets - 1)) == 0);
    r->bytes =
        r->nsets * sizeof(struct rates_set) + RATES_LINE; /* one more: sets begin at a line */
    *out = r;
    return 0;
}

/* No worker runs any more: nothing takes from a bucket meanwhile. */
void
rates_close(struct rates **rp)
{
    struct rates *r;
    char *raw;

    OBJ_TAKE(r, rp, RATES_MAGIC);
    raw = atomic_load_explicit(&r->raw, memory_order_acquire);
    if (raw != NULL)
        storage_free(r->storage, raw, r->bytes, CHARGE_RATES);
    OBJ_FREE(r);
}

/* Allocated at the first need; of two threads at a time one frees its own. */
static char *
rates_get_memory(struct rates *r)
{
    char *none = NULL, *raw = storage_alloc(r->storage, r->bytes, CHARGE_RATES);

    if (raw == NULL) {
        elog(ELOG_ERROR, "limits: the storage has no room for %zu bytes: nothing is limited",
            r->bytes);
        return NULL;
    }
    memset(raw, 0, r->bytes);
    if (atomic_compare_exchange_strong_explicit(
            &r->raw, &none, raw, memory_order_acq_rel, memory_order_acquire))
        return raw;
    tassert(none != NULL && none != raw); /* the other thread's */
    storage_free(r->storage, raw, r->bytes, CHARGE_RATES);
    return none;
}

static struct rates_set *
rates_set_of(struct rates *r, struct hash128 key)
{
    /* Acquire: the zeros of rates_get_memory() are seen with the pointer. */
    char *raw = atomic_load_explicit(&r->raw, memory_order_acquire);

    if (raw == NULL)
        raw = rates_get_memory(r);
    if (raw == NULL)
        return NULL;
    raw += (RATES_LINE - (uintptr_t)raw % RATES_LINE) % RATES_LINE;
    tassert(
        (uintptr_t)raw % RATES_LINE == 0); /* a set that lay on two lines would cost two misses */
    return (struct rates_set *)(void *)raw + (key.lo & (r->nsets - 1));
}

/* How far ahead of now a bucket's time is; 0: it is full, or its time is none. */
static uint64_t
rates_ahead(uint64_t bucket, uint64_t now)
{
    uint64_t ahead = (bucket - now) & RATES_TIME_MASK;

    return ahead <= RATES_WINDOW_MAX_US ? ahead : 0;
}

/* The key's own bucket, or the one that it replaces: one that is full, or will be soonest. */
static unsigned
rates_way(const struct rates_set *set, uint64_t tag, uint64_t now, uint64_t *bucket)
{
    uint64_t least = UINT64_MAX;
    unsigned way = 0;

    for (unsigned i = 0; i < RATES_WAYS; i++) {
        uint64_t b = atomic_load_explicit(&set->bucket[i], memory_order_relaxed);
        uint64_t ahead = b == 0 ? 0 : rates_ahead(b, now);

        if (b >> RATES_TIME_BITS == tag) {
            *bucket = b;
            return i;
        }
        if (ahead < least) {
            least = ahead;
            way = i;
            *bucket = b;
        }
    }
    return way;
}

uint64_t
rates_take(struct rates *r, const struct rate_rule *rule, struct hash128 key, uint64_t now_us,
    struct counter_set *counters)
{
    /* Never 0: a free place has no key's tag. */
    uint64_t tag = (key.hi >> RATES_TIME_BITS) | 1, now = now_us & RATES_TIME_MASK;
    struct rates_set *set;

    OBJ_CHECK(r, RATES_MAGIC);
    set = rates_set_of(r, key);
    tassert(rule->interval_us > 0);
    tassert(rule->window_us >= rule->interval_us); /* a full bucket has one request at least */
    tassert(rule->window_us <= RATES_WINDOW_MAX_US);
    for (unsigned i = 0; set != NULL && i < RATES_TRIES; i++) {
        uint64_t was = 0, ahead, next;
        unsigned way = rates_way(set, tag, now, &was);
        bool own = was >> RATES_TIME_BITS == tag;

        tassert(way < RATES_WAYS);
        ahead = own ? rates_ahead(was, now) : 0;
        if (ahead > rule->window_us) /* of a time that has wrapped, or of a longer rule */
            ahead = 0;
        if (ahead + rule->interval_us > rule->window_us) {
            counter_add(counters, COUNTER_limit_refused, 1);
            return ahead + rule->interval_us - rule->window_us;
        }
        next = tag << RATES_TIME_BITS | ((now + ahead + rule->interval_us) & RATES_TIME_MASK);
        /* Relaxed: the word is all there is, nothing else is published with it. */
        if (!atomic_compare_exchange_weak_explicit(
                &set->bucket[way], &was, next, memory_order_relaxed, memory_order_relaxed))
            continue;
        if (!own && was != 0 && rates_ahead(was, now) > 0)
            counter_add(counters, COUNTER_limit_forgotten, 1);
        return 0;
    }
    return 0;
}
