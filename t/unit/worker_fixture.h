/* worker_fixture.h -- one worker in a test's own thread: loop, cache, proxy, h1 server, and an
 * origin on a Unix socket, whose paths say what it answers:
 *
 *     /LENGTH/length|chunked/keep|once[/paced|/drip]
 *
 * The bytes of a body follow from its path.  `paced` sends the second half when the test posts
 * world.go: after it has got the first.  `drip` sends small pieces, one at a time.
 *
 * Threads: the loop runs in the test's thread (world_run), the origin in one of its own.
 */
#ifndef TARN_WORKER_FIXTURE_H
#define TARN_WORKER_FIXTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/limits.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/h1/h1_render.h"
#include "daemon/h1/h1_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/log/elog.h"
#include "daemon/net/incoming.h"
#include "daemon/net/netloop.h"
#include "daemon/proxy/proxy.h"
#include "t/unit/storage_fixture.h"

enum {
    WORLD_WAIT_S = 20,       /* for what comes at once: then something hangs */
    WORLD_CHUNK_MAX = 20000, /* of the origin's chunks */
    WORLD_DRIP = 700,
};

/* What a path says. */
struct world_path {
    size_t len;
    bool chunked, keep, paced, drip;
    uint64_t seed; /* body_byte(seed + offset) */
};

struct world {
    char dir[64], socket[96];
    const struct conf *conf;
    struct client_conf client_conf;
    struct h1_conf h1_conf;
    struct counters *counters;
    struct latency *latency;
    struct shmlog *log;
    struct storage *storage, *synth;
    struct cache *cache;
    struct registry *registry;
    struct net_loop *net;
    struct incoming *incoming;
    struct proxy proxy;
    _Atomic int64_t conns;
    struct task ending;
    struct post stop;
    pthread_mutex_t mailbox; /* held to post to the loop, and to end it */
    bool stopping;
    /* the origin's */
    pthread_t origin;
    int listener;
    unsigned asked; /* requests; read it when the world is closed */
    sem_t go;
};

static inline struct world_path
world_path(const char *path)
{
    struct world_path p = {.len = strtoul(path + 1, NULL, 10)};

    p.chunked = strstr(path, "/chunked") != NULL;
    p.keep = strstr(path, "/keep") != NULL;
    p.paced = strstr(path, "/paced") != NULL;
    p.drip = strstr(path, "/drip") != NULL;
    for (; *path != '\0'; path++)
        p.seed = p.seed * 31 + (unsigned char)*path;
    return p;
}

/* ---- The origin ---- */

static inline bool
origin_write(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* Body bytes [from, to), in chunks of many sizes if it is chunked. */
static inline bool
origin_write_body(int fd, const struct world_path *p, size_t from, size_t to)
{
    static char buf[WORLD_CHUNK_MAX + 32];
    const struct timespec moment = {0, 100000};

    while (from < to) {
        size_t len = p->chunked ? 1 + (from * 7 + 999) % WORLD_CHUNK_MAX : WORLD_CHUNK_MAX;
        size_t at = 0;

        if (p->drip) {
            nanosleep(&moment, NULL);
            len = WORLD_DRIP;
        }
        if (len > to - from)
            len = to - from;
        if (p->chunked)
            at = (size_t)sprintf(buf, "%zX\r\n", len);
        body_write(buf + at, p->seed + from, len);
        at += len;
        if (p->chunked)
            at += (size_t)sprintf(buf + at, "\r\n");
        if (!origin_write(fd, buf, at))
            return false;
        from += len;
    }
    return true;
}

static inline bool
origin_answer(struct world *w, int fd, const char *path)
{
    struct world_path p = world_path(path);
    struct timespec until;
    char head[256];
    size_t half = p.paced ? p.len / 2 : 0;
    int n = sprintf(
        head, "HTTP/1.1 200 OK\r\nCache-Control: %s\r\n", p.keep ? "max-age=3600" : "no-store");

    w->asked++;
    if (p.chunked)
        n += sprintf(head + n, "Transfer-Encoding: chunked\r\n\r\n");
    else
        n += sprintf(head + n, "Content-Length: %zu\r\n\r\n", p.len);
    if (!origin_write(fd, head, (size_t)n) || !origin_write_body(fd, &p, 0, half))
        return false;
    if (p.paced) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WORLD_WAIT_S;
        if (sem_timedwait(&w->go, &until) != 0)
            return false; /* the client sees a response cut short */
    }
    return origin_write_body(fd, &p, half, p.len) &&
           (!p.chunked || origin_write(fd, "0\r\n\r\n", 5));
}

/* One connection to its end; Tarn never has two in use here. */
static inline void
origin_serve(struct world *w, int fd)
{
    char in[4096], path[256];
    size_t have = 0;
    ssize_t n;

    while ((n = recv(fd, in + have, sizeof(in) - 1 - have, 0)) > 0) {
        have += (size_t)n;
        in[have] = '\0';
        if (strstr(in, "\r\n\r\n") == NULL)
            continue;
        if (sscanf(in, "%*s %255s", path) != 1 || !origin_answer(w, fd, path))
            break;
        have = 0;
    }
    close(fd);
}

static inline void *
origin_main(void *arg)
{
    struct world *w = arg;
    int fd;

    while ((fd = accept(w->listener, NULL, NULL)) >= 0)
        origin_serve(w, fd);
    return NULL;
}

static inline void
origin_open(struct world *w)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    snprintf(w->dir, sizeof(w->dir), "%s/tarn-test-XXXXXX", P_tmpdir);
    CHECK(mkdtemp(w->dir) != NULL);
    snprintf(w->socket, sizeof(w->socket), "%s/origin", w->dir);
    strcpy(sa.sun_path, w->socket);
    w->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(0, bind(w->listener, (struct sockaddr *)&sa, sizeof(sa)));
    CHECK_EQ(0, listen(w->listener, 8));
    CHECK_EQ(0, sem_init(&w->go, 0, 0));
    CHECK_EQ(0, pthread_create(&w->origin, NULL, origin_main, w));
}

static inline void
origin_close(struct world *w)
{
    shutdown(w->listener, SHUT_RDWR);
    pthread_join(w->origin, NULL);
    close(w->listener);
    unlink(w->socket);
    rmdir(w->dir);
    sem_destroy(&w->go);
}

/* ---- The worker ---- */

static inline void
world_on_empty(void *ctx)
{
    struct world *w = container_of((struct proxy *)ctx, struct world, proxy);

    if (w->stopping)
        task_wake(&w->ending);
}

static inline void
world_on_ending(struct task *t)
{
    struct world *w = container_of(t, struct world, ending);

    if (incoming_connections(w->incoming) > 0 || !proxy_is_idle(&w->proxy))
        return;
    pthread_mutex_lock(&w->mailbox); /* whoever sent us here has left the inbox */
    pthread_mutex_unlock(&w->mailbox);
    origins_drain(w->proxy.origins);
    net_loop_stop(w->net);
}

static inline void
world_on_stop(struct post *p)
{
    struct world *w = container_of(p, struct world, stop);

    w->stopping = true;
    incoming_drain(w->incoming);
    incoming_cut(w->incoming);
    proxy_cut(&w->proxy);
    task_wake(&w->ending);
}

static inline void
world_load_conf(struct world *w, const char *parameters)
{
    struct conf_error *errors;
    char yaml[512];
    int n = snprintf(yaml, sizeof(yaml),
        "backends: {o: {address: 'unix:%s'}}\n"
        "storage: {main: {engine: malloc, size: 64MiB}}\n"
        "parameters: {%s}\n",
        w->socket, parameters);

    CHECK_EQ(0, conf_load_text(&w->conf, "t.yaml", yaml, (size_t)n, &errors));
    w->client_conf = (struct client_conf){
        .fields_max = (uint16_t)w->conf->params.http_max_hdr,
        .req_line_max = (uint32_t)w->conf->params.http_req_line_len,
        .req_field_max = (uint32_t)w->conf->params.http_req_hdr_len,
        .req_head_max = (uint32_t)w->conf->params.http_req_size,
        .head_memo = w->conf->params.http_head_memo,
        .idle_ms = w->conf->params.timeout_idle,
        .head_ms = w->conf->params.timeout_req,
        .body_ms = w->conf->params.timeout_body,
        .body_idle_ms = w->conf->params.timeout_body_idle,
        .send_idle_ms = w->conf->params.idle_send_timeout,
        .pipe_ms = w->conf->params.pipe_timeout,
    };
    w->h1_conf = (struct h1_conf){
        .fields_max = (uint16_t)w->conf->params.http_max_hdr,
        .resp_field_max = (uint32_t)w->conf->params.http_resp_hdr_len,
        .resp_head_max = (uint32_t)w->conf->params.http_resp_size,
    };
}

static inline void
world_open_shared(struct world *w)
{
    static const struct conf_storage synth = {.name = "synth", .engine = "synth", .fault = ""};
    const struct conf_storage *store = &w->conf->storages[0];

    elog_init(ELOG_ERROR, 100);
    hash_secret_draw();
    CHECK_EQ(0, counters_open(&w->counters, NULL, 1));
    CHECK_EQ(0, latency_open(&w->latency, NULL, 1));
    CHECK_EQ(0, shmlog_open(&w->log, NULL, 0, SHMLOG_RING_MIN));
    CHECK_EQ(0, storage_open(&w->storage, store));
    CHECK_EQ(0, storage_open(&w->synth, &synth));
    CHECK_EQ(0, cache_open(&w->cache, &w->conf->index, w->storage, store, w->counters));
    CHECK_EQ(0, registry_open(&w->registry, w->conf));
}

/* As daemon/worker.c, without listeners.  `start` is given the proxy, as req_start is;
 * `parameters` as in tarn.yaml, in flow style. */
static inline void
world_open_incoming(struct world *w, exchange_start_f *start)
{
    const struct incoming_env in = {.loop = w->proxy.loop,
        .counters = w->proxy.counters,
        .header_ms = &w->client_conf.head_ms,
        .conns = &w->conns,
        .ctx = &w->proxy,
        .on_empty = world_on_empty};
    const struct h1_server_env h1 = {.loop = w->proxy.loop,
        .conf = &w->client_conf,
        .counters = w->proxy.counters,
        .start = start,
        .start_ctx = &w->proxy};
    struct conn_server *server;

    CHECK_EQ(0, incoming_open(&w->incoming, &in));
    CHECK_EQ(0, h1_server_open(&server, &h1));
    incoming_serve(w->incoming, &server);
}

static inline void
world_open(struct world *w, exchange_start_f *start, const char *parameters)
{
    struct counter_set *set;

    *w = (struct world){.listener = -1};
    origin_open(w);
    world_load_conf(w, parameters);
    world_open_shared(w);
    set = counters_worker(w->counters, 0);
    CHECK_EQ(0, net_loop_open(&w->net, 0));
    proxy_init(&w->proxy, w->conf);
    w->proxy.rendering = &h1_rendering;
    w->proxy.loop = net_loop_base(w->net);
    w->proxy.cache = w->cache;
    w->proxy.storage = w->storage;
    w->proxy.synth = w->synth;
    w->proxy.storage_bytes = w->conf->storages[0].size;
    w->proxy.counters = set;
    w->proxy.latency = latency_worker(w->latency, 0);
    w->proxy.log = w->log;
    w->proxy.on_idle = world_on_empty;
    w->proxy.on_idle_ctx = &w->proxy;
    w->proxy.registry = w->registry;
    CHECK_EQ(
        0, origins_open(&w->proxy.origins, w->proxy.loop, h1_origin_protocol(&w->h1_conf), set));
    world_open_incoming(w, start);
    task_init(&w->ending, &w->proxy.loop->tasks, world_on_ending);
    w->stop.land = world_on_stop;
    CHECK_EQ(0, pthread_mutex_init(&w->mailbox, NULL));
}

/* Takes the connected Unix socket of a client. */
static inline int
world_accept(struct world *w, int fd)
{
    static const struct incoming_listener plain = {.facts = {.name = "", .endpoint = ""}};

    return incoming_accept(w->incoming, fd, true, &plain);
}

/* From any thread, once: the loop ends, whatever is under way. */
static inline void
world_stop(struct world *w)
{
    pthread_mutex_lock(&w->mailbox);
    inbox_send(&w->proxy.loop->inbox, &w->stop);
    pthread_mutex_unlock(&w->mailbox);
}

/* Until world_stop. */
static inline void
world_run(struct world *w)
{
    net_loop_run(w->net);
    proxy_fini(&w->proxy);
    incoming_close(&w->incoming);
    origins_close(&w->proxy.origins);
    net_loop_close(&w->net);
}

static inline void
world_close(struct world *w)
{
    cache_close(&w->cache);
    store_close(w->storage);
    store_close(w->synth);
    registry_close(&w->registry);
    shmlog_close(&w->log);
    counters_close(&w->counters);
    latency_close(&w->latency);
    conf_free(&w->conf);
    pthread_mutex_destroy(&w->mailbox);
    origin_close(w);
}

#endif
