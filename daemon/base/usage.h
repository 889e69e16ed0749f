/* usage.h -- what a loop takes from the heap for its traffic, by what it is for.
 *
 * Connections, requests and what they read into come and go by the thousand, and are pooled:
 * only taking them from the heap and giving them back is counted here, so a hit counts nothing.
 * The worker charges them to its store, because its size bounds them too (storage_charge()): once a
 * second, and whenever USAGE_TELL more have been taken.
 *
 * Threads: one loop's; memory goes back on the loop that took it.  Errors: NULL when memory is
 * out.  Source: bytes as the allocator rounds them (malloc_usable_size(3)).
 */
#ifndef TARN_USAGE_H
#define TARN_USAGE_H

#include <stddef.h>
#include <stdint.h>

struct task;

enum usage_kind {
    USAGE_READ,     /* read buffers: slabs, and bytes kept for a connection */
    USAGE_ARENA,    /* chunks of arenas, idle ones too */
    USAGE_CONN,     /* connections, of clients and to backends */
    USAGE_INCOMING, /* connections that wait for their protocol */
    USAGE_REQUEST,  /* requests and fetches */
    USAGE_KINDS
};

#define USAGE_TELL ((uint64_t)1 << 20) /* bytes taken, whatever went back meanwhile */

struct usage {
    uint64_t bytes[USAGE_KINDS];
    uint64_t taken;      /* since the teller was woken */
    struct task *teller; /* borrowed; NULL: none */
};

/* `u` may be NULL: nothing is counted. */
void *usage_alloc(struct usage *u, enum usage_kind kind, size_t size);  /* not zeroed */
void *usage_calloc(struct usage *u, enum usage_kind kind, size_t size); /* zeroed */
void *usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size);
void usage_free(struct usage *u, enum usage_kind kind, void *p); /* NULL: nothing */

/* What another thread, or a library, takes for this loop's traffic; given back in the same amounts. */
void usage_note(struct usage *u, enum usage_kind kind, size_t bytes);
void usage_unnote(struct usage *u, enum usage_kind kind, size_t bytes);

/* Bytes of this process in memory, by the kernel's count; 0: it does not tell.  Any thread. */
uint64_t usage_resident(void);
/* Bytes that the kernel holds for this process's sockets, received and not read or written and not
 * acknowledged, as it accounts them (SO_MEMINFO, its own overhead included).  They belong to no
 * process, so no other figure has them.  A call for each open file.  Any thread. */
uint64_t usage_sockets(void);

#endif
