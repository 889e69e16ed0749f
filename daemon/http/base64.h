/* base64.h -- base64 (RFC 4648 4).
 *
 * Threads: none of its own. */
#ifndef TARN_BASE64_H
#define TARN_BASE64_H

#include "daemon/base/span.h"

/* Into `out`: its bytes; TERR_SYNTAX: it is none; TERR_LIMIT.  Padding may be missing.  After an error `out` may
 * have a part of it. */
int base64_decode(struct slice text, struct span out);

#endif
