/* probe.c -- what a probe asks, and what follows from the answers. */
#include "daemon/origin/probe_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/proxy_header.h"
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
    if (c->initial == UINT32_MAX)
        c->initial = c->threshold > 0 ? c->threshold - 1 : 0;
    if (c->initial > c->threshold)
        c->initial = c->threshold;
    return true;
}

/* A target with a space or a line's end in it would be another request. */
static bool
probe_url_is_good(const char *url)
{
    if (url == NULL || *url == '\0')
        return false;
    for (; *url != '\0'; url++)
        if ((unsigned char)*url <= ' ' || *url == 0x7f)
            return false;
    return true;
}

/* What stands in Host: the backend's own, else where it is. */
static void
probe_host(char *out, size_t max, const struct conf_backend *conf)
{
    const struct conf_address *a = &conf->address;
    bool v6 = strchr(a->host, ':') != NULL;

    if (conf->host_header[0] != '\0')
        snprintf(out, max, "%s", conf->host_header);
    else if (a->is_unix || a->host[0] == '\0')
        snprintf(out, max, "localhost");
    else if (a->port == 80)
        snprintf(out, max, v6 ? "[%s]" : "%s", a->host);
    else
        snprintf(out, max, v6 ? "[%s]:%u" : "%s:%u", a->host, a->port);
}

static int
probe_write_request(struct probe *p, const struct probe_conf *conf)
{
    char host[300];
    int n;

    if (conf->request != NULL) {
        p->request = strdup(conf->request);
        p->request_len = strlen(conf->request);
        return p->request != NULL ? 0 : TERR_NOMEM;
    }
    probe_host(host, sizeof(host), p->backend->conf);
    n = asprintf(
        &p->request, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", conf->url, host);
    if (n < 0) {
        p->request = NULL;
        return TERR_NOMEM;
    }
    p->request_len = (size_t)n;
    return 0;
}

/* In front of the request: this connection is for no client. */
static int
probe_write_header(struct probe *p)
{
    unsigned version = (unsigned)p->backend->conf->proxy_header;
    char header[PROXY_HEADER_WRITE_MAX];
    size_t len = version > 0 ? proxy_header_write(header, version, NULL) : 0;
    char *both;

    if (len == 0)
        return 0;
    both = malloc(len + p->request_len);
    if (both == NULL)
        return TERR_NOMEM;
    memcpy(both, header, len);
    memcpy(both + len, p->request, p->request_len);
    free(p->request);
    p->request = both;
    p->request_len += len;
    return 0;
}

static unsigned
probe_good_of(uint64_t happy, unsigned window)
{
    return (unsigned)__builtin_popcountll(happy << (PROBE_WINDOW_MAX - window));
}

int
probe_new(struct probe **out, struct backend *b, const struct probe_conf *conf)
{
    struct probe *p;
    int err;

    if (conf->request == NULL && !probe_url_is_good(conf->url))
        return TERR_INVALID;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return TERR_NOMEM;
    p->magic = PROBE_MAGIC;
    p->backend = b;
    p->conf = *conf;
    p->conf.url = p->conf.request = NULL; /* written into p->request */
    err = probe_settle_conf(&p->conf) ? probe_write_request(p, conf) : TERR_INVALID;
    if (err == 0)
        err = probe_write_header(p);
    if (err != 0) {
        free(p->request);
        OBJ_FREE(p);
        return err;
    }
    pthread_mutex_init(&p->lock, NULL);
    p->seen = (struct probe_seen){.probed = true,
        .happy = p->conf.initial == 0 ? 0 : UINT64_MAX >> (PROBE_WINDOW_MAX - p->conf.initial),
        .good = p->conf.initial,
        .window = p->conf.window,
        .threshold = p->conf.threshold,
        .healthy = p->conf.trusting || p->conf.initial >= p->conf.threshold};
    b->probe_says = p->seen.healthy; /* nobody else knows of it yet */
    *out = p;
    return 0;
}

void
probe_free(struct probe **pp)
{
    struct probe *p;

    OBJ_TAKE(p, pp, PROBE_MAGIC);
    probe_stop(p);
    pthread_mutex_destroy(&p->lock);
    free(p->request);
    OBJ_FREE(p);
}

static void
probe_record(struct probe *p, bool good, const char *what, int64_t took_ms)
{
    struct probe_seen *s = &p->seen;

    s->happy = s->happy << 1 | good;
    s->good = probe_good_of(s->happy, s->window);
    s->healthy = s->good >= s->threshold;
    s->last_ms = took_ms;
    snprintf(s->last, sizeof(s->last), "%s", what);
    if (!good)
        return;
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
    director_healthy(&b->director, &out->changed_s);
}
