/* acme_dir.h -- the state directory: who may read it, files that are never half written, the lock.
 *
 *     account.key account.json state.json lock     certs/NAME.pem
 *     challenges/http-01/TOKEN                     challenges/tls-alpn-01/NAME.pem
 *
 * Every directory is 0700 and every file 0600, of the user that runs the program.  What is wider is refused and
 * not put right: another user may have read it already.  Paths are relative to the directory.
 * Threads: one.  Blocks.
 */
#ifndef TARN_ACME_DIR_H
#define TARN_ACME_DIR_H

#include "daemon/acme/acme.h"
#include "daemon/base/span.h"

#define ACME_DIR_CERTS "certs"
#define ACME_DIR_HTTP  "challenges/http-01"
#define ACME_DIR_ALPN  "challenges/tls-alpn-01"

struct acme_dir {
    const char *path; /* borrowed */
    int fd, lock;     /* -1: none */
};

/* Opens it and makes what is not there; with `look` nothing is made, and a directory that is not there is
 * empty.  0, or TERR_DENIED, TERR_IO. */
int acme_dir_open(struct acme_dir *d, const char *path, bool look, struct acme_fail *f);
void acme_dir_close(struct acme_dir *d);
/* Until acme_dir_unlock().  TERR_BUSY: another process has it. */
int acme_dir_lock(struct acme_dir *d, struct acme_fail *f);
void acme_dir_unlock(struct acme_dir *d);

/* The whole file, which the caller frees.  0, TERR_NOTFOUND, TERR_DENIED (others may read it), TERR_IO,
 * TERR_LIMIT. */
int acme_dir_read(
    const struct acme_dir *d, const char *file, struct span *out, struct acme_fail *f);
/* Another file, whole, and then under that name: a reader sees the old bytes or the new ones, after a
 * power failure, too.  0, TERR_IO. */
int acme_dir_write(
    const struct acme_dir *d, const char *file, struct slice bytes, struct acme_fail *f);
void acme_dir_remove(const struct acme_dir *d, const char *file);
/* What a process that was killed left: challenges, files that never got their name.  Under the lock. */
void acme_dir_sweep(const struct acme_dir *d);

#endif
