/* req.c -- one client request, from parsed head to last byte delivered. */
#include "daemon/base/terr.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/req_priv.h"

enum {
    IDLE_REQS_MAX = 256
}; /* memory kept for the next requests */

/* The authority's normal form into the key.  A worker is mostly asked for few hosts: the last is remembered. */
int
req_normal_host(struct proxy *p, struct slice host, char *out)
{
    struct proxy_host *memo = &p->last_host;
    int n;

    if (host.len == memo->len && memcmp(host.ptr, memo->text, host.len) == 0) {
        if (memo->normal_len <= 32) /* mostly; both places are longer */
            memcpy(out, memo->normal, 32);
        else
            memcpy(out, memo->normal, memo->normal_len);
        return (int)memo->normal_len;
    }
    n = http_authority_normal(host, HTTP_SCHEME_HTTP, (struct span){out, HTTP_AUTHORITY_MAX});
    if (n < 0 || host.len > sizeof(memo->text))
        return n;
    memcpy(memo->text, host.ptr, host.len);
    memcpy(memo->normal, out, (size_t)n);
    memo->len = host.len;
    memo->normal_len = (size_t)n;
    return n;
}

/* The key is scheme "://" authority path, the authority in normal form (RFC 9111 2): what is
 * keyed is what is forwarded, and the scheme too, for a redirect to https must not be stored as the
 * page.  A policy's own key stands as it was made. */
int
req_make_key_of(struct req *r, enum http_scheme scheme)
{
    const struct http_message *h = r->head;
    char *text = r->proxy->key_text, *p = text + 7;
    struct slice path = http_path(h);
    int n;

    /* No bound is checked: key_text has room for the longest authority and for a path as long as a
     * head may be. */
    memcpy(text, "http://", 7);
    if (__builtin_expect(scheme == HTTP_SCHEME_HTTPS, 0)) {
        memcpy(text + 4, "s://", 4);
        p++;
        /* Here, where plain requests do not come: a hit with it is no plain one for req_log(). */
        if (r->x->scheme == HTTP_SCHEME_HTTPS)
            r->log_flags |= SHMLOG_REQ_HTTPS;
    }
    n = h->authority_len > 0 ? req_normal_host(r->proxy, http_host(h), p) : 0;
    if (n < 0)
        return n;
    r->host_at = (uint32_t)(p - text);
    r->host_len = (size_t)n;
    memcpy(p + n, path.ptr, path.len);
    r->key_len = (uint32_t)(p + n + path.len - text);
    return 0;
}

int
req_make_key(struct req *r)
{
    return req_make_key_of(r, r->x->scheme);
}

/* The text of the key, in the scratch or, if the policy made it, in the arena. */
struct slice
req_key_text(struct req *r)
{
    return req_made_key(r) ? r->policy.key : slice_of(r->proxy->key_text, r->key_len);
}

#define REQ_WISHES (HTTP_BIT(HTTP_F_CACHE_CONTROL) | HTTP_BIT(HTTP_F_PRAGMA) | REQ_ASKS)

int
req_read_ranges(struct req *r)
{
    struct range_spec specs[RANGES_MAX], *copy;

    r->nranges = range_of_request(r->head, specs);
    if (r->nranges == 0)
        return 0;
    copy = arena_alloc(&r->x->arena, r->nranges * sizeof(*copy));
    if (copy == NULL)
        return TERR_NOMEM;
    memcpy(copy, specs, r->nranges * sizeof(*copy));
    r->ranges = copy;
    return 0;
}

/* What the client says about how it wants to be answered.  0 or TERR_NOMEM. */
int
req_read_directives(struct req *r)
{
    fresh_ask_of(r->head, &r->ask);
    r->only_stored |= r->ask.only_if_cached;
    return req_read_asked(r);
}

/* A body has no meaning in a key, so what has one is passed (RFC 9110 9.3.1).  If-Match and
 * If-Unmodified-Since are the origin's to judge (RFC 9111 4.3.2), and what must not be stored
 * (RFC 9111 5.2.1.5) is for this request alone. */
bool
req_is_for_cache(const struct req *r)
{
    const struct http_message *h = r->head;
    const uint64_t origins = HTTP_BIT(HTTP_F_IF_MATCH) | HTTP_BIT(HTTP_F_IF_UNMODIFIED_SINCE);

    return (h->method == HTTP_M_GET || h->method == HTTP_M_HEAD) && !r->x->has_body &&
           (h->present & origins) == 0 && (!r->ask.no_store || r->ask.only_if_cached) && !r->passes;
}

/* RECV -- which backend serves it, and how. */
static enum req_next
req_do_recv(struct req *r)
{
    const struct http_message *h = r->head;
    struct proxy *p = r->proxy;
    int err = r->x->err;

    /* With a policy the key waits for vcl_hash: what vcl_recv makes of the request is what is
     * keyed. */
    if (err == 0 && r->policy.ref == NULL)
        err = req_make_key(r);
    if (err != 0) {
        r->log_flags |= SHMLOG_REQ_BAD;
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    }
    if (h->method == HTTP_M_OTHER && r->policy.ref == NULL) {
        r->log_flags |= SHMLOG_REQ_BAD;
        counter_add(p->counters, COUNTER_req_bad, 1);
        r->policy.close = true;
        return req_synth(r, 501, TERR_METHOD);
    }
    /* Before vcl_recv: no policy can allow it (README 16). */
    if (h->method == HTTP_M_TRACE)
        return req_synth(r, 405, 0);
    if (h->method == HTTP_M_OPTIONS &&
        slice_eq(http_get_one(h, HTTP_F_MAX_FORWARDS), SLICE_LIT("0")))
        return req_synth(r, 204, 0); /* RFC 9110 7.6.2: we are its final recipient */
    if (r->policy.ref != NULL)
        return req_policy_recv(r);
    if (r->x->upgrade && req_route_pipes(r))
        r->attempt.pipes = r->passes = true;
    else if (__builtin_expect(r->x->connect, 0))
        return req_synth(r, 501, 0);
    if ((h->present & REQ_WISHES) != 0 && req_read_directives(r) != 0)
        return req_synth(r, 503, TERR_NOMEM);
    if (!req_is_for_cache(r))
        return req_goto(r, REQ_PASS);
    r->key = hash_bytes(p->key_text, r->key_len);
    req_goto(r, REQ_LOOKUP);
    return req_do_lookup(r); /* at once, as every hit goes on */
}

/* What a policy's requests ask of the cache besides.  The client's own directives are the policy's to heed. */
static void
req_policy_query(const struct req *r, struct cache_query *q)
{
    const struct req_policy *rp = &r->policy;

    q->for_policy = true;
    q->count_hits = rp->ref->policy->reads_hits;
    if (__builtin_expect(!rp->lookup_said, 1))
        return;
    q->grace_said = rp->grace_ms != REQ_UNSAID;
    q->grace_ms = rp->grace_ms;
    q->max_age_said = rp->max_age_ms != REQ_UNSAID;
    q->max_age_ms = rp->max_age_ms;
    q->always_miss = rp->always_miss;
    q->ignore_busy = rp->ignore_busy;
    q->ignore_vary = rp->ignore_vary;
}

void
req_query(const struct req *r, struct cache_query *q)
{
    *q = (struct cache_query){
        .key = r->key,
        .req = r->head,
        .ask = r->ask.any ? &r->ask : NULL,
        .ranges = r->ranges,
        .nranges = r->nranges,
        .no_join = r->attempt.no_join,
        .no_window = r->no_window,
        .only_stored = r->only_stored,
        .now_ms = (int64_t)r->proxy->loop->clock.mono_ms,
        .wall_ms = r->proxy->loop->clock.wall_ms,
    };
    if (r->policy.ref != NULL)
        req_policy_query(r, q);
    else if (__builtin_expect(r->policy.hop, 0))
        req_hop_query(r, q);
}

/* A fetch of all that is asked for, or of what is missing or may have changed of `old`. */
static void
req_start_fetch(struct req *r, struct entry *entry, struct entry *old)
{
    struct proxy *p = r->proxy;
    struct policy_ref *policy = req_fetch_policy(r);
    struct fetch_spec spec = {
        .kind = FETCH_FOR_CACHE,
        .head = r->head,
        .policy = policy_share(policy),
        .edited = r->policy.req != NULL,
        .hops = req_may_hop(r),
        .hop = r->policy.hop,
        .background = r->policy.background,
        .hinted = r->policy.hinted,
        .entry = entry,
        .old = old,
        .complete = r->attempt.reason == CACHE_IS_PARTIAL,
        .ask = &r->ask,
        .ranges = r->ranges,
        /* A policy's vcl_backend_response expects the whole. */
        .nranges = policy == NULL ? r->nranges : 0,
        .hitmiss = r->policy.hitmiss,
    };
    int err = req_make_key(r); /* after a wait another's may be in the scratch */

    tassert(entry != NULL && r->x != NULL);
    tassert(err == 0);
    /* A refresh in the background has none: the request may be answered and freed before it ends. */
    if (entry == r->entry)
        spec.listener = req_listener(r);
    req_share_rules(r, &spec);
    spec.backend = req_backend(r);
    if (policy != NULL) /* see req_policy_query() */
        r->ask = (struct fresh_ask){
            .max_age_s = -1, .min_fresh_s = -1, .max_stale_s = -1, .stale_if_error_s = -1};
    spec.host = slice_of(p->key_text + r->host_at, r->host_len);
    spec.key_text = req_key_text(r);
    if (policy != NULL)
        spec.identity = req_identity(r);
    if (r->x->has_body) /* with a policy, else it is passed */
        req_share_upload(r, &spec);
    fetch_start(p, r->x, &spec);
}

static enum req_next
req_deliver_stale(struct req *r)
{
    tassert(r->entry != NULL && !r->attempt.leader);
    r->log_flags |= SHMLOG_REQ_HIT | SHMLOG_REQ_STALE;
    return req_goto(r, REQ_DELIVER);
}

enum req_next
req_use_hit(struct req *r)
{
    struct entry *refresh = r->policy.refresh, *old = r->old;

    tassert(r->entry != NULL && !r->attempt.leader);
    /* The refresh begins only now: vcl_hit could have decided against the hit. */
    r->policy.refresh = r->old = NULL;
    if (refresh != NULL)
        req_start_fetch(r, refresh, old);
    return req_goto(r, REQ_DELIVER);
}

/* With a policy, and something stored at hand. */
static enum req_next
req_policy_hit(struct req *r, enum cache_verdict verdict, struct cache_answer *answer)
{
    r->policy.refresh = answer->refresh;
    r->old = answer->old;
    if (verdict == CACHE_STALE)
        r->log_flags |= SHMLOG_REQ_STALE;
    r->log_flags |= SHMLOG_REQ_HIT;
    return req_goto(r, REQ_HIT);
}

/* LOOKUP -- ask the cache; again when what we waited for was not for us. */
enum req_next
req_do_lookup(struct req *r)
{
    struct proxy *p = r->proxy;
    struct cache_query q;
    struct cache_answer answer;
    enum cache_verdict verdict;

    tassert(r->entry == NULL);
    req_query(r, &q);
    verdict = cache_lookup(p->cache, &q, &r->wait, &answer);
    r->entry = answer.entry;
    /* A trivial vcl_hit delivers, so it needs no state of its own. */
    if (r->policy.ref != NULL &&
        (verdict == CACHE_HIT || (verdict == CACHE_STALE && !r->only_stored)) &&
        !policy_is_trivial(r->policy.ref->policy, VCL_SUB_HIT)) {
        r->attempt.reason = answer.reason;
        return req_policy_hit(r, verdict, &answer);
    }
    if (__builtin_expect(verdict == CACHE_HIT, 1)) {
        r->log_flags |= SHMLOG_REQ_HIT;
        req_goto(r, REQ_DELIVER);
        return req_do_deliver(r);
    }
    if (r->only_stored && !r->ask.only_if_cached)
        return req_not_stored(r);
    if (verdict == CACHE_ABSENT)
        return req_answer_absent(r, &answer.absent);
    r->attempt.reason = answer.reason;
    if (verdict == CACHE_STALE) {
        if (answer.refresh != NULL)
            req_start_fetch(r, answer.refresh, answer.old);
        return req_deliver_stale(r);
    }
    if (r->ask.only_if_cached)
        return req_synth(r, 504, 0); /* RFC 9111 5.2.1.7 */
    r->policy.hitmiss = r->attempt.reason == CACHE_MARKED;
    r->policy.hitpass = r->attempt.reason == CACHE_MARKED_PASS;
    if (r->policy.hitmiss || r->policy.hitpass)
        r->log_flags |= SHMLOG_REQ_HITMISS;
    if (verdict == CACHE_QUEUED) {
        r->holds = true;
        r->log_flags |= SHMLOG_REQ_QUEUED;
        counter_add(p->counters, COUNTER_req_queued, 1);
        return req_goto(r, REQ_QUEUED);
    }
    if (r->entry == NULL)
        return req_goto(r, REQ_PASS); /* not for the cache, or no room */
    r->old = answer.old;
    return req_goto(r, REQ_MISS);
}

/* The fetch failed: a stored response may be better than none (RFC 9111 4.2.4). */
static enum req_next
req_failed(struct req *r)
{
    struct cache_query q;
    int err = r->entry->err;

    tassert(entry_state(r->entry) == ENTRY_FAILED && r->holds);
    req_query(r, &q);
    q.grace_said = q.grace_said && !r->policy.hop;
    /* Read before the drop: Cache-Status names it beside the stale response (fwd-status). */
    r->attempt.failed_status = r->entry->origin_status;
    entry_drop(&r->entry);
    r->holds = r->attempt.leader = false;
    r->entry = cache_lookup_stale(r->proxy->cache, &q);
    if (r->entry != NULL) {
        r->attempt.origin_failed = true;
        return req_deliver_stale(r);
    }
    /* With a policy it is always 503, as in Varnish. */
    return req_synth_by_policy(r,
        r->policy.ref != NULL ? 503 : (unsigned)terr_http(err, TERR_SIDE_ORIGIN), slice_of(NULL, 0),
        err);
}

/* It has been here before, so the fetch that it waits for may be what it came from. */
static enum req_next
req_leave_queue(struct req *r)
{
    tassert(r->holds && !r->attempt.leader);
    if (waiter_state(&r->wait) == WAITER_ARMED)
        cache_cancel(r->entry, &r->wait);
    /* A notification that is on its way cannot be recalled: this step runs again when it lands. */
    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    r->holds = false;
    entry_drop(&r->entry);
    return req_goto(r, REQ_PASS);
}

/* QUEUED -- the outcome of another request's fetch is ours too, if it is for us. */
static enum req_next
req_do_queued(struct req *r)
{
    struct cache_query q;

    if (req_was_here(r->proxy, &r->x->head, r->policy.hop))
        return req_leave_queue(r);
    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    req_query(r, &q);
    switch (entry_state(r->entry)) {
    case ENTRY_BUSY:
        if (!cache_wait(r->entry, &r->wait))
            return REQ_MORE;
        return REQ_WAIT;
    case ENTRY_READY:
        /* Another variant, or older than the client allows: LOOKUP decides again. */
        if (!cache_usable(r->entry, &q, false))
            break;
        r->attempt.collapsed = true;
        counter_add(r->proxy->counters, COUNTER_req_coalesced, 1);
        if (q.count_hits)
            entry_count_hit(r->entry);
        if (r->policy.ref != NULL && !policy_is_trivial(r->policy.ref->policy, VCL_SUB_HIT))
            return req_goto(r, REQ_HIT);
        return req_goto(r, REQ_DELIVER);
    case ENTRY_FAILED:
        /* It failed while we waited: asking again would be one more failure, in line. */
        return req_failed(r);
    /* It is not for the cache: LOOKUP finds the marker, and all that waited fetch at once instead
     * of one behind the other (README 3). */
    case ENTRY_HITMISS:
        break;
    }
    r->holds = false;
    entry_drop(&r->entry);
    return req_goto(r, REQ_LOOKUP);
}

/* MISS -- ours is the fetch that the others wait for. */
static enum req_next
req_do_miss(struct req *r)
{
    struct entry *old;

    /* Behind the lookup: a hit is served, however often the request came back (README 28). */
    if (req_loops(r->proxy, &r->x->head, r->policy.hop)) {
        req_withdraw(r);
        return req_refuse_loop(r);
    }
    if (r->policy.ref != NULL) {
        enum req_next next = req_policy_miss(r);

        if (next != REQ_WAIT)
            return next;
    }
    old = r->old;
    r->holds = r->attempt.leader = true;
    r->log_flags |= SHMLOG_REQ_MISS;
    r->old = NULL; /* the fetch's, from now on */
    req_start_fetch(r, r->entry, old);
    return req_goto(r, REQ_FETCH);
}

/* The client's own fault: its request body cannot be had. */
static enum req_next
req_upload_failed(struct req *r, int err)
{
    tassert(err < 0 && err != TERR_AGAIN);
    return req_synth_by_policy(
        r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), slice_of(NULL, 0), err);
}

/* PASS -- for this client alone, body and all. */
static enum req_next
req_do_pass(struct req *r)
{
    struct proxy *p = r->proxy;
    struct fetch_spec spec = {.kind = FETCH_PASS,
        .listener = req_listener(r),
        .hitmiss = r->policy.hitmiss,
        .hitpass = r->policy.hitpass};

    if (r->policy.hop)
        return req_hop_refuse(r); /* it is not for the cache: the other node passes it, too */
    if (r->early && req_is_early(r))
        return req_refuse_early(r);
    if (req_loops(r->proxy, &r->x->head, r->policy.hop))
        return req_refuse_loop(r);
    /* vcl_pass runs once: while the body is gathered, this state runs again and again. */
    if (r->policy.ref != NULL && !r->gathering) {
        enum req_next next = req_policy_pass(r);

        if (next != REQ_WAIT)
            return next;
    }
    if (r->x->has_body && p->params.req_buffering && !r->attempt.pipes) {
        int err = req_gather_upload(r);

        if (err == TERR_AGAIN)
            return REQ_WAIT;
        if (err != 0)
            return req_upload_failed(r, err);
    }
    req_share_rules(r, &spec);
    spec.head = r->head;
    spec.upgrade = r->attempt.pipes;
    spec.connect_ms = r->policy.connect_cs * 10;
    r->entry = cache_private(p->cache);
    if (r->entry == NULL)
        return req_synth(r, 503, TERR_NOMEM);
    r->holds = r->attempt.leader = true;
    r->attempt.choice = REQ_AS_ASKED;
    spec.entry = r->entry;
    if (req_make_key(r) != 0 || (r->x->has_body && r->upload == NULL && req_open_upload(r) != 0)) {
        /* cache_private() gave two holds, and no fetch will take over the second. */
        struct entry *fetchs = r->entry;

        entry_drop(&fetchs);
        return req_synth(r, 503, TERR_NOMEM);
    }
    spec.backend = req_backend(r);
    spec.host = slice_of(p->key_text + r->host_at, r->host_len);
    spec.key_text = req_key_text(r);
    spec.policy = policy_share(r->policy.ref);
    spec.edited = r->policy.req != NULL;
    if (r->policy.ref != NULL)
        spec.identity = req_identity(r);
    if (r->upload != NULL)
        req_share_upload(r, &spec);
    r->log_flags |= SHMLOG_REQ_PASS;
    fetch_start(p, r->x, &spec);
    return req_goto(r, REQ_FETCH);
}

/* What is held of an entry is given up.  Apart: a hit that left at once holds nothing of it. */
static __attribute__((noinline)) void
req_give_up_entry(struct req *r)
{
    if (r->attempt.leader) {
        struct entry *own =
            entry_state(r->entry) == ENTRY_HITMISS ? cache_take_handoff(r->entry) : NULL;

        /* Else the window would keep its beginning for a reader that never comes. */
        if (r->rep.expected && !r->rep.came)
            stobj_expect(entry_part(r->entry, 1).body, -1);
        r->rep.expected = r->rep.came = false;
        entry_abandon(r->entry);
        /* No other request can get it: without a reader its fetch has to end. */
        if (own != NULL) {
            entry_abandon(own);
            entry_drop(&own);
        }
    }
    if (r->rep.joined) {
        entry_leave(r->entry, r->rep.came);
        r->rep.came = false;
    }
    if (r->holds)
        entry_drop(&r->entry);
    r->holds = r->rep.joined = false;
}

static inline __attribute__((always_inline)) void
req_leave_entry_here(struct req *r)
{
    if (r->entry != NULL && (r->attempt.leader || r->rep.joined || r->holds))
        req_give_up_entry(r);
    r->entry = NULL;
}

void
req_leave_entry(struct req *r)
{
    req_leave_entry_here(r);
}

/* What came for us is not all that we need: the origin gave another range, or what is stored
 * has changed.  Once more without it, then for this client alone. */
static enum req_next
req_try_again(struct req *r)
{
    bool again =
        r->attempt.no_join || r->entry->windowed; /* several ranges, which a window cannot serve */

    tassert(r->attempt.leader && r->entry != NULL);
    req_leave_entry(r);
    r->attempt.leader = false;
    r->attempt.no_join = true;
    return req_goto(r, again ? REQ_PASS : REQ_LOOKUP);
}

/* The client's range was asked for, and the origin gave another one: it says so itself, and the
 * client will see (RFC 9110 15.3.7). */
static bool
req_takes_as_came(struct req *r)
{
    const struct entry *e = r->entry;

    tassert(r->attempt.choice != REQ_AS_ASKED);
    if (r->nranges != 1 || r->attempt.reason == CACHE_IS_PARTIAL || !e->partial ||
        e->origin_status != 206 || entry_nparts(e) != 1)
        return false;
    r->attempt.choice = REQ_AS_CAME;
    return true;
}

/* FETCH -- until our fetch knows what came. */
static enum req_next
req_do_fetch(struct req *r)
{
    struct cache_query q;
    struct entry *own;

    if (r->gathering)
        entry_wake_fetch(r->entry); /* it waits for more of the body */
    else
        req_pump_upload(r);
    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    req_query(r, &q);
    switch (entry_state(r->entry)) {
    case ENTRY_BUSY:
        if (!cache_wait(r->entry, &r->wait))
            return REQ_MORE;
        return REQ_WAIT;
    case ENTRY_READY:
        if (r->attempt.choice != REQ_AS_ASKED && !cache_usable(r->entry, &q, true) &&
            !req_takes_as_came(r))
            return req_try_again(r);
        if (r->tunnel != NULL)
            return req_goto(r, REQ_PIPE);
        /* A 304 to the client's own condition stays a 304: only ours became the stored response. */
        if (r->entry->origin_status == 304 && entry_status(r->entry) != 304)
            r->log_flags |= SHMLOG_REQ_REVALIDATED;
        return req_goto(r, REQ_DELIVER);
    case ENTRY_FAILED:
        r->gathering = false; /* the fetch may have been cut while it waited */
        return r->attempt.err != 0 ? req_upload_failed(r, r->attempt.err) : req_failed(r);
    case ENTRY_HITMISS:
        own = cache_take_handoff(r->entry);
        if (own == NULL) /* see fetch_do_gather() */
            return req_upload_failed(r, r->attempt.err != 0 ? r->attempt.err : TERR_CLOSED);
        entry_drop(&r->entry);
        r->entry = own; /* a miss all the same: it was counted as one, and vcl_miss had it */
        return req_goto(r, REQ_DELIVER);
    }
    TUNREACHABLE("entry state");
}

/* Before the request's memory goes to another. */
static void
req_end_attended(struct req *r)
{
    policy_end(r->proxy, &r->policy.ref);
    policy_end(r->proxy, &r->policy.first);
    req_end_rules(r);
}

/* CLOSE -- cancel what we wait for, give back what we hold.  Runs again on every wake-up until
 * nothing is pending, so each line is safe to repeat. */
enum req_next
req_do_close(struct req *r)
{
    bool clear = req_end_delivery(r);

    clear = req_end_upload(r) && clear;
    if (r->rep.rest != NULL)
        req_rest_cancel(r);
    else if (r->entry != NULL && waiter_state(&r->wait) == WAITER_ARMED)
        cache_cancel(r->entry, &r->wait);
    if (!clear || (waiter_pending(&r->wait) && !req_cancel_check(r)))
        return REQ_WAIT;
    if (r->x != NULL) {
        struct exchange *x = r->x;

        /* While the entry is there: the record names fields of the response. */
        req_log(r);
        if (r->own_body)
            req_drop_page(r);
        req_leave_entry_here(r);
        if (r->rep.rest != NULL)
            req_rest_end(r);
        if (r->old != NULL)
            entry_drop(&r->old);
        /* Before the release: the rules lie in the exchange's arena. */
        if (r->attended != 0)
            req_end_attended(r);
        r->x = NULL;
        x->ops->release(x);
        req_end_pipe(r);
    }
    return REQ_WAIT;
}

#define TO(s) (1u << REQ_##s)
static const struct {
    const char *name;
    enum req_next (*run)(struct req *r);
    unsigned may_go;
} req_machine[REQ_STATES] = {
    /* clang-format off */
    [REQ_RECV]    = { "recv",    req_do_recv,    TO(RECV) | TO(LOOKUP) | TO(PASS) | TO(SYNTH) | TO(CLOSE) },
    [REQ_LOOKUP]  = { "lookup",  req_do_lookup,  TO(HIT) | TO(QUEUED) | TO(MISS) | TO(PASS) | TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_HIT]     = { "hit",     req_do_hit,     TO(RECV) | TO(PASS) | TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_QUEUED]  = { "queued",  req_do_queued,  TO(LOOKUP) | TO(HIT) | TO(PASS) | TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_MISS]    = { "miss",    req_do_miss,    TO(RECV) | TO(PASS) | TO(FETCH) | TO(SYNTH) | TO(CLOSE) },
    [REQ_PASS]    = { "pass",    req_do_pass,    TO(RECV) | TO(FETCH) | TO(SYNTH) | TO(CLOSE) },
    [REQ_FETCH]   = { "fetch",   req_do_fetch,   TO(LOOKUP) | TO(PASS) | TO(PIPE) | TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_PIPE]    = { "pipe",    req_do_pipe,    TO(CLOSE) },
    [REQ_SYNTH]   = { "synth",   req_do_synth,   TO(RECV) | TO(SYNTH) | TO(DELIVER) | TO(CLOSE) },
    [REQ_DELIVER] = { "deliver", req_do_deliver, TO(RECV) | TO(LOOKUP) | TO(PASS) | TO(SYNTH) | TO(CLOSE) },
    [REQ_CLOSE]   = { "close",   req_do_close,   0 },
    [REQ_ADMIT]   = { "admit",   req_do_admit,   TO(RECV) | TO(LOOKUP) | TO(SYNTH) | TO(CLOSE) },
    /* clang-format on */
};

const char *
req_state_name(enum req_state state)
{
    return state < REQ_STATES ? req_machine[state].name : "?";
}

/* The invariants of the state just entered. */
static void
req_check(const struct req *r)
{
    switch (r->state) {
    case REQ_RECV:
    case REQ_LOOKUP:
    case REQ_PASS:
        tassert(r->entry == NULL && !r->holds);
        break;
    case REQ_QUEUED:
    case REQ_FETCH:
        tassert(r->entry != NULL && r->holds);
        break;
    case REQ_MISS:
    case REQ_HIT:
        tassert(r->entry != NULL);
        break;
    case REQ_SYNTH:
        tassert(r->synth_status >= 200);
        break;
    case REQ_PIPE:
        tassert(r->tunnel != NULL && r->attempt.leader);
        break;
    case REQ_DELIVER:
        tassert(r->entry != NULL || r->rep.body != NULL);
        break;
    case REQ_CLOSE:
    case REQ_ADMIT:
    case REQ_STATES:
        break;
    }
}

enum req_next
req_goto(struct req *r, enum req_state next)
{
    tassert(req_machine[r->state].may_go & (1u << next));
    r->state = next;
#if defined(TARN_SLOW_CHECKS)
    req_check(r); /* else req_run() does, for states that are not gone through at once */
#endif
    return REQ_MORE;
}

enum req_next
req_synth(struct req *r, unsigned status, int err)
{
    r->synth_status = (uint16_t)(status == 0 ? 503 : status);
    r->attempt.err = err;
    return req_goto(r, REQ_SYNTH);
}

/* One step.  A lost client is handled here, so no handler has to. */
static enum req_next
req_step(struct req *r)
{
    if (r->x->gone && r->state != REQ_CLOSE)
        return req_goto(r, REQ_CLOSE);
    return req_machine[r->state].run(r);
}

static void
req_free(struct req *r)
{
    struct proxy *p = r->proxy;

    tassert_slow(r->x == NULL && !waiter_pending(&r->wait) && !waiter_pending(&r->upload_room));
    /* An op that ended in this turn may have queued it. */
    task_cancel(&r->task);
    OBJ_BURY(r);
    p->nreqs--;
    if (p->nidle_reqs < IDLE_REQS_MAX) {
        r->next_idle = p->idle_reqs;
        p->idle_reqs = r;
        p->nidle_reqs++;
    } else {
        req_free_memory(r);
    }
    if (p->on_idle != NULL && proxy_is_idle(p))
        p->on_idle(p->on_idle_ctx);
}

/* Go as far as we can now.  A request is freed nowhere else. */
void
req_run(struct task *task)
{
    struct req *r = container_of(task, struct req, task);
    unsigned steps = 0;

    OBJ_CHECK(r, REQ_MAGIC);
    proxy_here.req = r;
    while (req_step(r) == REQ_MORE) {
        req_check(r);
        steps++;
        /* Two states that send a request to each other would hold the whole worker. */
        tassert(steps < LIMIT_REQ_STEPS);
    }
    proxy_here.req = NULL;
    if (r->state == REQ_CLOSE && r->x == NULL)
        req_free(r);
}

/* All of the response has left: the usual end of a request, without a turn of its machine. */
static void
req_over(struct exchange *x)
{
    struct req *r = x->answerer;

    OBJ_CHECK(r, REQ_MAGIC);
    tassert_slow(r->x == x && x->done);
    proxy_here.req = r;
    if (__builtin_expect(r->state == REQ_DELIVER, 1))
        r->state = REQ_CLOSE; /* as req_goto(), which has no need to look */
    else if (r->state != REQ_CLOSE)
        req_goto(r, REQ_CLOSE);
    req_do_close(r);
    proxy_here.req = NULL;
    if (r->x == NULL)
        req_free(r);
}

/* Set what a request reads before it writes; the arrays of leases are not touched. */
static struct req *
req_new(struct proxy *p)
{
    struct req *r = p->idle_reqs;

    if (r != NULL) {
        p->idle_reqs = r->next_idle;
        p->nidle_reqs--;
    } else {
        r = usage_alloc(&p->loop->usage, USAGE_REQUEST, sizeof(*r));
        if (r == NULL)
            return NULL;
        /* The memset below stops before it: a page outlives the request that made it. */
        r->page = NULL;
    }
    memset(r, 0, offsetof(struct req, rep.it));
    r->magic = REQ_MAGIC;
    r->proxy = p;
    task_init(&r->task, &p->loop->tasks, req_run);
    waiter_init(&r->wait, &r->task, &p->loop->inbox);
    waiter_init(&r->upload_room, &r->task, &p->loop->inbox);
    p->nreqs++;
    return r;
}

/* In two places by order: a call would cost each hit. */
static inline __attribute__((always_inline)) struct req *
req_open_here(struct proxy *p, struct exchange *x)
{
    struct req *r;

    OBJ_CHECK(p, PROXY_MAGIC);
    r = req_new(p);
    if (r == NULL) {
        x->ops->reset(x, TERR_NOMEM); /* memory is out: not even an answer can be made */
        x->ops->release(x);
        return NULL;
    }
    r->x = x;
    r->head = &x->head;
    r->policy.ref = policy_begin(p);
    if (r->policy.ref != NULL) {
        r->policy.grace_ms = r->policy.max_age_ms = REQ_UNSAID;
        r->policy.ban_error = "";
        r->attended = REQ_HAS_POLICY;
    }
    x->answerer = r;
    x->task = &r->task;
    x->over = req_over;
    return r;
}

struct req *
req_open(struct proxy *p, struct exchange *x)
{
    return req_open_here(p, x);
}

void
req_start(void *ctx, struct exchange *x)
{
    struct req *r = req_open_here(ctx, x);

    if (r != NULL)
        req_run(&r->task);
}

void
req_start_checked(void *ctx, struct exchange *x)
{
    struct req *r;

    req_find_client(ctx, x);
    r = req_open_here(ctx, x);
    if (r == NULL)
        return;
    if (x->err == 0) /* else there is no path to look up limits by */
        req_check_limits(r);
    req_note_early(r);
    req_run(&r->task);
}
