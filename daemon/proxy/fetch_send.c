/* fetch_send.c -- the request to the origin, its body leased as the client uploads it. */
#include <errno.h>
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/fetch_priv.h"

/* 1: sent whole; 0: not now; TERR_CLOSED. */
static int
fetch_send_slice(struct fetch *f, struct slice *s, bool more)
{
    struct iovec iov;
    ssize_t n;

    while (s->len > 0) {
        memcpy(&iov.iov_base, &s->ptr, sizeof(iov.iov_base));
        iov.iov_len = s->len;
        n = origin_send(f->conn, &iov, 1, more);
        if (n <= 0)
            return (int)n;
        s->ptr += n;
        s->len -= (size_t)n;
        fetch_deadline(f, f->proxy->params.backend_send_timeout);
    }
    return 1;
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

/* Leases the next extent and lays out how it is sent.  1, 0 at the end of the body, or why
 * there is none. */
static int
fetch_upload_next(struct fetch *f)
{
    struct lease_batch b = {.extents = &f->upload_ext, .max = 1};
    bool chunked = f->upload_length == EXCHANGE_LENGTH_UNKNOWN;
    int n;

    if (origin_sending(f->conn))
        return TERR_AGAIN; /* the queue still reads the last one */
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
    f->npieces = f->piece = 0;
    if (n == 0) {
        f->upload_ended = true;
        if (!chunked)
            return 0;
        f->pieces[f->npieces++] = SLICE_LIT("0\r\n\r\n");
        return 1;
    }
    f->upload_leased = true;
    if (chunked) {
        int len = snprintf(f->chunk, sizeof(f->chunk), "%x\r\n", f->upload_ext.len);

        f->pieces[f->npieces++] = slice_of(f->chunk, (size_t)len);
    }
    f->pieces[f->npieces++] = slice_of(f->upload_ext.ptr, f->upload_ext.len);
    if (chunked)
        f->pieces[f->npieces++] = SLICE_LIT("\r\n");
    return 1;
}

int
fetch_send(struct fetch *f)
{
    int rc;

    if (f->request_sent)
        return 0;
    if (f->request_at < f->request.len) {
        struct slice rest =
            slice_of(f->request.ptr + f->request_at, f->request.len - f->request_at);

        rc = fetch_send_slice(f, &rest, false);
        f->request_at = f->request.len - rest.len;
        if (rc <= 0)
            return rc == 0 ? TERR_AGAIN : rc;
    }
    while (f->upload != NULL) {
        while (f->piece < f->npieces) {
            rc = fetch_send_slice(f, &f->pieces[f->piece], f->piece + 1 < f->npieces);
            if (rc <= 0)
                return rc == 0 ? TERR_AGAIN : rc;
            f->piece++;
        }
        rc = fetch_upload_next(f);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
    }
    f->request_sent = true;
    origin_sent(f->conn);
    return 0;
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
    f->upload_ended = false;
    f->npieces = f->piece = 0;
}
