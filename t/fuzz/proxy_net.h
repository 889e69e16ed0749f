/* proxy_net.h -- sockets that are memory: daemon/net/stream.h for the fuzzer of the proxy.
 *
 *   wire   one connection as the world outside has it: what it sent, what it was sent
 *   room   how many bytes the wire takes before it says "not now"
 *
 * The streams above behave as those of net/: one read outstanding until it is consumed, reads
 * into the posted span, at most one queued write, whose bytes are read where they lie as the
 * wire takes them.  Every read has memory of its own, of exactly its size, which goes with the
 * poll after it was consumed, and a stream's goes when it is closed: so the address sanitizer sees
 * who keeps what for too long.
 *
 * Threads: one.
 */
#ifndef TARN_PROXY_NET_H
#define TARN_PROXY_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/base/span.h"

struct stream;

enum {
    WIRES_MAX = 64,
    WIRE_CLIENTS = 2, /* the first wires; what follows are connections to origins */
};
#define WIRE_ROOM_ALL ((size_t)-1)

struct wire_bytes {
    char *ptr;
    size_t len, cap;
};

struct wire {
    unsigned index;
    struct stream *stream; /* NULL once the proxy closed it */
    struct wire_bytes in;  /* all that the peer sent */
    size_t in_at;          /* so much of it the proxy has read */
    int in_end;            /* behind `in`: 0, or TERR_* that the reader is told */
    bool end_seen;         /* it was told */
    bool hears_nothing;    /* the peer has reset it: writing fails */
    struct wire_bytes out; /* all that the proxy sent */
    size_t room;
    size_t in_at_shut; /* `in_at` when the proxy ended its side: what follows it throws away */
    bool shut, was_reset, held; /* by the proxy, by the proxy; a connect that never ends */
    /* an origin's: */
    int refused;         /* why connecting failed */
    size_t asked_at;     /* `out` up to here was understood as requests */
    unsigned nasked;     /* whole requests in `out` */
    bool asking;         /* and the head of one more */
    unsigned nbound;     /* answers given it */
    struct slice answer; /* what is left of the last one */
    bool answer_ends;    /* and then the connection */
};

enum wire_connect {
    WIRE_CONNECT_UP,
    WIRE_CONNECT_REFUSED,
    WIRE_CONNECT_NEVER,
    WIRE_CONNECT_FAILS, /* the call itself does */
};

struct wires {
    struct wire wire[WIRES_MAX];
    unsigned n;
    unsigned nstreams; /* open ones */
    enum wire_connect next_connect;
    size_t origin_room;
    void *spent[2 * WIRES_MAX]; /* consumed: net/'s slabs stay as they are until the next poll */
    unsigned nspent;
};

extern struct wires wires;

void wires_open(void);
/* The memory of what was said. */
void wires_close(void);
/* The peer sends, ends (err: TERR_CLOSED) or breaks the connection. */
void wire_send(struct wire *w, struct slice bytes);
void wire_end(struct wire *w);
void wire_break(struct wire *w);
/* What a poll of the kernel would bring; wakes tasks.  True: something happened. */
bool wires_poll(void);

#endif
