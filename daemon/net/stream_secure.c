/* stream_secure.c -- a stream's bytes through its secure layer: what arrives, what is sent, the
 * handshake.
 *
 * Everything happens in the stream's own task, or in an operation of its owner; libuv's callbacks
 * only note what came.  Ciphertext never waits in the layer: it lies in the slab that it was read into,
 * or leaves from memory that all secure streams of the loop share, in the turn in which it was made. */
#include "daemon/net/stream_priv.h"

#include <errno.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    EARLY_RECORD = 4096,   /* a reader has its first bytes after three packets, not twelve */
    EARLY_BYTES = 65536,   /* from here on a sender's window is large: Grigorik, 2013 */
    EARLY_AFTER_MS = 1000, /* of silence: TCP's window begins anew then (RFC 9293 3.8.6.2) */
    DIRECT_LEAST = 8192,   /* what is copied with less than a call costs */
    SEND_CHUNK = 16384,    /* ciphertext in one call */
    SHORT_LEAST = 65536,   /* what is not longer has room in a socket that was empty */
    SHORT_ASK = 4,         /* short records between two looks at the socket's room */
    ROOM_LEAST = SEND_CHUNK + SECURE_RECORD_MORE + EARLY_RECORD + SECURE_RECORD_MORE,
};
_Static_assert(SEND_CHUNK + SECURE_RECORD + SECURE_RECORD_MORE <= SECURE_FLIGHT_MAX,
    "the record that fills a chunk has room");

static struct stream *
secure_stream(struct stream_secure *x)
{
    return x->stream;
}

static struct usage *
secure_usage(const struct stream *s)
{
    return &stream_loop(s)->base.usage;
}

static struct net_secure *
secure_shared(const struct stream *s)
{
    return stream_loop(s)->secure;
}

static struct secure_io
secure_io_begin(const struct stream *s)
{
    const struct stream_secure *x = stream_secure(s);

    return (struct secure_io){.in = slice_of(x->in_ptr, x->in_len),
        .out = secure_shared(s)->out,
        .out_max = SECURE_FLIGHT_MAX};
}

/* ---- what arrives ---- */

static void
secure_in_release(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    if (x->in_slab != NULL)
        net_slab_release(stream_loop(s), x->in_slab);
    usage_free(secure_usage(s), USAGE_READ, x->kept);
    x->in_slab = NULL;
    x->kept = x->in_ptr = NULL;
    x->in_len = 0;
}

/* So much of it is left behind what the layer took. */
static void
secure_in_taken(struct stream *s, const struct secure_io *io)
{
    struct stream_secure *x = stream_secure(s);

    tassert(io->in.len <= x->in_len);
    x->in_ptr += x->in_len - io->in.len;
    x->in_len = (uint32_t)io->in.len;
    if (x->in_len == 0)
        secure_in_release(s);
}

static void
secure_stop_reading(struct stream *s)
{
    if (s->reading)
        uv_read_stop(&s->uv.stream);
    s->reading = false;
}

/* A slab is the turn's.  What its owner or its layer does not want yet goes elsewhere; and no more is
 * read, because a loop that finds bytes and may not read them does not sleep. */
static void
secure_in_keep(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);
    char *kept;

    if (x->in_slab == NULL)
        return;
    secure_stop_reading(s);
    kept = usage_alloc(secure_usage(s), USAGE_READ, x->in_len);
    if (kept == NULL) {
        secure_in_release(s);
        x->in_ended = TERR_NOMEM;
        return;
    }
    memcpy(kept, x->in_ptr, x->in_len);
    net_slab_release(stream_loop(s), x->in_slab);
    x->in_slab = NULL;
    x->kept = x->in_ptr = kept;
}

/* Is there nothing that must be decrypted, or waited for, before more is read? */
static bool
secure_may_read(const struct stream *s)
{
    const struct stream_secure *x = stream_secure(s);

    return !x->paused && x->kept == NULL && x->in_ended == 0 && s->ended == 0 &&
           (s->connect_err == 0 || s->connect_err == TERR_AGAIN);
}

/* In libuv's poll phase. */
void
stream_secure_on_read(struct stream *s, ssize_t n, const char *base)
{
    struct stream_secure *x = stream_secure(s);

    if (n < 0) {
        x->in_ended = (int16_t)n;
    } else {
        tassert(x->in_len == 0);
        x->in_ptr = (char *)(uintptr_t)base;
        x->in_len = (uint32_t)n;
        x->in_slab = net_slab_use(stream_loop(s), (size_t)n);
    }
    task_wake(&x->task);
}

void
stream_secure_read_on(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    if (x->layer != NULL && (s->more_in || x->in_len > 0 || x->in_ended != 0))
        task_wake(&x->task);
}

void
stream_secure_on_pause(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    x->paused = true;
    if (x->layer != NULL && x->in_len > 0)
        secure_in_keep(s);
}

bool
stream_secure_on_resume(struct stream *s)
{
    stream_secure(s)->paused = false;
    stream_secure_read_on(s);
    return secure_may_read(s);
}

static void secure_send(struct stream *s, struct secure_io *io);

/* What the connection's end means where no close_notify came before it.  Anybody on the way may have
 * cut it (RFC 8446 6.1): what is framed by the end is not whole then. */
static int
secure_cut(const struct stream *s)
{
    const struct stream_secure *x = stream_secure(s);

    if (x->in_ended == TERR_CLOSED && !x->layer->ops->is_server(x->layer))
        return TERR_IO;
    return x->in_ended;
}

/* The end of what can be read. */
static void
secure_end(struct stream *s, int err)
{
    s->ended = (int16_t)err;
    s->more_in = false;
    secure_stop_reading(s);
    secure_in_release(s);
    task_wake(s->of.owner);
}

/* A write that failed here, and not at the peer, who waits for it: its answer will never come, and so the
 * reader has its end, too. */
static void
secure_fail(struct stream *s, int err)
{
    if (s->write_err == 0)
        s->write_err = (int16_t)err;
    if (s->ended == 0 && s->connect_err == 0)
        secure_end(s, err);
}

/* Where plaintext goes, as a plain read: the owner's span, or the loop's slab.  When ciphertext fills
 * all slabs, each stream waits for another to decrypt: so it makes room with its own. */
static struct span
secure_room(struct stream *s)
{
    struct span room = {s->room_ptr, s->room_len};

    if (s->posted)
        return room;
    room.ptr = net_slab_room(stream_loop(s), &room.len);
    if (room.ptr == NULL) {
        secure_in_keep(s);
        room.ptr = net_slab_room(stream_loop(s), &room.len);
    }
    if (s->read_max > 0 && room.len > s->read_max)
        room.len = s->read_max;
    return room;
}

/* The owner may wait for it, to end the connection. */
static void
secure_early_over(struct stream *s)
{
    stream_secure(s)->layer->early = NULL;
    task_wake(s->of.owner);
}

static void
secure_decrypt(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);
    struct secure_io io;
    struct span room;
    ssize_t n;

    if (s->rx_len > 0 || s->ended != 0)
        return; /* the owner comes first */
    if (x->paused) {
        secure_in_keep(s);
        return;
    }
    if (x->was_posted && !s->posted) { /* the owner's next span may be posted later in this turn */
        x->was_posted = false;
        task_wake(&x->task);
        return;
    }
    room = secure_room(s);
    if (room.ptr == NULL) { /* until others have consumed, or there is memory */
        list_del(&x->link);
        list_add_tail(&stream_loop(s)->roomless, &x->link);
        return;
    }
    io = secure_io_begin(s);
    n = x->layer->ops->decrypt(x->layer, &io, room);
    if (n > 0) {
        s->rx_ptr = room.ptr;
        s->rx_len = (uint32_t)n;
        s->slab = s->posted ? NULL : net_slab_use(stream_loop(s), (size_t)n);
        x->was_posted = s->posted;
        s->posted = false;
    }
    secure_in_taken(s, &io);
    s->more_in = n > 0;  /* it may have more, or an end behind these */
    secure_send(s, &io); /* an alert, or the answer to a new key */
    if (n > 0)
        task_wake(s->of.owner);
    else if (n < 0)
        secure_end(s, (int)n);
    else if (x->in_ended != 0)
        secure_end(s, secure_cut(s));
    else if (x->layer->early != NULL && !*x->layer->early)
        secure_early_over(s);
}

/* The layer may have bytes behind the last ones: it is asked now, before its task runs. */
bool
stream_secure_quiet(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    if (s->more_in && s->rx_len == 0) {
        x->was_posted = false;
        secure_decrypt(s);
    }
    return x->in_len == 0 && !s->more_in;
}

/* ---- what is sent ---- */

/* What the kernel did not take.  A second one behind the stream's own write (an alert, an answer to a
 * new key) is waited for by none: libuv keeps their order. */
static void
secure_write(struct stream *s, const char *p, size_t len)
{
    struct net_loop *nl = stream_loop(s);
    struct write_op *op = stream_op_take(nl);
    char *own = op != NULL ? usage_alloc(secure_usage(s), USAGE_CONN, len) : NULL;
    uv_buf_t buf;
    int err;

    if (own == NULL) {
        if (op != NULL)
            stream_op_give(nl, op);
        secure_fail(s, TERR_NOMEM); /* a record is missing: nothing may follow */
        return;
    }
    memcpy(own, p, len);
    op->own = own;
    op->req.write.data = s->op == NULL ? s : NULL;
    buf = uv_buf_init(own, (unsigned)len);
    err = uv_write(&op->req.write, &s->uv.stream, &buf, 1, stream_on_written);
    if (err != 0) {
        stream_op_give(nl, op);
        secure_fail(s, terr_from_errno(err));
    } else if (s->op == NULL) {
        s->op = op;
    }
}

/* The stream's last bytes, a record that was held and close_notify, go behind what the kernel has in
 * any case: there is no later.  That is full for as long as the reader is slow. */
static ssize_t
secure_send_last(struct stream *s, const struct iovec *iov, ssize_t sent)
{
    size_t at = sent > 0 ? (size_t)sent : 0;
    const struct iovec rest = {(char *)iov->iov_base + at, iov->iov_len - at};
    const unsigned unsent = UINT_MAX;
    const int room = INT_MAX;
    ssize_t n;

    setsockopt(s->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* net.core.wmem_max, then */
    n = stream_send_plain(s, &rest, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n > 0 ? (ssize_t)at + n : sent;
}

/* What was encrypted leaves: in one call, as far as the kernel takes it. */
static void
secure_send(struct stream *s, struct secure_io *io)
{
    struct stream_secure *x = stream_secure(s);
    struct iovec iov = {io->out, io->out_len};
    ssize_t sent = 0;

    if (io->out_len == 0)
        return;
    io->out_len = 0;
    if (s->write_err != 0 || x->shut)
        return; /* nothing may follow, what the layer answers neither */
    x->sent_ms = (uint32_t)stream_loop(s)->base.clock.mono_ms;
    if (s->op == NULL && uv_stream_get_write_queue_size(&s->uv.stream) == 0) {
        sent = stream_send_plain(s, &iov, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (x->ending && sent != (ssize_t)iov.iov_len)
            sent = secure_send_last(s, &iov, sent);
    }
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
        s->write_err = terr_from_errno(-errno);
        return;
    }
    if (sent < 0)
        sent = 0;
    if ((size_t)sent < iov.iov_len)
        secure_write(s, (char *)iov.iov_base + sent, iov.iov_len - (size_t)sent);
}

/* Plaintext to be sent, from the front. */
struct secure_source {
    const struct iovec *iov;
    size_t at;   /* in the first of them */
    size_t left; /* bytes, of all */
};

static void
source_skip(struct secure_source *src, size_t n)
{
    tassert(n <= src->left);
    src->at += n;
    src->left -= n;
    while (src->left > 0 && src->at >= src->iov->iov_len) {
        src->at -= src->iov->iov_len;
        src->iov++;
    }
}

static size_t
source_copy(struct secure_source *src, char *to, size_t most)
{
    size_t n = 0;

    while (src->left > 0 && n < most) {
        size_t part = src->iov->iov_len - src->at;

        if (part > most - n)
            part = most - n;
        memcpy(to + n, (char *)src->iov->iov_base + src->at, part);
        n += part;
        source_skip(src, part);
    }
    return n;
}

/* Bytes that the kernel takes before the socket is full, at least.  It asks two things before it makes room for
 * more: what is not sent yet against TCP_NOTSENT_LOWAT, and all that it holds against the send buffer. */
static size_t
secure_kernel_room(const struct stream *s)
{
    uint32_t mem[SK_MEMINFO_VARS] = {0};
    unsigned unsent_most = UINT_MAX;
    int unsent = 0;
    socklen_t len = sizeof(mem);
    socklen_t most_len = sizeof(unsent_most);
    size_t room;

    if (s->is_unix || getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, mem, &len) != 0 ||
        getsockopt(s->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_most, &most_len) != 0 ||
        ioctl(s->fd, SIOCOUTQNSD, &unsent) != 0)
        return SIZE_MAX;
    room = mem[SK_MEMINFO_SNDBUF] > mem[SK_MEMINFO_WMEM_QUEUED]
               ? mem[SK_MEMINFO_SNDBUF] - mem[SK_MEMINFO_WMEM_QUEUED]
               : 0;
    if (unsent_most == 0) /* the system's: above any send buffer, if it has not been changed */
        return room;
    if (unsent_most <= (unsigned)unsent)
        return 0;
    return unsent_most - (unsigned)unsent < room ? unsent_most - (unsigned)unsent : room;
}

/* How long the next record may be when so many bytes follow. */
static size_t
secure_record_size(struct stream *s, size_t follow)
{
    struct stream_secure *x = stream_secure(s);
    uint32_t now = (uint32_t)stream_loop(s)->base.clock.mono_ms;

    if (now - x->sent_ms >= EARLY_AFTER_MS) {
        x->sent_ms = now;
        x->early_left = EARLY_BYTES;
    }
    return follow > SECURE_RECORD && x->early_left > 0 ? EARLY_RECORD : SECURE_RECORD;
}

/* The next record's plaintext: where it lies, if it is one piece; else gathered, behind what
 * is held. */
static struct slice
secure_next_record(struct stream *s, struct secure_source *src, size_t most)
{
    struct net_secure *shared = secure_shared(s);
    size_t held = shared->held_by == s ? shared->held : 0;
    struct slice plain;

    if (held == 0 && most > src->left)
        most = src->left;
    if (held == 0 && src->iov->iov_len - src->at >= most) {
        plain = slice_of((char *)src->iov->iov_base + src->at, most);
        source_skip(src, most);
        return plain;
    }
    if (held < most)
        held += source_copy(src, shared->plain + held, most - held);
    if (shared->held_by == s)
        shared->held_by = NULL;
    return slice_of(shared->plain, held);
}

/* A record that is the call's only one leaves from where OpenSSL made it, and is not copied. */
struct secure_out {
    struct secure_io io;
    struct stream *stream;
    bool more; /* others follow in this turn */
};

static size_t
secure_direct(struct secure_io *io, const char *p, size_t len)
{
    struct secure_out *out = container_of(io, struct secure_out, io);
    struct stream *s = out->stream;
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (out->more && !s->is_unix ? MSG_MORE : 0);
    struct iovec iov = {.iov_len = len};
    ssize_t sent;

    memcpy(&iov.iov_base, &p, sizeof(p)); /* sendmsg only reads it */
    sent = stream_send_plain(s, &iov, 1, flags);
    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
        s->write_err = terr_from_errno(-errno);
    return 0;
}

static void
secure_record(struct secure_out *out, struct slice plain, size_t left)
{
    struct stream *s = out->stream;
    struct stream_secure *x = stream_secure(s);
    int err;

    x->early_left -= plain.len < x->early_left ? (uint32_t)plain.len : x->early_left;
    out->more = left > 0;
    out->io.direct = NULL;
    if (s->op == NULL && plain.len >= DIRECT_LEAST && (left == 0 || left >= SECURE_RECORD) &&
        !x->shut && uv_stream_get_write_queue_size(&s->uv.stream) == 0) {
        out->io.direct = secure_direct;
        x->sent_ms = (uint32_t)stream_loop(s)->base.clock.mono_ms;
    }
    err = x->layer->ops->encrypt(x->layer, &out->io, plain);
    if (err != 0)
        secure_fail(s, err);
}

/* Encrypts and sends, at least SEND_CHUNK bytes in a call, until all of it has been or the kernel takes no
 * more.  What it does not take of a record is kept for as long as the reader is slow: before the socket is full
 * records are short. */
static void
secure_encrypt(struct stream *s, struct secure_source *src, bool more)
{
    struct net_secure *shared = secure_shared(s);
    struct secure_out out = {.io = {.out = shared->out, .out_max = SECURE_FLIGHT_MAX}, .stream = s};
    bool much = src->left > SHORT_LEAST || stream_secure(s)->queue != NULL;
    unsigned shorts = 0;
    size_t room = 0;

    tassert(shared->held_by == NULL || shared->held_by == s);
    while (s->op == NULL && s->write_err == 0) {
        size_t held = shared->held_by == s ? shared->held : 0;
        size_t most = secure_record_size(s, held + src->left);
        struct slice plain;

        if (held + src->left == 0)
            break;
        if (much && shorts == 0 && room < ROOM_LEAST) {
            room = secure_kernel_room(s);
            shorts = room < ROOM_LEAST ? SHORT_ASK : 0;
        }
        if (shorts > 0)
            most = EARLY_RECORD;
        if (more && held + src->left < most && stream_note_corked(s)) {
            shared->held = held + source_copy(src, shared->plain + held, most - held);
            shared->held_by = s;
            break;
        }
        plain = secure_next_record(s, src, most);
        room -= plain.len < room ? plain.len : room;
        secure_record(&out, plain, src->left);
        if (out.io.out_len >= SEND_CHUNK || shorts > 0 || src->left == 0 || out.io.direct != NULL)
            secure_send(s, &out.io);
        shorts -= shorts > 0 ? 1 : 0;
    }
    secure_send(s, &out.io);
}

/* What another stream holds has the memory that we need. */
static void
secure_flush_other(struct stream *s)
{
    struct net_secure *shared = secure_shared(s);

    if (shared->held_by != NULL && shared->held_by != s)
        stream_secure_flush(shared->held_by);
}

ssize_t
stream_secure_try(struct stream *s, const struct iovec *iov, unsigned n, bool more)
{
    struct secure_source src = {.iov = iov};
    size_t total;

    tassert(s->connect_err == 0 && stream_secure(s)->queue == NULL);
    for (unsigned i = 0; i < n; i++)
        src.left += iov[i].iov_len;
    total = src.left;
    source_skip(&src, 0); /* the first may be empty */
    secure_flush_other(s);
    s->corked = false;
    secure_encrypt(s, &src, more);
    if (s->write_err != 0)
        return s->write_err;
    return (ssize_t)(total - src.left);
}

/* What is held leaves its memory in any case, for others need it: behind a write that is queued, too,
 * which may be the layer's own. */
void
stream_secure_flush(struct stream *s)
{
    struct net_secure *shared = secure_shared(s);
    struct secure_out out = {.stream = s};

    if (shared == NULL || shared->held_by != s)
        return;
    shared->held_by = NULL;
    out.io = (struct secure_io){.out = shared->out, .out_max = SECURE_FLIGHT_MAX};
    if (s->write_err == 0) {
        secure_record(&out, slice_of(shared->plain, shared->held), 0);
        secure_send(s, &out.io);
    }
    if (s->write_err != 0)
        task_wake(s->of.owner);
}

/* Plaintext stays its owner's until there is room for its record: a slow reader holds one record of
 * ours, or what was left of the try that found the socket full. */
ssize_t
stream_secure_queue(struct stream *s, const struct iovec *iov, unsigned n)
{
    struct stream_secure *x = stream_secure(s);
    struct secure_queue *q = usage_calloc(secure_usage(s), USAGE_CONN, sizeof(*q));

    tassert(x->queue == NULL && n > 0);
    if (q == NULL) {
        secure_fail(s, TERR_NOMEM);
        return TERR_NOMEM;
    }
    for (; q->n < n && q->n < LIMIT_QUEUE_IOV && q->bytes < LIMIT_UNSENT_BYTES; q->n++) {
        struct iovec *to = &q->iov[q->n];

        *to = iov[q->n];
        if (to->iov_len > LIMIT_UNSENT_BYTES - q->bytes)
            to->iov_len = LIMIT_UNSENT_BYTES - q->bytes;
        q->bytes += to->iov_len;
    }
    x->queue = q;
    s->corked = false;
    task_wake(&x->task);
    return (ssize_t)q->bytes;
}

static void
secure_queue_free(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    usage_free(secure_usage(s), USAGE_CONN, x->queue);
    x->queue = NULL;
}

static void
secure_queue_run(struct stream *s)
{
    struct secure_queue *q = stream_secure(s)->queue;
    struct secure_source src;

    if (q == NULL || s->op != NULL)
        return;
    secure_flush_other(s);
    src = (struct secure_source){.iov = q->iov + q->at, .at = q->skip, .left = q->bytes};
    secure_encrypt(s, &src, false);
    q->at = (unsigned)(src.iov - q->iov);
    q->skip = src.at;
    q->bytes = src.left;
    if (q->bytes > 0 && s->write_err == 0)
        return; /* until the last record has left */
    secure_queue_free(s);
    task_wake(s->of.owner);
}

void
stream_secure_on_written(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);

    if (x->queue != NULL)
        task_wake(&x->task);
    else
        task_wake(s->of.owner);
}

/* Nothing is queued: the caller has seen to it. */
void
stream_secure_shut(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);
    struct secure_io io;

    if (x->layer == NULL || x->shut || s->connect_err != 0 || s->write_err != 0)
        return;
    secure_flush_other(s);
    x->ending = true;
    stream_secure_flush(s);
    if (s->op != NULL)
        return; /* what was not sent whole has no orderly end */
    io = secure_io_begin(s);
    io.in = slice_of(NULL, 0);
    x->layer->ops->shut(x->layer, &io);
    secure_send(s, &io);
    x->shut = true;
}

/* ---- the handshake ---- */

/* It may begin at the next turn only: others wait for this one.  A step costs as much as a thousand
 * hits. */
static bool
secure_handshake_waits(struct stream *s)
{
    struct net_loop *nl = stream_loop(s);
    struct stream_secure *x = stream_secure(s);

    if (x->may_step) {
        x->may_step = false;
        return false;
    }
    if (list_empty(&x->link) && nl->nhandshakes < NET_HANDSHAKES_TURN) {
        nl->nhandshakes++;
        return false;
    }
    if (list_empty(&x->link))
        list_add_tail(&nl->handshakes, &x->link);
    if (x->in_len > 0)
        secure_in_keep(s);
    return true;
}

/* Handshakes that have waited are counted here and not when they run, so that none that asks in this turn
 * comes before them, and one that is closed before it runs ends no one's waiting. */
void
net_secure_turn(struct net_loop *nl)
{
    nl->nhandshakes = 0;
    while (!list_empty(&nl->roomless)) {
        struct stream_secure *x = container_of(nl->roomless.next, struct stream_secure, link);

        list_del(&x->link);
        task_wake(&x->task);
    }
    while (nl->nhandshakes < NET_HANDSHAKES_TURN && !list_empty(&nl->handshakes)) {
        struct stream_secure *x = container_of(nl->handshakes.next, struct stream_secure, link);

        list_del(&x->link);
        x->may_step = true;
        nl->nhandshakes++;
        task_wake(&x->task);
    }
}

static void
secure_handshake_end(struct stream *s, int err)
{
    s->connect_err = (int16_t)err;
    if (err != 0) {
        secure_stop_reading(s);
        secure_in_release(s);
    }
    task_wake(s->of.owner);
}

static void
secure_handshake(struct stream *s)
{
    struct stream_secure *x = stream_secure(s);
    struct secure_io io;
    int rc;

    if (secure_handshake_waits(s))
        return;
    io = secure_io_begin(s);
    if (x->preface != NULL) { /* with the handshake's first bytes in one packet */
        memcpy(io.out, x->preface, x->preface_len);
        io.out_len = x->preface_len;
        usage_free(secure_usage(s), USAGE_CONN, x->preface);
        x->preface = NULL;
    }
    rc = x->layer->ops->handshake(x->layer, &io);
    secure_in_taken(s, &io);
    secure_send(s, &io);
    if (rc == TERR_AGAIN && s->write_err != 0)
        rc = s->write_err;
    if (rc == TERR_AGAIN && x->in_len > 0)
        secure_in_keep(s); /* it waits for something else */
    else if (rc == TERR_AGAIN && x->in_ended != 0)
        rc = x->in_ended;
    if (rc != TERR_AGAIN)
        secure_handshake_end(s, rc);
}

void
stream_secure_on_connected(struct stream *s)
{
    task_wake(&stream_secure(s)->task);
}

/* ---- its life ---- */

static void
secure_step(struct stream *s)
{
    if (s->connect_err == TERR_AGAIN)
        secure_handshake(s);
    if (s->connect_err != 0)
        return;
    secure_queue_run(s);
    secure_decrypt(s);
}

static void
secure_run(struct task *t)
{
    struct stream *s = secure_stream(container_of(t, struct stream_secure, task));

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(stream_secure(s)->layer != NULL);
    if (s->fd < 0)
        return; /* not connected */
    secure_step(s);
    if (!s->reading && secure_may_read(s))
        stream_start_reading(s);
}

int
stream_secure_init(struct stream *s)
{
    struct net_loop *nl = stream_loop(s);
    struct stream_secure *x = stream_secure(s);

    memset(x, 0, sizeof(*x));
    x->stream = s;
    list_init(&x->link);
    task_init(&x->task, &nl->base.tasks, secure_run);
    x->sent_ms = (uint32_t)nl->base.clock.mono_ms;
    x->early_left = EARLY_BYTES;
    if (nl->secure != NULL)
        return 0;
    nl->secure = usage_calloc(&nl->base.usage, USAGE_CONN, sizeof(*nl->secure));
    return nl->secure != NULL ? 0 : TERR_NOMEM;
}

void
stream_set_secure(struct stream *s, struct secure **layer)
{
    struct stream_secure *x = stream_secure(s);

    OBJ_CHECK(s, STREAM_MAGIC);
    tassert(x->layer == NULL && *layer != NULL && !s->posted);
    x->layer = *layer;
    *layer = NULL;
    x->layer->task = &x->task;
    s->connect_err = TERR_AGAIN;
    if (s->rx_len > 0) {
        tassert(s->slab != NULL);
        x->in_ptr = s->rx_ptr;
        x->in_len = s->rx_len;
        x->in_slab = s->slab;
        s->slab = NULL;
        s->rx_ptr = NULL;
        s->rx_len = 0;
    }
    x->in_ended = s->ended;
    s->ended = 0;
    if (s->fd >= 0)
        task_wake(&x->task);
}

int
stream_secure_connect(struct stream *s, const struct stream_target *to)
{
    struct stream_secure *x = stream_secure(s);
    struct secure *layer;
    int err;

    tassert(to->preface.len <= SECURE_RECORD);
    if (to->preface.len > 0) {
        x->preface = usage_alloc(secure_usage(s), USAGE_CONN, to->preface.len);
        if (x->preface == NULL)
            return TERR_NOMEM;
        memcpy(x->preface, to->preface.ptr, to->preface.len);
        x->preface_len = (uint32_t)to->preface.len;
    }
    err = to->secure->connect(to->secure, &stream_loop(s)->base, &layer);
    if (err == 0)
        stream_set_secure(s, &layer);
    return err;
}

/* An end that is not orderly says nothing, so that the peer knows that something is missing. */
void
stream_secure_close(struct stream *s, bool orderly)
{
    struct stream_secure *x = stream_secure(s);
    struct net_secure *shared = secure_shared(s);

    if (orderly && x->queue == NULL && s->op == NULL)
        stream_secure_shut(s);
    if (shared != NULL && shared->held_by == s)
        shared->held_by = NULL;
    list_del(&x->link);
    task_cancel(&x->task);
    secure_queue_free(s);
    secure_in_release(s);
    usage_free(secure_usage(s), USAGE_CONN, x->preface);
    x->preface = NULL;
    if (x->layer != NULL)
        x->layer->ops->free(&x->layer);
}
