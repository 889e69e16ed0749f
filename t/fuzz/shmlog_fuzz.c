/* shmlog_fuzz.c -- hostile shared-memory files: refused, or read without harm and to an end.
 *
 * The first byte says what the rest is: 'f' a log file as it stands; 'c' chunks under a good
 * header, after 16 bytes of head and claimed; 'm' as 'c', with the marks put right, so that
 * what lies behind them is reached; 'n' a file of counters.
 * Built with a fuzzer's main, or (FUZZ_REPLAY) with one of its own that runs every file of
 * the directories it is given.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/log/access_format.h"
#include "daemon/log/access_line.h"
#include "daemon/shm/counters.h"
#include "daemon/shm/log_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_FILE_MAX = SHMLOG_FILE_HEADER + 2 * SHMLOG_RING_MIN,
    FUZZ_RING = SHMLOG_RING_MIN,
};

#define FUZZ_FORMAT                                                                           \
    "$remote_addr $time_local $time_iso8601 $msec \"$request\" $request_method $request_uri " \
    "$server_protocol $host $referer $cache $backend $request_time $request_id "              \
    "$scheme $ssl_protocol $ssl_server_name $ssl_client_s_dn"

static union {
    struct shmlog_file file;
    char bytes[FUZZ_FILE_MAX];
} fuzz_mem __attribute__((aligned(64)));

/* Touches every byte that was handed out, so that the sanitizer sees what lies outside. */
static volatile uint64_t fuzz_sum;

static void
fuzz_touch(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        fuzz_sum += (unsigned char)s.ptr[i];
}

static void
fuzz_record(const struct shmlog_rec *rec, const struct shmlog_view *view)
{
    static char line[ACCESS_LINE_MAX];
    struct access_pattern pattern;
    struct shmlog_req req;
    char why[64];
    struct slice label;
    uint64_t n;

    fuzz_touch(rec->payload);
    fuzz_touch(slice_str(shmlog_tag_name(rec->tag)));
    if (shmlog_rec_event(rec, &label, &n))
        fuzz_touch(label);
    if (!shmlog_rec_req(rec, view, &req))
        return;
    fuzz_touch(req.line);
    fuzz_touch(req.host);
    fuzz_touch(req.agent);
    for (unsigned i = 0; i < SHMLOG_TLS_COUNT; i++)
        fuzz_touch(shmlog_req_tls(&req, i));
    tassert(access_format_line(line, ACCESS_FORMAT_COMBINED, &req) <= sizeof(line));
    tassert(access_format_line(line, ACCESS_FORMAT_JSON, &req) <= sizeof(line));
    tassert(access_pattern_parse(&pattern, SLICE_LIT(FUZZ_FORMAT), why, sizeof(why)) == 0);
    tassert(access_line(line, &pattern, &req, NULL) <= sizeof(line));
}

static void
fuzz_log(size_t bytes, enum shmlog_from from)
{
    struct shmlog_reader *r;
    struct shmlog_view view;
    struct shmlog_rec rec;
    size_t chunks = 0;

    if (shmlog_reader_open_mem(&r, fuzz_mem.bytes, bytes, from) < 0)
        return;
    while (shmlog_next(r, &view) > 0) {
        tassert(chunks < bytes / sizeof(struct shmlog_chunk)); /* it ends, lap or no lap */
        chunks++;
        tassert(view.rest.len <= SHMLOG_CHUNK_MAX);
        while (shmlog_record_next(&view, &rec))
            fuzz_record(&rec, &view);
    }
    shmlog_next(r, &view); /* after an error it goes on, or says so again */
    (void)shmlog_behind(r);
    shmlog_reader_close(&r);
}

static void
fuzz_fix_marks(uint64_t from)
{
    struct shmlog_chunk *c;
    uint64_t at = from & (FUZZ_RING - 1) & ~UINT64_C(7), pos = from & ~UINT64_C(7);

    while (at + sizeof(*c) <= FUZZ_RING) {
        c = (void *)(fuzz_mem.bytes + SHMLOG_FILE_HEADER + at);
        c->mark = (uint32_t)(pos >> 3);
        if (c->bytes < sizeof(*c) || c->bytes % 8 != 0)
            return;
        at += c->bytes;
        pos += c->bytes;
    }
}

static void
fuzz_chunks(const uint8_t *data, size_t size, int marks)
{
    struct shmlog_file *f = &fuzz_mem.file;
    uint64_t where[2];

    if (size < sizeof(where))
        return;
    memcpy(where, data, sizeof(where));
    data += sizeof(where);
    size -= sizeof(where);
    f->magic = SHMLOG_FILE_MAGIC;
    f->version = SHMLOG_VERSION;
    f->header_bytes = SHMLOG_FILE_HEADER;
    f->ring_bytes = FUZZ_RING;
    f->segment_bytes = SHMLOG_SEGMENT_MIN;
    atomic_store(&f->head, where[0]);
    atomic_store(&f->claimed, where[1]);
    memcpy(fuzz_mem.bytes + SHMLOG_FILE_HEADER, data, size < FUZZ_RING ? size : FUZZ_RING);
    if (marks)
        fuzz_fix_marks(where[1] <= FUZZ_RING ? 0 : where[1] - FUZZ_RING);
    fuzz_log(SHMLOG_FILE_HEADER + FUZZ_RING, SHMLOG_FROM_OLDEST);
    fuzz_log(SHMLOG_FILE_HEADER + FUZZ_RING, SHMLOG_FROM_NOW);
}

static void
fuzz_counters(size_t size)
{
    struct counters_view *v;
    struct counters_row row;

    if (counters_view_mem(&v, fuzz_mem.bytes, size) < 0)
        return;
    for (unsigned i = 0; counters_view_row(v, i, &row) == 0; i++) {
        fuzz_touch(slice_str(row.name));
        fuzz_touch(slice_str(row.doc));
        fuzz_sum += row.value;
    }
    counters_view_close(&v);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int kind;

    if (size == 0 || size > FUZZ_FILE_MAX)
        return 0;
    kind = *data++;
    size--;
    memset(&fuzz_mem, 0, sizeof(fuzz_mem));
    if (kind == 'c' || kind == 'm') {
        fuzz_chunks(data, size, kind == 'm');
        return 0;
    }
    memcpy(fuzz_mem.bytes, data, size);
    if (kind == 'n')
        fuzz_counters(size);
    else {
        fuzz_log(size, SHMLOG_FROM_OLDEST);
        fuzz_log(size, SHMLOG_FROM_NOW);
    }
    return 0;
}

#ifdef FUZZ_REPLAY
static unsigned
fuzz_replay_dir(const char *dir)
{
    static uint8_t data[FUZZ_FILE_MAX + 1];
    char path[4096];
    struct dirent *e;
    unsigned files = 0;
    DIR *d = opendir(dir);
    FILE *f;

    if (d == NULL)
        return 0;
    while ((e = readdir(d)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || (f = fopen(path, "rb")) == NULL)
            continue;
        LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), f));
        fclose(f);
        files++;
    }
    closedir(d);
    return files;
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        unsigned files = fuzz_replay_dir(argv[i]);
        printf("%s: %u files\n", argv[i], files);
        if (files == 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif
