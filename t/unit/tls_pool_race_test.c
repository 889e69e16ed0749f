/* tls_pool_race_test.c -- blocks that are packed, taken and given back by several threads. */
#include "daemon/tls/tls_pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "daemon/base/obj.h"

enum {
    SSL_BYTES = 7624, /* of OpenSSL 3.0 */
    BLOCKS = 400,
    ROUNDS = 20000,
    THREADS = 4,
    IDLE_BYTES = 8 * TLS_POOL_SLAB, /* that may stay when all is given back */
};

struct block {
    unsigned char *p;
    size_t len;
    unsigned char mark;
};

static int
opens(void **state)
{
    (void)state;
    return tls_pool_open(1024) ? 0 : -1;
}

static int
closes(void **state)
{
    (void)state;
    tls_pool_close();
    return 0;
}

static size_t
resident(const unsigned char *first, size_t len)
{
    unsigned char pages[1024 * TLS_POOL_SLAB / 4096];
    size_t n = 0;

    assert_true(len / 4096 <= sizeof(pages));
    assert_int_equal(mincore((void *)(uintptr_t)first, len, pages), 0);
    for (size_t i = 0; i < len / 4096; i++)
        n += pages[i] & 1 ? 4096 : 0;
    return n;
}

static void
blocks_lie_side_by_side(void **state)
{
    unsigned char *p[8];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        p[i] = tls_pool_take(SSL_BYTES);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        assert_int_equal(tls_pool_room(p[i]), 7632);
        assert_int_equal(tls_pool_cost(p[i]), 7680); /* fifteen pages for eight */
        assert_ptr_equal(p[i], p[0] + i * (size_t)7632);
        memset(p[i], 0xff, SSL_BYTES);
    }
    assert_int_equal(resident(p[0], TLS_POOL_SLAB), 8 * 7680);
    for (unsigned i = 0; i < ARRAY_LEN(p); i++)
        tls_pool_give(p[i]);
}

static void
what_is_not_the_pools(void **state)
{
    unsigned char *heap = malloc(SSL_BYTES), *p;

    (void)state;
    assert_false(tls_pool_takes(TLS_POOL_LEAST - 1) || tls_pool_takes(TLS_POOL_MOST + 1));
    assert_false(tls_pool_has(heap) || tls_pool_has(&heap) || tls_pool_has(NULL));
    free(heap);
    for (size_t n = TLS_POOL_LEAST; n <= TLS_POOL_MOST; n += TLS_POOL_MOST - TLS_POOL_LEAST) {
        p = tls_pool_take(n);
        assert_true(tls_pool_has(p));
        assert_int_equal(tls_pool_room(p), n);
        tls_pool_give(p);
    }
    tls_pool_close();
    assert_false(tls_pool_has(p) || tls_pool_has(NULL));
    assert_null(tls_pool_take(TLS_POOL_LEAST));
    assert_true(tls_pool_open(1));
}

static void
what_is_given_back_goes_to_the_kernel(void **state)
{
    static unsigned char *p[BLOCKS];

    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++) {
        p[i] = tls_pool_take(SSL_BYTES);
        assert_non_null(p[i]);
        memset(p[i], 0xff, SSL_BYTES);
    }
    assert_true(resident(p[0], BLOCKS / 8 * TLS_POOL_SLAB) >= BLOCKS * (size_t)7632);
    for (unsigned i = 0; i < BLOCKS; i++)
        tls_pool_give(p[i]);
    assert_true(resident(p[0], BLOCKS / 8 * TLS_POOL_SLAB) <= IDLE_BYTES);
}

/* A slab of one size serves another one later; and with all of them in use there is no block more. */
static void
a_full_pool_gives_none(void **state)
{
    static unsigned char *p[2000];
    unsigned n = 0, again = 0;

    (void)state;
    tls_pool_close();
    assert_true(tls_pool_open(16));
    while (n < ARRAY_LEN(p) && (p[n] = tls_pool_take(1000)) != NULL)
        n++;
    assert_int_equal(n, 16 * (TLS_POOL_SLAB / 1008));
    assert_null(tls_pool_take(SSL_BYTES));
    while (n > 0)
        tls_pool_give(p[--n]);
    while (n < ARRAY_LEN(p) && (p[n] = tls_pool_take(SSL_BYTES)) != NULL)
        n++;
    assert_true(n >= 8 * 8); /* idle ones stay with their size */
    while (again < n)
        tls_pool_give(p[again++]);
}

static void
block_check(const struct block *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->p[i] != b->mark)
            fail_msg("byte %zu of a block of %zu was changed", i, b->len);
}

/* Two threads have one half of the blocks each, by a lock; so each gives back what others took. */
static struct {
    pthread_mutex_t lock;
    struct block block[BLOCKS / 8];
} shared[8];

static void *
takes_and_gives(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned k = (unsigned)rand_r(&seed);
        struct block *b = &shared[k % 8].block[k / 8 % (BLOCKS / 8)];

        pthread_mutex_lock(&shared[k % 8].lock);
        if (b->p != NULL) {
            block_check(b);
            tls_pool_give(b->p);
            b->p = NULL;
        } else {
            b->len = k / 512 % 4 == 0 ? SSL_BYTES : TLS_POOL_LEAST + k / 4096 % 1000;
            b->mark = (unsigned char)k;
            b->p = tls_pool_take(b->len);
            assert_non_null(b->p);
            assert_true(tls_pool_room(b->p) >= b->len && tls_pool_cost(b->p) >= b->len);
            memset(b->p, b->mark, b->len);
        }
        pthread_mutex_unlock(&shared[k % 8].lock);
    }
    return NULL;
}

static void
threads_have_blocks_of_their_own(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(shared); i++)
        pthread_mutex_init(&shared[i].lock, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, takes_and_gives, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < ARRAY_LEN(shared); i++) {
        for (unsigned k = 0; k < BLOCKS / 8; k++) {
            if (shared[i].block[k].p == NULL)
                continue;
            block_check(&shared[i].block[k]);
            tls_pool_give(shared[i].block[k].p);
        }
        pthread_mutex_destroy(&shared[i].lock);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_lie_side_by_side, opens, closes),
        cmocka_unit_test_setup_teardown(what_is_not_the_pools, opens, closes),
        cmocka_unit_test_setup_teardown(what_is_given_back_goes_to_the_kernel, opens, closes),
        cmocka_unit_test_setup_teardown(a_full_pool_gives_none, opens, closes),
        cmocka_unit_test_setup_teardown(threads_have_blocks_of_their_own, opens, closes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
