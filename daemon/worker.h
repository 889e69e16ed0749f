/* worker.h -- one thread, one loop, and everything that is its own.
 *
 * Threads: start, drain, cut, set_params and join are the main thread's.
 */
#ifndef TARN_WORKER_H
#define TARN_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cache;
struct conf;
struct conf_params;
struct conn_quota;
struct counters;
struct endpoint;
struct endpoints;
struct latency;
struct registry;
struct policies;
struct auth;
struct rates;
struct shmlog;
struct storage;
struct tables;
struct worker;

/* What workers share; borrowed until the last one has been joined. */
struct worker_env {
    const struct conf *conf;
    struct cache *cache;
    struct storage *storage, *synth;
    struct auth *auth;
    struct rates *rates;
    struct recoder *recoder;
    struct policies *policies;
    struct tables *tables; /* NULL: none */
    uint64_t storage_bytes;
    struct counters *counters;
    struct latency *latency;
    struct registry *registry;
    struct peers *peers;           /* NULL: other nodes of the fleet are not asked */
    struct challenges *challenges; /* NULL: no fleet */
    struct endpoints *endpoints;
    const char *loop_id; /* the tarnd's name in CDN-Loop */
    int64_t conns_max;
    struct conn_quota *quota; /* connections of each client */
    _Atomic int64_t conns;    /* of clients, all workers */
    _Atomic unsigned leaving; /* workers that accept no connection any more */
};

/* Starts the thread and waits until it accepts.  TERR_*. */
int worker_start(struct worker **out, struct worker_env *env, unsigned id, struct shmlog *log);
/* No new connections; the thread ends when the last one has.  Gently: idle ones may ask again. */
void worker_drain(struct worker *w);
void worker_drain_gently(struct worker *w);
/* Connections and fetches end now. */
void worker_cut(struct worker *w);
/* Copied; from its next turn or so on the worker goes by them.  Those that came before and were not
 * looked at yet are skipped. */
void worker_set_params(struct worker *w, const struct conf_params *params, uint64_t storage_bytes);
/* It accepts, or does not accept any more, from this one: soon.  0 or TERR_NOMEM; a listener that
 * cannot be had is said in the error log. */
int worker_open_endpoint(struct worker *w, struct endpoint *d);
int worker_close_endpoint(struct worker *w, struct endpoint *d);
/* Has its loop turned since the last call?  Also true for the first call, and
 * when the worker has ended. */
bool worker_beats(struct worker *w);
/* Has its thread ended?  Waits at most that long. */
int worker_join(struct worker **wp, int64_t wait_ms);

#endif
