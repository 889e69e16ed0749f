/* codec_gunzip.c -- unpacks the members of gzip (RFC 1952), and believes none of them.
 *
 *     FIXED -> EXTRA_LEN -> EXTRA -> NAME -> COMMENT -> HEAD_CRC -> DATA -> TRAILER -> FIXED
 *
 * Flags of FIXED say which of the others there are (codec_gunzip_next).  Headers and trailers are read here, byte
 * by byte where they are cut; ISA-L sees deflate's blocks alone (RFC 1951). */
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <string.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec_priv.h"

enum codec_gunzip_part {
    PART_FIXED, /* a member begins, or the body ends here */
    PART_EXTRA_LEN,
    PART_EXTRA,
    PART_NAME,
    PART_COMMENT,
    PART_HEAD_CRC,
    PART_DATA,
    PART_TRAILER,
};

/* RFC 1952 2.3.1. */
enum {
    FLAG_TEXT = 0x01,
    FLAG_HEAD_CRC = 0x02,
    FLAG_EXTRA = 0x04,
    FLAG_NAME = 0x08,
    FLAG_COMMENT = 0x10,
    FLAGS_RESERVED = 0xe0,
    METHOD_DEFLATE = 8,
    FIXED_BYTES = 10,
    TRAILER_BYTES = 8,
};

struct codec_gunzip {
    struct codec codec;
    enum codec_gunzip_part part;
    uint8_t flags;
    uint8_t held[FIXED_BYTES]; /* of a part with a fixed length, what has come */
    unsigned nheld;
    unsigned extra_left; /* PART_EXTRA: bytes that are still to come */
    uint32_t head_crc;   /* of the header so far */
    uint32_t crc,
        size; /* of what the member's data said so far (RFC 1952 2.3.1: size modulo 2^32) */
    bool any; /* a member is complete */
    struct inflate_state z;
};

static struct codec_gunzip *
codec_gunzip_of(struct codec *c)
{
    tassert(c->kind == CODEC_GUNZIP);
    return container_of(c, struct codec_gunzip, codec);
}

static size_t
codec_gunzip_size(void)
{
    return sizeof(struct codec_gunzip);
}

static bool
codec_gunzip_init(struct codec *c)
{
    struct codec_gunzip *g = codec_gunzip_of(c);

    g->part = PART_FIXED;
    g->nheld = 0;
    g->any = false;
    isal_inflate_init(&g->z);
    return true;
}

/* ---- header ---- */

static int
codec_gunzip_next(struct codec_gunzip *g)
{
    static const uint8_t needs[] = {
        [PART_EXTRA_LEN] = FLAG_EXTRA,
        [PART_EXTRA] = FLAG_EXTRA,
        [PART_NAME] = FLAG_NAME,
        [PART_COMMENT] = FLAG_COMMENT,
        [PART_HEAD_CRC] = FLAG_HEAD_CRC,
    };

    tassert(g->part < PART_DATA);
    do
        g->part++;
    while (g->part < PART_DATA && (g->flags & needs[g->part]) == 0);
    if (g->part == PART_DATA) {
        isal_inflate_reset(&g->z);
        g->crc = g->size = 0;
    }
    return STEP_MORE;
}

static void
codec_gunzip_took_head(struct codec_gunzip *g, struct slice *in, size_t len)
{
    g->head_crc = crc32_gzip_refl(g->head_crc, (const uint8_t *)in->ptr, len);
    codec_took(&g->codec, in, len);
}

/* A part of `len` bytes is whole, in g->held. */
static bool
codec_gunzip_gather(struct codec_gunzip *g, struct slice *in, unsigned len)
{
    size_t n = len - g->nheld;

    tassert(g->nheld <= len && len <= sizeof(g->held));
    if (n > in->len)
        n = in->len;
    if (n > 0)
        memcpy(g->held + g->nheld, in->ptr, n);
    g->nheld += (unsigned)n;
    codec_took(&g->codec, in, n);
    if (g->nheld < len)
        return false;
    g->nheld = 0;
    return true;
}

static int
codec_gunzip_fixed(struct codec_gunzip *g, struct slice *in)
{
    const uint8_t *p = g->held;

    if (!codec_gunzip_gather(g, in, FIXED_BYTES))
        return STEP_STUCK;
    g->flags = p[3];
    if (p[0] != 0x1f || p[1] != 0x8b || p[2] != METHOD_DEFLATE || (p[3] & FLAGS_RESERVED) != 0)
        return TERR_FRAMING;
    g->head_crc = crc32_gzip_refl(0, p, FIXED_BYTES);
    return codec_gunzip_next(g);
}

static int
codec_gunzip_extra_len(struct codec_gunzip *g, struct slice *in)
{
    if (!codec_gunzip_gather(g, in, 2))
        return STEP_STUCK;
    g->head_crc = crc32_gzip_refl(g->head_crc, g->held, 2);
    g->extra_left = g->held[0] | (unsigned)g->held[1] << 8;
    return codec_gunzip_next(g);
}

static int
codec_gunzip_extra(struct codec_gunzip *g, struct slice *in)
{
    size_t n = g->extra_left < in->len ? g->extra_left : in->len;

    g->extra_left -= (unsigned)n;
    codec_gunzip_took_head(g, in, n);
    return g->extra_left > 0 ? STEP_STUCK : codec_gunzip_next(g);
}

/* NAME and COMMENT end with a zero byte.  They may be as long as they like: nothing is kept. */
static int
codec_gunzip_text(struct codec_gunzip *g, struct slice *in)
{
    const char *end = in->len > 0 ? memchr(in->ptr, '\0', in->len) : NULL;

    codec_gunzip_took_head(g, in, end != NULL ? (size_t)(end - in->ptr) + 1 : in->len);
    return end != NULL ? codec_gunzip_next(g) : STEP_STUCK;
}

static int
codec_gunzip_head_crc(struct codec_gunzip *g, struct slice *in)
{
    if (!codec_gunzip_gather(g, in, 2))
        return STEP_STUCK;
    if ((g->held[0] | (unsigned)g->held[1] << 8) != (g->head_crc & 0xffff))
        return TERR_FRAMING;
    return codec_gunzip_next(g);
}

/* ---- data and trailer ---- */

/* ISA-L has read up to 8 bytes ahead, into z.read_in, the first in its lowest bits.  Behind the last block they are
 * the trailer's: it has as many. */
static void
codec_gunzip_begin_trailer(struct codec_gunzip *g)
{
    unsigned bits = (unsigned)g->z.read_in_length;
    uint64_t ahead = g->z.read_in >> bits % 8;

    tassert(g->z.read_in_length >= 0 && bits / 8 <= TRAILER_BYTES);
    g->part = PART_TRAILER;
    for (g->nheld = 0; g->nheld < bits / 8; g->nheld++)
        g->held[g->nheld] = (uint8_t)(ahead >> 8 * g->nheld);
}

/* ISA-L unpacks into a buffer of its own first.  Is there something left in it? */
static bool
codec_gunzip_is_pending(const struct codec_gunzip *g)
{
    return g->z.tmp_out_valid != g->z.tmp_out_processed;
}

/* May there be more to write, without more input? */
static bool
codec_gunzip_has_more(const struct codec_gunzip *g)
{
    return codec_gunzip_is_pending(g) || g->z.read_in_length >= 8;
}

/* ISA-L has filled the front of `out`. */
static void
codec_gunzip_said(struct codec_gunzip *g, struct span *out, size_t len)
{
    g->crc = crc32_gzip_refl(g->crc, (const uint8_t *)out->ptr, len);
    g->size += (uint32_t)len;
    codec_wrote(&g->codec, out, len);
}

/* Deflate may have block after block without a byte in it, of which each costs time. */
static bool
codec_gunzip_is_waste(const struct codec_gunzip *g)
{
    return !codec_gunzip_is_pending(g) && codec_is_waste(&g->codec, 0);
}

static int
codec_gunzip_data(struct codec_gunzip *g, struct slice *in, struct span *out)
{
    uint32_t given = codec_step(in->len), room = codec_step(out->len);
    int err;

    if (room == 0 && codec_gunzip_is_pending(g))
        return STEP_STUCK;
    g->z.next_in = codec_bytes(in);
    g->z.avail_in = given;
    g->z.next_out = (uint8_t *)out->ptr;
    g->z.avail_out = room;
    err = isal_inflate(&g->z);
    if (err < 0) /* and what it says that it has read may be anything */
        return TERR_FRAMING;
    codec_took(&g->codec, in, given - g->z.avail_in);
    codec_gunzip_said(g, out, room - g->z.avail_out);
    if (codec_is_bomb(&g->codec) || codec_gunzip_is_waste(g))
        return TERR_LIMIT;
    if (g->z.block_state == ISAL_BLOCK_FINISH)
        codec_gunzip_begin_trailer(g);
    else if (g->z.avail_in == given && g->z.avail_out == room)
        return STEP_STUCK;
    return STEP_MORE;
}

static uint32_t
codec_gunzip_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int
codec_gunzip_trailer(struct codec_gunzip *g, struct slice *in)
{
    if (!codec_gunzip_gather(g, in, TRAILER_BYTES))
        return STEP_STUCK;
    if (codec_gunzip_u32(g->held) != g->crc || codec_gunzip_u32(g->held + 4) != g->size)
        return TERR_FRAMING;
    g->part = PART_FIXED;
    g->any = true;
    return STEP_MORE;
}

/* ---- run ---- */

static int
codec_gunzip_step(struct codec_gunzip *g, struct slice *in, struct span *out)
{
    switch (g->part) {
    case PART_FIXED:
        return codec_gunzip_fixed(g, in);
    case PART_EXTRA_LEN:
        return codec_gunzip_extra_len(g, in);
    case PART_EXTRA:
        return codec_gunzip_extra(g, in);
    case PART_NAME:
    case PART_COMMENT:
        return codec_gunzip_text(g, in);
    case PART_HEAD_CRC:
        return codec_gunzip_head_crc(g, in);
    case PART_DATA:
        return codec_gunzip_data(g, in, out);
    case PART_TRAILER:
        return codec_gunzip_trailer(g, in);
    }
    TUNREACHABLE("part of gzip");
}

/* What is said where no step goes on. */
static int
codec_gunzip_says(const struct codec_gunzip *g, const struct slice *in, const struct span *out,
    enum codec_flow flow)
{
    if (g->part == PART_DATA && out->len == 0 && (in->len > 0 || codec_gunzip_has_more(g)))
        return CODEC_WANTS_ROOM;
    if (in->len > 0) /* ISA-L neither reads nor writes, and says no error */
        return TERR_FRAMING;
    if (flow != CODEC_ENDS)
        return CODEC_WANTS_INPUT;
    return g->any && g->part == PART_FIXED && g->nheld == 0 ? CODEC_ENDED : TERR_FRAMING;
}

static int
codec_gunzip_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct codec_gunzip *g = codec_gunzip_of(c);
    int step;

    do
        step = codec_gunzip_step(g, in, out);
    while (step == STEP_MORE);
    return step < 0 ? step : codec_gunzip_says(g, in, out, flow);
}

const struct codec_ops codec_gunzip_ops = {
    .size = codec_gunzip_size, .init = codec_gunzip_init, .run = codec_gunzip_run};
