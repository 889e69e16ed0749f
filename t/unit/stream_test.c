/* stream_test.c -- what MORE holds back, and when it leaves: a real loop and a TCP connection.
 *
 * Nothing here waits for a clock.  The kernel lets go of what MSG_MORE holds after 200 ms;
 * were the turn's end not what sends it, these tests would fail unless the machine stands still. */
#include "t/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/net/netloop.h"
#include "daemon/net/stream.h"

enum {
    READ_MAX = 4096
};

static struct {
    struct net_loop *net;
    struct loop *loop;
    struct task task;
    struct timer timer; /* another turn */
    struct stream *s;
    int fd, peer; /* the stream's, the other end */
    void (*step)(unsigned turn);
    unsigned turn;
    const char *leaves; /* what the peer gets before our end; NULL: not looked at */
    char room[65536];
} end;

static void
end_run(struct task *t)
{
    (void)t;
    end.step(end.turn++);
}

/* The step is run again in a turn that is not this one. */
static void
end_again(void)
{
    timer_set(&end.loop->wheel, &end.timer, loop_deadline(end.loop, 1));
}

static void
end_stop(void)
{
    timer_unlink(&end.timer);
    if (end.s != NULL)
        stream_close(&end.s);
    net_loop_stop(end.net);
}

static void
end_connect(bool is_unix)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    int fds[2], listener;

    if (is_unix) {
        CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
        end.fd = fds[0];
        end.peer = fds[1];
        return;
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(0, bind(listener, (struct sockaddr *)&at, sizeof(at)));
    CHECK_EQ(0, listen(listener, 1));
    CHECK_EQ(0, getsockname(listener, (struct sockaddr *)&at, &len));
    end.peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(0, connect(end.peer, (struct sockaddr *)&at, sizeof(at)));
    end.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(end.fd >= 0);
    close(listener);
}

static void
peer_gets(const char *text)
{
    char got[64];
    ssize_t n = recv(end.peer, got, sizeof(got), MSG_DONTWAIT);

    CHECK_EQ(strlen(text), n);
    CHECK_MEM(text, got, (size_t)n);
}

static void
play(void (*step)(unsigned turn), bool is_unix)
{
    memset(&end, 0, sizeof(end));
    end.step = step;
    CHECK_EQ(0, net_loop_open(&end.net, 0));
    end.loop = net_loop_base(end.net);
    task_init(&end.task, &end.loop->tasks, end_run);
    timer_init(&end.timer, &end.task);
    end_connect(is_unix);
    CHECK_EQ(0, stream_accept(&end.s, end.loop, end.fd, is_unix, &end.task));
    stream_pause(end.s); /* until a test reads */
    end_again();
    net_loop_run(end.net);
    net_loop_close(&end.net);
    if (end.leaves != NULL) {
        peer_gets(end.leaves);
        peer_gets("");
    }
    close(end.peer);
}

static void
send_text(const char *text, bool more)
{
    struct iovec iov = {.iov_len = strlen(text)};

    memcpy(&iov.iov_base, &text, sizeof(text));
    CHECK_EQ(strlen(text), stream_try(end.s, &iov, 1, more));
}

/* Bytes that the kernel has and has not sent. */
static int
held_back(void)
{
    int n = -1;

    CHECK_EQ(0, ioctl(end.fd, SIOCOUTQNSD, &n));
    return n;
}

static unsigned
segments(void)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    CHECK_EQ(0, getsockopt(end.peer, IPPROTO_TCP, TCP_INFO, &info, &len));
    return info.tcpi_data_segs_in;
}

static void
step_more_alone(unsigned turn)
{
    if (turn == 0) {
        send_text("head", STREAM_MORE);
        CHECK_EQ(4, held_back());
        end_again();
        return;
    }
    CHECK_EQ(0, held_back());
    peer_gets("head");
    end_stop();
}

TEST(stream, what_more_holds_back_leaves_with_the_turn)
{
    play(step_more_alone, false);
}

static void
step_more_and_rest(unsigned turn)
{
    unsigned before = segments();

    (void)turn;
    send_text("head ", STREAM_MORE);
    send_text("body ", STREAM_MORE);
    CHECK_EQ(before, segments());
    send_text("end", false);
    CHECK_EQ(before + 1, segments());
    CHECK_EQ(0, held_back());
    peer_gets("head body end");
    end_stop();
}

TEST(stream, what_follows_more_shares_its_packet)
{
    play(step_more_and_rest, false);
}

static void
step_more_and_close(unsigned turn)
{
    (void)turn;
    send_text("all", STREAM_MORE);
    CHECK_EQ(3, held_back());
    end.leaves = "all";
    end_stop();
}

TEST(stream, that_is_closed_after_more_has_sent_it)
{
    play(step_more_and_close, false);
}

static void
step_more_and_shut(unsigned turn)
{
    (void)turn;
    send_text("all", STREAM_MORE);
    stream_shut(end.s);
    CHECK_EQ(0, held_back());
    peer_gets("all");
    end_stop();
}

TEST(stream, that_is_shut_after_more_has_sent_it)
{
    play(step_more_and_shut, false);
}

static void
step_unix(unsigned turn)
{
    (void)turn;
    send_text("head", STREAM_MORE);
    peer_gets("head");
    send_text("body", false);
    peer_gets("body");
    end_stop();
}

TEST(stream, a_unix_socket_holds_nothing_back)
{
    play(step_unix, true);
}

/* ---- Reading on ---- */

static void
step_pull(unsigned turn)
{
    char text[10000];
    size_t got;

    if (turn == 0) {
        memset(text, 'x', sizeof(text));
        CHECK_EQ(sizeof(text), send(end.peer, text, sizeof(text), 0));
        stream_set_read_max(end.s, READ_MAX);
        stream_resume(end.s);
        return;
    }
    CHECK_EQ(1, turn);
    got = stream_received(end.s).len;
    CHECK_EQ(READ_MAX, got);
    stream_consume(end.s);
    stream_post(end.s, (struct span){end.room, sizeof(end.room)});
    CHECK(stream_pull(end.s));
    CHECK(stream_received(end.s).ptr == end.room);
    CHECK_EQ(sizeof(text) - READ_MAX, stream_received(end.s).len);
    stream_consume(end.s);
    stream_post(end.s, (struct span){end.room, sizeof(end.room)});
    CHECK(!stream_pull(end.s)); /* there is no more */
    CHECK_EQ(0, stream_ended(end.s));
    end_stop();
}

TEST(stream, a_pull_reads_on_in_the_same_turn)
{
    play(step_pull, false);
}

static void
step_pull_end(unsigned turn)
{
    if (turn == 0) {
        CHECK_EQ(0, shutdown(end.peer, SHUT_WR));
        stream_post(end.s, (struct span){end.room, sizeof(end.room)});
        stream_resume(end.s);
        CHECK(!stream_pull(end.s));
        CHECK_EQ(0, stream_ended(end.s)); /* the loop reads it */
        return;
    }
    CHECK_EQ(TERR_CLOSED, stream_ended(end.s));
    end_stop();
}

TEST(stream, a_pull_leaves_the_end_to_the_loop)
{
    play(step_pull_end, false);
}

static void
step_pull_reset(unsigned turn)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (turn > 0)
        return; /* woken by the error */
    CHECK_EQ(0, setsockopt(end.peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
    close(end.peer);
    end.peer = -1;
    stream_post(end.s, (struct span){end.room, sizeof(end.room)});
    stream_resume(end.s);
    CHECK(!stream_pull(end.s));
    CHECK_EQ(TERR_IO, stream_ended(end.s)); /* and never an orderly end */
    end_stop();
    task_cancel(&end.task);
}

TEST(stream, a_pull_that_meets_a_reset_tells_no_end)
{
    play(step_pull_reset, false);
}

static void
received_is(const char *text)
{
    CHECK_EQ(strlen(text), stream_received(end.s).len);
    CHECK_MEM(text, stream_received(end.s).ptr, strlen(text));
}

/* A read that was posted is not that of the bytes that come back. */
static void
step_unread(unsigned turn)
{
    switch (turn) {
    case 0:
        CHECK_EQ(2, send(end.peer, "ab", 2, 0));
        stream_post(end.s, (struct span){end.room, 2});
        stream_resume(end.s);
        break;
    case 1:
        received_is("ab");
        stream_consume(end.s);
        CHECK_EQ(2, send(end.peer, "cd", 2, 0));
        stream_post(end.s, (struct span){end.room + 2, 2});
        CHECK_EQ(0, stream_unread(end.s, slice_of(end.room, 2)));
        end.room[0] = 'x'; /* it is a copy */
        break;
    case 2:
        received_is("ab");
        stream_skip(end.s, 1);
        received_is("b");
        stream_consume(end.s);
        break;
    default:
        received_is("cd");
        CHECK(stream_received(end.s).ptr != end.room + 2);
        end_stop();
    }
}

TEST(stream, what_was_unread_is_received_again_before_what_follows)
{
    play(step_unread, false);
    play(step_unread, true);
}

TEST_MAIN(TEST_ENTRY(stream, what_more_holds_back_leaves_with_the_turn),
    TEST_ENTRY(stream, what_follows_more_shares_its_packet),
    TEST_ENTRY(stream, that_is_closed_after_more_has_sent_it),
    TEST_ENTRY(stream, that_is_shut_after_more_has_sent_it),
    TEST_ENTRY(stream, a_unix_socket_holds_nothing_back),
    TEST_ENTRY(stream, a_pull_reads_on_in_the_same_turn),
    TEST_ENTRY(stream, a_pull_leaves_the_end_to_the_loop),
    TEST_ENTRY(stream, a_pull_that_meets_a_reset_tells_no_end),
    TEST_ENTRY(stream, what_was_unread_is_received_again_before_what_follows))
