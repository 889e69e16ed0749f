/* policy_world.c -- what a policy has of the world beside requests: vcl_init, directors. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/cache/cache.h"
#include "daemon/policy/policies_priv.h"

/* Takes `d`, also on failure: it goes with the policy, or now. */
int
policy_hold(struct policy *pol, struct director *d)
{
    /* One by one: a policy makes few, once. */
    struct director **held = realloc(pol->held, (pol->nheld + 1) * sizeof(*held));

    tassert(d != NULL);
    if (held == NULL) {
        director_drop(&d);
        return TERR_NOMEM;
    }
    pol->held = held;
    held[pol->nheld++] = d;
    return 0;
}

/* The directors first: they were made last, and hold the backends.  In reverse, so that each is
 * dropped before what it holds. */
void
policy_free_objects(struct policy *pol)
{
    tassert(pol->nheld == 0 || pol->held != NULL);
    while (pol->nheld > 0)
        director_drop(&pol->held[--pol->nheld]);
    free(pol->held);
    pol->held = NULL;
}

/* What the policy declares or makes hides a backend of the configuration with the same name. */
struct director *
policy_lookup_backend(struct policy *pol, struct slice name)
{
    for (unsigned i = 0; i < pol->nheld; i++)
        if (slice_eq(slice_str(director_name(pol->held[i])), name))
            return pol->held[i];
    /* Those of its own load: names of a later configuration mean nothing to it. */
    return snapshot_find(pol->snapshot, name);
}

/* --- vcl_init and vcl_fini --- */

static struct policy *
world_policy(const struct vcl_run *run)
{
    return ((const struct policy_ctx *)run->ctx)->policy;
}

static int
world_object_new(struct vcl_run *run, unsigned kind, const char *name, const struct vcl_value *args,
    unsigned present, void **out)
{
    static const enum director_kind kinds[VCL_OBJECT_COUNT] = {
        [VCL_OBJECT_ROUND_ROBIN] = DIRECTOR_ROUND_ROBIN,
        [VCL_OBJECT_FALLBACK] = DIRECTOR_FALLBACK,
        [VCL_OBJECT_RANDOM] = DIRECTOR_RANDOM,
        [VCL_OBJECT_HASH] = DIRECTOR_HASH,
        [VCL_OBJECT_SHARD] = DIRECTOR_SHARD,
        [VCL_OBJECT_LEAST] = DIRECTOR_LEAST,
    };
    struct director *d;
    int err;

    tassert(kind < ARRAY_LEN(kinds));
    err = director_new(&d, kinds[kind], name);
    (void)present;
    if (err != 0)
        return err;
    if (kind == VCL_OBJECT_FALLBACK)
        director_set_sticky(d, args[0].i != 0);
    /* At once: if vcl_init fails in its next line, policy_free() finds it here. */
    err = policy_hold(world_policy(run), d);
    if (err == 0)
        *out = d;
    return err;
}

/* These two errors follow from the text; others, such as no memory, are the host's own. */
static int
world_failed(struct vcl_run *run, int err)
{
    if (err == TERR_INVALID)
        return policy_fail(run, "add_backend: the director would contain itself, or the weight is "
                                "below 0");
    if (err == TERR_LIMIT)
        return policy_fail(run, "add_backend: too many backends, or too much weight");
    return err;
}

static struct director *
world_backend(const struct vcl_value *v)
{
    return (struct director *)(uintptr_t)v->p;
}

/* Adding and the like: what may be done in vcl_init alone. */
static int
world_method(struct vcl_run *run, void *object, unsigned method, const struct vcl_value *args,
    unsigned present, struct vcl_value *out)
{
    struct director *d = object;
    int err;

    tassert(world_policy(run) != NULL); /* a request has policy_host */
    out->i = 1;
    /* A backend that is declared `none` is NULL, as in Varnish. */
    if ((method == VCL_METHOD_ADD || method == VCL_METHOD_ADD_WEIGHT ||
            method == VCL_METHOD_ADD_SHARD) &&
        args[0].p == NULL)
        return policy_fail(run, "add_backend: the backend is none");
    switch (method) {
    case VCL_METHOD_ADD:
        return world_failed(run, director_add(d, world_backend(&args[0]), 1));
    case VCL_METHOD_ADD_WEIGHT:
        return world_failed(run, director_add(d, world_backend(&args[0]), args[1].r));
    case VCL_METHOD_ADD_SHARD:
        err = director_shard_add(d, world_backend(&args[0]),
            (present & 2) != 0 ? policy_string(&args[1]) : slice_of("", 0),
            (present & 4) != 0 ? args[2].r : -1, args[3].r);
        return world_failed(run, err);
    case VCL_METHOD_REMOVE:
        if (args[0].p != NULL)
            director_remove(d, world_backend(&args[0]));
        return 0;
    case VCL_METHOD_REMOVE_SHARD:
        out->i = args[0].p != NULL && director_remove(d, world_backend(&args[0])) == 0;
        return 0;
    case VCL_METHOD_STICKY:
        director_set_sticky(d, args[0].i != 0);
        return 0;
    case VCL_METHOD_SHARD_RECONFIGURE:
        return world_failed(run, director_shard_reconfigure(d, (unsigned)args[0].i));
    case VCL_METHOD_SHARD_CLEAR:
        director_shard_clear(d);
        return 0;
    /* As director_set_bound() asserts: a policy's mistake must not reach an assertion. */
    case VCL_METHOD_BALANCE:
        if (args[0].r != 0 && !(args[0].r > 1))
            return policy_fail(run, "set_balance_factor: a factor is above 1, or 0 for no bound");
        director_set_bound(d, args[0].r);
        return 0;
    case VCL_METHOD_SHARD_WARMUP:
        director_shard_set_warmup(d, args[0].r);
        return 0;
    case VCL_METHOD_SHARD_RAMPUP:
        director_shard_set_rampup(d, args[0].r);
        return 0;
    default:
        return policy_method(run, object, method, args, present, out);
    }
}

static uint64_t
world_random(struct vcl_run *run)
{
    (void)run;
    /* For choices in vcl_init alone: no secret hangs on it. */
    return (uint64_t)random() << 32 ^ (uint64_t)random();
}

const struct vcl_host policy_init_host = {
    .get = policy_var_get,
    .get_storage = policy_get_storage,
    .ban = policy_ban,
    .call = policy_call,
    .object_new = world_object_new,
    .method = world_method,
    .resolve = policy_resolve_now,
    .cookies = policy_cookies,
    .backend_name = policy_backend_name,
    .storage_name = policy_storage_name,
};

bool
policy_run_init(struct policy *pol, enum vcl_sub sub, struct vcl_run *run)
{
    struct policies *ps = pol->policies;
    const char *ban_error = "";
    struct clock clock = {.mono_ms = 0};
    struct policy_ctx ctx = {
        .policy = pol,
        .params = &policies_conf(ps)->params,
        /* Without one in a check (-t), and when the process ends: then ban() says that there is no
         * cache. */
        .cache = ps->cache,
        .clock = &clock,
        .ban_error = &ban_error,
    };
    struct arena_pool pool;
    struct arena arena;
    struct timespec now;
    enum vcl_action act;

    OBJ_CHECK(pol, POLICY_MAGIC);
    tassert(sub == VCL_SUB_INIT || sub == VCL_SUB_FINI);
    tassert(sub == VCL_SUB_FINI || !pol->discarded);
    /* A loop's clock stands in a turn: vcl_init may take long, so it has a clock of its own. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock.mono_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    clock_gettime(CLOCK_REALTIME, &now);
    clock.wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    /* Its own memory: the management thread has no worker's. */
    arena_pool_init(&pool, 0, NULL);
    arena_init(&arena, &pool);
    memset(run, 0, sizeof(*run));
    run->vcl = pol->vcl;
    run->host = &policy_init_host;
    run->ctx = &ctx;
    run->arena = &arena;
    run->now_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    run->random = world_random;
    act = vcl_run(run, sub);
    if (run->why != NULL) { /* it may lie in the arena */
        free((char *)(uintptr_t)pol->init_why);
        run->why = pol->init_why = strdup(run->why);
    }
    /* Behind the copy of `why`. */
    arena_fini(&arena);
    arena_pool_fini(&pool);
    return act == VCL_ACT_OK;
}
