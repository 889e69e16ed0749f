/* h2_conf.h -- what of the configuration HTTP/2 needs beside client_conf.h. */
#ifndef TARN_H2_CONF_H
#define TARN_H2_CONF_H

#include <stdint.h>

struct h2_conf {
    uint16_t streams_max;    /* open at once on a connection (RFC 9113 5.1.2) */
    uint32_t initial_window; /* body bytes of a stream ahead of what was read: 65535 to 2^31-1 */
    uint32_t max_frame;      /* payload of a frame: 16384 to 65536 */
};

#endif
