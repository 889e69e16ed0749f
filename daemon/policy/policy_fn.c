/* policy_fn.c -- the language's functions, and what a run of a request or a fetch asks of us. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/cache/invalidation.h"
#include "daemon/log/elog.h"
#include "daemon/policy/msg_view.h"
#include "daemon/proxy/fetch_policy.h"
#include "daemon/proxy/req.h"

enum {
    PURGE_WAIT_MAX_MS = 600000, /* as of timeout_ms of the admin API */
};

/* The request's, also in its fetch, so that log records of both are found together; 0: vcl_init. */
uint64_t
policy_ctx_xid(const struct policy_ctx *ctx)
{
    if (ctx->req != NULL)
        return ctx->req->x->xid;
    return ctx->fetch != NULL ? ctx->fetch->vcl->xid : 0;
}

static struct policy_ctx *
policy_ctx_of(const struct vcl_run *run)
{
    tassert_slow(run->ctx != NULL);
    return run->ctx;
}

/* NULL is an unset text, as getenv(3) has it. */
static void
policy_give_string(struct vcl_value *out, const char *text)
{
    out->s = text;
    out->len = text == NULL ? 0 : strlen(text);
}

/* Parsed cookies stay with the request or fetch, from one sub to the next. */
struct vcl_cookies **
policy_cookies(struct vcl_run *r)
{
    struct policy_ctx *ctx = policy_ctx_of(r);

    if (ctx->req != NULL)
        return &ctx->req->policy.cookies;
    return ctx->fetch != NULL ? &ctx->fetch->vcl->cookies : &ctx->cookies;
}

struct slice
policy_backend_name(const void *backend)
{
    return slice_str(director_name(backend));
}

/* There is one store. */
struct slice
policy_storage_name(const void *storage)
{
    (void)storage;
    return SLICE_LIT("main");
}

int
policy_ban(struct vcl_run *r, struct slice expression, bool *ok)
{
    struct policy_ctx *ctx = policy_ctx_of(r);
    const struct invalidation inv = {.kind = INVALIDATION_BAN, .text = expression};
    struct invalidation_result done = {.wait = NULL};
    struct slice copy;

    *ctx->ban_error = "there is no cache";
    *ok = false;
    if (ctx->cache == NULL)
        return 0;
    *ctx->ban_error = "";
    /* `why` asks what would happen: nothing is banned. */
    *ok = ctx->explains;
    if (ctx->explains)
        return 0;
    if (policy_is_early(ctx))
        return policy_fail(r, "a ban in early data");
    *ok = invalidation_make(ctx->cache, &inv, ctx->clock, &done) == 0;
    if (*ok && ctx->req != NULL)
        req_note_purge(ctx->req, &done);
    if (*ok)
        return 0;
    /* std.ban_error() may be called in another sub of the task: its arena is the same one. */
    copy = arena_copy(r->arena, slice_str(done.why));
    if (copy.ptr == NULL)
        return TERR_NOMEM;
    *ctx->ban_error = copy.ptr;
    if (ctx->proxy != NULL && shmlog_readers(ctx->proxy->log)) {
        shmlog_begin(ctx->proxy->log, policy_ctx_xid(ctx), SHMLOG_KIND_REQ, 0);
        shmlog_printf(ctx->proxy->log, SHMLOG_Error, "ban(): %s", done.why);
        shmlog_end(ctx->proxy->log);
    }
    return 0;
}

/* std.log and the like.  vcl_init has no request, and its text goes to the error log. */
static void
policy_say(struct vcl_run *r, enum shmlog_tag tag, struct slice text)
{
    struct policy_ctx *ctx = policy_ctx_of(r);

    if (ctx->proxy == NULL) {
        elog(ELOG_INFO, "policy %s: %.*s", ctx->policy->name, (int)text.len, text.ptr);
        return;
    }
    /* Nothing is formatted for a log that no program reads. */
    if (!shmlog_readers(ctx->proxy->log))
        return;
    shmlog_begin(ctx->proxy->log, policy_ctx_xid(ctx),
        ctx->fetch != NULL ? SHMLOG_KIND_FETCH : SHMLOG_KIND_REQ, 0);
    shmlog_text(ctx->proxy->log, tag, text);
    shmlog_end(ctx->proxy->log);
}

void
policy_note(struct vcl_run *r, const char *function, struct slice what, const char *why)
{
    char text[512];
    int n = snprintf(text, sizeof(text), "%s(%.*s): %s", function, (int)what.len, what.ptr, why);

    if (n > 0)
        policy_say(r, SHMLOG_Error,
            /* snprintf(3) says how long it would have been. */
            slice_of(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1));
}

/* Microseconds since the request, or the fetch, began.
 * From the loop's clock, which stands within a turn: subs that run in one turn have one time. */
static void
policy_timestamp(struct vcl_run *r, struct slice label)
{
    struct policy_ctx *ctx = policy_ctx_of(r);
    struct proxy *p = ctx->proxy;

    if (p == NULL || !shmlog_readers(p->log))
        return;
    tassert(ctx->req != NULL || ctx->fetch != NULL); /* with a proxy there is one of them */
    shmlog_begin(
        p->log, policy_ctx_xid(ctx), ctx->fetch != NULL ? SHMLOG_KIND_FETCH : SHMLOG_KIND_REQ, 0);
    shmlog_event(p->log, SHMLOG_Timestamp, label,
        p->loop->clock.mono_us - (ctx->req != NULL ? ctx->req->x->start_us : ctx->fetch->start_us));
    shmlog_end(p->log);
}

static int
policy_getenv(struct vcl_run *r, struct slice name, struct vcl_value *out)
{
    /* With a NUL behind it, which a text of the language has not. */
    struct slice copy = arena_copy(r->arena, name);

    if (copy.ptr == NULL)
        return TERR_NOMEM;
    policy_give_string(out, getenv(copy.ptr));
    return 0;
}

/* Of a director: whether any below it is well. */
static int
policy_healthy(struct vcl_run *r, const void *backend, struct vcl_value *out)
{
    (void)r;
    out->i = backend != NULL && director_healthy(backend, NULL);
    return 0;
}

/* What was looked up: the head may be another since.  None when no log asks for it. */
static struct slice
policy_looked_up(const struct req *r)
{
    return r->policy.key; /* made by vcl_hash, or kept (req_policy_keep_key) */
}

/* What is done stays done when the run fails later: a purge is no part of the request. */
static int
policy_purge(struct vcl_run *r, const struct vcl_value *args, bool soft, struct vcl_value *out)
{
    struct policy_ctx *ctx = policy_ctx_of(r);
    struct invalidation inv = {.kind = INVALIDATION_KEY, .soft = soft};
    struct invalidation_result done = {.wait = NULL};

    tassert(ctx->req != NULL); /* the checker allows it in vcl_hit and vcl_miss alone */
    if (policy_is_early(ctx))
        return policy_fail(r, "a purge in early data");
    out->i = 0;
    if (ctx->explains)
        return 0;
    inv.key = &ctx->req->key;
    inv.text = policy_looked_up(ctx->req);
    if (soft) {
        inv.ttl_ms = policy_ms(args[0].r);
        /* Below 0: grace or keep stay as they were. */
        inv.grace_ms = args[1].r < 0 ? -1 : policy_ms(args[1].r);
        inv.keep_ms = args[2].r < 0 ? -1 : policy_ms(args[2].r);
    }
    invalidation_make(ctx->proxy->cache, &inv, ctx->clock, &done); /* a key is never refused */
    req_note_purge(ctx->req, &done);
    out->i = done.how_many;
    return 0;
}

static int
policy_purge_wait(struct policy_ctx *ctx, double timeout)
{
    int64_t ms = policy_ms(timeout);

    if (ctx->req == NULL || ctx->explains)
        return 0;
    if (timeout > 0 && ms < 1)
        ms = 1;
    return req_wait_for_purge(ctx->req, ms < 0                   ? 0
                                        : ms < PURGE_WAIT_MAX_MS ? ms
                                                                 : PURGE_WAIT_MAX_MS);
}

static double
policy_wall_s(void)
{
    struct timespec ts;

    /* std.now() is the one that moves within a run; `now` stands. */
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Not to the shared-memory log: an operator is meant, who reads the error log.  log_rate bounds
 * it. */
static int
policy_syslog(struct vcl_run *r, int64_t priority, struct slice text)
{
    /* syslog's numbers: 0 to 3 are errors, 4 is a warning. */
    enum elog_level level = priority <= 3 ? ELOG_ERROR : priority == 4 ? ELOG_WARN : ELOG_INFO;

    if (policy_ctx_of(r)->policy != NULL && !policy_ctx_of(r)->explains)
        elog(level, "policy %s: %.*s", policy_ctx_of(r)->policy->name, (int)text.len, text.ptr);
    return 0;
}

static int
policy_rollback(struct vcl_run *r, enum vcl_http http)
{
    struct policy_ctx *ctx = policy_ctx_of(r);

    if (http == VCL_HTTP_BEREQ && ctx->fetch != NULL) {
        int err = fetch_policy_rollback(ctx->fetch);

        /* The run's copy: conditions behind this line compare with the method that is sent now. */
        r->method = ctx->fetch->vcl->bereq->head.method;
        return err;
    }
    if (http == VCL_HTTP_BEREQ)
        return 0; /* vcl_pipe: it is the request still */
    tassert(http == VCL_HTTP_REQ);
    tassert(ctx->req != NULL);
    /* The edit stays in the arena: a later change makes a new one. */
    ctx->req->policy.req = NULL;
    ctx->req->head = &ctx->req->x->head;
    req_show_head(ctx->req, r);
    return 0;
}

/* tarn.negative(d); nothing and less takes the word back. */
static int
policy_negative(struct fetch *f, double d)
{
    int64_t ms = policy_ms(d);

    f->vcl->at.absent_said_ms = ms <= 0 ? 0 : ms < NEGATIVE_TTL_MAX_MS ? ms : NEGATIVE_TTL_MAX_MS;
    return 0;
}

int
policy_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out)
{
    struct policy_ctx *ctx = policy_ctx_of(r);
    bool ok;
    int err;

    (void)present;
    /* The checker allows each function in some subs only, so ctx has the side that it works on. */
    switch (fn) {
    case VCL_FN_STD_NOW:
        out->r = policy_wall_s();
        return 0;
    case VCL_FN_STD_GETENV:
        return policy_getenv(r, policy_string(&args[0]), out);
    case VCL_FN_STD_FILE_EXISTS:
        return policy_file_exists(ctx->policy, r, policy_string(&args[0]), out);
    case VCL_FN_STD_FILEREAD:
        return policy_file_read(ctx->policy, r, policy_string(&args[0]), out);
    case VCL_FN_STD_LOG:
        policy_say(r, SHMLOG_VCL_Log, policy_string(&args[0]));
        return 0;
    case VCL_FN_STD_TIMESTAMP:
        policy_timestamp(r, policy_string(&args[0]));
        return 0;
    /* The facility, in the bits above, has no meaning for the error log. */
    case VCL_FN_STD_SYSLOG:
        return policy_syslog(r, args[0].i & 7, policy_string(&args[1]));
    case VCL_FN_STD_HEALTHY:
        return policy_healthy(r, args[0].p, out);
    case VCL_FN_STD_ROLLBACK:
        return policy_rollback(r, (enum vcl_http)args[0].i);
    case VCL_FN_STD_BAN:
        err = policy_ban(r, policy_string(&args[0]), &ok);
        out->i = ok;
        return err;
    case VCL_FN_STD_BAN_ERROR:
        policy_give_string(out, *ctx->ban_error);
        return 0;
    case VCL_FN_STD_CACHE_REQ_BODY:
        return req_keep_body(ctx->req, args[0].i, out);
    case VCL_FN_STD_RFC_TTL:
        out->r = fetch_policy_rfc_ttl(ctx->fetch);
        return 0;
    case VCL_FN_PURGE_HARD:
        return policy_purge(r, args, false, out);
    case VCL_FN_PURGE_SOFT:
        return policy_purge(r, args, true, out);
    case VCL_FN_TARN_NEGATIVE:
        return policy_negative(ctx->fetch, args[0].r);
    case VCL_FN_TARN_TAG:
        return policy_tag(r, args);
    case VCL_FN_TARN_PURGE_TAG:
        return policy_purge_tag(r, args, out);
    case VCL_FN_TARN_PURGE_WAIT:
        return policy_purge_wait(ctx, args[0].r);
    case VCL_FN_TARN_RATE_LIMIT:
        return policy_rate_limit(r, args, out);
    case VCL_FN_TARN_TABLE_CONTAINS:
        return policy_table_contains(r, args, out);
    case VCL_FN_TARN_TABLE_LOOKUP:
        return policy_table_lookup(r, args, out);
    case VCL_FN_DIRECTORS_LOOKUP:
        out->p = policy_lookup_backend(ctx->policy, policy_string(&args[0]));
        return 0;
    case VCL_FN_STD_LATE_100:
    case VCL_FN_STD_SET_IP_TOS:
        return 0; /* accepted; see vcl-lite/README.md */
    default:
        TUNREACHABLE("a function without a host side");
    }
}

static uint64_t
policy_hash(struct slice s)
{
    return hash_plain(s.ptr, s.len);
}

/* shard: what distinguishes the request. */
static uint64_t
policy_shard_key(struct vcl_run *r, const struct vcl_value *args, unsigned present)
{
    struct policy_ctx *ctx = policy_ctx_of(r);
    /* In a fetch the request as it came to it: bereq may have been changed for the backend. */
    const struct http_message *h = ctx->fetch != NULL ? &ctx->fetch->req : ctx->req->head;

    switch ((present & 1) != 0 ? args[0].i : 0) {
    case 1: /* URL */
        return policy_hash(http_path(h));
    case 2: /* KEY */
        return (present & 2) != 0 ? (uint64_t)args[1].i : 0;
    /* As the cache has it: requests for one object go to one backend. */
    default: /* HASH */
        return ctx->fetch != NULL ? policy_hash(ctx->fetch->key_text)
                                  : policy_hash(req_key_text(ctx->req));
    }
}

/* vmod_directors' words, in the order in which the checker numbers them. */
static enum director_health
policy_shard_health(const struct vcl_value *args, unsigned present)
{
    static const enum director_health words[] = {DIRECTOR_CHOSEN, DIRECTOR_IGNORE, DIRECTOR_ALL};

    tassert((present & 32) == 0 || (args[5].i >= 0 && args[5].i < (int64_t)ARRAY_LEN(words)));
    return (present & 32) != 0 ? words[args[5].i] : DIRECTOR_CHOSEN;
}

int
policy_method(struct vcl_run *r, void *object, unsigned method, const struct vcl_value *args,
    unsigned present, struct vcl_value *out)
{
    struct director *d = object;
    struct director_ask ask = {.hash_said = true,
        /* `why` must not move the turn of a round robin. */
        .peeks = policy_ctx_of(r)->explains,
        .random = r->random(r),
        .now_s = r->now_s};

    switch (method) {
    case VCL_METHOD_PICK:
        out->p = d; /* chosen when the request is sent */
        return 0;
    case VCL_METHOD_PICK_HASH:
        ask.hash = policy_hash(policy_string(&args[0]));
        break;
    case VCL_METHOD_PICK_SHARD:
        ask.hash = policy_shard_key(r, args, present);
        ask.alternate = (present & 4) != 0 && args[2].i > 0 ? (unsigned)args[2].i : 0;
        ask.warmup_said = (present & 8) != 0 && args[3].r >= 0;
        ask.warmup = ask.warmup_said ? args[3].r : 0;
        ask.no_rampup = (present & 16) != 0 && args[4].i == 0;
        ask.health = policy_shard_health(args, present);
        break;
    default:
        TUNREACHABLE("a method of vcl_init alone");
    }
    out->p = director_resolve(d, &ask);
    if (out->p == NULL)
        out->p = d; /* none is healthy: asking it says so */
    return 0;
}

const void *
policy_resolve_now(struct vcl_run *r, const void *backend)
{
    struct director_ask ask = {
        .peeks = policy_ctx_of(r)->explains, .random = r->random(r), .now_s = r->now_s};

    return director_resolve((struct director *)(uintptr_t)backend, &ask);
}

static int
policy_set_body(
    struct vcl_run *run, enum vcl_var var, const struct slice *parts, unsigned n, bool append)
{
    struct policy_ctx *ctx = policy_ctx_of(run);

    tassert(var == VCL_VAR_RESP_BODY || var == VCL_VAR_BERESP_BODY);
    return var == VCL_VAR_RESP_BODY ? req_set_body(run, ctx->req, parts, n, append)
                                    : fetch_set_body(run, ctx->fetch, parts, n, append);
}

static int
policy_hash_data(struct vcl_run *run, struct slice data)
{
    /* vcl_hash is of the client's side alone. */
    return req_hash_data(run, policy_ctx_of(run)->req, data);
}

const struct vcl_host policy_host = {
    .get = policy_var_get,
    .set = policy_var_set,
    .unset = policy_var_unset,
    .get_storage = policy_get_storage,
    .field = msg_view_field,
    .set_field = msg_view_set_field,
    .unset_field = msg_view_unset_field,
    .nth_field = msg_view_nth_field,
    .set_body = policy_set_body,
    .hash_data = policy_hash_data,
    .ban = policy_ban,
    .call = policy_call,
    .method = policy_method,
    .resolve = policy_resolve_now,
    .cookies = policy_cookies,
    .backend_name = policy_backend_name,
    .storage_name = policy_storage_name,
};
