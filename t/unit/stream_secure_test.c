/* stream_secure_test.c -- what a secure stream receives, and how it ends.
 *
 * stream_secure_handshake_test.c has how it begins, stream_secure_send_test.c what it sends. */
#include "t/unit/secure_fixture.h"

#include <errno.h>

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

/* Others have all slabs, when there is something to decrypt. */
static void
play_no_slab(void)
{
    struct end *e = end_up(0, true);
    struct read_slab *used[LIMIT_READ_SLABS];
    unsigned nused = 0;
    char packet[64];
    size_t len, room;

    e->run = owner_pauses;
    stream_set_read_max(e->s, 3);
    len = record_put(packet, 0, "one", 3);
    peer_sends(e, packet, record_put(packet, len, "two", 3));
    turn();
    GOT(e, "one");
    while (net_slab_room(f.net, &room) != NULL)
        used[nused++] = net_slab_use(f.net, room);
    CHECK_EQ(LIMIT_READ_SLABS, nused);
    stream_resume(e->s);
    turn();
    turn_awake();
    GOT(e, "one");
    while (nused > 0)
        net_slab_release(f.net, used[--nused]);
    turns(2);
    GOT(e, "onetwo");
    stream_resume(e->s);
    peer_record(e, "six");
    turns(2);
    GOT(e, "onetwosix");
}

static void
play_no_slab_closed(void)
{
    struct end *e = end_up(0, true);
    struct read_slab *used[LIMIT_READ_SLABS];
    unsigned nused = 0;
    char packet[64];
    size_t len, room;

    e->run = owner_pauses;
    stream_set_read_max(e->s, 3);
    len = record_put(packet, 0, "one", 3);
    peer_sends(e, packet, record_put(packet, len, "two", 3));
    turn();
    while (net_slab_room(f.net, &room) != NULL)
        used[nused++] = net_slab_use(f.net, room);
    stream_resume(e->s);
    turn();
    CHECK(!list_empty(&f.net->roomless));
    stream_close(&e->s);
    CHECK(list_empty(&f.net->roomless));
    while (nused > 0)
        net_slab_release(f.net, used[--nused]);
}

TEST(stream_secure, plaintext_waits_for_a_slab_while_others_have_all)
{
    on_both(play_no_slab);
    on_both(play_no_slab_closed);
}

static void
owner_asks_quiet(struct end *e)
{
    struct span in = stream_received(e->s);

    if (in.len == 0 || e->room.ptr == NULL)
        return;
    CHECK(in.ptr == room_of_ten);
    stream_consume(e->s);
    e->room.ptr = NULL;
    e->fin = !stream_quiet(e->s);
}

/* The owner has its ten bytes, and is asked at once whether the connection can be used again. */
static void
play_quiet(void)
{
    struct end *e = end_up(0, false);

    CHECK(stream_quiet(e->s));
    peer_record(e, "x");
    CHECK(!stream_quiet(e->s)); /* the kernel has it */
    turn();
    CHECK(stream_quiet(e->s));
    e->run = owner_asks_quiet;
    e->room = (struct span){room_of_ten, sizeof(room_of_ten)};
    stream_post(e->s, e->room);
    peer_record(e, "ten bytes.");
    turn();
    CHECK(!e->fin); /* it can */
    e->room = (struct span){room_of_ten, sizeof(room_of_ten)};
    stream_post(e->s, e->room);
    peer_record(e, "ten bytes., a stray byte");
    turn();
    CHECK(e->fin); /* what is left is in the layer */
    e->fin = false;
}

TEST(stream_secure, is_not_quiet_while_its_layer_has_plaintext)
{
    on_both(play_quiet);
}

/* ---- Ends ---- */

/* Sends the record "last", what is in `behind`, and the end of the connection, in one turn. */
static int
ends_with(bool server, const char *behind, size_t len, bool fin)
{
    struct end *e = end_up(0, server);
    char packet[64];
    size_t at = record_put(packet, 0, "last", 4);
    unsigned wakes;
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
    wakes = e->wakes;
    stream_resume(e->s); /* nothing */
    task_wake(e->toy->base.task);
    turns(2);
    CHECK_EQ(err, stream_ended(e->s));
    CHECK_EQ(wakes, e->wakes); /* said once */
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
    peer_sends(e, "\xff\xff", 2); /* it would answer */
    peer_record(e, "still read");
    turn();
    GOT(e, "still read");
    CHECK_EQ(0, stream_write_error(e->s));
    stream_close(&e->s);
    turn();
    peer_reads(e, WIRE_MAX);
    CHECK_EQ(e->wire_at, e->wire_len); /* said once */
}

TEST(stream_secure, a_shut_stream_says_close_notify_and_reads_on)
{
    on_both(play_shut);
}

TEST_MAIN(TEST_ENTRY(stream_secure, plaintext_of_several_records_lands_in_the_slab),
    TEST_ENTRY(stream_secure, a_posted_room_takes_a_record_in_pieces),
    TEST_ENTRY(stream_secure, a_room_that_is_posted_later_in_the_turn_is_used),
    TEST_ENTRY(stream_secure, read_max_bounds_what_is_received_at_once),
    TEST_ENTRY(stream_secure, a_pause_keeps_what_has_arrived_and_no_slab),
    TEST_ENTRY(stream_secure, nothing_is_received_while_paused),
    TEST_ENTRY(stream_secure, ciphertext_that_fills_every_slab_is_decrypted),
    TEST_ENTRY(stream_secure, plaintext_waits_for_a_slab_while_others_have_all),
    TEST_ENTRY(stream_secure, is_not_quiet_while_its_layer_has_plaintext),
    TEST_ENTRY(stream_secure, bytes_come_before_the_end_that_follows_them),
    TEST_ENTRY(stream_secure, close_notify_with_the_end_of_the_connection_is_orderly),
    TEST_ENTRY(stream_secure, a_clients_connection_without_close_notify_was_cut),
    TEST_ENTRY(stream_secure, the_end_of_an_idle_connection_is_told),
    TEST_ENTRY(stream_secure, a_bad_record_ends_it_behind_the_good_ones),
    TEST_ENTRY(stream_secure, a_close_says_close_notify),
    TEST_ENTRY(stream_secure, a_reset_says_no_close_notify),
    TEST_ENTRY(stream_secure, a_shut_stream_says_close_notify_and_reads_on))
