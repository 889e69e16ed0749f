/* tls_pool.h -- blocks of the few sizes that each TLS connection keeps, packed.
 *
 * An allocator rounds a size up to its next class: the 7,624 bytes of OpenSSL 3.0's SSL to 8,192, and has 128 bytes of
 * books for each.  Here blocks of one size, to 16 bytes, lie side by side in slabs of 64 KiB, and a slab without
 * blocks goes back to the kernel.  Its addresses are reserved once, so that they tell which
 * blocks are its own.
 *
 * One of the process.  Threads: any, but for open and close.
 */
#ifndef TARN_TLS_POOL_H
#define TARN_TLS_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TLS_POOL_LEAST = 512, /* bytes of a block: classes of smaller ones lie closer */
    TLS_POOL_MOST = 8192,
    TLS_POOL_SLAB = 65536,
    TLS_POOL_SLABS = 65536, /* 4 GiB of addresses: half a million connections */
};

/* Where its slabs lie; of no bytes while it is closed. */
struct tls_pool_range {
    uintptr_t base, bytes;
};
extern struct tls_pool_range tls_pool_range;

/* Is it a block of the pool's?  Asked of each block that a library frees, a thousand a handshake. */
static inline bool
tls_pool_has(const void *p)
{
    return (uintptr_t)p - tls_pool_range.base < tls_pool_range.bytes;
}

static inline bool
tls_pool_takes(size_t n)
{
    return n >= TLS_POOL_LEAST && n <= TLS_POOL_MOST;
}

/* Before any other call.  False: no addresses are to be had, and the pool gives no block. */
bool tls_pool_open(unsigned slabs);
/* No block is left. */
void tls_pool_close(void);

/* Of a size that it takes, at an address that 16 divides; NULL: the pool is full, or closed. */
void *tls_pool_take(size_t n);
/* What a block of the pool's takes of the memory, a little more than its size. */
size_t tls_pool_cost(const void *p);
/* Bytes that a block of the pool's has. */
size_t tls_pool_room(const void *p);
void tls_pool_give(void *p);

#endif
