/* access_format.h -- one request as a line: for the access log, and for readers of the rings.
 *
 *     192.0.2.7 - - [21/Nov/2026:04:10:50 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/7.88"
 *     {"time":"2026-11-21T04:10:50.123Z","client":"192.0.2.7", ... "cache":"hit", ...}
 *
 * Nothing that a client sends can end a field or a line.  A line of JSON is UTF-8 and valid
 * whatever came: a byte that is no UTF-8 stands as the character with its number, \u0080 to \u00ff.
 *
 * Threads: any.
 */
#ifndef TARN_ACCESS_FORMAT_H
#define TARN_ACCESS_FORMAT_H

#include <stddef.h>

#include "daemon/shm/backend_names_view.h"
#include "daemon/shm/log_format.h"

enum access_format {
    ACCESS_FORMAT_COMBINED,
    ACCESS_FORMAT_JSON
};

/* The longest line, its end included: every string cut to its limit, every byte escaped. */
#define ACCESS_LINE_MAX 32768

/* 0 and the format; TERR_CONFIG for a word that is none. */
int access_format_parse(enum access_format *out, const char *word);
/* One line with its '\n'; returns its length, at most ACCESS_LINE_MAX.  JSON tells the backend by its
 * name, if `names` knows it; NULL: by its number. */
size_t access_format_named(char *buf, enum access_format how, const struct shmlog_req *r,
    const struct backend_names_view *names);
/* Without names. */
size_t access_format_line(char *buf, enum access_format how, const struct shmlog_req *r);
/* Its result, a word of result_table.h; NULL: it came to none. */
const char *access_cache_word(unsigned flags);
/* The client's address as lines show it: "unix:" for a Unix socket. */
size_t access_client_text(char to[64], const struct shmlog_req_fixed *f);

#endif
