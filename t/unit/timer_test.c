/* timer_test.c -- the wheel of deadlines: never early, at most one tick late, and cheap to move. */
#include "t/unit/test.h"

#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/timer.h"
#include "daemon/base/waiter.h"

enum {
    WHEEL_TIMERS = 64,
    WHEEL_TURNS = 20000,
    HORIZON_MS = TIMER_TICK_MS * TIMER_SLOTS
};

/* The wheel, its loop, and the one alarm clock that net/loop would have. */
struct wheel_fixture {
    struct timer_wheel wheel; /* first: rearm() is handed this */
    struct task_queue queue;
    uint64_t alarm_ms; /* UINT64_MAX: not set */
    unsigned rearms;
};

static struct timed {
    struct task task;
    struct timer timer;
    unsigned runs;
} timed[WHEEL_TIMERS];

static void
on_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    struct wheel_fixture *f = container_of(w, struct wheel_fixture, wheel);

    f->alarm_ms = at_ms;
    f->rearms++;
}

static void
timed_run(struct task *t)
{
    container_of(t, struct timed, task)->runs++;
}

static void
wheel_fixture_open(struct wheel_fixture *f, uint64_t now_ms)
{
    f->alarm_ms = UINT64_MAX;
    f->rearms = 0;
    task_queue_init(&f->queue);
    timer_wheel_init(&f->wheel, now_ms, on_rearm);
    for (size_t i = 0; i < WHEEL_TIMERS; i++) {
        timed[i].runs = 0;
        task_init(&timed[i].task, &f->queue, timed_run);
        timer_init(&timed[i].timer, &timed[i].task);
    }
}

static void
wheel_turn(struct wheel_fixture *f, uint64_t now_ms)
{
    f->alarm_ms = UINT64_MAX;
    timer_wheel_run(&f->wheel, now_ms);
    CHECK(!task_queue_run(&f->queue, 2 * WHEEL_TIMERS));
}

TEST(timer, a_deadline_is_never_early_and_at_most_a_tick_late)
{
    struct wheel_fixture f;

    for (uint64_t after = 0; after < 5 * TIMER_TICK_MS; after++) {
        uint64_t start = 1000003, now = start;

        wheel_fixture_open(&f, start);
        timer_set(&f.wheel, &timed[0].timer, start + after);
        CHECK(f.alarm_ms > start + after && f.alarm_ms <= start + after + TIMER_TICK_MS);
        while (timed[0].runs == 0) {
            CHECK(!timer_expired(&timed[0].timer));
            now++;
            wheel_turn(&f, now);
        }
        CHECK(now >= start + after);
        CHECK(now <= start + after + TIMER_TICK_MS);
        CHECK(timer_expired(&timed[0].timer));
        wheel_turn(&f, now + HORIZON_MS);
        CHECK_EQ(1, timed[0].runs); /* once */
    }
}

TEST(timer, one_already_past_fires_at_the_next_tick)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 50000);
    timer_set(&f.wheel, &timed[0].timer, 10);
    CHECK(f.alarm_ms > 50000 && f.alarm_ms <= 50000 + TIMER_TICK_MS);
    wheel_turn(&f, f.alarm_ms);
    CHECK_EQ(1, timed[0].runs);
    CHECK_EQ(UINT64_MAX, f.alarm_ms); /* nothing is left to wait for */
}

TEST(timer, moving_later_costs_no_list_operation_and_fires_then)
{
    struct wheel_fixture f;
    struct list *next;
    unsigned rearms;
    uint64_t tick;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, 1000);
    next = timed[0].timer.link.next;
    tick = timed[0].timer.slot_ms;
    rearms = f.rearms;
    for (uint64_t at = 1016; at < 30000; at += 7)
        timer_set(&f.wheel, &timed[0].timer, at);
    CHECK(timed[0].timer.link.next == next && timed[0].timer.slot_ms == tick);
    CHECK_EQ(rearms, f.rearms);
    wheel_turn(&f, f.alarm_ms); /* found to be later, and hung up again */
    CHECK_EQ(0, timed[0].runs);
    CHECK(f.alarm_ms > 29000 && f.alarm_ms < 30016);
    wheel_turn(&f, f.alarm_ms);
    CHECK_EQ(1, timed[0].runs);
}

TEST(timer, moving_sooner_wakes_the_loop_sooner)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, 30000);
    timer_set(&f.wheel, &timed[0].timer, 100);
    CHECK(f.alarm_ms > 100 && f.alarm_ms <= 116);
    wheel_turn(&f, f.alarm_ms);
    CHECK_EQ(1, timed[0].runs);
    wheel_turn(&f, 30016); /* the slot it left is looked at, for nothing */
    CHECK_EQ(1, timed[0].runs);
    CHECK_EQ(UINT64_MAX, f.alarm_ms);
}

TEST(timer, a_cleared_one_does_not_fire_and_can_be_set_again)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, 100);
    timer_clear(&timed[0].timer);
    wheel_turn(&f, 1000);
    CHECK_EQ(0, timed[0].runs);
    CHECK(!timer_expired(&timed[0].timer) && timed[0].timer.slot_ms == TIMER_NEVER);
    timer_set(&f.wheel, &timed[0].timer, 1100);
    timer_clear(&timed[0].timer);
    timer_set(&f.wheel, &timed[0].timer, 1050); /* while it still hangs from before */
    wheel_turn(&f, 1064);
    CHECK_EQ(1, timed[0].runs);
}

TEST(timer, never_is_a_deadline_that_does_not_come)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, TIMER_NEVER);
    CHECK_EQ(0, f.rearms);
    wheel_turn(&f, UINT64_C(1) << 40);
    CHECK_EQ(0, timed[0].runs);
}

TEST(timer, an_unlinked_one_leaves_no_trace)
{
    struct wheel_fixture f;
    struct timed *t = malloc(sizeof(*t));

    CHECK(t != NULL);
    wheel_fixture_open(&f, 0);
    task_init(&t->task, &f.queue, timed_run);
    timer_init(&t->timer, &t->task);
    timer_unlink(&t->timer); /* never set: nothing */
    timer_set(&f.wheel, &t->timer, 100);
    timer_unlink(&t->timer);
    free(t); /* its slot is still looked at */
    wheel_turn(&f, 1000);
    CHECK_EQ(UINT64_MAX, f.alarm_ms);
}

TEST(timer, setting_again_forgets_that_it_expired)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, 10);
    wheel_turn(&f, 16);
    CHECK(timer_expired(&timed[0].timer));
    timer_set(&f.wheel, &timed[0].timer, 200);
    CHECK(!timer_expired(&timed[0].timer));
    wheel_turn(&f, 208);
    CHECK(timer_expired(&timed[0].timer));
    timer_clear(&timed[0].timer);
    CHECK(!timer_expired(&timed[0].timer));
    CHECK_EQ(2, timed[0].runs);
}

TEST(timer, what_lies_beyond_the_horizon_is_looked_at_again)
{
    struct wheel_fixture f;
    uint64_t at = 5 * (uint64_t)HORIZON_MS + 77;
    unsigned looks = 0;

    wheel_fixture_open(&f, 0);
    timer_set(&f.wheel, &timed[0].timer, at);
    while (timed[0].runs == 0) {
        CHECK(f.alarm_ms != UINT64_MAX);
        CHECK(f.alarm_ms <= at + TIMER_TICK_MS);
        wheel_turn(&f, f.alarm_ms);
        looks++;
    }
    CHECK_EQ(6, looks);
}

TEST(timer, a_long_sleep_fires_all_that_passed_and_nothing_else)
{
    struct wheel_fixture f;

    wheel_fixture_open(&f, 123456);
    for (size_t i = 0; i < WHEEL_TIMERS; i++)
        timer_set(&f.wheel, &timed[i].timer, 123456 + i * 9973);
    wheel_turn(&f, 123456 + 40 * 9973 + TIMER_TICK_MS);
    for (size_t i = 0; i < WHEEL_TIMERS; i++)
        CHECK_EQ(i <= 40, timed[i].runs);
    wheel_turn(&f, 123456 + 10 * (uint64_t)HORIZON_MS);
    for (size_t i = 0; i < WHEEL_TIMERS; i++)
        CHECK_EQ(1, timed[i].runs);
}

/* One random thing to a random timer; want[] is the slow reference. */
static void
wheel_fiddle(struct wheel_fixture *f, uint64_t now, uint64_t *want)
{
    static const uint64_t reach[] = {20, 300, 5000, 70000, 400000};
    size_t i = (size_t)random() % WHEEL_TIMERS;

    switch (random() % 8) {
    case 0:
        timer_clear(&timed[i].timer);
        want[i] = TIMER_NEVER;
        break;
    case 1:
        timer_unlink(&timed[i].timer);
        want[i] = TIMER_NEVER;
        break;
    default:
        want[i] = now + (uint64_t)random() % reach[random() % 5];
        timer_set(&f->wheel, &timed[i].timer, want[i]);
        break;
    }
}

TEST(timer, agrees_with_a_slow_reference_whatever_is_done)
{
    struct wheel_fixture f;
    uint64_t now = 999, want[WHEEL_TIMERS];
    unsigned runs[WHEEL_TIMERS] = {0}, fired = 0;

    srandom(1);
    wheel_fixture_open(&f, now);
    for (size_t i = 0; i < WHEEL_TIMERS; i++)
        want[i] = TIMER_NEVER;
    for (unsigned turn = 0; turn < WHEEL_TURNS; turn++) {
        for (long n = random() % 4; n > 0; n--)
            wheel_fiddle(&f, now, want);
        /* as a loop does: at the alarm, or sooner or later for other reasons */
        now = f.alarm_ms != UINT64_MAX && random() % 2 ? f.alarm_ms : now + (uint64_t)random() % 40;
        wheel_turn(&f, now);
        for (size_t i = 0; i < WHEEL_TIMERS; i++) {
            if (timed[i].runs != runs[i]) {
                CHECK(want[i] <= now);
                CHECK_EQ(1, timed[i].runs - runs[i]);
                runs[i]++;
                fired++;
                want[i] = TIMER_NEVER;
            }
            CHECK(want[i] == TIMER_NEVER || want[i] + TIMER_TICK_MS > now);
            CHECK(want[i] == TIMER_NEVER || f.alarm_ms <= want[i] + TIMER_TICK_MS);
        }
    }
    CHECK(fired > WHEEL_TURNS / 4);
}

TEST_MAIN(TEST_ENTRY(timer, a_deadline_is_never_early_and_at_most_a_tick_late),
    TEST_ENTRY(timer, one_already_past_fires_at_the_next_tick),
    TEST_ENTRY(timer, moving_later_costs_no_list_operation_and_fires_then),
    TEST_ENTRY(timer, moving_sooner_wakes_the_loop_sooner),
    TEST_ENTRY(timer, a_cleared_one_does_not_fire_and_can_be_set_again),
    TEST_ENTRY(timer, never_is_a_deadline_that_does_not_come),
    TEST_ENTRY(timer, an_unlinked_one_leaves_no_trace),
    TEST_ENTRY(timer, setting_again_forgets_that_it_expired),
    TEST_ENTRY(timer, what_lies_beyond_the_horizon_is_looked_at_again),
    TEST_ENTRY(timer, a_long_sleep_fires_all_that_passed_and_nothing_else),
    TEST_ENTRY(timer, agrees_with_a_slow_reference_whatever_is_done))
