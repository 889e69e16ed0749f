/* repack.h -- a whole body packed once more, and better than a loop could while it came.
 *
 * For bodies that are hit often: a form of fewer bytes is worth milliseconds or seconds of a processor once.  A call
 * goes by pieces of REPACK_PIECE and asks between them whether to stop, so a budget of time and a shutdown end it.
 *
 *   form        a coding, in which the body is stored beside others
 *   dictionary  bytes that the client has already, as an older version of the body (RFC 9842)
 *
 * Threads: any but a loop's.  Memory is counted in `usage`, which has no lock: the thread's own, or NULL; while
 * it runs the caller may charge repack_memory() where the loops' memory is charged.
 */
#ifndef TARN_REPACK_H
#define TARN_REPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct usage;

enum repack_form {
    REPACK_GZIP,   /* ISA-L, level 1 to 3 */
    REPACK_BROTLI, /* br, level 0 to 11 */
    REPACK_ZSTD,   /* level 1 to 19 */
    REPACK_DCZ, /* zstd with a dictionary, behind a header that names it (RFC 9842 5); level 1 to 19 */
    REPACK_FORMS
};

enum {
    REPACK_PIECE = 64 << 10,
    REPACK_HASH_BYTES = 32, /* SHA-256 */
    REPACK_DCZ_HEAD_BYTES = 40,
};

struct repack {
    enum repack_form form;
    int level;
    struct slice
        dictionary; /* REPACK_DCZ: as its response's content was, no magic number in it means anything */
    const uint8_t *hash;     /* REPACK_DCZ: REPACK_HASH_BYTES, of the dictionary */
    struct usage *usage;     /* may be NULL */
    bool (*stop)(void *ctx); /* true: no further; NULL: never */
    void *ctx;
};

enum repack_said {
    REPACK_DONE,      /* *out is behind what was written */
    REPACK_TOO_LARGE, /* it is not worth it: there was no room for it; *out is as it was */
    REPACK_STOPPED,   /* *out is as it was */
};

/* Writes all of `in`, packed, to the front of *out, and nothing behind it.  Equal arguments give equal bytes.  Borrows
 * all of it for the call.  enum repack_said, or TERR_NOMEM. */
int repack(const struct repack *how, struct slice in, struct span *out);

/* Bytes of memory that repack() takes at most, for a body of that length, beside what it is given. */
size_t repack_memory(const struct repack *how, size_t len);

#endif
