/* admin_log.c -- GET /v1/log: requests as JSON lines, from the workers' rings.
 *
 * It reads as every reader does, through the mapping of the writer, and asks for no details: the
 * workers do no work for it.  Each step is bounded, so that it does not delay the management loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/limits.h"
#include "daemon/log/access_format.h"
#include "daemon/shm/log.h"
#include "daemon/shm/log_filter.h"
#include "daemon/shm/log_read.h"

enum {
    LOG_CHUNKS_TURN = 512, /* of each ring at a time */
    LOG_STREAMS_MAX = 8,
    LOG_QUERY_MAX = 4096,
};

struct log_ring {
    struct shmlog_reader *reader;
    uint64_t held; /* bytes that were there at the beginning, not yet read */
    uint64_t missed;
};

struct log_stream {
    struct admin_stream stream;
    struct admin *admin;
    struct log_filter filter;
    bool follow;
    uint64_t left; /* requests still to be sent */
    unsigned nrings;
    struct log_ring rings[LIMIT_WORKERS];
    char query[LOG_QUERY_MAX]; /* decoded, as strings, a NUL behind each: the filter's */
};

static struct log_stream *
log_stream_of(struct admin_stream *s)
{
    return container_of(s, struct log_stream, stream);
}

/* `nrings` counts the readers that were opened: log_open() may have failed in the middle. */
static void
log_free(struct admin_stream *stream)
{
    struct log_stream *s = log_stream_of(stream);

    for (unsigned i = 0; i < s->nrings; i++)
        shmlog_reader_close(&s->rings[i].reader);
    log_filter_fini(&s->filter);
    s->admin->nstreams--;
    free(s);
}

/* A request, if it is one, and is asked for.  Returns its length. */
static size_t
log_put(struct log_stream *s, struct shmlog_view *view, char *to)
{
    struct shmlog_rec rec;
    struct shmlog_req req;

    while (shmlog_record_next(view, &rec))
        /* One at most: a chunk is one transaction (shm/README). */
        if (shmlog_rec_req(&rec, view, &req) && log_filter_takes(&s->filter, &req)) {
            s->left--;
            return access_format_named(to, ACCESS_FORMAT_JSON, &req, s->admin->env.names);
        }
    return 0;
}

/* Some of what a ring has.  Sets *more when there may be more. */
static size_t
log_ring_next(struct log_stream *s, struct log_ring *ring, char *to, size_t room, bool *more)
{
    struct shmlog_view view;
    uint64_t missed, bytes;
    size_t n = 0;
    int got = 1;

    for (unsigned i = 0; i < LOG_CHUNKS_TURN; i++) {
        /* A line, and behind it what was missed: no check is needed in between. */
        if (s->left == 0 || room - n < 2 * ACCESS_LINE_MAX)
            break;
        /* What came behind the question is not asked for: else a busy tarnd's answer would not
         * end. */
        got = !s->follow && ring->held == 0 ? 0 : shmlog_next(ring->reader, &view);
        if (got <= 0)
            break;
        bytes = sizeof(struct shmlog_chunk) + view.rest.len;
        /* The writer may have lapped us: then more is read than was there. */
        ring->held -= bytes < ring->held ? bytes : ring->held;
        n += log_put(s, &view, to + n);
    }
    missed = shmlog_missed_reqs(ring->reader);
    if (missed != ring->missed)
        /* In its place among the lines: a gap is seen where it is.
         * No check of room: a line is begun only where two have room, so ACCESS_LINE_MAX (32
         * KiB) is left behind the last one, and each ring adds 33 bytes once, for LIMIT_WORKERS
         * of them 8.5 KiB. */
        n += (size_t)sprintf(to + n, "{\"missed\":%" PRIu64 "}\n", missed - ring->missed);
    ring->missed = missed;
    if (got <= 0)
        ring->held = 0; /* all that there was */
    *more |= got > 0;
    return n;
}

/* One ring after the other, so lines are in order within a worker only; `time` in each line
 * sorts them.  0 with `more` set: everything was filtered out, and the next look follows in
 * ADMIN_STREAM_MS. */
static ssize_t
log_next(struct admin_stream *stream, char *buf, size_t room)
{
    struct log_stream *s = log_stream_of(stream);
    const struct admin_env *env = &s->admin->env;
    bool more = false;
    size_t n = 0;

    /* A drain waits for every request: this one would never end (invariant 10). */
    if (s->left == 0 || strcmp(env->host->state(env->host_ctx), "running") != 0)
        return TERR_CLOSED;
    for (unsigned i = 0; i < s->nrings; i++)
        n += log_ring_next(s, &s->rings[i], buf + n, room - n, &more);
    return n == 0 && !more && !s->follow ? TERR_CLOSED : (ssize_t)n;
}

/* A piece of the query as it was meant, with a NUL.  False: it is none.
 * As a form is encoded: + is a blank, for filters are typed into browsers and scripts.
 * why_decode() keeps it, because a + in a URL is a +. */
static bool
log_decode(struct slice piece, char *to)
{
    for (size_t i = 0; i < piece.len; i++) {
        unsigned byte = (unsigned char)piece.ptr[i];
        char hex[3] = "";

        if (byte == '+')
            byte = ' ';
        if (byte == '%') {
            if (piece.len - i > 2)
                memcpy(hex, piece.ptr + i + 1, 2);
            if (strspn(hex, "0123456789abcdefABCDEF") != 2)
                return false;
            byte = (unsigned)strtoul(hex, NULL, 16);
            i += 2;
        }
        /* It would end the filter's text early. */
        if (byte == 0)
            return false;
        *to++ = (char)byte;
    }
    *to = '\0';
    return true;
}

/* "status:5xx" */
static void
log_add_filter(struct admin_call *c, struct log_stream *s, char *text)
{
    char *colon = strchr(text, ':'), why[256];
    int err = TERR_NOTFOUND;

    if (colon != NULL) {
        /* log_filter_add() keeps the text: it lies in the stream's query. */
        *colon = '\0';
        err = strcmp(text, "tag") == 0
                  ? TERR_NOTFOUND /* of records, and here are requests */
                  : log_filter_add(&s->filter, text, colon + 1, why, sizeof(why));
    }
    if (err == TERR_NOTFOUND)
        admin_fail(c, 400, "as in filter=status:5xx",
            "filter is url:, status:, client: or cache: and "
            "what is wanted of it");
    else if (err != 0)
        admin_fail(c, 400, why, "filter=%s:%.64s is not understood", text, colon + 1);
}

static void
log_add_arg(struct admin_call *c, struct log_stream *s, char *arg)
{
    char *value = strchr(arg, '='), *end = NULL;

    if (value != NULL)
        *value++ = '\0';
    if (strcmp(arg, "filter") == 0 && value != NULL) {
        log_add_filter(c, s, value);
    } else if (strcmp(arg, "follow") == 0 && value != NULL &&
               (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) {
        s->follow = value[0] == '1';
    } else if (strcmp(arg, "count") == 0 && value != NULL) {
        s->left = strtoull(value, &end, 10);
        if (value[0] < '0' || value[0] > '9' || *end != '\0' || s->left == 0)
            admin_fail(c, 400, NULL, "count must be a whole number from 1");
    } else {
        admin_fail(c, 400, "follow=0 or 1, count=N, filter=NAME:TEXT",
            "unknown argument '%.64s' in the query", arg);
    }
}

/* False: answered already.
 * Half of `query` bounds the text: each piece is followed by a NUL that was a & or nothing, so
 * the decoded pieces cannot reach the end. */
static bool
log_args(struct admin_call *c, struct log_stream *s)
{
    struct slice rest = c->query;
    char *to = s->query;

    if (rest.len >= sizeof(s->query) / 2)
        admin_fail(c, 400, NULL, "the query has more than %d bytes", LOG_QUERY_MAX / 2 - 1);
    while (c->status == 0 && rest.len > 0) {
        const char *amp = memchr(rest.ptr, '&', rest.len);
        size_t len = amp != NULL ? (size_t)(amp - rest.ptr) : rest.len;
        size_t skip = amp != NULL ? len + 1 : len;
        char *next = to + len + 1; /* decoding makes nothing longer */

        if (!log_decode(slice_of(rest.ptr, len), to))
            admin_fail(c, 400, NULL, "the query has a %% that is followed by no byte");
        else
            log_add_arg(c, s, to);
        to = next;
        rest = slice_of(rest.ptr + skip, rest.len - skip);
    }
    return c->status == 0;
}

/* Each ring's reader remembers how much was there: without `follow` the answer ends at that
 * point, however fast new lines come. */
static bool
log_open(struct admin_call *c, struct log_stream *s)
{
    const struct admin_env *env = &c->admin->env;
    enum shmlog_from from = s->follow ? SHMLOG_FROM_NOW : SHMLOG_FROM_OLDEST;
    int err = 0;

    while (env->logs != NULL && s->nrings < env->nworkers && err == 0) {
        struct log_ring *ring = &s->rings[s->nrings];

        err = shmlog_reader_open_here(&ring->reader, env->logs[s->nrings], from);
        if (err != 0)
            break;
        ring->held = shmlog_behind(ring->reader);
        s->nrings++;
    }
    if (err != 0)
        admin_fail_terr(c, err, "the log");
    return err == 0;
}

void
admin_do_log(struct admin_call *c)
{
    struct log_stream *s;

    /* Each costs a buffer of 128 KiB and a look at every ring each 50 ms, on the loop that also
     * runs probes. */
    if (c->admin->nstreams == LOG_STREAMS_MAX) {
        admin_fail(c, 503, NULL, "%d are reading the log this way already", LOG_STREAMS_MAX);
        return;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "the log");
        return;
    }
    s->stream = (struct admin_stream){.next = log_next, .free = log_free};
    s->admin = c->admin;
    s->left = UINT64_MAX;
    /* Before anything can fail: log_free() counts it off. */
    c->admin->nstreams++;
    if (log_args(c, s) && log_open(c, s))
        admin_answer_stream(c, &s->stream);
    else
        log_free(&s->stream);
}
