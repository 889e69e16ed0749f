/* req_route.c -- which route a request has, and what that does to it.
 *
 * The backend of a route is looked for when one is needed.  Its actions count from the beginning: they
 * are those of the first route that matches the request as it came, in the configuration of that
 * moment.  Where no route has any, another function starts requests. */
#include <stdio.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/http/cookie.h"
#include "daemon/http/uri.h"
#include "daemon/origin/backend_snapshot.h"
#include "daemon/proxy/auth.h"
#include "daemon/proxy/req_priv.h"

/* --- which --- */

/* `read`: the path as a backend may read it, which has no ;parameters. */
static bool
route_matches(
    const struct conf_route *route, struct slice host, struct slice path, struct slice read)
{
    /* A route that has a ; in its path is meant for the path as it is written. */
    return conf_host_matches(route->host, host) &&
           req_path_begins(strchr(route->path, ';') != NULL ? path : read, route->path);
}

/* An authority in normal form, without its port. */
static struct slice
route_host(struct slice authority)
{
    const char *colon = memrchr(authority.ptr, ':', authority.len);

    /* The colons of an IPv6 literal without a port are its own (RFC 3986 3.2.2). */
    if (colon == NULL || authority.ptr[authority.len - 1] == ']')
        return authority;
    return slice_of(authority.ptr, (size_t)(colon - authority.ptr));
}

/* The snapshot with the routes that choose the backend: a policy goes on with those that it was
 * loaded with, as with its backends.  NULL: it has chosen, or declared, the backend. */
static const struct backend_snapshot *
req_snapshot(const struct req *r)
{
    const struct policy_ref *use = req_fetch_policy(r);

    if (use == NULL)
        return registry_snapshot(r->proxy->registry);
    return use->policy->by_routes && !r->policy.hinted ? use->policy->snapshot : NULL;
}

/* The first that matches the request as it is now, its path read so; NULL: none does. */
static const struct conf_route *
route_match(const struct req *r, const struct conf *conf, struct slice read)
{
    char text[HTTP_AUTHORITY_MAX];
    int n = r->head->authority_len > 0 ? req_normal_host(r->proxy, http_host(r->head), text) : 0;
    /* Without an authority (HTTP/1.0) only routes that name no host can match. */
    struct slice host = slice_of(text, n > 0 ? (size_t)n : 0);

    if (host.len > 0)
        host = route_host(host);
    for (unsigned i = 0; i < conf->nroutes; i++)
        if (route_matches(&conf->routes[i], host, http_path(r->head), read))
            return &conf->routes[i];
    return NULL;
}

static const struct conf_route *
req_match_route(const struct req *r, const struct conf *conf)
{
    return route_match(r, conf, http_path(r->head));
}

/* A route without actions need not be held, nor its request wait in ADMIT. */
static bool
route_acts(const struct conf_route *route)
{
    return route != NULL && route->acts;
}

/* Backends may resolve dot segments, decode %2f and drop ;parameters, or not.  If that leads to another
 * route, one with actions, then either choice lets a client around a password, or stores what must not
 * be stored.  0, TERR_SYNTAX or TERR_NOMEM. */
static int
route_judge_path(const struct req *r, const struct conf *conf, const struct conf_route *route)
{
    const struct conf_route *other;
    struct slice path = http_path(r->head);
    char *room;

    if (req_path_is_plain(path))
        return 0;
    room = arena_alloc(&r->x->arena, path.len + 2);
    if (room == NULL)
        return TERR_NOMEM;
    other = route_match(r, conf, req_path_normal(path, room));
    return other != route && (route_acts(route) || route_acts(other)) ? TERR_SYNTAX : 0;
}

const struct conf_route *
req_route(const struct req *r, unsigned *number)
{
    const struct backend_snapshot *u = req_snapshot(r);
    const struct conf_route *route = u != NULL ? req_match_route(r, snapshot_conf(u)) : NULL;

    if (route != NULL)
        *number = (unsigned)(route - snapshot_conf(u)->routes) + 1;
    return route;
}

struct director *
req_backend(const struct req *r)
{
    const struct backend_snapshot *u = req_snapshot(r); /* once: others may be adopted meanwhile */
    const struct conf_route *route = u != NULL ? req_match_route(r, snapshot_conf(u)) : NULL;

    /* A route without a backend leaves the choice to the policy; without a policy the loader gave
     * it one. */
    if (route != NULL && (route->backend != CONF_NO_BACKEND || req_fetch_policy(r) == NULL))
        return snapshot_nth(u, route->backend);
    return req_fetch_policy(r) != NULL ? r->backend
                                       : snapshot_nth(u, snapshot_conf(u)->default_backend);
}

bool
req_route_pipes(const struct req *r)
{
    unsigned number;
    const struct conf_route *route = req_route(r, &number);

    return route != NULL && route->pipe;
}

enum conf_compress_extent
req_compress(const struct req *r)
{
    const struct backend_snapshot *u = req_snapshot(r);

    if (u == NULL || !snapshot_conf(u)->compresses)
        return CONF_COMPRESS_OFF;
    return conf_compress_extent(snapshot_conf(u), req_match_route(r, snapshot_conf(u)));
}

/* --- what it does to the request --- */

/* The actions of the route that the request came by, if it has any.  With `hold` the configuration
 * is held, for a request that outlives this turn; without, it is borrowed. */
int
req_take_rules(struct req *r, bool hold)
{
    struct backend_snapshot *u = registry_snapshot(r->proxy->registry);
    struct conf_page page;
    const struct conf_route *route = req_listener_route(r, snapshot_conf(u), &page);
    bool is_listener = route != NULL;
    struct req_rules *rules;
    int err = 0;

    if (!is_listener) {
        route = req_match_route(r, snapshot_conf(u));
        err = route_judge_path(r, snapshot_conf(u), route);
    }
    tassert_slow(req_rules(r) == NULL); /* once a request: those of the route that it came by */
    if (err != 0 || !route_acts(route))
        return err;
    rules = arena_alloc(&r->x->arena, sizeof(*rules));
    if (rules == NULL)
        return TERR_NOMEM;
    *rules = (struct req_rules){
        /* Borrowed, it lives until this turn ends (RCU); a reload may replace it in the next. */
        .held = hold ? snapshot_hold(u) : NULL,
        .snapshot = u,
        .route = route,
        .number = is_listener ? 0 : (unsigned)(route - snapshot_conf(u)->routes) + 1,
        .page = page,
    };
    r->rules = rules;
    r->attended |= REQ_HAS_RULES;
    return 0;
}

/* A snapshot that was only borrowed is not dropped. */
void
req_end_rules(struct req *r)
{
    if (req_rules(r) != NULL && r->rules->held != NULL)
        snapshot_drop(&r->rules->held);
}

/* Some of its cookies are not for this route (RFC 6265 4.2.1). */
static int
route_strip_cookies(struct req *r, const struct conf_names *names)
{
    const struct http_message *h = r->head;
    const struct http_field *f = NULL;
    /* "a;b" becomes "a; b": a byte more for each pair, which has one at least. */
    size_t room = 2 * (size_t)h->len, len = 0;
    char *kept = arena_alloc(&r->x->arena, room);
    bool some = false;
    int err;

    if (kept == NULL)
        return TERR_NOMEM;
    while ((f = http_find(h, HTTP_F_COOKIE, f)) != NULL) {
        struct slice rest = http_value(h, f), pair;

        while (cookie_next(&rest, &pair)) {
            if (conf_names_match(names, cookie_name(pair))) {
                some = true;
                continue;
            }
            /* All Cookie fields become one: that is what a client sends (RFC 6265 5.4). */
            if (len > 0) {
                memcpy(kept + len, "; ", 2);
                len += 2;
            }
            tassert(len + pair.len <= room);
            memcpy(kept + len, pair.ptr, pair.len);
            len += pair.len;
        }
    }
    /* The head stays as it came: an edit would copy it. */
    if (!some)
        return 0;
    err = req_edit(r);
    if (err == 0 && len > 0)
        return message_edit_set(
            r->policy.req, SLICE_LIT("Cookie"), HTTP_F_COOKIE, slice_of(kept, len));
    if (err == 0)
        message_edit_unset(r->policy.req, SLICE_LIT("Cookie"), HTTP_F_COOKIE);
    return err;
}

/* Neither the key nor the backend sees them. */
static int
route_strip_query(struct req *r, const struct conf_names *names)
{
    struct slice path = http_path(r->head);
    const char *mark = memchr(path.ptr, '?', path.len), *end = path.ptr + path.len, *at = mark;
    char *out = arena_alloc(&r->x->arena, path.len + 1);
    size_t len = mark != NULL ? (size_t)(mark - path.ptr) : 0, head = len;
    bool some = false;
    int err;

    if (out == NULL)
        return TERR_NOMEM;
    if (mark == NULL)
        return 0;
    memcpy(out, path.ptr, len);
    while (at < end) {
        /* `at` stands on the ? or & before the parameter. */
        const char *next = memchr(at + 1, '&', (size_t)(end - at - 1)), *name = at + 1, *equal;

        next = next != NULL ? next : end;
        equal = memchr(name, '=', (size_t)(next - name));
        if (conf_names_match(
                names, slice_of(name, (size_t)((equal != NULL ? equal : next) - name)))) {
            some = true;
        } else {
            /* The first that is kept takes the question mark, whichever parameter had it. */
            out[len] = len == head ? '?' : '&';
            memcpy(out + len + 1, name, (size_t)(next - name));
            len += (size_t)(next - name) + 1;
        }
        at = next;
    }
    tassert_slow(len <= path.len); /* what is left out is not longer than what was there */
    if (!some)
        return 0;
    err = req_edit(r);
    return err != 0 ? err : message_edit_path(r->policy.req, slice_of(out, len));
}

/* Unset, set, add, in this order: a field that is unset can be written anew. */
static int
route_edit_fields(struct message_edit *e, const struct conf_fields *fields)
{
    int err = 0;

    for (unsigned i = 0; i < fields->nunset; i++) {
        struct slice name = slice_str(fields->unset[i].name);

        message_edit_unset(e, name, http_field_id(name.ptr, name.len));
    }
    for (unsigned i = 0; i < fields->nset && err == 0; i++) {
        struct slice name = slice_str(fields->set[i].name);

        err = message_edit_set(
            e, name, http_field_id(name.ptr, name.len), slice_str(fields->set[i].value));
    }
    for (unsigned i = 0; i < fields->nadd && err == 0; i++) {
        struct slice name = slice_str(fields->add[i].name);

        err = message_edit_add(
            e, name, http_field_id(name.ptr, name.len), slice_str(fields->add[i].value));
    }
    return err;
}

/* Most routes have none: their heads are not copied for an edit. */
static bool
route_has_fields(const struct conf_fields *f)
{
    return f->nunset + f->nset + f->nadd > 0;
}

int
req_apply_rules(struct req *r)
{
    const struct conf_route *route = r->rules->route;
    int err = 0;

    tassert_slow(req_rules(r) != NULL);
    /* Before the key is made and a policy asked: from here on the request is without them. */
    if (route->strip_cookies.n > 0 || route->strip_cookies.all)
        err = route_strip_cookies(r, &route->strip_cookies);
    if (err == 0 && (route->strip_query.n > 0 || route->strip_query.all))
        err = route_strip_query(r, &route->strip_query);
    /* Before the route's own fields, which may set another Authorization for the backend. */
    if (err == 0 && route->basic_auth.said && !route->basic_auth.forward &&
        http_has(r->head, HTTP_F_AUTHORIZATION)) {
        err = req_edit(r);
        if (err == 0)
            message_edit_unset(r->policy.req, SLICE_LIT("Authorization"), HTTP_F_AUTHORIZATION);
    }
    if (err == 0 && route_has_fields(&route->request_headers)) {
        err = req_edit(r);
        if (err == 0)
            err = route_edit_fields(r->policy.req, &route->request_headers);
    }
    r->passes = route->pass != 0;
    return err;
}

/* --- what it answers itself --- */

/* HEAD is allowed where GET is: it is a GET without the body (RFC 9110 9.3.2). */
static bool
route_allows(const struct conf_route *route, const struct http_message *h)
{
    const struct conf_names *m = &route->methods;

    return m->n == 0 || conf_names_match(m, http_slice(h, h->method_off, h->method_len)) ||
           (h->method == HTTP_M_HEAD && conf_names_match(m, SLICE_LIT("GET")));
}

/* RFC 9110 15.5.6: with the methods that are. */
static enum req_next
route_refuse_method(struct req *r)
{
    const struct conf_names *m = &r->rules->route->methods;
    struct slice get = SLICE_LIT("GET");
    bool heads = conf_names_match(m, get) && !conf_names_match(m, SLICE_LIT("HEAD"));
    size_t max = 32, len;
    char *out;

    /* The 32 are for ", HEAD" and the NUL, of which no name is. */
    for (unsigned i = 0; i < m->n; i++)
        max += strlen(m->list[i]) + 2;
    out = arena_alloc(&r->x->arena, max);
    if (out == NULL)
        return req_synth(r, 503, TERR_NOMEM);
    len = 0;
    for (unsigned i = 0; i < m->n; i++)
        len += (size_t)snprintf(out + len, max - len, "%s%s", i > 0 ? ", " : "", m->list[i]);
    len += (size_t)snprintf(out + len, max - len, "%s", heads ? ", HEAD" : "");
    tassert(len < max);
    tassert(r->rules->name.len == 0);
    r->rules->name = SLICE_LIT("Allow");
    r->rules->value = slice_of(out, len);
    return req_synth(r, 405, 0);
}

bool
req_is_redirected(const struct req *r)
{
    const struct conf_redirect *to = &r->rules->route->redirect;

    return to->to != NULL && !(to->unless_https && r->x->scheme == HTTP_SCHEME_HTTPS);
}

/* Where `*to` stands: a name's value, or one byte as it is. */
static struct slice
route_expand_one(const struct req *r, const char **to)
{
    struct slice path = http_path(r->x->head.path_len > 0 ? &r->x->head : r->head);
    const char *query = memchr(path.ptr, '?', path.len), *at = *to;

    if (strncmp(at, "$host", 5) == 0) {
        *to += 5;
        return route_host(http_host(&r->x->head));
    }
    if (strncmp(at, "$uri", 4) == 0) {
        *to += 4;
        return slice_of(path.ptr, query != NULL ? (size_t)(query - path.ptr) : path.len);
    }
    if (strncmp(at, "$request_uri", 12) == 0) {
        *to += 12;
        return path;
    }
    *to += 1;
    return slice_of(at, 1);
}

static enum req_next
route_redirect(struct req *r)
{
    const struct conf_redirect *how = &r->rules->route->redirect;
    const struct http_message *h = &r->x->head;
    size_t len = 0, max = 32;
    char *out;

    if (h->authority_len == 0 && strstr(how->to, "$host") != NULL)
        return req_synth(r, 400, TERR_SYNTAX); /* HTTP/1.0: there is no address to send it to */
    /* First measured, then written: a name's value may be as long as a head. */
    for (const char *to = how->to; *to != '\0';)
        max += route_expand_one(r, &to).len;
    out = arena_alloc(&r->x->arena, max);
    if (out == NULL)
        return req_synth(r, 503, TERR_NOMEM);
    for (const char *to = how->to; *to != '\0';) {
        struct slice s = route_expand_one(r, &to);

        tassert(len + s.len <= max);
        memcpy(out + len, s.ptr, s.len);
        len += s.len;
    }
    tassert(r->rules->name.len == 0);
    r->rules->name = SLICE_LIT("Location");
    r->rules->value = slice_of(out, len);
    return req_synth(r, (unsigned)how->status, 0);
}

/* RFC 7617 2.  charset: passwords are hashed in the file as UTF-8 (RFC 7617 2.1). */
static enum req_next
route_unauthorized(struct req *r)
{
    const char *realm = r->rules->route->basic_auth.realm;
    size_t max = strlen(realm) + 64;
    char *out = arena_alloc(&r->x->arena, max);

    if (out == NULL)
        return req_synth(r, 503, TERR_NOMEM);
    r->rules->name = SLICE_LIT("WWW-Authenticate");
    r->rules->value =
        slice_of(out, (size_t)snprintf(out, max, "Basic realm=\"%s\", charset=\"UTF-8\"", realm));
    return req_synth(r, 401, 0);
}

/* An unknown user's password is computed with the hash of another one: else the time of the answer would
 * tell which users there are.  Always the same one, for hashes of a file may differ in what they cost. */
static void
route_find_user(const struct conf_auth *auth, struct auth_claim *claim)
{
    struct slice user = claim->user;

    claim->hash = conf_auth_find(auth, user);
    claim->known = claim->hash != NULL;
    tassert(auth->n > 0);
    if (!claim->known)
        claim->hash = auth->users[hash_bytes(user.ptr, user.len).lo % auth->n].hash;
}

/* 1: yes; 0: no; TERR_AGAIN: `wait` is armed; TERR_*. */
static int
route_authorized(struct req *r)
{
    struct slice value = http_get_one(r->head, HTTP_F_AUTHORIZATION);
    struct auth_claim claim;
    struct auth_check *check;
    char text[1024];
    int rc;

    /* The answer to this request's own question: in the table of verdicts another one may have
     * replaced it. */
    if (r->rules->check != NULL)
        return r->rules->check->good;
    if (value.ptr == NULL)
        return 0;
    /* Before the password is decoded: behind that there is one way out. */
    check = arena_alloc(&r->x->arena, sizeof(*check));
    if (check == NULL)
        return TERR_NOMEM;
    if (!auth_basic(value, (struct span){text, sizeof(text)}, &claim.user, &claim.password))
        return 0;
    route_find_user(&r->rules->route->basic_auth, &claim);
    rc = auth_ask(r->proxy->auth, check, &claim, &r->wait);
    if (rc == TERR_AGAIN) {
        counter_add(r->proxy->counters, COUNTER_auth_computed, 1);
        /* Only one that is queued can be cancelled, so only that is remembered. */
        r->rules->check = check;
    }
    /* The password in the clear does not stay on the stack. */
    explicit_bzero(text, sizeof(text));
    return rc;
}

/* REQ_MORE: it is answered; REQ_WAIT: wait, when `wait` is armed, else it may go on. */
static enum req_next
route_authenticate(struct req *r)
{
    int rc;

    if (waiter_pending(&r->wait))
        return REQ_WAIT;
    rc = route_authorized(r);
    if (rc == 0)
        return route_unauthorized(r);
    return rc == 1 || rc == TERR_AGAIN ? REQ_WAIT : req_synth(r, 503, rc);
}

bool
req_cancel_check(struct req *r)
{
    const struct req_rules *rules = req_rules(r);

    if (r->policy.purged != NULL)
        req_leave_purge(r);
    return rules != NULL && rules->check != NULL && auth_cancel(r->proxy->auth, rules->check);
}

/* ADMIT -- before vcl_recv: what the request's route says of it. */
enum req_next
req_do_admit(struct req *r)
{
    int err;

    tassert_slow(r->state == REQ_ADMIT);
    if (r->policy.hop)
        return req_hop_admit(r);
    tassert_slow(req_rules(r) != NULL);
    /* The order: a redirect to https comes before a password is asked for in the clear. */
    if (req_is_redirected(r))
        return route_redirect(r);
    if (r->rules->page.body.len > 0)
        return req_synth(r, 200, 0);
    if (!route_allows(r->rules->route, r->head))
        return route_refuse_method(r);
    if (r->rules->route->basic_auth.said) {
        if (r->early && req_is_early(r)) /* a password takes a hundred milliseconds to compute */
            return req_refuse_early(r);
        if (route_authenticate(r) == REQ_MORE)
            return REQ_MORE;
        if (waiter_pending(&r->wait))
            return REQ_WAIT;
    }
    err = req_apply_rules(r);
    if (err != 0)
        return req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    return req_goto(r, REQ_RECV);
}

/* --- what it does to the response --- */

const struct conf_page *
req_error_page(const struct req *r)
{
    const struct req_rules *rules = req_rules(r);
    const struct conf_page *page = rules != NULL ? &rules->route->error_page : NULL;

    if (rules != NULL && rules->page.body.len > 0)
        return &rules->page;
    if (page == NULL || page->body.ptr == NULL)
        return NULL;
    if (page->n == 0)
        return r->synth_status >= 500 ? page : NULL;
    for (unsigned i = 0; i < page->n; i++)
        if (page->status[i] == r->synth_status)
            return page;
    return NULL;
}

int
req_change_response(struct req *r)
{
    const struct conf_fields *fields = &r->rules->route->response_headers;
    int err;

    tassert_slow(req_rules(r) != NULL);
    tassert_slow(!r->head_sent);
    if (!route_has_fields(fields))
        return 0;
    err = req_edit_resp(r);
    if (err == 0)
        err = route_edit_fields(r->policy.resp, fields);
    r->policy.touched = true;
    return err;
}

void
req_start_ruled(void *ctx, struct exchange *x)
{
    struct req *r;
    int err;

    req_find_client(ctx, x);
    r = req_open(ctx, x);
    if (r == NULL)
        return;
    /* Held: a password or a policy may let the request wait past this turn.  A malformed request
     * has no path, and no route. */
    err = x->err == 0 ? req_take_rules(r, true) : 0;
    if (err != 0)
        req_synth(r, (unsigned)terr_http(err, TERR_SIDE_CLIENT), err);
    else if (x->err == 0)
        req_check_limits(r);
    req_note_early(r);
    /* Not by req_goto(): a request begins in one of two states, and has not been in the other. */
    if (r->state == REQ_RECV && req_rules(r) != NULL)
        r->state = REQ_ADMIT;
    req_run(&r->task);
}
