/* repack_brotli.c -- br (RFC 7932) by libbrotli's encoder.
 *
 * Where its allocator gives it nothing the encoder of the distributions ends the process.  So the allocator never
 * says so: it leaves the encoder by longjmp().  All memory of the encoder is the run's, which gives it back. */
#include <brotli/encode.h>
#include <setjmp.h>

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/filter/repack_priv.h"

enum {
    WINDOW_BITS_MAX = 22, /* 4 MiB: memory goes by it, here and at the client */
    BLOCK_BITS =
        16, /* at a time from level 10 on; of 256 KiB it takes seconds, and twice the memory */
    LENGTH_MAX = 16 << 20, /* of a meta-block */
    SIZE_HINT_MAX = 1 << 30,
};

struct repack_brotli {
    struct repack_run *run; /* borrowed */
    BrotliEncoderState *b;  /* of the run's memory, and all that it takes */
    jmp_buf without_memory; /* of the call that is in the encoder */
};

/* The smallest window that has all of the body in it (RFC 7932 9.1). */
static unsigned
repack_brotli_window_bits(size_t len)
{
    unsigned bits = BROTLI_MIN_WINDOW_BITS;

    while (bits < WINDOW_BITS_MAX && ((size_t)1 << bits) - 16 < len)
        bits++;
    return bits;
}

/* Measured with libbrotli 1.0.9, of text, of programs and of noise: tables by the level, and commands and the window
 * by the length. */
static size_t
repack_brotli_memory(const struct repack *how, size_t len)
{
    static const struct {
        unsigned tables_kib, times;
    } levels[] = {[0] = {700, 0},
        [1] = {700, 0},
        [2] = {1024, 6},
        [3] = {1024, 6},
        [4] = {4096, 8},
        [5] = {4096, 8},
        [6] = {4096, 8},
        [7] = {12288, 8},
        [8] = {20480, 8},
        [9] = {36864, 8},
        [10] = {6144, 16},
        [11] = {6144, 16}};
    size_t most = (size_t)LENGTH_MAX;

    return (size_t)levels[how->level].tables_kib * 1024 +
           levels[how->level].times * (len < most ? len : most);
}

static void *
repack_brotli_alloc(void *state, size_t size)
{
    struct repack_brotli *s = state;
    void *p = repack_alloc(s->run, size);

    if (p == NULL)
        longjmp(s->without_memory, 1);
    return p;
}

static void
repack_brotli_release(void *state, void *p)
{
    struct repack_brotli *s = state;

    repack_release(s->run, p);
}

static void
repack_brotli_set(struct repack_brotli *s, BrotliEncoderParameter parameter, uint32_t value)
{
    BROTLI_BOOL taken = BrotliEncoderSetParameter(s->b, parameter, value);

    tassert(taken);
}

static int
repack_brotli_open(struct repack_run *r)
{
    struct repack_brotli *s = repack_alloc(r, sizeof(*s));

    if (s == NULL)
        return TERR_NOMEM;
    r->state = s;
    s->run = r;
    if (setjmp(s->without_memory) != 0)
        return TERR_NOMEM;
    s->b = BrotliEncoderCreateInstance(repack_brotli_alloc, repack_brotli_release, s);
    tassert(s->b != NULL);
    repack_brotli_set(s, BROTLI_PARAM_QUALITY, (uint32_t)r->how->level);
    repack_brotli_set(s, BROTLI_PARAM_LGWIN, repack_brotli_window_bits(r->len));
    repack_brotli_set(
        s, BROTLI_PARAM_SIZE_HINT, r->len < SIZE_HINT_MAX ? (uint32_t)r->len : SIZE_HINT_MAX);
    if (r->how->level >= 10)
        repack_brotli_set(s, BROTLI_PARAM_LGBLOCK, BLOCK_BITS);
    return 0;
}

/* The encoder's answer, without a place to return to. */
static int
repack_brotli_encode(struct repack_brotli *s, struct slice piece, struct span *out, bool is_last)
{
    size_t avail_in = piece.len, avail_out = out->len;
    const uint8_t *next_in = (const uint8_t *)piece.ptr;
    uint8_t *next_out = (uint8_t *)out->ptr;

    if (!BrotliEncoderCompressStream(s->b,
            is_last ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_PROCESS, &avail_in, &next_in,
            &avail_out, &next_out, NULL))
        return TERR_NOMEM; /* an encoder that does not end the process */
    out->ptr += out->len - avail_out;
    out->len = avail_out;
    return avail_in > 0 || (is_last && !BrotliEncoderIsFinished(s->b)) ? REPACK_FULL : REPACK_FED;
}

static int
repack_brotli_feed(struct repack_run *r, struct slice piece, struct span *out, bool is_last)
{
    struct repack_brotli *s = r->state;

    if (setjmp(s->without_memory) != 0)
        return TERR_NOMEM;
    return repack_brotli_encode(s, piece, out, is_last);
}

const struct repack_ops repack_brotli_ops = {.level_min = BROTLI_MIN_QUALITY,
    .level_max = BROTLI_MAX_QUALITY,
    .memory = repack_brotli_memory,
    .open = repack_brotli_open,
    .feed = repack_brotli_feed};
