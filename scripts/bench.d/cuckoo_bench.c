/* cuckoo_bench.c -- what a lookup in the index costs, and how full the index gets.
 *
 *     cuckoo_bench KEYS LOOKUPS [4|8] [chained] [hit|miss]
 *
 * KEYS random keys go into a table of the automatic size; LOOKUPS of keys that are there and
 * of keys that are not are timed, in buckets of 4 or (default) 8 slots.  "chained" times the
 * same keys in the table that vlserver had before: 8,191 buckets with chains.  Then a table is
 * filled until its first victim.
 *
 * For instructions:  valgrind --tool=callgrind --toggle-collect=cuckoo_find cuckoo_bench ...
 * with "hit" or "miss", which time one kind alone, and divide by LOOKUPS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/hash.h"
#include "daemon/base/rcu.h"
#include "daemon/base/tassert.h"
#include "daemon/cache/cuckoo.h"

enum {
    CHAINS = 8191
};

struct entry {
    struct cuckoo_node node; /* first */
    struct entry *next;      /* in its chain */
};

struct bench {
    struct cuckoo *table;
    struct entry *chains[CHAINS];
    struct entry *entries;
    uint64_t keys, lookups;
    unsigned slots;
    bool chained, hit, miss;
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
bench_open(unsigned bits, unsigned slots)
{
    struct cuckoo_conf conf = {.bits = bits,
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

static double
bench_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
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

/* Nanoseconds of a lookup, with the making of the keys taken off. */
static double
bench_time(const struct bench *b, bench_find_f *find, uint64_t lookups, bool there)
{
    uint64_t seed = 1, found = 0, sum = 0;
    double start, made;

    start = bench_now();
    for (uint64_t i = 0; i < lookups; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += bench_key((seed >> 20) % b->keys + (there ? 0 : b->keys)).lo;
    }
    made = bench_now() - start;
    start = bench_now();
    for (uint64_t i = 0; i < lookups; i++) {
        struct hash128 key;

        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        key = bench_key((seed >> 20) % b->keys + (there ? 0 : b->keys));
        found += find(b, &key) != NULL;
    }
    tassert(sum != 0);
    tassert(found == (there ? lookups : 0));
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
    cuckoo_stats(b->table, &s);
    printf("keys %llu, bits %u, slots %u, bytes %llu, load %.4f, moved %llu, insert %.0f ns\n",
        (unsigned long long)s.entries, s.bits, s.slots, (unsigned long long)s.bytes, s.load,
        (unsigned long long)s.moved, (bench_now() - start) / (double)b->keys);
}

static void
bench_lookups(const struct bench *b)
{
    uint64_t few = b->lookups / 100 + 1; /* the chains are slow */
    bool both = b->hit == b->miss;

    if (both || b->hit)
        printf("cuckoo  hit %8.1f ns\n", bench_time(b, bench_find_cuckoo, b->lookups, true));
    if (both || b->miss)
        printf("cuckoo miss %8.1f ns\n", bench_time(b, bench_find_cuckoo, b->lookups, false));
    if (b->chained) {
        printf("chained  hit %7.1f ns\n", bench_time(b, bench_find_chained, few, true));
        printf("chained miss %7.1f ns\n", bench_time(b, bench_find_chained, few, false));
    }
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
    t = bench_open(bits, b->slots);
    while (n < b->keys && bench_insert(t, &b->entries[n].node))
        n++;
    cuckoo_stats(t, &s);
    printf("bits %u: first victim at load %.4f, moved %llu (%.2f a key)\n", bits, s.load,
        (unsigned long long)s.moved, (double)s.moved / (double)n);
    cuckoo_close(&t);
}

static void
bench_args(struct bench *b, int argc, char **argv)
{
    b->keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    b->lookups = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    b->slots = 8;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "4") == 0)
            b->slots = 4;
        b->chained = b->chained || strcmp(argv[i], "chained") == 0;
        b->hit = b->hit || strcmp(argv[i], "hit") == 0;
        b->miss = b->miss || strcmp(argv[i], "miss") == 0;
    }
}

int
main(int argc, char **argv)
{
    static struct bench b;

    bench_args(&b, argc, argv);
    if (b.keys == 0 || b.lookups == 0) {
        fprintf(stderr, "usage: cuckoo_bench KEYS LOOKUPS [4|8] [chained] [hit|miss]\n");
        return 2;
    }
    hash_secret_fix(1);
    rcu_join();
    b.entries = calloc(b.keys, sizeof(*b.entries));
    tassert(b.entries != NULL);
    b.table = bench_open(cuckoo_bits_for(b.keys, b.slots), b.slots);
    bench_fill(&b);
    bench_lookups(&b);
    bench_load(&b);
    rcu_leave();
    cuckoo_close(&b.table);
    free(b.entries);
    return 0;
}
