/* cuckoo_grow.c -- the table doubles online, bucket by bucket.
 *
 * The next shape hangs off the present one, and buckets are split one after the other, each under
 * its stripe.  What of the next shape has not been split into yet is never looked at, so its
 * memory is not even cleared before: a split stores to every slot of both new buckets.
 *
 * When the last bucket is split the next shape becomes the present one.  A thread may have loaded
 * the old one just before and still be about to read in it: lookups and searches are online,
 * so RCU keeps it for them; holders of guards need not be, but each of them has a stripe, so
 * a thread that takes and gives back every stripe once has waited for all of them.
 */
#include "daemon/base/rcu.h"
#include "daemon/cache/cuckoo_priv.h"

enum {
    CUCKOO_RETRY_PART = 64, /* of the slots: so many more entries before memory is asked for anew */
    CUCKOO_SOON_PART =
        8, /* of the load at which it doubles: with the last of it, it does so soon */
};

static bool
cuckoo_is_growing(const struct cuckoo *t)
{
    return atomic_load_explicit(&t->growth.growing, memory_order_relaxed);
}

bool
cuckoo_wants_tending(const struct cuckoo *t)
{
    OBJ_CHECK(t, CUCKOO_MAGIC);
    return atomic_load_explicit(&t->tally.entries, memory_order_relaxed) >
               atomic_load_explicit(&t->tally.grow_at, memory_order_relaxed) ||
           cuckoo_is_growing(t);
}

bool
cuckoo_outgrows(const struct cuckoo *t, size_t alloc_max)
{
    int64_t at = atomic_load_explicit(&t->tally.grow_at, memory_order_relaxed);
    unsigned bits = atomic_load_explicit(&t->growth.bits, memory_order_relaxed);

    OBJ_CHECK(t, CUCKOO_MAGIC);
    return atomic_load_explicit(&t->tally.entries, memory_order_relaxed) >
               at - at / CUCKOO_SOON_PART &&
           cuckoo_shape_bytes(bits + 1) > alloc_max;
}

static void
cuckoo_set_grow_at(struct cuckoo *t, int64_t entries)
{
    atomic_store_explicit(&t->tally.grow_at, entries, memory_order_relaxed);
}

void
cuckoo_plan_growth(struct cuckoo *t, unsigned bits)
{
    uint64_t slots = UINT64_C(1) << bits;

    cuckoo_set_grow_at(t,
        bits < t->conf.bits_max
            ? (int64_t)(slots / 100 * CUCKOO_GROW_PERCENT + slots % 100 * CUCKOO_GROW_PERCENT / 100)
            : INT64_MAX);
}

/* Under growth.lock.  Without memory the table goes on as it is, and asks again when it has a 64th
 * more to hold, not at each miss. */
static void
cuckoo_begin(struct cuckoo *t, size_t alloc_max)
{
    struct cuckoo_shape *s = cuckoo_shape(t);
    int64_t entries = atomic_load_explicit(&t->tally.entries, memory_order_relaxed);

    if (entries <= atomic_load_explicit(&t->tally.grow_at, memory_order_relaxed) ||
        cuckoo_shape_bytes(s->bits + 1) > alloc_max)
        return;
    s->next = cuckoo_shape_new(t, s->bits + 1);
    if (s->next == NULL) {
        atomic_fetch_add_explicit(&t->growth.refused, 1, memory_order_relaxed);
        cuckoo_set_grow_at(t, entries + (int64_t)((UINT64_C(1) << s->bits) / CUCKOO_RETRY_PART));
        return;
    }
    atomic_store_explicit(&t->growth.split, 0, memory_order_relaxed);
    atomic_store_explicit(&t->growth.growing, true, memory_order_relaxed);
}

/* Under the bucket's stripe.  A node keeps its slot's number, which path searches count on. */
static void
cuckoo_split_locked(const struct cuckoo *t, const struct cuckoo_shape *s, struct cuckoo_place at)
{
    struct cuckoo_slot *old = cuckoo_bucket(t, s, at);
    struct cuckoo_slot *low = cuckoo_bucket(t, s->next, at), *high;
    uint64_t more = s->bucket_mask + 1; /* the bit of a key's half that now counts */

    high = cuckoo_bucket(t, s->next, (struct cuckoo_place){at.side, at.half | more});
    for (unsigned i = 0; i < cuckoo_slots(t); i++)
        __builtin_prefetch(cuckoo_word_node(cuckoo_load(&old[i])));
    for (unsigned i = 0; i < cuckoo_slots(t); i++) {
        uint64_t word = cuckoo_load(&old[i]);
        bool up =
            word != 0 && (cuckoo_place(at.side, &cuckoo_word_node(word)->key).half & more) != 0;

        tassert(word != CUCKOO_SPLIT);
        cuckoo_store(&low[i], up ? 0 : word);
        cuckoo_store(&high[i], up ? word : 0);
    }
    /* The last slot first: cuckoo_find() says why. */
    for (unsigned i = cuckoo_slots(t); i-- > 0;)
        cuckoo_store(&old[i], CUCKOO_SPLIT);
}

static void
cuckoo_split(const struct cuckoo *t, const struct cuckoo_shape *s, uint64_t nth)
{
    struct cuckoo_place at = {nth > s->bucket_mask ? CUCKOO_B : CUCKOO_A, nth & s->bucket_mask};
    struct cuckoo_stripe *stripe = cuckoo_stripe(t, at);

    cuckoo_stripe_lock(stripe);
    cuckoo_split_locked(t, s, at);
    cuckoo_stripe_unlock(stripe);
}

static void
cuckoo_shape_on_grace(struct rcu_later *later)
{
    struct cuckoo_shape *s = container_of(later, struct cuckoo_shape, later);
    struct cuckoo *t = s->table;

    cuckoo_shape_free(t, s);
    atomic_fetch_sub_explicit(&t->growth.retiring, 1, memory_order_release);
}

/* The next shape is the present one now. */
static void
cuckoo_succeed(struct cuckoo *t)
{
    struct cuckoo_shape *old = cuckoo_shape(t);

    cuckoo_plan_growth(t, old->next->bits);
    atomic_store_explicit(&t->shape, old->next, memory_order_release);
    atomic_store_explicit(&t->growth.bits, old->next->bits, memory_order_relaxed);
    atomic_store_explicit(&t->growth.growing, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->growth.doubled, 1, memory_order_relaxed);
    /* Behind the store of the shape: a thread that takes a stripe after this one loads the new
     * one. */
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        for (size_t i = 0; i <= t->stripe_mask; i++) {
            cuckoo_stripe_lock(&t->stripes[side][i]);
            cuckoo_stripe_unlock(&t->stripes[side][i]);
        }
    }
    atomic_fetch_add_explicit(&t->growth.retiring, 1, memory_order_relaxed);
    rcu_free_later(&old->later, cuckoo_shape_on_grace);
}

void
cuckoo_tend(struct cuckoo *t, unsigned buckets, size_t alloc_max)
{
    const struct cuckoo_shape *s;
    uint64_t nth, all;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(cuckoo_is_free());
    tassert_slow(rcu_is_online());
    /* Tried, not waited for: one thread at it is enough, and the others have requests to serve. */
    if (!cuckoo_wants_tending(t) || pthread_mutex_trylock(&t->growth.lock) != 0)
        return;
    if (!cuckoo_is_growing(t))
        cuckoo_begin(t, alloc_max);
    if (cuckoo_is_growing(t)) {
        s = cuckoo_shape(t);
        all = 2 * ((uint64_t)s->bucket_mask + 1);
        nth = atomic_load_explicit(&t->growth.split, memory_order_relaxed);
        for (; buckets > 0 && nth < all; buckets--)
            cuckoo_split(t, s, nth++);
        atomic_store_explicit(&t->growth.split, nth, memory_order_relaxed);
        if (nth == all)
            cuckoo_succeed(t);
    }
    pthread_mutex_unlock(&t->growth.lock);
}
