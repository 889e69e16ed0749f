/* table_guard.c -- zeros where a truncated file was. */
#include "daemon/table/table_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/terr.h"

enum {
    GUARDS_MAX = 4096 /* three for each table and thread */
};

static struct table_guard guard_ranges[GUARDS_MAX];
static struct sigaction guard_before;
static uintptr_t guard_page; /* bytes, less 1 */

/* Only system calls and atomics: it may interrupt anything. */
static void
guard_on_bus(int sig, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;

    (void)context;
    for (unsigned i = 0; i < GUARDS_MAX; i++) {
        struct table_guard *g = &guard_ranges[i];
        uintptr_t from = atomic_load(&g->from), to = atomic_load(&g->to);

        /* 0 is free, 1 is being filled in. */
        if (from <= 1 || at < from || at >= to)
            continue;
        at &= ~guard_page;
        atomic_store(&g->struck, true);
        /* To the end of the range: what is behind this page is gone, too. */
        if (mmap((void *)at, to - at, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            return;
    }
    /* Not ours: the access is made again, and the handler before ours decides. */
    sigaction(sig, &guard_before, NULL);
}

/* Once a process, before tables are mapped.  A handler that was there decides faults that are
 * none of ours. */
int
table_guard_install(void)
{
    struct sigaction sa = {.sa_sigaction = guard_on_bus, .sa_flags = SA_SIGINFO | SA_RESTART};

    guard_page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    sigemptyset(&sa.sa_mask);
    return sigaction(SIGBUS, &sa, &guard_before) == 0 ? 0 : TERR_IO;
}

/* No lock: workers map their tables at the same time, and the handler may run in the middle. */
struct table_guard *
table_guard_add(const void *base, size_t bytes)
{
    for (unsigned i = 0; i < GUARDS_MAX; i++) {
        struct table_guard *g = &guard_ranges[i];
        uintptr_t none = 0;

        if (atomic_load_explicit(&g->from, memory_order_relaxed) != 0 ||
            /* Taken first, then filled: the handler of another thread may look meanwhile. */
            !atomic_compare_exchange_strong(&g->from, &none, 1))
            continue;
        atomic_store(&g->struck, false);
        atomic_store(&g->to, (uintptr_t)base + bytes);
        /* Last: from here on it counts. */
        atomic_store(&g->from, (uintptr_t)base);
        return g;
    }
    return NULL;
}

void
table_guard_remove(struct table_guard **gp)
{
    struct table_guard *g = *gp;

    *gp = NULL;
    if (g != NULL)
        /* Before the caller unmaps: the address may be another's at once. */
        atomic_store(&g->from, 0);
}
