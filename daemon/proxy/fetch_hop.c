/* fetch_hop.c -- a fetch that asks another node of the fleet first: the one that owns the key.
 *
 * One hop: what a node asks for is never asked further.  The owner waits for the origin, or for the fetch of another
 * node, so the fleet fetches once.  If it cannot be reached, the next on the ring is asked; if it is slow, or answers
 * otherwise than with what it has stored or passes on, the origin is, at once. */
#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/fetch_policy.h"
#include "daemon/proxy/hop.h"

struct fetch_hop {
    struct director *origin; /* held: where it goes if it leaves; NULL: none */
    struct backend *self;    /* of the ring, held by it */
    bool live;               /* the owner is asked, or has answered */
    bool loads;              /* this node is the owner, and so has the load */
    struct slice field;      /* Tarn-Peer */
    struct hop_question question;
    bool heard;       /* that the owner is at it */
    bool conditional; /* as it was planned: the owner is asked for all of it */
    struct hop_said said;
};

enum {
    HOP_PATIENCE =
        10, /* times peer_timeout, for an owner that has said that it waits for the origin */
};

bool
fetch_hops(const struct fetch *f)
{
    return f->hop != NULL && f->hop->live;
}

bool
fetch_hop_is_self(const struct fetch *f, const struct backend *b)
{
    return fetch_hops(f) && b == f->hop->self;
}

void
fetch_hop_say(const struct fetch *f, struct forward_request *how)
{
    how->peer = f->hop->field;
}

const struct fresh_verdict *
fetch_hop_verdict(const struct fetch *f)
{
    tassert(fetch_hops(f));
    return &f->hop->said.verdict;
}

/* f->request: the message to the owner, with the field that says what it is. */
int
fetch_hop_write(struct fetch *f)
{
    const struct peers *peers = f->proxy->peers;
    struct fetch_hop *h = f->hop;
    int err;

    tassert(fetch_hops(f) && f->backend != NULL);
    h->question.to = slice_str(director_name(backend_director(f->backend)));
    h->field = hop_ask(&h->question, &f->arena);
    err = h->field.ptr == NULL ? TERR_NOMEM : fetch_write_request(f, &f->request);
    return err != 0 ? err : hop_sign(&f->request, peers_now(peers));
}

/* What only a policy could know of it, or a body, stays here. */
static bool
hop_is_possible(const struct fetch *f, const struct fetch_spec *spec, const struct peers_set *set,
    struct peers_place wants)
{
    /* A reload since its route was chosen: what it asks is by one configuration, and its number by another. */
    if (f->snapshot != NULL && f->snapshot != registry_snapshot(f->proxy->registry))
        return false;
    return spec->hops && f->kind == FETCH_FOR_CACHE && !f->joining && f->upload.body == NULL &&
           !f->upload.later && !f->connect && set->ring != NULL && set->nsecrets > 0 &&
           wants.engine != 0 && f->key_text.len <= HOP_KEY_MAX &&
           cache_is_trusted(f->proxy->cache) && f->req.authority_len > 0;
}

/* For the policy of the owner, which sees the client's address. */
static struct slice
hop_client(struct fetch *f, const struct exchange *x)
{
    char text[ADDRESS_TEXT_MAX];

    if (address_is_unix(x->conn->client_addr))
        return slice_of("", 0);
    address_text(x->conn->client_addr, text);
    return arena_copy(&f->arena, slice_str(text));
}

/* 0; TERR_NOMEM. */
static int
hop_go(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec,
    struct peers_place wants, const struct peers_set *set, struct backend *owner)
{
    const struct peers_env *env = peers_env(f->proxy->peers);
    struct fetch_hop *h = f->hop;

    h->live = true;
    /* A 304 of the owner's would be about what it has by now, and by a date it may take that for what this node has:
     * only the origin, which made both, can tell. */
    h->conditional = f->conditional;
    f->conditional = false;
    h->question = (struct hop_question){.fleet = slice_str(env->fleet),
        .from = slice_str(env->node),
        .wants = wants,
        .policy = policy_rules(f->vcl != NULL ? f->vcl->ref->policy : NULL, f->proxy->registry),
        .scheme = x->scheme,
        .backend = slice_of("", 0),
        .key = slice_of("", 0),
        .background = f->listener.ops == NULL};
    h->question.client = hop_client(f, x);
    if (spec->identity.ptr != NULL)
        h->question.identity = arena_copy(&f->arena, spec->identity);
    if (spec->hinted && spec->backend != NULL)
        h->question.backend = arena_copy(&f->arena, slice_str(director_name(spec->backend)));
    if (f->key_text.ptr[0] == '"') /* a policy's (req_policy_key) */
        h->question.key = f->key_text;
    if (spec->backend != NULL)
        h->origin = director_hold(spec->backend);
    fetch_use(f, owner, set->ring);
    counter_add(f->proxy->counters, COUNTER_fleet_peer_hops, 1);
    return fetch_hop_write(f);
}

int
fetch_hop_begin(struct fetch *f, const struct exchange *x, const struct fetch_spec *spec)
{
    const struct peers *peers = f->proxy->peers;
    const struct peers_set *set;
    struct peers_place wants;
    struct backend *owner;

    if (peers == NULL)
        return 0;
    set = peers_now(peers);
    /* Behind the entry, which is there: what is purged from now on is purged of it. */
    wants = peers_wants(peers);
    if (!peers_settled(
            peers)) /* behind `wants`: what is settled since is in it, or marks the entry */
        return 0;
    if (!hop_is_possible(f, spec, set, wants))
        return 0;
    owner = fetch_choose(f, set->ring);
    if (owner == NULL)
        return 0;
    f->hop = arena_alloc(&f->arena, sizeof(*f->hop));
    if (f->hop == NULL)
        return TERR_NOMEM;
    *f->hop = (struct fetch_hop){.self = set->self};
    if (owner != set->self)
        return hop_go(f, x, spec, wants, set, owner);
    director_hold(backend_director(set->self));
    backend_expect(set->self);
    f->hop->loads = true;
    return 0;
}

void
fetch_hop_end(struct fetch *f)
{
    struct fetch_hop *h = f->hop;

    if (h == NULL)
        return;
    if (h->loads) {
        struct director *self = backend_director(h->self);

        backend_unexpect(h->self);
        director_drop(&self);
    }
    if (h->origin != NULL)
        director_drop(&h->origin);
    f->hop = NULL;
}

enum fetch_next
fetch_hop_leave(struct fetch *f)
{
    struct fetch_hop *h = f->hop;
    int err = 0;

    tassert(h->live && f->body == NULL && f->pack == NULL);
    h->live = false;
    f->conditional = h->conditional;
    counter_add(f->proxy->counters, COUNTER_fleet_peer_left, 1);
    if (f->conn != NULL)
        origin_discard(&f->conn);
    fetch_drop_kept(f);
    fetch_new_attempt(f);
    /* A policy chooses in START. */
    if (f->vcl == NULL)
        err = fetch_pick(f, h->origin);
    if (err == 0 && f->vcl == NULL)
        err = fetch_write_request(f, &f->request);
    if (err != 0)
        return fetch_fail(f, err);
    return fetch_goto(f, FETCH_START);
}

static enum fetch_next
hop_fail(struct fetch *f, int err)
{
    f->hop->live = false;
    f->conditional = f->hop->conditional;
    counter_add(f->proxy->counters, COUNTER_fleet_peer_left, 1);
    return fetch_fail(f, err);
}

/* No answer of the owner's. */
static enum fetch_next
hop_refused(struct fetch *f, const struct http_message *head)
{
    bool origin_failed =
        hop_read_failed(peers_now(f->proxy->peers), f->hop->question.to, &f->request, head);

    /* It has failed the owner, and is ours: what is stored here stays. */
    if (origin_failed && f->listener.ops == NULL)
        return hop_fail(f, TERR_UPSTREAM);
    /* With a policy vcl_backend_error is to make an answer, for which there is no bereq yet. */
    if (origin_failed && f->vcl == NULL)
        return hop_fail(f, head->status == 504 ? TERR_TIMEDOUT : TERR_CLOSED);
    return fetch_hop_leave(f);
}

/* No client waits, and the owner's policy may not have known: it had nothing to serve meanwhile (hop_look_up). */
static bool
hop_is_ours_to_judge(const struct fetch *f, const struct http_message *head)
{
    return f->vcl != NULL && f->listener.ops == NULL && head->status >= 400 &&
           !f->hop->said.verdict.storable && !f->hop->said.failed;
}

/* HEAD: FETCH_WAIT, and *head is what the owner has; or the way to the origin. */
enum fetch_next
fetch_hop_head(struct fetch *f, const struct http_message **head)
{
    struct fetch_hop *h = f->hop;
    struct message_edit *e;
    struct validators have;

    if (!hop_read_answer(&h->said, peers_now(f->proxy->peers), h->question.to, &f->request, *head))
        return hop_refused(f, *head);
    if (hop_is_ours_to_judge(f, *head))
        return fetch_hop_leave(f);
    /* As a fetch of one's own that fails with no client waiting: what is stored goes on being used. */
    if (h->said.failed && !h->said.verdict.storable && f->listener.ops == NULL) {
        f->entry->origin_status = (*head)->status >= 500 ? (*head)->status : 0;
        return hop_fail(f, TERR_UPSTREAM);
    }
    e = arena_alloc(&f->arena, sizeof(*e));
    if (e == NULL || message_edit_init(e, *head, &f->arena, LIMIT_FIELDS) != 0)
        return fetch_fail(f, TERR_NOMEM);
    message_edit_unset(e, HOP_FIELD, HTTP_F_OTHER);
    validators_of(&e->head, f->attempt.received_ms / 1000, &have);
    h->said.verdict.validatable = have.etag.len > 0 || have.last_modified.len > 0;
    *head = &e->head;
    return FETCH_WAIT;
}

bool
fetch_hop_stands_in(const struct fetch *f)
{
    return fetch_hops(f) && f->hop->said.failed;
}

/* HEAD: what has come in front of it says that the owner is at it. */
void
fetch_hop_hear(struct fetch *f)
{
    struct origin_exchange *x = fetch_exchange(f);
    const struct http_message *m;

    while (x->ops->interim(x, &m) == 0) {
        if (!f->hop->heard)
            fetch_deadline(f, HOP_PATIENCE * f->conf->first_byte_timeout);
        f->hop->heard = true; /* once: it could say so for ever */
    }
}
