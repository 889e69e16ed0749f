/* ctl_log_group.h -- what the log says of a request, together: its records, and its fetch's.
 *
 *   group   the records of one id, until the request is over and its fetch has ended
 *
 * Private to ctl/.  Threads: one.
 */
#ifndef TARN_CTL_LOG_GROUP_H
#define TARN_CTL_LOG_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/shm/log_read.h"

struct backend_names_view;
struct log_filter;
struct log_groups; /* private to ctl_log_group.c */

/* Borrows the filter.  NULL: no memory. */
struct log_groups *log_groups_new(const struct log_filter *filter);
void log_groups_free(struct log_groups **gp);
/* Takes the records off a chunk, at a monotonic time.  Returns how many groups it printed. */
unsigned log_groups_take(struct log_groups *g, struct shmlog_view *view, uint64_t now_ms);
/* Prints requests that are over, except for a fetch that takes too long to wait for.  With `all`
 * every request that is over.  Returns how many, `most` at most. */
unsigned log_groups_flush(struct log_groups *g, uint64_t now_ms, bool all, uint64_t most);
/* Records of this worker were lost: those of its requests may be among them. */
void log_groups_tear(struct log_groups *g, uint32_t worker);

/* A record as text, without a line end.  `names` (or NULL) and `json` are for Req records, the latter
 * of ACCESS_LINE_MAX bytes. */
void log_print_record(const struct shmlog_view *view, const struct shmlog_rec *rec,
    const struct backend_names_view *names, char *json);

#endif
