/* cache_priv.h -- what the files of cache/ share. */
#ifndef TARN_CACHE_PRIV_H
#define TARN_CACHE_PRIV_H

#include <pthread.h>

#include "daemon/cache/ban_priv.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/invalidation.h"
#include "daemon/cache/removal.h"
#include "daemon/shm/counters.h"
#include "storage/storage.h"

/* Entries that may leave.  The lock is a leaf: taken under a key's guard, or under none. */
struct evict {
    pthread_mutex_t lock;
    struct evict_queue queue;   /* under lock; sizes are KiB, stamps are ticks */
    struct evict_ghost *ghosts; /* memory of the store's, set once; NULL: the policy has none */
    size_t nghosts;
    /* What the counters have been given; under lock. */
    uint64_t shown_small, shown_main, shown_ghost_hits;
};

enum {
    CACHE_CHANGES = 1024,
    /* What one miss does for an index that doubles, which needs 1 bucket for 7 of them to be through
     * before the next time; and the largest it begins, for to make room for more takes a while. */
    INDEX_TEND_BUCKETS = 8,
    INDEX_TEND_BYTES = 4 << 20,
};

#define CACHE_MAGIC OBJ_TAG('c', 'a', 'c', 'h')
struct cache {
    uint32_t magic;
    struct cuckoo *index;
    struct storage *storage;
    struct counters *counters;
    struct evict evict;
    /* When a key was last invalidated, by its hash: what is not in the index then, because it is
     * late, learns it from here.  A count, not a time; several keys may share one. */
    _Atomic uint32_t changes[CACHE_CHANGES];
    struct bans bans;
    struct removals removals;
    struct negative *negative; /* set before the first lookup; NULL: there is none */
    /* invalidation.c; set before other threads run */
    const struct invalidation_log *log; /* NULL: none */
    struct invalidation_resolver resolver;
    bool leased; /* the same: what is stored is fresh until then at most */
    _Atomic int64_t trusted_ms;
};

/* There is one cache in a process, so that entries need not say which is theirs; from cache_open()
 * to cache_close(). */
extern struct cache *cache_of_all;

static inline _Atomic uint32_t *
cache_changes(struct cache *c, const struct hash128 *key)
{
    return &c->changes[key->lo % CACHE_CHANGES];
}

enum entry_use {
    ENTRY_USE,       /* as it is */
    ENTRY_USE_STALE, /* as it is, and refresh it */
    ENTRY_ASK_FIRST, /* the origin, whether it is still good */
};

/* What a walk along the entries of a key found. */
struct cache_choice {
    struct cache *cache;    /* in */
    struct cuckoo_guard *g; /* in: of the key; NULL: it is not locked */
    uint32_t expected;      /* in: cache_variant() of this request; 0: not known */
    struct entry *use;      /* may be used as it is */
    struct entry *stale;    /* may be used, and should be refreshed */
    struct entry *marker;   /* what came last was not for the cache */
    struct entry *old;      /* to validate or to complete */
    struct entry *busy;     /* being fetched */
    struct entry *varies;   /* READY, with a Vary: others under this key will have it too */
    unsigned nbusy;         /* how many are */
    enum cache_reason reason;
};

static inline struct entry *
entry_of_node(struct cuckoo_node *node)
{
    return node == NULL ? NULL : container_of(node, struct entry, node);
}

/* The index's reference goes, behind the grace period. */
void entry_on_grace(struct rcu_head *head);
/* cache.c, for the files that make outcomes. */
void entry_outcome(struct entry *e, enum entry_state state);
/* What the new response replaces: same selecting headers, or long dead. */
void cache_supersede(struct cache *c, struct cuckoo_guard *g, struct entry *e);
/* For the one file more that makes them (recoded.c). */
void entry_set_next(struct entry *e, struct entry *next); /* under the guard of its key */
void entry_set_response(struct entry *e, const struct cache_response *r);
uint32_t entry_charge_kb(const struct cache *c, const struct entry *e);
void cache_mark_tags(struct cache *c, struct cuckoo_guard *g, const struct entry *e);
/* Where the negative cache lies: it is charged to the store like everything else. */
struct cuckoo_memory cache_negative_memory(struct cache *c);

/* cache_negative.c: nothing usable is stored.  Is it known that there is nothing, and may this
 * request be told so?  If only the second is not: *reason is CACHE_ASKED. */
bool cache_is_absent(struct cache *c, const struct cache_query *q, struct negative_answer *out,
    enum cache_reason *reason);

bool entry_matches(const struct entry *e, const struct cache_query *q);
bool entry_is_settled(const struct entry *e);
void cache_choose(struct cache_choice *c, struct entry *first, const struct cache_query *q);
/* cache.c: what comes of it; cache_heed_marker() first. */
void cache_heed_marker(struct cache_choice *choice, const struct cache_query *q);
enum cache_verdict cache_judge(struct cache *c, const struct cache_query *q,
    const struct cache_choice *choice, bool room, struct cache_answer *out, bool *fetches);
/* A number for what this request selects, if the response to come varies as `e` does; not 0. */
uint32_t cache_variant(const struct entry *e, const struct cache_query *q);
struct entry *cache_choose_stale(struct cache *c, struct entry *first, const struct cache_query *q);

/* A private one is made even when the store is full: its number is bounded by the clients'. */
struct entry *entry_new(struct cache *c, unsigned refs, bool is_private);
/* 0 or TERR_NOMEM.  When the block is set: a part that is the whole needs no memory. */
int entry_set_parts(struct entry *e, const struct entry_part *parts, unsigned n);
/* NULL: no memory.  `must`: from the heap, if need be; one a fetch. */
struct entry_parts *entry_parts_new(const struct entry_part *parts, unsigned n, bool must);
/* Memory for the entry's block with `len` bytes of text and so many tags; NULL: none, or from the
 * heap when it is a private one's. */
struct entry_block *entry_block_new(struct entry *e, size_t len, unsigned ntags);

/* The response, in a block of its own.  0 or TERR_NOMEM. */
int entry_set_block(struct entry *e, const struct cache_response *r);
void entry_block_free(struct entry *e);

static inline size_t
entry_block_size(const struct entry *e)
{
    const struct entry_block *b = e->block;

    return b->ntags * sizeof(uint64_t) + sizeof(*b) + b->head_len + b->vary_len + b->key_len +
           b->has_rare * sizeof(struct entry_rare) + b->fields_len;
}

/* It has left the index, under the guard of its key: the index's hold goes after a grace period,
 * which begins with its outcome if that is still to come. */
void entry_retire(struct entry *e);
/* A soft purge at that time: stale from then on.  Was it fresh until this call? */
bool entry_make_stale(struct entry *e, int64_t now_ms);
/* Under the guard of its key.  The index's hold goes after a grace period. */
void cache_unlink_locked(struct cache *c, struct cuckoo_guard *g, struct entry *e);
/* Unless it was unlinked before; `g` NULL: under a guard of its own. */
void cache_unlink_under(struct cache *c, struct cuckoo_guard *g, struct entry *e);
/* Is it banned?  Then it has been unlinked.  The entry's word is read first: see ban_list.c. */
static inline bool
cache_is_banned(
    struct cache *c, struct cuckoo_guard *g, struct entry *e, const struct cache_query *q)
{
    const struct ban *tested = entry_ban(e);

    return __builtin_expect(tested != bans_newest(&c->bans), 0) && bans_hit(c, e, q->req, g);
}

/* policy: its name; NULL: s3-fifo.  0; TERR_NOMEM; TERR_CONFIG: there is none of this name. */
int evict_init(struct evict *ev, struct storage *st, uint64_t storage_bytes, const char *policy);
void evict_fini(struct evict *ev, struct storage *st);
/* Once for an entry, under the guard of its key.  size_kb: what its going gives back. */
void evict_add(struct cache *c, struct entry *e, uint32_t size_kb);
/* Always legal: it may not be there yet, or not any more. */
void evict_remove(struct cache *c, struct entry *e);
/* `e` is about to take the place of `old`, and is as much used; under the guard of their key. */
void evict_inherit(struct cache *c, struct entry *e, const struct entry *old);
/* storage_set_evictor's callback; ctx is the cache. */
uint64_t evict_make_room(void *ctx, uint64_t bytes);

#endif
