/* h1_request.c -- a request on its way to an origin (RFC 9112 3, 6 and 7.1). */
#include "daemon/h1/h1_request.h"

#include <stdio.h>

#include "daemon/base/limits.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/message_out.h"
#include "daemon/http/uri.h"
#include "daemon/net/stream.h"

/* Pieces are borrowed until they have been sent: the message's, the body's, or literals. */
static void
h1_request_lay(struct h1_request *q, struct slice piece)
{
    tassert(q->npieces < H1_REQUEST_PIECES);
    if (piece.len > 0)
        q->pieces[q->npieces++] = piece;
}

#define H1_LAY(q, literal) h1_request_lay((q), SLICE_LIT(literal))

/* A request without a body gets no framing at all (RFC 9112 6.3, rule 7). */
static void
h1_request_lay_framing(struct h1_request *q, const struct origin_request *r)
{
    int len;

    if (!r->has_body)
        return;
    if (q->chunked) {
        H1_LAY(q, "Transfer-Encoding: chunked\r\n");
        return;
    }
    len = snprintf(q->length, sizeof(q->length), "Content-Length: %llu\r\n",
        (unsigned long long)r->body_length);
    h1_request_lay(q, slice_of(q->length, (size_t)len));
}

/* Hop-by-hop fields are written here and nowhere else, so that none of the client's can reach
 * the origin and frame the request in another way (RFC 9110 7.6.1). */
void
h1_request_begin(struct h1_request *q, const struct origin_request *r, struct slice preface)
{
    const struct http_message *m = r->head;

    tassert(m->method_len > 0 && !http_has(m, HTTP_F_HOST));
    q->npieces = q->at = 0;
    q->begun = q->ended = q->failed = false;
    q->chunked = r->has_body && r->body_length == ORIGIN_LENGTH_UNKNOWN;
    h1_request_lay(q, preface);
    h1_request_lay(q, http_slice(m, m->method_off, m->method_len));
    H1_LAY(q, " ");
    h1_request_lay(q, http_path(m));
    H1_LAY(q, " HTTP/1.1\r\nHost: "); /* first, and there even when it is empty: RFC 9112 3.2 */
    h1_request_lay(q, http_host(m));
    H1_LAY(q, "\r\n");
    h1_request_lay(q, message_lines(m));
    h1_request_lay_framing(q, r);
    if (r->upgrade.len > 0) {
        H1_LAY(q, "Connection: upgrade\r\nUpgrade: ");
        h1_request_lay(q, r->upgrade);
        H1_LAY(q, "\r\n\r\n");
    } else if (r->close) {
        H1_LAY(q, "Connection: close\r\n\r\n");
    } else {
        H1_LAY(q, "\r\n");
    }
}

/* So many bytes have been taken. */
static void
h1_request_skip(struct h1_request *q, size_t taken)
{
    for (; q->at < q->npieces && taken >= q->pieces[q->at].len; q->at++)
        taken -= q->pieces[q->at].len;
    if (taken == 0)
        return;
    tassert(q->at < q->npieces);
    q->pieces[q->at].ptr += taken;
    q->pieces[q->at].len -= taken;
}

/* Room for all pieces in one sendmsg: a request's head and what is at hand of its body leave in
 * one packet (README 14). */
static unsigned
h1_request_gather(const struct h1_request *q, struct iovec iov[H1_REQUEST_PIECES])
{
    unsigned n = 0;

    for (unsigned i = q->at; i < q->npieces; i++) {
        memcpy(&iov[n].iov_base, &q->pieces[i].ptr, sizeof(iov[n].iov_base));
        iov[n++].iov_len = q->pieces[i].len;
    }
    return n;
}

/* Sends what is laid, as far as the kernel and the stream's queue take it.  *sent
 * counts those in the queue too, which stay lent while stream_sending(). */
void
h1_request_push(struct h1_request *q, struct stream *s, bool more, uint64_t *sent)
{
    struct iovec iov[H1_REQUEST_PIECES];
    unsigned n = h1_request_gather(q, iov);
    ssize_t taken;

    if (n == 0 || stream_sending(s))
        return;
    q->begun = true;
    taken = stream_try(s, iov, n, more);
    if (taken >= 0) {
        h1_request_skip(q, (size_t)taken);
        *sent += (uint64_t)taken;
        n = h1_request_gather(q, iov);
        taken = n > 0 ? stream_queue(s, iov, n) : 0;
    }
    if (taken < 0) {
        q->failed = true;
        q->npieces = q->at = 0;
        return;
    }
    h1_request_skip(q, (size_t)taken);
    *sent += (uint64_t)taken;
}

/* RFC 9112 7.1: the last chunk is laid only at the end that the user gives.
 * A chunk for each call.  Its size line lies in `q`, because it must outlive the call. */
static void
h1_request_lay_body(struct h1_request *q, const struct iovec *body, unsigned n, bool end)
{
    size_t size = 0;
    int len;

    for (unsigned i = 0; i < n; i++)
        size += body[i].iov_len;
    if (q->chunked && size > 0) {
        len = snprintf(q->size, sizeof(q->size), "%zx\r\n", size);
        h1_request_lay(q, slice_of(q->size, (size_t)len));
    }
    for (unsigned i = 0; i < n; i++)
        h1_request_lay(q, slice_of(body[i].iov_base, body[i].iov_len));
    if (!q->chunked)
        return;
    if (end)
        h1_request_lay(q, size > 0 ? SLICE_LIT("\r\n0\r\n\r\n") : SLICE_LIT("0\r\n\r\n"));
    else if (size > 0)
        H1_LAY(q, "\r\n");
}

/* TERR_AGAIN: the one before has not left, and nothing of this one was taken.
 * Its failure may be met before the stream's end is read: until then the user goes on to ask.
 * One call's pieces at a time: those of the next wait until these have left, for pieces are
 * borrowed and the caller's body may move. */
int
h1_request_send(struct h1_request *q, struct stream *s, const struct iovec *body, unsigned n,
    unsigned flags, uint64_t *sent)
{
    bool end = (flags & ORIGIN_END) != 0;

    tassert(n <= ORIGIN_SPANS_MAX && (!q->ended || q->failed));
    if (q->begun && !q->failed)
        h1_request_push(q, s, false, sent);
    if (q->failed)
        return TERR_CLOSED;
    if (stream_sending(s) || h1_request_is_kept(q))
        return TERR_AGAIN;
    if (q->at == q->npieces)
        q->npieces = q->at = 0;
    h1_request_lay_body(q, body, n, end);
    q->ended = end;
    h1_request_push(q, s, (flags & ORIGIN_MORE) != 0, sent);
    return q->failed ? TERR_CLOSED : 0;
}
