/* fetch_send.c -- the request to the origin, its body leased as the client uploads it. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_policy.h"

void
fetch_begin(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    struct origin_request r = {
        .head = &f->request,
        .has_body = f->upload != NULL || f->asked == HTTP_M_POST || f->asked == HTTP_M_PUT,
        .body_length = f->upload != NULL ? f->upload_length : 0, /* RFC 9110 8.6: there is none */
        .close = f->vcl != NULL && policy_says_close(&f->vcl->bereq->head),
        .want_interim = fetch_has_listener(f),
        .upgrade = f->upgrade,
    };

    x->ops->begin(x, &r);
    f->sent = x->sent;
    f->request_sent = false;
}

/* The leased extent has left the socket's queue: give it back. */
static void
fetch_upload_return(struct fetch *f)
{
    struct lease_returns r = {.ids = &f->upload_ext.id, .n = 1};

    if (!f->upload_leased)
        return;
    f->upload_leased = false;
    if (f->upload_ext.id != LEASE_NO_RETURN)
        lease_return(&f->upload_it, &r);
}

/* The next of the body's bytes, in upload_ext.  1, 0 at the end of the body, or why there are none. */
static int
fetch_upload_next(struct fetch *f)
{
    struct lease_batch b = {.extents = &f->upload_ext, .max = 1};
    int n;

    if (f->upload_leased && !f->upload_given)
        return 1; /* still the last one */
    fetch_upload_return(f);
    if (f->upload_ended)
        return 0;
    if (waiter_pending(&f->upload_wait))
        return TERR_AGAIN;
    n = lease_take(&f->upload_it, &b);
    if (n == -EAGAIN || n == -ENOBUFS)
        return TERR_AGAIN;
    if (n < 0)
        return TERR_CANCELLED; /* the client broke off: never end the message (RFC 9112 8) */
    f->upload_ended = n == 0 || (f->upload_ext.flags & LEASE_LAST) != 0;
    if (n == 0)
        return 0;
    f->upload_leased = true;
    f->upload_given = false;
    f->upload_at += f->upload_ext.len;
    return 1;
}

/* The head, in the first call, and the next of the body's bytes.  0: the request is whole; 1: it goes
 * on; or why not.  The head waits for no body, and goes before one that broke off: what the origin
 * hears must not depend on how the client's bytes were cut. */
static int
fetch_send_next(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    int next = f->upload != NULL ? fetch_upload_next(f) : 0, rc;
    bool end = next == 0 || (next == 1 && f->upload_ended);
    struct iovec iov = {NULL, 0};
    unsigned flags = end ? ORIGIN_END : 0;

    if (next == 1) {
        memcpy(&iov.iov_base, &f->upload_ext.ptr, sizeof(iov.iov_base));
        iov.iov_len = f->upload_ext.len;
        if (!end && stobj_len(f->upload) > f->upload_at)
            flags |= ORIGIN_MORE;
    }
    rc = x->ops->send(x, &iov, next == 1, flags);
    if (rc == 0 && next == 1)
        f->upload_given = true;
    if (rc != 0)
        return rc;
    return next < 0 ? next : !end;
}

int
fetch_send(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    int rc = 1;

    while (rc == 1 && !f->request_sent) {
        rc = x->ops->sending(x) ? TERR_AGAIN : fetch_send_next(f);
        f->request_sent = rc == 0;
    }
    if (x->sent != f->sent) /* the origin takes something */
        fetch_deadline(f, f->proxy->params.backend_send_timeout);
    f->sent = x->sent;
    if (f->request_sent)
        return x->ops->sending(x) ? TERR_AGAIN : 0;
    return rc;
}

void
fetch_close_upload(struct fetch *f)
{
    tassert(f->conn == NULL); /* so nothing reads the lease any more */
    fetch_upload_return(f);
    if (waiter_state(&f->upload_wait) == WAITER_ARMED)
        lease_cancel(&f->upload_it);
    if (waiter_pending(&f->upload_wait))
        return;
    lease_fini(&f->upload_it);
    stobj_unref(&f->upload);
}

void
fetch_rewind_upload(struct fetch *f)
{
    tassert(f->conn == NULL && f->upload_kept);
    fetch_upload_return(f);
    lease_fini(&f->upload_it);
    lease_init(&f->upload_it, f->upload, 0, LEASE_TO_END, &f->upload_wait);
    f->upload_ended = f->upload_given = false;
    f->upload_at = 0;
}
