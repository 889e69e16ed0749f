/* log_read.c -- the reading side of the shared-memory log.
 *
 * Nothing in the file is believed: sizes are taken once, at opening, and checked against the
 * mapping; positions are masked before they become addresses; and what is copied out is
 * checked again as bytes.
 */
#include "daemon/shm/log_read.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/log.h"
#include "daemon/shm/shm_map.h"

#define SHMLOG_READER_MAGIC OBJ_TAG('s', 'l', 'r', 'd')
#define PAD8(n)             (((n) + 7u) & ~(uint64_t)7)

/* Chunks found overwritten in one call before the caller gets a rest: each such time the
 * writer has gone round the whole ring. */
#define SHMLOG_LAPS_MAX 16

enum {
    SHMLOG_NO_SLOT = -1
};

struct shmlog_reader {
    uint32_t magic;
    uint32_t worker;
    struct shmlog_file *file; /* written to only while attached */
    const _Atomic uint64_t *ring;
    uint64_t ring_bytes, segment_bytes;
    uint64_t pos;                  /* next chunk's */
    struct shmlog_counts expected; /* of it, once `counting` */
    bool counting;
    uint64_t missed, missed_reqs;

    bool wants_details; /* between attach and detach */
    int slot;           /* ours in file->readers, or SHMLOG_NO_SLOT */
    uint64_t token;

    struct shm_map map;
    union {
        uint64_t words[SHMLOG_CHUNK_MAX / 8];
        struct shmlog_chunk chunk;
    } copy;
};

/* Acquire: what the writer stored before it published is seen.  The mask keeps a scribbled value
 * on a word. */
static uint64_t
shmlog_head(const struct shmlog_reader *r)
{
    return atomic_load_explicit(&r->file->head, memory_order_acquire) & ~UINT64_C(7);
}

/* Has the writer claimed what stands at pos for its next lap?  Asked after every copy: the
 * copy's loads have acquire order, so this one cannot come before them. */
static bool
shmlog_is_lapped(const struct shmlog_reader *r)
{
    uint64_t claimed = atomic_load_explicit(&r->file->claimed, memory_order_relaxed);

    return claimed > r->pos && claimed - r->pos > r->ring_bytes;
}

/* Acquire, so that the check of `claimed` that follows cannot be done before it (README.md, "How
 * reading without locks is right"). */
static uint64_t
shmlog_ring_word(const struct shmlog_reader *r, uint64_t pos)
{
    return atomic_load_explicit(&r->ring[(pos & (r->ring_bytes - 1)) >> 3], memory_order_acquire);
}

/* The oldest segment that is whole, or the one after it: the oldest is claimed next. */
static uint64_t
shmlog_oldest(const struct shmlog_reader *r, uint64_t spare)
{
    uint64_t claimed = atomic_load_explicit(&r->file->claimed, memory_order_relaxed);

    claimed &= ~(r->segment_bytes - 1);
    return claimed <= r->ring_bytes ? 0 : claimed - r->ring_bytes + spare;
}

/* Steps over what the writer has taken back.  0, or TERR_CORRUPT. */
static int
shmlog_skip_lap(struct shmlog_reader *r)
{
    uint64_t oldest = shmlog_oldest(r, r->segment_bytes);

    if (oldest <= r->pos || oldest > shmlog_head(r))
        return TERR_CORRUPT; /* claimed is not where head would have it */
    r->pos = oldest;
    return 0;
}

/* Copies the chunk at pos, all of which lies before head.  1 and it is in r->copy; 0: skip to
 * the next segment; TERR_AGAIN: overwritten meanwhile; TERR_CORRUPT.
 * Word by word, because the writer may be overwriting it: nothing of the copy is believed before
 * the last look at `claimed`. */
static int
shmlog_copy_chunk(struct shmlog_reader *r, uint64_t head)
{
    struct shmlog_chunk *c = &r->copy.chunk;
    uint64_t segment_left = r->segment_bytes - (r->pos & (r->segment_bytes - 1));

    r->copy.words[0] = shmlog_ring_word(r, r->pos);
    if (shmlog_is_lapped(r))
        return TERR_AGAIN;
    /* The first word is checked before its length is used: it may be anything. */
    if (c->mark != (uint32_t)(r->pos >> 3))
        return TERR_CORRUPT;
    if (c->kind == SHMLOG_KIND_PAD)
        return 0;
    if (c->kind >= SHMLOG_KIND_COUNT || c->bytes < sizeof(*c) || c->bytes % 8 != 0 ||
        c->bytes > SHMLOG_CHUNK_MAX || c->bytes > segment_left || c->bytes > head - r->pos)
        return TERR_CORRUPT;
    for (unsigned i = 1; i < c->bytes / 8; i++)
        r->copy.words[i] = shmlog_ring_word(r, r->pos + 8 * (uint64_t)i);
    return shmlog_is_lapped(r) ? TERR_AGAIN : 1;
}

/* How many chunks and requests lie between what we expected and what we got.
 * Differences of unsigned numbers: right across the wrap at 2^32. */
static void
shmlog_count_missed(struct shmlog_reader *r)
{
    const struct shmlog_chunk *c = &r->copy.chunk;
    struct shmlog_record first = {0};

    if (r->counting) {
        r->missed += c->counts.seq - r->expected.seq;
        r->missed_reqs += c->counts.nreq - r->expected.nreq;
    }
    if (c->bytes >= sizeof(*c) + sizeof(first))
        memcpy(&first, c + 1, sizeof(first));
    r->counting = true;
    r->expected.seq = c->counts.seq + 1;
    r->expected.nreq = c->counts.nreq + (first.tag == SHMLOG_Req);
}

/* Takes a slot, or gives a sign of life; a sweep may have taken ours for dead. */
static int
shmlog_stay_attached(struct shmlog_reader *r)
{
    struct shmlog_file *f = r->file;
    uint64_t bits = atomic_load_explicit(&f->attached, memory_order_relaxed), bit;
    int i = r->slot;

    if (i != SHMLOG_NO_SLOT && (bits >> i & 1) &&
        atomic_load_explicit(&f->readers[i].token, memory_order_relaxed) == r->token) {
        atomic_fetch_add_explicit(&f->readers[i].beat, 1, memory_order_relaxed);
        return 0;
    }
    r->slot = SHMLOG_NO_SLOT;
    for (i = 0; i < SHMLOG_READERS_MAX; i++) {
        bit = UINT64_C(1) << i;
        if (bits & bit)
            continue;
        /* Readers of other processes take slots at the same time: the old value says which one
         * got it. */
        bits = atomic_fetch_or_explicit(&f->attached, bit, memory_order_relaxed);
        if (bits & bit)
            continue; /* another came first */
        atomic_store_explicit(&f->readers[i].token, r->token, memory_order_relaxed);
        atomic_fetch_add_explicit(&f->readers[i].beat, 1, memory_order_relaxed);
        r->slot = i;
        return 0;
    }
    return TERR_LIMIT;
}

int
shmlog_attach(struct shmlog_reader *r)
{
    int err;

    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    if (!r->map.writable)
        return TERR_IO;
    err = shmlog_stay_attached(r);
    r->wants_details = err == 0;
    return err;
}

void
shmlog_detach(struct shmlog_reader *r)
{
    struct shmlog_file *f;

    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    r->wants_details = false;
    if (r->slot == SHMLOG_NO_SLOT)
        return;
    f = r->file;
    /* Should the slot change hands between the two, its new owner attaches again. */
    if (atomic_load_explicit(&f->readers[r->slot].token, memory_order_relaxed) == r->token)
        atomic_fetch_and_explicit(&f->attached, ~(UINT64_C(1) << r->slot), memory_order_relaxed);
    r->slot = SHMLOG_NO_SLOT;
}

/* Stands at the end; what lies before it is neither read nor counted. */
static int
shmlog_give_up(struct shmlog_reader *r, uint64_t head)
{
    r->pos = head;
    r->counting = false;
    return TERR_CORRUPT;
}

/* Bounded even where the writer is faster than this reader: SHMLOG_LAPS_MAX times round the
 * ring, then the caller decides. */
int
shmlog_next(struct shmlog_reader *r, struct shmlog_view *out)
{
    uint64_t head;
    unsigned laps = 0;
    int got;

    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    if (r->wants_details)
        (void)shmlog_stay_attached(r); /* no slot now: perhaps next time */
    while ((head = shmlog_head(r)) != r->pos) {
        if (head < r->pos)
            return shmlog_give_up(r, head);
        got = shmlog_is_lapped(r) ? TERR_AGAIN : shmlog_copy_chunk(r, head);
        if (got == TERR_AGAIN) {
            if (shmlog_skip_lap(r) < 0)
                return shmlog_give_up(r, head);
            if (++laps == SHMLOG_LAPS_MAX)
                return 0;
            continue;
        }
        if (got < 0)
            return shmlog_give_up(r, head);
        if (got == 0) {
            r->pos = (r->pos | (r->segment_bytes - 1)) + 1;
            continue;
        }
        shmlog_count_missed(r);
        r->pos += r->copy.chunk.bytes;
        out->kind = (enum shmlog_kind)r->copy.chunk.kind;
        out->ids = r->copy.chunk.ids;
        out->worker = r->worker;
        out->rest = slice_of(
            (const char *)(&r->copy.chunk + 1), r->copy.chunk.bytes - sizeof(struct shmlog_chunk));
        return 1;
    }
    return 0;
}

/* Chunks that are stepped over count as missed, with the next one that is read: their numbers
 * tell how many there were. */
void
shmlog_skip(struct shmlog_reader *r, uint64_t leave)
{
    uint64_t head, to;

    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    head = shmlog_head(r);
    if (head <= r->pos || head - r->pos <= leave)
        return;
    to = (head - leave) & ~(r->segment_bytes - 1); /* where a chunk begins */
    if (to > r->pos)
        r->pos = to;
}

/* `out` refers to the view, which the next shmlog_next() overwrites. */
bool
shmlog_record_next(struct shmlog_view *view, struct shmlog_rec *out)
{
    struct shmlog_record rec;
    uint64_t whole;

    if (view->rest.len < sizeof(rec))
        return false;
    memcpy(&rec, view->rest.ptr, sizeof(rec));
    whole = sizeof(rec) + PAD8((uint64_t)rec.bytes);
    if (whole > view->rest.len) {
        view->rest.len = 0; /* it lies: nothing behind it can be found */
        return false;
    }
    out->tag = (enum shmlog_tag)rec.tag;
    out->cut = (rec.flags & SHMLOG_CUT) != 0;
    out->payload = slice_of(view->rest.ptr + sizeof(rec), rec.bytes);
    view->rest.ptr += whole;
    view->rest.len -= whole;
    return true;
}

bool
shmlog_rec_num(const struct shmlog_rec *rec, uint64_t *out)
{
    if (rec->payload.len < sizeof(*out))
        return false;
    memcpy(out, rec->payload.ptr, sizeof(*out));
    return true;
}

bool
shmlog_rec_event(const struct shmlog_rec *rec, struct slice *label, uint64_t *n)
{
    if (!shmlog_rec_num(rec, n))
        return false;
    *label = slice_of(rec->payload.ptr + sizeof(*n), rec->payload.len - sizeof(*n));
    return true;
}

/* The lengths are the file's and are believed only as far as the payload goes. */
static bool
shmlog_take_string(struct slice *rest, size_t len, struct slice *out)
{
    if (len > SHMLOG_TEXT_MAX || len > rest->len)
        return false;
    *out = slice_of(rest->ptr, len);
    rest->ptr += len;
    rest->len -= len;
    return true;
}

/* What TLS said stands behind the request, in its chunk. */
static struct slice
shmlog_take_tls(const struct shmlog_view *view)
{
    struct shmlog_view rest = *view;
    struct shmlog_rec next;

    if (!shmlog_record_next(&rest, &next) || next.tag != SHMLOG_ReqTLS ||
        next.payload.len > SHMLOG_TLS_MAX)
        return slice_of(NULL, 0);
    return next.payload;
}

bool
shmlog_rec_req(const struct shmlog_rec *rec, const struct shmlog_view *view, struct shmlog_req *out)
{
    struct slice rest = rec->payload;

    if (rec->tag != SHMLOG_Req || rest.len < sizeof(out->fixed))
        return false;
    memcpy(&out->fixed, rest.ptr, sizeof(out->fixed));
    rest.ptr += sizeof(out->fixed);
    rest.len -= sizeof(out->fixed);
    out->ids = view->ids;
    out->tls = shmlog_take_tls(view);
    /* Strings beyond the limit are not ours: code that formats lines relies on it. */
    return shmlog_take_string(&rest, out->fixed.lens.line, &out->line) &&
           shmlog_take_string(&rest, out->fixed.lens.host, &out->host) &&
           shmlog_take_string(&rest, out->fixed.lens.referer, &out->referer) &&
           shmlog_take_string(&rest, out->fixed.lens.agent, &out->agent);
}

uint64_t
shmlog_missed(const struct shmlog_reader *r)
{
    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    return r->missed;
}

uint64_t
shmlog_missed_reqs(const struct shmlog_reader *r)
{
    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    return r->missed_reqs;
}

uint64_t
shmlog_behind(const struct shmlog_reader *r)
{
    uint64_t head;

    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    head = shmlog_head(r);
    return head > r->pos ? head - r->pos : 0;
}

uint64_t
shmlog_position(const struct shmlog_reader *r)
{
    OBJ_CHECK(r, SHMLOG_READER_MAGIC);
    return r->pos;
}

/* Sizes are taken once, because the file's owner could change them later, and checked against
 * what is mapped: a power of two makes every masked position lie in the ring. */
static int
shmlog_check_header(struct shmlog_reader *r)
{
    const struct shmlog_file *f = r->file;
    struct shm_file_head head;
    uint64_t ring, segment;

    if (shm_map_header(&r->map, &head, sizeof(head), SHMLOG_FILE_MAGIC, SHMLOG_VERSION,
            SHMLOG_FILE_HEADER) != 0 ||
        r->map.bytes < SHMLOG_FILE_HEADER)
        return TERR_CORRUPT;
    ring = f->ring_bytes;
    segment = f->segment_bytes;
    if (ring < SHMLOG_RING_MIN || (ring & (ring - 1)) != 0 ||
        ring != r->map.bytes - SHMLOG_FILE_HEADER)
        return TERR_CORRUPT;
    if (segment < SHMLOG_SEGMENT_MIN || (segment & (segment - 1)) != 0 || segment > ring / 4)
        return TERR_CORRUPT;
    r->ring_bytes = ring;
    r->segment_bytes = segment;
    r->worker = f->worker;
    return 0;
}

/* From now: walks to the end of what is published, so that the count of what is missed later
 * has its beginning.  A segment begins with a chunk: that is where the walk starts.
 * One segment at most, in the caller's thread: a thirty-second of the usual ring. */
static void
shmlog_walk_to_end(struct shmlog_reader *r)
{
    uint64_t end = shmlog_head(r);
    struct shmlog_view ignored;

    r->pos = end == 0 ? 0 : (end - 1) & ~(r->segment_bytes - 1);
    r->counting = end == 0;
    while (r->pos < end && shmlog_next(r, &ignored) > 0)
        continue;
    r->missed = r->missed_reqs = 0;
}

static void
shmlog_reader_start(struct shmlog_reader *r, enum shmlog_from from)
{
    if (from == SHMLOG_FROM_NOW) {
        shmlog_walk_to_end(r);
        return;
    }
    r->pos = shmlog_oldest(r, 0);
    r->counting = r->pos == 0;
}

/* Takes the map, whatever comes of it. */
static int
shmlog_reader_new(struct shmlog_reader **out, struct shm_map map, enum shmlog_from from)
{
    static _Atomic uint32_t made;
    struct shmlog_reader *r = calloc(1, sizeof(*r));
    struct timespec now;

    if (r == NULL) {
        shm_map_close(&map);
        return TERR_NOMEM;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    r->magic = SHMLOG_READER_MAGIC;
    r->slot = SHMLOG_NO_SLOT;
    r->map = map;
    r->file = (struct shmlog_file *)(uintptr_t)map.base;
    r->ring = (const _Atomic uint64_t *)(const void *)((const char *)map.base + SHMLOG_FILE_HEADER);
    /* Distinct among the readers of a file is all that is asked, whatever process they are. */
    r->token = ((uint64_t)getpid() << 40) ^ ((uint64_t)now.tv_nsec << 16) ^
               atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) ^ 1;
    if (shmlog_check_header(r) < 0) {
        shm_map_close(&map);
        OBJ_FREE(r);
        return TERR_CORRUPT;
    }
    shmlog_reader_start(r, from);
    *out = r;
    return 0;
}

int
shmlog_reader_open_mem(
    struct shmlog_reader **out, const void *base, size_t bytes, enum shmlog_from from)
{
    return shmlog_reader_new(out, shm_map_of(base, bytes, false), from);
}

int
shmlog_reader_open_here(struct shmlog_reader **out, struct shmlog *l, enum shmlog_from from)
{
    OBJ_CHECK(l, SHMLOG_MAGIC);
    return shmlog_reader_new(out, shm_map_of(l->file, l->map_bytes, true), from);
}

int
shmlog_reader_open(struct shmlog_reader **out, const char *path, enum shmlog_from from)
{
    struct shm_map map;
    int err = shm_map_open(&map, path, true);

    return err < 0 ? err : shmlog_reader_new(out, map, from);
}

void
shmlog_reader_close(struct shmlog_reader **rp)
{
    struct shmlog_reader *r;

    OBJ_TAKE(r, rp, SHMLOG_READER_MAGIC);
    shmlog_detach(r);
    shm_map_close(&r->map);
    OBJ_FREE(r);
}
