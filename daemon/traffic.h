/* traffic.h -- what a loop's traffic takes from the heap, charged to the store that bounds it.
 *
 * Threads: the loop's own, in a task: the store may evict for it.
 */
#ifndef TARN_TRAFFIC_H
#define TARN_TRAFFIC_H

#include <stdint.h>

struct storage;
struct usage;

/* `told` is what the store knows of this loop; afterwards it is `now`. */
void traffic_charge(struct storage *s, struct usage *told, const struct usage *now);
/* The loop has ended. */
void traffic_uncharge(struct storage *s, struct usage *told);
/* Of OpenSSL, which counts for all loops together: one of them charges it, and 0 when it ends. */
void traffic_charge_tls(struct storage *s, uint64_t *told, uint64_t now);

#endif
