/* table_race_test.c -- tables read while they are written as fast as can be.
 *
 *     table_race_test [READS [READERS]]      reads of each of the readers; for a long run by hand
 *
 * They read on until they have also seen VERSIONS of them: on a busy machine a writer may come to
 * run when all the reads that were asked for are done.
 *
 * Once within one process, on plain memory, where ThreadSanitizer sees what the protocol orders and
 * what not (two mappings of a file are two places to it).  And once as it is meant: a writer process
 * and reader processes, on files.  Each version has one number in all of its values, and a reader
 * that finds two different ones has found a torn read.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "t/unit/table_fixture.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

enum {
#if defined(__SANITIZE_THREAD__)
    READS = 50 * 1000,
#else
    READS = 1000 * 1000,
#endif
    VERSIONS = 20, /* at least, that the readers live through */
    READERS = 2,
    READERS_MAX = 16,
    WORDS = 64, /* of a version on plain memory */
    KEYS = 64,  /* of a table on files */
    ASKED = 4,  /* of these, in one stay inside */
};

static unsigned long race_reads = READS;
static unsigned race_readers = READERS;

/* --- threads, on plain memory --- */

static struct {
    struct table_state state;
    uint64_t copies[2][WORDS];
    _Atomic bool stop;
    _Atomic unsigned long torn, versions;
} plain;

static void *
plain_write(void *arg)
{
    while (!atomic_load(&plain.stop)) {
        unsigned other = TABLE_VERSION_INDEX(atomic_load(&plain.state.version)) ^ 1;

        while (!table_state_is_free(&plain.state, other))
            sched_yield();
        uint64_t n = atomic_fetch_add(&plain.versions, 1) + 1;

        for (unsigned i = 0; i < WORDS; i++)
            plain.copies[other][i] = n;
        table_state_publish(&plain.state, table_version(other, WORDS * 8, n));
    }
    return arg;
}

static void *
plain_read(void *arg)
{
    struct table_place at;

    for (unsigned long i = 0; i < race_reads || atomic_load(&plain.versions) < VERSIONS; i++) {
        uint64_t version = table_state_enter(&plain.state, &at);
        const uint64_t *copy = plain.copies[TABLE_VERSION_INDEX(version)];
        uint64_t first = copy[0];

        for (unsigned w = 1; w < WORDS; w++)
            if (copy[w] != first)
                atomic_fetch_add(&plain.torn, 1);
        CHECK(table_state_leave(&plain.state, at));
    }
    return arg;
}

TEST(table_race, threads_read_no_torn_version)
{
    pthread_t writer, readers[READERS_MAX];

    CHECK_EQ(0, pthread_create(&writer, NULL, plain_write, NULL));
    for (unsigned i = 0; i < race_readers; i++)
        CHECK_EQ(0, pthread_create(&readers[i], NULL, plain_read, NULL));
    for (unsigned i = 0; i < race_readers; i++)
        CHECK_EQ(0, pthread_join(readers[i], NULL));
    atomic_store(&plain.stop, true);
    CHECK_EQ(0, pthread_join(writer, NULL));
    print_message("%lu reads or more of %lu versions, %lu torn\n", race_reads * race_readers,
        atomic_load(&plain.versions), atomic_load(&plain.torn));
    CHECK_EQ(0, atomic_load(&plain.torn));
    CHECK(atomic_load(&plain.versions) >= VERSIONS);
}

/* --- processes, on files --- */

/* What they tell each other, in memory that they share. */
struct tally {
    _Atomic bool stop;
    _Atomic unsigned long reads, torn, missed, backwards, overtaken, taken, versions, resets;
};

static struct table_fixture f;

/* All keys with the number; the image is made once and only its numbers change. */
static struct table_image
files_image(void)
{
    struct table_builder *b;
    struct table_image image;
    uint64_t zero = 0;
    const char *why;
    char key[16];
    size_t again;

    CHECK_EQ(0, table_builder_new(&b, TABLE_MAP));
    for (unsigned i = 0; i < KEYS; i++) {
        size_t n = (size_t)snprintf(key, sizeof(key), "key-%u", i);

        CHECK_EQ(0, table_builder_add(b, slice_of(key, n), slice_of((char *)&zero, 8), &why));
    }
    CHECK_EQ(0, table_builder_finish(b, &image, &again));
    table_builder_free(&b);
    return image;
}

static void
files_write(struct tally *t)
{
    struct table_image image = files_image();
    struct table_writer *w;
    struct slice key, value;
    struct table_view v;
    unsigned long n;

    CHECK_EQ(0, table_writer_open(&w, f.path, 60000, f.why, sizeof(f.why)));
    CHECK_EQ(0, table_view_open(&v, image.base, image.bytes, TABLE_CHECKED, f.why, sizeof(f.why)));
    for (n = 1; !atomic_load(&t->stop); n++) {
        for (uint64_t at = 0; table_view_next(&v, &at, &key, &value);)
            memcpy((void *)(uintptr_t)value.ptr, &n, 8);
        atomic_fetch_add(&t->resets, table_write(w, &image, f.why, sizeof(f.why)) != 0);
    }
    atomic_store(&t->versions, n);
    table_writer_close(&w);
    free(image.base);
}

/* A stay inside: a few keys, which must all be there and have one number. */
static void
files_stay(struct tally *t, const struct table_view *v, unsigned long i, uint64_t *last)
{
    uint64_t first = 0, n;
    struct slice value;
    char key[16];

    for (unsigned k = 0; k < ASKED; k++) {
        size_t len =
            (size_t)snprintf(key, sizeof(key), "key-%u", (unsigned)(i * 7 + k * 13) % KEYS);

        if (!table_view_find(v, slice_of(key, len), &value) || value.len != 8) {
            atomic_fetch_add(&t->missed, 1);
            continue;
        }
        memcpy(&n, value.ptr, 8);
        if (k > 0 && n != first)
            atomic_fetch_add(&t->torn, 1);
        first = n;
    }
    if (first < *last)
        atomic_fetch_add(&t->backwards, 1);
    *last = first;
}

static void
files_read(struct tally *t)
{
    struct table_reader *r;
    struct table_seen seen = {0};
    uint64_t last = 0;
    unsigned long i;

    CHECK_EQ(0, table_reader_new(&r, f.path, TABLE_MAP, TABLE_CHECKED));
    for (i = 0; i < race_reads || seen.taken < VERSIONS; i++) {
        const struct table_view *v = table_enter(r);

        if (v == NULL)
            atomic_fetch_add(&t->missed, 1);
        else
            files_stay(t, v, i, &last);
        table_leave(r);
        if (i + 1 >= race_reads)
            table_reader_seen(r, &seen);
    }
    atomic_fetch_add(&t->reads, i);
    atomic_fetch_add(&t->overtaken, seen.overtaken);
    atomic_fetch_add(&t->taken, seen.taken);
    atomic_fetch_add(&t->missed, seen.refused); /* a good writer's versions are all good */
    table_reader_free(&r);
}

static pid_t
files_fork(struct tally *t, void (*run)(struct tally *t))
{
    pid_t pid = fork();

    if (pid == 0) {
        run(t);
        _exit(0);
    }
    return pid;
}

static struct tally *
files_tally(void)
{
    struct tally *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(t != MAP_FAILED);
    fixture_open(&f);
    return t;
}

TEST(table_race, processes_read_no_torn_version)
{
    struct tally *t = files_tally();
    struct table_image image = files_image();
    struct table_writer *w;
    pid_t writer, readers[READERS_MAX];
    int status;

    CHECK_EQ(0, table_writer_open(&w, f.path, 1000, f.why, sizeof(f.why)));
    CHECK_EQ(0, table_write(w, &image, f.why, sizeof(f.why)));
    table_writer_close(&w);
    free(image.base);
    writer = files_fork(t, files_write);
    for (unsigned i = 0; i < race_readers; i++)
        readers[i] = files_fork(t, files_read);
    for (unsigned i = 0; i < race_readers; i++) {
        CHECK_EQ(readers[i], waitpid(readers[i], &status, 0));
        CHECK_EQ(0, status);
    }
    atomic_store(&t->stop, true);
    CHECK_EQ(writer, waitpid(writer, &status, 0));
    CHECK_EQ(0, status);
    print_message(
        "%lu reads, %lu versions written, %lu taken; %lu torn, %lu missed, %lu backwards, "
        "%lu overtaken, %lu resets\n",
        t->reads, t->versions, t->taken, t->torn, t->missed, t->backwards, t->overtaken, t->resets);
    CHECK_EQ(0, t->torn + t->missed + t->backwards + t->overtaken + t->resets);
    CHECK(t->taken >= (unsigned long)VERSIONS * race_readers);
    munmap(t, sizeof(*t));
    fixture_close(&f);
}

/* Writers are killed wherever they are, and the next one goes on; a reader reads all the time. */
TEST(table_race, writers_that_are_killed_tear_nothing)
{
    struct tally *t = files_tally();
    struct table_image image = files_image();
    struct table_writer *w;
    struct timespec nap = {0};
    struct table_reader *r;
    unsigned kills = 40;
    pid_t reader;
    int status;

    CHECK_EQ(0, table_writer_open(&w, f.path, 1000, f.why, sizeof(f.why)));
    CHECK_EQ(0, table_write(w, &image, f.why, sizeof(f.why)));
    table_writer_close(&w);
    free(image.base);
    reader = fork();
    if (reader == 0) {
        CHECK_EQ(0, table_reader_new(&r, f.path, TABLE_MAP, TABLE_CHECKED));
        for (unsigned long i = 0; !atomic_load(&t->stop); i++) {
            uint64_t last = 0; /* a writer that follows counts from 1 */

            files_stay(t, table_enter(r), i, &last);
            table_leave(r);
            atomic_fetch_add(&t->reads, 1);
        }
        table_reader_free(&r);
        _exit(0);
    }
    for (unsigned i = 0; i < kills; i++) {
        pid_t writer = files_fork(t, files_write);

        nap.tv_nsec = 1000000 + (long)i * 137000;
        nanosleep(&nap, NULL);
        CHECK_EQ(0, kill(writer, SIGKILL));
        CHECK_EQ(writer, waitpid(writer, &status, 0));
        CHECK(WIFSIGNALED(status));
    }
    atomic_store(&t->stop, true);
    CHECK_EQ(reader, waitpid(reader, &status, 0));
    CHECK_EQ(0, status);
    print_message("%u writers killed, %lu reads, %lu torn, %lu missed\n", kills, t->reads, t->torn,
        t->missed);
    CHECK_EQ(0, t->torn + t->missed);
    munmap(t, sizeof(*t));
    fixture_close(&f);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(table_race, threads_read_no_torn_version),
        TEST_ENTRY(table_race, processes_read_no_torn_version),
        TEST_ENTRY(table_race, writers_that_are_killed_tear_nothing),
    };

    if (argc > 1)
        race_reads = strtoul(argv[1], NULL, 10);
    if (argc > 2)
        race_readers = (unsigned)strtoul(argv[2], NULL, 10) % (READERS_MAX + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
