/* syslog_out.c -- lines to a syslog daemon. */
#include "daemon/log/syslog_out.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"

#define SYSLOG_OUT_MAGIC OBJ_TAG('s', 'y', 'l', 'o')

enum {
    SYSLOG_WAIT_MS = 50,    /* for room, in a batch */
    SYSLOG_AGAIN_MS = 1000, /* between attempts to connect */
};

struct syslog_out {
    uint32_t magic;
    struct syslog_to to;
    char *name;
    int fd;           /* -1: not connected */
    int64_t again_ms; /* when that is tried next */
    int64_t wait_ms;  /* left in this batch */
    bool failing;     /* said so already */
    /* what stands before a line: made once a second */
    time_t head_s;
    size_t head_len;
    char head[SYSLOG_HEAD_MAX];
};

static int64_t
syslog_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
syslog_make_head(struct syslog_out *s)
{
    time_t now = time(NULL);

    if (now == s->head_s && s->head_len > 0)
        return;
    s->head_len = syslog_to_head(s->head, &s->to, SYSLOG_SEVERITY_INFO, "access", now);
    s->head_s = now;
}

static void
syslog_say(struct syslog_out *s, int err)
{
    if (err == 0 && s->failing)
        elog(ELOG_WARN, "access log %s: written again", s->name);
    if (err != 0 && !s->failing)
        elog(ELOG_ERROR, "access log %s: %s; lines are lost", s->name,
            err == EAGAIN ? "the daemon does not read as fast as requests come" : strerror(err));
    s->failing = err != 0;
}

/* 0 when connected, or errno; no more often than once a second. */
static int
syslog_connect(struct syslog_out *s)
{
    int64_t now_ms = syslog_now_ms();
    int fd, err;

    if (s->fd >= 0)
        return 0;
    if (now_ms < s->again_ms)
        return ENOTCONN;
    /* Before the attempt: without a daemon each line would try. */
    s->again_ms = now_ms + SYSLOG_AGAIN_MS;
    fd = socket(s->to.addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)&s->to.addr, s->to.addr_len) < 0) {
        err = errno;
        close(fd);
        return err;
    }
    s->fd = fd;
    return 0;
}

static void
syslog_disconnect(struct syslog_out *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->again_ms = 0; /* a daemon that was restarted is there already, mostly */
}

/* 0 or errno. */
static int
syslog_send(const struct syslog_out *s, struct slice line)
{
    struct iovec iov[2] = {
        {(void *)(uintptr_t)s->head, s->head_len}, {(void *)(uintptr_t)line.ptr, line.len}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n;

    do
        /* Head and line in one datagram: that is what a message is. */
        n = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

/* Until there is room, or this batch has waited enough. */
static void
syslog_wait(struct syslog_out *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    int64_t began_ms = syslog_now_ms();

    (void)poll(&p, 1, (int)s->wait_ms);
    /* At least 1: a poll(2) that returns at once must not wait for ever. */
    s->wait_ms -= syslog_now_ms() - began_ms + 1;
}

static bool
syslog_is_full(int err)
{
    return err == EAGAIN || err == ENOBUFS;
}

/* One line: sent, or why not. */
static int
syslog_line(struct syslog_out *s, struct slice line)
{
    int err = syslog_connect(s);

    if (err != 0)
        return err;
    err = syslog_send(s, line);
    while (syslog_is_full(err) && s->wait_ms > 0) {
        syslog_wait(s);
        err = syslog_send(s, line);
    }
    /* Too long for a datagram: connecting again would not help. */
    if (err == 0 || err == EMSGSIZE)
        return err;
    if (syslog_is_full(err))
        return EAGAIN;
    /* It was restarted; over UDP it is the removal of an earlier datagram. */
    syslog_disconnect(s);
    err = syslog_connect(s);
    return err == 0 ? syslog_send(s, line) : err;
}

/* In the log's thread.  50 ms for each batch is all that a daemon can hold it up; lines that
 * found no room are counted by the caller. */
uint64_t
syslog_out_write(struct syslog_out *s, const char *lines, size_t n)
{
    uint64_t lost = 0;

    OBJ_CHECK(s, SYSLOG_OUT_MAGIC);
    /* For the batch, and not for each line: else a slow daemon would hold up the log for
     * seconds. */
    s->wait_ms = SYSLOG_WAIT_MS;
    syslog_make_head(s);
    while (n > 0) {
        const char *end = memchr(lines, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - lines);
        int err = syslog_line(s, slice_of(lines, len));

        syslog_say(s, err);
        lost += err != 0;
        lines += len + (end != NULL);
        n -= len + (end != NULL);
    }
    return lost;
}

int
syslog_out_open(struct syslog_out **out, const struct syslog_to *to, const char *name)
{
    struct syslog_out *s = calloc(1, sizeof(*s));
    int err;

    if (s == NULL)
        return TERR_NOMEM;
    s->magic = SYSLOG_OUT_MAGIC;
    s->to = *to;
    s->fd = -1;
    s->name = strdup(name);
    if (s->name == NULL) {
        OBJ_FREE(s);
        return TERR_NOMEM;
    }
    err = syslog_connect(s);
    if (err != 0)
        /* No error of the opening: the daemon may come later. */
        syslog_say(s, err);
    *out = s;
    return 0;
}

void
syslog_out_close(struct syslog_out **sp)
{
    struct syslog_out *s;

    OBJ_TAKE(s, sp, SYSLOG_OUT_MAGIC);
    syslog_disconnect(s);
    free(s->name);
    OBJ_FREE(s);
}
