/* slow_start_test.c -- who became well lately has a share that grows. */
#include "t/unit/conf_fixture.h"

#include "daemon/base/hash.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"

enum {
    ASKS = 20000
};

#define SLOW_S 100
#define BACKENDS                                                                                 \
    "backends: {a: {address: 'unix:/a', slow_start: 100s}, b: {address: 'unix:/b', slow_start: " \
    "100s}, c: {address: 'unix:/c'}}\n"

static const struct director_ask nothing;

struct starting {
    const struct conf *conf;
    struct registry *rg;
    struct director *d;
    struct backend *a;
    double well_s; /* when a became so */
};

static void
starting_open(struct starting *s, const char *type)
{
    char yaml[512];

    snprintf(
        yaml, sizeof(yaml), BACKENDS "directors: {d0: {type: %s, backends: [a, b, c]}}\n", type);
    *s = (struct starting){.conf = load(yaml)};
    CHECK_EQ(0, registry_open(&s->rg, s->conf));
    s->d = snapshot_find(registry_snapshot(s->rg), SLICE_LIT("d0"));
    s->a = director_pick(snapshot_find(registry_snapshot(s->rg), SLICE_LIT("a")), &nothing);
}

static void
starting_close(struct starting *s)
{
    registry_close(&s->rg);
    conf_free(&s->conf);
}

/* How much of all goes to a, so many seconds after it became well. */
static double
share_after(struct starting *s, double seconds)
{
    unsigned of_a = 0;

    for (uint64_t i = 0; i < ASKS; i++) {
        uint64_t bits = hash_plain(&i, sizeof(i));
        struct director_ask ask = {
            .random = bits, .hash = bits, .hash_said = true, .now_s = s->well_s + seconds};

        of_a += director_pick(s->d, &ask) == s->a;
    }
    return (double)of_a / ASKS;
}

static bool
is_near(double want, double got)
{
    return got > want - 0.02 && got < want + 0.02;
}

TEST(slow_start, a_share_grows_from_a_tenth_to_the_whole)
{
    static const char *const kinds[] = {"round_robin", "random", "hash", "least_connections"};

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        struct starting s;

        starting_open(&s, kinds[i]);
        CHECK(is_near(1.0 / 3, share_after(&s, 0))); /* from the start the whole */
        backend_set_admin(s.a, BACKEND_SICK);
        backend_set_admin(s.a, BACKEND_AUTO);
        director_healthy(snapshot_find(registry_snapshot(s.rg), SLICE_LIT("a")), &s.well_s);
        CHECK(s.well_s > 0);
        CHECK(is_near(0.1 / 2.1, share_after(&s, 0.01)));
        CHECK(is_near(0.55 / 2.55, share_after(&s, SLOW_S / 2.0)));
        CHECK(is_near(1.0 / 3, share_after(&s, SLOW_S)));
        CHECK(is_near(1.0 / 3, share_after(&s, -5))); /* the clock was set */
        starting_close(&s);
    }
}

TEST(slow_start, who_is_alone_has_all)
{
    struct starting s;

    starting_open(&s, "round_robin");
    for (unsigned i = 0; i < 3; i++) {
        struct backend *b = director_pick(snapshot_nth(registry_snapshot(s.rg), i), &nothing);

        backend_set_admin(b, BACKEND_SICK);
    }
    backend_set_admin(s.a, BACKEND_AUTO);
    director_healthy(snapshot_find(registry_snapshot(s.rg), SLICE_LIT("a")), &s.well_s);
    CHECK(share_after(&s, 1) == 1.0);
    starting_close(&s);
}

TEST_MAIN(TEST_ENTRY(slow_start, a_share_grows_from_a_tenth_to_the_whole),
    TEST_ENTRY(slow_start, who_is_alone_has_all))
