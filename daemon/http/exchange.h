/* exchange.h -- the seam between a protocol and the answerer.
 *
 *   exchange   one request and its response
 *   protocol   parses the request, frames and sends the response (h1/, later h2/)
 *   answerer   decides what the response is (proxy/req)
 *
 * The protocol owns the exchange.  When a request head is complete (or was refused: `err`)
 * it calls the start function it was given.  From then on it changes facts and wakes the
 * answerer's task (base/waiter.h); the answerer looks at the facts and calls the protocol's operations.
 * A protocol never runs that task itself: it may have a hundred exchanges on one connection, and an
 * answerer's operation may end them all.
 * Nothing above this seam knows which protocol it was.
 *
 * Life: start -> [body_read]* -> send(head) -> [send]* -> done, gone or reset -> release.
 * Interim responses may come before the head.  A tunnel (RFC 9110 7.8) is a request with
 * `upgrade` that is answered with tunnel and a head of status 101; from then on body_read and
 * send carry the bytes of whatever protocol it is, each until its own end.
 * The answerer must release every exchange it was started with, when `done` or `gone` is set.  After reset
 * `gone` is set, perhaps later: until then bytes that were accepted are read.
 *
 * Threads: one loop's.  Everything runs in tasks.
 */
#ifndef TARN_EXCHANGE_H
#define TARN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/base/arena.h"
#include "daemon/base/waiter.h"
#include "daemon/http/conn_facts.h"
#include "daemon/http/message.h"
#include "daemon/http/rendering.h"

struct exchange;

#define EXCHANGE_EXTRA          768        /* room for per-request field lines */
#define EXCHANGE_LENGTH_UNKNOWN UINT64_MAX /* END alone marks the end */

enum exchange_flag {
    EXCHANGE_END = 1,  /* these are the last bytes of the response */
    EXCHANGE_MORE = 2, /* more follows in this turn: a packet may wait for it, and no longer */
};

/* The head of a response.  Hop-by-hop fields are left out: framing and persistence are the
 * protocol's.  It stays readable until it is sent. */
struct exchange_response {
    unsigned status;
    /* One of the two.  Rendered: as exchange_ops.rendering has it; prefix and field lines, or a form. */
    struct slice rendered;
    const struct http_message *message;
    uint64_t length;       /* of the body, or EXCHANGE_LENGTH_UNKNOWN */
    bool length_in_fields; /* they have a Content-Length already */
    bool bodyless;         /* answers HEAD, or 204, 304: framed as such, no body follows */
    bool close;            /* end the connection after this */
};

struct exchange_ops {
    /* The form of heads that the protocol sends by reference; NULL: none, it wants messages. */
    const struct http_rendering *rendering;
    /* Copies request body bytes (transfer coding removed) to dst: how many (> 0), 0 at the end
     * of the body, TERR_AGAIN (the task is woken when there is more), or TERR_* when it cannot
     * be had whole.  Asks a client that waits for 100 (Continue) to go on. */
    ssize_t (*body_read)(struct exchange *x, char *dst, size_t room);
    /* Sends the head (`r`, in the first call only) with x->extra behind its fields, then body
     * bytes.  Returns how many body bytes were accepted, perhaps 0: the rest is offered again
     * when the task is woken.  Accepted bytes must stay readable until x->sent covers them.
     * END counts only if all bytes offered with it were accepted.  TERR_CLOSED: gone. */
    ssize_t (*send)(struct exchange *x, const struct exchange_response *r, const struct iovec *body,
        unsigned n, unsigned flags);
    /* An interim response, before the head; copied.  It leaves at once, or not at all: nothing
     * depends on it.  0, sent or not, or TERR_CLOSED: gone. */
    int (*interim)(struct exchange *x, const struct http_message *m);
    /* Grants the upgrade: the next call is send, with a head of status 101, its Upgrade line in
     * its fields, and length unknown.  From now on body_read gives the client's bytes, 0 at
     * their end, also those that came before; END ends our direction alone; `done` is set when
     * both have ended. */
    void (*tunnel)(struct exchange *x);
    /* What was sent is all there will be, for `why` (TERR_*), and the client must know: ends its stream,
     * or the connection where that is all there is. */
    void (*reset)(struct exchange *x, int why);
    /* Where the client connected to: 16 bytes, IPv4 mapped; zeros: a Unix socket, or it is gone.  A system call. */
    void (*local)(struct exchange *x, uint8_t addr[16], uint16_t *port);
    void (*release)(struct exchange *x);
};

/* Where the response to a request belongs that no client sent: within another one's (ESI).  All of them outlive
 * it. */
struct exchange_place {
    const struct exchange *parent, *top; /* the request that it is for; the client's */
    unsigned level;                      /* from 1 */
    void *tree; /* of all requests for the client's; the parent's answerer's */
};

struct exchange {
    const struct exchange_ops *ops;
    struct task *task; /* the answerer's; set by it in start */
    /* `done` is set: gives back what is lent and releases it, now if it can.  Called outside every
     * operation, perhaps again; it calls none but release.  The answerer's, as `task`. */
    void (*over)(struct exchange *x);
    void *answerer; /* the answerer's own */
    struct arena arena;

    /* The request.  Slices stay valid while the exchange lives, but move: read them through
     * `head`, keep no pointers past a task. */
    struct http_message head;
    int err; /* 0, or TERR_*: the head is not to be trusted, answer this and no more */
    bool has_body;
    bool upgrade; /* may be answered with a tunnel; the protocols: its Upgrade field */
    /* With `upgrade`: a success means the tunnel, so nothing but it may be answered with 2xx (RFC 8441 4).
     * The head is as HTTP/1 would have it: GET, Upgrade, and a Sec-WebSocket-Key that is not the client's. */
    bool connect;
    uint64_t body_length;    /* EXCHANGE_LENGTH_UNKNOWN: chunked */
    enum http_scheme scheme; /* the client's: its connection's, or what a trusted proxy says */
    uint64_t xid;            /* the request id */
    uint64_t start_us;       /* monotonic, when its turn came after the first byte */
    const struct conn_facts *conn;      /* its connection's, or those that a trusted proxy says */
    const struct exchange_place *place; /* NULL: a client sent it */

    /* Facts, changed by the protocol. */
    uint64_t sent; /* body bytes that will never be read again */
    bool done;     /* all of the response has left */
    bool gone;     /* the client is not there any more */
    bool writable; /* send would accept something */
    bool gathered; /* all was accepted; it leaves before the turn ends, then the task is woken */

    uint32_t head_bytes; /* of the response's head as it was sent; 0: not yet */

    /* The answerer's field lines for this response (Age, Cache-Status ...; http/field_line.h). */
    uint16_t extra_len;
    char *extra; /* the protocol's, EXCHANGE_EXTRA bytes */
};

/* exchange.over where the task of the answerer looks at `done` itself. */
static inline void
exchange_over_to_task(struct exchange *x)
{
    task_wake_now(x->task);
}

/* Called by the protocol, in a task. */
typedef void exchange_start_f(void *ctx, struct exchange *x);

#endif
