/* origins_priv.h -- a worker's connections to backends: what origin.c and origin_queue.c share. */
#ifndef TARN_ORIGINS_PRIV_H
#define TARN_ORIGINS_PRIV_H

#include "daemon/base/loop.h"
#include "daemon/origin/origin.h"
#include "daemon/origin/origin_priv.h"

/* One for each backend number.  A number is given to another backend only when no connection to
 * the one before is left, so then its pool is empty. */
struct origin_pool {
    struct list idle; /* of origin_conn.link; the most recently used first */
    struct backend *backend;
    unsigned nidle, nused, nqueued;
    unsigned nticks; /* about seconds, since the backend is retired */
};

enum {
    /* About seconds in which the idle connections of a retired backend wait for one that is at the
     * same address; so long it keeps its number, of which there are BACKENDS_MAX. */
    ORIGIN_RETIRED_TICKS = 5
};

#define ORIGINS_MAGIC OBJ_TAG('o', 'r', 'i', 'g')
struct origins {
    uint32_t magic;
    bool draining;
    struct loop *loop;
    struct origin_protocol protocol;
    struct counter_set *counters;
    unsigned nused, npools;
    struct origin_pool **pools; /* NULL: never asked for; they do not move */
    /* For fetches of other workers that wait: they ask for what is idle here. */
    struct registry *registry; /* NULL: no worker can ask yet */
    struct list peer;          /* in its `peers`, under its `peers_lock` */
    struct post poke;
    _Atomic bool poked; /* and it has not landed yet */
};

#define ORIGIN_CONN_MAGIC OBJ_TAG('o', 'c', 'o', 'n')
struct origin_conn {
    uint32_t magic;
    bool idle;
    struct backend *backend; /* kept by being counted in its `conns` */
    struct origin_pool *pool;
    struct origins *origins;
    struct origin_exchange *x;
    uint64_t place;      /* which of the backend's addresses: backend_place.key */
    unsigned generation; /* of these */
    struct list link;
    struct task idle_task; /* the connection's user while it is idle */
    struct timer idle_timer;
};

/* The backend's own; NULL: no memory. */
struct origin_pool *origins_pool(struct origins *os, struct backend *b);
void origin_conn_free(struct origin_conn *oc);

/* origin_queue.c */
/* From now on others may ask for what is idle here. */
void origins_join(struct origins *os, struct registry *rg);
void origins_leave(struct origins *os);
/* There may be a connection for a waiting fetch: one was closed, or became idle. */
void origin_pass(struct origins *os, struct origin_pool *pool);

#endif
