/* req_priv.h -- what the files of a request's machine share, besides the request (req.h). */
#ifndef TARN_REQ_PRIV_H
#define TARN_REQ_PRIV_H

#include "daemon/proxy/fetch.h"
#include "daemon/proxy/req.h"

enum req_next {
    REQ_MORE, /* the state changed: step again now */
    REQ_WAIT, /* step when woken */
};

enum req_next req_goto(struct req *r, enum req_state next);
const char *req_state_name(enum req_state state);
enum req_next req_do_lookup(struct req *r);
enum req_next req_do_close(struct req *r);
enum req_next req_synth(struct req *r, unsigned status, int err);
void req_run(struct task *task);

/* req_early.c: requests that may be replays. */
/* When it begins, behind the limits: is it early? */
void req_note_early(struct req *r);
enum req_next req_refuse_early(struct req *r); /* 425, from any state */
/* LOOKUP, with only_stored, when there was no hit. */
enum req_next req_not_stored(struct req *r);

/* req_hop.c: a request of another node of the fleet.  ADMIT, DELIVER, and where it cannot be answered here. */
enum req_next req_hop_admit(struct req *r);
struct message_out;
void req_hop_say_failed(struct req *r, struct message_out *o); /* of the origin's error */
void req_hop_stand_in(struct req *r);                          /* in front of it */
enum req_next req_hop_deliver(struct req *r);
enum req_next req_hop_refuse(struct req *r);
void req_hop_query(const struct req *r, struct cache_query *q);
/* The value of Cache-Status, in the arena; .len 0: none is sent; no memory. */
struct slice req_cache_status(const struct req *r);

/* req_loop.c.  Off the hit's path: where a backend is asked, or another request waited for. */
enum req_next req_refuse_loop(struct req *r); /* 508, a line in the error log */
/* The entry that others may wait for by now is not filled: they look again. */
void req_withdraw(struct req *r);

/* req_deliver.c */
enum req_next req_do_deliver(struct req *r);
/* Gives back every lease; true when nothing of delivery is pending. */
bool req_end_delivery(struct req *r);
/* Its body goes on in a window: does it need that?  Then it is expected there. */
bool req_expect(struct req *r);
/* The head has left, and the rest takes longer. */
void req_note_first_byte(struct req *r);

/* req_pipe.c: a tunnel after the origin's 101. */
enum req_next req_do_pipe(struct req *r);
void req_end_pipe(struct req *r);

/* req_rest.c: out of a window that others share; what is missing comes by a fetch of its own, into
 * rep.rest. */
/* 0, or TERR_CLOSED: it cannot be had that way. */
int req_rest_start(struct req *r);
/* Stop waiting for it; and give it back. */
void req_rest_cancel(struct req *r);
void req_rest_end(struct req *r);

/* The response's head: what is sent of a stored one, or what was built.  In the arena; NULL: there is
 * none, or no memory. */
const struct http_message *req_response(struct req *r);
/* Does this exchange take heads in the form in which they are stored? */
static inline bool
req_takes_rendered(const struct req *r)
{
    return __builtin_expect(r->x->ops->rendering == r->proxy->rendering, 1);
}

/* May a head that was rendered before be sent again?  A reader of the log wants its fields. */
static inline bool
req_is_ready_made(const struct req *r)
{
    return req_takes_rendered(r) && !shmlog_readers(r->proxy->log);
}

/* req_select.c: what of a stored response the client wants (RFC 9110 13, 14).  0 or TERR_NOMEM. */
int req_select(struct req *r);
/* Fields that may make it less than all. */
#define REQ_SELECTS \
    (HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE) | HTTP_BIT(HTTP_F_RANGE))

/* X-Varnish, REQ_X_VARNISH_MAX bytes at most; returns where it ends. */
char *req_put_x_varnish(const struct req *r, char *p);
#define REQ_X_VARNISH_MAX 48
/* Age and Cache-Status of what the negative cache knows, REQ_ABSENT_MAX bytes at most; returns
 * where they end. */
char *req_put_absent(const struct req *r, const struct negative_answer *a, char *p);
#define REQ_ABSENT_MAX 160

/* req_synth.c */
enum req_next req_do_synth(struct req *r);
/* LOOKUP: the origin said not long ago that there is nothing. */
enum req_next req_answer_absent(struct req *r, const struct negative_answer *a);

/* req_purge.c.  SYNTH, with `purged`: does the log know by now?  Else the request is woken then. */
bool req_settle_purge(struct req *r);
/* Behind vcl_synth: if that has purged something more, nothing is said of what was before. */
void req_unsay_purge(struct req *r);
/* CLOSE, with `purged` and `wait` pending: the log's answer is not wanted any more. */
void req_leave_purge(struct req *r);

/* req_upload.c: from the client into the fetch's upload object. */
/* Reads the body whole before vcl_recv, if it is not too long: true while it comes. */
bool req_keeping_body(struct req *r);
int req_open_upload(struct req *r);
/* Opens the upload and reads until it is whole or as long as req_body_buffer: 0.  TERR_AGAIN: more
 * is to come; else why it cannot be had. */
int req_gather_upload(struct req *r);
/* A body that the policy had kept goes with each fetch; another one can be read once, if the fetch is
 * this request's own and its method takes a body (fetch_policy_fetch). */
struct fetch_spec;
void req_share_upload(struct req *r, struct fetch_spec *spec);
void req_pump_upload(struct req *r);
bool req_end_upload(struct req *r);

/* req_policy.c: each state's question to the policy.  Only with a policy. */
enum req_next req_policy_recv(struct req *r);
enum req_next req_do_hit(struct req *r);
enum req_next req_policy_miss(struct req *r);
/* Before the fetch of a pass: REQ_WAIT when the pass may go on, else a state was entered. */
enum req_next req_policy_pass(struct req *r);
enum req_next req_policy_deliver(struct req *r);
/* The head that was changed, for the client.  0 or TERR_*. */
int req_write_touched(struct req *r);
enum req_next req_policy_synth(struct req *r);
/* Nothing of an answer that was found or begun is left. */
void req_forget_response(struct req *r);
/* An answer that the policy makes, if there is one. */
enum req_next req_synth_by_policy(struct req *r, unsigned status, struct slice reason, int err);

/* req_route.c: the configuration's routes. */
void req_end_rules(struct req *r);
int req_change_response(struct req *r); /* by its rules, before vcl_deliver.  0 or TERR_* */
enum req_next req_do_admit(struct req *r);
/* CLOSE, with `wait` pending: a password need not be computed any more, nor a purge proven.  Is it IDLE now? */
bool req_cancel_check(struct req *r);
/* Its route's page for this answer of ours; NULL: it has none. */
const struct conf_page *req_error_page(const struct req *r);
/* What the listener answers in a route's place, with *page; NULL: nothing (req_listen.c). */
const struct conf_route *req_listener_route(
    struct req *r, const struct conf *conf, struct conf_page *page);
/* What its route says of compression. */
enum conf_compress_extent req_compress(const struct req *r);

/* req_esi.c: a page that is put together, and the requests for its parts. */
/* The response that is begun is such a page.  0; TERR_NOMEM; TERR_AGAIN: it came too early, 425. */
int req_begin_esi(struct req *r);
enum req_next req_refuse_early_page(struct req *r);

/* req_unpack.c */
/* The response that is begun, of an entry that varies: if it is packed, and this client does not take gzip, it
 * becomes the one without.  0, TERR_NOMEM, or TERR_LIMIT. */
int req_begin_form(struct req *r);
/* Likewise, of a page that is put together now (`rep.filter`): packed, if it may be and the client takes gzip. */
int req_begin_packed(struct req *r);
/* TERR_LIMIT: 503. */
enum req_next req_refuse_unpack(struct req *r);
/* In the log, if that is why it ends. */
void req_note_broken(struct req *r);

/* proxy.c */
void req_free_memory(struct req *r); /* of one that is over, with what it kept for the next */

/* req.c, for the other files */
struct req *req_open(struct proxy *p, struct exchange *x); /* NULL: no memory, and it is over */
/* The authority's normal form, HTTP_AUTHORITY_MAX bytes at most: its length, or TERR_*. */
int req_normal_host(struct proxy *p, struct slice host, char *out);
int req_make_key_of(struct req *r, enum http_scheme scheme); /* as if it came by `scheme` */
int req_read_ranges(struct req *r);
/* With a policy: ranges, and whether it is marked as early.  0 or TERR_NOMEM. */
int req_read_asked(struct req *r);
#define REQ_ASKS (HTTP_BIT(HTTP_F_RANGE) | HTTP_BIT(HTTP_F_EARLY_DATA))
void req_leave_entry(struct req *r);
enum req_next req_use_hit(struct req *r);    /* HIT: it is to be delivered */
enum req_next req_look_again(struct req *r); /* req_deliver.c: what was found is gone */

/* req_client.c: the client and its scheme, by the fields of a trusted proxy, if one sent it. */
void req_find_client(struct proxy *p, struct exchange *x);
/* req_path.c: does a path begin so, whatever way it is written in? */
bool req_path_begins(struct slice path, const char *prefix);
/* Nothing that req_path_normal() would change, except what req_path_begins() reads itself. */
bool req_path_is_plain(struct slice path);
/* As backends may read it (RFC 3986 6.2.2): decoded, without empty segments, parameters and query, dot
 * segments resolved.  `out` has room for path.len + 2. */
struct slice req_path_normal(struct slice path, char *out);
/* req_limit.c: before anything else of it is done. */
void req_check_limits(struct req *r);

/* req_listener.c: what its fetch says to it. */
struct fetch_listener req_listener(struct req *r);
/* The spec's, of its route. */
void req_share_rules(const struct req *r, struct fetch_spec *spec);

/* req_log.c: one record when it is over. */
void req_log(struct req *r);

#endif
