/* msg_view.c -- the messages of a run: their first lines and their header fields. */
#include "daemon/policy/msg_view.h"

#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/http/token.h"
#include "daemon/proxy/fetch_policy.h"
#include "daemon/proxy/req.h"

static struct policy_ctx *
msg_ctx(const struct vcl_run *run)
{
    return run->ctx;
}

/* In vcl_pipe bereq is the client's request. */
static bool
msg_is_req(const struct vcl_run *run, enum vcl_http http)
{
    return http == VCL_HTTP_REQ || http == VCL_HTTP_REQ_TOP ||
           (http == VCL_HTTP_BEREQ && msg_ctx(run)->fetch == NULL);
}

/* The stored response, parsed into the run's arena. */
static const struct http_message *
msg_stored(struct vcl_run *run)
{
    const struct entry *e = msg_ctx(run)->req->entry;
    /* The run's arena: a second look within the run parses once more, and nothing outlives it. */
    struct http_field *fields = arena_alloc(run->arena, LIMIT_FIELDS * sizeof(*fields));
    struct http_message *head = arena_alloc(run->arena, sizeof(*head));

    if (e == NULL || fields == NULL || head == NULL)
        return NULL;
    entry_message(e, ENTRY_FIELDS_ALL, fields, head);
    return head;
}

/* The message to read.  NULL: there is none, or no memory. */
static const struct http_message *
msg_read(struct vcl_run *run, enum vcl_http http)
{
    struct req *r = msg_ctx(run)->req;
    struct fetch *f = msg_ctx(run)->fetch;

    if (http == VCL_HTTP_REQ_TOP)
        return req_top(r)->head;
    if (msg_is_req(run, http))
        return r->head;
    switch (http) {
    case VCL_HTTP_BEREQ:
        return &f->vcl->bereq->head;
    case VCL_HTTP_BERESP:
        /* As it came, until the policy changes it. */
        return f->vcl->at.beresp != NULL ? &f->vcl->at.beresp->head : f->vcl->at.came;
    case VCL_HTTP_OBJ_STALE:
        return f->old != NULL ? &f->stored : NULL;
    /* A copy already for reading (README 7): its fields include those that are written for this
     * request. */
    case VCL_HTTP_RESP:
        return req_edit_resp(r) == 0 ? &r->policy.resp->head : NULL;
    case VCL_HTTP_OBJ:
        return msg_stored(run);
    case VCL_HTTP_REQ:
    case VCL_HTTP_REQ_TOP:
    case VCL_HTTP_COUNT:
        break;
    }
    TUNREACHABLE("a message of no run");
}

static int
msg_failed(struct vcl_run *run, enum vcl_http http, int err)
{
    /* The limits differ: http_max_hdr is of requests alone. */
    if (err == TERR_HEADTOOBIG)
        run->why = msg_is_req(run, http)
                       ? "too many or too large header fields (http_max_hdr, 64 KiB)"
                       : "too many or too large header fields (256, 64 KiB)";
    return err;
}

/* The message to change, copied first if it is as it came. */
static int
msg_edit(struct vcl_run *run, enum vcl_http http, struct message_edit **out)
{
    struct req *r = msg_ctx(run)->req;
    struct fetch *f = msg_ctx(run)->fetch;
    int err = 0;

    /* Checks for debug builds alone: a policy edits the message of a hit here. */
    tassert_slow(http != VCL_HTTP_OBJ);       /* what is stored is for all requests */
    tassert_slow(http != VCL_HTTP_OBJ_STALE); /* and so is this */
    if (msg_is_req(run, http)) {
        err = req_edit(r);
        *out = r->policy.req;
        tassert_slow(err != 0 || r->head == &r->policy.req->head); /* the copy counts from now on */
    } else if (http == VCL_HTTP_BEREQ) {
        *out = f->vcl->bereq;
    } else if (http == VCL_HTTP_BERESP) {
        err = fetch_edit_beresp(f);
        *out = f->vcl->at.beresp;
        f->vcl->at.touched = err == 0;
    } else {
        tassert(http == VCL_HTTP_RESP);
        err = req_edit_resp(r);
        *out = r->policy.resp;
        r->policy.touched = err == 0;
    }
    return msg_failed(run, http, err);
}

/* --- first lines --- */

/* `why` says what is wrong with a part of the message: its name comes in front. */
static int
msg_refuse(struct vcl_run *run, enum vcl_http http, const char *why)
{
    static const char *const names[] = {[VCL_HTTP_REQ] = "req",
        [VCL_HTTP_BEREQ] = "bereq",
        [VCL_HTTP_BERESP] = "beresp",
        [VCL_HTTP_RESP] = "resp"};
    char text[128];
    struct slice copy;

    tassert((unsigned)http < ARRAY_LEN(names));
    tassert(names[http] != NULL); /* of the others nothing is set */
    snprintf(text, sizeof(text), "%s.%s", names[http], why);
    copy = arena_copy(run->arena, slice_str(text));
    return policy_fail(run, copy.ptr != NULL ? copy.ptr : why);
}

struct slice
msg_view_method(struct vcl_run *run, enum vcl_http http)
{
    const struct http_message *h = msg_read(run, http);

    return http_slice(h, h->method_off, h->method_len);
}

int
msg_view_set_method(struct vcl_run *run, enum vcl_http http, struct slice method)
{
    struct message_edit *e;
    int err;

    if (!http_token_ok(method))
        return msg_refuse(run, http, "method must be a token (RFC 9110 9.1)");
    err = msg_edit(run, http, &e);
    if (err == 0 && message_edit_method(e, method) != 0)
        err = msg_failed(run, http, TERR_HEADTOOBIG);
    if (err == 0)
        /* The run compares methods by number, and must see the new one. */
        run->method = e->head.method;
    return err;
}

struct slice
msg_view_url(struct vcl_run *run, enum vcl_http http)
{
    return http_path(msg_read(run, http));
}

int
msg_view_set_url(struct vcl_run *run, enum vcl_http http, struct slice url)
{
    struct message_edit *e;
    int err;

    /* OPTIONS * is the one that does not begin with / (RFC 9112 3.2.4). */
    if (url.len == 0 || !http_target_bytes_ok(url) || (url.ptr[0] != '/' && url.ptr[0] != '*'))
        return msg_refuse(run, http, "url must begin with / and have no space or control bytes");
    if (url.len > LIMIT_HEAD_BYTES)
        return msg_refuse(run, http, "url is too long");
    err = msg_edit(run, http, &e);
    return err != 0 ? err : msg_failed(run, http, message_edit_path(e, url));
}

struct slice
msg_view_proto(struct vcl_run *run, enum vcl_http http)
{
    return http_version_text(msg_read(run, http));
}

/* vcl_synth's response before its head is made. */
static bool
msg_is_unmade(const struct vcl_run *run, enum vcl_http http)
{
    const struct req *r = msg_ctx(run)->req;

    tassert_slow(http != VCL_HTTP_RESP || r != NULL);
    return http == VCL_HTTP_RESP && r->policy.synth && r->policy.resp == NULL;
}

unsigned
msg_view_status(struct vcl_run *run, enum vcl_http http)
{
    const struct req *r = msg_ctx(run)->req;
    const struct fetch *f = msg_ctx(run)->fetch;

    if (http == VCL_HTTP_BERESP)
        /* As in Varnish: 1404 is sent as 404, and policies hand a hint on in the digit before. */
        return f->vcl->at.status_prefix * 1000u + msg_read(run, http)->status;
    if (http == VCL_HTTP_OBJ_STALE)
        return entry_status(f->old);
    tassert_slow(r != NULL); /* the rest is the client's side */
    if (msg_is_unmade(run, http))
        return r->synth_status;
    if (http == VCL_HTTP_RESP && r->policy.resp != NULL)
        return r->policy.resp->head.status;
    return entry_policy_status(r->entry);
}

int
msg_view_set_status(struct vcl_run *run, enum vcl_http http, int64_t status)
{
    struct req *r = msg_ctx(run)->req;
    struct message_edit *e;
    int err;

    if (status < 200 || status > 65535 || status % 1000 < 200) /* 1xx ends nothing */
        return msg_refuse(run, http, "status must be 200 to 65535, its last three digits from 200");
    /* The head is made behind vcl_synth: until then the number is the request's. */
    if (msg_is_unmade(run, http)) {
        r->synth_status = (uint16_t)status;
        /* A reason that was set belonged to the status before. */
        r->policy.reason = slice_of(NULL, 0);
        return 0;
    }
    err = msg_edit(run, http, &e);
    if (err != 0)
        return err;
    tassert(http == VCL_HTTP_BERESP || http == VCL_HTTP_RESP);
    e->head.status = (uint16_t)status;
    if (http == VCL_HTTP_BERESP) {
        e->head.status = (uint16_t)(status % 1000);
        msg_ctx(run)->fetch->vcl->at.status_prefix = (uint8_t)(status / 1000);
    }
    return message_edit_reason(e, slice_str(http_reason((unsigned)status % 1000)));
}

struct slice
msg_view_reason(struct vcl_run *run, enum vcl_http http)
{
    const struct http_message *h;

    if (msg_is_unmade(run, http))
        return req_reason(msg_ctx(run)->req);
    h = msg_read(run, http);
    return h == NULL ? slice_of(NULL, 0) : http_slice(h, h->reason_off, h->reason_len);
}

int
msg_view_set_reason(struct vcl_run *run, enum vcl_http http, struct slice reason)
{
    struct message_edit *e;
    int err;

    /* A line end in it would begin a field of the policy's making. */
    if (!http_value_ok(reason))
        return msg_refuse(run, http, "reason has control bytes");
    err = msg_edit(run, http, &e);
    return err != 0 ? err : msg_failed(run, http, message_edit_reason(e, reason));
}

/* --- header fields --- */

struct slice
msg_view_nth_field(
    struct vcl_run *run, enum vcl_http http, const struct vcl_name *name, unsigned nth)
{
    const struct http_message *h;

    if (http == VCL_HTTP_REQ || http == VCL_HTTP_REQ_TOP) {
        struct req *r = msg_ctx(run)->req;

        if (http == VCL_HTTP_REQ_TOP)
            r = req_top(r);
        if (name->id == HTTP_F_X_FORWARDED_FOR && req_edit(r) != 0) /* the copy has it appended */
            return slice_of(NULL, 0);
        /* The authority counts, wherever it stood: in absolute-form the Host field is ignored (RFC
         * 9112 3.2.2). */
        if (name->id == HTTP_F_HOST && nth == 0 &&
            (r->head->authority_len > 0 || http_has(r->head, HTTP_F_HOST)))
            return http_host(r->head);
    }
    h = msg_read(run, http);
    return h != NULL ? policy_field(h, name, nth) : slice_of(NULL, 0);
}

/* A field that is there, or that must be looked for.  Apart, so that msg_view_field() saves no
 * registers. */
static __attribute__((noinline)) struct slice
msg_find_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name)
{
    if (policy_joins(name))
        return policy_joined(run, http, name);
    if (http == VCL_HTTP_REQ && (run->known >> name->id & 1) != 0)
        return policy_field(msg_ctx(run)->req->head, name, 0);
    return msg_view_nth_field(run, http, name, 0);
}

struct slice
msg_view_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name)
{
    if (http == VCL_HTTP_REQ && (run->known >> name->id & 1) != 0) { /* what is read most */
        const struct http_message *h = msg_ctx(run)->req->head;

        /* Most policies ask for fields that are not there: one test of a bit. */
        if ((h->present >> name->id & 1) == 0)
            return slice_of(NULL, 0);
        if (name->id == HTTP_F_HOST)
            return http_host(h);
    }
    return msg_find_field(run, http, name);
}

/* The key is made of it, and it is sent on.  What no key can be made of is refused here, where the
 * policy can be named as the reason. */
static bool
msg_host_ok(struct slice host)
{
    char normal[HTTP_AUTHORITY_MAX];

    return host.len == 0 || http_authority_normal(
                                host, HTTP_SCHEME_HTTP, (struct span){normal, sizeof(normal)}) >= 0;
}

int
msg_view_set_field(
    struct vcl_run *run, enum vcl_http http, const struct vcl_name *name, struct slice value)
{
    const bool is_host = name->id == HTTP_F_HOST;
    struct message_edit *e;
    int err;

    value = http_trim(value);
    if (is_host && http == VCL_HTTP_REQ && !msg_host_ok(value))
        return policy_fail(run, "req.http.Host must be a host name, with or without a port");
    err = msg_edit(run, http, &e);
    if (err == 0)
        err = message_edit_set(e, name->text, (enum http_field_id)name->id, value);
    /* The run has remembered what the head says, and looks again. */
    if (is_host && msg_is_req(run, http))
        req_show_head(msg_ctx(run)->req, run);
    else if (is_host && http == VCL_HTTP_BEREQ)
        /* From now on neither the backend's host_header nor the client's Host replaces it. */
        msg_ctx(run)->fetch->vcl->host_said = true;
    return msg_failed(run, http, err);
}

/* A request that came without the field is not copied for it.  X-Forwarded-For is in the copy alone. */
static bool
msg_lacks_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name)
{
    const struct http_message *h = msg_read(run, http);

    if (name->id == HTTP_F_X_FORWARDED_FOR && msg_is_req(run, http))
        return false;
    return h != NULL && policy_field(h, name, 0).ptr == NULL;
}

int
msg_view_unset_field(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name)
{
    struct message_edit *e;
    int err;

    if (msg_lacks_field(run, http, name))
        return 0;
    err = msg_edit(run, http, &e);
    if (err != 0)
        return err;
    message_edit_unset(e, name->text, (enum http_field_id)name->id);
    if (name->id == HTTP_F_HOST && msg_is_req(run, http))
        req_show_head(msg_ctx(run)->req, run);
    return 0;
}
