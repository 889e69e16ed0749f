/* incoming.h -- client connections from the accepted socket to their protocol.
 *
 *   accept -> [PROXY header] -> [handshake of TLS, or h2c's first bytes] -> conn_server_ops.adopt
 *
 * One `struct incoming` per loop that accepts.  It makes the stream, finds out the connection's
 * facts (http/conn_facts.h) and gives both to a protocol server.  From then on it keeps nothing of
 * a plain connection but a count.
 *
 * HTTP/2's server gets a connection with a handshake that agreed on "h2" (RFC 9113 3.2), and one of a listener
 * with `h2c` that begins with HTTP/2's preface (3.3, 3.4), or with `h2c_only`; HTTP/1's server gets any other,
 * and all of them where there is no server of HTTP/2.  The first bytes are all still in the stream then.
 *
 *   waiting    a connection with an incomplete PROXY header, handshake or preface.  No protocol has any
 *              state for it.  It has one deadline for all, and its memory is USAGE_INCOMING
 *   operator   a connection of the admin listener.  It is unproven until one of its requests is
 *              authorized (conn_operator.admitted)
 *
 * Threads: one loop's.
 */
#ifndef TARN_INCOMING_H
#define TARN_INCOMING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/address.h"
#include "daemon/http/conn_server.h"

struct counter_set;
struct incoming;
struct loop;
struct secure_server;

/* What a listener says of its connections. */
struct incoming_listener {
    struct conn_listener facts;
    struct address_nets trusted;  /* with is_proxied: senders of PROXY headers; none: any sender */
    struct secure_server *secure; /* borrowed: each connection begins with its handshake, behind the
                                     header; NULL: none */
    bool is_proxied;              /* each connection begins with a PROXY header */
    bool is_admin;                /* its connections are operators' */
    bool h2c; /* without `secure`: a client may begin with HTTP/2 (RFC 9113 3.3, prior knowledge) */
    bool h2c_only; /* with `h2c`: it must; HTTP/2's server ends what begins otherwise (3.4) */
};

struct incoming_env {
    struct loop *loop;
    struct counter_set *counters;
    const int64_t *
        header_ms; /* borrowed: for PROXY header, handshake and preface, from the accept; read at each accept */
    _Atomic int64_t *conns;      /* connections of all loops: counted up and down here */
    void *ctx;                   /* of the functions below */
    void (*on_empty)(void *ctx); /* draining, and the last connection has gone */
    /* A connection with early data is about to get its protocol.  NULL: there are none. */
    void (*on_early)(void *ctx);
    /* The client of a connection is known.  1: client_ends() follows; 0: it does not; TERR_LIMIT: the
     * connection is closed.  NULL: clients are not counted. */
    int (*client_begins)(void *ctx, const uint8_t addr[16]);
    void (*client_ends)(void *ctx, const uint8_t addr[16]);
};

/* 0 or TERR_NOMEM. */
int incoming_open(struct incoming **out, const struct incoming_env *env);
/* Takes *s, the only one of its protocol, which serves connections that come from now on.  There must be
 * one of HTTP/1 before the first connection. */
void incoming_serve(struct incoming *in, struct conn_server **s);
/* Closes the servers too.  No connection is left. */
void incoming_close(struct incoming **inp);

/* Takes the descriptor of an accepted connection.  Borrows `l` until the connection has ended.
 * 0, also when the connection was closed because of what it is; or TERR_*, when there is no
 * memory for it. */
int incoming_accept(struct incoming *in, int fd, bool is_unix, const struct incoming_listener *l);

/* Those that wait, too. */
unsigned incoming_connections(const struct incoming *in);
unsigned incoming_waiting(const struct incoming *in);
/* Ends at most `most` connections that have waited for a request, or for their protocol, for so
 * long.  Returns how many ended. */
unsigned incoming_shed_idle(struct incoming *in, unsigned most, int64_t idle_ms);

unsigned incoming_unproven(const struct incoming *in);
/* Ends unproven connections that were accepted at least so long ago: all of them, or the oldest.
 * Returns how many ended. */
unsigned incoming_drop_unproven(struct incoming *in, int64_t age_ms, bool all);

/* To every server.  Connections that wait end with drain and cut, and go on with drain_gently. */
void incoming_set_start(struct incoming *in, exchange_start_f *start);
void incoming_drain(struct incoming *in);
void incoming_drain_gently(struct incoming *in);
void incoming_cut(struct incoming *in);
void incoming_trim(struct incoming *in);

#endif
