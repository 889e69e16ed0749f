/* admin_fixture.h -- the admin listener between a fake protocol and fake policies. */
#ifndef TARN_ADMIN_FIXTURE_H
#define TARN_ADMIN_FIXTURE_H

#include "t/unit/head_build.h"
#include "t/unit/test.h"

#include <stdio.h>

#include "conf/conf.h"
#include "daemon/admin/admin.h"
#include "daemon/admin/admin_table.h"
#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/invalidation.h"
#include "daemon/cache/tag_purge.h"
#include "daemon/http/uri.h"
#include "daemon/log/elog.h"
#include "daemon/origin/director.h"
#include "daemon/policy/policies.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/latency.h"
#include "daemon/shm/log.h"
#include "daemon/why/why.h"
#include "storage/storage.h"
#include "vcl-lite/vcl.h"

#define TOKEN "0123456789abcdef"

/* ---- a protocol: a request that comes in pieces, an answer that is taken in
 * pieces ---- */

struct ask {
    struct exchange x;
    struct head_build head;
    char text[1024];
    const char *body;
    size_t body_len, body_at;
    size_t pieces; /* bytes of the body that come at a time; 0: all */
    size_t takes;  /* bytes of the answer accepted at a time; 0: all */
    bool dry;      /* nothing more comes now */
    /* what became of it */
    unsigned status;
    char block[1024];
    char *out;
    size_t out_len;
    bool bodyless, close, aborted, released, ended;
    struct conn_operator peer;
    struct conn_listener listener;
    struct conn_facts facts;
};

static ssize_t
ask_body_read(struct exchange *x, char *dst, size_t room)
{
    struct ask *a = container_of(x, struct ask, x);
    size_t n = a->body_len - a->body_at;

    if (n == 0)
        return 0;
    if (a->dry)
        return TERR_AGAIN;
    n = n > room ? room : n;
    if (a->pieces > 0 && n > a->pieces) {
        n = a->pieces;
        a->dry = true;
    }
    if (a->body != NULL)
        memcpy(dst, a->body + a->body_at, n);
    else
        memset(dst, ' ', n);
    a->body_at += n;
    return (ssize_t)n;
}

static ssize_t
ask_send(struct exchange *x, const struct exchange_response *r, const struct iovec *body,
    unsigned n, unsigned flags)
{
    struct ask *a = container_of(x, struct ask, x);
    size_t len = n > 0 ? body[0].iov_len : 0;

    CHECK((r != NULL) == (a->status == 0));
    CHECK(!a->ended && n <= 1 && flags == EXCHANGE_END);
    if (r != NULL) {
        a->status = r->status;
        a->bodyless = r->bodyless;
        a->close = r->close;
        CHECK(strlen(head_text(r->message)) < sizeof(a->block));
        strcpy(a->block, head_text(r->message));
        a->out = calloc(1, r->length + 1);
    }
    if (a->takes > 0 && len > a->takes) {
        len = a->takes;
        x->writable = false;
    } else {
        a->ended = true;
        x->writable = false;
        x->gathered = true;
    }
    memcpy(a->out + a->out_len, n > 0 ? body[0].iov_base : "", len);
    a->out_len += len;
    return (ssize_t)len;
}

static void
ask_reset(struct exchange *x, int why)
{
    (void)why;
    container_of(x, struct ask, x)->aborted = true;
}

static void
ask_release(struct exchange *x)
{
    struct ask *a = container_of(x, struct ask, x);

    CHECK(!a->released);
    a->released = true;
    arena_fini(&x->arena);
}

static const struct exchange_ops ask_ops = {
    .body_read = ask_body_read, .send = ask_send, .reset = ask_reset, .release = ask_release};

/* ---- policies that are names ---- */

static struct {
    char loaded[64], used[64], labelled[64], purged[128];
    bool soft;
    int err;
} said;

int
policies_load(struct policies *ps, const char *name, const char *file_name, struct slice text,
    struct vcl_error **errors)
{
    static char message[] = "expected ';'", hint[] = "end it with ';'", source[] = "\xff oops";
    static struct vcl_error warning = {
        .file = "p", .line = 9, .column = 1, .message = message, .is_warning = true};
    static struct vcl_error error = {.file = "p",
        .line = 3,
        .column = 7,
        .message = message,
        .hint = hint,
        .source = source,
        .next = &warning};

    (void)ps, (void)file_name;
    snprintf(said.loaded, sizeof(said.loaded), "%s:%.*s", name, (int)text.len, text.ptr);
    *errors = said.err == TERR_CONFIG ? &error : &warning;
    return said.err;
}

void
vcl_errors_free(struct vcl_error **ep)
{
    *ep = NULL;
}

int
policies_use(struct policies *ps, const char *name)
{
    (void)ps;
    snprintf(said.used, sizeof(said.used), "%s", name);
    return said.err;
}

int
policies_discard(struct policies *ps, const char *name)
{
    (void)ps, (void)name;
    return said.err;
}

int
policies_label(struct policies *ps, const char *label, const char *name)
{
    (void)ps;
    snprintf(said.labelled, sizeof(said.labelled), "%s=%s", label, name);
    return said.err;
}

int
policies_unlabel(struct policies *ps, const char *label)
{
    (void)ps, (void)label;
    return said.err;
}

bool
policies_name_ok(const char *name)
{
    return name[0] != '\0';
}

void
policies_each(struct policies *ps, void (*f)(void *ctx, const struct policy_seen *seen), void *ctx)
{
    struct policy_seen boot = {.name = "boot", .file = "a.vcl", .state = "active", .workers = 2};
    struct policy_seen label = {.name = "l", .file = "", .state = "warm", .label_of = "boot"};

    (void)ps;
    f(ctx, &boot);
    f(ctx, &label);
}

void
policies_params(const struct policies *ps, struct conf_params *params)
{
    (void)ps;
    (void)params;
}

int
policies_why(struct policies *ps, struct slice url, const struct why_field *fields,
    unsigned nfields, json_t **out, const char **why)
{
    (void)ps;
    *why = "no such url";
    if (slice_eq(url, SLICE_LIT("http://x/no")))
        return TERR_SYNTAX;
    *out = json_object();
    json_put(*out, "url", json_any_text(url));
    for (unsigned i = 0; i < nfields; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%.*s", (int)fields[i].name.len, fields[i].name.ptr);
        json_put(*out, name, json_any_text(fields[i].value));
    }
    return 0;
}

static int
fake_resolve(void *ctx, const struct invalidation *inv, struct hash128 *key, const char **why)
{
    (void)ctx;
    snprintf(said.purged, sizeof(said.purged), "%.*s", (int)inv->text.len, inv->text.ptr);
    said.soft = inv->soft;
    *key = hash_bytes("/", 1);
    *why = "that is no URL";
    return said.err;
}

/* A log of the last record. */
static struct {
    unsigned n;
    enum invalidation_kind kind;
    bool soft;
    unsigned ntags, nfields;
    char text[128];
} told;

static void
told_nothing(void *ctx)
{
    (void)ctx;
}

static uint64_t
told_append(void *ctx, const struct invalidation *inv)
{
    (void)ctx;
    told.n++;
    told.kind = inv->kind;
    told.soft = inv->soft;
    told.ntags = inv->ntags;
    told.nfields = inv->nfields;
    snprintf(told.text, sizeof(told.text), "%.*s", (int)inv->text.len, inv->text.ptr);
    return told.n;
}

/* ---- the process around it ---- */

static struct {
    const struct conf *conf;
    struct loop loop;
    struct counters *counters;
    struct latency *latency;
    struct shmlog *logs[2];
    struct storage *storage;
    struct cache *cache;
    struct registry *registry;
    struct admin *admin;
    struct conf_params params;
    unsigned stops, drains, sets;
    bool draining;
    bool lazy; /* nobody walks for purges by tag */
} world;

static const char *
host_state(void *ctx)
{
    (void)ctx;
    return world.draining ? "draining" : "running";
}

static void
host_stop(void *ctx)
{
    (void)ctx;
    world.stops++;
}

static void
host_drain(void *ctx)
{
    (void)ctx;
    world.drains++;
}

static const struct conf_params *
host_params(void *ctx)
{
    (void)ctx;
    return &world.params;
}

static void
host_set_params(void *ctx, const struct conf_params *next)
{
    (void)ctx;
    world.params = *next;
    world.sets++;
}

static int64_t
host_connections(void *ctx)
{
    (void)ctx;
    return 7;
}

static void
host_listeners(void *ctx, void (*each)(void *to, const char *name, const char *address), void *to)
{
    (void)ctx;
    each(to, "listen0", "127.0.0.1:4711");
}

static unsigned
host_reload(void *ctx, json_t **answer)
{
    (void)ctx;
    *answer = json_pack("{s[{ss}]}", "changed", "what", "routes");
    return 200;
}

static void
host_tls(void *ctx, void (*each)(void *to, const struct admin_tls *t), void *to)
{
    const struct admin_tls t = {.name = "a\"b",
        .address = "127.0.0.1:443",
        .certificates = 2,
        .names = 3,
        .parsed = 1,
        .parses = 5,
        .parse_failures = 4,
        .reload_failures = 6,
        .soonest_s = world.loop.clock.wall_ms / 1000 - 7,
        .soonest_file = "/c/\xff.pem"};
    const struct admin_tls none = {.name = "new", .address = "[::1]:443", .soonest_file = ""};

    (void)ctx;
    each(to, &t);
    each(to, &none);
}

static json_t *
host_tls_list(void *ctx, unsigned most)
{
    (void)ctx;
    return json_pack("[{si}]", "most", (int)most);
}

static unsigned
host_tls_reload(void *ctx, json_t **answer)
{
    (void)ctx;
    *answer = json_pack("{ss}", "error", "bad");
    return 422;
}

static void
host_walk_tags(void *ctx)
{
    (void)ctx;
    if (world.lazy)
        return;
    rcu_join();
    while (tag_purge_walk(world.cache, 0))
        ;
    rcu_leave();
}

static const char *
host_shared_text(void *ctx, const char *name)
{
    (void)ctx, (void)name;
    return NULL;
}

static void
world_on_wake(struct inbox *in)
{
    (void)in;
}

static void
world_on_rearm(struct timer_wheel *w, uint64_t at_ms)
{
    (void)w, (void)at_ms;
}

static void
world_open(const char *admin_section)
{
    static const struct invalidation_log told_log = {
        .append = told_append, .begin = told_nothing, .end = told_nothing, .wants_text = true};
    static const struct admin_host host = {host_state, host_stop, host_drain, host_params,
        host_set_params, host_connections, host_listeners, host_reload, host_tls, host_tls_list,
        host_tls_reload, host_shared_text, host_walk_tags};
    struct conf_error *errors;
    char yaml[512];

    snprintf(yaml, sizeof(yaml),
        "backends: {o: {address: '127.0.0.1:9'}}\nstorage: {main: {size: 1MiB}}\n"
        "index: {bits: 8}\nadmin: %s\n",
        admin_section);
    memset(&world, 0, sizeof(world));
    memset(&said, 0, sizeof(said));
    elog_init(ELOG_ERROR, 1);
    CHECK_EQ(0, conf_load_text(&world.conf, "t.yaml", yaml, strlen(yaml), &errors));
    world.params = world.conf->params;
    task_queue_init(&world.loop.tasks);
    inbox_init(&world.loop.inbox, world_on_wake);
    arena_pool_init(&world.loop.arenas, 4, NULL);
    timer_wheel_init(&world.loop.wheel, 0, world_on_rearm);
    CHECK_EQ(0, counters_open(&world.counters, NULL, 1));
    CHECK_EQ(0, latency_open(&world.latency, NULL, 2));
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(0, shmlog_open(&world.logs[i], NULL, i, SHMLOG_RING_MIN));
    CHECK_EQ(0, storage_open(&world.storage, &world.conf->storages[0]));
    CHECK_EQ(0, cache_open(&world.cache, &world.conf->index, world.storage,
                    &world.conf->storages[0], world.counters));
    memset(&told, 0, sizeof(told));
    cache_set_resolver(world.cache, (struct invalidation_resolver){fake_resolve, NULL});
    cache_set_invalidation_log(world.cache, &told_log);
    CHECK_EQ(0, registry_open(&world.registry, world.conf));
    CHECK_EQ(0, admin_open(&world.admin, &(struct admin_env){.loop = &world.loop,
                                             .conf = world.conf,
                                             .counters = world.counters,
                                             .latency = world.latency,
                                             .cache = world.cache,
                                             .storage = world.storage,
                                             .registry = world.registry,
                                             .nworkers = 2,
                                             .logs = world.logs,
                                             .address = "unix:/a",
                                             .host = &host}));
}

static void
world_close(void)
{
    admin_close(&world.admin);
    cache_close(&world.cache);
    registry_close(&world.registry);
    storage_close(&world.storage);
    counters_close(&world.counters);
    latency_close(&world.latency);
    for (unsigned i = 0; i < 2; i++)
        shmlog_close(&world.logs[i]);
    arena_pool_fini(&world.loop.arenas);
    conf_free(&world.conf);
}

static void
world_turn(void)
{
    inbox_drain(&world.loop.inbox);
    task_queue_run(&world.loop.tasks, 1000);
}

/* A request as its first line and fields; the body follows. */
static struct ask *
ask_new(const char *head, const char *body)
{
    enum http_scheme scheme = HTTP_SCHEME_HTTP;
    struct ask *a = calloc(1, sizeof(*a));

    snprintf(a->text, sizeof(a->text), "%s\n\n", head);
    a->x.head = *head_build(&a->head, a->text);
    a->x.err = http_target_parse(&a->x.head, &scheme);
    a->x.ops = &ask_ops;
    a->listener = (struct conn_listener){.name = "admin", .endpoint = "", .peer = &a->peer};
    a->facts = (struct conn_facts){.listener = &a->listener, .is_unix = true};
    a->x.conn = &a->facts;
    a->x.writable = true;
    a->body = body;
    a->body_len = body != NULL ? strlen(body) : 0;
    a->x.has_body = body != NULL;
    a->x.body_length = EXCHANGE_LENGTH_UNKNOWN;
    arena_init(&a->x.arena, &world.loop.arenas);
    return a;
}

/* To the end. */
static void
ask_run(struct ask *a)
{
    admin_start(world.admin, &a->x);
    for (unsigned i = 0; !a->released; i++) {
        CHECK(i < 100000);
        a->dry = false;
        if (a->ended)
            a->x.done = true;
        else if (a->status != 0)
            a->x.writable = true;
        task_wake(a->x.task);
        world_turn();
    }
}

static void
ask_free(struct ask **ap)
{
    CHECK((*ap)->released);
    free((*ap)->out);
    free(*ap);
    *ap = NULL;
}

static json_t *
ask_json(const struct ask *a)
{
    char why[128] = "";
    json_t *o = json_parse(slice_of(a->out, a->out_len), why, sizeof(why));

    CHECK_STR("", why);
    CHECK(o != NULL);
    CHECK(strstr(a->block, "\r\nContent-Type: application/json\r\n") != NULL);
    CHECK(strstr(a->block, "\r\nCache-Control: no-store\r\n") != NULL);
    return o;
}

/* Asks, and gives back the answer as JSON. */
static json_t *
answer(const char *head, const char *body, unsigned status)
{
    struct ask *a = ask_new(head, body);
    json_t *o;

    ask_run(a);
    if (a->status != status)
        print_error("%s: %u %s\n", head, a->status, a->out);
    CHECK_EQ(status, a->status);
    o = ask_json(a);
    ask_free(&a);
    return o;
}

/* The answer has this member with this text. */
static void
expect(const char *head, const char *body, unsigned status, const char *key, const char *value)
{
    json_t *o = answer(head, body, status);
    const char *got = json_string_value(json_object_get(o, key));

    CHECK(got != NULL);
    CHECK_STR(value, got);
    json_decref(o);
}

#endif
