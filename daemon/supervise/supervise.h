/* supervise.h -- a parent that keeps a tarnd running, and puts a new one in its place.
 *
 *   child     a tarnd that this process has started; it serves, the supervisor never does
 *   channel   what the two say to each other (channel.h)
 *   inherited the listening sockets of the child, kept open here too: whatever becomes of it, the
 *             kernel goes on queueing connections for the next one
 *
 * A child that crashes is followed by another at once, and with growing pauses if it happens again.
 * A child with loops that do not turn is killed.  SIGUSR2 brings a new binary: a child of it starts
 * beside the old one, which retires when the new one is ready; then the supervisor becomes the new
 * binary too, by execv(2), so its pid stays.
 *
 * It knows nothing of the configuration: children bind, and hand over what they have bound.
 *
 * Threads: one.
 */
#ifndef TARN_SUPERVISE_H
#define TARN_SUPERVISE_H

#include <stdbool.h>

/* Runs until SIGTERM or SIGINT, until a child ends by itself, or until the first one could not
 * start; the process's exit status.  `argv` is main's, `conf` the file that it names; both borrowed. */
int supervise_run(char **argv, const char *conf);
/* Could we go on where the supervisor that asks this (with -t) is now?  True where none asks. */
bool supervise_understands(void);

#endif
