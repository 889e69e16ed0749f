/* fate_test.c -- what last became of a key. */
#include "t/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cache/removal.h"

static struct hash128
key_of(uint64_t lo, uint64_t hi)
{
    return (struct hash128){lo, hi};
}

TEST(fate, the_last_word_counts)
{
    uint64_t places[64] = {0};
    struct fates f;
    struct fate_seen seen;
    struct hash128 a = key_of(UINT64_C(1) << 63, 5), b = key_of(UINT64_C(1) << 62, 6);

    fates_init(&f, places, 64);
    CHECK(!fates_recall(&f, &a, &seen));
    fates_note(&f, &a, FATE_EVICTED);
    fates_note(&f, &b, FATE_REFUSED + FRESH_REFUSE_PRIVATE);
    CHECK(fates_recall(&f, &a, &seen));
    CHECK_EQ(FATE_EVICTED, seen.what);
    CHECK(seen.ago_s >= 0);
    CHECK_STR("evicted", fate_name(seen.what));
    CHECK(fates_recall(&f, &b, &seen));
    CHECK_STR("private", fate_name(seen.what));
    CHECK_STR("Cache-Control says private", fate_text(seen.what));
    fates_note(&f, &a, FATE_PURGED);
    CHECK(fates_recall(&f, &a, &seen));
    CHECK_EQ(FATE_PURGED, seen.what);
}

TEST(fate, a_key_is_not_taken_for_another)
{
    uint64_t places[8] = {0};
    struct fates f;
    struct fate_seen seen;
    struct hash128 a = key_of(UINT64_C(1) << 63, 3), same = key_of(UINT64_C(1) << 62, 3 + 8);

    fates_init(&f, places, 8);
    fates_note(&f, &a, FATE_BANNED);
    CHECK(!fates_recall(&f, &same, &seen)); /* of the same place */
    fates_note(&f, &same, FATE_CUT);
    CHECK(!fates_recall(&f, &a, &seen)); /* and what was there is forgotten */
}

TEST(fate, nothing_is_remembered_without_memory)
{
    struct fates f;
    struct fate_seen seen;
    struct hash128 a = key_of(1, 2);

    fates_init(&f, NULL, 1);
    fates_note(&f, &a, FATE_BANNED);
    CHECK(!fates_recall(&f, &a, &seen));
}

TEST(fate, each_has_a_name_and_words)
{
    for (unsigned i = FATE_NONE; i < FATE_COUNT; i++)
        CHECK(fate_name(i)[0] != '\0' && fate_text(i)[0] != '\0');
    for (unsigned i = 0; i < FRESH_REFUSE_COUNT; i++)
        CHECK_STR(fresh_refusal_name((enum fresh_refusal)i), fate_name(FATE_REFUSED + i));
}

TEST_MAIN(TEST_ENTRY(fate, the_last_word_counts), TEST_ENTRY(fate, a_key_is_not_taken_for_another),
    TEST_ENTRY(fate, nothing_is_remembered_without_memory),
    TEST_ENTRY(fate, each_has_a_name_and_words))
