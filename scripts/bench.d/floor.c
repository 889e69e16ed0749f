/* floor.c -- the least that one request can cost a program that uses sockets and epoll.
 *
 *     bench-floor PORT BODY_BYTES
 *
 * One read, one write of a fixed answer, and no parsing beyond counting blank lines, which end
 * requests that have no body.  It is no HTTP server: it is what servers are measured against.
 * It listens on 127.0.0.1, prints "floor: ready PORT", and runs until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOOR_FDS        65536       /* descriptors it keeps state for */
#define FLOOR_EVENTS     512         /* taken per epoll_wait */
#define FLOOR_READ_BYTES 65536       /* one read takes whatever a pipelining client sends */
#define FLOOR_BODY_MAX   (256 << 20) /* a larger body is a mistake on the command line */
#define FLOOR_REPEAT     256         /* answers that lie ready in a row, while they are small */

struct floor_conn {
    uint64_t unsent;  /* bytes of answers owed */
    uint32_t matched; /* how much of a blank line the last read ended with */
};

struct floor {
    int epoll;
    int listener;
    char *answers; /* `repeat` times the same answer */
    size_t answer_bytes;
    size_t repeat;
};

static struct floor_conn floor_conns[FLOOR_FDS];
static char floor_buf[FLOOR_READ_BYTES];

static void
floor_die(const char *what)
{
    perror(what);
    exit(1);
}

static void
floor_watch(const struct floor *f, int fd, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.fd = fd};

    if (epoll_ctl(f->epoll, op, fd, &ev) != 0)
        floor_die("epoll_ctl");
}

static void
floor_make_answers(struct floor *f, size_t body_bytes)
{
    char head[512];
    int head_bytes = snprintf(head, sizeof(head),
        "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sat, 21 Nov 2026 00:00:00 GMT\r\n"
        "Content-Type: text/plain\r\nAge: 10\r\nVia: 1.1 floor\r\nContent-Length: %zu\r\n\r\n",
        body_bytes);

    f->answer_bytes = (size_t)head_bytes + body_bytes;
    f->repeat = body_bytes > 65536 ? 1 : FLOOR_REPEAT;
    f->answers = malloc(f->answer_bytes * f->repeat);
    if (f->answers == NULL)
        floor_die("malloc");
    for (size_t i = 0; i < f->repeat; i++) {
        char *answer = f->answers + i * f->answer_bytes;

        memcpy(answer, head, (size_t)head_bytes);
        memset(answer + head_bytes, 'x', body_bytes);
    }
}

static void
floor_listen(struct floor *f, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (f->listener < 0)
        floor_die("socket");
    if (setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        floor_die("setsockopt");
    if (bind(f->listener, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
        floor_die("bind");
    if (listen(f->listener, 4096) != 0)
        floor_die("listen");
    floor_watch(f, f->listener, EPOLL_CTL_ADD, EPOLLIN);
}

static void
floor_accept(struct floor *f)
{
    int fd, on = 1;

    while ((fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= FLOOR_FDS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        floor_conns[fd] = (struct floor_conn){0};
        floor_watch(f, fd, EPOLL_CTL_ADD, EPOLLIN);
    }
}

/* A blank line that began in the last read, or the beginning of one that the next may end. */
static unsigned
floor_count_slowly(struct floor_conn *c, const char *p, size_t n)
{
    static const char blank[] = "\r\n\r\n";
    unsigned requests = 0;

    for (size_t i = 0; i < n; i++) {
        if (p[i] == blank[c->matched])
            c->matched++;
        else
            c->matched = p[i] == blank[0];
        if (c->matched == 4) {
            requests++;
            c->matched = 0;
        }
    }
    return requests;
}

/* How many requests end in these bytes: almost always whole ones, which takes a memchr a
 * line. */
static unsigned
floor_count(struct floor_conn *c, const char *p, size_t n)
{
    const char *end = p + n, *line = p;
    unsigned requests = 0;

    if (c->matched > 0 || n < 4 || memcmp(end - 4, "\r\n\r\n", 4) != 0)
        return floor_count_slowly(c, p, n);
    while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        line++;
        if (end - line >= 2 && line[0] == '\r' && line[1] == '\n') {
            requests++;
            line += 2;
        }
    }
    return requests;
}

/* Sends what is owed.  False: the client is gone. */
static int
floor_send(struct floor *f, int fd, int was_blocked)
{
    struct floor_conn *c = &floor_conns[fd];
    size_t all = f->answer_bytes * f->repeat;

    while (c->unsent > 0) {
        /* Answers repeat, so what is owed of the first one says where to go on. */
        size_t rest = c->unsent % f->answer_bytes;
        size_t off = rest == 0 ? 0 : f->answer_bytes - rest;
        size_t len = c->unsent < all - off ? c->unsent : all - off;
        ssize_t n = write(fd, f->answers + off, len);

        if (n < 0 && errno == EAGAIN) {
            if (!was_blocked)
                floor_watch(f, fd, EPOLL_CTL_MOD, EPOLLOUT);
            return 1;
        }
        if (n < 0)
            return 0;
        c->unsent -= (uint64_t)n;
    }
    if (was_blocked)
        floor_watch(f, fd, EPOLL_CTL_MOD, EPOLLIN);
    return 1;
}

static int
floor_serve(struct floor *f, int fd, uint32_t events)
{
    struct floor_conn *c = &floor_conns[fd];
    ssize_t n;

    if (c->unsent > 0)
        return (events & (EPOLLERR | EPOLLHUP)) == 0 && floor_send(f, fd, 1);
    n = read(fd, floor_buf, sizeof(floor_buf));
    if (n < 0 && errno == EAGAIN)
        return 1;
    if (n <= 0)
        return 0;
    c->unsent = (uint64_t)floor_count(c, floor_buf, (size_t)n) * f->answer_bytes;
    return floor_send(f, fd, 0);
}

int
main(int argc, char **argv)
{
    struct floor f = {0};
    struct epoll_event events[FLOOR_EVENTS];
    long port = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    long body_bytes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

    if (port < 1 || port > 65535 || body_bytes < 0 || body_bytes > FLOOR_BODY_MAX) {
        fprintf(stderr, "usage: bench-floor PORT BODY_BYTES\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    f.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f.epoll < 0)
        floor_die("epoll_create1");
    floor_make_answers(&f, (size_t)body_bytes);
    floor_listen(&f, (uint16_t)port);
    printf("floor: ready %ld\n", port);
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(f.epoll, events, FLOOR_EVENTS, -1);

        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;

            if (fd == f.listener)
                floor_accept(&f);
            else if (!floor_serve(&f, fd, events[i].events))
                close(fd);
        }
    }
}
