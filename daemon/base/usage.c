/* usage.c -- what a loop takes from the heap for its traffic. */
#include "daemon/base/usage.h"

#include <dirent.h>
#include <linux/sock_diag.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/tassert.h"
#include "daemon/base/waiter.h"

void
usage_note(struct usage *u, enum usage_kind kind, size_t bytes)
{
    if (u == NULL)
        return;
    u->bytes[kind] += bytes;
    u->taken += bytes;
    if (u->taken >= USAGE_TELL && u->teller != NULL) {
        u->taken = 0;
        task_wake(u->teller);
    }
}

/* Counts what malloc(3) really gave, which may be more than was asked: only so can taking and
 * giving back agree without a size beside each piece. */
static void *
usage_add(struct usage *u, enum usage_kind kind, void *p)
{
    if (u != NULL && p != NULL)
        usage_note(u, kind, malloc_usable_size(p));
    return p;
}

/* A wrong kind would make one count too high for ever, and another wrap. */
void
usage_unnote(struct usage *u, enum usage_kind kind, size_t bytes)
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

/* NULL: `p` is as it was, and so are the counts. */
void *
usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size)
{
    size_t had = p != NULL ? malloc_usable_size(p) : 0;
    void *now = realloc(p, size);

    if (now == NULL)
        return NULL;
    usage_unnote(u, kind, had);
    return usage_add(u, kind, now);
}

void
usage_free(struct usage *u, enum usage_kind kind, void *p)
{
    if (p == NULL)
        return;
    usage_unnote(u, kind, malloc_usable_size(p));
    free(p);
}

/* Bytes, from /proc/self/statm: the second number, in pages (proc(5)). */
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

/* Bytes in the kernel for all sockets of the process.  A system call for each descriptor, so it
 * is for operators' requests and not for a loop's turn. */
uint64_t
usage_sockets(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;
    uint64_t bytes = 0;

    if (d == NULL)
        return 0;
    while ((e = readdir(d)) != NULL) {
        uint32_t info[SK_MEMINFO_VARS];
        socklen_t len = sizeof(info);

        /* What is no socket answers ENOTSOCK. */
        if (e->d_name[0] != '.' &&
            getsockopt(atoi(e->d_name), SOL_SOCKET, SO_MEMINFO, info, &len) == 0 &&
            len > SK_MEMINFO_WMEM_QUEUED * sizeof(info[0]))
            bytes += info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_WMEM_QUEUED];
    }
    closedir(d);
    return bytes;
}
