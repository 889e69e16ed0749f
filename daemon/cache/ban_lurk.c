/* ban_lurk.c -- the lurker: tests in the background what no request asks for.
 *
 * A pass goes along the index, bucket by bucket, and brings every entry up to the newest ban
 * that was old enough when the pass began, or to the first one in its way that needs a request.
 * What is tested is collected under the bucket's lock and tested without it.
 *
 * When a pass has missed nothing, every READY entry was tested against each ban up to that one
 * but those of requests, so these are completed.  What can be missed: a node that was moved (the
 * index counts moves), and an entry that is still BUSY and older than the ban.  What is not in
 * the index until its outcome is tested then, against completed ones too (bans_fresh). */
#include "daemon/cache/cache_priv.h"

enum {
    /* A bucket has 8 keys; each may have LIMIT_VARIANTS responses, and as many being fetched. */
    LURK_BUCKET_MAX = CUCKOO_SLOTS_MAX * 2 * (LIMIT_VARIANTS + 1),
    LURK_BUCKETS_PER_ENTRY = 8, /* empty ones are quick, but not free */
    LURK_TESTS_PER_ENTRY = 16,  /* comparisons: a step stays a few milliseconds long */
    LURK_IDLE_MS = 1000,        /* looks for dropped entries' bans as often */
    LURK_AGAIN_MS = 5000,       /* before a pass for what the last one missed */
};

/* One bucket's entries that must be looked at; the lurker's stack. */
struct lurk_bucket {
    const struct ban_pass *pass;
    unsigned n, seen;
    bool full;
    struct entry *entries[LURK_BUCKET_MAX];
};

/* Under the bucket's lock, where requests may wait: it only collects.  What is collected stays
 * readable without the lock, for this thread is online. */
static void
lurk_on_node(void *ctx, struct cuckoo_guard *g, const struct cuckoo_seen *seen)
{
    struct lurk_bucket *k = ctx;
    struct entry *e = container_of(seen->node, struct entry, node);

    (void)g;
    for (; e != NULL; e = entry_next(e)) {
        uint64_t at = entry_ban(e)->seq; /* killed: the greatest */

        k->seen++;
        if (at > k->pass->cutoff_seq && (k->pass->upto == NULL || at >= k->pass->upto->seq))
            continue;
        if (k->n == LURK_BUCKET_MAX)
            k->full = true;
        else
            k->entries[k->n++] = e;
    }
}

/* `by`: NULL, or the ban that matches. */
static void
lurk_kill(struct cache *c, struct entry *e, enum counter why, struct ban *by)
{
    if (ban_kill(e)) {
        counter_add_shared(c->counters, why, 1);
        ban_count(c, by);
        removals_note(&c->removals, &e->node.key, ban_removal(by));
    }
    cache_unlink_under(c, NULL, e);
}

static void
lurk_entry(struct cache *c, struct ban_pass *p, struct entry *e, struct ban_walk *w)
{
    struct ban *seen = entry_ban(e), *upto;

    switch (entry_state(e)) {
    case ENTRY_BUSY:
        /* Its fetch may have begun before the ban, and it is tested only with its outcome. */
        p->whole = false;
        return;
    case ENTRY_FAILED:
        return;
    case ENTRY_READY:
    case ENTRY_HITMISS:
        break;
    }
    if (seen->seq <= p->cutoff_seq) {
        lurk_kill(c, e, COUNTER_bans_lurker_obj_killed_cutoff, NULL);
        return;
    }
    if (p->upto == NULL || seen->seq >= p->upto->seq)
        return; /* a lookup was faster */
    w->from = p->upto;
    if (ban_walk(w, e, seen, &upto))
        lurk_kill(c, e, COUNTER_bans_lurker_obj_killed, w->hit);
    else if (upto != NULL && upto != seen)
        ban_move(e, seen, upto); /* or another thread does */
}

/* One bucket; returns how many entries it has. */
static unsigned
lurk_bucket(struct cache *c, struct ban_pass *p, struct ban_walk *w)
{
    struct lurk_bucket k;

    k.pass = p;
    k.n = k.seen = 0;
    k.full = false;
    cuckoo_each_next(c->index, &p->cursor, lurk_on_node, &k);
    for (unsigned i = 0; i < k.n; i++)
        lurk_entry(c, p, k.entries[i], w);
    if (k.full)
        p->whole = false;
    return k.seen;
}

/* Bounded three ways, so that the management loop turns soon: entries, comparisons, and buckets, of
 * which most may be empty. */
static void
lurk_step(struct cache *c, unsigned batch)
{
    struct ban_pass *p = &c->bans.pass;
    struct ban_walk w = {.req = NULL};
    uint64_t buckets = (uint64_t)batch * LURK_BUCKETS_PER_ENTRY, seen = 0;

    do
        seen += lurk_bucket(c, p, &w);
    while (p->cursor != 0 && --buckets > 0 && seen < batch &&
           w.tests < (uint64_t)batch * LURK_TESTS_PER_ENTRY);
    counter_add_shared(c->counters, COUNTER_bans_lurker_tested, w.tested);
    counter_add_shared(c->counters, COUNTER_bans_lurker_tests_tested, w.tests);
}

/* The newest ban that is old enough, NULL: none; *wait_ms: until one more is. */
static struct ban *
lurk_ripe(struct bans *b, int64_t now_ms, int64_t *wait_ms)
{
    struct ban *ban = bans_newest(b);

    for (; ban != NULL; ban = atomic_load_explicit(&ban->older, memory_order_relaxed)) {
        int64_t left = ban->mono_ms + b->conf.lurker_age_ms - now_ms;

        if (ban->seq == 1 || left <= 0)
            return ban->seq == 1 ? NULL : ban;
        if (left < *wait_ms)
            *wait_ms = left;
    }
    return NULL;
}

/* Does an entry hold a ban older than `seq`? */
static bool
lurk_is_behind(const struct bans *b, uint64_t seq)
{
    for (const struct ban *ban = b->oldest; ban != NULL && ban->seq < seq; ban = ban->newer)
        if (atomic_load_explicit(&ban->refs, memory_order_relaxed) > 0)
            return true;
    return false;
}

/* Under the lock.  Begins a pass if there is anything to do. */
static void
lurk_begin(struct cache *c, int64_t now_ms, int64_t *wait_ms)
{
    struct bans *b = &c->bans;
    struct ban_pass *p = &b->pass;
    struct ban *upto = lurk_ripe(b, now_ms, wait_ms);
    uint64_t newest = bans_newest(b)->seq, cutoff = 0;
    bool due = false;

    if (b->conf.cutoff > 0 && newest > b->conf.cutoff &&
        lurk_is_behind(b, newest - b->conf.cutoff + 1))
        cutoff = newest - b->conf.cutoff;
    if (upto != NULL && upto->seq > p->done_seq)
        due = lurk_is_behind(b, upto->seq);
    else if (upto != NULL && p->again && now_ms >= p->again_at_ms)
        due = lurk_is_behind(b, upto->seq);
    if (!due && cutoff == 0)
        return;
    if (upto != NULL)
        atomic_fetch_add(&upto->refs, 1); /* it is in the list, and only we drop from that */
    p->upto = upto;
    p->cutoff_seq = cutoff;
    p->cursor = 0;
    p->moves = cuckoo_moves(c->index);
    p->whole = true;
    p->running = true;
}

/* Under the lock. */
static void
lurk_end(struct cache *c, int64_t now_ms)
{
    struct ban_pass *p = &c->bans.pass;
    struct ban *b = p->upto;

    p->running = false;
    p->again = !p->whole || cuckoo_moves(c->index) != p->moves;
    p->again_at_ms = now_ms + LURK_AGAIN_MS;
    if (b == NULL)
        return;
    p->done_seq = b->seq;
    for (; !p->again && b != NULL; b = atomic_load_explicit(&b->older, memory_order_relaxed)) {
        if (b->needs_request || atomic_load_explicit(&b->completed, memory_order_relaxed))
            continue;
        if (!ban_is_done(b, UINT64_MAX, false))
            counter_add_shared(c->counters, COUNTER_bans_completed, 1);
        atomic_store_explicit(&b->completed, true, memory_order_release);
    }
    atomic_fetch_sub(&p->upto->refs, 1);
    p->upto = NULL;
}

/* On the management loop (manage_on_lurk()).  The list's lock is not held over the step, so a ban
 * can be added meanwhile. */
int64_t
bans_lurk(struct bans *b, int64_t now_ms)
{
    struct cache *c = container_of(b, struct cache, bans);
    struct ban_pass *p = &b->pass;
    int64_t wait_ms = LURK_IDLE_MS, sleep_ms;
    unsigned batch;

    tassert_slow(rcu_is_online());
    pthread_mutex_lock(&b->lock);
    bans_trim(c);
    sleep_ms = b->conf.lurker_sleep_ms;
    batch = b->conf.lurker_batch;
    if (!p->running && sleep_ms > 0)
        lurk_begin(c, now_ms, &wait_ms);
    pthread_mutex_unlock(&b->lock);
    if (!p->running || sleep_ms <= 0)
        return wait_ms > 0 ? wait_ms : 1;
    lurk_step(c, batch);
    if (p->cursor == 0) {
        pthread_mutex_lock(&b->lock);
        lurk_end(c, now_ms);
        bans_trim(c);
        pthread_mutex_unlock(&b->lock);
    }
    return sleep_ms;
}
