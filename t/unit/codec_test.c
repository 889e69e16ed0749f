/* codec_test.c -- gzip packed and unpacked by pieces, what is refused, and what a pool may take. */
#include <stdio.h>

#include "daemon/base/usage.h"
#include "t/unit/codec_drive.h"
#include "t/unit/test.h"

enum {
    LARGE = 300000
};

static struct usage usage;
static struct codec_pool *pool;

/* Of the allocations the fail_at-th fails. */
static unsigned fail_at = UINT32_MAX, allocs;

void *__real_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__real_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);

void *
__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return allocs++ == fail_at ? NULL : __real_usage_alloc(u, kind, size);
}

void *
__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return allocs++ == fail_at ? NULL : __real_usage_calloc(u, kind, size);
}

static void
pool_open(unsigned most)
{
    memset(&usage, 0, sizeof(usage));
    pool = codec_pool_new(&usage, most);
    CHECK(pool != NULL);
}

static void
pool_close(void)
{
    codec_pool_free(&pool);
    CHECK(pool == NULL);
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        CHECK_EQ(0, usage.bytes[i]);
}

static struct drive_out
run(enum codec_kind kind, struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.kind = kind, .in_piece = in_piece, .out_piece = out_piece};

    return drive_run(pool, &d, body);
}

static void
check_is(struct slice want, struct drive_out *got)
{
    CHECK_EQ(CODEC_ENDED, got->said);
    CHECK_EQ(want.len, got->len);
    if (want.len > 0)
        CHECK_MEM(want.ptr, got->ptr, want.len);
    drive_done(got);
}

/* `packed` is refused however it is cut. */
static void
check_refused(const void *packed, size_t len)
{
    for (size_t piece = 0; piece < 4; piece++) {
        struct drive_out o = run(CODEC_GUNZIP, slice_of(packed, len), piece, piece * piece);

        CHECK_EQ(TERR_FRAMING, o.said);
        drive_done(&o);
    }
}

/* ---- bodies ---- */

static size_t
put_squares(char *to, unsigned lines)
{
    size_t len = 0;

    for (unsigned i = 0; i < lines; i++)
        len += (size_t)sprintf(to + len, "%u squared is %u\n", i, i * i);
    return len;
}

static size_t
put_noise(char *to, size_t len)
{
    uint32_t x = 1;

    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        to[i] = (char)(x >> 24);
    }
    return len;
}

/* Text, noise, text again, and a run of one byte. */
static size_t
put_mixture(char *to)
{
    size_t len = put_squares(to, 3000);

    len += put_noise(to + len, 70000);
    len += put_squares(to + len, 3000);
    memset(to + len, 'r', 70000);
    return len + 70000;
}

/* Each kind of body once. */
static struct slice
body_of(unsigned which)
{
    static char at[LARGE];

    switch (which) {
    case 0:
        return slice_of(at, 0);
    case 1:
        return slice_of("a", 1);
    case 2:
        return slice_of(at, put_squares(at, 40));
    case 3:
        return slice_of(at, put_noise(at, 5000));
    case 4:
        return slice_of(at, put_mixture(at));
    default:
        memset(at, 0, LARGE);
        return slice_of(at, LARGE);
    }
}

enum {
    BODIES = 6
};

/* ---- packing ---- */

/* 10 bytes of header, 8 of trailer; 6 and 8 are ISA-L's own bounds. */
static const size_t piece_sizes[] = {
    1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 17, 18, 64, 331, 1000, 40000, 0};

static void
check_round_trip(struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.kind = CODEC_GZIP, .in_piece = in_piece, .out_piece = out_piece};
    struct drive_out packed, got;

    /* A large body in tiny pieces takes long. */
    if ((in_piece > 0 && body.len / in_piece > 6000) ||
        (out_piece > 0 && body.len / out_piece > 6000))
        return;
    d.ends_alone = out_piece % 2 == 1;
    packed = drive_run(pool, &d, body);
    CHECK_EQ(CODEC_ENDED, packed.said);
    got = run(CODEC_GUNZIP, slice_of(packed.ptr, packed.len), in_piece, out_piece);
    drive_done(&packed);
    check_is(body, &got);
}

TEST(gzip, of_a_body_is_unpacked_at_every_size_of_pieces)
{
    pool_open(1);
    for (unsigned i = 0; i < BODIES; i++)
        for (unsigned in = 0; in < ARRAY_LEN(piece_sizes); in++)
            for (unsigned out = 0; out < ARRAY_LEN(piece_sizes); out++)
                check_round_trip(body_of(i), piece_sizes[in], piece_sizes[out]);
    pool_close();
}

TEST(gzip, of_equal_bodies_is_equal_whatever_the_pool_packed_before)
{
    struct drive d = {.kind = CODEC_GZIP, .in_piece = 1000, .out_piece = 5000, .flush_every = 3};
    struct drive_out first[BODIES], o;

    for (unsigned i = 0; i < BODIES; i++) {
        pool_open(1);
        first[i] = drive_run(pool, &d, body_of(i));
        pool_close();
    }
    pool_open(1);
    for (unsigned i = 0; i < 3 * BODIES; i++) {
        o = drive_run(pool, &d, body_of(i * 5 % BODIES));
        check_is(slice_of(first[i * 5 % BODIES].ptr, first[i * 5 % BODIES].len), &o);
    }
    pool_close();
    for (unsigned i = 0; i < BODIES; i++)
        drive_done(&first[i]);
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

/* Pieces of the body are flushed one by one, and unpacked as they come. */
static void
check_flushes(struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.out_piece = out_piece}, all = {0};
    struct codec *zip = codec_new(pool, CODEC_GZIP), *unzip = codec_new(pool, CODEC_GUNZIP);
    struct drive_out packed = {0}, got = {0};
    size_t done = 0;

    while (done < body.len) {
        size_t len = body.len - done < in_piece ? body.len - done : in_piece, was = packed.len;
        struct slice piece = {body.ptr + done, len};

        /* The first half of a piece is not flushed by itself. */
        CHECK_EQ(CODEC_WANTS_INPUT,
            drive_piece(zip, &d, slice_of(piece.ptr, len / 2), CODEC_GOES_ON, &packed));
        piece = slice_of(piece.ptr + len / 2, len - len / 2);
        CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(zip, &d, piece, CODEC_FLUSH, &packed));
        done += len;
        piece = slice_of(packed.ptr + was, packed.len - was);
        CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(unzip, &all, piece, CODEC_GOES_ON, &got));
        CHECK_EQ(done, got.len);
        CHECK_MEM(body.ptr, got.ptr, done);
    }
    codec_free(&zip);
    codec_free(&unzip);
    drive_done(&packed);
    drive_done(&got);
}

TEST(gzip, that_was_flushed_is_readable_up_to_the_last_byte)
{
    pool_open(1);
    for (unsigned i = 1; i < BODIES; i++)
        for (unsigned out = 0; out < ARRAY_LEN(piece_sizes); out++) {
            check_flushes(body_of(i), 16384, piece_sizes[out]);
            check_flushes(slice_of(body_of(i).ptr, body_of(i).len > 3000 ? 3000 : body_of(i).len),
                1, piece_sizes[out]);
        }
    pool_close();
}

TEST(gzip, is_flushed_once_however_often_it_is_said)
{
    struct drive d = {.kind = CODEC_GZIP};

    pool_open(1);
    for (d.out_piece = 1; d.out_piece < 40; d.out_piece++) {
        struct codec *c = codec_new(pool, CODEC_GZIP);
        struct drive_out o = {0};
        size_t len;

        CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_str("a body"), CODEC_FLUSH, &o));
        len = o.len;
        CHECK_EQ(22, len); /* whatever room there was at a time */
        for (unsigned i = 0; i < 3; i++)
            CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_of(NULL, 0), CODEC_FLUSH, &o));
        CHECK_EQ(len, o.len);
        codec_free(&c);
        drive_done(&o);
    }
    pool_close();
}

/* ---- unpacking ---- */

#define BYTES(literal) ((struct slice){"" literal, sizeof(literal) - 1})

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

/* Byte by byte through a codec: `at` bytes, then the others. */
static void
check_split(struct slice packed, size_t at, size_t room, struct slice want)
{
    struct drive d = {.out_piece = room};
    struct codec *c = codec_new(pool, CODEC_GUNZIP);
    struct drive_out o = {0};

    CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_of(packed.ptr, at), CODEC_GOES_ON, &o));
    o.said = drive_piece(c, &d, slice_of(packed.ptr + at, packed.len - at), CODEC_ENDS, &o);
    codec_free(&c);
    check_is(want, &o);
}

static void
check_foreign(struct slice packed, struct slice want)
{
    static const size_t rooms[] = {1, 2, 3, 7, 8, 0};
    struct drive_out o;

    for (unsigned i = 0; i < ARRAY_LEN(rooms); i++) {
        for (size_t at = 0; at <= packed.len; at++)
            check_split(packed, at, rooms[i], want);
        for (size_t piece = 1; piece < 30; piece++) {
            o = run(CODEC_GUNZIP, packed, piece, rooms[i]);
            check_is(want, &o);
        }
    }
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

static size_t
join(char *to, const struct slice *parts, unsigned n)
{
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        memcpy(to + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    return len;
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

/* ---- pool ---- */

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

TEST(codec_pool, takes_less_than_200_kb_to_pack_and_100_kb_to_unpack)
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

TEST(codec_pool, without_memory_gives_none_and_counts_none)
{
    memset(&usage, 0, sizeof(usage));
    allocs = 0;
    fail_at = 0;
    CHECK(codec_pool_new(&usage, 1) == NULL);
    fail_at = UINT32_MAX;
    pool_open(1);
    for (unsigned k = 0; k < CODEC_KINDS; k++) {
        struct codec *c;

        allocs = 0;
        fail_at = 0;
        CHECK(codec_new(pool, (enum codec_kind)k) == NULL);
        CHECK_EQ(0, codec_pool_used(pool, (enum codec_kind)k));
        allocs = 0;
        fail_at = 1; /* a codec is one allocation, and none for the next body */
        c = codec_new(pool, (enum codec_kind)k);
        CHECK(c != NULL);
        codec_free(&c);
        c = codec_new(pool, (enum codec_kind)k);
        CHECK(c != NULL);
        codec_free(&c);
        fail_at = UINT32_MAX;
    }
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
    TEST_ENTRY(gunzip, of_blocks_with_nothing_in_them_ends_at_64_kib),
    TEST_ENTRY(codec_pool, gives_no_more_codecs_of_a_kind_than_it_may),
    TEST_ENTRY(codec_pool, keeps_the_memory_of_a_codec_for_the_next_body),
    TEST_ENTRY(codec_pool, gives_idle_codecs_back_up_to_what_is_kept),
    TEST_ENTRY(codec_pool, takes_less_than_200_kb_to_pack_and_100_kb_to_unpack),
    TEST_ENTRY(codec_pool, without_memory_gives_none_and_counts_none))
