/* codec_fuzz.c -- what is packed is unpacked as it was, and what a stranger packed is the same however it is cut.
 *
 * Five bytes say how: bit 0 of the first, the others are packed, else a body; bit 1, CODEC_ENDS comes alone; bits 2 and
 * 3, the coding; the sizes of pieces of input and of room (0: all at once); after how many pieces there is a
 * flush; how often the body is repeated. */
#include "daemon/base/usage.h"
#include "t/unit/codec_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD_BYTES = 5,
    INPUT_MAX = 16384,
    BODY_MAX = 150000,
    PIECES_MAX = 1000,      /* of a body, so that an input takes milliseconds */
    OUT_KEPT_MAX = 1 << 24, /* of what is unpacked: zstd makes megabytes of an input */
};

/* Without a kind that packs, bodies are gzip's. */
static const struct {
    enum codec_kind packs, unpacks;
    enum codec_kind back; /* what `packs` made */
} codings[] = {{CODEC_GZIP, CODEC_GUNZIP, CODEC_GUNZIP}, {CODEC_ZSTD, CODEC_UNZSTD, CODEC_UNZSTD},
    {CODEC_GZIP, CODEC_UNBROTLI, CODEC_GUNZIP}, {CODEC_ZSTD, CODEC_UNZSTD, CODEC_UNZSTD}};

static struct usage usage;
static struct codec_pool *pool;

static size_t
fuzz_piece(size_t piece, size_t len)
{
    return piece == 0 || len / piece <= PIECES_MAX ? piece : len / PIECES_MAX;
}

/* Whatever it is: the same verdict at once and by pieces, and the same bytes if it is good. */
static void
fuzz_unpack(const struct drive *how, enum codec_kind kind, struct slice packed)
{
    struct drive d = *how, at_once = {.kind = kind, .out_max = OUT_KEPT_MAX};
    struct drive_out a = drive_run(pool, &at_once, packed), b;

    d.kind = kind;
    d.flush_every = 0;
    d.in_piece = fuzz_piece(d.in_piece, packed.len);
    d.out_piece = fuzz_piece(d.out_piece, a.total);
    d.out_max = OUT_KEPT_MAX;
    b = drive_run(pool, &d, packed);
    /* A limit is found between two pieces, so it may be found after an error. */
    tassert(a.said == b.said ||
            (a.said < 0 && b.said < 0 && (a.said == TERR_LIMIT || b.said == TERR_LIMIT)));
    if (a.said == CODEC_ENDED)
        tassert(a.total == b.total);
    if (a.said == CODEC_ENDED && a.total <= OUT_KEPT_MAX)
        tassert(slice_eq(slice_of(a.ptr, a.len), slice_of(b.ptr, b.len)));
    drive_done(&a);
    drive_done(&b);
}

static void
fuzz_pack(const struct drive *how, enum codec_kind unpacks, struct slice body)
{
    struct drive d = *how, back = {.kind = unpacks};
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
fuzz_repeat(const struct drive *how, enum codec_kind unpacks, struct slice body, unsigned times)
{
    static char at[BODY_MAX];
    size_t len = 0;

    for (unsigned i = 0; i <= times && len + body.len <= BODY_MAX; i++) {
        memcpy(at + len, body.ptr, body.len);
        len += body.len;
    }
    fuzz_pack(how, unpacks, slice_of(at, len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct drive d = {0};
    struct slice body;
    unsigned coding;

    if (size < HEAD_BYTES || size > INPUT_MAX)
        return 0;
    if (pool == NULL)
        pool = codec_pool_new(&usage, 1);
    tassert(pool != NULL);
    coding = data[0] >> 2 & 3;
    d.kind = codings[coding].packs;
    d.ends_alone = (data[0] & 2) != 0;
    d.in_piece = data[1];
    d.out_piece = data[2];
    d.flush_every = data[3];
    body = slice_of((const char *)data + HEAD_BYTES, size - HEAD_BYTES);
    if ((data[0] & 1) != 0)
        fuzz_unpack(&d, codings[coding].unpacks, body);
    else
        fuzz_repeat(&d, codings[coding].back, body, data[4]);
    for (unsigned k = 0; k < CODEC_KINDS; k++)
        tassert(codec_pool_used(pool, (enum codec_kind)k) == 0);
    return 0;
}
