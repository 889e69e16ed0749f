/* negative_race_test.c -- the negative cache while threads race; made for ThreadSanitizer.
 *
 * The table is so small that all keys meet in a few buckets.  What a key's entry says follows from
 * the key, so a reader that is given another key's words, or words of two writes, notices:
 *
 *   status   404 for even keys, 410 for odd ones
 *   age      that of the key's number, in eighths of a second, at the moment it was put in
 *
 * Each key has one owner, as it has one guard in the index.  The owner knows what it did last: what
 * it removed it must not find, nor what it put in before a drop that it made itself.  What is there
 * may always be evicted, so not finding is no failure but where readers count, too: after a time
 * without writers every key that is left is found by all.
 *
 * Tried against broken tables it notices a missing second look at the sequence number, a bucket of an
 * old generation that is not emptied, and an insertion that heeds no generation.  A number that is
 * never odd it hardly notices: that is left to the proof.
 *
 * NEGATIVE_RACE_LOOKS in the environment: lookups of each reader.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cache/cuckoo.h"
#include "daemon/cache/negative.h"
#include "daemon/shm/counters.h"
#include "t/unit/test.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

enum {
#if defined(__SANITIZE_THREAD__)
    LOOKS = 200 * 1000,
#else
    LOOKS = 4 * 1000 * 1000,
#endif
    READERS = 2,
    WRITERS = 2,
    KEYS = 96,    /* of each writer */
    ENTRIES = 64, /* asked for: 80 slots in 16 buckets */
    NOW = 1000000,
    TTL = 1000000, /* nothing expires: only the words themselves are judged */
    DROP_EVERY = 997,
};

static struct race {
    struct negative *n;
    struct counters *counters;
    struct hash128 keys[WRITERS][KEYS];
    unsigned long looks;
    atomic_int reading;
    atomic_ulong found, unsure, wrong, undead;
} race;

static void *
race_alloc(void *ctx __attribute__((unused)), size_t bytes, size_t align)
{
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);

    return memset(p, 0, bytes);
}

static void
race_free(void *ctx __attribute__((unused)), void *p, size_t bytes __attribute__((unused)))
{
    free(p);
}

static const struct cuckoo_memory race_memory = {race_alloc, race_free, NULL};

static unsigned
race_random(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static unsigned
race_number(unsigned owner, unsigned k)
{
    return owner * KEYS + k;
}

static bool
race_put(unsigned owner, unsigned k, uint32_t generation)
{
    unsigned number = race_number(owner, k);
    struct negative_fact fact = {
        .status = number % 2 == 0 ? 404 : 410,
        .now_ms = NOW,
        .age_ms = (int64_t)number * 125,
        .ttl_ms = TTL,
    };

    return negative_insert(race.n, &race.keys[owner][k], &fact, generation);
}

/* Whether it was there; counts what it should not have been told. */
static bool
race_judge(unsigned owner, unsigned k, enum negative_found found, const struct negative_answer *a)
{
    unsigned number = race_number(owner, k);

    if (found == NEGATIVE_UNSURE)
        atomic_fetch_add(&race.unsure, 1);
    if (found != NEGATIVE_PRESENT)
        return false;
    if (a->status != (number % 2 == 0 ? 404 : 410) || a->age_ms != (int64_t)number * 125 ||
        a->left_ms != TTL)
        atomic_fetch_add(&race.wrong, 1);
    return true;
}

static bool
race_look(unsigned owner, unsigned k)
{
    struct negative_answer a = {.status = 0};

    return race_judge(owner, k, negative_find(race.n, &race.keys[owner][k], NOW, &a), &a);
}

static void *
race_read(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    unsigned long found = 0;

    for (unsigned long i = 0; i < race.looks; i++) {
        unsigned r = race_random(&seed);

        found += race_look(r % WRITERS, r / WRITERS % KEYS);
    }
    atomic_fetch_add(&race.found, found);
    atomic_fetch_sub(&race.reading, 1);
    return NULL;
}

/* One step of an owner with a key of its own. */
static void
race_write_one(unsigned owner, unsigned step, unsigned *seed)
{
    unsigned k = race_random(seed) % KEYS;
    uint32_t generation = negative_generation(race.n);

    if (step % DROP_EVERY == 0) {
        race_put(owner, k, generation);
        negative_drop(race.n);
        if (race_look(owner, k) || race_put(owner, k, generation))
            atomic_fetch_add(&race.undead, 1);
    } else if (race_random(seed) % 3 == 0) {
        negative_remove(race.n, &race.keys[owner][k]);
        if (race_look(owner, k))
            atomic_fetch_add(&race.undead, 1);
    } else {
        race_put(owner, k, generation);
    }
}

static void *
race_write(void *arg)
{
    unsigned owner = (unsigned)(uintptr_t)arg, seed = owner + 77;

    for (unsigned step = 1; atomic_load(&race.reading) > 0; step++)
        race_write_one(owner, step, &seed);
    return NULL;
}

static void
race_open(void)
{
    const char *looks = getenv("NEGATIVE_RACE_LOOKS");

    hash_secret_fix(7);
    CHECK_EQ(0, counters_open(&race.counters, NULL, 1));
    CHECK_EQ(0, negative_open(&race.n, ENTRIES, &race_memory, race.counters));
    for (unsigned owner = 0; owner < WRITERS; owner++)
        for (unsigned k = 0; k < KEYS; k++) {
            unsigned number = race_number(owner, k);

            race.keys[owner][k] = hash_bytes(&number, sizeof(number));
        }
    race.looks = looks != NULL ? strtoul(looks, NULL, 10) : LOOKS;
    atomic_store(&race.reading, READERS);
}

/* With nobody writing, what is there is what the statistics say. */
static void
race_check_rest(void)
{
    struct negative_stats stats;
    uint64_t there = 0;

    for (unsigned owner = 0; owner < WRITERS; owner++)
        for (unsigned k = 0; k < KEYS; k++)
            there += race_look(owner, k);
    negative_get_stats(race.n, &stats);
    CHECK_EQ(stats.entries, there);
    CHECK_EQ(stats.entries, counters_sum(race.counters, COUNTER_negative_entries));
    CHECK(stats.evicted > 0 && stats.removed > 0 && stats.dropped > 0);
}

TEST(negative, no_lookup_is_answered_by_another_key_or_by_what_is_over)
{
    pthread_t readers[READERS], writers[WRITERS];

    race_open();
    for (uintptr_t i = 0; i < WRITERS; i++)
        CHECK_EQ(0, pthread_create(&writers[i], NULL, race_write, (void *)i));
    for (uintptr_t i = 0; i < READERS; i++)
        CHECK_EQ(0, pthread_create(&readers[i], NULL, race_read, (void *)(i + 1)));
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    print_message("%lu looks, %lu found, %lu unsure\n", READERS * race.looks,
        atomic_load(&race.found), atomic_load(&race.unsure));
    CHECK_EQ(0, atomic_load(&race.wrong));
    CHECK_EQ(0, atomic_load(&race.undead));
    CHECK(atomic_load(&race.found) > 0);
    race_check_rest();
    negative_close(&race.n);
    counters_close(&race.counters);
}

TEST_MAIN(TEST_ENTRY(negative, no_lookup_is_answered_by_another_key_or_by_what_is_over))
