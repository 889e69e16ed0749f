/* proxy_net.c -- daemon/net/stream.h over memory. */
#include "t/fuzz/proxy_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/net/stream.h"

#define STREAM_MAGIC OBJ_TAG('w', 'i', 'r', 'e')
struct stream {
    uint32_t magic;
    struct wire *wire;
    struct task *owner;
    int connect_err, ended, write_err;
    bool reading, posted, rx_is_own;
    struct span rx, room;
    size_t read_max;
    struct iovec queue[LIMIT_QUEUE_IOV];
    unsigned nqueue;
};

struct wires wires;

static void
wire_append(struct wire_bytes *b, const void *p, size_t len)
{
    if (b->len + len > b->cap) {
        b->cap = (b->len + len) * 2 + 256;
        b->ptr = realloc(b->ptr, b->cap);
        tassert(b->ptr != NULL);
    }
    if (len > 0)
        memcpy(b->ptr + b->len, p, len);
    b->len += len;
}

void
wires_open(void)
{
    wires = (struct wires){.n = WIRE_CLIENTS, .origin_room = WIRE_ROOM_ALL};
    for (unsigned i = 0; i < WIRE_CLIENTS; i++)
        wires.wire[i] = (struct wire){.index = i, .room = WIRE_ROOM_ALL};
}

static void
wires_free_spent(void)
{
    while (wires.nspent > 0)
        free(wires.spent[--wires.nspent]);
}

void
wires_close(void)
{
    tassert(wires.nstreams == 0);
    wires_free_spent();
    for (unsigned i = 0; i < wires.n; i++) {
        free(wires.wire[i].in.ptr);
        free(wires.wire[i].out.ptr);
    }
    wires.n = 0;
}

void
wire_send(struct wire *w, struct slice bytes)
{
    if (w->in_end == 0 && w->stream != NULL)
        wire_append(&w->in, bytes.ptr, bytes.len);
}

void
wire_end(struct wire *w)
{
    if (w->in_end == 0)
        w->in_end = TERR_CLOSED;
}

void
wire_break(struct wire *w)
{
    if (w->in_end == 0)
        w->in_end = TERR_IO; /* stream.h: no orderly end, so not TERR_CLOSED */
    w->hears_nothing = true;
    w->in.len = w->in_at; /* a reset overtakes what was not read */
}

/* ---- What the kernel and libuv would do ---- */

static bool
stream_poll_connect(struct stream *s)
{
    struct wire *w = s->wire;

    if (s->connect_err != TERR_AGAIN || w->held)
        return false;
    s->connect_err = w->refused;
    s->reading = w->refused == 0;
    task_wake(s->owner);
    return true;
}

static bool
stream_poll_read(struct stream *s)
{
    struct wire *w = s->wire;
    size_t n = w->in.len - w->in_at;

    if (!s->reading || s->rx.len > 0 || s->ended != 0 || s->connect_err != 0)
        return false;
    if (n == 0) {
        if (w->in_end == 0)
            return false;
        s->ended = w->in_end;
        s->reading = false;
        w->end_seen = true;
        task_wake(s->owner);
        return true;
    }
    if (s->posted && n > s->room.len)
        n = s->room.len;
    if (!s->posted && s->read_max > 0 && n > s->read_max)
        n = s->read_max;
    s->rx_is_own = !s->posted;
    s->rx = (struct span){s->posted ? s->room.ptr : malloc(n), n};
    tassert(s->rx.ptr != NULL);
    memcpy(s->rx.ptr, w->in.ptr + w->in_at, n);
    w->in_at += n;
    s->posted = false;
    task_wake(s->owner);
    return true;
}

/* The wire takes what it has room for; returns how much. */
static size_t
stream_put(struct stream *s, const struct iovec *iov, unsigned n)
{
    struct wire *w = s->wire;
    size_t sent = 0;

    tassert(!w->shut);
    for (unsigned i = 0; i < n && w->room > 0; i++) {
        size_t len = iov[i].iov_len < w->room ? iov[i].iov_len : w->room;

        wire_append(&w->out, iov[i].iov_base, len);
        sent += len;
        if (w->room != WIRE_ROOM_ALL)
            w->room -= len;
        if (len < iov[i].iov_len)
            break;
    }
    return sent;
}

static bool
stream_poll_write(struct stream *s)
{
    size_t sent;
    unsigned i = 0;

    if (s->nqueue == 0)
        return false;
    if (s->wire->hears_nothing) {
        s->write_err = terr_from_errno(-EPIPE);
        s->nqueue = 0;
        task_wake(s->owner);
        return true;
    }
    sent = stream_put(s, s->queue, s->nqueue);
    if (sent == 0)
        return false;
    for (; i < s->nqueue && sent >= s->queue[i].iov_len; i++)
        sent -= s->queue[i].iov_len;
    memmove(s->queue, s->queue + i, (s->nqueue - i) * sizeof(s->queue[0]));
    s->nqueue -= i;
    if (s->nqueue > 0) {
        s->queue[0].iov_base = (char *)s->queue[0].iov_base + sent;
        s->queue[0].iov_len -= sent;
        return true;
    }
    task_wake(s->owner);
    return true;
}

bool
wires_poll(void)
{
    bool any = false;

    wires_free_spent();

    for (unsigned i = 0; i < wires.n; i++) {
        struct stream *s = wires.wire[i].stream;

        if (s == NULL)
            continue;
        any = stream_poll_connect(s) || any;
        any = stream_poll_write(s) || any;
        any = stream_poll_read(s) || any;
    }
    return any;
}

/* ---- stream.h ---- */

static struct stream *
stream_new(struct wire *w, struct task *owner)
{
    struct stream *s = calloc(1, sizeof(*s));

    tassert(s != NULL && w->stream == NULL);
    s->magic = STREAM_MAGIC;
    s->wire = w;
    s->owner = owner;
    w->stream = s;
    wires.nstreams++;
    return s;
}

/* The descriptor is the number of the client's wire. */
int
stream_accept(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    (void)l;
    (void)is_unix;
    tassert(fd >= 0 && fd < WIRE_CLIENTS);
    *out = stream_new(&wires.wire[fd], owner);
    (*out)->reading = true;
    return 0;
}

int
stream_connect(
    struct stream **out, struct loop *l, const struct stream_target *to, struct task *owner)
{
    enum wire_connect how = wires.next_connect;
    struct wire *w = &wires.wire[wires.n];

    (void)l;
    (void)to;
    wires.next_connect = WIRE_CONNECT_UP;
    if (how == WIRE_CONNECT_FAILS || wires.n == WIRES_MAX)
        return terr_from_errno(-ENETUNREACH);
    *w = (struct wire){.index = wires.n++, .room = wires.origin_room};
    w->held = how == WIRE_CONNECT_NEVER;
    if (how == WIRE_CONNECT_REFUSED)
        w->refused = terr_from_errno(-ECONNREFUSED);
    *out = stream_new(w, owner);
    (*out)->connect_err = TERR_AGAIN;
    return 0;
}

void
stream_close(struct stream **sp)
{
    struct stream *s;

    OBJ_TAKE(s, sp, STREAM_MAGIC);
    if (s->rx.len > 0)
        stream_consume(s);
    s->wire->stream = NULL;
    wires.nstreams--;
    OBJ_FREE(s);
}

void
stream_reset(struct stream **sp)
{
    (*sp)->wire->was_reset = true;
    stream_close(sp);
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
    return s->rx;
}

void
stream_consume(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    if (s->rx_is_own) {
        tassert(wires.nspent < 2 * WIRES_MAX); /* one read of a stream a poll */
        wires.spent[wires.nspent++] = s->rx.ptr;
    }
    s->rx_is_own = false;
    s->rx = (struct span){NULL, 0};
}

void
stream_skip(struct stream *s, size_t n)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    (void)n;
    TUNREACHABLE("no listener of the fuzzer expects PROXY headers");
}

int
stream_unread(struct stream *s, struct slice bytes)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    (void)bytes;
    TUNREACHABLE("no listener of the fuzzer has h2c");
}

void
stream_set_owner(struct stream *s, struct task *owner)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->owner = owner;
    if (s->rx.len > 0 || s->ended != 0)
        task_wake(owner);
}

int
stream_ended(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->ended;
}

bool
stream_quiet(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->rx.len == 0 && s->ended == 0 && s->wire->in_at == s->wire->in.len &&
           s->wire->in_end == 0;
}

void
stream_post(struct stream *s, struct span room)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(room.len > 0);
    s->room = room;
    s->posted = true;
}

void
stream_set_read_max(struct stream *s, size_t bytes)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->read_max = bytes;
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
    struct wire *w = s->wire;
    size_t n = w->in.len - w->in_at;

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(s->posted && s->rx.len == 0);
    if (!s->reading || n == 0)
        return false;
    s->rx = (struct span){s->room.ptr, n < s->room.len ? n : s->room.len};
    memcpy(s->rx.ptr, w->in.ptr + w->in_at, s->rx.len);
    w->in_at += s->rx.len;
    s->posted = s->rx_is_own = false;
    return true;
}

void
stream_pause(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->reading = false;
}

void
stream_resume(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->reading = s->ended == 0;
}

ssize_t
stream_try(struct stream *s, const struct iovec *iov, unsigned n, bool more)
{
    (void)more;
    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(n > 0 && n <= LIMIT_WRITE_IOV);
    tassert(s->nqueue == 0 && s->connect_err == 0);
    if (s->write_err == 0 && s->wire->hears_nothing)
        s->write_err = terr_from_errno(-EPIPE);
    return s->write_err != 0 ? s->write_err : (ssize_t)stream_put(s, iov, n);
}

ssize_t
stream_queue(struct stream *s, const struct iovec *iov, unsigned n)
{
    size_t total = 0;

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(s->nqueue == 0 && n > 0);
    for (unsigned k = 0; k < n && k < LIMIT_QUEUE_IOV && total < LIMIT_UNSENT_BYTES; k++) {
        size_t len = iov[k].iov_len;

        if (len > LIMIT_UNSENT_BYTES - total)
            len = LIMIT_UNSENT_BYTES - total;
        s->queue[s->nqueue++] = (struct iovec){iov[k].iov_base, len};
        total += len;
    }
    return (ssize_t)total;
}

bool
stream_sending(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->nqueue > 0;
}

size_t
stream_unsent(const struct stream *s)
{
    size_t total = 0;

    OBJ_CHECK(s, STREAM_MAGIC);
    for (unsigned i = 0; i < s->nqueue; i++)
        total += s->queue[i].iov_len;
    return total;
}

int
stream_write_error(const struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    return s->write_err;
}

void
stream_shut(struct stream *s)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    s->wire->shut = true;
    s->wire->in_at_shut = s->wire->in_at;
}

/* 192.0.2.1, 192.0.2.2 ...: X-Forwarded-For tells whose request an origin got. */
void
stream_get_peer(const struct stream *s, struct stream_peer *out)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    *out = (struct stream_peer){.port = (uint16_t)(1024 + s->wire->index)};
    snprintf(out->text, sizeof(out->text), "192.0.2.%u", s->wire->index + 1);
    out->addr[10] = out->addr[11] = 0xff;
    out->addr[12] = 192;
    out->addr[14] = 2;
    out->addr[15] = (uint8_t)(s->wire->index + 1);
}

void
stream_get_local(const struct stream *s, struct stream_peer *out)
{
    OBJ_CHECK(s, STREAM_MAGIC);
    *out = (struct stream_peer){.port = (uint16_t)(1024 + s->wire->index)};
    snprintf(out->text, sizeof(out->text), "192.0.2.%u", s->wire->index + 1);
    out->addr[10] = out->addr[11] = 0xff;
    out->addr[12] = 192;
    out->addr[14] = 2;
    out->addr[15] = (uint8_t)(s->wire->index + 1);
}

/* These streams are plain ones. */
int
stream_accept_secure(struct stream **out, struct loop *l, int fd, bool is_unix, struct task *owner)
{
    return stream_accept(out, l, fd, is_unix, owner);
}

void
stream_set_secure(struct stream *s, struct secure **layer)
{
    (void)s;
    (void)layer;
    tassert(false);
}

struct secure *
stream_get_secure(const struct stream *s)
{
    (void)s;
    return NULL;
}

bool
stream_is_early(const struct stream *s)
{
    (void)s;
    return false;
}
