/* conf_memory.h -- how much memory this process can have: the machine's, or less by its cgroup.
 *
 * Threads: any.
 */
#ifndef TARN_CONF_MEMORY_H
#define TARN_CONF_MEMORY_H

#include <stdint.h>

struct conf_memory {
    uint64_t bytes;  /* 0: not known */
    char limit[512]; /* what says so: "the machine", or the cgroup's file */
};

/* Looks at proc and sys below `root`: "" but in tests.  Knows cgroup v1 and v2, and the limits of the
 * groups above, too. */
void conf_memory_read(struct conf_memory *out, const char *root);

#endif
