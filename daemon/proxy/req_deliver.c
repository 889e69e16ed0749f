/* req_deliver.c -- to the client, at the client's pace: leases in, leases back.
 *
 * A hit that leaves whole in this turn only borrows its entry.  Whatever has to wait holds it
 * first, and its leases with it. */
#include "daemon/base/terr.h"
#include "daemon/http/codings.h"
#include "daemon/http/vary.h"
#include "daemon/proxy/req_priv.h"

enum {
    DELIVER_BATCHES = 8
}; /* batches of leases in a turn, then others get theirs */

void
req_note_first_byte(struct req *r)
{
    uint64_t us = clock_read_us(&r->proxy->loop->clock) - r->x->start_us;

    r->ttfb_us = us == 0 ? 1 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* Past this turn RCU does not keep the entry for us.  A request that never comes here is done when
 * its head has left. */
static void
req_hold(struct req *r)
{
    if (r->head_sent && r->ttfb_us == 0)
        req_note_first_byte(r);
    if (r->entry != NULL && !r->holds) {
        entry_hold(r->entry);
        r->holds = true;
    }
    rep_hold(&r->rep);
}

/* Of a body without a length: is all that is asked for here, whatever comes? */
static bool
req_needs_no_more(const struct req *r)
{
    return r->resp.bodyless || (entry_body_len(r->entry) == STOBJ_SIZE_UNKNOWN &&
                                   !r->entry->windowed && r->segments[0].end != LEASE_TO_END);
}

bool
req_expect(struct req *r)
{
    r->rep.expected = !r->begun || !req_needs_no_more(r);
    return r->rep.expected;
}

static struct http_message *
req_entry_message(struct req *r)
{
    struct http_field *fields = arena_alloc(&r->x->arena, LIMIT_FIELDS * sizeof(*fields));
    struct http_message *m = arena_alloc(&r->x->arena, sizeof(*m));

    if (fields == NULL || m == NULL)
        return NULL;
    entry_message(r->entry, ENTRY_FIELDS_SENT, fields, m);
    return m;
}

const struct http_message *
req_response(struct req *r)
{
    if (r->resp.message != NULL)
        return r->resp.message;
    return r->entry != NULL ? req_entry_message(r) : NULL;
}

/* What the policy left of it, or what is stored, as a message. */
static __attribute__((noinline)) int
req_begin_message(struct req *r)
{
    tassert(r->entry != NULL);
    r->resp.rendered = slice_of(NULL, 0);
    r->resp.message = r->policy.touched ? r->policy.message : req_entry_message(r);
    return r->resp.message != NULL ? 0 : TERR_NOMEM;
}

/* The head in the form of a protocol that is not the stored one's: made by the first hit.  .ptr NULL: it has
 * none, or it could not be kept; then the message is sent. */
static struct slice
req_entry_form(struct req *r)
{
    const struct http_rendering *of = r->x->ops->rendering;
    struct http_field fields[LIMIT_FIELDS];
    char text[HTTP_FORM_MAX];
    struct http_message m;
    struct slice form = slice_of(NULL, 0);

    if (of == NULL || of->form == NULL)
        return form;
    form = entry_form(r->entry, of);
    if (form.ptr != NULL || r->attempt.leader)
        return form;
    entry_message(r->entry, ENTRY_FIELDS_SENT, fields, &m);
    form = slice_of(text, of->form(&m, text, sizeof(text)));
    return form.len > 0 ? cache_keep_form(r->entry, of, form) : slice_of(NULL, 0);
}

/* Of a body that came without a length. */
static __attribute__((noinline)) int
req_begin_unsized(struct req *r)
{
    const struct entry *e = r->entry;

    if (entry_is_esi(e))
        return req_begin_esi(r);
    /* It is whole by now, so the client is told one: to HTTP/1.0 the end would else be that of the
     * connection. */
    if (!e->partial && stobj_state(entry_part(e, 0).body) == STOBJ_SETTLED && entry_nparts(e) == 1)
        r->resp.length = stobj_len(entry_part(e, 0).body);
    return 0;
}

/* Of an answer without a body: would GET be told that length (RFC 9110 9.3.2)?  What answered HEAD itself has no
 * body, whatever its length. */
static bool
req_length_is_gets(const struct req *r)
{
    const struct entry *e = r->entry;

    if (e->partial)
        return true;
    if (r->unpacks)
        return false;
    return e->length_in_head ||
           (r->x->head.method == HTTP_M_HEAD && !entry_is_private(e) && entry_nparts(e) == 1 &&
               stobj_state(entry_part(e, 0).body) == STOBJ_SETTLED && r->resp.status != 304);
}

/* A body that lies there packed, by a client that takes it so: most hits of what has forms.  It counts as in
 * req_begin_form(), which does all others. */
static inline bool
req_takes_form(struct req *r)
{
    const unsigned gzip = HTTP_FORMS_KNOWN | HTTP_FORM_GZIP;

    return vary_is_forms(entry_vary(r->entry)) && (r->head->forms & gzip) == gzip &&
           !http_has(r->head, HTTP_F_AVAILABLE_DICTIONARY) && recode_count(&r->proxy->recode);
}

/* From the entry: what the exchange needs to know of the response.  TERR_CLOSED: it has been given
 * up. */
static int
req_begin_entry(struct req *r)
{
    struct entry *e = r->entry;
    unsigned s;

    if (__builtin_expect(!r->policy.touched && req_takes_rendered(r), 1)) {
        tassert_slow(r->resp.message == NULL);
        r->resp.rendered = entry_rendered(e);
        s = entry_status(e);
    } else if (!r->policy.touched && (r->resp.rendered = req_entry_form(r)).ptr != NULL) {
        s = entry_status(e);
    } else if (req_begin_message(r) != 0) {
        return TERR_NOMEM;
    } else {
        s = r->resp.message->status;
    }
    r->resp.status = s;
    r->resp.length = entry_body_len(e);
    r->resp.length_in_fields = e->length_in_head && !r->policy.no_length;
    r->resp.close = r->policy.close;
    r->resp.bodyless = r->x->head.method == HTTP_M_HEAD || s == 204 || s == 304;
    if (!rep_begin(&r->rep, e, r->attempt.leader))
        return TERR_CLOSED;
    if (r->resp.length == STOBJ_SIZE_UNKNOWN) {
        int err = req_begin_unsized(r);

        if (err != 0)
            return err;
    }
    if (__builtin_expect(e->block->vary_len > 0, 0) && r->rep.filter == NULL &&
        !req_takes_form(r)) {
        int err = req_begin_form(r);

        if (err != 0)
            return err;
    }
    r->all.end = r->resp.length;
    if ((r->head->present & REQ_SELECTS) != 0 && s == 200 && r->attempt.choice != REQ_AS_ASKED &&
        req_select(r) != 0)
        return TERR_NOMEM;
    if (r->resp.bodyless && !req_length_is_gets(r))
        r->resp.length = EXCHANGE_LENGTH_UNKNOWN; /* the length is unknown: say nothing */
    return 0;
}

static int
req_begin(struct req *r)
{
    int err = 0;

    r->begun = true;
    r->all.first = 0; /* its text stays empty */
    r->all.end = r->resp.length;
    r->segments = &r->all;
    r->nsegments = 1;
    if (__builtin_expect(r->entry != NULL, 1))
        err = req_begin_entry(r);
    else
        r->rep.entry = NULL;
    if (err != 0)
        return err;
    if (!r->policy.touched &&
        !r->policy.synth) /* else they are among its fields, as far as they are wanted */
        req_extra_lines(r);
    rep_seek(&r->rep, r->segments[0].first, r->segments[0].end);
    r->text_due = r->segments[0].text.len > 0;
    if (r->resp.bodyless || r->resp.length == 0)
        r->body_ended = true;
    return 0;
}

/* Leases that the client has taken go back. */
static void
req_return(struct req *r)
{
    uint64_t ids[LIMIT_LEASES];
    struct lease_returns back = {.ids = ids};

    /* An extent goes back when its last byte has left: until then the connection's queue points
     * into it. */
    while (r->nreturned < r->ngiven && r->ends[r->nreturned] <= r->x->sent)
        ids[back.n++] = r->ext[r->nreturned++].id;
    rep_return(&r->rep, &back);
    if (r->nreturned == r->nleased)
        r->nreturned = r->ngiven = r->nleased = 0;
}

/* Everything of this segment is leased: the next one, or the end. */
static void
req_next_segment(struct req *r)
{
    const struct req_segment *s;

    tassert(r->segment < r->nsegments);
    if (++r->segment == r->nsegments) {
        r->body_ended = true;
        return;
    }
    s = &r->segments[r->segment];
    rep_seek(&r->rep, s->first, s->end);
    r->text_due = s->text.len > 0;
}

/* The text in front of a segment is an extent like any other, except for its return. */
static void
req_lease_text(struct req *r, uint64_t end)
{
    const struct req_segment *s = &r->segments[r->segment];

    r->text_due = false;
    r->ext[r->nleased] =
        (struct lease_extent){s->text.ptr, LEASE_NO_RETURN, (uint32_t)s->text.len, 0};
    r->ends[r->nleased++] = end + s->text.len;
    if (s->first == s->end)
        req_next_segment(r);
}

/* The window has moved on.  0: the rest is being fetched; TERR_CLOSED: it cannot be had, or nothing
 * has been sent yet, and another way is better. */
static int
req_fall_behind(struct req *r)
{
    tassert(r->rep.behind && r->entry != NULL);
    counter_add(r->proxy->counters, COUNTER_resp_behind, 1);
    if (!r->head_sent || r->rep.rest != NULL || req_rest_start(r) != 0)
        return TERR_CLOSED;
    r->rep.part_ended = true;
    return 0;
}

/* More leases, if there is room and there are any.  0, TERR_AGAIN, or TERR_CLOSED: cut. */
static int
req_lease(struct req *r)
{
    struct lease_batch b = {.extents = r->ext, .n = r->nleased, .max = LIMIT_LEASES};
    uint64_t end = r->nleased > 0 ? r->ends[r->nleased - 1] : r->accepted;
    bool was_behind = r->rep.behind;
    int n;

    if (r->nleased == LIMIT_LEASES || r->body_ended)
        return 0;
    if (r->text_due) {
        req_lease_text(r, end);
        return 0;
    }
    n = rep_take(&r->rep, &b, r->nleased > 0, &r->wait);
    if (n < 0)
        return n == TERR_CLOSED && r->rep.behind && !was_behind ? req_fall_behind(r) : n;
    for (; r->nleased < b.n; r->nleased++)
        r->ends[r->nleased] = end += r->ext[r->nleased].len;
    if (r->rep.over)
        req_next_segment(r);
    return 0;
}

/* The client took `taken` of `total` bytes, from the first extent that was not accepted whole.  Returns
 * whether those were all, or TERR_CLOSED. */
static int
req_sent(struct req *r, ssize_t taken, size_t total)
{
    if (taken < 0)
        return (int)taken;
    r->head_sent = true;
    r->accepted += (uint64_t)taken;
    r->given_part = 0;
    if ((size_t)taken == total) {
        r->ngiven = r->nleased;
        return 1;
    }
    while (r->ngiven < r->nleased && r->ends[r->ngiven] <= r->accepted)
        r->ngiven++;
    if (r->ngiven < r->nleased)
        r->given_part = r->ext[r->ngiven].len - (size_t)(r->ends[r->ngiven] - r->accepted);
    return 0;
}

/* As req_sent(). */
static int
req_send(struct req *r, const struct iovec *iov, unsigned n, size_t total, unsigned flags)
{
    return req_sent(r, r->x->ops->send(r->x, r->head_sent ? NULL : &r->resp, iov, n, flags), total);
}

/* Of a run that was not taken at once, the rest is offered again: as an extent without a lease. */
static __attribute__((noinline)) int
req_sent_some(struct req *r, struct slice run, ssize_t taken)
{
    tassert(r->nleased == 0 && run.len > 0);
    r->ext[0] = (struct lease_extent){run.ptr, LEASE_NO_RETURN, (uint32_t)run.len, LEASE_LAST};
    r->ends[0] = run.len;
    r->nleased = 1;
    return req_sent(r, taken, run.len);
}

/* In one run of bytes, which are there as long as the entry is. */
static int
req_deliver_run(struct req *r, struct slice run)
{
    struct iovec iov = {.iov_len = run.len};
    ssize_t taken;

    memcpy(&iov.iov_base, &run.ptr, sizeof(run.ptr));
    r->body_ended = true;
    r->segment = 1;
    taken = r->x->ops->send(r->x, &r->resp, &iov, 1, EXCHANGE_END);
    if (__builtin_expect((size_t)taken != run.len, 0))
        return req_sent_some(r, run, taken);
    r->head_sent = true;
    r->accepted = run.len;
    return 1;
}

/* The usual: all of it lies ready, in one batch.  1: it was accepted; 0: go on with what is leased
 * and not accepted; TERR_CLOSED. */
static int
req_deliver_whole(struct req *r)
{
    struct lease_batch b = {.extents = r->ext, .n = 0, .max = LIMIT_LEASES};
    struct iovec iov[LIMIT_LEASES];
    uint64_t end = 0;
    unsigned flags;
    struct slice run;
    int n;

    if (r->nsegments != 1 || r->text_due || r->body_ended || r->all.end == LEASE_TO_END ||
        waiter_pending(&r->wait))
        return 0;
    if (rep_borrow(&r->rep, &run))
        return req_deliver_run(r, run);
    n = rep_take(&r->rep, &b, false, &r->wait);
    if (n == TERR_CLOSED && r->rep.behind)
        return req_fall_behind(r);
    if (n < 0)
        return n == TERR_AGAIN ? 0 : n;
    for (int i = 0; i < n; i++) {
        memcpy(&iov[i].iov_base, &r->ext[i].ptr, sizeof(r->ext[i].ptr));
        iov[i].iov_len = r->ext[i].len;
        end += r->ext[i].len;
        r->ends[i] = end;
    }
    r->nleased = b.n;
    if (r->rep.over)
        req_next_segment(r);
    if (n == 0)
        return 0; /* it has outgrown what is kept */
    /* What there is goes out before more is asked for: that may fail. */
    flags = r->body_ended ? EXCHANGE_END : b.n == LIMIT_LEASES ? EXCHANGE_MORE : 0;
    return req_send(r, iov, b.n, end, flags);
}

/* Offers what is leased and not accepted.  As req_send. */
static int
req_offer(struct req *r, bool more)
{
    struct iovec iov[LIMIT_LEASES];
    unsigned n = 0, flags = r->body_ended ? EXCHANGE_END : more ? EXCHANGE_MORE : 0;
    size_t skip = r->given_part, total = 0;

    for (unsigned i = r->ngiven; i < r->nleased; i++, skip = 0) {
        const char *p = r->ext[i].ptr + skip;

        memcpy(&iov[n].iov_base, &p, sizeof(p));
        iov[n].iov_len = r->ext[i].len - skip;
        total += iov[n++].iov_len;
    }
    return req_send(r, iov, n, total, flags);
}

static __attribute__((noinline, cold)) enum req_next
req_cut(struct req *r)
{
    tassert(!r->cut);
    r->cut = true;
    req_note_broken(r);
    r->log_flags |= SHMLOG_REQ_TRUNCATED;
    counter_add(r->proxy->counters, COUNTER_resp_truncated, 1);
    r->x->ops->reset(r->x, TERR_CLOSED);
    return req_goto(r, REQ_CLOSE);
}

/* It came for a body on its way, of which it got nothing: the window moved on, or the fetch ended
 * with its last reader, in this very moment.  What else is there? */
__attribute__((noinline, cold)) enum req_next
req_look_again(struct req *r)
{
    tassert(!r->head_sent && r->nleased == r->nreturned);
    /* Of its own fetch, too: its client was not ready, and others were. */
    bool alone = r->no_window && r->rep.behind;
    unsigned nranges = r->nranges;

    r->no_window = r->no_window || r->rep.behind;
    req_forget_response(r);
    r->nranges = nranges;
    r->begun = r->rep.behind = false;
    return req_goto(r, alone ? REQ_PASS : REQ_LOOKUP);
}

/* The body broke off before the client was sent anything: it gets an error instead of nothing. */
static __attribute__((noinline, cold)) enum req_next
req_deliver_nothing(struct req *r)
{
    if (r->entry == NULL || r->nleased > 0 || waiter_pending(&r->wait) || !rep_may_forget(&r->rep))
        return req_cut(r);
    req_note_broken(r);
    rep_forget(&r->rep);
    r->unpacks = false;
    r->begun = r->text_due = r->body_ended = false;
    r->segment = 0;
    if (r->entry->windowed && (r->rep.behind || (!r->no_window && !r->attempt.leader))) {
        r->no_window = r->no_window || !r->rep.behind;
        return req_look_again(r);
    }
    r->resp = (struct exchange_response){.status = 0};
    r->x->extra_len = 0;
    r->log_flags &= ~(unsigned)(SHMLOG_REQ_HIT | SHMLOG_REQ_STALE);
    return req_synth_by_policy(r, 502, slice_of(NULL, 0), TERR_CLOSED);
}

/* What the route and the policy make of a response, once, before its first byte.  REQ_WAIT: go on. */
static __attribute__((noinline)) enum req_next
req_attend(struct req *r)
{
    bool asks;

    if (r->policy.hop)
        req_hop_stand_in(r);
    if (r->policy.hop)
        return rep_begin(&r->rep, r->entry, r->attempt.leader) ? req_hop_deliver(r)
                                                               : req_look_again(r);
    asks = r->policy.ref != NULL && !policy_is_trivial(r->policy.ref->policy, VCL_SUB_DELIVER);

    if ((asks || req_rules(r) != NULL) && !rep_begin(&r->rep, r->entry, r->attempt.leader))
        return req_look_again(r);
    if (req_rules(r) != NULL && req_change_response(r) != 0)
        return req_cut(r);
    if (asks)
        return req_policy_deliver(r);
    r->policy.delivered = true;
    return r->policy.touched && req_write_touched(r) != 0 ? req_cut(r) : REQ_WAIT;
}

/* What the route and the policy make of the response, if that is still to come.  REQ_WAIT: go on. */
static inline enum req_next
req_attend_once(struct req *r)
{
    if (r->begun || r->attended == 0 || r->entry == NULL || r->policy.delivered)
        return REQ_WAIT;
    if (r->attended != REQ_HAS_POLICY || !policy_is_trivial(r->policy.ref->policy, VCL_SUB_DELIVER))
        return req_attend(r);
    r->policy.delivered = true; /* it has nothing to say: here, as most have */
    return REQ_WAIT;
}

/* The head, and all of the body if it lies ready.  REQ_WAIT: go on with what is leased. */
static inline enum req_next
req_deliver_first(struct req *r)
{
    int err = req_begin(r);

    if (err != 0)
        return err == TERR_CLOSED  ? req_look_again(r)
               : err == TERR_LIMIT ? req_refuse_unpack(r)
               : err == TERR_AGAIN ? req_refuse_early_page(r)
                                   : req_cut(r);
    if (r->x->writable && req_deliver_whole(r) == TERR_CLOSED)
        return r->head_sent || r->x->gone ? req_goto(r, REQ_CLOSE) : req_deliver_nothing(r);
    return REQ_WAIT;
}

/* A batch of leases, to the client.  1: it went; 0: another part begins; TERR_AGAIN: there is nothing to
 * offer, or the client must take some first; TERR_CLOSED: the source broke off; TERR_CANCELLED: the
 * client. */
static int
req_deliver_batch(struct req *r)
{
    int leased;

    if (r->rep.joined || rep_goes_on(&r->rep))
        rep_tend(&r->rep, !req_needs_no_more(r));
    /* Before more is leased: a window gives no room while old leases are out. */
    if (r->nreturned < r->ngiven)
        req_return(r);
    if (!r->x->writable)
        return TERR_AGAIN;
    leased = req_lease(r);
    if (leased == TERR_CLOSED || (leased == TERR_AGAIN && r->head_sent && r->ngiven == r->nleased))
        return leased;
    if (r->head_sent && r->ngiven == r->nleased && !r->body_ended)
        return r->nleased == 0 ? 0
                               : TERR_AGAIN; /* the next part begins; or all are with the client */
    /* A full batch says that more is at hand, and so do other segments and parts; otherwise a
     * packet must not wait for it. */
    if (req_offer(r, r->nleased == LIMIT_LEASES || r->nsegments > 1 ||
                         (r->rep.part_ended && r->rep.filter == NULL)) < 0)
        return TERR_CANCELLED;
    return 1;
}

/* As much as the client takes in this turn. */
static enum req_next
req_deliver_rest(struct req *r)
{
    int went = 0;

    for (int n = 0; n < DELIVER_BATCHES; n += went) {
        if (r->x->done)
            return req_goto(r, REQ_CLOSE);
        if (r->x->gathered)
            return REQ_WAIT; /* it leaves in this turn: nothing needs to be held */
        went = req_deliver_batch(r);
        if (went < 0)
            break;
    }
    if (went == TERR_CLOSED)
        return r->head_sent ? req_cut(r) : req_deliver_nothing(r);
    if (went == TERR_CANCELLED)
        return req_goto(r, REQ_CLOSE);
    if (went >= 0 && r->x->done)
        return req_goto(r, REQ_CLOSE); /* by the turn's last batch: nothing else wakes us */
    /* The loop's other tasks come first, then this one goes on in the same way. */
    if (went >= 0 && r->x->writable)
        task_wake(&r->task);
    req_hold(r);
    return REQ_WAIT;
}

static __attribute__((noinline)) enum req_next
req_deliver_on(struct req *r)
{
    enum req_next next = req_attend_once(r);

    if (next == REQ_WAIT && r->upload != NULL)
        req_pump_upload(r);
    if (next == REQ_WAIT && !r->begun)
        next = req_deliver_first(r);
    if (next != REQ_WAIT)
        return next;
    return r->x->gathered ? REQ_WAIT : req_deliver_rest(r);
}

/* DELIVER -- until the client has it all. */
enum req_next
req_do_deliver(struct req *r)
{
    if (!r->x->done)
        return req_deliver_on(r);
    req_goto(r, REQ_CLOSE);
    return req_do_close(r); /* at once: it gives back what is leased */
}

bool
req_end_delivery(struct req *r)
{
    uint64_t ids[LIMIT_LEASES];
    struct lease_returns back = {.ids = ids};

    if (!r->rep.reading && r->rep.filter == NULL)
        return true;
    if (r->cut && !r->x->gone)
        return false; /* what is leased is still being sent */
    for (; r->nreturned < r->nleased; r->nreturned++)
        ids[back.n++] = r->ext[r->nreturned].id;
    return rep_close(&r->rep, &back, &r->wait);
}
