/* ban_test.c -- bans: what they say, what they match, who tests them, and how they end. */
#include "t/unit/test.h"

#include "t/unit/cache_fixture.h"

static const struct stored plain = {STORED_PLAIN, 200, 60000, 10000, 40000, 2000};

static struct head_build asks; /* one test at a time */

static const struct http_message *
request(const char *text)
{
    struct http_message *h = head_build(&asks, text);
    const struct http_field *host = http_find(h, HTTP_F_HOST, NULL);

    if (host != NULL) {
        h->authority_off = host->value_off;
        h->authority_len = host->value_len;
    }
    return h;
}

#define PLAIN_REQUEST "GET /shop/list?page=2 HTTP/1.1\nHost: a.example\nX-Admin: yes\n\n"

static bool
is_stored(struct cache_fixture *f, const char *key, const struct http_message *req)
{
    struct cache_query q = fixture_query(f, key, req);

    return fixture_verdict(f, &q) == CACHE_HIT;
}

/* ---- Expressions ---- */

TEST(ban, what_is_wrong_is_said_with_what_would_be_right)
{
    static const struct {
        const char *expression, *why;
    } bad[] = {
        {"", "expected req.url, req.http.NAME, obj.http.NAME, obj.status, obj.ttl, obj.age, "
             "obj.grace, obj.keep or obj.last_hit, found the end"},
        {"   ", "expected req.url, "},
        {"url == /x", "expected req.url, req.http.NAME, "},
        {"req.method == GET", "expected req.url, req.http.NAME, "},
        {"req.http. == x", "expected the name of a header at the end of \"req.http.\""},
        {"obj.http.a(b) == x", "expected the name of a header at the end of"},
        {"req.url", "expected ==, !=, ~ or !~ before a text, found the end"},
        {"req.url > /x", "expected ==, !=, ~ or !~ before a text, found \">\""},
        {"obj.ttl ~ 1s", "expected ==, !=, >, >=, < or <= before a duration, found \"~\""},
        {"obj.ttl >", "expected a duration as 60s or 1d, found the end"},
        {"obj.ttl > 60", "expected a duration as 60s or 1d, found \"60\""},
        {"obj.ttl > s", "expected a duration as 60s or 1d, found \"s\""},
        {"obj.age > 1.s5", "expected a duration as 60s or 1d, found \"1.s5\""},
        {"obj.age > 999999999y", "expected a duration as 60s or 1d, found"},
        {"req.url ==", "expected a text to compare with, found the end"},
        {"req.url ~ (", "regular expression, at byte"},
        {"req.url == /x req.url == /y", "expected && or the end after a comparison, found \"req."},
        {"req.url == /x || req.url == /y", "expected && or the end after a comparison, found \"||"},
        {"req.url == /x &&", "expected req.url, "},
        {"req.url == \"/x", "expected a closing quote after \"\"/x\""},
        {"req.url == \"/x\\\"", "expected a closing quote after"},
        {"req.url == \"/x\"y", "expected a space after a closing quote, found \"y\""},
        {"req.url == /\x01", "expected text, found the control character 1 at byte 12"},
    };
    struct cache_fixture f;

    cache_fixture_open(&f);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char why[300] = "";
        int err =
            bans_add(cache_bans(f.cache), slice_str(bad[i].expression), &f.clock, why, sizeof(why));

        if (err != TERR_SYNTAX || strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
            fprintf(stderr, "%s: %d: %s\n", bad[i].expression, err, why);
        CHECK_EQ(TERR_SYNTAX, err);
        CHECK(strncmp(why, bad[i].why, strlen(bad[i].why)) == 0);
    }
    CHECK_EQ(0, fixture_count(&f, COUNTER_bans_added));
    cache_fixture_close(&f);
}

TEST(ban, too_many_comparisons_and_too_long_a_text_are_refused)
{
    struct cache_fixture f;
    static char text[BAN_TEXT_MAX + 100];
    char why[300];
    size_t n = 0;

    cache_fixture_open(&f);
    for (unsigned i = 0; i < BAN_TESTS_MAX; i++)
        n += (size_t)sprintf(text + n, "%sobj.status ~ %u", i == 0 ? "" : " && ", i);
    CHECK_EQ(0, fixture_ban(&f, text));
    strcpy(text + n, " && obj.status ~ 9");
    CHECK_EQ(
        TERR_SYNTAX, bans_add(cache_bans(f.cache), slice_str(text), &f.clock, why, sizeof(why)));
    CHECK_STR("expected at most 32 comparisons", why);
    strcpy(text, "req.url == ");
    memset(text + 11, 'x', BAN_TEXT_MAX - 10);
    CHECK_EQ(TERR_SYNTAX, bans_add(cache_bans(f.cache), slice_of(text, BAN_TEXT_MAX + 1), &f.clock,
                              why, sizeof(why)));
    CHECK_STR("expected at most 16384 bytes", why);
    CHECK_EQ(
        0, bans_add(cache_bans(f.cache), slice_of(text, BAN_TEXT_MAX), &f.clock, why, sizeof(why)));
    cache_fixture_close(&f);
}

/* ---- Meaning ---- */

/* The response: fetched 20 s before the ban, 2 s old then, ttl 60 s, grace 10 s, keep 30 s more,
 * last hit 12 s before the ban. */
TEST(ban, fields_and_operators_mean_what_varnish_says)
{
    static const struct {
        const char *expression;
        bool matches;
    } rows[] = {
        {"req.url == /shop/list?page=2", true},
        {"req.url == /shop/list", false},
        {"req.url != /shop/list", true},
        {"req.url ~ ^/shop/", true},
        {"req.url ~ ^/news/", false},
        {"req.url !~ ^/news/", true},
        {"req.url ~ \\?page=\\d$", true},
        {"req.url ~ \"\\?page=\\d$\"", true},
        {"req.http.host == a.example", true},
        {"req.http.Host == b.example", false},
        {"req.http.x-admin == yes", true},
        {"req.http.x-admin != yes", false},
        {"req.http.x-none == yes", false},
        {"req.http.x-none ~ .", false},
        {"req.http.x-none !~ .", false},
        {"req.http.x-none != yes", true},
        {"obj.http.content-type ~ ^text/", true},
        {"obj.http.x-tag == \"a, b\"", true},
        {"obj.http.x-tag ~ (^|,\\s*)b($|,)", true},
        {"obj.http.x-tag ~ second", false}, /* the first line counts, as with Varnish */
        {"obj.http.x-quote == \"say \\\"x\\\\\"", true},
        {"obj.http.x-none == a", false},
        {"obj.http.x-none ~ .", false},
        {"obj.http.x-none !~ .", false},
        {"obj.http.x-none != a", true},
        {"obj.status == 200", true},
        {"obj.status ~ ^2", true},
        {"obj.status != 404", true},
        {"obj.status == 404", false},
        {"obj.ttl == 40s", true},
        {"obj.ttl > 39.9s", true},
        {"obj.ttl > 40s", false},
        {"obj.ttl < 1m", true},
        {"obj.ttl > -1s", true},
        {"obj.age == 22s", true},
        {"obj.age >= 22s", true},
        {"obj.age < 22000ms", false},
        {"obj.age > 1d", false},
        {"obj.grace == 10s", true},
        {"obj.grace != 10s", false},
        {"obj.grace <= 0.5h", true},
        {"obj.keep == 30s", true},
        {"obj.keep > 1w", false},
        {"obj.last_hit > 10s", true},
        {"obj.last_hit < 14s", true},
        {"obj.last_hit > 14s", false},
        {"obj.status == 200 && obj.http.x-tag ~ a", true},
        {"obj.status == 200 && obj.http.x-tag ~ z", false},
        {" obj.status  ==\t200\n&& req.url ~ shop ", true},
        {"obj.status == 404 && req.url ~ shop", false},
    };
    const struct stored s = {
        STORED_PLAIN "X-Quote: say \"x\\\\\r\n", 200, 60000, 10000, 40000, 2000};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;

    cache_fixture_open(&f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hash128 key = fixture_key("k");

        store_response(&f, "k", req, &s);
        f.clock.mono_ms += 8000;
        CHECK(is_stored(&f, "k", req));
        f.clock.mono_ms += 12000;
        CHECK_EQ(0, fixture_ban(&f, rows[i].expression));
        if (is_stored(&f, "k", req) == rows[i].matches)
            fprintf(stderr, "%s\n", rows[i].expression);
        CHECK_EQ(rows[i].matches, !is_stored(&f, "k", req));
        CHECK_EQ(!rows[i].matches, cache_purge(f.cache, &key));
    }
    cache_fixture_close(&f);
}

TEST(ban, an_expression_that_takes_too_long_holds)
{
    static char head[8000] = "HTTP/1.1 200 OK\r\nX-A: ";
    const struct stored s = {head, 200, 60000, 0, 0, 0};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;

    memset(head + strlen(head), 'a', 5000);
    strcat(head, "\r\n");
    cache_fixture_open(&f);
    store_response(&f, "k", req, &s);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-a ~ ^(a+)+$|(a|aa)+b"));
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-a ~ (a+)+(a+)+(a+)+b"));
    CHECK(!is_stored(&f, "k", req));
    cache_fixture_close(&f);
}

/* ---- Who is tested, and when ---- */

TEST(ban, what_was_fetched_later_is_not_concerned)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;

    cache_fixture_open(&f);
    store_response(&f, "old", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ a"));
    store_response(&f, "new", req, &plain);
    CHECK(is_stored(&f, "new", req));
    CHECK(!is_stored(&f, "old", req));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_obj_killed));
    cache_fixture_close(&f);
}

TEST(ban, each_entry_is_tested_once_and_then_moves_up)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ z"));
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ y && req.url ~ x"));
    for (unsigned i = 0; i < 3; i++)
        CHECK(is_stored(&f, "k", req));
    CHECK_EQ(2, fixture_count(&f, COUNTER_bans_tested));
    CHECK_EQ(2, fixture_count(&f, COUNTER_bans_tests_tested));
    cache_fixture_close(&f);
}

TEST(ban, one_that_comes_during_a_fetch_counts_for_its_response)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    q = fixture_query(&f, "k", req);
    e = fixture_miss(&f, &q);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ a"));
    fixture_publish(&f, e, &plain);
    CHECK(cache_usable(e, &q, true)); /* for whom it was fetched; who only waited asks again */
    CHECK(!cache_usable(e, &q, false));
    fixture_drop_both(e);
    CHECK(!is_stored(&f, "k", req));
    /* One on the request is tested by the next lookup. */
    e = fixture_miss(&f, &q);
    CHECK_EQ(0, fixture_ban(&f, "req.url ~ shop"));
    fixture_publish(&f, e, &plain);
    fixture_drop_both(e);
    CHECK(!is_stored(&f, "k", req));
    CHECK_EQ(2, fixture_count(&f, COUNTER_bans_obj_killed));
    cache_fixture_close(&f);
}

TEST(ban, nothing_banned_stands_in_for_an_origin_that_failed)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct cache_query q;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &plain);
    f.clock.mono_ms += 65000; /* in its grace */
    q = fixture_query(&f, "k", req);
    CHECK(cache_lookup_stale(f.cache, &q) != NULL);
    CHECK_EQ(0, fixture_ban(&f, "obj.status == 200"));
    CHECK(cache_lookup_stale(f.cache, &q) == NULL);
    cache_fixture_close(&f);
}

TEST(ban, a_marker_can_be_banned_too)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct cache_answer a;
    struct cache_query q;
    struct entry *e;

    cache_fixture_open(&f);
    q = fixture_query(&f, "k", req);
    e = fixture_miss(&f, &q);
    cache_hitmiss(e, NULL, q.now_ms, 60000, CACHE_MARK);
    fixture_drop_both(e);
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_MARKED, a.reason);
    CHECK_EQ(0, fixture_ban(&f, "req.url ~ shop"));
    CHECK_EQ(CACHE_MISS, fixture_look(&f, &q, &a));
    CHECK_EQ(CACHE_NOTHING_STORED, a.reason);
    cache_fixture_close(&f);
}

/* ---- The list ---- */

struct listed {
    char text[8][80];
    struct ban_info info[8];
    unsigned n;
};

static bool
list_on_ban(void *ctx, const struct ban_info *info)
{
    struct listed *l = ctx;

    CHECK(l->n < 8);
    snprintf(l->text[l->n], sizeof(l->text[0]), "%.*s", (int)info->text.len, info->text.ptr);
    l->info[l->n++] = *info;
    return true;
}

static struct listed
list(struct cache_fixture *f)
{
    struct listed l = {.n = 0};

    bans_each(cache_bans(f->cache), list_on_ban, &l);
    return l;
}

TEST(ban, the_list_is_newest_first_and_its_unneeded_end_is_dropped)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct listed l;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag  ~ z"));
    f.clock.wall_ms += 5000;
    CHECK_EQ(0, fixture_ban(&f, "req.url == \"/a b\""));
    store_response(&f, "later", req, &plain);
    l = list(&f);
    CHECK_EQ(2, l.n);
    CHECK_STR("req.url == \"/a b\"", l.text[0]);
    CHECK_STR("obj.http.x-tag ~ z", l.text[1]);
    CHECK_EQ(5000, l.info[0].wall_ms - l.info[1].wall_ms);
    CHECK_EQ(1, l.info[0].refs);
    CHECK(l.info[0].of_request && !l.info[1].of_request);
    CHECK(!l.info[0].completed && !l.info[1].completed);
    CHECK(is_stored(&f, "k", req)); /* moves up */
    bans_lurk(cache_bans(f.cache), (int64_t)f.clock.mono_ms);
    l = list(&f);
    CHECK_EQ(1, l.n);
    CHECK_EQ(2, l.info[0].refs);
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_now));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_deleted));
    cache_fixture_close(&f);
}

TEST(ban, who_leaves_the_cache_gives_its_bans_back)
{
    const struct http_message *req = request(PLAIN_REQUEST);
    struct hash128 key = fixture_key("k");
    struct cache_fixture f;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "req.url == /1"));
    CHECK_EQ(0, fixture_ban(&f, "req.url == /2"));
    CHECK_EQ(2, list(&f).n);
    CHECK_EQ(1, cache_purge(f.cache, &key));
    cache_fixture_grace();
    bans_lurk(cache_bans(f.cache), (int64_t)f.clock.mono_ms);
    CHECK_EQ(1, list(&f).n); /* the newest always stays */
    cache_fixture_close(&f);
}

TEST(ban, an_equal_older_one_is_completed_unless_time_is_in_it)
{
    static const struct bans_conf no_dups = {60000, 1000, 10, 0, false};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct listed l;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "req.url ~ x"));
    CHECK_EQ(0, fixture_ban(&f, "obj.age > 1d"));
    CHECK_EQ(0, fixture_ban(&f, "req.url  ~ x"));
    CHECK_EQ(0, fixture_ban(&f, "obj.age > 1d"));
    l = list(&f);
    CHECK_EQ(4, l.n);
    CHECK(!l.info[0].completed && !l.info[1].completed && !l.info[2].completed);
    CHECK(l.info[3].completed);
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_dups));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_completed));
    CHECK(is_stored(&f, "k", req));
    CHECK_EQ(3, fixture_count(&f, COUNTER_bans_tested));
    bans_configure(cache_bans(f.cache), &no_dups);
    CHECK_EQ(0, fixture_ban(&f, "req.url ~ x"));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_dups));
    cache_fixture_close(&f);
}

/* ---- The lurker ---- */

TEST(ban, the_lurker_removes_what_matches_once_a_ban_is_old_enough)
{
    const struct stored other = {"HTTP/1.1 200 OK\r\nX-Tag: c\r\n", 200, 600000, 0, 0, 0};
    const struct stored tagged = {STORED_PLAIN, 200, 600000, 0, 0, 0};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    char key[16];

    cache_fixture_open(&f);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        store_response(&f, key, req, i % 2 == 0 ? &tagged : &other);
    }
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ b"));
    CHECK(bans_lurk(cache_bans(f.cache), (int64_t)f.clock.mono_ms) > 10);
    CHECK_EQ(0, fixture_count(&f, COUNTER_bans_lurker_tested));
    f.clock.mono_ms += 61000;
    fixture_lurk(&f);
    CHECK_EQ(20, fixture_count(&f, COUNTER_bans_lurker_obj_killed));
    CHECK_EQ(40, fixture_count(&f, COUNTER_bans_lurker_tested));
    CHECK_EQ(0, fixture_count(&f, COUNTER_bans_obj_killed));
    CHECK(list(&f).info[0].completed);
    CHECK_EQ(20, list(&f).info[0].refs);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        CHECK_EQ(i % 2 != 0, is_stored(&f, key, req));
    }
    CHECK_EQ(0, fixture_count(&f, COUNTER_bans_tested)); /* lookups had nothing left to test */
    fixture_lurk(&f);                                    /* nor has the lurker */
    CHECK_EQ(40, fixture_count(&f, COUNTER_bans_lurker_tested));
    cache_fixture_close(&f);
}

TEST(ban, one_that_needs_a_request_bars_the_lurkers_way)
{
    const struct stored tagged = {STORED_PLAIN, 200, 600000, 0, 0, 0};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct listed l;

    cache_fixture_open(&f);
    store_response(&f, "k", req, &tagged);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ x"));
    CHECK_EQ(0, fixture_ban(&f, "req.url ~ y"));
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ z"));
    f.clock.mono_ms += 61000;
    fixture_lurk(&f);
    CHECK_EQ(2, fixture_count(&f, COUNTER_bans_lurker_tested));
    l = list(&f);
    CHECK_EQ(3, l.n);
    CHECK(l.info[0].completed && !l.info[1].completed && l.info[2].completed);
    CHECK_EQ(1, l.info[2].refs); /* as far as it could go */
    CHECK(is_stored(&f, "k", req));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_tested)); /* the one of the request alone */
    fixture_lurk(&f);
    CHECK_EQ(1, list(&f).n);
    cache_fixture_close(&f);
}

TEST(ban, what_was_being_fetched_while_the_lurker_passed_is_tested_when_it_comes)
{
    static const struct bans_conf at_once = {0, 1000, 10, 0, true};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    struct cache_query q;
    struct entry *busy, *late;

    cache_fixture_open(&f);
    bans_configure(cache_bans(f.cache), &at_once);
    q = fixture_query(&f, "busy", req);
    busy = fixture_miss(&f, &q);
    q = fixture_query(&f, "late", req); /* behind a marker: in no index */
    late = fixture_miss(&f, &q);
    cache_hitmiss(late, NULL, q.now_ms, 60000, CACHE_MARK);
    fixture_drop_both(late);
    late = fixture_miss(&f, &q);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ a"));
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ nothing"));
    f.clock.mono_ms += 1;
    fixture_lurk(&f);
    CHECK(!list(&f).info[0].completed); /* `busy` stands in the way */
    fixture_publish(&f, busy, &plain);
    fixture_publish(&f, late, &plain);
    fixture_drop_both(busy);
    fixture_drop_both(late);
    CHECK(!is_stored(&f, "busy", req));
    CHECK(!is_stored(&f, "late", req));
    cache_fixture_close(&f);
}

TEST(ban, behind_the_cutoff_everything_leaves)
{
    static const struct bans_conf cut = {3600000, 1000, 10, 3, true};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;
    char text[40];

    cache_fixture_open(&f);
    bans_configure(cache_bans(f.cache), &cut);
    store_response(&f, "k", req, &plain);
    store_response(&f, "used", req, &plain);
    for (unsigned i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), "obj.http.x-tag == z%u", i);
        CHECK_EQ(0, fixture_ban(&f, text));
    }
    CHECK(is_stored(&f, "used", req));
    fixture_lurk(&f);
    CHECK(is_stored(&f, "used", req));
    CHECK(!is_stored(&f, "k", req));
    CHECK_EQ(1, fixture_count(&f, COUNTER_bans_lurker_obj_killed_cutoff));
    CHECK(list(&f).n <= 3);
    cache_fixture_close(&f);
}

TEST(ban, with_a_sleep_of_0_there_is_no_lurker)
{
    static const struct bans_conf off = {0, 1000, 0, 0, true};
    const struct http_message *req = request(PLAIN_REQUEST);
    struct cache_fixture f;

    cache_fixture_open(&f);
    bans_configure(cache_bans(f.cache), &off);
    store_response(&f, "k", req, &plain);
    CHECK_EQ(0, fixture_ban(&f, "obj.http.x-tag ~ a"));
    fixture_lurk(&f);
    CHECK_EQ(0, fixture_count(&f, COUNTER_bans_lurker_tested));
    CHECK(!is_stored(&f, "k", req));
    cache_fixture_close(&f);
}

TEST_MAIN(TEST_ENTRY(ban, what_is_wrong_is_said_with_what_would_be_right),
    TEST_ENTRY(ban, too_many_comparisons_and_too_long_a_text_are_refused),
    TEST_ENTRY(ban, fields_and_operators_mean_what_varnish_says),
    TEST_ENTRY(ban, an_expression_that_takes_too_long_holds),
    TEST_ENTRY(ban, what_was_fetched_later_is_not_concerned),
    TEST_ENTRY(ban, each_entry_is_tested_once_and_then_moves_up),
    TEST_ENTRY(ban, one_that_comes_during_a_fetch_counts_for_its_response),
    TEST_ENTRY(ban, nothing_banned_stands_in_for_an_origin_that_failed),
    TEST_ENTRY(ban, a_marker_can_be_banned_too),
    TEST_ENTRY(ban, the_list_is_newest_first_and_its_unneeded_end_is_dropped),
    TEST_ENTRY(ban, who_leaves_the_cache_gives_its_bans_back),
    TEST_ENTRY(ban, an_equal_older_one_is_completed_unless_time_is_in_it),
    TEST_ENTRY(ban, the_lurker_removes_what_matches_once_a_ban_is_old_enough),
    TEST_ENTRY(ban, one_that_needs_a_request_bars_the_lurkers_way),
    TEST_ENTRY(ban, what_was_being_fetched_while_the_lurker_passed_is_tested_when_it_comes),
    TEST_ENTRY(ban, behind_the_cutoff_everything_leaves),
    TEST_ENTRY(ban, with_a_sleep_of_0_there_is_no_lurker))
