/* listeners.h -- the addresses that clients come in by, as the process has them.
 *
 * An endpoint is shut when a configuration that was read anew does not name it any more: its
 * address is given back, but what connections say of where they came in stays for as long as
 * they may.
 *
 *   terms   on which a connection comes in.  Never changed: a reload puts others in their place,
 *           for new connections; earlier connections keep the terms that they came in on
 *
 * Threads: the main thread's.  Workers read an endpoint that they were given.
 */
#ifndef TARN_LISTENERS_H
#define TARN_LISTENERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/obj.h"
#include "daemon/listeners_tls.h"
#include "daemon/net/incoming.h"
#include "daemon/net/listener.h"

struct bound;
struct conf_listen;
struct listener_tls;
struct offload;
struct conf_params;
struct channel;

struct listener_conf {
    struct incoming_listener in; /* its own copies of names and networks */
    struct listener_tls *tls;    /* NULL: plain */
    int64_t mode;                /* of a Unix socket's file */
    char *user, *group;          /* the file's owner; its own copies; "": as it came */
    struct listener_conf
        *before; /* of connections that may still be there; they go with the endpoint */
};

#define ENDPOINT_MAGIC OBJ_TAG('e', 'n', 'd', 'p')
struct endpoint {
    uint32_t magic;
    struct listener_conf *_Atomic terms; /* of now: the main thread puts others here */
    struct listener_conf *next_terms;    /* prepared, and not yet what counts; NULL: none */
    struct listen_owned was;             /* with next_terms: the file, which has changed already */
    struct bound *bound;                 /* NULL: shut */
    char *address;                       /* as bound */
    bool dropped;                        /* no configuration names it any more */
    _Atomic unsigned nopening; /* workers that were asked to open it and have not yet looked */
    struct endpoint *next;
};

/* All there ever were, in the order in which they came.  All zero: none. */
struct endpoints {
    struct endpoint *first;
    struct channel *channel; /* borrowed: a supervisor keeps what is bound; NULL: there is none */
    struct listener_tls_env tls;
    bool shut; /* workers end */
};

/* Binds, and is the last of them.  `params` are the process's.  TERR_*, and a sentence in `why`. */
int endpoints_bind(struct endpoints *all, struct endpoint **out, const struct conf_listen *conf,
    const struct conf_params *params, char *why, size_t why_len);
/* For the whole life of a connection that comes in now; any thread. */
static inline const struct listener_conf *
listener_conf(const struct endpoint *d)
{
    return atomic_load_explicit(&d->terms, memory_order_acquire);
}

/* The one that stands for this listener; NULL: none does. */
struct endpoint *endpoints_find(struct endpoints *all, const struct conf_listen *conf);
/* Certificates are read anew.  What is now said of it, if that is something else, waits for endpoints_alter(), or is given up by
 * endpoints_unprepare().  A Unix socket's file gets its new owner at once: that may fail.  TERR_*,
 * and perhaps a sentence in `why`. */
int endpoints_prepare(struct endpoints *all, struct endpoint *d, const struct conf_listen *conf,
    char *why, size_t why_len);
void endpoints_unprepare(struct endpoints *all);
/* From here on new connections come in on what was prepared. */
void endpoints_alter(struct endpoints *all);
/* Forgets one that no worker has been given. */
void endpoints_forget(struct endpoints *all, struct endpoint *d);
/* Those that were dropped give their addresses back, once no worker is about to open them. */
void endpoints_tend(struct endpoints *all);
/* All do, as all workers end.  An endpoint that a worker is about to open does when
 * endpoints_tend() next looks. */
void endpoints_shut(struct endpoints *all);
/* No connection is left. */
void endpoints_free(struct endpoints *all);

#endif
