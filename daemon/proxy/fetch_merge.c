/* fetch_merge.c -- responses that build on what is stored: a 304 freshens it (RFC 9111 4.3.4), a
 * 206 completes it (RFC 9111 3.4), and the answer to an unsafe request ends it (RFC 9111 4.4). */
#include "daemon/base/terr.h"
#include "daemon/cache/invalidation.h"
#include "daemon/http/derive.h"
#include "daemon/http/forward.h"
#include "daemon/http/uri.h"
#include "daemon/http/vary.h"
#include "daemon/proxy/fetch_policy.h"

/* The stored head with the fields that came now, in our arena. */
static int
fetch_merge_heads(struct fetch *f, const struct http_message *stored,
    const struct http_message *update, struct http_message *merged)
{
    tassert(f->old != NULL);
    return derive_merged(stored, update, slice_str(f->proxy->params.http_via),
        f->attempt.received_ms / 1000, &f->arena, merged);
}

/* Freshness by the merged head, except the age, which is that of the new response. */
static void
fetch_judge_merged(struct fetch *f, const struct http_message *merged,
    const struct http_message *update, struct fresh_verdict *v)
{
    tassert(f->attempt.received_ms != 0);
    fetch_judge(f, merged, v);
    v->age_ms = fresh_age_ms(update, f->sent_ms, f->attempt.received_ms);
    if (v->origin != FRESH_FROM_ROUTE) /* else it counts from now on */
        v->ttl_ms = v->no_cache ? 0 : v->lifetime_ms - v->age_ms;
}

/* The new entry has the old bodies: one more reference each, which cache_publish takes, or
 * fetch_unshare_parts gives back. */
static unsigned
fetch_share_parts(const struct entry *old, struct entry_part parts[ENTRY_PARTS_MAX])
{
    unsigned n = entry_nparts(old);

    tassert(entry_nparts(old) <= ENTRY_PARTS_MAX);
    for (unsigned i = 0; i < n; i++) {
        parts[i] = entry_part(old, i);
        stobj_ref(parts[i].body);
    }
    return n;
}

static void
fetch_unshare_parts(struct entry_part *parts, unsigned n)
{
    tassert(n <= ENTRY_PARTS_MAX);
    for (unsigned i = 0; i < n; i++)
        stobj_unref(&parts[i].body);
}

/* It is good, but not for the cache any more: one last time, for the request that asked. */
static int
fetch_hand_over(struct fetch *f, struct cache_response *r)
{
    struct entry *marker = f->shared != NULL ? f->shared : f->entry; /* an attempt before left it */
    struct entry *own = NULL;
    int err = 0;

    r->key_text = slice_of(NULL, 0);
    r->vary = vary_has_forms(r->vary) ? vary_forms() : slice_of(NULL, 0);
    r->tags = NULL;
    if (!marker->abandoned) {
        own = cache_private(f->proxy->cache);
        err = own == NULL ? TERR_NOMEM : cache_publish(own, r);
    }
    if (err != 0 && own != NULL) {
        /* A private entry is made with two holds, ours and the reader's: no reader comes now. */
        struct entry *readers = own;

        entry_drop(&readers);
    }
    if (err != 0) {
        if (own != NULL)
            entry_drop(&own);
        return err;
    }
    fetch_mark(f, marker, own, 304);
    if (own != NULL)
        entry_drop(&own); /* the other hold is the reader's */
    else
        fetch_unshare_parts((struct entry_part *)(uintptr_t)r->parts, r->nparts);
    return 0;
}

/* As vcl_backend_refresh said: the stored fields, those that came, or the one replaced by the
 * other. */
static int
fetch_refresh_heads(struct fetch *f, const struct http_message *head, enum vcl_action how,
    struct http_message *merged)
{
    struct http_message stored = f->stored, update = *head;

    if (how == VCL_ACT_OBJ_STALE)
        update.nfields = 0, update.present = 0;
    if (how == VCL_ACT_BERESP)
        stored.nfields = 0, stored.present = 0;
    return fetch_merge_heads(f, &stored, &update, merged);
}

/* The policy's word on the merged head: it may be another head, and another verdict.  0, or
 * TERR_POLICY: *next. */
static int
fetch_refresh_policy(
    struct fetch *f, struct http_message *merged, struct fresh_verdict *v, enum fetch_next *next)
{
    const struct http_message *head;
    struct http_message edited;
    int err;

    tassert(f->vcl != NULL && f->old != NULL);
    fetch_policy_merged(f, merged, v);
    *next = fetch_policy_response(f, merged);
    if (*next != FETCH_WAIT)
        return TERR_POLICY;
    *v = f->vcl->at.v;
    head = fetch_policy_head(f, merged);
    if (head == merged)
        return 0;
    if (head->status % 1000u == 204) /* RFC 9110 8.6 */
        message_edit_unset(f->vcl->at.beresp, SLICE_LIT("Content-Length"), HTTP_F_CONTENT_LENGTH);
    err = forward_edited(head, &f->arena, &edited);
    if (err != 0)
        return err;
    *merged = edited;
    return 0;
}

/* The old body is in the coding that it was stored in, whatever the policy left of the fields that say so. */
static int
fetch_keep_coding(struct fetch *f, struct http_message *head)
{
    struct slice stored = http_get_one(&f->stored, HTTP_F_CONTENT_ENCODING);
    struct http_message coded;
    int err;

    /* A sum that the 304 brought is of the origin's bytes, which are others where they were packed here: then the
     * stored head has none. */
    if (slice_eq(stored, http_get_one(head, HTTP_F_CONTENT_ENCODING)) &&
        (stored.len == 0 || !derive_has_sum(head) || derive_has_sum(&f->stored)))
        return fetch_pack_head(f, head);
    err = derive_coding(head, &stored, &f->arena, &coded);
    if (err == 0)
        *head = coded;
    return err;
}

int
fetch_revalidated(
    struct fetch *f, const struct http_message *head, enum vcl_action how, enum fetch_next *next)
{
    struct entry_part parts[ENTRY_PARTS_MAX];
    struct fresh_verdict v;
    struct http_message merged;
    struct cache_response r = {
        .status = entry_status(f->old),
        .origin_status = head->status,
        .length_in_head = f->old->length_in_head,
        .partial = f->old->partial,
        .esi = entry_is_esi(f->old),
        .body_len = entry_body_len(f->old),
        .received_ms = f->attempt.came_ms,
        .xid = fetch_stored_xid(f),
        .fresh = &v,
        .rendering = f->proxy->rendering,
        .for_policy = f->vcl != NULL,
        .was_fresh = fetch_policy_was_fresh(f),
        .parts = parts,
        .key_text = f->key_text,
    };
    int err = fetch_refresh_heads(f, head, how, &merged);

    tassert(f->old != NULL && f->body == NULL);
    if (err == TERR_LIMIT) { /* each 304 may add fields: from time to time all is asked for anew */
        cache_unlink(f->old);
        return TERR_OTHERPART;
    }
    if (err != 0)
        return err;
    fetch_judge_merged(f, &merged, head, &v);
    if (f->vcl != NULL)
        err = fetch_refresh_policy(f, &merged, &v, next);
    if (f->vcl != NULL) {
        r.status = merged.status;
        r.status_prefix = f->vcl->at.status_prefix;
    }
    if (err == 0 && r.esi) {
        struct http_message page;

        err = derive_assembled(&merged, true, &f->arena, &page);
        merged = page;
    }
    r.length_in_head = http_has(&merged, HTTP_F_CONTENT_LENGTH); /* not with return(beresp) */
    r.head = merged;
    /* It is the old body: what it answers does not depend on what was asked for now. */
    f->forms = vary_has_forms(entry_vary(f->old));
    if (err == 0 && f->forms)
        err = fetch_keep_coding(f, &r.head);
    r.length_in_head = r.length_in_head && http_has(&r.head, HTTP_F_CONTENT_LENGTH);
    if (err == 0)
        err = fetch_vary(f, &r.head, &r.vary);
    if (err == 0)
        err = fetch_tags(f, &r, v.storable);
    if (err != 0)
        return err;
    if (!v.storable && r.partial)
        return TERR_OTHERPART; /* a part that is not kept is of no use to a request for another */
    /* Last of all that may fail alone: up to here there is nothing to give back. */
    r.nparts = fetch_share_parts(f->old, parts);
    err = v.storable ? cache_publish(f->entry, &r) : TERR_OTHERPART;
    if (err == 0) {
        cache_settle(f->entry);
        fetch_tell_marker(f, 304); /* left by an attempt before this one */
        return 0;
    }
    f->attempt.no_room =
        err == TERR_NOMEM; /* for its head: then for the request that asked, once */
    err = r.partial ? TERR_OTHERPART : fetch_hand_over(f, &r);
    if (err != 0)
        fetch_unshare_parts(parts, r.nparts);
    return err;
}

/* Keeps the parts in the order of their offsets, in which readers go through them. */
static void
fetch_insert_part(struct entry_part *parts, unsigned n, struct entry_part part)
{
    tassert(n < ENTRY_PARTS_MAX);
    while (n > 0 && parts[n - 1].off > part.off) {
        parts[n] = parts[n - 1];
        n--;
    }
    parts[n] = part;
}

/* RFC 9111 3.4: only what has the same strong validator, and the same length, is one. */
static bool
fetch_belongs(const struct fetch *f, const struct http_message *head, uint64_t complete)
{
    struct validators v;

    if (!f->joining)
        return false;
    validators_of(head, f->attempt.received_ms / 1000, &v);
    return validators_join(&f->have, &v) &&
           (complete == entry_body_len(f->old) || complete == RANGE_UNKNOWN ||
               entry_body_len(f->old) == STOBJ_SIZE_UNKNOWN);
}

/* The head of the whole, from the first part's that comes. */
static int
fetch_whole_head(struct fetch *f, const struct http_message *head, struct http_message *out)
{
    struct forward_response how = {
        .keep = FORWARD_STORED,
        .pseudonym = slice_str(f->proxy->params.http_via),
        .now_s = f->attempt.received_ms / 1000,
        .length = FORWARD_NO_LENGTH,
    };
    struct http_message part;
    int err = forward_response(head, &how, &f->arena, &part);

    return err == 0 ? derive_whole(&part, &f->arena, out) : err;
}

int
fetch_gather_parts(struct fetch *f, const struct http_message *head, struct cache_response *r,
    struct entry_part parts[ENTRY_PARTS_MAX])
{
    struct entry_part ours = {.len = f->attempt.part_len, .body = f->kept};
    struct content_range cr;
    int err = content_range_parse(http_get_one(head, HTTP_F_CONTENT_RANGE), &cr);

    tassert(head->status == 206 && f->kept != NULL);
    if (err != 0)
        return err;
    ours.off = cr.first;
    r->status = 200;
    r->length_in_head = false;
    r->body_len = cr.complete == RANGE_UNKNOWN ? STOBJ_SIZE_UNKNOWN : cr.complete;
    /* Another version: bytes of two versions are never joined, so the new part stands alone. */
    if (!fetch_belongs(f, head, cr.complete)) {
        parts[0] = ours;
        r->partial = !(cr.first == 0 && cr.last + 1 == cr.complete);
        return fetch_whole_head(f, head, &r->head);
    }
    err = fetch_merge_heads(f, &f->stored, head, &r->head);
    if (err != 0)
        return err;
    if (r->body_len == STOBJ_SIZE_UNKNOWN)
        r->body_len = entry_body_len(f->old);
    r->partial = true;
    r->nparts = fetch_share_parts(f->old, parts) + 1;
    fetch_insert_part(parts, r->nparts - 1, ours);
    counter_add(f->proxy->counters, COUNTER_fetch_joined, 1);
    return 0;
}

static void
fetch_invalidate_key(struct fetch *f, struct slice text)
{
    const struct invalidation inv = {.kind = INVALIDATION_KEY, .changed = true, .text = text};

    invalidation_make(f->proxy->cache, &inv, &f->proxy->loop->clock, NULL);
}

/* What a field of the answer names, if it is of the same origin: no origin may empty another's. */
static void
fetch_invalidate_named(struct fetch *f, const struct http_message *head, struct slice name)
{
    const struct http_field *field = http_find_name(head, name, NULL);
    struct slice text = f->key_text, value;
    const char *scheme = http_scheme_name(f->scheme);
    size_t scheme_len = strlen(scheme);
    size_t max, path_at;
    char *out;
    int n;

    if (field == NULL || http_find_name(head, name, field) != NULL)
        return;
    value = http_value(head, field);
    max = text.len + value.len + 16;

    /* A policy's own key names nothing that could be resolved against. */
    path_at = scheme_len + 3 + f->host.len;
    if (text.len < path_at || memcmp(text.ptr, scheme, scheme_len) != 0 ||
        memcmp(text.ptr + scheme_len, "://", 3) != 0)
        return;
    out = arena_alloc(&f->arena, max);
    if (out == NULL)
        return;
    memcpy(out, text.ptr, path_at); /* "http://" or "https://", and the host */
    n = http_uri_resolve(f->host, slice_of(text.ptr + path_at, text.len - path_at), value,
        (struct span){out + path_at, max - path_at});
    if (n <= 0)
        return;
    fetch_invalidate_key(f, slice_of(out, path_at + (size_t)n));
}

/* Answers of 2xx and 3xx to a method that is not safe (RFC 9111 4.4).  A failed request changed
 * nothing, and would let any client empty the cache. */
void
fetch_invalidate(struct fetch *f, const struct http_message *head)
{
    if (f->kind != FETCH_PASS || http_method_is_safe((enum http_method)f->asked) ||
        head->status < 200 || head->status >= 400)
        return;
    fetch_invalidate_key(f, f->key_text);
    fetch_invalidate_named(f, head, SLICE_LIT("Location"));
    fetch_invalidate_named(f, head, SLICE_LIT("Content-Location"));
}
