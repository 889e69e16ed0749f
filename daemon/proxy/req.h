/* req.h -- one client request, as a policy reads and changes it and as why/ explains it.
 *
 * The struct is here because why/ has one that no client sent (why/synthetic.h), and because a run reads
 * it for each variable.  What moves a request from state to state is req_priv.h's.
 *
 * Threads: one worker's; that of why/ is the management thread's.
 */
#ifndef TARN_REQ_H
#define TARN_REQ_H

#include "daemon/cache/invalidation.h"
#include "daemon/http/freshness.h"
#include "daemon/http/range.h"
#include "daemon/policy/policy.h"
#include "daemon/proxy/rep_reader.h"

enum req_state {
    REQ_RECV,    /* which backend serves this, and may the cache be asked? */
    REQ_LOOKUP,  /* ask the cache */
    REQ_HIT,     /* something stored was found: the policy decides */
    REQ_QUEUED,  /* another request fetches it: wait for the outcome */
    REQ_MISS,    /* start the fetch that others will wait for */
    REQ_PASS,    /* start a fetch for this client alone */
    REQ_FETCH,   /* our fetch is running; wait for a response head */
    REQ_PIPE,    /* a tunnel between client and origin */
    REQ_SYNTH,   /* we make the response */
    REQ_DELIVER, /* to the client, at the client's pace */
    REQ_CLOSE,   /* release until nothing is pending */
    REQ_ADMIT,   /* before all: what its route says of it; where routes have actions */
    REQ_STATES
};

/* What a body is made of: text of ours, then bytes of the representation.  An ordinary response
 * has one segment, without text; several ranges have one each (RFC 9110 14.6). */
struct req_segment {
    struct slice text;
    uint64_t first, end; /* end LEASE_TO_END: all there will be */
};

/* What the policy of a request has purged or banned, in a fleet.  In the arena. */
struct req_purged {
    struct invalidation_watch
        watch;           /* of the last one: the others stand in front of it in the log */
    bool asked, settled; /* SYNTH: the log was asked, and has answered */
    bool unlogged;       /* one of them is not in the log */
};

/* What the policy has said of a request. */
struct req_policy {
    struct policy_ref *ref;               /* NULL: there is none */
    struct policy_ref *first;             /* that it began with, before return(vcl(label)) */
    struct message_edit *req;             /* the request, once it was changed */
    struct message_edit *resp;            /* the response, once it was looked at or changed */
    struct slice key;                     /* a vcl_hash of its own made it, or `key_kept` */
    struct slice identity;                /* client.identity, when it was set */
    struct slice reason;                  /* SYNTH: that was given */
    const char *ban_error;                /* of the last std.ban; "": none */
    struct vcl_cookies *cookies;          /* of import cookie; in the arena */
    const struct negative_answer *absent; /* SYNTH: why; in the arena; NULL: not because of it */
    struct entry *refresh;                /* HIT: held, to be fetched if the hit is delivered */
    int64_t grace_ms, max_age_ms;         /* req.grace, req.max_age; REQ_UNSAID */
    uint16_t nbody;                       /* SYNTH: parts of resp.body */
    uint16_t connect_cs; /* vcl_pipe: bereq.connect_timeout, 10 ms each; 0: unsaid */
    uint8_t restarts;
    bool always_miss : 1, ignore_busy : 1, ignore_vary : 1; /* req.hash_* */
    bool hitmiss : 1, hitpass : 1;                          /* what the lookup found was a marker */
    bool synth : 1;                                         /* the answer is vcl_synth's */
    bool touched : 1;                                       /* `resp` has been changed */
    bool lookup_said : 1;                 /* grace_ms, max_age_ms or one of req.hash_* was set */
    bool delivered : 1;                   /* vcl_deliver has been run */
    bool body_keeping : 1, body_kept : 1; /* the request's body can be sent again */
    bool close : 1;                       /* the connection ends after this */
    bool hop : 1; /* a node of the fleet asks (req_hop.c): `ref` is NULL, `first` the fetch's */
    bool background : 1; /* and serves what it has stored meanwhile, as this one would */
    bool key_kept : 1;   /* `key`: the core's, for the record of a purge */
    bool esi_off : 1;    /* req.esi, or resp.do_esi, is false */
    bool gunzip_off : 1, range_off : 1; /* taken out of resp.filters */
    bool piped : 1;                     /* return(pipe) */
    bool hinted : 1;                    /* req.backend_hint was set */
    bool no_length : 1;                 /* Content-Length was taken out of `message` */
    const struct http_message *message; /* the response, built anew; in the arena; or NULL */
    struct req_purged *purged;          /* NULL: nothing, or there is no fleet */
};
#define REQ_UNSAID INT64_MIN

enum req_attends {
    REQ_HAS_POLICY = 1,
    REQ_HAS_RULES = 2, /* its route has actions: `rules` is set */
    REQ_IS_HOP = 4,
};

/* What its route does to a request, in the arena. */
struct req_rules {
    struct backend_snapshot *held;     /* NULL: only borrowed */
    struct backend_snapshot *snapshot; /* it has the route */
    const struct conf_route *route;
    unsigned number;          /* among the routes, from 1; 0: the listener's */
    struct conf_page page;    /* what the listener answers; body.len 0: nothing */
    struct auth_check *check; /* in the arena; NULL: nothing was asked yet */
    struct slice name, value; /* SYNTH: one more field of our answer; name.len 0: none */
};

/* Who chose what is sent of the representation. */
enum req_choice {
    REQ_CHOOSES,  /* we, by the request's conditions and ranges */
    REQ_AS_ASKED, /* passed: they are the origin's to answer */
    REQ_AS_CAME,  /* the origin: another range than it was asked for */
};

/* From one way to an answer to the next: cleared as a whole when another is sought, by a restart or since
 * what came does not serve (req_forget_response). */
struct req_attempt {
    enum cache_reason reason; /* why it was not to be had from the cache alone */
    int err;                  /* SYNTH: what went wrong, TERR_*, or 0 */
    uint16_t failed_status;   /* what the origin said when it failed; 0: nothing */
    bool origin_failed;       /* and a stale response stands in */
    uint8_t choice;           /* enum req_choice */
    bool leader;              /* our own fetch fills the entry */
    bool collapsed;           /* we waited for the fetch of another */
    bool no_join;             /* what came did not complete what is stored */
    bool pipes;               /* its route allows an upgrade, and it asks for one */
};

#define REQ_MAGIC OBJ_TAG('r', 'e', 'q', '.')
struct req {
    uint32_t magic;
    enum req_state state;
    struct task task;
    struct proxy *proxy;
    struct exchange *x;
    const struct http_message *head; /* the request: as it came, or as the policy made it */
    struct director *backend;        /* that the policy named, or its default; borrowed */
    unsigned backend_number;         /* 1 + that of the backend asked; 0: none */
    unsigned log_flags;              /* enum shmlog_req_flag */
    struct hash128 key;
    uint32_t key_len;           /* of proxy->key_text, in the turn that made it */
    uint32_t host_at, host_len; /* the normal authority, in it */
    uint16_t synth_status;
    uint16_t retry_after_s; /* SYNTH, 429 */
    /* what the client wants, when it says so */
    struct fresh_ask ask;            /* .any: its Cache-Control has something for caches */
    const struct range_spec *ranges; /* in the arena */
    unsigned nranges;
    struct req_attempt attempt;
    /* the response's source */
    struct entry *entry; /* borrowed; held once `holds` is set */
    struct entry *old;   /* held, from LOOKUP to MISS: to validate or to complete */
    bool holds;
    bool no_window;             /* it joined a body on its way, in vain */
    bool only_stored;           /* it starts nothing */
    bool early;                 /* it came in early data: ask req_is_early() */
    bool gathering;             /* PASS, FETCH: its body comes before a backend is asked */
    bool passes;                /* its route says `pass`, or it asks for an upgrade */
    uint8_t attended;           /* enum req_attends: what else has a say */
    struct origin_conn *tunnel; /* owned, after the origin's 101 */
    struct req_pipe *pipe;
    struct req_policy policy;
    struct stobj *upload; /* the request's body, on its way to our fetch */
    /* delivery */
    struct exchange_response resp;
    struct req_segment all;
    const struct req_segment *segments; /* `all`, or in the arena */
    uint8_t nsegments, segment;
    uint8_t nleased, ngiven, nreturned; /* of `ext`: leased, accepted, returned */
    bool unpacks;                       /* the body is sent as it was before it was packed */
    bool begun, head_sent, body_ended, text_due, cut;
    bool own_body;         /* `rep.body` is ours */
    uint32_t ttfb_us;      /* until the head left; 0: all of it left at once */
    size_t given_part;     /* of ext[ngiven]: bytes accepted */
    uint64_t accepted;     /* body bytes accepted, all */
    struct rep_reader rep; /* what is read: the entry's, or a body of our own */
    /* up to rep.it all is zero at first; what follows is not touched */
    struct waiter wait; /* QUEUED, FETCH: the outcome.  DELIVER: more of the body */
    struct waiter upload_room;
    uint64_t ends[LIMIT_LEASES]; /* body position behind each extent */
    struct lease_extent ext[LIMIT_LEASES];
    union {
        struct req_rules *rules; /* with REQ_HAS_RULES */
        struct req *next_idle;   /* of memory that is kept for the next one */
    };
    struct stobj *page; /* kept from request to request: an empty synth, or NULL */
};
_Static_assert(sizeof(struct req) <= 1024, "one byte more costs 256, of each slow reader too");

static inline const struct req_rules *
req_rules(const struct req *r)
{
    return (r->attended & REQ_HAS_RULES) != 0 ? r->rules : NULL;
}

/* --- its key, and what it asks of the cache (req.c) --- */

int req_make_key(struct req *r);
struct slice req_key_text(struct req *r);
/* Has a vcl_hash of its own made the key?  A core's that is kept does not count: it is of the head as it
 * was looked up, and the core goes by the head as it is. */
static inline bool
req_made_key(const struct req *r)
{
    return r->policy.key.ptr != NULL && !r->policy.key_kept;
}

/* Without a policy: what the client says about how it wants to be answered, and whether the cache
 * may do it.  0 or TERR_NOMEM. */
int req_read_directives(struct req *r);
bool req_is_for_cache(const struct req *r);
void req_query(const struct req *r, struct cache_query *q); /* what it asks of the cache */
bool req_is_origins(const struct req *r); /* its conditions are the origin's to judge */

/* --- its policy (req_policy.c) --- */

enum vcl_action req_policy_run(struct req *r, enum vcl_sub sub);
int req_policy_key(struct req *r); /* by its vcl_hash.  0, TERR_POLICY, TERR_NOMEM */
/* vcl_recv, and the key where its answer needs one.  0; TERR_POLICY: vcl_hash failed; TERR_* of
 * req_make_key() and TERR_NOMEM. */
int req_policy_ask(struct req *r, enum vcl_action *act);
/* It came in early data: is the handshake of its connection not complete even now?  Cheap to ask only
 * behind `r->early`. */
bool req_is_early(struct req *r);
/* For functions of a policy that change something: they fail then, and the answer is 425. */
static inline bool
policy_is_early(const struct policy_ctx *ctx)
{
    return ctx->req != NULL && ctx->req->early && req_is_early(ctx->req);
}
int req_keep_body(struct req *r, int64_t most, struct vcl_value *out); /* std.cache_req_body */

/* The policy that its fetches obey, and its routes; NULL: there is none. */
static inline struct policy_ref *
req_fetch_policy(const struct req *r)
{
    return __builtin_expect(r->policy.hop, 0) ? r->policy.first : r->policy.ref;
}

/* --- what its policy purges (req_purge.c) --- */

/* Of what was made with 0, in a run of it: its answer has the token, where that comes from vcl_synth. */
void req_note_purge(struct req *r, const struct invalidation_result *done);
/* tarn.purge_wait(): that answer waits for every node.  0: for the time of the section fleet.  0 or TERR_NOMEM. */
int req_wait_for_purge(struct req *r, int64_t timeout_ms);
/* Fields of that answer. */
struct req_purge_fields {
    struct slice token, proof; /* token.len 0: there is none */
};
enum {
    REQ_PURGE_FIELDS_MAX = 640, /* bytes of both, with their names */
};
/* With r->policy.purged.  In the arena. */
struct req_purge_fields req_purge_fields(struct req *r);

/* --- its response (req_status.c, req_synth.c) --- */

/* The lines that say what became of the request here. */
void req_extra_lines(struct req *r);
static inline bool
req_says_x_varnish(const struct req *r)
{
    return r->policy.ref != NULL && r->proxy->params.http_x_varnish;
}
/* r->body becomes an empty synth of its own.  0 or TERR_NOMEM.  And back: it stays with the
 * request's memory, for the next; no reader of it is left. */
int req_take_page(struct req *r);
void req_drop_page(struct req *r);

/* --- pages that are put together (req_esi.c) --- */

/* The client's request that it belongs to: itself, or the page that it is included in. */
static inline struct req *
req_top(const struct req *r)
{
    return r->x->place != NULL ? r->x->place->top->answerer : (struct req *)(uintptr_t)r;
}

/* What its route says. */
bool req_esi(const struct req *r);

/* --- its route, its limits, and whether it came back (req_route.c, req_limit.c, req_loop.c) --- */

/* Finds the route, and keeps it (hold) or borrows it; REQ_HAS_RULES is set if it has actions.  0 or TERR_NOMEM. */
int req_take_rules(struct req *r, bool hold);
/* With rules.  Is the answer a redirect? */
bool req_is_redirected(const struct req *r);
int req_apply_rules(struct req *r); /* to the request.  0 or TERR_* */
/* The backend to ask: the policy's choice; else, unless it declares a backend, the route that
 * matches the request as it is now; else the default.  NULL: none.  Hits do without. */
struct director *req_backend(const struct req *r);
/* That route, and which of them it is, from 1; NULL: none decides. */
const struct conf_route *req_route(const struct req *r, unsigned *number);
bool req_route_pipes(const struct req *r);
/* The limit that concerns the request, whatever the client, from number *at on, which becomes
 * its number; NULL: no more. */
const struct conf_limit *req_limit_from(const struct req *r, unsigned *at);
bool req_may_hop(const struct req *r); /* may its fetch ask another node of the fleet? */
/* Is our name in the CDN-Loop of a request, as it came?  Too often, or too often in Via?  `hop`: another node of the
 * fleet asks, and its own name, which stands last, may be ours, too (loop_token). */
bool req_was_here(const struct proxy *p, const struct http_message *came, bool hop);
bool req_loops(const struct proxy *p, const struct http_message *came, bool hop);

/* --- policy/req_vars.c: the request and the response as the policy sees them --- */

/* resp.body: sets it, or appends to it; hash_data().  0; TERR_NOMEM; TERR_POLICY and run->why. */
int req_set_body(
    struct vcl_run *run, struct req *r, const struct slice *parts, unsigned n, bool append);
int req_hash_data(struct vcl_run *run, struct req *r, struct slice data);
int req_edit(struct req *r); /* r->policy.req is there.  0, TERR_NOMEM */
void req_show_head(const struct req *r, struct vcl_run *run);
int req_edit_resp(struct req *r); /* r->policy.resp is there */
/* Is it stored packed, and does the client not take that? */
bool req_must_unpack(const struct req *r);
struct slice req_identity(const struct req *r);
struct slice req_reason(const struct req *r); /* SYNTH */

#endif
