/* cuckoo_walk.c -- every node, bucket by bucket, and the table's statistics. */
#include <string.h>

#include "daemon/cache/cuckoo_priv.h"

size_t
cuckoo_buckets(const struct cuckoo *t)
{
    OBJ_CHECK(t, CUCKOO_MAGIC);
    return 2 * (t->bucket_mask + 1);
}

static struct cuckoo_place
cuckoo_nth_place(const struct cuckoo *t, size_t bucket)
{
    return (struct cuckoo_place){
        bucket > t->bucket_mask ? CUCKOO_B : CUCKOO_A, bucket & t->bucket_mask};
}

void
cuckoo_each_bucket(
    const struct cuckoo *t, size_t first, size_t count, cuckoo_each_f *each, void *ctx)
{
    tassert(first <= cuckoo_buckets(t) && count <= cuckoo_buckets(t) - first);

    for (size_t n = first; n < first + count; n++) {
        struct cuckoo_place at = cuckoo_nth_place(t, n);
        const struct cuckoo_slot *bucket = cuckoo_bucket(t, at);
        struct cuckoo_guard g;

        cuckoo_lock_place(t, at, &g);
        for (unsigned i = 0; i < cuckoo_slots(t); i++) {
            uint64_t word = cuckoo_load(&bucket[i]);

            if (word != 0) {
                struct cuckoo_seen seen = {.bucket = n,
                    .slot = i,
                    .tag = (uint16_t)(word >> CUCKOO_ADDRESS_BITS),
                    .node = cuckoo_word_node(word)};

                each(ctx, &g, &seen);
            }
        }
        cuckoo_unlock(t, &g);
    }
}

/* No counter ever goes back, so two equal sums are two equal sets of counters. */
uint64_t
cuckoo_moves(const struct cuckoo *t)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CUCKOO_MOVE_STRIPES; i++)
        sum += atomic_load_explicit(&t->moves->count[i], memory_order_acquire);
    return sum;
}

/* A node that was missed had its new bucket visited before the copy and its old one after the
 * clear, so the locks order its bump between the two sums. */
bool
cuckoo_each(const struct cuckoo *t, cuckoo_each_f *each, void *ctx)
{
    uint64_t before = cuckoo_moves(t);

    cuckoo_each_bucket(t, 0, cuckoo_buckets(t), each, ctx);
    return cuckoo_moves(t) == before;
}

void
cuckoo_stats(const struct cuckoo *t, struct cuckoo_stats *out)
{
    int64_t entries = 0;

    OBJ_CHECK(t, CUCKOO_MAGIC);
    memset(out, 0, sizeof(*out));
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        for (size_t i = 0; i <= t->stripe_mask; i++) {
            const struct cuckoo_stripe *s = &t->stripes[side][i];

            entries += atomic_load_explicit(&s->entries, memory_order_relaxed);
            out->moved += atomic_load_explicit(&s->moved, memory_order_relaxed);
            out->evicted += atomic_load_explicit(&s->evicted, memory_order_relaxed);
        }
    }
    /* A node that entered behind our back and left before us counts as less than nothing. */
    out->entries = entries > 0 ? (uint64_t)entries : 0;
    out->capacity = UINT64_C(1) << t->conf.bits;
    out->load = (double)out->entries / (double)out->capacity;
    out->retried = atomic_load_explicit(&t->luck->retried, memory_order_relaxed);
    out->locked = atomic_load_explicit(&t->luck->locked, memory_order_relaxed);
    out->bytes = cuckoo_bytes(t->conf.bits, t->conf.slots);
    out->bits = t->conf.bits;
    out->slots = t->conf.slots;
}

void
cuckoo_occupancy(const struct cuckoo *t, uint64_t buckets[CUCKOO_SLOTS_MAX + 1])
{
    memset(buckets, 0, (CUCKOO_SLOTS_MAX + 1) * sizeof(buckets[0]));
    for (size_t n = 0; n < cuckoo_buckets(t); n++) {
        const struct cuckoo_slot *bucket = cuckoo_bucket(t, cuckoo_nth_place(t, n));
        unsigned used = 0;

        for (unsigned i = 0; i < cuckoo_slots(t); i++)
            used += cuckoo_load(&bucket[i]) != 0;
        buckets[used]++;
    }
}
