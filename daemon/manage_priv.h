/* manage_priv.h -- what the two files of the management loop share. */
#ifndef TARN_MANAGE_PRIV_H
#define TARN_MANAGE_PRIV_H

#include "conf/conf.h"
#include "daemon/base/json.h"
#include "daemon/base/obj.h"
#include "daemon/base/timer.h"
#include "daemon/base/usage.h"
#include "daemon/base/waiter.h"
#include "daemon/cache/invalidation.h"
#include "daemon/footprint.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/http/client_conf.h"
#include "daemon/manage.h"
#include "daemon/supervise/heartbeat.h"

struct manage_peers;  /* private to manage_peers.c */
struct manage_shared; /* private to manage_shared.c */

enum manage_phase {
    MANAGE_RUNNING,
    MANAGE_DRAINING,
    MANAGE_CUT,
    MANAGE_ENDING,
    MANAGE_ENDED
};

#define MANAGE_MAGIC OBJ_TAG('m', 'n', 'g', 'e')
struct manage {
    uint32_t magic;
    enum manage_phase phase;
    struct manage_env env;
    struct conf_params params; /* as they are now */
    struct net_loop *net;
    struct loop *loop;
    struct signals *signals;
    struct task task;
    struct timer tick;
    struct task lurk_task; /* in the background bans are tested, and the index grows */
    struct timer lurk;
    struct footprint footprint;
    struct heartbeat heartbeat;
    struct usage charged;    /* what the store knows of loop->usage */
    uint64_t synths_charged; /* and of the synthetic bodies, which lie in a store of their own */
    uint64_t bans_charged;   /* and of the list of bans */
    uint64_t fleet_charged;  /* and of the fleet */
    uint64_t deadline_ms, sweep_ms; /* of the phase; of the next sweep */
    uint64_t storage_bytes;         /* what the store's size is to be: reached in steps */
    bool resizing;
    bool stop_asked, drain_asked;
    bool gentle;  /* DRAINING has no deadline, and idle connections may ask once more */
    bool retired; /* its supervisor has another one serve, or has gone */
    unsigned stuck_beats;
    uint64_t beat_ms; /* of the next sign of life */
    unsigned left;    /* workers not joined */
    /* the admin listener; all NULL without one */
    struct bound *bound;
    struct listener *listener;
    struct counters *counters; /* operators are not clients: theirs are counted apart */
    struct client_conf client_conf;
    struct h1_conf h1_conf;
    struct incoming *incoming;
    struct admin *admin;
    _Atomic int64_t conns;
    struct fleet *fleet; /* NULL: this node is in none */
    struct invalidation_log log;
    struct secure_client *fleet_secure[CONF_ENGINES_MAX]; /* NULL: none */
    struct manage_peers *peers;                           /* NULL: other nodes are not asked */
    struct manage_shared *shared;                         /* NULL: no fleet */
};

/* Changes the parameters, for everything that goes by them. */
void manage_set_params(struct manage *m, const struct conf_params *next);

/* The store's size from now on, in steps where it is much smaller. */
void manage_set_storage(struct manage *m, uint64_t bytes);

/* manage_reload.c: the configuration's file is read anew, and counts as a whole or not at all; the
 * error log has what changed, or why not.  An HTTP status and what to answer an operator with, owned
 * by the caller. */
unsigned manage_reload(struct manage *m, json_t **answer);

/* manage_tls.c: for admin_host; ctx is the manage. */
struct admin_tls;
void manage_tls_each(void *ctx, void (*each)(void *to, const struct admin_tls *t), void *to);
json_t *manage_tls_list(void *ctx, unsigned most);
unsigned manage_tls_reload(void *ctx, json_t **answer);

/* manage_fleet.c.  0, also where there is none; TERR_NOMEM. */
int manage_fleet_open(struct manage *m);
void manage_fleet_retire(struct manage *m);
void manage_fleet_charge(struct manage *m);
void manage_fleet_close(struct manage *m);

/* manage_peers.c: of a node that asks others.  Says in `env` what the fleet is to know.  0 or TERR_NOMEM. */
struct fleet_env;
int manage_peers_open(struct manage *m, struct fleet_env *env);
void manage_peers_close(struct manage *m);
void manage_peers_tick(struct manage *m); /* which other nodes can be asked now */

/* manage_shared.c: of a node in a fleet.  0 or TERR_NOMEM. */
int manage_shared_open(struct manage *m);
void manage_shared_close(struct manage *m);
uint64_t manage_shared_bytes(const struct manage *m); /* of the heap */
/* Behind a reload: the fleet's policy counts above the file's, and what was refused is tried again. */
void manage_shared_reloaded(struct manage *m);
/* The fleet's parameters, over those of the file. */
void manage_shared_params(struct manage *m, struct conf_params *params);
/* The fleet's secret of TLS tickets, to listeners that have none of their own. */
void manage_shared_secret(struct manage *m);
/* For admin_host; ctx is the manage.  The text of a thing that was taken here: of a policy or a parameter; NULL: none.
 * Borrowed until the loop's turn ends. */
const char *manage_shared_text(void *ctx, const char *name);

/* manage.c: the ways down.  manage_end: as SIGTERM; the other one has no deadline. */
void manage_end(struct manage *m, const char *why);
void manage_begin_gentle_drain(struct manage *m, const char *why);

/* manage_supervised.c: each turn; nothing without a supervisor. */
void manage_supervised(struct manage *m);

/* manage_admin.c: the listener for operators.  TERR_*, and the error log says why; half-open is fine
 * for close. */
int manage_admin_open(struct manage *m);
/* Each tick: connections that may not stay end. */
void manage_admin_tend(struct manage *m);
/* No more connections; idle ones end. */
void manage_admin_drain(struct manage *m);
/* Has the last operator gone?  `cut` makes him. */
bool manage_admin_ended(struct manage *m, bool cut);
/* After the loop. */
void manage_admin_close(struct manage *m);

#endif
