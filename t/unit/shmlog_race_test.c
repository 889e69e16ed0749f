/* shmlog_race_test.c -- a writer at full speed and readers that cannot keep up: no record is
 * torn, none is counted wrongly.
 *
 * Every record carries a checksum over all that it says.  The test means something twice:
 * built plainly it runs the code that serves, and built for the race detector it has the
 * order of every access checked.
 */
#include "t/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "daemon/shm/log.h"
#include "daemon/shm/log_read.h"

enum {
    RACE_READERS = 2,
    RACE_MS = 1500
};

struct race {
    struct shmlog *log;
    _Atomic bool stop;
    uint64_t reqs, chunks; /* the writer's, after its end */
};

struct race_reader {
    struct race *race;
    struct shmlog_reader *reader;
    unsigned every; /* naps after so many chunks; 0: never */
    uint64_t reqs, chunks, torn, corrupt;
};

static uint64_t
race_sum(const void *p, size_t n, uint64_t sum)
{
    const unsigned char *u = p;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ u[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t
race_req_sum(const struct shmlog_req *r)
{
    uint64_t sum = race_sum(&r->ids.xid, sizeof(r->ids.xid), 1);

    sum = race_sum(&r->fixed, offsetof(struct shmlog_req_fixed, lens), sum);
    sum = race_sum(r->line.ptr, r->line.len, sum);
    sum = race_sum(r->host.ptr, r->host.len, sum);
    sum = race_sum(r->referer.ptr, r->referer.len, sum);
    return race_sum(r->agent.ptr, r->agent.len, sum);
}

static void
race_write_req(struct race *r, uint64_t i, const char *text)
{
    struct shmlog_req q = {
        .fixed = {.start_ms = (int64_t)i, .bytes_in = i * 7, .status = (uint16_t)i},
        .line = slice_of(text + i % 61, 10 + i % 140),
        .host = slice_of(text + i % 13, i % 30),
        .referer = slice_of(text + i % 7, i % 90),
        .agent = slice_of(text + i % 17, i % 127),
    };

    q.ids.xid = i;
    q.ids.parent_xid = race_req_sum(&q);
    shmlog_req(r->log, &q);
    r->reqs++;
    r->chunks++;
}

static void
race_write_details(struct race *r, uint64_t i, const char *text)
{
    uint64_t sum = 2;

    shmlog_begin(r->log, i, SHMLOG_KIND_FETCH, i);
    for (unsigned k = 0; k < i % 5; k++) {
        struct slice s = slice_of(text + (i + k) % 50, (i * 3 + k) % 100);
        sum = race_sum(s.ptr, s.len, sum);
        shmlog_text(r->log, SHMLOG_BereqHeader, s);
    }
    shmlog_num(r->log, SHMLOG_End, sum);
    shmlog_end(r->log);
    r->chunks++;
}

static void *
race_write(void *arg)
{
    struct race *r = arg;
    char text[512];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 31 + i / 7);
    for (uint64_t i = 1; !atomic_load_explicit(&r->stop, memory_order_relaxed); i++) {
        if (i % 3 == 0)
            race_write_details(r, i, text);
        else
            race_write_req(r, i, text);
    }
    return NULL;
}

static bool
race_details_are_whole(struct shmlog_view *view, struct shmlog_rec *rec)
{
    uint64_t sum = 2, want;

    while (rec->tag == SHMLOG_BereqHeader) {
        sum = race_sum(rec->payload.ptr, rec->payload.len, sum);
        if (!shmlog_record_next(view, rec))
            return false;
    }
    return rec->tag == SHMLOG_End && shmlog_rec_num(rec, &want) && want == sum;
}

static bool
race_chunk_is_whole(struct shmlog_view *view)
{
    struct shmlog_rec rec;
    struct shmlog_req req;

    if (!shmlog_record_next(view, &rec))
        return false;
    if (view->kind == SHMLOG_KIND_FETCH)
        return race_details_are_whole(view, &rec);
    return shmlog_rec_req(&rec, view, &req) && race_req_sum(&req) == req.ids.parent_xid;
}

static void
race_read_all(struct race_reader *r)
{
    struct shmlog_view view;
    int got;

    while ((got = shmlog_next(r->reader, &view)) > 0) {
        r->chunks++;
        r->reqs += view.kind == SHMLOG_KIND_REQ;
        r->torn += !race_chunk_is_whole(&view);
        if (r->every > 0 && r->chunks % r->every == 0)
            sched_yield();
    }
    r->corrupt += got < 0;
}

static void *
race_read(void *arg)
{
    struct race_reader *r = arg;

    while (!atomic_load_explicit(&r->race->stop, memory_order_relaxed))
        race_read_all(r);
    return NULL; /* what is left is read when the writer is done */
}

static void
race_check_reader(struct race_reader *r)
{
    race_read_all(r);
    print_message("written %llu, read %llu, missed %llu, torn %llu\n",
        (unsigned long long)r->race->chunks, (unsigned long long)r->chunks,
        (unsigned long long)shmlog_missed(r->reader), (unsigned long long)r->torn);
    CHECK_EQ(0, r->torn);
    CHECK_EQ(0, r->corrupt);
    CHECK(r->chunks > 0);
    CHECK_EQ(r->race->chunks, r->chunks + shmlog_missed(r->reader));
    CHECK_EQ(r->race->reqs, r->reqs + shmlog_missed_reqs(r->reader));
}

TEST(shmlog_race, nothing_is_torn_and_every_loss_is_counted)
{
    struct race race = {0};
    struct race_reader readers[RACE_READERS] = {
        {.race = &race, .every = 0}, {.race = &race, .every = 40}};
    struct timespec nap = {RACE_MS / 1000, RACE_MS % 1000 * 1000000L};
    pthread_t writer, threads[RACE_READERS];

    CHECK_EQ(0, shmlog_open(&race.log, NULL, 0, SHMLOG_RING_MIN));
    for (unsigned i = 0; i < RACE_READERS; i++) {
        CHECK_EQ(0, shmlog_reader_open_here(&readers[i].reader, race.log, SHMLOG_FROM_OLDEST));
        CHECK_EQ(0, shmlog_attach(readers[i].reader));
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_read, &readers[i]));
    }
    CHECK_EQ(0, pthread_create(&writer, NULL, race_write, &race));
    nanosleep(&nap, NULL);
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    for (unsigned i = 0; i < RACE_READERS; i++) {
        pthread_join(threads[i], NULL);
        race_check_reader(&readers[i]);
        shmlog_reader_close(&readers[i].reader);
    }
    shmlog_close(&race.log);
}

TEST_MAIN(TEST_ENTRY(shmlog_race, nothing_is_torn_and_every_loss_is_counted))
