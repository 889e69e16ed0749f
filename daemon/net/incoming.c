/* incoming.c -- client connections from the accepted socket to their protocol. */
#include "daemon/net/incoming.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/log/elog.h"
#include "daemon/net/operator_cred.h"
#include "daemon/net/proxy_header.h"
#include "daemon/net/secure.h"
#include "daemon/net/stream.h"
#include "daemon/shm/counters.h"

enum {
    SESSION_BITS = 45, /* of conn_facts.session */
    SESSION_COUNT_BITS = SESSION_BITS - 8,
    SESSION_SECOND_SHIFT = 20, /* a number is that of the start's second, and counts from there */
};
_Static_assert(LIMIT_WORKERS <= 1 << (SESSION_BITS - SESSION_COUNT_BITS), "session numbers fit");

#define INCOMING_MAGIC OBJ_TAG('i', 'n', 'c', 'm')
struct incoming {
    uint32_t magic;
    struct incoming_env env;
    struct conn_server *servers;            /* all */
    struct conn_server *of[CONN_PROTOCOLS]; /* NULL: there is none of that protocol */
    struct list waiting;                    /* incoming_conn, the oldest first */
    struct list operators;                  /* incoming_operator, the oldest first */
    unsigned nwaiting, nconns;              /* nconns: those that wait, too */
    uint64_t next_session;
    bool draining;
};

/* RFC 9113 3.4: what a client of HTTP/2 begins with.  No request of HTTP/1 is like it up to its end. */
static const char incoming_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum {
    PREFACE = sizeof(incoming_preface) - 1
};

/* A connection that waits for its PROXY header, its handshake or its first bytes. */
#define INCOMING_CONN_MAGIC OBJ_TAG('i', 'n', 'c', 'c')
struct incoming_conn {
    uint32_t magic;
    struct incoming *incoming;
    struct stream *stream;
    struct secure_server *server; /* of the handshake that follows, or is under way; NULL: none */
    bool is_proxied;              /* the header has not been read */
    bool h2c;                     /* its first bytes say which protocol it is */
    bool h2c_only;                /* it is HTTP/2's, whatever they are */
    bool is_known;                /* they have, and the stream is to have them again */
    uint8_t protocol;             /* which, then */
    uint8_t nfirst;               /* of those that did not come in one piece */
    char first[PREFACE];
    struct conn_facts facts;
    struct list link; /* in incoming->waiting */
    struct task task;
    struct timer timer;
    uint64_t since_ms;
    size_t nkept;
    char *kept; /* the header's first bytes, where it does not come in one piece */
};

/* In place of the listener's, for as long as the connection lasts: conn_facts.listener. */
struct incoming_own {
    struct conn_listener listener;
    struct conn_forwarded forwarded;
    struct conn_secure secure;
    char text[]; /* of `secure` */
};

struct incoming_operator {
    struct conn_listener listener;
    struct conn_operator peer;
    struct list link; /* in incoming->operators, or alone */
    uint64_t session, since_ms;
};

/* ---- the life of a connection ---- */

/* Unique over the loops.  The count begins at the second of the start,
 * shifted by 20 bits, so a process that follows does not use the numbers of the one before: 37 bits
 * come round after a day and a half. */
static uint64_t
incoming_session(struct incoming *in)
{
    uint64_t n = in->next_session++ & ((UINT64_C(1) << SESSION_COUNT_BITS) - 1);

    return (uint64_t)in->env.loop->id << SESSION_COUNT_BITS | n;
}

/* Counts it as one of its client's.  TERR_LIMIT: the client has too many. */
static int
incoming_count(struct incoming *in, struct conn_facts *facts)
{
    int answer;

    if (in->env.client_begins == NULL)
        return 0;
    answer = in->env.client_begins(in->env.ctx, facts->client_addr);
    if (answer < 0)
        return answer;
    facts->is_counted = answer > 0;
    return 0;
}

/* A plain connection refers to its listener's facts, which are not freed here.
 * Behind the connection's last request: each refers to the facts until it is logged. */
static void
incoming_free_own(struct incoming *in, const struct conn_listener *listener)
{
    struct usage *usage = &in->env.loop->usage;

    if (listener->peer != NULL) {
        struct incoming_operator *o = container_of(listener->peer, struct incoming_operator, peer);

        list_del(&o->link);
        usage_free(usage, USAGE_CONN, o);
    } else if (listener->is_copy) {
        usage_free(usage, USAGE_CONN, (struct conn_listener *)(uintptr_t)listener); /* its first */
    }
}

/* A copy of the listener's facts that belongs to this connection alone, with room for texts.  NULL: no
 * memory. */
static struct incoming_own *
incoming_own(struct incoming *in, struct conn_facts *facts, size_t text)
{
    struct incoming_own *own = usage_calloc(&in->env.loop->usage, USAGE_CONN, sizeof(*own) + text);
    const struct conn_listener *was = facts->listener;

    tassert(was->peer == NULL);
    if (own == NULL)
        return NULL;
    own->listener = *was;
    own->listener.is_copy = true;
    if (was->forwarded != NULL) {
        own->forwarded = *was->forwarded;
        own->listener.forwarded = &own->forwarded;
    }
    incoming_free_own(in, was);
    facts->listener = &own->listener;
    return own;
}

/* conn_server.ended: what was done for the connection is undone.
 * Exactly once for each connection that incoming_accept() has counted, however it ended.
 * on_empty() comes last, because a drain is complete with it. */
static void
incoming_on_ended(void *ctx, const struct conn_facts *facts)
{
    struct incoming *in = ctx;

    OBJ_CHECK(in, INCOMING_MAGIC);
    tassert(in->nconns > in->nwaiting);
    counter_add(in->env.counters, COUNTER_sess_closed, 1);
    atomic_fetch_sub_explicit(in->env.conns, 1, memory_order_relaxed);
    if (facts->is_counted)
        in->env.client_ends(in->env.ctx, facts->client_addr);
    incoming_free_own(in, facts->listener);
    in->nconns--;
    if (in->nconns == 0 && in->draining)
        in->env.on_empty(in->env.ctx);
}

static struct conn_server *
incoming_server(const struct incoming *in, enum conn_protocol protocol)
{
    return in->of[protocol] != NULL ? in->of[protocol] : in->of[CONN_HTTP1];
}

/* Takes *stream.  0, or TERR_* when the connection has ended. */
static int
incoming_adopt(struct incoming *in, struct conn_server *s, struct stream **stream,
    const struct conn_facts *facts)
{
    int err = s->ops->adopt(s, stream, facts);

    tassert((err == 0) == (*stream == NULL));
    if (err == 0)
        return 0;
    stream_close(stream);
    incoming_on_ended(in, facts);
    return err;
}

/* ---- PROXY headers ---- */

/* Takes *cp; its stream, if it is still there, ends with it. */
static void
incoming_conn_free(struct incoming_conn **cp)
{
    struct incoming_conn *c;
    struct incoming *in;

    OBJ_TAKE(c, cp, INCOMING_CONN_MAGIC);
    in = c->incoming;
    if (c->stream != NULL)
        stream_close(&c->stream);
    task_cancel(&c->task);
    timer_unlink(&c->timer);
    list_del(&c->link);
    in->nwaiting--;
    usage_free(&in->env.loop->usage, USAGE_INCOMING, c->kept);
    OBJ_BURY(c);
    usage_free(&in->env.loop->usage, USAGE_INCOMING, c);
}

/* It ends without a protocol.
 * The facts are copied, for `c` goes first. */
static void
incoming_give_up(struct incoming_conn *c)
{
    struct incoming *in = c->incoming;
    struct conn_facts facts = c->facts;

    incoming_conn_free(&c);
    incoming_on_ended(in, &facts);
}

/* Only the line and the counter; the caller ends the connection.  No byte is sent: a peer that
 * speaks no PROXY protocol would misread it. */
static void
incoming_refuse(const struct incoming *in, const struct conn_facts *facts, const char *why)
{
    char text[ADDRESS_TEXT_MAX];

    counter_add(in->env.counters, COUNTER_sess_proxied_bad, 1);
    address_text(facts->client_addr, text);
    elog(ELOG_WARN, "listener %s: %s: %s: the connection is closed", facts->listener->name,
        facts->is_unix ? "unix" : text, why);
}

/* What a header said; texts are copied, for its bytes go. */
struct incoming_header {
    struct proxy_header ph;
    bool is_secure;
    struct conn_secure secure;
    char text[CONN_SECURE_TEXT];
};

static size_t
incoming_secure_bytes(struct conn_secure *s)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < CONN_SECURE_TEXTS; i++)
        bytes += strlen(*conn_secure_text(s, i)) + 1;
    return bytes;
}

/* `own` has room for the texts. */
static void
incoming_set_secure(struct incoming_own *own, const struct conn_secure *s)
{
    char *to = own->text;

    own->secure = *s;
    own->listener.secure = &own->secure;
    for (unsigned i = 0; i < CONN_SECURE_TEXTS; i++) {
        const char **text = conn_secure_text(&own->secure, i);
        size_t len = strlen(*text) + 1;

        *text = memcpy(to, *text, len);
        to += len;
    }
}

/* What the header says counts from now on.  0 or TERR_NOMEM.
 * What was known until now, the proxy's own address, is kept in `forwarded`.
 * Only now, behind the trust in the peer: an address from a header that was not expected would
 * get around limits and `allow`. */
static int
incoming_forward(struct incoming *in, struct conn_facts *facts, struct incoming_header *header)
{
    const struct proxy_header *ph = &header->ph;
    struct incoming_own *own =
        incoming_own(in, facts, header->is_secure ? incoming_secure_bytes(&header->secure) : 0);

    if (own == NULL)
        return TERR_NOMEM;
    if (header->is_secure) {
        incoming_set_secure(own, &header->secure);
        facts->scheme = HTTP_SCHEME_HTTPS;
    }
    own->listener.forwarded = &own->forwarded;
    memcpy(own->forwarded.remote_addr, facts->client_addr, sizeof(own->forwarded.remote_addr));
    own->forwarded.remote_port = (uint16_t)facts->client_port;
    memcpy(own->forwarded.server_addr, ph->dst, sizeof(own->forwarded.server_addr));
    own->forwarded.server_port = ph->dst_port;
    own->forwarded.has_server = true;
    memcpy(facts->client_addr, ph->src, sizeof(facts->client_addr));
    facts->client_port = ph->src_port;
    return 0;
}

/* The header is read from what came, and no byte behind it.  1: it is whole; 0: there will be more;
 * TERR_SYNTAX, TERR_NOMEM. */
static int
incoming_read(struct incoming_conn *c, struct incoming_header *header)
{
    struct proxy_header *ph = &header->ph;
    struct incoming *in = c->incoming;
    struct span rx = stream_received(c->stream);
    size_t take = rx.len < PROXY_HEADER_MAX - c->nkept ? rx.len : PROXY_HEADER_MAX - c->nkept;
    char *kept;
    int n;

    if (rx.len == 0)
        return 0;
    if (c->nkept == 0) {
        n = proxy_header_parse(rx.ptr, rx.len, ph);
        if (n != 0)
            goto parsed;
    }
    /* Parsed from its beginning each time.  That is cheap: version 1 is 107 bytes at most, and
     * of version 2 only the first 16 are looked at until all have come. */
    kept = usage_realloc(&in->env.loop->usage, USAGE_INCOMING, c->kept, c->nkept + take);
    if (kept == NULL)
        return TERR_NOMEM;
    c->kept = kept;
    memcpy(kept + c->nkept, rx.ptr, take);
    n = proxy_header_parse(kept, c->nkept + take, ph);
    if (n == 0) {
        tassert(take == rx.len && c->nkept + take < PROXY_HEADER_MAX);
        c->nkept += take;
        counter_add(in->env.counters, COUNTER_req_bytes_in, take);
        stream_consume(c->stream);
        return 0;
    }
parsed:
    if (n < 0)
        return TERR_SYNTAX;
    tassert((size_t)n > c->nkept);
    header->is_secure = proxy_header_secure(ph, &header->secure, header->text);
    counter_add(in->env.counters, COUNTER_req_bytes_in, (size_t)n - c->nkept);
    stream_skip(c->stream, (size_t)n - c->nkept);
    return 1;
}

/* As incoming_adopt(), of the protocol's server. */
static int
incoming_begin(struct incoming *in, enum conn_protocol protocol, struct stream **stream,
    const struct conn_facts *facts)
{
    struct conn_server *server = incoming_server(in, protocol);

    counter_add(in->env.counters, COUNTER_sess_http2, server->protocol == CONN_HTTP2);
    return incoming_adopt(in, server, stream, facts);
}

/* All is known: to its protocol.
 * `c` is freed first: the protocol may end the connection at once, and with it what `c` refers
 * to. */
static void
incoming_pass_on(struct incoming_conn *c, enum conn_protocol protocol)
{
    struct incoming *in = c->incoming;
    struct stream *stream = c->stream;
    struct conn_facts facts = c->facts;

    c->stream = NULL;
    incoming_conn_free(&c);
    incoming_begin(in, protocol, &stream, &facts);
}

/* ---- first bytes ---- */

/* What came in pieces is the stream's again.  Where all of the loop's slabs are in use, others consume them in
 * this turn. */
static void
incoming_give_back(struct incoming_conn *c)
{
    int rc = stream_unread(c->stream, slice_of(c->first, c->nfirst));

    if (rc == 0) {
        stream_resume(c->stream);
        incoming_pass_on(c, c->protocol);
    } else if (rc == TERR_AGAIN) {
        stream_pause(c->stream); /* else the next bytes would come before these */
        task_wake(&c->task);
    } else {
        incoming_give_up(c);
    }
}

/* The next read goes behind what is kept, and takes no byte that is not the preface's. */
static void
incoming_keep_first(struct incoming_conn *c, struct span rx)
{
    char *end = c->first + c->nfirst;

    tassert(c->nfirst + rx.len <= PREFACE);
    if (rx.ptr != end) /* a read that was not posted: the first */
        memcpy(end, rx.ptr, rx.len);
    c->nfirst = (uint8_t)(c->nfirst + rx.len);
    stream_consume(c->stream);
}

/* They are compared as they come: a request of HTTP/1 differs in its first byte or soon, and waits for
 * nothing.  A peer that ends or stays silent before that has said nothing at all. */
static void
incoming_run_first(struct incoming_conn *c)
{
    struct span rx = stream_received(c->stream);
    size_t left = PREFACE - c->nfirst, n = rx.len < left ? rx.len : left;
    bool is_preface = n == 0 || memcmp(rx.ptr, incoming_preface + c->nfirst, n) == 0;

    if (is_preface && n < left) {
        if (stream_ended(c->stream) != 0) {
            incoming_give_up(c);
        } else if (n > 0) {
            incoming_keep_first(c, rx);
            stream_post(c->stream, (struct span){c->first + c->nfirst, PREFACE - c->nfirst});
        }
        return;
    }
    c->protocol = is_preface ? CONN_HTTP2 : CONN_HTTP1;
    if (c->nfirst == 0) {
        incoming_pass_on(c, c->protocol);
        return;
    }
    incoming_keep_first(c, rx);
    c->is_known = true;
    incoming_give_back(c);
}

/* ---- handshakes ---- */

/* 0 or TERR_NOMEM. */
static int
incoming_begin_handshake(struct incoming_conn *c)
{
    struct secure *layer;
    int err = c->server->accept(c->server, c->incoming->env.loop, &layer);

    if (err == 0)
        stream_set_secure(c->stream, &layer);
    return err;
}

/* Texts are copied: the layer goes with the stream, and a request is logged after that.  0 or
 * TERR_NOMEM. */
static int
incoming_note_secure(struct incoming_conn *c)
{
    struct secure *layer = stream_get_secure(c->stream);
    char text[CONN_SECURE_TEXT];
    struct conn_secure facts;
    struct incoming_own *own;

    layer->ops->facts(layer, &facts, text, sizeof(text));
    own = incoming_own(c->incoming, &c->facts, incoming_secure_bytes(&facts));
    if (own == NULL)
        return TERR_NOMEM;
    incoming_set_secure(own, &facts);
    c->facts.scheme = HTTP_SCHEME_HTTPS;
    if (!facts.early)
        return 0;
    /* The stream ends before the facts do, and the layer with it. */
    layer->early = &own->secure.early;
    counter_add(c->incoming->env.counters, COUNTER_sess_tls_early, 1);
    if (c->incoming->env.on_early != NULL)
        c->incoming->env.on_early(c->incoming->env.ctx);
    return 0;
}

/* A client that says nothing more was not interested; one that fails may have a reason. */
static void
incoming_say_failed(const struct incoming_conn *c, int err)
{
    struct secure *layer = stream_get_secure(c->stream);
    const char *why = layer->ops->why(layer);
    char text[ADDRESS_TEXT_MAX];

    counter_add(c->incoming->env.counters, COUNTER_sess_tls_failed, 1);
    if (why[0] == '\0')
        why = terr_text(err);
    address_text(c->facts.client_addr, text);
    elog(ELOG_INFO, "listener %s: %s: TLS handshake failed: %s", c->facts.listener->name,
        c->facts.is_unix ? "unix" : text, why);
}

/* TERR_AGAIN; or it has gone on, or has ended.
 * The deadline of the whole way in is still running (incoming_wait): a client that sends a byte
 * a second ends with it. */
static int
incoming_run_handshake(struct incoming_conn *c)
{
    int rc = stream_connected(c->stream);

    if (rc == TERR_AGAIN)
        return rc;
    if (rc == 0)
        rc = incoming_note_secure(c);
    else
        incoming_say_failed(c, rc);
    if (rc != 0) {
        incoming_give_up(c);
        return rc;
    }
    counter_add(c->incoming->env.counters, COUNTER_sess_tls, 1);
    counter_add(
        c->incoming->env.counters, COUNTER_sess_tls_resumed, c->facts.listener->secure->resumed);
    /* What a PROXY header says of ALPN is a proxy's agreement with its client, and none with us. */
    incoming_pass_on(
        c, strcmp(c->facts.listener->secure->protocol, "h2") == 0 ? CONN_HTTP2 : CONN_HTTP1);
    return 0;
}

/* The header has been read: it counts from now on.  0; or TERR_*, and the connection is to end.
 * The order: first the header's address, then the count of its client, then the handshake, which
 * is the expensive part and is not begun for a client over its limit. */
static int
incoming_note_header(struct incoming_conn *c, struct incoming_header *header)
{
    const struct proxy_header *ph = &header->ph;
    struct incoming *in = c->incoming;
    int err = 0;

    counter_add(in->env.counters, COUNTER_sess_proxied, 1);
    c->is_proxied = false;
    if (ph->has_addresses)
        err = incoming_forward(in, &c->facts, header);
    if (err == 0 && ph->has_addresses)
        err = incoming_count(in, &c->facts);
    if (err == 0 && c->server != NULL)
        err = incoming_begin_handshake(c);
    return err;
}

/* Behind the header.  A plain connection that may have HTTP/1 alone goes on at once. */
static void
incoming_run_protocol(struct incoming_conn *c)
{
    if (c->server != NULL)
        incoming_run_handshake(c);
    else if (c->is_known)
        incoming_give_back(c);
    else if (c->h2c_only)
        incoming_pass_on(c, CONN_HTTP2);
    else if (c->h2c)
        incoming_run_first(c);
    else
        incoming_pass_on(c, CONN_HTTP1);
}

/* Woken by the stream and the timer.  The deadline is looked at first: a header that came too
 * late is not read. */
static void
incoming_conn_run(struct task *t)
{
    struct incoming_conn *c = container_of(t, struct incoming_conn, task);
    struct incoming_header header;
    int rc;

    OBJ_CHECK(c, INCOMING_CONN_MAGIC);
    if (timer_expired(&c->timer)) {
        counter_add(c->incoming->env.counters, COUNTER_sess_timeout, 1);
        incoming_give_up(c);
        return;
    }
    if (!c->is_proxied) {
        incoming_run_protocol(c);
        return;
    }
    rc = incoming_read(c, &header);
    if (rc == 1) {
        rc = incoming_note_header(c, &header);
        if (rc != 0)
            incoming_give_up(c);
        else if (c->server == NULL)
            incoming_run_protocol(c);
        return;
    }
    if (rc == TERR_SYNTAX)
        incoming_refuse(c->incoming, &c->facts, "does not begin with a PROXY header");
    if (rc < 0 || stream_ended(c->stream) != 0)
        incoming_give_up(c);
}

/* Without a server of HTTP/2 there is nothing to ask. */
static bool
incoming_asks_first(const struct incoming *in, const struct incoming_listener *of)
{
    return of->h2c && !of->h2c_only && in->of[CONN_HTTP2] != NULL;
}

/* Takes *stream.  0 or TERR_NOMEM. */
static int
incoming_wait(struct incoming *in, struct stream **stream, const struct conn_facts *facts,
    const struct incoming_listener *of)
{
    struct loop *l = in->env.loop;
    struct incoming_conn *c = usage_calloc(&l->usage, USAGE_INCOMING, sizeof(*c));

    if (c == NULL) {
        stream_close(stream);
        incoming_on_ended(in, facts);
        return TERR_NOMEM;
    }
    c->magic = INCOMING_CONN_MAGIC;
    c->incoming = in;
    c->facts = *facts;
    c->server = of->secure;
    c->is_proxied = of->is_proxied;
    c->h2c = incoming_asks_first(in, of);
    c->h2c_only = of->h2c_only;
    c->since_ms = l->clock.mono_ms;
    c->stream = *stream;
    *stream = NULL;
    task_init(&c->task, &l->tasks, incoming_conn_run);
    timer_init(&c->timer, &c->task);
    list_add_tail(&in->waiting, &c->link);
    in->nwaiting++;
    stream_set_owner(c->stream, &c->task);
    /* For all of it: a proxy has it at hand when it connects. */
    timer_set(&l->wheel, &c->timer, loop_deadline(l, *in->env.header_ms));
    if (c->is_proxied || c->server == NULL || incoming_begin_handshake(c) == 0)
        return 0;
    incoming_give_up(c);
    return TERR_NOMEM;
}

/* ---- operators ---- */

/* 0 or TERR_NOMEM.
 * `fd` is the stream's by now; it is only asked. */
static int
incoming_note_operator(struct incoming *in, struct conn_facts *facts, int fd)
{
    struct incoming_operator *o = usage_calloc(&in->env.loop->usage, USAGE_CONN, sizeof(*o));

    if (o == NULL)
        return TERR_NOMEM;
    if (facts->is_unix)
        operator_note_cred(&o->peer, fd);
    o->session = facts->session;
    o->since_ms = in->env.loop->clock.mono_ms;
    o->listener = *facts->listener;
    o->listener.peer = &o->peer;
    facts->listener = &o->listener;
    list_add_tail(&in->operators, &o->link);
    return 0;
}

unsigned
incoming_unproven(const struct incoming *in)
{
    unsigned n = 0;

    OBJ_CHECK(in, INCOMING_MAGIC);
    for (struct list *l = in->operators.next; l != &in->operators; l = l->next)
        n += !container_of(l, struct incoming_operator, link)->peer.admitted;
    return n;
}

unsigned
incoming_drop_unproven(struct incoming *in, int64_t age_ms, bool all)
{
    uint64_t now = in->env.loop->clock.mono_ms;
    struct list *l, *next;
    unsigned n = 0;

    OBJ_CHECK(in, INCOMING_MAGIC);
    LIST_FOREACH_SAFE(l, next, &in->operators)
    {
        struct incoming_operator *o = container_of(l, struct incoming_operator, link);

        if (o->peer.admitted)
            continue;
        if (o->since_ms + (uint64_t)age_ms > now)
            break; /* the others are younger */
        list_del(l);
        list_init(l);
        n += in->of[CONN_HTTP1]->ops->cut_one(in->of[CONN_HTTP1], o->session);
        if (n > 0 && !all)
            break;
    }
    return n;
}

/* ---- all of them ---- */

int
incoming_accept(struct incoming *in, int fd, bool is_unix, const struct incoming_listener *l)
{
    struct conn_facts facts = {.listener = &l->facts, .is_unix = is_unix};
    struct stream_peer peer;
    struct stream *stream;
    int err;

    OBJ_CHECK(in, INCOMING_MAGIC);
    tassert(in->of[CONN_HTTP1] != NULL);
    tassert(!((l->is_proxied || l->secure != NULL || l->h2c) && l->is_admin));
    tassert(l->secure == NULL || !l->h2c);
    tassert(!l->h2c_only || (l->h2c && in->of[CONN_HTTP2] != NULL));
    err = l->secure == NULL ? stream_accept(&stream, in->env.loop, fd, is_unix, NULL)
                            : stream_accept_secure(&stream, in->env.loop, fd, is_unix, NULL);
    if (err != 0)
        return err;
    stream_get_peer(stream, &peer);
    memcpy(facts.client_addr, peer.addr, sizeof(facts.client_addr));
    facts.client_port = peer.port;
    facts.scheme = HTTP_SCHEME_HTTP;
    facts.session = incoming_session(in);
    /* From here on every path must lead to incoming_on_ended(), which undoes the three. */
    in->nconns++;
    atomic_fetch_add_explicit(in->env.conns, 1, memory_order_relaxed);
    counter_add(in->env.counters, COUNTER_sess_accepted, 1);
    if (l->is_proxied && l->trusted.n > 0 && !address_in(&l->trusted, facts.client_addr)) {
        incoming_refuse(in, &facts, "not among those trusted to send a PROXY header");
        err = TERR_LIMIT;
    } else if (l->is_proxied) {
        return incoming_wait(in, &stream, &facts, l);
    } else if (l->is_admin) {
        err = incoming_note_operator(in, &facts, fd);
    } else if (!is_unix) {
        err = incoming_count(in, &facts);
    }
    if (err == 0 && (l->secure != NULL || incoming_asks_first(in, l)))
        return incoming_wait(in, &stream, &facts, l);
    if (err == 0)
        return incoming_begin(in, l->h2c_only ? CONN_HTTP2 : CONN_HTTP1, &stream, &facts);
    stream_close(&stream);
    incoming_on_ended(in, &facts);
    return err == TERR_LIMIT ? 0 : err;
}

unsigned
incoming_connections(const struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    return in->nconns;
}

unsigned
incoming_waiting(const struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    return in->nwaiting;
}

/* Those without a header go first: no request of theirs can be lost.  Both lists have the oldest
 * first. */
unsigned
incoming_shed_idle(struct incoming *in, unsigned most, int64_t idle_ms)
{
    uint64_t now = in->env.loop->clock.mono_ms;
    unsigned n = 0;

    OBJ_CHECK(in, INCOMING_MAGIC);
    while (n < most && !list_empty(&in->waiting)) {
        struct incoming_conn *c = container_of(in->waiting.next, struct incoming_conn, link);

        if (c->since_ms + (uint64_t)idle_ms > now)
            break; /* the others are younger */
        incoming_give_up(c);
        n++;
    }
    for (struct conn_server *s = in->servers; s != NULL && n < most; s = s->next)
        n += s->ops->shed_idle(s, most - n, idle_ms);
    counter_add(in->env.counters, COUNTER_sess_shed, n);
    return n;
}

static void
incoming_give_up_all(struct incoming *in)
{
    while (!list_empty(&in->waiting))
        incoming_give_up(container_of(in->waiting.next, struct incoming_conn, link));
}

/* Last in a drain: with `draining` set earlier, the end of the last waiting connection would
 * call on_empty() and this would call it again. */
static void
incoming_begin_drain(struct incoming *in)
{
    in->draining = true;
    if (in->nconns == 0)
        in->env.on_empty(in->env.ctx);
}

void
incoming_drain(struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    incoming_give_up_all(in);
    for (struct conn_server *s = in->servers; s != NULL; s = s->next)
        s->ops->drain(s);
    incoming_begin_drain(in);
}

void
incoming_drain_gently(struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    for (struct conn_server *s = in->servers; s != NULL; s = s->next)
        s->ops->drain_gently(s);
    incoming_begin_drain(in);
}

/* After a drain's time is up: connections end in their own tasks, and on_empty() follows. */
void
incoming_cut(struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    incoming_give_up_all(in);
    for (struct conn_server *s = in->servers; s != NULL; s = s->next)
        s->ops->cut(s);
}

void
incoming_trim(struct incoming *in)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    for (struct conn_server *s = in->servers; s != NULL; s = s->next)
        s->ops->trim(s);
}

void
incoming_set_start(struct incoming *in, exchange_start_f *start)
{
    OBJ_CHECK(in, INCOMING_MAGIC);
    for (struct conn_server *s = in->servers; s != NULL; s = s->next)
        s->ops->set_start(s, start);
}

void
incoming_serve(struct incoming *in, struct conn_server **sp)
{
    struct conn_server *s = *sp;

    OBJ_CHECK(in, INCOMING_MAGIC);
    tassert(s->ops != NULL && s->ended == NULL);
    tassert(s->protocol < CONN_PROTOCOLS && in->of[s->protocol] == NULL);
    *sp = NULL;
    in->of[s->protocol] = s;
    s->ended = incoming_on_ended;
    s->ended_ctx = in;
    s->next = in->servers;
    in->servers = s;
}

int
incoming_open(struct incoming **out, const struct incoming_env *env)
{
    struct incoming *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return TERR_NOMEM;
    in->magic = INCOMING_MAGIC;
    in->env = *env;
    in->next_session = (uint64_t)(env->loop->clock.wall_ms / 1000) << SESSION_SECOND_SHIFT;
    list_init(&in->waiting);
    list_init(&in->operators);
    *out = in;
    return 0;
}

void
incoming_close(struct incoming **inp)
{
    struct incoming *in;

    OBJ_TAKE(in, inp, INCOMING_MAGIC);
    tassert(in->nconns == 0 && in->nwaiting == 0);
    tassert(list_empty(&in->waiting) && list_empty(&in->operators));
    while (in->servers != NULL) {
        struct conn_server *s = in->servers;

        in->servers = s->next;
        s->ops->close(&s);
    }
    OBJ_FREE(in);
}
