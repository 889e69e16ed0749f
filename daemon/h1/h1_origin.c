/* h1_origin.c -- one connection to an origin.
 *
 * A request's response lands where the user says: straight from the socket, except the bytes that
 * came with the head.
 */
#include "daemon/h1/h1_origin.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_parse.h"
#include "daemon/h1/h1_request.h"
#include "daemon/http/websocket.h"
#include "daemon/net/secure.h"
#include "daemon/net/stream.h"

enum {
    /* A head comes in a read of this size, and little of the body with it: that much is copied,
     * the rest goes from the socket to where it stays. */
    HEAD_READ = 4096,
    /* So much more is read in the turn of the head: what one packet of the loopback holds. */
    PULL_MAX = 65536,
};

#define H1_ORIGIN_MAGIC OBJ_TAG('h', '1', 'o', 'r')
struct h1_origin {
    struct origin_exchange x;
    uint32_t magic;
    int err;             /* why there is no response */
    struct task task;    /* the stream's owner: saves what arrived, then wakes the user */
    struct usage *usage; /* the loop's */
    struct stream *stream;
    struct h1_limits limits;
    struct h1_request request;
    struct h1_parser parser;
    struct http_message head;
    enum http_method asked;
    struct framing_connection fc;
    char *own; /* a head, and what came with it */
    size_t own_cap, own_len, own_at;
    struct span room; /* lent to the socket */
    size_t arrived;   /* bytes that landed in it */
    size_t pull;      /* > 0: the last read was full; so many bytes more may be read at once */
    unsigned interim;
    struct slice preface;   /* behind `fields`; empty once a request was begun */
    struct slice protocols; /* borrowed: asked for with Upgrade */
    bool proves;            /* a 101 must have `accept` */
    char accept[WEBSOCKET_ACCEPT_LEN];
    bool busy, head_ready, paused, overrun;
    bool want_interim;          /* the user reads them */
    bool interim_ready;         /* `head` is one */
    bool interim_given;         /* and the user has seen it */
    bool tunnel;                /* a 101 was got */
    bool shutting, shut;        /* the end of our direction is due, was sent */
    struct http_field fields[]; /* conf->fields_max */
};

static struct h1_origin *
h1_origin_of(struct origin_exchange *x)
{
    struct h1_origin *o = container_of(x, struct h1_origin, x);

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return o;
}

/* For bytes that no lent room awaits: a head, and what came with it.  Doubling, so that a head
 * which comes byte by byte is not copied each time. */
static int
h1_origin_save(struct h1_origin *o, struct span rx)
{
    if (o->head_ready && o->own_at == o->own_len)
        o->own_at = o->own_len = o->head.len; /* what was kept behind the head has been taken */
    if (o->own_len + rx.len > o->own_cap) {
        size_t cap = o->own_cap > 0 ? o->own_cap : 4096;
        char *p;

        while (cap < o->own_len + rx.len)
            cap *= 2;
        p = usage_realloc(o->usage, USAGE_READ, o->own, cap);
        if (p == NULL)
            return TERR_NOMEM;
        o->own = p;
        o->own_cap = cap;
    }
    memcpy(o->own + o->own_len, rx.ptr, rx.len);
    o->own_len += rx.len;
    return 0;
}

/* What came while no room was lent. */
static void
h1_origin_keep(struct h1_origin *o)
{
    o->x.heard = true;
    o->err = h1_origin_save(o, stream_received(o->stream));
    stream_consume(o->stream);
}

/* The end of our direction, once what is queued has left. */
static void
h1_origin_end(struct h1_origin *o)
{
    o->shutting = true;
    if (o->shut || stream_sending(o->stream) || h1_request_is_kept(&o->request))
        return;
    o->shut = true;
    stream_shut(o->stream);
}

/* TLS says more than the error: also after the handshake, for in TLS 1.3 an origin refuses our certificate
 * behind it (RFC 8446 4.4.2.4). */
static void
h1_origin_note_why(struct h1_origin *o)
{
    const struct secure *t = stream_get_secure(o->stream);
    bool is_failed = o->x.connected != 0 && o->x.connected != TERR_AGAIN;
    bool is_cut = o->x.ended != 0 && o->x.ended != TERR_CLOSED;

    if (t == NULL || (!is_failed && !is_cut))
        return;
    o->x.why = t->ops->why(t);
    if (is_cut && o->x.why[0] == '\0')
        o->x.why = "it ended without close_notify";
}

/* The stream's bytes must be consumed in this turn, and the user may come later: so they are
 * kept here or stay in the lent room, and the user's task is woken to look at the facts. */
static void
h1_origin_run(struct task *t)
{
    struct h1_origin *o = container_of(t, struct h1_origin, task);
    struct span rx;

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    o->x.connected = stream_connected(o->stream);
    rx = stream_received(o->stream);
    if (rx.len > 0) {
        o->x.heard = true;
        if (o->room.ptr != NULL && rx.ptr == o->room.ptr) {
            o->arrived = rx.len;
        } else if (o->busy && o->parser.body_done) {
            o->overrun = true; /* bytes behind the message: dropped, its end is still heard */
        } else if (o->err == 0) {
            o->pull = rx.len == HEAD_READ ? PULL_MAX : 0;
            o->err = h1_origin_save(o, rx);
            if ((o->head_ready || o->interim_ready) && !o->paused) {
                o->paused = true; /* no room is lent for more, or the interim one is unread */
                stream_pause(o->stream);
            }
        }
        stream_consume(o->stream);
    }
    if (h1_request_is_kept(&o->request))
        h1_request_push(&o->request, o->stream, false, &o->x.sent);
    o->x.ended = stream_ended(o->stream);
    h1_origin_note_why(o);
    if (o->shutting)
        h1_origin_end(o);
    if (o->x.task != NULL)
        task_wake(o->x.task);
}

static void
h1_origin_free(struct h1_origin *o)
{
    struct usage *usage = o->usage;

    usage_free(usage, USAGE_READ, o->own);
    OBJ_BURY(o);
    usage_free(usage, USAGE_CONN, o);
}

/* Whatever is under way ends: a queued request, and a lent room, which is the user's again. */
static void
h1_origin_close(struct origin_exchange **xp)
{
    struct h1_origin *o = h1_origin_of(*xp);

    *xp = NULL;
    task_cancel(&o->task);
    stream_close(&o->stream);
    h1_origin_free(o);
}

/* On a new connection or a reusable one.  The preface (a PROXY header) goes out once, in front
 * of the connection's first request. */
static void
h1_origin_begin(struct origin_exchange *x, const struct origin_request *r)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(!o->busy);
    o->busy = true;
    o->head_ready = false;
    o->interim_ready = o->interim_given = false;
    o->want_interim = r->want_interim;
    o->protocols = r->upgrade;
    o->proves = r->websocket_key.len > 0 && websocket_accept(r->websocket_key, o->accept);
    o->asked = (enum http_method)r->head->method;
    x->heard = x->body_done = false;
    o->interim = 0;
    o->own_len = o->own_at = 0;
    o->room = (struct span){NULL, 0};
    o->arrived = 0;
    o->pull = 0;
    h1_parse_init(&o->parser, true, &o->head, &o->limits);
    h1_request_begin(&o->request, r, o->preface);
    o->preface.len = 0;
}

static int
h1_origin_send(struct origin_exchange *x, const struct iovec *body, unsigned n, unsigned flags)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(o->busy);
    return h1_request_send(&o->request, o->stream, body, n, flags, &x->sent);
}

static bool
h1_origin_sending(struct origin_exchange *x)
{
    struct h1_origin *o = h1_origin_of(x);

    return stream_sending(o->stream) || h1_request_is_kept(&o->request);
}

/* What follows the interim response may be there already. */
static void
h1_origin_drop_interim(struct h1_origin *o)
{
    memmove(o->own, o->own + o->own_at, o->own_len - o->own_at);
    o->own_len -= o->own_at;
    o->own_at = 0;
    o->interim_ready = o->interim_given = false;
    h1_parse_init(&o->parser, true, &o->head, &o->limits);
    if (o->paused)
        stream_resume(o->stream);
    o->paused = false;
}

/* The final head: what the user learns of the body. */
static void
h1_origin_ready(struct h1_origin *o)
{
    const struct framing *f = &o->parser.framing;

    o->head_ready = true;
    o->x.content_length = f->has_length ? f->length : ORIGIN_LENGTH_UNKNOWN;
    switch (f->kind) {
    case FRAMING_NONE:
        o->x.body_length = 0;
        break;
    case FRAMING_LENGTH:
        o->x.body_length = f->length;
        break;
    case FRAMING_CHUNKED:
    case FRAMING_CLOSE:
        o->x.body_length = ORIGIN_LENGTH_UNKNOWN;
        break;
    }
}

/* RFC 6455 4.1.  The client has not sent the key, and nothing of it goes on. */
static bool
h1_origin_is_proved(struct h1_origin *o)
{
    static const struct slice name = {"sec-websocket-accept", 20};
    unsigned n = 0;

    for (unsigned i = 0; i < o->head.nfields; i++) {
        struct http_field *f = &o->fields[i];

        if (f->id != HTTP_F_OTHER || !slice_eq_nocase(http_name(&o->head, f), name))
            continue;
        if (!slice_eq(http_value(&o->head, f), slice_of(o->accept, sizeof(o->accept))))
            return false;
        f->drop = true;
        n++;
    }
    return n == 1;
}

/* 101: only what was asked for, and only after all of the request (RFC 9110 7.8). */
static int
h1_origin_on_switch(struct h1_origin *o)
{
    if (o->protocols.len == 0 || !h1_request_is_sent(&o->request))
        return TERR_FRAMING;
    if (!framing_upgrade_granted(o->protocols, framing_upgrade(&o->head, &o->fc)))
        return TERR_SYNTAX;
    if (o->proves && !h1_origin_is_proved(o))
        return TERR_SYNTAX;
    o->parser.framing.kind = FRAMING_CLOSE; /* the end of the connection is its only one */
    o->tunnel = true;
    o->request.ended = o->request.chunked = false; /* what follows goes as it is */
    h1_origin_ready(o);
    return 0;
}

/* 0: the final head is there.  RFC 9110 15.2: interim ones may come first. */
static int
h1_origin_on_head(struct h1_origin *o)
{
    struct http_message *h = &o->head;
    int err = framing_connection_of_response(h, &o->fc);

    o->own_at += h->len;
    if (err == 0)
        err = framing_of_response(h, o->asked, &o->parser.framing);
    if (err != 0)
        return err;
    if (o->parser.framing.doubtful)
        o->fc.persists = false;
    if (h->status == 101)
        return h1_origin_on_switch(o);
    if (h->status < 200) {
        /* RFC 9110 15.2 sets no bound; an origin could keep a fetch busy without end. */
        if (++o->interim > LIMIT_INTERIM)
            return TERR_FRAMING;
        if (h->status != 100 && o->want_interim)
            o->interim_ready = true;
        else
            h1_origin_drop_interim(o);
        return TERR_AGAIN;
    }
    if (o->proves && h->status < 300)
        return TERR_SYNTAX; /* the client would take it for the tunnel's begin */
    h1_origin_ready(o);
    return 0;
}

/* Reads on, to the next head that the user wants: 0 when there is one, TERR_AGAIN, or TERR_*. */
static int
h1_origin_read_head(struct h1_origin *o)
{
    while (!o->head_ready && !o->interim_ready && o->err == 0) {
        int rc = o->own_len > 0 ? h1_parse_head(&o->parser, o->own, o->own_len) : 0;

        if (rc == 1)
            rc = h1_origin_on_head(o);
        else if (rc == 0 && stream_ended(o->stream) == 0)
            return TERR_AGAIN;
        else if (rc == 0)
            rc = TERR_CLOSED;
        if (rc != 0 && rc != TERR_AGAIN)
            o->err = rc;
    }
    o->head.base = o->own;
    return o->err;
}

static int
h1_origin_interim(struct origin_exchange *x, const struct http_message **out)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(o->busy);
    if (!o->want_interim)
        return TERR_AGAIN;
    if (o->interim_given)
        h1_origin_drop_interim(o);
    if (h1_origin_read_head(o) != 0 || !o->interim_ready)
        return TERR_AGAIN;
    o->interim_given = true;
    *out = &o->head;
    return 0;
}

/* 0: *out is borrowed from the connection.  TERR_AGAIN: the user's task is woken when there
 * is more. */
static int
h1_origin_head(struct origin_exchange *x, const struct http_message **out)
{
    struct h1_origin *o = h1_origin_of(x);
    bool told;
    int rc;

    tassert(o->busy);
    if (o->interim_given)
        h1_origin_drop_interim(o);
    told = o->interim_ready;
    rc = h1_origin_read_head(o);
    if (rc == 0 && o->interim_ready) {
        if (o->x.task != NULL && !told) /* once: a user that never asks must not spin */
            task_wake(o->x.task);
        return TERR_AGAIN;
    }
    if (rc == 0)
        *out = &o->head;
    return rc;
}

/* What a read of HEAD_READ left behind is read in the same turn, so that a small response that
 * came in one piece goes on in one. */
static bool
h1_origin_pull(struct h1_origin *o)
{
    size_t room = o->room.len, most = o->pull;

    o->pull = 0;
    if (most == 0 || !stream_pull(o->stream))
        return false;
    o->arrived = stream_received(o->stream).len;
    stream_consume(o->stream);
    if (o->arrived == room && most > room)
        o->pull = most - room;
    return true;
}

/* Lends the room to the socket, never more of it than the body can fill.  0: it was filled at once,
 * or TERR_AGAIN. */
static int
h1_origin_lend(struct h1_origin *o, struct span room)
{
    if (o->parser.framing.kind == FRAMING_LENGTH &&
        room.len > o->parser.framing.length - o->parser.taken)
        room.len = o->parser.framing.length - o->parser.taken;
    o->room = room;
    o->arrived = 0;
    stream_post(o->stream, room);
    if (o->paused) {
        o->paused = false;
        stream_resume(o->stream);
    }
    return h1_origin_pull(o) ? 0 : TERR_AGAIN;
}

/* RFC 9112 8: the end of the connection is the body's end only where nothing else frames it, and
 * only if it was orderly; otherwise the response is incomplete and must not be stored as whole. */
static ssize_t
h1_origin_at_end(struct h1_origin *o)
{
    if (o->parser.framing.kind == FRAMING_CLOSE && stream_ended(o->stream) == TERR_CLOSED) {
        o->parser.body_done = o->x.body_done = true;
        return 0;
    }
    return o->err = TERR_CLOSED;
}

/* In the user's task.  Where the socket wrote into the lent room, it is decoded in place. */
static ssize_t
h1_origin_body(struct origin_exchange *x, struct span room)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(o->head_ready && room.len > 0);
    for (;;) {
        size_t used, len;
        ssize_t n;
        /* What was lent room came first, when there is both. */
        bool from_own = o->arrived == 0 && o->own_at < o->own_len;

        if (o->parser.body_done)
            return 0;
        if (o->err != 0)
            return o->err;
        len = from_own ? o->own_len - o->own_at : o->arrived;
        if (len == 0 && o->parser.framing.kind != FRAMING_NONE &&
            !(o->parser.framing.kind == FRAMING_LENGTH && o->parser.framing.length == 0)) {
            if (stream_ended(o->stream) != 0 && stream_received(o->stream).len == 0)
                return h1_origin_at_end(o);
            if (o->room.ptr == NULL && stream_received(o->stream).len > 0) {
                h1_origin_keep(o); /* they came before the room is lent */
                continue;
            }
            if (o->room.ptr != NULL || h1_origin_lend(o, room) != 0)
                return TERR_AGAIN; /* lent already, or now */
            continue;
        }
        n = h1_parse_body(&o->parser, from_own ? o->own + o->own_at : o->room.ptr, len, room.ptr,
            room.len, &used);
        x->body_done = o->parser.body_done;
        if (n < 0)
            return o->err = (int)n;
        if (from_own) {
            o->own_at += used;
        } else {
            if (used < o->arrived)
                o->overrun = true; /* bytes behind the message */
            o->room = (struct span){NULL, 0};
            o->arrived = 0;
        }
        if (n > 0)
            return n;
    }
}

static void
h1_origin_shut(struct origin_exchange *x)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(o->tunnel);
    h1_origin_end(o);
}

static bool
h1_origin_quiet(struct origin_exchange *x)
{
    return stream_quiet(h1_origin_of(x)->stream);
}

/* In any doubt it is not: a byte that belongs to this response would be read as the begin of the
 * next, and another client would get it. */
static bool
h1_origin_reusable(struct origin_exchange *x)
{
    struct h1_origin *o = h1_origin_of(x);

    if (o->err != 0 || o->overrun || stream_ended(o->stream) != 0 ||
        stream_received(o->stream).len > 0)
        return false;
    if (!o->busy)
        return o->own_len == 0;
    return h1_request_is_sent(&o->request) && o->head_ready && !o->tunnel && o->parser.body_done &&
           o->fc.persists && o->own_at == o->own_len && !stream_sending(o->stream);
}

/* An idle connection keeps no memory for reading.  The stream goes on being read, so that an end
 * or a stray byte is noticed before the next request. */
static void
h1_origin_rest(struct origin_exchange *x)
{
    struct h1_origin *o = h1_origin_of(x);

    tassert(h1_origin_reusable(x));
    o->busy = false;
    x->reused = true;
    usage_free(o->usage, USAGE_READ, o->own);
    o->own = NULL;
    o->own_cap = o->own_len = o->own_at = 0;
    stream_unpost(o->stream);
    if (o->paused)
        stream_resume(o->stream); /* so that we hear when the origin closes it */
    o->paused = false;
}

static void
h1_origin_peer(struct origin_exchange *x, uint8_t addr[16], uint16_t *port)
{
    struct stream_peer peer;

    stream_get_peer(h1_origin_of(x)->stream, &peer);
    memcpy(addr, peer.addr, sizeof(peer.addr));
    *port = peer.port;
}

static const struct origin_exchange_ops h1_origin_ops = {
    .begin = h1_origin_begin,
    .send = h1_origin_send,
    .sending = h1_origin_sending,
    .interim = h1_origin_interim,
    .head = h1_origin_head,
    .body = h1_origin_body,
    .shut = h1_origin_shut,
    .peer = h1_origin_peer,
    .reusable = h1_origin_reusable,
    .quiet = h1_origin_quiet,
    .rest = h1_origin_rest,
    .close = h1_origin_close,
};

/* 0, although the connection is not up yet: `connected` says when.  On failure nothing is left. */
static int
h1_origin_open(struct origin_exchange **out, struct loop *l, const struct origin_protocol *protocol,
    const struct origin_target *target)
{
    const struct h1_conf *conf = protocol->conf;
    struct stream_target to = *target->to;
    size_t max_fields = (size_t)conf->fields_max;
    size_t size = sizeof(struct h1_origin) + max_fields * sizeof(struct http_field);
    struct h1_origin *o = usage_calloc(&l->usage, USAGE_CONN, size + target->preface.len);
    int err;

    if (o == NULL)
        return TERR_NOMEM;
    o->magic = H1_ORIGIN_MAGIC;
    o->usage = &l->usage;
    o->x.ops = &h1_origin_ops;
    o->head.fields = o->fields;
    o->head.max_fields = (uint16_t)max_fields;
    if (target->preface.len > 0 && to.secure == NULL)
        memcpy((char *)o + size, target->preface.ptr, target->preface.len);
    o->preface = slice_of((char *)o + size, to.secure == NULL ? target->preface.len : 0);
    to.preface = target->preface;
    o->limits = (struct h1_limits){
        .line_max = (size_t)conf->resp_field_max,
        .field_max = (size_t)conf->resp_field_max,
        .head_max = (size_t)conf->resp_head_max,
        .bare_lf = conf->resp_bare_lf,
        .any_status = conf->resp_any_status,
    };
    task_init(&o->task, &l->tasks, h1_origin_run);
    err = stream_connect(&o->stream, l, &to, &o->task);
    if (err != 0) {
        h1_origin_free(o);
        return err;
    }
    o->x.connected = stream_connected(o->stream);
    stream_set_read_max(o->stream, HEAD_READ);
    *out = &o->x;
    return 0;
}

struct origin_protocol
h1_origin_protocol(const struct h1_conf *conf)
{
    return (struct origin_protocol){.open = h1_origin_open, .conf = conf};
}
