/* table_model_test.c -- the protocol of table_state.h, every interleaving of it.
 *
 * Readers and the writer are small machines of one atomic step each, numbered as in table_state.h.
 * All orders of their steps are tried, states that were seen before left out, and in each the claim
 * is looked at: nobody writes what somebody reads.  A model with a step left out must be caught:
 * else this test would prove nothing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "t/unit/test.h"

enum {
    READERS = 3,
    ROUNDS = 6,     /* of the writer: it comes by each copy three times */
    READS = 2,      /* of each reader */
    SEEN_BITS = 23, /* of the set of states */
};

enum reader_at {
    R1,
    R2,
    R3,
    R4_ADD,
    R4_LOAD,
    R4_BACK,
    READING,
    R5
};
enum writer_at {
    W1,
    W2,
    W3,
    W4
};
enum flaw {
    NO_FLAW,
    FLAW_NO_RELOAD,    /* R3 and R4 left out: the simpler protocol */
    FLAW_NO_WAIT,      /* W2 left out */
    FLAW_ONE_SIDE,     /* R4 without its addition: the other copy, uncounted */
    FLAW_LOAD_THEN_ADD /* R4 as R1 and R2 again, without another look */
};

/* One byte each, and no gaps: it is compared as bytes. */
struct model {
    uint8_t index, counts[2];
    uint8_t writer, other, rounds;
    struct {
        uint8_t at, index, now, reads;
    } readers[READERS];
};

struct explorer {
    enum flaw flaw;
    bool caught;
    unsigned long states;
    struct model *seen;
    uint8_t *used;
};

static bool
explorer_is_new(struct explorer *x, const struct model *m)
{
    uint64_t h = 1469598103934665603u;
    const uint8_t *p = (const uint8_t *)m;

    for (size_t i = 0; i < sizeof(*m); i++)
        h = (h ^ p[i]) * 1099511628211u;
    for (h >>= 64 - SEEN_BITS; x->used[h]; h = (h + 1) & ((1u << SEEN_BITS) - 1))
        if (memcmp(&x->seen[h], m, sizeof(*m)) == 0)
            return false;
    x->used[h] = 1;
    x->seen[h] = *m;
    x->states++;
    assert_true(x->states < 1u << (SEEN_BITS - 1));
    return true;
}

/* One step of a reader; false: it has ended. */
static bool
model_read(struct model *m, unsigned n, enum flaw flaw)
{
    switch ((enum reader_at)m->readers[n].at) {
    case R1:
        if (m->readers[n].reads == READS)
            return false;
        m->readers[n].index = m->index;
        m->readers[n].at = R2;
        return true;
    case R2:
        m->counts[m->readers[n].index]++;
        m->readers[n].at = flaw == FLAW_NO_RELOAD ? READING : R3;
        return true;
    case R3:
        m->readers[n].now = m->index;
        m->readers[n].at = m->index == m->readers[n].index ? READING : R4_ADD;
        return true;
    case R4_ADD:
        if (flaw != FLAW_ONE_SIDE)
            m->counts[m->readers[n].index ^ 1]++;
        if (flaw == FLAW_LOAD_THEN_ADD) {
            m->counts[m->readers[n].index]--;
            m->readers[n].index ^= 1;
        }
        m->readers[n].at = flaw == FLAW_LOAD_THEN_ADD ? READING : R4_LOAD;
        return true;
    case R4_LOAD:
        m->readers[n].now = m->index;
        m->readers[n].at = R4_BACK;
        return true;
    case R4_BACK:
        if (flaw != FLAW_ONE_SIDE)
            m->counts[m->readers[n].now ^ 1]--;
        m->readers[n].index = m->readers[n].now;
        m->readers[n].at = READING;
        return true;
    case READING:
        m->readers[n].at = R5;
        return true;
    case R5:
        if (m->counts[m->readers[n].index] > 0)
            m->counts[m->readers[n].index]--;
        m->readers[n].reads++;
        m->readers[n].at = R1;
        m->readers[n].now = 0;
        return true;
    }
    return false;
}

static bool
model_write(struct model *m, enum flaw flaw)
{
    switch ((enum writer_at)m->writer) {
    case W1:
        if (m->rounds == ROUNDS)
            return false;
        m->other = m->index ^ 1;
        m->writer = W2;
        return true;
    case W2:
        if (flaw != FLAW_NO_WAIT && m->counts[m->other] > 0)
            return false; /* for now */
        m->writer = W3;
        return true;
    case W3: /* it is writing now, and until this step */
        m->writer = W4;
        return true;
    case W4:
        m->index = m->other;
        m->rounds++;
        m->writer = W1;
        return true;
    }
    return false;
}

static void
explorer_check(struct explorer *x, const struct model *m)
{
    for (unsigned n = 0; n < READERS; n++)
        if (m->readers[n].at == READING && m->writer == W3 && m->readers[n].index == m->other)
            x->caught = true;
}

static void
explorer_go(struct explorer *x, const struct model *from)
{
    struct model next;

    if (x->caught || !explorer_is_new(x, from))
        return;
    explorer_check(x, from);
    for (unsigned n = 0; n < READERS; n++) {
        next = *from;
        if (model_read(&next, n, x->flaw))
            explorer_go(x, &next);
    }
    next = *from;
    if (model_write(&next, x->flaw))
        explorer_go(x, &next);
}

static bool
model_is_caught(enum flaw flaw)
{
    struct explorer x = {.flaw = flaw};
    struct model first;

    memset(&first, 0, sizeof(first));
    x.seen = malloc(sizeof(*x.seen) << SEEN_BITS);
    x.used = calloc(1, (size_t)1 << SEEN_BITS);
    assert_non_null(x.seen);
    assert_non_null(x.used);
    explorer_go(&x, &first);
    print_message("%lu states\n", x.states);
    free(x.seen);
    free(x.used);
    return x.caught;
}

TEST(table_model, no_writer_touches_what_a_reader_reads)
{
    CHECK(!model_is_caught(NO_FLAW));
}

TEST(table_model, without_the_second_look_a_read_tears)
{
    CHECK(model_is_caught(FLAW_NO_RELOAD));
}

TEST(table_model, without_waiting_a_read_tears)
{
    CHECK(model_is_caught(FLAW_NO_WAIT));
}

TEST(table_model, without_counting_on_both_sides_a_read_tears)
{
    CHECK(model_is_caught(FLAW_ONE_SIDE));
    CHECK(model_is_caught(FLAW_LOAD_THEN_ADD));
}

TEST_MAIN(TEST_ENTRY(table_model, no_writer_touches_what_a_reader_reads),
    TEST_ENTRY(table_model, without_the_second_look_a_read_tears),
    TEST_ENTRY(table_model, without_waiting_a_read_tears),
    TEST_ENTRY(table_model, without_counting_on_both_sides_a_read_tears))
