/* stream.c -- libuv streams as facts and one task. */
#include "daemon/net/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/address.h"
#include "daemon/net/stream_priv.h"

enum {
    STREAMS_IDLE_MAX = 1024,   /* memory of closed connections kept for new ones, a loop */
    STREAM_ROOM_MAX = 1 << 30, /* of one read; the kernel gives no more than 2 GiB at a time */
    STREAM_LARGE = 256 << 10,  /* worth a system call, to be copied from where it begins */
};

/* A TCP stream gets no memory for the pipe's handle, which is the larger one. */
static size_t
stream_size(bool is_unix, bool is_secure)
{
    return offsetof(struct stream, uv) + (is_unix ? sizeof(uv_pipe_t) : sizeof(uv_tcp_t)) +
           (is_secure ? sizeof(struct stream_secure) : 0);
}

/* In libuv's closing phase.  From uv_close() until here the memory is libuv's, so this is the
 * only place where a stream's memory goes back. */
static void
stream_on_closed(uv_handle_t *h)
{
    struct stream *s = h->data;
    struct net_loop *nl = stream_loop(s);

    OBJ_BURY(s);
    if (s->is_unix || s->is_secure || nl->stopping || nl->nidle_streams >= STREAMS_IDLE_MAX) {
        usage_free(&nl->base.usage, USAGE_CONN, s);
        return;
    }
    s->of.next = nl->idle_streams;
    nl->idle_streams = s;
    nl->nidle_streams++;
}

/* Only plain TCP streams are kept for the next: they are one size.  libuv's handle is made anew each
 * time and must be given to uv_close() from here on, also on an error path: libuv has linked it. */
static struct stream *
stream_new(struct net_loop *nl, bool is_unix, bool is_secure, struct task *owner)
{
    struct stream *s = is_unix || is_secure ? NULL : nl->idle_streams;

    if (s != NULL) {
        nl->idle_streams = s->of.next;
        nl->nidle_streams--;
    } else {
        s = usage_alloc(&nl->base.usage, USAGE_CONN, stream_size(is_unix, is_secure));
    }
    if (s == NULL)
        return NULL;
    memset(s, 0, offsetof(struct stream, uv));
    s->magic = STREAM_MAGIC;
    s->of.owner = owner;
    s->fd = -1;
    s->is_unix = is_unix;
    s->is_secure = is_secure;
    if (is_unix)
        uv_pipe_init(&nl->uv, &s->uv.pipe, 0);
    else
        uv_tcp_init(&nl->uv, &s->uv.tcp);
    s->uv.handle.data = s;
    if (is_secure && stream_secure_init(s) != 0) {
        uv_close(&s->uv.handle, stream_on_closed);
        return NULL;
    }
    return s;
}

void
net_streams_trim(struct net_loop *nl, unsigned keep)
{
    struct write_op **at = &nl->idle_writes;

    while (nl->nidle_streams > keep) {
        struct stream *s = nl->idle_streams;

        nl->idle_streams = s->of.next;
        nl->nidle_streams--;
        usage_free(&nl->base.usage, USAGE_CONN, s);
    }
    for (; *at != NULL && keep > 0; keep--)
        at = &(*at)->next;
    while (*at != NULL) {
        struct write_op *op = *at;

        *at = op->next;
        usage_free(&nl->base.usage, USAGE_CONN, op);
    }
}

/* An operation of libuv must outlive its stream: after uv_close() libuv still calls back with
 * UV_ECANCELED.  So it lies beside the stream, and streams without a full socket need none. */
struct write_op *
stream_op_take(struct net_loop *nl)
{
    struct write_op *op = nl->idle_writes;

    if (op != NULL)
        nl->idle_writes = op->next;
    else
        op = usage_alloc(&nl->base.usage, USAGE_CONN, sizeof(*op));
    if (op != NULL)
        op->own = NULL;
    return op;
}

void
stream_op_give(struct net_loop *nl, struct write_op *op)
{
    usage_free(&nl->base.usage, USAGE_CONN, op->own);
    op->next = nl->idle_writes;
    nl->idle_writes = op;
}

/* libuv asks where the next read shall land.  A read of length 0 makes it report UV_ENOBUFS and
 * try again in the next turn: epoll is level-triggered, so nothing is lost. */
static void
stream_on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct stream *s = h->data;

    (void)suggested;
    buf->base = NULL;
    buf->len = 0;
    if (s->rx_len > 0 || (s->is_secure && stream_secure(s)->in_len > 0))
        return; /* not consumed yet: libuv reports ENOBUFS, and we read when it is */
    if (s->is_secure && stream_secure(s)->layer != NULL) {
        buf->base = net_slab_room(stream_loop(s), &buf->len);
        return;
    }
    if (s->posted) {
        buf->base = s->room_ptr;
        buf->len = s->room_len;
        return;
    }
    buf->base = net_slab_room(stream_loop(s), &buf->len);
    if (s->read_max > 0 && buf->len > s->read_max)
        buf->len = s->read_max;
}

/* A reset is not an orderly end: what is framed by the end would pass for whole (RFC 9112 8).
 * libuv reports an end also for a reset that came together with data, and a write that failed has
 * taken the socket's error with it. */
static int
stream_end_of(const struct stream *s, ssize_t n)
{
    int err = n == UV_EOF ? 0 : terr_from_errno((int)n), pending = 0;
    socklen_t len = sizeof(pending);

    if (err == 0 && s->write_err == 0 &&
        getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &pending, &len) == 0 && pending == 0)
        return TERR_CLOSED;
    return err == 0 || err == TERR_CLOSED ? TERR_IO : err;
}

/* In libuv's poll phase: stores the fact and wakes the owner's task, which runs in check.  The
 * bytes stay where they are until stream_consume(). */
static void
stream_on_read(uv_stream_t *uvs, ssize_t n, const uv_buf_t *buf)
{
    struct stream *s = uvs->data;

    if (n == 0 || n == UV_ENOBUFS)
        return;
    if (n < 0) {
        n = stream_end_of(s, n);
        s->reading = false; /* libuv stops by itself */
        uv_read_stop(uvs);
    }
    if (s->is_secure && stream_secure(s)->layer != NULL) {
        stream_secure_on_read(s, n, buf->base);
        return;
    }
    if (n < 0) {
        s->ended = (int16_t)n;
    } else {
        s->rx_ptr = buf->base;
        s->rx_len = (uint32_t)n;
        if (s->posted) {
            s->posted = false;
            s->slab = NULL;
        } else {
            s->slab = net_slab_use(stream_loop(s), (size_t)n);
        }
    }
    task_wake(s->of.owner);
}

static void
stream_start(struct stream *s)
{
    uv_os_fd_t fd;

    if (uv_fileno(&s->uv.handle, &fd) == 0)
        s->fd = fd;
    stream_resume(s);
}

/* TCP_NODELAY: we gather a response ourselves (stream_try, MSG_MORE), and Nagle's algorithm
 * would only delay the last packet of an answer until the client has acknowledged the one before
 * (RFC 896). */
static int
stream_accept_as(
    struct stream **out, struct loop *l, int fd, bool is_unix, bool is_secure, struct task *owner)
{
    struct net_loop *nl = net_loop_of(l);
    struct stream *s = stream_new(nl, is_unix, is_secure, owner);
    int err, on = 1;

    if (s == NULL) {
        close(fd);
        return TERR_NOMEM;
    }
    if (!is_unix)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    err = is_unix ? uv_pipe_open(&s->uv.pipe, fd) : uv_tcp_open(&s->uv.tcp, fd);
    if (err != 0) {
        close(fd);
        uv_close(&s->uv.handle, stream_on_closed);
        return terr_from_errno(err);
    }
    stream_start(s);
    *out = s;
    return 0;
}

int
stream_accept(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    return stream_accept_as(out, l, fd, is_unix, false, owner);
}

int
stream_accept_secure(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    return stream_accept_as(out, l, fd, is_unix, true, owner);
}

/* Bytes may have come while the stream had another owner or none.  libuv reports them once only,
 * so the new owner is woken for them here. */
void
stream_set_owner(struct stream *s, struct task *owner)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(owner != NULL);
    s->of.owner = owner;
    if (s->rx_len > 0 || s->ended != 0)
        task_wake(owner);
}

static void
stream_on_connect(uv_connect_t *req, int status)
{
    struct write_op *op = container_of(req, struct write_op, req.connect);
    struct stream *s = req->data;

    if (s == NULL) { /* closed meanwhile; its memory goes after this */
        s = container_of(req->handle, struct stream, uv.stream);
        stream_op_give(stream_loop(s), op);
        return;
    }
    s->op = NULL;
    stream_op_give(stream_loop(s), op);
    s->connect_err = terr_from_errno(status);
    if (status == 0)
        stream_start(s);
    if (status == 0 && s->is_secure) {
        s->connect_err = TERR_AGAIN; /* until the handshake is complete */
        stream_secure_on_connected(s);
        return;
    }
    task_wake(s->of.owner);
}

/* The stream's memory goes back through uv_close() on every failure after stream_new().  A
 * failure that libuv knows later (ECONNREFUSED) is not returned here: it is
 * stream_connected()'s. */
int
stream_connect(
    struct stream **out, struct loop *l, const struct stream_target *to, struct task *owner)
{
    struct net_loop *nl = net_loop_of(l);
    struct stream *s = stream_new(nl, to->path != NULL, to->secure != NULL, owner);
    struct write_op *op = NULL;
    int err = 0;

    if (s == NULL)
        return TERR_NOMEM;
    if (to->secure == NULL || stream_secure_connect(s, to) == 0)
        op = stream_op_take(nl);
    if (op == NULL) {
        if (to->secure != NULL)
            stream_secure_close(s, false);
        uv_close(&s->uv.handle, stream_on_closed);
        return TERR_NOMEM;
    }
    s->op = op;
    s->connect_err = TERR_AGAIN;
    op->req.connect.data = s;
    if (to->path != NULL) {
        uv_pipe_connect(&op->req.connect, &s->uv.pipe, to->path, stream_on_connect);
    } else {
        tassert(to->addr.ss_family == AF_INET || to->addr.ss_family == AF_INET6);
        /* libuv remembers it, and sets it when uv_tcp_connect() has made the socket. */
        uv_tcp_nodelay(&s->uv.tcp, 1);
        err = uv_tcp_connect(
            &op->req.connect, &s->uv.tcp, (const struct sockaddr *)&to->addr, stream_on_connect);
    }
    if (err != 0) {
        s->op = NULL;
        stream_op_give(nl, op);
        if (to->secure != NULL)
            stream_secure_close(s, false);
        uv_close(&s->uv.handle, stream_on_closed);
        return terr_from_errno(err);
    }
    *out = s;
    return 0;
}

/* The turn's end would otherwise set an option on memory that is another stream's by then. */
static void
stream_forget_cork(struct stream *s)
{
    struct net_loop *nl = stream_loop(s);

    for (unsigned i = 0; i < nl->ncorked; i++)
        if (nl->corked[i] == s)
            nl->corked[i] = NULL;
}

static void
stream_end(struct stream **sp, bool orderly)
{
    struct stream *s;

    OBJ_TAKE(s, sp, STREAM_MAGIC);
    if (s->is_secure)
        stream_secure_close(s, orderly);
    if (s->rx_len > 0 && s->slab != NULL)
        net_slab_release(stream_loop(s), s->slab);
    stream_forget_cork(s); /* the end takes along what is held back */
    if (s->op != NULL) {
        /* libuv cancels it in its closing phase, when we are no longer here. */
        s->op->req.write.data = NULL;
        s->op = NULL;
    }
    uv_close(&s->uv.handle, stream_on_closed);
}

/* What the owner has posted or lent is the owner's again when this returns; libuv's callbacks
 * that still come find no owner. */
void
stream_close(struct stream **sp)
{
    stream_end(sp, true);
}

/* With a linger time of 0, close(2) sends RST and drops what is queued (socket(7)).  A Unix
 * socket ignores the option. */
void
stream_reset(struct stream **sp)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt((*sp)->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    stream_end(sp, false);
}

int
stream_connected(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->connect_err;
}

struct span
stream_received(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return (struct span){s->rx_ptr, s->rx_len};
}

/* The slab is used again once all its streams have consumed, so from here on no slice of the
 * bytes may be looked at. */
void
stream_consume(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->slab != NULL)
        net_slab_release(stream_loop(s), s->slab);
    s->slab = NULL;
    s->rx_ptr = NULL;
    s->rx_len = 0;
    if (__builtin_expect(s->more_in, 0))
        stream_secure_read_on(s);
}

void
stream_skip(struct stream *s, size_t n)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(n <= s->rx_len);
    s->rx_ptr += n;
    s->rx_len -= (uint32_t)n;
    if (s->rx_len == 0)
        stream_consume(s);
}

/* Into a slab: so who reads them next need not know, and they are the turn's as any. */
int
stream_unread(struct stream *s, struct slice bytes)
{
    struct net_loop *nl = stream_loop(s);
    char *to;
    size_t room;

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(!s->is_secure && s->rx_len == 0 && bytes.len > 0 && bytes.len <= LIMIT_READ_MIN);
    to = net_slab_room(nl, &room);
    if (to == NULL)
        return nl->nslabs < LIMIT_READ_SLABS ? TERR_NOMEM : TERR_AGAIN;
    memcpy(to, bytes.ptr, bytes.len);
    s->rx_ptr = to;
    s->rx_len = (uint32_t)bytes.len;
    s->slab = net_slab_use(nl, bytes.len);
    s->posted = false;
    task_wake(s->of.owner);
    return 0;
}

int
stream_ended(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->ended;
}

/* A posted room avoids a copy: the kernel writes a body where it stays.  It is used for one
 * read; the owner posts the next one. */
void
stream_post(struct stream *s, struct span room)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(room.len > 0);
    s->room_ptr = room.ptr;
    s->room_len = room.len < STREAM_ROOM_MAX ? (uint32_t)room.len : STREAM_ROOM_MAX;
    s->posted = true;
}

void
stream_set_read_max(struct stream *s, size_t bytes)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->read_max = bytes < STREAM_ROOM_MAX ? (uint32_t)bytes : STREAM_ROOM_MAX;
}

void
stream_unpost(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->posted = false;
}

bool
stream_pull(struct stream *s)
{
    ssize_t n;

    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->is_secure)
        return false; /* what has come is decrypted without being asked */
    tassert(s->posted && s->rx_len == 0);
    if (!s->reading)
        return false;
    do
        n = recv(s->fd, s->room_ptr, s->room_len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        s->ended = stream_end_of(s, -errno); /* an error is reported once */
        stream_pause(s);
        task_wake(s->of.owner);
    }
    if (n <= 0)
        return false; /* an end is read again by the loop */
    s->rx_ptr = s->room_ptr;
    s->rx_len = (uint32_t)n;
    s->posted = false;
    s->slab = NULL;
    return true;
}

void
stream_pause(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->reading)
        uv_read_stop(&s->uv.stream);
    s->reading = false;
    if (s->is_secure)
        stream_secure_on_pause(s);
}

/* Idempotent.  Not after an end: libuv would report it again in each turn. */
void
stream_resume(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->reading || s->ended != 0)
        return;
    if (!s->is_secure || stream_secure_on_resume(s))
        stream_start_reading(s);
}

void
stream_start_reading(struct stream *s)
{
    s->reading = uv_read_start(&s->uv.stream, stream_on_alloc, stream_on_read) == 0;
}

/* Our threads are never cancelled.  The library's call is a cancellation point, which takes three
 * times as long for nothing.  The sanitizers watch the library's call. */
static ssize_t
stream_sendmsg(int fd, const struct msghdr *msg, int flags)
{
#if defined(TARN_LIBC_MALLOC)
    return sendmsg(fd, msg, flags);
#else
    return syscall(SYS_sendmsg, fd, msg, flags);
#endif
}

/* False: so many streams hold something back in this turn that there is no place for one more;
 * it then sends at once, which costs a packet and loses nothing. */
bool
stream_note_corked(struct stream *s)
{
    struct net_loop *nl = stream_loop(s);

    if (nl->ncorked == ARRAY_LEN(nl->corked))
        return false;
    s->corked = true;
    if (nl->ncorked == 0 || nl->corked[nl->ncorked - 1] != s)
        nl->corked[nl->ncorked++] = s;
    return true;
}

/* The flag, and a note for the end of the turn, if there is room for one.  AF_UNIX ignores the flag:
 * every write is a message of its own there, and is never held back. */
static __attribute__((noinline)) int
stream_cork(struct stream *s)
{
    return !s->is_unix && stream_note_corked(s) ? MSG_MORE : 0;
}

/* The kernel would wait 200 ms for what did not follow.  TCP_NODELAY, which is set already, pushes
 * when it is set again, MSG_MORE or not (tcp(7), __tcp_sock_set_nodelay). */
void
net_stream_uncork_all(struct net_loop *nl)
{
    int on = 1;

    for (unsigned i = 0; i < nl->ncorked; i++) {
        struct stream *s = nl->corked[i];

        if (s == NULL)
            continue; /* closed meanwhile */
        OBJ_CHECK(s, STREAM_MAGIC);
        if (s->is_secure)
            stream_secure_flush(s);
        else if (s->corked)
            setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        s->corked = false;
    }
    nl->ncorked = 0;
}

static inline ssize_t
stream_send(struct stream *s, const struct iovec *iov, unsigned n, int flags)
{
    struct msghdr msg = {.msg_iovlen = n};
    ssize_t sent;

    memcpy(&msg.msg_iov, &iov, sizeof(iov)); /* sendmsg only reads them */
    do
        sent = stream_sendmsg(s->fd, &msg, flags);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t
stream_send_plain(struct stream *s, const struct iovec *iov, unsigned n, int flags)
{
    return stream_send(s, iov, n, flags);
}

/* AF_UNIX copies into pieces of its own, which begin on a page.  A head in front of a large body would
 * shift all of its bytes against them, and the copy takes a fifth longer: so it goes before. */
static __attribute__((noinline)) ssize_t
stream_send_unix(struct stream *s, const struct iovec *iov, unsigned n, int flags)
{
    unsigned small = 0;
    size_t front = 0;
    ssize_t sent;

    for (; small < n && iov[small].iov_len < STREAM_LARGE; small++)
        front += iov[small].iov_len;
    if (small == 0 || small == n)
        return stream_send(s, iov, n, flags);
    sent = stream_send(s, iov, small, flags);
    if (sent != (ssize_t)front)
        return sent;
    sent = stream_send(s, iov + small, n - small, flags);
    return sent < 0 ? (ssize_t)front : (ssize_t)front + sent; /* an error comes again */
}

/* One system call and no allocation: what a hit needs when the client keeps up.  An error is
 * kept, because the kernel reports a socket's error once only. */
ssize_t
stream_try(struct stream *s, const struct iovec *iov, unsigned n, bool more)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    ssize_t sent;

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(n > 0 && n <= LIMIT_WRITE_IOV);
    tassert(s->op == NULL);
    if (s->write_err != 0)
        return s->write_err;
    if (__builtin_expect(s->is_secure, 0))
        return stream_secure_try(s, iov, n, more);
    s->corked = false;
    if (more)
        flags |= stream_cork(s);
    if (__builtin_expect(s->is_unix, 0))
        sent = stream_send_unix(s, iov, n, flags);
    else
        sent = stream_send(s, iov, n, flags);
    if (sent >= 0)
        return sent;
    /* ENOBUFS: the kernel is short of memory for the moment.  As with a full socket, the caller
     * queues, and libuv waits until the socket is writable. */
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
        return 0;
    s->write_err = terr_from_errno(-errno);
    return s->write_err;
}

void
stream_on_written(uv_write_t *req, int status)
{
    struct write_op *op = container_of(req, struct write_op, req.write);
    struct stream *s = req->data;

    if (s == NULL) { /* closed meanwhile; its memory goes after this */
        s = container_of(req->handle, struct stream, uv.stream);
        stream_op_give(stream_loop(s), op);
        return;
    }
    s->op = NULL;
    stream_op_give(stream_loop(s), op);
    if (status < 0)
        s->write_err = terr_from_errno(status);
    if (s->is_secure)
        stream_secure_on_written(s);
    else
        task_wake(s->of.owner);
}

/* A write that failed here, and not at the peer, who waits for it: its answer will never come, and so the
 * reader has its end, too. */
static ssize_t
stream_queue_fail(struct stream *s, int err)
{
    s->write_err = (int16_t)err;
    if (s->ended == 0) {
        stream_pause(s);
        s->ended = (int16_t)err;
        task_wake(s->of.owner);
    }
    return err;
}

/* For what stream_try() left.  Bounded in bytes, so that a slow client pins 64 KiB of us and no
 * more, and in buffers, because libuv copies up to four of them into the request and allocates
 * for more. */
ssize_t
stream_queue(struct stream *s, const struct iovec *iov, unsigned n)
{
    uv_buf_t bufs[LIMIT_QUEUE_IOV];
    size_t total = 0;
    unsigned k = 0;
    struct write_op *op;
    int err;

    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->is_secure)
        return stream_secure_queue(s, iov, n);
    tassert(s->op == NULL && n > 0);
    for (; k < n && k < LIMIT_QUEUE_IOV && total < LIMIT_UNSENT_BYTES; k++) {
        size_t len = iov[k].iov_len;

        if (len > LIMIT_UNSENT_BYTES - total)
            len = LIMIT_UNSENT_BYTES - total;
        bufs[k] = uv_buf_init(iov[k].iov_base, (unsigned)len);
        total += len;
    }
    op = stream_op_take(stream_loop(s));
    if (op == NULL)
        return stream_queue_fail(s, TERR_NOMEM);
    op->req.write.data = s;
    s->corked = false; /* libuv says nothing of more */
    err = uv_write(&op->req.write, &s->uv.stream, bufs, k, stream_on_written);
    if (err != 0) {
        stream_op_give(stream_loop(s), op);
        return stream_queue_fail(s, terr_from_errno(err));
    }
    s->op = op;
    return (ssize_t)total;
}

/* A connect uses the same `op`: it does not count as sending. */
bool
stream_sending(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return (s->op != NULL && s->connect_err == 0) ||
           (s->is_secure && stream_secure(s)->queue != NULL);
}

size_t
stream_unsent(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return uv_stream_get_write_queue_size(&s->uv.stream) +
           (s->is_secure && stream_secure(s)->queue != NULL ? stream_secure(s)->queue->bytes : 0);
}

/* For a pooled connection, just before a request goes out on it: an end or a stray byte that
 * epoll has not reported yet would cost that request.  EAGAIN alone says that the peer is silent
 * and there. */
bool
stream_quiet(struct stream *s)
{
    char byte;

    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->is_secure && !stream_secure_quiet(s))
        return false;
    return s->rx_len == 0 && s->ended == 0 && recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

int
stream_write_error(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->write_err;
}

/* shutdown(2) and not uv_shutdown(): the callers have made sure that nothing is queued, so there
 * is no operation to wait for. */
void
stream_shut(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->is_secure)
        stream_secure_shut(s);
    shutdown(s->fd, SHUT_WR);
}

struct secure *
stream_get_secure(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->is_secure ? stream_secure(s)->layer : NULL;
}

bool
stream_is_early(const struct stream *s)
{
    const struct secure *layer = stream_get_secure(s);

    return layer != NULL && layer->early != NULL && *layer->early;
}

static void
stream_say_address(const struct sockaddr_storage *ss, struct stream_peer *out)
{
    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)ss;

        out->addr[10] = out->addr[11] = 0xff;
        memcpy(out->addr + 12, &in->sin_addr, 4);
        out->port = ntohs(in->sin_port);
    } else if (ss->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

        memcpy(out->addr, &in6->sin6_addr, 16);
        out->port = ntohs(in6->sin6_port);
    }
    address_text(out->addr, out->text);
}

void
stream_get_peer(const struct stream *s, struct stream_peer *out)
{
    struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(ss);

    OBJ_CHECK(s, STREAM_MAGIC);
    *out = (struct stream_peer){.text = "unix"};
    if (!s->is_unix && getpeername(s->fd, (struct sockaddr *)&ss, &len) == 0)
        stream_say_address(&ss, out);
}

void
stream_get_local(const struct stream *s, struct stream_peer *out)
{
    struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(ss);

    OBJ_CHECK(s, STREAM_MAGIC);
    *out = (struct stream_peer){.text = "unix"};
    if (!s->is_unix && getsockname(s->fd, (struct sockaddr *)&ss, &len) == 0)
        stream_say_address(&ss, out);
}
