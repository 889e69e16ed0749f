/* conn_server.h -- the seam between an accepted stream and the protocol that is spoken on it.
 *
 * A protocol server serves the client connections of one loop.  net/incoming hands it a stream
 * that begins with the protocol's own bytes; the server reads requests from it and starts an
 * exchange (http/exchange.h) for each.  h1/ is one; another protocol is one more implementation
 * of these operations, and nothing else.
 *
 * A server embeds `struct conn_server` and fills in `ops` and `protocol`.  net/incoming fills in the
 * rest when the server is added to it.
 *
 * Threads: one loop's.  Everything runs in tasks.
 */
#ifndef TARN_CONN_SERVER_H
#define TARN_CONN_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/conn_facts.h"
#include "daemon/http/exchange.h"

struct conn_server;
struct stream;

/* Connections go to one server of each: net/incoming.h says which. */
enum conn_protocol {
    CONN_HTTP1,
    CONN_HTTP2,
    CONN_NONE, /* ids of requests that no client sent */
};

enum {
    CONN_PROTOCOLS = 2
};

struct conn_server_ops {
    /* A connection begins.  Takes *stream and sets it to NULL; copies `facts`.  What the stream
     * has received already is the connection's.  0; or TERR_NOMEM, and nothing was taken. */
    int (*adopt)(struct conn_server *s, struct stream **stream, const struct conn_facts *facts);
    /* Requests that begin from now on are started so; with the same context. */
    void (*set_start)(struct conn_server *s, exchange_start_f *start);
    /* Idle connections end now, the others after the response they are at. */
    void (*drain)(struct conn_server *s);
    /* Each connection ends after its next response, which says so, or when it has been idle for
     * too long: no request meets a connection that was closed for the drain's sake (RFC 9112 9.5). */
    void (*drain_gently)(struct conn_server *s);
    /* Every connection ends now. */
    void (*cut)(struct conn_server *s);
    /* The connection with this number ends now.  False: there is none, or it has ended. */
    bool (*cut_one)(struct conn_server *s, uint64_t session);
    /* Ends at most `most` connections that have waited for a request for so long, the oldest first.
     * One call may look at a part of them only.  Returns how many ended. */
    unsigned (*shed_idle)(struct conn_server *s, unsigned most, int64_t idle_ms);
    /* Half of the memory that lies ready for the next connections goes back: see net_loop_trim(). */
    void (*trim)(struct conn_server *s);
    /* No connection is left.  Takes *s. */
    void (*close)(struct conn_server **s);
};

struct conn_server {
    const struct conn_server_ops *ops;
    uint8_t protocol; /* enum conn_protocol */
    /* net/incoming's */
    struct conn_server *next;
    void (*ended)(
        void *ctx, const struct conn_facts *facts); /* the server calls it once for each */
    void *ended_ctx;                                /* connection, when it has gone */
};

/* Where the ids of a server's requests begin: 2 bits of the protocol, 14 of the loop, then the second it
 * began in, and 20 bits to count in.  No two servers share one, nor does a process with the one before it. */
static inline uint64_t
conn_server_first_xid(enum conn_protocol protocol, unsigned loop, int64_t wall_ms)
{
    uint64_t second = (uint64_t)(wall_ms / 1000) & ((UINT64_C(1) << 28) - 1); /* of 8.5 years */

    return (uint64_t)protocol << 62 | (uint64_t)loop << 48 | second << 20;
}

#endif
