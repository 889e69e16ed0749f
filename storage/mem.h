/* mem.h -- bytes from an arena of one store's own, and what they really cost.
 *
 *   class   the size the allocator rounds up to
 *   border  a size that is its own class: nothing is wasted
 *   pad     the page that jemalloc adds to every large allocation, to spread them over the
 *           sets of the CPU's caches (its cache_oblivious; 5.3.0 cannot be told not to)
 *   cost    class and pad: what a caller is charged.  Without the pad a store of 16 KiB
 *           bodies was measured at 1.28 times its size
 *
 * The only caller of jemalloc (allocator.c names its version).  With TARN_LIBC_MALLOC
 * (sanitizer builds) libc's allocator gives the bytes, and the classes are computed as jemalloc
 * would: accounting, segment sizes and trimming are then the same as in the real build.
 *
 * Threads: any, RCU's own too.
 */
#ifndef TARN_STORAGE_MEM_H
#define TARN_STORAGE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mem {
    /* set once at open */
    unsigned arena;
    size_t pad;
    /* any thread */
    _Atomic uint64_t freed; /* since unused pages were last given back */
};

/* From here on classes are whole pages, and an allocation can shrink where it stands. */
#define MEM_LARGE_MIN ((size_t)16 * 1024)
#define MEM_SIZE_MAX  ((size_t)1 << 46) /* larger is a bug or an attack, never an allocation */

/* 0 or -ENOMEM. */
int mem_open(struct mem *m);
/* Gives the arena back with all that is still in it. */
void mem_close(struct mem *m);

/* The class of `size` (> 0); 0 above MEM_SIZE_MAX. */
size_t mem_class(size_t size);
/* What `size` is charged as; 0 above MEM_SIZE_MAX. */
size_t mem_cost(const struct mem *m, size_t size);
/* The largest border not above `size` (> 0). */
size_t mem_border_below(size_t size);

/* NULL: none.  Of a size that is a power of two at that alignment, up to 4 KiB. */
void *mem_alloc(const struct mem *m, size_t size);
void mem_free(struct mem *m, void *p, size_t size);
/* Of all arenas: what has been unused for long enough goes back; or all that is unused. */
void mem_tidy(bool all);
/* Shrinks where it stands, so that readers of the beginning notice nothing.  `size` is what
 * was allocated, `to` a border below it.  False: not possible, nothing has changed. */
bool mem_shrink(const struct mem *m, void *p, size_t size, size_t to);

#endif
