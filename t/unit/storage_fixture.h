/* storage_fixture.h -- a store, a hand-run loop and a reproducible body, for storage's tests. */
#ifndef TARN_STORAGE_FIXTURE_H
#define TARN_STORAGE_FIXTURE_H

#include <errno.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/base/obj.h"
#include "daemon/base/waiter.h"
#include "storage/lease.h"
#include "storage/storage.h"
#include "t/unit/test.h"

/* A loop whose thread does not run: notifications are posted, and land in loop_run(). */
struct test_loop {
    struct inbox inbox;
    struct task_queue queue;
};

struct test_waiter {
    struct task task;
    struct waiter w;
    unsigned runs;
};

static inline void
test_on_wake(struct inbox *in)
{
    (void)in;
}

static inline void
test_on_run(struct task *t)
{
    container_of(t, struct test_waiter, task)->runs++;
}

static inline void
loop_init(struct test_loop *l)
{
    inbox_init(&l->inbox, test_on_wake);
    task_queue_init(&l->queue);
}

static inline void
loop_run(struct test_loop *l)
{
    inbox_drain(&l->inbox);
    task_queue_run(&l->queue, 1000);
}

static inline void
test_waiter_init(struct test_waiter *tw, struct test_loop *l)
{
    tw->runs = 0;
    task_init(&tw->task, &l->queue, test_on_run);
    waiter_init(&tw->w, &tw->task, &l->inbox);
}

static inline struct storage *
store_open(const char *engine, uint64_t size, const char *fault)
{
    /* Borrowed until the store is closed: a test has at most a few. */
    static struct conf_storage confs[64];
    static unsigned used;
    struct conf_storage *conf = &confs[used++ % ARRAY_LEN(confs)];
    struct storage *s = NULL;

    *conf = (struct conf_storage){.name = "main", .engine = engine, .size = size, .fault = fault};
    CHECK_EQ(0, storage_open(&s, conf));
    return s;
}

static inline struct storage_stats
store_stats(const struct storage *s)
{
    struct storage_stats st;

    storage_get_stats(s, &st);
    return st;
}

/* Closes a store to which everything has been given back. */
static inline void
store_close(struct storage *s)
{
    struct storage_stats st = store_stats(s);

    CHECK_EQ(0, st.objects);
    CHECK_EQ(0, st.charged);
    CHECK_EQ(st.allocs, st.frees);
    storage_close(&s);
    CHECK(s == NULL);
}

/* Byte `off` of every test body: no period that a segment or a batch could hide. */
static inline char
body_byte(uint64_t off)
{
    uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return (char)(x >> 56);
}

static inline void
body_write(char *ptr, uint64_t off, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ptr[i] = body_byte(off + i);
}

static inline bool
body_is(const char *ptr, uint64_t off, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (ptr[i] != body_byte(off + i))
            return false;
    return true;
}

/* Writes up to `len` further bytes; what space_get answered last: 0 when all went in. */
static inline int
body_fill(struct stobj *o, size_t len, struct waiter *w)
{
    while (len > 0) {
        struct span span;
        int err = space_get(o, len, &span, w);

        if (err < 0)
            return err;
        body_write(span.ptr, stobj_len(o), span.len);
        space_extend(o, span.len);
        len -= span.len;
    }
    return 0;
}

static inline struct stobj *
body_kept(struct storage *s, uint64_t hint, size_t len)
{
    struct stobj *o = NULL;

    CHECK_EQ(0, stobj_new(&o, s, STOBJ_KEPT, hint, 0));
    CHECK_EQ(0, body_fill(o, len, NULL));
    space_finish(o);
    return o;
}

static inline struct stobj *
body_new(struct storage *s, enum stobj_kind kind, uint64_t hint, uint64_t transit)
{
    struct stobj *o = NULL;

    CHECK_EQ(0, stobj_new(&o, s, kind, hint, transit));
    return o;
}

enum {
    BATCH_MAX = 64
};

struct test_batch {
    struct lease_extent e[BATCH_MAX];
    struct lease_batch b;
};

/* One lease_take() with room for `max` extents; the answer. */
static inline int
take(struct lease_iter *it, struct test_batch *tb, unsigned max)
{
    tb->b = (struct lease_batch){.extents = tb->e, .max = max};
    return lease_take(it, &tb->b);
}

static inline void
give_one(struct lease_iter *it, uint64_t id)
{
    lease_return(it, &(struct lease_returns){.ids = &id, .n = 1});
}

static inline void
give_all(struct lease_iter *it, const struct test_batch *tb)
{
    for (unsigned i = 0; i < tb->b.n; i++)
        give_one(it, tb->e[i].id | (i & LEASE_ID_CALLER)); /* the low bits are the caller's */
}

/* Reads [off, off + len) of a settled object, `max` extents at a time; what came. */
static inline uint64_t
read_range(struct stobj *o, uint64_t off, uint64_t len, unsigned max)
{
    struct lease_iter it;
    struct test_batch tb;
    uint64_t at = off;
    int n;

    CHECK_EQ(0, lease_init(&it, o, off, len, NULL));
    while ((n = take(&it, &tb, max)) > 0) {
        CHECK_EQ(n, tb.b.n);
        for (unsigned i = 0; i < tb.b.n; i++) {
            CHECK(body_is(tb.e[i].ptr, at, tb.e[i].len));
            CHECK(stobj_contains(o, tb.e[i].ptr, tb.e[i].len));
            at += tb.e[i].len;
        }
        give_all(&it, &tb);
    }
    CHECK_EQ(0, n);
    lease_fini(&it);
    return at - off;
}

#endif
