/* ban_list.c -- the list of bans, and how far along it each entry has been tested.
 *
 * A ban that a lookup may still go to is not dropped: a thread that moves an entry from `seen` to
 * `upto` counts upto first and then exchanges the entry's word.  If the exchange succeeds, the
 * entry has held `seen` all the time, for entries never go back; seen is older, and only the
 * oldest is ever dropped, so upto was in the list.  If it fails, the count is taken back from
 * memory that RCU keeps.  A new entry has held nothing: it counts the newest and looks whether
 * it still is; the newest is never dropped, and the dropper looks at the count after it saw a
 * newer one (all of this sequentially consistent).
 *
 * Why completed and equal bans may be left out: a killed entry is marked (`ban_killed`) before the
 * lurker stores `completed`, so a thread that leaves a completed ban out sees the mark when it
 * moves the entry, if not before.  An equal ban counts for walks that begin at it or later; and an
 * entry's word is always read before `newest`, so a thread that finds how far such a walk took an
 * entry begins at least as far up. */
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/terr.h"
#include "daemon/cache/cache_priv.h"

/* 60 s, 1000, 10 ms, 0, true: Varnish's. */
static const struct bans_conf bans_conf_default = {
    .lurker_age_ms = 60 * 1000,
    .lurker_batch = 1000,
    .lurker_sleep_ms = 10,
    .cutoff = 0,
    .dups = true,
};

/* What an entry holds that matched a ban: a lookup that finds it does not use the entry. */
static struct ban ban_killed = {.magic = BAN_MAGIC, .seq = UINT64_MAX};

enum {
    BAN_TRIM_MAX = 1000, /* dropped in one go, under the lock: 0.1 ms */
};

static struct cache *
bans_cache(struct bans *b)
{
    return container_of(b, struct cache, bans);
}

int
bans_init(struct bans *b, uint64_t storage_bytes)
{
    struct ban *first = calloc(1, sizeof(*first));

    if (first == NULL)
        return TERR_NOMEM;
    *first = (struct ban){.magic = BAN_MAGIC, .seq = 1};
    /* A ban that bans nothing: so every entry has one to hold, and the list is never empty. */
    atomic_init(&first->completed, true);
    pthread_mutex_init(&b->lock, NULL);
    list_init(&b->tags_due);
    list_init(&b->walk.asked);
    b->conf = bans_conf_default;
    b->bytes_max =
        storage_bytes / BANS_SHARE < BANS_BYTES_MAX ? storage_bytes / BANS_SHARE : BANS_BYTES_MAX;
    b->oldest = first;
    atomic_init(&b->newest, first);
    return 0;
}

void
bans_fini(struct bans *b)
{
    struct ban *ban = bans_newest(b), *older;

    tag_walk_forget(b);
    for (; ban != NULL; ban = older) {
        older = atomic_load_explicit(&ban->older, memory_order_relaxed);
        /* No entry is left, so a pass that was cut short has the only reference there may be. */
        tassert(atomic_load(&ban->refs) == (ban == b->pass.upto));
        ban_free(ban);
    }
    pthread_mutex_destroy(&b->lock);
}

void
bans_configure(struct bans *b, const struct bans_conf *conf)
{
    pthread_mutex_lock(&b->lock);
    b->conf = *conf;
    pthread_mutex_unlock(&b->lock);
}

/* ---- Entries ---- */

void
ban_ref(struct ban *b)
{
    OBJ_CHECK(b, BAN_MAGIC);
    atomic_fetch_add(&b->refs, 1);
}

void
ban_unref(struct ban *b)
{
    uint64_t were = atomic_fetch_sub(&b->refs, 1);

    tassert(were > 0);
}

void
bans_attach(struct bans *b, struct entry *e)
{
    for (;;) {
        struct ban *newest = atomic_load(&b->newest);

        ban_ref(newest);
        if (atomic_load(&b->newest) == newest) {
            atomic_init(&e->ban, newest);
            return;
        }
        ban_unref(newest);
    }
}

/* `e` is as old as `of`, and tested as far.  Counted first, as above: while `of` holds it, it is in the list. */
bool
bans_attach_as(struct entry *e, const struct entry *of)
{
    for (;;) {
        struct ban *held = entry_ban(of);

        if (held == &ban_killed)
            return false;
        ban_ref(held);
        if (entry_ban(of) == held) {
            bans_detach(e);
            atomic_store(&e->ban, held);
            return true;
        }
        ban_unref(held);
    }
}

void
bans_detach(struct entry *e)
{
    struct ban *held = entry_ban(e);

    /* That one counts no references. */
    if (held != NULL && held != &ban_killed)
        ban_unref(held);
}

/* One exchange, so of all threads that find the same match one counts the entry (T4). */
bool
ban_kill(struct entry *e)
{
    struct ban *held = atomic_exchange(&e->ban, &ban_killed);

    if (held == &ban_killed)
        return false;
    ban_unref(held);
    return true;
}

bool
ban_move(struct entry *e, struct ban *seen, struct ban *upto)
{
    /* Counted first: see above. */
    ban_ref(upto);
    if (atomic_compare_exchange_strong(&e->ban, &(struct ban *){seen}, upto)) {
        ban_unref(seen);
        return true;
    }
    ban_unref(upto);
    return false;
}

void
ban_count(struct cache *c, struct ban *b)
{
    /* Only purges tell how many there were. */
    if (b == NULL || !ban_is_purge(b))
        return;
    atomic_fetch_add_explicit(&b->purged, 1, memory_order_relaxed);
    counter_add_shared(c->counters, b->soft ? COUNTER_cache_purged_soft : COUNTER_cache_purged, 1);
}

enum removal
ban_removal(const struct ban *b)
{
    if (b == NULL || !ban_is_purge(b))
        return REMOVAL_BANNED;
    return b->all ? REMOVAL_PURGED : REMOVAL_TAGGED;
}

/* ---- Walks ---- */

bool
ban_is_done(const struct ban *b, uint64_t from_seq, bool unseen)
{
    uint64_t equal = atomic_load_explicit(&b->equal_from, memory_order_acquire);

    return (equal != 0 && equal <= from_seq) ||
           (!unseen && atomic_load_explicit(&b->completed, memory_order_acquire));
}

bool
ban_walk(struct ban_walk *w, struct entry *e, const struct ban *seen, struct ban **upto)
{
    struct ban_subject s; /* its fields are many: only what is needed is set */
    struct ban *b = w->from, *older;

    s.e = e;
    s.req = w->req;
    s.parsed = false;
    w->hit = NULL;
    *upto = b;
    /* NULL: another thread has moved the entry meanwhile, and `seen` was dropped. */
    for (; b != NULL && b != seen; b = older) {
        older = atomic_load_explicit(&b->older, memory_order_acquire);
        if (ban_is_done(b, w->from->seq, w->unseen))
            continue;
        if (b->needs_request && w->req == NULL) {
            /* Untested here, so the entry must not go past it: a later lookup has a request. */
            *upto = older;
            continue;
        }
        /* Counted on the stack, and added up once: a hit may pass many bans. */
        w->tested++;
        if (!ban_matches(b, &s, &w->tests))
            continue;
        if (!b->soft || w->unseen) {
            w->hit = b;
            return true;
        }
        /* A soft one does not end the walk: a harder one may stand behind it. */
        if (entry_make_stale(e, b->mono_ms))
            ban_count(cache_of_all, b);
    }
    return false;
}

/* Off the hit path: something is new. */
bool
bans_hit(struct cache *c, struct entry *e, const struct http_message *req, struct cuckoo_guard *g)
{
    struct ban_walk w = {.req = req};
    struct ban *seen, *upto;
    bool banned = false;

    for (;;) {
        seen = entry_ban(e);
        w.from = bans_newest(&c->bans);
        if (seen == w.from)
            break;
        banned = seen == &ban_killed || ban_walk(&w, e, seen, &upto);
        /* It fails where another thread moved the entry: from there on anew. */
        if (banned || ban_move(e, seen, upto))
            break;
    }
    if (w.tested > 0) {
        counter_add_shared(c->counters, COUNTER_bans_tested, w.tested);
        counter_add_shared(c->counters, COUNTER_bans_tests_tested, w.tests);
    }
    if (!banned)
        return false;
    if (ban_kill(e)) {
        counter_add_shared(c->counters, COUNTER_bans_obj_killed, 1);
        ban_count(c, w.hit);
        removals_note(&c->removals, &e->node.key, ban_removal(w.hit));
    }
    cache_unlink_under(c, g, e);
    return true;
}

bool
bans_fresh(struct cache *c, struct entry *e)
{
    struct ban_walk w = {.unseen = true};
    struct ban *seen, *upto;

    for (;;) {
        seen = entry_ban(e);
        w.from = bans_newest(&c->bans);
        if (seen == w.from)
            return false;
        if (seen == &ban_killed)
            return true;
        if (ban_walk(&w, e, seen, &upto))
            break;
        if (upto == seen || ban_move(e, seen, upto))
            return false;
    }
    if (ban_kill(e))
        counter_add_shared(c->counters, COUNTER_bans_obj_killed, 1);
    return true;
}

/* ---- The list ---- */

/* On RCU's thread: walks that stood on it are over. */
static void
ban_on_grace(struct rcu_later *later)
{
    ban_free(container_of(later, struct ban, later));
}

/* Walks may stand on the ban that leaves: the link to it is cut, and its memory stays for a grace
 * period. */
void
bans_trim(struct cache *c)
{
    struct bans *b = &c->bans;
    struct ban *newest = bans_newest(b);

    for (unsigned n = 0; n < BAN_TRIM_MAX; n++) {
        struct ban *old = b->oldest;

        /* The oldest alone is ever dropped: an entry that holds it has not been tested against the
         * next one. */
        if (old == newest || atomic_load(&old->refs) > 0)
            return;
        b->oldest = old->newer;
        atomic_store_explicit(&b->oldest->older, NULL, memory_order_release);
        b->bytes -= old->bytes;
        /* The first one is ours, and was never counted. */
        if (old->seq > 1) {
            counter_sub_shared(c->counters, COUNTER_bans_now, 1);
            counter_add_shared(c->counters, COUNTER_bans_deleted, 1);
            if (ban_is_done(old, newest->seq, false))
                counter_sub_shared(c->counters, COUNTER_bans_completed, 1);
        }
        rcu_free_later(&old->later, ban_on_grace);
    }
}

/* Equal older ones need not be tested by walks that test `new`. */
static void
bans_complete_equal(struct cache *c, const struct ban *new)
{
    struct ban *b = atomic_load_explicit(&new->older, memory_order_relaxed);

    for (; b != NULL; b = atomic_load_explicit(&b->older, memory_order_relaxed)) {
        if (b->hash != new->hash || ban_is_done(b, new->seq, false) ||
            !slice_eq(slice_of(b->text, b->text_len), slice_of(new->text, new->text_len)))
            continue;
        /* From this number on: a walk that began before still has to test it. */
        atomic_store_explicit(&b->equal_from, new->seq, memory_order_release);
        counter_add_shared(c->counters, COUNTER_bans_completed, 1);
        counter_add_shared(c->counters, COUNTER_bans_dups, 1);
        return; /* those before it have been completed by it */
    }
}

int
bans_put(struct cache *c, struct ban *ban, const struct clock *now)
{
    struct bans *b = &c->bans;
    struct ban *newest;

    ban->mono_ms = (int64_t)now->mono_ms;
    ban->wall_ms = now->wall_ms;
    pthread_mutex_lock(&b->lock);
    if (b->bytes + ban->bytes > b->bytes_max + (ban->all ? BANS_SPARE : 0)) {
        pthread_mutex_unlock(&b->lock);
        ban_free(ban);
        return TERR_LIMIT;
    }
    newest = bans_newest(b);
    ban->seq = newest->seq + 1;
    atomic_init(&ban->older, newest);
    /* Under the lock: only the trimming walks this way. */
    newest->newer = ban;
    b->bytes += ban->bytes;
    if (ban_is_purge(ban)) {
        ban_ref(ban);
        list_add_tail(&b->tags_due, &ban->due);
    }
    /* It is whole and in the list by now: lookups see it at once. */
    atomic_store(&b->newest, ban);
    if (ban->ntags == 0)
        cache_forget_absent(c); /* a name has no fields that could be tested; nor tags, ever */
    counter_add_shared(c->counters, COUNTER_bans_added, 1);
    counter_add_shared(c->counters, COUNTER_bans_now, 1);
    if (b->conf.dups && !ban->by_time)
        bans_complete_equal(c, ban);
    bans_trim(c);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

int
bans_add(
    struct bans *b, struct slice expression, const struct clock *now, char *why, size_t why_size)
{
    struct ban *ban;
    int err = ban_parse(&ban, expression, why, why_size);

    if (err == 0)
        err = bans_put(bans_cache(b), ban, now);
    if (err == TERR_LIMIT)
        snprintf(why, why_size, "too many bans: they take %zu KiB; those on obj.* alone complete",
            b->bytes_max >> 10);
    return err;
}

uint64_t
bans_bytes(struct bans *b)
{
    size_t bytes;

    pthread_mutex_lock(&b->lock);
    bytes = b->bytes;
    pthread_mutex_unlock(&b->lock);
    return bytes;
}

void
bans_each(struct bans *b, bans_each_f *each, void *ctx)
{
    const struct ban *ban = bans_newest(b);

    /* The first one has no text. */
    while (ban != NULL && ban->seq > 1) {
        struct ban_info info = {
            .text = slice_of(ban->text, ban->text_len),
            .wall_ms = ban->wall_ms,
            .refs = atomic_load_explicit(&ban->refs, memory_order_relaxed),
            .completed = ban_is_done(ban, UINT64_MAX, false),
            .of_request = ban->needs_request,
        };

        if (!each(ctx, &info))
            return;
        ban = atomic_load_explicit(&ban->older, memory_order_acquire);
    }
}
