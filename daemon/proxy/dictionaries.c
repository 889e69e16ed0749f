/* dictionaries.c -- a few dozen at most, so they are looked through one by one. */
#include "daemon/proxy/dictionaries.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "storage/storage.h"

enum {
    DICTIONARY_HASH = 32,
};

#define DICTIONARY_MAGIC OBJ_TAG('d', 'i', 'c', 't')
struct dictionary {
    uint32_t magic;
    unsigned refs; /* the table's, and one for each that holds it; under the lock */
    uint8_t hash[DICTIONARY_HASH];
    struct hash128 site;
    uint64_t used; /* the table's count of uses when it was found last */
    size_t len;
    char bytes[];
};

#define DICTIONARIES_MAGIC OBJ_TAG('d', 'i', 'c', 's')
struct dictionaries {
    uint32_t magic;
    struct storage *storage;
    uint64_t most, bytes; /* of all that are in the table */
    uint64_t uses;
    pthread_mutex_t lock;
    struct dictionary *of[DICTIONARIES_MAX]; /* NULL: free */
    /* The beginnings of their hashes, for a look without the lock; 0: none. */
    _Atomic uint64_t marks[DICTIONARIES_MAX];
};

int
dictionaries_open(struct dictionaries **out, struct storage *storage, uint64_t most)
{
    struct dictionaries *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return TERR_NOMEM;
    d->magic = DICTIONARIES_MAGIC;
    d->storage = storage;
    d->most = most;
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return 0;
}

static size_t
dictionary_size(size_t len)
{
    return sizeof(struct dictionary) + len;
}

/* Under the lock. */
static void
dictionary_unref(struct dictionaries *d, struct dictionary *dict)
{
    size_t size = dictionary_size(dict->len);

    tassert(dict->refs > 0);
    if (--dict->refs > 0)
        return;
    OBJ_BURY(dict);
    storage_free(d->storage, dict, size, CHARGE_HEAD);
}

/* Under the lock. */
static void
dictionaries_remove(struct dictionaries *d, unsigned i)
{
    struct dictionary *dict = d->of[i];

    tassert(dict != NULL && d->bytes >= dictionary_size(dict->len));
    d->of[i] = NULL;
    atomic_store_explicit(&d->marks[i], 0, memory_order_relaxed);
    d->bytes -= dictionary_size(dict->len);
    dictionary_unref(d, dict);
}

void
dictionaries_close(struct dictionaries **dp)
{
    struct dictionaries *d;

    OBJ_TAKE(d, dp, DICTIONARIES_MAGIC);
    for (unsigned i = 0; i < DICTIONARIES_MAX; i++) {
        if (d->of[i] == NULL)
            continue;
        tassert(d->of[i]->refs == 1);
        dictionaries_remove(d, i);
    }
    tassert(d->bytes == 0);
    pthread_mutex_destroy(&d->lock);
    OBJ_FREE(d);
}

uint64_t
dictionaries_largest(const struct dictionaries *d)
{
    return d->most / 4;
}

static uint64_t
dictionary_mark(const uint8_t *hash)
{
    uint64_t mark;

    memcpy(&mark, hash, sizeof(mark));
    return mark | 1; /* never that of a free place */
}

/* The one used longest ago, of those that are there; DICTIONARIES_MAX: none is. */
static unsigned
dictionaries_oldest(const struct dictionaries *d)
{
    unsigned oldest = DICTIONARIES_MAX;

    for (unsigned i = 0; i < DICTIONARIES_MAX; i++)
        if (d->of[i] != NULL &&
            (oldest == DICTIONARIES_MAX || d->of[i]->used < d->of[oldest]->used))
            oldest = i;
    return oldest;
}

static bool
dictionary_is(const struct dictionary *dict, const uint8_t *hash, const struct hash128 *site)
{
    return dict != NULL && memcmp(dict->hash, hash, DICTIONARY_HASH) == 0 &&
           dict->site.lo == site->lo && dict->site.hi == site->hi;
}

/* A place for so many bytes more; under the lock. */
static unsigned
dictionaries_place(struct dictionaries *d, size_t size)
{
    unsigned free = 0;

    while (d->bytes + size > d->most)
        dictionaries_remove(d, dictionaries_oldest(d));
    while (free < DICTIONARIES_MAX && d->of[free] != NULL)
        free++;
    if (free == DICTIONARIES_MAX) {
        free = dictionaries_oldest(d);
        dictionaries_remove(d, free);
    }
    return free;
}

/* Its memory comes before the lock, for that may evict. */
bool
dictionaries_add(
    struct dictionaries *d, const uint8_t hash[32], const struct hash128 *site, struct slice bytes)
{
    size_t size = dictionary_size(bytes.len);
    struct dictionary *dict;
    unsigned i;

    OBJ_CHECK(d, DICTIONARIES_MAGIC);
    if (bytes.len == 0 || size > dictionaries_largest(d))
        return false;
    dict = storage_alloc(d->storage, size, CHARGE_HEAD);
    if (dict == NULL)
        return false;
    *dict =
        (struct dictionary){.magic = DICTIONARY_MAGIC, .refs = 1, .site = *site, .len = bytes.len};
    memcpy(dict->hash, hash, DICTIONARY_HASH);
    memcpy(dict->bytes, bytes.ptr, bytes.len);
    pthread_mutex_lock(&d->lock);
    dict->used = ++d->uses;
    for (i = 0; i < DICTIONARIES_MAX && !dictionary_is(d->of[i], hash, site); i++)
        ;
    if (i < DICTIONARIES_MAX) {
        d->of[i]->used = dict->used;
        dictionary_unref(d, dict);
    } else {
        i = dictionaries_place(d, size);
        d->of[i] = dict;
        d->bytes += size;
        atomic_store_explicit(&d->marks[i], dictionary_mark(hash), memory_order_relaxed);
    }
    pthread_mutex_unlock(&d->lock);
    return true;
}

bool
dictionaries_may_have(const struct dictionaries *d, const uint8_t hash[32])
{
    uint64_t mark = dictionary_mark(hash);

    for (unsigned i = 0; i < DICTIONARIES_MAX; i++)
        if (atomic_load_explicit(&d->marks[i], memory_order_relaxed) == mark)
            return true;
    return false;
}

struct dictionary *
dictionaries_find(struct dictionaries *d, const uint8_t hash[32], const struct hash128 *site)
{
    struct dictionary *found = NULL;

    OBJ_CHECK(d, DICTIONARIES_MAGIC);
    pthread_mutex_lock(&d->lock);
    for (unsigned i = 0; i < DICTIONARIES_MAX; i++) {
        struct dictionary *dict = d->of[i];

        if (dict == NULL || !dictionary_is(dict, hash, site))
            continue;
        dict->used = ++d->uses;
        dict->refs++;
        found = dict;
        break;
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

void
dictionaries_drop(struct dictionaries *d, struct dictionary **dict)
{
    OBJ_CHECK(d, DICTIONARIES_MAGIC);
    pthread_mutex_lock(&d->lock);
    dictionary_unref(d, *dict);
    pthread_mutex_unlock(&d->lock);
    *dict = NULL;
}

struct slice
dictionary_bytes(const struct dictionary *dict)
{
    return slice_of(dict->bytes, dict->len);
}

const uint8_t *
dictionary_hash_of(const struct dictionary *dict)
{
    return dict->hash;
}
