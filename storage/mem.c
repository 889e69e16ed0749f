/* mem.c -- bytes from an arena of one store's own, and what they really cost. */
#include "storage/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#if !defined(TARN_LIBC_MALLOC)
#include <jemalloc/jemalloc.h>
#endif

#include "daemon/base/tassert.h"

enum {
    MEM_QUANTUM = 16,         /* jemalloc's LG_QUANTUM is 4 */
    MEM_TINY = 8,             /* its one class below that */
    MEM_STEPS_LOG = 2,        /* four classes a doubling */
    MEM_PAD = 4096,           /* its page */
    MEM_DIRTY_MS = 100,       /* unused pages go back after this: the size is a promise */
    MEM_DIRTY_LOOK = 4 << 20, /* bytes freed between two looks; measured: README.md */
};

/* The step between two classes around `size`: those above a power of two lie a quarter of
 * it apart, but never closer than the quantum. */
static size_t
mem_step(size_t size)
{
    size_t step = (size_t)1 << (63 - __builtin_clzll(size)) >> MEM_STEPS_LOG;

    return step < MEM_QUANTUM ? MEM_QUANTUM : step;
}

/* Rounds up to the step of `size - 1`: a power of two is the last class of the doubling below it,
 * and is a border. */
static size_t
mem_class_computed(size_t size)
{
    size_t step;

    if (size <= MEM_TINY)
        return MEM_TINY;
    step = mem_step(size - 1);
    return (size + step - 1) & ~(step - 1);
}

size_t
mem_border_below(size_t size)
{
    size_t border;

    tassert(size > 0 && size <= MEM_SIZE_MAX);
    if (size < MEM_QUANTUM)
        return MEM_TINY;
    border = size & ~(mem_step(size) - 1);
    tassert_slow(mem_class(border) == border);
    return border;
}

size_t
mem_cost(const struct mem *m, size_t size)
{
    size_t class = mem_class(size);

    return class >= MEM_LARGE_MIN ? class + m->pad : class;
}

#if defined(TARN_LIBC_MALLOC)

int
mem_open(struct mem *m)
{
    *m = (struct mem){.pad = MEM_PAD};
    return 0;
}

void
mem_close(struct mem *m)
{
    (void)m;
}

size_t
mem_class(size_t size)
{
    tassert(size > 0);
    return size > MEM_SIZE_MAX ? 0 : mem_class_computed(size);
}

void *
mem_alloc(const struct mem *m, size_t size)
{
    size_t align = size & -size; /* as jemalloc's classes are */
    void *p;

    (void)m;
    align = align < MEM_QUANTUM ? MEM_QUANTUM : align > MEM_PAD ? MEM_PAD : align;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}

void
mem_free(struct mem *m, void *p, size_t size)
{
    (void)m;
    (void)size;
    free(p);
}

void
mem_tidy(bool all)
{
    (void)all;
}

/* Says yes where jemalloc would, and leaves the bytes to libc until they are freed. */
bool
mem_shrink(const struct mem *m, void *p, size_t size, size_t to)
{
    (void)m;
    tassert(p != NULL && to < size);
    return to >= MEM_LARGE_MIN;
}

#else

/* No thread cache: it would keep freed bytes that are no longer charged and cannot be given
 * back, and most frees happen on RCU's thread, with a cache that is never drawn from.
 * The price is a lock of the arena's, on misses only: a hit allocates nothing here. */
static int
mem_flags(const struct mem *m)
{
    return MALLOCX_ARENA(m->arena) | MALLOCX_TCACHE_NONE;
}

static void
mem_set_decay(const struct mem *m, const char *which, ssize_t ms)
{
    char name[64];

    snprintf(name, sizeof name, "arena.%u.%s", m->arena, which);
    /* Only a matter of when pages go back: a refusal leaves jemalloc's own ten seconds. */
    (void)mallctl(name, NULL, NULL, &ms, sizeof ms);
}

int
mem_open(struct mem *m)
{
    size_t len = sizeof m->arena;
    bool padded = true;

    *m = (struct mem){.pad = 0};
    if (mallctl("arenas.create", &m->arena, &len, NULL, 0) != 0)
        return -ENOMEM;
    len = sizeof padded;
    (void)mallctl("opt.cache_oblivious", &padded, &len, NULL, 0); /* unknown: assume it */
    m->pad = padded ? MEM_PAD : 0;
    mem_set_decay(m, "dirty_decay_ms", MEM_DIRTY_MS);
    /* Muzzy pages (MADV_FREE) count as resident until the kernel needs them, and the promise is
     * about the resident set: they go back at once. */
    mem_set_decay(m, "muzzy_decay_ms", 0);
    return 0;
}

void
mem_close(struct mem *m)
{
    char name[64];

    snprintf(name, sizeof name, "arena.%u.destroy", m->arena);
    (void)mallctl(name, NULL, NULL, NULL, 0);
}

size_t
mem_class(size_t size)
{
    size_t got;

    tassert(size > 0);
    if (size > MEM_SIZE_MAX)
        return 0;
    got = nallocx(size, 0);
    /* The plans of segments are made with the computed classes. */
    tassert_slow(got == mem_class_computed(size));
    return got;
}

void *
mem_alloc(const struct mem *m, size_t size)
{
    return mallocx(size, mem_flags(m));
}

/* jemalloc looks for pages to give back once in a thousand calls, which may be a gigabyte of
 * segments.  So it is made to look by bytes; it still gives back only what is old enough. */
void
mem_free(struct mem *m, void *p, size_t size)
{
    char name[64];

    sdallocx(p, size, mem_flags(m));
    if (atomic_fetch_add_explicit(&m->freed, size, memory_order_relaxed) + size < MEM_DIRTY_LOOK)
        return;
    if (atomic_exchange_explicit(&m->freed, 0, memory_order_relaxed) < MEM_DIRTY_LOOK)
        return; /* another thread came first, and is looking */
    snprintf(name, sizeof name, "arena.%u.decay", m->arena);
    (void)mallctl(name, NULL, NULL, NULL, 0);
}

/* An arena looks by itself only when something is freed in it: one that lies still would keep
 * what a burst has left.  jemalloc's own background threads do the same; this needs none. */
void
mem_tidy(bool all)
{
    char name[64];

    snprintf(
        name, sizeof name, "arena.%u.%s", (unsigned)MALLCTL_ARENAS_ALL, all ? "purge" : "decay");
    (void)mallctl(name, NULL, NULL, NULL, 0);
}

bool
mem_shrink(const struct mem *m, void *p, size_t size, size_t to)
{
    tassert(p != NULL && to < size);
    if (to < MEM_LARGE_MIN)
        return false;
    return xallocx(p, to, 0, mem_flags(m)) == to;
}

#endif
