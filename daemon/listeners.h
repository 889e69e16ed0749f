/* doors.h -- the addresses that clients come in by, as the process has them.
 *
 * A door is shut when a configuration that was read anew does not name it any more: its address is
 * given back, but what connections say of where they came in stays for as long as they may.
 *
 *   terms   on which a connection comes in.  Never changed: a reload puts others in their place,
 *           for those who come from then on, and whoever came before keeps what he came in on
 *
 * Threads: the main thread's.  Workers read a door that they were told of.
 */
#ifndef TARN_DOORS_H
#define TARN_DOORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/address.h"
#include "daemon/http/exchange.h"
#include "daemon/net/listener.h"

struct bound;
struct conf_listen;
struct conf_params;
struct tether;

struct door_terms {
    struct exchange_conn facts;  /* its own copies of the names */
    bool proxied;                /* each connection begins with a PROXY header */
    struct address_nets trusted; /* of whom; its own copy; none: of anybody */
    int64_t mode;                /* of a Unix socket's file */
    char *user, *group;          /* whose it is; its own copies; "": as it came */
    struct door_terms *before;   /* of connections that may still be there; they go with the door */
};

struct door {
    struct door_terms *_Atomic terms; /* of now: the main thread puts others here */
    struct door_terms *next_terms;    /* prepared, and not yet what counts; NULL: none */
    struct listen_owned was;          /* with next_terms: the file, which has changed already */
    struct bound *bound;              /* NULL: shut */
    char *address;                    /* as bound */
    bool dropped;                     /* no configuration names it any more */
    _Atomic unsigned nopening; /* workers that were told to open it and have not yet looked */
    struct door *next;
};

/* All there ever were, in the order in which they came.  All zero: none. */
struct doors {
    struct door *first;
    struct tether *tether; /* borrowed: a supervisor keeps what is bound; NULL: there is none */
    unsigned loops;        /* that accept */
    bool shut;             /* workers end */
};

/* Binds, and is the last of them.  `params` are the process's.  TERR_*, and a sentence in `why`. */
int doors_bind(struct doors *all, struct door **out, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len);
/* For the whole life of a connection that comes in now; any thread. */
static inline const struct door_terms *
door_terms(const struct door *d)
{
    return atomic_load_explicit(&d->terms, memory_order_acquire);
}

/* The one that stands for this listener; NULL: none does. */
struct door *doors_find(struct doors *all, const struct conf_listen *conf);
/* What is now said of it, if that is something else, waits for doors_alter(), or is given up by
 * doors_unprepare().  A Unix socket's file is whose it shall be at once: that may fail.  TERR_*,
 * and perhaps a sentence in `why`. */
int doors_prepare(struct door *d, const struct conf_listen *conf, char *why, size_t why_len);
void doors_unprepare(struct doors *all);
/* From here on new connections come in on what was prepared. */
void doors_alter(struct doors *all);
/* Forgets one that no worker has been told of. */
void doors_forget(struct doors *all, struct door *d);
/* Those that were dropped give their addresses back, once no worker is about to open them. */
void doors_tend(struct doors *all);
/* All do, as all workers end; a door that one is about to open, when doors_tend() next looks. */
void doors_shut(struct doors *all);
/* No connection is left. */
void doors_free(struct doors *all);

#endif
