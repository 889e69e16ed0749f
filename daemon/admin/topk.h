/* topk.h -- the names with the most of a stream, in memory of a fixed size.
 *
 *   name    what is weighed: a key, and a text to show for it
 *   sums    what is added up for a name; one of them is its weight
 *   fade    what lies back counts less and less, so that the most is that of lately
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi: Efficient computation of frequent and top-k elements
 * in data streams, ICDT 2005).  Of `room` names each has a place; a new one takes the place of the
 * lightest, and inherits its weight, as what it may have had before.  So a weight is never too
 * small, and too large by no more than it inherited: at most the weight of all divided by the
 * room.  A name that has more than that is among them for certain.  Fading multiplies all by the
 * same, and keeps all that.
 *
 * Threads: one's.
 */
#ifndef TARN_TOPK_H
#define TARN_TOPK_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

enum {
    TOPK_SUMS = 4,
    TOPK_ROOM_MAX = 4096,
};

struct topk; /* private to topk.c */

struct topk_name {
    struct slice text; /* borrowed until the next topk_add() */
    double weight;     /* at most this: what was added up is in sums[], and is the least */
    double sums[TOPK_SUMS];
};

/* `by`: which of the sums is the weight.  Of a text the first text_max bytes are kept.  TERR_NOMEM. */
int topk_open(struct topk **out, unsigned room, unsigned text_max, unsigned by);
void topk_close(struct topk **hp);
/* Bytes that it takes. */
size_t topk_bytes(const struct topk *h);

/* None of the sums is negative.  The text is both parts, one behind the other; copied, if the name is
 * new.  A name without weight takes no place. */
void topk_add(
    struct topk *h, uint64_t key, const struct slice text[2], const double sums[TOPK_SUMS]);
void topk_fade(struct topk *h, double factor);
/* The heaviest, the first of them first; returns how many: `n` at most. */
unsigned topk_top(const struct topk *h, struct topk_name *out, unsigned n);

#endif
