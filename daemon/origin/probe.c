/* probe.c -- what a probe asks, and what follows from the answers. */
#include "daemon/origin/probe_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"

enum {
    PROBE_AVERAGE_RATE = 4, /* the newest counts a quarter, as in Varnish */
    PROBE_WINDOW_MAX = 64   /* bits */
};

struct probe_conf
probe_conf_of(const struct conf_probe *conf)
{
    return (struct probe_conf){
        .url = conf->url,
        .request = conf->request[0] != '\0' ? conf->request : NULL,
        .interval_ms = conf->interval,
        .timeout_ms = conf->timeout,
        .window = (unsigned)conf->window,
        .threshold = (unsigned)conf->threshold,
        .initial = (unsigned)conf->initial,
        .expected_response = (unsigned)conf->expected_status,
        .expect_close = conf->expect_close != 0,
        .trusting = !conf->initial_said,
    };
}

/* The initial results as Varnish takes them: one less than needed, at most as many as needed. */
static bool
probe_settle_conf(struct probe_conf *c)
{
    if (c->interval_ms <= 0 || c->timeout_ms <= 0 || c->window < 1 ||
        c->window > PROBE_WINDOW_MAX || c->threshold > c->window)
        return false;
    /* It was not said. */
    if (c->initial == UINT32_MAX)
        c->initial = c->threshold > 0 ? c->threshold - 1 : 0;
    if (c->initial > c->threshold)
        c->initial = c->threshold;
    return true;
}

static unsigned
probe_good_of(uint64_t happy, unsigned window)
{
    /* The window's bits are the newest, that is the lowest: the older ones are shifted out. */
    return (unsigned)__builtin_popcountll(happy << (PROBE_WINDOW_MAX - window));
}

int
probe_new(struct probe **out, struct backend *b, const struct probe_conf *conf)
{
    struct probe *p;
    int err;

    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return TERR_NOMEM;
    p->magic = PROBE_MAGIC;
    p->backend = b;
    p->conf = *conf;
    p->conf.url = p->conf.request = NULL; /* p->request is made of them */
    err =
        probe_settle_conf(&p->conf) ? probe_request_make(&p->request, conf, b->conf) : TERR_INVALID;
    if (err != 0) {
        free(p->request.memory);
        OBJ_FREE(p);
        return err;
    }
    pthread_mutex_init(&p->lock, NULL);
    /* initial 0 apart: a shift by 64 would be undefined. */
    p->seen = (struct probe_seen){.probed = true,
        .happy = p->conf.initial == 0 ? 0 : UINT64_MAX >> (PROBE_WINDOW_MAX - p->conf.initial),
        .good = p->conf.initial,
        .window = p->conf.window,
        .threshold = p->conf.threshold,
        /* A backend of the configuration counts as well until it fails, unless `initial` is said;
         * Varnish's begins by its initial results. */
        .healthy = p->conf.trusting || p->conf.initial >= p->conf.threshold};
    b->probe_says = p->seen.healthy; /* no other thread sees it yet */
    *out = p;
    return 0;
}

void
probe_free(struct probe **pp)
{
    struct probe *p;

    OBJ_TAKE(p, pp, PROBE_MAGIC);
    /* Its timer and its connection refer to it. */
    probe_stop(p);
    pthread_mutex_destroy(&p->lock);
    free(p->request.memory);
    OBJ_FREE(p);
}

static void
probe_record(struct probe *p, bool good, const char *what, int64_t took_ms)
{
    struct probe_seen *s = &p->seen;

    /* One bit a probe, the newest lowest: 64 of them, of which the window's count, as in
     * Varnish. */
    s->happy = s->happy << 1 | good;
    s->good = probe_good_of(s->happy, s->window);
    s->healthy = s->good >= s->threshold;
    s->last_ms = took_ms;
    snprintf(s->last, sizeof(s->last), "%s", what);
    /* The time of a failure is mostly the timeout, and would say nothing of the backend's speed. */
    if (!good)
        return;
    /* The first ones weigh more: else the average would crawl up from 0. */
    if (p->averaged < PROBE_AVERAGE_RATE)
        p->averaged++;
    s->average_s += ((double)took_ms / 1000 - s->average_s) / p->averaged;
}

void
probe_note(struct probe *p, bool good, const char *what, int64_t took_ms)
{
    struct backend *b = p->backend;
    struct probe_seen *s = &p->seen;
    bool changed;

    OBJ_CHECK(p, PROBE_MAGIC);
    pthread_mutex_lock(&p->lock);
    probe_record(p, good, what, took_ms);
    pthread_mutex_unlock(&p->lock);
    /* Only this thread writes what was seen, so it may read on. */
    changed = backend_set_probed(b, s->healthy);
    if (b->registry->counters != NULL)
        counter_add_shared(b->registry->counters,
            good ? COUNTER_backend_probe_good : COUNTER_backend_probe_bad, 1);
    /* A backend that is sick from the beginning is logged too, though nothing changed. */
    if (changed || (!p->ever && !s->healthy))
        elog(s->healthy ? ELOG_INFO : ELOG_WARN, "backend %s: %s: %u of %u good, last: %s", b->full,
            s->healthy ? "healthy" : "sick", s->good, s->window, s->last);
    p->ever = true;
}

void
backend_probe_seen(const struct backend *b, struct probe_seen *out)
{
    struct probe *p = b->probe;

    *out = (struct probe_seen){.healthy = backend_healthy(b)};
    if (p != NULL) {
        pthread_mutex_lock(&p->lock);
        *out = p->seen;
        pthread_mutex_unlock(&p->lock);
    }
    /* Behind the copy, which would overwrite it. */
    director_healthy(&b->director, &out->changed_s);
}
