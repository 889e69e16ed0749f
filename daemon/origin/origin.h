/* origin.h -- backends as a worker sees them: connections that are made, kept and shared out.
 *
 *   backend  an origin server (director.h)
 *   conn     one connection to it: in use by one fetch, or idle in the worker's pool; a request
 *            and its response go over it (http/origin_exchange.h)
 *
 * An idle connection that hears anything, or its end, is closed at once (RFC 9112 11.2).
 *
 * Threads: one worker's; only the count of connections is shared among workers.
 */
#ifndef TARN_ORIGIN_H
#define TARN_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/waiter.h"
#include "daemon/http/origin_exchange.h"

struct backend;
struct counter_set;
struct loop;
struct origin_conn;
struct origins;
struct proxy_header;
struct task;

/* 0 or TERR_NOMEM.  Borrows everything until origins_close(). */
int origins_open(
    struct origins **out, struct loop *l, struct origin_protocol p, struct counter_set *counters);
/* Closes idle connections to backends without a hold, and to addresses that they have no more:
 * about once a second. */
void origins_tick(struct origins *os);
/* Closes the idle connections; those in use are closed when they are given back. */
void origins_drain(struct origins *os);
void origins_close(struct origins **op);

struct origin_want {
    bool fresh;       /* a new one, none that was idle */
    unsigned attempt; /* chooses among a name's addresses */
    const struct proxy_header
        *ends; /* the client's, for a backend with proxy_header; NULL: our own */
};

/* A connection for `user`: idle, or a new one, perhaps still connecting.  The caller holds the backend
 * during the call; the connection, as long as there is one, keeps its memory.  TERR_NOBACKEND: sick,
 * or none; TERR_BUSY: max_connections; or what forbids it. */
int origin_take(struct origin_conn **out, struct origins *os, struct backend *b,
    const struct origin_want *want, struct task *user);
/* A user refused with TERR_BUSY may wait for a connection, if the backend has a queue: in the order
 * of arrival over all workers.  A waiting user holds the backend.
 *
 * must_queue   others wait, or were called and have not taken theirs: do not take, queue
 * queue        0: the user is woken when it may try to take again, and queues again if that says
 *              TERR_BUSY, ahead of the others; or TERR_BUSY: there is no queue, or it is full
 * leave_queue  the user has a connection, or gave up; without having queued: nothing.  The
 *              memory may go when the waiter is not pending
 *
 * How long one waits is the user's to say (queue_timeout). */
struct origin_turn {
    struct waiter waiter;
    bool waits; /* counted among the waiting */
};
void origin_turn_init(struct origin_turn *t, struct loop *l, struct task *user);
bool origin_must_queue(const struct backend *b, const struct origin_turn *t);
/* `patient`: it waits although the backend has no queue_timeout. */
int origin_queue(struct origins *os, struct backend *b, struct origin_turn *t, bool patient);
void origin_leave_queue(struct origins *os, struct backend *b, struct origin_turn *t);
/* What goes over it; it lives as long as the connection.  A user that hands the connection to another
 * one sets its task. */
struct origin_exchange *origin_exchange(const struct origin_conn *oc);

/* Back to the pool, if it may be used again, else closed. */
void origin_give(struct origin_conn **ocp);
void origin_discard(struct origin_conn **ocp);

#endif
