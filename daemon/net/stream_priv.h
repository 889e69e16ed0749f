/* stream_priv.h -- what stream.c and stream_secure.c share: a stream's memory.
 *
 * A secure stream is a stream with `struct stream_secure` behind its handle.  A plain one has a flag
 * that says it is none, and pays no byte for it.
 */
#ifndef TARN_STREAM_PRIV_H
#define TARN_STREAM_PRIV_H

#include <stddef.h>

#include "daemon/base/terr.h"
#include "daemon/net/net_priv.h"
#include "daemon/net/secure.h"

/* What only a connection with a full socket, or one being made, needs. */
struct write_op {
    struct write_op *next;
    char *own; /* what is written, where it is no one else's: goes with the operation; or NULL */
    union {
        uv_write_t write;
        uv_connect_t connect;
    } req;
};

/* An idle connection is this and its owner's part: each byte counts.  The loop is libuv's. */
#define STREAM_MAGIC OBJ_TAG('s', 't', 'r', 'm')
struct stream {
    uint32_t magic;
    int fd;
    int16_t ended;       /* 0, or why reading is over: TERR_* */
    int16_t write_err;   /* 0, or why writing is */
    int16_t connect_err; /* TERR_AGAIN while connecting */
    bool is_unix, reading, posted;
    bool corked; /* the last bytes are held back, by the kernel (MSG_MORE) or for a record; then in
                       nl->corked, too */
    bool is_secure; /* struct stream_secure lies behind the handle */
    bool more_in;   /* of a secure stream: what was received may not be all that has come */
    uint32_t read_max;
    union {
        struct task *owner;
        struct stream *next; /* idle list */
    } of;
    char *rx_ptr, *room_ptr; /* received, not consumed; posted */
    uint32_t rx_len, room_len;
    struct read_slab *slab; /* rx lies in it; NULL: in the posted span */
    struct write_op *op;    /* a write or connect under way */
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe; /* the largest: a TCP stream's memory ends before it does */
    } uv;
};
_Static_assert(offsetof(struct stream, uv) + sizeof(uv_tcp_t) <= 320, "struct stream grew");
_Static_assert(TERR_COUNT < INT16_MAX, "errors fit 16 bits");

/* No pointer to our loop in each stream: libuv has one already, and idle connections count each
 * byte. */
static inline struct net_loop *
stream_loop(const struct stream *s)
{
    return container_of(s->uv.handle.loop, struct net_loop, uv);
}

/* Plaintext that its owner has queued and lends until it is sent. */
struct secure_queue {
    struct iovec iov[LIMIT_QUEUE_IOV];
    unsigned n, at;
    size_t skip;  /* of iov[at] */
    size_t bytes; /* that are left */
};

/* What a secure stream has besides. */
struct stream_secure {
    struct stream *stream; /* the one that it belongs to */
    struct secure *layer;  /* NULL: not given yet, and the bytes are the peer's own */
    struct task task; /* decrypts what came, encrypts what is queued, goes on with the handshake */
    struct list link; /* in nl->handshakes or nl->roomless, or alone */
    char *in_ptr;     /* ciphertext that arrived, not decrypted */
    uint32_t in_len;
    bool paused;                /* by its owner */
    bool ending;                /* what is sent now is the last */
    bool shut;                  /* our end has been said */
    bool may_step;              /* its handshake has waited, and is counted in this turn */
    bool was_posted;            /* the last bytes went into the owner's span */
    struct read_slab *in_slab;  /* `in` lies in it; NULL: in `kept` */
    char *kept;                 /* what could not stay in the slab */
    struct secure_queue *queue; /* NULL: none */
    uint32_t sent_ms;           /* when something was sent last: the loop's time, its low bits */
    uint32_t early_left;        /* bytes that leave in small records, after a pause */
    char *preface;              /* leaves before the handshake; NULL: nothing does */
    uint32_t preface_len;
    int16_t in_ended; /* 0, or why no ciphertext follows: TERR_* */
};

/* What the secure streams of a loop share: made with the first of them. */
struct net_secure {
    struct stream *held_by; /* its bytes wait in `plain` for more; NULL: none's */
    size_t held;
    char plain[SECURE_RECORD];
    char out[SECURE_FLIGHT_MAX];
};

static inline struct stream_secure *
stream_secure(const struct stream *s)
{
    size_t handle = s->is_unix ? sizeof(uv_pipe_t) : sizeof(uv_tcp_t);

    tassert(s->is_secure);
    return (struct stream_secure *)((char *)(uintptr_t)s + offsetof(struct stream, uv) + handle);
}
_Static_assert(sizeof(uv_tcp_t) % _Alignof(struct stream_secure) == 0, "it lies behind it");
_Static_assert(sizeof(uv_pipe_t) % _Alignof(struct stream_secure) == 0, "it lies behind it");

/* stream.c's, for stream_secure.c */
ssize_t stream_send_plain(struct stream *s, const struct iovec *iov, unsigned n, int flags);
struct write_op *stream_op_take(struct net_loop *nl);
void stream_op_give(struct net_loop *nl, struct write_op *op);
void stream_on_written(uv_write_t *req, int status);
void stream_start_reading(struct stream *s);
/* Notes that the turn's end sends what is held.  False: there is no room for the note. */
bool stream_note_corked(struct stream *s);

/* stream_secure.c's, for stream.c */
int stream_secure_init(struct stream *s);
/* Of a stream that is not connected yet: its layer, and what is sent before.  0 or TERR_NOMEM. */
int stream_secure_connect(struct stream *s, const struct stream_target *to);
void stream_secure_close(struct stream *s, bool orderly);
void stream_secure_on_read(struct stream *s, ssize_t n, const char *base);
void stream_secure_on_written(struct stream *s);
void stream_secure_on_connected(struct stream *s);
/* Received bytes were consumed, or reading goes on: what came may be decrypted. */
void stream_secure_read_on(struct stream *s);
void stream_secure_on_pause(struct stream *s);
/* Whether ciphertext may be read now: else it is when what came before is decrypted. */
bool stream_secure_on_resume(struct stream *s);
/* Has neither the stream nor the layer anything that arrived? */
bool stream_secure_quiet(struct stream *s);
ssize_t stream_secure_try(struct stream *s, const struct iovec *iov, unsigned n, bool more);
ssize_t stream_secure_queue(struct stream *s, const struct iovec *iov, unsigned n);
void stream_secure_flush(struct stream *s);
void stream_secure_shut(struct stream *s);

#endif
