/* tag_race_test.c -- purges by tag while threads store, hit, evict and lurk; for ThreadSanitizer.
 *
 * What is fetched when n purges have begun has the tag tN with N = n, and purge n is for tn, soft
 * each third time.  A reader notes how many purges are through before its lookup: a fresh answer
 * with a smaller number was purged before, and is the failure.  The index has fewer slots than
 * there are keys, so entries move and leave all the time.  The walker asks for how many, too. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "t/unit/test.h"

#include "daemon/cache/tag_purge.h"
#include "daemon/http/tags.h"
#include "t/unit/cache_fixture.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

enum {
#if defined(__SANITIZE_THREAD__)
    LOOKUPS = 10 * 1000, /* of one reader */
#else
    LOOKUPS = 60 * 1000,
#endif
    READERS = 3,
    KEYS = 200,
    INDEX_BITS = 7,
    TURN = 32,             /* lookups between two quiescent states */
    PURGES_PENDING = 2000, /* in the list, before the purger pauses */
};

static struct cache_fixture f;
static atomic_bool stop;
static atomic_int reading;
static atomic_uint begun, through, wrong, hits, stale;
static _Atomic int64_t now_ms;

static unsigned
random_below(uint64_t *seed, unsigned n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*seed >> 33) % n);
}

static void
race_publish(struct entry *e, unsigned n)
{
    struct fresh_verdict v = {.storable = true,
        .ttl_ms = 100 * 1000 * 1000,
        .grace_ms = 100 * 1000 * 1000,
        .error_ms = 100 * 1000 * 1000,
        .keep_ms = 100 * 1000 * 1000,
        .stale_if_error_ms = -1};
    struct entry_part part = {0, 8, body_kept(f.store, 8, 8)};
    struct head_build built;
    char head[80], names[40];
    struct tags tags;
    struct cache_response r = {.status = 200,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .fresh = &v,
        .tags = &tags,
        .received_ms = atomic_load(&now_ms)};

    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nX-No: %u\r\n", n);
    r.head = *head_build_stored(&built, head);
    snprintf(names, sizeof(names), "all t%u", n);
    tags_init(&tags);
    tags_add(&tags, slice_str(names), TAG_SPACES);
    tassert(cache_publish(e, &r) == 0);
    cache_settle(e);
}

static unsigned
race_number(const struct entry *e)
{
    return (unsigned)strtoul(entry_rendered(e).ptr + strlen("OKX-No: "), NULL, 10);
}

static void
race_fetch(struct entry *e, uint64_t *seed)
{
    unsigned n = atomic_load(&begun); /* after the lookup: as late as it may be */

    if (random_below(seed, 64) == 0)
        sched_yield();
    if (random_below(seed, 16) == 0)
        cache_fail(e, TERR_IO);
    else if (random_below(seed, 16) == 0)
        cache_hitmiss(e, NULL, atomic_load(&now_ms), 60000, CACHE_MARK); /* the next are late */
    else
        race_publish(e, n);
}

static void
race_look(struct cache_query *q, struct test_loop *loop, struct test_waiter *tw, uint64_t *seed)
{
    unsigned before = atomic_load(&through);
    struct cache_answer a;

    q->now_ms = atomic_load(&now_ms);
    switch (cache_lookup(f.cache, q, &tw->w, &a)) {
    case CACHE_HIT:
        atomic_fetch_add(&hits, 1);
        if (race_number(a.entry) < before)
            atomic_fetch_add(&wrong, 1);
        break;
    case CACHE_QUEUED:
        cache_cancel(a.entry, &tw->w);
        while (waiter_pending(&tw->w))
            loop_run(loop);
        entry_drop(&a.entry);
        break;
    case CACHE_MISS:
        if (a.entry != NULL) {
            race_fetch(a.entry, seed);
            fixture_drop_both(a.entry);
        }
        break;
    case CACHE_STALE:
        atomic_fetch_add(&stale, 1);
        if (a.refresh != NULL) {
            race_fetch(a.refresh, seed);
            entry_drop(&a.refresh);
        }
        break;
    case CACHE_ABSENT:
    case CACHE_PASS:
        break;
    }
    if (a.old != NULL)
        entry_drop(&a.old);
}

static void *
reader_run(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    struct head_build b;
    struct cache_query q = {.req = head_build(&b, "GET /a HTTP/1.1\n\n")};
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

static void *
purger_run(void *arg)
{
    (void)arg;
    rcu_join();
    for (unsigned n = 0; atomic_load(&reading) > 0; n++) {
        struct clock clock = {.mono_ms = (uint64_t)atomic_load(&now_ms), .wall_ms = 1};
        struct slice tag;
        char text[16];

        tag = slice_of(text, (size_t)snprintf(text, sizeof(text), "t%u", n));
        atomic_store(&begun, n + 1);
        tassert(tag_purge_start(f.cache, &tag, 1, n % 3 == 2, &clock, NULL) == 0);
        atomic_store(&through, n + 1);
        atomic_fetch_add(&now_ms, 1);
        rcu_offline();
        do
            for (unsigned i = 0; i < 50; i++)
                sched_yield();
        while (atomic_load(&reading) > 0 && fixture_count(&f, COUNTER_bans_now) > PURGES_PENDING);
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

static void
walker_wake(struct task *t)
{
    (void)t; /* it looks in each turn */
}

static void *
walker_run(void *arg)
{
    uint64_t n, *found = arg;
    const struct slice all = SLICE_LIT("all");
    struct test_loop loop;
    struct task task;
    struct tag_purge p = {.ban = NULL};

    loop_init(&loop);
    task_init(&task, &loop.queue, walker_wake);
    rcu_join();
    while (!atomic_load(&stop)) {
        struct clock clock = {.mono_ms = (uint64_t)atomic_load(&now_ms), .wall_ms = 1};

        if (p.ban == NULL) {
            p.task = &task;
            tassert(tag_purge_start(f.cache, &all, 1, true, &clock, &p) == 0);
        }
        tag_purge_walk(f.cache, (int64_t)clock.mono_ms);
        if (tag_purge_is_done(&p, &n)) {
            *found += n;
            tag_purge_end(f.cache, &p);
        }
        bans_lurk(cache_bans(f.cache), (int64_t)clock.mono_ms);
        loop_run(&loop);
        rcu_offline();
        sched_yield();
        rcu_online();
    }
    if (p.ban != NULL)
        tag_purge_end(f.cache, &p);
    task_cancel(&task);
    rcu_leave();
    return NULL;
}

TEST(tag_race, nothing_purged_before_a_lookup_began_is_its_fresh_answer)
{
    static const struct bans_conf eager = {0, 64, 1, 0, true};
    pthread_t threads[READERS], purger, walker;
    uint64_t found = 0;

    cache_fixture_open_with(&f, INDEX_BITS);
    rcu_offline();
    bans_configure(cache_bans(f.cache), &eager);
    atomic_store(&now_ms, (int64_t)f.clock.mono_ms);
    atomic_store(&reading, READERS);
    for (uintptr_t i = 0; i < READERS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, reader_run, (void *)(i + 1)));
    CHECK_EQ(0, pthread_create(&purger, NULL, purger_run, NULL));
    CHECK_EQ(0, pthread_create(&walker, NULL, walker_run, &found));
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(purger, NULL);
    atomic_store(&stop, true);
    pthread_join(walker, NULL);
    rcu_online();
    CHECK_EQ(0, atomic_load(&wrong));
    CHECK(atomic_load(&hits) > 0);
    CHECK(atomic_load(&stale) > 0);
    CHECK(found > 0);
    CHECK(fixture_count(&f, COUNTER_cache_purged) > 0);
    CHECK(fixture_count(&f, COUNTER_index_evicted) > 0);
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(tag_race, nothing_purged_before_a_lookup_began_is_its_fresh_answer))
