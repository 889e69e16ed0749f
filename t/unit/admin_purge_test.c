/* admin_purge_test.c -- purges and bans that an operator asks for. */
#include "t/unit/admin_fixture.h"

#define H " HTTP/1.1\nHost: localhost:6082"

/* Under the key of each URL, by fake_resolve(). */
static void
leave_marker(void)
{
    const struct http_message req = {.base = "", .method = HTTP_M_GET};
    const struct cache_query q = {.key = hash_bytes("/", 1), .req = &req};
    struct cache_answer a;
    struct entry *fetchs;

    CHECK_EQ(CACHE_MISS, cache_lookup(world.cache, &q, NULL, &a));
    fetchs = a.entry;
    cache_hitmiss(a.entry, NULL, 0, 60000, CACHE_MARK);
    entry_drop(&fetchs);
    entry_drop(&a.entry);
}

TEST(admin, a_url_is_purged)
{
    json_t *o;

    world_open("{}");
    rcu_join();
    leave_marker();
    o = answer("POST /v1/purge" H, "{\"url\": \"http://a/b?c\", \"soft\": true}", 200);
    CHECK_EQ(1, json_integer_value(json_object_get(o, "purged")));
    CHECK_STR("http://a/b?c", said.purged);
    CHECK(said.soft);
    json_decref(o);
    CHECK_EQ(1, told.n);
    CHECK(told.kind == INVALIDATION_URL && told.soft);
    CHECK_STR("http://a/b?c", told.text);
    json_decref(answer(
        "POST /v1/purge" H, "{\"url\": \"http://a/\", \"headers\": [\"X-Language: de\"]}", 200));
    CHECK_EQ(2, told.n);
    CHECK(!told.soft && told.nfields == 1);
    CHECK(!said.soft);
    /* A path is on our own address, as `why` takes it. */
    o = answer("POST /v1/purge" H, "{\"url\": \"/b\"}", 200);
    CHECK_STR("http://127.0.0.1:4711/b", said.purged);
    CHECK_STR(said.purged, json_string_value(json_object_get(o, "url")));
    json_decref(o);
    expect("POST /v1/purge" H, "{\"url\": \"/\", \"soft\": 1}", 400, "error",
        "the member 'soft' must be true or false");
    said.err = TERR_SYNTAX;
    expect("POST /v1/purge" H, "{\"url\": \"x\"}", 400, "error", "that is no URL");
    CHECK_EQ(3, told.n); /* what is refused is no record */
    rcu_leave();
    world_close();
}

TEST(admin, what_has_a_tag_is_purged)
{
    json_t *o;

    world_open("{}");
    for (unsigned i = 0; i < 2; i++) {
        o = answer("POST /v1/purge" H,
            i == 0 ? "{\"tag\": \"a b\", \"soft\": true}" : "{\"tags\": [\"a\", \"b\"]}", 200);
        CHECK_EQ(0, json_integer_value(json_object_get(o, "purged")));
        json_decref(o);
        CHECK(told.kind == INVALIDATION_TAGS && told.ntags == i + 1 && told.soft == (i == 0));
    }
    CHECK_EQ(2, told.n);
    CHECK_EQ(2, counters_sum(world.counters, COUNTER_cache_tag_purges));
    expect("POST /v1/purge" H, "{\"tag\": \"a\", \"url\": \"http://a/\"}", 400, "error",
        "the body must have one of the members 'url', 'tag', 'tags' and 'all'");
    expect("POST /v1/purge" H, "{\"soft\": true}", 400, "error",
        "the body must have one of the members 'url', 'tag', 'tags' and 'all'");
    expect("POST /v1/purge" H, "{\"tags\": [\"a\", 1]}", 400, "error", "a tag must be text");
    expect("POST /v1/purge" H, "{\"tags\": []}", 400, "hint",
        "as in {\"tags\": [\"shoes\", \"brand 7\"]}");
    expect("POST /v1/purge" H, "{\"tag\": \"\"}", 400, "error",
        "a purge takes 1 to 256 tags, each of 1 to 4096 bytes, 16384 together");
    world_close();
}

TEST(admin, everything_is_purged_by_a_word_of_its_own)
{
    json_t *o;

    world_open("{}");
    rcu_join();
    leave_marker();
    rcu_leave();
    for (unsigned i = 0; i < 2; i++) {
        o = answer("POST /v1/purge" H,
            i == 0 ? "{\"all\": true, \"soft\": true}" : "{\"all\": true}", 200);
        CHECK_EQ(1, json_integer_value(json_object_get(o, "purged")));
        json_decref(o);
        CHECK(told.kind == INVALIDATION_ALL && told.soft == (i == 0));
    }
    CHECK_EQ(2, told.n);
    expect("POST /v1/purge" H, "{\"all\": false}", 400, "error", "the member 'all' must be true");
    expect("POST /v1/purge" H, "{\"all\": true, \"tag\": \"a\"}", 400, "error",
        "the body must have one of the members 'url', 'tag', 'tags' and 'all'");
    CHECK_EQ(2, told.n);
    world_close();
}

/* Who leaves before the answer takes nothing with him. */
TEST(admin, a_purge_by_tag_that_nobody_waits_for_any_more_goes_on)
{
    struct ask *a;

    world_open("{}");
    world.lazy = true;
    a = ask_new("POST /v1/purge" H, "{\"tag\": \"a\"}");
    admin_start(world.admin, &a->x);
    world_turn();
    CHECK_EQ(0, a->status);
    a->x.gone = true;
    task_wake(a->x.task);
    world_turn();
    CHECK(a->released);
    ask_free(&a);
    world.lazy = false;
    json_decref(answer("POST /v1/purge" H, "{\"tag\": \"b\"}", 200));
    world_close();
}

TEST(admin, a_ban_is_added_and_shown)
{
    json_t *o, *list;

    world_open("{}");
    rcu_join();
    o = answer("GET /v1/bans" H, NULL, 200);
    CHECK_EQ(0, json_array_size(json_object_get(o, "bans")));
    json_decref(o);
    expect("POST /v1/bans" H, "{\"expression\": \"req.url ~ ^/a\"}", 201, "expression",
        "req.url ~ ^/a");
    CHECK_EQ(1, told.n);
    CHECK(told.kind == INVALIDATION_BAN);
    CHECK_STR("req.url ~ ^/a", told.text);
    json_decref(answer("POST /v1/bans" H, "{\"expression\": \"req.url ~ \"}", 400));
    CHECK_EQ(1, told.n);
    json_decref(answer("POST /v1/bans" H, "{\"expression\": 7}", 400));
    o = answer("GET /v1/bans" H, NULL, 200);
    list = json_object_get(o, "bans");
    CHECK_EQ(1, json_array_size(list));
    CHECK_STR(
        "req.url ~ ^/a", json_string_value(json_object_get(json_array_get(list, 0), "expression")));
    CHECK(json_is_true(json_object_get(json_array_get(list, 0), "of_request")));
    json_decref(o);
    rcu_leave();
    world_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(admin, a_url_is_purged),
        TEST_ENTRY(admin, what_has_a_tag_is_purged),
        TEST_ENTRY(admin, everything_is_purged_by_a_word_of_its_own),
        TEST_ENTRY(admin, a_purge_by_tag_that_nobody_waits_for_any_more_goes_on),
        TEST_ENTRY(admin, a_ban_is_added_and_shown),
    };

    rcu_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
