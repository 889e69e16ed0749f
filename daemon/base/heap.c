/* heap.c -- the first use of the allocator by a thread. */
#include "daemon/base/heap.h"

#include <stdlib.h>

void
heap_join(void)
{
    void *volatile p = malloc(64); /* volatile: a compiler may drop the pair */

    free(p);
}
