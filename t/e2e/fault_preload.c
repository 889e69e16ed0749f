/* fault_preload.c -- faults for a program under test: LD_PRELOAD=this TARN_FAULTS=FILE tarnd ...
 *
 * FILE is twelve 64-bit integers that the test maps too (faults.py), so faults come and go while
 * the program runs: which allocation fails, by how much the wall clock is wrong, what accept says.
 * Without FILE everything is as it was.
 *
 * Threads: any.  The functions of libc and of jemalloc's own interface stand in front of the real
 * ones, whatever library calls them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct faults {
    _Atomic int64_t alloc_in;     /* 1: the next allocation fails; 0: none does */
    _Atomic int64_t alloc_row;    /* and so many in a row, from that one on */
    _Atomic int64_t alloc_seen;   /* allocations, since the start */
    _Atomic int64_t alloc_failed; /* of these, by us */
    _Atomic int64_t wall_ms;      /* added to the wall clock */
    _Atomic int64_t accept_fails; /* calls of accept4 that are still to fail */
    _Atomic int64_t accept_errno;
    _Atomic int64_t realloc_in; /* as alloc_in, of reallocations alone: tables that grow */
    _Atomic int64_t tls_in;     /* as alloc_in, of what OpenSSL asks for alone */
    _Atomic int64_t tls_row;
    _Atomic int64_t tls_failed;
    _Atomic int64_t tls_live; /* blocks that OpenSSL has now */
};

static struct faults none;
static struct faults *faults = &none;

__attribute__((constructor)) static void
faults_open(void)
{
    const char *path = getenv("TARN_FAULTS");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = MAP_FAILED;

    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        abort();
    faults = map;
}

/* The function of that name that would have been called without ours.  dlsym allocates nothing
 * when it succeeds, so malloc may ask for malloc. */
static void *
faults_next(_Atomic(void *) *slot, const char *name)
{
    void *f = atomic_load_explicit(slot, memory_order_relaxed);

    if (f == NULL) {
        f = dlsym(RTLD_NEXT, name);
        if (f == NULL)
            abort();
        atomic_store_explicit(slot, f, memory_order_relaxed);
    }
    return f;
}

#define NEXT(type, name)                 \
    ({                                   \
        static _Atomic(void *) slot;     \
        (type) faults_next(&slot, name); \
    })

/* Counts down to the one that is meant; true for it, and for all that follow until it is set
 * to 0. */
static bool
faults_due(_Atomic int64_t *in)
{
    int64_t now = atomic_load(in);

    while (now > 1)
        if (atomic_compare_exchange_weak(in, &now, now - 1))
            return false;
    return now == 1;
}

static bool
faults_fail(_Atomic int64_t *in, _Atomic int64_t *row, _Atomic int64_t *failed)
{
    atomic_fetch_add(failed, 1);
    if (atomic_fetch_sub(row, 1) <= 1)
        atomic_store(in, 0);
    errno = ENOMEM;
    return true;
}

static bool
faults_alloc(void)
{
    atomic_fetch_add_explicit(&faults->alloc_seen, 1, memory_order_relaxed);
    return faults_due(&faults->alloc_in) &&
           faults_fail(&faults->alloc_in, &faults->alloc_row, &faults->alloc_failed);
}

static bool
faults_realloc(void)
{
    return faults_due(&faults->realloc_in) &&
           faults_fail(&faults->realloc_in, &faults->alloc_row, &faults->alloc_failed);
}

/* OpenSSL asks the program, which asks malloc: so the program learns of it.  The usual model of thread-local
 * memory would ask malloc for it. */
static _Thread_local bool faults_refuse __attribute__((tls_model("initial-exec")));

/* The headers' declarations promise what callers may rely on, not what these may look like. */
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void *aligned_alloc(size_t align, size_t size);
int posix_memalign(void **out, size_t align, size_t size);
void *mallocx(size_t size, int flags);

void *
malloc(size_t size)
{
    return faults_refuse || faults_alloc() ? NULL : NEXT(void *(*)(size_t), "malloc")(size);
}

void *
calloc(size_t n, size_t size)
{
    return faults_alloc() ? NULL : NEXT(void *(*)(size_t, size_t), "calloc")(n, size);
}

void *
realloc(void *p, size_t size)
{
    if (faults_refuse || faults_alloc() || faults_realloc())
        return NULL;
    return NEXT(void *(*)(void *, size_t), "realloc")(p, size);
}

void *
aligned_alloc(size_t align, size_t size)
{
    return faults_alloc() ? NULL : NEXT(void *(*)(size_t, size_t), "aligned_alloc")(align, size);
}

int
posix_memalign(void **out, size_t align, size_t size)
{
    if (faults_alloc())
        return ENOMEM;
    return NEXT(int (*)(void **, size_t, size_t), "posix_memalign")(out, align, size);
}

/* jemalloc's, which storage calls; a program without jemalloc never calls it. */
void *
mallocx(size_t size, int flags)
{
    return faults_alloc() ? NULL : NEXT(void *(*)(size_t, int), "mallocx")(size, flags);
}

/* ---- OpenSSL's heap: in front of the functions that the program gives it ---- */

typedef void *tls_malloc_fn(size_t n, const char *file, int line);
typedef void *tls_realloc_fn(void *p, size_t n, const char *file, int line);
typedef void tls_free_fn(void *p, const char *file, int line);

int CRYPTO_set_mem_functions(tls_malloc_fn *m, tls_realloc_fn *r, tls_free_fn *f);

/* Set once, before there are threads. */
static tls_malloc_fn *tls_malloc_next;
static tls_realloc_fn *tls_realloc_next;
static tls_free_fn *tls_free_next;

static bool
faults_tls(void)
{
    return faults_due(&faults->tls_in) &&
           faults_fail(&faults->tls_in, &faults->tls_row, &faults->tls_failed);
}

static void *
tls_malloc(size_t n, const char *file, int line)
{
    void *p;

    faults_refuse = faults_tls();
    p = tls_malloc_next(n, file, line);
    faults_refuse = false;
    if (p != NULL)
        atomic_fetch_add_explicit(&faults->tls_live, 1, memory_order_relaxed);
    return p;
}

static void *
tls_realloc(void *p, size_t n, const char *file, int line)
{
    void *to;

    faults_refuse = faults_tls();
    to = tls_realloc_next(p, n, file, line);
    faults_refuse = false;
    if ((p == NULL) != (to == NULL)) /* made, or freed by a size of 0 */
        atomic_fetch_add_explicit(&faults->tls_live, to != NULL ? 1 : -1, memory_order_relaxed);
    return to;
}

static void
tls_free(void *p, const char *file, int line)
{
    if (p != NULL)
        atomic_fetch_sub_explicit(&faults->tls_live, 1, memory_order_relaxed);
    tls_free_next(p, file, line);
}

int
CRYPTO_set_mem_functions(tls_malloc_fn *m, tls_realloc_fn *r, tls_free_fn *f)
{
    typedef int next_fn(tls_malloc_fn * m, tls_realloc_fn * r, tls_free_fn * f);

    tls_malloc_next = m;
    tls_realloc_next = r;
    tls_free_next = f;
    return NEXT(next_fn *, "CRYPTO_set_mem_functions")(tls_malloc, tls_realloc, tls_free);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = NEXT(int (*)(clockid_t, struct timespec *), "clock_gettime")(clock, now);
    int64_t ms = atomic_load(&faults->wall_ms), ns;

    if (rc != 0 || clock != CLOCK_REALTIME || ms == 0)
        return rc;
    ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + ms * 1000000;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

time_t
time(time_t *out)
{
    struct timespec now = {.tv_sec = 0};

    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int
accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    int64_t left = atomic_load(&faults->accept_fails);

    while (left > 0) {
        if (atomic_compare_exchange_weak(&faults->accept_fails, &left, left - 1)) {
            errno = (int)atomic_load(&faults->accept_errno);
            return -1;
        }
    }
    return NEXT(int (*)(int, struct sockaddr *, socklen_t *, int), "accept4")(fd, addr, len, flags);
}
