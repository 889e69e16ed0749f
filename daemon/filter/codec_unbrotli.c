/* codec_unbrotli.c -- unpacks a body of br (RFC 7932), by libbrotli's decoder.
 *
 * The decoder takes memory as it goes, up to the window that the body names and its tables; all of it is counted.
 * It has no reset, so each body has one of its own. */
#include <brotli/decode.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec_priv.h"

struct codec_unbrotli {
    struct codec codec;
    bool ended;
    BrotliDecoderState *b; /* owned */
};

static struct codec_unbrotli *
codec_unbrotli_of(struct codec *c)
{
    tassert(c->kind == CODEC_UNBROTLI);
    return container_of(c, struct codec_unbrotli, codec);
}

static size_t
codec_unbrotli_size(void)
{
    return sizeof(struct codec_unbrotli);
}

static void *
codec_unbrotli_alloc(void *u, size_t size)
{
    return usage_alloc(u, USAGE_REQUEST, size);
}

static void
codec_unbrotli_release(void *u, void *p)
{
    usage_free(u, USAGE_REQUEST, p);
}

static bool
codec_unbrotli_init(struct codec *c)
{
    struct codec_unbrotli *b = codec_unbrotli_of(c);

    b->ended = false;
    b->b = BrotliDecoderCreateInstance(codec_unbrotli_alloc, codec_unbrotli_release, c->usage);
    return b->b != NULL;
}

static void
codec_unbrotli_fini(struct codec *c)
{
    BrotliDecoderDestroyInstance(codec_unbrotli_of(c)->b);
}

static int
codec_unbrotli_err(const struct codec_unbrotli *b)
{
    BrotliDecoderErrorCode err = BrotliDecoderGetErrorCode(b->b);

    return err <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                   err >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES
               ? TERR_NOMEM
               : TERR_FRAMING;
}

/* Meta-blocks may have nothing in them, or nothing that comes out. */
static bool
codec_unbrotli_is_waste(const struct codec_unbrotli *b)
{
    return codec_is_waste(&b->codec, 0) && !BrotliDecoderHasMoreOutput(b->b);
}

/* As codec_run(), with nothing behind the end yet. */
static int
codec_unbrotli_step(struct codec_unbrotli *b, struct slice *in, struct span *out)
{
    size_t avail_in = in->len, avail_out = out->len;
    const uint8_t *next_in = codec_bytes(in);
    uint8_t *next_out = (uint8_t *)out->ptr;
    BrotliDecoderResult result;

    result = BrotliDecoderDecompressStream(b->b, &avail_in, &next_in, &avail_out, &next_out, NULL);
    codec_took(&b->codec, in, in->len - avail_in);
    codec_wrote(&b->codec, out, out->len - avail_out);
    if (result == BROTLI_DECODER_RESULT_ERROR)
        return codec_unbrotli_err(b);
    if (codec_is_bomb(&b->codec) || codec_unbrotli_is_waste(b))
        return TERR_LIMIT;
    if (result == BROTLI_DECODER_RESULT_SUCCESS)
        return CODEC_ENDED;
    /* Without room it says that it wants input, though there is something to write. */
    return BrotliDecoderHasMoreOutput(b->b) ? CODEC_WANTS_ROOM : CODEC_WANTS_INPUT;
}

static int
codec_unbrotli_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct codec_unbrotli *b = codec_unbrotli_of(c);

    if (!b->ended) {
        int said = codec_unbrotli_step(b, in, out);

        if (said < 0 || said == CODEC_WANTS_ROOM)
            return said;
        b->ended = said == CODEC_ENDED;
    }
    if (in->len > 0) /* behind the end; a body is one stream */
        return TERR_FRAMING;
    if (flow != CODEC_ENDS)
        return CODEC_WANTS_INPUT;
    return b->ended ? CODEC_ENDED : TERR_FRAMING;
}

const struct codec_ops codec_unbrotli_ops = {.size = codec_unbrotli_size,
    .init = codec_unbrotli_init,
    .run = codec_unbrotli_run,
    .fini = codec_unbrotli_fini};
