/* access_log.h -- a line for each request, written by a thread of its own that follows the
 * workers' logs: to a file, to stdout or to a syslog daemon.
 *
 * Workers know nothing of it and never wait for it: an output that is slow or full costs lines,
 * which counter log.lost_access counts, and no request.
 *
 * It may be turned to another output while it runs, or to none: a line goes to the one or the other,
 * to the one before if it was published by then, and never to both.  The thread is there in any case, and sleeps when it has no output.
 *
 * Threads: the main one; reopen: any.
 */
#ifndef TARN_ACCESS_LOG_H
#define TARN_ACCESS_LOG_H

#include <stddef.h>

#include "daemon/shm/backend_names_view.h"

struct access_aim; /* private to access_log.c: an output that was opened, and how it is written */
struct access_log; /* private to access_log.c */
struct counters;
struct shmlog;

struct access_log_conf {
    const char *to;     /* as access_log_prepare() */
    const char *format; /* as access_log_prepare() */
    struct shmlog *const *logs;
    unsigned nlogs;
    struct counters *counters;
    const struct backend_names_view *names; /* NULL: numbers are written */
};

/* Follows the logs from now on.  Borrows them (the array's members), the counters and the names
 * until access_log_stop().  TERR_IO: the file cannot be opened (and the error log says why); TERR_CONFIG,
 * TERR_NOMEM. */
int access_log_start(struct access_log **out, const struct access_log_conf *conf);
/* Takes *ap.  Writes what has been published by then, and gives up on an output that takes
 * nothing for two seconds. */
void access_log_stop(struct access_log **ap);

/* Opens what access_log_turn() takes; until then all stays as it was.  `to`: a file, made 0640 if it is
 * not there; "-" for stdout; base/syslog_to.h; or "", for none.  `format`: combined, json, or base/access_pattern.h.  Owned by the caller.
 * TERR_*, and `why` says it. */
int access_log_prepare(struct access_log *a, struct access_aim **out, const char *to,
    const char *format, char *why, size_t why_size);
/* Takes *aim.  Lines go there as soon as the thread has written what it has; what the output of before does not take
 * within two seconds is lost. */
void access_log_turn(struct access_log *a, struct access_aim **aim);
/* Of one that is not wanted after all; takes *aim. */
void access_aim_drop(struct access_aim **aim);

/* Asks for the file to be opened anew, after it was renamed away; done soon, by the thread.
 * If that fails the old one stays in use.  Safe in a signal handler. */
void access_log_reopen(struct access_log *a);

#endif
