/* probe.h -- asking backends whether they are well (Varnish's probes).
 *
 * A probe connects, sends one request, and reads the response's head; the last `window` results are
 * bits, the newest lowest.  With at least `threshold` good ones the backend is healthy.  One that
 * begins is taken to have given `initial` good results: by default one good probe makes it well.
 * Until that one a policy's is sick, as in Varnish, and the configuration's is healthy: so a start,
 * a reload or an upgrade refuses no request for want of a result.
 *
 * Threads: probes run on the management loop.  What they found is read by any thread.
 */
#ifndef TARN_PROBE_H
#define TARN_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct backend;
struct conf_probe;
struct loop;
struct origin_protocol;
struct registry;

struct probe_conf {
    const char *url;     /* NULL: `request` says what is asked */
    const char *request; /* lines, each with CRLF, and a blank one; NULL: GET url */
    int64_t interval_ms, timeout_ms;
    unsigned window, threshold, initial; /* window 1 to 64 */
    unsigned expected_response;          /* status */
    bool expect_close; /* the response must end the connection; else its head is enough */
    bool trusting;     /* healthy until the first result */
};

/* Varnish's defaults: "/", 5 s, 2 s, 8, 3, threshold - 1, 200, true. */
#define PROBE_CONF_DEFAULT \
    ((struct probe_conf){"/", NULL, 5000, 2000, 8, 3, UINT32_MAX, 200, true, false})

enum {
    PROBE_WHY_MAX = 200
};
/* Is it a request: a method, a target, fields, without a body?  0; TERR_INVALID, and what is wrong. */
int probe_request_check(const char *text, char why[PROBE_WHY_MAX]);

/* What the configuration says; borrows its texts. */
struct probe_conf probe_conf_of(const struct conf_probe *conf);

struct probe_seen {
    bool probed;    /* there is a probe */
    bool healthy;   /* as the probe sees it; the operator may have said otherwise */
    uint64_t happy; /* the last 64 results, the newest lowest */
    unsigned good, window, threshold;
    int64_t last_ms;  /* how long the last took */
    double average_s; /* exponential, of the good ones */
    double changed_s; /* wall clock; 0: never */
    char last[160];   /* "HTTP/1.1 200 OK", or what went wrong; "": none is over */
};

/* Probes of every backend of the registry, those to come too, on this thread's loop; sweeps the
 * registry once a second.  0 or TERR_NOMEM. */
int probes_start(struct registry *rg, struct loop *l, struct origin_protocol protocol);
/* Of none that run: nothing. */
void probes_stop(struct registry *rg);
/* Any thread; the backend is held. */
void backend_probe_seen(const struct backend *b, struct probe_seen *out);

#endif
