/* ctl_log_group.c -- what the log says of a request, together.
 *
 * Records of a request and of its fetch come in chunks, mixed with those of other requests.  A
 * group collects the text of one request under its id (xid); a fetch names its request as its
 * parent, and is added there.
 *
 *   Begin of fetch            fetches + 1
 *   End of fetch              fetches - 1
 *   Req of the request        over: the request's line can be printed
 *   over and fetches == 0     printed and forgotten
 *
 * Text is made when a record comes, because its chunk is overwritten soon.  Everything is
 * bounded: the number of groups, the text of each, and the time for which one that is over waits
 * for its fetch.
 */
#include "daemon/ctl/ctl_log_group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/ctl/ctl.h"
#include "daemon/log/access_format.h"
#include "daemon/shm/log_filter.h"

enum {
    GROUPS_MAX = 4096,       /* that wait for their end; then the oldest is forgotten */
    GROUPS_BUCKETS = 1024,   /* a power of two */
    GROUP_TEXT_MAX = 262144, /* of its records; more is left out */
    GROUP_PATIENCE_MS = 3000 /* for the fetch of a request that is over */
};

struct text {
    char *ptr;
    size_t len, room;
    bool cut;
};

struct log_group {
    struct list age;        /* in g->groups, the oldest first */
    struct log_group *next; /* in its bucket */
    uint64_t xid;
    uint32_t worker;
    unsigned fetches;     /* that have begun and not ended */
    bool began;           /* one was seen beginning */
    bool over;            /* `req` is there */
    bool torn;            /* some records may be missing */
    uint64_t over_ms;     /* when */
    struct text texts[2]; /* the request's records; its fetches' */
    struct shmlog_req req;
    char strings[4 * SHMLOG_TEXT_MAX + SHMLOG_TLS_MAX]; /* req's */
};

struct log_groups {
    const struct log_filter *filter;
    struct list groups;
    unsigned n;
    struct log_group *buckets[GROUPS_BUCKETS];
};

/* ---- text ---- */

/* Without memory the text is cut, too: a group that shows less is better than a log that ends. */
static void
text_add(struct text *t, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    if (t->len + n > GROUP_TEXT_MAX)
        t->cut = true;
    /* Nothing behind the cut: a gap in the middle would not show. */
    if (t->cut)
        return;
    if (t->len + n > t->room) {
        size_t room = (t->len + n) * 2;
        char *more = realloc(t->ptr, room);

        if (more == NULL) {
            t->cut = true;
            return;
        }
        t->ptr = more;
        t->room = room;
    }
    memcpy(t->ptr + t->len, bytes, n);
    t->len += n;
}

/* Printable ASCII, all else as \xHH: what clients send is shown on a terminal.  In pieces of up
 * to 1 KiB.  8 bytes are kept for the longest step, "\xHH" with its NUL. */
static void
text_add_escaped(struct text *t, struct slice s)
{
    char out[4 * 256];
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (n > sizeof(out) - 8) {
            text_add(t, out, n);
            n = 0;
        }
        if (c >= 0x20 && c < 0x7f)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 8, "\\x%02x", c);
    }
    text_add(t, out, n);
}

/* version=TLSv1.3 cipher=... : those that there are. */
static void
text_add_tls(struct text *t, const struct shmlog_rec *rec)
{
    const struct shmlog_req req = {.tls = rec->payload};
    const char *between = "";

    for (unsigned i = 0; i < SHMLOG_TLS_COUNT; i++) {
        struct slice text = shmlog_req_tls(&req, i);

        if (text.len == 0)
            continue;
        text_add(t, between, strlen(between));
        text_add(t, shmlog_tls_name(i), strlen(shmlog_tls_name(i)));
        text_add(t, "=", 1);
        text_add_escaped(t, text);
        between = " ";
    }
}

static void
text_add_payload(struct text *t, const struct shmlog_rec *rec)
{
    char number[32];
    struct slice label;
    uint64_t n;

    switch (shmlog_tag_payload(rec->tag)) {
    case SHMLOG_PAYLOAD_NUM:
        if (shmlog_rec_num(rec, &n))
            text_add(t, number, (size_t)snprintf(number, sizeof(number), "%" PRIu64, n));
        break;
    case SHMLOG_PAYLOAD_EVENT:
        if (!shmlog_rec_event(rec, &label, &n))
            break;
        text_add_escaped(t, label);
        text_add(t, number, (size_t)snprintf(number, sizeof(number), " %" PRIu64 " us", n));
        break;
    case SHMLOG_PAYLOAD_TLS:
        text_add_tls(t, rec);
        break;
    case SHMLOG_PAYLOAD_TEXT:
    case SHMLOG_PAYLOAD_FIELD:
    case SHMLOG_PAYLOAD_REQ:
        text_add_escaped(t, rec->payload);
        if (rec->cut)
            text_add(t, "...", 3);
        break;
    }
}

/* "0 00000000000a1b2c REQ ReqMethod GET": worker, id, kind of chunk, tag, value. */
void
log_print_record(const struct shmlog_view *view, const struct shmlog_rec *rec,
    const struct backend_names_view *names, char *json)
{
    struct text t = {.ptr = NULL};
    struct shmlog_req req;

    printf("%u %016" PRIx64 " %s %s ", view->worker, view->ids.xid, shmlog_kind_name(view->kind),
        shmlog_tag_name(rec->tag));
    if (shmlog_rec_req(rec, view, &req)) {
        fwrite(json, 1, access_format_named(json, ACCESS_FORMAT_JSON, &req, names), stdout);
        return;
    }
    text_add_payload(&t, rec);
    if (t.len > 0)
        fwrite(t.ptr, 1, t.len, stdout);
    putchar('\n');
    free(t.ptr);
}

/* ---- groups ---- */

static struct log_group **
group_bucket(struct log_groups *g, uint64_t xid)
{
    return &g->buckets[xid & (GROUPS_BUCKETS - 1)];
}

/* Out of its bucket and out of the list by age; its place counts against GROUPS_MAX no more. */
static void
group_free(struct log_groups *g, struct log_group *gr)
{
    struct log_group **at = group_bucket(g, gr->xid);

    while (*at != gr)
        at = &(*at)->next;
    *at = gr->next;
    list_del(&gr->age);
    g->n--;
    free(gr->texts[0].ptr);
    free(gr->texts[1].ptr);
    free(gr);
}

/* The group of an id; made if it is not there.  NULL: no memory. */
static struct log_group *
group_get(struct log_groups *g, uint64_t xid, uint32_t worker)
{
    struct log_group **at = group_bucket(g, xid), *gr;

    for (gr = *at; gr != NULL; gr = gr->next)
        if (gr->xid == xid)
            return gr;
    /* Requests without an end, as tunnels, must not fill memory. */
    if (g->n == GROUPS_MAX)
        group_free(g, container_of(g->groups.next, struct log_group, age));
    gr = malloc(sizeof(*gr));
    if (gr == NULL)
        return NULL;
    /* Not the strings, which are most of it. */
    memset(gr, 0, offsetof(struct log_group, strings));
    gr->xid = xid;
    gr->worker = worker;
    at = group_bucket(g, xid);
    gr->next = *at;
    *at = gr;
    list_add_tail(&g->groups, &gr->age);
    g->n++;
    return gr;
}

/* The strings outlive their chunk.  `strings` has room for four texts and those of TLS, each at
 * the bound that the reader keeps (SHMLOG_TEXT_MAX, SHMLOG_TLS_MAX).  A fifth text in shmlog_req
 * needs more room there. */
static void
group_keep_req(struct log_group *gr, const struct shmlog_req *req)
{
    struct slice *strings[] = {
        &gr->req.line, &gr->req.host, &gr->req.referer, &gr->req.agent, &gr->req.tls};
    char *to = gr->strings;

    gr->req = *req;
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        if (strings[i]->len > 0)
            memcpy(to, strings[i]->ptr, strings[i]->len);
        /* Into the copy: a chunk is gone with the next one. */
        strings[i]->ptr = to;
        to += strings[i]->len;
    }
}

static void
group_add_line(struct log_group *gr, const struct shmlog_view *view, const struct shmlog_rec *rec)
{
    struct text *t = &gr->texts[view->kind == SHMLOG_KIND_FETCH];
    char name[32];

    text_add(
        t, name, (size_t)snprintf(name, sizeof(name), "    %-14s ", shmlog_tag_name(rec->tag)));
    text_add_payload(t, rec);
    text_add(t, "\n", 1);
}

/* "1.5 ms" */
static void
group_duration(char text[24], uint32_t us)
{
    if (us < 1000)
        snprintf(text, 24, "%u us", us);
    else if (us < 1000000)
        snprintf(text, 24, "%.1f ms", us / 1e3);
    else
        snprintf(text, 24, "%.1f s", us / 1e6);
}

/* 04:10:50.123 200 miss GET www.example.com/a, 812 B in 1.3 ms to 192.0.2.7:51234 (xid) */
static void
group_print_req(const struct log_group *gr)
{
    const struct shmlog_req_fixed *f = &gr->req.fixed;
    const char *word = access_cache_word(f->flags), *space;
    char clock[16] = "-", took[24], size[16], client[64];
    struct text t = {.ptr = NULL};
    time_t s = (time_t)(f->start_ms / 1000);
    struct slice rest = gr->req.line;
    struct tm tm;

    if (localtime_r(&s, &tm) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    space = rest.len > 0 ? memchr(rest.ptr, ' ', rest.len) : NULL;
    if (space != NULL) {
        text_add_escaped(&t, slice_of(rest.ptr, (size_t)(space - rest.ptr) + 1));
        rest = slice_of(space + 1, (size_t)(rest.ptr + rest.len - space) - 1);
        text_add_escaped(&t, gr->req.host);
    }
    text_add_escaped(&t, rest);
    ctl_bytes(size, f->head_bytes + f->body_bytes);
    group_duration(took, f->duration_us);
    access_client_text(client, f);
    printf("%s.%03d %u %s %.*s, %s in %s%s to %s", clock, (int)(f->start_ms % 1000), f->status,
        word != NULL ? word : "-", (int)t.len, t.len > 0 ? t.ptr : "", size, took,
        f->flags & SHMLOG_REQ_TRUNCATED ? ", cut short," : "", client);
    if (f->port != 0)
        printf(":%u", f->port);
    printf(" (%016" PRIx64 ")\n", gr->xid);
    free(t.ptr);
}

static void
group_print_text(const struct text *t)
{
    if (t->len > 0)
        fwrite(t->ptr, 1, t->len, stdout);
    if (t->cut)
        puts("    ... and more");
}

/* Shows it, if it is asked for, and forgets it.  Returns whether it was shown.  The caller's
 * pointer is dangling afterwards, whether or not anything was shown. */
static bool
group_print(struct log_groups *g, struct log_group *gr)
{
    const struct log_filter *filter = g->filter;
    bool some = gr->texts[0].len + gr->texts[1].len > 0;
    bool shown = (!filter->by_tag || some) &&
                 /* Without its record it is not known whether it was asked for. */
                 (gr->over ? log_filter_takes(filter, &gr->req) : !filter->by_request);

    if (shown) {
        if (gr->over)
            group_print_req(gr);
        group_print_text(&gr->texts[0]);
        if (gr->texts[1].len > 0)
            puts(gr->over ? "  fetch"
                          : "  fetch of a request that was shown before, or began earlier");
        group_print_text(&gr->texts[1]);
        if (gr->torn)
            puts("    (records were lost: there may have been more)");
        if (some)
            putchar('\n');
    }
    group_free(g, gr);
    return shown;
}

/* Three kinds of group are complete: a request that is over, with no fetch under way; a fetch
 * that ended and began before this reader came; and the fetch of a request that was printed
 * before (flushed without it).  All else waits for more chunks, or for log_groups_flush(). */
unsigned
log_groups_take(struct log_groups *g, struct shmlog_view *view, uint64_t now_ms)
{
    uint64_t xid = view->ids.parent_xid != 0 ? view->ids.parent_xid : view->ids.xid;
    struct log_group *gr;
    struct shmlog_rec rec;
    struct shmlog_req req;
    bool ended = false;

    if (view->kind != SHMLOG_KIND_REQ && view->kind != SHMLOG_KIND_FETCH)
        return 0;
    gr = group_get(g, xid, view->worker);
    while (gr != NULL && shmlog_record_next(view, &rec)) {
        if (shmlog_rec_req(&rec, view, &req)) {
            group_keep_req(gr, &req);
            gr->over = true;
            gr->over_ms = now_ms;
            continue;
        }
        if (view->kind == SHMLOG_KIND_FETCH && rec.tag == SHMLOG_Begin) {
            gr->began = true;
            gr->fetches++;
        } else if (view->kind == SHMLOG_KIND_FETCH && rec.tag == SHMLOG_End) {
            ended = true;
            /* Its beginning may have been before this reader came. */
            gr->fetches -= gr->fetches > 0;
        }
        if (log_filter_takes_tag(g->filter, rec.tag))
            group_add_line(gr, view, &rec);
    }
    /* A request may be over before its fetch: the group waits for both. */
    if (gr == NULL || gr->fetches > 0 || !(gr->over || (ended && !gr->began)))
        return 0;
    return group_print(g, gr);
}

/* The list is by the time of the first record, not of the end, so all of it is walked: 4096 at
 * most. */
unsigned
log_groups_flush(struct log_groups *g, uint64_t now_ms, bool all, uint64_t most)
{
    struct list *m, *tmp;
    unsigned n = 0;

    LIST_FOREACH_SAFE(m, tmp, &g->groups)
    {
        struct log_group *gr = container_of(m, struct log_group, age);

        /* For a fetch that goes on without its request, or has its end lost. */
        if (n < most && gr->over && (all || now_ms - gr->over_ms >= GROUP_PATIENCE_MS))
            n += group_print(g, gr);
    }
    return n;
}

void
log_groups_tear(struct log_groups *g, uint32_t worker)
{
    for (struct list *m = g->groups.next; m != &g->groups; m = m->next) {
        struct log_group *gr = container_of(m, struct log_group, age);

        gr->torn |= gr->worker == worker;
    }
}

struct log_groups *
log_groups_new(const struct log_filter *filter)
{
    struct log_groups *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->filter = filter;
    list_init(&g->groups);
    return g;
}

void
log_groups_free(struct log_groups **gp)
{
    while (!list_empty(&(*gp)->groups))
        group_free(*gp, container_of((*gp)->groups.next, struct log_group, age));
    free(*gp);
    *gp = NULL;
}
