/* heap.h -- the first use of the allocator by a thread.
 *
 * jemalloc makes a thread's arena and cache at its first call, of whatever kind, and where there is
 * no memory for them it does not fail: it follows a null pointer.  So each thread makes its first call
 * before tarnd is ready.
 *
 * Threads: any.
 */
#ifndef TARN_HEAP_H
#define TARN_HEAP_H

/* This thread allocates, and frees again. */
void heap_join(void);

#endif
