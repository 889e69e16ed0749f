/* cert_file.h -- files of certificates and keys: read whole, and known again.
 *
 * Threads: any.  Blocks.  Errors go into a report, with what an operator can do.
 */
#ifndef TARN_CERT_FILE_H
#define TARN_CERT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/tls/cert_report.h"

enum {
    CERT_FILE_BYTES_MAX = 1024 * 1024, /* a chain of five RSA certificates takes 10 kB */
};

/* What tells one version of a file from another.  Zeroed: there is none.  The mode is part of it, because a
 * key that others may read is refused. */
struct cert_file_id {
    uint64_t inode;
    int64_t mtime_ns, size;
    uint32_t mode;
};

/* Bytes of files, one at a time.  Zeroed: empty. */
struct cert_buffer {
    char *bytes; /* owned */
    size_t room;
};

/* Overwrites what was read, for it may have been a key. */
void cert_buffer_fini(struct cert_buffer *b);

/* 0, or an errno. */
int cert_file_stat(const char *path, struct cert_file_id *out);
bool cert_file_same(const struct cert_file_id *a, const struct cert_file_id *b);

/* *out borrows from `b` until the next call.  TERR_IO: the report says why; TERR_NOTFOUND: and it is that there
 * is no such file; TERR_NOMEM. */
int cert_file_read(const char *path, struct cert_buffer *b, struct slice *out,
    struct cert_file_id *id, struct cert_report *report);

/* An errno met with a file, for its operator. */
void cert_file_say(struct cert_report *report, const char *path, int err);
/* A key that any user may read is in the hands of all of them.  False, and an error in the report. */
bool cert_file_is_private(
    const struct cert_file_id *id, const char *path, struct cert_report *report);

#endif
