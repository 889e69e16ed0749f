/* req_policy.c -- what the policy is asked on a request's way, and where its answers lead.
 *
 * The order is Varnish's: vcl_recv; vcl_hash; what the lookup found: vcl_hit, vcl_miss, vcl_pass;
 * vcl_deliver, or vcl_synth.  vcl_backend_* are the fetch's (fetch_policy.c). */
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/cache/invalidation.h"
#include "daemon/http/date.h"
#include "daemon/http/forward.h"
#include "daemon/http/message_out.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/req_priv.h"

/* Runs one sub for the request, on its worker.  What it leaves in p->run (reason, status, why) is
 * good until the next run, of whichever request or fetch. */
enum vcl_action
req_policy_run(struct req *r, enum vcl_sub sub)
{
    struct proxy *p = r->proxy;
    struct policy *pol = r->policy.ref->policy;
    struct policy_ctx *ctx = &p->run_ctx;
    struct vcl_run *run = &p->run;
    const bool logged = __builtin_expect(shmlog_readers(p->log), 0);
    enum vcl_action act;

    tassert_slow(run->vcl == NULL); /* no run within another: a worker has one */
    ctx->policy = pol;
    ctx->ban_error = &r->policy.ban_error;
    ctx->req = r;
    ctx->fetch = NULL;
    run->vcl = pol->vcl;
    run->arena = &r->x->arena;
    run->now_s = (double)p->loop->clock.wall_ms / 1000;
    run->ntrace = logged ? 0 : VCL_TRACE_MAX; /* no reader wants the lines that ran */
    req_show_head(r, run);
    act = vcl_run(run, sub);
    if (logged)
        policy_log(p, run, r->x->xid, SHMLOG_KIND_REQ, act);
    run->vcl = NULL;
    return act;
}

/* Its answer, run or known. */
static inline enum vcl_action
req_ask_policy(struct req *r, enum vcl_sub sub)
{
    const struct policy *pol = r->policy.ref->policy;

    if (policy_is_trivial(pol, sub))
        return (enum vcl_action)pol->action[sub];
    return req_policy_run(r, sub);
}

/* What the request waits for, holds and has learned of a response is over; what the policy made
 * of the request stays. */
void
req_forget_response(struct req *r)
{
    struct req_policy *rp = &r->policy;

    req_leave_entry(r);
    if (r->old != NULL)
        entry_drop(&r->old);
    if (rp->refresh != NULL) { /* it is not fetched any more: its waiters look again */
        cache_hitmiss(
            rp->refresh, NULL, (int64_t)r->proxy->loop->clock.mono_ms, 0, CACHE_MARK_ERROR);
        entry_drop(&rp->refresh);
    }
    if (r->own_body)
        req_drop_page(r);
    r->rep.body = NULL;
    r->rep.entry = NULL;
    r->attempt = (struct req_attempt){.reason = CACHE_NOTHING_STORED};
    r->resp = (struct exchange_response){.status = 0};
    r->x->extra_len = 0;
    rp->resp = NULL;
    rp->absent = NULL;
    rp->touched = rp->delivered = rp->synth = rp->hitmiss = rp->hitpass = false;
    rp->nbody = 0;
    rp->piped = rp->no_length = rp->gunzip_off = rp->range_off = false;
    r->nranges = 0;
    r->log_flags &=
        ~(unsigned)(SHMLOG_REQ_HIT | SHMLOG_REQ_STALE | SHMLOG_REQ_MISS | SHMLOG_REQ_HITMISS |
                    SHMLOG_REQ_PASS | SHMLOG_REQ_SYNTH | SHMLOG_REQ_REVALIDATED |
                    SHMLOG_REQ_ABSENT | SHMLOG_REQ_PIPE | SHMLOG_REQ_ERROR);
}

/* Tarn's own answer, which vcl_synth may change if there is a policy.  `reason` is static, or
 * lies in the request's arena or the policy: it is read only then. */
enum req_next
req_synth_by_policy(struct req *r, unsigned status, struct slice reason, int err)
{
    if (r->policy.ref == NULL)
        return req_synth(r, status, err);
    if (r->early && req_is_early(r))
        return req_refuse_early(r);
    if (r->state != REQ_RECV || r->policy.restarts > 0) /* else there was none */
        req_forget_response(r);
    r->policy.synth = true;
    r->policy.reason = reason;
    return req_synth(r, status, err);
}

/* The client gets a 503, and its connection ends, as in Varnish. */
static enum req_next
req_policy_failed(struct req *r)
{
    const char *why = r->proxy->run.why;

    if (r->early && req_is_early(r)) /* mostly therefore: see policy_is_early() */
        return req_refuse_early(r);
    elog(ELOG_WARN, "policy %s: %s failed: %s", r->policy.ref->policy->name,
        vcl_sub_name(r->proxy->run.sub), why != NULL ? why : "return(fail)");
    counter_add(r->proxy->counters, COUNTER_policy_failed, 1);
    r->policy.close = true;
    return req_synth_by_policy(r, 503, SLICE_LIT("VCL failed"), TERR_POLICY);
}

/* What is sent of a status that has a hint of the policy in front (1404). */
static unsigned
req_sent_status(unsigned status)
{
    return __builtin_expect(status < 1000, 1) ? status : status % 1000;
}

/* return(synth(status, reason)) */
static enum req_next
req_policy_said_synth(struct req *r)
{
    const struct vcl_run *run = &r->proxy->run;
    struct slice reason = run->reason;

    /* An interim status ends nothing: RFC 9110 15.2. */
    return req_synth_by_policy(
        r, req_sent_status(run->status) < 200 ? 503 : run->status, reason, 0);
}

/* Not too often; and what was uploaded has gone to a backend, and cannot be sent to another. */
static bool
req_has_body_again(const struct req *r)
{
    return r->upload == NULL || r->policy.body_kept;
}

static bool
req_may_restart(const struct req *r)
{
    return r->policy.restarts < r->proxy->params.max_restarts && req_has_body_again(r);
}

/* From the beginning, or an answer that says that it was too often. */
static enum req_next
req_restart(struct req *r)
{
    tassert(r->policy.ref != NULL);
    req_forget_response(r);
    counter_add(r->proxy->counters, COUNTER_req_restarted, 1);
    r->log_flags |= SHMLOG_REQ_RESTARTED;
    if (!req_may_restart(r)) {
        bool too_often = r->policy.restarts >= r->proxy->params.max_restarts;

        if (too_often && r->policy.restarts <= r->proxy->params.max_restarts)
            r->policy.restarts++; /* vcl_synth sees the one that was refused, too */
        return req_synth_by_policy(r, 503,
            too_often ? SLICE_LIT("Too many restarts") : SLICE_LIT("Request body is gone"),
            TERR_LIMIT);
    }
    r->policy.restarts++;
    r->policy.key = slice_of(NULL, 0); /* of this turn */
    return req_goto(r, REQ_RECV);
}

/* What every sub may answer beside its own way. */
static enum req_next
req_policy_elsewhere(struct req *r, enum vcl_action act)
{
    switch ((unsigned)act) {
    case VCL_ACT_SYNTH:
        return req_policy_said_synth(r);
    case VCL_ACT_RESTART:
        return req_restart(r);
    case VCL_ACT_FAIL:
        return req_policy_failed(r);
    default:
        TUNREACHABLE("the compiler knows which answers a subroutine may give");
    }
}

/* A key of the policy's own making.  The builtin vcl_hash makes what the core makes. */
int
req_policy_key(struct req *r)
{
    struct proxy *p = r->proxy;
    struct slice key;

    r->host_at = 7; /* for the backend, and for what is resolved against it */
    /* No key of the core begins with a quote, so a policy cannot make one that stands for another
     * site's page by chance. */
    p->key_text[0] = '"';
    r->key_len = 1;
    if (req_ask_policy(r, VCL_SUB_HASH) != VCL_ACT_LOOKUP)
        return TERR_POLICY;
    tassert_slow(r->key_len <= sizeof(p->key_text));
    key = arena_copy(&r->x->arena, slice_of(p->key_text, r->key_len));
    if (key.ptr == NULL)
        return TERR_NOMEM;
    r->policy.key = key;
    return 0;
}

/* The text outlives the turn, in which `key_text` is ours: of a key that vcl_hash makes, and of one that
 * purge.hard() or purge.soft() may end in vcl_hit or vcl_miss, if a log wants it.  By then the request
 * may have waited, and its head may be another. */
static int
req_policy_keep_key(struct req *r)
{
    struct slice key;
    int err;

    r->policy.key_kept = false;
    if (!r->policy.ref->policy->hashes_as_builtin)
        return req_policy_key(r);
    if (!invalidation_wants_text(r->proxy->cache))
        return 0;
    err = req_make_key(r);
    if (err != 0)
        return err;
    key = arena_copy(&r->x->arena, slice_of(r->proxy->key_text, r->key_len));
    if (key.ptr == NULL)
        return TERR_NOMEM;
    r->policy.key = key;
    r->policy.key_kept = true;
    return 0;
}

static void
req_purge_key(struct req *r, const struct hash128 *key, struct slice text)
{
    const struct invalidation inv = {.kind = INVALIDATION_KEY, .key = key, .text = text};
    struct invalidation_result done = {.wait = NULL};

    invalidation_make(r->proxy->cache, &inv, &r->proxy->loop->clock, &done);
    req_note_purge(r, &done);
}

/* Purges seldom use the scheme of the readers: a builtin key is emptied for both schemes. */
static void
req_purge_other_scheme(struct req *r)
{
    int err;

    err = req_make_key_of(
        r, r->x->scheme == HTTP_SCHEME_HTTPS ? HTTP_SCHEME_HTTP : HTTP_SCHEME_HTTPS);
    tassert(err == 0); /* it was made already */
    req_purge_key(r, NULL, slice_of(r->proxy->key_text, r->key_len));
    /* key_text is the worker's: the request's own key goes back into it. */
    err = req_make_key(r);
    tassert(err == 0);
}

static enum req_next
req_policy_purge(struct req *r)
{
    enum vcl_action act;

    req_purge_key(r, &r->key, req_key_text(r)); /* in the turn that made it */
    if (!req_made_key(r))
        req_purge_other_scheme(r);
    act = req_ask_policy(r, VCL_SUB_PURGE);
    return req_policy_elsewhere(r, act);
}

static enum req_next
req_policy_pipe(struct req *r)
{
    enum vcl_action act = req_ask_policy(r, VCL_SUB_PIPE);

    if (act != VCL_ACT_PIPE)
        return req_policy_elsewhere(r, act);
    /* An upgrade becomes a tunnel when the backend agrees; anything else is an ordinary request,
     * after which the connection ends. */
    r->attempt.pipes = r->x->upgrade;
    r->policy.close = !r->attempt.pipes;
    r->policy.piped = true;
    r->log_flags |= SHMLOG_REQ_PIPE;
    return req_goto(r, REQ_PASS);
}

/* If-Match and If-Unmodified-Since are the origin's to judge (RFC 9111 4.3.2). */
bool
req_is_origins(const struct req *r)
{
    return (r->head->present &
               (HTTP_BIT(HTTP_F_IF_MATCH) | HTTP_BIT(HTTP_F_IF_UNMODIFIED_SINCE))) != 0;
}

/* The key is made, and the policy has said what is to be done.  A route with `pipe` is good for an
 * upgrade that the policy neither pipes nor refuses. */
static enum req_next
req_policy_go(struct req *r, enum vcl_action act)
{
    if (__builtin_expect(r->x->upgrade, 0) && (act == VCL_ACT_HASH || act == VCL_ACT_PASS) &&
        req_route_pipes(r))
        act = VCL_ACT_PIPE;
    if (__builtin_expect(r->x->connect, 0) &&
        (act == VCL_ACT_HASH || act == VCL_ACT_PASS || act == VCL_ACT_PURGE))
        return req_synth(r, 501, 0);
    if (__builtin_expect(r->passes, 0) && act == VCL_ACT_HASH)
        act = VCL_ACT_PASS;
    if (__builtin_expect(r->early, 0) && act != VCL_ACT_HASH && req_is_early(r))
        return req_refuse_early(r);
    switch ((unsigned)act) {
    case VCL_ACT_HASH:
        if ((r->head->present & REQ_ASKS) != 0 && req_read_asked(r) != 0)
            return req_synth(r, 503, TERR_NOMEM);
        /* Decided only here: a policy's purge or pipe is not a lookup. */
        if (req_is_origins(r))
            return req_goto(r, REQ_PASS);
        req_goto(r, REQ_LOOKUP);
        return req_do_lookup(r);
    case VCL_ACT_PASS:
        return req_goto(r, REQ_PASS);
    case VCL_ACT_PURGE:
        return req_policy_purge(r);
    case VCL_ACT_PIPE:
        return req_policy_pipe(r);
    default:
        return req_policy_elsewhere(r, act);
    }
}

/* return(vcl(label)): the other policy begins at its vcl_recv.  It cannot go on to a third. */
static enum req_next
req_policy_switch(struct req *r)
{
    struct req_policy *rp = &r->policy;
    const char *label = vcl_label_name(rp->ref->policy->vcl, r->proxy->run.label);
    struct policy_ref *use = rp->first == NULL ? policy_labelled(r->proxy, label) : NULL;

    if (use == NULL) {
        r->proxy->run.why = "return(vcl(label)): no such label, or from a labelled policy";
        return req_policy_failed(r);
    }
    /* Both are held until the request ends: strings of the first may still be in use. */
    rp->first = rp->ref;
    rp->ref = use;
    tassert(rp->ref != rp->first); /* a labelled policy names no label, so it is another one */
    r->backend = use->policy->default_backend;
    rp->hinted = false;
    rp->key = slice_of(NULL, 0); /* of the first */
    return req_policy_recv(r);
}

/* Answers of vcl_recv after which nothing is looked up. */
#define REQ_KEYLESS \
    (1u << VCL_ACT_VCL | 1u << VCL_ACT_SYNTH | 1u << VCL_ACT_FAIL | 1u << VCL_ACT_RESTART)

int
req_policy_ask(struct req *r, enum vcl_action *act)
{
    struct policy *pol = r->policy.ref->policy;
    int err = 0;

    *act = req_ask_policy(r, VCL_SUB_RECV);
    if ((1u << *act & REQ_KEYLESS) != 0)
        return 0;
    if (pol->keeps_key)
        err = req_policy_keep_key(r);
    if (err == 0)
        err = req_make_key(r);
    if (err != 0)
        return err;
    if (r->policy.key.ptr != NULL)
        r->key = hash_bytes(r->policy.key.ptr, r->policy.key.len);
    else if (*act != VCL_ACT_PASS)
        r->key = hash_bytes(r->proxy->key_text, r->key_len);
    return 0;
}

enum req_next
req_policy_recv(struct req *r)
{
    struct policy *pol = r->policy.ref->policy;
    enum vcl_action act;
    int err;

    /* std.cache_req_body: the body is read first, since a run never waits. */
    if (pol->keeps_body && r->x->has_body && !r->policy.body_kept && req_keeping_body(r))
        return REQ_WAIT;
    if (r->backend == NULL) { /* none has been named yet */
        r->backend = pol->default_backend;
        r->policy.hinted = false;
    }
    err = req_policy_ask(r, &act);
    if (err == TERR_POLICY)
        return req_policy_failed(r);
    if (err != 0)
        return req_synth_by_policy(
            r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), slice_of(NULL, 0), err);
    if (act == VCL_ACT_VCL)
        return req_policy_switch(r);
    return req_policy_go(r, act);
}

/* HIT -- something stored was found. */
enum req_next
req_do_hit(struct req *r)
{
    enum vcl_action act;

    act = req_ask_policy(r, VCL_SUB_HIT);
    if (act == VCL_ACT_DELIVER)
        return req_use_hit(r);
    if (act == VCL_ACT_PASS) {
        /* The entry is given back: the response will be the backend's. */
        req_forget_response(r);
        return req_goto(r, REQ_PASS);
    }
    return req_policy_elsewhere(r, act);
}

/* The leader does not fetch after all.  The entry becomes a marker, so that those that wait look
 * again and one of them fetches. */
void
req_withdraw(struct req *r)
{
    struct entry *fetchs = r->entry;

    tassert(r->entry != NULL && !r->attempt.leader); /* no fetch has begun */
    cache_hitmiss(r->entry, NULL, (int64_t)r->proxy->loop->clock.mono_ms, 0, CACHE_MARK_ERROR);
    entry_drop(&fetchs); /* the hold that the fetch would have */
    r->holds = true;
    if (r->old != NULL)
        entry_drop(&r->old);
}

enum req_next
req_policy_miss(struct req *r)
{
    enum vcl_action act = req_ask_policy(r, VCL_SUB_MISS);

    if (act == VCL_ACT_FETCH)
        return REQ_WAIT;
    /* Others may wait for this entry already, and no fetch will fill it. */
    req_withdraw(r);
    if (act == VCL_ACT_PASS) {
        req_forget_response(r);
        return req_goto(r, REQ_PASS);
    }
    return req_policy_elsewhere(r, act);
}

enum req_next
req_policy_pass(struct req *r)
{
    enum vcl_action act;

    if (r->policy.piped)
        return REQ_WAIT;
    act = req_ask_policy(r, VCL_SUB_PASS);
    return act == VCL_ACT_FETCH ? REQ_WAIT : req_policy_elsewhere(r, act);
}

/* The response as the policy left it, for the client. */
static int
req_write_resp(struct req *r)
{
    const struct http_message *h = &r->policy.resp->head;
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    int err = m == NULL ? TERR_NOMEM : forward_edited(h, &r->x->arena, m);

    if (err != 0)
        return err;
    r->policy.message = m;
    r->policy.close = r->policy.close || policy_says_close(h);
    return 0;
}

/* A Content-Length that was about no body must not promise one, nor one be told where none may be
 * (RFC 9110 8.6). */
static void
req_fit_length(struct req *r)
{
    struct message_edit *e = r->policy.resp;
    unsigned now = e->head.status % 1000u, was = entry_status(r->entry);

    tassert_slow(!r->begun); /* its head is still to be sent */
    if (now == was || (now != 204 && was != 204 && was != 304))
        return;
    message_edit_unset(e, SLICE_LIT("Content-Length"), HTTP_F_CONTENT_LENGTH);
    r->policy.no_length = true;
}

int
req_write_touched(struct req *r)
{
    req_fit_length(r);
    return req_write_resp(r);
}

/* vcl_deliver, once, before anything of the response is sent.  REQ_WAIT: go on and send it. */
enum req_next
req_policy_deliver(struct req *r)
{
    enum vcl_action act;

    tassert_slow(!r->policy.delivered);
    r->policy.delivered = true;
    act = req_ask_policy(r, VCL_SUB_DELIVER);
    if (act != VCL_ACT_DELIVER)
        return req_policy_elsewhere(r, act);
    if (r->policy.touched && req_write_touched(r) != 0) {
        r->x->ops->reset(r->x, TERR_NOMEM);
        return req_goto(r, REQ_CLOSE);
    }
    return REQ_WAIT;
}

enum {
    SYNTH_FIELDS_BYTES = 128, /* Date, and a Server of 64 bytes */
};

static void
req_synth_purged(struct req *r, struct message_out *o)
{
    struct req_purge_fields f = req_purge_fields(r);

    if (f.token.len > 0)
        MESSAGE_OUT_FIELD(o, OTHER, "Purge-Token", f.token);
    if (f.proof.len > 0)
        MESSAGE_OUT_FIELD(o, OTHER, "Purge-Proof", f.proof);
}

/* A head as vcl_synth leaves it when it does not look at it: what req_edit_resp() would give it. */
static int
req_build_synth(struct req *r, struct http_message *m)
{
    const struct proxy *p = r->proxy;
    size_t bytes = SYNTH_FIELDS_BYTES + (r->policy.purged != NULL ? REQ_PURGE_FIELDS_MAX : 0u);
    struct slice reason = req_reason(r);
    struct message_out o;

    if (reason.len > HTTP_REASON_MAX)
        reason = slice_str(http_reason(r->synth_status % 1000u));
    if (message_out_begin(&o, m, &r->x->arena, bytes + reason.len, 4) != 0)
        return TERR_NOMEM;
    message_out_status(&o, req_sent_status(r->synth_status), reason);
    MESSAGE_OUT_FIELD(&o, DATE, "Date", slice_str(p->loop->clock.http_date));
    MESSAGE_OUT_FIELD(&o, SERVER, "Server", slice_str(p->params.http_server));
    if (r->policy.purged != NULL)
        req_synth_purged(r, &o);
    return message_out_end(&o);
}

/* Rendered, it lies with our own lines, where it stays until it is sent.  It is made once a second
 * and status, mostly. */
static int
req_render_synth(struct req *r)
{
    struct proxy *p = r->proxy;
    struct proxy_synth *memo = &p->last_synth;
    int64_t second = p->loop->clock.wall_ms / 1000;

    if (memo->status != r->synth_status || memo->second != second) {
        struct http_message m;
        size_t len;

        if (req_build_synth(r, &m) != 0)
            return TERR_NOMEM;
        tassert(
            HTTP_PREFIX_MAX + (size_t)m.len <= sizeof(memo->text)); /* reasons of ours are short */
        len = p->rendering->prefix(memo->text, m.status, http_reason_of(&m)).len;
        memcpy(memo->text + len, message_lines(&m).ptr, message_lines(&m).len);
        memo->second = second;
        memo->status = r->synth_status;
        memo->len = (uint16_t)(len + message_lines(&m).len);
    }
    memcpy(r->x->extra, memo->text, sizeof(memo->text)); /* a fixed size is moved, not called for */
    r->x->extra_len = memo->len;
    return 0;
}

static int
req_write_synth(struct req *r)
{
    struct http_message *m;

    r->policy.message = NULL;
    if (r->policy.reason.ptr == NULL && r->policy.purged == NULL && req_is_ready_made(r))
        return req_render_synth(r);
    m = arena_alloc(&r->x->arena, sizeof(*m));
    if (m == NULL || req_build_synth(r, m) != 0)
        return TERR_NOMEM;
    r->policy.message = m;
    return 0;
}

static enum req_next
req_synth_cut(struct req *r)
{
    r->x->ops->reset(r->x, TERR_NOMEM);
    return req_goto(r, REQ_CLOSE);
}

/* RFC 9110 8.6, 15.4.5: these have no body, whatever was set. */
static bool
req_has_no_body(unsigned status)
{
    return status == 204 || status == 304 || status < 200;
}

/* vcl_synth failed, and cannot be asked about its own failure: the core's page. */
static enum req_next
req_synth_failed(struct req *r)
{
    elog(ELOG_WARN, "policy %s: vcl_synth failed: %s", r->policy.ref->policy->name,
        r->proxy->run.why != NULL ? r->proxy->run.why : "return(fail)");
    counter_add(r->proxy->counters, COUNTER_policy_failed, 1);
    r->policy.synth = false;
    r->policy.close = true;
    r->synth_status = 500;
    if (r->own_body)
        req_drop_page(r);
    return REQ_MORE;
}

/* Fields behind what req_write_synth() put there. */
static void
req_synth_extra(struct req *r)
{
    struct exchange *x = r->x;

    if (r->policy.absent != NULL)
        x->extra_len =
            (uint16_t)(req_put_absent(r, r->policy.absent, x->extra + x->extra_len) - x->extra);
    if (req_says_x_varnish(r) && r->policy.resp == NULL) /* else it is among its fields */
        x->extra_len = (uint16_t)(req_put_x_varnish(r, x->extra + x->extra_len) - x->extra);
}

enum req_next
req_policy_synth(struct req *r)
{
    enum vcl_action act;
    unsigned status;
    bool none;

    r->policy.nbody = 0;
    act = req_ask_policy(r, VCL_SUB_SYNTH);
    if (r->policy.purged != NULL)
        req_unsay_purge(r);
    if (act == VCL_ACT_RESTART && r->policy.restarts <= r->proxy->params.max_restarts &&
        req_has_body_again(r)) /* the one too many becomes a 503, and its vcl_synth ends it */
        return req_restart(r);
    if (act != VCL_ACT_DELIVER && act != VCL_ACT_RESTART)
        return req_synth_failed(r);
    if (r->policy.resp != NULL)
        r->synth_status = r->policy.resp->head.status;
    status = req_sent_status(r->synth_status);
    r->resp.status = status;
    none = req_has_no_body(status);
    r->resp.bodyless = r->x->head.method == HTTP_M_HEAD || none;
    if ((r->policy.resp != NULL ? req_write_resp(r) : req_write_synth(r)) != 0 ||
        (!r->own_body && req_take_page(r) != 0))
        return req_synth_cut(r);
    req_synth_extra(r);
    r->resp.length = none ? EXCHANGE_LENGTH_UNKNOWN : stobj_len(r->rep.body);
    r->resp.message = r->policy.message;
    r->resp.close = r->policy.close;
    req_goto(r, REQ_DELIVER);
    return req_do_deliver(r);
}
