/* cuckoo_bench.c -- what a lookup in the index costs, and how full the index gets.
 *
 *     cuckoo_bench KEYS LOOKUPS 4|8 SAMPLES
 *     cuckoo_bench KEYS LOOKUPS 4|8 count
 *
 * KEYS random keys go into a table of the automatic size, in buckets of 4 or 8 slots, and into the
 * table that OpenAFS's vlserver had before: 8,191 buckets with chains.  LOOKUPS of keys that are
 * there, and of keys that are not, are timed in both, turn by turn (the chains get a
 * hundredth of them).  Then a table is filled until its first victim, and one that grows with all
 * keys.  "count" is for valgrind --tool=callgrind --instr-atstart=no, which then leaves a dump
 * for each: making keys, cuckoo hit, cuckoo miss, chained hit, chained miss.
 *
 * For scripts/bench --index, so a line is NAME VALUE.
 */
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

#include "daemon/base/hash.h"
#include "daemon/base/rcu.h"
#include "daemon/base/tassert.h"
#include "daemon/cache/cuckoo.h"

enum {
    CHAINS = 8191,
    CHAINED_PART = 100, /* of the lookups: chains are slow */
};

struct entry {
    _Alignas(CUCKOO_ALIGN) struct cuckoo_node node; /* first */
    struct entry *next;                             /* in its chain */
};

struct bench {
    struct cuckoo *table;
    struct entry *chains[CHAINS];
    struct entry *entries;
    uint64_t keys, lookups;
    unsigned slots, samples; /* samples 0: count */
};

typedef const struct cuckoo_node *bench_find_f(const struct bench *b, const struct hash128 *key);

static void *
bench_alloc(void *ctx, size_t bytes, size_t align)
{
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);

    (void)ctx;
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

static void
bench_free(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    free(p);
}

static int
bench_usefulness(const struct cuckoo_node *node)
{
    (void)node;
    return 0;
}

static struct cuckoo *
bench_open(unsigned bits, unsigned bits_max, unsigned slots)
{
    struct cuckoo_conf conf = {.bits = bits,
        .bits_max = bits_max,
        .slots = slots,
        .memory = {bench_alloc, bench_free, NULL},
        .usefulness = bench_usefulness};
    struct cuckoo *t = NULL;
    int err = cuckoo_open(&t, &conf);

    tassert(err == 0);
    return t;
}

/* False: it took a victim, and was not put in. */
static bool
bench_insert(struct cuckoo *t, struct cuckoo_node *node)
{
    struct cuckoo_node *victim = NULL;
    struct cuckoo_guard g;

    cuckoo_lock(t, &node->key, &g);
    while (victim == NULL && cuckoo_insert(t, &g, node) < 0)
        victim = cuckoo_make_room(t, &g);
    cuckoo_unlock(t, &g);
    return victim == NULL;
}

/* CPU time of this thread, ns: what others do meanwhile does not count. */
static double
bench_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static const struct cuckoo_node *
bench_find_cuckoo(const struct bench *b, const struct hash128 *key)
{
    return cuckoo_find(b->table, key);
}

static const struct cuckoo_node *
bench_find_chained(const struct bench *b, const struct hash128 *key)
{
    const struct entry *e = b->chains[key->lo % CHAINS];

    while (e != NULL && !hash128_eq(e->node.key, *key))
        e = e->next;
    return e == NULL ? NULL : &e->node;
}

static struct hash128
bench_key(uint64_t n)
{
    return hash_bytes(&n, sizeof(n));
}

/* Keys that are there, or that are not, in an order of no use to caches. */
static struct hash128
bench_next_key(const struct bench *b, uint64_t *seed, bool there)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return bench_key((*seed >> 20) % b->keys + (there ? 0 : b->keys));
}

static void
bench_make_keys(const struct bench *b, uint64_t lookups, bool there)
{
    uint64_t seed = 1, sum = 0;

    for (uint64_t i = 0; i < lookups; i++)
        sum += bench_next_key(b, &seed, there).lo;
    tassert(sum != 0);
}

static __attribute__((noinline)) void
bench_find_all(const struct bench *b, bench_find_f *find, uint64_t lookups, bool there)
{
    uint64_t seed = 1, found = 0;

    for (uint64_t i = 0; i < lookups; i++) {
        struct hash128 key = bench_next_key(b, &seed, there);

        found += find(b, &key) != NULL;
    }
    tassert(found == (there ? lookups : 0));
}

/* Nanoseconds of a lookup, with the making of the keys taken off. */
static double
bench_time(const struct bench *b, bench_find_f *find, uint64_t lookups, bool there)
{
    double start = bench_now(), made;

    bench_make_keys(b, lookups, there);
    made = bench_now() - start;
    start = bench_now();
    bench_find_all(b, find, lookups, there);
    return (bench_now() - start - made) / (double)lookups;
}

static void
bench_fill(struct bench *b)
{
    struct cuckoo_stats s;
    double start;

    for (uint64_t i = 0; i < b->keys; i++) {
        struct entry *e = &b->entries[i];
        struct entry **chain;

        e->node.key = bench_key(i);
        chain = &b->chains[e->node.key.lo % CHAINS];
        e->next = *chain;
        *chain = e;
    }
    start = bench_now();
    for (uint64_t i = 0; i < b->keys; i++) {
        bool without_victim = bench_insert(b->table, &b->entries[i].node);

        tassert(without_victim);
    }
    start = bench_now() - start;
    cuckoo_stats(b->table, &s);
    printf("bits %u\nbytes %llu\nload %.4f\ninsert_ns %.0f\n", s.bits, (unsigned long long)s.bytes,
        s.load, start / (double)b->keys);
}

static void
bench_lookups(const struct bench *b)
{
    uint64_t few = b->lookups / CHAINED_PART + 1;

    for (unsigned i = 0; i < b->samples; i++) {
        printf("cuckoo_hit %.1f\n", bench_time(b, bench_find_cuckoo, b->lookups, true));
        printf("chained_hit %.1f\n", bench_time(b, bench_find_chained, few, true));
        printf("cuckoo_miss %.1f\n", bench_time(b, bench_find_cuckoo, b->lookups, false));
        printf("chained_miss %.1f\n", bench_time(b, bench_find_chained, few, false));
    }
}

/* With instrumentation on for that long, and a dump of its own. */
#define BENCH_COUNT(name, statement)     \
    do {                                 \
        CALLGRIND_START_INSTRUMENTATION; \
        CALLGRIND_ZERO_STATS;            \
        statement;                       \
        CALLGRIND_DUMP_STATS_AT(name);   \
        CALLGRIND_STOP_INSTRUMENTATION;  \
    } while (0)

static void
bench_count(const struct bench *b)
{
    uint64_t few = b->lookups / CHAINED_PART + 1;

    BENCH_COUNT("keys", bench_make_keys(b, b->lookups, true));
    BENCH_COUNT("cuckoo_hit", bench_find_all(b, bench_find_cuckoo, b->lookups, true));
    BENCH_COUNT("cuckoo_miss", bench_find_all(b, bench_find_cuckoo, b->lookups, false));
    BENCH_COUNT("chained_hit", bench_find_all(b, bench_find_chained, few, true));
    BENCH_COUNT("chained_miss", bench_find_all(b, bench_find_chained, few, false));
    printf("chained_lookups %llu\n", (unsigned long long)few);
}

/* Fills the largest table that the keys are enough for. */
static void
bench_load(const struct bench *b)
{
    unsigned bits = CUCKOO_BITS_MIN;
    struct cuckoo_stats s;
    struct cuckoo *t;
    uint64_t n = 0;

    while (bits < CUCKOO_BITS_MAX && UINT64_C(2) << bits <= b->keys)
        bits++;
    t = bench_open(bits, 0, b->slots);
    while (n < b->keys && bench_insert(t, &b->entries[n].node))
        n++;
    cuckoo_stats(t, &s);
    printf("victim_load %.4f\nvictim_bits %u\nmoves_per_key %.2f\nlongest_path %llu\n", s.load,
        bits, (double)s.moved / (double)n, (unsigned long long)s.path_max);
    cuckoo_close(&t);
}

/* Lets a small table grow to hold them all, as tarnd does. */
static void
bench_grow(const struct bench *b)
{
    struct cuckoo *t = bench_open(13, CUCKOO_BITS_MAX, b->slots);
    double start = bench_now(), least = 1;
    struct cuckoo_stats s;

    for (uint64_t i = 0; i < b->keys; i++) {
        bool without_victim = bench_insert(t, &b->entries[i].node);

        tassert(without_victim);
        if (!cuckoo_wants_tending(t))
            continue;
        cuckoo_stats(t, &s);
        if (!s.growing && s.load < least)
            least = s.load;
        cuckoo_tend(t, 8, SIZE_MAX);
        if (i % 64 == 0) { /* as at the end of a turn: old tables go */
            rcu_offline();
            rcu_online();
        }
    }
    start = bench_now() - start;
    cuckoo_stats(t, &s);
    printf("grow_load %.4f\ngrow_doubled %llu\ngrow_victims %llu\ngrow_insert_ns %.0f\n", least,
        (unsigned long long)s.doubled, (unsigned long long)s.evicted, start / (double)b->keys);
    rcu_offline();
    cuckoo_close(&t);
    rcu_online();
}

static bool
bench_args(struct bench *b, int argc, char **argv)
{
    if (argc != 5)
        return false;
    b->keys = strtoull(argv[1], NULL, 10);
    b->lookups = strtoull(argv[2], NULL, 10);
    b->slots = (unsigned)strtoul(argv[3], NULL, 10);
    b->samples = (unsigned)strtoul(argv[4], NULL, 10);
    return b->keys > 0 && b->lookups > 0 && (b->slots == 4 || b->slots == 8);
}

int
main(int argc, char **argv)
{
    static struct bench b;

    if (!bench_args(&b, argc, argv)) {
        fprintf(stderr, "usage: cuckoo_bench KEYS LOOKUPS 4|8 SAMPLES|count\n");
        return 2;
    }
    hash_secret_fix(1);
    rcu_start();
    rcu_join();
    b.entries = aligned_alloc(CUCKOO_ALIGN, b.keys * sizeof(*b.entries));
    tassert(b.entries != NULL);
    memset(b.entries, 0, b.keys * sizeof(*b.entries));
    b.table = bench_open(cuckoo_bits_for(b.keys, b.slots), 0, b.slots);
    bench_fill(&b);
    if (b.samples > 0) {
        bench_lookups(&b);
        bench_load(&b);
        bench_grow(&b);
    } else {
        bench_count(&b);
    }
    rcu_leave();
    cuckoo_close(&b.table);
    free(b.entries);
    return 0;
}
