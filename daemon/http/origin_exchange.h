/* origin_exchange.h -- the seam between a user that asks an origin and the protocol it asks in.
 *
 *   origin exchange   a connection to an origin, as one request and its response after the other
 *   protocol          connects, writes and frames the request, parses the response (h1/, later h2/)
 *   user              sends a request and reads its response: a fetch, a tunnel, a probe
 *
 * It is the counterpart of http/exchange.h.  The protocol owns the exchange, changes facts and
 * wakes the user's task when one changed; the user looks at the facts and calls the operations.  Nothing
 * above this seam knows which protocol it is.
 *
 * Life: open -> connected -> [begin -> [send]* -> [interim]* -> head -> [body]* -> rest]* -> close.
 * The request line or what stands for it, Host, framing and connection-level fields are the
 * protocol's: the user gives a message, and body bytes without any framing.
 *
 * An origin is not trusted: what it sends is judged by http/framing.h, and a connection that got
 * one byte too many is not used again (RFC 9112 11.2).
 *
 * Threads: one loop's.  Everything runs in tasks.  Errors: TERR_*.
 */
#ifndef TARN_ORIGIN_EXCHANGE_H
#define TARN_ORIGIN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

struct loop;
struct origin_exchange;
struct stream_target;
struct task;

#define ORIGIN_LENGTH_UNKNOWN UINT64_MAX

enum {
    ORIGIN_SPANS_MAX = 4 /* of one send */
};

enum origin_flag {
    ORIGIN_END = 1,  /* these are the last bytes of the request's body, perhaps none */
    ORIGIN_MORE = 2, /* more follows in this turn: a packet may wait for it, and no longer */
};

/* The next request. */
struct origin_request {
    /* Method, path, authority, and end-to-end fields in one run (message_out.h): no Host, which is the
     * authority, and nothing of framing and connection.  It stays readable until the request has left. */
    const struct http_message *head;
    bool has_body;        /* also an empty one with a Content-Length (RFC 9110 8.6) */
    uint64_t body_length; /* of it; ORIGIN_LENGTH_UNKNOWN: END tells */
    bool close;           /* it is the last one over its connection */
    /* The user reads interim responses (RFC 9110 15.2) with `interim`.  Else they are skipped, and
     * 100 always is. */
    bool want_interim;
    /* Protocols to switch to, the value of Upgrade, borrowed until there is a head; empty: none, and
     * a 101 is an error. */
    struct slice upgrade;
    /* Our own Sec-WebSocket-Key, read in begin; empty: it is the client's.  A 101 must prove that it answers
     * it, and says so no more; a 2xx is an error. */
    struct slice websocket_key;
};

struct origin_exchange_ops {
    /* Takes the next request; nothing leaves before the first send. */
    void (*begin)(struct origin_exchange *x, const struct origin_request *r);
    /* The head, with the first call, and body bytes; flags are those of enum origin_flag.  0: all of it
     * was accepted, and must stay readable until `sending` is false.  TERR_AGAIN: nothing was, for
     * something is still sending; the task is woken when that has left.  TERR_CLOSED: the origin
     * takes no more.  Without END a body never ends for the origin, and the connection is not used again. */
    int (*send)(struct origin_exchange *x, const struct iovec *body, unsigned n, unsigned flags);
    /* Is something of what was accepted still to leave? */
    bool (*sending)(struct origin_exchange *x);
    /* 0 and the next interim response, borrowed until the next call; TERR_AGAIN: none has come.
     * `head` tells what is wrong, and answers TERR_AGAIN while one has not been read. */
    int (*interim)(struct origin_exchange *x, const struct http_message **out);
    /* 0 and the head of the final response, borrowed until close or the next begin; TERR_AGAIN; or
     * TERR_*.  After a 101 the connection is a tunnel: body gives its bytes, 0 at the origin's end,
     * and send takes any. */
    int (*head)(struct origin_exchange *x, const struct http_message **out);
    /* Body bytes into `room`: how many; 0: the end; TERR_AGAIN: the room is lent to the protocol
     * until the call that answers otherwise, with the same room; TERR_CLOSED: cut short; TERR_*. */
    ssize_t (*body)(struct origin_exchange *x, struct span room);
    /* A tunnel: no byte follows those that were sent. */
    void (*shut)(struct origin_exchange *x);
    /* The other end's address; zeros for a Unix socket. */
    void (*peer)(struct origin_exchange *x, uint8_t addr[16], uint16_t *port);

    /* For the pool.  May it carry another request?  Of an idle one false too as soon as it heard
     * anything. */
    bool (*reusable)(struct origin_exchange *x);
    /* Asks the kernel, before an idle one is taken: has nothing come that was not read yet? */
    bool (*quiet)(struct origin_exchange *x);
    /* It is reusable, and becomes idle. */
    void (*rest)(struct origin_exchange *x);
    /* At any time, and sets *xp to NULL: nothing of the user's is read or written any more. */
    void (*close)(struct origin_exchange **xp);
};

struct origin_exchange {
    const struct origin_exchange_ops *ops;
    struct task *task; /* the user's, and the user's to set; NULL: no task is woken */

    /* Facts, changed by the protocol. */
    int connected;   /* 0: up; TERR_AGAIN: not yet; else why not */
    const char *why; /* it is not, or broke, in more words; until close; NULL: there are none */
    uint64_t sent;   /* grows, and the task is woken, while the origin takes what was accepted */
    int ended;      /* 0; TERR_CLOSED: the origin has ended its side, but what came before can still
                     * be read; else what broke the connection */
    bool heard;     /* a byte of this response has come */
    bool reused;    /* it carried a request before: its end, before a byte came, means little */
    bool body_done; /* body would return 0, whatever the room */
    /* Of the response, once there is a head. */
    uint64_t body_length;    /* bytes of its body; ORIGIN_LENGTH_UNKNOWN: the end tells */
    uint64_t content_length; /* as Content-Length says, also where no body follows (HEAD, 304);
                              * ORIGIN_LENGTH_UNKNOWN: it says nothing */
};

struct origin_target {
    const struct stream_target *to;
    struct slice preface; /* bytes before all that the protocol sends: a PROXY header; copied */
};

/* Starts connecting.  0 and the exchange; TERR_NOMEM, TERR_LIMIT or what forbids it. */
struct origin_protocol {
    int (*open)(struct origin_exchange **out, struct loop *l, const struct origin_protocol *p,
        const struct origin_target *target);
    const void *conf; /* the protocol's own */
};

#endif
