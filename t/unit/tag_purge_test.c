/* tag_purge_test.c -- purges by tag: what leaves, what becomes stale, what they do not concern. */
#include "t/unit/test.h"

#include "daemon/cache/cache_priv.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/tags.h"
#include "t/unit/cache_fixture.h"

#define REQUEST "GET /a HTTP/1.1\nHost: a.example\n\n"

/* The fetch of a BUSY entry brings a response with these tags, good for a minute and as long stale. */
static void
tagged_publish(struct cache_fixture *f, struct entry *e, const char *names)
{
    struct fresh_verdict v = {.storable = true,
        .ttl_ms = 60000,
        .grace_ms = 60000,
        .error_ms = 60000,
        .keep_ms = 60000,
        .stale_if_error_ms = -1};
    struct entry_part part = {0, 8, body_kept(f->store, 8, 8)};
    struct head_build head;
    struct tags tags;
    struct cache_response r = {
        .head = *head_build_stored(&head, "HTTP/1.1 200 OK\r\nxkey: seen by bans\r\n"),
        .hides_fields = true,
        .tags = &tags,
        .status = 200,
        .body_len = 8,
        .parts = &part,
        .nparts = 1,
        .received_ms = (int64_t)f->clock.mono_ms,
        .fresh = &v};

    tags_init(&tags);
    tags_add(&tags, slice_str(names), TAG_SPACES);
    CHECK_EQ(0, cache_publish(e, &r));
    cache_settle(e);
}

static struct head_build asks;

static struct cache_query
query(struct cache_fixture *f, const char *key)
{
    return fixture_query(f, key, head_build(&asks, REQUEST));
}

static void
store(struct cache_fixture *f, const char *key, const char *names)
{
    struct cache_query q = query(f, key);
    struct entry *e = fixture_miss(f, &q);

    tagged_publish(f, e, names);
    fixture_drop_both(e);
}

static enum cache_verdict
look(struct cache_fixture *f, const char *key)
{
    struct cache_query q = query(f, key);

    return fixture_verdict(f, &q);
}

/* Begins one; who asks has no task that would be woken. */
struct asker {
    struct tag_purge purge;
    struct task task;
    bool woken;
};

static void
asker_run(struct task *t)
{
    container_of(t, struct asker, task)->woken = true;
}

static void
start(struct cache_fixture *f, struct asker *a, const char *tag, bool soft)
{
    const struct slice tags[1] = {slice_str(tag)};

    *a = (struct asker){.purge = {.task = &a->task}};
    task_init(&a->task, &f->loop.queue, asker_run);
    CHECK_EQ(0, tag_purge_start(f->cache, tags, 1, soft, &f->clock, &a->purge));
}

/* How many, once everything has been looked at. */
static uint64_t
finish(struct cache_fixture *f, struct asker *a)
{
    uint64_t n = 0;

    while (tag_purge_walk(f->cache, (int64_t)f->clock.mono_ms))
        CHECK(!tag_purge_is_done(&a->purge, &n));
    CHECK(tag_purge_is_done(&a->purge, &n));
    loop_run(&f->loop);
    CHECK(a->woken);
    tag_purge_end(f->cache, &a->purge);
    return n;
}

static uint64_t
purge(struct cache_fixture *f, const char *tag, bool soft)
{
    struct asker a;

    start(f, &a, tag, soft);
    return finish(f, &a);
}

TEST(tag_purge, what_has_the_tag_leaves_and_nothing_else)
{
    struct cache_fixture f;
    char key[16];

    cache_fixture_open(&f);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        store(&f, key, i % 10 == 0 ? "all ten" : i % 2 == 0 ? "all" : "");
    }
    CHECK_EQ(0, purge(&f, "none", false));
    CHECK_EQ(10, purge(&f, "ten", false));
    CHECK_EQ(0, purge(&f, "ten", false));
    CHECK_EQ(CACHE_MISS, look(&f, "k10"));
    CHECK_EQ(CACHE_HIT, look(&f, "k1"));
    CHECK_EQ(CACHE_HIT, look(&f, "k2"));
    CHECK_EQ(40, purge(&f, "all", false));
    CHECK_EQ(CACHE_HIT, look(&f, "k1"));
    CHECK_EQ(50, fixture_count(&f, COUNTER_cache_purged));
    CHECK_EQ(4, fixture_count(&f, COUNTER_cache_tag_purges));
    cache_fixture_close(&f);
}

TEST(tag_purge, it_counts_at_once_and_what_a_lookup_found_is_counted_too)
{
    struct cache_fixture f;
    struct asker a;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    store(&f, "b", "t");
    store(&f, "c", "u");
    start(&f, &a, "t", false);
    CHECK_EQ(CACHE_MISS, look(&f, "a")); /* nobody has walked yet */
    CHECK_EQ(CACHE_HIT, look(&f, "c"));
    CHECK_EQ(2, finish(&f, &a));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_obj_killed));
    cache_fixture_close(&f);
}

TEST(tag_purge, what_was_stored_later_stays)
{
    struct cache_fixture f;
    struct asker a;

    cache_fixture_open(&f);
    store(&f, "old", "t");
    start(&f, &a, "t", false);
    store(&f, "new", "t");
    CHECK_EQ(1, finish(&f, &a));
    CHECK_EQ(CACHE_HIT, look(&f, "new"));
    start(&f, &a, "t", true);
    store(&f, "newer", "t");
    CHECK_EQ(1, finish(&f, &a));
    CHECK_EQ(CACHE_STALE, look(&f, "new"));
    CHECK_EQ(CACHE_HIT, look(&f, "newer"));
    cache_fixture_close(&f);
}

TEST(tag_purge, soft_makes_stale_once_and_keeps_the_grace)
{
    struct cache_fixture f;
    struct asker a;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    store(&f, "b", "t u");
    f.clock.mono_ms += 1000;
    start(&f, &a, "t", true);
    CHECK_EQ(CACHE_STALE, look(&f, "a"));
    CHECK_EQ(2, finish(&f, &a));
    CHECK_EQ(CACHE_STALE, look(&f, "b"));
    CHECK_EQ(0, purge(&f, "t", true)); /* it was stale already */
    CHECK_EQ(2, fixture_count(&f, COUNTER_cache_purged_soft));
    f.clock.mono_ms += 59000;
    CHECK_EQ(CACHE_STALE, look(&f, "b"));
    f.clock.mono_ms += 2000; /* the grace counts from the purge */
    CHECK_EQ(CACHE_MISS, look(&f, "b"));
    CHECK_EQ(1, purge(&f, "u", false));
    cache_fixture_close(&f);
}

/* What was stale is not said to have become so by the purge. */
TEST(tag_purge, soft_is_nothing_to_what_is_stale)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    f.clock.mono_ms += 3600 * 1000;
    q = query(&f, "a");
    q.now_ms = (int64_t)f.clock.mono_ms - 3600 * 1000;
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK(entry_ttl_left_ms(a.entry, (int64_t)f.clock.mono_ms) < 0);
    CHECK(!entry_make_stale(a.entry, (int64_t)f.clock.mono_ms));
    CHECK(!entry_is_softened(a.entry));
    CHECK(entry_make_stale(a.entry, q.now_ms));
    CHECK(entry_is_softened(a.entry));
    cache_fixture_close(&f);
}

TEST(tag_purge, what_is_being_fetched_is_not_kept)
{
    struct cache_fixture f;
    struct cache_query q;
    struct asker a;
    struct entry *e;

    cache_fixture_open(&f);
    for (unsigned soft = 0; soft < 2; soft++) {
        q = query(&f, "k");
        e = fixture_miss(&f, &q);
        start(&f, &a, "t", soft != 0);
        CHECK_EQ(0, finish(&f, &a)); /* the walk is through before the response comes */
        tagged_publish(&f, e, "t");
        CHECK(cache_usable(e, &q, true)); /* for whom it was fetched */
        CHECK(!cache_usable(e, &q, false));
        fixture_drop_both(e);
        CHECK_EQ(CACHE_MISS, look(&f, "k"));
    }
    store(&f, "k", "t"); /* and what is not of the tag is */
    q = query(&f, "l");
    e = fixture_miss(&f, &q);
    CHECK_EQ(1, purge(&f, "t", false));
    tagged_publish(&f, e, "u");
    fixture_drop_both(e);
    CHECK_EQ(CACHE_HIT, look(&f, "l"));
    cache_fixture_close(&f);
}

TEST(tag_purge, with_too_many_tags_it_is_of_every_tag)
{
    struct cache_fixture f;
    char names[8 * (TAGS_MAX + 2)];
    size_t n = 0;

    cache_fixture_open(&f);
    for (unsigned i = 0; i < TAGS_MAX + 1; i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "t%u ", i);
    store(&f, "many", names);
    store(&f, "few", "t1");
    CHECK_EQ(1, purge(&f, "other", false));
    CHECK_EQ(CACHE_MISS, look(&f, "many"));
    CHECK_EQ(CACHE_HIT, look(&f, "few"));
    cache_fixture_close(&f);
}

TEST(tag_purge, purges_that_wait_share_a_walk)
{
    struct cache_fixture f;
    struct asker a, b, c;
    uint64_t n;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    store(&f, "b", "u");
    store(&f, "c", "t u v");
    start(&f, &a, "v", true);
    start(&f, &b, "t", false);
    start(&f, &c, "u", false);
    CHECK_EQ(1, finish(&f, &a));
    CHECK(tag_purge_is_done(&b.purge, &n));
    CHECK_EQ(2, n);
    CHECK(tag_purge_is_done(&c.purge, &n));
    CHECK_EQ(1, n); /* each response leaves once */
    tag_purge_end(f.cache, &b.purge);
    tag_purge_end(f.cache, &c.purge);
    cache_fixture_close(&f);
}

TEST(tag_purge, who_does_not_wait_is_walked_for_within_a_second)
{
    const struct slice tags[1] = {SLICE_LIT("t")};
    struct cache_fixture f;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    CHECK_EQ(0, purge(&f, "x", false));
    CHECK_EQ(0, tag_purge_start(f.cache, tags, 1, false, &f.clock, NULL));
    CHECK(!tag_purge_walk(f.cache, (int64_t)f.clock.mono_ms + 999));
    CHECK_EQ(0, fixture_count(&f, COUNTER_cache_purged));
    while (tag_purge_walk(f.cache, (int64_t)f.clock.mono_ms + 1000))
        ;
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_purged));
    /* One that is never walked for, at the end. */
    CHECK_EQ(0, tag_purge_start(f.cache, tags, 1, false, &f.clock, NULL));
    cache_fixture_close(&f);
}

TEST(tag_purge, what_is_no_purge_is_refused)
{
    static char text[TAGS_BYTES_MAX + 1];
    static struct slice tags[TAG_PURGE_MAX + 1];
    struct cache_fixture f;

    cache_fixture_open(&f);
    memset(text, 'x', sizeof(text));
    for (unsigned i = 0; i <= TAG_PURGE_MAX; i++)
        tags[i] = SLICE_LIT("t");
    CHECK_EQ(TERR_INVALID, tag_purge_start(f.cache, tags, 0, false, &f.clock, NULL));
    CHECK_EQ(
        TERR_INVALID, tag_purge_start(f.cache, tags, TAG_PURGE_MAX + 1, false, &f.clock, NULL));
    CHECK_EQ(0, tag_purge_start(f.cache, tags, TAG_PURGE_MAX, false, &f.clock, NULL));
    tags[0] = slice_of(text, sizeof(text));
    CHECK_EQ(TERR_INVALID, tag_purge_start(f.cache, tags, 1, false, &f.clock, NULL));
    tags[0] = SLICE_LIT("");
    CHECK_EQ(TERR_INVALID, tag_purge_start(f.cache, tags, 1, false, &f.clock, NULL));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_added));
    cache_fixture_close(&f);
}

static bool
text_on_ban(void *ctx, const struct ban_info *info)
{
    snprintf(ctx, 80, "%.*s", (int)info->text.len, info->text.ptr);
    return false;
}

TEST(tag_purge, it_stands_in_the_list_of_bans_and_leaves_it_as_they_do)
{
    const struct slice tags[2] = {SLICE_LIT("a b"), SLICE_LIT("c")};
    struct cache_fixture f;
    char text[80] = "";

    cache_fixture_open(&f);
    store(&f, "a", "t");
    CHECK_EQ(0, tag_purge_start(f.cache, tags, 2, true, &f.clock, NULL));
    bans_each(cache_bans(f.cache), text_on_ban, text);
    CHECK_STR("purge-tag --soft a b c", text);
    CHECK_EQ(0, purge(&f, "c", false));
    f.clock.mono_ms += 61000;
    fixture_lurk(&f);
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_now)); /* the newest always stays */
    cache_fixture_close(&f);
}

TEST(tag_purge, fields_that_clients_do_not_see_are_there_for_bans)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    cache_fixture_open(&f);
    store(&f, "a", "t");
    q = query(&f, "a");
    CHECK_EQ(CACHE_HIT, fixture_look(&f, &q, &a));
    CHECK(slice_eq(entry_rendered(a.entry), SLICE_LIT("OK"))); /* the reason, and no field */
    CHECK_EQ(1, a.entry->block->ntags);
    CHECK(entry_tags(a.entry)[0] == tag_hash(SLICE_LIT("t")));
    CHECK_EQ(strlen("OKxkey: seen by bans\r\n") + 3 + 8, entry_bytes(a.entry));
    CHECK_EQ(0, fixture_ban(&f, "obj.http.xkey ~ bans"));
    CHECK_EQ(CACHE_MISS, look(&f, "a"));
    cache_fixture_close(&f);
}

/* More than a slice, in an index that has to move keys; those are all that may be overlooked. */
TEST(tag_purge, a_walk_in_slices_sees_all)
{
    struct cache_fixture f;
    struct asker a;
    char key[16];
    unsigned slices = 0;
    uint64_t n;

    cache_fixture_open_with(&f, 14);
    for (unsigned i = 0; i < 12000; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        store(&f, key, i % 100 == 0 ? "few" : "most");
    }
    CHECK_EQ(120, purge(&f, "few", false));
    start(&f, &a, "most", false);
    while (tag_purge_walk(f.cache, (int64_t)f.clock.mono_ms))
        slices++;
    CHECK(slices > 20);
    CHECK(tag_purge_is_done(&a.purge, &n));
    CHECK_EQ(11880, n);
    tag_purge_end(f.cache, &a.purge);
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(tag_purge, what_has_the_tag_leaves_and_nothing_else),
    TEST_ENTRY(tag_purge, it_counts_at_once_and_what_a_lookup_found_is_counted_too),
    TEST_ENTRY(tag_purge, what_was_stored_later_stays),
    TEST_ENTRY(tag_purge, soft_makes_stale_once_and_keeps_the_grace),
    TEST_ENTRY(tag_purge, soft_is_nothing_to_what_is_stale),
    TEST_ENTRY(tag_purge, what_is_being_fetched_is_not_kept),
    TEST_ENTRY(tag_purge, with_too_many_tags_it_is_of_every_tag),
    TEST_ENTRY(tag_purge, purges_that_wait_share_a_walk),
    TEST_ENTRY(tag_purge, who_does_not_wait_is_walked_for_within_a_second),
    TEST_ENTRY(tag_purge, what_is_no_purge_is_refused),
    TEST_ENTRY(tag_purge, it_stands_in_the_list_of_bans_and_leaves_it_as_they_do),
    TEST_ENTRY(tag_purge, fields_that_clients_do_not_see_are_there_for_bans),
    TEST_ENTRY(tag_purge, a_walk_in_slices_sees_all))
