/* probe_priv.h -- one backend's probe: its settings, what it saw, and the asking itself. */
#ifndef TARN_PROBE_PRIV_H
#define TARN_PROBE_PRIV_H

#include "daemon/base/loop.h"
#include "daemon/origin/origin_priv.h"

struct stream;

enum {
    PROBE_LINE_MAX = sizeof(((struct probe_seen *)NULL)->last),
    PROBE_BYTES_MAX = 16 << 20, /* of a response: more is nobody's health page */
};

enum probe_state {
    PROBE_OFF,     /* not on a loop, or its backend is retired */
    PROBE_WAIT,    /* until it is due */
    PROBE_CONNECT, /* until the connection is up */
    PROBE_TALK,    /* the request goes out, the response comes in */
};

#define PROBE_MAGIC OBJ_TAG('p', 'r', 'o', 'b')
struct probe {
    uint32_t magic;
    enum probe_state state;
    struct backend *backend; /* its owner */
    /* set once */
    struct probe_conf conf; /* without its texts */
    char *request;
    size_t request_len;
    /* the management loop's */
    struct loop *loop; /* NULL: off */
    const struct h1_conf *h1;
    struct task task;
    struct timer timer; /* WAIT: due; else when it has taken too long */
    struct stream *stream;
    unsigned nth;               /* of the addresses */
    uint64_t began_ms;          /* monotonic */
    size_t sent, got, line_len; /* bytes */
    char line[PROBE_LINE_MAX];  /* the first of the response, cut to fit, NUL behind it */
    bool line_ended, ever;      /* ever: this is not the first */
    /* read by anybody, under its lock */
    pthread_mutex_t lock;
    double averaged; /* results the average is of, up to its rate */
    struct probe_seen seen;
};

/* probe.c: a result; says so to whom it may concern. */
void probe_note(struct probe *p, bool good, const char *what, int64_t took_ms);

/* probe_run.c */
void probe_start(struct probe *p, struct loop *l, const struct h1_conf *h1);
void probe_stop(struct probe *p);

#endif
