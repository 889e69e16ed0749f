/* cache_query_test.c -- what policies ask of a lookup, and what purges leave. */
#include "t/unit/test.h"

#include "daemon/cache/cache_priv.h"
#include "t/unit/cache_fixture.h"

static const struct stored plain = {STORED_PLAIN, 200, 60000, 10000, 40000, 2000};

static struct head_build asks; /* one test at a time */

static const struct http_message *
get(void)
{
    return head_build(&asks, "GET /a HTTP/1.1\nHost: a.example\nX-Who: me\n\n");
}

static struct cache_query
policy_query(const struct cache_fixture *f, const char *key)
{
    struct cache_query q = fixture_query(f, key, get());

    q.for_policy = true;
    return q;
}

static void
leave_marker(struct cache_fixture *f, const char *key, enum cache_mark mark)
{
    struct cache_query q = fixture_query(f, key, get());
    struct entry *e = fixture_miss(f, &q);

    cache_hitmiss(e, NULL, q.now_ms, 60000, mark);
    fixture_drop_both(e);
}

/* ---- Times ---- */

TEST(query, within_its_grace_it_is_served_stale_and_refreshed_once)
{
    struct cache_fixture f;
    struct cache_answer a, b;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 59999;
    q = policy_query(&f, "k");
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    q.now_ms += 1;
    CHECK_EQ(CACHE_STALE, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    CHECK(a.refresh != NULL && a.old != NULL);
    CHECK_EQ(CACHE_STALE, cache_lookup(f.cache, &q, &f.waiter.w, &b));
    CHECK(b.refresh == NULL);
    cache_fail(a.refresh, TERR_IO);
    entry_drop(&a.refresh);
    entry_drop(&a.old);
    q.now_ms += 10000; /* the grace is over: good for validation alone */
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    CHECK(a.old != NULL);
    cache_fail(a.entry, TERR_IO);
    fixture_drop_both(a.entry);
    entry_drop(&a.old);
    CHECK(cache_lookup_stale(f.cache, &q) == NULL);
    q.now_ms += 30000; /* and now for nothing */
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    CHECK(a.old == NULL);
    cache_fail(a.entry, TERR_IO);
    fixture_drop_both(a.entry);
    cache_fixture_close(&f);
}

TEST(query, the_requests_grace_caps_the_stored_one)
{
    struct cache_fixture f;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 65000;
    q = policy_query(&f, "k");
    q.grace_said = true;
    q.grace_ms = 5001;
    CHECK_EQ(CACHE_STALE, fixture_verdict(&f, &q));
    q.grace_ms = 5000;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    q.grace_ms = 3600000; /* never longer than what is stored */
    q.now_ms += 5000;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(query, the_requests_max_age_counts_from_the_responses_creation)
{
    struct cache_fixture f;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain); /* 2 s old when it came */
    f.clock.mono_ms += 20000;
    q = policy_query(&f, "k");
    q.max_age_said = true;
    q.max_age_ms = 22001;
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    q.max_age_ms = 22000;
    CHECK_EQ(CACHE_STALE, fixture_verdict(&f, &q)); /* its grace begins there */
    q.max_age_ms = 12000;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    q.max_age_ms = 3600000; /* longer than the ttl changes nothing */
    q.now_ms += 39999;
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    q.now_ms += 1;
    CHECK_EQ(CACHE_STALE, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(query, who_waited_may_use_what_has_no_time_with_a_policy)
{
    const struct stored once = {STORED_PLAIN, 200, 0, 10000, 20000, 0};
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    q = policy_query(&f, "k");
    for (unsigned i = 0; i < 2; i++) { /* the second with what is left of the first */
        e = fixture_miss(&f, &q);
        CHECK_EQ(CACHE_QUEUED, cache_lookup(f.cache, &q, &f.waiter.w, &a));
        CHECK(a.entry == e);
        fixture_publish(&f, e, &once);
        loop_run(&f.loop);
        CHECK(cache_usable(a.entry, &q, false));
        q.for_policy = false;
        CHECK(!cache_usable(a.entry, &q, false));
        q.for_policy = true;
        entry_drop(&a.entry);
        fixture_drop_both(e);
    }
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q)); /* what had no time has no grace */
    cache_fixture_close(&f);
}

/* ---- What is not looked at ---- */

TEST(query, always_miss_makes_a_new_entry_that_supersedes)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;
    struct entry *busy, *e;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    q = policy_query(&f, "k");
    q.always_miss = true;
    busy = fixture_miss(&f, &q);
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, &q, &f.waiter.w, &a)); /* waits for nobody */
    CHECK(a.old == NULL);
    CHECK_EQ(CACHE_ASKED, a.reason);
    e = a.entry;
    fixture_publish(&f, e, &plain);
    q.always_miss = false;
    CHECK_EQ(CACHE_HIT, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    CHECK(a.entry == e);
    fixture_drop_both(e);
    cache_fail(busy, TERR_IO);
    fixture_drop_both(busy);
    CHECK_EQ(1, cache_purge(f.cache, &q.key)); /* the first one had left */
    cache_fixture_close(&f);
}

TEST(query, ignore_busy_fetches_beside_the_other)
{
    struct cache_fixture f;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    q = policy_query(&f, "k");
    e = fixture_miss(&f, &q);
    CHECK_EQ(CACHE_QUEUED, fixture_verdict(&f, &q));
    q.ignore_busy = true;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fail(e, TERR_IO);
    fixture_drop_both(e);
    cache_fixture_close(&f);
}

/* Of another protocol's head: kept by the entry, charged, and the way to the older variants goes on. */
TEST(form, of_a_head_is_kept_once_and_goes_with_its_entry)
{
    static const struct http_rendering one, other;
    struct slice said = slice_str("what the protocol says");
    struct cache_fixture f;
    struct entry *first, *second;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    q = policy_query(&f, "k");
    first = fixture_miss(&f, &q);
    CHECK(cache_keep_form(first, &one, said).ptr != NULL); /* linked: it will be READY */
    fixture_publish(&f, first, &plain);
    q.now_ms += 100000;
    second = fixture_miss(&f, &q);
    q.now_ms -= 100000;
    CHECK(entry_next(second) == first);
    CHECK(slice_eq(cache_keep_form(second, &one, said), said));
    CHECK(slice_eq(entry_form(second, &one), said));
    CHECK(entry_form(second, &other).ptr == NULL);
    CHECK(cache_keep_form(second, &other, said).ptr == NULL);
    CHECK(entry_next(second) == first && entry_next(first) == NULL);
    cache_fail(second, TERR_IO);
    CHECK(cache_keep_form(second, &other, said).ptr == NULL); /* it has left the index */
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK(a.entry == first && slice_eq(entry_form(a.entry, &one), said));
    fixture_drop_both(second);
    fixture_drop_both(first);
    cache_fixture_close(&f); /* store_close() sees a form that was not freed: it is charged */
}

TEST(query, ignore_vary_takes_any_variant)
{
    struct cache_fixture f;
    struct cache_query q;
    struct cache_answer a;
    struct head_build other;
    struct fresh_verdict v = {.storable = true, .ttl_ms = 60000, .stale_if_error_ms = -1};
    struct entry_part part;
    struct head_build head;
    struct cache_response r = {.head = *head_build_stored(&head, STORED_PLAIN),
        .vary = slice_str("a spec that matches nobody"),
        .status = 200,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .fresh = &v};
    struct entry *e;

    cache_fixture_open(&f);
    part = (struct entry_part){0, 8, body_kept(f.store, 8, 8)};
    r.received_ms = (int64_t)f.clock.mono_ms;
    q = policy_query(&f, "k");
    e = fixture_miss(&f, &q);
    CHECK_EQ(0, cache_publish(e, &r));
    cache_settle(e);
    fixture_drop_both(e);
    q.req = head_build(&other, "GET /a HTTP/1.1\nX-Who: you\n\n");
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_OTHER_VARIANT, a.reason);
    q.ignore_vary = true;
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

/* ---- Markers ---- */

TEST(query, with_a_policy_who_finds_a_marker_fetches_as_if_for_the_cache)
{
    struct cache_fixture f;
    struct cache_answer a, b;
    struct cache_query q;

    cache_fixture_open(&f);
    leave_marker(&f, "k", CACHE_MARK);
    q = policy_query(&f, "k");
    q.req = head_build(&asks, "HEAD /a HTTP/1.1\nRange: bytes=0-1\nIf-None-Match: \"x\"\n\n");
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    CHECK_EQ(CACHE_MISS, cache_lookup(f.cache, &q, &f.waiter.w, &b)); /* never waits */
    CHECK_EQ(CACHE_MARKED, a.reason);
    CHECK_EQ(CACHE_MARKED, b.reason);
    CHECK(a.entry != NULL && b.entry != NULL && a.entry != b.entry);
    cache_fail(b.entry, TERR_IO);
    fixture_drop_both(b.entry);
    fixture_publish(&f, a.entry, &plain); /* it became cacheable */
    fixture_drop_both(a.entry);
    CHECK_EQ(CACHE_HIT, fixture_verdict(&f, &q));
    leave_marker(&f, "other", CACHE_MARK);
    q.key = fixture_key("other");
    q.req = head_build(&asks, "HEAD /a HTTP/1.1\n\n");
    q.for_policy = false; /* without one it is asked for as the client asks */
    CHECK_EQ(CACHE_PASS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(query, a_pass_marker_passes_every_request_while_it_lasts)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 61000; /* in its grace */
    q = policy_query(&f, "k");
    q.always_miss = true;
    {
        struct entry *e = fixture_miss(&f, &q);

        cache_hitmiss(e, NULL, q.now_ms, 5000, CACHE_MARK_PASS);
        CHECK(entry_is_uncacheable(e));
        fixture_drop_both(e);
    }
    q.always_miss = false;
    CHECK_EQ(CACHE_PASS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_MARKED_PASS, a.reason);
    CHECK(a.entry == NULL);
    q.now_ms += 5000;
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_NOTHING_STORED, a.reason); /* what it superseded has left */
    cache_fixture_close(&f);
}

TEST(query, a_marker_by_a_policy_comes_before_what_is_stale)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 61000;
    q = policy_query(&f, "k");
    q.always_miss = true;
    e = fixture_miss(&f, &q);
    cache_hitmiss(e, NULL, q.now_ms, 1000, CACHE_MARK_ERROR); /* leaves what is stored */
    fixture_drop_both(e);
    q.always_miss = false;
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_MARKED, a.reason);
    q.for_policy = false;
    CHECK_EQ(CACHE_STALE, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

/* ---- Counting ---- */

TEST(query, hits_are_counted_when_asked_for)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    q = policy_query(&f, "k");
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK_EQ(0, entry_hits(a.entry));
    q.count_hits = true;
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK_EQ(2, entry_hits(a.entry));
    CHECK_EQ(q.now_ms, entry_last_hit_ms(a.entry)); /* not before it came */
    q.now_ms += 30000;
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK(q.now_ms - entry_last_hit_ms(a.entry) < 1024);
    q.now_ms += 31000; /* stale in its grace counts as a hit */
    CHECK_EQ(CACHE_STALE, fixture_look(&f, &q, &a));
    CHECK_EQ(4, entry_hits(a.entry));
    cache_fixture_close(&f);
}

/* ---- Purges ---- */

TEST(purge, everything_leaves_and_what_is_being_fetched_is_not_kept)
{
    struct cache_fixture f;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    q = policy_query(&f, "k");
    q.always_miss = true;
    e = fixture_miss(&f, &q);
    CHECK_EQ(1, cache_purge(f.cache, &q.key));
    CHECK_EQ(0, cache_purge(f.cache, &q.key));
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_purged));
    fixture_publish(&f, e, &plain);
    fixture_drop_both(e);
    q.always_miss = false;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(purge, a_soft_one_leaves_grace_and_keep)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 20000;
    q = policy_query(&f, "k");
    CHECK_EQ(1, cache_purge_soft(f.cache, &q.key, q.now_ms, 0, -1, -1));
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_purged_soft));
    CHECK_EQ(CACHE_STALE, fixture_look(&f, &q, &a));
    CHECK_EQ(0, entry_ttl_left_ms(a.entry, q.now_ms));
    CHECK_EQ(10000, entry_grace_ms(a.entry));
    CHECK_EQ(30000, entry_keep_ms(a.entry));
    q.now_ms += 9999;
    CHECK_EQ(CACHE_STALE, fixture_verdict(&f, &q));
    /* Again, later: it does not last longer because of that. */
    CHECK_EQ(1, cache_purge_soft(f.cache, &q.key, q.now_ms, 0, -1, -1));
    q.now_ms += 1;
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(purge, a_soft_one_sets_what_is_said)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", get(), &plain);
    f.clock.mono_ms += 20000;
    q = policy_query(&f, "k");
    CHECK_EQ(1, cache_purge_soft(f.cache, &q.key, q.now_ms, 5000, 2000, 1000));
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK_EQ(5000, entry_ttl_left_ms(a.entry, q.now_ms));
    CHECK_EQ(2000, entry_grace_ms(a.entry));
    CHECK_EQ(1000, entry_keep_ms(a.entry));
    q.for_policy = false; /* nor is it shown for longer because the origin fails */
    q.now_ms += 6999;
    CHECK(cache_lookup_stale(f.cache, &q) != NULL);
    q.now_ms += 1;
    CHECK(cache_lookup_stale(f.cache, &q) == NULL);
    CHECK_EQ(1, cache_purge_soft(f.cache, &q.key, q.now_ms, 0, 0, 0)); /* is a hard one */
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_purged));
    CHECK_EQ(0, cache_purge(f.cache, &q.key));
    cache_fixture_close(&f);
}

/* ---- Eviction: the policies themselves are evict_queue_test's ---- */

static uint64_t
queued_bytes(const struct cache_fixture *f)
{
    return fixture_count(f, COUNTER_cache_small_bytes) + fixture_count(f, COUNTER_cache_main_bytes);
}

TEST(evict, what_leaves_by_itself_is_in_no_queue_any_more)
{
    struct cache_fixture f;
    struct cache_query q;
    uint64_t one;

    cache_fixture_open(&f);
    store_response(&f, "a", get(), &plain);
    one = queued_bytes(&f);
    CHECK(one > 0);
    store_response(&f, "b", get(), &plain);
    leave_marker(&f, "c", CACHE_MARK);
    CHECK_EQ(2 * one + 1024, queued_bytes(&f));
    q = policy_query(&f, "a");
    CHECK_EQ(1, cache_purge(f.cache, &q.key));
    CHECK_EQ(one + 1024, queued_bytes(&f));
    q = policy_query(&f, "c");
    CHECK(cache_invalidate(f.cache, &q.key));
    CHECK_EQ(one, queued_bytes(&f));
    CHECK_EQ(0, fixture_count(&f, COUNTER_cache_evicted));
    cache_fixture_close(&f);
}

TEST(evict, who_is_read_leaves_the_queues_at_once_and_is_not_promised)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "a", get(), &plain);
    q = policy_query(&f, "a");
    CHECK_EQ(CACHE_HIT, cache_lookup(f.cache, &q, &f.waiter.w, &a));
    entry_hold(a.entry);
    CHECK_EQ(0, evict_make_room(f.cache, 1));
    CHECK_EQ(0, queued_bytes(&f));
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_evicted));
    CHECK_EQ(0, evict_make_room(f.cache, 1)); /* there is nobody */
    cache_fixture_grace();
    CHECK_EQ(200, entry_status(a.entry)); /* stays readable */
    entry_drop(&a.entry);
    cache_fixture_close(&f);
}

TEST(evict, who_comes_back_soon_is_known_as_a_ghost)
{
    struct cache_fixture f;

    cache_fixture_open(&f);
    CHECK_EQ(0, evict_make_room(f.cache, 1)); /* it fills no more */
    store_response(&f, "other", get(), &plain);
    store_response(&f, "a", get(), &plain);
    CHECK_EQ(0, fixture_count(&f, COUNTER_cache_main_bytes));
    CHECK(evict_make_room(f.cache, 1) > 0);
    CHECK(evict_make_room(f.cache, 1) > 0);
    CHECK_EQ(2, fixture_count(&f, COUNTER_cache_evicted_small));
    store_response(&f, "b", get(), &plain);
    store_response(&f, "a", get(), &plain);
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_ghost_hits));
    CHECK(fixture_count(&f, COUNTER_cache_main_bytes) > 0);
    CHECK_EQ(0, fixture_count(&f, COUNTER_cache_evicted_main));
    cache_fixture_close(&f);
}

/* A response that is renewed has not to prove itself again. */
TEST(evict, what_replaces_a_response_takes_its_place)
{
    struct cache_fixture f;
    uint64_t main_bytes;

    cache_fixture_open(&f);
    CHECK_EQ(0, evict_make_room(f.cache, 1));
    store_response(&f, "b", get(), &plain);
    store_response(&f, "a", get(), &plain);
    store_response(&f, "c", get(), &plain);
    CHECK(evict_make_room(f.cache, 1) > 0);
    store_response(&f, "b", get(), &plain);
    main_bytes = fixture_count(&f, COUNTER_cache_main_bytes);
    CHECK(main_bytes > 0);
    f.clock.mono_ms += 1000 * 1000;
    store_response(&f, "b", get(), &plain);
    CHECK_EQ(main_bytes, fixture_count(&f, COUNTER_cache_main_bytes));
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_ghost_hits));
    cache_fixture_close(&f);
}

TEST(evict, lru_and_sieve_can_be_chosen_and_nothing_else)
{
    static const struct {
        const char *name;
        int err;
    } names[] = {{"lru", 0}, {"sieve", 0}, {"s3-fifo", 0}, {NULL, 0}, {"fifo", TERR_CONFIG}};

    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct conf_index index = {.bits = 8, .slots = 8};
        struct conf_storage store = {.size = 1 << 20, .eviction = names[i].name};
        struct storage *st = store_open("malloc", 4 << 20, "");
        struct counters *counters;
        struct cache *c = NULL;

        CHECK_EQ(0, counters_open(&counters, NULL, 1));
        CHECK_EQ(names[i].err, cache_open(&c, &index, st, &store, counters));
        if (c != NULL)
            cache_close(&c);
        store_close(st);
        counters_close(&counters);
    }
}

TEST(evict, long_durations_are_kept_to_the_second)
{
    const int64_t year = INT64_C(365) * 86400000, exact = ENTRY_MS_EXACT - 1;
    const int64_t same[] = {0, 1, -1, 999, exact, -exact, 30 * year, -30 * year, 86400000};

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        CHECK_EQ(same[i], entry_ms_of(entry_ms_pack(same[i])));
    CHECK_EQ(year, entry_ms_of(entry_ms_pack(year + 999)));
    CHECK_EQ(-year, entry_ms_of(entry_ms_pack(-year - 999)));
    CHECK_EQ(exact / 1000 * 1000, entry_ms_of(entry_ms_pack(exact + 1)) / 1000 * 1000);
    CHECK(entry_ms_of(entry_ms_pack(INT64_MAX)) > 34 * year);
    CHECK_EQ(entry_ms_of(entry_ms_pack(INT64_MAX)), -entry_ms_of(entry_ms_pack(INT64_MIN)));
}

TEST_MAIN(TEST_ENTRY(evict, long_durations_are_kept_to_the_second),
    TEST_ENTRY(evict, what_leaves_by_itself_is_in_no_queue_any_more),
    TEST_ENTRY(evict, who_is_read_leaves_the_queues_at_once_and_is_not_promised),
    TEST_ENTRY(evict, who_comes_back_soon_is_known_as_a_ghost),
    TEST_ENTRY(evict, what_replaces_a_response_takes_its_place),
    TEST_ENTRY(evict, lru_and_sieve_can_be_chosen_and_nothing_else),
    TEST_ENTRY(query, within_its_grace_it_is_served_stale_and_refreshed_once),
    TEST_ENTRY(query, the_requests_grace_caps_the_stored_one),
    TEST_ENTRY(query, the_requests_max_age_counts_from_the_responses_creation),
    TEST_ENTRY(query, who_waited_may_use_what_has_no_time_with_a_policy),
    TEST_ENTRY(query, always_miss_makes_a_new_entry_that_supersedes),
    TEST_ENTRY(query, ignore_busy_fetches_beside_the_other),
    TEST_ENTRY(form, of_a_head_is_kept_once_and_goes_with_its_entry),
    TEST_ENTRY(query, ignore_vary_takes_any_variant),
    TEST_ENTRY(query, with_a_policy_who_finds_a_marker_fetches_as_if_for_the_cache),
    TEST_ENTRY(query, a_pass_marker_passes_every_request_while_it_lasts),
    TEST_ENTRY(query, a_marker_by_a_policy_comes_before_what_is_stale),
    TEST_ENTRY(query, hits_are_counted_when_asked_for),
    TEST_ENTRY(purge, everything_leaves_and_what_is_being_fetched_is_not_kept),
    TEST_ENTRY(purge, a_soft_one_leaves_grace_and_keep),
    TEST_ENTRY(purge, a_soft_one_sets_what_is_said))
