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
#include "daemon/http/freshness.h"
#include "daemon/http/head.h"

static struct entry *
entry_of_node(struct cuckoo_node *node)
{
    return node == NULL ? NULL : container_of(node, struct entry, node);
}

static void
entry_count_use(struct entry *e)
{
    uint8_t uses = atomic_load_explicit(&e->uses, memory_order_relaxed);

    if (uses < 3)
        atomic_store_explicit(&e->uses, (uint8_t)(uses + 1), memory_order_relaxed);
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
        if (entry_state(e) == ENTRY_BUSY)
            continue;
        n++;
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

/* It stays out of the index until its outcome is known: nobody waits for it, so that what must
 * be asked for each time, and what is not for the cache, never stands in a line. */
static bool
cache_is_late(const struct cache_choice *choice)
{
    if (choice->stale != NULL)
        return false; /* one refresh is enough */
    if (choice->marker != NULL)
        return true; /* hit-for-miss */
    return choice->old != NULL && entry_is_checked_each_time(choice->old);
}

/* What is known not to be for the cache is asked for as the client asks: hit-for-pass.  A plain
 * GET is asked for as if for the cache, so that it is found out when that has changed. */
static bool
cache_passes(const struct entry *marker, const struct cache_query *q)
{
    const uint64_t not_plain = HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_IF_NONE_MATCH) |
                               HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE);

    return marker->by_request || q->req->method != HTTP_M_GET || (q->req->present & not_plain) != 0;
}

/* With a new entry at hand, under the guard: nothing can change any more.  Takes *fresh unless
 * it is not needed. */
static enum cache_verdict
cache_lookup_locked(struct cache *c, struct cuckoo_guard *g, const struct cache_query *q,
    struct waiter *w, struct entry **fresh, struct cache_answer *out)
{
    struct entry *e = *fresh;
    struct cache_choice choice = {.expected = e != NULL ? e->expected : 0};

    cache_choose(&choice, entry_of_node(cuckoo_find_locked(c->index, g)), q);
    out->reason = choice.marker != NULL ? CACHE_MARKED : choice.reason;
    out->entry = choice.use != NULL ? choice.use : choice.stale;
    if (out->entry != NULL)
        entry_count_use(out->entry);
    if (choice.use != NULL)
        return CACHE_HIT;
    if (choice.stale != NULL && (choice.busy != NULL || e == NULL))
        return CACHE_STALE;                                    /* somebody refreshes it already */
    if (choice.busy == NULL && choice.nbusy >= LIMIT_VARIANTS) /* every walk passes all of them */
        return choice.stale != NULL ? CACHE_STALE : CACHE_PASS;
    if (choice.stale == NULL && choice.marker != NULL && cache_passes(choice.marker, q))
        return CACHE_PASS;
    if (q->only_stored)
        return choice.stale != NULL ? CACHE_STALE : CACHE_PASS;
    if (choice.busy != NULL && !cache_is_late(&choice)) {
        waiter_arm(w, &choice.busy->waiting);
        out->entry = entry_hold(choice.busy);
        return CACHE_QUEUED;
    }
    *fresh = NULL;
    if (e != NULL && choice.old != NULL)
        out->old = entry_hold(choice.old);
    if (e != NULL && cache_is_late(&choice)) {
        e->late = true;
        e->changes = atomic_load(cache_changes(c, &q->key));
        atomic_store_explicit(&e->refs, 2, memory_order_relaxed); /* the index has none yet */
    } else if (e != NULL) {
        cache_link(c, g, e);
    }
    if (choice.stale == NULL) {
        out->entry = e;
        return CACHE_MISS;
    }
    atomic_fetch_sub_explicit(&e->refs, 1, memory_order_relaxed); /* no request leads it */
    e->abandoned = true;
    out->refresh = e;
    return CACHE_STALE;
}

static enum cache_verdict
cache_lookup_slow(struct cache *c, const struct cache_query *q, const struct cache_choice *seen,
    struct waiter *w, struct cache_answer *out)
{
    struct entry *fresh;
    enum cache_verdict verdict;
    struct cuckoo_guard g;

    fresh = entry_new(c, 3, false); /* index, request, fetch; before the guard, for it may evict */
    if (fresh != NULL)
        fresh->node.key = q->key;
    if (fresh != NULL && seen->varies != NULL)
        fresh->expected = cache_variant(seen->varies, q);
    cuckoo_lock(c->index, &q->key, &g);
    verdict = cache_lookup_locked(c, &g, q, w, &fresh, out);
    cuckoo_unlock(c->index, &g);
    if (fresh != NULL) {
        atomic_store_explicit(&fresh->refs, 1, memory_order_relaxed);
        entry_drop(&fresh);
    }
    return verdict;
}

enum cache_verdict
cache_lookup(
    struct cache *c, const struct cache_query *q, struct waiter *w, struct cache_answer *out)
{
    struct cache_choice choice = {.use = NULL};

    OBJ_CHECK(c, CACHE_MAGIC);
    out->old = out->refresh = NULL;
    cache_choose(&choice, entry_of_node(cuckoo_find(c->index, &q->key)), q);
    out->entry = choice.use;
    if (__builtin_expect(choice.use != NULL, 1)) {
        entry_count_use(choice.use);
        return CACHE_HIT;
    }
    if (choice.stale != NULL && choice.busy != NULL) { /* somebody refreshes it: no lock needed */
        entry_count_use(choice.stale);
        out->entry = choice.stale;
        out->reason = choice.reason;
        return CACHE_STALE;
    }
    return cache_lookup_slow(c, q, &choice, w, out);
}

struct entry *
cache_lookup_stale(struct cache *c, const struct cache_query *q)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return cache_choose_stale(entry_of_node(cuckoo_find(c->index, &q->key)), q);
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
            e->received_ms - o->received_ms > o->ttl_ms + o->keep_ms)
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

static void
entry_set_response(struct entry *e, const struct cache_response *r)
{
    const struct fresh_verdict *v = r->fresh;

    memcpy(e->block, r->head.ptr, r->head.len);
    if (r->vary.len > 0)
        memcpy(e->block + r->head.len, r->vary.ptr, r->vary.len);
    if (r->key_text.len > 0)
        memcpy(e->block + r->head.len + r->vary.len, r->key_text.ptr, r->key_text.len);
    e->head_len = (uint32_t)r->head.len;
    e->vary_len = (uint16_t)r->vary.len;
    e->key_len = (uint16_t)r->key_text.len;
    /* A quote would end the string (RFC 8941 3.3.3). */
    e->key_shows = e->key_len > 0 && e->key_len <= ENTRY_KEY_SHOWN_MAX &&
                   memchr(r->key_text.ptr, '"', r->key_text.len) == NULL;
    e->status = r->status;
    e->origin_status = r->origin_status;
    e->length_in_head = r->length_in_head;
    e->partial = r->partial;
    e->body_len = r->body_len;
    e->received_ms = r->received_ms;
    e->age_ms = v->age_ms;
    e->ttl_ms = v->ttl_ms;
    e->grace_ms = v->grace_ms;
    e->error_ms = v->error_ms;
    e->stale_if_error_ms = v->stale_if_error_ms;
    e->keep_ms = v->keep_ms;
    e->validatable = v->validatable;
    e->must_revalidate = v->must_revalidate;
}

/* Under the guard.  What was not in the index until now, and is for others, goes there. */
static void
cache_link_late(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    if (!e->late || e->changes != atomic_load(cache_changes(c, &e->node.key)))
        return; /* the second: an unsafe request has changed it meanwhile */
    e->late = false;
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    cache_link(c, g, e);
}

int
cache_publish(struct entry *e, const struct cache_response *r)
{
    struct cache *c = e->cache;
    size_t len = r->head.len + r->vary.len + r->key_text.len;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(r->nparts > 0);
    if (e->block == NULL && entry_block(e, len) == NULL)
        return TERR_NOMEM;
    entry_set_response(e, r);
    if (entry_set_parts(e, r->parts, r->nparts) != 0)
        return TERR_NOMEM;
    cuckoo_lock(c->index, &e->node.key, &g);
    cache_link_late(c, &g, e);
    entry_outcome(e, ENTRY_READY);
    /* What it replaces leaves when it is whole: should it be cut short, that is still there. */
    if (e->linked && entry_is_settled(e))
        cache_supersede(c, &g, e);
    if (e->linked)
        counter_add_shared(c->counters, COUNTER_cache_inserts, 1);
    cuckoo_unlock(c->index, &g);
    return 0;
}

void
cache_hitmiss(
    struct entry *e, struct entry *handoff, int64_t now_ms, int64_t ttl_ms, enum cache_mark mark)
{
    struct cache *c = e->cache;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(!e->is_private && (handoff == NULL || handoff->is_private));
    e->handoff = handoff;
    e->by_request = mark == CACHE_MARK_BY_REQUEST;
    e->received_ms = now_ms;
    e->ttl_ms = ttl_ms;
    e->charge_kb = 1;
    cuckoo_lock(c->index, &e->node.key, &g);
    if (ttl_ms > 0)
        cache_link_late(c, &g, e);
    entry_outcome(e, ENTRY_HITMISS);
    if (e->linked && ttl_ms <= 0) {
        cache_unlink_locked(c, &g, e);
    } else if (e->linked) {
        if (mark == CACHE_MARK)
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
    bytes = storage_good_size(c->storage, sizeof(*e)) +
            storage_good_size(c->storage, (size_t)e->head_len + e->vary_len + e->key_len);
    for (unsigned i = 0; i < atomic_load_explicit(&e->nparts, memory_order_relaxed); i++)
        bytes += stobj_len(e->parts[i].body);
    cuckoo_lock(c->index, &e->node.key, &g);
    e->charge_kb = (uint32_t)((bytes + 1023) >> 10);
    if (e->linked) {
        cache_supersede(c, &g, e);
        evict_add(&c->evict, e);
    }
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

bool
cache_invalidate(struct cache *c, const struct hash128 *key)
{
    struct entry *e, *next;
    struct cuckoo_guard g;

    OBJ_CHECK(c, CACHE_MAGIC);
    atomic_fetch_add(cache_changes(c, key), 1);
    if (cuckoo_find(c->index, key) == NULL)
        return false;
    cuckoo_lock(c->index, key, &g);
    for (e = entry_of_node(cuckoo_find_locked(c->index, &g)); e != NULL; e = next) {
        next = entry_next(e);
        cache_unlink_locked(c, &g, e);
    }
    cuckoo_unlock(c->index, &g);
    counter_add_shared(c->counters, COUNTER_cache_invalidated, 1);
    return true;
}

void
entry_add_part(struct entry *e, struct stobj *next)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(atomic_load_explicit(&e->nparts, memory_order_relaxed) == 1);
    tassert(e->parts == e->few);
    e->few[1] = (struct entry_part){stobj_len(e->few[0].body), STOBJ_SIZE_UNKNOWN, next};
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
