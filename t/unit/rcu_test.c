/* rcu_test.c -- what a reader found stays readable until it has been offline once. */
#include "t/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"

enum {
    RCU_READERS = 2,
    RCU_SWAPS = 3000,
    RCU_NAP_MS = 50
};

#if defined(__SANITIZE_THREAD__)
/* liburcu is not built for the race detector, which therefore cannot see how urcu_qsbr_barrier()
 * hands its own work items to the thread that frees them.  Weak: daemon/base may say the same. */
const char *__tsan_default_suppressions(void);

__attribute__((weak)) const char *
__tsan_default_suppressions(void)
{
    return "race:urcu_qsbr_barrier\n";
}
#endif

#define RCU_THING_MAGIC OBJ_TAG('r', 'c', 'u', 't')
struct thing {
    uint32_t magic;
    uint64_t value, again; /* equal, always */
    struct rcu_later later;
};

static _Atomic unsigned freed;

static void
thing_free(struct rcu_later *later)
{
    struct thing *t = container_of(later, struct thing, later);

    tassert(t->magic == RCU_THING_MAGIC);
    OBJ_FREE(t);
    atomic_fetch_add(&freed, 1);
}

static struct thing *
thing_new(uint64_t value)
{
    struct thing *t = malloc(sizeof(*t));

    tassert(t != NULL);
    *t = (struct thing){.magic = RCU_THING_MAGIC, .value = value, .again = value};
    return t;
}

static void
nap(void)
{
    struct timespec ts = {0, RCU_NAP_MS * 1000000L};

    nanosleep(&ts, NULL);
}

TEST(rcu, a_thread_is_online_from_join_to_leave_but_for_offline_stretches)
{
    CHECK(!rcu_is_online());
    rcu_join();
    CHECK(rcu_is_online());
    rcu_offline();
    CHECK(!rcu_is_online());
    rcu_online();
    CHECK(rcu_is_online());
    rcu_leave();
    CHECK(!rcu_is_online());
}

TEST(rcu, all_that_was_queued_is_freed_before_the_barrier_returns)
{
    atomic_store(&freed, 0);
    rcu_join();
    for (unsigned i = 0; i < 100; i++)
        rcu_free_later(&thing_new(i)->later, thing_free);
    rcu_offline();
    rcu_barrier_wait();
    CHECK_EQ(100, atomic_load(&freed));
    rcu_online();
    rcu_leave();
}

/* ---- one reader that does not let go ---- */

static struct {
    _Atomic(struct thing *) shared;
    _Atomic int step; /* 1: the reader holds it; 2: it may let go */
    _Atomic unsigned wrong;
} hold;

static void *
hold_reader(void *arg)
{
    struct thing *t;

    (void)arg;
    rcu_join();
    t = atomic_load_explicit(&hold.shared, memory_order_acquire);
    atomic_store(&hold.step, 1);
    while (atomic_load(&hold.step) != 2) {
        sched_yield();
        hold.wrong += t->magic != RCU_THING_MAGIC || t->value != 1;
    }
    rcu_leave();
    return NULL;
}

TEST(rcu, nothing_is_freed_while_a_reader_stays_online)
{
    pthread_t reader;
    struct thing *old;

    atomic_store(&freed, 0);
    atomic_store(&hold.shared, thing_new(1));
    CHECK_EQ(0, pthread_create(&reader, NULL, hold_reader, NULL));
    while (atomic_load(&hold.step) != 1)
        sched_yield();
    rcu_join();
    old = atomic_exchange(&hold.shared, NULL);
    rcu_free_later(&old->later, thing_free);
    rcu_offline();
    nap();
    CHECK_EQ(0, atomic_load(&freed));
    atomic_store(&hold.step, 2);
    pthread_join(reader, NULL);
    rcu_barrier_wait();
    CHECK_EQ(1, atomic_load(&freed));
    CHECK_EQ(0, atomic_load(&hold.wrong));
    rcu_online();
    rcu_leave();
}

/* ---- readers in turns, as loops are, and a writer that swaps ---- */

static struct {
    _Atomic(struct thing *) shared;
    _Atomic bool stop;
    _Atomic uint64_t wrong, reads;
} swap;

static void *
swap_reader(void *arg)
{
    (void)arg;
    rcu_join();
    while (!atomic_load_explicit(&swap.stop, memory_order_relaxed)) {
        for (int i = 0; i < 50; i++) { /* one turn */
            const struct thing *t = atomic_load_explicit(&swap.shared, memory_order_acquire);

            swap.wrong += t->magic != RCU_THING_MAGIC || t->value != t->again;
            swap.reads++;
        }
        rcu_offline();
        sched_yield();
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

TEST(rcu, readers_never_see_what_was_freed)
{
    pthread_t readers[RCU_READERS];
    struct thing *old;

    atomic_store(&freed, 0);
    atomic_store(&swap.shared, thing_new(0));
    for (int i = 0; i < RCU_READERS; i++)
        CHECK_EQ(0, pthread_create(&readers[i], NULL, swap_reader, NULL));
    while (atomic_load(&swap.reads) == 0) /* a busy machine starts threads late */
        sched_yield();
    rcu_join();
    for (uint64_t i = 1; i <= RCU_SWAPS; i++) {
        old = atomic_exchange(&swap.shared, thing_new(i));
        rcu_free_later(&old->later, thing_free);
        rcu_offline();
        if (i % 64 == 0)
            sched_yield();
        rcu_online();
    }
    atomic_store(&swap.stop, true);
    rcu_offline();
    for (int i = 0; i < RCU_READERS; i++)
        pthread_join(readers[i], NULL);
    rcu_barrier_wait();
    CHECK_EQ(RCU_SWAPS, atomic_load(&freed));
    CHECK_EQ(0, atomic_load(&swap.wrong));
    CHECK(atomic_load(&swap.reads) > 0);
    rcu_online();
    rcu_leave();
    free(atomic_load(&swap.shared));
}

TEST_MAIN(TEST_ENTRY(rcu, a_thread_is_online_from_join_to_leave_but_for_offline_stretches),
    TEST_ENTRY(rcu, all_that_was_queued_is_freed_before_the_barrier_returns),
    TEST_ENTRY(rcu, nothing_is_freed_while_a_reader_stays_online),
    TEST_ENTRY(rcu, readers_never_see_what_was_freed))
