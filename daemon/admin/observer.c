/* observer.c -- follows the workers' logs for the page and for `tarnctl top`. */
#include "daemon/admin/observer.h"

#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/log_read.h"

enum {
    OBSERVER_TICK_MS = 250,
    OBSERVER_WATCH_MS = 60000, /* after the last question */
    OBSERVER_FADE_MS = 1000,
    OBSERVER_FADES_MAX = 60, /* after a loop that stood still: nothing is left of before */
    /* A record takes a microsecond or two, so a tick some milliseconds at most: operators wait then,
     * and probes.  Of all workers together, and at least of each. */
    OBSERVER_RECORDS_TICK = 8192,
    OBSERVER_RECORDS_LEAST = 256,
    OBSERVER_RECORDS_MOST = 4096,
    OBSERVER_RECORD_BYTES = 192, /* of a usual one: what lies further back than that is skipped */
};

/* exp(-1/30): what lies half a minute back counts 37 %, a minute 14 %. */
static const double observer_factor = 0.96721610048;

/* Names that have places, and the bytes that are kept of one. */
static const struct {
    unsigned room, text_max;
} observer_tables[OBSERVER_OF] = {
    [OBSERVER_URL] = {256, 200},
    [OBSERVER_CLIENT] = {256, 16},
    [OBSERVER_BACKEND] = {64, 2},
};

struct observer_source {
    struct shmlog_reader *reader;
    unsigned left;   /* records that may be taken before the next tick */
    uint64_t missed; /* of shmlog_missed_reqs(), already counted */
};

#define OBSERVER_MAGIC OBJ_TAG('o', 'b', 's', 'v')
struct observer {
    uint32_t magic;
    struct loop *loop;
    struct shmlog *const *logs;
    unsigned nlogs;
    struct task task;
    struct timer tick;
    uint64_t until_ms; /* when the watch ends, unless it is asked for again */
    /* of the watch; NULL: there is none */
    struct observer_source *sources;
    struct topk *topk[OBSERVER_OF][OBSERVER_BY];
    uint64_t began_ms, faded_ms;
    int64_t began_wall_ms;
    double window_s; /* up to faded_ms */
    double seen, missed;
    double sums[TOPK_SUMS];
    unsigned nerrors; /* ever */
    struct observer_error errors[OBSERVER_ERRORS];
};

static void
observer_stop(struct observer *o)
{
    for (unsigned i = 0; o->sources != NULL && i < o->nlogs; i++)
        if (o->sources[i].reader != NULL)
            shmlog_reader_close(&o->sources[i].reader);
    free(o->sources);
    /* By this it shows that there is no watch: a tick that was due does nothing. */
    o->sources = NULL;
    for (unsigned of = 0; of < OBSERVER_OF; of++)
        for (unsigned by = 0; by < OBSERVER_BY; by++)
            if (o->topk[of][by] != NULL)
                topk_close(&o->topk[of][by]);
}

/* A tick's budget is shared by the workers, and each has a least: with many workers the sum is
 * larger than the budget, 256 x 256 records at the most. */
static unsigned
observer_records(const struct observer *o)
{
    unsigned n = OBSERVER_RECORDS_TICK / (o->nlogs > 0 ? o->nlogs : 1);

    if (n < OBSERVER_RECORDS_LEAST)
        return OBSERVER_RECORDS_LEAST;
    return n < OBSERVER_RECORDS_MOST ? n : OBSERVER_RECORDS_MOST;
}

static bool
observer_is_error(const struct shmlog_req_fixed *f)
{
    return f->status >= 500 || (f->flags & (SHMLOG_REQ_BAD | SHMLOG_REQ_TRUNCATED)) != 0;
}

static unsigned
observer_cut(char *to, size_t room, struct slice text)
{
    size_t n = text.len < room ? text.len : room;

    if (n > 0)
        memcpy(to, text.ptr, n);
    return (unsigned)n;
}

static void
observer_keep_error(struct observer *o, const struct shmlog_req *req, int64_t at_ms)
{
    /* The oldest gives way. */
    struct observer_error *e = &o->errors[o->nerrors++ % OBSERVER_ERRORS];

    e->at_ms = at_ms;
    e->fixed = req->fixed;
    e->line_len = observer_cut(e->line, sizeof(e->line), req->line);
    e->host_len = observer_cut(e->host, sizeof(e->host), req->host);
}

/* Both are of the record: 1,023 bytes at most each.
 * Under the process's secret, so that a client cannot make URLs that collide and hide one behind
 * another. */
static uint64_t
observer_hash(const struct slice text[2])
{
    char both[2 * SHMLOG_TEXT_MAX];
    size_t len = 0;

    for (unsigned i = 0; i < 2; i++) {
        tassert(text[i].len <= sizeof(both) - len);
        if (text[i].len > 0)
            memcpy(both + len, text[i].ptr, text[i].len);
        len += text[i].len;
    }
    return hash_bytes(both, len).lo;
}

static void
observer_weigh(
    struct observer *o, enum observer_of of, const struct slice text[2], const double *sums)
{
    uint64_t key = observer_hash(text);

    /* A table for each order: what is heavy by bytes may be too light by requests to have a
     * place. */
    for (unsigned by = 0; by < OBSERVER_BY; by++)
        topk_add(o->topk[of][by], key, text, sums);
}

/* "GET /a?b" -> "/a?b"; one that was not parsed stays as it is. */
static struct slice
observer_target(struct slice line)
{
    const char *space = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    size_t skip = space != NULL ? (size_t)(space - line.ptr) + 1 : 0;

    return slice_of(line.ptr + skip, line.len - skip);
}

/* One request that is over.  What ended before the watch began counts as an error alone. */
static void
observer_take(struct observer *o, const struct shmlog_req *req)
{
    const struct shmlog_req_fixed *f = &req->fixed;
    /* What a backend was asked for, or waited for: a hit that was stale is none. */
    const unsigned from_backends = 1u << RESULT_miss | 1u << RESULT_coalesced |
                                   1u << RESULT_hitmiss | 1u << RESULT_pass | 1u << RESULT_error;
    bool missed =
        (f->flags & SHMLOG_REQ_BAD) == 0 && (from_backends >> shmlog_result(f->flags) & 1) != 0;
    const double sums[TOPK_SUMS] = {[OBSERVER_REQUESTS] = 1,
        [OBSERVER_BYTES] = (double)(f->head_bytes + f->body_bytes),
        [OBSERVER_MISSES] = missed,
        [OBSERVER_TIME] = f->duration_us};
    const struct slice url[2] = {req->host, observer_target(req->line)};
    const struct slice client[2] = {
        slice_of((const char *)f->addr, sizeof(f->addr)), SLICE_LIT("")};
    const struct slice backend[2] = {
        slice_of((const char *)&f->backend, sizeof(f->backend)), SLICE_LIT("")};
    int64_t at_ms = f->start_ms + f->duration_us / 1000;

    /* Whenever it was. */
    if (observer_is_error(f))
        observer_keep_error(o, req, at_ms);
    if (at_ms < o->began_wall_ms)
        return;
    o->seen++;
    for (unsigned i = 0; i < TOPK_SUMS; i++)
        o->sums[i] += sums[i];
    /* What was not parsed has no URL. */
    if ((f->flags & SHMLOG_REQ_BAD) == 0)
        observer_weigh(o, OBSERVER_URL, url, sums);
    observer_weigh(o, OBSERVER_CLIENT, client, sums);
    if (f->backend != 0)
        observer_weigh(o, OBSERVER_BACKEND, backend, sums);
}

/* What one worker has written, as much of it as the tick still allows. */
static void
observer_follow(struct observer *o, struct observer_source *s)
{
    struct shmlog_view view;
    struct shmlog_req req;
    struct shmlog_rec rec;
    uint64_t missed;

    while (s->left > 0 && shmlog_next(s->reader, &view) > 0) {
        s->left--;
        while (shmlog_record_next(&view, &rec))
            if (rec.tag == SHMLOG_Req && shmlog_rec_req(&rec, &view, &req))
                observer_take(o, &req);
    }
    missed = shmlog_missed_reqs(s->reader);
    /* In requests, not in records: `share` is one of requests. */
    o->missed += (double)(missed - s->missed);
    s->missed = missed;
}

/* A tick begins: what is more than it allows is stepped over, so that the newest are seen. */
static void
observer_allow(struct observer *o)
{
    unsigned most = observer_records(o);

    for (unsigned i = 0; i < o->nlogs; i++) {
        /* Set by the tick alone: questions in between use up what is left, however many there are
         * (invariant 12). */
        o->sources[i].left = most;
        shmlog_skip(o->sources[i].reader, (uint64_t)most * OBSERVER_RECORD_BYTES);
    }
}

static void
observer_fade_once(struct observer *o)
{
    o->window_s = o->window_s * observer_factor + (double)OBSERVER_FADE_MS / 1000;
    o->seen *= observer_factor;
    o->missed *= observer_factor;
    for (unsigned i = 0; i < TOPK_SUMS; i++)
        o->sums[i] *= observer_factor;
    for (unsigned of = 0; of < OBSERVER_OF; of++)
        for (unsigned by = 0; by < OBSERVER_BY; by++)
            /* All by one factor and at once: shares stay what they are. */
            topk_fade(o->topk[of][by], observer_factor);
}

static void
observer_look(struct observer *o)
{
    uint64_t now = o->loop->clock.mono_ms;

    for (unsigned n = 0; n < OBSERVER_FADES_MAX && now - o->faded_ms >= OBSERVER_FADE_MS; n++) {
        o->faded_ms += OBSERVER_FADE_MS;
        observer_fade_once(o);
    }
    /* After a minute nothing of before is left: there is no use in catching up. */
    if (now - o->faded_ms >= OBSERVER_FADE_MS)
        o->faded_ms = now;
    for (unsigned i = 0; i < o->nlogs; i++)
        observer_follow(o, &o->sources[i]);
}

static void
observer_on_tick(struct task *t)
{
    struct observer *o = container_of(t, struct observer, task);
    uint64_t now = o->loop->clock.mono_ms;

    OBJ_CHECK(o, OBSERVER_MAGIC);
    if (o->sources == NULL)
        return;
    /* The timer is not set again: without a watch there is no tick. */
    if (now >= o->until_ms) {
        observer_stop(o);
        return;
    }
    observer_allow(o);
    observer_look(o);
    timer_set(&o->loop->wheel, &o->tick, loop_deadline(o->loop, OBSERVER_TICK_MS));
}

/* Errors of a while ago are still in the rings: the first look finds them. */
static int
observer_start(struct observer *o)
{
    int err = 0;

    /* The rings are read from their oldest: errors of the last watch would be there twice. */
    o->nerrors = 0;
    o->sources = calloc(o->nlogs + 1, sizeof(*o->sources));
    if (o->sources == NULL)
        return TERR_NOMEM;
    for (unsigned i = 0; i < o->nlogs && err == 0; i++)
        err = shmlog_reader_open_here(&o->sources[i].reader, o->logs[i], SHMLOG_FROM_OLDEST);
    for (unsigned of = 0; of < OBSERVER_OF; of++)
        for (unsigned by = 0; by < OBSERVER_BY && err == 0; by++)
            err = topk_open(
                &o->topk[of][by], observer_tables[of].room, observer_tables[of].text_max, by);
    if (err != 0) {
        observer_stop(o);
        return err;
    }
    o->began_ms = o->faded_ms = o->loop->clock.mono_ms;
    o->began_wall_ms = o->loop->clock.wall_ms;
    o->window_s = o->seen = o->missed = 0;
    for (unsigned i = 0; i < TOPK_SUMS; i++)
        o->sums[i] = 0;
    observer_allow(o);
    observer_look(o);
    o->missed = 0; /* records from before the watch do not count */
    timer_set(&o->loop->wheel, &o->tick, loop_deadline(o->loop, OBSERVER_TICK_MS));
    return 0;
}

int
observer_ask(struct observer *o)
{
    OBJ_CHECK(o, OBSERVER_MAGIC);
    o->until_ms = loop_deadline(o->loop, OBSERVER_WATCH_MS);
    if (o->sources == NULL)
        return observer_start(o);
    observer_look(o);
    return 0;
}

/* `out` refers to the tables' own texts, good until the next tick or question. */
unsigned
observer_top(struct observer *o, enum observer_of of, enum observer_by by, struct topk_name *out,
    unsigned n, struct observer_seen *seen)
{
    uint64_t now = o->loop->clock.mono_ms;
    double all = o->seen + o->missed;

    OBJ_CHECK(o, OBSERVER_MAGIC);
    tassert(o->sources != NULL && of < OBSERVER_OF && by < OBSERVER_BY);
    seen->watched_s = (double)(now - o->began_ms) / 1000;
    /* And what has not been faded yet. */
    seen->window_s = o->window_s + (double)(now - o->faded_ms) / 1000;
    seen->share = all > 0 ? o->seen / all : 1;
    memcpy(seen->sums, o->sums, sizeof(seen->sums));
    return topk_top(o->topk[of][by], out, n);
}

const struct observer_error *
observer_nth_error(const struct observer *o, unsigned i)
{
    OBJ_CHECK(o, OBSERVER_MAGIC);
    if (i >= o->nerrors || i >= OBSERVER_ERRORS)
        return NULL;
    /* The last that was kept first. */
    return &o->errors[(o->nerrors - 1 - i) % OBSERVER_ERRORS];
}

int
observer_open(struct observer **out, struct loop *loop, struct shmlog *const *logs, unsigned nlogs)
{
    struct observer *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return TERR_NOMEM;
    o->magic = OBSERVER_MAGIC;
    o->loop = loop;
    o->logs = logs;
    o->nlogs = nlogs;
    task_init(&o->task, &loop->tasks, observer_on_tick);
    timer_init(&o->tick, &o->task);
    *out = o;
    return 0;
}

void
observer_close(struct observer **op)
{
    struct observer *o;

    OBJ_TAKE(o, op, OBSERVER_MAGIC);
    observer_stop(o);
    timer_unlink(&o->tick);
    task_cancel(&o->task);
    OBJ_FREE(o);
}
