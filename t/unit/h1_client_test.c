/* h1_client_test.c -- a client's interim responses and its tunnel, however the bytes come. */
#include "t/unit/h1_client_fixture.h"

/* ---- Interim responses ---- */

/* The second request had come when the first answer's last bytes left, and nothing else will come. */
TEST(h1_client, whose_first_answer_was_slow_to_leave_gets_the_second)
{
    static const char requests[] =
        "GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /hit HTTP/1.1\r\nHost: a\r\n\r\n";
    size_t len;

    world_open();
    fake_take(world.s, 50000);
    says(requests, sizeof(requests) - 1);
    CHECK_EQ(1, world.nanswers);
    fake_take(world.s, SIZE_MAX);
    fake_run(&world.loop);
    CHECK_EQ(2, world.nanswers);
    len = fake_got_len(world.s);
    CHECK(len > LARGE_BYTES + sizeof(HIT));
    CHECK_STR(HIT, fake_got(world.s) + len - (sizeof(HIT) - 1));
    world_close();
}

/* What lies ready is used by whoever runs, and stays with those who wait. */
TEST(h1_client, a_hit_needs_nothing_of_the_heap_and_disturbs_nobody_who_waits)
{
    static const char hit[] = "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char wait[] = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
    struct stream *slow[3], *hot;
    uint64_t bytes;

    world_open();
    says(hit, sizeof(hit) - 1);
    for (unsigned i = 0; i < 3; i++) {
        slow[i] = world.s;
        world_connect();
    }
    hot = world.s;
    bytes = world.loop.usage.bytes[USAGE_CONN];
    says(hit, sizeof(hit) - 1);
    CHECK_EQ(bytes, world.loop.usage.bytes[USAGE_CONN]);
    world.s = slow[0];
    says(wait, sizeof(wait) - 1);
    world.s = slow[1];
    says(wait, sizeof(wait) - 1 - 4); /* half a head */
    world.s = slow[2];
    fake_take(slow[2], 0);
    says(hit, sizeof(hit) - 1); /* its answer does not leave */
    CHECK(world.loop.usage.bytes[USAGE_CONN] > bytes);
    CHECK_EQ(4, world.nanswers);
    bytes = world.loop.usage.bytes[USAGE_CONN];
    world.s = hot;
    fake_got_clear(hot);
    says(hit, sizeof(hit) - 1);
    CHECK_STR(HIT, fake_got(hot));
    answer_send(&world.answers[2], "waited");
    world.s = slow[1];
    says(wait + sizeof(wait) - 1 - 4, 4);
    answer_send(&world.answers[5], "waited");
    fake_take(slow[2], SIZE_MAX);
    fake_run(&world.loop);
    CHECK_STR(HIT WAITED, fake_got(slow[0]));
    CHECK_STR(WAITED, fake_got(slow[1]));
    CHECK_STR(HIT, fake_got(slow[2]));
    incoming_trim(world.incoming);
    CHECK(world.loop.usage.bytes[USAGE_CONN] < bytes);
    world_close();
}

/* ---- The memo of heads ---- */

/* Also while half a head is there and its line was looked for among the heads that are known. */
TEST(h1_client, is_answered_alike_while_the_head_memo_comes_and_goes)
{
    static const char hit[] = "GET /hit HTTP/1.1\r\nHost: a\r\nX-Repeats: yes\r\n\r\n";

    world_open();
    for (unsigned i = 0; i < 6; i++) {
        world.conf.head_memo = i / 2 % 2 == 0;
        fake_got_clear(world.s);
        says(hit, 30);
        incoming_trim(world.incoming);
        says(hit + 30, sizeof(hit) - 1 - 30);
        says(hit, sizeof(hit) - 1);
        CHECK_STR(HIT HIT, fake_got(world.s));
    }
    world_close();
}

TEST(h1_interim, leaves_behind_earlier_answers_and_before_its_own)
{
    static const char text[] =
        "GET /hit HTTP/1.1\r\nHost: a\r\n\r\nGET /hit HTTP/1.1\r\nHost: a\r\n\r\n"
        "GET /hint HTTP/1.1\r\nHost: a\r\n\r\nGET /hit HTTP/1.1\r\nHost: a\r\n\r\n";

    for (size_t at = 0; at < sizeof(text); at++) {
        world_open();
        says_split(text, at);
        CHECK_STR(HIT HIT HINT, fake_got(world.s));
        CHECK_EQ(0, answer_hint(&world.answers[2]));
        answer_send(&world.answers[2], "waited");
        fake_run(&world.loop);
        CHECK_STR(HIT HIT HINT HINT WAITED HIT, fake_got(world.s));
        CHECK(!fake_is_closed(world.s));
        world_close();
    }
}

TEST(h1_interim, never_goes_to_http_1_0)
{
    world_open();
    says_split("GET /hint HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 0);
    CHECK_STR("", fake_got(world.s));
    answer_send(&world.answers[0], "waited");
    fake_run(&world.loop);
    CHECK_STR("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: keep-alive\r\n\r\nwaited",
        fake_got(world.s));
    world_close();
}

TEST(h1_interim, is_dropped_behind_the_head)
{
    const struct exchange_response r = {
        .status = 200, .rendered = SLICE_LIT("HTTP/1.1 200 OK\r\n"), .length = 6};
    struct iovec iov = {.iov_base = (char[]){"waited"}, .iov_len = 6};
    struct answer *a = &world.answers[0];

    world_open();
    says_split("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    CHECK_EQ(0, a->x->ops->send(a->x, &r, NULL, 0, 0));
    CHECK_EQ(0, answer_hint(a));
    CHECK_EQ(6, a->x->ops->send(a->x, NULL, &iov, 1, EXCHANGE_END));
    CHECK_EQ(0, answer_hint(a));
    fake_run(&world.loop);
    CHECK_STR(WAITED, fake_got(world.s));
    world_close();
}

TEST(h1_interim, that_the_kernel_takes_in_part_is_sent_whole)
{
    struct answer *a = &world.answers[0];

    for (size_t takes = 0; takes <= sizeof(HINT) - 1; takes++) {
        world_open();
        fake_take(world.s, takes);
        says_split("GET /hint HTTP/1.1\r\nHost: a\r\n\r\n", 3);
        CHECK_EQ(takes, fake_got_len(world.s));
        CHECK_EQ(0, answer_hint(a)); /* backed up, or the kernel is full: dropped */
        CHECK_EQ(takes == 0 || takes == sizeof(HINT) - 1, a->x->writable);
        fake_take(world.s, SIZE_MAX);
        fake_run(&world.loop);
        CHECK(a->x->writable);
        answer_send(a, "waited");
        fake_run(&world.loop);
        CHECK_STR(takes == 0 ? WAITED : HINT WAITED, fake_got(world.s));
        world_close();
    }
}

TEST(h1_interim, that_the_client_never_takes_ends_the_connection)
{
    world_open();
    fake_take(world.s, 5);
    says_split("GET /hint HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    fake_pass(&world.loop, 4000);
    CHECK(!world.answers[0].gone);
    fake_pass(&world.loop, 2000);
    CHECK(world.answers[0].gone);
    CHECK(fake_is_closed(world.s));
    world_close();
}

TEST(h1_interim, stands_beside_the_one_100)
{
    struct answer *a = &world.answers[0];
    char byte[4];

    world_open();
    says_split("POST /hint HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
               "Content-Length: 3\r\n\r\n",
        10);
    CHECK_EQ(TERR_AGAIN, a->x->ops->body_read(a->x, byte, 4));
    CHECK_EQ(0, answer_hint(a));
    CHECK_EQ(TERR_AGAIN, a->x->ops->body_read(a->x, byte, 4));
    says("abc", 3);
    CHECK_EQ(3, a->x->ops->body_read(a->x, byte, 4));
    answer_send(a, "waited");
    fake_run(&world.loop);
    CHECK_STR(HINT "HTTP/1.1 100 Continue\r\n\r\n" HINT WAITED, fake_got(world.s));
    world_close();
}

TEST(h1_interim, to_a_client_that_left_says_so)
{
    struct answer *a = &world.answers[0];

    world_open();
    says_split("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    incoming_cut(world.incoming);
    CHECK_EQ(TERR_CLOSED, answer_hint(a));
    world_close();
}

/* ---- Bodies ---- */

/* Reads `want` in pieces of `room`, from a request whose body came in one go: as long as there is
 * input at hand there is no "again", for nothing would wake who waits. */
static void
reads_to_the_end(const char *chunks, const char *want, size_t room)
{
    struct answer *a = &world.answers[0];
    char text[2048], got[512];
    size_t len = 0;
    ssize_t n;
    int head = snprintf(text, sizeof(text),
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunks);

    world_open();
    says(text, (size_t)head);
    CHECK_EQ(1, world.nanswers);
    CHECK(a->x->has_body);
    do {
        CHECK(len + room <= sizeof(got));
        n = a->x->ops->body_read(a->x, got + len, room);
        CHECK(n >= 0);
        len += (size_t)n;
    } while (n > 0);
    CHECK_EQ(strlen(want), len);
    CHECK_MEM(want, got, len);
    answer_send(a, "waited");
    fake_run(&world.loop);
    CHECK_STR(WAITED, fake_got(world.s));
    world_close();
}

TEST(h1_body, framing_that_fills_the_room_is_not_the_end_of_what_is_here)
{
    static char framing[101]; /* an extension longer than most of these rooms */
    char chunks[256];

    for (size_t room = 1; room <= 12; room++) {
        reads_to_the_end("0\r\n\r\n", "", room);
        reads_to_the_end("3\r\nabc\r\n0\r\n\r\n", "abc", room);
        reads_to_the_end("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n", "abc", room);
        reads_to_the_end(
            "2;x=12345678901234567890\r\nab\r\n00001;y\r\nc\r\n0\r\nT: t\r\n\r\n", "abc", room);
    }
    memset(framing, 'x', sizeof(framing) - 1);
    snprintf(chunks, sizeof(chunks), "3;%s\r\nabc\r\n0;%s\r\n\r\n", framing, framing);
    for (size_t room = 1; room <= 300; room += 7)
        reads_to_the_end(chunks, "abc", room);
}

/* ---- Packets ---- */

static void
answer_piece(struct answer *a, const struct exchange_response *r, const char *body, unsigned flags)
{
    struct iovec iov = {.iov_len = strlen(body)};

    memcpy(&iov.iov_base, &body, sizeof(body));
    CHECK_EQ(strlen(body), a->x->ops->send(a->x, r, &iov, iov.iov_len > 0, flags));
}

/* A head, and its body in two pieces; `turns` says behind which of the three a turn ends. */
static void
packets_are(uint64_t length, const char *turns, const char *want, unsigned packets)
{
    const struct exchange_response r = {
        .status = 200, .rendered = SLICE_LIT("HTTP/1.1 200 OK\r\n"), .length = length};
    struct answer *a = &world.answers[0];

    world_open();
    says_split("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    answer_piece(a, &r, "", EXCHANGE_MORE);
    if (turns[0] == '|')
        fake_run(&world.loop);
    answer_piece(a, NULL, "abc", EXCHANGE_MORE);
    if (turns[1] == '|')
        fake_run(&world.loop);
    answer_piece(a, NULL, "def", EXCHANGE_END);
    fake_run(&world.loop);
    CHECK_STR(want, fake_got(world.s));
    CHECK_EQ(packets, fake_packets(world.s));
    world_close();
}

TEST(h1_send, more_keeps_the_packet_open_and_no_longer_than_the_turn)
{
    static const char plain[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef";
    static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";

    packets_are(6, "  ", plain, 1);
    packets_are(6, "| ", plain, 2);
    packets_are(6, " |", plain, 2);
    packets_are(6, "||", plain, 3);
    packets_are(EXCHANGE_LENGTH_UNKNOWN, "  ", chunked, 1);
    packets_are(EXCHANGE_LENGTH_UNKNOWN, "| ", chunked, 2);
    packets_are(EXCHANGE_LENGTH_UNKNOWN, " |", chunked, 2);
    packets_are(EXCHANGE_LENGTH_UNKNOWN, "||", chunked, 3);
}

TEST(h1_send, what_there_are_no_buffers_for_shares_the_packet)
{
    enum {
        PIECES = 40 /* three buffers each with chunks: more than one write has */
    };
    const struct exchange_response r = {.status = 200,
        .rendered = SLICE_LIT("HTTP/1.1 200 OK\r\n"),
        .length = EXCHANGE_LENGTH_UNKNOWN};
    struct answer *a = &world.answers[0];
    struct iovec iov[PIECES];
    char byte = 'x';
    ssize_t n;

    for (unsigned i = 0; i < PIECES; i++)
        iov[i] = (struct iovec){&byte, 1};
    world_open();
    says_split("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    n = a->x->ops->send(a->x, &r, iov, PIECES, EXCHANGE_END);
    CHECK(n > 0 && n < PIECES);
    while (n < PIECES) {
        CHECK(a->x->writable);
        n += a->x->ops->send(a->x, NULL, iov + n, PIECES - (unsigned)n, EXCHANGE_END);
    }
    CHECK_EQ(1, fake_packets(world.s));
    fake_run(&world.loop);
    CHECK(!fake_is_closed(world.s) && a->x == NULL);
    world_close();
}

TEST(h1_send, pipelined_answers_share_a_packet)
{
    world_open();
    says_split("GET /hit HTTP/1.1\r\nHost: a\r\n\r\nGET /hit HTTP/1.1\r\nHost: a\r\n\r\n"
               "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n",
        0);
    CHECK_STR(HIT HIT HIT, fake_got(world.s));
    CHECK_EQ(1, fake_packets(world.s));
    world_close();
}

/* ---- Tunnels ---- */

static bool
asks_upgrade(const char *start, const char *fields)
{
    char text[512];
    bool upgrade;
    int n = snprintf(text, sizeof(text), "%s\r\nHost: a\r\n%s\r\n", start, fields);

    world_open();
    says(text, (size_t)n);
    CHECK_EQ(1, world.nanswers);
    CHECK_EQ(0, world.answers[0].err);
    upgrade = world.answers[0].upgrade;
    world_close();
    return upgrade;
}

#define GET "GET / HTTP/1.1"
#define CU  "Connection: upgrade\r\n"

TEST(h1_tunnel, is_asked_for_with_upgrade_in_connection_and_protocols)
{
    CHECK(asks_upgrade(GET, CU "Upgrade: websocket\r\n"));
    CHECK(asks_upgrade(GET, "Connection: keep-alive, Upgrade\r\nUpgrade: a/1.0, b\r\n"));
    CHECK(asks_upgrade("POST / HTTP/1.1", CU "Upgrade: a\r\nContent-Length: 0\r\n"));
    CHECK(!asks_upgrade(GET, "Upgrade: websocket\r\n"));
    CHECK(!asks_upgrade(GET, CU));
    CHECK(!asks_upgrade(GET, CU "Upgrade: \r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a\r\nUpgrade: b\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a,,b\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a b\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a/\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: /1\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a/b/c\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: a;b\r\n"));
    CHECK(!asks_upgrade("GET / HTTP/1.0", CU "Upgrade: websocket\r\n"));
    CHECK(!asks_upgrade("GET / HTTP/1.0", "Connection: upgrade, keep-alive\r\nUpgrade: a\r\n"));
    CHECK(!asks_upgrade("HEAD / HTTP/1.1", CU "Upgrade: websocket\r\n"));
    CHECK(!asks_upgrade(GET, "Connection: close, upgrade\r\nUpgrade: websocket\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: websocket\r\nContent-Length: 1\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n"));
}

TEST(h1_tunnel, never_leads_to_http_that_we_do_not_see)
{
    CHECK(!asks_upgrade(GET, CU "Upgrade: h2c\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: websocket, H2C\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: h2\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: HTTP/2.0\r\n"));
    CHECK(!asks_upgrade(GET, CU "Upgrade: TLS/1.0\r\n"));
}

/* What lies behind the request goes through, and looks like anything; granted at once, or when
 * all of it is there. */
TEST(h1_tunnel, gives_the_bytes_of_the_client_however_they_come)
{
    static const char text[] = UPGRADE "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n\0raw";
    static const size_t len = sizeof(text) - 1, head = sizeof(UPGRADE) - 1;
    struct answer *a = &world.answers[0];

    for (unsigned grants = 0; grants < 2; grants++) {
        for (size_t at = 0; at <= len; at++) {
            world_open();
            world.grants = grants;
            says(text, at);
            says(text + at, len - at);
            CHECK_EQ(1, world.nanswers);
            if (!grants)
                answer_grant(a);
            fake_run(&world.loop);
            CHECK_EQ(len - head, a->got_len);
            CHECK_MEM(text + head, a->got, len - head);
            CHECK_STR(SWITCH, fake_got(world.s));
            CHECK_EQ(1, world.nanswers);
            CHECK(!a->done && !a->in_ended && !fake_is_closed(world.s));
            world_close();
        }
    }
}

TEST(h1_tunnel, that_is_not_granted_is_an_ordinary_request)
{
    static const char text[] = UPGRADE "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n";

    for (size_t at = 0; at < sizeof(text); at++) {
        world_open();
        says_split(text, at);
        CHECK_EQ(1, world.nanswers);
        CHECK(world.answers[0].upgrade);
        answer_send(&world.answers[0], "waited");
        fake_run(&world.loop);
        CHECK_STR(WAITED HIT, fake_got(world.s));
        CHECK(!fake_is_closed(world.s));
        world_close();
    }
}

TEST(h1_tunnel, follows_pipelined_answers)
{
    struct answer *a = &world.answers[1];

    world_open();
    world.grants = true;
    says_split("GET /hit HTTP/1.1\r\nHost: a\r\n\r\n" UPGRADE "x", 0);
    CHECK_STR(HIT SWITCH, fake_got(world.s));
    CHECK_STR("x", a->got);
    CHECK(world.answers[0].done);
    world_close();
}

static struct answer *
tunnel_open(void)
{
    world_open();
    world.grants = true;
    says_split(UPGRADE, 0);
    CHECK_STR(SWITCH, fake_got(world.s));
    fake_got_clear(world.s);
    return &world.answers[0];
}

static void
tunnel_send(struct answer *a, const char *text, bool end)
{
    a->out = text;
    a->out_len = strlen(text);
    a->end = end;
    wake(a);
}

TEST(h1_tunnel, that_the_client_ends_goes_on_the_other_way)
{
    struct answer *a = tunnel_open();

    says("abc", 3);
    fake_end(world.s, TERR_CLOSED);
    fake_run(&world.loop);
    CHECK_STR("abc", a->got);
    CHECK(a->in_ended && a->x != NULL && !fake_is_closed(world.s) && !fake_is_shut(world.s));
    tunnel_send(a, "more", false);
    tunnel_send(a, "last", true);
    CHECK(a->done && a->x == NULL && fake_is_closed(world.s) && !fake_is_reset(world.s));
    CHECK_STR("morelast", fake_got(world.s));
    world_close();
}

TEST(h1_tunnel, that_we_end_goes_on_the_other_way)
{
    struct answer *a = tunnel_open();

    tunnel_send(a, "last", true);
    CHECK(fake_is_shut(world.s) && a->x != NULL && !a->done && !fake_is_closed(world.s));
    CHECK(!a->x->writable);
    says("more", 4);
    CHECK_STR("more", a->got);
    fake_arrive(world.s, "!", 1);
    fake_end(world.s, TERR_CLOSED);
    fake_run(&world.loop);
    CHECK_STR("more!", a->got);
    CHECK(a->done && a->in_ended && fake_is_closed(world.s));
    world_close();
}

TEST(h1_tunnel, that_ends_without_a_byte_is_ended)
{
    struct answer *a = tunnel_open();

    fake_end(world.s, TERR_CLOSED);
    tunnel_send(a, "", true);
    CHECK(a->done && fake_is_closed(world.s));
    world_close();
}

TEST(h1_tunnel, is_shut_when_all_has_left)
{
    static char text[100001];
    struct answer *a = tunnel_open();

    memset(text, 'x', sizeof(text) - 1);
    fake_take(world.s, 10);
    tunnel_send(a, text, true);
    CHECK_EQ(10, fake_got_len(world.s));
    CHECK(!fake_is_shut(world.s));
    for (unsigned i = 0; i < 20 && !fake_is_shut(world.s); i++) {
        fake_take(world.s, 10000);
        fake_run(&world.loop);
    }
    CHECK(fake_is_shut(world.s));
    CHECK_EQ(100000, fake_got_len(world.s));
    CHECK_EQ(100000, a->seen);
    world_close();
}

TEST(h1_tunnel, reads_while_the_client_takes_nothing)
{
    static char text[100001];
    struct answer *a = tunnel_open();

    memset(text, 'x', sizeof(text) - 1);
    fake_take(world.s, 0);
    tunnel_send(a, text, false);
    CHECK(!a->x->writable);
    says("abc", 3);
    CHECK_STR("abc", a->got);
    world_close();
}

TEST(h1_tunnel, that_nobody_reads_stops_the_client_and_loses_nothing)
{
    static char text[100000];
    struct answer *a = tunnel_open();

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('a' + i % 23);
    a->holds = true;
    for (size_t i = 0; i < 100; i++)
        says(text + i * 1000, 1000);
    CHECK(fake_is_paused(world.s));
    CHECK(fake_waiting(world.s) > 60000);
    a->holds = false;
    wake(a);
    CHECK_EQ(sizeof(text), a->got_len);
    CHECK_MEM(text, a->got, sizeof(text));
    CHECK(!fake_is_paused(world.s));
    world_close();
}

TEST(h1_tunnel, lives_while_something_moves)
{
    struct answer *a = tunnel_open();

    for (unsigned i = 0; i < 5; i++) {
        fake_pass(&world.loop, PIPE_MS - 100);
        says("a", 1);
        fake_pass(&world.loop, PIPE_MS - 100);
        tunnel_send(a, "b", false);
    }
    CHECK_STR("aaaaa", a->got);
    CHECK_STR("bbbbb", fake_got(world.s));
    fake_pass(&world.loop, PIPE_MS - 100);
    CHECK(a->x != NULL);
    fake_pass(&world.loop, 200);
    CHECK(a->gone && fake_is_closed(world.s));
    CHECK_EQ(1, counters_sum(world.counters, COUNTER_sess_timeout));
    world_close();
}

TEST(h1_tunnel, lives_while_a_slow_client_takes_something)
{
    static char text[60001];
    struct answer *a = tunnel_open();

    memset(text, 'x', sizeof(text) - 1);
    fake_take(world.s, 0);
    tunnel_send(a, text, false);
    for (unsigned i = 0; i < 10; i++) {
        fake_take(world.s, 10);
        fake_pass(&world.loop, PIPE_MS - 100);
        CHECK(a->x != NULL);
    }
    fake_pass(&world.loop, PIPE_MS + 100); /* what it took since the last look counts */
    fake_pass(&world.loop, PIPE_MS + 100);
    CHECK(a->gone);
    world_close();
}

TEST(h1_tunnel, half_ended_is_idle_too)
{
    struct answer *a = tunnel_open();

    tunnel_send(a, "x", true);
    fake_pass(&world.loop, PIPE_MS + 100);
    CHECK(a->gone && fake_is_closed(world.s));
    world_close();
}

TEST(h1_tunnel, that_is_aborted_is_reset)
{
    struct answer *a = tunnel_open();

    a->x->ops->reset(a->x, TERR_CLOSED);
    fake_run(&world.loop);
    CHECK(a->gone && fake_is_reset(world.s));
    world_close();
}

TEST(h1_tunnel, that_the_client_resets_is_gone)
{
    struct answer *a = tunnel_open();

    fake_end(world.s, TERR_IO);
    fake_run(&world.loop);
    CHECK(a->gone && !a->in_ended && fake_is_closed(world.s));
    world_close();
}

/* A second of today needs 31 bits. */
TEST(h1_client, no_two_loops_or_protocols_give_requests_the_same_ids)
{
    static const int64_t times_ms[] = {0, INT64_C(1790000000000), INT64_C(4102444800000)};

    for (unsigned i = 0; i < ARRAY_LEN(times_ms) * 64; i++) {
        int64_t at = times_ms[i / 64];
        unsigned loop = i % 64;
        uint64_t h1 = conn_server_first_xid(CONN_HTTP1, loop, at);
        uint64_t h2 = conn_server_first_xid(CONN_HTTP2, loop, at);

        CHECK_EQ(loop, h1 >> 48);
        CHECK_EQ(loop | 1 << 14, h2 >> 48);
        CHECK(h1 != conn_server_first_xid(CONN_HTTP1, loop, at + 1000));
        CHECK(h2 != conn_server_first_xid(CONN_HTTP2, loop, at + 1000));
    }
}

TEST(h1_tunnel, is_not_what_connect_gets)
{
    world_open();
    says_split(
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nGET /hit HTTP/1.1\r\nHost: a\r\n\r\n", 9);
    CHECK_EQ(1, world.nanswers);
    CHECK_EQ(TERR_METHOD, world.answers[0].err);
    CHECK(!world.answers[0].upgrade);
    answer_send(&world.answers[0], "waited");
    fake_run(&world.loop);
    CHECK_EQ(1, world.nanswers);
    CHECK(fake_is_shut(world.s)); /* it lingers, and reads nothing */
    world_close();
}

TEST_MAIN(TEST_ENTRY(h1_client, whose_first_answer_was_slow_to_leave_gets_the_second),
    TEST_ENTRY(h1_client, a_hit_needs_nothing_of_the_heap_and_disturbs_nobody_who_waits),
    TEST_ENTRY(h1_client, is_answered_alike_while_the_head_memo_comes_and_goes),
    TEST_ENTRY(h1_body, framing_that_fills_the_room_is_not_the_end_of_what_is_here),
    TEST_ENTRY(h1_send, more_keeps_the_packet_open_and_no_longer_than_the_turn),
    TEST_ENTRY(h1_send, what_there_are_no_buffers_for_shares_the_packet),
    TEST_ENTRY(h1_send, pipelined_answers_share_a_packet),
    TEST_ENTRY(h1_interim, leaves_behind_earlier_answers_and_before_its_own),
    TEST_ENTRY(h1_interim, never_goes_to_http_1_0),
    TEST_ENTRY(h1_interim, is_dropped_behind_the_head),
    TEST_ENTRY(h1_interim, that_the_kernel_takes_in_part_is_sent_whole),
    TEST_ENTRY(h1_interim, that_the_client_never_takes_ends_the_connection),
    TEST_ENTRY(h1_interim, stands_beside_the_one_100),
    TEST_ENTRY(h1_interim, to_a_client_that_left_says_so),
    TEST_ENTRY(h1_tunnel, is_asked_for_with_upgrade_in_connection_and_protocols),
    TEST_ENTRY(h1_tunnel, never_leads_to_http_that_we_do_not_see),
    TEST_ENTRY(h1_tunnel, gives_the_bytes_of_the_client_however_they_come),
    TEST_ENTRY(h1_tunnel, that_is_not_granted_is_an_ordinary_request),
    TEST_ENTRY(h1_tunnel, follows_pipelined_answers),
    TEST_ENTRY(h1_tunnel, that_the_client_ends_goes_on_the_other_way),
    TEST_ENTRY(h1_tunnel, that_we_end_goes_on_the_other_way),
    TEST_ENTRY(h1_tunnel, that_ends_without_a_byte_is_ended),
    TEST_ENTRY(h1_tunnel, is_shut_when_all_has_left),
    TEST_ENTRY(h1_tunnel, reads_while_the_client_takes_nothing),
    TEST_ENTRY(h1_tunnel, that_nobody_reads_stops_the_client_and_loses_nothing),
    TEST_ENTRY(h1_tunnel, lives_while_something_moves),
    TEST_ENTRY(h1_tunnel, lives_while_a_slow_client_takes_something),
    TEST_ENTRY(h1_tunnel, half_ended_is_idle_too), TEST_ENTRY(h1_tunnel, that_is_aborted_is_reset),
    TEST_ENTRY(h1_tunnel, that_the_client_resets_is_gone),
    TEST_ENTRY(h1_client, no_two_loops_or_protocols_give_requests_the_same_ids),
    TEST_ENTRY(h1_tunnel, is_not_what_connect_gets))
