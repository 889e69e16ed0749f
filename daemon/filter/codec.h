/* codec.h -- content codings of bodies: bytes in, bytes out, as many as there is room for.
 *
 *   codec   the state of one body that is being packed or unpacked
 *   pool    what the bodies of one loop may take: so many codecs at once, and no more
 *
 * A codec knows bytes, neither HTTP nor storage.  It holds no input: what it has not consumed stays in the
 * caller's slice.
 *
 * gzip (RFC 1952) by ISA-L: packing at level 1, 340 MB/s of the body and 197 kB; unpacking 660 MB/s and 98 kB.
 * zstd (RFC 8878) by libzstd: packing at level 3, 220 MB/s and 1.5 MB; unpacking 1,100 MB/s and, by the window that the
 * body names, 260 kB to 10.5 MB.  br (RFC 7932) by libbrotli: unpacking 500 MB/s; its windows have up to 16 MiB.
 * Whole bodies are packed again by repack.h.
 *
 * Threads: one loop's.  Errors: TERR_*.
 */
#ifndef TARN_CODEC_H
#define TARN_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct codec;
struct codec_pool;
struct usage;

enum codec_kind {
    CODEC_GZIP,   /* packs */
    CODEC_GUNZIP, /* unpacks; several members are one body (RFC 1952 2.2) */
    CODEC_ZSTD,   /* packs */
    CODEC_UNZSTD, /* unpacks; several frames are one body, and skippable ones have nothing in them (RFC 8878 3.1) */
    CODEC_UNBROTLI,
    CODEC_KINDS
};

enum codec_flow {
    CODEC_GOES_ON, /* more input may follow; what may be held back is */
    CODEC_FLUSH,   /* the same, but what was consumed is to be readable from what was written */
    CODEC_ENDS,    /* `in` is the last of the input */
};

enum codec_said {
    CODEC_WANTS_INPUT, /* all of `in` was consumed, and with CODEC_FLUSH everything was written */
    CODEC_WANTS_ROOM,  /* `out` is full, and there is more to write, or may be */
    CODEC_ENDED,       /* with CODEC_ENDS: everything was written */
};

/* Nothing is allocated yet.  `most`: codecs at once, of each kind; > 0.  Memory is counted in `u` as
 * USAGE_REQUEST; borrows u.  NULL: no memory. */
struct codec_pool *codec_pool_new(struct usage *u, unsigned most);
/* No codec is in use. */
void codec_pool_free(struct codec_pool **pp);
/* Gives the memory of idle codecs back, but for `keep` of each kind. */
void codec_pool_trim(struct codec_pool *p, unsigned keep);
/* In use now, of a kind. */
unsigned codec_pool_used(const struct codec_pool *p, enum codec_kind kind);

/* Owned by the caller.  NULL: too many at once, or no memory. */
struct codec *codec_new(struct codec_pool *p, enum codec_kind kind);
void codec_free(struct codec **cp); /* *cp may be NULL */

/* Consumes from the front of *in and writes to the front of *out; both are moved on.  enum codec_said, or
 *   TERR_FRAMING   unpacking: this is not the coding, a check does not hold, or it ends too early
 *   TERR_LIMIT     unpacking: beyond CODEC_BOMB_BYTES it is CODEC_BOMB_RATIO times its input; or, beyond
 *                  CODEC_WASTE_BYTES of input, less than a CODEC_WASTE_RATIO-th: blocks with nothing in them; or
 *                  zstd wants a window of more than CODEC_ZSTD_WINDOW_MAX
 *   TERR_NOMEM     CODEC_ZSTD, CODEC_UNZSTD and CODEC_UNBROTLI
 * after which the codec can only be freed. */
int codec_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow);

enum {
    CODEC_BOMB_BYTES = 64 << 20,
    CODEC_BOMB_RATIO = 1000,
    CODEC_WASTE_BYTES = 64 << 10,
    CODEC_WASTE_RATIO = 64,          /* a flush behind each byte takes 10 */
    CODEC_ZSTD_WINDOW_MAX = 8 << 20, /* RFC 9659 3 */
};

/* Bytes that have gone in and come out so far. */
uint64_t codec_in(const struct codec *c);
uint64_t codec_out(const struct codec *c);

#endif
