/* proxy.h -- one worker's proxy: what its requests and fetches share.
 *
 * Threads: one worker's, except what the members' own headers share.
 */
#ifndef TARN_PROXY_H
#define TARN_PROXY_H

#include "conf/conf.h"
#include "daemon/base/loop.h"
#include "daemon/cache/cache.h"
#include "daemon/filter/codec.h"
#include "daemon/http/exchange.h"
#include "daemon/http/uri.h"
#include "daemon/origin/director.h"
#include "daemon/origin/origin.h"
#include "daemon/proxy/recode.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/latency.h"
#include "daemon/shm/log.h"
#include "storage/storage.h"
#include "vcl-lite/vcl.h"

struct auth;
struct fetch;
struct challenges;
struct peers;
struct policy;
struct policy_set;
struct policy_ref;
struct rates;
struct req;
struct tables_share;

struct proxy_host {
    size_t len, normal_len; /* len 0: none yet */
    char text[HTTP_AUTHORITY_MAX], normal[HTTP_AUTHORITY_MAX];
};

/* The head of the last answer of our own, rendered. */
struct proxy_synth {
    int64_t second;  /* wall clock: of its Date */
    uint16_t status; /* 0: none yet */
    uint16_t len;
    char text[192]; /* prefix, Date, a Server of 64 bytes */
};

/* The head of the last answer that the negative cache gave, rendered. */
struct proxy_absent {
    int64_t second;  /* wall clock: of its Date */
    uint16_t status; /* 0: none yet */
    uint16_t len;
    char text[320]; /* with a Server and a Via of 64 bytes each */
};

/* The context of one run of a policy. */
struct policy_ctx {
    /* the same for every run of a worker */
    struct proxy *proxy; /* NULL: vcl_init, vcl_fini */
    const struct conf_params *params;
    struct cache *cache; /* NULL: a check of a text, or the very end */
    const struct clock *clock;
    bool explains; /* a synthetic request: what would change something does not */
    /* of this run */
    struct policy *policy;
    const char **ban_error;      /* of the last ban of this task; "": none */
    struct req *req;             /* client side; else NULL */
    struct fetch *fetch;         /* backend side; else NULL */
    struct vcl_cookies *cookies; /* vcl_init's and vcl_fini's */
};

/* Which fields name the client to the backend (parameters.forwarded): bits. */
enum proxy_forwards {
    FORWARDS_NONE = 0,
    FORWARDS_X_FORWARDED_FOR = 1,
    FORWARDS_FORWARDED = 2,
    FORWARDS_BOTH = 3,
};

#define PROXY_MAGIC OBJ_TAG('p', 'r', 'o', 'x')
struct proxy {
    uint32_t magic;
    unsigned nreqs, nfetches;
    struct list fetches; /* under way */
    struct loop *loop;
    const struct http_rendering *rendering; /* that stored heads are kept in; never NULL */
    enum proxy_forwards forwards;
    struct conf_params params; /* the file's, except what was changed while running */
    struct cache *cache;
    struct storage *storage; /* bodies and heads */
    struct storage *synth;   /* answers of our own */
    struct auth *auth;       /* passwords */
    struct rates *rates;     /* NULL: nothing is limited */
    uint64_t storage_bytes;
    struct registry *registry;     /* of backends */
    struct peers *peers;           /* the other nodes of the fleet; NULL: they are not asked */
    struct challenges *challenges; /* of the other nodes; NULL: there are none */
    exchange_start_f
        *start; /* of clients' requests, where nodes of the fleet have another (req_start_peered) */
    struct origins *origins;
    struct counter_set *counters;
    struct latency_set *latency; /* the worker's own */
    struct shmlog *log;
    struct shmlog_req log_req;  /* of the request that has just ended; zeros at first */
    void (*on_idle)(void *ctx); /* draining: the last request or fetch has gone */
    void *on_idle_ctx;
    bool says_ids;         /* request_id_header or http_x_varnish: responses have such a line */
    struct slice loop_id;  /* our name in CDN-Loop; borrowed for ever; empty: none is sent */
    struct slice hit_line; /* what Cache-Status begins with on a hit; in hit_text */
    char hit_text[96];
    _Atomic(struct policy_set *) *policies; /* borrowed; NULL: there are none */
    uint64_t policies_seen;                 /* its generation, when it was looked at */
    struct policy_ref *policy;              /* that new requests begin with; NULL: none */
    struct policy_ref *policy_refs;         /* all, this one too */
    struct tables_share *tables;            /* NULL: the configuration names none */
    uint64_t random;                        /* state of a generator, for policies */
    struct vcl_run run; /* the one under way: a run never waits; vcl NULL: none is */
    struct policy_ctx run_ctx;
    struct req *idle_reqs; /* memory of ended requests */
    unsigned nidle_reqs;
    struct proxy_host last_host;
    struct proxy_synth last_synth;
    struct proxy_absent last_absent;
    struct recoder *recoder; /* the process's, borrowed; NULL: there is none */
    struct recode recode;
    uint64_t next_xid; /* of an include; 0: there was none */
    struct codec_pool
        *codecs; /* from the first body that is packed or unpacked on; NULL: none was */
    char key_text[HTTP_AUTHORITY_MAX + 8 + LIMIT_HEAD_BYTES]; /* of the lookup under way */
};

/* Copies what it needs of conf; conf's texts live until proxy_fini(). */
void proxy_init(struct proxy *p, const struct conf *conf);
/* When its members are set: what runs of policies need of them. */
void policy_prepare(struct proxy *p);
/* Takes part in the policies of now, and leaves those that no request needs any more.  Once a second
 * too, for a worker without requests. */
void policy_look(struct proxy *p);
/* Ends every fetch: no request waits any more. */
void proxy_cut(struct proxy *p);
/* Half of the memory that lies ready for the next requests goes back: see net_loop_trim(). */
void proxy_trim(struct proxy *p);
bool proxy_is_idle(const struct proxy *p);
/* To pack or unpack (daemon/filter), if fewer than `most` of this kind are in use.  NULL: there are as many, or
 * no memory. */
struct codec *proxy_codec(struct proxy *p, enum codec_kind kind, unsigned most);
void proxy_fini(struct proxy *p);

/* Of splitmix64: for choices, not for secrets. */
static inline uint64_t
proxy_random(struct proxy *p)
{
    uint64_t z = p->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* exchange_start_f; ctx is the proxy. */
void req_start(void *ctx, struct exchange *x);
/* The same where the configuration names trusted_proxies or limits, or there has been early data: the client is the one
 * the former name, and a client that asks too often is answered 429. */
void req_start_checked(void *ctx, struct exchange *x);
/* The same where routes have actions, too. */
void req_start_ruled(void *ctx, struct exchange *x);
/* The same where a listener is for the nodes of the fleet; of a client's request p->start. */
void req_start_peered(void *ctx, struct exchange *x);
/* An include's, which has an exchange of its own (rep_esi.h). */
void req_start_include(struct proxy *p, struct exchange *x);
uint64_t esi_next_xid(struct proxy *p);
/* The one of the three that this configuration needs.  `early`: connections with early data have come. */
exchange_start_f *req_start_of(const struct conf *conf, bool early);

/* The client, as the value of X-Forwarded-For, or of Forwarded.  .len 0: it has no address;
 * .ptr NULL: no memory. */
struct slice req_forwarded(const struct exchange *x, struct arena *a, bool forwarded);
enum proxy_forwards proxy_forwards_of(const char *word);

/* What runs on this thread, for a panic; two stores a run. */
struct proxy_here {
    const struct req *req;
    const struct fetch *fetch;
};
extern _Thread_local struct proxy_here proxy_here;

/* Says which request and which fetch run on this thread (tassert_describe). */
void proxy_describe(void);

#endif
