/* cuckoo_open.c -- size, build and tear down a cuckoo table. */
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/terr.h"
#include "daemon/cache/cuckoo_priv.h"

static bool
cuckoo_shape_is_good(unsigned bits, unsigned slots)
{
    return (slots == 4 || slots == 8) && bits >= CUCKOO_BITS_MIN && bits <= CUCKOO_BITS_MAX;
}

/* Random keys begin to need victims at a load of 0.977 with 4 slots and 0.998 with 8 (the
 * thresholds of cuckoo hashing with two choices); well below them paths are short. */
unsigned
cuckoo_bits_for(uint64_t entries, unsigned slots)
{
    unsigned percent = slots == 8 ? 90 : 85;
    unsigned bits = CUCKOO_BITS_MIN;

    tassert(cuckoo_shape_is_good(bits, slots));
    while (bits < CUCKOO_BITS_MAX && (UINT64_C(1) << bits) * percent / 100 < entries)
        bits++;
    return bits;
}

static size_t
cuckoo_side_bytes(unsigned bits)
{
    return ((size_t)1 << (bits - 1)) * sizeof(struct cuckoo_slot);
}

/* Stripes of one side: not more than buckets, so that doubling leaves them as they are. */
static size_t
cuckoo_stripe_count(unsigned bits, unsigned slots)
{
    size_t buckets = ((size_t)1 << (bits - 1)) / slots;

    return buckets < CUCKOO_STRIPES_MAX ? buckets : CUCKOO_STRIPES_MAX;
}

size_t
cuckoo_bytes(unsigned bits, unsigned slots)
{
    tassert(cuckoo_shape_is_good(bits, slots));
    return 2 * cuckoo_side_bytes(bits) +
           2 * cuckoo_stripe_count(bits, slots) * sizeof(struct cuckoo_stripe) +
           sizeof(struct cuckoo_moves) + sizeof(struct cuckoo_luck) + sizeof(struct cuckoo);
}

static void *
cuckoo_alloc(const struct cuckoo_memory *m, size_t bytes)
{
    size_t align = bytes >= CUCKOO_HUGE ? CUCKOO_HUGE : CUCKOO_LINE;
    void *p = m->alloc(m->ctx, bytes, align);

    tassert(((uintptr_t)p & (align - 1)) == 0);
    if (p != NULL && align == CUCKOO_HUGE)
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish; without it lookups are just slower */
    return p;
}

static void
cuckoo_release(const struct cuckoo_memory *m, void *p, size_t bytes)
{
    if (p != NULL)
        m->free(m->ctx, p, bytes);
}

static void
cuckoo_stripes_init(struct cuckoo_stripe *stripes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int err = pthread_mutex_init(&stripes[i].lock, NULL);

        tassert(err == 0);
    }
}

static void
cuckoo_stripes_fini(struct cuckoo_stripe *stripes, size_t count)
{
    for (size_t i = 0; stripes != NULL && i < count; i++) {
        int err = pthread_mutex_destroy(&stripes[i].lock);

        tassert(err == 0); /* else a guard is still held */
    }
}

/* Copes with a half-built table. */
static void
cuckoo_free(struct cuckoo *t)
{
    struct cuckoo_memory m = t->conf.memory;
    size_t stripes = t->stripe_mask + 1;

    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        cuckoo_release(&m, t->side[side], cuckoo_side_bytes(t->conf.bits));
        cuckoo_stripes_fini(t->stripes[side], stripes);
        cuckoo_release(&m, t->stripes[side], stripes * sizeof(struct cuckoo_stripe));
    }
    cuckoo_release(&m, t->moves, sizeof(*t->moves));
    cuckoo_release(&m, t->luck, sizeof(*t->luck));
    OBJ_BURY(t);
    cuckoo_release(&m, t, sizeof(*t));
}

/* Everything that `t` points to.  False: no memory, and `t` is half built. */
static bool
cuckoo_build(struct cuckoo *t)
{
    const struct cuckoo_memory *m = &t->conf.memory;
    size_t stripes = t->stripe_mask + 1;

    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        t->stripes[side] = cuckoo_alloc(m, stripes * sizeof(struct cuckoo_stripe));
        if (t->stripes[side] == NULL)
            return false;
        cuckoo_stripes_init(t->stripes[side], stripes);
        t->side[side] = cuckoo_alloc(m, cuckoo_side_bytes(t->conf.bits));
        if (t->side[side] == NULL)
            return false;
    }
    t->moves = cuckoo_alloc(m, sizeof(*t->moves));
    t->luck = cuckoo_alloc(m, sizeof(*t->luck));
    return t->moves != NULL && t->luck != NULL;
}

int
cuckoo_open(struct cuckoo **out, const struct cuckoo_conf *conf)
{
    struct cuckoo *t;

    tassert(conf->usefulness != NULL);
    if (!cuckoo_shape_is_good(conf->bits, conf->slots))
        return TERR_CONFIG;
    t = cuckoo_alloc(&conf->memory, sizeof(*t));
    if (t == NULL)
        return TERR_NOMEM;

    t->magic = CUCKOO_MAGIC;
    t->conf = *conf;
    t->slots_log2 = conf->slots == 8 ? 3 : 2;
    t->bucket_mask = ((size_t)1 << (conf->bits - 1 - t->slots_log2)) - 1;
    t->stripe_mask = cuckoo_stripe_count(conf->bits, conf->slots) - 1;
    tassert(t->stripe_mask <= t->bucket_mask);
    if (!cuckoo_build(t)) {
        cuckoo_free(t);
        return TERR_NOMEM;
    }
    *out = t;
    return 0;
}

void
cuckoo_close(struct cuckoo **tp)
{
    struct cuckoo *t;

    OBJ_TAKE(t, tp, CUCKOO_MAGIC);
    cuckoo_free(t);
}
