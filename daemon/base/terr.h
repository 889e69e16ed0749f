/* terr.h -- operating errors: one table, one return convention.
 *
 * Functions return 0 or a TERR_* below 0; counts >= 0 share the return.  Bugs are
 * tassert()ed, never returned.  Storage alone speaks negative errno (storage/lease.h).
 */
#ifndef TARN_TERR_H
#define TARN_TERR_H

#include "daemon/base/terr_table.h"

enum terr_index {
#define X(name, client, origin, text) TERR_IX_##name,
    TERR_TABLE(X)
#undef X
    TERR_COUNT
};

enum terr {
    TERR_OK = 0,
#define X(name, client, origin, text) TERR_##name = -1 - TERR_IX_##name,
    TERR_TABLE(X)
#undef X
};

enum terr_side {
    TERR_SIDE_CLIENT,
    TERR_SIDE_ORIGIN
};

const char *terr_name(int err);                   /* "LIMIT"; "OK" for 0 */
const char *terr_text(int err);                   /* "a configured limit was reached" */
int terr_http(int err, enum terr_side who_erred); /* 400 from a client, 502 from an origin */

/* Translates a libuv or system error (negative errno) met on a connection. */
int terr_from_errno(int negative_errno);

#endif
