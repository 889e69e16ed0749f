/* cache_open.c -- a cache's beginning and end, and its index for readers of it. */
#include <limits.h>
#include <stdlib.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"

struct cache *cache_of_all;

enum {
    /* Of a usual object: an automatic index begins with a slot each. */
    INDEX_OBJECT_BYTES = 32 << 10,
    INDEX_HOUSEKEEPING_BUCKETS = 4096, /* about 2 ms */
    INDEX_HOUSEKEEPING_MS = 20,
    REMOVAL_STORE_BYTES = 8 << 10, /* of the store, for each place that remembers a removal */
    FATES_MAX = 4 << 20,
};
#define FATES_FROM (UINT64_C(16) << 20) /* bytes of store */

/* The least recently useful leaves: of those that were of no use since eviction last looked, the
 * one that came or was used longest ago; then of the others. */
static int
cache_usefulness(const struct cuckoo_node *node)
{
    const struct entry *e = container_of((struct cuckoo_node *)(uintptr_t)node, struct entry, node);
    uint32_t used;

    if (entry_state(e) == ENTRY_BUSY)
        return INT_MAX; /* others wait for it */
    used = evict_node_uses(&e->evict) > 0 ? 1u << 30 : 0;
    return (int)(used | (uint32_t)(entry_last_hit_ms(e) >> ENTRY_TICK_LOG2) % (1u << 30));
}

/* Tables are charged to the store like everything else.  What was really allocated stands in front
 * of the aligned piece. */
struct table_piece {
    char *raw;
    size_t bytes;
    enum charge what;
};

static void *
cache_table_alloc(struct cache *c, size_t bytes, size_t align, enum charge what)
{
    struct table_piece piece = {.bytes = bytes + align + sizeof(piece), .what = what};
    char *p;

    piece.raw = storage_alloc(c->storage, piece.bytes, what);
    if (piece.raw == NULL)
        return NULL;
    p = piece.raw + sizeof(piece);
    p += (align - (uintptr_t)p % align) % align;
    /* memcpy(): what stands in front of the piece need not be aligned for a struct. */
    memcpy(p - sizeof(piece), &piece, sizeof(piece));
    return p;
}

static void *
cache_index_alloc(void *ctx, size_t bytes, size_t align)
{
    return cache_table_alloc(ctx, bytes, align, CHARGE_INDEX);
}

static void *
cache_negative_alloc(void *ctx, size_t bytes, size_t align)
{
    void *p = cache_table_alloc(ctx, bytes, align, CHARGE_NEGATIVE);

    return p == NULL ? NULL : memset(p, 0, bytes); /* its buckets begin as those of no generation */
}

static void
cache_table_free(void *ctx, void *p, size_t bytes)
{
    struct cache *c = ctx;
    struct table_piece piece;

    /* More was allocated than was asked for: the piece knows. */
    (void)bytes;
    memcpy(&piece, (char *)p - sizeof(piece), sizeof(piece));
    storage_free(c->storage, piece.raw, piece.bytes, piece.what);
}

struct cuckoo_memory
cache_negative_memory(struct cache *c)
{
    return (struct cuckoo_memory){cache_negative_alloc, cache_table_free, c};
}

_Static_assert(CUCKOO_SLOTS_MAX *CONF_INDEX_SLOT_BYTES == 64,
    "a bucket is a cache line, and the loader knows what a slot takes");

/* A thousandth of the store, for the last that left; a store that has none does without. */
static void
cache_open_removals(struct cache *c, uint64_t store_bytes)
{
    size_t n = 1;
    void *places = NULL;

    /* A power of two: a key's place is a mask. */
    while (n * 2 <= store_bytes / REMOVAL_STORE_BYTES && n < FATES_MAX)
        n *= 2;
    if (store_bytes >= FATES_FROM)
        places = cache_table_alloc(c, n * sizeof(uint64_t), sizeof(uint64_t), CHARGE_GHOST);
    if (places != NULL)
        memset(places, 0, n * sizeof(uint64_t));
    removals_init(&c->removals, places, n);
}

int
cache_open(struct cache **out, const struct conf_index *conf, struct storage *storage,
    const struct conf_storage *store, struct counters *counters)
{
    struct cache *c = calloc(1, sizeof(*c));
    struct cuckoo_conf cc = {
        .bits = (unsigned)conf->bits,
        .slots = (unsigned)conf->slots,
        .memory = {cache_index_alloc, cache_table_free, c},
        .usefulness = cache_usefulness,
    };
    int err;

    if (c == NULL)
        return TERR_NOMEM;
    if (cc.bits == 0) {
        cc.bits = cuckoo_bits_for(store->size / INDEX_OBJECT_BYTES, cc.slots);
        cc.bits_max = CUCKOO_BITS_MAX; /* the store's budget says when it is enough */
    }
    c->magic = CACHE_MAGIC;
    c->storage = storage;
    c->counters = counters;
    err = bans_init(&c->bans, store->size);
    if (err != 0) {
        OBJ_FREE(c);
        return err;
    }
    err = evict_init(&c->evict, storage, store->size, store->eviction);
    if (err == 0) {
        err = cuckoo_open(&c->index, &cc);
        if (err != 0)
            evict_fini(&c->evict, storage);
    }
    if (err != 0) {
        bans_fini(&c->bans);
        OBJ_FREE(c);
        return err;
    }
    cache_open_removals(c, store->size);
    tassert(cache_of_all == NULL);
    cache_of_all = c;
    /* Last: from here on any allocation may call into the cache. */
    storage_set_evictor(storage, evict_make_room, c);
    *out = c;
    return 0;
}

static void
cache_flush_one(void *ctx, struct cuckoo_guard *g, const struct cuckoo_seen *seen)
{
    struct cache *c = ctx;
    struct entry *e = entry_of_node(seen->node), *next;

    cuckoo_remove(c->index, g, seen->node);
    for (; e != NULL; e = next) {
        next = entry_next(e);
        /* Out of the queue before it is retired: eviction must not find it any more. */
        evict_remove(c, e);
        entry_retire(e);
    }
}

void
cache_close(struct cache **cp)
{
    struct cache *c;

    OBJ_TAKE(c, cp, CACHE_MAGIC);
    rcu_join();
    /* False: a node moved meanwhile, and may have been missed. */
    while (!cuckoo_each(c->index, cache_flush_one, c))
        ;
    rcu_leave();
    /* Offline.  Retired entries give their memory to the store and their references to bans, so all
     * that comes below has to wait for them. */
    rcu_barrier_wait();
    cuckoo_close(&c->index);
    if (c->negative != NULL)
        negative_close(&c->negative);
    if (c->removals.places != NULL)
        cache_table_free(c, c->removals.places, 0);
    evict_fini(&c->evict, c->storage);
    bans_fini(&c->bans);
    cache_of_all = NULL;
    OBJ_FREE(c);
}

struct bans *
cache_bans(struct cache *c)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return &c->bans;
}

void
cache_index_stats(const struct cache *c, struct cuckoo_stats *out)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    cuckoo_stats(c->index, out);
}

int64_t
cache_tend_index(struct cache *c, int64_t otherwise_ms)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    /* On every call: a doubling ends also in a cache that is not asked any more. */
    cuckoo_tend(c->index, INDEX_HOUSEKEEPING_BUCKETS, SIZE_MAX);
    if (otherwise_ms <= INDEX_HOUSEKEEPING_MS ||
        (!cuckoo_wants_tending(c->index) && !cuckoo_outgrows(c->index, INDEX_TEND_BYTES)))
        return otherwise_ms;
    return INDEX_HOUSEKEEPING_MS;
}

size_t
cache_index_occupancy(const struct cache *c, size_t most, uint64_t *buckets)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return cuckoo_occupancy(c->index, most, buckets);
}

void
cache_index_next(const struct cache *c, uint64_t *cursor, cuckoo_each_f *each, void *ctx)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    cuckoo_each_next(c->index, cursor, each, ctx);
}

const struct entry *
cache_index_entry(const struct cuckoo_node *node)
{
    return container_of((struct cuckoo_node *)(uintptr_t)node, struct entry, node);
}
