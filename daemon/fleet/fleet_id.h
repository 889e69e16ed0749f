/* fleet_id.h -- the place of an entry in the engine's stream: milliseconds of the engine's clock, and a number within
 * one (Redis: "Entry IDs"); and the token that names such a place of one engine.
 *
 * Threads: any.
 */
#ifndef TARN_FLEET_ID_H
#define TARN_FLEET_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct fleet_id {
    uint64_t ms, seq; /* both 0: in front of every entry */
};

enum {
    FLEET_ID_TEXT_MAX = 48, /* with its NUL */
};

/* Digits alone, 20 at most, and no more than 64 bits hold; false: *out stays as it is. */
bool fleet_number_parse(struct slice text, uint64_t *out);
/* A number of the engine, which ends with a NUL: with its sign, and no further from 0 than what a double has exactly, so that
 * sums of them fit into 64 bits. */
int64_t fleet_number_near(struct slice text);
/* "1732790000000-0"; false: it is none, and *out stays as it is. */
bool fleet_id_parse(struct slice text, struct fleet_id *out);
struct slice fleet_id_text(struct fleet_id id, char text[FLEET_ID_TEXT_MAX]);

/* An entry's place in one log: another has other entries there. */
struct fleet_token {
    struct fleet_id id;
    uint32_t engine; /* a hash of its incarnation and of the log in it, the same at all nodes */
};

enum {
    FLEET_TOKEN_TEXT_MAX = FLEET_ID_TEXT_MAX + 9,
};

/* "1732790000000-0.5f3a9c21"; false: it is none, and *out stays as it is. */
bool fleet_token_parse(struct slice text, struct fleet_token *out);
struct slice fleet_token_text(struct fleet_token token, char text[FLEET_TOKEN_TEXT_MAX]);

/* Below 0: a is before b. */
static inline int
fleet_id_compare(struct fleet_id a, struct fleet_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return a.seq < b.seq ? -1 : a.seq > b.seq;
}

static inline bool
fleet_id_is_none(struct fleet_id id)
{
    return id.ms == 0 && id.seq == 0;
}

#endif
