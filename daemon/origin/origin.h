/* origin.h -- backends as a worker sees them: connections that are made, kept and shared out.
 *
 *   backend  an origin server (director.h)
 *   conn     one connection to it: in use by one fetch, or idle in the worker's pool
 *
 * An idle connection that hears anything, or its end, is closed at once (RFC 9112 11.2).
 *
 * Threads: one worker's; only the count of connections is shared among workers.
 */
#ifndef TARN_ORIGIN_H
#define TARN_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/base/span.h"
#include "daemon/base/waiter.h"
#include "daemon/http/message.h"

struct backend;
struct counter_set;
struct framing;
struct h1_conf;
struct loop;
struct origin_conn;
struct origins;
struct task;

/* 0 or TERR_NOMEM.  Borrows everything until origins_close(). */
int origins_open(
    struct origins **out, struct loop *l, const struct h1_conf *h1, struct counter_set *counters);
/* Closes idle connections to backends that nobody holds any more, and to addresses that they have
 * no more: about once a second. */
void origins_tick(struct origins *os);
/* Closes the idle connections; those in use are closed when they are given back. */
void origins_drain(struct origins *os);
void origins_close(struct origins **op);

/* A connection for `user`: idle, unless `fresh`, else a new one, perhaps still connecting.
 * `attempt` chooses among a name's addresses.  The caller holds the backend during the call; the
 * connection, as long as there is one, keeps its memory.  TERR_NOBACKEND: sick, or none;
 * TERR_BUSY: max_connections; or what forbids it. */
int origin_take(struct origin_conn **out, struct origins *os, struct backend *b, bool fresh,
    unsigned attempt, struct task *user);
/* Who is refused with TERR_BUSY may wait for a connection, if the backend has a queue; in the order
 * in which they came, whatever the worker.  Who waits holds the backend.
 *
 * must_queue   others wait, or were called and have not taken theirs: do not take, queue
 * queue        0: the user is woken when he may try to take again, and queues again if that says
 *              TERR_BUSY, ahead of the others; or TERR_BUSY: there is no queue, or it is full
 * leave_queue  he has a connection, or gave up; without having queued: nothing.  The memory may go
 *              when the waiter is not pending
 *
 * How long one waits is the user's to say (queue_timeout). */
struct origin_turn {
    struct waiter waiter;
    bool waits; /* counted among those who wait */
};
void origin_turn_init(struct origin_turn *t, struct loop *l, struct task *user);
bool origin_must_queue(const struct backend *b, const struct origin_turn *t);
int origin_queue(struct origins *os, struct backend *b, struct origin_turn *t);
void origin_leave_queue(struct origins *os, struct backend *b, struct origin_turn *t);
/* Has it served a request before?  Then its end, before a byte of response, means little. */
bool origin_reused(const struct origin_conn *oc);
/* One exchange over it.  The user's task is run when a fact changed; it then asks again.
 *
 * connected   0, TERR_AGAIN, or why not
 * send        bytes accepted (0: none now), or TERR_CLOSED; they stay readable until
 *             origin_sending is false; `sent` says that the request is complete
 * head        0 and the final response's head, borrowed; TERR_AGAIN; or TERR_*
 * body        bytes put into `room`; 0: the end; TERR_AGAIN: the room is lent to the socket
 *             until the call that answers otherwise; TERR_CLOSED: cut short; TERR_*
 *
 * After begin and before head:
 * want_interim   interim responses but 100 are read with `interim` (0 and a head, borrowed until
 *                the next call, or TERR_AGAIN); while one has not been, `head` answers
 *                TERR_AGAIN and wakes the user.  Without it they are skipped.
 * want_upgrade   the request asks for these protocols (its Upgrade, borrowed until there is a
 *                head): a 101 that names one of them is the final head, and from then on `body`
 *                and `send` carry a tunnel's bytes; `shut` ends our direction.  Without it a 101
 *                is an error. */
int origin_connected(const struct origin_conn *oc);
void origin_begin(struct origin_conn *oc, enum http_method asked);
ssize_t origin_send(struct origin_conn *oc, const struct iovec *iov, unsigned n, bool more);
bool origin_sending(const struct origin_conn *oc);
void origin_sent(struct origin_conn *oc);
void origin_want_interim(struct origin_conn *oc, bool want);
int origin_interim(struct origin_conn *oc, const struct http_message **out);
void origin_want_upgrade(struct origin_conn *oc, struct slice protocols);
void origin_shut(struct origin_conn *oc);
int origin_head(struct origin_conn *oc, const struct http_message **out);
const struct framing *origin_framing(const struct origin_conn *oc);
ssize_t origin_body(struct origin_conn *oc, struct span room);
bool origin_body_done(const struct origin_conn *oc);
/* The other end's address; zeros for a Unix socket, and when the connection is gone. */
void origin_peer(const struct origin_conn *oc, uint8_t addr[16], uint16_t *port);
/* Has any byte of this response arrived? */
bool origin_heard(const struct origin_conn *oc);
/* Has the origin ended its side?  What it said before is still there. */
bool origin_ended(const struct origin_conn *oc);

/* It goes from one task of this loop to another, in the midst of what it is at: a tunnel. */
void origin_set_user(struct origin_conn *oc, struct task *user);

/* Back to the pool, if it may be used again, else closed. */
void origin_give(struct origin_conn **ocp);
void origin_discard(struct origin_conn **ocp);

#endif
