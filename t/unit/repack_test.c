/* repack_test.c -- whole bodies packed again: what comes out, what it takes, and how it is ended. */
#include "daemon/filter/repack.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "t/unit/codec_fixture.h"

enum {
    ROOM = 400000
};

static const uint8_t some_hash[REPACK_HASH_BYTES] = "a hash of some thirty-two bytes";

/* Each form, at each end of its levels and between them. */
static const struct {
    enum repack_form form;
    int level;
    enum codec_kind unpacks; /* CODEC_KINDS: none */
} forms[] = {{REPACK_GZIP, 1, CODEC_GUNZIP}, {REPACK_GZIP, 2, CODEC_GUNZIP},
    {REPACK_GZIP, 3, CODEC_GUNZIP}, {REPACK_BROTLI, 0, CODEC_UNBROTLI},
    {REPACK_BROTLI, 1, CODEC_UNBROTLI}, {REPACK_BROTLI, 5, CODEC_UNBROTLI},
    {REPACK_BROTLI, 9, CODEC_UNBROTLI}, {REPACK_BROTLI, 10, CODEC_UNBROTLI},
    {REPACK_BROTLI, 11, CODEC_UNBROTLI}, {REPACK_ZSTD, 1, CODEC_UNZSTD},
    {REPACK_ZSTD, 3, CODEC_UNZSTD}, {REPACK_ZSTD, 12, CODEC_UNZSTD},
    {REPACK_ZSTD, 19, CODEC_UNZSTD}, {REPACK_DCZ, 1, CODEC_KINDS}, {REPACK_DCZ, 3, CODEC_KINDS},
    {REPACK_DCZ, 19, CODEC_KINDS}};

static struct usage own; /* of the thread that packs */
static char packed[ROOM];

static struct repack
how_of(unsigned i, struct slice dictionary)
{
    struct repack how = {.form = forms[i].form, .level = forms[i].level, .usage = &own};

    if (how.form == REPACK_DCZ) {
        how.dictionary = dictionary;
        how.hash = some_hash;
    }
    return how;
}

/* Into `packed`; *len of it. */
static int
repack_into(const struct repack *how, struct slice in, size_t room, size_t *len)
{
    struct span out = {packed, room};
    int said = repack(how, in, &out);

    CHECK_EQ(0, own.bytes[USAGE_REQUEST]); /* whatever it said, nothing is left */
    *len = (size_t)(out.ptr - packed);
    CHECK_EQ(room - *len, out.len);
    CHECK(said == REPACK_DONE || *len == 0);
    return said;
}

static void
check_dcz(struct slice dictionary, struct slice want, size_t len)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    char *got = malloc(want.len + 1);

    CHECK(len > REPACK_DCZ_HEAD_BYTES);
    CHECK_MEM("\x5e\x2a\x4d\x18\x20\x00\x00\x00", packed, 8);
    CHECK_MEM(some_hash, packed + 8, REPACK_HASH_BYTES);
    CHECK(!ZSTD_isError(ZSTD_DCtx_refPrefix(z, dictionary.ptr, dictionary.len)));
    CHECK_EQ(want.len, ZSTD_decompressDCtx(z, got, want.len + 1, packed + REPACK_DCZ_HEAD_BYTES,
                           len - REPACK_DCZ_HEAD_BYTES));
    CHECK_MEM(want.ptr, got, want.len);
    free(got);
    ZSTD_freeDCtx(z);
}

static void
check_form(unsigned i, struct slice dictionary, struct slice body)
{
    struct repack how = how_of(i, dictionary);
    struct drive_out got;
    size_t len;

    CHECK_EQ(REPACK_DONE, repack_into(&how, body, ROOM, &len));
    if (how.form == REPACK_DCZ) {
        check_dcz(dictionary, body, len);
        return;
    }
    got = run(forms[i].unpacks, slice_of(packed, len), 0, 0);
    check_is(body, &got);
}

TEST(repack, of_each_form_and_level_is_unpacked_as_it_was)
{
    static char older[LARGE];
    size_t len = put_mixture(older);

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(forms); i++)
        for (unsigned b = 0; b <= BODIES; b++) {
            check_form(i, slice_of(NULL, 0), body_of(b));
            check_form(i, slice_of(older, len), body_of(b));
        }
    pool_close();
}

TEST(repack, is_never_more_than_the_room_and_fits_where_it_just_does)
{
    struct slice body = slice_of(body_of(2).ptr, body_of(2).len);

    for (unsigned i = 0; i < ARRAY_LEN(forms); i++) {
        struct repack how = how_of(i, slice_of(NULL, 0));
        char first[2000];
        size_t len, again;

        CHECK_EQ(REPACK_DONE, repack_into(&how, body, ROOM, &len));
        CHECK(len < sizeof(first));
        memcpy(first, packed, len);
        for (size_t room = 0; room < len; room++) {
            packed[room] = '#';
            CHECK_EQ(REPACK_TOO_LARGE, repack_into(&how, body, room, &again));
            CHECK_EQ('#', packed[room]);
        }
        CHECK_EQ(REPACK_DONE, repack_into(&how, body, len, &again));
        CHECK_EQ(len, again);
        CHECK_MEM(first, packed, len);
    }
}

TEST(repack, of_noise_is_not_worth_its_own_length)
{
    static char noise[200000];
    size_t len;

    put_noise(noise, sizeof(noise));
    for (unsigned i = 0; i < ARRAY_LEN(forms); i++) {
        struct repack how = how_of(i, slice_of(NULL, 0));

        if (how.form != REPACK_BROTLI || how.level < 10) /* put_noise() has some order in it */
            CHECK_EQ(REPACK_TOO_LARGE,
                repack_into(&how, slice_of(noise, sizeof(noise)), sizeof(noise) - 1000, &len));
    }
}

/* ---- ends ---- */

static bool
stop_after(void *ctx)
{
    unsigned *left = ctx;

    return (*left)-- == 0;
}

TEST(repack, asks_before_each_64_kib_whether_to_stop)
{
    struct slice body = slice_of(body_of(BODIES).ptr, LARGE);
    unsigned pieces = (LARGE + REPACK_PIECE - 1) / REPACK_PIECE;

    for (unsigned i = 0; i < ARRAY_LEN(forms); i++)
        for (unsigned after = 0; after <= pieces; after++) {
            struct repack how = how_of(i, slice_of(NULL, 0));
            unsigned left = after;
            size_t len;

            how.stop = stop_after;
            how.ctx = &left;
            CHECK_EQ(
                after < pieces ? REPACK_STOPPED : REPACK_DONE, repack_into(&how, body, ROOM, &len));
            CHECK_EQ(after < pieces ? UINT_MAX : 0, left);
        }
}

TEST(repack, without_memory_says_so_wherever_it_is_missing)
{
    size_t len;

    for (unsigned i = 0; i < ARRAY_LEN(forms); i++) {
        struct repack how = how_of(i, slice_of("an older body", 13));
        struct slice body = body_of(how.level < 9 ? 4 : 2);
        int said = TERR_NOMEM;

        for (unsigned n = 0; said == TERR_NOMEM; n++) {
            CHECK(n < 2000);
            allocs = 0;
            fail_at = n;
            said = repack_into(&how, body, ROOM, &len);
            fail_at = UINT32_MAX;
            CHECK(said == TERR_NOMEM || (n > 0 && said == REPACK_DONE));
        }
    }
}

/* ---- memory ---- */

TEST(repack, takes_no_more_memory_than_it_said)
{
    static char older[LARGE];
    size_t len = put_mixture(older);

    for (unsigned i = 0; i < ARRAY_LEN(forms); i++)
        for (unsigned b = 0; b <= BODIES; b++) {
            struct repack how = how_of(i, slice_of(older, b % 2 == 0 ? len : 0));
            struct slice body = body_of(b);

            most_bytes = 0;
            CHECK_EQ(REPACK_DONE, repack_into(&how, body, ROOM, &len));
            CHECK(most_bytes > 0 && most_bytes <= repack_memory(&how, body.len));
        }
    CHECK(repack_memory(&(struct repack){.form = REPACK_GZIP, .level = 3}, LARGE) < 600 * 1000);
    CHECK(repack_memory(&(struct repack){.form = REPACK_BROTLI, .level = 11}, LARGE) < 16 << 20);
    CHECK(repack_memory(&(struct repack){.form = REPACK_ZSTD, .level = 3}, LARGE) < 3 << 20);
}

/* ---- dictionaries ---- */

/* A body of which some lines are other ones than the dictionary's. */
static size_t
put_next_version(char *to)
{
    size_t len = put_squares(to, 5000);

    for (size_t at = 1000; at < len; at += 10000)
        memcpy(to + at, "something new", 13);
    return len;
}

TEST(repack, with_the_older_body_for_a_dictionary_is_the_difference)
{
    static char old[LARGE], next[LARGE];
    struct slice older = slice_of(old, put_squares(old, 5000));
    struct slice body = slice_of(next, put_next_version(next));
    size_t alone, with;

    for (int level = 3; level <= 19; level += 8) {
        struct repack how = {
            .form = REPACK_DCZ, .level = level, .dictionary = older, .hash = some_hash};

        CHECK_EQ(REPACK_DONE, repack_into(&how, body, ROOM, &with));
        CHECK_EQ(REPACK_DONE,
            repack_into(&(struct repack){.form = REPACK_ZSTD, .level = level}, body, ROOM, &alone));
        CHECK(with < 1000 && alone > 10 * with);
    }
}

/* zstd's own dictionaries begin with a number; a response that does is bytes like any other. */
TEST(repack, takes_each_dictionary_for_raw_bytes)
{
    static char older[1000] = "\x37\xa4\x30\xec";

    pool_open(1);
    put_squares(older + 4, 30);
    for (unsigned i = 0; i < ARRAY_LEN(forms); i++)
        if (forms[i].form == REPACK_DCZ)
            check_form(i, slice_of(older, sizeof(older)), body_of(2));
    pool_close();
}

static uint64_t
window_of(const struct repack *how, struct slice body)
{
    ZSTD_frameHeader head;
    size_t len, skip = how->form == REPACK_DCZ ? REPACK_DCZ_HEAD_BYTES : 0;

    CHECK_EQ(REPACK_DONE, repack_into(how, body, ROOM, &len));
    CHECK_EQ(0, ZSTD_getFrameHeader(&head, packed + skip, len - skip));
    CHECK_EQ(body.len, head.frameContentSize);
    CHECK_EQ(1, head.checksumFlag);
    CHECK_EQ(0, head.dictID);
    return head.windowSize;
}

/* RFC 9659 3; and with a dictionary RFC 9842 5: 8 MiB, or 1.25 times its length. */
TEST(repack, names_a_window_that_each_client_takes)
{
    size_t large = 40 << 20;
    char *zeros = calloc(1, large);
    struct slice body = slice_of(zeros, large);
    struct repack how = {.form = REPACK_ZSTD, .level = 1};

    CHECK(zeros != NULL);
    CHECK(window_of(&how, body) <= 8 << 20);
    how.level = 19;
    CHECK(window_of(&how, slice_of(zeros, 9 << 20)) <= 8 << 20);
    CHECK_EQ(5000, window_of(&how, slice_of(zeros, 5000))); /* no more than the body has */
    how = (struct repack){.form = REPACK_DCZ, .level = 1, .hash = some_hash};
    how.dictionary = slice_of(zeros, 1000);
    CHECK_EQ(8 << 20, window_of(&how, body));
    how.dictionary = slice_of(zeros, 14 << 20); /* 17.5 MiB, of which the power of two below */
    CHECK_EQ(16 << 20, window_of(&how, body));
    free(zeros);
}

TEST_MAIN(TEST_ENTRY(repack, of_each_form_and_level_is_unpacked_as_it_was),
    TEST_ENTRY(repack, is_never_more_than_the_room_and_fits_where_it_just_does),
    TEST_ENTRY(repack, of_noise_is_not_worth_its_own_length),
    TEST_ENTRY(repack, asks_before_each_64_kib_whether_to_stop),
    TEST_ENTRY(repack, without_memory_says_so_wherever_it_is_missing),
    TEST_ENTRY(repack, takes_no_more_memory_than_it_said),
    TEST_ENTRY(repack, with_the_older_body_for_a_dictionary_is_the_difference),
    TEST_ENTRY(repack, takes_each_dictionary_for_raw_bytes),
    TEST_ENTRY(repack, names_a_window_that_each_client_takes))
