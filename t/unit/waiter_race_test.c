/* waiter_race_test.c -- posts and notifications between loops on threads of their own.
 *
 * Built plainly it shows that nothing is lost or doubled; built for the race detector (or for
 * the address sanitizer) it shows also that whoever sends does not touch what has landed.
 * Threads count; what they counted is judged by the test's own thread when they have ended.
 */
#include "t/unit/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/waiter.h"

enum {
    RACE_LOOPS = 3,
    RACE_POSTS = 20000,   /* each sender to each loop */
    RACE_WAITS = 4000,    /* of each home loop */
    RACE_WAITERS = 4,     /* pending at once on a loop */
    RACE_PATIENCE_S = 30, /* then a wakeup was lost */
};

/* A loop with no sockets: it sleeps until its inbox is said to have something. */
struct race_loop {
    struct inbox inbox; /* first: wake() is handed this */
    pthread_mutex_t lock;
    pthread_cond_t bell;
    bool rung; /* under lock */
    /* its own thread only */
    struct task_queue queue;
    uint64_t landed, out_of_order, overslept;
    uint64_t expect[RACE_LOOPS];
};

static void
race_on_wake(struct inbox *in)
{
    struct race_loop *l = container_of(in, struct race_loop, inbox);

    pthread_mutex_lock(&l->lock);
    l->rung = true;
    pthread_cond_signal(&l->bell);
    pthread_mutex_unlock(&l->lock);
}

static void
race_loop_init(struct race_loop *l)
{
    *l = (struct race_loop){.landed = 0};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->bell, NULL);
    inbox_init(&l->inbox, race_on_wake);
    task_queue_init(&l->queue);
}

static void
race_loop_fini(struct race_loop *l)
{
    pthread_cond_destroy(&l->bell);
    pthread_mutex_destroy(&l->lock);
}

/* Sleeps as a loop in poll() does: on nothing but the bell.  False: nobody rang in time. */
static bool
race_loop_sleep(struct race_loop *l)
{
    struct timespec until;
    int err = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RACE_PATIENCE_S;
    pthread_mutex_lock(&l->lock);
    while (!l->rung && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&l->bell, &l->lock, &until);
    l->rung = false;
    pthread_mutex_unlock(&l->lock);
    l->overslept += err == ETIMEDOUT;
    return err != ETIMEDOUT;
}

/* ---- posts ---- */

static struct race_loop race_loops[RACE_LOOPS];

struct race_post {
    struct post post;
    struct race_loop *to;
    unsigned from;
    uint64_t seq;
};

static void
race_post_land(struct post *p)
{
    struct race_post *rp = container_of(p, struct race_post, post);
    struct race_loop *l = rp->to;

    l->out_of_order += &l->inbox != inbox_here; /* must land at home */
    l->out_of_order += rp->seq != l->expect[rp->from];
    l->expect[rp->from]++;
    l->landed++;
    free(rp); /* at once: the sender must be through with it */
}

static void
race_send_to_all(unsigned from, uint64_t seq)
{
    for (unsigned to = 0; to < RACE_LOOPS; to++) {
        struct race_post *rp = malloc(sizeof(*rp));

        tassert(rp != NULL);
        *rp = (struct race_post){
            .post.land = race_post_land, .to = &race_loops[to], .from = from, .seq = seq};
        inbox_send(&race_loops[to].inbox, &rp->post);
    }
}

static void *
race_post_loop(void *arg)
{
    struct race_loop *l = arg;
    unsigned me = (unsigned)(l - race_loops);

    inbox_here = &l->inbox;
    for (uint64_t seq = 0; seq < RACE_POSTS; seq++) {
        race_send_to_all(me, seq);
        if (seq % 16 == me)
            inbox_drain(&l->inbox);
    }
    while (l->landed < RACE_LOOPS * RACE_POSTS) {
        if (inbox_drain(&l->inbox) == 0 && !race_loop_sleep(l))
            break;
    }
    return NULL;
}

TEST(inbox_race, no_post_is_lost_or_overtaken_and_wakeups_are_coalesced)
{
    pthread_t threads[RACE_LOOPS];

    for (unsigned i = 0; i < RACE_LOOPS; i++)
        race_loop_init(&race_loops[i]);
    for (unsigned i = 0; i < RACE_LOOPS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_post_loop, &race_loops[i]));
    for (unsigned i = 0; i < RACE_LOOPS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        struct race_loop *l = &race_loops[i];
        uint64_t posts = atomic_load(&l->inbox.posts), wakeups = atomic_load(&l->inbox.wakeups);

        print_message(
            "posts %llu, wakeups %llu\n", (unsigned long long)posts, (unsigned long long)wakeups);
        CHECK_EQ(0, l->overslept);
        CHECK_EQ(0, l->out_of_order);
        CHECK_EQ(RACE_LOOPS * RACE_POSTS, l->landed);
        CHECK_EQ((RACE_LOOPS - 1) * RACE_POSTS, posts); /* its own landed at once */
        CHECK(wakeups > 0 && wakeups < posts);
        CHECK(atomic_load(&l->inbox.head) == NULL);
        race_loop_fini(l);
    }
}

/* ---- waiters: home loops arm and cancel, a source on another thread notifies ---- */

struct race_source {
    pthread_mutex_t lock;
    struct list waiting;    /* under lock */
    uint64_t notified;      /* under lock */
    _Atomic unsigned homes; /* still running */
};

struct race_wait {
    struct waiter waiter;
    struct task task;
    struct race_home *home;
    bool armed; /* ours to know: armed and neither disarmed nor run since */
};

struct race_home {
    struct race_loop loop;
    struct race_source *source;
    unsigned seed;
    uint64_t armed, cancelled, missed_cancel, ran, astray;
};

static void
race_wait_run(struct task *t)
{
    struct race_wait *rw = container_of(t, struct race_wait, task);
    struct race_home *h = rw->home;

    h->astray += inbox_here != &h->loop.inbox;
    h->astray += !rw->armed || waiter_state(&rw->waiter) != WAITER_IDLE;
    rw->armed = false;
    h->ran++;
}

static struct race_wait *
race_wait_new(struct race_home *h)
{
    struct race_wait *rw = malloc(sizeof(*rw));

    tassert(rw != NULL);
    rw->home = h;
    rw->armed = true;
    task_init(&rw->task, &h->loop.queue, race_wait_run);
    waiter_init(&rw->waiter, &rw->task, &h->loop.inbox);
    pthread_mutex_lock(&h->source->lock);
    waiter_arm(&rw->waiter, &h->source->waiting);
    pthread_mutex_unlock(&h->source->lock);
    h->armed++;
    return rw;
}

/* What every owner does: under the lock it is either still armed, and then forgotten, or
 * posted already, and then its landing must be waited for. */
static void
race_wait_cancel(struct race_wait *rw)
{
    struct race_home *h = rw->home;
    enum waiter_state state;

    pthread_mutex_lock(&h->source->lock);
    state = waiter_state(&rw->waiter);
    if (state == WAITER_ARMED)
        waiter_disarm(&rw->waiter);
    pthread_mutex_unlock(&h->source->lock);
    if (state == WAITER_ARMED) {
        rw->armed = false;
        h->cancelled++;
        return;
    }
    h->missed_cancel++;
    for (int i = 0; i < 3 && state == WAITER_POSTED; i++) {
        sched_yield(); /* POSTED -> IDLE is ours alone: it cannot happen behind our back */
        h->astray += waiter_state(&rw->waiter) != WAITER_POSTED;
    }
}

static void
race_home_turn(struct race_home *h)
{
    inbox_drain(&h->loop.inbox);
    h->astray += task_queue_run(&h->loop.queue, 2 * RACE_WAITERS);
}

/* Arms a few, cancels some of them at any moment, and frees each as soon as it is idle. */
static bool
race_home_round(struct race_home *h)
{
    struct race_wait *rw[RACE_WAITERS];

    for (int i = 0; i < RACE_WAITERS; i++)
        rw[i] = race_wait_new(h);
    if (rand_r(&h->seed) % 2)
        sched_yield();
    for (int i = 0; i < RACE_WAITERS; i++) {
        if (rand_r(&h->seed) % 2)
            race_wait_cancel(rw[i]);
    }
    for (int i = 0; i < RACE_WAITERS; i++) {
        while (waiter_pending(&rw[i]->waiter) || rw[i]->armed) {
            race_home_turn(h);
            if (rw[i]->armed && !race_loop_sleep(&h->loop))
                return false;
        }
        free(rw[i]); /* idle: nobody knows of it any more */
    }
    return true;
}

static void *
race_home_loop(void *arg)
{
    struct race_home *h = arg;

    inbox_here = &h->loop.inbox;
    for (unsigned i = 0; i < RACE_WAITS / RACE_WAITERS; i++) {
        if (!race_home_round(h))
            break;
    }
    atomic_fetch_sub(&h->source->homes, 1);
    return NULL;
}

static void *
race_notify(void *arg)
{
    struct race_source *s = arg;
    unsigned seed = 7;

    while (atomic_load(&s->homes) > 0) {
        pthread_mutex_lock(&s->lock);
        if (rand_r(&seed) % 4 == 0)
            s->notified += waiter_notify_all(&s->waiting);
        else if (!list_empty(&s->waiting)) {
            waiter_notify(container_of(s->waiting.next, struct waiter, link));
            s->notified++;
        }
        pthread_mutex_unlock(&s->lock);
        sched_yield();
    }
    return NULL;
}

static void
race_judge(const struct race_home *homes, const struct race_source *source)
{
    uint64_t armed = 0, cancelled = 0, late = 0, ran = 0;

    for (int i = 0; i < RACE_LOOPS; i++) {
        CHECK_EQ(0, homes[i].loop.overslept);
        CHECK_EQ(0, homes[i].astray);
        armed += homes[i].armed;
        cancelled += homes[i].cancelled;
        late += homes[i].missed_cancel;
        ran += homes[i].ran;
    }
    print_message("armed %llu, cancelled %llu, too late to cancel %llu\n",
        (unsigned long long)armed, (unsigned long long)cancelled, (unsigned long long)late);
    CHECK_EQ(RACE_LOOPS * RACE_WAITS, armed);
    CHECK_EQ(armed, cancelled + ran);
    CHECK_EQ(source->notified, ran);
    CHECK(cancelled > 0 && ran > 0);
}

TEST(waiter_race, each_armed_waiter_is_cancelled_or_runs_once_at_home)
{
    struct race_source source = {.notified = 0};
    static struct race_home homes[RACE_LOOPS];
    pthread_t threads[RACE_LOOPS], notifier;

    pthread_mutex_init(&source.lock, NULL);
    list_init(&source.waiting);
    atomic_init(&source.homes, RACE_LOOPS);
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        homes[i] = (struct race_home){.source = &source, .seed = i + 1};
        race_loop_init(&homes[i].loop);
    }
    for (unsigned i = 0; i < RACE_LOOPS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_home_loop, &homes[i]));
    CHECK_EQ(0, pthread_create(&notifier, NULL, race_notify, &source));
    for (unsigned i = 0; i < RACE_LOOPS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(notifier, NULL);
    race_judge(homes, &source);
    CHECK(list_empty(&source.waiting));
    for (unsigned i = 0; i < RACE_LOOPS; i++)
        race_loop_fini(&homes[i].loop);
    pthread_mutex_destroy(&source.lock);
}

TEST_MAIN(TEST_ENTRY(inbox_race, no_post_is_lost_or_overtaken_and_wakeups_are_coalesced),
    TEST_ENTRY(waiter_race, each_armed_waiter_is_cancelled_or_runs_once_at_home))
