/* stream_secure_send_test.c -- what a secure stream sends: records, full sockets, the layer's answers. */
#include "t/unit/secure_fixture.h"

#include <errno.h>
#include <signal.h>

#include "t/unit/kernel_watch.h"

enum {
    BODY = 1 << 20,
    SMALL_ROOM = 8192,          /* of a socket that is soon full */
    CHUNK_MAX = 4 * (16384 + 2) /* the most ciphertext that is given to the kernel at once */
};

static char body[BODY], got[BODY + 1];

static void
body_make(void)
{
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)(i * 7 + i / 251);
}

static ssize_t
try_bytes(struct end *e, const char *p, size_t len, bool more)
{
    struct iovec iov = {.iov_len = len};

    memcpy(&iov.iov_base, &p, sizeof(p));
    return stream_try(e->s, &iov, 1, more);
}

static void
try_text(struct end *e, const char *text, bool more)
{
    CHECK_EQ(strlen(text), try_bytes(e, text, strlen(text), more));
}

/* No pause has just been. */
static void
end_is_busy(struct end *e)
{
    stream_secure(e->s)->early_left = 0;
}

/* ---- Records ---- */

static void
play_many_iovecs(void)
{
    struct end *e = end_up(0, true);
    struct iovec iov[LIMIT_WRITE_IOV];
    size_t at = 0, sizes[3] = {SECURE_RECORD, SECURE_RECORD - 1, SECURE_RECORD + 1};

    for (unsigned k = 0; k < 3; k++) {
        at = 0;
        end_is_busy(e);
        e->toy->nmade = 0;
        for (unsigned i = 0; i < LIMIT_WRITE_IOV; i++) {
            size_t len = i == LIMIT_WRITE_IOV - 1 ? sizes[k] - at : i % 3 * 100;

            iov[i] = (struct iovec){body + at, len};
            at += len;
        }
        CHECK_EQ(sizes[k], stream_try(e->s, iov, LIMIT_WRITE_IOV, false));
        CHECK_EQ(k < 2 ? 1 : 2, e->toy->nmade);
        CHECK_EQ(k < 2 ? sizes[k] : SECURE_RECORD, e->toy->made[0]);
        AWAIT((peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= sizes[k] + 2));
        AWAIT((peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= sizes[k] + 2 * e->toy->nmade));
        CHECK_EQ(sizes[k], peer_plain(e, got));
        CHECK_MEM(body, got, sizes[k]);
    }
}

TEST(stream_secure, what_fits_a_record_is_one_from_many_buffers)
{
    on_both(play_many_iovecs);
}

/* A hit's body is where it is stored: 10,000 bytes, and the last of 40,000. */
static void
play_in_place(void)
{
    struct end *e = end_up(0, true);

    end_is_busy(e);
    CHECK_EQ(10000, try_bytes(e, body, 10000, false));
    CHECK(e->toy->plain == body);
    CHECK_EQ(40000, try_bytes(e, body, 40000, false));
    CHECK(e->toy->plain == body + 2 * (size_t)SECURE_RECORD);
}

TEST(stream_secure, one_buffer_is_encrypted_where_it_lies)
{
    on_both(play_in_place);
}

static void
play_more(void)
{
    struct end *e = end_up(0, true);

    try_text(e, "head ", STREAM_MORE);
    try_text(e, "body ", STREAM_MORE);
    peer_got_nothing(e);
    CHECK_EQ(0, e->toy->nmade);
    CHECK(!stream_sending(e->s));
    try_text(e, "end", false);
    peer_got_record(e, "head body end");
    turn();
    peer_got_nothing(e);
    CHECK_EQ(1, e->toy->nmade);
}

TEST(stream_secure, what_follows_more_shares_its_record)
{
    on_both(play_more);
}

static void
play_more_alone(void)
{
    struct end *e = end_up(0, true);

    try_text(e, "head", STREAM_MORE);
    peer_got_nothing(e);
    turn();
    peer_got_record(e, "head");
    CHECK_EQ(0, stream_write_error(e->s));
    try_text(e, "body", false);
    peer_got_record(e, "body");
    CHECK_EQ(2, e->toy->nmade);
}

TEST(stream_secure, what_more_holds_back_leaves_with_the_turn)
{
    on_both(play_more_alone);
}

static void
play_more_fills(void)
{
    struct end *e = end_up(0, true);

    end_is_busy(e);
    CHECK_EQ(16000, try_bytes(e, body, 16000, STREAM_MORE));
    CHECK_EQ(0, e->toy->nmade);
    CHECK_EQ(1000, try_bytes(e, body + 16000, 1000, STREAM_MORE));
    CHECK_EQ(1, e->toy->nmade);
    CHECK_EQ(SECURE_RECORD, e->toy->made[0]);
    turn();
    CHECK_EQ(2, e->toy->nmade);
    AWAIT((peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= 17004));
    CHECK_EQ(17000, peer_plain(e, got));
    CHECK_MEM(body, got, 17000);
}

TEST(stream_secure, more_than_a_record_after_more_fills_it)
{
    on_both(play_more_fills);
}

static void
play_two_more(void)
{
    struct end *a = end_up(0, true), *b = end_up(0, true);

    try_text(a, "a1", STREAM_MORE);
    try_text(b, "b1", STREAM_MORE);
    peer_got_record(a, "a1"); /* the memory is one: it went before */
    peer_got_nothing(b);
    try_text(b, "b2", STREAM_MORE);
    try_text(a, "a2", STREAM_MORE);
    peer_got_record(b, "b1b2");
    turn();
    peer_got_record(a, "a2");
    peer_got_nothing(a);
    peer_got_nothing(b);
}

/* One of them has queued, and its turn comes while the other's bytes are held. */
static void
play_more_and_queue(void)
{
    struct end *a = end_up(0, true), *b = end_up(0, true);
    struct iovec iov = {body, 1000};

    try_text(a, "head", STREAM_MORE);
    CHECK_EQ(1000, stream_queue(a->s, &iov, 1));
    CHECK(stream_sending(a->s));
    CHECK_EQ(1000, stream_unsent(a->s));
    CHECK_EQ(0, a->toy->nmade);
    try_text(b, "b", STREAM_MORE);
    turn();
    peer_got_record(a, "head");
    AWAIT((peer_reads(a, WIRE_MAX), a->wire_len - a->wire_at >= 1002));
    CHECK_EQ(1000, peer_plain(a, got));
    CHECK_MEM(body, got, 1000);
    peer_got_record(b, "b");
    CHECK(!stream_sending(a->s));
    CHECK_EQ(1, a->wakes);
    CHECK_EQ(0, b->wakes);
}

/* What was held is gone with its stream. */
static void
play_more_and_reset(void)
{
    struct end *a = end_up(0, true), *b = end_up(0, true);

    try_text(a, "a", STREAM_MORE);
    stream_reset(&a->s);
    try_text(b, "b", STREAM_MORE);
    turn();
    peer_got_record(b, "b");
}

/* More often than the turn's end has notes for. */
static void
play_much_more(void)
{
    struct end *a = end_up(0, true), *b = end_up(0, true);

    for (unsigned i = 0; i < NET_CORKED_MAX; i++) {
        try_text(a, "a", STREAM_MORE);
        try_text(b, "b", STREAM_MORE);
    }
    turn();
    for (unsigned i = 0; i < NET_CORKED_MAX; i++) {
        peer_got_record(a, "a");
        peer_got_record(b, "b");
    }
    peer_got_nothing(a);
    peer_got_nothing(b);
}

TEST(stream_secure, two_streams_that_say_more_in_a_turn_lose_nothing)
{
    on_both(play_two_more);
    on_both(play_more_and_queue);
    on_both(play_more_and_reset);
    on_both(play_much_more);
}

static void
play_more_and_end(void)
{
    struct end *closed = end_up(0, true), *shut = end_up(0, true), *other = end_up(0, true);

    try_text(closed, "all", STREAM_MORE);
    stream_close(&closed->s);
    peer_got_record(closed, "all");
    peer_got_end(closed, true);
    try_text(other, "other", STREAM_MORE); /* it is out of the way first */
    stream_shut(shut->s);
    peer_got_record(other, "other");
    peer_got_end(shut, true);
    shut = end_up(0, true);
    try_text(shut, "all", STREAM_MORE);
    stream_shut(shut->s);
    peer_got_record(shut, "all");
    peer_got_end(shut, true);
}

TEST(stream_secure, that_is_closed_or_shut_after_more_has_sent_it)
{
    on_both(play_more_and_end);
}

/* Sends all of body[0..len), while the peer reads. */
static void
send_body(struct end *e, size_t len)
{
    size_t at = 0;

    e->toy->nmade = 0;
    for (unsigned i = 0; i < 1000 && at < len; i++) {
        ssize_t n = stream_sending(e->s) ? 0 : try_bytes(e, body + at, len - at, false);

        CHECK(n >= 0);
        at += (size_t)n;
        peer_reads(e, WIRE_MAX);
        turn();
    }
    CHECK_EQ(len, at);
    AWAIT((turn(), peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= len + 2 * e->toy->nmade));
    CHECK_EQ(len, peer_plain(e, got));
    CHECK_MEM(body, got, len);
}

static void
play_early(void)
{
    enum {
        EARLY = 65536 / 4096
    };
    struct end *e = end_up(0, true);

    stream_secure(e->s)->sent_ms -= 1000;
    send_body(e, 65536 + 65536);
    CHECK_EQ(EARLY + 4, e->toy->nmade);
    for (unsigned i = 0; i < EARLY + 4; i++)
        CHECK_EQ(i < EARLY ? 4096 : 16384, e->toy->made[i]);
    send_body(e, 32768); /* no pause was before it */
    CHECK_EQ(2, e->toy->nmade);
    stream_secure(e->s)->sent_ms -= 1000;
    send_body(e, 16384);
    CHECK_EQ(1, e->toy->nmade); /* one that fits */
    stream_secure(e->s)->sent_ms -= 1000;
    send_body(e, 16385);
    CHECK_EQ(2, e->toy->nmade);
    CHECK_EQ(4096, e->toy->made[0]);
    end_is_busy(e);
    stream_secure(e->s)->sent_ms -= 900;
    send_body(e, 100);
    stream_secure(e->s)->sent_ms -= 900;
    send_body(e, 32768);
    CHECK_EQ(2, e->toy->nmade); /* neither pause was one */
}

TEST(stream_secure, small_records_come_first_after_a_pause)
{
    on_both(play_early);
}

static void
on_output(const struct iovec *iov, size_t n, ssize_t taken)
{
    (void)iov;
    (void)n;
    (void)taken;
}

static void
play_one_call(void)
{
    struct end *e = end_up(0, true);

    end_is_busy(e);
    watch_start(e->fd, on_output);
    CHECK_EQ(40000, try_bytes(e, body, 40000, false));
    watch_stop();
    CHECK_EQ(3, e->toy->nmade);
    CHECK_EQ(3, watch_counts.sendmsgs); /* a record each */
    CHECK_EQ(0, watch_counts.writes + watch_counts.others + watch_counts.allocs);
    stream_secure(e->s)->early_left = 65536;
    watch_start(e->fd, on_output);
    CHECK_EQ(40000, try_bytes(e, body, 40000, false));
    watch_stop();
    CHECK_EQ(3 + 7, e->toy->nmade);     /* six of 4 KiB, and what fits one */
    CHECK_EQ(2, watch_counts.sendmsgs); /* the first four, and the others */
}

TEST(stream_secure, several_records_leave_in_one_sendmsg)
{
    on_both(play_one_call);
}

/* ---- A full socket ---- */

static struct {
    size_t at; /* what was tried or queued */
    size_t queues, tries;
    unsigned made;   /* records when the queue was filled */
    size_t most;     /* ciphertext that waited behind the first of the queue's records */
    size_t most_try; /* and what a try left */
} push;

static size_t
ciphertext(const struct end *e)
{
    return uv_stream_get_write_queue_size(&e->s->uv.stream);
}

/* As a protocol does: what the kernel takes, then the queue. */
static void
owner_pushes(struct end *e)
{
    struct iovec iov;
    ssize_t n;

    if (stream_sending(e->s) || push.at == sizeof(body))
        return;
    CHECK_EQ(0, ciphertext(e));
    n = try_bytes(e, body + push.at, sizeof(body) - push.at, false);
    CHECK(n >= 0);
    push.tries++;
    push.at += (size_t)n;
    if (ciphertext(e) > push.most_try)
        push.most_try = ciphertext(e);
    if (push.at == sizeof(body))
        return;
    iov = (struct iovec){body + push.at, sizeof(body) - push.at};
    n = stream_queue(e->s, &iov, 1);
    CHECK(n > 0 && n <= LIMIT_UNSENT_BYTES);
    push.at += (size_t)n;
    push.queues++;
    push.made = e->toy->nmade;
    CHECK(stream_sending(e->s));
    CHECK_EQ(ciphertext(e) + (size_t)n, stream_unsent(e->s));
}

/* What waits, of one record and its owner's. */
static void
push_look(struct end *e)
{
    size_t waits = ciphertext(e);

    CHECK(stream_sending(e->s) == (stream_unsent(e->s) > 0));
    if (e->toy->nmade > push.made && waits > push.most)
        push.most = waits;
}

static void
play_full(void)
{
    struct end *e = end_up(SMALL_ROOM, true);
    size_t all, was = 0;
    unsigned idle = 0;

    memset(&push, 0, sizeof(push));
    e->run = owner_pushes;
    task_wake(&e->task);
    while (push.at < sizeof(body) || stream_sending(e->s)) {
        turn();
        push_look(e);
        if (push.queues == 1 && was > 0)
            CHECK(stream_unsent(e->s) <= was + 2); /* a length for each record is added */
        was = push.queues == 1 ? stream_unsent(e->s) : 0;
        if (peer_reads(e, 5000) == 0) {
            usleep(500);
            idle++;
        }
        CHECK(idle < 20000);
    }
    all = sizeof(body) + 2 * e->toy->nmade;
    AWAIT((turn(), peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= all));
    CHECK_EQ(sizeof(body), peer_plain(e, got));
    CHECK_MEM(body, got, sizeof(body));
    peer_got_nothing(e);
    CHECK(push.queues > 4);
    CHECK(push.most_try <= CHUNK_MAX);
    CHECK(push.most <= SECURE_RECORD + SECURE_RECORD_MORE);
    CHECK_EQ(0, stream_unsent(e->s));
    CHECK(e->wakes > push.queues);
}

TEST(stream_secure, a_full_socket_gets_everything_once_and_in_order)
{
    on_both(play_full);
}

/* A stream that sends, to a peer that reads nothing. */
static struct end *
end_full(void)
{
    struct end *e = end_up(SMALL_ROOM, true);

    memset(&push, 0, sizeof(push));
    e->run = owner_pushes;
    task_wake(&e->task);
    turns(3);
    e->run = NULL;
    CHECK(stream_sending(e->s));
    CHECK(ciphertext(e) > 0);
    CHECK(stream_unsent(e->s) > ciphertext(e)); /* lent, not encrypted */
    return e;
}

/* The peer got whole records and then a part of one. */
static void
peer_got_cut(struct end *e)
{
    size_t n;

    turns(2);
    AWAIT((peer_reads(e, WIRE_MAX), e->fin));
    n = peer_plain(e, got);
    CHECK_MEM(body, got, n);
    if (e->wire_len - e->wire_at >= 2)
        CHECK(e->wire[e->wire_at] != 0 || e->wire[e->wire_at + 1] != 0);
}

static void
play_closed_full(void)
{
    struct end *e = end_full();
    unsigned wakes = e->wakes;

    peer_sends(e, "\xff\xff", 2); /* an answer waits, too */
    turn();
    stream_close(&e->s);
    CHECK_EQ(0, f.toys);
    peer_got_cut(e);
    CHECK_EQ(wakes, e->wakes); /* nothing of the owner's is touched */
    e = end_full();
    stream_reset(&e->s);
    CHECK_EQ(0, f.toys);
    turns(2);
}

/* Its owner queued, and nothing of that has been encrypted. */
static void
play_closed_queued(void)
{
    struct end *e = end_up(0, true);
    struct iovec iov = {body, 1000};

    CHECK_EQ(1000, stream_queue(e->s, &iov, 1));
    stream_close(&e->s);
    peer_got_end(e, false);
}

/* All plaintext was taken, and not all ciphertext. */
static void
play_closed_with_ciphertext(void)
{
    struct end *e = end_up(SMALL_ROOM, true);

    while (!stream_sending(e->s))
        CHECK_EQ(16000, try_bytes(e, body, 16000, false));
    CHECK_EQ(stream_unsent(e->s), ciphertext(e));
    stream_close(&e->s);
    CHECK_EQ(0, f.toys);
    turns(2);
    AWAIT((peer_reads(e, WIRE_MAX), e->fin));
    peer_plain(e, got);
    if (e->wire_len - e->wire_at >= 2)
        CHECK(e->wire[e->wire_at] != 0 || e->wire[e->wire_at + 1] != 0);
}

TEST(stream_secure, that_is_closed_over_a_full_socket_says_no_close_notify)
{
    on_both(play_closed_full);
    on_both(play_closed_queued);
    on_both(play_closed_with_ciphertext);
}

/* Fills the socket behind the stream's back.  The peer looks behind that. */
static void
fill_socket(struct end *e)
{
    peer_reads(e, WIRE_MAX);
    for (unsigned full = 0; full < 20; full++) {
        ssize_t n = send(e->fd, body, 4096, MSG_DONTWAIT);

        if (n > 0) {
            e->wire_at += (size_t)n;
            full = 0;
        } else {
            usleep(500); /* the peer's kernel may take more */
        }
    }
}

/* The kernel has as much as it wants, and the stream has all that it was given. */
static void
play_closed_over_full_kernel(void)
{
    struct end *e = end_up(SMALL_ROOM, true);

    fill_socket(e);
    try_text(e, "held", STREAM_MORE);
    stream_close(&e->s);
    turns(2);
    AWAIT((peer_reads(e, WIRE_MAX), e->fin));
    peer_got_record(e, "held");
    peer_got_end(e, true);
}

TEST(stream_secure, close_notify_goes_behind_what_fills_the_socket)
{
    on_both(play_closed_over_full_kernel);
}

/* The last bytes are in ciphertext that waits: the owner is woken when they have left. */
static void
play_woken(void)
{
    struct end *e = end_up(SMALL_ROOM, true);

    while (!stream_sending(e->s))
        CHECK_EQ(16000, try_bytes(e, body, 16000, false));
    e->wakes = 0;
    turns(3);
    CHECK_EQ(0, e->wakes);
    for (unsigned i = 0; i < 10000 && stream_sending(e->s); i++) {
        peer_reads(e, 5000);
        usleep(100);
        turn();
    }
    CHECK(!stream_sending(e->s));
    CHECK_EQ(1, e->wakes);
    stream_close(&e->s);
    turns(2);
    AWAIT((peer_reads(e, WIRE_MAX), e->fin));
    while (peer_plain(e, got) > 0)
        ;
    peer_got_end(e, true);
}

TEST(stream_secure, the_owner_is_woken_when_the_last_record_has_left)
{
    on_both(play_woken);
}

static void
play_peer_leaves_full(void)
{
    struct end *e = end_full();

    peer_resets(e);
    for (unsigned i = 0; i < 1000 && stream_sending(e->s); i++)
        turn();
    CHECK(!stream_sending(e->s));
    CHECK(stream_write_error(e->s) != 0);
    CHECK(e->wakes > 0);
    CHECK_EQ(0, stream_unsent(e->s));
    CHECK(try_bytes(e, "x", 1, false) < 0);
}

TEST(stream_secure, a_write_that_fails_gives_the_queue_back)
{
    on_both(play_peer_leaves_full);
}

/* ---- What the layer answers ---- */

/* Whole records and `answers` of the layer's, in which the body is in order. */
static void
peer_got_answers(struct end *e, size_t len, unsigned answers)
{
    size_t n = 0;
    unsigned seen = 0;

    while (e->wire_at < e->wire_len) {
        n += peer_plain(e, got + n);
        if (e->wire_len - e->wire_at >= 2 && memcmp(e->wire + e->wire_at, "\xff\xfe", 2) == 0) {
            e->wire_at += 2;
            seen++;
            if (n == 0)
                CHECK(false); /* it overtook what was sent before */
        } else {
            break;
        }
    }
    CHECK_EQ(e->wire_len, e->wire_at);
    CHECK_EQ(answers, seen);
    CHECK_EQ(len, n);
    CHECK_MEM(body, got, len);
}

static void
play_answers(void)
{
    struct end *e = end_full();
    size_t len = push.at, all;

    peer_sends(e, "\xff\xff", 2);
    turn();
    peer_sends(e, "\xff\xff\xff\xff", 4);
    turn();
    CHECK(stream_sending(e->s));
    for (unsigned i = 0; i < 10000 && stream_sending(e->s); i++) {
        if (peer_reads(e, 5000) == 0)
            usleep(100);
        turn();
    }
    all = len + 2 * e->toy->nmade + 3 * 2;
    AWAIT((turn(), peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= all));
    peer_got_answers(e, len, 3);
    CHECK_EQ(0, stream_unsent(e->s));
}

TEST(stream_secure, answers_of_the_layer_leave_behind_a_queued_write)
{
    on_both(play_answers);
}

static void
play_answer_alone(void)
{
    struct end *e = end_up(0, true);

    peer_sends(e, "\xff\xff", 2);
    turn();
    peer_got(e, "\xff\xfe", 2);
    CHECK_EQ(0, e->wakes);
    peer_record(e, "on");
    turn();
    GOT(e, "on");
}

TEST(stream_secure, an_answer_of_the_layer_leaves_at_once)
{
    on_both(play_answer_alone);
}

/* What was received, "go", is answered with MORE; then the layer meets what it must answer. */
static void
owner_says_more(struct end *e)
{
    if (stream_received(e->s).len > 0)
        try_text(e, "held", STREAM_MORE);
    end_receive(e);
}

static void
peer_says_go(struct end *e)
{
    char packet[16];
    size_t len = record_put(packet, 0, "go", 2);

    memcpy(packet + len, "\xff\xff", 2);
    e->run = owner_says_more;
    stream_set_read_max(e->s, 2);
    peer_sends(e, packet, len + 2);
}

static void
play_held_over_full(void)
{
    struct end *e = end_up(SMALL_ROOM, true), *other = end_up(0, true);

    fill_socket(e);
    peer_says_go(e);
    turn();
    GOT(e, "go");
    turns(2);
    try_text(other, "others go on", false);
    peer_got_record(other, "others go on");
    AWAIT((turn(), peer_reads(e, WIRE_MAX), e->wire_len >= e->wire_at + 2 + 6));
    peer_got(e, "\xff\xfe", 2);
    peer_got_record(e, "held");
    AWAIT((turn(), !stream_sending(e->s)));
    try_text(e, "after", false);
    peer_got_record(e, "after");
}

static void
play_held_over_error(void)
{
    struct end *e = end_up(0, true), *other = end_up(0, true);

    peer_says_go(e);
    peer_leaves(e);
    turns(3);
    GOT(e, "go");
    CHECK(stream_write_error(e->s) != 0);
    try_text(other, "others go on", false);
    peer_got_record(other, "others go on");
}

TEST(stream_secure, what_more_holds_back_is_in_no_other_streams_way)
{
    on_both(play_held_over_full);
    on_unix(play_held_over_error);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(stream_secure, what_fits_a_record_is_one_from_many_buffers),
        TEST_ENTRY(stream_secure, one_buffer_is_encrypted_where_it_lies),
        TEST_ENTRY(stream_secure, what_follows_more_shares_its_record),
        TEST_ENTRY(stream_secure, what_more_holds_back_leaves_with_the_turn),
        TEST_ENTRY(stream_secure, more_than_a_record_after_more_fills_it),
        TEST_ENTRY(stream_secure, two_streams_that_say_more_in_a_turn_lose_nothing),
        TEST_ENTRY(stream_secure, that_is_closed_or_shut_after_more_has_sent_it),
        TEST_ENTRY(stream_secure, small_records_come_first_after_a_pause),
        TEST_ENTRY(stream_secure, several_records_leave_in_one_sendmsg),
        TEST_ENTRY(stream_secure, a_full_socket_gets_everything_once_and_in_order),
        TEST_ENTRY(stream_secure, that_is_closed_over_a_full_socket_says_no_close_notify),
        TEST_ENTRY(stream_secure, close_notify_goes_behind_what_fills_the_socket),
        TEST_ENTRY(stream_secure, the_owner_is_woken_when_the_last_record_has_left),
        TEST_ENTRY(stream_secure, a_write_that_fails_gives_the_queue_back),
        TEST_ENTRY(stream_secure, answers_of_the_layer_leave_behind_a_queued_write),
        TEST_ENTRY(stream_secure, an_answer_of_the_layer_leaves_at_once),
        TEST_ENTRY(stream_secure, what_more_holds_back_is_in_no_other_streams_way)};

    signal(SIGPIPE, SIG_IGN); /* as tarnd does: libuv's writes raise it */
    body_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
