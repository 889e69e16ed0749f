/* table_guard.h -- a mapped file that is truncated does not end the process.
 *
 * Touching a page beyond the end of a mapped file raises SIGBUS (mmap(2)); that its size was looked
 * at before is of no help against a file that shrinks afterwards.  With the guard installed such an
 * access finds zeros instead, from that page on, and the range is marked as struck: a reader of it
 * must be able to live with any bytes.  A SIGBUS elsewhere does what it did before.
 *
 * Threads: any; install once, from the only thread there is.
 */
#ifndef TARN_TABLE_GUARD_H
#define TARN_TABLE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mapping; `struck` may be read at any time. */
struct table_guard {
    _Atomic uintptr_t from, to; /* 0: free; 1: being filled in */
    _Atomic bool struck;
};

/* 0 or TERR_IO.  Optional: without it SIGBUS does what it does. */
int table_guard_install(void);
/* Before the first access.  NULL: too many are guarded already. */
struct table_guard *table_guard_add(const void *base, size_t bytes);
/* Before munmap().  Takes *gp; NULL is fine. */
void table_guard_remove(struct table_guard **gp);

static inline bool
table_guard_struck(const struct table_guard *g)
{
    return atomic_load_explicit(&g->struck, memory_order_relaxed);
}

#endif
