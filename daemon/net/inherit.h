/* inherit.h -- listening sockets that this process was started with.
 *
 *   TARN_LISTEN_FDS          of a supervisor: a line for each address, in its words
 *   LISTEN_FDS, LISTEN_PID   of systemd's socket activation, sd_listen_fds(3): from descriptor 3 on
 *
 * A configured listener with an address among them takes them instead of binding: the
 * kernel goes on queueing connections while one process follows another.
 *
 * Threads: the main one, before there are others.
 */
#ifndef TARN_INHERIT_H
#define TARN_INHERIT_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/limits.h"

struct conf_address;

/* What holds an address.  `ours`: Tarn bound it, so a Unix socket's file is Tarn's to remove. */
struct listen_sockets {
    bool ours;
    int lock_fd; /* says that the port is taken; -1: none */
    unsigned nfds;
    int fds[LIMIT_LISTEN_SOCKETS]; /* listening; several share a port by SO_REUSEPORT */
};

/* One line of TARN_LISTEN_FDS is `OURS LOCK FD[,FD...] ADDRESS`: 0 or 1, a descriptor or -1,
 * descriptors, and the address as the configuration has it, or - if only the sockets know.
 * Writes it, with its line's end; 0: it does not fit. */
size_t inherit_print(
    char *to, size_t room, const struct listen_sockets *sockets, const char *address);
/* Reads one, as far as its line's end.  The address is borrowed from the text, and ends where it
 * does.  False: it is no such line. */
bool inherit_scan(
    const char *line, struct listen_sockets *sockets, const char **address, size_t *len);

/* Takes what the environment names out of it.  What is no listening socket is left alone, and the
 * error log says so. */
void inherit_load(void);
/* Those for this address: the descriptors become the caller's.  False: there are none. */
bool inherit_take(const struct conf_address *at, struct listen_sockets *out);
/* What systemd handed over, whatever its address: for a supervisor. */
bool inherit_take_any(struct listen_sockets *out);
/* Closes the sockets that were not taken. */
void inherit_close(void);

#endif
