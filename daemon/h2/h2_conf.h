/* h2_conf.h -- what of the configuration HTTP/2 needs.  Milliseconds and bytes. */
#ifndef TARN_H2_CONF_H
#define TARN_H2_CONF_H

#include <stdbool.h>
#include <stdint.h>

struct h2_conf {
    uint16_t fields_max;     /* of a request; at most LIMIT_FIELDS */
    uint16_t streams_max;    /* open at once on a connection (RFC 9113 5.1.2) */
    uint32_t initial_window; /* body bytes of a stream ahead of what was read: 65535 to 2^31-1 */
    uint32_t max_frame;      /* payload of a frame: 16384 to 65536 */
    uint32_t req_line_max, req_field_max, req_head_max;
    uint64_t req_body_max; /* 0: no limit */
    bool any_method;       /* unknown ones too: the answerer decides */
    bool head_memo;        /* h2_memo.h; a change counts from the next trim */
    int64_t idle_ms;       /* without a stream */
    int64_t head_ms;       /* from a frame's first byte, or a field block's, to its end */
    int64_t body_ms;       /* for a whole body */
    int64_t body_idle_ms;  /* between two pieces of it */
    int64_t send_idle_ms;  /* without the client taking a byte, or opening a window */
};

#endif
