/* h1_render.h -- a response's head as HTTP/1 writes it.
 *
 * Threads: none of its own.
 */
#ifndef TARN_H1_RENDER_H
#define TARN_H1_RENDER_H

#include <stdbool.h>

#include "daemon/base/arena.h"
#include "daemon/http/message.h"
#include "daemon/http/rendering.h"

/* Its prefix is the status line. */
extern const struct http_rendering h1_rendering;

/* Status line and field lines, in the arena; without the blank line.  False: no memory. */
bool h1_render(struct arena *a, const struct http_message *m, struct slice *out);

#endif
