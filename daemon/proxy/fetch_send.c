/* fetch_send.c -- the request to the origin, its body leased as the client uploads it. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_policy.h"

/* Of an upgrade that the client knows nothing of; empty: it is the client's own. */
static struct slice
fetch_websocket_key(const struct fetch *f)
{
    const struct http_field *key =
        f->connect && f->upgrade.len > 0
            ? http_find_name(&f->request, SLICE_LIT("sec-websocket-key"), NULL)
            : NULL;

    return key != NULL ? http_value(&f->request, key) : slice_of(NULL, 0);
}

void
fetch_begin(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    struct origin_request r = {
        .head = &f->request,
        .has_body = f->upload.body != NULL || f->asked == HTTP_M_POST || f->asked == HTTP_M_PUT,
        .body_length =
            f->upload.body != NULL ? f->upload.length : 0, /* RFC 9110 8.6: there is none */
        .close = fetch_asks_policy(f) != NULL && policy_says_close(&f->vcl->bereq->head),
        .want_interim = fetch_has_listener(f),
        .upgrade = f->upgrade,
        .websocket_key = fetch_websocket_key(f),
    };

    tassert(f->attempt.on.request == FETCH_UNSENT && f->conn != NULL);
    x->ops->begin(x, &r);
    f->attempt.on = (struct fetch_on){.request = FETCH_SENDING, .sent = x->sent};
}

/* The leased extent has left the socket's queue: give it back. */
static void
fetch_upload_return(struct fetch *f)
{
    struct lease_returns r = {.ids = &f->upload.ext.id, .n = 1};

    if (f->upload.lease == FETCH_LEASE_NONE)
        return;
    f->upload.lease = FETCH_LEASE_NONE;
    if (f->upload.ext.id != LEASE_NO_RETURN)
        lease_return(&f->upload.it, &r);
}

/* The next of the body's bytes, in upload_ext.  1, 0 at the end of the body, or why there are none. */
static int
fetch_upload_next(struct fetch *f)
{
    struct lease_batch b = {.extents = &f->upload.ext, .max = 1};
    int n;

    tassert(f->upload.body != NULL);
    if (f->upload.lease == FETCH_LEASED)
        return 1; /* still the last one */
    fetch_upload_return(f);
    if (f->upload.ended)
        return 0;
    /* Armed by the EAGAIN before: a second one would arm it twice. */
    if (waiter_pending(&f->upload.wait))
        return TERR_AGAIN;
    n = lease_take(&f->upload.it, &b);
    if (n == -EAGAIN || n == -ENOBUFS)
        return TERR_AGAIN;
    if (n < 0)
        return TERR_CANCELLED; /* the client broke off: never end the message (RFC 9112 8) */
    f->upload.ended = n == 0 || (f->upload.ext.flags & LEASE_LAST) != 0;
    if (n == 0)
        return 0;
    f->upload.lease = FETCH_LEASED;
    f->upload.at += f->upload.ext.len;
    return 1;
}

/* The head, in the first call, and the next of the body's bytes.  0: the request is whole; 1: it goes
 * on; or why not.  The head waits for no body, and goes before one that broke off: what the origin
 * hears must not depend on how the client's bytes were cut. */
static int
fetch_send_next(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    int next = f->upload.body != NULL ? fetch_upload_next(f) : 0, rc;
    bool end = next == 0 || (next == 1 && f->upload.ended);
    struct iovec iov = {NULL, 0};
    unsigned flags = end ? ORIGIN_END : 0;

    if (next == 1) {
        /* An iovec has no const; the bytes are only read. */
        memcpy(&iov.iov_base, &f->upload.ext.ptr, sizeof(iov.iov_base));
        iov.iov_len = f->upload.ext.len;
        if (!end && stobj_len(f->upload.body) > f->upload.at)
            flags |= ORIGIN_MORE;
    }
    rc = x->ops->send(x, &iov, next == 1, flags);
    if (rc == 0 && next == 1)
        f->upload.lease = FETCH_LEASE_GIVEN;
    if (rc != 0)
        return rc;
    return next < 0 ? next : !end;
}

int
fetch_send(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    int rc = 1;

    tassert(f->attempt.on.request != FETCH_UNSENT);
    while (rc == 1 && f->attempt.on.request != FETCH_SENT) {
        rc = x->ops->sending(x) ? TERR_AGAIN : fetch_send_next(f);
        if (rc == 0)
            f->attempt.on.request = FETCH_SENT;
    }
    /* The timeout is of a standstill, not of the whole upload, which may take hours. */
    if (x->sent != f->attempt.on.sent) /* the origin takes something */
        fetch_deadline(f, f->proxy->params.backend_send_timeout);
    f->attempt.on.sent = x->sent;
    if (f->attempt.on.request == FETCH_SENT)
        return x->ops->sending(x) ? TERR_AGAIN : 0;
    return rc;
}

void
fetch_close_upload(struct fetch *f)
{
    tassert(f->conn == NULL); /* so nothing reads the lease any more */
    fetch_upload_return(f);
    if (waiter_state(&f->upload.wait) == WAITER_ARMED)
        lease_cancel(&f->upload.it);
    /* A notification that is on its way refers to the waiter in the fetch: CLOSE runs again when it
     * has landed. */
    if (waiter_pending(&f->upload.wait))
        return;
    lease_fini(&f->upload.it);
    stobj_unref(&f->upload.body);
}

void
fetch_rewind_upload(struct fetch *f)
{
    tassert(f->conn == NULL && f->upload.kept);
    /* Before the iterator ends: a lease goes back to the one that it came from. */
    fetch_upload_return(f);
    lease_fini(&f->upload.it);
    lease_init(&f->upload.it, f->upload.body, 0, LEASE_TO_END, &f->upload.wait);
    f->upload.ended = false;
    f->upload.at = 0;
}
