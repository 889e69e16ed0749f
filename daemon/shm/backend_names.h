/* backend_names.h -- the names of the backends in the log, for its readers: the log has numbers.
 *
 * Threads: one at a time opens, sets and closes: the main thread's, which is the management loop's.
 */
#ifndef TARN_BACKEND_NAMES_H
#define TARN_BACKEND_NAMES_H

#include "daemon/shm/backend_names_view.h"

enum {
    BACKEND_NAMES_MAX = 4096 /* numbers */
};

struct backend_names; /* private to backend_names.c */
struct shm_dir;

/* Makes DIR/backends.  `dir` NULL: memory of this process only, for tests.  TERR_NOMEM, TERR_IO. */
int backend_names_open(struct backend_names **out, struct shm_dir *dir);
void backend_names_close(struct backend_names **np);
/* From now on the number, from 0, is that of `name`. */
void backend_names_set(struct backend_names *n, unsigned number, const char *name);
/* For readers in this process; borrowed until backend_names_close(). */
const struct backend_names_view *backend_names_here(const struct backend_names *n);

#endif
