/* negative.c -- the negative cache: two sides of buckets, read under a sequence number.
 *
 * Writers hold one mutex: they come once for each fetch at most, which costs a hundred times more.
 * Readers take no lock.  Every word they read is atomic, and the bucket's sequence number says
 * whether the words belong together (after Boehm, "Can seqlocks get along with programming
 * language memory models?", MSPC 2012, but with no fence: ThreadSanitizer does not see fences):
 *
 *   writer   seq becomes odd (relaxed); words are stored, each with release; seq becomes even
 *            (release)
 *   reader   loads seq (acquire), until it is even; loads words, each with acquire; loads seq
 *            again (relaxed): the same number, or the words count for nothing
 *
 * Proof.  Let a reader see seq = s, even, both times.  (1) What it reads is not older than s: its
 * first load of s is an acquire of the release store that made it so, and all words stored before
 * that happen before its loads.  (2) Nor newer: a word of a later write was stored with release
 * after seq = s + 1 was; the reader that loads this word with acquire has s + 1 happen before its
 * second load of seq, which cannot give s then (coherence).  So the words are those of s, all of
 * one time.  The number would have to go round, 2^31 writes within one look, for this to fail.
 *
 * No entry ever moves, so a key that is there is not missed: a holder of its guard, under which
 * alone it is put in, and looks at both its buckets, sees it, or sees that others took its place.
 */
#include "daemon/cache/negative.h"

#include <pthread.h>
#include <stdatomic.h>

#include "conf/conf.h"
#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cuckoo.h"
#include "daemon/shm/counters.h"

enum {
    NEGATIVE_SLOTS = 5, /* with the two numbers they fill two lines */
    NEGATIVE_PER_PAIR =
        8,               /* entries asked for, to the ten slots of a pair of buckets: see README */
    NEGATIVE_LOOKS = 16, /* a write is a few stores; a writer may have been put to sleep */
    NEGATIVE_LINE = 64,
    NEGATIVE_AGE_UNIT = 125, /* ms */
    NEGATIVE_AGE_BITS = 23,  /* 12 days */
    NEGATIVE_END_BITS = 40,  /* ms: 34 years of uptime */
};

/* `what` is 0, and the slot free, or: the end of its life (40 bits), 410 instead of 404 (1), and the
 * age it will have by then (23). */
struct negative_slot {
    _Atomic uint64_t lo, hi, what;
};

struct negative_bucket {
    _Atomic uint32_t seq;        /* odd: it is being written */
    _Atomic uint32_t generation; /* of all its slots; not the table's: they are free */
    struct negative_slot slots[NEGATIVE_SLOTS];
};
_Static_assert(sizeof(struct negative_bucket) == 2 * NEGATIVE_LINE, "two lines, no more");
_Static_assert(
    2 * sizeof(struct negative_bucket) == NEGATIVE_PER_PAIR * NEGATIVE_ENTRY_BYTES, "as promised");
_Static_assert(NEGATIVE_ENTRY_BYTES == CONF_NEGATIVE_ENTRY_BYTES, "what the file's check says");
_Static_assert(NEGATIVE_TTL_MAX_MS == CONF_D, "what the file's key says");

#define NEGATIVE_MAGIC OBJ_TAG('n', 'e', 'g', 'c')
struct negative {
    uint32_t magic;
    _Atomic uint32_t generation; /* stored under the lock */
    struct negative_bucket *sides[2];
    uint64_t nbuckets; /* of a side */
    struct cuckoo_memory memory;
    struct counters *counters;
    char apart[NEGATIVE_LINE]; /* readers' words above, writers' below */
    pthread_mutex_t lock;      /* a leaf: taken under a key's guard, or under none */
    struct negative_stats stats;
};

static uint64_t
negative_buckets(uint64_t entries)
{
    return (entries + NEGATIVE_PER_PAIR - 1) / NEGATIVE_PER_PAIR;
}

uint64_t
negative_bytes(uint64_t entries)
{
    return 2 * negative_buckets(entries) * sizeof(struct negative_bucket) + sizeof(struct negative);
}

/* Copes with a half-built one. */
static void
negative_free(struct negative *n)
{
    struct cuckoo_memory m = n->memory;
    size_t bytes = n->nbuckets * sizeof(struct negative_bucket);

    for (unsigned i = 0; i < 2; i++)
        if (n->sides[i] != NULL)
            m.free(m.ctx, n->sides[i], bytes);
    pthread_mutex_destroy(&n->lock);
    OBJ_BURY(n);
    m.free(m.ctx, n, sizeof(*n));
}

int
negative_open(struct negative **out, uint64_t entries, const struct cuckoo_memory *memory,
    struct counters *counters)
{
    struct negative *n = memory->alloc(memory->ctx, sizeof(*n), NEGATIVE_LINE);
    size_t bytes;

    tassert(entries > 0);
    if (n == NULL)
        return TERR_NOMEM;
    n->magic = NEGATIVE_MAGIC;
    n->memory = *memory;
    n->counters = counters;
    n->nbuckets = negative_buckets(entries);
    n->stats = (struct negative_stats){.entries_max = entries, .bytes = negative_bytes(entries)};
    atomic_init(&n->generation, 1); /* zeroed buckets are of an older one */
    pthread_mutex_init(&n->lock, NULL);
    bytes = n->nbuckets * sizeof(struct negative_bucket);
    for (unsigned i = 0; i < 2; i++) {
        n->sides[i] = memory->alloc(memory->ctx, bytes, NEGATIVE_LINE);
        if (n->sides[i] == NULL) {
            negative_free(n);
            return TERR_NOMEM;
        }
    }
    *out = n;
    return 0;
}

void
negative_close(struct negative **np)
{
    struct negative *n;

    OBJ_TAKE(n, np, NEGATIVE_MAGIC);
    negative_free(n);
}

/* The halves of the key are independent hashes; a high half of 32 bits is spread over any number. */
static struct negative_bucket *
negative_bucket(const struct negative *n, unsigned side, const struct hash128 *key)
{
    uint64_t h = (side == 0 ? key->lo : key->hi) >> 32;

    return &n->sides[side][h * n->nbuckets >> 32];
}

static uint64_t
negative_pack(const struct negative_fact *fact)
{
    int64_t ttl = fact->ttl_ms < NEGATIVE_TTL_MAX_MS ? fact->ttl_ms : NEGATIVE_TTL_MAX_MS;
    uint64_t end = (uint64_t)(fact->now_ms + ttl);
    uint64_t age = (uint64_t)(fact->age_ms + ttl) / NEGATIVE_AGE_UNIT;

    tassert(fact->status == 404 || fact->status == 410);
    tassert(ttl > 0 && fact->now_ms >= 0 && fact->age_ms >= 0);
    tassert(end >> NEGATIVE_END_BITS == 0);
    if (age >> NEGATIVE_AGE_BITS != 0)
        age = (UINT64_C(1) << NEGATIVE_AGE_BITS) - 1;
    return end | (uint64_t)(fact->status == 410) << NEGATIVE_END_BITS |
           age << (NEGATIVE_END_BITS + 1);
}

static int64_t
negative_end_ms(uint64_t what)
{
    return (int64_t)(what & ((UINT64_C(1) << NEGATIVE_END_BITS) - 1));
}

static void
negative_unpack(uint64_t what, int64_t now_ms, struct negative_answer *out)
{
    int64_t age_ms = (int64_t)(what >> (NEGATIVE_END_BITS + 1)) * NEGATIVE_AGE_UNIT;

    out->left_ms = negative_end_ms(what) - now_ms;
    out->status = (what >> NEGATIVE_END_BITS & 1) != 0 ? 410 : 404;
    out->age_ms = age_ms > out->left_ms ? age_ms - out->left_ms : 0;
}

/* One look at a bucket: see the proof above. */
static enum negative_found
negative_look(
    const struct negative_bucket *b, const struct hash128 *key, uint32_t generation, uint64_t *what)
{
    for (unsigned look = 0; look < NEGATIVE_LOOKS; look++) {
        uint32_t seq = atomic_load_explicit(&b->seq, memory_order_acquire);
        uint64_t found = 0;

        if ((seq & 1) != 0)
            continue;
        if (atomic_load_explicit(&b->generation, memory_order_acquire) == generation) {
            for (unsigned i = 0; i < NEGATIVE_SLOTS && found == 0; i++) {
                const struct negative_slot *s = &b->slots[i];

                if (atomic_load_explicit(&s->lo, memory_order_acquire) == key->lo &&
                    atomic_load_explicit(&s->hi, memory_order_acquire) == key->hi)
                    found = atomic_load_explicit(&s->what, memory_order_acquire);
            }
        }
        if (atomic_load_explicit(&b->seq, memory_order_relaxed) != seq)
            continue;
        *what = found;
        return found != 0 ? NEGATIVE_PRESENT : NEGATIVE_ABSENT;
    }
    return NEGATIVE_UNSURE;
}

/* In either bucket, expired or not. */
static enum negative_found
negative_seek(const struct negative *n, const struct hash128 *key, uint64_t *what)
{
    uint32_t generation = atomic_load_explicit(&n->generation, memory_order_acquire);
    const struct negative_bucket *second = negative_bucket(n, 1, key);
    enum negative_found a, b;

    __builtin_prefetch(second);
    a = negative_look(negative_bucket(n, 0, key), key, generation, what);
    if (a == NEGATIVE_PRESENT)
        return a;
    b = negative_look(second, key, generation, what);
    return b == NEGATIVE_ABSENT ? a : b;
}

enum negative_found
negative_find(const struct negative *n, const struct hash128 *key, int64_t now_ms,
    struct negative_answer *out)
{
    enum negative_found found;
    uint64_t what;

    OBJ_CHECK(n, NEGATIVE_MAGIC);
    found = negative_seek(n, key, &what);
    if (found != NEGATIVE_PRESENT)
        return found;
    negative_unpack(what, now_ms, out);
    return out->left_ms > 0 ? NEGATIVE_PRESENT : NEGATIVE_ABSENT;
}

uint32_t
negative_generation(const struct negative *n)
{
    OBJ_CHECK(n, NEGATIVE_MAGIC);
    return atomic_load_explicit(&n->generation, memory_order_acquire);
}

/* --- writers, under the lock --- */

static uint64_t
negative_word(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed); /* no other thread stores */
}

static bool
negative_is_now(const struct negative *n, const struct negative_bucket *b)
{
    return atomic_load_explicit(&b->generation, memory_order_relaxed) ==
           atomic_load_explicit(&n->generation, memory_order_relaxed);
}

static uint64_t
negative_what(const struct negative *n, const struct negative_bucket *b, unsigned i)
{
    return negative_is_now(n, b) ? negative_word(&b->slots[i].what) : 0;
}

/* Where a key is, or is to go. */
struct negative_place {
    struct negative_bucket *bucket; /* NULL: nowhere */
    unsigned slot;
    uint64_t was; /* what stands there: 0, of the key itself, expired, or of another */
};

static void
negative_where(const struct negative *n, const struct hash128 *key, struct negative_place *out)
{
    *out = (struct negative_place){.bucket = NULL};
    for (unsigned side = 0; side < 2 && out->bucket == NULL; side++) {
        struct negative_bucket *b = negative_bucket(n, side, key);

        for (unsigned i = 0; i < NEGATIVE_SLOTS; i++)
            if (negative_what(n, b, i) != 0 && negative_word(&b->slots[i].lo) == key->lo &&
                negative_word(&b->slots[i].hi) == key->hi)
                *out = (struct negative_place){b, i, negative_what(n, b, i)};
    }
}

/* How much room a bucket has, and which of its slots is the first to be taken. */
static unsigned
negative_room(
    const struct negative *n, struct negative_bucket *b, int64_t now_ms, struct negative_place *out)
{
    unsigned room = 0;

    *out = (struct negative_place){b, 0, negative_what(n, b, 0)};
    for (unsigned i = 0; i < NEGATIVE_SLOTS; i++) {
        uint64_t what = negative_what(n, b, i);

        room += negative_end_ms(what) <= now_ms;
        if (negative_end_ms(what) < negative_end_ms(out->was))
            *out = (struct negative_place){b, i, what};
    }
    return room;
}

/* The emptier bucket of the two, so that both fill evenly; when both are full, what ends first. */
static void
negative_choose(
    const struct negative *n, const struct hash128 *key, int64_t now_ms, struct negative_place *out)
{
    struct negative_place a, b;
    unsigned room_a = negative_room(n, negative_bucket(n, 0, key), now_ms, &a);
    unsigned room_b = negative_room(n, negative_bucket(n, 1, key), now_ms, &b);
    bool ends_first = negative_end_ms(b.was) < negative_end_ms(a.was);

    *out = room_b > room_a || (room_a + room_b == 0 && ends_first) ? b : a;
}

/* Under the lock, so `seq` has one writer.  A bucket of an older generation is emptied first: its
 * other slots would come back to life with the new number. */
static void
negative_store(
    struct negative *n, const struct negative_place *at, const struct hash128 *key, uint64_t what)
{
    struct negative_bucket *b = at->bucket;
    struct negative_slot *s = &b->slots[at->slot];
    uint32_t seq = atomic_load_explicit(&b->seq, memory_order_relaxed);

    tassert((seq & 1) == 0);
    atomic_store_explicit(&b->seq, seq + 1, memory_order_relaxed);
    if (!negative_is_now(n, b)) {
        for (unsigned i = 0; i < NEGATIVE_SLOTS; i++)
            atomic_store_explicit(&b->slots[i].what, 0, memory_order_release);
        atomic_store_explicit(&b->generation,
            atomic_load_explicit(&n->generation, memory_order_relaxed), memory_order_release);
    }
    atomic_store_explicit(&s->lo, key->lo, memory_order_release);
    atomic_store_explicit(&s->hi, key->hi, memory_order_release);
    atomic_store_explicit(&s->what, what, memory_order_release);
    atomic_store_explicit(&b->seq, seq + 2, memory_order_release);
}

static void
negative_count(struct negative *n, uint64_t *stat, enum counter id, uint64_t more)
{
    *stat += more;
    counter_add_shared(n->counters, id, more);
}

bool
negative_insert(struct negative *n, const struct hash128 *key, const struct negative_fact *fact,
    uint32_t generation)
{
    uint64_t what = negative_pack(fact);
    struct negative_place at;
    bool fits;

    OBJ_CHECK(n, NEGATIVE_MAGIC);
    pthread_mutex_lock(&n->lock);
    /* Compared under the lock that negative_drop() takes: what was asked for before a drop is never
     * put in behind it (N7). */
    fits = generation == atomic_load_explicit(&n->generation, memory_order_relaxed);
    if (fits) {
        negative_where(n, key, &at);
        if (at.bucket == NULL) {
            negative_choose(n, key, fact->now_ms, &at);
            if (at.was == 0)
                negative_count(n, &n->stats.entries, COUNTER_negative_entries, 1);
            else if (negative_end_ms(at.was) > fact->now_ms)
                negative_count(n, &n->stats.evicted, COUNTER_negative_evicted, 1);
        }
        negative_store(n, &at, key, what);
        negative_count(n, &n->stats.inserts, COUNTER_negative_inserts, 1);
    }
    pthread_mutex_unlock(&n->lock);
    return fits;
}

bool
negative_remove(struct negative *n, const struct hash128 *key)
{
    struct negative_place at;
    uint64_t what;

    OBJ_CHECK(n, NEGATIVE_MAGIC);
    if (negative_seek(n, key, &what) == NEGATIVE_ABSENT)
        return false; /* the usual: no other thread can have put it in */
    pthread_mutex_lock(&n->lock);
    negative_where(n, key, &at);
    if (at.bucket != NULL) {
        negative_store(n, &at, key, 0);
        negative_count(n, &n->stats.removed, COUNTER_negative_removed, 1);
        negative_count(n, &n->stats.entries, COUNTER_negative_entries, UINT64_MAX);
    }
    pthread_mutex_unlock(&n->lock);
    return at.bucket != NULL;
}

/* No slot is touched, however many there are: readers compare generations, and a bucket is emptied
 * by the next write into it. */
void
negative_drop(struct negative *n)
{
    uint64_t entries;

    OBJ_CHECK(n, NEGATIVE_MAGIC);
    pthread_mutex_lock(&n->lock);
    atomic_store_explicit(&n->generation,
        atomic_load_explicit(&n->generation, memory_order_relaxed) + 1, memory_order_release);
    entries = n->stats.entries;
    negative_count(n, &n->stats.dropped, COUNTER_negative_dropped, entries);
    negative_count(n, &n->stats.entries, COUNTER_negative_entries, 0 - entries);
    pthread_mutex_unlock(&n->lock);
}

void
negative_get_stats(struct negative *n, struct negative_stats *out)
{
    OBJ_CHECK(n, NEGATIVE_MAGIC);
    pthread_mutex_lock(&n->lock);
    *out = n->stats;
    out->generation = atomic_load_explicit(&n->generation, memory_order_relaxed);
    pthread_mutex_unlock(&n->lock);
}
