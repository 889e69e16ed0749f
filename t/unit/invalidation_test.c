/* invalidation_test.c -- one record for each way in which responses end, and who is told of it. */
#include "t/unit/test.h"

#include "conf/conf.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/cache/invalidation.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/tags.h"
#include "t/unit/cache_fixture.h"

#define REQUEST "GET /a HTTP/1.1\nHost: a.example\n\n"

static struct head_build asks;

static struct cache_query
query(struct cache_fixture *f, const char *key)
{
    return fixture_query(f, key, head_build(&asks, REQUEST));
}

/* Good for a minute, and as long stale. */
static const struct stored plain = {
    .head = STORED_PLAIN, .status = 200, .ttl_ms = 60000, .grace_ms = 60000, .keep_ms = 60000};

static void
store(struct cache_fixture *f, const char *key)
{
    store_response(f, key, head_build(&asks, REQUEST), &plain);
}

static enum cache_verdict
look(struct cache_fixture *f, const char *key)
{
    struct cache_query q = query(f, key);

    return fixture_verdict(f, &q);
}

/* ---- A log that remembers ---- */

static struct {
    unsigned n, open;
    struct invalidation last;
    char text[200], tag[40], field[80];
} told;

static uint64_t
told_append(void *ctx, const struct invalidation *inv)
{
    CHECK(ctx == &told);
    CHECK_EQ(1, told.open);
    told.n++;
    told.last = *inv;
    snprintf(told.text, sizeof(told.text), "%.*s", (int)inv->text.len, inv->text.ptr);
    if (inv->ntags > 0)
        snprintf(told.tag, sizeof(told.tag), "%.*s", (int)inv->tags[0].len, inv->tags[0].ptr);
    if (inv->nfields > 0)
        snprintf(told.field, sizeof(told.field), "%.*s=%.*s", (int)inv->fields[0].name.len,
            inv->fields[0].name.ptr, (int)inv->fields[0].value.len, inv->fields[0].value.ptr);
    return told.n;
}

static void
told_begin(void *ctx)
{
    CHECK(ctx == &told);
    CHECK_EQ(0, told.open);
    told.open++;
}

static void
told_end(void *ctx)
{
    CHECK(ctx == &told);
    CHECK_EQ(1, told.open);
    told.open--;
}

static const struct invalidation_log log_of_texts = {
    .append = told_append, .begin = told_begin, .end = told_end, .ctx = &told, .wants_text = true};
static const struct invalidation_log log_of_hashes = {
    .append = told_append, .begin = told_begin, .end = told_end, .ctx = &told};

static void
open_told(struct cache_fixture *f, const struct invalidation_log *log)
{
    memset(&told, 0, sizeof(told));
    cache_fixture_open(f);
    cache_set_invalidation_log(f->cache, log);
}

/* What it says of the key of a URL: the path alone. */
static int
resolve(void *ctx, const struct invalidation *inv, struct hash128 *key, const char **why)
{
    struct slice path = inv->text;

    (void)ctx;
    *why = "that is no URL";
    if (path.len < 8 || memcmp(path.ptr, "http://x", 8) != 0)
        return TERR_SYNTAX;
    *key = hash_bytes(path.ptr + 8, path.len - 8);
    return 0;
}

static int
make(struct cache_fixture *f, const struct invalidation *inv, struct invalidation_result *out)
{
    *out = (struct invalidation_result){.wait = NULL};
    return invalidation_make(f->cache, inv, &f->clock, out);
}

TEST(invalidation, a_key_leaves_becomes_stale_or_was_changed)
{
    const struct invalidation hard = {.kind = INVALIDATION_KEY, .text = SLICE_LIT("k")};
    const struct invalidation soft = {.kind = INVALIDATION_KEY,
        .soft = true,
        .grace_ms = -1,
        .keep_ms = -1,
        .text = SLICE_LIT("k")};
    const struct invalidation changed = {
        .kind = INVALIDATION_KEY, .changed = true, .text = SLICE_LIT("k")};
    struct invalidation_result out;
    struct cache_fixture f;

    open_told(&f, &log_of_texts);
    store(&f, "k");
    CHECK_EQ(0, make(&f, &soft, &out));
    CHECK_EQ(1, out.how_many);
    CHECK(told.last.soft && told.last.grace_ms == -1);
    CHECK_EQ(CACHE_STALE, look(&f, "k"));
    CHECK_EQ(0, make(&f, &hard, &out));
    CHECK_EQ(1, out.how_many);
    CHECK(!told.last.soft && !told.last.changed);
    CHECK_EQ(CACHE_MISS, look(&f, "k"));
    store(&f, "k");
    CHECK_EQ(0, make(&f, &changed, &out));
    CHECK_EQ(1, out.how_many);
    CHECK(told.last.changed);
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_invalidated));
    /* Nothing is stored here; elsewhere there may be. */
    CHECK_EQ(0, make(&f, &changed, &out));
    CHECK_EQ(0, out.how_many);
    CHECK_EQ(4, told.n);
    CHECK_STR("k", told.text);
    cache_fixture_close(&f);
}

TEST(invalidation, a_key_that_is_known_needs_no_text_unless_a_log_asks)
{
    const struct hash128 key = fixture_key("k");
    struct invalidation inv = {.kind = INVALIDATION_KEY, .key = &key};
    struct invalidation_result out;
    struct cache_fixture f;

    open_told(&f, NULL);
    CHECK(!invalidation_wants_text(f.cache));
    store(&f, "k");
    CHECK_EQ(0, make(&f, &inv, &out));
    CHECK_EQ(1, out.how_many);
    CHECK_EQ(0, told.n);
    cache_set_invalidation_log(f.cache, &log_of_hashes);
    CHECK(!invalidation_wants_text(f.cache));
    CHECK_EQ(0, invalidation_make(f.cache, &inv, &f.clock, NULL));
    CHECK_EQ(1, told.n);
    cache_set_invalidation_log(f.cache, &log_of_texts);
    CHECK(invalidation_wants_text(f.cache));
    inv.text = SLICE_LIT("k");
    CHECK_EQ(0, make(&f, &inv, &out));
    CHECK_STR("k", told.text);
    cache_fixture_close(&f);
}

TEST(invalidation, a_url_is_resolved_by_who_knows_how)
{
    const struct invalidation_field fields[] = {{SLICE_LIT("X-Language"), SLICE_LIT("de")}};
    struct invalidation inv = {
        .kind = INVALIDATION_URL, .text = SLICE_LIT("http://xk"), .fields = fields, .nfields = 1};
    struct invalidation_result out;
    struct cache_fixture f;

    open_told(&f, &log_of_texts);
    store(&f, "k");
    CHECK_EQ(TERR_INVALID, make(&f, &inv, &out));
    cache_set_resolver(f.cache, (struct invalidation_resolver){resolve, NULL});
    inv.soft = true;
    CHECK_EQ(0, make(&f, &inv, &out));
    CHECK_EQ(1, out.how_many);
    CHECK_EQ(CACHE_STALE, look(&f, "k"));
    inv.soft = false;
    CHECK_EQ(0, make(&f, &inv, &out));
    CHECK_EQ(CACHE_MISS, look(&f, "k"));
    CHECK_EQ(2, told.n);
    CHECK_STR("http://xk", told.text);
    CHECK_STR("X-Language=de", told.field);
    inv.text = SLICE_LIT("k");
    CHECK_EQ(TERR_SYNTAX, make(&f, &inv, &out));
    CHECK_STR("that is no URL", out.why);
    CHECK_EQ(2, told.n);
    cache_fixture_close(&f);
}

TEST(invalidation, tags_and_bans_are_records_too)
{
    const struct slice tags[] = {SLICE_LIT("t")};
    struct invalidation by_tag = {
        .kind = INVALIDATION_TAGS, .soft = true, .tags = tags, .ntags = 1};
    struct invalidation ban = {.kind = INVALIDATION_BAN, .text = SLICE_LIT("obj.http.x-tag ~ a")};
    struct invalidation_result out;
    struct cache_fixture f;

    open_told(&f, &log_of_texts);
    store(&f, "k");
    CHECK_EQ(0, make(&f, &by_tag, &out));
    CHECK_EQ(1, told.n);
    CHECK_STR("t", told.tag);
    CHECK_EQ(CACHE_HIT, look(&f, "k"));
    by_tag.ntags = 0;
    CHECK_EQ(TERR_INVALID, make(&f, &by_tag, &out));
    CHECK_EQ(0, make(&f, &ban, &out));
    CHECK_EQ(2, told.n);
    CHECK_STR("obj.http.x-tag ~ a", told.text);
    CHECK_EQ(CACHE_MISS, look(&f, "k"));
    ban.text = SLICE_LIT("obj.http.x-tag");
    CHECK_EQ(TERR_SYNTAX, make(&f, &ban, &out));
    CHECK(out.why[0] != '\0');
    CHECK_EQ(2, told.n);
    cache_fixture_close(&f);
}

TEST(invalidation, what_is_only_applied_is_told_to_nobody)
{
    const struct slice tags[] = {SLICE_LIT("t")};
    const struct invalidation all[] = {
        {.kind = INVALIDATION_KEY, .text = SLICE_LIT("k")},
        {.kind = INVALIDATION_TAGS, .tags = tags, .ntags = 1},
        {.kind = INVALIDATION_BAN, .text = SLICE_LIT("obj.status == 200")},
        {.kind = INVALIDATION_ALL},
    };
    struct cache_fixture f;

    open_told(&f, &log_of_texts);
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK_EQ(0, invalidation_apply(f.cache, &all[i], &f.clock, NULL));
    CHECK_EQ(0, cache_distrust_before(f.cache, &f.clock));
    CHECK_EQ(0, told.n);
    cache_fixture_close(&f);
}

/* ---- Everything ---- */

static void
asker_run(struct task *t)
{
    (void)t;
}

/* How many, once everything has been looked at. */
static uint64_t
all_of(struct cache_fixture *f, bool soft)
{
    const struct invalidation inv = {.kind = INVALIDATION_ALL, .soft = soft};
    struct task task;
    struct tag_purge p = {.task = &task};
    struct invalidation_result out = {.wait = &p};
    uint64_t n = 0;

    task_init(&task, &f->loop.queue, asker_run);
    CHECK_EQ(0, invalidation_make(f->cache, &inv, &f->clock, &out));
    while (tag_purge_walk(f->cache, (int64_t)f->clock.mono_ms))
        ;
    CHECK(tag_purge_is_done(&p, &n));
    loop_run(&f->loop);
    tag_purge_end(f->cache, &p);
    return n;
}

static void
leave_marker(struct cache_fixture *f, const char *key)
{
    struct cache_query q = query(f, key);
    struct entry *e = fixture_miss(f, &q);

    cache_hitmiss(e, NULL, q.now_ms, 60000, CACHE_MARK);
    fixture_drop_both(e);
}

TEST(everything, leaves_with_markers_and_names_that_do_not_exist)
{
    const struct conf_negative names = {.entries = 1000, .ttl = 10000};
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;
    struct removal_seen seen;
    struct entry *e;
    char key[16];

    open_told(&f, &log_of_texts);
    CHECK_EQ(0, cache_open_negative(f.cache, &names));
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        store(&f, key);
    }
    leave_marker(&f, "marker");
    q = query(&f, "absent");
    e = fixture_miss(&f, &q);
    cache_publish_absent(e, NULL, &(const struct negative_fact){404, q.now_ms, 0, 10000},
        negative_generation(cache_negative(f.cache)));
    fixture_drop_both(e);
    CHECK_EQ(CACHE_ABSENT, fixture_verdict(&f, &q));
    f.clock.mono_ms++;
    CHECK_EQ(101, all_of(&f, false));
    CHECK_EQ(1, told.n);
    CHECK(told.last.kind == INVALIDATION_ALL && !told.last.soft);
    q = query(&f, "k7");
    CHECK(cache_recall(f.cache, &q.key, &seen));
    CHECK_EQ(REMOVAL_PURGED, seen.what);
    CHECK_EQ(CACHE_MISS, look(&f, "absent"));
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        CHECK_EQ(CACHE_MISS, look(&f, key));
    }
    q = query(&f, "marker");
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_NOTHING_STORED, a.reason);
    CHECK_EQ(101, fixture_count(&f, COUNTER_cache_purged));
    /* What comes later stays. */
    store(&f, "k1");
    CHECK_EQ(CACHE_HIT, look(&f, "k1"));
    CHECK_EQ(1, all_of(&f, false));
    cache_fixture_close(&f);
}

TEST(everything, counts_at_once_without_a_walk)
{
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;

    open_told(&f, NULL);
    store(&f, "hard");
    store(&f, "soft");
    CHECK_EQ(0, cache_distrust_before(f.cache, &f.clock));
    q = query(&f, "soft");
    CHECK_EQ(CACHE_STALE, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_IS_STALE, a.reason);
    CHECK_EQ(1, fixture_count(&f, COUNTER_cache_purged_soft));
    CHECK_EQ(0, invalidation_apply(f.cache, &(const struct invalidation){.kind = INVALIDATION_ALL},
                    &f.clock, NULL));
    CHECK_EQ(CACHE_MISS, look(&f, "hard"));
    CHECK_EQ(CACHE_MISS, look(&f, "soft"));
    CHECK_EQ(2, fixture_count(&f, COUNTER_cache_purged));
    cache_fixture_close(&f);
}

TEST(everything, soft_is_stale_from_now_on_and_stays_for_its_grace)
{
    struct cache_fixture f;
    struct cache_query q;

    open_told(&f, NULL);
    store(&f, "a");
    store(&f, "b");
    leave_marker(&f, "marker");
    f.clock.mono_ms += 1000;
    CHECK_EQ(3, all_of(&f, true));
    CHECK_EQ(0, all_of(&f, true)); /* they are stale already */
    CHECK_EQ(3, fixture_count(&f, COUNTER_cache_purged_soft));
    CHECK_EQ(0, fixture_count(&f, COUNTER_cache_purged));
    CHECK_EQ(CACHE_STALE, look(&f, "a"));
    f.clock.mono_ms += 60001;
    q = query(&f, "b");
    CHECK_EQ(CACHE_MISS, fixture_verdict(&f, &q));
    cache_fixture_close(&f);
}

TEST(everything, what_is_being_fetched_is_delivered_and_not_kept)
{
    struct cache_fixture f;
    struct cache_query q;
    struct entry *e;

    open_told(&f, NULL);
    for (unsigned soft = 0; soft < 2; soft++) {
        q = query(&f, "k");
        e = fixture_miss(&f, &q);
        CHECK_EQ(0, all_of(&f, soft != 0));
        fixture_publish(&f, e, &plain);
        CHECK(cache_usable(e, &q, true));
        fixture_drop_both(e);
        CHECK_EQ(CACHE_MISS, look(&f, "k"));
    }
    cache_fixture_close(&f);
}

/* A node that cannot say "all is stale" would serve what it should not. */
TEST(everything, is_not_refused_where_bans_are)
{
    static char text[16000];
    struct cache_fixture f;
    char why[300];
    int err = 0;

    open_told(&f, NULL);
    store(&f, "k"); /* holds the first ban, so none leaves the list */
    for (unsigned i = 0; err == 0; i++) {
        int n = snprintf(text, sizeof(text), "obj.http.x%u == %0*d", i, 15000, 1);

        err = bans_add(cache_bans(f.cache), slice_of(text, (size_t)n), &f.clock, why, sizeof(why));
    }
    CHECK_EQ(TERR_LIMIT, err);
    while (bans_add(
               cache_bans(f.cache), SLICE_LIT("obj.status == 1"), &f.clock, why, sizeof(why)) == 0)
        ;
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(0, cache_distrust_before(f.cache, &f.clock));
    CHECK_EQ(CACHE_STALE, look(&f, "k"));
    CHECK_EQ(1, all_of(&f, false));
    cache_fixture_close(&f);
}

static bool
text_on_ban(void *ctx, const struct ban_info *info)
{
    snprintf(ctx, 80, "%.*s", (int)info->text.len, info->text.ptr);
    return false;
}

TEST(everything, stands_in_the_list_of_bans_as_the_command_that_does_it)
{
    struct cache_fixture f;
    char text[80] = "";

    open_told(&f, NULL);
    store(&f, "k");
    CHECK_EQ(1, all_of(&f, true));
    bans_each(cache_bans(f.cache), text_on_ban, text);
    CHECK_STR("purge --all --soft", text);
    CHECK_EQ(1, all_of(&f, false));
    bans_each(cache_bans(f.cache), text_on_ban, text);
    CHECK_STR("purge --all", text);
    cache_fixture_grace();
    f.clock.mono_ms += 61000;
    fixture_lurk(&f);
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_now)); /* the newest always stays */
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(invalidation, a_key_leaves_becomes_stale_or_was_changed),
    TEST_ENTRY(invalidation, a_key_that_is_known_needs_no_text_unless_a_log_asks),
    TEST_ENTRY(invalidation, a_url_is_resolved_by_who_knows_how),
    TEST_ENTRY(invalidation, tags_and_bans_are_records_too),
    TEST_ENTRY(invalidation, what_is_only_applied_is_told_to_nobody),
    TEST_ENTRY(everything, leaves_with_markers_and_names_that_do_not_exist),
    TEST_ENTRY(everything, counts_at_once_without_a_walk),
    TEST_ENTRY(everything, soft_is_stale_from_now_on_and_stays_for_its_grace),
    TEST_ENTRY(everything, what_is_being_fetched_is_delivered_and_not_kept),
    TEST_ENTRY(everything, is_not_refused_where_bans_are),
    TEST_ENTRY(everything, stands_in_the_list_of_bans_as_the_command_that_does_it))
