/* fetch_send.c -- the request to the origin, its body leased as the client uploads it. */
#include <errno.h>
#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/net/proxy_header.h"
#include "daemon/proxy/fetch_policy.h"

static size_t
fetch_skip(struct slice *s, size_t n)
{
    if (n > s->len)
        n = s->len;
    s->ptr += n;
    s->len -= n;
    return n;
}

int
fetch_write_preface(struct fetch *f)
{
    const struct fetch_policy *v = f->vcl;
    struct proxy_header who = {.told = true};
    char *out;

    f->preface = slice_of(NULL, 0);
    if (f->conf->proxy_header == 0)
        return 0;
    if (v != NULL) {
        memcpy(who.src, v->peer_addr, sizeof(who.src));
        memcpy(who.dst, v->told.server_addr, sizeof(who.dst));
        who.src_port = v->peer_port;
        who.dst_port = v->told.server_port;
    }
    out = arena_alloc(&f->arena, PROXY_HEADER_WRITE_MAX);
    if (out == NULL)
        return TERR_NOMEM;
    f->preface = slice_of(
        out, proxy_header_write(out, (unsigned)f->conf->proxy_header, v != NULL ? &who : f->ends));
    return 0;
}

/* What is left of the head and of the pieces behind it, in one write: head and body share a packet.
 * 1: all of it is sent; 0: not now; TERR_CLOSED. */
static int
fetch_send_laid(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    struct slice head = slice_of(f->request.ptr + f->request_at, f->request.len - f->request_at);
    struct iovec iov[2 + ARRAY_LEN(f->pieces)];
    bool more = f->upload != NULL && !f->upload_ended && stobj_len(f->upload) > f->upload_at;
    unsigned n = 0;
    ssize_t sent;

    if (f->preface.len > 0) {
        memcpy(&iov[0].iov_base, &f->preface.ptr, sizeof(iov[0].iov_base));
        iov[n++].iov_len = f->preface.len;
    }
    if (head.len > 0) {
        memcpy(&iov[n].iov_base, &head.ptr, sizeof(iov[n].iov_base));
        iov[n++].iov_len = head.len;
    }
    for (unsigned i = f->piece; i < f->npieces; i++) {
        memcpy(&iov[n].iov_base, &f->pieces[i].ptr, sizeof(iov[n].iov_base));
        iov[n++].iov_len = f->pieces[i].len;
    }
    if (n == 0)
        return 1;
    sent = x->ops->send(x, iov, n, more);
    if (sent <= 0)
        return (int)sent;
    fetch_deadline(f, f->proxy->params.backend_send_timeout);
    sent -= (ssize_t)fetch_skip(&f->preface, (size_t)sent);
    n = (unsigned)fetch_skip(&head, (size_t)sent);
    f->request_at += n;
    for (sent -= n; f->piece < f->npieces; f->piece++) {
        sent -= (ssize_t)fetch_skip(&f->pieces[f->piece], (size_t)sent);
        if (f->pieces[f->piece].len > 0)
            break;
    }
    return head.len == 0 && f->piece == f->npieces;
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
    struct origin_exchange *x = fetch_exchange(f);
    struct lease_batch b = {.extents = &f->upload_ext, .max = 1};
    bool chunked = f->upload_length == EXCHANGE_LENGTH_UNKNOWN;
    int n;

    if (x->ops->sending(x))
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
    f->upload_at += f->upload_ext.len;
    f->upload_ended = (f->upload_ext.flags & LEASE_LAST) != 0;
    if (chunked) {
        int len = snprintf(f->chunk, sizeof(f->chunk), "%x\r\n", f->upload_ext.len);

        f->pieces[f->npieces++] = slice_of(f->chunk, (size_t)len);
    }
    f->pieces[f->npieces++] = slice_of(f->upload_ext.ptr, f->upload_ext.len);
    if (chunked)
        f->pieces[f->npieces++] = f->upload_ended ? SLICE_LIT("\r\n0\r\n\r\n") : SLICE_LIT("\r\n");
    return 1;
}

/* The head waits for no body, and goes before one that broke off: what the origin hears must not
 * depend on how the client's bytes were cut. */
int
fetch_send(struct fetch *f)
{
    int laid = 0, rc;

    if (f->request_sent)
        return 0;
    do {
        if (f->upload != NULL)
            laid = f->piece < f->npieces ? 1 : fetch_upload_next(f);
        rc = fetch_send_laid(f);
        if (rc < 0)
            return rc;
        if (laid < 0)
            return laid;
        if (rc == 0)
            return TERR_AGAIN;
    } while (laid == 1);
    f->request_sent = true;
    fetch_exchange(f)->ops->sent(fetch_exchange(f));
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
    f->upload_at = 0;
    f->npieces = f->piece = 0;
}
