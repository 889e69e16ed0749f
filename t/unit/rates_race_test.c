/* rates_race_test.c -- one bucket, taken from by several threads at once. */
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/proxy/rates.h"
#include "daemon/shm/counters.h"
#include "t/unit/storage_fixture.h"

enum {
    THREADS = 4,
    TAKES = 5000,
    BURST = 2000,
};

static struct {
    struct rates *rates;
    struct counters *counters;
    struct rate_rule rule;
    _Atomic unsigned good;
    pthread_barrier_t start;
} race;

static uint64_t
race_take(unsigned worker, uint64_t who)
{
    return rates_take(race.rates, &race.rule, hash_bytes(&who, sizeof(who)), 1000000,
        counters_worker(race.counters, worker));
}

/* The common key, and between two of it another each time, so that places are fought for, too. */
static void *
race_main(void *arg)
{
    unsigned worker = (unsigned)(uintptr_t)arg;

    pthread_barrier_wait(&race.start);
    for (unsigned i = 0; i < TAKES; i++) {
        if (race_take(worker, 1) == 0)
            atomic_fetch_add(&race.good, 1);
        race_take(worker, (uint64_t)(worker + 1) << 32 | i % 64); /* none is the common one */
    }
    return NULL;
}

TEST(rates, no_token_is_given_twice)
{
    static const struct conf_storage conf = {
        .name = "main", .engine = "malloc", .size = 16 << 20, .eviction = "s3-fifo", .fault = ""};
    pthread_t threads[THREADS];
    struct storage *store;

    hash_secret_fix(7);
    CHECK_EQ(0, storage_open(&store, &conf));
    CHECK_EQ(0, counters_open(&race.counters, NULL, THREADS));
    CHECK_EQ(0, rates_open(&race.rates, store, 65536));
    CHECK(rate_rule_make(&race.rule, 1, 100000, BURST));
    CHECK_EQ(0, race_take(0, 1)); /* so that it is there */
    pthread_barrier_init(&race.start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_main, (void *)(uintptr_t)i));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* Who was overtaken 32 times in a row is let pass. */
    CHECK(race.good >= BURST - 1 && race.good <= BURST - 1 + BURST / 100);
    pthread_barrier_destroy(&race.start);
    rates_close(&race.rates);
    counters_close(&race.counters);
    storage_close(&store);
}

TEST_MAIN(TEST_ENTRY(rates, no_token_is_given_twice))
