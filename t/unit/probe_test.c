/* probe_test.c -- probes over streams without sockets: what is asked, and what an answer means. */
#include "t/unit/test.h"

#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/log/elog.h"
#include "daemon/origin/probe.h"
#include "daemon/shm/counters.h"
#include "t/unit/fake_stream.h"
#include "t/unit/origin_fixture.h"

enum {
    INTERVAL_MS = 1000,
    TIMEOUT_MS = 500,
    TICK_MS = TIMER_TICK_MS, /* deadlines are kept to one */
};

static const struct h1_conf h1 = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};

/* One backend, with a probe that runs on a loop whose time is the test's. */
struct probing {
    struct loop loop;
    struct counters *counters;
    struct registry *rg;
    struct director *d;
    struct backend *b;
    struct stream *s;
};

static struct probe_conf
conf_of(const char *url)
{
    struct probe_conf c = PROBE_CONF_DEFAULT;

    c.url = url;
    c.interval_ms = INTERVAL_MS;
    c.timeout_ms = TIMEOUT_MS;
    return c;
}

static struct conf_backend
backend_at(const char *host, uint16_t port)
{
    static struct sockaddr_storage addrs[2];
    static socklen_t lens[2];

    return (struct conf_backend){.name = "b",
        .address = {.text = "b",
            .path = "",
            .addrs = addrs,
            .addr_lens = lens,
            .naddrs = 1,
            .host = host,
            .port = port},
        .host_header = ""};
}

static void
probing_open(struct probing *p, const struct probe_conf *probe, const struct conf_backend *at)
{
    static const struct director_ask nothing;
    struct conf_backend b = backend_at("b.test", 8080);

    *p = (struct probing){.s = NULL};
    fake_newest = NULL;
    fake_loop_open(&p->loop);
    elog_init(ELOG_ERROR, 1);
    CHECK_EQ(0, counters_open(&p->counters, NULL, 1));
    CHECK_EQ(0, registry_open(&p->rg, picks_conf()));
    registry_set_counters(p->rg, p->counters);
    CHECK_EQ(0, probes_start(p->rg, &p->loop, h1_origin_protocol(&h1)));
    CHECK_EQ(0, backend_new(&p->d, p->rg, at != NULL ? at : &b, probe, "b", "boot.b"));
    p->b = director_pick(p->d, &nothing);
}

static void
probing_close(struct probing *p)
{
    probes_stop(p->rg);
    if (p->d != NULL)
        director_drop(&p->d);
    registry_close(&p->rg);
    counters_close(&p->counters);
    fake_loop_close(&p->loop);
}

/* The stream of a probe that begins within `ms`. */
static void
probing_begin(struct probing *p, unsigned ms)
{
    fake_newest = NULL;
    for (unsigned i = 0; i <= ms && fake_newest == NULL; i += TICK_MS)
        fake_pass(&p->loop, TICK_MS);
    CHECK(fake_newest != NULL);
    p->s = fake_newest;
}

/* And it is up. */
static void
probing_connect(struct probing *p, unsigned ms)
{
    probing_begin(p, ms);
    fake_connect(p->s, 0);
    fake_run(&p->loop);
}

static void
probing_hear(struct probing *p, const char *text)
{
    fake_arrive(p->s, text, strlen(text));
    fake_run(&p->loop);
}

static void
probing_end(struct probing *p, int err)
{
    fake_end(p->s, err);
    fake_run(&p->loop);
}

/* One probe, from its beginning to this answer. */
static struct probe_seen
probing_once(struct probing *p, const char *answer)
{
    struct probe_seen seen;

    probing_connect(p, INTERVAL_MS + 3 * TICK_MS);
    probing_hear(p, answer);
    probing_end(p, TERR_CLOSED);
    CHECK(fake_is_closed(p->s));
    backend_probe_seen(p->b, &seen);
    return seen;
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char bad[] = "HTTP/1.1 503 Busy\r\n\r\n";

TEST(probe, by_default_the_first_good_answer_makes_it_well)
{
    struct probe_conf c = conf_of("/health");
    struct probe_seen seen;
    struct probing p;

    probing_open(&p, &c, NULL);
    backend_probe_seen(p.b, &seen);
    CHECK(seen.probed && !seen.healthy && !backend_healthy(p.b));
    CHECK_EQ(2, seen.good);
    CHECK_EQ(3, seen.happy);
    CHECK_STR("", seen.last);
    seen = probing_once(&p, ok);
    CHECK_STR(
        "GET /health HTTP/1.1\r\nHost: b.test:8080\r\nConnection: close\r\n\r\n", fake_got(p.s));
    CHECK(seen.healthy && backend_healthy(p.b));
    CHECK_EQ(7, seen.happy);
    CHECK_EQ(3, seen.good);
    CHECK_EQ(8, seen.window);
    CHECK_STR("HTTP/1.1 200 OK", seen.last);
    CHECK(seen.changed_s > 1e9);
    CHECK_EQ(1, counters_sum(p.counters, COUNTER_backend_probe_good));
    probing_close(&p);
}

TEST(probe, one_that_is_trusted_is_well_until_its_first_answer)
{
    static const char *const answers[] = {ok, bad};

    for (unsigned i = 0; i < 2; i++) {
        struct probe_conf c = conf_of("/");
        struct probe_seen seen;
        struct probing p;

        c.trusting = true;
        probing_open(&p, &c, NULL);
        backend_probe_seen(p.b, &seen);
        CHECK(seen.healthy && backend_healthy(p.b));
        CHECK_EQ(2, seen.good);
        seen = probing_once(&p, answers[i]);
        CHECK_EQ(i == 0, seen.healthy);
        CHECK_EQ(i == 0, backend_healthy(p.b));
        probing_close(&p);
    }
}

TEST(probe, fewer_good_ones_than_needed_make_it_sick_and_enough_well_again)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    c.window = 4;
    c.threshold = 3;
    c.initial = 3;
    probing_open(&p, &c, NULL);
    CHECK(backend_healthy(p.b));
    seen = probing_once(&p, ok); /* 1111 */
    seen = probing_once(&p, bad);
    CHECK(seen.healthy && backend_healthy(p.b));
    seen = probing_once(&p, bad);
    CHECK(!seen.healthy && !backend_healthy(p.b));
    CHECK_STR("HTTP/1.1 503 Busy", seen.last);
    CHECK_EQ(2, seen.good);
    seen = probing_once(&p, ok); /* 1001 */
    seen = probing_once(&p, ok);
    CHECK(!backend_healthy(p.b)); /* 0011 */
    seen = probing_once(&p, ok);
    CHECK(seen.healthy && backend_healthy(p.b));
    CHECK_EQ(2, counters_sum(p.counters, COUNTER_backend_probe_bad));
    probing_close(&p);
}

TEST(probe, initial_results_are_no_more_than_are_needed)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    c.initial = 8;
    probing_open(&p, &c, NULL);
    backend_probe_seen(p.b, &seen);
    CHECK_EQ(3, seen.good);
    CHECK(backend_healthy(p.b));
    probing_close(&p);
    c.initial = 0;
    c.window = c.threshold = 64;
    probing_open(&p, &c, NULL);
    for (unsigned i = 0; i < 64; i++) {
        CHECK(!backend_healthy(p.b));
        seen = probing_once(&p, ok);
    }
    CHECK(seen.happy == UINT64_MAX && backend_healthy(p.b));
    probing_close(&p);
}

TEST(probe, an_answer_that_does_not_end_in_time_is_bad)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    c.initial = 3;
    probing_open(&p, &c, NULL);
    probing_connect(&p, 3 * TICK_MS);
    probing_hear(&p, ok);
    fake_pass(&p.loop, TIMEOUT_MS + TICK_MS);
    backend_probe_seen(p.b, &seen);
    CHECK_STR("HTTP/1.1 200 OK: not closed in 500 ms", seen.last);
    CHECK_EQ(0, seen.happy & 1);
    CHECK(fake_is_closed(p.s));
    probing_close(&p);
}

TEST(probe, without_expect_close_the_head_is_enough)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    c.expect_close = false;
    probing_open(&p, &c, NULL);
    probing_connect(&p, 3 * TICK_MS);
    probing_hear(&p, "HTTP/1.1 20");
    CHECK(!fake_is_closed(p.s));
    probing_hear(&p, "0 OK\r\n\r\n");
    CHECK(fake_is_closed(p.s));
    backend_probe_seen(p.b, &seen);
    CHECK_EQ(1, seen.happy & 1);
    probing_close(&p);
}

TEST(probe, what_goes_wrong_is_said)
{
    static const struct {
        const char *hears;
        int end; /* 0: the time runs out */
        const char *last;
    } rows[] = {
        {"", 0, "no response in 500 ms"},
        {"", TERR_CLOSED, "closed without a status line"},
        {"HTTP/1.1 200 OK", TERR_CLOSED, "closed without a status line"},
        {ok, TERR_IO, "HTTP/1.1 200 OK: input/output error"},
        {"SSH-2.0-x\r\n", TERR_CLOSED, "malformed message"},
        {"HTTP/1.1 2000 OK\r\n", TERR_CLOSED, "malformed message"},
        {"HTTP/1.1  200 OK\r\n", TERR_CLOSED, "malformed message"},
        {"HTTP/1.1 204 \r\n\r\n", TERR_CLOSED, "HTTP/1.1 204"},
    };
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    probing_open(&p, &c, NULL);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        probing_connect(&p, INTERVAL_MS + 3 * TICK_MS);
        probing_hear(&p, rows[i].hears);
        if (rows[i].end != 0)
            probing_end(&p, rows[i].end);
        else
            fake_pass(&p.loop, TIMEOUT_MS + TICK_MS);
        CHECK(fake_is_closed(p.s));
        backend_probe_seen(p.b, &seen);
        CHECK_STR(rows[i].last, seen.last);
        CHECK_EQ(0, seen.happy & 1);
    }
    probing_close(&p);
}

TEST(probe, an_answer_without_end_is_cut_off)
{
    static char much[1 << 16];
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    memset(much, 'x', sizeof(much) - 1);
    probing_open(&p, &c, NULL);
    probing_connect(&p, 3 * TICK_MS);
    probing_hear(&p, much); /* no line */
    CHECK(fake_is_closed(p.s));
    backend_probe_seen(p.b, &seen);
    CHECK_STR("header section too large", seen.last);
    /* nor a body that does not end */
    probing_connect(&p, INTERVAL_MS + 3 * TICK_MS);
    probing_hear(&p, "HTTP/1.1 200 OK\r\n\r\n");
    for (unsigned i = 0; i < 1024 && !fake_is_closed(p.s); i++)
        probing_hear(&p, much);
    CHECK(fake_is_closed(p.s));
    backend_probe_seen(p.b, &seen);
    CHECK_STR("HTTP/1.1 200 OK: response without end", seen.last);
    probing_close(&p);
}

TEST(probe, the_next_address_is_tried_when_one_refuses)
{
    struct conf_backend at = backend_at("::1", 80);
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    at.address.naddrs = 2;
    probing_open(&p, &c, &at);
    probing_begin(&p, TICK_MS);
    fake_connect(p.s, TERR_REFUSED);
    fake_run(&p.loop);
    CHECK(p.s != fake_newest);
    p.s = fake_newest;
    fake_connect(p.s, 0);
    probing_hear(&p, ok);
    probing_end(&p, TERR_CLOSED);
    CHECK(strstr(fake_got(p.s), "Host: [::1]\r\n") != NULL);
    backend_probe_seen(p.b, &seen);
    CHECK_EQ(1, seen.happy & 1);
    /* and when none is left */
    probing_begin(&p, INTERVAL_MS);
    fake_connect(p.s, TERR_REFUSED);
    fake_run(&p.loop);
    fake_connect(fake_newest, TERR_UNREACH);
    fake_run(&p.loop);
    backend_probe_seen(p.b, &seen);
    CHECK_STR("no route to the peer", seen.last);
    probing_close(&p);
}

TEST(probe, a_connection_that_does_not_come_up_is_given_up)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    probing_open(&p, &c, NULL);
    probing_begin(&p, TICK_MS);
    fake_pass(&p.loop, TIMEOUT_MS + TICK_MS);
    CHECK(fake_is_closed(p.s));
    backend_probe_seen(p.b, &seen);
    CHECK_STR("no connection in 500 ms", seen.last);
    CHECK(seen.last_ms >= TIMEOUT_MS);
    probing_close(&p);
}

TEST(probe, a_request_goes_out_however_slowly_it_goes)
{
    struct probe_conf c = conf_of(NULL);
    struct probing p;

    c.request = "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n";
    probing_open(&p, &c, NULL);
    probing_begin(&p, TICK_MS);
    fake_take(p.s, 5);
    fake_connect(p.s, 0);
    fake_run(&p.loop);
    CHECK_STR("OPTIO", fake_got(p.s));
    fake_take(p.s, SIZE_MAX);
    fake_run(&p.loop);
    CHECK_STR(c.request, fake_got(p.s));
    probing_close(&p);
}

TEST(probe, a_request_of_lines_is_a_message)
{
    static const struct {
        const char *lines, *sent;
    } rows[] = {
        {"HEAD /p HTTP/1.1\r\nHost: x\r\nX-A:1\r\nConnection: Close\r\n\r\n",
            "HEAD /p HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nConnection: close\r\n\r\n"},
        {"GET / HTTP/1.1\r\nA: 1\r\n\r\n", "GET / HTTP/1.1\r\nHost: b.test:8080\r\nA: 1\r\n\r\n"},
        {"GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: b.test:8080\r\nConnection: close\r\n\r\n"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: b.test:8080\r\n\r\n"},
    };
    struct probe_conf c = conf_of(NULL);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[PROBE_WHY_MAX];
        struct probing p;

        c.request = rows[i].lines;
        CHECK_EQ(0, probe_request_check(c.request, why));
        probing_open(&p, &c, NULL);
        probing_connect(&p, 3 * TICK_MS);
        CHECK_STR(rows[i].sent, fake_got(p.s));
        probing_close(&p);
    }
}

TEST(probe, a_request_that_is_no_message_is_refused_and_it_is_said_why)
{
    static const struct {
        const char *lines, *why;
    } rows[] = {
        {"", "the first line of a probe's request"},
        {"\r\n\r\n", "the first line of a probe's request"},
        {"GET /\r\n\r\n", "the first line of a probe's request"},
        {"GET / HTTP/2.0\r\n\r\n", "the first line of a probe's request"},
        {"GET / HTTP/1.1 x\r\n\r\n", "the first line of a probe's request"},
        {"GET  HTTP/1.1\r\n\r\n", "the first line of a probe's request"},
        {"G(T / HTTP/1.1\r\n\r\n", "the first line of a probe's request"},
        {"GET / HTTP/1.1\r\nHost\r\n\r\n", "'Host' is no line"},
        {"GET / HTTP/1.1\r\nA b: c\r\n\r\n", "'A b: c' is no line"},
        {"GET / HTTP/1.1\r\nA: \x01\r\n\r\n", "is no line"},
        {"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "has one Host"},
        {"GET / HTTP/1.1\r\nConnection: upgrade\r\n\r\n", "is close or keep-alive"},
        {"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n", "no 'Content-Length'"},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "no 'Transfer-Encoding'"},
        {"GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", "no 'Expect'"},
        {"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", "ends with its first empty line"},
    };
    struct conf_backend at = backend_at("b.test", 80);
    struct probe_conf c = conf_of(NULL);
    struct director *d = NULL;
    struct registry *rg;

    elog_init(ELOG_ERROR, 1);
    CHECK_EQ(0, registry_open(&rg, picks_conf()));
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[PROBE_WHY_MAX] = "";

        c.request = rows[i].lines;
        CHECK_EQ(TERR_INVALID, probe_request_check(c.request, why));
        CHECK(strstr(why, rows[i].why) != NULL);
        CHECK_EQ(TERR_INVALID, backend_new(&d, rg, &at, &c, "b", "boot.b"));
    }
    registry_close(&rg);
}

TEST(probe, of_a_backend_with_a_proxy_header_is_for_no_client)
{
    static const char *const headers[] = {
        "PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"};
    struct conf_backend at = backend_at("b.test", 8080);
    struct probe_conf c = conf_of("/");

    for (unsigned version = 1; version <= 2; version++) {
        size_t len = version == 1 ? 15 : 16;
        struct probing p;

        at.proxy_header = version;
        probing_open(&p, &c, &at);
        probing_connect(&p, 0);
        CHECK(fake_got_len(p.s) > len + 6);
        CHECK_MEM(headers[version - 1], fake_got(p.s), len);
        CHECK_MEM("GET / ", fake_got(p.s) + len, 6);
        probing_close(&p);
    }
}

TEST(probe, they_are_an_interval_apart_and_never_two_at_once)
{
    struct probe_conf c = conf_of("/");
    struct probing p;
    uint64_t began;

    c.timeout_ms = 3 * INTERVAL_MS;
    probing_open(&p, &c, NULL);
    probing_once(&p, ok); /* the second is spread over the interval */
    probing_once(&p, ok);
    began = p.loop.clock.mono_ms;
    probing_connect(&p, 2 * INTERVAL_MS);
    CHECK(p.loop.clock.mono_ms - began >= INTERVAL_MS - 2 * TICK_MS);
    CHECK(p.loop.clock.mono_ms - began <= INTERVAL_MS + 2 * TICK_MS);
    fake_newest = NULL;
    for (unsigned i = 0; i < 2 * INTERVAL_MS; i += TICK_MS)
        fake_pass(&p.loop, TICK_MS);
    CHECK(fake_newest == NULL); /* the third is still under way */
    fake_end(p.s, TERR_CLOSED);
    fake_run(&p.loop);
    probing_connect(&p, 2 * TICK_MS); /* it is late: at once */
    probing_close(&p);
}

TEST(probe, one_whose_backend_left_stops)
{
    struct probe_conf c = conf_of("/");
    struct probing p;

    probing_open(&p, &c, NULL);
    probing_connect(&p, 3 * TICK_MS);
    director_drop(&p.d);
    probing_hear(&p, "HTTP/1.1 ");
    CHECK(fake_is_closed(p.s));
    fake_newest = NULL;
    for (unsigned i = 0; i < 3 * INTERVAL_MS; i += TICK_MS) /* the tick frees it */
        fake_pass(&p.loop, TICK_MS);
    CHECK(fake_newest == NULL);
    probing_close(&p);
}

TEST(probe, the_operators_word_stands_while_probes_go_on)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    probing_open(&p, &c, NULL);
    backend_set_admin(p.b, BACKEND_SICK);
    seen = probing_once(&p, ok);
    CHECK(seen.healthy && !backend_healthy(p.b));
    backend_set_admin(p.b, BACKEND_AUTO);
    CHECK(backend_healthy(p.b));
    probing_close(&p);
}

TEST(probe, the_average_is_of_the_good_ones)
{
    struct probe_conf c = conf_of("/");
    struct probe_seen seen;
    struct probing p;

    probing_open(&p, &c, NULL);
    probing_connect(&p, 3 * TICK_MS);
    fake_pass(&p.loop, 100);
    probing_hear(&p, ok);
    probing_end(&p, TERR_CLOSED);
    backend_probe_seen(p.b, &seen);
    CHECK_EQ(100, seen.last_ms);
    CHECK(seen.average_s > 0.099 && seen.average_s < 0.101);
    seen = probing_once(&p, bad);
    CHECK(seen.average_s > 0.099 && seen.average_s < 0.101);
    seen = probing_once(&p, ok);
    CHECK(seen.average_s > 0.049 && seen.average_s < 0.051);
    probing_close(&p);
}

TEST(probe, settings_that_make_no_sense_are_refused)
{
    struct conf_backend at = backend_at("b.test", 80);
    struct probe_conf c = conf_of("/"), wrong[7];
    struct director *d = NULL;
    struct registry *rg;

    for (unsigned i = 0; i < 7; i++)
        wrong[i] = c;
    wrong[0].window = 0;
    wrong[1].window = 65;
    wrong[2].threshold = 9;
    wrong[3].interval_ms = 0;
    wrong[4].timeout_ms = -1;
    wrong[5].url = "/ HTTP/1.1\r\nX: y";
    wrong[6].url = NULL;
    CHECK_EQ(0, registry_open(&rg, picks_conf()));
    for (unsigned i = 0; i < 7; i++)
        CHECK_EQ(TERR_INVALID, backend_new(&d, rg, &at, &wrong[i], "b", "boot.b"));
    CHECK(d == NULL);
    CHECK_EQ(0, backend_new(&d, rg, &at, &c, "b", "boot.b"));
    director_drop(&d);
    registry_close(&rg);
}

TEST_MAIN(TEST_ENTRY(probe, by_default_the_first_good_answer_makes_it_well),
    TEST_ENTRY(probe, one_that_is_trusted_is_well_until_its_first_answer),
    TEST_ENTRY(probe, fewer_good_ones_than_needed_make_it_sick_and_enough_well_again),
    TEST_ENTRY(probe, initial_results_are_no_more_than_are_needed),
    TEST_ENTRY(probe, an_answer_that_does_not_end_in_time_is_bad),
    TEST_ENTRY(probe, without_expect_close_the_head_is_enough),
    TEST_ENTRY(probe, what_goes_wrong_is_said), TEST_ENTRY(probe, an_answer_without_end_is_cut_off),
    TEST_ENTRY(probe, the_next_address_is_tried_when_one_refuses),
    TEST_ENTRY(probe, a_connection_that_does_not_come_up_is_given_up),
    TEST_ENTRY(probe, a_request_goes_out_however_slowly_it_goes),
    TEST_ENTRY(probe, a_request_of_lines_is_a_message),
    TEST_ENTRY(probe, a_request_that_is_no_message_is_refused_and_it_is_said_why),
    TEST_ENTRY(probe, of_a_backend_with_a_proxy_header_is_for_no_client),
    TEST_ENTRY(probe, they_are_an_interval_apart_and_never_two_at_once),
    TEST_ENTRY(probe, one_whose_backend_left_stops),
    TEST_ENTRY(probe, the_operators_word_stands_while_probes_go_on),
    TEST_ENTRY(probe, the_average_is_of_the_good_ones),
    TEST_ENTRY(probe, settings_that_make_no_sense_are_refused))
