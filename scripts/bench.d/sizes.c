/* sizes.c -- an origin whose every URL has a size of its own, from 1 byte to 8 MiB.
 *
 *     bench-sizes PORT
 *
 * A path that ends in a number is answered with a body whose length follows from that number:
 * 99 of 100 have at most 64 KiB, the others at most 8 MiB, and within each of the two every
 * power of two is as likely as any other.  That is 24 KiB on average, three quarters of it in
 * the few that are large.  /BYTES:N has BYTES, whatever N is.  What begins with /private/ must
 * not be stored.
 *
 * It listens on 127.0.0.1, prints "sizes: ready PORT", and runs until it is killed.  One request
 * at a time on a connection, as proxies send them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    SIZES_FDS = 65536,
    SIZES_EVENTS = 256,
    SIZES_REQUEST_MAX = 16384, /* a longer head is no proxy's */
    SIZES_SMALL_LOG2 = 16,
    SIZES_LARGE_LOG2 = 23,
    SIZES_PATTERN = 1 << 20, /* bytes that bodies are cut from */
};
#define SIZES_BODY_MAX (UINT64_C(1) << 40) /* of /BYTES:N */

struct sizes_conn {
    uint64_t body_left;
    uint64_t body_at;
    unsigned head_len, head_at, seen;
    char head[160];
    char tail[4]; /* of the request so far */
    char line[256];
};

static struct sizes_conn *sizes_conns[SIZES_FDS];
static char sizes_pattern[SIZES_PATTERN];

static void
sizes_die(const char *what)
{
    perror(what);
    exit(1);
}

/* The finalizer of a well known hash: neighbours get sizes that have nothing in common. */
static uint64_t
sizes_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t
sizes_of(uint64_t number)
{
    uint64_t h = sizes_mix(number + 1), power;
    bool large = h % 100 == 0;

    h = sizes_mix(h);
    power =
        large ? SIZES_SMALL_LOG2 + h % (SIZES_LARGE_LOG2 - SIZES_SMALL_LOG2) : h % SIZES_SMALL_LOG2;
    h = sizes_mix(h);
    return (UINT64_C(1) << power) + h % (UINT64_C(1) << power);
}

/* "GET /what/ever/NUMBER HTTP/1.1", or /BYTES:NUMBER. */
static uint64_t
sizes_asked(const char *line)
{
    const char *path = strchr(line, '/'), *end, *digits;
    uint64_t bytes;

    if (path == NULL)
        return 0;
    end = path + strcspn(path, " \r");
    for (digits = end; digits > path && digits[-1] >= '0' && digits[-1] <= '9';)
        digits--;
    if (digits[-1] != ':')
        return sizes_of(strtoull(digits, NULL, 10));
    for (digits--; digits > path && digits[-1] >= '0' && digits[-1] <= '9';)
        digits--;
    bytes = strtoull(digits, NULL, 10);
    return bytes < SIZES_BODY_MAX ? bytes : SIZES_BODY_MAX;
}

static void
sizes_answer(struct sizes_conn *c)
{
    bool keep = strstr(c->line, " /private/") == NULL;
    int n;

    c->body_left = sizes_asked(c->line);
    c->body_at = 0;
    n = snprintf(c->head, sizeof(c->head),
        "HTTP/1.1 200 OK\r\nServer: sizes\r\nCache-Control: %s\r\nContent-Length: %" PRIu64
        "\r\n\r\n",
        keep ? "max-age=86400" : "no-store", c->body_left);
    c->head_len = (unsigned)n;
    c->head_at = 0;
    if (strncmp(c->line, "HEAD ", 5) == 0)
        c->body_left = 0;
}

/* Whatever the kernel takes.  False: the connection is over. */
static bool
sizes_send(int fd, struct sizes_conn *c)
{
    while (c->head_at < c->head_len || c->body_left > 0) {
        uint64_t at = c->body_at % SIZES_PATTERN, piece = SIZES_PATTERN - at;
        struct iovec iov[2] = {{c->head + c->head_at, c->head_len - c->head_at},
            {sizes_pattern + at, piece < c->body_left ? piece : c->body_left}};
        ssize_t n = writev(fd, iov, 2);
        uint64_t of_head;

        if (n < 0)
            return errno == EAGAIN;
        of_head = (uint64_t)n < iov[0].iov_len ? (uint64_t)n : iov[0].iov_len;
        c->head_at += (unsigned)of_head;
        c->body_at += (uint64_t)n - of_head;
        c->body_left -= (uint64_t)n - of_head;
    }
    return true;
}

static bool
sizes_receive(int fd, struct sizes_conn *c)
{
    char buf[SIZES_REQUEST_MAX];
    ssize_t n = read(fd, buf, sizeof(buf));

    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    for (ssize_t i = 0; i < n; i++) {
        if (c->seen < sizeof(c->line) - 1)
            c->line[c->seen++] = buf[i];
        memmove(c->tail, c->tail + 1, 3);
        c->tail[3] = buf[i];
        if (memcmp(c->tail, "\r\n\r\n", 4) != 0)
            continue;
        c->line[c->seen] = '\0';
        c->line[strcspn(c->line, "\r")] = '\0';
        sizes_answer(c);
        c->seen = 0;
    }
    return sizes_send(fd, c);
}

static int
sizes_listen(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 4096) != 0)
        sizes_die("listen");
    return fd;
}

static void
sizes_accept(int epoll, int listener)
{
    int fd, on = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};

        if (fd >= SIZES_FDS || (sizes_conns[fd] = calloc(1, sizeof(struct sizes_conn))) == NULL) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
            sizes_die("epoll_ctl");
    }
}

static void
sizes_event(const struct epoll_event *ev)
{
    int fd = ev->data.fd;
    struct sizes_conn *c = sizes_conns[fd];
    bool good = true;

    if (ev->events & EPOLLOUT)
        good = sizes_send(fd, c);
    if (good && ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        good = sizes_receive(fd, c);
    if (good)
        return;
    close(fd);
    free(c);
    sizes_conns[fd] = NULL;
}

int
main(int argc, char **argv)
{
    struct epoll_event events[SIZES_EVENTS], ev = {.events = EPOLLIN};
    int epoll = epoll_create1(0), listener;

    if (argc != 2) {
        fprintf(stderr, "usage: bench-sizes PORT\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < SIZES_PATTERN; i++)
        sizes_pattern[i] = (char)(sizes_mix(i) & 0xff);
    listener = sizes_listen(atoi(argv[1]));
    ev.data.fd = listener;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev) != 0)
        sizes_die("epoll_ctl");
    printf("sizes: ready %s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll, events, SIZES_EVENTS, -1);

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                sizes_accept(epoll, listener);
            else
                sizes_event(&events[i]);
        }
    }
}
