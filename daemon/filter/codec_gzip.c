/* codec_gzip.c -- packs a body as one member of gzip (RFC 1952), by ISA-L at level 1.
 *
 * The header is ours, so that ISA-L's state counts blocks alone; the trailer is ISA-L's. */
#include <isa-l/igzip_lib.h>
#include <string.h>

#include "daemon/filter/codec_priv.h"

/* RFC 1952 2.3: deflate, no optional field, no time, an unknown system.  Nothing in it differs from one
 * body to the next. */
static const char codec_gzip_head[] = {'\x1f', '\x8b', 8, 0, 0, 0, 0, 0, 0, '\xff'};

struct codec_gzip {
    struct codec codec;
    unsigned head_written; /* bytes of codec_gzip_head */
    bool is_held_back;     /* bytes have been consumed since the last flush was complete */
    struct isal_zstream z;
    /* ISA-L's tables at this level, and behind them up to 16,384 symbols of a block.  It sets what it reads. */
    _Alignas(16) uint8_t level[ISAL_DEF_LVL1_SMALL];
};

static struct codec_gzip *
codec_gzip_of(struct codec *c)
{
    tassert(c->kind == CODEC_GZIP);
    return container_of(c, struct codec_gzip, codec);
}

static size_t
codec_gzip_size(void)
{
    return sizeof(struct codec_gzip);
}

static bool
codec_gzip_init(struct codec *c)
{
    struct codec_gzip *g = codec_gzip_of(c);

    g->head_written = 0;
    g->is_held_back = false;
    isal_deflate_init(&g->z);
    g->z.level = 1;
    g->z.level_buf = g->level;
    g->z.level_buf_size = sizeof(g->level);
    g->z.gzip_flag = IGZIP_GZIP_NO_HDR;
    return true;
}

static void
codec_gzip_write_head(struct codec_gzip *g, struct span *out)
{
    size_t len = sizeof(codec_gzip_head) - g->head_written;

    if (len > out->len)
        len = out->len;
    memcpy(out->ptr, codec_gzip_head + g->head_written, len);
    g->head_written += (unsigned)len;
    codec_wrote(&g->codec, out, len);
}

/* Bytes that ISA-L may write.  It gives the last bytes of a block by a small buffer of its own where there was
 * less room than it writes at a time.  With more room than they take it would go on behind a flush, and
 * begin a block with nothing in it. */
static uint32_t
codec_gzip_room(const struct codec_gzip *g, const struct span *out)
{
    const struct isal_zstate *s = &g->z.internal_state;
    uint32_t left = s->tmp_out_end - s->tmp_out_start;

    return left > 0 && left < out->len ? left : codec_step(out->len);
}

/* A flush is complete where the next block's header is due and no byte of input is left (igzip_lib.h). */
static bool
codec_gzip_is_flushed(const struct codec_gzip *g)
{
    const struct isal_zstate *s = &g->z.internal_state;

    return s->state == ZSTATE_NEW_HDR && s->b_bytes_processed == s->b_bytes_valid;
}

static void
codec_gzip_step(struct codec_gzip *g, struct slice *in, struct span *out, enum codec_flow flow)
{
    uint32_t given = codec_step(in->len), room = codec_gzip_room(g, out);
    bool is_last = given == in->len;
    int err;

    g->z.next_in = codec_bytes(in);
    g->z.avail_in = given;
    g->z.next_out = (uint8_t *)out->ptr;
    g->z.avail_out = room;
    g->z.flush = is_last && flow == CODEC_FLUSH ? SYNC_FLUSH : NO_FLUSH;
    g->z.end_of_stream = is_last && flow == CODEC_ENDS;
    err = isal_deflate(&g->z);
    tassert(err == COMP_OK); /* the others speak of parameters */
    if (g->z.avail_in < given)
        g->is_held_back = true;
    codec_took(&g->codec, in, given - g->z.avail_in);
    codec_wrote(&g->codec, out, room - g->z.avail_out);
    if (flow == CODEC_FLUSH && in->len == 0 && codec_gzip_is_flushed(g))
        g->is_held_back = false;
}

static bool
codec_gzip_is_done(const struct codec_gzip *g, const struct slice *in, enum codec_flow flow)
{
    switch (flow) {
    case CODEC_GOES_ON:
        return in->len == 0;
    case CODEC_FLUSH:
        return in->len == 0 && !g->is_held_back;
    case CODEC_ENDS:
        return g->z.internal_state.state == ZSTATE_END;
    }
    TUNREACHABLE("flow");
}

static int
codec_gzip_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct codec_gzip *g = codec_gzip_of(c);

    tassert(flow == CODEC_ENDS || g->z.internal_state.state != ZSTATE_END);
    while (!codec_gzip_is_done(g, in, flow)) {
        uint64_t moved = c->in + c->out;

        if (out->len == 0)
            return CODEC_WANTS_ROOM;
        if (g->head_written < sizeof(codec_gzip_head))
            codec_gzip_write_head(g, out);
        else
            codec_gzip_step(g, in, out, flow);
        tassert(c->in + c->out > moved ||
                codec_gzip_is_done(g, in, flow)); /* else it would never end */
    }
    return flow == CODEC_ENDS ? CODEC_ENDED : CODEC_WANTS_INPUT;
}

const struct codec_ops codec_gzip_ops = {
    .size = codec_gzip_size, .init = codec_gzip_init, .run = codec_gzip_run};
