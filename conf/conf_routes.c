/* conf_routes.c -- routes: which requests they are for, and what serves those. */
#include <ctype.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

bool
conf_host_matches(const char *pattern, struct slice host)
{
    size_t len = strlen(pattern);

    if (len == 0)
        return true;
    if (pattern[0] == '*') { /* "*.example.com": at least one byte before ".example.com" */
        pattern++;
        len--;
        /* example.com itself is not below example.com. */
        if (host.len <= len)
            return false;
        host = slice_of(host.ptr + host.len - len, len);
    }
    return slice_eq_nocase(host, slice_of(pattern, len));
}

/* Only what is certain: a wildcard may cover a host, a host never a wildcard.  The first route
 * that matches serves, so one that is covered by an earlier one is dead. */
static bool
routes_covers(const struct conf_route *a, const struct conf_route *b)
{
    return (strcmp(a->host, b->host) == 0 || conf_host_matches(a->host, slice_str(b->host))) &&
           strncmp(a->path, b->path, strlen(a->path)) == 0;
}

/* Decides which function starts requests (req_start_of): without any a hit pays nothing. */
static bool
routes_acts(const struct conf_route *r)
{
    return r->ttl.said || r->grace.said || r->pass || r->strip_cookies.n > 0 ||
           r->strip_cookies.all || r->strip_query.n > 0 || r->strip_query.all || r->methods.n > 0 ||
           r->request_headers.nunset + r->request_headers.nset + r->request_headers.nadd > 0 ||
           r->response_headers.nunset + r->response_headers.nset + r->response_headers.nadd > 0 ||
           r->redirect.to != NULL || r->rate.n > 0 || r->error_page.body.ptr != NULL ||
           r->basic_auth.said || r->dictionary[0] != '\0';
}

/* Keys that would change nothing. */
static void
routes_check(struct conf_cx *cx, const struct ynode *at, const struct conf_route *r)
{
    static const char *const stored[] = {"ttl", "grace"};

    for (unsigned i = 0; i < ARRAY_LEN(stored); i++) {
        const struct ynode *n = ynode_get(at, stored[i]);

        if (n != NULL && r->pass)
            conf_fail(cx, n->key,
                "key '%s' is for stored responses, and 'pass' stores none: "
                "leave out one of the two",
                stored[i]);
    }
    if (r->compress.on && r->redirect.to != NULL && !r->redirect.unless_https)
        conf_fail(cx, ynode_get(at, "compress")->key,
            "key 'compress' is never used: this route answers every request with a redirect");
    /* A redirect to https lets https through: that needs a backend. */
    if (r->redirect.to != NULL && !r->redirect.unless_https && r->backend != CONF_NO_BACKEND)
        conf_fail(cx, ynode_get(at, "backend")->key,
            "key 'backend' is never used: this route answers every request with a redirect");
}

/* Backends and directors are known by name here.  Limits and the default backend are looked up by
 * conf_routes_finish(), when all sections have been read. */
void
conf_routes_read(struct conf_cx *cx, const struct ynode *n)
{
    struct conf *conf = cx->conf;
    unsigned i = 0, errors;

    conf->routes = conf_alloc(cx, cx->keep, n->nchildren, sizeof(*conf->routes));
    if (conf->routes == NULL)
        return;
    for (const struct ynode *c = n->children; c != NULL && !cx->nomem; c = c->next, i++) {
        struct conf_route *r = &conf->routes[i];
        unsigned before = 0;

        tassert(i < n->nchildren);
        errors = cx->nerrors;
        conf_keys_read(cx, conf_section_find("routes"), c, "a route", r);
        if (c->cut || cx->nerrors > errors)
            r->host = "!"; /* no host: a half-read route covers nothing */
        else
            routes_check(cx, c, r);
        while (before < i && !routes_covers(&conf->routes[before], r))
            before++;
        if (before < i && !c->cut && cx->nerrors == errors)
            conf_fail(cx, c, "this route is never reached: route %u matches all that it does",
                before + 1);
        r->acts = routes_acts(r);
        conf->routes_act = conf->routes_act || r->acts;
    }
    conf->nroutes = n->nchildren;
}

/* Names become numbers: a bit for each. */
static void
routes_find_limits(struct conf_cx *cx, const struct ynode *at, struct conf_route *r)
{
    const struct conf *conf = cx->conf;
    const struct ynode *list = ynode_get(at, "rate");

    tassert(conf->nlimits <= CONF_LIMITS_MAX); /* bits of r->limits */
    tassert(r->limits == 0);
    for (const struct ynode *c = list != NULL ? list->children : NULL; c != NULL; c = c->next) {
        struct conf_guess guess = {.meant = c->text};
        unsigned i = 0;

        for (; i < conf->nlimits && !slice_eq(c->text, slice_str(conf->limits[i].name)); i++)
            /* A limit without a name counts by host and path, and cannot be meant. */
            if (conf->limits[i].name[0] != '\0')
                conf_guess_try(&guess, conf->limits[i].name);
        if (i < conf->nlimits)
            r->limits |= UINT64_C(1) << i;
        else if (guess.best != NULL)
            conf_fail(cx, c, "rate: '%s' is the name of no limit; did you mean '%s'?", c->text.ptr,
                guess.best);
        else
            conf_fail(cx, c, "rate: '%s' is the name of no limit: give one of `limits` this name",
                c->text.ptr);
    }
}

/* One that nothing counts by was meant otherwise. */
static void
routes_check_limits(struct conf_cx *cx, const struct ynode *root)
{
    const struct ynode *list = ynode_get(root, "limits"), *c = list != NULL ? list->children : NULL;
    const struct conf *conf = cx->conf;
    uint64_t named = 0;

    for (unsigned i = 0; i < conf->nroutes; i++)
        /* All routes first: any of them may name it. */
        named |= conf->routes[i].limits;
    for (unsigned i = 0; i < conf->nlimits && c != NULL; i++, c = c->next) {
        const struct conf_limit *l = &conf->limits[i];

        for (unsigned j = 0; j < i && l->name[0] != '\0'; j++)
            if (strcmp(conf->limits[j].name, l->name) == 0)
                conf_fail(cx, c, "limit %u has the name '%s', too", j + 1, l->name);
        if (l->name[0] != '\0' && (named >> i & 1) == 0)
            conf_fail(cx, c,
                "no route names the limit '%s', so it has no effect: give a route "
                "`rate: [%s]`, or leave out the name",
                l->name, l->name);
    }
}

/* A policy may name the backend of requests that no route gives one. */
void
conf_routes_finish(struct conf_cx *cx, const struct ynode *root)
{
    const struct ynode *list = ynode_get(root, "routes"), *c = list != NULL ? list->children : NULL;
    struct conf *conf = cx->conf;

    for (unsigned i = 0; i < conf->nroutes && c != NULL; i++, c = c->next) {
        struct conf_route *r = &conf->routes[i];
        bool answers = r->redirect.to != NULL && !r->redirect.unless_https;

        tassert(c->kind == YNODE_MAP); /* the nodes and the routes go in step */
        routes_find_limits(cx, c, r);
        if (r->backend != CONF_NO_BACKEND || answers)
            continue;
        r->backend = conf->default_backend;
        /* A policy may choose one for each request. */
        if (r->backend == CONF_NO_BACKEND && conf->vcl[0] == '\0')
            conf_fail(cx, c,
                "a route has no 'backend', and no backend is the default: give it "
                "one, or name one of the backends default");
    }
    routes_check_limits(cx, root);
}
