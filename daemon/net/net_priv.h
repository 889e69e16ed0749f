/* net_priv.h -- what the files of net/ share. */
#ifndef TARN_NET_PRIV_H
#define TARN_NET_PRIV_H

#include <uv.h>

#include "daemon/base/limits.h"
#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/net/netloop.h"
#include "daemon/net/stream.h"

/* A slab is what a turn's reads land in, back to back, so that the bytes of many small
 * requests share few cache lines.  It is counted by the streams that have not consumed. */
struct read_slab {
    struct read_slab *next; /* idle list */
    unsigned users;
    size_t used;
    char bytes[LIMIT_READ_SLAB];
};

enum {
    NET_CORKED_MAX = 64,     /* in a turn; the next one's packet does not wait */
    NET_HANDSHAKES_TURN = 2, /* steps; one costs as much as 1,000 hits, which wait meanwhile */
};

#define NET_LOOP_MAGIC OBJ_TAG('l', 'o', 'o', 'p')
struct net_loop {
    uint32_t magic;
    struct loop base;
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active while tasks were left over, so that poll does not sleep */
    uv_async_t async;
    uv_poll_t high;   /* see net_loop_grow() */
    uv_timer_t timer; /* drives base.wheel */
    struct task wheel_task;
    struct read_slab *slab; /* the one being read into; NULL before the first read */
    struct read_slab *idle_slabs;
    unsigned nslabs;             /* of all kinds: at most LIMIT_READ_SLABS */
    struct stream *idle_streams; /* memory of closed streams */
    unsigned nidle_streams;
    struct write_op *idle_writes;
    /* Streams that said MORE in this turn; NULL: closed meanwhile. */
    struct stream *corked[NET_CORKED_MAX];
    unsigned ncorked;
    struct net_secure *secure; /* NULL: there is no secure stream yet */
    struct list handshakes;    /* streams with a handshake that waits for the next turn, in order */
    struct list roomless;      /* that found no slab to decrypt into, until the next turn */
    unsigned nhandshakes;      /* steps in this turn */
    uint64_t turns;
    bool stopping;
};

struct net_loop *net_loop_of(struct loop *l);

/* For alloc callbacks: at least LIMIT_READ_MIN bytes; NULL: no memory. */
char *net_slab_room(struct net_loop *nl, size_t *room);
/* The first n bytes of the room were filled, for one more user. */
struct read_slab *net_slab_use(struct net_loop *nl, size_t n);
void net_slab_release(struct net_loop *nl, struct read_slab *slab);

/* The turn ends: what MORE holds back leaves. */
void net_stream_uncork_all(struct net_loop *nl);
/* A new turn: the first of the handshakes that waited go on, and what found no slab. */
void net_secure_turn(struct net_loop *nl);
/* Of the memory kept for the next connections all but so much goes back. */
void net_streams_trim(struct net_loop *nl, unsigned keep);

#endif
