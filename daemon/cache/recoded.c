/* recoded.c -- a stored response in one more content coding, beside the one that answers every client.
 *
 * It is an entry of its own, so that it is charged, evicted, purged and found as any other; and it is no more
 * than a shadow: as fresh, as old and as far tested against bans as what it was made of, and takes the place of
 * that for the clients that take its coding. */
#include "daemon/base/terr.h"
#include "daemon/cache/ban_priv.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/codings.h"
#include "daemon/http/freshness.h"
#include "daemon/http/vary.h"

/* Its memory comes before the guard, for it may evict.  NULL: there is none. */
static struct entry *
recoded_new(struct cache *c, const struct entry *base, const struct cache_response *r)
{
    struct entry *e = entry_new(c, 1, false);
    struct fresh_verdict v = {.age_ms = entry_first_age_ms(base),
        .origin = base->ttl_from,
        .ttl_ms = entry_ttl_ms(base),
        .grace_ms = entry_grace_ms(base),
        .error_ms = entry_error_ms(base),
        .stale_if_error_ms = entry_stale_if_error_ms(base),
        .keep_ms = entry_good_ms(base),
        .validatable = base->validatable,
        .must_revalidate = base->must_revalidate};
    struct cache_response of = *r;

    if (e == NULL)
        return NULL;
    of.fresh = &v;
    of.received_ms = base->received_ms;
    of.status = entry_status(base) & 0x3ff;
    of.status_prefix = entry_rare(base->block).status_prefix;
    of.origin_status = base->origin_status;
    e->node.key = base->node.key;
    if (entry_set_block(e, &of) != 0) {
        entry_drop(&e);
        return NULL;
    }
    entry_set_response(e, &of);
    e->pass = base->pass; /* entry_was_fresh() */
    return e;
}

/* Of one that is being fetched nothing is published. */
static bool
recoded_is_of(const struct entry *e, const struct entry *base)
{
    return entry_state(e) == ENTRY_READY && vary_recoded(entry_vary(e)).form != 0 &&
           vary_supersedes(entry_vary(base), entry_vary(e));
}

/* Where it goes in: what was packed by a dictionary is the shortest, and comes before all forms of `base`. */
static struct entry *
recoded_place(struct entry *first, struct entry *base, const struct entry *e)
{
    if (vary_recoded(entry_vary(e)).form != HTTP_FORM_DCZ)
        return base;
    while (first != base && !recoded_is_of(first, base))
        first = entry_next(first);
    return first;
}

/* In front of `base`: what is newer than that comes first still. */
static void
recoded_link(struct cache *c, struct cuckoo_guard *g, struct entry *base, struct entry *e)
{
    struct entry *first = entry_of_node(cuckoo_find_locked(c->index, g)), *prev = first;
    struct entry *at = recoded_place(first, base, e);

    entry_set_next(e, at);
    if (first == at) {
        cuckoo_replace(c->index, g, &at->node, &e->node);
    } else {
        while (entry_next(prev) != at)
            prev = entry_next(prev);
        entry_set_next(prev, e);
    }
    e->linked = true;
}

/* Is there room under the key, without one that leaves for it? */
static bool
recoded_fits(const struct cache *c, struct cuckoo_guard *g)
{
    unsigned n = 0;

    for (struct entry *o = entry_of_node(cuckoo_find_locked(c->index, g)); o != NULL;
         o = entry_next(o))
        n++;
    return n < LIMIT_VARIANTS;
}

/* Soft purges since its making count too: they change times, and not the response. */
static void
recoded_take_times(struct entry *e, const struct entry *base)
{
    atomic_store_explicit(
        &e->ttl, atomic_load_explicit(&base->ttl, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&e->hits, entry_hits(base), memory_order_relaxed);
}

int
cache_publish_recoded(struct entry *base, const struct cache_response *r)
{
    struct cache *c = cache_of_all;
    struct entry *e = recoded_new(c, base, r);
    struct cuckoo_guard g;
    bool good;

    OBJ_CHECK(base, ENTRY_MAGIC);
    tassert(r->nparts == 1 && r->parts[0].len == r->body_len);
    tassert(stobj_state(r->parts[0].body) == STOBJ_SETTLED);
    if (e == NULL)
        return TERR_NOMEM;
    cuckoo_lock(c->index, &base->node.key, &g);
    good = base->linked && entry_state(base) == ENTRY_READY && entry_is_settled(base) &&
           recoded_fits(c, &g) && bans_attach_as(e, base);
    if (good) {
        int err = entry_set_parts(e, r->parts, 1);

        tassert(err == 0); /* the whole, which needs no memory */
        (void)err;
        recoded_take_times(e, base);
        entry_outcome(e, ENTRY_READY); /* before it is found: no request waits for it */
        recoded_link(c, &g, base, e);
        cache_mark_tags(c, &g, e);
        cache_supersede(c, &g, e);
        evict_add(c, e, entry_charge_kb(c, e));
        counter_add_shared(c->counters, COUNTER_cache_inserts, 1);
        /* A walk by tag may have passed `base` before it saw what is in front of it. */
        if (bans_fresh(c, e))
            cache_unlink_locked(c, &g, e);
    }
    cuckoo_unlock(c->index, &g);
    if (good)
        return 0;
    entry_drop(&e);
    return TERR_CANCELLED;
}
