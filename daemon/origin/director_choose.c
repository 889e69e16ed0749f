/* director_choose.c -- which member a director sends a request to. */
#include <math.h>

#include "daemon/origin/origin_priv.h"

enum {
    CHOOSE_TRIES = 8, /* of a round robin, when others choose at the same moment */
};

#define CHOOSE_PART_MIN 0.1

struct choose_walk {
    int64_t changed_ms, load;
    unsigned visits;
    const struct director_ask *among;
};

/* Was it tried by this fetch already?  Pointers are compared and never followed: it may be
 * freed. */
static bool
choose_avoids(const struct director_ask *ask, const struct backend *b)
{
    for (unsigned i = 0; i < ask->navoid; i++)
        if (ask->avoid[i] == b)
            return true;
    return false;
}

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
        w->load += backend_load(b);
        return atomic_load_explicit(&b->healthy, memory_order_relaxed) &&
               (w->among == NULL || (!backend_ejected(b) && !choose_avoids(w->among, b)));
    }
    /* Beyond the bounds a member counts as sick (README 9). */
    if (depth >= DIRECTOR_DEPTH_MAX)
        return false;
    for (unsigned i = 0; i < d->nmembers && w->visits < DIRECTOR_VISITS_MAX; i++)
        healthy |= choose_walk(w, d->members[i].d, depth + 1);
    return healthy;
}

bool
director_healthy(const struct director *d, double *changed_s)
{
    struct choose_walk w = {.among = NULL};
    bool healthy = choose_walk(&w, d, 0);

    if (changed_s != NULL)
        *changed_s = (double)w.changed_ms / 1000;
    return healthy;
}

bool
director_is(const struct director *d, const struct director_ask *among)
{
    struct choose_walk w = {.among = among};

    return choose_walk(&w, d, 0);
}

/* Of all below it. */
static int64_t
choose_load(const struct director *d)
{
    struct choose_walk w = {.among = NULL};

    choose_walk(&w, d, 0);
    return w.load;
}

/* Which part of its share it gets: one that became well lately begins with a tenth, so that its
 * caches fill and its connections open.  A director's members have each their own. */
static double
choose_part(const struct director *d, double now_s)
{
    const struct backend *b;
    double well_s, slow_s;

    if (d->kind != DIRECTOR_BACKEND)
        return 1;
    b = (const struct backend *)(const void *)d;
    slow_s = (double)b->conf->slow_start / 1000;
    well_s = (double)atomic_load_explicit(&b->well_ms, memory_order_relaxed) / 1000;
    /* Ever since it is there; or it is over, or the clock was set. */
    if (slow_s <= 0 || well_s <= 0 || now_s < well_s || now_s - well_s >= slow_s)
        return 1;
    return CHOOSE_PART_MIN + (1 - CHOOSE_PART_MIN) * (now_s - well_s) / slow_s;
}

static double
choose_weight(const struct director_member *m, const struct director_ask *ask)
{
    return m->weight * choose_part(m->d, ask->now_s);
}

/* The first healthy one from `start` on, around; nmembers: none. */
static unsigned
choose_from(const struct director *d, unsigned start, const struct director_ask *among)
{
    for (unsigned i = 0; i < d->nmembers; i++) {
        unsigned at = (start + i) % d->nmembers;

        if (director_is(d->members[at].d, among))
            return at;
    }
    return d->nmembers;
}

/* How many turns a round has, and the member of one turn. */
static unsigned
choose_turns(const struct director *d)
{
    return d->round != NULL ? d->round_len : d->nmembers;
}

static unsigned
choose_whose(const struct director *d, unsigned turn)
{
    return d->round != NULL ? d->round[turn] : turn;
}

/* The first turn from `start` on of a healthy member that takes it: one that became well lately
 * takes only a part of its turns.  None: the number of turns. */
static unsigned
choose_turn(const struct director *d, unsigned start, const struct director_ask *ask,
    const struct director_ask *among)
{
    unsigned turns = choose_turns(d), first = turns;
    uint64_t random = ask->random;

    for (unsigned i = 0; i < turns; i++) {
        unsigned turn = (start + i) % turns;
        const struct director *whose = d->members[choose_whose(d, turn)].d;
        double part;

        if (!director_is(whose, among))
            continue;
        part = choose_part(whose, ask->now_s);
        if (part >= 1)
            return turn;
        random = director_mix(random + 1);
        if (director_unit(random) < part)
            return turn;
        if (first == turns)
            first = turn;
    }
    return first;
}

/* The turn goes on from the member that it came to, so that a sick member's share does not all go
 * to the one behind it. */
static unsigned
choose_round_robin(
    struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    unsigned next = atomic_load_explicit(&d->turn, memory_order_relaxed), turns = choose_turns(d);
    unsigned turn = turns;

    for (unsigned i = 0; i < CHOOSE_TRIES; i++) {
        turn = choose_turn(d, next, ask, among);
        if (turn == turns || ask->peeks ||
            atomic_compare_exchange_weak_explicit(
                &d->turn, &next, (turn + 1) % turns, memory_order_relaxed, memory_order_relaxed))
            break;
    }
    return turn == turns ? d->nmembers : choose_whose(d, turn);
}

static unsigned
choose_fallback(
    struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    unsigned from = d->sticky ? atomic_load_explicit(&d->turn, memory_order_relaxed) : 0;
    unsigned at = choose_from(d, from, among);

    /* Sticky: it stays where it is when an earlier member comes back, until this one fails. */
    if (d->sticky && at < d->nmembers && !ask->peeks)
        atomic_store_explicit(&d->turn, at, memory_order_relaxed);
    return at;
}

/* Should health change between the two rounds, the last healthy one stands in. */
static unsigned
choose_random(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    unsigned last = d->nmembers;
    double sum = 0, mark;

    for (unsigned i = 0; i < d->nmembers; i++)
        /* Weight 0 takes a member out, and leaves it its place. */
        if (d->members[i].weight > 0 && director_is(d->members[i].d, among))
            sum += choose_weight(&d->members[i], ask);
    mark = director_unit(ask->random) * sum;
    for (unsigned i = 0; i < d->nmembers; i++) {
        if (d->members[i].weight <= 0 || !director_is(d->members[i].d, among))
            continue;
        last = i;
        mark -= choose_weight(&d->members[i], ask);
        if (mark < 0)
            break;
    }
    return last;
}

/* The least load for its weight; among equals chance decides, by weight. */
static unsigned
choose_least(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    uint64_t random = ask->random;
    unsigned best = d->nmembers;
    double least = 0, equals = 0;

    for (unsigned i = 0; i < d->nmembers; i++) {
        const struct director_member *m = &d->members[i];
        double load, weight;

        if (m->weight <= 0 || !director_is(m->d, among))
            continue;
        weight = choose_weight(m, ask);
        load = (double)choose_load(m->d) / weight;
        if (best < d->nmembers && load > least)
            continue;
        if (best == d->nmembers || load < least)
            equals = 0;
        least = load;
        equals += weight;
        random = director_mix(random + 1);
        /* One pass: the k-th of equals replaces the choice with its share of the weights so far. */
        if (director_unit(random) * equals < weight)
            best = i;
    }
    return best;
}

/* What each may have for a unit of its weight, the one that is chosen for included; 0: any. */
static double
choose_bound(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    double weights = 0, load = 1;

    if (d->bound == 0)
        return 0;
    for (unsigned i = 0; i < d->nmembers; i++) {
        const struct director_member *m = &d->members[i];

        if (m->weight <= 0 || !director_is(m->d, among))
            continue;
        weights += choose_weight(m, ask);
        load += (double)choose_load(m->d);
    }
    return weights > 0 ? d->bound * load / weights : 0;
}

/* The smallest whole number above the bound, so that one is always below it. */
static bool
choose_is_full(const struct director *d, const struct director *member, double bound, double weight)
{
    int64_t load;

    if (bound <= 0)
        return false;
    load = choose_load(member);
    return load >= d->bound_least && (double)load >= ceil(bound * weight);
}

/* Highest random weight (Thaler and Ravishankar 1998), with weights: when a member fails, its keys
 * and no others go elsewhere.  Varnish's moves the others' keys too.  A full member leaves its
 * keys to the next in their order.  (Loads change meanwhile: if all are full, the first has it.) */
static unsigned
choose_hash(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    uint64_t key = ask->hash_said ? ask->hash : ask->random;
    unsigned best = d->nmembers, first = d->nmembers;
    double most = 0, most_of_all = 0, bound = choose_bound(d, ask, among);

    for (unsigned i = 0; i < d->nmembers; i++) {
        const struct director_member *m = &d->members[i];
        double score, weight;

        if (m->weight <= 0 || !director_is(m->d, among))
            continue;
        weight = choose_weight(m, ask);
        /* The logarithm makes shares proportional to weights; a change of one weight moves keys of
         * that member alone. */
        score = weight / -log(director_unit(director_mix(key ^ m->ident)));
        if (first == d->nmembers || score > most_of_all) {
            first = i;
            most_of_all = score;
        }
        if ((best == d->nmembers || score > most) && !choose_is_full(d, m->d, bound, weight)) {
            best = i;
            most = score;
        }
    }
    return best < d->nmembers ? best : first;
}

/* nmembers: none. */
static unsigned
choose_member(struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    /* Without a lock and without memory (README 7): on the way of each request that asks a
     * backend. */
    switch (d->kind) {
    case DIRECTOR_ROUND_ROBIN:
        return choose_round_robin(d, ask, among);
    case DIRECTOR_FALLBACK:
        return choose_fallback(d, ask, among);
    case DIRECTOR_RANDOM:
        return choose_random(d, ask, among);
    case DIRECTOR_HASH:
        return choose_hash(d, ask, among);
    case DIRECTOR_SHARD:
        return shard_choose(d, ask, among);
    case DIRECTOR_LEAST:
        return choose_least(d, ask, among);
    case DIRECTOR_BACKEND:
    case DIRECTOR_KINDS:
        break;
    }
    TUNREACHABLE("nothing to choose among");
}

struct director *
director_resolve(struct director *d, const struct director_ask *ask)
{
    unsigned at;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    if (d->kind == DIRECTOR_BACKEND)
        return d;
    at = choose_member(d, ask, ask);
    if (at >= d->nmembers) /* all are left out, tried or sick: any healthy one */
        at = choose_member(d, ask, NULL);
    return at < d->nmembers ? d->members[at].d : NULL;
}

/* Follows directors down to a backend; borrowed.  NULL: none is healthy, or it is too deep. */
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
