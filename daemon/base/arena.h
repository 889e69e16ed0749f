/* arena.h -- memory that lives as long as a request, given back in one go.
 *
 * An arena takes chunks of ARENA_CHUNK bytes from its loop's pool; what is larger gets a
 * chunk of its own.  An arena that was never asked holds nothing.
 *
 * Threads: arena and pool belong to one loop.  Errors: NULL when memory is out.
 */
#ifndef TARN_ARENA_H
#define TARN_ARENA_H

#include <stddef.h>

#include "daemon/base/span.h"

#define ARENA_CHUNK 4096u

struct arena_chunk;
struct usage;

struct arena_pool {
    struct arena_chunk *idle;
    unsigned nidle, nidle_max;
    struct usage *usage; /* borrowed: counts the chunks; NULL: not counted */
};

struct arena {
    char *next, *end;
    struct arena_chunk *chunks;
    struct arena_pool *pool; /* borrowed */
};

/* At most idle_max chunks wait for their next use. */
void arena_pool_init(struct arena_pool *pool, unsigned idle_max, struct usage *usage);
/* Of the idle chunks all but so many go back. */
void arena_pool_trim(struct arena_pool *pool, unsigned keep);
void arena_pool_fini(struct arena_pool *pool);

void arena_init(struct arena *a, struct arena_pool *pool);
void arena_fini(struct arena *a);

/* 8-byte aligned, not zeroed. */
void *arena_alloc(struct arena *a, size_t size);
/* A copy of the bytes with a NUL behind it; .ptr is NULL when memory is out. */
struct slice arena_copy(struct arena *a, struct slice bytes);

#endif
