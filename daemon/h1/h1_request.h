/* h1_request.h -- a request on its way to an origin: the text of its head, and its body's framing.
 *
 * The pieces of a head are references: into the message (its field lines go out as one run), and to
 * constants.  A body goes out as it is, or in chunks (RFC 9112 7.1).  What the stream does not take at
 * once is kept, by reference, until it does.
 *
 * Threads: one loop's.
 */
#ifndef TARN_H1_REQUEST_H
#define TARN_H1_REQUEST_H

#include "daemon/http/origin_exchange.h"

struct stream;

enum {
    /* The PROXY header; six of the request line and Host; fields; Content-Length; three of Upgrade;
     * the blank line.  Then a chunk: its size, spans, its end. */
    H1_REQUEST_PIECES = 13 + ORIGIN_SPANS_MAX + 2,
};

struct h1_request {
    struct slice pieces[H1_REQUEST_PIECES]; /* from `at` on: not handed to the stream yet */
    uint8_t npieces, at;
    bool begun;   /* the stream was given something of it */
    bool chunked; /* the framing of its body */
    bool ended;   /* the user gave all of it */
    bool failed;  /* the stream takes nothing more */
    char length[40], size[20];
};

/* `preface` goes before its first byte. */
void h1_request_begin(struct h1_request *q, const struct origin_request *r, struct slice preface);
/* origin_exchange_ops.send */
int h1_request_send(struct h1_request *q, struct stream *s, const struct iovec *body, unsigned n,
    unsigned flags, uint64_t *sent);
/* Hands what is kept to the stream, as much as it takes, and adds to *sent. */
void h1_request_push(struct h1_request *q, struct stream *s, bool more, uint64_t *sent);

/* Something of it is kept, that the stream once refused. */
static inline bool
h1_request_is_kept(const struct h1_request *q)
{
    return q->begun && q->at < q->npieces;
}

/* All of it was handed to the stream. */
static inline bool
h1_request_is_sent(const struct h1_request *q)
{
    return q->ended && !q->failed && q->at == q->npieces;
}

#endif
