/* log_tail.c -- an example of a reader: requests of one worker as lines, slow ones alone.
 *
 *     cc log_tail.c $(pkg-config --cflags --libs tarnlog) -o log_tail
 *     log_tail DIR N MILLISECONDS      N requests that took at least so long; then the counters
 *
 * DIR is what `tarnctl status` calls shared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarnlog.h>
#include <time.h>

/* Requests as they end; the reader gets a copy that nothing can change any more. */
static int
tail(struct shmlog_reader *r, const struct backend_names_view *names, unsigned long n,
    unsigned long least_ms)
{
    static char line[ACCESS_LINE_MAX];
    const struct timespec nap = {0, 10 * 1000 * 1000};
    struct shmlog_view chunk;
    struct shmlog_rec rec;
    struct shmlog_req req;
    int got = 0;

    while (n > 0 && (got = shmlog_next(r, &chunk)) >= 0) {
        if (got == 0)
            nanosleep(&nap, NULL);
        while (got > 0 && n > 0 && shmlog_record_next(&chunk, &rec)) {
            if (!shmlog_rec_req(&rec, &chunk, &req) || req.fixed.duration_us / 1000 < least_ms)
                continue;
            fwrite(line, 1, access_format_named(line, ACCESS_FORMAT_JSON, &req, names), stdout);
            n--;
        }
    }
    if (shmlog_missed_reqs(r) > 0)
        printf("missed %llu requests\n", (unsigned long long)shmlog_missed_reqs(r));
    return got;
}

static int
print_counters(const char *path)
{
    struct counters_view *view;
    struct counters_row row;
    int err = counters_view_open(&view, path);

    if (err != 0)
        return err;
    for (unsigned i = 0; counters_view_row(view, i, &row) == 0; i++)
        if (strncmp(row.name, "req.", 4) == 0)
            printf("%s %llu\n", row.name, (unsigned long long)row.value);
    counters_view_close(&view);
    return 0;
}

int
main(int argc, char **argv)
{
    struct backend_names_view *names = NULL;
    struct shmlog_reader *r;
    char path[4096];
    int err;

    if (argc != 4) {
        fprintf(stderr, "usage: log_tail DIR N MILLISECONDS\n");
        return 2;
    }
    snprintf(path, sizeof(path), "%s/backends", argv[1]);
    if (backend_names_view_open(&names, path) != 0)
        names = NULL; /* then lines have numbers */
    snprintf(path, sizeof(path), "%s/log.0", argv[1]);
    err = shmlog_reader_open(&r, path, SHMLOG_FROM_OLDEST);
    if (err == 0) {
        err = tail(r, names, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
        shmlog_reader_close(&r);
        snprintf(path, sizeof(path), "%s/counters", argv[1]);
    }
    if (names != NULL)
        backend_names_view_close(&names);
    if (err >= 0)
        err = print_counters(path);
    if (err < 0)
        fprintf(stderr, "log_tail: %s: %s\n", path, terr_text(err));
    return err < 0 ? 1 : 0;
}
