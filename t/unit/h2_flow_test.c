/* h2_flow_test.c -- HTTP/2's bodies in both directions: windows, and a kernel that takes what it likes. */
#include "t/unit/h2_client_fixture.h"

enum {
    GREETED =
        H2_CONN_WINDOW - H2_WINDOW_DEFAULT /* by which the greeting opens the connection's window */
};

static struct bytes b; /* what is said next */
static const char zeros[H2_FRAME_MIN_MAX];

/* ---- request bodies ---- */

TEST(h2_body, comes_in_frames_of_any_size_and_is_read_in_pieces)
{
    static const unsigned sizes[] = {1, 2, 100, 255, 16000, 0, 3, 16384};

    for (size_t reads = 1; reads < 3000; reads = reads * 5 + 1) {
        struct answer *a = &world.answers[0];
        size_t total = 0;

        world_open();
        put_request(&b, 1, "POST", "/x", false);
        says(&b);
        a->reads = reads;
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            static char body[H2_FRAME_MIN_MAX];

            for (unsigned k = 0; k < sizes[i]; k++)
                body[k] = body_byte(1, total + k);
            put_frame(&b, H2_DATA, 0, 1, body, sizes[i]);
            total += sizes[i];
            if (i % 3 == 2)
                says(&b);
        }
        put_frame(&b, H2_DATA, H2_END_STREAM, 1, NULL, 0);
        says(&b);
        CHECK(a->in_ended);
        CHECK_EQ(total, a->got_len);
        for (size_t i = 0; i < total; i++)
            CHECK_EQ(body_byte(1, i), a->got[i]);
        answers(a, 0);
        wake(a);
        hears();
        CHECK(client_stream(world.client, 1)->ended && !client_stream(world.client, 1)->reset);
        world_close();
    }
}

/* `n` bytes of zeros, each frame with so much padding. */
static void
put_zeros(uint32_t id, size_t n, unsigned frame, unsigned pad)
{
    static char payload[H2_FRAME_MIN_MAX];

    CHECK(frame + pad + 1 <= sizeof(payload));
    payload[0] = (char)pad;
    for (; n > 0; n -= frame) {
        if (frame > n)
            frame = (unsigned)n;
        put_frame(&b, H2_DATA, H2_PADDED, id, payload, 1 + frame + pad);
    }
}

/* Padding counts, is dropped, and comes back (RFC 9113 6.1). */
TEST(h2_body, may_be_endless_while_it_is_read)
{
    struct answer *a = &world.answers[0];
    uint64_t sent = 0;

    world_open();
    put_request(&b, 1, "POST", "/x", false);
    says(&b);
    a->reads = 4096;
    for (unsigned i = 0; i < 60; i++) {
        put_zeros(1, 10000, 1000, 100 + i);
        sent += 10 * (1001 + 100 + i);
        says(&b);
        hears();
        a->got_len = 0;
    }
    CHECK(sent < world.client->window_updates[1] + H2_WINDOW_DEFAULT / 2);
    CHECK(sent < world.client->window_updates[0] - GREETED + H2_CONN_WINDOW / 2);
    CHECK(!client_stream(world.client, 1)->reset);
    put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
    says(&b);
    CHECK(a->gone);
    world_close();
}

TEST(h2_body, that_is_not_read_holds_one_window_and_not_a_byte_more)
{
    world_open();
    put_request(&b, 1, "POST", "/x", false);
    for (unsigned i = 0; i < 3; i++)
        put_frame(&b, H2_DATA, 0, 1, zeros, 16384);
    put_frame(&b, H2_DATA, 0, 1, zeros, 16383);
    says(&b);
    CHECK_STR("", hears());
    put_frame(&b, H2_DATA, 0, 1, zeros, 1);
    says(&b);
    CHECK_STR("rst(1 3) ", hears()); /* FLOW_CONTROL_ERROR */
    CHECK(world.answers[0].gone);
    world_close();
}

/* Our SETTINGS were said once, and a client may go by them as long as its connection lives. */
TEST(h2_body, may_be_as_large_as_was_said_after_a_reload_says_less)
{
    world_open();
    world.h2 = (struct h2_conf){.streams_max = 1, .initial_window = 100, .max_frame = 100};
    for (uint32_t id = 1; id < 5; id += 2)
        put_request(&b, id, "POST", "/x", false);
    for (unsigned i = 0; i < 3; i++)
        put_frame(&b, H2_DATA, 0, 1, zeros, 16384);
    put_frame(&b, H2_DATA, 0, 3, zeros, 101);
    says(&b);
    CHECK_STR("", hears());
    CHECK(!world.answers[0].gone && !world.answers[1].gone);
    world_close();
}

/* What a stream leaves unread when it ends is the connection's again: else the others starve. */
TEST(h2_body, that_is_not_read_gives_its_window_back_when_its_stream_ends)
{
    unsigned back = 0;

    world_open();
    for (uint32_t id = 1; id < 41; id += 2) {
        put_request(&b, id, "POST", "/x", false);
        put_frame(&b, H2_DATA, 0, id, zeros, 16384);
        put_frame(&b, H2_DATA, H2_END_STREAM, id, zeros, 16384);
        says(&b);
        if (id % 4 == 1) {
            put_number(&b, H2_RST_STREAM, id, H2_CANCEL);
            says(&b);
        } else {
            CHECK_EQ(id / 2 + 1, world.nanswers);
            answers(&world.answers[id / 2], 3);
            wake(&world.answers[id / 2]);
        }
        back += strstr(hears(), "goaway") == NULL;
    }
    CHECK_EQ(20, back);
    CHECK(20 * 32768 < world.client->window_updates[0] - GREETED + H2_CONN_WINDOW / 2);
    world_close();
}

TEST(h2_body, that_is_longer_or_shorter_than_its_length_resets_its_stream)
{
    world_open();
    put_request_with(&b, 1, "POST", "/x", "content-length", "3");
    put_frame(&b, H2_DATA, 0, 1, "abcd", 4);
    put_request_with(&b, 3, "POST", "/x", "content-length", "3");
    put_frame(&b, H2_DATA, H2_END_STREAM, 3, "ab", 2);
    put_request_with(&b, 5, "POST", "/x", "content-length", "3");
    put_frame(&b, H2_DATA, H2_END_STREAM, 5, "abc", 3);
    says(&b);
    CHECK_STR("rst(1 1) rst(3 1) ", hears());
    CHECK(world.answers[0].gone && world.answers[1].gone && !world.answers[2].gone);
    answers(&world.answers[2], 3);
    wake(&world.answers[2]);
    CHECK_STR("headers(5 200 content-length:3) data(5 3 end) ", hears());
    world_close();
}

/* ---- windows ---- */

static void
put_initial(uint32_t window)
{
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, window);
}

TEST(h2_window, of_a_stream_bounds_its_body_to_the_byte)
{
    world_open();
    put_initial(0);
    put_request(&b, 1, "GET", "/large", true);
    says(&b);
    CHECK_STR("ack headers(1 200 content-length:200000) ", hears());
    put_number(&b, H2_WINDOW_UPDATE, 1, 1);
    says(&b);
    CHECK_STR("data(1 1) ", hears());
    put_initial(10); /* 10 more */
    says(&b);
    CHECK_STR("ack data(1 10) ", hears());
    put_initial(0); /* 10 below zero (RFC 9113 6.9.2) */
    put_number(&b, H2_WINDOW_UPDATE, 1, 10);
    says(&b);
    CHECK_STR("ack ", hears());
    put_number(&b, H2_WINDOW_UPDATE, 1, 2);
    says(&b);
    CHECK_STR("data(1 2) ", hears());
    put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
    says(&b);
    CHECK_STR("", hears());
    world_close();
}

TEST(h2_window, of_zero_does_not_hold_back_what_has_no_body)
{
    world_open();
    put_initial(0);
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    hears();
    answers(&world.answers[0], 0);
    wake(&world.answers[0]);
    CHECK_STR("headers(1 200 content-length:0 end) ", hears());
    world_close();
}

/* RFC 9113 6.9.1: an empty DATA frame takes nothing from a window. */
TEST(h2_window, that_is_used_up_does_not_hold_back_the_end)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 3);
    put_request(&b, 1, "GET", "/x", true);
    put_request(&b, 3, "GET", "/y", true);
    says(&b);
    answers(a, 3);
    a->answers = false;
    CHECK_EQ(3, answer_send(a, 3, false));
    a->head_given = true;
    a->at = 3;
    fake_run(&world.loop);
    CHECK(a->x->writable);
    CHECK_EQ(0, answer_send(a, 0, true));
    fake_run(&world.loop);
    CHECK_STR("ack headers(1 200 content-length:3) data(1 3) data(1 0 end) ", hears());
    CHECK(a->done);
    /* Bytes that find no room are not offered again before there is some. */
    a = &world.answers[1];
    answers(a, 5);
    a->most = 3;
    wake(a);
    fake_run(&world.loop);
    CHECK(a->at == 3 && !a->x->writable);
    put_number(&b, H2_WINDOW_UPDATE, 3, 2);
    says(&b);
    CHECK_STR("headers(3 200 content-length:5) data(3 3) data(3 2 end) ", hears());
    world_close();
}

TEST(h2_window, of_the_connection_bounds_all_of_its_streams)
{
    struct client *k;

    world_open();
    k = world.client;
    put_initial(1 << 20);
    for (uint32_t id = 1; id <= 3; id += 2)
        put_request(&b, id, "GET", "/large", true);
    says(&b);
    hears();
    CHECK_EQ(H2_WINDOW_DEFAULT, k->data);
    for (unsigned i = 1; i <= 100; i++) {
        put_number(&b, H2_WINDOW_UPDATE, 0, 1030);
        says(&b);
        hears();
        CHECK_EQ(H2_WINDOW_DEFAULT + 1030 * i, k->data);
    }
    put_number(&b, H2_WINDOW_UPDATE, 0, 1 << 20);
    says(&b);
    hears();
    for (uint32_t id = 1; id <= 3; id += 2)
        CHECK(k->streams[id].ended && k->streams[id].data == LARGE_BYTES);
    world_close();
}

/* Who opens both windows for each frame goes on however short they are, but not by a few bytes (CVE-2019-9511). */
TEST(h2_window, opened_by_little_is_trouble_where_it_brings_next_to_nothing)
{
    for (uint32_t little = 4; little <= 100; little += 96) {
        unsigned i = 0;

        world_open();
        put_request(&b, 1, "GET", "/large", true);
        says(&b);
        hears();
        CHECK_EQ(H2_WINDOW_DEFAULT, world.client->data);
        while (i < 1000 && !fake_is_shut(world.client->s)) {
            i++;
            put_number(&b, H2_WINDOW_UPDATE, 0, little);
            put_number(&b, H2_WINDOW_UPDATE, 1, little);
            says(&b);
            hears();
        }
        /* Four whole frames came first, and each may bring two. */
        CHECK_EQ(little == 100 ? 1000 : (H2_TROUBLE_MAX + 8) / 2 + 1, i);
        CHECK_EQ(little == 100 ? 0 : 1, counters_sum(world.counters, COUNTER_sess_http2_calmed));
        world_close();
    }
}

/* A client that is slow to read says all of its updates at once, for many short bodies: 420 for 60 of them here,
 * which may bring 120. */
TEST(h2_window, opened_late_for_many_short_bodies_is_no_trouble)
{
    world_open();
    for (uint32_t id = 1; id < 120; id += 2) {
        put_request(&b, id, "GET", "/hit", true);
        says(&b);
        hears();
    }
    for (unsigned i = 0; i < 420; i++)
        put_number(&b, H2_WINDOW_UPDATE, 0, 10);
    says(&b);
    hears();
    CHECK(!fake_is_shut(world.client->s));
    CHECK_EQ(0, counters_sum(world.counters, COUNTER_sess_http2_calmed));
    world_close();
}

TEST(h2_window, beyond_what_it_may_be_ends_its_stream_or_the_connection)
{
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    put_number(&b, H2_WINDOW_UPDATE, 1, H2_WINDOW_MAX);
    says(&b);
    CHECK_STR("rst(1 3) ", hears());
    put_number(&b, H2_WINDOW_UPDATE, 0, H2_WINDOW_MAX);
    says(&b);
    CHECK_STR("goaway(1 3) ", hears());
    world_close();
}

/* ---- a kernel that takes what it likes ---- */

static void
asks_for_three(void)
{
    world_open();
    put_initial(1 << 20);
    put_number(&b, H2_WINDOW_UPDATE, 0, 1 << 20);
    put_request(&b, 1, "GET", "/hit", true);
    put_request(&b, 3, "GET", "/steady", true);
    put_request(&b, 5, "GET", "/hit", true);
    put_request(&b, 7, "POST", "/hit", false);
}

static void
gets_all_three(void)
{
    struct client *k = world.client;

    hears();
    CHECK(k->streams[1].ended && k->streams[5].ended && k->streams[7].ended);
    CHECK(k->streams[3].ended && k->streams[3].data == LARGE_BYTES);
    CHECK(k->streams[7].reset && k->streams[7].why == H2_NO_ERROR);
    for (unsigned i = 0; i < 4; i++)
        CHECK(world.answers[i].done);
    world_close();
}

TEST(h2_output, is_whole_and_in_order_wherever_the_kernel_stops)
{
    for (size_t takes = 0; takes < 9400; takes += takes < 200 || takes > 9100 ? 1 : 61) {
        asks_for_three();
        fake_take(world.client->s, takes);
        says(&b);
        hears();
        fake_take(world.client->s, SIZE_MAX);
        fake_run(&world.loop);
        gets_all_three();
    }
}

TEST(h2_output, is_whole_when_the_kernel_takes_little_each_time)
{
    for (size_t takes = 700; takes < 70000; takes = takes * 3 + 7) {
        asks_for_three();
        fake_take(world.client->s, takes);
        says(&b);
        for (unsigned i = 0; i < 400; i++) {
            fake_take(world.client->s, takes);
            fake_run(&world.loop);
        }
        gets_all_three();
    }
}

/* Another's request comes meanwhile, and the scratch is its own. */
TEST(h2_output, that_waits_is_not_touched_by_other_connections)
{
    world_open();
    fake_take(world.client->s, 20);
    put_request(&b, 1, "GET", "/hit", true);
    put_request(&b, 3, "GET", "/x", true);
    says(&b);
    CHECK_EQ(0, world_adopt());
    put_preface(&b);
    for (uint32_t id = 1; id <= 7; id += 2)
        put_request(&b, id, "GET", "/hit", true);
    says(&b);
    hears();
    CHECK(world.client->streams[7].ended);
    world.client = &world.clients[0];
    CHECK_STR("/x", world.answers[1].target);
    CHECK(slice_eq(SLICE_LIT("/x"),
        http_slice(&world.answers[1].x->head, world.answers[1].x->head.target_off, 2)));
    fake_take(world.client->s, SIZE_MAX);
    fake_run(&world.loop);
    CHECK_STR("headers(1 200 content-length:3) data(1 3 end) ", hears());
    answers(&world.answers[1], 3);
    wake(&world.answers[1]);
    CHECK_STR("headers(3 200 content-length:3) data(3 3 end) ", hears());
    world_close();
}

/* Its bytes are read until they have left, so who lent them hears of it then. */
TEST(h2_output, that_is_full_delays_the_news_of_a_reset)
{
    struct answer *a = &world.answers[0];

    world_open();
    put_initial(1 << 20);
    put_number(&b, H2_WINDOW_UPDATE, 0, 1 << 20);
    fake_take(world.client->s, 5000);
    put_request(&b, 1, "GET", "/large", true);
    put_request(&b, 3, "GET", "/hit", true);
    says(&b);
    put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
    says(&b);
    CHECK(!a->gone);
    fake_take(world.client->s, 30000);
    fake_run(&world.loop);
    CHECK(!a->gone);
    fake_take(world.client->s, SIZE_MAX);
    fake_run(&world.loop);
    CHECK(a->gone);
    hears();
    CHECK(world.client->streams[3].ended && !world.client->streams[3].reset);
    CHECK(!world.client->streams[1].ended && world.client->streams[1].data < LARGE_BYTES);
    world_close();
}

/* Of 63 buffers and more that are given at once: the frame in front of the last may find no room. */
TEST(h2_output, of_many_small_buffers_that_the_kernel_takes_in_part_is_not_said_to_have_left)
{
    static char piece[64];
    struct head_build h;

    for (unsigned n = 56; n <= 64; n++) {
        struct exchange_response r = {.status = 200, .length = n};
        struct iovec iov[64];
        struct answer *a = &world.answers[0];

        world_open();
        put_request(&b, 1, "POST", "/x", false);
        says(&b);
        hears();
        r.message = head_build(&h, "HTTP/1.1 200 OK\r\n");
        for (unsigned i = 0; i < n; i++) {
            piece[i] = body_byte(1, i);
            iov[i] = (struct iovec){piece + i, 1};
        }
        answers(a, 0);
        a->answers = false;
        a->at = n;
        a->head_given = true;
        fake_take(world.client->s, 15);
        CHECK(a->x->ops->send(a->x, &r, iov, n, EXCHANGE_END) >= 0);
        CHECK(!a->x->gathered);
        fake_run(&world.loop);
        put_number(&b, H2_RST_STREAM, 1, H2_CANCEL);
        says(&b);
        fake_take(world.client->s, SIZE_MAX);
        fake_run(&world.loop);
        CHECK(a->done || a->gone);
        hears();
        world_close();
    }
}

/* The first field block of a connection says the size of the table (RFC 7541 4.2), the first that left. */
TEST(h2_output, that_a_head_does_not_fit_says_all_of_the_next)
{
    static char text[40000];
    struct http_field fields[2] = {{.name_len = 1, .value_off = 1, .value_len = 39000},
        {.name_len = 1, .value_off = 1, .value_len = 39000}};
    struct http_message m = {.base = text, .fields = fields, .nfields = 2, .max_fields = 2};
    struct exchange_response r = {.status = 200, .message = &m};
    struct answer *a = &world.answers[0];
    size_t before;

    memset(text, 'x', sizeof(text));
    world_open();
    put_request(&b, 1, "GET", "/x", true);
    says(&b);
    CHECK_EQ(TERR_CLOSED, a->x->ops->send(a->x, &r, NULL, 0, EXCHANGE_END));
    fake_run(&world.loop);
    CHECK_STR("rst(1 2) ", hears());
    before = fake_got_len(world.client->s);
    put_request(&b, 3, "GET", "/hit", true);
    says(&b);
    CHECK_EQ(0x20, fake_got(world.client->s)[before + H2_FRAME_HEAD]); /* RFC 7541 6.3 */
    CHECK_STR("headers(3 200 content-length:3) data(3 3 end) ", hears());
    world_close();
}

TEST_MAIN(TEST_ENTRY(h2_body, comes_in_frames_of_any_size_and_is_read_in_pieces),
    TEST_ENTRY(h2_body, may_be_endless_while_it_is_read),
    TEST_ENTRY(h2_body, that_is_not_read_holds_one_window_and_not_a_byte_more),
    TEST_ENTRY(h2_body, may_be_as_large_as_was_said_after_a_reload_says_less),
    TEST_ENTRY(h2_body, that_is_not_read_gives_its_window_back_when_its_stream_ends),
    TEST_ENTRY(h2_body, that_is_longer_or_shorter_than_its_length_resets_its_stream),
    TEST_ENTRY(h2_window, of_a_stream_bounds_its_body_to_the_byte),
    TEST_ENTRY(h2_window, of_zero_does_not_hold_back_what_has_no_body),
    TEST_ENTRY(h2_window, that_is_used_up_does_not_hold_back_the_end),
    TEST_ENTRY(h2_window, of_the_connection_bounds_all_of_its_streams),
    TEST_ENTRY(h2_window, opened_by_little_is_trouble_where_it_brings_next_to_nothing),
    TEST_ENTRY(h2_window, opened_late_for_many_short_bodies_is_no_trouble),
    TEST_ENTRY(h2_window, beyond_what_it_may_be_ends_its_stream_or_the_connection),
    TEST_ENTRY(h2_output, is_whole_and_in_order_wherever_the_kernel_stops),
    TEST_ENTRY(h2_output, is_whole_when_the_kernel_takes_little_each_time),
    TEST_ENTRY(h2_output, that_waits_is_not_touched_by_other_connections),
    TEST_ENTRY(h2_output, that_is_full_delays_the_news_of_a_reset),
    TEST_ENTRY(h2_output, that_a_head_does_not_fit_says_all_of_the_next),
    TEST_ENTRY(
        h2_output, of_many_small_buffers_that_the_kernel_takes_in_part_is_not_said_to_have_left))
