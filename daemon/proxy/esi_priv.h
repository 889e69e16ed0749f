/* esi_priv.h -- what a page and its includes share. */
#ifndef TARN_ESI_PRIV_H
#define TARN_ESI_PRIV_H

#include "daemon/esi/esi_record.h"
#include "daemon/proxy/proxy.h"
#include "daemon/proxy/rep_esi.h"
#include "daemon/proxy/rep_priv.h"

enum {
    ESI_ITEMS = 256, /* of a page: read, and not sent; with a run between any two includes */
    ESI_SOURCES = 8, /* extents of the stored page that these lie in */
    ESI_RUNS = 8,    /* of an include: accepted, and not leased */
    ESI_OUTS = 8,    /* leases of the page: as many as a request has */
    ESI_BY_INCLUDE = UINT8_MAX,
};
_Static_assert((int)ESI_OUTS >= (int)LIMIT_LEASES, "a request's leases are all known");

enum esi_include_state {
    ESI_INC_ASKED, /* no head yet */
    ESI_INC_SHOWN, /* its body belongs to the page */
    ESI_INC_OVER,  /* what is in `run` is all there will be */
    ESI_INC_CUT,   /* it broke off: the page must not look as if it were whole */
    ESI_INC_AGAIN, /* its src failed: alt is to be asked once the request has ended */
};

struct esi_page;

struct esi_inc {
    struct exchange x;
    struct exchange_place place;
    struct list link; /* page->includes */
    struct esi_page *page;
    enum esi_include_state state;
    bool live;    /* its request has not ended */
    bool queued;  /* it is an item of its page */
    bool go_on;   /* onerror="continue" */
    bool has_alt; /* and it was not asked for */
    bool ends;    /* all of the body was accepted */
    uint16_t status;
    uint8_t first, n; /* of `run` */
    struct slice run[ESI_RUNS];
    uint64_t deadline_ms;             /* monotonic: it must have begun by then */
    uint64_t given, leased, returned; /* bytes: accepted, leased to the page, that came back */
    uint16_t nsrc, nalt;
    char extra[EXCHANGE_EXTRA];
    char url[]; /* src, alt */
};

struct esi_source {
    struct lease_extent ext;
    unsigned uses; /* items and leases */
    bool held;     /* leased */
};

struct esi_item {
    struct slice run; /* of a source */
    struct esi_inc *inc;
    uint8_t source;
};

struct esi_out {
    struct esi_inc *inc; /* with ESI_BY_INCLUDE */
    uint32_t len;        /* 0: not in use */
    uint8_t source;
};

/* The request's head for includes of the same authority, but for the path: made once. */
struct esi_head {
    struct http_message m;
    bool made;
};

struct esi_page {
    struct rep_filter filter;
    struct proxy *proxy;
    struct exchange *x;
    struct esi_tree *tree, own_tree;
    struct exchange_ops ops; /* of its includes */
    struct timer timer;
    uint64_t next_ms; /* monotonic: when to look which includes are late; TIMER_NEVER */
    struct list includes;
    struct esi_head head;
    struct slice rest; /* of the source `reading`: not decoded */
    uint8_t reading;   /* a source, or ESI_BY_INCLUDE: none */
    bool in_over;      /* all of the stored page was leased */
    bool raw, closing, stop;
    bool said; /* that an include was refused, or failed: once a page */
    int err;   /* what ends it instead, TERR_* */
    unsigned live, first, n;
    struct esi_source source[ESI_SOURCES];
    struct esi_out out[ESI_OUTS];
    struct esi_decoder decoder;
    struct esi_item item[ESI_ITEMS];
};

/* esi_include.c.  All is counted in the page. */
/* The page's next include.  NULL: it is refused, and said so. */
struct esi_inc *esi_include_new(struct esi_page *page, const struct esi_include *what);
/* Bytes of it for the page: > 0, *run; 0: it is over; TERR_AGAIN; TERR_CLOSED: it was cut. */
int esi_include_take(struct esi_inc *inc, struct slice *run);
/* So many came back. */
void esi_include_return(struct esi_inc *inc, size_t n);
/* It is no item any more. */
void esi_include_leave(struct esi_inc *inc);
/* The page goes: all is returned, and the request ends soon.  It frees itself. */
void esi_include_cancel(struct esi_inc *inc);
/* If it is late, it is not waited for.  When to look again; TIMER_NEVER. */
uint64_t esi_include_look(struct esi_inc *inc, uint64_t now_ms);

/* esi_include_head.c: the request for `url` as that of a client, in inc->x.  0, TERR_SYNTAX: there can be none;
 * TERR_LIMIT, TERR_NOMEM. */
int esi_include_head(struct esi_inc *inc, struct slice url);

const struct conf_esi *esi_conf(const struct esi_page *page);

#endif
