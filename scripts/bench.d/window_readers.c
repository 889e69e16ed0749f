/* window_readers.c -- many clients that ask for one large response at once, and count its bytes.
 *
 *     bench-readers PORT PATH CLIENTS BYTES
 *
 * Each has a connection of its own to 127.0.0.1.  Body bytes are thrown away by the kernel
 * (MSG_TRUNC), so that reading costs as little as it can.  Prints one line of JSON: how many got
 * BYTES bytes of body, how many were cut, and when the first and the last were through.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READERS_MAX = 10000,
    READERS_PIECE = 1 << 20,
    READERS_HEAD_MAX = 4096,
    READERS_PATIENCE_MS = 60000, /* without a byte for anybody */
};

struct reader {
    int fd;
    uint64_t body;
    bool headed;
    char head[READERS_HEAD_MAX + 1];
    size_t head_len;
};

static void
readers_die(const char *what)
{
    perror(what);
    exit(1);
}

static double
readers_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
readers_connect(struct reader *r, uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};

    r->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        readers_die("connect");
}

static void
readers_ask(const struct reader *r, const char *path)
{
    char text[1024];
    int n = snprintf(
        text, sizeof(text), "GET %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n", path);

    if (n >= (int)sizeof(text) || send(r->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        readers_die("send");
}

/* The head byte for byte into memory, so that what follows it is counted right.  False: the end. */
static bool
readers_read_head(struct reader *r)
{
    char *end;
    ssize_t n = recv(r->fd, r->head + r->head_len, READERS_HEAD_MAX - r->head_len, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    r->head_len += (size_t)n;
    r->head[r->head_len] = '\0';
    end = strstr(r->head, "\r\n\r\n");
    if (end != NULL) {
        r->headed = true;
        r->body = r->head_len - (size_t)(end + 4 - r->head);
    }
    return r->headed || r->head_len < READERS_HEAD_MAX;
}

/* False: the connection is over. */
static bool
readers_read(struct reader *r)
{
    ssize_t n;

    if (!r->headed)
        return readers_read_head(r);
    n = recv(r->fd, NULL, READERS_PIECE, MSG_TRUNC | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    r->body += (uint64_t)n;
    return n > 0;
}

static int
readers_usage(void)
{
    fprintf(stderr, "usage: bench-readers PORT PATH CLIENTS BYTES\n1 to %d clients\n", READERS_MAX);
    return 2;
}

int
main(int argc, char **argv)
{
    struct epoll_event events[256];
    struct reader *all;
    unsigned n, left, whole = 0;
    uint64_t want;
    double began, first = 0, last = 0;
    int ep;

    if (argc != 5)
        return readers_usage();
    n = left = (unsigned)strtoul(argv[3], NULL, 10);
    want = strtoull(argv[4], NULL, 10);
    if (n == 0 || n > READERS_MAX)
        return readers_usage();
    signal(SIGPIPE, SIG_IGN);
    all = calloc(n, sizeof(*all));
    ep = epoll_create1(0);
    if (all == NULL || ep < 0)
        readers_die("setting up");
    for (unsigned i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &all[i]};

        readers_connect(&all[i], (uint16_t)strtoul(argv[1], NULL, 10));
        if (epoll_ctl(ep, EPOLL_CTL_ADD, all[i].fd, &ev) != 0)
            readers_die("epoll_ctl");
    }
    began = readers_now();
    for (unsigned i = 0; i < n; i++)
        readers_ask(&all[i], argv[2]);
    while (left > 0) {
        int k = epoll_wait(ep, events, 256, READERS_PATIENCE_MS);

        if (k == 0)
            break;
        for (int i = 0; i < k; i++) {
            struct reader *r = events[i].data.ptr;

            if (readers_read(r))
                continue;
            last = readers_now() - began;
            first = first == 0 ? last : first;
            whole += r->body == want;
            close(r->fd);
            left--;
        }
    }
    printf("{\"clients\": %u, \"whole\": %u, \"stuck\": %u, \"first_s\": %.3f, \"last_s\": %.3f}\n",
        n, whole, left, first, last);
    free(all);
    return 0;
}
