/* storage_test.c -- stores, budgets, objects and their writers. */
#include "storage/storage.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/budget.h"
#include "storage/engine_fault.h"
#include "storage/kept.h"
#include "t/unit/storage_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* ---- Stores ---- */

TEST(storage, an_unknown_engine_is_refused)
{
    struct conf_storage conf = {.name = "x", .engine = "tape", .size = MIB};
    struct storage *s = NULL;

    CHECK_EQ(-EINVAL, storage_open(&s, &conf));
    CHECK(s == NULL);
}

TEST(storage, size_zero_is_the_engines_default)
{
    struct storage *s = store_open("malloc", 0, NULL);

    CHECK_EQ(256 * MIB, store_stats(s).size);
    store_close(s);
}

TEST(storage, raw_memory_is_charged_as_the_allocators_class)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    void *p = storage_alloc(s, 1360, CHARGE_HEAD);

    CHECK(p != NULL);
    CHECK_EQ(1536, storage_good_size(s, 1360));
    CHECK_EQ(1536, store_stats(s).charged);
    storage_free(s, p, 1360, CHARGE_HEAD);
    CHECK(storage_alloc(s, SIZE_MAX, CHARGE_HEAD) == NULL);
    CHECK(storage_alloc(s, 2 * MIB, CHARGE_HEAD) == NULL);
    CHECK_EQ(2, store_stats(s).failures);
    store_close(s);
}

TEST(storage, classes_are_jemallocs)
{
    static const size_t want[][2] = {{1, 8}, {8, 8}, {9, 16}, {17, 32}, {49, 64}, {65, 80},
        {128, 128}, {129, 160}, {1025, 1280}, {14337, 16384}, {16385, 20480}, {65537, 81920},
        {1048576, 1048576}, {1048577, 1310720}};
    struct mem m;

    CHECK_EQ(0, mem_open(&m));
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        CHECK_EQ(want[i][1], mem_class(want[i][0]));
    /* mem_class() compares the computed class with nallocx() in slow builds. */
    for (size_t n = 1; n < 3 * MIB; n += 1 + n / 97) {
        CHECK(mem_class(n) >= n);
        CHECK(n < 8 || mem_border_below(n) <= n);
        CHECK_EQ(mem_border_below(n), mem_class(mem_border_below(n)));
    }
    mem_close(&m);
}

/* ---- Writing kept objects ---- */

TEST(space, asking_again_gives_the_same_span_and_the_rest_comes_next)
{
    struct storage *s = store_open("malloc", 4 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, 10000, 0);
    struct span a, b;

    CHECK_EQ(0, space_get(o, 100, &a, NULL));
    CHECK_EQ(100, a.len);
    CHECK_EQ(0, space_get(o, 5, &b, NULL));
    CHECK(b.ptr == a.ptr && b.len == a.len);
    space_extend(o, 0);
    CHECK_EQ(0, space_get(o, 5000, &b, NULL));
    CHECK(b.ptr == a.ptr);
    space_extend(o, 30);
    CHECK_EQ(30, stobj_len(o));
    CHECK_EQ(0, space_get(o, 10, &b, NULL));
    CHECK(b.ptr == a.ptr + 30);
    CHECK_EQ(STOBJ_FILLING, stobj_state(o));
    space_finish(o); /* with a span outstanding */
    CHECK_EQ(STOBJ_SETTLED, stobj_state(o));
    CHECK_EQ(30, stobj_len(o));
    stobj_unref(&o);
    store_close(s);
}

TEST(space, bodies_of_every_length_come_back_with_and_without_a_hint)
{
    static const uint64_t lens[] = {0, 1, 79, 1360, 1536, 4000, 14000, 14256, 14257, 16384, 16385,
        30000, 33000, 65536, 65537, 140000, 700000, 1048575, 1048576, 1048577, 1100000, 3500000};
    struct storage *s = store_open("malloc", 16 * MIB, NULL);

    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        uint64_t hints[] = {lens[i], STOBJ_SIZE_UNKNOWN, lens[i] / 2, lens[i] * 2 + 1};

        for (size_t j = 0; j < ARRAY_LEN(hints); j++) {
            struct stobj *o = body_kept(s, hints[j], lens[i]);

            CHECK_EQ(lens[i], stobj_len(o));
            CHECK_EQ(lens[i], read_range(o, 0, LEASE_TO_END, 1 + (unsigned)j));
            CHECK_EQ(1, store_stats(s).objects);
            stobj_unref(&o);
            CHECK_EQ(0, store_stats(s).charged);
        }
    }
    store_close(s);
}

TEST(space, a_known_length_wastes_little)
{
    struct storage *s = store_open("malloc", 64 * MIB, NULL);

    for (uint64_t len = 20000; len < 5 * MIB; len += 1 + len / 13) {
        struct stobj *o = body_kept(s, len, len);
        uint64_t charged = store_stats(s).charged;

        CHECK(charged >= len);
        /* a pad for each MiB and for two tails, what is not worth splitting, the object */
        CHECK(charged - len <= 4096 * (len / MIB + 3) + len / 16 + 400);
        stobj_unref(&o);
    }
    store_close(s);
}

TEST(space, a_mebibyte_and_a_byte_takes_no_quarter_more)
{
    struct storage *s = store_open("malloc", 8 * MIB, NULL);
    struct stobj *o = body_kept(s, MIB + 1, MIB + 1);

    CHECK(store_stats(s).charged <= MIB + 4096 + 200);
    stobj_unref(&o);
    store_close(s);
}

TEST(space, a_small_body_lives_inside_its_object)
{
    struct storage *s = store_open("malloc", MIB, NULL);
    struct stobj *o = body_kept(s, 1360, 1360);

    CHECK_EQ(storage_good_size(s, sizeof(struct kept) + 1360), store_stats(s).charged);
    CHECK(store_stats(s).charged <= 1536);
    stobj_unref(&o);
    o = body_kept(s, 0, 0);
    CHECK_EQ(storage_good_size(s, sizeof(struct kept)), store_stats(s).charged);
    stobj_unref(&o);
    store_close(s);
}

/* Both are of one class then, and those are handed out one behind the other. */
TEST(space, a_segment_may_lie_right_behind_its_object)
{
    struct storage *s = store_open("malloc", 8 * MIB, NULL);
    struct stobj *o[64];

    for (size_t i = 0; i < ARRAY_LEN(o); i++)
        o[i] = body_kept(s, STOBJ_SIZE_UNKNOWN, sizeof(struct kept));
    for (size_t i = 0; i < ARRAY_LEN(o); i++)
        stobj_unref(&o[i]);
    CHECK_EQ(0, store_stats(s).charged);
    store_close(s);
}

TEST(space, an_unknown_length_is_trimmed)
{
    struct storage *s = store_open("malloc", 16 * MIB, NULL);
    struct stobj *o = body_kept(s, STOBJ_SIZE_UNKNOWN, 2000);

    CHECK_EQ(2048 + storage_good_size(s, sizeof(struct kept)), store_stats(s).charged);
    stobj_unref(&o);
    o = body_kept(s, STOBJ_SIZE_UNKNOWN, MIB + 100000);       /* the last segment is a MiB */
    CHECK(store_stats(s).charged <= MIB + 100000 + 52 * KIB); /* 28 of it pads */
    stobj_unref(&o);
    store_close(s);
}

TEST(space, trimming_moves_nothing_that_is_leased)
{
    struct storage *s = store_open("malloc", 16 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    struct lease_iter it;
    struct test_batch tb;

    CHECK_EQ(0, body_fill(o, 2000, NULL));
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    CHECK_EQ(1, take(&it, &tb, 1));
    space_finish(o);
    CHECK(stobj_contains(o, tb.e[0].ptr, tb.e[0].len));
    CHECK(body_is(tb.e[0].ptr, 0, 2000));
    give_all(&it, &tb);
    CHECK_EQ(0, take(&it, &tb, 1));
    lease_fini(&it);
    CHECK_EQ(2000, read_range(o, 0, LEASE_TO_END, 1));
    stobj_unref(&o);
    store_close(s);
}

TEST(space, a_lying_hint_costs_nothing)
{
    struct storage *s = store_open("malloc", 4 * MIB, NULL);
    static const uint64_t hints[] = {UINT64_MAX - 1, UINT64_C(1) << 62, UINT64_C(1) << 46, 1 << 30};

    for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
        struct stobj *o = body_kept(s, hints[i], 5000);

        CHECK_EQ(5000, read_range(o, 0, LEASE_TO_END, 1));
        CHECK(store_stats(s).charged <= 6 * KIB);
        stobj_unref(&o);
    }
    store_close(s);
}

TEST(space, a_failed_object_gives_back_what_it_has_not_used)
{
    struct storage *s = store_open("malloc", 16 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, 3 * MIB, 0);

    CHECK_EQ(0, body_fill(o, MIB + 10, NULL));
    space_fail(o, -ECONNRESET);
    CHECK_EQ(STOBJ_FAILED, stobj_state(o));
    CHECK(store_stats(s).charged < MIB + 24 * KIB);
    stobj_unref(&o);
    store_close(s);
}

TEST(stobj, the_writers_drop_of_an_unfinished_object_fails_it)
{
    struct storage *s = store_open("malloc", 4 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, 100, 0), *keep;
    struct lease_iter it;
    struct test_batch tb;

    CHECK_EQ(0, body_fill(o, 50, NULL));
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    keep = o;
    stobj_unref(&o);
    CHECK(o == NULL);
    CHECK_EQ(STOBJ_FAILED, stobj_state(keep)); /* the iterator holds it */
    CHECK_EQ(1, take(&it, &tb, 4));
    CHECK_EQ(-EPIPE, take(&it, &(struct test_batch){0}, 4));
    give_all(&it, &tb);
    lease_fini(&it);
    store_close(s);
}

TEST(stobj, another_owner_keeps_an_unfinished_object_open)
{
    struct storage *s = store_open("malloc", 4 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_KEPT, 100, 0), *second = stobj_ref(o);

    stobj_unref(&second);
    CHECK_EQ(STOBJ_FILLING, stobj_state(o));
    CHECK_EQ(0, body_fill(o, 100, NULL));
    space_finish(o);
    stobj_unref(&o);
    store_close(s);
}

/* ---- Faults ---- */

TEST(fault, a_word_it_does_not_know_is_refused)
{
    static const char *const bad[] = {"alloc", "alloc=", "alloc=x", "alloc=0", "hold=1", "boom=1",
        "alloc=1x", "alloc=-1", "alloc=1,,eio=", "alloc= 1", "alloc=99999999999999999999999"};
    struct storage *s = store_open("fault", MIB, "alloc=100, full=500000\teio=3,,");

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(-EINVAL, engine_fault_set(s, bad[i]));
    CHECK_EQ(0, engine_fault_set(s, ""));
    store_close(s);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct conf_storage conf = {.name = "x", .engine = "fault", .size = MIB, .fault = bad[i]};

        CHECK_EQ(-EINVAL, storage_open(&s, &conf));
    }
}

TEST(fault, every_allocation_may_fail_and_nothing_is_lost)
{
    struct storage *s = store_open("fault", 16 * MIB, NULL);

    for (unsigned kind = STOBJ_KEPT; kind <= STOBJ_SHARED; kind++) {
        unsigned fails = 0;

        for (unsigned n = 1; n < 30; n++) {
            char spec[32];
            struct stobj *o = NULL;
            int err;

            snprintf(spec, sizeof spec, "alloc=%u", n);
            CHECK_EQ(0, engine_fault_set(s, spec));
            err = stobj_new(&o, s, (enum stobj_kind)kind, 300000, 4 * MIB);
            if (err == 0)
                err = body_fill(o, 2 * MIB, NULL);
            CHECK(err == 0 || err == -ENOMEM);
            fails += err != 0;
            if (o != NULL && err == 0)
                space_finish(o);
            if (o != NULL)
                stobj_unref(&o);
            CHECK_EQ(0, store_stats(s).charged);
        }
        CHECK(fails >= 5);
        CHECK(fails < 29 || kind != STOBJ_KEPT);
    }
    store_close(s);
}

TEST(fault, a_store_fills_up_on_request)
{
    struct storage *s = store_open("fault", 16 * MIB, "full=100000");
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0), *p = NULL;

    CHECK_EQ(-ENOSPC, body_fill(o, MIB, NULL));
    CHECK_EQ(-ENOSPC, stobj_new(&p, s, STOBJ_KEPT, 1, 0));
    CHECK(p == NULL);
    stobj_unref(&o);
    store_close(s);
}

TEST(fault, space_is_held_until_the_tick)
{
    struct storage *s = store_open("fault", 16 * MIB, "hold=2");
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    struct test_loop loop;
    struct test_waiter tw;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    CHECK_EQ(0, body_fill(o, 10, &tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 10, &tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 10, &tw.w));
    CHECK_EQ(WAITER_ARMED, waiter_state(&tw.w));
    CHECK_EQ(1, engine_fault_tick(s));
    loop_run(&loop);
    CHECK_EQ(1, tw.runs);
    CHECK_EQ(0, body_fill(o, 10, &tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 10, &tw.w));
    space_cancel(o, &tw.w);
    CHECK_EQ(WAITER_IDLE, waiter_state(&tw.w));
    CHECK_EQ(0, engine_fault_tick(s));
    stobj_unref(&o);
    store_close(s);
}

TEST(fault, a_notification_may_overtake_the_answer)
{
    struct storage *s = store_open("fault", 16 * MIB, "again=2");
    struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    struct test_loop loop;
    struct test_waiter tw;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    CHECK_EQ(0, body_fill(o, 10, &tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 10, &tw.w));
    CHECK_EQ(WAITER_POSTED, waiter_state(&tw.w));
    loop_run(&loop);
    inbox_here = &loop.inbox; /* on its own loop it lands before the call returns */
    CHECK_EQ(0, body_fill(o, 10, &tw.w));
    CHECK_EQ(-EAGAIN, body_fill(o, 10, &tw.w));
    CHECK_EQ(WAITER_IDLE, waiter_state(&tw.w));
    inbox_here = NULL;
    loop_run(&loop);
    CHECK_EQ(2, tw.runs);
    stobj_unref(&o);
    store_close(s);
}

/* ---- What the wrapper refuses ---- */

static unsigned released;

static void
on_release(void *owner)
{
    CHECK(owner == &released);
    released++;
}

TEST(synth, owned_bytes_are_released_once_when_nobody_is_left)
{
    struct storage *s = store_open("synth", 0, NULL);
    struct lease_iter it;
    struct test_batch tb;
    struct stobj *o, *other;

    released = 0;
    CHECK_EQ(0, stobj_synth_new_owned(&o, s, on_release, &released));
    CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("abc")));
    other = stobj_ref(o);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    lease_hold(&it);
    stobj_unref(&o);
    CHECK_EQ(0, released);
    stobj_unref(&other); /* the reader is left */
    CHECK_EQ(0, released);
    CHECK_EQ(1, take(&it, &tb, 4));
    CHECK_MEM("abc", tb.e[0].ptr, 3);
    CHECK_EQ(0, released);
    lease_fini(&it);
    CHECK_EQ(1, released);
    CHECK_EQ(0, stobj_synth_new_owned(&o, s, on_release, &released));
    for (unsigned i = 0; i < 100; i++) /* with a list of its own */
        CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("abc")));
    stobj_unref(&o);
    CHECK_EQ(2, released);
    store_close(s);
}

TEST(synth, what_could_not_be_made_is_not_owned)
{
    struct storage *s = store_open("synth", 4096, NULL);
    struct stobj *o, *all[64];
    unsigned n = 0;

    released = 0;
    while (n < ARRAY_LEN(all) && stobj_synth_new_owned(&o, s, on_release, &released) == 0)
        all[n++] = o;
    CHECK(n > 0 && n < ARRAY_LEN(all));
    CHECK_EQ(0, released);
    for (unsigned i = 0; i < n; i++)
        stobj_unref(&all[i]);
    CHECK_EQ(n, released);
    store_close(s);
}

TEST(synth, one_that_nobody_else_refers_to_is_filled_anew)
{
    struct storage *s = store_open("synth", 0, NULL);
    struct stobj *o, *other;
    struct lease_iter it;
    struct test_batch tb;
    uint64_t charged;

    CHECK_EQ(0, stobj_synth_new(&o, s));
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("old")));
    charged = store_stats(s).charged;
    other = stobj_ref(o);
    CHECK(!stobj_synth_reset(o));
    CHECK_EQ(60, stobj_len(o)); /* and nothing happened */
    stobj_unref(&other);
    CHECK_EQ(0, lease_init(&it, o, 0, LEASE_TO_END, NULL));
    lease_hold(&it); /* a reader counts as well */
    CHECK(!stobj_synth_reset(o));
    lease_fini(&it);
    CHECK(stobj_synth_reset(o));
    CHECK_EQ(0, stobj_len(o));
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQ(0, stobj_synth_add(o, SLICE_LIT("fresh")));
    CHECK_EQ(charged, store_stats(s).charged); /* its list serves again */
    CHECK_EQ(0, lease_init(&it, o, 97, LEASE_TO_END, NULL));
    CHECK_EQ(1, take(&it, &tb, 4));
    CHECK_MEM("esh", tb.e[0].ptr, 3);
    lease_fini(&it);
    stobj_unref(&o);
    store_close(s);
}

static struct storage *doomed_store;
static struct stobj *doomed;
static struct lease_iter doomed_it;

static void
misuse_extend_without_span(void)
{
    space_extend(doomed, 1);
}

static void
misuse_extend_past_span(void)
{
    struct span span;

    space_get(doomed, 10, &span, NULL);
    space_extend(doomed, 11);
}

static void
misuse_finish_twice(void)
{
    space_finish(doomed);
    space_finish(doomed);
}

static void
misuse_get_nothing(void)
{
    struct span span;

    space_get(doomed, 0, &span, NULL);
}

static void
misuse_close_with_object(void)
{
    storage_close(&doomed_store);
}

static void
misuse_fini_with_lease(void)
{
    struct test_batch tb;

    body_fill(doomed, 10, NULL);
    lease_init(&doomed_it, doomed, 0, LEASE_TO_END, NULL);
    take(&doomed_it, &tb, 1);
    lease_fini(&doomed_it);
}

static void
misuse_return_too_much(void)
{
    struct test_batch tb;

    body_fill(doomed, 10, NULL);
    lease_init(&doomed_it, doomed, 0, LEASE_TO_END, NULL);
    take(&doomed_it, &tb, 1);
    give_all(&doomed_it, &tb);
    give_all(&doomed_it, &tb);
}

static void
misuse_return_foreign_id(void)
{
    struct test_batch tb;

    body_fill(doomed, 10, NULL);
    lease_init(&doomed_it, doomed, 0, LEASE_TO_END, NULL);
    take(&doomed_it, &tb, 1);
    give_one(&doomed_it, 4096);
}

static void
misuse_take_after_the_end(void)
{
    struct test_batch tb;

    space_finish(doomed);
    lease_init(&doomed_it, doomed, 0, LEASE_TO_END, NULL);
    take(&doomed_it, &tb, 1);
    take(&doomed_it, &tb, 1);
}

static void
misuse_take_without_room(void)
{
    struct test_batch tb;

    lease_init(&doomed_it, doomed, 0, LEASE_TO_END, NULL);
    take(&doomed_it, &tb, 0);
}

static void
misuse_second_reader_of_private(void)
{
    struct lease_iter second;
    struct stobj *o = body_new(doomed_store, STOBJ_PRIVATE, 10, MIB);

    lease_init(&doomed_it, o, 0, LEASE_TO_END, NULL);
    lease_init(&second, o, 0, LEASE_TO_END, NULL);
}

/* Does it die of an assertion?  In a child, whose last words nobody needs. */
static bool
dies(void (*misuse)(void))
{
    int status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        misuse();
        _exit(0);
    }
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST(storage, every_breach_of_contract_is_caught)
{
    static void (*const misuses[])(void) = {misuse_extend_without_span, misuse_extend_past_span,
        misuse_finish_twice, misuse_get_nothing, misuse_close_with_object, misuse_fini_with_lease,
        misuse_return_too_much, misuse_return_foreign_id, misuse_take_after_the_end,
        misuse_take_without_room, misuse_second_reader_of_private};

    doomed_store = store_open("malloc", MIB, NULL);
    doomed = body_new(doomed_store, STOBJ_KEPT, 1000, 0);
    for (size_t i = 0; i < ARRAY_LEN(misuses); i++)
        CHECK(dies(misuses[i]));
    stobj_unref(&doomed);
    store_close(doomed_store);
}

TEST_MAIN(TEST_ENTRY(storage, an_unknown_engine_is_refused),
    TEST_ENTRY(storage, size_zero_is_the_engines_default),
    TEST_ENTRY(storage, raw_memory_is_charged_as_the_allocators_class),
    TEST_ENTRY(storage, classes_are_jemallocs),
    TEST_ENTRY(space, asking_again_gives_the_same_span_and_the_rest_comes_next),
    TEST_ENTRY(space, bodies_of_every_length_come_back_with_and_without_a_hint),
    TEST_ENTRY(space, a_known_length_wastes_little),
    TEST_ENTRY(space, a_mebibyte_and_a_byte_takes_no_quarter_more),
    TEST_ENTRY(space, a_small_body_lives_inside_its_object),
    TEST_ENTRY(space, a_segment_may_lie_right_behind_its_object),
    TEST_ENTRY(space, an_unknown_length_is_trimmed),
    TEST_ENTRY(space, trimming_moves_nothing_that_is_leased),
    TEST_ENTRY(space, a_lying_hint_costs_nothing),
    TEST_ENTRY(space, a_failed_object_gives_back_what_it_has_not_used),
    TEST_ENTRY(stobj, the_writers_drop_of_an_unfinished_object_fails_it),
    TEST_ENTRY(stobj, another_owner_keeps_an_unfinished_object_open),
    TEST_ENTRY(fault, a_word_it_does_not_know_is_refused),
    TEST_ENTRY(fault, every_allocation_may_fail_and_nothing_is_lost),
    TEST_ENTRY(fault, a_store_fills_up_on_request), TEST_ENTRY(fault, space_is_held_until_the_tick),
    TEST_ENTRY(fault, a_notification_may_overtake_the_answer),
    TEST_ENTRY(synth, owned_bytes_are_released_once_when_nobody_is_left),
    TEST_ENTRY(synth, what_could_not_be_made_is_not_owned),
    TEST_ENTRY(synth, one_that_nobody_else_refers_to_is_filled_anew),
    TEST_ENTRY(storage, every_breach_of_contract_is_caught))
