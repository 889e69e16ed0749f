/* arena_test.c -- memory of requests: aligned, as large as asked for, given back in one go. */
#include <stdalign.h>
#include <string.h>

#include "daemon/base/arena.h"
#include "daemon/base/usage.h"
#include "t/unit/test.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_TEST_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(ARENA_TEST_POISON)
#define ARENA_TEST_POISON 1
#endif
#ifdef ARENA_TEST_POISON
#include <sanitizer/asan_interface.h>
#else
#define ARENA_TEST_POISON 0
#endif

TEST(arena, chunks_are_counted_and_idle_ones_can_go_back)
{
    struct usage u = {.bytes = {0}};
    struct arena_pool pool;
    struct arena a;

    arena_pool_init(&pool, 8, &u);
    arena_init(&a, &pool);
    for (unsigned i = 0; i < 4; i++)
        CHECK(arena_alloc(&a, ARENA_CHUNK / 2 + 1) != NULL);
    CHECK(u.bytes[USAGE_ARENA] >= 4 * ARENA_CHUNK);
    arena_fini(&a);
    CHECK_EQ(4, pool.nidle);
    CHECK(u.bytes[USAGE_ARENA] >= 4 * ARENA_CHUNK); /* they lie ready */
    arena_pool_trim(&pool, 1);
    CHECK_EQ(1, pool.nidle);
    CHECK(u.bytes[USAGE_ARENA] < 2 * ARENA_CHUNK);
    arena_pool_fini(&pool);
    CHECK_EQ(0, u.bytes[USAGE_ARENA]);
}

TEST(arena, one_that_was_never_asked_holds_nothing)
{
    struct arena_pool pool;
    struct arena a;

    arena_pool_init(&pool, 4, NULL);
    arena_init(&a, &pool);
    CHECK(a.chunks == NULL);
    arena_fini(&a);
    CHECK(pool.idle == NULL && pool.nidle == 0);
    arena_pool_fini(&pool);
}

TEST(arena, pieces_are_aligned_and_do_not_overlap)
{
    enum {
        PIECES = 600
    };
    struct arena_pool pool;
    struct arena a;
    unsigned char *piece[PIECES];

    arena_pool_init(&pool, 2, NULL);
    arena_init(&a, &pool);
    for (size_t i = 0; i < PIECES; i++) {
        piece[i] = arena_alloc(&a, i * 17 % 300);
        CHECK(piece[i] != NULL);
        CHECK_EQ(0, (uintptr_t)piece[i] % alignof(uint64_t));
        memset(piece[i], (int)(i & 0xff), i * 17 % 300);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < i * 17 % 300; k++)
            CHECK_EQ(i & 0xff, piece[i][k]);
    }
    arena_fini(&a);
    CHECK_EQ(2, pool.nidle); /* the pool keeps so many, the rest is given back */
    arena_pool_fini(&pool);
}

TEST(arena, every_size_around_a_chunk_can_be_written_to_its_end)
{
    struct arena_pool pool;

    arena_pool_init(&pool, 1, NULL);
    for (size_t size = ARENA_CHUNK - 40; size <= ARENA_CHUNK + 8; size++) {
        struct arena a;
        char *p;

        arena_init(&a, &pool);
        p = arena_alloc(&a, size);
        CHECK(p != NULL);
        memset(p, 'x', size);
        p = arena_alloc(&a, 8);
        CHECK(p != NULL);
        memset(p, 'y', 8);
        arena_fini(&a);
        CHECK_EQ(1, pool.nidle);
    }
    arena_pool_fini(&pool);
}

/* AddressSanitizer then finds a write behind a piece wherever in its chunk the piece lies. */
TEST(arena, the_byte_behind_a_piece_is_poisoned)
{
#if ARENA_TEST_POISON
    struct arena_pool pool;
    struct arena a;
    char *p;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&a, &pool);
    for (size_t size = 1; size <= ARENA_CHUNK + 40; size++) {
        p = arena_alloc(&a, size);
        CHECK(p != NULL);
        CHECK(!__asan_address_is_poisoned(p) && !__asan_address_is_poisoned(p + size - 1));
        CHECK(__asan_address_is_poisoned(p + size));
    }
    arena_fini(&a);
    p = arena_alloc(&a, 100);
    arena_fini(&a);
    CHECK(__asan_address_is_poisoned(p));
    arena_pool_fini(&pool);
#else
    skip(); /* no AddressSanitizer, no poison */
#endif
}

TEST(arena, a_large_piece_has_its_own_chunk_and_the_current_one_stays)
{
    struct arena_pool pool;
    struct arena a;
    char *before, *after;

    arena_pool_init(&pool, 8, NULL);
    arena_init(&a, &pool);
    before = arena_alloc(&a, 16);
    CHECK(arena_alloc(&a, 3 * ARENA_CHUNK) != NULL);
    after = arena_alloc(&a, 16);
    CHECK(after == before + 16);
    arena_fini(&a);
    CHECK_EQ(1, pool.nidle); /* what is larger never enters the pool */
    arena_pool_fini(&pool);
}

TEST(arena, chunks_are_used_again_and_a_finished_arena_too)
{
    struct arena_pool pool;
    struct arena a;
    void *first;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&a, &pool);
    first = arena_alloc(&a, 100);
    arena_fini(&a);
    CHECK_EQ(1, pool.nidle);
    CHECK(arena_alloc(&a, 100) == first);
    CHECK_EQ(0, pool.nidle);
    arena_fini(&a);
    arena_pool_fini(&pool);
    CHECK(pool.idle == NULL && pool.nidle == 0);
}

TEST(arena, sizes_that_would_wrap_are_refused)
{
    struct arena_pool pool;
    struct arena a;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&a, &pool);
    CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX - 6) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX / 2 + 1) == NULL);
    CHECK(a.chunks == NULL);
    CHECK(arena_alloc(&a, 1) != NULL); /* and it works on */
    arena_fini(&a);
    arena_pool_fini(&pool);
}

TEST(arena, a_copy_ends_with_a_nul_and_may_be_of_nothing)
{
    struct arena_pool pool;
    struct arena a;
    struct slice s;

    arena_pool_init(&pool, 1, NULL);
    arena_init(&a, &pool);
    s = arena_copy(&a, SLICE_LIT("a\0b"));
    CHECK_EQ(3, s.len);
    CHECK_MEM("a\0b", s.ptr, 4);
    s = arena_copy(&a, slice_of(NULL, 0));
    CHECK(s.ptr != NULL && s.len == 0 && s.ptr[0] == '\0');
    arena_fini(&a);
    arena_pool_fini(&pool);
}

TEST_MAIN(TEST_ENTRY(arena, chunks_are_counted_and_idle_ones_can_go_back),
    TEST_ENTRY(arena, one_that_was_never_asked_holds_nothing),
    TEST_ENTRY(arena, pieces_are_aligned_and_do_not_overlap),
    TEST_ENTRY(arena, every_size_around_a_chunk_can_be_written_to_its_end),
    TEST_ENTRY(arena, the_byte_behind_a_piece_is_poisoned),
    TEST_ENTRY(arena, a_large_piece_has_its_own_chunk_and_the_current_one_stays),
    TEST_ENTRY(arena, chunks_are_used_again_and_a_finished_arena_too),
    TEST_ENTRY(arena, sizes_that_would_wrap_are_refused),
    TEST_ENTRY(arena, a_copy_ends_with_a_nul_and_may_be_of_nothing))
