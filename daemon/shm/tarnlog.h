/* tarnlog.h -- all that a program beside tarnd needs to read its log and its counters.
 *
 *     cc reader.c $(pkg-config --cflags --libs tarnlog)
 *
 * The log's rings: daemon/shm/log_read.h; the names and the bytes of records: log_format.h; a
 * request as a line: access_format.h; what backends are called: backend_names_view.h; the counters:
 * counters_view.h; what errors are called: terr.h.
 * The library needs libc alone.  What it exports has versions (tarnlog.map): names of one do not
 * change their meaning.
 */
#ifndef TARN_TARNLOG_H
#define TARN_TARNLOG_H

#include "daemon/base/terr.h"
#include "daemon/log/access_format.h"
#include "daemon/shm/backend_names_view.h"
#include "daemon/shm/counters_view.h"
#include "daemon/shm/log_read.h"

#endif
