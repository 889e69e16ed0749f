/* req_hop.c -- a request of another node of the fleet, for an object with a key of this node: the owner's side.
 *
 * The other node has run vcl_recv and vcl_hash, or its route's rules, and will run vcl_deliver: here it is a lookup, and
 * the fetch if there is one.  What it gets is the response as it is stored, with the times that it has left.  Where that
 * is not possible it gets an error without the field Tarn-Peer, and asks the origin itself. */
#include <stdio.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/http/tags.h"
#include "daemon/log/elog.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/hop.h"
#include "daemon/proxy/req_priv.h"

/* For the error log, if the operator has to do something about it. */
static enum req_next
hop_deny(struct req *r, unsigned status, const char *why, bool loud)
{
    char client[ADDRESS_TEXT_MAX];

    counter_add(r->proxy->counters, COUNTER_fleet_peer_denied, 1);
    if (loud) {
        address_text(r->x->conn->client_addr, client);
        elog(ELOG_WARN, "fleet: listener %s: a request from %s is refused with %u: %s",
            r->x->conn->listener->name, client, status, why);
    }
    return req_synth(r, status, 0);
}

enum req_next
req_hop_refuse(struct req *r)
{
    counter_add(r->proxy->counters, COUNTER_fleet_peer_refused, 1);
    return req_synth(r, 421, 0);
}

/* Of a response that was found or has come. */
static enum req_next
hop_refuse_response(struct req *r)
{
    rep_forget(&r->rep);
    r->resp = (struct exchange_response){.status = 0};
    r->log_flags &= ~(unsigned)(SHMLOG_REQ_HIT | SHMLOG_REQ_STALE);
    return req_hop_refuse(r);
}

static const char *
hop_text(enum hop_refusal refusal)
{
    static const char *const texts[] = {
        [HOP_MALFORMED] = "it has no field Tarn-Peer, or one of another form: only nodes of the "
                          "fleet may ask here",
        [HOP_VERSION] = "its field Tarn-Peer is of another version of tarnd",
        [HOP_UNSIGNED] =
            "its code is not of this fleet: another engine, another fleet's node, a proxy that "
            "changes what nodes ask, or no node at all",
    };

    return texts[refusal];
}

/* The head without what nodes tell each other.  What the other node says of the client is meant: it is signed. */
static int
hop_edit(struct req *r)
{
    const unsigned most = (unsigned)r->proxy->params.http_max_hdr;
    struct message_edit *e = arena_alloc(&r->x->arena, sizeof(*e));
    int err = e == NULL ? TERR_NOMEM : message_edit_init(e, &r->x->head, &r->x->arena, most);

    if (err != 0)
        return err;
    message_edit_unset(e, SLICE_LIT("Surrogate-Capability"), HTTP_F_SURROGATE_CAPABILITY);
    if (e->head.authority_len > 0) /* RFC 9112 3.2.2: the target's authority is what counts */
        err = message_edit_set(e, SLICE_LIT("Host"), HTTP_F_HOST, http_host(&r->x->head));
    for (unsigned i = 0; i < e->head.nfields; i++)
        e->head.fields[i].said = true;
    r->policy.req = e;
    r->head = &e->head;
    return err;
}

/* In the exchange's arena, in place of the connection's: a policy sees the client. */
struct hop_facts {
    struct conn_facts facts;
    struct conn_listener listener;
    struct hop_seal seal;
};
_Static_assert(offsetof(struct hop_facts, facts) == 0, "one is found by the other");

static const struct hop_facts *
hop_facts_of(const struct req *r)
{
    tassert_slow(r->policy.hop);
    return (const struct hop_facts *)(const void *)r->x->conn;
}

static int
hop_take_client(struct req *r, struct slice client, const struct hop_seal *seal)
{
    struct hop_facts *h = arena_alloc(&r->x->arena, sizeof(*h));
    char text[ADDRESS_TEXT_MAX];

    if (h == NULL)
        return TERR_NOMEM;
    h->facts = *r->x->conn;
    h->listener = *r->x->conn->listener;
    h->facts.listener = &h->listener;
    h->seal = *seal;
    h->facts.client_port = 0;                                      /* unknown */
    memset(h->facts.client_addr, 0, sizeof(h->facts.client_addr)); /* a Unix socket's */
    snprintf(text, sizeof(text), "%.*s", (int)client.len, client.ptr);
    if (client.len > 0 && !address_read(text, strlen(text), h->facts.client_addr))
        return TERR_SYNTAX;
    r->x->conn = &h->facts;
    return 0;
}

/* What the other node's policy named: one of this node's, which has the same texts. */
static bool
hop_find_backend(struct req *r, struct slice name)
{
    const struct policy *pol = r->policy.first != NULL ? r->policy.first->policy : NULL;

    r->backend = pol != NULL ? pol->default_backend : NULL;
    if (name.len == 0)
        return true;
    if (pol == NULL)
        return false;
    r->policy.hinted = true;
    r->backend = NULL;
    for (unsigned i = 0; i < pol->nheld && r->backend == NULL; i++)
        if (slice_eq(slice_str(director_name(pol->held[i])), name))
            r->backend = pol->held[i];
    if (r->backend == NULL && pol->snapshot != NULL)
        r->backend = snapshot_find(pol->snapshot, name);
    return r->backend != NULL;
}

static int
hop_key_of(struct req *r, const struct hop_question *q)
{
    int err;

    r->x->scheme = q->scheme;
    if (q->key.len > 0) {
        r->policy.key = hop_unhexed(q->key, &r->x->arena);
        if (r->policy.key.ptr == NULL ||
            r->policy.key.ptr[0] != '"') /* as req_policy_key() has it */
            return TERR_SYNTAX;
    }
    if (q->identity.len > 0) {
        r->policy.identity = hop_unhexed(q->identity, &r->x->arena);
        if (r->policy.identity.ptr == NULL)
            return TERR_SYNTAX;
    }
    err = req_make_key(r);
    if (err != 0)
        return err;
    r->key = r->policy.key.ptr != NULL ? hash_bytes(r->policy.key.ptr, r->policy.key.len)
                                       : hash_bytes(r->proxy->key_text, r->key_len);
    return 0;
}

/* It waits for the origin: the other node shall not take it for dead. */
static void
hop_say_that_it_waits(struct req *r)
{
    struct http_message m;
    struct message_out o;

    if (message_out_begin(&o, &m, &r->x->arena, 64, 1) != 0)
        return;
    message_out_status(&o, 102, slice_of("", 0));
    if (message_out_end(&o) == 0)
        r->x->ops->interim(r->x, &m);
}

/* NULL, or why a request that is signed cannot be answered here.  *loud: by what an operator wrote. */
static const char *
hop_wrong(
    const struct req *r, const struct hop_question *q, const struct peers_env *env, bool *loud)
{
    const struct policy *pol = r->policy.first != NULL ? r->policy.first->policy : NULL;

    *loud = true;
    if (!slice_eq(q->fleet, slice_str(env->fleet)))
        return "it is of another fleet";
    if (!slice_eq(q->to, slice_str(env->node)))
        return "it is meant for another node: two nodes have one address";
    *loud = false;
    if (q->policy != policy_rules(pol, r->proxy->registry))
        return "its node has another policy, or other routes or backends";
    if (!cache_is_trusted(r->proxy->cache) ||
        peers_place_lacks(peers_has(r->proxy->peers), q->wants))
        return "this node is behind";
    return r->head->method != HTTP_M_GET || r->x->has_body ? "it is no GET" : NULL;
}

/* What this node would serve in grace; borrowed until this turn ends. */
static struct entry *
hop_in_grace(const struct req *r)
{
    struct cache_query q;

    req_query(r, &q);
    q.grace_said = false;
    return cache_lookup_stale(r->proxy->cache, &q);
}

static enum req_next
hop_look_up(struct req *r, const struct hop_question *q, const struct hop_seal *seal)
{
    enum req_next next;
    int err = hop_edit(r);

    if (err == 0)
        err = hop_key_of(r, q);
    if (err == 0)
        err = hop_take_client(r, q->client, seal);
    if (err == 0)
        err = req_take_rules(r, true);
    if (err == 0 && http_has(r->head, HTTP_F_RANGE))
        err = req_read_ranges(r);
    if (err != 0)
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    if (!hop_find_backend(r, q->backend))
        return hop_deny(r, 421, "this node has no such backend", true);
    /* As at a node alone: clients of this one need not wait for it either. */
    r->policy.background = q->background && hop_in_grace(r) != NULL;
    counter_add(r->proxy->counters, COUNTER_fleet_peer_asked, 1);
    req_goto(r, REQ_LOOKUP);
    next = req_do_lookup(r);
    if (r->state == REQ_QUEUED || r->state == REQ_MISS)
        hop_say_that_it_waits(r);
    return next;
}

enum req_next
req_hop_admit(struct req *r)
{
    const struct peers *peers = r->proxy->peers;
    struct hop_question q;
    struct hop_seal seal;
    enum hop_refusal refusal;
    const char *why;
    bool loud;

    if (r->x->err != 0)
        return req_synth(r, (unsigned)terr_http(r->x->err, TERR_SIDE_CLIENT), r->x->err);
    if (peers == NULL)
        return hop_deny(r, 403, "this node is in no fleet, or its `peers` are off", true);
    refusal = hop_read(&q, &seal, peers_now(peers), &r->x->head);
    if (refusal != HOP_GOOD)
        return hop_deny(r, 403, hop_text(refusal), true);
    hop_keep_signed(&r->x->head);
    why = hop_wrong(r, &q, peers_env(peers), &loud);
    if (why != NULL)
        return hop_deny(r, 421, why, loud);
    return hop_look_up(r, &q, &seal);
}

/* What is stale here would be as stale there. */
void
req_hop_query(const struct req *r, struct cache_query *q)
{
    q->for_policy = r->policy.first != NULL;
    q->grace_said = true;
    q->grace_ms = 0;
}

/* May the owner of its key be asked?  What a policy says of the lookup alone, and a label's policy, the owner would not
 * know. */
bool
req_may_hop(const struct req *r)
{
    const struct req_policy *rp = &r->policy;

    return r->proxy->peers != NULL && !rp->hop && rp->first == NULL && !rp->always_miss &&
           !rp->ignore_busy && !rp->ignore_vary && !r->x->has_body && !r->attempt.no_join;
}

/* ---- the answer ---- */

/* Tags that no field of it names cannot be told. */
static bool
hop_has_other_tags(const struct entry *e, const struct http_message *m)
{
    struct tags tags;

    if (e->block->ntags == 0 && !e->block->any_tag)
        return false;
    tags_init(&tags);
    tags_add_fields(&tags, m);
    return tags.any || tags.n < e->block->ntags;
}

void
req_hop_say_failed(struct req *r, struct message_out *o)
{
    char text[HOP_ANSWER_MAX];
    size_t len = hop_failed(text, peers_env(r->proxy->peers)->node, &hop_facts_of(r)->seal);

    if (len > 0)
        message_out_field(o, HTTP_F_OTHER, HOP_FIELD, slice_of(text, len));
}

/* What vcl_backend_error made, for those that waited and no others. */
static bool
hop_is_page(const struct entry *e)
{
    return e->origin_status == 0 && entry_ttl_ms(e) <= 0 && entry_good_ms(e) <= 0;
}

/* In place of a policy's page for an error: what this node would serve in grace. */
void
req_hop_stand_in(struct req *r)
{
    struct entry *stored = hop_is_page(r->entry) ? hop_in_grace(r) : NULL;

    if (stored == NULL)
        return;
    r->attempt.failed_status = (uint16_t)entry_status(r->entry);
    req_leave_entry(r);
    r->holds = r->attempt.leader = false;
    r->entry = stored;
    r->attempt.origin_failed = true;
    r->log_flags |= SHMLOG_REQ_HIT | SHMLOG_REQ_STALE;
}

static void
hop_judge(const struct req *r, struct hop_said *said)
{
    const struct entry *e = r->entry;
    int64_t now = (int64_t)r->proxy->loop->clock.mono_ms, resident = now - e->received_ms;
    struct fresh_verdict *v = &said->verdict;

    /* In place of an error: not to be kept there as if it were good. */
    bool failed = r->attempt.origin_failed || hop_is_page(e);
    bool good = !entry_is_private(e) && !failed;

    said->failed = failed;
    *v = (struct fresh_verdict){.storable = good,
        .refusal = good ? FRESH_REFUSE_NONE : FRESH_REFUSE_PEER,
        .origin = (enum fresh_origin)e->ttl_from,
        .ttl_ms = entry_ttl_left_ms(e, now),
        .age_ms = entry_first_age_ms(e) + (resident > 0 ? resident : 0),
        .grace_ms = entry_grace_ms(e),
        .error_ms = entry_error_ms(e),
        .keep_ms = entry_good_ms(e),
        .stale_if_error_ms = entry_stale_if_error_ms(e),
        .must_revalidate = e->must_revalidate,
        .no_cache = entry_is_checked_each_time(e)};
    if (!good && v->ttl_ms > 0)
        v->ttl_ms = 0;
    v->error_ms = v->error_ms > v->grace_ms ? v->error_ms : v->grace_ms;
    v->keep_ms = v->keep_ms > v->error_ms ? v->keep_ms : v->error_ms;
}

/* All fields that are stored, those that clients do not see too, and ours. */
static int
hop_write(struct req *r, const struct http_message *stored)
{
    struct message_edit *e = arena_alloc(&r->x->arena, sizeof(*e));
    char text[HOP_ANSWER_MAX], age[24];
    struct hop_said said;
    struct slice line;
    size_t len;
    int err = e == NULL ? TERR_NOMEM : message_edit_init(e, stored, &r->x->arena, LIMIT_FIELDS);

    if (err != 0)
        return err;
    hop_judge(r, &said);
    len = hop_answer(text, peers_env(r->proxy->peers)->node, &said, &hop_facts_of(r)->seal);
    if (len == 0)
        return TERR_NOMEM;
    err = message_edit_set(e, HOP_FIELD, HTTP_F_OTHER, slice_of(text, len));
    if (err == 0) {
        snprintf(age, sizeof(age), "%lld", (long long)(said.verdict.age_ms / 1000));
        err = message_edit_set(e, SLICE_LIT("Age"), HTTP_F_AGE, slice_str(age));
    }
    line = req_cache_status(r);
    if (err == 0 && line.len > 0)
        err = message_edit_add(e, SLICE_LIT("Cache-Status"), HTTP_F_CACHE_STATUS, line);
    if (err != 0)
        return err;
    r->policy.resp = e;
    r->policy.touched = true;
    return req_write_touched(r);
}

enum req_next
req_hop_deliver(struct req *r)
{
    struct http_field *fields = arena_alloc(&r->x->arena, LIMIT_FIELDS * sizeof(*fields));
    struct http_message stored;

    r->policy.delivered = true;
    if (entry_is_esi(r->entry))
        return hop_refuse_response(r);
    if (fields == NULL)
        return hop_refuse_response(r);
    entry_message(r->entry, ENTRY_FIELDS_ALL, fields, &stored);
    if (hop_has_other_tags(r->entry, &stored) || hop_write(r, &stored) != 0) {
        r->policy.touched = false;
        return hop_refuse_response(r);
    }
    counter_add(r->proxy->counters, COUNTER_fleet_peer_served, 1);
    return REQ_WAIT;
}

void
req_start_peered(void *ctx, struct exchange *x)
{
    struct proxy *p = ctx;
    struct req *r;

    if (__builtin_expect(!x->conn->listener->peers, 1)) {
        p->start(ctx, x);
        return;
    }
    r = req_open(p, x);
    if (r == NULL)
        return;
    /* Not asked on the client's side: the fetch has it. */
    r->policy.first = r->policy.ref;
    r->policy.ref = NULL;
    r->policy.hop = true;
    r->attended = REQ_IS_HOP;
    r->state = REQ_ADMIT;
    req_run(&r->task);
}
