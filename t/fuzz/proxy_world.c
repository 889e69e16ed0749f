/* proxy_world.c -- a worker as daemon/worker.c makes it, over memory. */
#include "t/fuzz/proxy_world.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "daemon/base/hash.h"
#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "daemon/h1/h1_render.h"
#include "daemon/h1/h1_server.h"
#include "daemon/http/client_conf.h"
#include "daemon/log/elog.h"
#include "daemon/net/incoming.h"
#include "daemon/proxy/proxy.h"
#include "storage/engine_fault.h"
#include "t/fuzz/proxy_net.h"

enum {
    SETTLE_TURNS_MAX = 20000, /* an input of some KiB needs far less: more is a loop of ours */
};
#define WORLD_EPOCH_MS INT64_C(1700000000000) /* Tue, 14 Nov 2023 22:13:20 GMT */

/* What `fault` wants goes wrong from the moment when everything is open. */
static const struct {
    const char *text, *fault;
} world_rows[] = {
    /* what most run with */
    {"backends: {o: {address: '127.0.0.1:9'}}\n"
     "routes: [{path: /chat, backend: o, pipe: on}]\n"
     "storage: {main: {engine: malloc, size: 1MiB}}\n"
     "index: {bits: 8}\n"
     "parameters: {request_id_header: X-Request-Id}\n",
        ""},
    /* limits that a short input meets */
    {"backends: {o: {address: '127.0.0.1:9'}}\n"
     "storage: {main: {engine: malloc, size: 256KiB}}\n"
     "index: {bits: 6, slots: 4}\n"
     "parameters: {http_max_hdr: 8, http_req_line_len: 96, http_req_hdr_len: 96,\n"
     "  http_req_size: 256, http_resp_hdr_len: 128, http_resp_size: 384, max_req_body: 64,\n"
     "  default_ttl: 10s, default_keep: 30s, http_cache_status: off}\n",
        ""},
    /* little room, and one connection */
    {"backends: {o: {address: 'unix:/o', host_header: 'origin.test:8080', max_connections: 1,\n"
     "  max_idle: 1}}\n"
     "storage: {main: {engine: malloc, size: 64KiB}}\n"
     "index: {bits: 6}\n"
     "parameters: {max_object_size: 512B, transit_buffer: 16KiB, req_body_buffer: 16KiB}\n",
        ""},
    /* a store that fails and makes wait */
    {"backends: {o: {address: '127.0.0.1:9', max_idle: 0}}\n"
     "storage: {main: {engine: fault, size: 1MiB}}\n"
     "index: {bits: 6}\n"
     "parameters: {default_ttl: 10s, uncacheable_ttl: 1s}\n",
        "alloc=7 again=3 hold=5 slow=4"},
    /* routes, and a full store */
    {"backends: {a: {address: '127.0.0.1:9'}, b: {address: '[::1]:9', first_byte_timeout: 1s}}\n"
     "routes: [{host: a.test, backend: a}, {path: /b/, backend: b}]\n"
     "storage: {main: {engine: fault, size: 1MiB}}\n"
     "index: {bits: 6}\n",
        "full=20000 eio=9"},
};

static struct world {
    const struct conf *confs[ARRAY_LEN(world_rows)];
    struct conf_storage synth_conf;
    struct counters *counters;
    struct latency *latency;
    struct shmlog *log;
    /* of a run */
    unsigned variant;
    const struct conf *conf;
    struct client_conf client_conf;
    struct h1_conf h1_conf;
    struct loop loop;
    uint64_t wake_at; /* the wheel's next deadline */
    struct storage *storage, *synth;
    struct cache *cache;
    struct registry *registry;
    struct incoming *incoming;
    _Atomic int64_t conns;
    bool draining;
    struct proxy proxy; /* large */
} world;

unsigned
world_variants(void)
{
    return ARRAY_LEN(world_rows);
}

static void
world_must(int err)
{
    tassert(err == 0); /* nothing here fails but for memory */
}

/* Once: what no run changes. */
static void
world_prepare(void)
{
    struct conf_error *errors;

    if (world.counters != NULL)
        return;
    elog_init(ELOG_ERROR, 1);
    hash_secret_fix(1);
    world.synth_conf = (struct conf_storage){.name = "synth", .engine = "synth", .fault = ""};
    for (unsigned i = 0; i < ARRAY_LEN(world_rows); i++) {
        if (conf_load_text(&world.confs[i], "fuzz", world_rows[i].text, strlen(world_rows[i].text),
                &errors) != 0) {
            fprintf(stderr, "variant %u, line %u: %s\n", i, errors->line, errors->message);
            abort();
        }
    }
    world_must(counters_open(&world.counters, NULL, 1));
    world_must(latency_open(&world.latency, NULL, 1));
    world_must(shmlog_open(&world.log, NULL, 0, SHMLOG_RING_MIN));
}

static void
world_set_clock(uint64_t mono_ms)
{
    struct clock *c = &world.loop.clock;
    time_t wall_s;
    struct tm tm;

    c->mono_ms = mono_ms;
    c->wall_ms = WORLD_EPOCH_MS + (int64_t)mono_ms;
    wall_s = (time_t)(c->wall_ms / 1000);
    gmtime_r(&wall_s, &tm);
    strftime(c->http_date, sizeof(c->http_date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

static void
world_on_wake(struct inbox *in)
{
    (void)in; /* the next turn drains it */
}

static void
world_on_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    (void)w;
    world.wake_at = at_ms;
}

static void
world_on_idle(void *ctx)
{
    (void)ctx;
}

static void
world_set_conf(const struct conf_params *p)
{
    world.client_conf = (struct client_conf){
        .fields_max = (uint16_t)p->http_max_hdr,
        .req_line_max = (uint32_t)p->http_req_line_len,
        .req_field_max = (uint32_t)p->http_req_hdr_len,
        .req_head_max = (uint32_t)p->http_req_size,
        .head_memo = p->http_head_memo,
        .req_body_max = (uint64_t)p->max_req_body,
        .idle_ms = p->timeout_idle,
        .head_ms = p->timeout_req,
        .body_ms = p->timeout_body,
        .body_idle_ms = p->timeout_body_idle,
        .send_idle_ms = p->idle_send_timeout,
        .pipe_ms = p->pipe_timeout,
    };
    world.h1_conf = (struct h1_conf){
        .fields_max = (uint16_t)p->http_max_hdr,
        .resp_field_max = (uint32_t)p->http_resp_hdr_len,
        .resp_head_max = (uint32_t)p->http_resp_size,
    };
}

static void
world_open_loop(void)
{
    struct loop *l = &world.loop;

    l->id = 0;
    world.wake_at = UINT64_MAX;
    task_queue_init(&l->tasks);
    inbox_init(&l->inbox, world_on_wake);
    arena_pool_init(&l->arenas, 64, NULL);
    world_set_clock(1000);
    timer_wheel_init(&l->wheel, l->clock.mono_ms, world_on_rearm);
}

static void
world_open_proxy(void)
{
    struct proxy *p = &world.proxy;
    struct counter_set *set = counters_worker(world.counters, 0);

    memset(p, 0, offsetof(struct proxy, key_text));
    proxy_init(p, world.conf);
    p->rendering = &h1_rendering;
    p->loop = &world.loop;
    p->cache = world.cache;
    p->storage = world.storage;
    p->synth = world.synth;
    p->storage_bytes = world.conf->storages[0].size;
    p->counters = set;
    p->latency = latency_worker(world.latency, 0);
    p->log = world.log;
    p->on_idle = world_on_idle;
    p->registry = world.registry;
    world_must(origins_open(&p->origins, p->loop, h1_origin_protocol(&world.h1_conf), set));
}

static void
world_open_incoming(void)
{
    const struct incoming_env in = {.loop = &world.loop,
        .counters = world.proxy.counters,
        .header_ms = &world.client_conf.head_ms,
        .conns = &world.conns,
        .ctx = &world.proxy,
        .on_empty = world_on_idle};
    const struct h1_server_env h1 = {.loop = &world.loop,
        .conf = &world.client_conf,
        .counters = world.proxy.counters,
        .start = req_start,
        .start_ctx = &world.proxy};
    struct conn_server *server;

    world_must(incoming_open(&world.incoming, &in));
    world_must(h1_server_open(&server, &h1));
    incoming_serve(world.incoming, &server);
}

void
world_open(unsigned variant)
{
    static const struct incoming_listener listener = {.facts = {.name = "", .endpoint = ""}};
    const struct conf_storage *store;

    world_prepare();
    tassert(variant < world_variants());
    world.variant = variant;
    world.conf = world.confs[variant];
    world.draining = false;
    store = &world.conf->storages[0];
    world_set_conf(&world.conf->params);
    world_open_loop();
    world_must(storage_open(&world.storage, store));
    world_must(storage_open(&world.synth, &world.synth_conf));
    world_must(cache_open(&world.cache, &world.conf->index, world.storage, store, world.counters));
    world_must(registry_open(&world.registry, world.conf));
    world_open_proxy();
    world_open_incoming();
    if (world_rows[variant].fault[0] != '\0')
        world_must(engine_fault_set(world.storage, world_rows[variant].fault));
    wires_open();
    for (int i = 0; i < WIRE_CLIENTS; i++)
        world_must(incoming_accept(world.incoming, i, false, &listener));
}

bool
world_turn(void)
{
    struct loop *l = &world.loop;
    bool any = wires_poll();

    rcu_online();
    inbox_here = &l->inbox;
    if (world_rows[world.variant].fault[0] != '\0')
        any = engine_fault_tick(world.storage) > 0 || any;
    any = inbox_drain(&l->inbox) > 0 || any;
    if (world.wake_at <= l->clock.mono_ms) {
        world.wake_at = UINT64_MAX;
        timer_wheel_run(&l->wheel, l->clock.mono_ms);
    }
    any = !list_empty(&l->tasks.due) || any;
    task_queue_run(&l->tasks, LIMIT_TASKS_PER_TURN);
    inbox_here = NULL;
    rcu_offline();
    return world_grace() || any; /* what is freed here is posted, as from RCU's thread */
}

void
world_settle(void)
{
    unsigned turns = 0;

    while (world_turn()) {
        turns++;
        tassert(turns < SETTLE_TURNS_MAX);
    }
}

void
world_advance(uint64_t ms)
{
    world_set_clock(world.loop.clock.mono_ms + ms);
}

bool
world_advance_to_deadline(void)
{
    uint64_t now = world.loop.clock.mono_ms;

    if (world.wake_at == UINT64_MAX)
        return false;
    world_set_clock(world.wake_at > now ? world.wake_at : now);
    return true;
}

void
world_drain(void)
{
    if (world.draining)
        return;
    world.draining = true;
    rcu_online();
    incoming_drain(world.incoming);
    rcu_offline();
}

bool
world_is_idle(void)
{
    return incoming_connections(world.incoming) == 0 && proxy_is_idle(&world.proxy);
}

bool
world_changes_host(void)
{
    return world.conf->backends[0].host_header[0] != '\0';
}

struct proxy *
world_proxy(void)
{
    return &world.proxy;
}

/* The modules assert that nothing of theirs is left: entries, objects, charged bytes,
 * connections, streams. */
void
world_close(void)
{
    tassert(world_is_idle());
    rcu_online();
    proxy_fini(&world.proxy);
    incoming_close(&world.incoming);
    origins_close(&world.proxy.origins);
    tassert(list_empty(&world.loop.tasks.due));
    rcu_offline();
    tassert(atomic_load(&world.conns) == 0);
    cache_close(&world.cache);
    storage_close(&world.storage);
    storage_close(&world.synth);
    registry_close(&world.registry);
    arena_pool_fini(&world.loop.arenas);
}
