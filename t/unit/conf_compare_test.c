/* conf_compare_test.c -- what a new configuration changes. */
#include "t/unit/conf_fixture.h"

#include "conf/conf_compare.h"
#include "conf/conf_params.h"

struct told {
    char text[4096];
    size_t len;
};

static void
told_each(void *ctx, const struct conf_change *c)
{
    struct told *t = ctx;

    t->len += (size_t)snprintf(t->text + t->len, sizeof(t->text) - t->len, "%s%s: '%s' '%s'\n",
        c->live ? "" : "! ", c->what, c->from, c->to);
}

/* The changes, one a line; `!` before those that need a restart. */
static void
expect_changes(const char *old, const char *next, const char *want)
{
    const struct conf *a = load(old), *b = load(next);
    struct told t = {.len = 0};
    unsigned nrestart = 0;

    for (const char *p = want; *p != '\0'; p++)
        nrestart += *p == '!';
    CHECK_EQ(nrestart, conf_compare(a, b, told_each, &t));
    CHECK_STR(want, t.text);
    conf_free(&a);
    conf_free(&b);
}

TEST(conf_compare, the_same_file_changes_nothing)
{
    const char *all = BACKEND "listen: [{address: '127.0.0.1:8080'}, {address: 'unix:/tmp/s'}]\n"
                              "storage: {main: {size: 1GiB}}\nworkers: 2\nvcl: a.vcl\n"
                              "routes: [{path: /a, backend: o}]\nindex: {bits: 10}\n"
                              "negative_cache: {entries: 1000}\ntables: {t: {kind: set}}\n"
                              "compress: {min_size: 2KiB}\n"
                              "admin: {address: 'unix:/tmp/a'}\nparameters: {default_ttl: 1s}\n";

    expect_changes(all, all, "");
    expect_changes(BACKEND, BACKEND "parameters: {default_grace: 10s}\n", "");
}

TEST(conf_compare, what_may_change_is_told_from_what_needs_a_restart)
{
    expect_changes(BACKEND "parameters: {default_ttl: 1s, listen_depth: 10}\n",
        BACKEND "parameters: {default_ttl: 2m, listen_depth: 20}\n",
        "parameters.default_ttl: '1s' '2m'\n! parameters.listen_depth: '10' '20'\n");
    expect_changes(BACKEND "storage: {main: {size: 1GiB}}\n",
        BACKEND "storage: {main: {size: 2GiB, eviction: lru}}\n",
        "storage.main.size: '1GiB' '2GiB'\n! storage.main.eviction: 's3-fifo' 'lru'\n");
    expect_changes(BACKEND "storage: {main: {size: 1GiB}}\n",
        BACKEND "storage: {main: {size: 1GiB}, b: {size: 1GiB}}\n", "! storage.b: '' 'new'\n");
    expect_changes(BACKEND "workers: 1\n", BACKEND "workers: auto\n", "! workers: '1' 'auto'\n");
    expect_changes(BACKEND "negative_cache: {entries: 1000, ttl: 1s}\n",
        BACKEND "negative_cache: {entries: 2000, ttl: 2s}\n",
        "! negative_cache.entries: '1000' '2000'\nnegative_cache.ttl: '1s' '2s'\n");
    expect_changes(BACKEND "index: {bits: 10}\n", BACKEND, "! index.bits: '10' 'auto'\n");
    expect_changes(BACKEND "tables: {t: {kind: set}}\n", BACKEND "tables: {u: {kind: set}}\n",
        "! tables.t: 'there' 'gone'\n! tables.u: '' 'new'\n");
    expect_changes(BACKEND, BACKEND "admin: {address: 'unix:/tmp/a'}\n", "! admin: '' 'new'\n");
}

TEST(conf_compare, backends_are_told_apart_by_name_and_compared_key_by_key)
{
    expect_changes("backends: {a: {address: '127.0.0.1:1'}, b: {address: '127.0.0.1:2'}}\n"
                   "routes: [{path: /x, backend: b}]\n",
        "backends: {b: {address: '127.0.0.1:3', max_connections: 7}, c: {address: "
        "'127.0.0.1:2'}}\nroutes: [{path: /x, backend: b}]\n",
        "backends.a: 'there' 'gone'\nbackends.b.address: '127.0.0.1:2' '127.0.0.1:3'\n"
        "backends.b.max_connections: '0' '7'\nbackends.c: '' 'new'\n");
    /* A parameter is the default of each backend that says nothing. */
    expect_changes(BACKEND, BACKEND "parameters: {connect_timeout: 1s}\n",
        "backends.o.connect_timeout: '3500ms' '1s'\n! parameters.connect_timeout: '3500ms' '1s'\n");
}

TEST(conf_compare, a_probe_is_what_it_asks_and_not_its_name)
{
    const char *one =
        "probes: {p: {url: /up}}\nbackends: {a: {address: '127.0.0.1:1', probe: p}}\n";

    expect_changes(one, "backends: {a: {address: '127.0.0.1:1', probe: {url: /up}}}\n", "");
    expect_changes(one,
        "probes: {p: {url: /up, window: 9}}\nbackends: {a: {address: '127.0.0.1:1', probe: p}}\n",
        "backends.a.probe: 'p' 'p'\n");
    expect_changes(one, "backends: {a: {address: '127.0.0.1:1', probe: {url: /}}}\n",
        "backends.a.probe: 'p' '/'\n");
    expect_changes(
        one, "backends: {a: {address: '127.0.0.1:1'}}\n", "backends.a.probe: 'p' 'none'\n");
}

#define TWO "backends: {a: {address: '127.0.0.1:1'}, b: {address: '127.0.0.1:2'}}\n"

TEST(conf_compare, directors_are_compared_by_their_members_names)
{
    expect_changes(TWO "directors: {d: {backends: [a, b]}}\n",
        "backends: {b: {address: '127.0.0.1:2'}, a: {address: '127.0.0.1:1'}}\n"
        "directors: {d: {backends: [a, b]}}\n",
        "");
    expect_changes(TWO "directors: {d: {backends: [a, {name: b, weight: 2}]}}\n",
        TWO "directors: {e: {backends: [a]}, d: {type: random, backends: [e, b]}}\n",
        "directors.d.type: 'round_robin' 'random'\ndirectors.e: '' 'new'\n"
        "directors.d.backends: 'a (1), b (2)' 'e (1), b (1)'\nroutes: '' ''\n"); /* of two, none is the default */
    expect_changes(TWO "directors: {d: {backends: [a]}}\nroutes: [{path: /x, backend: d}]\n",
        TWO "directors: {e: {backends: [a]}}\nroutes: [{path: /x, backend: e}]\n",
        "directors.d: 'there' 'gone'\ndirectors.e: '' 'new'\nroutes: '' ''\n");
}

TEST(conf_compare, routes_are_compared_by_what_they_say)
{
    const char *two = "backends: {a: {address: '127.0.0.1:1'}, b: {address: '127.0.0.1:2'}}\n"
                      "routes: [{path: /x, backend: a}]\n";

    /* The same names in another order: other numbers, the same routes. */
    expect_changes(two,
        "backends: {b: {address: '127.0.0.1:2'}, a: {address: '127.0.0.1:1'}}\n"
        "routes: [{path: /x, backend: a}]\n",
        "");
    expect_changes(two,
        "backends: {a: {address: '127.0.0.1:1'}, b: {address: '127.0.0.1:2'}}\n"
        "routes: [{path: /x, backend: b}]\n",
        "routes: '' ''\n");
}

TEST(conf_compare, actions_of_routes_are_compared_each)
{
#define ROUTE(keys) "backends: {a: {address: '127.0.0.1:1'}}\nroutes: [{path: /x, " keys "}]\n"
    static const char *const keys[] = {ROUTE("ttl: 1s"), ROUTE("ttl: 2s"), ROUTE("grace: 1s"),
        ROUTE("pass: on"), ROUTE("strip_cookies: true"), ROUTE("strip_cookies: [a]"),
        ROUTE("strip_cookies: [b]"), ROUTE("strip_query: [b]"), ROUTE("methods: [GET]"),
        ROUTE("request_headers: {set: {A: b}}"), ROUTE("request_headers: {set: {A: c}}"),
        ROUTE("request_headers: {add: {A: c}}"), ROUTE("response_headers: {add: {A: c}}"),
        ROUTE("response_headers: {unset: [A]}"), ROUTE("redirect: https"),
        ROUTE("error_page: {text: a}"), ROUTE("error_page: {text: a, status: [500]}"),
        ROUTE("redirect: {to: /y}"), ROUTE("redirect: {to: /y, status: 302}"),
        ROUTE("compress: on"), ROUTE("compress: off")};

    for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
        for (unsigned j = 0; j < ARRAY_LEN(keys); j++)
            expect_changes(keys[i], keys[j], i == j ? "" : "routes: '' ''\n");
}

TEST(conf_compare, listeners_are_their_addresses)
{
    expect_changes(BACKEND "listen: [{address: '127.0.0.1:1'}, {address: '127.0.0.1:2'}]\n",
        BACKEND "listen: [{address: '127.0.0.1:3'}, {address: '127.0.0.1:1'}]\n",
        "listen: '127.0.0.1:2' ''\nlisten: '' '127.0.0.1:3'\n");
}

TEST(conf_compare, what_else_is_said_of_a_listener_counts_for_those_to_come)
{
    const char *one = BACKEND "listen: [{address: 'unix:/tmp/a', mode: 0660}]\n";

    expect_changes(one, BACKEND "listen: [{address: 'unix:/tmp/a', mode: 0600}]\n",
        "listen.unix:/tmp/a.mode: '' ''\n");
    expect_changes(one,
        BACKEND "listen: [{address: 'unix:/tmp/a', mode: 0660, max_req_body: 1k}]\n",
        "listen.unix:/tmp/a.max_req_body: '' ''\n");
    one = BACKEND "listen: [{address: '*:1', proxy_protocol: required, trusted: [10.0.0.0/8]}]\n";
    expect_changes(one, one, "");
    expect_changes(one,
        BACKEND "listen: [{address: '*:1', proxy_protocol: required, trusted: [10.0.0.0/9]}]\n",
        "listen.*:1.trusted: '' ''\n");
    expect_changes(one, BACKEND "listen: [{address: '*:1'}]\n",
        "listen.*:1.proxy_protocol: '' ''\nlisten.*:1.trusted: '' ''\n");
}

TEST(conf_compare, lists_are_compared_by_what_they_say)
{
    expect_changes(
        BACKEND "trusted_proxies: [10.0.0.0/8]\n", BACKEND "trusted_proxies: 10.0.0.0/8\n", "");
    expect_changes(BACKEND "trusted_proxies: [10.0.0.0/8]\n",
        BACKEND "trusted_proxies: [10.0.0.0/8, '::1']\n", "trusted_proxies: '' ''\n");
    expect_changes(BACKEND, BACKEND "limits: [{path: /a}]\n", "limits: '' ''\n");
    expect_changes(BACKEND "limits: [{path: /a, except: ['::1']}]\n",
        BACKEND "limits: [{path: /a, except: ['::2']}]\n", "limits: '' ''\n");
    expect_changes(BACKEND "admin: {allow: {read: ['user:1'], write: ['::1']}}\n",
        BACKEND "admin: {allow: {read: ['user:1'], write: ['::1']}}\n", "");
    expect_changes(BACKEND "admin: {allow: {read: ['user:1']}}\n",
        BACKEND "admin: {allow: {read: ['group:1']}}\n", "admin.allow: '' ''\n");
}

TEST(conf_compare, a_secret_is_not_told)
{
    expect_changes(BACKEND "admin: {address: '127.0.0.1:1', token: abcdefghijklmnop}\n",
        BACKEND "admin: {address: '127.0.0.1:1', token: ponmlkjihgfedcba}\n",
        "! admin.token: '' ''\n");
}

TEST(conf_compare, live_parameters_are_taken_and_others_are_not)
{
    const struct conf *a = load(BACKEND);
    const struct conf *b = load(
        BACKEND "parameters: {default_ttl: 7s, log_level: debug, listen_depth: 9, http_via: x}\n");
    struct conf_params p = a->params;

    conf_params_take_live(&p, &b->params);
    CHECK_EQ(7000, p.default_ttl);
    CHECK(p.ttl_said);
    CHECK_STR("debug", p.log_level);
    CHECK_EQ(a->params.listen_depth, p.listen_depth);
    CHECK(p.http_via == a->params.http_via); /* whose text lives as long */
    conf_free(&b);
    CHECK_STR("debug", p.log_level); /* that of a level is for ever */
    conf_free(&a);
}

/* --- conf->content --- */

static uint64_t
content(const char *text)
{
    const struct conf *c = load(text);
    uint64_t digest = c->content;

    conf_free(&c);
    return digest;
}

#define ONE_ROUTE "routes: [{path: /a, ttl: 60s}]\n"

TEST(conf_content, what_decides_what_an_object_is_is_another_number)
{
    static const char *const others[] = {BACKEND,
        "backends: {o: {address: '127.0.0.1:81'}}\n" ONE_ROUTE,
        "backends: {p: {address: '127.0.0.1:80'}}\n" ONE_ROUTE,
        "backends: {o: {address: '127.0.0.1:80', host_header: a}}\n" ONE_ROUTE,
        BACKEND "routes: [{path: /a, ttl: 61s}]\n", BACKEND "routes: [{path: /a, grace: 60s}]\n",
        BACKEND "routes: [{path: /a, ttl: 60s}, {path: /b, ttl: 60s}]\n",
        BACKEND "routes: [{path: /b, ttl: 60s}, {path: /a, ttl: 60s}]\n",
        BACKEND "directors: {d: {type: random, backends: [o]}}\n" ONE_ROUTE,
        BACKEND "compress: on\n" ONE_ROUTE, BACKEND "compress: {min_size: 2KiB}\n" ONE_ROUTE,
        BACKEND "esi: {depth: 2}\n" ONE_ROUTE};
    const uint64_t one = content(BACKEND ONE_ROUTE);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        CHECK(content(others[i]) != one);
        for (size_t k = 0; k < i; k++)
            CHECK(content(others[i]) != content(others[k]));
    }
}

TEST(conf_content, how_it_is_written_and_the_rest_of_the_file_do_not_count)
{
    const uint64_t one = content(BACKEND ONE_ROUTE);

    CHECK_EQ(
        one, content("# a comment\nroutes:\n  - path: '/a'  # one\n    ttl: \"60s\"\n\n" BACKEND));
    CHECK_EQ(one, content(BACKEND ONE_ROUTE "listen: [{address: '127.0.0.1:8080'}]\nworkers: 2\n"
                                            "storage: {main: {size: 1GiB}}\nvcl: a.vcl\n"
                                            "admin: {address: 'unix:/tmp/a'}\n"
                                            "parameters: {default_ttl: 1s}\n"));
}

TEST_MAIN(TEST_ENTRY(conf_compare, the_same_file_changes_nothing),
    TEST_ENTRY(conf_compare, what_may_change_is_told_from_what_needs_a_restart),
    TEST_ENTRY(conf_compare, backends_are_told_apart_by_name_and_compared_key_by_key),
    TEST_ENTRY(conf_compare, a_probe_is_what_it_asks_and_not_its_name),
    TEST_ENTRY(conf_compare, directors_are_compared_by_their_members_names),
    TEST_ENTRY(conf_compare, routes_are_compared_by_what_they_say),
    TEST_ENTRY(conf_compare, actions_of_routes_are_compared_each),
    TEST_ENTRY(conf_compare, listeners_are_their_addresses),
    TEST_ENTRY(conf_compare, what_else_is_said_of_a_listener_counts_for_those_to_come),
    TEST_ENTRY(conf_compare, lists_are_compared_by_what_they_say),
    TEST_ENTRY(conf_compare, a_secret_is_not_told),
    TEST_ENTRY(conf_compare, live_parameters_are_taken_and_others_are_not),
    TEST_ENTRY(conf_content, what_decides_what_an_object_is_is_another_number),
    TEST_ENTRY(conf_content, how_it_is_written_and_the_rest_of_the_file_do_not_count))
