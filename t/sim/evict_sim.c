/* evict_sim.c -- tarn_evict_sim: what daemon/cache/evict_queue.c would have kept of a trace.
 *
 *     tarn_evict_sim [--policy NAME|all] [--bytes N|N%] [--largest N%] [--ids] [--json] [--print]
 *                    [FILE]
 *
 * FILE (default: stdin) has lines of "KEY SIZE", or of "TIME KEY SIZE" as the AdaptSize paper's
 * sample; with --ids it is big-endian 32-bit ids, which get sizes.  N% is of the bytes of all
 * objects.  Objects above --largest of the cache are not kept; default: a tenth, as max_object_size
 * has it.  --print prints the trace as lines of "KEY SIZE" instead, keys being numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cache/evict_queue.h"
#include "t/sim/evict_sim.h"

enum {
    SIM_BATCH = 64,         /* as evict.c takes them */
    SIM_GHOST_BYTES = 4096, /* of the cache for each ghost, likewise */
};

struct sim_options {
    const char *policy, *bytes, *file;
    double largest; /* percent of the cache */
    enum sim_format format;
    bool json, print;
};

struct sim_cache {
    struct evict_queue queue;
    struct evict_node *nodes; /* by object */
    struct evict_ghost *ghosts;
    uint64_t bytes, used;
};

static void
sim_make_room(struct sim_cache *c, uint32_t size, struct sim_result *out)
{
    struct evict_node *victims[SIM_BATCH];

    while (c->used + size > c->bytes) {
        uint64_t looks = c->queue.looks;
        unsigned n = evict_queue_pick(&c->queue, c->used + size - c->bytes, victims, SIM_BATCH);

        for (unsigned i = 0; i < n; i++) {
            c->used -= victims[i]->size;
            evict_node_init(victims[i]);
        }
        out->evicted += n;
        if (c->queue.looks - looks > out->most_looks)
            out->most_looks = c->queue.looks - looks;
    }
    if (c->bytes - size - c->used > out->over)
        out->over = c->bytes - size - c->used;
}

static void
sim_run(const struct sim_trace *t, enum evict_policy policy, uint64_t bytes, uint64_t largest,
    struct sim_result *out)
{
    size_t nghosts = bytes / SIM_GHOST_BYTES + EVICT_GHOST_BUCKET;
    struct sim_cache c = {.bytes = bytes};

    *out = (struct sim_result){.hits = 0};
    c.nodes = sim_alloc(NULL, t->objects, sizeof(*c.nodes));
    c.ghosts = sim_alloc(NULL, nghosts, sizeof(*c.ghosts));
    memset(c.ghosts, 0, nghosts * sizeof(*c.ghosts));
    for (size_t i = 0; i < t->objects; i++)
        evict_node_init(&c.nodes[i]);
    evict_queue_init(&c.queue, policy, bytes, c.ghosts, nghosts);
    for (size_t i = 0; i < t->count; i++) {
        const struct sim_request *r = &t->requests[i];
        struct evict_node *n = &c.nodes[r->object];

        out->bytes += r->size;
        if (n->where != EVICT_OUT) {
            out->hits++;
            out->hit_bytes += r->size;
            evict_node_use(n, (uint32_t)i + 1);
            continue;
        }
        if (r->size > largest)
            continue;
        if (c.used + r->size > bytes)
            sim_make_room(&c, r->size, out);
        n->hash = t->hashes[r->object];
        n->size = r->size;
        evict_queue_add(&c.queue, n, (uint32_t)i + 1);
        c.used += r->size;
    }
    out->ghost_hits = c.queue.ghost_hits;
    out->looks = c.queue.looks;
    free(c.nodes);
    free(c.ghosts);
}

static void
sim_report(const struct sim_options *o, const struct sim_trace *t, const char *policy,
    uint64_t bytes, const struct sim_result *r)
{
    double objects = 100.0 * (double)r->hits / (double)t->count;
    double share = 100.0 * (double)r->hit_bytes / (double)r->bytes;

    if (o->json)
        printf("{\"policy\": \"%s\", \"bytes\": %" PRIu64 ", \"requests\": %zu, \"hits\": %" PRIu64
               ", \"hit_percent\": %.3f, \"byte_hit_percent\": %.3f, \"evicted\": %" PRIu64
               ", \"ghost_hits\": %" PRIu64 ", \"looks\": %" PRIu64 ", \"most_looks\": %" PRIu64
               ", \"most_over\": %" PRIu64 "}\n",
            policy, bytes, t->count, r->hits, objects, share, r->evicted, r->ghost_hits, r->looks,
            r->most_looks, r->over);
    else
        printf("%-8s %14" PRIu64 " bytes  %6.2f %% of the requests  %6.2f %% of the bytes\n",
            policy, bytes, objects, share);
}

/* False: there is no such policy, which was said. */
static bool
sim_policy(const struct sim_options *o, const struct sim_trace *t, const char *name, uint64_t bytes)
{
    enum evict_policy policy;
    struct sim_result r;
    uint64_t largest = (uint64_t)((double)bytes * o->largest / 100.0);

    if (strcmp(name, "belady") == 0)
        sim_belady(t, bytes, largest, &r);
    else if (evict_policy_of(name, &policy))
        sim_run(t, policy, bytes, largest, &r);
    else {
        fprintf(stderr, "tarn_evict_sim: no policy '%s': s3-fifo, lru, sieve, belady, all\n", name);
        return false;
    }
    sim_report(o, t, name, bytes, &r);
    return true;
}

/* "N%", or N: a larger object than the cache has no room to be made for it.  0: that is none. */
static double
sim_share(const char *text)
{
    char *end;
    double n = strtod(text, &end);

    if (end == text || (*end != '\0' && strcmp(end, "%") != 0) || !(n > 0) || n > 100)
        return 0;
    return n;
}

static bool
sim_options(struct sim_options *o, int argc, char **argv)
{
    *o = (struct sim_options){.policy = "all", .bytes = "1%", .largest = 10.0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--policy") == 0 && i + 1 < argc)
            o->policy = argv[++i];
        else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
            o->bytes = argv[++i];
        else if (strcmp(argv[i], "--largest") == 0 && i + 1 < argc)
            o->largest = sim_share(argv[++i]);
        else if (strcmp(argv[i], "--ids") == 0)
            o->format = SIM_IDS;
        else if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (strcmp(argv[i], "--print") == 0)
            o->print = true;
        else if (o->file == NULL && argv[i][0] != '-')
            o->file = argv[i];
        else
            return false;
    }
    return true;
}

/* 0: that is no size. */
static uint64_t
sim_bytes(const char *text, const struct sim_trace *t)
{
    char *end;
    double n = strtod(text, &end);

    if (!(n > 0) || n > 1e18)
        return 0;
    if (strcmp(end, "%") == 0)
        return (uint64_t)((double)t->distinct_bytes * n / 100.0);
    return *end == '\0' ? (uint64_t)n : 0;
}

int
main(int argc, char **argv)
{
    static const char *const all[] = {"lru", "sieve", "s3-fifo", "belady"};
    struct sim_options o;
    struct sim_trace t = {.count = 0};
    FILE *from = stdin;
    uint64_t bytes;
    bool good;

    if (!sim_options(&o, argc, argv)) {
        fputs("usage: tarn_evict_sim [--policy s3-fifo|lru|sieve|belady|all] [--bytes N|N%]\n"
              "                      [--largest N%] [--ids] [--json] [--print] [FILE]\n",
            stderr);
        return 2;
    }
    if (o.largest <= 0) {
        fputs("tarn_evict_sim: --largest is a share of the cache: above 0%, and 100% at most\n",
            stderr);
        return 2;
    }
    if (o.file != NULL && (from = fopen(o.file, "rb")) == NULL) {
        perror(o.file);
        return 1;
    }
    good = sim_read(&t, from, o.format);
    bytes = good ? sim_bytes(o.bytes, &t) : 0;
    for (size_t i = 0; good && o.print && i < t.count; i++)
        printf("%" PRIu32 " %" PRIu32 "\n", t.requests[i].object + 1, t.requests[i].size);
    if (good && !o.print && bytes == 0) {
        fprintf(stderr, "tarn_evict_sim: '%s' is no size\n", o.bytes);
        good = false;
    }
    for (size_t i = 0; good && !o.print && i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(o.policy, "all") == 0)
            good = sim_policy(&o, &t, all[i], bytes);
    if (good && !o.print && strcmp(o.policy, "all") != 0)
        good = sim_policy(&o, &t, o.policy, bytes);
    sim_free(&t);
    if (from != stdin)
        fclose(from);
    return good ? 0 : 1;
}
