/* cache_negative.c -- what the cache does with names that do not exist (negative.h).
 *
 * A positive answer always wins: it is looked for first, and its coming removes the name.  Names
 * come and go under the guard of their key alone. */
#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/freshness.h"

int
cache_open_negative(struct cache *c, const struct conf_negative *conf)
{
    const struct cuckoo_memory memory = cache_negative_memory(c);

    OBJ_CHECK(c, CACHE_MAGIC);
    tassert(c->negative == NULL);
    if (conf->entries == 0)
        return 0;
    return negative_open(&c->negative, (uint64_t)conf->entries, &memory, c->counters);
}

struct negative *
cache_negative(struct cache *c)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return c->negative;
}

/* The client's directives, RFC 9111 5.2.1, as of a response that is fresh (entry_use_asked). */
static bool
cache_asks_on(const struct fresh_ask *ask, const struct negative_answer *a)
{
    if (ask == NULL || !ask->any)
        return false;
    if (ask->no_cache || ask->max_age_s == 0)
        return true;
    if (ask->max_age_s > 0 && a->age_ms / 1000 > ask->max_age_s)
        return true;
    return ask->min_fresh_s >= 0 && a->left_ms < ask->min_fresh_s * 1000;
}

bool
cache_is_absent(struct cache *c, const struct cache_query *q, struct negative_answer *out,
    enum cache_reason *reason)
{
    if (q->always_miss || negative_find(c->negative, &q->key, q->now_ms, out) != NEGATIVE_PRESENT)
        return false;
    if (!cache_is_trusted(c))
        return false; /* it may be there by now, and a purge has said so to others */
    if (!cache_asks_on(q->ask, out) && !(q->max_age_said && out->age_ms >= q->max_age_ms))
        return true;
    *reason = CACHE_ASKED;
    return false;
}

/* Is something else stored under the key: another variant? */
static bool
cache_has_ready(struct cache *c, struct cuckoo_guard *g)
{
    struct cuckoo_node *node = cuckoo_find_locked(c->index, g);
    struct entry *e = node == NULL ? NULL : container_of(node, struct entry, node);

    while (e != NULL && entry_state(e) != ENTRY_READY)
        e = entry_next(e);
    return e != NULL;
}

/* The key was not purged or changed since the entry was made: it is still where it was linked, or
 * would be (E8, E14). */
static bool
entry_is_undisturbed(struct cache *c, const struct entry *e)
{
    return e->late ? e->changes == atomic_load(cache_changes(c, &e->node.key)) : e->linked;
}

/* One guard over all of it: a purge comes before, and then no name stays, or after, and finds the
 * name.  `handoff`, if any, is taken over. */
void
cache_publish_absent(
    struct entry *e, struct entry *handoff, const struct negative_fact *fact, uint32_t generation)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(!entry_is_private(e) && (handoff == NULL || entry_is_private(handoff)));
    tassert(c->negative != NULL);
    e->handoff = handoff;
    removals_note(&c->removals, &e->node.key, REMOVAL_ABSENT);
    e->received_ms = fact->now_ms;
    atomic_init(&e->ttl, 0);
    cuckoo_lock(c->index, &e->node.key, &g);
    if (entry_is_undisturbed(c, e)) {
        cache_supersede(c, &g, e);
        if (!cache_has_ready(c, &g))
            negative_insert(c->negative, &e->node.key, fact, generation);
    }
    entry_outcome(e, ENTRY_HITMISS);
    if (e->linked)
        cache_unlink_locked(c, &g, e);
    cuckoo_unlock(c->index, &g);
}

void
cache_forget_absent(struct cache *c)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    if (c->negative != NULL)
        negative_drop(c->negative);
}

void
cache_is_there(struct cache *c, const struct hash128 *key)
{
    struct cuckoo_guard g;

    OBJ_CHECK(c, CACHE_MAGIC);
    if (c->negative == NULL)
        return;
    cuckoo_lock(c->index, key, &g);
    negative_remove(c->negative, key);
    cuckoo_unlock(c->index, &g);
}
