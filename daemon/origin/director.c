/* director.c -- directors: made, filled, held and dropped. */
#include <math.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/origin/origin_priv.h"

int
director_init(struct director *d, enum director_kind kind, const char *name)
{
    d->magic = DIRECTOR_MAGIC;
    d->kind = kind;
    /* The maker's hold. */
    atomic_init(&d->refs, 1);
    d->name = strdup(name);
    return d->name != NULL ? 0 : TERR_NOMEM;
}

void
director_fini(struct director *d)
{
    /* Members first: a drop may free a director, and its own members with it. */
    for (unsigned i = 0; i < d->nmembers; i++)
        director_drop(&d->members[i].d);
    free(d->shard.ring);
    free(d->round);
    free(d->members);
    free(d->name);
    OBJ_BURY(d);
}

int
director_new(struct director **out, enum director_kind kind, const char *name)
{
    struct director *d = calloc(1, sizeof(*d));

    tassert(kind > DIRECTOR_BACKEND && kind < DIRECTOR_KINDS);
    if (d == NULL)
        return TERR_NOMEM;
    if (director_init(d, kind, name) != 0) {
        free(d);
        return TERR_NOMEM;
    }
    d->shard.replicas = SHARD_REPLICAS;
    *out = d;
    return 0;
}

struct director *
director_hold(struct director *d)
{
    unsigned had;

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    /* Relaxed: the caller has a hold already, by which it sees the director. */
    had = atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    tassert(had > 0); /* without a hold it is about to be freed */
    return d;
}

void
director_drop(struct director **dp)
{
    struct director *d;
    enum director_kind kind;

    OBJ_TAKE(d, dp, DIRECTOR_MAGIC);
    kind = d->kind; /* a backend's memory may be gone as soon as the hold is */
    if (atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1 ||
        kind == DIRECTOR_BACKEND)
        return;
    /* A backend is only retired by its last drop: registry_sweep frees it on the management
     * thread, which walks the registry without a lock. */
    director_fini(d);
    free(d);
}

struct director_walk {
    const struct director *sought;
    unsigned visits, depth;
    bool found;
};

/* Every member of every member, until too many; looks for one, and how deep it goes. */
static void
director_walk(struct director_walk *w, const struct director *d, unsigned depth)
{
    w->visits++;
    if (depth > w->depth)
        w->depth = depth;
    if (d == w->sought)
        w->found = true;
    /* A search that is cut short counts as too deep or too large: both refuse. */
    if (w->found || depth > DIRECTOR_DEPTH_MAX || w->visits > DIRECTOR_VISITS_MAX)
        return;
    for (unsigned i = 0; i < d->nmembers && !w->found; i++)
        director_walk(w, d->members[i].d, depth + 1);
}

/* 0, or why `member` may not be one of `d`. */
static int
director_may_add(const struct director *d, const struct director *member, double weight)
{
    struct director_walk below = {.sought = d}, all = {.sought = NULL};

    if (!isfinite(weight) || weight < 0)
        return TERR_INVALID;
    /* Visits count paths, not directors: two levels that each contain the next one twice cost a
     * choice four visits. */
    director_walk(&below, member, 1);
    if (below.found)
        return TERR_INVALID;
    director_walk(&all, d, 0);
    if (below.depth > DIRECTOR_DEPTH_MAX || below.visits + all.visits > DIRECTOR_VISITS_MAX ||
        d->nmembers >= DIRECTOR_MEMBERS_MAX)
        return TERR_LIMIT;
    return 0;
}

/* Names, not places: a policy that is loaded anew sends the same keys to the same backends. */
static uint64_t
director_ident(const struct director *d, const struct director *member)
{
    uint64_t parts[2] = {hash_plain(member->name, strlen(member->name)), 0};

    /* A member that is added twice gets two idents, or both would have the same places. */
    for (unsigned i = 0; i < d->nmembers; i++)
        parts[1] += strcmp(d->members[i].d->name, member->name) == 0;
    return hash_plain(parts, sizeof(parts));
}

int
director_append(struct director *d, const struct director_member *what)
{
    int err = director_may_add(d, what->d, what->weight);

    if (err != 0)
        return err;
    if (d->nmembers == d->members_cap) {
        unsigned cap = d->members_cap == 0 ? 4 : 2 * d->members_cap;
        struct director_member *more = realloc(d->members, cap * sizeof(*more));

        if (more == NULL)
            return TERR_NOMEM;
        d->members = more;
        d->members_cap = cap;
    }
    /* Not before memory is there: a failure leaves the director as it was. */
    d->members[d->nmembers] = *what;
    director_hold(what->d);
    /* Only a member can be left out for its failures (eject.c): one that is named directly has no
     * substitute. */
    if (what->d->kind == DIRECTOR_BACKEND)
        atomic_store_explicit(&director_backend(what->d)->member, true, memory_order_relaxed);
    d->nmembers++;
    return 0;
}

int
director_add(struct director *d, struct director *member, double weight)
{
    struct director_member what = {.d = member, .weight = weight, .rampup_s = -1};

    OBJ_CHECK(d, DIRECTOR_MAGIC);
    OBJ_CHECK(member, DIRECTOR_MAGIC);
    tassert(d->kind != DIRECTOR_BACKEND);
    /* Without an ident the name is one, and no ramp-up of its own. */
    if (d->kind == DIRECTOR_SHARD)
        return director_shard_add(d, member, slice_of("", 0), -1, weight);
    what.ident = director_ident(d, member);
    return director_append(d, &what);
}

int
director_remove(struct director *d, struct director *member)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    for (unsigned i = 0; i < d->nmembers; i++) {
        if (d->members[i].d != member)
            continue;
        /* Before the gap closes: its points name members by number. */
        if (d->kind == DIRECTOR_SHARD)
            shard_remove(d, i);
        free(d->round); /* it counted on him */
        d->round = NULL;
        director_drop(&d->members[i].d);
        memmove(&d->members[i], &d->members[i + 1], (d->nmembers - i - 1) * sizeof(d->members[0]));
        d->nmembers--;
        return 0;
    }
    return TERR_NOTFOUND;
}

void
director_set_sticky(struct director *d, bool sticky)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    d->sticky = sticky;
}

/* Directors of the configuration alone: a policy has its own way, return(retry). */
void
director_set_tries_others(struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    d->tries_others = true;
}

bool
director_tries_others(const struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    return d->tries_others;
}

void
director_set_bound(struct director *d, double factor)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    /* At 1 the smallest rounding would leave no member below its share. */
    tassert(factor == 0 || factor > 1);
    d->bound = factor;
}

void
director_set_bound_least(struct director *d, int64_t load)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(load >= 0);
    d->bound_least = load;
}

const char *
director_name(const struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    return d->name;
}

unsigned
director_members(const struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    return d->nmembers;
}

struct director *
director_member(const struct director *d, unsigned nth, double *weight)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    tassert(nth < d->nmembers);
    *weight = d->members[nth].weight;
    return d->members[nth].d;
}

enum director_kind
director_kind(const struct director *d)
{
    OBJ_CHECK(d, DIRECTOR_MAGIC);
    return d->kind;
}
