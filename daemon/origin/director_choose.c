/* director_choose.c -- which member a director sends a request to. */
#include <math.h>

#include "daemon/origin/origin_priv.h"

enum {
    CHOOSE_TRIES = 8, /* of a round robin, when others choose at the same moment */
};

struct choose_walk {
    int64_t changed_ms;
    unsigned visits;
};

/* A member may have got members of its own after it was added, so the bounds hold here too. */
static bool
choose_walk(struct choose_walk *w, const struct director *d, unsigned depth)
{
    bool healthy = false;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    w->visits++;
    if (d->kind == DIRECTOR_BACKEND) {
        const struct backend *b = (const struct backend *)(const void *)d;
        int64_t at = atomic_load_explicit(&b->changed_ms, memory_order_relaxed);

        if (at > w->changed_ms)
            w->changed_ms = at;
        return atomic_load_explicit(&b->healthy, memory_order_relaxed);
    }
    if (depth >= DIRECTOR_DEPTH_MAX)
        return false;
    for (unsigned i = 0; i < d->nmembers && w->visits < DIRECTOR_VISITS_MAX; i++)
        healthy |= choose_walk(w, d->members[i].d, depth + 1);
    return healthy;
}

bool
director_healthy(const struct director *d, double *changed_s)
{
    struct choose_walk w = {0, 0};
    bool healthy = choose_walk(&w, d, 0);

    if (changed_s != NULL)
        *changed_s = (double)w.changed_ms / 1000;
    return healthy;
}

bool
director_is_healthy(const struct director *d)
{
    return director_healthy(d, NULL);
}

/* The first healthy one from `start` on, around; nmembers: none. */
static unsigned
choose_from(const struct director *d, unsigned start)
{
    for (unsigned i = 0; i < d->nmembers; i++) {
        unsigned at = (start + i) % d->nmembers;

        if (director_is_healthy(d->members[at].d))
            return at;
    }
    return d->nmembers;
}

/* The turn goes on from whom it came to, so that a sick member's share does not all go to the
 * one behind it. */
static unsigned
choose_round_robin(struct director *d)
{
    unsigned turn = atomic_load_explicit(&d->turn, memory_order_relaxed), at = d->nmembers;

    for (unsigned i = 0; i < CHOOSE_TRIES; i++) {
        at = choose_from(d, turn);
        if (at == d->nmembers ||
            atomic_compare_exchange_weak_explicit(&d->turn, &turn, (at + 1) % d->nmembers,
                memory_order_relaxed, memory_order_relaxed))
            break;
    }
    return at;
}

static unsigned
choose_fallback(struct director *d)
{
    unsigned at =
        choose_from(d, d->sticky ? atomic_load_explicit(&d->turn, memory_order_relaxed) : 0);

    if (d->sticky && at < d->nmembers)
        atomic_store_explicit(&d->turn, at, memory_order_relaxed);
    return at;
}

/* Should health change between the two rounds, the last healthy one stands in. */
static unsigned
choose_random(const struct director *d, uint64_t random)
{
    unsigned last = d->nmembers;
    double sum = 0, mark;

    for (unsigned i = 0; i < d->nmembers; i++)
        if (d->members[i].weight > 0 && director_is_healthy(d->members[i].d))
            sum += d->members[i].weight;
    mark = director_unit(random) * sum;
    for (unsigned i = 0; i < d->nmembers; i++) {
        if (d->members[i].weight <= 0 || !director_is_healthy(d->members[i].d))
            continue;
        last = i;
        mark -= d->members[i].weight;
        if (mark < 0)
            break;
    }
    return last;
}

/* Highest random weight (Thaler and Ravishankar 1998), with weights: when a member fails, its
 * keys and no others go elsewhere.  Varnish's moves the others' keys too. */
static unsigned
choose_hash(const struct director *d, uint64_t key)
{
    unsigned best = d->nmembers;
    double most = 0;

    for (unsigned i = 0; i < d->nmembers; i++) {
        const struct director_member *m = &d->members[i];
        double score;

        if (m->weight <= 0 || !director_is_healthy(m->d))
            continue;
        score = m->weight / -log(director_unit(director_mix(key ^ m->ident)));
        if (best == d->nmembers || score > most) {
            best = i;
            most = score;
        }
    }
    return best;
}

struct director *
director_resolve(struct director *d, const struct director_ask *ask)
{
    unsigned at = 0;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    switch (d->kind) {
    case DIRECTOR_BACKEND:
        return d;
    case DIRECTOR_ROUND_ROBIN:
        at = choose_round_robin(d);
        break;
    case DIRECTOR_FALLBACK:
        at = choose_fallback(d);
        break;
    case DIRECTOR_RANDOM:
        at = choose_random(d, ask->random);
        break;
    case DIRECTOR_HASH:
        at = choose_hash(d, ask->hash_said ? ask->hash : ask->random);
        break;
    case DIRECTOR_SHARD:
        at = shard_choose(d, ask);
        break;
    case DIRECTOR_KINDS:
        TUNREACHABLE("no kind");
    }
    return at < d->nmembers ? d->members[at].d : NULL;
}

struct backend *
director_pick(struct director *d, const struct director_ask *ask)
{
    struct director_ask now = *ask;

    for (unsigned depth = 0; depth <= DIRECTOR_DEPTH_MAX && d != NULL; depth++) {
        if (d->kind == DIRECTOR_BACKEND)
            return director_backend(d);
        d = director_resolve(d, &now);
        now.random = director_mix(now.random + 1); /* one choice tells nothing of the next */
    }
    return NULL;
}
