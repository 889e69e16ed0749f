/* fake_stream.h -- streams without sockets: net/stream.h for tests of h1/, byte for byte.
 *
 * fake_stream.c defines every function of net/stream.h, so a test that is linked with it never
 * reaches libuv.  The test plays the peer and the kernel: it says what arrives, in which pieces,
 * when it ends, and how much of the output is taken.  Blocks have exactly the size of what
 * arrived and are freed when consumed, so that the address sanitizer sees who looks beyond.
 *
 * Threads: one.
 */
#ifndef TARN_FAKE_STREAM_H
#define TARN_FAKE_STREAM_H

#include "daemon/net/stream.h"

/* A loop whose turns and time are the test's. */
void fake_loop_open(struct loop *l);
void fake_loop_close(struct loop *l); /* frees every stream that was ever made */
/* Delivers what can be read and runs tasks until nothing moves. */
void fake_run(struct loop *l);
/* Time passes, then fake_run. */
void fake_pass(struct loop *l, unsigned ms);

/* The last stream that was accepted or connected. */
extern struct stream *fake_newest;

/* The peer.  Bytes wait while the owner has paused the stream, or has not consumed. */
void fake_arrive(struct stream *s, const char *bytes, size_t len);
void fake_end(struct stream *s, int err); /* behind those bytes; TERR_CLOSED: orderly */
void fake_connect(struct stream *s, int err);

/* The kernel: how many bytes it takes from now on; SIZE_MAX: all, as at the beginning. */
void fake_take(struct stream *s, size_t bytes);
void fake_refuse(struct stream *s, int err); /* it takes none any more; its end is not read yet */
/* The loop: so many calls of stream_unread() fail by it. */
void fake_fail_unread(struct stream *s, int err, unsigned times);

/* What the peer has got so far, NUL behind it. */
const char *fake_got(const struct stream *s);
size_t fake_got_len(const struct stream *s);
void fake_got_clear(struct stream *s);
/* In how many packets, were each as large as it must be: a new one begins with every write but
 * those that follow MORE in the same turn. */
unsigned fake_packets(const struct stream *s);

bool fake_is_closed(const struct stream *s);
bool fake_is_reset(const struct stream *s);
bool fake_is_shut(const struct stream *s);
bool fake_is_paused(const struct stream *s);
size_t fake_waiting(const struct stream *s); /* bytes that arrived and were not read */

#endif
