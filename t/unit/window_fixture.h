/* window_fixture.h -- a shared window, its writer and its readers, all on one hand-run loop. */
#ifndef TARN_WINDOW_FIXTURE_H
#define TARN_WINDOW_FIXTURE_H

#include "t/unit/storage_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

enum {
    READERS_MAX = 100,
};

struct reader {
    struct lease_iter it;
    struct test_waiter tw;
    struct test_batch tb;
    uint64_t at;
};

struct fixture {
    struct storage *s;
    struct stobj *o;
    struct test_loop loop;
    struct test_waiter writer;
    uint64_t bound, base; /* charged with the object alone */
    uint64_t seg;         /* bytes of a whole segment */
    struct reader r[READERS_MAX];
};

/* Around f->o, which is new. */
static inline void
fixture_init(struct fixture *f, uint64_t bound)
{
    struct span span;

    f->bound = bound;
    f->base = store_stats(f->s).charged;
    loop_init(&f->loop);
    test_waiter_init(&f->writer, &f->loop);
    CHECK_EQ(0, space_get(f->o, SIZE_MAX, &span, NULL));
    f->seg = span.len;
    space_extend(f->o, 0);
}

static inline void
fixture_open(struct fixture *f, const char *engine, uint64_t bound)
{
    f->s = store_open(engine, 256 * MIB, NULL);
    f->o = body_new(f->s, STOBJ_SHARED, STOBJ_SIZE_UNKNOWN, bound);
    fixture_init(f, bound);
}

/* No reader is left behind before the writer has lost patience; one alone gets as much as many. */
static inline void
fixture_open_grace(struct fixture *f, uint64_t bound, unsigned patience)
{
    f->s = store_open("malloc", 256 * MIB, NULL);
    CHECK_EQ(0, stobj_new_shared(&f->o, f->s, STOBJ_SIZE_UNKNOWN, bound, bound, patience));
    fixture_init(f, bound);
}

static inline uint64_t
fixture_held(const struct fixture *f)
{
    return store_stats(f->s).charged - f->base;
}

static inline void
fixture_close(struct fixture *f)
{
    loop_run(&f->loop);
    if (waiter_pending(&f->writer.w))
        space_cancel(f->o, &f->writer.w);
    stobj_unref(&f->o);
    loop_run(&f->loop);
    store_close(f->s);
}

static inline struct reader *
reader_open(struct fixture *f, unsigned i, uint64_t off, uint64_t len)
{
    struct reader *r = &f->r[i];

    test_waiter_init(&r->tw, &f->loop);
    r->at = off;
    CHECK_EQ(0, lease_init(&r->it, f->o, off, len, &r->tw.w));
    return r;
}

/* One take, its bytes compared. */
static inline int
reader_take(struct reader *r, unsigned max)
{
    int n = take(&r->it, &r->tb, max);

    for (unsigned i = 0; i < r->tb.b.n; i++) {
        CHECK(body_is(r->tb.e[i].ptr, r->at, r->tb.e[i].len));
        CHECK(stobj_contains(r->it.obj, r->tb.e[i].ptr, r->tb.e[i].len));
        r->at += r->tb.e[i].len;
    }
    return n;
}

/* Takes and returns until there is nothing; the last answer. */
static inline int
reader_drain(struct reader *r)
{
    int n;

    while ((n = reader_take(r, 7)) > 0)
        give_all(&r->it, &r->tb);
    return n;
}

static inline void
reader_close(struct reader *r)
{
    lease_cancel(&r->it);
    lease_fini(&r->it);
}

/* Fills until the writer must wait; how much went in. */
static inline uint64_t
fill_up(struct fixture *f)
{
    uint64_t had = stobj_len(f->o);

    loop_run(&f->loop);
    CHECK_EQ(-EAGAIN, body_fill(f->o, 4 * f->bound, &f->writer.w));
    CHECK(waiter_pending(&f->writer.w));
    CHECK(fixture_held(f) <= f->bound);
    return stobj_len(f->o) - had;
}

#endif
