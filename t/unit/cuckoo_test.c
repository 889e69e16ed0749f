/* cuckoo_test.c -- the index's promises, one thread; cuckoo_race_test.c has the others. */
#include "daemon/cache/cuckoo.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "t/unit/test.h"

enum {
    ITEMS_MAX = 1 << 15
};

struct item {
    _Alignas(CUCKOO_ALIGN) struct cuckoo_node node;
    int useful;
    bool present;
    unsigned shown; /* by walks */
};

struct fixture {
    struct cuckoo *table;
    struct item *items;
    size_t live_bytes; /* taken from our memory and not given back */
    size_t fail_after; /* allocations that still succeed; 0: all */
};

static void *
fixture_alloc(void *ctx, size_t bytes, size_t align)
{
    struct fixture *f = ctx;
    void *p;

    if (f->fail_after != 0 && --f->fail_after == 0)
        return NULL;
    p = aligned_alloc(align, (bytes + align - 1) / align * align);
    memset(p, 0xa5, bytes); /* nobody counts on zeroes */
    f->live_bytes += bytes;
    return p;
}

static void
fixture_free(void *ctx, void *p, size_t bytes)
{
    struct fixture *f = ctx;

    f->live_bytes -= bytes;
    free(p);
}

static int
fixture_usefulness(const struct cuckoo_node *node)
{
    return ((const struct item *)(const void *)node)->useful;
}

static struct cuckoo_conf
fixture_conf(struct fixture *f, unsigned bits, unsigned slots)
{
    return (struct cuckoo_conf){.bits = bits,
        .slots = slots,
        .memory = {fixture_alloc, fixture_free, f},
        .usefulness = fixture_usefulness};
}

static void
fixture_open_growing(struct fixture *f, unsigned bits, unsigned bits_max, unsigned slots)
{
    struct cuckoo_conf conf;

    memset(f, 0, sizeof(*f));
    f->items = aligned_alloc(CUCKOO_ALIGN, ITEMS_MAX * sizeof(*f->items));
    memset(f->items, 0, ITEMS_MAX * sizeof(*f->items));
    conf = fixture_conf(f, bits, slots);
    conf.bits_max = bits_max;
    CHECK_EQ(0, cuckoo_open(&f->table, &conf));
    CHECK_EQ(cuckoo_bytes(bits, slots), f->live_bytes);
    rcu_join();
}

static void
fixture_open(struct fixture *f, unsigned bits, unsigned slots)
{
    fixture_open_growing(f, bits, 0, slots);
}

static void
fixture_close(struct fixture *f)
{
    rcu_leave();
    cuckoo_close(&f->table);
    CHECK(f->table == NULL);
    CHECK_EQ(0, f->live_bytes);
    free(f->items);
}

static struct item *
fixture_item(struct fixture *f, size_t n, uint64_t lo, uint64_t hi)
{
    struct item *item = &f->items[n];

    CHECK(n < ITEMS_MAX);
    item->node.key = (struct hash128){lo, hi};
    return item;
}

static struct item *
fixture_random_item(struct fixture *f, size_t n)
{
    struct hash128 key = hash_bytes(&n, sizeof(n));

    return fixture_item(f, n, key.lo, key.hi);
}

static int
insert(struct fixture *f, struct item *item)
{
    struct cuckoo_guard g;
    int err;

    cuckoo_lock(f->table, &item->node.key, &g);
    err = cuckoo_insert(f->table, &g, &item->node);
    cuckoo_unlock(f->table, &g);
    item->present = err == 0;
    return err;
}

/* As the cache does it.  The victim, or NULL. */
static struct item *
insert_always(struct fixture *f, struct item *item)
{
    struct cuckoo_node *victim = NULL;
    struct cuckoo_guard g;

    cuckoo_lock(f->table, &item->node.key, &g);
    while (
        cuckoo_find_locked(f->table, &g) == NULL && cuckoo_insert(f->table, &g, &item->node) < 0) {
        CHECK(victim == NULL); /* once there was room, nobody else can take it */
        victim = cuckoo_make_room(f->table, &g);
        if (victim != NULL)
            ((struct item *)(void *)victim)->present = false;
    }
    cuckoo_unlock(f->table, &g);
    item->present = true;
    return (struct item *)(void *)victim;
}

static void
take_out(struct fixture *f, struct item *item)
{
    struct cuckoo_guard g;

    cuckoo_lock(f->table, &item->node.key, &g);
    cuckoo_remove(f->table, &g, &item->node);
    cuckoo_unlock(f->table, &g);
    item->present = false;
}

static bool
is_found(const struct fixture *f, const struct item *item)
{
    return cuckoo_find(f->table, &item->node.key) == &item->node;
}

/* Every item is found if it should be, and the statistics agree. */
static void
fixture_check(const struct fixture *f, size_t items)
{
    uint64_t buckets[CUCKOO_SLOTS_MAX + 1], present = 0, counted = 0, all = 0;
    struct cuckoo_stats stats;

    for (size_t i = 0; i < items; i++) {
        CHECK_EQ(f->items[i].present, is_found(f, &f->items[i]));
        present += f->items[i].present;
    }
    cuckoo_stats(f->table, &stats);
    CHECK_EQ(present, stats.entries);
    CHECK_EQ(cuckoo_buckets(f->table), cuckoo_occupancy(f->table, SIZE_MAX, buckets));
    for (unsigned n = 0; n <= CUCKOO_SLOTS_MAX; n++) {
        counted += n * buckets[n];
        all += buckets[n];
    }
    CHECK_EQ(present, counted);
    CHECK_EQ(cuckoo_buckets(f->table), all);
    CHECK_EQ(0, stats.locked); /* nobody else was here */
    CHECK_EQ(0, stats.retried);
    CHECK_EQ(f->live_bytes, stats.bytes);
    CHECK(stats.load == (double)present / (double)stats.capacity);
}

TEST(cuckoo, what_was_put_in_is_found_until_it_is_taken_out)
{
    struct fixture f;

    hash_secret_fix(1);
    fixture_open(&f, 10, 8);
    for (size_t i = 0; i < 300; i++)
        CHECK_EQ(0, insert(&f, fixture_random_item(&f, i)));
    fixture_check(&f, 300);
    for (size_t i = 0; i < 300; i += 2)
        take_out(&f, &f.items[i]);
    fixture_check(&f, 300);
    for (size_t i = 0; i < 300; i += 2)
        CHECK_EQ(0, insert(&f, &f.items[i]));
    fixture_check(&f, 300);
    fixture_close(&f);
}

TEST(cuckoo, replacing_keeps_the_key_and_changes_the_node)
{
    struct fixture f;
    struct item *first, *second;
    struct cuckoo_guard g;

    fixture_open(&f, 6, 8);
    first = fixture_item(&f, 0, 17, 4);
    second = fixture_item(&f, 1, 17, 4);
    CHECK_EQ(0, insert(&f, first));
    cuckoo_lock(f.table, &first->node.key, &g);
    CHECK(cuckoo_find_locked(f.table, &g) == &first->node);
    cuckoo_replace(f.table, &g, &first->node, &second->node);
    CHECK(cuckoo_find_locked(f.table, &g) == &second->node);
    cuckoo_unlock(f.table, &g);
    first->present = false;
    second->present = true;
    fixture_check(&f, 2);
    fixture_close(&f);
}

TEST(cuckoo, keys_with_one_tag_and_one_pair_of_buckets_are_told_apart)
{
    struct fixture f;

    fixture_open(&f, 8, 8);
    for (uint64_t i = 0; i < 12; i++) /* they differ only in bits that choose nothing */
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 5 | i << 40, 9)));
    fixture_item(&f, 12, 5 | UINT64_C(12) << 40, 9);
    fixture_item(&f, 13, 5, 9 | UINT64_C(1) << 40);
    fixture_check(&f, 14);
    fixture_close(&f);
}

TEST(cuckoo, tag_zero_does_not_match_a_free_slot)
{
    struct fixture f;
    struct item *zero, *one;

    fixture_open(&f, 6, 8);
    zero = fixture_item(&f, 0, 0, 0);
    one = fixture_item(&f, 1, 0, UINT64_C(1) << 52); /* the tag that 0 is turned into */
    CHECK(!is_found(&f, zero) && !is_found(&f, one));
    CHECK_EQ(0, insert(&f, zero));
    CHECK(is_found(&f, zero) && !is_found(&f, one));
    CHECK_EQ(0, insert(&f, one));
    fixture_check(&f, 2);
    fixture_close(&f);
}

TEST(cuckoo, equal_bucket_numbers_on_both_sides_are_two_buckets)
{
    struct fixture f;

    fixture_open(&f, 6, 8); /* 4 buckets to a side */
    for (uint64_t i = 0; i < 16; i++)
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 3 | i << 8, 3 | i << 8)));
    CHECK_EQ(TERR_LIMIT, insert(&f, fixture_item(&f, 16, 3 | 16 << 8, 3 | 16 << 8)));
    fixture_check(&f, 17);
    fixture_close(&f);
}

TEST(cuckoo, full_buckets_get_room_by_moving_a_node)
{
    struct fixture f;
    struct cuckoo_stats stats;

    fixture_open(&f, 6, 8);
    for (uint64_t i = 0; i < 8; i++) /* fill A1; on side B they all have B2 */
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 1 | i << 8, 2)));
    for (uint64_t i = 8; i < 16; i++) /* fill B3 with what has no room in A1 */
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 1 | i << 8, 3)));
    CHECK_EQ(TERR_LIMIT, insert(&f, fixture_item(&f, 16, 1 | 16 << 8, 3)));
    CHECK(insert_always(&f, &f.items[16]) == NULL); /* one of the first goes to B2 */
    fixture_check(&f, 17);
    cuckoo_stats(f.table, &stats);
    CHECK_EQ(1, stats.moved);
    CHECK_EQ(1, stats.paths);
    CHECK_EQ(1, stats.path_max);
    CHECK_EQ(0, stats.evicted);
    fixture_close(&f);
}

TEST(cuckoo, without_a_path_the_least_useful_of_both_buckets_leaves)
{
    struct fixture f;
    struct cuckoo_stats stats;

    fixture_open(&f, 6, 8);
    for (uint64_t i = 0; i < 16; i++) { /* 16 nodes that have nowhere else to go */
        fixture_item(&f, i, 1 | i << 8, 2)->useful = i == 11 ? 3 : 4;
        CHECK_EQ(0, insert(&f, &f.items[i]));
    }
    CHECK(insert_always(&f, fixture_item(&f, 16, 1 | 16 << 8, 2)) == &f.items[11]);
    CHECK(insert_always(&f, fixture_item(&f, 17, 1 | 17 << 8, 2)) == &f.items[16]);
    fixture_check(&f, 18);
    cuckoo_stats(f.table, &stats);
    CHECK_EQ(2, stats.evicted);
    CHECK_EQ(16, stats.entries);
    fixture_close(&f);
}

/* Random keys until the first victim; the load they reached, in percent. */
static double
load_before_victim(unsigned bits, unsigned slots)
{
    struct fixture f;
    struct cuckoo_stats stats;
    struct item *victim = NULL;
    size_t n = 0;

    fixture_open(&f, bits, slots);
    while (victim == NULL) {
        victim = insert_always(&f, fixture_random_item(&f, n));
        n++;
    }
    fixture_check(&f, n);
    cuckoo_stats(f.table, &stats);
    CHECK_EQ(1, stats.evicted);
    CHECK(stats.load == (double)(n - 1) / (double)stats.capacity);
    fixture_close(&f);
    return stats.load * 100;
}

TEST(cuckoo, random_keys_fill_eight_slots_to_95_percent_before_the_first_victim)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        hash_secret_fix(seed);
        CHECK(load_before_victim(14, 8) >= 95.0);
    }
}

TEST(cuckoo, random_keys_fill_four_slots_to_90_percent_before_the_first_victim)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        hash_secret_fix(seed);
        CHECK(load_before_victim(14, 4) >= 90.0);
    }
}

TEST(cuckoo, a_table_that_is_far_too_small_stays_consistent)
{
    struct fixture f;
    struct cuckoo_stats stats;

    hash_secret_fix(1);
    fixture_open(&f, 8, 4);
    for (size_t i = 0; i < 4000; i++) {
        fixture_random_item(&f, i)->useful = (int)(i % 7);
        insert_always(&f, &f.items[i]);
        CHECK(is_found(&f, &f.items[i]));
    }
    fixture_check(&f, 4000);
    cuckoo_stats(f.table, &stats);
    CHECK_EQ(4000 - stats.entries, stats.evicted);
    CHECK(stats.load > 0.9);
    fixture_close(&f);
}

struct walk {
    struct fixture *f;
    size_t seen;
    bool remove;
};

static void
walk_on_node(void *ctx, struct cuckoo_guard *g, const struct cuckoo_seen *seen)
{
    struct walk *w = ctx;
    struct item *item = (struct item *)(void *)seen->node;

    w->seen++;
    item->shown++;
    CHECK(item->present);
    CHECK(seen->side < 2 && seen->bucket < cuckoo_buckets(w->f->table));
    CHECK(seen->slot < CUCKOO_SLOTS_MAX);
    CHECK_EQ(item->node.key.hi >> 52, seen->tag);
    if (w->remove) {
        cuckoo_remove(w->f->table, g, seen->node);
        item->present = false;
    }
}

TEST(cuckoo, a_walk_sees_every_node_once_and_may_empty_the_table)
{
    struct fixture f;
    struct walk w = {.f = &f};
    uint64_t cursor = 0, slices = 0;

    fixture_open(&f, 10, 8);
    hash_secret_fix(3);
    for (size_t i = 0; i < 900; i++)
        CHECK(insert_always(&f, fixture_random_item(&f, i)) == NULL);
    CHECK(cuckoo_each(f.table, walk_on_node, &w));
    CHECK_EQ(900, w.seen);
    do {
        cuckoo_each_next(f.table, &cursor, walk_on_node, &w);
        slices++;
    } while (cursor != 0);
    CHECK_EQ(1800, w.seen);
    CHECK_EQ(cuckoo_buckets(f.table), slices);
    w.remove = true;
    CHECK(cuckoo_each(f.table, walk_on_node, &w));
    CHECK_EQ(2700, w.seen);
    fixture_check(&f, 900);
    fixture_close(&f);
}

TEST(cuckoo, automatic_size_leaves_little_moving)
{
    CHECK_EQ(CUCKOO_BITS_MIN, cuckoo_bits_for(0, 8));
    CHECK_EQ(10, cuckoo_bits_for(921, 8)); /* 90 % of 1,024 */
    CHECK_EQ(11, cuckoo_bits_for(922, 8));
    CHECK_EQ(11, cuckoo_bits_for(900, 4)); /* 85 % */
    CHECK_EQ(22, cuckoo_bits_for(2000000, 8));
    CHECK_EQ(CUCKOO_BITS_MAX, cuckoo_bits_for(UINT64_MAX, 8));
}

TEST(cuckoo, opening_fails_cleanly_without_memory_or_sense)
{
    struct fixture f = {.fail_after = 1};
    struct cuckoo_conf conf = fixture_conf(&f, 10, 8);
    struct cuckoo *table = NULL;
    size_t tries = 1;

    while (cuckoo_open(&table, &conf) == TERR_NOMEM) {
        CHECK(table == NULL);
        CHECK_EQ(0, f.live_bytes);
        tries++;
        f.fail_after = tries;
    }
    CHECK(tries > 5);
    CHECK(table != NULL);
    cuckoo_close(&table);
    CHECK_EQ(0, f.live_bytes);

    conf.slots = 6;
    CHECK_EQ(TERR_CONFIG, cuckoo_open(&table, &conf));
    conf = fixture_conf(&f, CUCKOO_BITS_MAX + 1, 8);
    CHECK_EQ(TERR_CONFIG, cuckoo_open(&table, &conf));
    conf = fixture_conf(&f, CUCKOO_BITS_MIN - 1, 8);
    CHECK_EQ(TERR_CONFIG, cuckoo_open(&table, &conf));
}

TEST(cuckoo, large_tables_are_aligned_to_huge_pages)
{
    struct fixture f;

    fixture_open(&f, 19, 8); /* 2 MiB to a side; cuckoo_open() asserts the alignment */
    CHECK_EQ(0, insert(&f, fixture_random_item(&f, 0)));
    fixture_check(&f, 1);
    fixture_close(&f);
}

/* ---- doubling ---- */

/* As the cache does it. */
static void
grow_by_inserting(struct fixture *f, size_t first, size_t n, unsigned buckets)
{
    for (size_t i = first; i < first + n; i++) {
        CHECK(insert_always(f, fixture_random_item(f, i)) == NULL);
        cuckoo_tend(f->table, buckets, SIZE_MAX);
    }
}

static void
wait_for_grace(void)
{
    rcu_leave();
    rcu_barrier_wait();
    rcu_join();
}

/* Stripes stay as many as they were. */
static size_t
stripes_more(unsigned from, unsigned to, unsigned slots)
{
    size_t slots_more = ((size_t)1 << to) - ((size_t)1 << from);

    return cuckoo_bytes(to, slots) - cuckoo_bytes(from, slots) - slots_more * 8;
}

static void
grows_to_hold(unsigned slots)
{
    struct fixture f;
    struct cuckoo_stats s;

    hash_secret_fix(slots);
    fixture_open_growing(&f, 6, 20, slots);
    for (size_t n = 0; n < 30000; n += 3000) {
        grow_by_inserting(&f, n, 3000, 2);
        fixture_check(&f, n + 3000);
    }
    while (cuckoo_wants_tending(f.table))
        cuckoo_tend(f.table, 1000, SIZE_MAX);
    cuckoo_stats(f.table, &s);
    CHECK_EQ(30000, s.entries);
    CHECK_EQ(0, s.evicted);
    CHECK_EQ(0, s.refused);
    CHECK_EQ(16, s.bits); /* 32,768 slots are more than 90 % full */
    CHECK_EQ(10, s.doubled);
    CHECK_EQ(20, s.bits_max);
    wait_for_grace();
    CHECK_EQ(
        cuckoo_bytes(16, slots) - stripes_more(6, 16, slots), f.live_bytes); /* old ones went */
    fixture_check(&f, 30000);
    fixture_close(&f);
}

TEST(cuckoo, a_table_doubles_until_it_holds_what_comes_eight_slots)
{
    grows_to_hold(8);
}

TEST(cuckoo, a_table_doubles_until_it_holds_what_comes_four_slots)
{
    grows_to_hold(4);
}

/* One bucket after the other; at each step everything is as it was. */
TEST(cuckoo, every_step_of_doubling_leaves_everything_in_its_place)
{
    struct fixture f;
    struct cuckoo_stats s;
    uint64_t splits = 0;
    size_t n = 0;

    hash_secret_fix(5);
    fixture_open_growing(&f, 8, 9, 8); /* 16 buckets to a side */
    for (; !cuckoo_wants_tending(f.table); n++)
        CHECK(insert_always(&f, fixture_random_item(&f, n)) == NULL);
    CHECK_EQ(231, n);                  /* 90 % of 256, and one */
    cuckoo_tend(f.table, 0, SIZE_MAX); /* begins, and that is all */
    for (;;) {
        cuckoo_stats(f.table, &s);
        if (s.splitting == 0)
            break;
        CHECK_EQ(32, s.splitting);
        CHECK_EQ(splits, s.split);
        CHECK_EQ(256 + 8 * splits, s.capacity);
        CHECK_EQ(32 + splits, cuckoo_buckets(f.table));
        CHECK(s.bytes > 3 * 256 * 8); /* old and new */
        fixture_check(&f, n);
        take_out(&f, &f.items[splits]); /* changes go on */
        CHECK(insert_always(&f, fixture_random_item(&f, n)) == NULL);
        n++;
        cuckoo_tend(f.table, 1, SIZE_MAX);
        splits++;
    }
    CHECK_EQ(32, splits);
    CHECK_EQ(9, s.bits);
    CHECK_EQ(1, s.doubled);
    CHECK(!cuckoo_wants_tending(f.table)); /* it may not grow any further */
    fixture_check(&f, n);
    fixture_close(&f);
}

TEST(cuckoo, a_table_of_fixed_size_never_doubles)
{
    struct fixture f;
    struct cuckoo_stats s;

    hash_secret_fix(1);
    fixture_open(&f, 8, 8);
    for (size_t i = 0; i < 1000; i++) {
        insert_always(&f, fixture_random_item(&f, i));
        CHECK(!cuckoo_wants_tending(f.table));
        cuckoo_tend(f.table, 100, SIZE_MAX);
    }
    cuckoo_stats(f.table, &s);
    CHECK_EQ(8, s.bits);
    CHECK_EQ(1000 - s.entries, s.evicted);
    fixture_check(&f, 1000);
    fixture_close(&f);
}

TEST(cuckoo, without_memory_it_goes_on_as_it_is_and_asks_again_later)
{
    struct fixture f;
    struct cuckoo_stats s;
    size_t n = 0;

    hash_secret_fix(1);
    for (size_t fail = 1; fail <= 3; fail++) { /* the shape itself, side A, side B */
        fixture_open_growing(&f, 8, 12, 8);
        for (n = 0; !cuckoo_wants_tending(f.table); n++)
            CHECK(insert_always(&f, fixture_random_item(&f, n)) == NULL);
        f.fail_after = fail;
        cuckoo_tend(f.table, 100, SIZE_MAX);
        cuckoo_stats(f.table, &s);
        CHECK_EQ(1, s.refused);
        CHECK_EQ(0, s.splitting);
        CHECK_EQ(cuckoo_bytes(8, 8), s.bytes);
        f.fail_after = 0;
        for (unsigned more = 0; more < 4; more++, n++) { /* a 64th of 256 slots */
            CHECK(!cuckoo_wants_tending(f.table));
            CHECK(insert_always(&f, fixture_random_item(&f, n)) == NULL);
        }
        CHECK(insert_always(&f, fixture_random_item(&f, n++)) == NULL);
        CHECK(cuckoo_wants_tending(f.table));
        cuckoo_tend(f.table, 100, SIZE_MAX);
        cuckoo_stats(f.table, &s);
        CHECK_EQ(9, s.bits);
        fixture_check(&f, n);
        fixture_close(&f);
    }
}

TEST(cuckoo, who_may_not_take_so_much_leaves_it_to_others)
{
    struct fixture f;
    struct cuckoo_stats s;
    size_t n = 0;

    hash_secret_fix(1);
    fixture_open_growing(&f, 8, 12, 8);
    for (; !cuckoo_wants_tending(f.table); n++) {
        CHECK_EQ(
            n > 202, cuckoo_outgrows(f.table, 512 * 8)); /* 230 is 90 %; told an eighth before */
        CHECK(!cuckoo_outgrows(f.table, 2 * 512 * 8));
        CHECK(insert_always(&f, fixture_random_item(&f, n)) == NULL);
    }
    CHECK_EQ(231, n);
    cuckoo_tend(f.table, 100, 512 * 8);
    CHECK(cuckoo_wants_tending(f.table));
    cuckoo_tend(f.table, 1, SIZE_MAX);
    cuckoo_tend(f.table, 1, 0); /* to go on is for all */
    cuckoo_stats(f.table, &s);
    CHECK_EQ(2, s.split);
    CHECK_EQ(0, s.refused);
    fixture_check(&f, n);
    fixture_close(&f); /* in the middle of it */
}

/* However far the table doubles between two slices, a walk shows each node once. */
TEST(cuckoo, a_walk_in_slices_is_whole_while_the_table_doubles)
{
    struct fixture f;
    struct walk w = {.f = &f};
    struct cuckoo_stats s;
    uint64_t cursor = 0, moves;
    size_t n = 930; /* more than 90 % of 1,024 */

    hash_secret_fix(2);
    fixture_open_growing(&f, 10, 16, 8);
    grow_by_inserting(&f, 0, n, 0);
    moves = cuckoo_moves(f.table);
    do {
        cuckoo_each_next(f.table, &cursor, walk_on_node, &w);
        cuckoo_tend(f.table, 3, SIZE_MAX);
    } while (cursor != 0);
    cuckoo_stats(f.table, &s);
    CHECK_EQ(1, s.doubled);
    CHECK_EQ(moves, cuckoo_moves(f.table)); /* splits are no moves */
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(1, f.items[i].shown);
    fixture_check(&f, n);
    fixture_close(&f);
}

TEST(cuckoo, a_walk_without_locks_is_whole_while_the_table_doubles)
{
    struct cuckoo_node *nodes[CUCKOO_SLOTS_MAX];
    struct fixture f;
    struct cuckoo_stats s;
    uint64_t cursor = 0;
    size_t n = 930;

    hash_secret_fix(2);
    fixture_open_growing(&f, 10, 16, 8);
    grow_by_inserting(&f, 0, n, 0);
    do {
        unsigned seen = cuckoo_peek_next(f.table, &cursor, 0, nodes);

        for (unsigned i = 0; i < seen; i++)
            container_of(nodes[i], struct item, node)->shown++;
        cuckoo_tend(f.table, 3, SIZE_MAX);
    } while (cursor != 0);
    cuckoo_stats(f.table, &s);
    CHECK_EQ(1, s.doubled);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(1, f.items[i].shown);
    fixture_check(&f, n);
    fixture_close(&f);
}

/* Which items a walk for `marks` comes by: bit n, of the first 32. */
static uint32_t
marked(const struct fixture *f, unsigned marks)
{
    struct cuckoo_node *nodes[CUCKOO_SLOTS_MAX];
    uint64_t cursor = 0;
    uint32_t seen = 0;

    do {
        unsigned n = cuckoo_peek_next(f->table, &cursor, marks, nodes);

        for (unsigned i = 0; i < n; i++) {
            size_t which = (size_t)(container_of(nodes[i], struct item, node) - f->items);

            seen |= which < 32 ? UINT32_C(1) << which : 0;
        }
    } while (cursor != 0);
    return seen;
}

static void
mark(struct fixture *f, const struct item *item, unsigned marks)
{
    struct cuckoo_guard g;

    cuckoo_lock(f->table, &item->node.key, &g);
    cuckoo_mark(f->table, &g, marks);
    cuckoo_unlock(f->table, &g);
}

TEST(cuckoo, walks_pass_by_what_has_none_of_the_marks)
{
    struct fixture f;
    struct cuckoo_guard g;

    hash_secret_fix(3);
    fixture_open(&f, 10, 8);
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(0, insert(&f, fixture_random_item(&f, i)));
    for (unsigned i = 0; i < CUCKOO_MARKS; i++)
        mark(&f, &f.items[i], 1u << i);
    for (unsigned i = 0; i < CUCKOO_MARKS; i++)
        CHECK_EQ(1u << i, marked(&f, 1u << i));
    CHECK_EQ((1u << CUCKOO_MARKS) - 1, marked(&f, (1u << CUCKOO_MARKS) - 1));
    CHECK_EQ((1u << 20) - 1, marked(&f, 0));
    mark(&f, &f.items[0], 1u << 10);
    CHECK_EQ(1u << 0 | 1u << 10, marked(&f, 1u << 10));
    CHECK_EQ(1u << 0, marked(&f, 1u << 0));
    fixture_check(&f, 20); /* lookups do not see them */

    f.items[20].node.key = f.items[0].node.key;
    cuckoo_lock(f.table, &f.items[0].node.key, &g);
    cuckoo_replace(f.table, &g, &f.items[0].node, &f.items[20].node);
    cuckoo_unlock(f.table, &g);
    f.items[0].present = false;
    f.items[20].present = true;
    CHECK_EQ(1u << 20 | 1u << 10, marked(&f, 1u << 10)); /* its successor has them */
    fixture_check(&f, 21);
    take_out(&f, &f.items[20]);
    CHECK_EQ(0, insert(&f, &f.items[20]));
    CHECK_EQ(1u << 10, marked(&f, 1u << 10)); /* who comes anew has none */
    for (size_t i = 1; i < 21; i++)
        take_out(&f, &f.items[i]);
    CHECK_EQ(0, marked(&f, 0));
    fixture_check(&f, 21);
    fixture_close(&f);
}

TEST(cuckoo, marks_go_where_their_node_goes)
{
    struct fixture f;
    struct cuckoo_stats s;
    size_t n = 930;

    hash_secret_fix(2);
    fixture_open_growing(&f, 10, 12, 8);
    grow_by_inserting(&f, 0, n, 0);
    for (unsigned i = 0; i < 32; i++)
        mark(&f, &f.items[i], 1u << i % CUCKOO_MARKS);
    for (unsigned bits = 0; bits < 2; bits++) {
        for (unsigned k = 0; k < CUCKOO_MARKS; k++) {
            uint32_t want = 0;

            for (unsigned i = k; i < 32; i += CUCKOO_MARKS)
                want |= UINT32_C(1) << i;
            CHECK_EQ(want, marked(&f, 1u << k));
        }
        while (cuckoo_wants_tending(f.table)) /* all are split */
            cuckoo_tend(f.table, 100, SIZE_MAX);
    }
    cuckoo_stats(f.table, &s);
    CHECK_EQ(1, s.doubled);
    fixture_check(&f, n);
    fixture_close(&f);

    fixture_open(&f, 6, 8); /* as full_buckets_get_room_by_moving_a_node */
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 1 | i << 8, 2)));
    for (uint64_t i = 8; i < 16; i++)
        CHECK_EQ(0, insert(&f, fixture_item(&f, i, 1 | i << 8, 3)));
    for (unsigned i = 0; i < 16; i++)
        mark(&f, &f.items[i], 1u << (i < 8 ? 3 : 9));
    CHECK(insert_always(&f, fixture_item(&f, 16, 1 | 16 << 8, 3)) == NULL);
    cuckoo_stats(f.table, &s);
    CHECK_EQ(1, s.moved);
    CHECK_EQ(0xff, marked(&f, 1u << 3));
    CHECK_EQ(0xff00, marked(&f, 1u << 9));
    fixture_check(&f, 17);
    fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(cuckoo, what_was_put_in_is_found_until_it_is_taken_out),
    TEST_ENTRY(cuckoo, replacing_keeps_the_key_and_changes_the_node),
    TEST_ENTRY(cuckoo, keys_with_one_tag_and_one_pair_of_buckets_are_told_apart),
    TEST_ENTRY(cuckoo, tag_zero_does_not_match_a_free_slot),
    TEST_ENTRY(cuckoo, equal_bucket_numbers_on_both_sides_are_two_buckets),
    TEST_ENTRY(cuckoo, full_buckets_get_room_by_moving_a_node),
    TEST_ENTRY(cuckoo, without_a_path_the_least_useful_of_both_buckets_leaves),
    TEST_ENTRY(cuckoo, random_keys_fill_eight_slots_to_95_percent_before_the_first_victim),
    TEST_ENTRY(cuckoo, random_keys_fill_four_slots_to_90_percent_before_the_first_victim),
    TEST_ENTRY(cuckoo, a_table_that_is_far_too_small_stays_consistent),
    TEST_ENTRY(cuckoo, a_walk_sees_every_node_once_and_may_empty_the_table),
    TEST_ENTRY(cuckoo, automatic_size_leaves_little_moving),
    TEST_ENTRY(cuckoo, opening_fails_cleanly_without_memory_or_sense),
    TEST_ENTRY(cuckoo, large_tables_are_aligned_to_huge_pages),
    TEST_ENTRY(cuckoo, a_table_doubles_until_it_holds_what_comes_eight_slots),
    TEST_ENTRY(cuckoo, a_table_doubles_until_it_holds_what_comes_four_slots),
    TEST_ENTRY(cuckoo, every_step_of_doubling_leaves_everything_in_its_place),
    TEST_ENTRY(cuckoo, a_table_of_fixed_size_never_doubles),
    TEST_ENTRY(cuckoo, without_memory_it_goes_on_as_it_is_and_asks_again_later),
    TEST_ENTRY(cuckoo, who_may_not_take_so_much_leaves_it_to_others),
    TEST_ENTRY(cuckoo, a_walk_in_slices_is_whole_while_the_table_doubles),
    TEST_ENTRY(cuckoo, a_walk_without_locks_is_whole_while_the_table_doubles),
    TEST_ENTRY(cuckoo, walks_pass_by_what_has_none_of_the_marks),
    TEST_ENTRY(cuckoo, marks_go_where_their_node_goes))
