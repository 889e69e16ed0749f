/* conn_quota_race_test.c -- connections are counted by client, and none is forgotten or kept. */
#include "t/unit/test.h"

#include <pthread.h>
#include <string.h>

#include "daemon/base/conn_quota.h"
#include "daemon/base/hash.h"

enum {
    CLIENTS = 3000,
    THREADS = 4,
    ROUNDS = 20000,
};

struct client {
    uint8_t addr[16];
};

static struct client
client_v4(uint32_t n)
{
    struct client c = {{[10] = 0xff, [11] = 0xff, [12] = 10}};

    c.addr[13] = (uint8_t)(n >> 16);
    c.addr[14] = (uint8_t)(n >> 8);
    c.addr[15] = (uint8_t)n;
    return c;
}

static struct client
client_v6(uint8_t network, uint8_t host)
{
    struct client c = {{0x20, 0x01, 0x0d, 0xb8, [7] = network, [15] = host}};

    return c;
}

static struct conn_quota *
open_quota(void)
{
    struct conn_quota *q = NULL;

    hash_secret_fix(7);
    CHECK_EQ(0, conn_quota_open(&q));
    return q;
}

TEST(conn_quota, a_client_gets_so_many_connections_and_no_more)
{
    struct conn_quota *q = open_quota();
    struct client a = client_v4(1), b = client_v4(2);

    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, a.addr, 2));
    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, a.addr, 2));
    CHECK_EQ(CONN_QUOTA_REFUSED, conn_quota_take(q, a.addr, 2));
    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, b.addr, 2)); /* another client */
    conn_quota_give(q, a.addr);
    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, a.addr, 2));
    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, a.addr, 3)); /* a reload allows more */
    CHECK_EQ(CONN_QUOTA_REFUSED, conn_quota_take(q, a.addr, 1)); /* and fewer */
    for (unsigned i = 0; i < 3; i++)
        conn_quota_give(q, a.addr);
    conn_quota_give(q, b.addr);
    conn_quota_close(&q);
}

TEST(conn_quota, ipv6_is_counted_by_its_64_and_ipv4_by_its_32)
{
    struct conn_quota *q = open_quota();
    struct client one = client_v6(1, 1), same = client_v6(1, 2), other = client_v6(2, 1);

    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, one.addr, 1));
    CHECK_EQ(CONN_QUOTA_REFUSED, conn_quota_take(q, same.addr, 1));
    CHECK_EQ(CONN_QUOTA_COUNTED, conn_quota_take(q, other.addr, 1));
    conn_quota_give(q, same.addr);
    conn_quota_give(q, other.addr);
    conn_quota_close(&q);
}

/* Beside a plain array: takes and gives of many clients in no order, through growth and removals. */
TEST(conn_quota, counts_are_those_of_a_plain_array)
{
    static uint32_t model[CLIENTS];
    struct conn_quota *q = open_quota();
    uint64_t drawn = 1;

    memset(model, 0, sizeof(model));
    for (unsigned i = 0; i < 200000; i++) {
        uint32_t n;
        struct client c;

        drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n = (uint32_t)(drawn >> 33) % CLIENTS;
        c = client_v4(n);
        if ((drawn >> 20 & 3) != 0 && model[n] > 0) {
            conn_quota_give(q, c.addr);
            model[n]--;
        } else if (conn_quota_take(q, c.addr, 3) == CONN_QUOTA_COUNTED) {
            model[n]++;
        } else {
            CHECK_EQ(3, model[n]);
        }
        CHECK_EQ(model[n], conn_quota_count(q, c.addr));
    }
    for (uint32_t n = 0; n < CLIENTS; n++) {
        struct client c = client_v4(n);

        CHECK_EQ(model[n], conn_quota_count(q, c.addr));
        for (; model[n] > 0; model[n]--)
            conn_quota_give(q, c.addr);
    }
    conn_quota_close(&q); /* asserts that none is left */
}

static void *
take_and_give(void *arg)
{
    struct conn_quota *q = arg;
    uint64_t taken = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct client c = client_v4(i % 50);

        if (conn_quota_take(q, c.addr, 2) == CONN_QUOTA_COUNTED) {
            taken++;
            conn_quota_give(q, c.addr);
        }
    }
    return (void *)(uintptr_t)(taken > 0);
}

TEST(conn_quota, threads_lose_no_count)
{
    struct conn_quota *q = open_quota();
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_and_give, q);
    for (unsigned i = 0; i < THREADS; i++) {
        void *any = NULL;

        pthread_join(threads[i], &any);
        CHECK(any != NULL);
    }
    conn_quota_close(&q);
}

TEST_MAIN(TEST_ENTRY(conn_quota, a_client_gets_so_many_connections_and_no_more),
    TEST_ENTRY(conn_quota, ipv6_is_counted_by_its_64_and_ipv4_by_its_32),
    TEST_ENTRY(conn_quota, counts_are_those_of_a_plain_array),
    TEST_ENTRY(conn_quota, threads_lose_no_count))
