/* codec_fuzz.c -- gzip: what is packed is unpacked as it was, and what a stranger packed is the same however it is cut.
 *
 * Five bytes say how: bit 0 of the first, the others are gzip, else a body; bit 1, CODEC_ENDS comes alone; the sizes of
 * pieces of input and of room (0: all at once); after how many pieces there is a flush; how often the body
 * is repeated. */
#include "daemon/base/usage.h"
#include "t/unit/codec_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD_BYTES = 5,
    INPUT_MAX = 16384,
    BODY_MAX = 150000,
    PIECES_MAX = 1000, /* of a body, so that an input takes milliseconds */
};

static struct usage usage;
static struct codec_pool *pool;

static size_t
fuzz_piece(size_t piece, size_t len)
{
    return piece == 0 || len / piece <= PIECES_MAX ? piece : len / PIECES_MAX;
}

/* Whatever it is: the same verdict at once and by pieces, and the same bytes if it is good. */
static void
fuzz_unpack(const struct drive *how, struct slice packed)
{
    struct drive d = *how, at_once = {.kind = CODEC_GUNZIP};
    struct drive_out a = drive_run(pool, &at_once, packed), b;

    d.kind = CODEC_GUNZIP;
    d.flush_every = 0;
    d.in_piece = fuzz_piece(d.in_piece, packed.len);
    d.out_piece = fuzz_piece(d.out_piece, a.len);
    b = drive_run(pool, &d, packed);
    tassert(a.said == b.said);
    if (a.said == CODEC_ENDED)
        tassert(slice_eq(slice_of(a.ptr, a.len), slice_of(b.ptr, b.len)));
    drive_done(&a);
    drive_done(&b);
}

static void
fuzz_pack(const struct drive *how, struct slice body)
{
    struct drive d = *how, back = {.kind = CODEC_GUNZIP};
    struct drive_out packed, got;

    d.in_piece = fuzz_piece(d.in_piece, body.len);
    d.out_piece = fuzz_piece(d.out_piece, body.len);
    packed = drive_run(pool, &d, body);
    tassert(packed.said == CODEC_ENDED);
    back.in_piece = fuzz_piece(d.out_piece, packed.len);
    back.out_piece = d.in_piece;
    got = drive_run(pool, &back, slice_of(packed.ptr, packed.len));
    tassert(got.said == CODEC_ENDED && slice_eq(slice_of(got.ptr, got.len), body));
    drive_done(&packed);
    drive_done(&got);
}

/* The body `times` times, for ISA-L's windows are 32 KiB. */
static void
fuzz_repeat(const struct drive *how, struct slice body, unsigned times)
{
    static char at[BODY_MAX];
    size_t len = 0;

    for (unsigned i = 0; i <= times && len + body.len <= BODY_MAX; i++) {
        memcpy(at + len, body.ptr, body.len);
        len += body.len;
    }
    fuzz_pack(how, slice_of(at, len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct drive d = {.kind = CODEC_GZIP};
    struct slice body;

    if (size < HEAD_BYTES || size > INPUT_MAX)
        return 0;
    if (pool == NULL)
        pool = codec_pool_new(&usage, 1);
    tassert(pool != NULL);
    d.ends_alone = (data[0] & 2) != 0;
    d.in_piece = data[1];
    d.out_piece = data[2];
    d.flush_every = data[3];
    body = slice_of((const char *)data + HEAD_BYTES, size - HEAD_BYTES);
    if ((data[0] & 1) != 0)
        fuzz_unpack(&d, body);
    else
        fuzz_repeat(&d, body, data[4]);
    tassert(codec_pool_used(pool, CODEC_GZIP) == 0 && codec_pool_used(pool, CODEC_GUNZIP) == 0);
    return 0;
}
