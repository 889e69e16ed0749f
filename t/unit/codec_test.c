/* codec_test.c -- gzip packed and unpacked by pieces, and what is refused. */
#include "t/unit/codec_fixture.h"

static const enum codec_kind kinds[] = {CODEC_GZIP, CODEC_GUNZIP};

TEST(gzip, of_a_body_is_unpacked_at_every_size_of_pieces)
{
    check_round_trips(kinds);
}

TEST(gzip, of_equal_bodies_is_equal_whatever_the_pool_packed_before)
{
    check_equal(CODEC_GZIP);
}

TEST(gzip, begins_with_a_header_that_says_neither_name_nor_time)
{
    struct drive_out o;

    pool_open(1);
    o = run(CODEC_GZIP, slice_str("abc"), 0, 0);
    CHECK(o.len > 18);
    CHECK_MEM("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", o.ptr, 10);
    CHECK_MEM("\xc2\x41\x24\x35\x03\x00\x00\x00", o.ptr + o.len - 8, 8);
    drive_done(&o);
    pool_close();
}

TEST(gzip, of_an_empty_body_is_a_member_of_20_bytes)
{
    struct drive_out o;

    pool_open(1);
    o = run(CODEC_GZIP, slice_of(NULL, 0), 0, 0);
    CHECK_EQ(20, o.len);
    drive_done(&o);
    pool_close();
}

TEST(gzip, counts_what_goes_in_and_comes_out)
{
    struct slice in = slice_str("some body");
    char room[100];
    struct span out = {room, sizeof(room)};
    struct codec *c;

    pool_open(1);
    c = codec_new(pool, CODEC_GZIP);
    CHECK_EQ(0, codec_in(c));
    CHECK_EQ(CODEC_ENDED, codec_run(c, &in, &out, CODEC_ENDS));
    CHECK_EQ(9, codec_in(c));
    CHECK_EQ(sizeof(room) - out.len, codec_out(c));
    codec_free(&c);
    pool_close();
}

TEST(gzip, that_was_flushed_is_readable_up_to_the_last_byte)
{
    check_all_flushes(kinds);
}

TEST(gzip, is_flushed_once_however_often_it_is_said)
{
    check_flushed_once(CODEC_GZIP, 22);
}

/* ---- unpacking ---- */

static void
check_refused(const void *packed, size_t len)
{
    check_refused_by(CODEC_GUNZIP, packed, len);
}

/* Made by zlib 1.2.13. */
static const struct slice foreign_stored =
    BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x60\x00\x03\x01\x12\x00\xed\xffstored, not packed"
          "\x8a\x6f\xcc\x2c\x12\x00\x00\x00");
static const struct slice foreign_fixed =
    BYTES("\x1f\x8b\x08\x08\x00\x00\x00\x60\x00\x03\x61\x2e\x74\x78\x74\x00\x4b\xcb\xac\x48"
          "\x4d\x51\x48\x43\x22\x93\xf3\x53\x52\x8b\x01\x4e\xd4\xee\x98\x17\x00\x00\x00");
/* 40 lines of put_squares(): a dynamic code, and each field that a header may have. */
static const struct slice foreign_dynamic =
    BYTES("\x1f\x8b\x08\x1f\x00\x00\x00\x60\x00\x03\x06\x00\x41\x42\x02\x00\x78\x79\x73\x71"
          "\x75\x61\x72\x65\x73\x2e\x74\x78\x74\x00\x66\x6f\x72\x74\x79\x20\x6f\x66\x20\x74"
          "\x68\x65\x6d\x00\x05\x31\x5d\xd1\x3b\x0e\x02\x31\x0c\x04\xd0\x7e\x4e\xb1\x47\x88"
          "\x3f\xf1\xc6\xc7\x41\x82\x82\x12\x10\xf7\x67\xb6\xcb\x50\x3a\xb2\xec\x97\xf1\x38"
          "\x3e\xaf\xef\xed\xfd\xb8\x1f\xcf\xcf\x31\x60\x7b\x69\xf0\xbd\x4c\xc4\x5e\x36\x52"
          "\x9a\x0b\x73\xaf\x7d\xa2\xf6\x3a\x0a\xa7\x4c\x6b\xac\xbd\xae\x44\xef\xf5\x32\xd8"
          "\x90\x05\x83\x3c\xf5\x39\x7b\x84\x68\x99\xb0\x50\x56\xc3\x14\xda\x05\x53\x2a\xad"
          "\x56\x8a\x67\x8f\x70\x7d\x71\x8e\x80\xc3\xb9\xab\xf5\x8b\x4c\x4c\xcc\x49\xb3\x8b"
          "\x39\x93\x3d\x1a\xeb\x4a\xb8\x98\xa7\x37\x5c\xcc\xf3\x2c\xb8\x98\x8b\x66\x17\x73"
          "\x5d\x3d\x62\x3e\xaf\x39\x62\x3e\xaf\x5d\x1a\x33\x3d\x21\xe6\xa6\x39\xc4\xdc\xfc"
          "\x57\x68\xce\x83\x9f\x0f\x0d\x7a\x30\xa1\xd0\xa4\x8d\x31\xc6\xd4\x93\xd1\x1d\xa5"
          "\x4f\x3c\x48\x08\xdc\x82\x57\x8b\xf5\x77\x59\x6e\x14\xba\x4d\xde\xff\x07\x85\x15"
          "\x68\x4a\xc0\x02\x00\x00");
static const struct slice foreign_empty =
    BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x60\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00");

static void
check_foreign(struct slice packed, struct slice want)
{
    check_unpacks(CODEC_GUNZIP, packed, want);
}

TEST(gunzip, reads_what_zlib_made_at_every_point_where_it_is_cut)
{
    pool_open(1);
    check_foreign(foreign_stored, slice_str("stored, not packed"));
    check_foreign(foreign_fixed, slice_str("fixed fixed fixed codes"));
    check_foreign(foreign_dynamic, body_of(2));
    check_foreign(foreign_empty, slice_str(""));
    pool_close();
}

TEST(gunzip, takes_members_one_behind_the_other_for_one_body)
{
    const struct slice members[] = {
        foreign_fixed, foreign_empty, foreign_empty, foreign_dynamic, foreign_stored};
    const struct slice wants[] = {
        slice_str("fixed fixed fixed codes"), body_of(2), slice_str("stored, not packed")};
    char packed[1000], want[1000];
    size_t len = join(packed, members, ARRAY_LEN(members));

    pool_open(1);
    check_foreign(slice_of(packed, len), slice_of(want, join(want, wants, ARRAY_LEN(wants))));
    pool_close();
}

TEST(gunzip, of_no_byte_at_all_is_an_error)
{
    pool_open(1);
    check_refused("", 0);
    pool_close();
}

TEST(gunzip, of_a_member_that_is_cut_anywhere_is_an_error)
{
    pool_open(1);
    for (size_t len = 1; len < foreign_dynamic.len; len++)
        check_refused(foreign_dynamic.ptr, len);
    for (size_t len = 1; len < foreign_stored.len; len++)
        check_refused(foreign_stored.ptr, len);
    pool_close();
}

TEST(gunzip, of_a_second_member_that_is_cut_anywhere_is_an_error)
{
    const struct slice members[] = {foreign_fixed, foreign_dynamic};
    char packed[1000];

    pool_open(1);
    (void)join(packed, members, 2);
    for (size_t len = 1; len < foreign_dynamic.len; len++)
        check_refused(packed, foreign_fixed.len + len);
    pool_close();
}

TEST(gunzip, of_garbage_behind_the_last_member_is_an_error)
{
    const struct slice garbage[] = {BYTES("x"), BYTES("\0"), BYTES("\x1f"), BYTES("\x1f\x8b\x08"),
        BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), BYTES("some more text, and more")};
    char packed[1000];

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(garbage); i++) {
        const struct slice parts[] = {foreign_stored, garbage[i]};

        check_refused(packed, join(packed, parts, 2));
    }
    pool_close();
}

/* Byte `at` changed by `bits`. */
static void
check_changed(struct slice packed, size_t at, unsigned bits)
{
    char bad[1000];

    memcpy(bad, packed.ptr, packed.len);
    bad[at] = (char)(bad[at] ^ (int)bits);
    check_refused(bad, packed.len);
}

TEST(gunzip, of_another_magic_method_or_reserved_flag_is_an_error)
{
    pool_open(1);
    for (unsigned at = 0; at < 3; at++)
        for (unsigned bit = 0; bit < 8; bit++)
            check_changed(foreign_stored, at, 1u << bit);
    for (unsigned bit = 5; bit < 8; bit++)
        check_changed(foreign_stored, 3, 1u << bit);
    pool_close();
}

TEST(gunzip, of_a_header_that_is_not_what_its_crc_says_is_an_error)
{
    pool_open(1);
    for (size_t at = 4; at < 46; at++) /* up to the end of its CRC */
        check_changed(foreign_dynamic, at, 1);
    pool_close();
}

TEST(gunzip, of_a_wrong_crc_or_length_is_an_error)
{
    pool_open(1);
    for (size_t at = foreign_dynamic.len - 8; at < foreign_dynamic.len; at++)
        for (unsigned bit = 0; bit < 8; bit++)
            check_changed(foreign_dynamic, at, 1u << bit);
    pool_close();
}

TEST(gunzip, of_any_bit_that_was_changed_in_the_data_is_an_error)
{
    pool_open(1);
    for (size_t at = 46; at < foreign_dynamic.len - 9;
         at++) /* the last byte of the data is padded */
        for (unsigned bit = 0; bit < 8; bit++)
            check_changed(foreign_dynamic, at, 1u << bit);
    pool_close();
}

TEST(gunzip, of_blocks_that_are_none_is_an_error)
{
    static const struct slice blocks[] = {
        BYTES("\x07"),                         /* a reserved type */
        BYTES("\x01\x05\x00\x00\x00hello"),    /* stored: LEN and NLEN disagree */
        BYTES("\x63\x00\x02\x00"),             /* fixed: looks back behind the beginning */
        BYTES("\xed\xff\xff\xff\xff\xff\xff"), /* dynamic: code lengths that fit no code */
    };
    char packed[100];

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(blocks); i++) {
        const struct slice parts[] = {
            slice_of(foreign_stored.ptr, 10), blocks[i], BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")};

        check_refused(packed, join(packed, parts, 3));
    }
    pool_close();
}

/* ---- bombs ---- */

/* A member of zeros: what stands in front of a run of zero bytes, and behind it. */
struct zeros {
    struct slice begins;
    size_t run;
    struct slice ends;
    size_t size; /* unpacked */
};

/* By zlib at level 9: a byte of the first is 1,023, of the second 998. */
static const struct zeros dense = {BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x01\x0d"
                                         "\x00\x00\x00\xc2\xa0\xf7\x4f\x6d\x0f\x07\x14"),
    3875, BYTES("\xf0\x6e\x7f\x2a\xdb\xcf\x00\x09\x3d\x00"), 4000000};
static const struct zeros thin = {BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x31\x01"
                                        "\x00\x00\x00\xc2\xa0\xf5\x4f\x6d\x08\x5f\xa0"),
    1016, BYTES("\x3e\x03\x1c\xea\x38\xa7\x00\x00\x10\x00"), 1 << 20};

static struct drive_out
unpack_zeros(const struct zeros *z, unsigned members)
{
    struct drive d = {
        .kind = CODEC_GUNZIP, .in_piece = 1460, .out_piece = 65536, .out_max = 1 << 20};
    size_t len = z->begins.len + z->run + z->ends.len;
    char *packed = calloc(members, len);
    struct drive_out o;

    CHECK(packed != NULL);
    for (unsigned i = 0; i < members; i++) {
        memcpy(packed + i * len, z->begins.ptr, z->begins.len);
        memcpy(packed + i * len + z->begins.len + z->run, z->ends.ptr, z->ends.len);
    }
    o = drive_run(pool, &d, slice_of(packed, members * len));
    free(packed);
    return o;
}

static void
check_zeros(const struct zeros *z, unsigned members, int said)
{
    struct drive_out o = unpack_zeros(z, members);

    CHECK_EQ(said, o.said);
    drive_done(&o);
}

TEST(gunzip, of_a_bomb_ends_at_64_mib)
{
    pool_open(1);
    check_zeros(&dense, CODEC_BOMB_BYTES / dense.size, CODEC_ENDED);
    check_zeros(&dense, CODEC_BOMB_BYTES / dense.size + 1, TERR_LIMIT);
    check_zeros(&dense, 1000, TERR_LIMIT);
    pool_close();
}

TEST(gunzip, of_what_is_998_times_its_input_goes_on)
{
    pool_open(1);
    check_zeros(&thin, 100, CODEC_ENDED);
    pool_close();
}

/* Empty stored blocks behind the header of a member: five bytes each, and nothing comes out. */
TEST(gunzip, of_blocks_with_nothing_in_them_ends_at_64_kib)
{
    static char packed[10 + 5 * 20000] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff";
    struct slice in = slice_of(packed, sizeof(packed));
    struct codec *c;
    char room[64];
    struct span out = {room, sizeof(room)};

    for (size_t at = 10; at < sizeof(packed); at += 5)
        memcpy(packed + at, "\x00\x00\x00\xff\xff", 5);
    pool_open(1);
    c = codec_new(pool, CODEC_GUNZIP);
    in.len = CODEC_WASTE_BYTES - 100;
    CHECK_EQ(CODEC_WANTS_INPUT, codec_run(c, &in, &out, CODEC_GOES_ON));
    in.len = 1000;
    CHECK_EQ(TERR_LIMIT, codec_run(c, &in, &out, CODEC_GOES_ON));
    codec_free(&c);
    pool_close();
}

TEST_MAIN(TEST_ENTRY(gzip, of_a_body_is_unpacked_at_every_size_of_pieces),
    TEST_ENTRY(gzip, of_equal_bodies_is_equal_whatever_the_pool_packed_before),
    TEST_ENTRY(gzip, begins_with_a_header_that_says_neither_name_nor_time),
    TEST_ENTRY(gzip, of_an_empty_body_is_a_member_of_20_bytes),
    TEST_ENTRY(gzip, counts_what_goes_in_and_comes_out),
    TEST_ENTRY(gzip, that_was_flushed_is_readable_up_to_the_last_byte),
    TEST_ENTRY(gzip, is_flushed_once_however_often_it_is_said),
    TEST_ENTRY(gunzip, reads_what_zlib_made_at_every_point_where_it_is_cut),
    TEST_ENTRY(gunzip, takes_members_one_behind_the_other_for_one_body),
    TEST_ENTRY(gunzip, of_no_byte_at_all_is_an_error),
    TEST_ENTRY(gunzip, of_a_member_that_is_cut_anywhere_is_an_error),
    TEST_ENTRY(gunzip, of_a_second_member_that_is_cut_anywhere_is_an_error),
    TEST_ENTRY(gunzip, of_garbage_behind_the_last_member_is_an_error),
    TEST_ENTRY(gunzip, of_another_magic_method_or_reserved_flag_is_an_error),
    TEST_ENTRY(gunzip, of_a_header_that_is_not_what_its_crc_says_is_an_error),
    TEST_ENTRY(gunzip, of_a_wrong_crc_or_length_is_an_error),
    TEST_ENTRY(gunzip, of_any_bit_that_was_changed_in_the_data_is_an_error),
    TEST_ENTRY(gunzip, of_blocks_that_are_none_is_an_error),
    TEST_ENTRY(gunzip, of_a_bomb_ends_at_64_mib),
    TEST_ENTRY(gunzip, of_what_is_998_times_its_input_goes_on),
    TEST_ENTRY(gunzip, of_blocks_with_nothing_in_them_ends_at_64_kib))
