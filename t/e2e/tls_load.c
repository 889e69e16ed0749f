/* tls_load.c -- a client of many connections, for tests of TLS and scripts/bench.
 *
 *     tls_load hold PORT                                        commands on stdin, each answered by a line:
 *         open N             so many more TLS connections             -> those that are open, bytes of none
 *         ask SECONDS IDS    GET /SIZE/ID over one after the other    -> answers, bytes of their bodies
 *         close              all of them                              -> 0 0
 *     tls_load storm PORT RATE SECONDS                          new TLS connections, each a full handshake
 *                                                                     -> handshakes, failures
 *     tls_load pace PORT tls|plain PATH CONNECTIONS RATE SECONDS      -> answers, and us of p50 p90 p99 p99.9 max
 *
 * The server is on 127.0.0.1; its certificate is not verified.  A rate holds whether the server keeps up or
 * not: what a request waits for a connection is latency.  Any failure but a storm's ends the program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNS_MAX = 20000,
    OPENING_MAX = 64, /* handshakes at once, of hold */
    ASKING_MAX = 128, /* requests at once, of hold */
    HEAD_ROOM = 1024,
    SECOND_NS = 1000000000,
    PATIENCE_S = 60, /* without any event */
};

enum conn_state {
    CONN_CLOSED,
    CONN_CONNECTING,
    CONN_HANDSHAKE,
    CONN_IDLE,
    CONN_ASKED
};

struct conn {
    int fd;
    SSL *ssl; /* NULL: plain */
    enum conn_state state;
    uint64_t skip;   /* bytes of the body still to come */
    uint64_t due_ns; /* when the request should have left */
    size_t held;     /* of a head that is not whole */
    struct conn *next_idle;
    char head[HEAD_ROOM];
};

/* What a mode does when something has happened to a connection. */
struct mode {
    void (*ready)(struct conn *c);
    void (*answered)(struct conn *c);
    void (*ended)(struct conn *c); /* it is closed already */
};

static const struct mode *mode;
static SSL_CTX *ctx; /* NULL: plain */
static int port, epoll_fd;
static struct conn *conns;
static uint64_t bodies; /* bytes */

static __attribute__((format(printf, 1, 2), noreturn)) void
die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fputs("tls_load: ", stderr);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- one connection ---- */

static void
conn_close(struct conn *c)
{
    if (c->ssl != NULL) {
        if (c->state >= CONN_IDLE)
            SSL_shutdown(c->ssl);
        SSL_free(c->ssl);
    }
    close(c->fd);
    c->ssl = NULL;
    c->state = CONN_CLOSED;
}

static void
conn_fail(struct conn *c)
{
    conn_close(c);
    mode->ended(c);
}

static void
conn_open(struct conn *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = c}};
    int on = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket: %m");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->skip = 0;
    c->held = 0;
    c->state = CONN_CONNECTING;
    if (connect(c->fd, (struct sockaddr *)&at, sizeof(at)) != 0 && errno != EINPROGRESS)
        die("connect to port %d: %m", port);
    if (ctx != NULL) {
        c->ssl = SSL_new(ctx);
        if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1)
            die("no memory");
        SSL_set_connect_state(c->ssl);
    }
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) != 0)
        die("epoll_ctl: %m");
}

/* Bytes; 0: none now; -1: the end, or an error. */
static ssize_t
conn_read(struct conn *c, char *room, size_t len)
{
    ssize_t n;

    if (c->ssl != NULL) {
        n = SSL_read(c->ssl, room, (int)len);
        return n > 0 ? n : SSL_get_error(c->ssl, (int)n) == SSL_ERROR_WANT_READ ? 0 : -1;
    }
    n = recv(c->fd, room, len, 0);
    return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
}

static void
conn_ask(struct conn *c, const char *path)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ssize_t n;

    c->state = CONN_ASKED;
    n = c->ssl != NULL ? SSL_write(c->ssl, text, len)
                       : send(c->fd, text, (size_t)len, MSG_NOSIGNAL);
    if (n != len)
        conn_fail(c);
}

static void
conn_head(struct conn *c, const char *end)
{
    const char *field;

    if (memcmp(c->head, "HTTP/1.1 200", 12) != 0)
        die("not a 200: %.60s", c->head);
    *(char *)(uintptr_t)end = '\0';
    field = strcasestr(c->head, "\r\nContent-Length: ");
    if (field == NULL)
        die("an answer without Content-Length");
    c->skip = strtoull(field + 18, NULL, 10);
    bodies += c->skip;
}

/* Takes bytes of an answer; true: it is complete.  Nothing comes behind it. */
static bool
conn_feed(struct conn *c, const char *p, size_t len)
{
    if (c->skip == 0) {
        size_t n = len < HEAD_ROOM - 1 - c->held ? len : HEAD_ROOM - 1 - c->held;
        const char *end;

        memcpy(c->head + c->held, p, n);
        c->head[c->held + n] = '\0';
        end = strstr(c->head, "\r\n\r\n");
        if (end == NULL) {
            c->held += n;
            if (n < len)
                die("a head of 1 KiB");
            return false;
        }
        len -= (size_t)(end + 4 - c->head) - c->held;
        conn_head(c, end);
        c->held = 0;
    }
    if (len > c->skip)
        die("bytes behind an answer");
    c->skip -= len;
    return c->skip == 0;
}

static void
conn_hear(struct conn *c)
{
    static char room[1 << 16];

    while (c->state >= CONN_IDLE) {
        ssize_t n = conn_read(c, room, sizeof(room));

        if (n == 0)
            return;
        if (n < 0) {
            conn_fail(c);
            return;
        }
        if (c->state != CONN_ASKED)
            die("bytes without a request");
        if (conn_feed(c, room, (size_t)n)) {
            c->state = CONN_IDLE;
            mode->answered(c);
        }
    }
}

static void
conn_step(struct conn *c)
{
    int rc = 1;

    if (c->state == CONN_CONNECTING) {
        int err = 0;
        socklen_t len = sizeof(err);

        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
        if (err != 0)
            rc = -1;
        else
            c->state = CONN_HANDSHAKE;
    }
    if (c->state == CONN_HANDSHAKE && rc > 0) {
        if (c->ssl != NULL)
            rc = SSL_do_handshake(c->ssl);
        if (rc <= 0 && c->ssl != NULL && SSL_get_error(c->ssl, rc) == SSL_ERROR_WANT_READ)
            return;
        if (rc == 1) {
            c->state = CONN_IDLE;
            mode->ready(c);
        }
    }
    if (rc <= 0)
        conn_fail(c);
    else
        conn_hear(c);
}

/* ---- the loop ---- */

/* What has happened, or nothing by then. */
static void
turn(uint64_t until_ns)
{
    struct pollfd p = {.fd = epoll_fd, .events = POLLIN};
    uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
    struct timespec t = {(time_t)(left / SECOND_NS), (long)(left % SECOND_NS)};
    struct epoll_event evs[256];
    int n;

    if (ppoll(&p, 1, &t, NULL) <= 0)
        return;
    n = epoll_wait(epoll_fd, evs, 256, 0);
    for (int i = 0; i < n; i++) {
        struct conn *c = evs[i].data.ptr;

        if (c->state != CONN_CLOSED)
            conn_step(c);
    }
}

static void
ended_is_fatal(struct conn *c)
{
    die("a connection was closed: %zu", (size_t)(c - conns));
}

/* ---- hold ---- */

static unsigned hold_open, hold_opening, hold_asking;
static uint64_t hold_answers, hold_ids;

static void
hold_ready(struct conn *c)
{
    (void)c;
    hold_opening--;
    hold_open++;
}

static void
hold_answered(struct conn *c)
{
    (void)c;
    hold_asking--;
    hold_answers++;
}

static uint64_t
hold_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15; /* splitmix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Few are requested often, and most are some kilobytes long: an id has one size. */
static void
hold_ask(struct conn *c)
{
    static uint64_t seed = 1;
    uint64_t u = hold_random(&seed) >> 32, id = (u * u >> 32) * hold_ids >> 32, at = id;
    unsigned bits = (unsigned)(hold_random(&at) % 17);
    char path[64];

    if (at % 20 == 0)
        bits += 4; /* up to 1 MiB */
    snprintf(path, sizeof(path), "/%llu/%llu",
        (unsigned long long)((1u << bits) + (hold_random(&at) & ((1u << bits) - 1))),
        (unsigned long long)id);
    hold_asking++;
    conn_ask(c, path);
}

static void
hold_ask_for(double seconds)
{
    uint64_t until = now_ns() + (uint64_t)(seconds * SECOND_NS);
    unsigned at = 0;

    while (now_ns() < until || hold_asking > 0) {
        uint64_t answers = hold_answers;

        for (unsigned tried = 0; tried < hold_open && hold_asking < ASKING_MAX && now_ns() < until;
             tried++) {
            struct conn *c = &conns[at++ % hold_open];

            if (c->state == CONN_IDLE)
                hold_ask(c);
        }
        turn(now_ns() + (uint64_t)PATIENCE_S * SECOND_NS);
        if (hold_answers == answers && now_ns() > until + (uint64_t)PATIENCE_S * SECOND_NS)
            die("%u requests without an answer", hold_asking);
    }
}

static void
hold_open_more(unsigned more)
{
    unsigned begun = hold_open, all = hold_open + more;

    if (all > CONNS_MAX)
        die("at most %d connections", CONNS_MAX);
    while (hold_open < all) {
        unsigned was = hold_open;

        while (begun < all && hold_opening < OPENING_MAX) {
            hold_opening++;
            conn_open(&conns[begun++]);
        }
        turn(now_ns() + (uint64_t)PATIENCE_S * SECOND_NS);
        if (hold_open == was && hold_opening == 0)
            die("no connection opens");
    }
}

static int
hold_main(void)
{
    static const struct mode hold = {hold_ready, hold_answered, ended_is_fatal};
    char line[256];
    unsigned n;
    double seconds;
    unsigned long long ids;

    mode = &hold;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        hold_answers = bodies = 0;
        if (sscanf(line, "open %u", &n) == 1) {
            hold_open_more(n);
            hold_answers = hold_open;
        } else if (sscanf(line, "ask %lf %llu", &seconds, &ids) == 2) {
            hold_ids = ids;
            hold_ask_for(seconds);
        } else if (strcmp(line, "close\n") == 0) {
            while (hold_open > 0)
                conn_close(&conns[--hold_open]);
        } else {
            die("no command: %s", line);
        }
        printf("%llu %llu\n", (unsigned long long)hold_answers, (unsigned long long)bodies);
        fflush(stdout);
    }
    return 0;
}

/* ---- storm ---- */

static uint64_t storm_done, storm_failed;

static void
storm_ready(struct conn *c)
{
    if (SSL_session_reused(c->ssl))
        die("a handshake was resumed");
    storm_done++;
    conn_close(c);
}

static void
storm_ended(struct conn *c)
{
    (void)c;
    storm_failed++;
}

static void
never_answered(struct conn *c)
{
    ended_is_fatal(c);
}

static int
storm_main(double rate, double seconds)
{
    static const struct mode storm = {storm_ready, never_answered, storm_ended};
    const struct sched_param none = {0};
    uint64_t start = now_ns(), total = (uint64_t)(rate * seconds), sent = 0;

    mode = &storm;
    /* Who measures on this processor comes first. */
    sched_setscheduler(0, SCHED_IDLE, &none);
    while (
        storm_done + storm_failed < total && now_ns() < start + (uint64_t)((seconds + 10) * 1e9)) {
        uint64_t due = start + (uint64_t)((double)sent / rate * 1e9), now = now_ns();

        if (sent < total && due <= now) {
            struct conn *c = &conns[sent++ % CONNS_MAX];

            if (c->state != CONN_CLOSED)
                die("%d handshakes at once", CONNS_MAX);
            conn_open(c);
            continue;
        }
        turn(sent < total ? due : now + SECOND_NS);
    }
    printf("%llu %llu\n", (unsigned long long)storm_done, (unsigned long long)(total - storm_done));
    return 0;
}

/* ---- pace ---- */

static struct conn *pace_idle;
static unsigned pace_conns;
static const char *pace_path;
static uint64_t *pace_took; /* ns, of each request */
static uint64_t pace_done, pace_asked, pace_total, pace_start_ns;
static double pace_rate;

static uint64_t
pace_due(uint64_t i)
{
    return pace_start_ns + (uint64_t)((double)i / pace_rate * 1e9);
}

static void
pace_ready(struct conn *c)
{
    c->next_idle = pace_idle;
    pace_idle = c;
    pace_conns++;
}

static void
pace_answered(struct conn *c)
{
    if (pace_start_ns != 0)
        pace_took[pace_done++] = now_ns() - c->due_ns;
    c->next_idle = pace_idle;
    pace_idle = c;
}

static int
pace_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void
pace_print(void)
{
    static const double parts[] = {0.5, 0.9, 0.99, 0.999, 1};

    qsort(pace_took, pace_done, sizeof(pace_took[0]), pace_compare);
    printf("%llu", (unsigned long long)pace_done);
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint64_t at = (uint64_t)((double)pace_done * parts[i]);

        printf(" %.1f", (double)pace_took[at < pace_done ? at : pace_done - 1] / 1000);
    }
    printf("\n");
}

static void
pace_ask(uint64_t due)
{
    struct conn *c = pace_idle;

    pace_idle = c->next_idle;
    c->due_ns = due;
    conn_ask(c, pace_path);
}

static int
pace_main(char **argv)
{
    static const struct mode pace = {pace_ready, pace_answered, ended_is_fatal};
    unsigned wanted = (unsigned)atoi(argv[5]);
    const struct conn *first;

    mode = &pace;
    pace_path = argv[4];
    pace_rate = atof(argv[6]);
    pace_total = (uint64_t)(pace_rate * atof(argv[7]));
    pace_took = calloc(pace_total + 1, sizeof(pace_took[0]));
    if (wanted == 0 || wanted > CONNS_MAX || pace_total == 0 || pace_took == NULL)
        die("CONNECTIONS, RATE and SECONDS are more than 0");
    for (unsigned i = 0; i < wanted; i++)
        conn_open(&conns[i]);
    while (pace_conns < wanted)
        turn(now_ns() + SECOND_NS);
    first = pace_idle;
    pace_ask(0); /* the miss */
    while (first->state == CONN_ASKED)
        turn(now_ns() + SECOND_NS);
    pace_start_ns = now_ns();
    while (pace_done < pace_total) {
        uint64_t due = pace_due(pace_asked), now = now_ns();

        if (pace_asked < pace_total && pace_idle != NULL && due <= now) {
            pace_asked++;
            pace_ask(due);
            continue;
        }
        turn(pace_asked < pace_total && pace_idle != NULL ? due : now + SECOND_NS);
    }
    pace_print();
    return 0;
}

int
main(int argc, char **argv)
{
    char groups[] = "X25519"; /* OpenSSL's macro casts const away */
    struct rlimit files;

    if (argc < 3)
        die("hold PORT, storm PORT RATE SECONDS or pace PORT tls|plain PATH CONNECTIONS RATE "
            "SECONDS");
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL's socket writes without MSG_NOSIGNAL */
    port = atoi(argv[2]);
    conns = calloc(CONNS_MAX, sizeof(*conns));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (conns == NULL || epoll_fd < 0)
        die("no memory");
    if (argc < 4 || strcmp(argv[3], "plain") != 0) {
        ctx = SSL_CTX_new(TLS_client_method());
        if (ctx == NULL)
            die("no memory");
        SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set1_groups_list(ctx, groups);
    }
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return hold_main();
    if (argc == 5 && strcmp(argv[1], "storm") == 0)
        return storm_main(atof(argv[3]), atof(argv[4]));
    if (argc == 8 && strcmp(argv[1], "pace") == 0)
        return pace_main(argv);
    die("no such command: %s", argv[1]);
}
