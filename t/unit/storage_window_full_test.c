/* storage_window_full_test.c -- a shared window in a store that has no room left: slow readers hold up no others. */
#include "t/unit/window_fixture.h"

/* A store that others have filled for good, and a window in it. */
struct crowd {
    struct fixture f;
    void *all[MIB / (12 * KIB)];
};

static void
crowd_open(struct crowd *c)
{
    struct fixture *f = &c->f;

    f->s = store_open("malloc", MIB, NULL);
    for (size_t i = 0; i < ARRAY_LEN(c->all); i++)
        CHECK((c->all[i] = storage_alloc(f->s, 12 * KIB, CHARGE_HEAD)) != NULL);
    CHECK_EQ(0, stobj_new_shared(&f->o, f->s, STOBJ_SIZE_UNKNOWN, 4 * MIB, 64 * KIB, 0));
    fixture_init(f, 4 * MIB);
}

static void
crowd_close(struct crowd *c)
{
    for (size_t i = 0; i < ARRAY_LEN(c->all); i++)
        storage_free(c->f.s, c->all[i], 12 * KIB, CHARGE_HEAD);
    fixture_close(&c->f);
}

/* As a fetch does it, while `fast` keeps up: when it is refused it waits to be woken, and looks after a
 * second.  How many looks it took; after `most` it has waited long enough. */
static unsigned
crowd_flow(struct crowd *c, uint64_t bytes, struct reader *fast, unsigned most)
{
    struct fixture *f = &c->f;
    uint64_t to = stobj_len(f->o) + bytes;
    unsigned looks = 0;

    while (stobj_len(f->o) < to) {
        uint64_t left = to - stobj_len(f->o);

        body_fill(f->o, left < KIB ? left : KIB, &f->writer.w);
        CHECK_EQ(-EAGAIN, reader_drain(fast));
        loop_run(&f->loop);
        if (!waiter_pending(&f->writer.w))
            continue;
        CHECK(looks++ < most);
        stobj_expire_window(f->o);
        space_cancel(f->o, &f->writer.w);
    }
    return looks;
}

TEST(full, no_reader_waits_for_a_slow_ones_lease)
{
    static struct crowd c;
    struct reader *slow, *far, *near;

    crowd_open(&c);
    slow = reader_open(&c.f, 0, 0, LEASE_TO_END);
    far = reader_open(&c.f, 1, 2 * MIB + 1, LEASE_TO_END);
    CHECK_EQ(0, body_fill(c.f.o, 100, &c.f.writer.w));
    CHECK_EQ(1, reader_take(slow, 7));                  /* and its client takes nothing any more */
    CHECK_EQ(1, crowd_flow(&c, 2 * MIB + 100, far, 1)); /* then it is behind */
    CHECK_EQ(stobj_len(c.f.o), far->at);
    reader_close(far);
    near = reader_open(&c.f, 1, stobj_len(c.f.o), LEASE_TO_END);
    CHECK_EQ(0, crowd_flow(&c, MIB, near, 0));
    reader_close(near);
    give_all(&slow->it, &slow->tb);
    CHECK_EQ(-ESTALE, reader_take(slow, 7));
    reader_close(slow);
    crowd_close(&c);
}

/* It is woken when all there is has been leased, and somebody waits for more. */
TEST(full, a_lease_of_all_there_is_wakes_the_writer)
{
    static struct crowd c;
    struct reader *slow, *fast;

    crowd_open(&c);
    slow = reader_open(&c.f, 0, 0, LEASE_TO_END);
    fast = reader_open(&c.f, 1, 0, LEASE_TO_END);
    CHECK_EQ(-EAGAIN, body_fill(c.f.o, MIB, &c.f.writer.w)); /* both have bytes to read */
    loop_run(&c.f.loop);
    CHECK_EQ(0, c.f.writer.runs);
    CHECK_EQ(1, reader_take(fast, 7));
    loop_run(&c.f.loop);
    CHECK_EQ(1, c.f.writer.runs);
    CHECK_EQ(0, body_fill(c.f.o, 100, &c.f.writer.w));
    CHECK_EQ(1, reader_take(slow, 1));
    give_all(&slow->it, &slow->tb);
    give_all(&fast->it, &fast->tb);
    reader_close(slow);
    reader_close(fast);
    crowd_close(&c);
}

/* Of what is beyond the size each of the slow ones has a segment, and no other. */
TEST(full, a_slow_reader_holds_one_segment)
{
    enum {
        SLOW = 10
    };
    static struct crowd c;
    struct reader *slow[SLOW], *fast;
    uint64_t id;

    crowd_open(&c);
    fast = reader_open(&c.f, SLOW, 0, LEASE_TO_END);
    for (unsigned i = 0; i < SLOW; i++) {
        crowd_flow(&c, c.f.seg - stobj_len(c.f.o) % c.f.seg, fast, 2);
        slow[i] = reader_open(&c.f, i, stobj_len(c.f.o), LEASE_TO_END);
        crowd_flow(&c, 100, fast, 0);
        CHECK_EQ(1, reader_take(slow[i], 7));
        id = slow[i]->tb.e[0].id;
        crowd_flow(&c, 100, fast, 0);
        CHECK_EQ(-ENOBUFS, reader_take(slow[i], 7)); /* there is more, once it has returned that */
        slow[i]->tb.e[0].id = id;
        slow[i]->tb.b.n = 1;
    }
    crowd_flow(&c, MIB, fast, 2);
    CHECK(store_stats(c.f.s).charged > MIB + (SLOW - 1) * 12 * KIB);
    CHECK(store_stats(c.f.s).charged <= MIB + 17 * KIB + SLOW * 12 * KIB);
    give_all(&slow[0]->it, &slow[0]->tb);
    CHECK_EQ(-ESTALE, reader_take(slow[0], 7));
    reader_close(slow[0]);
    for (unsigned i = 1; i < SLOW; i++) {
        give_all(&slow[i]->it, &slow[i]->tb);
        reader_close(slow[i]);
    }
    reader_close(fast);
    crowd_close(&c);
}

TEST_MAIN(TEST_ENTRY(full, no_reader_waits_for_a_slow_ones_lease),
    TEST_ENTRY(full, a_lease_of_all_there_is_wakes_the_writer),
    TEST_ENTRY(full, a_slow_reader_holds_one_segment))
