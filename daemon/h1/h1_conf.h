/* h1_conf.h -- what of the configuration HTTP/1 toward origins needs.  Bytes. */
#ifndef TARN_H1_CONF_H
#define TARN_H1_CONF_H

#include <stdbool.h>
#include <stdint.h>

struct h1_conf {
    uint16_t fields_max; /* of a response; at most LIMIT_FIELDS */
    uint32_t resp_field_max, resp_head_max;
    bool resp_bare_lf;    /* a line of a head may end with LF alone */
    bool resp_any_status; /* 600 to 999 too */
};

#endif
