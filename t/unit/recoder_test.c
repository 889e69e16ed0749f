/* recoder_test.c -- one thread at a time, its rest, and what is remembered of bodies. */
#include "t/unit/test.h"

#include <unistd.h>

#include "daemon/base/offload.h"
#include "daemon/proxy/recoder.h"
#include "t/unit/storage_fixture.h"

static struct recoder *recoder;
static struct storage *store;

static void
open_one(void)
{
    store = store_open("malloc", UINT64_C(16) << 20, "");
    CHECK_EQ(0, recoder_open(&recoder, store, UINT64_C(16) << 20));
    CHECK(recoder_dictionaries(recoder) != NULL);
}

static void
close_one(void)
{
    recoder_close(&recoder);
    store_close(store);
}

TEST(recoder, what_is_seen_twice_among_few_others_is_hot)
{
    open_one();
    CHECK(!recoder_is_hot(recoder, UINT64_C(0x1234567800000001)));
    CHECK(recoder_is_hot(recoder, UINT64_C(0x1234567800000001)));
    CHECK(recoder_is_hot(recoder, UINT64_C(0x1234567800000001)));
    /* Another one of the same place takes it. */
    CHECK(!recoder_is_hot(recoder, UINT64_C(0x9876543200000001)));
    CHECK(!recoder_is_hot(recoder, UINT64_C(0x1234567800000001)));
    CHECK(!recoder_is_hot(recoder, 0)); /* no number is what an empty place says */
    close_one();
}

TEST(recoder, what_is_barren_is_never_hot)
{
    open_one();
    CHECK(!recoder_is_hot(recoder, 7));
    CHECK(!recoder_is_barren(recoder, 7));
    recoder_set_barren(recoder, 7);
    CHECK(recoder_is_barren(recoder, 7));
    CHECK(!recoder_is_hot(recoder, 7));
    CHECK(!recoder_is_hot(recoder, 8));
    CHECK(recoder_is_hot(recoder, 8));
    close_one();
}

TEST(recoder, the_thread_is_given_to_one_and_rests_in_proportion)
{
    open_one();
    CHECK(recoder_take(recoder, 1000));
    CHECK(!recoder_take(recoder, 1000));
    recoder_give(recoder, 1000, 500, 5); /* 5 % of a processor: 19 times as long */
    CHECK(!recoder_take(recoder, 1000 + 19 * 500 - 1));
    CHECK(recoder_take(recoder, 1000 + 19 * 500));
    recoder_give(recoder, 20000, 0, 5); /* it did nothing */
    CHECK(recoder_take(recoder, 20000));
    recoder_give(recoder, 20000, 500, 100); /* all of one */
    CHECK(recoder_take(recoder, 20000));
    recoder_give(recoder, 20000, 500, 0); /* it was switched off meanwhile */
    close_one();
}

TEST(recoder, what_is_done_within_a_rest_makes_it_longer)
{
    open_one();
    CHECK(recoder_take(recoder, 1000));
    recoder_give(recoder, 1000, 1000, 5); /* until 20000 */
    CHECK(recoder_take(recoder, UINT64_MAX));
    recoder_give(recoder, 2000, 10, 5); /* 190 more */
    CHECK(!recoder_take(recoder, 2190));
    CHECK(!recoder_take(recoder, 20189));
    CHECK(recoder_take(recoder, 20190));
    recoder_give(recoder, 20190, 0, 5);
    close_one();
}

static struct {
    struct job job;
    _Atomic bool ran;
} one;

static void
run_one(struct job *j)
{
    CHECK(j == &one.job);
    atomic_store(&one.ran, true);
}

TEST(recoder, runs_the_job_of_the_one_that_took_it)
{
    open_one();
    CHECK(recoder_take(recoder, 0));
    job_init(&one.job, run_one, NULL);
    recoder_submit(recoder, &one.job);
    for (unsigned i = 0; i < 5000 && !atomic_load(&one.ran); i++)
        usleep(1000);
    CHECK(atomic_load(&one.ran));
    recoder_give(recoder, 0, 1, 5);
    close_one();
}

TEST_MAIN(TEST_ENTRY(recoder, what_is_seen_twice_among_few_others_is_hot),
    TEST_ENTRY(recoder, what_is_barren_is_never_hot),
    TEST_ENTRY(recoder, the_thread_is_given_to_one_and_rests_in_proportion),
    TEST_ENTRY(recoder, what_is_done_within_a_rest_makes_it_longer),
    TEST_ENTRY(recoder, runs_the_job_of_the_one_that_took_it))
