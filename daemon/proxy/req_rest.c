/* req_rest.c -- a client fell out of a window that others share.
 *
 * What it lacks is asked of the origin for it alone: as a range, of the very version that it has begun
 * to get (RFC 9110 13.1.5, 15.3.7.3).  An origin that sends all of that version instead will do: what
 * the client has is skipped.  Without a strong validator, or when the answer is anything else, the
 * response is cut off: bytes of two versions are never joined. */
#include "daemon/base/terr.h"
#include "daemon/http/conditional.h"
#include "daemon/http/vary.h"
#include "daemon/proxy/req_priv.h"

struct rep_rest {
    struct entry *entry; /* held, private: its body is bytes `want` of the whole */
    struct range_spec want;
    int64_t now_s; /* wall clock, when it was asked for */
};

/* `v` borrows from the entry. */
static void
rep_rest_validators(const struct rep_rest *rest, const struct entry *e, struct http_message *head,
    struct validators *v, struct http_field *fields)
{
    entry_message(e, ENTRY_FIELDS_ALL, fields, head);
    validators_of(head, rest->now_s, v);
}

int
req_rest_start(struct req *r)
{
    uint64_t end = r->segments[0].end;
    struct http_field fields[LIMIT_FIELDS];
    struct http_message head;
    struct validators v;
    struct rep_rest *rest;
    struct fetch_spec spec = {
        .kind = FETCH_REST,
        .head = r->head,
        .edited = r->policy.req != NULL,
    };

    tassert(r->rep.rest == NULL && r->entry != NULL);
    if (r->early && req_is_early(r))
        return TERR_CLOSED;
    /* Of several ranges one position does not say what is missing. */
    if (r->head->method != HTTP_M_GET || r->nsegments != 1 || entry_status(r->entry) != 200 ||
        entry_is_esi(r->entry) || req_make_key(r) != 0)
        return TERR_CLOSED;
    rest = arena_alloc(&r->x->arena, sizeof(*rest));
    if (rest == NULL)
        return TERR_CLOSED;
    /* Kept: both heads are judged by the same moment. */
    rest->now_s = r->proxy->loop->clock.wall_ms / 1000;
    rep_rest_validators(rest, r->entry, &head, &v, fields);
    spec.if_range = validators_if_range(&v);
    if (spec.if_range.len == 0 ||
        (vary_has_forms(entry_vary(r->entry)) && http_has(&head, HTTP_F_CONTENT_ENCODING)))
        return TERR_CLOSED;
    spec.compress = req_compress(r);
    rest->want = (struct range_spec){r->rep.pos, end == LEASE_TO_END ? RANGE_UNKNOWN : end - 1};
    rest->entry = cache_private(r->proxy->cache);
    if (rest->entry == NULL)
        return TERR_CLOSED;
    /* Without a listener: the client has its head, and needs no interim response any more. */
    spec.entry = rest->entry;
    spec.backend = req_backend(r);
    spec.ranges = &rest->want;
    spec.nranges = 1;
    spec.host = slice_of(r->proxy->key_text + r->host_at, r->host_len);
    spec.key_text = req_key_text(r);
    spec.policy = policy_share(req_fetch_policy(r));
    if (spec.policy != NULL)
        spec.identity = req_identity(r);
    r->rep.rest = rest;
    fetch_start(r->proxy, r->x, &spec);
    return 0;
}

/* Is what came what was asked for, to the byte, or all of it, and of the same version?  *off: where
 * it begins in the whole. */
static bool
rep_rest_fits(const struct rep_reader *rd, uint64_t *off)
{
    const struct rep_rest *rest = rd->rest;
    uint64_t whole = entry_body_len(rd->entry);
    struct http_field fields[2][LIMIT_FIELDS];
    struct http_message begun, came;
    struct validators a, b;
    struct content_range cr;
    struct slice value;

    tassert(rest != NULL && rd->entry != NULL);
    rep_rest_validators(rest, rd->entry, &begun, &a, fields[0]);
    rep_rest_validators(rest, rest->entry, &came, &b, fields[1]);
    if (!validators_join(&a, &b))
        return false;
    if (entry_status(rest->entry) == 200) {
        uint64_t all = entry_body_len(rest->entry);

        *off = 0;
        return whole == STOBJ_SIZE_UNKNOWN || all == STOBJ_SIZE_UNKNOWN || whole == all;
    }
    if (entry_status(rest->entry) != 206)
        return false;
    *off = rest->want.first;
    value = http_get_one(&came, HTTP_F_CONTENT_RANGE);
    if (value.ptr == NULL || content_range_parse(value, &cr) != 0 || cr.first != rest->want.first)
        return false;
    if (whole != STOBJ_SIZE_UNKNOWN && cr.complete != RANGE_UNKNOWN && cr.complete != whole)
        return false;
    if (rest->want.last != RANGE_UNKNOWN)
        return cr.last == rest->want.last;
    /* It was asked for to the end, and must reach it. */
    return cr.last + 1 == cr.complete;
}

int
rep_rest_body(const struct rep_reader *rd, struct waiter *wait, struct stobj **body, uint64_t *off)
{
    struct rep_rest *rest = rd->rest;

    tassert(rest != NULL && !rd->reading);
    /* The outcome may come between the two: then cache_wait() says no, and the state tells. */
    if (entry_state(rest->entry) == ENTRY_BUSY && cache_wait(rest->entry, wait))
        return TERR_AGAIN;
    if (entry_state(rest->entry) != ENTRY_READY || !rep_rest_fits(rd, off))
        return TERR_CLOSED;
    *body = entry_part(rest->entry, 0).body;
    return 0;
}

void
req_rest_cancel(struct req *r)
{
    tassert(r->rep.rest != NULL);
    if (waiter_state(&r->wait) == WAITER_ARMED)
        cache_cancel(r->rep.rest->entry, &r->wait);
}

void
req_rest_end(struct req *r)
{
    tassert(r->rep.rest != NULL && !waiter_pending(&r->wait));
    entry_abandon(r->rep.rest->entry);
    entry_drop(&r->rep.rest->entry);
    r->rep.rest = NULL;
}
