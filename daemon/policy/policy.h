/* policy.h -- a policy as requests and fetches of a worker use it.
 *
 *   use      a worker's share of a policy: how many of its requests and fetches run under it, so
 *            that no count that workers share is touched for a request
 *   current  the use that new requests begin with
 *
 * Threads: one worker's, except struct policy, which is immutable once published, its count aside.
 */
#ifndef TARN_POLICY_H
#define TARN_POLICY_H

#include <stdatomic.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/http/message_edit.h"
#include "daemon/proxy/proxy.h"
#include "vcl-lite/vcl.h"

struct req;
struct fetch;

#define POLICY_MAGIC OBJ_TAG('p', 'o', 'l', 'y')
struct policy {
    uint32_t magic;
    _Atomic unsigned refs; /* the registry's, and one of each worker that has a use */
    struct vcl *vcl;
    const char *name, *file;
    struct director *default_backend; /* borrowed: of the policy's own or of its snapshot */
    uint64_t digest;                  /* of its texts */
    uint32_t trivial;                 /* bit of enum vcl_sub: need not be run */
    uint8_t action[VCL_SUB_COUNT];    /* then: what it returns */
    bool hashes_as_builtin, reads_hits;
    bool keeps_key;  /* its own vcl_hash makes it, or purge.hard() or purge.soft() is called */
    bool keeps_body; /* std.cache_req_body is called */
    bool by_routes;  /* it declares no backend: where it names none, routes choose */
    struct backend_snapshot *snapshot; /* held: the configuration's backends, as it was loaded */
    /* the management thread's */
    struct policies *policies;
    struct rcu_later later; /* discarded: the registry's count goes when no reader can find it */
    struct policy *next;
    struct director **held; /* backends and directors that it made */
    unsigned nheld;
    struct policy_source *source; /* held: its text and includes */
    struct policy *instead;       /* during a reload: the same with other backends */
    struct policy_text *files;    /* read by std.fileread; under a lock */
    bool sent;                    /* by an operator: its files lie below policy_path */
    const char *init_why;         /* why vcl_init failed; malloc'ed */
    bool begun;                   /* vcl_init has been run */
    double loaded_s;
    _Atomic bool let_go; /* discarded, and the registry's count has gone */
    bool discarded;
    bool of_conf;     /* the configuration named its file; else an operator loaded it */
    unsigned nlabels; /* that stand for it */
};

struct policy_label {
    const char *name;
    struct policy *policy;
};

/* Under RCU. */
struct policy_set {
    uint64_t generation;   /* counts the process's sets, from 1 */
    struct policy *active; /* NULL: none */
    unsigned nlabels;
    struct policy_label labels[];
};

struct policy_ref {
    struct policy *policy; /* held */
    unsigned users;
    struct policy_ref *next;
};

/* A request begins: the current use, counted; NULL: there is no policy. */
static inline struct policy_ref *
policy_begin(struct proxy *p)
{
    struct policy_ref *u;

    if (p->policies == NULL)
        return NULL;
    if (__builtin_expect(
            atomic_load_explicit(p->policies, memory_order_acquire)->generation != p->policies_seen,
            0))
        policy_look(p);
    u = p->policy;
    if (u != NULL)
        u->users++;
    return u;
}

static inline struct policy_ref *
policy_share(struct policy_ref *u)
{
    if (u != NULL)
        u->users++;
    return u;
}

void policy_leave(struct proxy *p, struct policy_ref *u); /* the last user of an old one */
void policy_leave_all(struct proxy *p);                   /* the worker ends */

/* Takes *up. */
static inline void
policy_end(struct proxy *p, struct policy_ref **up)
{
    struct policy_ref *u = *up;

    *up = NULL;
    if (u != NULL && --u->users == 0 && u != p->policy)
        policy_leave(p, u);
}

/* The policy that a label stands for now, counted; NULL: the label is gone. */
struct policy_ref *policy_labelled(struct proxy *p, const char *label);

static inline bool
policy_is_trivial(const struct policy *pol, enum vcl_sub sub)
{
    return (pol->trivial & (1u << sub)) != 0;
}

/* What decides what an object is, as a number that is the same at every node of a fleet where that is the same: the
 * policy's texts, NULL: none, and conf->content of the configuration that it was loaded with and of that of now.  While
 * a reload goes on, a request under the policy of before has a number that no node says. */
uint64_t policy_rules(const struct policy *pol, struct registry *registry);

/* --- what a run sees --- */

extern const struct vcl_host policy_host; /* of requests and fetches */
extern const struct vcl_host policy_init_host;
/* The id of the request, also of the one that a fetch was started for; 0: vcl_init. */
uint64_t policy_ctx_xid(const struct policy_ctx *ctx);

/* Functions that client and backend side share; policy_fn.c. */
/* Is it active, or labelled?  NULL: is none active? */
bool policy_is_in_use(const struct proxy *p, const struct policy *pol);
int policy_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out);
int policy_method(struct vcl_run *r, void *object, unsigned method, const struct vcl_value *args,
    unsigned present, struct vcl_value *out);
int policy_ban(struct vcl_run *r, struct slice expression, bool *ok);
const void *policy_resolve_now(struct vcl_run *r, const void *backend);
struct vcl_cookies **policy_cookies(struct vcl_run *r);
struct slice policy_backend_name(const void *backend);
struct slice policy_storage_name(const void *storage);
/* policy_vars.c: struct vcl_host's get, set, unset and get_storage. */
int policy_var_get(struct vcl_run *run, enum vcl_var var, struct vcl_value *out);
int policy_var_set(struct vcl_run *run, enum vcl_var var, const struct vcl_value *value);
int policy_var_unset(struct vcl_run *run, enum vcl_var var);
int policy_get_storage(
    struct vcl_run *run, enum vcl_var var, const void *storage, struct vcl_value *out);

/* policy_tag.c: tarn.tag, tarn.purge_tag. */
int policy_tag(struct vcl_run *r, const struct vcl_value *args);
int policy_purge_tag(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out);
/* req_limit.c: tarn.rate_limit. */
int policy_rate_limit(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out);

/* policy_table.c: tarn.table_contains, tarn.table_lookup. */
int policy_table_contains(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out);
int policy_table_lookup(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out);

/* A record Error for readers of the log; in vcl_init a line of the error log. */
void policy_note(struct vcl_run *r, const char *function, struct slice what, const char *why);

/* Files that std.fileread and std.file_exists name: read when the policy was loaded. */
int policy_file_read(
    struct policy *pol, struct vcl_run *r, struct slice path, struct vcl_value *out);
int policy_file_exists(
    struct policy *pol, struct vcl_run *r, struct slice path, struct vcl_value *out);
/* By name, of the policy or the configuration; NULL: none. */
struct director *policy_lookup_backend(struct policy *pol, struct slice name);

/* The policy may end a connection, by the field that says so. */
bool policy_says_close(const struct http_message *h);
/* Field access on any head. */
struct slice policy_field(const struct http_message *h, const struct vcl_name *name, unsigned nth);
/* A policy reads several lines of these as one, as Varnish does. */
static inline bool
policy_joins(const struct vcl_name *name)
{
    return name->id == HTTP_F_CACHE_CONTROL || name->id == HTTP_F_VARY;
}
struct slice policy_joined(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name);

enum {
    POLICY_TTL_MS = 120000 /* default_ttl when a policy runs and the file does not say */
};

static inline int64_t
policy_default_ttl_ms(const struct conf_params *params)
{
    return !params->ttl_said && params->default_ttl == 0 ? POLICY_TTL_MS : params->default_ttl;
}

#define POLICY_XID_MAX     UINT64_C(1000000000000000) /* INT's range */
#define POLICY_SECONDS_MAX (100.0 * 365 * 86400)      /* longer is for ever */
int64_t policy_ms(double seconds);

static inline struct slice
policy_string(const struct vcl_value *v)
{
    return slice_of(v->s, v->len);
}

static inline int
policy_fail(struct vcl_run *r, const char *why)
{
    r->why = why;
    return TERR_POLICY;
}

/* An end of the client's connection. */
enum policy_end_name {
    POLICY_END_CLIENT, /* as it is, or as a PROXY header or a trusted proxy says */
    POLICY_END_SERVER, /* likewise: the end that the client connected to */
    POLICY_END_REMOTE, /* of the connection itself */
    POLICY_END_LOCAL,
    POLICY_ENDS
};
struct policy_end {
    uint8_t addr[16]; /* zeros: a Unix socket */
    uint16_t port;
};
void policy_end_of(const struct exchange *x, enum policy_end_name name, struct policy_end *out);
/* The address as the language has it, in the run's arena; NULL: none, or no memory. */
struct vcl_ip *policy_ip(struct vcl_run *r, const uint8_t addr[16], uint16_t port);

/* Writes what ran into the log, when it has a reader. */
void policy_log(struct proxy *p, const struct vcl_run *run, uint64_t xid, enum shmlog_kind kind,
    enum vcl_action act);

#endif
