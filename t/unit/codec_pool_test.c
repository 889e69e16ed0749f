/* codec_pool_test.c -- what a pool of codecs may take, of each kind. */
#include "t/unit/codec_fixture.h"

TEST(codec_pool, gives_no_more_codecs_of_a_kind_than_it_may)
{
    struct codec *c[3][CODEC_KINDS];

    pool_open(2);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < CODEC_KINDS; k++) {
            c[i][k] = codec_new(pool, (enum codec_kind)k);
            CHECK_EQ(i < 2, c[i][k] != NULL);
            CHECK_EQ(i < 2 ? i + 1 : 2, codec_pool_used(pool, (enum codec_kind)k));
        }
    codec_free(&c[0][CODEC_GZIP]);
    CHECK(c[0][CODEC_GZIP] == NULL);
    CHECK_EQ(1, codec_pool_used(pool, CODEC_GZIP));
    CHECK(codec_new(pool, CODEC_GUNZIP) == NULL);
    c[0][CODEC_GZIP] = codec_new(pool, CODEC_GZIP);
    CHECK(c[0][CODEC_GZIP] != NULL);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < CODEC_KINDS; k++)
            codec_free(&c[i][k]); /* NULL among them */
    pool_close();
}

TEST(codec_pool, keeps_the_memory_of_a_codec_for_the_next_body)
{
    uint64_t none, one;

    pool_open(3);
    none = usage.bytes[USAGE_REQUEST];
    for (unsigned i = 0; i < 5; i++) {
        struct codec *c = codec_new(pool, CODEC_GZIP);

        if (i == 0)
            one = usage.bytes[USAGE_REQUEST];
        CHECK_EQ(one, usage.bytes[USAGE_REQUEST]);
        codec_free(&c);
    }
    CHECK(one > none);
    codec_pool_trim(pool, 1);
    CHECK_EQ(one, usage.bytes[USAGE_REQUEST]);
    codec_pool_trim(pool, 0);
    CHECK_EQ(none, usage.bytes[USAGE_REQUEST]);
    pool_close();
}

TEST(codec_pool, gives_idle_codecs_back_up_to_what_is_kept)
{
    struct codec *c[3];
    uint64_t three;

    pool_open(3);
    for (unsigned i = 0; i < 3; i++)
        c[i] = codec_new(pool, CODEC_GUNZIP);
    three = usage.bytes[USAGE_REQUEST];
    codec_pool_trim(pool, 0); /* none is idle */
    CHECK_EQ(three, usage.bytes[USAGE_REQUEST]);
    for (unsigned i = 0; i < 3; i++)
        codec_free(&c[i]);
    codec_pool_trim(pool, 2);
    CHECK(usage.bytes[USAGE_REQUEST] < three);
    CHECK(usage.bytes[USAGE_REQUEST] > three / 2);
    pool_close();
}

TEST(codec_pool, of_gzip_takes_less_than_200_kb_to_pack_and_100_kb_to_unpack)
{
    struct codec *c;
    uint64_t none, zip;

    pool_open(1);
    none = usage.bytes[USAGE_REQUEST];
    c = codec_new(pool, CODEC_GZIP);
    zip = usage.bytes[USAGE_REQUEST] - none;
    CHECK(zip < 200 * 1000);
    codec_free(&c);
    c = codec_new(pool, CODEC_GUNZIP);
    CHECK(usage.bytes[USAGE_REQUEST] - none - zip < 100 * 1000);
    codec_free(&c);
    pool_close();
}

/* The n-th allocation fails: no codec, or it says so; and nothing stays counted. */
TEST(codec_pool, without_memory_gives_none_and_counts_none)
{
    memset(&usage, 0, sizeof(usage));
    allocs = 0;
    fail_at = 0;
    CHECK(codec_pool_new(&usage, 1) == NULL);
    fail_at = UINT32_MAX;
    pool_open(1);
    for (unsigned k = 0; k < CODEC_KINDS; k++) {
        struct codec *c = NULL;

        for (unsigned n = 0; c == NULL; n++) {
            CHECK(n < 5);
            CHECK_EQ(0, codec_pool_used(pool, (enum codec_kind)k));
            allocs = 0;
            fail_at = n;
            c = codec_new(pool, (enum codec_kind)k);
            CHECK(n > 0 || c == NULL);
        }
        fail_at = UINT32_MAX;
        CHECK_EQ(1, codec_pool_used(pool, (enum codec_kind)k));
        codec_free(&c);
    }
    pool_close();
}

TEST(codec_pool, allocates_nothing_for_the_next_body_that_is_packed)
{
    static const enum codec_kind kinds[] = {CODEC_GZIP, CODEC_GUNZIP, CODEC_ZSTD, CODEC_UNZSTD};

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        struct drive_out first = run(kinds[i], slice_of(NULL, 0), 0, 0), next;

        allocs = 0;
        fail_at = 0;
        next = run(kinds[i], slice_of(NULL, 0), 0, 0);
        fail_at = UINT32_MAX;
        CHECK_EQ(first.said, next.said);
        drive_done(&first);
        drive_done(&next);
    }
    pool_close();
}

TEST_MAIN(TEST_ENTRY(codec_pool, gives_no_more_codecs_of_a_kind_than_it_may),
    TEST_ENTRY(codec_pool, keeps_the_memory_of_a_codec_for_the_next_body),
    TEST_ENTRY(codec_pool, gives_idle_codecs_back_up_to_what_is_kept),
    TEST_ENTRY(codec_pool, of_gzip_takes_less_than_200_kb_to_pack_and_100_kb_to_unpack),
    TEST_ENTRY(codec_pool, without_memory_gives_none_and_counts_none),
    TEST_ENTRY(codec_pool, allocates_nothing_for_the_next_body_that_is_packed))
