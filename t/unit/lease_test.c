/* lease_test.c -- reading: extents, waiting, ranges, private and synthetic bodies. */
#include "storage/lease.h"

#include "t/unit/storage_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

struct fixture {
    struct storage *s;
    struct test_loop loop;
    struct test_waiter r; /* the reader's */
};

static void
fixture_open(struct fixture *f, const char *engine, const char *fault)
{
    f->s = store_open(engine, 64 * MIB, fault);
    loop_init(&f->loop);
    test_waiter_init(&f->r, &f->loop);
}

/* ---- Settled ---- */

TEST(lease, batches_of_every_size_give_the_same_bytes)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_kept(s, STOBJ_SIZE_UNKNOWN, 3 * MIB + 17);

    for (unsigned max = 1; max < 12; max++)
        CHECK_EQ(3 * MIB + 17, read_range(o, 0, LEASE_TO_END, max));
    stobj_unref(&o);
    store_close(s);
}

TEST(lease, a_batch_is_appended_to_and_filled)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_kept(s, STOBJ_SIZE_UNKNOWN, 100000); /* 16 + 32 + 64 KiB */
    struct lease_iter it;
    struct test_batch tb;

    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    tb.b = (struct lease_batch){.extents = tb.e, .n = 1, .max = 3};
    tb.e[0] = (struct lease_extent){.ptr = "mine", .len = 4};
    CHECK_EQ(2, lease_take(&it, &tb.b));
    CHECK_EQ(3, tb.b.n);
    CHECK_EQ(4, tb.e[0].len);
    CHECK_EQ(16 * KIB, tb.e[1].len);
    CHECK_EQ(32 * KIB, tb.e[2].len);
    CHECK_EQ(0, tb.e[2].flags & LEASE_LAST);
    tb.e[0].id = LEASE_NO_RETURN;
    give_all(&it, &tb); /* the literal among them is skipped */
    CHECK_EQ(1, take(&it, &tb, 3));
    CHECK(tb.e[0].flags & LEASE_LAST);
    give_all(&it, &tb);
    CHECK_EQ(0, take(&it, &tb, 3));
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(lease, ranges_start_and_end_at_odd_places)
{
    static const uint64_t at[] = {0, 1, 16383, 16384, 16385, 49151, 49152, 1032191, 1032192,
        1032193, 2080767, 2080768, 2080769, 4194303};
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    uint64_t hints[] = {STOBJ_SIZE_UNKNOWN, 4 * MIB, 700000, 1048576 + 33000};

    for (size_t h = 0; h < ARRAY_LEN(hints); h++) {
        struct stobj *o = body_kept(s, hints[h], 4 * MIB);

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            CHECK_EQ(4 * MIB - at[i], read_range(o, at[i], LEASE_TO_END, 2));
            CHECK_EQ(1, read_range(o, at[i], 1, 2));
            for (size_t j = i; j < ARRAY_LEN(at); j++)
                CHECK_EQ(at[j] - at[i], read_range(o, at[i], at[j] - at[i], 3));
        }
        stobj_unref(&o);
    }
    store_close(s);
}

TEST(lease, a_start_past_the_end_is_refused_and_at_the_end_is_empty)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_kept(s, 100, 100);
    struct lease_iter it;

    CHECK_EQ(-EINVAL, lease_init(&it, o, 101, LEASE_TO_END, NULL));
    CHECK_EQ(-EINVAL, lease_init(&it, o, UINT64_MAX, 5, NULL));
    CHECK_EQ(0, read_range(o, 100, LEASE_TO_END, 1));
    CHECK_EQ(0, read_range(o, 50, 0, 1));
    CHECK_EQ(50, read_range(o, 50, UINT64_MAX - 10, 1));
    stobj_unref(&o);
    o = body_new(s, STOBJ_PRIVATE, 10, MIB);
    CHECK_EQ(0, body_fill(o, 10, NULL));
    space_finish(o);
    CHECK_EQ(-EINVAL, lease_init(&it, o, 11, 1, NULL));
    CHECK_EQ(10, read_range(o, 0, LEASE_TO_END, 1));
    stobj_unref(&o);
    store_close(s);
}

TEST(lease, leased_bytes_outlive_everybody_else)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_kept(s, 200000, 200000);
    struct lease_iter it;
    struct test_batch tb;
    uint64_t charged = store_stats(s).charged;

    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    lease_hold(&it);
    lease_hold(&it); /* once is enough */
    CHECK(take(&it, &tb, 8) > 0);
    stobj_unref(&o);
    CHECK_EQ(charged, store_stats(s).charged);
    CHECK(body_is(tb.e[0].ptr, 0, tb.e[0].len));
    give_all(&it, &tb);
    lease_fini(&it);
    CHECK_EQ(0, store_stats(s).charged);
    store_close(s);
}

TEST(lease, returns_come_in_any_order_and_grouping)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_kept(s, STOBJ_SIZE_UNKNOWN, MIB);
    struct lease_iter it;
    struct test_batch tb;
    uint64_t ids[8] = {0};

    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(7, take(&it, &tb, 8));
    for (unsigned i = 0; i < 7; i++)
        ids[i] = tb.e[6 - i].id | LEASE_ID_CALLER;
    lease_return(&it, &(struct lease_returns){.ids = ids, .n = 3});
    lease_return(&it, &(struct lease_returns){.ids = ids + 3, .n = 5}); /* the last needs none */
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

/* ---- Streaming ---- */

TEST(stream, a_reader_waits_and_is_told_once)
{
    struct fixture f;
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;

    fixture_open(&f, "malloc", NULL);
    o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &f.r.w));
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
    CHECK_EQ(WAITER_ARMED, waiter_state(&f.r.w));
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1)); /* looking again early changes nothing */
    CHECK_EQ(0, body_fill(o, 10, NULL));
    CHECK_EQ(WAITER_POSTED, waiter_state(&f.r.w));
    CHECK_EQ(0, body_fill(o, 10, NULL));
    CHECK_EQ(1, take(&it, &tb, 1)); /* nor does looking while the notification travels */
    CHECK_EQ(20, tb.e[0].len);
    give_all(&it, &tb);
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
    loop_run(&f.loop);
    CHECK_EQ(1, f.r.runs);
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
    space_finish(o);
    loop_run(&f.loop);
    CHECK_EQ(2, f.r.runs);
    CHECK_EQ(0, take(&it, &tb, 1));
    CHECK_EQ(WAITER_IDLE, waiter_state(&f.r.w));
    lease_fini(&it);
    stobj_unref(&o);
    store_close(f.s);
}

TEST(stream, every_reader_of_a_kept_object_is_told)
{
    struct test_waiter more[5];
    struct lease_iter it[5];
    struct test_batch tb;
    struct fixture f;
    struct stobj *o;

    fixture_open(&f, "malloc", NULL);
    o = body_new(f.s, STOBJ_KEPT, 100, 0);
    for (unsigned i = 0; i < 5; i++) {
        test_waiter_init(&more[i], &f.loop);
        CHECK_EQ(0, lease_init(&it[i], o, i * 10, LEASE_TO_END, &more[i].w));
        CHECK_EQ(-EAGAIN, take(&it[i], &tb, 1));
    }
    CHECK_EQ(0, body_fill(o, 100, NULL));
    space_finish(o);
    loop_run(&f.loop);
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQ(1, more[i].runs);
        CHECK_EQ(1, take(&it[i], &tb, 1));
        CHECK_EQ(100 - i * 10, tb.e[0].len);
        CHECK(tb.e[0].flags & LEASE_LAST);
        give_all(&it[i], &tb);
        lease_fini(&it[i]);
    }
    stobj_unref(&o);
    store_close(f.s);
}

TEST(stream, an_unknown_length_grows_under_its_reader)
{
    struct fixture f;
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;
    uint64_t at = 0;
    int n;

    fixture_open(&f, "malloc", NULL);
    o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &f.r.w));
    for (unsigned i = 0; i < 400; i++) {
        CHECK_EQ(0, body_fill(o, 20011, NULL));
        while ((n = take(&it, &tb, 1 + i % 3)) > 0) {
            for (unsigned j = 0; j < tb.b.n; j++) {
                CHECK(body_is(tb.e[j].ptr, at, tb.e[j].len));
                at += tb.e[j].len;
            }
            give_all(&it, &tb);
        }
        CHECK_EQ(-EAGAIN, n);
        CHECK_EQ(stobj_len(o), at);
        loop_run(&f.loop);
    }
    lease_cancel(&it);
    CHECK_EQ(WAITER_IDLE, waiter_state(&f.r.w));
    space_finish(o);
    CHECK_EQ(0, take(&it, &tb, 1));
    lease_fini(&it);
    CHECK_EQ(at, read_range(o, 0, LEASE_TO_END, 5));
    stobj_unref(&o);
    store_close(f.s);
}

TEST(stream, a_failed_fetch_gives_what_there_is_and_then_says_so)
{
    struct fixture f;
    struct lease_iter it, late, part;
    struct test_batch tb;
    struct stobj *o;

    for (unsigned kind = STOBJ_KEPT; kind <= STOBJ_SHARED; kind++) {
        fixture_open(&f, "malloc", NULL);
        o = body_new(f.s, (enum stobj_kind)kind, 100, MIB);
        CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &f.r.w));
        CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
        CHECK_EQ(0, body_fill(o, 60, NULL));
        space_fail(o, -ECONNRESET);
        loop_run(&f.loop);
        CHECK_EQ(1, f.r.runs);
        CHECK_EQ(1, take(&it, &tb, 4));
        CHECK_EQ(60, tb.e[0].len);
        CHECK_EQ(0, tb.e[0].flags & LEASE_LAST);
        give_all(&it, &tb);
        CHECK_EQ(-EPIPE, take(&it, &tb, 4));
        CHECK_EQ(-EPIPE, take(&it, &tb, 4)); /* and again, if asked */
        lease_fini(&it);
        if (kind == STOBJ_KEPT) { /* who comes later finds the same */
            CHECK_EQ(60, read_range(o, 0, 60, 1));
            CHECK_EQ(0, lease_init(&part, o, 50, 10, NULL));
            CHECK_EQ(1, take(&part, &tb, 1));
            CHECK(tb.e[0].flags & LEASE_LAST);
            give_all(&part, &tb);
            lease_fini(&part);
            CHECK_EQ(0, lease_init(&late, o, 60, LEASE_TO_END, NULL));
            CHECK_EQ(-EPIPE, take(&late, &tb, 1));
            lease_fini(&late);
            CHECK_EQ(0, lease_init(&late, o, 61, LEASE_TO_END, NULL));
            CHECK_EQ(-EPIPE, take(&late, &tb, 1));
            lease_fini(&late);
        }
        stobj_unref(&o);
        store_close(f.s);
    }
}

TEST(stream, a_range_of_a_growing_object_ends_without_its_end)
{
    struct fixture f;
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;

    fixture_open(&f, "malloc", NULL);
    o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(0, lease_init(&it, o, 30000, 10000, &f.r.w));
    CHECK_EQ(0, body_fill(o, 20000, NULL));
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1)); /* the start is still to come */
    CHECK_EQ(0, body_fill(o, 15000, NULL));
    loop_run(&f.loop);
    CHECK_EQ(1, take(&it, &tb, 4));
    CHECK(body_is(tb.e[0].ptr, 30000, 5000));
    CHECK_EQ(0, tb.e[0].flags);
    give_all(&it, &tb);
    CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
    CHECK_EQ(0, body_fill(o, 15000, NULL));
    CHECK_EQ(1, take(&it, &tb, 4));
    CHECK_EQ(5000, tb.e[0].len);
    CHECK(tb.e[0].flags & LEASE_LAST);
    give_all(&it, &tb);
    CHECK_EQ(0, take(&it, &tb, 1));
    lease_fini(&it);
    stobj_unref(&o); /* unfinished: fails */
    loop_run(&f.loop);
    store_close(f.s);
}

TEST(stream, an_iterator_becomes_settled_under_way)
{
    struct fixture f;
    struct lease_iter it, idle;
    struct test_batch tb;
    struct stobj *o;

    fixture_open(&f, "malloc", NULL);
    o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(0, body_fill(o, 40000, NULL));
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(0, lease_init(&idle, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(1, take(&it, &tb, 1));
    CHECK_EQ(0, body_fill(o, 40000, NULL));
    space_finish(o);
    stobj_unref(&o); /* the iterators hold it */
    give_all(&it, &tb);
    CHECK_EQ(2, take(&it, &tb, 4));
    CHECK(tb.e[1].flags & LEASE_LAST);
    give_all(&it, &tb);
    CHECK_EQ(0, take(&it, &tb, 4));
    lease_fini(&it);
    CHECK_EQ(1, store_stats(f.s).objects);
    lease_fini(&idle); /* has never looked */
    store_close(f.s);
}

TEST(stream, waiting_can_be_cancelled_before_and_after_the_notification)
{
    struct fixture f;
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;

    for (unsigned kind = STOBJ_KEPT; kind <= STOBJ_SHARED; kind++) {
        fixture_open(&f, "malloc", NULL);
        o = body_new(f.s, (enum stobj_kind)kind, 100, MIB);
        CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &f.r.w));
        lease_cancel(&it);
        CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
        lease_cancel(&it);
        CHECK_EQ(WAITER_IDLE, waiter_state(&f.r.w));
        CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
        CHECK_EQ(0, body_fill(o, 1, NULL));
        lease_cancel(&it);
        CHECK_EQ(WAITER_POSTED, waiter_state(&f.r.w)); /* too late: it lands */
        lease_fini(&it);
        space_finish(o);
        stobj_unref(&o);
        loop_run(&f.loop);
        CHECK_EQ(WAITER_IDLE, waiter_state(&f.r.w));
        store_close(f.s);
    }
}

TEST(stream, a_reader_without_a_waiter_just_asks_again)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;

    for (unsigned kind = STOBJ_KEPT; kind <= STOBJ_SHARED; kind++) {
        o = body_new(s, (enum stobj_kind)kind, 100, MIB);
        CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
        CHECK_EQ(-EAGAIN, take(&it, &tb, 1));
        CHECK_EQ(0, body_fill(o, 100, NULL));
        CHECK_EQ(1, take(&it, &tb, 1));
        give_all(&it, &tb);
        lease_fini(&it);
        stobj_unref(&o);
    }
    store_close(s);
}

/* ---- Private ---- */

TEST(transit, what_was_handed_out_cannot_be_had_again)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, 1000, MIB);
    struct lease_iter it;
    struct test_batch tb;

    CHECK_EQ(0, body_fill(o, 400, NULL));
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(1, take(&it, &tb, 1));
    give_all(&it, &tb);
    lease_fini(&it);
    CHECK_EQ(0, body_fill(o, 600, NULL));
    space_finish(o);
    CHECK_EQ(0, lease_init(&it, o, 399, LEASE_TO_END, NULL));
    CHECK_EQ(-ESTALE, take(&it, &tb, 1));
    lease_fini(&it);
    CHECK_EQ(600, read_range(o, 400, LEASE_TO_END, 1)); /* but another may go on from there */
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, a_range_skips_and_frees_what_lies_before)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 64 * KIB);
    struct lease_iter it;
    struct test_batch tb;
    uint64_t at = 300001;

    CHECK_EQ(0, lease_init(&it, o, at, 70000, NULL));
    while (at < 370001) {
        int n = take(&it, &tb, 3);

        CHECK(n > 0 || n == -EAGAIN);
        if (n == -EAGAIN && body_fill(o, 5000, NULL) < 0)
            CHECK(false); /* blocked for ever: what is skipped was not freed */
        for (unsigned i = 0; i < tb.b.n; i++) {
            CHECK(body_is(tb.e[i].ptr, at, tb.e[i].len));
            at += tb.e[i].len;
        }
        give_all(&it, &tb);
        CHECK(store_stats(s).charged <= 65 * KIB);
    }
    CHECK_EQ(0, take(&it, &tb, 1));
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, the_last_segment_may_go_before_its_successor_comes)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 16 * KIB);
    uint64_t base = store_stats(s).charged, at = 0;
    struct lease_iter it;
    struct test_batch tb;
    struct span span;

    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    for (unsigned i = 0; i < 50; i++) {
        CHECK_EQ(0, space_get(o, MIB, &span, NULL)); /* a whole segment each time */
        body_write(span.ptr, at, span.len);
        space_extend(o, span.len);
        CHECK_EQ(1, take(&it, &tb, 4));
        CHECK(body_is(tb.e[0].ptr, at, tb.e[0].len));
        CHECK(stobj_contains(o, tb.e[0].ptr, tb.e[0].len));
        at += tb.e[0].len;
        give_all(&it, &tb);
        CHECK_EQ(base, store_stats(s).charged);
        CHECK_EQ(-EAGAIN, take(&it, &tb, 4));
    }
    space_finish(o);
    CHECK_EQ(0, take(&it, &tb, 4));
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, memory_stays_within_the_bound)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, MIB);
    uint64_t at = 0, base = store_stats(s).charged;
    struct test_loop loop;
    struct test_waiter rw, ww;
    struct lease_iter it;
    struct test_batch tb;
    int n;

    loop_init(&loop);
    test_waiter_init(&rw, &loop);
    test_waiter_init(&ww, &loop);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &rw.w));
    for (unsigned turn = 0; turn < 20; turn++) {
        CHECK_EQ(-EAGAIN, body_fill(o, 100 * MIB, &ww.w));
        CHECK(waiter_pending(&ww.w));
        CHECK(store_stats(s).charged - base <= MIB);
        while ((n = take(&it, &tb, 3)) > 0) {
            for (unsigned i = 0; i < tb.b.n; i++) {
                CHECK(body_is(tb.e[i].ptr, at, tb.e[i].len));
                at += tb.e[i].len;
            }
            give_all(&it, &tb);
        }
        CHECK_EQ(-EAGAIN, n);
        CHECK_EQ(0, store_stats(s).charged - base); /* all returned, all given back */
        loop_run(&loop);
    }
    CHECK(
        at >
        16 *
            MIB); /* the rest is pads and heads of segments, and what the first turns could not hold yet */
    space_finish(o);
    loop_run(&loop);
    CHECK_EQ(0, take(&it, &tb, 1));
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, the_writers_lead_grows_with_what_was_taken)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = NULL;
    uint64_t base, held, before = 0;
    struct test_loop loop;
    struct test_waiter ww;
    struct lease_iter it;
    struct test_batch tb;

    loop_init(&loop);
    test_waiter_init(&ww, &loop);
    CHECK_EQ(0, stobj_new_private(&o, s, STOBJ_SIZE_UNKNOWN, MIB, 64 * KIB));
    base = store_stats(s).charged;
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    for (unsigned turn = 0; turn < 4; turn++) {
        CHECK_EQ(-EAGAIN, body_fill(o, 100 * MIB, &ww.w));
        held = store_stats(s).charged - base;
        CHECK(turn > 0 ? held >= 2 * before : held <= 64 * KIB && held > 40 * KIB);
        before = held;
        while (take(&it, &tb, BATCH_MAX) > 0)
            give_all(&it, &tb);
        loop_run(&loop);
    }
    CHECK(before > 800 * KIB);
    space_cancel(o, &ww.w);
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, leased_but_unreturned_bytes_count_against_the_bound)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 64 * KIB);
    struct test_loop loop;
    struct test_waiter rw, ww;
    struct lease_iter it;
    struct test_batch tb, none;
    uint64_t len;

    loop_init(&loop);
    test_waiter_init(&rw, &loop);
    test_waiter_init(&ww, &loop);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &rw.w));
    CHECK_EQ(-EAGAIN, take(&it, &none, 1));
    CHECK_EQ(-EAGAIN, body_fill(o, MIB, &ww.w));
    len = stobj_len(o);
    loop_run(&loop);
    CHECK(len > 40 * KIB);
    CHECK(store_stats(s).charged <= 64 * KIB + 500);
    CHECK_EQ(5, take(&it, &tb, BATCH_MAX));  /* of 12 KiB: at most a quarter of the bound */
    CHECK_EQ(-ENOBUFS, take(&it, &none, 1)); /* everything is leased, and the writer waits */
    CHECK(waiter_pending(&rw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, MIB, &ww.w));
    CHECK_EQ(len, stobj_len(o));

    give_one(&it, tb.e[2].id); /* in any order */
    loop_run(&loop);
    CHECK_EQ(1, ww.runs);
    CHECK_EQ(-EAGAIN, body_fill(o, MIB, &ww.w)); /* one segment more */
    CHECK(stobj_len(o) > len);
    give_one(&it, tb.e[0].id);
    give_one(&it, tb.e[3].id);
    give_one(&it, tb.e[1].id);
    give_one(&it, tb.e[4].id);
    space_cancel(o, &ww.w);
    space_fail(o, -EIO);
    CHECK_EQ(1, take(&it, &tb, BATCH_MAX));
    CHECK_EQ(-EPIPE, take(&it, &none, BATCH_MAX));
    give_all(&it, &tb);
    lease_fini(&it);
    stobj_unref(&o);
    loop_run(&loop);
    store_close(s);
}

TEST(transit, a_reader_that_waits_hears_when_the_writer_is_stuck)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 16 * KIB);
    struct test_loop loop;
    struct test_waiter rw, ww;
    struct test_batch got[8], none;
    struct lease_iter it;
    unsigned n = 0;

    loop_init(&loop);
    test_waiter_init(&rw, &loop);
    test_waiter_init(&ww, &loop);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &rw.w));
    do { /* the reader takes everything that comes and returns nothing */
        CHECK_EQ(-EAGAIN, take(&it, &none, 1));
        if (body_fill(o, 4000, &ww.w) < 0)
            break;
        loop_run(&loop);
        CHECK(take(&it, &got[n], 8) > 0);
    } while (++n < ARRAY_LEN(got));
    CHECK(n < ARRAY_LEN(got));
    loop_run(&loop); /* woken not by bytes but by the writer's stop */
    CHECK(waiter_state(&rw.w) == WAITER_IDLE);
    if (take(&it, &got[n], 8) > 0)
        n++;
    CHECK_EQ(-ENOBUFS, take(&it, &none, 1));
    for (unsigned i = 0; i < n; i++)
        give_all(&it, &got[i]);
    CHECK_EQ(WAITER_POSTED, waiter_state(&ww.w));
    loop_run(&loop);
    CHECK_EQ(0, body_fill(o, 100, &ww.w));
    lease_cancel(&it);
    lease_fini(&it);
    space_finish(o);
    stobj_unref(&o);
    loop_run(&loop);
    store_close(s);
}

TEST(transit, a_writer_that_stops_between_segments_says_so)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 16 * KIB);
    struct test_loop loop;
    struct test_waiter rw, ww;
    struct test_batch got[8], none;
    struct lease_iter it;
    struct span span;
    unsigned n = 0;

    loop_init(&loop);
    test_waiter_init(&rw, &loop);
    test_waiter_init(&ww, &loop);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &rw.w));
    while (CHECK_EQ(-EAGAIN, take(&it, &none, 1)), space_get(o, MIB, &span, &ww.w) == 0) {
        space_extend(o, span.len);
        loop_run(&loop);
        CHECK_EQ(1, take(&it, &got[n++], 8));
    }
    CHECK_EQ(WAITER_POSTED, waiter_state(&rw.w)); /* nothing came since it was armed */
    loop_run(&loop);
    CHECK_EQ(-ENOBUFS, take(&it, &none, 1));
    while (n > 0)
        give_all(&it, &got[--n]);
    loop_run(&loop);
    lease_cancel(&it);
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

TEST(transit, a_full_store_still_lets_a_pass_through)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    void *all[MIB / (12 * KIB)];
    struct test_loop loop;
    struct test_waiter rw, ww;
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o;
    uint64_t at = 0;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        CHECK((all[i] = storage_alloc(s, 12 * KIB, CHARGE_HEAD)) != NULL);
    loop_init(&loop);
    test_waiter_init(&rw, &loop);
    test_waiter_init(&ww, &loop);
    o = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, MIB);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, &rw.w));
    for (unsigned turn = 0; turn < 10; turn++) {
        CHECK_EQ(-EAGAIN, body_fill(o, MIB, &ww.w));     /* never -ENOSPC */
        CHECK(store_stats(s).charged <= MIB + 17 * KIB); /* one minimal segment */
        CHECK(take(&it, &tb, 8) > 0);
        CHECK(body_is(tb.e[0].ptr, at, tb.e[0].len));
        at += tb.e[0].len;
        give_all(&it, &tb);
        loop_run(&loop);
    }
    CHECK(at > 130 * KIB);
    stobj_unref(&o);
    CHECK_EQ(-EPIPE, take(&it, &tb, 8));
    lease_fini(&it);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        storage_free(s, all[i], 12 * KIB, CHARGE_HEAD);
    store_close(s);
}

TEST(transit, an_announced_small_body_takes_a_small_segment)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_PRIVATE, 300, MIB);
    uint64_t base = store_stats(s).charged;

    CHECK_EQ(0, body_fill(o, 300, NULL));
    space_finish(o);
    CHECK(store_stats(s).charged - base <= 384);
    CHECK_EQ(300, read_range(o, 0, LEASE_TO_END, 1));
    stobj_unref(&o);
    store_close(s);
}

/* ---- Synthetic ---- */

TEST(synth, a_body_is_the_references_it_was_made_of)
{
    static const char a[] = "hello ", b[] = "world";
    struct storage *s = store_open("synth", 0, NULL);
    struct stobj *o = NULL, *filled = NULL;
    struct lease_iter it;
    struct test_batch tb;

    CHECK_EQ(0, stobj_synth_new(&o, s));
    CHECK_EQ(STOBJ_SETTLED, stobj_state(o));
    CHECK_EQ(0, stobj_len(o));
    CHECK_EQ(0, stobj_synth_add(o, slice_of(a, 6)));
    CHECK_EQ(0, stobj_synth_add(o, slice_of(NULL, 0)));
    CHECK_EQ(0, stobj_synth_add(o, slice_of(b, 5)));
    CHECK_EQ(11, stobj_len(o));
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(2, take(&it, &tb, 4));
    CHECK(tb.e[0].ptr == a && tb.e[0].len == 6 && tb.e[0].id == LEASE_NO_RETURN);
    CHECK(tb.e[1].ptr == b && tb.e[1].len == 5 && (tb.e[1].flags & LEASE_LAST));
    CHECK_EQ(0, take(&it, &tb, 4));
    lease_fini(&it); /* nothing is to be returned */
    CHECK_EQ(0, lease_init(&it, o, 5, 2, NULL));
    CHECK_EQ(1, take(&it, &tb, 1));
    CHECK(tb.e[0].ptr == a + 5 && tb.e[0].len == 1);
    CHECK_EQ(1, take(&it, &tb, 1));
    CHECK(tb.e[0].ptr == b && tb.e[0].len == 1 && (tb.e[0].flags & LEASE_LAST));
    lease_fini(&it);
    CHECK_EQ(-EINVAL, lease_init(&it, o, 12, 1, NULL));
    CHECK(stobj_contains(o, b + 1, 4));
    CHECK(!stobj_contains(o, b + 1, 5));
    CHECK_EQ(-ENOSPC, stobj_new(&filled, s, STOBJ_KEPT, 1, 0)); /* cannot be filled */
    stobj_unref(&o);
    store_close(s);
}

TEST(synth, a_hundred_parts_are_found_from_any_offset)
{
    struct storage *s = store_open("synth", 0, NULL);
    struct stobj *o = NULL;
    static char body[5050];
    size_t at = 0;

    body_write(body, 0, sizeof body);
    CHECK_EQ(0, stobj_synth_new(&o, s));
    for (unsigned i = 1; i <= 100; i++) {
        CHECK_EQ(0, stobj_synth_add(o, slice_of(body + at, i)));
        at += i;
    }
    for (uint64_t off = 0; off <= sizeof body; off += 7)
        CHECK_EQ(sizeof body - off, read_range(o, off, LEASE_TO_END, 1 + off % 5));
    stobj_unref(&o);
    store_close(s);
}

TEST_MAIN(TEST_ENTRY(lease, batches_of_every_size_give_the_same_bytes),
    TEST_ENTRY(lease, a_batch_is_appended_to_and_filled),
    TEST_ENTRY(lease, ranges_start_and_end_at_odd_places),
    TEST_ENTRY(lease, a_start_past_the_end_is_refused_and_at_the_end_is_empty),
    TEST_ENTRY(lease, leased_bytes_outlive_everybody_else),
    TEST_ENTRY(lease, returns_come_in_any_order_and_grouping),
    TEST_ENTRY(stream, a_reader_waits_and_is_told_once),
    TEST_ENTRY(stream, every_reader_of_a_kept_object_is_told),
    TEST_ENTRY(stream, an_unknown_length_grows_under_its_reader),
    TEST_ENTRY(stream, a_failed_fetch_gives_what_there_is_and_then_says_so),
    TEST_ENTRY(stream, a_range_of_a_growing_object_ends_without_its_end),
    TEST_ENTRY(stream, an_iterator_becomes_settled_under_way),
    TEST_ENTRY(stream, waiting_can_be_cancelled_before_and_after_the_notification),
    TEST_ENTRY(stream, a_reader_without_a_waiter_just_asks_again),
    TEST_ENTRY(transit, what_was_handed_out_cannot_be_had_again),
    TEST_ENTRY(transit, a_range_skips_and_frees_what_lies_before),
    TEST_ENTRY(transit, the_last_segment_may_go_before_its_successor_comes),
    TEST_ENTRY(transit, memory_stays_within_the_bound),
    TEST_ENTRY(transit, the_writers_lead_grows_with_what_was_taken),
    TEST_ENTRY(transit, leased_but_unreturned_bytes_count_against_the_bound),
    TEST_ENTRY(transit, a_reader_that_waits_hears_when_the_writer_is_stuck),
    TEST_ENTRY(transit, a_writer_that_stops_between_segments_says_so),
    TEST_ENTRY(transit, a_full_store_still_lets_a_pass_through),
    TEST_ENTRY(transit, an_announced_small_body_takes_a_small_segment),
    TEST_ENTRY(synth, a_body_is_the_references_it_was_made_of),
    TEST_ENTRY(synth, a_hundred_parts_are_found_from_any_offset))
