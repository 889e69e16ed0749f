/* director_race_test.c -- choosing on many threads while health changes and backends come and go.
 *
 * The test's own thread is the management thread: it makes backends, alone and within
 * directors, hands them to the others, who choose and then drop them, and sweeps.  Threads
 * count; what they counted is judged when they have ended.
 */
#include "t/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "daemon/origin/probe.h"
#include "t/unit/origin_fixture.h"

enum {
    RACE_THREADS = 4,
    RACE_TURNS = 20000, /* of each thread */
    RACE_SLOTS = 8,     /* handed over at a time */
    RACE_BACKENDS = 5,
};

static struct race {
    struct picks p;
    struct director *kinds[DIRECTOR_KINDS]; /* each with the backends that stay */
    _Atomic(struct director *) slots[RACE_SLOTS];
    _Atomic unsigned running, got, wrong;
} race;

static void
race_look(struct director *d, const struct director_ask *ask)
{
    struct backend *b = director_pick(d, ask);
    struct director *held;
    struct probe_seen seen;

    if (b == NULL)
        return; /* all were sick at that moment */
    held = director_hold(backend_director(b));
    backend_probe_seen(b, &seen);
    if (strncmp(backend_full_name(b), "boot.", 5) != 0 || backend_number(b) >= BACKENDS_MAX ||
        (seen.probed && seen.healthy != (seen.good >= seen.threshold)))
        atomic_fetch_add(&race.wrong, 1);
    director_drop(&held);
}

static void *
race_choose(void *arg)
{
    uint64_t state = *(unsigned *)arg;

    /* On a machine with much to do the management thread may not have had a turn yet. */
    for (unsigned turn = 0; turn < RACE_TURNS || atomic_load(&race.got) == 0; turn++) {
        struct director_ask ask = {.random = picks_random(&state), .hash = turn, .hash_said = true};
        struct director *d = race.kinds[1 + turn % (DIRECTOR_KINDS - 1)];

        race_look(d, &ask);
        d = atomic_exchange(&race.slots[ask.random % RACE_SLOTS], NULL);
        if (d == NULL)
            continue;
        race_look(d, &ask);
        director_drop(&d);
        atomic_fetch_add(&race.got, 1);
    }
    atomic_fetch_sub(&race.running, 1);
    return NULL;
}

static void
race_count(void *ctx, struct backend *b)
{
    unsigned *n = ctx;

    if (backend_full_name(b) != NULL)
        (*n)++;
}

/* A backend with or without a probe, every other time within two directors. */
static struct director *
race_make(unsigned turn)
{
    struct probe_conf probe = PROBE_CONF_DEFAULT;
    struct director *b = NULL, *inner = NULL, *outer = NULL;

    probe.initial = 3;
    CHECK_EQ(0, backend_new(&b, race.p.rg, &picks_conf()->backends[0], turn % 3 ? &probe : NULL,
                    "x", "boot.x"));
    if (turn % 2 == 0)
        return b;
    CHECK_EQ(0, director_new(&inner, DIRECTOR_SHARD, "inner"));
    CHECK_EQ(0, director_add(inner, b, 1));
    CHECK_EQ(0, director_new(&outer, DIRECTOR_HASH, "outer"));
    CHECK_EQ(0, director_add(outer, inner, 1));
    CHECK_EQ(0, director_add(outer, race.p.b[0], 1));
    director_drop(&inner);
    director_drop(&b);
    return outer;
}

/* The management thread's part, until the others have ended; how many it handed over. */
static unsigned
race_manage(void)
{
    unsigned given = 0, n;

    for (unsigned turn = 0; atomic_load(&race.running) > 0; turn++) {
        struct director *none = NULL, *d = race_make(turn);

        if (atomic_compare_exchange_strong(&race.slots[turn % RACE_SLOTS], &none, d))
            given++;
        else
            director_drop(&d);
        picks_set(&race.p, turn % RACE_BACKENDS, (enum backend_admin)(turn / 3 % 3));
        registry_sweep(race.p.rg);
        n = 0;
        registry_each(race.p.rg, race_count, &n);
        CHECK(n >= PICK_YAML + RACE_BACKENDS);
        sched_yield();
    }
    return given;
}

TEST(director, choosing_needs_no_lock)
{
    pthread_t threads[RACE_THREADS];
    unsigned seeds[RACE_THREADS], given, left = 0;

    picks_open(&race.p, RACE_BACKENDS);
    for (unsigned kind = 1; kind < DIRECTOR_KINDS; kind++)
        race.kinds[kind] = picks_director(&race.p, (enum director_kind)kind);
    director_set_sticky(race.kinds[DIRECTOR_FALLBACK], true);
    atomic_store(&race.running, RACE_THREADS);
    for (unsigned i = 0; i < RACE_THREADS; i++) {
        seeds[i] = i;
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_choose, &seeds[i]));
    }
    given = race_manage();
    for (unsigned i = 0; i < RACE_THREADS; i++)
        CHECK_EQ(0, pthread_join(threads[i], NULL));
    for (unsigned i = 0; i < RACE_SLOTS; i++) {
        struct director *d = atomic_load(&race.slots[i]);

        if (d != NULL) {
            director_drop(&d);
            left++;
        }
    }
    CHECK_EQ(0, atomic_load(&race.wrong));
    CHECK_EQ(given, atomic_load(&race.got) + left);
    CHECK(atomic_load(&race.got) > 0);
    for (unsigned kind = 1; kind < DIRECTOR_KINDS; kind++)
        director_drop(&race.kinds[kind]);
    picks_close(&race.p);
}

TEST_MAIN(TEST_ENTRY(director, choosing_needs_no_lock))
