/* h2_life_test.c -- how streams and connections of HTTP/2 end: resets, limits, drains, deadlines. */
#include "t/unit/h2_client_fixture.h"

#define HIT(id) "headers(" #id " 200 content-length:3) data(" #id " 3 end) "

static struct bytes b; /* what is said next */

static void
answer_now(struct answer *a, size_t len)
{
    answers(a, len);
    wake(a);
}

/* ---- streams ---- */

TEST(h2_stream, that_its_client_resets_leaves_the_others)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    put_request(&b, 3, "GET", "/y", true);
    put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
    says(&b);
    CHECK(world.answers[0].gone && !world.answers[1].gone);
    answer_now(&world.answers[1], 3);
    CHECK_STR(HIT(3), hears());
    world_close();
}

TEST(h2_stream, that_its_answerer_resets_leaves_the_others)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_request(&b, 1, "GET", "/x", true);
    put_request(&b, 3, "GET", "/y", true);
    says(&b);
    a->x->ops->reset(a->x, TERR_CLOSED);
    fake_run(&world.loop);
    CHECK(a->gone);
    answer_now(&world.answers[1], 3);
    CHECK_STR("rst(1 2) " HIT(3), hears());
    world_close();
}

/* What the kernel has not taken yet stays readable, and the stream's end comes behind it. */
TEST(h2_stream, that_its_answerer_resets_while_its_bytes_wait_leaves_the_others)
{
    struct answer *a = &world.answers[0];

    world_open();
    fake_take(world.client->s, 100);
    put_number(&b, H2_WINDOW_UPDATE, 0, LARGE_BYTES);
    put_request(&b, 1, "GET", "/large", true);
    put_request(&b, 3, "GET", "/y", true);
    says(&b);
    CHECK(!h2_out_ready(h2_stream_of(a->x)->conn));
    a->answers = false;
    a->x->ops->reset(a->x, TERR_CLOSED);
    fake_run(&world.loop);
    CHECK(a->x != NULL && !a->gone);
    fake_take(world.client->s, SIZE_MAX);
    fake_run(&world.loop);
    CHECK(a->gone && a->x == NULL);
    answer_now(&world.answers[1], 3);
    CHECK(strstr(hears(), "data(1 16383) rst(1 2) " HIT(3)) != NULL);
    world_close();
}

/* What its answerers take back is not read: the loop may write between two of its tasks. */
TEST(h2_stream, whose_connection_is_cut_between_two_runs_is_not_written_any_more)
{
    struct answer *a = &world.answers[0];
    uint8_t addr[16];
    uint16_t port = 1;

    world_open();
    fake_take(world.client->s, 100);
    put_request(&b, 1, "GET", "/large", true);
    says(&b);
    a->keeps = true;
    CHECK(world.server->ops->cut_one(world.server, 1));
    CHECK(a->x->gone && fake_is_closed(world.client->s));
    a->x->ops->local(a->x, addr, &port); /* and where it came to is not known any more */
    CHECK_EQ(0, memcmp(addr, (uint8_t[16]){0}, sizeof(addr)));
    CHECK_EQ(0, port);
    fake_run(&world.loop);
    a->keeps = false;
    wake(a);
    world_close();
}

/* An answerer of one connection that does something for another. */
TEST(h2_stream, is_answered_while_another_connection_gathers)
{
    struct client *first = &world.clients[0];

    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    CHECK_EQ(0, world_adopt());
    put_preface(&b);
    says(&b);
    hears();
    put_request(&b, 1, "GET", "/hit", true);
    put_request(&b, 3, "GET", "/first", true);
    put_request(&b, 5, "GET", "/hit", true);
    says(&b);
    CHECK_STR(HIT(1) HIT(5), hears());
    answer_now(&world.answers[2], 3);
    CHECK_STR(HIT(3), hears());
    world.client = first;
    CHECK_STR(HIT(1), hears());
    CHECK(world.answers[0].done);
    world_close();
}

/* RFC 9113 6.2: a frame that is too short for what its flags say. */
TEST(h2_stream, begins_with_no_frame_that_has_no_room_for_its_padding)
{
    world_open();
    put_frame(&b, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM | H2_PADDED, 1, NULL, 0);
    says(&b);
    CHECK_STR("goaway(0 6) ", hears());
    world_close();
}

/* The table of HPACK is the connection's: what a refused block put there is there. */
TEST(h2_stream, beyond_the_limit_is_refused_and_its_fields_are_decoded_all_the_same)
{
    static const char indexed[] = "\x82\x86\x41\x01"
                                  "a\x44\x05/late"; /* RFC 7541 6.1, 6.2.1: "/late" is entry 62 */

    world_open();
    for (uint32_t id = 1; id < 2 * STREAMS_MAX; id += 2)
        put_request(&b, id, "GET", "/x", true);
    put_frame(&b, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 9, indexed, sizeof(indexed) - 1);
    says(&b);
    CHECK_STR("rst(9 7) ", hears());
    CHECK_EQ(STREAMS_MAX, world.nanswers);
    answer_now(&world.answers[0], 3);
    CHECK_STR(HIT(1), hears());
    put_frame(&b, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 11, "\x82\x86\xbf\xbe", 4);
    says(&b);
    CHECK_STR("", hears());
    CHECK_STR("/late", world.answers[STREAMS_MAX].target);
    for (unsigned i = 1; i <= STREAMS_MAX; i++)
        answer_now(&world.answers[i], 3);
    CHECK_STR(HIT(3) HIT(5) HIT(7) HIT(11), hears());
    world_close();
}

/* So that what is under way is bounded whatever the client resets (CVE-2023-44487). */
TEST(h2_stream, that_was_reset_counts_until_its_answerer_lets_go)
{
    world_open();
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        put_request(&b, 1 + 2 * i, "GET", "/x", true);
        says(&b);
        world.answers[i].keeps = true;
        put_number(&b, H2_RST_STREAM, 1 + 2 * i, H2_CANCEL);
        says(&b);
    }
    put_request(&b, 21, "GET", "/hit", true);
    says(&b);
    CHECK_STR("rst(21 7) ", hears());
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        world.answers[i].keeps = false;
        wake(&world.answers[i]);
    }
    put_request(&b, 23, "GET", "/hit", true);
    says(&b);
    CHECK_STR(HIT(23), hears());
    world_close();
}

TEST(h2_stream, after_stream_that_is_reset_at_once_ends_the_connection)
{
    world_open();
    for (uint32_t id = 1; id < 21; id += 2) {
        put_request(&b, id, "GET", "/x", true);
        put_number(&b, H2_RST_STREAM, id, H2_CANCEL);
        says(&b);
    }
    CHECK(!fake_is_shut(world.client->s)); /* ten are no trouble */
    for (unsigned i = 0; i < 250; i++)
        put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
    says(&b);
    CHECK_STR("goaway(19 11) ", hears()); /* ENHANCE_YOUR_CALM */
    CHECK_EQ(1, counters_sum(world.counters, COUNTER_sess_http2_calmed));
    CHECK_EQ(0, counters_sum(world.counters, COUNTER_sess_http2_failed));
    world_close();
}

/* Half of what is borne: fewer streams, from when the client knows it until the trouble is forgotten. */
TEST(h2_trouble, of_half_of_what_is_borne_allows_fewer_streams)
{
    world_open();
    put_frame(&b, H2_SETTINGS, H2_ACK, 0, "", 0);
    for (unsigned i = 0; i <= H2_TROUBLE_HALF; i++)
        put_frame(&b, H2_PING, 0, 0, "12345678", H2_PING_BYTES);
    says(&b);
    CHECK(strstr(hears(), "settings(3=1) ") != NULL);
    put_request(&b, 1, "GET", "/a", true);
    put_request(&b, 3, "GET", "/b", true);
    put_frame(&b, H2_SETTINGS, H2_ACK, 0, "", 0);
    put_request(&b, 5, "GET", "/c", true);
    says(&b);
    CHECK_STR("rst(5 7) ", hears());
    fake_pass(&world.loop, 1000 * (H2_TROUBLE_HALF + 10) / H2_TROUBLE_PER_S);
    put_request(&b, 7, "GET", "/d", true);
    says(&b);
    CHECK_STR("settings(3=4) ", hears());
    CHECK_EQ(3, world.nanswers);
    for (unsigned i = 0; i < 3; i++)
        answer_now(&world.answers[i], 3);
    hears();
    world_close();
}

TEST(h2_streams, are_fewer_while_the_loop_has_much_to_do)
{
    struct h2_server *server;

    world_open();
    server = h2_server_of(world.server);
    put_frame(&b, H2_SETTINGS, H2_ACK, 0, "", 0);
    says(&b);
    hears();
    server->nstreams += H2_STREAMS_BUSY;
    put_request(&b, 1, "GET", "/a", true);
    says(&b);
    CHECK_STR("settings(3=1) ", hears());
    put_frame(&b, H2_SETTINGS, H2_ACK, 0, "", 0);
    server->nstreams -= H2_STREAMS_BUSY;
    put_request(&b, 3, "GET", "/b", true);
    says(&b);
    CHECK_STR("settings(3=4) ", hears());
    CHECK_EQ(2, world.nanswers);
    answer_now(&world.answers[0], 3);
    answer_now(&world.answers[1], 3);
    hears();
    world_close();
}

/* RFC 7541 4.2. */
TEST(h2_block, that_changes_the_tables_size_more_than_twice_ends_the_connection)
{
    static const char sizes[] = "\x20\x3f\xe1\x1f\x3f\xe1\x1f";

    for (size_t n = 4; n <= 7; n += 3) {
        struct bytes *block = calloc(1, sizeof(*block));

        CHECK(block != NULL);
        put(block, sizes, n);
        put_fields(block, "GET", "/x");
        world_open();
        put_frame(&b, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block->at, block->len);
        says(&b);
        CHECK_STR(n == 4 ? "" : "goaway(1 9) ", hears());
        if (n == 4)
            answer_now(&world.answers[0], 3);
        hears();
        world_close();
        free(block);
    }
}

/* Its head is read as long as the exchange lives, also where the connection broke in the turn in which it came. */
TEST(h2_stream, whose_connection_breaks_at_once_keeps_its_head)
{
    struct answer *a = &world.answers[0];
    struct http_message *h;

    world_open();
    put_request(&b, 1, "GET", "/kept/of-the-first", true);
    put_request(&b, 3, "GET", "/cut", true);
    says(&b);
    CHECK_EQ(2, world.nanswers);
    CHECK(a->gone);
    CHECK_EQ(0, world_adopt());
    put_preface(&b);
    put_request(&b, 1, "GET", "/of-the-second-who-came-later", true);
    says(&b);
    h = &a->x->head;
    CHECK(slice_eq(SLICE_LIT("/kept/of-the-first"), http_slice(h, h->target_off, h->target_len)));
    CHECK(slice_eq(SLICE_LIT("GET"), http_slice(h, h->method_off, h->method_len)));
    a->keeps = false;
    wake(a);
    world_close();
}

TEST(h2_stream, that_is_idle_is_not_reset_but_the_connection_ends)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    put_frame(&b, H2_PRIORITY, 0, 1, "\0\0\0\0", 4);
    says(&b);
    CHECK_STR("rst(1 6) ", hears());
    put_frame(&b, H2_PRIORITY, 0, 3, "\0\0\0\0", 4);
    says(&b);
    CHECK_STR("goaway(1 6) ", hears());
    world_close();
}

/* ---- drains ---- */

TEST(h2_drain, says_goaway_twice_and_the_second_lets_what_crossed_it_pass)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    world.server->ops->drain_gently(world.server);
    fake_run(&world.loop);
    CHECK_STR("goaway(2147483647 0) ", hears());
    put_request(&b, 3, "GET", "/hit", true); /* said before it had heard */
    says(&b);
    CHECK_STR(HIT(3), hears());
    fake_pass(&world.loop, 1100);
    CHECK_STR("goaway(3 0) ", hears());
    /* These crossed it: ignored, and no error (RFC 9113 6.8). */
    put_request(&b, 5, "POST", "/hit", false);
    put_frame(&b, H2_DATA, 0, 5, "abc", 3);
    put_number(&b, H2_WINDOW_UPDATE, 5, 2000);
    put_number(&b, H2_RST_STREAM, 5, H2_CANCEL);
    put_request(&b, 7, "POST", "/hit", false);
    put_frame(&b, H2_DATA, H2_END_STREAM, 7, "abc", 3);
    says(&b);
    CHECK_STR("", hears());
    CHECK_EQ(2, world.nanswers);
    CHECK(!world.answers[0].gone);
    answer_now(&world.answers[0], 3);
    CHECK_STR(HIT(1), hears());
    CHECK(fake_is_shut(world.client->s));
    fake_pass(&world.loop, 2100);
    CHECK(fake_is_closed(world.client->s));
    world_close();
}

TEST(h2_drain, that_is_hurried_says_the_last_stream_at_once)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    world.server->ops->drain(world.server);
    fake_run(&world.loop);
    CHECK_STR("goaway(2147483647 0) goaway(1 0) ", hears());
    answer_now(&world.answers[0], 3);
    CHECK_STR(HIT(1), hears());
    CHECK(fake_is_shut(world.client->s));
    world_close();
}

/* ---- deadlines ---- */

TEST(h2_deadline, of_an_idle_connection_says_goaway)
{
    world_open();
    put_request(&b, 1, "GET", "/hit", true);
    says(&b);
    fake_pass(&world.loop, IDLE_MS - 1000);
    CHECK_STR(HIT(1), hears());
    fake_pass(&world.loop, 1200);
    CHECK_STR("goaway(1 0) ", hears());
    CHECK(fake_is_shut(world.client->s));
    world_close();
}

TEST(h2_deadline, of_half_a_frame_ends_the_connection)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says_bytes(b.at, b.len - 1);
    b.len = 0;
    fake_pass(&world.loop, HEAD_MS + 200);
    CHECK_STR("goaway(0 11) ", hears());
    world_close();
}

TEST(h2_deadline, of_a_field_block_ends_the_connection_whatever_comes_meanwhile)
{
    world_open();
    put_frame(&b, H2_HEADERS, 0, 1, "\x82", 1);
    says(&b);
    for (unsigned i = 0; i < 4; i++) {
        fake_pass(&world.loop, HEAD_MS / 4);
        put_frame(&b, H2_CONTINUATION, 0, 1, "\x86", 1);
        says(&b);
    }
    fake_pass(&world.loop, 200);
    CHECK_STR("goaway(0 11) ", hears());
    world_close();
}

TEST(h2_deadline, of_a_body_tells_its_reader)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_request(&b, 1, "POST", "/x", false);
    says(&b);
    a->reads = 10;
    wake(a);
    fake_pass(&world.loop, BODY_IDLE_MS + 200);
    CHECK_EQ(TERR_TIMEDOUT, a->in_err);
    answer_now(a, 3);
    CHECK_STR(HIT(1) "rst(1 0) ", hears());
    world_close();
}

/* A byte now and then is no pause, but too slow. */
TEST(h2_deadline, of_a_body_that_comes_too_slowly_tells_its_reader)
{
    struct answer *a = &world.answers[0];
    unsigned i;

    world_open();
    world.conf.body_rate_min = 1000;
    put_request(&b, 1, "POST", "/x", false);
    says(&b);
    a->reads = 1000;
    wake(a);
    for (i = 0; i < 20 && a->in_err == 0; i++) {
        fake_pass(&world.loop, 1000);
        put_frame(&b, H2_DATA, 0, 1, "0123456789", 10);
        says(&b);
    }
    CHECK_EQ(TERR_TIMEDOUT, a->in_err);
    CHECK_EQ(BODY_IDLE_MS / 1000 + 1, i);
    answer_now(a, 3);
    hears();
    world_close();
}

/* It is here, and its reader cannot take it: none waits for the client. */
TEST(h2_deadline, of_a_body_does_not_pass_while_it_is_not_read)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_request(&b, 1, "POST", "/x", false);
    says(&b);
    a->reads = 10;
    wake(a);
    fake_pass(&world.loop, 1000);
    a->reads = 0;
    put_frame(&b, H2_DATA, 0, 1, "0123456789", 10);
    says(&b);
    fake_pass(&world.loop, 3 * BODY_IDLE_MS);
    a->reads = 100;
    wake(a);
    CHECK_EQ(0, a->in_err);
    CHECK_EQ(10, a->got_len);
    fake_pass(&world.loop, BODY_IDLE_MS + 200);
    CHECK_EQ(TERR_TIMEDOUT, a->in_err);
    answer_now(a, 3);
    hears();
    world_close();
}

TEST(h2_deadline, of_a_window_resets_its_stream_alone)
{
    world_open();
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 10);
    put_request(&b, 1, "GET", "/large", true);
    put_request(&b, 3, "GET", "/y", true);
    says(&b);
    CHECK_STR("ack headers(1 200 content-length:200000) data(1 10) ", hears());
    fake_pass(&world.loop, SEND_IDLE_MS + 200);
    CHECK_STR("rst(1 8) ", hears());
    CHECK(world.answers[0].gone && !world.answers[1].gone);
    answer_now(&world.answers[1], 3);
    CHECK_STR(HIT(3), hears());
    world_close();
}

/* Also where it was closed after a time in which there was nothing to send. */
TEST(h2_deadline, of_a_window_that_was_closed_late_resets_its_stream_too)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    answers(a, 1000);
    a->most = 100;
    a->length = 1000;
    a->answers = false;
    CHECK_EQ(100, answer_send(a, 100, false));
    a->head_given = true;
    a->at = 100;
    fake_run(&world.loop);
    fake_pass(&world.loop, SEND_IDLE_MS + 200);
    CHECK(!a->gone); /* its answerer has nothing to send */
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    says(&b);
    a->answers = true;
    wake(a);
    for (unsigned i = 0; i < 4; i++)
        fake_pass(&world.loop, SEND_IDLE_MS);
    CHECK(a->gone);
    world_close();
}

/* It waits for its answerer, not for its client. */
TEST(h2_deadline, of_a_window_that_is_used_up_is_none_while_there_is_nothing_to_send)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 100);
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    answers(a, 1000);
    a->answers = false;
    CHECK_EQ(100, answer_send(a, 100, false));
    a->head_given = true;
    a->at = 100;
    for (unsigned i = 0; i < 4; i++)
        fake_pass(&world.loop, SEND_IDLE_MS);
    CHECK(!a->gone);
    a->answers = true;
    wake(a);
    for (unsigned i = 0; i < 3; i++)
        fake_pass(&world.loop, SEND_IDLE_MS);
    CHECK(a->gone);
    world_close();
}

TEST(h2_deadline, of_a_full_output_ends_the_connection)
{
    world_open();
    fake_take(world.client->s, 100);
    put_request(&b, 1, "GET", "/large", true);
    says(&b);
    fake_pass(&world.loop, SEND_IDLE_MS - 1000);
    CHECK(!world.answers[0].gone);
    fake_pass(&world.loop, 1200);
    CHECK(world.answers[0].gone);
    CHECK(fake_is_closed(world.client->s));
    world_close();
}

/* How often a connection runs while nothing happens. */
static unsigned runs;
static void (*real_run)(struct task *t);

static void
count_run(struct task *t)
{
    runs++;
    real_run(t);
}

TEST(h2_deadline, that_has_passed_is_not_asked_for_again_and_again)
{
    struct h2_conn *c;

    world_open_silent();
    fake_run(&world.loop);
    fake_take(world.client->s, 0);
    says_bytes("no preface", 10);
    c = container_of(h2_server_of(world.server)->conns.next, struct h2_conn, link);
    real_run = c->task.run;
    c->task.run = count_run;
    runs = 0;
    for (unsigned i = 0; i < SEND_IDLE_MS - 500; i++)
        fake_pass(&world.loop, 1);
    CHECK(runs < 20);
    fake_pass(&world.loop, 1000);
    CHECK(fake_is_closed(world.client->s));
    world_close();
}

TEST_MAIN(TEST_ENTRY(h2_stream, that_its_client_resets_leaves_the_others),
    TEST_ENTRY(h2_stream, that_its_answerer_resets_leaves_the_others),
    TEST_ENTRY(h2_stream, that_its_answerer_resets_while_its_bytes_wait_leaves_the_others),
    TEST_ENTRY(h2_stream, whose_connection_is_cut_between_two_runs_is_not_written_any_more),
    TEST_ENTRY(h2_stream, is_answered_while_another_connection_gathers),
    TEST_ENTRY(h2_stream, begins_with_no_frame_that_has_no_room_for_its_padding),
    TEST_ENTRY(h2_stream, beyond_the_limit_is_refused_and_its_fields_are_decoded_all_the_same),
    TEST_ENTRY(h2_stream, that_was_reset_counts_until_its_answerer_lets_go),
    TEST_ENTRY(h2_stream, after_stream_that_is_reset_at_once_ends_the_connection),
    TEST_ENTRY(h2_stream, whose_connection_breaks_at_once_keeps_its_head),
    TEST_ENTRY(h2_stream, that_is_idle_is_not_reset_but_the_connection_ends),
    TEST_ENTRY(h2_drain, says_goaway_twice_and_the_second_lets_what_crossed_it_pass),
    TEST_ENTRY(h2_drain, that_is_hurried_says_the_last_stream_at_once),
    TEST_ENTRY(h2_deadline, of_an_idle_connection_says_goaway),
    TEST_ENTRY(h2_deadline, of_half_a_frame_ends_the_connection),
    TEST_ENTRY(h2_deadline, of_a_field_block_ends_the_connection_whatever_comes_meanwhile),
    TEST_ENTRY(h2_deadline, of_a_body_tells_its_reader),
    TEST_ENTRY(h2_deadline, of_a_body_that_comes_too_slowly_tells_its_reader),
    TEST_ENTRY(h2_deadline, of_a_body_does_not_pass_while_it_is_not_read),
    TEST_ENTRY(h2_trouble, of_half_of_what_is_borne_allows_fewer_streams),
    TEST_ENTRY(h2_streams, are_fewer_while_the_loop_has_much_to_do),
    TEST_ENTRY(h2_block, that_changes_the_tables_size_more_than_twice_ends_the_connection),
    TEST_ENTRY(h2_deadline, of_a_window_resets_its_stream_alone),
    TEST_ENTRY(h2_deadline, of_a_window_that_was_closed_late_resets_its_stream_too),
    TEST_ENTRY(h2_deadline, of_a_window_that_is_used_up_is_none_while_there_is_nothing_to_send),
    TEST_ENTRY(h2_deadline, of_a_full_output_ends_the_connection),
    TEST_ENTRY(h2_deadline, that_has_passed_is_not_asked_for_again_and_again))
