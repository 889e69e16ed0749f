/* tls_memory.c -- what OpenSSL takes from the heap, counted.
 *
 * A thread counts for itself and tells the others now and then: a number that every thread writes would
 * cost more than the memory.  Memory may go back on another thread than it came from, so the count of
 * one thread may be below 0; their sum is not. */
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_pool.h"
#include "daemon/tls/tls_priv.h"

enum {
    TELL_BYTES = 65536, /* a thread's count may be so much behind (README 9) */
    MEMORY_RECORD_LEAST = 16384,
    MEMORY_RECORD = 20480, /* a record with all that stands around it */
    MEMORY_READY = 4,      /* a read and a write at a time, and some to spare */
};

static _Atomic int64_t memory_told;
static _Thread_local int64_t memory_here;
/* OpenSSL goes on without in places, and leaves an error in the queue that would be the next call's reason. */
static _Thread_local bool memory_refused;

static void
memory_add(int64_t bytes)
{
    memory_here += bytes;
    if (memory_here < TELL_BYTES && memory_here > -TELL_BYTES)
        return;
    atomic_fetch_add_explicit(&memory_told, memory_here, memory_order_relaxed);
    memory_here = 0;
}

/* OpenSSL takes a buffer for each record and gives it back behind it (SSL_MODE_RELEASE_BUFFERS), so that
 * idle connections have none: a block of this size that the heap would give back to its arena each time, at
 * 2,000 instructions.  A few lie ready for the next record of the thread, if it is one that gives them back
 * before it ends. */
static _Thread_local struct {
    void *blocks[MEMORY_READY];
    unsigned n;
    unsigned room;
} memory_ready;

/* A sanitizer watches the heap's blocks alone. */
#if defined(TARN_LIBC_MALLOC)
static const bool memory_packs = false;
#else
static const bool memory_packs = true;
#endif

static bool
memory_is_record(size_t n)
{
    return n > MEMORY_RECORD_LEAST && n <= MEMORY_RECORD;
}

/* Apart from the others: these are a few of a thousand blocks, and would cost each one its registers. */
static __attribute__((noinline)) void *
memory_take_packed(size_t n)
{
    void *p = tls_pool_take(n);

    if (p != NULL)
        memory_add((int64_t)tls_pool_cost(p));
    return p;
}

static __attribute__((noinline)) void
memory_give_packed(void *p, bool secret)
{
    if (secret)
        OPENSSL_cleanse(p, tls_pool_room(p));
    memory_add(-(int64_t)tls_pool_cost(p));
    tls_pool_give(p);
}

static void *
memory_take(size_t n)
{
    void *p = tls_pool_takes(n) ? memory_take_packed(n) : NULL;

    if (p != NULL)
        return p;
    if (memory_is_record(n)) {
        if (memory_ready.n > 0)
            return memory_ready.blocks[--memory_ready.n]; /* it is counted still */
        n = MEMORY_RECORD;
    }
    p = malloc(n);
    if (p != NULL)
        memory_add((int64_t)malloc_usable_size(p));
    else
        memory_refused = true;
    return p;
}

static void
memory_give(void *p, bool secret)
{
    int64_t bytes;

    if (p == NULL)
        return;
    if (tls_pool_has(p)) {
        memory_give_packed(p, secret);
        return;
    }
    bytes = (int64_t)malloc_usable_size(p);
    if (secret)
        OPENSSL_cleanse(p, (size_t)bytes);
    if (bytes >= MEMORY_RECORD && bytes < 2 * MEMORY_RECORD && memory_ready.n < memory_ready.room) {
        memory_ready.blocks[memory_ready.n++] = p;
        return;
    }
    memory_add(-bytes);
    free(p);
}

static void *
memory_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return memory_take(n);
}

/* To where a block of this size belongs.  realloc() would leave what was there as it is, and knows the heap alone. */
static void *
memory_move(void *p, size_t n)
{
    size_t room = tls_pool_has(p) ? tls_pool_room(p) : malloc_usable_size(p);
    void *to = n > 0 ? memory_take(n) : NULL;

    if (to != NULL)
        memcpy(to, p, n < room ? n : room);
    if (to != NULL || n == 0)
        memory_give(p, TLS_LIB_FREE_CLEANSES);
    return to;
}

static void *
memory_realloc(void *p, size_t n, const char *file, int line)
{
    int64_t was;
    void *to;

    (void)file;
    (void)line;
    if (p == NULL)
        return memory_take(n);
    if (TLS_LIB_FREE_CLEANSES || tls_pool_has(p))
        return memory_move(p, n);
    was = (int64_t)malloc_usable_size(p);
    to = realloc(p, n);
    if (to != NULL)
        memory_add((int64_t)malloc_usable_size(to) - was);
    else if (n == 0)
        memory_add(-was);
    else
        memory_refused = true;
    return to;
}

static void
memory_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    memory_give(p, TLS_LIB_FREE_CLEANSES);
}

#ifdef OPENSSL_IS_AWSLC
void *
tls_lib_malloc(size_t n)
{
    return memory_take(n);
}

void
tls_lib_free(void *p)
{
    memory_give(p, false);
}
#endif

static void
memory_keep(unsigned keep)
{
    while (memory_ready.n > keep) {
        void *p = memory_ready.blocks[--memory_ready.n];

        memory_add(-(int64_t)malloc_usable_size(p));
        free(p);
    }
}

void
tls_memory_enter(void)
{
    memory_ready.room = MEMORY_READY;
}

void
tls_memory_leave(void)
{
    memory_ready.room = 0;
    memory_keep(0);
}

/* Half at each tick: a burst that comes back soon finds some. */
void
tls_trim(void)
{
    memory_keep(memory_ready.n / 2);
}

bool
tls_memory_refused(void)
{
    bool refused = memory_refused;

    memory_refused = false;
    return refused;
}

/* OpenSSL refuses when it has allocated already: then nothing is counted, and nothing else is wrong.  Without the pool
 * all is the heap's. */
void
tls_init(void)
{
    if (memory_packs)
        tls_pool_open(TLS_POOL_SLABS);
    CRYPTO_set_mem_functions(memory_malloc, memory_realloc, memory_free);
}

int64_t
tls_memory(void)
{
    /* What threads have not told may be below 0 for a moment in sum. */
    int64_t told = atomic_load_explicit(&memory_told, memory_order_relaxed);

    return told > 0 ? told : 0;
}
