/* latency_test.c -- durations lie in the bucket of their size, and sums and quantiles say so. */
#include "t/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shm/dir.h"
#include "daemon/shm/latency.h"

TEST(latency, a_bucket_holds_what_lies_between_its_floor_and_the_next)
{
    for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        uint64_t from = latency_floor(b), to = latency_floor(b + 1);

        CHECK(from < to);
        CHECK_EQ(b, latency_bucket(from));
        CHECK_EQ(b, latency_bucket(to - 1));
        CHECK(from < 4 || (to - from) * 4 <= from); /* four steps to a doubling */
    }
    CHECK_EQ(0, latency_bucket(0));
    CHECK_EQ(LATENCY_BUCKETS - 1, latency_bucket(UINT64_MAX));
    CHECK_EQ(1024, latency_floor(latency_bucket(1024)));
    CHECK_EQ(latency_bucket(1024), latency_bucket(1279));
    CHECK_EQ(latency_bucket(1024) + 1, latency_bucket(1280));
}

TEST(latency, a_sum_is_over_all_workers_and_each_can_be_seen_alone)
{
    struct latency_seen seen;
    struct latency *l;

    CHECK_EQ(0, latency_open(&l, NULL, 3));
    CHECK_EQ(3, latency_workers(l));
    for (unsigned w = 0; w < 3; w++)
        for (unsigned i = 0; i <= w; i++)
            latency_add(&latency_worker(l, w)->row[LATENCY_hit], 100);
    latency_see(l, LATENCY_ALL, LATENCY_hit, &seen);
    CHECK_EQ(6, seen.count);
    CHECK_EQ(600, seen.sum_us);
    CHECK_EQ(6, seen.bucket[latency_bucket(100)]);
    latency_see(l, 1, LATENCY_hit, &seen);
    CHECK_EQ(2, seen.count);
    latency_see(l, LATENCY_ALL, LATENCY_miss, &seen);
    CHECK_EQ(0, seen.count);
    CHECK_EQ(0, latency_quantile(&seen, 0.99));
    latency_close(&l);
}

TEST(latency, the_last_and_the_longest_are_kept)
{
    struct latency_seen seen;
    struct latency *l;

    CHECK_EQ(0, latency_open(&l, NULL, 2));
    latency_tell(&latency_worker(l, 0)->row[LATENCY_lag], 7000);
    latency_tell(&latency_worker(l, 0)->row[LATENCY_lag], 30);
    latency_tell(&latency_worker(l, 1)->row[LATENCY_lag], 200);
    latency_see(l, 0, LATENCY_lag, &seen);
    CHECK_EQ(30, seen.last_us);
    CHECK_EQ(7000, seen.max_us);
    latency_see(l, LATENCY_ALL, LATENCY_lag, &seen);
    CHECK_EQ(200, seen.last_us);
    CHECK_EQ(7000, seen.max_us);
    CHECK_EQ(3, seen.count);
    latency_close(&l);
}

TEST(latency, a_quantile_is_off_by_less_than_its_bucket)
{
    struct latency_seen seen;
    struct latency *l;

    CHECK_EQ(0, latency_open(&l, NULL, 1));
    for (unsigned us = 1; us <= 10000; us++)
        latency_add(&latency_worker(l, 0)->row[LATENCY_pass], us);
    latency_see(l, LATENCY_ALL, LATENCY_pass, &seen);
    for (unsigned percent = 1; percent <= 100; percent++) {
        uint64_t is = percent * 100, told = latency_quantile(&seen, percent / 100.0);

        CHECK(told >= is - is / 4 - 1 && told <= is + is / 4 + 1);
    }
    CHECK(latency_quantile(&seen, 0.5) > 4900 && latency_quantile(&seen, 0.5) < 5100);
    CHECK_EQ(0, latency_below(&seen, 1));
    CHECK_EQ(1023, latency_below(&seen, 1024)); /* 1 to 1023: at a floor it is exact */
    CHECK_EQ(10000, latency_below(&seen, UINT64_C(1) << 40));
    latency_close(&l);
}

enum {
    ADDS = 200000
};

static void *
add_some(void *arg)
{
    struct latency_set *set = arg;

    for (unsigned i = 0; i < ADDS; i++)
        latency_add(&set->row[LATENCY_hit], i % 1000);
    return NULL;
}

TEST(latency, a_reader_sees_it_grow_and_nothing_is_lost)
{
    struct latency_seen seen;
    uint64_t last = 0;
    struct latency *l;
    pthread_t t[2];

    CHECK_EQ(0, latency_open(&l, NULL, 2));
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(0, pthread_create(&t[i], NULL, add_some, latency_worker(l, i)));
    for (unsigned i = 0; i < 200; i++, last = seen.count) {
        latency_see(l, LATENCY_ALL, LATENCY_hit, &seen);
        CHECK(seen.count >= last);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    latency_see(l, LATENCY_ALL, LATENCY_hit, &seen);
    CHECK_EQ(2 * ADDS, seen.count);
    latency_close(&l);
}

static uint64_t
word_at(const char *bytes, uint64_t off, size_t size)
{
    uint64_t n = 0;

    memcpy(&n, bytes + off, size); /* little-endian */
    return n;
}

/* By the table of README.md alone, as another program would. */
TEST(latency, the_file_is_laid_out_as_it_is_written)
{
    char dir[] = "/tmp/tarn-latency-XXXXXX", path[64];
    static char bytes[64 * 1024];
    uint64_t rows, sets;
    struct shm_dir *d;
    struct latency *l;
    size_t n;
    FILE *f;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(0, shm_dir_open(&d, dir));
    CHECK_EQ(0, latency_open(&l, d, 2));
    latency_add(&latency_worker(l, 1)->row[LATENCY_pass], 1024);
    snprintf(path, sizeof(path), "%s/latency", dir);
    f = fopen(path, "r");
    CHECK(f != NULL);
    n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    CHECK_MEM("TARNLAT1", bytes, 8);
    CHECK_EQ(1, word_at(bytes, 8, 4));
    CHECK_EQ(192, word_at(bytes, 12, 4));
    CHECK_EQ(LATENCY_KINDS, word_at(bytes, 16, 4));
    CHECK_EQ(2, word_at(bytes, 20, 4));
    rows = word_at(bytes, 24, 8);
    sets = word_at(bytes, 32, 8);
    CHECK_STR("hit-for-miss", bytes + rows + LATENCY_hitmiss * 192);
    CHECK_STR("pass", bytes + rows + LATENCY_pass * 192);
    CHECK_EQ(getpid(), word_at(bytes, 48, 4));
    CHECK_EQ(252, word_at(bytes, 52, 4));
    CHECK_EQ(2048, word_at(bytes, 56, 4));
    CHECK_EQ(n, sets + 2 * word_at(bytes, 40, 8));
    sets += word_at(bytes, 40, 8) + LATENCY_pass * 2048; /* of the second worker */
    CHECK_EQ(1, word_at(bytes, sets + 36 * 8, 8));       /* 1024 is 4 << 8 */
    CHECK_EQ(1024, word_at(bytes, sets + 252 * 8, 8));
    latency_close(&l);
    shm_dir_close(&d);
    CHECK_EQ(-1, access(path, F_OK)); /* it is swept away */
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

TEST_MAIN(TEST_ENTRY(latency, a_bucket_holds_what_lies_between_its_floor_and_the_next),
    TEST_ENTRY(latency, a_sum_is_over_all_workers_and_each_can_be_seen_alone),
    TEST_ENTRY(latency, the_last_and_the_longest_are_kept),
    TEST_ENTRY(latency, a_quantile_is_off_by_less_than_its_bucket),
    TEST_ENTRY(latency, a_reader_sees_it_grow_and_nothing_is_lost),
    TEST_ENTRY(latency, the_file_is_laid_out_as_it_is_written))
