/* auth_test.c -- passwords: what is read of a field, what is asked, and that none is left behind. */
#include <unistd.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/proxy/auth.h"
#include "t/unit/test.h"

/* bcrypt at a cost that takes a quarter of a second: the thread is busy while a test asks on. */
#define SLOW "$2b$12$abcdefghijklmnopqrstuuAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct {
    struct auth *auth;
    struct task_queue queue;
    struct inbox home;
    struct task task;
    struct auth_check checks[AUTH_WAITING_MAX + 2];
    struct waiter waits[AUTH_WAITING_MAX + 2];
} world;

static void
on_wake(struct inbox *home)
{
    (void)home;
}

static void
on_run(struct task *t)
{
    (void)t;
}

static void
world_open(void)
{
    CHECK_EQ(0, auth_open(&world.auth));
    task_queue_init(&world.queue);
    inbox_init(&world.home, on_wake);
    task_init(&world.task, &world.queue, on_run);
    for (size_t i = 0; i < ARRAY_LEN(world.waits); i++)
        waiter_init(&world.waits[i], &world.task, &world.home);
}

/* What was asked is answered or cancelled. */
static void
world_close(void)
{
    /* The last first: the thread is at the first. */
    for (size_t i = ARRAY_LEN(world.waits); i-- > 0;) {
        if (!waiter_pending(&world.waits[i]) || auth_cancel(world.auth, &world.checks[i]))
            continue;
        for (unsigned ms = 0; waiter_pending(&world.waits[i]); ms++) {
            CHECK(ms < 20000);
            usleep(1000);
            inbox_drain(&world.home);
        }
    }
    auth_close(&world.auth);
}

static bool
has(const void *bytes, size_t len, const char *text)
{
    return memmem(bytes, len, text, strlen(text)) != NULL;
}

TEST(auth, a_field_has_a_user_and_a_password)
{
    char buf[64];
    struct span room = {buf, sizeof(buf)};
    struct slice user, password;

    CHECK(auth_basic(SLICE_LIT("basic YWRhOnNlY3JldDox"), room, &user, &password));
    CHECK(slice_eq(user, SLICE_LIT("ada")));
    CHECK(slice_eq(password, SLICE_LIT("secret:1")));
    CHECK(auth_basic(SLICE_LIT("Basic  Og=="), room, &user, &password));
    CHECK(user.len == 0 && password.len == 0);
}

TEST(auth, of_a_field_that_is_not_taken_nothing_stays)
{
    static const char *const bad[] = {
        "Basic c2VjcmV0",             /* "secret", without a colon */
        "Basic c2VjcmV0OnNlY3JldAA=", /* a NUL at its end */
        "Basic c2VjcmV0OnNl*",        /* no digit */
        "Basic "
        "c2VjcmV0OnNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldHNlY3JldA"
        "==",
        "Bearer c2VjcmV0Og==",
        "",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char buf[64] = "";
        struct slice user, password;

        CHECK(!auth_basic(slice_str(bad[i]), (struct span){buf, sizeof(buf)}, &user, &password));
        CHECK(!has(buf, sizeof(buf), "secret"));
    }
}

TEST(auth, a_question_that_is_refused_leaves_no_password)
{
    int rc = TERR_AGAIN;
    size_t n = 0;

    world_open();
    for (; rc == TERR_AGAIN && n < ARRAY_LEN(world.checks); n++) {
        /* Another user each time: no verdict of the one before is theirs. */
        char name = (char)('0' + n);
        struct auth_claim claim = {.user = slice_of(&name, 1),
            .password = SLICE_LIT("correct horse"),
            .hash = SLOW,
            .known = true};

        rc = auth_ask(world.auth, &world.checks[n], &claim, &world.waits[n]);
        CHECK_EQ(rc == TERR_AGAIN, has(&world.checks[n], sizeof(world.checks[n]), "horse"));
    }
    CHECK_EQ(TERR_LIMIT, rc);
    CHECK(n > AUTH_WAITING_MAX);
    world_close();
    for (size_t i = 0; i < ARRAY_LEN(world.checks); i++)
        CHECK(!has(&world.checks[i], sizeof(world.checks[i]), "horse"));
}

TEST_MAIN(TEST_ENTRY(auth, a_field_has_a_user_and_a_password),
    TEST_ENTRY(auth, of_a_field_that_is_not_taken_nothing_stays),
    TEST_ENTRY(auth, a_question_that_is_refused_leaves_no_password))
