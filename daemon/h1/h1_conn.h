/* h1_conn.h -- what the two halves of a client connection share: reading and writing.
 *
 * Private to h1/.
 *
 *   given    bytes of the output, as positions counted from the connection's start, that were
 *            accepted from answerers
 *   left     how far the output has really left
 *   gather   buffers of answers not yet offered to the kernel; the server's, for one run
 *   backlog  accepted buffers that neither the kernel nor libuv's queue has taken
 */
#ifndef TARN_H1_CONN_H
#define TARN_H1_CONN_H

#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/h1/h1_memo.h"
#include "daemon/h1/h1_parse.h"
#include "daemon/h1/h1_render.h"
#include "daemon/h1/h1_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/http/uri.h"
#include "daemon/net/stream_input.h"
#include "daemon/shm/counters.h"

enum {
    H1_IOV_PER_ANSWER = 6, /* head, its own lines, a chunk (three), the last chunk: then gather */
};

enum h1_phase {
    H1_IDLE,   /* nothing of a request yet: timeout_idle */
    H1_HEAD,   /* a part of a head: timeout_req, for the whole of it */
    H1_BODY,   /* a body is read: timeout_body_idle and timeout_body */
    H1_WAIT,   /* the answerer is at work: its own deadlines */
    H1_SEND,   /* the client is slow to take the answer: idle_send_timeout */
    H1_DRAIN,  /* answered; what is left of the request's body is read and dropped: timeout_idle */
    H1_TUNNEL, /* bytes go both ways, and none is ours to read: pipe_timeout */
    H1_LINGER, /* answered for the last time; the client may still be sending */
};

#define H1_XCHG_MAGIC OBJ_TAG('h', '1', 'x', 'c')
struct h1_xchg {
    struct exchange x;
    uint32_t magic;
    struct h1_conn *conn;
    struct list link;    /* in conn->busy->answered */
    uint64_t body_pos;   /* output position of its first body byte */
    uint64_t body_given; /* body bytes accepted */
    uint64_t end_pos;    /* output position behind its last byte, once end_given */
    uint32_t drained;    /* bytes of its body that were dropped, framing included */
    bool started, head_given, end_given, chunked, until_close, bodyless, head_kept, expects_100,
        timed_out;
    bool stays;  /* the connection's current one behind its END too: a tunnel, or a body to drain */
    bool tunnel; /* granted: from here on there are no messages on this connection */
    bool in_ended; /* with tunnel: the answerer has read the client's end */
    bool shut;     /* with tunnel: our direction has ended */
    struct h1_parser parser;
    /* up to parser.ll all is zero at first; what follows is not touched */
    char chunk_head[24]; /* of the chunk that is partly sent */
    char extra[EXCHANGE_EXTRA];
    struct http_field fields[]; /* env.conf->fields_max */
};

/* What of a connection is only for a request or its answer under way: see h1_conn_occupy(). */
struct h1_busy {
    struct list answered; /* complete, not yet all left; in order */
    /* input: what has been received and not consumed */
    struct stream_input in;
    /* output */
    uint64_t given, left;
    uint64_t queued_to;    /* position that the stream's queued write reaches */
    struct iovec *backlog; /* nbacklog of them, from backlog_at on */
    uint16_t nbacklog, backlog_at;
    union {
        uint64_t body_from; /* H1_BODY: monotonic ms: since when the client's bytes are awaited */
        uint64_t send_mark; /* H1_SEND, H1_TUNNEL: `left` when the send deadline was set */
    };
    uint64_t body_mark;   /* H1_BODY: bytes of the body that had been read by body_from */
    struct h1_busy *next; /* lies ready */
};

#define H1_CONN_MAGIC OBJ_TAG('h', '1', 'c', 'n')
struct h1_conn {
    uint32_t magic;
    uint8_t phase; /* enum h1_phase */
    uint8_t memo_hint;
    bool running : 1, gathering : 1, closing : 1, lingering : 1, dead : 1, paused : 1;
    bool unread : 1; /* the client may be sending what we shall not read: linger at the end */
    struct h1_server *server;
    struct stream *stream;
    struct h1_busy *busy; /* idle: the server's `rest`: shared, never changed */
    struct h1_xchg *cur;  /* being read or answered */
    struct list link;     /* in server->conns */
    struct task task;
    struct timer timer;
    struct conn_facts facts;
};
/* An idle connection is this and a stream. */
_Static_assert(sizeof(struct h1_conn) <= 160, "a connection grew: a class of the allocator's");

#define H1_SERVER_MAGIC OBJ_TAG('h', '1', 's', 'v')
struct h1_server {
    struct conn_server conn_server;
    uint32_t magic;
    struct h1_server_env env;
    struct h1_limits limits;
    struct list conns;
    unsigned nconns;
    bool draining; /* each response is its connection's last */
    bool hurried;  /* and idle connections end at once */
    uint64_t next_xid;
    struct http_host_memo host;
    struct h1_memo *memo;        /* NULL: off, or there was no memory for it */
    struct h1_xchg *idle_xchgs;  /* linked through x.answerer */
    struct h1_conn *idle_conns;  /* linked through server */
    struct h1_busy *idle_busies; /* while a connection runs, it may be using the first */
    struct h1_busy rest;         /* of connections that are idle */
    unsigned nidle_xchgs, nidle_conns, nidle_busies;
    struct iovec gather[LIMIT_WRITE_IOV];
    unsigned ngather;
};

/* h1_server.c */
struct h1_xchg *h1_xchg_new(struct h1_conn *c);
void h1_xchg_free(struct h1_conn *c, struct h1_xchg *hx);
/* The connection is over: every exchange is notified.  A client with an incomplete response sees an
 * error where the end alone would not show it. */
void h1_conn_die(struct h1_conn *c);

/* h1_write.c */
extern const struct exchange_ops h1_exchange_ops;
/* Could an answer be accepted now? */
bool h1_out_ready(const struct h1_conn *c);
/* Output is offered to the kernel: what was gathered, or what was left behind.  TERR_CLOSED
 * when the connection broke. */
int h1_out_flush(struct h1_conn *c);
/* Queues what the kernel did not take of `iov`, and keeps the first `must` bytes beyond that in
 * the backlog.  Returns the bytes that the queue took, or TERR_*. */
ssize_t h1_out_keep(struct h1_conn *c, struct iovec *iov, unsigned n, size_t must);
/* Looks how far the output has left, after a wake-up. */
int h1_out_progress(struct h1_conn *c);
/* Marks in the exchanges what has left, and wakes the answerers; those that are done give back. */
void h1_out_tell(struct h1_conn *c);

/* h1_shed.c */
unsigned h1_server_shed_idle(struct conn_server *cs, unsigned most, int64_t idle_ms);

/* h1_interim.c */
/* A client that waits for 100 (Continue) gets it when its body is first wanted. */
void h1_continue(struct h1_conn *c, struct h1_xchg *hx);
int h1_interim(struct exchange *x, const struct http_message *m);

/* h1_tunnel.c */
void h1_tunnel(struct exchange *x);
ssize_t h1_tunnel_read(struct h1_xchg *hx, char *dst, size_t room);
/* Something moved: the deadline too. */
void h1_tunnel_touch(struct h1_conn *c);
/* All that was accepted for a tunnel that we ended may have left: then the client hears of it.
 * Returns whether both directions have ended. */
bool h1_tunnel_settle(struct h1_conn *c, struct h1_xchg *hx);
/* Output that the kernel has taken, of a queued write too. */
uint64_t h1_conn_taken(const struct h1_conn *c);

/* h1_read.c */
void h1_in_begin(struct h1_conn *c);
void h1_in_skip(struct h1_conn *c, size_t n);
/* Before the input goes: heads of requests that are not over point into it.  TERR_NOMEM: one is
 * empty now. */
int h1_in_keep_heads(struct h1_conn *c);
int h1_in_end(struct h1_conn *c); /* keeps what is still needed; TERR_NOMEM */
/* Reads on, and starts an exchange when a head is complete or will never be.  True: call again;
 * false: more bytes are needed, or an answer first. */
bool h1_in_step(struct h1_conn *c);
/* The request that is being read will be answered with `err`, and is the last. */
void h1_in_refuse(struct h1_conn *c, int err);
ssize_t h1_body_read(struct exchange *x, char *dst, size_t room);
/* The answer to `hx` is being begun, and its body was not read to the end: may the connection go on
 * behind it? */
bool h1_drain_may(const struct h1_conn *c, const struct h1_xchg *hx);
/* Its answer is whole.  True: so is its body, or nothing more of it will be read. */
bool h1_drain_over(const struct h1_conn *c, const struct h1_xchg *hx);
/* The rest of it will not be read: then this was the connection's last request. */
void h1_drain_stop(struct h1_conn *c);

/* The answer is whole, and the rest of the request body is being read. */
static inline bool
h1_conn_drains(const struct h1_conn *c)
{
    return c->cur != NULL && c->cur->end_given && !c->cur->tunnel;
}

static inline struct h1_server *
h1_server_of(struct conn_server *cs)
{
    struct h1_server *s = container_of(cs, struct h1_server, conn_server);

    OBJ_CHECK(s, H1_SERVER_MAGIC);
    return s;
}

static inline struct h1_xchg *
h1_xchg_of(struct exchange *x)
{
    struct h1_xchg *hx = container_of(x, struct h1_xchg, x);

    OBJ_CHECK(hx, H1_XCHG_MAGIC);
    return hx;
}

#endif
