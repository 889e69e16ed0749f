/* fetch_publish.c -- a response head has come: what becomes of the entry. */
#include <errno.h>

#include "daemon/base/terr.h"
#include "daemon/http/cache_control.h"
#include "daemon/http/derive.h"
#include "daemon/http/dictionary.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "daemon/http/freshness.h"
#include "daemon/http/tags.h"
#include "daemon/http/vary.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_policy.h"

/* More than half of the store would drive all the rest out, and may not fit for all that. */
uint64_t
fetch_object_max(const struct proxy *p)
{
    const uint64_t most = p->storage_bytes / 2, said = (uint64_t)p->params.max_object_size;

    if (said == 0)
        return p->storage_bytes / 10;
    return said < most ? said : most;
}

/* With a policy it is the policy's word. */
static enum fresh_cookies
fetch_cookies(const struct fetch *f)
{
    const char *word = f->proxy->params.store_set_cookie;

    if (f->vcl != NULL || strcmp(word, "always") == 0)
        return FRESH_COOKIES_ALWAYS;
    return strcmp(word, "public") == 0 ? FRESH_COOKIES_PUBLIC : FRESH_COOKIES_NEVER;
}

void
fetch_judge(struct fetch *f, const struct http_message *head, struct fresh_verdict *v)
{
    const struct conf_params *params = &f->proxy->params;
    struct cache_control cc;
    struct fresh_request fr = {
        /* What a policy looks up it may store, whatever it asks by: a POST too, as in Varnish. */
        .method = f->vcl != NULL && f->kind == FETCH_FOR_CACHE && f->asked != HTTP_M_HEAD
                      ? HTTP_M_GET
                      : (enum http_method)f->asked,
        .has_authorization = http_has(&f->req, HTTP_F_AUTHORIZATION),
        .range = f->ranged,
        .sent_ms = f->sent_ms,
        .received_ms = f->attempt.received_ms,
    };
    struct fresh_params fp = {
        .surrogate = slice_str(params->http_via),
        .grace_said = params->grace_said || f->vcl != NULL, /* as Varnish */
        .default_ttl_ms = f->vcl != NULL ? policy_default_ttl_ms(params) : params->default_ttl,
        .default_grace_ms = params->default_grace,
        .default_keep_ms = params->default_keep,
        .heuristic_fraction = (unsigned)params->heuristic_fraction,
        .heuristic_max_ms =
            f->vcl == NULL || params->heuristic_said ? params->heuristic_max : 0, /* as Varnish */
        .cookies = fetch_cookies(f),
        .stale_by_s_maxage = f->vcl != NULL, /* as Varnish */
    };

    if (f->route != NULL)
        fetch_rule_times(f, &fp);
    cc_parse_request(&f->req, &cc);
    fr.no_store = cc_has(&cc, CC_NO_STORE) && f->vcl == NULL; /* advice; see req_policy_query() */
    fresh_judge(head, &fr, &fp, v);
    f->attempt.by_request =
        v->refusal == FRESH_REFUSE_AUTHORIZATION || v->refusal == FRESH_REFUSE_REQ_NO_STORE;
}

/* The head as it is stored or handed on, with Content-Length if that is known. */
static int
fetch_write_head(
    struct fetch *f, const struct http_message *head, bool stored, struct cache_response *r)
{
    const struct origin_exchange *x = fetch_exchange(f);
    struct forward_response how = {
        .keep = stored ? FORWARD_STORED : FORWARD_PASSED,
        .shows_hop = fetch_hops(f),
        .pseudonym = slice_str(f->proxy->params.http_via),
        .now_s = f->attempt.received_ms / 1000,
        .length = FORWARD_NO_LENGTH,
    };
    int err;

    tassert(f->conn != NULL);
    /* RFC 9110 8.6: never with 1xx and 204; with 304 it is that of the 200. */
    r->length_in_head = x->content_length != ORIGIN_LENGTH_UNKNOWN && head->status != 204 &&
                        (x->body_length == x->content_length || head->status == 304 || f->for_head);
    if (f->pack != NULL)
        r->length_in_head = false;
    if (r->length_in_head)
        how.length = x->content_length;
    r->hides_fields = false;
    err = forward_response(head, &how, &f->arena, &r->head);
    if (err == 0)
        err = fetch_esi_head(f, head, r);
    /* Behind that: a page has no coding of its own, but may have one for its clients. */
    return err == 0 && fetch_is_form(f, head) ? fetch_pack_head(f, &r->head) : err;
}

/* In bytes, or STOBJ_SIZE_UNKNOWN until the end of the body tells. */
static uint64_t
fetch_body_length(const struct fetch *f)
{
    uint64_t len = fetch_exchange(f)->body_length;

    return len == ORIGIN_LENGTH_UNKNOWN ? STOBJ_SIZE_UNKNOWN : len;
}

/* Which request fields the response depends on, with the values that this request had; in the
 * arena. */
int
fetch_vary(struct fetch *f, const struct http_message *head, struct slice *out)
{
    bool form = fetch_is_form(f, head);
    char *spec;
    int n;

    *out = slice_of(NULL, 0);
    if (!http_has(head, HTTP_F_VARY)) {
        if (form && (f->pack != NULL || http_has(head, HTTP_F_CONTENT_ENCODING)))
            *out = vary_forms();
        return 0;
    }
    spec = arena_alloc(&f->arena, VARY_SPEC_MAX);
    if (spec == NULL)
        return TERR_NOMEM;
    n = vary_build(head, &f->req, form, (struct span){spec, VARY_SPEC_MAX});
    if (n < 0)
        return n;
    *out = slice_of(spec, (size_t)n);
    return 0;
}

enum {
    UNKNOWN_RESERVE = 16384, /* of a body of unknown length */
    PACKED_HELD_MAX = 16000, /* bytes from the origin, that never become more than these, packed */
};

/* Room for all of the body, if its length is known, before any request is promised anything.  0;
 * TERR_AGAIN: evicted memory is on its way back; or why not. */
static int
fetch_reserve(struct fetch *f, uint64_t body_len)
{
    uint64_t bytes = body_len == STOBJ_SIZE_UNKNOWN ? UNKNOWN_RESERVE : body_len;
    int rc = 0;

    tassert(fetch_is_shared(f) && f->body == NULL);
    if (waiter_pending(&f->space))
        return TERR_AGAIN;
    if (f->kept == NULL)
        rc = stobj_new(&f->kept, f->proxy->storage, STOBJ_KEPT, body_len, 0);
    if (rc == 0)
        rc = space_reserve(f->kept, bytes, &f->space);
    if (rc == 0)
        return 0;
    if (rc == -EAGAIN)
        return TERR_AGAIN;
    /* The object that was begun goes, so that the response can be tried with a window. */
    fetch_drop_kept(f);
    return TERR_LIMIT;
}

void
fetch_drop_kept(struct fetch *f)
{
    if (f->kept == NULL)
        return;
    /* The waiter is part of the fetch: it leaves the object's list before either of them goes. */
    if (waiter_state(&f->space) == WAITER_ARMED)
        space_cancel(f->kept, &f->space);
    space_fail(f->kept, TERR_CANCELLED);
    stobj_unref(&f->kept);
}

/* The references to what is stored already; our own object is still ours. */
static void
fetch_release_parts(struct fetch *f, struct cache_response *r)
{
    for (unsigned i = 0; i < r->nparts; i++) {
        struct stobj *body = r->parts[i].body;

        if (body != f->kept)
            stobj_unref(&body);
    }
}

/* beresp.do_stream is false, or it is packed and short: what is to be published, once the body is whole. */
struct fetch_held {
    struct cache_response response;
    struct fresh_verdict verdict;
    struct entry_part parts[ENTRY_PARTS_MAX];
    unsigned status; /* as it came */
};

/* 0: it is kept for later.  TERR_NOMEM */
static int
fetch_hold(struct fetch *f, const struct http_message *head, const struct cache_response *r)
{
    struct fetch_held *held = arena_alloc(&f->arena, sizeof(*held));

    tassert(f->held == NULL && r->nparts > 0 && r->nparts <= ENTRY_PARTS_MAX);
    if (held == NULL)
        return TERR_NOMEM;
    /* A copy, with what it points to: `r`, the verdict and the parts are on the caller's stack. */
    held->response = *r;
    held->verdict = *r->fresh;
    memcpy(held->parts, r->parts, r->nparts * sizeof(held->parts[0]));
    held->response.fresh = &held->verdict;
    held->response.parts = held->parts;
    held->status = head->status;
    f->held = held;
    return 0;
}

/* The policy wants it so, whatever the room. */
static bool
fetch_must_be_whole(const struct fetch *f)
{
    return f->vcl != NULL && f->vcl->at.whole;
}

/* What is packed from one read of the origin's, or two, comes as soon whole; and then its head has its length,
 * which a hit need not write.  There is room for all of it (fetch_reserve()). */
static bool
fetch_is_held(const struct fetch *f)
{
    return fetch_must_be_whole(f) ||
           (fetch_is_packed(f) && fetch_exchange(f)->body_length <= PACKED_HELD_MAX);
}

/* Of a body that is whole by now.  0 or TERR_*. */
static int
fetch_say_length(struct fetch *f, struct cache_response *r)
{
    struct http_message said;
    int err = derive_sized(&r->head, r->body_len, &f->arena, &said);

    if (err != 0)
        return err;
    r->length_in_head = true;
    if (r->hides_fields)
        return tags_put_last(&said, &f->arena, &r->head, &r->nsent);
    r->head = said;
    return 0;
}

/* The requests that waited for what became a marker: the request that fetched gets the response. */
void
fetch_tell_marker(struct fetch *f, unsigned status)
{
    struct entry *readers = f->entry;
    bool gone;

    if (f->shared == NULL)
        return;
    gone = f->shared->abandoned; /* while the body came: no reader takes it */
    entry_set_fetch(f->entry, &f->task);
    entry_set_fetch(f->shared, NULL);
    fetch_mark(f, f->shared, gone ? NULL : f->entry, status);
    entry_drop(&f->shared);
    if (gone) {
        f->listener.ops = NULL; /* the request left `shared`, and never came for our entry */
        entry_drop(&readers);
    }
}

static int fetch_leave_marker(struct fetch *f, unsigned status);

int
fetch_publish_held(struct fetch *f)
{
    struct fetch_held *held = f->held;
    int err;

    tassert(f->body != NULL && held != NULL);
    /* The body is whole by now, so its length is known even if no field announced it. */
    if (held->response.body_len == STOBJ_SIZE_UNKNOWN && !held->response.esi) {
        held->response.body_len = stobj_len(f->body);
        /* One part that is the whole takes no list of parts, and each hit finds its body at once. */
        if (held->response.nparts == 1 && held->parts[0].off == 0)
            held->parts[0].len = held->response.body_len;
    }
    if (!held->response.length_in_head && held->response.status == 200 && !held->response.esi) {
        err = fetch_say_length(f, &held->response);
        if (err != 0)
            return err;
    }
    err = cache_publish(f->entry, &held->response);
    if (err == TERR_NOMEM && fetch_is_shared(f) && f->shared == NULL) {
        /* No room for its head by now: then it is for the request that fetched, as any that is not kept. */
        f->attempt.no_room = true;
        err = fetch_leave_marker(f, held->status);
        if (err == 0)
            err = cache_publish(f->entry, &held->response);
    }
    if (err != 0)
        return err;
    f->held = NULL;
    fetch_tell_marker(f, held->status);
    return 0;
}

int
fetch_let_go(struct fetch *f)
{
    int err;

    tassert(f->body != NULL && f->held != NULL && fetch_is_shared(f));
    if (fetch_must_be_whole(f))
        return TERR_LIMIT;
    err = cache_publish(f->entry, &f->held->response);
    if (err == 0)
        f->held = NULL;
    return err;
}

void
fetch_drop_held(struct fetch *f)
{
    tassert(f->held != NULL && f->body != NULL);
    if (waiter_state(&f->space) == WAITER_ARMED)
        space_cancel(f->body, &f->space);
    if (stobj_state(f->body) == STOBJ_FILLING)
        space_fail(f->body, f->attempt.err != 0 ? f->attempt.err : TERR_CANCELLED);
    stobj_unref(&f->body);
    f->held = NULL;
    f->attempt.absent_ms = 0; /* what comes in its place may be another answer */
}

/* READY in the index, for every request.  0, TERR_AGAIN, or why it cannot be kept after all. */
static int
fetch_publish_shared(struct fetch *f, const struct http_message *head, struct cache_response *r)
{
    bool part = head->status == 206;
    struct entry_part parts[ENTRY_PARTS_MAX] = {{0, r->body_len, NULL}};
    int err = fetch_reserve(f, part ? f->attempt.part_len : r->body_len);

    tassert(fetch_is_shared(f) && f->shared == NULL);
    if (err != 0)
        return err;
    parts[0].body = f->kept;
    r->parts = parts;
    r->nparts = 1;
    err = part ? fetch_gather_parts(f, head, r, parts) : fetch_write_head(f, head, true, r);
    if (err == 0)
        err = fetch_vary(f, head, &r->vary);
    if (err == 0)
        err = fetch_tags(f, r, true);
    f->attempt.offers = !part && dictionary_is_offered(&r->head);
    r->key_text = f->key_text;
    if (err == 0)
        err = fetch_is_held(f) && !part ? fetch_hold(f, head, r) : cache_publish(f->entry, r);
    /* cache_publish takes the references only on success.  Those of `old` and our own object go
     * back. */
    if (err != 0) {
        fetch_release_parts(f, r);
        fetch_drop_kept(f);
        return err;
    }
    f->body = f->kept;
    f->kept = NULL;
    return 0;
}

enum {
    ERROR_TTL_MS = 1000
}; /* an error passes, so it is not remembered for long */

int64_t
fetch_core_absent_ms(
    const struct fetch *f, const struct http_message *head, const struct fresh_verdict *v)
{
    bool says_nothing =
        (v->origin == FRESH_FROM_NONE || v->origin == FRESH_FROM_DEFAULT) &&
        (v->refusal == FRESH_REFUSE_NONE || v->refusal == FRESH_REFUSE_NO_FRESHNESS) &&
        !v->no_cache;

    if (!fetch_is_shared(f) || cache_negative(f->proxy->cache) == NULL ||
        (head->status != 404 && head->status != 410))
        return 0;
    /* The key does not tell variants apart, a cookie is for one, and a name has no tags. */
    if (!says_nothing || http_has(head, HTTP_F_VARY) || http_has(head, HTTP_F_SET_COOKIE) ||
        fetch_names_tags(f, head))
        return 0;
    return snapshot_conf(registry_snapshot(f->proxy->registry))->negative.ttl;
}

/* The same, once the policy has spoken, if there is one. */
static void
fetch_judge_absence(struct fetch *f, const struct http_message *head, const struct fresh_verdict *v)
{
    unsigned status = head->status % 1000u;

    if (fetch_hops(f))
        return; /* it is stored, or it is not */
    f->attempt.absent_ms =
        f->vcl == NULL ? fetch_core_absent_ms(f, head, v) : fetch_policy_absent_ms(f);
    if (f->vcl != NULL && (!fetch_is_shared(f) || cache_negative(f->proxy->cache) == NULL ||
                              (status != 404 && status != 410) || http_has(head, HTTP_F_VARY) ||
                              fetch_names_tags(f, head)))
        /* What the policy cannot allow: the name alone is remembered, not variants and not tags. */
        f->attempt.absent_ms = 0;
    f->attempt.absent_status = (uint16_t)status;
    f->attempt.absent_age_ms = v->age_ms;
}

/* It is known that there is nothing, unless another policy decides by now what that means. */
static bool
fetch_marks_absent(const struct fetch *f)
{
    return f->attempt.absent_ms > 0 &&
           policy_is_in_use(f->proxy, f->vcl != NULL ? f->vcl->ref->policy : NULL);
}

void
fetch_mark(struct fetch *f, struct entry *marker, struct entry *handoff, unsigned status)
{
    int64_t ttl_ms = f->proxy->params.uncacheable_ttl;
    enum fresh_refusal why = f->attempt.no_room ? FRESH_REFUSE_NO_ROOM : f->attempt.refusal;
    enum cache_mark mark = f->attempt.by_request ? CACHE_MARK_BY_REQUEST : CACHE_MARK;

    if (fetch_marks_absent(f)) {
        const struct negative_fact fact = {f->attempt.absent_status, f->attempt.came_ms,
            f->attempt.absent_age_ms, f->attempt.absent_ms};

        cache_publish_absent(marker, handoff, &fact, f->negative_generation);
        return;
    }
    entry_refused(marker, why);
    /* The key may be known as absent; this response shows that it is there, though it is not
     * stored. */
    if (f->attempt.no_room && status < 400)
        cache_is_there(f->proxy->cache, &marker->node.key);
    if (fetch_asks_policy(f) !=
        NULL) { /* hit-for-miss for beresp.ttl, or hit-for-pass as it said */
        bool pass = f->vcl->at.hitpass_ms != FETCH_UNSAID;

        mark = pass ? CACHE_MARK_PASS : CACHE_MARK;
        ttl_ms = pass ? f->vcl->at.hitpass_ms : f->vcl->at.uncacheable ? f->vcl->at.v.ttl_ms : 0;
        cache_hitmiss(marker, handoff, f->attempt.came_ms, ttl_ms > 0 ? ttl_ms : 0, mark);
        return;
    }
    if (status >= 500 || f->attempt.no_room || fetch_hop_stands_in(f)) {
        mark = CACHE_MARK_ERROR;
        ttl_ms = ttl_ms < ERROR_TTL_MS ? ttl_ms : ERROR_TTL_MS;
    }
    if (status == 416 || (marker->late && f->old == NULL))
        ttl_ms = 0; /* about one range alone; or it is known already */
    cache_hitmiss(marker, handoff, f->attempt.came_ms, ttl_ms, mark);
}

/* The entry that others wait for becomes a marker, so that they fetch for themselves, all at
 * once; the fetch goes on with an entry of its own. */
static int
fetch_leave_marker(struct fetch *f, unsigned status)
{
    struct entry *own;

    tassert(fetch_is_shared(f) && f->shared == NULL);
    counter_add(f->proxy->counters, COUNTER_fetch_uncacheable, 1);
    if (f->entry->abandoned && f->attempt.absent_ms == 0) {
        fetch_mark(f, f->entry, NULL, status);
        return TERR_CANCELLED; /* the response has no reader, but its status was of use */
    }
    own = cache_private(f->proxy->cache);
    if (own == NULL)
        return TERR_NOMEM;
    /* One hold for the request that comes for it, one for us. */
    f->shared = f->entry;
    f->entry = own;
    f->audience = FETCH_PRIVATE;
    return 0;
}

enum {
    WINDOW_SHARE = 16,    /* of the storage, by default */
    WINDOW_SHARE_MAX = 4, /* and at most */
    WINDOW_DEFAULT_MAX = 64 << 20,
    WINDOW_PATIENCE =
        10, /* looks, WINDOW_LOOK_MS each, for readers that have no other way to the rest */
    TRANSIT_REST_PART =
        16, /* of transit_buffer: the stream's connections and buffers, beside its body */
};

/* Can a reader that falls behind get the rest by itself (req_rest_start)? */
static bool
fetch_can_resume(const struct fetch *f, const struct http_message *head)
{
    struct validators v;

    if (f->asked != HTTP_M_GET || head->status != 200 || f->esi != NULL)
        return false;
    /* A range of the origin's, which is asked for without a coding, has other bytes than a packed body. */
    if (f->forms && http_has(head, HTTP_F_CONTENT_ENCODING))
        return false;
    validators_of(head, f->proxy->loop->clock.wall_ms / 1000, &v);
    return validators_if_range(&v).len > 0;
}

/* A window for what is not kept, of the size that is configured.  0, or a negative errno. */
static int
fetch_new_window(
    struct fetch *f, struct stobj **out, uint64_t length, const struct http_message *head)
{
    unsigned patience = fetch_can_resume(f, head) ? 0 : WINDOW_PATIENCE;
    const struct proxy *p = f->proxy;
    uint64_t alone = (uint64_t)p->params.transit_buffer, bytes = (uint64_t)p->params.stream_window;

    if (bytes == 0 && p->storage_bytes / WINDOW_SHARE < WINDOW_DEFAULT_MAX)
        bytes = p->storage_bytes / WINDOW_SHARE;
    else if (bytes == 0)
        bytes = WINDOW_DEFAULT_MAX;
    if (bytes > p->storage_bytes / WINDOW_SHARE_MAX)
        bytes = p->storage_bytes / WINDOW_SHARE_MAX;
    return stobj_new_shared(
        out, p->storage, length, bytes > alone ? bytes : alone, alone, patience);
}

/* READY in the index while it streams, through a window for all requests that come in time.  0, or
 * why not. */
static int
fetch_publish_window(struct fetch *f, const struct http_message *head, struct cache_response *r)
{
    struct entry_part part = {0, r->body_len, NULL};
    int err = fetch_write_head(f, head, true, r);

    tassert(fetch_is_shared(f) && f->kept == NULL);
    if (err == 0)
        err = fetch_vary(f, head, &r->vary);
    if (err == 0)
        err = fetch_tags(f, r, true);
    if (err == 0 && fetch_new_window(f, &part.body, r->body_len, &r->head) != 0)
        err = TERR_NOMEM;
    if (err != 0)
        return err;
    r->key_text = f->key_text;
    r->parts = &part;
    r->nparts = 1;
    r->windowed = true;
    err = cache_publish(f->entry, r);
    /* The caller goes on with a private response: the entry is as it was, and the window goes. */
    if (err != 0) {
        space_fail(part.body, err);
        stobj_unref(&part.body);
        r->windowed = false;
        return err;
    }
    f->body = part.body;
    f->audience = FETCH_WINDOWED;
    cache_note(f->entry,
        REMOVAL_REFUSED + (f->attempt.no_room ? FRESH_REFUSE_NO_ROOM : f->attempt.refusal));
    counter_add(f->proxy->counters, COUNTER_fetch_uncacheable, 1);
    counter_add(f->proxy->counters, COUNTER_fetch_windows, 1);
    return 0;
}

enum {
    TRANSIT_MIN = 16384, /* as of the parameter */
    TRANSIT_FIRST = 65536
};

/* How far the origin may be ahead of one client. */
static uint64_t
fetch_transit_bytes(const struct fetch *f)
{
    if (f->vcl == NULL || f->vcl->at.transit_bytes == FETCH_UNSAID)
        return (uint64_t)f->proxy->params.transit_buffer;
    if (f->vcl->at.transit_bytes == 0)
        return UINT64_C(1) << 48; /* any */
    return f->vcl->at.transit_bytes < TRANSIT_MIN ? TRANSIT_MIN
                                                  : (uint64_t)f->vcl->at.transit_bytes;
}

/* Body and its buffer for the one request that asked.  A client that takes nothing, of many responses at once, holds
 * little; but what a policy says of the buffer holds as it is said. */
static int
fetch_new_private(struct fetch *f, struct stobj **out, uint64_t length)
{
    uint64_t transit = fetch_transit_bytes(f), bytes = transit - transit / TRANSIT_REST_PART;
    bool said = f->vcl != NULL && f->vcl->at.transit_bytes != FETCH_UNSAID;

    if (fetch_must_be_whole(f))
        return stobj_new(out, f->proxy->storage, STOBJ_KEPT, length, bytes);
    return stobj_new_private(out, f->proxy->storage, length, bytes,
        said || bytes < TRANSIT_FIRST ? bytes : TRANSIT_FIRST);
}

/* For the one request that asked. */
static int
fetch_publish_private(struct fetch *f, const struct http_message *head, struct cache_response *r)
{
    struct entry_part part = {0, r->body_len, NULL};
    int err = 0;

    tassert(f->kept == NULL && f->body == NULL);
    r->partial = false;
    if (fetch_is_shared(f))
        err = fetch_leave_marker(f, head->status);
    if (err == 0)
        err = fetch_write_head(f, head, false, r);
    if (err == 0)
        err = fetch_tags(f, r, false);
    f->entry->set_cookie =
        f->kind == FETCH_FOR_CACHE && f->attempt.refusal == FRESH_REFUSE_SET_COOKIE;
    if (err == 0 && fetch_new_private(f, &part.body, r->body_len) != 0)
        err = TERR_NOMEM;
    if (err != 0)
        return err;
    /* It is in no index: nothing is compared with it.  That it is a form is read of it all the same. */
    r->key_text = slice_of(NULL, 0);
    r->vary = fetch_is_form(f, head) ? vary_forms() : slice_of(NULL, 0);
    r->tags = NULL; /* of an attempt to keep it */
    r->parts = &part;
    r->nparts = 1;
    f->attempt.part_len = STOBJ_SIZE_UNKNOWN;
    err = fetch_must_be_whole(f) ? fetch_hold(f, head, r) : cache_publish(f->entry, r);
    if (err != 0) {
        space_fail(part.body, err);
        stobj_unref(&part.body);
        return err;
    }
    f->body = part.body;
    if (f->held == NULL && !fetch_marks_absent(f))
        fetch_tell_marker(f, head->status); /* else when it is whole: fetch_tell_absent() */
    return 0;
}

void
fetch_tell_absent(struct fetch *f, bool whole)
{
    if (f->shared == NULL || f->held != NULL)
        return;
    if (!whole)
        f->attempt.absent_ms = 0;
    fetch_tell_marker(f, f->attempt.absent_status);
}

/* A 206 says itself how much it has, and where that belongs.  It was requested without a coding: what has one all
 * the same would be joined to a whole that some clients cannot read, and a part cannot be unpacked for them. */
static bool
fetch_part_is_sane(struct fetch *f, const struct http_message *head, uint64_t body_len)
{
    struct slice value = http_get_one(head, HTTP_F_CONTENT_RANGE);
    struct content_range cr;

    tassert(head->status == 206);
    if (value.ptr == NULL || content_range_parse(value, &cr) != 0 ||
        (f->forms && http_has(head, HTTP_F_CONTENT_ENCODING)))
        return false;
    f->attempt.part_len = cr.last - cr.first + 1;
    return body_len == STOBJ_SIZE_UNKNOWN || body_len == f->attempt.part_len;
}

/* Decided once for each head: a fetch that waits for room comes here again, with an object for what was
 * decided, and a reload may have been in between. */
static bool
fetch_packs_for_all(struct fetch *f, const struct http_message *head)
{
    if (!f->attempt.pack_decided)
        fetch_pack_open(f, head, FETCH_FOR_ALL);
    f->attempt.pack_decided = true;
    return f->pack != NULL;
}

/* For the cache, while it may be: kept, or through a window.  0, TERR_AGAIN, or why it is for one request.
 * `bytes`: that the origin sends. */
static int
fetch_publish_for_all(
    struct fetch *f, const struct http_message *head, struct cache_response *r, uint64_t bytes)
{
    tassert(fetch_is_shared(f) && r->fresh->storable);
    if (bytes == STOBJ_SIZE_UNKNOWN || bytes <= fetch_object_max(f->proxy)) {
        int err = fetch_publish_shared(f, head, r);

        /* TERR_AGAIN: called again with the same head when storage has room; nothing has been
         * promised to a request yet. */
        if (err == 0 || err == TERR_AGAIN)
            return err;
        f->attempt.no_room = true;
    }
    fetch_drop_kept(f); /* room was awaited, and max_object_size has changed since */
    /* A cookie of what is not stored is for the client that asked alone, whatever the operator said
     * of storing it. */
    return head->status != 206 && !fetch_must_be_whole(f) && !http_has(head, HTTP_F_SET_COOKIE)
               ? fetch_publish_window(f, head, r)
               : TERR_LIMIT;
}

/* The owner speaks of what it has stored; to a part that was asked for it may have answered something else: 416. */
static void
fetch_take_hop(const struct fetch *f, const struct http_message *head, struct fresh_verdict *v)
{
    const struct fresh_request asked = {.range = f->ranged};
    enum fresh_refusal refusal = fresh_refuse_status(head, &asked);

    *v = *fetch_hop_verdict(f);
    if (refusal == FRESH_REFUSE_NONE)
        return;
    v->storable = false;
    v->refusal = refusal;
}

int
fetch_publish(struct fetch *f, const struct http_message *head)
{
    struct fresh_verdict v;
    struct cache_response r = {
        .status = head->status,
        .origin_status = head->status,
        .status_prefix = f->vcl != NULL ? f->vcl->at.status_prefix : 0,
        .body_len = fetch_body_length(f),
        .received_ms = f->attempt.came_ms,
        .xid = fetch_stored_xid(f),
        .fresh = &v,
        .rendering = f->proxy->rendering,
        .for_policy = f->vcl != NULL,
        .was_fresh = fetch_policy_was_fresh(f),
        .copy = fetch_hops(f),
    };
    uint64_t bytes = r.body_len;

    tassert(f->body == NULL && f->attempt.received_ms != 0);
    if (fetch_hops(f))
        fetch_take_hop(f, head, &v);
    else if (f->vcl != NULL && head->status != 101)
        v = f->vcl->at.v;
    else
        fetch_judge(f, head, &v);
    /* RFC 9111 4.4, whatever becomes of the response itself. */
    fetch_invalidate(f, head);
    fetch_judge_absence(f, head, &v);
    if (!f->attempt.on.noted_verdict && fetch_is_logged(f))
        fetch_log_verdict(f, &v);
    f->attempt.on.noted_verdict = true;
    if (f->attempt.absent_ms > 0)
        v.storable = false; /* its page is for the present requests */
    if (v.storable && head->status == 206) {
        v.storable = fetch_part_is_sane(f, head, r.body_len);
        bytes = f->attempt.part_len;
    }
    f->attempt.refusal = v.storable ? FRESH_REFUSE_TOO_LARGE : v.refusal; /* unless it is kept */
    if (fetch_is_shared(f) && v.storable && fetch_packs_for_all(f, head))
        r.body_len = STOBJ_SIZE_UNKNOWN;
    if (fetch_is_shared(f) && v.storable) {
        int err = fetch_publish_for_all(f, head, &r, bytes);

        if (err == 0 || err == TERR_AGAIN)
            return err;
    }
    fetch_drop_kept(f);
    fetch_pack_close(f);
    if (f->joining && (head->status == 206 || head->status == 416))
        return TERR_OTHERPART; /* it was our question, not the client's */
    r.body_len =
        fetch_pack_open(f, head, FETCH_FOR_ONE) ? STOBJ_SIZE_UNKNOWN : fetch_body_length(f);
    return fetch_publish_private(f, head, &r);
}

int
fetch_outgrown(struct fetch *f)
{
    struct http_field fields[LIMIT_FIELDS];
    struct http_message head;
    struct stobj *next;
    uint32_t expected;

    tassert(fetch_is_shared(f) && f->body != NULL && f->held == NULL);
    cache_note(f->entry, REMOVAL_OUTGREW);
    cache_unlink(f->entry);
    if (f->attempt.part_len != STOBJ_SIZE_UNKNOWN)
        return TERR_LIMIT; /* a part does not go on elsewhere */
    entry_message(f->entry, ENTRY_FIELDS_ALL, fields, &head);
    if (fetch_new_window(f, &next, STOBJ_SIZE_UNKNOWN, &head) != 0)
        return TERR_NOMEM;
    if (entry_add_part(f->entry, next) != 0) {
        space_fail(next, TERR_NOMEM);
        stobj_unref(&next);
        return TERR_NOMEM;
    }
    /* Readers that have joined cannot do without it.  All of this before the first can come to the end of what is
     * kept. */
    expected = entry_seal(f->entry);
    if (fetch_has_listener(f) && f->listener.ops->expect(f->listener.ctx))
        expected++;
    stobj_expect(next, (int32_t)expected);
    f->audience = FETCH_WINDOWED;
    f->attempt.stalled = false;
    space_finish(f->body);
    f->body = next;
    counter_add(f->proxy->counters, COUNTER_fetch_uncacheable, 1);
    counter_add(f->proxy->counters, COUNTER_fetch_windows, 1);
    return 0;
}
