/* cookie.h -- the pairs of a Cookie field, and what they are called (RFC 6265 4.2.1, 5.2).
 *
 * Threads: none of its own.  Everything is borrowed from the field's value.
 */
#ifndef TARN_COOKIE_H
#define TARN_COOKIE_H

#include <stdbool.h>

#include "daemon/base/span.h"

/* The next pair of *rest, trimmed and not empty; *rest becomes what stands behind it.  False: there
 * are no more. */
bool cookie_next(struct slice *rest, struct slice *pair);
/* The name of a pair, or of a whole Set-Cookie: what stands before its first `=`, trimmed.  A pair
 * without `=` is a value without a name, and then the name is empty. */
struct slice cookie_name(struct slice pair);

#endif
