/* cert_store_race_test.c -- loops that ask, threads that parse and a main thread that reloads, all at once: each
 * handshake gets its own certificate, and each that waits is woken or cancelled once.
 *
 * No SSL object here: the race detector does not see OpenSSL's own counts. */
#include "t/unit/cert_fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "daemon/base/obj.h"
#include "daemon/base/offload.h"
#include "daemon/base/waiter.h"
#include "daemon/tls/cert_store.h"

enum {
    RACE_LOOPS = 3,
    RACE_CERTS = 12,
    RACE_PARSED_MAX = 4,
    RACE_PICKS = 1500, /* of a loop */
    RACE_RELOADS = 40,
    RACE_WAIT_S = 30,
};

struct race_loop {
    struct inbox inbox;
    sem_t bell;
    struct cert_store *store;
    struct task_queue queue;
    unsigned seed;
    uint64_t served, waited, cancelled, refused, wrong;
};

struct race_shake {
    struct waiter waiter;
    struct task task;
    unsigned woken;
};

static void
race_on_wake(struct inbox *inbox)
{
    sem_post(&container_of(inbox, struct race_loop, inbox)->bell);
}

static void
race_on_woken(struct task *t)
{
    container_of(t, struct race_shake, task)->woken++;
}

static bool
race_turn(struct race_loop *l, const struct race_shake *h)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RACE_WAIT_S;
    while (h->woken == 0) {
        inbox_drain(&l->inbox);
        task_queue_run(&l->queue, 10);
        if (h->woken == 0 && sem_timedwait(&l->bell, &until) != 0)
            return false;
    }
    return !waiter_pending(&h->waiter);
}

/* A handshake from its ClientHello to its pick, or until it gives up. */
static void
race_shake(struct race_loop *l)
{
    struct race_shake h = {.woken = 0};
    struct cert_pick pick;
    char name[32];
    int rc;

    task_init(&h.task, &l->queue, race_on_woken);
    waiter_init(&h.waiter, &h.task, &l->inbox);
    snprintf(name, sizeof(name), "n%u.example", (unsigned)rand_r(&l->seed) % RACE_CERTS);
    while (
        (rc = cert_store_pick(l->store, slice_str(name), false, &h.waiter, &pick)) == TERR_AGAIN) {
        l->waited++;
        if (rand_r(&l->seed) % 4 == 0 && cert_pick_cancel(l->store, &h.waiter)) {
            l->cancelled++;
            return;
        }
        if (!race_turn(l, &h)) {
            l->wrong++;
            return;
        }
        h.woken = 0;
    }
    l->wrong += (rc != 0 && rc != TERR_CONFIG) || waiter_pending(&h.waiter);
    l->wrong += (rc == 0) != (pick.ecdsa != NULL);
    l->refused += rc == TERR_CONFIG; /* a file that was bad before it was ever parsed */
    if (rc == 0) {
        l->served++;
        cert_pick_drop(&pick);
    }
}

static void *
race_main(void *arg)
{
    struct race_loop *l = arg;

    inbox_here = &l->inbox;
    for (unsigned i = 0; i < RACE_PICKS && l->wrong == 0; i++)
        race_shake(l);
    return NULL;
}

static void
race_reload(struct cert_store *store, unsigned round)
{
    struct cert_spec spec = {.directory = certs.path, .parsed_max = RACE_PARSED_MAX};
    struct cert_table *before = cert_store_table(store), *t = NULL;
    char file[32], san[48];

    snprintf(file, sizeof(file), "n%u.pem", round % RACE_CERTS);
    snprintf(san, sizeof(san), "DNS:n%u.example", round % RACE_CERTS);
    put_pem(file, san);
    if (round % 5 == 4)
        put_text(file, "-----BEGIN CERTIFICATE-----\n");
    CHECK_EQ(0, cert_table_load(&t, &spec, before, &certs.report));
    cert_store_swap(store, &t);
    cert_table_unref(&before);
    if (round % 5 == 4)
        put_pem(file, san);
}

static void
race_on_info(void *ctx, const struct cert_info *info)
{
    *(unsigned *)ctx += info->is_parsed;
}

TEST(cert_store_race, handshakes_parses_and_reloads_meet_anywhere)
{
    static struct race_loop loops[RACE_LOOPS];
    pthread_t threads[RACE_LOOPS];
    struct cert_spec spec = {.directory = certs.path, .parsed_max = RACE_PARSED_MAX};
    struct cert_store_env env = {.offload = NULL};
    struct cert_store *store = NULL;
    struct cert_table *t = NULL;
    struct cert_store_stats stats;
    char file[32], san[48];
    unsigned parsed;

    certs_open();
    for (unsigned i = 0; i < RACE_CERTS; i++) {
        snprintf(file, sizeof(file), "n%u.pem", i);
        snprintf(san, sizeof(san), "DNS:n%u.example", i);
        put_pem(file, san);
    }
    CHECK_EQ(0, offload_open(&env.offload, 2, 1));
    CHECK_EQ(0, cert_table_load(&t, &spec, NULL, &certs.report));
    CHECK_EQ(0, cert_store_open(&store, &t, &env));
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        loops[i] = (struct race_loop){.store = store, .seed = i + 1};
        inbox_init(&loops[i].inbox, race_on_wake);
        task_queue_init(&loops[i].queue);
        sem_init(&loops[i].bell, 0, 0);
        CHECK_EQ(0, pthread_create(&threads[i], NULL, race_main, &loops[i]));
    }
    for (unsigned round = 0; round < RACE_RELOADS; round++) {
        race_reload(store, round);
        parsed = 0;
        cert_store_each(store, race_on_info, &parsed);
        CHECK(parsed <= RACE_CERTS);
    }
    for (unsigned i = 0; i < RACE_LOOPS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(0, loops[i].wrong);
        CHECK_EQ(RACE_PICKS, loops[i].served + loops[i].cancelled + loops[i].refused);
        CHECK(loops[i].served > loops[i].refused);
        sem_destroy(&loops[i].bell);
    }
    cert_store_stats(store, &stats);
    print_message("parses %llu, waits %llu, evictions %llu\n", (unsigned long long)stats.parses,
        (unsigned long long)stats.waits, (unsigned long long)stats.evictions);
    CHECK(stats.evictions > 0);
    cert_store_close(&store);
    offload_close(&env.offload);
    certs_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(cert_store_race, handshakes_parses_and_reloads_meet_anywhere),
    };

    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
