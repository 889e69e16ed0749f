/* fake_resolve.h -- what a name server says in a unit test. */
#ifndef TARN_FAKE_RESOLVE_H
#define TARN_FAKE_RESOLVE_H

#include <stdbool.h>

#include "daemon/net/resolve.h"

extern const char *fake_resolve_addrs[4]; /* of every name, up to NULL; none: it does not exist */
extern int64_t fake_resolve_ttl_ms;
extern unsigned fake_resolve_asked; /* lookups started */
extern bool fake_resolve_silent;    /* none of them ends */

#endif
