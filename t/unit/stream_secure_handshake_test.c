/* stream_secure_handshake_test.c -- how a secure stream becomes one: handshakes, alone and many. */
#include "t/unit/secure_fixture.h"

#include <pthread.h>

/* ---- Handshakes ---- */

static void
play_one_piece(void)
{
    struct end *e = end_open(0);

    end_secure(e, true);
    CHECK(stream_get_secure(e->s) == &e->toy->base);
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s));
    turns(3);
    CHECK_EQ(0, e->wakes);
    peer_text(e, "HELLO");
    turn();
    CHECK_EQ(0, stream_connected(e->s));
    CHECK_EQ(1, e->wakes);
    peer_got(e, "OLLEH", 5);
    peer_record(e, "and on");
    turn();
    GOT(e, "and on");
}

TEST(stream_secure, a_handshake_in_one_piece_connects)
{
    on_both(play_one_piece);
}

static void
play_byte_by_byte(void)
{
    struct end *e = end_open(0);
    static const char all[] = "HELLO\0\3\x3b\x38\x39"; /* and the record "abc" */

    end_secure(e, true);
    for (size_t i = 0; i < sizeof(all) - 1; i++) {
        CHECK_EQ(i < 5 ? TERR_AGAIN : 0, stream_connected(e->s));
        CHECK_EQ(0, e->got_len);
        peer_sends(e, all + i, 1);
        turns(2);
        CHECK_EQ(0, slabs_used());
    }
    GOT(e, "abc");
    peer_got(e, "OLLEH", 5);
}

TEST(stream_secure, a_handshake_and_a_record_come_byte_by_byte)
{
    on_both(play_byte_by_byte);
}

static void
play_data_behind(void)
{
    struct end *e = end_open(0);
    char packet[64] = "HELLO";

    end_secure(e, true);
    peer_sends(e, packet, record_put(packet, 5, "early", 5));
    turn();
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "early");
}

TEST(stream_secure, data_in_the_packet_that_ends_the_handshake_is_received)
{
    on_both(play_data_behind);
}

static void
play_client(void)
{
    struct end *e = end_open(0);
    char packet[64] = "OLLEH";

    end_secure(e, false);
    turn();
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s));
    peer_got(e, "HELLO", 5);
    peer_sends(e, packet, record_put(packet, 5, "hi", 2));
    turn();
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "hi");
    CHECK_EQ(1, e->wakes); /* both facts are one look */
}

TEST(stream_secure, a_client_begins_its_handshake)
{
    on_both(play_client);
}

static void
owner_prefixed(struct end *e)
{
    struct span in = stream_received(e->s);

    if (stream_connected(e->s) == 0 && e->toy != NULL) {
        end_receive(e);
        return;
    }
    if (e->toy != NULL || in.len < 6)
        return;
    CHECK_MEM("PREFIX", in.ptr, 6);
    stream_skip(e->s, 6);
    end_secure(e, true);
    CHECK_EQ(0, stream_received(e->s).len);
}

static void
play_prefix(void)
{
    struct end *e = end_open(0);
    char packet[64] = "PREFIXHELLO";

    e->run = owner_prefixed;
    peer_sends(e, packet, record_put(packet, 11, "behind", 6));
    turn();
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "behind");
    CHECK_EQ(0, slabs_used());
    peer_got(e, "OLLEH", 5);
}

static void
play_prefix_alone(void)
{
    struct end *e = end_open(0);

    e->run = owner_prefixed;
    peer_text(e, "PREFIX");
    turn();
    CHECK(e->toy != NULL);
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s));
    peer_text(e, "HELLO");
    turn();
    CHECK_EQ(0, stream_connected(e->s));
}

/* All of it and the end came before there was a layer. */
static void
play_prefix_and_end(void)
{
    struct end *e = end_open(0);
    char packet[64] = "PREFIXHELLO";

    e->run = owner_prefixed;
    peer_sends(e, packet, record_put(packet, 11, "last", 4));
    peer_ends(e);
    turns(3);
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "last");
    CHECK_EQ(TERR_CLOSED, stream_ended(e->s));
}

/* The loop has seen the end, too. */
static void
play_prefix_and_leave(void)
{
    struct end *e = end_open(0);
    char packet[64] = "PREFIXHELLO";

    e->run = owner_prefixed;
    peer_sends(e, packet, record_put(packet, 11, "last", 4));
    peer_leaves(e);
    turns(3);
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "last");
    CHECK_EQ(TERR_CLOSED, stream_ended(e->s));
}

TEST(stream_secure, unconsumed_bytes_become_the_first_ciphertext)
{
    on_unix(play_prefix_and_leave);
    on_both(play_prefix);
    on_both(play_prefix_alone);
    on_both(play_prefix_and_end);
}

static void
play_failing(void)
{
    struct end *e = end_open(0);

    end_secure(e, true);
    turn();
    f.nsteps = 0;
    peer_text(e, "HELPO and more");
    turn();
    CHECK_EQ(TERR_SYNTAX, stream_connected(e->s));
    CHECK_EQ(1, e->wakes);
    CHECK_EQ(0, slabs_used());
    peer_got(e, "ALERT", 5);
    peer_text(e, "this too");
    turns(3);
    stream_resume(e->s); /* nothing */
    turns(3);
    CHECK_EQ(1, f.nsteps); /* the first said it */
    CHECK_EQ(1, e->wakes);
    CHECK_EQ(0, slabs_used());
    CHECK_EQ(0, stream_received(e->s).len);
    stream_close(&e->s);
    CHECK_EQ(0, f.toys);
    turn();
    AWAIT(fd_shows(e->peer, POLLRDHUP | POLLHUP));
    peer_reads(e, WIRE_MAX);
    CHECK_EQ(5, e->wire_len); /* no close_notify behind the alert */
}

TEST(stream_secure, a_failing_handshake_says_why_to_both_sides)
{
    on_both(play_failing);
}

static void
play_end_in_handshake(void)
{
    struct end *e = end_open(0);

    end_secure(e, true);
    peer_text(e, "HEL");
    turn();
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s));
    peer_ends(e);
    turn();
    CHECK_EQ(TERR_CLOSED, stream_connected(e->s));
    CHECK_EQ(1, e->wakes);
    turns(3);
    CHECK_EQ(1, e->wakes);
}

static void
play_reset_in_handshake(void)
{
    struct end *e = end_open(0);

    end_secure(e, true);
    peer_text(e, "HEL");
    turn();
    peer_resets(e);
    turn();
    CHECK_EQ(TERR_IO, stream_connected(e->s));
}

TEST(stream_secure, the_peers_end_in_the_handshake_fails_it)
{
    on_both(play_end_in_handshake);
    on_tcp(play_reset_in_handshake);
}

/* ---- Handshakes that wait ---- */

static void
play_waiting(void)
{
    struct end *e = end_open(0);
    char packet[64] = "HELLO";
    uint64_t from;

    end_secure(e, true);
    turn();
    e->toy->waits = true;
    peer_sends(e, packet, record_put(packet, 5, "later", 5));
    turn();
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s));
    CHECK_EQ(0, slabs_used());
    CHECK(f.loop->usage.bytes[USAGE_READ] < 2 * sizeof(struct read_slab));
    e->toy->waits = false;
    turns(3);
    CHECK_EQ(TERR_AGAIN, stream_connected(e->s)); /* it was not woken */
    from = f.nsteps;
    task_wake(e->toy->base.task);
    turn();
    CHECK_EQ(from + 1, f.nsteps);
    CHECK_EQ(0, stream_connected(e->s));
    peer_got(e, "OLLEH", 5);
    turn();
    GOT(e, "later");
}

TEST(stream_secure, a_layer_that_waits_is_asked_again_when_it_is_woken)
{
    on_both(play_waiting);
}

static void *
thread_notifies(void *arg)
{
    struct toy *toy = arg;

    usleep(20000);
    waiter_notify(toy->waiter);
    return NULL;
}

/* The other thread takes 20 ms.  The loop sleeps meanwhile, although the peer says more. */
static void
play_thread(void)
{
    struct end *e = end_open(0);
    struct waiter waiter;
    struct list waiting;
    pthread_t thread;
    uint64_t from;

    end_secure(e, true);
    turn();
    list_init(&waiting);
    waiter_init(&waiter, e->toy->base.task, &f.loop->inbox);
    waiter_arm(&waiter, &waiting);
    e->toy->waiter = &waiter;
    e->toy->waits = true;
    peer_text(e, "HELLO");
    turn();
    peer_record(e, "more");
    from = net_loop_turns(f.net);
    CHECK_EQ(0, pthread_create(&thread, NULL, thread_notifies, e->toy));
    while (waiter_pending(&waiter))
        uv_run(&f.net->uv, UV_RUN_ONCE);
    CHECK_EQ(0, pthread_join(thread, NULL));
    CHECK(net_loop_turns(f.net) - from < 10);
    e->toy->waits = false;
    task_wake(e->toy->base.task);
    turns(3);
    CHECK_EQ(0, stream_connected(e->s));
    GOT(e, "more");
}

TEST(stream_secure, the_loop_sleeps_while_a_layer_waits_for_a_thread)
{
    on_both(play_thread);
}

static void
play_closed_waiting(void)
{
    struct end *e = end_open(0);

    end_secure(e, true);
    turn();
    e->toy->waits = true;
    peer_text(e, "HELLO");
    turn();
    stream_close(&e->s);
    turns(2);
}

TEST(stream_secure, that_is_closed_while_its_layer_waits_leaves_nothing)
{
    on_both(play_closed_waiting);
}

/* ---- Many handshakes ---- */

/* Streams whose layers have begun and wait for the peer. */
static void
open_many(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        end_secure(end_open(0), true);
    turns(n);
    f.nsteps = 0;
}

static void
play_many(void)
{
    enum {
        MANY = 9
    };
    unsigned at = 0, turns_taken = 0;

    open_many(MANY);
    for (unsigned i = 0; i < MANY; i++)
        peer_text(&f.ends[i], "HELLO");
    for (; at < MANY && turns_taken < 20; turns_taken++) {
        turn();
        CHECK(f.nsteps - at <= NET_HANDSHAKES_TURN);
        at = f.nsteps;
        CHECK_EQ(0, slabs_used()); /* those that wait keep none of them */
    }
    CHECK_EQ((MANY + NET_HANDSHAKES_TURN - 1) / NET_HANDSHAKES_TURN, turns_taken);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(f.steps[i] == f.ends[i].toy);
        CHECK_EQ(0, stream_connected(f.ends[i].s));
        peer_got(&f.ends[i], "OLLEH", 5);
    }
}

TEST(stream_secure, handshakes_take_two_steps_a_turn_in_order)
{
    on_both(play_many);
}

/* In each turn two more ask. */
static void
play_overtaking(void)
{
    open_many(14);
    for (unsigned i = 0; i < 6; i++)
        peer_text(&f.ends[i], "HELLO");
    turn();
    for (unsigned i = 6; i < 14; i += 2) {
        peer_text(&f.ends[i], "HELLO");
        peer_text(&f.ends[i + 1], "HELLO");
        turn();
    }
    turns(10);
    CHECK_EQ(14, f.nsteps);
    for (unsigned i = 0; i < 14; i++)
        CHECK(f.steps[i] == f.ends[i].toy);
}

TEST(stream_secure, handshakes_that_wait_are_not_overtaken)
{
    on_both(play_overtaking);
}

/* Their first step, without any bytes, waits; then the bytes come. */
static void
play_bytes_for_waiting(void)
{
    for (unsigned i = 0; i < 8; i++)
        end_secure(end_open(0), true);
    for (unsigned i = 0; i < 8; i++)
        peer_text(&f.ends[i], "HELLO");
    for (unsigned i = 0; i < 20; i++) {
        turn();
        CHECK_EQ(0, slabs_used());
    }
    for (unsigned i = 0; i < 8; i++)
        CHECK_EQ(0, stream_connected(f.ends[i].s));
}

TEST(stream_secure, bytes_for_a_handshake_that_waits_keep_no_slab)
{
    on_both(play_bytes_for_waiting);
}

static void
play_closed_in_list(void)
{
    open_many(6);
    for (unsigned i = 0; i < 6; i++)
        peer_text(&f.ends[i], "HELLO");
    turn();
    CHECK_EQ(2, f.nsteps);
    stream_close(&f.ends[3].s);
    stream_close(&f.ends[5].s);
    turn_awake();
    turns(4);
    CHECK_EQ(4, f.nsteps);
    CHECK_EQ(0, stream_connected(f.ends[2].s));
    CHECK_EQ(0, stream_connected(f.ends[4].s));
    CHECK(list_empty(&f.net->handshakes));
}

/* Runs in the turn in which 2 and 3 would go on, before them. */
static void
owner_closes_others(struct end *e)
{
    end_receive(e);
    stream_close(&f.ends[2].s);
    stream_close(&f.ends[3].s);
}

static void
play_closed_at_its_turn(void)
{
    struct end *plain;

    open_many(6);
    plain = end_new(0);
    CHECK_EQ(0, stream_accept(&plain->s, f.loop, plain->fd, f.is_unix, &plain->task));
    plain->run = owner_closes_others;
    for (unsigned i = 0; i < 6; i++)
        peer_text(&f.ends[i], "HELLO");
    turn();
    CHECK_EQ(2, f.nsteps);
    peer_text(plain, "now");
    turn();
    CHECK(f.ends[2].s == NULL);
    turns(3);
    CHECK_EQ(0, stream_connected(f.ends[4].s));
    CHECK_EQ(0, stream_connected(f.ends[5].s));
}

TEST(stream_secure, a_stream_that_is_closed_leaves_the_list_of_handshakes)
{
    on_both(play_closed_in_list);
    on_both(play_closed_at_its_turn);
}

TEST_MAIN(TEST_ENTRY(stream_secure, a_handshake_in_one_piece_connects),
    TEST_ENTRY(stream_secure, a_handshake_and_a_record_come_byte_by_byte),
    TEST_ENTRY(stream_secure, data_in_the_packet_that_ends_the_handshake_is_received),
    TEST_ENTRY(stream_secure, a_client_begins_its_handshake),
    TEST_ENTRY(stream_secure, unconsumed_bytes_become_the_first_ciphertext),
    TEST_ENTRY(stream_secure, a_failing_handshake_says_why_to_both_sides),
    TEST_ENTRY(stream_secure, the_peers_end_in_the_handshake_fails_it),
    TEST_ENTRY(stream_secure, a_layer_that_waits_is_asked_again_when_it_is_woken),
    TEST_ENTRY(stream_secure, the_loop_sleeps_while_a_layer_waits_for_a_thread),
    TEST_ENTRY(stream_secure, that_is_closed_while_its_layer_waits_leaves_nothing),
    TEST_ENTRY(stream_secure, handshakes_take_two_steps_a_turn_in_order),
    TEST_ENTRY(stream_secure, handshakes_that_wait_are_not_overtaken),
    TEST_ENTRY(stream_secure, bytes_for_a_handshake_that_waits_keep_no_slab),
    TEST_ENTRY(stream_secure, a_stream_that_is_closed_leaves_the_list_of_handshakes))
