/* ipc_bench.c -- ping and pong between two processes, one message of 64 bytes at a time.
 *
 *     ipc_bench KIND DIR N      N round trips; prints the nanoseconds of one
 *
 * KIND: eventfd (its 8 bytes), tcp (127.0.0.1), unix, fifo, pipe, shm (both sides look until it is
 * there) or table (each side writes a table of its own, and looks into the other's until it is there).
 * Files are made in DIR.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/tassert.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_write.h"

enum {
    MESSAGE = 64,
    LOOKS_MAX = 256 /* before the processor is given away: the other may need it */
};

/* One direction of a file that is read and written, and how much of a message it carries. */
struct wire {
    int in, out;
    size_t bytes;
};

static void
wire_send(const struct wire *w, const char *message)
{
    tassert(write(w->out, message, w->bytes) == (ssize_t)w->bytes);
}

static void
wire_receive(const struct wire *w, char *message)
{
    for (size_t got = 0; got < w->bytes;) {
        ssize_t n = read(w->in, message + got, w->bytes - got);

        tassert(n > 0);
        got += (size_t)n;
    }
}

static double
ipc_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* --- what is read and written --- */

static void
ipc_tcp(struct wire ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int endpoint = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    tassert(endpoint >= 0 && bind(endpoint, (struct sockaddr *)&at, len) == 0 &&
            listen(endpoint, 1) == 0);
    tassert(getsockname(endpoint, (struct sockaddr *)&at, &len) == 0);
    ends[0].in = ends[0].out = socket(AF_INET, SOCK_STREAM, 0);
    tassert(connect(ends[0].in, (struct sockaddr *)&at, len) == 0);
    ends[1].in = ends[1].out = accept(endpoint, NULL, NULL);
    for (unsigned i = 0; i < 2; i++)
        setsockopt(ends[i].in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    close(endpoint);
}

static void
ipc_fifo(struct wire ends[2], const char *dir)
{
    int fds[2];

    for (unsigned i = 0; i < 2; i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s/fifo%u", dir, i);
        unlink(path);
        tassert(mkfifo(path, 0600) == 0);
        fds[i] = open(path, O_RDWR); /* as Linux allows: it needs no second opener */
        tassert(fds[i] >= 0);
        unlink(path);
    }
    ends[0] = (struct wire){fds[0], fds[1], MESSAGE};
    ends[1] = (struct wire){fds[1], fds[0], MESSAGE};
}

static bool
ipc_wires(const char *kind, const char *dir, struct wire ends[2])
{
    int a[2], b[2];

    ends[0].bytes = ends[1].bytes = MESSAGE;
    if (strcmp(kind, "eventfd") == 0) {
        a[0] = eventfd(0, 0);
        b[0] = eventfd(0, 0);
        ends[0] = (struct wire){a[0], b[0], 8};
        ends[1] = (struct wire){b[0], a[0], 8};
    } else if (strcmp(kind, "tcp") == 0) {
        ipc_tcp(ends);
    } else if (strcmp(kind, "unix") == 0) {
        tassert(socketpair(AF_UNIX, SOCK_STREAM, 0, a) == 0);
        ends[0].in = ends[0].out = a[0];
        ends[1].in = ends[1].out = a[1];
    } else if (strcmp(kind, "pipe") == 0) {
        tassert(pipe(a) == 0 && pipe(b) == 0);
        ends[0] = (struct wire){a[0], b[1], MESSAGE};
        ends[1] = (struct wire){b[0], a[1], MESSAGE};
    } else if (strcmp(kind, "fifo") == 0) {
        ipc_fifo(ends, dir);
    } else {
        return false;
    }
    return true;
}

static double
ipc_run_wires(const struct wire ends[2], unsigned long n)
{
    char message[MESSAGE] = {1};
    pid_t pid = fork();
    double from;

    for (unsigned long i = 0; i < n && pid == 0; i++) {
        wire_receive(&ends[1], message);
        wire_send(&ends[1], message);
    }
    if (pid == 0)
        _exit(0);
    from = ipc_now();
    for (unsigned long i = 0; i < n; i++) {
        wire_send(&ends[0], message);
        wire_receive(&ends[0], message);
    }
    from = ipc_now() - from;
    waitpid(pid, NULL, 0);
    return from / (double)n;
}

/* --- memory that both see --- */

struct shared {
    struct {
        _Alignas(64) _Atomic uint64_t number;
        char message[MESSAGE];
    } sides[2];
};

static void
ipc_await(const _Atomic uint64_t *at, uint64_t number)
{
    for (unsigned looks = 0; atomic_load_explicit(at, memory_order_acquire) != number; looks++)
        if (looks % LOOKS_MAX == LOOKS_MAX - 1)
            sched_yield();
}

static double
ipc_run_shm(unsigned long n)
{
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char message[MESSAGE] = {1};
    unsigned side;
    double from;
    pid_t pid;

    tassert(s != MAP_FAILED);
    pid = fork();
    side = pid == 0;
    from = ipc_now();
    for (uint64_t i = 1; i <= n; i++) {
        if (side == 1)
            ipc_await(&s->sides[0].number, i);
        memcpy(s->sides[side].message, message, MESSAGE);
        atomic_store_explicit(&s->sides[side].number, i, memory_order_release);
        if (side == 0)
            ipc_await(&s->sides[1].number, i);
        memcpy(message, s->sides[side ^ 1].message, MESSAGE);
    }
    from = ipc_now() - from;
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return from / (double)n;
}

/* --- tables --- */

struct side {
    struct table_writer *writer;
    struct table_reader *reader; /* of the other's */
    struct table_image image;    /* one key, "n", whose value is the message */
    char *message;               /* in it */
};

static void
side_path(char *path, const char *dir, unsigned n)
{
    snprintf(path, 4096, "%s/ping%u", dir, n);
}

static void
side_open(struct side *s, const char *dir, unsigned n)
{
    char path[4096], why[TABLE_WHY_MAX], zeros[MESSAGE] = {0};
    struct table_builder *b;
    struct table_view v;
    struct slice value;
    const char *said;
    size_t again;

    tassert(table_builder_new(&b, TABLE_MAP) == 0);
    tassert(table_builder_add(b, SLICE_LIT("n"), slice_of(zeros, MESSAGE), &said) == 0);
    tassert(table_builder_finish(b, &s->image, &again) == 0);
    table_builder_free(&b);
    tassert(
        table_view_open(&v, s->image.base, s->image.bytes, TABLE_CHECKED, why, sizeof(why)) == 0);
    tassert(table_view_find(&v, SLICE_LIT("n"), &value));
    s->message = (char *)(uintptr_t)value.ptr;
    side_path(path, dir, n);
    tassert(table_writer_open(&s->writer, path, 10000, why, sizeof(why)) == 0);
    tassert(table_write(s->writer, &s->image, why, sizeof(why)) == 0);
    side_path(path, dir, n ^ 1);
    while (table_reader_new(&s->reader, path, TABLE_MAP, TABLE_CHECKED) == 0) {
        bool there = table_enter(s->reader) != NULL;

        table_leave(s->reader);
        if (there)
            break; /* else the other has not begun yet */
        table_reader_free(&s->reader);
        sched_yield();
    }
}

static void
side_send(struct side *s, uint64_t number)
{
    char why[TABLE_WHY_MAX];

    memcpy(s->message, &number, sizeof(number));
    tassert(table_write(s->writer, &s->image, why, sizeof(why)) == 0);
}

static void
side_receive(struct side *s, uint64_t number)
{
    uint64_t got = 0;

    for (unsigned looks = 0; got != number; looks++) {
        const struct table_view *v = table_enter(s->reader);
        struct slice value;

        tassert(v != NULL && table_view_find(v, SLICE_LIT("n"), &value));
        memcpy(&got, value.ptr, sizeof(got));
        tassert(table_leave(s->reader) == 0);
        if (looks % LOOKS_MAX == LOOKS_MAX - 1)
            sched_yield();
    }
}

static double
ipc_run_tables(const char *dir, unsigned long n)
{
    pid_t pid = fork();
    struct side s;
    double from;

    side_open(&s, dir, pid == 0);
    from = ipc_now();
    for (uint64_t i = 1; i <= n; i++) {
        if (pid == 0) {
            side_receive(&s, i);
            side_send(&s, i);
        } else {
            side_send(&s, i);
            side_receive(&s, i);
        }
    }
    from = ipc_now() - from;
    if (pid != 0)
        waitpid(pid, NULL, 0);
    table_reader_free(&s.reader);
    table_writer_remove(&s.writer);
    free(s.image.base);
    if (pid == 0)
        _exit(0);
    return from / (double)n;
}

int
main(int argc, char **argv)
{
    struct wire ends[2];
    unsigned long n = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    double ns;

    if (n == 0) {
        fprintf(stderr, "ipc_bench eventfd|tcp|unix|fifo|pipe|shm|table DIR N\n");
        return 2;
    }
    if (strcmp(argv[1], "shm") == 0)
        ns = ipc_run_shm(n);
    else if (strcmp(argv[1], "table") == 0)
        ns = ipc_run_tables(argv[2], n);
    else if (ipc_wires(argv[1], argv[2], ends))
        ns = ipc_run_wires(ends, n);
    else
        return 2;
    printf("%.6g\n", ns);
    return 0;
}
