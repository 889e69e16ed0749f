/* shard.c -- a director that spreads keys over a ring (consistent hashing, Karger and others 1997).
 *
 * Each member has points on a ring of 64-bit numbers.  A key belongs to the first point behind
 * it; going on from there gives the alternatives, in an order that differs from key to key.
 * What is where follows from the idents alone, so two processes with the same members agree.
 */
#include <math.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

static uint64_t
shard_ident(struct slice text)
{
    return hash_plain(text.ptr, text.len);
}

/* Points of a member.  One more than may be stands for far too many: shard_insert_points refuses
 * it, and converting a larger double to unsigned would be undefined. */
static unsigned
shard_copies(const struct shard *s, const struct director_member *m)
{
    double copies = (double)s->replicas * (m->weight > 1 ? m->weight : 1);

    return copies > SHARD_POINTS_MAX ? SHARD_POINTS_MAX + 1 : (unsigned)copies;
}

/* Equal points are ordered by member: qsort is not stable, and two processes must agree on the
 * ring. */
static int
shard_order(const void *pa, const void *pb)
{
    const struct shard_point *a = pa, *b = pb;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->member < b->member ? -1 : a->member > b->member;
}

static void
shard_fill(struct shard_point *to, uint64_t ident, unsigned member, unsigned copies)
{
    for (unsigned i = 0; i < copies; i++) {
        uint64_t parts[2] = {ident, i};

        to[i] = (struct shard_point){hash_plain(parts, sizeof(parts)), member};
    }
    /* Sorted alone, then merged: a ring of n points is not sorted anew for each member. */
    qsort(to, copies, sizeof(to[0]), shard_order);
}

/* Two sorted runs into one. */
static void
shard_merge(struct shard_point *to, const struct shard_point *a, unsigned na,
    const struct shard_point *b, unsigned nb)
{
    unsigned ia = 0, ib = 0;

    while (ia < na || ib < nb) {
        bool from_a = ib == nb || (ia < na && shard_order(&a[ia], &b[ib]) <= 0);

        *to++ = from_a ? a[ia++] : b[ib++];
    }
}

/* The new ring is made beside the old one, so a failure leaves the director as it was. */
static int
shard_insert_points(struct shard *s, const struct director_member *m, unsigned member)
{
    unsigned copies = shard_copies(s, m);
    struct shard_point *more, *ring;

    /* Subtracted, not added: `copies` may be as large as the limit and one. */
    if (copies > SHARD_POINTS_MAX - s->npoints)
        return TERR_LIMIT;
    more = malloc(copies * sizeof(*more));
    ring = malloc((s->npoints + copies) * sizeof(*ring));
    if (more == NULL || ring == NULL) {
        free(more);
        free(ring);
        return TERR_NOMEM;
    }
    shard_fill(more, m->ident, member, copies);
    shard_merge(ring, s->ring, s->npoints, more, copies);
    free(more);
    free(s->ring);
    s->ring = ring;
    s->npoints += copies;
    return 0;
}

/* Its points for the last member.  0, TERR_LIMIT or TERR_NOMEM.  director_append() has put it at
 * the end. */
static int
shard_insert(struct director *d)
{
    unsigned last = d->nmembers - 1;

    return shard_insert_points(&d->shard, &d->members[last], last);
}

void
shard_remove(struct director *d, unsigned member)
{
    struct shard *s = &d->shard;
    unsigned left = 0;

    for (unsigned i = 0; i < s->npoints; i++) {
        struct shard_point p = s->ring[i];

        if (p.member == member)
            continue;
        /* director_remove() closes the gap in the list of members. */
        p.member -= p.member > member;
        s->ring[left] = p;
        left++;
    }
    s->npoints = left;
}

int
director_shard_add(
    struct director *d, struct director *member, struct slice ident, double rampup_s, double weight)
{
    struct director_member what = {.d = member, .weight = weight, .rampup_s = rampup_s};
    int err;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    OBJ_CHECK(member, DIRECTOR_MAGIC);
    tassert(d->kind == DIRECTOR_SHARD);
    what.ident = shard_ident(ident.len > 0 ? ident : slice_str(member->name));
    for (unsigned i = 0; i < d->nmembers; i++)
        /* Two members with the same points: the second would never be chosen. */
        if (d->members[i].ident == what.ident)
            return TERR_INVALID;
    err = director_append(d, &what);
    if (err != 0)
        return err;
    err = shard_insert(d);
    if (err != 0) {
        d->nmembers--;
        director_drop(&d->members[d->nmembers].d);
    }
    return err;
}

int
director_shard_reconfigure(struct director *d, unsigned replicas)
{
    struct shard was;
    int err = 0;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(d->kind == DIRECTOR_SHARD);
    if (replicas == 0)
        return TERR_INVALID;
    /* Beside the old ring, which comes back when memory or points do not suffice. */
    was = d->shard;
    d->shard.ring = NULL;
    d->shard.npoints = 0;
    d->shard.replicas = replicas;
    for (unsigned i = 0; i < d->nmembers && err == 0; i++)
        err = shard_insert_points(&d->shard, &d->members[i], i);
    if (err == 0) {
        free(was.ring);
        return 0;
    }
    free(d->shard.ring);
    d->shard = was;
    return err;
}

void
director_shard_clear(struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(d->kind == DIRECTOR_SHARD);
    /* The ring's memory stays: what is cleared is mostly filled again. */
    d->shard.npoints = 0;
    while (d->nmembers > 0) {
        d->nmembers--;
        director_drop(&d->members[d->nmembers].d);
    }
}

void
director_shard_set_warmup(struct director *d, double share)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    d->shard.warmup = share;
}

void
director_shard_set_rampup(struct director *d, double seconds)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    d->shard.rampup_s = seconds;
}

/* The members in the order of a key, each once. */
struct shard_walk {
    const struct director *d;
    unsigned at, looked; /* points */
    unsigned healthy;    /* the last healthy one met; nmembers: none */
    const struct director_ask *among;
    uint64_t seen[DIRECTOR_MEMBERS_MAX / 64];
};

/* The first point behind the key; behind the last one the ring begins again. */
static unsigned
shard_find(const struct shard *s, uint64_t key)
{
    unsigned lo = 0, hi = s->npoints;

    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;

        /* Strictly behind: a key on a point belongs to the next one. */
        if (s->ring[mid].at > key)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo == s->npoints ? 0 : lo;
}

/* nmembers: each has been met. */
static unsigned
shard_next(struct shard_walk *w)
{
    const struct shard *s = &w->d->shard;

    while (w->looked < s->npoints) {
        unsigned m = s->ring[w->at].member;

        w->looked++;
        w->at = w->at + 1 == s->npoints ? 0 : w->at + 1;
        /* A member has many points; each counts once, as one alternative. */
        if ((w->seen[m / 64] >> m % 64 & 1) != 0)
            continue;
        w->seen[m / 64] |= UINT64_C(1) << m % 64;
        return m;
    }
    return w->d->nmembers;
}

static unsigned
shard_next_healthy(struct shard_walk *w)
{
    unsigned m;

    while ((m = shard_next(w)) < w->d->nmembers)
        if (director_is(w->d->members[m].d, w->among)) {
            w->healthy = m;
            break;
        }
    return m;
}

/* How much of its ramp-up is over: 1 and more: all. */
static double
shard_ramped(const struct director *d, unsigned member, const struct director_ask *ask)
{
    const struct director_member *m = &d->members[member];
    double rampup = m->rampup_s < 0 ? d->shard.rampup_s : m->rampup_s, changed;

    if (ask->no_rampup || rampup <= 0)
        return 1;
    director_healthy(m->d, &changed);
    if (changed <= 0 || ask->now_s < changed) /* ever since it is there; or the clock was set */
        return 1;
    return (ask->now_s - changed) / rampup;
}

/* The first choice is `first`; the next one takes over some of its keys while one of them warms
 * up (vmod_directors(3), rampup and warmup). */
static unsigned
shard_spread(struct shard_walk *w, unsigned first, const struct director_ask *ask)
{
    double warmup = ask->warmup_said ? ask->warmup : w->d->shard.warmup;
    double ramped = shard_ramped(w->d, first, ask), chance = director_unit(ask->random);
    unsigned second;

    if (ramped >= 1 && warmup <= 0)
        return first;
    second = shard_next_healthy(w);
    /* One that warms up itself takes over nothing. */
    if (second == w->d->nmembers || shard_ramped(w->d, second, ask) < 1)
        return first;
    if (ramped < 1)
        return chance < ramped ? first : second;
    return chance < warmup ? second : first;
}

/* The n-th that comes, whatever its health, or the last. */
static unsigned
shard_choose_any(struct shard_walk *w, unsigned alternate)
{
    unsigned m = shard_next(w);

    for (unsigned i = 0; i < alternate; i++) {
        unsigned next = shard_next(w);

        if (next == w->d->nmembers)
            break;
        m = next;
    }
    return m;
}

unsigned
shard_choose(
    const struct director *d, const struct director_ask *ask, const struct director_ask *among)
{
    struct shard_walk w = {.d = d, .healthy = d->nmembers, .among = among};
    unsigned m = 0;

    /* Small numbers are keys too: mixed, they do not all lie before the first point. */
    w.at = shard_find(&d->shard, director_mix(ask->hash_said ? ask->hash : ask->random));
    /* The ring alone decides, for a policy that looks at health by itself. */
    if (ask->health == DIRECTOR_IGNORE)
        return shard_choose_any(&w, ask->alternate);
    for (unsigned i = 0; i < ask->alternate && m < d->nmembers; i++) {
        m = ask->health == DIRECTOR_ALL ? shard_next_healthy(&w) : shard_next(&w);
        if (m < d->nmembers && director_is(d->members[m].d, among))
            w.healthy = m;
    }
    m = shard_next_healthy(&w);
    if (m == d->nmembers)
        return w.healthy;
    return ask->alternate == 0 ? shard_spread(&w, m, ask) : m;
}
