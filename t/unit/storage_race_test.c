/* storage_race_test.c -- one writer and its readers on threads of their own.
 *
 * Every thread runs a loop like a worker's: an inbox, a queue, and nothing to do but what a
 * notification brings.  So a lost wake-up is a thread that sleeps for ever, and alarm() ends
 * the test.  Lengths, spans, batches and pauses are random, bytes are compared.  Meant for
 * TSan and ASan; passes in a second without. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "t/unit/storage_fixture.h"
#include "t/unit/storage_sleeper.h"

#define KIB UINT64_C(1024)

enum {
    READERS_MAX = 3,
    ROUNDS = 60,
    HANG_SECONDS = 100, /* far beyond what the slowest sanitizer needs */
    FAILS = -ECONNRESET,
};

/* ---- The parties ---- */

struct party {
    pthread_t thread;
    struct sleeper loop;
    struct task task;
    struct waiter w;
    struct stobj *o;
    unsigned seed;
    bool done;
    /* writer */
    uint64_t left;
    bool fails;
    /* reader */
    struct lease_iter it;
    uint64_t off, at, end;
    int last; /* the final answer of lease_take */
    struct test_batch tb;
    uint64_t kept[8]; /* leases not returned yet */
    unsigned nkept;
};

static unsigned
party_random(struct party *p, unsigned below)
{
    return (unsigned)rand_r(&p->seed) % below;
}

/* Lets the others overtake now and then. */
static void
party_dawdle(struct party *p)
{
    switch (party_random(p, 8)) {
    case 0:
        sched_yield();
        break;
    case 1:
        usleep(party_random(p, 50));
        break;
    default:
        break;
    }
}

static void
party_init(struct party *p, struct stobj *o, unsigned seed, void (*run)(struct task *t))
{
    *p = (struct party){.o = o, .seed = seed};
    sleeper_init(&p->loop);
    task_init(&p->task, &p->loop.queue, run);
    waiter_init(&p->w, &p->task, &p->loop.inbox);
}

static void *
party_main(void *arg)
{
    struct party *p = arg;

    task_wake(&p->task);
    sleeper_run(&p->loop, &p->done);
    return NULL;
}

static void
writer_on_run(struct task *t)
{
    struct party *p = container_of(t, struct party, task);
    struct span span;

    while (p->left > 0) {
        size_t want = 1 + party_random(p, 30000), used;
        int err = space_get(p->o, want < p->left ? want : p->left, &span, &p->w);

        if (err < 0) {
            CHECK_EQ(-EAGAIN, err);
            return;
        }
        used = party_random(p, 4) == 0 ? party_random(p, (unsigned)span.len + 1) : span.len;
        body_write(span.ptr, stobj_len(p->o), used);
        space_extend(p->o, used);
        p->left -= used;
        party_dawdle(p);
    }
    if (waiter_pending(&p->w)) {
        space_cancel(p->o, &p->w);
        if (waiter_pending(&p->w))
            return; /* it lands, and we come back */
    }
    if (p->fails && party_random(p, 2) == 0)
        space_fail(p->o, FAILS);
    else if (!p->fails)
        space_finish(p->o);
    stobj_unref(&p->o); /* unfinished is failed, too */
    p->done = true;
}

static void
reader_give(struct party *p, unsigned n)
{
    unsigned from = p->nkept - n;

    lease_return(&p->it, &(struct lease_returns){.ids = p->kept + from, .n = n});
    p->nkept = from;
}

static void
reader_got(struct party *p)
{
    for (unsigned i = 0; i < p->tb.b.n; i++) {
        if (!body_is(p->tb.e[i].ptr, p->at, p->tb.e[i].len))
            abort(); /* cmocka's checks jump, and there is nowhere to jump to here */
        p->at += p->tb.e[i].len;
        p->kept[p->nkept++] = p->tb.e[i].id;
    }
    if (p->nkept > 0)
        reader_give(p, party_random(p, p->nkept + 1)); /* the newest first: any order is legal */
}

static void
reader_on_run(struct task *t)
{
    struct party *p = container_of(t, struct party, task);
    int n = p->last;

    while (n >= 0 && !p->it.ended) {
        if (p->nkept == ARRAY_LEN(p->kept))
            reader_give(p, p->nkept);
        n = take(&p->it, &p->tb, 1 + party_random(p, (unsigned)ARRAY_LEN(p->kept) - p->nkept));
        if (n == -ENOBUFS)
            reader_give(p, p->nkept);
        if (n == -ENOBUFS || n == -EAGAIN)
            return;
        if (n > 0)
            reader_got(p);
        party_dawdle(p);
    }
    p->last = n;
    reader_give(p, p->nkept);
    lease_cancel(&p->it);
    if (waiter_pending(&p->w))
        return;
    lease_fini(&p->it);
    p->done = true;
}

/* ---- One round ---- */

struct round {
    struct storage *s;
    enum stobj_kind kind;
    unsigned readers, seed;
    bool fails;
};

static void
round_run(const struct round *r)
{
    static struct party writer, readers[READERS_MAX];
    uint64_t len = r->seed % 5 == 0 ? r->seed % 3000 : r->seed * UINT64_C(48271) % (300 * KIB);
    uint64_t hint = r->seed % 3 == 0 ? STOBJ_SIZE_UNKNOWN : r->fails ? len * 2 + 1 : len;
    struct stobj *o = body_new(r->s, r->kind, hint, 32 * KIB);

    party_init(&writer, o, r->seed, writer_on_run);
    writer.left = len;
    writer.fails = r->fails;
    for (unsigned i = 0; i < r->readers; i++) {
        struct party *p = &readers[i];

        party_init(p, o, r->seed * 7 + i, reader_on_run);
        p->at = p->off = i == 0 ? 0 : len / (i + 1); /* one whole, the others in part */
        CHECK_EQ(0, lease_init(&p->it, o, p->off, LEASE_TO_END, &p->w));
        CHECK_EQ(0, pthread_create(&p->thread, NULL, party_main, p));
    }
    CHECK_EQ(0, pthread_create(&writer.thread, NULL, party_main, &writer));
    pthread_join(writer.thread, NULL);
    for (unsigned i = 0; i < r->readers; i++) {
        pthread_join(readers[i].thread, NULL);
        CHECK_EQ(r->fails ? -EPIPE : 0, readers[i].last);
        CHECK_EQ(len, readers[i].at);
    }
    CHECK_EQ(0, store_stats(r->s).charged);
}

static void
rounds_run(enum stobj_kind kind, unsigned readers, bool fails)
{
    struct storage *s = store_open("malloc", 16384 * KIB, NULL);

    alarm(HANG_SECONDS);
    for (unsigned i = 1; i <= ROUNDS; i++)
        round_run(&(struct round){
            .s = s, .kind = kind, .readers = readers, .seed = i * 31 + readers, .fails = fails});
    alarm(0);
    store_close(s);
}

TEST(race, readers_of_a_kept_object_follow_its_writer)
{
    rounds_run(STOBJ_KEPT, 2, false);
    rounds_run(STOBJ_KEPT, 3, false);
}

TEST(race, readers_of_a_kept_object_learn_that_its_writer_failed)
{
    rounds_run(STOBJ_KEPT, 2, true);
}

TEST(race, the_reader_of_a_private_object_follows_its_writer)
{
    rounds_run(STOBJ_PRIVATE, 1, false);
}

TEST(race, the_reader_of_a_private_object_learns_that_its_writer_failed)
{
    rounds_run(STOBJ_PRIVATE, 1, true);
}

/* ---- Late readers: lease_init against space_finish ---- */

struct late {
    pthread_t thread;
    struct stobj *o;
    uint64_t want;
};

static void
late_wait(void *ctx)
{
    (void)ctx;
    sched_yield();
}

static int
late_each(void *ctx, const char *ptr, size_t len)
{
    uint64_t *at = ctx;

    if (!body_is(ptr, *at, len))
        abort();
    *at += len;
    return 0;
}

static void *
late_main(void *arg)
{
    struct late *l = arg;

    for (unsigned i = 0; i < 20; i++) {
        uint64_t at = 0;

        if (lease_each(l->o, 0, LEASE_TO_END, NULL, late_wait, late_each, &at) != 0)
            abort();
        if (at != l->want)
            abort();
    }
    stobj_unref(&l->o);
    return NULL;
}

TEST(race, readers_may_come_while_the_writer_settles)
{
    struct storage *s = store_open("malloc", 16384 * KIB, NULL);

    alarm(HANG_SECONDS);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        struct stobj *o = body_new(s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
        struct late late[2] = {{.o = stobj_ref(o)}, {.o = stobj_ref(o)}};

        for (unsigned i = 0; i < ARRAY_LEN(late); i++) {
            late[i].want = round * 997;
            CHECK_EQ(0, pthread_create(&late[i].thread, NULL, late_main, &late[i]));
        }
        for (unsigned i = 0; i < round; i++)
            CHECK_EQ(0, body_fill(o, 997, NULL));
        space_finish(o); /* trims, perhaps moves, while they begin */
        stobj_unref(&o);
        for (unsigned i = 0; i < ARRAY_LEN(late); i++)
            pthread_join(late[i].thread, NULL);
        CHECK_EQ(0, store_stats(s).charged);
    }
    alarm(0);
    store_close(s);
}

/* ---- Writers that wait for what other threads free ---- */

/* Of what other threads will give back more is promised than anybody needs: who finds no room
 * waits, and only their frees can end that. */
#define RACE_PROMISED (UINT64_C(1) << 30)

/* One block, one free, at about the moment at which the writer finds no room: nobody comes
 * later to make good a notification that was lost. */
struct once {
    struct storage *s;
    _Atomic(void *) block; /* for the other thread to free */
    _Atomic bool stop;
};

enum {
    ONCE_BLOCK = 224 * 1024,
    ONCE_BODY = 96 * 1024,
    ONCE_ROUNDS = 3000
};

static void *
once_main(void *arg)
{
    struct once *c = arg;
    unsigned seed = 1;

    while (!atomic_load(&c->stop)) {
        void *block = atomic_exchange(&c->block, NULL);

        if (block == NULL) {
            sched_yield();
            continue;
        }
        for (volatile unsigned n = (unsigned)rand_r(&seed) % 400; n > 0; n--)
            continue;
        storage_free(c->s, block, ONCE_BLOCK, CHARGE_HEAD);
    }
    return NULL;
}

TEST(race, a_single_free_is_never_missed)
{
    struct once c = {.s = store_open("malloc", 256 * KIB, NULL)};
    struct test_loop loop;
    struct test_waiter tw;
    pthread_t thread;

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    storage_promise(c.s, RACE_PROMISED);
    alarm(HANG_SECONDS);
    CHECK_EQ(0, pthread_create(&thread, NULL, once_main, &c));
    for (unsigned i = 0; i < ONCE_ROUNDS; i++) {
        struct stobj *o = body_new(c.s, STOBJ_KEPT, ONCE_BODY, 0);
        void *block = storage_alloc(c.s, ONCE_BLOCK, CHARGE_HEAD);
        struct span span;

        CHECK(block != NULL);
        atomic_store(&c.block, block);
        while (space_get(o, ONCE_BODY, &span, &tw.w) < 0) {
            for (unsigned runs = tw.runs; runs == tw.runs; loop_run(&loop))
                sched_yield();
        }
        CHECK(!waiter_pending(&tw.w));
        stobj_unref(&o);
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    alarm(0);
    store_close(c.s);
}

struct crowd {
    struct party p;
    struct storage *s;
    unsigned rounds;
};

/* Fills an object and drops it, again and again, in a store too small for all at once. */
static void
crowd_on_run(struct task *t)
{
    struct crowd *c = container_of(t, struct crowd, p.task);
    struct span span;

    while (c->rounds > 0) {
        if (c->p.o == NULL) {
            if (stobj_new(&c->p.o, c->s, STOBJ_KEPT, 150 * KIB, 0) < 0)
                abort();
            c->p.left = 150 * KIB;
        }
        while (c->p.left > 0) {
            if (space_get(c->p.o, c->p.left, &span, &c->p.w) < 0)
                return;
            body_write(span.ptr, stobj_len(c->p.o), 1);
            space_extend(c->p.o, span.len);
            c->p.left -= span.len;
            party_dawdle(&c->p);
        }
        if (waiter_pending(&c->p.w)) {
            space_cancel(c->p.o, &c->p.w);
            if (waiter_pending(&c->p.w))
                return;
        }
        space_finish(c->p.o);
        stobj_unref(&c->p.o);
        c->rounds--;
    }
    c->p.done = true;
}

TEST(race, writers_that_wait_for_space_are_told_of_every_free)
{
    struct storage *s = store_open("malloc", 380 * KIB, NULL); /* two of three fit */
    struct stobj *first[2]; /* so that whoever comes first waits already */
    static struct crowd crowd[3];

    for (unsigned i = 0; i < ARRAY_LEN(first); i++)
        first[i] = body_kept(s, 150 * KIB, 150 * KIB);
    storage_promise(s, RACE_PROMISED);
    alarm(HANG_SECONDS);
    for (unsigned i = 0; i < ARRAY_LEN(crowd); i++) {
        party_init(&crowd[i].p, NULL, i + 1, crowd_on_run);
        crowd[i].s = s;
        crowd[i].rounds = 500;
    }
    for (unsigned i = 0; i < ARRAY_LEN(crowd); i++)
        CHECK_EQ(0, pthread_create(&crowd[i].p.thread, NULL, party_main, &crowd[i].p));
    while (store_stats(s).waits == 0)
        sched_yield();
    for (unsigned i = 0; i < ARRAY_LEN(first); i++)
        stobj_unref(&first[i]);
    for (unsigned i = 0; i < ARRAY_LEN(crowd); i++)
        pthread_join(crowd[i].p.thread, NULL);
    alarm(0);
    store_close(s);
}

TEST_MAIN(TEST_ENTRY(race, readers_of_a_kept_object_follow_its_writer),
    TEST_ENTRY(race, readers_of_a_kept_object_learn_that_its_writer_failed),
    TEST_ENTRY(race, the_reader_of_a_private_object_follows_its_writer),
    TEST_ENTRY(race, the_reader_of_a_private_object_learns_that_its_writer_failed),
    TEST_ENTRY(race, readers_may_come_while_the_writer_settles),
    TEST_ENTRY(race, a_single_free_is_never_missed),
    TEST_ENTRY(race, writers_that_wait_for_space_are_told_of_every_free))
