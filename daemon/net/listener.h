/* listener.h -- accepting connections, on every loop from one address.
 *
 *   bound     the address as taken by the process: resolved port, exclusive lock
 *   listener  one loop's share of it
 *
 * TCP: every loop has a socket of its own with SO_REUSEPORT, and the process holds a lock, so
 * that a second tarnd on the same port is refused rather than silently sharing.  A Unix socket
 * is one descriptor, duplicated into each loop.  What the process was started with (inherit.h) is
 * not bound again.
 *
 * Where another process shall follow this one the sockets are made at once, one for each loop
 * (listen_share), and a supervisor keeps them, too: what the kernel has queued outlives us.
 *
 * When descriptors run out (EMFILE, ENFILE) a listener rests for a moment instead of spinning;
 * the kernel's queue holds the connections meanwhile.
 *
 * Threads: listen_bind and listen_release are the main thread's; a listener is its loop's.
 */
#ifndef TARN_LISTENER_H
#define TARN_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/loop.h"

struct bound;
struct conf_address;
struct listen_sockets;
struct listener;

struct listen_how {
    int depth;                /* of the kernel's queue of new connections */
    int notsent_bytes;        /* TCP_NOTSENT_LOWAT of the accepted; 0: the system's */
    int64_t mode;             /* of a Unix socket's file */
    const char *user, *group; /* its owner, by name or number; "": unchanged */
};

/* 0, or TERR_* with a sentence in `why`.  A Unix socket has its mode before it accepts. */
int listen_bind(struct bound **out, const struct conf_address *at, const struct listen_how *how,
    char *why, size_t why_len);
/* What a Unix socket's file was before listen_own(). */
struct listen_owned {
    bool changed;
    mode_t mode;
    uid_t uid;
    gid_t gid;
};

/* A Unix socket that is open gets another mode, user or group; "" leaves those alone.  A user
 * that may connect neither before nor afterwards may not connect meanwhile.  0, and `was`; or
 * TERR_* with a sentence in `why`, and all is as it was.  Nothing is done to what a service manager
 * made, or what is not there any more. */
int listen_own(const struct bound *b, const struct conf_address *at, const struct listen_how *how,
    struct listen_owned *was, char *why, size_t why_len);
/* Restores what was before a listen_own() that succeeded. */
void listen_disown(const struct bound *b, const struct listen_owned *was);
/* "127.0.0.1:8080", "[::1]:8080" or "unix:/path": what clients connect to. */
const char *listen_address(const struct bound *b);
/* The process gives the address back; a Unix socket's file is removed, unless others have it. */
void listen_release(struct bound **bp);
/* Was it there when the process started? */
bool listen_is_inherited(const struct bound *b);
/* Before the first listener_open(): listens with a socket for each of `loops` loops, and keeps
 * them.  Those that were inherited stay, though there be more of them, or fewer and no more can be
 * had: a loop takes several then, or several share one.  0, or TERR_IO. */
int listen_share(struct bound *b, unsigned loops);
/* Afterwards: what there is, borrowed. */
void listen_sockets(const struct bound *b, struct listen_sockets *out);

/* Takes the descriptor `fd`; -1: there is none to be had.  TERR_LIMIT: it was dropped, and the
 * listener rests after this turn's.  TERR_AGAIN, of -1: there are some in the next turn. */
typedef int listener_accept_f(void *ctx, int fd, bool is_unix);

/* Starts accepting on this loop; a task of the loop calls `accept_f`. */
int listener_open(struct listener **out, struct loop *l, const struct bound *b,
    listener_accept_f *accept_f, void *ctx);
void listener_close(struct listener **lp);

#endif
