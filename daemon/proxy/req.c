/* req.c -- one client request, from parsed head to last byte delivered. */
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/req_priv.h"

enum {
    IDLE_REQS_MAX = 256
}; /* memory kept for the next requests */

static bool
req_route_matches(const struct conf_route *route, struct slice host, struct slice path)
{
    size_t hl = strlen(route->host), pl = strlen(route->path);

    if (hl > 0 && (host.len < hl || memcmp(host.ptr, route->host, hl) != 0 ||
                      (host.len > hl && host.ptr[hl] != ':')))
        return false;
    return path.len >= pl && memcmp(path.ptr, route->path, pl) == 0;
}

static unsigned
req_route(const struct conf *conf, struct slice host, struct slice path)
{
    for (unsigned i = 0; i < conf->nroutes; i++)
        if (req_route_matches(&conf->routes[i], host, path))
            return conf->routes[i].backend;
    return conf->default_backend;
}

/* The authority's normal form into the key.  A worker's requests mostly name the same few
 * hosts, so the last one is remembered: comparing is a tenth of normalising. */
static int
req_normal_host(struct proxy *p, struct slice host, char *out)
{
    struct proxy_host *memo = &p->last_host;
    int n;

    if (host.len == memo->len && memcmp(host.ptr, memo->text, host.len) == 0) {
        memcpy(out, memo->normal, memo->normal_len);
        return (int)memo->normal_len;
    }
    n = http_authority_normal(host, HTTP_SCHEME_HTTP, (struct span){out, HTTP_AUTHORITY_MAX});
    if (n < 0 || host.len > sizeof(memo->text))
        return n;
    memcpy(memo->text, host.ptr, host.len);
    memcpy(memo->normal, out, (size_t)n);
    memo->len = host.len;
    memo->normal_len = (size_t)n;
    return n;
}

/* The key is "http://" authority path, the authority in normal form (RFC 9111 2): what is
 * keyed is what is forwarded. */
static int
req_make_key(struct req *r)
{
    struct http_head *h = &r->x->head;
    char *text = r->proxy->key_text, *p = text + 7;
    struct slice path = http_path(h);
    int n = h->host_len > 0 ? req_normal_host(r->proxy, http_host(h), p) : 0;

    if (n < 0)
        return n;
    memcpy(text, "http://", 7);
    r->host_at = 7;
    r->host_len = (size_t)n;
    memcpy(p + n, path.ptr, path.len);
    r->key_len = 7 + (size_t)n + path.len;
    return 0;
}

/* RECV -- who serves it, and how. */
static enum req_next
req_do_recv(struct req *r)
{
    struct http_head *h = &r->x->head;
    struct proxy *p = r->proxy;
    bool lookup;
    int err = r->x->err;

    if (err == 0)
        err = req_make_key(r);
    if (err != 0) {
        r->log_flags |= SHMLOG_REQ_BAD;
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    }
    if (h->method == HTTP_M_TRACE)
        return req_synth(r, 405, 0);
    r->backend = req_route(p->conf, slice_of(p->key_text + r->host_at, r->host_len), http_path(h));
    if (r->backend == CONF_NO_BACKEND)
        return req_synth(r, 503, TERR_NOTFOUND);
    /* A body has no meaning in a key, so what has one is passed (RFC 9110 9.3.1). */
    lookup = (h->method == HTTP_M_GET || h->method == HTTP_M_HEAD) && !r->x->has_body;
    if (!lookup)
        return req_goto(r, REQ_PASS);
    r->key = hash_bytes(p->key_text, r->key_len);
    return req_goto(r, REQ_LOOKUP);
}

static struct cache_query
req_query(const struct req *r)
{
    return (struct cache_query){
        .key = r->key, .req = &r->x->head, .now_ms = r->proxy->loop->clock.wall_ms};
}

/* LOOKUP -- ask the cache; again when what we waited for was not for us. */
static enum req_next
req_do_lookup(struct req *r)
{
    struct proxy *p = r->proxy;
    struct cache_query q = req_query(r);

    tassert(r->entry == NULL);
    switch (cache_lookup(p->cache, &q, &r->wait, &r->entry)) {
    case CACHE_HIT:
        r->log_flags |= SHMLOG_REQ_HIT;
        counter_add(p->counters, COUNTER_req_hit, 1);
        return req_goto(r, REQ_DELIVER);
    case CACHE_MISS:
        if (r->entry == NULL)
            return req_goto(r, REQ_PASS); /* no room: uncached */
        return req_goto(r, REQ_MISS);
    case CACHE_QUEUED:
        r->holds = true;
        r->log_flags |= SHMLOG_REQ_QUEUED;
        counter_add(p->counters, COUNTER_req_queued, 1);
        return req_goto(r, REQ_QUEUED);
    case CACHE_HITMISS:
        r->log_flags |= SHMLOG_REQ_HITMISS;
        counter_add(p->counters, COUNTER_req_hitmiss, 1);
        return req_goto(r, REQ_PASS);
    }
    TUNREACHABLE("cache verdict");
}

/* QUEUED -- the outcome of another request's fetch is ours too, if it is for us. */
static enum req_next
req_do_queued(struct req *r)
{
    struct cache_query q = req_query(r);
    int err;

    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    switch (entry_state(r->entry)) {
    case ENTRY_BUSY:
        if (!cache_wait(r->entry, &r->wait))
            return REQ_MORE;
        return REQ_WAIT;
    case ENTRY_READY:
        if (!cache_usable(r->entry, &q))
            break;
        r->collapsed = true;
        counter_add(r->proxy->counters, COUNTER_req_coalesced, 1);
        return req_goto(r, REQ_DELIVER);
    case ENTRY_FAILED:
        /* It failed while we waited: asking again would be one more failure, in line. */
        err = r->entry->err;
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_ORIGIN), err);
    case ENTRY_HITMISS:
        break;
    }
    r->holds = false;
    entry_drop(&r->entry);
    return req_goto(r, REQ_LOOKUP);
}

/* MISS -- ours is the fetch that the others wait for. */
static enum req_next
req_do_miss(struct req *r)
{
    struct proxy *p = r->proxy;
    struct fetch_spec spec = {.kind = FETCH_FOR_CACHE, .backend = r->backend, .entry = r->entry};
    int err = req_make_key(r); /* after a wait another's may be in the scratch */

    tassert(err == 0);
    spec.host = slice_of(p->key_text + r->host_at, r->host_len);
    spec.key_text = slice_of(p->key_text, r->key_len);
    r->holds = r->leader = r->asked_backend = true;
    r->log_flags |= SHMLOG_REQ_MISS;
    counter_add(p->counters, COUNTER_req_miss, 1);
    fetch_start(p, r->x, &spec);
    return req_goto(r, REQ_FETCH);
}

/* PASS -- for this client alone, body and all. */
static enum req_next
req_do_pass(struct req *r)
{
    struct proxy *p = r->proxy;
    struct fetch_spec spec = {.kind = FETCH_PASS, .backend = r->backend};

    r->entry = cache_private(p->cache);
    if (r->entry == NULL)
        return req_synth(r, 503, TERR_NOMEM);
    r->holds = r->leader = r->asked_backend = true;
    spec.entry = r->entry;
    if (req_make_key(r) != 0 || (r->x->has_body && req_open_upload(r) != 0)) {
        struct entry *fetchs = r->entry;

        entry_drop(&fetchs);
        return req_synth(r, 503, TERR_NOMEM);
    }
    spec.host = slice_of(p->key_text + r->host_at, r->host_len);
    if (r->upload != NULL) {
        spec.upload = stobj_ref(r->upload);
        spec.upload_length = r->x->body_length;
    }
    r->log_flags |= SHMLOG_REQ_PASS;
    counter_add(p->counters, COUNTER_req_pass, 1);
    fetch_start(p, r->x, &spec);
    return req_goto(r, REQ_FETCH);
}

/* FETCH -- until our fetch knows what came. */
static enum req_next
req_do_fetch(struct req *r)
{
    struct entry *own;
    int err;

    req_pump_upload(r);
    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    switch (entry_state(r->entry)) {
    case ENTRY_BUSY:
        if (!cache_wait(r->entry, &r->wait))
            return REQ_MORE;
        return REQ_WAIT;
    case ENTRY_READY:
        return req_goto(r, REQ_DELIVER);
    case ENTRY_FAILED:
        if (r->err != 0) /* our client's own fault: its upload could not be had */
            return req_synth(r, (unsigned)terr_http(r->err, TERR_SIDE_CLIENT), r->err);
        err = r->entry->err;
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_ORIGIN), err);
    case ENTRY_HITMISS:
        own = cache_take_handoff(r->entry);
        tassert(own != NULL);
        entry_drop(&r->entry);
        r->entry = own;
        r->log_flags = (r->log_flags & ~(unsigned)SHMLOG_REQ_MISS) | SHMLOG_REQ_PASS;
        return req_goto(r, REQ_DELIVER);
    }
    TUNREACHABLE("entry state");
}

static void
req_leave_entry(struct req *r)
{
    if (r->entry == NULL)
        return;
    if (r->leader) {
        struct entry *own =
            entry_state(r->entry) == ENTRY_HITMISS ? cache_take_handoff(r->entry) : NULL;

        entry_abandon(r->entry);
        if (own != NULL) {
            entry_abandon(own);
            entry_drop(&own);
        }
    }
    if (r->holds)
        entry_drop(&r->entry);
    r->entry = NULL;
    r->holds = false;
}

/* CLOSE -- cancel what we wait for, give back what we hold.  Runs again on every wake-up until
 * nothing is pending, so each line is safe to repeat. */
static enum req_next
req_do_close(struct req *r)
{
    bool clear = req_end_delivery(r);

    clear = req_end_upload(r) && clear;
    if (r->entry != NULL && waiter_state(&r->wait) == WAITER_ARMED)
        cache_cancel(r->entry, &r->wait);
    if (!clear || waiter_pending(&r->wait))
        return REQ_WAIT;
    if (r->x != NULL) {
        struct exchange *x = r->x;

        req_log(r);
        if (r->own_body)
            stobj_unref(&r->body);
        r->own_body = false;
        r->body = NULL;
        req_leave_entry(r);
        r->x = NULL;
        x->ops->release(x);
    }
    return REQ_WAIT;
}

#define TO(s) (1u << REQ_##s)
static const struct {
    const char *name;
    enum req_next (*run)(struct req *r);
    unsigned may_go;
} req_machine[REQ_STATES] = {
    /* clang-format off */
    [REQ_RECV]    = { "recv",    req_do_recv,    TO(LOOKUP) | TO(PASS) | TO(SYNTH) | TO(CLOSE) },
    [REQ_LOOKUP]  = { "lookup",  req_do_lookup,  TO(QUEUED) | TO(MISS) | TO(PASS) | TO(DELIVER) | TO(CLOSE) },
    [REQ_QUEUED]  = { "queued",  req_do_queued,  TO(LOOKUP) | TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_MISS]    = { "miss",    req_do_miss,    TO(FETCH) | TO(CLOSE) },
    [REQ_PASS]    = { "pass",    req_do_pass,    TO(FETCH) | TO(SYNTH) | TO(CLOSE) },
    [REQ_FETCH]   = { "fetch",   req_do_fetch,   TO(DELIVER) | TO(SYNTH) | TO(CLOSE) },
    [REQ_SYNTH]   = { "synth",   req_do_synth,   TO(DELIVER) | TO(CLOSE) },
    [REQ_DELIVER] = { "deliver", req_do_deliver, TO(CLOSE) },
    [REQ_CLOSE]   = { "close",   req_do_close,   0 },
    /* clang-format on */
};

enum req_next
req_goto(struct req *r, enum req_state next)
{
    tassert(req_machine[r->state].may_go & (1u << next));
    r->state = next;
    return REQ_MORE;
}

enum req_next
req_synth(struct req *r, unsigned status, int err)
{
    r->synth_status = (uint16_t)(status == 0 ? 503 : status);
    r->err = err;
    return req_goto(r, REQ_SYNTH);
}

/* The invariants of the state just entered. */
static void
req_check(const struct req *r)
{
    OBJ_CHECK(r, REQ_MAGIC);
    switch (r->state) {
    case REQ_RECV:
    case REQ_LOOKUP:
    case REQ_PASS:
        tassert(r->entry == NULL && !r->holds);
        break;
    case REQ_QUEUED:
    case REQ_FETCH:
        tassert(r->entry != NULL && r->holds);
        break;
    case REQ_MISS:
        tassert(r->entry != NULL);
        break;
    case REQ_SYNTH:
        tassert(r->synth_status >= 400);
        break;
    case REQ_DELIVER:
        tassert(r->entry != NULL || r->body != NULL);
        break;
    case REQ_CLOSE:
    case REQ_STATES:
        break;
    }
}

/* One step.  A lost client is handled here, so no handler has to. */
static enum req_next
req_step(struct req *r)
{
    if (r->state != REQ_CLOSE && r->x->gone)
        return req_goto(r, REQ_CLOSE);
    return req_machine[r->state].run(r);
}

static void
req_free(struct req *r)
{
    struct proxy *p = r->proxy;

    task_cancel(&r->task);
    OBJ_BURY(r);
    p->nreqs--;
    if (p->nidle_reqs < IDLE_REQS_MAX) {
        r->next_idle = p->idle_reqs;
        p->idle_reqs = r;
        p->nidle_reqs++;
    } else {
        free(r);
    }
    if (p->on_idle != NULL && proxy_is_idle(p))
        p->on_idle(p->on_idle_ctx);
}

/* Go as far as we can now.  A request is freed nowhere else. */
void
req_run(struct task *task)
{
    struct req *r = container_of(task, struct req, task);
    unsigned steps = 0;

    OBJ_CHECK(r, REQ_MAGIC);
    while (req_step(r) == REQ_MORE) {
        req_check(r);
        steps++;
        tassert(steps < LIMIT_REQ_STEPS);
    }
    if (r->state == REQ_CLOSE && r->x == NULL)
        req_free(r);
}

/* Set what a request reads before it writes; the arrays of leases are not touched. */
static struct req *
req_new(struct proxy *p)
{
    struct req *r = p->idle_reqs;

    if (r != NULL) {
        p->idle_reqs = r->next_idle;
        p->nidle_reqs--;
    } else {
        r = malloc(sizeof(*r));
    }
    if (r == NULL)
        return NULL;
    memset(r, 0, offsetof(struct req, ends));
    r->magic = REQ_MAGIC;
    r->proxy = p;
    task_init(&r->task, &p->loop->tasks, req_run);
    waiter_init(&r->wait, &r->task, &p->loop->inbox);
    waiter_init(&r->upload_room, &r->task, &p->loop->inbox);
    p->nreqs++;
    return r;
}

void
req_start(void *ctx, struct exchange *x)
{
    struct proxy *p = ctx;
    struct req *r;

    OBJ_CHECK(p, PROXY_MAGIC);
    r = req_new(p);
    if (r == NULL) {
        x->ops->abort(x); /* memory is out: not even an answer can be made */
        x->ops->release(x);
        return;
    }
    r->x = x;
    x->answerer = r;
    x->task = &r->task;
    req_run(&r->task);
}

void
proxy_init(struct proxy *p)
{
    p->magic = PROXY_MAGIC;
    list_init(&p->fetches);
}

bool
proxy_is_idle(const struct proxy *p)
{
    return p->nreqs == 0 && p->nfetches == 0;
}

void
proxy_fini(struct proxy *p)
{
    OBJ_CHECK(p, PROXY_MAGIC);
    tassert(proxy_is_idle(p));
    while (p->idle_reqs != NULL) {
        struct req *r = p->idle_reqs;

        p->idle_reqs = r->next_idle;
        free(r);
    }
    OBJ_BURY(p);
}
