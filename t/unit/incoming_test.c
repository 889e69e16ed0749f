/* incoming_test.c -- connections before their protocol: PROXY headers, which protocol, operators, counts. */
#include "t/unit/h1_client_fixture.h"

#include "daemon/base/address.h"
#include "daemon/log/elog.h"
#include "daemon/net/secure.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define LINE      "PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n"
#define ASK       "GET /hit HTTP/1.1\r\nHost: a\r\n\r\n"
#define WAIT      "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct incoming_listener front = {
    .facts = {.name = "front", .endpoint = "127.0.0.1:80"}, .is_proxied = true};

static void
connect_to(const struct incoming_listener *l)
{
    CHECK_EQ(0, incoming_accept(world.incoming, -1, false, l));
    world.s = fake_newest;
}

static void
open_proxied(void)
{
    elog_init(ELOG_ERROR, 1);
    world_open();
    connect_to(&front);
}

/* What waits is charged, and nothing of it when nothing waits. */
static void
check_waiting(unsigned n)
{
    CHECK_EQ(n, incoming_waiting(world.incoming));
    CHECK_EQ(n > 0, world.loop.usage.bytes[USAGE_INCOMING] > 0);
}

static int64_t
counted(enum counter id)
{
    return (int64_t)counters_sum(world.counters, id);
}

TEST(incoming, a_proxy_header_names_the_client_and_the_server)
{
    for (size_t at = 0; at <= sizeof(LINE WAIT) - 1; at++) {
        const struct conn_forwarded *fwd;
        char text[ADDRESS_TEXT_MAX];
        struct exchange *x;

        open_proxied();
        check_waiting(1);
        says_split(LINE WAIT, at);
        check_waiting(0);
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

TEST(incoming, a_proxy_header_may_come_byte_by_byte)
{
    static const char v2[] = SIGNATURE "\x21\x11\x00\x0c"
                                       "\xc0\x00\x02\x07\xc6\x33\x64\x01\x04\xd2\x00\x50" ASK;
    static const struct {
        const char *text;
        size_t len;
    } all[] = {{LINE ASK, sizeof(LINE ASK) - 1}, {v2, sizeof(v2) - 1}};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        size_t header = all[i].len - (sizeof(ASK) - 1);

        open_proxied();
        for (size_t at = 0; at < all[i].len; at++) {
            check_waiting(at < header);
            says(all[i].text + at, 1);
        }
        CHECK_STR(HIT, fake_got(world.s));
        CHECK_EQ((int64_t)all[i].len, counted(COUNTER_req_bytes_in));
        world_close();
    }
}

TEST(incoming, a_proxy_header_that_is_too_long_is_refused)
{
    static char v1[200] = "PROXY UNKNOWN ";
    static const char v2[] = SIGNATURE "\x21\x11\xff\xff";

    memset(v1 + strlen(v1), 'x', sizeof(v1) - strlen(v1));
    for (unsigned i = 0; i < 2; i++) {
        struct stream *s;

        open_proxied();
        s = world.s;
        for (size_t at = 0; !fake_is_closed(s); at++) {
            CHECK(at < (i == 0 ? sizeof(v1) : sizeof(v2) - 1));
            says(i == 0 ? v1 + at : v2 + at, 1);
        }
        check_waiting(0);
        CHECK_EQ(1, counted(COUNTER_sess_proxied_bad));
        world_close();
    }
}

/* A certificate among the TLVs: all of PROXY_HEADER_MAX, and not one byte more is kept. */
TEST(incoming, a_proxy_header_of_the_greatest_length_is_read)
{
    static char v2[8192 + sizeof(ASK)] = SIGNATURE "\x20\x00";
    const size_t tlvs = 8192 - 16;

    v2[14] = (char)(tlvs >> 8);
    v2[15] = (char)(tlvs & 0xff);
    memcpy(v2 + 8192, ASK, sizeof(ASK));
    for (size_t at = 8190; at <= 8194; at++) {
        open_proxied();
        says(v2, 100);
        says(v2 + 100, at - 100);
        says(v2 + at, 8192 + sizeof(ASK) - 1 - at);
        CHECK_STR(HIT, fake_got(world.s));
        world_close();
    }
}

TEST(incoming, a_proxy_header_without_addresses_leaves_the_peers)
{
    static const char local[] = SIGNATURE "\x20\x00\x00\x00" WAIT;

    for (size_t at = 0; at <= sizeof(local) - 1; at++) {
        open_proxied();
        says(local, at);
        says(local + at, sizeof(local) - 1 - at);
        CHECK_EQ(1, world.nanswers);
        CHECK(world.answers[0].x->conn->listener == &front.facts);
        answer_send(&world.answers[0], "waited");
        fake_run(&world.loop);
        world_close();
    }
}

TEST(incoming, a_connection_without_its_proxy_header_is_closed_unanswered)
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
TEST(incoming, only_trusted_peers_may_send_a_proxy_header)
{
    static const struct address_net ten = {.addr = {[10] = 0xff, [11] = 0xff, 10}, .bits = 96 + 8};
    static const struct address_net test_net = {
        .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2}, .bits = 96 + 24};
    const struct incoming_listener others = {
        .facts = front.facts, .is_proxied = true, .trusted = {&ten, 1}};
    const struct incoming_listener us = {
        .facts = front.facts, .is_proxied = true, .trusted = {&test_net, 1}};

    world_open();
    connect_to(&others);
    fake_run(&world.loop);
    CHECK(fake_is_closed(world.s));
    CHECK_EQ(1, counted(COUNTER_sess_proxied_bad));
    connect_to(&us);
    says(LINE ASK, sizeof(LINE ASK) - 1);
    CHECK_STR(HIT, fake_got(world.s));
    world_close();
}

TEST(incoming, a_proxy_header_has_one_deadline_of_timeout_req)
{
    open_proxied();
    says(LINE, 10);
    fake_pass(&world.loop, 3000);
    CHECK(!fake_is_closed(world.s));
    says(&LINE[10], 1); /* what trickles does not move it */
    fake_pass(&world.loop, 3000);
    CHECK(fake_is_closed(world.s));
    check_waiting(0);
    CHECK_EQ(2, counted(COUNTER_sess_timeout)); /* and the plain one, which was idle */
    world_close();
}

TEST(incoming, a_peer_that_leaves_amid_its_proxy_header_sent_no_bad_one)
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

TEST(incoming, connections_that_wait_for_a_proxy_header_end_with_the_drain)
{
    struct stream *quiet;

    open_proxied();
    quiet = world.s;
    connect_to(&front);
    says(LINE, 10);
    incoming_drain(world.incoming);
    fake_run(&world.loop);
    CHECK(fake_is_closed(quiet) && fake_is_closed(world.s));
    world_close();
}

TEST(incoming, a_connection_that_waits_goes_on_when_the_drain_is_gentle)
{
    open_proxied();
    says(LINE, 10);
    incoming_drain_gently(world.incoming);
    fake_run(&world.loop);
    says(&(LINE ASK)[10], sizeof(LINE ASK) - 1 - 10);
    CHECK(strstr(fake_got(world.s), "\r\nConnection: close\r\n") != NULL);
    world_close();
}

TEST(incoming, idle_connections_are_shed_the_oldest_first_those_that_wait_before)
{
    struct stream *plain, *first;

    open_proxied(); /* behind a plain connection */
    first = world.s;
    fake_pass(&world.loop, 600);
    connect_to(&front);
    fake_pass(&world.loop, 600);
    CHECK_EQ(1, incoming_shed_idle(world.incoming, 1, 1000));
    CHECK(fake_is_closed(first) && !fake_is_closed(world.s));
    CHECK_EQ(1, incoming_shed_idle(world.incoming, 2, 1000)); /* the plain one */
    CHECK(!fake_is_closed(world.s));
    world_connect();
    plain = world.s;
    fake_run(&world.loop);
    CHECK_EQ(2, incoming_connections(world.incoming));
    CHECK_EQ(2, counted(COUNTER_sess_shed));
    CHECK(!fake_is_closed(plain));
    world_close();
}

static void
connect_operator(void)
{
    static const struct incoming_listener admin = {
        .facts = {.name = "admin", .endpoint = ""}, .is_admin = true};

    connect_to(&admin);
}

TEST(incoming, operators_are_unproven_until_a_request_is_authorized)
{
    struct stream *silent, *proven;
    struct exchange *x;

    open_proxied();
    connect_operator();
    silent = world.s;
    fake_pass(&world.loop, 600);
    connect_operator();
    proven = world.s;
    CHECK_EQ(2, incoming_unproven(world.incoming));
    says(WAIT, sizeof(WAIT) - 1);
    x = world.answers[0].x;
    CHECK(x->conn->listener->peer != NULL && !x->conn->listener->peer->has_cred);
    x->conn->listener->peer->admitted = true;
    CHECK_EQ(1, incoming_unproven(world.incoming));
    CHECK_EQ(0, incoming_drop_unproven(world.incoming, 1000, true));
    fake_pass(&world.loop, 600);
    CHECK_EQ(1, incoming_drop_unproven(world.incoming, 1000, true));
    CHECK_EQ(0, incoming_unproven(world.incoming));
    CHECK_EQ(0, incoming_drop_unproven(world.incoming, 0, true));
    fake_run(&world.loop);
    CHECK(fake_is_closed(silent) && !fake_is_closed(proven));
    answer_send(&world.answers[0], "waited");
    fake_run(&world.loop);
    CHECK_STR(WAITED, fake_got(proven));
    world_close();
}

static unsigned clients;

static int
client_begins(void *ctx, const uint8_t addr[16])
{
    (void)ctx, (void)addr;
    if (clients == 2)
        return TERR_LIMIT;
    clients++;
    return 1;
}

static void
client_ends(void *ctx, const uint8_t addr[16])
{
    (void)ctx, (void)addr;
    clients--;
}

/* When the address is known: at the accept, or behind the PROXY header. */
TEST(incoming, connections_of_a_client_are_counted_for_as_long_as_they_live)
{
    struct stream *refused;

    clients = 0;
    world_open_counting(client_begins, client_ends);
    CHECK_EQ(1, clients);
    connect_to(&front);
    CHECK_EQ(1, clients);
    says(LINE, sizeof(LINE) - 1);
    CHECK_EQ(2, clients);
    world_connect();
    refused = world.s;
    CHECK(fake_is_closed(refused));
    CHECK_EQ(2, incoming_connections(world.incoming));
    world_close();
    CHECK_EQ(0, clients);
}

/* ---- which protocol ---- */

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FRAMES  "\1frames of HTTP/2\2"

static const struct incoming_listener either = {
    .facts = {.name = "either", .endpoint = "127.0.0.1:81"}, .h2c = true};
static const struct incoming_listener either_proxied = {
    .facts = {.name = "both", .endpoint = "127.0.0.1:82"}, .is_proxied = true, .h2c = true};

/* A server of HTTP/2 that notes what it reads. */
static struct {
    struct conn_server server;
    struct stream *stream; /* NULL: none */
    struct conn_facts facts;
    struct task task;
    unsigned adopted;
    size_t len;
    char got[200];
} two;

static void
two_end(void)
{
    stream_close(&two.stream);
    task_cancel(&two.task);
    two.server.ended(two.server.ended_ctx, &two.facts);
}

static void
two_run(struct task *t)
{
    struct span rx = stream_received(two.stream);

    (void)t;
    CHECK(two.len + rx.len <= sizeof(two.got));
    if (rx.len > 0) {
        memcpy(two.got + two.len, rx.ptr, rx.len);
        two.len += rx.len;
        stream_consume(two.stream);
    }
    if (stream_ended(two.stream) != 0)
        two_end();
}

static int
two_adopt(struct conn_server *s, struct stream **stream, const struct conn_facts *facts)
{
    CHECK(s == &two.server && two.stream == NULL);
    two.adopted++;
    two.stream = *stream;
    two.facts = *facts;
    *stream = NULL;
    task_init(&two.task, &world.loop.tasks, two_run);
    stream_set_owner(two.stream, &two.task);
    return 0;
}

static void
two_cut(struct conn_server *s)
{
    (void)s;
    if (two.stream != NULL)
        two_end();
}

static bool
two_cut_one(struct conn_server *s, uint64_t session)
{
    (void)s, (void)session;
    CHECK(false); /* operators speak HTTP/1 */
    return false;
}

static void
two_close(struct conn_server **s)
{
    *s = NULL;
}

static void
open_both(const struct incoming_listener *l)
{
    static const struct conn_server_ops ops = {.adopt = two_adopt,
        .cut = two_cut,
        .drain = two_cut,
        .cut_one = two_cut_one,
        .close = two_close};
    struct conn_server *server = &two.server;

    elog_init(ELOG_ERROR, 1);
    world_open();
    memset(&two, 0, sizeof(two));
    two.server = (struct conn_server){.ops = &ops, .protocol = CONN_HTTP2};
    incoming_serve(world.incoming, &server);
    connect_to(l);
}

static void
check_two(const char *bytes, size_t len)
{
    CHECK_EQ(1, two.adopted);
    CHECK_EQ(1, counted(COUNTER_sess_http2));
    CHECK_EQ(len, two.len);
    CHECK(memcmp(bytes, two.got, len) == 0);
    CHECK_EQ(0, world.nanswers);
    check_waiting(0);
}

TEST(incoming, the_preface_of_http2_goes_to_its_server_in_whatever_pieces)
{
    static const char all[] = PREFACE FRAMES;
    const size_t len = sizeof(all) - 1;

    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            open_both(&either);
            check_waiting(1);
            says(all, a);
            says(all + a, b - a);
            says(all + b, len - b);
            check_two(all, len);
            CHECK_STR("either", two.facts.listener->name);
            world_close();
        }
    }
}

TEST(incoming, the_preface_of_http2_may_come_byte_by_byte_and_no_more_than_it_is_kept)
{
    static const char all[] = PREFACE FRAMES;
    const size_t preface = sizeof(PREFACE) - 1;

    open_both(&either);
    for (size_t at = 0; at < preface; at++) {
        check_waiting(1);
        CHECK_EQ(0, two.adopted);
        says(all + at, 1);
    }
    check_waiting(0);
    check_two(all, preface);
    says(all + preface, sizeof(FRAMES) - 1);
    check_two(all, sizeof(all) - 1);
    world_close();
}

/* HTTP/1's server gets it whole, and says itself what it thinks of it. */
TEST(incoming, a_byte_that_differs_from_the_preface_makes_it_http1)
{
    for (size_t at = 0; at < sizeof(PREFACE) - 1; at++) {
        for (size_t split = 0; split <= sizeof(PREFACE) - 1; split++) {
            char text[] = PREFACE;

            text[at] = (char)(text[at] == 'x' ? 'y' : 'x');
            open_both(&either);
            says(text, split);
            CHECK_EQ(split <= at, incoming_waiting(world.incoming) == 1);
            says(text + split, sizeof(PREFACE) - 1 - split);
            CHECK_EQ(0, two.adopted);
            check_waiting(0);
            world_close();
        }
    }
}

/* "P" is of both. */
TEST(incoming, a_request_of_http1_is_whole_however_it_comes)
{
    static const char post[] = "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    static const char prim[] = "PRI /wait HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char *const all[] = {ASK, post, prim};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (size_t at = 0; at <= strlen(all[i]); at++) {
            open_both(&either);
            world.conf.any_method = true;
            says_split(all[i], at);
            CHECK_EQ(0, two.adopted);
            CHECK_EQ(0, counted(COUNTER_sess_http2));
            CHECK_EQ(1, world.nanswers);
            CHECK_EQ(0, world.answers[0].err);
            CHECK_EQ((int64_t)strlen(all[i]), counted(COUNTER_req_bytes_in));
            if (i > 0)
                answer_send(&world.answers[0], "waited");
            fake_run(&world.loop);
            CHECK_STR(i > 0 ? WAITED : HIT, fake_got(world.s));
            world_close();
        }
    }
}

TEST(incoming, the_preface_stands_behind_a_proxy_header)
{
    static const char all[] = LINE PREFACE FRAMES;

    for (size_t at = 0; at <= sizeof(all) - 1; at++) {
        char text[ADDRESS_TEXT_MAX];

        open_both(&either_proxied);
        says(all, at);
        says(all + at, sizeof(all) - 1 - at);
        check_two(PREFACE FRAMES, sizeof(PREFACE FRAMES) - 1);
        address_text(two.facts.client_addr, text);
        CHECK_STR("192.0.2.7", text);
        world_close();
        open_both(&either_proxied);
        says_split(LINE ASK, at < sizeof(LINE ASK) - 1 ? at : 0);
        CHECK_EQ(0, two.adopted);
        CHECK_STR(HIT, fake_got(world.s));
        world_close();
    }
}

TEST(incoming, a_peer_that_leaves_amid_the_preface_was_nothing)
{
    for (size_t len = 0; len < sizeof(PREFACE) - 1; len++) {
        for (unsigned late = 0; late < 2; late++) {
            open_both(&either);
            fake_arrive(world.s, PREFACE, len);
            if (late)
                fake_run(&world.loop);
            fake_end(world.s, TERR_CLOSED);
            fake_run(&world.loop);
            CHECK(fake_is_closed(world.s));
            CHECK_EQ(0, fake_got_len(world.s));
            CHECK_EQ(0, two.adopted);
            check_waiting(0);
            world_close();
        }
    }
}

TEST(incoming, a_preface_has_the_one_deadline_of_incoming)
{
    for (size_t len = 0; len < sizeof(PREFACE) - 1; len += sizeof(PREFACE) - 2) {
        open_both(&either);
        fake_pass(&world.loop, 3000);
        says(PREFACE, len);
        CHECK(!fake_is_closed(world.s));
        fake_pass(&world.loop, 3000);
        CHECK(fake_is_closed(world.s));
        CHECK_EQ(0, fake_got_len(world.s));
        CHECK_EQ(2, counted(COUNTER_sess_timeout)); /* and the plain one, which was idle */
        check_waiting(0);
        world_close();
    }
}

/* The bytes that came alone wait for a slab to go back to, and those behind them wait for these. */
TEST(incoming, first_bytes_that_find_no_room_come_first_nevertheless)
{
    static const char all[] = PREFACE FRAMES;

    for (unsigned times = 1; times < 4; times++) {
        open_both(&either);
        fake_fail_unread(world.s, TERR_AGAIN, times);
        says(all, 5);
        says(all + 5, sizeof(all) - 1 - 5);
        check_two(all, sizeof(all) - 1);
        CHECK(!fake_is_paused(world.s));
        world_close();
    }
    open_both(&either);
    fake_fail_unread(world.s, TERR_NOMEM, 1);
    says(all, 5);
    says(all + 5, sizeof(all) - 1 - 5);
    CHECK(fake_is_closed(world.s));
    check_waiting(0);
    world_close();
}

TEST(incoming, a_listener_without_h2c_asks_for_no_preface)
{
    static const struct incoming_listener plain = {.facts = {.name = "", .endpoint = ""}};

    open_both(&plain);
    check_waiting(0);
    says(PREFACE, sizeof(PREFACE) - 1);
    CHECK_EQ(0, two.adopted);
    CHECK_EQ(1, world.nanswers); /* HTTP/1's server refuses it */
    world_close();
}

/* Its server says what it says first, and judges the preface. */
TEST(incoming, a_listener_of_http2_alone_hands_on_whatever_comes)
{
    static const struct incoming_listener only = {
        .facts = {.name = "only", .endpoint = ""}, .h2c = true, .h2c_only = true};

    open_both(&only);
    check_waiting(0);
    CHECK_EQ(1, two.adopted);
    says(ASK, sizeof(ASK) - 1);
    check_two(ASK, sizeof(ASK) - 1);
    world_close();
}

TEST(incoming, a_listener_of_http2_alone_reads_a_proxy_header_first)
{
    static const struct incoming_listener only = {.facts = {.name = "only", .endpoint = ""},
        .is_proxied = true,
        .h2c = true,
        .h2c_only = true};

    open_both(&only);
    check_waiting(1);
    says(LINE ASK, sizeof(LINE ASK) - 1);
    check_two(ASK, sizeof(ASK) - 1);
    world_close();
}

TEST(incoming, without_a_server_of_http2_all_is_http1)
{
    world_open();
    connect_to(&either);
    check_waiting(0);
    says(ASK, sizeof(ASK) - 1);
    CHECK_STR(HIT, fake_got(world.s));
    world_close();
}

/* What a handshake agreed on. */
static const char *agreed;

static void
agreed_facts(const struct secure *t, struct conn_secure *out, char *text, size_t size)
{
    (void)t, (void)text, (void)size;
    *out = (struct conn_secure){.version = "TLSv1.3",
        .cipher = "",
        .server_name = "",
        .protocol = agreed,
        .client_subject = "",
        .client_issuer = "",
        .client_serial = "",
        .client_fingerprint = ""};
}

static int
agreed_accept(struct secure_server *s, struct loop *l, struct secure **out)
{
    static const struct secure_ops ops = {.facts = agreed_facts};
    static struct secure layer = {.ops = &ops};

    (void)s, (void)l;
    *out = &layer;
    return 0;
}

TEST(incoming, what_the_handshake_agreed_on_says_the_protocol)
{
    static struct secure_server maker = {.accept = agreed_accept};
    static const struct incoming_listener secure = {
        .facts = {.name = "s", .endpoint = ""}, .secure = &maker};
    static const char *const others[] = {"", "http/1.1", "h2c", "h3"};

    agreed = "h2";
    open_both(&secure);
    fake_run(&world.loop);
    CHECK_EQ(1, two.adopted);
    says(FRAMES, sizeof(FRAMES) - 1);
    check_two(FRAMES, sizeof(FRAMES) - 1); /* it reads the preface itself */
    CHECK_STR("h2", two.facts.listener->secure->protocol);
    world_close();
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        agreed = others[i];
        open_both(&secure);
        says(ASK, sizeof(ASK) - 1);
        CHECK_EQ(0, two.adopted);
        CHECK_STR(HIT, fake_got(world.s));
        world_close();
    }
}

/* PP2_TYPE_SSL with a version and PP2_TYPE_ALPN "h2": a proxy's agreement. */
TEST(incoming, what_a_proxy_agreed_on_with_its_client_is_not_what_it_speaks_with_us)
{
    static const char v2[] = SIGNATURE "\x21\x11\x00\x21"
                                       "\xc0\x00\x02\x07\xc6\x33\x64\x01\x04\xd2\x00\x50"
                                       "\x01\x00\x02h2"
                                       "\x20\x00\x0d\x01\x00\x00\x00\x00\x21\x00\x05TLSv1" WAIT;
    const struct conn_secure *secure;

    open_both(&either_proxied);
    says(v2, sizeof(v2) - 1);
    CHECK_EQ(0, two.adopted);
    CHECK_EQ(1, world.nanswers);
    secure = world.answers[0].x->conn->listener->secure;
    CHECK(secure != NULL);
    CHECK_STR("h2", secure->protocol);
    answer_send(&world.answers[0], "waited");
    fake_run(&world.loop);
    world_close();
}

TEST_MAIN(TEST_ENTRY(incoming, a_proxy_header_names_the_client_and_the_server),
    TEST_ENTRY(incoming, a_proxy_header_may_come_byte_by_byte),
    TEST_ENTRY(incoming, a_proxy_header_that_is_too_long_is_refused),
    TEST_ENTRY(incoming, a_proxy_header_of_the_greatest_length_is_read),
    TEST_ENTRY(incoming, a_proxy_header_without_addresses_leaves_the_peers),
    TEST_ENTRY(incoming, a_connection_without_its_proxy_header_is_closed_unanswered),
    TEST_ENTRY(incoming, only_trusted_peers_may_send_a_proxy_header),
    TEST_ENTRY(incoming, a_proxy_header_has_one_deadline_of_timeout_req),
    TEST_ENTRY(incoming, a_peer_that_leaves_amid_its_proxy_header_sent_no_bad_one),
    TEST_ENTRY(incoming, connections_that_wait_for_a_proxy_header_end_with_the_drain),
    TEST_ENTRY(incoming, a_connection_that_waits_goes_on_when_the_drain_is_gentle),
    TEST_ENTRY(incoming, idle_connections_are_shed_the_oldest_first_those_that_wait_before),
    TEST_ENTRY(incoming, operators_are_unproven_until_a_request_is_authorized),
    TEST_ENTRY(incoming, connections_of_a_client_are_counted_for_as_long_as_they_live),
    TEST_ENTRY(incoming, the_preface_of_http2_goes_to_its_server_in_whatever_pieces),
    TEST_ENTRY(incoming, the_preface_of_http2_may_come_byte_by_byte_and_no_more_than_it_is_kept),
    TEST_ENTRY(incoming, a_byte_that_differs_from_the_preface_makes_it_http1),
    TEST_ENTRY(incoming, a_request_of_http1_is_whole_however_it_comes),
    TEST_ENTRY(incoming, the_preface_stands_behind_a_proxy_header),
    TEST_ENTRY(incoming, a_peer_that_leaves_amid_the_preface_was_nothing),
    TEST_ENTRY(incoming, a_preface_has_the_one_deadline_of_incoming),
    TEST_ENTRY(incoming, first_bytes_that_find_no_room_come_first_nevertheless),
    TEST_ENTRY(incoming, a_listener_without_h2c_asks_for_no_preface),
    TEST_ENTRY(incoming, a_listener_of_http2_alone_hands_on_whatever_comes),
    TEST_ENTRY(incoming, a_listener_of_http2_alone_reads_a_proxy_header_first),
    TEST_ENTRY(incoming, without_a_server_of_http2_all_is_http1),
    TEST_ENTRY(incoming, what_the_handshake_agreed_on_says_the_protocol),
    TEST_ENTRY(incoming, what_a_proxy_agreed_on_with_its_client_is_not_what_it_speaks_with_us))
