/* entry_join_race_test.c -- who comes to read a body, and the fetch that ends for want of readers,
 * at the same moment: one of the two gets its way, and knows it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "daemon/cache/cache.h"
#include "t/unit/test.h"

enum {
    ROUNDS = 300 * 1000,
    SEALS = 30 * 1000,
};

static struct race {
    struct entry entry;
    atomic_uint round; /* that is on */
    atomic_uint came;  /* the last that the reader is through with */
    bool joined;
} race;

static void
race_await(const atomic_uint *word, unsigned round)
{
    for (unsigned spins = 0; atomic_load(word) < round; spins++)
        if (spins > 1000)
            sched_yield();
}

static void *
race_read(void *rounds)
{
    for (unsigned round = 1; round <= (uintptr_t)rounds; round++) {
        race_await(&race.round, round);
        race.joined = entry_join(&race.entry);
        atomic_store(&race.came, round);
    }
    return NULL;
}

TEST(entry_join, one_of_the_two_gets_its_way)
{
    unsigned long joined = 0, closed = 0;
    pthread_t reader;

    memset(&race, 0, sizeof(race));
    race.entry.magic = ENTRY_MAGIC;
    CHECK_EQ(0, pthread_create(&reader, NULL, race_read, (void *)(uintptr_t)ROUNDS));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        bool ended;

        atomic_store(&race.entry.readers, 0);
        atomic_store(&race.round, round);
        for (volatile unsigned spins = 0; spins < round % 128; spins++) /* now one is first, now */
            continue;                                                   /* the other */
        ended = entry_close(&race.entry);
        race_await(&race.came, round);
        CHECK_EQ(!ended, race.joined);
        CHECK_EQ(ended ? ENTRY_CLOSED : 1, atomic_load(&race.entry.readers));
        joined += !ended;
        closed += ended;
    }
    CHECK_EQ(0, pthread_join(reader, NULL));
    print_message("joined in %lu rounds, closed in %lu\n", joined, closed);
}

TEST(entry_join, who_has_left_does_not_count)
{
    struct entry e;

    memset(&e, 0, sizeof(e));
    e.magic = ENTRY_MAGIC;
    CHECK(entry_join(&e));
    CHECK(!entry_close(&e));
    atomic_store(&e.readers, 0);
    CHECK(entry_close(&e));
    CHECK(entry_close(&e)); /* it may look twice */
    CHECK(!entry_join(&e));
}

/* It counts readers that joined before; later ones are told to go elsewhere. */
TEST(entry_join, sealing_tells_how_many_have_joined)
{
    static struct entry_parts one = {.n = 1};
    unsigned long before = 0;
    pthread_t reader;

    memset(&race, 0, sizeof(race));
    race.entry.magic = ENTRY_MAGIC;
    atomic_store(&race.entry.parts, 1 + (uintptr_t)(void *)&one);
    CHECK_EQ(0, pthread_create(&reader, NULL, race_read, (void *)(uintptr_t)SEALS));
    for (unsigned round = 1; round <= SEALS; round++) {
        uint32_t n;

        atomic_store(&race.entry.readers, 1); /* one has joined already, and stays */
        atomic_store(&race.round, round);
        for (volatile unsigned spins = 0; spins < round % 128; spins++)
            continue;
        n = entry_seal(&race.entry);
        race_await(&race.came, round);
        CHECK_EQ(n == 2, race.joined);
        CHECK_EQ(ENTRY_SEALED | n, atomic_load(&race.entry.readers));
        CHECK(entry_is_sealed(&race.entry));
        before += n == 2;
    }
    CHECK_EQ(0, pthread_join(reader, NULL));
    print_message("joined before it in %lu of %u rounds\n", before, SEALS);
    atomic_store(&race.entry.readers, ENTRY_SEALED);
    CHECK(entry_close(&race.entry));
    CHECK_EQ(0, entry_seal(&race.entry));
    CHECK_EQ(ENTRY_CLOSED, atomic_load(&race.entry.readers));
}

TEST_MAIN(TEST_ENTRY(entry_join, one_of_the_two_gets_its_way),
    TEST_ENTRY(entry_join, who_has_left_does_not_count),
    TEST_ENTRY(entry_join, sealing_tells_how_many_have_joined))
