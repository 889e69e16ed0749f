/* elog.h -- the error log: lines for the operator of this tarnd, on stderr or to a syslog daemon.
 *
 *     2026-11-21T04:10:50.123Z tarnd[4711] error: cannot bind 0.0.0.0:80: Permission denied
 *
 * A line is one write(2), so lines of several threads and processes do not mix.  Stderr is
 * shared with others, so it is never made non-blocking: when it is a pipe that is not emptied
 * the calling thread waits.  The rate limit bounds how often that can be asked for.
 *
 * Threads: any.  elog_init() first, from the only thread there is.
 */
#ifndef TARN_ELOG_H
#define TARN_ELOG_H

#include <stdint.h>

struct syslog_to;

enum elog_level {
    ELOG_ERROR,
    ELOG_WARN,
    ELOG_INFO,
    ELOG_DEBUG
};

/* Sets the least level written and the most lines a second; before it: info and 100. */
void elog_init(enum elog_level least, unsigned lines_per_s);
/* From any thread, at any time: what counts from now on. */
void elog_set(enum elog_level least, unsigned lines_per_s);
/* 0 and the level; TERR_CONFIG for a word that is none. */
int elog_level_parse(enum elog_level *out, const char *word);

/* Lines go to a syslog daemon from now on, with their level as severity; those that it does not
 * take, to stderr.  Before there is a second thread.  TERR_IO. */
int elog_to_syslog(const struct syslog_to *to);

/* One line, without its end; longer than a kilobyte is cut.  Control characters and what is
 * not ASCII come out as \xHH, so that a client cannot forge lines. */
void elog(enum elog_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports what the rate limit has dropped and is not yet reported: from a timer, and at exit.
 * elog() does so too, for seconds that are over. */
void elog_flush(void);

/* Lines dropped so far. */
uint64_t elog_dropped(void);

#endif
