/* h2_conn.h -- what the parts of a client connection share: reading, heads, writing.
 *
 * Private to h2/.
 *
 *   gather   buffers not yet offered to the kernel: frame heads and field blocks in the server's
 *            scratch, body bytes by reference; of one connection, in its run or in one h2_send()
 *   backlog  gathered buffers that neither the kernel nor libuv's queue has taken
 *   given    bytes of the output, counted from the connection's start, that were gathered
 *   left     how far the output has really left
 *   flying   streams with body bytes that were accepted and have not all left
 *   pending  frames of our own, said while the output was full
 *   block    a field block that is to be continued (RFC 9113 6.10)
 *   trouble  a count of what a client sent without bringing work
 */
#ifndef TARN_H2_CONN_H
#define TARN_H2_CONN_H

#include <nghttp2/nghttp2.h>

#include "daemon/base/limits.h"
#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/h2/h2_conf.h"
#include "daemon/h2/h2_frame.h"
#include "daemon/h2/h2_memo.h"
#include "daemon/h2/h2_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/http/uri.h"
#include "daemon/net/stream_input.h"
#include "daemon/shm/counters.h"

enum {
    H2_GATHER_BYTES = 65536, /* then it is offered: what is left over fits the stream's queue */
    H2_SCRATCH = 98304,      /* frame heads and field blocks of one gather */
    H2_HEAD_OUT_MAX = 66560, /* bytes of one response's field block, at most */
    H2_HEADS = 98304,        /* texts of request heads of one run */
    H2_HEADS_OPEN =
        524288,          /* the same, of the streams that are open: blocks say much by few bytes */
    H2_FIELDS_MAX = 100, /* of a request, Cookie's crumbs counted apart */
    H2_FIELD_BYTES = 32, /* what each counts besides its text (RFC 9113 6.5.2) */
    H2_CONTINUATIONS_MAX = 16, /* of one field block */
    H2_BLOCK_MAX = 65536,      /* compressed bytes of one field block */
    H2_PENDING_MAX = 16384,    /* bytes of `pending` */
    H2_CONN_WINDOW = 262144,   /* body bytes of all streams that a client may send unread */
    H2_FRAMES_TURN = 1000,     /* then other connections have their turn */
    H2_REQUESTS_TURN = 16,     /* the same, of streams that begin */
    H2_TROUBLE_MAX =
        400, /* and as much below 0, for what may still come of frames that were sent */
    H2_STREAMS_BUSY = 4096,               /* open on a loop: from here on a client may have fewer */
    H2_TROUBLE_HALF = H2_TROUBLE_MAX / 2, /* from here on it may have fewer streams */
    H2_TROUBLE_PER_S = 16,                /* of it that is forgotten */
    H2_RESETS_KEPT = 16,     /* streams that we reset: their frames may still be on the way */
    H2_TABLE_BYTES = 4096,   /* of the dynamic table that a client may fill (RFC 7541 4.2) */
    H2_URGENCY_DEFAULT = 3,  /* RFC 9218 4.1 */
    H2_CLIENT_STREAMS = 1,   /* clients' have odd numbers */
    H2_TABLE_IDLE_MS = 2000, /* after so long without a stream the table is packed */
};

#define H2_STREAM_MAGIC OBJ_TAG('h', '2', 's', 't')
struct h2_stream {
    struct exchange x;
    uint32_t magic;
    uint32_t id;
    uint32_t head_text; /* bytes of its request's head */
    struct h2_conn *conn;
    struct list link;      /* in conn->streams, in the order in which they may send */
    struct list flying;    /* in conn->flying, or alone */
    int64_t send_window;   /* of ours; below 0 after SETTINGS (RFC 9113 6.9.2) */
    int64_t recv_window;   /* of the client's */
    int64_t recv_back;     /* what of it was read, and not yet given back */
    uint64_t body_given;   /* body bytes accepted */
    uint64_t deadline_ms;  /* TIMER_NEVER: none */
    uint64_t body_wait_ms; /* since when bytes of its body are awaited; 0: they are not */
    uint64_t body_waited;  /* milliseconds before that */
    uint64_t in_bytes;     /* of the request's body that came */
    struct h2_priority priority;
    bool started, head_given, end_given, bodyless;
    bool in_ended; /* the client's END_STREAM */
    int in_err;    /* its body is not whole, or too large: TERR_* */
    bool reset;    /* RST_STREAM was sent or received: nothing more is */
    bool cut;      /* by the client's RST_STREAM */
    bool head_kept, expects_100, timed_out;
    bool wants_window; /* its answerer has had bytes for which a window had no room */
    bool tunnel;       /* granted: DATA is what the tunnel carries (RFC 8441) */
    bool in_read;      /* with tunnel: the answerer has read the client's end */
    /* the request's body as it came, not yet read */
    char *in;
    uint32_t in_at, in_len, in_cap;
    /* up to here all is zero at first; what follows is not touched */
    char extra[EXCHANGE_EXTRA];
    struct http_field fields[]; /* server->fields_max */
};

/* The dynamic table of an idle connection's client, as a field block that makes it. */
struct h2_packed {
    uint16_t len;
    char block[];
};

#define H2_CONN_MAGIC OBJ_TAG('h', '2', 'c', 'n')
struct h2_conn {
    uint32_t magic;
    bool running : 1, gathering : 1, dead : 1;
    bool has_preface : 1, has_settings : 1;
    bool closing : 1;    /* GOAWAY was sent: no stream begins any more */
    bool failed : 1;     /* with an error: nothing more is read */
    bool lingering : 1;  /* our direction has ended */
    bool sized : 1;      /* our encoder's table was said to be of size 0 */
    bool in_payload : 1; /* of a DATA frame */
    bool idled : 1;      /* it ended because nothing was asked for */
    bool is_packed : 1;
    bool table_idle : 1; /* since its last stream its table was packed, or could not be */
    struct h2_server *server;
    struct stream *stream;
    struct list link; /* in server->conns */
    struct task task;
    struct timer timer;
    struct conn_facts facts;
    struct h2_conf said; /* in our SETTINGS: a reload concerns later connections */
    struct list streams, flying;
    unsigned nstreams;
    uint32_t heads_open;   /* head_text of all */
    uint16_t streams_max;  /* that it may have open now */
    uint16_t streams_said; /* in our last SETTINGS; less counts from their ACK on */
    uint8_t acks_owed;     /* to our SETTINGS */
    uint8_t frame_type;    /* of the frame that is being read, or was last */
    uint8_t error;         /* enum h2_error: with which it ended */
    uint32_t last_id;      /* highest of the client's streams */
    uint32_t ignored_id;   /* highest of those that it began behind our GOAWAY */
    uint32_t peer_window;  /* its SETTINGS_INITIAL_WINDOW_SIZE */
    int64_t send_window;
    int64_t recv_window, recv_back;
    uint64_t idle_since_ms;
    uint64_t drain_ms;      /* its end was announced; 0: not */
    uint64_t part_since_ms; /* of a frame or a field block that is not whole; 0: there is none */
    /* input */
    struct stream_input in;
    uint32_t data_left, pad_left, data_stream; /* of the DATA frame that is being read */
    bool data_end;
    /* a field block under way */
    char *block;
    uint32_t block_len, block_cap, block_stream;
    uint8_t block_flags, block_frames;
    bool block_bad; /* it depends on itself (RFC 9113 5.3.1) */
    /* output */
    uint64_t given, left, queued_to;
    struct iovec *backlog;
    char *held; /* what of the backlog lay in the scratch */
    uint16_t nbacklog, backlog_at;
    uint64_t send_mark, send_mark_ms;
    char *pending;
    uint32_t pending_len, pending_cap;
    /* HPACK, decoding */
    union {
        nghttp2_hd_inflater *inflater; /* NULL: none was needed yet */
        struct h2_packed *packed;      /* `is_packed`: what makes one that knows as much */
    };
    uint64_t table_state; /* of it, for the memo */
    uint32_t resets[H2_RESETS_KEPT];
    uint8_t resets_at;
    int32_t trouble;
    uint64_t trouble_ms;
};
_Static_assert(sizeof(struct h2_conn) <= 512, "one byte more costs 128, of each idle connection");

#define H2_SERVER_MAGIC OBJ_TAG('h', '2', 's', 'v')
struct h2_server {
    struct conn_server conn_server;
    uint32_t magic;
    struct h2_server_env env;
    struct list conns;
    struct h2_conn *running; /* NULL: none */
    unsigned nconns, nstreams;
    bool draining, hurried;
    uint16_t fields_max;
    uint64_t next_xid;
    struct http_host_memo host;
    struct h2_memo *memo;           /* NULL: off, or there was no memory for it */
    uint64_t table_states;          /* given out, the memo's and others */
    nghttp2_mem mem;                /* of inflaters, which refer to it */
    struct h2_stream *idle_streams; /* linked through x.answerer */
    unsigned nidle_streams;
    struct iovec gather[LIMIT_WRITE_IOV];
    unsigned ngather;
    size_t gather_bytes, scratch_len, heads_len;
    char scratch[H2_SCRATCH];
    char heads[H2_HEADS];
};

/* h2_server.c */
struct h2_stream *h2_stream_new(struct h2_conn *c, uint32_t id);
/* It is in no list any more. */
void h2_stream_free(struct h2_stream *s);
/* A stream that is open; NULL: there is none with that number. */
struct h2_stream *h2_stream_find(const struct h2_conn *c, uint32_t id);
/* Nothing more comes or goes on it: its answerer hears of it, and releases it. */
void h2_stream_gone(struct h2_stream *s);
/* RST_STREAM, once. */
void h2_stream_reset(struct h2_stream *s, enum h2_error why);
/* The same for a stream that has no object. */
void h2_refuse(struct h2_conn *c, uint32_t id, enum h2_error why);
bool h2_was_reset(const struct h2_conn *c, uint32_t id);
/* The connection ends, and the client learns why (RFC 9113 5.4.1). */
void h2_conn_error(struct h2_conn *c, enum h2_error why);
/* No stream begins any more; those that are open are answered. */
void h2_conn_end(struct h2_conn *c);
/* At once, without a word. */
void h2_conn_die(struct h2_conn *c);
/* Counts what brought no work; at half of what is borne fewer streams are allowed, and beyond it the connection ends. */
void h2_trouble(struct h2_conn *c, int n);
/* The client has acknowledged SETTINGS of ours (RFC 9113 6.5.3). */
void h2_settings_acked(struct h2_conn *c);
/* Fewer streams than at first while the client brings trouble, or the loop has much to do; and as many again. */
void h2_streams_adjust(struct h2_conn *c);
/* Its request is whole, or refused. */
void h2_stream_start(struct h2_stream *s);
/* Into conn->streams, at the end of its urgency. */
void h2_stream_place(struct h2_stream *s);
/* The answerers that this run has woken. */
void h2_conn_run_woken(struct h2_conn *c);
/* Request heads of this run go to memory of their own, and their room is free. */
void h2_keep_heads(struct h2_conn *c);

/* h2_read.c */
/* Frames until nothing is left that is whole; false: there were too many for one turn. */
bool h2_in_frames(struct h2_conn *c);
void h2_in_begin(struct h2_conn *c);
/* Keeps a part of a frame. */
int h2_in_end(struct h2_conn *c);
ssize_t h2_body_read(struct exchange *x, char *dst, size_t room);
/* What is left of the request's body is not read any more. */
void h2_body_drop(struct h2_stream *s);

/* h2_head.c */
/* A field block that is whole.  `s` NULL: it is decoded for the table's sake alone.  0; > 0: an enum
 * h2_error of the connection; < 0: TERR_*, the request is not to be trusted: TERR_SYNTAX malformed
 * (RFC 9113 8.1.1), others are answered. */
int h2_head_read(
    struct h2_conn *c, struct h2_stream *s, const char *block, size_t len, bool trailers);
/* A priority field, or the value of PRIORITY_UPDATE (RFC 9218 4, 7). */
void h2_priority_read(struct h2_stream *s, struct slice value);
/* What inflaters are charged by. */
void h2_head_memory(struct h2_server *s);

/* h2_table.c */
/* The inflater goes, and what it knows is kept in less. */
void h2_table_pack(struct h2_conn *c);
/* There is an inflater, which knows all that came before.  False: no memory, and it is not to be used. */
bool h2_table_unpack(struct h2_conn *c);
/* All that is known. */
void h2_table_drop(struct h2_conn *c);

/* h2_encode.c */
extern const struct http_rendering h2_rendering;
/* A response's field block, at most `room` bytes: its length; 0: it does not fit. */
size_t h2_encode(struct h2_stream *s, const struct exchange_response *r, struct slice extra,
    char *out, size_t room);
size_t h2_encode_interim(
    struct h2_conn *c, const struct http_message *m, unsigned status, char *out, size_t room);

/* h2_write.c */
extern const struct exchange_ops h2_exchange_ops;
bool h2_out_ready(const struct h2_conn *c);
void h2_out_begin(struct h2_conn *c);
/* A frame of our own, whole. */
void h2_out_control(struct h2_conn *c, const char *frame, size_t len);
/* What was gathered is offered to the kernel.  TERR_CLOSED: the connection broke. */
int h2_out_flush(struct h2_conn *c);
int h2_out_progress(struct h2_conn *c);
/* Marks in the streams what has left; those that are done are released. */
void h2_out_tell(struct h2_conn *c);
/* Streams that may send again are woken, in their order. */
void h2_out_wake(struct h2_conn *c);
/* May it send body bytes? */
bool h2_stream_may_send(const struct h2_stream *s);
uint64_t h2_conn_taken(const struct h2_conn *c);

/* h2_tunnel.c */
void h2_tunnel(struct exchange *x);
/* 0, the end of a body, which may be a tunnel's. */
ssize_t h2_tunnel_read_end(struct h2_stream *s);
/* Both directions have ended, and all of ours has left. */
bool h2_tunnel_is_over(const struct h2_stream *s);
/* Something moved: the deadline too. */
void h2_stream_touch(struct h2_stream *s);

static inline uint64_t
h2_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline struct h2_server *
h2_server_of(struct conn_server *cs)
{
    struct h2_server *s = container_of(cs, struct h2_server, conn_server);

    OBJ_CHECK(s, H2_SERVER_MAGIC);
    return s;
}

static inline struct h2_stream *
h2_stream_of(struct exchange *x)
{
    struct h2_stream *s = container_of(x, struct h2_stream, x);

    OBJ_CHECK(s, H2_STREAM_MAGIC);
    return s;
}

#endif
