/* rep_esi.c -- text of the stored page and bodies of its includes, one behind the other.
 *
 *   stored extents -> decoder -> items (runs by reference, includes) -> leases of our own
 *
 * A stored extent goes back when the last of its runs did.  What is read ahead is bounded by items and extents, and
 * takes no memory: all is by reference. */
#include "daemon/base/terr.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/esi_priv.h"

enum {
    PAGE_EVENTS = 1024, /* decoded in a turn; markup is most of them, if they are that many */
};

static inline struct esi_page *
page_of(const struct rep_reader *rd)
{
    return container_of(rd->filter, struct esi_page, filter);
}

/* ---- the stored page ---- */

static void
page_drop_source(struct rep_reader *rd, unsigned i)
{
    struct esi_page *page = page_of(rd);
    struct esi_source *s = &page->source[i];
    const struct lease_returns back = {.ids = &s->ext.id, .n = 1};

    if (!s->held || s->uses > 0 || page->reading == i)
        return;
    tassert(rd->reading);
    s->held = false;
    rep_return_stored(rd, &back);
}

static bool
page_has_sources(const struct esi_page *page)
{
    for (unsigned i = 0; i < ESI_SOURCES; i++)
        if (page->source[i].held)
            return true;
    return false;
}

/* The next extent.  0, TERR_AGAIN, or TERR_CLOSED; in_over: there is none. */
static int
page_feed(struct rep_reader *rd, struct waiter *wait)
{
    struct esi_page *page = page_of(rd);
    struct lease_batch b = {.n = 0, .max = 1};
    unsigned i = 0;
    int n;

    tassert(page->rest.len == 0 && !page->in_over);
    while (i < ESI_SOURCES && page->source[i].held)
        i++;
    if (i == ESI_SOURCES)
        return TERR_AGAIN; /* until a run comes back */
    b.extents = &page->source[i].ext;
    n = rep_take_stored(rd, &b, page_has_sources(page), wait);
    if (n < 0)
        return n;
    page->in_over = rd->over;
    rd->over = false; /* our reader is not */
    if (n == 0)
        return 0;
    page->source[i].held = true;
    page->source[i].uses = 0;
    page->reading = (uint8_t)i;
    page->rest = slice_of(page->source[i].ext.ptr, page->source[i].ext.len);
    return 0;
}

static struct esi_item *
page_add(struct esi_page *page)
{
    tassert(page->n < ESI_ITEMS);
    return &page->item[(page->first + page->n++) % ESI_ITEMS];
}

static void
page_add_event(struct esi_page *page, const struct esi_event *ev)
{
    struct esi_inc *inc;

    if (ev->what == ESI_INCLUDE) {
        inc = page->raw ? NULL : esi_include_new(page, &ev->include);
        if (inc != NULL)
            *page_add(page) = (struct esi_item){.inc = inc};
    } else if (ev->what == ESI_TEXT || page->raw) {
        page->source[page->reading].uses++;
        *page_add(page) = (struct esi_item){.run = ev->run, .source = page->reading};
    }
}

/* Decodes until there are items enough, or nothing more is at hand. */
static void
page_read_ahead(struct rep_reader *rd, struct waiter *wait)
{
    struct esi_page *page = page_of(rd);

    for (unsigned events = 0; page->n < ESI_ITEMS && page->err == 0; events++) {
        struct esi_event ev;
        unsigned was = page->reading;
        int err = 0;

        if (events == PAGE_EVENTS) { /* the loop's other tasks come first */
            task_wake(page->x->task);
            return;
        }
        if (page->rest.len == 0) {
            page->reading = ESI_BY_INCLUDE;
            if (was != ESI_BY_INCLUDE)
                page_drop_source(rd, was);
            if (page->in_over)
                break;
            err = page_feed(rd, wait);
        }
        if (err == TERR_AGAIN)
            break;
        if (err == 0 && !esi_decode(&page->decoder, &page->rest, &ev))
            err = TERR_FRAMING;
        if (err != 0)
            page->err = err;
        else if (ev.what != ESI_NOTHING)
            page_add_event(page, &ev);
    }
    if (page->in_over && page->rest.len == 0 && !esi_decode_is_whole(&page->decoder) &&
        page->err == 0)
        page->err = TERR_FRAMING;
}

/* ---- leases ---- */

static int
page_free_out(const struct esi_page *page)
{
    for (int i = 0; i < ESI_OUTS; i++)
        if (page->out[i].len == 0)
            return i;
    return -1;
}

static void
page_lease(struct esi_page *page, struct lease_batch *b, int slot, struct slice run)
{
    tassert(run.len > 0 && run.len <= UINT32_MAX);
    page->out[slot].len = (uint32_t)run.len;
    b->extents[b->n++] =
        (struct lease_extent){run.ptr, (uint64_t)(slot + 1) << 3, (uint32_t)run.len, 0};
}

static void
page_pop(struct esi_page *page)
{
    tassert(page->n > 0);
    page->first = (page->first + 1) % ESI_ITEMS;
    page->n--;
}

/* One lease more.  False: not now. */
static bool
page_lease_next(struct esi_page *page, struct lease_batch *b)
{
    struct esi_item *item = &page->item[page->first];
    int slot = page_free_out(page), n;
    struct slice run;

    if (slot < 0 || b->n == b->max)
        return false;
    if (item->inc == NULL) {
        page->out[slot] = (struct esi_out){.source = item->source};
        page_lease(page, b, slot, item->run);
        page_pop(page);
        return true;
    }
    n = esi_include_take(item->inc, &run);
    if (n == TERR_AGAIN)
        return false;
    if (n > 0) {
        page->out[slot] = (struct esi_out){.inc = item->inc, .source = ESI_BY_INCLUDE};
        page_lease(page, b, slot, run);
        return true;
    }
    if (n < 0) {
        page->err = n;
        page->stop = true; /* nothing may stand behind it */
    }
    esi_include_leave(item->inc);
    page_pop(page);
    return true;
}

static void
page_look_at_time(struct esi_page *page)
{
    struct loop *loop = page->proxy->loop;
    struct list *l, *next;

    if (loop->clock.mono_ms < page->next_ms)
        return;
    page->next_ms = TIMER_NEVER;
    for (l = page->includes.next; l != &page->includes; l = next) {
        uint64_t at = esi_include_look(container_of(l, struct esi_inc, link), loop->clock.mono_ms);

        next = l->next;
        page->next_ms = at < page->next_ms ? at : page->next_ms;
    }
    if (page->next_ms != TIMER_NEVER)
        timer_set(&loop->wheel, &page->timer, page->next_ms);
}

static int
page_take(struct rep_reader *rd, struct lease_batch *b, bool lent, struct waiter *wait)
{
    struct esi_page *page = page_of(rd);
    unsigned had = b->n;
    bool went = true;

    (void)lent;
    tassert(!rd->over && b->n < b->max && !page->closing);
    page_look_at_time(page);
    while (went) {
        page_read_ahead(rd, wait);
        went = false;
        while (page->n > 0 && !page->stop && page_lease_next(page, b))
            went = true;
    }
    if (b->n > had)
        return (int)(b->n - had);
    if (page->stop || (page->err != 0 && page->n == 0))
        return TERR_CLOSED;
    rd->over = page->n == 0 && page->in_over && page->rest.len == 0;
    return rd->over ? 0 : TERR_AGAIN;
}

static void
page_return(struct rep_reader *rd, const struct lease_returns *back)
{
    struct esi_page *page = page_of(rd);

    for (unsigned i = 0; i < back->n; i++) {
        uint64_t n = back->ids[i] >> 3;
        struct esi_out *out;

        if (n == 0)
            continue; /* LEASE_NO_RETURN */
        tassert(n <= ESI_OUTS && page->out[n - 1].len > 0);
        out = &page->out[n - 1];
        if (out->source == ESI_BY_INCLUDE) {
            esi_include_return(out->inc, out->len);
        } else {
            page->source[out->source].uses--;
            page_drop_source(rd, out->source);
        }
        out->len = 0;
    }
}

/* Includes may take until another loop's notification has landed: it is called again when the last has gone. */
static bool
page_end(struct rep_reader *rd)
{
    struct esi_page *page = page_of(rd);
    struct proxy *p = page->proxy;
    struct list *l, *next;

    if (!page->closing) {
        page->closing = true;
        page->reading = ESI_BY_INCLUDE;
        timer_unlink(&page->timer);
        for (unsigned i = 0; i < ESI_SOURCES; i++) {
            page->source[i].uses = 0;
            page_drop_source(rd, i);
        }
        for (l = page->includes.next; l != &page->includes; l = next) {
            next = l->next;
            esi_include_cancel(container_of(l, struct esi_inc, link));
        }
    }
    if (page->live > 0)
        return false;
    tassert(list_empty(&page->includes));
    rd->filter = NULL;
    usage_free(&p->loop->usage, USAGE_REQUEST, page);
    return true;
}

const struct conf_esi *
esi_conf(const struct esi_page *page)
{
    return &snapshot_conf(registry_snapshot(page->proxy->registry))->esi;
}

int
rep_esi(struct rep_reader *rd, const struct esi_page_spec *spec)
{
    struct loop *loop = spec->proxy->loop;
    struct esi_page *page = usage_alloc(&loop->usage, USAGE_REQUEST, sizeof(*page));

    tassert(rd->filter == NULL && !rd->reading);
    if (page == NULL)
        return TERR_NOMEM;
    memset(page, 0, offsetof(struct esi_page, decoder));
    page->filter = (struct rep_filter){page_take, page_return, page_end, false, NULL};
    page->proxy = spec->proxy;
    page->x = spec->x;
    page->raw = spec->raw;
    page->reading = ESI_BY_INCLUDE;
    list_init(&page->includes);
    timer_init(&page->timer, spec->x->task);
    esi_decode_init(&page->decoder);
    page->tree = spec->x->place != NULL ? spec->x->place->tree : &page->own_tree;
    page->next_ms = TIMER_NEVER;
    rd->filter = &page->filter;
    return 0;
}
