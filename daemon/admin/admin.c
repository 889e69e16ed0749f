/* admin.c -- one request of an operator: read whole, answered, sent. */
#include "daemon/admin/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/admin/admin_priv.h"
#include "daemon/admin/observer.h"
#include "daemon/base/address.h"
#include "daemon/base/loop.h"
#include "daemon/http/message_out.h"
#include "daemon/http/uri.h"
#include "daemon/log/elog.h"

enum admin_state {
    ADMIN_READ,   /* the client, and the body */
    ADMIN_ANSWER, /* the handler makes the answer */
    ADMIN_SEND,   /* at the client's pace */
    ADMIN_STREAM, /* instead: piece by piece, for as long as there are more */
    ADMIN_CLOSE,  /* gives everything back */
    ADMIN_STATES
};

enum admin_next {
    ADMIN_MORE, /* the state changed: step again now */
    ADMIN_WAIT, /* step when woken */
};

enum {
    ADMIN_ROOM_MIN = 65536, /* that a read is offered: the framing between two chunks needs some */
    ADMIN_STEPS_MAX = 8,    /* each state comes once; more is a loop of ours */
    ADMIN_STREAM_MS = 50,   /* between looks for more */
    ADMIN_STREAM_TURN = 4,  /* pieces in a turn of the loop */
};

#define ADMIN_REQ_MAGIC OBJ_TAG('a', 'd', 'm', 'r')
struct admin_req {
    uint32_t magic;
    enum admin_state state;
    struct task task;
    struct admin *admin;
    struct exchange *x; /* NULL: released */
    struct admin_call call;
    char *in; /* the body, and a NUL */
    size_t in_len, in_room;
    char *out; /* the answer's; must stay until it is sent */
    size_t out_len, accepted;
    bool head_sent;
    bool stranger; /* has no token, and needed none: the connection ends */
    /* STREAM */
    struct timer timer;
    uint64_t given; /* bytes of all pieces that were accepted */
    bool ended;     /* there are no more */
    struct exchange_response resp;
};

/* Forward only, in the order of the enum: so a request cannot go round in a circle, and what a
 * state has freed is not asked for again.  A state that has to wait stays, and returns
 * ADMIN_WAIT. */
static enum admin_next
admin_goto(struct admin_req *r, enum admin_state next)
{
    tassert(next > r->state && next < ADMIN_STATES); /* no state comes twice */
    r->state = next;
    return ADMIN_MORE;
}

/* How long it takes does not tell how much of it was right. */
static bool
admin_same_secret(struct slice given, const char *want)
{
    size_t len = strlen(want);
    /* volatile: a compiler may not end the loop at the first difference. */
    volatile unsigned char differs = given.len != len;

    /* Over the length of ours in any case: only that may be seen in the time. */
    for (size_t i = 0; i < len; i++)
        differs |= (unsigned char)(want[i] ^ (i < given.len ? given.ptr[i] : 0));
    return differs == 0;
}

bool
admin_is_health(struct slice path)
{
    return slice_eq(path, SLICE_LIT("/healthz")) || slice_eq(path, SLICE_LIT("/readyz"));
}

/* With the health checks this is all that is answered without a token.  The page has no figures:
 * it asks the API for them, and that needs the token (invariant 3). */
bool
admin_is_public(struct slice path)
{
    return admin_is_health(path) || slice_eq(path, SLICE_LIT("/"));
}

/* Its request has the token: RFC 6750 2.1: Authorization: Bearer TOKEN; the scheme in any case (RFC 9110 11.1). */
static bool
admin_has_token(const struct admin_req *r)
{
    const char *token = r->admin->env.conf->admin->token;
    struct slice given = http_get_one(&r->x->head, HTTP_F_AUTHORIZATION);

    if (given.len < 7 || !slice_eq_nocase(slice_of(given.ptr, 7), SLICE_LIT("Bearer ")))
        return false;
    given = slice_of(given.ptr + 7, given.len - 7);
    while (given.len > 0 && given.ptr[0] == ' ')
        given = slice_of(given.ptr + 1, given.len - 1);
    return admin_same_secret(given, token);
}

/* Answers instead of the handler; the connection ends if the request was not read.
 * From READ only: once a handler has run there may be an answer, and a second one is an
 * assertion (admin_answer). */
static enum admin_next
admin_refuse(struct admin_req *r, unsigned status, const char *hint, const char *why)
{
    admin_fail(&r->call, status, hint, "%s", why);
    return admin_goto(r, ADMIN_ANSWER);
}

/* Room for the next piece, and a NUL. */
static bool
admin_grow(struct admin_req *r)
{
    /* Doubled, as bytes come: a length that is claimed takes no memory. */
    size_t room = r->in_room == 0 ? ADMIN_ROOM_MIN : r->in_room * 2;
    char *in;

    /* A body of the full length still leaves room for one more read, which says that it has
     * ended. */
    if (room > ADMIN_BODY_MAX + ADMIN_ROOM_MIN)
        room = ADMIN_BODY_MAX + ADMIN_ROOM_MIN;
    in = realloc(r->in, room + 1);
    if (in == NULL)
        return false;
    r->in = in;
    r->in_room = room;
    return true;
}

/* Runs again for each part that arrives; `in` keeps what is there, and belongs to the request
 * until it is logged.  Leaves ANSWER with the whole body, or with a refusal in the call. */
static enum admin_next
admin_read_body(struct admin_req *r)
{
    ssize_t n;

    /* One byte more is enough to know: without a length the body is measured here (invariant 5). */
    while (r->in_len <= ADMIN_BODY_MAX) {
        if (r->in_room - r->in_len < ADMIN_ROOM_MIN && !admin_grow(r))
            return admin_refuse(r, 503, NULL, "out of memory");
        n = r->x->ops->body_read(r->x, r->in + r->in_len, r->in_room - r->in_len);
        if (n == TERR_AGAIN)
            return ADMIN_WAIT;
        if (n == 0)
            return admin_goto(r, ADMIN_ANSWER);
        /* The connection's own limit: the same answer. */
        if (n == TERR_BODYTOOBIG)
            break;
        if (n < 0)
            return admin_refuse(
                r, (unsigned)terr_http((int)n, TERR_SIDE_CLIENT), NULL, terr_text((int)n));
        r->in_len += (size_t)n;
    }
    return admin_refuse(r, 413, NULL, "the body has more than 4 MiB");
}

/* May the client ask this?  False: answered.  A connection that may ask may stay. */
static bool
admin_may(struct admin_req *r)
{
    /* The token of the start: another one needs a restart (compare_admin_live).
     * The order is deliberate: another site's page first, so that the status tells it nothing of
     * the token; then the token; `allow` last, because its 403 names the caller and the list. */
    bool needs = r->admin->env.conf->admin->token[0] != '\0';
    bool has = needs && admin_has_token(r);

    if (!admin_is_own(&r->call, r->x, needs))
        return false;
    if (needs && !has && !admin_is_public(r->call.path)) {
        admin_fail(&r->call, 401, "send Authorization: Bearer TOKEN, the token of tarn.yaml",
            "this needs the token");
        return false;
    }
    if (!admin_is_allowed(&r->call, r->x))
        return false;
    if (has || !needs)
        /* From here on the connection is proven (invariant 15). */
        r->x->conn->listener->peer->admitted = true;
    else
        r->stranger = true;
    return true;
}

/* READ -- may the client ask, and what does it ask? */
static enum admin_next
admin_state_read(struct admin_req *r)
{
    struct exchange *x = r->x;
    struct slice whole, path;
    const char *query;

    if (x->err != 0)
        return admin_refuse(
            r, (unsigned)terr_http(x->err, TERR_SIDE_CLIENT), NULL, terr_text(x->err));
    if (r->call.path.ptr == NULL) { /* slices of the head move: keep a copy */
        whole = path = arena_copy(&x->arena, http_path(&x->head));
        if (path.ptr == NULL)
            return admin_refuse(r, 503, NULL, "out of memory");
        query = memchr(whole.ptr, '?', whole.len);
        if (query != NULL) {
            path.len = (size_t)(query - whole.ptr);
            r->call.query = slice_of(query + 1, whole.len - path.len - 1);
        }
        r->call.path = path;
        r->call.method = x->head.method;
    }
    /* Before the first byte of a body (invariant 3); woken again meanwhile, it is asked again. */
    if (r->in_len == 0 && !admin_may(r))
        return admin_goto(r, ADMIN_ANSWER);
    if (!x->has_body)
        return admin_goto(r, ADMIN_ANSWER);
    /* Refused by what it claims, before 4 MiB of it were sent. */
    if (x->body_length != EXCHANGE_LENGTH_UNKNOWN && x->body_length > ADMIN_BODY_MAX)
        return admin_refuse(r, 413, NULL, "the body has more than 4 MiB");
    return admin_read_body(r);
}

enum {
    /* The longest are Content-Security-Policy (384 bytes) and Allow (64).  A field that is added
     * below may need more of both, or the assertion in admin_head() fails at once. */
    ADMIN_HEAD_BYTES = 896,
    ADMIN_HEAD_FIELDS = 9,
};

/* In the request's arena.  0 or TERR_NOMEM. */
static int
admin_head(struct admin_req *r)
{
    const struct admin_call *c = &r->call;
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));
    struct message_out o;
    int err;

    if (m == NULL ||
        message_out_begin(&o, m, &r->x->arena, ADMIN_HEAD_BYTES, ADMIN_HEAD_FIELDS) != 0)
        return TERR_NOMEM;
    message_out_status(&o, c->status, slice_str(http_reason(c->status)));
    MESSAGE_OUT_FIELD(&o, SERVER, "Server", SLICE_LIT("tarn"));
    MESSAGE_OUT_FIELD(&o, DATE, "Date", slice_str(r->admin->env.loop->clock.http_date));
    MESSAGE_OUT_FIELD(&o, CONTENT_TYPE, "Content-Type",
        slice_str(c->type != NULL ? c->type : "application/json"));
    MESSAGE_OUT_FIELD(&o, CACHE_CONTROL, "Cache-Control", SLICE_LIT("no-store"));
    /* What a backend or a client made up stands in answers: a browser must not find a script
     * there. */
    MESSAGE_OUT_FIELD(&o, OTHER, "X-Content-Type-Options", SLICE_LIT("nosniff"));
    /* RFC 9110 15.5.2: it must name a way. */
    if (c->status == 401)
        MESSAGE_OUT_FIELD(&o, OTHER, "WWW-Authenticate", SLICE_LIT("Bearer realm=\"tarnd\""));
    /* RFC 9110 15.5.6. */
    if (c->status == 405)
        MESSAGE_OUT_FIELD(&o, OTHER, "Allow", slice_str(c->allow));
    if (c->page_rules[0] != '\0') {
        MESSAGE_OUT_FIELD(&o, OTHER, "Content-Security-Policy", slice_str(c->page_rules));
        MESSAGE_OUT_FIELD(&o, OTHER, "Referrer-Policy", SLICE_LIT("no-referrer"));
    }
    /* All lengths are bounded by struct admin_call: it fits. */
    err = message_out_end(&o);
    tassert(err == 0);
    r->resp.message = m;
    return err;
}

/* Invariant 9.  Refused changes are logged as well: an operator who looks for an intruder wants
 * to see the attempts.  The body is cut at 232 bytes; a policy's text is not logged, for it does
 * not begin with a brace. */
static void
admin_log(const struct admin_req *r)
{
    const struct admin_call *c = &r->call;
    const struct conn_operator *cred = admin_cred(r->x);
    char peer[ADDRESS_TEXT_MAX], body[240] = "";
    /* Room for the blank and the dots. */
    const size_t most = sizeof(body) - 8;

    if (c->method == HTTP_M_GET || c->method == HTTP_M_HEAD || c->path.ptr == NULL)
        return; /* looking changes nothing */
    if (cred != NULL)
        snprintf(peer, sizeof(peer), "uid %u", cred->uid);
    else
        address_text(r->x->conn->client_addr, peer);
    /* An object says what is meant; another body is a text, and has its name in the path. */
    if (c->body.len > 0 && c->body.ptr[0] == '{')
        snprintf(body, sizeof(body), " %.*s%s", (int)(c->body.len < most ? c->body.len : most),
            c->body.ptr, c->body.len > most ? "..." : "");
    for (char *p = body; *p != '\0'; p++) /* no client adds lines of its own */
        if (*p < ' ' || *p > '~')
            *p = ' ';
    elog(ELOG_INFO, "admin: %s: %s %.*s%s: %u", peer, http_method_name(c->method),
        c->path.len > 200 ? 200 : (int)c->path.len, c->path.ptr, body, c->status);
}

static void
admin_handle(struct admin_req *r)
{
    struct admin_call *c = &r->call;

    if (c->resume != NULL) {
        /* The handler itself runs once (invariant 2): this was not the first time. */
        c->resume(c);
        return;
    }
    if (r->in != NULL)
        /* admin_grow() keeps a byte for it: parsers want strings. */
        r->in[r->in_len] = '\0';
    c->body = slice_of(r->in != NULL ? r->in : "", r->in_len);
    admin_route(c);
}

/* ANSWER -- the handler, or what was wrong before it.
 * Leaves for SEND: the head in the exchange's arena, and `out` with out_len bytes.  For STREAM
 * `out` is empty and is filled piece by piece.  The question's body is freed here, so that a
 * slow client occupies the memory of its answer alone. */
static enum admin_next
admin_state_answer(struct admin_req *r)
{
    struct admin_call *c = &r->call;

    /* Refused in READ: then there is an answer, and the handler is not asked. */
    if (c->status == 0)
        admin_handle(r);
    if (c->status == 0)
        return ADMIN_WAIT;
    /* Before admin_log(): where memory is out, the status that is logged is the one that is
     * sent. */
    r->out = c->stream != NULL ? malloc(ADMIN_STREAM_ROOM) : admin_render(c, &r->out_len);
    admin_log(r);
    free(r->in); /* the body that was answered, and logged */
    r->in = NULL;
    if (r->out == NULL || admin_head(r) != 0) {
        /* No head, no answer: the client must not wait for one. */
        r->x->ops->reset(r->x, TERR_NOMEM);
        return admin_goto(r, ADMIN_CLOSE);
    }
    r->resp.status = c->status;
    r->resp.length = c->stream != NULL ? EXCHANGE_LENGTH_UNKNOWN : r->out_len;
    r->resp.bodyless = c->method == HTTP_M_HEAD;
    /* What was not read of the request would be taken for the next one. */
    r->resp.close = r->x->err != 0 || c->status == 413 || c->status == 401 || r->stranger;
    /* Counted as sent: SEND has the head alone left. */
    if (r->resp.bodyless)
        r->accepted = r->out_len;
    return admin_goto(r, c->stream != NULL && !r->resp.bodyless ? ADMIN_STREAM : ADMIN_SEND);
}

/* SEND -- until the client has it all. */
static enum admin_next
admin_state_send(struct admin_req *r)
{
    struct exchange *x = r->x;

    /* All that is left is offered each time, with END: the protocol takes what it can queue, and
     * the end counts when the last byte was taken.  `out` must not move before `done`: it is
     * sent by reference. */
    while (!x->done && x->writable && (!r->head_sent || r->accepted < r->out_len)) {
        struct iovec iov = {r->out + r->accepted, r->out_len - r->accepted};
        ssize_t n = x->ops->send(
            x, r->head_sent ? NULL : &r->resp, &iov, iov.iov_len > 0 ? 1 : 0, EXCHANGE_END);

        if (n < 0)
            return admin_goto(r, ADMIN_CLOSE);
        r->head_sent = true;
        r->accepted += (size_t)n;
    }
    return x->done ? admin_goto(r, ADMIN_CLOSE) : ADMIN_WAIT;
}

/* The next piece takes the place of the last, when all of that has left. */
static void
admin_refill(struct admin_req *r)
{
    struct admin_stream *s = r->call.stream;
    ssize_t n;

    /* What the connection has not sent yet points into this buffer. */
    if (r->ended || r->accepted < r->out_len || r->x->sent < r->given)
        return;
    n = s->next(s, r->out, ADMIN_STREAM_ROOM);
    tassert(n == TERR_CLOSED || (n >= 0 && n <= ADMIN_STREAM_ROOM));
    r->accepted = 0;
    r->out_len = n > 0 ? (size_t)n : 0;
    r->ended = n < 0;
}

/* STREAM -- piece by piece; the timer says when to look for more. */
static enum admin_next
admin_state_stream(struct admin_req *r)
{
    struct exchange *x = r->x;
    struct loop *loop = r->admin->env.loop;

    for (unsigned i = 0; i < ADMIN_STREAM_TURN && !x->done && x->writable; i++) {
        struct iovec iov;
        ssize_t n;

        admin_refill(r);
        /* An empty piece would end a chunked body; but the head leaves without one, so that the
         * client sees that it is heard. */
        if (r->head_sent && !r->ended && r->accepted == r->out_len)
            break;
        iov = (struct iovec){r->out + r->accepted, r->out_len - r->accepted};
        n = x->ops->send(x, r->head_sent ? NULL : &r->resp, &iov, iov.iov_len > 0 ? 1 : 0,
            r->ended ? EXCHANGE_END : 0);
        if (n < 0)
            return admin_goto(r, ADMIN_CLOSE);
        r->head_sent = true;
        r->accepted += (size_t)n;
        r->given += (uint64_t)n;
    }
    if (x->done)
        return admin_goto(r, ADMIN_CLOSE);
    /* A reader polls the rings: no writer wakes it. */
    timer_set(&loop->wheel, &r->timer, loop_deadline(loop, ADMIN_STREAM_MS));
    return ADMIN_WAIT;
}

/* CLOSE -- what the client did not get is not needed any more. */
static enum admin_next
admin_state_close(struct admin_req *r)
{
    struct exchange *x = r->x;

    r->x = NULL;
    if (x != NULL)
        x->ops->release(x);
    return ADMIN_WAIT;
}

static const struct {
    const char *name;
    enum admin_next (*run)(struct admin_req *r);
} admin_machine[] = {
    /* clang-format off */
    [ADMIN_READ]   = {"read",   admin_state_read},
    [ADMIN_ANSWER] = {"answer", admin_state_answer},
    [ADMIN_SEND]   = {"send",   admin_state_send},
    [ADMIN_STREAM] = {"stream", admin_state_stream},
    [ADMIN_CLOSE]  = {"close",  admin_state_close},
    /* clang-format on */
};

static void
admin_check(const struct admin_req *r)
{
    OBJ_CHECK(r, ADMIN_REQ_MAGIC);
    tassert(r->accepted <= r->out_len);
    tassert(r->in_len <= r->in_room);
    tassert((r->state != ADMIN_SEND && r->state != ADMIN_STREAM) ||
            (r->call.status >= 200 && r->out != NULL));
    tassert(r->state == ADMIN_CLOSE || r->x != NULL);
}

static void
admin_req_free(struct admin_req *r)
{
    struct admin *a = r->admin;
    /* Read before the request goes: the process is told last (invariant 8). */
    bool stops = r->call.stops, drains = r->call.drains;

    timer_unlink(&r->timer);
    if (r->call.leave != NULL)
        /* Before the task goes: what runs for the call would wake it. */
        r->call.leave(&r->call);
    task_cancel(&r->task);
    if (r->call.stream != NULL)
        r->call.stream->free(r->call.stream);
    free(r->in);
    free(r->out);
    free(r->call.text);
    json_decref(r->call.json);
    OBJ_FREE(r);
    a->nreqs--;
    if (stops)
        a->env.host->stop(a->env.host_ctx);
    if (drains)
        a->env.host->drain(a->env.host_ctx);
}

static enum admin_next
admin_step(struct admin_req *r)
{
    /* In any state: a handler that answers later may take long. */
    if (r->state != ADMIN_CLOSE && r->x->gone)
        return admin_goto(r, ADMIN_CLOSE);
    return admin_machine[r->state].run(r);
}

/* A request is freed nowhere else. */
static void
admin_run(struct task *t)
{
    struct admin_req *r = container_of(t, struct admin_req, task);
    unsigned steps = 0;

    OBJ_CHECK(r, ADMIN_REQ_MAGIC);
    while (admin_step(r) == ADMIN_MORE) {
        admin_check(r);
        steps++;
        tassert(steps < ADMIN_STEPS_MAX);
    }
    if (r->state == ADMIN_CLOSE)
        admin_req_free(r);
}

/* On the management loop, inside the connection's run (exchange_start_f).  What has no body is
 * mostly answered before this returns; slices of the head are good until then, and a request
 * that waits has a copy of its path. */
void
admin_start(void *ctx, struct exchange *x)
{
    struct admin *a = ctx;
    struct admin_req *r = calloc(1, sizeof(*r));

    OBJ_CHECK(a, ADMIN_MAGIC);
    if (r == NULL) {
        x->ops->reset(x, TERR_NOMEM); /* memory is out: not even an answer can be made */
        x->ops->release(x);
        return;
    }
    r->magic = ADMIN_REQ_MAGIC;
    r->admin = r->call.admin = a;
    r->x = x;
    task_init(&r->task, &a->env.loop->tasks, admin_run);
    timer_init(&r->timer, &r->task);
    r->call.task = &r->task;
    x->answerer = r;
    x->task = &r->task;
    x->over = exchange_over_to_task;
    a->nreqs++;
    admin_run(&r->task);
}

/* Before the listener, in manage_admin_open().  `env` is copied; what it points to is borrowed
 * until admin_close(), which comes behind the loop's last turn. */
int
admin_open(struct admin **out, const struct admin_env *env)
{
    struct admin *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return TERR_NOMEM;
    tassert(env->conf->admin != NULL);
    *a = (struct admin){
        .magic = ADMIN_MAGIC, .started_ms = (int64_t)env->loop->clock.mono_ms, .env = *env};
    if (observer_open(&a->observer, env->loop, env->logs, env->nworkers) != 0) {
        OBJ_FREE(a);
        return TERR_NOMEM;
    }
    *out = a;
    return 0;
}

void
admin_close(struct admin **ap)
{
    struct admin *a;

    OBJ_TAKE(a, ap, ADMIN_MAGIC);
    /* The listeners and their connections went before. */
    tassert(a->nreqs == 0);
    observer_close(&a->observer);
    OBJ_FREE(a);
}
