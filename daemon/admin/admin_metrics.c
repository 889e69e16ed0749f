/* admin_metrics.c -- every number there is, as JSON. */
#include "daemon/admin/admin_priv.h"
#include "daemon/base/usage.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"

/* clang-format off */
/* What is not in the table of counters: name, kind, where it is, unit for Prometheus, documentation. */
#define METRICS_STORAGE_TABLE(X)                                                                   \
    X(storage, size, GAUGE, size, "_bytes", "Bytes that the storage may use")                      \
    X(storage, used, GAUGE, charged, "_bytes", "Bytes in use: bodies, heads, index, all charged memory") \
    X(storage, objects, GAUGE, objects, "", "Bodies and parts of bodies stored now")               \
    X(storage, allocs, COUNTER, allocs, "", "Allocations from the storage")             \
    X(storage, frees, COUNTER, frees, "", "Releases to the storage")                     \
    X(storage, failures, COUNTER, failures, "", "Failed allocations, even after eviction")    \
    X(storage, waits, COUNTER, waits, "", "Times a fetch had to wait for room")
#define METRICS_INDEX_TABLE(X)                                                                     \
    X(index, entries, GAUGE, entries, "", "Keys in the index")                                     \
    X(index, capacity, GAUGE, capacity, "", "Slots of the index")                                  \
    X(index, bytes, GAUGE, bytes, "", "Bytes of the index")                                \
    X(index, growing, GAUGE, growing, "", "1 while it doubles, and two tables take memory")        \
    X(index, doubled, COUNTER, doubled, "", "Times it has doubled")                                \
    X(index, refused, COUNTER, refused, "", "Times the storage had no room for it to double") \
    X(index, moved, COUNTER, moved, "", "Keys moved to their other bucket to make room")            \
    X(index, retried, COUNTER, retried, "", "Lookups repeated because a key moved")   \
    X(index, locked, COUNTER, locked, "", "Lookups that ended under the locks")
/* clang-format on */

/* The one list behind /v1/counters and /metrics: what is added to a table is in both, under the
 * same name.  Names are an interface (alerts use them): a row may be added, and not renamed. */
void
admin_each_number(const struct admin *a, admin_number_f *each, void *ctx)
{
    struct storage_stats storage;
    struct cuckoo_stats index;

    for (unsigned i = 0; i < COUNTER_COUNT; i++) {
        enum counter id = (enum counter)i;

        each(ctx, &(struct admin_number){counter_name(id), "", counter_doc(id), counter_kind(id),
                      counters_sum(a->env.counters, id)});
    }
    /* Once for all rows: they fit together. */
    storage_get_stats(a->env.storage, &storage);
    cache_index_stats(a->env.cache, &index);
#define X(group, name, kind, member, unit, doc) \
    each(ctx, &(struct admin_number){           \
                  #group "." #name, unit, doc, COUNTER_KIND_##kind, (uint64_t)group.member});
    METRICS_STORAGE_TABLE(X)
    METRICS_INDEX_TABLE(X)
#undef X
    each(ctx, &(struct admin_number){"sess.open", "", "Client connections open now",
                  COUNTER_KIND_GAUGE, (uint64_t)a->env.host->connections(a->env.host_ctx)});
    each(
        ctx, &(struct admin_number){"log.dropped", "", "Lines of the error log dropped by log_rate",
                 COUNTER_KIND_COUNTER, elog_dropped()});
}

/* Whatever is counted fits 63 bits but by mistake; then it shows as it is. */
static void
metrics_put(json_t *o, const char *name, uint64_t value)
{
    json_put(o, name, json_integer((json_int_t)value));
}

static void
metrics_on_number(void *ctx, const struct admin_number *n)
{
    metrics_put(ctx, n->name, n->value);
}

/* The tree of memory, flat; all of one snapshot. */
static void
metrics_put_memory(const struct admin *a, json_t *o)
{
    struct storage_stats s;

    storage_get_stats(a->env.storage, &s);
    metrics_put(o, "memory.total", memory_total(&s));
#define X(branch, doc) metrics_put(o, "memory." #branch, memory_of_branch(&s, #branch));
    CHARGE_BRANCH_TABLE(X)
#undef X
#define X(id, branch, name, doc) metrics_put(o, "memory." #branch "." #name, s.leaf[CHARGE_##id]);
    CHARGE_TABLE(X)
#undef X
    metrics_put(o, "memory.resident", usage_resident());
    metrics_put(o, "memory.sockets", usage_sockets());
}

void
admin_do_counters(struct admin_call *c)
{
    json_t *o = json_object();

    admin_each_number(c->admin, metrics_on_number, o);
    metrics_put_memory(c->admin, o);
    admin_answer(c, 200, o);
}
