/* policy.c -- a worker's share in policies, and what became of a run. */
#include "daemon/policy/policy.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/http/token.h"
#include "daemon/origin/backend_snapshot.h"

static struct policy_ref *
policy_find_use(struct proxy *p, const struct policy *pol)
{
    for (struct policy_ref *u = p->policy_refs; u != NULL; u = u->next)
        if (u->policy == pol)
            return u;
    return NULL;
}

/* A worker's use of it; NULL: no memory.  Within the turn in which the set was read. */
static struct policy_ref *
policy_use_of(struct proxy *p, struct policy *pol)
{
    struct policy_ref *u = policy_find_use(p, pol);

    if (u != NULL)
        return u;
    /* Once a worker and policy, not once a request: requests count in `users`, which no other
     * thread writes. */
    u = calloc(1, sizeof(*u));
    if (u == NULL)
        return NULL;
    OBJ_CHECK(pol, POLICY_MAGIC);
    /* Relaxed is enough: the registry's own count goes behind a grace period, so it is not 0 in a turn
     * that has read the set. */
    atomic_fetch_add_explicit(&pol->refs, 1, memory_order_relaxed);
    tassert(u->users == 0);
    u->policy = pol;
    u->next = p->policy_refs;
    p->policy_refs = u;
    return u;
}

void
policy_leave(struct proxy *p, struct policy_ref *u)
{
    struct policy_ref **at = &p->policy_refs;

    tassert(u->users == 0);
    tassert(u != p->policy);
    OBJ_CHECK(u->policy, POLICY_MAGIC);
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    /* The last thing that this worker does with it. */
    atomic_fetch_sub_explicit(&u->policy->refs, 1, memory_order_release);
    /* The ref is the worker's own: only the policy's count is shared. */
    free(u);
}

/* Called when a request begins and by the worker's tick.  p->policy is a ref without users, so the
 * worker keeps the active policy between requests; an old one with users goes with the last of
 * them. */
void
policy_look(struct proxy *p)
{
    struct policy_set *set;
    struct policy_ref *old = p->policy, *now;

    if (p->policies == NULL)
        return;
    set = atomic_load_explicit(p->policies, memory_order_acquire);
    /* Acquire: the set's contents and the policies in it are seen as they were published. */
    tassert(set != NULL);                         /* policies_open() has published one */
    tassert(set->generation >= p->policies_seen); /* sets count up */
    if (set->generation == p->policies_seen)
        return;
    now = set->active != NULL ? policy_use_of(p, set->active) : NULL;
    if (now == NULL && set->active != NULL)
        return; /* no memory: with the old one for a while */
    p->policies_seen = set->generation;
    p->policy = now;
    if (old != NULL && old != now && old->users == 0)
        policy_leave(p, old);
}

/* The worker ends; its requests and fetches have, which policy_leave asserts. */
void
policy_leave_all(struct proxy *p)
{
    p->policy = NULL;
    while (p->policy_refs != NULL)
        policy_leave(p, p->policy_refs);
}

bool
policy_is_in_use(const struct proxy *p, const struct policy *pol)
{
    const struct policy_set *set;

    if (p->policies == NULL)
        return true;
    set = atomic_load_explicit(p->policies, memory_order_acquire);
    for (unsigned i = 0; i < set->nlabels; i++)
        if (set->labels[i].policy == pol)
            return true;
    /* Read anew each time: the answer is for this moment only. */
    return set->active == pol;
}

/* A ref that is counted for the caller, which gives it back with policy_end.  NULL: there is no
 * such label any more, or no memory. */
struct policy_ref *
policy_labelled(struct proxy *p, const char *label)
{
    struct policy_set *set = atomic_load_explicit(p->policies, memory_order_acquire);

    for (unsigned i = 0; i < set->nlabels; i++) {
        struct policy_ref *u;

        if (strcmp(set->labels[i].name, label) != 0)
            continue;
        tassert_slow(set->labels[i].policy->magic == POLICY_MAGIC); /* a set has none that may go */
        u = policy_use_of(p, set->labels[i].policy);
        if (u != NULL)
            u->users++;
        return u;
    }
    return NULL;
}

/* The places of one sub stand in one record: "builtin.vcl vcl_req_host 12 13 17-18". */
static void
policy_log_places(struct proxy *p, const struct vcl_run *run)
{
    struct vcl_place here, last = {NULL, NULL, 0, 0, 0};
    char text[512];
    size_t n = 0;

    for (unsigned i = 0; i < run->ntrace; i++) {
        vcl_place(run->vcl, run->trace[i], &here);
        /* 64 bytes are kept free for the next number, and for the NUL. */
        if (n > 0 && (last.sub != here.sub || last.file != here.file || n > sizeof(text) - 64)) {
            shmlog_text(p->log, SHMLOG_PolicyLines, slice_of(text, n));
            n = 0;
        }
        if (n == 0)
            n = (size_t)snprintf(text, sizeof(text) - 64, "%.200s %.200s", here.file, here.sub);
        n += (size_t)snprintf(text + n, sizeof(text) - n,
            here.last_line > here.line ? " %u-%u" : " %u", here.line, here.last_line);
        tassert(n < sizeof(text)); /* snprintf() says what it would write */
        last = here;
    }
    if (n > 0)
        shmlog_text(p->log, SHMLOG_PolicyLines, slice_of(text, n));
}

void
policy_log(struct proxy *p, const struct vcl_run *run, uint64_t xid, enum shmlog_kind kind,
    enum vcl_action act)
{
    shmlog_begin(p->log, xid, kind, 0);
    shmlog_printf(p->log, SHMLOG_Policy, "%s %s", vcl_sub_name(run->sub), vcl_action_name(act));
    policy_log_places(p, run);
    if (run->why != NULL)
        shmlog_printf(p->log, SHMLOG_Error, "%s: %s", vcl_sub_name(run->sub), run->why);
    shmlog_end(p->log);
}

bool
policy_says_close(const struct http_message *h)
{
    const struct http_field *f = http_find(h, HTTP_F_CONNECTION, NULL);
    struct http_list_iter it;
    struct slice member;

    if (f == NULL || !f->said)
        return false;
    http_list_init(&it, http_value(h, f));
    while (http_list_next(&it, &member))
        if (slice_eq_nocase(member, SLICE_LIT("close")))
            return true;
    return false;
}

struct slice
policy_field(const struct http_message *h, const struct vcl_name *name, unsigned nth)
{
    const struct http_field *f = NULL;

    if (name->id != HTTP_F_OTHER) {
        if (!http_has(h, (enum http_field_id)name->id))
            return slice_of(NULL, 0);
        do {
            f = http_find(h, (enum http_field_id)name->id, f);
        } while (f != NULL && nth-- > 0);
    } else {
        do {
            f = http_find_name(h, name->text, f);
        } while (f != NULL && nth-- > 0);
    }
    return f == NULL ? slice_of(NULL, 0) : http_value(h, f);
}

/* "a, b" of all its lines, in the run's arena if there are several. */
struct slice
policy_joined(struct vcl_run *run, enum vcl_http http, const struct vcl_name *name)
{
    struct slice first = run->host->nth_field(run, http, name, 0), next;
    size_t len = first.len;
    char *out, *at;

    if (first.ptr == NULL || run->host->nth_field(run, http, name, 1).ptr == NULL)
        return first;
    for (unsigned i = 1; (next = run->host->nth_field(run, http, name, i)).ptr != NULL; i++)
        len += 2 + next.len;
    out = at = arena_alloc(run->arena, len);
    if (out == NULL)
        return first;
    /* Twice over the same message, which nothing changes between: the second fills what the first
     * has counted. */
    memcpy(at, first.ptr, first.len);
    at += first.len;
    for (unsigned i = 1; (next = run->host->nth_field(run, http, name, i)).ptr != NULL; i++) {
        memcpy(at, ", ", 2);
        memcpy(at + 2, next.ptr, next.len);
        at += 2 + next.len;
    }
    tassert(at == out + len);
    return slice_of(out, len);
}

void
policy_end_of(const struct exchange *x, enum policy_end_name name, struct policy_end *out)
{
    const struct conn_forwarded *fwd = x->conn->listener->forwarded;

    tassert_slow(name < POLICY_ENDS);
    memset(out, 0, sizeof(*out));
    if (name == POLICY_END_REMOTE && fwd != NULL) {
        memcpy(out->addr, fwd->remote_addr, sizeof(out->addr));
        out->port = fwd->remote_port;
    } else if (name == POLICY_END_SERVER && fwd != NULL && fwd->has_server) {
        memcpy(out->addr, fwd->server_addr, sizeof(out->addr));
        out->port = fwd->server_port;
    } else if (name == POLICY_END_SERVER || name == POLICY_END_LOCAL) {
        x->ops->local((struct exchange *)(uintptr_t)x, out->addr, &out->port);
    } else {
        memcpy(out->addr, x->conn->client_addr, sizeof(out->addr));
        out->port = (uint16_t)x->conn->client_port;
    }
}

struct vcl_ip *
policy_ip(struct vcl_run *r, const uint8_t addr[16], uint16_t port)
{
    static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t none[16];
    struct vcl_ip *ip = arena_alloc(r->arena, sizeof(*ip));

    if (ip == NULL)
        return NULL;
    memcpy(ip->addr, addr, sizeof(ip->addr));
    ip->port = port;
    ip->is_v4 = memcmp(addr, v4, sizeof(v4)) == 0;
    if (memcmp(addr, none, sizeof(none)) == 0) { /* a Unix socket: 0.0.0.0, as Varnish has it */
        memcpy(ip->addr, v4, sizeof(v4));
        ip->is_v4 = true;
    }
    return ip;
}

static uint64_t
policy_random(struct vcl_run *run)
{
    const struct policy_ctx *ctx = run->ctx;

    tassert_slow(ctx->proxy != NULL); /* vcl_init has another source */
    return proxy_random(ctx->proxy);
}

void
policy_prepare(struct proxy *p)
{
    p->run_ctx = (struct policy_ctx){
        .proxy = p, .params = &p->params, .cache = p->cache, .clock = &p->loop->clock};
    p->run.ctx = &p->run_ctx;
    p->run.host = &policy_host;
    p->run.random = policy_random;
}

uint64_t
policy_rules(const struct policy *pol, struct registry *registry)
{
    const struct conf *conf = snapshot_conf(registry_snapshot(registry));
    uint64_t all[3] = {0, 0, conf->content};

    /* A policy goes on with the backends that it was loaded with, and what routes do is of now. */
    if (pol != NULL) {
        all[0] = pol->digest;
        all[1] = snapshot_conf(pol->snapshot)->content;
    }
    return hash_plain(all, sizeof(all));
}
