/* eject_test.c -- backends that fail are left out by directors for a while. */
#include "t/unit/conf_fixture.h"

#include "daemon/base/hash.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"
#include "daemon/shm/counters.h"

#define BACKENDS                                                                                  \
    "backends: {a: {address: 'unix:/a', eject_after: 3, eject_for: 10s}, b: "                     \
    "{address: 'unix:/b', eject_after: 3, eject_for: 10s}, c: {address: 'unix:/c', eject_after: " \
    "0}}\n"

static const struct director_ask nothing;

struct failing {
    const struct conf *conf;
    struct counters *counters;
    struct registry *rg;
    struct director *d; /* the one that is named d0 */
    uint64_t now_ms;
};

static void
failing_open(struct failing *f, const char *yaml)
{
    *f = (struct failing){.conf = load(yaml), .now_ms = 1000000};
    CHECK_EQ(0, registry_open(&f->rg, f->conf));
    CHECK_EQ(0, counters_open(&f->counters, NULL, 1));
    registry_set_counters(f->rg, f->counters);
    f->d = snapshot_find(registry_snapshot(f->rg), SLICE_LIT("d0"));
}

static void
failing_close(struct failing *f)
{
    registry_close(&f->rg);
    counters_close(&f->counters);
    conf_free(&f->conf);
}

static struct backend *
failing_backend(struct failing *f, const char *name)
{
    return director_pick(snapshot_find(registry_snapshot(f->rg), slice_str(name)), &nothing);
}

static void
break_down(struct failing *f, const char *name, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        backend_note_bad(failing_backend(f, name), f->now_ms, TERR_REFUSED);
}

static bool
is_out(struct failing *f, const char *name)
{
    return backend_ejected(failing_backend(f, name));
}

static void
pass(struct failing *f, uint64_t ms)
{
    f->now_ms += ms;
    registry_tick(f->rg, f->now_ms);
}

/* Which letters are chosen, by any chance and key. */
static const char *
chosen(struct director *d)
{
    static char names[8];
    bool seen[3] = {false};
    unsigned n = 0;

    for (uint64_t i = 0; i < 200; i++) {
        uint64_t bits = hash_plain(&i, sizeof(i));
        struct director_ask ask = {.random = bits, .hash = bits, .hash_said = true};
        struct backend *b = director_pick(d, &ask);

        seen[director_name(backend_director(b))[0] - 'a'] = true;
    }
    for (unsigned i = 0; i < 3; i++)
        if (seen[i])
            names[n++] = (char)('a' + i);
    names[n] = '\0';
    return names;
}

TEST(eject, so_many_failures_in_a_row_leave_a_backend_out)
{
    struct failing f;

    failing_open(&f, BACKENDS "directors: {d0: {backends: [a, b]}}\n");
    break_down(&f, "a", 2);
    backend_note_good(failing_backend(&f, "a"));
    break_down(&f, "a", 2);
    CHECK_STR("ab", chosen(f.d));
    break_down(&f, "a", 1);
    CHECK(is_out(&f, "a"));
    CHECK_STR("b", chosen(f.d));
    CHECK(director_healthy(
        snapshot_find(registry_snapshot(f.rg), SLICE_LIT("a")), NULL)); /* which is another thing */
    CHECK_EQ(1, counters_sum(f.counters, COUNTER_backend_ejected));
    break_down(&f, "a", 9); /* of fetches that were under way */
    CHECK_EQ(1, counters_sum(f.counters, COUNTER_backend_ejected));
    failing_close(&f);
}

TEST(eject, every_kind_of_director_leaves_it_out_and_never_the_last_one)
{
    static const char *const kinds[] = {
        "round_robin", "random", "least_connections", "hash", "fallback"};

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        struct failing f;
        char yaml[512];

        snprintf(yaml, sizeof(yaml), BACKENDS "directors: {d0: {type: %s, backends: [a, b]}}\n",
            kinds[i]);
        failing_open(&f, yaml);
        break_down(&f, "a", 3);
        CHECK_STR("b", chosen(f.d));
        break_down(&f, "b", 3);
        CHECK(is_out(&f, "a") && is_out(&f, "b"));
        CHECK_STR(strcmp(kinds[i], "fallback") == 0 ? "a" : "ab", chosen(f.d));
        backend_set_admin(failing_backend(&f, "a"), BACKEND_SICK);
        CHECK_STR("b", chosen(f.d));
        failing_close(&f);
    }
}

TEST(eject, it_comes_back_on_trial_and_stays_away_longer_each_time)
{
    struct failing f;
    uint64_t ms = 10000;

    failing_open(&f, BACKENDS "directors: {d0: {backends: [a, b]}}\n");
    break_down(&f, "a", 3);
    for (unsigned i = 0; i < 8; i++) {
        pass(&f, ms - 1);
        CHECK(is_out(&f, "a"));
        pass(&f, 1);
        CHECK(!is_out(&f, "a"));
        CHECK_STR("ab", chosen(f.d));
        break_down(&f, "a", 1); /* is enough */
        CHECK(is_out(&f, "a"));
        ms = ms * 2 < 300000 ? ms * 2 : 300000;
    }
    pass(&f, ms);
    backend_note_good(failing_backend(&f, "a"));
    break_down(&f, "a", 2);
    CHECK(!is_out(&f, "a"));
    pass(&f, ms + 1); /* well for longer than it was out: nothing is held against it */
    break_down(&f, "a", 1);
    pass(&f, 10000);
    CHECK(!is_out(&f, "a"));
    failing_close(&f);
}

TEST(eject, the_operators_word_ends_it)
{
    struct failing f;

    failing_open(&f, BACKENDS "directors: {d0: {backends: [a, b]}}\n");
    break_down(&f, "a", 3);
    backend_set_admin(failing_backend(&f, "a"), BACKEND_AUTO);
    CHECK(!is_out(&f, "a"));
    break_down(&f, "a", 2);
    CHECK(!is_out(&f, "a"));
    failing_close(&f);
}

TEST(eject, who_is_in_no_director_or_says_so_is_never_left_out)
{
    struct failing f;

    failing_open(&f, BACKENDS "directors: {d0: {backends: [b, c]}}\n");
    break_down(&f, "a", 10);
    break_down(&f, "c", 10);
    CHECK(!is_out(&f, "a") && !is_out(&f, "c"));
    failing_close(&f);
}

TEST(eject, a_director_whose_members_are_all_out_is_left_out_itself)
{
    struct failing f;

    failing_open(&f, BACKENDS "directors: {in: {backends: [a]}, d0: {backends: [in, b]}}\n");
    break_down(&f, "a", 3);
    CHECK_STR("b", chosen(f.d));
    break_down(&f, "b", 3);
    CHECK_STR("ab", chosen(f.d));
    failing_close(&f);
}

TEST_MAIN(TEST_ENTRY(eject, so_many_failures_in_a_row_leave_a_backend_out),
    TEST_ENTRY(eject, every_kind_of_director_leaves_it_out_and_never_the_last_one),
    TEST_ENTRY(eject, it_comes_back_on_trial_and_stays_away_longer_each_time),
    TEST_ENTRY(eject, the_operators_word_ends_it),
    TEST_ENTRY(eject, who_is_in_no_director_or_says_so_is_never_left_out),
    TEST_ENTRY(eject, a_director_whose_members_are_all_out_is_left_out_itself))
