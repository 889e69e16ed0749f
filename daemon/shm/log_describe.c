/* log_describe.c -- the last records of this thread's log, for a panic. */
#include <stddef.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/shm/log.h"

enum {
    DESCRIBE_CHUNKS = 8,   /* printed */
    DESCRIBE_RECORDS = 16, /* of a chunk */
};

static _Thread_local const struct shmlog *shmlog_here;

void
shmlog_describe_here(const struct shmlog *l)
{
    shmlog_here = l;
}

/* Lengths were cut to SHMLOG_TEXT_MAX when they were written, but this may be the panic that
 * shows otherwise. */
static void
describe_req(const struct shmlog_chunk *chunk, const char *payload, size_t bytes)
{
    struct shmlog_req_fixed fixed;

    /* In a panic nothing is believed, also not our own ring. */
    if (bytes < sizeof(fixed))
        return;
    /* A record need not be aligned for it. */
    memcpy(&fixed, payload, sizeof(fixed));
    if (bytes < sizeof(fixed) + fixed.lens.line + fixed.lens.host)
        return;
    tassert_say("log: request %llu ended: status %u, %llu body bytes, %u us",
        (unsigned long long)chunk->ids.xid, fixed.status, (unsigned long long)fixed.body_bytes,
        fixed.duration_us);
    payload += sizeof(fixed);
    tassert_say_text("line", payload, fixed.lens.line);
    tassert_say_text("host", payload + fixed.lens.line, fixed.lens.host);
}

static void
describe_record(const struct shmlog_record *rec, const char *payload)
{
    uint64_t n;

    if (shmlog_tag_payload(rec->tag) != SHMLOG_PAYLOAD_NUM || rec->bytes != sizeof(n)) {
        tassert_say_text(shmlog_tag_name(rec->tag), payload, rec->bytes);
        return;
    }
    memcpy(&n, payload, sizeof(n));
    tassert_say("  %s %llu", shmlog_tag_name(rec->tag), (unsigned long long)n);
}

static void
describe_chunk(const struct shmlog_chunk *chunk)
{
    const char *at = (const char *)(chunk + 1), *end = (const char *)chunk + chunk->bytes;
    struct shmlog_record rec;

    if (chunk->kind != SHMLOG_KIND_REQ)
        tassert_say(
            "log: %s %llu", shmlog_kind_name(chunk->kind), (unsigned long long)chunk->ids.xid);
    for (unsigned i = 0; i < DESCRIBE_RECORDS && at + sizeof(rec) <= end; i++) {
        memcpy(&rec, at, sizeof(rec));
        at += sizeof(rec);
        /* It does not fit: the rest of the chunk is not looked at. */
        if (rec.bytes > (size_t)(end - at))
            return;
        if (rec.tag == SHMLOG_Req)
            describe_req(chunk, at, rec.bytes);
        else
            describe_record(&rec, at);
        at += (rec.bytes + 7) & ~7u;
    }
}

/* The chunk at `pos`; NULL: the segment ends there, or it makes no sense. */
static const struct shmlog_chunk *
describe_at(const struct shmlog *l, uint64_t pos)
{
    uint64_t room = l->segment_bytes - (pos & (l->segment_bytes - 1));
    const struct shmlog_chunk *chunk =
        (const struct shmlog_chunk *)(const void *)(l->bytes + (pos & l->mask));

    if (room < sizeof(*chunk) || chunk->bytes < sizeof(*chunk) || chunk->bytes > room ||
        /* What lies there is older, of the round before: the ring was not written so far. */
        chunk->bytes % 8 != 0 || chunk->mark != (uint32_t)(pos >> 3))
        return NULL;
    return chunk;
}

/* Chunks can only be followed forwards, from a segment's begin: the one being written, and the one
 * before.
 * In a panic, on the thread that failed: no lock, no heap.  The chunk that is being made lies
 * behind `pos` and is not shown. */
void
shmlog_describe(void)
{
    const struct shmlog *l = shmlog_here;
    const struct shmlog_chunk *last[DESCRIBE_CHUNKS], *chunk;
    uint64_t begin, head;
    unsigned n = 0;

    /* A thread that is no worker has none. */
    if (l == NULL || l->magic != SHMLOG_MAGIC)
        return;
    head = l->pos;
    begin = head & ~(l->segment_bytes - 1);
    for (uint64_t segment = begin >= l->segment_bytes ? begin - l->segment_bytes : 0;
         segment <= begin; segment += l->segment_bytes)
        for (uint64_t pos = segment; pos < head && (chunk = describe_at(l, pos)) != NULL;
             pos += chunk->bytes) {
            if (chunk->kind != SHMLOG_KIND_PAD)
                /* The last few of all: how many there are is known at the end. */
                last[n++ % DESCRIBE_CHUNKS] = chunk;
            if (pos + chunk->bytes - segment >= l->segment_bytes)
                break;
        }
    for (unsigned i = n > DESCRIBE_CHUNKS ? n - DESCRIBE_CHUNKS : 0; i < n; i++)
        describe_chunk(last[i % DESCRIBE_CHUNKS]);
}
