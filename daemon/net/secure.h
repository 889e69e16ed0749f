/* secure.h -- the seam between a stream and what encrypts its bytes: TLS (daemon/tls/).
 *
 * A secure layer changes bytes and does no input or output.  The stream gives it ciphertext that
 * arrived and takes ciphertext to send, all in memory of the loop, so that the layer needs no buffer of
 * its own for either direction.  It is called in tasks of its stream's loop, for one stream, and
 * never by two at once.
 *
 * A layer that waits for something other than bytes (a key that another thread reads) wakes
 * `task`, and is asked again.
 *
 * Threads: one loop's.  Errors: TERR_*; after one of them but TERR_AGAIN the layer is only shut and freed.
 * Source: RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2).
 */
#ifndef TARN_SECURE_H
#define TARN_SECURE_H

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "daemon/base/span.h"

struct conn_secure;
struct loop;
struct secure;
struct task;

enum {
    SECURE_RECORD = 16384,      /* the most plaintext in a record (RFC 8446 5.1) */
    SECURE_RECORD_MORE = 512,   /* what a record is longer than its plaintext, at most */
    SECURE_FLIGHT_MAX = 131072, /* what one handshake step may send */
};

/* One call's ciphertext. */
struct secure_io {
    struct slice in; /* what arrived; the layer moves its beginning behind what it took */
    char *out;       /* what it sends is put behind out_len */
    size_t out_len, out_max;
    /* While nothing is in `out`: may take the front of what would be put there, from where it lies; how many
     * bytes it took.  NULL: it takes nothing. */
    size_t (*direct)(struct secure_io *io, const char *p, size_t len);
};

/* For the layer: `len` bytes are sent.  False: they do not fit, and none is. */
static inline bool
secure_io_put(struct secure_io *io, const char *p, size_t len)
{
    size_t taken = 0;

    if (len > io->out_max - io->out_len)
        return false;
    if (io->direct != NULL && io->out_len == 0)
        taken = io->direct(io, p, len);
    memcpy(io->out + io->out_len, p + taken, len - taken);
    io->out_len += len - taken;
    return true;
}

struct secure_ops {
    /* The handshake goes on as far as `in` leads.  0: it is complete, or early data of the peer has come, and the rest
     * of it is decrypt()'s; TERR_AGAIN: more must come; else why it failed, and `out` may hold the alert that
     * says so to the peer. */
    int (*handshake)(struct secure *t, struct secure_io *io);
    /* Bytes of plaintext put into `room`, as many as `in` has for it; 0: it has none, and all of `in` was
     * taken; TERR_CLOSED: the peer's orderly end; TERR_*.  After bytes it is called again, though `in`
     * may be empty, until it says something else: so an end behind bytes is said by the next call. */
    ssize_t (*decrypt)(struct secure *t, struct secure_io *io, struct span room);
    /* One record of all of `plain`, at most SECURE_RECORD bytes.  0 or TERR_*. */
    int (*encrypt)(struct secure *t, struct secure_io *io, struct slice plain);
    /* Our orderly end.  No encrypt() follows. */
    void (*shut)(struct secure *t, struct secure_io *io);
    /* Did the other end of the connection begin it?  Then its requests say themselves where they end, and
     * a connection that ends without close_notify has ended all the same. */
    bool (*is_server)(const struct secure *t);
    /* What is known of the other end once handshake() has said 0.  Its texts lie in `text`, or stay as
     * long as the process. */
    void (*facts)(const struct secure *t, struct conn_secure *out, char *text, size_t size);
    /* Why it failed, for an operator; "": it did not.  Valid until the layer is freed. */
    const char *(*why)(const struct secure *t);
    /* Takes *tp. */
    void (*free)(struct secure **tp);
};

struct secure {
    const struct secure_ops *ops;
    struct task *task; /* the stream's: set when the layer is given to it */
    /* What facts() said of `early`, where it is kept: the layer clears it when the handshake is complete.  NULL: it
     * is, or nothing of it is kept. */
    bool *early;
};

/* Makes the layers of a listener's connections.  The maker is borrowed until the last one is freed. */
struct secure_server {
    /* Any loop.  0 or TERR_NOMEM. */
    int (*accept)(struct secure_server *s, struct loop *l, struct secure **out);
};

/* Makes the layers of connections to a backend.  Each layer holds its maker. */
struct secure_client {
    /* Any loop.  0 or TERR_NOMEM. */
    int (*connect)(struct secure_client *c, struct loop *l, struct secure **out);
};

#endif
