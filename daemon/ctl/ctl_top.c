/* ctl_top.c -- what is asked for most: URLs, clients, backends.
 *
 * tarnd counts in a sketch (top-k) and only while it is watched: the first question starts the
 * watch, each later one prolongs it, and it ends a minute after the last one.  Rates are of the
 * window that the answer names, not of all time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/ctl/ctl_commands.h"

enum {
    TOP_LINES = 24,     /* of a terminal that does not say */
    TOP_HEAD_LINES = 4, /* above the rows, and the cursor's */
    TOP_MOST = 256,     /* rows that tarnd gives */
    TOP_PATH_MAX = 96
};

static const char *const top_of[][2] = {
    {"url", "URL"}, {"client", "CLIENT"}, {"backend", "BACKEND"}};
static const char *const top_by[] = {"requests", "bytes", "misses"};

struct top {
    struct ctl *c;
    const char *of, *by, *heading;
    unsigned limit; /* 0: as many as there is room for */
    bool terminal;
};

/* Arguments come in any order.  False: one is none of the words.  The two sets of words have
 * nothing in common, so their order is free: `top misses url`. */
static bool
top_arguments(struct top *t)
{
    for (int i = 0; i < t->c->nargs; i++) {
        const char *word = t->c->args[i];
        bool known = false;

        for (unsigned k = 0; k < 3; k++) {
            if (strcmp(word, top_of[k][0]) == 0) {
                t->of = top_of[k][0];
                t->heading = top_of[k][1];
                known = true;
            } else if (strcmp(word, top_by[k]) == 0) {
                t->by = top_by[k];
                known = true;
            }
        }
        if (!known) {
            ctl_say("top %s: url, client or backend; requests, bytes or misses", word);
            return false;
        }
    }
    return true;
}

static bool
top_limit(struct top *t)
{
    char *end = NULL;
    long n;

    if (t->c->limit == NULL)
        return true;
    n = strtol(t->c->limit, &end, 10);
    if (end == t->c->limit || *end != '\0' || n < 1 || n > TOP_MOST) {
        ctl_say("--limit %s: a number from 1 to %d", t->c->limit, TOP_MOST);
        return false;
    }
    t->limit = (unsigned)n;
    return true;
}

/* TOP_MOST bounds the answer also on a terminal of a thousand lines. */
static unsigned
top_rows(const struct top *t)
{
    struct winsize w;
    unsigned lines = TOP_LINES;

    /* What was asked for counts, also where it does not fit the terminal. */
    if (t->limit > 0)
        return t->limit;
    if (t->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0)
        lines = w.ws_row;
    if (lines <= TOP_HEAD_LINES)
        return 1;
    return lines - TOP_HEAD_LINES < TOP_MOST ? lines - TOP_HEAD_LINES : TOP_MOST;
}

static double
top_number(const json_t *o, const char *member)
{
    return json_number_value(json_object_get(o, member));
}

static void
top_cells(struct ctl_table *table, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    char bytes[16];

    ctl_bytes(bytes, (uint64_t)top_number(row, "bytes_s"));
    ctl_cell(table, "%.1f", top_number(row, "requests_s"));
    ctl_cell(table, "%s", bytes);
    ctl_cell(table, "%.1f", top_number(row, "misses_s"));
    ctl_cell(table, "%.2f", top_number(row, "mean_us") / 1000);
    ctl_cell(table, "%.1f %%", 100 * top_number(row, "share"));
    /* A backend that a reload took away. */
    ctl_cell(table, "%s", name != NULL ? name : "(gone)");
}

static void
top_print(const struct top *t, const json_t *o)
{
    const char *headings[] = {
        "PER SECOND", "BYTES/S", "MISSES/S", "MEAN MS", "SHARE", t->heading, NULL};
    struct ctl_table table;
    char bytes[16], span[24];
    const json_t *row;
    size_t i;

    if (t->terminal)
        fputs("\033[H\033[2J", stdout);
    ctl_bytes(bytes, (uint64_t)top_number(o, "bytes_s"));
    ctl_seconds(span, top_number(o, "watched_s"));
    printf("%ss by %s, watched for %s; in all %.1f requests/s, %.1f misses/s, %s/s", t->of, t->by,
        span, top_number(o, "requests_s"), top_number(o, "misses_s"), bytes);
    /* The observer was behind: the figures are of a part, and say so. */
    if (top_number(o, "seen") < 0.995)
        printf("; by a sample of %.0f %%", 100 * top_number(o, "seen"));
    puts("\n");
    ctl_table_begin(&table, headings);
    json_array_foreach(json_object_get(o, "top"), i, row) top_cells(&table, row);
    ctl_table_end(&table, "no requests yet");
    if (!t->terminal)
        putchar('\n');
    fflush(stdout);
}

static int
top_frame(struct top *t, bool shown)
{
    bool json = t->c->json;
    char path[TOP_PATH_MAX];
    json_t *o;
    int rc;

    snprintf(path, sizeof(path), "/v1/top?of=%s&by=%s&limit=%u", t->of, t->by, top_rows(t));
    /* The first question only starts the watch, and its answer has no rows yet. */
    t->c->json = json && shown;
    rc = ctl_ask(t->c, "GET", path, NULL, &o);
    t->c->json = json;
    if (rc == CTL_DONE && shown && !json)
        top_print(t, o);
    json_decref(o);
    return rc;
}

int
ctl_top(struct ctl *c)
{
    struct top t = {.c = c,
        .of = top_of[0][0],
        .heading = top_of[0][1],
        .by = top_by[0],
        .terminal = isatty(STDOUT_FILENO) && !c->json};
    double every = 2, count = 0;
    int rc;

    if (!top_arguments(&t) || !top_limit(&t) || !ctl_positive("--every", c->every, &every) ||
        !ctl_positive("--count", c->count, &count))
        return CTL_USAGE;
    rc = top_frame(&t, false); /* tarnd begins to watch */
    for (unsigned n = 0; rc == CTL_DONE && (count == 0 || n < count); n++) {
        /* Also before the first frame: by then there is something to show. */
        ctl_pause(every);
        rc = top_frame(&t, true);
    }
    return rc;
}
