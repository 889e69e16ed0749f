/* cuckoo_room.c -- room in full buckets: move nodes to their other side, or choose a victim.
 *
 * A path of moves is searched breadth first and without locks, so what it found is a guess.  It
 * is then walked from its far end, where the free slot is, and each move locks its two buckets
 * and looks again; a guess that no longer holds ends the walk, and what was moved by then is
 * where it may be anyway.  So at no moment is a node out of the table, and never are more than
 * two stripes locked.
 */
#include "daemon/base/rcu.h"
#include "daemon/cache/cuckoo_priv.h"

enum {
    CUCKOO_NO_STEP = -1
};

/* A bucket that the search reached, and the move that would lead into it. */
struct cuckoo_step {
    struct cuckoo_place at;
    uint64_t word; /* what would move here ... */
    int from;      /* ... out of this step's bucket; or CUCKOO_NO_STEP: one of the key's own */
    unsigned slot; /* ... where it was seen in this slot */
};

static bool
cuckoo_place_has_room(const struct cuckoo *t, struct cuckoo_place at)
{
    return cuckoo_slot_with(t, cuckoo_leaf(t, at, NULL), 0) != NULL;
}

/* The other bucket of the node in `word`, which is or was at `at`. */
static struct cuckoo_place
cuckoo_other_place(struct cuckoo_place at, uint64_t word)
{
    enum cuckoo_side other = at.side == CUCKOO_A ? CUCKOO_B : CUCKOO_A;

    return cuckoo_place(other, &cuckoo_word_node(word)->key);
}

/* The nodes lie anywhere: ask for all of them before the first is needed. */
static void
cuckoo_prefetch_nodes(const struct cuckoo *t, const struct cuckoo_slot *bucket)
{
    for (unsigned i = 0; i < cuckoo_slots(t); i++)
        __builtin_prefetch(cuckoo_word_node(cuckoo_load(&bucket[i]))); /* of anything: harmless */
}

/* Appends the buckets that the nodes of steps[from] could move to.  The step that has room, or
 * CUCKOO_NO_STEP. */
static int
cuckoo_search_from(const struct cuckoo *t, struct cuckoo_step *steps, int *count, int from)
{
    const struct cuckoo_slot *bucket = cuckoo_leaf(t, steps[from].at, NULL);

    cuckoo_prefetch_nodes(t, bucket);
    for (unsigned i = 0; i < cuckoo_slots(t) && *count < CUCKOO_SEARCH_MAX; i++) {
        uint64_t word = cuckoo_load(&bucket[i]);
        struct cuckoo_step *step = &steps[*count];

        if (word == 0)
            return from; /* a node left meanwhile */
        if (word == CUCKOO_SPLIT)
            break; /* now; another try finds its successor */
        step->at = cuckoo_other_place(steps[from].at, word);
        step->word = word;
        step->from = from;
        step->slot = i;
        if (cuckoo_place_has_room(t, step->at))
            return *count;
        (*count)++;
    }
    return CUCKOO_NO_STEP;
}

/* Breadth first, so that the fewest moves are found, and readers are disturbed least. */
static int
cuckoo_search(const struct cuckoo *t, const struct hash128 *key, struct cuckoo_step *steps)
{
    int count = 0;

    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        steps[count] = (struct cuckoo_step){.at = cuckoo_place(side, key), .from = CUCKOO_NO_STEP};
        count++;
    }
    for (int next = 0; next < count && count < CUCKOO_SEARCH_MAX; next++) {
        int found = cuckoo_search_from(t, steps, &count, next);

        if (found != CUCKOO_NO_STEP)
            return found;
    }
    return CUCKOO_NO_STEP;
}

/* Moves `word` with both stripes held.  False: it is no longer there, or there is no room. */
static bool
cuckoo_move_locked(struct cuckoo *t, struct cuckoo_place from, const struct cuckoo_step *step)
{
    struct cuckoo_slot *src = cuckoo_leaf(t, from, NULL) + step->slot;
    struct cuckoo_slot *dst = cuckoo_slot_with(t, cuckoo_leaf(t, step->at, NULL), 0);

    if (dst == NULL || cuckoo_load(src) != step->word)
        return false;

    /* Copy, bump, clear: cuckoo_find() says why in this order. */
    cuckoo_store(dst, step->word);
    atomic_fetch_add_explicit(
        cuckoo_move_count(t, &cuckoo_word_node(step->word)->key), 1, memory_order_release);
    cuckoo_store(src, 0);
    return true;
}

static bool
cuckoo_move(struct cuckoo *t, struct cuckoo_place from, const struct cuckoo_step *step)
{
    struct cuckoo_stripe *a = cuckoo_stripe(t, from.side == CUCKOO_A ? from : step->at);
    struct cuckoo_stripe *b = cuckoo_stripe(t, from.side == CUCKOO_A ? step->at : from);
    bool moved;

    tassert(from.side != step->at.side);
    cuckoo_stripe_lock(a);
    cuckoo_stripe_lock(b);
    moved = cuckoo_move_locked(t, from, step);
    if (moved)
        CUCKOO_COUNT(a->moved, 1);
    cuckoo_stripe_unlock(b);
    cuckoo_stripe_unlock(a);
    return moved;
}

/* Lost updates would not matter much, but there are none. */
static void
cuckoo_count_path(struct cuckoo *t, uint64_t moves)
{
    uint64_t most = atomic_load_explicit(&t->tally.path_max, memory_order_relaxed);

    if (moves == 0)
        return;
    atomic_fetch_add_explicit(&t->tally.paths, 1, memory_order_relaxed);
    while (moves > most && !atomic_compare_exchange_weak_explicit(&t->tally.path_max, &most, moves,
                               memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* From the far end of the path to the key's own bucket. */
static void
cuckoo_move_along(struct cuckoo *t, const struct cuckoo_step *steps, int far)
{
    uint64_t moves = 0;
    int from;

    for (int i = far; (from = steps[i].from) != CUCKOO_NO_STEP; i = from) {
        tassert(from < i);
        if (!cuckoo_move(t, steps[from].at, &steps[i]))
            break;
        moves++;
    }
    cuckoo_count_path(t, moves);
}

static bool
cuckoo_guard_has_room(const struct cuckoo *t, const struct cuckoo_guard *g)
{
    return cuckoo_slot_with(t, g->bucket[CUCKOO_A], 0) != NULL ||
           cuckoo_slot_with(t, g->bucket[CUCKOO_B], 0) != NULL;
}

/* Takes the least useful node out of the guard's two buckets, which are full. */
static struct cuckoo_node *
cuckoo_evict(struct cuckoo *t, struct cuckoo_guard *g)
{
    struct cuckoo_slot *worst = NULL;
    struct cuckoo_stripe *stripe = NULL;
    struct cuckoo_node *victim;
    int least = 0;

    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        for (unsigned i = 0; i < cuckoo_slots(t); i++) {
            struct cuckoo_slot *slot = g->bucket[side] + i;
            int useful = t->conf.usefulness(cuckoo_word_node(cuckoo_load(slot)));

            if (worst == NULL || useful < least) {
                worst = slot;
                least = useful;
                stripe = g->stripe[side];
            }
        }
    }
    victim = cuckoo_word_node(cuckoo_load(worst));
    cuckoo_store(worst, 0);
    atomic_fetch_sub_explicit(&t->tally.entries, 1, memory_order_relaxed);
    CUCKOO_COUNT(stripe->evicted, 1);
    return victim;
}

struct cuckoo_node *
cuckoo_make_room(struct cuckoo *t, struct cuckoo_guard *g)
{
    struct cuckoo_step steps[CUCKOO_SEARCH_MAX];
    struct hash128 key = g->key;
    int far = 0;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(g->table == t);
    tassert(g->keyed);
    tassert(rcu_is_online()); /* the search follows pointers without locks */

    for (unsigned i = 0; i < CUCKOO_SEARCH_TRIES && far != CUCKOO_NO_STEP; i++) {
        if (cuckoo_guard_has_room(t, g))
            return NULL;
        cuckoo_unlock(t, g);
        far = cuckoo_search(t, &key, steps);
        if (far != CUCKOO_NO_STEP)
            cuckoo_move_along(t, steps, far);
        cuckoo_lock(t, &key, g);
    }
    return cuckoo_guard_has_room(t, g) ? NULL : cuckoo_evict(t, g);
}
