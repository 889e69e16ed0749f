/* client_conf.h -- what of the configuration concerns clients, whatever protocol they speak.
 * Milliseconds and bytes.
 */
#ifndef TARN_CLIENT_CONF_H
#define TARN_CLIENT_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/http/conn_facts.h"

struct client_conf {
    uint16_t fields_max; /* of a request; at most LIMIT_FIELDS */
    bool any_method;     /* unknown ones too: the answerer decides */
    bool head_memo;      /* h1_memo.h, h2_memo.h; a change counts from the next trim */
    uint32_t req_line_max, req_field_max, req_head_max;
    uint64_t req_body_max; /* 0: no limit */
    uint64_t
        body_rate_min;    /* bytes a second, on average from body_idle_ms after it began; 0: none */
    int64_t idle_ms;      /* without a request */
    int64_t head_ms;      /* from a request's first byte to the end of its head */
    int64_t body_ms;      /* for a whole body */
    int64_t body_idle_ms; /* between two pieces of it */
    int64_t send_idle_ms; /* without the client taking a byte, or opening a window */
    int64_t pipe_ms;      /* a tunnel in which nothing moves */
};

/* Bytes of a request's body, at most: of the connection's listener, or of all; 0: no limit. */
static inline uint64_t
client_body_max(const struct client_conf *conf, const struct conn_facts *facts)
{
    return facts->listener->body_max > 0 ? facts->listener->body_max : conf->req_body_max;
}

#endif
