/* access_out.h -- where lines of the access log go: a file, stdout, a FIFO, a syslog daemon.
 *
 * For the access log's thread alone: it may wait here, and no thread waits for it.
 */
#ifndef TARN_ACCESS_OUT_H
#define TARN_ACCESS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access_out; /* private to access_out.c */

/* Asked every 100 ms while an output takes nothing: is it time to give up? */
struct access_patience {
    bool (*is_over)(void *ctx);
    void *ctx;
};

/* `to` is a path, "-" for stdout, or as in base/syslog_to.h.  TERR_IO, TERR_CONFIG or TERR_NOMEM, and
 * `why` says it. */
int access_out_open(struct access_out **out, const char *to, char *why, size_t why_size);
/* Takes *op. */
void access_out_close(struct access_out **op);
/* A file is opened anew; if that fails the old one stays in use, and the error log says why. */
void access_out_reopen(struct access_out *o);
/* Whole lines, each with its '\n'.  Returns how many were lost; the error log says so once. */
uint64_t access_out_write(
    struct access_out *o, const char *lines, size_t n, const struct access_patience *patience);

#endif
