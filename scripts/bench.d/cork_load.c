/* cork_load.c -- scripts/bench --cork: a client that counts segments, and its origin.
 *
 *     cork_load get ADDRESS PATH CONNECTIONS DEPTH SECONDS
 *     cork_load origin PORT
 *
 * The client keeps CONNECTIONS x DEPTH requests under way: DEPTH of them in one write, and the
 * next when all answers have come.  ADDRESS is a port of 127.0.0.1, or the path of a Unix socket;
 * with `tls:` in front of it the client speaks TLS, and believes any certificate.
 * It prints one line: requests, nanoseconds, data segments received (TCP_INFO; 0 for Unix), calls
 * of recv, records of data (0 without TLS).
 *
 * The origin answers /hit/BYTES (for the cache), /pass/BYTES (not for it) and /apart/BYTES (nor
 * this, its head in a packet of its own).
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNS_MAX = 1024,
    ROOM = 1 << 18,
    HEAD_ROOM = 4096,
    BODY_MAX = 1 << 21
};

static __attribute__((format(printf, 1, 2), noreturn)) void
die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
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
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void
write_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            die("cork_load: send: %m");
        p += n;
        len -= (size_t)n;
    }
}

static void
no_delay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* ---- The client ---- */

struct conn {
    int fd;
    uint64_t skip;      /* body bytes still to come */
    size_t held;        /* of a head that is not whole, in `head` */
    unsigned awaited;   /* answers */
    unsigned segs_base; /* segments before the count began */
    SSL *ssl;           /* NULL: plain */
    char head[HEAD_ROOM];
};

static struct conn conns[CONNS_MAX];
static uint64_t recvs, records;

static int
client_connect(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool is_unix = strchr(address, '/') != NULL;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0), rc;

    if (is_unix) {
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", address);
        rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
    } else {
        in.sin_port = htons((uint16_t)atoi(address));
        rc = connect(fd, (struct sockaddr *)&in, sizeof(in));
        no_delay(fd);
    }
    if (rc != 0)
        die("cork_load: connect to %s: %m", address);
    return fd;
}

/* A record's header, as it came (SSL_CTX_set_msg_callback(3)). */
static void
client_on_message(
    int written, int version, int type, const void *bytes, size_t len, SSL *ssl, void *arg)
{
    (void)version, (void)ssl, (void)arg;
    if (!written && type == SSL3_RT_HEADER && len >= 1 &&
        *(const unsigned char *)bytes == SSL3_RT_APPLICATION_DATA)
        records++;
}

static void
client_secure(struct conn *c)
{
    static SSL_CTX *ctx;

    if (ctx == NULL) {
        ctx = SSL_CTX_new(TLS_client_method());
        if (ctx == NULL)
            die("cork_load: no TLS");
        SSL_CTX_set_msg_callback(ctx, client_on_message);
    }
    c->ssl = SSL_new(ctx);
    if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_connect(c->ssl) != 1)
        die("cork_load: the handshake failed");
}

static void
client_write(struct conn *c, const char *p, size_t len)
{
    if (c->ssl == NULL)
        write_all(c->fd, p, len);
    else if (SSL_write(c->ssl, p, (int)len) != (int)len)
        die("cork_load: SSL_write failed");
}

static ssize_t
client_read(struct conn *c, char *to, size_t room)
{
    return c->ssl == NULL ? recv(c->fd, to, room, 0) : SSL_read(c->ssl, to, (int)room);
}

static unsigned
client_segments(int fd)
{
    struct tcp_info info = {.tcpi_data_segs_in = 0};
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 0; /* a Unix socket */
    return info.tcpi_data_segs_in;
}

/* A whole head: what follows it. */
static void
client_head(struct conn *c, const char *head, size_t len)
{
    const char *field;

    if (len < 12 || memcmp(head, "HTTP/1.1 200", 12) != 0)
        die("cork_load: not a 200: %.*s", (int)(len < 60 ? len : 60), head);
    field = memmem(head, len, "\r\nContent-Length: ", 18);
    if (field == NULL)
        die("cork_load: an answer without Content-Length");
    c->skip = strtoull(field + 18, NULL, 10);
}

/* Takes bytes that came; counts off answers that are complete. */
static void
client_feed(struct conn *c, const char *p, size_t len)
{
    while (len > 0) {
        size_t n = c->skip < len ? (size_t)c->skip : len;
        const char *end;

        c->skip -= n;
        p += n;
        len -= n;
        if (n > 0 && c->skip == 0)
            c->awaited--;
        if (len == 0)
            return;
        n = len < HEAD_ROOM - c->held ? len : HEAD_ROOM - c->held;
        memcpy(c->head + c->held, p, n);
        end = memmem(c->head, c->held + n, "\r\n\r\n", 4);
        if (end == NULL) {
            c->held += n;
            if (c->held == HEAD_ROOM)
                die("cork_load: a head of 4 KiB");
            return;
        }
        n = (size_t)(end + 4 - c->head) - c->held;
        client_head(c, c->head, (size_t)(end + 4 - c->head));
        c->held = 0;
        p += n;
        len -= n;
        if (c->skip == 0)
            c->awaited--;
    }
}

static void
client_round(unsigned n, const char *requests, size_t len, unsigned depth)
{
    static char room[ROOM];

    for (unsigned i = 0; i < n; i++) {
        client_write(&conns[i], requests, len);
        conns[i].awaited = depth;
    }
    for (unsigned i = 0; i < n; i++) {
        while (conns[i].awaited > 0) {
            ssize_t got = client_read(&conns[i], room, sizeof(room));

            if (got <= 0)
                die("cork_load: the connection ended");
            recvs++;
            client_feed(&conns[i], room, (size_t)got);
        }
    }
}

static int
client_main(char **argv)
{
    unsigned n = (unsigned)atoi(argv[4]), depth = (unsigned)atoi(argv[5]), segs = 0;
    uint64_t done = 0, start, until;
    size_t len = 0, room = depth * (strlen(argv[3]) + 64);
    char *requests = malloc(room);
    bool secure = strncmp(argv[2], "tls:", 4) == 0;

    if (n == 0 || n > CONNS_MAX || depth == 0 || requests == NULL)
        die("cork_load: 1 to %d connections, and a depth of 1 or more", CONNS_MAX);
    for (unsigned i = 0; i < depth; i++)
        len += (size_t)snprintf(
            requests + len, room - len, "GET %s HTTP/1.1\r\nHost: bench\r\n\r\n", argv[3]);
    for (unsigned i = 0; i < n; i++) {
        conns[i].fd = client_connect(argv[2] + (secure ? 4 : 0));
        if (secure)
            client_secure(&conns[i]);
    }
    client_round(n, requests, len, depth); /* warm: the miss, and origin connections */
    for (unsigned i = 0; i < n; i++)
        conns[i].segs_base = client_segments(conns[i].fd);
    recvs = records = 0;
    start = now_ns();
    until = start + (uint64_t)(atof(argv[6]) * 1e9);
    while (now_ns() < until) {
        client_round(n, requests, len, depth);
        done += n * depth;
    }
    until = now_ns();
    for (unsigned i = 0; i < n; i++)
        segs += client_segments(conns[i].fd) - conns[i].segs_base;
    printf("%llu %llu %u %llu %llu\n", (unsigned long long)done,
        (unsigned long long)(until - start), segs, (unsigned long long)recvs,
        (unsigned long long)records);
    free(requests);
    return 0;
}

/* ---- The origin ---- */

static char body[BODY_MAX];

static void
origin_answer(int fd, const char *target)
{
    char head[256], *out;
    const char *number = strrchr(target, '/');
    size_t bytes = strtoul(number + 1, NULL, 10), len;
    bool apart = strncmp(target, "/apart/", 7) == 0;

    if (bytes > BODY_MAX)
        bytes = BODY_MAX;
    len = (size_t)snprintf(head, sizeof(head),
        "HTTP/1.1 200 OK\r\nCache-Control: %s\r\nContent-Type: text/plain\r\n"
        "Content-Length: %zu\r\n\r\n",
        strncmp(target, "/hit/", 5) == 0 ? "max-age=86400" : "no-store", bytes);
    if (apart) {
        write_all(fd, head, len);
        write_all(fd, body, bytes);
        return;
    }
    out = malloc(len + bytes);
    if (out == NULL)
        die("cork_load: no memory");
    memcpy(out, head, len);
    memcpy(out + len, body, bytes);
    write_all(fd, out, len + bytes);
    free(out);
}

static void *
origin_serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char in[HEAD_ROOM];
    size_t have = 0;

    for (;;) {
        ssize_t n = recv(fd, in + have, sizeof(in) - 1 - have, 0);
        char target[256];

        if (n <= 0)
            break;
        have += (size_t)n;
        in[have] = '\0';
        if (strstr(in, "\r\n\r\n") == NULL) /* tarnd does not pipeline to an origin */
            continue;
        if (sscanf(in, "GET %255s ", target) != 1 || target[0] != '/')
            break;
        origin_answer(fd, target);
        have = 0;
    }
    close(fd);
    return NULL;
}

static int
origin_main(const char *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    memset(body, 'x', sizeof(body));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    in.sin_port = htons((uint16_t)atoi(port));
    if (bind(listener, (struct sockaddr *)&in, sizeof(in)) != 0 || listen(listener, 1024) != 0)
        die("cork_load: port %s: %m", port);
    printf("cork_load: ready\n");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pthread_t thread;

        if (fd < 0)
            continue;
        no_delay(fd);
        if (pthread_create(&thread, NULL, origin_serve, (void *)(intptr_t)fd) != 0)
            die("cork_load: no thread");
        pthread_detach(thread);
    }
}

int
main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "get") == 0)
        return client_main(argv);
    if (argc == 3 && strcmp(argv[1], "origin") == 0)
        return origin_main(argv[2]);
    die("cork_load: get ADDRESS PATH CONNECTIONS DEPTH SECONDS, or origin PORT");
}
