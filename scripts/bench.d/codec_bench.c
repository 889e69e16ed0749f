/* codec_bench.c -- what packing and unpacking cost: figures of daemon/filter/README.md.
 *
 *     codec_bench FILE [SAMPLES]
 *
 * By pieces of 16 KiB of input and of room, as a body comes by.  Of each figure the best sample:
 *
 *   NAME memory of packing and of unpacking, at most; bytes packed, ratio; MB/s of the body, packing and unpacking
 *   1 KiB, nothing: the same of so much of it, in ns, with its codec's new and free
 *
 * and of repack.h, whole: bytes packed, ratio, MB/s of the body, memory at most, the longest time between two stop().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/tassert.h"
#include "daemon/base/usage.h"
#include "daemon/filter/codec.h"
#include "daemon/filter/repack.h"

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

/* At most while `body` goes through it, of what libzstd and libbrotli take as they go, too. */
static size_t
bench_memory(enum codec_kind kind, struct slice body, char *to)
{
    uint64_t before, bytes;

    codec_pool_trim(pool, 0);
    before = usage.bytes[USAGE_REQUEST];
    usage.taken = 0;
    bench_body(kind, body, to);
    bytes = usage.taken; /* nothing goes back before the end but smaller windows */
    tassert(bytes >= usage.bytes[USAGE_REQUEST] - before);
    return bytes;
}

static const struct {
    const char *name;
    bool packs; /* else by repack.h, at level 5 */
    enum codec_kind pack, unpack;
} kinds[] = {{"gzip", true, CODEC_GZIP, CODEC_GUNZIP}, {"zstd", true, CODEC_ZSTD, CODEC_UNZSTD},
    {"br", false, CODEC_KINDS, CODEC_UNBROTLI}};

static size_t
bench_pack(unsigned k, struct slice body)
{
    struct span out = {packed, 2 * FILE_MAX};

    if (kinds[k].packs)
        return bench_body(kinds[k].pack, body, packed);
    repack(&(struct repack){.form = REPACK_BROTLI, .level = 5}, body, &out);
    return (size_t)(out.ptr - packed);
}

static void
bench_small(const char *name, unsigned k, struct slice body, unsigned samples)
{
    size_t len = bench_pack(k, body);
    struct slice there = {packed, len};

    printf("  %-8s %5zu bytes:", name, len);
    if (kinds[k].packs)
        printf(" packed %6.0f ns", bench_best(kinds[k].pack, body, unpacked, samples));
    printf("  unpacked %6.0f ns\n", bench_best(kinds[k].unpack, there, unpacked, samples));
}

static void
bench_kind(unsigned k, struct slice body, unsigned samples)
{
    size_t len = bench_pack(k, body);
    struct slice there = {packed, len};

    printf("%-5s %zu (%.1f %%)", kinds[k].name, len, 100.0 * (double)len / (double)body.len);
    if (kinds[k].packs)
        printf(" packed %.0f MB/s, %zu bytes",
            (double)body.len * 1000 / bench_best(kinds[k].pack, body, unpacked, samples),
            bench_memory(kinds[k].pack, body, unpacked));
    printf("  unpacked %.0f MB/s, %zu bytes\n",
        (double)body.len * 1000 / bench_best(kinds[k].unpack, there, unpacked, samples),
        bench_memory(kinds[k].unpack, there, unpacked));
    bench_small("1 KiB", k, slice_of(body.ptr, body.len < 1024 ? body.len : 1024), samples);
    bench_small("nothing", k, slice_of(body.ptr, 0), samples);
}

/* ---- whole bodies ---- */

static double asked, longest;

static bool
bench_stop(void *ctx)
{
    double now = bench_now();

    (void)ctx;
    if (now - asked > longest)
        longest = now - asked;
    asked = now;
    return false;
}

static void
bench_repack(const struct repack *how, const char *name, struct slice body, unsigned samples)
{
    double best = 0, least = 0;
    struct span out;

    for (unsigned s = 0; s < samples; s++) {
        double from = bench_now(), took;

        asked = from;
        longest = 0;
        out = (struct span){packed, 2 * FILE_MAX};
        if (repack(how, body, &out) != REPACK_DONE)
            exit(1);
        bench_stop(NULL);
        took = asked - from;
        if (s == 0 || took < best)
            best = took;
        if (s == 0 || longest < least)
            least = longest;
    }
    printf("%-6s %2d: %zu (%.1f %%) %.2f MB/s, memory %zu, longest piece %.1f ms\n", name,
        how->level, (size_t)(out.ptr - packed),
        100.0 * (double)(out.ptr - packed) / (double)body.len, (double)body.len * 1000 / best,
        repack_memory(how, body.len), least / 1e6);
}

static void
bench_forms(struct slice body, unsigned samples)
{
    static const uint8_t hash[REPACK_HASH_BYTES];
    static const struct {
        const char *name;
        enum repack_form form;
        int level;
    } forms[] = {{"gzip", REPACK_GZIP, 3}, {"br", REPACK_BROTLI, 5}, {"br", REPACK_BROTLI, 9},
        {"br", REPACK_BROTLI, 11}, {"zstd", REPACK_ZSTD, 3}, {"zstd", REPACK_ZSTD, 9},
        {"zstd", REPACK_ZSTD, 19}, {"dcz", REPACK_DCZ, 3}, {"dcz", REPACK_DCZ, 19}};
    char *older = malloc(body.len + 1);

    if (older == NULL)
        exit(1);
    memcpy(older, body.ptr, body.len);
    for (size_t at = 0; at + 100 < body.len; at += 10000)
        memset(older + at, 'o', 100); /* a hundredth of the body is new */
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct repack how = {.form = forms[i].form, .level = forms[i].level, .stop = bench_stop};

        if (how.form == REPACK_DCZ) {
            how.dictionary = slice_of(older, body.len);
            how.hash = hash;
        }
        bench_repack(&how, forms[i].name, body, samples < 5 ? samples : 5);
    }
    free(older);
}

int
main(int argc, char **argv)
{
    unsigned samples = argc > 2 ? (unsigned)atoi(argv[2]) : 10;
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    char *file = malloc(FILE_MAX);
    struct slice body = {file, 0};

    packed = malloc(2 * FILE_MAX);
    unpacked = malloc(2 * FILE_MAX);
    if (f == NULL || file == NULL || packed == NULL || unpacked == NULL || samples == 0) {
        fprintf(stderr, "usage: codec_bench FILE [SAMPLES]\n");
        return 2;
    }
    body.len = fread(file, 1, FILE_MAX, f);
    fclose(f);
    pool = codec_pool_new(&usage, 1);
    printf("%zu bytes\n", body.len);
    for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        bench_kind(k, body, samples);
    bench_forms(body, samples);
    codec_pool_free(&pool);
    return 0;
}
