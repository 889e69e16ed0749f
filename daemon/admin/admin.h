/* admin.h -- the second listener's answers: HTTP and JSON for operators.
 *
 *   route    a method and a path pattern, and their handler (admin_table.h)
 *   call     one request on its way through its handler
 *
 * It stands behind the same seam as the proxy (http/exchange.h), on the management loop.  No
 * handler waits for a worker, and none is waited for by one; a purge by tag waits for the loop's
 * own walk along the index.
 *
 * Threads: the management loop's.
 */
#ifndef TARN_ADMIN_H
#define TARN_ADMIN_H

#include <stdint.h>

#include "daemon/base/json.h"
#include "daemon/http/exchange.h"

struct admin;
struct backend_names_view;
struct cache;
struct conf;
struct conf_params;
struct fleet;
struct counters;
struct latency;
struct loop;
struct policies;
struct registry;
struct shmlog;
struct storage;
struct tables;
struct vcl_error;

/* The certificates of a TLS listener, in figures.  Borrowed for the call. */
struct admin_tls {
    const char *name, *address;      /* of the listener */
    unsigned certificates, names;    /* that can be served */
    unsigned parsed;                 /* certificates in memory with their keys, now */
    uint64_t parses, parse_failures; /* so far */
    uint64_t reload_failures;        /* readings that found something bad */
    int64_t soonest_s;               /* the first notAfter, in seconds since the epoch */
    const char *soonest_file;        /* "": there is no certificate */
};

/* What only the management loop can say or do. */
struct admin_host {
    const char *(*state)(void *ctx);                /* "running", "draining" */
    void (*stop)(void *ctx);                        /* as SIGTERM */
    void (*drain)(void *ctx);                       /* without a deadline */
    const struct conf_params *(*params)(void *ctx); /* as they are now; until the next set */
    void (*set_params)(void *ctx, const struct conf_params *next); /* copied; everywhere, soon */
    int64_t (*connections)(void *ctx);                             /* of clients, open now */
    /* Of those where clients come in: name and address as bound, in the file's order. */
    void (*listeners)(
        void *ctx, void (*each)(void *to, const char *name, const char *address), void *to);
    /* Reads the configuration anew; an HTTP status and its answer, which the caller owns. */
    unsigned (*reload)(void *ctx, json_t **answer);
    /* Of each TLS listener. */
    void (*tls)(void *ctx, void (*each)(void *to, const struct admin_tls *t), void *to);
    /* With `most` certificates each; the caller's. */
    json_t *(*tls_list)(void *ctx, unsigned most);
    unsigned (*tls_reload)(void *ctx, json_t **answer);      /* as reload, of certificates alone */
    const char *(*shared_text)(void *ctx, const char *name); /* manage_shared_text() */
    void (*walk_tags)(void *ctx); /* soon: tag_purge_walk(), until there is nothing to do */
};

/* All borrowed until admin_close(). */
struct admin_env {
    struct loop *loop;
    const struct conf *conf; /* its admin section is there */
    struct counters *counters;
    struct latency *latency;
    struct cache *cache;
    struct storage *storage;
    struct registry *registry;
    struct policies *policies;
    struct tables *tables; /* NULL: none */
    struct fleet *fleet;   /* NULL: none */
    unsigned nworkers;
    const char *address;                    /* our own, as bound */
    const char *shm_dir;                    /* of the log rings and counters; NULL: there is none */
    struct shmlog *const *logs;             /* of the workers; NULL: there are none */
    const struct backend_names_view *names; /* for these; NULL: numbers are shown */
    const struct admin_host *host;
    void *host_ctx;
};

#define ADMIN_BODY_MAX (4 * 1024 * 1024) /* bytes of a request; a policy has some thousands */

/* What a compiler says of a policy, errors or warnings, as a JSON list of *n. */
json_t *admin_vcl_errors(const struct vcl_error *errors, bool warnings, unsigned *n);

/* 0 or TERR_NOMEM. */
int admin_open(struct admin **out, const struct admin_env *env);
/* No request is left. */
void admin_close(struct admin **ap);
/* exchange_start_f; ctx is the admin. */
void admin_start(void *ctx, struct exchange *x);

#endif
