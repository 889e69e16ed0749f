/* rendering.h -- the form in which a protocol sends the heads of stored responses by reference.
 *
 *   prefix   what the protocol puts in front of the field lines of a response; HTTP/1: the status
 *            line (RFC 9112 4)
 *
 *   form     all that a protocol says of a stored response, where that is no run of field lines; HTTP/2: a
 *            field block without state (RFC 7541)
 *
 * A stored response keeps the form of the protocol that asks most, beside its fields and sharing
 * their bytes (cache/entry.h): prefix and field lines are one run.  Of one other protocol it keeps the form from
 * the first hit on that asks for it.  A protocol that has none is given the message instead (http/exchange.h).
 */
#ifndef TARN_RENDERING_H
#define TARN_RENDERING_H

#include <stddef.h>

#include "daemon/base/span.h"

enum {
    HTTP_PREFIX_MAX = 32, /* bytes of a prefix at most, its reason left out */
    HTTP_FORM_MAX = 4096, /* bytes of a form that is kept */
};

struct http_prefix {
    uint16_t len;
    uint16_t reason_at; /* where the reason stands in it */
};

struct http_message;
/* One of the two. */
struct http_rendering {
    /* Writes at most HTTP_PREFIX_MAX + reason.len bytes to `out`. */
    struct http_prefix (*prefix)(char *out, unsigned status, struct slice reason);
    /* Writes at most `room` bytes to `out`: how many; 0: it does not fit. */
    size_t (*form)(const struct http_message *m, char *out, size_t room);
};

#endif
