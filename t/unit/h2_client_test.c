/* h2_client_test.c -- a client of HTTP/2: what it says, in any pieces, and what it hears. */
#include "t/unit/h2_client_fixture.h"

#define GREETING "settings(3=4 6=2000 8=1 9=1) window(0 196609) "
#define HIT(id)  "headers(" #id " 200 content-length:3) data(" #id " 3 end) "

static struct bytes b; /* what is said next */

/* ---- the beginning ---- */

TEST(h2_client, hears_the_settings_before_it_has_said_a_byte)
{
    world_open_silent();
    fake_run(&world.loop);
    CHECK_STR(GREETING, hears());
    CHECK_EQ(1, fake_packets(world.client->s));
    put_preface(&b);
    says(&b);
    CHECK_STR("ack ", hears());
    world_close();
}

TEST(h2_client, that_speaks_http_1_is_told_so_and_that_is_all)
{
    world_open_silent();
    says_bytes("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    CHECK_STR(GREETING "goaway(0 1) ", hears());
    CHECK(fake_is_shut(world.client->s));
    fake_pass(&world.loop, 2100);
    CHECK(fake_is_closed(world.client->s));
    CHECK_EQ(0, world.nanswers);
    world_close();
}

TEST(h2_client, gets_a_hit_in_one_write)
{
    unsigned packets;

    world_open();
    packets = fake_packets(world.client->s);
    put_request(&b, 1, "GET", "/hit", true);
    says(&b);
    CHECK_STR(HIT(1), hears());
    CHECK_EQ(packets + 1, fake_packets(world.client->s));
    CHECK(world.answers[0].done);
    world_close();
}

TEST(h2_client, that_asks_three_things_at_once_gets_them_in_one_write)
{
    unsigned packets;

    world_open();
    packets = fake_packets(world.client->s);
    for (uint32_t id = 1; id <= 5; id += 2)
        put_request(&b, id, "GET", "/hit", true);
    says(&b);
    CHECK_STR(HIT(1) HIT(3) HIT(5), hears());
    CHECK_EQ(packets + 1, fake_packets(world.client->s));
    world_close();
}

/* Frames of every sort, and a body that is read as it comes. */
static void
put_much(void)
{
    put_preface(&b);
    put_request(&b, 1, "GET", "/hit", true);
    put_request(&b, 3, "POST", "/read", false);
    put_frame(&b, H2_DATA, 0, 3, "abc", 3);
    put_frame(&b, H2_PING, 0, 0, "12345678", 8);
    put_frame(&b, H2_DATA, H2_PADDED, 3, "\002defg\0\0", 7);
    put_number(&b, H2_WINDOW_UPDATE, 0, 5000);
    put_frame(&b, 77, 0, 9, "what is not known", 17);
    put_frame(&b, H2_DATA, H2_END_STREAM, 3, "h", 1);
    put_request(&b, 5, "GET", "/hit", true);
}

TEST(h2_client, is_understood_however_its_bytes_are_cut)
{
    size_t len;

    put_much();
    len = b.len;
    for (size_t at = 0; at <= len; at++) {
        struct answer *a = &world.answers[1];

        world_open_silent();
        says_bytes(b.at, at);
        if (world.nanswers > 1) {
            a->reads = 2;
            wake(a);
        }
        says_bytes(b.at + at, len - at);
        CHECK_EQ(3, world.nanswers);
        a->reads = 2;
        wake(a);
        CHECK_EQ(8, a->got_len);
        CHECK_MEM("abcdefgh", a->got, 8);
        CHECK(a->in_ended);
        CHECK_STR(GREETING "ack " HIT(1) "pong " HIT(5), hears());
        answers(a, 0);
        wake(a);
        CHECK_STR("headers(3 200 content-length:0 end) ", hears());
        world_close();
    }
    b.len = 0;
}

TEST(h2_client, is_understood_byte_by_byte)
{
    world_open_silent();
    put_much();
    for (size_t i = 0; i < b.len; i++)
        says_bytes(b.at + i, 1);
    b.len = 0;
    world.answers[1].reads = 100;
    wake(&world.answers[1]);
    CHECK_EQ(8, world.answers[1].got_len);
    answers(&world.answers[1], 0);
    wake(&world.answers[1]);
    CHECK_STR(
        GREETING "ack " HIT(1) "pong " HIT(5) "headers(3 200 content-length:0 end) ", hears());
    world_close();
}

/* ---- answers ---- */

TEST(h2_client, hears_of_head_and_304_that_no_body_follows)
{
    world_open();
    put_request(&b, 1, "HEAD", "/x", true);
    put_request(&b, 3, "GET", "/y", true);
    says(&b);
    answers(&world.answers[0], 0);
    world.answers[0].length = 1000;
    world.answers[0].bodyless = true;
    answers(&world.answers[1], 0);
    world.answers[1].status = 304;
    world.answers[1].length = EXCHANGE_LENGTH_UNKNOWN;
    world.answers[1].bodyless = true;
    wake(&world.answers[0]);
    wake(&world.answers[1]);
    CHECK_STR("headers(1 200 content-length:1000 end) headers(3 304 end) ", hears());
    CHECK(world.answers[0].done && world.answers[1].done);
    world_close();
}

TEST(h2_client, hears_an_interim_response_in_front)
{
    struct head_build h;
    struct answer *a = &world.answers[0];

    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    head_build_stored(&h, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n");
    CHECK_EQ(0, a->x->ops->interim(a->x, &h.h));
    CHECK_STR("headers(1 103 link:</a>) ", hears());
    CHECK_EQ(0, a->x->ops->interim(a->x, &h.h));
    answers(a, 3);
    wake(a);
    CHECK_STR("headers(1 103 link:</a>) " HIT(1), hears());
    world_close();
}

TEST(h2_client, that_waits_for_100_hears_it_when_its_body_is_wanted)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_request_with(&b, 1, "POST", "/x", "expect", "100-continue");
    says(&b);
    CHECK_STR("", hears());
    a->reads = 10;
    wake(a);
    CHECK_STR("headers(1 100) ", hears());
    wake(a);
    CHECK_STR("", hears());
    put_frame(&b, H2_DATA, H2_END_STREAM, 1, "abc", 3);
    says(&b);
    CHECK(a->in_ended);
    answers(a, 3);
    wake(a);
    CHECK_STR(HIT(1), hears());
    world_close();
}

/* Its client need not send the rest (RFC 9113 8.1). */
TEST(h2_client, whose_body_nobody_reads_hears_the_answer_and_that_it_may_stop)
{
    world_open();
    put_request(&b, 1, "POST", "/hit", false);
    says(&b);
    CHECK_STR(HIT(1) "rst(1 0) ", hears());
    put_frame(&b, H2_DATA, H2_END_STREAM, 1, "abc", 3); /* it was on its way */
    put_request(&b, 3, "GET", "/hit", true);
    says(&b);
    CHECK_STR(HIT(3), hears());
    world_close();
}

/* An answer that comes in pieces, each when the last has left: the connection's own run may not nest. */
TEST(h2_client, gets_a_body_whose_pieces_wait_for_each_other)
{
    for (size_t takes = 0; takes < 30000; takes += 1000) {
        world_open();
        put_number(&b, H2_WINDOW_UPDATE, 0, 1 << 24);
        put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 24);
        says(&b);
        hears();
        fake_take(world.client->s, takes);
        put_request(&b, 1, "GET", "/steady", true);
        says(&b);
        fake_take(world.client->s, SIZE_MAX);
        fake_run(&world.loop);
        hears();
        CHECK_EQ(LARGE_BYTES, client_stream(world.client, 1)->data);
        CHECK(client_stream(world.client, 1)->ended);
        CHECK(!fake_is_shut(world.client->s));
        world_close();
    }
}

TEST_MAIN(TEST_ENTRY(h2_client, hears_the_settings_before_it_has_said_a_byte),
    TEST_ENTRY(h2_client, that_speaks_http_1_is_told_so_and_that_is_all),
    TEST_ENTRY(h2_client, gets_a_hit_in_one_write),
    TEST_ENTRY(h2_client, that_asks_three_things_at_once_gets_them_in_one_write),
    TEST_ENTRY(h2_client, is_understood_however_its_bytes_are_cut),
    TEST_ENTRY(h2_client, is_understood_byte_by_byte),
    TEST_ENTRY(h2_client, hears_of_head_and_304_that_no_body_follows),
    TEST_ENTRY(h2_client, hears_an_interim_response_in_front),
    TEST_ENTRY(h2_client, that_waits_for_100_hears_it_when_its_body_is_wanted),
    TEST_ENTRY(h2_client, whose_body_nobody_reads_hears_the_answer_and_that_it_may_stop),
    TEST_ENTRY(h2_client, gets_a_body_whose_pieces_wait_for_each_other))
