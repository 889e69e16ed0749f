/* req_priv.h -- what the files of a request share. */
#ifndef TARN_REQ_PRIV_H
#define TARN_REQ_PRIV_H

#include "daemon/http/freshness.h"
#include "daemon/http/range.h"
#include "daemon/proxy/fetch.h"
#include "storage/lease.h"

enum req_state {
    REQ_RECV,    /* who serves this, and may the cache be asked? */
    REQ_LOOKUP,  /* ask the cache */
    REQ_QUEUED,  /* another request fetches it: wait for the outcome */
    REQ_MISS,    /* start the fetch that others will wait for */
    REQ_PASS,    /* start a fetch for this client alone */
    REQ_FETCH,   /* our fetch is running; wait for a response head */
    REQ_PIPE,    /* a tunnel between client and origin */
    REQ_SYNTH,   /* we make the response */
    REQ_DELIVER, /* to the client, at the client's pace */
    REQ_CLOSE,   /* release until nothing is pending */
    REQ_STATES
};

enum req_next {
    REQ_MORE, /* the state changed: step again now */
    REQ_WAIT, /* step when woken */
};

/* What a body is made of: text of ours, then bytes of the representation.  An ordinary response
 * has one segment, without text; several ranges have one each (RFC 9110 14.6). */
struct req_segment {
    struct slice text;
    uint64_t first, end; /* end LEASE_TO_END: all there will be */
};

#define REQ_MAGIC OBJ_TAG('r', 'e', 'q', '.')
struct req {
    uint32_t magic;
    enum req_state state;
    struct task task;
    struct proxy *proxy;
    struct exchange *x;
    unsigned backend;
    unsigned log_flags; /* enum shmlog_req_flag */
    int err;            /* SYNTH: what went wrong, TERR_*, or 0 */
    uint16_t synth_status;
    struct hash128 key;
    size_t key_len;           /* of proxy->key_text, in the turn that made it */
    size_t host_at, host_len; /* the normal authority, in it */
    /* what the client wants, when it says so */
    struct fresh_ask ask;            /* .any: its Cache-Control has something for caches */
    const struct range_spec *ranges; /* in the arena */
    unsigned nranges;
    /* the response's source */
    enum cache_reason reason; /* why it was not to be had from the cache alone */
    struct entry *entry;      /* borrowed; held once `holds` is set */
    struct entry *old;        /* held, from LOOKUP to MISS: to validate or to complete */
    struct waiter wait;       /* QUEUED, FETCH: the outcome.  DELIVER: more of the body */
    uint16_t failed_status;   /* what it said then; 0: nothing */
    bool origin_failed;       /* and a stale response stands in */
    bool holds, leader, collapsed, asked_backend;
    bool as_asked;              /* passed: conditions and ranges are the origin's to answer */
    bool as_came;               /* the range that the origin chose to send */
    bool no_join;               /* what came did not complete what is stored */
    bool pipes;                 /* its route allows an upgrade, and it asks for one */
    struct origin_conn *tunnel; /* owned, after the origin's 101 */
    struct req_pipe *pipe;
    struct stobj *upload; /* the request's body, on its way to our fetch */
    struct waiter upload_room;
    /* delivery */
    struct exchange_response resp;
    struct stobj *body; /* borrowed from the entry; owned when `own_body` */
    struct req_segment all;
    const struct req_segment *segments; /* `all`, or in the arena */
    unsigned nsegments, segment;
    unsigned part;  /* of the entry, that is being read */
    uint64_t pos;   /* of the representation: what is leased next */
    uint64_t until; /* where the reading of this part ends; LEASE_TO_END */
    struct lease_iter it;
    bool begun, own_body, reading, head_sent, body_ended, source_ended, text_due, cut;
    unsigned nleased, ngiven, nreturned; /* of `ext`: leased, accepted, returned */
    size_t given_part;                   /* of ext[ngiven]: bytes accepted */
    uint64_t accepted;                   /* body bytes accepted, all */
    uint64_t ends[LIMIT_LEASES];         /* body position behind each extent */
    struct lease_extent ext[LIMIT_LEASES];
    struct req *next_idle;
};

enum req_next req_goto(struct req *r, enum req_state next);
enum req_next req_synth(struct req *r, unsigned status, int err);
void req_run(struct task *task);

/* req_deliver.c */
enum req_next req_do_deliver(struct req *r);
/* Gives back every lease; true when nothing of delivery is pending. */
bool req_end_delivery(struct req *r);
void req_hold(struct req *r);

/* req_pipe.c: a tunnel after the origin's 101. */
enum req_next req_do_pipe(struct req *r);
void req_take_tunnel(struct req *r, struct origin_conn *conn); /* takes it */
void req_end_pipe(struct req *r);

/* req_select.c: what of a stored response the client wants (RFC 9110 13, 14).  0 or TERR_NOMEM. */
int req_select(struct req *r);
/* Fields that may make it less than all. */
#define REQ_SELECTS \
    (HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) | HTTP_BIT(HTTP_F_RANGE))

/* req_status.c: the lines that say what became of the request here. */
void req_extra_lines(struct req *r);

/* req_synth.c */
enum req_next req_do_synth(struct req *r);

/* req_upload.c: from the client into the fetch's upload object. */
int req_open_upload(struct req *r);
void req_pump_upload(struct req *r);
bool req_end_upload(struct req *r);

/* req_log.c: one record when it is over. */
void req_log(struct req *r);

#endif
