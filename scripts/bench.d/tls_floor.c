/* tls_floor.c -- scripts/bench tls: the least that TLS costs a server, OpenSSL and nothing else.
 *
 *     tls_floor PORT CERTIFICATE BYTES
 *
 * A thread a connection: accept, handshake, and for each head that has come one write of an answer
 * with BYTES of body.  Contexts are set up as tarnd's are (daemon/tls/tls_server.c); the socket is
 * OpenSSL's own.  The certificate's file has its key.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL_CTX *ctx;
static char *answer;
static size_t answer_len;

static void
answer_make(size_t body)
{
    answer = malloc(body + 256);
    answer_len = (size_t)snprintf(answer, 256,
        "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Length: %zu\r\n"
        "Content-Type: text/plain\r\n\r\n",
        body);
    memset(answer + answer_len, 'x', body);
    answer_len += body;
}

/* Heads that end in these bytes; a head that is cut is not sent by our client. */
static unsigned
heads_in(const char *p, int n)
{
    unsigned heads = 0;

    for (int i = 3; i < n; i++)
        heads += p[i] == '\n' && p[i - 1] == '\r' && p[i - 2] == '\n';
    return heads;
}

static void *
serve(void *arg)
{
    int fd = (int)(long)arg, n;
    SSL *ssl = SSL_new(ctx);
    char in[65536];

    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1)
        while ((n = SSL_read(ssl, in, sizeof(in))) > 0)
            for (unsigned left = heads_in(in, n); left > 0; left--)
                if (SSL_write(ssl, answer, (int)answer_len) <= 0)
                    break;
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(ssl);
    close(fd);
    return NULL;
}

int
main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd, on = 1;
    pthread_attr_t detached;

    if (argc != 4) {
        fprintf(stderr, "usage: tls_floor PORT CERTIFICATE BYTES\n");
        return 2;
    }
    answer_make(strtoul(argv[3], NULL, 10));
    ctx = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(ctx, argv[2]) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, argv[2], SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "tls_floor: %s: not a certificate with its key\n", argv[2]);
        return 1;
    }
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set1_groups_list(ctx, "X25519:P-256");
    at.sin_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 1024) != 0) {
        perror("tls_floor");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN); /* a client leaves before its ticket is written */
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    puts("tls_floor: ready");
    fflush(stdout);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        pthread_t t;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (pthread_create(&t, &detached, serve, (void *)(long)fd) != 0)
            close(fd);
    }
    return 1;
}
