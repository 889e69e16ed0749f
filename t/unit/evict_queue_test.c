/* evict_queue_test.c -- who leaves: what each policy promises, and that the sums are right. */
#include "daemon/cache/evict_queue.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "t/unit/test.h"

enum {
    NODES = 20000,
    BATCH = 64
};

struct fixture {
    struct evict_queue q;
    struct evict_node *nodes;
    struct evict_ghost *ghosts;
    uint32_t now; /* a tick for each add and each use */
};

static uint32_t
hash_of(uint32_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)((x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

static void
fixture_open(struct fixture *f, enum evict_policy policy)
{
    memset(f, 0, sizeof(*f));
    f->nodes = calloc(NODES, sizeof(*f->nodes));
    f->ghosts = calloc(NODES, sizeof(*f->ghosts));
    for (uint32_t i = 0; i < NODES; i++) {
        evict_node_init(&f->nodes[i]);
        f->nodes[i].hash = hash_of(i);
    }
    evict_queue_init(&f->q, policy, NODES, f->ghosts, NODES);
}

static void
fixture_close(struct fixture *f)
{
    free(f->nodes);
    free(f->ghosts);
}

static void
add(struct fixture *f, uint32_t i, uint32_t size)
{
    f->nodes[i].size = size;
    evict_queue_add(&f->q, &f->nodes[i], ++f->now);
}

static void
use(struct fixture *f, uint32_t i, unsigned times)
{
    while (times-- > 0)
        evict_node_use(&f->nodes[i], ++f->now);
}

static bool
is_in(const struct fixture *f, uint32_t i)
{
    return f->nodes[i].where == EVICT_IN_SMALL || f->nodes[i].where == EVICT_IN_MAIN;
}

/* Picks one that has to leave for a byte; it may be added again then.  NODES: nobody. */
static uint32_t
pick_one(struct fixture *f)
{
    struct evict_node *v;

    if (evict_queue_pick(&f->q, 1, &v, 1) == 0)
        return NODES;
    v->where = EVICT_OUT;
    v->comes = EVICT_COMES_NEW;
    atomic_store(&v->uses, 0);
    return (uint32_t)(v - f->nodes);
}

/* A cache of `room` nodes of size 1: is `i` there?  If not, it comes. */
static bool
request(struct fixture *f, uint32_t i, uint64_t room)
{
    if (is_in(f, i)) {
        use(f, i, 1);
        return true;
    }
    while (f->q.small_size + f->q.main_size >= room)
        pick_one(f);
    add(f, i, 1);
    return false;
}

/* By the lists themselves. */
static void
check_sums(const struct fixture *f)
{
    uint64_t small = 0, all = 0;

    for (unsigned i = 0; i < EVICT_GENERATIONS; i++)
        for (const struct list *l = f->q.lists[i].next; l != &f->q.lists[i]; l = l->next) {
            const struct evict_node *n =
                (const void *)((const char *)l - offsetof(struct evict_node, link));

            CHECK(n->where == EVICT_IN_SMALL || n->where == EVICT_IN_MAIN);
            CHECK_EQ(f->q.policy == EVICT_S3_FIFO && i == 0, n->where == EVICT_IN_SMALL);
            all += n->size;
            if (n->where == EVICT_IN_SMALL)
                small += n->size;
        }
    CHECK_EQ(small, f->q.small_size);
    CHECK_EQ(all - small, f->q.main_size);
}

static const enum evict_policy policies[] = {EVICT_S3_FIFO, EVICT_LRU, EVICT_SIEVE};
#define EACH_POLICY(p) \
    for (const enum evict_policy *p = policies; p < policies + sizeof(policies) / sizeof(*p); p++)

TEST(evict, policies_have_names)
{
    enum evict_policy p;

    CHECK(evict_policy_of("s3-fifo", &p) && p == EVICT_S3_FIFO);
    CHECK(evict_policy_of("lru", &p) && p == EVICT_LRU);
    CHECK(evict_policy_of("sieve", &p) && p == EVICT_SIEVE);
    CHECK(!evict_policy_of("fifo", &p) && !evict_policy_of("", &p));
}

TEST(evict, nothing_leaves_an_empty_queue)
{
    EACH_POLICY(p)
    {
        struct fixture f;

        fixture_open(&f, *p);
        CHECK_EQ(NODES, pick_one(&f));
        add(&f, 0, 7);
        CHECK_EQ(0, pick_one(&f));
        CHECK_EQ(NODES, pick_one(&f));
        add(&f, 1, 7);
        evict_queue_remove(&f.q, &f.nodes[1]);
        evict_queue_remove(&f.q, &f.nodes[1]);
        CHECK_EQ(EVICT_OUT, f.nodes[1].where);
        CHECK_EQ(NODES, pick_one(&f));
        CHECK_EQ(0, f.q.small_size + f.q.main_size);
        fixture_close(&f);
    }
}

TEST(evict, uses_are_counted_to_three_and_the_last_one_is_stamped)
{
    struct evict_node n;

    evict_node_init(&n);
    for (unsigned i = 1; i <= 5; i++) {
        evict_node_use(&n, 10 + i);
        CHECK_EQ(i < EVICT_USES_MAX ? i : EVICT_USES_MAX, evict_node_uses(&n));
        CHECK_EQ(10 + i, atomic_load(&n.stamp));
    }
}

/* 100 nodes that are used all the time, and 10,000 that come once. */
TEST(evict, a_scan_does_not_push_out_what_is_used)
{
    static const enum evict_policy resists[] = {EVICT_S3_FIFO, EVICT_SIEVE};

    for (unsigned k = 0; k < 2; k++) {
        struct fixture f;
        unsigned stayed = 0;

        fixture_open(&f, resists[k]);
        for (unsigned round = 0; round < 20; round++)
            for (uint32_t i = 0; i < 100; i++)
                request(&f, i, 200);
        for (uint32_t i = 0; i < 10000; i++) {
            request(&f, 1000 + i, 200);
            if (i % 5 == 0) /* each is used again after 500 others have come */
                request(&f, i / 5 % 100, 200);
        }
        for (uint32_t i = 0; i < 100; i++)
            stayed += is_in(&f, i);
        CHECK(stayed >= 95);
        check_sums(&f);
        fixture_close(&f);
    }
}

TEST(evict, one_hit_wonders_leave_through_small)
{
    struct fixture f;
    struct evict_node *v;

    fixture_open(&f, EVICT_S3_FIFO);
    CHECK_EQ(0, evict_queue_pick(&f.q, 1, &v, 1)); /* it fills no more */
    for (uint32_t i = 0; i < 10; i++)
        add(&f, i, 1);
    use(&f, 1, 1); /* once more is not enough */
    use(&f, 3, 2);
    for (uint32_t i = 0; i < 9; i++) {
        CHECK_EQ(1, evict_queue_pick(&f.q, 1, &v, 1));
        CHECK_EQ(
            i < 3 ? i : i + 1, v - f.nodes); /* as they came, but the one that was used twice */
        CHECK_EQ(EVICT_LEFT_SMALL, v->where);
    }
    CHECK_EQ(EVICT_IN_MAIN, f.nodes[3].where);
    CHECK_EQ(0, evict_node_uses(&f.nodes[3]));
    CHECK_EQ(1, evict_queue_pick(&f.q, 1, &v, 1));
    CHECK_EQ(EVICT_LEFT_MAIN, v->where);
    fixture_close(&f);
}

TEST(evict, in_main_each_use_is_worth_another_round)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    for (uint32_t i = 0; i < 4; i++) {
        f.nodes[i].comes = EVICT_COMES_IN_PLACE;
        add(&f, i, 1);
        use(&f, i, 3 - i);
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(3 - i, pick_one(&f));
    fixture_close(&f);
}

TEST(evict, a_ghost_that_comes_back_goes_into_main_once)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    pick_one(&f);
    for (uint32_t i = 0; i < 100; i++)
        add(&f, i, 1);
    CHECK_EQ(0, pick_one(&f));
    add(&f, 0, 1);
    CHECK_EQ(EVICT_IN_MAIN, f.nodes[0].where);
    CHECK_EQ(1, f.q.ghost_hits);
    evict_queue_remove(&f.q, &f.nodes[0]);
    add(&f, 0, 1);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[0].where);
    evict_queue_remove(&f.q, &f.nodes[0]); /* who is purged is no ghost */
    add(&f, 0, 1);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[0].where);
    CHECK_EQ(1, f.q.ghost_hits);
    fixture_close(&f);
}

TEST(evict, a_ghost_is_forgotten_when_nine_tenths_of_the_bytes_have_followed_it)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    pick_one(&f);
    for (uint32_t i = 0; i < 300; i++)
        request(&f, i, 100);
    CHECK(is_in(&f, 200) && !is_in(&f, 199)); /* 199 left last */
    request(&f, 199 - 100, 100);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[99].where);
    request(&f, 199 - 80, 100);
    CHECK_EQ(EVICT_IN_MAIN, f.nodes[119].where);
    fixture_close(&f);
}

TEST(evict, a_copy_leaves_no_ghost_and_finds_none_and_stays_by_its_uses)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    pick_one(&f);
    for (uint32_t i = 0; i < 100; i++) {
        f.nodes[i].comes = EVICT_COMES_AS_COPY;
        add(&f, i, 1);
    }
    CHECK_EQ(0, pick_one(&f));
    f.nodes[0].comes = EVICT_COMES_NEW; /* it is this node's own now, and no ghost was left */
    add(&f, 0, 1);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[0].where);
    CHECK_EQ(0, f.q.ghost_hits);
    for (unsigned i = 0; i < 2; i++)
        evict_node_use(&f.nodes[1], 0);
    CHECK_EQ(2, pick_one(&f));
    CHECK_EQ(EVICT_IN_MAIN, f.nodes[1].where);
    fixture_close(&f);
}

TEST(evict, without_ghosts_everybody_begins_in_small)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    evict_queue_init(&f.q, EVICT_S3_FIFO, 100, NULL, 0);
    pick_one(&f);
    add(&f, 0, 1);
    CHECK_EQ(0, pick_one(&f));
    add(&f, 0, 1);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[0].where);
    fixture_close(&f);
}

TEST(evict, a_ghost_of_many_bytes_keeps_its_stamp_within_32_bits)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    evict_queue_init(&f.q, EVICT_S3_FIFO, UINT64_C(1) << 40, f.ghosts, NODES); /* 1 PiB of KiB */
    pick_one(&f);
    for (uint32_t i = 0; i < 400; i++)
        add(&f, i, UINT32_MAX);
    for (uint32_t i = 0; i < 300; i++) {
        CHECK_EQ(i, pick_one(&f));
        add(&f, i, UINT32_MAX);
        CHECK_EQ(EVICT_IN_MAIN, f.nodes[i].where);
    }
    check_sums(&f);
    fixture_close(&f);
}

TEST(evict, until_somebody_has_to_leave_main_takes_what_small_has_no_room_for)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    for (uint32_t i = 0; i < 1000; i++)
        add(&f, i, 1);
    CHECK(f.q.small_size >= 90 && f.q.small_size <= 110);
    pick_one(&f);
    add(&f, 1000, 1);
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[1000].where);
    check_sums(&f);
    fixture_close(&f);
}

TEST(evict, who_replaces_one_in_main_goes_there_with_its_uses)
{
    struct fixture f;

    fixture_open(&f, EVICT_S3_FIFO);
    pick_one(&f);
    f.nodes[0].comes = EVICT_COMES_IN_PLACE;
    add(&f, 0, 1);
    use(&f, 0, 2);
    add(&f, 1, 1);
    evict_queue_inherit(&f.q, &f.nodes[2], &f.nodes[0]);
    evict_queue_inherit(&f.q, &f.nodes[3], &f.nodes[1]);
    evict_queue_remove(&f.q, &f.nodes[0]);
    add(&f, 2, 1);
    add(&f, 3, 1);
    CHECK_EQ(EVICT_IN_MAIN, f.nodes[2].where);
    CHECK_EQ(2, evict_node_uses(&f.nodes[2]));
    CHECK_EQ(EVICT_IN_SMALL, f.nodes[3].where);
    fixture_close(&f);
}

TEST(evict, with_lru_the_one_that_was_used_longest_ago_leaves)
{
    struct fixture f;

    fixture_open(&f, EVICT_LRU);
    for (uint32_t i = 0; i < 1000; i++)
        add(&f, i, 1);
    for (uint32_t i = 0; i < 500; i++)
        use(&f, i, 1);
    for (uint32_t i = 500; i < 1000; i++)
        CHECK_EQ(i, pick_one(&f));
    for (uint32_t i = 1000; i < 2000; i++) /* what comes opens generations, among which uses lie */
        add(&f, i, 1);
    for (uint32_t i = 0; i < 500; i++)
        CHECK(pick_one(&f) < 500);
    CHECK(pick_one(&f) >= 1000);
    check_sums(&f);
    fixture_close(&f);
}

/* 3,000 nodes, each used once, 1,000 steps after it came: they leave in the order of their uses,
 * all of which were seen only when room was made. */
TEST(evict, the_order_of_lru_is_as_fine_as_its_generations)
{
    struct fixture f;

    fixture_open(&f, EVICT_LRU);
    for (uint32_t i = 0; i < 12000; i++) {
        int64_t left;

        add(&f, i, 1);
        if (i >= 1000)
            use(&f, i - 1000, 1);
        if (i < 3000)
            continue;
        left = (int64_t)pick_one(&f) - ((int64_t)i - 3000);
        CHECK(left > -3000 / 16 && left < 3000 / 16);
    }
    fixture_close(&f);
}

TEST(evict, with_sieve_the_hand_spares_each_used_one_once)
{
    struct fixture f;

    fixture_open(&f, EVICT_SIEVE);
    for (uint32_t i = 0; i < 6; i++)
        add(&f, i, 1);
    use(&f, 0, 3);
    use(&f, 2, 1);
    CHECK_EQ(1, pick_one(&f));
    CHECK_EQ(3, pick_one(&f));
    add(&f, 6, 1); /* behind the hand, as the newest */
    CHECK_EQ(4, pick_one(&f));
    CHECK_EQ(5, pick_one(&f));
    use(&f, 6, 1);
    CHECK_EQ(0, pick_one(&f)); /* it has gone round */
    CHECK_EQ(2, pick_one(&f));
    CHECK_EQ(6, pick_one(&f));
    fixture_close(&f);
}

TEST(evict, the_hand_survives_that_its_node_is_removed)
{
    struct fixture f;

    fixture_open(&f, EVICT_SIEVE);
    for (uint32_t i = 0; i < 4; i++)
        add(&f, i, 1);
    CHECK_EQ(0, pick_one(&f)); /* the hand is at 1 */
    evict_queue_remove(&f.q, &f.nodes[1]);
    CHECK_EQ(2, pick_one(&f));
    evict_queue_remove(&f.q, &f.nodes[3]);
    CHECK_EQ(NODES, pick_one(&f));
    add(&f, 5, 1);
    CHECK_EQ(5, pick_one(&f));
    fixture_close(&f);
}

TEST(evict, no_more_leave_than_have_to)
{
    EACH_POLICY(p)
    {
        struct evict_node *v[BATCH];
        struct fixture f;

        fixture_open(&f, *p);
        for (uint32_t i = 0; i < 1000; i++)
            add(&f, i, i % 10 == 0 ? 5000 : 10);
        for (unsigned round = 0; round < 100; round++) {
            uint64_t had = f.q.small_size + f.q.main_size, last, gone;
            unsigned n = evict_queue_pick(&f.q, 25, v, BATCH);

            CHECK(n > 0 && n <= 3);
            gone = had - f.q.small_size - f.q.main_size;
            last = v[n - 1]->size;
            CHECK(gone >= 25 && gone - last < 25); /* without the last it were not enough */
        }
        CHECK_EQ(BATCH, evict_queue_pick(&f.q, UINT64_MAX, v, BATCH));
        check_sums(&f);
        fixture_close(&f);
    }
}

TEST(evict, huge_and_tiny_ones_live_side_by_side)
{
    EACH_POLICY(p)
    {
        struct fixture f;
        uint64_t all;

        fixture_open(&f, *p);
        add(&f, 0, UINT32_MAX); /* more than small's part by far */
        for (uint32_t i = 1; i < 100; i++)
            add(&f, i, 1);
        add(&f, 100, UINT32_MAX);
        all = UINT32_MAX * UINT64_C(2) + 99;
        CHECK_EQ(all, f.q.small_size + f.q.main_size);
        for (unsigned i = 0; i < 101; i++)
            CHECK(pick_one(&f) < NODES);
        CHECK_EQ(0, f.q.small_size + f.q.main_size);
        fixture_close(&f);
    }
}

/* When all are used as much as can be counted, one leaves all the same, and soon. */
TEST(evict, a_pick_looks_at_so_many_and_takes_one_at_least)
{
    EACH_POLICY(p)
    {
        struct fixture f;
        uint64_t looks;

        fixture_open(&f, *p);
        for (uint32_t i = 0; i < NODES; i++)
            add(&f, i, 1);
        for (uint32_t i = 0; i < NODES; i++)
            use(&f, i, 3);
        for (unsigned round = 0; round < 20; round++) {
            looks = f.q.looks;
            CHECK(pick_one(&f) < NODES);
            CHECK(f.q.looks - looks <= EVICT_LOOKS);
        }
        check_sums(&f);
        fixture_close(&f);
    }
}

static void
random_step(struct fixture *f, uint32_t r)
{
    struct evict_node *v[BATCH];
    uint32_t i = (r >> 8) % 3000;
    unsigned n;

    switch (r % 8) {
    case 0:
        evict_queue_remove(&f->q, &f->nodes[i]);
        atomic_store(&f->nodes[i].uses, 0);
        f->nodes[i].where = EVICT_OUT;
        break;
    case 1:
        n = evict_queue_pick(&f->q, r >> 24, v, 1 + (r >> 16) % BATCH);
        while (n-- > 0) {
            CHECK(v[n]->where == EVICT_LEFT_SMALL || v[n]->where == EVICT_LEFT_MAIN);
            CHECK(list_empty(&v[n]->link));
            v[n]->where = EVICT_OUT;
        }
        break;
    case 2:
    case 3:
    case 4:
        use(f, i, 1);
        break;
    default:
        if (!is_in(f, i))
            add(f, i, 1 + (r >> 20) % (r % 16 == 7 ? 4096 : 16));
    }
}

TEST(evict, the_sums_are_right_after_anything)
{
    EACH_POLICY(p)
    {
        struct fixture f;
        uint64_t seed = 42;

        fixture_open(&f, *p);
        for (unsigned step = 0; step < 200000; step++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            random_step(&f, (uint32_t)(seed >> 32));
            if (step % 4096 == 0)
                check_sums(&f);
        }
        check_sums(&f);
        for (uint32_t i = 0; i < 3000; i++)
            evict_queue_remove(&f.q, &f.nodes[i]);
        CHECK_EQ(0, f.q.small_size + f.q.main_size);
        CHECK_EQ(NODES, pick_one(&f));
        fixture_close(&f);
    }
}

TEST_MAIN(TEST_ENTRY(evict, policies_have_names), TEST_ENTRY(evict, nothing_leaves_an_empty_queue),
    TEST_ENTRY(evict, uses_are_counted_to_three_and_the_last_one_is_stamped),
    TEST_ENTRY(evict, a_scan_does_not_push_out_what_is_used),
    TEST_ENTRY(evict, one_hit_wonders_leave_through_small),
    TEST_ENTRY(evict, in_main_each_use_is_worth_another_round),
    TEST_ENTRY(evict, a_ghost_that_comes_back_goes_into_main_once),
    TEST_ENTRY(evict, a_copy_leaves_no_ghost_and_finds_none_and_stays_by_its_uses),
    TEST_ENTRY(evict, a_ghost_is_forgotten_when_nine_tenths_of_the_bytes_have_followed_it),
    TEST_ENTRY(evict, without_ghosts_everybody_begins_in_small),
    TEST_ENTRY(evict, a_ghost_of_many_bytes_keeps_its_stamp_within_32_bits),
    TEST_ENTRY(evict, until_somebody_has_to_leave_main_takes_what_small_has_no_room_for),
    TEST_ENTRY(evict, who_replaces_one_in_main_goes_there_with_its_uses),
    TEST_ENTRY(evict, with_lru_the_one_that_was_used_longest_ago_leaves),
    TEST_ENTRY(evict, the_order_of_lru_is_as_fine_as_its_generations),
    TEST_ENTRY(evict, with_sieve_the_hand_spares_each_used_one_once),
    TEST_ENTRY(evict, the_hand_survives_that_its_node_is_removed),
    TEST_ENTRY(evict, no_more_leave_than_have_to),
    TEST_ENTRY(evict, huge_and_tiny_ones_live_side_by_side),
    TEST_ENTRY(evict, a_pick_looks_at_so_many_and_takes_one_at_least),
    TEST_ENTRY(evict, the_sums_are_right_after_anything))
