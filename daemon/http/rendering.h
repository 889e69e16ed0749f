/* rendering.h -- the form in which a protocol sends the heads of stored responses by reference.
 *
 *   prefix   what the protocol puts in front of the field lines of a response; HTTP/1: the status
 *            line (RFC 9112 4)
 *
 * A stored response keeps the form of the protocol that asks most, beside its fields and sharing
 * their bytes (cache/entry.h): prefix and field lines are one run.  A protocol that has no such
 * form, or another one, is given the message instead (http/exchange.h).
 */
#ifndef TARN_RENDERING_H
#define TARN_RENDERING_H

#include "daemon/base/span.h"

enum {
    HTTP_PREFIX_MAX = 32, /* bytes of a prefix at most, its reason left out */
};

struct http_prefix {
    uint16_t len;
    uint16_t reason_at; /* where the reason stands in it */
};

struct http_rendering {
    /* Writes at most HTTP_PREFIX_MAX + reason.len bytes to `out`. */
    struct http_prefix (*prefix)(char *out, unsigned status, struct slice reason);
};

#endif
