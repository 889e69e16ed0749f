/* lease_each.c -- reading a whole body from code that may block. */
#include "daemon/base/limits.h"
#include "storage/lease.h"

#include <errno.h>

/* Hands out one batch and returns its leases, also those after the first refusal. */
static int
lease_each_batch(struct lease_iter *it, struct lease_batch *b,
    int (*each)(void *ctx, const char *ptr, size_t len), void *ctx)
{
    uint64_t ids[LIMIT_LEASES];
    int err = 0;

    for (unsigned i = 0; i < b->n; i++) {
        if (err == 0)
            err = each(ctx, b->extents[i].ptr, b->extents[i].len);
        ids[i] = b->extents[i].id;
    }
    lease_return(it, &(struct lease_returns){.ids = ids, .n = b->n});
    b->n = 0;
    return err;
}

int
lease_each(struct stobj *o, uint64_t off, uint64_t len, struct waiter *w, void (*wait)(void *ctx),
    int (*each)(void *ctx, const char *ptr, size_t len), void *ctx)
{
    struct lease_extent extents[LIMIT_LEASES];
    struct lease_batch b = {.extents = extents, .max = LIMIT_LEASES};
    struct lease_iter it;
    int n, err;

    err = lease_init(&it, o, off, len, w);
    if (err < 0)
        return err;
    lease_hold(&it); /* `wait` outlives the turn in which o was found */
    do {
        n = lease_take(&it, &b);
        if (n == -EAGAIN || n == -ENOBUFS)
            wait(ctx);
        else
            err = n > 0 ? lease_each_batch(&it, &b, each, ctx) : n;
    } while (err == 0 && n != 0);
    lease_cancel(&it);
    lease_fini(&it);
    return err;
}
