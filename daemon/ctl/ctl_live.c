/* ctl_live.c -- counters as they change: a frame a second, on a terminal in place.
 *
 * Most counters only grow; what an operator wants is how fast.  Each frame asks for all of them
 * and keeps three answers: the first one, the one before, and this one.  From these come the two
 * rates of a row: since the last frame, and since the command began (MEAN).
 *
 * tarnd needs nothing for this: it does not know that it is watched, and keeps no state for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ctl/ctl_commands.h"

enum {
    LIVE_ROWS = 40,
    LIVE_HEAD_LINES = 5
}; /* where the number of rows is not known */

struct live {
    struct ctl *c;
    const char *part; /* of the names that are shown */
    json_t *first, *before, *now;
    double first_at, before_at, now_at; /* monotonic seconds */
    bool terminal;
};

struct live_row {
    const char *name;
    double value, rate, mean; /* per second: since the frame before, since the first */
};

/* Monotonic: rates must not jump when the wall clock is set. */
double
ctl_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
live_value(const json_t *frame, const char *name)
{
    return json_number_value(json_object_get(frame, name));
}

/* After a restart of tarnd counters are lower than before, and the rate is below 0 for one
 * frame.  It is shown so: a restart is worth seeing. */
static double
live_rate(const json_t *from, double at, const struct live *l, const char *name)
{
    double s = l->now_at - at;

    /* In the first frame no time has passed. */
    return s > 0 ? (live_value(l->now, name) - live_value(from, name)) / s : 0;
}

/* Of the requests that asked the cache, in percent; below 0: there were none. */
static double
live_hits(const struct live *l, const json_t *from)
{
    static const char *const others[] = {"req.miss", "req.coalesced", "req.hitmiss", "req.pass"};
    /* Stale hits are in req.hit, as tarnd counts them. */
    double hits = live_value(l->now, "req.hit") - live_value(from, "req.hit"), all = hits;

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        all += live_value(l->now, others[i]) - live_value(from, others[i]);
    return all > 0 ? 100 * hits / all : -1;
}

static void
live_percent(char text[16], double percent)
{
    if (percent < 0)
        snprintf(text, 16, "-");
    else
        snprintf(text, 16, "%.1f %%", percent);
}

/* Five lines with the table's heading and its blank: LIVE_HEAD_LINES counts them. */
static void
live_head(const struct live *l)
{
    char now[16], mean[16], used[16], size[16], out[16], up[24];
    double bytes = live_rate(l->before, l->before_at, l, "resp.head_bytes") +
                   live_rate(l->before, l->before_at, l, "resp.body_bytes");

    live_percent(now, live_hits(l, l->before));
    live_percent(mean, live_hits(l, l->first));
    ctl_bytes(used, (uint64_t)live_value(l->now, "storage.used"));
    ctl_bytes(size, (uint64_t)live_value(l->now, "storage.size"));
    ctl_bytes(out, bytes > 0 ? (uint64_t)bytes : 0);
    ctl_seconds(up, l->now_at - l->first_at);
    printf("%s, watched for %s\n", l->c->admin, up);
    printf("requests %.0f/s, hits %s now, %s since then; %s/s out\n",
        live_rate(l->before, l->before_at, l, "req.total"), now, mean, out);
    printf("connections %.0f; fetches %.0f/s, failed %.0f/s; storage %s of %s\n\n",
        live_value(l->now, "sess.open"), live_rate(l->before, l->before_at, l, "fetch.total"),
        live_rate(l->before, l->before_at, l, "fetch.failed"), used, size);
}

/* What changes most comes first.  By name where rates are equal: rows that stand still must not
 * change places. */
static int
live_compare(const void *a, const void *b)
{
    const struct live_row *x = a, *y = b;
    double dx = x->rate < 0 ? -x->rate : x->rate, dy = y->rate < 0 ? -y->rate : y->rate;

    return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->name, y->name);
}

static size_t
live_lines(const struct live *l)
{
    struct winsize w;

    /* Into a file or a pipe go all of them. */
    if (!l->terminal)
        return SIZE_MAX;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row == 0)
        return LIVE_ROWS;
    return w.ws_row > LIVE_HEAD_LINES + 1 ? w.ws_row - LIVE_HEAD_LINES - 1u : 1;
}

/* All counters that pass, sorted, and then as many as fit: the ones at the top are those that
 * change. */
static void
live_rows(const struct live *l)
{
    static const char *const headings[] = {"COUNTER", "VALUE", "PER SECOND", "MEAN", NULL};
    struct live_row *rows = calloc(json_object_size(l->now), sizeof(*rows));
    size_t n = 0, most = live_lines(l);
    struct ctl_table t;
    const char *name;
    json_t *v;

    json_object_foreach(l->now, name, v) if (rows != NULL && strstr(name, l->part) != NULL &&
                                             /* A counter that was asked for by name is shown also
                                              * at 0. */
                                             (json_number_value(v) != 0 || l->part[0] != '\0'))
        rows[n++] = (struct live_row){name, json_number_value(v),
            live_rate(l->before, l->before_at, l, name), live_rate(l->first, l->first_at, l, name)};
    if (n > 0)
        qsort(rows, n, sizeof(*rows), live_compare);
    ctl_table_begin(&t, headings);
    for (size_t i = 0; i < n && i < most; i++) {
        ctl_cell(&t, "%s", rows[i].name);
        ctl_cell(&t, "%.0f", rows[i].value);
        ctl_cell(&t, "%.1f", rows[i].rate);
        ctl_cell(&t, "%.1f", rows[i].mean);
    }
    ctl_table_end(&t, "no counter has that in its name");
    free(rows);
}

/* Moves the three answers on by one.  Each is one reference, whatever number of names it has;
 * the only case with shared names is the first frame, where all three are the same. */
static int
live_frame(struct live *l)
{
    json_t *next;
    int rc = ctl_ask(l->c, "GET", "/v1/counters", NULL, &next);

    if (rc != CTL_DONE)
        return rc;
    /* The first frame is kept for the means. */
    if (l->before != l->first)
        json_decref(l->before);
    l->before = l->now;
    l->before_at = l->now_at;
    l->now = next;
    l->now_at = ctl_clock();
    /* One answer has three names then, and one reference: ctl_live() frees each once. */
    if (l->first == NULL) {
        l->first = l->before = next;
        l->first_at = l->before_at = l->now_at;
    }
    if (l->c->json)
        return rc;
    if (l->terminal)
        fputs("\033[H\033[2J", stdout);
    live_head(l);
    live_rows(l);
    if (!l->terminal)
        putchar('\n');
    fflush(stdout);
    return rc;
}

/* Signals have their default action, except in `log`: Ctrl-C ends the command here. */
void
ctl_pause(double s)
{
    struct timespec pause = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&pause, NULL);
}

/* NULL: the option was not given, and *out keeps its default. */
bool
ctl_positive(const char *option, const char *text, double *out)
{
    char *end = NULL;

    if (text == NULL)
        return true;
    *out = strtod(text, &end);
    /* NaN fails both comparisons. */
    if (end != text && *end == '\0' && *out > 0 && *out <= 86400)
        return true;
    ctl_say("%s %s: a number above 0, at most 86400", option, text);
    return false;
}

int
ctl_live(struct ctl *c)
{
    struct live l = {.c = c,
        .part = c->nargs > 0 ? c->args[0] : "",
        .terminal = isatty(STDOUT_FILENO) && !c->json};
    double every = 1, count = 0;
    int rc = CTL_DONE;

    if (!ctl_positive("--every", c->every, &every) || !ctl_positive("--count", c->count, &count))
        return CTL_USAGE;
    for (unsigned n = 0; rc == CTL_DONE && (count == 0 || n < count); n++) {
        if (n > 0)
            ctl_pause(every);
        rc = live_frame(&l);
    }
    if (l.before != l.first)
        json_decref(l.before);
    if (l.now != l.first)
        json_decref(l.now);
    json_decref(l.first);
    return rc;
}
