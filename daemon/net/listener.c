/* listener.c -- binding addresses and accepting from them. */
#include "daemon/net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/inherit.h"
#include "daemon/net/net_priv.h"

enum {
    ACCEPTS_PER_TURN = 64, /* then the others of this loop get their turn */
    LOCK_DEPTH = 16,       /* of those that look up the lock's holder; never accepted */
    REST_MS = 100,         /* without descriptors: long enough not to spin, short to recover */
};

#define BOUND_MAGIC OBJ_TAG('b', 'n', 'd', ' ')
struct bound {
    uint32_t magic;
    bool is_unix;
    int depth;
    int notsent_bytes;
    int fd;      /* unix: listening; TCP: holds the port, never listens; -1: was inherited */
    int lock_fd; /* the abstract socket that says the port is ours; -1: none */
    bool inherited, foreign; /* foreign: not bound by a tarnd */
    unsigned loops, nfds;    /* listen_share: 0 before it, and nfds for a Unix socket */
    int fds[LIMIT_LISTEN_SOCKETS];
    struct sockaddr_storage addr;
    socklen_t addr_len;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char text[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
};

struct listener_socket {
    int fd;
    uv_poll_t poll;
};

#define LISTENER_MAGIC OBJ_TAG('l', 's', 't', 'n')
struct listener {
    uint32_t magic;
    bool is_unix, resting;
    struct net_loop *nl;
    listener_accept_f *accept_f;
    void *ctx;
    struct task task;
    struct timer rest;
    unsigned nsockets, nclosed;       /* one, unless inherited */
    struct listener_socket sockets[]; /* nsockets */
};

/* TERR_CONFIG for what the operator can put right, an address in use or a port below 1024
 * without the right to it; TERR_IO for the others.  Reads errno first: nothing may come between
 * it and the call. */
static int
bound_fail(char *why, size_t why_len, const char *what, const struct conf_address *at)
{
    int err = errno;

    snprintf(why, why_len, "cannot %s %s: %s", what, at->text, strerror(err));
    return err == EADDRINUSE || err == EACCES ? TERR_CONFIG : TERR_IO;
}

/* SO_REUSEADDR: connections of the process before in TIME_WAIT would keep the port for a minute.
 * It does not let two listeners have one port (socket(7)). */
static int
bound_socket(int family)
{
    int on = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return fd;
}

/* Of a listening socket: each connection that it accepts has the same, without a call of its own
 * (tcp(7)).  A system without it sends as before. */
static void
bound_limit_unsent(const struct bound *b, int fd)
{
    if (b->notsent_bytes > 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &b->notsent_bytes, sizeof(b->notsent_bytes));
}

/* From the socket and not from the configuration, in which the port may be 0: any free one. */
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

enum bound_holder {
    HOLDER_US,      /* a process of our user: another tarnd */
    HOLDER_OTHER,   /* of another user, which no port can be shared with */
    HOLDER_UNKNOWN, /* it answers nothing, as no lock of ours does */
};

/* The name of the lock is taken: by a process of which user?  The kernel knows the listener. */
static enum bound_holder
bound_lock_holder(const struct sockaddr_un *un, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum bound_holder holder = HOLDER_UNKNOWN;
    struct ucred peer;
    socklen_t peer_len = sizeof(peer);

    if (fd < 0)
        return holder;
    if (connect(fd, (const struct sockaddr *)un, len) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0)
        holder = peer.uid == geteuid() ? HOLDER_US : HOLDER_OTHER;
    close(fd);
    return holder;
}

/* An abstract Unix socket is a lock that the kernel drops with its holder, in the same network
 * namespace as the port that it stands for.  Any user may take its name, so a name that another
 * user has taken says nothing: the kernel does not let two users share a port, and the probe has
 * found it free.  0, and the lock or -1; TERR_BUSY. */
static int
bound_lock(const char *name, int *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len;
    int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *out = -1;
    if (fd < 0)
        return 0;
    n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "tarn-listen-%u-%s", geteuid(), name);
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (bind(fd, (struct sockaddr *)&un, len) == 0 && listen(fd, LOCK_DEPTH) == 0) {
        *out = fd;
        return 0;
    }
    close(fd);
    if (bound_lock_holder(&un, len) == HOLDER_US)
        return TERR_BUSY;
    elog(ELOG_WARN, "listen: lock=%s held by another user: the port alone says whether it is free",
        un.sun_path + 1);
    return 0;
}

/* Three sockets: a probe without SO_REUSEPORT, which finds any listener; the lock, which finds
 * another tarnd between its probe and its bind; and one that keeps the port and never listens.
 * On failure the caller's listen_release() closes what `b` has. */
static int
bound_tcp(struct bound *b, const struct conf_address *at, char *why, size_t why_len)
{
    int on = 1, probe;

    memcpy(&b->addr, &at->addrs[0], sizeof(b->addr));
    b->addr_len = at->addr_lens[0];
    /* Without SO_REUSEPORT this fails if any process, another tarnd included, listens. */
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
    if (bound_lock(b->text, &b->lock_fd) != 0) {
        snprintf(why, why_len, "cannot listen on %s: another tarnd of this user has it", at->text);
        return TERR_CONFIG;
    }
    b->fd = bound_socket(b->addr.ss_family);
    if (b->fd < 0)
        return bound_fail(why, why_len, "make a socket for", at);
    /* The kernel lets sockets share a port only if each has set it before its bind, the first
     * too. */
    setsockopt(b->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(b->fd, (struct sockaddr *)&b->addr, b->addr_len) != 0)
        return bound_fail(why, why_len, "listen on", at);
    return 0;
}

/* A name or a number; -1 for none.  False: there is no such user. */
static bool
bound_user(const char *name, uid_t *out)
{
    char *end;
    const struct passwd *pw = getpwnam(name);
    unsigned long id = strtoul(name, &end, 10);

    *out = pw != NULL ? pw->pw_uid : (uid_t)id;
    return pw != NULL || (*name >= '0' && *name <= '9' && *end == '\0' && id < (uid_t)-1);
}

/* As bound_user(). */
static bool
bound_group(const char *name, gid_t *out)
{
    char *end;
    const struct group *gr = getgrnam(name);
    unsigned long id = strtoul(name, &end, 10);

    *out = gr != NULL ? gr->gr_gid : (gid_t)id;
    return gr != NULL || (*name >= '0' && *name <= '9' && *end == '\0' && id < (gid_t)-1);
}

/* Before it listens: the owner first, so that no other user gets what the mode gives. */
static int
bound_own(const struct bound *b, const struct conf_address *at, const struct listen_how *how,
    char *why, size_t why_len)
{
    uid_t uid = (uid_t)-1;
    gid_t gid = (gid_t)-1;

    if (how->user[0] != '\0' && !bound_user(how->user, &uid)) {
        snprintf(why, why_len, "%s: there is no user '%s'", at->text, how->user);
        return TERR_CONFIG;
    }
    if (how->group[0] != '\0' && !bound_group(how->group, &gid)) {
        snprintf(why, why_len, "%s: there is no group '%s'", at->text, how->group);
        return TERR_CONFIG;
    }
    if ((uid != (uid_t)-1 || gid != (gid_t)-1) && chown(b->path, uid, gid) != 0) {
        snprintf(why, why_len,
            "cannot give %s to user '%s', group '%s': %s; a user other than root can only give it "
            "to "
            "a group that it is a member of",
            at->text, how->user, how->group, strerror(errno));
        return TERR_CONFIG;
    }
    if (chmod(b->path, (mode_t)how->mode) != 0)
        return bound_fail(why, why_len, "set the mode of", at);
    return 0;
}

/* The file is made with the permissions that the umask leaves, but connect(2) is refused until
 * listen(2): the mode and owner are set between the two. */
static int
bound_unix(struct bound *b, const struct conf_address *at, const struct listen_how *how, char *why,
    size_t why_len)
{
    int err;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;

    snprintf(b->path, sizeof(b->path), "%s", at->path);
    memcpy(un.sun_path, b->path, sizeof(b->path));
    b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->fd < 0)
        return bound_fail(why, why_len, "make a socket for", at);
    /* A socket file without a listener is left over from a crash. */
    if (lstat(b->path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int rc = connect(probe, (struct sockaddr *)&un, sizeof(un));

        /* ECONNREFUSED alone says that no process listens.  EAGAIN is a full queue: a process is
         * there. */
        if (rc != 0 && errno == ECONNREFUSED)
            unlink(b->path);
        close(probe);
    }
    if (bind(b->fd, (struct sockaddr *)&un, sizeof(un)) != 0) {
        bool denied = errno == EACCES;
        int rc = bound_fail(why, why_len, "listen on", at);

        if (denied) /* Landlock says the same as a directory's mode */
            snprintf(why, why_len,
                "cannot listen on %s: its directory cannot be written, or not by a tarnd that "
                "runs: "
                "`sandbox` leaves it the directories named when it started",
                at->text);
        b->path[0] = '\0'; /* not ours to remove */
        return rc;
    }
    err = bound_own(b, at, how, why, why_len);
    if (err != 0)
        return err;
    if (listen(b->fd, b->depth) != 0)
        return bound_fail(why, why_len, "listen on", at);
    snprintf(b->text, sizeof(b->text), "unix:%s", b->path);
    return 0;
}

/* Of a socket that the supervisor kept: the file may have been made by a configuration that said
 * otherwise.  A service manager's is his. */
static int
bound_own_again(const struct bound *b, const struct conf_address *at, const struct listen_how *how,
    char *why, size_t why_len)
{
    struct stat st;

    if (!b->is_unix || b->foreign || lstat(b->path, &st) != 0)
        return 0;
    return bound_own(b, at, how, why, why_len);
}

/* The owner changes while the file has only the permissions that both modes give. */
int
listen_own(const struct bound *b, const struct conf_address *at, const struct listen_how *how,
    struct listen_owned *was, char *why, size_t why_len)
{
    struct stat st;
    int err;

    OBJ_CHECK(b, BOUND_MAGIC);
    *was = (struct listen_owned){.changed = false};
    if (!b->is_unix || b->foreign || lstat(b->path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return 0;
    *was = (struct listen_owned){
        .changed = true, .mode = st.st_mode & 07777, .uid = st.st_uid, .gid = st.st_gid};
    if (chmod(b->path, was->mode & (mode_t)how->mode) != 0) {
        was->changed = false;
        return bound_fail(why, why_len, "set the mode of", at);
    }
    err = bound_own(b, at, how, why, why_len);
    if (err != 0) {
        listen_disown(b, was);
        /* It is undone: once more, later, would take back what others have done since. */
        was->changed = false;
    }
    return err;
}

/* The owner first, as in listen_own(): the former mode must not count for the owner that it is
 * taken from. */
void
listen_disown(const struct bound *b, const struct listen_owned *was)
{
    OBJ_CHECK(b, BOUND_MAGIC);
    if (!was->changed)
        return;
    if (chown(b->path, was->uid, was->gid) != 0 || chmod(b->path, was->mode) != 0)
        elog(ELOG_ERROR, "%s: cannot be given back to its former owner: %s", b->text,
            strerror(errno));
}

/* Sockets that were there when the process started, if any are for this address. */
static bool
bound_inherit(struct bound *b, const struct conf_address *at)
{
    struct listen_sockets got;

    if (!inherit_take(at, &got))
        return false;
    b->inherited = true;
    b->foreign = !got.ours;
    b->lock_fd = got.lock_fd;
    if (b->is_unix) {
        b->fd = got.fds[0];
        snprintf(b->path, sizeof(b->path), "%s", at->path);
        snprintf(b->text, sizeof(b->text), "unix:%s", b->path);
        return true;
    }
    b->nfds = got.nfds;
    memcpy(b->fds, got.fds, got.nfds * sizeof(b->fds[0]));
    b->addr_len = sizeof(b->addr);
    getsockname(b->fds[0], (struct sockaddr *)&b->addr, &b->addr_len);
    bound_name(b);
    return true;
}

/* On failure `b` may be half built: listen_release() copes with it. */
int
listen_bind(struct bound **out, const struct conf_address *at, const struct listen_how *how,
    char *why, size_t why_len)
{
    struct bound *b = calloc(1, sizeof(*b));
    int err;

    if (b == NULL)
        return TERR_NOMEM;
    *b = (struct bound){.magic = BOUND_MAGIC,
        .is_unix = at->is_unix,
        .depth = how->depth,
        .notsent_bytes = how->notsent_bytes,
        .fd = -1,
        .lock_fd = -1};
    if (bound_inherit(b, at)) {
        for (unsigned i = 0; i < b->nfds; i++)
            bound_limit_unsent(b, b->fds[i]);
        err = bound_own_again(b, at, how, why, why_len);
    } else
        err = at->is_unix ? bound_unix(b, at, how, why, why_len) : bound_tcp(b, at, why, why_len);
    if (err != 0) {
        listen_release(&b);
        return err;
    }
    *out = b;
    return 0;
}

const char *
listen_address(const struct bound *b)
{
    OBJ_CHECK(b, BOUND_MAGIC);
    return b->text;
}

/* A Unix socket's file is removed only by a process that made it and that no other process
 * follows: otherwise the successor's clients would find no file. */
void
listen_release(struct bound **bp)
{
    struct bound *b;

    OBJ_TAKE(b, bp, BOUND_MAGIC);
    if (b->is_unix && b->path[0] != '\0' && b->loops == 0 && !b->inherited)
        unlink(b->path);
    for (unsigned i = 0; i < b->nfds; i++)
        close(b->fds[i]);
    if (b->fd >= 0)
        close(b->fd);
    if (b->lock_fd >= 0)
        close(b->lock_fd);
    OBJ_FREE(b);
}

bool
listen_is_inherited(const struct bound *b)
{
    OBJ_CHECK(b, BOUND_MAGIC);
    return b->inherited;
}

static int listener_socket(const struct bound *b);

/* Once, before the first loop accepts.  From here on the number of loops is fixed for this
 * address. */
int
listen_share(struct bound *b, unsigned loops)
{
    unsigned want = loops < LIMIT_LISTEN_SOCKETS ? loops : LIMIT_LISTEN_SOCKETS;

    OBJ_CHECK(b, BOUND_MAGIC);
    tassert(b->loops == 0 && loops > 0);
    while (!b->is_unix && b->nfds < want) {
        int fd = listener_socket(b);

        if (fd < 0 && b->nfds > 0)
            break; /* the existing ones were bound without SO_REUSEPORT */
        if (fd < 0)
            return TERR_IO;
        b->fds[b->nfds++] = fd;
    }
    b->loops = loops;
    return 0;
}

void
listen_sockets(const struct bound *b, struct listen_sockets *out)
{
    OBJ_CHECK(b, BOUND_MAGIC);
    tassert(b->loops > 0);
    *out = (struct listen_sockets){.ours = !b->foreign, .lock_fd = b->lock_fd, .nfds = b->nfds};
    memcpy(out->fds, b->fds, b->nfds * sizeof(b->fds[0]));
    if (b->is_unix) {
        out->nfds = 1;
        out->fds[0] = b->fd;
    }
}

/* In libuv's poll phase.  accept(2) is left to the task, which is counted by the turn's bound. */
static void
listener_on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *ls = poll->data;

    (void)status;
    (void)events;
    task_wake(&ls->task);
}

/* All sockets of this loop: with SO_REUSEPORT the kernel queues a connection on one of them, and
 * a socket that is not watched keeps its clients waiting for ever. */
static void
listener_watch(struct listener *ls)
{
    for (unsigned i = 0; i < ls->nsockets; i++)
        uv_poll_start(&ls->sockets[i].poll, UV_READABLE, listener_on_poll);
}

/* Poll is level-triggered, so a watched socket that cannot be accepted from would wake the loop
 * without end.  The kernel's queue keeps the connections meanwhile. */
static void
listener_rest(struct listener *ls)
{
    ls->resting = true;
    for (unsigned i = 0; i < ls->nsockets; i++)
        uv_poll_stop(&ls->sockets[i].poll);
    timer_set(&ls->nl->base.wheel, &ls->rest, loop_deadline(&ls->nl->base, REST_MS));
}

/* Accepts what is there, within the turn's bound.  Returns whether to rest. */
static bool
listener_accept(struct listener *ls, int from)
{
    bool rest = false;

    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(from, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            rest = ls->accept_f(ls->ctx, fd, ls->is_unix) == TERR_LIMIT || rest;
            continue;
        }
        /* The connection is still in the kernel's queue.  accept_f may end idle connections to
         * make room for it; TERR_AGAIN: it did, so there is no need to rest. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            return ls->accept_f(ls->ctx, -1, ls->is_unix) != TERR_AGAIN || rest;
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
    bool rest = false;

    OBJ_CHECK(ls, LISTENER_MAGIC);
    if (ls->resting) {
        if (!timer_expired(&ls->rest))
            return;
        timer_clear(&ls->rest);
        ls->resting = false;
        listener_watch(ls);
    }
    for (unsigned i = 0; i < ls->nsockets; i++)
        rest = listener_accept(ls, ls->sockets[i].fd) || rest;
    if (rest)
        listener_rest(ls);
}

/* A socket of our own at a port. */
static int
listener_socket(const struct bound *b)
{
    int fd, on = 1;

    fd = bound_socket(b->addr.ss_family);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    bound_limit_unsent(b, fd);
    if (bind(fd, (const struct sockaddr *)&b->addr, b->addr_len) != 0 ||
        listen(fd, b->depth) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Where a loop accepts: every socket has at least one loop, and every loop at least one socket.
 * -1 among them: there is no descriptor to be had.
 * The descriptors are the caller's.  Duplicates, because a loop closes its own while the others,
 * and the supervisor, go on with theirs. */
static unsigned
listener_sockets_of(const struct bound *b, unsigned loop, int *fds)
{
    unsigned n = 0;

    if (b->is_unix) {
        fds[n++] = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
    } else if (b->loops == 0) {
        fds[n++] = listener_socket(b);
    } else if (b->nfds < b->loops) {
        fds[n++] = fcntl(b->fds[loop % b->nfds], F_DUPFD_CLOEXEC, 0);
    } else {
        for (unsigned i = loop % b->loops; i < b->nfds; i += b->loops)
            fds[n++] = fcntl(b->fds[i], F_DUPFD_CLOEXEC, 0);
    }
    return n;
}

/* Takes them, all or none.
 * On failure the first `nsockets` belong to `ls` and end with listener_close(), for libuv knows
 * their handles; the others are closed here. */
static int
listener_attach(struct listener *ls, const int *fds, unsigned n)
{
    for (; ls->nsockets < n && fds[ls->nsockets] >= 0; ls->nsockets++) {
        struct listener_socket *s = &ls->sockets[ls->nsockets];

        s->fd = fds[ls->nsockets];
        if (uv_poll_init(&ls->nl->uv, &s->poll, s->fd) != 0)
            break;
        s->poll.data = ls;
    }
    if (ls->nsockets == n)
        return 0;
    for (unsigned i = ls->nsockets; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return TERR_LIMIT;
}

/* On failure nothing is left: duplicated descriptors are closed here or with `ls`. */
int
listener_open(struct listener **out, struct loop *l, const struct bound *b,
    listener_accept_f *accept_f, void *ctx)
{
    struct net_loop *nl = net_loop_of(l);
    int fds[LIMIT_LISTEN_SOCKETS];
    struct listener *ls;
    unsigned n;

    OBJ_CHECK(b, BOUND_MAGIC);
    n = listener_sockets_of(b, l->id, fds);
    ls = calloc(1, sizeof(*ls) + n * sizeof(ls->sockets[0]));
    if (ls == NULL) {
        for (unsigned i = 0; i < n; i++)
            close(fds[i]);
        return TERR_NOMEM;
    }
    ls->magic = LISTENER_MAGIC;
    ls->is_unix = b->is_unix;
    ls->nl = nl;
    ls->accept_f = accept_f;
    ls->ctx = ctx;
    task_init(&ls->task, &l->tasks, listener_run);
    timer_init(&ls->rest, &ls->task);
    if (listener_attach(ls, fds, n) != 0) {
        if (ls->nsockets > 0)
            listener_close(&ls);
        else
            OBJ_FREE(ls);
        return TERR_LIMIT;
    }
    listener_watch(ls);
    *out = ls;
    return 0;
}

/* The descriptors go after libuv has closed all handles: a number that is closed earlier may be
 * another file's while epoll still watches it. */
static void
listener_on_closed(uv_handle_t *h)
{
    struct listener *ls = h->data;

    ls->nclosed++;
    if (ls->nclosed < ls->nsockets)
        return;
    for (unsigned i = 0; i < ls->nsockets; i++)
        close(ls->sockets[i].fd);
    OBJ_FREE(ls);
}

/* The address stays: other loops listen at it, and `bound` is the endpoint's.  Connections in
 * the queue of these sockets are reset by the kernel when their last descriptor is closed. */
void
listener_close(struct listener **lp)
{
    struct listener *ls;

    OBJ_TAKE(ls, lp, LISTENER_MAGIC);
    task_cancel(&ls->task);
    timer_unlink(&ls->rest);
    for (unsigned i = 0; i < ls->nsockets; i++)
        uv_close((uv_handle_t *)&ls->sockets[i].poll, listener_on_closed);
}
