/* codec_priv.h -- what the kinds of codecs have in common.  For daemon/filter alone.
 *
 * A kind is a row of codec_kinds (codec.c).  Its struct begins with a struct codec; the pool keeps
 * the memory from one body to the next:
 *
 *     new memory: make() -> a body: init() -> run() ... -> fini() -> the next body: init() ... -> drop()
 */
#ifndef TARN_CODEC_PRIV_H
#define TARN_CODEC_PRIV_H

#include "daemon/base/obj.h"
#include "daemon/base/usage.h"
#include "daemon/filter/codec.h"

#define CODEC_MAGIC OBJ_TAG('c', 'd', 'e', 'c')
struct codec {
    uint32_t magic;
    enum codec_kind kind;
    struct codec_pool *pool; /* borrowed */
    struct usage *usage;     /* borrowed: the pool's */
    struct codec *next;      /* idle: the pool's list */
    uint64_t in, out;        /* bytes so far */
    bool failed;             /* codec_run() has returned an error */
};

struct codec_ops {
    size_t (*size)(void); /* of its struct, and of what stands behind it */
    /* Sets what run() reads; but make()'s, which outlives a body.  false: no memory. */
    bool (*init)(struct codec *c);
    int (*run)(struct codec *c, struct slice *in, struct span *out, enum codec_flow flow);
    /* Each may be NULL. */
    void (*make)(struct codec *c);
    void (*fini)(struct codec *c); /* gives back what the next body does not need */
    void (*drop)(struct codec *c); /* gives back all that it has beside its own memory */
};

extern const struct codec_ops codec_gzip_ops, codec_gunzip_ops, codec_zstd_ops, codec_unzstd_ops,
    codec_unbrotli_ops;

/* A step's answer where a kind goes by steps, or a TERR. */
enum {
    STEP_STUCK, /* it needs input, or room */
    STEP_MORE,
};

enum {
    CODEC_STEP_MAX = 1 << 30, /* bytes of a call of ISA-L, which counts in 32 bits */
};

/* More has come out than anything but a bomb has in it. */
static inline bool
codec_is_bomb(const struct codec *c)
{
    return c->out > CODEC_BOMB_BYTES && c->out / CODEC_BOMB_RATIO >= c->in;
}

/* Less has come out than anything but a waste of time has in it; to be asked where nothing waits for room.  Of the
 * input `held` bytes may be whole only when more have come. */
static inline bool
codec_is_waste(const struct codec *c, uint64_t held)
{
    return c->in > CODEC_WASTE_BYTES + held && c->out < (c->in - held) / CODEC_WASTE_RATIO;
}

static inline uint32_t
codec_step(size_t len)
{
    return len < CODEC_STEP_MAX ? (uint32_t)len : CODEC_STEP_MAX;
}

/* ISA-L only reads its input, though its structs have no const. */
static inline uint8_t *
codec_bytes(const struct slice *in)
{
    return (uint8_t *)(uintptr_t)in->ptr;
}

static inline void
codec_took(struct codec *c, struct slice *in, size_t len)
{
    tassert(len <= in->len);
    in->ptr += len;
    in->len -= len;
    c->in += len;
}

static inline void
codec_wrote(struct codec *c, struct span *out, size_t len)
{
    tassert(len <= out->len);
    out->ptr += len;
    out->len -= len;
    c->out += len;
}

#endif
