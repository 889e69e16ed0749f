/* admin_metrics.c -- every number there is, as JSON and for Prometheus. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/usage.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/elog.h"

/* One number.  Whatever is counted fits 63 bits but by mistake; then it shows as it is. */
typedef void metrics_each_f(
    void *ctx, const char *name, const char *doc, enum counter_kind kind, uint64_t value);

/* clang-format off */
/* What is not in the table of counters: name, kind, where it is, documentation. */
#define METRICS_STORAGE_TABLE(X)                                                                   \
    X(storage, size, GAUGE, size, "Bytes that the storage may use")                                \
    X(storage, used, GAUGE, charged, "Bytes in use: bodies, heads, index, all that grows")         \
    X(storage, objects, GAUGE, objects, "Bodies and parts of bodies stored now")                   \
    X(storage, allocs, COUNTER, allocs, "Times memory was taken from the storage")                 \
    X(storage, frees, COUNTER, frees, "Times memory was given back to it")                         \
    X(storage, failures, COUNTER, failures, "Times there was no room, even after evicting")        \
    X(storage, waits, COUNTER, waits, "Times a fetch had to wait for room")
#define METRICS_INDEX_TABLE(X)                                                                     \
    X(index, entries, GAUGE, entries, "Keys in the index")                                         \
    X(index, capacity, GAUGE, capacity, "Slots of the index")                                      \
    X(index, bytes, GAUGE, bytes, "Bytes of the index's table")                                    \
    X(index, growing, GAUGE, growing, "1 while it doubles, and two tables take memory")            \
    X(index, doubled, COUNTER, doubled, "Times it has doubled")                                    \
    X(index, refused, COUNTER, refused, "Times it was to double, and the storage had no room")     \
    X(index, moved, COUNTER, moved, "Keys moved to their other place to make room")                \
    X(index, retried, COUNTER, retried, "Lookups that looked again because something moved")       \
    X(index, locked, COUNTER, locked, "Lookups that ended under the locks")
/* clang-format on */

static void
metrics_each(const struct admin *a, metrics_each_f *each, void *ctx)
{
    struct storage_stats storage;
    struct cuckoo_stats index;

    for (unsigned i = 0; i < COUNTER_COUNT; i++) {
        enum counter id = (enum counter)i;

        each(ctx, counter_name(id), counter_doc(id), counter_kind(id),
            counters_sum(a->env.counters, id));
    }
    storage_get_stats(a->env.storage, &storage);
#define X(group, name, kind, member, doc) \
    each(ctx, #group "." #name, doc, COUNTER_KIND_##kind, storage.member);
    METRICS_STORAGE_TABLE(X)
#undef X
    each(ctx, "memory.total", "Bytes charged to the storage: the sum of the branches below",
        COUNTER_KIND_GAUGE, memory_total(&storage));
#define X(branch, doc) \
    each(ctx, "memory." #branch, doc, COUNTER_KIND_GAUGE, memory_of_branch(&storage, #branch));
    CHARGE_BRANCH_TABLE(X)
#undef X
#define X(id, branch, name, doc) \
    each(ctx, "memory." #branch "." #name, doc, COUNTER_KIND_GAUGE, storage.leaf[CHARGE_##id]);
    CHARGE_TABLE(X)
#undef X
    each(ctx, "memory.resident", "Bytes of the process in memory, by the kernel's count",
        COUNTER_KIND_GAUGE, usage_resident());
    cache_index_stats(a->env.cache, &index);
#define X(group, name, kind, member, doc) \
    each(ctx, #group "." #name, doc, COUNTER_KIND_##kind, (uint64_t)index.member);
    METRICS_INDEX_TABLE(X)
#undef X
    each(ctx, "sess.open", "Client connections open now", COUNTER_KIND_GAUGE,
        (uint64_t)a->env.host->connections(a->env.host_ctx));
    each(ctx, "log.dropped", "Lines of the error log dropped by log_rate", COUNTER_KIND_COUNTER,
        elog_dropped());
}

static void
metrics_to_json(
    void *ctx, const char *name, const char *doc, enum counter_kind kind, uint64_t value)
{
    (void)doc, (void)kind;
    json_put(ctx, name, json_integer((json_int_t)value));
}

void
admin_do_counters(struct admin_call *c)
{
    json_t *o = json_object();

    metrics_each(c->admin, metrics_to_json, o);
    admin_answer(c, 200, o);
}

static void
metrics_to_prometheus(
    void *ctx, const char *name, const char *doc, enum counter_kind kind, uint64_t value)
{
    FILE *to = ctx;
    char flat[64];

    snprintf(flat, sizeof(flat), "tarn_%s", name);
    for (char *p = flat; *p != '\0'; p++)
        if (*p == '.')
            *p = '_';
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", flat, doc, flat,
        kind == COUNTER_KIND_GAUGE ? "gauge" : "counter", flat, value);
}

void
admin_do_metrics(struct admin_call *c)
{
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    if (to != NULL) {
        metrics_each(c->admin, metrics_to_prometheus, to);
        if (fclose(to) != 0) {
            free(text);
            text = NULL;
        }
    }
    if (text == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "counters");
        return;
    }
    c->status = 200;
    c->text = text;
    c->type = "text/plain; version=0.0.4; charset=utf-8";
}
