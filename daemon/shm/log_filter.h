/* log_filter.h -- which requests of the log a reader wants to see, and which of their records.
 *
 *   url     TEXT that is part of it, or /TEXT/, a regular expression: of the target, or of the host
 *           and the target behind it
 *   status  as in 404, 5xx, 500-599, or several with commas between
 *   client  an address, a network, or unix
 *   cache   results (result_table.h) with commas between; hit: stale ones too; miss: hit-for-miss too
 *   tag     names of tags, in any case, with commas between
 *
 * All that were given must hold; url and client are given once at most.  Threads: one, but any number
 * may ask one that does not change.
 */
#ifndef TARN_LOG_FILTER_H
#define TARN_LOG_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/shm/log_format.h"

struct regex;

enum {
    LOG_FILTER_STATUS_MAX = 16
};

struct log_filter {
    bool by_request; /* something is asked that only a request that is over can answer */
    bool by_tag;
    bool tags[SHMLOG_TAG_COUNT];
    const char *url;     /* borrowed */
    struct regex *regex; /* owned; then it is asked instead */
    unsigned nstatus;
    struct {
        unsigned least, most;
    } status[LOG_FILTER_STATUS_MAX];
    bool has_client;
    uint8_t client[16];
    unsigned client_bits;
    unsigned results; /* a bit for each enum request_result; 0: any */
};

/* Zeros are a filter that takes all.  Adds a condition; `text` is borrowed until the end.  0;
 * TERR_NOTFOUND: no condition has that name; TERR_CONFIG, and `why` says what would be right. */
int log_filter_add(
    struct log_filter *f, const char *name, const char *text, char *why, size_t why_size);
void log_filter_fini(struct log_filter *f);
bool log_filter_takes(const struct log_filter *f, const struct shmlog_req *r);
/* Tags beyond our table, of a newer tarnd, have no name to ask for. */
bool log_filter_takes_tag(const struct log_filter *f, unsigned tag);

#endif
