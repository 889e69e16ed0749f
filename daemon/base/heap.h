/* heap.h -- the first use of the allocator by a thread.
 *
 * jemalloc makes a thread's arena and cache at its first call, of whatever kind, and where there is
 * no memory for them it does not fail: it follows a null pointer.  So a thread meets it while there
 * is memory: each that serves before tarnd is ready, each that comes later only where there is room.
 *
 * Threads: any.
 */
#ifndef TARN_HEAP_H
#define TARN_HEAP_H

#include <stdbool.h>

/* This thread allocates, and frees again. */
void heap_join(void);

/* Is there address space for what jemalloc makes for a new thread?  Asks the kernel, not jemalloc.
 * Between the answer and its use others may take it: it is several times what is needed. */
bool heap_has_room(void);

#endif
