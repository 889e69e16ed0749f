/* notify.h -- messages to a service manager: systemd's sd_notify(3) protocol, without its library.
 *
 * A message is one datagram of VARIABLE=value lines to the socket that $NOTIFY_SOCKET names.
 * There is no answer, and nothing here waits.  A tarnd started by hand sends nothing.
 *
 * MAINPID= is never sent: a parent that supervises keeps its pid when it becomes another binary.
 *
 * Source: sd_notify(3), sd_watchdog_enabled(3) of systemd 252.
 *
 * Threads: one at a time.
 */
#ifndef TARN_NOTIFY_H
#define TARN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct notify;

/* As the environment says, which stays as it is for processes that we start.  Before a sandbox is
 * entered.  A watchdog of the service manager counts if it is for this process or for its parent, which
 * supervises then ($WATCHDOG_PID).  NULL: there is no service manager; every call accepts NULL. */
struct notify *notify_open(void);
/* Takes *np. */
void notify_close(struct notify **np);

/* Requests are served; or served as before, after a reload.  `status` is a line for people. */
void notify_ready(struct notify *n, const char *status);
/* A new configuration is read; notify_ready() says that it is over, whatever came of it. */
void notify_reloading(struct notify *n);
/* The way down has begun. */
void notify_stopping(struct notify *n, const char *status);

/* Milliseconds within which notify_alive() has to come again; 0: there is no watchdog. */
int64_t notify_watchdog_ms(const struct notify *n);
void notify_alive(struct notify *n);

#endif
