/* syslog_out.h -- lines to a syslog daemon, a datagram each, with priority info.
 *
 * To a Unix socket as syslog(3) writes them (RFC 3164 4.1, without a host), over UDP as RFC 5424 has
 * them.  What the daemon has no room for is waited for 50 ms at most for each batch of lines, and
 * then lost; a daemon that was restarted is found again, within a second.
 *
 * Threads: one at a time.
 */
#ifndef TARN_SYSLOG_OUT_H
#define TARN_SYSLOG_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/syslog_to.h"

struct syslog_out; /* private to syslog_out.c */

/* `name` is what the error log calls it; copied.  A daemon that is not there yet is no error.
 * TERR_NOMEM. */
int syslog_out_open(struct syslog_out **out, const struct syslog_to *to, const char *name);
/* Takes *sp. */
void syslog_out_close(struct syslog_out **sp);
/* Each line ends in '\n'.  Returns how many were lost. */
uint64_t syslog_out_write(struct syslog_out *s, const char *lines, size_t n);

#endif
