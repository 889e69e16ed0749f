/* h1_server.h -- HTTP/1 toward clients: connections, exchanges, answers in order.
 *
 * One `h1_server` per worker.  It is given connected descriptors, parses requests and starts
 * an exchange for each (http/exchange.h); pipelined requests are answered in order, and
 * answers that are ready together leave in one write.
 *
 * A malformed message is answered once and the connection ends: no byte after it is
 * interpreted (RFC 9112 2.2, 11).
 *
 * Threads: one loop's.
 */
#ifndef TARN_H1_SERVER_H
#define TARN_H1_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/exchange.h"

struct address_nets;
struct h1_conf;
struct counter_set;
struct h1_server;
struct loop;

struct h1_server_env {
    struct loop *loop;
    const struct h1_conf *conf; /* borrowed until close */
    struct counter_set *counters;
    exchange_start_f *start;
    void *start_ctx;
    void (*on_empty)(void *ctx); /* draining, and the last connection has gone; start_ctx */
    _Atomic int64_t *conns;      /* connections of all workers: counted up and down here */
    /* The client of a connection is known; start_ctx.  1: client_ends() follows; 0: it does not;
     * TERR_LIMIT: the connection is closed.  NULL: clients are not asked about. */
    int (*client_begins)(void *ctx, const uint8_t addr[16]);
    void (*client_ends)(void *ctx, const uint8_t addr[16]);
};

/* 0 or TERR_NOMEM. */
int h1_server_open(struct h1_server **out, const struct h1_server_env *env);
/* No connection is left. */
void h1_server_close(struct h1_server **sp);

/* Takes the descriptor of an accepted connection.  0 or TERR_NOMEM. */
int h1_server_accept(struct h1_server *s, int fd, bool is_unix);
/* The same, and what exchanges shall know of the listener; borrows
 * them until the connection has ended. */
int h1_server_accept_from(
    struct h1_server *s, int fd, bool is_unix, const struct conn_listener *listener);
/* The same, of a listener whose connections begin with a PROXY header (http/proxy_header.h), and
 * only those of `trusted`, if there are any; else the connection is closed. */
int h1_server_accept_proxied(struct h1_server *s, int fd, bool is_unix,
    const struct conn_listener *listener, const struct address_nets *trusted);
/* The same as h1_server_accept_from; of a Unix socket exchanges know whose process asks
 * (conn_operator).  The connection is unproven until one of its requests is authorized
 * (conn_operator.admitted). */
int h1_server_accept_known(
    struct h1_server *s, int fd, bool is_unix, const struct conn_listener *listener);
unsigned h1_server_unproven(const struct h1_server *s);
/* Ends unproven connections that were accepted at least so long ago: all of them, or the oldest.
 * How many ended. */
unsigned h1_server_drop_unproven(struct h1_server *s, int64_t age_ms, bool all);
/* Ends at most `most` connections that have waited for a request for so long, the oldest first; it
 * looks at some hundred.  How many ended. */
unsigned h1_server_shed_idle(struct h1_server *s, unsigned most, int64_t idle_ms);
unsigned h1_server_connections(const struct h1_server *s);

/* Requests that begin from now on are started so; with the same context. */
void h1_server_set_start(struct h1_server *s, exchange_start_f *start);
/* Idle connections end now, the others after the response they are at. */
void h1_server_drain(struct h1_server *s);
/* Each connection ends after its next response, which says so, or when it has been idle for too long: no
 * request meets a connection that was closed for the drain's sake (RFC 9112 9.5). */
void h1_server_drain_gently(struct h1_server *s);
/* Half of the memory that lies ready for the next connections goes back: see net_loop_trim(). */
void h1_server_trim(struct h1_server *s);
/* Every connection ends now. */
void h1_server_cut(struct h1_server *s);

/* Says which connection ran last on this thread (tassert_describe). */
void h1_server_describe(void);

#endif
