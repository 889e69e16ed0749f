/* codec_fixture.h -- what the tests of all kinds of codecs have in common: a pool, bodies, and what holds of each kind. */
#ifndef TARN_CODEC_FIXTURE_H
#define TARN_CODEC_FIXTURE_H

#include <limits.h>
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
static uint64_t most_bytes; /* that were counted at a time */

void *__real_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__real_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);

void *
__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size)
{
    void *p = allocs++ == fail_at ? NULL : __real_usage_alloc(u, kind, size);

    if (u != NULL && most_bytes < u->bytes[kind])
        most_bytes = u->bytes[kind];
    return p;
}

void *
__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size)
{
    void *p = allocs++ == fail_at ? NULL : __real_usage_calloc(u, kind, size);

    if (u != NULL && most_bytes < u->bytes[kind])
        most_bytes = u->bytes[kind];
    return p;
}

static inline void
pool_open(unsigned most)
{
    memset(&usage, 0, sizeof(usage));
    pool = codec_pool_new(&usage, most);
    CHECK(pool != NULL);
}

static inline void
pool_close(void)
{
    codec_pool_free(&pool);
    CHECK(pool == NULL);
    for (unsigned i = 0; i < USAGE_KINDS; i++)
        CHECK_EQ(0, usage.bytes[i]);
}

static inline struct drive_out
run(enum codec_kind kind, struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.kind = kind, .in_piece = in_piece, .out_piece = out_piece};

    return drive_run(pool, &d, body);
}

static inline void
check_is(struct slice want, struct drive_out *got)
{
    CHECK_EQ(CODEC_ENDED, got->said);
    CHECK_EQ(want.len, got->len);
    if (want.len > 0)
        CHECK_MEM(want.ptr, got->ptr, want.len);
    drive_done(got);
}

/* `packed` is refused however it is cut. */
static inline void
check_refused_by(enum codec_kind kind, const void *packed, size_t len)
{
    for (size_t piece = 0; piece < 4; piece++) {
        struct drive_out o = run(kind, slice_of(packed, len), piece, piece * piece);

        CHECK_EQ(TERR_FRAMING, o.said);
        drive_done(&o);
    }
}

/* ---- bodies ---- */

static inline size_t
put_squares(char *to, unsigned lines)
{
    size_t len = 0;

    for (unsigned i = 0; i < lines; i++)
        len += (size_t)sprintf(to + len, "%u squared is %u\n", i, i * i);
    return len;
}

static inline size_t
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
static inline size_t
put_mixture(char *to)
{
    size_t len = put_squares(to, 3000);

    len += put_noise(to + len, 70000);
    len += put_squares(to + len, 3000);
    memset(to + len, 'r', 70000);
    return len + 70000;
}

/* Each kind of body once. */
static inline struct slice
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

/* gzip: 10 bytes of header, 8 of trailer; 6 and 8 are ISA-L's own bounds.  zstd: 6 to 18, and 4. */
static const size_t piece_sizes[] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 64, 331, 1000, 40000, 0};

/* ---- what holds of each kind; kinds[0] packs, and kinds[1] unpacks ---- */

static inline void
check_round_trip(
    const enum codec_kind kinds[2], struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.kind = kinds[0], .in_piece = in_piece, .out_piece = out_piece};
    struct drive_out packed, got;

    /* A large body in tiny pieces takes long. */
    if ((in_piece > 0 && body.len / in_piece > 6000) ||
        (out_piece > 0 && body.len / out_piece > 6000))
        return;
    d.ends_alone = out_piece % 2 == 1;
    packed = drive_run(pool, &d, body);
    CHECK_EQ(CODEC_ENDED, packed.said);
    got = run(kinds[1], slice_of(packed.ptr, packed.len), in_piece, out_piece);
    drive_done(&packed);
    check_is(body, &got);
}

static inline void
check_round_trips(const enum codec_kind kinds[2])
{
    pool_open(1);
    for (unsigned i = 0; i < BODIES; i++)
        for (unsigned in = 0; in < ARRAY_LEN(piece_sizes); in++)
            for (unsigned out = 0; out < ARRAY_LEN(piece_sizes); out++)
                check_round_trip(kinds, body_of(i), piece_sizes[in], piece_sizes[out]);
    pool_close();
}

/* Equal bodies give equal bytes, whatever the memory held before. */
static inline void
check_equal(enum codec_kind kind)
{
    struct drive d = {.kind = kind, .in_piece = 1000, .out_piece = 5000, .flush_every = 3};
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

/* Pieces of the body are flushed one by one, and unpacked as they come. */
static inline void
check_flushes(const enum codec_kind kinds[2], struct slice body, size_t in_piece, size_t out_piece)
{
    struct drive d = {.out_piece = out_piece}, all = {0};
    struct codec *zip = codec_new(pool, kinds[0]), *unzip = codec_new(pool, kinds[1]);
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

static inline void
check_all_flushes(const enum codec_kind kinds[2])
{
    pool_open(1);
    for (unsigned i = 1; i < BODIES; i++)
        for (unsigned out = 0; out < ARRAY_LEN(piece_sizes); out++) {
            struct slice body = body_of(i);

            check_flushes(kinds, body, 16384, piece_sizes[out]);
            body.len = body.len > 3000 ? 3000 : body.len;
            check_flushes(kinds, body, 1, piece_sizes[out]);
        }
    pool_close();
}

/* A body of six bytes is flushed, in `want` bytes, and a flush with nothing new writes nothing. */
static inline void
check_flushed_once(enum codec_kind kind, size_t want)
{
    struct drive d = {.kind = kind};

    pool_open(1);
    for (d.out_piece = 1; d.out_piece < 40; d.out_piece++) {
        struct codec *c = codec_new(pool, kind);
        struct drive_out o = {0};

        CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_str("a body"), CODEC_FLUSH, &o));
        CHECK_EQ(want, o.len); /* whatever room there was at a time */
        for (unsigned i = 0; i < 3; i++)
            CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_of(NULL, 0), CODEC_FLUSH, &o));
        CHECK_EQ(want, o.len);
        codec_free(&c);
        drive_done(&o);
    }
    pool_close();
}

#define BYTES(literal) ((struct slice){"" literal, sizeof(literal) - 1})

/* Byte by byte through a codec: `at` bytes, then the others. */
static inline void
check_split(enum codec_kind kind, struct slice packed, size_t at, size_t room, struct slice want)
{
    struct drive d = {.out_piece = room};
    struct codec *c = codec_new(pool, kind);
    struct drive_out o = {0};

    CHECK_EQ(CODEC_WANTS_INPUT, drive_piece(c, &d, slice_of(packed.ptr, at), CODEC_GOES_ON, &o));
    o.said = drive_piece(c, &d, slice_of(packed.ptr + at, packed.len - at), CODEC_ENDS, &o);
    codec_free(&c);
    check_is(want, &o);
}

static inline void
check_unpacks(enum codec_kind kind, struct slice packed, struct slice want)
{
    static const size_t rooms[] = {1, 2, 3, 7, 8, 0};
    struct drive_out o;

    for (unsigned i = 0; i < ARRAY_LEN(rooms); i++) {
        for (size_t at = 0; at <= packed.len; at++)
            check_split(kind, packed, at, rooms[i], want);
        for (size_t piece = 1; piece < 30; piece++) {
            o = run(kind, packed, piece, rooms[i]);
            check_is(want, &o);
        }
    }
}

static inline size_t
join(char *to, const struct slice *parts, unsigned n)
{
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        memcpy(to + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    return len;
}

#endif
