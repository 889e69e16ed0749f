/* ctl_hist.c -- how long requests took, as bars: hits and misses side by side.
 *
 * tarnd counts durations in buckets of a quarter of a doubling (shm/latency.h).  A line here is
 * a whole doubling, so that a screen holds microseconds and minutes; the quantiles above are of
 * the fine buckets.
 *
 *        FROM  HIT                                MISS
 *      256 us  ████████████████████████  81.3 %
 *      512 us  █████▎                    17.9 %   ▏                           0.4 %
 *
 * One call shows all since the start.  With --every or --count each further frame shows what
 * came between two answers: an average since the start would hide a bad minute.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "daemon/ctl/ctl_commands.h"
#include "daemon/shm/latency.h"

enum {
    HIST_BAR = 24,  /* columns of the longest bar */
    HIST_STEPS = 4, /* buckets to a doubling, which is a line */
    HIST_OCTAVES = LATENCY_BUCKETS / HIST_STEPS,
    HIST_CELL = 128, /* bytes of a bar, three to a column, and what stands behind it */
};

struct hist_frame {
    struct latency_seen kind[LATENCY_REQUESTS];
};

struct hist {
    struct ctl *c;
    /* `shown` is `now`, or the difference of the two. */
    struct hist_frame now, before, shown;
    double now_at, before_at; /* monotonic seconds */
    bool terminal, utf8;
};

/* What the answer does not have is zero: the server may be no tarnd.  A bucket is [from, to,
 * count] with times in microseconds.  Buckets at zero are left out of the answer, so *f begins
 * empty. */
static void
hist_read(const json_t *o, struct hist_frame *f)
{
    const json_t *requests = json_object_get(o, "requests"), *bucket;
    size_t i;

    *f = (struct hist_frame){.kind[0].count = 0};
    for (unsigned k = 0; k < LATENCY_REQUESTS; k++) {
        const json_t *of = json_object_get(requests, latency_name((enum latency_kind)k));
        struct latency_seen *seen = &f->kind[k];

        seen->sum_us = (uint64_t)json_integer_value(json_object_get(of, "sum_us"));
        json_array_foreach(json_object_get(of, "buckets"), i, bucket)
        {
            uint64_t from = (uint64_t)json_integer_value(json_array_get(bucket, 0));
            uint64_t n = (uint64_t)json_integer_value(json_array_get(bucket, 2));

            /* By its lower end: a tarnd with other buckets is shown in ours. */
            seen->bucket[latency_bucket(from)] += n;
            seen->count += n;
        }
    }
}

/* Counters only grow, so one that is less than before is of a tarnd that began anew; also where it has
 * counted more in all by now. */
static bool
hist_began_anew(const struct latency_seen *now, const struct latency_seen *old)
{
    for (unsigned b = 0; b < LATENCY_BUCKETS; b++)
        if (now->bucket[b] < old->bucket[b])
            return true;
    return false;
}

/* What came since: of a tarnd that was started anew meanwhile, all. */
static void
hist_subtract(struct hist_frame *to, const struct hist_frame *now, const struct hist_frame *before)
{
    *to = *now;
    for (unsigned k = 0; k < LATENCY_REQUESTS; k++) {
        struct latency_seen *seen = &to->kind[k];
        const struct latency_seen *old = &before->kind[k];

        if (hist_began_anew(seen, old))
            continue;
        seen->count -= old->count;
        seen->sum_us -= old->sum_us;
        for (unsigned b = 0; b < LATENCY_BUCKETS; b++)
            seen->bucket[b] -= old->bucket[b];
    }
}

/* "850 us", "1.2 ms", "12.0 s"
 * 99950 is where "%.1f" of milliseconds would need five digits, and columns would move. */
static void
hist_time(char text[16], double us)
{
    if (us < 1000)
        snprintf(text, 16, "%.0f us", us);
    else if (us < 1e6)
        snprintf(text, 16, us < 99950 ? "%.1f ms" : "%.0f ms", us / 1e3);
    else
        snprintf(text, 16, "%.1f s", us / 1e6);
}

/* A kind that had no request has no quantile: its row is left out, and the table says so when
 * all are. */
static void
hist_summary(const struct hist *h)
{
    static const char *const headings[] = {
        "REQUESTS", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", NULL};
    static const double shares[] = {0.5, 0.9, 0.99, 0.999};
    struct ctl_table t;
    char text[16];

    ctl_table_begin(&t, headings);
    for (unsigned k = 0; k < LATENCY_REQUESTS; k++) {
        const struct latency_seen *seen = &h->shown.kind[k];

        if (seen->count == 0)
            continue;
        ctl_cell(&t, "%s", latency_name((enum latency_kind)k));
        ctl_cell(&t, "%llu", (unsigned long long)seen->count);
        hist_time(text, (double)seen->sum_us / (double)seen->count);
        ctl_cell(&t, "%s", text);
        for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
            hist_time(text, (double)latency_quantile(seen, shares[i]));
            ctl_cell(&t, "%s", text);
        }
    }
    ctl_table_end(&t, "no request has ended");
}

static uint64_t
hist_octave(const struct latency_seen *seen, unsigned octave)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < HIST_STEPS; i++)
        n += seen->bucket[octave * HIST_STEPS + i];
    return n;
}

/* A bar as long as its share of `most`, to an eighth of a column, and its share of all.  The
 * bytes of `cell`: 24 columns of three bytes each, and " 100.0 %" behind them. */
static void
hist_bar(const struct hist *h, const struct latency_seen *seen, uint64_t n, uint64_t most,
    char cell[HIST_CELL])
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned eighths = most > 0 ? (unsigned)((double)n / (double)most * HIST_BAR * 8 + 0.5) : 0;
    unsigned columns = 0;
    size_t len = 0;

    if (n > 0 && eighths == 0)
        /* One request among millions is seen all the same. */
        eighths = 1;
    /* Whole columns, rounded up: what is there stays visible. */
    if (!h->utf8)
        eighths = (eighths + 7) / 8 * 8;
    for (; columns < eighths / 8; columns++)
        len += (size_t)sprintf(cell + len, "%s", h->utf8 ? "█" : "#");
    if (eighths % 8 != 0) {
        len += (size_t)sprintf(cell + len, "%s", parts[eighths % 8]);
        columns++;
    }
    len += (size_t)sprintf(cell + len, "%*s", (int)(HIST_BAR - columns), "");
    if (n > 0)
        sprintf(cell + len, " %5.1f %%", 100 * (double)n / (double)seen->count);
    else
        sprintf(cell + len, "%8s", "");
}

/* Two passes: the first finds the longest bar of each side and the range of lines that has
 * anything; the second prints this range, with empty lines in its middle, so that the scale has
 * no jumps. */
static void
hist_bars(const struct hist *h)
{
    const struct latency_seen *hit = &h->shown.kind[LATENCY_hit],
                              *miss = &h->shown.kind[LATENCY_miss];
    uint64_t most_hit = 0, most_miss = 0;
    unsigned first = HIST_OCTAVES, last = 0;

    for (unsigned o = 0; o < HIST_OCTAVES; o++) {
        uint64_t a = hist_octave(hit, o), b = hist_octave(miss, o);

        most_hit = a > most_hit ? a : most_hit;
        most_miss = b > most_miss ? b : most_miss;
        if (a + b > 0) {
            first = o < first ? o : first;
            last = o;
        }
    }
    /* The table above has said that nothing has ended. */
    if (first == HIST_OCTAVES)
        return;
    printf("\n%9s  %-*s  %s\n", "FROM", HIST_BAR + 8, "HIT", "MISS");
    for (unsigned o = first; o <= last; o++) {
        char from[16], left[HIST_CELL], right[HIST_CELL], line[2 * HIST_CELL + 32];
        int len;

        hist_time(from, (double)latency_floor(o * HIST_STEPS));
        /* Each side by its own longest: else the rarer one would have no bar. */
        hist_bar(h, hit, hist_octave(hit, o), most_hit, left);
        hist_bar(h, miss, hist_octave(miss, o), most_miss, right);
        len = snprintf(line, sizeof(line), "%9s  %s  %s", from, left, right);
        while (len > 0 && line[len - 1] == ' ')
            len--; /* no line ends in blanks */
        printf("%.*s\n", len, line);
    }
}

/* One question, one picture.  An answer that does not come ends the command: with tarnd gone,
 * the bars of before would look as if they were of now. */
static int
hist_frame(struct hist *h, bool differences)
{
    char span[24];
    json_t *o;
    int rc = ctl_ask(h->c, "GET", "/v1/latency", NULL, &o);

    if (rc != CTL_DONE)
        return rc;
    h->before = h->now;
    h->before_at = h->now_at;
    hist_read(o, &h->now);
    h->now_at = ctl_clock();
    json_decref(o);
    /* ctl_ask() has printed it. */
    if (h->c->json)
        return rc;
    h->shown = h->now;
    if (differences)
        hist_subtract(&h->shown, &h->now, &h->before);
    /* Home, and clear: in place, so that bars can be compared by eye. */
    if (h->terminal && h->c->live)
        fputs("\033[H\033[2J", stdout);
    if (differences) {
        ctl_seconds(span, h->now_at - h->before_at);
        printf("%s, in the last %s\n\n", h->c->admin, span);
    } else {
        printf("%s, since it started\n\n", h->c->admin);
    }
    hist_summary(h);
    hist_bars(h);
    if (!h->terminal && h->c->live)
        putchar('\n');
    fflush(stdout);
    return rc;
}

/* What the locale's variables say, as setlocale(3) looks at them. */
static bool
hist_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != '\0')
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

int
ctl_hist(struct ctl *c)
{
    struct hist *h;
    double every = 1, count = 0;
    int rc = CTL_DONE;

    if (!ctl_positive("--every", c->every, &every) || !ctl_positive("--count", c->count, &count))
        return CTL_USAGE;
    h = calloc(1, sizeof(*h));
    if (h == NULL) {
        ctl_say("out of memory");
        return CTL_REFUSED;
    }
    c->live = c->live || c->every != NULL || c->count != NULL;
    *h = (struct hist){
        .c = c, .terminal = isatty(STDOUT_FILENO) && !c->json, .utf8 = hist_is_utf8()};
    if (!c->live)
        count = 1;
    for (unsigned n = 0; rc == CTL_DONE && (count == 0 || n < count); n++) {
        if (n > 0)
            ctl_pause(every);
        rc = hist_frame(h, n > 0);
    }
    free(h);
    return rc;
}
