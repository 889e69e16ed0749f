/* access_log.h -- a line for each request in the combined format, written by a thread of its
 * own that follows the workers' logs.
 *
 *     192.0.2.7 - - [21/Nov/2026:04:10:50 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/7.88"
 *
 * Workers know nothing of it and never wait for it: a disk that is slow or full costs lines,
 * which counter log.lost_access counts, and no request.
 *
 * Threads: start and stop by the main thread, reopen by any.
 */
#ifndef TARN_ACCESS_LOG_H
#define TARN_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>

struct access_log; /* private to access_log.c */
struct counters;
struct shmlog;
struct shmlog_req;

/* Follows `logs` from now on; writes to the file `path`, made 0640 if it is not there, or to
 * stdout ("-").  Borrows logs (the array's members) and counters until access_log_stop().
 * TERR_IO: the file cannot be opened (and the error log says why); TERR_NOMEM. */
int access_log_start(struct access_log **out, const char *path, struct shmlog *const *logs,
    unsigned nlogs, struct counters *counters);
/* Takes *ap.  Writes what has been published by then, and gives up on an output that takes
 * nothing for two seconds. */
void access_log_stop(struct access_log **ap);

/* Asks for the file to be opened anew, after it was renamed away; done soon, by the thread.
 * If that fails the old one stays in use.  Safe in a signal handler. */
void access_log_reopen(struct access_log *a);

/* The longest line, its end included: every string cut to its limit, every byte escaped. */
#define ACCESS_LOG_LINE_MAX 16384

/* One line with its '\n'; returns its length, at most ACCESS_LOG_LINE_MAX. */
size_t access_log_format(char *buf, const struct shmlog_req *r);

#endif
