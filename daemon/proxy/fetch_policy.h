/* fetch_policy.h -- a fetch under a policy: vcl_backend_fetch, _response, _refresh, _error.
 *
 * For daemon/proxy/ only.
 */
#ifndef TARN_FETCH_POLICY_H
#define TARN_FETCH_POLICY_H

#include "daemon/http/message_edit.h"
#include "daemon/policy/policy.h"
#include "daemon/proxy/fetch_priv.h"

#define FETCH_UNSAID INT64_MIN

/* What was asked and said from one vcl_backend_fetch to the next: cleared as a whole by return(retry). */
struct fetch_policy_attempt {
    bool asked;                      /* vcl_backend_fetch has been run */
    bool answered;                   /* vcl_backend_response has been run */
    struct message_edit *beresp;     /* the response, once it was looked at; ours, when `made` */
    const struct http_message *came; /* the response as it came, while it is there */
    struct fresh_verdict v;          /* of the RFC; then beresp.ttl, .grace, .keep */
    int64_t rfc_ttl_ms;
    int64_t grace_ms, keep_ms; /* beresp's; keep is from the end of grace */
    int64_t hitpass_ms;        /* pass(d); FETCH_UNSAID */
    int64_t absent_ms;         /* beresp.ttl began with it: by the file nothing is there; 0 */
    int64_t absent_said_ms;    /* tarn.negative(d); FETCH_UNSAID */
    int64_t transit_bytes;     /* beresp.transit_buffer; FETCH_UNSAID: the parameter's */
    uint16_t status;           /* error(status) */
    uint8_t status_prefix;     /* beresp.status 1404: 1; its head has what is sent */
    struct slice reason;
    struct tags *tags;     /* tarn.tag(); NULL: none */
    struct slice tag_text; /* with peers: what was said, in words */
    struct slice *body;    /* parts of beresp.body */
    unsigned nbody, body_room;
    bool touched;      /* beresp has been changed */
    bool made;         /* beresp is ours: vcl_backend_error */
    bool forbidden;    /* by RFC 9111 3, to be stored */
    bool uncacheable;  /* beresp.uncacheable */
    bool by_builtin;   /* vcl_backend_response ended in builtin.vcl, which keeps it out */
    bool whole;        /* beresp.do_stream is false */
    bool gzip, gunzip; /* beresp.do_gzip, beresp.do_gunzip */
    bool esi;          /* beresp.do_esi; begins with the route's */
    bool gzip_said;    /* the former is the policy's, and no more what `compress` says */
    bool was_304;
    bool ttl_said; /* beresp.ttl was */
};

struct fetch_policy {
    struct policy_ref *ref; /* counted */
    struct director *backend;
    struct message_edit *bereq; /* the request to the backend; NULL: to be made */
    struct fetch_policy_attempt at;
    const char *ban_error;
    struct vcl_cookies *cookies; /* of import cookie; in the arena */
    uint64_t xid;
    /* of the client, which may have left */
    struct policy_end ends[POLICY_ENDS]; /* of its connection */
    struct slice identity, endpoint, socket;
    uint64_t session;
    const struct conn_secure *secure; /* in the arena; NULL: a plain connection */
    /* what was said of bereq: a retry asks by it again */
    int64_t connect_ms, first_byte_ms, between_bytes_ms; /* FETCH_UNSAID: the backend's */
    bool no_body;
    bool retry_connect;
    bool host_said; /* bereq.http.Host was set */
    uint8_t retries;
    bool over; /* abandoned, or failed: no more questions */
    bool bgfetch, hitmiss, hitpass;
};

/* Copies what the exchange knows of the client.  0 or TERR_NOMEM. */
int fetch_policy_open(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec);
void fetch_policy_close(struct fetch *f);
/* Before a connection is asked for: FETCH_WAIT: go on. */
enum fetch_next fetch_policy_fetch(struct fetch *f);
/* The backend that vcl_backend_fetch chose, and what is sent to it.  0 or TERR_*. */
int fetch_policy_pick(struct fetch *f);
/* `Connection: close` of bereq or beresp: the backend's connection is not used again. */
bool fetch_policy_closes(const struct fetch *f);
/* What is asked of the backend has changed: vcl_backend_fetch sees it again. */
void fetch_policy_ask_anew(struct fetch *f);
/* The request once more, for another backend.  0 or TERR_*. */
int fetch_policy_write(struct fetch *f);
/* A head came, that is no 304 to our question.  FETCH_WAIT: f->vcl->at.v and fetch_policy_head()
 * are what is to be published. */
enum fetch_next fetch_policy_response(struct fetch *f, const struct http_message *head);
/* A 304 was merged: what vcl_backend_response, which follows, begins with. */
void fetch_policy_merged(
    struct fetch *f, const struct http_message *merged, const struct fresh_verdict *v);
/* It said for how long it would be fresh, and that was over when it came. */
bool fetch_policy_was_fresh(const struct fetch *f);
/* For how long it is known that there is nothing; 0: it is an ordinary response. */
int64_t fetch_policy_absent_ms(const struct fetch *f);
const struct http_message *fetch_policy_head(
    const struct fetch *f, const struct http_message *came);
/* A 304 came to our question: what its answer is made of.  FETCH_WAIT: *act is MERGE, OBJ_STALE or
 * BERESP. */
enum fetch_next fetch_policy_refresh(
    struct fetch *f, const struct http_message *head, enum vcl_action *act);
/* The fetch failed, and no request was notified: FETCH_WAIT: notify them. */
enum fetch_next fetch_policy_error(struct fetch *f);

/* fetch_vars.c */
int fetch_edit_beresp(struct fetch *f); /* f->vcl->at.beresp is there.  0 or TERR_* */
/* beresp.body: sets it, or appends to it. */
int fetch_set_body(
    struct vcl_run *run, struct fetch *f, const struct slice *parts, unsigned n, bool append);

#endif
