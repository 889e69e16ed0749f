/* arena.c -- request-lifetime memory. */
#include "daemon/base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"

struct arena_chunk {
    struct arena_chunk *next;
    bool pooled;
    char bytes[] __attribute__((aligned(8)));
};

void
arena_pool_init(struct arena_pool *pool, unsigned idle_max)
{
    *pool = (struct arena_pool){.nidle_max = idle_max};
}

void
arena_pool_fini(struct arena_pool *pool)
{
    while (pool->idle != NULL) {
        struct arena_chunk *c = pool->idle;

        pool->idle = c->next;
        free(c);
    }
    pool->nidle = 0;
}

void
arena_init(struct arena *a, struct arena_pool *pool)
{
    *a = (struct arena){.pool = pool};
}

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
        } else {
            free(c);
        }
    }
    a->next = a->end = NULL;
}

static struct arena_chunk *
arena_chunk_new(struct arena *a, size_t size)
{
    struct arena_chunk *c = a->pool->idle;
    bool pooled = size <= ARENA_CHUNK - sizeof(*c);

    if (pooled && c != NULL) {
        a->pool->idle = c->next;
        a->pool->nidle--;
    } else {
        c = malloc(pooled ? ARENA_CHUNK : sizeof(*c) + size);
        if (c == NULL)
            return NULL;
        c->pooled = pooled;
    }
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

void *
arena_alloc(struct arena *a, size_t size)
{
    struct arena_chunk *c;
    char *p;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 7) & ~(size_t)7;
    if ((size_t)(a->end - a->next) >= size && a->next != NULL) {
        p = a->next;
        a->next += size;
        return p;
    }
    c = arena_chunk_new(a, size);
    if (c == NULL)
        return NULL;
    if (!c->pooled)
        return c->bytes; /* the current chunk stays current */
    a->next = c->bytes + size;
    a->end = (char *)c + ARENA_CHUNK;
    return c->bytes;
}

struct slice
arena_copy(struct arena *a, struct slice bytes)
{
    char *p = arena_alloc(a, bytes.len + 1);

    if (p == NULL)
        return (struct slice){NULL, 0};
    if (bytes.len > 0)
        memcpy(p, bytes.ptr, bytes.len);
    p[bytes.len] = '\0';
    return slice_of(p, bytes.len);
}
