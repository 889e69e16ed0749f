/* h1_proxied_test.c -- connections that begin with a PROXY header, however its bytes come. */
#include "t/unit/h1_client_fixture.h"

#include "daemon/base/address.h"
#include "daemon/log/elog.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define LINE      "PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n"
#define ASK       "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n"
#define WAIT      "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct conn_listener endpoint = {.name = "front", .endpoint = "127.0.0.1:80"};
static const struct address_nets anybody;

static void
connect_proxied(const struct address_nets *trusted)
{
    CHECK_EQ(0, h1_server_accept_proxied(world.server, -1, false, &endpoint, trusted));
    world.s = fake_newest;
}

static void
open_proxied(void)
{
    elog_init(ELOG_ERROR, 1);
    world_open();
    connect_proxied(&anybody);
}

static int64_t
counted(enum counter id)
{
    return (int64_t)counters_sum(world.counters, id);
}

TEST(h1_proxied, what_the_header_tells_is_the_connections)
{
    for (size_t at = 0; at <= sizeof(LINE WAIT) - 1; at++) {
        const struct conn_forwarded *fwd;
        char text[ADDRESS_TEXT_MAX];
        struct exchange *x;

        open_proxied();
        says_split(LINE WAIT, at);
        CHECK_EQ(1, world.nanswers);
        x = world.answers[0].x;
        address_text(x->conn->client_addr, text);
        CHECK_STR("192.0.2.7", text);
        CHECK_EQ(1234, x->conn->client_port);
        fwd = x->conn->listener->forwarded;
        CHECK(fwd != NULL && fwd->has_server);
        address_text(fwd->server_addr, text);
        CHECK_STR("198.51.100.1", text);
        CHECK_EQ(80, fwd->server_port);
        CHECK_STR("front", x->conn->listener->name);
        answer_send(&world.answers[0], "waited");
        fake_run(&world.loop);
        says(ASK, sizeof(ASK) - 1);
        CHECK_STR(WAITED HIT, fake_got(world.s));
        CHECK_EQ(1, counted(COUNTER_sess_proxied));
        world_close();
    }
}

TEST(h1_proxied, a_header_that_tells_nothing_leaves_the_address)
{
    static const char local[] = SIGNATURE "\x20\x00\x00\x00" WAIT;

    for (size_t at = 0; at <= sizeof(local) - 1; at++) {
        open_proxied();
        says(local, at);
        says(local + at, sizeof(local) - 1 - at);
        CHECK_EQ(1, world.nanswers);
        CHECK(world.answers[0].x->conn->listener == &endpoint);
        answer_send(&world.answers[0], "waited");
        fake_run(&world.loop);
        world_close();
    }
}

TEST(h1_proxied, what_begins_otherwise_is_closed_unanswered)
{
    static const char *const bad[] = {ASK, "PROXY TCP4 nobody\r\n" ASK, "\r\n" ASK};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (size_t at = 0; at <= strlen(bad[i]); at++) {
            struct stream *s;

            open_proxied();
            s = world.s;
            says(bad[i], at);
            if (!fake_is_closed(s))
                says(bad[i] + at, strlen(bad[i]) - at);
            CHECK(fake_is_closed(s));
            CHECK_EQ(0, fake_got_len(s));
            CHECK_EQ(0, world.nanswers);
            CHECK_EQ(1, counted(COUNTER_sess_proxied_bad));
            world_close();
        }
    }
}

/* The fake's peer is 192.0.2.1. */
TEST(h1_proxied, only_who_is_trusted_may_send_one)
{
    static const struct address_net ten = {.addr = {[10] = 0xff, [11] = 0xff, 10}, .bits = 96 + 8};
    static const struct address_net test_net = {
        .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2}, .bits = 96 + 24};
    const struct address_nets others = {&ten, 1}, us = {&test_net, 1};

    world_open();
    connect_proxied(&others);
    fake_run(&world.loop);
    CHECK(fake_is_closed(world.s));
    CHECK_EQ(1, counted(COUNTER_sess_proxied_bad));
    connect_proxied(&us);
    says(LINE ASK, sizeof(LINE ASK) - 1);
    CHECK_STR(HIT, fake_got(world.s));
    world_close();
}

TEST(h1_proxied, the_header_has_the_time_of_a_request)
{
    open_proxied();
    says(LINE, 10);
    fake_pass(&world.loop, 3000);
    CHECK(!fake_is_closed(world.s));
    says(&LINE[10], 1); /* what trickles does not move it */
    fake_pass(&world.loop, 3000);
    CHECK(fake_is_closed(world.s));
    CHECK_EQ(2, counted(COUNTER_sess_timeout)); /* and the plain one, which was idle */
    world_close();
}

TEST(h1_proxied, who_leaves_before_its_end_was_nobody)
{
    for (size_t len = 0; len < sizeof(LINE) - 1; len++) {
        open_proxied();
        says(LINE, len);
        fake_end(world.s, TERR_CLOSED);
        fake_run(&world.loop);
        CHECK(fake_is_closed(world.s));
        CHECK_EQ(0, counted(COUNTER_sess_proxied_bad));
        world_close();
    }
}

TEST(h1_proxied, none_is_waited_for_when_the_server_drains)
{
    struct stream *quiet;

    open_proxied();
    quiet = world.s;
    connect_proxied(&anybody);
    says(LINE, 10);
    h1_server_drain(world.server);
    fake_run(&world.loop);
    CHECK(fake_is_closed(quiet) && fake_is_closed(world.s));
    world_close();
}

TEST_MAIN(TEST_ENTRY(h1_proxied, what_the_header_tells_is_the_connections),
    TEST_ENTRY(h1_proxied, a_header_that_tells_nothing_leaves_the_address),
    TEST_ENTRY(h1_proxied, what_begins_otherwise_is_closed_unanswered),
    TEST_ENTRY(h1_proxied, only_who_is_trusted_may_send_one),
    TEST_ENTRY(h1_proxied, the_header_has_the_time_of_a_request),
    TEST_ENTRY(h1_proxied, who_leaves_before_its_end_was_nobody),
    TEST_ENTRY(h1_proxied, none_is_waited_for_when_the_server_drains))
