/* h1_origin_test.c -- an origin's interim responses and its tunnel, however the bytes come. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "t/unit/fake_stream.h"
#include "t/unit/head_build.h"
#include "t/unit/request_text.h"

enum {
    ROOM = 7, /* small: a body comes in many pieces */
    SAID_MAX = 32768
};

/* A user as a fetch is one: woken, it asks for everything there is, and notes it. */
struct user {
    struct task task;
    struct loop loop;
    struct origin_exchange *o;
    struct stream *s;
    bool asks;  /* for interim responses */
    bool holds; /* takes no body: its own client is slow */
    bool headed, ended;
    int err;
    unsigned runs;
    size_t said_len;
    char said[SAID_MAX]; /* "103 200 body" */
    char room[ROOM];
};

static const struct h1_conf conf = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};

static void
user_say(struct user *u, const char *text, size_t len)
{
    CHECK(u->said_len + len < SAID_MAX);
    memcpy(u->said + u->said_len, text, len);
    u->said_len += len;
    u->said[u->said_len] = '\0';
}

static void
user_say_head(struct user *u, const struct http_message *h)
{
    char text[16];

    user_say(u, text, (size_t)snprintf(text, sizeof(text), "%u ", h->status));
}

static void
user_read_body(struct user *u)
{
    ssize_t n = 1;

    while (!u->ended && !u->holds && n > 0) {
        n = u->o->ops->body(u->o, (struct span){u->room, ROOM});
        if (n > 0)
            user_say(u, u->room, (size_t)n);
        else if (n != TERR_AGAIN)
            u->ended = true;
        if (n < 0 && n != TERR_AGAIN)
            u->err = (int)n;
    }
}

static void
user_run(struct task *t)
{
    struct user *u = container_of(t, struct user, task);
    const struct http_message *h;
    int rc;

    u->runs++;
    if (u->o->connected != 0 || u->err != 0)
        return;
    while (u->asks && !u->headed && u->o->ops->interim(u->o, &h) == 0)
        user_say_head(u, h);
    if (!u->headed) {
        rc = u->o->ops->head(u->o, &h);
        if (rc == TERR_AGAIN)
            return;
        u->err = rc;
        if (rc != 0)
            return;
        user_say_head(u, h);
        u->headed = true;
    }
    user_read_body(u);
}

/* Its request is begun; `protocols` NULL: it asks for none. */
static void
user_open(struct user *u, bool want_interim, const char *protocols)
{
    const struct origin_protocol h1 = h1_origin_protocol(&conf);
    const struct origin_request r = {.head = &request_get,
        .want_interim = want_interim,
        .upgrade = protocols != NULL ? slice_str(protocols) : slice_of(NULL, 0)};

    memset(u, 0, sizeof(*u));
    fake_loop_open(&u->loop);
    task_init(&u->task, &u->loop.tasks, user_run);
    CHECK_EQ(0, h1.open(&u->o, &u->loop, &h1,
                    &(struct origin_target){.to = &(struct stream_target){.path = ""}}));
    u->o->task = &u->task;
    u->s = fake_newest;
    fake_connect(u->s, 0);
    u->o->ops->begin(u->o, &r);
}

static void
user_close(struct user *u)
{
    u->o->ops->close(&u->o);
    task_cancel(&u->task);
    fake_loop_close(&u->loop);
}

/* The origin says `text`, cut in two at `at`, and ends. */
static void
user_hears(struct user *u, const char *text, size_t at)
{
    fake_run(&u->loop);
    fake_arrive(u->s, text, at);
    fake_run(&u->loop);
    fake_arrive(u->s, text + at, strlen(text) - at);
    fake_run(&u->loop);
    fake_end(u->s, TERR_CLOSED);
    fake_run(&u->loop);
}

/* Of a body, or a tunnel, `pieces` of a size come one after the other: now into the room that the user
 * lent, now when it has none to lend. */
static void
taken_in_turns(struct user *u, unsigned pieces, size_t piece)
{
    char *came = calloc(1, piece), *room = malloc(piece);

    u->holds = true;
    fake_run(&u->loop);
    CHECK(u->headed);
    for (unsigned i = 0; i < pieces; i++) {
        size_t taken = 0;

        if (i % 2 == 0)
            CHECK_EQ(TERR_AGAIN, u->o->ops->body(u->o, (struct span){room, piece}));
        memset(came, 'a' + (int)(i % 26), piece);
        fake_arrive(u->s, came, piece);
        fake_run(&u->loop);
        while (taken < piece) {
            ssize_t n = u->o->ops->body(u->o, (struct span){room, piece});

            CHECK(n > 0);
            CHECK_MEM(came, room, (size_t)n);
            taken += (size_t)n;
        }
        CHECK(u->loop.usage.bytes[USAGE_READ] <= 4 * piece + 4096);
    }
    free(came);
    free(room);
}

#define HINTS "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
#define FINAL "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
#define SWITCH \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"

static void
interim_at(const char *text, size_t at, bool asks, const char *want)
{
    struct user u;

    user_open(&u, asks, NULL);
    u.asks = asks;
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    user_hears(&u, text, at);
    CHECK_EQ(0, u.err);
    CHECK_STR(want, u.said);
    CHECK(u.ended);
    user_close(&u);
}

TEST(h1_origin, interim_responses_are_given_in_order_however_they_come)
{
    static const char text[] = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" HINTS
                               "HTTP/1.1 104 X\r\n\r\n" FINAL;

    for (size_t at = 0; at < sizeof(text); at++) {
        interim_at(text, at, true, "102 103 104 200 0123456789");
        interim_at(text, at, false, "200 0123456789");
    }
}

TEST(h1_origin, a_head_waits_until_the_interim_response_was_read)
{
    const struct http_message *h;
    struct user u;

    user_open(&u, true, NULL);
    fake_run(&u.loop);
    u.o->task = NULL;
    fake_arrive(u.s, HINTS FINAL, sizeof(HINTS FINAL) - 1);
    fake_run(&u.loop);
    u.o->task = &u.task;
    u.runs = 0;
    u.err = TERR_CANCELLED; /* it only counts its runs */
    CHECK_EQ(TERR_AGAIN, u.o->ops->head(u.o, &h));
    fake_run(&u.loop);
    CHECK_EQ(1, u.runs);
    CHECK_EQ(0, u.o->ops->interim(u.o, &h));
    CHECK_EQ(103, h->status);
    CHECK_EQ(TERR_AGAIN, u.o->ops->interim(u.o, &h));
    CHECK_EQ(0, u.o->ops->head(u.o, &h));
    CHECK_EQ(200, h->status);
    user_close(&u);
}

TEST(h1_origin, an_interim_response_that_nobody_reads_stops_the_origin)
{
    char more[1000];
    struct user u;
    const struct http_message *h;

    memset(more, 'x', sizeof(more));
    user_open(&u, true, NULL);
    fake_run(&u.loop);
    fake_arrive(u.s, HINTS, sizeof(HINTS) - 1);
    fake_run(&u.loop); /* the user asks for the final head only */
    CHECK_EQ(TERR_AGAIN, u.o->ops->head(u.o, &h));
    for (unsigned i = 0; i < 10; i++) {
        fake_arrive(u.s, more, sizeof(more));
        fake_run(&u.loop);
    }
    CHECK(fake_is_paused(u.s));
    CHECK(fake_waiting(u.s) >= 9000);
    CHECK_EQ(0, u.o->ops->interim(u.o, &h));
    CHECK_EQ(TERR_AGAIN, u.o->ops->interim(u.o, &h));
    CHECK(!fake_is_paused(u.s));
    CHECK(u.o->ops->head(u.o, &h) == TERR_HEADTOOBIG || u.o->ops->head(u.o, &h) == TERR_SYNTAX);
    user_close(&u);
}

TEST(h1_origin, sixteen_interim_responses_and_no_more)
{
    char text[4096] = "";
    struct user u;

    for (unsigned i = 0; i < LIMIT_INTERIM; i++)
        strcat(text, "HTTP/1.1 103 X\r\n\r\n");
    strcat(text, FINAL);
    user_open(&u, true, NULL);
    u.asks = true;
    user_hears(&u, text, 100);
    CHECK_EQ(0, u.err);
    CHECK_EQ(16 * 4 + 4 + 10, u.said_len);
    user_close(&u);
    memmove(text + 18, text, strlen(text) + 1);
    for (unsigned asks = 0; asks < 2; asks++) {
        user_open(&u, asks, NULL);
        u.asks = asks;
        user_hears(&u, text, 100);
        CHECK_EQ(TERR_FRAMING, u.err);
        CHECK_EQ(asks ? 16 * 4 : 0, u.said_len);
        user_close(&u);
    }
}

static int
refused(const char *text, const char *protocols, bool sent)
{
    struct user u;
    int err;

    user_open(&u, false, protocols);
    if (sent)
        CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    user_hears(&u, text, strlen(text));
    err = u.err;
    CHECK(err == 0 || !u.o->ops->reusable(u.o));
    user_close(&u);
    return err;
}

TEST(h1_origin, an_interim_response_has_no_body)
{
    CHECK_EQ(TERR_FRAMING, refused("HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n", NULL, true));
    CHECK_EQ(
        TERR_FRAMING, refused("HTTP/1.1 103 X\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, true));
}

TEST(h1_origin, a_101_must_have_been_asked_for)
{
    static const char no_option[] = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n";
    static const char none[] = "HTTP/1.1 101 X\r\nConnection: upgrade\r\n\r\n";
    static const char old[] = "HTTP/1.0 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    static const char two[] = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                              "Upgrade: websocket\r\n\r\n";
    static const char framed[] = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                                 "Content-Length: 3\r\n\r\n";

    CHECK_EQ(TERR_FRAMING, refused(SWITCH, NULL, true));
    CHECK_EQ(TERR_FRAMING, refused(SWITCH, "websocket", false));
    CHECK_EQ(TERR_SYNTAX, refused(SWITCH, "chat", true));
    CHECK_EQ(TERR_SYNTAX, refused(no_option, "websocket", true));
    CHECK_EQ(TERR_SYNTAX, refused(none, "websocket", true));
    CHECK_EQ(TERR_SYNTAX, refused(old, "websocket", true));
    CHECK_EQ(TERR_SYNTAX, refused(two, "websocket", true));
    CHECK_EQ(TERR_FRAMING, refused(framed, "websocket", true));
    CHECK_EQ(0, refused(SWITCH, "chat/1.0, websocket", true));
}

TEST(h1_origin, a_tunnel_gives_the_bytes_of_the_origin_however_they_come)
{
    static const char text[] = HINTS SWITCH "HTTP/1.1 200 OK\r\n\r\nraw \r\n\r\n bytes";
    static const char want[] = "101 HTTP/1.1 200 OK\r\n\r\nraw \r\n\r\n bytes";

    for (size_t at = 0; at < sizeof(text); at++) {
        struct user u;

        user_open(&u, false, "websocket");
        CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
        user_hears(&u, text, at);
        CHECK_EQ(0, u.err);
        CHECK(u.ended);
        CHECK_STR(want, u.said);
        CHECK(!u.o->ops->reusable(u.o));
        user_close(&u);
    }
}

TEST(h1_origin, what_comes_while_the_client_is_slow_is_kept_until_it_is_taken_and_no_longer)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    struct user u;

    user_open(&u, false, NULL);
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_arrive(u.s, head, sizeof(head) - 1);
    taken_in_turns(&u, 1000, 1000);
    CHECK(u.o->body_done);
    CHECK(u.o->ops->reusable(u.o));
    user_close(&u);
    user_open(&u, false, "websocket");
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_arrive(u.s, SWITCH, sizeof(SWITCH) - 1);
    taken_in_turns(&u, 300, 5000);
    user_close(&u);
}

TEST(h1_origin, a_tunnel_that_is_reset_does_not_end_well)
{
    struct user u;

    user_open(&u, false, "websocket");
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_arrive(u.s, SWITCH "abc", sizeof(SWITCH "abc") - 1);
    fake_run(&u.loop);
    fake_end(u.s, TERR_IO);
    fake_run(&u.loop);
    CHECK_STR("101 abc", u.said);
    CHECK(u.err != 0);
    user_close(&u);
}

TEST(h1_origin, a_tunnel_sends_what_it_is_given_and_then_its_end)
{
    struct iovec iov = {.iov_base = (char[]){"0123456789"}, .iov_len = 10};
    struct user u;

    user_open(&u, false, "websocket");
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_arrive(u.s, SWITCH, sizeof(SWITCH) - 1);
    fake_run(&u.loop);
    fake_got_clear(u.s);
    fake_take(u.s, 4);
    CHECK_EQ(0, u.o->ops->send(u.o, &iov, 1, 0));
    CHECK(u.o->ops->sending(u.o));
    u.o->ops->shut(u.o);
    fake_run(&u.loop);
    CHECK(!fake_is_shut(u.s)); /* six bytes are still to go */
    fake_take(u.s, SIZE_MAX);
    fake_run(&u.loop);
    CHECK(fake_is_shut(u.s));
    CHECK_STR("0123456789", fake_got(u.s));
    fake_arrive(u.s, "bye", 3);
    fake_run(&u.loop);
    CHECK_STR("101 bye", u.said);
    user_close(&u);
}

TEST(h1_origin, a_user_that_reads_nothing_stops_the_origin_and_then_loses_nothing)
{
    char text[20000], *want = malloc(sizeof(text) + 5);
    struct user u;

    CHECK(want != NULL);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i % 23);
    user_open(&u, false, "websocket");
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_arrive(u.s, SWITCH, sizeof(SWITCH) - 1);
    fake_run(&u.loop); /* its room is lent now */
    u.holds = true;
    for (unsigned i = 0; i < 20; i++) {
        fake_arrive(u.s, text + i * 100, 100);
        fake_run(&u.loop);
    }
    CHECK(fake_is_paused(u.s));
    CHECK(fake_waiting(u.s) > 0);
    u.holds = false;
    task_wake(&u.task);
    fake_run(&u.loop);
    memcpy(want, "101 ", 4);
    memcpy(want + 4, text, 2000);
    CHECK_EQ(2004, u.said_len);
    CHECK_MEM(want, u.said, 2004);
    CHECK_EQ(0, fake_waiting(u.s));
    free(want);
    user_close(&u);
}

TEST(h1_origin, an_interim_response_goes_on_without_what_was_for_this_hop)
{
    const struct http_message *h;
    struct arena_pool pool;
    struct http_message out;
    struct arena arena;
    struct user u;

    user_open(&u, true, NULL);
    u.err = TERR_CANCELLED; /* we ask ourselves */
    fake_arrive(u.s,
        "HTTP/1.1 103 Soon\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nVia: 1.1 z\r\n"
        "Upgrade: b\r\nContent-Length: 0\r\nX: y\r\n\r\n",
        sizeof("HTTP/1.1 103 Soon\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nVia: 1.1 z\r\n"
               "Upgrade: b\r\nContent-Length: 0\r\nX: y\r\n\r\n") -
            1);
    fake_run(&u.loop);
    CHECK_EQ(0, u.o->ops->interim(u.o, &h));
    arena_pool_init(&pool, 1, NULL);
    arena_init(&arena, &pool);
    CHECK_EQ(0, forward_interim(h, &arena, &out));
    CHECK_STR("HTTP/1.1 103 Soon\r\nLink: </a>\r\nX: y\r\n", head_text(&out));
    arena_fini(&arena);
    arena_pool_fini(&pool);
    user_close(&u);
}

TEST(h1_origin, a_body_is_known_to_be_whole_with_its_last_byte)
{
    struct user u;

    user_open(&u, false, NULL);
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    u.holds = true;
    fake_arrive(u.s, FINAL, sizeof(FINAL) - 1);
    fake_run(&u.loop);
    CHECK(u.headed);
    CHECK(!u.o->body_done); /* nobody has read it */
    CHECK_EQ(4, u.o->ops->body(u.o, (struct span){u.room, 4}));
    CHECK(!u.o->body_done);
    CHECK_EQ(6, u.o->ops->body(u.o, (struct span){u.room, 6}));
    CHECK(u.o->body_done); /* so nobody needs room for more */
    CHECK_EQ(0, u.o->ops->body(u.o, (struct span){u.room, 1}));
    user_close(&u);
}

/* How often the user is woken for a response of `total` bytes, head and all, of which `at_first` come
 * at first. */
static unsigned
runs_for(size_t total, size_t at_first)
{
    char *text = malloc(total);
    unsigned runs;
    struct user u;
    int head = snprintf(text, total, "HTTP/1.1 200 OK\r\nContent-Length: %5zu\r\n\r\n",
        total - sizeof("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n") + 1);

    for (size_t i = (size_t)head; i < total; i++)
        text[i] = (char)('a' + i % 23);
    user_open(&u, false, NULL);
    CHECK_EQ(0, u.o->ops->send(u.o, NULL, 0, ORIGIN_END));
    fake_run(&u.loop);
    runs = u.runs;
    fake_arrive(u.s, text, at_first);
    fake_run(&u.loop);
    if (at_first < total) {
        CHECK(!u.ended);
        fake_arrive(u.s, text + at_first, total - at_first);
        fake_run(&u.loop);
    }
    CHECK(u.ended && u.err == 0);
    CHECK_EQ(4 + total - (size_t)head, u.said_len);
    CHECK_MEM(text + head, u.said + 4, total - (size_t)head);
    CHECK(u.o->ops->reusable(u.o));
    runs = u.runs - runs;
    user_close(&u);
    free(text);
    return runs;
}

TEST(h1_origin, what_a_read_of_the_head_cuts_off_is_read_in_the_same_turn)
{
    CHECK_EQ(1, runs_for(1000, 1000));
    CHECK_EQ(1, runs_for(4096, 4096)); /* full, and nothing behind it */
    CHECK_EQ(1, runs_for(4097, 4097));
    CHECK_EQ(1, runs_for(20000, 20000));
    CHECK_EQ(2, runs_for(4100, 4096));
}

TEST_MAIN(TEST_ENTRY(h1_origin, a_body_is_known_to_be_whole_with_its_last_byte),
    TEST_ENTRY(h1_origin, interim_responses_are_given_in_order_however_they_come),
    TEST_ENTRY(h1_origin, a_head_waits_until_the_interim_response_was_read),
    TEST_ENTRY(h1_origin, an_interim_response_that_nobody_reads_stops_the_origin),
    TEST_ENTRY(h1_origin, sixteen_interim_responses_and_no_more),
    TEST_ENTRY(h1_origin, an_interim_response_has_no_body),
    TEST_ENTRY(h1_origin, a_101_must_have_been_asked_for),
    TEST_ENTRY(h1_origin, a_tunnel_gives_the_bytes_of_the_origin_however_they_come),
    TEST_ENTRY(
        h1_origin, what_comes_while_the_client_is_slow_is_kept_until_it_is_taken_and_no_longer),
    TEST_ENTRY(h1_origin, a_tunnel_that_is_reset_does_not_end_well),
    TEST_ENTRY(h1_origin, a_tunnel_sends_what_it_is_given_and_then_its_end),
    TEST_ENTRY(h1_origin, a_user_that_reads_nothing_stops_the_origin_and_then_loses_nothing),
    TEST_ENTRY(h1_origin, an_interim_response_goes_on_without_what_was_for_this_hop),
    TEST_ENTRY(h1_origin, what_a_read_of_the_head_cuts_off_is_read_in_the_same_turn))
