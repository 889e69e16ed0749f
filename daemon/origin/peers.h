/* peers.h -- the other nodes of a fleet as backends: which of them owns a key.
 *
 *   member   a node that can be asked: it lives, follows our engine, runs the policy that we run
 *   ring     a hash director with a bound over all members, this node among them: the owner of a key is the same
 *            wherever it is asked (Mirrokni, Thorup and Zadimoghaddam 2016, over highest random weight)
 *   place    how far a node is in the fleet's log.  `wants` is set before an invalidation is applied here, `has` when it
 *            has been: who asks says what it wants, and the owner answers only if it has that.  So a copy that comes from
 *            another node is never older than what was purged where it is stored
 *   secret   the key of the codes that nodes sign their questions with; the engine keeps it
 *
 * Threads: set_*: the management thread's.  The rest: any, peers_now() under RCU.  Errors: TERR_*.
 */
#ifndef TARN_PEERS_H
#define TARN_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/rcu.h"
#include "daemon/base/span.h"

struct backend;
struct director;
struct registry;

enum {
    PEERS_MAX = 256,
    PEERS_SECRET = 32, /* bytes */
    PEERS_CODE = 32,
    PEERS_NAME_MAX = 64,
    PEERS_ADDRESS_MAX = 300,
};

/* engine: a hash of which engine it is, and of which history; 0: it is in none. */
struct peers_place {
    uint64_t engine, ms, seq;
};

struct peers_member {
    char name[PEERS_NAME_MAX + 1], address[PEERS_ADDRESS_MAX + 1];
};

/* What requests go by; replaced as a whole. */
struct peers_set {
    struct rcu_later later;
    struct director *ring; /* held; NULL: this node is alone */
    struct backend *self;  /* of the ring: never connected to */
    unsigned
        nsecrets; /* the newest first: the one before is good for questions that are under way */
    uint8_t secrets[2][PEERS_SECRET];
};

struct peers;

struct peers_env {
    const char *fleet, *node; /* borrowed */
    int64_t timeout_ms;       /* to connect, and to say something */
    int64_t between_ms;       /* between two pieces of a body */
};

/* Borrows env's texts until peers_close(), before which all that was asked has ended. */
int peers_open(struct peers **out, const struct peers_env *env, struct registry *rg);
void peers_close(struct peers **pp);

/* Members other than this node; those of before that are meant stay the same backends.  0 or TERR_*: then it is as
 * before. */
int peers_set_members(struct peers *p, const struct peers_member *members, unsigned n);
/* Before there are workers: has every invalidation that was made here its place in the log, and been read back?  Until
 * then another node may look as far as this one, and lack it. */
void peers_set_settled(struct peers *p, bool (*settled)(const void *ctx), const void *ctx);
bool peers_settled(const struct peers *p);
int peers_set_secret(struct peers *p, const uint8_t secret[PEERS_SECRET]);
void peers_set_wants(struct peers *p, struct peers_place place);
void peers_set_has(struct peers *p, struct peers_place place);

const struct peers_env *peers_env(const struct peers *p);
/* Borrowed for the turn; never NULL. */
const struct peers_set *peers_now(const struct peers *p);
struct peers_place peers_wants(const struct peers *p);
struct peers_place peers_has(const struct peers *p);
/* Is it behind `wanted`, or of another engine? */
bool peers_place_lacks(struct peers_place has, struct peers_place wanted);

#endif
