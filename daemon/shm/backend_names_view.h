/* backend_names_view.h -- the names of backends; the log has their numbers.
 *
 *     n = backend_names_view_get(v, req.fixed.backend - 1u, req.fixed.start_ms, name);
 *
 * A number is used again when its backend has gone.  Its name stays until then, and a request that
 * began before the next one came gets no name rather than a wrong one.
 *
 * Threads: a view that was opened does not change; any may read it, while names come.
 */
#ifndef TARN_BACKEND_NAMES_VIEW_H
#define TARN_BACKEND_NAMES_VIEW_H

#include <stddef.h>
#include <stdint.h>

#define BACKEND_NAME_MAX 112 /* bytes, with the NUL; a longer name is not stored */

struct backend_names_view; /* private to backend_names_view.c */

/* Opens DIR/backends by its path.  TERR_NOTFOUND, TERR_CORRUPT, TERR_NOMEM, TERR_IO. */
int backend_names_view_open(struct backend_names_view **out, const char *path);
/* Any bytes on a 64-byte boundary that look like such a file; borrowed until closed. */
int backend_names_view_mem(struct backend_names_view **out, const void *base, size_t bytes);
void backend_names_view_close(struct backend_names_view **vp);
/* The name of a backend by its number, from 0, as a request knew it that began at `start_ms` (wall
 * time).  Its bytes, with a NUL behind; 0, and an empty string: not known. */
size_t backend_names_view_get(const struct backend_names_view *v, unsigned number, int64_t start_ms,
    char to[BACKEND_NAME_MAX]);

#endif
