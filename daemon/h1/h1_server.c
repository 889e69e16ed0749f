/* h1_server.c -- client connections: their life, deadlines and end. */
#include "daemon/h1/h1_server.h"

#include <stdlib.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conn.h"

enum {
    LINGER_MS = 2000,     /* for the client to read the last answer before we close */
    IDLE_XCHGS_MAX = 256, /* kept for the next requests */
    IDLE_BUSIES_MAX = 1024,
    IDLE_CONNS_MAX = 1024,
};

/* The last one that ran on this thread, for a panic; NULL: it is gone. */
static _Thread_local const struct h1_conn *h1_conn_here;

/* For tassert_fail(), on the thread that failed: no heap and no lock.  The magic is looked at
 * before anything else, because the object may be the reason of the panic. */
void
h1_server_describe(void)
{
    static const char *const phases[] = {[H1_IDLE] = "idle",
        [H1_HEAD] = "head",
        [H1_BODY] = "body",
        [H1_WAIT] = "wait",
        [H1_SEND] = "send",
        [H1_DRAIN] = "drain",
        [H1_TUNNEL] = "tunnel",
        [H1_LINGER] = "linger"};
    const struct h1_conn *c = h1_conn_here;
    char client[ADDRESS_TEXT_MAX];

    if (c == NULL || c->magic != H1_CONN_MAGIC)
        return;
    address_text(c->facts.client_addr, client);
    tassert_say("connection %llu, the last that ran: phase %s%s%s%s, client %s port %u",
        (unsigned long long)c->facts.session, c->phase < ARRAY_LEN(phases) ? phases[c->phase] : "?",
        c->running ? ", running" : "", c->closing ? ", closing" : "", c->dead ? ", dead" : "",
        client, (unsigned)c->facts.client_port);
}

/* As taken from `idle_busies`; positions go on from wherever they are. */
static void
h1_busy_check(const struct h1_busy *b)
{
    tassert_slow(b->in.own == NULL && b->backlog == NULL && b->nbacklog == 0 && b->in.len == 0);
    tassert_slow(list_empty(&b->answered) && b->given == b->left && b->queued_to <= b->left);
    (void)b;
}

static __attribute__((noinline)) int
h1_busy_new(struct h1_server *s)
{
    struct h1_busy *b = usage_alloc(&s->env.loop->usage, USAGE_CONN, sizeof(*b));

    if (b == NULL)
        return TERR_NOMEM;
    *b = (struct h1_busy){.next = NULL};
    list_init(&b->answered);
    s->idle_busies = b;
    s->nidle_busies++;
    return 0;
}

/* A connection that runs has a `busy` that may be changed.  An idle one borrows the first that lies
 * ready, which stays there: a hit is over before the run is, so that nothing is taken or given back. */
static inline int
h1_conn_occupy(struct h1_conn *c)
{
    struct h1_server *s = c->server;

    if (c->busy != &s->rest)
        return 0;
    if (s->idle_busies == NULL && h1_busy_new(s) != 0)
        return TERR_NOMEM;
    c->busy = s->idle_busies;
    h1_busy_check(c->busy);
    return 0;
}

/* The run is over: what it borrowed is its own if it is still needed, and else lies ready. */
static __attribute__((noinline)) void
h1_conn_settle(struct h1_conn *c, bool needed)
{
    struct h1_server *s = c->server;
    struct h1_busy *b = c->busy;

    if (b == &s->rest || needed != (b == s->idle_busies))
        return;
    if (needed) {
        s->idle_busies = b->next;
        s->nidle_busies--;
        return;
    }
    if (s->nidle_busies >= IDLE_BUSIES_MAX) {
        usage_free(&s->env.loop->usage, USAGE_CONN, b);
        return;
    }
    b->next = s->idle_busies;
    s->idle_busies = b;
    s->nidle_busies++;
}

/* An exchange for the request that is about to be read, or NULL.  Only what lies before
 * parser.ll is cleared: llhttp's state is copied from a template before the first field
 * (h1_begin_fields), and a field is written before `nfields` counts it.  Clearing all of it
 * would cost each request stores that no code reads. */
struct h1_xchg *
h1_xchg_new(struct h1_conn *c)
{
    struct h1_server *s = c->server;
    struct h1_xchg *hx = s->idle_xchgs;
    uint16_t max_fields = (uint16_t)s->env.conf->fields_max;

    if (hx != NULL) {
        s->idle_xchgs = hx->x.answerer;
        s->nidle_xchgs--;
    } else {
        hx = usage_alloc(
            &s->env.loop->usage, USAGE_CONN, sizeof(*hx) + max_fields * sizeof(struct http_field));
        if (hx == NULL)
            return NULL;
    }
    memset(hx, 0, offsetof(struct h1_xchg, parser.ll));
    hx->magic = H1_XCHG_MAGIC;
    hx->conn = c;
    list_init(&hx->link);
    hx->x.ops = &h1_exchange_ops;
    hx->x.conn = &c->facts;
    hx->x.scheme = (enum http_scheme)c->facts.scheme;
    hx->x.xid = ++s->next_xid;
    arena_init(&hx->x.arena, &s->env.loop->arenas);
    hx->x.extra = hx->extra;
    hx->x.head.fields = hx->fields;
    hx->x.head.max_fields = max_fields;
    h1_parse_begin(&hx->parser, false, &hx->x.head, &s->limits);
    return hx;
}

/* The caller has unlinked it.  The arena's chunks go back to the loop's pool, so every slice of
 * the request ends here. */
void
h1_xchg_free(struct h1_conn *c, struct h1_xchg *hx)
{
    struct h1_server *s = c->server;

    arena_fini(&hx->x.arena);
    OBJ_BURY(hx);
    if (s->nidle_xchgs >= IDLE_XCHGS_MAX) {
        usage_free(&s->env.loop->usage, USAGE_CONN, hx);
        return;
    }
    hx->x.answerer = s->idle_xchgs;
    s->idle_xchgs = hx;
    s->nidle_xchgs++;
}

/* Is the end of the connection that of a response, and not all of it has left?  Then an orderly
 * close would make it look whole (RFC 9112 8). */
static bool
h1_conn_owes(const struct h1_conn *c)
{
    const struct h1_xchg *hx = c->cur;

    if (hx == NULL && !list_empty(&c->busy->answered))
        hx = container_of(c->busy->answered.prev, struct h1_xchg, link);
    return hx != NULL && hx->until_close && hx->head_given &&
           !(hx->end_given && c->busy->left >= hx->end_pos);
}

/* Over, whatever was going on.  Answerers release their exchanges when they see `gone`; those
 * with complete answers only borrow what they sent, so they see it in this turn. */
void
h1_conn_die(struct h1_conn *c)
{
    struct list *l;

    if (c->dead)
        return;
    c->dead = true;
    h1_in_keep_heads(c); /* the stream takes with it what they are read from */
    c->busy->in.len = 0;
    if (c->stream != NULL && h1_conn_owes(c))
        stream_reset(&c->stream);
    else if (c->stream != NULL)
        stream_close(&c->stream); /* now: what it was sending goes back to its owners */
    for (l = c->busy->answered.next; l != &c->busy->answered; l = l->next) {
        struct h1_xchg *hx = container_of(l, struct h1_xchg, link);

        hx->x.gone = true;
        task_wake_now(hx->x.task);
    }
    if (c->cur != NULL && c->cur->started) {
        c->cur->x.gone = true;
        if (c->cur->x.task != NULL && c->cur->end_given)
            task_wake_now(
                c->cur->x.task); /* its body drains; its answer borrows memory of this turn */
        else if (c->cur->x.task != NULL)
            task_wake(c->cur->x.task);
    }
    if (!c->running)
        task_wake(&c->task);
}

/* The end of a connection, from its own run and nowhere else.  `ended` comes last and gets a
 * copy of the facts: it frees the listener's copy that they point to, and may find that a drain
 * is complete. */
static void
h1_conn_free(struct h1_conn *c)
{
    struct h1_server *s = c->server;
    struct conn_facts facts = c->facts;

    if (h1_conn_here == c)
        h1_conn_here = NULL;
    tassert(c->cur == NULL && list_empty(&c->busy->answered));
    task_cancel(&c->task);
    timer_unlink(&c->timer);
    list_del(&c->link);
    s->nconns--;
    OBJ_BURY(c);
    if (s->nidle_conns < IDLE_CONNS_MAX) {
        c->server = (struct h1_server *)(void *)s->idle_conns;
        s->idle_conns = c;
        s->nidle_conns++;
    } else {
        usage_free(&s->env.loop->usage, USAGE_CONN, c);
    }
    s->conn_server.ended(s->conn_server.ended_ctx, &facts);
}

/* `left` stands still while a write is queued.  A slow client would then look as one that takes
 * nothing, and be cut off by send_idle_ms although bytes leave. */
uint64_t
h1_conn_taken(const struct h1_conn *c)
{
    return stream_sending(c->stream) ? c->busy->queued_to - stream_unsent(c->stream)
                                     : c->busy->left;
}

/* What the deadline means depends on the phase that set it.  A wake-up for another reason finds
 * the timer not expired and changes nothing. */
static void
h1_conn_on_deadline(struct h1_conn *c)
{
    if (c->dead || !timer_expired(&c->timer))
        return;
    timer_clear(&c->timer);
    switch ((enum h1_phase)c->phase) {
    case H1_HEAD:
        if (c->cur != NULL && !c->cur->started)
            h1_in_refuse(c, TERR_TIMEDOUT);
        break;
    case H1_BODY:
        if (c->cur != NULL && c->cur->started) {
            /* The bytes that came are read first; then h1_body_read() says TERR_TIMEDOUT, and
             * the answerer decides what to answer. */
            c->cur->timed_out = true;
            task_wake_now(c->cur->x.task);
        }
        break;
    case H1_DRAIN:
        if (h1_conn_drains(c))
            h1_drain_stop(c);
        break;
    case H1_SEND:
    case H1_TUNNEL:
        /* Progress since the deadline was set: h1_conn_set_deadline() sets the next one at the
         * end of this run. */
        if (h1_conn_taken(c) == c->busy->send_mark)
            h1_conn_die(c);
        break;
    case H1_IDLE:
    case H1_WAIT:
    case H1_LINGER:
        h1_conn_die(c);
        break;
    }
    if (c->dead)
        counter_add(c->server->env.counters, COUNTER_sess_timeout, 1);
}

static bool
h1_conn_tunnels(const struct h1_conn *c)
{
    return c->cur != NULL && c->cur->tunnel;
}

/* Nothing of a request has come: empty lines in front of one are none (RFC 9112 2.2). */
static bool
h1_conn_awaits(const struct h1_conn *c)
{
    const struct h1_busy *b = c->busy;

    return c->cur == NULL ||
           (!c->cur->started && (b->in.len == 0 || (b->in.len == 1 && b->in.p[0] == '\r')));
}

/* What the connection waits for; the first that applies.  A tunnel comes before a full output:
 * its one deadline counts for both directions.  A full output comes before all that would be
 * read, because nothing is read while it is full. */
static enum h1_phase
h1_conn_phase(const struct h1_conn *c)
{
    if (c->lingering)
        return H1_LINGER;
    if (h1_conn_tunnels(c))
        return H1_TUNNEL;
    if (!h1_out_ready(c))
        return H1_SEND;
    if (h1_conn_awaits(c))
        return H1_IDLE;
    if (!c->cur->started)
        return H1_HEAD;
    if (h1_conn_drains(c))
        return H1_DRAIN;
    if (c->paused)
        return H1_WAIT; /* reading is paused on our side */
    return c->cur->parser.body_done || c->cur->timed_out ? H1_WAIT : H1_BODY;
}

/* Of a request body: for a pause, for the whole, and for its average rate, which counts from the
 * end of one pause's time on.  Time in which we did not read counts for none of them. */
static uint64_t
h1_conn_body_deadline(struct h1_conn *c, bool begins)
{
    const struct client_conf *conf = c->server->env.conf;
    struct h1_busy *b = c->busy;
    uint64_t taken = c->cur->parser.taken;
    uint64_t at = loop_deadline(c->server->env.loop, conf->body_idle_ms), most;

    if (begins) {
        b->body_from = loop_deadline(c->server->env.loop, 0);
        b->body_mark = taken;
    }
    most = b->body_from + (uint64_t)conf->body_ms;
    if (at > most)
        at = most;
    if (conf->body_rate_min == 0)
        return at;
    most = b->body_from + (uint64_t)conf->body_idle_ms +
           (taken - b->body_mark) * 1000 / conf->body_rate_min;
    return at < most ? at : most;
}

/* One deadline for what the connection is at; moving it costs a store (base/timer.h). */
static void
h1_conn_set_deadline(struct h1_conn *c, bool progress)
{
    const struct client_conf *conf = c->server->env.conf;
    struct loop *l = c->server->env.loop;
    enum h1_phase was = (enum h1_phase)c->phase, now = h1_conn_phase(c);
    uint64_t at = TIMER_NEVER;

    c->phase = (uint8_t)now;
    switch (now) {
    case H1_IDLE:
        at = loop_deadline(l, conf->idle_ms);
        break;
    case H1_HEAD:
        if (was == H1_HEAD && !progress)
            return; /* for the whole head, not per byte */
        at = loop_deadline(l, conf->head_ms);
        break;
    case H1_BODY:
        at = h1_conn_body_deadline(c, was != H1_BODY);
        break;
    case H1_DRAIN:
        if (was == H1_DRAIN)
            return; /* for all of it */
        at = loop_deadline(l, conf->idle_ms);
        break;
    case H1_WAIT:
        timer_clear(&c->timer);
        return;
    case H1_SEND:
        if (was == H1_SEND && c->busy->send_mark == h1_conn_taken(c))
            return;
        c->busy->send_mark = h1_conn_taken(c);
        at = loop_deadline(l, conf->send_idle_ms);
        break;
    case H1_TUNNEL:
        if (was != H1_TUNNEL || c->busy->send_mark != h1_conn_taken(c))
            h1_tunnel_touch(c);
        return; /* and with every byte that is read or sent */
    case H1_LINGER:
        if (was == H1_LINGER)
            return;
        at = loop_deadline(l, LINGER_MS);
        break;
    }
    timer_set(&l->wheel, &c->timer, at);
}

/* The answerers that this run has woken.  They send, and release what is over; other connections do
 * not run in between, so all of it is this one's. */
static inline void
h1_conn_run_woken(struct h1_conn *c)
{
    if (__builtin_expect(!list_empty(&c->task.queue->now), 0))
        task_queue_run_now(c->task.queue);
}

/* Reads requests, gathers answers, sends them, until nothing moves.  Into its one caller by order: gcc
 * is at the edge of doing so by itself, and 34 instructions a hit hang on it. */
static inline __attribute__((always_inline)) bool
h1_conn_work(struct h1_conn *c)
{
    unsigned budget = LIMIT_CONN_REQUESTS_TURN;
    bool any = false, again;

    do {
        const struct h1_xchg *was;

        again = false;
        c->gathering = true;
        for (unsigned i = 0; c->busy->in.len > 0 && i < LIMIT_PIPELINE_BATCH && budget > 0; i++) {
            if (c->dead || c->lingering ||
                !(h1_out_ready(c) || h1_conn_tunnels(c) || h1_conn_drains(c)) ||
                c->server->ngather + H1_IOV_PER_ANSWER > LIMIT_WRITE_IOV || !h1_in_step(c))
                break;
            again = any = true;
            budget--;
        }
        was = c->cur;
        if (was != NULL)
            h1_conn_run_woken(c); /* for more of its body: what it answers is gathered too */
        c->gathering = false;
        if (!c->dead && h1_out_flush(c) < 0)
            h1_conn_die(c);
        c->server->ngather = 0;
        if (!c->dead)
            h1_out_tell(c);
        h1_conn_run_woken(c); /* for room in the output */
        if (c->busy->in.len == 0)
            return any;
        again = again || (was != NULL && c->cur == NULL); /* its last bytes were given just now */
    } while (again && !c->dead && budget > 0);
    /* A client that pipelines without end must not keep the loop to itself: its task queues
     * behind the others of this turn. */
    if (budget == 0)
        task_wake(&c->task);
    return any;
}

/* Half a head, or empty lines: there is no request to answer. */
static void
h1_conn_forget(struct h1_conn *c)
{
    struct h1_xchg *hx = c->cur;

    if (hx == NULL || hx->started)
        return;
    c->cur = NULL;
    h1_xchg_free(c, hx);
}

/* The client's end of stream, or an error.  What it had sent before has been looked at. */
static void
h1_conn_on_ended(struct h1_conn *c)
{
    if (c->dead || stream_ended(c->stream) == 0)
        return;
    if (c->lingering) {
        h1_conn_die(c);
        return;
    }
    if (h1_conn_tunnels(c) && stream_ended(c->stream) == TERR_CLOSED) {
        if (!c->cur->in_ended)
            task_wake_now(c->cur->x.task);
        return; /* our direction may go on */
    }
    h1_conn_forget(c);
    if (h1_conn_drains(c)) { /* its body is dropped in any case */
        h1_drain_stop(c);
        h1_out_tell(c);
    }
    /* A client that left is not fetched for any more.  Answers on their way are sent. */
    c->closing = true;
    if (c->cur != NULL || (list_empty(&c->busy->answered) && h1_out_ready(c)) ||
        stream_ended(c->stream) != TERR_CLOSED)
        h1_conn_die(c);
}

/* Closing with unread input makes the kernel reset the connection, and the client may lose
 * the answer: so our end first, then the client's (RFC 9112 9.6). */
static void
h1_conn_finish(struct h1_conn *c)
{
    if (!(c->closing || c->lingering || c->server->hurried))
        return;
    if (!c->dead && h1_conn_awaits(c))
        h1_conn_forget(c);
    if (c->dead || c->cur != NULL || !list_empty(&c->busy->answered) || !h1_out_ready(c))
        return;
    if (c->lingering) {
        c->busy->in.len = 0;
        return;
    }
    if (c->server->hurried && c->busy->in.len == 0)
        c->closing = true;
    /* Before the handshake is complete there is no orderly end.  It takes a round trip more, or the idle time. */
    if (!c->closing || stream_is_early(c->stream))
        return;
    c->unread = c->unread || c->busy->in.len > 0;
    c->busy->in.len = 0;
    if (!c->unread || stream_ended(c->stream) != 0) {
        h1_conn_die(c);
        return;
    }
    c->lingering = true;
    stream_shut(c->stream);
    stream_resume(c->stream);
}

/* It ended while it was running, or is released now. */
static __attribute__((noinline)) void
h1_conn_run_dead(struct h1_conn *c)
{
    struct usage *usage = &c->server->env.loop->usage;
    struct h1_busy *b = c->busy;

    h1_conn_forget(c);
    if (c->cur != NULL || !list_empty(&b->answered)) {
        h1_conn_settle(c, true);
        return;
    }
    if (b != &c->server->rest) {
        stream_input_drop(&b->in, usage);
        usage_free(usage, USAGE_CONN, b->backlog);
        *b = (struct h1_busy){.next = b->next};
        list_init(&b->answered);
        h1_conn_settle(c, false);
    }
    h1_conn_free(c);
}

/* The run is over, and nothing of what it borrowed is needed. */
static inline void
h1_conn_give_back(struct h1_conn *c)
{
    h1_busy_check(c->busy);
    if (c->busy != c->server->idle_busies)
        h1_conn_settle(c, false);
    c->busy = &c->server->rest;
}

/* All that came is answered, and all of that has left. */
static inline bool
h1_conn_is_clear(const struct h1_conn *c)
{
    const struct h1_busy *b = c->busy;

    return c->cur == NULL && b->in.len == 0 && b->in.own == NULL && list_empty(&b->answered) &&
           !(c->dead || c->closing || c->lingering || c->paused || c->server->hurried) &&
           h1_out_ready(c) && stream_ended(c->stream) == 0;
}

/* Then there is nothing to keep and nothing to end: it waits for the next request. */
static inline void
h1_conn_rest(struct h1_conn *c)
{
    struct loop *l = c->server->env.loop;

    stream_consume(c->stream);
    c->busy->in.p = NULL;
    c->running = false;
    c->phase = H1_IDLE;
    timer_set(&l->wheel, &c->timer, loop_deadline(l, c->server->env.conf->idle_ms));
    h1_conn_give_back(c);
}

/* The connection's task: woken by its stream, its timer and its exchanges, in any mixture.
 * Output is looked at first, for only room in it lets a request be answered.  A hit ends at
 * h1_conn_rest(); what stands below is for connections that have something unfinished. */
static void
h1_conn_run(struct task *t)
{
    struct h1_conn *c = container_of(t, struct h1_conn, task);
    bool progress;

    OBJ_CHECK(c, H1_CONN_MAGIC);
    h1_conn_here = c;
    c->running = true;
    if (h1_conn_occupy(c) != 0)
        h1_conn_die(c);
    if (!c->dead && h1_out_progress(c) < 0)
        h1_conn_die(c);
    if (!c->dead)
        h1_in_begin(c);
    if (c->lingering)
        c->busy->in.len = 0;
    h1_conn_on_deadline(c);
    progress = h1_conn_work(c);
    if (__builtin_expect(h1_conn_is_clear(c), 1)) {
        h1_conn_rest(c);
        return;
    }
    h1_conn_on_ended(c);
    h1_conn_run_woken(c);
    h1_conn_finish(c);
    /* From here on no byte of the stream's slab may be read: it goes back now, and the next read
     * of any stream may land in it. */
    if (h1_in_end(c) != 0 && !c->dead)
        h1_conn_die(c);
    h1_conn_run_woken(c); /* it died: they borrow memory of this turn */
    c->running = false;
    if (c->dead) {
        h1_conn_run_dead(c);
        return;
    }
    h1_conn_set_deadline(c, progress);
    if (c->phase == H1_IDLE && c->busy->in.len == 0 && list_empty(&c->busy->answered))
        h1_conn_give_back(c);
    else
        h1_conn_settle(c, true);
}

/* By net/incoming, in a task of this loop.  After TERR_NOMEM the stream is still the caller's.
 * The owner is set last: bytes that came behind a PROXY header wake the task at once. */
static int
h1_server_adopt(struct conn_server *cs, struct stream **stream, const struct conn_facts *facts)
{
    struct h1_server *s = h1_server_of(cs);
    struct h1_conn *c = s->idle_conns;

    if (c != NULL) {
        s->idle_conns = (struct h1_conn *)(void *)c->server;
        s->nidle_conns--;
    } else {
        c = usage_alloc(&s->env.loop->usage, USAGE_CONN, sizeof(*c));
    }
    if (c == NULL)
        return TERR_NOMEM;
    *c = (struct h1_conn){.magic = H1_CONN_MAGIC,
        .server = s,
        .stream = *stream,
        .phase = H1_IDLE,
        .busy = &s->rest,
        .facts = *facts};
    *stream = NULL;
    task_init(&c->task, &s->env.loop->tasks, h1_conn_run);
    timer_init(&c->timer, &c->task);
    list_add_tail(&s->conns, &c->link);
    s->nconns++;
    h1_conn_set_deadline(c, true);
    stream_set_owner(c->stream, &c->task);
    return 0;
}

static void
h1_server_set_start(struct conn_server *cs, exchange_start_f *start)
{
    h1_server_of(cs)->env.start = start;
}

/* No connection is woken: its next response says close, so no client meets a connection that was
 * closed under its request (RFC 9112 9.5). */
static void
h1_server_drain_gently(struct conn_server *cs)
{
    h1_server_of(cs)->draining = true;
}

/* Tasks are woken and not run here, because a connection that ends leaves the list that is
 * walked. */
static void
h1_server_drain(struct conn_server *cs)
{
    struct h1_server *s = h1_server_of(cs);

    s->draining = s->hurried = true;
    for (struct list *l = s->conns.next; l != &s->conns; l = l->next)
        task_wake(&container_of(l, struct h1_conn, link)->task);
}

static void
h1_server_cut(struct conn_server *cs)
{
    struct h1_server *s = h1_server_of(cs);

    for (struct list *l = s->conns.next; l != &s->conns; l = l->next) {
        struct h1_conn *c = container_of(l, struct h1_conn, link);

        h1_conn_die(c);
        task_wake(&c->task);
    }
}

/* For operators' connections that no request has authorized (incoming_drop_unproven).  A walk
 * over all of them is affordable there: the admin's server has few. */
static bool
h1_server_cut_one(struct conn_server *cs, uint64_t session)
{
    struct h1_server *s = h1_server_of(cs);

    for (struct list *l = s->conns.next; l != &s->conns; l = l->next) {
        struct h1_conn *c = container_of(l, struct h1_conn, link);

        if (c->facts.session != session)
            continue;
        if (c->dead)
            return false;
        h1_conn_die(c);
        return true;
    }
    return false;
}

static void
h1_server_trim_to(struct h1_server *s, unsigned xchgs, unsigned conns, unsigned busies)
{
    for (; s->nidle_busies > busies; s->nidle_busies--) {
        struct h1_busy *b = s->idle_busies;

        s->idle_busies = b->next;
        usage_free(&s->env.loop->usage, USAGE_CONN, b);
    }
    for (; s->nidle_xchgs > xchgs; s->nidle_xchgs--) {
        struct h1_xchg *hx = s->idle_xchgs;

        s->idle_xchgs = hx->x.answerer;
        usage_free(&s->env.loop->usage, USAGE_CONN, hx);
    }
    for (; s->nidle_conns > conns; s->nidle_conns--) {
        struct h1_conn *c = s->idle_conns;

        s->idle_conns = (struct h1_conn *)(void *)c->server;
        usage_free(&s->env.loop->usage, USAGE_CONN, c);
    }
}

/* The memo comes and goes as the configuration says. */
static void
h1_server_set_memo(struct h1_server *s)
{
    if (s->env.conf->head_memo && s->memo == NULL)
        s->memo = h1_memo_new();
    else if (!s->env.conf->head_memo && s->memo != NULL)
        h1_memo_free(&s->memo);
}

/* Once a second: what a burst has left is gone after a few of them, and what is in use comes
 * back at once.  Halves, so that a load that comes in waves need not build everything anew each
 * time. */
static void
h1_server_trim(struct conn_server *cs)
{
    struct h1_server *s = h1_server_of(cs);

    h1_server_set_memo(s);
    h1_server_trim_to(s, s->nidle_xchgs / 2, s->nidle_conns / 2, s->nidle_busies / 2);
}

/* After the last connection has gone.  `rest` is shared by all idle connections, so a write into
 * it would have been seen by each of them: the asserts say that there was none. */
static void
h1_server_close(struct conn_server **csp)
{
    struct h1_server *s = h1_server_of(*csp);

    *csp = NULL;
    tassert(s->nconns == 0);
    tassert(s->rest.in.own == NULL && s->rest.in.len == 0 && s->rest.given == 0);
    tassert(list_empty(&s->rest.answered) && s->rest.nbacklog == 0);
    h1_server_trim_to(s, 0, 0, 0);
    if (s->memo != NULL)
        h1_memo_free(&s->memo);
    OBJ_FREE(s);
}

static const struct conn_server_ops h1_server_ops = {
    .adopt = h1_server_adopt,
    .set_start = h1_server_set_start,
    .drain = h1_server_drain,
    .drain_gently = h1_server_drain_gently,
    .cut = h1_server_cut,
    .cut_one = h1_server_cut_one,
    .shed_idle = h1_server_shed_idle,
    .trim = h1_server_trim,
    .close = h1_server_close,
};

int
h1_server_open(struct conn_server **out, const struct h1_server_env *env)
{
    struct h1_server *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return TERR_NOMEM;
    s->conn_server.ops = &h1_server_ops;
    s->magic = H1_SERVER_MAGIC;
    s->env = *env;
    s->limits = (struct h1_limits){
        .line_max = (size_t)env->conf->req_line_max,
        .field_max = (size_t)env->conf->req_field_max,
        .head_max = (size_t)env->conf->req_head_max,
    };
    s->next_xid = conn_server_first_xid(CONN_HTTP1, env->loop->id, env->loop->clock.wall_ms);
    list_init(&s->conns);
    list_init(&s->rest.answered);
    h1_server_set_memo(s);
    *out = &s->conn_server;
    return 0;
}
