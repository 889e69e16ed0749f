/* counters_test.c -- counters add up, within the process and seen from another. */
#include "t/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/dir.h"

TEST(counters, a_sum_is_over_all_workers_and_the_shared_set)
{
    struct counters *c;

    CHECK_EQ(0, counters_open(&c, NULL, 3));
    for (unsigned w = 0; w < 3; w++)
        counter_add(counters_worker(c, w), COUNTER_req_hit, w + 1);
    counter_add_shared(c, COUNTER_req_hit, 10);
    CHECK_EQ(16, counters_sum(c, COUNTER_req_hit));
    CHECK_EQ(0, counters_sum(c, COUNTER_req_miss));
    counters_close(&c);
}

/* Each response is counted once; what used to be counters of their own are sums. */
TEST(counters, hits_and_misses_are_sums_of_responses_by_result)
{
    struct counters *c;

    CHECK_EQ(0, counters_open(&c, NULL, 2));
    counter_add(counters_worker(c, 0), counter_of_response(RESULT_hit, 200), 3);
    counter_add(counters_worker(c, 1), counter_of_response(RESULT_stale, 304), 4);
    counter_add(counters_worker(c, 0), counter_of_response(RESULT_hitmiss, 500), 5);
    counter_add(counters_worker(c, 0), counter_of_response(RESULT_error, 799), 6);
    CHECK_EQ(7, counters_sum(c, COUNTER_req_hit));
    CHECK_EQ(4, counters_sum(c, COUNTER_req_stale));
    CHECK_EQ(0, counters_sum(c, COUNTER_req_miss));
    CHECK_EQ(0, counters_sum(c, COUNTER_req_pass));
    CHECK_EQ(5, counters_sum(c, COUNTER_req_hitmiss));
    CHECK_EQ(6, counters_sum(c, COUNTER_req_synth));
    CHECK_EQ(3, counters_sum(c, COUNTER_responses_hit_2xx));
    CHECK_EQ(4, counters_sum(c, COUNTER_responses_stale_3xx));
    CHECK_EQ(6, counters_sum(c, COUNTER_responses_error_other));
    counters_close(&c);
}

TEST(counters, what_one_worker_adds_another_may_subtract)
{
    struct counters *c;

    CHECK_EQ(0, counters_open(&c, NULL, 2));
    counter_add(counters_worker(c, 0), COUNTER_loop_turns, 5);
    counter_sub(counters_worker(c, 1), COUNTER_loop_turns, 2);
    counter_sub_shared(c, COUNTER_loop_turns, 1);
    CHECK_EQ(2, counters_sum(c, COUNTER_loop_turns));
    counters_close(&c);
}

TEST(counters, sets_of_workers_share_no_cache_line)
{
    struct counters *c;
    uintptr_t a, b;

    CHECK_EQ(0, counters_open(&c, NULL, 2));
    a = (uintptr_t)counters_worker(c, 0);
    b = (uintptr_t)counters_worker(c, 1);
    CHECK_EQ(0, a % 64);
    CHECK_EQ(0, b % 64);
    CHECK(b >= a + sizeof(struct counter_set));
    counters_close(&c);
}

enum {
    ADDS = 100000
};

static void *
add_worker(void *arg)
{
    for (unsigned i = 0; i < ADDS; i++)
        counter_add(arg, COUNTER_req_total, 1);
    return NULL;
}

static void *
add_shared(void *arg)
{
    for (unsigned i = 0; i < ADDS; i++)
        counter_add_shared(arg, COUNTER_req_total, 1);
    return NULL;
}

TEST(counters, nothing_is_lost_between_threads_and_sums_never_shrink)
{
    struct counters *c;
    pthread_t t[4];
    uint64_t last = 0, now;

    CHECK_EQ(0, counters_open(&c, NULL, 2));
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(0, pthread_create(&t[i], NULL, add_worker, counters_worker(c, i)));
        CHECK_EQ(0, pthread_create(&t[2 + i], NULL, add_shared, c));
    }
    for (unsigned i = 0; i < 1000; i++, last = now) {
        now = counters_sum(c, COUNTER_req_total);
        CHECK(now >= last);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK_EQ(4 * ADDS, counters_sum(c, COUNTER_req_total));
    counters_close(&c);
}

static uint64_t
value_of(const struct counters_view *v, const char *name)
{
    struct counters_row row;

    for (unsigned i = 0; counters_view_row(v, i, &row) == 0; i++)
        if (strcmp(row.name, name) == 0)
            return row.value;
    return UINT64_MAX;
}

TEST(counters, another_process_finds_rows_by_name)
{
    char dir[] = "/tmp/tarn-counters-XXXXXX", path[64];
    struct counters_view *v;
    struct counters_row row;
    struct counters *c;
    struct shm_dir *d;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(0, shm_dir_open(&d, dir));
    CHECK_EQ(0, counters_open(&c, d, 2));
    counter_add(counters_worker(c, 1), COUNTER_resp_body_bytes, 99);
    snprintf(path, sizeof(path), "%s/counters", dir);

    CHECK_EQ(0, counters_view_open(&v, path));
    CHECK_EQ(COUNTER_COUNT, counters_view_rows(v));
    CHECK_EQ(2, counters_view_workers(v));
    CHECK_EQ(getpid(), counters_view_pid(v));
    CHECK_EQ(99, value_of(v, "resp.body_bytes"));
    counter_add(counters_worker(c, 1), COUNTER_responses_stale_2xx, 7);
    CHECK_EQ(7, value_of(v, "req.hit")); /* the file says of what it is the sum */
    CHECK_EQ(7, value_of(v, "responses.stale_2xx"));
    counter_add_shared(c, COUNTER_resp_body_bytes, 1);
    CHECK_EQ(100, value_of(v, "resp.body_bytes"));
    CHECK_EQ(0, counters_view_row(v, COUNTER_req_hit, &row));
    CHECK_STR("req.hit", row.name);
    CHECK_STR(counter_doc(COUNTER_req_hit), row.doc);
    CHECK_EQ(TERR_NOTFOUND, counters_view_row(v, COUNTER_COUNT, &row));
    counters_view_close(&v);

    counters_close(&c);
    shm_dir_close(&d);
    CHECK_EQ(TERR_NOTFOUND, counters_view_open(&v, path));
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

TEST(counters, a_foreign_short_or_lying_file_is_refused)
{
    static char bytes[1 << 16] __attribute__((aligned(64)));
    char dir[] = "/tmp/tarn-counters-XXXXXX", path[64];
    struct counters_view *v;
    struct counters *c;
    struct shm_dir *d;
    size_t n;
    FILE *f;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(0, shm_dir_open(&d, dir));
    CHECK_EQ(0, counters_open(&c, d, 1));
    snprintf(path, sizeof(path), "%s/counters", dir);
    f = fopen(path, "r");
    n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    CHECK(n > 1000);

    for (size_t len = 0; len < n; len += 8)
        CHECK_EQ(TERR_CORRUPT, counters_view_mem(&v, bytes, len));
    for (size_t at = 0; at < 64; at++) { /* any header: refused, or read without harm */
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[at] ^= (char)(1 << bit);
            if (counters_view_mem(&v, bytes, n) == 0) {
                value_of(v, "none");
                counters_view_close(&v);
            }
            bytes[at] ^= (char)(1 << bit);
        }
    }
    counters_close(&c);
    shm_dir_close(&d);
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

TEST(counters, every_row_has_a_name_of_two_parts_and_documentation)
{
    for (unsigned i = 0; i < COUNTER_COUNT; i++) {
        CHECK(strchr(counter_name((enum counter)i), '.') != NULL);
        CHECK(strlen(counter_doc((enum counter)i)) > 10);
        for (unsigned k = 0; k < i; k++)
            CHECK(strcmp(counter_name((enum counter)i), counter_name((enum counter)k)) != 0);
    }
}

TEST_MAIN(TEST_ENTRY(counters, a_sum_is_over_all_workers_and_the_shared_set),
    TEST_ENTRY(counters, hits_and_misses_are_sums_of_responses_by_result),
    TEST_ENTRY(counters, what_one_worker_adds_another_may_subtract),
    TEST_ENTRY(counters, sets_of_workers_share_no_cache_line),
    TEST_ENTRY(counters, nothing_is_lost_between_threads_and_sums_never_shrink),
    TEST_ENTRY(counters, another_process_finds_rows_by_name),
    TEST_ENTRY(counters, a_foreign_short_or_lying_file_is_refused),
    TEST_ENTRY(counters, every_row_has_a_name_of_two_parts_and_documentation))
