/* removal_test.c -- what last became of a key. */
#include "t/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cache/removal.h"

static struct hash128
key_of(uint64_t lo, uint64_t hi)
{
    return (struct hash128){lo, hi};
}

TEST(removal, the_last_word_counts)
{
    uint64_t places[64] = {0};
    struct removals f;
    struct removal_seen seen;
    struct hash128 a = key_of(UINT64_C(1) << 63, 5), b = key_of(UINT64_C(1) << 62, 6);

    removals_init(&f, places, 64);
    CHECK(!removals_recall(&f, &a, &seen));
    removals_note(&f, &a, REMOVAL_EVICTED);
    removals_note(&f, &b, REMOVAL_REFUSED + FRESH_REFUSE_PRIVATE);
    CHECK(removals_recall(&f, &a, &seen));
    CHECK_EQ(REMOVAL_EVICTED, seen.what);
    CHECK(seen.ago_s >= 0);
    CHECK_STR("evicted", removal_name(seen.what));
    CHECK(removals_recall(&f, &b, &seen));
    CHECK_STR("private", removal_name(seen.what));
    CHECK_STR("Cache-Control says private", removal_text(seen.what));
    removals_note(&f, &a, REMOVAL_PURGED);
    CHECK(removals_recall(&f, &a, &seen));
    CHECK_EQ(REMOVAL_PURGED, seen.what);
}

TEST(removal, a_key_is_not_taken_for_another)
{
    uint64_t places[8] = {0};
    struct removals f;
    struct removal_seen seen;
    struct hash128 a = key_of(UINT64_C(1) << 63, 3), same = key_of(UINT64_C(1) << 62, 3 + 8);

    removals_init(&f, places, 8);
    removals_note(&f, &a, REMOVAL_BANNED);
    CHECK(!removals_recall(&f, &same, &seen)); /* of the same place */
    removals_note(&f, &same, REMOVAL_CUT);
    CHECK(!removals_recall(&f, &a, &seen)); /* and what was there is forgotten */
}

TEST(removal, nothing_is_remembered_without_memory)
{
    struct removals f;
    struct removal_seen seen;
    struct hash128 a = key_of(1, 2);

    removals_init(&f, NULL, 1);
    removals_note(&f, &a, REMOVAL_BANNED);
    CHECK(!removals_recall(&f, &a, &seen));
}

TEST(removal, each_has_a_name_and_words)
{
    for (unsigned i = REMOVAL_NONE; i < REMOVAL_COUNT; i++)
        CHECK(removal_name(i)[0] != '\0' && removal_text(i)[0] != '\0');
    for (unsigned i = 0; i < FRESH_REFUSE_COUNT; i++)
        CHECK_STR(fresh_refusal_name((enum fresh_refusal)i), removal_name(REMOVAL_REFUSED + i));
}

TEST_MAIN(TEST_ENTRY(removal, the_last_word_counts),
    TEST_ENTRY(removal, a_key_is_not_taken_for_another),
    TEST_ENTRY(removal, nothing_is_remembered_without_memory),
    TEST_ENTRY(removal, each_has_a_name_and_words))
