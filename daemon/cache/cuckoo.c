/* cuckoo.c -- lookup without locks, and the changes that readers may watch. */
#include "daemon/cache/cuckoo.h"

#include "daemon/base/limits.h"
#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cuckoo_priv.h"

/* The guard this thread holds.  Stripes are shared by chance, so a second guard would hang now
 * and then; this makes it fail always. */
static _Thread_local const struct cuckoo_guard *cuckoo_held;

/* The node with this key in a bucket of `slots`, which is a constant wherever this is inlined.
 * Without one, *last is what the last slot held when it was read, after all others. */
static inline __attribute__((always_inline)) struct cuckoo_node *
cuckoo_scan_slots(
    const struct cuckoo_slot *bucket, const struct hash128 *key, unsigned slots, uint64_t *last)
{
    uint64_t tag = cuckoo_tag_word(key), rest = 0;

#pragma GCC unroll 8
    for (unsigned i = 0; i < slots; i++) {
        rest = cuckoo_load(&bucket[i]) ^ tag; /* with the tag gone, if it was this */
        if (__builtin_expect(rest <= CUCKOO_UNTAGGED, 0)) {
            struct cuckoo_node *node = cuckoo_word_node(rest);

            if (hash128_eq(node->key, *key))
                return node;
        }
    }
    *last = rest ^ tag;
    return NULL;
}

static inline __attribute__((always_inline)) struct cuckoo_node *
cuckoo_scan(const struct cuckoo *t, const struct cuckoo_slot *bucket, const struct hash128 *key,
    uint64_t *last)
{
    if (__builtin_expect(t->slots_log2 == 3, 1))
        return cuckoo_scan_slots(bucket, key, 8, last);
    return cuckoo_scan_slots(bucket, key, 4, last);
}

/* The key on this side, wherever splits have taken it.  The loop turns once more for each doubling
 * that began after `s` was loaded. */
static struct cuckoo_node *
cuckoo_scan_side(const struct cuckoo *t, const struct cuckoo_shape *s, enum cuckoo_side side,
    const struct hash128 *key)
{
    struct cuckoo_node *node;
    uint64_t last;

    for (;;) {
        node = cuckoo_scan(t, cuckoo_bucket(t, s, cuckoo_place(side, key)), key, &last);
        if (node != NULL || last != CUCKOO_SPLIT)
            return node;
        s = s->next;
    }
}

/* One look at both sides.  *certain: the key was found, or was not there at some moment of the
 * look.  See cuckoo_find(). */
static struct cuckoo_node *
cuckoo_look(const struct cuckoo *t, const struct hash128 *key, bool *certain)
{
    const struct cuckoo_shape *s = cuckoo_shape(t);
    const _Atomic uint64_t *moves = cuckoo_move_count((struct cuckoo *)(uintptr_t)t, key);
    uint64_t before = atomic_load_explicit(moves, memory_order_acquire);
    struct cuckoo_node *node = cuckoo_scan_side(t, s, CUCKOO_A, key);

    if (node == NULL)
        node = cuckoo_scan_side(t, s, CUCKOO_B, key);
    /* The loads above are acquires, so this one cannot come before any of them. */
    *certain = node != NULL || atomic_load_explicit(moves, memory_order_relaxed) == before;
    return node;
}

/* Something moved while we looked, or a bucket was split. */
static __attribute__((noinline, cold)) struct cuckoo_node *
cuckoo_find_again(const struct cuckoo *t, const struct hash128 *key, bool moved)
{
    struct cuckoo_retries *retries =
        (struct cuckoo_retries *)(uintptr_t)&t->retries; /* not of its contents */
    struct cuckoo_guard g;
    struct cuckoo_node *node;

    for (unsigned i = 0; i < LIMIT_LOOKUP_RETRIES; i++) {
        bool certain;

        if (moved)
            atomic_fetch_add_explicit(&retries->retried, 1, memory_order_relaxed);
        node = cuckoo_look(t, key, &certain);
        if (certain)
            return node;
        moved = true;
    }
    atomic_fetch_add_explicit(&retries->locked, 1, memory_order_relaxed);
    cuckoo_lock(t, key, &g);
    node = cuckoo_find_locked(t, &g);
    cuckoo_unlock(t, &g);
    return node;
}

/* Why this is right.
 *
 * A slot changes only under its bucket's lock, by a release store, and is read by an acquire
 * load.  So a reader of a slot's value has seen everything done before that value was stored, and
 * everything done before any earlier value of the slot: the lock hands it on from writer to
 * writer.  In particular a node is complete when it is found.
 *
 * A hit needs no more than that: the slot held the node when it was read, and RCU keeps the node.
 * Two buckets, one pass, nothing to wait for.
 *
 * A miss is another matter, for a key that moves from B to A after A was read and before B was
 * is in the table all the time and yet not seen.  A move is three steps, in this order:
 *
 *     copy   the new slot gets the word     (release store)
 *     bump   the key's move counter         (release read-modify-write)
 *     clear  the old slot gets 0            (release store)
 *
 * Claim: if the key is in the table during the whole look and is not found, the counter's two
 * readings differ.  Number the moves of this key 1, 2, ...; they happen under both its locks, so
 * one after the other.  Let k be the last with its bump in the first reading (0: none).  That
 * reading is an acquire, and a chain of read-modify-writes hands on the release of each of
 * its links: so copy k happens before our loads of the slots, and in the slot where move k (or
 * the insertion) put it we read the word, which is a hit, or something later.  What is later in
 * that slot is clear k+1, or was stored after it under the same lock; either way bump k+1
 * happens before our second reading, which therefore has it, while the first one had not.
 * Replacing keeps the slot's key and changes nothing in this.
 *
 * Nor does a split, which keeps the side: it copies the nodes into two buckets of the next shape,
 * and then stores CUCKOO_SPLIT into every slot of the old bucket, the last slot first.  A thread
 * that reads the old bucket in ascending order, and comes too late for a node in slot i, read
 * CUCKOO_SPLIT there, hence also in the last slot, which it reads after it; so it looks into the
 * next shape, where the copy happens before.  Read "the slot where move k put it" above as the
 * place to which splits took it from there.  A reader that loaded the shape earlier than the copy
 * may begin with an older shape than the one that was copied into; then it was split before, and
 * all its slots say so.  One that loaded a newer shape has seen every split that made it.
 *
 * One bump is enough because of where it stands.  Two bumps around the whole move would not be:
 * a look that begins after the first and ends before the second could miss the key and read the
 * same count twice.
 *
 * A miss that is not certain means that a node moved: another thread made progress (lock-free).
 * After LIMIT_LOOKUP_RETRIES looks the locks decide, so no stream of moves can starve a lookup. */
struct cuckoo_node *
cuckoo_find(const struct cuckoo *t, const struct hash128 *key)
{
    const struct cuckoo_shape *s;
    const struct cuckoo_slot *a, *b;
    const _Atomic uint64_t *moves;
    struct cuckoo_node *node;
    uint64_t before, last_a, last_b;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert_slow(rcu_is_online());
    tassert_slow(cuckoo_held == NULL); /* the last resort is to lock */

    /* cuckoo_look() for a table that does not double, without a call that would cost registers. */
    s = cuckoo_shape(t);
    a = cuckoo_bucket(t, s, cuckoo_place(CUCKOO_A, key));
    b = cuckoo_bucket(t, s, cuckoo_place(CUCKOO_B, key));
    moves = cuckoo_move_count((struct cuckoo *)(uintptr_t)t, key);
    __builtin_prefetch(b);
    before = atomic_load_explicit(moves, memory_order_acquire);
    node = cuckoo_scan(t, a, key, &last_a);
    if (node != NULL)
        return node;
    node = cuckoo_scan(t, b, key, &last_b);
    if (node != NULL)
        return node;
    if (__builtin_expect(last_a == CUCKOO_SPLIT || last_b == CUCKOO_SPLIT, 0))
        return cuckoo_find_again(t, key, false);
    if (__builtin_expect(atomic_load_explicit(moves, memory_order_relaxed) != before, 0))
        return cuckoo_find_again(t, key, true);
    return NULL;
}

/* The word to store for a node, without marks. */
static uint64_t
cuckoo_word(struct cuckoo_node *node)
{
    uint64_t address = (uint64_t)(uintptr_t)node;

    tassert(node != NULL);
    tassert((address & ~CUCKOO_ADDRESS_MASK) == 0);
    return cuckoo_tag_word(&node->key) | address;
}

struct cuckoo_slot *
cuckoo_slot_with(const struct cuckoo *t, struct cuckoo_slot *bucket, uint64_t word)
{
    for (unsigned i = 0; i < cuckoo_slots(t); i++) {
        if ((cuckoo_load(&bucket[i]) & ~CUCKOO_MARKS_MASK) == word)
            return &bucket[i];
    }
    return NULL;
}

void
cuckoo_stripe_lock(struct cuckoo_stripe *stripe)
{
    int err = pthread_mutex_lock(&stripe->lock);

    tassert(err == 0);
}

void
cuckoo_stripe_unlock(struct cuckoo_stripe *stripe)
{
    int err = pthread_mutex_unlock(&stripe->lock);

    tassert(err == 0);
}

void
cuckoo_lock(const struct cuckoo *t, const struct hash128 *key, struct cuckoo_guard *g)
{
    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(cuckoo_held == NULL);

    g->table = t;
    g->key = *key;
    g->keyed = true;
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) { /* A first: lock order */
        struct cuckoo_place at = cuckoo_place(side, key);

        g->stripe[side] = cuckoo_stripe(t, at);
        cuckoo_stripe_lock(g->stripe[side]);
        g->bucket[side] = cuckoo_leaf(t, at, NULL);
    }
    cuckoo_held = g;
}

const struct cuckoo_shape *
cuckoo_lock_place(const struct cuckoo *t, struct cuckoo_place at, struct cuckoo_guard *g)
{
    const struct cuckoo_shape *in;

    tassert(cuckoo_held == NULL);

    *g = (struct cuckoo_guard){.table = t};
    g->stripe[at.side] = cuckoo_stripe(t, at);
    cuckoo_stripe_lock(g->stripe[at.side]);
    g->bucket[at.side] = cuckoo_leaf(t, at, &in);
    cuckoo_held = g;
    return in;
}

bool
cuckoo_is_free(void)
{
    return cuckoo_held == NULL;
}

void
cuckoo_unlock(const struct cuckoo *t, struct cuckoo_guard *g)
{
    tassert(g->table == t);
    tassert(cuckoo_held == g);

    cuckoo_held = NULL;
    g->table = NULL;
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        if (g->stripe[side] != NULL)
            cuckoo_stripe_unlock(g->stripe[side]);
    }
}

struct cuckoo_node *
cuckoo_find_locked(const struct cuckoo *t, const struct cuckoo_guard *g)
{
    struct cuckoo_node *node;
    uint64_t last;

    tassert(g->table == t);
    tassert(g->keyed);

    node = cuckoo_scan(t, g->bucket[CUCKOO_A], &g->key, &last);
    return node != NULL ? node : cuckoo_scan(t, g->bucket[CUCKOO_B], &g->key, &last);
}

/* A slot of the guard's buckets with this word, or NULL.  Side A comes first, also for free slots: what is on A costs readers one line. */
static struct cuckoo_slot *
cuckoo_guard_slot(const struct cuckoo_guard *g, uint64_t word)
{
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        struct cuckoo_slot *slot = NULL;

        if (g->bucket[side] != NULL)
            slot = cuckoo_slot_with(g->table, g->bucket[side], word);
        if (slot != NULL)
            return slot;
    }
    return NULL;
}

int
cuckoo_insert(struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *node)
{
    uint64_t word = cuckoo_word(node);
    struct cuckoo_slot *slot;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(hash128_eq(node->key, g->key));
    tassert(cuckoo_find_locked(t, g) == NULL); /* the same key twice: one would never be found */

    slot = cuckoo_guard_slot(g, 0);
    if (slot == NULL)
        return TERR_LIMIT;
    cuckoo_store(slot, word);
    atomic_fetch_add_explicit(&t->tally.entries, 1, memory_order_relaxed);
    return 0;
}

void
cuckoo_replace(
    struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *old, struct cuckoo_node *next)
{
    struct cuckoo_slot *slot;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(g->table == t);
    tassert(hash128_eq(old->key, next->key));

    slot = cuckoo_guard_slot(g, cuckoo_word(old));
    tassert(slot != NULL);
    cuckoo_store(slot, cuckoo_word(next) | (cuckoo_load(slot) & CUCKOO_MARKS_MASK));
}

void
cuckoo_mark(struct cuckoo *t, struct cuckoo_guard *g, unsigned marks)
{
    struct cuckoo_slot *slot;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(marks >> CUCKOO_MARKS == 0);

    slot = cuckoo_guard_slot(g, cuckoo_word(cuckoo_find_locked(t, g)));
    tassert(slot != NULL);
    cuckoo_store(slot, cuckoo_load(slot) | cuckoo_marks_word(marks));
}

void
cuckoo_remove(struct cuckoo *t, struct cuckoo_guard *g, struct cuckoo_node *node)
{
    struct cuckoo_slot *slot;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    tassert(g->table == t);

    slot = cuckoo_guard_slot(g, cuckoo_word(node));
    tassert(slot != NULL);
    cuckoo_store(slot, 0);
    atomic_fetch_sub_explicit(&t->tally.entries, 1, memory_order_relaxed);
}
