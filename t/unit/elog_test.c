/* elog_test.c -- the error log's lines: their form, what cannot be forged, what is dropped. */
#include "t/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/syslog_to.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/log/elog_priv.h"

/* Stderr into a pipe while lines are written; what came is in `text`. */
struct capture {
    int saved, fds[2];
    char text[60000];
};

static struct capture cap;

static void
capture_begin(void)
{
    CHECK_EQ(0, pipe(cap.fds));
    CHECK_EQ(0, fcntl(cap.fds[0], F_SETFL, O_NONBLOCK));
    cap.saved = dup(STDERR_FILENO);
    dup2(cap.fds[1], STDERR_FILENO);
}

static void
capture_end(void)
{
    ssize_t n;

    dup2(cap.saved, STDERR_FILENO);
    close(cap.saved);
    close(cap.fds[1]);
    n = read(cap.fds[0], cap.text, sizeof(cap.text) - 1);
    cap.text[n > 0 ? n : 0] = '\0';
    close(cap.fds[0]);
}

static unsigned
count_lines(const char *with)
{
    unsigned lines = 0;

    for (const char *p = cap.text; (p = strstr(p, with)) != NULL; p++)
        lines++;
    return lines;
}

TEST(elog, a_line_has_time_process_level_and_text)
{
    int year, month, day, hour, minute, second, ms;
    char end[80], tail[80];
    long pid;

    elog_init(ELOG_INFO, 100);
    capture_begin();
    elog(ELOG_ERROR, "cannot bind %s: %d", "0.0.0.0:80", 13);
    capture_end();
    CHECK_EQ(8, sscanf(cap.text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ tarnd[%ld] ", &year, &month, &day,
                    &hour, &minute, &second, &ms, &pid));
    CHECK_EQ(getpid(), pid);
    CHECK(year >= 2024 && ms < 1000);
    snprintf(end, sizeof(end), " tarnd[%ld] error: cannot bind 0.0.0.0:80: 13\n", pid);
    snprintf(tail, sizeof(tail), "%s", strstr(cap.text, " tarnd["));
    CHECK_STR(end, tail);
}

TEST(elog, what_is_below_the_level_is_not_written)
{
    elog_init(ELOG_WARN, 100);
    capture_begin();
    elog(ELOG_INFO, "info");
    elog(ELOG_WARN, "warn");
    capture_end();
    CHECK_EQ(0, count_lines("info"));
    CHECK_EQ(1, count_lines(" warn: warn\n"));
}

TEST(elog, a_line_cannot_be_forged)
{
    elog_init(ELOG_INFO, 100);
    capture_begin();
    elog(ELOG_INFO, "url %s", "/a\r\n2026 tarnd[1] error: x\033[2J\x7f\xff");
    capture_end();
    CHECK_EQ(1, count_lines("\n"));
    CHECK(strstr(cap.text, "/a\\x0d\\x0a2026 tarnd[1] error: x\\x1b[2J\\x7f\\xff\n") != NULL);
}

TEST(elog, a_long_line_is_cut_and_ends)
{
    static char text[5000];

    memset(text, '\1', sizeof(text) - 1);
    elog_init(ELOG_INFO, 100);
    capture_begin();
    elog(ELOG_INFO, "%s", text);
    capture_end();
    CHECK(strlen(cap.text) <= ELOG_LINE_MAX + 64);
    CHECK_EQ(1, count_lines("\n"));
    CHECK_EQ('\n', cap.text[strlen(cap.text) - 1]);
}

TEST(elog, errno_survives)
{
    elog_init(ELOG_INFO, 100);
    capture_begin();
    errno = ENOSPC;
    elog(ELOG_INFO, "x");
    CHECK_EQ(ENOSPC, errno);
    capture_end();
}

TEST(elog, the_rate_holds_for_each_second_and_losses_are_told_once)
{
    uint32_t lost;
    unsigned admitted = 0;

    elog_init(ELOG_INFO, 5);
    for (unsigned i = 0; i < 12; i++) {
        admitted += elog_admit(100, &lost);
        CHECK_EQ(0, lost);
    }
    CHECK_EQ(5, admitted);
    CHECK_EQ(7, elog_dropped());
    CHECK(elog_admit(101, &lost));
    CHECK_EQ(7, lost);
    CHECK(elog_admit(101, &lost));
    CHECK_EQ(0, lost);
    CHECK(elog_admit(99, &lost)); /* a clock that goes back opens no new second */
    for (unsigned i = 0; i < 2; i++)
        CHECK(elog_admit(101, &lost));
    CHECK(!elog_admit(50, &lost));
}

TEST(elog, a_flush_tells_what_was_dropped)
{
    elog_init(ELOG_INFO, 3);
    capture_begin();
    for (unsigned i = 0; i < 100; i++)
        elog(ELOG_INFO, "flood");
    elog_flush();
    elog_flush();
    capture_end();
    CHECK(count_lines("flood") <= 6); /* a second may have ended meanwhile */
    CHECK(count_lines("lines dropped by log_rate") >= 1);
    CHECK(count_lines("lines dropped by log_rate") <= 2);
    CHECK_EQ(100, count_lines("flood") + elog_dropped());
}

static void *
flood(void *arg)
{
    for (unsigned i = 0; i < 500; i++)
        elog(ELOG_INFO, "flood %s", (const char *)arg);
    return NULL;
}

TEST(elog, threads_share_the_rate_and_do_not_mix_their_lines)
{
    pthread_t t[3];
    char name[] = "abc";

    elog_init(ELOG_INFO, 50);
    capture_begin();
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(0, pthread_create(&t[i], NULL, flood, name));
    for (unsigned i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    capture_end();
    CHECK_EQ(count_lines("flood"), count_lines("] info: flood abc\n"));
    CHECK_EQ(1500, count_lines("flood") + elog_dropped());
    CHECK(count_lines("flood") <= 500);
}

TEST(elog, levels_are_read_from_words)
{
    enum elog_level level;

    CHECK_EQ(0, elog_level_parse(&level, "debug"));
    CHECK_EQ(ELOG_DEBUG, level);
    CHECK_EQ(0, elog_level_parse(&level, "error"));
    CHECK_EQ(ELOG_ERROR, level);
    CHECK_EQ(TERR_CONFIG, elog_level_parse(&level, "verbose"));
}

TEST(elog, a_syslog_daemon_gets_lines_and_what_it_does_not_take_goes_to_stderr)
{
    char path[] = "/tmp/tarn-elog-XXXXXX", where[128], line[512], why[64];
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct syslog_to to;
    ssize_t n;
    int fd;

    CHECK(mkdtemp(path) != NULL);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/log", path);
    snprintf(where, sizeof(where), "syslog:daemon@%s", un.sun_path);
    CHECK_EQ(0, syslog_to_parse(&to, slice_str(where), why, sizeof(why)));
    elog_init(ELOG_INFO, 100);
    CHECK_EQ(0, elog_to_syslog(&to));
    capture_begin();
    elog(ELOG_WARN, "one"); /* nobody is there yet */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(0, bind(fd, (struct sockaddr *)&un, sizeof(un)));
    elog(ELOG_ERROR, "two\n");
    capture_end();
    CHECK_EQ(1, count_lines(" warn: one\n"));
    CHECK_EQ(0, count_lines("two"));
    n = recv(fd, line, sizeof(line) - 1, 0);
    CHECK(n > 0);
    line[n] = '\0';
    CHECK(strncmp(line, "<27>", 4) == 0); /* daemon, error */
    CHECK(strstr(line, "]: two\\x0a") != NULL);
    close(fd);
    unlink(un.sun_path);
    rmdir(path);
}

TEST_MAIN(TEST_ENTRY(elog, a_line_has_time_process_level_and_text),
    TEST_ENTRY(elog, what_is_below_the_level_is_not_written),
    TEST_ENTRY(elog, a_line_cannot_be_forged), TEST_ENTRY(elog, a_long_line_is_cut_and_ends),
    TEST_ENTRY(elog, errno_survives),
    TEST_ENTRY(elog, the_rate_holds_for_each_second_and_losses_are_told_once),
    TEST_ENTRY(elog, a_flush_tells_what_was_dropped),
    TEST_ENTRY(elog, threads_share_the_rate_and_do_not_mix_their_lines),
    TEST_ENTRY(elog, levels_are_read_from_words),
    TEST_ENTRY(elog, a_syslog_daemon_gets_lines_and_what_it_does_not_take_goes_to_stderr))
