/* fetch_start.c -- a fetch begins and ends. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/http/cdn_loop.h"
#include "daemon/http/forward.h"
#include "daemon/log/elog.h"
#include "daemon/net/proxy_header.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_policy.h"

void
fetch_deadline(struct fetch *f, int64_t after_ms)
{
    /* One timer for all states: each sets it anew, or clears it, when it is entered. */
    timer_set(&f->proxy->loop->wheel, &f->timer, loop_deadline(f->proxy->loop, after_ms));
}

/* Of the request as it came: no policy hides a loop (README 28).  Two nodes of the fleet with one name (loop_token) are one
 * hop. */
static struct slice
start_cdn_loop(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec)
{
    struct slice came = http_get_one(&x->head, HTTP_F_CDN_LOOP);

    if (spec->hop && came.ptr != NULL && cdn_loop_is_last(&x->head, f->proxy->loop_id))
        return arena_copy(&f->arena, came);
    return cdn_loop_extend(&x->head, f->proxy->loop_id, &f->arena);
}

/* The request must outlive its client: its bytes and fields are copied.  Nothing of the exchange is
 * read afterwards. */
static int
fetch_copy_request(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec)
{
    const struct http_message *h = spec->head;
    size_t fields = h->nfields * sizeof(struct http_field);
    char *bytes = arena_alloc(&f->arena, (size_t)h->len + 1);
    struct http_field *copy = arena_alloc(&f->arena, fields + 1);
    enum proxy_forwards forwards = spec->edited ? FORWARDS_NONE : f->proxy->forwards;
    char id[24];

    if (bytes == NULL || copy == NULL)
        return TERR_NOMEM;
    /* Fields are offsets from `base`, so they are good in the copy as they are. */
    memcpy(bytes, h->base, h->len);
    memcpy(copy, h->fields, fields);
    f->req = *h;
    f->req.base = bytes;
    f->req.fields = copy;
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)x->xid);
    f->scheme = x->scheme;
    f->host = arena_copy(&f->arena, spec->host);
    f->key_text = arena_copy(&f->arena, spec->key_text);
    f->client = f->forwarded = slice_of("", 0);
    if ((forwards & FORWARDS_X_FORWARDED_FOR) != 0)
        f->client = req_forwarded(x, &f->arena, false);
    if ((forwards & FORWARDS_FORWARDED) != 0)
        f->forwarded = req_forwarded(x, &f->arena, true);
    f->id = arena_copy(&f->arena, slice_str(id));
    f->cdn_loop = start_cdn_loop(f, x, spec);
    if (f->host.ptr == NULL || f->key_text.ptr == NULL || f->client.ptr == NULL ||
        f->forwarded.ptr == NULL || f->id.ptr == NULL || f->cdn_loop.ptr == NULL)
        return TERR_NOMEM;
    return 0;
}

/* What is said as Accept-Encoding.  NULL: what the client takes.  Parts of a packed body are of no use. */
static const struct slice *
fetch_codings(const struct fetch *f)
{
    static const struct slice none = {"", 0};

    if (f->compress == CONF_COMPRESS_OFF || f->kind == FETCH_PASS)
        return NULL;
    return f->ranged ? &none : &fetch_gzip;
}

/* f->req as the backend gets it, in the arena.  Written again for another member of a director,
 * which may want another Host. */
int
fetch_write_request(struct fetch *f, struct http_message *out)
{
    const struct conf_params *params = &f->proxy->params;
    bool pass = f->kind == FETCH_PASS;
    struct forward_request how = {
        .mode = pass ? FORWARD_PASS : FORWARD_FETCH,
        .scheme = f->scheme,
        .host = f->conf != NULL && f->conf->host_header[0] != '\0' ? slice_str(f->conf->host_header)
                                                                   : f->host,
        .client_address = f->client,
        .forwarded = f->forwarded,
        .pseudonym = slice_str(params->http_via),
        .esi = f->by_esi,
        .cdn_loop = f->cdn_loop,
        .keep = params->keep_client_fields,
        .id_name = slice_str(params->request_id_header),
        .id_value = f->id,
        .range = f->range,
        .if_range = f->if_range,
        .codings = fetch_codings(f),
    };

    if (fetch_hops(f))
        fetch_hop_say(f, &how);
    if (f->conditional) {
        how.if_none_match = f->have.etag;
        how.if_modified_since = f->have.last_modified;
    }
    return forward_request(&f->req, &how, &f->arena, out);
}

bool
fetch_has_listener(const struct fetch *f)
{
    /* Then listener.ctx points to memory of another request by now.  Either entry may be the one
     * that it led. */
    bool gone = f->entry->abandoned || (f->shared != NULL && f->shared->abandoned);

    return f->listener.ops != NULL && !gone;
}

void
fetch_arrive(struct fetch *f)
{
    tassert(!f->expected || f->backend != NULL);
    if (f->expected)
        backend_unexpect(f->backend);
    f->expected = false;
}

/* It may go before the fetch does: a configuration or a policy that is replaced. */
static void
fetch_keep_from(struct fetch *f, struct director *from)
{
    struct director *had = f->from;

    /* Held before the old one is dropped: it may be the same one. */
    f->from = from != NULL && director_tries_others(from) ? director_hold(from) : NULL;
    if (had != NULL)
        director_drop(&had);
}

struct backend *
fetch_choose(struct fetch *f, struct director *from)
{
    struct director_ask ask = {
        .hash = hash_plain(f->key_text.ptr, f->key_text.len),
        /* The same key goes to the same member, whichever worker asks. */
        .hash_said = true,
        .random = proxy_random(f->proxy),
        .now_s = (double)f->proxy->loop->clock.wall_ms / 1000,
        .avoid = f->attempt.tried,
        .navoid = f->attempt.ntried,
    };

    tassert(f->attempt.ntried <= FETCH_TRIED_MAX);
    return from == NULL ? NULL : director_pick(from, &ask);
}

/* The backend stays valid as long as the fetch runs: a reload may take it out of the configuration
 * meanwhile. */
void
fetch_use(struct fetch *f, struct backend *b, struct director *from)
{
    /* First: `b` may be the backend that is dropped below, and that hold its last one. */
    director_hold(backend_director(b));
    if (f->backend != NULL) {
        struct director *held = backend_director(f->backend);

        fetch_arrive(f);
        director_drop(&held);
    }
    f->backend = b;
    f->expected = true;
    /* It counts as load from the choice on: else all fetches of a moment would choose the same idle
     * backend. */
    backend_expect(b);
    fetch_keep_from(f, from);
    f->conf = backend_conf(b);
    if (fetch_has_listener(f))
        f->listener.ops->backend(f->listener.ctx, backend_number(b) + 1);
}

/* An answer of 503 is not enough: which part of the configuration is missing? */
static void
fetch_say_no_backend(const struct fetch *f)
{
    struct slice host = http_host(&f->req), path = http_path(&f->req);

    /* Cut at 255 bytes each: the client chooses how long they are. */
    elog(ELOG_WARN,
        "no backend: host=%.*s path=%.*s: %sno route matches, and there is no default: 503",
        (int)(host.len < 255 ? host.len : 255), host.ptr, (int)(path.len < 255 ? path.len : 255),
        path.ptr, f->vcl != NULL ? "the policy sets none, " : "");
}

int
fetch_pick(struct fetch *f, struct director *from)
{
    struct backend *b = fetch_choose(f, from);

    if (from == NULL)
        fetch_say_no_backend(f);
    if (b == NULL)
        return TERR_NOBACKEND;
    fetch_use(f, b, from);
    return 0;
}

bool
fetch_elsewhere(struct fetch *f)
{
    struct backend *b;

    if (f->from == NULL || f->attempt.ntried == FETCH_TRIED_MAX)
        return false;
    f->attempt.tried[f->attempt.ntried] = f->backend;
    f->attempt.ntried++;
    /* A member that was tried is chosen again only when no other is healthy: that ends the
     * search. */
    b = fetch_choose(f, f->from);
    for (unsigned i = 0; i < f->attempt.ntried; i++)
        if (b == NULL || f->attempt.tried[i] == b || fetch_hop_is_self(f, b))
            return false; /* no other backend is healthy; or this node is the owner now */
    fetch_use(f, b, f->from);
    /* Addresses and idle connections are those of the other backend. */
    f->attempt.address = 0;
    f->attempt.fresh = false;
    /* Written anew: the other member may have a Host of its own. */
    if (fetch_hops(f))
        return fetch_hop_write(f) == 0;
    return (f->vcl != NULL ? fetch_policy_write(f) : fetch_write_request(f, &f->request)) == 0;
}

void
fetch_rewind(struct fetch *f)
{
    /* The connection first: its queue may point into the extent that fetch_rewind_upload() gives
     * back. */
    if (f->conn != NULL)
        origin_discard(&f->conn);
    f->attempt.on = (struct fetch_on){.request = FETCH_UNSENT};
    if (f->upload.body != NULL)
        fetch_rewind_upload(f);
}

/* The request goes without it. */
void
fetch_drop_upload(struct fetch *f)
{
    tassert(f->conn == NULL && f->upload.lease == FETCH_LEASE_NONE);
    /* The iterator refers to the body, so it ends first. */
    lease_fini(&f->upload.it);
    stobj_unref(&f->upload.body);
}

int
fetch_gather_upload(struct fetch *f)
{
    int err;

    tassert(f->upload.body == NULL && f->upload.later);
    if (!fetch_has_listener(f))
        return TERR_CANCELLED;
    err = f->listener.ops->gather(f->listener.ctx);
    /* Whatever else went wrong is between the client and its request, which answers for it. */
    return err == 0 || err == TERR_AGAIN || err == TERR_NOMEM ? err : TERR_CANCELLED;
}

int
fetch_ask_upload(struct fetch *f)
{
    tassert(f->upload.body == NULL && f->upload.later);
    if (!fetch_has_listener(f))
        return TERR_CANCELLED;
    f->upload.body = f->listener.ops->upload(f->listener.ctx);
    if (f->upload.body == NULL)
        return TERR_NOMEM;
    f->upload.later = false;
    lease_init(&f->upload.it, f->upload.body, 0, LEASE_TO_END, &f->upload.wait);
    return 0;
}

/* The addresses of both ends, while the exchange knows them.  Only where the backend gets a PROXY
 * header, or another one, which a director chooses later, may get one. */
static int
fetch_note_ends(struct fetch *f, const struct exchange *x)
{
    const struct conn_forwarded *fwd = x->conn->listener->forwarded;
    struct proxy_header *ends;

    if (f->conf->proxy_header == 0 && f->from == NULL)
        return 0;
    ends = arena_alloc(&f->arena, sizeof(*ends));
    if (ends == NULL)
        return TERR_NOMEM;
    *ends =
        (struct proxy_header){.has_addresses = true, .src_port = (uint16_t)x->conn->client_port};
    memcpy(ends->src, x->conn->client_addr, sizeof(ends->src));
    if (fwd != NULL && fwd->has_server) {
        memcpy(ends->dst, fwd->server_addr, sizeof(ends->dst));
        ends->dst_port = fwd->server_port;
    } else {
        x->ops->local((struct exchange *)(uintptr_t)x, ends->dst, &ends->dst_port);
    }
    if (x->conn->listener->secure != NULL) {
        ends->secure = conn_secure_copy(x->conn->listener->secure, &f->arena);
        if (ends->secure == NULL)
            return TERR_NOMEM;
    }
    f->ends = ends;
    return 0;
}

/* The validator lies in a head that may go before the fetch does. */
static int
fetch_plan_rest(struct fetch *f, const struct fetch_spec *spec)
{
    tassert(spec->nranges == 1 && spec->if_range.len > 0);
    f->if_range = arena_copy(&f->arena, spec->if_range);
    if (f->if_range.ptr == NULL)
        return TERR_NOMEM;
    counter_add(f->proxy->counters, COUNTER_fetch_rest, 1);
    return fetch_write_range(f, spec->ranges->first, spec->ranges->last);
}

/* No memory even to begin: what was handed over goes back, and the entry says so. */
static void
fetch_refuse(struct proxy *p, const struct fetch_spec *spec)
{
    struct entry *entry = spec->entry, *old = spec->old;
    struct stobj *upload = spec->upload;
    struct policy_ref *use = spec->policy;

    /* The entry may be in the index by now, and other requests wait on it (README 4). */
    cache_fail(entry, TERR_NOMEM);
    entry_drop(&entry);
    if (old != NULL)
        entry_drop(&old);
    if (upload != NULL)
        stobj_unref(&upload);
    policy_end(p, &use);
}

/* What needs no memory: from here on fetch_free() gives back what was handed over. */
static void
fetch_init(
    struct fetch *f, struct proxy *p, const struct exchange *x, const struct fetch_spec *spec)
{
    tassert(spec->entry != NULL && spec->head != NULL);
    tassert(spec->old == NULL || spec->kind == FETCH_FOR_CACHE);
    f->magic = FETCH_MAGIC;
    f->proxy = p;
    f->kind = spec->kind;
    f->entry = spec->entry;
    f->old = spec->old;
    f->listener = spec->listener;
    f->audience = spec->kind == FETCH_FOR_CACHE ? FETCH_SHARED : FETCH_PRIVATE;
    fetch_new_attempt(f);
    f->asked = f->kind == FETCH_PASS ? spec->head->method : HTTP_M_GET;
    f->for_head = x->head.method == HTTP_M_HEAD;
    f->compress = spec->compress;
    f->by_esi = spec->esi;
    f->included = x->place != NULL;
    f->forms = f->kind == FETCH_FOR_CACHE && f->compress != CONF_COMPRESS_OFF;
    f->upload.kept = spec->upload_kept;
    f->upload.body = spec->upload;
    f->upload.length = spec->upload_length;
    f->upload.later = spec->upload_later;
    f->connect = x->connect;
    f->xid = x->xid;
    f->start_us = p->loop->clock.mono_us;
    f->sent_ms = p->loop->clock.wall_ms;
    if (spec->snapshot != NULL)
        f->snapshot = snapshot_hold(spec->snapshot);
    f->route = spec->route;
    /* Before the backend is asked: what is purged while the answer is on its way is not
     * remembered as absent afterwards. */
    if (fetch_is_shared(f) && cache_negative(p->cache) != NULL)
        f->negative_generation = negative_generation(cache_negative(p->cache));
    p->nfetches++;
    list_add_tail(&p->fetches, &f->link);
    arena_init(&f->arena, &p->loop->arenas);
    task_init(&f->task, &p->loop->tasks, fetch_run);
    timer_init(&f->timer, &f->task);
    waiter_init(&f->space, &f->task, &p->loop->inbox);
    origin_turn_init(&f->turn, p->loop, &f->task);
    waiter_init(&f->upload.wait, &f->task, &p->loop->inbox);
    /* By this entry_wake_fetch() finds the fetch, until fetch_free(). */
    entry_set_fetch(f->entry, &f->task);
    if (f->upload.body != NULL)
        lease_init(&f->upload.it, f->upload.body, 0, LEASE_TO_END, &f->upload.wait);
}

/* The backend to ask, and with the policy's say if there is one.  0 or TERR_*; takes spec->policy. */
static int
fetch_address(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec)
{
    int err;

    if (spec->policy != NULL)
        return fetch_policy_open(f, x, spec);
    err = fetch_pick(f, spec->backend);
    return err == 0 ? fetch_note_ends(f, x) : err;
}

/* What to ask.  0 or TERR_*. */
static int
fetch_compose(struct fetch *f, const struct fetch_spec *spec)
{
    int err = 0;

    tassert(f->vcl != NULL || f->backend != NULL);
    /* Given to the protocol beside the message (fetch_begin): Upgrade is hop-by-hop, and is not
     * forwarded. */
    if (spec->upgrade)
        f->upgrade = http_get_one(&f->req, HTTP_F_UPGRADE);
    if (fetch_is_shared(f))
        err = fetch_plan(f, spec);
    else if (f->kind == FETCH_REST)
        err = fetch_plan_rest(f, spec);
    if (err == 0 && f->vcl == NULL) /* else when vcl_backend_fetch has been asked */
        err = fetch_write_request(f, &f->request);
    return err;
}

void
fetch_start(struct proxy *p, const struct exchange *x, const struct fetch_spec *spec)
{
    struct fetch *f = usage_calloc(&p->loop->usage, USAGE_REQUEST, sizeof(*f));
    int err, copied;

    tassert(!conn_is_early(x->conn)); /* req_early.c: nothing is fetched for a replay */
    counter_add(p->counters, COUNTER_fetch_total, 1);
    if (f == NULL) {
        fetch_refuse(p, spec);
        return;
    }
    fetch_init(f, p, x, spec);
    /* With a policy fetch_address runs even when the copy failed: it is what takes spec->policy. */
    copied = fetch_copy_request(f, x, spec);
    err = copied == 0 || spec->policy != NULL ? fetch_address(f, x, spec) : copied;
    err = copied != 0 ? copied : err;
    if (err == 0)
        err = fetch_compose(f, spec);
    if (err == 0)
        err = fetch_hop_begin(f, x, spec);
    if (err != 0) {
        f->attempt.err = err;
        f->state = FETCH_ERROR;
    }
    if (fetch_is_logged(f))
        fetch_log_begin(f);
    /* Never run from here: the request that starts it is in the middle of its own step. */
    task_wake(&f->task);
}

void
fetch_free(struct fetch *f)
{
    struct proxy *p = f->proxy;

    tassert(f->conn == NULL && f->upload.body == NULL && f->kept == NULL && f->pack == NULL);
    task_cancel(&f->task);
    list_del(&f->link);
    timer_unlink(&f->timer);
    /* Before the drops: a reader on another loop that has the entry must not wake what is freed. */
    entry_set_fetch(f->entry, NULL);
    if (f->shared != NULL) {
        struct entry *reader = f->entry; /* no reader came for it: both holds are ours */

        entry_set_fetch(f->shared, NULL);
        entry_drop(&f->shared);
        entry_drop(&reader);
    }
    entry_drop(&f->entry);
    if (f->old != NULL)
        entry_drop(&f->old);
    if (f->backend != NULL) {
        struct director *held = backend_director(f->backend);

        fetch_arrive(f);
        director_drop(&held);
    }
    fetch_keep_from(f, NULL);
    fetch_hop_end(f);
    /* It lies in the arena, so before that. */
    if (f->vcl != NULL)
        fetch_policy_close(f);
    if (f->snapshot != NULL)
        snapshot_drop(&f->snapshot);
    arena_fini(&f->arena);
    OBJ_BURY(f);
    usage_free(&p->loop->usage, USAGE_REQUEST, f);
    p->nfetches--;
    /* A worker that drains waits for its last fetch. */
    if (p->on_idle != NULL && proxy_is_idle(p))
        p->on_idle(p->on_idle_ctx);
}

/* The worker ends, and no fetch goes on without it: each one notices at its next step. */
void
proxy_cut(struct proxy *p)
{
    for (struct list *l = p->fetches.next; l != &p->fetches; l = l->next) {
        struct fetch *f = container_of(l, struct fetch, link);

        f->cut = true;
        task_wake(&f->task);
    }
}
