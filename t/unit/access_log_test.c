/* access_log_test.c -- lines in all formats, and a writer that outlives its disk. */
#include "t/unit/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/json.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/access_line.h"
#include "daemon/log/access_log.h"
#include "daemon/log/elog.h"
#include "daemon/shm/counters.h"
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

/* Lines in the combined format to `to`. */
static int
fixture_start(struct fixture *f, const char *to)
{
    struct access_log_conf conf = {
        .to = to, .format = "combined", .logs = f->logs, .nlogs = 2, .counters = f->counters};

    return access_log_start(&f->access, &conf);
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
            .version = 1,
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
    static char line[ACCESS_LINE_MAX + 1];

    line[access_format_line(line, ACCESS_FORMAT_COMBINED, r)] = '\0';
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
    r.fixed.version = 0;
    check_line("2001:db8::1 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.0\" "
               "200 2326 \"http://a/\" \"curl/7.88\"\n",
        &r);
    r.fixed.version = SHMLOG_HTTP_2_0;
    check_line("2001:db8::1 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/2.0\" "
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

/* The line as JSON; given back by the caller.  It is one line, and it ends. */
static json_t *
json_line(const struct shmlog_req *r)
{
    static char line[ACCESS_LINE_MAX];
    size_t n = access_format_line(line, ACCESS_FORMAT_JSON, r);
    char why[128] = "";
    json_t *o;

    CHECK(memchr(line, '\n', n) == line + n - 1);
    o = json_parse(slice_of(line, n), why, sizeof(why));
    CHECK_STR("", why);
    CHECK(o != NULL);
    return o;
}

static const char *
json_text(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));

    return text != NULL ? text : "(none)";
}

TEST(access_log, a_line_of_json_has_everything)
{
    static const char want[] =
        "{\"time\":\"2000-10-10T20:55:36.007Z\",\"client\":\"192.0.2.7\",\"port\":4711,"
        "\"method\":\"GET\",\"url\":\"/apache_pb.gif\",\"host\":\"a.example\","
        "\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":2626,\"body_bytes\":2326,"
        "\"bytes_in\":99,\"duration_us\":1500,\"ttfb_us\":900,\"cache\":\"stale\",\"queued\":true,"
        "\"truncated\":false,\"restarted\":false,\"revalidated\":false,\"malformed\":false,"
        "\"backend\":2,\"referer\":null,\"user_agent\":\"curl/7.88\","
        "\"scheme\":\"http\",\"tls\":null,\"xid\":\"00000000000000fe\"}\n";
    static char line[ACCESS_LINE_MAX + 1];
    struct shmlog_req r = some_req();

    r.ids.xid = 0xfe;
    r.fixed.start_ms += 7;
    r.fixed.port = 4711;
    r.fixed.head_bytes = 300;
    r.fixed.bytes_in = 99;
    r.fixed.duration_us = 1500;
    r.fixed.ttfb_us = 900;
    r.fixed.backend = 3;
    r.fixed.flags = SHMLOG_REQ_HIT | SHMLOG_REQ_STALE | SHMLOG_REQ_QUEUED;
    r.host = SLICE_LIT("a.example");
    r.agent = SLICE_LIT("curl/7.88");
    line[access_format_line(line, ACCESS_FORMAT_JSON, &r)] = '\0';
    CHECK_STR(want, line);
    r.fixed.version = SHMLOG_HTTP_2_0;
    line[access_format_line(line, ACCESS_FORMAT_JSON, &r)] = '\0';
    CHECK(strstr(line, "\"protocol\":\"HTTP/2.0\"") != NULL);
}

TEST(access_log, the_word_for_the_cache_is_of_what_answered)
{
    static const struct {
        unsigned flags;
        const char *word;
    } rows[] = {{SHMLOG_REQ_HIT, "hit"}, {SHMLOG_REQ_MISS, "miss"},
        {SHMLOG_REQ_MISS | SHMLOG_REQ_SYNTH, "synth"}, {SHMLOG_REQ_PASS, "pass"},
        {SHMLOG_REQ_MISS | SHMLOG_REQ_SYNTH | SHMLOG_REQ_ERROR, "error"},
        {SHMLOG_REQ_BAD | SHMLOG_REQ_SYNTH, "error"}, {SHMLOG_REQ_PASS | SHMLOG_REQ_PIPE, "pipe"},
        {SHMLOG_REQ_MISS | SHMLOG_REQ_HIT | SHMLOG_REQ_STALE, "stale"},
        {SHMLOG_REQ_QUEUED | SHMLOG_REQ_HIT, "hit"},
        {SHMLOG_REQ_MISS | SHMLOG_REQ_HITMISS, "hit-for-miss"},
        {SHMLOG_REQ_PASS | SHMLOG_REQ_HITMISS, "hit-for-miss"},
        {SHMLOG_REQ_SYNTH | SHMLOG_REQ_ABSENT, "absent"}, {SHMLOG_REQ_QUEUED, "coalesced"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(rows[i].word, access_cache_word(rows[i].flags));
    CHECK(access_cache_word(0) == NULL);
}

TEST(access_log, any_bytes_make_valid_json)
{
    struct shmlog_req r = some_req();
    json_t *o;

    r.line = SLICE_LIT("GET /\"\\\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    r.agent = SLICE_LIT("\xff\xc0\x80\xed\xa0\x80\x7f\xc2\x9b");
    o = json_line(&r);
    CHECK_STR("/\"\\\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", json_text(o, "url"));
    CHECK_STR(
        "\xc3\xbf\xc3\x80\xc2\x80\xc3\xad\xc2\xa0\xc2\x80\x7f\xc2\x9b", json_text(o, "user_agent"));
    json_decref(o);
    for (unsigned i = 0; i < 256 * 256; i++) {
        char bytes[] = {'G', ' ', (char)(i >> 8 | 1), (char)i, (char)(i >> 8 | 1), (char)(i * 7)};

        if ((i & 255) == 0)
            continue; /* jansson takes no NUL */
        r.line = r.agent = slice_of(bytes, sizeof(bytes));
        json_decref(json_line(&r));
    }
}

TEST(access_log, what_was_no_request_is_all_url)
{
    struct shmlog_req r = some_req();
    json_t *o;

    r.line = SLICE_LIT("\x16\x03 1");
    r.fixed.flags = SHMLOG_REQ_BAD | SHMLOG_REQ_SYNTH;
    r.fixed.start_ms = -1;
    o = json_line(&r);
    CHECK_STR("\x16\x03 1", json_text(o, "url"));
    CHECK(json_is_null(json_object_get(o, "method")));
    CHECK(json_is_null(json_object_get(o, "protocol")));
    CHECK(json_is_null(json_object_get(o, "time")));
    CHECK(json_is_null(json_object_get(o, "backend")));
    CHECK(json_is_true(json_object_get(o, "malformed")));
    json_decref(o);
}

TEST(access_log, the_longest_line_fits)
{
    static char buf[ACCESS_LINE_MAX], text[SHMLOG_TEXT_MAX];
    struct shmlog_req r = some_req();

    memset(text, 1, sizeof(text));
    r.line = r.host = r.referer = r.agent = slice_of(text, sizeof(text));
    r.fixed.start_ms = INT64_MAX;
    r.fixed.body_bytes = UINT64_MAX;
    CHECK(access_format_line(buf, ACCESS_FORMAT_COMBINED, &r) > 3 * 4 * SHMLOG_TEXT_MAX);
    CHECK(access_format_line(buf, ACCESS_FORMAT_JSON, &r) > 4 * 6 * SHMLOG_TEXT_MAX);
    r.fixed.start_ms = INT64_MIN;
    CHECK(access_format_line(buf, ACCESS_FORMAT_COMBINED, &r) > 3 * 4 * SHMLOG_TEXT_MAX);
    CHECK(access_format_line(buf, ACCESS_FORMAT_JSON, &r) > 4 * 6 * SHMLOG_TEXT_MAX);
}

/* ---- a format of one's own ---- */

static void
check_pattern(const char *want, const char *format, const struct shmlog_req *r)
{
    static char line[ACCESS_LINE_MAX + 1];
    struct access_pattern pattern;
    char why[1024] = "";

    CHECK(access_pattern_is(format));
    CHECK_EQ(0, access_pattern_parse(&pattern, slice_str(format), why, sizeof(why)));
    line[access_line(line, &pattern, r, NULL)] = '\0';
    CHECK_STR(want, line);
}

TEST(access_log, a_format_of_its_own_has_text_and_fields)
{
    struct shmlog_req r = some_req();

    r.fixed.port = 4711;
    r.fixed.start_ms += 7;
    r.fixed.bytes_in = 80;
    r.fixed.head_bytes = 100;
    r.fixed.duration_us = 12345678;
    r.fixed.ttfb_us = 999;
    r.fixed.flags = SHMLOG_REQ_HIT;
    r.fixed.backend = 3;
    r.ids.xid = 0xabc;
    r.host = SLICE_LIT("a.test:80");
    r.referer = SLICE_LIT("http://a/");
    r.agent = SLICE_LIT("curl/7.88");
    check_pattern("192.0.2.7 - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.1\" 200 "
                  "2326 \"http://a/\" \"curl/7.88\"\n",
        "$remote_addr - [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" "
        "\"$http_user_agent\"",
        &r);
    check_pattern("GET|/apache_pb.gif|HTTP/1.1|a.test:80|a.test:80|http://a/|curl/7.88\n",
        "$request_method|$request_uri|$server_protocol|$host|$http_host|$referer|$user_agent", &r);
    r.fixed.version = SHMLOG_HTTP_2_0;
    check_pattern("GET /apache_pb.gif HTTP/2.0|HTTP/2.0\n", "$request|$server_protocol", &r);
    check_pattern("2000-10-10T20:55:36.007Z 971211336.007 4711 80 2426 12.345 12345678 999 hit 2 "
                  "0000000000000abc OK\n",
        "$time_iso8601 $msec $remote_port $request_length $bytes_sent $request_time $time $ttfb "
        "$cache $backend $request_id $request_completion",
        &r);
    check_pattern("a$200$200\t$\n", "a$$$status$$$status\t$$", &r);
    check_pattern("200-x\n", "$status-x", &r);
}

TEST(access_log, fields_of_its_own_format_that_are_missing_or_hostile_end_no_line)
{
    struct shmlog_req r = some_req();

    check_pattern("- - - - - -\n", "$host $referer $user_agent $cache $backend $host", &r);
    r.fixed.flags = SHMLOG_REQ_BAD | SHMLOG_REQ_TRUNCATED;
    r.line = SLICE_LIT("\x16 \x03\"");
    check_pattern("\\x16 \\x03\\x22 - \\x16 \\x03\\x22 - -\n",
        "$request $request_method $request_uri $server_protocol $request_completion", &r);
    r.agent = SLICE_LIT("\" 200\n\x7f\xc3\\");
    check_pattern("\"\\x22 200\\x0A\\x7F\\xC3\\x5C\"\n", "\"$http_user_agent\"", &r);
    r.line.len = 0;
    check_pattern("- - -\n", "$request $request_method $request_uri", &r);
}

static void
check_no_pattern(const char *format, const char *part)
{
    struct access_pattern pattern;
    char why[1024] = "";

    CHECK_EQ(TERR_CONFIG, access_pattern_parse(&pattern, slice_str(format), why, sizeof(why)));
    if (strstr(why, part) == NULL)
        CHECK_STR(part, why);
}

TEST(access_log, a_format_of_its_own_that_is_wrong_is_refused)
{
    static char fields[2000];

    check_no_pattern(
        "$status $nothing", "names $nothing, which is no field: there are $remote_addr");
    check_no_pattern("$statusx", "names $statusx");
    check_no_pattern("costs 5$", "has a $ that begins no name: $$ is a dollar sign");
    check_no_pattern("${status}", "has a $ that begins no name");
    check_no_pattern("$status\n", "has a control character");
    memset(fields, 'x', sizeof(fields) - 1);
    check_no_pattern(fields, "has more than 1024 bytes");
    fields[0] = '\0';
    for (unsigned i = 0; i < 64; i++)
        strcat(fields, "$status ");
    check_no_pattern(fields, "too long");
    check_no_pattern("$host$host$host$host$host$host$host$host", "too long");
}

/* Each row's bound holds, so that the bound of a line does. */
TEST(access_log, no_field_of_its_own_format_is_longer_than_its_row_says)
{
    static const struct {
        const char *name;
        size_t most;
    } rows[] = {
#define X(name, most, doc) {"$" #name, most},
        ACCESS_FIELD_TABLE(X)
#undef X
    };
    static char buf[ACCESS_LINE_MAX], text[SHMLOG_TEXT_MAX];
    struct access_pattern pattern;
    struct shmlog_req r = some_req();
    char why[1024];

    memset(text, 1, sizeof(text));
    r.line = r.host = r.referer = r.agent = slice_of(text, sizeof(text));
    memset(&r.fixed, 0xff, sizeof(r.fixed));
    memset(&r.ids, 0xff, sizeof(r.ids));
    for (unsigned n = 0; n < 3 * ARRAY_LEN(rows); n++) {
        unsigned i = n % ARRAY_LEN(rows);

        r.fixed.flags = n < ARRAY_LEN(rows) ? UINT32_MAX & ~(uint32_t)SHMLOG_REQ_BAD : UINT32_MAX;
        r.fixed.start_ms = n < 2 * ARRAY_LEN(rows) ? INT64_MAX : INT64_MIN;
        CHECK_EQ(0, access_pattern_parse(&pattern, slice_str(rows[i].name), why, sizeof(why)));
        CHECK(access_line(buf, &pattern, &r, NULL) <= rows[i].most + 1);
    }
}

TEST(access_log, every_request_of_every_worker_is_written_by_the_stop)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    struct stat st;

    CHECK_EQ(0, fixture_start(&f, f.path));
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

    CHECK_EQ(0, fixture_start(&f, f.path));
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

    CHECK_EQ(0, fixture_start(&f, f.path));
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

    CHECK_EQ(0, fixture_start(&f, "/dev/full"));
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
    CHECK_EQ(TERR_IO, fixture_start(&f, f.path));
    reader = open(f.path, O_RDWR | O_NONBLOCK);
    CHECK(reader >= 0);
    while (write(reader, junk, sizeof(junk)) > 0)
        continue; /* full, and nobody empties it */
    CHECK_EQ(0, fixture_start(&f, f.path));
    shmlog_req(f.logs[0], &r);
    access_log_stop(&f.access);
    CHECK_EQ(1, counters_sum(f.counters, COUNTER_log_lost_access));
    close(reader);
    fixture_close(&f);
}

TEST(access_log, a_file_that_cannot_be_opened_is_an_error)
{
    struct fixture f = fixture_open();

    CHECK_EQ(TERR_IO, fixture_start(&f, "/nowhere/log"));
    fixture_close(&f);
}

/* ---- another output, while it runs ---- */

static void
turn(struct fixture *f, const char *to, const char *format)
{
    struct access_aim *aim;
    char why[256] = "";

    CHECK_EQ(0, access_log_prepare(f->access, &aim, to, format, why, sizeof(why)));
    access_log_turn(f->access, &aim);
}

static void
wait_lines(const char *path, unsigned n)
{
    for (unsigned i = 0; i < 250 && count_lines(path) < n; i++)
        wait_ms(20);
    CHECK_EQ(n, count_lines(path));
}

TEST(access_log, another_file_gets_what_comes_and_the_one_before_what_came)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    char first[2] = "";
    FILE *file;

    CHECK_EQ(0, fixture_start(&f, f.old_path));
    for (unsigned i = 0; i < 3; i++)
        shmlog_req(f.logs[0], &r);
    turn(&f, f.path, "json");
    wait_lines(f.old_path, 3); /* it has turned, or is about to */
    for (unsigned i = 0; i < 250 && count_lines(f.path) == 0; i++) {
        shmlog_req(f.logs[1], &r);
        wait_ms(20);
    }
    file = fopen(f.path, "r");
    CHECK(file != NULL && fgets(first, sizeof(first), file) != NULL);
    fclose(file);
    CHECK_STR("{", first);
    access_log_stop(&f.access);
    CHECK_EQ(0, counters_sum(f.counters, COUNTER_log_lost_access));
    fixture_close(&f);
}

TEST(access_log, without_an_output_nothing_is_written_nor_lost_and_one_may_come)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();

    CHECK_EQ(0, fixture_start(&f, ""));
    access_log_reopen(f.access);
    for (unsigned i = 0; i < 20000; i++) /* more than the ring holds */
        shmlog_req(f.logs[0], &r);
    turn(&f, f.path, "combined");
    shmlog_req(f.logs[0], &r);
    shmlog_req(f.logs[1], &r);
    wait_lines(f.path, 2);
    turn(&f, "", "combined");
    access_log_stop(&f.access);
    CHECK_EQ(0, counters_sum(f.counters, COUNTER_log_lost_access));
    fixture_close(&f);
}

enum {
    TURNS = 400
};

/* How often number i, told as its size, was written to both files. */
static void
count_numbers(const struct fixture *f, unsigned seen[TURNS])
{
    const char *paths[] = {f->path, f->old_path};
    char line[256];
    unsigned n;

    for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
        FILE *file = fopen(paths[i], "r");

        CHECK(file != NULL);
        while (fgets(line, sizeof(line), file) != NULL) {
            CHECK_EQ(1, sscanf(strstr(line, "\" 200 "), "\" 200 %u ", &n));
            CHECK(n < TURNS);
            seen[n]++;
        }
        fclose(file);
    }
}

/* Turned so often that the thread does not see each: `off` in between, or not. */
static void
turn_often(bool off)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    unsigned seen[TURNS] = {0};

    CHECK_EQ(0, fixture_start(&f, f.path));
    for (unsigned i = 0; i < TURNS; i++) {
        if (off)
            turn(&f, "", "combined");
        turn(&f, i % 2 == 0 ? f.old_path : f.path, "combined");
        r.fixed.body_bytes = i;
        shmlog_req(f.logs[i % 3 == 0], &r);
        if (i % 16 == 0)
            wait_ms(1);
    }
    access_log_stop(&f.access);
    count_numbers(&f, seen);
    for (unsigned i = 0; i < TURNS; i++) /* what was asked for and not seen was off, then */
        CHECK(seen[i] == 1 || (off && i < TURNS - 1 && seen[i] == 0));
    CHECK_EQ(0, counters_sum(f.counters, COUNTER_log_lost_access));
    fixture_close(&f);
}

TEST(access_log, however_often_it_turns_a_line_is_written_once)
{
    turn_often(false);
    turn_often(true);
}

TEST(access_log, what_cannot_be_opened_leaves_the_one_before)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    struct access_aim *aim = NULL;
    char why[256] = "";

    CHECK_EQ(0, fixture_start(&f, f.path));
    CHECK_EQ(TERR_IO, access_log_prepare(f.access, &aim, "/nowhere/log", "json", why, sizeof(why)));
    CHECK(aim == NULL);
    CHECK_STR("No such file or directory", why);
    CHECK_EQ(0, access_log_prepare(f.access, &aim, f.old_path, "json", why, sizeof(why)));
    access_aim_drop(&aim);
    shmlog_req(f.logs[0], &r);
    access_log_stop(&f.access);
    CHECK_EQ(1, count_lines(f.path));
    CHECK_EQ(0, count_lines(f.old_path));
    fixture_close(&f);
}

TEST(access_log, an_output_that_takes_nothing_does_not_hold_the_next_one)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    static char junk[65536];
    int reader;

    CHECK_EQ(0, mkfifo(f.old_path, 0600));
    reader = open(f.old_path, O_RDWR | O_NONBLOCK);
    CHECK(reader >= 0);
    while (write(reader, junk, sizeof(junk)) > 0)
        continue;
    CHECK_EQ(0, fixture_start(&f, f.old_path));
    shmlog_req(f.logs[0], &r);
    wait_ms(200); /* it waits for the output by now */
    turn(&f, f.path, "combined");
    for (unsigned i = 0; i < 250 && counters_sum(f.counters, COUNTER_log_lost_access) == 0; i++)
        wait_ms(20);
    CHECK_EQ(1, counters_sum(f.counters, COUNTER_log_lost_access));
    wait_ms(200);
    shmlog_req(f.logs[1], &r);
    wait_lines(f.path, 1);
    access_log_stop(&f.access);
    close(reader);
    fixture_close(&f);
}

/* ---- syslog ---- */

/* A daemon's socket at `path`; -1: it cannot be. */
static int
syslog_listen(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    CHECK(fd >= 0);
    CHECK_EQ(0, bind(fd, (struct sockaddr *)&un, sizeof(un)));
    return fd;
}

/* How many lines it got; each is one of ours. */
static unsigned
syslog_lines(int fd)
{
    char line[1024];
    unsigned n = 0;
    ssize_t got;

    while ((got = recv(fd, line, sizeof(line) - 1, 0)) > 0) {
        line[got] = '\0';
        CHECK(strncmp(line, "<182>", 5) == 0); /* local6, info */
        CHECK(strstr(line, " tarnd[") != NULL);
        CHECK(strstr(line, "]: 192.0.2.7 - - [") != NULL);
        CHECK_EQ('"', line[got - 1]);
        n++;
    }
    return n;
}

static uint64_t
lost_lines(const struct fixture *f)
{
    return counters_sum(f->counters, COUNTER_log_lost_access);
}

TEST(access_log, a_syslog_daemon_gets_a_datagram_for_each_line)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    int fd = syslog_listen(f.path);
    char to[128];

    snprintf(to, sizeof(to), "syslog:local6@%s", f.path);
    CHECK_EQ(0, fixture_start(&f, to));
    for (unsigned i = 0; i < 5; i++)
        shmlog_req(f.logs[i % 2], &r);
    access_log_stop(&f.access);
    CHECK_EQ(5, syslog_lines(fd));
    CHECK_EQ(0, lost_lines(&f));
    close(fd);
    fixture_close(&f);
}

TEST(access_log, what_a_syslog_daemon_refuses_is_lost_and_counted)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    int fd = syslog_listen(f.path);
    char to[128];
    unsigned got;
    enum {
        N = 2000 /* more than its socket holds, and it does not read */
    };

    snprintf(to, sizeof(to), "syslog:local6@%s", f.path);
    CHECK_EQ(0, fixture_start(&f, to));
    for (unsigned i = 0; i < N; i++) {
        shmlog_req(f.logs[0], &r);
        if (i % 100 == 0)
            wait_ms(2);
    }
    access_log_stop(&f.access);
    got = syslog_lines(fd);
    CHECK(got > 0);
    CHECK(lost_lines(&f) > 0);
    CHECK_EQ(N, got + lost_lines(&f));
    close(fd);
    fixture_close(&f);
}

TEST(access_log, a_syslog_daemon_that_was_restarted_is_found_again)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    unsigned got = 0, sent = 0;
    char to[128];
    int fd;

    snprintf(to, sizeof(to), "syslog:local6@%s", f.path);
    CHECK_EQ(0, fixture_start(&f, to)); /* before there is one */
    shmlog_req(f.logs[0], &r);
    for (unsigned i = 0; i < 500 && lost_lines(&f) == 0; i++)
        wait_ms(10);
    CHECK_EQ(1, lost_lines(&f));
    for (unsigned round = 0; round < 2; round++, got = 0) {
        fd = syslog_listen(f.path);
        for (unsigned i = 0; i < 500 && got == 0; i++, wait_ms(10)) {
            shmlog_req(f.logs[0], &r);
            sent++;
            got = syslog_lines(fd);
        }
        CHECK(got > 0);
        close(fd);
        CHECK_EQ(0, unlink(f.path));
    }
    access_log_stop(&f.access);
    CHECK(lost_lines(&f) <= sent);
    fixture_close(&f);
}

TEST(access_log, over_udp_lines_are_as_rfc_5424_has_them)
{
    struct fixture f = fixture_open();
    struct shmlog_req r = some_req();
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char to[128], line[1024] = "";
    ssize_t got;

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(0, bind(fd, (struct sockaddr *)&in, sizeof(in)));
    CHECK_EQ(0, getsockname(fd, (struct sockaddr *)&in, &len));
    snprintf(to, sizeof(to), "syslog:daemon@127.0.0.1:%u", ntohs(in.sin_port));
    CHECK_EQ(0, fixture_start(&f, to));
    shmlog_req(f.logs[0], &r);
    got = recv(fd, line, sizeof(line) - 1, 0);
    CHECK(got > 0);
    CHECK(strncmp(line, "<30>1 20", 8) == 0);
    CHECK(strstr(line, "Z ") != NULL && strstr(line, " tarnd ") != NULL);
    CHECK(strstr(line, " access - 192.0.2.7 - - [10/Oct/2000:") != NULL);
    access_log_stop(&f.access);
    close(fd);
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(access_log, a_line_is_in_the_combined_format),
        TEST_ENTRY(access_log, a_client_cannot_forge_fields_or_lines),
        TEST_ENTRY(access_log, a_line_of_json_has_everything),
        TEST_ENTRY(access_log, the_word_for_the_cache_is_of_what_answered),
        TEST_ENTRY(access_log, any_bytes_make_valid_json),
        TEST_ENTRY(access_log, what_was_no_request_is_all_url),
        TEST_ENTRY(access_log, the_longest_line_fits),
        TEST_ENTRY(access_log, a_format_of_its_own_has_text_and_fields),
        TEST_ENTRY(access_log, fields_of_its_own_format_that_are_missing_or_hostile_end_no_line),
        TEST_ENTRY(access_log, a_format_of_its_own_that_is_wrong_is_refused),
        TEST_ENTRY(access_log, no_field_of_its_own_format_is_longer_than_its_row_says),
        TEST_ENTRY(access_log, every_request_of_every_worker_is_written_by_the_stop),
        TEST_ENTRY(access_log, written_and_lost_lines_together_are_all_requests),
        TEST_ENTRY(access_log, reopening_leaves_the_old_file_and_loses_nothing),
        TEST_ENTRY(access_log, a_full_disk_is_counted_and_stops_nothing),
        TEST_ENTRY(access_log, an_output_that_takes_nothing_does_not_hold_the_stop),
        TEST_ENTRY(access_log, a_file_that_cannot_be_opened_is_an_error),
        TEST_ENTRY(access_log, another_file_gets_what_comes_and_the_one_before_what_came),
        TEST_ENTRY(access_log, without_an_output_nothing_is_written_nor_lost_and_one_may_come),
        TEST_ENTRY(access_log, however_often_it_turns_a_line_is_written_once),
        TEST_ENTRY(access_log, what_cannot_be_opened_leaves_the_one_before),
        TEST_ENTRY(access_log, an_output_that_takes_nothing_does_not_hold_the_next_one),
        TEST_ENTRY(access_log, a_syslog_daemon_gets_a_datagram_for_each_line),
        TEST_ENTRY(access_log, what_a_syslog_daemon_refuses_is_lost_and_counted),
        TEST_ENTRY(access_log, a_syslog_daemon_that_was_restarted_is_found_again),
        TEST_ENTRY(access_log, over_udp_lines_are_as_rfc_5424_has_them),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
