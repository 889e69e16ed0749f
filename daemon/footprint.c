/* footprint.c -- what the process takes besides what is charged. */
#include "daemon/footprint.h"

#include <stdbool.h>

#include "daemon/base/tassert.h"
#include "daemon/base/usage.h"
#include "storage/storage.h"

#define FOOTPRINT_FROM (UINT64_C(64) << 20) /* bytes of storage that can spare something */
enum {
    PROGRAM_PART_MAX = 4,  /* of the size: the most that is taken for the program */
    OVERHEAD_PART_MAX = 8, /* of the size: the most that is taken for what cannot be filled */
    OVERHEAD_STEP = 2,     /* of the way at a time: freed pages take seconds to go back */
};

/* A sanitizer's shadow and quarantine are nothing that room in the store would make smaller. */
#if defined(TARN_LIBC_MALLOC)
static const bool footprint_follows = false;
#else
static const bool footprint_follows = true;
#endif

/* 0: a store that small has nothing to spare for the program. */
static uint64_t
footprint_size(const struct footprint *fp)
{
    struct storage_stats s;

    storage_get_stats(fp->storage, &s);
    return s.size < FOOTPRINT_FROM ? 0 : s.size;
}

/* Once, before traffic: `program` stays as it is, so that what grows later is charged by name or
 * as overhead. */
void
footprint_open(struct footprint *fp, struct storage *s, uint64_t rings)
{
    uint64_t bytes = usage_resident() + rings, most;

    *fp = (struct footprint){.storage = s};
    most = footprint_size(fp) / PROGRAM_PART_MAX;
    fp->program = bytes < most ? bytes : most;
    storage_charge(s, CHARGE_PROGRAM, 0, fp->program);
}

/* The memory of the process that is not charged elsewhere. */
static uint64_t
footprint_over(const struct footprint *fp, uint64_t size, uint64_t resident)
{
    uint64_t most = size / OVERHEAD_PART_MAX, known;
    struct storage_stats s;

    storage_get_stats(fp->storage, &s);
    known = s.charged - fp->overhead;
    if (resident <= known)
        return 0;
    return resident - known < most ? resident - known : most;
}

/* On the management loop, four times a second.  It closes half of the gap at a time: freed pages
 * go back to the kernel late, and to follow each swing would evict responses for memory that is
 * about to be free. */
void
footprint_follow(struct footprint *fp)
{
    uint64_t size = footprint_size(fp), resident, over, next;

    tassert(fp->storage != NULL); /* footprint_open() was */
    if (!footprint_follows || size == 0)
        return;
    resident = usage_resident();
    if (resident > size) {
        storage_tidy(true);
        resident = usage_resident();
    }
    over = footprint_over(fp, size, resident);
    next = fp->overhead - fp->overhead / OVERHEAD_STEP + over / OVERHEAD_STEP;
    storage_charge(fp->storage, CHARGE_OVERHEAD, fp->overhead, next);
    tassert(
        next <= fp->overhead || next <= size / OVERHEAD_PART_MAX); /* it grows to its bound only */
    fp->overhead = next;
}

void
footprint_close(struct footprint *fp)
{
    if (fp->storage == NULL)
        return;
    storage_charge(fp->storage, CHARGE_OVERHEAD, fp->overhead, 0);
    storage_charge(fp->storage, CHARGE_PROGRAM, fp->program, 0);
    fp->overhead = fp->program = 0;
}
