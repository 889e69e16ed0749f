/* probe_priv.h -- one backend's probe: its settings, what it saw, and the asking itself. */
#ifndef TARN_PROBE_PRIV_H
#define TARN_PROBE_PRIV_H

#include "daemon/base/loop.h"
#include "daemon/http/origin_exchange.h"
#include "daemon/origin/origin_priv.h"

enum {
    PROBE_LINE_MAX = sizeof(((struct probe_seen *)NULL)->last),
    PROBE_BYTES_MAX = 16 << 20, /* of a response's body: no health page has more */
    PROBE_ROOM = 1024,          /* of it are read at a time, and dropped */
};

enum probe_state {
    PROBE_OFF,     /* not on a loop, or its backend is retired */
    PROBE_WAIT,    /* until it is due */
    PROBE_CONNECT, /* until the connection is up */
    PROBE_TALK,    /* the request goes out, the response comes in */
};

struct probe_request {
    struct http_message head; /* in `memory` */
    char *memory;
    bool close;
};

#define PROBE_MAGIC OBJ_TAG('p', 'r', 'o', 'b')
struct probe {
    uint32_t magic;
    enum probe_state state;
    struct backend *backend; /* its owner */
    /* set once */
    struct probe_conf conf; /* without its texts */
    struct probe_request request;
    /* the management loop's */
    struct loop *loop; /* NULL: off */
    const struct origin_protocol *protocol;
    struct task task;
    struct timer timer; /* WAIT: due; else when it has taken too long */
    struct origin_exchange *x;
    unsigned nth;              /* of the addresses */
    uint64_t began_ms;         /* monotonic */
    size_t got;                /* bytes of the body */
    unsigned status;           /* of the response; 0: its head has not come */
    char line[PROBE_LINE_MAX]; /* "HTTP/1.1 200 OK", cut to fit; "" */
    char room[PROBE_ROOM];     /* lent to the exchange */
    bool ever;                 /* this is not the first */
    /* read by any thread, under its lock */
    pthread_mutex_t lock;
    double averaged; /* results the average is of, up to its rate */
    struct probe_seen seen;
};

/* probe.c: records a result and reports changes. */
void probe_note(struct probe *p, bool good, const char *what, int64_t took_ms);

/* probe_request.c: 0, TERR_NOMEM, or TERR_INVALID: it is said why. */
int probe_request_make(
    struct probe_request *q, const struct probe_conf *conf, const struct conf_backend *backend);

/* probe_run.c */
void probe_start(struct probe *p, struct loop *l, const struct origin_protocol *protocol);
void probe_stop(struct probe *p);

#endif
