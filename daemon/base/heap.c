/* heap.c -- the first use of the allocator by a thread. */
#include "daemon/base/heap.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    HEAP_ROOM_BYTES = 16 << 20, /* an arena's first block and its first extent take 2 MiB each */
};

void
heap_join(void)
{
    void *volatile p = malloc(64); /* volatile: a compiler may drop the pair */

    free(p);
}

bool
heap_has_room(void)
{
    void *p =
        mmap(NULL, HEAP_ROOM_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return false;
    munmap(p, HEAP_ROOM_BYTES);
    return true;
}
