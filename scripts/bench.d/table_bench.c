/* table_bench.c -- what tables in shared memory cost their readers and their writer.
 *
 *     table_bench find  DIR KEYS N              looks of one turn: ns each
 *     table_bench turn  DIR KEYS N              turns of one look: in, look, out
 *     table_bench fresh DIR KEYS N [unchecked]  such turns, each of which meets a new version
 *     table_bench write DIR KEYS N              versions written, nobody reading
 *     table_bench load  DIR KEYS N RATE         turns of four looks, in pairs of N with no writer and N
 *                                               with RATE versions a second: the median of their ratios
 *     table_bench none  DIR KEYS N              the loop of `find` without the look
 *
 * KEYS entries of a map, "/path/NUMBER" to 16 bytes; the table is DIR/bench.  Prints one number.  For
 * instructions: two runs under callgrind that differ in N.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/tassert.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_write.h"

enum {
    ASKED = 1024, /* keys, drawn before they are looked up */
    PAIRS = 15,   /* of `load` */
};

struct bench {
    char path[4096];
    unsigned keys;
    unsigned long n;
    struct table_image image;
    struct table_writer *writer;
    struct table_reader *reader;
    char asked[ASKED][24];
    struct slice asked_slices[ASKED];
};

static volatile uint64_t bench_sum;

static double
bench_now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static size_t
bench_key(char *out, unsigned i)
{
    return (size_t)snprintf(out, 24, "/path/%u", i);
}

static void
bench_build(struct bench *b)
{
    struct table_builder *builder;
    const char *why;
    char key[24];
    size_t again;
    int err = table_builder_new(&builder, TABLE_MAP);

    for (unsigned i = 0; i < b->keys && err == 0; i++)
        err = table_builder_add(
            builder, slice_of(key, bench_key(key, i)), slice_of("0123456789abcdef", 16), &why);
    if (err == 0)
        err = table_builder_finish(builder, &b->image, &again);
    tassert(err == 0);
    table_builder_free(&builder);
}

static void
bench_write(struct bench *b)
{
    char why[TABLE_WHY_MAX];

    tassert(table_write(b->writer, &b->image, why, sizeof(why)) >= 0);
}

static void
bench_open(struct bench *b, const char *dir, enum table_trust trust)
{
    char why[TABLE_WHY_MAX] = "";
    uint64_t seed = 1;

    snprintf(b->path, sizeof(b->path), "%s/bench", dir);
    bench_build(b);
    if (table_writer_open(&b->writer, b->path, 1000, why, sizeof(why)) != 0) {
        fprintf(stderr, "table_bench: %s\n", why);
        exit(1);
    }
    bench_write(b);
    tassert(table_reader_new(&b->reader, b->path, TABLE_MAP, trust) == 0);
    for (unsigned i = 0; i < ASKED; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        b->asked_slices[i] =
            slice_of(b->asked[i], bench_key(b->asked[i], (unsigned)(seed >> 33) % b->keys));
    }
}

static inline void
bench_look(const struct bench *b, const struct table_view *v, unsigned long i)
{
    struct slice value;

    tassert(table_view_find(v, b->asked_slices[i % ASKED], &value));
    bench_sum += (unsigned char)value.ptr[0];
}

static void
bench_turn(const struct bench *b, unsigned long i, unsigned looks)
{
    const struct table_view *v = table_enter(b->reader);

    tassert(v != NULL);
    for (unsigned k = 0; k < looks; k++)
        bench_look(b, v, i + k);
    tassert(table_leave(b->reader) == 0);
}

static double
bench_find(struct bench *b)
{
    const struct table_view *v = table_enter(b->reader);
    double from = bench_now(CLOCK_MONOTONIC);

    for (unsigned long i = 0; i < b->n; i++)
        bench_look(b, v, i);
    from = bench_now(CLOCK_MONOTONIC) - from;
    table_leave(b->reader);
    return from / (double)b->n;
}

static double
bench_none(struct bench *b)
{
    double from = bench_now(CLOCK_MONOTONIC);

    for (unsigned long i = 0; i < b->n; i++)
        bench_sum += (unsigned char)b->asked_slices[i % ASKED].ptr[0];
    return (bench_now(CLOCK_MONOTONIC) - from) / (double)b->n;
}

static double
bench_turns(struct bench *b)
{
    double from = bench_now(CLOCK_MONOTONIC);

    for (unsigned long i = 0; i < b->n; i++)
        bench_turn(b, i, 1);
    return (bench_now(CLOCK_MONOTONIC) - from) / (double)b->n;
}

/* The least that lies between two looks at the clock. */
static double
bench_clock(void)
{
    double least = 1e9;

    for (unsigned i = 0; i < 1000; i++) {
        double from = bench_now(CLOCK_MONOTONIC), took = bench_now(CLOCK_MONOTONIC) - from;

        least = took < least ? took : least;
    }
    return least;
}

static double
bench_fresh(struct bench *b)
{
    double sum = 0, clock = bench_clock();

    for (unsigned long i = 0; i < b->n; i++) {
        double from;

        bench_write(b);
        from = bench_now(CLOCK_MONOTONIC);
        bench_turn(b, i, 1);
        sum += bench_now(CLOCK_MONOTONIC) - from - clock;
    }
    return sum / (double)b->n;
}

static double
bench_writes(struct bench *b)
{
    double from = bench_now(CLOCK_MONOTONIC);

    for (unsigned long i = 0; i < b->n; i++)
        bench_write(b);
    return (bench_now(CLOCK_MONOTONIC) - from) / (double)b->n;
}

/* --- load --- */

static pid_t
bench_fork_writer(struct bench *b, const _Atomic bool *on, unsigned rate)
{
    struct timespec next;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        next.tv_nsec += 1000000000L / (long)rate;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_nsec -= 1000000000L;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        if (atomic_load(on))
            bench_write(b);
    }
}

/* CPU time of this thread: who else runs on the machine does not count, but for its caches. */
static double
bench_slice(struct bench *b)
{
    double from = bench_now(CLOCK_THREAD_CPUTIME_ID);

    for (unsigned long i = 0; i < b->n; i++)
        bench_turn(b, i, 4);
    return bench_now(CLOCK_THREAD_CPUTIME_ID) - from;
}

static int
bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
bench_load(struct bench *b, unsigned rate)
{
    _Atomic bool *on =
        mmap(NULL, sizeof(*on), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double ratios[PAIRS];
    pid_t pid;

    tassert(on != MAP_FAILED);
    pid = bench_fork_writer(b, on, rate);
    bench_slice(b);
    for (unsigned i = 0; i < PAIRS; i++) {
        double without, with;

        atomic_store(on, false);
        without = bench_slice(b);
        atomic_store(on, true);
        with = bench_slice(b);
        atomic_store(on, false);
        ratios[i] = with / ((without + bench_slice(b)) / 2);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    qsort(ratios, PAIRS, sizeof(ratios[0]), bench_compare);
    return ratios[PAIRS / 2];
}

int
main(int argc, char **argv)
{
    static struct bench b;
    const char *what = argc > 1 ? argv[1] : "";
    bool unchecked = argc > 5 && strcmp(argv[5], "unchecked") == 0;
    double got = 0;
    bool known = true;

    if (argc < 5 || (b.keys = (unsigned)strtoul(argv[3], NULL, 10)) == 0 ||
        (b.n = strtoul(argv[4], NULL, 10)) == 0) {
        fprintf(stderr, "table_bench find|turn|fresh|write|load|none DIR KEYS N [...]\n");
        return 2;
    }
    bench_open(&b, argv[2], unchecked ? TABLE_UNCHECKED : TABLE_CHECKED);
    if (strcmp(what, "find") == 0)
        got = bench_find(&b);
    else if (strcmp(what, "none") == 0)
        got = bench_none(&b);
    else if (strcmp(what, "turn") == 0)
        got = bench_turns(&b);
    else if (strcmp(what, "fresh") == 0)
        got = bench_fresh(&b);
    else if (strcmp(what, "write") == 0)
        got = bench_writes(&b);
    else if (strcmp(what, "load") == 0 && argc > 5)
        got = bench_load(&b, (unsigned)strtoul(argv[5], NULL, 10));
    else
        known = false;
    printf("%.6g\n", got);
    table_reader_free(&b.reader);
    table_writer_remove(&b.writer);
    free(b.image.base);
    return known ? 0 : 2;
}
