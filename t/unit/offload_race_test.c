/* offload_race_test.c -- jobs run once each, by hand and on threads, and are cancelled in time or not. */
#include "t/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/terr.h"

enum {
    RACE_LOOPS = 3,
    RACE_JOBS = 4,      /* of a loop at once */
    RACE_ROUNDS = 3000, /* of a loop */
    RACE_WAIT_S = 30,   /* then something hangs */
    RACE_THREADS = 3,   /* of the offload */
};

/* ---- by hand ---- */

struct hand {
    struct task_queue queue;
    struct inbox inbox;
    struct offload *o;
    unsigned order; /* jobs that have run */
};

struct hand_job {
    struct job job;
    struct waiter waiter;
    struct task task;
    struct hand *hand;
    struct offload *o;      /* of one that submits another: hand.o is NULL while it closes */
    unsigned ran, notified; /* at which place; 0: not */
};

static void
hand_on_wake(struct inbox *in)
{
    (void)in;
}

static void
hand_run(struct job *j)
{
    struct hand_job *hj = container_of(j, struct hand_job, job);

    hj->ran = ++hj->hand->order;
}

static void
hand_notified(struct task *t)
{
    container_of(t, struct hand_job, task)->notified++;
}

static void
hand_open(struct hand *h)
{
    *h = (struct hand){.order = 0};
    task_queue_init(&h->queue);
    inbox_init(&h->inbox, hand_on_wake);
    inbox_here = &h->inbox;
    CHECK_EQ(0, offload_open(&h->o, 0, 0));
}

static void
hand_close(struct hand *h)
{
    offload_close(&h->o);
    CHECK(h->o == NULL);
    inbox_here = NULL;
}

static void
hand_job_init(struct hand *h, struct hand_job *hj)
{
    *hj = (struct hand_job){.hand = h};
    task_init(&hj->task, &h->queue, hand_notified);
    waiter_init(&hj->waiter, &hj->task, &h->inbox);
    job_init(&hj->job, hand_run, &hj->waiter);
}

TEST(offload, jobs_run_by_hand_in_order_and_notify_when_they_have_run)
{
    struct hand h;
    struct hand_job jobs[3];

    hand_open(&h);
    CHECK(!offload_run_one(h.o));
    for (unsigned i = 0; i < 3; i++) {
        hand_job_init(&h, &jobs[i]);
        CHECK_EQ(0, offload_submit(h.o, &jobs[i].job));
        CHECK_EQ(WAITER_ARMED, waiter_state(&jobs[i].waiter));
    }
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(0, jobs[i].ran);
        CHECK(offload_run_one(h.o));
        CHECK_EQ(i + 1, jobs[i].ran);
        CHECK(!waiter_pending(&jobs[i].waiter));
        CHECK_EQ(0, jobs[i].notified);
        task_queue_run(&h.queue, 10);
        CHECK_EQ(1, jobs[i].notified);
    }
    CHECK(!offload_run_one(h.o));
    hand_close(&h);
}

TEST(offload, a_full_queue_is_a_limit_and_leaves_the_job_alone)
{
    struct hand h;
    struct hand_job *jobs = calloc(OFFLOAD_QUEUE_MAX + 1, sizeof(*jobs)), *last;
    struct offload_stats stats;

    CHECK(jobs != NULL);
    hand_open(&h);
    for (unsigned i = 0; i < OFFLOAD_QUEUE_MAX; i++) {
        hand_job_init(&h, &jobs[i]);
        CHECK_EQ(0, offload_submit(h.o, &jobs[i].job));
    }
    last = &jobs[OFFLOAD_QUEUE_MAX];
    hand_job_init(&h, last);
    CHECK_EQ(TERR_LIMIT, offload_submit(h.o, &last->job));
    CHECK_EQ(WAITER_IDLE, waiter_state(&last->waiter));
    offload_stats(h.o, &stats);
    CHECK_EQ(OFFLOAD_QUEUE_MAX, stats.queued);
    CHECK_EQ(1, stats.refused);
    CHECK(offload_run_one(h.o));
    CHECK_EQ(0, offload_submit(h.o, &last->job)); /* there is room again */
    hand_close(&h);
    CHECK_EQ(OFFLOAD_QUEUE_MAX + 1, last->ran); /* the end ran all */
    free(jobs);
}

TEST(offload, a_job_that_is_cancelled_in_time_never_runs)
{
    struct hand h;
    struct hand_job first, second;

    hand_open(&h);
    hand_job_init(&h, &first);
    hand_job_init(&h, &second);
    CHECK_EQ(0, offload_submit(h.o, &first.job));
    CHECK_EQ(0, offload_submit(h.o, &second.job));
    CHECK(offload_cancel(h.o, &first.job));
    CHECK_EQ(WAITER_IDLE, waiter_state(&first.waiter));
    CHECK(offload_run_one(h.o));
    CHECK(!offload_run_one(h.o));
    CHECK_EQ(0, first.ran);
    CHECK_EQ(1, second.ran);
    CHECK(!offload_cancel(h.o, &second.job));     /* too late */
    CHECK_EQ(0, offload_submit(h.o, &first.job)); /* it may be submitted again */
    CHECK(offload_run_one(h.o));
    CHECK_EQ(2, first.ran);
    hand_close(&h);
}

static void
hand_run_and_free(struct job *j)
{
    struct hand_job *hj = container_of(j, struct hand_job, job);

    hj->hand->order++;
    free(hj);
}

static void
hand_run_another(struct job *j)
{
    struct hand_job *hj = container_of(j, struct hand_job, job), *next = malloc(sizeof(*next));

    tassert(next != NULL);
    next->hand = hj->hand;
    job_init(&next->job, hand_run_and_free, NULL);
    tassert(offload_submit(hj->o, &next->job) == 0);
    hand_run_and_free(j);
}

TEST(offload, a_job_without_a_waiter_may_free_itself_and_submit_another)
{
    struct hand h;
    struct hand_job *hj = malloc(sizeof(*hj));

    CHECK(hj != NULL);
    hand_open(&h);
    hj->hand = &h;
    hj->o = h.o;
    job_init(&hj->job, hand_run_another, NULL);
    CHECK_EQ(0, offload_submit(h.o, &hj->job));
    hand_close(&h); /* runs both */
    CHECK_EQ(2, h.order);
}

/* ---- on threads ---- */

struct seen_job {
    struct job job;
    sem_t ran, go;
    char name[16];
    int nice;
    bool all_blocked;
};

static void
seen_run(struct job *j)
{
    struct seen_job *s = container_of(j, struct seen_job, job);
    sigset_t mask;

    pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    s->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    s->all_blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR2) == 1;
    sem_post(&s->ran);
    sem_wait(&s->go);
}

TEST(offload, its_threads_are_named_and_nice_and_get_no_signal)
{
    struct offload *o = NULL;
    struct seen_job a = {.nice = 0};
    int mine = getpriority(PRIO_PROCESS, (id_t)gettid());
    sigset_t mask;

    sem_init(&a.ran, 0, 0);
    sem_init(&a.go, 0, 1);
    job_init(&a.job, seen_run, NULL);
    CHECK_EQ(0, offload_open(&o, 1, 5));
    CHECK_EQ(0, offload_submit(o, &a.job));
    sem_wait(&a.ran);
    offload_close(&o);
    CHECK_STR("tarn-offload-0", a.name);
    CHECK_EQ(mine + 5 > 19 ? 19 : mine + 5, a.nice);
    CHECK(a.all_blocked);
    CHECK_EQ(mine, getpriority(PRIO_PROCESS, (id_t)gettid()));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK_EQ(0, sigismember(&mask, SIGTERM)); /* ours is as it was */
    sem_destroy(&a.ran);
    sem_destroy(&a.go);
}

/* A loop with no sockets: it sleeps until its inbox has something. */
struct race_loop {
    struct inbox inbox; /* first: wake() is handed this */
    sem_t bell;
    struct offload *o;
    /* its own thread only */
    struct task_queue queue;
    unsigned seed;
    uint64_t submitted, limited, cancelled, ran, notified, wrong;
};

struct race_job {
    struct job job;
    struct waiter waiter;
    struct task task;
    struct race_loop *loop;
    unsigned runs;     /* written by the thread that runs it, read when the waiter has landed */
    bool under_way;    /* the loop's: submitted, and neither cancelled nor notified */
    bool is_cancelled; /* the loop's */
};

static void
race_on_wake(struct inbox *in)
{
    sem_post(&container_of(in, struct race_loop, inbox)->bell);
}

static void
race_run(struct job *j)
{
    container_of(j, struct race_job, job)->runs++;
}

static void
race_notified(struct task *t)
{
    struct race_job *rj = container_of(t, struct race_job, task);

    rj->loop->wrong += !rj->under_way || rj->is_cancelled || rj->runs != 1;
    rj->loop->notified++;
    rj->loop->ran += rj->runs;
    rj->under_way = false;
}

static struct race_job *
race_submit(struct race_loop *l)
{
    struct race_job *rj = malloc(sizeof(*rj));

    tassert(rj != NULL);
    *rj = (struct race_job){.loop = l};
    task_init(&rj->task, &l->queue, race_notified);
    waiter_init(&rj->waiter, &rj->task, &l->inbox);
    job_init(&rj->job, race_run, &rj->waiter);
    rj->under_way = offload_submit(l->o, &rj->job) == 0;
    l->submitted += rj->under_way;
    l->limited += !rj->under_way;
    return rj;
}

static bool
race_wait(struct race_loop *l, const struct race_job *rj)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RACE_WAIT_S;
    for (;;) {
        inbox_drain(&l->inbox);
        task_queue_run(&l->queue, 2 * RACE_JOBS);
        if (!rj->under_way)
            return !waiter_pending(&rj->waiter);
        if (sem_timedwait(&l->bell, &until) != 0)
            return false;
    }
}

static void *
race_loop_main(void *arg)
{
    struct race_loop *l = arg;
    struct race_job *jobs[RACE_JOBS];

    inbox_here = &l->inbox;
    for (unsigned round = 0; round < RACE_ROUNDS && l->wrong == 0; round++) {
        for (unsigned i = 0; i < RACE_JOBS; i++)
            jobs[i] = race_submit(l);
        if (rand_r(&l->seed) % 2)
            sched_yield();
        for (unsigned i = 0; i < RACE_JOBS; i++) {
            if (rand_r(&l->seed) % 2 == 0 || !jobs[i]->under_way)
                continue;
            jobs[i]->is_cancelled = offload_cancel(l->o, &jobs[i]->job);
            jobs[i]->under_way = !jobs[i]->is_cancelled;
            l->cancelled += jobs[i]->is_cancelled;
        }
        for (unsigned i = 0; i < RACE_JOBS; i++) {
            l->wrong += !race_wait(l, jobs[i]);
            l->wrong += jobs[i]->is_cancelled && jobs[i]->runs != 0;
            free(jobs[i]);
        }
    }
    return NULL;
}

TEST(offload_race, each_job_runs_and_notifies_once_or_is_cancelled)
{
    static struct race_loop loops[RACE_LOOPS];
    pthread_t threads[RACE_LOOPS];
    struct offload *o = NULL;
    struct offload_stats stats;
    uint64_t ran = 0;

    CHECK_EQ(0, offload_open(&o, RACE_THREADS, 1));
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        loops[i] = (struct race_loop){.o = o, .seed = i + 1};
        inbox_init(&loops[i].inbox, race_on_wake);
        task_queue_init(&loops[i].queue);
        sem_init(&loops[i].bell, 0, 0);
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_loop_main, &loops[i]));
    }
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        struct race_loop *l = &loops[i];

        pthread_join(threads[i], NULL);
        CHECK_EQ(0, l->wrong);
        CHECK_EQ(0, l->limited);
        CHECK_EQ(RACE_ROUNDS * RACE_JOBS, l->submitted);
        CHECK_EQ(l->submitted, l->cancelled + l->notified);
        CHECK_EQ(l->ran, l->notified);
        print_message("submitted %llu, cancelled %llu\n", (unsigned long long)l->submitted,
            (unsigned long long)l->cancelled);
        ran += l->ran;
        sem_destroy(&l->bell);
    }
    offload_stats(o, &stats);
    CHECK_EQ(ran, stats.run);
    CHECK_EQ(0, stats.queued);
    offload_close(&o);
}

TEST_MAIN(TEST_ENTRY(offload, jobs_run_by_hand_in_order_and_notify_when_they_have_run),
    TEST_ENTRY(offload, a_full_queue_is_a_limit_and_leaves_the_job_alone),
    TEST_ENTRY(offload, a_job_that_is_cancelled_in_time_never_runs),
    TEST_ENTRY(offload, a_job_without_a_waiter_may_free_itself_and_submit_another),
    TEST_ENTRY(offload, its_threads_are_named_and_nice_and_get_no_signal),
    TEST_ENTRY(offload_race, each_job_runs_and_notifies_once_or_is_cancelled))
