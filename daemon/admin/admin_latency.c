/* admin_latency.c -- how long requests took, and how late loops were, as JSON. */
#include "daemon/admin/admin_priv.h"

static void
latency_put(json_t *o, const char *name, uint64_t us)
{
    /* The last bucket has no upper end. */
    json_put(o, name, json_integer(us > INT64_MAX ? INT64_MAX : (json_int_t)us));
}

/* [from, to, how many], in microseconds; those with none are left out. */
static json_t *
latency_buckets(const struct latency_seen *seen)
{
    json_t *list = json_array();

    for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        uint64_t to = latency_floor(b + 1);

        if (seen->bucket[b] > 0)
            json_array_append_new(list, json_pack("[III]", (json_int_t)latency_floor(b),
                                            to > INT64_MAX ? (json_int_t)INT64_MAX : (json_int_t)to,
                                            (json_int_t)seen->bucket[b]));
    }
    return list;
}

/* Quantiles are computed from the buckets of this one reading, so they agree with `count` and
 * `buckets` of the same answer. */
static json_t *
latency_json(const struct latency_seen *seen)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}};
    json_t *o = json_object();

    latency_put(o, "count", seen->count);
    latency_put(o, "sum_us", seen->sum_us);
    for (unsigned i = 0; i < ARRAY_LEN(shares); i++)
        /* Of nothing there is no quantile: null, and not a 0 that looks fast. */
        if (seen->count > 0)
            latency_put(o, shares[i].name, latency_quantile(seen, shares[i].share));
        else
            json_put(o, shares[i].name, json_null());
    json_put(o, "buckets", latency_buckets(seen));
    return o;
}

static json_t *
latency_worker_json(const struct latency *l, unsigned worker)
{
    struct latency_seen seen;
    json_t *o;

    latency_see(l, worker, LATENCY_lag, &seen);
    o = latency_json(&seen);
    latency_put(o, "last_us", seen.last_us);
    latency_put(o, "max_us", seen.max_us);
    return o;
}

/* Requests are summed over the workers; lag is not: one loop that hangs would disappear in the
 * mean of the others. */
void
admin_do_latency(struct admin_call *c)
{
    const struct latency *l = c->admin->env.latency;
    json_t *o = json_object(), *requests = json_object(), *lag = json_array();
    struct latency_seen seen;

    for (unsigned k = 0; k < LATENCY_REQUESTS; k++) {
        latency_see(l, LATENCY_ALL, (enum latency_kind)k, &seen);
        json_put(requests, latency_name((enum latency_kind)k), latency_json(&seen));
    }
    for (unsigned i = 0; i < latency_workers(l); i++)
        json_array_append_new(lag, latency_worker_json(l, i));
    json_put(o, "requests", requests);
    json_put(o, "lag", lag);
    admin_answer(c, 200, o);
}
