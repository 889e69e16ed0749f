/* origin_priv.h -- what the files of origin/ share: directors, backends, their registry.
 *
 *   refs   holds on a director: of policies, of directors that contain it, of fetches
 *   conns  connections to a backend, in use or idle, of all workers
 *
 * A director that loses its last hold is freed there and then.  A backend is then retired:
 * it cannot be found again, idle connections to it are closed, and the management thread
 * frees it when no connection is left (registry_sweep).
 */
#ifndef TARN_ORIGIN_PRIV_H
#define TARN_ORIGIN_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "conf/conf.h"
#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/net/resolve.h"
#include "daemon/net/stream.h"
#include "daemon/origin/director.h"
#include "daemon/origin/probe.h"

struct probe;
struct outcome; /* private to outcome.c */

struct director_member {
    struct director *d; /* held */
    double weight;
    uint64_t ident;  /* hash: of its name, and how many of that name came before; shard: its own */
    double rampup_s; /* shard; < 0: the director's own */
};

struct shard_point {
    uint64_t at;
    uint32_t member;
};

struct shard {
    struct shard_point *ring; /* sorted */
    unsigned npoints, replicas;
    double warmup, rampup_s;
};

#define DIRECTOR_MAGIC OBJ_TAG('d', 'i', 'r', 't')
struct director {
    uint32_t magic;
    enum director_kind kind;
    _Atomic unsigned refs;
    char *name;
    /* below: not of a backend; changed only while no other thread sees it */
    bool sticky, tries_others;
    double bound; /* hash: factor; 0: none */
    int64_t bound_least;
    struct director_member *members;
    unsigned nmembers, members_cap;
    /* round robin, weighted: the member of each turn; NULL: each once */
    uint16_t *round;
    unsigned round_len;
    struct shard shard;
    /* round robin: choices made; sticky fallback: the member that worked last */
    _Atomic unsigned turn;
};

struct backend {
    struct director director; /* kind DIRECTOR_BACKEND */
    struct registry *registry;
    struct conf_backend *conf; /* its own copy */
    char *full;
    unsigned number;
    bool none; /* `backend x none;` */
    _Atomic int64_t conns;
    _Atomic int64_t open;    /* of these, where max_connections bounds them */
    _Atomic unsigned queued; /* fetches that wait, or were called and have not taken theirs */
    pthread_mutex_t queue_lock;
    struct list queue;    /* under queue_lock: waiters */
    _Atomic int64_t load; /* of these in use, and fetches to come */
    /* written under `lock`; read by any thread */
    _Atomic bool healthy;
    _Atomic int64_t changed_ms; /* wall clock; 0: never */
    _Atomic int64_t well_ms;    /* wall clock, when it became so; 0: never */
    _Atomic int admin;          /* enum backend_admin */
    _Atomic bool member;        /* of a director, now or once */
    _Atomic unsigned fails;     /* of its fetches, in a row */
    _Atomic bool ejected;
    pthread_mutex_t lock;
    struct {
        unsigned times; /* without having been well for as long as the last one took */
        int64_t took_ms;
        uint64_t until_ms, back_ms; /* monotonic */
    } eject;                        /* under lock */
    bool probe_says;                /* under lock; true without a probe */
    bool placed;                    /* under lock; it has an address: its name was resolved */
    /* Where it is, if its name has other addresses than at the load; see names.c. */
    struct backend_addrs *addrs; /* under lock; changed by the management thread; NULL: as loaded */
    _Atomic unsigned generation; /* of these */
    struct {
        struct resolve *lookup;   /* under way; NULL: none */
        uint64_t due_ms;          /* monotonic; 0: not looked at yet */
        bool failed;              /* the last one; said once */
    } name;                       /* the management thread's */
    struct outcome *outcome;      /* held; set once at creation */
    struct probe *probe;          /* set once at creation; NULL: none */
    struct secure_client *secure; /* set once at creation; NULL: plain */
};

struct probes;
struct backend_snapshot;

#define REGISTRY_MAGIC OBJ_TAG('r', 'e', 'g', 'y')
struct registry {
    uint32_t magic;
    unsigned nslots;
    const struct backend_secure *secure;         /* NULL: none speaks TLS */
    _Atomic(struct backend_snapshot *) snapshot; /* RCU */
    struct probes *probes;                       /* while they run */
    struct counters *counters;                   /* NULL: nothing is counted */
    struct backend_names *names;                 /* NULL: not published */
    struct resolver *resolver;                   /* while probes run; NULL: no name is looked up */
    unsigned nlookups;                           /* of names, under way */
    pthread_mutex_t peers_lock;
    struct list peers;                   /* under peers_lock: workers' origins */
    struct backend *slots[BACKENDS_MAX]; /* the management thread's */
};

static inline struct backend *
director_backend(struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(d->kind == DIRECTOR_BACKEND);
    return container_of(d, struct backend, director);
}

/* director.c: the parts that a director and a backend have in common.  0 or TERR_NOMEM. */
int director_init(struct director *d, enum director_kind kind, const char *name);
void director_fini(struct director *d);

/* Without its last hold: no new connection to it is taken. */
static inline bool
backend_is_retired(const struct backend *b)
{
    return atomic_load_explicit(&b->director.refs, memory_order_acquire) == 0;
}

/* What both ways of adding have in common. */
int director_append(struct director *d, const struct director_member *what);

/* shard.c */
/* The member is about to leave: its points do, and those behind it get their new places. */
void shard_remove(struct director *d, unsigned member);
/* nmembers: none. */
unsigned shard_choose(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among);

/* splitmix64's finalizer (Steele, Lea and Flood 2014): every bit of the input moves all. */
static inline uint64_t
director_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Between 0 and 1, neither included. */
static inline double
director_unit(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* backend.c */
/* Healthy, unlike before its probe or its settings were known: that is no change. */
void backend_settle(struct backend *b);
int backend_make(struct backend **out, struct registry *rg, const char *name, const char *full);
void backend_free(struct backend **bp);
/* registry.c: has `d`, made from what is said in `conf`, the files that are there now? */
bool backend_is_current(struct director *d, const struct conf_backend *conf);
/* registry.c: as backend_new(), but that a name may have no addresses. */
int backend_admit(struct director **out, struct registry *rg, const struct conf_backend *conf,
    const struct probe_conf *probe, const char *name, const char *full);
/* What its probe says; true when its health has changed. */
bool backend_set_probed(struct backend *b, bool healthy);
void backend_set_placed(struct backend *b); /* its name has addresses, the first ones */

/* registry.c: held; that of the backend that has the name already, if one does.  NULL: no memory. */
struct outcome *registry_outcome(struct registry *rg, const char *full);

/* probe_run.c: a backend that came while probes run. */
void probes_admit(struct probes *all, struct backend *b);

/* probe.c: one owned by the backend; `conf` is copied.  0 or TERR_NOMEM, TERR_INVALID. */
int probe_new(struct probe **out, struct backend *b, const struct probe_conf *conf);
void probe_free(struct probe **pp);

/* director_choose.c: may one of it be chosen?  `among` NULL: any healthy one; else those
 * that are well too, and that the question does not avoid. */
bool director_is(const struct director *d, const struct director_ask *among);

/* backend.c: now, wall clock. */
int64_t backend_wall_ms(void);

/* names.c */
/* One address of a backend, for the stream.  It must not move: `address` points into it. */
struct backend_place {
    struct stream_target target;
    uint64_t key;        /* tells addresses apart */
    unsigned generation; /* of the addresses it is among */
};
/* The nth, around.  Any thread. */
void backend_place_of(struct backend *b, unsigned nth, struct backend_place *out);
/* Network byte order; it is the same at all its addresses.  Not of one at a Unix socket. */
uint16_t backend_port(const struct backend *b);
/* Is the address, which has no port, still among its own?  Sets *generation to what was looked at.  Any thread. */
bool backend_is_at(struct backend *b, uint64_t key, unsigned *generation);
/* Starts a lookup when it is due, and takes the answer. */
void backend_name_tick(struct backend *b, uint64_t now_ms);
void backend_forget_lookup(struct backend *b);

/* outcome.c: of all backends of one full name. */
struct outcome *outcome_new(void); /* NULL: no memory */
struct outcome *outcome_hold(struct outcome *o);
void outcome_drop(struct outcome **op);
void outcome_failed(struct outcome *o);
void outcome_forget_fails(struct outcome *o);

/* eject.c */
/* Under its lock: as if nothing had failed. */
void backend_forgive(struct backend *b);
/* Its time may be over. */
void backend_eject_tick(struct backend *b, uint64_t now_ms);

#endif
