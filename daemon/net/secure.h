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

#include <sys/types.h>

#include "daemon/base/span.h"

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
};

struct secure_ops {
    /* The handshake goes on as far as `in` leads.  0: it is complete; TERR_AGAIN: more must come; else
     * why it failed, and `out` may hold the alert that says so to the peer. */
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
    /* Takes *tp. */
    void (*free)(struct secure **tp);
};

struct secure {
    const struct secure_ops *ops;
    struct task *task; /* the stream's: set when the layer is given to it */
};

#endif
