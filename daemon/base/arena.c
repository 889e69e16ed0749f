/* arena.c -- request-lifetime memory. */
#include "daemon/base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/base/usage.h"

/* Under AddressSanitizer the rest of a chunk is poisoned: a write behind a piece is found at its
 * first byte, and not only where the piece ends the chunk's own memory. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(ARENA_POISONS)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, size)   ((void)(p), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#endif

struct arena_chunk {
    struct arena_chunk *next;
    bool pooled;
    char bytes[] __attribute__((aligned(8)));
};

void
arena_pool_init(struct arena_pool *pool, unsigned idle_max, struct usage *usage)
{
    *pool = (struct arena_pool){.nidle_max = idle_max, .usage = usage};
}

void
arena_pool_trim(struct arena_pool *pool, unsigned keep)
{
    while (pool->nidle > keep) {
        struct arena_chunk *c = pool->idle;

        pool->idle = c->next;
        pool->nidle--;
        usage_free(pool->usage, USAGE_ARENA, c);
    }
}

void
arena_pool_fini(struct arena_pool *pool)
{
    /* Chunks of arenas that were not ended are not here: the usage would show them. */
    arena_pool_trim(pool, 0);
    tassert(pool->idle == NULL);
}

void
arena_init(struct arena *a, struct arena_pool *pool)
{
    *a = (struct arena){.pool = pool};
}

/* Chunks of the usual size go to the pool, up to its limit; larger ones were made for one
 * request and go back to the heap. */
void
arena_fini(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;

        a->chunks = c->next;
        if (c->pooled && a->pool->nidle < a->pool->nidle_max) {
            c->next = a->pool->idle;
            a->pool->idle = c;
            a->pool->nidle++;
            /* What a request left behind is found when it is read, and not the next one's. */
            ASAN_POISON_MEMORY_REGION(c->bytes, ARENA_CHUNK - sizeof(*c));
        } else {
            usage_free(a->pool->usage, USAGE_ARENA, c);
        }
    }
    /* So an allocation behind the end begins a new chunk, and does not write into one that is
     * another's. */
    a->next = a->end = NULL;
}

/* Links the chunk into the arena, so that arena_fini() finds it whatever follows. */
static struct arena_chunk *
arena_chunk_new(struct arena *a, size_t size)
{
    struct arena_chunk *c = a->pool->idle;
    /* Larger ones are made to measure: in the pool they would take memory that few requests
     * need. */
    bool pooled = size <= ARENA_CHUNK - sizeof(*c);

    if (pooled && c != NULL) {
        a->pool->idle = c->next;
        a->pool->nidle--;
    } else {
        c = usage_alloc(a->pool->usage, USAGE_ARENA, pooled ? ARENA_CHUNK : sizeof(*c) + size);
        if (c == NULL)
            return NULL;
        c->pooled = pooled;
    }
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

static __attribute__((noinline)) void *
arena_grow(struct arena *a, size_t size)
{
    struct arena_chunk *c;
    size_t taken;

    /* Rounding it up below would wrap. */
    if (size > SIZE_MAX / 2)
        return NULL;
    taken = (size + 7) & ~(size_t)7;
    c = arena_chunk_new(a, taken);
    if (c == NULL)
        return NULL;
    if (c->pooled) {
        a->next = c->bytes + taken;
        a->end = (char *)c + ARENA_CHUNK;
        ASAN_POISON_MEMORY_REGION(c->bytes, ARENA_CHUNK - sizeof(*c));
    } else {
        /* The current chunk stays current. */
        ASAN_POISON_MEMORY_REGION(c->bytes, taken);
    }
    ASAN_UNPOISON_MEMORY_REGION(c->bytes, size);
    return c->bytes;
}

void *
arena_alloc(struct arena *a, size_t size)
{
    size_t room = (size_t)(a->end - a->next); /* a multiple of 8; 0 without a chunk */
    char *p = a->next;

    /* Without room a size of 0 too: callers take NULL for "no memory". */
    if (size > room || room == 0)
        return arena_grow(a, size);
    a->next = p + ((size + 7) & ~(size_t)7);
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    return p;
}

struct slice
arena_copy(struct arena *a, struct slice bytes)
{
    char *p = arena_alloc(a, bytes.len + 1);

    if (p == NULL)
        return (struct slice){NULL, 0};
    if (bytes.len > 0)
        memcpy(p, bytes.ptr, bytes.len);
    /* For the callers that hand it to the C library. */
    p[bytes.len] = '\0';
    return slice_of(p, bytes.len);
}
