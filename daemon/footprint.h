/* footprint.h -- what the process takes besides what is charged, held against the store's size.
 *
 * A store's size is a promise about the whole process (storage/README.md).  What there is before
 * anything is stored, and what the allocator takes beyond what it gives, count too, as far as a
 * store can spare it: a small one is left alone.
 *
 * Threads: one, in a task or before there are others: the store may evict for it.
 */
#ifndef TARN_FOOTPRINT_H
#define TARN_FOOTPRINT_H

#include <stdint.h>

struct storage;

struct footprint {
    struct storage *storage;    /* borrowed */
    uint64_t program, overhead; /* bytes charged */
};

/* Before the workers start.  `rings`: bytes of the log's; none of them has been touched. */
void footprint_open(struct footprint *fp, struct storage *s, uint64_t rings);
/* Looks how large the process is, some times a second.  What is above the size makes
 * room, and pages that are not used go back at once. */
void footprint_follow(struct footprint *fp);
/* Nothing is charged for it any more.  All zero: nothing was. */
void footprint_close(struct footprint *fp);

#endif
