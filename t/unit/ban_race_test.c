/* ban_race_test.c -- bans while threads race; made for ThreadSanitizer.
 *
 * A response says in X-No how many bans had been added (BEFORE its fetch began) and every ban
 * says "obj.http.x-no < n" by an expression: obj.http.x-no ~ ^n-1$ kills what was fetched between
 * ban n-1 and ban n.  A reader notes which bans had been added before its lookup: a hit whose
 * number is smaller has been banned, and is the failure.  One thread bans, one is the lurker,
 * readers fetch what they miss, some of it late, and purge now and then.
 *
 * Tried against: what comes late moved up untested, and a reference that moving does not count;
 * both are noticed each time. */
#include <pthread.h>
#include <sched.h>

#include "t/unit/test.h"

#include "t/unit/cache_fixture.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

enum {
#if defined(__SANITIZE_THREAD__)
    LOOKUPS = 60 * 1000, /* of one reader */
#else
    LOOKUPS = 200 * 1000,
#endif
    READERS = 3,
    KEYS = 200,
    TURN = 32,           /* lookups between two quiescent states */
    BANS_PENDING = 3000, /* in the list, before the banner pauses */
};

static struct cache_fixture f; /* the racers'; its clock only moves in the banner's copy */
static atomic_bool stop;
static atomic_int reading;
static atomic_uint added, taken, wrong, hits; /* bans added: counted before and after */
static _Atomic int64_t now_ms;

static unsigned
random_below(uint64_t *seed, unsigned n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*seed >> 33) % n);
}

/* What a fetch brings that began when `n` bans had been begun. */
static void
race_publish(struct entry *e, unsigned n)
{
    struct fresh_verdict v = {
        .storable = true, .ttl_ms = 100 * 1000 * 1000, .stale_if_error_ms = -1};
    struct entry_part part = {0, 8, body_kept(f.store, 8, 8)};
    struct cache_response r = {
        .status = 200, .body_len = 8, .parts = &part, .nparts = 1, .fresh = &v};
    struct head_build built;
    char head[80];

    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nX-No: %u\r\n", n);
    r.head = *head_build_stored(&built, head);
    r.received_ms = atomic_load(&now_ms);
    tassert(cache_publish(e, &r) == 0);
    cache_settle(e);
}

/* The number in a stored head. */
static unsigned
race_number(const struct entry *e)
{
    return (unsigned)strtoul(entry_rendered(e).ptr + strlen("OKX-No: "), NULL, 10);
}

static void
race_fetch(struct entry *e, unsigned begun, uint64_t *seed)
{
    switch (random_below(seed, 16)) {
    case 0:
        cache_fail(e, TERR_IO);
        break;
    case 1:
        cache_hitmiss(
            e, NULL, atomic_load(&now_ms), 60000, CACHE_MARK); /* the next ones are late */
        break;
    default:
        if (random_below(seed, 4) == 0)
            sched_yield();
        race_publish(e, begun);
    }
    fixture_drop_both(e);
}

static void
race_look(struct cache_query *q, struct test_loop *loop, struct test_waiter *tw, uint64_t *seed)
{
    unsigned before = atomic_load(&added);
    struct cache_answer a;

    q->now_ms = atomic_load(&now_ms);
    switch (cache_lookup(f.cache, q, &tw->w, &a)) {
    case CACHE_HIT:
        atomic_fetch_add(&hits, 1);
        if (race_number(a.entry) < before)
            atomic_fetch_add(&wrong, 1);
        return;
    case CACHE_QUEUED:
        cache_cancel(a.entry, &tw->w);
        while (waiter_pending(&tw->w)) /* told before we left the queue */
            loop_run(loop);
        if (entry_state(a.entry) == ENTRY_READY && cache_usable(a.entry, q, false) &&
            race_number(a.entry) < before)
            atomic_fetch_add(&wrong, 1);
        entry_drop(&a.entry);
        return;
    case CACHE_MISS:
        if (a.old != NULL)
            entry_drop(&a.old);
        if (a.entry != NULL) /* the number is taken as late as it may be: after the lookup */
            race_fetch(a.entry, atomic_load(&taken), seed);
        return;
    case CACHE_STALE:
    case CACHE_ABSENT:
    case CACHE_PASS:
        return;
    }
}

static void *
reader_run(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    struct head_build b;
    struct cache_query q = {.req = head_build(&b, "GET /a HTTP/1.1\nX-Other: yes\n\n")};
    struct test_loop loop;
    struct test_waiter tw;
    char key[16];

    loop_init(&loop);
    test_waiter_init(&tw, &loop);
    rcu_join();
    for (unsigned n = 0; n < LOOKUPS; n++) {
        snprintf(key, sizeof(key), "k%u", random_below(&seed, KEYS));
        q.key = fixture_key(key);
        q.for_policy = random_below(&seed, 2) == 0;
        race_look(&q, &loop, &tw, &seed);
        if (random_below(&seed, 256) == 0)
            cache_purge_soft(f.cache, &q.key, q.now_ms, random_below(&seed, 2) * 1000, -1, -1);
        if (n % TURN == 0) {
            rcu_offline();
            rcu_online();
        }
    }
    rcu_leave();
    atomic_fetch_sub(&reading, 1);
    return NULL;
}

/* Ban n + 1 is for what was fetched after ban n: what came before n has been banned by n. */
static void
race_ban(unsigned n, uint64_t *seed)
{
    static const char *const more[] = {"", " && req.http.x-other == yes", " && obj.grace == 0s"};
    struct clock clock = {.mono_ms = (uint64_t)atomic_load(&now_ms), .wall_ms = 1};
    char text[100], why[300];

    snprintf(text, sizeof(text), "obj.http.x-no ~ ^%u$%s", n,
        more[random_below(seed, 16) == 0 ? 1 : random_below(seed, 2) * 2]);
    if (random_below(seed, 8) == 0) /* equal to others, and matches the same and more */
        snprintf(text, sizeof(text), "obj.http.x-no ~ .");
    atomic_store(&taken, n + 1);
    tassert(bans_add(cache_bans(f.cache), slice_str(text), &clock, why, sizeof(why)) == 0);
    atomic_store(&added, n + 1);
}

static void *
banner_run(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    rcu_join();
    for (unsigned n = 0; atomic_load(&reading) > 0; n++) {
        race_ban(n, &seed);
        atomic_fetch_add(&now_ms, 1);
        rcu_offline();
        do
            for (unsigned i = 0; i < 50; i++)
                sched_yield();
        while (atomic_load(&reading) > 0 && fixture_count(&f, COUNTER_bans_now) > BANS_PENDING);
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

static void *
lurker_run(void *arg)
{
    (void)arg;
    rcu_join();
    while (!atomic_load(&stop)) {
        bans_lurk(cache_bans(f.cache), atomic_load(&now_ms));
        rcu_offline();
        sched_yield();
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

/* With every entry gone no ban but the newest is needed: no count was lost. */
static void
race_empty(void)
{
    char key[16];

    for (unsigned i = 0; i < KEYS; i++) {
        struct hash128 k;

        snprintf(key, sizeof(key), "k%u", i);
        k = fixture_key(key);
        cache_purge(f.cache, &k);
    }
    cache_fixture_grace();
    for (unsigned i = 0; i < 100; i++)
        bans_lurk(cache_bans(f.cache), atomic_load(&now_ms));
}

TEST(ban_race, nothing_banned_before_a_lookup_began_is_its_answer)
{
    static const struct bans_conf eager = {0, 64, 1, 0, true};
    pthread_t threads[READERS], banner, lurker;

    cache_fixture_open_with(&f, 9);
    rcu_offline();
    bans_configure(cache_bans(f.cache), &eager);
    atomic_store(&now_ms, (int64_t)f.clock.mono_ms);
    atomic_store(&reading, READERS);
    for (uintptr_t i = 0; i < READERS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, reader_run, (void *)(i + 1)));
    CHECK_EQ(0, pthread_create(&banner, NULL, banner_run, (void *)(uintptr_t)77));
    CHECK_EQ(0, pthread_create(&lurker, NULL, lurker_run, NULL));
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(banner, NULL);
    atomic_store(&stop, true);
    pthread_join(lurker, NULL);
    rcu_online();
    CHECK_EQ(0, atomic_load(&wrong));
    CHECK(atomic_load(&hits) > LOOKUPS / 10);
    CHECK(fixture_count(&f, COUNTER_bans_obj_killed) > 0);
    CHECK(fixture_count(&f, COUNTER_bans_lurker_obj_killed) > 0);
    race_empty();
    CHECK_EQ(atomic_load(&added) - 1, fixture_count(&f, COUNTER_bans_deleted));
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(ban_race, nothing_banned_before_a_lookup_began_is_its_answer))
