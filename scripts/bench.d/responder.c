/* responder.c -- a bare responder on libuv and llhttp: what a server on them cannot go below.
 *
 *     bench-responder PORT BODY_BYTES [FIELD]
 *
 * It parses every request with llhttp and answers each with a fixed head and body; FIELD, as
 * "Cache-Control: max-age=60", is one more line of the head, for an origin.  It looks
 * at nothing in the request but where it ends and whether the connection stays open.  The
 * requests of one read are answered by one write, so a pipelining client gets one packet.
 * It listens on 127.0.0.1, prints "responder: ready PORT", and runs until it is killed.
 */
#include <llhttp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#define RESPONDER_READ_BYTES 65536       /* as libuv suggests; one read takes a pipelined batch */
#define RESPONDER_BODY_MAX   (256 << 20) /* a larger body is a mistake on the command line */
#define RESPONDER_REPEAT     256         /* answers in a row, while they are small */
#define RESPONDER_BACKLOG    4096

/* The fastest that the processor knows, as tarnd does it. */
#if defined(TARN_LLHTTP_SSE42)
int llhttp_sse42_execute(llhttp_t *parser, const char *p, const char *end);
#endif

static llhttp_errno_t
responder_parse(llhttp_t *parser, const char *p, size_t len)
{
#if defined(TARN_LLHTTP_SSE42)
    if (__builtin_cpu_supports("sse4.2"))
        return (llhttp_errno_t)llhttp_sse42_execute(parser, p, p + len);
#endif
    return llhttp_execute(parser, p, len);
}

struct responder {
    llhttp_settings_t settings;
    char *answers; /* `repeat` times the same answer */
    size_t answer_bytes;
    unsigned repeat;
    char buf[RESPONDER_READ_BYTES]; /* shared: what is read is parsed before the next read */
};

struct responder_conn {
    uv_tcp_t tcp;
    llhttp_t parser;
    uv_write_t write;
    unsigned owed; /* requests parsed and not yet answered */
    bool last;     /* close once everything owed is sent */
    bool writing;  /* `write` is with libuv */
};

static struct responder responder;

static void responder_send(struct responder_conn *c);

static void
responder_must(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "responder: %s: %s\n", what, uv_strerror(err));
        exit(1);
    }
}

static void
responder_on_close(uv_handle_t *h)
{
    free(h->data);
}

static void
responder_close(struct responder_conn *c)
{
    uv_handle_t *h = (uv_handle_t *)&c->tcp;

    if (!uv_is_closing(h))
        uv_close(h, responder_on_close);
}

static int
responder_on_message(llhttp_t *parser)
{
    struct responder_conn *c = parser->data;

    c->owed++;
    c->last = llhttp_should_keep_alive(parser) == 0;
    return 0;
}

static void
responder_on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)h;
    (void)suggested;
    *buf = uv_buf_init(responder.buf, sizeof(responder.buf));
}

static void
responder_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct responder_conn *c = s->data;
    enum llhttp_errno err;

    if (n == 0)
        return;
    if (n < 0) {
        responder_close(c);
        return;
    }
    err = responder_parse(&c->parser, buf->base, (size_t)n);
    if (err != HPE_OK)
        c->last = true; /* what came before the error is answered still */
    if (c->owed > 0)
        responder_send(c);
    else if (c->last)
        responder_close(c);
}

static void
responder_on_written(uv_write_t *w, int err)
{
    struct responder_conn *c = w->data;

    c->writing = false;
    if (err < 0) {
        responder_close(c);
        return;
    }
    if (!uv_is_closing((uv_handle_t *)&c->tcp)) {
        responder_must(
            uv_read_start((uv_stream_t *)&c->tcp, responder_on_alloc, responder_on_read), "read");
        responder_send(c);
    }
}

/* Leaves the rest of a write to libuv, and reads nothing until the client has taken it. */
static void
responder_wait(struct responder_conn *c, size_t off, size_t len)
{
    uv_buf_t buf = uv_buf_init(responder.answers + off, (unsigned)(len - off));

    uv_read_stop((uv_stream_t *)&c->tcp);
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, responder_on_written) < 0)
        responder_close(c);
    else
        c->writing = true;
}

/* Answers what is owed, as far as the socket takes it. */
static void
responder_send(struct responder_conn *c)
{
    while (c->owed > 0 && !c->writing) {
        unsigned k = c->owed < responder.repeat ? c->owed : responder.repeat;
        size_t len = k * responder.answer_bytes;
        uv_buf_t buf = uv_buf_init(responder.answers, (unsigned)len);
        int n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);

        if (n < 0 && n != UV_EAGAIN) {
            responder_close(c);
            return;
        }
        c->owed -= k;
        if (n < 0 || (size_t)n < len)
            responder_wait(c, n < 0 ? 0 : (size_t)n, len);
    }
    if (c->last && !c->writing)
        responder_close(c);
}

static void
responder_on_connection(uv_stream_t *listener, int err)
{
    struct responder_conn *c;

    if (err < 0)
        return;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        responder_must(UV_ENOMEM, "connection");
    responder_must(uv_tcp_init(listener->loop, &c->tcp), "connection");
    c->tcp.data = c;
    llhttp_init(&c->parser, HTTP_REQUEST, &responder.settings);
    c->parser.data = c;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) < 0) {
        responder_close(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    responder_must(
        uv_read_start((uv_stream_t *)&c->tcp, responder_on_alloc, responder_on_read), "read");
}

static void
responder_make_answers(size_t body_bytes, const char *field)
{
    char head[512], date[32];
    time_t now = time(NULL);
    struct tm tm;
    int head_bytes;

    /* Of today: who stores these for a day takes an older one for stale. */
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    head_bytes = snprintf(head, sizeof(head),
        "HTTP/1.1 200 OK\r\nServer: responder\r\nDate: %s\r\n"
        "Content-Type: text/plain\r\nAge: 10\r\nVia: 1.1 bare\r\nContent-Length: %zu\r\n"
        "%s%s\r\n",
        date, body_bytes, field, field[0] != '\0' ? "\r\n" : "");
    if (head_bytes >= (int)sizeof(head))
        responder_must(UV_E2BIG, "field");
    responder.answer_bytes = (size_t)head_bytes + body_bytes;
    responder.repeat = body_bytes > 65536 ? 1 : RESPONDER_REPEAT;
    responder.answers = malloc(responder.answer_bytes * responder.repeat);
    if (responder.answers == NULL)
        responder_must(UV_ENOMEM, "answers");
    for (unsigned i = 0; i < responder.repeat; i++) {
        char *answer = responder.answers + i * responder.answer_bytes;

        memcpy(answer, head, (size_t)head_bytes);
        memset(answer + head_bytes, 'x', body_bytes);
    }
}

int
main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    struct sockaddr_in addr;
    bool told = argc == 3 || argc == 4;
    long port = told ? strtol(argv[1], NULL, 10) : 0;
    long body_bytes = told ? strtol(argv[2], NULL, 10) : 0;

    if (port < 1 || port > 65535 || body_bytes < 0 || body_bytes > RESPONDER_BODY_MAX) {
        fprintf(stderr, "usage: bench-responder PORT BODY_BYTES [FIELD]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    llhttp_settings_init(&responder.settings);
    responder.settings.on_message_complete = responder_on_message;
    responder_make_answers((size_t)body_bytes, argc == 4 ? argv[3] : "");
    responder_must(uv_ip4_addr("127.0.0.1", (int)port, &addr), "address");
    responder_must(uv_tcp_init(loop, &listener), "listener");
    responder_must(uv_tcp_bind(&listener, (const struct sockaddr *)&addr, 0), "bind");
    responder_must(
        uv_listen((uv_stream_t *)&listener, RESPONDER_BACKLOG, responder_on_connection), "listen");
    printf("responder: ready %ld\n", port);
    fflush(stdout);
    return uv_run(loop, UV_RUN_DEFAULT);
}
