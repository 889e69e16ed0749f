/* round.c -- a round robin with weights: the round laid out beforehand.
 *
 * Each member has as many turns in a round as its weight says, once what all weights have in common
 * is divided out, and they are spread: the next turn is for the member most behind its share.  (The
 * idea of nginx's smooth weighted balancing, done once, so that choosing is a look into a table.)
 */
#include <math.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

static unsigned
round_weight(const struct director_member *m)
{
    double w = floor(m->weight);

    return w < 1 ? 1 : w > DIRECTOR_WEIGHT_MAX ? DIRECTOR_WEIGHT_MAX : (unsigned)w;
}

static unsigned
round_divisor(const struct director *d)
{
    unsigned all = 0;

    for (unsigned i = 0; i < d->nmembers; i++) {
        unsigned w = round_weight(&d->members[i]);

        while (w != 0) { /* Euclid's algorithm */
            unsigned rest = all % w;

            all = w;
            w = rest;
        }
    }
    return all;
}

/* The member that is most behind; the first of several. */
static unsigned
round_next(const struct director *d, int64_t *behind, unsigned divisor, unsigned len)
{
    unsigned most = 0;

    for (unsigned i = 0; i < d->nmembers; i++) {
        behind[i] += round_weight(&d->members[i]) / divisor;
        if (behind[i] > behind[most])
            most = i;
    }
    behind[most] -= len;
    tassert(most < d->nmembers);
    return most;
}

int
director_set_weighted(struct director *d)
{
    unsigned divisor, len = 0;
    uint16_t *round;
    int64_t *behind;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(d->kind == DIRECTOR_ROUND_ROBIN);
    tassert(d->round == NULL);
    tassert(d->nmembers > 0);
    _Static_assert(DIRECTOR_MEMBERS_MAX <= UINT16_MAX, "a member's number fits");
    divisor = round_divisor(d);
    for (unsigned i = 0; i < d->nmembers; i++)
        len += round_weight(&d->members[i]) / divisor;
    if (len == d->nmembers) /* all alike: each in turn, as it is */
        return 0;
    round = malloc(len * sizeof(*round));
    behind = calloc(d->nmembers, sizeof(*behind));
    for (unsigned i = 0; round != NULL && behind != NULL && i < len; i++)
        round[i] = (uint16_t)round_next(d, behind, divisor, len);
    if (behind == NULL) {
        free(round);
        round = NULL;
    }
    free(behind);
    d->round = round;
    d->round_len = len;
    return round != NULL ? 0 : TERR_NOMEM;
}
