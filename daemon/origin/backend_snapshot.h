/* upstreams.h -- the backends and directors that one configuration names, and the configuration
 * itself.
 *
 * The registry has one that counts, which is replaced as a whole (RCU) when the configuration is
 * read anew.  A backend that the new one describes as the old one did stays the same: its
 * connections, its health and what its probe saw.  The others are new, and those of before are
 * retired when nobody holds them any more.  Directors are made anew.
 *
 * Threads: open, adopt: the management thread's.  The rest: any.  Errors: TERR_*.
 */
#ifndef TARN_UPSTREAMS_H
#define TARN_UPSTREAMS_H

#include "daemon/base/span.h"

struct conf;
struct director;
struct registry;
struct upstreams;

/* Holds a backend for each of conf's; `old`, or NULL, has those that may stay.  Borrows conf until
 * the last hold has gone.  One hold is the caller's.  TERR_NOMEM; TERR_LIMIT: BACKENDS_MAX, or
 * directors too deep; TERR_INVALID: a probe. */
int upstreams_open(struct upstreams **out, struct registry *rg, const struct conf *conf,
    const struct upstreams *old);
/* With the last hold conf shall be freed, too. */
void upstreams_own_conf(struct upstreams *u);
struct upstreams *upstreams_hold(struct upstreams *u); /* returns it */
void upstreams_drop(struct upstreams **up);            /* takes the hold and NULLs the pointer */

const struct conf *upstreams_conf(const struct upstreams *u);
/* By name, or by number: those of conf->backends, behind them those of conf->directors.  NULL:
 * there is none.  Borrowed. */
struct director *upstreams_find(const struct upstreams *u, struct slice name);
struct director *upstreams_nth(const struct upstreams *u, unsigned n);

/* Those that count now; borrowed under RCU, or by the management thread until it adopts others. */
struct upstreams *registry_upstreams(struct registry *rg);
/* From now on these count; takes the hold.  Those of before go when nobody can see them. */
void registry_adopt(struct registry *rg, struct upstreams **up);

#endif
