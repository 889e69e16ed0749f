/* cache.c -- lookup, waiting lists and outcomes.
 *
 * Entries under one key hang off the node in the index in a list, newest first.  Readers
 * walk it without locks; it changes under the key's guard. */
#include "daemon/cache/cache.h"

#include "daemon/base/limits.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/freshness.h"
#include "daemon/http/tags.h"
#include "daemon/http/vary.h"

static inline void
entry_count_use(struct entry *e, const struct cache_query *q)
{
    evict_node_use(&e->evict, (uint32_t)(q->now_ms >> ENTRY_TICK_LOG2));
    if (__builtin_expect(q->count_hits, 0))
        entry_count_hit(e);
}

/* On RCU's thread.  What is promised is read first: the drop may free the entry. */
void
entry_on_grace(struct rcu_head *head)
{
    struct entry *e = container_of(rcu_link_of(head), struct entry, later);
    struct storage *st = cache_of_all->storage;
    uint64_t promised = e->promised ? (uint64_t)e->evict.size << 10 : 0;

    entry_drop(&e);
    if (promised > 0)
        storage_promise_kept(st, promised); /* whether it was freed or is read still */
}

void
entry_retire(struct entry *e)
{
    e->linked = false;
    e->orphaned = entry_state(e) == ENTRY_BUSY; /* there are waiters where `later` would be */
    if (!e->orphaned)
        rcu_free_later_link(&e->later, entry_on_grace);
}

/* Under the guard of its key. */
void
entry_set_next(struct entry *e, struct entry *next)
{
    struct entry_form *form = entry_form_of(e);

    atomic_store_explicit(
        form != NULL ? &form->next : &e->variant, (uintptr_t)next, memory_order_release);
}

void
cache_unlink_locked(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct entry *next = entry_next(e);
    struct entry *first = entry_of_node(cuckoo_find_locked(c->index, g));

    /* `e` keeps its own link: a reader that stands on it now must find its way to the older
     * ones. */
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
        entry_set_next(prev, next);
    }
    /* Out of the queue first: entry_retire() writes `later`, which lies where the queue's link
     * is. */
    evict_remove(c, e);
    entry_retire(e);
}

void
cache_unlink_under(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct cuckoo_guard own;
    bool locks = g == NULL;

    if (locks) {
        g = &own;
        cuckoo_lock(c->index, &e->node.key, g);
    }
    if (e->linked)
        cache_unlink_locked(c, g, e);
    if (locks)
        cuckoo_unlock(c->index, g);
}

/* The whole chain of a victim leaves: its node is out of the table already. */
static void
cache_drop_victim(struct cache *c, struct cuckoo_node *node)
{
    for (struct entry *e = entry_of_node(node), *next; e != NULL; e = next) {
        next = entry_next(e);
        removals_note(&c->removals, &e->node.key, REMOVAL_NO_SLOT);
        evict_remove(c, e);
        entry_retire(e); /* its fetch still holds it, and wakes its waiters */
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
    if (n < LIMIT_VARIANTS || last == NULL)
        return;
    removals_note(&c->removals, &last->node.key, REMOVAL_CROWDED);
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
            /* The one that left may have been the first. */
            first = cuckoo_find_locked(c->index, g);
        }
        if (first != NULL) {
            entry_set_next(e, entry_of_node(first));
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

/* It stays out of the index until its outcome is known: no request waits for it, so that what must
 * be asked for each time, and what is not for the cache, never stands in a line. */
static bool
cache_is_late(const struct cache_choice *choice, const struct cache_query *q)
{
    if (choice->stale != NULL)
        return false; /* one refresh is enough */
    if (choice->marker != NULL)
        return true; /* hit-for-miss */
    /* With a policy a waiting request may use it: the wait was a validation. */
    return !q->for_policy && choice->old != NULL && entry_is_checked_each_time(choice->old);
}

/* What is known not to be for the cache is asked for as the client asks: hit-for-pass.  A plain
 * GET is asked for as if for the cache, so that it is found out when that has changed. */
static bool
cache_passes(const struct entry *marker, const struct cache_query *q)
{
    const uint64_t not_plain = HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_IF_NONE_MATCH) |
                               HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE);

    if (marker->pass)
        return true;
    return !q->for_policy && (marker->by_request || q->req->method != HTTP_M_GET ||
                                 (q->req->present & not_plain) != 0);
}

/* With a policy a marker that is fresh comes before what is stale. */
void
cache_heed_marker(struct cache_choice *choice, const struct cache_query *q)
{
    if (choice->marker == NULL)
        return;
    choice->reason = choice->marker->pass ? CACHE_MARKED_PASS : CACHE_MARKED;
    if (q->for_policy || choice->marker->pass)
        choice->stale = NULL;
}

/* One that is stale is served at once, and refreshed besides.  One refresh at a time is enough, and
 * it needs an entry to be filled.  Each walk passes all entries in fetch, so there are at most
 * LIMIT_VARIANTS of them under a key. */
static bool
cache_refreshes(const struct cache_choice *choice, const struct cache_query *q, bool room)
{
    return room && choice->busy == NULL && choice->nbusy < LIMIT_VARIANTS && !q->only_stored;
}

/* Nothing that is stored may be used.  The order matters: that nothing is there is an answer, and
 * needs no fetch; a marker spares the wait behind a fetch that would be of no use; and with
 * only-if-cached (RFC 9111 5.2.1.7) the client waits for no fetch either.  While nothing is trusted a fetch that
 * began before may be of what was purged since, so none is joined. */
static enum cache_verdict
cache_judge_unusable(struct cache *c, const struct cache_query *q,
    const struct cache_choice *choice, struct cache_answer *out)
{
    bool joins = choice->busy != NULL && cache_is_trusted(c);

    if (c->negative != NULL && cache_is_absent(c, q, &out->absent, &out->reason))
        return CACHE_ABSENT;
    if (!joins && choice->nbusy >= LIMIT_VARIANTS)
        return CACHE_PASS;
    if (choice->marker != NULL && cache_passes(choice->marker, q))
        return CACHE_PASS;
    if (q->only_stored)
        return CACHE_PASS;
    if (joins && !cache_is_late(choice, q))
        return CACHE_QUEUED;
    return CACHE_MISS;
}

/* What a walk along the entries comes to.  `room`: there is one to be filled.  *fetches: it has
 * to be filled by this request; with CACHE_STALE, besides. */
enum cache_verdict
cache_judge(struct cache *c, const struct cache_query *q, const struct cache_choice *choice,
    bool room, struct cache_answer *out, bool *fetches)
{
    enum cache_verdict verdict;

    if (choice->use != NULL) {
        *fetches = false;
        return CACHE_HIT;
    }
    if (choice->stale != NULL) {
        *fetches = cache_refreshes(choice, q, room);
        return CACHE_STALE;
    }
    verdict = cache_judge_unusable(c, q, choice, out);
    *fetches = verdict == CACHE_MISS;
    return verdict;
}

/* With a new entry at hand, under the guard: nothing can change any more.  Takes *fresh unless
 * it is not needed. */
static enum cache_verdict
cache_lookup_locked(struct cache *c, struct cuckoo_guard *g, const struct cache_query *q,
    struct waiter *w, struct entry **fresh, struct cache_answer *out)
{
    struct entry *e = *fresh;
    struct cache_choice choice = {
        .cache = c, .g = g, .expected = e != NULL && !q->ignore_vary ? entry_expected(e) : 0};
    enum cache_verdict verdict;
    bool fetches;

    cache_choose(&choice, entry_of_node(cuckoo_find_locked(c->index, g)), q);
    cache_heed_marker(&choice, q);
    out->reason = choice.reason;
    out->entry = choice.use != NULL ? choice.use : choice.stale;
    if (out->entry != NULL)
        entry_count_use(out->entry, q);
    verdict = cache_judge(c, q, &choice, e != NULL, out, &fetches);
    if (verdict == CACHE_QUEUED) {
        /* The outcome comes under this guard too, so it cannot slip in before this. */
        waiter_arm(w, &choice.busy->waiting);
        out->entry = entry_hold(choice.busy);
    }
    if (!fetches)
        return verdict;
    *fresh = NULL;
    if (e != NULL && choice.old != NULL)
        out->old = entry_hold(choice.old);
    if (e != NULL && cache_is_late(&choice, q)) {
        e->late = true;
        /* A change from now on makes the count another: cache_link_late(). */
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

/* Decided again under the guard, with an entry at hand.  Its memory comes before: making room takes
 * guards, and a thread holds one at a time.  One that is superfluous no other thread has seen. */
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
        atomic_store_explicit(
            &fresh->evict.stamp, cache_variant(seen->varies, q), memory_order_relaxed);
    cuckoo_lock(c->index, &q->key, &g);
    verdict = cache_lookup_locked(c, &g, q, w, &fresh, out);
    cuckoo_unlock(c->index, &g);
    /* Each miss pays for a few buckets of an index that doubles, without its guard. */
    cuckoo_tend(c->index, INDEX_TEND_BUCKETS, INDEX_TEND_BYTES);
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
    struct cache_choice choice = {.cache = c};

    OBJ_CHECK(c, CACHE_MAGIC);
    out->old = out->refresh = NULL;
    cache_choose(&choice, entry_of_node(cuckoo_find(c->index, &q->key)), q);
    out->entry = choice.use;
    if (__builtin_expect(choice.use != NULL, 1)) {
        entry_count_use(choice.use, q);
        return CACHE_HIT;
    }
    cache_heed_marker(&choice, q);
    if (choice.reason == CACHE_MARKED_PASS) {
        out->reason = choice.reason;
        return CACHE_PASS;
    }
    if (choice.stale != NULL && choice.busy != NULL) { /* it is being refreshed: no lock needed */
        entry_count_use(choice.stale, q);
        out->entry = choice.stale;
        out->reason = choice.reason;
        return CACHE_STALE;
    }
    /* A flood of names that do not exist must not make entries (E17). */
    if (choice.stale == NULL && c->negative != NULL &&
        cache_is_absent(c, q, &out->absent, &out->reason))
        return CACHE_ABSENT;
    return cache_lookup_slow(c, q, &choice, w, out);
}

struct entry *
cache_lookup_stale(struct cache *c, const struct cache_query *q)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return cache_choose_stale(c, entry_of_node(cuckoo_find(c->index, &q->key)), q);
}

/* The outcome comes under the same guard: BUSY here, it is still to come. */
bool
cache_wait(struct entry *e, struct waiter *w)
{
    struct cuckoo_guard g;
    bool busy;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(cache_of_all->index, &e->node.key, &g);
    busy = entry_state(e) == ENTRY_BUSY;
    if (busy)
        waiter_arm(w, &e->waiting);
    cuckoo_unlock(cache_of_all->index, &g);
    return busy;
}

void
cache_cancel(struct entry *e, struct waiter *w)
{
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(cache_of_all->index, &e->node.key, &g);
    if (waiter_state(w) == WAITER_ARMED)
        waiter_disarm(w);
    cuckoo_unlock(cache_of_all->index, &g);
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

/* Not even good for validation any more. */
static bool
entry_is_over(const struct entry *e, int64_t now_ms)
{
    return now_ms - e->received_ms > entry_ttl_ms(e) + entry_good_ms(e);
}

/* What is being fetched stays: requests wait for it.  Under a policy what was never fresh leaves
 * what is fresh in its place, as in Varnish. */
void
cache_supersede(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    struct entry *next;

    for (struct entry *o = entry_of_node(cuckoo_find_locked(c->index, g)); o != NULL; o = next) {
        next = entry_next(o);
        if (o == e || entry_state(o) == ENTRY_BUSY ||
            (e->yields && entry_state(o) == ENTRY_READY && entry_is_fresh(o, e->received_ms)))
            continue;
        if (entry_state(o) != ENTRY_READY || vary_supersedes(entry_vary(e), entry_vary(o)) ||
            entry_is_over(o, e->received_ms)) {
            if (entry_state(o) == ENTRY_READY && vary_supersedes(entry_vary(e), entry_vary(o)))
                evict_inherit(c, e, o);
            cache_unlink_locked(c, g, o);
        }
    }
}

/* Under the guard, once.  `readers` is set before the state, which lets entry_join() in, and lies
 * where `changes` was.  Release: who sees the state sees all of the response.  An orphan is retired
 * last, for `later` lies where the waiters' list was. */
void
entry_outcome(struct entry *e, enum entry_state state)
{
    tassert(entry_state(e) == ENTRY_BUSY);
    atomic_store_explicit(&e->evict.stamp, 0, memory_order_relaxed);
    if (state == ENTRY_READY)
        atomic_store_explicit(&e->readers, 0, memory_order_relaxed);
    atomic_store_explicit(&e->state, (uint8_t)state, memory_order_release);
    waiter_notify_all(&e->waiting);
    if (e->orphaned)
        entry_retire(e);
}

void
entry_set_response(struct entry *e, const struct cache_response *r)
{
    const struct fresh_verdict *v = r->fresh;
    size_t key_len = r->key_text.len;

    /* A quote would end the string (RFC 8941 3.3.3). */
    e->key_shows = key_len > 0 && key_len <= ENTRY_KEY_SHOWN_MAX &&
                   memchr(r->key_text.ptr, '"', key_len) == NULL;
    e->origin_status = r->origin_status;
    e->ttl_from = v->origin;
    e->length_in_head = r->length_in_head;
    e->partial = r->partial;
    e->windowed = r->windowed;
    e->evict.comes = r->copy ? EVICT_COMES_AS_COPY : EVICT_COMES_NEW;
    e->pass = r->for_policy && r->was_fresh; /* entry_was_fresh() */
    e->yields = r->for_policy && v->ttl_ms <= 0;
    e->received_ms = r->received_ms;
    atomic_init(&e->ttl, entry_ms_pack(v->ttl_ms));
    atomic_init(&e->grace, entry_ms_pack(v->grace_ms));
    atomic_init(&e->error, entry_ms_pack(v->error_ms));
    atomic_init(&e->stale_if_error, entry_ms_pack(v->stale_if_error_ms));
    atomic_init(&e->keep, entry_ms_pack(v->keep_ms));
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

/* Which of its key's responses have which tags a walk by tag learns from the index, without a look at
 * them.  Before readers may find it. */
void
cache_mark_tags(struct cache *c, struct cuckoo_guard *g, const struct entry *e)
{
    const struct entry_block *b = e->block;
    unsigned marks = b->any_tag ? (1u << CUCKOO_MARKS) - 1 : 0;

    for (unsigned i = 0; i < b->ntags; i++)
        marks |= tag_mark(entry_tags(e)[i], CUCKOO_MARKS);
    if (marks != 0 && e->linked)
        cuckoo_mark(c->index, g, marks);
}

/* Bans that came while it was fetched.  Before the guard, for expressions take their time; again
 * under it, with the entry linked: from then on the lurker sees it.  What is banned leaves. */
static void
cache_heed_bans(struct cache *c, struct cuckoo_guard *g, struct entry *e)
{
    if (!entry_is_private(e) && bans_fresh(c, e) && g != NULL && e->linked)
        cache_unlink_locked(c, g, e);
}

/* What can fail comes first: on TERR_NOMEM the parts' objects are still the caller's. */
int
cache_publish(struct entry *e, const struct cache_response *r)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(r->nparts > 0);
    if (entry_set_block(e, r) != 0)
        return TERR_NOMEM;
    if (entry_set_parts(e, r->parts, r->nparts) != 0) {
        entry_block_free(e);
        return TERR_NOMEM;
    }
    entry_set_response(e, r);
    cache_heed_bans(c, NULL, e);
    cuckoo_lock(c->index, &e->node.key, &g);
    cache_link_late(c, &g, e);
    cache_heed_bans(c, &g, e);
    cache_mark_tags(c, &g, e);
    if (e->linked && c->negative != NULL)
        negative_remove(c->negative, &e->node.key);
    entry_outcome(e, ENTRY_READY);
    /* What it replaces leaves when it is whole: should it be cut short, that is still there. */
    if (e->linked && entry_is_settled(e))
        cache_supersede(c, &g, e);
    if (e->linked && !e->windowed)
        counter_add_shared(c->counters, COUNTER_cache_inserts, 1);
    cuckoo_unlock(c->index, &g);
    return 0;
}

/* An error, or one request's Authorization, says nothing of what is stored: that stays (E11). */
void
cache_hitmiss(
    struct entry *e, struct entry *handoff, int64_t now_ms, int64_t ttl_ms, enum cache_mark mark)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(!entry_is_private(e) && (handoff == NULL || entry_is_private(handoff)));
    /* It lies where `parts` would be: a marker has none. */
    e->handoff = handoff;
    e->by_request = mark == CACHE_MARK_BY_REQUEST;
    e->pass = mark == CACHE_MARK_PASS;
    if (e->origin_status != FRESH_REFUSE_NONE)
        removals_note(&c->removals, &e->node.key, REMOVAL_REFUSED + e->origin_status);
    e->received_ms = now_ms;
    atomic_init(&e->ttl, entry_ms_pack(ttl_ms));
    cuckoo_lock(c->index, &e->node.key, &g);
    if (ttl_ms > 0)
        cache_link_late(c, &g, e);
    cache_heed_bans(c, &g, e);
    if (c->negative != NULL && (mark == CACHE_MARK || mark == CACHE_MARK_PASS))
        negative_remove(c->negative, &e->node.key);
    entry_outcome(e, ENTRY_HITMISS);
    if (e->linked && ttl_ms <= 0) {
        cache_unlink_locked(c, &g, e);
    } else if (e->linked) {
        if (mark == CACHE_MARK || mark == CACHE_MARK_PASS)
            cache_supersede(c, &g, e);
        /* A KiB, though it has less: no size is 0. */
        evict_add(c, e, 1);
    }
    cuckoo_unlock(c->index, &g);
}

struct entry *
cache_take_handoff(struct entry *e)
{
    struct cuckoo_guard g;
    struct entry *handoff;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(entry_state(e) == ENTRY_HITMISS);
    cuckoo_lock(cache_of_all->index, &e->node.key, &g);
    handoff = e->handoff;
    e->handoff = NULL;
    cuckoo_unlock(cache_of_all->index, &g);
    return handoff;
}

/* Unlinked while it is BUSY it is an orphan, which the outcome retires. */
void
cache_fail(struct entry *e, int err)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    e->err = err;
    cache_note(e, REMOVAL_FAILED);
    cuckoo_lock(c->index, &e->node.key, &g);
    if (e->linked)
        cache_unlink_locked(c, &g, e);
    entry_outcome(e, ENTRY_FAILED);
    cuckoo_unlock(c->index, &g);
}

/* What it replaces goes only now: a body that is cut short leaves that where it was. */
void
cache_settle(struct entry *e)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;
    uint32_t kb;

    OBJ_CHECK(e, ENTRY_MAGIC);
    if (entry_is_private(e))
        return;
    kb = entry_charge_kb(c, e);
    cuckoo_lock(c->index, &e->node.key, &g);
    if (e->linked) {
        cache_supersede(c, &g, e);
        evict_add(c, e, kb);
    }
    cuckoo_unlock(c->index, &g);
}

/* Superseded too: else the old response would be found again (E15). */
void
cache_settle_window(struct entry *e)
{
    struct cache *c = cache_of_all;
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert(e->windowed);
    cuckoo_lock(c->index, &e->node.key, &g);
    if (e->linked) {
        cache_supersede(c, &g, e);
        cache_unlink_locked(c, &g, e);
    }
    cuckoo_unlock(c->index, &g);
}

void
cache_note(const struct entry *e, unsigned what)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    if (!entry_is_private(e))
        removals_note(&cache_of_all->removals, &e->node.key, what);
}

void
entry_refused(struct entry *e, enum fresh_refusal why)
{
    tassert(entry_state(e) == ENTRY_BUSY);
    e->origin_status = why;
}

void
cache_unlink(struct entry *e)
{
    struct cuckoo_guard g;

    OBJ_CHECK(e, ENTRY_MAGIC);
    cuckoo_lock(cache_of_all->index, &e->node.key, &g);
    if (e->linked)
        cache_unlink_locked(cache_of_all, &g, e);
    cuckoo_unlock(cache_of_all->index, &g);
}

/* What becomes of the entries of a key; all NULL: they leave. */
struct cache_change {
    int64_t now_ms, ttl_ms, grace_ms, keep_ms; /* below 0: as it is */
};

static void
entry_ms_set(_Atomic entry_ms_t *field, int64_t ms)
{
    atomic_store_explicit(field, entry_ms_pack(ms), memory_order_relaxed);
}

/* A purge never makes anything last longer, except by its grace and keep. */
static void
entry_soften(struct entry *e, const struct cache_change *to)
{
    int64_t resident = to->now_ms - e->received_ms, keep = entry_keep_ms(e);

    entry_set_softened(e);
    if (to->ttl_ms >= 0 && resident + to->ttl_ms < entry_ttl_ms(e))
        entry_ms_set(&e->ttl, resident + to->ttl_ms);
    if (to->grace_ms >= 0) {
        entry_ms_set(&e->grace, to->grace_ms);
        /* Nor is it shown for longer because the origin fails. */
        if (entry_error_ms(e) > to->grace_ms)
            entry_ms_set(&e->error, to->grace_ms);
        if (entry_stale_if_error_ms(e) > to->grace_ms)
            entry_ms_set(&e->stale_if_error, to->grace_ms);
    }
    if (to->keep_ms >= 0)
        keep = to->keep_ms;
    if (to->grace_ms >= 0 || to->keep_ms >= 0)
        entry_ms_set(&e->keep, entry_grace_ms(e) + keep);
}

/* By any thread, without the guard: one exchange of the ttl succeeds, so it counts once (T4). */
bool
entry_make_stale(struct entry *e, int64_t now_ms)
{
    int64_t resident = now_ms > e->received_ms ? now_ms - e->received_ms : 0;
    entry_ms_t was = atomic_load_explicit(&e->ttl, memory_order_relaxed);

    while (entry_ms_of(was) > resident) {
        entry_set_softened(e); /* before the ttl, which may be 0 */
        if (atomic_compare_exchange_weak_explicit(
                &e->ttl, &was, entry_ms_pack(resident), memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

/* What is not in the index now, because it is late, learns it from the count of changes.  How
 * many are concerned; *any: was there anything at all? */
static unsigned
cache_change_key(
    struct cache *c, const struct hash128 *key, const struct cache_change *to, bool *any)
{
    struct entry *e, *next;
    struct cuckoo_guard g;
    unsigned n = 0;

    OBJ_CHECK(c, CACHE_MAGIC);
    /* Before the look: a late entry that noted it earlier is not linked, a later one is fetched
     * after. */
    atomic_fetch_add(cache_changes(c, key), 1);
    *any = cuckoo_find(c->index, key) != NULL;
    if (!*any && c->negative == NULL)
        return 0;
    cuckoo_lock(c->index, key, &g);
    if (c->negative != NULL && negative_remove(c->negative, key)) {
        *any = true;
        n++;
    }
    for (e = entry_of_node(cuckoo_find_locked(c->index, &g)); e != NULL; e = next) {
        bool busy = entry_state(e) == ENTRY_BUSY;

        next = entry_next(e);
        n += !busy;
        /* It may be of before the change: delivered, and not kept (E14). */
        if (to != NULL && !busy)
            entry_soften(e, to);
        else
            cache_unlink_locked(c, &g, e);
    }
    cuckoo_unlock(c->index, &g);
    return n;
}

bool
cache_invalidate(struct cache *c, const struct hash128 *key)
{
    bool any;

    cache_change_key(c, key, NULL, &any);
    if (!any)
        return false;
    removals_note(&c->removals, key, REMOVAL_CHANGED);
    counter_add_shared(c->counters, COUNTER_cache_invalidated, 1);
    return true;
}

unsigned
cache_purge(struct cache *c, const struct hash128 *key)
{
    bool any;
    unsigned n = cache_change_key(c, key, NULL, &any);

    if (n > 0)
        removals_note(&c->removals, key, REMOVAL_PURGED);
    counter_add_shared(c->counters, COUNTER_cache_purged, n);
    return n;
}

unsigned
cache_purge_soft(struct cache *c, const struct hash128 *key, int64_t now_ms, int64_t ttl_ms,
    int64_t grace_ms, int64_t keep_ms)
{
    const struct cache_change to = {now_ms, ttl_ms, grace_ms, keep_ms};
    bool any;
    unsigned n;

    if (ttl_ms == 0 && grace_ms == 0 && keep_ms == 0)
        return cache_purge(c, key);
    n = cache_change_key(c, key, &to, &any);
    counter_add_shared(c->counters, COUNTER_cache_purged_soft, n);
    return n;
}

/* One word, with release, behind its array: readers see the first part only, or both. */
int
entry_add_part(struct entry *e, struct stobj *next)
{
    struct entry_part parts[2] = {entry_part(e, 0), {.len = STOBJ_SIZE_UNKNOWN, .body = next}};
    struct entry_parts *p;

    OBJ_CHECK(e, ENTRY_MAGIC);
    tassert((atomic_load_explicit(&e->parts, memory_order_relaxed) & 1) == 0);
    parts[1].off = stobj_len(parts[0].body);
    p = entry_parts_new(parts, 2, true);
    if (p == NULL)
        return TERR_NOMEM;
    atomic_store_explicit(&e->parts, (uintptr_t)p + 1, memory_order_release);
    return 0;
}

/* One of the readers leaves; the last one has the fetch look. */
static uint32_t
entry_uncount(struct entry *e)
{
    uint32_t had = atomic_fetch_sub_explicit(&e->readers, 1, memory_order_acq_rel);

    if ((had & ~ENTRY_SEALED) == 1)
        stobj_wake_writer(entry_part(e, entry_nparts(e) - 1).body);
    return had;
}

/* The exchange that counts this reader shows the seal too: entry_seal() returns a number with it
 * in, or this reader sees the seal and asks the window. */
bool
entry_join(struct entry *e)
{
    uint32_t n = atomic_load_explicit(&e->readers, memory_order_relaxed);

    OBJ_CHECK(e, ENTRY_MAGIC);
    do
        if (n == ENTRY_CLOSED)
            return false;
    while (!atomic_compare_exchange_weak_explicit(
        &e->readers, &n, n + 1, memory_order_acquire, memory_order_relaxed));
    if ((n & ENTRY_SEALED) == 0)
        return true; /* it is counted when that happens */
    if (entry_nparts(e) > 1 && !e->partial && stobj_let_in(entry_part(e, 1).body))
        return true;
    entry_uncount(e);
    return false;
}

/* From no reader to closed in one exchange: one that comes at this moment is counted, and this
 * fails, or finds it closed and looks again (E16). */
bool
entry_close(struct entry *e)
{
    uint32_t n = atomic_load_explicit(&e->readers, memory_order_relaxed);

    OBJ_CHECK(e, ENTRY_MAGIC);
    while ((n & ~ENTRY_SEALED) == 0)
        if (atomic_compare_exchange_weak_explicit(
                &e->readers, &n, ENTRY_CLOSED, memory_order_acquire, memory_order_relaxed))
            return true;
    return n == ENTRY_CLOSED;
}

uint32_t
entry_seal(struct entry *e)
{
    uint32_t had = atomic_fetch_or_explicit(&e->readers, ENTRY_SEALED, memory_order_acq_rel);

    OBJ_CHECK(e, ENTRY_MAGIC);
    return had == ENTRY_CLOSED ? 0 : had & ~ENTRY_SEALED;
}

void
entry_leave(struct entry *e, bool came)
{
    uint32_t had = entry_uncount(e);

    OBJ_CHECK(e, ENTRY_MAGIC);
    /* Expected at the window's first byte, it would hold up the writer. */
    if ((had & ENTRY_SEALED) != 0 && !came && entry_nparts(e) > 1 && !e->partial)
        stobj_expect(entry_part(e, 1).body, -1);
}

void
entry_wake_fetch(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    if (e->fetched)
        task_wake(e->fetch);
}

void
entry_abandon(struct entry *e)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    e->abandoned = true;
    entry_wake_fetch(e);
}
