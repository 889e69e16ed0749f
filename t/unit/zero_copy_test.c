/* zero_copy_test.c -- what leaves for a client leaves from where it lies, and a hit costs one
 * read, one write, no allocation and no lock.
 *
 * Every write on the client's descriptor is watched, libuv's too.  A run of bytes is "body" if
 * the buffer it was taken from lies inside a segment of an object that a request offered.  The
 * client notes which runs of what it gets are body by parsing it.  Were a byte of a body ever
 * sent from a copy, the two lists would differ. */
#include <limits.h>
#include <setjmp.h>

#include "daemon/proxy/req_priv.h"
#include "t/unit/kernel_watch.h"
#include "t/unit/worker_fixture.h"

enum {
    TINY_SNDBUF = 4096, /* so that large answers never fit, and wait in queues */
    SMALL = 100,
    HOT_WARM = 100,
    HOT_HITS = 1000,
    RUNS_MAX = 16384,
    SEEN_MAX = 16, /* objects in one test */
};

/* ---- Runs of bytes on the wire ---- */

struct wire {
    unsigned n;
    struct {
        uint64_t len;
        bool body;
    } runs[RUNS_MAX];
};

static void
wire_add(struct wire *w, uint64_t len, bool body)
{
    if (len == 0)
        return;
    if (w->n > 0 && w->runs[w->n - 1].body == body) {
        w->runs[w->n - 1].len += len;
        return;
    }
    tassert(w->n < RUNS_MAX);
    w->runs[w->n].len = len;
    w->runs[w->n++].body = body;
}

/* ---- The loop's side ---- */

static struct {
    struct wire sent;
    struct stobj *objects[SEEN_MAX]; /* with a reference, so that none is freed meanwhile */
    unsigned nobjects;
    unsigned outside;       /* offered body buffers that lie in no segment of their own object */
    unsigned foreign;       /* pieces of synthetic bodies that are neither literal nor arena */
    unsigned in_one_most;   /* bodies in one write */
    unsigned part_most;     /* the last part of an entry that was read */
    unsigned refused;       /* calls of sendmsg in a row that took nothing */
    unsigned asked_in_vain; /* of them, those after the first: nobody waits for the socket */
    /* the hot path */
    unsigned answers, uneven; /* uneven: not one read for this answer */
    struct watch_counts last, warm, end;
} loop;

/* Writes that took less than they were offered; for the client to know that it is too slow. */
static _Atomic unsigned loop_stalls;

static bool
loop_knows(const struct iovec *iov)
{
    for (unsigned i = 0; i < loop.nobjects; i++)
        if (stobj_contains(loop.objects[i], iov->iov_base, iov->iov_len))
            return true;
    return false;
}

static void
loop_remember(struct stobj *o)
{
    for (unsigned i = 0; i < loop.nobjects; i++)
        if (loop.objects[i] == o)
            return;
    tassert(loop.nobjects < SEEN_MAX);
    loop.objects[loop.nobjects++] = stobj_ref(o);
}

/* Between the warm-up's last answer and the last of all lie HOT_HITS whole rounds. */
static void
loop_count_answer(void)
{
    loop.answers++;
    loop.uneven += watch_counts.reads != loop.last.reads + 1;
    loop.last = watch_counts;
    if (loop.answers == HOT_WARM) {
        loop.warm = watch_counts;
        loop.uneven = 0;
    }
    if (loop.answers == HOT_WARM + HOT_HITS)
        loop.end = watch_counts;
}

/* A full socket is left to libuv's queue, which waits for it: who calls sendmsg again instead,
 * with no write of libuv's in between, polls. */
static void
loop_count_refusal(ssize_t taken)
{
    static unsigned writes;

    if (watch_counts.writes != writes || taken > 0)
        loop.refused = 0;
    else if (++loop.refused > 1)
        loop.asked_in_vain++;
    writes = watch_counts.writes;
}

static void
loop_on_output(const struct iovec *iov, size_t n, ssize_t taken)
{
    size_t left = taken > 0 ? (size_t)taken : 0, offered = 0;
    unsigned bodies = 0;

    for (size_t i = 0; i < n; i++) {
        size_t len = iov[i].iov_len < left ? iov[i].iov_len : left;
        bool body = len > 0 && loop_knows(&iov[i]); /* all of it, not only what was taken */

        bodies += body;
        wire_add(&loop.sent, len, body);
        left -= len;
        offered += iov[i].iov_len;
    }
    if (bodies > loop.in_one_most)
        loop.in_one_most = bodies;
    if (taken < (ssize_t)offered)
        atomic_fetch_add(&loop_stalls, 1);
    loop_count_refusal(taken);
    loop_count_answer();
}

/* A literal of this program, or in the current chunk of the request's arena. */
static bool
loop_is_by_reference(const struct exchange *x, const struct iovec *iov)
{
    extern const char __executable_start[], _end[];
    uintptr_t p = (uintptr_t)iov->iov_base, end = p + iov->iov_len;
    uintptr_t arena = (uintptr_t)x->arena.end;

    if (p >= (uintptr_t)__executable_start && end <= (uintptr_t)_end)
        return true;
    return arena != 0 && p >= arena - ARENA_CHUNK && end <= (uintptr_t)x->arena.next;
}

static const struct exchange_ops *loop_real_ops;

static ssize_t
loop_send(struct exchange *x, const struct exchange_response *resp, const struct iovec *body,
    unsigned n, unsigned flags)
{
    const struct req *r = x->answerer;

    tassert(r->rep.body != NULL);
    tassert(r->entry == NULL || r->rep.body == entry_part(r->entry, r->rep.part).body);
    loop_remember(r->rep.body);
    if (r->rep.part > loop.part_most)
        loop.part_most = r->rep.part;
    for (unsigned i = 0; i < n; i++) {
        loop.outside += !stobj_contains(r->rep.body, body[i].iov_base, body[i].iov_len);
        loop.foreign += r->entry == NULL && !loop_is_by_reference(x, &body[i]);
    }
    return loop_real_ops->send(x, resp, body, n, flags);
}

/* exchange_start_f: the request's, with our send in front of the protocol's. */
static void
loop_start(void *ctx, struct exchange *x)
{
    static struct exchange_ops ops;

    loop_real_ops = x->ops;
    ops = *x->ops;
    ops.send = loop_send;
    x->ops = &ops;
    req_start(ctx, x);
}

/* ---- The client's side, a thread ---- */

struct client {
    struct world *w;
    void (*script)(struct client *c);
    int fd;
    bool slow; /* lets the answer fill the socket first, and takes small pieces */
    jmp_buf out;
    int failed_line;
    const char *failed;
    struct wire got;
    size_t at, have;
    char buf[65536];
};

static void
client_fail(struct client *c, int line, const char *what)
{
    c->failed_line = line;
    c->failed = what;
    longjmp(c->out, 1);
}

#define MUST(c, e) ((e) ? (void)0 : client_fail(c, __LINE__, #e))

static size_t
client_fill(struct client *c)
{
    if (c->at == c->have) {
        ssize_t n = recv(c->fd, c->buf, c->slow ? 1789 : sizeof(c->buf), 0);

        MUST(c, n > 0);
        c->at = 0;
        c->have = (size_t)n;
    }
    return c->have - c->at;
}

/* One line with its end, as a string. */
static void
client_line(struct client *c, char *line, size_t room)
{
    size_t n = 0;

    do {
        MUST(c, client_fill(c) > 0 && n + 1 < room);
        line[n++] = c->buf[c->at++];
    } while (line[n - 1] != '\n');
    line[n] = '\0';
    wire_add(&c->got, n, false);
}

/* Body bytes that begin at `off`.  p NULL: a page of Tarn's own. */
static void
client_body(struct client *c, const struct world_path *p, uint64_t off, uint64_t len)
{
    while (len > 0) {
        size_t n = client_fill(c);

        if (n > len)
            n = len;
        MUST(c, p == NULL || body_is(c->buf + c->at, p->seed + off, n));
        wire_add(&c->got, n, true);
        c->at += n;
        len -= n;
        if (p != NULL && p->paced && off < p->len / 2 && off + n >= p->len / 2)
            sem_post(&c->w->go);
        off += n;
    }
}

static uint64_t
client_chunked_body(struct client *c, const struct world_path *p)
{
    uint64_t off = 0, len;
    char line[64];

    do {
        client_line(c, line, sizeof(line));
        len = strtoull(line, NULL, 16);
        client_body(c, p, off, len);
        off += len;
        client_line(c, line, sizeof(line));
        MUST(c, strcmp(line, "\r\n") == 0);
    } while (len > 0);
    return off;
}

/* The answer to a request for `path`; NULL: one that Tarn makes, with `status`. */
static void
client_answer(struct client *c, const char *path, int status)
{
    struct world_path p = world_path(path != NULL ? path : "/");
    uint64_t len = UINT64_MAX;
    bool chunked = false;
    char line[512];

    client_line(c, line, sizeof(line));
    MUST(c, strncmp(line, "HTTP/1.1 ", 9) == 0 && atoi(line + 9) == status);
    do {
        client_line(c, line, sizeof(line));
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            len = strtoull(line + 15, NULL, 10);
        chunked = chunked || strncasecmp(line, "Transfer-Encoding: chunked", 26) == 0;
    } while (strcmp(line, "\r\n") != 0);
    MUST(c, chunked == (len == UINT64_MAX));
    if (chunked)
        len = client_chunked_body(c, path != NULL ? &p : NULL);
    else
        client_body(c, path != NULL ? &p : NULL, 0, len);
    MUST(c, path == NULL ? len > 0 : len == p.len);
}

/* A slow client: lets the socket fill, if the answer can, and leaves it full for a while. */
static void
client_dawdle(const struct world_path *p, unsigned stalls)
{
    const struct timespec moment = {0, 1000000}, pause = {0, 10 * 1000000};
    unsigned patience_ms = p->len > 4 * TINY_SNDBUF ? WORLD_WAIT_S * 1000 : 30;

    while (atomic_load(&loop_stalls) == stalls && patience_ms-- > 0)
        nanosleep(&moment, NULL);
    nanosleep(&pause, NULL);
}

static void
client_ask(struct client *c, const char *method, const char *path, unsigned times)
{
    unsigned stalls = atomic_load(&loop_stalls);
    struct world_path p = world_path(path);
    char text[8192];
    size_t n = 0;

    for (unsigned i = 0; i < times; i++)
        n += (size_t)snprintf(
            text + n, sizeof(text) - n, "%s %s HTTP/1.1\r\nHost: test\r\n\r\n", method, path);
    MUST(c, n < sizeof(text) && send(c->fd, text, n, MSG_NOSIGNAL) == (ssize_t)n);
    if (c->slow)
        client_dawdle(&p, stalls);
}

static void
client_get(struct client *c, const char *path)
{
    client_ask(c, "GET", path, 1);
    client_answer(c, path, 200);
}

static void *
client_main(void *arg)
{
    struct client *c = arg;

    if (setjmp(c->out) == 0)
        c->script(c);
    close(c->fd);
    world_stop(c->w);
    return NULL;
}

/* ---- A test ---- */

struct play {
    void (*script)(struct client *c);
    const char *parameters;
    bool slow;      /* a tiny send buffer, and a client that lets it fill */
    unsigned asked; /* requests that the origin must have seen */
};

static void
play_connect(struct client *c, struct world *w)
{
    const struct timeval patience = {.tv_sec = WORLD_WAIT_S};
    const int room = TINY_SNDBUF;
    int fds[2];

    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    if (c->slow)
        CHECK_EQ(0, setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
    CHECK_EQ(0, setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
    c->fd = fds[1];
    CHECK_EQ(0, world_accept(w, fds[0]));
    watch_start(fds[0], loop_on_output);
}

/* What left from inside of segments is what arrived as body; and nothing else is. */
static void
play_compare(const struct wire *sent, const struct wire *got)
{
    for (unsigned i = 0; i < sent->n && i < got->n; i++) {
        CHECK_EQ(got->runs[i].body, sent->runs[i].body);
        CHECK_EQ(got->runs[i].len, sent->runs[i].len);
    }
    CHECK_EQ(got->n, sent->n);
}

static void
play(const struct play *how)
{
    static struct world w;
    static struct client c;
    pthread_t thread;

    memset(&loop, 0, sizeof(loop));
    c = (struct client){.w = &w, .script = how->script, .slow = how->slow};
    world_open(&w, loop_start, how->parameters != NULL ? how->parameters : "");
    play_connect(&c, &w);
    CHECK_EQ(0, pthread_create(&thread, NULL, client_main, &c));
    world_run(&w);
    watch_stop();
    pthread_join(thread, NULL);
    while (loop.nobjects > 0)
        stobj_unref(&loop.objects[--loop.nobjects]);
    world_close(&w);
    if (c.failed_line != 0)
        print_error("client: line %d: %s\n", c.failed_line, c.failed);
    CHECK_EQ(0, c.failed_line);
    CHECK_EQ(how->asked, w.asked);
    CHECK_EQ(0, loop.outside);
    CHECK_EQ(0, loop.foreign);
    play_compare(&loop.sent, &c.got);
    CHECK(watch_counts.sendmsgs > 0);
    /* else nothing had to wait, and the slow cases prove nothing */
    CHECK(!how->slow || (watch_counts.partial > 0 && watch_counts.writes > 0));
    CHECK_EQ(0, loop.asked_in_vain);
}

/* Every size and framing, first fetched, then twice from the cache. */
static void
script_hits(struct client *c)
{
    static const char *const paths[] = {
        "/100/length/keep",
        "/100/chunked/keep",
        "/65537/length/keep",
        "/65537/chunked/keep",
        "/3145728/length/keep",
        "/3145728/chunked/keep",
    };

    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < ARRAY_LEN(paths); i++)
            client_get(c, paths[i]);
}

static void
script_streamed(struct client *c)
{
    client_get(c, "/100/length/keep/paced");
    client_get(c, "/65537/length/keep/paced");
    client_get(c, "/65537/chunked/keep/paced");
    client_get(c, "/3145728/length/keep/paced");
    client_get(c, "/3145728/chunked/keep/paced");
    client_get(c, "/65537/length/once/paced");
    client_get(c, "/65537/chunked/once/paced");
}

/* Pieces that a socket takes whole or not at all, until it is full. */
static void
script_dripped(struct client *c)
{
    client_get(c, "/65537/length/once/drip");
    client_get(c, "/65537/chunked/once/drip");
    client_get(c, "/65537/chunked/keep/drip");
}

/* The first response leaves a marker, the second is passed, and a POST is never looked up. */
static void
script_private(struct client *c)
{
    static const char *const paths[] = {
        "/100/length/once",
        "/65537/length/once",
        "/65537/chunked/once",
        "/3145728/length/once",
        "/3145728/chunked/once",
    };

    for (unsigned i = 0; i < ARRAY_LEN(paths) - 1; i++) {
        client_get(c, paths[i]);
        client_get(c, paths[i]);
    }
    client_ask(c, "POST", paths[ARRAY_LEN(paths) - 1], 1);
    client_answer(c, paths[ARRAY_LEN(paths) - 1], 200);
}

static void
script_outgrown(struct client *c)
{
    client_get(c, "/3145728/chunked/keep");
    client_get(c, "/3145728/length/keep");
}

static void
script_synthetic(struct client *c)
{
    client_ask(c, "TRACE", "/", 1);
    client_answer(c, NULL, 405);
    client_ask(c, "TRACE", "/", 3);
    for (unsigned i = 0; i < 3; i++)
        client_answer(c, NULL, 405);
    client_ask(c, "GET", "no-path", 1);
    client_answer(c, NULL, 400);
}

static void
script_pipelined(struct client *c)
{
    const char *path = c->slow ? "/30000/length/keep" : "/100/length/keep";
    unsigned times = 20; /* as many as one write has buffers for */

    client_get(c, path);
    client_ask(c, "GET", path, times);
    for (unsigned i = 0; i < times; i++)
        client_answer(c, path, 200);
}

static void
script_hot(struct client *c)
{
    for (unsigned i = 0; i < HOT_WARM + HOT_HITS; i++)
        client_get(c, "/100/length/keep");
}

TEST(zero_copy, a_hit_leaves_from_its_segments)
{
    play(&(struct play){.script = script_hits, .asked = 6});
}

TEST(zero_copy, what_a_slow_client_does_not_take_is_queued_by_reference)
{
    play(&(struct play){.script = script_hits, .slow = true, .asked = 6});
}

TEST(zero_copy, a_miss_leaves_from_its_segments_while_it_arrives)
{
    play(&(struct play){.script = script_streamed, .asked = 7});
}

TEST(zero_copy, a_miss_to_a_slow_client_too)
{
    play(&(struct play){.script = script_streamed, .slow = true, .asked = 7});
}

TEST(zero_copy, a_private_response_leaves_from_its_transit_segments)
{
    play(&(struct play){.script = script_private, .asked = 9});
}

TEST(zero_copy, a_private_response_to_a_slow_client_too)
{
    play(&(struct play){
        .script = script_private, .slow = true, .parameters = "transit_buffer: 64KiB", .asked = 9});
}

TEST(zero_copy, a_body_that_outgrows_the_cache_leaves_from_both_its_parts)
{
    play(&(struct play){
        .script = script_outgrown, .parameters = "max_object_size: 1MiB", .asked = 2});
    CHECK_EQ(1, loop.part_most);
    play(&(struct play){.script = script_outgrown,
        .parameters = "max_object_size: 1MiB",
        .slow = true,
        .asked = 2});
    CHECK_EQ(1, loop.part_most);
}

TEST(zero_copy, a_full_socket_is_waited_for_and_not_asked_again)
{
    play(&(struct play){.script = script_dripped, .slow = true, .asked = 3});
}

TEST(zero_copy, a_synthetic_page_is_literals_and_arena)
{
    play(&(struct play){.script = script_synthetic});
}

TEST(zero_copy, pipelined_hits_share_one_write)
{
    play(&(struct play){.script = script_pipelined, .asked = 1});
    CHECK_EQ(20, loop.in_one_most);
}

TEST(zero_copy, pipelined_hits_wait_for_a_slow_client_by_reference)
{
    play(&(struct play){.script = script_pipelined, .slow = true, .asked = 1});
}

TEST(zero_copy, a_hit_is_one_read_one_write_no_allocation_no_lock)
{
    const struct watch_counts *from = &loop.warm, *to = &loop.end;

    play(&(struct play){.script = script_hot, .asked = 1});
    CHECK(loop.answers >= HOT_WARM + HOT_HITS); /* the miss may have left in two writes */
    CHECK_EQ(HOT_HITS, to->sendmsgs - from->sendmsgs);
    CHECK_EQ(HOT_HITS, to->reads - from->reads);
    CHECK_EQ(0, loop.uneven);
    CHECK_EQ(0, to->writes - from->writes);
    CHECK_EQ(0, to->partial - from->partial);
    CHECK_EQ(0, to->others - from->others);
    CHECK_EQ(0, to->epoll_ctls - from->epoll_ctls);
    CHECK_EQ(0, to->locks - from->locks);
    CHECK_EQ(0, to->allocs - from->allocs);
    /* A turn each, but for a deadline that moved. */
    CHECK(to->polls - from->polls <= HOT_HITS + HOT_HITS / 20);
}

TEST_MAIN(TEST_ENTRY(zero_copy, a_hit_leaves_from_its_segments),
    TEST_ENTRY(zero_copy, what_a_slow_client_does_not_take_is_queued_by_reference),
    TEST_ENTRY(zero_copy, a_miss_leaves_from_its_segments_while_it_arrives),
    TEST_ENTRY(zero_copy, a_miss_to_a_slow_client_too),
    TEST_ENTRY(zero_copy, a_private_response_leaves_from_its_transit_segments),
    TEST_ENTRY(zero_copy, a_private_response_to_a_slow_client_too),
    TEST_ENTRY(zero_copy, a_body_that_outgrows_the_cache_leaves_from_both_its_parts),
    TEST_ENTRY(zero_copy, a_full_socket_is_waited_for_and_not_asked_again),
    TEST_ENTRY(zero_copy, a_synthetic_page_is_literals_and_arena),
    TEST_ENTRY(zero_copy, pipelined_hits_share_one_write),
    TEST_ENTRY(zero_copy, pipelined_hits_wait_for_a_slow_client_by_reference),
    TEST_ENTRY(zero_copy, a_hit_is_one_read_one_write_no_allocation_no_lock))
