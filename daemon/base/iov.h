/* iov.h -- runs of buffers for one write.
 *
 * Threads: none of its own.  Memory: everything is the caller's.
 */
#ifndef TARN_IOV_H
#define TARN_IOV_H

#include <stddef.h>
#include <sys/uio.h>

#include "daemon/base/tassert.h"

static inline size_t
iov_bytes(const struct iovec *iov, unsigned n)
{
    size_t total = 0;

    for (unsigned i = 0; i < n; i++)
        total += iov[i].iov_len;
    return total;
}

/* Drops the first `bytes` of the buffers in place; returns how many buffers are gone whole. */
static inline unsigned
iov_skip(struct iovec *iov, unsigned n, size_t bytes)
{
    unsigned i = 0;

    while (i < n && bytes >= iov[i].iov_len)
        bytes -= iov[i++].iov_len;
    if (bytes > 0) {
        tassert(i < n);
        iov[i].iov_base = (char *)iov[i].iov_base + bytes;
        iov[i].iov_len -= bytes;
    }
    return i;
}

#endif
