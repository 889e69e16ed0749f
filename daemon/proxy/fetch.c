/* fetch.c -- one fetch, from the request to an origin to the last byte in storage. */
#include "daemon/proxy/fetch.h"

#include <stdio.h>

#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "daemon/http/freshness.h"
#include "daemon/http/vary.h"
#include "daemon/log/elog.h"
#include "daemon/net/proxy_header.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_policy.h"
#include "storage/lease.h"

/* The backend's timeouts, unless the policy said others for this request.  Milliseconds, all three;
 * FETCH_UNSAID is no time. */
static int64_t
fetch_connect_ms(const struct fetch *f)
{
    const struct fetch_policy *v = fetch_asks_policy(f);

    return v != NULL && v->connect_ms != FETCH_UNSAID ? v->connect_ms : f->conf->connect_timeout;
}

static int64_t
fetch_first_byte_ms(const struct fetch *f)
{
    const struct fetch_policy *v = fetch_asks_policy(f);

    return v != NULL && v->first_byte_ms != FETCH_UNSAID ? v->first_byte_ms
                                                         : f->conf->first_byte_timeout;
}

int64_t
fetch_between_bytes_ms(const struct fetch *f)
{
    const struct fetch_policy *v = fetch_asks_policy(f);

    return v != NULL && v->between_bytes_ms != FETCH_UNSAID ? v->between_bytes_ms
                                                            : f->conf->between_bytes_timeout;
}

/* The client's ends, for a backend that gets a PROXY header. */
static const struct proxy_header *
fetch_ends(const struct fetch *f, struct proxy_header *ends)
{
    const struct policy_end *client, *server;

    if (f->vcl == NULL)
        return f->ends;
    client = &f->vcl->ends[POLICY_END_CLIENT];
    server = &f->vcl->ends[POLICY_END_SERVER];
    *ends = (struct proxy_header){.has_addresses = true, .secure = f->vcl->secure};
    ends->src_port = client->port;
    ends->dst_port = server->port;
    memcpy(ends->src, client->addr, sizeof(ends->src));
    memcpy(ends->dst, server->addr, sizeof(ends->dst));
    return ends;
}

/* How long it may wait for a connection.  Includes of one page come together, so they wait for each other. */
static int64_t
fetch_queue_ms(const struct fetch *f)
{
    int64_t own = f->conf->queue_timeout;
    int64_t esi =
        f->included ? snapshot_conf(registry_snapshot(f->proxy->registry))->esi.timeout : 0;

    return own > esi ? own : esi;
}

/* A connection; TERR_AGAIN: we wait for our turn; or why there is none. */
static int
fetch_take(struct fetch *f)
{
    struct proxy *p = f->proxy;
    struct proxy_header ends;
    struct origin_want want = {.fresh = f->attempt.fresh, .attempt = f->attempt.address};
    bool waited = f->turn.waits;
    int err = TERR_BUSY;

    tassert(f->conn == NULL && f->backend != NULL && f->conf != NULL);
    /* Before the waiter is asked: a fetch that is never called would wait for ever. */
    if (waited && timer_expired(&f->timer)) {
        counter_add(p->counters, COUNTER_backend_queue_timeout, 1);
        return TERR_BUSY;
    }
    if (waiter_pending(&f->turn.waiter))
        return TERR_AGAIN;
    if (f->conf->proxy_header != 0)
        want.ends = fetch_ends(f, &ends);
    if (!origin_must_queue(f->backend, &f->turn))
        err = origin_take(&f->conn, p->origins, f->backend, &want, &f->task);
    if (err != TERR_BUSY || origin_queue(p->origins, f->backend, &f->turn, f->included) != 0)
        return err;
    /* Once: a fetch that loses the race for a connection does not begin its wait anew. */
    if (!waited)
        fetch_deadline(f, fetch_queue_ms(f));
    return TERR_AGAIN;
}

/* START -- a connection, idle or new. */
static enum fetch_next
fetch_do_start(struct fetch *f)
{
    int err;

    tassert(f->attempt.on.request == FETCH_UNSENT);
    if (fetch_asks_policy(f) != NULL) {
        enum fetch_next next = fetch_policy_fetch(f);

        if (next != FETCH_WAIT)
            return next;
    }
    err = fetch_take(f);
    if (err == TERR_AGAIN)
        return FETCH_WAIT;
    origin_leave_queue(f->proxy->origins, f->backend, &f->turn);
    /* From here on the connection itself is what counts as the backend's load. */
    fetch_arrive(f);
    if (err == TERR_BUSY && fetch_elsewhere(f))
        return FETCH_MORE;
    if (err != 0)
        return fetch_fail(f, err);
    fetch_deadline(f, fetch_connect_ms(f));
    return fetch_goto(f, FETCH_CONNECT);
}

/* GATHER -- the request's body comes before a backend is asked, as that of a pass does; the request
 * wakes us. */
static enum fetch_next
fetch_do_gather(struct fetch *f)
{
    int err = fetch_gather_upload(f);

    if (err == TERR_AGAIN)
        return FETCH_WAIT;
    if (err == TERR_CANCELLED) /* requests that wait have bodies of their own: they look again */
        cache_hitmiss(f->entry, NULL, (int64_t)f->proxy->loop->clock.mono_ms, 0, CACHE_MARK_ERROR);
    if (err == 0)
        err = fetch_policy_pick(f);
    return err != 0 ? fetch_fail(f, err) : fetch_goto(f, FETCH_START);
}

/* The backend's own fault: directors may leave the backend out. */
static enum fetch_next
fetch_blame(struct fetch *f, int err)
{
    tassert(f->backend != NULL && err < 0);
    backend_note_bad(f->backend, f->proxy->loop->clock.mono_ms, err);
    return fetch_fail(f, err);
}

/* What the connection says of its end; "": nothing. */
static const char *
fetch_more(const struct fetch *f)
{
    const char *why = f->conn != NULL ? fetch_exchange(f)->why : NULL;

    return why != NULL ? why : "";
}

/* Each of a name's addresses: the last one's reason is not that of the others. */
static void
fetch_say_not_connected(const struct fetch *f, int err)
{
    const char *more = fetch_more(f);

    elog(ELOG_WARN, "backend %s: %s: %s%s%s", f->conf->name, f->conf->address.text, terr_text(err),
        more[0] != '\0' ? ": " : "", more);
}

/* CONNECT -- until it is up; a name's other addresses are tried too. */
static enum fetch_next
fetch_do_connect(struct fetch *f)
{
    int err = fetch_exchange(f)->connected;

    if (err == TERR_AGAIN && timer_expired(&f->timer))
        err = TERR_CONNTIMEO;
    if (err == TERR_AGAIN)
        return FETCH_WAIT;
    if (err == 0)
        return fetch_goto(f, FETCH_SEND);
    counter_add(f->proxy->counters, COUNTER_backend_conn_failed, 1);
    fetch_say_not_connected(f, err);
    origin_discard(&f->conn);
    if (++f->attempt.address < backend_naddrs(f->backend))
        return fetch_goto(f, FETCH_START);
    /* The kernel's own timeout and ours have one name. */
    err = err == TERR_TIMEDOUT ? TERR_CONNTIMEO : err;
    backend_note_bad(f->backend, f->proxy->loop->clock.mono_ms, err);
    if (!fetch_elsewhere(f)) /* not a byte was sent: nothing is lost */
        return fetch_fail(f, err);
    counter_add(f->proxy->counters, COUNTER_fetch_retried, 1);
    return fetch_goto(f, FETCH_START);
}

/* SEND -- the request, and its body as it comes. */
static enum fetch_next
fetch_do_send(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    int rc;

    if (f->attempt.on.request == FETCH_UNSENT) {
        fetch_begin(f);
        if (fetch_is_logged(f))
            fetch_log_request(f);
        fetch_deadline(f, f->proxy->params.backend_send_timeout);
    }
    rc = fetch_send(f);
    /* Set again with each part: the backend's own time begins with the last byte of the request. */
    f->attempt.on.asked_us = clock_read_us(&f->proxy->loop->clock);
    if (rc == TERR_AGAIN && (x->heard || x->ended != 0))
        return fetch_goto(f, FETCH_HEAD); /* an answer before the body's end */
    if (rc == TERR_AGAIN && timer_expired(&f->timer))
        rc = TERR_TIMEDOUT;
    if (rc == TERR_AGAIN)
        return FETCH_WAIT;
    if (rc == TERR_TIMEDOUT && x->ops->sending(x))
        return fetch_blame(f, rc); /* the client is not the slow side */
    if (rc < 0 && rc != TERR_CLOSED)
        return fetch_fail(f, rc);
    /* Closed: it may have answered before it closed. */
    fetch_deadline(f, fetch_first_byte_ms(f));
    return fetch_goto(f, FETCH_HEAD);
}

/* The connection is gone before a byte came: doing it twice is harmless, and can be done. */
static bool
fetch_is_harmless(const struct fetch *f, int err)
{
    tassert(err < 0 && f->conn != NULL);
    /* A body may have left in part, and is not there twice unless it was kept. */
    return (err == TERR_CLOSED || err == TERR_IO) && !fetch_exchange(f)->heard &&
           f->upload.body == NULL && http_method_is_idempotent((enum http_method)f->asked);
}

/* A connection that was idle may have been closed by the origin as we sent.  RFC 9112 9.3.1:
 * once, on a fresh one. */
static bool
fetch_may_retry(const struct fetch *f, int err)
{
    return fetch_is_harmless(f, err) && fetch_exchange(f)->reused && !f->attempt.fresh &&
           (fetch_asks_policy(f) == NULL || f->vcl->retry_connect);
}

/* The request as it was sent. */
static const struct http_message *
fetch_asked(const struct fetch *f)
{
    return f->vcl != NULL && f->vcl->bereq != NULL ? &f->vcl->bereq->head : &f->req;
}

/* May the answer be 304? */
static bool
fetch_is_conditional(const struct fetch *f)
{
    const uint64_t conditions = HTTP_BIT(HTTP_F_IF_NONE_MATCH) | HTTP_BIT(HTTP_F_IF_MODIFIED_SINCE);

    return f->conditional || (f->kind == FETCH_PASS && (fetch_asked(f)->present & conditions) != 0);
}

/* RFC 5861 4: the origin's errors count as no answer while a stored one may stand in. */
static bool
fetch_is_error(const struct fetch *f, unsigned status)
{
    tassert(f->attempt.received_ms != 0);
    return (status == 500 || status == 502 || status == 503 || status == 504) && f->old != NULL &&
           fetch_is_shared(f) && cache_stale_if_error(f->old, &f->ask, f->attempt.came_ms);
}

/* May the answer be 206? */
static bool
fetch_is_ranged(const struct fetch *f)
{
    return f->ranged || (f->kind == FETCH_PASS && http_has(fetch_asked(f), HTTP_F_RANGE));
}

/* On a connection that has not said anything yet, from the start. */
static enum fetch_next
fetch_again(struct fetch *f)
{
    tassert(f->conn != NULL && f->body == NULL && f->attempt.err == 0);
    counter_add(f->proxy->counters, COUNTER_fetch_retried, 1);
    origin_discard(&f->conn);
    f->attempt.on = (struct fetch_on){.request = FETCH_UNSENT};
    return fetch_goto(f, FETCH_START);
}

/* What is stored cannot be completed: what the client wants, then, as if nothing were. */
static enum fetch_next
fetch_without_old(struct fetch *f)
{
    int err = fetch_plan_without_old(f);

    if (err == 0 && f->vcl != NULL) /* the policy sees the other question too */
        fetch_policy_ask_anew(f);
    else if (err == 0)
        err = fetch_write_request(f, &f->request);
    return err != 0 ? fetch_fail(f, err) : fetch_again(f);
}

/* A 304 to our own question, which named one stored response: it is about that one, whatever
 * else it says.  (Servers that compress on the fly answer with another ETag.) */
static enum fetch_next
fetch_not_modified(struct fetch *f, const struct http_message *head)
{
    enum vcl_action how = VCL_ACT_MERGE;
    enum fetch_next next = FETCH_WAIT;
    int err;

    tassert(head->status == 304 && f->old != NULL && !fetch_hops(f));
    if (f->vcl != NULL)
        next = fetch_policy_refresh(f, head, &how);
    if (next != FETCH_WAIT)
        return next;
    if (f->vcl != NULL)
        head = fetch_policy_head(f, head);
    err = fetch_revalidated(f, head, how, &next);
    if (err == TERR_POLICY)
        return next; /* what the policy made of it */
    if (err == TERR_OTHERPART)
        return fetch_without_old(f);
    if (err != 0)
        return fetch_fail(f, err);
    counter_add(f->proxy->counters, COUNTER_fetch_not_modified, 1);
    return fetch_goto(f, FETCH_REVALIDATE);
}

/* The exchange is over: the connection is for others, unless the policy closes it. */
static void
fetch_give(struct fetch *f)
{
    tassert(f->attempt.on.request != FETCH_UNSENT);
    /* Connection: close of the policy's bereq or beresp. */
    if (fetch_asks_policy(f) != NULL && fetch_policy_closes(f))
        origin_discard(&f->conn);
    else
        origin_give(&f->conn);
}

/* REVALIDATE -- every request has what it needs; the connection may be used again. */
static enum fetch_next
fetch_do_revalidate(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    char none[16];

    /* A 304 has no body (RFC 9110 15.4.5); a connection that has more to say is of no use for the
     * next request. */
    if (x->ops->body(x, (struct span){none, sizeof(none)}) != 0)
        origin_discard(&f->conn);
    else
        fetch_give(f);
    return fetch_goto(f, FETCH_CLOSE);
}

/* 102 and 103 are for the first request, at once, or dropped (RFC 9110 15.2, RFC 8297). */
static void
fetch_relay_interim(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    const struct http_message *head;

    /* Taken even when the client has left meanwhile: the response stands behind them. */
    while (x->ops->interim(x, &head) == 0) {
        struct http_message m;

        if (fetch_has_listener(f) && forward_interim(head, &f->arena, &m) == 0)
            f->listener.ops->interim(f->listener.ctx, &m);
    }
}

/* The head has not come yet: the request's body may have to go on. */
static enum fetch_next
fetch_await_head(struct fetch *f)
{
    int rc = fetch_send(f);

    if (rc < 0 && rc != TERR_AGAIN && rc != TERR_CLOSED)
        return fetch_fail(f, rc);
    return timer_expired(&f->timer) ? fetch_blame(f, TERR_TIMEDOUT) : FETCH_WAIT;
}

/* It will not come: another connection, another backend, or the end. */
static enum fetch_next
fetch_lost_head(struct fetch *f, int err)
{
    bool harmless = fetch_is_harmless(f, err);

    tassert(err < 0 && err != TERR_AGAIN);
    /* Before the blame: that an idle connection was closed says nothing against the backend. */
    if (fetch_may_retry(f, err)) {
        f->attempt.fresh = true;
        return fetch_again(f);
    }
    backend_note_bad(f->backend, f->proxy->loop->clock.mono_ms, err);
    return harmless && fetch_elsewhere(f) ? fetch_again(f) : fetch_fail(f, err);
}

/* An answer to a question that was not asked would tell of something we do not have, or of a part for
 * the whole. */
static bool
fetch_is_unasked(const struct fetch *f, const struct http_message *head)
{
    return (head->status == 304 && !fetch_is_conditional(f)) ||
           (head->status == 206 && !fetch_is_ranged(f));
}

/* Once for each head: a fetch that waits for room comes here again with the same one. */
static void
fetch_note_head(struct fetch *f, const struct http_message *head)
{
    const struct clock *now = &f->proxy->loop->clock;

    tassert(f->attempt.on.request != FETCH_UNSENT);
    if (!f->attempt.on.noted_head && fetch_is_logged(f))
        fetch_log_response(f, head);
    f->attempt.on.noted_head = true;
    if (f->attempt.received_ms != 0)
        return;
    f->attempt.received_ms = now->wall_ms;
    f->attempt.came_ms = (int64_t)now->mono_ms;
}

/* What the route and the policy make of a head: FETCH_WAIT, and *head is it; or another way.  A 304 to
 * our question is merged before the policy sees it. */
static enum fetch_next
fetch_change_head(struct fetch *f, const struct http_message **head, bool not_modified)
{
    enum fetch_next next = FETCH_WAIT;
    int err;

    if (fetch_hops(f))
        return fetch_hop_head(f, head);
    err = f->route != NULL ? fetch_rule_head(f, head) : 0;
    if (err != 0)
        return fetch_fail(f, err);
    if (f->vcl == NULL || not_modified)
        return FETCH_WAIT;
    if (!f->vcl->at.answered) /* else we wait for room */
        next = fetch_policy_response(f, *head);
    if (next == FETCH_WAIT)
        *head = fetch_policy_head(f, *head);
    return next;
}

/* The outcome for the entry, by the head as it is now. */
static enum fetch_next
fetch_take_head(struct fetch *f, const struct http_message *head)
{
    int err = fetch_publish(f, head);

    if (err == TERR_AGAIN)
        return FETCH_WAIT; /* for room */
    if (err == TERR_OTHERPART)
        return fetch_without_old(f);
    if (err != 0)
        return fetch_fail(f, err);
    if (head->status == 101) { /* from now on the connection is the request's */
        f->listener.ops->tunnel(f->listener.ctx, f->conn);
        f->conn = NULL;
        return fetch_goto(f, FETCH_DONE);
    }
    /* first_byte_timeout ends with the head. */
    fetch_deadline(f, fetch_between_bytes_ms(f));
    return fetch_goto(f, FETCH_BODY);
}

/* HEAD -- the response's head decides what becomes of the entry. */
static enum fetch_next
fetch_do_head(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    enum fetch_next next = FETCH_WAIT;
    const struct http_message *head;
    bool not_modified;
    int err;

    if (fetch_hops(f))
        fetch_hop_hear(f);
    else if (f->listener.ops != NULL)
        fetch_relay_interim(f);
    err = x->ops->head(x, &head);
    if (err != 0)
        return err == TERR_AGAIN ? fetch_await_head(f) : fetch_lost_head(f, err);
    /* Once a response: this state may run again while the fetch waits for room. */
    if (!f->attempt.on.noted_head)
        backend_note_response(f->backend, head->status,
            clock_read_us(&f->proxy->loop->clock) - f->attempt.on.asked_us);
    if (fetch_is_unasked(f, head))
        return fetch_fail(f, TERR_SYNTAX);
    fetch_note_head(f, head);
    not_modified = head->status == 304 && f->conditional;
    /* With 101 HTTP ends on this connection: there is no response to change. */
    if (head->status != 101)
        next = fetch_change_head(f, &head, not_modified);
    if (next != FETCH_WAIT)
        return next;
    if (fetch_is_error(f, head->status)) {
        f->entry->origin_status = head->status; /* before the outcome publishes it */
        return fetch_fail(f, TERR_UPSTREAM);
    }
    return not_modified ? fetch_not_modified(f, head) : fetch_take_head(f, head);
}

/* DONE -- whole: kept if it is for the cache. */
static enum fetch_next
fetch_do_done(struct fetch *f)
{
    /* Before space_finish(): a part that is too short must break off for its readers, not end. */
    if (f->attempt.part_len != STOBJ_SIZE_UNKNOWN && stobj_len(f->body) != f->attempt.part_len)
        return fetch_fail(f, TERR_FRAMING); /* not what its Content-Range says */
    space_finish(f->body);
    fetch_pack_close(f);
    if (f->held != NULL) {
        int err = fetch_publish_held(f);

        if (err != 0)
            return fetch_fail(f, err);
    }
    fetch_tell_absent(f, true);
    if (fetch_is_shared(f)) {
        cache_settle(f->entry);
        if (f->attempt.offers)
            recode_offer(f->proxy, f->entry);
    } else if (f->entry->windowed)
        cache_settle_window(f->entry);
    if (fetch_is_windowed(f))
        stobj_shut_window(f->body); /* a reader alone by now leaves nothing behind */
    if (f->conn != NULL)
        fetch_give(f);
    return fetch_goto(f, FETCH_CLOSE);
}

static void
fetch_tell_failed(struct fetch *f, struct entry **ep)
{
    if (*ep != NULL && entry_state(*ep) == ENTRY_BUSY)
        cache_fail(*ep, f->attempt.err);
}

/* Of the body, so far: what was to be kept, and the window it goes on in. */
static uint64_t
fetch_bytes(const struct fetch *f)
{
    uint64_t before = fetch_is_windowed(f) && f->held == NULL
                          ? entry_part(f->entry, entry_nparts(f->entry) - 1).off
                          : 0;

    return before + stobj_len(f->body);
}

static void
fetch_say_failed(const struct fetch *f)
{
    const char *more = fetch_more(f);

    if (f->conn != NULL && f->attempt.on.request != FETCH_UNSENT &&
        f->attempt.err != TERR_CANCELLED && f->attempt.err != TERR_UPSTREAM &&
        f->attempt.err != TERR_POLICY)
        elog(ELOG_WARN, "backend %s: no usable response: %s%s%s", f->conf->name,
            terr_text(f->attempt.err), more[0] != '\0' ? ": " : "", more);
}

/* Once for each fetch, however it ends for the client.  What a policy gave up did get a response. */
static void
fetch_count_failed(const struct fetch *f)
{
    if (f->attempt.err != TERR_CANCELLED && f->attempt.err != TERR_POLICY)
        counter_add(f->proxy->counters, COUNTER_fetch_failed, 1);
}

/* The body broke off.  For want of room that is not the backend's doing. */
static void
fetch_count_cut(const struct fetch *f)
{
    const char *more = fetch_more(f);

    if (f->attempt.err == TERR_CANCELLED)
        return;
    counter_add(f->proxy->counters, COUNTER_fetch_truncated, 1);
    if (f->attempt.err != TERR_NOMEM && f->attempt.err != TERR_LIMIT)
        backend_note_cut(f->backend);
    elog(ELOG_WARN, "backend %s: response cut short after %llu bytes: %s%s%s", f->conf->name,
        (unsigned long long)fetch_bytes(f), terr_text(f->attempt.err), more[0] != '\0' ? ": " : "",
        more);
}

/* ERROR -- waiters and readers are notified; nothing cut short stays in the cache. */
static enum fetch_next
fetch_do_error(struct fetch *f)
{
    if (f->turn.waits)
        origin_leave_queue(f->proxy->origins, f->backend, &f->turn);
    fetch_pack_close(f);
    if (fetch_hops(f) && f->body == NULL && f->attempt.err != TERR_CANCELLED)
        return fetch_hop_leave(f);
    /* First: with it goes the body, so the policy can still answer otherwise (README 36). */
    if (f->held != NULL)
        fetch_drop_held(f);
    /* vcl_backend_error is not asked about an error of the origin that a stored response stands in
     * for (TERR_UPSTREAM): vcl_backend_response has seen it. */
    if (f->vcl != NULL && f->body == NULL && f->attempt.err != TERR_CANCELLED &&
        f->attempt.err != TERR_UPSTREAM) {
        enum fetch_next next;

        fetch_say_failed(f);
        next = fetch_policy_error(f);
        if (next != FETCH_WAIT && f->state != FETCH_START)
            fetch_count_failed(f);
        if (next != FETCH_WAIT)
            return next;
    }
    fetch_count_failed(f);
    if (f->body != NULL) {
        fetch_count_cut(f);
        fetch_tell_absent(f, false);
        cache_note(f->entry, REMOVAL_CUT);
        /* Before the body fails: no request may find what was cut short (daemon/README 6). */
        cache_unlink(f->entry);
        space_cancel(f->body, &f->space);
        space_fail(f->body, f->attempt.err);
    } else {
        if (f->vcl == NULL)
            fetch_say_failed(f);
        fetch_tell_failed(f, &f->shared);
        fetch_tell_failed(f, &f->entry);
    }
    fetch_drop_kept(f);
    if (f->conn != NULL)
        origin_discard(&f->conn);
    return fetch_goto(f, FETCH_CLOSE);
}

/* CLOSE -- give back what we hold; runs again until nothing is pending. */
static enum fetch_next
fetch_do_close(struct fetch *f)
{
    timer_clear(&f->timer);
    fetch_pack_close(f);
    if (f->upload.body != NULL)
        fetch_close_upload(f);
    if (f->body != NULL && waiter_state(&f->space) == WAITER_ARMED)
        space_cancel(f->body, &f->space);
    return FETCH_WAIT;
}

#define TO(s) (1u << FETCH_##s)
static const struct {
    const char *name;
    enum fetch_next (*run)(struct fetch *f);
    unsigned may_go;
} fetch_machine[] = {
    /* clang-format off */
    [FETCH_START]   = { "start",   fetch_do_start,   TO(GATHER) | TO(CONNECT) | TO(ERROR) },
    [FETCH_GATHER]  = { "gather",  fetch_do_gather,  TO(START) | TO(ERROR) },
    [FETCH_CONNECT] = { "connect", fetch_do_connect, TO(START) | TO(SEND) | TO(ERROR) },
    [FETCH_SEND]    = { "send",    fetch_do_send,    TO(HEAD) | TO(ERROR) },
    [FETCH_HEAD]    = { "head",    fetch_do_head,    TO(START) | TO(REVALIDATE) | TO(BODY) | TO(DONE) | TO(ERROR) },
    [FETCH_REVALIDATE] = { "revalidate", fetch_do_revalidate, TO(CLOSE) },
    [FETCH_BODY]    = { "body",    fetch_do_body,    TO(DONE) | TO(ERROR) },
    [FETCH_DONE]    = { "done",    fetch_do_done,    TO(ERROR) | TO(CLOSE) },
    [FETCH_ERROR]   = { "error",   fetch_do_error,   TO(START) | TO(CLOSE) },
    [FETCH_CLOSE]   = { "close",   fetch_do_close,   0 },
    /* clang-format on */
};

const char *
fetch_state_name(enum fetch_state state)
{
    return state < ARRAY_LEN(fetch_machine) ? fetch_machine[state].name : "?";
}

enum fetch_next
fetch_goto(struct fetch *f, enum fetch_state next)
{
    tassert(fetch_machine[f->state].may_go & (1u << next));
    f->state = next;
    return FETCH_MORE;
}

/* The reason stays for the log and for the requests that wait: the entry fails with it. */
enum fetch_next
fetch_fail(struct fetch *f, int err)
{
    tassert(err < 0 && err != TERR_AGAIN);
    f->attempt.err = err;
    return fetch_goto(f, FETCH_ERROR);
}

static void
fetch_check(const struct fetch *f)
{
    OBJ_CHECK(f, FETCH_MAGIC);
    switch (f->state) {
    case FETCH_START:
        tassert(f->conn == NULL && f->body == NULL);
        break;
    case FETCH_GATHER:
        tassert(f->conn == NULL && f->upload.body == NULL && f->upload.later);
        break;
    case FETCH_CONNECT:
    case FETCH_SEND:
    case FETCH_HEAD:
    case FETCH_REVALIDATE:
        tassert(f->conn != NULL && f->body == NULL);
        break;
    case FETCH_BODY:
        tassert(f->conn != NULL && f->body != NULL);
        break;
    case FETCH_DONE:
        tassert(f->body != NULL); /* without a connection: a tunnel has it */
        break;
    case FETCH_ERROR:
        tassert(f->attempt.err != 0);
        break;
    case FETCH_CLOSE:
        tassert(f->conn == NULL);
        break;
    }
}

/* The request that started it has gone.  A window may have other readers; waiters for its head get some time to
 * come: until nothing goes on without them, or a private one's bound has been read. */
static bool
fetch_is_unread(const struct fetch *f)
{
    if (!f->entry->abandoned)
        return false;
    if (!fetch_is_windowed(f))
        return entry_is_private(f->entry);
    return (f->attempt.stalled ||
               stobj_len(f->body) >= (uint64_t)f->proxy->params.transit_buffer) &&
           entry_close(f->entry);
}

/* One step.  A response that no request will read is given up here, whatever the state. */
static enum fetch_next
fetch_step(struct fetch *f)
{
    bool ends = f->state == FETCH_REVALIDATE || f->state >= FETCH_DONE;

    /* From REVALIDATE and DONE on nothing is waited for, and what came is whole. */
    if (!ends && (f->cut || fetch_is_unread(f)))
        return fetch_fail(f, TERR_CANCELLED);
    return fetch_machine[f->state].run(f);
}

void
fetch_run(struct task *task)
{
    struct fetch *f = container_of(task, struct fetch, task);
    unsigned steps = 0;

    OBJ_CHECK(f, FETCH_MAGIC);
    proxy_here.fetch = f;
    while (fetch_step(f) == FETCH_MORE) {
        fetch_check(f);
        steps++;
        tassert(steps < LIMIT_FETCH_STEPS);
    }
    proxy_here.fetch = NULL;
    /* Freed only with nothing pending (daemon/README 3): a notification still refers to its waiter
     * here. */
    if (f->state != FETCH_CLOSE || waiter_pending(&f->space) || waiter_pending(&f->upload.wait) ||
        waiter_pending(&f->turn.waiter))
        return;
    if (fetch_is_logged(f))
        fetch_log_end(f);
    fetch_free(f);
}
