/* req_limit.c -- clients that ask too often: limits of the configuration, and tarn.rate_limit. */
#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/rates.h"
#include "daemon/proxy/req_priv.h"

enum {
    LIMIT_RETRY_MAX_S = 65535
};

/* The counted address: of IPv6 the network that one customer has, RFC 6177. */
static struct hash128
limit_key(unsigned number, const struct rate_rule *rule, const uint8_t addr[16])
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    struct {
        uint64_t what, number;
        struct rate_rule rule; /* another one after a reload is another bucket */
        uint8_t addr[16];
    } key = {.what = OBJ_TAG('l', 'i', 'm', 't'), .number = number, .rule = *rule};

    memcpy(key.addr, addr, sizeof(key.addr));
    if (memcmp(addr, v4, sizeof(v4)) != 0)
        memset(key.addr + 8, 0, 8);
    return hash_bytes(&key, sizeof(key));
}

/* Host without its port, in any case; path by its beginning. */
static bool
limit_matches(const struct conf_limit *c, const struct http_message *h, struct slice normal)
{
    struct slice host = http_host(h), path = http_path(h);
    size_t hl = strlen(c->host);

    if (hl > 0 && (host.len < hl || (host.len > hl && host.ptr[hl] != ':') ||
                      !slice_eq_nocase(slice_of(host.ptr, hl), slice_of(c->host, hl))))
        return false;
    return req_path_begins(path, c->path) || (normal.len > 0 && req_path_begins(normal, c->path));
}

static unsigned
limit_seconds(uint64_t wait_us)
{
    uint64_t s = (wait_us + 999999) / 1000000;

    return s > LIMIT_RETRY_MAX_S ? LIMIT_RETRY_MAX_S : (unsigned)s;
}

const struct conf_limit *
req_limit_from(const struct req *r, unsigned *at)
{
    const struct req_rules *rules = req_rules(r);
    /* Limits and routes of one configuration: another may come into force meanwhile. */
    const struct conf *conf =
        snapshot_conf(rules != NULL ? rules->snapshot : registry_snapshot(r->proxy->registry));
    uint64_t named = rules != NULL ? rules->route->limits : 0;
    struct slice path = http_path(r->head), normal = {NULL, 0};

    tassert_slow(conf->nlimits <= 64); /* `named` has a bit for each */
    if (*at < conf->nlimits && !req_path_is_plain(path)) {
        char *room = arena_alloc(&r->x->arena, path.len + 2);

        if (room != NULL) /* else as it is written */
            normal = req_path_normal(path, room);
    }
    for (; *at < conf->nlimits; (*at)++) {
        const struct conf_limit *l = &conf->limits[*at];

        if (l->name[0] != '\0' ? (named >> *at & 1) != 0 : limit_matches(l, r->head, normal))
            return l;
    }
    return NULL;
}

void
req_check_limits(struct req *r)
{
    struct proxy *p = r->proxy;
    const uint8_t *addr = r->x->conn->client_addr;
    const struct conf_limit *l;
    uint64_t longest = 0;

    for (unsigned i = 0; (l = req_limit_from(r, &i)) != NULL; i++) {
        struct rate_rule rule;
        uint64_t wait;

        if (address_in(&l->except.set, addr) ||
            !rate_rule_make(&rule, (uint64_t)l->rate, (uint64_t)l->per * 1000, (uint64_t)l->burst))
            continue; /* the loader lets no rule through that is none */
        /* No return at the first that refuses: every limit that matches counts the request (README
         * 26). */
        wait = rates_take(
            p->rates, &rule, limit_key(i, &rule, addr), p->loop->clock.mono_us, p->counters);
        longest = wait > longest ? wait : longest;
    }
    if (longest == 0)
        return;
    counter_add(p->counters, COUNTER_req_limited, 1);
    tassert(r->synth_status == 0); /* nothing has answered it yet */
    /* The longest: a client that waits less would be refused again, by another limit. */
    r->retry_after_s = (uint16_t)limit_seconds(longest);
    req_synth(r, 429, 0);
}

/* tarn.rate_limit(key, rate, per, burst): is this one too many?  An invalid rule
 * limits no client. */
int
policy_rate_limit(struct vcl_run *r, const struct vcl_value *args, struct vcl_value *out)
{
    const struct policy_ctx *ctx = r->ctx;
    struct slice text = policy_string(&args[0]);
    struct rate_rule rule;
    struct {
        uint64_t what;
        struct rate_rule rule;
        struct hash128 text;
    } key = {.what = OBJ_TAG('v', 'c', 'l', ' ')};

    out->i = 0;
    /* vcl_init and vcl_fini have no client to limit. */
    if (ctx->proxy == NULL || ctx->proxy->rates == NULL)
        return 0;
    if (args[1].i <= 0 || args[3].i < 0 || !(args[2].r > 0) || args[2].r > 604800 ||
        !rate_rule_make(
            &rule, (uint64_t)args[1].i, (uint64_t)(args[2].r * 1e6), (uint64_t)args[3].i))
        return policy_fail(r, "tarn.rate_limit: the rate is to be at least 1 and at most one a "
                              "microsecond, and the burst to be earned again within 7d");
    /* With the rule, as in limit_key(): a policy that changes it begins with full buckets. */
    key.rule = rule;
    key.text = hash_bytes(text.ptr != NULL ? text.ptr : "", text.len);
    out->i = rates_take(ctx->proxy->rates, &rule, hash_bytes(&key, sizeof(key)),
                 ctx->proxy->loop->clock.mono_us, ctx->proxy->counters) > 0;
    return 0;
}
