/* h1_origin.c -- one connection to an origin. */
#include "daemon/h1/h1_origin.h"

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_parse.h"
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
    uint32_t magic;
    int err;             /* why there is no response */
    struct task task;    /* the stream's owner: saves what arrived, then wakes the user */
    struct task *user;   /* borrowed */
    struct usage *usage; /* the loop's */
    struct stream *stream;
    struct h1_limits limits;
    struct h1_parser parser;
    struct http_message head;
    enum http_method asked;
    struct framing_connection fc;
    uint64_t bytes; /* received, ever */
    uint64_t mark;  /* `bytes` at begin */
    char *own;      /* a head, and what came with it */
    size_t own_cap, own_len, own_at;
    struct span room; /* lent to the socket */
    size_t arrived;   /* bytes that landed in it */
    size_t pull;      /* > 0: the last read was full; so many bytes more may be read at once */
    unsigned interim;
    struct slice protocols; /* borrowed: asked for with Upgrade */
    bool busy, sent, head_ready, paused, overrun;
    bool want_interim;          /* the user reads them */
    bool interim_ready;         /* `head` is one */
    bool interim_given;         /* and the user has seen it */
    bool tunnel;                /* a 101 was got */
    bool shutting, shut;        /* the end of our direction is due, was told */
    struct http_field fields[]; /* conf->fields_max */
};

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

static void
h1_origin_run(struct task *t)
{
    struct h1_origin *o = container_of(t, struct h1_origin, task);
    struct span rx;

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    rx = stream_received(o->stream);
    if (rx.len > 0) {
        o->bytes += rx.len;
        if (o->room.ptr != NULL && rx.ptr == o->room.ptr) {
            o->arrived = rx.len;
        } else if (o->err == 0) {
            o->pull = rx.len == HEAD_READ ? PULL_MAX : 0;
            o->err = h1_origin_save(o, rx);
            if ((o->head_ready || o->interim_ready) && !o->paused) {
                o->paused = true; /* nobody has lent room for more, or reads the interim one */
                stream_pause(o->stream);
            }
        }
        stream_consume(o->stream);
    }
    if (o->shutting)
        h1_origin_shut(o);
    if (o->user != NULL)
        task_wake(o->user);
}

static void
h1_origin_free(struct h1_origin *o)
{
    struct usage *usage = o->usage;

    usage_free(usage, USAGE_READ, o->own);
    OBJ_BURY(o);
    usage_free(usage, USAGE_CONN, o);
}

int
h1_origin_open(struct h1_origin **out, struct loop *l, const struct h1_conf *conf,
    const struct conf_address *to, unsigned nth, struct task *user)
{
    size_t max_fields = (size_t)conf->fields_max;
    struct h1_origin *o =
        usage_calloc(&l->usage, USAGE_CONN, sizeof(*o) + max_fields * sizeof(struct http_field));
    int err;

    if (o == NULL)
        return TERR_NOMEM;
    o->magic = H1_ORIGIN_MAGIC;
    o->usage = &l->usage;
    o->user = user;
    o->head.fields = o->fields;
    o->head.max_fields = (uint16_t)max_fields;
    o->limits = (struct h1_limits){
        .line_max = (size_t)conf->resp_field_max,
        .field_max = (size_t)conf->resp_field_max,
        .head_max = (size_t)conf->resp_head_max,
        .bare_lf = conf->resp_bare_lf,
        .any_status = conf->resp_any_status,
    };
    task_init(&o->task, &l->tasks, h1_origin_run);
    err = stream_connect(&o->stream, l, to, nth, &o->task);
    if (err != 0) {
        h1_origin_free(o);
        return err;
    }
    stream_set_read_max(o->stream, HEAD_READ);
    *out = o;
    return 0;
}

void
h1_origin_close(struct h1_origin **op)
{
    struct h1_origin *o;

    OBJ_TAKE(o, op, H1_ORIGIN_MAGIC);
    task_cancel(&o->task);
    stream_close(&o->stream);
    h1_origin_free(o);
}

void
h1_origin_set_user(struct h1_origin *o, struct task *user)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    o->user = user;
}

int
h1_origin_connected(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return stream_connected(o->stream);
}

void
h1_origin_begin(struct h1_origin *o, enum http_method asked)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(!o->busy);
    o->busy = true;
    o->sent = o->head_ready = false;
    o->want_interim = o->interim_ready = o->interim_given = false;
    o->protocols = (struct slice){NULL, 0};
    o->asked = asked;
    o->mark = o->bytes;
    o->interim = 0;
    o->own_len = o->own_at = 0;
    o->room = (struct span){NULL, 0};
    o->arrived = 0;
    o->pull = 0;
    h1_parse_init(&o->parser, true, &o->head, &o->limits);
}

ssize_t
h1_origin_send(struct h1_origin *o, const struct iovec *iov, unsigned n, bool more)
{
    struct iovec rest[LIMIT_WRITE_IOV];
    ssize_t sent, queued;
    size_t skip;
    unsigned i = 0, k = 0;

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    if (stream_sending(o->stream))
        return 0;
    sent = stream_try(o->stream, iov, n, more);
    if (sent < 0)
        return TERR_CLOSED;
    for (skip = (size_t)sent; i < n && skip >= iov[i].iov_len; i++)
        skip -= iov[i].iov_len;
    if (i == n)
        return sent;
    for (; i < n; i++, skip = 0) {
        rest[k].iov_base = (char *)iov[i].iov_base + skip;
        rest[k++].iov_len = iov[i].iov_len - skip;
    }
    queued = stream_queue(o->stream, rest, k);
    return queued < 0 ? TERR_CLOSED : sent + queued;
}

bool
h1_origin_sending(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return stream_sending(o->stream);
}

void
h1_origin_sent(struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    o->sent = true;
}

void
h1_origin_want_interim(struct h1_origin *o, bool want)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->busy && !o->head_ready);
    o->want_interim = want;
}

void
h1_origin_want_upgrade(struct h1_origin *o, struct slice protocols)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->busy && !o->head_ready && protocols.len > 0);
    o->protocols = protocols;
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

/* 101: only what was asked for, and only after all of the request (RFC 9110 7.8). */
static int
h1_origin_on_switch(struct h1_origin *o)
{
    if (o->protocols.len == 0 || !o->sent)
        return TERR_FRAMING;
    if (!framing_upgrade_granted(o->protocols, framing_upgrade(&o->head, &o->fc)))
        return TERR_SYNTAX;
    o->parser.framing.kind = FRAMING_CLOSE; /* the end of the connection is its only one */
    o->tunnel = o->head_ready = true;
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
        if (++o->interim > LIMIT_INTERIM)
            return TERR_FRAMING;
        if (h->status != 100 && o->want_interim)
            o->interim_ready = true;
        else
            h1_origin_drop_interim(o);
        return TERR_AGAIN;
    }
    o->head_ready = true;
    return 0;
}

/* Reads on, to the next head that somebody wants: 0 when there is one, TERR_AGAIN, or TERR_*. */
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

int
h1_origin_interim(struct h1_origin *o, const struct http_message **out)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
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

int
h1_origin_head(struct h1_origin *o, const struct http_message **out)
{
    bool told;
    int rc;

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->busy);
    if (o->interim_given)
        h1_origin_drop_interim(o);
    told = o->interim_ready;
    rc = h1_origin_read_head(o);
    if (rc == 0 && o->interim_ready) {
        if (o->user != NULL && !told) /* once: who never asks must not spin */
            task_wake(o->user);
        return TERR_AGAIN;
    }
    if (rc == 0)
        *out = &o->head;
    return rc;
}

const struct framing *
h1_origin_framing(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->head_ready);
    return &o->parser.framing;
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
    o->bytes += o->arrived;
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

static ssize_t
h1_origin_at_end(struct h1_origin *o)
{
    if (o->parser.framing.kind == FRAMING_CLOSE && stream_ended(o->stream) == TERR_CLOSED) {
        o->parser.body_done = true;
        return 0;
    }
    return o->err = TERR_CLOSED;
}

bool
h1_origin_body_done(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->head_ready);
    return o->parser.body_done;
}

ssize_t
h1_origin_body(struct h1_origin *o, struct span room)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
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
            if (o->room.ptr != NULL || h1_origin_lend(o, room) != 0)
                return TERR_AGAIN; /* lent already, or now */
            continue;
        }
        n = h1_parse_body(&o->parser, from_own ? o->own + o->own_at : o->room.ptr, len, room.ptr,
            room.len, &used);
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

void
h1_origin_shut(struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(o->tunnel);
    o->shutting = true;
    if (o->shut || stream_sending(o->stream))
        return; /* later: what is queued goes first */
    o->shut = true;
    stream_shut(o->stream);
}

bool
h1_origin_quiet(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return stream_quiet(o->stream);
}

void
h1_origin_rest(struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    tassert(h1_origin_reusable(o));
    o->busy = false;
    usage_free(o->usage, USAGE_READ, o->own);
    o->own = NULL;
    o->own_cap = o->own_len = o->own_at = 0;
    stream_unpost(o->stream);
    if (o->paused)
        stream_resume(o->stream); /* so that we hear when the origin closes it */
    o->paused = false;
}

void
h1_origin_peer(const struct h1_origin *o, uint8_t addr[16], uint16_t *port)
{
    struct stream_peer peer = {.port = 0};

    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    if (o->stream != NULL)
        stream_get_peer(o->stream, &peer);
    memcpy(addr, peer.addr, sizeof(peer.addr));
    *port = peer.port;
}

bool
h1_origin_ended(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return stream_ended(o->stream) != 0;
}

bool
h1_origin_heard(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return o->bytes != o->mark;
}

uint64_t
h1_origin_bytes(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    return o->bytes;
}

bool
h1_origin_reusable(const struct h1_origin *o)
{
    OBJ_CHECK(o, H1_ORIGIN_MAGIC);
    if (o->err != 0 || o->overrun || stream_ended(o->stream) != 0 ||
        stream_received(o->stream).len > 0)
        return false;
    if (!o->busy)
        return o->own_len == 0;
    return o->sent && o->head_ready && !o->tunnel && o->parser.body_done && o->fc.persists &&
           o->own_at == o->own_len && !stream_sending(o->stream);
}
