/* stream_secure_nomem_test.c -- a secure connection's whole life, without memory at each of its points.
 *
 * The linker puts our usage_alloc() in front of base/usage.c's (--wrap), so that sanitizers look on. */
#include "t/unit/secure_fixture.h"

#include <signal.h>

enum {
    BODY = 300000,
    ALL_OF_THEM = 1000 /* more than a life needs */
};

static char body[BODY], got[BODY];

/* Of the allocations the fail_at-th fails, and fail_for - 1 behind it. */
static unsigned fail_at, fail_for, allocs, failed;

void *__real_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_alloc(struct usage *u, enum usage_kind kind, size_t size);
void *__real_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);
void *__wrap_usage_calloc(struct usage *u, enum usage_kind kind, size_t size);

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

/* What the owner has seen go wrong; 0: nothing. */
static int seen;
static size_t sent;

static void
see(ssize_t err)
{
    if (err < 0 && err != TERR_AGAIN && seen == 0)
        seen = (int)err;
}

static void
send_on(struct end *e)
{
    struct iovec iov = {body + sent, sizeof(body) - sent};
    ssize_t n;

    if (stream_connected(e->s) != 0 || stream_sending(e->s) || sent == sizeof(body) || seen != 0)
        return;
    n = stream_try(e->s, &iov, 1, false);
    see(n);
    sent += n > 0 ? (size_t)n : 0;
    if (n < 0 || sent == sizeof(body))
        return;
    iov = (struct iovec){body + sent, sizeof(body) - sent};
    n = stream_queue(e->s, &iov, 1);
    see(n);
    sent += n > 0 ? (size_t)n : 0;
}

/* It receives "ab", "cd" ... two bytes at a time, pauses behind the first, and sends the body. */
static void
owner_lives(struct end *e)
{
    bool first = e->got_len == 0;

    see(stream_connected(e->s));
    see(stream_ended(e->s));
    see(stream_write_error(e->s));
    if (stream_connected(e->s) == 0 && stream_write_error(e->s) != 0)
        assert_int_not_equal(stream_ended(e->s), 0); /* who waits for an answer learns of it */
    end_receive(e);
    if (first && e->got_len > 0)
        stream_pause(e->s);
    send_on(e);
}

static bool
is_over(const struct end *e)
{
    return sent == sizeof(body) && !stream_sending(e->s) && e->got_len == 8;
}

static void
peer_lives(struct end *e)
{
    char packet[64] = "HELLO";
    size_t len = record_put(packet, 5, "abcd", 4);

    len = record_put(packet, len, "efgh", 4);
    memcpy(packet + len, "\xff\xff", 2);
    peer_sends(e, packet, len + 2);
    turns(6);
    for (unsigned i = 0; i < 2000 && seen == 0 && !is_over(e); i++) {
        stream_resume(e->s);
        turn();
        if (peer_reads(e, 20000) == 0)
            usleep(200);
        see(stream_write_error(e->s));
    }
    turns(3);
}

/* A waiter in the list of handshakes keeps what came for it, too. */
static void
crowd(void)
{
    for (unsigned i = 0; i < 3; i++) {
        struct end *e = end_new(0);

        if (stream_accept_secure(&e->s, f.loop, e->fd, f.is_unix, &e->task) != 0)
            continue;
        end_secure(e, true);
        peer_text(e, "HELLO");
    }
}

/* Returns whether an allocation failed.  Whatever fails is told, or it changes nothing. */
static bool
life(bool is_unix, unsigned at, unsigned n)
{
    struct end *e;

    loop_begin(is_unix);
    allocs = failed = 0;
    fail_at = at;
    fail_for = n;
    seen = 0;
    sent = 0;
    crowd();
    e = end_new(8192);
    e->run = owner_lives;
    see(stream_accept_secure(&e->s, f.loop, e->fd, f.is_unix, &e->task));
    if (e->s != NULL) {
        stream_set_read_max(e->s, 2);
        end_secure(e, true);
        peer_lives(e);
    }
    if (seen != 0)
        CHECK_EQ(TERR_NOMEM, seen);
    CHECK(e->got_len <= 8 && memcmp("abcdefgh", e->got_len > 0 ? e->got : "", e->got_len) == 0);
    if (seen == 0) {
        CHECK_EQ(8, e->got_len);
        AWAIT((turn(), peer_reads(e, WIRE_MAX), e->wire_len >= 5 + 2 + BODY + 2 * e->toy->nmade));
        e->wire_at = 5;
        if (memcmp(e->wire + 5, "\xff\xfe", 2) == 0)
            e->wire_at += 2;
        sent = peer_plain(e, got);
        if (e->wire_at < e->wire_len && memcmp(e->wire + e->wire_at, "\xff\xfe", 2) == 0) {
            e->wire_at += 2;
            sent += peer_plain(e, got + sent);
        }
        CHECK_EQ(sizeof(body), sent);
        CHECK_MEM(body, got, sizeof(body));
    }
    fail_for = 0;
    at = failed;
    loop_end();
    return at > 0;
}

static unsigned
lives(bool is_unix, unsigned n)
{
    unsigned at = 0;

    while (life(is_unix, at, n))
        at++;
    CHECK(at < ALL_OF_THEM);
    CHECK_EQ(0, seen); /* where none failed all went well */
    return at;
}

TEST(stream_secure, each_allocation_can_fail_and_nothing_leaks)
{
    CHECK(lives(true, 1) > 10);
    CHECK(lives(false, 1) > 10);
}

TEST(stream_secure, memory_can_be_out_from_any_moment_on)
{
    CHECK(lives(true, 40) > 10);
    CHECK(lives(false, 40) > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(stream_secure, each_allocation_can_fail_and_nothing_leaks),
        TEST_ENTRY(stream_secure, memory_can_be_out_from_any_moment_on)};

    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)(i * 7 + i / 251);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
