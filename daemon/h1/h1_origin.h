/* h1_origin.h -- HTTP/1 toward an origin: one connection, one request at a time.
 *
 * The user's task is run when a fact changed; it then asks again.  A request is sent with
 * h1_origin_send, its response read with h1_origin_head and h1_origin_body.  Body bytes land
 * where the user says: straight from the socket, but for those that came with the head.
 *
 * An origin is not trusted: its framing is judged by http/framing.h, and a connection with
 * one byte too many is not used again (RFC 9112 11.2).
 *
 * Threads: one loop's.  Errors: TERR_*.
 */
#ifndef TARN_H1_ORIGIN_H
#define TARN_H1_ORIGIN_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/base/span.h"
#include "daemon/http/message.h"

struct conf_address;
struct h1_conf;
struct framing;
struct h1_origin;
struct loop;
struct task;

/* Starts connecting.  0; TERR_NOMEM, TERR_LIMIT or what forbids it. */
int h1_origin_open(struct h1_origin **out, struct loop *l, const struct h1_conf *conf,
    const struct conf_address *to, unsigned nth, struct task *user);
/* At any time: nothing of the user's is read or written any more. */
void h1_origin_close(struct h1_origin **op);
void h1_origin_set_user(struct h1_origin *o, struct task *user);
/* 0: up; TERR_AGAIN; or why not. */
int h1_origin_connected(const struct h1_origin *o);

/* Ready for the next request, whose method is `asked`. */
void h1_origin_begin(struct h1_origin *o, enum http_method asked);
/* Bytes accepted (0: none now, the user is woken), or TERR_CLOSED.  They must stay readable
 * until h1_origin_sending is false. */
ssize_t h1_origin_send(struct h1_origin *o, const struct iovec *iov, unsigned n, bool more);
bool h1_origin_sending(const struct h1_origin *o);
/* The request is complete: without this the connection is not used again. */
void h1_origin_sent(struct h1_origin *o);

/* After begin: interim responses (RFC 9110 15.2; not 100, which is only for us) are to be read
 * with h1_origin_interim, and h1_origin_head answers TERR_AGAIN while one has not been; the
 * user is woken for it.  Without this they are skipped. */
void h1_origin_want_interim(struct h1_origin *o, bool want);
/* 0 and the next one's head, borrowed until the next call; TERR_AGAIN: none has arrived.  What
 * is wrong h1_origin_head tells. */
int h1_origin_interim(struct h1_origin *o, const struct http_message **out);
/* After begin: the request asks for `protocols`, its Upgrade (borrowed until there is a head).
 * Without this a 101 is an error.  After a 101 the connection is a tunnel: h1_origin_body
 * gives its bytes, 0 at the origin's end, and h1_origin_send takes any. */
void h1_origin_want_upgrade(struct h1_origin *o, struct slice protocols);
/* A tunnel's other direction: no byte follows those that were sent. */
void h1_origin_shut(struct h1_origin *o);

/* The final response's head: 0, borrowed until close or the next begin; TERR_AGAIN; or
 * TERR_*. */
int h1_origin_head(struct h1_origin *o, const struct http_message **out);
/* How the body is framed; once there is a head. */
const struct framing *h1_origin_framing(const struct h1_origin *o);
/* Body bytes into `room`: how many; 0: the end; TERR_AGAIN: the room is lent to the socket
 * until the call that answers otherwise, with the same room; TERR_CLOSED: cut short; TERR_*. */
ssize_t h1_origin_body(struct h1_origin *o, struct span room);
/* Would it answer 0, whatever the room?  Once there is a head. */
bool h1_origin_body_done(const struct h1_origin *o);
/* Has any byte of this response arrived? */
bool h1_origin_heard(const struct h1_origin *o);
bool h1_origin_ended(const struct h1_origin *o);
/* The other end's address; zeros for a Unix socket. */
void h1_origin_peer(const struct h1_origin *o, uint8_t addr[16], uint16_t *port);
/* Bytes arrive as long as this grows: for deadlines. */
uint64_t h1_origin_bytes(const struct h1_origin *o);
/* May it carry another request?  Also false as soon as an idle one hears anything. */
bool h1_origin_reusable(const struct h1_origin *o);
/* Asked of the kernel when an idle one is taken again: bytes behind the last response, or the
 * origin's end, may have come without our having read them. */
bool h1_origin_quiet(const struct h1_origin *o);
/* The response has been read and it is reusable: between requests. */
void h1_origin_rest(struct h1_origin *o);

#endif
