/* supervise_test.c -- the supervisor's parts: pauses, silence, what is said over a channel, and what one
 * supervisor leaves to the next. */
#include "t/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/supervise/channel.h"
#include "daemon/supervise/supervise_priv.h"

TEST(supervise, the_first_crash_waits_for_nothing_and_the_next_ones_for_twice_as_long)
{
    static const uint64_t pauses[] = {0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000};

    for (unsigned i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
        CHECK_EQ(pauses[i], supervise_backoff_ms(i + 1));
    CHECK_EQ(30000, supervise_backoff_ms(1000000));
}

static pid_t
sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        raise(SIGSTOP);
        _exit(0);
    }
    CHECK(pid > 0);
    return pid;
}

TEST(supervise, who_is_silent_for_too_long_is_aborted_even_when_stopped)
{
    struct supervisor s = {.now_ms = 1000000, .ready_said = true};
    struct child c = {.pid = sleeper(), .fd = -1, .role = CHILD_SERVING, .watchdog_ms = 1};
    int status;

    elog_init(ELOG_ERROR, 1);
    CHECK_EQ(c.pid, waitpid(c.pid, &status, WUNTRACED));
    CHECK(WIFSTOPPED(status));
    for (unsigned ms = 0; ms < 2000; ms += 1000) { /* never sooner than that */
        child_watch(&s, &c, 1000);
        CHECK(!c.aborted);
    }
    c.silent_ms = 0; /* a beat */
    child_watch(&s, &c, 2999);
    CHECK(!c.aborted);
    child_watch(&s, &c, 1);
    CHECK(c.aborted);
    CHECK_EQ(c.pid, waitpid(c.pid, &status, 0));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(supervise, without_a_watchdog_silence_is_fine)
{
    struct supervisor s = {.now_ms = 1000000, .ready_said = true};
    struct child c = {.pid = getpid(), .fd = -1, .role = CHILD_SERVING};

    for (int i = 0; i < 1000; i++)
        child_watch(&s, &c, 1000000);
    CHECK(!c.aborted);
}

TEST(channel, descriptors_and_words_come_as_they_were_sent)
{
    int ends[2], other[2];
    struct listen_sockets sockets, got;
    char text[64];

    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CHECK_EQ(0, pipe(other));
    sockets = (struct listen_sockets){.lock_fd = other[0], .nfds = 2, .fds = {other[1], other[0]}};
    CHECK_EQ(CHANNEL_NOTHING, channel_take(ends[1], text, sizeof(text), &got));
    CHECK_EQ(0, channel_send(ends[0], CHANNEL_HOLD, "1 1 unix:/a b", &sockets, true));
    CHECK_EQ(0, channel_send(ends[0], CHANNEL_RETIRE, "", NULL, true));
    CHECK_EQ(CHANNEL_HOLD, channel_take(ends[1], text, sizeof(text), &got));
    CHECK_STR("1 1 unix:/a b", text);
    CHECK(got.ours && got.lock_fd >= 0);
    CHECK_EQ(2, got.nfds);
    CHECK(fcntl(got.fds[1], F_GETFD) & FD_CLOEXEC);
    inherited_close(&got);
    CHECK_EQ(CHANNEL_RETIRE, channel_take(ends[1], text, sizeof(text), &got));
    CHECK_STR("", text);
    CHECK_EQ(0, got.nfds);
    close(ends[0]);
    CHECK_EQ(CHANNEL_ALONE, channel_take(ends[1], text, sizeof(text), &got));
    CHECK_EQ(TERR_CLOSED, channel_send(ends[1], CHANNEL_BEAT, "1", NULL, true));
    close(ends[1]);
    close(other[0]);
    close(other[1]);
}

TEST(channel, a_child_takes_its_end_from_the_environment)
{
    struct channel *t;
    char text[32];
    int ends[2];

    elog_init(ELOG_ERROR, 100);
    unsetenv(CHANNEL_VARIABLE);
    CHECK_EQ(0, channel_open(&t));
    CHECK(t == NULL);
    CHECK_EQ(CHANNEL_NOTHING, channel_look(t)); /* nobody supervises: nothing is said */
    channel_beat(t, 1, NULL);
    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    snprintf(text, sizeof(text), "%d:%d", ends[0], CHANNEL_VERSION + 1);
    setenv(CHANNEL_VARIABLE, text, 1);
    CHECK_EQ(TERR_CONFIG, channel_open(&t));
    snprintf(text, sizeof(text), "%d:%d", STDIN_FILENO, CHANNEL_VERSION);
    setenv(CHANNEL_VARIABLE, text, 1);
    CHECK_EQ(TERR_CONFIG, channel_open(&t));
    snprintf(text, sizeof(text), "%d:%d", ends[0], CHANNEL_VERSION);
    setenv(CHANNEL_VARIABLE, text, 1);
    CHECK_EQ(0, channel_open(&t));
    CHECK(getenv(CHANNEL_VARIABLE) == NULL);
    CHECK_EQ(0, channel_send(ends[1], CHANNEL_RETIRE, "", NULL, true));
    CHECK_EQ(CHANNEL_RETIRE, channel_look(t));
    CHECK_EQ(CHANNEL_NOTHING, channel_look(t));
    close(ends[1]);
    CHECK_EQ(CHANNEL_ALONE, channel_look(t));
    CHECK_EQ(CHANNEL_NOTHING, channel_look(t)); /* it has been said */
    channel_close(&t);
}

TEST(supervise, what_one_leaves_the_next_takes)
{
    struct supervisor s = {.now_ms = 5};
    char text[256], again[256];
    int fds[2];

    CHECK_EQ(0, pipe(fds));
    snprintf(text, sizeof(text),
        "tarn-supervisor 1\nchild 4711 %d R 0\nchild 4712 -1 S 30000\nfuture 1 2 3\n"
        "held 1 -1 %d,%d 127.0.0.1:0\nheld 0 %d %d unix:/a b\n",
        fds[0], fds[0], fds[1], fds[0], fds[1]);
    setenv("TARN_SUPERVISOR", text, 1);
    CHECK(supervise_understands());
    CHECK_EQ(0, upgrade_adopt(&s));
    CHECK(getenv("TARN_SUPERVISOR") == NULL);
    CHECK(s.ready_said);
    CHECK_EQ(4711, supervise_find(&s, CHILD_RETIRING)->pid);
    CHECK_EQ(4712, supervise_find(&s, CHILD_SERVING)->pid);
    CHECK_EQ(30000, supervise_find(&s, CHILD_SERVING)->watchdog_ms);
    CHECK(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
    CHECK(inherited_print(s.inherited, "held ", again, sizeof(again)));
    CHECK_STR(strstr(text, "held "), again);
    CHECK(!inherited_print(s.inherited, "held ", again, strlen(again)));
    setenv("TARN_SUPERVISOR", "tarn-supervisor 2\n", 1);
    CHECK(!supervise_understands());
    CHECK_EQ(TERR_CONFIG, upgrade_adopt(&s));
    unsetenv("TARN_SUPERVISOR");
    s.inherited->sockets.nfds = 0; /* the same descriptors stand there twice */
    s.inherited->next->sockets.lock_fd = -1;
    s.inherited->next->sockets.nfds = 0;
    inherited_drop(&s.inherited, "unix:/nowhere");
    inherited_drop(&s.inherited, "unix:/a b");
    CHECK(s.inherited->next == NULL);
    inherited_release(&s.inherited, NULL, false);
    close(fds[0]);
    close(fds[1]);
}

TEST_MAIN(
    TEST_ENTRY(supervise, the_first_crash_waits_for_nothing_and_the_next_ones_for_twice_as_long),
    TEST_ENTRY(supervise, who_is_silent_for_too_long_is_aborted_even_when_stopped),
    TEST_ENTRY(supervise, without_a_watchdog_silence_is_fine),
    TEST_ENTRY(channel, descriptors_and_words_come_as_they_were_sent),
    TEST_ENTRY(channel, a_child_takes_its_end_from_the_environment),
    TEST_ENTRY(supervise, what_one_leaves_the_next_takes))
