/* listener.c -- binding addresses and accepting from them. */
#include "daemon/net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/net/net_priv.h"

enum {
    ACCEPTS_PER_TURN = 64, /* then the others of this loop get their turn */
    REST_MS = 100,         /* without descriptors: long enough not to spin, short to recover */
};

#define BOUND_MAGIC OBJ_TAG('b', 'n', 'd', ' ')
struct bound {
    uint32_t magic;
    bool is_unix, is_private;
    int depth;
    int fd;      /* unix: listening; TCP: holds the port, never listens */
    int lock_fd; /* the abstract socket that says the port is ours */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char text[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
};

#define LISTENER_MAGIC OBJ_TAG('l', 's', 't', 'n')
struct listener {
    uint32_t magic;
    bool is_unix, resting;
    int fd;
    struct net_loop *nl;
    listener_accept_f *accept_f;
    void *ctx;
    struct task task;
    struct timer rest;
    uv_poll_t poll;
};

static int
bound_fail(char *why, size_t why_len, const char *what, const struct conf_address *at)
{
    int err = errno;

    snprintf(why, why_len, "cannot %s %s: %s", what, at->text, strerror(err));
    return err == EADDRINUSE || err == EACCES ? TERR_CONFIG : TERR_IO;
}

static int
bound_socket(int family)
{
    int on = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return fd;
}

static void
bound_name(struct bound *b)
{
    char ip[INET6_ADDRSTRLEN] = "";

    if (b->addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&b->addr;

        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
        snprintf(b->text, sizeof(b->text), "%s:%u", ip, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&b->addr;

        inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
        snprintf(b->text, sizeof(b->text), "[%s]:%u", ip, ntohs(in6->sin6_port));
    }
}

/* An abstract Unix socket is a lock that the kernel drops with its holder, in the same
 * network namespace as the port that it stands for. */
static int
bound_lock(const char *name)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "tarn-listen-%s", name);
    if (bind(fd, (struct sockaddr *)&un,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
bound_tcp(struct bound *b, const struct conf_address *at, char *why, size_t why_len)
{
    int on = 1, probe;

    memcpy(&b->addr, &at->addrs[0], sizeof(b->addr));
    b->addr_len = at->addr_lens[0];
    /* Without SO_REUSEPORT this fails if anybody at all, another tarnd included, listens. */
    probe = bound_socket(b->addr.ss_family);
    if (probe < 0)
        return bound_fail(why, why_len, "make a socket for", at);
    if (bind(probe, (struct sockaddr *)&b->addr, b->addr_len) != 0) {
        int rc = bound_fail(why, why_len, "listen on", at);

        close(probe);
        return rc;
    }
    getsockname(probe, (struct sockaddr *)&b->addr, &b->addr_len);
    close(probe);
    bound_name(b);
    b->lock_fd = bound_lock(b->text);
    if (b->lock_fd < 0)
        return bound_fail(why, why_len, "get the lock of", at);
    b->fd = bound_socket(b->addr.ss_family);
    if (b->fd < 0)
        return bound_fail(why, why_len, "make a socket for", at);
    setsockopt(b->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(b->fd, (struct sockaddr *)&b->addr, b->addr_len) != 0)
        return bound_fail(why, why_len, "listen on", at);
    return 0;
}

static int
bound_unix(struct bound *b, const struct conf_address *at, char *why, size_t why_len)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;

    snprintf(b->path, sizeof(b->path), "%s", at->path);
    memcpy(un.sun_path, b->path, sizeof(b->path));
    b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->fd < 0)
        return bound_fail(why, why_len, "make a socket for", at);
    /* A socket file that nobody answers is left over from a crash. */
    if (lstat(b->path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int rc = connect(probe, (struct sockaddr *)&un, sizeof(un));

        if (rc != 0 && errno == ECONNREFUSED)
            unlink(b->path);
        close(probe);
    }
    if (bind(b->fd, (struct sockaddr *)&un, sizeof(un)) != 0) {
        int rc = bound_fail(why, why_len, "listen on", at);

        b->path[0] = '\0'; /* not ours to remove */
        return rc;
    }
    /* As a port is open to all; the folder's mode restricts it.  Nobody gets in before listen. */
    if (chmod(b->path, b->is_private ? 0600 : 0666) != 0 && b->is_private)
        return bound_fail(why, why_len, "set the mode of", at);
    if (listen(b->fd, b->depth) != 0)
        return bound_fail(why, why_len, "listen on", at);
    snprintf(b->text, sizeof(b->text), "unix:%s", b->path);
    return 0;
}

/* An empty one, to be bound by bound_open(). */
static struct bound *
bound_new(const struct conf_address *at, int depth, bool is_private)
{
    struct bound *b = calloc(1, sizeof(*b));

    if (b != NULL)
        *b = (struct bound){.magic = BOUND_MAGIC,
            .is_unix = at->is_unix,
            .is_private = is_private,
            .depth = depth,
            .fd = -1,
            .lock_fd = -1};
    return b;
}

/* Takes b. */
static int
bound_open(
    struct bound **out, struct bound *b, const struct conf_address *at, char *why, size_t why_len)
{
    int err;

    if (b == NULL)
        return TERR_NOMEM;
    err = at->is_unix ? bound_unix(b, at, why, why_len) : bound_tcp(b, at, why, why_len);
    if (err != 0) {
        listen_release(&b);
        return err;
    }
    *out = b;
    return 0;
}

int
listen_bind(struct bound **out, const struct conf_address *at, int depth, char *why, size_t why_len)
{
    return bound_open(out, bound_new(at, depth, false), at, why, why_len);
}

int
listen_bind_private(
    struct bound **out, const struct conf_address *at, int depth, char *why, size_t why_len)
{
    return bound_open(out, bound_new(at, depth, true), at, why, why_len);
}

const char *
listen_address(const struct bound *b)
{
    OBJ_CHECK(b, BOUND_MAGIC);
    return b->text;
}

void
listen_release(struct bound **bp)
{
    struct bound *b;

    OBJ_TAKE(b, bp, BOUND_MAGIC);
    if (b->is_unix && b->path[0] != '\0')
        unlink(b->path);
    if (b->fd >= 0)
        close(b->fd);
    if (b->lock_fd >= 0)
        close(b->lock_fd);
    OBJ_FREE(b);
}

static void
listener_on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *ls = poll->data;

    (void)status;
    (void)events;
    task_wake(&ls->task);
}

static void
listener_rest(struct listener *ls)
{
    ls->resting = true;
    uv_poll_stop(&ls->poll);
    timer_set(&ls->nl->base.wheel, &ls->rest, loop_deadline(&ls->nl->base, REST_MS));
}

/* Accepts what is there, within the turn's bound.  Returns whether to rest. */
static bool
listener_accept(struct listener *ls)
{
    bool rest = false;

    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(ls->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            rest = ls->accept_f(ls->ctx, fd, ls->is_unix) == TERR_LIMIT || rest;
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            ls->accept_f(ls->ctx, -1, ls->is_unix); /* so that it can be counted and said */
            return true;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        /* ECONNABORTED, EPROTO, EINTR and the like concern one connection: go on. */
    }
    return rest;
}

/* Level-triggered: what is left over makes poll report again. */
static void
listener_run(struct task *t)
{
    struct listener *ls = container_of(t, struct listener, task);

    OBJ_CHECK(ls, LISTENER_MAGIC);
    if (ls->resting) {
        if (!timer_expired(&ls->rest))
            return;
        timer_clear(&ls->rest);
        ls->resting = false;
        uv_poll_start(&ls->poll, UV_READABLE, listener_on_poll);
    }
    if (listener_accept(ls))
        listener_rest(ls);
}

static int
listener_socket(const struct bound *b)
{
    int fd, on = 1;

    if (b->is_unix)
        return fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
    fd = bound_socket(b->addr.ss_family);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&b->addr, b->addr_len) != 0 ||
        listen(fd, b->depth) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int
listener_open(struct listener **out, struct loop *l, const struct bound *b,
    listener_accept_f *accept_f, void *ctx)
{
    struct net_loop *nl = net_loop_of(l);
    struct listener *ls;

    OBJ_CHECK(b, BOUND_MAGIC);
    ls = calloc(1, sizeof(*ls));
    if (ls == NULL)
        return TERR_NOMEM;
    ls->fd = listener_socket(b);
    if (ls->fd < 0 || uv_poll_init(&nl->uv, &ls->poll, ls->fd) != 0) {
        if (ls->fd >= 0)
            close(ls->fd);
        free(ls);
        return TERR_LIMIT;
    }
    ls->magic = LISTENER_MAGIC;
    ls->is_unix = b->is_unix;
    ls->nl = nl;
    ls->accept_f = accept_f;
    ls->ctx = ctx;
    ls->poll.data = ls;
    task_init(&ls->task, &l->tasks, listener_run);
    timer_init(&ls->rest, &ls->task);
    uv_poll_start(&ls->poll, UV_READABLE, listener_on_poll);
    *out = ls;
    return 0;
}

static void
listener_on_closed(uv_handle_t *h)
{
    struct listener *ls = h->data;

    close(ls->fd);
    OBJ_FREE(ls);
}

void
listener_close(struct listener **lp)
{
    struct listener *ls;

    OBJ_TAKE(ls, lp, LISTENER_MAGIC);
    task_cancel(&ls->task);
    timer_unlink(&ls->rest);
    uv_close((uv_handle_t *)&ls->poll, listener_on_closed);
}
