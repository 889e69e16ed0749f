/* access_log_test.c -- lines in the combined format, and a writer that outlives its disk. */
#include "t/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/shm/access_log.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/elog.h"
#include "daemon/shm/log.h"

struct fixture {
    struct shmlog *logs[2];
    struct counters *counters;
    struct access_log *access;
    char dir[40], path[64], old_path[64];
};

static struct fixture
fixture_open(void)
{
    struct fixture f = {.dir = "/tmp/tarn-access-XXXXXX"};

    elog_init(ELOG_ERROR, 1);
    CHECK(mkdtemp(f.dir) != NULL);
    snprintf(f.path, sizeof(f.path), "%s/log", f.dir);
    snprintf(f.old_path, sizeof(f.old_path), "%s/old", f.dir);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(0, shmlog_open(&f.logs[i], NULL, i, SHMLOG_RING_MIN));
    CHECK_EQ(0, counters_open(&f.counters, NULL, 2));
    return f;
}

static void
fixture_close(struct fixture *f)
{
    unlink(f->path);
    unlink(f->old_path);
    rmdir(f->dir);
    counters_close(&f->counters);
    for (unsigned i = 0; i < 2; i++)
        shmlog_close(&f->logs[i]);
}

static struct shmlog_req
some_req(void)
{
    return (struct shmlog_req){
        .fixed = {.start_ms = INT64_C(971211336) * 1000,
            .status = 200,
            .minor = 1,
            .body_bytes = 2326,
            .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7}},
        .line = SLICE_LIT("GET /apache_pb.gif"),
    };
}

static unsigned
count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned n = 0;
    int c;

    if (f == NULL)
        return 0;
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

static void
check_line(const char *want, const struct shmlog_req *r)
{
    static char line[ACCESS_LOG_LINE_MAX + 1];

    line[access_log_format(line, r)] = '\0';
    CHECK_STR(want, line);
}

TEST(access_log, a_line_is_in_the_combined_format)
{
    struct shmlog_req r = some_req();

    check_line("192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.1\" "
               "200 2326 \"-\" \"-\"\n",
        &r);
    r.referer = SLICE_LIT("http://a/");
    r.agent = SLICE_LIT("curl/7.88");
    memcpy(r.fixed.addr, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    r.fixed.minor = 0;
    check_line("2001:db8::1 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.0\" "
               "200 2326 \"http://a/\" \"curl/7.88\"\n",
        &r);
    memset(r.fixed.addr, 0, 16);
    r.line.len = 0;
    r.fixed.start_ms += 1000;
    r.fixed.status = 408;
    check_line("unix: - - [10/Oct/2000:20:55:37 +0000] \"-\" 408 2326 \"http://a/\" "
               "\"curl/7.88\"\n",
        &r);
}

TEST(access_log, a_client_cannot_forge_fields_or_lines)
{
    struct shmlog_req r = some_req();

    r.line = SLICE_LIT("GET /\"\\\n\xc3\xa9");
    r.agent = SLICE_LIT("\" 200 0\r\x7f\t\x1b");
    r.fixed.flags = SHMLOG_REQ_BAD;
    check_line("192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /\\x22\\x5C\\x0A\\xC3\\xA9\" "
               "200 2326 \"-\" \"\\x22 200 0\\x0D\\x7F\\x09\\x1B\"\n",
        &r);
}

TEST(access_log, the_longest_line_fits)
{
    static char buf[ACCESS_LOG_LINE_MAX], text[SHMLOG_TEXT_MAX];
    struct shmlog_req r = some_req();

    memset(text, 1, sizeof(text));
    r.line = r.host = r.referer = r.agent = slice_of(text, sizeof(text));
    r.fixed.start_ms = INT64_MAX;
    r.fixed.body_bytes = UINT64_MAX;
    CHECK(access_log_format(buf, &r) > 3 * 4 * SHMLOG_TEXT_MAX);
    r.fixed.start_ms = INT64_MIN;
    CHECK(access_log_format(buf, &r) > 3 * 4 * SHMLOG_TEXT_MAX);
}

TEST(access_log, every_request_of_every_worker_is_written_by_the_stop)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    struct stat st;

    CHECK_EQ(0, access_log_start(&f.access, f.path, f.logs, 2, f.counters));
    for (unsigned i = 0; i < 300; i++)
        shmlog_req(f.logs[i % 2], &r);
    shmlog_begin(f.logs[0], 1, SHMLOG_KIND_REQ, 0);
    shmlog_text(f.logs[0], SHMLOG_ReqURL, SLICE_LIT("/details"));
    shmlog_end(f.logs[0]);
    CHECK(!shmlog_readers(f.logs[0])); /* it needs no details, so it asks for none */
    access_log_stop(&f.access);
    CHECK_EQ(300, count_lines(f.path));
    CHECK_EQ(0, counters_sum(f.counters, COUNTER_log_lost_access));
    CHECK_EQ(0, stat(f.path, &st));
    CHECK_EQ(0, st.st_mode & 0027);
    fixture_close(&f);
}

TEST(access_log, written_and_lost_lines_together_are_all_requests)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    enum {
        N = 20000
    };

    CHECK_EQ(0, access_log_start(&f.access, f.path, f.logs, 2, f.counters));
    for (unsigned i = 0; i < N; i++)
        shmlog_req(f.logs[0], &r); /* faster than anybody reads */
    access_log_stop(&f.access);
    CHECK(count_lines(f.path) > 0);
    CHECK(counters_sum(f.counters, COUNTER_log_lost_access) > 0);
    CHECK_EQ(N, count_lines(f.path) + counters_sum(f.counters, COUNTER_log_lost_access));
    fixture_close(&f);
}

static void
wait_ms(unsigned ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&nap, NULL);
}

TEST(access_log, reopening_leaves_the_old_file_and_loses_nothing)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();

    CHECK_EQ(0, access_log_start(&f.access, f.path, f.logs, 2, f.counters));
    shmlog_req(f.logs[0], &r);
    for (unsigned i = 0; i < 100 && count_lines(f.path) < 1; i++)
        wait_ms(20);
    CHECK_EQ(1, count_lines(f.path));
    CHECK_EQ(0, rename(f.path, f.old_path));
    access_log_reopen(f.access);
    for (unsigned i = 0; i < 100 && access(f.path, F_OK) < 0; i++)
        wait_ms(20);
    shmlog_req(f.logs[1], &r);
    shmlog_req(f.logs[1], &r);
    access_log_stop(&f.access);
    CHECK_EQ(1, count_lines(f.old_path));
    CHECK_EQ(2, count_lines(f.path));
    fixture_close(&f);
}

TEST(access_log, a_full_disk_is_counted_and_stops_nothing)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();

    CHECK_EQ(0, access_log_start(&f.access, "/dev/full", f.logs, 2, f.counters));
    for (unsigned i = 0; i < 7; i++)
        shmlog_req(f.logs[0], &r);
    access_log_stop(&f.access);
    CHECK_EQ(7, counters_sum(f.counters, COUNTER_log_lost_access));
    fixture_close(&f);
}

TEST(access_log, an_output_that_takes_nothing_does_not_hold_the_stop)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    static char junk[65536];
    int reader;

    CHECK_EQ(0, mkfifo(f.path, 0600));
    CHECK_EQ(TERR_IO, access_log_start(&f.access, f.path, f.logs, 2, f.counters));
    reader = open(f.path, O_RDWR | O_NONBLOCK);
    CHECK(reader >= 0);
    while (write(reader, junk, sizeof(junk)) > 0)
        continue; /* full, and nobody empties it */
    CHECK_EQ(0, access_log_start(&f.access, f.path, f.logs, 2, f.counters));
    shmlog_req(f.logs[0], &r);
    access_log_stop(&f.access);
    CHECK_EQ(1, counters_sum(f.counters, COUNTER_log_lost_access));
    close(reader);
    fixture_close(&f);
}

TEST(access_log, a_file_that_cannot_be_opened_is_an_error)
{
    struct fixture f = fixture_open();

    CHECK_EQ(TERR_IO, access_log_start(&f.access, "/nowhere/log", f.logs, 2, f.counters));
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(access_log, a_line_is_in_the_combined_format),
        TEST_ENTRY(access_log, a_client_cannot_forge_fields_or_lines),
        TEST_ENTRY(access_log, the_longest_line_fits),
        TEST_ENTRY(access_log, every_request_of_every_worker_is_written_by_the_stop),
        TEST_ENTRY(access_log, written_and_lost_lines_together_are_all_requests),
        TEST_ENTRY(access_log, reopening_leaves_the_old_file_and_loses_nothing),
        TEST_ENTRY(access_log, a_full_disk_is_counted_and_stops_nothing),
        TEST_ENTRY(access_log, an_output_that_takes_nothing_does_not_hold_the_stop),
        TEST_ENTRY(access_log, a_file_that_cannot_be_opened_is_an_error),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
