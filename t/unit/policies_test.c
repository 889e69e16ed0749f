/* policies_test.c -- policies come, are used, named and go, with workers that are played. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/origin/director.h"
#include "daemon/policy/policies.h"
#include "daemon/policy/policy.h"

#define HEAD "vcl 4.1; backend b { .host = \"127.0.0.1\"; .port = \"9\"; }\n"

static struct {
    struct conf conf;
    struct registry *registry;
    struct policies *ps;
    struct proxy worker; /* what policy.c needs of one */
} world;

static void
world_open(void)
{
    memset(&world, 0, sizeof(world));
    world.conf.vcl = "";
    world.conf.params.vcl_path = "";
    world.conf.default_backend = CONF_NO_BACKEND;
    CHECK_EQ(0, registry_open(&world.registry, &world.conf));
    CHECK_EQ(0, policies_open(&world.ps, world.registry, NULL, NULL));
    world.worker.policies = policies_set(world.ps);
}

/* The grace period of all that was done so far is over. */
static void
grace(void)
{
    rcu_offline();
    rcu_barrier_wait();
    rcu_online();
    policies_tick(world.ps);
}

static void
world_close(void)
{
    policy_leave_all(&world.worker);
    rcu_offline();
    policies_close(&world.ps);
    rcu_online();
    CHECK(world.ps == NULL);
    registry_close(&world.registry);
}

static int
load(const char *name, const char *text)
{
    struct vcl_error *errors;
    int err = policies_load(world.ps, name, "t.vcl", slice_str(text), &errors);

    CHECK_EQ(err == TERR_CONFIG, errors != NULL);
    vcl_errors_free(&errors);
    return err;
}

/* "NAME STATE WORKERS", "NAME discarded", or "LABEL label NAME", each with a blank; the newest
 * first. */
static char seen_text[4096];

static void
seen_add(void *ctx, const struct policy_seen *one)
{
    size_t *n = ctx, room = sizeof(seen_text) - *n;
    char *at = seen_text + *n;

    if (one->label_of != NULL)
        *n += (size_t)snprintf(at, room, "%s %s %s ", one->name, one->state, one->label_of);
    else if (strcmp(one->state, "discarded") == 0)
        *n += (size_t)snprintf(at, room, "%s discarded ", one->name);
    else
        *n += (size_t)snprintf(at, room, "%s %s %u ", one->name, one->state, one->workers);
}

static const char *
seen(void)
{
    size_t n = 0;

    seen_text[0] = '\0';
    policies_each(world.ps, seen_add, &n);
    return seen_text;
}

static unsigned nbackends;

static void
backend_count(void *ctx, struct backend *b)
{
    (void)ctx;
    (void)b;
    nbackends++;
}

/* What lives in the registry tells whether a policy has been freed. */
static unsigned
backends(void)
{
    nbackends = 0;
    registry_sweep(world.registry);
    registry_each(world.registry, backend_count, NULL);
    return nbackends;
}

TEST(policies, names_are_letters_first_and_then_digits_dots_and_dashes)
{
    static const char *const bad[] = {"", "1a", "_a", "-a", ".a", "a b", "a/b", "a%", "\xc3\xa4"};
    char name[80];

    world_open();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(TERR_SYNTAX, load(bad[i], HEAD));
    memset(name, 'a', sizeof(name));
    name[65] = '\0';
    CHECK_EQ(TERR_SYNTAX, load(name, HEAD));
    name[64] = '\0';
    CHECK_EQ(0, load(name, HEAD));
    CHECK_EQ(0, load("Z_9-x.y", HEAD));
    world_close();
}

TEST(policies, a_text_that_is_wrong_leaves_nothing)
{
    struct vcl_error *errors;
    const char *why = NULL;

    world_open();
    CHECK_EQ(TERR_CONFIG, load("a", "vcl 4.1; backend b { .host = 1; }"));
    CHECK_EQ(TERR_CONFIG, load("a", HEAD "sub vcl_init { return (fail); }"));
    CHECK_EQ(TERR_NOTFOUND, policies_load_file(world.ps, "a", "/nonexistent/a.vcl", &errors, &why));
    CHECK(errors == NULL && why != NULL);
    CHECK_EQ(TERR_NOTFOUND, policies_load_file(world.ps, "a", "/", &errors, &why));
    CHECK_STR("it is no ordinary file", why);
    CHECK_STR("", seen());
    CHECK_EQ(0, backends());
    CHECK_EQ(0, load("a", HEAD));
    CHECK_EQ(TERR_EXISTS, load("a", HEAD));
    CHECK_STR("a warm 0 ", seen());
    CHECK_EQ(1, backends());
    world_close();
}

TEST(policies, there_are_only_so_many)
{
    char name[16];
    unsigned n = 0;

    world_open();
    do {
        snprintf(name, sizeof(name), "p%u", n++);
    } while (load(name, HEAD) == 0 && n < 1000);
    CHECK_EQ(257, n);
    CHECK_EQ(TERR_LIMIT, load("more", HEAD));
    CHECK_EQ(0, policies_discard(world.ps, "p0"));
    CHECK_EQ(TERR_LIMIT, load("more", HEAD)); /* somebody may still look at it */
    grace();
    CHECK_EQ(0, load("more", HEAD));
    world_close();
}

TEST(policies, none_is_active_until_one_is_used)
{
    struct policy_ref *u;

    world_open();
    CHECK(policy_begin(&world.worker) == NULL);
    CHECK_EQ(TERR_NOTFOUND, policies_use(world.ps, "a"));
    CHECK_EQ(0, load("a", HEAD));
    CHECK(policy_begin(&world.worker) == NULL);
    CHECK_EQ(0, policies_use(world.ps, "a"));
    CHECK_STR("a active 0 ", seen());
    u = policy_begin(&world.worker);
    CHECK(u != NULL && strcmp(u->policy->name, "a") == 0);
    CHECK_STR("a active 1 ", seen());
    CHECK_EQ(TERR_BUSY, policies_discard(world.ps, "a"));
    policy_end(&world.worker, &u);
    CHECK(u == NULL);
    CHECK_STR("a active 1 ", seen()); /* the worker stays with it */
    world_close();
}

TEST(policies, a_request_keeps_the_policy_it_began_with)
{
    struct policy_ref *old, *other, *new;

    world_open();
    CHECK_EQ(0, load("a", HEAD));
    CHECK_EQ(0, policies_use(world.ps, "a"));
    old = policy_begin(&world.worker);
    other = policy_share(old);
    CHECK_EQ(0, load("b", HEAD));
    CHECK_EQ(0, policies_use(world.ps, "b"));
    CHECK_EQ(0, policies_discard(world.ps, "a"));
    CHECK_EQ(0, load("a", HEAD)); /* its name is free at once */
    grace();
    CHECK_STR("a warm 0 b active 0 a discarded ", seen());
    new = policy_begin(&world.worker);
    CHECK_STR("b", new->policy->name);
    CHECK_STR("a", old->policy->name);
    policy_end(&world.worker, &old);
    grace();
    CHECK_EQ(3, backends());
    policy_end(&world.worker, &other); /* its last request */
    grace();
    CHECK_STR("a warm 0 b active 1 ", seen());
    CHECK_EQ(2, backends());
    policy_end(&world.worker, &new);
    world_close();
}

TEST(policies, a_discarded_one_goes_behind_a_grace_period_and_not_before)
{
    struct policy_ref *u;

    world_open();
    CHECK_EQ(0, load("a", HEAD));
    CHECK_EQ(0, load("b", HEAD));
    CHECK_EQ(0, policies_use(world.ps, "a"));
    u = policy_begin(&world.worker);
    policy_end(&world.worker, &u);
    CHECK_EQ(0, policies_use(world.ps, "b"));
    CHECK_EQ(0, policies_discard(world.ps, "a"));
    CHECK_EQ(TERR_NOTFOUND, policies_discard(world.ps, "a"));
    CHECK_EQ(TERR_NOTFOUND, policies_use(world.ps, "a"));
    policies_tick(world.ps);
    CHECK_EQ(2, backends()); /* this thread has been online all the time */
    grace();
    CHECK_STR("b active 0 a discarded ", seen()); /* the worker has not looked yet */
    policy_look(&world.worker);
    policies_tick(world.ps);
    CHECK_STR("b active 1 ", seen());
    CHECK_EQ(1, backends());
    world_close();
}

TEST(policies, a_label_stands_for_a_policy_and_holds_it)
{
    struct policy_ref *u;

    world_open();
    CHECK_EQ(0, load("a", HEAD));
    CHECK_EQ(0, load("b", HEAD));
    CHECK_EQ(TERR_NOTFOUND, policies_label(world.ps, "l", "c"));
    CHECK_EQ(TERR_SYNTAX, policies_label(world.ps, "9", "a"));
    CHECK_EQ(TERR_EXISTS, policies_label(world.ps, "b", "a"));
    CHECK_EQ(TERR_NOTFOUND, policies_unlabel(world.ps, "l"));
    CHECK_EQ(0, policies_label(world.ps, "l", "a"));
    CHECK_EQ(TERR_EXISTS, load("l", HEAD));
    CHECK_EQ(TERR_NOTFOUND, policies_discard(world.ps, "l"));
    CHECK_EQ(TERR_BUSY, policies_discard(world.ps, "a"));
    u = policy_labelled(&world.worker, "l");
    CHECK_STR("a", u->policy->name);
    CHECK(policy_labelled(&world.worker, "m") == NULL);
    CHECK_EQ(0, policies_label(world.ps, "l", "b")); /* moved */
    CHECK_EQ(0, policies_discard(world.ps, "a"));
    CHECK_EQ(TERR_BUSY, policies_discard(world.ps, "b"));
    grace();
    CHECK_STR("b warm 0 a discarded l label b ", seen());
    policy_end(&world.worker, &u);
    grace();
    CHECK_STR("b warm 0 l label b ", seen());
    CHECK_EQ(0, policies_use(world.ps, "l"));
    CHECK_EQ(0, policies_unlabel(world.ps, "l"));
    CHECK(policy_labelled(&world.worker, "l") == NULL);
    CHECK_STR("b active 0 ", seen());
    world_close();
}

TEST(policies, a_label_that_a_policy_names_stays)
{
    static const char goes[] = HEAD "sub vcl_recv { return (vcl(l)); }";

    world_open();
    CHECK_EQ(TERR_CONFIG, load("top", goes)); /* there is none of that name yet */
    CHECK_EQ(0, load("a", HEAD));
    CHECK_EQ(0, policies_label(world.ps, "l", "a"));
    CHECK_EQ(0, load("top", goes));
    CHECK_EQ(TERR_INVALID, policies_label(world.ps, "m", "top")); /* one step, and no more */
    CHECK_EQ(TERR_BUSY, policies_unlabel(world.ps, "l"));
    CHECK_EQ(0, policies_discard(world.ps, "top"));
    CHECK_EQ(0, policies_unlabel(world.ps, "l"));
    world_close();
}

/* A file of this text, that is gone when the test ends; its name. */
static char boot_path[] = "/tmp/tarn-policies-test-XXXXXX";

static void
boot_file(const char *text)
{
    int fd;

    memset(boot_path + strlen("/tmp/tarn-policies-test-"), 'X', 6);
    fd = mkstemp(boot_path);
    CHECK(fd >= 0);
    CHECK_EQ(strlen(text), write(fd, text, strlen(text)));
    close(fd);
}

static void
told(void *ctx, const char *text)
{
    (void)text;
    ++*(unsigned *)ctx;
}

/* As tarnd -t does, before there is anything else. */
static unsigned
errors_of_check(unsigned *lines)
{
    unsigned errors;

    *lines = 0;
    rcu_offline();
    errors = policies_check(&world.conf, told, lines);
    rcu_online();
    return errors;
}

TEST(policies, the_configurations_is_loaded_as_boot_and_used)
{
    unsigned lines;

    world_open();
    CHECK_EQ(0, policies_boot(world.ps)); /* it names none */
    CHECK_STR("", seen());
    boot_file(HEAD "# a comment");
    world.conf.vcl = boot_path;
    CHECK_EQ(0, errors_of_check(&lines));
    CHECK_EQ(0, lines);
    CHECK_EQ(0, policies_boot(world.ps));
    CHECK_STR("boot active 0 ", seen());
    unlink(boot_path);
    CHECK_EQ(1, errors_of_check(&lines));
    CHECK(lines > 0);
    world_close();
    world_open();
    world.conf.vcl = boot_path;
    CHECK_EQ(TERR_NOTFOUND, policies_boot(world.ps));
    CHECK_STR("", seen());
    world_close();
}

static int
with_rcu(void **state)
{
    (void)state;
    rcu_start();
    rcu_join();
    return 0;
}

static int
without_rcu(void **state)
{
    (void)state;
    rcu_leave();
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(policies, names_are_letters_first_and_then_digits_dots_and_dashes),
        TEST_ENTRY(policies, a_text_that_is_wrong_leaves_nothing),
        TEST_ENTRY(policies, there_are_only_so_many),
        TEST_ENTRY(policies, none_is_active_until_one_is_used),
        TEST_ENTRY(policies, a_request_keeps_the_policy_it_began_with),
        TEST_ENTRY(policies, a_discarded_one_goes_behind_a_grace_period_and_not_before),
        TEST_ENTRY(policies, a_label_stands_for_a_policy_and_holds_it),
        TEST_ENTRY(policies, a_label_that_a_policy_names_stays),
        TEST_ENTRY(policies, the_configurations_is_loaded_as_boot_and_used),
    };

    return cmocka_run_group_tests(tests, with_rcu, without_rcu);
}
