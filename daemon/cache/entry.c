/* entry.c -- entries' references and end. */
#include "daemon/cache/entry.h"

#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"

struct entry *
entry_new(struct cache *c, unsigned refs, bool is_private)
{
    struct entry *e = storage_alloc(c->storage, sizeof(*e), CHARGE_ENTRY);
    bool on_heap = e == NULL && is_private;

    if (on_heap)
        e = malloc(sizeof(*e));
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof(*e));
    e->on_heap = on_heap;
    e->is_private = is_private;
    e->magic = ENTRY_MAGIC;
    e->cache = c;
    e->body_len = STOBJ_SIZE_UNKNOWN;
    atomic_init(&e->refs, refs);
    atomic_init(&e->state, ENTRY_BUSY);
    list_init(&e->waiting);
    evict_node_init(&e->evict);
    if (!is_private)
        bans_attach(&c->bans, e);
    return e;
}

int
entry_set_parts(struct entry *e, const struct entry_part *parts, unsigned n)
{
    tassert(e->parts == NULL && n > 0 && n <= ENTRY_PARTS_MAX);
    e->parts = e->few;
    if (n > ENTRY_PARTS_INLINE) {
        e->parts = storage_alloc(e->cache->storage, n * sizeof(*parts), CHARGE_ENTRY);
        if (e->parts == NULL)
            return TERR_NOMEM;
        e->parts_room = (uint16_t)n;
    }
    memcpy(e->parts, parts, n * sizeof(*parts));
    atomic_store_explicit(&e->nparts, (uint16_t)n, memory_order_relaxed);
    return 0;
}

char *
entry_block(struct entry *e, size_t len)
{
    tassert(e->block == NULL);
    e->block = storage_alloc(e->cache->storage, len, CHARGE_HEAD);
    e->block_on_heap = e->block == NULL && e->is_private;
    if (e->block_on_heap)
        e->block = malloc(len);
    return e->block;
}

struct entry *
entry_hold(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

static void
entry_free(struct entry *e)
{
    struct storage *st = e->cache->storage;

    tassert(list_empty(&e->waiting) && list_empty(&e->evict.link) && !e->linked);
    bans_detach(e);
    if (e->handoff != NULL)
        entry_drop(&e->handoff);
    for (unsigned i = 0; i < atomic_load_explicit(&e->nparts, memory_order_relaxed); i++)
        stobj_unref(&e->parts[i].body);
    if (e->parts_room > 0)
        storage_free(st, e->parts, e->parts_room * sizeof(*e->parts), CHARGE_ENTRY);
    if (e->block_on_heap)
        free(e->block);
    else if (e->block != NULL)
        storage_free(st, e->block, (size_t)e->head_len + e->vary_len + e->key_len, CHARGE_HEAD);
    if (e->on_heap) {
        OBJ_FREE(e);
        return;
    }
    OBJ_BURY(e);
    storage_free(st, e, sizeof(*e), CHARGE_ENTRY);
}

void
entry_drop(struct entry **ep)
{
    struct entry *e;

    OBJ_TAKE(e, ep, ENTRY_MAGIC);
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
        entry_free(e);
}

uint64_t
entry_bytes(const struct entry *e)
{
    uint64_t bytes = (uint64_t)e->head_len + e->vary_len + e->key_len;
    unsigned nparts = atomic_load_explicit(&e->nparts, memory_order_acquire);

    OBJ_CHECK(e, ENTRY_MAGIC);
    for (unsigned i = 0; i < nparts; i++)
        bytes += stobj_len(e->parts[i].body);
    return bytes;
}
