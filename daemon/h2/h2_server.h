/* h2_server.h -- HTTP/2 toward clients: connections, streams, flow control (RFC 9113).
 *
 * One per loop that accepts, a conn_server (http/conn_server.h).  Each stream is an exchange
 * (http/exchange.h); a connection is one task, which reads frames, starts exchanges, and gathers what
 * they answer into one write.
 *
 * The client decides nothing alone that costs more than it pays: streams, field blocks, frames of a
 * turn and answers that are not taken are bounded, and what brings no work is counted until the
 * connection is ended with ENHANCE_YOUR_CALM (h2_trouble()).
 *
 * Threads: one loop's.
 */
#ifndef TARN_H2_SERVER_H
#define TARN_H2_SERVER_H

#include "daemon/http/conn_server.h"

struct client_conf;
struct counter_set;
struct h2_conf;
struct loop;
struct shmlog;

struct h2_server_env {
    struct loop *loop;
    const struct client_conf *conf; /* borrowed until close, as h2 */
    const struct h2_conf *h2;
    struct counter_set *counters;
    struct shmlog *log; /* NULL: none */
    exchange_start_f *start;
    void *start_ctx;
};

/* 0 or TERR_NOMEM. */
int h2_server_open(struct conn_server **out, const struct h2_server_env *env);

#endif
