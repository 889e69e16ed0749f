/* conf_origins_test.c -- probes of the configuration: read, and refused. */
#include "t/unit/conf_fixture.h"

#define PROBED(text) "backends: {o: {address: '127.0.0.1:80', probe: " text "}}\n"

TEST(conf_origins, a_probe_has_vcls_defaults)
{
    const struct conf *c = load(PROBED("{}"));
    const struct conf_probe *p = c->backends[0].probe;

    CHECK(p != NULL);
    CHECK_STR("", p->name);
    CHECK_STR("/", p->url);
    CHECK_STR("", p->request);
    CHECK_EQ(5000, p->interval);
    CHECK_EQ(2000, p->timeout);
    CHECK_EQ(8, p->window);
    CHECK_EQ(3, p->threshold);
    CHECK_EQ(2, p->initial);
    CHECK(!p->initial_said);
    CHECK_EQ(200, p->expected_status);
    CHECK_EQ(1, p->expect_close);
    conf_free(&c);
    c = load(BACKEND);
    CHECK(c->backends[0].probe == NULL);
    conf_free(&c);
    c = load(PROBED("''"));
    CHECK(c->backends[0].probe == NULL);
    conf_free(&c);
}

TEST(conf_origins, a_probe_may_have_a_name_that_stands_anywhere)
{
    const struct conf *c = load(PROBED("up") "probes: {no: {}, up: {url: '/a?b', threshold: 5,\n"
                                             "  window: 5, expect_close: off}}\n");
    const struct conf_probe *p = c->backends[0].probe;

    CHECK(p == &c->probes[1]);
    CHECK_EQ(2, c->nprobes);
    CHECK_STR("up", p->name);
    CHECK_STR("/a?b", p->url);
    CHECK_EQ(4, p->initial); /* one less than the threshold */
    CHECK_EQ(0, p->expect_close);
    conf_free(&c);
}

TEST(conf_origins, a_probe_may_say_its_request_line_by_line)
{
    const struct conf *c = load(PROBED("{request: [GET /x HTTP/1.1, 'Host: a.test']}"));

    CHECK_STR("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n", c->backends[0].probe->request);
    conf_free(&c);
    expect_errors(PROBED("{request: GET}"),
        "1:58 request must not be text: give it a list of lines, as in [GET / HTTP/1.1, \"Host: "
        "a.test\", \"Connection: close\"]\n");
    expect_errors(PROBED("{request: [GET / HTTP/1.1, '']}"),
        "1:75 request: '' has 0 bytes: 1 to 1000 are possible\n");
    expect_errors(PROBED("{url: /, request: [GET / HTTP/1.1]}"),
        "1:49 key 'url' is for a probe without 'request', which has its own target\n");
}

TEST(conf_origins, a_wrong_probe_is_refused_with_what_would_be_right)
{
    expect_errors(PROBED("{url: health}"), "1:54 url: 'health' does not begin with '/'\n");
    expect_errors(
        PROBED("{url: /a#b}"), "1:54 url: '/a#b' has a fragment, which no request carries\n");
    expect_errors(PROBED("{threshold: 9}"),
        "1:60 9 good results of the last 8 are never reached: 'threshold' is at most 'window'\n");
    expect_errors(PROBED("{window: 2}"),
        "1:57 3 good results of the last 2 are never reached: 'threshold' is at most 'window'\n");
    expect_errors("probes: {a: {threshold: 9}}\n" BACKEND,
        "1:25 9 good results of the last 8 are never reached: 'threshold' is at most 'window'\n");
    expect_errors(PROBED("{urll: /}"), "1:49 unknown key 'urll' in a probe; did you mean 'url'?\n");
    expect_errors(PROBED("up"),
        "1:48 probe: 'up' is not among the probes: there is no section 'probes'; or give it a map, "
        "as in { url: /health }\n");
    expect_errors("probes: {health: {}}\n" PROBED("helth"),
        "2:48 probe: 'helth' is not among the probes; did you mean 'health'?\n");
    expect_errors("probes: {health: {}}\n" PROBED("x"),
        "2:48 probe: 'x' is not among the probes: the first is 'health'\n");
    expect_errors(PROBED("[up]"),
        "1:48 probe must not be a list: give it a map with the keys of `probes`, or the name of "
        "one of these\n");
    expect_errors("probes: up\n" PROBED("up"),
        "1:9 section 'probes' must be a map, not text ('up')\n"); /* and nothing of the backend */
}

TEST(conf_origins, a_queue_is_for_a_limit)
{
    expect_errors("backends: {o: {address: '127.0.0.1:80', queue_timeout: 1s}}",
        "1:41 key 'queue_timeout' is for a backend with 'max_connections': without it no fetch "
        "waits\n");
}

TEST_MAIN(TEST_ENTRY(conf_origins, a_probe_has_vcls_defaults),
    TEST_ENTRY(conf_origins, a_probe_may_have_a_name_that_stands_anywhere),
    TEST_ENTRY(conf_origins, a_probe_may_say_its_request_line_by_line),
    TEST_ENTRY(conf_origins, a_wrong_probe_is_refused_with_what_would_be_right),
    TEST_ENTRY(conf_origins, a_queue_is_for_a_limit))
