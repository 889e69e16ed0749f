/* req_priv.h -- what the files of a request share. */
#ifndef TARN_REQ_PRIV_H
#define TARN_REQ_PRIV_H

#include "daemon/proxy/fetch.h"
#include "storage/lease.h"

enum req_state {
    REQ_RECV,    /* who serves this, and may the cache be asked? */
    REQ_LOOKUP,  /* ask the cache */
    REQ_QUEUED,  /* another request fetches it: wait for the outcome */
    REQ_MISS,    /* start the fetch that others will wait for */
    REQ_PASS,    /* start a fetch for this client alone */
    REQ_FETCH,   /* our fetch is running; wait for a response head */
    REQ_SYNTH,   /* we make the response */
    REQ_DELIVER, /* to the client, at the client's pace */
    REQ_CLOSE,   /* release until nothing is pending */
    REQ_STATES
};

enum req_next {
    REQ_MORE, /* the state changed: step again now */
    REQ_WAIT, /* step when woken */
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
    /* the response's source */
    struct entry *entry; /* borrowed; held once `holds` is set */
    struct waiter wait;  /* QUEUED, FETCH: the outcome.  DELIVER: more of the body */
    bool holds, leader, collapsed, asked_backend;
    struct stobj *upload; /* the request's body, on its way to our fetch */
    struct waiter upload_room;
    /* delivery */
    struct exchange_response resp;
    struct stobj *body; /* borrowed from the entry; owned when `own_body` */
    unsigned part;      /* of the entry, that is being read */
    struct lease_iter it;
    bool begun, own_body, reading, head_sent, body_ended, part_ended, cut;
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

/* req_synth.c */
enum req_next req_do_synth(struct req *r);

/* req_upload.c: from the client into the fetch's upload object. */
int req_open_upload(struct req *r);
void req_pump_upload(struct req *r);
bool req_end_upload(struct req *r);

/* req_log.c: one record when it is over. */
void req_log(struct req *r);

#endif
