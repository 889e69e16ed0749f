/* codec_unzstd.c -- unpacks the frames of zstd (RFC 8878), and believes none of them.
 *
 *     HEAD -> BLOCKS -> HEAD      a frame
 *     HEAD -> SKIP -> HEAD        a skippable one
 *
 * Headers are gathered here before libzstd gets them: so the window is known before anything is allocated for it, and no
 * format of before RFC 8878 gets as far as libzstd's readers of them, which allocate where nothing is counted. */
#define ZSTD_STATIC_LINKING_ONLY /* memory of ours; the distributions' shared libraries have these calls, too */
#include <string.h>
#include <zstd.h>

#include "daemon/base/terr.h"
#include "daemon/filter/codec_priv.h"

enum codec_unzstd_part {
    PART_HEAD, /* a frame begins, or the body ends here */
    PART_SKIP,
    PART_BLOCKS,
};

enum {
    WINDOW_MIN = 1 << 10, /* RFC 8878 3.1.1.1.2; a frame may say less, of its whole size */
    KEPT_MAX = 1 << 20,   /* bytes of an idle codec: of a window of 512 KiB */
    HELD_MAX = ZSTD_BLOCKSIZE_MAX + 128, /* of a block and its header, before any of it comes out */
};

struct codec_unzstd {
    struct codec codec;
    enum codec_unzstd_part part;
    uint8_t head[ZSTD_FRAMEHEADERSIZE_MAX];
    unsigned nhead;     /* PART_HEAD: bytes of it that have come */
    uint64_t skip_left; /* PART_SKIP: bytes that are still to come */
    uint64_t size;  /* PART_BLOCKS: of the frame, as its header says; or ZSTD_CONTENTSIZE_UNKNOWN */
    uint64_t began; /* codec.out where the frame began */
    bool is_full;   /* PART_BLOCKS: there was no more room; there may be more to write */
    bool any;       /* a frame is complete */
    /* From one body to the next. */
    void *workspace;      /* owned, counted; NULL before the first frame */
    size_t workspace_len; /* enough for the largest window so far */
    ZSTD_DCtx *z;         /* in `workspace` */
};

static struct codec_unzstd *
codec_unzstd_of(struct codec *c)
{
    tassert(c->kind == CODEC_UNZSTD);
    return container_of(c, struct codec_unzstd, codec);
}

static size_t
codec_unzstd_size(void)
{
    return sizeof(struct codec_unzstd);
}

static void
codec_unzstd_make(struct codec *c)
{
    struct codec_unzstd *z = codec_unzstd_of(c);

    z->workspace = NULL;
    z->workspace_len = 0;
    z->z = NULL;
}

static bool
codec_unzstd_init(struct codec *c)
{
    struct codec_unzstd *z = codec_unzstd_of(c);

    z->part = PART_HEAD;
    z->nhead = 0;
    z->is_full = false;
    z->any = false;
    return true;
}

static void
codec_unzstd_drop(struct codec *c)
{
    struct codec_unzstd *z = codec_unzstd_of(c);

    usage_free(c->usage, USAGE_REQUEST, z->workspace);
    codec_unzstd_make(c);
}

static void
codec_unzstd_fini(struct codec *c)
{
    if (codec_unzstd_of(c)->workspace_len > KEPT_MAX)
        codec_unzstd_drop(c);
}

/* ---- header ---- */

/* New memory.  A second frame that wants more gets twice as much, so that few of them do. */
static int
codec_unzstd_grow(struct codec_unzstd *z, size_t window)
{
    size_t wide = WINDOW_MIN, len;

    while (z->workspace != NULL && wide < window)
        wide *= 2;
    len = ZSTD_estimateDStreamSize(wide > window ? wide : window);
    codec_unzstd_drop(&z->codec);
    z->workspace = usage_alloc(z->codec.usage, USAGE_REQUEST, len);
    if (z->workspace == NULL)
        return TERR_NOMEM;
    z->workspace_len = len;
    z->z = ZSTD_initStaticDCtx(z->workspace, z->workspace_len);
    tassert(z->z != NULL);
    return 0;
}

/* libzstd's state, in memory that is enough for its window.  Its first time takes 10 us: it asks the processor what it
 * can do, and a hypervisor answers. */
static int
codec_unzstd_reserve(struct codec_unzstd *z, size_t window)
{
    size_t err;

    if (z->workspace == NULL || z->workspace_len < ZSTD_estimateDStreamSize(window))
        return codec_unzstd_grow(z, window);
    err = ZSTD_DCtx_reset(z->z, ZSTD_reset_session_only);
    tassert(!ZSTD_isError(err));
    return 0;
}

static int
codec_unzstd_begin(struct codec_unzstd *z, const ZSTD_frameHeader *head)
{
    ZSTD_inBuffer from = {z->head, z->nhead, 0};
    ZSTD_outBuffer to = {NULL, 0, 0};
    size_t wants, window;
    int err;

    if (head->dictID != 0) /* the coding has none (RFC 8878 6) */
        return TERR_FRAMING;
    if (head->windowSize > CODEC_ZSTD_WINDOW_MAX)
        return TERR_LIMIT;
    window = head->windowSize > WINDOW_MIN ? (size_t)head->windowSize : WINDOW_MIN;
    err = codec_unzstd_reserve(z, window);
    if (err < 0)
        return err;
    wants = ZSTD_decompressStream(z->z, &to, &from);
    if (ZSTD_isError(wants) || from.pos != from.size)
        return TERR_FRAMING;
    z->is_full = false;
    z->size = head->frameContentSize;
    z->began = z->codec.out;
    z->part = PART_BLOCKS;
    return STEP_MORE;
}

static int
codec_unzstd_head(struct codec_unzstd *z, struct slice *in)
{
    ZSTD_frameHeader head;
    size_t wants, n;

    while ((wants = ZSTD_getFrameHeader(&head, z->head, z->nhead)) != 0) {
        if (ZSTD_isError(wants))
            return TERR_FRAMING;
        tassert(wants > z->nhead && wants <= sizeof(z->head));
        if (in->len == 0)
            return STEP_STUCK;
        n = wants - z->nhead < in->len ? wants - z->nhead : in->len;
        memcpy(z->head + z->nhead, in->ptr, n);
        z->nhead += (unsigned)n;
        codec_took(&z->codec, in, n);
    }
    if (head.frameType != ZSTD_skippableFrame)
        return codec_unzstd_begin(z, &head);
    z->skip_left = head.frameContentSize;
    z->part = PART_SKIP;
    return STEP_MORE;
}

/* ---- what is behind it ---- */

static int
codec_unzstd_next(struct codec_unzstd *z)
{
    z->nhead = 0;
    z->any = true;
    z->part = PART_HEAD;
    return STEP_MORE;
}

/* Frames may have nothing in them, and so may blocks. */
static bool
codec_unzstd_is_waste(const struct codec_unzstd *z)
{
    return !z->is_full && codec_is_waste(&z->codec, HELD_MAX);
}

static int
codec_unzstd_skip(struct codec_unzstd *z, struct slice *in)
{
    size_t n = z->skip_left < in->len ? (size_t)z->skip_left : in->len;

    z->skip_left -= n;
    codec_took(&z->codec, in, n);
    if (codec_unzstd_is_waste(z))
        return TERR_LIMIT;
    return z->skip_left > 0 ? STEP_STUCK : codec_unzstd_next(z);
}

/* libzstd takes a frame of any size if its last block has nothing in it (1.5.4). */
static int
codec_unzstd_end(struct codec_unzstd *z)
{
    if (z->size != ZSTD_CONTENTSIZE_UNKNOWN && z->codec.out - z->began != z->size)
        return TERR_FRAMING;
    return codec_unzstd_next(z);
}

/* Where a frame is complete and does not fit, libzstd leaves its last byte in the input until it has written all. */
static int
codec_unzstd_blocks(struct codec_unzstd *z, struct slice *in, struct span *out)
{
    ZSTD_inBuffer from = {in->ptr, in->len, 0};
    ZSTD_outBuffer to = {out->ptr, out->len, 0};
    size_t wants;

    /* A call that can do nothing is an error to libzstd if it comes often. */
    if (z->is_full ? out->len == 0 : in->len == 0)
        return STEP_STUCK;
    wants = ZSTD_decompressStream(z->z, &to, &from);
    if (ZSTD_isError(wants))
        return TERR_FRAMING;
    z->is_full = wants != 0 && to.pos == to.size;
    codec_took(&z->codec, in, from.pos);
    codec_wrote(&z->codec, out, to.pos);
    if (codec_is_bomb(&z->codec) || codec_unzstd_is_waste(z))
        return TERR_LIMIT;
    if (wants == 0)
        return codec_unzstd_end(z);
    return from.pos > 0 || to.pos > 0 ? STEP_MORE : STEP_STUCK;
}

/* ---- run ---- */

static int
codec_unzstd_step(struct codec_unzstd *z, struct slice *in, struct span *out)
{
    switch (z->part) {
    case PART_HEAD:
        return codec_unzstd_head(z, in);
    case PART_SKIP:
        return codec_unzstd_skip(z, in);
    case PART_BLOCKS:
        return codec_unzstd_blocks(z, in, out);
    }
    TUNREACHABLE("part of zstd");
}

static int
codec_unzstd_run(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow)
{
    struct codec_unzstd *z = codec_unzstd_of(c);
    int step;

    do
        step = codec_unzstd_step(z, in, out);
    while (step == STEP_MORE);
    if (step < 0)
        return step;
    if (z->part == PART_BLOCKS && z->is_full && out->len == 0)
        return CODEC_WANTS_ROOM;
    if (in->len > 0) /* libzstd neither reads nor writes, and says no error */
        return TERR_FRAMING;
    if (flow != CODEC_ENDS)
        return CODEC_WANTS_INPUT;
    return z->any && z->part == PART_HEAD && z->nhead == 0 ? CODEC_ENDED : TERR_FRAMING;
}

const struct codec_ops codec_unzstd_ops = {.size = codec_unzstd_size,
    .init = codec_unzstd_init,
    .run = codec_unzstd_run,
    .make = codec_unzstd_make,
    .fini = codec_unzstd_fini,
    .drop = codec_unzstd_drop};
