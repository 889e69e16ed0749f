/* codec_unbrotli_test.c -- br unpacked by pieces, and what is refused. */
#include <brotli/encode.h>

#include "t/unit/codec_fixture.h"

/* Into `to`; bytes of it. */
static size_t
pack(int level, struct slice body, char *to, size_t room)
{
    CHECK(BrotliEncoderCompress(
        level, 22, BROTLI_MODE_GENERIC, body.len, (const uint8_t *)body.ptr, &room, (uint8_t *)to));
    return room;
}

/* Made by libbrotli 1.0.9: stored; quality 11; flushed, quality 5; nothing. */
static const struct slice foreign_raw =
    BYTES("\x8b\x08\x80\x73\x74\x6f\x72\x65\x64\x2c\x20\x6e\x6f\x74\x20\x70\x61\x63\x6b\x65"
          "\x64\x03");
static const struct slice foreign_squares =
    BYTES("\x1b\xbf\x02\x20\x8d\x94\xaa\xc3\x3b\x37\x9c\xdd\x92\x1e\xa2\x20\x32\x89\xf1\x09"
          "\x42\x36\x07\xfd\xd7\x8d\x6f\x26\x58\x7c\xa8\x7b\x60\x87\x1f\x23\xaa\x89\x0e\x82"
          "\x38\xc2\xc8\xc2\x00\x43\xc6\x21\xb1\xe7\xeb\x8a\xce\xfe\x06\x7e\xf2\xaf\x0b\x19"
          "\x50\x1c\x54\x33\xa4\xf4\x82\x6b\x15\x6e\xb9\x8c\xeb\x15\xa5\xae\x58\x95\xcf\xa1"
          "\xd0\x2e\x74\x33\x20\x4c\x24\x0f\x8e\x45\xac\x0d\xb9\x36\x6b\x3f\x2e\xba\x0c\xe5"
          "\xac\x8c\x62\x47\xdd\x06\x82\xc9\x49\x93\x65\x2c\x9e\xb5\x31\xd7\xe6\x59\x2f\x8f"
          "\xf1\x71\x7a\x78\x78\x17\x4f\x8b\x87\xb8\x33\xb3\xa9\x33\xb3\x4f\x67\x26\x96\xe7"
          "\x80\x65\xb6\x46\xec\x97\x71\x7c\x91\xe4\xdc\x4b\x14");
static const struct slice foreign_run =
    BYTES("\x8b\x31\x00\x00\x24\xcc\x02\xb1\x40\xba\x01\x18\x00\x08\x69\x78\x65\x64\x03");
static const struct slice foreign_empty = BYTES("\x3b");

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
    check_unpacks(CODEC_UNBROTLI, packed, want);
}

static void
check_refused(const void *packed, size_t len)
{
    check_refused_by(CODEC_UNBROTLI, packed, len);
}

TEST(unbrotli, reads_what_libbrotli_made_at_every_point_where_it_is_cut)
{
    pool_open(1);
    check_foreign(foreign_raw, slice_str("stored, not packed"));
    check_foreign(foreign_squares, body_of(2));
    check_foreign(foreign_run, run_of_f());
    check_foreign(foreign_empty, slice_str(""));
    pool_close();
}

TEST(unbrotli, of_a_body_is_as_it_was_at_every_size_of_pieces)
{
    static char at[LARGE + 1000];
    static const int levels[] = {1, 5};

    pool_open(1);
    for (unsigned i = 0; i < BODIES; i++)
        for (unsigned l = 0; l < ARRAY_LEN(levels); l++) {
            struct slice body = body_of(i);
            size_t len = pack(levels[l], body, at, sizeof(at));

            for (unsigned in = 0; in < ARRAY_LEN(piece_sizes); in++)
                for (unsigned out = 0; out < ARRAY_LEN(piece_sizes); out++) {
                    struct drive_out o;

                    if (piece_sizes[out] > 0 && body.len / piece_sizes[out] > 6000)
                        continue;
                    o = run(CODEC_UNBROTLI, slice_of(at, len), piece_sizes[in], piece_sizes[out]);
                    check_is(body, &o);
                }
        }
    pool_close();
}

/* Up to the last byte that was flushed, before more has come. */
TEST(unbrotli, gives_what_was_flushed_before_more_has_come)
{
    struct drive d = {.out_piece = 7};
    struct drive_out o = {0};
    struct codec *c;

    pool_open(1);
    c = codec_new(pool, CODEC_UNBROTLI);
    CHECK_EQ(CODEC_WANTS_INPUT,
        drive_piece(c, &d, slice_of(foreign_run.ptr, foreign_run.len - 8), CODEC_GOES_ON, &o));
    CHECK_EQ(100, o.len);
    drive_done(&o);
    codec_free(&c);
    pool_close();
}

TEST(unbrotli, of_no_byte_at_all_is_an_error)
{
    pool_open(1);
    check_refused("", 0);
    pool_close();
}

TEST(unbrotli, of_a_body_that_is_cut_anywhere_is_an_error)
{
    const struct slice all[] = {foreign_raw, foreign_squares, foreign_run};

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(all); i++)
        for (size_t len = 1; len < all[i].len; len++)
            check_refused(all[i].ptr, len);
    pool_close();
}

/* A second stream, too: br has no way to say that one follows. */
TEST(unbrotli, of_garbage_behind_the_end_is_an_error)
{
    const struct slice garbage[] = {BYTES("x"), BYTES("\0"), BYTES("\x3b"), foreign_empty,
        BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), foreign_squares};
    char packed[1000];

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(garbage); i++) {
        const struct slice all[][2] = {{foreign_raw, garbage[i]}, {foreign_squares, garbage[i]},
            {foreign_run, garbage[i]}, {foreign_empty, garbage[i]}};

        for (unsigned k = 0; k < ARRAY_LEN(all); k++)
            check_refused(packed, join(packed, all[k], 2));
    }
    pool_close();
}

TEST(unbrotli, of_what_rfc_7932_does_not_know_is_an_error)
{
    static const struct slice bad[] = {
        BYTES("\x11\x00"),             /* a reserved size of the window: larger ones than 16 MiB */
        BYTES("\x1f\x8b\x08\x00\x00"), /* gzip */
        BYTES("\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x99\xe9\xd8\x51"), /* zstd */
        BYTES("\x0b\x02\x80\x61\x62\x63"), /* it ends in the middle of its last block */
        BYTES("<!DOCTYPE html><html>"),
    };

    pool_open(1);
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        check_refused(bad[i].ptr, bad[i].len);
    pool_close();
}

/* There is no checksum: but what is refused and what is unpacked is the same however it comes. */
TEST(unbrotli, of_a_changed_bit_has_one_verdict_however_it_is_cut)
{
    char bad[1000];
    unsigned refused = 0;

    pool_open(1);
    for (size_t at = 0; at < foreign_squares.len; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct drive_out a, b;

            memcpy(bad, foreign_squares.ptr, foreign_squares.len);
            bad[at] = (char)(bad[at] ^ (int)(1u << bit));
            a = run(CODEC_UNBROTLI, slice_of(bad, foreign_squares.len), 0, 0);
            b = run(CODEC_UNBROTLI, slice_of(bad, foreign_squares.len), bit + 1, bit * 3);
            CHECK_EQ(a.said, b.said);
            refused += a.said < 0;
            if (a.said == CODEC_ENDED)
                check_is(slice_of(a.ptr, a.len), &b);
            else
                drive_done(&b);
            drive_done(&a);
        }
    CHECK(refused > 0);
    pool_close();
}

/* ---- memory ---- */

/* As much as the window, when the body fills it. */
TEST(unbrotli, takes_memory_by_the_window_and_gives_it_back_behind_the_body)
{
    static char at[1000];
    char *zeros = calloc(1, 4 << 20);
    struct codec *c;
    uint64_t before, most = 0;
    struct slice in;
    int said;

    in = slice_of(at, pack(5, slice_of(zeros, 4 << 20), at, sizeof(at)));
    pool_open(1);
    c = codec_new(pool, CODEC_UNBROTLI);
    before = usage.bytes[USAGE_REQUEST];
    CHECK(before < 100 * 1000);
    do {
        struct span out = {zeros, 65536};

        said = codec_run(c, &in, &out, CODEC_ENDS);
        if (most < usage.bytes[USAGE_REQUEST] - before)
            most = usage.bytes[USAGE_REQUEST] - before;
    } while (said == CODEC_WANTS_ROOM);
    CHECK_EQ(CODEC_ENDED, said);
    CHECK(most > 4 << 20 && most < 5 << 20);
    codec_free(&c);
    CHECK(usage.bytes[USAGE_REQUEST] < before);
    free(zeros);
    pool_close();
}

TEST(unbrotli, without_memory_says_so_wherever_it_is_missing)
{
    pool_open(1);
    for (unsigned n = 0, said = 0; said != CODEC_ENDED; n++) {
        struct codec *c = codec_new(pool, CODEC_UNBROTLI);
        struct slice in = foreign_squares;
        char at[1000];
        struct span out = {at, sizeof(at)};
        int got;

        CHECK(n < 50);
        allocs = 0;
        fail_at = n;
        got = codec_run(c, &in, &out, CODEC_ENDS);
        fail_at = UINT32_MAX;
        CHECK(got == TERR_NOMEM || (n > 1 && got == CODEC_ENDED));
        said = got < 0 ? 0 : (unsigned)got;
        codec_free(&c);
    }
    pool_close();
}

/* ---- bombs ---- */

static int
unpack_zeros(size_t len)
{
    static char at[400000];
    struct drive d = {
        .kind = CODEC_UNBROTLI, .in_piece = 10, .out_piece = 65536, .out_max = 1 << 20};
    char *zeros = calloc(1, len);
    struct drive_out o;
    int said;

    CHECK(zeros != NULL);
    len = pack(1, slice_of(zeros, len), at, sizeof(at));
    free(zeros);
    o = drive_run(pool, &d, slice_of(at, len));
    said = o.said;
    drive_done(&o);
    return said;
}

TEST(unbrotli, of_a_bomb_ends_at_64_mib)
{
    pool_open(1);
    CHECK_EQ(CODEC_ENDED, unpack_zeros(CODEC_BOMB_BYTES));
    CHECK_EQ(TERR_LIMIT, unpack_zeros(CODEC_BOMB_BYTES + 65536));
    CHECK_EQ(TERR_LIMIT, unpack_zeros(100 << 20));
    pool_close();
}

/* A meta-block of metadata: 16 MiB of it, and nothing comes out (RFC 7932 9.2). */
TEST(unbrotli, of_blocks_with_nothing_in_them_ends_at_64_kib)
{
    static char packed[CODEC_WASTE_BYTES + 2000];
    struct slice in = slice_of(packed, sizeof(packed));
    char room[64];
    struct span out = {room, sizeof(room)};
    struct codec *c;

    /* WBITS 16: 0; ISLAST 0, MNIBBLES 3, reserved 0, MSKIPBYTES 3, MSKIPLEN - 1 = 0xffffff. */
    memset(packed, 'x', sizeof(packed));
    memcpy(packed, "\xec\xff\xff\x7f", 4);
    pool_open(1);
    c = codec_new(pool, CODEC_UNBROTLI);
    in.len = CODEC_WASTE_BYTES - 100;
    CHECK_EQ(CODEC_WANTS_INPUT, codec_run(c, &in, &out, CODEC_GOES_ON));
    in.len = 1000;
    CHECK_EQ(TERR_LIMIT, codec_run(c, &in, &out, CODEC_GOES_ON));
    codec_free(&c);
    pool_close();
}

TEST_MAIN(TEST_ENTRY(unbrotli, reads_what_libbrotli_made_at_every_point_where_it_is_cut),
    TEST_ENTRY(unbrotli, of_a_body_is_as_it_was_at_every_size_of_pieces),
    TEST_ENTRY(unbrotli, gives_what_was_flushed_before_more_has_come),
    TEST_ENTRY(unbrotli, of_no_byte_at_all_is_an_error),
    TEST_ENTRY(unbrotli, of_a_body_that_is_cut_anywhere_is_an_error),
    TEST_ENTRY(unbrotli, of_garbage_behind_the_end_is_an_error),
    TEST_ENTRY(unbrotli, of_what_rfc_7932_does_not_know_is_an_error),
    TEST_ENTRY(unbrotli, of_a_changed_bit_has_one_verdict_however_it_is_cut),
    TEST_ENTRY(unbrotli, takes_memory_by_the_window_and_gives_it_back_behind_the_body),
    TEST_ENTRY(unbrotli, without_memory_says_so_wherever_it_is_missing),
    TEST_ENTRY(unbrotli, of_a_bomb_ends_at_64_mib),
    TEST_ENTRY(unbrotli, of_blocks_with_nothing_in_them_ends_at_64_kib))
