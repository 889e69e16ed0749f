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

static const struct http_message *
fetch_beresp(const struct fetch *f)
{
    return f->vcl->beresp != NULL ? &f->vcl->beresp->head : f->vcl->came;
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

static void
fetch_give_string(struct vcl_value *out, struct slice s)
{
    out->s = s.ptr;
    out->len = s.len;
}

static struct slice
fetch_proto(const struct http_message *h)
{
    return h->version_minor == 0 ? SLICE_LIT("HTTP/1.0") : SLICE_LIT("HTTP/1.1");
}

static double
fetch_timeout_s(const struct fetch *f, int64_t said_ms, size_t member, int64_t param_ms)
{
    int64_t ms = param_ms;

    if (said_ms != FETCH_UNSAID)
        ms = said_ms;
    else if (f->conf != NULL)
        memcpy(&ms, (const char *)f->conf + member, sizeof(ms));
    return (double)ms / 1000;
}

static int
fetch_get_bereq(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    struct fetch *f = fetch_of(run);
    struct fetch_policy *v = f->vcl;
    const struct http_message *h = &v->bereq->head;
    const struct conf_params *params = &f->proxy->params;

    switch ((unsigned)var) {
    case VCL_VAR_BEREQ_METHOD:
        fetch_give_string(out, http_slice(h, h->method_off, h->method_len));
        return 0;
    case VCL_VAR_BEREQ_URL:
        fetch_give_string(out, http_slice(h, h->path_off, h->path_len));
        return 0;
    case VCL_VAR_BEREQ_PROTO:
        fetch_give_string(out, SLICE_LIT("HTTP/1.1"));
        return 0;
    case VCL_VAR_BEREQ_BACKEND:
        out->p = v->backend;
        return 0;
    case VCL_VAR_BEREQ_XID:
        out->i = (int64_t)(v->xid % POLICY_XID_MAX);
        return 0;
    case VCL_VAR_BEREQ_RETRIES:
        out->i = v->retries;
        return 0;
    case VCL_VAR_BEREQ_UNCACHEABLE:
        out->i = f->kind != FETCH_FOR_CACHE;
        return 0;
    case VCL_VAR_BEREQ_IS_BGFETCH:
        out->i = v->bgfetch;
        return 0;
    case VCL_VAR_BEREQ_IS_HITMISS:
        out->i = v->hitmiss;
        return 0;
    case VCL_VAR_BEREQ_IS_HITPASS:
        out->i = v->hitpass;
        return 0;
    case VCL_VAR_BEREQ_TIME:
        out->r = (double)f->sent_ms / 1000;
        return 0;
    case VCL_VAR_BEREQ_CONNECT_TIMEOUT:
        out->r = fetch_timeout_s(f, v->connect_ms, offsetof(struct conf_backend, connect_timeout),
            params->connect_timeout);
        return 0;
    case VCL_VAR_BEREQ_FIRST_BYTE_TIMEOUT:
        out->r = fetch_timeout_s(f, v->first_byte_ms,
            offsetof(struct conf_backend, first_byte_timeout), params->first_byte_timeout);
        return 0;
    case VCL_VAR_BEREQ_BETWEEN_BYTES_TIMEOUT:
        out->r = fetch_timeout_s(f, v->between_bytes_ms,
            offsetof(struct conf_backend, between_bytes_timeout), params->between_bytes_timeout);
        return 0;
    case VCL_VAR_BEREQ_RETRY_CONNECT:
        out->i = v->retry_connect;
        return 0;
    case VCL_VAR_BEREQ_TRACE:
        out->i = 0;
        return 0;
    default:
        return TERR_NOTFOUND;
    }
}

static int
fetch_get_backend(struct vcl_run *run, bool name, struct vcl_value *out)
{
    struct fetch *f = fetch_of(run);
    struct director *d = f->backend != NULL ? backend_director(f->backend) : f->vcl->backend;

    if (name)
        fetch_give_string(out, d == NULL ? slice_of(NULL, 0) : slice_str(director_name(d)));
    else
        out->p = d;
    return 0;
}

/* Who answered; of a Unix socket 0.0.0.0, as of client.ip. */
static int
fetch_get_backend_ip(struct vcl_run *run, struct vcl_value *out)
{
    struct fetch *f = fetch_of(run);
    uint8_t addr[16] = {0};
    uint16_t port = 0;

    if (f->conn != NULL)
        fetch_exchange(f)->ops->peer(fetch_exchange(f), addr, &port);
    out->ip = policy_ip(run, addr, port);
    return out->ip == NULL ? TERR_NOMEM : 0;
}

static int
fetch_get_beresp(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    struct fetch *f = fetch_of(run);
    struct fetch_policy *v = f->vcl;
    const struct http_message *h = fetch_beresp(f);

    switch ((unsigned)var) {
    case VCL_VAR_BERESP_STATUS:
        out->i = v->status_prefix * 1000 + h->status;
        return 0;
    case VCL_VAR_BERESP_REASON:
        fetch_give_string(out, http_slice(h, h->reason_off, h->reason_len));
        return 0;
    case VCL_VAR_BERESP_PROTO:
        fetch_give_string(out, fetch_proto(h));
        return 0;
    case VCL_VAR_BERESP_TTL:
        out->r = (double)v->v.ttl_ms / 1000;
        return 0;
    case VCL_VAR_BERESP_GRACE:
        out->r = (double)v->grace_ms / 1000;
        return 0;
    case VCL_VAR_BERESP_KEEP:
        out->r = (double)v->keep_ms / 1000;
        return 0;
    case VCL_VAR_BERESP_AGE:
        out->r = (double)(v->v.age_ms / 1000); /* whole seconds, as Age */
        return 0;
    case VCL_VAR_BERESP_TIME:
        out->r = (double)f->received_ms / 1000;
        return 0;
    case VCL_VAR_BERESP_UNCACHEABLE:
        out->i = v->uncacheable;
        return 0;
    case VCL_VAR_BERESP_DO_STREAM:
        out->i = !v->whole;
        return 0;
    case VCL_VAR_BERESP_WAS_304:
        out->i = v->was_304;
        return 0;
    case VCL_VAR_BERESP_BACKEND:
        return fetch_get_backend(run, false, out);
    case VCL_VAR_BERESP_BACKEND_NAME:
        return fetch_get_backend(run, true, out);
    case VCL_VAR_BERESP_BACKEND_IP:
        return fetch_get_backend_ip(run, out);
    case VCL_VAR_BERESP_STORAGE:
        out->p = f->proxy->storage;
        return 0;
    case VCL_VAR_BERESP_TRANSIT_BUFFER:
        out->i =
            v->transit_bytes == FETCH_UNSAID ? f->proxy->params.transit_buffer : v->transit_bytes;
        return 0;
    default:
        return TERR_NOTFOUND;
    }
}

static int
fetch_get_stale(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    struct fetch *f = fetch_of(run);
    const struct entry *e = f->old;
    int64_t age_ms;

    if (e == NULL)
        return policy_fail(run, "there is no stale object");
    age_ms = (int64_t)f->proxy->loop->clock.mono_ms - e->received_ms;
    switch ((unsigned)var) {
    case VCL_VAR_OBJ_STALE_AGE:
        out->r = (double)(entry_first_age_ms(e) + age_ms) / 1000;
        return 0;
    case VCL_VAR_OBJ_STALE_TTL:
        out->r = (double)entry_ttl_left_ms(e, e->received_ms + age_ms) / 1000;
        return 0;
    case VCL_VAR_OBJ_STALE_GRACE:
        out->r = (double)entry_grace_ms(e) / 1000;
        return 0;
    case VCL_VAR_OBJ_STALE_KEEP:
        out->r = (double)entry_keep_ms(e) / 1000;
        return 0;
    case VCL_VAR_OBJ_STALE_HITS:
        out->i = (int64_t)entry_hits(e);
        return 0;
    case VCL_VAR_OBJ_STALE_STATUS: /* three digits: builtin.vcl asks whether it is 200 */
        out->i = entry_status(e);
        return 0;
    case VCL_VAR_OBJ_STALE_REASON:
        fetch_give_string(out, http_slice(&f->stored, f->stored.reason_off, f->stored.reason_len));
        return 0;
    case VCL_VAR_OBJ_STALE_PROTO:
        fetch_give_string(out, SLICE_LIT("HTTP/1.1"));
        return 0;
    case VCL_VAR_OBJ_STALE_STORAGE:
        out->p = f->proxy->storage;
        return 0;
    case VCL_VAR_OBJ_STALE_TIME:
        out->r = run->now_s - (double)(entry_first_age_ms(e) + age_ms) / 1000;
        return 0;
    case VCL_VAR_OBJ_STALE_IS_VALID:
        out->i = 1;
        return 0;
    case VCL_VAR_OBJ_STALE_CAN_ESI: /* nothing is searched for ESI */
    case VCL_VAR_OBJ_STALE_UNCACHEABLE:
        out->i = 0;
        return 0;
    default:
        return TERR_NOTFOUND;
    }
}

static int
fetch_get_conn(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    struct fetch_policy *v = fetch_of(run)->vcl;

    switch ((unsigned)var) {
    case VCL_VAR_CLIENT_IP:
        out->ip = policy_ip(run, v->client_addr, v->client_port);
        return out->ip == NULL ? TERR_NOMEM : 0;
    case VCL_VAR_REMOTE_IP:
        out->ip = policy_ip(run, v->forwarded.remote_addr, v->forwarded.remote_port);
        return out->ip == NULL ? TERR_NOMEM : 0;
    case VCL_VAR_SERVER_IP:
        out->ip = policy_ip(run, v->forwarded.server_addr, v->forwarded.server_port);
        return out->ip == NULL ? TERR_NOMEM : 0;
    case VCL_VAR_LOCAL_IP:
        out->ip = policy_ip(run, v->local_addr, v->local_port);
        return out->ip == NULL ? TERR_NOMEM : 0;
    case VCL_VAR_CLIENT_IDENTITY:
        fetch_give_string(out, v->identity);
        return 0;
    case VCL_VAR_LOCAL_ENDPOINT:
        fetch_give_string(out, v->endpoint);
        return 0;
    case VCL_VAR_LOCAL_SOCKET:
        fetch_give_string(out, v->socket);
        return 0;
    case VCL_VAR_SESS_XID:
        out->i = (int64_t)(v->session % POLICY_XID_MAX);
        return 0;
    default:
        return TERR_NOTFOUND;
    }
}

static int
fetch_get(struct vcl_run *run, enum vcl_var var, struct vcl_value *out)
{
    int err = fetch_get_bereq(run, var, out);

    if (err == TERR_NOTFOUND)
        err = fetch_get_beresp(run, var, out);
    if (err == TERR_NOTFOUND)
        err = policy_get_common(run, var, out);
    if (err == TERR_NOTFOUND)
        err = fetch_get_conn(run, var, out);
    if (err == TERR_NOTFOUND && strncmp(vcl_var_name(var), "obj_stale.", 10) == 0)
        err = fetch_get_stale(run, var, out);
    return err == TERR_NOTFOUND ? policy_fail(run, "Tarn has no value for this variable") : err;
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

static int
fetch_set_body(
    struct vcl_run *run, enum vcl_var var, const struct slice *parts, unsigned n, bool append)
{
    struct fetch *f = fetch_of(run);
    struct fetch_policy *v = f->vcl;

    tassert(var == VCL_VAR_BERESP_BODY);
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
    .get = fetch_get,
    .set = fetch_set,
    .unset = fetch_unset,
    .get_storage = policy_get_storage,
    .field = msg_view_field,
    .set_field = msg_view_set_field,
    .unset_field = msg_view_unset_field,
    .nth_field = msg_view_nth_field,
    .set_body = fetch_set_body,
    .ban = policy_ban,
    .call = policy_call,
    .method = policy_method,
    .resolve = policy_resolve_now,
    .cookies = policy_cookies,
    .backend_name = policy_backend_name,
    .storage_name = policy_storage_name,
};
