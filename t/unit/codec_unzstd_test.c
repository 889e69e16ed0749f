/* codec_unzstd_test.c -- zstd unpacked by pieces, and what is refused. */
#include "t/unit/codec_fixture.h"

/* Made by libzstd 1.5.4: a raw block; a compressed one; a run, and a frame without size and checksum; nothing. */
static const struct slice foreign_raw =
    BYTES("\x28\xb5\x2f\xfd\x24\x12\x91\x00\x00\x73\x74\x6f\x72\x65\x64\x2c\x20\x6e\x6f\x74"
          "\x20\x70\x61\x63\x6b\x65\x64\xdd\x36\x8e\xec");
static const struct slice foreign_squares =
    BYTES("\x28\xb5\x2f\xfd\x64\xc0\x01\x0d\x05\x00\x52\xcd\x1d\x14\x90\x27\xcd\x01\x80\xfb"
          "\xa2\xd5\xbb\xdb\x6b\xb7\xd1\x92\x2d\xd6\x24\x96\xc7\xa8\xb3\x75\x33\x11\x8d\xf9"
          "\x6c\x8a\xd9\xce\xe6\x6a\x6b\xb6\x22\xcd\x37\x66\xa6\x0a\x3b\xd3\x38\x8b\x9c\xcc"
          "\xa4\x71\x9d\xc6\xe8\xd7\xa2\xe8\x56\x58\xaf\x5a\x75\x2b\xa8\x5f\x6b\x3a\x8d\x76"
          "\x12\xbb\x08\x49\xa7\x1d\xa7\xce\xe0\x37\x0a\x6e\x65\xbc\xda\xe2\x76\xc4\xcf\x86"
          "\x13\x95\xb3\xe4\x22\xc2\x39\x6e\xb2\xf1\x51\xb1\x8d\x5d\xad\x8d\xf4\xcd\xd4\xc9"
          "\x85\x30\x0c\x88\x80\xa0\x00\x38\x10\x0c\x84\x04\x27\xa8\x11\x68\x24\xde\x5e\xdf"
          "\xd0\xd3\x31\x10\x5e\xd8\x07\x9d\xaf\x10\xdc\x48\x07\x9a\x72\x95\x18\xc6\xe2\x8a"
          "\x4c\xbe\x38\x1c\x0d\xb5\x52\x8b\x18\xa9\x06\x9f\x09\x33\xe5");
static const struct slice foreign_run =
    BYTES("\x28\xb5\x2f\xfd\x00\x58\x44\x00\x00\x10\x66\x66\x01\x00\x3f\x01\x2c\x21\x00\x00"
          "\x69\x78\x65\x64");
static const struct slice foreign_empty =
    BYTES("\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x99\xe9\xd8\x51");
static const struct slice skippable = BYTES("\x5a\x2a\x4d\x18\x05\x00\x00\x00hello");
static const struct slice skippable_empty = BYTES("\x50\x2a\x4d\x18\x00\x00\x00\x00");

static struct slice
run_of_f(void)
{
    static char at[104];

    memset(at, 'f', 100);
    memcpy(at + 100, "ixed", 4);
    return slice_of(at, 104);
}

static void
check_foreign(struct slice packed, struct slice want)
{
    check_unpacks(CODEC_UNZSTD, packed, want);
}

static void
check_refused(const void *packed, size_t len)
{
    check_refused_by(CODEC_UNZSTD, packed, len);
}

TEST(unzstd, reads_what_libzstd_made_at_every_point_where_it_is_cut)
{
    pool_open(1);
    check_foreign(foreign_raw, slice_str("stored, not packed"));
    check_foreign(foreign_squares, body_of(2));
    check_foreign(foreign_run, run_of_f());
    check_foreign(foreign_empty, slice_str(""));
    pool_close();
}

TEST(unzstd, takes_frames_one_behind_the_other_for_one_body_and_leaves_out_skippable_ones)
{
    const struct slice frames[] = {skippable, foreign_run, foreign_empty, skippable_empty,
        foreign_empty, foreign_squares, skippable, foreign_raw, skippable};
    const struct slice wants[] = {run_of_f(), body_of(2), slice_str("stored, not packed")};
    char packed[1000], want[2000];
    size_t len = join(packed, frames, ARRAY_LEN(frames));

    pool_open(1);
    check_foreign(slice_of(packed, len), slice_of(want, join(want, wants, ARRAY_LEN(wants))));
    check_foreign(skippable, slice_str(""));
    pool_close();
}

TEST(unzstd, of_no_byte_at_all_is_an_error)
{
    pool_open(1);
    check_refused("", 0);
    pool_close();
}

TEST(unzstd, of_a_frame_that_is_cut_anywhere_is_an_error)
{
    const struct slice all[] = {
        foreign_raw, foreign_squares, foreign_run, foreign_empty, skippable, skippable_empty};
    char packed[1000];

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
        const struct slice parts[] = {foreign_raw, all[i]};

        (void)join(packed, parts, 2);
        for (size_t len = 1; len < all[i].len; len++) {
            check_refused(all[i].ptr, len);
            check_refused(packed, foreign_raw.len + len);
        }
    }
    pool_close();
}

TEST(unzstd, of_garbage_behind_the_last_frame_is_an_error)
{
    const struct slice garbage[] = {BYTES("x"), BYTES("\0"), BYTES("\x28"), BYTES("\x28\xb5\x2f"),
        BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), BYTES("some more text, and more")};
    char packed[1000];

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(garbage); i++) {
        const struct slice parts[] = {foreign_raw, garbage[i]}, run[] = {foreign_run, garbage[i]};

        check_refused(packed, join(packed, parts, 2));
        check_refused(packed, join(packed, run, 2));
    }
    pool_close();
}

/* Some bits belong to codes of symbols that do not occur. */
TEST(unzstd, of_any_bit_that_was_changed_behind_the_header_is_an_error_or_the_same_body)
{
    char bad[1000];
    unsigned same = 0;

    pool_open(1);
    for (size_t at = 5; at < foreign_squares.len; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct drive_out o;

            memcpy(bad, foreign_squares.ptr, foreign_squares.len);
            bad[at] = (char)(bad[at] ^ (int)(1u << bit));
            o = run(CODEC_UNZSTD, slice_of(bad, foreign_squares.len), bit, bit * 3);
            if (o.said == CODEC_ENDED) {
                same++;
                check_is(body_of(2), &o);
            }
            CHECK(o.said >= 0 || o.said == TERR_FRAMING);
            drive_done(&o);
        }
    CHECK(same < 30);
    pool_close();
}

TEST(unzstd, of_another_size_than_its_header_says_is_an_error)
{
    pool_open(1);
    check_refused("\x28\xb5\x2f\xfd\x20\x05\x01\x00\x00", 9);   /* a raw block of no byte */
    check_refused("\x28\xb5\x2f\xfd\x20\x05\x05\x00\x00", 9);   /* a compressed one */
    check_refused("\x28\xb5\x2f\xfd\x20\x05\x23\x00\x00z", 10); /* a run of 4 */
    check_refused("\x28\xb5\x2f\xfd\x20\x05\x33\x00\x00z", 10); /* of 6 */
    check_foreign(BYTES("\x28\xb5\x2f\xfd\x20\x05\x2b\x00\x00z"), slice_str("zzzzz"));
    pool_close();
}

/* Formats of libzstd before version 0.8, some of which the distributions' libraries read. */
TEST(unzstd, of_a_format_of_before_rfc_8878_is_an_error)
{
    char old[40] = {0};

    pool_open(1);
    for (char version = '\x20'; version < '\x28'; version++) {
        memcpy(old, "?\xb5\x2f\xfd\x00\x58\x44", 7);
        old[0] = version;
        check_refused(old, 7);
        check_refused(old, sizeof(old));
    }
    check_refused("\x1e\xb5\x2f\xfd\x00\x00\x00\x00", 8);
    pool_close();
}

TEST(unzstd, of_a_frame_that_names_a_dictionary_is_an_error)
{
    char packed[100];
    const struct slice parts[] = {
        BYTES("\x28\xb5\x2f\xfd\x25\x07\x12"), slice_of(foreign_raw.ptr + 6, foreign_raw.len - 6)};

    pool_open(1);
    check_refused(packed, join(packed, parts, 2));
    packed[5] = 0; /* number 0 is none */
    check_foreign(slice_of(packed, foreign_raw.len + 1), slice_str("stored, not packed"));
    pool_close();
}

/* ---- windows ---- */

/* A frame of three bytes, with this window descriptor (RFC 8878 3.1.1.1.2); or, with 0, of so many bytes. */
static int
unpack_window(unsigned descriptor, uint32_t size, uint64_t *memory)
{
    char packed[] = "\x28\xb5\x2f\xfd\x00\x00\x19\x00\x00"
                    "abc";
    char sized[] = "\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x00\x00\x00\x00";
    struct slice in = slice_of(packed, 12);
    char room[10];
    struct span out = {room, sizeof(room)};
    struct codec *c = codec_new(pool, CODEC_UNZSTD);
    uint64_t before;
    int said;

    codec_free(&c);
    codec_pool_trim(pool, 0);
    c = codec_new(pool, CODEC_UNZSTD);
    before = usage.bytes[USAGE_REQUEST];

    packed[5] = (char)descriptor;
    if (descriptor == 0) {
        memcpy(sized + 5, &size, 4);
        in = slice_of(sized, 12);
    }
    said = codec_run(c, &in, &out, descriptor == 0 ? CODEC_GOES_ON : CODEC_ENDS);
    *memory = usage.bytes[USAGE_REQUEST] - before;
    codec_free(&c);
    return said;
}

TEST(unzstd, takes_memory_by_the_window_and_none_beyond_8_mib)
{
    uint64_t memory;

    pool_open(1);
    CHECK_EQ(CODEC_ENDED, unpack_window(1, 0, &memory)); /* 1,152 bytes */
    CHECK(memory < 250 * 1000);
    CHECK_EQ(CODEC_ENDED, unpack_window(13 << 3, 0, &memory));
    CHECK(memory > 8 << 20 && memory < 9 << 20);
    CHECK_EQ(TERR_LIMIT, unpack_window(13 << 3 | 1, 0, &memory));
    CHECK_EQ(0, memory);
    CHECK(unpack_window(31 << 3, 0, &memory) < 0); /* more than libzstd reads */
    CHECK_EQ(0, memory);
    CHECK_EQ(CODEC_WANTS_INPUT, unpack_window(0, 8 << 20, &memory));
    CHECK(memory > 8 << 20);
    CHECK_EQ(TERR_LIMIT, unpack_window(0, (8 << 20) + 1, &memory));
    CHECK_EQ(0, memory);
    pool_close();
}

TEST(unzstd, keeps_the_memory_of_a_small_window_for_the_next_body)
{
    uint64_t memory, small;

    pool_open(1);
    CHECK_EQ(CODEC_ENDED, unpack_window(9 << 3, 0, &memory)); /* 512 KiB */
    CHECK(memory < 1 << 20);
    CHECK(usage.bytes[USAGE_REQUEST] > memory);
    small = usage.bytes[USAGE_REQUEST] - memory;
    CHECK_EQ(CODEC_ENDED, unpack_window(10 << 3, 0, &memory));
    CHECK(memory > 1 << 20);
    CHECK_EQ(small, usage.bytes[USAGE_REQUEST]);
    pool_close();
}

/* Each of them wants a window of a byte more than the one before. */
TEST(unzstd, allocates_little_for_frames_that_want_more_and_more)
{
    struct codec *c;
    char frame[] = "\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x00\x03\x00\x00z", room[4096];

    pool_open(1);
    c = codec_new(pool, CODEC_UNZSTD);
    allocs = 0;
    for (uint32_t size = 1; size < 4096; size++) {
        struct slice in = slice_of(frame, 13);
        struct span out = {room, sizeof(room)};

        memcpy(frame + 5, &size, 4);
        frame[9] = (char)(3 | size << 3);
        frame[10] = (char)(size >> 5);
        CHECK_EQ(CODEC_WANTS_INPUT, codec_run(c, &in, &out, CODEC_GOES_ON));
        CHECK_EQ(sizeof(room) - size, out.len);
    }
    CHECK(allocs < 5);
    codec_free(&c);
    pool_close();
}

TEST(unzstd, without_memory_for_the_window_says_so)
{
    struct slice in = foreign_squares;
    char room[1000];
    struct span out = {room, sizeof(room)};
    struct codec *c;

    pool_open(1);
    c = codec_new(pool, CODEC_UNZSTD);
    allocs = 0;
    fail_at = 0;
    CHECK_EQ(TERR_NOMEM, codec_run(c, &in, &out, CODEC_ENDS));
    fail_at = UINT32_MAX;
    codec_free(&c);
    pool_close();
}

/* ---- bombs ---- */

/* A frame of blocks that are each a byte 128 KiB times (RFC 8878 3.1.1.2.2); `blocks` > 0. */
static struct slice
put_bomb(char *to, unsigned blocks, size_t behind)
{
    char *p = to;

    memcpy(p, "\x28\xb5\x2f\xfd\x00\x38", 6); /* 128 KiB of window */
    p += 6;
    for (unsigned i = 1; i <= blocks; i++, p += 4)
        memcpy(p, i < blocks ? "\x02\x00\x10z" : "\x03\x00\x10z", 4);
    for (size_t i = 0; i < behind; i += 8, p += 8) /* so that its ratio is less */
        memcpy(p, skippable_empty.ptr, 8);
    return slice_of(to, (size_t)(p - to));
}

static void
check_bomb(unsigned blocks, size_t behind, int said)
{
    static char at[200000];
    struct drive d = {
        .kind = CODEC_UNZSTD, .in_piece = 1460, .out_piece = 65536, .out_max = 1 << 20};
    struct drive_out o = drive_run(pool, &d, put_bomb(at, blocks, behind));

    CHECK_EQ(said, o.said);
    drive_done(&o);
}

TEST(unzstd, of_a_bomb_ends_at_64_mib)
{
    pool_open(1);
    check_bomb(CODEC_BOMB_BYTES >> 17, 0, CODEC_ENDED);
    check_bomb((CODEC_BOMB_BYTES >> 17) + 1, 0, TERR_LIMIT);
    check_bomb(5000, 0, TERR_LIMIT);
    check_bomb(1, 4000, CODEC_ENDED);
    pool_close();
}

static void
check_waste(const char *frame, size_t len, const char *again, size_t again_len)
{
    struct slice in = slice_of(again, again_len);
    struct codec *c = codec_new(pool, CODEC_UNZSTD);
    char room[64];
    struct span out = {room, sizeof(room)};
    uint64_t most = CODEC_WASTE_BYTES + (128 << 10) + 1000;
    int said = CODEC_WANTS_INPUT;

    if (len > 0) {
        in = slice_of(frame, len);
        CHECK_EQ(CODEC_WANTS_INPUT, codec_run(c, &in, &out, CODEC_GOES_ON));
    }
    while (said == CODEC_WANTS_INPUT && codec_in(c) < most) {
        in = slice_of(again, again_len);
        said = codec_run(c, &in, &out, CODEC_GOES_ON);
    }
    CHECK_EQ(TERR_LIMIT, said);
    CHECK(codec_in(c) > CODEC_WASTE_BYTES);
    codec_free(&c);
}

TEST(unzstd, of_frames_and_blocks_with_nothing_in_them_ends_below_200_kb)
{
    static const char long_skippable[] = "\x50\x2a\x4d\x18\x00\x00\x00\x10";

    pool_open(1);
    check_waste(NULL, 0, foreign_empty.ptr, foreign_empty.len);
    check_waste(NULL, 0, skippable.ptr, skippable.len);
    check_waste(long_skippable, 8, "what is skipped", 15);
    check_waste("\x28\xb5\x2f\xfd\x00\x38", 6, "\0\0\0", 3); /* raw blocks of no byte */
    pool_close();
}

TEST_MAIN(TEST_ENTRY(unzstd, reads_what_libzstd_made_at_every_point_where_it_is_cut),
    TEST_ENTRY(
        unzstd, takes_frames_one_behind_the_other_for_one_body_and_leaves_out_skippable_ones),
    TEST_ENTRY(unzstd, of_no_byte_at_all_is_an_error),
    TEST_ENTRY(unzstd, of_a_frame_that_is_cut_anywhere_is_an_error),
    TEST_ENTRY(unzstd, of_garbage_behind_the_last_frame_is_an_error),
    TEST_ENTRY(unzstd, of_any_bit_that_was_changed_behind_the_header_is_an_error_or_the_same_body),
    TEST_ENTRY(unzstd, of_another_size_than_its_header_says_is_an_error),
    TEST_ENTRY(unzstd, of_a_format_of_before_rfc_8878_is_an_error),
    TEST_ENTRY(unzstd, of_a_frame_that_names_a_dictionary_is_an_error),
    TEST_ENTRY(unzstd, takes_memory_by_the_window_and_none_beyond_8_mib),
    TEST_ENTRY(unzstd, keeps_the_memory_of_a_small_window_for_the_next_body),
    TEST_ENTRY(unzstd, allocates_little_for_frames_that_want_more_and_more),
    TEST_ENTRY(unzstd, without_memory_for_the_window_says_so),
    TEST_ENTRY(unzstd, of_a_bomb_ends_at_64_mib),
    TEST_ENTRY(unzstd, of_frames_and_blocks_with_nothing_in_them_ends_below_200_kb))
