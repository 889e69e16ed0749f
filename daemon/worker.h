/* worker.h -- one thread, one loop, and everything that is its own.
 *
 * Threads: start, drain, cut and join are the main thread's.
 */
#ifndef TARN_WORKER_H
#define TARN_WORKER_H

#include <stdatomic.h>
#include <stdint.h>

struct bound;
struct cache;
struct conf;
struct counters;
struct origins_shared;
struct shmlog;
struct storage;
struct worker;

/* What workers share; borrowed until the last one has been joined. */
struct worker_env {
    const struct conf *conf;
    struct cache *cache;
    struct storage *storage, *synth;
    uint64_t storage_bytes;
    struct counters *counters;
    struct origins_shared *origins;
    struct bound **bounds; /* conf->nlistens of them */
    int64_t conns_max;
    _Atomic int64_t conns; /* of clients, all workers */
};

/* Starts the thread and waits until it accepts.  TERR_*. */
int worker_start(struct worker **out, struct worker_env *env, unsigned id, struct shmlog *log);
/* No new connections; the thread ends when the last one has. */
void worker_drain(struct worker *w);
/* Connections and fetches end now. */
void worker_cut(struct worker *w);
/* Has its thread ended?  Waits at most that long. */
int worker_join(struct worker **wp, int64_t wait_ms);

#endif
