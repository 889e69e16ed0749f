/* tag_purge.c -- purges by tag and of everything, and the walk that finds what has the tags.
 *
 * A million entries are two million places in memory: the entry, and its block, in front of which
 * the hashes lie.  Looked at one after the other each would be waited for; so a batch of entries is
 * taken from the index, which asks for the first line of each, then the blocks of those that may have a
 * tag are asked for, and then they are compared. */
#include "daemon/cache/tag_purge.h"

#include "daemon/base/clock.h"
#include "daemon/base/terr.h"
#include "daemon/base/waiter.h"
#include "daemon/cache/cache_priv.h"
#include "daemon/http/tags.h"

enum {
    TAG_BATCH = 256,          /* entries asked for together: 32 KiB of lines */
    TAG_SLICE = 8192,         /* what a slice may cost: an entry is 1, and so is a bucket */
    TAG_COST_FOUND = 16,      /* one that leaves */
    TAG_WALK_EVERY_MS = 1000, /* when no purge waits for it */
};
_Static_assert(TAG_BATCH % CUCKOO_SLOTS_MAX == 0, "whole buckets fit");

/* ---- Purges ---- */

static bool
tags_are_sane(const struct slice *tags, unsigned n)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < n; i++) {
        if (tags[i].len == 0 || tags[i].len > TAGS_BYTES_MAX)
            return false;
        bytes += tags[i].len + 1;
    }
    return n > 0 && n <= TAG_PURGE_MAX && bytes <= TAG_PURGE_TEXT_MAX;
}

static void
tag_ban_say(struct ban *b, struct slice text)
{
    memcpy(b->text + b->text_len, text.ptr, text.len);
    b->text_len += (uint32_t)text.len;
}

#define TAG_BAN_TEXT "purge-tag --soft"

/* Its text is the command that does the same; NULL: no memory. */
static struct ban *
tag_ban_new(const struct slice *tags, unsigned n, bool soft)
{
    size_t bytes = sizeof(struct ban) + n * sizeof(uint64_t) + sizeof(TAG_BAN_TEXT);
    struct ban *b;
    uint64_t *hashes;

    for (unsigned i = 0; i < n; i++)
        bytes += tags[i].len + 1;
    b = calloc(1, bytes);
    if (b == NULL)
        return NULL;
    hashes = (uint64_t *)(void *)b->tests;
    b->magic = BAN_MAGIC;
    b->bytes = bytes;
    b->soft = soft;
    b->by_time = true; /* two with the same text may mean other tags: these may have spaces */
    b->tags = hashes;
    b->ntags = (uint16_t)n;
    b->text = (char *)(hashes + n);
    tag_ban_say(b, soft ? SLICE_LIT("purge-tag --soft") : SLICE_LIT("purge-tag"));
    for (unsigned i = 0; i < n; i++) {
        hashes[i] = tag_hash(tags[i]);
        tag_ban_say(b, SLICE_LIT(" "));
        tag_ban_say(b, tags[i]);
    }
    return b;
}

/* The ban that everything matches; NULL: no memory. */
static struct ban *
tag_ban_of_all(bool soft)
{
    const struct slice text = soft ? SLICE_LIT("purge --all --soft") : SLICE_LIT("purge --all");
    size_t bytes = sizeof(struct ban) + text.len;
    struct ban *b = calloc(1, bytes);

    if (b == NULL)
        return NULL;
    b->magic = BAN_MAGIC;
    b->bytes = bytes;
    b->soft = soft;
    b->by_time = true; /* a soft one counts from when it came: from then on things are stale */
    b->all = true;
    b->text = (char *)b->tests;
    tag_ban_say(b, text);
    return b;
}

/* Takes the ban.  On TERR_LIMIT bans_put() has freed it, so `p` was not queued and is not to be
 * ended. */
static int
tag_purge_put(struct cache *c, struct ban *b, const struct clock *now, struct tag_purge *p)
{
    if (b == NULL)
        return TERR_NOMEM;
    /* Before others can see it: from the list it could be dropped at once. */
    if (p != NULL) {
        ban_ref(b);
        p->ban = b;
    }
    if (bans_put(c, b, now) != 0)
        return TERR_LIMIT;
    if (p != NULL)
        list_add_tail(&c->bans.walk.asked, &p->link);
    return 0;
}

int
tag_purge_start(struct cache *c, const struct slice *tags, unsigned ntags, bool soft,
    const struct clock *now, struct tag_purge *p)
{
    int err;

    OBJ_CHECK(c, CACHE_MAGIC);
    if (!tags_are_sane(tags, ntags))
        return TERR_INVALID;
    err = tag_purge_put(c, tag_ban_new(tags, ntags, soft), now, p);
    if (err == 0)
        counter_add_shared(c->counters, COUNTER_cache_tag_purges, 1);
    return err;
}

int
tag_purge_start_all(struct cache *c, bool soft, const struct clock *now, struct tag_purge *p)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    return tag_purge_put(c, tag_ban_of_all(soft), now, p);
}

bool
tag_purge_is_done(const struct tag_purge *p, uint64_t *how_many)
{
    *how_many = atomic_load_explicit(&p->ban->purged, memory_order_relaxed);
    return atomic_load_explicit(&p->ban->walked, memory_order_relaxed);
}

void
tag_purge_end(struct cache *c, struct tag_purge *p)
{
    OBJ_CHECK(c, CACHE_MAGIC);
    list_del(&p->link);
    ban_unref(p->ban);
    p->ban = NULL;
}

/* ---- The walk ---- */

static unsigned
tag_filter_bit(uint64_t hash)
{
    return (unsigned)(hash % (TAG_FILTER_WORDS * 64));
}

static bool
tag_filter_has(const struct tag_walk *w, uint64_t hash)
{
    unsigned bit = tag_filter_bit(hash);

    return (w->filter[bit / 64] >> bit % 64 & 1) != 0;
}

static void
tag_walk_add(struct tag_walk *w, struct ban *b)
{
    w->bans[w->nbans++] = b;
    w->all |= b->all;
    for (unsigned i = 0; i < b->ntags; i++) {
        unsigned bit = tag_filter_bit(b->tags[i]);

        w->filter[bit / 64] |= UINT64_C(1) << bit % 64;
        w->bits |= tag_bit(b->tags[i]);
        w->marks |= tag_mark(b->tags[i], CUCKOO_MARKS);
    }
}

/* Takes what is due, the oldest first; or nothing, if there is time. */
static void
tag_walk_begin(struct bans *b, int64_t now_ms)
{
    struct tag_walk *w = &b->walk;

    if (list_empty(&w->asked) && now_ms < w->ended_ms + TAG_WALK_EVERY_MS)
        return;
    memset(w->filter, 0, sizeof(w->filter));
    w->bits = 0;
    w->all = false;
    w->marks = 0;
    w->cursor = 0;
    pthread_mutex_lock(&b->lock);
    /* The references of the due list are the walk's from here on. */
    while (!list_empty(&b->tags_due) && w->nbans < TAG_WALK_BANS) {
        struct ban *ban = container_of(b->tags_due.next, struct ban, due);

        list_del(&ban->due);
        tag_walk_add(w, ban);
    }
    pthread_mutex_unlock(&b->lock);
}

/* Everything was looked at: the waiters are notified. */
static void
tag_walk_end(struct bans *b, int64_t now_ms)
{
    struct tag_walk *w = &b->walk;

    for (unsigned i = 0; i < w->nbans; i++) {
        /* Before the reference goes, with which the ban may be dropped. */
        atomic_store_explicit(&w->bans[i]->walked, true, memory_order_relaxed);
        ban_unref(w->bans[i]);
    }
    w->nbans = 0;
    w->ended_ms = now_ms;
    for (struct list *l = w->asked.next; l != &w->asked; l = l->next)
        task_wake(container_of(l, struct tag_purge, link)->task);
}

/* At the end of the cache, when no lurker runs any more: so without the lock. */
void
tag_walk_forget(struct bans *b)
{
    struct tag_walk *w = &b->walk;

    tassert(list_empty(&w->asked));
    for (unsigned i = 0; i < w->nbans; i++)
        ban_unref(w->bans[i]);
    w->nbans = 0;
    while (!list_empty(&b->tags_due)) {
        struct ban *ban = container_of(b->tags_due.next, struct ban, due);

        list_del(&ban->due);
        ban_unref(ban);
    }
}

/* Entries on their way from memory; the walker's stack. */
struct tag_batch {
    unsigned n;
    struct entry *entries[TAG_BATCH];
};

/* Whole buckets, as many as fit; returns how many. */
static unsigned
tag_batch_take(struct cache *c, struct tag_walk *w, struct tag_batch *k)
{
    struct cuckoo_node *nodes[CUCKOO_SLOTS_MAX];
    unsigned buckets = 0;

    k->n = 0;
    do {
        unsigned n = cuckoo_peek_next(c->index, &w->cursor, w->all ? 0 : w->marks, nodes);

        for (unsigned i = 0; i < n; i++) {
            struct entry *e = container_of(nodes[i], struct entry, node);

            __builtin_prefetch(e);
            k->entries[k->n++] = e;
        }
        buckets++;
    } while (w->cursor != 0 && k->n + CUCKOO_SLOTS_MAX <= TAG_BATCH && buckets < TAG_BATCH);
    return buckets;
}

/* Of most a byte of their own says that they have none of the tags: 59 of 100 that have four tags,
 * for a purge by one.  Their blocks need not come from memory, of which each is a page apart. */
static inline bool
tag_walk_may_have(const struct tag_walk *w, const struct entry *e)
{
    return entry_state(e) == ENTRY_READY && (e->tag_bits & w->bits) != 0;
}

/* The blocks of the others; what hangs behind the first of a key waits for its own. */
static void
tag_batch_ask(const struct tag_walk *w, const struct tag_batch *k)
{
    for (unsigned i = 0; i < k->n; i++) {
        const struct entry *e = k->entries[i];

        if (!tag_walk_may_have(w, e))
            continue;
        __builtin_prefetch(e->block);
        __builtin_prefetch((const char *)e->block - sizeof(uint64_t));
    }
}

/* Perhaps; or certainly not. */
static inline bool
tag_walk_may_find(const struct tag_walk *w, const struct entry *e)
{
    const uint64_t *tags;

    /* Markers too: of what came before the purge nothing is left, or counts. */
    if (w->all)
        return entry_state(e) == ENTRY_READY || entry_state(e) == ENTRY_HITMISS;
    if (!tag_walk_may_have(w, e)) /* what is not ready is tested when it is (bans_fresh) */
        return false;
    tags = entry_tags(e);
    for (unsigned i = 0; i < e->block->ntags; i++)
        if (tag_filter_has(w, tags[i]))
            return true;
    return e->block->any_tag;
}

/* The purges in the order they came; what is stored since then is newer than they are. */
static void
tag_walk_found(struct cache *c, const struct tag_walk *w, struct entry *e)
{
    for (unsigned i = 0; i < w->nbans; i++) {
        struct ban *b = w->bans[i];

        if (entry_ban(e)->seq >= b->seq || !ban_purges(b, e)) /* killed: the greatest */
            continue;
        if (b->soft) {
            if (entry_make_stale(e, b->mono_ms))
                ban_count(c, b);
            continue;
        }
        if (ban_kill(e)) {
            ban_count(c, b);
            removals_note(&c->removals, &e->node.key, ban_removal(b));
        }
        cache_unlink_under(c, NULL, e);
        return;
    }
}

/* Returns what it cost. */
static unsigned
tag_batch_compare(struct cache *c, const struct tag_walk *w, const struct tag_batch *k)
{
    unsigned cost = 0;

    for (unsigned i = 0; i < k->n; i++) {
        struct entry *next;

        for (struct entry *e = k->entries[i]; e != NULL; e = next) {
            next = entry_next(e);
            cost++;
            if (!tag_walk_may_find(w, e))
                continue;
            tag_walk_found(c, w, e);
            cost += TAG_COST_FOUND;
        }
    }
    return cost;
}

/* On the management loop (manage_on_lurk()).  A slice ends after a bounded cost, so that bans,
 * timers and the admin's requests do not wait for a walk over millions of entries. */
bool
tag_purge_walk(struct cache *c, int64_t now_ms)
{
    struct bans *b = &c->bans;
    struct tag_walk *w = &b->walk;
    struct tag_batch k;
    unsigned cost = 0;

    OBJ_CHECK(c, CACHE_MAGIC);
    tassert_slow(rcu_is_online());
    if (w->nbans == 0)
        tag_walk_begin(b, now_ms);
    if (w->nbans == 0)
        return false;
    do {
        cost += tag_batch_take(c, w, &k);
        tag_batch_ask(w, &k);
        cost += tag_batch_compare(c, w, &k);
    } while (w->cursor != 0 && cost < TAG_SLICE);
    if (w->cursor == 0)
        tag_walk_end(b, now_ms);
    return w->nbans > 0;
}
