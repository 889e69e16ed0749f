/* peek.c -- what a lookup would come to, without its being one. */
#include "daemon/cache/cache_priv.h"

static struct cache_choice
peek_choose(struct cache *c, const struct cache_query *q)
{
    struct cache_choice choice = {.cache = c};

    OBJ_CHECK(c, CACHE_MAGIC);
    cache_choose(&choice, entry_of_node(cuckoo_find(c->index, &q->key)), q);
    /* As a lookup has it, in the same order. */
    cache_heed_marker(&choice, q);
    return choice;
}

/* Banned ones leave on the way, as they would for any request. */
enum cache_verdict
cache_peek(struct cache *c, const struct cache_query *q, struct cache_answer *out, bool *fetches)
{
    struct cache_choice choice = peek_choose(c, q);
    enum cache_verdict verdict;

    *out = (struct cache_answer){.reason = choice.reason};
    /* As if there were an entry to fill: a miss makes one, and this must not. */
    verdict = cache_judge(c, q, &choice, true, out, fetches);
    out->entry = choice.use != NULL ? choice.use : choice.stale;
    if (verdict == CACHE_MISS)
        out->old = choice.old;
    /* The one that would be waited for. */
    if (verdict == CACHE_QUEUED)
        out->entry = choice.busy;
    return verdict;
}

struct entry *
cache_stored(struct cache *c, const struct hash128 *key)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return entry_of_node(cuckoo_find(c->index, key));
}

struct entry *
cache_marker(struct cache *c, const struct cache_query *q)
{
    return peek_choose(c, q).marker;
}

bool
cache_is_variant_for(const struct entry *e, const struct cache_query *q)
{
    return entry_state(e) == ENTRY_READY && entry_matches(e, q);
}

bool
cache_recall(struct cache *c, const struct hash128 *key, struct removal_seen *out)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return removals_recall(&c->removals, key, out);
}
