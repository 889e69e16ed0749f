/* cuckoo_race_test.c -- the index's promises while threads race; made for ThreadSanitizer.
 *
 *     cuckoo_race_test [LOOKUPS]
 *
 * Tests of crowds and one duel, in which a single key is moved to and fro under the eyes of its
 * readers; each makes LOOKUPS lookups of keys that are there all the time.  The default suits
 * ctest; for a torture give it 220000000 and a quarter of an hour.
 *
 * Tried against broken code, with 20000000, they notice a move without its bump, a clear before the
 * copy, a bump before the copy, one after the clear, a split that marks before it copies, and a
 * lookup that does not follow a mark.  A split that marks the first slot first they may not: the
 * window is as long as eight stores to one line, and that is left to the proof.
 *
 * The crowd: a small and nearly full table.  Two churners put in and take out filler keys, so
 * that nodes are moved all the time, and now and then replace the node of a lasting key.
 * Readers look up the lasting keys, which are in the table all the time: not finding one is the
 * failure.  The main thread walks.  Where the table grows it begins with a quarter of its size, and
 * they all split a bucket now and then; a round is over when its readers are through.
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/rcu.h"
#include "daemon/cache/cuckoo.h"
#include "t/unit/test.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

enum {
#if defined(__SANITIZE_THREAD__)
    LOOKUPS = 600 * 1000, /* of a test */
    MOVES_MIN = 50,
#else
    LOOKUPS = 12 * 1000 * 1000,
    MOVES_MIN = 1000,
#endif
    ROUND = 20 * 1000, /* lookups of one reader while one table grows */
    READERS = 2,
    CHURNERS = 2,
    BITS = 9,         /* 512 slots: every move is near every reader */
    LASTING = 128,    /* keys that never leave */
    FILLERS = 720,    /* keys of which half are in the table, on average: load 0.95 */
    GROWING_BITS = 7, /* of a table that grows to BITS */
    GROWING_LASTING = 32,
    GROWING_FILLERS = 880,
    FILLERS_MAX = GROWING_FILLERS,
    TURN = 64,            /* lookups between two quiescent states, as in one turn of a loop */
    FREES_PENDING = 8192, /* nodes waiting for a grace period before churners pause */
};

/* A key, and what its guard protects. */
struct holder {
    struct hash128 key;
    struct entry *entry; /* what is in the table */
    unsigned seen;       /* by the walk under way; main thread only */
};

struct entry {
    _Alignas(CUCKOO_ALIGN) struct cuckoo_node node;
    struct rcu_later later;
    struct holder *holder;
};

struct race {
    struct cuckoo *table;
    struct holder lasting[LASTING];
    struct holder fillers[FILLERS_MAX];
    unsigned nlasting, nfillers;
    unsigned long lookups; /* of one reader */
    atomic_bool stop;
    atomic_int waiting; /* threads still to come before the race begins */
    atomic_int reading; /* readers at work */
    atomic_int pending; /* entries waiting to be freed */
    atomic_ulong missed, wrong, ghosts, replaced;
    unsigned long unseen; /* by complete walks; counted, for a failed CHECK would leave threads */
};

static struct race race; /* zeroed, and too large for a stack */
static unsigned long lookups_wanted = LOOKUPS;

static void *
race_alloc(void *ctx __attribute__((unused)), size_t bytes, size_t align)
{
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);

    memset(p, 0xa5, bytes);
    return p;
}

static void
race_free(void *ctx __attribute__((unused)), void *p, size_t bytes __attribute__((unused)))
{
    free(p);
}

static bool
holder_is_lasting(const struct holder *h)
{
    return h >= race.lasting && h < race.lasting + LASTING;
}

static struct entry *
entry_of(const struct cuckoo_node *node)
{
    return (struct entry *)(uintptr_t)node;
}

static int
race_usefulness(const struct cuckoo_node *node)
{
    return holder_is_lasting(entry_of(node)->holder) ? INT_MAX : 0;
}

static struct entry *
entry_new(struct holder *h)
{
    struct entry *e = aligned_alloc(CUCKOO_ALIGN, sizeof(*e));

    e->node.key = h->key;
    e->holder = h;
    return e;
}

static void
entry_on_grace(struct rcu_later *later)
{
    struct entry *e = container_of(later, struct entry, later);

    memset(e, 0xdd, sizeof(*e)); /* who still reads it will notice */
    free(e);
    atomic_fetch_sub(&race.pending, 1);
}

static void
entry_retire(struct entry *e)
{
    atomic_fetch_add(&race.pending, 1);
    rcu_free_later(&e->later, entry_on_grace);
}

/* Put it in, as the cache would. */
static void
holder_insert(struct holder *h, struct cuckoo_guard *g)
{
    struct entry *e = entry_new(h);
    struct cuckoo_node *victim;

    while (
        cuckoo_find_locked(race.table, g) == NULL && cuckoo_insert(race.table, g, &e->node) < 0) {
        victim = cuckoo_make_room(race.table, g);
        if (victim != NULL) {
            tassert(!holder_is_lasting(entry_of(victim)->holder));
            entry_of(victim)->holder->entry = NULL; /* not our key, and yet ours to change */
            entry_retire(entry_of(victim));
        }
    }
    if (cuckoo_find_locked(race.table, g) == &e->node)
        h->entry = e;
    else
        free(e); /* the other churner was faster, and nobody saw ours */
}

/* In, if it is out; out, if it is in. */
static void
holder_toggle(struct holder *h)
{
    struct entry *out = NULL;
    struct cuckoo_guard g;

    cuckoo_lock(race.table, &h->key, &g);
    if (h->entry == NULL) {
        holder_insert(h, &g);
    } else {
        out = h->entry;
        tassert(cuckoo_find_locked(race.table, &g) == &out->node);
        cuckoo_remove(race.table, &g, &out->node);
        h->entry = NULL;
    }
    cuckoo_unlock(race.table, &g);
    if (out != NULL)
        entry_retire(out);
}

static void
holder_replace(struct holder *h)
{
    struct entry *e = entry_new(h), *old;
    struct cuckoo_guard g;

    cuckoo_lock(race.table, &h->key, &g);
    old = h->entry;
    cuckoo_replace(race.table, &g, &old->node, &e->node);
    h->entry = e;
    cuckoo_unlock(race.table, &g);
    entry_retire(old);
    atomic_fetch_add(&race.replaced, 1);
}

static unsigned
random_below(uint64_t *seed, unsigned n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*seed >> 33) % n);
}

/* All begin together, so that short rounds are races, too. */
static void
race_join(void)
{
    rcu_join();
    rcu_offline();
    atomic_fetch_sub(&race.waiting, 1);
    while (atomic_load(&race.waiting) > 0)
        sched_yield();
    rcu_online();
}

static void *
churner_run(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    race_join();
    for (unsigned turn = 0; !atomic_load(&race.stop); turn++) {
        holder_toggle(&race.fillers[random_below(&seed, race.nfillers)]);
        if (turn % 16 == 0)
            holder_replace(&race.lasting[random_below(&seed, race.nlasting)]);
        if (turn % 4 == 0)
            cuckoo_tend(race.table, 1, SIZE_MAX);
        rcu_offline();
        while (atomic_load(&race.pending) > FREES_PENDING)
            sched_yield();
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

static void
reader_look(const struct hash128 *key)
{
    const struct cuckoo_node *node = cuckoo_find(race.table, key);

    if (node == NULL)
        atomic_fetch_add(&race.missed, 1);
    else if (!hash128_eq(node->key, *key))
        atomic_fetch_add(&race.wrong, 1);
}

static void *
reader_run(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    race_join();
    for (unsigned long n = 0; n < race.lookups; n++) {
        struct hash128 key = race.lasting[random_below(&seed, race.nlasting)].key;

        reader_look(&key);
        key.hi ^= UINT64_C(1) << 40; /* the same buckets and tag, and nobody's key */
        if (n % 8 == 0 && cuckoo_find(race.table, &key) != NULL)
            atomic_fetch_add(&race.ghosts, 1);
        if (n % TURN == 0) {
            rcu_offline();
            rcu_online();
        }
    }
    rcu_leave();
    atomic_fetch_sub(&race.reading, 1);
    return NULL;
}

static void
walk_on_node(void *ctx __attribute__((unused)), struct cuckoo_guard *g __attribute__((unused)),
    const struct cuckoo_seen *seen)
{
    struct holder *h = entry_of(seen->node)->holder;

    tassert(h->entry == entry_of(seen->node)); /* the bucket's lock is enough to look */
    h->seen++;
}

/* True: the walk was complete, and then it saw each lasting key once. */
static bool
walk_once(void)
{
    bool complete;

    for (unsigned i = 0; i < race.nlasting; i++)
        race.lasting[i].seen = 0;
    complete = cuckoo_each(race.table, walk_on_node, NULL);
    for (unsigned i = 0; complete && i < race.nlasting; i++)
        race.unseen += race.lasting[i].seen != 1;
    return complete;
}

/* Draws the lasting keys so that none of them ever has to leave: every bucket is one that fewer
 * than `slots` of them could sit in, so among the nodes of two buckets is always a filler.  What
 * holds for a small table holds for one that it grows to. */
static void
race_draw_keys(unsigned slots)
{
    size_t mask = cuckoo_buckets(race.table) / 2 - 1;
    unsigned used[2][1 << BITS] = {{0}};
    unsigned lasting = 0;

    for (uint64_t n = 0; lasting < race.nlasting; n++) {
        struct hash128 key = hash_bytes(&n, sizeof(n));
        unsigned *a = &used[0][key.lo & mask], *b = &used[1][key.hi & mask];

        if (*a < slots - 1 && *b < slots - 1) {
            race.lasting[lasting++].key = key;
            ++*a;
            ++*b;
        }
    }
    for (uint64_t n = 0; n < race.nfillers; n++) {
        uint64_t other = ~n;

        race.fillers[n].key = hash_bytes(&other, sizeof(other));
    }
}

/* What rounds come to. */
struct score {
    struct cuckoo_stats sum; /* counts only */
    unsigned long lookups, missed, wrong, ghosts, unseen, replaced, walks, complete;
    double load_least; /* at the end of a round */
};

static void
race_open(unsigned slots, bool grows, unsigned long secret)
{
    struct cuckoo_conf conf = {.bits = grows ? GROWING_BITS : BITS,
        .bits_max = BITS,
        .slots = slots,
        .memory = {race_alloc, race_free, NULL},
        .usefulness = race_usefulness};

    memset(&race, 0, sizeof(race));
    race.nlasting = grows ? GROWING_LASTING : LASTING;
    race.nfillers = grows ? GROWING_FILLERS : FILLERS;
    hash_secret_fix(secret);
    CHECK_EQ(0, cuckoo_open(&race.table, &conf));
    race_draw_keys(slots);
    rcu_join();
    for (unsigned i = 0; i < race.nlasting; i++)
        holder_toggle(&race.lasting[i]);
    for (unsigned i = 0; !grows && i < race.nfillers; i += 2)
        holder_toggle(&race.fillers[i]);
    rcu_offline();
}

static void
flush_on_node(
    void *ctx __attribute__((unused)), struct cuckoo_guard *g, const struct cuckoo_seen *seen)
{
    cuckoo_remove(race.table, g, seen->node);
    entry_retire(entry_of(seen->node));
}

static void
race_close(void)
{
    struct cuckoo_stats stats;

    rcu_online();
    CHECK(cuckoo_each(race.table, flush_on_node, NULL));
    cuckoo_stats(race.table, &stats);
    CHECK_EQ(0, stats.entries);
    rcu_leave();
    while (atomic_load(&race.pending) > 0) /* rcu_barrier_wait() has a false race in TSan */
        sched_yield();
    cuckoo_close(&race.table);
}

static void
score_add(struct score *score)
{
    struct cuckoo_stats s;

    cuckoo_stats(race.table, &s);
    score->lookups += READERS * race.lookups;
    score->missed += atomic_load(&race.missed);
    score->wrong += atomic_load(&race.wrong);
    score->ghosts += atomic_load(&race.ghosts);
    score->replaced += atomic_load(&race.replaced);
    score->unseen += race.unseen;
    score->sum.moved += s.moved;
    score->sum.evicted += s.evicted;
    score->sum.retried += s.retried;
    score->sum.locked += s.locked;
    score->sum.doubled += s.doubled;
    if (s.load < score->load_least)
        score->load_least = s.load;
}

static void
score_print(const struct score *s)
{
    print_message("%lu lookups, %lu missed; load %.3f, moved %lu, doubled %lu, evicted %lu, "
                  "replaced %lu, retried %lu, locked %lu; %lu of %lu walks complete\n",
        s->lookups, s->missed, s->load_least, (unsigned long)s->sum.moved,
        (unsigned long)s->sum.doubled, (unsigned long)s->sum.evicted, s->replaced,
        (unsigned long)s->sum.retried, (unsigned long)s->sum.locked, s->complete, s->walks);
}

/* A table's life, or as much of it as this many lookups of a reader take. */
static void
race_round(struct score *score, unsigned slots, bool grows, unsigned long lookups)
{
    pthread_t threads[READERS + CHURNERS];

    race_open(slots, grows, slots + score->lookups);
    race.lookups = lookups;
    atomic_store(&race.reading, READERS);
    atomic_store(&race.waiting, READERS + CHURNERS);
    for (uintptr_t i = 0; i < READERS + CHURNERS; i++)
        CHECK_EQ(0, pthread_create(&threads[i], NULL, i < READERS ? reader_run : churner_run,
                        (void *)(i + 1)));
    rcu_online();
    while (atomic_load(&race.reading) > 0) {
        score->complete += walk_once();
        score->walks++;
        cuckoo_tend(race.table, 1, SIZE_MAX);
        rcu_offline();
        sched_yield();
        rcu_online();
    }
    atomic_store(&race.stop, true);
    rcu_offline();
    for (unsigned i = 0; i < READERS + CHURNERS; i++)
        CHECK_EQ(0, pthread_join(threads[i], NULL));
    CHECK(walk_once()); /* in peace it is complete */
    score_add(score);
    race_close();
}

static void
race_run(unsigned slots, bool grows)
{
    struct score score = {.load_least = 1};

    while (score.lookups < lookups_wanted)
        race_round(&score, slots, grows, grows ? ROUND : lookups_wanted / READERS + 1);
    score_print(&score);
    CHECK_EQ(0, score.missed);
    CHECK_EQ(0, score.wrong);
    CHECK_EQ(0, score.ghosts);
    CHECK_EQ(0, score.unseen);
    CHECK(score.sum.moved >= MOVES_MIN);
    if (grows)
        CHECK(score.sum.doubled > 0);
    else
        CHECK(score.load_least > 0.7);
}

TEST(cuckoo_race, a_key_that_is_there_is_found_while_nodes_move_eight_slots)
{
    race_run(8, false);
}

TEST(cuckoo_race, a_key_that_is_there_is_found_while_nodes_move_four_slots)
{
    race_run(4, false);
}

TEST(cuckoo_race, a_key_that_is_there_is_found_while_the_table_grows_eight_slots)
{
    race_run(8, true);
}

TEST(cuckoo_race, a_key_that_is_there_is_found_while_the_table_grows_four_slots)
{
    race_run(4, true);
}

/* The duel.  With 4 buckets of 8 to a side: A1 and B1 are full of nodes that know no other
 * bucket, 7 nodes of A0 could only go to B1, and 7 of B0 only to A1.  So the ball, which lives
 * in A0 or B0, is the only node that can ever move, and whoever wants into the full one of those
 * two buckets, and has no other, makes it. */
enum {
    DUEL_FIXED = 30,
    DUEL_BALL,
    DUEL_TO_A0,
    DUEL_TO_B0,
    DUEL_NODES
};

static struct entry duel[DUEL_NODES];

static struct cuckoo_node *
duel_node(unsigned n, uint64_t a, uint64_t b)
{
    duel[n].holder = &race.fillers[0];
    duel[n].node.key = (struct hash128){a | (uint64_t)(n + 1) << 32, b | (uint64_t)(n + 1) << 48};
    return &duel[n].node;
}

static void
duel_insert(struct cuckoo_node *node)
{
    struct cuckoo_guard g;

    cuckoo_lock(race.table, &node->key, &g);
    while (cuckoo_insert(race.table, &g, node) < 0) {
        const struct cuckoo_node *victim = cuckoo_make_room(race.table, &g);

        tassert(victim == NULL);
    }
    cuckoo_unlock(race.table, &g);
}

static void
duel_remove(struct cuckoo_node *node)
{
    struct cuckoo_guard g;

    cuckoo_lock(race.table, &node->key, &g);
    cuckoo_remove(race.table, &g, node);
    cuckoo_unlock(race.table, &g);
}

/* These nodes are never freed, so they may come back at once. */
static void *
duel_mover_run(void *arg __attribute__((unused)))
{
    struct cuckoo_node *to_a0 = duel_node(DUEL_TO_A0, 0, 1), *to_b0 = duel_node(DUEL_TO_B0, 1, 0);

    rcu_join();
    while (!atomic_load(&race.stop)) {
        duel_insert(to_a0); /* the ball goes to B0 */
        duel_remove(to_a0);
        duel_insert(to_b0); /* and back to A0 */
        duel_remove(to_b0);
        rcu_offline();
        rcu_online();
    }
    rcu_leave();
    return NULL;
}

static void *
duel_reader_run(void *arg __attribute__((unused)))
{
    const struct hash128 key = duel[DUEL_BALL].node.key;

    rcu_join();
    for (unsigned long n = 0; n < race.lookups; n++) {
        reader_look(&key);
        if (n % TURN == 0) {
            rcu_offline();
            rcu_online();
        }
    }
    rcu_leave();
    return NULL;
}

static void
duel_open(void)
{
    struct cuckoo_conf conf = {.bits = 6,
        .slots = 8,
        .memory = {race_alloc, race_free, NULL},
        .usefulness = race_usefulness};

    memset(&race, 0, sizeof(race));
    race.lookups = lookups_wanted / READERS + 1;
    CHECK_EQ(0, cuckoo_open(&race.table, &conf));
    for (unsigned n = 0; n < DUEL_FIXED; n++)
        duel_insert(duel_node(n, n >= 16 && n < 23 ? 0 : 1, n < 23 ? 1 : 0));
    duel_insert(duel_node(DUEL_BALL, 0, 0));
}

TEST(cuckoo_race, a_key_that_moves_to_and_fro_is_always_found)
{
    pthread_t mover, readers[READERS];
    struct cuckoo_stats s;

    duel_open();
    CHECK_EQ(0, pthread_create(&mover, NULL, duel_mover_run, NULL));
    for (unsigned i = 0; i < READERS; i++)
        CHECK_EQ(0, pthread_create(&readers[i], NULL, duel_reader_run, NULL));
    for (unsigned i = 0; i < READERS; i++)
        CHECK_EQ(0, pthread_join(readers[i], NULL));
    atomic_store(&race.stop, true);
    CHECK_EQ(0, pthread_join(mover, NULL));

    cuckoo_stats(race.table, &s);
    print_message("%lu lookups, %lu missed; moved %lu, retried %lu, locked %lu\n",
        READERS * race.lookups, atomic_load(&race.missed), (unsigned long)s.moved,
        (unsigned long)s.retried, (unsigned long)s.locked);
    CHECK(s.moved >= MOVES_MIN);
    CHECK_EQ(DUEL_FIXED + 1, s.entries);
    CHECK_EQ(0, atomic_load(&race.missed));
    CHECK_EQ(0, atomic_load(&race.wrong));
    cuckoo_close(&race.table);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(cuckoo_race, a_key_that_moves_to_and_fro_is_always_found),
        TEST_ENTRY(cuckoo_race, a_key_that_is_there_is_found_while_nodes_move_eight_slots),
        TEST_ENTRY(cuckoo_race, a_key_that_is_there_is_found_while_nodes_move_four_slots),
        TEST_ENTRY(cuckoo_race, a_key_that_is_there_is_found_while_the_table_grows_eight_slots),
        TEST_ENTRY(cuckoo_race, a_key_that_is_there_is_found_while_the_table_grows_four_slots)};

    if (argc > 1)
        lookups_wanted = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
