/* fleet_model_test.c -- leases, positions and proofs of a fleet, in all orders of what can happen.
 *
 * One node, one engine, one object that is purged once, elsewhere: more nodes could only delay a proof.  A report and a
 * reading of the node begin, reach the engine and end, and anything may happen between.  The engine loses what it has, or
 * the log's front; other nodes join; the node sleeps and wakes up with what it has stored.  All worlds that can be reached
 * are looked at: in none may the node, if it trusts what it has stored, have the version that was purged with a proof.
 *
 * The rules are those of daemon/fleet/README.md.  Each is left out once, and then an order must be found that breaks a
 * proof: else the model would prove nothing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "t/unit/test.h"

enum {
    BLIND = 3, /* ticks: max_blind */
    GUARD = 4, /* how long the engine knows a node that is silent */
    AGE_MAX = 4,
    ENTRIES = 3, /* in the log at most, ever; from 1 */
};

enum rule {
    RULE_NONE,
    RULE_GUARD,  /* 1: the engine knows a node longer than its lease lasts */
    RULE_SENT,   /* 1: a lease counts from when the report was sent */
    RULE_LATE,   /* 1: a report that ends behind the lease before does not count */
    RULE_CLOCK,  /* 2: each lookup reads the clock */
    RULE_JOIN,   /* 3: what was stored before the node joins is stale */
    RULE_GAP,    /* 4: a place that is not in the log any more is a gap */
    RULE_MATURE, /* 6: an engine that is new gives no proof for the guard time */
    RULES,
};

/* Ages: ticks since then. */
struct world {
    unsigned log : ENTRIES; /* a bit for each entry that is in it */
    unsigned ids : 3;       /* given so far */
    unsigned purge : 3;     /* the purge's; 0: none yet */
    unsigned proven : 1;
    unsigned lost : 1, trimmed : 1;    /* once each */
    unsigned met : 3;                  /* age: since when the engine is known */
    unsigned key_left : 3, key_at : 3; /* the node's key: how long it lives, and its position */
    unsigned awake : 1;
    unsigned stored : 2; /* 0: nothing; 1: what the purge is about; 2: newer */
    unsigned at : 3;     /* position; 0: it is in no place */
    unsigned reported : 3, read : 3;
    unsigned reports : 1, report_at : 3, report_age : 3, report_reached : 1;
    unsigned reads : 1, reading_age : 3, reading : ENTRIES; /* the log as it was when it began */
    unsigned seen : 3; /* RULE_CLOCK: when it looked at its clock */
};

struct found {
    uint64_t *worlds; /* in the order in which they were reached */
    size_t n, room;
    uint64_t *slots; /* of a hash table; 0: free */
    size_t mask;
    bool broken;
    enum rule without;
};

/* ---- worlds as numbers ---- */

_Static_assert(
    sizeof(struct world) <= sizeof(uint64_t) + sizeof(uint32_t), "packed into 64 bits below");

static uint64_t
pack(const struct world *w)
{
    const struct {
        unsigned value, bits;
    } parts[] = {{w->log, ENTRIES}, {w->ids, 3}, {w->purge, 3}, {w->proven, 1}, {w->lost, 1},
        {w->trimmed, 1}, {w->met, 3}, {w->key_left, 3}, {w->key_at, 3}, {w->awake, 1},
        {w->stored, 2}, {w->at, 3}, {w->reported, 3}, {w->read, 3}, {w->reports, 1},
        {w->report_at, 3}, {w->report_age, 3}, {w->report_reached, 1}, {w->reads, 1},
        {w->reading_age, 3}, {w->reading, ENTRIES}, {w->seen, 3}};
    uint64_t out = 1; /* never 0 */

    for (unsigned i = 0; i < ARRAY_LEN(parts); i++)
        out = out << parts[i].bits | parts[i].value;
    return out;
}

static struct world
unpack(uint64_t from)
{
    struct world w;
#define TAKE(member, bits)                   \
    w.member = from & ((1u << (bits)) - 1u); \
    from >>= (bits)

    TAKE(seen, 3);
    TAKE(reading, ENTRIES);
    TAKE(reading_age, 3);
    TAKE(reads, 1);
    TAKE(report_reached, 1);
    TAKE(report_age, 3);
    TAKE(report_at, 3);
    TAKE(reports, 1);
    TAKE(read, 3);
    TAKE(reported, 3);
    TAKE(at, 3);
    TAKE(stored, 2);
    TAKE(awake, 1);
    TAKE(key_at, 3);
    TAKE(key_left, 3);
    TAKE(met, 3);
    TAKE(trimmed, 1);
    TAKE(lost, 1);
    TAKE(proven, 1);
    TAKE(purge, 3);
    TAKE(ids, 3);
    TAKE(log, ENTRIES);
#undef TAKE
    return w;
}

static uint64_t
mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t *
slot_of(struct found *f, uint64_t world)
{
    size_t i = mix(world) & f->mask;

    while (f->slots[i] != 0 && f->slots[i] != world)
        i = (i + 1) & f->mask;
    return &f->slots[i];
}

static void
grow(struct found *f)
{
    free(f->slots);
    f->mask = f->mask * 2 + 1;
    f->slots = calloc(f->mask + 1, sizeof(*f->slots));
    f->room *= 2;
    f->worlds = realloc(f->worlds, f->room * sizeof(*f->worlds));
    assert_true(f->slots != NULL && f->worlds != NULL);
    for (size_t i = 0; i < f->n; i++)
        *slot_of(f, f->worlds[i]) = f->worlds[i];
}

/* ---- what is true in a world ---- */

static bool
trusts(const struct found *f, const struct world *w)
{
    unsigned age = w->reported > w->read ? w->reported : w->read;
    unsigned slept = f->without == RULE_CLOCK ? w->seen : 0;

    return w->at > 0 && age < BLIND + slept;
}

static bool
is_broken(const struct found *f, const struct world *w)
{
    return w->proven && w->awake && w->stored == 1 && trusts(f, w);
}

static void
reach(struct found *f, struct world w, bool steps)
{
    uint64_t world, *slot;

    w.seen = f->without == RULE_CLOCK && !steps ? w.seen : 0;
    if (w.key_left == 0)
        w.key_at = 0;
    if (!w.reports)
        w.report_at = w.report_age = w.report_reached = 0;
    if (!w.reads)
        w.reading_age = w.reading = 0;
    world = pack(&w);
    slot = slot_of(f, world);
    if (*slot != 0)
        return;
    f->broken |= is_broken(f, &w);
    *slot = world;
    f->worlds[f->n++] = world;
    if (f->n == f->room)
        grow(f);
}

/* ---- what can happen ---- */

static unsigned
older(unsigned age)
{
    return age < AGE_MAX ? age + 1 : age;
}

static void
tick(struct found *f, struct world w)
{
    w.met = older(w.met);
    w.reported = older(w.reported);
    w.read = older(w.read);
    w.report_age = older(w.report_age);
    w.reading_age = older(w.reading_age);
    w.seen = older(w.seen);
    w.key_left -= w.key_left > 0;
    reach(f, w, false);
}

/* The log has one more; false: that is all there are. */
static bool
add(struct world *w)
{
    if (w->ids == ENTRIES)
        return false;
    w->log |= 1u << w->ids;
    w->ids++;
    return true;
}

/* Its first entry, its key, and a position. */
static void
join(struct found *f, struct world w)
{
    if (!add(&w))
        return;
    w.at = w.key_at = w.ids;
    w.key_left = GUARD;
    w.reported = w.read = 0;
    w.reports = w.reads = 0;
    if (f->without != RULE_JOIN)
        w.stored = 0;
    reach(f, w, true);
}

/* The reading ends: what the engine had when it began. */
static void
apply(struct found *f, struct world w)
{
    bool there = (w.reading & 1u << (w.at - 1)) != 0;

    w.reads = 0;
    if (!there && f->without != RULE_GAP) {
        w.at = w.stored = 0;
        join(f, w);
        return;
    }
    for (unsigned id = w.at + 1; id <= ENTRIES; id++) {
        if ((w.reading & 1u << (id - 1)) == 0)
            continue;
        w.at = id;
        if (id == w.purge)
            w.stored = 0;
    }
    w.read = w.reading_age;
    reach(f, w, true);
}

static void
report(struct found *f, struct world w)
{
    if (!w.reports) {
        w.reports = 1;
        w.report_at = w.at;
        w.report_age = 0;
    } else if (!w.report_reached) {
        w.report_reached = 1;
        w.key_at = w.report_at;
        w.key_left = f->without == RULE_GUARD ? BLIND - 1 : GUARD;
    } else if (w.reported >= BLIND && f->without != RULE_LATE) {
        w.at = w.reports = w.reads = 0;
    } else {
        w.reported = f->without == RULE_SENT ? 0 : w.report_age;
        w.reports = w.report_reached = 0;
    }
    reach(f, w, true);
}

static void
node_steps(struct found *f, struct world w)
{
    struct world next = w;

    if (!w.awake) {
        next.awake = 1;
        reach(f, next, false);
        return;
    }
    next.awake = 0;
    reach(f, next, false);
    next = w;
    if (w.stored == 0) {
        next.stored = w.purge > 0 ? 2 : 1;
        reach(f, next, true);
    }
    if (w.at == 0) {
        join(f, w);
        return;
    }
    report(f, w);
    if (w.reads) {
        apply(f, w);
        return;
    }
    next = w;
    next.reads = 1;
    next.reading = w.log;
    next.reading_age = 0;
    reach(f, next, true);
}

static void
engine_steps(struct found *f, struct world w)
{
    struct world next = w;

    if (w.purge == 0 && add(&next)) {
        next.purge = next.ids;
        reach(f, next, false);
    }
    next = w;
    if (add(&next)) /* another node joins */
        reach(f, next, false);
    next = w;
    if (!w.lost) {
        next.log = next.key_left = next.met = 0;
        next.lost = 1;
        reach(f, next, false);
    }
    next = w;
    if (!w.trimmed) {
        next.log = 0;
        next.trimmed = 1;
        reach(f, next, false);
    }
    next = w;
    next.proven = w.purge > 0 && !(w.key_left > 0 && w.key_at < w.purge) &&
                  (w.met >= GUARD || f->without == RULE_MATURE);
    if (next.proven)
        reach(f, next, false);
}

/* All worlds, or those up to the first that is broken. */
static void
explore(struct found *f, enum rule without)
{
    struct world first = {.awake = 1, .met = AGE_MAX, .reported = AGE_MAX, .read = AGE_MAX};

    *f = (struct found){.room = 1 << 16, .mask = (1 << 17) - 1, .without = without};
    f->worlds = malloc(f->room * sizeof(*f->worlds));
    f->slots = calloc(f->mask + 1, sizeof(*f->slots));
    assert_true(f->worlds != NULL && f->slots != NULL);
    reach(f, first, true);
    for (size_t i = 0; i < f->n && !f->broken; i++) {
        struct world w = unpack(f->worlds[i]);

        tick(f, w);
        engine_steps(f, w);
        node_steps(f, w);
    }
}

static void
explored(struct found *f)
{
    free(f->worlds);
    free(f->slots);
}

TEST(fleet_model, a_proof_holds_in_all_orders)
{
    struct found f;

    explore(&f, RULE_NONE);
    print_message("%zu worlds\n", f.n);
    CHECK(!f.broken);
    CHECK(f.n > 1000000);
    explored(&f);
}

TEST(fleet_model, without_any_of_its_rules_it_does_not)
{
    for (int rule = RULE_NONE + 1; rule < RULES; rule++) {
        struct found f;

        explore(&f, (enum rule)rule);
        print_message("without rule %d: broken by the %zuth world\n", rule, f.n);
        CHECK(f.broken);
        explored(&f);
    }
}

TEST(fleet_model, a_world_is_packed_whole)
{
    for (uint64_t i = 1; i < 1000; i++) {
        /* Any 51 bits are a world; above them stands the 1 that no world is without. */
        uint64_t any = (mix(i) & ((UINT64_C(1) << 51) - 1)) | UINT64_C(1) << 51;
        struct world w = unpack(any);

        CHECK_EQ(any, pack(&w));
    }
}

TEST_MAIN(TEST_ENTRY(fleet_model, a_world_is_packed_whole),
    TEST_ENTRY(fleet_model, a_proof_holds_in_all_orders),
    TEST_ENTRY(fleet_model, without_any_of_its_rules_it_does_not))
