/* rates_test.c -- token buckets: how many may, when again, and what a full table forgets. */
#include "daemon/base/terr.h"
#include "daemon/proxy/rates.h"
#include "daemon/shm/counters.h"
#include "t/unit/storage_fixture.h"

#define SECOND UINT64_C(1000000)

struct rating {
    struct storage *store;
    struct counters *counters;
    struct counter_set *set;
    struct rates *rates;
};

static void
rating_open(struct rating *t, uint64_t keys)
{
    static const struct conf_storage conf = {
        .name = "main", .engine = "malloc", .size = 16 << 20, .eviction = "s3-fifo", .fault = ""};

    hash_secret_fix(7);
    CHECK_EQ(0, storage_open(&t->store, &conf));
    CHECK_EQ(0, counters_open(&t->counters, NULL, 1));
    t->set = counters_worker(t->counters, 0);
    CHECK_EQ(0, rates_open(&t->rates, t->store, keys));
}

static void
rating_close(struct rating *t)
{
    rates_close(&t->rates);
    counters_close(&t->counters);
    storage_close(&t->store);
}

static uint64_t
may(struct rating *t, const struct rate_rule *rule, uint64_t who, uint64_t now_us)
{
    return rates_take(t->rates, rule, hash_bytes(&who, sizeof(who)), now_us, t->set);
}

static struct rate_rule
rule_of(uint64_t rate, uint64_t per_us, uint64_t burst)
{
    struct rate_rule rule;

    CHECK(rate_rule_make(&rule, rate, per_us, burst));
    return rule;
}

TEST(rates, so_many_at_once_and_then_one_at_a_time)
{
    struct rate_rule rule = rule_of(10, SECOND, 3);
    uint64_t now = 12345 * SECOND;
    struct rating t;

    rating_open(&t, 1000);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(0, may(&t, &rule, 1, now));
    CHECK_EQ(SECOND / 10, may(&t, &rule, 1, now));
    CHECK_EQ(SECOND / 20, may(&t, &rule, 1, now + SECOND / 20)); /* being refused costs nothing */
    CHECK_EQ(0, may(&t, &rule, 1, now + SECOND / 10));
    CHECK_EQ(SECOND / 10, may(&t, &rule, 1, now + SECOND / 10));
    CHECK_EQ(0, may(&t, &rule, 2, now)); /* somebody else */
    for (unsigned i = 0; i < 3; i++)     /* full again, and no fuller */
        CHECK_EQ(0, may(&t, &rule, 1, now + 100 * SECOND));
    CHECK(may(&t, &rule, 1, now + 100 * SECOND) > 0);
    CHECK_EQ(4, counters_sum(t.counters, COUNTER_limit_refused));
    rating_close(&t);
}

TEST(rates, in_the_long_run_as_many_as_the_rule_says)
{
    static const uint64_t rates[] = {1, 7, 100, 9999};

    for (size_t k = 0; k < ARRAY_LEN(rates); k++) {
        struct rate_rule rule = rule_of(rates[k], SECOND, 10);
        uint64_t good = 0, now = SECOND, want = 10 + 10 * rates[k];
        struct rating t;

        rating_open(&t, 8);
        for (; now < 11 * SECOND; now += 37)
            good += may(&t, &rule, 1, now) == 0;
        CHECK(good + 1 >= want * 995 / 1000 && good <= want * 1005 / 1000 + 1);
        rating_close(&t);
    }
}

TEST(rates, no_client_waits_longer_than_retry_after_says)
{
    struct rate_rule rule = rule_of(3, 7 * SECOND, 2);
    uint64_t now = SECOND, wait;
    struct rating t;

    rating_open(&t, 8);
    for (unsigned i = 0; i < 1000; i++) {
        wait = may(&t, &rule, 1, now);
        if (wait > 0) {
            CHECK(may(&t, &rule, 1, now + wait - 1) > 0);
            CHECK_EQ(0, may(&t, &rule, 1, now + wait));
            now += wait;
        }
        now += i * 1000;
    }
    rating_close(&t);
}

/* 203 days and some. */
TEST(rates, time_may_wrap)
{
    struct rate_rule rule = rule_of(1, SECOND, 2);
    uint64_t wrap = UINT64_C(1) << 44;
    struct rating t;

    rating_open(&t, 8);
    for (uint64_t now = wrap - 3 * SECOND; now < wrap + 3 * SECOND; now += SECOND) {
        CHECK_EQ(0, may(&t, &rule, 1, now));
        CHECK_EQ(now == wrap - 3 * SECOND ? 0 : SECOND, may(&t, &rule, 1, now));
    }
    for (uint64_t later = 20; later < 220; later += 20) /* days: what was is long over */
        CHECK_EQ(0, may(&t, &rule, 1, wrap + later * 24 * 3600 * SECOND));
    rating_close(&t);
}

TEST(rates, a_flood_of_keys_takes_no_more_memory)
{
    struct rate_rule rule = rule_of(1, 60 * SECOND, 1);
    struct storage_stats before, after;
    uint64_t again = 0, good = 0;
    struct rating t;

    rating_open(&t, 4096);
    storage_get_stats(t.store, &before);
    CHECK_EQ(0, before.leaf[CHARGE_RATES]); /* nobody has needed it */
    may(&t, &rule, 0, SECOND);
    storage_get_stats(t.store, &before);
    CHECK(before.leaf[CHARGE_RATES] >= 4096 * 8 && before.leaf[CHARGE_RATES] < 2 * 4096 * 8);
    for (uint64_t who = 1; who < 2000; who++) /* half of what it holds: few are lost */
        good += may(&t, &rule, who, SECOND) == 0;
    for (uint64_t who = 0; who < 2000; who++)
        again += may(&t, &rule, who, SECOND) > 0;
    CHECK(again > 1800);
    for (uint64_t who = 10000; who < 110000; who++)
        good += may(&t, &rule, who, SECOND) == 0;
    CHECK(good > 101999 - 20); /* hardly one is taken for another */
    storage_get_stats(t.store, &after);
    CHECK_EQ(before.leaf[CHARGE_RATES], after.leaf[CHARGE_RATES]);
    CHECK(counters_sum(t.counters, COUNTER_limit_forgotten) > 90000);
    rating_close(&t);
}

TEST(rates, some_rules_are_none)
{
    struct rate_rule rule;

    CHECK(!rate_rule_make(&rule, 0, SECOND, 0));
    CHECK(!rate_rule_make(&rule, 2 * SECOND, SECOND, 0));    /* finer than a microsecond */
    CHECK(!rate_rule_make(&rule, 1, 24 * 3600 * SECOND, 8)); /* more than a week to fill */
    CHECK(rate_rule_make(&rule, 1, 24 * 3600 * SECOND, 7));
    CHECK(rate_rule_make(&rule, 1000, SECOND, 0));
    CHECK_EQ(1000, rule.interval_us);
    CHECK_EQ(SECOND, rule.window_us);
}

TEST_MAIN(TEST_ENTRY(rates, so_many_at_once_and_then_one_at_a_time),
    TEST_ENTRY(rates, in_the_long_run_as_many_as_the_rule_says),
    TEST_ENTRY(rates, no_client_waits_longer_than_retry_after_says),
    TEST_ENTRY(rates, time_may_wrap), TEST_ENTRY(rates, a_flood_of_keys_takes_no_more_memory),
    TEST_ENTRY(rates, some_rules_are_none))
