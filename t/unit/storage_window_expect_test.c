/* storage_window_expect_test.c -- readers that will come, and how long the writer waits for a slow one. */
#include "t/unit/window_fixture.h"

TEST(window, a_reader_that_moves_on_is_waited_for_and_one_that_does_not_is_not)
{
    static struct fixture f;
    struct reader *slow, *fast;

    fixture_open_grace(&f, MIB, 3);
    slow = reader_open(&f, 0, 0, LEASE_TO_END);
    fast = reader_open(&f, 1, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    CHECK(!stobj_expire_window(f.o)); /* in the first one it came */
    CHECK(!stobj_expire_window(f.o));
    CHECK(!stobj_expire_window(f.o));
    CHECK_EQ(1, reader_take(slow, 1));
    for (unsigned look = 0; look < 3; look++)
        CHECK(!stobj_expire_window(f.o));
    give_all(&slow->it, &slow->tb); /* what its client has taken counts as well */
    for (unsigned look = 0; look < 3; look++)
        CHECK(!stobj_expire_window(f.o));
    loop_run(&f.loop);
    fill_up(&f); /* it has made room */
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    fill_up(&f);
    for (unsigned look = 1; look <= 3; look++)
        CHECK_EQ(look == 3, stobj_expire_window(f.o));
    space_cancel(f.o, &f.writer.w);
    CHECK_EQ(0, body_fill(f.o, 1, &f.writer.w));
    CHECK_EQ(-ESTALE, reader_take(slow, 1));
    reader_close(slow);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, an_expected_reader_stands_at_the_beginning)
{
    static struct fixture f;
    struct reader *slow, *fast;
    uint64_t len;

    fixture_open_grace(&f, MIB, 2);
    stobj_expect(f.o, 2);
    stobj_shut_window(f.o);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    len = fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast));
    CHECK_EQ(0, fill_up(&f));
    for (unsigned turn = 0; turn < 10; turn++) {
        CHECK(!stobj_expire_window(f.o));
        stobj_touch_window(f.o); /* it reads what came before */
        CHECK(!stobj_expire_window(f.o));
    }
    CHECK_EQ(0, stobj_window_start(f.o));
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, reader_drain(slow));
    CHECK_EQ(len, slow->at);
    CHECK(fill_up(&f) > MIB / 2);
    reader_close(slow);
    reader_close(fast);
    fixture_close(&f);
}

TEST(window, what_is_whole_stays_for_an_expected_reader)
{
    static struct fixture f;
    struct reader *slow, *fast;

    fixture_open_grace(&f, MIB, 2);
    stobj_expect(f.o, 3);
    CHECK_EQ(0, body_fill(f.o, 3 * f.seg, NULL));
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    space_finish(f.o);
    stobj_shut_window(f.o);
    CHECK_EQ(0, reader_drain(fast));
    reader_close(fast);
    slow = reader_open(&f, 1, 0, LEASE_TO_END);
    CHECK_EQ(0, reader_drain(slow));
    CHECK_EQ(3 * f.seg, slow->at);
    CHECK_EQ(0, stobj_window_start(f.o));
    reader_close(slow);
    CHECK(fixture_held(&f) > 0);
    stobj_expect(f.o, -1); /* the third does not come */
    CHECK_EQ(0, fixture_held(&f));
    fixture_close(&f);
}

TEST(window, an_expected_reader_that_never_comes_holds_up_the_others_once)
{
    static struct fixture f;
    struct reader *late, *fast;

    fixture_open_grace(&f, MIB, 2);
    stobj_expect(f.o, 3);
    fast = reader_open(&f, 0, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK_EQ(-EAGAIN, reader_drain(fast)); /* from the beginning, which counts */
    CHECK(!stobj_expire_window(f.o));
    CHECK(!stobj_expire_window(f.o));
    CHECK(stobj_expire_window(f.o));
    space_cancel(f.o, &f.writer.w);
    CHECK(fill_up(&f) > 0);
    CHECK(stobj_window_start(f.o) > 0);
    for (unsigned turn = 0; turn < 50; turn++) { /* once: they are in the way no more */
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        CHECK(fill_up(&f) > 0);
    }
    late = reader_open(&f, 1, 0, LEASE_TO_END);
    CHECK_EQ(-ESTALE, reader_take(late, 1));
    reader_close(late);
    stobj_expect(f.o, -1); /* the other leaves, untold */
    reader_close(fast);
    fixture_close(&f);
}

/* 16 segments, and more readers: there is room for what each of them leases. */
TEST(window, there_is_a_place_for_all_expected_readers)
{
    static struct fixture f;
    const unsigned n = 40;

    fixture_open_grace(&f, 64 * KIB, 2);
    stobj_expect(f.o, (int32_t)n);
    CHECK(stobj_let_in(f.o));
    CHECK(!stobj_let_in(f.o)); /* the others' places are not given away */
    stobj_expect(f.o, -1);
    f.bound = 64 * KIB * 3;
    CHECK_EQ(-EAGAIN, body_fill(f.o, MIB, &f.writer.w));
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(1, reader_take(reader_open(&f, i, 0, LEASE_TO_END), 1));
    for (unsigned i = 0; i < n; i++) {
        give_all(&f.r[i].it, &f.r[i].tb);
        CHECK_EQ(-EAGAIN, reader_drain(&f.r[i]));
    }
    CHECK(fill_up(&f) > 0);
    CHECK(!stobj_let_in(f.o)); /* its first byte has gone */
    for (unsigned i = 0; i < n; i++)
        reader_close(&f.r[i]);
    fixture_close(&f);
}

TEST(window, no_reader_is_let_in_while_the_writer_waits_for_a_slow_one)
{
    static struct fixture f;

    fixture_open_grace(&f, MIB, 5);
    reader_open(&f, 0, 0, LEASE_TO_END);
    fill_up(&f);
    CHECK(stobj_let_in(f.o));
    CHECK(!stobj_expire_window(f.o));
    CHECK(!stobj_let_in(f.o));
    stobj_expect(f.o, -1);
    reader_close(&f.r[0]);
    fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(window, a_reader_that_moves_on_is_waited_for_and_one_that_does_not_is_not),
    TEST_ENTRY(window, an_expected_reader_stands_at_the_beginning),
    TEST_ENTRY(window, what_is_whole_stays_for_an_expected_reader),
    TEST_ENTRY(window, an_expected_reader_that_never_comes_holds_up_the_others_once),
    TEST_ENTRY(window, there_is_a_place_for_all_expected_readers),
    TEST_ENTRY(window, no_reader_is_let_in_while_the_writer_waits_for_a_slow_one))
