/* probe_run.c -- probes under way: each connects, asks, hears the answer, and waits. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/net/resolve.h"
#include "daemon/net/stream.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/origin/probe_priv.h"

enum {
    PROBES_TICK_MS = 1000 /* between looks for backends that may be freed */
};

/* All of a registry. */
struct probes {
    struct registry *registry;
    struct loop *loop;
    const struct h1_conf *h1;
    struct task task;
    struct timer timer;
};

/* Is over: what it saw, and when the next one is due.  Those of many backends that began at one
 * moment are spread over the interval; never are there two of one backend. */
static void
probe_end(struct probe *p, bool good, const char *what)
{
    uint64_t now = p->loop->clock.mono_ms, interval = (uint64_t)p->conf.interval_ms;

    if (p->stream != NULL)
        stream_close(&p->stream);
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

    if (p->line_len > 0)
        snprintf(text, sizeof(text), "%.32s: %.60s", p->line, what);
    else
        snprintf(text, sizeof(text), "%s", what);
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
probe_connect(struct probe *p, int err)
{
    unsigned naddrs = backend_naddrs(p->backend);

    while (p->nth < naddrs) {
        struct backend_place place;

        backend_place_of(p->backend, p->nth, &place);
        err = stream_connect(&p->stream, p->loop, &place.address, 0, &p->task);
        p->nth++;
        if (err == 0) {
            p->state = PROBE_CONNECT;
            return;
        }
    }
    probe_fail(p, terr_text(err));
}

static void
probe_begin(struct probe *p)
{
    p->began_ms = p->loop->clock.mono_ms;
    p->nth = 0;
    p->sent = p->got = p->line_len = 0;
    p->line[0] = '\0';
    p->line_ended = false;
    timer_set(&p->loop->wheel, &p->timer, loop_deadline(p->loop, p->conf.timeout_ms));
    probe_connect(p, TERR_UNREACH);
}

/* The status line is kept, of the rest it is known that it came. */
static void
probe_take(struct probe *p, struct span rx)
{
    for (size_t i = 0; i < rx.len && !p->line_ended; i++) {
        char c = rx.ptr[i];

        if (c == '\n')
            p->line_ended = true;
        else if (c != '\r' && p->line_len + 1 < sizeof(p->line))
            p->line[p->line_len++] = c;
    }
    p->line[p->line_len] = '\0';
    p->got += rx.len;
}

/* RFC 9112 4: HTTP-version SP status-code SP [ reason-phrase ]; 0: it is no status line. */
static unsigned
probe_status(const char *line)
{
    unsigned major, minor, status;
    int n = 0;

    if (sscanf(line, "HTTP/%1u.%1u %3u%n", &major, &minor, &status, &n) != 3 || n != 12 ||
        (line[n] != ' ' && line[n] != '\0'))
        return 0;
    return status;
}

static void
probe_judge(struct probe *p)
{
    probe_end(p, probe_status(p->line) == p->conf.expected_response, p->line);
}

/* Bytes handed to the kernel, as many as it takes.  0, or why it is over. */
static int
probe_send(struct probe *p)
{
    while (p->sent < p->request_len && !stream_sending(p->stream)) {
        struct iovec iov = {p->request + p->sent, p->request_len - p->sent};
        ssize_t n = stream_try(p->stream, &iov, 1, false);

        if (n == 0)
            n = stream_queue(p->stream, &iov, 1);
        if (n < 0)
            return (int)n;
        p->sent += (size_t)n;
    }
    return stream_write_error(p->stream);
}

/* TALK -- an answer may come before the request is out, and its end decides. */
static void
probe_talk(struct probe *p)
{
    struct span rx = stream_received(p->stream);
    int err = probe_send(p), ended;

    if (rx.len > 0) {
        probe_take(p, rx);
        stream_consume(p->stream);
    }
    ended = stream_ended(p->stream);
    if (p->line_ended ? !p->conf.expect_close || ended == TERR_CLOSED : false)
        probe_judge(p);
    else if (!p->line_ended && p->got > p->h1->resp_field_max)
        probe_fail(p, "status line too long");
    else if (p->got > PROBE_BYTES_MAX)
        probe_fail(p, "response without end");
    else if (ended == TERR_CLOSED)
        probe_fail(p, "closed without a status line");
    else if (ended != 0 || err != 0)
        probe_fail(p, terr_text(ended != 0 ? ended : err));
    else if (timer_expired(&p->timer))
        probe_fail_late(p, p->line_ended ? "not closed" : "no response");
}

static void
probe_run(struct task *t)
{
    struct probe *p = container_of(t, struct probe, task);
    int err;

    OBJ_CHECK(p, PROBE_MAGIC);
    if (backend_is_retired(p->backend)) {
        probe_stop(p);
        return;
    }
    if (p->state == PROBE_WAIT && timer_expired(&p->timer))
        probe_begin(p);
    if (p->state == PROBE_CONNECT) {
        err = stream_connected(p->stream);
        if (err == 0) {
            p->state = PROBE_TALK;
        } else if (err != TERR_AGAIN) {
            stream_close(&p->stream);
            probe_connect(p, err);
        } else if (timer_expired(&p->timer)) {
            probe_fail_late(p, "no connection");
        }
    }
    if (p->state == PROBE_TALK)
        probe_talk(p);
}

void
probe_start(struct probe *p, struct loop *l, const struct h1_conf *h1)
{
    OBJ_CHECK(p, PROBE_MAGIC);
    tassert(p->state == PROBE_OFF);
    p->loop = l;
    p->h1 = h1;
    p->state = PROBE_WAIT;
    task_init(&p->task, &l->tasks, probe_run);
    timer_init(&p->timer, &p->task);
    timer_set(&l->wheel, &p->timer, l->clock.mono_ms);
}

void
probe_stop(struct probe *p)
{
    OBJ_CHECK(p, PROBE_MAGIC);
    if (p->state == PROBE_OFF)
        return;
    if (p->stream != NULL)
        stream_close(&p->stream);
    task_cancel(&p->task);
    timer_unlink(&p->timer);
    p->state = PROBE_OFF;
}

static void
probes_on_tick(struct task *t)
{
    struct probes *all = container_of(t, struct probes, task);

    registry_tick(all->registry, all->loop->clock.mono_ms);
    registry_sweep(all->registry);
    timer_set(&all->loop->wheel, &all->timer, loop_deadline(all->loop, PROBES_TICK_MS));
}

void
probes_admit(struct probes *all, struct backend *b)
{
    if (b->probe != NULL)
        probe_start(b->probe, all->loop, all->h1);
}

static void
probes_on_each(void *ctx, struct backend *b)
{
    probes_admit(ctx, b);
}

int
probes_start(struct registry *rg, struct loop *l, const struct h1_conf *h1)
{
    struct probes *all = calloc(1, sizeof(*all));
    const struct conf *conf = snapshot_conf(registry_snapshot(rg));

    OBJ_CHECK(rg, REGISTRY_MAGIC);
    tassert(rg->probes == NULL);
    if (all == NULL)
        return TERR_NOMEM;
    *all = (struct probes){.registry = rg, .loop = l, .h1 = h1};
    task_init(&all->task, &l->tasks, probes_on_tick);
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
        backend_forget_lookup(rg->slots[i]);
    }
    resolver_close(&rg->resolver);
    task_cancel(&rg->probes->task);
    timer_unlink(&rg->probes->timer);
    free(rg->probes);
    rg->probes = NULL;
}
