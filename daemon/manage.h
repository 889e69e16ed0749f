/* manage.h -- the management loop: signals, housekeeping, the admin listener, and the way down.
 *
 * It runs on the main thread, over a loop of its own, and never waits for a worker: what it wants
 * of one it posts.
 *
 *   RUNNING -> DRAINING -> CUT -> ENDING -> ENDED
 *
 *   DRAINING   a signal or an operator said so: no new connections; what is in flight goes on, for
 *              drain_timeout, or, gently, for as long as it takes
 *   CUT        it took too long, no client is left, or a second signal came: everything ends now
 *   ENDING     the workers have ended; the last operator gets an answer
 *
 * Threads: the main one.
 */
#ifndef TARN_MANAGE_H
#define TARN_MANAGE_H

struct access_log;
struct backend_names_view;
struct cache;
struct conf;
struct counters;
struct latency;
struct manage;
struct notify;
struct policies;
struct registry;
struct shm_dir;
struct shmlog;
struct storage;
struct tables;
struct channel;
struct worker;
struct worker_env;

/* All borrowed until manage_close().  Entries of `workers` become NULL as they end. */
struct manage_env {
    const struct conf *conf;
    struct channel *channel; /* NULL: no supervisor */
    struct shm_dir *dir;
    struct counters *counters;
    struct latency *latency;
    struct access_log *access;
    struct cache *cache;
    struct storage *storage, *synth;
    struct registry *registry;
    struct peers *peers;           /* NULL: other nodes of the fleet are not asked */
    struct challenges *challenges; /* NULL: no fleet */
    struct policies *policies;
    struct tables *tables;     /* NULL: none */
    struct worker_env *shared; /* bounds: released when draining begins */
    struct worker **workers;
    struct shmlog **logs;
    const struct backend_names_view *names;
    struct notify *notify; /* NULL: no service manager wants to know */
    const char *shm_dir;   /* where they are */
    unsigned nworkers;
    void (*release)(void *ctx); /* gives the listeners' addresses back */
    void *release_ctx;
};

enum {
    MANAGE_CONNS_MAX = 128,    /* of operators: they need descriptors of their own */
    MANAGE_UNPROVEN_MAX = 16,  /* of them, with a token configured: none with the token yet */
    MANAGE_UNPROVEN_MS = 5000, /* for a connection's first request that may be answered */
    MANAGE_PROOF_MS = 100,     /* that a connection has in any case while there is room */
};

/* Binds the admin listener's address, too; nothing is served before manage_run().  TERR_*, and
 * the error log says why. */
int manage_open(struct manage **out, const struct manage_env *env);
/* Until the process shall end: the workers have been joined. */
void manage_run(struct manage *m);
void manage_close(struct manage **mp);

#endif
