/* stream.h -- a connected byte stream: TCP or a Unix socket, plain or secure.
 *
 * Its events are facts, and one task that is woken when any of them changed:
 *
 *   received   bytes that arrived, not yet consumed; or the end, or an error
 *   sending    bytes handed over that the kernel has not taken yet
 *   connected  an outgoing stream is up, or failed
 *
 * Reading stays on while the stream lives; what arrives lands in the loop's slab, or in the
 * span its owner posted.  Received bytes must be consumed (or copied) by the owner's task in
 * the turn in which it is woken.  An owner that cannot take more pauses the stream.
 *
 * Writing: stream_try sends what the kernel takes at once.  What is left goes to
 * stream_queue, as many bytes and buffers as LIMIT_UNSENT_BYTES and LIMIT_QUEUE_IOV allow;
 * they must stay readable until stream_sending() is false or the stream is closed.  There is
 * never a second write while one is queued.
 *
 * MORE says that the rest of this message follows at once: TCP keeps the packet open for it
 * (MSG_MORE), so both share one.  (nbdkit's corking.)  It is a hint for this turn: what is still
 * held when the turn ends leaves then, whether or not anything followed.  A Unix socket has no
 * packets to fill; a caller that has all the pieces gives them to one stream_try, which helps both.
 *
 * A secure stream (net/secure.h) encrypts what is sent and decrypts what arrives.  It is connected
 * when its handshake is complete.  What is said above holds for its plaintext: "taken by the kernel"
 * is then "encrypted", after which the bytes are not read again; stream_sending() is true until the
 * ciphertext has left, and a stream that is closed before cuts it off.  Its records are made for the reader:
 * what stream_try() is given is one record if it fits into one, and MORE gathers what follows into
 * the same.  More than that leaves after a pause in records of 4 KiB, so that a reader can use the first
 * before the rest has arrived, and in the largest ones soon after.
 *
 * Threads: one loop's.  Errors: TERR_*.
 */
#ifndef TARN_STREAM_H
#define TARN_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/base/address.h"
#include "daemon/base/loop.h"
#include "daemon/base/span.h"

struct net_loop;
struct secure;
struct secure_client;
struct stream;

/* Where an outgoing stream leads.  Connections with the same target may stand for each other. */
struct stream_target {
    const char *path;             /* borrowed: a Unix socket's; NULL: addr counts */
    struct sockaddr_storage addr; /* IPv4 or IPv6 */
    struct secure_client *secure; /* borrowed for the call; NULL: plain */
    struct slice preface;         /* with `secure`: what is sent before its handshake; copied */
};

/* Takes the connected descriptor, which is closed on failure too.  `owner` is woken; NULL: there will
 * be one before the turn ends. */
int stream_accept(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner);
/* The same, for one that will be secure: until stream_set_secure() its bytes are the peer's own. */
int stream_accept_secure(
    struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner);
/* Of a stream that was made for it, once: takes *layer.  What was received and not consumed is
 * its first ciphertext.  Watch stream_connected(). */
void stream_set_secure(struct stream *s, struct secure **layer);
/* The layer of a secure stream, borrowed; NULL: it is plain. */
struct secure *stream_get_secure(const struct stream *s);
/* Has its handshake not been completed, though bytes come and go?  Until then it has no orderly end; its owner is
 * woken when it is over. */
bool stream_is_early(const struct stream *s);
/* Another task is woken from now on: at once, if something has been received or reading is over. */
void stream_set_owner(struct stream *s, struct task *owner);
/* Starts connecting; watch stream_connected. */
int stream_connect(
    struct stream **out, struct loop *l, const struct stream_target *to, struct task *owner);
/* The stream ends now.  Nothing of the owner's is read or written any more. */
void stream_close(struct stream **sp);
/* The same, but the peer shall see an error, not an end: what was sent is not whole. */
void stream_reset(struct stream **sp);

/* 0: up; TERR_AGAIN: not yet; else why not. */
int stream_connected(const struct stream *s);

/* What arrived; empty: nothing. */
struct span stream_received(const struct stream *s);
void stream_consume(struct stream *s);        /* all of it */
void stream_skip(struct stream *s, size_t n); /* the first n bytes of it */
/* Bytes that were consumed have been received again: copied, at most LIMIT_READ_MIN, where nothing else is received.  Of a
 * plain stream.  Wakes its owner.  0; TERR_AGAIN: there is no room before others have consumed; TERR_NOMEM. */
int stream_unread(struct stream *s, struct slice bytes);
/* 0 while it is up; TERR_CLOSED after the peer's end of stream; else the error.  Bytes that
 * came before are still in stream_received. */
int stream_ended(const struct stream *s);
/* Has nothing arrived that we have not seen yet?  Asks the kernel. */
bool stream_quiet(struct stream *s);
/* The next bytes are read straight into `room` (which stays the owner's until received or
 * taken back).  Then stream_received points into it. */
void stream_post(struct stream *s, struct span room);
/* At most so many bytes in a read that was not posted; 0: what the slab has. */
void stream_set_read_max(struct stream *s, size_t bytes);
void stream_unpost(struct stream *s);
/* Reads into the posted room now, in the owner's task, what the kernel has by now; whether it had
 * anything.  For an owner that knows that the last read left something behind. */
bool stream_pull(struct stream *s);
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

#define STREAM_MORE true
/* Bytes the kernel took (0: none now), or TERR_*.  n <= LIMIT_WRITE_IOV.  Only while nothing
 * is sending.  In a task: MORE ends with the turn. */
ssize_t stream_try(struct stream *s, const struct iovec *iov, unsigned n, bool more);
/* How many bytes were queued: a prefix of the buffers; or TERR_*. */
ssize_t stream_queue(struct stream *s, const struct iovec *iov, unsigned n);
bool stream_sending(const struct stream *s);
/* Bytes of the queued write that the kernel has not taken. */
size_t stream_unsent(const struct stream *s);
/* The first error of writing, once met. */
int stream_write_error(const struct stream *s);
/* Half-close: the peer reads our end; we go on reading. */
void stream_shut(struct stream *s);

struct stream_peer {
    char text[ADDRESS_TEXT_MAX]; /* address_text() */
    uint8_t addr[16];            /* IPv4 as ::ffff:a.b.c.d; zeros for a Unix socket */
    uint16_t port;
};
void stream_get_peer(const struct stream *s, struct stream_peer *out);
/* Our own end of it. */
void stream_get_local(const struct stream *s, struct stream_peer *out);

#endif
