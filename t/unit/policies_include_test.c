/* policies_include_test.c -- a policy of several files: all of them are found, or none is loaded.
 *
 * The linker puts our malloc() and the like in front of the C library's (--wrap), so that sanitizers
 * look on.  What the C library takes itself is not failed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/rcu.h"
#include "daemon/base/terr.h"
#include "daemon/origin/director.h"
#include "daemon/policy/policies.h"
#include "daemon/policy/policy.h"
#include "t/unit/test.h"
#include "vcl-lite/vcl_dump.h"

enum {
    ALL_OF_THEM = 5000 /* more than a load needs */
};

/* Of the calls of this thread the fail_at-th fails; armed: they are counted. */
static unsigned fail_at, calls;
static _Thread_local bool armed;

static bool
fails(void)
{
    return armed && calls++ == fail_at;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

void *
__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

char *
__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

static struct {
    struct conf conf;
    struct registry *registry;
    struct policies *ps;
    char dir[32], main[64];
} world;

static void
write_file(const char *name, const char *text)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", world.dir, name);
    f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(0, fclose(f));
}

static void
world_open(void)
{
    world.conf.vcl = "";
    world.conf.params.vcl_path = "";
    world.conf.default_backend = CONF_NO_BACKEND;
    CHECK_EQ(0, registry_open(&world.registry, &world.conf));
    CHECK_EQ(0, policies_open(&world.ps, world.registry, NULL, NULL));
    strcpy(world.dir, "policies[a]*.XXXXXX");
    CHECK(mkdtemp(world.dir) != NULL);
    write_file("1.vcl", "sub vcl_recv { set req.http.one = \"1\"; }");
    write_file("2.vcl", "sub vcl_recv { set req.http.two = \"2\"; }");
    write_file("3.vcl", "sub vcl_recv { if (req.url ~ \"^/admin\") { return (synth(403)); } }");
    write_file(
        "main.vcl", "vcl 4.1; backend b { .host = \"127.0.0.1\"; } include +glob \"./[123].vcl\";");
    snprintf(world.main, sizeof(world.main), "%s/main.vcl", world.dir);
}

static void
world_close(void)
{
    static const char *const names[] = {"1.vcl", "2.vcl", "3.vcl", "main.vcl"};
    char path[64];

    rcu_offline();
    policies_close(&world.ps);
    rcu_online();
    registry_close(&world.registry);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", world.dir, names[i]);
        CHECK_EQ(0, unlink(path));
    }
    CHECK_EQ(0, rmdir(world.dir));
}

static void
grace(void)
{
    rcu_offline();
    rcu_barrier_wait();
    rcu_online();
    policies_tick(world.ps);
}

static size_t said;

static void
count_text(void *ctx, const char *text)
{
    (void)ctx;
    said += strlen(text);
}

/* How long the dump of the active policy's code is. */
static size_t
code_length(void)
{
    said = 0;
    vcl_dump(atomic_load(policies_set(world.ps))->active->vcl, count_text, NULL);
    return said;
}

/* Loads the policy of four files, under this name. */
static int
load(const char *name)
{
    struct vcl_error *errors;
    const char *why;
    int err = policies_load_file(world.ps, name, world.main, &errors, &why);

    if (errors != NULL && !armed)
        print_error("%s:%u: %s\n", errors->file, errors->line, errors->message);
    CHECK_EQ(err == TERR_CONFIG, errors != NULL);
    vcl_errors_free(&errors);
    return err;
}

TEST(policies_include, a_glob_of_a_policy_with_a_relative_name_is_beside_it)
{
    world_open();
    CHECK_EQ(0, load("a"));
    CHECK_EQ(0, policies_use(world.ps, "a"));
    CHECK(code_length() > 0);
    /* The same from vcl_path, a directory whose name looks like a pattern. */
    world.conf.params.vcl_path = world.dir;
    write_file(
        "main.vcl", "vcl 4.1; backend b { .host = \"127.0.0.1\"; } include +glob \"[123].vcl\";");
    CHECK_EQ(0, load("b"));
    world_close();
}

TEST(policies_include, a_load_that_succeeds_without_memory_has_all_of_its_files)
{
    size_t whole;
    unsigned n;

    world_open();
    CHECK_EQ(0, load("whole"));
    CHECK_EQ(0, policies_use(world.ps, "whole"));
    whole = code_length();
    for (n = 0; n < ALL_OF_THEM; n++) {
        int err;

        fail_at = n;
        calls = 0;
        armed = true;
        err = load("again");
        armed = false;
        CHECK(err == 0 || err == TERR_NOMEM);
        if (err != 0)
            continue;
        CHECK_EQ(0, policies_use(world.ps, "again"));
        CHECK_EQ(whole, code_length());
        CHECK_EQ(0, policies_use(world.ps, "whole"));
        CHECK_EQ(0, policies_discard(world.ps, "again"));
        grace();
        if (calls <= fail_at)
            break; /* none failed any more */
    }
    CHECK(n > 50 && n < ALL_OF_THEM);
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
        TEST_ENTRY(policies_include, a_glob_of_a_policy_with_a_relative_name_is_beside_it),
        TEST_ENTRY(policies_include, a_load_that_succeeds_without_memory_has_all_of_its_files),
    };

    return cmocka_run_group_tests(tests, with_rcu, without_rcu);
}
