/* tls_pool.c -- blocks of the few sizes that each TLS connection keeps, packed.
 *
 * The books of a slab lie beside the slabs, so that the pages of one that is never filled are never touched: blocks
 * that were given back are taken before fresh ones.  Slabs with room wait in the order in which they got it: those that
 * get emptier have the time to become empty. */
#include "daemon/tls/tls_pool.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/tassert.h"

enum {
    POOL_STEP = 16,
    POOL_KINDS = (TLS_POOL_MOST - TLS_POOL_LEAST) / POOL_STEP + 1,
    POOL_PAGE = 4096,
    POOL_GROWS = 16,        /* slabs at a time */
    POOL_IDLE = 8,          /* slabs without a block that stay for the next connections */
    POOL_NONE = UINT16_MAX, /* no block */
};

struct pool_slab {
    uint16_t kind;
    uint16_t used;
    uint16_t fresh;      /* blocks from here on were never taken */
    uint16_t given;      /* came back last; begins with the number of the next.  POOL_NONE */
    uint32_t next, prev; /* in a ring of slabs that have room, of one kind */
};

struct tls_pool_range tls_pool_range;

static struct {
    pthread_mutex_t lock; /* for some instructions, and now and then a system call */
    char *base;           /* NULL: closed */
    struct pool_slab *slabs;
    uint32_t nslabs;           /* addresses there are for */
    uint32_t ready;            /* those before it can be read and written */
    uint32_t fresh;            /* those from here on were never used */
    uint32_t idle;             /* those in rings that have no block */
    uint32_t empty;            /* a list by `next`; slabs are counted from 1: 0 is none */
    uint32_t room[POOL_KINDS]; /* the first of a ring; 0: there is none */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t
kind_size(unsigned kind)
{
    return TLS_POOL_LEAST + (size_t)kind * POOL_STEP;
}

static unsigned
kind_blocks(unsigned kind)
{
    return (unsigned)(TLS_POOL_SLAB / kind_size(kind));
}

static struct pool_slab *
slab_at(uint32_t n)
{
    return &pool.slabs[n - 1];
}

static char *
slab_bytes(uint32_t n)
{
    return pool.base + (size_t)(n - 1) * TLS_POOL_SLAB;
}

static uint32_t
slab_of(const void *p)
{
    tassert(tls_pool_has(p));
    return (uint32_t)(((uintptr_t)p - tls_pool_range.base) / TLS_POOL_SLAB) + 1;
}

/* ---- rings ---- */

static void
ring_append(uint32_t n)
{
    struct pool_slab *s = slab_at(n);
    uint32_t *first = &pool.room[s->kind];

    if (*first == 0) {
        *first = s->next = s->prev = n;
        return;
    }
    s->next = *first;
    s->prev = slab_at(*first)->prev;
    slab_at(s->prev)->next = n;
    slab_at(s->next)->prev = n;
}

static void
ring_remove(uint32_t n)
{
    struct pool_slab *s = slab_at(n);
    uint32_t *first = &pool.room[s->kind];

    slab_at(s->prev)->next = s->next;
    slab_at(s->next)->prev = s->prev;
    if (*first == n)
        *first = s->next != n ? s->next : 0;
}

/* ---- slabs ---- */

/* What is reserved and not in use is no memory that could be read, dumped, or counted by a kernel that commits no
 * more than it has. */
static bool
pool_grow(void)
{
    uint32_t n = pool.nslabs - pool.ready;

    if (n > POOL_GROWS)
        n = POOL_GROWS;
    if (n == 0 || mprotect(slab_bytes(pool.ready + 1), (size_t)n * TLS_POOL_SLAB,
                      PROT_READ | PROT_WRITE) != 0)
        return false;
    pool.ready += n;
    return true;
}

/* 0: none is left. */
static uint32_t
slab_new(unsigned kind)
{
    uint32_t n = pool.empty;

    if (n != 0)
        pool.empty = slab_at(n)->next;
    else if (pool.fresh < pool.ready || pool_grow())
        n = ++pool.fresh;
    else
        return 0;
    *slab_at(n) = (struct pool_slab){.kind = (uint16_t)kind, .given = POOL_NONE};
    ring_append(n);
    pool.idle++;
    return n;
}

static void
slab_drop(uint32_t n)
{
    struct pool_slab *s = slab_at(n);

    if (pool.idle < POOL_IDLE) {
        pool.idle++;
        return;
    }
    ring_remove(n);
    madvise(slab_bytes(n), TLS_POOL_SLAB, MADV_DONTNEED);
    s->next = pool.empty;
    pool.empty = n;
}

static char *
slab_take(uint32_t n)
{
    struct pool_slab *s = slab_at(n);
    unsigned block = s->given != POOL_NONE ? s->given : s->fresh;
    char *p = slab_bytes(n) + block * kind_size(s->kind);

    tassert(s->used < kind_blocks(s->kind) && block < kind_blocks(s->kind));
    if (s->given != POOL_NONE)
        memcpy(&s->given, p, sizeof(s->given));
    else
        s->fresh++;
    pool.idle -= s->used == 0;
    s->used++;
    if (s->used == kind_blocks(s->kind))
        ring_remove(n);
    return p;
}

static void
slab_give(uint32_t n, char *p)
{
    struct pool_slab *s = slab_at(n);
    size_t at = (size_t)(p - slab_bytes(n));

    tassert(s->used > 0 && at % kind_size(s->kind) == 0);
    memcpy(p, &s->given, sizeof(s->given));
    s->given = (uint16_t)(at / kind_size(s->kind));
    if (s->used == kind_blocks(s->kind))
        ring_append(n);
    s->used--;
    if (s->used == 0)
        slab_drop(n);
}

/* ---- the pool ---- */

bool
tls_pool_open(unsigned slabs)
{
    struct pool_slab *books;
    char *p;

    tassert(pool.base == NULL && slabs > 0 && slabs <= TLS_POOL_SLABS);
    books = mmap(NULL, slabs * sizeof(*books), PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (books == MAP_FAILED)
        return false;
    p = mmap(NULL, (size_t)slabs * TLS_POOL_SLAB, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        munmap(books, slabs * sizeof(*books));
        return false;
    }
    madvise(p, (size_t)slabs * TLS_POOL_SLAB, MADV_NOHUGEPAGE);
    pool.base = p;
    tls_pool_range =
        (struct tls_pool_range){.base = (uintptr_t)p, .bytes = (uintptr_t)slabs * TLS_POOL_SLAB};
    pool.slabs = books;
    pool.nslabs = slabs;
    pool.ready = pool.fresh = pool.empty = pool.idle = 0;
    memset(pool.room, 0, sizeof(pool.room));
    return true;
}

void
tls_pool_close(void)
{
    if (pool.base == NULL)
        return;
    for (uint32_t n = 1; n <= pool.fresh; n++)
        tassert(slab_at(n)->used == 0);
    munmap(pool.base, (size_t)pool.nslabs * TLS_POOL_SLAB);
    munmap(pool.slabs, pool.nslabs * sizeof(struct pool_slab));
    pool.base = NULL;
    tls_pool_range = (struct tls_pool_range){.base = 0, .bytes = 0};
}

void *
tls_pool_take(size_t n)
{
    unsigned kind;
    uint32_t slab;
    char *p = NULL;

    tassert(tls_pool_takes(n));
    if (pool.base == NULL)
        return NULL;
    kind = (unsigned)((n - TLS_POOL_LEAST + POOL_STEP - 1) / POOL_STEP);
    pthread_mutex_lock(&pool.lock);
    slab = pool.room[kind] != 0 ? pool.room[kind] : slab_new(kind);
    if (slab != 0)
        p = slab_take(slab);
    pthread_mutex_unlock(&pool.lock);
    return p;
}

size_t
tls_pool_room(const void *p)
{
    return kind_size(slab_at(slab_of(p))->kind);
}

size_t
tls_pool_cost(const void *p)
{
    unsigned kind = slab_at(slab_of(p))->kind, blocks = kind_blocks(kind);
    size_t pages = (blocks * kind_size(kind) + POOL_PAGE - 1) / POOL_PAGE;

    return pages * POOL_PAGE / blocks;
}

void
tls_pool_give(void *p)
{
    uint32_t n = slab_of(p);

    pthread_mutex_lock(&pool.lock);
    slab_give(n, p);
    pthread_mutex_unlock(&pool.lock);
}
