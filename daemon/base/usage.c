/* usage.c -- what a loop takes from the heap for its traffic. */
#include "daemon/base/usage.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/tassert.h"
#include "daemon/base/waiter.h"

static void *
usage_add(struct usage *u, enum usage_kind kind, void *p)
{
    size_t bytes;

    if (u == NULL || p == NULL)
        return p;
    bytes = malloc_usable_size(p);
    u->bytes[kind] += bytes;
    u->taken += bytes;
    if (u->taken >= USAGE_TELL && u->teller != NULL) {
        u->taken = 0;
        task_wake(u->teller);
    }
    return p;
}

static void
usage_sub(struct usage *u, enum usage_kind kind, size_t bytes)
{
    if (u == NULL)
        return;
    tassert(u->bytes[kind] >= bytes); /* else it was counted as something else */
    u->bytes[kind] -= bytes;
}

void *
usage_alloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return usage_add(u, kind, malloc(size));
}

void *
usage_calloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return usage_add(u, kind, calloc(1, size));
}

void *
usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size)
{
    size_t had = p != NULL ? malloc_usable_size(p) : 0;
    void *now = realloc(p, size);

    if (now == NULL)
        return NULL;
    usage_sub(u, kind, had);
    return usage_add(u, kind, now);
}

void
usage_free(struct usage *u, enum usage_kind kind, void *p)
{
    if (p == NULL)
        return;
    usage_sub(u, kind, malloc_usable_size(p));
    free(p);
}

uint64_t
usage_resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "%*s %llu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
