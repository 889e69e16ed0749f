/* doors.h -- the addresses that clients come in by, as the process has them.
 *
 * A door is shut when a configuration that was read anew does not name it any more: its address is
 * given back, but what connections say of where they came in stays for as long as they may.
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

struct bound;
struct conf_listen;
struct tether;

struct door {
    struct exchange_conn facts;  /* its own copies of the names */
    bool proxied;                /* each connection begins with a PROXY header */
    struct address_nets trusted; /* of whom; its own copy; none: of anybody */
    struct bound *bound;         /* NULL: shut */
    char *address;               /* as bound */
    bool dropped;                /* no configuration names it any more */
    _Atomic unsigned nopening;   /* workers that were told to open it and have not yet looked */
    struct door *next;
};

/* All there ever were, in the order in which they came.  All zero: none. */
struct doors {
    struct door *first;
    struct tether *tether; /* borrowed: a supervisor keeps what is bound; NULL: there is none */
    unsigned loops;        /* that accept */
};

/* Binds, and is the last of them.  TERR_*, and a sentence in `why`. */
int doors_bind(struct doors *all, struct door **out, const struct conf_listen *conf, int depth,
    char *why, size_t why_len);
/* The one that stands for this listener; NULL: none does. */
struct door *doors_find(struct doors *all, const struct conf_listen *conf);
/* Forgets one that no worker has been told of. */
void doors_forget(struct doors *all, struct door *d);
/* Those that were dropped give their addresses back, once no worker is about to open them. */
void doors_tend(struct doors *all);
/* All do, as all workers end. */
void doors_shut(struct doors *all);
/* No connection is left. */
void doors_free(struct doors *all);

#endif
