/* storage_window_test.c -- windows that many readers share: who gets what, who waits, who is stale. */
#include "t/unit/window_fixture.h"

/* ---- What is held ---- */

TEST(window, everybody_gets_every_byte)
{
    static struct fixture f;
    struct reader *r[3];

    fixture_open(&f, "malloc", MIB);
    for (unsigned i = 0; i < ARRAY_LEN(r); i++)
        r[i] = reader_open(&f, i, i * 100000, LEASE_TO_END);
    for (unsigned turn = 0; turn < 300; turn++) {
        CHECK_EQ(0, body_fill(f.o, 29989, &f.writer.w));
        loop_run(&f.loop);
        for (unsigned i = 0; i < ARRAY_LEN(r); i++)
            CHECK_EQ(-EAGAIN, reader_drain(r[i]));
        CHECK(fixture_held(&f) <= MIB);
    }
    space_finish(f.o);
    for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
        CHECK_EQ(0, reader_drain(r[i]));
        CHECK_EQ(300 * 29989, r[i]->at);
        reader_close(r[i]);
    }
    fixture_close(&f);
}

TEST(window, what_was_read_stays_until_its_room_is_needed)
{
    static struct fixture f;
    struct reader *first, *late;

    fixture_open(&f, "malloc", MIB);
    first = reader_open(&f, 0, 0, LEASE_TO_END);
    CHECK_EQ(0, body_fill(f.o, 800 * KIB, NULL));
    CHECK_EQ(-EAGAIN, reader_drain(first));
    CHECK_EQ(0, stobj_window_start(f.o));
    late = reader_open(&f, 1, 0, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_drain(late));
    CHECK_EQ(800 * KIB, late->at);

    CHECK_EQ(0, body_fill(f.o, 800 * KIB, NULL)); /* nobody needs the first ones */
    CHECK(stobj_window_start(f.o) > 0);
    CHECK(stobj_window_start(f.o) % f.seg == 0);
    CHECK(stobj_len(f.o) - stobj_window_start(f.o) > MIB - MIB / 16); /* it holds what it may */
    CHECK_EQ(-EAGAIN, reader_drain(late));
    reader_close(first);
    reader_close(late);
    fixture_close(&f);
}

TEST(window, a_start_that_is_no_longer_held_is_stale)
{
    static struct fixture f;
    struct reader *r, *late;
    uint64_t start;

    fixture_open(&f, "malloc", 256 * KIB);
    r = reader_open(&f, 0, 0, LEASE_TO_END);
    while (stobj_window_start(f.o) == 0) {
        CHECK_EQ(0, body_fill(f.o, 4000, NULL));
        CHECK_EQ(-EAGAIN, reader_drain(r));
    }
    start = stobj_window_start(f.o);
    late = reader_open(&f, 1, start - 1, LEASE_TO_END);
    CHECK_EQ(-ESTALE, reader_take(late, 7));
    CHECK(!waiter_pending(&late->tw.w));
    CHECK_EQ(-ESTALE, reader_take(late, 7)); /* and stays so */
    reader_close(late);
    late = reader_open(&f, 1, start, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_drain(late));
    CHECK_EQ(stobj_len(f.o), late->at);
    reader_close(late);
    reader_close(r);
    fixture_close(&f);
}

TEST(window, a_start_that_is_not_published_yet_waits)
{
    static struct fixture f;
    struct reader *near, *far;

    fixture_open(&f, "malloc", MIB);
    near = reader_open(&f, 0, 10, 20); /* in the segment that is being filled */
    far = reader_open(&f, 1, 3 * MIB + 1, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_take(near, 7));
    CHECK_EQ(-EAGAIN, reader_take(far, 7));
    CHECK_EQ(0, body_fill(f.o, 100, NULL));
    loop_run(&f.loop);
    CHECK_EQ(1, near->tw.runs);
    CHECK_EQ(1, reader_take(near, 7));
    CHECK_EQ(LEASE_LAST, near->tb.e[0].flags);
    give_all(&near->it, &near->tb);
    CHECK_EQ(0, reader_take(near, 7));
    while (stobj_len(f.o) <= 3 * MIB + 1) { /* what it skips it does not need */
        CHECK_EQ(-EAGAIN, reader_take(far, 7));
        CHECK_EQ(0, body_fill(f.o, 10007, NULL));
        loop_run(&f.loop);
    }
    CHECK(reader_drain(far) == -EAGAIN && far->at == stobj_len(f.o));
    reader_close(near);
    reader_close(far);
    fixture_close(&f);
}

/* What it skips may be filled when the window has begun to start behind that. */
TEST(window, who_reads_alone_far_ahead_holds_up_nobody)
{
    static struct fixture f;
    struct reader *far;

    fixture_open(&f, "malloc", MIB);
    far = reader_open(&f, 0, 3 * MIB + 1, LEASE_TO_END);
    stobj_shut_window(f.o);
    CHECK_EQ(0, body_fill(f.o, 100, NULL));
    CHECK_EQ(-EAGAIN, reader_take(far, 7));
    CHECK_EQ(3 * MIB + 1, stobj_window_start(f.o));
    CHECK_EQ(0, body_fill(f.o, 3 * MIB, NULL));
    CHECK(fixture_held(&f) <= MIB);
    CHECK_EQ(3 * MIB + 1, stobj_window_start(f.o));
    CHECK(reader_drain(far) == -EAGAIN && far->at == stobj_len(f.o));
    reader_close(far);
    fixture_close(&f);
}

/* ---- Who waits for whom ---- */

TEST(window, a_reader_alone_holds_up_the_writer_and_loses_nothing)
{
    static struct fixture f;
    struct reader *r;

    fixture_open(&f, "malloc", MIB);
    r = reader_open(&f, 0, 0, LEASE_TO_END);
    CHECK(fill_up(&f) > MIB - MIB / 8);
    for (unsigned turn = 0; turn < 200; turn++) {
        unsigned runs = f.writer.runs;

        CHECK(stobj_window_start(f.o) <= r->at);
        CHECK(reader_take(r, 1 + turn % 7) > 0);           /* always far behind, never stale */
        CHECK_EQ(-EAGAIN, body_fill(f.o, 1, &f.writer.w)); /* leased, so not room */
        give_all(&r->it, &r->tb);
        loop_run(&f.loop);
        CHECK_EQ(runs + 1, f.writer.runs);
        fill_up(&f);
    }
    CHECK(r->at > 2 * MIB);
    reader_close(r);
    fixture_close(&f);
}

/* Of a window of 4 MiB one reader gets 256 KiB; what it has read stays until the window is shut. */
TEST(window, a_reader_alone_gets_less_and_company_all_of_it)
{
    static struct fixture f;
    struct reader *r, *late;
    uint64_t len;

    f.s = store_open("malloc", 256 * MIB, NULL);
    CHECK_EQ(0, stobj_new_shared(&f.o, f.s, STOBJ_SIZE_UNKNOWN, 4 * MIB, 256 * KIB, 0));
    fixture_init(&f, 4 * MIB);
    r = reader_open(&f, 0, 0, LEASE_TO_END);
    len = fill_up(&f);
    CHECK(len > 192 * KIB && len <= 256 * KIB);
    while (stobj_len(f.o) < MIB) {
        CHECK_EQ(-EAGAIN, reader_drain(r));
        loop_run(&f.loop);
        fill_up(&f);
        CHECK(stobj_len(f.o) - r->at <= 256 * KIB);
    }
    CHECK_EQ(0, stobj_window_start(f.o)); /* somebody may come */
    late = reader_open(&f, 1, 0, LEASE_TO_END);
    loop_run(&f.loop);
    fill_up(&f);
    CHECK(stobj_len(f.o) > 3 * MIB);
    CHECK_EQ(-EAGAIN, reader_drain(late));
    reader_close(late);
    CHECK_EQ(-EAGAIN, reader_drain(r));
    stobj_shut_window(f.o);
    loop_run(&f.loop);
    fill_up(&f);
    CHECK(stobj_window_start(f.o) > 0);
    CHECK(stobj_len(f.o) - stobj_window_start(f.o) <= 256 * KIB);
    CHECK(store_stats(f.s).charged <= 300 * KIB);
    space_cancel(f.o, &f.writer.w);
    space_finish(f.o);
    CHECK_EQ(0, reader_drain(r)); /* what is read goes: nobody else comes */
    CHECK(store_stats(f.s).charged <= 32 * KIB);
    reader_close(r);
    fixture_close(&f);
}

TEST(window, the_slow_are_left_behind_when_the_writer_has_lost_patience)
{
    static struct fixture f;
    struct reader *slow, *fast;
    uint64_t len;

    f.s = store_open("malloc", 256 * MIB, NULL);
    CHECK_EQ(0, stobj_new_shared(&f.o, f.s, STOBJ_SIZE_UNKNOWN, MIB, 256 * KIB, 0));
    fixture_init(&f, MIB);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    fast = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    len = stobj_len(f.o);
    for (unsigned turn = 0; turn < 3; turn++) {
        CHECK_EQ(-EAGAIN, reader_drain(fast)); /* hungry */
        loop_run(&f.loop);
        CHECK_EQ(-EAGAIN, body_fill(f.o, 1, &f.writer.w));
    }
    CHECK_EQ(len, stobj_len(f.o));
    CHECK(reader_take(slow, 1) > 0); /* it was in time: one segment may go */
    give_all(&slow->it, &slow->tb);
    loop_run(&f.loop);
    CHECK_EQ(0, body_fill(f.o, 1, &f.writer.w));
    while (body_fill(f.o, f.seg, &f.writer.w) == 0)
        CHECK_EQ(-EAGAIN, reader_drain(fast));
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    stobj_expire_window(f.o);
    loop_run(&f.loop);
    space_cancel(f.o, &f.writer.w);
    CHECK_EQ(0, body_fill(f.o, 1, &f.writer.w));
    CHECK_EQ(-ESTALE, reader_take(slow, 1));
    reader_close(slow);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, the_slow_are_left_behind_for_who_waits_far_ahead_too)
{
    static struct fixture f;
    struct reader *slow, *far;

    f.s = store_open("malloc", 256 * MIB, NULL);
    CHECK_EQ(0, stobj_new_shared(&f.o, f.s, STOBJ_SIZE_UNKNOWN, MIB, 256 * KIB, 0));
    fixture_init(&f, MIB);
    far = reader_open(&f, 0, 3 * MIB + 1, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_take(far, 7));
    CHECK(fill_up(&f) < 3 * MIB);
    stobj_expire_window(f.o);
    CHECK_EQ(0, body_fill(f.o, 3 * MIB + 100 - stobj_len(f.o), NULL));
    CHECK_EQ(-ESTALE, reader_take(slow, 1));
    CHECK(reader_drain(far) == -EAGAIN && far->at == stobj_len(f.o));
    reader_close(slow);
    reader_close(far);
    fixture_close(&f);
}

TEST(window, a_writer_that_waits_looks_again_when_told)
{
    static struct fixture f;
    unsigned runs;

    fixture_open(&f, "malloc", MIB);
    fill_up(&f);
    runs = f.writer.runs;
    stobj_wake_writer(f.o);
    loop_run(&f.loop);
    CHECK_EQ(runs + 1, f.writer.runs);
    CHECK_EQ(-EAGAIN, body_fill(f.o, 1, &f.writer.w)); /* nobody reads */
    fixture_close(&f);
}

TEST(window, without_readers_the_writer_waits_for_one)
{
    static struct fixture f;
    struct reader *r;
    uint64_t len;

    fixture_open(&f, "malloc", MIB);
    len = fill_up(&f);
    r = reader_open(&f, 0, len - 1, LEASE_TO_END);
    loop_run(&f.loop);
    CHECK_EQ(1, f.writer.runs); /* what lies before it is not needed */
    CHECK(fill_up(&f) > MIB / 2);
    reader_close(r);
    loop_run(&f.loop);
    CHECK_EQ(0, fill_up(&f)); /* alone again */
    r = reader_open(&f, 0, stobj_window_start(f.o), LEASE_TO_END);
    CHECK_EQ(0, fill_up(&f)); /* it needs the oldest */
    CHECK_EQ(-EAGAIN, reader_drain(r));
    CHECK(fill_up(&f) > MIB / 2);
    reader_close(r);
    fixture_close(&f);
}

TEST(window, no_reader_is_left_behind_while_none_waits)
{
    static struct fixture f;
    struct reader *fast, *slow;

    fixture_open(&f, "malloc", MIB);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    while (fast->at < stobj_len(f.o)) { /* has all of it, but has not asked for more */
        CHECK(reader_take(fast, 7) > 0);
        give_all(&fast->it, &fast->tb);
        CHECK_EQ(0, fill_up(&f));
    }
    CHECK_EQ(0, stobj_window_start(f.o));
    CHECK_EQ(WAITER_ARMED, waiter_state(&f.writer.w));
    CHECK(reader_take(slow, 1) > 0);
    give_all(&slow->it, &slow->tb);
    CHECK_EQ(WAITER_POSTED, waiter_state(&f.writer.w)); /* the slow one has made room */
    reader_close(fast);
    reader_close(slow);
    fixture_close(&f);
}

TEST(window, a_hungry_reader_makes_the_window_move)
{
    static struct fixture f;
    struct reader *fast, *slow, *near;
    uint64_t len;

    fixture_open(&f, "malloc", MIB);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    len = fill_up(&f);
    near = reader_open(&f, 2, 5 * f.seg, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    CHECK_EQ(WAITER_POSTED, waiter_state(&f.writer.w));
    loop_run(&f.loop);
    CHECK_EQ(0, body_fill(f.o, f.seg, &f.writer.w));
    CHECK_EQ(f.seg, stobj_window_start(f.o)); /* no more goes than must */
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    CHECK_EQ(-EAGAIN, reader_drain(near)); /* not touched */
    CHECK_EQ(len + f.seg, near->at);
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    reader_close(slow);
    reader_close(near);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, who_waits_no_more_pushes_nobody)
{
    static struct fixture f;
    struct reader *fast, *slow;

    fixture_open(&f, "malloc", MIB);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    lease_cancel(&fast->it);
    CHECK_EQ(0, fill_up(&f));
    CHECK_EQ(0, stobj_window_start(f.o));
    reader_close(fast);
    reader_close(slow);
    fixture_close(&f);
}

TEST(window, a_reader_far_ahead_pushes_nobody)
{
    static struct fixture f;
    struct reader *slow, *far;

    fixture_open(&f, "malloc", MIB);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    far = reader_open(&f, 1, 100 * MIB, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_take(far, 7));
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_take(far, 7));
    CHECK_EQ(0, fill_up(&f));
    CHECK_EQ(0, stobj_window_start(f.o));
    CHECK_EQ(-EAGAIN, reader_drain(slow)); /* asks at the front */
    CHECK(fill_up(&f) > 0);
    reader_close(slow);
    reader_close(far);
    fixture_close(&f);
}

TEST(window, who_has_what_it_asked_for_needs_nothing)
{
    static struct fixture f;
    struct reader *part, *whole;

    fixture_open(&f, "malloc", MIB);
    part = reader_open(&f, 0, 10, 100);
    whole = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(1, reader_take(part, 7)); /* it keeps its lease */
    CHECK(reader_take(whole, 7) > 0);
    give_all(&whole->it, &whole->tb);
    CHECK(fill_up(&f) > 0); /* past the leased one */
    CHECK(stobj_window_start(f.o) > f.seg);
    CHECK(body_is(part->tb.e[0].ptr, 10, 100));
    give_all(&part->it, &part->tb);
    CHECK_EQ(0, reader_take(part, 7)); /* its end, though long gone: not stale */
    reader_close(part);
    reader_close(whole);
    fixture_close(&f);
}

TEST(window, who_leaves_makes_room)
{
    static struct fixture f;
    struct reader *slow, *fast;

    fixture_open(&f, "malloc", MIB);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    fast = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK(reader_take(fast, 7) > 0);
    give_all(&fast->it, &fast->tb);
    CHECK_EQ(0, fill_up(&f));
    reader_close(slow);
    CHECK_EQ(WAITER_POSTED, waiter_state(&f.writer.w));
    CHECK(fill_up(&f) > 0);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, a_few_bytes_wake_only_those_who_wait_for_them)
{
    static struct fixture f;
    enum {
        FRONT = 3
    };

    fixture_open(&f, "malloc", MIB);
    CHECK_EQ(0, body_fill(f.o, 5 * f.seg, NULL));
    for (unsigned i = 0; i < 30; i++) {
        reader_open(&f, i, 0, LEASE_TO_END);
        if (i < FRONT)
            CHECK_EQ(-EAGAIN, reader_drain(&f.r[i]));
        else
            CHECK(reader_take(&f.r[i], 1) > 0);
    }
    for (unsigned turn = 1; turn <= 10; turn++) {
        CHECK_EQ(0, body_fill(f.o, 1, NULL));
        loop_run(&f.loop);
        for (unsigned i = 0; i < 30; i++)
            CHECK_EQ(i < FRONT ? turn : 0, f.r[i].tw.runs);
        for (unsigned i = 0; i < FRONT; i++)
            CHECK_EQ(-EAGAIN, reader_drain(&f.r[i]));
    }
    for (unsigned i = 0; i < 30; i++) {
        if (i >= FRONT)
            give_all(&f.r[i].it, &f.r[i].tb);
        reader_close(&f.r[i]);
    }
    fixture_close(&f);
}

/* ---- Leases ---- */

TEST(window, leased_bytes_outlive_the_window)
{
    static struct fixture f;
    struct reader *slow, *fast;
    uint64_t held;

    fixture_open(&f, "malloc", MIB);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    fast = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(4, reader_take(slow, 4));
    for (unsigned turn = 0; turn < 60; turn++) {
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        fill_up(&f);
    }
    CHECK(stobj_window_start(f.o) > 2 * MIB);
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    slow->tb.b.n = 4; /* the batch is still there */
    for (unsigned i = 0; i < 4; i++) {
        CHECK(body_is(slow->tb.e[i].ptr, i * f.seg, f.seg));
        CHECK(stobj_contains(f.o, slow->tb.e[i].ptr, f.seg));
    }
    held = fixture_held(&f);
    give_one(&slow->it, slow->tb.e[2].id);
    CHECK(fixture_held(&f) < held); /* at once, in any order */
    stobj_unref(&f.o);              /* the writer goes; iterators hold the object */
    CHECK(body_is(slow->tb.e[0].ptr, 0, f.seg));
    give_one(&slow->it, slow->tb.e[0].id);
    give_one(&slow->it, slow->tb.e[3].id);
    give_one(&slow->it, slow->tb.e[1].id);
    reader_close(slow);
    CHECK_EQ(-EPIPE, reader_drain(fast));
    reader_close(fast);
    loop_run(&f.loop);
    store_close(f.s);
}

TEST(window, stalled_readers_do_not_stop_the_fast_one)
{
    static struct fixture f;
    struct reader *fast;
    unsigned stalled = 32;
    uint64_t leases = 0;

    fixture_open(&f, "malloc", 4 * MIB);
    fast = reader_open(&f, stalled, 0, LEASE_TO_END);
    fill_up(&f);
    /* Each takes what it may of a different part, and never returns it. */
    for (unsigned i = 0; i < stalled; i++) {
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        fill_up(&f);
        reader_open(&f, i, stobj_window_start(f.o), LEASE_TO_END);
        CHECK(reader_take(&f.r[i], 7) >= 1);
        leases += f.r[i].tb.b.n;
    }
    CHECK(leases > 4 * MIB / f.seg / 3 && leases < 4 * MIB / f.seg);
    for (unsigned turn = 0; turn < 100; turn++) {
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        CHECK(fill_up(&f) >= f.seg);
    }
    CHECK(fast->at > 100 * f.seg);
    for (unsigned i = 0; i < stalled; i++) {
        uint64_t at = f.r[i].at;

        for (unsigned e = f.r[i].tb.b.n; e-- > 0;) {
            at -= f.r[i].tb.e[e].len;
            CHECK(body_is(f.r[i].tb.e[e].ptr, at, f.r[i].tb.e[e].len));
        }
        give_all(&f.r[i].it, &f.r[i].tb);
        CHECK_EQ(-ESTALE, reader_take(&f.r[i], 1));
        reader_close(&f.r[i]);
    }
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, who_may_lease_no_more_is_told_to_return_some)
{
    static struct fixture f;
    struct test_batch more;
    struct reader *r;
    int n;

    fixture_open(&f, "malloc", 256 * KIB);
    r = reader_open(&f, 0, 0, LEASE_TO_END);
    fill_up(&f);
    n = reader_take(r, BATCH_MAX);
    CHECK(n > 20 && n < 60); /* half of what the window could hold */
    CHECK_EQ(-ENOBUFS, take(&r->it, &more, 7));
    CHECK_EQ(WAITER_ARMED, waiter_state(&r->tw.w));
    inbox_here = &f.loop.inbox;
    give_one(&r->it, r->tb.e[3].id);
    inbox_here = NULL;
    loop_run(&f.loop);
    CHECK_EQ(1, r->tw.runs); /* its own return is what it waited for */
    CHECK_EQ(1, take(&r->it, &more, 7));
    give_all(&r->it, &more);
    for (int i = 0; i < n; i++)
        if (i != 3)
            give_one(&r->it, r->tb.e[i].id);
    reader_close(r);
    fixture_close(&f);
}

TEST(window, who_waits_to_return_hears_that_it_is_stale)
{
    static struct fixture f;
    struct test_batch none;
    struct reader *slow, *fast;

    fixture_open(&f, "malloc", 256 * KIB);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    fast = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK(reader_take(slow, BATCH_MAX) > 20);
    CHECK_EQ(-ENOBUFS, take(&slow->it, &none, 7));
    while (waiter_state(&slow->tw.w) == WAITER_ARMED) {
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        fill_up(&f);
    }
    CHECK_EQ(-ESTALE, take(&slow->it, &none, 7));
    give_all(&slow->it, &slow->tb);
    loop_run(&f.loop);
    reader_close(slow);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, one_reader_too_many_goes_another_way)
{
    static struct fixture f;
    unsigned n;

    fixture_open(&f, "malloc", 64 * KIB); /* 16 segments of a page */
    CHECK_EQ(0, body_fill(f.o, 100, NULL));
    for (n = 0; n < READERS_MAX; n++) {
        int got = reader_take(reader_open(&f, n, 0, LEASE_TO_END), 7);

        if (got == -ESTALE)
            break;
        CHECK_EQ(1, got);
    }
    CHECK_EQ(15, n); /* each of these can hold one, and one is left to be filled */
    give_all(&f.r[0].it, &f.r[0].tb);
    reader_close(&f.r[0]);
    CHECK_EQ(-ESTALE, reader_take(&f.r[n], 7)); /* it stays out */
    reader_close(&f.r[n]);
    CHECK_EQ(1, reader_take(reader_open(&f, 0, 0, LEASE_TO_END), 7)); /* the place is free */
    for (unsigned i = 0; i < n; i++) {
        give_all(&f.r[i].it, &f.r[i].tb);
        reader_close(&f.r[i]);
    }
    fixture_close(&f);
}

/* ---- Ends ---- */

TEST(window, after_the_end_what_is_held_stays_readable)
{
    static struct fixture f;
    struct reader *fast, *slow;
    uint64_t start, len;

    fixture_open(&f, "malloc", MIB);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    fill_up(&f);
    space_cancel(f.o, &f.writer.w);
    space_finish(f.o);
    len = stobj_len(f.o);
    start = stobj_window_start(f.o);
    CHECK(start > 0);
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    reader_close(slow);
    CHECK_EQ(0, reader_drain(fast));
    reader_close(fast);
    for (unsigned i = 0; i < 3; i++) { /* again and again */
        slow = reader_open(&f, 1, start + i, LEASE_TO_END);
        CHECK_EQ(0, reader_drain(slow));
        CHECK_EQ(len, slow->at);
        reader_close(slow);
    }
    CHECK_EQ(start, stobj_window_start(f.o));
    CHECK_EQ(-EINVAL, lease_init(&slow->it, f.o, len + 1, LEASE_TO_END, NULL));
    fixture_close(&f);
}

TEST(window, after_a_failure_readers_get_what_there_is_and_then_hear_of_it)
{
    static struct fixture f;
    struct reader *fast, *slow, *behind;

    fixture_open(&f, "malloc", MIB);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, MIB / 2, LEASE_TO_END);
    behind = reader_open(&f, 2, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    loop_run(&f.loop);
    CHECK_EQ(0, body_fill(f.o, 1, NULL));
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    space_fail(f.o, -ECONNRESET);
    loop_run(&f.loop);
    CHECK_EQ(WAITER_IDLE, waiter_state(&fast->tw.w));
    CHECK_EQ(-EPIPE, reader_take(fast, 7));
    CHECK_EQ(-EPIPE, reader_drain(slow));
    CHECK_EQ(stobj_len(f.o), slow->at);
    CHECK_EQ(-ESTALE, reader_take(behind, 7));
    reader_close(fast);
    reader_close(slow);
    reader_close(behind);
    fixture_close(&f);
}

TEST(window, an_announced_length_wastes_nothing_at_its_end)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_SHARED, 300, MIB);
    uint64_t base = store_stats(s).charged;

    CHECK_EQ(0, body_fill(o, 300, NULL));
    CHECK(store_stats(s).charged - base <= 512);
    space_finish(o);
    CHECK_EQ(300, read_range(o, 0, LEASE_TO_END, 7));
    stobj_unref(&o);
    store_close(s);
}

/* ---- A full store ---- */

TEST(window, a_full_store_still_lets_a_window_move)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    static struct fixture f;
    void *all[MIB / (12 * KIB)];
    struct reader *fast, *slow;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        CHECK((all[i] = storage_alloc(s, 12 * KIB, CHARGE_HEAD)) != NULL);
    f = (struct fixture){.s = s, .o = body_new(s, STOBJ_SHARED, STOBJ_SIZE_UNKNOWN, 4 * MIB)};
    loop_init(&f.loop);
    test_waiter_init(&f.writer, &f.loop);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    for (unsigned turn = 0; turn < 20; turn++) {
        CHECK_EQ(-EAGAIN, body_fill(f.o, MIB, &f.writer.w)); /* never -ENOSPC */
        CHECK(store_stats(s).charged <= MIB + 17 * KIB);     /* one minimal segment */
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        loop_run(&f.loop);
    }
    CHECK(fast->at > 200 * KIB);
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    reader_close(slow);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        storage_free(s, all[i], 12 * KIB, CHARGE_HEAD);
    CHECK_EQ(0, body_fill(f.o, 3 * MIB / 4, &f.writer.w)); /* there is room again: it grows */
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, faults_are_only_delays)
{
    static struct fixture f;
    struct conf_storage conf = {
        .name = "x", .engine = "fault", .size = 64 * MIB, .fault = "again=3, slow=3"};
    struct reader *r[2];
    uint64_t left = 3 * MIB;

    CHECK_EQ(0, storage_open(&f.s, &conf));
    f.o = body_new(f.s, STOBJ_SHARED, STOBJ_SIZE_UNKNOWN, 256 * KIB);
    loop_init(&f.loop);
    test_waiter_init(&f.writer, &f.loop);
    for (unsigned i = 0; i < ARRAY_LEN(r); i++)
        r[i] = reader_open(&f, i, 0, LEASE_TO_END);
    while (left > 0) {
        uint64_t had = stobj_len(f.o);

        (void)body_fill(f.o, left < 100000 ? left : 100000, &f.writer.w);
        left -= stobj_len(f.o) - had;
        for (unsigned i = 0; i < ARRAY_LEN(r); i++)
            while (reader_drain(r[i]) != -EAGAIN || r[i]->at < stobj_len(f.o))
                loop_run(&f.loop);
        loop_run(&f.loop);
    }
    CHECK(stobj_window_start(f.o) > 2 * MIB);
    if (waiter_pending(&f.writer.w))
        space_cancel(f.o, &f.writer.w);
    space_finish(f.o);
    for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
        int n;

        loop_run(&f.loop);
        while ((n = reader_drain(r[i])) == -EAGAIN)
            loop_run(&f.loop);
        CHECK_EQ(0, n);
        CHECK_EQ(3 * MIB, r[i]->at);
        reader_close(r[i]);
    }
    fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(window, everybody_gets_every_byte),
    TEST_ENTRY(window, what_was_read_stays_until_its_room_is_needed),
    TEST_ENTRY(window, a_start_that_is_no_longer_held_is_stale),
    TEST_ENTRY(window, a_start_that_is_not_published_yet_waits),
    TEST_ENTRY(window, who_reads_alone_far_ahead_holds_up_nobody),
    TEST_ENTRY(window, a_reader_alone_holds_up_the_writer_and_loses_nothing),
    TEST_ENTRY(window, a_reader_alone_gets_less_and_company_all_of_it),
    TEST_ENTRY(window, the_slow_are_left_behind_when_the_writer_has_lost_patience),
    TEST_ENTRY(window, the_slow_are_left_behind_for_who_waits_far_ahead_too),
    TEST_ENTRY(window, a_writer_that_waits_looks_again_when_told),
    TEST_ENTRY(window, without_readers_the_writer_waits_for_one),
    TEST_ENTRY(window, no_reader_is_left_behind_while_none_waits),
    TEST_ENTRY(window, a_hungry_reader_makes_the_window_move),
    TEST_ENTRY(window, who_waits_no_more_pushes_nobody),
    TEST_ENTRY(window, a_reader_far_ahead_pushes_nobody),
    TEST_ENTRY(window, who_has_what_it_asked_for_needs_nothing),
    TEST_ENTRY(window, who_leaves_makes_room),
    TEST_ENTRY(window, a_few_bytes_wake_only_those_who_wait_for_them),
    TEST_ENTRY(window, leased_bytes_outlive_the_window),
    TEST_ENTRY(window, stalled_readers_do_not_stop_the_fast_one),
    TEST_ENTRY(window, who_may_lease_no_more_is_told_to_return_some),
    TEST_ENTRY(window, who_waits_to_return_hears_that_it_is_stale),
    TEST_ENTRY(window, one_reader_too_many_goes_another_way),
    TEST_ENTRY(window, after_the_end_what_is_held_stays_readable),
    TEST_ENTRY(window, after_a_failure_readers_get_what_there_is_and_then_hear_of_it),
    TEST_ENTRY(window, an_announced_length_wastes_nothing_at_its_end),
    TEST_ENTRY(window, a_full_store_still_lets_a_window_move),
    TEST_ENTRY(window, faults_are_only_delays))
