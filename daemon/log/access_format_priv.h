/* access_format_priv.h -- what the formats of a line share.  Each writes at `to` and returns the end. */
#ifndef TARN_ACCESS_FORMAT_PRIV_H
#define TARN_ACCESS_FORMAT_PRIV_H

#include "daemon/shm/log_format.h"

/* At most four bytes for one. */
char *access_escape(char *to, struct slice s);
/* "-" for a year that there is not. */
char *access_time_local(char *to, int64_t start_ms);
/* NULL for one that RFC 3339 cannot say. */
char *access_time_utc(char *to, int64_t start_ms);
/* "http" or "https" */
const char *access_scheme(const struct shmlog_req_fixed *f);
/* The request line, escaped. */
char *access_request(char *to, const struct shmlog_req *r);
void access_request_split(const struct shmlog_req *r, struct slice *method, struct slice *url);

#endif
