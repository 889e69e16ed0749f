/* h1_server.h -- HTTP/1 toward clients: connections, exchanges, answers in order.
 *
 * One per loop that accepts, a conn_server (http/conn_server.h).  It parses requests and starts
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

#include "daemon/http/conn_server.h"

struct client_conf;
struct counter_set;
struct loop;

struct h1_server_env {
    struct loop *loop;
    const struct client_conf *conf; /* borrowed until close */
    struct counter_set *counters;
    exchange_start_f *start;
    void *start_ctx;
};

/* 0 or TERR_NOMEM. */
int h1_server_open(struct conn_server **out, const struct h1_server_env *env);

/* Says which connection ran last on this thread (tassert_describe). */
void h1_server_describe(void);

#endif
