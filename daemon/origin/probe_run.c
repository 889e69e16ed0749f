/* probe_run.c -- probes under way: each connects, asks, hears the answer, and waits. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/net/proxy_header.h"
#include "daemon/net/resolve.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/probe_priv.h"

enum {
    PROBES_TICK_MS = 1000 /* between looks for backends that may be freed */
};

/* All of a registry. */
struct probes {
    struct registry *registry;
    struct loop *loop;
    struct origin_protocol protocol;
    struct task task;
    struct timer timer;
};

/* Is over: what it saw, and when the next one is due.  Those of many backends that began at one
 * moment are spread over the interval; never are there two of one backend. */
static void
probe_end(struct probe *p, bool good, const char *what)
{
    uint64_t now = p->loop->clock.mono_ms, interval = (uint64_t)p->conf.interval_ms;

    if (p->x != NULL)
        p->x->ops->close(&p->x);
    /* 157 is odd, so successive numbers fall on all 256 parts of the interval, far from each
     * other. */
    if (!p->ever)
        interval = interval * (1 + p->backend->number * 157 % 256) / 256;
    p->state = PROBE_WAIT;
    timer_set(&p->loop->wheel, &p->timer, p->began_ms + interval); /* past: at once */
    probe_note(p, good, what, (int64_t)(now - p->began_ms));
}

static void
probe_fail(struct probe *p, const char *what)
{
    char text[PROBE_LINE_MAX];

    /* With the status line, if one came: it says more than the error. */
    if (p->line[0] != '\0')
        snprintf(text, sizeof(text), "%.32s: %.60s", p->line, what);
    else
        snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, what);
    probe_end(p, false, text);
}

static void
probe_fail_late(struct probe *p, const char *what)
{
    char text[64];

    snprintf(text, sizeof(text), "%s in %lld ms", what, (long long)p->conf.timeout_ms);
    probe_fail(p, text);
}

/* To the next address that can be asked at all. */
static void
probe_connect(struct probe *p, const char *why)
{
    unsigned naddrs = backend_naddrs(p->backend);
    unsigned version = (unsigned)p->backend->conf->proxy_header;
    char header[PROXY_HEADER_WRITE_MAX];
    struct origin_target target = {.preface = {header, 0}};

    if (version > 0) /* this connection is for no client */
        target.preface.len = proxy_header_write(header, version, NULL);
    /* One deadline for all addresses: probe_begin has set it. */
    while (p->nth < naddrs) {
        struct backend_place place;
        int err;

        backend_place_of(p->backend, p->nth, &place);
        target.to = &place.target;
        err = p->protocol->open(&p->x, p->loop, p->protocol, &target);
        p->nth++;
        if (err == 0) {
            p->x->task = &p->task;
            p->state = PROBE_CONNECT;
            return;
        }
        why = terr_text(err);
    }
    probe_fail(p, why);
}

static void
probe_begin(struct probe *p)
{
    p->began_ms = p->loop->clock.mono_ms;
    p->nth = 0;
    p->got = 0;
    p->status = 0;
    p->line[0] = '\0';
    timer_set(&p->loop->wheel, &p->timer, loop_deadline(p->loop, p->conf.timeout_ms));
    /* Without any address this is what is reported. */
    probe_connect(p, terr_text(TERR_UNREACH));
}

static void
probe_ask(struct probe *p)
{
    struct origin_request r = {.head = &p->request.head, .close = p->request.close};

    /* Before it is sent: the answer may come in the same turn. */
    p->state = PROBE_TALK;
    p->x->ops->begin(p->x, &r);
    (void)p->x->ops->send(p->x, NULL, 0, ORIGIN_END); /* it may answer before it closes */
}

/* 0: the head is there; TERR_AGAIN; or why there is none. */
static int
probe_hear(struct probe *p)
{
    const struct http_message *head;
    int err = p->x->ops->head(p->x, &head), n;

    if (err != 0)
        return err;
    p->status = head->status;
    n = snprintf(p->line, sizeof(p->line), "%s %u", http_version_text(head).ptr, head->status);
    if (head->reason_len > 0)
        snprintf(p->line + n, sizeof(p->line) - (size_t)n, " %.*s", (int)head->reason_len,
            head->base + head->reason_off);
    return 0;
}

/* Has the origin closed?  Many do without close_notify.  Of a body that is dropped nothing can have been
 * cut that matters. */
static bool
probe_is_closed(const struct probe *p, int err)
{
    return err == TERR_CLOSED || (err == TERR_IO && p->backend->secure != NULL);
}

/* The body is read and dropped.  0: the origin has ended the connection, however much had come;
 * TERR_AGAIN; or what is wrong. */
static int
probe_read(struct probe *p)
{
    ssize_t n = 1;

    /* Bounded: a backend that never ends would keep the management loop. */
    while (n > 0 && p->got <= PROBE_BYTES_MAX) {
        n = p->x->ops->body(p->x, (struct span){p->room, sizeof(p->room)});
        p->got += n > 0 ? (size_t)n : 0;
    }
    if (n > 0)
        return TERR_LIMIT;
    if (n != 0 && !probe_is_closed(p, (int)n))
        return (int)n;
    if (p->x->ended == 0)
        return TERR_AGAIN;
    return probe_is_closed(p, p->x->ended) ? 0 : p->x->ended;
}

/* TALK -- the head decides, and, where that is asked for, the connection's end. */
static void
probe_talk(struct probe *p)
{
    int err = p->status == 0 ? probe_hear(p) : 0;

    if (err == 0 && p->conf.expect_close)
        err = probe_read(p);
    if (err == 0)
        probe_end(p, p->status == p->conf.expected_response, p->line);
    else if (err == TERR_CLOSED)
        probe_fail(p, "closed without a status line");
    else if (err == TERR_LIMIT)
        probe_fail(p, "response without end");
    else if (err != TERR_AGAIN)
        probe_fail(p, terr_text(err));
    else if (timer_expired(&p->timer))
        probe_fail_late(p, p->status != 0 ? "not closed" : "no response");
}

/* Before the exchange is closed: it has the words. */
static void
probe_note_why(const struct probe *p, int err, char *why, size_t size)
{
    const char *more = p->x->why != NULL ? p->x->why : "";

    snprintf(why, size, "%s%s%s", terr_text(err), more[0] != '\0' ? ": " : "", more);
}

static void
probe_run(struct task *t)
{
    struct probe *p = container_of(t, struct probe, task);
    char why[PROBE_WHY_MAX];
    int err;

    OBJ_CHECK(p, PROBE_MAGIC);
    /* It is not asked any more; registry_sweep frees the backend, and the probe with it. */
    if (backend_is_retired(p->backend)) {
        probe_stop(p);
        return;
    }
    if (p->state == PROBE_WAIT && timer_expired(&p->timer))
        probe_begin(p);
    if (p->state == PROBE_CONNECT) {
        err = p->x->connected;
        if (err == 0) {
            probe_ask(p);
        } else if (err != TERR_AGAIN) {
            probe_note_why(p, err, why, sizeof(why));
            /* The exchange of the address that failed goes before the next is opened. */
            p->x->ops->close(&p->x);
            probe_connect(p, why);
        } else if (timer_expired(&p->timer)) {
            probe_fail_late(p, "no connection");
        }
    }
    if (p->state == PROBE_TALK)
        probe_talk(p);
}

void
probe_start(struct probe *p, struct loop *l, const struct origin_protocol *protocol)
{
    OBJ_CHECK(p, PROBE_MAGIC);
    tassert(p->state == PROBE_OFF);
    p->loop = l;
    p->protocol = protocol;
    p->state = PROBE_WAIT;
    task_init(&p->task, &l->tasks, probe_run);
    timer_init(&p->timer, &p->task);
    /* The first one at once; probe_end() spreads the second. */
    timer_set(&l->wheel, &p->timer, l->clock.mono_ms);
}

/* Nothing of it is on the loop afterwards; idempotent, as a retired one stops by itself. */
void
probe_stop(struct probe *p)
{
    OBJ_CHECK(p, PROBE_MAGIC);
    if (p->state == PROBE_OFF)
        return;
    if (p->x != NULL)
        p->x->ops->close(&p->x);
    task_cancel(&p->task);
    timer_unlink(&p->timer);
    p->state = PROBE_OFF;
}

static void
probes_on_tick(struct task *t)
{
    struct probes *all = container_of(t, struct probes, task);

    registry_tick(all->registry, all->loop->clock.mono_ms);
    /* This thread is the one that may free backends (README 2). */
    registry_sweep(all->registry);
    timer_set(&all->loop->wheel, &all->timer, loop_deadline(all->loop, PROBES_TICK_MS));
}

void
probes_admit(struct probes *all, struct backend *b)
{
    if (b->probe != NULL)
        probe_start(b->probe, all->loop, &all->protocol);
}

static void
probes_on_each(void *ctx, struct backend *b)
{
    probes_admit(ctx, b);
}

int
probes_start(struct registry *rg, struct loop *l, struct origin_protocol protocol)
{
    struct probes *all = calloc(1, sizeof(*all));
    const struct conf *conf = snapshot_conf(registry_snapshot(rg));

    OBJ_CHECK(rg, REGISTRY_MAGIC);
    tassert(rg->probes == NULL);
    if (all == NULL)
        return TERR_NOMEM;
    *all = (struct probes){.registry = rg, .loop = l, .protocol = protocol};
    task_init(&all->task, &l->tasks, probes_on_tick);
    /* A lookup that ends wakes the tick's task, which takes the results. */
    if (resolver_open(&rg->resolver, l, &all->task, conf->params.resolver) != 0) {
        free(all);
        return TERR_NOMEM;
    }
    timer_init(&all->timer, &all->task);
    task_wake(&all->task); /* names without an address are looked up at once */
    rg->probes = all;
    registry_each(rg, probes_on_each, all);
    return 0;
}

void
probes_stop(struct registry *rg)
{
    OBJ_CHECK(rg, REGISTRY_MAGIC);
    if (rg->probes == NULL)
        return;
    for (unsigned i = 0; i < rg->nslots; i++) {
        if (rg->slots[i] == NULL)
            continue;
        if (rg->slots[i]->probe != NULL)
            probe_stop(rg->slots[i]->probe);
        /* Before the resolver closes: lookups refer to it. */
        backend_forget_lookup(rg->slots[i]);
    }
    /* Behind the loop: it may have no lookup left. */
    resolver_close(&rg->resolver);
    task_cancel(&rg->probes->task);
    timer_unlink(&rg->probes->timer);
    free(rg->probes);
    rg->probes = NULL;
}
