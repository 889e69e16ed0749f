/* fetch_vars.c -- the request to a backend and its response as a policy sees and changes them. */
#include "daemon/base/terr.h"
#include "daemon/http/block.h"
#include "daemon/http/token.h"
#include "daemon/policy/msg_view.h"
#include "daemon/proxy/fetch_policy.h"

static struct fetch *
fetch_of(const struct vcl_run *run)
{
    return ((const struct policy_ctx *)run->ctx)->fetch;
}

int
fetch_edit_beresp(struct fetch *f)
{
    struct fetch_policy *v = f->vcl;
    struct message_edit *e;
    int err;

    if (v->beresp != NULL)
        return 0;
    e = arena_alloc(&f->arena, sizeof(*e));
    if (e == NULL)
        return TERR_NOMEM;
    err = message_edit_init(e, v->came, &f->arena, LIMIT_FIELDS);
    if (err == 0)
        v->beresp = e;
    return err;
}

static int
fetch_edit_of(struct fetch *f, enum vcl_http http, struct message_edit **out)
{
    int err;

    *out = f->vcl->bereq;
    if (http == VCL_HTTP_BEREQ)
        return 0;
    tassert(http == VCL_HTTP_BERESP);
    err = fetch_edit_beresp(f);
    *out = f->vcl->beresp;
    f->vcl->touched = err == 0;
    return err;
}

static int
fetch_edit_failed(struct vcl_run *run, int err)
{
    if (err == TERR_HEADTOOBIG)
        run->why = "too many or too large header fields (256, 64 KiB)";
    return err;
}

static int
fetch_set_url(struct vcl_run *run, struct slice url)
{
    if (url.len == 0 || !http_target_bytes_ok(url) || (url.ptr[0] != '/' && url.ptr[0] != '*'))
        return policy_fail(run, "bereq.url must begin with / and have no space or control bytes");
    return fetch_edit_failed(run, message_edit_path(fetch_of(run)->vcl->bereq, url));
}

static int
fetch_set_method(struct vcl_run *run, struct slice method)
{
    if (!http_token_ok(method))
        return policy_fail(run, "bereq.method must be a token (RFC 9110 9.1)");
    if (message_edit_method(fetch_of(run)->vcl->bereq, method) != 0)
        return fetch_edit_failed(run, TERR_HEADTOOBIG);
    run->method = fetch_of(run)->vcl->bereq->head.method;
    return 0;
}

static int
fetch_set_status(struct vcl_run *run, int64_t status)
{
    struct fetch *f = fetch_of(run);
    struct message_edit *e;
    int err;

    if (status < 200 || status > 65535 || status % 1000 < 200)
        return policy_fail(
            run, "beresp.status must be 200 to 65535, its last three digits from 200");
    err = fetch_edit_of(f, VCL_HTTP_BERESP, &e);
    if (err != 0)
        return err;
    e->head.status = (uint16_t)(status % 1000);
    f->vcl->status_prefix = (uint8_t)(status / 1000);
    return message_edit_reason(e, slice_str(http_reason((unsigned)status % 1000)));
}

static int
fetch_set_reason(struct vcl_run *run, struct slice reason)
{
    struct message_edit *e;
    int err;

    if (!http_value_ok(reason))
        return policy_fail(run, "beresp.reason has control bytes");
    err = fetch_edit_of(fetch_of(run), VCL_HTTP_BERESP, &e);
    return err != 0 ? err : fetch_edit_failed(run, message_edit_reason(e, reason));
}

/* beresp.uncacheable: once true it stays so. */
static void
fetch_set_uncacheable(struct fetch_policy *v, bool yes)
{
    v->uncacheable = v->uncacheable || yes;
}

static int64_t
fetch_ms_above_0(double seconds)
{
    int64_t ms = policy_ms(seconds);

    return ms > 0 ? ms : 1; /* 0 would wait for ever, and expire at once elsewhere */
}

static int
fetch_set(struct vcl_run *run, enum vcl_var var, const struct vcl_value *value)
{
    struct fetch *f = fetch_of(run);
    struct fetch_policy *v = f->vcl;

    switch ((unsigned)var) {
    case VCL_VAR_BEREQ_URL:
        return fetch_set_url(run, policy_string(value));
    case VCL_VAR_BEREQ_METHOD:
        return fetch_set_method(run, policy_string(value));
    case VCL_VAR_BEREQ_BACKEND:
        v->backend = (struct director *)(uintptr_t)value->p;
        return 0;
    case VCL_VAR_BEREQ_CONNECT_TIMEOUT:
        v->connect_ms = fetch_ms_above_0(value->r);
        return 0;
    case VCL_VAR_BEREQ_FIRST_BYTE_TIMEOUT:
        v->first_byte_ms = fetch_ms_above_0(value->r);
        return 0;
    case VCL_VAR_BEREQ_BETWEEN_BYTES_TIMEOUT:
        v->between_bytes_ms = fetch_ms_above_0(value->r);
        return 0;
    case VCL_VAR_BEREQ_RETRY_CONNECT:
        v->retry_connect = value->i != 0;
        return 0;
    case VCL_VAR_BERESP_TRANSIT_BUFFER:
        v->transit_bytes = value->i < 0 ? 0 : value->i;
        return 0;
    case VCL_VAR_BERESP_STATUS:
        return fetch_set_status(run, value->i);
    case VCL_VAR_BERESP_REASON:
        return fetch_set_reason(run, policy_string(value));
    case VCL_VAR_BERESP_TTL:
        v->v.ttl_ms = policy_ms(value->r);
        v->ttl_said = true;
        return 0;
    case VCL_VAR_BERESP_GRACE:
        v->grace_ms = policy_ms(value->r);
        return 0;
    case VCL_VAR_BERESP_KEEP:
        v->keep_ms = policy_ms(value->r);
        return 0;
    case VCL_VAR_BERESP_UNCACHEABLE:
        fetch_set_uncacheable(v, value->i != 0);
        return 0;
    case VCL_VAR_BERESP_DO_STREAM:
        v->whole = value->i == 0;
        return 0;
    default:
        return 0; /* accepted, and means nothing here: the compiler has said so */
    }
}

static int
fetch_unset(struct vcl_run *run, enum vcl_var var)
{
    struct fetch_policy *v = fetch_of(run)->vcl;

    switch ((unsigned)var) {
    case VCL_VAR_BEREQ_BODY:
        v->no_body = true;
        break;
    case VCL_VAR_BEREQ_CONNECT_TIMEOUT:
        v->connect_ms = FETCH_UNSAID;
        break;
    case VCL_VAR_BEREQ_FIRST_BYTE_TIMEOUT:
        v->first_byte_ms = FETCH_UNSAID;
        break;
    case VCL_VAR_BEREQ_BETWEEN_BYTES_TIMEOUT:
        v->between_bytes_ms = FETCH_UNSAID;
        break;
    default:
        break;
    }
    return 0;
}

enum {
    FETCH_BODY_PARTS_MAX = 4096
};

int
fetch_set_body(
    struct vcl_run *run, struct fetch *f, const struct slice *parts, unsigned n, bool append)
{
    struct fetch_policy *v = f->vcl;

    if (!append)
        v->nbody = 0;
    if (v->nbody + n > FETCH_BODY_PARTS_MAX)
        return policy_fail(run, "beresp.body has too many parts");
    if (v->nbody + n > v->body_room) {
        unsigned room = 2 * (v->nbody + n) + 8;
        struct slice *list = arena_alloc(&f->arena, room * sizeof(*list));

        if (list == NULL)
            return TERR_NOMEM;
        if (v->nbody > 0)
            memcpy(list, v->body, v->nbody * sizeof(*list));
        v->body = list;
        v->body_room = room;
    }
    if (n > 0)
        memcpy(v->body + v->nbody, parts, n * sizeof(*parts));
    v->nbody += n;
    return 0;
}

const struct vcl_host policy_fetch_host = {
    .get = policy_var_get,
    .set = fetch_set,
    .unset = fetch_unset,
    .get_storage = policy_get_storage,
    .field = msg_view_field,
    .set_field = msg_view_set_field,
    .unset_field = msg_view_unset_field,
    .nth_field = msg_view_nth_field,
    .set_body = policy_set_body,
    .ban = policy_ban,
    .call = policy_call,
    .method = policy_method,
    .resolve = policy_resolve_now,
    .cookies = policy_cookies,
    .backend_name = policy_backend_name,
    .storage_name = policy_storage_name,
};
