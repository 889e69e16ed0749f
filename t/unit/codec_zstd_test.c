/* codec_zstd_test.c -- zstd packed by pieces, and unpacked as it was. */
#include "t/unit/codec_fixture.h"

static const enum codec_kind kinds[] = {CODEC_ZSTD, CODEC_UNZSTD};

TEST(zstd, of_a_body_is_unpacked_at_every_size_of_pieces)
{
    check_round_trips(kinds);
}

TEST(zstd, of_equal_bodies_is_equal_whatever_the_pool_packed_before)
{
    check_equal(CODEC_ZSTD);
}

TEST(zstd, that_was_flushed_is_readable_up_to_the_last_byte)
{
    check_all_flushes(kinds);
}

/* 6 bytes of header, 3 of a block's, and the body. */
TEST(zstd, is_flushed_once_however_often_it_is_said)
{
    check_flushed_once(CODEC_ZSTD, 15);
}

TEST(zstd, of_an_empty_body_is_a_frame_of_13_bytes_with_a_checksum)
{
    struct drive_out o;

    pool_open(1);
    o = run(CODEC_ZSTD, slice_of(NULL, 0), 0, 0);
    CHECK_EQ(13, o.len);
    CHECK_MEM("\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x99\xe9\xd8\x51", o.ptr, 13);
    drive_done(&o);
    pool_close();
}

TEST(zstd, names_a_window_of_256_kib)
{
    struct drive d = {.kind = CODEC_ZSTD, .in_piece = 1000};
    struct drive_out o;

    pool_open(1);
    o = drive_run(pool, &d, body_of(BODIES));
    CHECK_EQ(0x04, o.ptr[4]); /* a checksum; neither a size nor a single segment */
    CHECK_EQ(8 << 3, o.ptr[5]);
    drive_done(&o);
    pool_close();
}

TEST(zstd, takes_less_than_1500_kb_to_pack)
{
    struct codec *c;
    uint64_t none;

    pool_open(1);
    none = usage.bytes[USAGE_REQUEST];
    c = codec_new(pool, CODEC_ZSTD);
    CHECK(usage.bytes[USAGE_REQUEST] - none < 1500 * 1000);
    codec_free(&c);
    pool_close();
}

TEST(zstd, counts_what_goes_in_and_comes_out)
{
    struct slice in = slice_str("some body");
    char room[100];
    struct span out = {room, sizeof(room)};
    struct codec *c;

    pool_open(1);
    c = codec_new(pool, CODEC_ZSTD);
    CHECK_EQ(0, codec_in(c));
    CHECK_EQ(CODEC_ENDED, codec_run(c, &in, &out, CODEC_ENDS));
    CHECK_EQ(CODEC_ENDED, codec_run(c, &in, &out, CODEC_ENDS)); /* and once more */
    CHECK_EQ(9, codec_in(c));
    CHECK_EQ(sizeof(room) - out.len, codec_out(c));
    codec_free(&c);
    pool_close();
}

/* Up to 128 KiB of a block come before any of it comes out. */
TEST(zstd, of_noise_that_comes_byte_by_byte_is_no_waste)
{
    struct drive d = {.kind = CODEC_ZSTD}, back = {.kind = CODEC_UNZSTD, .in_piece = 64};
    static char noise[LARGE];
    struct slice body = slice_of(noise, put_noise(noise, LARGE));
    struct drive_out packed, got;

    pool_open(1);
    packed = drive_run(pool, &d, body);
    CHECK(packed.len > body.len);
    got = drive_run(pool, &back, slice_of(packed.ptr, packed.len));
    drive_done(&packed);
    check_is(body, &got);
    pool_close();
}

TEST_MAIN(TEST_ENTRY(zstd, of_a_body_is_unpacked_at_every_size_of_pieces),
    TEST_ENTRY(zstd, of_equal_bodies_is_equal_whatever_the_pool_packed_before),
    TEST_ENTRY(zstd, that_was_flushed_is_readable_up_to_the_last_byte),
    TEST_ENTRY(zstd, is_flushed_once_however_often_it_is_said),
    TEST_ENTRY(zstd, of_an_empty_body_is_a_frame_of_13_bytes_with_a_checksum),
    TEST_ENTRY(zstd, names_a_window_of_256_kib), TEST_ENTRY(zstd, takes_less_than_1500_kb_to_pack),
    TEST_ENTRY(zstd, counts_what_goes_in_and_comes_out),
    TEST_ENTRY(zstd, of_noise_that_comes_byte_by_byte_is_no_waste))
