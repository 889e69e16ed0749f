/* lease_each_test.c -- lease_each, and engines that are slow or fail. */
#include "storage/lease.h"

#include "storage/engine_fault.h"
#include "t/unit/storage_fixture.h"

#define MIB (UINT64_C(1) << 20)

struct fixture {
    struct storage *s;
    struct test_loop loop;
    struct test_waiter r; /* the reader's */
};

static void
fixture_open(struct fixture *f, const char *engine, const char *fault)
{
    f->s = store_open(engine, 64 * MIB, fault);
    loop_init(&f->loop);
    test_waiter_init(&f->r, &f->loop);
}

/* ---- Faults and lease_each ---- */

struct collect {
    struct fixture *f;
    struct stobj *o;
    uint64_t at;
    unsigned waits, left; /* batches still to be written */
    int refuse;           /* what `each` answers from the second extent on */
};

static void
collect_wait(void *ctx)
{
    struct collect *c = ctx;

    c->waits++;
    if (c->left > 0) {
        CHECK_EQ(0, body_fill(c->o, 30000, NULL));
        if (--c->left == 0)
            space_finish(c->o);
    }
    loop_run(&c->f->loop);
}

static int
collect_each(void *ctx, const char *ptr, size_t len)
{
    struct collect *c = ctx;

    CHECK(body_is(ptr, c->at, len));
    if (c->refuse != 0 && c->at > 0)
        return c->refuse;
    c->at += len;
    return 0;
}

TEST(lease_each, reads_an_object_to_its_end_while_it_is_written)
{
    struct fixture f;
    struct collect c = {.f = &f, .left = 10};

    for (unsigned kind = STOBJ_KEPT; kind <= STOBJ_SHARED; kind++) {
        fixture_open(&f, "malloc", NULL);
        c = (struct collect){.f = &f, .left = 10};
        c.o = body_new(f.s, (enum stobj_kind)kind, STOBJ_SIZE_UNKNOWN, MIB);
        CHECK_EQ(0, lease_each(c.o, 0, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
        CHECK_EQ(300000, c.at);
        CHECK_EQ(10, c.waits);
        stobj_unref(&c.o);
        store_close(f.s);
    }
}

TEST(lease_each, stops_when_refused_and_gives_everything_back)
{
    struct fixture f;
    struct collect c = {.f = &f, .refuse = 42};

    fixture_open(&f, "malloc", NULL);
    c.o = body_kept(f.s, STOBJ_SIZE_UNKNOWN, 300000);
    CHECK_EQ(42, lease_each(c.o, 0, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
    CHECK_EQ(
        -EINVAL, lease_each(c.o, 300001, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
    stobj_unref(&c.o);
    store_close(f.s);
}

TEST(fault, a_slow_store_is_only_slow)
{
    struct fixture f;
    struct collect c = {.f = &f};

    fixture_open(&f, "fault", "slow=2"); /* two batches and the end: */
    c.o = body_kept(f.s, STOBJ_SIZE_UNKNOWN, 20 * MIB);
    CHECK_EQ(0, lease_each(c.o, 0, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
    CHECK_EQ(20 * MIB, c.at);
    CHECK(c.waits >= 2);
    stobj_unref(&c.o);
    c = (struct collect){.f = &f, .left = 5};
    c.o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(0, lease_each(c.o, 0, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
    CHECK_EQ(150000, c.at);
    stobj_unref(&c.o);
    store_close(f.s);
}

TEST(fault, the_engines_own_failure_reaches_the_reader)
{
    struct fixture f;
    struct collect c = {.f = &f, .left = 5};

    fixture_open(&f, "fault", "eio=4");
    c.o = body_new(f.s, STOBJ_KEPT, STOBJ_SIZE_UNKNOWN, 0);
    CHECK_EQ(-EIO, lease_each(c.o, 0, LEASE_TO_END, &f.r.w, collect_wait, collect_each, &c));
    CHECK_EQ(30000, c.at);
    stobj_unref(&c.o);
    loop_run(&f.loop);
    store_close(f.s);
}

TEST_MAIN(TEST_ENTRY(lease_each, reads_an_object_to_its_end_while_it_is_written),
    TEST_ENTRY(lease_each, stops_when_refused_and_gives_everything_back),
    TEST_ENTRY(fault, a_slow_store_is_only_slow),
    TEST_ENTRY(fault, the_engines_own_failure_reaches_the_reader))
