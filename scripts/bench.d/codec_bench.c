/* codec_bench.c -- what packing and unpacking by gzip costs: figures of daemon/filter/README.md.
 *
 *     codec_bench FILE [SAMPLES]
 *
 * By pieces of 16 KiB of input and of room, as a body comes by.  Of each figure the best sample:
 *
 *   NAME bytes packed ratio; MB/s of the body, packing and unpacking; ns of a body of 1 KiB with its codec's
 *   new and free, and of one with no byte; bytes of memory that a codec takes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/tassert.h"
#include "daemon/base/usage.h"
#include "daemon/filter/codec.h"

enum {
    PIECE = 16384,
    FILE_MAX = 64 << 20,
};

static struct usage usage;
static struct codec_pool *pool;
static char *packed, *unpacked;

static double
bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Returns the bytes that came out. */
static size_t
bench_body(enum codec_kind kind, struct slice body, char *to)
{
    struct codec *c = codec_new(pool, kind);
    size_t left = body.len, len;
    int said;

    do {
        struct slice in = {body.ptr + (body.len - left), left < PIECE ? left : PIECE};
        enum codec_flow flow = in.len == left ? CODEC_ENDS : CODEC_GOES_ON;
        size_t given = in.len;

        do {
            struct span out = {to + codec_out(c), PIECE};

            said = codec_run(c, &in, &out, flow);
            tassert(said >= 0);
        } while (said == CODEC_WANTS_ROOM);
        left -= given;
    } while (said != CODEC_ENDED);
    len = codec_out(c);
    codec_free(&c);
    return len;
}

/* The best of the samples, ns. */
static double
bench_best(enum codec_kind kind, struct slice body, char *to, unsigned samples)
{
    unsigned rounds = body.len > 0 ? (unsigned)(4000000 / (body.len + 2000)) + 1 : 1000;
    double best = 0;

    for (unsigned s = 0; s < samples; s++) {
        double from = bench_now(), took;

        for (unsigned i = 0; i < rounds; i++)
            bench_body(kind, body, to);
        took = (bench_now() - from) / rounds;
        if (s == 0 || took < best)
            best = took;
    }
    return best;
}

static size_t
bench_memory(enum codec_kind kind)
{
    uint64_t before = usage.bytes[USAGE_REQUEST];
    struct codec *c = codec_new(pool, kind);
    size_t bytes = usage.bytes[USAGE_REQUEST] - before;

    codec_free(&c);
    return bytes;
}

static void
bench_small(const char *name, struct slice body, unsigned samples)
{
    size_t len = bench_body(CODEC_GZIP, body, packed);

    printf("%-8s %5zu bytes: packed %6.0f ns", name, len,
        bench_best(CODEC_GZIP, body, unpacked, samples));
    printf("  unpacked %6.0f ns\n",
        bench_best(CODEC_GUNZIP, slice_of(packed, len), unpacked, samples));
}

int
main(int argc, char **argv)
{
    unsigned samples = argc > 2 ? (unsigned)atoi(argv[2]) : 10;
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    char *file = malloc(FILE_MAX);
    struct slice body = {file, 0};
    size_t len;

    packed = malloc(2 * FILE_MAX);
    unpacked = malloc(2 * FILE_MAX);
    if (f == NULL || file == NULL || packed == NULL || unpacked == NULL || samples == 0) {
        fprintf(stderr, "usage: codec_bench FILE [SAMPLES]\n");
        return 2;
    }
    body.len = fread(file, 1, FILE_MAX, f);
    fclose(f);
    pool = codec_pool_new(&usage, 1);
    printf("memory   pack %zu  unpack %zu bytes\n", bench_memory(CODEC_GZIP),
        bench_memory(CODEC_GUNZIP));
    len = bench_body(CODEC_GZIP, body, packed);
    printf("file     %zu bytes, packed %zu (%.1f %%): packed %.0f MB/s", body.len, len,
        100.0 * (double)len / (double)body.len,
        (double)body.len * 1000 / bench_best(CODEC_GZIP, body, unpacked, samples));
    printf("  unpacked %.0f MB/s\n",
        (double)body.len * 1000 /
            bench_best(CODEC_GUNZIP, slice_of(packed, len), unpacked, samples));
    bench_small("1 KiB", slice_of(body.ptr, body.len < 1024 ? body.len : 1024), samples);
    bench_small("nothing", slice_of(body.ptr, 0), samples);
    codec_pool_free(&pool);
    return 0;
}
