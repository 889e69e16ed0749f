/* tls_memory.c -- what OpenSSL takes from the heap, counted.
 *
 * A thread counts for itself and tells the others now and then: a number that every thread writes would
 * cost more than the memory.  Memory may go back on another thread than it came from, so the count of
 * one thread may be below 0; their sum is not. */
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/tls/tls_priv.h"

enum {
    TELL_BYTES = 65536,
};

static _Atomic int64_t memory_told;
static _Thread_local int64_t memory_here;

static void
memory_add(int64_t bytes)
{
    memory_here += bytes;
    if (memory_here < TELL_BYTES && memory_here > -TELL_BYTES)
        return;
    atomic_fetch_add_explicit(&memory_told, memory_here, memory_order_relaxed);
    memory_here = 0;
}

static void *
memory_malloc(size_t n, const char *file, int line)
{
    void *p = malloc(n);

    (void)file;
    (void)line;
    if (p != NULL)
        memory_add((int64_t)malloc_usable_size(p));
    return p;
}

static void *
memory_realloc(void *p, size_t n, const char *file, int line)
{
    int64_t was = p != NULL ? (int64_t)malloc_usable_size(p) : 0;
    void *to = realloc(p, n);

    (void)file;
    (void)line;
    if (to != NULL)
        memory_add((int64_t)malloc_usable_size(to) - was);
    else if (n == 0)
        memory_add(-was);
    return to;
}

static void
memory_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    if (p != NULL)
        memory_add(-(int64_t)malloc_usable_size(p));
    free(p);
}

/* OpenSSL refuses when it has allocated already: then nothing is counted, and nothing else is wrong. */
void
tls_init(void)
{
    CRYPTO_set_mem_functions(memory_malloc, memory_realloc, memory_free);
}

int64_t
tls_memory(void)
{
    int64_t told = atomic_load_explicit(&memory_told, memory_order_relaxed);

    return told > 0 ? told : 0;
}
