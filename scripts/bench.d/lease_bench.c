/* lease_bench.c -- what an extent costs by leases, and by the call that hands all of them out.
 *
 *     lease_bench EXTENT_BYTES EXTENTS ROUNDS SAMPLES|count
 *
 * After Varnish's VAI, which had to lose nothing against the synchronous iterator it replaced.  A
 * body of EXTENTS small extents is read ROUNDS times, turn by turn:
 *
 *   each    lease_each(), which blocks and calls back
 *   lease   lease_init, take, return and fini, as delivery uses them, in its batches
 *
 * settled: the extents are there; busy: a writer publishes one whenever the reader has read all.
 * plain: an extent's first byte is looked at; crc: all of it, as a transport that checks would.
 * "count" is for valgrind --tool=callgrind --instr-atstart=no: a dump for each, in that order.
 *
 * For scripts/bench --lease, so a line is NAME NS_PER_EXTENT.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION ((void)0)
#define CALLGRIND_ZERO_STATS            ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION  ((void)0)
#define CALLGRIND_DUMP_STATS_AT(name)   ((void)(name))
#endif

#include "conf/conf.h"
#include "daemon/base/limits.h"
#include "daemon/base/rcu.h"
#include "daemon/base/tassert.h"
#include "storage/lease.h"
#include "storage/storage.h"

enum {
    STORE_BYTES = 64 << 20,
    PLAIN_ROUNDS = 8, /* of each with a CRC */
};

struct bench {
    struct storage *malloc_store, *synth_store;
    struct stobj *settled;
    struct stobj *busy; /* of the read under way */
    unsigned published; /* extents of it */
    char *bytes;        /* one extent's */
    uint32_t crc_table[256];
    /* asked for */
    size_t extent_bytes;
    unsigned extents, rounds, samples; /* samples 0: count */
    bool crc;
    /* what came of it, so that nothing is optimised away */
    uint32_t sum;
    uint64_t seen;
};

/* CRC-32 of Ethernet, byte by byte: neither side may profit from a faster one. */
static void
bench_crc_init(struct bench *b)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (unsigned bit = 0; bit < 8; bit++)
            c = (c & 1) != 0 ? c >> 1 ^ 0xedb88320u : c >> 1;
        b->crc_table[i] = c;
    }
}

static int
bench_use(void *ctx, const char *ptr, size_t len)
{
    struct bench *b = ctx;
    uint32_t c = ~b->sum;

    b->seen += len;
    if (b->crc) {
        for (size_t i = 0; i < len; i++)
            c = b->crc_table[(c ^ (unsigned char)ptr[i]) & 0xff] ^ c >> 8;
        b->sum = ~c;
    } else {
        b->sum += (unsigned char)ptr[0];
    }
    return 0;
}

/* The reader has read everything: one more extent, or the end. */
static void
bench_publish(void *ctx)
{
    struct bench *b = ctx;
    struct span span;
    size_t done = 0;
    int err;

    if (b->published == b->extents) {
        space_finish(b->busy);
        return;
    }
    b->published++;
    while (done < b->extent_bytes) { /* a segment may end in it */
        err = space_get(b->busy, b->extent_bytes - done, &span, NULL);
        tassert(err == 0);
        if (span.len > b->extent_bytes - done)
            span.len = b->extent_bytes - done;
        memcpy(span.ptr, b->bytes, span.len);
        space_extend(b->busy, span.len);
        done += span.len;
    }
}

static void
bench_read_each(struct bench *b, struct stobj *o)
{
    int err = lease_each(o, 0, LEASE_TO_END, NULL, bench_publish, bench_use, b);

    tassert(err == 0);
}

static void
bench_read_lease(struct bench *b, struct stobj *o)
{
    struct lease_extent extents[LIMIT_LEASES];
    struct lease_batch batch = {.extents = extents, .max = LIMIT_LEASES};
    uint64_t ids[LIMIT_LEASES];
    struct lease_iter it;
    int n = lease_init(&it, o, 0, LEASE_TO_END, NULL);

    tassert(n == 0);
    do {
        n = lease_take(&it, &batch);
        if (n == -EAGAIN) {
            bench_publish(b);
            continue;
        }
        tassert(n >= 0);
        for (unsigned i = 0; i < batch.n; i++) {
            bench_use(b, extents[i].ptr, extents[i].len);
            ids[i] = extents[i].id;
        }
        lease_return(&it, &(struct lease_returns){.ids = ids, .n = batch.n});
        batch.n = 0;
    } while (n != 0);
    lease_fini(&it);
}

typedef void bench_read_f(struct bench *b, struct stobj *o);

static void
bench_read_busy(struct bench *b, bench_read_f *read)
{
    int err = stobj_new(&b->busy, b->malloc_store, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);

    tassert(err == 0);
    b->published = 0;
    read(b, b->busy);
    stobj_unref(&b->busy);
}

/* What takes 16 ns an extent is read oftener, so that it can be timed at all. */
static unsigned
bench_rounds(const struct bench *b)
{
    return b->crc || b->samples == 0 ? b->rounds : b->rounds * PLAIN_ROUNDS;
}

/* One way of reading, as often as asked for. */
static void
bench_run(struct bench *b, bool busy, bench_read_f *read)
{
    unsigned rounds = bench_rounds(b);

    b->seen = 0;
    for (unsigned i = 0; i < rounds; i++) {
        if (busy)
            bench_read_busy(b, read);
        else
            read(b, b->settled);
        rcu_offline(); /* as at the end of a turn */
        rcu_online();
    }
    tassert(b->seen == (uint64_t)rounds * b->extents * b->extent_bytes);
}

/* CPU time of this thread, ns: what others do meanwhile does not count. */
static double
bench_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void
bench_all(struct bench *b)
{
    for (unsigned i = 0; i < 8; i++) { /* both ways side by side, as near as can be */
        bool lease = (i & 1) != 0, busy = (i & 4) != 0;
        double start;
        char name[32];

        b->crc = (i & 2) != 0;
        snprintf(name, sizeof(name), "%s_%s_%s", busy ? "busy" : "settled",
            b->crc ? "crc" : "plain", lease ? "lease" : "each");
        start = bench_now();
        if (b->samples == 0) {
            CALLGRIND_START_INSTRUMENTATION;
            CALLGRIND_ZERO_STATS;
        }
        bench_run(b, busy, lease ? bench_read_lease : bench_read_each);
        if (b->samples == 0) {
            CALLGRIND_DUMP_STATS_AT(name);
            CALLGRIND_STOP_INSTRUMENTATION;
        }
        printf("%s %.2f\n", name,
            (bench_now() - start) / ((double)bench_rounds(b) * (double)b->extents));
    }
}

static void
bench_open(struct bench *b)
{
    static const struct conf_storage confs[] = {
        {.name = "m", .engine = "malloc", .size = STORE_BYTES, .fault = ""},
        {.name = "s", .engine = "synth", .size = STORE_BYTES, .fault = ""}};
    int err = storage_open(&b->malloc_store, &confs[0]);

    tassert(err == 0);
    err = storage_open(&b->synth_store, &confs[1]);
    tassert(err == 0);
    b->bytes = malloc(b->extent_bytes);
    tassert(b->bytes != NULL);
    memset(b->bytes, 'x', b->extent_bytes);
    bench_crc_init(b);
    err = stobj_synth_new(&b->settled, b->synth_store);
    for (unsigned i = 0; err == 0 && i < b->extents; i++)
        err = stobj_synth_add(b->settled, slice_of(b->bytes, b->extent_bytes));
    tassert(err == 0);
}

static void
bench_close(struct bench *b)
{
    stobj_unref(&b->settled);
    free(b->bytes);
    rcu_leave();
    rcu_barrier_wait();
    storage_close(&b->synth_store);
    storage_close(&b->malloc_store);
}

int
main(int argc, char **argv)
{
    static struct bench b;

    if (argc == 5) {
        b.extent_bytes = strtoul(argv[1], NULL, 10);
        b.extents = (unsigned)strtoul(argv[2], NULL, 10);
        b.rounds = (unsigned)strtoul(argv[3], NULL, 10);
        b.samples = (unsigned)strtoul(argv[4], NULL, 10);
    }
    if (b.extent_bytes == 0 || b.rounds == 0 || b.extent_bytes * b.extents - 1 >= STORE_BYTES / 4) {
        fprintf(stderr, "usage: lease_bench EXTENT_BYTES EXTENTS ROUNDS SAMPLES|count\n"
                        "       16 MiB of extents at most\n");
        return 2;
    }
    rcu_start();
    rcu_join();
    bench_open(&b);
    for (unsigned i = 0; i < (b.samples > 0 ? b.samples : 1); i++)
        bench_all(&b);
    bench_close(&b);
    return 0;
}
