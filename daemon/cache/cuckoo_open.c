/* cuckoo_open.c -- size, build and tear down a cuckoo table. */
#include <sched.h>
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
    /* At most the load at which it would double. */
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
cuckoo_shape_bytes(unsigned bits)
{
    return 2 * cuckoo_side_bytes(bits) + sizeof(struct cuckoo_shape);
}

size_t
cuckoo_bytes(unsigned bits, unsigned slots)
{
    tassert(cuckoo_shape_is_good(bits, slots));
    return cuckoo_shape_bytes(bits) +
           2 * cuckoo_stripe_count(bits, slots) * sizeof(struct cuckoo_stripe) +
           sizeof(struct cuckoo);
}

static void *
cuckoo_take(const struct cuckoo_memory *m, size_t bytes)
{
    /* A bucket is a cache line, so that a lookup costs one or two misses; large tables are on huge
     * pages for the TLB. */
    size_t align = bytes >= CUCKOO_HUGE ? CUCKOO_HUGE : CUCKOO_LINE;
    void *p = m->alloc(m->ctx, bytes, align);

    tassert(((uintptr_t)p & (align - 1)) == 0);
    if (p != NULL && align == CUCKOO_HUGE)
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish; without it lookups are just slower */
    return p;
}

/* Memory of the table's, counted; not zeroed.  NULL: none left. */
static void *
cuckoo_alloc(struct cuckoo *t, size_t bytes)
{
    void *p = cuckoo_take(&t->conf.memory, bytes);

    if (p != NULL)
        /* Relaxed: a figure for operators. */
        atomic_fetch_add_explicit(&t->growth.bytes, bytes, memory_order_relaxed);
    return p;
}

static void
cuckoo_release(struct cuckoo *t, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    t->conf.memory.free(t->conf.memory.ctx, p, bytes);
    atomic_fetch_sub_explicit(&t->growth.bytes, bytes, memory_order_relaxed);
}

struct cuckoo_shape *
cuckoo_shape_new(struct cuckoo *t, unsigned bits)
{
    struct cuckoo_shape *s = cuckoo_alloc(t, sizeof(*s));

    if (s == NULL)
        return NULL;
    *s = (struct cuckoo_shape){/* Half of the slots are on each side. */
        .bits = bits,
        .bucket_mask = ((size_t)1 << (bits - 1 - t->slots_log2)) - 1,
        .table = t};
    /* Not zeroed: doubling fills bucket after bucket, and cuckoo_build() does it itself. */
    s->side[CUCKOO_A] = cuckoo_alloc(t, cuckoo_side_bytes(bits));
    if (s->side[CUCKOO_A] != NULL)
        s->side[CUCKOO_B] = cuckoo_alloc(t, cuckoo_side_bytes(bits));
    if (s->side[CUCKOO_B] == NULL) {
        cuckoo_shape_free(t, s);
        return NULL;
    }
    return s;
}

/* Copes with one that is half built. */
void
cuckoo_shape_free(struct cuckoo *t, struct cuckoo_shape *s)
{
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++)
        cuckoo_release(t, s->side[side], cuckoo_side_bytes(s->bits));
    cuckoo_release(t, s, sizeof(*s));
}

static struct cuckoo_stripe *
cuckoo_stripes_new(struct cuckoo *t, size_t count)
{
    struct cuckoo_stripe *stripes = cuckoo_alloc(t, count * sizeof(*stripes));

    if (stripes == NULL)
        return NULL;
    memset(stripes, 0, count * sizeof(*stripes));
    for (size_t i = 0; i < count; i++) {
        int err = pthread_mutex_init(&stripes[i].lock, NULL);

        tassert(err == 0);
    }
    return stripes;
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
    /* A copy: it frees `t`, too. */
    struct cuckoo_memory m = t->conf.memory;
    struct cuckoo_shape *s = cuckoo_shape(t), *next;
    size_t stripes = t->stripe_mask + 1;

    /* Two, where it was closed while it doubled. */
    for (; s != NULL; s = next) {
        next = s->next;
        cuckoo_shape_free(t, s);
    }
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        cuckoo_stripes_fini(t->stripes[side], stripes);
        cuckoo_release(t, t->stripes[side], stripes * sizeof(struct cuckoo_stripe));
    }
    pthread_mutex_destroy(&t->growth.lock);
    tassert(atomic_load(&t->growth.bytes) == sizeof(*t)); /* what was counted was given back */
    OBJ_BURY(t);
    m.free(m.ctx, t, sizeof(*t));
}

/* Everything that `t` points to.  False: no memory, and `t` is half built. */
static bool
cuckoo_build(struct cuckoo *t)
{
    struct cuckoo_shape *s;

    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++) {
        t->stripes[side] = cuckoo_stripes_new(t, t->stripe_mask + 1);
        if (t->stripes[side] == NULL)
            return false;
    }
    s = cuckoo_shape_new(t, t->conf.bits);
    /* Also NULL: cuckoo_free() asks for it. */
    atomic_store_explicit(&t->shape, s, memory_order_release);
    if (s == NULL)
        return false;
    /* A bucket has one stripe, in this shape and in all larger ones. */
    tassert(t->stripe_mask <= s->bucket_mask);
    for (enum cuckoo_side side = CUCKOO_A; side <= CUCKOO_B; side++)
        memset(s->side[side], 0, cuckoo_side_bytes(s->bits));
    return true;
}

int
cuckoo_open(struct cuckoo **out, const struct cuckoo_conf *conf)
{
    struct cuckoo *t;

    tassert(conf->usefulness != NULL);
    if (!cuckoo_shape_is_good(conf->bits, conf->slots) || conf->bits_max > CUCKOO_BITS_MAX)
        return TERR_CONFIG;
    t = cuckoo_take(&conf->memory, sizeof(*t));
    if (t == NULL)
        return TERR_NOMEM;

    memset(t, 0, sizeof(*t));
    t->magic = CUCKOO_MAGIC;
    t->conf = *conf;
    /* Not said: it never doubles. */
    if (t->conf.bits_max < conf->bits)
        t->conf.bits_max = conf->bits;
    t->slots_log2 = conf->slots == 8 ? 3 : 2;
    t->stripe_mask = cuckoo_stripe_count(conf->bits, conf->slots) - 1;
    pthread_mutex_init(&t->growth.lock, NULL);
    atomic_init(&t->growth.bytes, sizeof(*t));
    atomic_init(&t->growth.bits, conf->bits);
    cuckoo_plan_growth(t, conf->bits);
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
    tassert(atomic_load(&t->growth.retiring) == 0 || !rcu_is_online()); /* else it never ends */
    /* RCU's thread gives a shape back through `t`, which therefore outlives the last of them. */
    while (atomic_load_explicit(&t->growth.retiring, memory_order_acquire) > 0)
        sched_yield();
    cuckoo_free(t);
}
