/* channel.c -- messages between a tarnd and its supervisor.
 *
 * One message is one packet: a letter, a text, and perhaps descriptors (SCM_RIGHTS).
 *
 *    H "1 1 unix:/run/tarn.sock" + lock, socket     hold these: OURS, LOCK, ADDRESS
 *    D "127.0.0.1:8080"                             drop them
 *    B "30000 "                                     heartbeat, with the watchdog's time in ms
 *
 * The kernel keeps packets apart and in order, so there is no framing, and a message is never
 * half there.  The letters are those of channel.h.
 */
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

#define CHANNEL_MAGIC OBJ_TAG('c', 'h', 'n', 'l')
struct channel {
    uint32_t magic;
    bool alone; /* and it has been said */
    int fd;
};

/* A wrong variable is an error and no start without a supervisor: that tarnd would not be
 * watched, and its listeners would end with it. */
int
channel_open(struct channel **out)
{
    const char *says = getenv(CHANNEL_VARIABLE);
    int fd, version, kind = 0;
    socklen_t len = sizeof(kind);
    struct channel *t;

    *out = NULL;
    if (says == NULL)
        return 0;
    /* The variable may come from anywhere: what it names has to be such a socket. */
    if (sscanf(says, "%d:%d", &fd, &version) != 2 || version != CHANNEL_VERSION ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) != 0 || kind != SOCK_SEQPACKET) {
        elog(ELOG_ERROR,
            CHANNEL_VARIABLE "=%s: no supervisor channel of version %d: restart the supervisor",
            says, CHANNEL_VERSION);
        return TERR_CONFIG;
    }
    /* Not for processes that this one starts. */
    unsetenv(CHANNEL_VARIABLE);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return TERR_NOMEM;
    *t = (struct channel){.magic = CHANNEL_MAGIC, .fd = fd};
    *out = t;
    return 0;
}

void
channel_close(struct channel **tp)
{
    struct channel *t;

    OBJ_TAKE(t, tp, CHANNEL_MAGIC);
    close(t->fd);
    OBJ_FREE(t);
}

/* The lock goes first, if there is one.  `room` is the caller's, and stays until sendmsg(2): the
 * control message lies in it. */
static void
channel_attach(struct msghdr *msg, char *room, const struct listen_sockets *sockets)
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
channel_send(int fd, enum channel_word word, const char *text, const struct listen_sockets *sockets,
    bool must)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
    char letter = (char)word;
    struct iovec iov[2] = {{&letter, 1}, {(void *)(uintptr_t)text, strlen(text)}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    struct pollfd poll_one = {.fd = fd, .events = POLLOUT};

    if (sockets != NULL)
        channel_attach(&msg, room, sockets);
    for (;;) {
        /* A message is one packet (SEQPACKET): a word with its descriptors, or nothing. */
        if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            /* The supervisor died: that is no mistake of ours. */
            return errno == EPIPE || errno == ECONNRESET ? TERR_CLOSED : TERR_IO;
        /* A sign of life that does not fit is left out: the next one comes in a second. */
        if (!must || poll(&poll_one, 1, SEND_WAIT_MS) == 0)
            return TERR_AGAIN;
    }
}

/* Descriptors that came with a message: `locks` of them, 0 or 1, are the lock.  Each descriptor
 * is from here on in *sockets or closed; none is lost, whatever the sender sent. */
static void
channel_detach(const struct msghdr *msg, unsigned locks, struct listen_sockets *sockets)
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
            /* More than there is room for: what is not taken would stay open. */
            close(fds[i]);
    }
}

/* The text is cut at `room`; a packet is gone when it was read, so the next call meets the next
 * message.  `text` is NUL-terminated also where the packet was a letter alone. */
enum channel_word
channel_take(int fd, char *text, unsigned room, struct listen_sockets *sockets)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    char letter = 0;
    struct iovec iov[2] = {{&letter, 1}, {text, room - 1}};
    struct msghdr msg = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n;

    *sockets = (struct listen_sockets){.lock_fd = -1};
    do
        /* Close-on-exec: a child gets descriptors on purpose only (child_pass_fd). */
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return CHANNEL_NOTHING;
    /* The other end is closed, or broken: either way there is no supervisor any more. */
    if (n <= 0)
        return CHANNEL_ALONE;
    /* The first byte was the letter. */
    text[n - 1] = '\0';
    channel_detach(&msg, letter == CHANNEL_HOLD && n > 3 && text[2] == '1' ? 1 : 0, sockets);
    sockets->ours = letter == CHANNEL_HOLD && text[0] == '1';
    return (enum channel_word)letter;
}

int
channel_hold(struct channel *t, const char *address, const struct bound *b)
{
    struct listen_sockets sockets;
    char text[CHANNEL_MESSAGE_MAX];
    int err;

    if (t == NULL)
        return 0;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    listen_sockets(b, &sockets);
    snprintf(text, sizeof(text), "%d %d %s", sockets.ours, sockets.lock_fd >= 0, address);
    err = channel_send(t->fd, CHANNEL_HOLD, text, &sockets, true);
    if (err != 0)
        elog(ELOG_ERROR, "cannot hand %s to the supervisor: %s", address, terr_text(err));
    return err;
}

void
channel_drop(struct channel *t, const char *address)
{
    if (t == NULL)
        return;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    channel_send(t->fd, CHANNEL_DROP, address, NULL, true);
}

int
channel_ready(struct channel *t, const char *line)
{
    if (t == NULL)
        return 0;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    return channel_send(t->fd, CHANNEL_READY, line, NULL, true);
}

/* `must` is false: the management loop must not wait for a supervisor that is stopped. */
void
channel_beat(struct channel *t, int64_t watchdog_ms, const char *stuck)
{
    char text[256];

    if (t == NULL)
        return;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    snprintf(text, sizeof(text), "%lld %s", (long long)watchdog_ms, stuck != NULL ? stuck : "");
    channel_send(t->fd, stuck != NULL ? CHANNEL_STUCK : CHANNEL_BEAT, text, NULL, false);
}

void
channel_quit(struct channel *t, bool gently)
{
    if (t == NULL)
        return;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    channel_send(t->fd, CHANNEL_QUIT, gently ? "1" : "0", NULL, true);
}

enum channel_word
channel_look(struct channel *t)
{
    struct listen_sockets none;
    enum channel_word word;
    char text[64];

    if (t == NULL || t->alone)
        return CHANNEL_NOTHING;
    OBJ_CHECK(t, CHANNEL_MAGIC);
    /* No message to us has descriptors. */
    word = channel_take(t->fd, text, sizeof(text), &none);
    /* Said once: afterwards there is nothing to read. */
    t->alone = word == CHANNEL_ALONE;
    return word == CHANNEL_ALONE || word == CHANNEL_RETIRE ? word : CHANNEL_NOTHING;
}
