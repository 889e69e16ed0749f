/* why_text.c -- an explanation in words, and what is stored. */
#include <stdarg.h>
#include <stdio.h>

#include "daemon/http/freshness.h"
#include "daemon/http/vary.h"
#include "daemon/origin/peers.h"
#include "daemon/why/why_priv.h"

/* A sentence of the answer: people read them in order, programs the members beside.  Cut at 511
 * bytes: names of the configuration stand in it. */
void
why_say(struct why *y, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_array_append_new(y->text, json_any_text(slice_str(text)));
}

struct why_span {
    char text[32];
};

/* "45 s", "3 min", "2 h", "4 days"; of time gone or to come, never below 0. */
static struct why_span
why_time(int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{86400000, "days"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}};
    struct why_span s;

    for (unsigned i = 0; i < ARRAY_LEN(units); i++) {
        /* "90 s" says more than "1 min": a unit begins at two of it. */
        if (ms < 2 * units[i].ms)
            continue;
        snprintf(s.text, sizeof(s.text), "%lld %s", (long long)(ms / units[i].ms), units[i].unit);
        return s;
    }
    snprintf(s.text, sizeof(s.text), "%.1f s", ms > 0 ? (double)ms / 1000 : 0.0);
    return s;
}

/* --- what is stored --- */

/* A field of a stored head, for as long as the turn.
 * All fields: a message that is delivered leaves some out (entry.h). */
static struct slice
stored_field(const struct entry *e, enum http_field_id id)
{
    /* The value lies in the entry: only the table of fields is on the stack. */
    struct http_field fields[LIMIT_FIELDS];
    struct http_message head;

    entry_message(e, ENTRY_FIELDS_ALL, fields, &head);
    return http_get_one(&head, id);
}

static const char *
stored_ttl_from(const struct entry *e)
{
    /* Its ttl is what the purge left, and no longer what the response said. */
    if (entry_is_softened(e))
        return "a soft purge";
    return fresh_origin_text((enum fresh_origin)e->ttl_from);
}

/* Numbers as they are now: the same entry may answer otherwise a second later. */
static void
stored_put_response(struct why *y, json_t *o, const struct entry *e, const struct cache_query *q)
{
    int64_t left = entry_ttl_left_ms(e, y->now_ms);
    struct slice vary = stored_field(e, HTTP_F_VARY);
    struct slice coding = stored_field(e, HTTP_F_CONTENT_ENCODING);

    json_put(o, "status", json_integer(entry_status(e)));
    json_put(o, "bytes", json_integer((json_int_t)entry_bytes(e)));
    json_put(o, "age_s", json_integer(entry_age_s(e, y->now_ms)));
    json_put(o, "ttl_s", json_real((double)entry_ttl_ms(e) / 1000));
    json_put(o, "ttl_left_s", json_real((double)left / 1000));
    json_put_text(o, "ttl_from", stored_ttl_from(e));
    json_put(o, "grace_s", json_real((double)entry_grace_ms(e) / 1000));
    json_put(o, "keep_s", json_real((double)entry_keep_ms(e) / 1000));
    json_put(o, "fresh", json_boolean(left > 0));
    json_put(o, "vary", vary.ptr != NULL ? json_any_text(vary) : json_null());
    json_put(o, "coding", coding.ptr != NULL ? json_any_text(coding) : json_null());
    /* Is it unpacked for the clients that do not take its coding? */
    json_put(o, "any_coding",
        json_boolean(vary_has_forms(entry_vary(e)) && vary_recoded(entry_vary(e)).form == 0));
    /* Under one key lie the variants of all clients (Vary): which of them would be this one's. */
    json_put(o, "for_this_request", json_boolean(cache_is_variant_for(e, q)));
    json_put(o, "partial", json_boolean(e->partial));
    json_put(o, "streaming", json_boolean(e->windowed));
}

/* All that lies under the key, also what this request would not get. */
json_t *
why_stored(struct why *y, const struct cache_query *q)
{
    /* Borrowed until this turn ends (RCU). */
    const struct entry *e = cache_stored(y->ps->cache, &q->key);
    json_t *list = json_array();

    for (; e != NULL; e = entry_next(e)) {
        json_t *o = json_object();

        switch (entry_state(e)) {
        case ENTRY_READY:
            json_put_text(o, "state", "stored");
            stored_put_response(y, o, e, q);
            break;
        case ENTRY_HITMISS:
            json_put_text(o, "state", e->pass ? "hit-for-pass" : "hit-for-miss");
            json_put(o, "ttl_left_s", json_real((double)entry_ttl_left_ms(e, y->now_ms) / 1000));
            /* A marker keeps the reason in place of a status. */
            json_put_text(o, "because", fresh_refusal_text((enum fresh_refusal)e->origin_status));
            break;
        case ENTRY_BUSY:
            /* Nothing else is published of it yet. */
            json_put_text(o, "state", "being fetched");
            break;
        case ENTRY_FAILED:
            json_put_text(o, "state", "failed");
            break;
        }
        json_array_append_new(list, o);
    }
    return list;
}

/* --- what last became of it --- */

/* NULL: nothing is known, or so many have left since that its place was taken. */
json_t *
why_removal(struct why *y)
{
    struct removal_seen seen;
    json_t *o;

    if (!cache_recall(y->ps->cache, &y->r->key, &seen))
        return NULL;
    o = json_object();
    json_put_text(o, "what", removal_name(seen.what));
    json_put_text(o, "because", removal_text(seen.what));
    json_put(o, "ago_s", json_integer(seen.ago_s));
    return o;
}

static void
why_say_removal(struct why *y)
{
    struct removal_seen seen;

    if (!cache_recall(y->ps->cache, &y->r->key, &seen)) {
        why_say(y, "No recent removal of it is on record.");
        return;
    }
    /* From there on the reasons are those of responses that were never stored. */
    if (seen.what >= REMOVAL_REFUSED)
        why_say(y, "The last response for it, %s ago, was not stored: %s.",
            why_time(seen.ago_s * 1000).text, removal_text(seen.what));
    else
        why_say(y, "The last response for it left the cache %s ago: %s.",
            why_time(seen.ago_s * 1000).text, removal_text(seen.what));
}

/* --- what a request comes to --- */

/* Whatever the client: which one will ask is not known here. */
void
why_say_limits(struct why *y)
{
    const struct conf_limit *l;

    for (unsigned i = 0; (l = req_limit_from(y->r, &i)) != NULL; i++)
        why_say(y,
            "A client may send %lld requests in %s, %lld at once (number %u of limits%s); above "
            "that it gets a 429.",
            (long long)l->rate, why_time(l->per).text,
            (long long)(l->burst != 0 ? l->burst : l->rate), i + 1,
            l->except.set.n > 0 ? ", with exceptions" : "");
}

static void
why_say_names(struct why *y, const char *what, const struct conf_names *names)
{
    char text[256] = "";
    size_t len = 0;

    /* Cut where the text is full: the configuration has all of them. */
    for (unsigned i = 0; i < names->n && len < sizeof(text); i++)
        len += (size_t)snprintf(
            text + len, sizeof(text) - len, "%s%s", i > 0 ? ", " : "", names->list[i]);
    if (names->all || names->n > 0)
        why_say(y, "%s: %s.", what, names->all ? "all" : text);
}

static void
why_say_fields(struct why *y, const char *what, const struct conf_fields *f)
{
    if (f->nunset + f->nset + f->nadd > 0)
        why_say(y, "It removes %u, sets %u and adds %u fields of the %s.", f->nunset, f->nset,
            f->nadd, what);
}

void
why_say_rules(struct why *y)
{
    const struct req_rules *rules = req_rules(y->r);
    const struct conf_route *route;

    if (rules == NULL)
        return;
    route = rules->route;
    /* Rules of the listener itself, of which no route is written. */
    if (rules->number == 0) {
        why_say(y, "Its listener answers it: %s.",
            rules->page.body.len > 0 ? "with a challenge of ACME" : "by a redirect to https");
        return;
    }
    why_say(y, "Number %u of routes has actions for it%s%s%s%s.", rules->number,
        route->host[0] != '\0' ? ", host " : "", route->host,
        route->path[0] != '\0' ? ", path " : "", route->path);
    why_say_names(y, "It removes query parameters", &route->strip_query);
    why_say_names(y, "It removes cookies from requests and responses", &route->strip_cookies);
    /* No password was asked for here (synthetic_admit): what lies behind it is told all the
     * same. */
    if (route->basic_auth.said)
        why_say(y, "It requires a user and a password: without them the response is a 401.");
    why_say_names(y, "It allows these methods", &route->methods);
    why_say_fields(y, "request", &route->request_headers);
    why_say_fields(y, "response", &route->response_headers);
    if (route->ttl.said)
        why_say(
            y, "Its ttl replaces the freshness of responses: %s.", why_time(route->ttl.ms).text);
    if (route->grace.said)
        why_say(y, "Its grace: %s.", why_time(route->grace.ms).text);
}

void
why_say_secure(struct why *y)
{
    const struct conn_secure *s = y->r->x->conn->listener->secure;

    if (y->r->policy.ref == NULL || !vcl_reads_tls(y->r->policy.ref->policy->vcl))
        return;
    if (s == NULL)
        why_say(y, "The policy reads what TLS says of the client: here nothing, for the URL is "
                   "http.");
    else
        why_say(y,
            "The policy reads what TLS says of the client: here %s with %s, server name "
            "%s, no certificate.",
            s->version, s->cipher, s->server_name[0] != '\0' ? s->server_name : "unset");
}

/* As fetch_choose() does, but no backend loses its turn.
 * `peeks`: round robin does not move on, and no load is counted. */
static struct backend *
why_choose(struct why *y, struct director *from)
{
    struct slice key = req_key_text(y->r);
    struct director_ask ask = {
        .hash = hash_plain(key.ptr, key.len),
        .hash_said = true,
        .peeks = true,
        /* A guess where chance decides: why_put_director() says "at random". */
        .random = proxy_random(y->r->proxy),
        .now_s = (double)y->r->proxy->loop->clock.wall_ms / 1000,
    };

    return director_pick(from, &ask);
}

/* ", by the director pool", or nothing. */
static void
why_put_director(const struct director *d, char *to, size_t size)
{
    enum director_kind kind = director_kind(d);

    to[0] = '\0';
    if (kind != DIRECTOR_BACKEND)
        snprintf(to, size, ", by the director %s%s", director_name(d),
            kind == DIRECTOR_RANDOM ? ", at random" : "");
}

/* In a fleet with peers: which node is asked before the backend is. */
static void
why_say_owner(struct why *y)
{
    const struct peers *peers = y->r->proxy->peers;
    struct backend *b;

    if (!req_may_hop(y->r) || peers_now(peers)->ring == NULL || req_make_key(y->r) != 0)
        return;
    b = why_choose(y, peers_now(peers)->ring);
    if (b == peers_now(peers)->self)
        why_say(y, "This node owns its key in the fleet: the others ask it.");
    else if (b != NULL)
        why_say(y,
            "Node %s of the fleet, at %s, owns its key and is asked first; if it does not "
            "answer, the backend is.",
            director_name(backend_director(b)), backend_conf(b)->address.text);
}

/* Which route, if one decides. */
static void
why_say_route(struct why *y)
{
    unsigned number;
    const struct conf_route *route = req_route(y->r, &number);

    if (route != NULL)
        why_say(y, "Number %u of routes chooses its backend%s%s%s%s.", number,
            route->host[0] != '\0' ? ", host " : "", route->host,
            route->path[0] != '\0' ? ", path " : "", route->path);
}

/* The key is made anew: after a label or an error the scratch may hold another one, or none. */
void
why_say_backend(struct why *y)
{
    char by[256];
    struct director *d;
    struct backend *b;

    /* Directors choose by the key's hash, and not every outcome has needed a key before. */
    if (req_make_key(y->r) != 0)
        return;
    d = req_backend(y->r);
    if (d == NULL) {
        why_say(
            y, "No backend serves it: neither a route nor a default names one, so it gets a 503.");
        return;
    }
    why_say_route(y);
    b = why_choose(y, d);
    why_put_director(d, by, sizeof(by));
    if (b == NULL)
        why_say(
            y, "The director %s serves it, and none of its backends is healthy.", director_name(d));
    else if (!backend_healthy(b))
        why_say(y,
            "The backend %s serves it, and is sick: a 503, unless a stale response may be served.",
            backend_full_name(b));
    else
        why_say(y, "Its backend is %s%s, at %s.", backend_full_name(b), by,
            backend_conf(b)->address.text);
}

/* For how long, and what decides it.
 * Ages count from when the response was received here; `received_ms` is of the monotonic clock,
 * as now_ms is. */
static void
why_say_freshness(struct why *y, const struct entry *e)
{
    int64_t left = entry_ttl_left_ms(e, y->now_ms), ttl = entry_ttl_ms(e);
    int64_t blind = cache_blind_for_ms(y->ps->cache);
    struct slice hops = stored_field(e, HTTP_F_CACHE_STATUS);

    why_say(y, "It was received %s ago with status %u.", why_time(y->now_ms - e->received_ms).text,
        entry_status(e));
    if (hops.len > 0) /* of the fleet, or not */
        why_say(y, "It came by way of another cache, which said of it then: %.*s.", (int)hops.len,
            hops.ptr);
    /* no-cache and the like: "stale for 3 s" would be true, and mislead. */
    if (entry_is_checked_each_time(e) && !entry_is_softened(e))
        why_say(y, "It is never fresh (%s): each use is validated with the backend.",
            stored_ttl_from(e));
    else if (left > 0 && blind >= 0)
        why_say(y,
            "It would be fresh for another %s, but counts as stale: this node has heard nothing "
            "from the fleet's engine for too "
            "long, and trusts nothing that it has stored (for %s now).",
            why_time(left).text, why_time(blind).text);
    else if (left > 0)
        why_say(y, "It is fresh for another %s of %s, by %s.", why_time(left).text,
            why_time(ttl).text, stored_ttl_from(e));
    else
        why_say(y, "It has been stale for %s; it was fresh for %s, by %s.", why_time(-left).text,
            why_time(ttl).text, stored_ttl_from(e));
}

static void
why_say_marker(struct why *y, const struct entry *m)
{
    enum fresh_refusal why = (enum fresh_refusal)m->origin_status;

    why_say(y, m->pass ? "A request for it now is passed to the backend (hit-for-pass)."
                       : "A request for it now starts a fetch, and waits for no other request "
                         "(hit-for-miss).");
    why_say(y, "%s ago the response was not cacheable%s%s; the marker stays for another %s.",
        why_time(y->now_ms - m->received_ms).text, why != FRESH_REFUSE_NONE ? ": " : "",
        why != FRESH_REFUSE_NONE ? fresh_refusal_text(why) : "",
        why_time(entry_ttl_left_ms(m, y->now_ms)).text);
}

/* Each reason of cache_choose() has its sentence: a new one needs a case here, which
 * -Wswitch-enum demands. */
static void
why_say_miss(struct why *y, const struct why_lookup *l)
{
    const struct entry *old = l->answer.old;

    switch (l->answer.reason) {
    case CACHE_NOTHING_STORED:
        why_say(y, "A request for it now is a miss: nothing is stored under its key.");
        why_say_removal(y);
        break;
    case CACHE_OTHER_VARIANT:
        why_say(y, "A request for it now is a miss: the stored responses are for other request "
                   "fields (Vary).");
        break;
    case CACHE_IS_STALE:
        why_say(y, "A request for it now waits for the backend: the stored response is stale, and "
                   "may not be used without validation.");
        break;
    case CACHE_IS_PARTIAL:
        why_say(y,
            "A request for it now fetches the missing bytes: only a partial response is stored.");
        break;
    case CACHE_ASKED:
        why_say(y, "A request for it now starts a fetch, because the request demands it "
                   "(Cache-Control, or req.hash_always_miss).");
        break;
    case CACHE_MARKED:
    case CACHE_MARKED_PASS:
        break; /* said by the marker */
    }
    if (old != NULL) {
        why_say_freshness(y, old);
        /* Else the old one is of no use to the fetch. */
        if (old->validatable)
            why_say(
                y, "The fetch is conditional (ETag or Last-Modified): a 304 makes it fresh again.");
    }
    why_say_owner(y);
    why_say_backend(y);
}

static void
why_say_absent(struct why *y, const struct negative_answer *a)
{
    why_say(y,
        "A request for it now is answered with %u from the negative cache: the backend gave that "
        "status a short time ago.",
        a->status);
}

/* Leaves the sentences in y->text; the verdict itself is the caller's to name. */
void
why_say_lookup(struct why *y, const struct why_lookup *l)
{
    /* A hit beside a marker is served: the marker counts where a backend would be asked. */
    if (l->marker != NULL && l->verdict != CACHE_HIT && l->verdict != CACHE_STALE) {
        why_say_marker(y, l->marker);
        why_say_backend(y);
        return;
    }
    switch (l->verdict) {
    case CACHE_HIT:
        why_say(
            y, "A request for it now is a hit: it is answered from the cache, without a backend.");
        why_say_freshness(y, l->answer.entry);
        return;
    case CACHE_STALE:
        why_say(y, "A request for it now is answered with a stale response (grace), %s.",
            l->fetches ? "and a background fetch starts" : "while a background fetch runs");
        why_say_freshness(y, l->answer.entry);
        why_say(y, "It may be served stale for %s after its freshness.",
            why_time(entry_grace_ms(l->answer.entry)).text);
        return;
    case CACHE_MISS:
        why_say_miss(y, l);
        return;
    case CACHE_QUEUED:
        why_say(y, "A request for it now waits for a fetch that is under way, and is answered with "
                   "its response (coalesced).");
        return;
    case CACHE_ABSENT:
        why_say_absent(y, &l->answer.absent);
        return;
    case CACHE_PASS:
        why_say(y, "A request for it now is passed to the backend: there is no room for one more "
                   "variant, or the request has only-if-cached (then it gets a 504).");
        why_say_backend(y);
        return;
    }
}
