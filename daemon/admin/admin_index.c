/* admin_index.c -- the index in numbers, and page by page.
 *
 * Both run on the management loop and are bounded: the histogram looks at a sample of the buckets
 * when there are many, and a page ends after so many keys or buckets.  Each is locked just long
 * enough to copy its slots.  What was copied stays readable until this turn ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/cache/entry.h"
#include "daemon/cache/negative.h"

enum {
    INDEX_SAMPLE = 32768, /* buckets of the histogram: two to three ms; all up to 2^18 slots */
    INDEX_PAGE = 100,     /* keys, unless asked for otherwise */
    INDEX_PAGE_MAX = 1000,
    INDEX_PAGE_BUCKETS = 16384, /* looked at for a page of an empty table */
};

static json_t *
index_number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* Relaxed loads of buckets that are in use: a histogram of roughly now.  `seen` tells a sample
 * from the whole. */
static json_t *
index_occupancy(const struct cache *cache, const struct cuckoo_stats *s)
{
    uint64_t buckets[CUCKOO_SLOTS_MAX + 1];
    size_t seen = cache_index_occupancy(cache, INDEX_SAMPLE, buckets);
    json_t *o = json_object(), *list = json_array();

    /* Full buckets included. */
    for (unsigned n = 0; n <= s->slots; n++)
        json_array_append_new(list, index_number(buckets[n]));
    json_put(o, "buckets", list);
    json_put(o, "seen", index_number(seen));
    return o;
}

static json_t *
index_growth(const struct cuckoo_stats *s)
{
    json_t *o = json_object();

    /* bits_max may be reached by doubling: that index was not fixed. */
    json_put(o, "fixed", json_boolean(s->bits_max == s->bits && s->doubled == 0));
    json_put(o, "at_load", json_real(CUCKOO_GROW_PERCENT / 100.0));
    json_put(o, "growing", json_boolean(s->growing));
    json_put(o, "split", index_number(s->split));
    json_put(o, "splitting", index_number(s->splitting));
    json_put(o, "doubled", index_number(s->doubled));
    json_put(o, "refused", index_number(s->refused));
    return o;
}

/* What does not exist; null: there is no such cache. */
static json_t *
index_negative(struct cache *cache)
{
    struct negative *n = cache_negative(cache);
    struct negative_stats s;
    json_t *o;

    if (n == NULL)
        return json_null();
    negative_get_stats(n, &s);
    o = json_object();
    json_put(o, "entries_max", index_number(s.entries_max));
    json_put(o, "entries", index_number(s.entries));
    json_put(o, "bytes", index_number(s.bytes));
    json_put(o, "inserts", index_number(s.inserts));
    json_put(o, "evicted", index_number(s.evicted));
    json_put(o, "removed", index_number(s.removed));
    json_put(o, "dropped", index_number(s.dropped));
    json_put(o, "generation", index_number(s.generation));
    return o;
}

/* Counters of the index are atomics: no lock is taken, whatever the workers are doing (invariant
 * 11). */
void
admin_do_index(struct admin_call *c)
{
    const struct cache *cache = c->admin->env.cache;
    json_t *o = json_object();
    struct cuckoo_stats s;

    cache_index_stats(cache, &s);
    json_put(o, "bits", json_integer(s.bits));
    json_put(o, "slots", json_integer(s.slots));
    json_put(o, "buckets", index_number(s.capacity / s.slots));
    json_put(o, "capacity", index_number(s.capacity));
    json_put(o, "entries", index_number(s.entries));
    json_put(o, "load", json_real(s.load));
    json_put(o, "bytes", index_number(s.bytes));
    json_put(o, "growth", index_growth(&s));
    json_put(o, "occupancy", index_occupancy(cache, &s));
    json_put(o, "displacements", index_number(s.paths));
    json_put(o, "moves", index_number(s.moved));
    json_put(o, "longest_path", index_number(s.path_max));
    json_put(o, "victims", index_number(s.evicted));
    json_put(o, "retried", index_number(s.retried));
    json_put(o, "locked", index_number(s.locked));
    json_put(o, "negative", index_negative(c->admin->env.cache));
    admin_answer(c, 200, o);
}

/* ---- pages ---- */

struct index_page {
    struct cuckoo_seen *rows; /* room for a bucket more than `limit` */
    size_t n, limit;
    uint64_t cursor;
};

static void
index_on_node(void *ctx, struct cuckoo_guard *g, const struct cuckoo_seen *seen)
{
    struct index_page *p = ctx;

    (void)g;
    /* Under the bucket's lock: copied, and made JSON without it (invariant 11). */
    p->rows[p->n++] = *seen;
}

static const char *
index_state_name(enum entry_state state)
{
    switch (state) {
    case ENTRY_BUSY:
        return "busy";
    case ENTRY_READY:
        return "ready";
    case ENTRY_HITMISS:
        return "hit-for-miss";
    case ENTRY_FAILED:
        return "failed";
    }
    TUNREACHABLE("entry_state");
}

static json_t *
index_url(const struct entry *e)
{
    struct slice scheme = entry_key_scheme(e), rest = entry_key_rest(e);
    size_t len = scheme.len + rest.len;
    char *text = len > 0 ? malloc(len) : NULL;
    json_t *url;

    if (text == NULL)
        return json_null();
    memcpy(mempcpy(text, scheme.ptr, scheme.len), rest.ptr, rest.len);
    url = json_any_text(slice_of(text, len));
    free(text);
    return url;
}

/* Another thread may fill it right now: what is not published is left out. */
static json_t *
index_entry(const struct entry *e, int64_t now_ms)
{
    /* Read once, with acquire: what was stored before the entry became READY is seen below.  A
     * second look could be of another state. */
    enum entry_state state = entry_state(e);
    json_t *o = json_object();

    json_put_text(
        o, "state", state == ENTRY_HITMISS && e->pass ? "hit-for-pass" : index_state_name(state));
    json_put(o, "hits", json_integer(entry_hits(e)));
    json_put(o, "uses", json_integer(evict_node_uses(&e->evict)));
    /* Its times are not set. */
    if (state != ENTRY_READY && state != ENTRY_HITMISS)
        return o;
    json_put(o, "age", json_integer(entry_age_s(e, now_ms)));
    json_put(o, "ttl", json_real((double)entry_ttl_left_ms(e, now_ms) / 1000));
    /* A marker has no block. */
    if (state != ENTRY_READY)
        return o;
    json_put(o, "url", index_url(e));
    json_put(o, "status", json_integer(entry_status(e)));
    json_put(o, "bytes", index_number(entry_bytes(e)));
    json_put(o, "vary", json_boolean(e->block->vary_len > 0));
    return o;
}

static json_t *
index_row(const struct cuckoo_seen *seen, int64_t now_ms)
{
    json_t *o = json_object(), *list = json_array();
    char text[64];

    json_put_text(o, "side", seen->side == 0 ? "A" : "B");
    json_put(o, "bucket", index_number(seen->bucket));
    json_put(o, "slot", json_integer(seen->slot));
    snprintf(text, sizeof(text), "%03x", seen->tag);
    json_put_text(o, "tag", text);
    snprintf(
        text, sizeof(text), "%016" PRIx64 "%016" PRIx64, seen->node->key.hi, seen->node->key.lo);
    json_put_text(o, "key", text);
    /* The node was copied under its lock, the entries behind it were not: RCU keeps those that
     * leave meanwhile until this turn ends. */
    for (const struct entry *e = cache_index_entry(seen->node); e != NULL; e = entry_next(e))
        json_array_append_new(list, index_entry(e, now_ms));
    json_put(o, "entries", list);
    return o;
}

/* Ends by the page's length, by the number of buckets, or at the index's end (cursor 0): a
 * nearly empty index of millions of buckets must not hold the management loop. */
static void
index_page_fill(struct index_page *p, const struct cache *cache)
{
    unsigned buckets = 0;

    /* Whole buckets: a cursor cannot stand within one, so a page may have some keys more. */
    do
        cache_index_next(cache, &p->cursor, index_on_node, p);
    while (p->cursor != 0 && p->n < p->limit && ++buckets < INDEX_PAGE_BUCKETS);
}

static json_t *
index_page_json(const struct index_page *p, int64_t now_ms)
{
    json_t *o = json_object(), *list = json_array();
    char next[24];

    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(list, index_row(&p->rows[i], now_ms));
    json_put(o, "keys", list);
    snprintf(next, sizeof(next), "%016" PRIx64, p->cursor);
    /* As text: a cursor has 64 bits, and JSON's numbers are often read as doubles. */
    json_put_text(o, "next", p->cursor != 0 ? next : NULL);
    return o;
}

/* What was asked for.  False: answered already. */
static bool
index_page_args(struct admin_call *c, struct index_page *p)
{
    static const struct admin_arg args[] = {
        {.name = "limit", .base = 10, .least = 1, .most = INDEX_PAGE_MAX},
        {.name = "after", .base = 16, .most = UINT64_MAX}, {.name = NULL}};
    uint64_t values[] = {INDEX_PAGE, 0};

    if (!admin_args(c, args, values))
        return false;
    p->limit = (size_t)values[0];
    p->cursor = values[1];
    return true;
}

void
admin_do_index_dump(struct admin_call *c)
{
    const struct admin_env *env = &c->admin->env;
    struct index_page p = {.n = 0};

    if (!index_page_args(c, &p))
        return;
    p.rows = calloc(p.limit + CUCKOO_SLOTS_MAX, sizeof(*p.rows));
    if (p.rows == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "a page");
        return;
    }
    /* In this turn: the nodes are read behind the locks, and are freed no sooner. */
    index_page_fill(&p, env->cache);
    admin_answer(c, 200, index_page_json(&p, (int64_t)env->loop->clock.mono_ms));
    free(p.rows);
}
