/* tether.c -- messages between a tarnd and its supervisor. */
#include "daemon/supervise/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/inherit.h"
#include "daemon/net/listener.h"

enum {
    SEND_WAIT_MS = 1000,                /* for a supervisor that is busy starting another child */
    FDS_MAX = LIMIT_LISTEN_SOCKETS + 1, /* and the lock */
};

#define TETHER_MAGIC OBJ_TAG('t', 'e', 't', 'h')
struct tether {
    uint32_t magic;
    bool alone; /* and it has been said */
    int fd;
};

int
tether_open(struct tether **out)
{
    const char *says = getenv(TETHER_VARIABLE);
    int fd, version, kind = 0;
    socklen_t len = sizeof(kind);
    struct tether *t;

    *out = NULL;
    if (says == NULL)
        return 0;
    if (sscanf(says, "%d:%d", &fd, &version) != 2 || version != TETHER_VERSION ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) != 0 || kind != SOCK_SEQPACKET) {
        elog(ELOG_ERROR,
            TETHER_VARIABLE "=%s: this tarnd and its supervisor do not understand "
                            "each other",
            says);
        return TERR_CONFIG;
    }
    unsetenv(TETHER_VARIABLE);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return TERR_NOMEM;
    *t = (struct tether){.magic = TETHER_MAGIC, .fd = fd};
    *out = t;
    return 0;
}

void
tether_close(struct tether **tp)
{
    struct tether *t;

    OBJ_TAKE(t, tp, TETHER_MAGIC);
    close(t->fd);
    OBJ_FREE(t);
}

/* The lock goes first, if there is one. */
static void
tether_attach(struct msghdr *msg, char *room, const struct listen_sockets *sockets)
{
    int fds[FDS_MAX], n = 0;
    struct cmsghdr *c;

    if (sockets->lock_fd >= 0)
        fds[n++] = sockets->lock_fd;
    for (unsigned i = 0; i < sockets->nfds; i++)
        fds[n++] = sockets->fds[i];
    msg->msg_control = room;
    msg->msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    c = CMSG_FIRSTHDR(msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
}

int
tether_send(int fd, enum tether_word word, const char *text, const struct listen_sockets *sockets,
    bool must)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
    char letter = (char)word;
    struct iovec iov[2] = {{&letter, 1}, {(void *)(uintptr_t)text, strlen(text)}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    struct pollfd poll_one = {.fd = fd, .events = POLLOUT};

    if (sockets != NULL)
        tether_attach(&msg, room, sockets);
    for (;;) {
        if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return errno == EPIPE || errno == ECONNRESET ? TERR_CLOSED : TERR_IO;
        if (!must || poll(&poll_one, 1, SEND_WAIT_MS) == 0)
            return TERR_AGAIN;
    }
}

/* Descriptors that came with a message: `locks` of them, 0 or 1, are the lock. */
static void
tether_detach(const struct msghdr *msg, unsigned locks, struct listen_sockets *sockets)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    int fds[FDS_MAX];
    size_t n;

    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(c), n * sizeof(int));
    for (size_t i = 0; i < n; i++) {
        if (i < locks)
            sockets->lock_fd = fds[i];
        else if (sockets->nfds < LIMIT_LISTEN_SOCKETS)
            sockets->fds[sockets->nfds++] = fds[i];
        else
            close(fds[i]);
    }
}

enum tether_word
tether_take(int fd, char *text, unsigned room, struct listen_sockets *sockets)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    char letter = 0;
    struct iovec iov[2] = {{&letter, 1}, {text, room - 1}};
    struct msghdr msg = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n;

    *sockets = (struct listen_sockets){.lock_fd = -1};
    do
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return TETHER_NOTHING;
    if (n <= 0)
        return TETHER_ALONE;
    text[n - 1] = '\0';
    tether_detach(&msg, letter == TETHER_HOLD && n > 3 && text[2] == '1' ? 1 : 0, sockets);
    sockets->ours = letter == TETHER_HOLD && text[0] == '1';
    return (enum tether_word)letter;
}

int
tether_hold(struct tether *t, const char *address, const struct bound *b)
{
    struct listen_sockets sockets;
    char text[TETHER_MESSAGE_MAX];
    int err;

    if (t == NULL)
        return 0;
    OBJ_CHECK(t, TETHER_MAGIC);
    listen_sockets(b, &sockets);
    snprintf(text, sizeof(text), "%d %d %s", sockets.ours, sockets.lock_fd >= 0, address);
    err = tether_send(t->fd, TETHER_HOLD, text, &sockets, true);
    if (err != 0)
        elog(ELOG_ERROR, "cannot hand %s to the supervisor: %s", address, terr_text(err));
    return err;
}

void
tether_drop(struct tether *t, const char *address)
{
    if (t == NULL)
        return;
    OBJ_CHECK(t, TETHER_MAGIC);
    tether_send(t->fd, TETHER_DROP, address, NULL, true);
}

int
tether_ready(struct tether *t, const char *line)
{
    if (t == NULL)
        return 0;
    OBJ_CHECK(t, TETHER_MAGIC);
    return tether_send(t->fd, TETHER_READY, line, NULL, true);
}

void
tether_beat(struct tether *t, int64_t watchdog_ms, const char *stuck)
{
    char text[256];

    if (t == NULL)
        return;
    OBJ_CHECK(t, TETHER_MAGIC);
    snprintf(text, sizeof(text), "%lld %s", (long long)watchdog_ms, stuck != NULL ? stuck : "");
    tether_send(t->fd, stuck != NULL ? TETHER_STUCK : TETHER_BEAT, text, NULL, false);
}

void
tether_quit(struct tether *t, bool gently)
{
    if (t == NULL)
        return;
    OBJ_CHECK(t, TETHER_MAGIC);
    tether_send(t->fd, TETHER_QUIT, gently ? "1" : "0", NULL, true);
}

enum tether_word
tether_look(struct tether *t)
{
    struct listen_sockets none;
    enum tether_word word;
    char text[64];

    if (t == NULL || t->alone)
        return TETHER_NOTHING;
    OBJ_CHECK(t, TETHER_MAGIC);
    word = tether_take(t->fd, text, sizeof(text), &none);
    t->alone = word == TETHER_ALONE;
    return word == TETHER_ALONE || word == TETHER_RETIRE ? word : TETHER_NOTHING;
}
