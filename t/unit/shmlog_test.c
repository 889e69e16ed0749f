/* shmlog_test.c -- the log ring: what is written is read, what is lost is counted, and what is
 * no log is refused. */
#include "t/unit/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/shm/dir.h"
#include "daemon/shm/log.h"
#include "daemon/shm/log_read.h"

static char long_text[3000];

struct fixture {
    struct shmlog *log;
    struct shmlog_reader *reader;
    struct shmlog_view view;
    struct shmlog_rec rec;
};

static struct fixture
fixture_open(uint64_t bytes)
{
    struct fixture f = {0};

    memset(long_text, 'x', sizeof(long_text));
    CHECK_EQ(0, shmlog_open(&f.log, NULL, 3, bytes));
    CHECK_EQ(0, shmlog_reader_open_here(&f.reader, f.log, SHMLOG_FROM_NOW));
    return f;
}

static void
fixture_close(struct fixture *f)
{
    shmlog_reader_close(&f->reader);
    shmlog_close(&f->log);
}

static struct shmlog_req
some_req(uint64_t xid)
{
    return (struct shmlog_req){
        .ids = {xid, 7},
        .fixed = {.start_ms = 1000, .status = 200, .version = 1, .body_bytes = xid * 3},
        .line = SLICE_LIT("GET /a/b?c"),
        .host = SLICE_LIT("h"),
        .agent = SLICE_LIT("Mozilla/5.0 (X11; Linux x86_64; rv:109.0)"),
    };
}

static void
check_slice(struct slice want, struct slice got)
{
    CHECK_EQ(want.len, got.len);
    if (want.len > 0)
        CHECK_MEM(want.ptr, got.ptr, want.len);
}

TEST(shmlog, a_request_comes_out_as_it_went_in)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_req in = some_req(42), out;

    in.fixed.flags = SHMLOG_REQ_HIT | SHMLOG_REQ_STALE;
    in.fixed.duration_us = 77;
    shmlog_req(f.log, &in);
    CHECK_EQ(1, shmlog_next(f.reader, &f.view));
    CHECK_EQ(SHMLOG_KIND_REQ, f.view.kind);
    CHECK_EQ(3, f.view.worker);
    CHECK(shmlog_record_next(&f.view, &f.rec));
    CHECK(shmlog_rec_req(&f.rec, &f.view, &out));
    CHECK(!shmlog_record_next(&f.view, &f.rec));
    CHECK_EQ(42, out.ids.xid);
    CHECK_EQ(7, out.ids.parent_xid);
    CHECK_MEM(&in.fixed, &out.fixed, offsetof(struct shmlog_req_fixed, lens));
    check_slice(in.line, out.line);
    check_slice(in.host, out.host);
    check_slice(in.referer, out.referer);
    check_slice(in.agent, out.agent);
    CHECK_EQ(0, shmlog_next(f.reader, &f.view));
    fixture_close(&f);
}

TEST(shmlog, strings_of_every_length_are_copied_whole_or_cut_with_a_flag)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_req in, out;
    char text[1200];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('!' + i % 90);
    for (size_t n = 0; n <= sizeof(text); n++) {
        in = some_req(n);
        in.line = slice_of(text, n);
        in.referer = slice_of(text + 1, n / 2);
        in.agent = slice_of(text + 2, n > 2 ? n - 2 : 0);
        shmlog_req(f.log, &in);
        CHECK_EQ(1, shmlog_next(f.reader, &f.view));
        CHECK(shmlog_record_next(&f.view, &f.rec));
        CHECK(shmlog_rec_req(&f.rec, &f.view, &out));
        CHECK_EQ(n > SHMLOG_TEXT_MAX, (out.fixed.flags & SHMLOG_REQ_CUT_LINE) != 0);
        CHECK_EQ(0, out.fixed.flags & SHMLOG_REQ_CUT_REFERER);
        in.line.len = n > SHMLOG_TEXT_MAX ? SHMLOG_TEXT_MAX : n;
        in.agent.len = in.agent.len > SHMLOG_TEXT_MAX ? SHMLOG_TEXT_MAX : in.agent.len;
        check_slice(in.line, out.line);
        check_slice(in.referer, out.referer);
        check_slice(in.agent, out.agent);
    }
    CHECK_EQ(0, shmlog_missed(f.reader));
    fixture_close(&f);
}

TEST(shmlog, what_tls_said_comes_with_its_request_and_with_no_other)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    const char *texts[SHMLOG_TLS_COUNT] = {
        "TLSv1.3", "c", ".", long_text, "", "", "CN=a", long_text};
    struct shmlog_req in = some_req(1), out;
    char packed[SHMLOG_TLS_MAX];

    long_text[sizeof(long_text) - 1] = '\0';
    in.tls = slice_of(packed, shmlog_tls_pack(packed, texts));
    in.line = in.host = in.referer = in.agent = slice_of(long_text, sizeof(long_text) - 1);
    /* Several laps: it fits wherever a segment ends. */
    for (unsigned i = 0; i < 100; i++) {
        in.line.len = SHMLOG_TEXT_MAX + 2 - i;
        shmlog_req_any(f.log, &in);
        CHECK_EQ(1, shmlog_next(f.reader, &f.view));
        CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_req(&f.rec, &f.view, &out));
        CHECK_EQ(SHMLOG_TEXT_MAX, out.agent.len);
        CHECK_EQ(i < 2, (out.fixed.flags & SHMLOG_REQ_CUT_LINE) != 0);
        check_slice(in.tls, out.tls);
        check_slice(SLICE_LIT("TLSv1.3"), shmlog_req_tls(&out, SHMLOG_TLS_version));
        check_slice(slice_of(long_text, 255), shmlog_req_tls(&out, SHMLOG_TLS_server_name));
        check_slice(slice_of(NULL, 0), shmlog_req_tls(&out, SHMLOG_TLS_client_serial));
        check_slice(SLICE_LIT("CN=a"), shmlog_req_tls(&out, SHMLOG_TLS_client_subject));
        check_slice(slice_of(long_text, 255), shmlog_req_tls(&out, SHMLOG_TLS_client_issuer));
        CHECK(shmlog_record_next(&f.view, &f.rec));
        CHECK_EQ(SHMLOG_ReqTLS, f.rec.tag);
        CHECK(!shmlog_record_next(&f.view, &f.rec));
        shmlog_req(f.log, &in);
        CHECK_EQ(1, shmlog_next(f.reader, &f.view));
        CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_req(&f.rec, &f.view, &out));
        CHECK_EQ(0, out.tls.len);
        CHECK(!shmlog_record_next(&f.view, &f.rec));
    }
    CHECK_EQ(0, shmlog_missed_reqs(f.reader));
    fixture_close(&f);
}

TEST(shmlog, records_of_a_chunk_keep_their_order_and_payloads)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct slice label = {0};
    uint64_t n = 0;

    shmlog_begin(f.log, 9, SHMLOG_KIND_FETCH, 8);
    shmlog_text(f.log, SHMLOG_BereqURL, SLICE_LIT("/x"));
    shmlog_field(f.log, SHMLOG_BereqHeader, SLICE_LIT("Host"), SLICE_LIT("o"));
    shmlog_num(f.log, SHMLOG_BerespStatus, 304);
    shmlog_event(f.log, SHMLOG_Timestamp, SLICE_LIT("Beresp"), 1234567);
    shmlog_printf(f.log, SHMLOG_Debug, "%s=%d", "a", 5);
    CHECK_EQ(0, shmlog_next(f.reader, &f.view)); /* not published yet */
    shmlog_end(f.log);

    CHECK_EQ(1, shmlog_next(f.reader, &f.view));
    CHECK_EQ(SHMLOG_KIND_FETCH, f.view.kind);
    CHECK_EQ(9, f.view.ids.xid);
    CHECK_EQ(8, f.view.ids.parent_xid);
    CHECK(shmlog_record_next(&f.view, &f.rec) && f.rec.tag == SHMLOG_BereqURL);
    check_slice(SLICE_LIT("/x"), f.rec.payload);
    CHECK(shmlog_record_next(&f.view, &f.rec) && f.rec.tag == SHMLOG_BereqHeader);
    check_slice(SLICE_LIT("Host: o"), f.rec.payload);
    CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_num(&f.rec, &n));
    CHECK_EQ(304, n);
    CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_event(&f.rec, &label, &n));
    CHECK_EQ(1234567, n);
    check_slice(SLICE_LIT("Beresp"), label);
    CHECK(shmlog_record_next(&f.view, &f.rec) && f.rec.tag == SHMLOG_Debug);
    check_slice(SLICE_LIT("a=5"), f.rec.payload);
    CHECK(!shmlog_record_next(&f.view, &f.rec));
    fixture_close(&f);
}

TEST(shmlog, text_that_is_too_long_is_cut_and_says_so)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);

    shmlog_begin(f.log, 1, SHMLOG_KIND_REQ, 0);
    shmlog_text(f.log, SHMLOG_ReqURL, slice_of(long_text, SHMLOG_TEXT_MAX));
    shmlog_text(f.log, SHMLOG_ReqURL, slice_of(long_text, SHMLOG_TEXT_MAX + 1));
    shmlog_field(f.log, SHMLOG_ReqHeader, SLICE_LIT("Cookie"), slice_of(long_text, 2000));
    shmlog_field(f.log, SHMLOG_ReqHeader, slice_of(long_text, 2000), SLICE_LIT("v"));
    shmlog_event(f.log, SHMLOG_Timestamp, slice_of(long_text, 2000), 1);
    shmlog_printf(f.log, SHMLOG_Debug, "%.*s", 2000, long_text);
    shmlog_end(f.log);
    CHECK_EQ(1, shmlog_next(f.reader, &f.view));
    CHECK(shmlog_record_next(&f.view, &f.rec) && !f.rec.cut);
    CHECK_EQ(SHMLOG_TEXT_MAX, f.rec.payload.len);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(shmlog_record_next(&f.view, &f.rec) && f.rec.cut);
        CHECK_EQ(SHMLOG_TEXT_MAX + (i == 3 ? 8 : 0), f.rec.payload.len);
    }
    CHECK(!shmlog_record_next(&f.view, &f.rec));
    fixture_close(&f);
}

TEST(shmlog, a_chunk_that_outgrows_its_limit_goes_on_in_another)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    unsigned chunks = 0, records = 0;

    shmlog_begin(f.log, 5, SHMLOG_KIND_REQ, 4);
    for (unsigned i = 0; i < 20; i++)
        shmlog_text(f.log, SHMLOG_ReqHeader, slice_of(long_text, 1000));
    shmlog_end(f.log);
    while (shmlog_next(f.reader, &f.view) > 0) {
        chunks++;
        CHECK_EQ(5, f.view.ids.xid);
        while (shmlog_record_next(&f.view, &f.rec))
            records++;
    }
    CHECK_EQ(20, records);
    CHECK(chunks > 1);
    CHECK_EQ(0, shmlog_missed(f.reader));
    fixture_close(&f);
}

TEST(shmlog, an_empty_chunk_is_not_published)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);

    shmlog_begin(f.log, 5, SHMLOG_KIND_REQ, 4);
    shmlog_end(f.log);
    CHECK_EQ(0, shmlog_next(f.reader, &f.view));
    fixture_close(&f);
}

TEST(shmlog, what_a_slow_reader_lost_is_counted_exactly)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_req in, out;
    uint64_t got = 0, last = 0, wrote = 5000;

    for (uint64_t i = 1; i <= wrote; i++) {
        in = some_req(i);
        shmlog_req(f.log, &in);
        if (i % 4 == 0) { /* chunks that are no requests count apart */
            shmlog_begin(f.log, i, SHMLOG_KIND_SESS, 0);
            shmlog_num(f.log, SHMLOG_Length, i);
            shmlog_end(f.log);
        }
    }
    CHECK(shmlog_behind(f.reader) > SHMLOG_RING_MIN);
    while (shmlog_next(f.reader, &f.view) > 0) {
        got++;
        if (f.view.kind != SHMLOG_KIND_REQ)
            continue;
        CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_req(&f.rec, &f.view, &out));
        CHECK(out.ids.xid > last);
        CHECK_EQ(out.ids.xid * 3, out.fixed.body_bytes);
        last = out.ids.xid;
    }
    CHECK_EQ(wrote, last);
    CHECK(got > 100);
    CHECK_EQ(wrote + wrote / 4, got + shmlog_missed(f.reader));
    CHECK(shmlog_missed_reqs(f.reader) > 0);
    CHECK_EQ(0, shmlog_behind(f.reader));
    fixture_close(&f);
}

TEST(shmlog, a_reader_in_a_hurry_steps_over_the_oldest_and_knows_how_much)
{
    struct fixture f = fixture_open(4 * SHMLOG_RING_MIN);
    uint64_t got = 0, last = 0, wrote = 700, behind;
    struct shmlog_req in, out;

    for (uint64_t i = 1; i <= wrote; i++) {
        in = some_req(i);
        shmlog_req(f.log, &in);
    }
    behind = shmlog_behind(f.reader);
    shmlog_skip(f.reader, behind);
    CHECK_EQ(behind, shmlog_behind(f.reader));
    shmlog_skip(f.reader, 20000);
    CHECK(shmlog_behind(f.reader) >= 20000);
    CHECK(shmlog_behind(f.reader) < 20000 + SHMLOG_SEGMENT_MIN);
    while (shmlog_next(f.reader, &f.view) > 0) {
        CHECK(shmlog_record_next(&f.view, &f.rec) && shmlog_rec_req(&f.rec, &f.view, &out));
        CHECK(last == 0 || out.ids.xid == last + 1);
        last = out.ids.xid;
        got++;
    }
    CHECK_EQ(wrote, last);
    CHECK(got > 50 && got < 300);
    CHECK_EQ(wrote, got + shmlog_missed_reqs(f.reader));
    shmlog_skip(f.reader, 0);
    in = some_req(9);
    shmlog_req(f.log, &in);
    CHECK_EQ(1, shmlog_next(f.reader, &f.view)); /* nothing was ahead: nothing was skipped */
    fixture_close(&f);
}

TEST(shmlog, a_reader_from_now_sees_nothing_older_and_one_from_the_oldest_does)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_reader *now, *oldest;
    struct shmlog_req in;
    unsigned n = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        in = some_req(i);
        shmlog_req(f.log, &in);
    }
    CHECK_EQ(0, shmlog_reader_open_here(&now, f.log, SHMLOG_FROM_NOW));
    CHECK_EQ(0, shmlog_reader_open_here(&oldest, f.log, SHMLOG_FROM_OLDEST));
    CHECK_EQ(0, shmlog_next(now, &f.view));
    while (shmlog_next(oldest, &f.view) > 0)
        n++;
    CHECK(n > 200);
    CHECK_EQ(2999, f.view.ids.xid);
    CHECK_EQ(0, shmlog_missed(now));
    for (uint64_t i = 0; i < 3000; i++) /* lapped before its first chunk: counted all the same */
        shmlog_req(f.log, &in);
    n = 0;
    while (shmlog_next(now, &f.view) > 0)
        n++;
    CHECK_EQ(3000, n + shmlog_missed_reqs(now));
    shmlog_reader_close(&now);
    shmlog_reader_close(&oldest);
    fixture_close(&f);
}

TEST(shmlog, the_writer_knows_of_attached_readers_and_sweeps_the_dead)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_reader *other;

    CHECK(!shmlog_readers(f.log));
    CHECK_EQ(0, shmlog_attach(f.reader));
    CHECK(shmlog_readers(f.log));
    shmlog_detach(f.reader);
    CHECK(!shmlog_readers(f.log));
    CHECK_EQ(0, shmlog_attach(f.reader));
    CHECK_EQ(0, shmlog_reader_open_here(&other, f.log, SHMLOG_FROM_NOW));
    CHECK_EQ(0, shmlog_attach(other));
    shmlog_reader_close(&other);
    CHECK(shmlog_readers(f.log));

    shmlog_sweep(f.log);
    shmlog_next(f.reader, &f.view); /* a sign of life */
    shmlog_sweep(f.log);
    CHECK(shmlog_readers(f.log));
    shmlog_sweep(f.log); /* none since */
    CHECK(!shmlog_readers(f.log));
    shmlog_next(f.reader, &f.view); /* it was only slow: it is back */
    CHECK(shmlog_readers(f.log));
    shmlog_detach(f.reader);
    CHECK(!shmlog_readers(f.log));
    fixture_close(&f);
}

TEST(shmlog, no_more_readers_attach_than_there_are_slots)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_reader *r[SHMLOG_READERS_MAX];

    for (unsigned i = 0; i < SHMLOG_READERS_MAX; i++) {
        CHECK_EQ(0, shmlog_reader_open_here(&r[i], f.log, SHMLOG_FROM_NOW));
        CHECK_EQ(0, shmlog_attach(r[i]));
    }
    CHECK_EQ(TERR_LIMIT, shmlog_attach(f.reader));
    shmlog_reader_close(&r[4]);
    CHECK_EQ(0, shmlog_attach(f.reader));
    for (unsigned i = 0; i < SHMLOG_READERS_MAX; i++)
        if (r[i] != NULL)
            shmlog_reader_close(&r[i]);
    fixture_close(&f);
}

TEST(shmlog, a_file_is_found_read_and_removed)
{
    struct shmlog_reader *r;
    struct shmlog_view view;
    struct shm_dir *d, *second;
    struct shmlog *l;
    struct shmlog_req in = some_req(1);
    char dir[] = "/tmp/tarn-shmlog-XXXXXX", path[64], sub[48];
    struct stat st;

    CHECK(mkdtemp(dir) != NULL);
    snprintf(sub, sizeof(sub), "%s/d", dir);
    CHECK_EQ(0, shm_dir_open(&d, sub));
    CHECK_EQ(TERR_BUSY, shm_dir_open(&second, sub));
    CHECK_EQ(0, shmlog_open(&l, d, 2, 2 * SHMLOG_RING_MIN));
    snprintf(path, sizeof(path), "%s/log.2", sub);
    CHECK_EQ(0, stat(path, &st));
    CHECK_EQ(0640, st.st_mode & 07777);
    CHECK_EQ(SHMLOG_FILE_HEADER + 2 * SHMLOG_RING_MIN, st.st_size);

    CHECK_EQ(0, shmlog_reader_open(&r, path, SHMLOG_FROM_OLDEST));
    CHECK_EQ(0, shmlog_attach(r));
    CHECK(shmlog_readers(l));
    shmlog_req(l, &in);
    CHECK_EQ(1, shmlog_next(r, &view));
    CHECK_EQ(2, view.worker);
    shmlog_reader_close(&r);
    CHECK(!shmlog_readers(l));

    CHECK_EQ(0, truncate(path, 5000));
    CHECK_EQ(TERR_CORRUPT, shmlog_reader_open(&r, path, SHMLOG_FROM_NOW));
    CHECK_EQ(0, truncate(path, 0));
    CHECK_EQ(TERR_CORRUPT, shmlog_reader_open(&r, path, SHMLOG_FROM_NOW));
    shmlog_close(&l);
    shm_dir_close(&d);
    CHECK_EQ(TERR_NOTFOUND, shmlog_reader_open(&r, path, SHMLOG_FROM_NOW));
    CHECK(stat(sub, &st) < 0); /* we made it, we removed it */

    CHECK_EQ(0, shm_dir_open(&d, dir)); /* was there before: stays */
    shm_dir_close(&d);
    CHECK_EQ(0, stat(dir, &st));
    CHECK_EQ(0, chmod(dir, 0777));
    CHECK_EQ(TERR_CONFIG, shm_dir_open(&d, dir)); /* others could swap our files */
    snprintf(path, sizeof(path), "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

TEST(shmlog, a_log_that_is_not_a_power_of_two_is_refused)
{
    struct shmlog *l;

    CHECK_EQ(TERR_CONFIG, shmlog_open(&l, NULL, 0, SHMLOG_RING_MIN + 8));
    CHECK_EQ(TERR_CONFIG, shmlog_open(&l, NULL, 0, SHMLOG_RING_MIN / 2));
}

TEST(shmlog, foreign_headers_and_broken_chunks_are_refused)
{
    struct fixture f = fixture_open(SHMLOG_RING_MIN);
    struct shmlog_file *file = f.log->file;
    struct shmlog_req in = some_req(1);
    struct shmlog_reader *r;
    uint32_t version = file->version;
    uint64_t segment = file->segment_bytes;

    file->version++;
    CHECK_EQ(TERR_CORRUPT, shmlog_reader_open_here(&r, f.log, SHMLOG_FROM_NOW));
    file->version = version;
    file->segment_bytes = 3;
    CHECK_EQ(TERR_CORRUPT, shmlog_reader_open_here(&r, f.log, SHMLOG_FROM_NOW));
    file->segment_bytes = segment;

    shmlog_req(f.log, &in);
    f.log->bytes[4] ^= 1; /* the mark */
    CHECK_EQ(TERR_CORRUPT, shmlog_next(f.reader, &f.view));
    CHECK_EQ(0, shmlog_next(f.reader, &f.view)); /* stands at the end */
    shmlog_req(f.log, &in);
    CHECK_EQ(1, shmlog_next(f.reader, &f.view)); /* and goes on from there */
    atomic_store(&file->head, 8);
    CHECK_EQ(TERR_CORRUPT, shmlog_next(f.reader, &f.view));
    fixture_close(&f);
}

TEST(shmlog, addresses_of_both_families_are_kept)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(81)};
    struct sockaddr un = {.sa_family = AF_UNIX};
    struct shmlog_req_fixed f = {0};
    static const unsigned char v4[16] = {
        [10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7};
    static const unsigned char none[16];

    inet_pton(AF_INET, "192.0.2.7", &in.sin_addr);
    inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr);
    shmlog_addr(&f, (struct sockaddr *)&in);
    CHECK_MEM(v4, f.addr, 16);
    CHECK_EQ(80, f.port);
    shmlog_addr(&f, (struct sockaddr *)&in6);
    CHECK_MEM(&in6.sin6_addr, f.addr, 16);
    CHECK_EQ(81, f.port);
    shmlog_addr(&f, &un);
    CHECK_MEM(none, f.addr, 16);
}

TEST(shmlog, every_tag_has_a_name_and_documentation)
{
    for (unsigned i = 1; i < SHMLOG_TAG_COUNT; i++) {
        CHECK(strlen(shmlog_tag_name(i)) > 1);
        CHECK(strlen(shmlog_tag_doc(i)) > 10);
    }
    CHECK_STR("Req", shmlog_tag_name(SHMLOG_Req));
    CHECK_STR("?", shmlog_tag_name(60000));
    CHECK_STR("FETCH", shmlog_kind_name(SHMLOG_KIND_FETCH));
    CHECK_EQ(SHMLOG_PAYLOAD_NUM, shmlog_tag_payload(SHMLOG_RespStatus));
}

TEST_MAIN(TEST_ENTRY(shmlog, a_request_comes_out_as_it_went_in),
    TEST_ENTRY(shmlog, strings_of_every_length_are_copied_whole_or_cut_with_a_flag),
    TEST_ENTRY(shmlog, what_tls_said_comes_with_its_request_and_with_no_other),
    TEST_ENTRY(shmlog, records_of_a_chunk_keep_their_order_and_payloads),
    TEST_ENTRY(shmlog, text_that_is_too_long_is_cut_and_says_so),
    TEST_ENTRY(shmlog, a_chunk_that_outgrows_its_limit_goes_on_in_another),
    TEST_ENTRY(shmlog, an_empty_chunk_is_not_published),
    TEST_ENTRY(shmlog, what_a_slow_reader_lost_is_counted_exactly),
    TEST_ENTRY(shmlog, a_reader_in_a_hurry_steps_over_the_oldest_and_knows_how_much),
    TEST_ENTRY(shmlog, a_reader_from_now_sees_nothing_older_and_one_from_the_oldest_does),
    TEST_ENTRY(shmlog, the_writer_knows_of_attached_readers_and_sweeps_the_dead),
    TEST_ENTRY(shmlog, no_more_readers_attach_than_there_are_slots),
    TEST_ENTRY(shmlog, a_file_is_found_read_and_removed),
    TEST_ENTRY(shmlog, a_log_that_is_not_a_power_of_two_is_refused),
    TEST_ENTRY(shmlog, foreign_headers_and_broken_chunks_are_refused),
    TEST_ENTRY(shmlog, addresses_of_both_families_are_kept),
    TEST_ENTRY(shmlog, every_tag_has_a_name_and_documentation))
