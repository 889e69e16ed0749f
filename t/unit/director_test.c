/* director_test.c -- what each kind of director chooses, and what it holds. */
#include "t/unit/test.h"

#include <math.h>

#include "daemon/base/terr.h"
#include "t/unit/origin_fixture.h"

enum {
    ASKS = 20000
};

static const struct director_ask nothing;

static const char *
ask_hash(struct director *d, uint64_t hash)
{
    return picks_ask(d, &(struct director_ask){.hash = hash, .hash_said = true});
}

static const char *
ask_shard(struct director *d, uint64_t key, unsigned alternate, enum director_health health)
{
    return picks_ask(
        d, &(struct director_ask){
               .hash = key, .hash_said = true, .alternate = alternate, .health = health});
}

/* How often each of b0 ... is chosen in ASKS. */
static void
count(struct director *d, unsigned *of, unsigned n)
{
    uint64_t state = 1;

    memset(of, 0, n * sizeof(of[0]));
    for (unsigned i = 0; i < ASKS; i++) {
        struct director_ask ask = {.random = picks_random(&state), .hash = i, .hash_said = true};
        const char *name = picks_ask(d, &ask);

        CHECK_EQ('b', name[0]);
        of[name[1] - '0']++;
    }
}

static void
check_share(double want, unsigned got)
{
    CHECK(got > want * ASKS * 0.9 && got < want * ASKS * 1.1);
}

TEST(director, a_backend_is_a_director_that_chooses_itself)
{
    struct picks p;

    picks_open(&p, 1);
    CHECK_EQ(DIRECTOR_BACKEND, director_kind(p.b[0]));
    CHECK_STR("b0", director_name(p.b[0]));
    CHECK(director_resolve(p.b[0], &nothing) == p.b[0]);
    CHECK_STR("boot.b0", backend_full_name(director_pick(p.b[0], &nothing)));
    CHECK(backend_director(director_pick(p.b[0], &nothing)) == p.b[0]);
    CHECK_STR("unix:/none", backend_conf(director_pick(p.b[0], &nothing))->address.text);
    picks_set(&p, 0, BACKEND_SICK); /* asked for itself it is given: connecting says no */
    CHECK_STR("b0", picks_ask(p.b[0], &nothing));
    CHECK(!director_healthy(p.b[0], NULL));
    picks_close(&p);
}

TEST(director, the_registry_finds_what_the_configuration_names)
{
    const struct backend_snapshot *u;
    struct picks p;

    picks_open(&p, 1);
    u = registry_snapshot(p.rg);
    CHECK_STR("y1", director_name(snapshot_find(u, SLICE_LIT("y1"))));
    CHECK(snapshot_find(u, SLICE_LIT("b0")) == NULL);
    CHECK(snapshot_nth(u, 1) == snapshot_find(u, SLICE_LIT("y1")));
    CHECK(snapshot_nth(u, 2) == NULL);
    CHECK(snapshot_nth(u, UINT32_MAX) == NULL);
    picks_close(&p);
}

static void
count_backend(void *ctx, struct backend *b)
{
    unsigned *n = ctx;

    (void)b;
    (*n)++;
}

TEST(director, a_number_is_used_again_after_its_backend_left)
{
    struct picks p;
    unsigned number, n = 0;

    picks_open(&p, 3);
    number = backend_number(director_pick(p.b[1], &nothing));
    CHECK_EQ(PICK_YAML + 1, number);
    director_drop(&p.b[1]);
    registry_each(p.rg, count_backend, &n);
    CHECK_EQ(PICK_YAML + 2, n);
    p.b[1] = picks_backend(&p, "again");
    CHECK_EQ(number, backend_number(director_pick(p.b[1], &nothing)));
    picks_close(&p);
}

TEST(director, there_are_at_most_so_many_backends)
{
    static struct director *all[BACKENDS_MAX];
    const struct conf_backend *conf = &picks_conf()->backends[0];
    struct director *more = NULL;
    struct picks p;

    picks_open(&p, 0);
    for (unsigned i = PICK_YAML; i < BACKENDS_MAX; i++)
        CHECK_EQ(0, backend_new(&all[i], p.rg, conf, NULL, "x", "x"));
    CHECK_EQ(TERR_LIMIT, backend_new(&more, p.rg, conf, NULL, "x", "x"));
    CHECK(more == NULL);
    for (unsigned i = PICK_YAML; i < BACKENDS_MAX; i++)
        director_drop(&all[i]);
    CHECK_EQ(0, backend_new(&more, p.rg, conf, NULL, "x", "x"));
    director_drop(&more);
    picks_close(&p);
}

TEST(director, a_backends_settings_are_a_copy)
{
    char host[] = "host.test", text[] = "host.test:80", header[] = "h.test";
    struct sockaddr_storage addr = {.ss_family = AF_INET};
    socklen_t len = sizeof(struct sockaddr_in);
    struct conf_backend conf = {.name = "n",
        .address = {.text = text, .addrs = &addr, .addr_lens = &len, .naddrs = 1, .host = host},
        .host_header = header,
        .max_idle = 7};
    const struct conf_backend *copy;
    struct director *d;
    struct picks p;

    picks_open(&p, 0);
    CHECK_EQ(0, backend_new(&d, p.rg, &conf, NULL, "n", "boot.n"));
    memset(host, 'x', 4);
    memset(text, 'x', 4);
    memset(header, 'x', 4);
    addr.ss_family = AF_UNSPEC;
    copy = backend_conf(director_pick(d, &nothing));
    CHECK_STR("host.test", copy->address.host);
    CHECK_STR("host.test:80", copy->address.text);
    CHECK_STR("h.test", copy->host_header);
    CHECK_EQ(AF_INET, copy->address.addrs[0].ss_family);
    CHECK_EQ(len, copy->address.addr_lens[0]);
    CHECK_EQ(7, copy->max_idle);
    director_drop(&d);
    conf.address.naddrs = 0; /* a name that has no address */
    CHECK_EQ(TERR_INVALID, backend_new(&d, p.rg, &conf, NULL, "n", "boot.n"));
    picks_close(&p);
}

TEST(director, none_is_always_sick)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 0);
    CHECK_EQ(0, backend_new(&d, p.rg, NULL, NULL, "x", "boot.x"));
    CHECK(!director_healthy(d, NULL));
    backend_set_admin(director_pick(d, &nothing), BACKEND_HEALTHY);
    CHECK(!director_healthy(d, NULL));
    CHECK_STR("", backend_conf(director_pick(d, &nothing))->host_header);
    director_drop(&d);
    picks_close(&p);
}

TEST(director, the_operator_overrides_the_probe)
{
    struct backend *b;
    struct picks p;
    double changed;

    picks_open(&p, 1);
    b = director_pick(p.b[0], &nothing);
    CHECK(director_healthy(p.b[0], &changed));
    CHECK(changed == 0);
    backend_set_admin(b, BACKEND_SICK);
    CHECK(!director_healthy(p.b[0], &changed));
    CHECK(changed > 1e9);
    CHECK_EQ(BACKEND_SICK, backend_admin(b));
    backend_set_admin(b, BACKEND_AUTO);
    CHECK(backend_healthy(b));
    picks_close(&p);
}

TEST(director, round_robin_takes_each_in_turn_and_spreads_a_sick_ones_share)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 3);
    d = picks_director(&p, DIRECTOR_ROUND_ROBIN);
    for (unsigned i = 0; i < 6; i++)
        CHECK_STR(director_name(p.b[i % 3]), picks_ask(d, &nothing));
    picks_set(&p, 1, BACKEND_SICK);
    for (unsigned i = 0; i < 6; i++)
        CHECK_STR(i % 2 == 0 ? "b0" : "b2", picks_ask(d, &nothing));
    CHECK_EQ(0, director_remove(d, p.b[0]));
    CHECK_STR("b2", picks_ask(d, &nothing));
    CHECK_EQ(TERR_NOTFOUND, director_remove(d, p.b[0]));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, who_only_peeks_takes_nobodys_turn)
{
    const struct director_ask peek = {.peeks = true};
    struct director *turns, *stays;
    struct picks p;

    picks_open(&p, 3);
    turns = picks_director(&p, DIRECTOR_ROUND_ROBIN);
    for (unsigned i = 0; i < 6; i++) {
        CHECK_STR(director_name(p.b[i % 3]), picks_ask(turns, &peek));
        CHECK_STR(director_name(p.b[i % 3]), picks_ask(turns, &peek));
        CHECK_STR(director_name(p.b[i % 3]), picks_ask(turns, &nothing));
    }
    stays = picks_director(&p, DIRECTOR_FALLBACK);
    director_set_sticky(stays, true);
    picks_set(&p, 0, BACKEND_SICK);
    CHECK_STR("b1", picks_ask(stays, &peek));
    picks_set(&p, 0, BACKEND_AUTO);
    CHECK_STR("b0", picks_ask(stays, &nothing));
    director_drop(&stays);
    director_drop(&turns);
    picks_close(&p);
}

TEST(director, fallback_takes_the_first_that_is_healthy)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 3);
    d = picks_director(&p, DIRECTOR_FALLBACK);
    CHECK_STR("b0", picks_ask(d, &nothing));
    CHECK_STR("b0", picks_ask(d, &nothing));
    picks_set(&p, 0, BACKEND_SICK);
    CHECK_STR("b1", picks_ask(d, &nothing));
    picks_set(&p, 0, BACKEND_AUTO);
    CHECK_STR("b0", picks_ask(d, &nothing));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, a_sticky_fallback_stays_with_the_one_that_works)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 3);
    d = picks_director(&p, DIRECTOR_FALLBACK);
    director_set_sticky(d, true);
    CHECK_STR("b0", picks_ask(d, &nothing));
    picks_set(&p, 0, BACKEND_SICK);
    CHECK_STR("b1", picks_ask(d, &nothing));
    picks_set(&p, 0, BACKEND_AUTO);
    CHECK_STR("b1", picks_ask(d, &nothing));
    picks_set(&p, 1, BACKEND_SICK);
    CHECK_STR("b2", picks_ask(d, &nothing));
    picks_set(&p, 2, BACKEND_SICK); /* the list is exhausted: from its beginning */
    CHECK_STR("b0", picks_ask(d, &nothing));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, random_goes_by_weight_among_the_healthy)
{
    struct director *d;
    struct picks p;
    unsigned of[3];

    picks_open(&p, 3);
    CHECK_EQ(0, director_new(&d, DIRECTOR_RANDOM, "d"));
    CHECK_EQ(0, director_add(d, p.b[0], 1));
    CHECK_EQ(0, director_add(d, p.b[1], 2));
    CHECK_EQ(0, director_add(d, p.b[2], 1));
    count(d, of, 3);
    check_share(0.25, of[0]);
    check_share(0.5, of[1]);
    check_share(0.25, of[2]);
    picks_set(&p, 1, BACKEND_SICK);
    count(d, of, 3);
    CHECK_EQ(0, of[1]);
    check_share(0.5, of[0]);
    CHECK_EQ(TERR_INVALID, director_add(d, p.b[0], -1));
    CHECK_EQ(TERR_INVALID, director_add(d, p.b[0], (double)INFINITY));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, one_level_of_chance_tells_nothing_of_the_next)
{
    struct director *outer, *inner[2];
    struct picks p;
    unsigned of[4];

    picks_open(&p, 4);
    CHECK_EQ(0, director_new(&outer, DIRECTOR_RANDOM, "outer"));
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(0, director_new(&inner[i], DIRECTOR_RANDOM, "inner"));
        CHECK_EQ(0, director_add(inner[i], p.b[2 * i], 1));
        CHECK_EQ(0, director_add(inner[i], p.b[2 * i + 1], 1));
        CHECK_EQ(0, director_add(outer, inner[i], 1));
        director_drop(&inner[i]); /* the outer one holds it */
    }
    count(outer, of, 4);
    for (unsigned i = 0; i < 4; i++)
        check_share(0.25, of[i]);
    director_drop(&outer);
    picks_close(&p);
}

TEST(director, hash_keeps_its_keys_and_gives_only_a_lost_members_away)
{
    static char had[ASKS];
    struct director *d;
    struct picks p;
    unsigned of[5];

    picks_open(&p, 5);
    CHECK_EQ(0, director_new(&d, DIRECTOR_HASH, "d"));
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQ(0, director_add(d, p.b[i], i == 4 ? 2 : 1));
    count(d, of, 5);
    for (unsigned i = 0; i < 5; i++)
        check_share(i == 4 ? 2.0 / 6 : 1.0 / 6, of[i]);
    for (unsigned i = 0; i < ASKS; i++)
        had[i] = ask_hash(d, i)[1];
    picks_set(&p, 2, BACKEND_SICK);
    count(d, of, 5);
    check_share(0.2, of[0]); /* the lost one's keys go to all */
    check_share(0.4, of[4]);
    for (unsigned i = 0; i < ASKS; i++)
        CHECK(had[i] == '2' ? ask_hash(d, i)[1] != '2' : ask_hash(d, i)[1] == had[i]);
    CHECK_EQ(0, director_remove(d, p.b[2]));
    picks_set(&p, 2, BACKEND_AUTO);
    for (unsigned i = 0; i < ASKS; i++)
        CHECK(had[i] == '2' || ask_hash(d, i)[1] == had[i]);
    director_drop(&d);
    picks_close(&p);
}

TEST(director, shard_keeps_its_keys_and_gives_only_a_lost_members_away)
{
    static char had[ASKS];
    struct director *d;
    struct picks p;
    unsigned of[5];

    picks_open(&p, 5);
    d = picks_director(&p, DIRECTOR_SHARD);
    count(d, of, 5);
    for (unsigned i = 0; i < 5; i++) /* 67 points each: not as even as a hash's */
        CHECK(of[i] > ASKS / 10 && of[i] < ASKS / 3);
    for (unsigned i = 0; i < ASKS; i++)
        had[i] = ask_shard(d, i, 0, DIRECTOR_CHOSEN)[1];
    CHECK_EQ(0, director_remove(d, p.b[1]));
    for (unsigned i = 0; i < ASKS; i++) {
        char now = ask_shard(d, i, 0, DIRECTOR_CHOSEN)[1];

        CHECK(had[i] == '1' ? now != '1' : now == had[i]);
    }
    CHECK_EQ(0, director_add(d, p.b[1], 1)); /* its place among the members is another now */
    for (unsigned i = 0; i < ASKS; i++)
        CHECK_EQ(had[i], ask_shard(d, i, 0, DIRECTOR_CHOSEN)[1]);
    director_drop(&d);
    picks_close(&p);
}

TEST(director, shards_alternatives_differ_until_there_are_no_more)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 4);
    d = picks_director(&p, DIRECTOR_SHARD);
    for (unsigned key = 0; key < 1000; key++) {
        unsigned met = 0;

        for (unsigned n = 0; n < 4; n++)
            met |= 1u << (ask_shard(d, key, n, DIRECTOR_CHOSEN)[1] - '0');
        CHECK_EQ(15, met);
        CHECK_STR(ask_shard(d, key, 3, DIRECTOR_IGNORE), ask_shard(d, key, 9, DIRECTOR_CHOSEN));
    }
    director_drop(&d);
    picks_close(&p);
}

TEST(director, shard_heeds_health_as_it_is_asked_to)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 3);
    d = picks_director(&p, DIRECTOR_SHARD);
    for (unsigned key = 0; key < 300; key++) {
        const char *order[3];

        for (unsigned n = 0; n < 3; n++)
            order[n] = ask_shard(d, key, n, DIRECTOR_IGNORE);
        picks_set(&p, (unsigned)(order[0][1] - '0'), BACKEND_SICK);
        CHECK_STR(order[0], ask_shard(d, key, 0, DIRECTOR_IGNORE));
        CHECK_STR(order[1], ask_shard(d, key, 0, DIRECTOR_CHOSEN));
        CHECK_STR(order[1], ask_shard(d, key, 1, DIRECTOR_CHOSEN)); /* skips the sick one */
        CHECK_STR(order[2], ask_shard(d, key, 1, DIRECTOR_ALL));    /* does not count it */
        CHECK_STR(order[2], ask_shard(d, key, 7, DIRECTOR_ALL));
        picks_set(&p, (unsigned)(order[2][1] - '0'), BACKEND_SICK);
        CHECK_STR(order[1], ask_shard(d, key, 2, DIRECTOR_CHOSEN)); /* of those skipped */
        picks_set(&p, (unsigned)(order[1][1] - '0'), BACKEND_SICK);
        CHECK_STR("", ask_shard(d, key, 2, DIRECTOR_CHOSEN));
        CHECK_STR("", ask_shard(d, key, 0, DIRECTOR_ALL));
        for (unsigned i = 0; i < 3; i++)
            picks_set(&p, i, BACKEND_AUTO);
    }
    director_drop(&d);
    picks_close(&p);
}

/* Of ASKS for one key, how many the first choice gets. */
static unsigned
shard_first_share(struct director *d, const char *first, struct director_ask ask)
{
    uint64_t state = 3;
    unsigned n = 0;

    for (unsigned i = 0; i < ASKS; i++) {
        ask.random = picks_random(&state);
        n += strcmp(picks_ask(d, &ask), first) == 0;
    }
    return n;
}

TEST(director, shard_warms_up_the_next_choice)
{
    struct director_ask ask = {.hash = 42, .hash_said = true};
    struct director *d;
    const char *first;
    struct picks p;

    picks_open(&p, 4);
    d = picks_director(&p, DIRECTOR_SHARD);
    first = picks_ask(d, &ask);
    CHECK_EQ(ASKS, shard_first_share(d, first, ask));
    director_shard_set_warmup(d, 0.25);
    check_share(0.75, shard_first_share(d, first, ask));
    ask.warmup_said = true;
    ask.warmup = 0.5;
    check_share(0.5, shard_first_share(d, first, ask));
    ask.warmup = 0;
    CHECK_EQ(ASKS, shard_first_share(d, first, ask));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, shard_ramps_up_who_came_back)
{
    struct director_ask ask = {.hash = 42, .hash_said = true};
    struct director *d;
    const char *first;
    struct picks p;
    unsigned n;
    double changed;

    picks_open(&p, 4);
    d = picks_director(&p, DIRECTOR_SHARD);
    director_shard_set_rampup(d, 100);
    first = picks_ask(d, &ask);
    n = (unsigned)(first[1] - '0');
    CHECK_EQ(ASKS, shard_first_share(d, first, ask)); /* never was sick */
    picks_set(&p, n, BACKEND_SICK);
    picks_set(&p, n, BACKEND_AUTO);
    director_healthy(p.b[n], &changed);
    ask.now_s = changed + 25;
    check_share(0.25, shard_first_share(d, first, ask));
    ask.no_rampup = true;
    CHECK_EQ(ASKS, shard_first_share(d, first, ask));
    ask.no_rampup = false;
    ask.now_s = changed + 100;
    CHECK_EQ(ASKS, shard_first_share(d, first, ask));
    CHECK_EQ(0, director_remove(d, p.b[n]));
    CHECK_EQ(0, director_shard_add(d, p.b[n], slice_of("", 0), 0, 1)); /* its own: none */
    ask.now_s = changed + 1;
    CHECK_EQ(ASKS, shard_first_share(d, first, ask));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, a_shards_weight_is_points_and_its_ident_a_place)
{
    struct director *d;
    struct picks p;
    unsigned of[3];

    picks_open(&p, 3);
    CHECK_EQ(0, director_new(&d, DIRECTOR_SHARD, "d"));
    CHECK_EQ(0, director_shard_add(d, p.b[0], SLICE_LIT("one"), -1, 6));
    CHECK_EQ(0, director_shard_add(d, p.b[1], SLICE_LIT("two"), -1, 1));
    CHECK_EQ(TERR_INVALID, director_shard_add(d, p.b[2], SLICE_LIT("one"), -1, 1));
    CHECK_EQ(0, director_shard_add(d, p.b[1], SLICE_LIT("three"), -1, 1)); /* again */
    CHECK_EQ(0, director_shard_reconfigure(d, 500));
    count(d, of, 3);
    check_share(0.75, of[0]);
    check_share(0.25, of[1]);
    CHECK_EQ(TERR_INVALID, director_shard_reconfigure(d, 0));
    CHECK_EQ(TERR_LIMIT, director_shard_reconfigure(d, SHARD_POINTS_MAX));
    check_share(0.75, of[0]);
    director_shard_clear(d);
    CHECK_STR("", picks_ask(d, &nothing));
    director_drop(&d);
    picks_close(&p);
}

TEST(director, all_sick_is_nobody_whatever_the_kind)
{
    struct picks p;

    picks_open(&p, 3);
    for (unsigned kind = DIRECTOR_ROUND_ROBIN; kind < DIRECTOR_KINDS; kind++) {
        struct director *empty, *d = picks_director(&p, (enum director_kind)kind);

        CHECK(director_healthy(d, NULL));
        for (unsigned i = 0; i < 3; i++)
            picks_set(&p, i, BACKEND_SICK);
        CHECK(director_pick(d, &nothing) == NULL);
        CHECK(director_resolve(d, &nothing) == NULL);
        CHECK(!director_healthy(d, NULL));
        picks_set(&p, 1, BACKEND_HEALTHY);
        CHECK_STR("b1", picks_ask(d, &nothing));
        for (unsigned i = 0; i < 3; i++)
            picks_set(&p, i, BACKEND_AUTO);
        CHECK_EQ(0, director_new(&empty, (enum director_kind)kind, "empty"));
        CHECK(director_pick(empty, &nothing) == NULL);
        director_drop(&empty);
        director_drop(&d);
    }
    picks_close(&p);
}

TEST(director, a_sick_branch_is_passed_over)
{
    struct director *outer, *inner;
    struct picks p;

    picks_open(&p, 3);
    CHECK_EQ(0, director_new(&inner, DIRECTOR_ROUND_ROBIN, "inner"));
    CHECK_EQ(0, director_add(inner, p.b[0], 1));
    CHECK_EQ(0, director_add(inner, p.b[1], 1));
    CHECK_EQ(0, director_new(&outer, DIRECTOR_FALLBACK, "outer"));
    CHECK_EQ(0, director_add(outer, inner, 1));
    CHECK_EQ(0, director_add(outer, p.b[2], 1));
    CHECK(director_resolve(outer, &nothing) == inner);
    CHECK_STR("b0", picks_ask(outer, &nothing));
    picks_set(&p, 1, BACKEND_SICK);
    CHECK_STR("b0", picks_ask(outer, &nothing));
    picks_set(&p, 0, BACKEND_SICK);
    CHECK_STR("b2", picks_ask(outer, &nothing));
    director_drop(&inner);
    director_drop(&outer);
    picks_close(&p);
}

TEST(director, no_director_contains_itself)
{
    struct director *d[3];
    struct picks p;

    picks_open(&p, 1);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(0, director_new(&d[i], DIRECTOR_RANDOM, "d"));
    CHECK_EQ(TERR_INVALID, director_add(d[0], d[0], 1));
    CHECK_EQ(0, director_add(d[0], d[1], 1));
    CHECK_EQ(0, director_add(d[1], d[2], 1));
    CHECK_EQ(TERR_INVALID, director_add(d[2], d[0], 1));
    CHECK_EQ(TERR_INVALID, director_add(d[2], d[1], 1));
    CHECK_EQ(0, director_add(d[2], p.b[0], 1));
    CHECK_STR("b0", picks_ask(d[0], &nothing));
    for (unsigned i = 0; i < 3; i++)
        director_drop(&d[i]);
    picks_close(&p);
}

TEST(director, directors_are_not_nested_without_end)
{
    struct director *at[DIRECTOR_DEPTH_MAX + 2];
    struct picks p;
    unsigned last = DIRECTOR_DEPTH_MAX + 1;

    picks_open(&p, 1);
    for (unsigned i = 0; i <= last; i++)
        CHECK_EQ(0, director_new(&at[i], DIRECTOR_FALLBACK, "d"));
    CHECK_EQ(0, director_add(at[0], p.b[0], 1));
    for (unsigned i = 1; i < DIRECTOR_DEPTH_MAX; i++)
        CHECK_EQ(0, director_add(at[i], at[i - 1], 1));
    CHECK_STR("b0", picks_ask(at[DIRECTOR_DEPTH_MAX - 1], &nothing));
    CHECK_EQ(TERR_LIMIT, director_add(at[last], at[DIRECTOR_DEPTH_MAX - 1], 1));
    /* From the inside it cannot be seen how deep the outside is: nobody is chosen. */
    CHECK_EQ(0, director_add(at[last], at[last - 1], 1));
    CHECK_EQ(0, director_add(at[last - 1], at[DIRECTOR_DEPTH_MAX - 2], 1));
    CHECK_STR("", picks_ask(at[last], &nothing));
    CHECK(!director_healthy(at[last], NULL));
    for (unsigned i = 0; i <= last; i++)
        director_drop(&at[i]);
    picks_close(&p);
}

TEST(director, members_of_members_are_not_multiplied_without_end)
{
    struct director *at[10];
    struct picks p;
    int err = 0;

    picks_open(&p, 1);
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQ(0, director_new(&at[i], DIRECTOR_RANDOM, "d"));
    for (unsigned n = 0; n < 10; n++)
        CHECK_EQ(0, director_add(at[0], p.b[0], 1));
    for (unsigned i = 1; i < 10 && err == 0; i++)
        for (unsigned n = 0; n < 10 && err == 0; n++)
            err = director_add(at[i], at[i - 1], 1);
    CHECK_EQ(TERR_LIMIT, err);
    for (unsigned i = 0; i < 10; i++)
        director_drop(&at[i]);
    picks_close(&p);
}

TEST(director, a_director_keeps_its_members)
{
    struct director *d;
    struct picks p;

    picks_open(&p, 2);
    d = picks_director(&p, DIRECTOR_ROUND_ROBIN);
    director_drop(&p.b[0]);
    registry_sweep(p.rg);
    CHECK_STR("b0", picks_ask(d, &nothing));
    p.b[0] = director_hold(backend_director(director_pick(d, &nothing))); /* b1 */
    CHECK_STR("b1", director_name(p.b[0]));
    director_drop(&d);
    picks_close(&p);
}

TEST_MAIN(TEST_ENTRY(director, a_backend_is_a_director_that_chooses_itself),
    TEST_ENTRY(director, the_registry_finds_what_the_configuration_names),
    TEST_ENTRY(director, a_number_is_used_again_after_its_backend_left),
    TEST_ENTRY(director, there_are_at_most_so_many_backends),
    TEST_ENTRY(director, a_backends_settings_are_a_copy), TEST_ENTRY(director, none_is_always_sick),
    TEST_ENTRY(director, the_operator_overrides_the_probe),
    TEST_ENTRY(director, round_robin_takes_each_in_turn_and_spreads_a_sick_ones_share),
    TEST_ENTRY(director, who_only_peeks_takes_nobodys_turn),
    TEST_ENTRY(director, fallback_takes_the_first_that_is_healthy),
    TEST_ENTRY(director, a_sticky_fallback_stays_with_the_one_that_works),
    TEST_ENTRY(director, random_goes_by_weight_among_the_healthy),
    TEST_ENTRY(director, one_level_of_chance_tells_nothing_of_the_next),
    TEST_ENTRY(director, hash_keeps_its_keys_and_gives_only_a_lost_members_away),
    TEST_ENTRY(director, shard_keeps_its_keys_and_gives_only_a_lost_members_away),
    TEST_ENTRY(director, shards_alternatives_differ_until_there_are_no_more),
    TEST_ENTRY(director, shard_heeds_health_as_it_is_asked_to),
    TEST_ENTRY(director, shard_warms_up_the_next_choice),
    TEST_ENTRY(director, shard_ramps_up_who_came_back),
    TEST_ENTRY(director, a_shards_weight_is_points_and_its_ident_a_place),
    TEST_ENTRY(director, all_sick_is_nobody_whatever_the_kind),
    TEST_ENTRY(director, a_sick_branch_is_passed_over),
    TEST_ENTRY(director, no_director_contains_itself),
    TEST_ENTRY(director, directors_are_not_nested_without_end),
    TEST_ENTRY(director, members_of_members_are_not_multiplied_without_end),
    TEST_ENTRY(director, a_director_keeps_its_members))
