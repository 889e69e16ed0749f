/* codec_zstd.c -- packs a body as one frame of zstd (RFC 8878), by libzstd at level 3.
 *
 * All of its memory is one piece behind the struct, as large as libzstd says: so nothing is allocated while a body comes.
 * It keeps its tables from one body to the next, and does not clear them (ZSTD_reset_session_only). */
#define ZSTD_STATIC_LINKING_ONLY /* memory of ours; the distributions' shared libraries have these calls, too */
#include <zstd.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec_priv.h"

/* Level 3 with a window of 256 KiB in place of 2 MiB, and with half of its tables: as small, as fast, and 1.4 MB in place
 * of 3.7 (README.md). */
static const ZSTD_compressionParameters codec_zstd_level3 = {.windowLog = 18,
    .chainLog = 15,
    .hashLog = 16,
    .searchLog = 1,
    .minMatch = 5,
    .targetLength = 0,
    .strategy = ZSTD_dfast};

struct codec_zstd {
    struct codec codec;
    bool is_held_back; /* bytes have been consumed since the last flush was complete */
    bool ended;
    ZSTD_CCtx *z; /* in `workspace` */
    _Alignas(16) uint8_t workspace[];
};

static struct codec_zstd *
codec_zstd_of(struct codec *c)
{
    tassert(c->kind == CODEC_ZSTD);
    return container_of(c, struct codec_zstd, codec);
}

static size_t
codec_zstd_size(void)
{
    return sizeof(struct codec_zstd) + ZSTD_estimateCStreamSize_usingCParams(codec_zstd_level3);
}

static void
codec_zstd_set(struct codec_zstd *z, ZSTD_cParameter parameter, unsigned value)
{
    size_t err = ZSTD_CCtx_setParameter(z->z, parameter, (int)value);

    tassert(!ZSTD_isError(err));
}

static void
codec_zstd_make(struct codec *c)
{
    struct codec_zstd *z = codec_zstd_of(c);
    const ZSTD_compressionParameters *p = &codec_zstd_level3;
    size_t err;

    z->z = ZSTD_initStaticCCtx(z->workspace, codec_zstd_size() - sizeof(*z));
    tassert(z->z != NULL);
    err = ZSTD_CCtx_reset(z->z, ZSTD_reset_session_and_parameters); /* else they are zeros */
    tassert(!ZSTD_isError(err));
    codec_zstd_set(z, ZSTD_c_compressionLevel, 3);
    codec_zstd_set(z, ZSTD_c_windowLog, p->windowLog);
    codec_zstd_set(z, ZSTD_c_chainLog, p->chainLog);
    codec_zstd_set(z, ZSTD_c_hashLog, p->hashLog);
    codec_zstd_set(z, ZSTD_c_searchLog, p->searchLog);
    codec_zstd_set(z, ZSTD_c_minMatch, p->minMatch);
    codec_zstd_set(z, ZSTD_c_strategy, p->strategy);
    codec_zstd_set(z, ZSTD_c_checksumFlag, 1);
}

static bool
codec_zstd_init(struct codec *c)
{
    struct codec_zstd *z = codec_zstd_of(c);
    size_t err = ZSTD_CCtx_reset(z->z, ZSTD_reset_session_only);

    tassert(!ZSTD_isError(err));
    z->is_held_back = false;
    z->ended = false;
    return true;
}

static int
codec_zstd_step(struct codec_zstd *z, struct slice *in, struct span *out, enum codec_flow flow)
{
    static const ZSTD_EndDirective directives[] = {
        [CODEC_GOES_ON] = ZSTD_e_continue, [CODEC_FLUSH] = ZSTD_e_flush, [CODEC_ENDS] = ZSTD_e_end};
    ZSTD_inBuffer from = {in->ptr, in->len, 0};
    ZSTD_outBuffer to = {out->ptr, out->len, 0};
    size_t left = ZSTD_compressStream2(z->z, &to, &from, directives[flow]);

    if (ZSTD_isError(left)) /* it wants more memory than it said */
        return TERR_NOMEM;
    if (from.pos > 0)
        z->is_held_back = true;
    codec_took(&z->codec, in, from.pos);
    codec_wrote(&z->codec, out, to.pos);
    if (in->len == 0 && left == 0) {
        z->is_held_back = z->is_held_back && flow == CODEC_GOES_ON;
        z->ended = flow == CODEC_ENDS;
    }
    return 0;
}

static bool
codec_zstd_is_done(const struct codec_zstd *z, const struct slice *in, enum codec_flow flow)
{
    switch (flow) {
    case CODEC_GOES_ON:
        return in->len == 0;
    case CODEC_FLUSH:
        return in->len == 0 && !z->is_held_back;
    case CODEC_ENDS:
        return z->ended;
    }
    TUNREACHABLE("flow");
}

static int
codec_zstd_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct codec_zstd *z = codec_zstd_of(c);

    tassert(!z->ended || (flow == CODEC_ENDS && in->len == 0));
    while (!codec_zstd_is_done(z, in, flow)) {
        uint64_t moved = c->in + c->out;
        int err;

        if (out->len == 0)
            return CODEC_WANTS_ROOM;
        err = codec_zstd_step(z, in, out, flow);
        if (err < 0)
            return err;
        tassert(c->in + c->out > moved ||
                codec_zstd_is_done(z, in, flow)); /* else it would never end */
    }
    return flow == CODEC_ENDS ? CODEC_ENDED : CODEC_WANTS_INPUT;
}

const struct codec_ops codec_zstd_ops = {.size = codec_zstd_size,
    .init = codec_zstd_init,
    .run = codec_zstd_run,
    .make = codec_zstd_make};
