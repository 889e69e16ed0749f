/* tag_purge.h -- "whatever has one of these tags, and was fetched before now, leaves"; or whatever it
 * has.
 *
 *   soft   it stays, but is stale from now on: served while it is fetched anew, within its grace
 *   walk   one way along the whole index, in slices, which finds what has the tags
 *
 * A purge is a ban of a kind of its own (ban_priv.h), so it counts at once for every lookup that
 * begins later and for what is being fetched, which is delivered and not kept.  The walk removes
 * what no request asks for, and counts it.  Purges that wait for a walk share one.
 *
 * Threads: tag_purge_start(), tag_purge_start_all() any that is online for RCU, with `p` NULL; all
 * else the lurker's.
 */
#ifndef TARN_TAG_PURGE_H
#define TARN_TAG_PURGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/span.h"

struct ban;
struct cache;
struct clock;
struct task;

enum {
    TAG_PURGE_MAX = 256,        /* tags in one purge */
    TAG_PURGE_TEXT_MAX = 16384, /* bytes of them, as of a ban's expression */
};

/* Of a caller that waits for the number of removals; its memory is the caller's. */
struct tag_purge {
    struct ban *ban;   /* a reference */
    struct task *task; /* woken when everything has been looked at */
    struct list link;
};

/* `tags` are as they stand in a response; copied.  0: it counts from now on, and with `p` (its task
 * set) tag_purge_end() must follow.  TERR_INVALID: no tag, too many, an empty one, or one too long
 * for any response; TERR_LIMIT: there are too many bans; TERR_NOMEM. */
int tag_purge_start(struct cache *c, const struct slice *tags, unsigned ntags, bool soft,
    const struct clock *now, struct tag_purge *p);
/* Everything, markers and names that do not exist too.  0; TERR_NOMEM; TERR_LIMIT, only when there are
 * hundreds of such purges that objects have not been tested against. */
int tag_purge_start_all(struct cache *c, bool soft, const struct clock *now, struct tag_purge *p);
/* Has everything been looked at?  Then *how_many responses have left, or become stale; some fewer
 * than there were when the index moved keys just then, which leave when they are found. */
bool tag_purge_is_done(const struct tag_purge *p, uint64_t *how_many);
/* Always legal, once. */
void tag_purge_end(struct cache *c, struct tag_purge *p);

/* A slice of the walk, well under a millisecond as a rule.  True: there is more to do at once.  A
 * walk begins when a purge waits for it, or a second after the last one. */
bool tag_purge_walk(struct cache *c, int64_t now_ms);

#endif
