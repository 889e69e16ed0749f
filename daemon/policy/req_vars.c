/* req_vars.c -- the messages of a request as its policy changes them.
 *
 * The request stays where it came until something is changed; then it is copied into the arena,
 * and that copy is what is looked up and sent on.  The response's head is read back from what is
 * stored when the policy first looks at it, and written anew only if it was changed. */
#include <stdio.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/http/field_line.h"
#include "daemon/proxy/req.h"

/* The client, as Varnish appends it before vcl_recv.  What the client itself says there is no word
 * of ours. */
static int
req_edit_client(struct req *r, struct message_edit *e)
{
    static const struct {
        enum proxy_forwards bit;
        const char *name;
        enum http_field_id id;
    } rows[] = {
        {FORWARDS_X_FORWARDED_FOR, "X-Forwarded-For", HTTP_F_X_FORWARDED_FOR},
        {FORWARDS_FORWARDED, "Forwarded", HTTP_F_FORWARDED},
    };
    int err = 0;

    for (unsigned i = 0; i < ARRAY_LEN(rows) && err == 0; i++) {
        bool forwarded = rows[i].bit == FORWARDS_FORWARDED;
        struct slice who = slice_of("", 0);

        if ((r->proxy->forwards & rows[i].bit) != 0)
            who = req_forwarded(r->x, &r->x->arena, forwarded);
        else if (!forwarded)
            message_edit_unset(e, slice_str(rows[i].name), rows[i].id);
        if (who.ptr == NULL)
            return TERR_NOMEM;
        if (who.len > 0)
            err = message_edit_set(e, slice_str(rows[i].name), rows[i].id, who);
    }
    return err;
}

int
req_edit(struct req *r)
{
    struct message_edit *e;
    int err;

    if (r->policy.req != NULL)
        return 0;
    e = arena_alloc(&r->x->arena, sizeof(*e));
    if (e == NULL)
        return TERR_NOMEM;
    err = message_edit_init(e, &r->x->head, &r->x->arena, (unsigned)r->proxy->params.http_max_hdr);
    if (err == 0)
        err = req_edit_client(r, e);
    if (err != 0)
        return err;
    if (r->x->head.authority_len > 0) { /* RFC 9112 3.2.2: the target's authority is what counts */
        err = message_edit_set(e, SLICE_LIT("Host"), HTTP_F_HOST, http_host(&r->x->head));
        if (err != 0)
            return err;
    }
    /* Last, and only when whole: until here the request is read where it came. */
    tassert_slow(r->head == &r->x->head);
    r->policy.req = e;
    r->head = &e->head;
    if (r->proxy->run.vcl != NULL)
        req_show_head(r, &r->proxy->run);
    return 0;
}

/* The stored response with the lines that are ours. */
static int
req_edit_stored(struct req *r, struct message_edit *e)
{
    struct arena *a = &r->x->arena;
    /* The exchange's arena: the message is sent from it, after the run. */
    struct http_field *fields = arena_alloc(a, LIMIT_FIELDS * sizeof(*fields));
    struct slice extra, name, value;
    struct http_message head;
    int err;

    if (fields == NULL)
        return TERR_NOMEM;
    tassert_slow(!r->policy.synth);
    tassert_slow(r->entry != NULL);
    entry_message(r->entry, ENTRY_FIELDS_SENT, fields, &head);
    head.status = (uint16_t)entry_policy_status(r->entry);
    err = message_edit_init(e, &head, a, LIMIT_FIELDS);
    r->x->extra_len = 0;
    req_extra_lines(r);
    extra = slice_of(r->x->extra, r->x->extra_len);
    while (err == 0 && field_line_next(&extra, &name, &value))
        err = message_edit_add(e, name, http_field_id(name.ptr, name.len), value);
    r->x->extra_len = 0;
    return err;
}

/* A response of our own: what it is given, said or not. */
struct slice
req_reason(const struct req *r)
{
    return r->policy.reason.ptr != NULL ? r->policy.reason
                                        : slice_str(http_reason(r->synth_status % 1000u));
}

static int
req_edit_purged(struct req *r, struct message_edit *e)
{
    struct req_purge_fields f = req_purge_fields(r);
    int err = 0;

    if (f.token.len > 0)
        err = message_edit_add(e, SLICE_LIT("Purge-Token"), HTTP_F_OTHER, f.token);
    if (err == 0 && f.proof.len > 0)
        err = message_edit_add(e, SLICE_LIT("Purge-Proof"), HTTP_F_OTHER, f.proof);
    return err;
}

static int
req_edit_synth(struct req *r, struct message_edit *e)
{
    struct proxy *p = r->proxy;
    int err = message_edit_response(e, r->synth_status, req_reason(r), &r->x->arena, LIMIT_FIELDS);

    if (err == 0)
        err = message_edit_add(
            e, SLICE_LIT("Date"), HTTP_F_DATE, slice_str(p->loop->clock.http_date));
    if (err == 0)
        err = message_edit_add(
            e, SLICE_LIT("Server"), HTTP_F_SERVER, slice_str(p->params.http_server));
    if (err == 0 && r->policy.purged != NULL)
        err = req_edit_purged(r, e);
    if (err == 0 && req_says_x_varnish(r)) {
        char id[24];
        int n = snprintf(id, sizeof(id), "%llu", (unsigned long long)(r->x->xid % POLICY_XID_MAX));

        err = message_edit_add(e, SLICE_LIT("X-Varnish"), HTTP_F_OTHER, slice_of(id, (size_t)n));
    }
    return err;
}

int
req_edit_resp(struct req *r)
{
    struct message_edit *e;
    int err;

    if (r->policy.resp != NULL)
        return 0;
    e = arena_alloc(&r->x->arena, sizeof(*e));
    if (e == NULL)
        return TERR_NOMEM;
    tassert_slow(r->policy.synth || r->entry != NULL);
    err = r->policy.synth ? req_edit_synth(r, e) : req_edit_stored(r, e);
    if (err == 0)
        r->policy.resp = e;
    return err;
}

/* What the machine may look at by itself. */
void
req_show_head(const struct req *r, struct vcl_run *run)
{
    const struct http_message *h = r->head;
    /* X-Forwarded-For as it came is not what the policy reads: the client's address is appended in
     * the copy (req_edit_client).  So the machine asks us. */
    uint64_t known = ~(HTTP_BIT(HTTP_F_OTHER) | HTTP_BIT(HTTP_F_X_FORWARDED_FOR));

    if (__builtin_expect((h->authority_len > 0) != http_has(h, HTTP_F_HOST), 0))
        known &= ~HTTP_BIT(HTTP_F_HOST); /* of the target, or empty */
    tassert_slow(r->policy.req == NULL || h == &r->policy.req->head);
    run->known = known;
    run->present = &h->present;
    run->method = h->method;
}

/* client.identity: the address, unless it was set. */
struct slice
req_identity(const struct req *r)
{
    char text[ADDRESS_TEXT_MAX];

    if (r->policy.identity.ptr != NULL)
        return r->policy.identity;
    if (address_is_unix(r->x->conn->client_addr))
        return SLICE_LIT("0.0.0.0");
    address_text(r->x->conn->client_addr, text);
    return arena_copy(&r->x->arena, slice_str(text));
}

/* Bytes of the request as it came may move while the answer is on its way; all else stays. */
static bool
req_part_moves(const struct req *r, struct slice part)
{
    uintptr_t p = (uintptr_t)part.ptr, base = (uintptr_t)r->x->head.base;

    return p >= base && p < base + r->x->head.len;
}

enum {
    BODY_PARTS_MAX = 4096 /* of a synthetic body: a page has some ten */
};

/* Straight into the page, by reference: storage/engine_synth.c. */
int
req_set_body(struct vcl_run *run, struct req *r, const struct slice *parts, unsigned n, bool append)
{
    if (!append && r->own_body)
        req_drop_page(r);
    if (!append)
        r->policy.nbody = 0;
    if (r->policy.nbody + n > BODY_PARTS_MAX)
        return policy_fail(run, "resp.body has too many parts");
    r->policy.nbody = (uint16_t)(r->policy.nbody + n);
    if (!r->own_body && req_take_page(r) != 0)
        return TERR_NOMEM;
    tassert_slow(r->own_body && r->rep.body != NULL);
    for (unsigned i = 0; i < n; i++) {
        struct slice part = parts[i];

        if (req_part_moves(r, part))
            part = arena_copy(&r->x->arena, part);
        if (part.ptr == NULL || stobj_synth_add(r->rep.body, part) != 0)
            return TERR_NOMEM;
    }
    return 0;
}

/* A key of the policy's own: its pieces in the scratch, each with its end.  It begins with a byte
 * that no URL has, so that it is never taken for one, nor shown as one. */
int
req_hash_data(struct vcl_run *run, struct req *r, struct slice data)
{
    struct proxy *p = r->proxy;

    tassert_slow(r->key_len <= sizeof(p->key_text));
    if (data.len + 1 > sizeof(p->key_text) - r->key_len)
        return policy_fail(run, "hash_data: the key is longer than 64 KiB");
    if (data.len > 0)
        memcpy(p->key_text + r->key_len, data.ptr, data.len);
    r->key_len += data.len;
    p->key_text[r->key_len++] = '\0';
    return 0;
}
