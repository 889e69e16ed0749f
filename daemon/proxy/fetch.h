/* fetch.h -- getting a response from an origin into an entry.
 *
 * A fetch lives as long as it is useful: the request that started it may leave.  It shares
 * only the entry with requests, and the body that the client uploads, if there is one.
 *
 * Threads: one worker's.  The entry's readers may be on any.
 */
#ifndef TARN_FETCH_H
#define TARN_FETCH_H

#include "daemon/proxy/proxy.h"

struct fresh_ask;
struct req_rules;
struct range_spec;
struct req;

enum fetch_kind {
    FETCH_FOR_CACHE, /* a GET for others too; the entry is in the index, or will be */
    FETCH_PASS,      /* the request as it is; the entry is private */
    FETCH_REST,      /* a range of what `leader` has begun to send; the entry is private */
};

struct fetch_spec {
    enum fetch_kind kind;
    const struct http_message *head; /* the request */
    struct slice identity;           /* client.identity; with a policy */
    bool edited; /* the policy has the say on X-Forwarded-For: it stands in the head, or not */
    struct policy_ref *policy;     /* counted, and taken over; NULL: there is none */
    const struct req_rules *rules; /* borrowed for the call; NULL: no route has a say */
    bool hitmiss, hitpass;         /* a marker was found */
    int64_t connect_ms;            /* bereq.connect_timeout as vcl_pipe set it; 0: not said */
    struct director *backend;      /* borrowed for the call */
    struct slice host;             /* normal form */
    struct slice key_text;
    struct entry *entry;         /* one hold is taken over */
    struct entry *old;           /* stored: to be validated, or completed; one hold is taken over */
    bool complete;               /* `old` lacks bytes that were asked for */
    const struct fresh_ask *ask; /* FETCH_FOR_CACHE: the client's directives */
    const struct range_spec *ranges; /* and what it wants of the whole; nranges 0: all */
    unsigned nranges;
    struct slice if_range;  /* FETCH_REST: of this version; its range is ranges[0] */
    struct req *leader;     /* the request, until the entry is abandoned; NULL: none waits */
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
