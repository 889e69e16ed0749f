/* h1_interim.c -- responses before the final one: our own 100, and those that an origin sent.
 *
 * None of them is ever waited for: asking for the final response skips them. */
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conn.h"

/* Answers to earlier requests go first.  Returns whether the socket may take more now. */
static bool
h1_interim_ready(struct h1_conn *c)
{
    if (h1_out_flush(c) < 0)
        h1_conn_die(c);
    return h1_out_ready(c); /* false for the dead */
}

static struct iovec
h1_interim_iov(struct slice s)
{
    struct iovec iov = {.iov_len = s.len};

    memcpy(&iov.iov_base, &s.ptr, sizeof(s.ptr)); /* only read from */
    return iov;
}

void
h1_continue(struct h1_conn *c, struct h1_xchg *hx)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec iov = h1_interim_iov(slice_of(text, sizeof(text) - 1));
    ssize_t n;

    if (!hx->expects_100 || c->busy->in.len > 0 || hx->head_given)
        return;
    if (!h1_interim_ready(c)) {
        hx->x.writable = false; /* the flush may have filled the output */
        return;
    }
    hx->expects_100 = false;
    n = stream_try(c->stream, &iov, 1, false);
    if (n != (ssize_t)iov.iov_len) {
        h1_conn_die(c); /* an empty socket that does not take 25 bytes is broken */
        return;
    }
    c->busy->given += (uint64_t)n;
    c->busy->left += (uint64_t)n;
}

/* Behind the `sent` bytes that the kernel took: a response cannot be left half said. */
static int
h1_interim_keep(struct h1_conn *c, struct h1_xchg *hx, struct slice block, size_t sent)
{
    size_t skip = sent < block.len ? sent : block.len;
    size_t len = block.len + 2 - sent;
    char *copy = arena_alloc(&hx->x.arena, len);
    struct iovec iov = {.iov_base = copy, .iov_len = len};

    if (copy == NULL)
        return TERR_NOMEM;
    memcpy(copy, block.ptr + skip, block.len - skip);
    memcpy(copy + (block.len - skip), &"\r\n"[sent - skip], len - (block.len - skip));
    return h1_out_keep(c, &iov, 1, len) < 0 ? TERR_CLOSED : 0;
}

int
h1_interim(struct exchange *x, const struct http_message *m)
{
    struct h1_xchg *hx = h1_xchg_of(x);
    struct h1_conn *c = hx->conn;
    struct iovec iov[2];
    struct slice block;
    size_t total;
    ssize_t sent;

    if (c->dead || x->gone)
        return TERR_CLOSED;
    /* RFC 9110 15.2: never to HTTP/1.0.  A client that takes nothing gets the answer alone. */
    if (http_is_1_0(&x->head) || c->cur != hx || hx->head_given || hx->tunnel ||
        !h1_interim_ready(c))
        return c->dead ? TERR_CLOSED : 0;
    if (!h1_render(&x->arena, m, &block))
        return 0;
    iov[0] = h1_interim_iov(block);
    iov[1] = h1_interim_iov(SLICE_LIT("\r\n"));
    total = block.len + 2;
    sent = stream_try(c->stream, iov, 2, false);
    if (sent == 0)
        return 0;
    if (sent > 0) {
        c->busy->given += total;
        c->busy->left += (uint64_t)sent;
    }
    if (sent < 0 || ((size_t)sent < total && h1_interim_keep(c, hx, block, (size_t)sent) != 0)) {
        h1_conn_die(c);
        return TERR_CLOSED;
    }
    counter_add(c->server->env.counters, COUNTER_resp_head_bytes, (uint64_t)total);
    x->writable = h1_out_ready(c);
    if (!x->writable && !c->running)
        task_wake(&c->task); /* to set the deadline for a slow client */
    return 0;
}
