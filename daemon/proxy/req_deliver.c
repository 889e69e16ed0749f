/* req_deliver.c -- to the client, at the client's pace: leases in, leases back.
 *
 * A hit that leaves whole in this turn only borrows its entry.  Whatever has to wait holds it
 * first, and its leases with it. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/proxy/req_priv.h"

enum {
    DELIVER_BATCHES = 8
}; /* batches of leases in a turn, then others get theirs */

/* Past this turn RCU does not keep the entry for us. */
void
req_hold(struct req *r)
{
    if (r->entry != NULL && !r->holds) {
        entry_hold(r->entry);
        r->holds = true;
    }
    if (r->reading)
        lease_hold(&r->it);
}

static void
req_add_line(struct exchange *x, struct slice name, struct slice value)
{
    size_t len = name.len + value.len + 4;
    char *p = x->extra + x->extra_len;

    if (x->extra_len + len > EXCHANGE_EXTRA - 160)
        return; /* the protocol's own lines come first */
    memcpy(p, name.ptr, name.len);
    p += name.len;
    *p++ = ':';
    *p++ = ' ';
    memcpy(p, value.ptr, value.len);
    p += value.len;
    *p++ = '\r';
    *p = '\n';
    x->extra_len += (uint16_t)len;
}

static struct slice
req_decimal(char buf[24], uint64_t n)
{
    char *p = buf + 24;

    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    return slice_of(p, (size_t)(buf + 24 - p));
}

/* RFC 9211: what became of the request here. */
static struct slice
req_cache_status(const struct req *r)
{
    if ((r->log_flags & SHMLOG_REQ_HIT) != 0)
        return SLICE_LIT("; hit");
    if (r->collapsed)
        return SLICE_LIT("; fwd=uri-miss; collapsed");
    if ((r->log_flags & SHMLOG_REQ_MISS) != 0)
        return r->entry->is_private ? SLICE_LIT("; fwd=uri-miss")
                                    : SLICE_LIT("; fwd=uri-miss; stored");
    if (r->x->head.method != HTTP_M_GET && r->x->head.method != HTTP_M_HEAD)
        return SLICE_LIT("; fwd=method");
    if ((r->log_flags & SHMLOG_REQ_HITMISS) != 0)
        return SLICE_LIT("; fwd=uri-miss; detail=hit-for-miss");
    return SLICE_LIT("; fwd=uri-miss");
}

static void
req_extra_lines(struct req *r)
{
    const struct conf_params *params = &r->proxy->conf->params;
    struct exchange *x = r->x;
    char buf[24];

    if (r->entry != NULL && !r->entry->is_private) {
        int64_t age = entry_age_s(r->entry, r->proxy->loop->clock.wall_ms);

        if (age > 0 || (r->log_flags & SHMLOG_REQ_HIT) != 0)
            req_add_line(x, SLICE_LIT("Age"), req_decimal(buf, (uint64_t)age));
    }
    if (r->entry != NULL && params->http_cache_status) {
        struct slice via = slice_str(params->http_via), status = req_cache_status(r);
        char line[128];

        memcpy(line, via.ptr, via.len);
        memcpy(line + via.len, status.ptr, status.len);
        req_add_line(x, SLICE_LIT("Cache-Status"), slice_of(line, via.len + status.len));
    }
    if (params->request_id_header[0] != '\0') {
        static const char hex[] = "0123456789abcdef";

        for (unsigned i = 0; i < 16; i++)
            buf[i] = hex[x->xid >> (60 - 4 * i) & 15];
        req_add_line(x, slice_str(params->request_id_header), slice_of(buf, 16));
    }
}

/* From the entry: what the exchange needs to know of the response. */
static void
req_begin_entry(struct req *r)
{
    struct entry *e = r->entry;
    unsigned s = e->status;

    r->body = e->parts[0].body;
    r->resp = (struct exchange_response){
        .status = s,
        .block = entry_head(e),
        .length = e->body_len,
        .length_in_block = e->length_in_head,
        .bodyless = r->x->head.method == HTTP_M_HEAD || s == 204 || s == 304,
    };
    if (!r->leader && stobj_state(r->body) == STOBJ_FILLING)
        atomic_store_explicit(&e->joined, true, memory_order_release);
    if (r->resp.length == STOBJ_SIZE_UNKNOWN && stobj_state(r->body) == STOBJ_SETTLED &&
        atomic_load_explicit(&e->nparts, memory_order_acquire) == 1)
        r->resp.length = stobj_len(r->body);
    if (r->resp.bodyless && !e->length_in_head)
        r->resp.length = EXCHANGE_LENGTH_UNKNOWN; /* nobody said: say nothing */
}

static int
req_begin(struct req *r)
{
    r->begun = true;
    if (r->entry != NULL)
        req_begin_entry(r);
    req_extra_lines(r);
    if (r->resp.bodyless || r->resp.length == 0) {
        r->body_ended = true;
        return 0;
    }
    if (lease_init(&r->it, r->body, 0, LEASE_TO_END, &r->wait) != 0)
        return TERR_IO;
    r->reading = true;
    return 0;
}

/* Leases that the client has taken go back. */
static void
req_return(struct req *r)
{
    uint64_t ids[LIMIT_LEASES];
    struct lease_returns back = {.ids = ids};

    while (r->nreturned < r->ngiven && r->ends[r->nreturned] <= r->x->sent)
        ids[back.n++] = r->ext[r->nreturned++].id;
    if (back.n > 0)
        lease_return(&r->it, &back);
    if (r->nreturned == r->nleased)
        r->nreturned = r->ngiven = r->nleased = 0;
}

/* This part has ended: the body too, unless it goes on in another.  0: go on; TERR_AGAIN: once
 * the client has taken what is leased; TERR_CLOSED. */
static int
req_next_part(struct req *r)
{
    r->part_ended = true;
    if (r->entry == NULL ||
        r->part + 1 == atomic_load_explicit(&r->entry->nparts, memory_order_acquire)) {
        r->body_ended = true;
        return 0;
    }
    if (!r->leader)
        return TERR_CLOSED; /* it outgrew what is kept, and the rest is the leader's */
    if (r->nleased > 0)
        return TERR_AGAIN; /* leases go back to the iterator they came from */
    lease_fini(&r->it);
    r->reading = false;
    r->body = r->entry->parts[++r->part].body;
    if (lease_init(&r->it, r->body, 0, LEASE_TO_END, &r->wait) != 0)
        return TERR_CLOSED;
    r->reading = true;
    r->part_ended = false;
    return 0;
}

/* More leases, if there is room and there are any.  0, TERR_AGAIN, or TERR_CLOSED: cut. */
static int
req_lease(struct req *r)
{
    struct lease_batch b = {.extents = r->ext, .n = r->nleased, .max = LIMIT_LEASES};
    uint64_t end = r->nleased > 0 ? r->ends[r->nleased - 1] : r->accepted;
    int n;

    if (r->nleased == LIMIT_LEASES || r->body_ended)
        return 0;
    if (waiter_pending(&r->wait))
        return TERR_AGAIN;
    if (r->part_ended)
        return req_next_part(r);
    n = lease_take(&r->it, &b);
    if (n == -EAGAIN || n == -ENOBUFS)
        return TERR_AGAIN;
    if (n < 0)
        return TERR_CLOSED;
    for (int i = 0; i < n; i++) {
        end += r->ext[r->nleased].len;
        r->ends[r->nleased++] = end;
    }
    if (end == r->resp.length)
        r->body_ended = true;
    return n == 0 && !r->body_ended ? req_next_part(r) : 0;
}

/* Offers what is leased and not accepted.  Returns whether all was, or TERR_CLOSED. */
static int
req_offer(struct req *r, bool more)
{
    struct iovec iov[LIMIT_LEASES];
    unsigned n = 0, flags = r->body_ended ? EXCHANGE_END : more ? EXCHANGE_MORE : 0;
    size_t skip = r->given_part, total = 0;
    ssize_t taken;

    for (unsigned i = r->ngiven; i < r->nleased; i++, skip = 0) {
        const char *p = r->ext[i].ptr + skip;

        memcpy(&iov[n].iov_base, &p, sizeof(p));
        iov[n].iov_len = r->ext[i].len - skip;
        total += iov[n++].iov_len;
    }
    taken = r->x->ops->send(r->x, r->head_sent ? NULL : &r->resp, iov, n, flags);
    if (taken < 0)
        return (int)taken;
    r->head_sent = true;
    r->accepted += (uint64_t)taken;
    while (r->ngiven < r->nleased && r->ends[r->ngiven] <= r->accepted)
        r->ngiven++;
    r->given_part = 0;
    if (r->ngiven < r->nleased)
        r->given_part = r->ext[r->ngiven].len - (size_t)(r->ends[r->ngiven] - r->accepted);
    return (size_t)taken == total;
}

static enum req_next
req_cut(struct req *r)
{
    r->cut = true;
    r->log_flags |= SHMLOG_REQ_TRUNCATED;
    counter_add(r->proxy->counters, COUNTER_resp_truncated, 1);
    r->x->ops->abort(r->x);
    return req_goto(r, REQ_CLOSE);
}

/* DELIVER -- until the client has it all. */
enum req_next
req_do_deliver(struct req *r)
{
    struct exchange *x = r->x;
    unsigned batches = 0;
    int leased = 0;

    if (!r->begun && req_begin(r) != 0)
        return req_cut(r);
    if (r->upload != NULL)
        req_pump_upload(r);
    for (;;) {
        if (r->reading)
            req_return(r);
        if (x->done)
            return req_goto(r, REQ_CLOSE);
        if (x->gathered)
            return REQ_WAIT; /* it leaves in this turn: nothing needs to be held */
        if (!x->writable)
            break;
        if (r->reading)
            leased = req_lease(r);
        if (leased == TERR_CLOSED)
            return req_cut(r);
        if (leased == TERR_AGAIN && r->head_sent && r->ngiven == r->nleased)
            break; /* nothing new to offer */
        if (r->head_sent && r->ngiven == r->nleased && !r->body_ended) {
            if (r->nleased == 0)
                continue; /* the next part has begun */
            break;        /* every lease is with the client: wait until it took some */
        }
        /* A full batch says that more is at hand; otherwise a packet must not wait for it. */
        if (req_offer(r, r->nleased == LIMIT_LEASES) < 0)
            return req_goto(r, REQ_CLOSE);
        if (++batches == DELIVER_BATCHES && x->writable) {
            task_wake(&r->task);
            break;
        }
    }
    req_hold(r);
    return REQ_WAIT;
}

bool
req_end_delivery(struct req *r)
{
    struct lease_returns back = {.ids = NULL};
    uint64_t ids[LIMIT_LEASES];

    if (!r->reading)
        return true;
    back.ids = ids;
    while (r->nreturned < r->nleased)
        ids[back.n++] = r->ext[r->nreturned++].id;
    if (back.n > 0)
        lease_return(&r->it, &back);
    if (waiter_state(&r->wait) == WAITER_ARMED)
        lease_cancel(&r->it);
    if (waiter_pending(&r->wait))
        return false;
    lease_fini(&r->it);
    r->reading = false;
    return true;
}
