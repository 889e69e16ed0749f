/* repack_zstd.c -- zstd (RFC 8878) by libzstd, alone or with a dictionary (RFC 9842). */
#define ZSTD_STATIC_LINKING_ONLY /* memory of ours; the distributions' shared libraries have these calls, too */
#include <string.h>
#include <zstd.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/filter/codec.h"
#include "daemon/filter/repack_priv.h"

enum {
    DCZ_WINDOW_MAX = 128 << 20, /* RFC 9842 5 */
};

_Static_assert((CODEC_ZSTD_WINDOW_MAX & (CODEC_ZSTD_WINDOW_MAX - 1)) == 0, "a power of two");

/* RFC 9842 5: a skippable frame's magic number, and its length. */
static const char repack_dcz_magic[] = {'\x5e', '\x2a', '\x4d', '\x18', '\x20', 0, 0, 0};

struct repack_zstd {
    ZSTD_CCtx *z;
    bool head_written; /* REPACK_DCZ */
};

/* What any client takes: RFC 9659 3; and with a dictionary 1.25 times its length if that is more, RFC 9842 5. */
static size_t
repack_zstd_window_max(const struct repack *how)
{
    size_t wide = how->dictionary.len + how->dictionary.len / 4;

    if (wide > DCZ_WINDOW_MAX)
        return DCZ_WINDOW_MAX;
    return wide > CODEC_ZSTD_WINDOW_MAX ? wide : CODEC_ZSTD_WINDOW_MAX;
}

/* The level's, with a window from which the dictionary is seen as long as the body is (RFC 8878 5). */
static ZSTD_compressionParameters
repack_zstd_params(const struct repack *how, size_t len)
{
    size_t most = repack_zstd_window_max(how), all = len + how->dictionary.len;
    ZSTD_compressionParameters p = ZSTD_getCParams(how->level, len, how->dictionary.len);

    while ((size_t)1 << p.windowLog < all)
        p.windowLog++;
    while ((size_t)1 << p.windowLog > most)
        p.windowLog--;
    return p;
}

static size_t
repack_zstd_memory(const struct repack *how, size_t len)
{
    return sizeof(struct repack_zstd) +
           ZSTD_estimateCStreamSize_usingCParams(repack_zstd_params(how, len));
}

static void
repack_zstd_set(ZSTD_CCtx *z, ZSTD_cParameter parameter, unsigned value)
{
    size_t err = ZSTD_CCtx_setParameter(z, parameter, (int)value);

    tassert(!ZSTD_isError(err));
}

static void
repack_zstd_set_all(ZSTD_CCtx *z, const struct repack *how, size_t len)
{
    ZSTD_compressionParameters p = repack_zstd_params(how, len);
    size_t err;

    repack_zstd_set(z, ZSTD_c_compressionLevel, (unsigned)how->level);
    repack_zstd_set(z, ZSTD_c_windowLog, p.windowLog);
    repack_zstd_set(z, ZSTD_c_chainLog, p.chainLog);
    repack_zstd_set(z, ZSTD_c_hashLog, p.hashLog);
    repack_zstd_set(z, ZSTD_c_searchLog, p.searchLog);
    repack_zstd_set(z, ZSTD_c_minMatch, p.minMatch);
    repack_zstd_set(z, ZSTD_c_targetLength, p.targetLength);
    repack_zstd_set(z, ZSTD_c_strategy, p.strategy);
    repack_zstd_set(z, ZSTD_c_checksumFlag, 1);
    err = ZSTD_CCtx_setPledgedSrcSize(z, len);
    tassert(!ZSTD_isError(err));
    if (how->dictionary.len == 0)
        return;
    err = ZSTD_CCtx_refPrefix(z, how->dictionary.ptr, how->dictionary.len);
    tassert(!ZSTD_isError(err));
}

static int
repack_zstd_open(struct repack_run *r)
{
    ZSTD_customMem heap = {repack_alloc, repack_release, r};
    struct repack_zstd *s = repack_alloc(r, sizeof(*s));

    r->state = s;
    if (s == NULL)
        return TERR_NOMEM;
    s->head_written = false;
    s->z = ZSTD_createCCtx_advanced(heap);
    if (s->z == NULL)
        return TERR_NOMEM;
    repack_zstd_set_all(s->z, r->how, r->len);
    return 0;
}

static int
repack_zstd_feed(struct repack_run *r, struct slice piece, struct span *out, bool is_last)
{
    struct repack_zstd *s = r->state;
    ZSTD_inBuffer from = {piece.ptr, piece.len, 0};
    ZSTD_outBuffer to = {out->ptr, out->len, 0};
    size_t left = ZSTD_compressStream2(s->z, &to, &from, is_last ? ZSTD_e_end : ZSTD_e_continue);

    if (ZSTD_isError(left))
        return TERR_NOMEM;
    out->ptr += to.pos;
    out->len -= to.pos;
    return from.pos < from.size || (is_last && left > 0) ? REPACK_FULL : REPACK_FED;
}

static int
repack_dcz_feed(struct repack_run *r, struct slice piece, struct span *out, bool is_last)
{
    struct repack_zstd *s = r->state;

    _Static_assert(
        sizeof(repack_dcz_magic) + REPACK_HASH_BYTES == REPACK_DCZ_HEAD_BYTES, "RFC 9842 5");
    if (!s->head_written) {
        if (out->len < REPACK_DCZ_HEAD_BYTES)
            return REPACK_FULL;
        memcpy(out->ptr, repack_dcz_magic, sizeof(repack_dcz_magic));
        memcpy(out->ptr + sizeof(repack_dcz_magic), r->how->hash, REPACK_HASH_BYTES);
        out->ptr += REPACK_DCZ_HEAD_BYTES;
        out->len -= REPACK_DCZ_HEAD_BYTES;
        s->head_written = true;
    }
    return repack_zstd_feed(r, piece, out, is_last);
}

const struct repack_ops repack_zstd_ops = {.level_min = 1,
    .level_max = 19,
    .memory = repack_zstd_memory,
    .open = repack_zstd_open,
    .feed = repack_zstd_feed};

const struct repack_ops repack_dcz_ops = {.level_min = 1,
    .level_max = 19,
    .memory = repack_zstd_memory,
    .open = repack_zstd_open,
    .feed = repack_dcz_feed};
