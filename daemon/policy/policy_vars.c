/* policy_vars.c -- a policy's variables: the rows of policy_var_table.h, made into three switches. */
#include "daemon/policy/policy_var_table.h"

#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/http/codings.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/policy/msg_view.h"
#include "daemon/proxy/fetch_policy.h"
#include "daemon/proxy/req.h"
#include "vcl-lite/vcl_filter.h"

/* --- what the rows read --- */

static char vars_hostname[256];

/* Before the sandbox and the threads: it is read by every run, and written never again. */
__attribute__((constructor)) static void
vars_hostname_read(void)
{
    if (gethostname(vars_hostname, sizeof(vars_hostname) - 1) != 0)
        vars_hostname[0] = '\0';
}

/* .ptr NULL: no memory. */
static struct slice
vars_identity(const struct policy_ctx *ctx)
{
    return ctx->fetch != NULL ? ctx->fetch->vcl->identity : req_identity(ctx->req);
}

/* NULL: a plain connection. */
static const struct conn_secure *
vars_secure(const struct policy_ctx *ctx)
{
    return ctx->fetch != NULL ? ctx->fetch->vcl->secure : ctx->req->x->conn->listener->secure;
}

/* .ptr NULL, which is unset: there is none. */
static struct slice
vars_secure_text(const char *text)
{
    return text != NULL && text[0] != '\0' ? slice_str(text) : slice_of(NULL, 0);
}

#define VARS_SECURE(member) \
    vars_secure_text(vars_secure(ctx) != NULL ? vars_secure(ctx)->member : NULL)

/* Wall clock, minus what it has taken since its first byte; the loop's clock stands within a turn. */
static double
vars_start_time(const struct vcl_run *run, const struct exchange *x)
{
    const struct policy_ctx *ctx = run->ctx;
    int64_t us = (int64_t)(ctx->proxy->loop->clock.mono_us - x->start_us);

    return run->now_s - (us > 0 ? (double)us / 1000000 : 0);
}

static double
vars_req_time(const struct vcl_run *run)
{
    const struct policy_ctx *ctx = run->ctx;

    return vars_start_time(run, ctx->req->x);
}

static double
vars_req_top_time(const struct vcl_run *run)
{
    const struct policy_ctx *ctx = run->ctx;

    return vars_start_time(run, req_top(ctx->req)->x);
}

static int64_t
vars_esi_depth(const struct policy_ctx *ctx)
{
    static const int64_t unsaid = 5; /* vcl_init: there is no worker */

    return ctx->proxy == NULL ? unsaid
                              : snapshot_conf(registry_snapshot(ctx->proxy->registry))->esi.depth;
}

/* A timeout of the fetch: as it was set; else the backend's; until one is chosen the parameter's. */
#define VARS_TIMEOUT(name)                                  \
    (v->name##_ms != FETCH_UNSAID ? v->name##_ms            \
        : f->conf != NULL         ? f->conf->name##_timeout \
                                  : params->name##_timeout)

static int64_t
vars_pipe_connect_ms(const struct policy_ctx *ctx)
{
    const unsigned said_cs = ctx->req->policy.connect_cs;

    return said_cs > 0 ? said_cs * 10 : ctx->params->connect_timeout;
}

/* The backend itself, not its director. */
static struct director *
vars_beresp_backend(const struct fetch *f)
{
    return f->backend != NULL ? backend_director(f->backend) : f->vcl->backend;
}

static struct slice
vars_director_name(const struct director *d)
{
    return d != NULL ? slice_str(director_name(d)) : slice_of(NULL, 0);
}

static int64_t
vars_entry_age_ms(const struct entry *e, int64_t now_ms)
{
    return entry_first_age_ms(e) + (now_ms - e->received_ms);
}

/* Those that will do something, as fetch_pack.c decides.  Nothing is known before there is a response. */
static unsigned
vars_beresp_filters(const struct fetch_policy_attempt *at)
{
    const bool packed = at->came != NULL && http_has(at->came, HTTP_F_CONTENT_ENCODING);
    const bool gunzip = packed && (at->esi || at->gunzip) && fetch_head_is_gzip(at->came);

    return (gunzip ? VCL_FILTER_GUNZIP : 0U) |
           (at->esi && (!packed || gunzip) ? VCL_FILTER_ESI : 0U) |
           (at->gzip && (at->esi ? at->gzip_said : !packed) ? VCL_FILTER_GZIP : 0U);
}

/* Likewise of the response to the client, as the delivery does. */
static unsigned
vars_resp_filters(const struct req *r)
{
    const struct req_policy *rp = &r->policy;
    const struct entry *e = r->entry;

    if (e == NULL) /* a synthetic answer is sent as it is */
        return 0;
    if (entry_is_esi(e))
        return rp->esi_off ? 0 : VCL_FILTER_ESI;
    if (req_must_unpack(r))
        return VCL_FILTER_GUNZIP;
    return r->nranges > 0 && !rp->range_off ? VCL_FILTER_RANGE : 0;
}

/* --- kinds of values --- */

static int
vars_give_number(const struct vcl_run *run, struct vcl_value *out, int64_t i)
{
    (void)run;
    out->i = i;
    return 0;
}

/* As Varnish's: 15 digits at most, so that tools read it. */
static int
vars_give_xid(const struct vcl_run *run, struct vcl_value *out, uint64_t xid)
{
    return vars_give_number(run, out, (int64_t)(xid % POLICY_XID_MAX));
}

static int
vars_give_seconds(const struct vcl_run *run, struct vcl_value *out, double s)
{
    (void)run;
    out->r = s;
    return 0;
}

static int
vars_give_ms(const struct vcl_run *run, struct vcl_value *out, int64_t ms)
{
    return vars_give_seconds(run, out, (double)ms / 1000);
}

/* -1: it was not set. */
static int
vars_give_said_ms(const struct vcl_run *run, struct vcl_value *out, int64_t ms)
{
    /* -1 s, as in Varnish. */
    return vars_give_ms(run, out, ms == REQ_UNSAID ? -1000 : ms);
}

static int
vars_give_pointer(const struct vcl_run *run, struct vcl_value *out, const void *p)
{
    (void)run;
    out->p = p;
    return 0;
}

static int
vars_give_text(const struct vcl_run *run, struct vcl_value *out, struct slice s)
{
    (void)run;
    out->s = s.ptr;
    out->len = s.len;
    return 0;
}

/* A text for which memory was needed. */
static int
vars_give_made(const struct vcl_run *run, struct vcl_value *out, struct slice s)
{
    vars_give_text(run, out, s);
    return s.ptr == NULL ? TERR_NOMEM : 0;
}

enum {
    VARS_END_BACKEND = POLICY_ENDS /* of the connection to the backend */
};

/* Of a Unix socket 0.0.0.0. */
static int
vars_give_ip(struct vcl_run *run, struct vcl_value *out, unsigned name)
{
    const struct policy_ctx *ctx = run->ctx;
    struct policy_end end = {.port = 0};

    if (ctx->fetch == NULL)
        policy_end_of(ctx->req->x, (enum policy_end_name)name, &end);
    else if (name < POLICY_ENDS)
        end = ctx->fetch->vcl->ends[name];
    /* Until there is a connection it stays 0.0.0.0. */
    else if (ctx->fetch->conn != NULL)
        fetch_exchange(ctx->fetch)->ops->peer(fetch_exchange(ctx->fetch), end.addr, &end.port);
    out->ip = policy_ip(run, end.addr, end.port);
    return out->ip == NULL ? TERR_NOMEM : 0;
}

/* --- what the rows do --- */

int64_t
policy_ms(double seconds)
{
    /* So written, NaN falls here too: converting it to an integer would be undefined. */
    if (!(seconds > -POLICY_SECONDS_MAX))
        return -(int64_t)POLICY_SECONDS_MAX * 1000;
    if (seconds > POLICY_SECONDS_MAX)
        return (int64_t)POLICY_SECONDS_MAX * 1000;
    return (int64_t)(seconds * 1000);
}

/* 0 would wait for ever, and expire at once elsewhere. */
static int64_t
vars_ms_above_0(double seconds)
{
    int64_t ms = policy_ms(seconds);

    return ms > 0 ? ms : 1;
}

static int
vars_set_ms(int64_t *to, int64_t ms)
{
    *to = ms;
    return 0;
}

static int
vars_set_bool(bool *to, bool yes)
{
    *to = yes;
    return 0;
}

static int
vars_set_esi(struct req_policy *rp, bool yes)
{
    rp->esi_off = !yes;
    return 0;
}

static int
vars_set_gzip(struct fetch_policy *v, bool yes)
{
    v->at.gzip = yes;
    v->at.gzip_said = true;
    return 0;
}

/* They take the place of what do_gzip, do_gunzip and do_esi said before. */
static int
vars_set_beresp_filters(struct vcl_run *run, struct fetch_policy *v, struct slice list)
{
    struct slice bad;
    int filters = vcl_filters(VCL_VAR_BERESP_FILTERS, list, &bad);

    if (filters < 0)
        return policy_fail(run, "beresp.filters was set to a name that is none of gunzip, esi, "
                                "esi_gzip, gzip, testgunzip");
    v->at.esi = (filters & VCL_FILTER_ESI) != 0;
    v->at.gunzip = (filters & VCL_FILTER_GUNZIP) != 0;
    return vars_set_gzip(v, (filters & VCL_FILTER_GZIP) != 0);
}

/* What is not in the list is not done to the response. */
static int
vars_set_resp_filters(struct vcl_run *run, struct req_policy *rp, struct slice list)
{
    struct slice bad;
    int filters = vcl_filters(VCL_VAR_RESP_FILTERS, list, &bad);

    if (filters < 0)
        return policy_fail(
            run, "resp.filters was set to a name that is none of esi, gunzip, range");
    rp->gunzip_off = (filters & VCL_FILTER_GUNZIP) == 0;
    rp->range_off = (filters & VCL_FILTER_RANGE) == 0;
    return vars_set_esi(rp, (filters & VCL_FILTER_ESI) != 0);
}

/* One flag for all: a lookup without any of them reads none (req_policy_query). */
static int
vars_say_lookup(struct req_policy *rp)
{
    rp->lookup_said = true;
    return 0;
}

static int
vars_set_said_ms(struct req_policy *rp, int64_t *to, const struct vcl_value *value)
{
    rp->lookup_said = true;
    /* Below 0 takes the word back, as in Varnish. */
    return vars_set_ms(to, value->r < 0 ? REQ_UNSAID : policy_ms(value->r));
}

static int
vars_set_ttl(struct fetch_policy *v, int64_t ms)
{
    v->at.ttl_said = true;
    return vars_set_ms(&v->at.v.ttl_ms, ms);
}

static int
vars_set_backend(struct fetch_policy *v, const struct vcl_value *value)
{
    /* Borrowed: the policy holds it, and the fetch the policy. */
    v->backend = (struct director *)(uintptr_t)value->p;
    return 0;
}

static int
vars_set_req_backend(struct req *r, const struct vcl_value *value)
{
    r->backend = (struct director *)(uintptr_t)value->p;
    r->policy.hinted = true;
    return 0;
}

/* 0 would expire at once. */
static int
vars_set_pipe_connect(struct req_policy *rp, double s)
{
    /* In units of 10 ms and two bytes, for struct req is at its largest size; ten minutes at
     * most. */
    rp->connect_cs = !(s > 0.01) ? 1 : s > 600 ? 60000 : (uint16_t)(s * 100);
    return 0;
}

static int
vars_unset_pipe_connect(struct req_policy *rp)
{
    rp->connect_cs = 0;
    return 0;
}

/* Copied: a value of a run lives as long as the run. */
static int
vars_set_identity(struct req *r, struct slice identity)
{
    r->policy.identity = arena_copy(&r->x->arena, identity);
    return r->policy.identity.ptr == NULL ? TERR_NOMEM : 0;
}

/* --- the switches --- */

/* obj is the client side's, obj_stale the backend side's.
 * By the side that asks: a run of a request has no fetch, and a run of a fetch has no request,
 * so the pointers tell. */
static int
vars_get_stored(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    const struct policy_ctx *ctx = run->ctx;
    const struct req *r = ctx->req;
    const struct entry *e = r != NULL ? r->entry : ctx->fetch->old;
    const int64_t now_ms = (int64_t)ctx->clock->mono_ms;

    /* obj in vcl_deliver of a synthetic answer, obj_stale without a stored response. */
    if (e == NULL)
        return policy_fail(run, r != NULL ? "there is no object" : "there is no stale object");
    switch ((unsigned)var) {
#define X(id, kind, value) \
    case VCL_VAR_##id:     \
        return vars_give_##kind(run, out, value);
        POLICY_ENTRY_TABLE(X)
#undef X
    default:
        TUNREACHABLE("a variable without a row to read it");
    }
}

/* Each row of the table becomes a case.  What has none is read of a stored response, or is a
 * mistake of ours. */
int
policy_var_get(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    const struct policy_ctx *ctx = run->ctx;
    const struct conf_params *params = ctx->params;
    struct req *r = ctx->req;
    const struct req_policy *rp = r != NULL ? &r->policy : NULL;
    const struct fetch *f = ctx->fetch;
    const struct fetch_policy *v = f != NULL ? f->vcl : NULL;

    switch ((unsigned)var) {
#define X(id, kind, value) \
    case VCL_VAR_##id:     \
        return vars_give_##kind(run, out, value);
        POLICY_GET_TABLE(X)
#undef X
    default:
        return vars_get_stored(run, var, out);
    }
}

/* 0, or an error, which fails the run.  A value lives as long as the run: a row that keeps one
 * longer copies it. */
int
policy_var_set(struct vcl_run *run, enum vcl_var var, const struct vcl_value *value)
{
    const struct policy_ctx *ctx = run->ctx;
    struct req *r = ctx->req;
    struct req_policy *rp = r != NULL ? &r->policy : NULL;
    struct fetch *f = ctx->fetch;
    struct fetch_policy *v = f != NULL ? f->vcl : NULL;

    switch ((unsigned)var) {
#define X(id, action)  \
    case VCL_VAR_##id: \
        return action;
        POLICY_SET_TABLE(X)
#undef X
    default:
        TUNREACHABLE("a variable without a row to set it");
    }
}

int
policy_var_unset(struct vcl_run *run, enum vcl_var var)
{
    const struct policy_ctx *ctx = run->ctx;
    struct req_policy *rp = ctx->req != NULL ? &ctx->req->policy : NULL;
    struct fetch *f = ctx->fetch;
    struct fetch_policy *v = f != NULL ? f->vcl : NULL;

    switch ((unsigned)var) {
#define X(id, action)  \
    case VCL_VAR_##id: \
        return action;
        POLICY_UNSET_TABLE(X)
#undef X
    default:
        TUNREACHABLE("a variable without a row to unset it");
    }
}

/* A snapshot of atomics: workers charge meanwhile, so two reads in one sub may differ. */
int
policy_get_storage(
    struct vcl_run *run, enum vcl_var var, const void *storage, struct vcl_value *out)
{
    struct storage_stats stats;

    storage_get_stats(storage, &stats);
    if (var == VCL_VAR_STORAGE_FREE_SPACE)
        return vars_give_number(
            /* What is forced may exceed the size for a moment. */
            run, out, (int64_t)(stats.size > stats.charged ? stats.size - stats.charged : 0));
    return vars_give_number(
        run, out, var == VCL_VAR_STORAGE_USED_SPACE ? (int64_t)stats.charged : 1 /* happy */);
}
