/* storage_window_race_test.c -- one writer and many readers of a shared window, each on a thread.
 *
 * Readers are of all kinds: fast ones, slow ones, one that keeps what it leased until the writer
 * is through, one that leaves and comes back.  Who is stale starts anew where the window does.
 * Every byte is compared.  A lost wake-up is a thread that sleeps for ever, and alarm() ends the
 * test.
 *
 * Large, by hand:  TARN_WINDOW_MIB=5120 TARN_WINDOW_BOUND_MIB=64 TARN_WINDOW_READERS=100 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "t/unit/storage_fixture.h"
#include "t/unit/storage_sleeper.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

enum {
    READERS_MAX = 128,
    BATCH = 7,
    HANG_SECONDS = 100, /* far beyond what the slowest sanitizer needs */
};

enum reader_kind {
    READER_FAST,
    READER_SLOW,    /* sleeps with its leases */
    READER_HOARDS,  /* returns nothing until the writer is through */
    READER_CHANGES, /* leaves and comes back, at the start or at the front */
    READER_KINDS
};

struct party {
    pthread_t thread;
    struct sleeper loop;
    struct task task;
    struct waiter w;
    struct stobj *o;
    unsigned seed;
    bool done;
    /* writer */
    uint64_t left, held_max;
    bool fails;
    struct storage *s;
    /* reader */
    enum reader_kind kind;
    bool open;
    struct lease_iter it;
    struct test_batch tb;
    uint64_t at, bytes;
    unsigned stale;
    bool late; /* it is expected, and comes when it comes */
    int last;
};

static unsigned
party_random(struct party *p, unsigned below)
{
    return (unsigned)rand_r(&p->seed) % below;
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
        size_t want = 1 + party_random(p, 100000), used;
        uint64_t charged;

        if (space_get(p->o, want < p->left ? want : p->left, &span, &p->w) < 0)
            return;
        used = party_random(p, 8) == 0 ? party_random(p, (unsigned)span.len + 1) : span.len;
        body_write(span.ptr, stobj_len(p->o), used);
        space_extend(p->o, used);
        p->left -= used;
        charged = store_stats(p->s).charged;
        if (charged > p->held_max)
            p->held_max = charged;
    }
    if (waiter_pending(&p->w)) {
        space_cancel(p->o, &p->w);
        if (waiter_pending(&p->w))
            return; /* it lands, and we come back */
    }
    if (p->fails)
        space_fail(p->o, -ECONNRESET);
    else
        space_finish(p->o);
    p->done = true;
}

static void
reader_open(struct party *p, uint64_t off)
{
    p->at = off;
    if (lease_init(&p->it, p->o, off, LEASE_TO_END, &p->w) < 0)
        abort(); /* cmocka's checks jump, and there is nowhere to jump to here */
    p->open = true;
}

/* False: the waiter has to land first. */
static bool
reader_close(struct party *p)
{
    lease_cancel(&p->it);
    if (waiter_pending(&p->w))
        return false;
    lease_fini(&p->it);
    p->open = false;
    return true;
}

/* What a client does between lease and return. */
static void
reader_use(struct party *p)
{
    switch (p->kind) {
    case READER_SLOW:
        usleep(party_random(p, 2000));
        break;
    case READER_HOARDS:
        while (stobj_state(p->o) == STOBJ_FILLING)
            usleep(500);
        break;
    case READER_FAST:
    case READER_CHANGES:
    case READER_KINDS:
        if (party_random(p, 16) == 0)
            sched_yield();
        break;
    }
}

static void
reader_got(struct party *p)
{
    uint64_t from = p->at;

    reader_use(p);
    for (unsigned i = 0; i < p->tb.b.n; i++) { /* after the pause: they must not have changed */
        if (!body_is(p->tb.e[i].ptr, from, p->tb.e[i].len))
            abort();
        from += p->tb.e[i].len;
    }
    p->bytes += from - p->at;
    p->at = from;
    give_all(&p->it, &p->tb);
}

static void
reader_on_run(struct task *t)
{
    struct party *p = container_of(t, struct party, task);

    for (;;) {
        if (!p->open && p->late)
            usleep(party_random(p, 20000));
        if (!p->open)
            reader_open(p, p->late ? 0 : stobj_window_start(p->o));
        if (p->last > 0 || p->last == -EAGAIN || p->last == -ENOBUFS)
            p->last = take(&p->it, &p->tb, 1 + party_random(p, BATCH));
        if (p->last == -EAGAIN || p->last == -ENOBUFS)
            return;
        if (p->last > 0) {
            reader_got(p);
            if (p->kind != READER_CHANGES || party_random(p, 20) > 0)
                continue;
        }
        if (!reader_close(p))
            return;
        if (p->last == 0 || p->last == -EPIPE)
            break;
        if (p->last != -ESTALE && p->last < 0)
            abort();
        p->stale += p->last == -ESTALE;
        p->last = 1;
        if (p->kind == READER_CHANGES && party_random(p, 2) == 0)
            reader_open(p, stobj_len(p->o));
    }
    p->done = true;
}

/* One body of `len` bytes through `bound`; how much the store was charged at most. */
static uint64_t
round_run(uint64_t len, uint64_t bound, unsigned nreaders, unsigned seed)
{
    static struct party writer, readers[READERS_MAX];
    struct storage *s = store_open("malloc", 4 * bound + 16 * MIB, NULL);
    struct stobj *o = body_new(s, STOBJ_SHARED, seed % 2 ? len : STOBJ_SIZE_UNKNOWN, bound);
    uint64_t base = store_stats(s).charged;
    bool fails = seed % 4 == 0;
    unsigned stale = 0;

    party_init(&writer, o, seed, writer_on_run);
    writer.left = len;
    writer.s = s;
    writer.fails = fails;
    for (unsigned i = 0; i < nreaders; i++) {
        party_init(&readers[i], o, seed * 7 + i, reader_on_run);
        readers[i].kind = (enum reader_kind)(i % READER_KINDS);
        readers[i].last = 1;
        reader_open(&readers[i], i * 1000);
        CHECK_EQ(0, pthread_create(&readers[i].thread, NULL, party_main, &readers[i]));
    }
    CHECK_EQ(0, pthread_create(&writer.thread, NULL, party_main, &writer));
    pthread_join(writer.thread, NULL);
    for (unsigned i = 0; i < nreaders; i++) {
        pthread_join(readers[i].thread, NULL);
        CHECK(fails || readers[i].last == 0);
        CHECK_EQ(len, readers[i].at);
        stale += readers[i].stale;
        if (getenv("TARN_WINDOW_MIB") != NULL)
            print_message("reader %u kind %u: %llu MiB, %u times stale\n", i, readers[i].kind,
                (unsigned long long)(readers[i].bytes / MIB), readers[i].stale);
    }
    CHECK(writer.held_max - base <= bound);
    CHECK(nreaders < READER_KINDS || len < 8 * bound || stale > 0);
    stobj_unref(&o);
    store_close(s);
    return writer.held_max;
}

TEST(race, a_reader_alone_gets_every_byte_of_a_window)
{
    alarm(HANG_SECONDS);
    for (unsigned seed = 1; seed <= 6; seed++)
        round_run(MIB + seed * 1009, 64 * KIB, 1, seed * 2 + 1);
    alarm(0);
}

TEST(race, readers_of_all_kinds_follow_one_writer)
{
    alarm(HANG_SECONDS);
    for (unsigned seed = 1; seed <= 8; seed++)
        round_run(2 * MIB + seed * 1009, (64 + 32 * (seed % 4)) * KIB, 8, seed);
    alarm(0);
}

/* Two never come; of the others none is ever stale, however slow it is. */
static void
round_run_expected(uint64_t len, uint64_t bound, unsigned nreaders, unsigned seed)
{
    static struct party writer, readers[READERS_MAX];
    struct storage *s = store_open("malloc", 4 * bound + 16 * MIB, NULL);
    struct stobj *o;

    CHECK_EQ(0, stobj_new_shared(&o, s, STOBJ_SIZE_UNKNOWN, bound, bound / 4, 1000));
    stobj_expect(o, (int32_t)nreaders + 2);
    party_init(&writer, o, seed, writer_on_run);
    writer.left = len;
    writer.s = s;
    for (unsigned i = 0; i < nreaders; i++) {
        party_init(&readers[i], o, seed * 7 + i, reader_on_run);
        readers[i].kind = i % 2 ? READER_SLOW : READER_FAST;
        readers[i].last = 1;
        readers[i].late = true;
        CHECK_EQ(0, pthread_create(&readers[i].thread, NULL, party_main, &readers[i]));
    }
    CHECK_EQ(0, pthread_create(&writer.thread, NULL, party_main, &writer));
    usleep(1000);
    stobj_shut_window(o);
    stobj_expect(o, -1);
    usleep(1000);
    stobj_expect(o, -1);
    pthread_join(writer.thread, NULL);
    for (unsigned i = 0; i < nreaders; i++) {
        pthread_join(readers[i].thread, NULL);
        CHECK_EQ(0, readers[i].last);
        CHECK_EQ(len, readers[i].bytes);
        CHECK_EQ(0, readers[i].stale);
    }
    stobj_unref(&o);
    store_close(s);
}

TEST(race, an_expected_reader_gets_every_byte_however_late)
{
    alarm(HANG_SECONDS);
    for (unsigned seed = 1; seed <= 8; seed++)
        round_run_expected(
            MIB + seed * 1009, (32 + 32 * (seed % 4)) * KIB, 1 + 3 * (seed % 4), seed);
    alarm(0);
}

static uint64_t
size_of(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

TEST(race, a_large_body_goes_through_a_small_window)
{
    uint64_t len = size_of("TARN_WINDOW_MIB", 8) * MIB;
    uint64_t bound = size_of("TARN_WINDOW_BOUND_MIB", 1) * MIB;
    uint64_t readers = size_of("TARN_WINDOW_READERS", 12);

    CHECK(readers <= READERS_MAX);
    alarm(getenv("TARN_WINDOW_MIB") != NULL ? 3600 : HANG_SECONDS);
    print_message("charged at most %llu KiB\n",
        (unsigned long long)(round_run(len, bound, (unsigned)readers, 1) / KIB));
    alarm(0);
}

TEST_MAIN(TEST_ENTRY(race, a_reader_alone_gets_every_byte_of_a_window),
    TEST_ENTRY(race, readers_of_all_kinds_follow_one_writer),
    TEST_ENTRY(race, an_expected_reader_gets_every_byte_however_late),
    TEST_ENTRY(race, a_large_body_goes_through_a_small_window))
