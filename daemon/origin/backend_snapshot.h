/* backend_snapshot.h -- the backends and directors that one configuration names, and the configuration
 * itself.
 *
 * The registry has one that counts, which is replaced as a whole (RCU) when the configuration is
 * read anew.  A backend that the new one describes as the old one did stays the same: its
 * connections, its health and what its probe saw.  The others are new, and those of before are
 * retired when their last hold is gone.  Directors are made anew.
 *
 * Threads: open, adopt: the management thread's.  The rest: any.  Errors: TERR_*.
 */
#ifndef TARN_BACKEND_SNAPSHOT_H
#define TARN_BACKEND_SNAPSHOT_H

#include "daemon/base/span.h"

struct conf;
struct director;
struct registry;
struct backend_snapshot;

/* Holds a backend for each of conf's; `old`, or NULL, has those that may stay.  Borrows conf until
 * the last hold has gone.  One hold is the caller's.  TERR_NOMEM; TERR_LIMIT: BACKENDS_MAX, or
 * directors too deep; TERR_INVALID: a probe. */
int snapshot_open(struct backend_snapshot **out, struct registry *rg, const struct conf *conf,
    const struct backend_snapshot *old);
/* With the last hold conf shall be freed, too. */
void snapshot_own_conf(struct backend_snapshot *u);
struct backend_snapshot *snapshot_hold(struct backend_snapshot *u); /* returns it */
void snapshot_drop(struct backend_snapshot **up); /* takes the hold and NULLs the pointer */

const struct conf *snapshot_conf(const struct backend_snapshot *u);
/* By name, or by number: those of conf->backends, behind them those of conf->directors.  NULL:
 * there is none.  Borrowed. */
struct director *snapshot_find(const struct backend_snapshot *u, struct slice name);
struct director *snapshot_nth(const struct backend_snapshot *u, unsigned n);

/* Those that count now; borrowed under RCU, or by the management thread until it adopts others. */
struct backend_snapshot *registry_snapshot(struct registry *rg);
/* Makes this snapshot the current one; takes the hold.  The old one goes when no reader sees it. */
void registry_adopt(struct registry *rg, struct backend_snapshot **up);

#endif
