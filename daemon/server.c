/* server.c -- start-up in order, and giving it all back. */
#include "daemon/server.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/backends_tls.h"
#include "daemon/base/conn_quota.h"
#include "daemon/base/hash.h"
#include "daemon/base/limits.h"
#include "daemon/base/notify.h"
#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/rcu.h"
#include "daemon/base/syslog_to.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/confine/core_dump.h"
#include "daemon/confine/privilege.h"
#include "daemon/confine/sandbox.h"
#include "daemon/h1/h1_server.h"
#include "daemon/listeners.h"
#include "daemon/log/access_log.h"
#include "daemon/log/elog.h"
#include "daemon/manage.h"
#include "daemon/net/inherit.h"
#include "daemon/net/signals.h"
#include "daemon/origin/director.h"
#include "daemon/origin/peers.h"
#include "daemon/policy/policies.h"
#include "daemon/proxy/auth.h"
#include "daemon/proxy/challenges.h"
#include "daemon/proxy/proxy.h"
#include "daemon/proxy/rates.h"
#include "daemon/proxy/recoder.h"
#include "daemon/shm/backend_names.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/dir.h"
#include "daemon/shm/latency.h"
#include "daemon/shm/log.h"
#include "daemon/supervise/channel.h"
#include "daemon/supervise/reaper.h"
#include "daemon/table/table_guard.h"
#include "daemon/table/tables.h"
#include "daemon/tls/tls.h"
#include "daemon/worker.h"
#include "storage/storage.h"

enum {
    FDS_OF_PROCESS = 64, /* logs, shared memory, standard streams, and some to spare */
    FDS_OF_WORKER = 16,  /* loop, listeners */
    OFFLOAD_THREADS = 2, /* a key takes half a millisecond, and a start of many begins with many */
};

struct server {
    const struct conf *conf;
    struct notify *notify;   /* NULL: no service manager */
    struct channel *channel; /* NULL: no supervisor */
    struct shm_dir *dir;
    struct table_owners owners; /* of tables that are read */
    unsigned *owner_uids;
    struct counters *counters;
    struct backend_names *names;
    struct latency *latency;
    struct access_log *access;
    struct storage *storage, *synth;
    struct cache *cache;
    struct registry *registry;
    struct policies *policies;
    struct tables *tables;
    bool policy_refused; /* as a configuration would have been */
    struct manage *manage;
    struct offload *offload; /* keys of TLS are read by it */
    struct endpoints endpoints;
    struct worker_env env;
    char loop_id[32]; /* with no loop_token */
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
            (quota + period - 1) / period < (long long)n) /* one and a half are two */
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

    tassert(s->nworkers > 0);
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        struct rlimit raised = {rl.rlim_max, rl.rlim_max};

        /* Before the connections are counted: the soft limit is mostly 1024. */
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            rl = raised;
    }
    /* A client may need a backend connection too. */
    can = (int64_t)rl.rlim_cur - FDS_OF_PROCESS - (int64_t)s->nworkers * FDS_OF_WORKER;
    /* Operators have a share of their own, and do not compete with clients. */
    can = (can - (s->conf->admin != NULL ? MANAGE_CONNS_MAX : 0)) / 2;
    if (rl.rlim_cur == RLIM_INFINITY || can > 10000000)
        can = 10000000;
    /* With 0 every client would be refused; so accept(2) refuses some. */
    if (can < 4)
        can = 4;
    s->env.conns_max = want > 0 && want < can ? want : can;
    tassert(s->env.conns_max > 0);
    if (want > can)
        elog(ELOG_WARN,
            "max_connections is %lld, but %llu open files (RLIMIT_NOFILE) carry only %lld: "
            "raise the limit with ulimit -n or LimitNOFILE=",
            (long long)want, (unsigned long long)rl.rlim_cur, (long long)can);
}

/* Until now, and without a syslog daemon, lines go to stderr. */
static void
server_open_error_log(const char *where)
{
    struct syslog_to to;
    char why[256];

    if (syslog_to_parse(&to, slice_str(where), why, sizeof(why)) == 0 && elog_to_syslog(&to) != 0)
        elog(ELOG_ERROR, "error log %s: %s", where, strerror(errno));
}

static int
server_open_access_log(struct server *s)
{
    const struct conf_params *params = &s->conf->params;
    struct access_log_conf access = {.to = params->access_log,
        .format = params->access_log_format,
        .logs = s->logs,
        .nlogs = s->nworkers,
        .counters = s->counters,
        /* Of this process: the files may still be those of the one before. */
        .names = backend_names_here(s->names)};

    return access_log_start(&s->access, &access);
}

/* Mode and group of the shared files.  The loader has found the group. */
static int
server_give_shm(struct server *s)
{
    const struct conf_params *params = &s->conf->params;
    unsigned gid = SHM_GROUP_OWN;

    if (params->shm_group[0] != '\0' && !privilege_group_id(params->shm_group, &gid)) {
        elog(ELOG_ERROR, "shm_group: there is no group '%s'", params->shm_group);
        return TERR_CONFIG;
    }
    return shm_dir_give(s->dir, (unsigned)params->shm_mode, gid);
}

static int
server_open_shm(struct server *s)
{
    const struct conf_params *params = &s->conf->params;
    /* Behind a tarnd that still serves: its files keep their names until it has gone. */
    int err = s->channel != NULL ? shm_dir_open_behind(&s->dir, params->shm_dir)
                                 : shm_dir_open(&s->dir, params->shm_dir);

    if (err == 0)
        err = server_give_shm(s);
    if (err == 0)
        err = counters_open(&s->counters, s->dir, s->nworkers);
    if (err == 0)
        err = latency_open(&s->latency, s->dir, s->nworkers);
    if (err == 0)
        err = backend_names_open(&s->names, s->dir);
    for (unsigned i = 0; i < s->nworkers && err == 0; i++)
        err = shmlog_open(&s->logs[i], s->dir, i, (uint64_t)params->log_ring);
    if (err != 0) {
        elog(ELOG_ERROR, "shared memory in %s: %s",
            params->shm_dir[0] != '\0' ? params->shm_dir : "/dev/shm", terr_text(err));
        return err;
    }
    return server_open_access_log(s); /* which says why */
}

/* Behind the index: what is left has to hold it. */
static int
server_open_negative(struct server *s, const struct conf_storage *store)
{
    int err = cache_open_negative(s->cache, &s->conf->negative);

    /* Refused at the start: charged later, it would drive out what is stored. */
    if (err != 0)
        elog(ELOG_ERROR,
            "storage %s: %llu bytes do not hold the index and %lld negative entries: "
            "give it more, or the negative cache fewer",
            store->name, (unsigned long long)store->size, (long long)s->conf->negative.entries);
    return err;
}

/* The size is a promise: index, negative cache and buckets of limits are charged to the store as
 * they are opened, so one that is too small is refused at the start, by name. */
static int
server_open_storage(struct server *s)
{
    static const struct conf_storage synth = {.name = "synth", .engine = "synth", .fault = ""};
    const struct conf_storage *main_store = conf_main_storage(s->conf);
    int rc;

    tassert(s->counters != NULL); /* the cache counts in them */
    tassert(s->storage == NULL);
    for (unsigned i = 0; i < s->conf->nstorages; i++)
        if (&s->conf->storages[i] != main_store)
            elog(ELOG_WARN, "storage %s: nothing chooses it in this build; only %s is used",
                s->conf->storages[i].name, main_store->name);
    rc = storage_open(&s->storage, main_store);
    if (rc == 0)
        /* One of its own: pages of ours are references, and are never evicted. */
        rc = storage_open(&s->synth, &synth);
    if (rc != 0) {
        elog(ELOG_ERROR, "storage %s: %s", main_store->name, strerror(-rc));
        return TERR_NOMEM;
    }
    s->env.storage_bytes = main_store->size;
    rc = cache_open(&s->cache, &s->conf->index, s->storage, main_store, s->counters);
    if (rc != 0)
        elog(ELOG_ERROR,
            "storage %s: size: %llu bytes do not hold the index and the ghost queue: "
            "%s; "
            "a larger size, or fewer index bits",
            main_store->name, (unsigned long long)main_store->size, terr_text(rc));
    if (rc == 0)
        rc = server_open_negative(s, main_store);
    if (rc == 0)
        rc = auth_open(&s->env.auth);
    if (rc == 0)
        rc = rates_open(&s->env.rates, s->storage, (uint64_t)s->conf->params.limit_keys);
    if (rc == 0)
        rc = conn_quota_open(&s->env.quota);
    return rc;
}

/* The other nodes of the fleet are backends, too; manage_fleet.c learns of them, and of their challenges. */
static int
server_open_peers(struct server *s)
{
    const struct conf_fleet *fleet = &s->conf->fleet;
    const struct peers_env env = {.fleet = fleet->name,
        .node = fleet->node,
        .timeout_ms = fleet->peer_timeout,
        .between_ms = s->conf->params.between_bytes_timeout};
    int err;

    if (!fleet->said)
        return 0;
    s->env.challenges = challenges_new();
    if (s->env.challenges == NULL)
        return TERR_NOMEM;
    if (strcmp(fleet->peers, "off") == 0)
        return 0;
    err = peers_open(&s->env.peers, &env, s->registry);
    if (err != 0)
        elog(ELOG_ERROR, "fleet: peers: %s", terr_text(err));
    return err;
}

static int
server_open_backends(struct server *s)
{
    int err = registry_open_secure(&s->registry, s->conf, backends_tls(s->nworkers));

    tassert(s->names != NULL); /* log lines of every backend that comes name it by them */
    if (err != 0) {
        elog(ELOG_ERROR, "backends: %s", terr_text(err));
        return err;
    }
    registry_set_counters(s->registry, s->counters);
    registry_set_names(s->registry, s->names);
    return server_open_peers(s);
}

/* The file's policy, if it names one; the error log says what is wrong with it. */
static int
server_open_policies(struct server *s)
{
    int err = policies_open(&s->policies, s->registry, s->cache, s->storage);

    tassert(s->workers[0] == NULL); /* compiling blocks, and no request may wait for it */
    if (err != 0) {
        elog(ELOG_ERROR, "policies: %s", terr_text(err));
        return err;
    }
    err = policies_boot(s->policies);
    /* The exit status tells a mistake of the text from one of the machine. */
    s->policy_refused = err == TERR_CONFIG;
    return err;
}

/* Root, our own user, and those of table_owners. */
static int
server_find_owners(struct server *s)
{
    const char *at = s->conf->params.table_owners;
    size_t room = strlen(at) / 2 + 3; /* a word has a byte, and a space */
    char name[64];

    tassert(s->owners.n == 0);
    s->owner_uids = calloc(room, sizeof(*s->owner_uids));
    if (s->owner_uids == NULL)
        return TERR_NOMEM;
    s->owners.uids = s->owner_uids;
    /* Root can write any file anyway. */
    s->owner_uids[s->owners.n++] = 0;
    s->owner_uids[s->owners.n++] = (unsigned)geteuid();
    while (*at != '\0') {
        size_t len = strcspn(at, " ");

        snprintf(name, sizeof(name), "%.*s", (int)len, at);
        tassert(s->owners.n < room);
        if (!privilege_user_id(name, &s->owner_uids[s->owners.n++])) {
            elog(ELOG_ERROR, "table_owners: there is no user '%s'", name);
            return TERR_CONFIG;
        }
        at += len + (at[len] == ' ');
    }
    return 0;
}

static int
server_open_tables(struct server *s)
{
    const struct conf *conf = s->conf;
    struct tables_conf *rows = calloc(conf->ntables, sizeof(*rows));
    int err = 0;

    tassert(s->tables == NULL);
    if (conf->ntables > 0) {
        err = rows == NULL ? TERR_NOMEM : table_guard_install();
        /* Opened here, before the workers: each of them joins. */
        if (err == 0)
            err = server_find_owners(s);
        for (unsigned i = 0; i < conf->ntables && err == 0; i++)
            rows[i] = (struct tables_conf){.name = conf->tables[i].name,
                .path = conf->tables[i].path,
                .kind = table_kind_find(conf->tables[i].kind),
                .trust = conf->tables[i].check ? TABLE_CHECKED : TABLE_UNCHECKED,
                .owners = &s->owners};
        if (err == 0)
            err = tables_open(&s->tables, rows, conf->ntables, s->nworkers);
        if (err != 0)
            elog(ELOG_ERROR, "tables: %s", terr_text(err));
    }
    free(rows);
    return err;
}

/* Threads for keys first: the certificates' store of each listener keeps a pointer to them. */
static int
server_listen(struct server *s)
{
    ssize_t drawn;
    int err;

    tassert(s->endpoints.first == NULL);
    s->env.endpoints = &s->endpoints;
    s->endpoints.channel = s->channel;
    /* A socket for each worker: the kernel spreads the clients. */
    s->endpoints.tls.loops = s->nworkers;
    err = offload_open(&s->offload, OFFLOAD_THREADS, 0);
    if (err != 0) {
        elog(ELOG_ERROR, "threads: %s", terr_text(err));
        return err;
    }
    s->endpoints.tls.offload = s->offload;
    s->endpoints.tls.challenges = s->env.challenges;
    err = recoder_open(&s->env.recoder, s->storage, s->env.storage_bytes);
    if (err != 0) {
        elog(ELOG_ERROR, "threads: %s", terr_text(err));
        return err;
    }
    drawn = getrandom(s->endpoints.tls.secret, sizeof(s->endpoints.tls.secret), 0);
    tassert(drawn == (ssize_t)sizeof(s->endpoints.tls.secret));
    for (unsigned i = 0; i < s->conf->nlistens; i++) {
        struct endpoint *d;
        char why[512] = "";

        err = endpoints_bind(
            &s->endpoints, &d, &s->conf->listens[i], &s->conf->params, why, sizeof(why));

        if (err != 0) {
            elog(ELOG_ERROR, "%s", why[0] != '\0' ? why : terr_text(err));
            return err;
        }
    }
    return 0;
}

/* Its name in CDN-Loop.  One of every start is enough: what the process before it sent passes here
 * once, and is known the next time. */
static void
server_choose_loop_id(struct server *s)
{
    uint64_t drawn;
    ssize_t n = getrandom(&drawn, sizeof(drawn), 0);

    tassert(n == (ssize_t)sizeof(drawn));
    snprintf(s->loop_id, sizeof(s->loop_id), "tarn-%016llx", (unsigned long long)drawn);
    s->env.loop_id =
        s->conf->params.loop_token[0] != '\0' ? s->conf->params.loop_token : s->loop_id;
}

static int
server_start_workers(struct server *s)
{
    int err;

    tassert(s->manage != NULL); /* signals are read from now on */
    tassert(s->endpoints.first != NULL);
    server_choose_loop_id(s);
    /* Before the first request; `why` names it too. */
    policies_set_loop_id(s->policies, slice_str(s->env.loop_id));
    policies_set_peers(s->policies, s->env.peers);
    s->env.conf = s->conf;
    s->env.cache = s->cache;
    s->env.storage = s->storage;
    s->env.synth = s->synth;
    s->env.counters = s->counters;
    s->env.latency = s->latency;
    s->env.registry = s->registry;
    s->env.policies = s->policies;
    s->env.tables = s->tables;
    for (unsigned i = 0; i < s->nworkers; i++) {
        tassert(s->logs[i] != NULL);
        tassert(s->workers[i] == NULL);
        err = worker_start(&s->workers[i], &s->env, i, s->logs[i]);

        if (err != 0) {
            elog(ELOG_ERROR, "worker %u: %s", i, terr_text(err));
            return err;
        }
    }
    return 0;
}

/* A supervisor gets the line, and prints it itself. */
static void
server_say_ready(const struct server *s)
{
    static char line[CHANNEL_MESSAGE_MAX - 1];
    char status[64];
    int n = snprintf(line, sizeof(line), "tarnd: ready");

    for (const struct endpoint *d = s->endpoints.first; d != NULL; d = d->next) {
        tassert(d->bound != NULL); /* what is printed accepts */
        /* A line that is cut is no reason not to serve. */
        if ((size_t)n >= sizeof(line))
            break;
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %s", d->address);
    }
    if (s->channel != NULL) {
        channel_ready(s->channel, line);
        return;
    }
    printf("%s\n", line);
    /* A script waits for the line at the other end of a pipe. */
    fflush(stdout);
    snprintf(status, sizeof(status), "serving; %u workers", s->nworkers);
    notify_ready(s->notify, status);
}

static void
server_release(void *ctx)
{
    struct server *s = ctx;

    endpoints_shut(&s->endpoints);
}

static int
server_open_manage(struct server *s)
{
    struct manage_env env = {.conf = s->conf,
        .channel = s->channel,
        .dir = s->dir,
        .counters = s->counters,
        .latency = s->latency,
        .access = s->access,
        .cache = s->cache,
        .storage = s->storage,
        .synth = s->synth,
        .registry = s->registry,
        .peers = s->env.peers,
        .challenges = s->env.challenges,
        .policies = s->policies,
        .tables = s->tables,
        .shared = &s->env,
        .workers = s->workers,
        .logs = s->logs,
        .names = backend_names_here(s->names),
        .notify = s->notify,
        .shm_dir = shm_dir_path(s->dir),
        .nworkers = s->nworkers,
        .release = server_release,
        .release_ctx = s};

    return manage_open(&s->manage, &env);
}

/* In the reverse order of opening, but for the storage: entries are charged to it until the cache has
 * gone, and a policy's backends are the registry's.  What was not opened is NULL. */
static void
server_close(struct server *s)
{
    for (unsigned i = 0; i < s->nworkers; i++)
        tassert(s->workers[i] == NULL); /* all have been joined: no thread reads what goes now */
    if (s->manage != NULL)
        manage_close(&s->manage);
    if (s->cache != NULL)
        cache_close(&s->cache);
    if (s->policies != NULL)
        policies_close(&s->policies);
    if (s->tables != NULL)
        tables_close(&s->tables);
    free(s->owner_uids);
    if (s->env.auth != NULL)
        auth_close(&s->env.auth);
    if (s->env.rates != NULL)
        rates_close(&s->env.rates);
    if (s->env.recoder != NULL)
        recoder_close(&s->env.recoder);
    if (s->env.quota != NULL)
        conn_quota_close(&s->env.quota);
    if (s->storage != NULL)
        storage_close(&s->storage);
    if (s->synth != NULL)
        storage_close(&s->synth);
    endpoints_free(&s->endpoints);
    if (s->offload != NULL)
        offload_close(&s->offload);
    if (s->env.peers != NULL)
        peers_close(&s->env.peers);
    if (s->env.challenges != NULL)
        challenges_free(&s->env.challenges);
    if (s->registry != NULL)
        registry_close(&s->registry);
    if (s->access != NULL)
        access_log_stop(&s->access);
    for (unsigned i = 0; i < s->nworkers; i++)
        if (s->logs[i] != NULL)
            shmlog_close(&s->logs[i]);
    if (s->counters != NULL)
        counters_close(&s->counters);
    if (s->names != NULL)
        backend_names_close(&s->names);
    if (s->latency != NULL)
        latency_close(&s->latency);
    if (s->dir != NULL)
        shm_dir_close(&s->dir);
    notify_close(&s->notify);
    inherit_close();
    if (s->channel != NULL)
        channel_close(&s->channel);
}

/* The order is that of need: bodies are counted in shared memory, the cache lies in the storage, a
 * policy is compiled against backends and tables come before the first request can read one.  Addresses
 * are bound late, so that a mistake in anything above costs no client a connection that is then reset. */
static int
server_open(struct server *s)
{
    int err = server_open_shm(s);

    if (err == 0)
        err = server_open_storage(s);
    if (err == 0)
        err = server_open_backends(s);
    if (err == 0)
        err = server_open_policies(s);
    if (err == 0)
        err = server_open_tables(s);
    if (err == 0)
        err = server_listen(s);
    if (err == 0)
        err = server_open_manage(s);
    inherit_close(); /* addresses that the configuration names no more */
    return err;
}

/* Before there is a thread, a file or a socket that strangers reach.
 * The order is fixed: the sandbox refuses setuid(2) and fork(2), so the user comes first, and the
 * reaper is forked in between. */
static int
server_confine(const struct server *s)
{
    int err = privilege_drop(s->conf->params.user, s->conf->params.group);

    core_dump_set(s->conf->params.core_dumps);
    if (err == 0 && s->channel != NULL)
        reaper_start(); /* without a supervisor, no process waits for our end */
    if (err == 0)
        sandbox_enter(s->conf);
    return err;
}

int
server_run(const struct conf *conf)
{
    static struct server server; /* one per process, and large */
    struct server *s = &server;
    enum elog_level level = ELOG_INFO;
    int err;

    tassert(s->conf == NULL); /* once a process */
    s->conf = conf;
    tassert_describe(h1_server_describe);
    tassert_describe(proxy_describe);
    tassert_describe(shmlog_describe);
    /* First of all: what follows reports its errors there. */
    elog_level_parse(&level, conf->params.log_level);
    elog_init(level, (unsigned)conf->params.log_rate);
    server_open_error_log(conf->params.error_log);
    /* Before anything is hashed: keys, tags of passwords and ids follow from it. */
    hash_secret_draw();
    tls_init();
    /* Before the first thread, for threads inherit the mask: signals are read by the management
     * loop alone. */
    signals_block();
    /* Early: those descriptors are ours from here on, and what no listener wants is closed
     * (inherit_close). */
    inherit_load();
    if (channel_open(&s->channel) != 0)
        return 1;
    if (s->channel != NULL)
        prctl(PR_SET_NAME, "tarnd"); /* and not "exe", the name it was started by */
    s->notify = notify_open();
    /* Before anything that a client could reach is parsed. */
    err = server_confine(s);
    if (err != 0) {
        server_close(s);
        return err == TERR_CONFIG ? 2 : 1;
    }
    s->nworkers = conf->workers > 0 ? (unsigned)conf->workers : server_cpus();
    tassert(s->nworkers > 0);
    tassert(s->nworkers <= LIMIT_WORKERS);
    /* Behind the confinement, which later threads inherit: this begins the first one. */
    rcu_start();
    server_limit_conns(s);
    err = server_open(s);
    if (err != 0) {
        server_close(s);
        return s->policy_refused ? 2 : 1;
    }
    if (server_start_workers(s) != 0) {
        fflush(NULL);
        _exit(1); /* some threads run already; nothing has been promised yet */
    }
    server_say_ready(s);
    elog(ELOG_INFO, "tarnd " TARN_VERSION ": %u workers, at most %lld client connections",
        s->nworkers, (long long)s->env.conns_max);
    manage_run(s->manage);
    server_close(s);
    /* What the last steps said. */
    elog_flush();
    return 0;
}
