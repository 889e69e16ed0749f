/* panic_test.c -- what a process says that dies of a failed assertion while it serves. */
#include "t/unit/worker_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "daemon/proxy/fetch_priv.h"
#include "daemon/proxy/req_priv.h"

enum {
    CHILD_S = 50 /* under a sanitizer; then it hangs */
};

static struct world world;
static struct task panic_task;

/* The fetch that has begun runs into it. */
static void
panic_in_fetch(struct task *t)
{
    (void)t;
    tassert(!list_empty(&world.proxy.fetches));
    proxy_here.fetch = container_of(world.proxy.fetches.next, struct fetch, link);
    tassert(proxy_here.fetch == NULL);
}

/* /101 finds an open chunk when it is logged; at /102 its fetch fails. */
static void
panic_start(void *ctx, struct exchange *x)
{
    char c = x->head.base[x->head.path_off + 3];

    world.log->open = c == '1';
    req_start(ctx, x);
    if (c != '2')
        return;
    task_init(&panic_task, &world.proxy.loop->tasks, panic_in_fetch);
    task_wake(&panic_task);
}

static _Noreturn void
panic_child(int to, const char *requests)
{
    int fds[2];

    alarm(CHILD_S);
    signal(SIGABRT, SIG_DFL);
    if (dup2(to, STDERR_FILENO) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        _exit(1);
    world_open(&world, panic_start, "");
    tassert_describe(h1_server_describe);
    tassert_describe(proxy_describe);
    tassert_describe(shmlog_describe);
    shmlog_describe_here(world.log);
    if (world_accept(&world, fds[0]) != 0 ||
        write(fds[1], requests, strlen(requests)) != (ssize_t)strlen(requests))
        _exit(1);
    world_run(&world);
    _exit(0);
}

/* Serves these in a process of its own, which dies; what it said. */
static void
panic_of(const char *requests, char *said, size_t size)
{
    int fds[2], status;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    CHECK_EQ(0, pipe(fds));
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        panic_child(fds[1], requests);
    }
    close(fds[1]);
    while (len < size - 1 && (n = read(fds[0], said + len, size - 1 - len)) > 0)
        len += (size_t)n;
    said[len] = '\0';
    close(fds[0]);
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("it ended with %x, and said: %s", (unsigned)status, said);
}

static void
panic_says(const char *said, const char *what)
{
    if (strstr(said, what) == NULL)
        fail_msg("'%s' is missing in: %s", what, said);
}

TEST(panic, describes_the_request_its_connection_and_the_log)
{
    static char said[32768];

    panic_of("GET /100/length/keep HTTP/1.1\r\nHost: before.test\r\n\r\n"
             "GET /101/length/keep HTTP/1.1\r\nHost: panic.test\r\n\r\n",
        said, sizeof(said));
    panic_says(said, "tarnd: panic at ");
    panic_says(said, "!l->open");
    panic_says(said, "connection ");
    panic_says(said, "request in state close: error OK");
    panic_says(said, "age ");
    panic_says(said,
        "method \"GET\"\ntarnd:     host \"panic.test\"\ntarnd:     path \"/101/length/keep\"");
    panic_says(said, "ended: status 200, 100 body bytes");
    panic_says(said, "line \"GET /100/length/keep\"\ntarnd:     host \"before.test\"");
}

TEST(panic, describes_the_fetch)
{
    static char said[32768];

    panic_of("GET /102/length/keep HTTP/1.1\r\nHost: panic.test\r\n\r\n", said, sizeof(said));
    panic_says(said, "fetch in state ");
    panic_says(said, "error OK, retries 0, backend o, for request ");
    panic_says(said, "path \"/102/length/keep\"");
}

static void
panic_on_text(void)
{
    tassert_say_text("text", "a\"b\\\r\n\x80z", 8);
    tassert_say("%2000d", 1);
    tassert(panic_of == NULL); /* fails within a failure */
}

TEST(panic, hostile_bytes_are_escaped_and_a_second_failure_ends_it)
{
    char said[8192] = "";
    int fds[2], status;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    CHECK_EQ(0, pipe(fds));
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        tassert_describe(panic_on_text);
        tassert(pid != 0);
    }
    close(fds[1]);
    while ((n = read(fds[0], said + len, sizeof(said) - 1 - len)) > 0)
        len += (size_t)n;
    close(fds[0]);
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    panic_says(said, "text \"a\\x22b\\x5c\\x0d\\x0a\\x80z\"\n");
    panic_says(said, "in panic_on_text(): panic_of == NULL");
}

TEST_MAIN(TEST_ENTRY(panic, describes_the_request_its_connection_and_the_log),
    TEST_ENTRY(panic, describes_the_fetch),
    TEST_ENTRY(panic, hostile_bytes_are_escaped_and_a_second_failure_ends_it))
