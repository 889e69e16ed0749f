/* server.c -- start-up in order, the management loop, and the way down. */
#include "daemon/server.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/hash.h"
#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/net/listener.h"
#include "daemon/origin/origin.h"
#include "daemon/shm/access_log.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/dir.h"
#include "daemon/shm/elog.h"
#include "daemon/shm/log.h"
#include "daemon/worker.h"
#include "storage/storage.h"

enum {
    FDS_OF_PROCESS = 64, /* logs, shared memory, standard streams, and some to spare */
    FDS_OF_WORKER = 16,  /* loop, listeners */
    SWEEP_S = 10,        /* between looks for log readers that died */
    CUT_WAIT_MS = 5000,  /* after cutting everything: a loop that does not end is stuck */
};

struct server {
    const struct conf *conf;
    struct shm_dir *dir;
    struct counters *counters;
    struct access_log *access;
    struct storage *storage, *synth;
    struct cache *cache;
    struct origins_shared *origins;
    struct worker_env env;
    unsigned nworkers;
    struct worker *workers[LIMIT_WORKERS];
    struct shmlog *logs[LIMIT_WORKERS];
};

/* The CPUs this process may use: affinity, and the quota of its control group. */
static unsigned
server_cpus(void)
{
    cpu_set_t set;
    unsigned n = 1;
    long long quota, period;
    char text[64] = "";
    FILE *f;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = (unsigned)CPU_COUNT(&set);
    f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f != NULL) {
        if (fgets(text, sizeof(text), f) != NULL &&
            sscanf(text, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0 &&
            (quota + period - 1) / period < (long long)n)
            n = (unsigned)((quota + period - 1) / period);
        fclose(f);
    }
    return n == 0 ? 1 : n > LIMIT_WORKERS ? LIMIT_WORKERS : n;
}

/* As many open files as allowed, and no more connections than they carry. */
static void
server_limit_conns(struct server *s)
{
    struct rlimit rl = {1024, 1024};
    int64_t want = s->conf->params.max_connections, can;

    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        struct rlimit raised = {rl.rlim_max, rl.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            rl = raised;
    }
    /* A client may need a backend connection too. */
    can = ((int64_t)rl.rlim_cur - FDS_OF_PROCESS - (int64_t)s->nworkers * FDS_OF_WORKER) / 2;
    if (rl.rlim_cur == RLIM_INFINITY || can > 10000000)
        can = 10000000;
    if (can < 4)
        can = 4;
    s->env.conns_max = want > 0 && want < can ? want : can;
    if (want > can)
        elog(ELOG_WARN,
            "max_connections is %lld, but %llu open files (RLIMIT_NOFILE) carry only %lld: "
            "raise the limit with ulimit -n or LimitNOFILE=",
            (long long)want, (unsigned long long)rl.rlim_cur, (long long)can);
}

static int
server_open_shm(struct server *s)
{
    const struct conf_params *params = &s->conf->params;
    int err = shm_dir_open(&s->dir, params->shm_dir);

    if (err == 0)
        err = counters_open(&s->counters, s->dir, s->nworkers);
    for (unsigned i = 0; i < s->nworkers && err == 0; i++)
        err = shmlog_open(&s->logs[i], s->dir, i, (uint64_t)params->log_ring);
    if (err != 0) {
        elog(ELOG_ERROR, "shared memory in %s: %s",
            params->shm_dir[0] != '\0' ? params->shm_dir : "/dev/shm", terr_text(err));
        return err;
    }
    if (params->access_log[0] != '\0')
        err = access_log_start(&s->access, params->access_log, s->logs, s->nworkers, s->counters);
    return err; /* and access_log_start has said why */
}

static int
server_open_storage(struct server *s)
{
    static const struct conf_storage synth = {.name = "synth", .engine = "synth", .fault = ""};
    const struct conf_storage *main_store = &s->conf->storages[0];
    int rc;

    for (unsigned i = 0; i < s->conf->nstorages; i++)
        if (strcmp(s->conf->storages[i].name, "main") == 0)
            main_store = &s->conf->storages[i];
    for (unsigned i = 0; i < s->conf->nstorages; i++)
        if (&s->conf->storages[i] != main_store)
            elog(ELOG_WARN, "storage %s: nothing chooses it in this build; only %s is used",
                s->conf->storages[i].name, main_store->name);
    rc = storage_open(&s->storage, main_store);
    if (rc == 0)
        rc = storage_open(&s->synth, &synth);
    if (rc != 0) {
        elog(ELOG_ERROR, "storage %s: %s", main_store->name, strerror(-rc));
        return TERR_NOMEM;
    }
    s->env.storage_bytes = main_store->size;
    rc = cache_open(&s->cache, &s->conf->index, s->storage, main_store->size, s->counters);
    if (rc != 0)
        elog(ELOG_ERROR, "storage %s: %llu bytes do not hold the index: %s", main_store->name,
            (unsigned long long)main_store->size, terr_text(rc));
    return rc;
}

static int
server_listen(struct server *s)
{
    s->env.bounds = calloc(s->conf->nlistens, sizeof(struct bound *));
    if (s->env.bounds == NULL)
        return TERR_NOMEM;
    for (unsigned i = 0; i < s->conf->nlistens; i++) {
        char why[256] = "";
        int err = listen_bind(&s->env.bounds[i], &s->conf->listens[i].address,
            (int)s->conf->params.listen_depth, why, sizeof(why));

        if (err != 0) {
            elog(ELOG_ERROR, "%s", why);
            return err;
        }
    }
    return 0;
}

static int
server_start_workers(struct server *s)
{
    s->origins = origins_shared_new(s->conf);
    if (s->origins == NULL)
        return TERR_NOMEM;
    s->env.conf = s->conf;
    s->env.cache = s->cache;
    s->env.storage = s->storage;
    s->env.synth = s->synth;
    s->env.counters = s->counters;
    s->env.origins = s->origins;
    for (unsigned i = 0; i < s->nworkers; i++) {
        int err = worker_start(&s->workers[i], &s->env, i, s->logs[i]);

        if (err != 0) {
            elog(ELOG_ERROR, "worker %u: %s", i, terr_text(err));
            return err;
        }
    }
    return 0;
}

static void
server_say_ready(const struct server *s)
{
    printf("tarnd: ready");
    for (unsigned i = 0; i < s->conf->nlistens; i++)
        printf(" %s", listen_address(s->env.bounds[i]));
    printf("\n");
    fflush(stdout);
}

static void
server_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL); /* inherited by every thread */
    signal(SIGPIPE, SIG_IGN);
}

/* The management loop.  Returns when the process shall end. */
static void
server_manage(struct server *s, const sigset_t *set)
{
    const struct timespec second = {1, 0};

    for (unsigned seconds = 1;; seconds++) {
        int sig = sigtimedwait(set, NULL, &second);

        elog_flush();
        if (sig == SIGTERM || sig == SIGINT) {
            elog(ELOG_INFO, "%s: draining, for %lld ms at most", strsignal(sig),
                (long long)s->conf->params.drain_timeout);
            return;
        }
        if (sig == SIGUSR1 && s->access != NULL)
            access_log_reopen(s->access);
        if (sig == SIGHUP)
            elog(ELOG_WARN, "SIGHUP: this build reads its configuration at start only; restart it");
        if (seconds % SWEEP_S == 0)
            for (unsigned i = 0; i < s->nworkers; i++)
                shmlog_sweep(s->logs[i]);
    }
}

static int64_t
server_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
server_release(struct server *s)
{
    for (unsigned i = 0; s->env.bounds != NULL && i < s->conf->nlistens; i++)
        if (s->env.bounds[i] != NULL)
            listen_release(&s->env.bounds[i]);
}

/* Waits for the workers; a second signal, the deadline, or the last client's leaving cuts what
 * is left (fetches for nobody). */
static void
server_drain(struct server *s, const sigset_t *set)
{
    const struct timespec moment = {0, 20 * 1000000};
    int64_t deadline = server_now_ms() + s->conf->params.drain_timeout;
    unsigned left = s->nworkers;
    bool cut = false;

    for (unsigned i = 0; i < s->nworkers; i++)
        worker_drain(s->workers[i]);
    server_release(s); /* a Unix socket would go on queueing connections */
    while (left > 0) {
        int sig = sigtimedwait(set, NULL, &moment);

        if (!cut && (sig == SIGTERM || sig == SIGINT || server_now_ms() >= deadline ||
                        atomic_load(&s->env.conns) == 0)) {
            if (atomic_load(&s->env.conns) > 0)
                elog(ELOG_WARN, "drain: %lld client connections are cut",
                    (long long)atomic_load(&s->env.conns));
            cut = true;
            deadline = server_now_ms() + CUT_WAIT_MS;
            for (unsigned i = 0; i < s->nworkers; i++)
                if (s->workers[i] != NULL)
                    worker_cut(s->workers[i]);
        }
        for (unsigned i = 0; i < s->nworkers; i++)
            if (s->workers[i] != NULL && worker_join(&s->workers[i], 0) == 0)
                left--;
        tassert(!cut || server_now_ms() < deadline); /* a worker does not end */
    }
}

static void
server_close(struct server *s)
{
    if (s->cache != NULL)
        cache_close(&s->cache);
    if (s->storage != NULL)
        storage_close(&s->storage);
    if (s->synth != NULL)
        storage_close(&s->synth);
    server_release(s);
    free(s->env.bounds);
    origins_shared_free(&s->origins);
    if (s->access != NULL)
        access_log_stop(&s->access);
    for (unsigned i = 0; i < s->nworkers; i++)
        if (s->logs[i] != NULL)
            shmlog_close(&s->logs[i]);
    if (s->counters != NULL)
        counters_close(&s->counters);
    if (s->dir != NULL)
        shm_dir_close(&s->dir);
}

int
server_run(const struct conf *conf)
{
    static struct server server; /* one per process, and large */
    struct server *s = &server;
    enum elog_level level = ELOG_INFO;
    sigset_t set;

    s->conf = conf;
    elog_level_parse(&level, conf->params.log_level);
    elog_init(level, (unsigned)conf->params.log_rate);
    hash_secret_draw();
    server_signals(&set);
    s->nworkers = conf->workers > 0 ? (unsigned)conf->workers : server_cpus();
    rcu_start();
    server_limit_conns(s);
    if (server_open_shm(s) != 0 || server_open_storage(s) != 0 || server_listen(s) != 0) {
        server_close(s);
        return 1;
    }
    if (server_start_workers(s) != 0) {
        fflush(NULL);
        _exit(1); /* some threads run already; nothing has been promised yet */
    }
    server_say_ready(s);
    elog(ELOG_INFO, "tarnd " TARN_VERSION ": %u workers, at most %lld client connections",
        s->nworkers, (long long)s->env.conns_max);
    server_manage(s, &set);
    server_drain(s, &set);
    server_close(s);
    elog_flush();
    return 0;
}
