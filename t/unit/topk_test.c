/* topk_test.c -- the heaviest of a stream are found, and by how much they may be wrong is known. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/topk.h"

enum {
    ROOM = 64,
    NAMES = 5000,
    STREAM = 200000
};

static uint64_t drawn = 1;

static uint64_t
draw(void)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return drawn >> 33;
}

static void
add(struct topk *h, uint64_t key, double weight, double other)
{
    char text[32];
    struct slice parts[2] = {SLICE_LIT("name "), {text, 0}};

    parts[1].len = (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)key);
    topk_add(h, key, parts, (double[TOPK_SUMS]){weight, other, 0, 0});
}

TEST(topk, as_long_as_there_is_room_all_is_exact)
{
    struct topk_name top[ROOM];
    struct topk *h;

    CHECK_EQ(0, topk_open(&h, 4, 6, 0));
    CHECK_EQ(0, topk_top(h, top, ROOM));
    add(h, 1, 5, 1);
    add(h, 2, 7, 1);
    add(h, 33, 1, 1);
    add(h, 1, 3, 2);
    add(h, 9, 0, 1); /* has no weight */
    CHECK_EQ(3, topk_top(h, top, ROOM));
    CHECK_EQ(8, top[0].weight);
    CHECK_EQ(8, top[0].sums[0]);
    CHECK_EQ(3, top[0].sums[1]);
    CHECK(slice_eq(top[0].text, SLICE_LIT("name 1")));
    CHECK(slice_eq(top[1].text, SLICE_LIT("name 2")));
    CHECK(slice_eq(top[2].text, SLICE_LIT("name 3"))); /* the first six bytes of it */
    CHECK_EQ(2, topk_top(h, top, 2));
    CHECK(topk_bytes(h) < 2048);
    topk_close(&h);
    CHECK(h == NULL);
}

TEST(topk, a_new_name_takes_the_place_of_the_lightest_and_its_weight)
{
    struct topk_name top[ROOM];
    struct topk *h;

    CHECK_EQ(0, topk_open(&h, 2, 16, 1));
    add(h, 1, 1, 10);
    add(h, 2, 1, 4);
    add(h, 3, 1, 1);
    CHECK_EQ(2, topk_top(h, top, ROOM));
    CHECK(slice_eq(top[1].text, SLICE_LIT("name 3")));
    CHECK_EQ(5, top[1].weight);
    CHECK_EQ(1, top[1].sums[1]);
    topk_fade(h, 0.5);
    add(h, 3, 1, 6);
    CHECK_EQ(2, topk_top(h, top, ROOM));
    CHECK(slice_eq(top[0].text, SLICE_LIT("name 3")));
    CHECK(top[0].weight == 8.5 && top[1].weight == 5);
    topk_close(&h);
}

/* A fifth of all is for ten names; the rest is spread over thousands. */
TEST(topk, whoever_has_more_than_his_share_is_found_and_the_error_is_bounded)
{
    static double truth[NAMES];
    struct topk_name top[ROOM];
    struct topk *h;
    double all = 0;
    unsigned found = 0;

    CHECK_EQ(0, topk_open(&h, ROOM, 32, 0));
    for (unsigned i = 0; i < STREAM; i++) {
        uint64_t name = draw() % 5 == 0 ? draw() % 10 : draw() % NAMES;
        double weight = (double)(1 + draw() % 3);

        add(h, name, weight, 0);
        truth[name] += weight;
        all += weight;
    }
    CHECK_EQ(ROOM, topk_top(h, top, ROOM));
    for (unsigned i = 0; i < ROOM; i++) {
        unsigned long long name;
        char text[33];

        snprintf(text, sizeof(text), "%.*s", (int)top[i].text.len, top[i].text.ptr);
        name = strtoull(text + 5, NULL, 10);
        CHECK(name < NAMES);
        CHECK(top[i].sums[0] <= truth[name]);
        CHECK(top[i].weight >= truth[name]);
        CHECK(top[i].weight - top[i].sums[0] <= all / ROOM);
        CHECK(i == 0 || top[i].weight <= top[i - 1].weight);
        found += name < 10;
    }
    CHECK_EQ(10, found);
    topk_close(&h);
}

/* The table's deletions: every key that should be there is found under its name. */
TEST(topk, keys_that_come_and_go_are_never_there_twice)
{
    struct topk_name top[ROOM];
    struct topk *h;

    CHECK_EQ(0, topk_open(&h, 16, 32, 0));
    for (unsigned i = 0; i < 20000; i++) {
        unsigned n;

        add(h, draw() % 40, 1, 0);
        if (i % 97 == 0)
            topk_fade(h, 0.9);
        if (i % 50 != 0)
            continue;
        n = topk_top(h, top, ROOM);
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = 0; b < a; b++)
                CHECK(!slice_eq(top[a].text, top[b].text));
    }
    topk_close(&h);
}

TEST_MAIN(TEST_ENTRY(topk, as_long_as_there_is_room_all_is_exact),
    TEST_ENTRY(topk, a_new_name_takes_the_place_of_the_lightest_and_its_weight),
    TEST_ENTRY(topk, whoever_has_more_than_his_share_is_found_and_the_error_is_bounded),
    TEST_ENTRY(topk, keys_that_come_and_go_are_never_there_twice))
