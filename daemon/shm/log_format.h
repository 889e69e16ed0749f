/* log_format.h -- the bytes of a log file, for its writer and for readers elsewhere.
 *
 *   position  bytes written since the file was made; only grows; modulo ring_bytes it is
 *             the place in the ring
 *   segment   an equal part of the ring; no chunk crosses from one into the next, so that
 *             every segment begins with a chunk
 *   chunk     records of one transaction, contiguous, published as a whole
 *   record    one tagged fact; its payload is padded with zeros to 8 bytes
 *
 * Little-endian, everything on 8 bytes.  README.md has the protocol and its proof.
 */
#ifndef TARN_LOG_FORMAT_H
#define TARN_LOG_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "daemon/shm/log_table.h"
#include "daemon/shm/result_table.h"

#define SHMLOG_FILE_MAGIC UINT64_C(0x31474f4c4e524154) /* "TARNLOG1" */

enum {
    SHMLOG_VERSION = 1,
    SHMLOG_FILE_HEADER = 4096,
    SHMLOG_SEGMENTS = 32,      /* of a ring large enough for them */
    SHMLOG_SEGMENT_MIN = 8192, /* holds the largest chunk */
    SHMLOG_CHUNK_MAX = 8192,
    SHMLOG_RING_MIN = 65536, /* least log_ring: eight segments */
    SHMLOG_READERS_MAX = 16, /* readers attached at a time */
    SHMLOG_TEXT_MAX = 1023,  /* longer text is cut, and the record says so */
};

/* The first page of the file. */
struct shmlog_file {
    /* set once, before the file gets its name */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t ring_bytes;    /* a power of two */
    uint64_t segment_bytes; /* a power of two */
    uint32_t worker;
    uint32_t pid;
    uint64_t created_ms; /* wall time */
    uint64_t unused[2];

    /* written by the worker alone */
    _Atomic uint64_t head __attribute__((aligned(64))); /* end of what is published */
    _Atomic uint64_t claimed; /* end of the segment being written: below claimed - ring_bytes
                                 nothing is left to read */

    /* written by readers, and by the sweep that removes dead ones */
    _Atomic uint64_t attached __attribute__((aligned(64))); /* bit i: readers[i] is taken */
    struct {
        _Atomic uint64_t token; /* of its holder */
        _Atomic uint64_t beat;  /* grows while the holder lives */
    } readers[SHMLOG_READERS_MAX] __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct shmlog_file) <= SHMLOG_FILE_HEADER, "the header is one page");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "strings are packed into words");

enum shmlog_kind {
    SHMLOG_KIND_PAD, /* nothing: the segment ends here */
#define X(name, doc) SHMLOG_KIND_##name,
    SHMLOG_KIND_TABLE(X)
#undef X
    SHMLOG_KIND_COUNT
};

enum shmlog_tag {
    SHMLOG_NONE,
#define X(name, payload, when, doc) SHMLOG_##name,
    SHMLOG_TABLE(X)
#undef X
    SHMLOG_TAG_COUNT
};

enum shmlog_tls {
#define X(name, most, doc) SHMLOG_TLS_##name,
    SHMLOG_TLS_TABLE(X)
#undef X
    SHMLOG_TLS_COUNT
};

#define X(name, most, doc) +(most) + 1
enum {
    SHMLOG_TLS_MAX = SHMLOG_TLS_TABLE(X) /* bytes of them, packed */
};
#undef X

enum shmlog_payload {
    SHMLOG_PAYLOAD_TEXT,
    SHMLOG_PAYLOAD_NUM,
    SHMLOG_PAYLOAD_EVENT,
    SHMLOG_PAYLOAD_FIELD,
    SHMLOG_PAYLOAD_REQ,
    SHMLOG_PAYLOAD_TLS,
};

struct shmlog_ids {
    uint64_t xid;        /* of the transaction */
    uint64_t parent_xid; /* of the one that started it; 0: none */
};

struct shmlog_counts {
    uint32_t seq;  /* chunks before this one, PAD not counted */
    uint32_t nreq; /* Req records before this chunk */
};

struct shmlog_chunk {
    uint32_t bytes : 24; /* this header included; a multiple of 8 */
    uint32_t kind : 8;   /* enum shmlog_kind */
    uint32_t mark;       /* position / 8: tells a chunk from bytes of an older lap */
    struct shmlog_ids ids;
    struct shmlog_counts counts;
};
_Static_assert(sizeof(struct shmlog_chunk) == 32, "four words");

enum shmlog_record_flag {
    SHMLOG_CUT = 1, /* the payload was longer */
};

struct shmlog_record {
    uint16_t tag;   /* enum shmlog_tag */
    uint16_t flags; /* enum shmlog_record_flag */
    uint32_t bytes; /* of the payload, without its padding */
};
_Static_assert(sizeof(struct shmlog_record) == 8, "one word");

enum shmlog_req_flag {
    SHMLOG_REQ_HIT = 1 << 0,
    SHMLOG_REQ_STALE = 1 << 1, /* with HIT: served past its freshness */
    SHMLOG_REQ_MISS = 1 << 2,
    SHMLOG_REQ_HITMISS = 1 << 3,
    SHMLOG_REQ_PASS = 1 << 4,
    SHMLOG_REQ_SYNTH = 1 << 5,     /* Tarn made the response */
    SHMLOG_REQ_QUEUED = 1 << 6,    /* waited for another request's fetch */
    SHMLOG_REQ_TRUNCATED = 1 << 7, /* the client got less than the whole response */
    SHMLOG_REQ_BAD = 1 << 8,       /* not parsed: the line is what came, if anything */
    SHMLOG_REQ_RESTARTED = 1 << 9,
    SHMLOG_REQ_REVALIDATED = 1 << 10, /* the backend said 304 to us */
    SHMLOG_REQ_ABSENT = 1 << 11,      /* with SYNTH: known not to exist (the negative cache) */
    SHMLOG_REQ_PIPE = 1 << 12,        /* a tunnel */
    SHMLOG_REQ_ERROR = 1 << 13,       /* with SYNTH: because it, or its fetch, failed */
    SHMLOG_REQ_HTTPS = 1 << 14,       /* to us, or to a trusted proxy that says so */
    SHMLOG_REQ_EARLY = 1 << 15,    /* in early data of TLS 1.3, before the handshake was complete */
    SHMLOG_REQ_CUT_LINE = 1 << 16, /* set by the log itself: the string was longer */
    SHMLOG_REQ_CUT_HOST = 1 << 17,
    SHMLOG_REQ_CUT_REFERER = 1 << 18,
    SHMLOG_REQ_CUT_AGENT = 1 << 19,
    /* Five bits: of an include (ESI) its depth; 0: a client's.  The chunk's parent is what it is included in. */
    SHMLOG_REQ_LEVEL = 1 << 24,
};

enum shmlog_version {
    SHMLOG_HTTP_1_0 = 0, /* or it is not known */
    SHMLOG_HTTP_1_1 = 1,
    SHMLOG_HTTP_2_0 = 0x20,
};

/* "HTTP/1.1" */
static inline const char *
shmlog_version_text(unsigned version)
{
    return version == SHMLOG_HTTP_2_0   ? "HTTP/2.0"
           : version == SHMLOG_HTTP_1_1 ? "HTTP/1.1"
                                        : "HTTP/1.0";
}

/* The payload of a Req record begins with this; then come line, host, referer and user agent,
 * one right behind the other. */
struct shmlog_req_fixed {
    int64_t start_ms;     /* wall time of the request's first byte */
    uint64_t bytes_in;    /* head and body */
    uint64_t body_bytes;  /* of the response, as sent to the client */
    uint32_t head_bytes;  /* of the response */
    uint32_t duration_us; /* from the first byte in to the last byte out */
    uint32_t ttfb_us;     /* from the first byte in to the first byte out */
    uint32_t flags;       /* enum shmlog_req_flag */
    uint8_t addr[16];     /* of the client; IPv4 as ::ffff:a.b.c.d; all 0: a Unix socket */
    uint16_t port;        /* host byte order */
    uint16_t status;
    uint8_t method;   /* enum http_method; what a reader prints is the line */
    uint8_t version;  /* enum shmlog_version */
    uint16_t backend; /* 1 + number of the backend that was asked; 0: none */
    struct {
        uint16_t line, host, referer, agent;
    } lens; /* set by the log itself */
};
_Static_assert(sizeof(struct shmlog_req_fixed) == 72, "nine words");

/* A Req record taken apart.  A writer of many can keep one and change what changes.  A ptr may be
 * NULL when its len is 0. */
struct shmlog_req {
    struct shmlog_ids ids;
    struct shmlog_req_fixed fixed; /* except its `lens` */
    struct slice line;             /* method, space, target: as they came, without the version */
    struct slice host, referer, agent;
    struct slice tls; /* packed: shmlog_req_tls(); empty: it did not come by TLS */
};

/* One of its texts; empty: there is none.  Borrowed from `r->tls`, whatever bytes those are. */
struct slice shmlog_req_tls(const struct shmlog_req *r, enum shmlog_tls which);
/* Packs texts, which end in NUL: the length, at most SHMLOG_TLS_MAX. */
size_t shmlog_tls_pack(char to[SHMLOG_TLS_MAX], const char *const texts[SHMLOG_TLS_COUNT]);
const char *shmlog_tls_name(enum shmlog_tls which);

const char *shmlog_tag_name(unsigned tag); /* "?" for one that is not in the table */
enum shmlog_payload shmlog_tag_payload(unsigned tag);
const char *shmlog_tag_doc(unsigned tag);
const char *shmlog_kind_name(unsigned kind); /* "REQ"; "?" */

static inline unsigned
shmlog_level(unsigned flags)
{
    return flags / SHMLOG_REQ_LEVEL & 31;
}

/* What became of a request with these flags; and its word ("hit-for-miss"). */
enum request_result shmlog_result(unsigned flags);
const char *shmlog_result_word(enum request_result result);

#endif
