/* cache_index_test.c -- the index inside the cache: it grows within the storage's promise. */
#include "t/unit/cache_fixture.h"

#include "daemon/cache/cuckoo.h"
#include "daemon/cache/entry.h"

static const struct stored plain = {STORED_PLAIN, 200, 3600 * 1000, 0, 0, 0};

/* As cache_fixture_open_with(), with a storage of this size and `bits: auto`. */
static void
index_open(struct cache_fixture *f, uint64_t size)
{
    struct conf_index conf = {.bits = 0, .slots = 8};
    struct conf_storage store = {.size = size, .eviction = "s3-fifo"};

    *f = (struct cache_fixture){.clock = {.mono_ms = 10 * 1000 * 1000, .wall_ms = 1700000000000}};
    hash_secret_fix(1);
    f->store = store_open("malloc", size, "");
    CHECK_EQ(0, counters_open(&f->counters, NULL, 1));
    CHECK_EQ(0, cache_open(&f->cache, &conf, f->store, &store, f->counters));
    loop_init(&f->loop);
    test_waiter_init(&f->waiter, &f->loop);
    rcu_join();
}

static void
name_of(char name[32], unsigned n)
{
    snprintf(name, 32, "a/%u", n);
}

static struct cuckoo_stats
index_stats(const struct cache_fixture *f)
{
    struct cuckoo_stats s;

    cache_index_stats(f->cache, &s);
    return s;
}

static void
store_one(struct cache_fixture *f, const struct http_message *req, unsigned n)
{
    struct cache_answer answer;
    struct storage_stats st;
    struct cache_query q;
    char name[32];

    name_of(name, n);
    q = fixture_query(f, name, req);
    while (cache_lookup(f->cache, &q, &f->waiter.w, &answer), answer.entry == NULL)
        cache_fixture_grace(); /* what was evicted comes back */
    CHECK(entry_state(answer.entry) == ENTRY_BUSY);
    fixture_publish(f, answer.entry, &plain);
    fixture_drop_both(answer.entry);
    st = store_stats(f->store);
    CHECK(st.charged <= st.size); /* both tables are in it while it doubles */
}

TEST(cache_index, an_automatic_index_grows_with_what_is_stored)
{
    struct head_build head;
    const struct http_message *req = head_build(&head, "GET / HTTP/1.1\nHost: x\n\n");
    struct cache_fixture f;
    struct cuckoo_stats s;
    char name[32];

    index_open(&f, UINT64_C(16) << 20);
    s = index_stats(&f);
    CHECK_EQ(10, s.bits); /* 512 objects of 32 KiB, 90 % */
    CHECK_EQ(CUCKOO_BITS_MAX, s.bits_max);
    for (unsigned n = 0; n < 4000; n++)
        store_one(&f, req, n);
    CHECK_EQ(50, cache_tend_index(f.cache, 50)); /* nothing is left to do */
    s = index_stats(&f);
    CHECK_EQ(4000, s.entries);
    CHECK_EQ(13, s.bits);
    CHECK_EQ(3, s.doubled);
    CHECK_EQ(0, s.refused);
    CHECK_EQ(0, s.evicted);
    for (unsigned n = 0; n < 4000; n++) {
        struct cache_query q;

        name_of(name, n);
        q = fixture_query(&f, name, req);
        CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    }
    cache_fixture_close(&f);
}

/* Housekeeping alone gets it through when nothing more comes. */
TEST(cache_index, housekeeping_finishes_what_misses_began)
{
    struct head_build head;
    const struct http_message *req = head_build(&head, "GET / HTTP/1.1\nHost: x\n\n");
    struct cache_fixture f;
    struct cuckoo_stats s;
    unsigned n = 0;

    index_open(&f, UINT64_C(16) << 20);
    do
        store_one(&f, req, n++);
    while (!index_stats(&f).growing);
    s = index_stats(&f);
    CHECK(s.split < s.splitting);
    CHECK_EQ(1000, cache_tend_index(f.cache, 1000));
    s = index_stats(&f);
    CHECK(!s.growing);
    CHECK_EQ(11, s.bits);
    CHECK_EQ(n, s.entries);
    cache_fixture_close(&f);
}

/* A storage that is full all the time makes room for it as for anything else. */
TEST(cache_index, in_a_full_storage_it_grows_by_evicting_and_stays_within_its_size)
{
    struct head_build head;
    const struct http_message *req = head_build(&head, "GET / HTTP/1.1\nHost: x\n\n");
    struct cache_fixture f;
    struct cuckoo_stats s;

    index_open(&f, UINT64_C(1) << 20);
    CHECK_EQ(6, index_stats(&f).bits);
    for (unsigned n = 0; n < 6000; n++)
        store_one(&f, req, n);
    s = index_stats(&f);
    CHECK(fixture_count(&f, COUNTER_cache_evicted) > 1000);
    CHECK(s.entries > 500); /* most of 1 MiB is content still */
    CHECK(s.doubled >= 4);
    CHECK(s.load <= 0.95);
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(cache_index, an_automatic_index_grows_with_what_is_stored),
    TEST_ENTRY(cache_index, housekeeping_finishes_what_misses_began),
    TEST_ENTRY(cache_index, in_a_full_storage_it_grows_by_evicting_and_stays_within_its_size))
