/* storage_window_model_test.c -- a shared window compared with a model of a few lines, which looks at
 * all readers and all leases each time, over random steps. */
#include <stdlib.h>

#include "t/unit/window_fixture.h"

enum {
    SEGS_MAX = 2000,
    MODEL_READERS = 12,
    MODEL_LEASES = 16,
    MODEL_STEPS = 4000,
    MODEL_ROUNDS = 24,
};

struct model_lease {
    uint64_t id, off;
    const char *ptr;
    uint32_t len;
};

struct model_reader {
    bool open, seated, asked; /* asked: at the very front, and was refused */
    uint64_t off, end;
    int last; /* what the last take answered */
    unsigned n;
    struct model_lease leases[MODEL_LEASES];
};

struct model {
    struct fixture f;
    uint64_t cost, start, len;
    unsigned nsegs, claims_max; /* segments made so far, the last one perhaps not full */
    unsigned expected;
    bool grace, expired, refused, moved; /* refused: since the last segment was made */
    unsigned patience, looks;
    struct model_reader r[MODEL_READERS];
};

static unsigned
model_leases_of(const struct model *m, uint64_t seg)
{
    unsigned n = 0;

    for (unsigned i = 0; i < MODEL_READERS; i++)
        for (unsigned j = 0; m->r[i].open && j < m->r[i].n; j++)
            n += m->r[i].leases[j].off / m->f.seg == seg;
    return n;
}

static unsigned
model_held(const struct model *m)
{
    unsigned held = m->nsegs - (unsigned)(m->start / m->f.seg);

    for (uint64_t seg = 0; seg < m->start / m->f.seg; seg++)
        held += model_leases_of(m, seg) > 0;
    return held;
}

static unsigned
model_claims(const struct model *m)
{
    unsigned claims = m->expected;

    for (unsigned i = 0; i < MODEL_READERS; i++)
        if (m->r[i].open && m->r[i].seated)
            claims += m->r[i].n > 0 ? m->r[i].n : 1;
    return claims;
}

static bool
model_live(const struct model *m, const struct model_reader *r)
{
    return r->open && r->seated && r->off >= m->start && r->off < r->end;
}

/* May everything before `off` go? */
static bool
model_may_go(const struct model *m, uint64_t off)
{
    unsigned live = 0, needs = m->expected, hungry = 0;

    for (unsigned i = 0; i < MODEL_READERS; i++) {
        const struct model_reader *r = &m->r[i];

        live += model_live(m, r);
        needs += model_live(m, r) && r->off < off;
        hungry += model_live(m, r) && (r->asked || (m->expired && r->off >= m->nsegs * m->f.seg));
    }
    return live > 0 && (needs == 0 || (hungry > 0 && (!m->grace || m->expired)));
}

/* Does it stand in the first segment that a reader stands in, since the writer was refused? */
static bool
model_in_the_way(const struct model *m, const struct model_reader *r)
{
    if (!m->refused || !model_live(m, r) || r->off >= m->nsegs * m->f.seg)
        return false;
    if (m->expected > 0)
        return r->off < m->f.seg;
    for (unsigned i = 0; i < MODEL_READERS; i++)
        if (model_live(m, &m->r[i]) && m->r[i].off / m->f.seg < r->off / m->f.seg)
            return false;
    return true;
}

/* As the writer would: where the window starts then, or false. */
static bool
model_make_room(struct model *m)
{
    uint64_t had = m->start;

    while (model_held(m) > 0 && (model_held(m) + 1) * m->cost > m->f.bound) {
        uint64_t seg = m->start / m->f.seg;

        while (seg < m->nsegs && model_leases_of(m, seg) > 0)
            seg++;
        if (seg == m->nsegs || !model_may_go(m, (seg + 1) * m->f.seg)) {
            CHECK_EQ(had, m->start); /* all of the room there is to make is one segment's */
            return false;
        }
        m->start = (seg + 1) * m->f.seg;
        m->expected = 0;
    }
    return true;
}

static void
model_write(struct model *m)
{
    bool grows = m->len == m->nsegs * m->f.seg, room = !grows || model_make_room(m);
    struct span span;
    size_t used;
    int err = space_get(m->f.o, 1 + (size_t)rand() % (2 * m->f.seg), &span, &m->f.writer.w);

    CHECK_EQ(room ? 0 : -EAGAIN, err);
    m->refused = m->refused || !room;
    if (!room)
        return;
    m->nsegs += grows;
    if (grows) {
        m->refused = m->expired = m->moved = false;
        m->looks = 0;
    }
    for (unsigned i = 0; grows && i < MODEL_READERS; i++)
        m->r[i].asked = m->r[i].asked && m->r[i].off >= m->nsegs * m->f.seg;
    used = rand() % 3 == 0 ? (size_t)rand() % (span.len + 1) : span.len;
    body_write(span.ptr, m->len, used);
    space_extend(m->f.o, used);
    m->len += used;
}

static void
model_open(struct model *m, unsigned i)
{
    const uint64_t offs[] = {0, m->start, m->len, (m->start + m->len) / 2, m->len + 3 * m->f.seg};
    struct model_reader *r = &m->r[i];

    *r = (struct model_reader){.last = 1, .off = offs[rand() % 5], .end = LEASE_TO_END};
    if (rand() % 4 == 0)
        r->end = r->off + (uint64_t)rand() % (20 * m->f.seg);
    r->seated = r->off >= m->start && r->off < r->end &&
                ((r->off == 0 && m->expected > 0) || model_claims(m) < m->claims_max);
    m->expected -= r->off == 0 && m->expected > 0;
    r->open = true;
    m->moved = m->moved || model_in_the_way(m, r);
    reader_open(&m->f, i, r->off, r->end == LEASE_TO_END ? LEASE_TO_END : r->end - r->off);
}

/* What the next take should answer, extents apart. */
static int
model_nothing(const struct model *m, const struct model_reader *r)
{
    if (r->off >= r->end)
        return 0;
    if (!r->seated || r->off < m->start)
        return -ESTALE;
    return r->off < m->len ? -ENOBUFS : -EAGAIN;
}

static void
model_take(struct model *m, unsigned i)
{
    struct model_reader *r = &m->r[i];
    struct reader *real = &m->f.r[i];
    unsigned n = 0, max = 1 + (unsigned)rand() % (MODEL_LEASES - r->n);
    int got, last = model_nothing(m, r);
    bool in_the_way = model_in_the_way(m, r);

    if (real->it.ended)
        return;
    got = reader_take(real, max);
    while (n < max && (last == -ENOBUFS) && (r->n == 0 || model_claims(m) < m->claims_max / 2)) {
        uint64_t stop = (r->off / m->f.seg + 1) * m->f.seg;
        const struct lease_extent *e = &real->tb.e[n];

        stop = stop < m->len ? stop : m->len;
        stop = stop < r->end ? stop : r->end;
        CHECK(n < real->tb.b.n);
        CHECK_EQ(stop - r->off, e->len);
        r->leases[r->n++] = (struct model_lease){e->id, r->off, e->ptr, e->len};
        r->off = stop;
        n++;
        last = model_nothing(m, r);
    }
    m->moved = m->moved || (n > 0 && in_the_way);
    if (m->grace && r->n > 0 && last == -EAGAIN && got == -ENOBUFS)
        got = -EAGAIN; /* the writer waits, and a return may be what it waits for */
    r->last = n > 0 ? (int)n : last;
    CHECK_EQ(r->last, got);
    r->asked = got == -EAGAIN && r->off == m->len && m->len == m->nsegs * m->f.seg;
}

static void
model_give(struct model *m, unsigned i, unsigned n)
{
    struct model_reader *r = &m->r[i];

    for (; n > 0 && r->n > 0; n--) {
        unsigned which = (unsigned)rand() % r->n;
        struct model_lease lease = r->leases[which];

        CHECK(body_is(lease.ptr, lease.off, lease.len)); /* whatever has happened meanwhile */
        r->leases[which] = r->leases[--r->n];
        m->moved = m->moved || model_in_the_way(m, r);
        give_one(&m->f.r[i].it, lease.id);
    }
}

static void
model_close(struct model *m, unsigned i)
{
    model_give(m, i, MODEL_LEASES);
    reader_close(&m->f.r[i]);
    loop_run(&m->f.loop);
    m->r[i].open = false;
}

/* The writer looks again when its patience may have ended. */
static void
model_expire(struct model *m)
{
    m->looks = m->moved ? 0 : m->looks + 1;
    m->moved = false;
    m->expired = m->expired || m->looks >= m->patience;
    CHECK_EQ(m->looks >= m->patience, stobj_expire_window(m->f.o));
    if (waiter_state(&m->f.writer.w) == WAITER_ARMED)
        space_cancel(m->f.o, &m->f.writer.w);
}

static void
model_expect(struct model *m, unsigned n)
{
    stobj_expect(m->f.o, (int32_t)n);
    m->expected = n;
    if (n < m->claims_max)
        return; /* there is a place for each, and one more */
    m->claims_max = n + 1;
    if (m->f.bound < (n + 2) * m->cost)
        m->f.bound = (n + 2) * m->cost;
}

/* One more, where it may still choose; or one of them does not come after all. */
static void
model_change_mind(struct model *m, bool comes)
{
    if (comes) {
        bool in = m->start == 0 && m->looks == 0 && model_claims(m) < m->claims_max;

        CHECK_EQ(in, stobj_let_in(m->f.o));
        m->expected += in;
    } else if (m->expected > 0) {
        m->expected--;
        stobj_expect(m->f.o, -1);
    }
}

/* Both are in the same place, and who is still armed has nothing to come for. */
static void
model_compare(struct model *m)
{
    uint64_t start = m->start;
    unsigned expected = m->expected;

    CHECK_EQ(m->start, stobj_window_start(m->f.o));
    CHECK_EQ(m->len, stobj_len(m->f.o));
    CHECK_EQ(model_held(m) * m->cost, fixture_held(&m->f));
    CHECK(fixture_held(&m->f) <= m->f.bound);
    if (waiter_state(&m->f.writer.w) == WAITER_ARMED)
        CHECK(!model_make_room(m));
    m->start = start;
    m->expected = expected;
    for (unsigned i = 0; i < MODEL_READERS; i++)
        if (m->r[i].open && m->r[i].last < 0 && waiter_state(&m->f.r[i].tw.w) == WAITER_ARMED)
            CHECK_EQ(m->r[i].last, model_nothing(m, &m->r[i]));
}

static void
model_step(struct model *m, unsigned eager)
{
    /* Some are fast, some return at once, some late, and all change now and then. */
    unsigned i = (unsigned)rand() % MODEL_READERS, what = (unsigned)rand() % 100;
    struct model_reader *r = &m->r[i];

    if (what < 25 && m->nsegs < SEGS_MAX)
        model_write(m);
    else if (m->grace && m->refused && rand() % 8 == 0)
        model_expire(m);
    else if (m->grace && rand() % 30 == 0)
        model_change_mind(m, rand() % 2 == 0);
    else if (!r->open && what < 35)
        model_open(m, i);
    else if (r->open && what < (r->last == -ESTALE || r->last == 0 ? 60 : 27))
        model_close(m, i);
    else if (r->open && what < 40 + 8 * (i % eager) && r->n < MODEL_LEASES) {
        model_take(m, i);
        model_give(m, i, i % 3 == 1 ? MODEL_LEASES : 0);
    } else if (r->open && (i % 4 > 0 || what == 99))
        model_give(m, i, 1 + (unsigned)rand() % MODEL_LEASES);
    if (rand() % 3 == 0)
        loop_run(&m->f.loop);
    model_compare(m);
}

TEST(window, random_steps_go_as_the_model_says)
{
    static struct model m;

    for (unsigned round = 0; round < MODEL_ROUNDS; round++) {
        memset(&m, 0, sizeof m);
        srand(round);
        m.grace = round % 3 > 0;
        m.patience = round % 4;
        if (m.grace)
            fixture_open_grace(&m.f, (16 + 16 * (round % 8)) * KIB, m.patience);
        else
            fixture_open(&m.f, "malloc", (16 + 16 * (round % 8)) * KIB);
        m.nsegs = 1;
        m.cost = fixture_held(&m.f);
        m.claims_max = (unsigned)(m.f.bound / m.cost) - 1;
        if (round % 3 == 2)
            model_expect(&m, 1 + 3 * (round % 8));
        for (unsigned i = 0; i < MODEL_STEPS; i++)
            model_step(&m, 5 + round % 7);
        CHECK(m.nsegs > 50);
        for (unsigned i = 0; i < MODEL_READERS; i++)
            if (m.r[i].open)
                model_close(&m, i);
        fixture_close(&m.f);
    }
}

TEST_MAIN(TEST_ENTRY(window, random_steps_go_as_the_model_says))
