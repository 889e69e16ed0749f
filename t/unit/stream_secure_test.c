/* stream_secure_test.c -- what a secure stream receives: handshakes, plaintext, ends.
 *
 * stream_secure_send_test.c has what it sends. */
#include "t/unit/secure_fixture.h"

#include <errno.h>
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

TEST(stream_secure, unconsumed_bytes_become_the_first_ciphertext)
{
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

/* ---- What is received ---- */

static void
owner_looks(struct end *e)
{
    struct span in = stream_received(e->s);
    const struct read_slab *slab = f.net->slab;

    CHECK(in.ptr >= slab->bytes && in.ptr + in.len <= slab->bytes + slab->used);
    CHECK_EQ(1, slabs_used());
    end_receive(e);
    CHECK_EQ(0, slabs_used());
}

static void
play_slab(void)
{
    struct end *e = end_up(0, true);
    char packet[64];
    size_t len = 0;

    e->run = owner_looks;
    len = record_put(packet, len, "one ", 4);
    len = record_put(packet, len, "two ", 4);
    len = record_put(packet, len, "three", 5);
    peer_sends(e, packet, len);
    turn();
    GOT(e, "one two three");
    CHECK_EQ(1, e->wakes);
}

TEST(stream_secure, plaintext_of_several_records_lands_in_the_slab)
{
    on_both(play_slab);
}

static char room_of_ten[10];

static void
owner_of_ten(struct end *e)
{
    struct span in = stream_received(e->s);

    CHECK(in.len == 0 || in.ptr == room_of_ten);
    CHECK(in.len <= sizeof(room_of_ten));
    end_receive(e);
}

static void
play_posted(void)
{
    struct end *e = end_up(0, true);

    e->run = owner_of_ten;
    e->room = (struct span){room_of_ten, sizeof(room_of_ten)};
    stream_post(e->s, e->room);
    peer_record(e, "short");
    turn();
    GOT(e, "short");
    peer_record(e, "a record that is longer than the room");
    peer_record(e, ", and another one");
    turn();
    GOT(e, "shorta record that is longer than the room, and another one");
    CHECK_EQ(7, e->wakes);
    CHECK_EQ(0, slabs_used());
}

TEST(stream_secure, a_posted_room_takes_a_record_in_pieces)
{
    on_both(play_posted);
}

/* The owner posts the next room in this turn, but after it consumed. */
static void
owner_posts_later(struct end *e)
{
    CHECK(stream_received(e->s).len == 0 || stream_received(e->s).ptr == room_of_ten);
    if (stream_received(e->s).len > 0) {
        end_receive(e);
        task_wake(&e->task);
    } else {
        stream_post(e->s, (struct span){room_of_ten, sizeof(room_of_ten)});
    }
}

static void
play_posted_later(void)
{
    struct end *e = end_up(0, true);

    e->run = owner_posts_later;
    stream_post(e->s, (struct span){room_of_ten, sizeof(room_of_ten)});
    peer_record(e, "twenty-five bytes of text");
    turns(2);
    GOT(e, "twenty-five bytes of text");
}

TEST(stream_secure, a_room_that_is_posted_later_in_the_turn_is_used)
{
    on_both(play_posted_later);
}

static void
owner_of_four(struct end *e)
{
    CHECK(stream_received(e->s).len <= 4);
    end_receive(e);
}

static void
play_read_max(void)
{
    struct end *e = end_up(0, true);

    e->run = owner_of_four;
    stream_set_read_max(e->s, 4);
    peer_record(e, "ten bytes.");
    peer_record(e, "more");
    turn();
    GOT(e, "ten bytes.more");
    CHECK_EQ(4, e->wakes);
    CHECK_EQ(0, slabs_used());
}

TEST(stream_secure, read_max_bounds_what_is_received_at_once)
{
    on_both(play_read_max);
}

static void
owner_pauses(struct end *e)
{
    end_receive(e);
    stream_pause(e->s);
}

static void
play_pause(void)
{
    struct end *e = end_up(0, true);
    char packet[64];
    size_t len;

    e->run = owner_pauses;
    stream_set_read_max(e->s, 3);
    len = record_put(packet, 0, "one", 3);
    peer_sends(e, packet, record_put(packet, len, "two", 3));
    turn();
    GOT(e, "one");
    peer_record(e, "six");
    turns(3);
    GOT(e, "one");
    CHECK_EQ(0, stream_received(e->s).len);
    CHECK_EQ(0, slabs_used());
    stream_resume(e->s);
    turns(3);
    GOT(e, "onetwo"); /* paused again */
    stream_resume(e->s);
    turns(3);
    GOT(e, "onetwosix");
    CHECK_EQ(3, e->wakes);
    e->run = NULL;
    stream_resume(e->s);
    peer_record(e, "end");
    turn();
    GOT(e, "onetwosixend");
}

TEST(stream_secure, a_pause_keeps_what_has_arrived_and_no_slab)
{
    on_both(play_pause);
}

/* Paused before a turn that finds bytes which were read already. */
static void
play_pause_unread(void)
{
    struct end *e = end_up(0, true);

    stream_pause(e->s);
    peer_record(e, "first");
    turns(3);
    CHECK_EQ(0, e->wakes);
    CHECK_EQ(0, slabs_used());
    stream_resume(e->s);
    turn();
    GOT(e, "first");
}

/* Nor does the peer's end, which came with them, deliver what the owner does not want yet. */
static void
play_pause_at_end(void)
{
    struct end *e = end_up(0, true);
    char packet[64];
    size_t len;

    e->run = owner_pauses;
    stream_set_read_max(e->s, 3);
    len = record_put(packet, 0, "one", 3);
    peer_sends(e, packet, record_put(packet, len, "two", 3));
    peer_leaves(e);
    turns(3);
    GOT(e, "one");
    CHECK_EQ(0, stream_received(e->s).len);
    CHECK_EQ(0, stream_ended(e->s));
    CHECK_EQ(0, slabs_used());
    stream_resume(e->s);
    turns(3);
    GOT(e, "onetwo");
    CHECK_EQ(0, stream_ended(e->s));
    stream_resume(e->s);
    turns(3);
    GOT(e, "onetwo");
    CHECK_EQ(TERR_CLOSED, stream_ended(e->s));
}

TEST(stream_secure, nothing_is_received_while_paused)
{
    on_both(play_pause_unread);
    on_both(play_pause_at_end);
}

/* Each of 40 has a slab's worth of ciphertext for the same turn. */
static void
play_all_slabs(void)
{
    enum {
        STREAMS = 40,
        RECORDS = 5
    };
    static char plain[SECURE_RECORD], packet[(2 + SECURE_RECORD) * RECORDS];
    size_t len = 0;

    memset(plain, 'p', sizeof(plain));
    for (unsigned i = 0; i < RECORDS; i++)
        len = record_put(packet, len, plain, sizeof(plain));
    for (unsigned i = 0; i < STREAMS; i++)
        end_up(0, true);
    for (unsigned i = 0; i < STREAMS; i++)
        peer_sends(&f.ends[i], packet, len);
    turns(20);
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK_EQ(RECORDS * SECURE_RECORD, f.ends[i].got_len);
    CHECK_EQ(0, slabs_used());
}

TEST(stream_secure, ciphertext_that_fills_every_slab_is_decrypted)
{
    on_unix(play_all_slabs);
}

/* ---- Ends ---- */

/* Sends the record "last", what is in `behind`, and the end of the connection, in one turn. */
static int
ends_with(bool server, const char *behind, size_t len, bool fin)
{
    struct end *e = end_up(0, server);
    char packet[64];
    size_t at = record_put(packet, 0, "last", 4);
    int err;

    if (len > 0)
        memcpy(packet + at, behind, len);
    peer_sends(e, packet, at + len);
    if (fin)
        peer_ends(e);
    turns(3);
    GOT(e, "last");
    err = stream_ended(e->s);
    CHECK_EQ(0, slabs_used());
    stream_resume(e->s); /* nothing */
    turns(2);
    CHECK_EQ(err, stream_ended(e->s));
    return err;
}

static void
play_ends(void)
{
    CHECK_EQ(0, ends_with(true, NULL, 0, false));
    CHECK_EQ(TERR_CLOSED, ends_with(true, "\0", 2, false));
    CHECK_EQ(TERR_CLOSED, ends_with(false, "\0", 2, false));
    CHECK_EQ(TERR_CLOSED, ends_with(true, "\0", 2, true));
    CHECK_EQ(TERR_CLOSED, ends_with(true, NULL, 0, true));
}

TEST(stream_secure, bytes_come_before_the_end_that_follows_them)
{
    on_both(play_ends);
}

static void
play_close_notify_and_fin(void)
{
    CHECK_EQ(TERR_CLOSED, ends_with(false, "\0", 2, true));
}

TEST(stream_secure, close_notify_with_the_end_of_the_connection_is_orderly)
{
    on_both(play_close_notify_and_fin);
}

static void
play_cut(void)
{
    CHECK_EQ(TERR_IO, ends_with(false, NULL, 0, true));
    CHECK_EQ(TERR_IO, ends_with(false, "\0", 1, true)); /* in the middle of it */
}

TEST(stream_secure, a_clients_connection_without_close_notify_was_cut)
{
    on_both(play_cut);
}

static void
play_later_end(void)
{
    struct end *server = end_up(0, true), *client = end_up(0, false), *reset = end_up(0, true);

    peer_ends(server);
    peer_ends(client);
    peer_resets(reset);
    turns(2);
    CHECK_EQ(TERR_CLOSED, stream_ended(server->s));
    CHECK_EQ(TERR_IO, stream_ended(client->s));
    CHECK_EQ(f.is_unix ? TERR_CLOSED : TERR_IO, stream_ended(reset->s));
    CHECK_EQ(1, server->wakes);
}

TEST(stream_secure, the_end_of_an_idle_connection_is_told)
{
    on_both(play_later_end);
}

static void
play_bad_record(void)
{
    struct end *e = end_up(0, true);
    char packet[64];
    size_t at = record_put(packet, 0, "good", 4);

    memcpy(packet + at, "\xf0\x00", 2);
    peer_sends(e, packet, at + 2);
    turns(2);
    GOT(e, "good");
    CHECK_EQ(TERR_FRAMING, stream_ended(e->s));
    peer_got(e, "ALERT", 5);
}

TEST(stream_secure, a_bad_record_ends_it_behind_the_good_ones)
{
    on_both(play_bad_record);
}

/* ---- Our end ---- */

static void
play_close(void)
{
    struct end *e = end_up(0, true), *young = end_open(0), *bare = end_open(0);

    end_secure(young, true);
    turn();
    stream_close(&e->s);
    stream_close(&young->s);
    stream_close(&bare->s); /* it has no layer yet */
    CHECK_EQ(0, f.toys);
    peer_got_end(e, true);
    peer_got_end(young, false); /* there is no key to say it by */
    peer_got_end(bare, false);
}

TEST(stream_secure, a_close_says_close_notify)
{
    on_both(play_close);
}

static void
play_reset(void)
{
    struct end *e = end_up(0, true);

    stream_reset(&e->s);
    CHECK_EQ(0, f.toys);
    turns(2);
    if (f.is_unix) {
        peer_got_end(e, false);
    } else {
        char byte;

        CHECK_EQ(-1, recv(e->peer, &byte, 1, MSG_DONTWAIT));
        CHECK_EQ(ECONNRESET, errno);
    }
}

TEST(stream_secure, a_reset_says_no_close_notify)
{
    on_both(play_reset);
}

static void
play_shut(void)
{
    struct end *e = end_up(0, true);

    stream_shut(e->s);
    peer_got_end(e, true);
    peer_record(e, "still read");
    turn();
    GOT(e, "still read");
    stream_close(&e->s);
    turn();
    peer_reads(e, WIRE_MAX);
    CHECK_EQ(e->wire_at, e->wire_len); /* said once */
}

TEST(stream_secure, a_shut_stream_says_close_notify_and_reads_on)
{
    on_both(play_shut);
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
    TEST_ENTRY(stream_secure, a_stream_that_is_closed_leaves_the_list_of_handshakes),
    TEST_ENTRY(stream_secure, plaintext_of_several_records_lands_in_the_slab),
    TEST_ENTRY(stream_secure, a_posted_room_takes_a_record_in_pieces),
    TEST_ENTRY(stream_secure, a_room_that_is_posted_later_in_the_turn_is_used),
    TEST_ENTRY(stream_secure, read_max_bounds_what_is_received_at_once),
    TEST_ENTRY(stream_secure, a_pause_keeps_what_has_arrived_and_no_slab),
    TEST_ENTRY(stream_secure, nothing_is_received_while_paused),
    TEST_ENTRY(stream_secure, ciphertext_that_fills_every_slab_is_decrypted),
    TEST_ENTRY(stream_secure, bytes_come_before_the_end_that_follows_them),
    TEST_ENTRY(stream_secure, close_notify_with_the_end_of_the_connection_is_orderly),
    TEST_ENTRY(stream_secure, a_clients_connection_without_close_notify_was_cut),
    TEST_ENTRY(stream_secure, the_end_of_an_idle_connection_is_told),
    TEST_ENTRY(stream_secure, a_bad_record_ends_it_behind_the_good_ones),
    TEST_ENTRY(stream_secure, a_close_says_close_notify),
    TEST_ENTRY(stream_secure, a_reset_says_no_close_notify),
    TEST_ENTRY(stream_secure, a_shut_stream_says_close_notify_and_reads_on))
