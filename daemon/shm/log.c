/* log.c -- the writing side of the shared-memory log.
 *
 * A chunk is made in its place in the ring, with plain stores; two stores give it meaning:
 * `claimed` before the first of them, `head` after the last.  README.md, "How reading without
 * locks is right", has the argument.
 *
 * The race detector knows nothing of bytes that are read, found to have changed, and thrown
 * away.  For it chunks are made elsewhere and copied in as atomic words with release order,
 * which says the same in its language; the protocol is not otherwise different.
 */
#include "daemon/shm/log.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/dir.h"

#define PAD8(n)      (((n) + 7u) & ~(uint64_t)7)
#define SHMLOG_SLACK 16u /* padding is done by a whole word of zeros from where it begins */
#define REQ_HEAD \
    (sizeof(struct shmlog_chunk) + sizeof(struct shmlog_record) + sizeof(struct shmlog_req_fixed))
#define SHMLOG_BRIEF 127u /* strings that shmlog_copy_brief() copies */
#define RECORD_MAX   (sizeof(struct shmlog_record) + 8 + PAD8(SHMLOG_TEXT_MAX))

_Static_assert(PAD8(REQ_HEAD + 4 * SHMLOG_TEXT_MAX) + SHMLOG_SLACK <= SHMLOG_CHUNK_MAX,
    "a Req record is one chunk");
_Static_assert(PAD8(REQ_HEAD + 4 * SHMLOG_TEXT_MAX) + sizeof(struct shmlog_record) +
                       PAD8(SHMLOG_TLS_MAX) + SHMLOG_SLACK <=
                   SHMLOG_CHUNK_MAX,
    "and so is one with what TLS said");
_Static_assert((SHMLOG_TEXT_MAX & (SHMLOG_TEXT_MAX + 1)) == 0, "see shmlog_req_within()");
_Static_assert((SHMLOG_BRIEF & (SHMLOG_BRIEF + 1)) == 0, "see shmlog_req_within()");
_Static_assert(SHMLOG_CHUNK_MAX <= SHMLOG_SEGMENT_MIN, "a chunk fits an empty segment");
_Static_assert(sizeof(struct shmlog_chunk) + RECORD_MAX <= SHMLOG_CHUNK_MAX, "so does a record");
_Static_assert(sizeof(struct shmlog_chunk) + RECORD_MAX + SHMLOG_SLACK <= SHMLOG_SEGMENT_MIN,
    "beginning a chunk never asks for more than a segment");
_Static_assert(SHMLOG_RING_MIN >= 4 * SHMLOG_SEGMENT_MIN, "one is written, others are read");
_Static_assert(sizeof(_Atomic uint64_t) == 8, "the ring is words");

#if defined(__SANITIZE_THREAD__)
#define SHMLOG_STAGED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHMLOG_STAGED 1
#endif
#endif
#ifndef SHMLOG_STAGED
#define SHMLOG_STAGED 0
#endif

/* memcpy() for short strings, n <= SHMLOG_BRIEF; returns the end.  Sizes known when compiling
 * are plain moves; blocks from both ends meet or overlap in the middle. */
static inline char *
shmlog_copy_brief(char *to, const char *p, size_t n)
{
    char *end = to + n;
    const char *p_end = p + n;

    if (n == 0)
        return to;
    if (n >= 16) {
        if (n > 32) {
            if (n > 64) {
                memcpy(to + 32, p + 32, 16);
                memcpy(to + 48, p + 48, 16);
                memcpy(end - 64, p_end - 64, 16);
                memcpy(end - 48, p_end - 48, 16);
            }
            memcpy(to + 16, p + 16, 16);
            memcpy(end - 32, p_end - 32, 16);
        }
        memcpy(to, p, 16);
        memcpy(end - 16, p_end - 16, 16);
    } else if (n >= 8) {
        memcpy(to, p, 8);
        memcpy(end - 8, p_end - 8, 8);
    } else if (n >= 4) {
        memcpy(to, p, 4);
        memcpy(end - 4, p_end - 4, 4);
    } else {
        to[0] = p[0];
        to[n >> 1] = p[n >> 1];
        end[-1] = p[n - 1];
    }
    return end;
}

/* For strings of any length, on the slow path. */
static inline char *
shmlog_copy(char *to, const char *p, size_t n)
{
    if (n > 0) /* p may be NULL then */
        memcpy(to, p, n);
    return to + n;
}

/* Positions count all bytes ever written; the ring's size is a power of two, so a mask makes one
 * an offset. */
static inline _Atomic uint64_t *
shmlog_word(const struct shmlog *l, uint64_t pos)
{
    return l->ring + ((pos & l->mask) >> 3);
}

/* Where the chunk at pos is made. */
static inline char *
shmlog_place(const struct shmlog *l)
{
    if (SHMLOG_STAGED)
        return l->stage;
    return l->bytes + (l->pos & l->mask);
}

/* Length, kind and position in one word: a reader that finds another position there looks at
 * bytes of another lap, or at no chunk's beginning. */
static inline uint64_t
shmlog_first_word(uint64_t bytes, enum shmlog_kind kind, uint64_t pos)
{
    return bytes | (uint64_t)kind << 24 | (pos >> 3) << 32;
}

/* Under the race detector only: the file's comment. */
static void
shmlog_unstage(struct shmlog *l, uint64_t bytes)
{
    _Atomic uint64_t *to = shmlog_word(l, l->pos);
    uint64_t word;

    for (uint64_t i = 0; i < bytes; i += 8) {
        memcpy(&word, l->stage + i, 8);
        atomic_store_explicit(to++, word, memory_order_release);
    }
}

/* What is published stays at pos; what comes next begins behind it.
 * The release store pairs with the reader's acquire load of `head`: a reader that sees the new
 * head sees the whole chunk. */
static inline void
shmlog_publish(struct shmlog *l, uint64_t bytes)
{
    if (SHMLOG_STAGED)
        shmlog_unstage(l, bytes);
    l->counts.seq++;
    l->pos += bytes;
    atomic_store_explicit(&l->file->head, l->pos, memory_order_release);
}

static inline void
shmlog_put_header(
    const struct shmlog *l, char *to, uint64_t first_word, const struct shmlog_ids *ids)
{
    memcpy(to, &first_word, sizeof(first_word));
    memcpy(to + offsetof(struct shmlog_chunk, ids), ids, sizeof(*ids));
    memcpy(to + offsetof(struct shmlog_chunk, counts), &l->counts, sizeof(l->counts));
}

/* Room for `need` bytes at pos in one segment: closes this one and claims the next if there
 * is none.  Claiming comes before the first store into the segment. */
static __attribute__((noinline)) void
shmlog_claim(struct shmlog *l, uint64_t need)
{
    tassert(need <= l->segment_bytes);
    if (l->pos + need <= l->limit)
        return;
    if (l->pos < l->limit)
        /* Says that nothing follows in this segment.  `pos` is on 8 bytes, so a word always
         * fits. */
        atomic_store_explicit(shmlog_word(l, l->pos), shmlog_first_word(8, SHMLOG_KIND_PAD, l->pos),
            memory_order_release);
    l->pos = l->limit;
    l->limit += l->segment_bytes;
    atomic_store_explicit(&l->file->claimed, l->limit, memory_order_relaxed);
#if !SHMLOG_STAGED
    atomic_thread_fence(memory_order_release); /* claimed first, then the segment's bytes */
#endif
}

/* Makes the chunk: the request, with room for `more` bytes behind it.  Its strings are `text` bytes
 * together, each copied by `copy`.  Returns the chunk's length.
 * Stores into the chunk are plain: nothing of it counts before shmlog_publish().  The header
 * comes first, and a reader that looks now finds `head` still before it. */
static inline uint64_t
shmlog_req_fill(struct shmlog *l, const struct shmlog_req *r, size_t text, uint64_t more,
    char *(*copy)(char *to, const char *p, size_t n))
{
    uint64_t bytes = PAD8(REQ_HEAD + text);
    char *chunk = shmlog_place(l), *to = chunk + sizeof(struct shmlog_chunk);
    uint64_t rec = SHMLOG_Req | (bytes - sizeof(struct shmlog_chunk) - sizeof(struct shmlog_record))
                                    << 32;
    uint64_t lens = r->line.len | r->host.len << 16 | r->referer.len << 32 | r->agent.len << 48;

    shmlog_put_header(l, chunk, shmlog_first_word(bytes + more, SHMLOG_KIND_REQ, l->pos), &r->ids);
    memcpy(to, &rec, sizeof(rec));
    to += sizeof(rec);
    memcpy(to, &r->fixed, offsetof(struct shmlog_req_fixed, lens));
    to += offsetof(struct shmlog_req_fixed, lens);
    memcpy(to, &lens, sizeof(lens));
    to += sizeof(lens);
    to = copy(to, r->line.ptr, r->line.len);
    to = copy(to, r->host.ptr, r->host.len);
    to = copy(to, r->referer.ptr, r->referer.len);
    to = copy(to, r->agent.ptr, r->agent.len);
    memset(to, 0, 8); /* the padding, and some of SHMLOG_SLACK */
    return bytes + more;
}

static inline void
shmlog_req_write(struct shmlog *l, const struct shmlog_req *r, size_t text,
    char *(*copy)(char *to, const char *p, size_t n))
{
    shmlog_publish(l, shmlog_req_fill(l, r, text, 0, copy));
    l->counts.nreq++;
}

static size_t
shmlog_req_text(const struct shmlog_req *r)
{
    return r->line.len + r->host.len + r->referer.len + r->agent.len;
}

/* The longest string, or a longer number: `max` is all ones in binary. */
static inline bool
shmlog_req_within(const struct shmlog_req *r, size_t max)
{
    return (r->line.len | r->host.len | r->referer.len | r->agent.len) <= max;
}

/* A reader relies on SHMLOG_TEXT_MAX; the flag tells a long URL from one that was cut. */
static void
shmlog_cut(struct slice *s, unsigned *flags, unsigned flag)
{
    if (s->len <= SHMLOG_TEXT_MAX)
        return;
    s->len = SHMLOG_TEXT_MAX;
    *flags |= flag;
}

static void
shmlog_req_cut(struct shmlog_req *r)
{
    shmlog_cut(&r->line, &r->fixed.flags, SHMLOG_REQ_CUT_LINE);
    shmlog_cut(&r->host, &r->fixed.flags, SHMLOG_REQ_CUT_HOST);
    shmlog_cut(&r->referer, &r->fixed.flags, SHMLOG_REQ_CUT_REFERER);
    shmlog_cut(&r->agent, &r->fixed.flags, SHMLOG_REQ_CUT_AGENT);
}

/* Long strings, or no room left in this segment. */
static __attribute__((noinline)) void
shmlog_req_slow(struct shmlog *l, const struct shmlog_req *r)
{
    struct shmlog_req c;

    if (!shmlog_req_within(r, SHMLOG_TEXT_MAX)) {
        c = *r;
        shmlog_req_cut(&c);
        r = &c;
    }
    shmlog_claim(l, REQ_HEAD + shmlog_req_text(r) + SHMLOG_SLACK);
    shmlog_req_write(l, r, shmlog_req_text(r), shmlog_copy);
}

/* Once in each request, on the worker's thread: no lock, no system call, no wait.  The usual
 * request costs one comparison of lengths and one of room. */
static inline __attribute__((always_inline)) void
shmlog_req_plain(struct shmlog *l, const struct shmlog_req *r)
{
    size_t text = shmlog_req_text(r);

    tassert(l->magic == SHMLOG_MAGIC); /* all that OBJ_CHECK says, at a third of its price */
    tassert(!l->open);
    if (__builtin_expect(shmlog_req_within(r, SHMLOG_BRIEF), 1) &&
        __builtin_expect(l->pos + REQ_HEAD + text + SHMLOG_SLACK <= l->limit, 1))
        shmlog_req_write(l, r, text, shmlog_copy_brief);
    else
        shmlog_req_slow(l, r);
}

void
shmlog_req(struct shmlog *l, const struct shmlog_req *r)
{
    shmlog_req_plain(l, r);
}

static void
shmlog_req_secure(struct shmlog *l, const struct shmlog_req *r)
{
    struct shmlog_record rec = {SHMLOG_ReqTLS, 0, (uint32_t)r->tls.len};
    uint64_t more = sizeof(rec) + PAD8(r->tls.len), bytes;
    struct shmlog_req c = *r;
    char *to;

    OBJ_CHECK(l, SHMLOG_MAGIC);
    tassert(!l->open && r->tls.len <= SHMLOG_TLS_MAX);
    shmlog_req_cut(&c);
    shmlog_claim(l, PAD8(REQ_HEAD + shmlog_req_text(&c)) + more + SHMLOG_SLACK);
    bytes = shmlog_req_fill(l, &c, shmlog_req_text(&c), more, shmlog_copy);
    to = mempcpy(shmlog_place(l) + bytes - more, &rec, sizeof(rec));
    to = shmlog_copy(to, r->tls.ptr, r->tls.len);
    memset(to, 0, 8);
    shmlog_publish(l, bytes);
    l->counts.nreq++;
}

/* Apart from shmlog_req(), so that a plain hit has no question more, and that one is inlined in its only
 * caller. */
void
shmlog_req_any(struct shmlog *l, const struct shmlog_req *r)
{
    if (r->tls.len > 0)
        shmlog_req_secure(l, r);
    else
        shmlog_req_plain(l, r);
}

/* Room for one record of any size is claimed here, so that an empty chunk never has to move.
 * Until shmlog_end() the chunk is open, and shmlog_req() may not come between: both are made at
 * the same place. */
void
shmlog_begin(struct shmlog *l, uint64_t xid, enum shmlog_kind kind, uint64_t parent_xid)
{
    OBJ_CHECK(l, SHMLOG_MAGIC);
    tassert(!l->open);
    tassert(kind > SHMLOG_KIND_PAD && kind < SHMLOG_KIND_COUNT);
    shmlog_claim(l, sizeof(struct shmlog_chunk) + RECORD_MAX + SHMLOG_SLACK);
    l->open = true;
    l->kind = (uint8_t)kind;
    l->ids = (struct shmlog_ids){xid, parent_xid};
    l->at = sizeof(struct shmlog_chunk);
}

void
shmlog_end(struct shmlog *l)
{
    OBJ_CHECK(l, SHMLOG_MAGIC);
    tassert(l->open);
    tassert(l->at <= SHMLOG_CHUNK_MAX && l->pos + l->at <= l->limit);
    l->open = false;
    if (l->at == sizeof(struct shmlog_chunk))
        return; /* nothing was said */
    shmlog_put_header(
        l, shmlog_place(l), shmlog_first_word(l->at, (enum shmlog_kind)l->kind, l->pos), &l->ids);
    shmlog_publish(l, l->at);
}

/* Adds a record of n bytes to the open chunk, or to one that continues it, and returns where
 * its payload goes; the padding is done.
 * A chunk never crosses a segment's end.  Where the next record would, the chunk is published
 * and another one of the same transaction goes on. */
static char *
shmlog_record(struct shmlog *l, enum shmlog_tag tag, size_t n, unsigned flags)
{
    uint64_t whole = sizeof(struct shmlog_record) + PAD8(n);
    struct shmlog_record rec = {(uint16_t)tag, (uint16_t)flags, (uint32_t)n};
    char *to;

    OBJ_CHECK(l, SHMLOG_MAGIC);
    tassert(l->open);
    tassert(tag > SHMLOG_Req && tag < SHMLOG_TAG_COUNT);
    tassert(whole <= RECORD_MAX);
    if (l->at + whole > SHMLOG_CHUNK_MAX || l->pos + l->at + whole + SHMLOG_SLACK > l->limit) {
        shmlog_end(l);
        shmlog_begin(l, l->ids.xid, (enum shmlog_kind)l->kind, l->ids.parent_xid);
    }
    to = shmlog_place(l) + l->at;
    memcpy(to, &rec, sizeof(rec));
    memset(to + sizeof(rec) + n, 0, 8); /* the padding, and some of SHMLOG_SLACK */
    l->at += whole;
    return to + sizeof(rec);
}

void
shmlog_text(struct shmlog *l, enum shmlog_tag tag, struct slice text)
{
    bool cut = text.len > SHMLOG_TEXT_MAX;
    size_t n = cut ? SHMLOG_TEXT_MAX : text.len;

    shmlog_copy(shmlog_record(l, tag, n, cut ? SHMLOG_CUT : 0), text.ptr, n);
}

void
shmlog_field(struct shmlog *l, enum shmlog_tag tag, struct slice name, struct slice value)
{
    char line[SHMLOG_TEXT_MAX + 1];
    size_t room = sizeof(line), n = name.len < room - 2 ? name.len : room - 2;
    size_t v = value.len < room - n - 2 ? value.len : room - n - 2;

    if (n > 0)
        memcpy(line, name.ptr, n);
    memcpy(line + n, ": ", 2);
    if (v > 0)
        memcpy(line + n + 2, value.ptr, v);
    /* One byte more than is allowed, when there was more: shmlog_text() cuts and says so. */
    shmlog_text(l, tag, slice_of(line, n + 2 + v));
}

void
shmlog_num(struct shmlog *l, enum shmlog_tag tag, uint64_t n)
{
    memcpy(shmlog_record(l, tag, sizeof(n), 0), &n, sizeof(n));
}

void
shmlog_event(struct shmlog *l, enum shmlog_tag tag, struct slice label, uint64_t n)
{
    bool cut = label.len > SHMLOG_TEXT_MAX;
    size_t len = cut ? SHMLOG_TEXT_MAX : label.len;
    char *to = shmlog_record(l, tag, sizeof(n) + len, cut ? SHMLOG_CUT : 0);

    memcpy(to, &n, sizeof(n));
    shmlog_copy(to + sizeof(n), label.ptr, len);
}

/* Formatting costs microseconds: callers ask first whether a reader is attached
 * (shmlog_readers). */
void
shmlog_printf(struct shmlog *l, enum shmlog_tag tag, const char *fmt, ...)
{
    char line[SHMLOG_TEXT_MAX + 2]; /* one more than is allowed, as above */
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof(line))
        n = sizeof(line) - 1;
    shmlog_text(l, tag, slice_of(line, (size_t)n));
}

/* On the main thread, every ten seconds or more.  A reader that was killed cannot clear its bit,
 * and the worker would write details for it for ever: one without a beat
 * since the last sweep counts as dead. */
void
shmlog_sweep(struct shmlog *l)
{
    uint64_t attached, beat;

    OBJ_CHECK(l, SHMLOG_MAGIC);
    attached = atomic_load_explicit(&l->file->attached, memory_order_relaxed);
    for (unsigned i = 0; i < SHMLOG_READERS_MAX; i++) {
        beat = atomic_load_explicit(&l->file->readers[i].beat, memory_order_relaxed);
        /* One that lives after all finds its bit gone and attaches again. */
        if ((attached >> i & 1) && beat == l->swept_beat[i])
            atomic_fetch_and_explicit(
                &l->file->attached, ~(UINT64_C(1) << i), memory_order_relaxed);
        l->swept_beat[i] = beat;
    }
    /* Bits that no reader of ours can have set: another process scribbled. */
    atomic_fetch_and_explicit(
        &l->file->attached, (UINT64_C(1) << SHMLOG_READERS_MAX) - 1, memory_order_relaxed);
}

/* IPv4 in IPv6's mapped form, as all addresses here. */
void
shmlog_addr(struct shmlog_req_fixed *f, const struct sockaddr *sa)
{
    memset(f->addr, 0, sizeof(f->addr));
    f->port = 0;
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        f->addr[10] = f->addr[11] = 0xff; /* RFC 4291 2.5.5.2 */
        memcpy(f->addr + 12, &in.sin_addr, 4);
        f->port = ntohs(in.sin_port);
    } else if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        memcpy(f->addr, &in6.sin6_addr, 16);
        f->port = ntohs(in6.sin6_port);
    }
}

/* The mapping: of a file in `dir`; private to this process when `dir` is NULL. */
static int
shmlog_map(void **base, struct shm_dir *dir, const char *name, size_t bytes)
{
    if (dir != NULL)
        return shm_file_create(base, dir, name, bytes);
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *base == MAP_FAILED ? TERR_NOMEM : 0;
}

/* `magic` is stored last: it says that the other fields are there. */
static void
shmlog_fill_header(struct shmlog *l, unsigned worker)
{
    struct shmlog_file *file = l->file;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    file->version = SHMLOG_VERSION;
    file->header_bytes = SHMLOG_FILE_HEADER;
    file->ring_bytes = l->ring_bytes;
    file->segment_bytes = l->segment_bytes;
    file->worker = worker;
    file->pid = (uint32_t)getpid();
    file->created_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    atomic_store_explicit(&file->claimed, l->limit, memory_order_relaxed);
    file->magic = SHMLOG_FILE_MAGIC;
}

/* Aligned to a cache line: the writer's state shares none with another worker's. */
static struct shmlog *
shmlog_new(void)
{
    struct shmlog *l = aligned_alloc(64, (sizeof(*l) + 63) & ~(size_t)63);

    if (l == NULL)
        return NULL;
    memset(l, 0, sizeof(*l));
    l->magic = SHMLOG_MAGIC;
    if (SHMLOG_STAGED && (l->stage = malloc(SHMLOG_CHUNK_MAX + SHMLOG_SLACK)) == NULL)
        OBJ_FREE(l);
    return l;
}

/* Start-up, before the worker's thread.  bytes: a power of two, at least SHMLOG_RING_MIN. */
int
shmlog_open(struct shmlog **out, struct shm_dir *dir, unsigned worker, uint64_t bytes)
{
    struct shmlog *l;
    char name[32];
    void *base;
    int err;

    if (bytes < SHMLOG_RING_MIN || (bytes & (bytes - 1)) != 0)
        return TERR_CONFIG;
    l = shmlog_new();
    if (l == NULL)
        return TERR_NOMEM;
    l->map_bytes = SHMLOG_FILE_HEADER + bytes;
    snprintf(name, sizeof(name), "log.%u", worker);
    err = shmlog_map(&base, dir, name, l->map_bytes);
    if (err < 0)
        goto fail;

    l->file = base;
    l->bytes = (char *)base + SHMLOG_FILE_HEADER;
    l->ring = (_Atomic uint64_t *)(void *)l->bytes;
    l->ring_bytes = bytes;
    l->mask = bytes - 1;
    l->segment_bytes = bytes / SHMLOG_SEGMENTS;
    if (l->segment_bytes < SHMLOG_SEGMENT_MIN)
        l->segment_bytes = SHMLOG_SEGMENT_MIN;
    l->limit = l->segment_bytes;
    shmlog_fill_header(l, worker);
    if (dir != NULL)
        /* Only now has the file its name: no reader opens one without a header. */
        err = shm_file_publish(dir, name);
    if (err < 0)
        goto fail;
    *out = l;
    return 0;

fail:
    shmlog_close(&l);
    return err;
}

void
shmlog_close(struct shmlog **lp)
{
    struct shmlog *l;

    OBJ_TAKE(l, lp, SHMLOG_MAGIC);
    tassert(!l->open);
    if (l->file != NULL)
        munmap(l->file, l->map_bytes);
    free(l->stage);
    OBJ_FREE(l);
}
