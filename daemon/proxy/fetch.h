/* fetch.h -- getting a response from an origin into an entry.
 *
 * A fetch lives as long as it is useful: the request that started it may leave.  It shares
 * only the entry with requests, and the body that the client uploads, if there is one.  It knows
 * nothing of a request; what the one that started it must hear goes to its fetch_listener.
 *
 * Threads: one worker's.  The entry's readers may be on any.
 */
#ifndef TARN_FETCH_H
#define TARN_FETCH_H

#include "daemon/proxy/proxy.h"

struct fresh_ask;
struct origin_conn;
struct range_spec;

enum fetch_kind {
    FETCH_FOR_CACHE, /* a GET for others too; the entry is in the index, or will be */
    FETCH_PASS,      /* the request as it is; the entry is private */
    FETCH_REST,      /* a range of what the request has begun to send; the entry is private */
};

/* What the request that started a fetch hears of it.  In the fetch's task, and never once the entry is
 * abandoned.  None calls anything of the fetch. */
struct fetch_listener_ops {
    /* This backend is asked: 1 + its number. */
    void (*backend)(void *ctx, unsigned number);
    /* 102 or 103 for its client; copied.  It may be dropped. */
    void (*interim)(void *ctx, const struct http_message *m);
    /* The origin's 101 was published: the connection is the request's.  Takes it. */
    void (*tunnel)(void *ctx, struct origin_conn *conn);
    /* The body goes on in a window: will it be read there? */
    bool (*expect)(void *ctx);
    /* Reads the request's body, whole or as much as may wait.  0, TERR_AGAIN, TERR_NOMEM, or why it
     * cannot be had. */
    int (*gather)(void *ctx);
    /* The request's body, which begins to be read: a reference.  NULL: no memory. */
    struct stobj *(*upload)(void *ctx);
};

struct fetch_listener {
    const struct fetch_listener_ops *ops; /* NULL: no request waits */
    void *ctx;
};

struct fetch_spec {
    enum fetch_kind kind;
    const struct http_message *head; /* the request */
    struct slice identity;           /* client.identity; with a policy */
    bool edited;     /* the policy has the say on X-Forwarded-For: it stands in the head, or not */
    bool hops;       /* the node that owns the key may be asked */
    bool hop;        /* another node of the fleet asks */
    bool background; /* for no client: what is stored is served meanwhile, there and here */
    bool hinted;     /* the policy named `backend` */
    struct policy_ref *policy;          /* counted, and taken over; NULL: there is none */
    struct backend_snapshot *snapshot;  /* borrowed for the call; NULL: no route has a say */
    const struct conf_route *route;     /* in it */
    enum conf_compress_extent compress; /* of the request's route */
    bool esi;                           /* likewise */
    bool hitmiss, hitpass;              /* a marker was found */
    int64_t connect_ms;                 /* bereq.connect_timeout as vcl_pipe set it; 0: not said */
    struct director *backend;           /* borrowed for the call */
    struct slice host;                  /* normal form */
    struct slice key_text;
    struct entry *entry;         /* one hold is taken over */
    struct entry *old;           /* stored: to be validated, or completed; one hold is taken over */
    bool complete;               /* `old` lacks bytes that were asked for */
    const struct fresh_ask *ask; /* FETCH_FOR_CACHE: the client's directives */
    const struct range_spec *ranges; /* and what it wants of the whole; nranges 0: all */
    unsigned nranges;
    struct slice if_range; /* FETCH_REST: of this version; its range is ranges[0] */
    struct fetch_listener listener;
    bool upgrade;           /* FETCH_PASS: the request may become a tunnel */
    struct stobj *upload;   /* the request's body, or NULL; one reference is taken over */
    uint64_t upload_length; /* EXCHANGE_LENGTH_UNKNOWN: chunked */
    bool upload_kept;       /* whole, and kept while the request lives */
    bool upload_later; /* the client has a body that is not read: asked for if a policy sends it */
};

/* Copies what it needs of the exchange.  Always ends with an outcome of the entry, also when
 * there is no memory to start. */
void fetch_start(struct proxy *p, const struct exchange *x, const struct fetch_spec *spec);

#endif
