/* h1_conf.h -- what of the configuration HTTP/1 needs.  Milliseconds and bytes. */
#ifndef TARN_H1_CONF_H
#define TARN_H1_CONF_H

#include <stdbool.h>
#include <stdint.h>

struct h1_conf {
    uint16_t fields_max; /* of a message; at most LIMIT_FIELDS */
    /* clients */
    uint32_t req_line_max, req_field_max, req_head_max;
    uint64_t req_body_max; /* 0: no limit */
    bool any_method;       /* unknown ones too: the answerer decides */
    bool head_memo;        /* h1_memo.h; a change counts from the next trim */
    int64_t idle_ms;       /* without a request */
    int64_t head_ms;       /* from a request's first byte to the end of its head */
    int64_t body_ms;       /* for a whole body */
    int64_t body_idle_ms;  /* between two pieces of it */
    uint64_t
        body_rate_min;    /* bytes a second, on average from body_idle_ms after it began; 0: none */
    int64_t send_idle_ms; /* without the client taking a byte */
    int64_t pipe_ms;      /* a tunnel in which nothing moves */
    /* origins */
    uint32_t resp_field_max, resp_head_max;
    bool resp_bare_lf;    /* a line of a head may end with LF alone */
    bool resp_any_status; /* 600 to 999 too */
};

#endif
