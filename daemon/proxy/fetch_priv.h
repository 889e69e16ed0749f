/* fetch_priv.h -- what the files of a fetch share: the machine, its start and its outcome. */
#ifndef TARN_FETCH_PRIV_H
#define TARN_FETCH_PRIV_H

#include "daemon/http/conditional.h"
#include "daemon/http/forward.h"
#include "daemon/http/freshness.h"
#include "daemon/http/range.h"
#include "daemon/proxy/fetch.h"
#include "storage/lease.h"

enum {
    FETCH_SPAN_MAX = 1 << 20, /* asked of storage at a time */
    FETCH_TRIED_MAX = 3,      /* backends of a director that did not work; then it fails */
};

enum fetch_state {
    FETCH_START,      /* get a connection */
    FETCH_GATHER,     /* before that: the request that started it reads its body */
    FETCH_CONNECT,    /* wait until it is up */
    FETCH_SEND,       /* send the request */
    FETCH_HEAD,       /* wait for the response's head */
    FETCH_REVALIDATE, /* 304: what is stored is good; the end of the response */
    FETCH_BODY,       /* move the body into storage */
    FETCH_DONE,       /* whole */
    FETCH_ERROR,      /* failed: notify all requests */
    FETCH_CLOSE,      /* release until nothing is pending */
};

enum fetch_next {
    FETCH_MORE, /* the state changed: step again now */
    FETCH_WAIT, /* step when woken */
};

/* Who gets the response.  A private one, and one in a window, is not for those that ask later. */
enum fetch_audience {
    FETCH_PRIVATE, /* the request that asked */
    FETCH_SHARED,  /* all: the entry is in the index, or will be */
    FETCH_WINDOWED /* the requests of now: `body` is a window, with any number of readers */
};

enum fetch_sent {
    FETCH_UNSENT,
    FETCH_SENDING, /* the head; the body goes on */
    FETCH_SENT,    /* to its end */
};

/* What is sent on one connection, and came on it. */
struct fetch_on {
    enum fetch_sent request;
    bool noted_head, noted_verdict; /* in the log, and in the backend's books */
    uint64_t asked_us;              /* when the request was sent; clock_read_us() */
    uint64_t sent;                  /* of the connection, when we looked last */
    struct message_edit *stripped;  /* in the arena: the response without cookies of the route */
};

/* From one decision what to ask to the next: cleared as a whole when it is asked again, on account of
 * what came or did not (fetch_new_attempt). */
struct fetch_attempt {
    struct backend *tried[FETCH_TRIED_MAX]; /* compared, and never looked at */
    unsigned ntried;
    unsigned address; /* of the backend's: the one that is connected to */
    bool fresh;       /* no connection that was idle */
    int err;
    struct fetch_on on;
    int64_t received_ms; /* wall clock; 0: nothing yet */
    int64_t came_ms;     /* the same, monotonic */
    /* the outcome */
    enum fresh_refusal refusal; /* why the response is not stored */
    bool by_request;            /* what the request said keeps the response out of the cache */
    bool too_large, no_room;
    bool pack_decided;      /* whether it is packed for all */
    bool stalled;           /* the readers are slow, not the origin */
    bool offers;            /* the response may be a dictionary (RFC 9842) */
    uint16_t absent_status; /* 404 or 410, with absent_ms */
    int64_t absent_ms;      /* for how long it is known that nothing is there; 0: it is not */
    int64_t absent_age_ms;
    uint64_t part_len; /* of a part: bytes that must come; else STOBJ_SIZE_UNKNOWN */
};

enum fetch_lease {
    FETCH_LEASE_NONE,
    FETCH_LEASED,
    FETCH_LEASE_GIVEN, /* to the connection */
};

/* The request's body, out of the object that the client's upload fills. */
struct fetch_upload {
    struct stobj *body; /* NULL: there is none, or not yet */
    uint64_t length;
    struct waiter wait;
    struct lease_iter it;
    struct lease_extent ext;
    enum fetch_lease lease; /* of `ext` */
    uint64_t at;            /* bytes leased so far */
    bool ended;
    bool kept;  /* all of it is kept: it can be sent again */
    bool later; /* the client has one that is not read yet; FETCH_FOR_CACHE */
};

#define FETCH_MAGIC OBJ_TAG('f', 't', 'c', 'h')
struct fetch {
    uint32_t magic;
    enum fetch_state state;
    enum fetch_kind kind;
    enum fetch_audience audience;
    struct task task;
    struct list link; /* in proxy->fetches */
    struct proxy *proxy;
    struct backend *backend;           /* held; NULL: none was healthy */
    struct director *from;             /* held: may choose another backend; NULL: none */
    const struct conf_backend *conf;   /* of the backend */
    struct backend_snapshot *snapshot; /* held: of the route; NULL: it has no say */
    const struct conf_route *route;    /* with `snapshot` */
    struct fetch_policy *vcl;          /* in the arena; NULL: there is no policy */
    struct fetch_hop *hop; /* likewise; NULL: no other node of the fleet was to be asked */
    struct fetch_held
        *held; /* in the arena: published only when the body is whole; NULL: it streams */
    struct fetch_attempt attempt;
    uint8_t asked; /* the method sent: enum http_method */
    bool for_head; /* the client asked with HEAD, whatever the policy made of it */
    bool cut;      /* the worker ends: no fetch may go on */
    bool expected; /* the backend expects us, and has no connection of ours yet */
    struct fetch_listener listener;
    struct entry *entry;  /* held */
    struct entry *shared; /* held: becomes a marker when `entry`, our own by then, is published */
    struct stobj *body;   /* borrowed from the entry, once it is published */
    struct stobj *kept;   /* owned: will be the entry's body when there is room for it */
    struct origin_conn *conn;
    struct origin_turn turn; /* START: when all connections are in use */
    struct slice upgrade;    /* protocols asked for */
    bool connect;            /* exchange.connect */
    /* what is stored already */
    struct entry *old;          /* held */
    struct http_message stored; /* its head, in place */
    struct validators have;     /* its */
    struct fetch_pack *pack;    /* in the arena: the body is packed; NULL: it is not */
    struct fetch_esi *esi;      /* with `pack`: the body is parsed for ESI; on the heap */
    enum conf_compress_extent compress;
    bool by_esi;      /* its route is processed by ESI */
    bool included;    /* an include of a page began it */
    bool forms;       /* what is stored of it shall answer every Accept-Encoding */
    bool conditional; /* asked whether it has changed */
    bool joining;     /* asked for what it lacks */
    bool ranged;      /* asked for a part */
    struct fresh_ask ask;
    uint32_t negative_generation; /* when it began */
    struct range_spec want;       /* what the client wants, when it is one range of `nwant` */
    unsigned nwant;
    struct slice range, if_range;
    struct timer timer;
    struct waiter space; /* BODY: room in storage */
    struct arena arena;
    struct http_message req; /* the request, copied */
    enum http_scheme scheme; /* the one that the client came by */
    struct slice host, key_text, client, forwarded, id, cdn_loop;
    uint64_t xid;                    /* of the request that it was started for */
    uint64_t start_us;               /* monotonic */
    int64_t sent_ms;                 /* wall clock, of its start */
    const struct proxy_header *ends; /* for a backend with proxy_header, without a policy; arena */
    struct http_message request;     /* as it is sent; in the arena */
    struct fetch_upload upload;
};

static inline bool
fetch_is_shared(const struct fetch *f)
{
    return f->audience == FETCH_SHARED;
}

static inline bool
fetch_is_windowed(const struct fetch *f)
{
    return f->audience == FETCH_WINDOWED;
}

/* The next decision what to ask begins with nothing of the last one. */
static inline void
fetch_new_attempt(struct fetch *f)
{
    tassert(f->pack == NULL);
    f->attempt = (struct fetch_attempt){.part_len = STOBJ_SIZE_UNKNOWN};
}

/* While there is a connection. */
static inline struct origin_exchange *
fetch_exchange(const struct fetch *f)
{
    return origin_exchange(f->conn);
}

enum fetch_next fetch_goto(struct fetch *f, enum fetch_state next);
const char *fetch_state_name(enum fetch_state state);
enum fetch_next fetch_fail(struct fetch *f, int err);
void fetch_run(struct task *task);

/* fetch_body.c: the state BODY. */
enum fetch_next fetch_do_body(struct fetch *f);
/* Room in the object for what comes next: 0, TERR_AGAIN, or why not. */
int fetch_room(struct fetch *f, struct span *room);
/* There was none: the state waits. */
enum fetch_next fetch_stall(struct fetch *f);
/* So many bytes of it were written. */
void fetch_stored(struct fetch *f, size_t n);
/* Milliseconds between bytes of the response, the policy's word first. */
int64_t fetch_between_bytes_ms(const struct fetch *f);

/* fetch_pack.c: bodies that are packed on their way. */
extern const struct slice fetch_gzip;
bool fetch_head_is_gzip(const struct http_message *head); /* one coding, and it is gzip */
/* May what is stored of it answer every Accept-Encoding? */
bool fetch_is_form(const struct fetch *f, const struct http_message *head);
enum fetch_readers {
    FETCH_FOR_ALL, /* it is stored, or flows through a window */
    FETCH_FOR_ONE, /* for the request that asked */
};
/* Does the file say that this response shall be packed for them? */
bool fetch_pack_by_file(
    const struct fetch *f, const struct http_message *head, enum fetch_readers readers);
/* Shall it, or be unpacked, by the policy's word too?  Then f->pack is there until fetch_pack_close(). */
bool fetch_pack_open(struct fetch *f, const struct http_message *head, enum fetch_readers readers);
/* It becomes shorter on its way, and not longer. */
bool fetch_is_packed(const struct fetch *f);
void fetch_pack_close(struct fetch *f); /* again is harmless */
/* A form's head, built already, as it goes into the cache.  0 or TERR_*. */
int fetch_pack_head(struct fetch *f, struct http_message *head);
/* BODY: one piece.  *got: its bytes; 0: the state changed, or we wait. */
enum fetch_next fetch_pack_move(struct fetch *f, size_t *got);

/* fetch_esi.c: pages that are parsed for ESI, and stored as records. */
/* Shall it be?  *packed: it has to be unpacked first. */
bool fetch_esi_by_route(const struct fetch *f, const struct http_message *head);
bool fetch_esi_wants(const struct fetch *f, const struct http_message *head, bool *packed);
/* f->esi is there until fetch_esi_close().  0 or TERR_NOMEM. */
int fetch_esi_open(struct fetch *f, bool packed);
void fetch_esi_close(struct fetch *f); /* again is harmless */
/* As codec_run(), through `codec` first if there is one. */
int fetch_esi_run(
    struct fetch *f, struct codec *codec, struct slice *in, struct span *out, enum codec_flow flow);
/* r->head, which is written: without what is true of the page alone, if `head` is that of such a page.  0 or
 * TERR_*. */
int fetch_esi_head(struct fetch *f, const struct http_message *head, struct cache_response *r);
/* Validators go behind the other fields, and are not sent.  0 or TERR_NOMEM. */
int fetch_esi_hide(struct fetch *f, struct cache_response *r);

/* fetch_start.c */
void fetch_free(struct fetch *f);
void fetch_deadline(struct fetch *f, int64_t after_ms);

int fetch_write_request(struct fetch *f, struct http_message *out);
/* The backend that is asked, until the fetch ends or picks another.  0 or TERR_NOBACKEND. */
int fetch_pick(struct fetch *f, struct director *from);
/* That backend did not work, and nothing has come of it: another one of the same director.  False:
 * there is none. */
bool fetch_elsewhere(struct fetch *f);
/* The backend need not expect us any more: there is a connection, or there will be none. */
void fetch_arrive(struct fetch *f);
/* The request, from its beginning, on another connection. */
void fetch_rewind(struct fetch *f);
void fetch_drop_upload(struct fetch *f);
/* Before a backend is asked: 0 once the request has read its body, or as much as may wait; TERR_AGAIN;
 * TERR_NOMEM, or TERR_CANCELLED: it cannot be had. */
int fetch_gather_upload(struct fetch *f);
/* The client's body goes along.  0, TERR_NOMEM, or TERR_CANCELLED: the request has left. */
int fetch_ask_upload(struct fetch *f);

/* By the key; NULL: `from` has none that is healthy.  Borrowed. */
struct backend *fetch_choose(struct fetch *f, struct director *from);
/* The backend that is asked now: it has the load from the choice on. */
void fetch_use(struct fetch *f, struct backend *b, struct director *from);

/* fetch_hop.c: another node of the fleet, which owns the key, is asked in the origin's place.  Then neither the policy
 * nor the route has a say: the owner's had. */
bool fetch_hops(const struct fetch *f);
/* When all is composed: if there is such a node, it is asked.  0 or TERR_NOMEM. */
int fetch_hop_begin(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec);
void fetch_hop_end(struct fetch *f);
int fetch_hop_write(struct fetch *f); /* f->request.  0 or TERR_* */
enum fetch_next fetch_hop_head(struct fetch *f, const struct http_message **head);
void fetch_hop_hear(struct fetch *f);
enum fetch_next fetch_hop_leave(struct fetch *f); /* to the origin */
const struct fresh_verdict *fetch_hop_verdict(const struct fetch *f);
bool fetch_hop_stands_in(
    const struct fetch *f); /* what the owner answered is in place of an error */
void fetch_hop_say(const struct fetch *f, struct forward_request *how); /* in its message */
bool fetch_hop_is_self(const struct fetch *f, const struct backend *b);
/* The policy, while it has a say. */
static inline struct fetch_policy *
fetch_asks_policy(const struct fetch *f)
{
    return fetch_hops(f) ? NULL : f->vcl;
}

/* fetch_policy.c, for functions of the language. */
int fetch_policy_rollback(struct fetch *f); /* bereq as it was before vcl_backend_fetch */
double fetch_policy_rfc_ttl(const struct fetch *f);

/* fetch_plan.c: what to ask for.  0 or TERR_NOMEM. */
int fetch_write_range(struct fetch *f, uint64_t first, uint64_t last);
int fetch_plan(struct fetch *f, const struct fetch_spec *spec);
/* What the client wants, whatever is stored.  0 or TERR_NOMEM. */
int fetch_plan_without_old(struct fetch *f);

/* fetch_route.c: where the route has actions. */
void fetch_rule_times(const struct fetch *f, struct fresh_params *fp);
/* The response's head as it is judged, stored and passed on.  0 or TERR_*. */
int fetch_rule_head(struct fetch *f, const struct http_message **head);

/* fetch_log.c: in the shared-memory log, if a reader wants the details. */
static inline bool
fetch_is_logged(const struct fetch *f)
{
    return __builtin_expect(shmlog_readers(f->proxy->log), 0);
}

void fetch_log_begin(const struct fetch *f);
void fetch_log_request(const struct fetch *f); /* as it is sent, on f->conn */
void fetch_log_response(const struct fetch *f, const struct http_message *head);
void fetch_log_verdict(const struct fetch *f, const struct fresh_verdict *v);
void fetch_log_end(const struct fetch *f);

/* fetch_merge.c: outcomes that build on what is stored. */
/* A 304: a new entry with the old body; `how` its head is made (MERGE without a policy).  0 or
 * TERR_*; TERR_POLICY: the policy answered otherwise, and *next is its way. */
int fetch_revalidated(
    struct fetch *f, const struct http_message *head, enum vcl_action how, enum fetch_next *next);
/* A 206: the parts of the new entry, those of `old` among them if they belong together.  0, or
 * why it cannot be kept. */
int fetch_gather_parts(struct fetch *f, const struct http_message *head, struct cache_response *r,
    struct entry_part parts[ENTRY_PARTS_MAX]);
/* An unsafe request changed something: what is stored of it leaves (RFC 9111 4.4). */
void fetch_invalidate(struct fetch *f, const struct http_message *head);

/* fetch_send.c */
void fetch_begin(struct fetch *f);
/* 0 when the request is sent whole, TERR_AGAIN, or what went wrong. */
int fetch_send(struct fetch *f);
void fetch_close_upload(struct fetch *f);
void fetch_rewind_upload(struct fetch *f); /* that is kept: from its beginning */

/* The id that a stored response remembers; 0: none. */
static inline uint64_t
fetch_stored_xid(const struct fetch *f)
{
    return f->proxy->params.http_x_varnish ? f->xid : 0;
}

void fetch_judge(struct fetch *f, const struct http_message *head, struct fresh_verdict *v);
/* By the file: for how long is it remembered that there is nothing?  0: it is an ordinary response,
 * or there is no such memory. */
int64_t fetch_core_absent_ms(
    const struct fetch *f, const struct http_message *head, const struct fresh_verdict *v);
/* What the response that is not kept tells about those to come. */
void fetch_mark(struct fetch *f, struct entry *marker, struct entry *handoff, unsigned status);
int fetch_vary(struct fetch *f, const struct http_message *head, struct slice *out);
/* fetch_tags.c: what clients see of r->head, which is written, and, when it is kept, its tags.  0 or
 * TERR_NOMEM. */
int fetch_tags(struct fetch *f, struct cache_response *r, bool kept);
/* Has it tags, by its fields or the policy's word? */
bool fetch_names_tags(const struct fetch *f, const struct http_message *head);
/* fetch_publish.c: the outcome for the entry; 0 and f->body set, or TERR_*. */
int fetch_publish(struct fetch *f, const struct http_message *head);
/* The body is whole, and no request has had the head yet: publishes it now.  0 or TERR_*. */
int fetch_publish_held(struct fetch *f);
/* It goes out as far as it is: there is no room for all of it.  0; TERR_LIMIT: the policy wants it whole; TERR_NOMEM. */
int fetch_let_go(struct fetch *f);
/* The requests that waited for what became a marker, if it did: they look again, and the
 * request that fetched gets the response. */
void fetch_tell_marker(struct fetch *f, unsigned status);
/* The same for an answer that says that nothing is there, once its body is `whole`, or will not be: it
 * is remembered only if it came whole.  Nothing to do for any other. */
void fetch_tell_absent(struct fetch *f, bool whole);
/* Is the request that started the fetch there, to hear of it? */
bool fetch_has_listener(const struct fetch *f);
/* It never will be. */
void fetch_drop_held(struct fetch *f);
uint64_t fetch_object_max(const struct proxy *p);
/* It became larger than what is kept, or the store is full: no other request shall find it, and
 * what follows goes through a window to its present readers.  Between spans.  0, or why it must go
 * on as it is. */
int fetch_outgrown(struct fetch *f);
/* Before the object that was not published goes. */
void fetch_drop_kept(struct fetch *f);

#endif
