/* counters_view.h -- reading the counters of another process, perhaps of another version of Tarn:
 * by name.
 *
 * A counter is the sum of what each worker has; the parts are read one after the other, so it is
 * no snapshot.
 *
 * Threads: a view that was opened does not change; any may read it.
 */
#ifndef TARN_COUNTERS_VIEW_H
#define TARN_COUNTERS_VIEW_H

#include <stddef.h>
#include <stdint.h>

enum counter_kind {
    COUNTER_KIND_COUNTER,
    COUNTER_KIND_GAUGE
};

struct counters_view; /* private to counters_view.c */

struct counters_row {
    const char *name, *doc; /* borrowed until counters_view_close() */
    enum counter_kind kind;
    uint64_t value; /* the sum */
};

/* TERR_NOTFOUND, TERR_CORRUPT, TERR_NOMEM, TERR_IO. */
int counters_view_open(struct counters_view **out, const char *path);
/* Borrows the bytes until it is closed; they may be changing, but only their values. */
int counters_view_mem(struct counters_view **out, const void *base, size_t bytes);
void counters_view_close(struct counters_view **vp);
unsigned counters_view_rows(const struct counters_view *v);
unsigned counters_view_workers(const struct counters_view *v);
uint32_t counters_view_pid(const struct counters_view *v);
/* TERR_NOTFOUND past the last row. */
int counters_view_row(const struct counters_view *v, unsigned i, struct counters_row *out);

#endif
