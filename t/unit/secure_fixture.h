/* secure_fixture.h -- secure streams whose layer is a toy: a real loop, real sockets, turns by hand.
 *
 *     record      a length of two bytes and as many bytes, xor 0x5a; length 0: close_notify
 *     TOY_ASK     in the place of a length: the layer answers TOY_ANSWER (as TLS 1.3's KeyUpdate)
 *     handshake   "HELLO", answered by "OLLEH"; else "ALERT" and TERR_SYNTAX
 *
 * An end is a stream with its owner and the descriptor of its peer, which the test plays.
 */
#ifndef TARN_SECURE_FIXTURE_H
#define TARN_SECURE_FIXTURE_H

#include "t/unit/test.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/rcu.h"
#include "daemon/net/stream_priv.h"

enum {
    TOY_ASK = 0xffff,
    TOY_ANSWER = 0xfffe,
    TOY_RECORDS = 256, /* whose sizes are remembered */
    WIRE_MAX = 4 << 20,
    ENDS = 48,
};

struct toy {
    struct secure base;
    bool server, begun, shut;
    bool waits;            /* the handshake needs what is not there yet */
    struct waiter *waiter; /* that will say when it is; NULL: the test wakes the task */
    unsigned decrypts;
    const char *plain;        /* where that of the last record was */
    size_t made[TOY_RECORDS]; /* bytes of plaintext in each record */
    unsigned nmade;
    char hello[5];
    size_t hello_len;
    char rec[2 + SECURE_RECORD]; /* a record that is not whole, or not delivered */
    size_t rec_len, given;
};

struct end {
    struct stream *s;
    struct toy *toy;            /* borrowed: the stream's */
    int fd, peer;               /* the stream's, the other one; -1: closed */
    struct task task;           /* the owner */
    void (*run)(struct end *e); /* NULL: what is received is got */
    unsigned wakes;
    char *got; /* what the owner received */
    size_t got_len;
    struct span room; /* the owner posts it; NULL: it does not */
    char *wire;       /* what the peer received */
    size_t wire_len, wire_at;
    bool fin; /* and nothing more will come */
};

/* What one test has. */
static struct {
    struct net_loop *net;
    struct loop *loop;
    bool is_unix;
    struct end ends[ENDS];
    unsigned nends;
    unsigned toys;                  /* that live */
    struct toy *steps[TOY_RECORDS]; /* of handshakes, in order */
    unsigned nsteps;
} f;

/* ---- the layer ---- */

static inline struct toy *
toy_of(struct secure *t)
{
    return container_of(t, struct toy, base);
}

static inline void
toy_put(struct secure_io *io, const void *bytes, size_t len)
{
    assert_true(secure_io_put(io, bytes, len));
}

static inline size_t
toy_take(struct secure_io *io, char *to, size_t most)
{
    size_t n = io->in.len < most ? io->in.len : most;

    if (n > 0)
        memcpy(to, io->in.ptr, n);
    io->in.ptr += n;
    io->in.len -= n;
    return n;
}

static inline int
toy_handshake(struct secure *t, struct secure_io *io)
{
    struct toy *toy = toy_of(t);
    const char *want = toy->server ? "HELLO" : "OLLEH";

    CHECK(f.nsteps < TOY_RECORDS);
    f.steps[f.nsteps++] = toy;
    if (!toy->server && !toy->begun)
        toy_put(io, "HELLO", 5);
    toy->begun = true;
    if (toy->waits && io->in.len > 0)
        return TERR_AGAIN;
    toy->hello_len += toy_take(io, toy->hello + toy->hello_len, 5 - toy->hello_len);
    if (memcmp(toy->hello, want, toy->hello_len) != 0) {
        toy_put(io, "ALERT", 5);
        return TERR_SYNTAX;
    }
    if (toy->hello_len < 5)
        return TERR_AGAIN;
    if (toy->server)
        toy_put(io, "OLLEH", 5);
    return 0;
}

/* A whole record, with its length in *len? */
static inline bool
toy_fill(struct toy *toy, struct secure_io *io, size_t *len)
{
    if (toy->rec_len < 2)
        toy->rec_len += toy_take(io, toy->rec + toy->rec_len, 2 - toy->rec_len);
    if (toy->rec_len < 2)
        return false;
    *len = (size_t)(uint8_t)toy->rec[0] << 8 | (uint8_t)toy->rec[1];
    if (*len > SECURE_RECORD)
        return true;
    toy->rec_len += toy_take(io, toy->rec + toy->rec_len, 2 + *len - toy->rec_len);
    return toy->rec_len == 2 + *len;
}

static inline ssize_t
toy_decrypt(struct secure *t, struct secure_io *io, struct span room)
{
    struct toy *toy = toy_of(t);
    size_t n = 0, len;

    CHECK(room.len > 0);
    toy->decrypts++;
    while (n < room.len && toy_fill(toy, io, &len)) {
        if (len == TOY_ASK) {
            toy_put(io, "\xff\xfe", 2);
            toy->rec_len = 0;
            continue;
        }
        if (len == 0 || len > SECURE_RECORD) {
            if (n > 0)
                break; /* the next call says it */
            if (len > 0)
                toy_put(io, "ALERT", 5);
            return len == 0 ? TERR_CLOSED : TERR_FRAMING;
        }
        for (; toy->given < len && n < room.len; toy->given++)
            room.ptr[n++] = toy->rec[2 + toy->given] ^ 0x5a;
        if (toy->given == len)
            toy->rec_len = toy->given = 0;
    }
    return (ssize_t)n;
}

static inline int
toy_encrypt(struct secure *t, struct secure_io *io, struct slice plain)
{
    struct toy *toy = toy_of(t);
    static char record[2 + SECURE_RECORD];

    CHECK(!toy->shut && plain.len > 0 && plain.len <= SECURE_RECORD);
    if (toy->nmade < TOY_RECORDS)
        toy->made[toy->nmade] = plain.len;
    toy->nmade++;
    toy->plain = plain.ptr;
    record[0] = (char)(plain.len >> 8);
    record[1] = (char)plain.len;
    for (size_t i = 0; i < plain.len; i++)
        record[2 + i] = (char)(plain.ptr[i] ^ 0x5a);
    toy_put(io, record, 2 + plain.len);
    return 0;
}

static inline void
toy_shut(struct secure *t, struct secure_io *io)
{
    CHECK(!toy_of(t)->shut);
    toy_of(t)->shut = true;
    toy_put(io, "\0", 2);
}

static inline bool
toy_is_server(const struct secure *t)
{
    return ((const struct toy *)(const void *)t)->server;
}

static inline void
toy_free(struct secure **tp)
{
    free(toy_of(*tp));
    *tp = NULL;
    f.toys--;
}

static const struct secure_ops toy_ops = {.handshake = toy_handshake,
    .decrypt = toy_decrypt,
    .encrypt = toy_encrypt,
    .shut = toy_shut,
    .is_server = toy_is_server,
    .free = toy_free};

static inline struct toy *
toy_new(bool server)
{
    struct toy *toy = calloc(1, sizeof(*toy));

    toy->base.ops = &toy_ops;
    toy->server = server;
    f.toys++;
    return toy;
}

/* ---- the loop ---- */

static inline void
turn(void)
{
    uv_run(&f.net->uv, UV_RUN_NOWAIT);
}

static inline void
turns(unsigned n)
{
    while (n-- > 0)
        turn();
}

static inline void
on_guard(struct task *t)
{
    (void)t;
}

/* A turn in which the loop has something to do, though no socket has: it does not sleep. */
static inline void
turn_awake(void)
{
    struct timer guard;
    struct task task;
    uint64_t from = uv_hrtime();

    task_init(&task, &f.loop->tasks, on_guard);
    timer_init(&guard, &task);
    timer_set(&f.loop->wheel, &guard, loop_deadline(f.loop, 2000));
    uv_run(&f.net->uv, UV_RUN_ONCE);
    timer_unlink(&guard);
    task_cancel(&task);
    CHECK(uv_hrtime() - from < 1000000000);
}

/* Of the loop's memory for reading, what a stream has not given back yet. */
static inline unsigned
slabs_used(void)
{
    unsigned used = f.net->nslabs;

    if (f.net->slab != NULL && f.net->slab->users == 0)
        used--;
    for (const struct read_slab *s = f.net->idle_slabs; s != NULL; s = s->next)
        used--;
    return used;
}

static inline void
loop_begin(bool is_unix)
{
    memset(&f, 0, sizeof(f));
    f.is_unix = is_unix;
    CHECK_EQ(0, net_loop_open(&f.net, 0));
    f.loop = net_loop_base(f.net);
    rcu_join();
    inbox_here = &f.loop->inbox;
}

/* Closes what is open, and sees that nothing is left. */
static inline void
loop_end(void)
{
    for (unsigned i = 0; i < f.nends; i++) {
        struct end *e = &f.ends[i];

        if (e->s != NULL)
            stream_close(&e->s);
        task_cancel(&e->task);
        if (e->peer >= 0)
            close(e->peer);
        free(e->got);
        free(e->wire);
    }
    CHECK_EQ(0, f.toys);
    net_loop_stop(f.net);
    uv_run(&f.net->uv, UV_RUN_DEFAULT);
    if (!rcu_is_online())
        rcu_online();
    inbox_here = NULL;
    rcu_leave();
    net_streams_trim(f.net, 0);
    CHECK_EQ(f.net->secure != NULL ? malloc_usable_size(f.net->secure) : 0,
        f.loop->usage.bytes[USAGE_CONN]);
    net_loop_close(&f.net);
}

static inline void
on_tcp(void (*play)(void))
{
    loop_begin(false);
    play();
    loop_end();
}

static inline void
on_unix(void (*play)(void))
{
    loop_begin(true);
    play();
    loop_end();
}

static inline void
on_both(void (*play)(void))
{
    on_tcp(play);
    on_unix(play);
}

/* ---- the owner ---- */

static inline void
end_receive(struct end *e)
{
    struct span in = stream_received(e->s);

    if (in.len > 0) {
        e->got = realloc(e->got, e->got_len + in.len);
        memcpy(e->got + e->got_len, in.ptr, in.len);
        e->got_len += in.len;
        stream_consume(e->s);
    }
    if (e->room.ptr != NULL && stream_ended(e->s) == 0)
        stream_post(e->s, e->room);
}

static inline void
end_run(struct task *t)
{
    struct end *e = container_of(t, struct end, task);

    e->wakes++;
    if (e->run != NULL)
        e->run(e);
    else if (e->s != NULL)
        end_receive(e);
}

#define GOT(e, text)                             \
    do {                                         \
        CHECK_EQ(strlen(text), (e)->got_len);    \
        CHECK_MEM(text, (e)->got, strlen(text)); \
    } while (0)

/* ---- its connection ---- */

/* `room`: bytes that each side of the kernel keeps, about; 0: as it likes. */
static inline void
end_connect(struct end *e, int room)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    int fds[2], listener;

    if (f.is_unix) {
        CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
        e->fd = fds[0];
        e->peer = fds[1];
    } else {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        e->peer = socket(AF_INET, SOCK_STREAM, 0);
        if (room > 0)
            setsockopt(e->peer, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
        CHECK_EQ(0, bind(listener, (struct sockaddr *)&at, sizeof(at)));
        CHECK_EQ(0, listen(listener, 1));
        CHECK_EQ(0, getsockname(listener, (struct sockaddr *)&at, &len));
        CHECK_EQ(0, connect(e->peer, (struct sockaddr *)&at, sizeof(at)));
        e->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        CHECK(e->fd >= 0);
        close(listener);
    }
    if (room > 0)
        CHECK_EQ(0, setsockopt(e->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
}

static inline struct end *
end_new(int room)
{
    struct end *e = &f.ends[f.nends++];

    CHECK(f.nends <= ENDS);
    task_init(&e->task, &f.loop->tasks, end_run);
    end_connect(e, room);
    return e;
}

/* A stream that may become secure. */
static inline struct end *
end_open(int room)
{
    struct end *e = end_new(room);

    CHECK_EQ(0, stream_accept_secure(&e->s, f.loop, e->fd, f.is_unix, &e->task));
    return e;
}

static inline void
end_secure(struct end *e, bool server)
{
    struct toy *toy = toy_new(server);
    struct secure *layer = &toy->base;

    e->toy = toy;
    stream_set_secure(e->s, &layer);
    CHECK(layer == NULL);
}

/* ---- the peer ---- */

/* Loopback takes its time, too: what follows runs when what was sent is there. */
#define AWAIT(what)                                        \
    do {                                                   \
        for (unsigned i_ = 0; !(what) && i_ < 20000; i_++) \
            usleep(100);                                   \
        CHECK(what);                                       \
    } while (0)

static inline size_t
fd_has(int fd)
{
    int n = 0;

    CHECK_EQ(0, ioctl(fd, FIONREAD, &n));
    return (size_t)n;
}

static inline bool
fd_shows(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    return poll(&p, 1, 0) == 1 && (p.revents & events) != 0;
}

static inline void
peer_sends(struct end *e, const void *bytes, size_t len)
{
    size_t had = e->s != NULL ? fd_has(e->fd) : 0;

    CHECK_EQ(len, send(e->peer, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (e->s != NULL)
        AWAIT(fd_has(e->fd) >= had + len);
}

static inline void
peer_text(struct end *e, const char *text)
{
    peer_sends(e, text, strlen(text));
}

/* The record of `len` bytes, behind what is in `to`; returns where it ends. */
static inline size_t
record_put(char *to, size_t at, const void *plain, size_t len)
{
    to[at++] = (char)(len >> 8);
    to[at++] = (char)len;
    for (size_t i = 0; i < len; i++)
        to[at++] = ((const char *)plain)[i] ^ 0x5a;
    return at;
}

static inline void
peer_record(struct end *e, const char *text)
{
    char rec[2 + SECURE_RECORD];

    peer_sends(e, rec, record_put(rec, 0, text, strlen(text)));
}

/* All that has come to it, up to `most` bytes. */
static inline size_t
peer_reads(struct end *e, size_t most)
{
    size_t got = 0;
    ssize_t n = 0;

    if (e->wire == NULL)
        e->wire = malloc(WIRE_MAX);
    while (got < most) {
        size_t room = WIRE_MAX - e->wire_len;

        n = recv(
            e->peer, e->wire + e->wire_len, room < most - got ? room : most - got, MSG_DONTWAIT);
        if (n <= 0)
            break;
        e->wire_len += (size_t)n;
        got += (size_t)n;
    }
    if (n == 0 && got < most)
        e->fin = true;
    return got;
}

/* The next bytes are these; they are behind it then. */
static inline void
peer_got(struct end *e, const void *bytes, size_t len)
{
    AWAIT((peer_reads(e, WIRE_MAX), e->wire_len - e->wire_at >= len));
    CHECK_MEM(bytes, e->wire + e->wire_at, len);
    e->wire_at += len;
}

static inline void
peer_got_record(struct end *e, const char *text)
{
    char rec[2 + SECURE_RECORD];

    peer_got(e, rec, record_put(rec, 0, text, strlen(text)));
}

static inline void
peer_got_nothing(struct end *e)
{
    peer_reads(e, WIRE_MAX);
    CHECK_EQ(e->wire_at, e->wire_len);
    CHECK(!e->fin);
}

/* The connection's end, with or without close_notify. */
static inline void
peer_got_end(struct end *e, bool notified)
{
    turns(2); /* the descriptor is closed in one */
    if (notified)
        peer_got(e, "\0", 2);
    AWAIT((peer_reads(e, WIRE_MAX), e->fin));
    CHECK_EQ(e->wire_at, e->wire_len);
}

/* Plaintext of the records in the wire from wire_at on, as far as they are whole, behind `to`;
 * sizes in sizes[]; returns how many bytes. */
static inline size_t
peer_plain(struct end *e, char *to)
{
    size_t n = 0, len;

    while (e->wire_len - e->wire_at >= 2) {
        const uint8_t *p = (const uint8_t *)e->wire + e->wire_at;

        len = (size_t)p[0] << 8 | p[1];
        if (len == 0 || len > SECURE_RECORD || e->wire_len - e->wire_at < 2 + len)
            break;
        for (size_t i = 0; i < len; i++)
            to[n++] = (char)(p[2 + i] ^ 0x5a);
        e->wire_at += 2 + len;
    }
    return n;
}

static inline void
peer_ends(struct end *e)
{
    CHECK_EQ(0, shutdown(e->peer, SHUT_WR));
    if (e->s != NULL)
        AWAIT(fd_shows(e->fd, POLLRDHUP));
}

/* Both directions: on AF_UNIX the loop sees it in the turn in which it reads the last bytes. */
static inline void
peer_leaves(struct end *e)
{
    close(e->peer);
    e->peer = -1;
    AWAIT(fd_shows(e->fd, POLLRDHUP | POLLHUP));
}

static inline void
peer_resets(struct end *e)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    CHECK_EQ(0, setsockopt(e->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
    close(e->peer);
    e->peer = -1;
    if (e->s != NULL)
        AWAIT(fd_shows(e->fd, POLLRDHUP | POLLHUP));
}

/* A secure connection whose handshake is over. */
static inline struct end *
end_up(int room, bool server)
{
    struct end *e = end_open(room);

    end_secure(e, server);
    peer_text(e, server ? "HELLO" : "OLLEH");
    for (unsigned i = 0; i < 50 && stream_connected(e->s) == TERR_AGAIN; i++)
        turn();
    CHECK_EQ(0, stream_connected(e->s));
    peer_got(e, server ? "OLLEH" : "HELLO", 5);
    peer_got_nothing(e);
    e->wakes = 0;
    return e;
}

#endif
