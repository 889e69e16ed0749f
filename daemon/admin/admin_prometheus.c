/* admin_prometheus.c -- every number there is, in Prometheus' text format (version 0.0.4).
 *
 * Names are by its conventions: base units, _total behind what only grows.  A counter of
 * /v1/counters, as req.hit, is tarn_req_hit_total; the rest has labels and stands here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/base/loop.h"
#include "daemon/base/usage.h"
#include "daemon/origin/director.h"
#include "daemon/origin/probe.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/log_format.h"

/* Bounds of buckets are powers of two of microseconds: there, and at no 5 or 10 of anything, the
 * histograms can be cut without a mistake. */
enum {
    PROMETHEUS_REQUEST_FIRST = 5, /* 32 us: a hit takes as long as that to be written at all */
    PROMETHEUS_REQUEST_LAST = 26, /* 67 s: what takes longer, a timeout ends */
    PROMETHEUS_LAG_FIRST = 10,    /* 1 ms */
    PROMETHEUS_LAG_LAST = 23,     /* 8 s */
};

static void
prometheus_head(FILE *to, const char *name, const char *type, const char *doc)
{
    fprintf(to, "# HELP tarn_%s %s\n# TYPE tarn_%s %s\n", name, doc, name, type);
}

/* Names of the table have dots; Prometheus allows letters, digits, _ and : alone. */
static void
prometheus_on_number(void *ctx, const struct admin_number *n)
{
    /* One has "total" in its name: it does not get it twice. */
    bool grows = n->kind == COUNTER_KIND_COUNTER, said = strstr(n->name, ".total") != NULL;
    char name[96];

    if (strncmp(n->name, "responses.", 10) == 0)
        return; /* one metric with labels: prometheus_responses() */
    snprintf(name, sizeof(name), "%s%s%s", n->name, n->unit, grows && !said ? "_total" : "");
    for (char *p = name; *p != '\0'; p++)
        if (*p == '.')
            *p = '_';
    prometheus_head(ctx, name, grows ? "counter" : "gauge", n->doc);
    fprintf(ctx, "tarn_%s %" PRIu64 "\n", name, n->value);
}

/* A label's value, without what could end it. */
static void
prometheus_quote(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        if (*text == '\n')
            fputs("\\n", to);
        else
            fputc(*text, to);
    }
    fputc('"', to);
}

/* `label` is NAME="VALUE".
 * Each line is cumulative and +Inf equals the count: both are of one latency_seen, or a scrape
 * while a worker counts could show a bucket above the count. */
static void
prometheus_histogram(FILE *to, const char *name, const char *label, const struct latency_seen *seen,
    unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++) {
        uint64_t us = UINT64_C(1) << i;

        fprintf(to, "tarn_%s_bucket{%s,le=\"%.6f\"} %" PRIu64 "\n", name, label, (double)us / 1e6,
            /* Cumulative, as the format wants it: each bucket has those before it in it. */
            latency_below(seen, us));
    }
    fprintf(to, "tarn_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, label, seen->count);
    fprintf(to, "tarn_%s_sum{%s} %.6f\n", name, label, (double)seen->sum_us / 1e6);
    fprintf(to, "tarn_%s_count{%s} %" PRIu64 "\n", name, label, seen->count);
}

/* The counters' numbers are computed: counter_table.h makes one for each result and class, in
 * this order. */
static void
prometheus_responses(const struct admin *a, FILE *to)
{
    static const char *const classes[COUNTER_CLASSES] = {
        "1xx", "2xx", "3xx", "4xx", "5xx", "other"};

    prometheus_head(to, "responses_total", "counter",
        "Requests that have ended, by class of status and by result");
    for (unsigned i = 0; i < RESULT_COUNT; i++)
        for (unsigned k = 0; k < COUNTER_CLASSES; k++)
            fprintf(to, "tarn_responses_total{status_class=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                classes[k], shmlog_result_word((enum request_result)i),
                counters_sum(a->env.counters,
                    (enum counter)(COUNTER_responses_hit_1xx + i * COUNTER_CLASSES + k)));
}

static void
prometheus_requests(const struct admin *a, FILE *to)
{
    struct latency_seen seen;
    char label[64];

    prometheus_head(to, "request_duration_seconds", "histogram",
        "Duration of requests, from the first byte in to the last byte out, by result");
    for (unsigned k = 0; k < LATENCY_REQUESTS; k++) {
        latency_see(a->env.latency, LATENCY_ALL, (enum latency_kind)k, &seen);
        snprintf(label, sizeof(label), "result=\"%s\"", latency_name((enum latency_kind)k));
        prometheus_histogram(to, "request_duration_seconds", label, &seen, PROMETHEUS_REQUEST_FIRST,
            PROMETHEUS_REQUEST_LAST);
    }
}

static void
prometheus_lag_gauge(const struct admin *a, FILE *to, const char *name, const char *doc, bool most)
{
    struct latency_seen seen;

    prometheus_head(to, name, "gauge", doc);
    for (unsigned i = 0; i < latency_workers(a->env.latency); i++) {
        latency_see(a->env.latency, i, LATENCY_lag, &seen);
        fprintf(to, "tarn_%s{worker=\"%u\"} %.6f\n", name, i,
            (double)(most ? seen.max_us : seen.last_us) / 1e6);
    }
}

static void
prometheus_lag(const struct admin *a, FILE *to)
{
    struct latency_seen seen;
    char label[64];

    prometheus_head(to, "worker_loop_lag_seconds", "histogram", latency_doc(LATENCY_lag));
    for (unsigned i = 0; i < latency_workers(a->env.latency); i++) {
        latency_see(a->env.latency, i, LATENCY_lag, &seen);
        snprintf(label, sizeof(label), "worker=\"%u\"", i);
        prometheus_histogram(
            to, "worker_loop_lag_seconds", label, &seen, PROMETHEUS_LAG_FIRST, PROMETHEUS_LAG_LAST);
    }
    prometheus_lag_gauge(a, to, "worker_loop_lag_last_seconds", "The last of these", false);
    prometheus_lag_gauge(
        a, to, "worker_loop_lag_max_seconds", "The longest of these since tarnd started", true);
}

static void
prometheus_memory(const struct admin *a, FILE *to)
{
    struct storage_stats s;

    storage_get_stats(a->env.storage, &s);
    prometheus_head(to, "memory_bytes", "gauge",
        "Bytes charged to the storage, by purpose; their sum is tarn_storage_used_bytes");
#define X(id, in, name, doc)                                                              \
    fprintf(to, "tarn_memory_bytes{branch=\"%s\",part=\"%s\"} %" PRIu64 "\n", #in, #name, \
        s.leaf[CHARGE_##id]);
    CHARGE_TABLE(X)
#undef X
    prometheus_head(to, "memory_resident_bytes", "gauge",
        "Bytes of the process in memory, by the kernel's count");
    fprintf(to, "tarn_memory_resident_bytes %" PRIu64 "\n", usage_resident());
    prometheus_head(to, "memory_sockets_bytes", "gauge",
        "Bytes that the kernel holds for the process's sockets; not part of other metrics");
    fprintf(to, "tarn_memory_sockets_bytes %" PRIu64 "\n", usage_sockets());
}

/* ---- backends ---- */

enum prometheus_of {
    PROMETHEUS_UP,
    PROMETHEUS_EJECTED,
    PROMETHEUS_CONNECTIONS,
    PROMETHEUS_LIMIT,
    PROMETHEUS_QUEUED,
    PROMETHEUS_PROBE,
};

struct prometheus_backends {
    FILE *to;
    const char *name;
    enum prometheus_of what;
    json_t *names; /* printed: a backend that is about to leave may have the same name */
};

/* Below 0: there is nothing to tell. */
static double
prometheus_of_backend(const struct backend *b, enum prometheus_of what)
{
    struct probe_seen seen = {.probed = false};

    switch (what) {
    case PROMETHEUS_UP:
        return backend_up(b);
    case PROMETHEUS_EJECTED:
        return backend_ejected(b);
    case PROMETHEUS_CONNECTIONS:
        return (double)backend_connections(b);
    case PROMETHEUS_LIMIT:
        return backend_conf(b)->max_connections > 0 ? (double)backend_conf(b)->max_connections : -1;
    case PROMETHEUS_QUEUED:
        return backend_queued(b);
    case PROMETHEUS_PROBE:
        backend_probe_seen(b, &seen);
        return seen.probed ? seen.average_s : -1;
    }
    TUNREACHABLE("a metric of a backend");
}

/* The same series twice is an error of the format, so the first one counts. */
static void
prometheus_on_backend(void *ctx, struct backend *b)
{
    struct prometheus_backends *all = ctx;
    double value = prometheus_of_backend(b, all->what);

    if (value < 0 || json_object_get(all->names, backend_full_name(b)) != NULL)
        return;
    json_put(all->names, backend_full_name(b), json_true());
    fprintf(all->to, "tarn_%s{backend=", all->name);
    prometheus_quote(all->to, backend_full_name(b));
    fprintf(all->to, "} %.6g\n", value);
}

/* What came of the attempts to ask it; of each name once, as above. */
enum {
    PROMETHEUS_BACKEND_FIRST = 8, /* 256 us */
};

static void
prometheus_put_outcome(
    FILE *to, const char *name, const char *backend, const struct backend_seen *s)
{
    static const char *const classes[BACKEND_CLASSES] = {
        "1xx", "2xx", "3xx", "4xx", "5xx", "other"};

    for (unsigned i = 0; i < BACKEND_CLASSES; i++) {
        fprintf(to, "tarn_%s{backend=", name);
        prometheus_quote(to, backend);
        fprintf(to, ",status_class=\"%s\"} %" PRIu64 "\n", classes[i], s->responses[i]);
    }
}

static void
prometheus_put_failures(
    FILE *to, const char *name, const char *backend, const struct backend_seen *s)
{
    fprintf(to, "tarn_%s{backend=", name);
    prometheus_quote(to, backend);
    fprintf(to, "} %" PRIu64 "\n", s->failures);
}

/* `bucket[i]` counts what took less than 2^i us and no less than half of that (director.h);
 * bounds below 256 us would only make the scrape longer. */
static void
prometheus_put_duration(
    FILE *to, const char *name, const char *backend, const struct backend_seen *s)
{
    uint64_t below = 0;

    for (unsigned i = 0; i < BACKEND_BUCKETS; i++) {
        /* Those under the first bound are in it: its buckets count what is less, not what lies
         * between. */
        below += s->bucket[i];
        if (i < PROMETHEUS_BACKEND_FIRST)
            continue;
        fprintf(to, "tarn_%s_bucket{backend=", name);
        prometheus_quote(to, backend);
        /* The last has no upper end. */
        if (i + 1 < BACKEND_BUCKETS)
            fprintf(to, ",le=\"%.6f\"} %" PRIu64 "\n", (double)(UINT64_C(1) << i) / 1e6, below);
        else
            fprintf(to, ",le=\"+Inf\"} %" PRIu64 "\n", below);
    }
    fprintf(to, "tarn_%s_sum{backend=", name);
    prometheus_quote(to, backend);
    fprintf(to, "} %.6f\ntarn_%s_count{backend=", (double)s->sum_us / 1e6, name);
    prometheus_quote(to, backend);
    /* The sum of the buckets and no counter of its own: the two might differ while a worker
     * counts. */
    fprintf(to, "} %" PRIu64 "\n", below);
}

struct prometheus_outcomes {
    FILE *to;
    const char *name;
    void (*put)(FILE *to, const char *name, const char *backend, const struct backend_seen *s);
    json_t *names;
};

static void
prometheus_on_outcome(void *ctx, struct backend *b)
{
    struct prometheus_outcomes *all = ctx;
    struct backend_seen seen;

    if (json_object_get(all->names, backend_full_name(b)) != NULL)
        return;
    json_put(all->names, backend_full_name(b), json_true());
    backend_see(b, &seen);
    all->put(all->to, all->name, backend_full_name(b), &seen);
}

static void
prometheus_backend_outcomes(const struct admin *a, FILE *to)
{
    static const struct {
        const char *name, *type;
        void (*put)(FILE *to, const char *name, const char *backend, const struct backend_seen *s);
        const char *doc;
    } rows[] = {
        {"backend_responses_total", "counter", prometheus_put_outcome,
            "Response heads received from it, by class of status"},
        {"backend_failures_total", "counter", prometheus_put_failures,
            "Attempts without a response, and responses that were cut short"},
        {"backend_response_duration_seconds", "histogram", prometheus_put_duration,
            "Time from the end of the request to the response's head"},
    };

    /* Metric by metric, and in each the backends: the format wants the lines of a metric
     * together. */
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct prometheus_outcomes all = {to, rows[i].name, rows[i].put, json_object()};

        prometheus_head(to, rows[i].name, rows[i].type, rows[i].doc);
        registry_each(a->env.registry, prometheus_on_outcome, &all);
        json_decref(all.names);
    }
}

static void
prometheus_backends(const struct admin *a, FILE *to)
{
    static const struct {
        const char *name;
        enum prometheus_of what;
        const char *doc;
    } rows[] = {
        {"backend_up", PROMETHEUS_UP,
            "0: sick by its probe, or by hand; without a probe: no response to its last three "
            "attempts"},
        {"backend_ejected", PROMETHEUS_EJECTED, "1: its fetches failed, directors leave it out"},
        {"backend_connections", PROMETHEUS_CONNECTIONS, "Connections to it, in use or idle"},
        {"backend_connections_limit", PROMETHEUS_LIMIT, "Its max_connections, if it has one"},
        {"backend_queue", PROMETHEUS_QUEUED, "Fetches that wait for one of max_connections"},
        {"backend_probe_duration_seconds", PROMETHEUS_PROBE,
            "How long its good probes took, averaged, if it is probed"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct prometheus_backends all = {to, rows[i].name, rows[i].what, json_object()};

        prometheus_head(to, rows[i].name, "gauge", rows[i].doc);
        registry_each(a->env.registry, prometheus_on_backend, &all);
        json_decref(all.names);
    }
}

/* ---- certificates ---- */

enum prometheus_tls_of {
    PROMETHEUS_CERTIFICATES,
    PROMETHEUS_EXPIRY,
    PROMETHEUS_PARSED,
    PROMETHEUS_PARSE_FAILURES,
    PROMETHEUS_RELOAD_FAILURES,
};

struct prometheus_tls {
    FILE *to;
    const char *name;
    enum prometheus_tls_of what;
    int64_t now_s;
};

/* Negative when a certificate has expired: an alert compares with a number of seconds, and needs
 * no second metric. */
static int64_t
prometheus_of_tls(const struct admin_tls *t, const struct prometheus_tls *all)
{
    switch (all->what) {
    case PROMETHEUS_CERTIFICATES:
        return t->certificates;
    case PROMETHEUS_EXPIRY:
        return t->soonest_s - all->now_s;
    case PROMETHEUS_PARSED:
        return t->parsed;
    case PROMETHEUS_PARSE_FAILURES:
        return (int64_t)t->parse_failures;
    case PROMETHEUS_RELOAD_FAILURES:
        return (int64_t)t->reload_failures;
    }
    TUNREACHABLE("a metric of certificates");
}

static void
prometheus_on_tls(void *ctx, const struct admin_tls *t)
{
    const struct prometheus_tls *all = ctx;

    /* One that waits for its first certificate has no date. */
    if (all->what == PROMETHEUS_EXPIRY && t->certificates == 0)
        return;
    fprintf(all->to, "tarn_%s{listener=", all->name);
    prometheus_quote(all->to, t->name);
    fprintf(all->to, ",address=");
    prometheus_quote(all->to, t->address);
    fprintf(all->to, "} %" PRId64 "\n", prometheus_of_tls(t, all));
}

static void
prometheus_tls(const struct admin *a, FILE *to)
{
    static const struct {
        const char *name, *type;
        enum prometheus_tls_of what;
        const char *doc;
    } rows[] = {
        {"tls_certificates", "gauge", PROMETHEUS_CERTIFICATES, "Certificates of a TLS listener"},
        {"tls_certificate_expiry_seconds", "gauge", PROMETHEUS_EXPIRY,
            "Time until the first of them expires; below 0: it has"},
        {"tls_certificates_parsed", "gauge", PROMETHEUS_PARSED,
            "Certificates in memory with their keys"},
        {"tls_certificate_parse_failures_total", "counter", PROMETHEUS_PARSE_FAILURES,
            "Certificates that a handshake needed and that were bad"},
        {"tls_reload_failures_total", "counter", PROMETHEUS_RELOAD_FAILURES,
            "Readings of its certificates that found a bad file"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct prometheus_tls all = {
            to, rows[i].name, rows[i].what, a->env.loop->clock.wall_ms / 1000};

        prometheus_head(to, rows[i].name, rows[i].type, rows[i].doc);
        a->env.host->tls(a->env.host_ctx, prometheus_on_tls, &all);
    }
}

static void
prometheus_process(const struct admin *a, FILE *to)
{
    const struct clock *clock = &a->env.loop->clock;
    double up_s = (double)((int64_t)clock->mono_ms - a->started_ms) / 1000;

    prometheus_head(to, "build_info", "gauge", "1; its labels are the version");
    fprintf(to, "tarn_build_info{version=\"" TARN_VERSION "\"} 1\n");
    prometheus_head(to, "uptime_seconds", "gauge", "Since this tarnd started");
    fprintf(to, "tarn_uptime_seconds %.3f\n", up_s);
    prometheus_head(to, "start_time_seconds", "gauge", "When it started, since the epoch");
    fprintf(to, "tarn_start_time_seconds %.3f\n", (double)clock->wall_ms / 1000 - up_s);
    prometheus_head(to, "workers", "gauge", "Threads that serve clients");
    fprintf(to, "tarn_workers %u\n", a->env.nworkers);
}

void
admin_do_metrics(struct admin_call *c)
{
    char *text = NULL;
    size_t len;
    /* A few hundred lines: rendered whole, in one turn of the management loop, and sent at the
     * client's pace from `text`. */
    FILE *to = open_memstream(&text, &len);

    if (to != NULL) {
        prometheus_process(c->admin, to);
        admin_each_number(c->admin, prometheus_on_number, to);
        prometheus_responses(c->admin, to);
        prometheus_requests(c->admin, to);
        prometheus_backends(c->admin, to);
        prometheus_backend_outcomes(c->admin, to);
        prometheus_tls(c->admin, to);
        prometheus_memory(c->admin, to);
        prometheus_lag(c->admin, to);
        /* Only here memory that ran out shows, and the text is whole. */
        if (fclose(to) != 0) {
            free(text);
            text = NULL;
        }
    }
    if (text == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "counters");
        return;
    }
    c->status = 200;
    c->text = text;
    c->type = "text/plain; version=0.0.4; charset=utf-8";
}
