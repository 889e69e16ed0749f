/* req_upload.c -- a request body on its way from the client to our fetch: a private object,
 * so that no more than req_body_buffer of it waits, and the client is slowed down instead. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/req_priv.h"

enum {
    UPLOAD_SPAN = 16384
};

int
req_open_upload(struct req *r)
{
    struct proxy *p = r->proxy;
    int rc;

    tassert(r->upload == NULL);
    /* Private: one reader, and bytes go as soon as they are sent. */
    rc = stobj_new(&r->upload, p->storage, STOBJ_PRIVATE, r->x->body_length,
        (uint64_t)p->params.req_body_buffer);

    return rc == 0 ? 0 : TERR_NOMEM;
}

void
req_pump_upload(struct req *r)
{
    while (r->upload != NULL && stobj_state(r->upload) == STOBJ_FILLING) {
        struct span room;
        ssize_t n;
        int rc;

        if (waiter_pending(&r->upload_room))
            return;
        rc = space_get(r->upload, UPLOAD_SPAN, &room, &r->upload_room);
        if (rc == -EAGAIN)
            return;
        n = rc != 0 ? TERR_NOMEM : r->x->ops->body_read(r->x, room.ptr, room.len);
        /* The exchange wakes the request when more has come. */
        if (n == TERR_AGAIN)
            return;
        tassert(n <= 0 || (size_t)n <= room.len);
        if (n == 0)
            space_finish(r->upload);
        else if (n < 0)
            space_fail(r->upload, (int)n); /* the fetch breaks off, and does not end the message */
        else
            space_extend(r->upload, (size_t)n);
        /* A client that has left gets no answer, so there is no error to name. */
        if (n < 0 && n != TERR_CLOSED)
            r->attempt.err = (int)n;
    }
}

/* Until then it occupies memory of ours, up to the bound, and nothing of a backend. */
int
req_gather_upload(struct req *r)
{
    if (r->upload == NULL && req_open_upload(r) != 0)
        return TERR_NOMEM;
    req_pump_upload(r);
    r->gathering = false;
    switch (stobj_state(r->upload)) {
    case STOBJ_SETTLED:
        return 0;
    case STOBJ_FAILED:
        return r->attempt.err != 0 ? r->attempt.err : TERR_CLOSED;
    case STOBJ_FILLING:
        break;
    }
    /* It is full: as much is here as may wait, and the rest comes while this is sent. */
    if (waiter_pending(&r->upload_room))
        return 0;
    tassert(!r->policy.body_kept); /* what is kept is whole */
    r->gathering = true;
    return TERR_AGAIN;
}

/* A refresh does not wait for the client, which may be answered and gone before it is sent: it
 * takes a body that has come by now. */
static bool
req_has_whole_body(struct req *r)
{
    if (r->upload == NULL && req_open_upload(r) != 0)
        return false;
    req_pump_upload(r);
    return stobj_state(r->upload) == STOBJ_SETTLED;
}

void
req_share_upload(struct req *r, struct fetch_spec *spec)
{
    bool kept = r->policy.body_kept;

    tassert(!kept || stobj_state(r->upload) == STOBJ_SETTLED);
    spec->upload_kept = kept;
    spec->upload_length = kept ? stobj_len(r->upload) : r->x->body_length;
    spec->upload_later = false;
    /* A pass sends it in any case; a lookup asks by GET unless the policy says otherwise (README
     * 38). */
    if (kept || spec->kind == FETCH_PASS || (spec->listener.ops == NULL && req_has_whole_body(r)))
        spec->upload = stobj_ref(r->upload);
    else
        spec->upload_later = true;
}

bool
req_end_upload(struct req *r)
{
    if (r->upload == NULL)
        return true;
    if (waiter_state(&r->upload_room) == WAITER_ARMED)
        space_cancel(r->upload, &r->upload_room);
    if (waiter_pending(&r->upload_room))
        return false;
    /* The fetch must not take the end of our interest for the end of the body (README 6). */
    if (stobj_state(r->upload) == STOBJ_FILLING)
        space_fail(r->upload, TERR_CANCELLED);
    stobj_unref(&r->upload);
    return true;
}

enum {
    KEPT_BODY_MAX = 16 << 20 /* a longer body is not waited for: std.cache_req_body says no */
};

/* Into an object that can be read again, from its beginning. */
bool
req_keeping_body(struct req *r)
{
    bool known = r->x->body_length != EXCHANGE_LENGTH_UNKNOWN;

    tassert(r->x->has_body);
    tassert(!r->policy.body_kept);
    if (r->upload == NULL) {
        if ((known && r->x->body_length > KEPT_BODY_MAX) ||
            stobj_new(&r->upload, r->proxy->storage, STOBJ_KEPT, r->x->body_length, 0) != 0)
            return false;
        r->policy.body_keeping = true;
    }
    if (!r->policy.body_keeping)
        return false;
    req_pump_upload(r);
    if (stobj_state(r->upload) == STOBJ_FILLING && stobj_len(r->upload) <= KEPT_BODY_MAX)
        return true;
    /* Settled: it goes with each fetch from here on.  Else it is read once, as without a policy. */
    r->policy.body_keeping = false;
    r->policy.body_kept = stobj_state(r->upload) == STOBJ_SETTLED;
    return false;
}

int
req_keep_body(struct req *r, int64_t most, struct vcl_value *out)
{
    tassert(!r->policy.body_kept || stobj_state(r->upload) == STOBJ_SETTLED);
    /* A request without a body can be sent again as it is. */
    out->i = !r->x->has_body ||
             (r->policy.body_kept && most >= 0 && stobj_len(r->upload) <= (uint64_t)most);
    return 0;
}
