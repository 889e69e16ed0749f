/* rates.h -- how often a client may ask: token buckets by key, in a table of fixed size.
 *
 *   rule    so many in such a time, and so many at once
 *   key     a client's address, or what a policy says
 *   bucket  one 64-bit word of a key: a tag, and the time at which it will be full again
 *   set     eight buckets, a cache line; a key has one place among one set's
 *
 * The bucket is the generic cell rate algorithm's (ITU-T I.371, the virtual scheduling form): an
 * arrival is good if it is not earlier than its theoretical time less what may come at once, and
 * moves that time on.  A bucket that is full says nothing and its place is free.
 *
 * The table never grows: where a set has no place left, the bucket that will be full soonest
 * leaves, and is counted.  A flood of addresses so costs memory of a fixed size.  Keys are
 * hashed with the process' secret, so no client can choose the bucket it takes; two keys share a
 * bucket once in 65,000 times.
 *
 * Threads: any; no locks.  Two workers that see a new key in the same moment may each begin a
 * bucket for it: it then has more than its share once.
 */
#ifndef TARN_RATES_H
#define TARN_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"

struct counter_set;
struct rates;
struct storage;

#define RATES_WINDOW_MAX_US (UINT64_C(7) * 24 * 3600 * 1000000) /* far from where times wrap */

struct rate_rule {
    uint64_t interval_us; /* between two, in the long run; > 0 */
    uint64_t
        window_us; /* interval_us times how many may come at once; RATES_WINDOW_MAX_US at most */
};

/* `rate` in `per_us`, `burst` at once (0: rate).  False: it is no rule, or beyond what is kept. */
bool rate_rule_make(struct rate_rule *out, uint64_t rate, uint64_t per_us, uint64_t burst);

/* Room for `keys`; taken from the store, as CHARGE_RATES, when it is first needed.  Borrows the
 * store.  0 or TERR_NOMEM. */
int rates_open(struct rates **out, struct storage *storage, uint64_t keys);
/* It is no longer used. */
void rates_close(struct rates **rp);

/* May this one, now?  0: yes, and it has been counted; else for how long it has to wait, in us.
 * Without memory for the table every key may. */
uint64_t rates_take(struct rates *r, const struct rate_rule *rule, struct hash128 key,
    uint64_t now_us, struct counter_set *counters);

#endif
