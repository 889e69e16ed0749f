/* entry.c -- entries' references and end. */
#include "daemon/cache/entry.h"

#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/tags.h"

const struct entry_block entry_no_block = {.body_len = STOBJ_SIZE_UNKNOWN};

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
    e->magic = ENTRY_MAGIC;
    e->block = &entry_no_block;
    atomic_init(&e->refs, refs);
    atomic_init(&e->state, ENTRY_BUSY);
    list_init(&e->waiting);
    if (!is_private)
        bans_attach(&c->bans, e);
    return e;
}

static size_t
entry_parts_size(unsigned n)
{
    return sizeof(struct entry_parts) + n * sizeof(struct entry_part);
}

struct entry_parts *
entry_parts_new(const struct entry_part *parts, unsigned n, bool must)
{
    struct entry_parts *p = storage_alloc(cache_of_all->storage, entry_parts_size(n), CHARGE_ENTRY);
    bool on_heap = p == NULL && must;

    if (on_heap)
        p = malloc(entry_parts_size(n));
    if (p == NULL)
        return NULL;
    p->n = (uint16_t)n;
    p->on_heap = on_heap;
    memcpy(p->part, parts, n * sizeof(*parts));
    return p;
}

static void
entry_parts_free(struct entry_parts *p)
{
    if (p->on_heap)
        free(p);
    else
        storage_free(cache_of_all->storage, p, entry_parts_size(p->n), CHARGE_ENTRY);
}

int
entry_set_parts(struct entry *e, const struct entry_part *parts, unsigned n)
{
    uintptr_t word = (uintptr_t)parts[0].body;
    struct entry_parts *p;

    tassert(entry_nparts(e) == 0 && n > 0 && n <= ENTRY_PARTS_MAX);
    if (n > 1 || parts[0].off != 0 || parts[0].len != entry_body_len(e)) {
        p = entry_parts_new(parts, n, false);
        if (p == NULL)
            return TERR_NOMEM;
        word = (uintptr_t)p + 1;
    }
    atomic_store_explicit(&e->parts, word, memory_order_relaxed);
    return 0;
}

struct entry_block *
entry_block_new(struct entry *e, size_t len, unsigned ntags)
{
    size_t size = ntags * sizeof(uint64_t) + sizeof(struct entry_block) + len;
    uint64_t *tags = storage_alloc(cache_of_all->storage, size, CHARGE_HEAD);
    struct entry_block *b;

    tassert(e->block == &entry_no_block && ntags <= TAGS_MAX);
    e->block_on_heap = tags == NULL && entry_is_private(e);
    if (e->block_on_heap)
        tags = malloc(size);
    if (tags == NULL)
        return NULL;
    b = (struct entry_block *)(void *)(tags + ntags);
    b->ntags = (uint16_t)(ntags & 0x7f);
    return b;
}

void
entry_block_free(struct entry *e)
{
    void *memory = (void *)(uintptr_t)entry_tags(e); /* it begins with them */

    if (e->block == &entry_no_block)
        return;
    if (e->block_on_heap)
        free(memory);
    else
        storage_free(cache_of_all->storage, memory, entry_block_size(e), CHARGE_HEAD);
    e->block = &entry_no_block;
}

struct entry *
entry_hold(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

static void
entry_free_parts(struct entry *e)
{
    uintptr_t word = atomic_load_explicit(&e->parts, memory_order_relaxed);
    unsigned n = entry_nparts(e);

    for (unsigned i = 0; i < n; i++)
        stobj_unref(&(struct stobj *){entry_part(e, i).body});
    if ((word & 1) != 0)
        entry_parts_free((struct entry_parts *)(word - 1));
}

static void
entry_free(struct entry *e)
{
    enum entry_state state = entry_state(e);

    tassert(!e->linked && !e->orphaned);
    tassert(e->evict.where != EVICT_IN_SMALL && e->evict.where != EVICT_IN_MAIN);
    tassert(state != ENTRY_BUSY || list_empty(&e->waiting));
    bans_detach(e);
    if (state != ENTRY_HITMISS)
        entry_free_parts(e);
    else if (e->handoff != NULL)
        entry_drop(&e->handoff);
    entry_block_free(e);
    if (e->on_heap) {
        OBJ_FREE(e);
        return;
    }
    OBJ_BURY(e);
    storage_free(cache_of_all->storage, e, sizeof(*e), CHARGE_ENTRY);
}

void
entry_drop(struct entry **ep)
{
    struct entry *e;

    OBJ_TAKE(e, ep, ENTRY_MAGIC);
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
        entry_free(e);
}

void
entry_set_fetch(struct entry *e, struct task *fetch)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    e->fetched = fetch != NULL; /* else the memory may be the eviction queue's by now */
    if (e->fetched)
        e->fetch = fetch;
}

uint64_t
entry_bytes(const struct entry *e)
{
    const struct entry_block *b = e->block;
    uint64_t bytes = (uint64_t)b->head_len + b->vary_len + b->key_len;
    unsigned nparts = entry_nparts(e);

    OBJ_CHECK(e, ENTRY_MAGIC);
    for (unsigned i = 0; i < nparts; i++)
        bytes += stobj_len(entry_part(e, i).body);
    return bytes;
}
