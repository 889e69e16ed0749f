/* cache.c -- lookup, waiting lists and outcomes.
 *
 * Entries under one key hang off the node in the index in a list, newest first.  Readers
 * walk it without locks; it changes under the key's guard. */
#include "daemon/cache/cache.h"

#include <stdlib.h>

#include "conf/conf.h"
#include "daemon/base/limits.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/head.h"
#include "daemon/http/vary.h"

static struct entry *
entry_of_node(struct cuckoo_node *node)
{
    return node == NULL ? NULL : container_of(node, struct entry, node);
}

static struct entry *
entry_next(const struct entry *e)
{
    return atomic_load_explicit(&e->variant, memory_order_acquire);
}

static bool
cache_matches(const struct entry *e, const struct cache_query *q)
{
    return e->vary_len == 0 || vary_match(entry_vary(e), q->req);
}

/* One client's Authorization or no-store must not keep a URL out of the cache for all. */
static bool
cache_marker_counts(const struct entry *e, const struct cache_query *q)
{
    return !e->by_request || http_has(q->req, HTTP_F_AUTHORIZATION) ||
           http_has(q->req, HTTP_F_CACHE_CONTROL);
}

/* The first entry of the chain that decides; NULL: nothing usable.  *busy: one that is being
 * fetched, if nothing better was found. */
static struct entry *
cache_choose(struct entry *first, const struct cache_query *q, struct entry **busy)
{
    *busy = NULL;
    for (struct entry *e = first; e != NULL; e = entry_next(e)) {
        switch (entry_state(e)) {
        case ENTRY_READY:
            if (entry_is_fresh(e, q->now_ms) && cache_matches(e, q))
                return e;
            break;
        case ENTRY_HITMISS:
            if (entry_is_fresh(e, q->now_ms) && cache_marker_counts(e, q))
                return e;
            break;
        case ENTRY_BUSY:
            if (*busy == NULL)
                *busy = e;
            break;
        case ENTRY_FAILED:
            break;
        }
    }
    return NULL;
}

static enum cache_verdict
cache_found(struct entry *e, struct entry **out)
{
    uint8_t uses;

    if (entry_state(e) == ENTRY_HITMISS) {
        *out = NULL;
        return CACHE_HITMISS;
    }
    uses = atomic_load_explicit(&e->uses, memory_order_relaxed);
    if (uses < 3)
        atomic_store_explicit(&e->uses, (uint8_t)(uses + 1), memory_order_relaxed);
    *out = e;
    return CACHE_HIT;
}

static void
entry_on_grace(struct rcu_later *later)
{
    struct entry *e = container_of(later, struct entry, later);
    struct storage *st = e->cache->storage;

    entry_drop(&e);
    storage_space_event(st); /* whether it was freed or is still read: look again */
}

void
cache_unlink_locked(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct entry *next = entry_next(e);
    struct entry *first = entry_of_node(cuckoo_find_locked(c->index, g));

    tassert(e->linked);
    if (first == e) {
        if (next != NULL)
            cuckoo_replace(c->index, g, &e->node, &next->node);
        else
            cuckoo_remove(c->index, g, &e->node);
    } else {
        struct entry *prev = first;

        while (entry_next(prev) != e)
            prev = entry_next(prev);
        atomic_store_explicit(&prev->variant, next, memory_order_release);
    }
    e->linked = false;
    evict_remove(&c->evict, e);
    rcu_free_later(&e->later, entry_on_grace);
}

/* The whole chain of a victim leaves: its node is out of the table already. */
static void
cache_drop_victim(struct cache *c, struct cuckoo_node *node)
{
    for (struct entry *e = entry_of_node(node), *next; e != NULL; e = next) {
        next = entry_next(e);
        e->linked = false;
        evict_remove(&c->evict, e);
        /* Who waits for it is told by its fetch, which still holds it. */
        rcu_free_later(&e->later, entry_on_grace);
        counter_add_shared(c->counters, COUNTER_index_evicted, 1);
    }
}

/* Too many responses under one key: the oldest one that is not being fetched leaves. */
static void
cache_bound_variants(struct cache *c, struct cuckoo_guard *g, struct entry *first)
{
    struct entry *last = NULL;
    unsigned n = 0;

    for (struct entry *e = first; e != NULL; e = entry_next(e)) {
        n++;
        if (entry_state(e) != ENTRY_BUSY)
            last = e;
    }
    if (n >= LIMIT_VARIANTS && last != NULL)
        cache_unlink_locked(c, g, last);
}

/* Links `e` as the newest under its key.  The guard may be given up for a moment, and another
 * request may link an entry of its own meanwhile: both fetch then, which is wasteful and rare. */
static void
cache_link(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct cuckoo_node *first;

    for (;;) {
        first = cuckoo_find_locked(c->index, g);
        if (first != NULL) {
            cache_bound_variants(c, g, entry_of_node(first));
            first = cuckoo_find_locked(c->index, g);
        }
        if (first != NULL) {
            atomic_store_explicit(&e->variant, entry_of_node(first), memory_order_relaxed);
            cuckoo_replace(c->index, g, first, &e->node);
            break;
        }
        if (cuckoo_insert(c->index, g, &e->node) == 0)
            break;
        first = cuckoo_make_room(c->index, g);
        if (first != NULL)
            cache_drop_victim(c, first);
    }
    e->linked = true;
}

/* Under the guard: nothing can change any more. */
static enum cache_verdict
cache_lookup_locked(
    struct cache *c, const struct cache_query *q, struct waiter *w, struct entry **out)
{
    struct entry *fresh, *e, *busy;
    enum cache_verdict verdict = CACHE_MISS;
    struct cuckoo_guard g;

    fresh = entry_new(c, 3, false); /* index, request, fetch; before the guard, for it may evict */
    if (fresh != NULL)
        fresh->node.key = q->key;
    cuckoo_lock(c->index, &q->key, &g);
    e = cache_choose(entry_of_node(cuckoo_find_locked(c->index, &g)), q, &busy);
    if (e != NULL) {
        verdict = cache_found(e, out);
    } else if (busy != NULL) {
        waiter_arm(w, &busy->waiting);
        *out = entry_hold(busy);
        verdict = CACHE_QUEUED;
    } else {
        *out = fresh;
        if (fresh != NULL)
            cache_link(c, &g, fresh);
        fresh = NULL;
    }
    cuckoo_unlock(c->index, &g);
    if (fresh != NULL) {
        atomic_store_explicit(&fresh->refs, 1, memory_order_relaxed);
        entry_drop(&fresh);
    }
    return verdict;
}

enum cache_verdict
cache_lookup(struct cache *c, const struct cache_query *q, struct waiter *w, struct entry **out)
{
    struct entry *e, *busy;

    OBJ_CHECK(c, CACHE_MAGIC);
    e = cache_choose(entry_of_node(cuckoo_find(c->index, &q->key)), q, &busy);
    if (__builtin_expect(e != NULL, 1))
        return cache_found(e, out);
    return cache_lookup_locked(c, q, w, out);
}

bool
cache_usable(const struct entry *e, const struct cache_query *q)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    return entry_state(e) == ENTRY_READY && cache_matches(e, q);
}

bool
cache_wait(struct entry *e, struct waiter *w)
{
    struct cuckoo_guard g;
    bool busy;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(e->cache->index, &e->node.key, &g);
    busy = entry_state(e) == ENTRY_BUSY;
    if (busy)
        waiter_arm(w, &e->waiting);
    cuckoo_unlock(e->cache->index, &g);
    return busy;
}

void
cache_cancel(struct entry *e, struct waiter *w)
{
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(e->cache->index, &e->node.key, &g);
    if (waiter_state(w) == WAITER_ARMED)
        waiter_disarm(w);
    cuckoo_unlock(e->cache->index, &g);
}

struct entry *
cache_private(struct cache *c)
{
    struct entry *e;

    OBJ_CHECK(c, CACHE_MAGIC);
    e = entry_new(c, 2, true);
    if (e != NULL)
        e->node.key = (struct hash128){(uint64_t)(uintptr_t)e, 0}; /* a guard of its own */
    return e;
}

/* What the new response replaces: same selecting headers, or long dead. */
static void
cache_supersede(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct entry *next;

    for (struct entry *o = entry_of_node(cuckoo_find_locked(c->index, g)); o != NULL; o = next) {
        next = entry_next(o);
        if (o == e || entry_state(o) == ENTRY_BUSY)
            continue;
        if (entry_state(o) != ENTRY_READY || slice_eq(entry_vary(o), entry_vary(e)) ||
            e->received_ms - o->received_ms > o->ttl_ms + o->grace_ms + o->keep_ms)
            cache_unlink_locked(c, g, o);
    }
}

static void
entry_outcome(struct entry *e, enum entry_state state)
{
    tassert(entry_state(e) == ENTRY_BUSY);
    atomic_store_explicit(&e->state, (uint8_t)state, memory_order_release);
    waiter_notify_all(&e->waiting);
}

int
cache_publish(struct entry *e, const struct cache_response *r)
{
    struct cache *c = e->cache;
    size_t len = r->head.len + r->vary.len + r->key_text.len;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(r->body != NULL);
    if (entry_block(e, len) == NULL)
        return TERR_NOMEM;
    memcpy(e->block, r->head.ptr, r->head.len);
    if (r->vary.len > 0)
        memcpy(e->block + r->head.len, r->vary.ptr, r->vary.len);
    if (r->key_text.len > 0)
        memcpy(e->block + r->head.len + r->vary.len, r->key_text.ptr, r->key_text.len);
    e->head_len = (uint32_t)r->head.len;
    e->vary_len = (uint16_t)r->vary.len;
    e->key_len = (uint16_t)r->key_text.len;
    e->status = r->status;
    e->length_in_head = r->length_in_head;
    e->body_len = r->body_len;
    e->received_ms = r->received_ms;
    e->age_ms = r->age_ms;
    e->ttl_ms = r->ttl_ms;
    e->grace_ms = r->grace_ms;
    e->keep_ms = r->keep_ms;
    e->parts[0] = (struct entry_part){0, r->body};
    atomic_store_explicit(&e->nparts, 1, memory_order_relaxed);
    cuckoo_lock(c->index, &e->node.key, &g);
    entry_outcome(e, ENTRY_READY);
    if (e->linked) {
        cache_supersede(c, &g, e);
        counter_add_shared(c->counters, COUNTER_cache_inserts, 1);
    }
    cuckoo_unlock(c->index, &g);
    return 0;
}

void
cache_hitmiss(
    struct entry *e, struct entry *handoff, int64_t now_ms, int64_t ttl_ms, bool by_request)
{
    struct cache *c = e->cache;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(!e->is_private && (handoff == NULL || handoff->is_private));
    e->handoff = handoff;
    e->by_request = by_request;
    e->received_ms = now_ms;
    e->ttl_ms = ttl_ms;
    e->charge_kb = 1;
    cuckoo_lock(c->index, &e->node.key, &g);
    entry_outcome(e, ENTRY_HITMISS);
    if (e->linked) {
        cache_supersede(c, &g, e);
        evict_add(&c->evict, e);
    }
    cuckoo_unlock(c->index, &g);
}

struct entry *
cache_take_handoff(struct entry *e)
{
    struct cuckoo_guard g;
    struct entry *handoff;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(e->cache->index, &e->node.key, &g);
    handoff = e->handoff;
    e->handoff = NULL;
    cuckoo_unlock(e->cache->index, &g);
    return handoff;
}

void
cache_fail(struct entry *e, int err)
{
    struct cache *c = e->cache;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    e->err = err;
    cuckoo_lock(c->index, &e->node.key, &g);
    if (e->linked)
        cache_unlink_locked(c, &g, e);
    entry_outcome(e, ENTRY_FAILED);
    cuckoo_unlock(c->index, &g);
}

void
cache_settle(struct entry *e)
{
    struct cache *c = e->cache;
    struct cuckoo_guard g;
    uint64_t bytes;

    OBJ_CHECK(e, ENTRY_MAGIC);
    if (e->is_private)
        return;
    bytes = storage_good_size(c->storage, sizeof(*e)) + stobj_len(e->parts[0].body) +
            storage_good_size(c->storage, (size_t)e->head_len + e->vary_len + e->key_len);
    cuckoo_lock(c->index, &e->node.key, &g);
    e->charge_kb = (uint32_t)((bytes + 1023) >> 10);
    if (e->linked)
        evict_add(&c->evict, e);
    cuckoo_unlock(c->index, &g);
}

void
cache_unlink(struct entry *e)
{
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(e->cache->index, &e->node.key, &g);
    if (e->linked)
        cache_unlink_locked(e->cache, &g, e);
    cuckoo_unlock(e->cache->index, &g);
}

void
entry_add_part(struct entry *e, struct stobj *next)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(atomic_load_explicit(&e->nparts, memory_order_relaxed) == 1);
    e->parts[1] = (struct entry_part){stobj_len(e->parts[0].body), next};
    atomic_store_explicit(&e->nparts, 2, memory_order_release);
}

void
entry_abandon(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    e->abandoned = true;
    if (e->fetch != NULL)
        task_wake(e->fetch);
}

static int
cache_usefulness(const struct cuckoo_node *node)
{
    const struct entry *e = container_of((struct cuckoo_node *)(uintptr_t)node, struct entry, node);

    if (entry_state(e) == ENTRY_BUSY)
        return 1000; /* others wait for it */
    return atomic_load_explicit(&e->uses, memory_order_relaxed);
}

/* The index is charged to the store like everything else.  What was really allocated stands
 * in front of the aligned piece. */
struct index_piece {
    char *raw;
    size_t bytes;
};

static void *
cache_index_alloc(void *ctx, size_t bytes, size_t align)
{
    struct cache *c = ctx;
    struct index_piece piece = {.bytes = bytes + align + sizeof(piece)};
    char *p;

    piece.raw = storage_alloc(c->storage, piece.bytes);
    if (piece.raw == NULL)
        return NULL;
    p = piece.raw + sizeof(piece);
    p += (align - (uintptr_t)p % align) % align;
    memcpy(p - sizeof(piece), &piece, sizeof(piece));
    return memset(p, 0, bytes);
}

static void
cache_index_free(void *ctx, void *p, size_t bytes)
{
    struct cache *c = ctx;
    struct index_piece piece;

    (void)bytes;
    memcpy(&piece, (char *)p - sizeof(piece), sizeof(piece));
    storage_free(c->storage, piece.raw, piece.bytes);
}

int
cache_open(struct cache **out, const struct conf_index *conf, struct storage *storage,
    uint64_t storage_bytes, struct counters *counters)
{
    struct cache *c = calloc(1, sizeof(*c));
    struct cuckoo_conf cc = {
        .bits = (unsigned)conf->bits,
        .slots = (unsigned)conf->slots,
        .memory = {cache_index_alloc, cache_index_free, c},
        .usefulness = cache_usefulness,
    };
    int err;

    if (c == NULL)
        return TERR_NOMEM;
    /* A slot for every KiB: an object of 1 KiB takes more than that with head and key. */
    if (cc.bits == 0)
        cc.bits = cuckoo_bits_for(storage_bytes >> 10, cc.slots);
    c->magic = CACHE_MAGIC;
    c->storage = storage;
    c->counters = counters;
    evict_init(&c->evict);
    err = cuckoo_open(&c->index, &cc);
    if (err != 0) {
        evict_fini(&c->evict);
        OBJ_FREE(c);
        return err;
    }
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
        e->linked = false;
        evict_remove(&c->evict, e);
        rcu_free_later(&e->later, entry_on_grace);
    }
}

void
cache_close(struct cache **cp)
{
    struct cache *c;

    OBJ_TAKE(c, cp, CACHE_MAGIC);
    rcu_join();
    while (!cuckoo_each(c->index, cache_flush_one, c))
        ;
    rcu_leave();
    rcu_barrier_wait();
    cuckoo_close(&c->index);
    evict_fini(&c->evict);
    OBJ_FREE(c);
}

void
cache_index_stats(const struct cache *c, struct cuckoo_stats *out)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    cuckoo_stats(c->index, out);
}
