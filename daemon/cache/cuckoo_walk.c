/* cuckoo_walk.c -- every node, bucket by bucket, and the table's statistics.
 *
 * A cursor is a place in the order of the walk: its top bit is the side, the others are a bucket's
 * number with its bits reversed.  A bucket of n bits stands for the 2^(63-n) places that begin
 * with these, and the buckets it is split into for a half of them each; a node's place, the
 * reversed half of its key, is the same in every shape. */
#include <string.h>

#include "daemon/cache/cuckoo_priv.h"

static uint64_t
cuckoo_reverse(uint64_t x)
{
    x = (x & UINT64_C(0x5555555555555555)) << 1 | (x >> 1 & UINT64_C(0x5555555555555555));
    x = (x & UINT64_C(0x3333333333333333)) << 2 | (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
    return __builtin_bswap64(x);
}

static struct cuckoo_place
cuckoo_cursor_place(uint64_t cursor)
{
    return (struct cuckoo_place){
        cursor >> 63 != 0 ? CUCKOO_B : CUCKOO_A, cuckoo_reverse(cursor << 1)};
}

/* Behind the bucket of this shape that the cursor is in; 0 at the end. */
static uint64_t
cuckoo_cursor_next(const struct cuckoo_shape *s, uint64_t cursor)
{
    uint64_t places = (UINT64_C(1) << 63) / (s->bucket_mask + 1);

    return (cursor & ~(places - 1)) + places;
}

void
cuckoo_each_next(const struct cuckoo *t, uint64_t *cursor, cuckoo_each_f *each, void *ctx)
{
    struct cuckoo_place at = cuckoo_cursor_place(*cursor);
    const struct cuckoo_shape *s;
    struct cuckoo_guard g;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    s = cuckoo_lock_place(t, at, &g);
    for (unsigned i = 0; i < cuckoo_slots(t); i++) {
        uint64_t word = cuckoo_load(&g.bucket[at.side][i]);

        if (word != 0) {
            struct cuckoo_seen seen = {.side = at.side,
                .bucket = at.half & s->bucket_mask,
                .slot = i,
                .tag = (uint16_t)(word >> CUCKOO_TAG_SHIFT),
                .node = cuckoo_word_node(word)};

            /* With the lock held: it may remove the node. */
            each(ctx, &g, &seen);
        }
    }
    /* By the shape that was locked: so much of the order has been seen. */
    *cursor = cuckoo_cursor_next(s, *cursor);
    cuckoo_unlock(t, &g);
}

enum {
    WALK_AHEAD = 4, /* buckets: a walk comes there before the memory would have answered */
};

/* Their memory is asked for now. */
static void
cuckoo_read_ahead(const struct cuckoo *t, const struct cuckoo_shape *s, uint64_t cursor)
{
    uint64_t places = (UINT64_C(1) << 63) / (s->bucket_mask + 1);

    __builtin_prefetch(cuckoo_bucket(t, s, cuckoo_cursor_place(cursor + WALK_AHEAD * places)));
}

/* A bucket is split from its last slot on, and read up to it: if that says nothing of a split, the
 * slots before it were read before. */
unsigned
cuckoo_peek_next(const struct cuckoo *t, uint64_t *cursor, unsigned marks,
    struct cuckoo_node *nodes[CUCKOO_SLOTS_MAX])
{
    struct cuckoo_place at = cuckoo_cursor_place(*cursor);
    uint64_t wanted = marks == 0 ? ~CUCKOO_UNTAGGED : cuckoo_marks_word(marks); /* a tag is not 0 */
    const struct cuckoo_slot *bucket;
    const struct cuckoo_shape *s;
    uint64_t word;
    unsigned n;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    do {
        bucket = cuckoo_leaf(t, at, &s);
        n = 0;
        for (unsigned i = 0; i < cuckoo_slots(t); i++) {
            word = cuckoo_load(&bucket[i]);
            if ((word & wanted) != 0)
                nodes[n++] = cuckoo_word_node(word);
        }
    } while (word == CUCKOO_SPLIT);
    *cursor = cuckoo_cursor_next(s, *cursor);
    cuckoo_read_ahead(t, s, *cursor);
    return n;
}

/* No counter ever goes back, so two equal sums are two equal sets of counters. */
uint64_t
cuckoo_moves(const struct cuckoo *t)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CUCKOO_MOVE_STRIPES; i++)
        sum += atomic_load_explicit(&t->moves.count[i], memory_order_acquire);
    return sum;
}

/* A node that was missed had its new bucket visited before the copy and its old one after the
 * clear, so the locks order its bump between the two sums. */
bool
cuckoo_each(const struct cuckoo *t, cuckoo_each_f *each, void *ctx)
{
    uint64_t before = cuckoo_moves(t), cursor = 0;

    do
        cuckoo_each_next(t, &cursor, each, ctx);
    while (cursor != 0);
    return cuckoo_moves(t) == before;
}

size_t
cuckoo_buckets(const struct cuckoo *t)
{
    struct cuckoo_stats s;

    cuckoo_stats(t, &s);
    return s.capacity >> t->slots_log2;
}

static void
cuckoo_stats_of_shape(const struct cuckoo *t, struct cuckoo_stats *out)
{
    bool growing = atomic_load_explicit(&t->growth.growing, memory_order_relaxed);

    out->bits = atomic_load_explicit(&t->growth.bits, memory_order_relaxed);
    out->bits_max = t->conf.bits_max;
    out->slots = t->conf.slots;
    out->capacity = UINT64_C(1) << out->bits;
    out->doubled = atomic_load_explicit(&t->growth.doubled, memory_order_relaxed);
    out->refused = atomic_load_explicit(&t->growth.refused, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&t->growth.bytes, memory_order_relaxed);
    out->growing = growing;
    if (!growing)
        return;
    out->splitting = out->capacity >> t->slots_log2;
    out->split = atomic_load_explicit(&t->growth.split, memory_order_relaxed);
    out->capacity += out->split << t->slots_log2; /* one bucket became two */
}

void
cuckoo_stats(const struct cuckoo *t, struct cuckoo_stats *out)
{
    int64_t entries;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    memset(out, 0, sizeof(*out));
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        /* Kept by stripe, where they are written under its lock. */
        for (size_t i = 0; i <= t->stripe_mask; i++) {
            const struct cuckoo_stripe *s = &t->stripes[side][i];

            out->moved += atomic_load_explicit(&s->moved, memory_order_relaxed);
            out->evicted += atomic_load_explicit(&s->evicted, memory_order_relaxed);
        }
    }
    cuckoo_stats_of_shape(t, out);
    entries = atomic_load_explicit(&t->tally.entries, memory_order_relaxed);
    out->entries = (uint64_t)entries;
    out->load = (double)out->entries / (double)out->capacity;
    out->paths = atomic_load_explicit(&t->tally.paths, memory_order_relaxed);
    out->path_max = atomic_load_explicit(&t->tally.path_max, memory_order_relaxed);
    out->retried = atomic_load_explicit(&t->retries.retried, memory_order_relaxed);
    out->locked = atomic_load_explicit(&t->retries.locked, memory_order_relaxed);
}

/* Some of one side.  Reversed numbers: however soon this ends, what was seen is spread evenly. */
static size_t
cuckoo_occupancy_of(const struct cuckoo *t, enum cuckoo_side side, size_t most, uint64_t *buckets)
{
    uint64_t cursor = (uint64_t)side << 63;
    size_t seen = 0;

    do {
        const struct cuckoo_shape *s;
        const struct cuckoo_slot *bucket = cuckoo_leaf(t, cuckoo_cursor_place(cursor), &s);
        unsigned used = 0;

        for (unsigned i = 0; i < cuckoo_slots(t); i++)
            used += cuckoo_load(&bucket[i]) > CUCKOO_SPLIT;
        buckets[used]++;
        seen++;
        cursor = cuckoo_cursor_next(s, cursor);
    } while (cursor >> 63 == side && cursor != 0 && seen < most);
    return seen;
}

size_t
cuckoo_occupancy(const struct cuckoo *t, size_t most, uint64_t buckets[CUCKOO_SLOTS_MAX + 1])
{
    OBJ_CHECK(t, CUCKOO_MAGIC);
    memset(buckets, 0, (CUCKOO_SLOTS_MAX + 1) * sizeof(buckets[0]));
    return cuckoo_occupancy_of(t, CUCKOO_A, most - most / 2, buckets) +
           cuckoo_occupancy_of(t, CUCKOO_B, most / 2, buckets);
}
