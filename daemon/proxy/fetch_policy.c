/* fetch_policy.c -- what the policy is asked on a fetch's way, and where its answers lead. */
#include "daemon/proxy/fetch_policy.h"

#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/http/forward.h"
#include "daemon/log/elog.h"

static void
fetch_policy_new_attempt(struct fetch_policy *v)
{
    v->at = (struct fetch_policy_attempt){
        .hitpass_ms = FETCH_UNSAID, .absent_said_ms = FETCH_UNSAID, .transit_bytes = FETCH_UNSAID};
}

/* Takes spec->policy: before f->vcl is set a failure gives it back here, later fetch_free does. */
int
fetch_policy_open(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec)
{
    struct fetch_policy *v = arena_alloc(&f->arena, sizeof(*v));
    struct policy_ref *use = spec->policy;
    const struct conn_secure *secure = x->conn->listener->secure;

    tassert(f->vcl == NULL && use != NULL);
    if (secure != NULL)
        secure = conn_secure_copy(secure, &f->arena);
    if (v == NULL || spec->identity.ptr == NULL ||
        (secure == NULL && x->conn->listener->secure != NULL)) {
        policy_end(f->proxy, &use);
        return TERR_NOMEM;
    }
    *v = (struct fetch_policy){
        .ref = use,
        .backend = spec->backend,
        .ban_error = "",
        .xid = x->xid,
        .identity = arena_copy(&f->arena, spec->identity),
        .endpoint = slice_str(x->conn->listener->endpoint),
        .socket = slice_str(x->conn->listener->name),
        .session = x->conn->session,
        .secure = secure,
        .connect_ms = spec->connect_ms > 0 ? spec->connect_ms : FETCH_UNSAID,
        .first_byte_ms = FETCH_UNSAID,
        .between_bytes_ms = FETCH_UNSAID,
        .bgfetch = f->listener.ops == NULL || spec->background,
        .hitmiss = spec->hitmiss,
        .hitpass = spec->hitpass,
        .retry_connect = true,
    };
    fetch_policy_new_attempt(v);
    for (unsigned i = 0; i < POLICY_ENDS; i++)
        policy_end_of(x, (enum policy_end_name)i, &v->ends[i]);
    f->vcl = v;
    return v->identity.ptr == NULL ? TERR_NOMEM : 0;
}

void
fetch_policy_close(struct fetch *f)
{
    policy_end(f->proxy, &f->vcl->ref);
    f->vcl = NULL;
}

/* Runs one sub on the fetch's behalf, on its worker; a trivial one is not run.  The worker has one
 * vcl_run, so a reason that it leaves is good only until the next run of any request or fetch. */
static enum vcl_action
fetch_policy_run(struct fetch *f, enum vcl_sub sub)
{
    struct proxy *p = f->proxy;
    struct policy *pol = f->vcl->ref->policy;
    struct policy_ctx *ctx = &p->run_ctx;
    struct vcl_run *run = &p->run;
    enum vcl_action act;

    tassert(f->vcl->ref != NULL && run->vcl == NULL);
    if (policy_is_trivial(pol, sub))
        return (enum vcl_action)pol->action[sub];
    ctx->policy = pol;
    ctx->ban_error = &f->vcl->ban_error;
    ctx->req = NULL;
    ctx->fetch = f;
    run->vcl = pol->vcl;
    run->arena = &f->arena;
    run->now_s = (double)p->loop->clock.wall_ms / 1000;
    run->ntrace = 0;
    /* A request's run may have left its shortcut to the fields of req, and that request may be
     * gone. */
    run->known = 0;
    run->method = f->vcl->bereq != NULL ? f->vcl->bereq->head.method : f->asked;
    act = vcl_run(run, sub);
    if (shmlog_readers(p->log))
        policy_log(p, run, f->vcl->xid, SHMLOG_KIND_FETCH, act);
    if (act == VCL_ACT_FAIL) {
        elog(ELOG_WARN, "policy %s: %s failed: %s", pol->name, vcl_sub_name(sub),
            run->why != NULL ? run->why : "return(fail)");
        counter_add(p->counters, COUNTER_policy_failed, 1);
    }
    run->vcl = NULL;
    return act;
}

/* return(abandon), return(fail): the client gets a 503 of the core's or vcl_synth's. */
static enum fetch_next
fetch_policy_give_up(struct fetch *f)
{
    f->vcl->over = true;
    return f->state == FETCH_ERROR ? FETCH_WAIT : fetch_fail(f, TERR_POLICY);
}

/* return(error(status, reason)) */
static enum fetch_next
fetch_policy_said_error(struct fetch *f)
{
    f->vcl->at.status = f->proxy->run.status;
    f->vcl->at.reason = f->proxy->run.reason;
    return fetch_fail(f, TERR_POLICY);
}

/* Once more, from vcl_backend_fetch on, if that is not too often and the request's body, if there
 * is one, can be had again. */
static enum fetch_next
fetch_policy_retry(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;

    tassert(f->body == NULL && f->held == NULL);
    if (v->retries++ >= f->proxy->params.max_retries) {
        if (f->state == FETCH_ERROR)
            return fetch_policy_give_up(f);
        v->at.status = 503;
        v->at.reason = SLICE_LIT("Too many retries");
        return fetch_fail(f, TERR_LIMIT);
    }
    /* The next backend would get the rest of a body that the last one has had the beginning of. */
    if (f->upload.body != NULL && !f->upload.kept)
        return fetch_policy_give_up(f);
    fetch_policy_new_attempt(v);
    fetch_new_attempt(f);
    counter_add(f->proxy->counters, COUNTER_fetch_retried, 1);
    fetch_drop_kept(f);
    fetch_rewind(f);
    return fetch_goto(f, FETCH_START);
}

void
fetch_policy_ask_anew(struct fetch *f)
{
    fetch_policy_new_attempt(f->vcl);
    f->vcl->bereq = NULL;
}

static enum fetch_next
fetch_policy_elsewhere(struct fetch *f, enum vcl_action act)
{
    switch ((unsigned)act) {
    case VCL_ACT_RETRY:
        return fetch_policy_retry(f);
    case VCL_ACT_ERROR:
        return fetch_policy_said_error(f);
    case VCL_ACT_ABANDON:
    case VCL_ACT_FAIL:
        return fetch_policy_give_up(f);
    default:
        TUNREACHABLE("the compiler knows which answers a subroutine may give");
    }
}

/* What would be sent, as a message that the policy can change: with everything that the core adds,
 * and its Host as a field.  f->request stays: it may be on its way (std.rollback). */
static int
fetch_make_bereq(struct fetch *f)
{
    struct message_edit *e = arena_alloc(&f->arena, sizeof(*e));
    struct http_message sent;
    int err = e == NULL ? TERR_NOMEM : fetch_write_request(f, &sent);

    tassert(f->vcl != NULL);
    if (err == 0)
        err = message_edit_init(e, &sent, &f->arena, LIMIT_FIELDS);
    /* A policy reads and sets bereq.http.Host, also where the host came in the request's
     * target. */
    if (err == 0)
        err = message_edit_set(e, SLICE_LIT("Host"), HTTP_F_HOST, http_host(&sent));
    if (err == 0)
        f->vcl->bereq = e;
    return err;
}

int
fetch_policy_rollback(struct fetch *f)
{
    return fetch_make_bereq(f);
}

/* The request as the policy left it, for the backend that it chose. */
static int
fetch_write_bereq(struct fetch *f)
{
    const struct http_message *h = &f->vcl->bereq->head;
    struct slice host = slice_of(NULL, 0);

    tassert(f->conf != NULL);
    /* What the policy sets wins.  A backend of a policy fills in its .host_header only where there
     * is no Host, as in Varnish; one of the configuration replaces the client's. */
    if (f->conf->host_header[0] != '\0' && !f->vcl->host_said &&
        (h->authority_len == 0 || !f->conf->host_if_none))
        host = slice_str(f->conf->host_header);
    return forward_bereq(h, host, f->cdn_loop, &f->arena, &f->request);
}

int
fetch_policy_write(struct fetch *f)
{
    return fetch_write_bereq(f);
}

/* Does the client's body go along?  Not if vcl_backend_fetch unset it, which builtin.vcl does for GET.
 * A lookup asks by GET unless another method is set; then a body that std.cache_req_body did not keep
 * stays where it is. */
static bool
fetch_sends_upload(const struct fetch *f)
{
    enum http_method method = f->vcl->bereq->head.method;
    bool drop = f->vcl->no_body || (f->kind == FETCH_FOR_CACHE && !f->upload.kept &&
                                       (method == HTTP_M_GET || method == HTTP_M_HEAD));

    return !drop;
}

/* Only with the answer of vcl_backend_fetch.  TERR_CANCELLED: the request that has the body
 * left. */
static int
fetch_choose_upload(struct fetch *f)
{
    bool sends = fetch_sends_upload(f);

    if (!sends && f->upload.body != NULL)
        fetch_drop_upload(f);
    return sends && f->upload.later ? fetch_ask_upload(f) : 0;
}

/* What the policy's changes mean for what may come. */
static void
fetch_note_bereq(struct fetch *f)
{
    const struct http_message *h = &f->vcl->bereq->head;
    const uint64_t conditions = HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE);

    tassert(f->vcl->bereq != NULL);
    f->asked = h->method;
    /* Without a condition a 304 would be no answer to our question, and must not freshen what is
     * stored. */
    if (fetch_is_shared(f) || f->conditional)
        f->conditional = f->old != NULL && (h->present & conditions) != 0;
    f->ranged = f->ranged && http_has(h, HTTP_F_RANGE);
}

int
fetch_policy_pick(struct fetch *f)
{
    int err = fetch_pick(f, f->vcl->backend);

    tassert(f->vcl->at.asked && f->conn == NULL);
    if (err == 0)
        err = fetch_choose_upload(f);
    if (err != 0)
        return err;
    fetch_note_bereq(f);
    return fetch_write_bereq(f);
}

enum fetch_next
fetch_policy_fetch(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    enum vcl_action act;
    int err = 0;

    if (v->at.asked)
        return FETCH_WAIT;
    v->at.asked = true;
    if (v->bereq == NULL)
        err = fetch_make_bereq(f);
    if (err != 0)
        return fetch_fail(f, err);
    act = fetch_policy_run(f, VCL_SUB_BACKEND_FETCH);
    if (act != VCL_ACT_FETCH)
        return fetch_policy_elsewhere(f, act);
    /* A lookup that sends its body reads it first, so that a slow client occupies no backend
     * connection. */
    if (f->upload.later && f->proxy->params.req_buffering && fetch_sends_upload(f))
        return fetch_goto(f, FETCH_GATHER);
    err = fetch_policy_pick(f);
    return err != 0 ? fetch_fail(f, err) : FETCH_WAIT;
}

/* Not for the cache by RFC 9111 3, whatever its freshness. */
static bool
fetch_core_forbids(enum fresh_refusal r)
{
    return r == FRESH_REFUSE_NO_STORE || r == FRESH_REFUSE_PRIVATE || r == FRESH_REFUSE_NO_CACHE ||
           r == FRESH_REFUSE_NOT_UNDERSTOOD || r == FRESH_REFUSE_AUTHORIZATION ||
           r == FRESH_REFUSE_VARY_STAR || r == FRESH_REFUSE_PARTIAL;
}

/* Of errors Varnish heeds what these say of their freshness.  For the others a policy sets a ttl. */
static bool
fetch_error_may_live(unsigned status)
{
    return status < 400 || status == 404 || status == 410 || status == 414;
}

bool
fetch_policy_was_fresh(const struct fetch *f)
{
    return f->vcl != NULL && !f->vcl->at.ttl_said && f->vcl->at.v.lifetime_ms > 0 &&
           f->vcl->at.v.ttl_ms <= 0;
}

/* Where the policy begins: with what the RFC allows.  What must not be stored begins with a ttl of
 * 0, and is stored only if the policy sets another (the policy stands on top of the core). */
static void
fetch_policy_start(struct fetch *f, const struct http_message *head)
{
    struct fetch_policy *v = f->vcl;

    v->at.forbidden = !v->at.v.storable && fetch_core_forbids(v->at.v.refusal);
    if (v->at.forbidden && v->at.v.ttl_ms > 0)
        v->at.v.ttl_ms = 0;
    if (v->at.v.ttl_ms > 0 &&
        v->at.v.origin !=
            FRESH_FROM_ROUTE) /* ages are in seconds (RFC 9111 1.2.2): 60.000, not 59.993 */
        v->at.v.ttl_ms += v->at.v.age_ms % 1000;
    v->at.rfc_ttl_ms = v->at.v.ttl_ms;
    if (!fetch_error_may_live(head->status) && v->at.v.ttl_ms > 0)
        v->at.v.ttl_ms = v->at.v.lifetime_ms = 0;
    v->at.grace_ms = v->at.v.grace_ms;
    v->at.keep_ms = f->proxy->params.default_keep;
    v->at.uncacheable = f->kind != FETCH_FOR_CACHE;
    if (v->at.uncacheable) /* nothing is kept, so nothing lives */
        v->at.v.ttl_ms = v->at.grace_ms = v->at.keep_ms = 0;
    v->at.came = head;
    v->at.beresp = NULL;
    v->at.status_prefix = 0;
    v->at.touched = v->at.whole = v->at.ttl_said = v->at.by_builtin = false;
    v->at.tags = NULL;
    v->at.tag_text = slice_of("", 0);
    v->at.absent_ms = 0;
    v->at.absent_said_ms = FETCH_UNSAID;
}

static void
fetch_policy_begin(struct fetch *f, const struct http_message *head)
{
    struct fetch_policy *v = f->vcl;

    fetch_judge(f, head, &v->at.v);
    fetch_policy_start(f, head);
    v->at.absent_ms = fetch_core_absent_ms(f, head, &v->at.v);
    if (v->at.absent_ms > 0)
        v->at.v.ttl_ms = v->at.absent_ms; /* the policy sees what the file makes of it */
    v->at.esi = fetch_esi_by_route(f, head);
    v->at.gzip = fetch_pack_by_file(/* and here */
        f, head, fetch_is_shared(f) ? FETCH_FOR_ALL : FETCH_FOR_ONE);
}

int64_t
fetch_policy_absent_ms(const struct fetch *f)
{
    const struct fetch_policy *v = f->vcl;

    if (v->at.hitpass_ms != FETCH_UNSAID)
        return 0;
    if (v->at.absent_said_ms != FETCH_UNSAID)
        return v->at.absent_said_ms;
    return v->at.v.storable && !v->at.ttl_said ? v->at.absent_ms : 0;
}

void
fetch_policy_merged(
    struct fetch *f, const struct http_message *merged, const struct fresh_verdict *v)
{
    tassert(f->old != NULL);
    f->vcl->at.v = *v;
    fetch_policy_start(f, merged);
    if (merged->status == entry_status(f->old)) /* it is the stored one's */
        f->vcl->at.status_prefix = (uint8_t)(entry_policy_status(f->old) / 1000);
}

const struct http_message *
fetch_policy_head(const struct fetch *f, const struct http_message *came)
{
    return f->vcl->at.touched ? &f->vcl->at.beresp->head : came;
}

/* Did what ran last end where builtin.vcl keeps a response out? */
static bool
fetch_policy_ended_in_builtin(const struct fetch *f)
{
    const struct policy *pol = f->vcl->ref->policy;
    const struct vcl_run *run = &f->proxy->run;
    struct vcl_place last;

    if (policy_is_trivial(pol, VCL_SUB_BACKEND_RESPONSE) || run->ntrace == 0)
        return false;
    vcl_place(pol->vcl, run->trace[run->ntrace - 1], &last);
    return strcmp(last.file, "builtin.vcl") == 0 && strcmp(last.sub, "vcl_beresp_hitmiss") == 0;
}

/* What the policy keeps out without a word of its own, builtin.vcl does: then the response says why. */
static enum fresh_refusal
fetch_policy_refusal(struct fetch *f)
{
    const struct fetch_policy *p = f->vcl;
    const struct http_message *came = fetch_policy_head(f, p->at.came);

    if (!p->at.by_builtin)
        return FRESH_REFUSE_POLICY;
    if (p->at.v.refusal != FRESH_REFUSE_NONE)
        return p->at.v.refusal;
    return http_has(came, HTTP_F_SET_COOKIE) ? FRESH_REFUSE_SET_COOKIE : FRESH_REFUSE_STALE;
}

/* The verdict that the policy's words make. */
static void
fetch_policy_judge(struct fetch *f)
{
    struct fetch_policy *p = f->vcl;
    struct fresh_verdict *v = &p->at.v;

    /* A policy may compute a negative time; it means none. */
    if (p->at.grace_ms < 0)
        p->at.grace_ms = 0;
    if (p->at.keep_ms < 0)
        p->at.keep_ms = 0;
    v->grace_ms = p->at.grace_ms;
    v->error_ms = v->stale_if_error_ms > p->at.grace_ms ? v->stale_if_error_ms : p->at.grace_ms;
    /* As in Varnish keep begins where grace ends; the verdict counts both from the end of the
     * ttl. */
    v->keep_ms = p->at.grace_ms + p->at.keep_ms;
    if (v->keep_ms < v->error_ms)
        v->keep_ms = v->error_ms;
    v->must_revalidate = false; /* the windows say it all by now */
    v->no_cache = false;
    /* What the core forbids is kept only if the policy gave it a life of its own. */
    v->storable = !(p->at.forbidden && v->ttl_ms <= 0) && !p->at.uncacheable &&
                  p->at.hitpass_ms == FETCH_UNSAID && v->ttl_ms + v->keep_ms > 0 &&
                  f->asked != HTTP_M_HEAD;
    if (p->at.ttl_said)
        v->origin = FRESH_FROM_POLICY;
    if (v->storable)
        v->refusal = FRESH_REFUSE_NONE;
    else if (p->at.uncacheable || p->at.hitpass_ms != FETCH_UNSAID)
        v->refusal = fetch_policy_refusal(f);
    else if (!p->at.forbidden) /* else it is the core's */
        v->refusal = FRESH_REFUSE_STALE;
}

/* With was_304 the merged head, already judged, is f->vcl->at.came. */
enum fetch_next
fetch_policy_response(struct fetch *f, const struct http_message *head)
{
    enum vcl_action act;
    double d;

    if (!f->vcl->at.was_304)
        fetch_policy_begin(f, head);
    act = fetch_policy_run(f, VCL_SUB_BACKEND_RESPONSE);
    d = f->proxy->run.duration_s;
    f->vcl->at.by_builtin = act == VCL_ACT_DELIVER && fetch_policy_ended_in_builtin(f);
    /* return(pass) without a duration (below 0) is hit-for-pass for beresp.ttl. */
    if (act == VCL_ACT_PASS && !f->vcl->at.uncacheable)
        f->vcl->at.hitpass_ms = d < 0 ? f->vcl->at.v.ttl_ms : policy_ms(d);
    if (act != VCL_ACT_DELIVER && act != VCL_ACT_PASS)
        return fetch_policy_elsewhere(f, act);
    fetch_policy_judge(f);
    f->vcl->at.answered = true;
    return FETCH_WAIT;
}

/* Asked at a 304, before anything is merged: *act says which head is made of the two. */
enum fetch_next
fetch_policy_refresh(struct fetch *f, const struct http_message *head, enum vcl_action *act)
{
    fetch_policy_begin(f, head);
    *act = fetch_policy_run(f, VCL_SUB_BACKEND_REFRESH);
    f->vcl->at.was_304 = true;
    if (*act != VCL_ACT_MERGE && *act != VCL_ACT_OBJ_STALE && *act != VCL_ACT_BERESP)
        return fetch_policy_elsewhere(f, *act);
    return FETCH_WAIT;
}

/* --- vcl_backend_error --- */

/* The beresp of vcl_backend_error: status and reason of return(error()), or 503 and Varnish's
 * text. It begins without a ttl, so it is kept only if the policy gives it one. */
static int
fetch_begin_error(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    unsigned status = v->at.status % 1000u >= 200 ? v->at.status : 503; /* 1xx ends nothing */
    struct slice reason = v->at.reason.ptr != NULL ? v->at.reason
                          : v->at.status != 0      ? slice_str(http_reason(status % 1000))
                                                   : SLICE_LIT("Backend fetch failed");
    struct message_edit *e = arena_alloc(&f->arena, sizeof(*e));
    int err;

    if (e == NULL)
        return TERR_NOMEM;
    v->at.status_prefix = (uint8_t)(status / 1000);
    err = message_edit_response(e, status % 1000, reason, &f->arena, LIMIT_FIELDS);
    if (err == 0)
        err = message_edit_add(
            e, SLICE_LIT("Date"), HTTP_F_DATE, slice_str(f->proxy->loop->clock.http_date));
    if (err == 0)
        err = message_edit_add(
            e, SLICE_LIT("Server"), HTTP_F_SERVER, slice_str(f->proxy->params.http_server));
    if (err != 0)
        return err;
    v->at.beresp = e;
    v->at.came = NULL;
    v->at.made = v->at.touched = true;
    v->at.tags = NULL;
    v->at.tag_text = slice_of("", 0);
    v->at.nbody = 0;
    v->at.v = (struct fresh_verdict){.refusal = FRESH_REFUSE_NO_FRESHNESS, .stale_if_error_ms = -1};
    v->at.grace_ms = v->at.keep_ms = 0;
    v->at.forbidden = v->at.by_builtin = false;
    v->at.uncacheable = f->kind != FETCH_FOR_CACHE;
    f->attempt.came_ms = (int64_t)f->proxy->loop->clock.mono_ms;
    f->attempt.received_ms = f->proxy->loop->clock.wall_ms;
    return 0;
}

bool
fetch_policy_closes(const struct fetch *f)
{
    const struct fetch_policy *v = f->vcl;

    return (v->bereq != NULL && policy_says_close(&v->bereq->head)) ||
           (v->at.beresp != NULL && v->at.touched && policy_says_close(&v->at.beresp->head));
}

/* What a body of ours needs as long as it has readers: the policy, for its literals, and what was
 * computed, in one piece. */
struct fetch_owned {
    struct policy *policy;
    char bytes[];
};

/* Any thread. */
static void
fetch_owned_release(void *ctx)
{
    struct fetch_owned *o = ctx;

    if (o->policy != NULL)
        atomic_fetch_sub_explicit(&o->policy->refs, 1, memory_order_release);
    free(o);
}

/* Referred to where it is.  What goes into the cache is not: it may outlive the policy, and shall not
 * keep one that was discarded. */
static bool
fetch_part_is_literal(const struct fetch *f, struct slice part)
{
    if (fetch_is_shared(f) && f->vcl->at.v.storable)
        return false;
    return vcl_is_literal(f->vcl->ref->policy->vcl, part);
}

/* Copies what is not a literal, in one allocation, and lets the parts refer to the copy.  A
 * literal is referred to in the policy, which is held as long as the body has readers.  NULL:
 * nothing changed. */
static struct fetch_owned *
fetch_owned_new(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    size_t size = sizeof(struct fetch_owned);
    struct fetch_owned *o;
    char *at;

    tassert(v->at.nbody <= v->at.body_room);
    for (unsigned i = 0; i < v->at.nbody; i++)
        if (!fetch_part_is_literal(f, v->at.body[i]))
            size += v->at.body[i].len;
    o = malloc(size);
    if (o == NULL)
        return NULL;
    o->policy = fetch_is_shared(f) && v->at.v.storable ? NULL : v->ref->policy;
    if (o->policy != NULL)
        atomic_fetch_add_explicit(&o->policy->refs, 1, memory_order_relaxed);
    at = o->bytes;
    for (unsigned i = 0; i < v->at.nbody; i++) {
        struct slice *part = &v->at.body[i];

        if (part->len == 0 || fetch_part_is_literal(f, *part))
            continue;
        memcpy(at, part->ptr, part->len);
        part->ptr = at;
        at += part->len;
    }
    return o;
}

static int
fetch_error_body(struct fetch *f, struct stobj **out, uint64_t *len)
{
    struct fetch_policy *v = f->vcl;
    struct fetch_owned *o = fetch_owned_new(f);
    int err;

    tassert(v->at.made);
    *len = 0;
    if (o == NULL)
        return TERR_NOMEM;
    err = stobj_synth_new_owned(out, f->proxy->synth, fetch_owned_release, o);
    /* From stobj_synth_new_owned on `o` is the body's: its last reader, on any worker, releases
     * it. */
    if (err != 0) {
        fetch_owned_release(o);
        return TERR_NOMEM;
    }
    for (unsigned i = 0; i < v->at.nbody && err == 0; i++) {
        err = stobj_synth_add(*out, v->at.body[i]);
        *len += v->at.body[i].len;
    }
    if (err != 0)
        stobj_unref(out);
    return err == 0 ? 0 : TERR_NOMEM;
}

/* Our own response takes the place of the backend's.  With a ttl it is for others too; without, for
 * the requests that wait for it now. */
static int
fetch_publish_error(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    const struct http_message *h = &v->at.beresp->head;
    struct entry_part part = {.off = 0};
    struct cache_response r = {
        .status = h->status,
        .status_prefix = v->at.status_prefix,
        .origin_status = 0,
        .received_ms = f->attempt.came_ms,
        .xid = fetch_stored_xid(f),
        .fresh = &v->at.v,
        .rendering = f->proxy->rendering,
        .for_policy = true,
        .nparts = 1,
        .parts = &part,
        .key_text = f->key_text,
    };
    int n = forward_edited(h, &f->arena, &r.head);

    tassert(v->at.made && f->body == NULL);
    if (n != 0)
        return n;
    n = fetch_tags(f, &r, v->at.v.storable && fetch_is_shared(f));
    if (n == 0)
        n = fetch_error_body(f, &part.body, &part.len);
    if (n != 0)
        return n;
    r.body_len = part.len;
    /* Before it is published, or a request that comes now would find it in the index. */
    if (!v->at.v.storable || !fetch_is_shared(f))
        cache_unlink(f->entry);
    n = cache_publish(f->entry, &r);
    if (n != 0) {
        /* The entry takes the body only on success. */
        stobj_unref(&part.body);
        return n;
    }
    cache_settle(f->entry);
    fetch_tell_marker(f, r.status);
    return 0;
}

enum fetch_next
fetch_policy_error(struct fetch *f)
{
    enum vcl_action act;

    tassert(f->state == FETCH_ERROR);
    /* Asked once, unless it retries; without memory the core's own failure stands. */
    if (f->vcl->over || fetch_begin_error(f) != 0)
        return FETCH_WAIT;
    act = fetch_policy_run(f, VCL_SUB_BACKEND_ERROR);
    if (act == VCL_ACT_RETRY) {
        if (f->conn != NULL)
            origin_discard(&f->conn);
        return fetch_policy_retry(f);
    }
    f->vcl->over = true;
    if (act != VCL_ACT_DELIVER)
        return FETCH_WAIT;
    f->asked = HTTP_M_GET;
    fetch_policy_judge(f);
    if (f->listener.ops == NULL && !f->vcl->at.v.storable)
        return FETCH_WAIT; /* what is stored goes on being used */
    if (fetch_publish_error(f) != 0)
        return FETCH_WAIT;
    if (f->conn != NULL)
        origin_discard(&f->conn);
    fetch_drop_kept(f);
    return fetch_goto(f, FETCH_CLOSE);
}

double
fetch_policy_rfc_ttl(const struct fetch *f)
{
    return (double)f->vcl->at.rfc_ttl_ms / 1000;
}
