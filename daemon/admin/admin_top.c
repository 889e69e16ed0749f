/* admin_top.c -- what is asked for most, and the last answers that were none. */
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/admin/observer.h"
#include "daemon/base/address.h"
#include "daemon/base/loop.h"
#include "daemon/origin/director.h"

enum {
    TOP_USUAL = 20,
    TOP_MOST = 256,
};

static const char *const top_of[] = {"url", "client", "backend", NULL};
static const char *const top_by[] = {"requests", "bytes", "misses", NULL};

struct top_seek {
    unsigned number;
    const char *name;
};

/* Logs have the number, which stays; names are looked up when they are shown.
 * A number is given to another backend once its owner has left: the name is that of now, which
 * for older records may be the wrong one. */
static void
top_on_backend(void *ctx, struct backend *b)
{
    struct top_seek *seek = ctx;

    if (backend_number(b) == seek->number)
        seek->name = backend_full_name(b);
}

/* `logged` is 1 + its number; null: none was asked, or it has left meanwhile. */
static json_t *
top_backend(const struct admin *a, unsigned logged)
{
    struct top_seek seek = {.number = logged - 1};

    if (logged > 0)
        registry_each(a->env.registry, top_on_backend, &seek);
    return seek.name != NULL ? json_string(seek.name) : json_null();
}

static json_t *
top_client(const uint8_t addr[16])
{
    char text[ADDRESS_TEXT_MAX];

    address_text(addr, text);
    return json_string(text);
}

/* Addresses and numbers are kept as their bytes in the records, and made text only for what is
 * shown. */
static json_t *
top_name(const struct admin *a, enum observer_of of, struct slice text)
{
    uint8_t addr[16] = {0};
    uint16_t logged = 0;

    switch (of) {
    case OBSERVER_CLIENT:
        memcpy(addr, text.ptr, sizeof(addr));
        return top_client(addr);
    case OBSERVER_BACKEND:
        memcpy(&logged, text.ptr, sizeof(logged));
        return top_backend(a, logged);
    case OBSERVER_URL:
    case OBSERVER_OF:
        break;
    }
    return json_any_text(text);
}

/* Rates of all requests, though only a share was looked at.
 * `share` below 1: records were skipped because more came than a tick allows. */
static void
top_rates(json_t *o, const double *sums, const struct observer_seen *seen)
{
    /* Shorter by what was not looked at: so the rate is that of all. */
    double s = seen->window_s * seen->share;

    json_put(o, "requests_s", json_real(s > 0 ? sums[OBSERVER_REQUESTS] / s : 0));
    json_put(o, "bytes_s", json_real(s > 0 ? sums[OBSERVER_BYTES] / s : 0));
    json_put(o, "misses_s", json_real(s > 0 ? sums[OBSERVER_MISSES] / s : 0));
    json_put(o, "mean_us",
        sums[OBSERVER_REQUESTS] > 0 ? json_real(sums[OBSERVER_TIME] / sums[OBSERVER_REQUESTS])
                                    : json_null());
}

static json_t *
top_row(const struct admin *a, enum observer_of of, enum observer_by by,
    const struct topk_name *name, const struct observer_seen *seen)
{
    json_t *o = json_object();

    json_put(o, "name", top_name(a, of, name->text));
    top_rates(o, name->sums, seen);
    json_put(o, "share", json_real(seen->sums[by] > 0 ? name->sums[by] / seen->sums[by] : 0));
    json_put(o, "unsure",
        /* What the weight has taken over from the name that was there before. */
        json_real(seen->sums[by] > 0 ? (name->weight - name->sums[by]) / seen->sums[by] : 0));
    return o;
}

void
admin_do_top(struct admin_call *c)
{
    static const struct admin_arg args[] = {{.name = "of", .words = top_of},
        {.name = "by", .words = top_by},
        {.name = "limit", .base = 10, .least = 1, .most = TOP_MOST}, {.name = NULL}};
    uint64_t values[] = {OBSERVER_URL, OBSERVER_REQUESTS, TOP_USUAL};
    /* Borrowed from the observer: its tables change at the next tick: used up before this
     * returns. */
    struct topk_name names[TOP_MOST];
    struct observer_seen seen;
    json_t *o, *list;
    unsigned n;

    if (!admin_args(c, args, values))
        return;
    /* The first question begins the watch, each later one prolongs it (invariant 12). */
    if (observer_ask(c->admin->observer) != 0) {
        admin_fail_terr(c, TERR_NOMEM, "top");
        return;
    }
    n = observer_top(c->admin->observer, (enum observer_of)values[0], (enum observer_by)values[1],
        names, (unsigned)values[2], &seen);
    o = json_object();
    list = json_array();
    json_put_text(o, "of", top_of[values[0]]);
    json_put_text(o, "by", top_by[values[1]]);
    json_put(o, "watched_s", json_real(seen.watched_s));
    json_put(o, "window_s", json_real(seen.window_s));
    json_put(o, "seen", json_real(seen.share));
    top_rates(o, seen.sums, &seen);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, top_row(c->admin, (enum observer_of)values[0],
                                        (enum observer_by)values[1], &names[i], &seen));
    json_put(o, "top", list);
    admin_answer(c, 200, o);
}

/* Flags that the status does not show: a 503 of ours and one of the backend's look alike. */
static void
top_why(json_t *list, const struct shmlog_req_fixed *f, unsigned flag, const char *word)
{
    if ((f->flags & flag) != 0)
        json_array_append_new(list, json_string(word));
}

static json_t *
top_error(const struct admin *a, const struct observer_error *e)
{
    json_t *o = json_object(), *why = json_array();
    const struct shmlog_req_fixed *f = &e->fixed;

    json_put(o, "at", json_real((double)e->at_ms / 1000));
    json_put(o, "status", json_integer(f->status));
    json_put(o, "host", json_any_text(slice_of(e->host, e->host_len)));
    json_put(o, "request", json_any_text(slice_of(e->line, e->line_len)));
    json_put(o, "client", top_client(f->addr));
    json_put(o, "backend", top_backend(a, f->backend));
    json_put(o, "took_us", json_integer(f->duration_us));
    top_why(why, f, SHMLOG_REQ_SYNTH, "made by tarnd");
    top_why(why, f, SHMLOG_REQ_BAD, "malformed");
    top_why(why, f, SHMLOG_REQ_TRUNCATED, "truncated");
    json_put(o, "why", why);
    return o;
}

/* The newest first: they were read worker by worker. */
static int
top_compare(const void *a, const void *b)
{
    const struct observer_error *x = *(const struct observer_error *const *)a;
    const struct observer_error *y = *(const struct observer_error *const *)b;

    return (x->at_ms < y->at_ms) - (x->at_ms > y->at_ms);
}

void
admin_do_errors(struct admin_call *c)
{
    const struct observer_error *errors[OBSERVER_ERRORS];
    json_t *o, *list;
    unsigned n = 0;

    if (observer_ask(c->admin->observer) != 0) {
        admin_fail_terr(c, TERR_NOMEM, "errors");
        return;
    }
    o = json_object();
    list = json_array();
    while (n < OBSERVER_ERRORS && (errors[n] = observer_nth_error(c->admin->observer, n)) != NULL)
        n++;
    qsort(errors, n, sizeof(errors[0]), top_compare);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, top_error(c->admin, errors[i]));
    json_put(o, "errors", list);
    admin_answer(c, 200, o);
}
