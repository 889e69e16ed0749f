/* codec_drive.h -- a body through a codec, by pieces of any size, in memory that ends where it may not be touched.
 *
 * ISA-L is assembly that no sanitizer sees, so each piece of input and of room ends at a page without access. */
#ifndef TARN_CODEC_DRIVE_H
#define TARN_CODEC_DRIVE_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"

enum {
    DRIVE_PIECE_MAX = 1 << 20,
    DRIVE_BEFORE = 64, /* bytes in front of the room that are looked at */
};

/* How a body goes through.  Of pieces 0 is the greatest. */
struct drive {
    enum codec_kind kind;
    size_t in_piece, out_piece;
    unsigned flush_every; /* pieces of input; 0: never */
    bool ends_alone;      /* CODEC_ENDS comes behind the last piece, without input */
    size_t out_max;       /* bytes that are kept; 0: all */
};

/* What came out of it. */
struct drive_out {
    char *ptr;
    size_t len, room;
    uint64_t total; /* whatever was kept of it */
    int said;       /* CODEC_ENDED or TERR_* */
};

/* The end of memory behind which there is a page without access. */
static inline char *
drive_wall(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, DRIVE_PIECE_MAX + DRIVE_BEFORE + 2 * page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end;

    tassert(p != MAP_FAILED);
    end = p + (DRIVE_PIECE_MAX + DRIVE_BEFORE + page) / page * page;
    if (mprotect(end, page, PROT_NONE) != 0)
        abort();
    return end;
}

static inline void
drive_keep(struct drive_out *o, const char *p, size_t len)
{
    if (o->len + len > o->room) {
        o->room = 2 * (o->len + len);
        o->ptr = realloc(o->ptr, o->room);
        tassert(o->ptr != NULL);
    }
    if (len > 0)
        memcpy(o->ptr + o->len, p, len);
    o->len += len;
}

static inline void
drive_done(struct drive_out *o)
{
    free(o->ptr);
    *o = (struct drive_out){0};
}

/* One piece of input. */
static inline int
drive_piece(struct codec *c, const struct drive *d, struct slice piece, enum codec_flow flow,
    struct drive_out *o)
{
    static char *in_wall, *out_wall, before[DRIVE_BEFORE];
    size_t room = d->out_piece > 0 ? d->out_piece : DRIVE_PIECE_MAX;
    struct slice in = {NULL, piece.len};
    int said;

    if (in_wall == NULL) {
        in_wall = drive_wall();
        out_wall = drive_wall();
        memset(before, 0x5a, DRIVE_BEFORE);
    }
    if (piece.len > 0)
        in.ptr = memcpy(in_wall - piece.len, piece.ptr, piece.len);
    do {
        struct span out = {out_wall - room, room};
        uint64_t was_in = codec_in(c), was_out = codec_out(c);
        size_t len = in.len;

        memcpy(out_wall - room - DRIVE_BEFORE, before, DRIVE_BEFORE);
        said = codec_run(c, &in, &out, flow);
        tassert(
            out.ptr + out.len == out_wall && in.ptr + in.len == (piece.len > 0 ? in_wall : NULL));
        tassert(codec_in(c) - was_in == len - in.len && codec_out(c) - was_out == room - out.len);
        tassert(memcmp(out_wall - room - DRIVE_BEFORE, before, DRIVE_BEFORE) == 0);
        drive_keep(o, out_wall - room, room - out.len);
        o->total += room - out.len;
        if (d->out_max > 0 && o->len > d->out_max)
            o->len = 0;
    } while (said == CODEC_WANTS_ROOM);
    return said;
}

/* All of `body`, by a codec of the pool. */
static inline struct drive_out
drive_run(struct codec_pool *pool, const struct drive *d, struct slice body)
{
    size_t most = d->in_piece > 0 ? d->in_piece : DRIVE_PIECE_MAX;
    struct codec *c = codec_new(pool, d->kind);
    struct drive_out o = {0};
    bool ends = false;

    tassert(c != NULL);
    for (unsigned n = 1; !ends; n++) {
        struct slice piece = {body.ptr, body.len < most ? body.len : most};
        enum codec_flow flow = CODEC_GOES_ON;

        ends = d->ends_alone ? body.len == 0 : piece.len == body.len;
        if (ends)
            flow = CODEC_ENDS;
        else if (d->flush_every > 0 && n % d->flush_every == 0)
            flow = CODEC_FLUSH;
        o.said = drive_piece(c, d, piece, flow, &o);
        if (o.said < 0)
            break;
        tassert(o.said == (ends ? CODEC_ENDED : CODEC_WANTS_INPUT));
        body.ptr += piece.len;
        body.len -= piece.len;
    }
    codec_free(&c);
    return o;
}

#endif
