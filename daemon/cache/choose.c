/* choose.c -- which of the responses under a key answers this request, and how.
 *
 * Pure questions on entries: RFC 9111 4 (may it be used?), 4.1 (is it the right variant?),
 * 4.2.4 (though stale?), 5.2.1 (does the client agree?), 3.4 (are all the bytes there?). */
#include <time.h>

#include "daemon/base/limits.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/conditional.h"
#include "daemon/http/freshness.h"
#include "daemon/http/range.h"
#include "daemon/http/vary.h"

/* Beside it there is the one that it was made of. */
static bool
entry_is_recoded(const struct entry *e)
{
    return e->block->vary_len >= VARY_RECODED_LEN && vary_recoded(entry_vary(e)).form != 0;
}

bool
entry_matches(const struct entry *e, const struct cache_query *q)
{
    return e->block->vary_len == 0 || q->ignore_vary || vary_is_forms(entry_vary(e)) ||
           vary_match(entry_vary(e), q->req);
}

/* One client's Authorization or no-store must not keep a URL out of the cache for all. */
static bool
entry_marker_counts(const struct entry *e, const struct cache_query *q)
{
    return !e->by_request || http_has(q->req, HTTP_F_AUTHORIZATION) ||
           http_has(q->req, HTTP_F_CACHE_CONTROL);
}

/* Are all its bytes there?  What is still being filled may fail, so it is neither validated nor
 * completed, and supersedes nothing yet. */
bool
entry_is_settled(const struct entry *e)
{
    unsigned n = entry_nparts(e);

    for (unsigned i = 0; i < n; i++)
        if (stobj_state(entry_part(e, i).body) != STOBJ_SETTLED)
            return false;
    return true;
}

/* Are bytes first to last in its parts?  They may overlap, in order of their first bytes. */
bool
entry_has_bytes(const struct entry *e, uint64_t first, uint64_t last)
{
    unsigned n = entry_nparts(e);

    for (unsigned i = 0; i < n; i++) {
        const struct entry_part p = entry_part(e, i);

        if (p.off > first)
            return false;
        /* One of unknown length may end anywhere, so it promises nothing. */
        if (p.len == STOBJ_SIZE_UNKNOWN || first - p.off >= p.len)
            continue;
        if (last - p.off < p.len)
            return true;
        first = p.off + p.len;
    }
    return false;
}

bool
entry_missing(const struct entry *e, uint64_t *first, uint64_t *last)
{
    unsigned n = entry_nparts(e);

    if (entry_has_bytes(e, *first, *last))
        return false;
    /* Parts are in order of their first bytes, so one pass carries `first` as far as they reach. */
    for (unsigned i = 0; i < n; i++) {
        const struct entry_part p = entry_part(e, i);

        if (p.off <= *first && *first < p.off + p.len)
            *first = p.off + p.len;
    }
    for (unsigned i = n; i-- > 0;) { /* by first bytes: the last may not reach farthest */
        const struct entry_part p = entry_part(e, i);

        if (p.off <= *last && *last < p.off + p.len && p.off > *first)
            *last = p.off - 1;
    }
    return true;
}

/* For a range with an end that depends on the whole's unknown length. */
static bool
entry_has_spec(const struct entry *e, const struct range_spec *s)
{
    return s->first != RANGE_UNKNOWN && s->last != RANGE_UNKNOWN &&
           entry_has_bytes(e, s->first, s->last);
}

bool
entry_range_holds(
    const struct entry *e, const struct http_message *req, const struct validators *stored)
{
    return cond_range_holds(req, stored) &&
           !(vary_has_forms(entry_vary(e)) && cond_range_is_by_date(req));
}

/* RFC 9110 13.1.5: without a match of If-Range the client wants the whole, so a part is no
 * answer. */
static bool
entry_range_heeded(const struct entry *e, const struct cache_query *q)
{
    struct http_field fields[LIMIT_FIELDS];
    struct http_message stored;
    struct validators v;

    if (!http_has(q->req, HTTP_F_IF_RANGE))
        return true;
    entry_message(e, ENTRY_FIELDS_ALL, fields, &stored);
    validators_of(&stored, q->wall_ms / 1000, &v);
    return entry_range_holds(e, q->req, &v);
}

/* The first byte that this request wants of a response of known length, or of its whole. */
static uint64_t
entry_first_wanted(const struct entry *e, const struct cache_query *q)
{
    struct range ranges[RANGES_MAX];
    unsigned n;

    if (q->nranges == 0 || entry_body_len(e) == STOBJ_SIZE_UNKNOWN || !entry_range_heeded(e, q) ||
        range_resolve(q->ranges, q->nranges, entry_body_len(e), ranges, &n) != RANGE_OK)
        return 0;
    /* A window does not go back, and between two ranges the reader has no place in it. */
    return n == 1 ? ranges[0].first : RANGE_UNKNOWN;
}

/* A body on its way through a window: for requests of what it still has, or has soon.  A request
 * of what is far ahead is served sooner by a fetch of its own, unless this is it. */
static bool
entry_window_covers(const struct entry *e, const struct cache_query *q, bool leader)
{
    const struct stobj *body = entry_part(e, 0).body;
    uint64_t first;

    if ((!leader && (q->no_window || entry_is_sealed(e))) || stobj_state(body) == STOBJ_FAILED)
        return false;
    if (q->req->method == HTTP_M_HEAD)
        return true;
    first = entry_first_wanted(e, q);
    return first >= stobj_window_start(body) && first != RANGE_UNKNOWN &&
           (leader || first <= stobj_len(body));
}

/* Does it have all the bytes that this request asks for? */
static bool
entry_covers(const struct entry *e, const struct cache_query *q)
{
    struct range ranges[RANGES_MAX];
    unsigned n;

    if (!e->partial)
        return true;
    if (q->nranges == 0 || !entry_range_heeded(e, q))
        return entry_body_len(e) != STOBJ_SIZE_UNKNOWN &&
               entry_has_bytes(e, 0, entry_body_len(e) - 1);
    if (entry_body_len(e) == STOBJ_SIZE_UNKNOWN)
        return q->nranges == 1 && entry_has_spec(e, &q->ranges[0]);
    switch (range_resolve(q->ranges, q->nranges, entry_body_len(e), ranges, &n)) {
    case RANGE_UNSATISFIABLE:
        return true; /* that can be said without a byte */
    case RANGE_WHOLE:
        return entry_has_bytes(e, 0, entry_body_len(e) - 1);
    case RANGE_OK:
        break;
    }
    for (unsigned i = 0; i < n; i++)
        if (!entry_has_bytes(e, ranges[i].first, ranges[i].last))
            return false;
    return true;
}

/* How long it has been stale; 0 or less: it is fresh for so much longer. */
static int64_t
entry_stale_ms(const struct entry *e, int64_t now_ms)
{
    int64_t resident = now_ms - e->received_ms;

    /* The two times are of two loops' clocks, of which the fetch's may be ahead. */
    return (resident > 0 ? resident : 0) - entry_ttl_ms(e);
}

/* Of a node of a fleet that may be cut off: since when nothing here is trusted, or below 0.  The process may have been
 * stopped in this turn, so the turn's own time says nothing. */
static int64_t
cache_blind_ms(int64_t *now)
{
    int64_t until = atomic_load_explicit(&cache_of_all->trusted_ms, memory_order_acquire);
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    *now = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    return *now - until;
}

/* As entry_stale_ms() has it, by the clock itself: what became stale within this turn, by a purge that all nodes know of,
 * would be fresh until the turn ends.  Or since when nothing is trusted. */
static __attribute__((noinline)) int64_t
entry_stale_by_lease(const struct entry *e)
{
    int64_t now, blind = cache_blind_ms(&now), stale = entry_stale_ms(e, now);

    return blind >= 0 && blind > stale ? blind : stale;
}

void
cache_trust_until(struct cache *c, int64_t until_ms)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    atomic_store_explicit(&c->trusted_ms, until_ms, memory_order_release);
    if (!c->leased) /* read by every worker from now on */
        c->leased = true;
}

int64_t
cache_blind_for_ms(const struct cache *c)
{
    int64_t now, blind = c->leased ? cache_blind_ms(&now) : -1;

    return blind < 0 ? -1 : blind;
}

bool
cache_is_trusted(const struct cache *c)
{
    return cache_blind_for_ms(c) < 0;
}

/* The same, for a query that may bound its age too. */
static int64_t
entry_expired_ms(const struct entry *e, const struct cache_query *q)
{
    int64_t stale = cache_of_all->leased ? entry_stale_by_lease(e) : entry_stale_ms(e, q->now_ms);

    if (q->max_age_said) {
        /* Stale plus ttl is how long it has been here. */
        int64_t over = stale + entry_ttl_ms(e) + entry_first_age_ms(e) - q->max_age_ms;

        return over > stale ? over : stale;
    }
    return stale;
}

/* For how long it may be served past its time.  With a policy what had no time has no grace
 * either: it was for the requests that waited for it. */
static int64_t
entry_grace_for(const struct entry *e, const struct cache_query *q)
{
    int64_t grace = entry_grace_ms(e);

    if (q->for_policy && entry_is_checked_each_time(e) && !entry_is_softened(e) &&
        !entry_was_fresh(e))
        return 0; /* Varnish passes over what never had a time */
    return q->grace_said && q->grace_ms < grace ? q->grace_ms : grace;
}

/* The client's directives, RFC 9111 5.2.1.  True: they decide, *use says how. */
static bool
entry_use_asked(const struct entry *e, const struct cache_query *q, enum entry_use *use)
{
    const struct fresh_ask *ask = q->ask;
    int64_t stale = entry_stale_ms(e, q->now_ms);

    if (ask == NULL || !ask->any)
        return false;
    *use = ENTRY_ASK_FIRST;
    if (ask->no_cache)
        return true;
    /* 0 is how browsers reload, so it means that also within the first second. */
    if (ask->max_age_s == 0 || (ask->max_age_s > 0 && entry_age_s(e, q->now_ms) > ask->max_age_s))
        return true;
    /* RFC 9111 5.2.1.3. */
    if (ask->min_fresh_s >= 0 && -stale < ask->min_fresh_s * 1000)
        return true;
    /* RFC 9111 5.2.1.2.  must-revalidate is the origin's word and stands above it (5.2.2.2). */
    if (ask->max_stale_s >= 0 && stale > 0 && !e->must_revalidate) {
        *use = stale <= ask->max_stale_s * 1000 ? ENTRY_USE : ENTRY_ASK_FIRST;
        return true;
    }
    return false;
}

/* On every hit.  At the very end of its ttl it is stale, as entry_is_fresh() has it; a client's
 * directives come before the grace, for they may want more, or less. */
static enum entry_use
entry_use(const struct entry *e, const struct cache_query *q)
{
    int64_t stale = entry_stale_ms(e, q->now_ms);
    enum entry_use asked;

    if (__builtin_expect(q->max_age_said || cache_of_all->leased, 0))
        stale = entry_expired_ms(e, q);
    if (__builtin_expect(q->ask != NULL, 0) && entry_use_asked(e, q, &asked))
        return asked;
    if (stale < 0)
        return ENTRY_USE;
    if (stale < entry_grace_for(e, q))
        return ENTRY_USE_STALE;
    return ENTRY_ASK_FIRST;
}

/* Good for validation, or at least for when the origin fails. */
static bool
entry_is_of_use(const struct entry *e, const struct cache_query *q)
{
    return entry_stale_ms(e, q->now_ms) < entry_good_ms(e) && entry_is_settled(e);
}

/* It is on its way and not kept: a response to join while it is fresh, and nothing else. */
static void
choose_windowed(struct cache_choice *c, struct entry *e, const struct cache_query *q)
{
    if (entry_matches(e, q) && entry_use(e, q) == ENTRY_USE && entry_window_covers(e, q, false))
        c->use = e;
}

/* The whole, as long as it is fresh: whatever else there is to be said of the response, what it was made of
 * says.  So a client that asks for ranges meets the bytes of one form, and ignoring Vary gives none to a client
 * that cannot read it. */
static void
choose_recoded(struct cache_choice *c, struct entry *e, const struct cache_query *q)
{
    if (q->nranges == 0 && vary_match(entry_vary(e), q->req) && entry_use(e, q) == ENTRY_USE)
        c->use = e;
}

/* Of what varies by more than its forms.  Does it answer this request, as a whole? */
static __attribute__((noinline)) bool
choose_variant(struct cache_choice *c, struct entry *e, const struct cache_query *q)
{
    if (entry_is_recoded(e)) {
        choose_recoded(c, e, q);
        return false;
    }
    if (entry_matches(e, q))
        return true;
    if (c->reason == CACHE_NOTHING_STORED)
        c->reason = CACHE_OTHER_VARIANT;
    return false;
}

/* One READY entry: it fills `use`, `stale` or `old`, each by the first that will do, which is the
 * newest.  Vary comes first: of another variant neither bytes nor times mean anything here. */
static void
choose_ready(struct cache_choice *c, struct entry *e, const struct cache_query *q)
{
    if (__builtin_expect(e->windowed, 0)) {
        if (c->varies == NULL && e->block->vary_len > 0)
            c->varies = e;
        choose_windowed(c, e, q);
        return;
    }
    /* Without a call for what does not vary, or by its forms alone, as most. */
    if (__builtin_expect(e->block->vary_len > 0, 0)) {
        if (c->varies == NULL)
            c->varies = e;
        if (!vary_is_forms(entry_vary(e)) && !choose_variant(c, e, q))
            return;
    }
    if (__builtin_expect(e->partial, 0) && !entry_covers(e, q)) {
        if (c->old == NULL && !q->no_join && entry_is_of_use(e, q))
            c->old = e;
        c->reason = CACHE_IS_PARTIAL;
        return;
    }
    switch (entry_use(e, q)) {
    case ENTRY_USE:
        c->use = e;
        return;
    case ENTRY_USE_STALE:
        if (c->stale == NULL)
            c->stale = e;
        /* fall through */
    case ENTRY_ASK_FIRST:
        c->reason = entry_expired_ms(e, q) < 0 ? CACHE_ASKED : CACHE_IS_STALE;
        if (c->old == NULL && entry_is_of_use(e, q))
            c->old = e;
        return;
    }
}

/* A guess, to be compared alone: two that are equal by chance have a request wait behind a fetch
 * that does not answer it, and look again.  0 stands for "not known", so it is never that. */
uint32_t
cache_variant(const struct entry *e, const struct cache_query *q)
{
    struct http_field fields[LIMIT_FIELDS];
    char spec[VARY_SPEC_MAX];
    struct http_message stored;
    int n;

    entry_message(e, ENTRY_FIELDS_ALL, fields, &stored);
    n = vary_build(
        &stored, q->req, vary_has_forms(entry_vary(e)), (struct span){spec, sizeof(spec)});
    return n <= 0 ? 0 : (uint32_t)hash_plain(spec, (size_t)n) | 1;
}

/* May it be for this request?  Yes, when that is not known. */
static bool
cache_expects(const struct cache_choice *c, const struct entry *e)
{
    return c->expected == 0 || entry_expected(e) == 0 || c->expected == entry_expected(e);
}

/* req.hash_always_miss: nothing is looked at, but each walk passes all entries in fetch. */
static void
cache_choose_nothing(struct cache_choice *c, struct entry *first)
{
    c->reason = CACHE_ASKED;
    for (struct entry *e = first; e != NULL; e = entry_next(e))
        c->nbusy += entry_state(e) == ENTRY_BUSY;
}

/* The newest wins; `c` is all zero except what goes in, its reason CACHE_NOTHING_STORED. */
void
cache_choose(struct cache_choice *c, struct entry *first, const struct cache_query *q)
{
    if (__builtin_expect(q->always_miss, 0)) {
        cache_choose_nothing(c, first);
        return;
    }
    for (struct entry *e = first; e != NULL && c->use == NULL; e = entry_next(e)) {
        switch (entry_state(e)) {
        case ENTRY_READY:
            /* It leaves the list then, but keeps its link, so the walk goes on from it. */
            if (cache_is_banned(c->cache, c->g, e, q))
                break;
            choose_ready(c, e, q);
            break;
        case ENTRY_HITMISS:
            if (c->marker == NULL && entry_is_fresh(e, q->now_ms) && entry_marker_counts(e, q) &&
                !cache_is_banned(c->cache, c->g, e, q))
                c->marker = e;
            break;
        case ENTRY_BUSY:
            /* A request that it will not answer shall not wait for it. */
            if (c->busy == NULL && !q->ignore_busy && cache_expects(c, e))
                c->busy = e;
            c->nbusy++;
            break;
        case ENTRY_FAILED:
            break;
        }
    }
}

bool
cache_usable(struct entry *e, const struct cache_query *q, bool leader)
{
    OBJ_CHECK(e, ENTRY_MAGIC);
    if (entry_state(e) != ENTRY_READY ||
        !(e->windowed ? entry_window_covers(e, q, leader) : entry_covers(e, q)))
        return false;
    if (leader)
        return true;
    return (q->for_policy || !entry_is_checked_each_time(e)) && entry_matches(e, q) &&
           !cache_is_banned(cache_of_all, NULL, e, q);
}

/* RFC 5861 4, said by the response or by the request; neither counts against must-revalidate. */
bool
cache_stale_if_error(const struct entry *e, const struct fresh_ask *ask, int64_t now_ms)
{
    int64_t stale = entry_stale_ms(e, now_ms);
    int64_t window = entry_stale_if_error_ms(e);

    OBJ_CHECK(e, ENTRY_MAGIC);
    if (e->must_revalidate)
        return false;
    return (window >= 0 && stale < window) ||
           (ask != NULL && ask->stale_if_error_s >= 0 && stale < ask->stale_if_error_s * 1000);
}

/* The origin failed.  With a policy that is the policy's to deal with, once the grace is over. */
static bool
entry_may_stand_in(const struct entry *e, const struct cache_query *q)
{
    int64_t window = entry_error_ms(e);

    if (q->for_policy)
        return entry_expired_ms(e, q) < entry_grace_for(e, q);
    return !e->must_revalidate &&
           (entry_stale_ms(e, q->now_ms) < window || cache_stale_if_error(e, q->ask, q->now_ms));
}

struct entry *
cache_choose_stale(struct cache *c, struct entry *first, const struct cache_query *q)
{
    if (q->ask != NULL && q->ask->no_cache)
        return NULL; /* RFC 9111 5.2.1.4: not without a successful validation */
    for (struct entry *e = first; e != NULL; e = entry_next(e)) {
        /* A window is never served stale: its first bytes may be gone (E15). */
        if (entry_state(e) != ENTRY_READY || e->windowed || entry_is_recoded(e) ||
            !entry_matches(e, q) || !entry_covers(e, q))
            continue;
        if (entry_may_stand_in(e, q) && !cache_is_banned(c, NULL, e, q))
            return e;
    }
    return NULL;
}
