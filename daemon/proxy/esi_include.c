/* esi_include.c -- an include: a request that no connection sent, and a response that goes into a page.
 *
 * It is an exchange like a client's, so policy, cache, coalescing, limits and log are those of any request.  What it is
 * given to send is kept by reference until the page's client has taken it: a slow client slows the include's own
 * response down, and costs nothing else.  Nothing here runs a request: it is woken. */
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/proxy/esi_priv.h"
#include "daemon/proxy/req_priv.h"

static struct esi_inc *
inc_of(struct exchange *x)
{
    return container_of(x, struct esi_inc, x);
}

/* Once a page: its author reads it, and a thousand lines say no more. */
static void
inc_say(struct esi_page *page, const char *what, struct slice url, unsigned status)
{
    const struct http_message *h = &page->x->head;
    struct slice host = http_host(h), path = http_path(h);

    if (page->said)
        return;
    page->said = true;
    elog(ELOG_WARN, "esi: %s src=%.*s status=%u page=%.*s%.*s level=%u", what,
        (int)(url.len < 200 ? url.len : 200), url.ptr, status, (int)host.len, host.ptr,
        (int)(path.len < 200 ? path.len : 200), path.ptr,
        page->x->place != NULL ? page->x->place->level : 0);
}

static void
inc_failed(struct esi_inc *inc, const char *what)
{
    counter_add(inc->page->proxy->counters, COUNTER_esi_failed, 1);
    inc_say(inc->page, what, slice_of(inc->url, inc->nsrc), inc->status);
}

/* Its request ends when it looks. */
static void
inc_hang_up(struct esi_inc *inc)
{
    inc->x.gone = true;
    inc->x.writable = false;
    if (inc->live && inc->x.task != NULL) /* NULL: there was no memory for its request */
        task_wake(inc->x.task);
}

static void
inc_maybe_free(struct esi_inc *inc)
{
    struct esi_page *page = inc->page;

    if (inc->live || inc->queued || inc->leased != inc->returned)
        return;
    list_del(&inc->link);
    usage_free(&page->proxy->loop->usage, USAGE_REQUEST, inc);
}

/* ---- the exchange's operations ---- */

static ssize_t
inc_body_read(struct exchange *x, char *dst, size_t room)
{
    (void)x;
    (void)dst;
    (void)room;
    return 0;
}

static int
inc_interim(struct exchange *x, const struct http_message *m)
{
    (void)m;
    return x->gone ? TERR_CLOSED : 0;
}

static void
inc_local(struct exchange *x, uint8_t addr[16], uint16_t *port)
{
    struct exchange *parent = inc_of(x)->page->x;

    parent->ops->local(parent, addr, port);
}

static void
inc_tunnel(struct exchange *x)
{
    (void)x;
    TUNREACHABLE("an include asks for no upgrade");
}

/* Nothing of what was accepted will be read again. */
static void
inc_settle(struct esi_inc *inc)
{
    inc->x.sent = inc->returned;
    if (inc->ends && inc->returned == inc->given)
        inc->x.done = true;
    if (inc->state == ESI_INC_CUT && inc->returned == inc->given)
        inc->x.gone = true;
}

/* In a coding: its bytes are no text. */
static bool
inc_is_coded(const struct exchange_response *r)
{
    static const char name[] = "\ncontent-encoding:";
    struct slice s = r->rendered;

    if (r->message != NULL)
        return http_has(r->message, HTTP_F_CONTENT_ENCODING);
    for (const char *at = s.ptr, *end = s.ptr + s.len;
         (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        if ((size_t)(end - at) >= sizeof(name) - 1 && (at[1] | 0x20) == 'c' &&
            strncasecmp(at, name, sizeof(name) - 1) == 0)
            return true;
    return false;
}

/* The head: does its body belong to the page? */
static bool
inc_begins(struct esi_inc *inc, const struct exchange_response *r)
{
    bool coded = inc_is_coded(r) && !r->bodyless, good = r->status == 200 || r->status == 204;

    inc->status = (uint16_t)r->status;
    if (good && !coded) {
        inc->state = ESI_INC_SHOWN;
        return true;
    }
    if (inc->has_alt) {
        inc->state = ESI_INC_AGAIN;
        return false;
    }
    inc_failed(inc, coded ? "an include in a coding is left out" : "an include failed");
    inc->state = coded || inc->go_on ? ESI_INC_OVER : ESI_INC_SHOWN;
    return inc->state == ESI_INC_SHOWN;
}

/* May so many bytes more be included? */
static bool
inc_pays(struct esi_inc *inc, size_t n)
{
    struct esi_tree *tree = inc->page->tree;

    tree->bytes += n;
    counter_add(inc->page->proxy->counters, COUNTER_esi_bytes, n);
    return tree->bytes <= (uint64_t)esi_conf(inc->page)->bytes;
}

static ssize_t
inc_send(struct exchange *x, const struct exchange_response *r, const struct iovec *body,
    unsigned n, unsigned flags)
{
    struct esi_inc *inc = inc_of(x);
    size_t taken = 0;
    unsigned i = 0;

    if (x->gone)
        return TERR_CLOSED;
    if (r != NULL && !inc_begins(inc, r)) {
        inc_hang_up(inc);
        task_wake(inc->page->x->task);
        return TERR_CLOSED;
    }
    for (; i < n && inc->n < ESI_RUNS; i++) {
        if (body[i].iov_len == 0)
            continue;
        inc->run[(inc->first + inc->n++) % ESI_RUNS] = slice_of(body[i].iov_base, body[i].iov_len);
        taken += body[i].iov_len;
    }
    inc->given += taken;
    if (!inc_pays(inc, taken) && inc->state == ESI_INC_SHOWN) {
        inc_failed(inc, "included bodies are too long together");
        inc->state = ESI_INC_CUT;
    }
    inc->ends = i == n && (flags & EXCHANGE_END) != 0;
    if (inc->ends && inc->state == ESI_INC_SHOWN)
        inc->state = ESI_INC_OVER;
    x->writable = inc->n < ESI_RUNS && !inc->ends;
    inc_settle(inc);
    task_wake(inc->page->x->task);
    return (ssize_t)taken;
}

/* What came is all there will be.  Nothing of it was shown: it failed; else the page is cut. */
static void
inc_reset(struct exchange *x, int why)
{
    struct esi_inc *inc = inc_of(x);

    (void)why;
    if (inc->state == ESI_INC_ASKED && inc->has_alt)
        inc->state = ESI_INC_AGAIN;
    else if (inc->state <= ESI_INC_SHOWN) {
        bool began = inc->leased > 0;

        inc_failed(inc, "an include broke off");
        inc->state =
            inc->state == ESI_INC_ASKED || (inc->go_on && !began) ? ESI_INC_OVER : ESI_INC_CUT;
        if (inc->state == ESI_INC_OVER) { /* what was accepted is not shown */
            inc->returned = inc->leased = inc->given;
            inc->n = 0;
        }
    }
    if (inc->returned == inc->given)
        inc_hang_up(inc);
    x->writable = false;
    task_wake(inc->page->x->task);
}

static void
inc_release(struct exchange *x)
{
    struct esi_inc *inc = inc_of(x);
    struct esi_page *page = inc->page;

    tassert(inc->live && page->live > 0);
    arena_fini(&x->arena);
    inc->live = false;
    page->live--;
    if (inc->state == ESI_INC_ASKED || inc->state == ESI_INC_SHOWN)
        inc->state = page->closing ? ESI_INC_OVER : ESI_INC_CUT;
    task_wake(page->x->task);
    inc_maybe_free(inc);
}

/* ---- the request ---- */

static const struct exchange_ops inc_ops = {
    .body_read = inc_body_read,
    .send = inc_send,
    .interim = inc_interim,
    .tunnel = inc_tunnel,
    .reset = inc_reset,
    .local = inc_local,
    .release = inc_release,
};

/* Asks for `url`.  0, or why not. */
static int
inc_start(struct esi_inc *inc, struct slice url)
{
    struct esi_page *page = inc->page;
    const struct exchange *parent = page->x;
    struct exchange *x = &inc->x;
    int err;

    memset(x, 0, sizeof(*x));
    arena_init(&x->arena, parent->arena.pool);
    x->ops = &page->ops;
    x->conn = parent->conn;
    x->scheme = parent->scheme;
    x->place = &inc->place;
    x->xid = esi_next_xid(page->proxy);
    x->start_us = clock_read_us(&page->proxy->loop->clock);
    x->extra = inc->extra;
    x->writable = true;
    err = esi_include_head(inc, url);
    if (err != 0) {
        arena_fini(&x->arena);
        return err;
    }
    inc->state = ESI_INC_ASKED;
    inc->deadline_ms = loop_deadline(page->proxy->loop, esi_conf(page)->timeout);
    if (page->next_ms == TIMER_NEVER) { /* else another one's comes first */
        page->next_ms = inc->deadline_ms;
        timer_set(&page->proxy->loop->wheel, &page->timer, page->next_ms);
    }
    inc->live = true;
    page->live++;
    page->tree->includes++;
    counter_add(page->proxy->counters, COUNTER_esi_includes, 1);
    req_start_include(page->proxy, x);
    return 0;
}

static struct esi_inc *
inc_refuse(struct esi_page *page, const char *why, struct slice url)
{
    counter_add(page->proxy->counters, COUNTER_esi_refused, 1);
    inc_say(page, why, url, 0);
    return NULL;
}

/* Its request cannot be made of src: alt, else nothing. */
static bool
inc_try(struct esi_inc *inc)
{
    bool alt = inc->state == ESI_INC_AGAIN;

    if (!alt && inc_start(inc, slice_of(inc->url, inc->nsrc)) == 0)
        return true;
    if (!inc->has_alt)
        return false;
    inc->has_alt = false;
    return inc_start(inc, slice_of(inc->url + inc->nsrc, inc->nalt)) == 0;
}

struct esi_inc *
esi_include_new(struct esi_page *page, const struct esi_include *what)
{
    const struct conf_esi *conf = esi_conf(page);
    const struct exchange_place *place = page->x->place;
    unsigned level = (place != NULL ? place->level : 0) + 1;
    struct esi_inc *inc;

    if (level > (unsigned)conf->depth)
        return inc_refuse(page, "an include is too deep", what->src);
    if (page->tree->includes >= (unsigned)conf->includes)
        return inc_refuse(page, "too many includes", what->src);
    inc = usage_alloc(
        &page->proxy->loop->usage, USAGE_REQUEST, sizeof(*inc) + what->src.len + what->alt.len);
    if (inc == NULL)
        return inc_refuse(page, "no memory for an include", what->src);
    memset(inc, 0, offsetof(struct esi_inc, extra));
    inc->page = page;
    inc->place =
        (struct exchange_place){page->x, place != NULL ? place->top : page->x, level, page->tree};
    inc->go_on = what->go_on;
    inc->has_alt = what->alt.len > 0;
    inc->nsrc = (uint16_t)what->src.len;
    inc->nalt = (uint16_t)what->alt.len;
    memcpy(inc->url, what->src.ptr, what->src.len);
    if (inc->nalt > 0)
        memcpy(inc->url + inc->nsrc, what->alt.ptr, what->alt.len);
    if (page->ops.send == NULL) {
        page->ops = inc_ops;
        page->ops.rendering = page->proxy->rendering;
        counter_add(page->proxy->counters, COUNTER_esi_pages, 1);
    }
    page->filter.busy = true;
    list_add_tail(&page->includes, &inc->link);
    inc->queued = true;
    if (inc_try(inc))
        return inc;
    inc_refuse(page, "no request can be made for an include", what->src);
    inc->queued = false;
    inc_maybe_free(inc);
    return NULL;
}

/* ---- the page's side ---- */

int
esi_include_take(struct esi_inc *inc, struct slice *run)
{
    if (inc->n > 0 && inc->state != ESI_INC_AGAIN) {
        *run = inc->run[inc->first];
        inc->first = (uint8_t)((inc->first + 1) % ESI_RUNS);
        inc->n--;
        inc->leased += run->len;
        if (inc->live && !inc->x.writable && !inc->ends && inc->state == ESI_INC_SHOWN) {
            inc->x.writable = true;
            task_wake(inc->x.task);
        }
        return 1;
    }
    switch (inc->state) {
    case ESI_INC_ASKED:
    case ESI_INC_SHOWN:
        return TERR_AGAIN;
    case ESI_INC_OVER:
        return 0;
    case ESI_INC_CUT:
        return TERR_CLOSED;
    case ESI_INC_AGAIN:
        break;
    }
    if (inc->live)
        return TERR_AGAIN;
    inc->given = inc->leased = inc->returned = 0;
    inc->first = inc->n = 0;
    inc->ends = false;
    if (inc_try(inc))
        return TERR_AGAIN;
    inc_failed(inc, "an include has no alt that can be fetched");
    inc->state = ESI_INC_OVER;
    return 0;
}

void
esi_include_return(struct esi_inc *inc, size_t n)
{
    inc->returned += n;
    tassert(inc->returned <= inc->given);
    inc_settle(inc);
    if (inc->live)
        task_wake(inc->x.task);
    else
        inc_maybe_free(inc);
}

void
esi_include_leave(struct esi_inc *inc)
{
    inc->queued = false;
    inc_maybe_free(inc);
}

void
esi_include_cancel(struct esi_inc *inc)
{
    inc->queued = false;
    inc->returned = inc->leased = inc->given;
    inc->n = 0;
    inc_settle(inc);
    if (!inc->x.done)
        inc->x.gone = true;
    if (inc->live)
        task_wake(inc->x.task);
    else
        inc_maybe_free(inc);
}

uint64_t
esi_include_look(struct esi_inc *inc, uint64_t now_ms)
{
    if (inc->state != ESI_INC_ASKED)
        return TIMER_NEVER;
    if (now_ms < inc->deadline_ms)
        return inc->deadline_ms;
    inc_failed(inc, "an include took too long");
    inc->state = inc->has_alt ? ESI_INC_AGAIN : ESI_INC_OVER;
    inc_hang_up(inc);
    return TIMER_NEVER;
}
