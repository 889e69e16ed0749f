/* yaml_directors_test.c -- directors of the configuration: what they choose, and what they hold. */
#include "t/unit/conf_fixture.h"

#include "daemon/base/hash.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/director.h"

enum {
    ASKS = 20000
};

#define BACKENDS                                                                             \
    "backends: {a: {address: 'unix:/a'}, b: {address: 'unix:/b'}, c: {address: 'unix:/c'}, " \
    "d: {address: 'unix:/d'}}\n"

static const struct director_ask nothing;

struct named {
    const struct conf *conf;
    struct registry *rg;
    struct director *d; /* the one that is named d0; borrowed */
};

static void
named_open(struct named *n, const char *yaml)
{
    n->conf = load(yaml);
    CHECK_EQ(0, registry_open(&n->rg, n->conf));
    n->d = snapshot_find(registry_snapshot(n->rg), SLICE_LIT("d0"));
    CHECK(n->d != NULL);
}

static void
named_close(struct named *n)
{
    registry_close(&n->rg);
    conf_free(&n->conf);
}

static struct backend *
named_backend(struct named *n, const char *name)
{
    return director_pick(snapshot_find(registry_snapshot(n->rg), slice_str(name)), &nothing);
}

/* Each number stands for a key, and for chance. */
static const char *
named_ask(struct named *n, uint64_t number)
{
    uint64_t bits = hash_plain(&number, sizeof(number));
    struct director_ask ask = {.random = bits, .hash = bits, .hash_said = true};
    struct backend *b = director_pick(n->d, &ask);

    return b == NULL ? "" : director_name(backend_director(b));
}

TEST(yaml_directors, they_stand_wherever_a_backend_may)
{
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {backends: [a]}, d1: {backends: [d0, b]}}\n"
                            "routes: [{path: /x, backend: d1}, {backend: d0}]\n");
    CHECK_EQ(5, n.conf->routes[0].backend);
    CHECK_EQ(4, n.conf->routes[1].backend);
    CHECK_EQ(4, n.conf->default_backend);
    CHECK(snapshot_nth(registry_snapshot(n.rg), 4) == n.d);
    CHECK_STR("d1", director_name(snapshot_nth(registry_snapshot(n.rg), 5)));
    CHECK(snapshot_nth(registry_snapshot(n.rg), 6) == NULL);
    CHECK(snapshot_nth(registry_snapshot(n.rg), CONF_NO_BACKEND) == NULL);
    CHECK_STR("a", named_ask(&n, 0));
    named_close(&n);
}

TEST(yaml_directors, a_round_gives_each_its_turns_and_spreads_them)
{
    struct named n;
    char got[13] = "";

    named_open(&n,
        BACKENDS "directors: {d0: {backends: [{name: a, weight: 6}, {name: b, weight: 2}, "
                 "{name: c, weight: 4}]}}\n");
    for (unsigned i = 0; i < 12; i++)
        got[i] = named_ask(&n, i)[0];
    CHECK_STR("acabcaacabca", got); /* 3, 1 and 2 of 6 */
    backend_set_admin(named_backend(&n, "a"), BACKEND_SICK);
    for (unsigned i = 0; i < 6; i++)
        got[i] = named_ask(&n, i)[0];
    got[6] = '\0';
    for (unsigned i = 0; i < 6; i++)
        CHECK(got[i] == 'b' || got[i] == 'c');
    named_close(&n);
}

TEST(yaml_directors, least_connections_goes_by_what_each_has_to_do)
{
    unsigned of[4] = {0};
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {type: least_connections, backends: [a, b, "
                            "{name: c, weight: 3}]}}\n");
    for (unsigned i = 0; i < 100; i++) { /* nobody is ever done */
        const char *name = named_ask(&n, i);

        of[name[0] - 'a']++;
        backend_expect(named_backend(&n, name));
    }
    CHECK_EQ(20, of[0]);
    CHECK_EQ(20, of[1]);
    CHECK_EQ(60, of[2]);
    backend_unexpect(named_backend(&n, "b"));
    CHECK_STR("b", named_ask(&n, 7));
    backend_set_admin(named_backend(&n, "b"), BACKEND_SICK);
    CHECK(named_ask(&n, 7)[0] != 'b');
    named_close(&n);
}

TEST(yaml_directors, among_equals_least_connections_goes_by_weight)
{
    unsigned of[4] = {0};
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {type: least_connections, backends: [a, b, "
                            "{name: c, weight: 2}]}}\n");
    for (unsigned i = 0; i < ASKS; i++) /* each is done before the next comes */
        of[named_ask(&n, i)[0] - 'a']++;
    CHECK(of[0] > ASKS * 0.22 && of[0] < ASKS * 0.28);
    CHECK(of[1] > ASKS * 0.22 && of[1] < ASKS * 0.28);
    CHECK(of[2] > ASKS * 0.46 && of[2] < ASKS * 0.54);
    named_close(&n);
}

/* Keys of which a few are asked for most of the time, and nobody is done. */
static unsigned
worst_of(struct named *n, unsigned asks)
{
    unsigned of[4] = {0}, worst = 0;

    for (unsigned i = 0; i < asks; i++) {
        const char *name = named_ask(n, i % 10 == 0 ? i : 1);

        of[name[0] - 'a']++;
        backend_expect(named_backend(n, name));
    }
    for (unsigned i = 0; i < 4; i++)
        worst = of[i] > worst ? of[i] : worst;
    return worst;
}

TEST(yaml_directors, no_member_of_a_hash_has_more_than_its_bound)
{
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {type: hash, backends: [a, b, c, d]}}\n");
    CHECK(worst_of(&n, 1000) <= 313); /* 1.25 times a quarter, rounded up */
    CHECK(worst_of(&n, 1000) <= 626);
    named_close(&n);
    named_open(
        &n, BACKENDS "directors: {d0: {type: hash, balance_factor: 0, backends: [a, b, c, d]}}\n");
    CHECK(worst_of(&n, 1000) > 900);
    named_close(&n);
}

TEST(yaml_directors, below_its_bound_a_hash_keeps_its_keys)
{
    static char had[ASKS];
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {type: hash, backends: [a, b, c, d]}}\n");
    for (unsigned i = 0; i < ASKS; i++)
        had[i] = named_ask(&n, i)[0];
    for (unsigned i = 0; i < 40; i++) /* ten each: full is who has thirteen */
        backend_expect(named_backend(&n, i % 4 == 0   ? "a"
                                         : i % 4 == 1 ? "b"
                                         : i % 4 == 2 ? "c"
                                                      : "d"));
    for (unsigned i = 0; i < ASKS; i++)
        CHECK_EQ(had[i], named_ask(&n, i)[0]);
    for (unsigned i = 0; i < 6; i++)
        backend_expect(named_backend(&n, "b")); /* sixteen, and full is who has fifteen */
    for (unsigned i = 0; i < ASKS; i++)
        CHECK(had[i] == 'b' ? named_ask(&n, i)[0] != 'b' : named_ask(&n, i)[0] == had[i]);
    named_close(&n);
}

TEST(yaml_directors, a_fallback_may_be_sticky)
{
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {type: fallback, sticky: on, backends: [b, a]}}\n");
    CHECK_STR("b", named_ask(&n, 0));
    backend_set_admin(named_backend(&n, "b"), BACKEND_SICK);
    CHECK_STR("a", named_ask(&n, 0));
    backend_set_admin(named_backend(&n, "b"), BACKEND_AUTO);
    CHECK_STR("a", named_ask(&n, 0));
    named_close(&n);
}

TEST(yaml_directors, who_was_tried_is_chosen_only_when_nobody_else_is_well)
{
    static const char *const kinds[] = {
        "round_robin", "random", "least_connections", "hash", "fallback"};

    for (unsigned kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        struct backend *tried[3];
        struct named n;
        char yaml[512];

        snprintf(yaml, sizeof(yaml), BACKENDS "directors: {d0: {type: %s, backends: [a, b, c]}}\n",
            kinds[kind]);
        named_open(&n, yaml);
        CHECK(director_tries_others(n.d));
        for (uint64_t key = 0; key < 50; key++)
            for (unsigned i = 0; i < 3; i++) {
                struct director_ask ask = {
                    .hash = key, .hash_said = true, .random = key, .avoid = tried, .navoid = i};

                tried[i] = director_pick(n.d, &ask);
                for (unsigned j = 0; j < i; j++)
                    CHECK(tried[i] != tried[j]);
            }
        CHECK(director_pick(n.d, &(struct director_ask){.avoid = tried, .navoid = 3}) != NULL);
        named_close(&n);
    }
}

TEST(yaml_directors, they_may_be_made_again_and_the_old_ones_go)
{
    struct backend_snapshot *again = NULL;
    struct director *held;
    struct named n;

    named_open(&n, BACKENDS "directors: {d0: {backends: [a, b]}, d1: {backends: [d0]}}\n");
    CHECK_EQ(0, snapshot_open(&again, n.rg, n.conf, registry_snapshot(n.rg)));
    CHECK(snapshot_nth(again, 0) == snapshot_nth(registry_snapshot(n.rg), 0));
    CHECK(snapshot_nth(again, 4) != n.d);
    CHECK_STR("d1", director_name(snapshot_nth(again, 5)));
    held = director_hold(snapshot_nth(again, 4)); /* as one in use is */
    snapshot_drop(&again);
    CHECK_STR("a", director_name(backend_director(director_pick(held, &nothing))));
    director_drop(&held);
    named_close(&n);
}

TEST(yaml_directors, a_wrong_director_is_refused_with_what_would_be_right)
{
    expect_errors(
        BACKENDS "directors: {x: {}}\n", "2:13 director 'x' has no 'backends': give it one\n");
    expect_errors(BACKENDS "directors: {a: {backends: [b]}}\n",
        "2:13 'a' is the name of a backend: give the director another one\n");
    expect_errors(BACKENDS "directors: {x: {backends: []}}\n",
        "2:27 backends is an empty list: at least one is needed\n");
    expect_errors(BACKENDS "directors: {x: {backends: a}}\n",
        "2:27 backends must not be text: give it a list of names, each alone or in a map with its "
        "weight, as in [a, {name: b, weight: 3}]\n");
    expect_errors(BACKENDS "directors: {x: {backends: [a, e]}}\n",
        "2:31 backends: 'e' is not among the backends: the first is 'a'\n");
    expect_errors(BACKENDS "directors: {x: {backends: [a, {name: b, wieght: 2}]}}\n",
        "2:41 unknown key 'wieght' in a member; did you mean 'weight'?\n");
    expect_errors(BACKENDS "directors: {x: {backends: [{name: b, weight: 0}]}}\n",
        "2:46 weight: '0' is too small: the least is 1\n");
    expect_errors(BACKENDS "directors: {x: {backends: [a, b, a]}}\n",
        "2:34 the same as number 1 of the list: give that one a weight\n");
    expect_errors(BACKENDS "directors: {x: {backends: [y]}, y: {backends: [y, a]}}\n",
        "2:28 backends: 'y' is no director that stands above: change their order\n"
        "2:48 backends: 'y' is no director that stands above: change their order\n");
    expect_errors(BACKENDS "directors: {x: {type: leastconn, backends: [a]}}\n",
        "2:23 type: 'leastconn' is unknown: it is round_robin, random, least_connections, hash or "
        "fallback\n");
    expect_errors(BACKENDS "directors: {x: {type: hash, balance_factor: 90, backends: [a]}}\n",
        "2:45 balance_factor: with 90 percent of the average not all requests find a backend: more "
        "than 100, or 0 for no bound\n");
    expect_errors(BACKENDS "directors: {x: {sticky: on, backends: [a]}}\n",
        "2:17 key 'sticky' is for type fallback, and this is round_robin\n");
    expect_errors(BACKENDS "directors: {x: {type: fallback, backends: [{name: a, weight: 2}]}}\n",
        "2:54 a fallback takes the first healthy member, whatever its weight: remove it\n");
    expect_errors(BACKENDS "directors: {x: {backends: [a]}}\nroutes: [{backend: z}]\n",
        "3:20 backend: 'z' is not among the backends: the first is 'a'\n");
}

TEST(yaml_directors, the_default_is_named_default_or_the_only_director)
{
    static const struct {
        const char *yaml;
        unsigned want;
    } rows[] = {
        {BACKENDS "directors: {x: {backends: [a]}}\n", 4},
        {BACKENDS "directors: {x: {backends: [a]}, y: {backends: [a]}}\n", CONF_NO_BACKEND},
        {BACKENDS "directors: {x: {backends: [a]}, default: {backends: [a]}}\n", 5},
        {BACKEND "directors: {x: {backends: [o]}}\n", 1},
        {"backends: {default: {address: 'unix:/a'}}\ndirectors: {x: {backends: [default]}}\n", 0},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        const struct conf *c = load(rows[i].yaml);

        CHECK_EQ(rows[i].want, c->default_backend);
        conf_free(&c);
    }
}

TEST_MAIN(TEST_ENTRY(yaml_directors, they_stand_wherever_a_backend_may),
    TEST_ENTRY(yaml_directors, a_round_gives_each_its_turns_and_spreads_them),
    TEST_ENTRY(yaml_directors, least_connections_goes_by_what_each_has_to_do),
    TEST_ENTRY(yaml_directors, among_equals_least_connections_goes_by_weight),
    TEST_ENTRY(yaml_directors, no_member_of_a_hash_has_more_than_its_bound),
    TEST_ENTRY(yaml_directors, below_its_bound_a_hash_keeps_its_keys),
    TEST_ENTRY(yaml_directors, a_fallback_may_be_sticky),
    TEST_ENTRY(yaml_directors, who_was_tried_is_chosen_only_when_nobody_else_is_well),
    TEST_ENTRY(yaml_directors, they_may_be_made_again_and_the_old_ones_go),
    TEST_ENTRY(yaml_directors, a_wrong_director_is_refused_with_what_would_be_right),
    TEST_ENTRY(yaml_directors, the_default_is_named_default_or_the_only_director))
