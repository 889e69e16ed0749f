/* h2_nomem_test.c -- a connection of HTTP/2, without memory at each of its points.
 *
 * The linker puts our usage_alloc() and the like in front of base/usage.c's (--wrap), so that sanitizers look on. */
#include "t/unit/h2_client_fixture.h"

enum {
    ALL_OF_THEM = 1000 /* more than a life needs */
};

/* Of the allocations the fail_at-th fails, and fail_for - 1 behind it. */
static unsigned fail_at, fail_for, allocs, failed;

void *__real_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__real_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);
void *__real_usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size);
void *__wrap_usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size);

static bool
fails(void)
{
    unsigned n = allocs++;

    if (n < fail_at || n - fail_at >= fail_for)
        return false;
    failed++;
    return true;
}

void *
__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return fails() ? NULL : __real_usage_alloc(u, kind, size);
}

void *
__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size)
{
    return fails() ? NULL : __real_usage_calloc(u, kind, size);
}

void *
__wrap_usage_realloc(struct usage *u, enum usage_kind kind, void *p, size_t size)
{
    return fails() ? NULL : __real_usage_realloc(u, kind, p, size);
}

/* Whatever happens, each exchange that began ends, and nothing is left: world_close() sees to it. */
static void
lives(size_t takes)
{
    static struct bytes b;

    put_preface(&b);
    put_setting(&b, H2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20);
    put_request(&b, 1, "GET", "/large", true);
    put_request_with(&b, 3, "POST", "/x", "x-some", "thing");
    put_frame(&b, H2_DATA, 0, 3, "abcdef", 6);
    put_frame(&b, H2_HEADERS, H2_END_STREAM, 5, "\x82\x86\x41\x01", 4);
    fake_take(world.client->s, takes);
    says_bytes(b.at, b.len - 2);
    says_bytes(b.at + b.len - 2, 2);
    b.len = 0;
    put_frame(&b, H2_CONTINUATION, H2_END_HEADERS, 5, "a\x44\x04/hit", 7);
    put_frame(&b, H2_PING, 0, 0, "12345678", 8);
    says(&b);
    for (unsigned i = 0; i < world.nanswers; i++) {
        if (world.answers[i].x == NULL || world.answers[i].body != NULL)
            continue;
        world.answers[i].reads = 3;
        wake(&world.answers[i]);
        if (world.answers[i].x == NULL)
            continue;
        answers(&world.answers[i], 30);
        wake(&world.answers[i]);
    }
    fake_take(world.client->s, SIZE_MAX);
    fake_run(&world.loop);
    hears();
    /* Idle, if it lives: its table is packed, and comes back. */
    fake_pass(&world.loop, H2_TABLE_IDLE_MS + 100);
    put_frame(&b, H2_HEADERS, H2_END_STREAM | H2_END_HEADERS, 7, "\x82\x86\xbe\x41\x01c", 6);
    says(&b);
    if (world.nanswers > 0 && world.answers[world.nanswers - 1].x != NULL) {
        answers(&world.answers[world.nanswers - 1], 3);
        wake(&world.answers[world.nanswers - 1]);
    }
    hears();
}

TEST(h2_nomem, at_any_point_ends_the_connection_or_a_stream_and_leaves_nothing)
{
    for (fail_for = 1; fail_for <= ALL_OF_THEM; fail_for = fail_for == 1 ? 3 : fail_for * 100) {
        for (size_t takes = 10; takes <= 100000; takes *= 100) {
            for (unsigned at = 0, more = 1; more > 0; at++) {
                fail_at = UINT32_MAX;
                world_open_silent();
                allocs = failed = 0;
                fail_at = at;
                lives(takes);
                more = failed;
                fail_at = UINT32_MAX;
                world_close();
            }
        }
    }
}

TEST(h2_nomem, for_a_connection_is_said_and_takes_nothing)
{
    fail_at = UINT32_MAX;
    fail_for = 1;
    world_open_silent();
    allocs = 0;
    fail_at = 0;
    CHECK_EQ(TERR_NOMEM, world_adopt());
    fail_at = UINT32_MAX;
    world_close();
}

TEST_MAIN(TEST_ENTRY(h2_nomem, at_any_point_ends_the_connection_or_a_stream_and_leaves_nothing),
    TEST_ENTRY(h2_nomem, for_a_connection_is_said_and_takes_nothing))
