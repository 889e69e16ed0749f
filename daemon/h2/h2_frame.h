/* h2_frame.h -- frames of HTTP/2 as bytes (RFC 9113 4, 6, 7).
 *
 * Private to h2/.  Threads: none of its own.
 */
#ifndef TARN_H2_FRAME_H
#define TARN_H2_FRAME_H

#include <stdint.h>
#include <string.h>

enum {
    H2_FRAME_HEAD = 9,          /* bytes in front of a payload */
    H2_FRAME_MIN_MAX = 16384,   /* the least that SETTINGS_MAX_FRAME_SIZE may be, and its default */
    H2_PREFACE_BYTES = 24,      /* RFC 9113 3.4 */
    H2_WINDOW_DEFAULT = 65535,  /* RFC 9113 6.9.2 */
    H2_WINDOW_MAX = 0x7fffffff, /* RFC 9113 6.9.1 */
    H2_STREAM_MAX = 0x7fffffff, /* RFC 9113 5.1.1 */
    H2_SETTING_BYTES = 6,
    H2_PING_BYTES = 8,
};

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum h2_frame_type {
    H2_DATA = 0,
    H2_HEADERS = 1,
    H2_PRIORITY = 2,
    H2_RST_STREAM = 3,
    H2_SETTINGS = 4,
    H2_PUSH_PROMISE = 5,
    H2_PING = 6,
    H2_GOAWAY = 7,
    H2_WINDOW_UPDATE = 8,
    H2_CONTINUATION = 9,
    H2_PRIORITY_UPDATE = 16, /* RFC 9218 7.1 */
};

enum h2_frame_flag {
    H2_ACK = 1, /* SETTINGS, PING */
    H2_END_STREAM = 1,
    H2_END_HEADERS = 4,
    H2_PADDED = 8,
    H2_HAS_PRIORITY = 32,
};

enum h2_setting {
    H2_SETTINGS_HEADER_TABLE_SIZE = 1,
    H2_SETTINGS_ENABLE_PUSH = 2,
    H2_SETTINGS_MAX_CONCURRENT_STREAMS = 3,
    H2_SETTINGS_INITIAL_WINDOW_SIZE = 4,
    H2_SETTINGS_MAX_FRAME_SIZE = 5,
    H2_SETTINGS_MAX_HEADER_LIST_SIZE = 6,
    H2_SETTINGS_ENABLE_CONNECT_PROTOCOL = 8, /* RFC 8441 */
    H2_SETTINGS_NO_RFC7540_PRIORITIES = 9,   /* RFC 9218 2.1 */
};

/* RFC 9113 7. */
enum h2_error {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_FLOW_CONTROL_ERROR = 3,
    H2_SETTINGS_TIMEOUT = 4,
    H2_STREAM_CLOSED = 5,
    H2_FRAME_SIZE_ERROR = 6,
    H2_REFUSED_STREAM = 7,
    H2_CANCEL = 8,
    H2_COMPRESSION_ERROR = 9,
    H2_CONNECT_ERROR = 10,
    H2_ENHANCE_YOUR_CALM = 11,
    H2_INADEQUATE_SECURITY = 12,
    H2_HTTP_1_1_REQUIRED = 13,
};

static inline const char *
h2_error_name(unsigned e)
{
    static const char *const names[] = {"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
        "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"};

    return e < sizeof(names) / sizeof(*names) ? names[e] : "an error";
}

static inline const char *
h2_frame_name(unsigned type)
{
    static const char *const names[] = {"DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS",
        "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"};

    if (type == H2_PRIORITY_UPDATE)
        return "PRIORITY_UPDATE";
    return type < sizeof(names) / sizeof(*names) ? names[type] : "an unknown frame";
}

struct h2_frame {
    uint32_t len; /* of the payload */
    uint32_t stream;
    uint8_t type; /* enum h2_frame_type, or one that is not known */
    uint8_t flags;
};

static inline uint16_t
h2_get16(const char *p)
{
    return (uint16_t)((uint8_t)p[0] << 8 | (uint8_t)p[1]);
}

static inline uint32_t
h2_get32(const char *p)
{
    uint32_t n;

    memcpy(&n, p, sizeof(n));
    return __builtin_bswap32(n);
}

static inline char *
h2_put16(char *p, uint32_t n)
{
    p[0] = (char)(n >> 8);
    p[1] = (char)n;
    return p + 2;
}

static inline char *
h2_put32(char *p, uint32_t n)
{
    n = __builtin_bswap32(n);
    memcpy(p, &n, sizeof(n));
    return p + 4;
}

/* `p` has H2_FRAME_HEAD bytes.  The reserved bit of the stream is ignored (RFC 9113 4.1). */
static inline struct h2_frame
h2_get_frame(const char *p)
{
    return (struct h2_frame){.len = h2_get32(p) >> 8,
        .type = (uint8_t)p[3],
        .flags = (uint8_t)p[4],
        .stream = h2_get32(p + 5) & H2_STREAM_MAX};
}

static inline char *
h2_put_frame(char *p, uint32_t len, enum h2_frame_type type, uint8_t flags, uint32_t stream)
{
    h2_put32(p, len << 8 | (uint32_t)type);
    p[4] = (char)flags;
    return h2_put32(p + 5, stream);
}

#endif
