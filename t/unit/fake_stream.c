/* fake_stream.c -- net/stream.h in memory. */
#include "t/unit/fake_stream.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/terr.h"

enum {
    FAKE_BYTES = 1 << 19 /* in each direction of a stream */
};

struct stream {
    struct stream *next; /* all of the loop */
    struct task *owner;
    bool closed, was_reset, shut, paused, posted, rx_posted;
    int end, ended, connect_err, write_err, unread_err;
    unsigned unread_fails;
    struct secure *layer; /* its handshake is complete at once, and bytes are not changed */
    struct span rx, room;
    char *rx_block; /* rx lies in it; NULL: in the posted room */
    size_t read_max;
    char *in; /* on the wire to us */
    size_t in_len, in_at;
    char *out; /* what the peer got */
    size_t out_len, takes;
    unsigned packets;
    bool held; /* the last one is open: MORE */
    struct iovec queue[LIMIT_QUEUE_IOV];
    unsigned nqueue, queue_at;
};

struct stream *fake_newest;
static struct stream *fake_streams;

static void
fake_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    (void)w;
    (void)at_ms;
}

static void
fake_wake(struct inbox *in)
{
    (void)in;
}

void
fake_loop_open(struct loop *l)
{
    memset(l, 0, sizeof(*l));
    l->clock.mono_ms = 1000;
    task_queue_init(&l->tasks);
    inbox_init(&l->inbox, fake_wake);
    timer_wheel_init(&l->wheel, l->clock.mono_ms, fake_rearm);
    arena_pool_init(&l->arenas, 4, NULL);
}

void
fake_loop_close(struct loop *l)
{
    while (fake_streams != NULL) {
        struct stream *s = fake_streams;

        tassert(s->closed);
        fake_streams = s->next;
        free(s->in);
        free(s->out);
        free(s);
    }
    arena_pool_fini(&l->arenas);
}

/* One read, if there is something to read and somewhere to put it. */
static bool
fake_read(struct stream *s)
{
    size_t n = s->in_len - s->in_at;

    if (s->closed || s->paused || s->connect_err != 0 || s->rx.len > 0 || s->ended != 0)
        return false;
    if (n == 0) {
        if (s->end == 0)
            return false;
        s->ended = s->end;
        task_wake(s->owner);
        return true;
    }
    if (!s->posted && s->read_max > 0 && n > s->read_max)
        n = s->read_max;
    if (n > (s->posted ? s->room.len : LIMIT_READ_SLAB))
        n = s->posted ? s->room.len : LIMIT_READ_SLAB;
    s->rx_block = s->posted ? NULL : malloc(n);
    s->rx = (struct span){s->posted ? s->room.ptr : s->rx_block, n};
    s->rx_posted = s->posted;
    s->posted = false;
    memcpy(s->rx.ptr, s->in + s->in_at, n);
    s->in_at += n;
    task_wake(s->owner);
    return true;
}

static void
fake_packet(struct stream *s, bool more)
{
    if (!s->held)
        s->packets++;
    s->held = more;
}

/* The kernel takes from the queued write.  Returns whether that is done. */
static bool
fake_write(struct stream *s)
{
    if (s->nqueue == 0 || s->closed)
        return false;
    while (s->queue_at < s->nqueue && s->takes > 0) {
        struct iovec *iov = &s->queue[s->queue_at];
        size_t n = iov->iov_len < s->takes ? iov->iov_len : s->takes;

        tassert(s->out_len + n < FAKE_BYTES && !s->shut);
        fake_packet(s, false);
        memcpy(s->out + s->out_len, iov->iov_base, n);
        s->out_len += n;
        if (s->takes != SIZE_MAX)
            s->takes -= n;
        iov->iov_base = (char *)iov->iov_base + n;
        iov->iov_len -= n;
        if (iov->iov_len == 0)
            s->queue_at++;
    }
    if (s->queue_at < s->nqueue)
        return false;
    s->nqueue = s->queue_at = 0;
    task_wake(s->owner);
    return true;
}

void
fake_run(struct loop *l)
{
    bool moved;

    do {
        moved = false;
        tassert(!task_queue_run(&l->tasks, LIMIT_TASKS_PER_TURN)); /* else something spins */
        for (struct stream *s = fake_streams; s != NULL; s = s->next) {
            s->held = false; /* the turn is over */
            moved = fake_write(s) || moved;
            moved = fake_read(s) || moved;
        }
    } while (moved);
}

void
fake_pass(struct loop *l, unsigned ms)
{
    l->clock.mono_ms += ms;
    timer_wheel_run(&l->wheel, l->clock.mono_ms);
    fake_run(l);
}

void
fake_arrive(struct stream *s, const char *bytes, size_t len)
{
    if (s->in_at == s->in_len) /* all of it was read */
        s->in_at = s->in_len = 0;
    tassert(s->in_len + len <= FAKE_BYTES && s->end == 0);
    memcpy(s->in + s->in_len, bytes, len);
    s->in_len += len;
}

void
fake_end(struct stream *s, int err)
{
    s->end = err;
}

void
fake_connect(struct stream *s, int err)
{
    s->connect_err = err;
    task_wake(s->owner);
}

void
fake_take(struct stream *s, size_t bytes)
{
    s->takes = bytes;
}

void
fake_refuse(struct stream *s, int err)
{
    s->write_err = err;
}

void
fake_fail_unread(struct stream *s, int err, unsigned times)
{
    s->unread_err = err;
    s->unread_fails = times;
}

const char *
fake_got(const struct stream *s)
{
    s->out[s->out_len] = '\0';
    return s->out;
}

size_t
fake_got_len(const struct stream *s)
{
    return s->out_len;
}

void
fake_got_clear(struct stream *s)
{
    s->out_len = 0;
}

unsigned
fake_packets(const struct stream *s)
{
    return s->packets;
}

bool
fake_is_closed(const struct stream *s)
{
    return s->closed;
}

bool
fake_is_reset(const struct stream *s)
{
    return s->was_reset;
}

bool
fake_is_shut(const struct stream *s)
{
    return s->shut;
}

bool
fake_is_paused(const struct stream *s)
{
    return s->paused;
}

size_t
fake_waiting(const struct stream *s)
{
    return s->in_len - s->in_at;
}

/* ---- net/stream.h ---- */

static struct stream *
fake_new(struct task *owner)
{
    struct stream *s = calloc(1, sizeof(*s));

    tassert(s != NULL);
    s->owner = owner;
    s->in = malloc(FAKE_BYTES);
    s->out = malloc(FAKE_BYTES);
    tassert(s->in != NULL && s->out != NULL);
    s->takes = SIZE_MAX;
    s->next = fake_streams;
    return fake_streams = fake_newest = s;
}

int
stream_accept(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    (void)l;
    (void)is_unix;
    (void)fd;
    *out = fake_new(owner);
    return 0;
}

void
stream_set_owner(struct stream *s, struct task *owner)
{
    tassert(owner != NULL);
    s->owner = owner;
    if (s->rx.len > 0 || s->ended != 0)
        task_wake(owner);
}

int
stream_connect(
    struct stream **out, struct loop *l, const struct stream_target *to, struct task *owner)
{
    (void)l;
    (void)to;
    *out = fake_new(owner);
    (*out)->connect_err = TERR_AGAIN;
    return 0;
}

void
stream_close(struct stream **sp)
{
    struct stream *s = *sp;

    tassert(!s->closed);
    *sp = NULL;
    if (s->rx.len > 0)
        stream_consume(s);
    s->closed = true;
    s->nqueue = 0;
}

void
stream_reset(struct stream **sp)
{
    (*sp)->was_reset = true;
    stream_close(sp);
}

int
stream_connected(const struct stream *s)
{
    return s->connect_err;
}

struct span
stream_received(const struct stream *s)
{
    return s->rx;
}

void
stream_consume(struct stream *s)
{
    if (!s->rx_posted)
        free(s->rx_block);
    s->rx_block = NULL;
    s->rx = (struct span){NULL, 0};
}

void
stream_skip(struct stream *s, size_t n)
{
    tassert(n <= s->rx.len);
    s->rx = (struct span){s->rx.ptr + n, s->rx.len - n};
    if (s->rx.len == 0)
        stream_consume(s);
}

int
stream_unread(struct stream *s, struct slice bytes)
{
    tassert(s->rx.len == 0 && bytes.len > 0);
    if (s->unread_fails > 0) {
        s->unread_fails--;
        return s->unread_err;
    }
    s->rx_block = malloc(bytes.len);
    tassert(s->rx_block != NULL);
    memcpy(s->rx_block, bytes.ptr, bytes.len);
    s->rx = (struct span){s->rx_block, bytes.len};
    s->rx_posted = s->posted = false;
    task_wake(s->owner);
    return 0;
}

int
stream_ended(const struct stream *s)
{
    return s->ended;
}

bool
stream_quiet(struct stream *s)
{
    return s->rx.len == 0 && s->ended == 0 && s->end == 0 && fake_waiting(s) == 0;
}

void
stream_post(struct stream *s, struct span room)
{
    tassert(room.len > 0);
    s->room = room;
    s->posted = true;
}

void
stream_set_read_max(struct stream *s, size_t bytes)
{
    s->read_max = bytes;
}

void
stream_unpost(struct stream *s)
{
    s->posted = false;
}

bool
stream_pull(struct stream *s)
{
    size_t n = s->in_len - s->in_at;

    tassert(s->posted && s->rx.len == 0);
    if (n == 0 || s->paused || s->ended != 0)
        return false;
    if (n > s->room.len)
        n = s->room.len;
    s->rx = (struct span){s->room.ptr, n};
    s->rx_posted = true;
    s->posted = false;
    memcpy(s->rx.ptr, s->in + s->in_at, n);
    s->in_at += n;
    return true;
}

void
stream_pause(struct stream *s)
{
    s->paused = true;
}

void
stream_resume(struct stream *s)
{
    s->paused = false;
}

ssize_t
stream_try(struct stream *s, const struct iovec *iov, unsigned n, bool more)
{
    size_t sent = 0;

    tassert(s->nqueue == 0 && !s->shut && n > 0 && n <= LIMIT_WRITE_IOV);
    if (s->write_err != 0)
        return s->write_err;
    for (unsigned i = 0; i < n && s->takes > 0; i++) {
        size_t len = iov[i].iov_len < s->takes ? iov[i].iov_len : s->takes;

        tassert(s->out_len + len < FAKE_BYTES);
        memcpy(s->out + s->out_len, iov[i].iov_base, len);
        s->out_len += len;
        sent += len;
        if (s->takes != SIZE_MAX)
            s->takes -= len;
    }
    if (sent > 0)
        fake_packet(s, more);
    return (ssize_t)sent;
}

ssize_t
stream_queue(struct stream *s, const struct iovec *iov, unsigned n)
{
    size_t total = 0;
    unsigned k = 0;

    tassert(s->nqueue == 0 && n > 0);
    for (; k < n && k < LIMIT_QUEUE_IOV && total < LIMIT_UNSENT_BYTES; k++) {
        s->queue[k] = iov[k];
        if (s->queue[k].iov_len > LIMIT_UNSENT_BYTES - total)
            s->queue[k].iov_len = LIMIT_UNSENT_BYTES - total;
        total += s->queue[k].iov_len;
    }
    s->nqueue = k;
    s->queue_at = 0;
    return (ssize_t)total;
}

bool
stream_sending(const struct stream *s)
{
    return s->nqueue > 0;
}

size_t
stream_unsent(const struct stream *s)
{
    size_t n = 0;

    for (unsigned i = s->queue_at; i < s->nqueue; i++)
        n += s->queue[i].iov_len;
    return n;
}

int
stream_write_error(const struct stream *s)
{
    return s->write_err;
}

void
stream_shut(struct stream *s)
{
    tassert(s->nqueue == 0 && !s->shut);
    s->shut = true;
}

void
stream_get_peer(const struct stream *s, struct stream_peer *out)
{
    (void)s;
    *out = (struct stream_peer){.text = "192.0.2.1",
        .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1},
        .port = 1};
}

void
stream_get_local(const struct stream *s, struct stream_peer *out)
{
    (void)s;
    *out = (struct stream_peer){.text = "192.0.2.1",
        .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1},
        .port = 1};
}

int
stream_accept_secure(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    return stream_accept(out, l, fd, is_unix, owner);
}

void
stream_set_secure(struct stream *s, struct secure **layer)
{
    tassert(s->layer == NULL);
    s->layer = *layer;
    *layer = NULL;
    task_wake(s->owner);
}

struct secure *
stream_get_secure(const struct stream *s)
{
    return s->layer;
}

bool
stream_is_early(const struct stream *s)
{
    (void)s;
    return false;
}
