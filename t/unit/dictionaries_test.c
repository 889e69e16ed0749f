/* dictionaries_test.c -- what is kept, for which site, and what leaves for it. */
#include "t/unit/test.h"

#include "daemon/proxy/dictionaries.h"
#include "t/unit/storage_fixture.h"

enum {
    MOST = 64 << 10,
};

static struct storage *store;
static struct dictionaries *all;
static const struct hash128 here = {1, 2}, there = {1, 3};
static uint8_t hash[32];

static const uint8_t *
named(unsigned n)
{
    memset(hash, 0, sizeof(hash));
    hash[1] = (uint8_t)n;
    hash[31] = 7;
    return hash;
}

static void
open_all(void)
{
    store = store_open("malloc", UINT64_C(16) << 20, "");
    CHECK_EQ(0, dictionaries_open(&all, store, MOST));
}

static void
close_all(void)
{
    dictionaries_close(&all);
    store_close(store);
}

static bool
has(unsigned n, const struct hash128 *site)
{
    struct dictionary *d = dictionaries_find(all, named(n), site);

    if (d == NULL)
        return false;
    CHECK(memcmp(dictionary_hash_of(d), named(n), sizeof(hash)) == 0);
    dictionaries_drop(all, &d);
    CHECK(d == NULL);
    return true;
}

TEST(dictionaries, one_is_found_by_its_hash_and_for_its_site_alone)
{
    struct dictionary *d;

    open_all();
    CHECK(!dictionaries_may_have(all, named(1)) && !has(1, &here));
    CHECK(dictionaries_add(all, named(1), &here, SLICE_LIT("the content")));
    CHECK(dictionaries_may_have(all, named(1)) && has(1, &here));
    CHECK(!has(1, &there) && !has(2, &here) && !dictionaries_may_have(all, named(2)));
    d = dictionaries_find(all, named(1), &here);
    CHECK(slice_eq(SLICE_LIT("the content"), dictionary_bytes(d)));
    dictionaries_drop(all, &d);
    close_all();
}

TEST(dictionaries, the_one_used_longest_ago_leaves_for_want_of_a_place)
{
    open_all();
    for (unsigned i = 0; i < DICTIONARIES_MAX; i++)
        CHECK(dictionaries_add(all, named(i), &here, SLICE_LIT("x")));
    CHECK(has(0, &here)); /* used: 1 is the oldest now */
    CHECK(dictionaries_add(all, named(200), &here, SLICE_LIT("x")));
    CHECK(has(0, &here) && !has(1, &here) && has(2, &here) && has(200, &here));
    CHECK(!dictionaries_may_have(all, named(1)));
    close_all();
}

TEST(dictionaries, bytes_are_bounded_and_what_is_held_stays_readable)
{
    static const char bytes[MOST / 4] = {1};
    const struct slice large = slice_of(bytes, sizeof(bytes) - 128);
    struct dictionary *held;

    open_all();
    CHECK(dictionaries_add(all, named(0), &here, large));
    held = dictionaries_find(all, named(0), &here);
    for (unsigned i = 1; i < 9; i++)
        CHECK(dictionaries_add(all, named(i), &here, large));
    CHECK(!has(0, &here) && !has(4, &here) && has(5, &here) && has(8, &here));
    CHECK(slice_eq(large, dictionary_bytes(held)));
    dictionaries_drop(all, &held);
    CHECK(!dictionaries_add(all, named(9), &here, slice_of(bytes, sizeof(bytes))));
    CHECK(!dictionaries_add(all, named(9), &here, slice_of(bytes, 0)));
    close_all();
}

TEST(dictionaries, the_same_content_is_kept_once)
{
    open_all();
    for (unsigned i = 0; i < 3 * DICTIONARIES_MAX; i++)
        CHECK(dictionaries_add(all, named(1), &here, SLICE_LIT("same")));
    CHECK(dictionaries_add(all, named(1), &there, SLICE_LIT("same")));
    CHECK(has(1, &here) && has(1, &there));
    close_all();
}

TEST_MAIN(TEST_ENTRY(dictionaries, one_is_found_by_its_hash_and_for_its_site_alone),
    TEST_ENTRY(dictionaries, the_one_used_longest_ago_leaves_for_want_of_a_place),
    TEST_ENTRY(dictionaries, bytes_are_bounded_and_what_is_held_stays_readable),
    TEST_ENTRY(dictionaries, the_same_content_is_kept_once))
