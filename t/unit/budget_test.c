/* budget_test.c -- how many bytes a store takes, for what, and who makes room. */
#include "storage/budget.h"

#include <errno.h>

#include "storage/storage.h"
#include "t/unit/storage_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

struct evictor {
    struct storage *s;
    void *blocks[80];
    unsigned nblocks, calls;
    bool later;       /* promises, and frees on evictor_reclaim() */
    struct budget *b; /* promises here instead; NULL: to `s` */
    uint64_t promised;
};

enum {
    EVICTOR_BLOCK = 56 * 1024,
    EVICTOR_COST = 60 * 1024
};

static void
evictor_keep(struct evictor *ev, uint64_t bytes)
{
    ev->promised -= bytes;
    if (bytes > 0)
        storage_promise_kept(ev->s, bytes);
}

/* Frees so many, and what was promised of them is kept. */
static uint64_t
evictor_reclaim(struct evictor *ev, uint64_t bytes)
{
    uint64_t got = 0;

    while (got < bytes && ev->nblocks > 0) {
        storage_free(ev->s, ev->blocks[--ev->nblocks], EVICTOR_BLOCK, CHARGE_HEAD);
        got += EVICTOR_COST;
    }
    evictor_keep(ev, got < ev->promised ? got : ev->promised);
    return got;
}

static uint64_t
evictor_on_evict(void *ctx, uint64_t bytes)
{
    struct evictor *ev = ctx;
    uint64_t can = ev->nblocks * (uint64_t)EVICTOR_COST;

    ev->calls++;
    CHECK(bytes > 0);
    if (!ev->later)
        return evictor_reclaim(ev, bytes);
    can = bytes < can ? bytes : can;
    ev->promised += can;
    if (ev->b != NULL)
        budget_promise(ev->b, can);
    else
        storage_promise(ev->s, can);
    return can;
}

/* A store with `blocks` evictable blocks, each charged as 60 KiB. */
static void
evictor_open(struct evictor *ev, const char *engine, uint64_t size, unsigned blocks)
{
    *ev = (struct evictor){.s = store_open(engine, size, NULL)};
    for (; ev->nblocks < blocks; ev->nblocks++)
        CHECK((ev->blocks[ev->nblocks] = storage_alloc(ev->s, EVICTOR_BLOCK, CHARGE_HEAD)) != NULL);
    storage_set_evictor(ev->s, evictor_on_evict, ev);
}

static void
evictor_close(struct evictor *ev)
{
    evictor_reclaim(ev, UINT64_MAX);
    store_close(ev->s);
}

TEST(budget, the_size_is_never_passed_by_kept_bytes)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);

    CHECK_EQ(-ENOSPC, body_fill(o, 2 * MIB, NULL));
    CHECK(store_stats(s).charged <= MIB);
    CHECK(stobj_len(o) >= MIB / 4);
    CHECK_EQ(1, store_stats(s).failures);
    stobj_unref(&o);
    store_close(s);
}

TEST(budget, the_evictor_is_called_before_the_store_is_full)
{
    struct evictor ev;
    struct stobj *o;

    evictor_open(&ev, "malloc", MIB, 16); /* 64 KiB free */
    o = body_kept(ev.s, 60 * KIB, 60 * KIB);
    CHECK(ev.calls > 0); /* into the headroom of 16 KiB, and yet everything fitted */
    CHECK_EQ(0, store_stats(ev.s).failures);
    CHECK(store_stats(ev.s).charged <= MIB - 16 * KIB);
    stobj_unref(&o);
    evictor_close(&ev);
}

TEST(budget, bytes_evicted_at_once_need_no_waiting)
{
    struct evictor ev;
    struct stobj *o;

    evictor_open(&ev, "malloc", MIB, 16);
    o = body_kept(ev.s, 400 * KIB, 400 * KIB);
    CHECK_EQ(0, store_stats(ev.s).waits);
    stobj_unref(&o);
    evictor_close(&ev);
}

TEST(budget, a_writer_waits_for_promised_bytes_and_is_told_by_the_free)
{
    struct test_loop loop;
    struct test_waiter tw;
    struct evictor ev;
    struct stobj *o;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    evictor_open(&ev, "malloc", MIB, 16);
    ev.later = true;
    o = body_new(ev.s, STOBJ_KEPT, 512 * KIB, 0);
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w));
    CHECK_EQ(WAITER_ARMED, waiter_state(&tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w)); /* looking again early changes nothing */
    CHECK(store_stats(ev.s).waits >= 2);
    evictor_reclaim(&ev, 1);
    CHECK_EQ(WAITER_POSTED, waiter_state(&tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w)); /* nor does looking while it travels */
    evictor_reclaim(&ev, ev.promised);
    loop_run(&loop);
    CHECK_EQ(1, tw.runs);
    CHECK_EQ(0, body_fill(o, 512 * KIB, &tw.w));
    space_finish(o);
    CHECK_EQ(512 * KIB, read_range(o, 0, LEASE_TO_END, 4));
    stobj_unref(&o);
    evictor_close(&ev);
}

TEST(budget, a_promise_kept_wakes_those_who_wait)
{
    struct test_loop loop;
    struct test_waiter tw[2];
    struct stobj *o[2];
    struct evictor ev;

    loop_init(&loop);
    evictor_open(&ev, "malloc", MIB, 16);
    ev.later = true;
    for (unsigned i = 0; i < 2; i++) {
        test_waiter_init(&tw[i], &loop);
        o[i] = body_new(ev.s, STOBJ_KEPT, 512 * KIB, 0);
        CHECK_EQ(-EAGAIN, body_fill(o[i], 512 * KIB, &tw[i].w));
    }
    evictor_keep(&ev, 1);
    loop_run(&loop);
    CHECK_EQ(1, tw[0].runs);
    CHECK_EQ(1, tw[1].runs);
    for (unsigned i = 0; i < 2; i++)
        stobj_unref(&o[i]);
    evictor_close(&ev);
}

/* Asks budget.c itself: between the two calls another thread can always come. */
TEST(budget, room_that_appears_before_the_wait_is_seen)
{
    struct test_loop loop;
    struct test_waiter tw;
    struct budget b;
    struct evictor ev = {.later = true, .nblocks = 1, .b = &b};

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    budget_init(&b, MIB);
    b.evict = evictor_on_evict;
    b.ctx = &ev;
    CHECK_EQ(0, budget_charge(&b, CHARGE_BODY, 900 * KIB, BUDGET_CAN_WAIT));
    CHECK_EQ(-EAGAIN, budget_charge(&b, CHARGE_BODY, 200 * KIB, BUDGET_CAN_WAIT));
    CHECK(budget_wait(&b, 200 * KIB, &tw.w)); /* no room: armed */
    CHECK_EQ(WAITER_ARMED, waiter_state(&tw.w));
    budget_cancel(&b, &tw.w);
    CHECK_EQ(-EAGAIN, budget_charge(&b, CHARGE_BODY, 200 * KIB, BUDGET_CAN_WAIT));
    budget_release(&b, CHARGE_BODY, 900 * KIB);
    CHECK(!budget_wait(&b, 200 * KIB, &tw.w));
    CHECK_EQ(WAITER_IDLE, waiter_state(&tw.w));
    budget_fini(&b);
}

TEST(budget, waiting_for_space_can_be_cancelled)
{
    struct test_loop loop;
    struct test_waiter tw;
    struct evictor ev;
    struct stobj *o;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    evictor_open(&ev, "malloc", MIB, 16);
    ev.later = true;
    o = body_new(ev.s, STOBJ_KEPT, 512 * KIB, 0);
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w));
    space_cancel(o, &tw.w);
    CHECK_EQ(WAITER_IDLE, waiter_state(&tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w));
    evictor_keep(&ev, ev.promised);
    space_cancel(o, &tw.w); /* too late: it is on its way */
    CHECK_EQ(WAITER_POSTED, waiter_state(&tw.w));
    stobj_unref(&o);
    loop_run(&loop);
    CHECK_EQ(WAITER_IDLE, waiter_state(&tw.w));
    evictor_close(&ev);
}

TEST(budget, promises_are_not_asked_for_twice)
{
    struct evictor ev;
    void *a, *b;

    evictor_open(&ev, "malloc", 4 * MIB, 66); /* 3,960 KiB; the headroom begins at 4,032 */
    ev.later = true;
    a = storage_alloc(ev.s, 80 * KIB, CHARGE_HEAD); /* with its pad 84 KiB: 12 into the headroom */
    CHECK(a != NULL);
    CHECK_EQ(1, ev.calls);
    CHECK_EQ(12 * KIB, ev.promised);
    b = storage_alloc(ev.s, 4 * KIB, CHARGE_HEAD);
    CHECK(b != NULL);
    CHECK_EQ(2, ev.calls);
    CHECK_EQ(16 * KIB, ev.promised); /* only what is new */
    storage_free(ev.s, a, 80 * KIB, CHARGE_HEAD);
    storage_free(ev.s, b, 4 * KIB, CHARGE_HEAD);
    evictor_close(&ev);
}

/* Ten who find the store full mean ten times the same lack, and not one evicts again. */
TEST(budget, who_looks_again_evicts_nothing_more)
{
    struct test_loop loop;
    struct test_waiter tw;
    struct evictor ev;
    struct stobj *o;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    evictor_open(&ev, "malloc", 4 * MIB, 66);
    ev.later = true;
    o = body_new(ev.s, STOBJ_KEPT, MIB, 0);
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQ(-EAGAIN, body_fill(o, MIB, &tw.w));
    CHECK(ev.promised >= MIB - 128 * KIB);
    CHECK(ev.promised <= MIB + 512 * KIB); /* and a sixteenth for who waits */
    evictor_reclaim(&ev, ev.promised);
    loop_run(&loop);
    CHECK_EQ(0, body_fill(o, MIB, &tw.w));
    CHECK_EQ(0, ev.promised);
    CHECK(store_stats(ev.s).charged >= 3 * MIB);
    space_finish(o);
    stobj_unref(&o);
    evictor_close(&ev);
}

/* What was promised did not come, because somebody reads it: then somebody else must leave. */
TEST(budget, a_promise_that_brings_nothing_is_asked_for_again)
{
    struct test_loop loop;
    struct test_waiter tw;
    struct evictor ev;
    struct stobj *o;
    unsigned calls;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    evictor_open(&ev, "malloc", MIB, 16);
    ev.later = true;
    o = body_new(ev.s, STOBJ_KEPT, 512 * KIB, 0);
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w));
    calls = ev.calls;
    evictor_keep(&ev, ev.promised);
    loop_run(&loop);
    CHECK_EQ(1, tw.runs);
    CHECK_EQ(-EAGAIN, body_fill(o, 512 * KIB, &tw.w));
    CHECK(ev.calls > calls);
    space_cancel(o, &tw.w);
    stobj_unref(&o);
    evictor_close(&ev);
}

TEST(budget, leaves_are_what_was_charged_for_each_and_add_up)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    struct stobj *kept = body_kept(s, 100, 100), *passing;
    void *head = storage_alloc(s, 1000, CHARGE_HEAD);
    struct storage_stats st;
    uint64_t sum = 0;

    passing = body_new(s, STOBJ_PRIVATE, STOBJ_SIZE_UNKNOWN, 64 * KIB);
    CHECK_EQ(0, body_fill(passing, 100, NULL));
    storage_charge(s, CHARGE_READ, 0, 5000);
    storage_charge(s, CHARGE_READ, 5000, 3000);
    st = store_stats(s);
    CHECK_EQ(1024, st.leaf[CHARGE_HEAD]);
    CHECK_EQ(3000, st.leaf[CHARGE_READ]);
    CHECK(st.leaf[CHARGE_BODY] >= 100);
    CHECK(st.leaf[CHARGE_TRANSIT] >= 100);
    for (unsigned i = 0; i < CHARGE_COUNT; i++)
        sum += st.leaf[i];
    CHECK_EQ(st.charged, sum);
    storage_charge(s, CHARGE_READ, 3000, 0);
    storage_free(s, head, 1000, CHARGE_HEAD);
    space_fail(passing, -EIO);
    stobj_unref(&passing);
    stobj_unref(&kept);
    store_close(s);
}

TEST(budget, memory_of_others_is_never_refused_and_what_is_kept_makes_room)
{
    struct evictor ev;

    evictor_open(&ev, "malloc", MIB, 16);
    storage_charge(ev.s, CHARGE_CONN, 0, 300 * KIB);
    CHECK(ev.nblocks <= 12);
    CHECK(store_stats(ev.s).charged <= MIB);
    storage_charge(ev.s, CHARGE_CONN, 300 * KIB, 2 * MIB);
    CHECK_EQ(0, ev.nblocks);
    CHECK_EQ(2 * MIB, store_stats(ev.s).charged);
    storage_charge(ev.s, CHARGE_CONN, 2 * MIB, 0);
    evictor_close(&ev);
}

TEST(budget, another_size_counts_at_once_or_in_steps)
{
    struct evictor ev;

    evictor_open(&ev, "malloc", 64 * MIB, 16);
    CHECK(storage_resize(ev.s, 256 * MIB));
    CHECK_EQ(256 * MIB, store_stats(ev.s).size);
    storage_charge(ev.s, CHARGE_CONN, 0, 200 * MIB);
    CHECK(store_stats(ev.s).charged > 200 * MIB);
    CHECK(!storage_resize(ev.s, 100 * MIB)); /* 32 MiB below what is charged */
    CHECK(store_stats(ev.s).size < 200 * MIB);
    CHECK(store_stats(ev.s).size > 100 * MIB);
    CHECK_EQ(0, ev.nblocks); /* all that can leave has left */
    while (!storage_resize(ev.s, 100 * MIB))
        ;
    CHECK_EQ(100 * MIB, store_stats(ev.s).size);
    storage_charge(ev.s, CHARGE_CONN, 200 * MIB, 0);
    evictor_close(&ev);
}

/* As a store shrinks, nobody is let in by a headroom of before. */
TEST(budget, a_smaller_size_refuses_what_the_larger_one_took)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);
    void *p = storage_alloc(s, 8 * MIB, CHARGE_HEAD);

    CHECK(p != NULL);
    CHECK(storage_resize(s, 4 * MIB));
    CHECK(storage_alloc(s, 100, CHARGE_HEAD) == NULL);
    CHECK(storage_resize(s, 16 * MIB));
    storage_free(s, p, 8 * MIB, CHARGE_HEAD);
    p = storage_alloc(s, 12 * MIB, CHARGE_HEAD);
    CHECK(p != NULL);
    storage_free(s, p, 12 * MIB, CHARGE_HEAD);
    store_close(s);
}

TEST(budget, raw_memory_may_use_the_reserve_and_segments_may_not)
{
    struct storage *s = store_open("malloc", 4 * MIB, NULL); /* the reserve is 32 KiB */
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    void *blocks[400], *p;
    unsigned n = 0;

    for (; store_stats(s).charged + 26 * KIB < 4 * MIB; n++)
        CHECK((blocks[n] = storage_alloc(s, 12 * KIB, CHARGE_HEAD)) != NULL);
    CHECK_EQ(-ENOSPC, body_fill(o, 1, NULL)); /* 20 KiB with its pad */
    p = storage_alloc(s, 12 * KIB, CHARGE_HEAD);
    CHECK(p != NULL);
    storage_free(s, p, 12 * KIB, CHARGE_HEAD);
    while (n > 0)
        storage_free(s, blocks[--n], 12 * KIB, CHARGE_HEAD);
    stobj_unref(&o);
    store_close(s);
}

TEST_MAIN(TEST_ENTRY(budget, the_size_is_never_passed_by_kept_bytes),
    TEST_ENTRY(budget, the_evictor_is_called_before_the_store_is_full),
    TEST_ENTRY(budget, bytes_evicted_at_once_need_no_waiting),
    TEST_ENTRY(budget, a_writer_waits_for_promised_bytes_and_is_told_by_the_free),
    TEST_ENTRY(budget, a_promise_kept_wakes_those_who_wait),
    TEST_ENTRY(budget, room_that_appears_before_the_wait_is_seen),
    TEST_ENTRY(budget, waiting_for_space_can_be_cancelled),
    TEST_ENTRY(budget, promises_are_not_asked_for_twice),
    TEST_ENTRY(budget, who_looks_again_evicts_nothing_more),
    TEST_ENTRY(budget, a_promise_that_brings_nothing_is_asked_for_again),
    TEST_ENTRY(budget, leaves_are_what_was_charged_for_each_and_add_up),
    TEST_ENTRY(budget, memory_of_others_is_never_refused_and_what_is_kept_makes_room),
    TEST_ENTRY(budget, another_size_counts_at_once_or_in_steps),
    TEST_ENTRY(budget, a_smaller_size_refuses_what_the_larger_one_took),
    TEST_ENTRY(budget, raw_memory_may_use_the_reserve_and_segments_may_not))
