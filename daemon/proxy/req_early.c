/* req_early.c -- requests that another may have sent again: in early data, or marked so by the hop before
 * (RFC 8470).
 *
 * While the handshake of its connection is not complete, a request is answered by what is stored or by what the
 * configuration says, and starts nothing: no fetch, in the background neither, no purge, no ban.  For anything else
 * the answer is 425, and the client asks again.  What the request itself carries therefore goes nowhere.  Once the
 * handshake is complete the client is known to be there, and the request is like any other. */
#include "daemon/proxy/req_priv.h"

void
req_note_early(struct req *r)
{
    const struct exchange *x = r->x;

    if (!conn_is_early(x->conn))
        return;
    counter_add(r->proxy->counters, COUNTER_req_early, 1);
    r->log_flags |= SHMLOG_REQ_EARLY;
    r->early = r->only_stored = r->no_window = true;
    if (x->err != 0 || r->synth_status != 0)
        return; /* it is malformed, or one too many: answered so */
    if ((x->head.method != HTTP_M_GET && x->head.method != HTTP_M_HEAD) || x->has_body ||
        x->upgrade)
        req_refuse_early(r);
}

/* The hop before us says that the request may be a replay (RFC 8470 5.1).  Waiting does not change that, and what
 * the origin says to it, which may be 425, is for this client alone. */
static bool
req_is_marked(const struct req *r)
{
    return http_has(r->head, HTTP_F_EARLY_DATA);
}

int
req_read_asked(struct req *r)
{
    r->only_stored = r->only_stored || req_is_marked(r);
    return http_has(r->head, HTTP_F_RANGE) ? req_read_ranges(r) : 0;
}

bool
req_is_early(struct req *r)
{
    if (!r->early || conn_is_early(r->x->conn))
        return r->early;
    r->early = r->no_window = false;
    r->only_stored = r->ask.only_if_cached || req_is_marked(r);
    return false;
}

enum req_next
req_refuse_early(struct req *r)
{
    tassert(r->early);
    counter_add(r->proxy->counters, COUNTER_req_too_early, 1);
    if (r->policy.ref != NULL && (r->state != REQ_RECV || r->policy.restarts > 0))
        req_forget_response(r);
    /* Not the policy's: it could make another answer of it, and the client would not ask again. */
    r->policy.synth = false;
    return req_synth(r, 425, 0);
}

enum req_next
req_not_stored(struct req *r)
{
    tassert(r->only_stored && !r->holds && r->old == NULL && r->policy.refresh == NULL);
    r->entry = NULL; /* a stale one, borrowed */
    if (req_is_early(r))
        return req_refuse_early(r);
    return r->only_stored ? req_goto(r, REQ_PASS)
                          : REQ_MORE; /* LOOKUP once more, with all rights */
}
