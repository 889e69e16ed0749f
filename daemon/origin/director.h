/* director.h -- where a request is sent: backends, and directors that choose among them.
 *
 *   director   a BACKEND value of the policy language: a backend itself, or something that
 *              chooses one by weight, order, chance or hash (Varnish's vmod_directors)
 *   backend    an origin server: address, limits, health, count of connections
 *   health     auto (its probe says), or set by the operator: healthy, sick
 *   registry   all of the process, by number; a number is used again after its backend left
 *
 * A director holds a count on each member.  Members are added and removed while no other
 * thread sees the director (vcl_init), so that choosing takes no lock.
 *
 * Threads: registry_*, *_new, director_add and director_remove: the management thread.  The rest:
 * any.  Errors: TERR_*.
 */
#ifndef TARN_DIRECTOR_H
#define TARN_DIRECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/address.h"
#include "daemon/base/span.h"

struct backend;
struct backend_names;
struct conf;
struct conf_backend;
struct secure_client;
struct counters;
struct director;
struct loop;
struct probe_conf;
struct registry;

enum {
    BACKENDS_MAX = 4096,         /* a request's record has 16 bits for the number */
    DIRECTOR_MEMBERS_MAX = 1024, /* choosing looks at each */
    DIRECTOR_DEPTH_MAX = 16,     /* directors within directors: choosing recurs */
    DIRECTOR_VISITS_MAX = 16384, /* members of members: looked at in one choice */
};

enum director_kind {
    DIRECTOR_BACKEND,
    DIRECTOR_ROUND_ROBIN,
    DIRECTOR_FALLBACK,
    DIRECTOR_RANDOM,
    DIRECTOR_HASH,
    DIRECTOR_SHARD,
    DIRECTOR_LEAST, /* the member with the least load */
    DIRECTOR_KINDS
};

/* What shard asks of those it chooses among (vmod_directors(3), xshard.backend). */
enum director_health {
    DIRECTOR_CHOSEN, /* the one that is given is healthy; those passed over may be sick */
    DIRECTOR_IGNORE, /* nothing */
    DIRECTOR_ALL,    /* the sick ones are not even counted as alternatives */
};

/* What a choice may depend on; zeros: nothing. */
struct director_ask {
    uint64_t hash;               /* of what the caller hashed: hash directors, and shard by KEY */
    uint64_t random;             /* anything */
    unsigned alternate;          /* shard: the n-th choice after the first, as bereq.retries */
    bool hash_said;              /* `hash` is meaningful; else `random` stands in */
    bool peeks;                  /* no backend will be asked: the next turn stays the same */
    double now_s;                /* wall clock; ramp-up */
    enum director_health health; /* shard; as the rest */
    bool no_rampup, warmup_said; /* without the latter the director's own `warmup` holds */
    double warmup;               /* 0 to 1 */
    /* chosen only when no other is well: they were tried.  Compared, and never looked at */
    struct backend *const *avoid;
    unsigned navoid;
};

/* Makes a backend's TLS from its configuration.  TERR_*, and a sentence in `why`. */
struct backend_secure {
    int (*open)(
        struct secure_client **out, const struct conf_backend *conf, char *why, size_t why_len);
    /* Are the files that it was made of still those that are there?  Main thread. */
    bool (*is_current)(const struct secure_client *c, const struct conf_backend *conf);
    void (*close)(struct secure_client **cp);
};

/* With the backends of the configuration, each a director with its YAML name, and its directors
 * (snapshot.h).  Borrows conf until registry_close, or until others are adopted. */
int registry_open(struct registry **out, const struct conf *conf);
/* The same, with what TLS to backends needs; borrowed until registry_close.  Without it a backend
 * that wants TLS has no connections. */
int registry_open_secure(
    struct registry **out, const struct conf *conf, const struct backend_secure *secure);
/* No director is held any more. */
void registry_close(struct registry **rp);
/* Where results of probes are counted; borrowed until registry_close.  Without it: nowhere. */
void registry_set_counters(struct registry *rg, struct counters *counters);
/* Where backend names are published for readers of the log, present and future; borrowed alike. */
void registry_set_names(struct registry *rg, struct backend_names *names);
/* Every backend that is still held, in no order; borrowed for the call. */
void registry_each(struct registry *rg, void (*f)(void *ctx, struct backend *b), void *ctx);
/* Frees backends without a hold and without a connection.  backend_new and running probes do so
 * too. */
void registry_sweep(struct registry *rg);

/* A backend of a policy, or of none.  `conf` is copied deep; `name` is what the policy
 * calls it, `full` what the operator sees ("boot.default").  probe NULL: healthy unless said
 * otherwise.  One hold is the caller's.  conf NULL: `backend x none;`, always sick.  TERR_NOMEM,
 * TERR_LIMIT: BACKENDS_MAX; TERR_INVALID: the probe, or a name without addresses
 * and without `unresolved`; one with it is not healthy until its name can be resolved. */
int backend_new(struct director **out, struct registry *rg, const struct conf_backend *conf,
    const struct probe_conf *probe, const char *name, const char *full);
/* `name` as above; one hold is the caller's. */
int director_new(struct director **out, enum director_kind kind, const char *name);
/* Holds it.  weight: random and hash; others ignore it.  TERR_NOMEM; TERR_LIMIT: one of the above;
 * TERR_INVALID: it would contain itself, or the weight is no number from 0 on. */
int director_add(struct director *d, struct director *member, double weight);
int director_remove(struct director *d, struct director *member); /* once; TERR_NOTFOUND */
/* fallback: stay with the one that works until it fails */
void director_set_sticky(struct director *d, bool sticky);

/* round robin: as many turns as the weight says, in whole numbers from 1 to DIRECTOR_WEIGHT_MAX,
 * and each member's spread over the round.  After the last member was added.  0 or TERR_NOMEM. */
enum {
    DIRECTOR_WEIGHT_MAX = 1000
};
int director_set_weighted(struct director *d);
/* hash: a member with more than `factor` times its share of the load gets no more, and the next
 * one gets its keys (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam
 * 2016).  Above 1; 0: there is no bound. */
void director_set_bound(struct director *d, double factor);
/* Of so little load a bound says nothing: that much is never too much for a member. */
void director_set_bound_least(struct director *d, int64_t load);

/* A fetch that cannot connect to the chosen backend may ask for another: directors of the
 * configuration.  A policy's leave that to the policy, as in Varnish. */
void director_set_tries_others(struct director *d);
bool director_tries_others(const struct director *d);

/* A shard's ring has `replicas` points of each member, times its weight.  It follows every change
 * at once.  director_add is director_shard_add with nothing said. */
enum {
    SHARD_REPLICAS = 67,        /* Varnish's default */
    SHARD_POINTS_MAX = 1 << 20, /* 16 MiB */
};
/* ident: what is hashed, "": its name; TERR_INVALID when another has it.  rampup_s < 0: the
 * director's own.  weight: 1 and more. */
int director_shard_add(struct director *d, struct director *member, struct slice ident,
    double rampup_s, double weight);
/* TERR_INVALID: 0; TERR_LIMIT, TERR_NOMEM: and the ring is as before. */
int director_shard_reconfigure(struct director *d, unsigned replicas);
void director_shard_clear(struct director *d);
/* Share of choices, 0 to 1, that go to the next healthy one instead, so that it knows the keys. */
void director_shard_set_warmup(struct director *d, double share);
/* For so long after its health came back a member gets only a growing share of its keys. */
void director_shard_set_rampup(struct director *d, double seconds);

/* `d` must be held already.  Returns it. */
struct director *director_hold(struct director *d);
/* Takes the hold and NULLs the pointer. */
void director_drop(struct director **dp);

/* As the policy calls it. */
const char *director_name(const struct director *d);
enum director_kind director_kind(const struct director *d);
/* Of a director that does not change any more; a backend has none.  Borrowed. */
unsigned director_members(const struct director *d);
struct director *director_member(const struct director *d, unsigned nth, double *weight);
/* Healthy, and since when (seconds since 1970; 0: never changed).  A director is healthy if one of
 * its members is. */
bool director_healthy(const struct director *d, double *changed_s);
/* Down to a backend; NULL: none is healthy.  Borrowed: hold it by director_hold(backend_director()).
 * A backend is given though it is sick only if it was asked for itself: origin_take says so. */
struct backend *director_pick(struct director *d, const struct director_ask *ask);
/* One step down: what .resolve() says.  Borrowed; NULL: none. */
struct director *director_resolve(struct director *d, const struct director_ask *ask);

/* Never NULL; of `none` it is empty.  Borrowed while the backend is held. */
const struct conf_backend *backend_conf(const struct backend *b);
struct director *backend_director(struct backend *b);
const char *backend_full_name(const struct backend *b);
unsigned backend_number(const struct backend *b); /* in the registry, from 0 */
bool backend_healthy(const struct backend *b);
int64_t backend_connections(const struct backend *b); /* in use or idle, of all workers */

/* What it has to do: connections in use, and fetches that chose it and have none yet.  The latter
 * are counted by the fetch; the two are a pair. */
int64_t backend_load(const struct backend *b);
void backend_expect(struct backend *b);
void backend_unexpect(struct backend *b);
/* Of the latter those that wait, all of max_connections being in use. */
unsigned backend_queued(const struct backend *b);

/* What its fetches see: a head; or no connection, none in time, the end before a head.  After
 * eject_after failures in a row the directors that it is a member of leave it out, while they have
 * another; `err` is written to the error log.  A backend in no director is never left out. */
void backend_note_good(struct backend *b);
/* Any thread, as these are: a head came, so long after the request was sent. */
void backend_note_response(struct backend *b, unsigned status, uint64_t took_us);
void backend_note_cut(struct backend *b); /* after its head the body broke off, or stood still */
void backend_note_bad(struct backend *b, uint64_t now_ms, int err);
bool backend_ejected(const struct backend *b);
/* Healthy, and, where no probe tells, not without a response to its last three attempts.  For people:
 * choices depend on backend_healthy() and backend_ejected(). */
bool backend_up(const struct backend *b);
/* What came of the attempts to ask it, ever: by class of status, 1xx to 5xx and others. */
enum {
    BACKEND_CLASSES = 6,
    BACKEND_CLASS_OTHER = 5,
    BACKEND_BUCKETS = 28,
};
struct backend_seen {
    uint64_t responses[BACKEND_CLASSES];
    uint64_t failures; /* attempts without a response, and responses that were cut short */
    uint64_t count, sum_us;
    uint64_t
        bucket[BACKEND_BUCKETS]; /* i: less than 2^i us, and no less than half; the last: more */
};
void backend_see(const struct backend *b, struct backend_seen *out);
/* Takes back ejected ones when their time is over, and asks for the addresses of names:
 * about once a second.  Monotonic. */
void registry_tick(struct registry *rg, uint64_t now_ms);
/* How many addresses it has; names are asked again every dns_ttl.  Any thread. */
unsigned backend_naddrs(struct backend *b);
/* The nth of them as text, without its port; "unix" for a Unix socket. */
void backend_address_text(struct backend *b, unsigned nth, char text[ADDRESS_TEXT_MAX]);

enum backend_admin {
    BACKEND_AUTO,
    BACKEND_HEALTHY,
    BACKEND_SICK
};
/* The operator's word, and the end of an ejection. */
void backend_set_admin(struct backend *b, enum backend_admin a);
enum backend_admin backend_admin(const struct backend *b);

/* probe.h has probe_conf, and what a probe has seen. */

#endif
