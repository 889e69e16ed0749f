/* negative_test.c -- the negative cache: its table, and what the cache does with it. */
#include "t/unit/test.h"

#include <stdlib.h>

#include "conf/conf.h"
#include "daemon/cache/cache_priv.h"
#include "t/unit/cache_fixture.h"

enum {
    NOW = 10 * 1000 * 1000,
};

/* --- the table alone --- */

static uint64_t table_bytes; /* taken now */

static void *
table_alloc(void *ctx __attribute__((unused)), size_t bytes, size_t align)
{
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);

    table_bytes += bytes;
    return memset(p, 0, bytes);
}

static void
table_free(void *ctx __attribute__((unused)), void *p, size_t bytes)
{
    table_bytes -= bytes;
    free(p);
}

static const struct cuckoo_memory table_memory = {table_alloc, table_free, NULL};

struct table {
    struct negative *n;
    struct counters *counters;
};

static void
table_open(struct table *t, uint64_t entries)
{
    table_bytes = 0;
    CHECK_EQ(0, counters_open(&t->counters, NULL, 1));
    CHECK_EQ(0, negative_open(&t->n, entries, &table_memory, t->counters));
}

static void
table_close(struct table *t)
{
    negative_close(&t->n);
    CHECK_EQ(0, table_bytes);
    counters_close(&t->counters);
}

/* Key number `i`: any, but never the same. */
static struct hash128
table_key(uint64_t i)
{
    return hash_bytes(&i, sizeof(i));
}

static bool
table_put(struct table *t, const struct hash128 *key, int64_t now_ms, int64_t ttl_ms)
{
    struct negative_fact fact = {404, now_ms, 0, ttl_ms};

    return negative_insert(t->n, key, &fact, negative_generation(t->n));
}

static bool
table_has(struct table *t, const struct hash128 *key, int64_t now_ms)
{
    struct negative_answer a;

    return negative_find(t->n, key, now_ms, &a) == NEGATIVE_PRESENT;
}

TEST(negative, what_is_put_in_is_found_until_its_time_is_over)
{
    struct hash128 key = table_key(1), gone = table_key(2);
    struct negative_fact fact = {410, NOW, 5000, 60000};
    struct negative_answer a;
    struct table t;

    table_open(&t, 100);
    CHECK(!table_has(&t, &key, NOW));
    CHECK(table_put(&t, &key, NOW, 1000));
    CHECK_EQ(NEGATIVE_PRESENT, negative_find(t.n, &key, NOW + 999, &a));
    CHECK_EQ(404, a.status);
    CHECK_EQ(1, a.left_ms);
    CHECK(a.age_ms <= 999 && a.age_ms >= 999 - 125);
    CHECK(!table_has(&t, &key, NOW + 1000));
    CHECK(negative_insert(t.n, &gone, &fact, negative_generation(t.n)));
    CHECK_EQ(NEGATIVE_PRESENT, negative_find(t.n, &gone, NOW + 1000, &a));
    CHECK_EQ(410, a.status);
    CHECK_EQ(59000, a.left_ms);
    CHECK_EQ(6000, a.age_ms);
    table_close(&t);
}

TEST(negative, a_time_is_a_day_at_most_and_an_age_is_never_below_0)
{
    struct hash128 key = table_key(1);
    struct negative_fact fact = {404, NOW, INT64_C(3650) * 86400000, INT64_C(3650) * 86400000};
    struct negative_answer a;
    struct table t;

    table_open(&t, 1);
    CHECK(negative_insert(t.n, &key, &fact, negative_generation(t.n)));
    CHECK_EQ(NEGATIVE_PRESENT, negative_find(t.n, &key, NOW, &a));
    CHECK_EQ(NEGATIVE_TTL_MAX_MS, a.left_ms);
    CHECK(a.age_ms >= INT64_C(10) * 86400000); /* and as old as can be said */
    fact = (struct negative_fact){404, NOW, 0, 1};
    CHECK(negative_insert(t.n, &key, &fact, negative_generation(t.n)));
    CHECK_EQ(NEGATIVE_PRESENT, negative_find(t.n, &key, NOW, &a));
    CHECK_EQ(0, a.age_ms);
    table_close(&t);
}

TEST(negative, keys_that_differ_in_one_half_are_told_apart)
{
    struct hash128 key = {77, 88}, low = {78, 88}, high = {77, 89}, zero = {0, 0};
    struct table t;

    table_open(&t, 1); /* one bucket a side: all of them meet */
    CHECK(!table_has(&t, &zero, NOW));
    CHECK(table_put(&t, &key, NOW, 1000));
    CHECK(table_has(&t, &key, NOW) && !table_has(&t, &low, NOW) && !table_has(&t, &high, NOW));
    CHECK(!table_has(&t, &zero, NOW)); /* the key of a free slot */
    CHECK(!negative_remove(t.n, &low) && !negative_remove(t.n, &zero));
    CHECK(table_put(&t, &zero, NOW, 1000));
    CHECK(table_has(&t, &zero, NOW) && table_has(&t, &key, NOW));
    CHECK(negative_remove(t.n, &key));
    CHECK(table_has(&t, &zero, NOW) && !table_has(&t, &key, NOW));
    table_close(&t);
}

TEST(negative, a_key_is_there_once_however_often_it_is_put_in)
{
    struct hash128 key = table_key(1);
    struct negative_stats stats;
    struct table t;

    table_open(&t, 1);
    for (int i = 0; i < 40; i++)
        CHECK(table_put(&t, &key, NOW + i, 1000));
    negative_get_stats(t.n, &stats);
    CHECK_EQ(1, stats.entries);
    CHECK_EQ(40, stats.inserts);
    CHECK_EQ(0, stats.evicted);
    CHECK(negative_remove(t.n, &key));
    CHECK(!table_has(&t, &key, NOW));
    table_close(&t);
}

TEST(negative, what_ends_first_leaves_and_what_has_ended_is_no_loss)
{
    struct negative_stats stats;
    struct hash128 key;
    struct table t;

    table_open(&t, 1); /* ten slots */
    for (uint64_t i = 0; i < 10; i++) {
        key = table_key(i);
        CHECK(table_put(&t, &key, NOW, 1000 + 10 * (int64_t)((i + 3) % 10)));
    }
    for (uint64_t i = 0; i < 10; i++) {
        key = table_key(i);
        CHECK(table_has(&t, &key, NOW));
    }
    key = table_key(100);
    CHECK(table_put(&t, &key, NOW, 5000));
    CHECK(table_has(&t, &key, NOW));
    key = table_key(7); /* 1000 + 0 */
    CHECK(!table_has(&t, &key, NOW));
    key = table_key(101);
    CHECK(table_put(&t, &key, NOW + 1050, 5000)); /* five have ended */
    negative_get_stats(t.n, &stats);
    CHECK_EQ(1, stats.evicted);
    CHECK_EQ(10, stats.entries);
    CHECK_EQ(1, counters_sum(t.counters, COUNTER_negative_evicted));
    CHECK_EQ(10, counters_sum(t.counters, COUNTER_negative_entries));
    table_close(&t);
}

TEST(negative, it_holds_what_was_asked_for)
{
    enum {
        ENTRIES = 20000
    };
    struct negative_stats stats;
    unsigned found = 0;
    struct table t;

    table_open(&t, ENTRIES);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        struct hash128 key = table_key(i);

        CHECK(table_put(&t, &key, NOW, 60000));
    }
    for (uint64_t i = 0; i < ENTRIES; i++) {
        struct hash128 key = table_key(i);

        found += table_has(&t, &key, NOW);
    }
    negative_get_stats(t.n, &stats);
    CHECK_EQ(ENTRIES, found + stats.evicted);
    CHECK_EQ(found, stats.entries);
    print_message("of %d entries %u are there\n", ENTRIES, found);
    CHECK(found >= ENTRIES - ENTRIES / 100); /* a hundredth, by bad luck with both buckets */
    table_close(&t);
}

TEST(negative, memory_is_what_was_said_and_does_not_grow)
{
    static const uint64_t sizes[] = {1, 8, 9, 1000, 65536};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct negative_stats stats;
        struct table t;

        table_open(&t, sizes[i]);
        CHECK_EQ(negative_bytes(sizes[i]), table_bytes);
        for (uint64_t k = 0; k < 3 * sizes[i] && k < 5000; k++) {
            struct hash128 key = table_key(k);

            CHECK(table_put(&t, &key, NOW, 60000));
        }
        CHECK_EQ(negative_bytes(sizes[i]), table_bytes);
        negative_get_stats(t.n, &stats);
        CHECK_EQ(table_bytes, stats.bytes);
        CHECK(sizes[i] < 1000 || stats.bytes <= sizes[i] * NEGATIVE_ENTRY_BYTES * 11 / 10);
        table_close(&t);
    }
}

TEST(negative, a_drop_ends_all_and_what_was_asked_before_it_is_not_put_in)
{
    struct negative_fact fact = {404, NOW, 0, 1000};
    struct hash128 a = table_key(1), b = table_key(2);
    struct negative_stats stats;
    struct table t;
    uint32_t before;

    table_open(&t, 1); /* they meet in a bucket, so that one of an old generation is taken anew */
    CHECK(table_put(&t, &a, NOW, 1000) && table_put(&t, &b, NOW, 1000));
    before = negative_generation(t.n);
    negative_drop(t.n);
    CHECK(!table_has(&t, &a, NOW) && !table_has(&t, &b, NOW));
    CHECK(!negative_insert(t.n, &a, &fact, before));
    CHECK(!table_has(&t, &a, NOW));
    CHECK(!negative_remove(t.n, &a));
    CHECK(table_put(&t, &a, NOW, 1000));
    CHECK(table_has(&t, &a, NOW) && !table_has(&t, &b, NOW));
    negative_get_stats(t.n, &stats);
    CHECK_EQ(2, stats.dropped);
    CHECK_EQ(1, stats.entries);
    CHECK_EQ(0, stats.removed);
    CHECK_EQ(1, counters_sum(t.counters, COUNTER_negative_entries));
    table_close(&t);
}

/* --- in the cache --- */

static const struct stored plain = {STORED_PLAIN, 200, 60000, 0, 60000, 0};

static struct head_build asks; /* one test at a time */

static const struct http_message *
get(void)
{
    return head_build(&asks, "GET /a HTTP/1.1\nHost: a.example\n\n");
}

static struct cache_query
absent_open(struct cache_fixture *f)
{
    const struct conf_negative conf = {.entries = 1000, .ttl = 10000};

    cache_fixture_open(f);
    CHECK_EQ(0, cache_open_negative(f->cache, &conf));
    return fixture_query(f, "k", get());
}

static uint32_t
generation(struct cache_fixture *f)
{
    return negative_generation(cache_negative(f->cache));
}

/* What the fetch of a BUSY entry learns, whose request has left. */
static void
tell_absent(struct entry *e, const struct cache_query *q, uint32_t began)
{
    const struct negative_fact fact = {404, q->now_ms, 0, 10000};

    cache_publish_absent(e, NULL, &fact, began);
    fixture_drop_both(e);
}

static void
leave_absent(struct cache_fixture *f, const struct cache_query *q)
{
    tell_absent(fixture_miss(f, q), q, generation(f));
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(f, q));
}

TEST(absent, it_is_known_from_the_first_answer_on_and_costs_no_entry)
{
    struct cuckoo_stats index;
    struct storage_stats before, after;
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct cache_answer a;

    cache_fixture_grace();
    storage_get_stats(f.store, &before);
    leave_absent(&f, &q);
    cache_fixture_grace();
    storage_get_stats(f.store, &after);
    CHECK_EQ(before.charged, after.charged); /* it was charged at the beginning */
    cache_index_stats(f.cache, &index);
    CHECK_EQ(0, index.entries);
    CHECK_EQ(CACHE_ABSENT, fixture_look(&f, &q, &a));
    CHECK(a.entry == NULL);
    CHECK_EQ(404, a.absent.status);
    CHECK_EQ(10000, a.absent.left_ms);
    q.now_ms += 10000;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(absent, who_waits_for_the_fetch_is_told_and_finds_it)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct cache_answer a;
    struct entry *e = fixture_miss(&f, &q);

    CHECK_EQ(CACHE_QUEUED, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    tell_absent(e, &q, generation(&f));
    while (waiter_pending(&f.waiter.w))
        loop_run(&f.loop);
    CHECK_EQ(ENTRY_HITMISS, entry_state(a.entry));
    entry_drop(&a.entry);
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(absent, a_request_may_want_to_know_it_better)
{
    struct fresh_ask ask = {
        .any = true, .max_age_s = -1, .min_fresh_s = -1, .max_stale_s = -1, .stale_if_error_s = -1};
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct cache_answer a;

    leave_absent(&f, &q);
    q.now_ms += 3500;
    q.ask = &ask;
    ask.max_age_s = 3;
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    ask.max_age_s = 2;
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_ASKED, a.reason);
    ask.max_age_s = 0;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    ask.max_age_s = -1;
    ask.min_fresh_s = 6;
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    ask.min_fresh_s = 7;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    ask.min_fresh_s = -1;
    ask.max_stale_s = 100;
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    ask.no_cache = true;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    q.ask = NULL;
    q.always_miss = true;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    q.always_miss = false;
    q.max_age_said = true;
    q.max_age_ms = 3000;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    q.max_age_ms = 4000;
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    q.only_stored = true;
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

/* Somebody asks for it all the same: `q` with always_miss. */
static struct entry *
fetch_anyway(struct cache_fixture *f, struct cache_query *q)
{
    struct entry *e;

    q->always_miss = true;
    e = fixture_miss(f, q);
    q->always_miss = false;
    return e;
}

TEST(absent, a_stored_answer_wins_and_removes_it)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct entry *e;

    leave_absent(&f, &q);
    e = fetch_anyway(&f, &q);
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q)); /* until more is known */
    fixture_publish(&f, e, &plain);
    fixture_drop_both(e);
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    CHECK_EQ(1, cache_purge(f.cache, &q.key)); /* the response alone */
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    CHECK_EQ(1, fixture_count(&f, COUNTER_negative_removed));
    cache_fixture_close(&f);
}

TEST(absent, what_was_stored_leaves_when_it_is_not_there_any_more)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);

    store_response(&f, "k", get(), &plain);
    tell_absent(fetch_anyway(&f, &q), &q, generation(&f));
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(absent, an_answer_that_is_not_stored_removes_it_an_error_does_not)
{
    static const struct {
        enum cache_mark mark;
        enum cache_verdict then;
    } marks[] = {
        {CACHE_MARK_ERROR, CACHE_ABSENT},
        {CACHE_MARK_BY_REQUEST, CACHE_ABSENT},
        {CACHE_MARK, CACHE_MISS},
        {CACHE_MARK_PASS, CACHE_MISS},
    };
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);

    for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        struct entry *e;

        cache_purge(f.cache, &q.key);
        leave_absent(&f, &q);
        e = fetch_anyway(&f, &q);
        cache_hitmiss(e, NULL, q.now_ms, 0, marks[i].mark);
        fixture_drop_both(e);
        CHECK_EQ(marks[i].then, fixture_verdict(&f, &q));
    }
    leave_absent(&f, &q);
    cache_is_there(f.cache, &q.key);
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(absent, a_purge_ends_it_also_while_it_is_being_fetched)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct entry *e;

    leave_absent(&f, &q);
    CHECK_EQ(1, cache_purge(f.cache, &q.key));
    CHECK_EQ(0, cache_purge(f.cache, &q.key));
    e = fixture_miss(&f, &q);
    cache_purge(f.cache, &q.key);
    tell_absent(e, &q, generation(&f));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    leave_absent(&f, &q);
    CHECK_EQ(1, cache_purge_soft(f.cache, &q.key, q.now_ms, 0, -1, -1));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    leave_absent(&f, &q);
    CHECK(cache_invalidate(f.cache, &q.key));
    CHECK(!cache_invalidate(f.cache, &q.key));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

/* A marker is there, so that this fetch is in no index: it learns of a purge all the same. */
TEST(absent, a_purge_also_ends_what_is_fetched_late)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct entry *e = fixture_miss(&f, &q);

    cache_hitmiss(e, NULL, q.now_ms, 60000, CACHE_MARK);
    fixture_drop_both(e);
    e = fixture_miss(&f, &q);
    CHECK(e->late);
    cache_purge(f.cache, &q.key);
    tell_absent(e, &q, generation(&f));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));

    e = fixture_miss(&f, &q);
    cache_hitmiss(e, NULL, q.now_ms, 60000, CACHE_MARK);
    fixture_drop_both(e);
    e = fixture_miss(&f, &q);
    CHECK(e->late);
    tell_absent(e, &q, generation(&f));
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q)); /* and the marker has left */
    cache_fixture_close(&f);
}

TEST(absent, a_ban_ends_all_also_while_it_is_being_fetched)
{
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    uint32_t began = generation(&f);
    struct entry *e;

    leave_absent(&f, &q);
    CHECK_EQ(0, fixture_ban(&f, "obj.status == 999"));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    e = fixture_miss(&f, &q);
    tell_absent(e, &q, began);
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    leave_absent(&f, &q);
    cache_forget_absent(f.cache);
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    CHECK_EQ(2, fixture_count(&f, COUNTER_negative_dropped));
    CHECK(fixture_ban(&f, "nonsense") != 0); /* is none */
    cache_fixture_close(&f);
}

TEST(absent, another_variant_that_is_stored_keeps_it_out)
{
    static const struct stored varies = {
        "HTTP/1.1 200 OK\r\nVary: X-Who\r\n", 200, 60000, 0, 60000, 0};
    struct cache_fixture f;
    struct cache_query q = absent_open(&f);
    struct entry *e = fixture_miss(&f, &q);
    struct fresh_verdict v = {.storable = true, .ttl_ms = 60000, .keep_ms = 60000};
    struct entry_part part = {0, 8, body_kept(f.store, 8, 8)};
    struct head_build head;
    struct cache_response r = {.head = *head_build_stored(&head, varies.head),
        .vary = SLICE_LIT("no match of any request's"),
        .status = 200,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .received_ms = q.now_ms,
        .fresh = &v};

    CHECK_EQ(0, cache_publish(e, &r));
    cache_settle(e);
    fixture_drop_both(e);
    tell_absent(fixture_miss(&f, &q), &q, generation(&f));
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q)); /* nobody is told that there is nothing */
    cache_fixture_close(&f);
}

TEST(absent, without_room_there_is_no_negative_cache)
{
    const struct conf_negative none = {.entries = 0}, large = {.entries = 10 * 1000 * 1000};
    struct cache_fixture f;
    struct storage_stats before, after;

    cache_fixture_open(&f);
    CHECK_EQ(0, cache_open_negative(f.cache, &none));
    CHECK(cache_negative(f.cache) == NULL);
    cache_forget_absent(f.cache);
    storage_get_stats(f.store, &before);
    CHECK_EQ(TERR_NOMEM, cache_open_negative(f.cache, &large));
    storage_get_stats(f.store, &after);
    CHECK_EQ(before.charged, after.charged);
    cache_fixture_close(&f);
}

TEST(absent, its_memory_is_charged_to_the_storage)
{
    const struct conf_negative conf = {.entries = 100000, .ttl = 10000};
    struct cache_fixture f;
    struct storage_stats before, after;

    cache_fixture_open(&f);
    storage_get_stats(f.store, &before);
    CHECK_EQ(0, cache_open_negative(f.cache, &conf));
    storage_get_stats(f.store, &after);
    CHECK(after.charged - before.charged >= negative_bytes(100000));
    CHECK(after.charged - before.charged <= negative_bytes(100000) * 5 / 4 + 65536); /* classes */
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(negative, what_is_put_in_is_found_until_its_time_is_over),
    TEST_ENTRY(negative, a_time_is_a_day_at_most_and_an_age_is_never_below_0),
    TEST_ENTRY(negative, keys_that_differ_in_one_half_are_told_apart),
    TEST_ENTRY(negative, a_key_is_there_once_however_often_it_is_put_in),
    TEST_ENTRY(negative, what_ends_first_leaves_and_what_has_ended_is_no_loss),
    TEST_ENTRY(negative, it_holds_what_was_asked_for),
    TEST_ENTRY(negative, memory_is_what_was_said_and_does_not_grow),
    TEST_ENTRY(negative, a_drop_ends_all_and_what_was_asked_before_it_is_not_put_in),
    TEST_ENTRY(absent, it_is_known_from_the_first_answer_on_and_costs_no_entry),
    TEST_ENTRY(absent, who_waits_for_the_fetch_is_told_and_finds_it),
    TEST_ENTRY(absent, a_request_may_want_to_know_it_better),
    TEST_ENTRY(absent, a_stored_answer_wins_and_removes_it),
    TEST_ENTRY(absent, what_was_stored_leaves_when_it_is_not_there_any_more),
    TEST_ENTRY(absent, an_answer_that_is_not_stored_removes_it_an_error_does_not),
    TEST_ENTRY(absent, a_purge_ends_it_also_while_it_is_being_fetched),
    TEST_ENTRY(absent, a_purge_also_ends_what_is_fetched_late),
    TEST_ENTRY(absent, a_ban_ends_all_also_while_it_is_being_fetched),
    TEST_ENTRY(absent, another_variant_that_is_stored_keeps_it_out),
    TEST_ENTRY(absent, without_room_there_is_no_negative_cache),
    TEST_ENTRY(absent, its_memory_is_charged_to_the_storage))
