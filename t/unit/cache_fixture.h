/* cache_fixture.h -- a cache over a store of its own, with a hand-run loop, for the cache's tests.
 *
 * The thread that uses it is registered with RCU meanwhile. */
#ifndef TARN_CACHE_FIXTURE_H
#define TARN_CACHE_FIXTURE_H

#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/cache/ban.h"
#include "daemon/cache/cache.h"
#include "daemon/http/freshness.h"
#include "daemon/shm/counters.h"
#include "t/unit/head_build.h"
#include "t/unit/storage_fixture.h"

struct cache_fixture {
    struct storage *store;
    struct counters *counters;
    struct cache *cache;
    struct test_loop loop;
    struct test_waiter waiter;
    struct clock clock;
};

/* What is stored by store_response(). */
struct stored {
    const char *head; /* status line and fields with CRLF */
    uint16_t status;
    int64_t ttl_ms, grace_ms, keep_ms, age_ms; /* keep: from the end of the ttl */
};

#define STORED_PLAIN \
    "HTTP/1.1 200 OK\r\nX-Tag: a, b\r\nX-Tag: second\r\nContent-Type: text/html\r\n"

static inline void
cache_fixture_open_with(struct cache_fixture *f, unsigned bits)
{
    struct conf_index conf = {.bits = (int64_t)bits, .slots = 8};
    struct conf_storage store = {.size = UINT64_C(64) << 20, .eviction = "s3-fifo"};

    *f = (struct cache_fixture){.clock = {.mono_ms = 10 * 1000 * 1000, .wall_ms = 1700000000000}};
    hash_secret_fix(1);
    f->store = store_open("malloc", UINT64_C(64) << 20, "");
    CHECK_EQ(0, counters_open(&f->counters, NULL, 1));
    CHECK_EQ(0, cache_open(&f->cache, &conf, f->store, &store, f->counters));
    loop_init(&f->loop);
    test_waiter_init(&f->waiter, &f->loop);
    rcu_join();
}

static inline void
cache_fixture_open(struct cache_fixture *f)
{
    cache_fixture_open_with(f, 8);
}

static inline void
cache_fixture_close(struct cache_fixture *f)
{
    rcu_leave();
    cache_close(&f->cache);
    store_close(f->store);
    counters_close(&f->counters);
}

/* What was to be freed is freed. */
static inline void
cache_fixture_grace(void)
{
    rcu_leave();
    rcu_barrier_wait();
    rcu_join();
}

static inline uint64_t
fixture_count(const struct cache_fixture *f, enum counter id)
{
    return counters_sum(f->counters, id);
}

static inline struct hash128
fixture_key(const char *name)
{
    return hash_bytes(name, strlen(name));
}

static inline struct cache_query
fixture_query(const struct cache_fixture *f, const char *key, const struct http_message *req)
{
    return (struct cache_query){
        .key = fixture_key(key),
        .req = req,
        .now_ms = (int64_t)f->clock.mono_ms,
        .wall_ms = f->clock.wall_ms,
    };
}

/* The fetch of a BUSY entry brings this, whole. */
static inline void
fixture_publish(struct cache_fixture *f, struct entry *e, const struct stored *s)
{
    struct fresh_verdict v = {.storable = true,
        .ttl_ms = s->ttl_ms,
        .grace_ms = s->grace_ms,
        .error_ms = s->grace_ms,
        .keep_ms = s->keep_ms,
        .stale_if_error_ms = -1,
        .age_ms = s->age_ms};
    struct entry_part part = {0, 8, body_kept(f->store, 8, 8)};
    struct head_build head;
    struct cache_response r = {.head = *head_build_stored(&head, s->head),
        .status = s->status,
        .origin_status = s->status,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .received_ms = (int64_t)f->clock.mono_ms,
        .fresh = &v};

    CHECK_EQ(0, cache_publish(e, &r));
    cache_settle(e);
}

/* A lookup that must be a MISS with an entry of its own, and its two holds. */
static inline struct entry *
fixture_miss(struct cache_fixture *f, const struct cache_query *q)
{
    struct cache_answer answer;

    CHECK_EQ(CACHE_MISS, cache_lookup(f->cache, q, &f->waiter.w, &answer));
    CHECK(answer.entry != NULL);
    if (answer.old != NULL)
        entry_drop(&answer.old);
    return answer.entry;
}

static inline void
fixture_drop_both(struct entry *e)
{
    struct entry *fetch = e;

    entry_drop(&fetch);
    entry_drop(&e);
}

static inline void
store_response(struct cache_fixture *f, const char *key, const struct http_message *req,
    const struct stored *s)
{
    struct cache_query q = fixture_query(f, key, req);
    struct entry *e = fixture_miss(f, &q);

    fixture_publish(f, e, s);
    fixture_drop_both(e);
}

/* The verdict; what the lookup made or held is failed and given back.  *e (may be NULL): what was
 * borrowed. */
static inline enum cache_verdict
fixture_look(struct cache_fixture *f, const struct cache_query *q, struct cache_answer *a)
{
    enum cache_verdict v = cache_lookup(f->cache, q, &f->waiter.w, a);

    if (v == CACHE_QUEUED) {
        cache_cancel(a->entry, &f->waiter.w);
        entry_drop(&a->entry);
    } else if (v == CACHE_MISS && a->entry != NULL) {
        cache_fail(a->entry, TERR_IO);
        fixture_drop_both(a->entry);
    } else if (v == CACHE_STALE && a->refresh != NULL) {
        cache_fail(a->refresh, TERR_IO);
        entry_drop(&a->refresh);
    }
    if (a->old != NULL)
        entry_drop(&a->old);
    return v;
}

static inline enum cache_verdict
fixture_verdict(struct cache_fixture *f, const struct cache_query *q)
{
    struct cache_answer a;

    return fixture_look(f, q, &a);
}

static inline int
fixture_ban(struct cache_fixture *f, const char *expression)
{
    char why[300] = "";
    int err = bans_add(cache_bans(f->cache), slice_str(expression), &f->clock, why, sizeof(why));

    if (err != 0)
        fprintf(stderr, "%s: %s\n", expression, why);
    return err;
}

/* Steps of the lurker until it would sleep for longer than between batches. */
static inline void
fixture_lurk(struct cache_fixture *f)
{
    for (unsigned i = 0; i < 1000; i++)
        if (bans_lurk(cache_bans(f->cache), (int64_t)f->clock.mono_ms) > 10)
            return;
    CHECK(false);
}

#endif
