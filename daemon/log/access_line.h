/* access_line.h -- one request as a line, in a format that the configuration gives.
 *
 * Threads: any.
 */
#ifndef TARN_ACCESS_LINE_H
#define TARN_ACCESS_LINE_H

#include "daemon/base/access_pattern.h"
#include "daemon/log/access_format.h"

/* As access_format_named(): with its '\n', at most ACCESS_LINE_MAX.  What there is none of is "-"; a byte
 * that could end a field or the line is \xHH. */
size_t access_line(char *buf, const struct access_pattern *pattern, const struct shmlog_req *r,
    const struct backend_names_view *names);

#endif
