/* admin_priv.h -- what the handlers of admin/ share. */
#ifndef TARN_ADMIN_PRIV_H
#define TARN_ADMIN_PRIV_H

#include "daemon/admin/admin.h"
#include "daemon/admin/admin_table.h"
#include "daemon/base/json.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/latency.h"
#include "daemon/why/why.h"
#include "storage/storage.h"

#define ADMIN_MAGIC OBJ_TAG('a', 'd', 'm', 'n')
struct admin {
    uint32_t magic;
    unsigned nreqs;    /* under way */
    unsigned nstreams; /* of them: answers that go on (admin_log.c) */
    int64_t started_ms;
    struct observer *observer;
    struct admin_env env;
};

enum {
    ADMIN_NAME_MAX = 256, /* of a policy, a parameter, a host; with its NUL */
};

/* An answer that goes on. */
struct admin_stream {
    /* Writes up to `room` bytes (ADMIN_STREAM_ROOM): how many; 0: nothing now; TERR_CLOSED: that was
     * all.  It never waits. */
    ssize_t (*next)(struct admin_stream *s, char *buf, size_t room);
    void (*free)(struct admin_stream *s);
};
#define ADMIN_STREAM_ROOM 131072

/* What is asked of an invalidation, of a node in a fleet. */
struct admin_fleet_ask {
    bool all;   /* a proof of every node */
    bool local; /* this node alone */
    int64_t timeout_ms;
    uint64_t ticket; /* of what was done; 0: it is not in the log */
};

/* One request, whole.  A handler reads the first half and fills the second, once. */
struct admin_call {
    struct admin *admin;
    enum http_method method;
    struct slice path;         /* without its query */
    struct slice query;        /* behind the ?; empty without one */
    struct slice body;         /* has a NUL behind it */
    char name[ADMIN_NAME_MAX]; /* what stood for *; "" without one */

    unsigned status;             /* 0: not answered yet */
    json_t *json;                /* owned; what is sent, unless there is text */
    char *text;                  /* owned, malloc */
    struct admin_stream *stream; /* owned, instead */
    const char *type;
    char allow[64];       /* with 405 */
    char page_rules[384]; /* the page's Content-Security-Policy; "": it is not the page */
    bool stops;           /* the process is to end */
    bool drains;          /* likewise, when every client has been served */

    /* A handler that answers later sets these instead: `resume` when the task was woken, which may
     * answer then; `leave` in any case, before the call goes. */
    struct task *task;
    void (*resume)(struct admin_call *c);
    void (*leave)(struct admin_call *c);
    void *waits; /* the handler's */
    struct admin_fleet_ask fleet;
};

typedef void admin_handler_f(struct admin_call *c);

/* A row of admin_table.h. */
struct admin_route {
    enum http_method method;
    const char *path;
    admin_handler_f *handler;
    const char *asks, *doc;
};
extern const struct admin_route admin_routes[];
extern const unsigned admin_nroutes;

/* admin_route.c: finds the handler and runs it, or answers itself.  Afterwards c is answered. */
void admin_route(struct admin_call *c);

/* admin.c: what load balancers ask for; they have no token. */
bool admin_is_public(struct slice path);
bool admin_is_health(struct slice path);
/* admin_browser.c: could a page of another site be asking?  False: answered 403. */
bool admin_is_own(struct admin_call *c, const struct exchange *x, bool has_token);
/* admin_allow.c: false: answered 403. */
bool admin_is_allowed(struct admin_call *c, const struct exchange *x);

/* admin_allow.c: the user of the client's process, on a Unix socket; NULL: it is not known. */
const struct conn_operator *admin_cred(const struct exchange *x);

/* admin_answer.c.  `json` is taken; NULL: no memory, answered as such. */
void admin_answer(struct admin_call *c, unsigned status, json_t *json);
/* 200, and then what the stream says; it is taken. */
void admin_answer_stream(struct admin_call *c, struct admin_stream *s);
/* `hint` may be NULL; fmt is printf's. */
void admin_fail(struct admin_call *c, unsigned status, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* For what the called one does not tell more about: 404, 409, 503, ... */
void admin_fail_terr(struct admin_call *c, int err, const char *what);
/* The body as an object with these members at most (NULL ends them), owned by the caller; NULL:
 * it is answered already. */
json_t *admin_body(struct admin_call *c, const char *const *members);
/* A member that must be text, borrowed; NULL: answered. */
const char *admin_member(struct admin_call *c, const json_t *object, const char *key);
/* A number that may stand in the query, or one of some words: then its place among them. */
struct admin_arg {
    const char *name; /* NULL ends them */
    unsigned base;    /* 10 or 16 */
    uint64_t least, most;
    const char *const *words; /* NULL ends them; NULL: it is a number */
};
/* values[i] is what the query says of args[i], or stays as it is.  False: answered already. */
bool admin_args(struct admin_call *c, const struct admin_arg *args, uint64_t *values);
/* Makes what is sent of the answer: text and its length, which the caller frees.  NULL: no
 * memory. */
char *admin_render(struct admin_call *c, size_t *len);
/* admin_memory.c.  Bytes, of one snapshot: a branch is the sum of its leaves, the total of all. */
uint64_t memory_of_branch(const struct storage_stats *s, const char *name);
uint64_t memory_total(const struct storage_stats *s);
/* admin_params.c.  A number or a switch may be written as JSON has them.  False: it is no value. */
bool admin_param_text(const json_t *v, char *out, size_t size);
/* admin_tags.c: the purge of `tags`, which are an array of texts, or one text. */
void admin_purge_tags(struct admin_call *c, const json_t *tags, bool soft);
/* Of everything that was fetched before now. */
void admin_purge_all(struct admin_call *c, bool soft);
/* admin_fleet.c: the node's fleet; NULL: answered. */
struct fleet;
struct fleet *admin_fleet(struct admin_call *c);
/* admin_shared.c: of what was changed at this node alone: the answer says, as "note", that the fleet shares it, and which
 * command of tarnctl changes it everywhere.  `has`: what the fleet has, or NULL. */
void admin_note_shared(
    struct admin_call *c, const char *thing, const char *has, const char *command);
/* The text of a thing that this node has of its fleet; NULL: none. */
const char *admin_shared_text(const struct admin_call *c, const char *thing);
/* Of an invalidation's body the members "wait", "timeout_ms" and "local".  False: answered. */
bool admin_fleet_asked(struct admin_call *c, const json_t *body);
/* As invalidation_make(), or at this node alone, as was asked for. */
struct invalidation;
struct invalidation_result;
int admin_invalidate(
    struct admin_call *c, const struct invalidation *inv, struct invalidation_result *result);
/* What it came to, which is taken; of a node in a fleet later, with its place in the log, or its proof. */
void admin_answer_logged(struct admin_call *c, unsigned status, json_t *answer);
/* admin_why.c: a URL as it is asked for.  A path alone is on the host that a client names
 * when it knows only our first listener's address.  Freed by the caller; NULL: no memory. */
char *admin_absolute(const struct admin *a, struct slice url);
/* admin_why.c: one more field of a request, "Name: value", borrowed.  False: answered. */
bool admin_take_field(
    struct admin_call *c, struct why_field fields[WHY_FIELDS_MAX], unsigned *n, struct slice text);
/* admin_schema.c: into the schemas of the OpenAPI description; what a route answers, as one. */
void admin_put_schemas(json_t *to);
json_t *admin_schema_of(const struct admin_route *r);
/* admin_metrics.c.  One number of /v1/counters; the tree of memory's are not among them. */
struct admin_number {
    const char *name, *unit, *doc; /* "storage.used", "_bytes" or "", ... */
    enum counter_kind kind;
    uint64_t value;
};
typedef void admin_number_f(void *ctx, const struct admin_number *n);
void admin_each_number(const struct admin *a, admin_number_f *each, void *ctx);
/* Into a status: the active policy's name. */
void admin_put_policy(const struct admin_call *c, json_t *to);

#define X(method, path, handler, asks, doc) admin_handler_f admin_do_##handler;
ADMIN_ROUTE_TABLE(X)
#undef X

#endif
